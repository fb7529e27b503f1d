"""Rows that change their keys: in any order within a transaction, and with columns left out.

The oracle of the property tests knows no events and no keys' lives: it is the table itself, a set
of rows, to which each transaction does what it does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from conftest import SCHEMA, Lake, Project
from histories import EXAMPLES, as_row, assert_same_history, fewer_checks, stream_columns
from reference import Change, Row, history
from strategies import START, Stream, seq

KEY = ["case_no", "id"]
TYPES = {"case_no": "int", "id": "int", "a": "string", "lob": "string"}
COLUMNS = list(TYPES)


@dataclass
class Table:
    """A table whose rows change their keys, and its change stream.

    `lob` is not captured where it did not change, in no image; of rows that the stream has not
    shown yet nobody knows it.
    """

    source: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    transaction: int = 0
    has_lookalikes: bool = False
    # After each transaction its last place, and the rows that the stream has shown.
    states: list[tuple[str, list[Row]]] = field(default_factory=list)

    def add(self, operation: Any, before: Row | None, after: Row | None, lob: bool = False) -> None:
        absent = ["lob"] if after is not None and operation == "update" and not lob else None
        number = len(self.changes) + 1
        self.changes.append(
            Change(
                change_id=f"c{self.source.random()}",
                change_seq=seq(number),
                operation=operation,
                before=None if before is None else {**before, "lob": None},
                after=None if after is None else {**after, "lob": None if absent else after["lob"]},
                absent_columns=absent,
                changed_at=START + timedelta(minutes=self.transaction),
                transaction_id=f"tx{self.transaction}",
            )
        )

    def insert(self) -> None:
        key = self.source.randrange(8)
        if key not in self.rows:
            self.rows[key] = self.row(key)
            self.seen.add(key)
            self.add("insert", None, self.rows[key])

    def row(self, key: int) -> Row:
        source = self.source
        a = source.choice(["x", "x", None] if self.has_lookalikes else ["x", "x", "y", None])
        return {"id": key, "a": a, "lob": source.choice(["p", "q", None])}

    def update(self) -> None:
        if not self.rows:
            return
        old = self.source.choice(list(self.rows.values()))
        new = {**old, "a": self.source.choice(["x", None] if self.has_lookalikes else "xyz")}
        has_lob = self.source.random() < 0.3
        if has_lob:
            new["lob"] = self.source.choice(["r", "s", None])
        self.rows[old["id"]] = new
        self.seen.add(old["id"])
        self.add("update", old, new, has_lob)

    def delete(self) -> None:
        if self.rows:
            row = self.rows.pop(self.source.choice(list(self.rows)))
            self.seen.discard(row["id"])
            self.add("delete", row, None)

    def move(self) -> None:
        """Give some rows other keys in one statement, written in any order."""
        source = self.source
        movers = [row for row in self.rows.values() if source.random() < 0.7]
        free = [key for key in range(8) if key not in self.rows]
        targets = [row["id"] for row in movers] + free
        if source.random() < 0.4 and movers:
            source.shuffle(targets)
        else:  # each one further, the last to a free key
            targets = targets[1:] + targets[:1]
        pairs = [(o, {**o, "id": k}) for o, k in zip(movers, targets, strict=False) if o["id"] != k]
        as_pairs = source.random() < 0.25
        seen = {new["id"] for old, new in pairs}
        for old, _ in pairs:
            del self.rows[old["id"]]
        self.seen -= {old["id"] for old, _ in pairs}
        source.shuffle(pairs)
        for old, new in pairs:
            self.rows[new["id"]] = new
            if as_pairs:
                self.add("delete", old, None)
                self.add("insert", None, new)
            else:
                self.add("update", old, new)
        self.seen |= seen

    def commit(self) -> None:
        if self.changes:
            shown = [self.rows[key] for key in sorted(self.seen)]
            self.states.append((self.changes[-1].change_seq, shown))
        self.transaction += 1


def table(seed: int) -> Table:
    """Make a table that some transactions have changed."""
    source = random.Random(seed)
    made = Table(source, has_lookalikes=source.random() < 0.5)
    # Rows from before the stream began: their values differ, and their lob is unknown.
    for key in range(source.choice([0, 0, 3])):
        made.rows[key] = {"id": key, "a": f"old {key}", "lob": None}
    weights = [5, 1, 1, 8] if made.has_lookalikes else [5, 3, 2, 6]
    for _ in range(source.randint(2, 6)):
        for _ in range(source.randint(1, 4)):
            getattr(made, source.choices(["insert", "update", "delete", "move"], weights)[0])()
        made.commit()
    return made


def state_at(versions: list[Row], place: str) -> list[Row]:
    """Return the rows that existed after a place."""
    return [
        {name: row[name] for name in ("id", "a", "lob")}
        for row in versions
        if row["valid_from_seq"] <= place
        and (row["valid_to_seq"] is None or place < row["valid_to_seq"])
    ]


@given(seed=st.integers(0, 2**32))
@hypothesis_settings(max_examples=1000, deadline=None)
def test_after_each_transaction_the_history_has_the_tables_rows(seed: int) -> None:
    made = table(seed)
    versions = history(made.changes, ["id"], ["id", "a", "lob"])
    for place, rows in made.states:
        assert sorted(state_at(versions, place), key=str) == sorted(rows, key=str)


@dataclass(frozen=True)
class Tables:
    """Many tables in one, each a separate case, and the run in which each change arrives."""

    stream: Stream
    states: list[tuple[int, str, list[Row]]]
    runs: list[list[Change]]


def tables(seed: int, cases: int, in_order: bool) -> Tables:
    """Make many tables, their changes spread over three runs: in order, or in any order."""
    source = random.Random(seed)
    changes: list[Change] = []
    states = []
    runs: list[list[Change]] = [[], [], []]
    for case in range(cases):
        made = table(source.randrange(2**32))
        ends = sorted(source.choices(range(len(made.changes) + 1), k=2))
        for number, change in enumerate(made.changes):
            moved = replace(
                change,
                change_id=f"{case}-{change.change_id}",
                change_seq=seq(case * 1000 + number + 1),
                before=None if change.before is None else {"case_no": case, **change.before},
                after=None if change.after is None else {"case_no": case, **change.after},
                transaction_id=f"{case}-{change.transaction_id}",
            )
            changes.append(moved)
            runs[sum(number >= end for end in ends) if in_order else source.randrange(3)].append(
                moved
            )
        for place, rows in made.states:
            number = int(place) - int(seq(0))
            shown = [{"case_no": case, **row} for row in rows]
            states.append((case, seq(case * 1000 + number), shown))
    return Tables(Stream(KEY, COLUMNS, TYPES, changes), states, runs)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("key_changes")


@pytest.mark.parametrize("in_order", [pytest.param(True, marks=pytest.mark.minutes), False])
@pytest.mark.minutes
@given(seed=st.integers(0, 2**32))
@hypothesis_settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_runs_that_split_transactions_give_the_rows_of_the_table_after_each(
    in_order: bool, seed: int, project: Project, lake: Lake
) -> None:
    made = tables(seed, cases=40, in_order=in_order)
    project.history("moved_history", f"{SCHEMA}.moved_changes", KEY)
    taken_in: list[Change] = []
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(made.runs):
        taken_in += run
        arrived = {"ingested_at": datetime(2024, 1, 1) + timedelta(hours=number)}
        rows += [as_row(change, made.stream) | arrived for change in run]
        lake.create("moved_changes", stream_columns(made.stream), rows)
        project.dbt("run", *(["--full-refresh"] if number == 0 else []))
        actual = lake.rows(f"select * from {SCHEMA}.moved_history")
        assert_same_history(
            actual, history(taken_in, KEY, COLUMNS), replace(made.stream, changes=list(taken_in))
        )
    for case, place, expected in made.states:
        of_case = [row for row in actual if row["case_no"] == case]
        found = [{"case_no": case, **row} for row in state_at(of_case, place)]
        assert sorted(found, key=str) == sorted(expected, key=str), (case, place)
