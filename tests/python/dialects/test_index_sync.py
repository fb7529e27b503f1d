"""What a text index on a capture table must take in, beside the rows that the table really has."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Lake, Project, relation
from dialect_db2 import DB2_HEADER, Db2Style
from histories import EXAMPLES, fewer_checks
from reference import Row

# What the table held when the capture began: nothing; rows that are in the capture table as
# full-load rows; or rows that are not in it.
Beginning = Literal["nothing", "loaded", "unseen"]

DATA = {"case_no": "int", "id": "int", "a": "string", "b": "string"}
CASES = 150
ROUNDS = 4
KEYS = range(1, 7)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("index_sync")


# --- a table of rows, and what Capture writes of its transactions -------------------------------


@dataclass
class Table:
    """The rows of one case by key, and the log of what happened to them, a row at a time."""

    case: int
    style: Db2Style
    values: list[str | None]  # with one value, all rows look alike
    source: random.Random
    rows: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)
    commit: int = 0

    def transaction(self, commit: int) -> None:
        """Do a few statements and commit them."""
        self.commit = commit
        statements: list[Callable[[], None]] = [self.insert, self.delete, self.change, self.pass_by]
        statements += [self.move_all, self.move_all, self.trade, self.travel]
        for _ in range(self.source.choice([1, 1, 2, 3])):
            self.source.choice(statements)()

    def insert(self) -> None:
        key = self.free_key()
        self.rows[key] = self.row()
        self.write("I", key, self.rows[key])

    def delete(self, key: int | None = None) -> None:
        key = self.some_keys(1)[0] if key is None and self.rows else key
        if key is not None:
            self.write("D", key, self.rows[key], key, self.rows.pop(key))

    def change(self) -> None:
        self.update({key: key for key in self.some_keys(self.source.randint(1, 3))})

    def pass_by(self) -> None:
        """Insert a row and delete it."""
        key = self.free_key()
        self.rows[key] = self.row()
        self.write("I", key, self.rows[key])
        self.delete(key)

    def move_all(self) -> None:
        """Do `update … set id = id + 1`, or `- 1`, perhaps of some rows only."""
        step = self.source.choice([1, -1])
        keys = set(self.rows if self.source.random() < 0.5 else self.some_keys(3))
        while any(key + step in self.rows and key + step not in keys for key in keys):
            keys |= {key + step for key in keys if key + step in self.rows}
        self.update({key: key + step for key in keys})

    def trade(self) -> None:
        """Let rows take each other's keys, in a ring, within one statement."""
        keys = self.some_keys(self.source.randint(2, 3))
        self.update(dict(zip(keys, keys[1:] + keys[:1], strict=True)))

    def travel(self) -> None:
        """Move one row over several keys, a statement each; or swap two rows by a third key."""
        keys = self.some_keys(2)
        if len(keys) == 2 and self.source.random() < 0.5:
            spare = self.free_key()
            self.update({keys[0]: spare})
            self.update({keys[1]: keys[0]})
            self.update({spare: keys[1]})
            return
        for key in keys[:1]:
            for _ in range(self.source.randint(1, 3)):
                target = self.free_key()
                self.update({key: target})
                key = target

    def update(self, moves: dict[int, int]) -> None:
        """Update rows in one statement, which takes them in any order."""
        before = {key: self.rows.pop(key) for key in moves}
        assert not self.rows.keys() & moves.values()
        for key in self.source.sample(sorted(moves), len(moves)):
            is_as_before = self.source.random() < 0.5
            row = before[key] if is_as_before else self.row()
            self.rows[moves[key]] = row
            if self.style == "single":
                self.write("U", moves[key], row, key, before[key])
            else:
                self.write("D", key, before[key])
                self.write("I", moves[key], row)

    def row(self) -> tuple[Any, Any]:
        return self.source.choice(self.values), self.source.choice(self.values)

    def some_keys(self, number: int) -> list[int]:
        return self.source.sample(sorted(self.rows), min(number, len(self.rows)))

    def free_key(self) -> int:
        free = [key for key in KEYS if key not in self.rows]
        return self.source.choice(free or [max(self.rows) + 1])

    def write(
        self,
        letter: str,
        key: int,
        row: tuple[Any, Any],
        old_key: int | None = None,
        before: tuple[Any, Any] = (None, None),
    ) -> None:
        size = self.source.choice([10, 16])
        self.log.append(
            {
                "IBMSNAP_COMMITSEQ": self.commit.to_bytes(size, "big"),
                "IBMSNAP_INTENTSEQ": (len(self.log) + 1).to_bytes(size, "big"),
                "IBMSNAP_OPERATION": letter,
                "IBMSNAP_LOGMARKER": datetime(2024, 1, 1),
                **dict(zip(DATA, (self.case, key, *row), strict=True)),
                "Xcase_no": None if old_key is None else self.case,
                "Xid": old_key,
                **dict(zip(("Xa", "Xb"), before, strict=True)),
            }
        )


def columns_of(style: Db2Style, beginning: Beginning) -> dict[str, str]:
    marker = {"IBMSNAP_LOGMARKER": "timestamp"} if beginning == "loaded" else {}
    before = {f"X{name}": kind for name, kind in DATA.items()} if style == "single" else {}
    return {**DB2_HEADER, **marker, **DATA, **before}


def commit_of(row: Row) -> int:
    return int.from_bytes(row["IBMSNAP_COMMITSEQ"], "big")


def touched_keys(row: Row) -> set[tuple[int, int]]:
    keys = {(row["case_no"], row["id"])}
    return keys if row["Xid"] is None else keys | {(row["case_no"], row["Xid"])}


@pytest.mark.slow
@pytest.mark.parametrize("style", ["pairs", "single"])
@pytest.mark.parametrize("beginning", ["nothing", "loaded", "unseen"])
@given(seed=st.integers(0, 2**32))
@settings(fewer_checks, max_examples=max(2, EXAMPLES // 2))
def test_the_index_has_the_rows_that_the_table_has(
    style: Db2Style, beginning: Beginning, seed: int, project: Project, lake: Lake
) -> None:
    """Each touched key is written if the table has a row there, and else deleted.

    Capture prunes its tables, and does not know the rows that were there before it began. Then the
    rows may leave open whether a key that a commit took and left had a row before. Only such a key
    may be written without a row; no key with a row may ever be deleted.
    """
    source = random.Random(seed)
    cases: list[Table] = []
    log: list[Row] = []
    # Of each key the ends of commits at which it had a row; 0 is the beginning.
    lived: dict[tuple[int, int], set[int]] = {}
    for number in range(CASES):
        values: list[str | None] = ["x"] if source.random() < 0.7 else ["x", "y", None]
        case = Table(number, style, values, source)
        if beginning != "nothing":
            case.rows = {key: case.row() for key in KEYS if source.random() < 0.5}
        for key, row in case.rows.items():
            lived.setdefault((number, key), set()).add(0)
            if beginning == "loaded":
                case.write("I", key, row)
        cases.append(case)
    for commit in range(1, ROUNDS * CASES + 1):
        case = cases[commit % CASES]
        case.transaction(commit)
        for key in case.rows:
            lived.setdefault((case.case, key), set()).add(commit)
    if beginning == "unseen":
        # One row that certainly was there before the capture: it is updated by each commit.
        witness = Table(CASES, style, ["x"], source, {1: ("x", "x")})
        for commit in range(1, ROUNDS + 1):
            witness.commit = commit * CASES + 1
            witness.update({1: 1})
        cases.append(witness)
        lived[CASES, 1] = {0}
    synchpoint = source.choice([None, *range(CASES, ROUNDS * CASES, CASES)])
    pruned = source.choice([0, *range(CASES, (synchpoint or 0) + 1, CASES)])
    pruned = 0 if beginning == "loaded" else pruned

    log = [row for case in cases for row in case.log if not 0 < commit_of(row) <= pruned]
    landed = log + source.sample(log, len(log) // 10)
    source.shuffle(landed)
    lake.create("random_capture", columns_of(style, beginning), landed)
    last = None if synchpoint is None else f"{synchpoint:020X}"
    call = f"index_sync({relation('random_capture')}, unique_key=['case_no', 'id'], synchpoint="
    found = lake.rows(project.sql(f"{call}{last!r})".replace("None", "none")))

    unread = [row for row in log if synchpoint is None or commit_of(row) > synchpoint]
    touched = {key for row in unread for key in touched_keys(row)}
    present = {(case.case, key) for case in cases for key in case.rows}
    expected = {key: "upsert" if key in present else "delete" for key in touched}
    actions = {(row["case_no"], row["id"]): row["action"] for row in found}
    assert len(found) == len(actions)
    is_whole = beginning != "unseen" and not pruned
    open_keys = {
        key
        for key in touched - present
        if not is_whole and not any(at >= pruned for at in lived.get(key, ()))
    }
    wrong = {key for key in touched | actions.keys() if expected.get(key) != actions.get(key)}
    first = min(wrong - open_keys, default=None)
    assert first is None, (
        [row for row in log if first in touched_keys(row)],
        actions.get(first),
        expected.get(first),
        f"synchpoint {synchpoint}, pruned up to {pruned}",
    )
    assert {actions[key] for key in open_keys} <= {"upsert", "delete"}
    assert sum(row["source_rows"] for row in found) == sum(row in unread for row in landed)


# --- small cases --------------------------------------------------------------------------------

CD = {**DB2_HEADER, "id": "int", "Xid": "int"}
REGISTER = {"GLOBAL_RECORD": "string", "SYNCHPOINT": "binary", "CD_NEW_SYNCHPOINT": "binary"}


def capture(*commits: str) -> list[Row]:
    """Write commits such as `D1 I2 U2>3`, of a table whose only column is its key."""
    rows: list[Row] = []
    for commit, text in enumerate(commits, 1):
        for change in text.split():
            old, _, new = change[1:].partition(">")
            row = {"IBMSNAP_OPERATION": change[0], "id": int(new or old)}
            row |= {"Xid": int(old)} if change[0] == "U" else {}
            row |= {"IBMSNAP_COMMITSEQ": commit.to_bytes(10, "big")}
            rows.append(row | {"IBMSNAP_INTENTSEQ": (len(rows) + 1).to_bytes(10, "big")})
    return rows


def synced(project: Project, lake: Lake, rows: list[Row], arguments: str = "") -> dict[int, str]:
    lake.create("small_cd", CD, rows)
    call = f"index_sync({relation('small_cd')}, unique_key=['id']{arguments})"
    return {row["id"]: row["action"] for row in lake.rows(project.sql(call))}


NEXT = {1: "delete", 2: "upsert", 3: "upsert"}  # after `id = id + 1` over 1 and 2


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        pytest.param(["I1 I2", "D1 I2 D2 I3"], NEXT, id="pairs"),
        pytest.param(["I1 I2", "U1>2 U2>3"], NEXT, id="updates"),
        pytest.param(["D1 I2 D2 I3"], NEXT, id="rows from before the capture"),
        pytest.param(
            ["I1 I2 I3", "D3 I1 D1 I2 D2 I3"], dict.fromkeys((1, 2, 3), "upsert"), id="ring"
        ),
        # One row goes from 1 to 3, over 2, which nobody had.
        pytest.param(["I1", "U1>2 U2>3"], {**NEXT, 2: "delete"}, id="journey"),
        pytest.param(["U1>1", "U1>2 U2>1", "I2 D2"], {1: "upsert", 2: "delete"}, id="passer-by"),
    ],
)
def test_rows_that_look_alike(
    commits: list[str], expected: dict[int, str], project: Project, lake: Lake
) -> None:
    """Only the number of rows that come and leave can tell them apart."""
    assert synced(project, lake, capture(*commits)) == expected


@pytest.mark.parametrize(
    ("commits", "again"),
    [
        pytest.param(["I1 I2", "D1 I2 D2 I3"], 4, id="pairs"),
        pytest.param(["I1 I2", "U1>2 U2>3"], 3, id="updates"),
    ],
)
def test_a_row_that_comes_again_in_other_words_counts_once(
    commits: list[str], again: int, project: Project, lake: Lake
) -> None:
    """A CHAR is padded this time."""
    rows = [{**row, "name": "b", "Xname": "b"} for row in capture(*commits)]
    padded = {**rows[again], "name": "b  ", "Xname": "b  "}
    lake.create("padded_cd", {**CD, "name": "string", "Xname": "string"}, [*rows, padded])
    found = lake.rows(project.sql(f"index_sync({relation('padded_cd')}, unique_key=['id'])"))
    assert {row["id"]: row["action"] for row in found} == NEXT
    assert sum(row["source_rows"] for row in found) == len(rows) + 1


def test_load_rows_in_front_of_a_cd_table_count_with_a_column_for_their_time(
    project: Project, lake: Lake
) -> None:
    """As the docs say. Without it they are rejected."""
    loads = [{"IBMSNAP_OPERATION": "I", "id": key} for key in (1, 2)]
    rows = [*loads, *capture("D2 I3")]
    assert synced(project, lake, rows)[1] is None
    lake.create("marked_cd", {**CD, "IBMSNAP_LOGMARKER": "timestamp"}, rows)
    found = lake.rows(project.sql(f"index_sync({relation('marked_cd')}, unique_key=['id'])"))
    assert {row["id"]: row["action"] for row in found} == {1: "upsert", 2: "delete", 3: "upsert"}


@pytest.mark.slow
def test_commits_up_to_the_synchpoint_tell_which_keys_had_rows(
    project: Project, lake: Lake
) -> None:
    behind = f", synchpoint='{1:020X}'"
    # Both end in the same rows; only what was there before differs.
    assert synced(project, lake, capture("I1 I2", "D1 I2 D2 I3"), behind) == NEXT
    journey = {**NEXT, 2: "delete"}
    assert synced(project, lake, capture("I1", "D1 I2 D2 I3"), behind) == journey
    # The first commit has been pruned: key 2 may have a row, which the index must not lose.
    assert synced(project, lake, capture("I1", "D1 I2 D2 I3")[1:], behind) == NEXT


@pytest.mark.slow
def test_a_commit_that_capture_has_not_finished_waits(project: Project, lake: Lake) -> None:
    """The register's two columns tell how far Capture has come; the larger one counts."""

    def registered(*progress: tuple[int | None, int | None]) -> None:
        rows = [
            {
                "SYNCHPOINT": None if synchpoint is None else synchpoint.to_bytes(16, "big"),
                "CD_NEW_SYNCHPOINT": None if new is None else new.to_bytes(10, "big"),
            }
            for synchpoint, new in progress
        ]
        lake.create("capture_register", REGISTER, rows)

    rows = capture("I1", "I2", "I3 D1", "I4")
    bound = f", register={relation('capture_register')}"
    registered((2, None), (1, 3), (0, 1))
    captured = {1: "delete", 2: "upsert", 3: "upsert"}
    assert synced(project, lake, rows, bound) == captured
    later = f"{bound}, synchpoint='{1:020X}'"
    registered((None, None), (2, None), (None, 1))
    assert synced(project, lake, rows, later) == {2: "upsert"}
    registered((None, None))
    assert synced(project, lake, rows, bound) == {}
