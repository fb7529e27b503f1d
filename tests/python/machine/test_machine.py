"""What stands around the engine, in random order: landings, upkeep, options, and ends of runs.

A state machine of Hypothesis draws what happens to the tables of a small project between its runs,
and after each run compares them with the reference. What is right is written from the docs, never
from the macros: which changes each table knows, and what it then holds.

    AFTERIMAGE_SECONDS=3600 make test-machine

draws new examples for so long. `--hypothesis-seed` repeats a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from conftest import SCHEMA, DbtError, Lake, Project, relation
from dialect_qlik import HEADER, as_staged, landed_rows
from histories import in_order, jinja, text
from machines import Tables, search
from reference import META_COLUMNS, Change, Row, audit, current, history
from strategies import Options, Stream, merged_streams, options

RAW = "machine__ct"
STAGING, HISTORY, AUDIT, CURRENT = "stg_machine", "machine_history", "machine_audit", "machine_now"
MODELS = (STAGING, HISTORY, AUDIT, CURRENT)
some_models = st.lists(st.sampled_from(MODELS), min_size=1, unique=True).map(
    lambda chosen: [name for name in MODELS if name in chosen]
)


class Machine(Tables):
    """A raw table, its staging table, and what is made of that."""

    names = "*machine*"

    def __init__(self) -> None:
        super().__init__()
        self.stream: Stream
        self.changes: dict[str, Change] = {}
        # The changes, by their ids: not landed yet, in the raw table, and those that each table
        # knows. A table that does not exist yet is left out.
        self.ahead: list[str] = []
        self.held: set[str] = set()
        self.known: dict[str, set[str]] = {}
        self.options: Options

    # --- what happens between runs --------------------------------------------------------------

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Draw a source, and land some of its changes."""
        self.stream = data.draw(merged_streams(4, max_changes=8, honest=True, trades=True))
        # A rejected change has no row here.
        self.changes = {
            one.change_id: one for one in self.stream.distinct if one.reject_reason is None
        }
        self.ahead = sorted(self.changes)
        self.options = data.draw(options(self.stream))
        self.site.lake.create(RAW, self.columns, [])
        self.write_models()
        self.add_rows(self.drawn(data, self.ahead))

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        """Land further changes in any order, and some rows again."""
        again = self.drawn(data, sorted(self.held))[:2]
        self.add_rows([*self.drawn(data, self.ahead), *again])

    @rule()
    def compact(self) -> None:
        """Rewrite the files of the raw table."""
        self.rewrite_files(RAW)

    @rule()
    def expire(self) -> None:
        """Remove what only older versions of the raw table need."""
        self.expire_snapshots(RAW)

    @rule()
    def make_anew(self) -> None:
        """Drop the raw table, and create it with the same rows."""
        rows = self.rows_of(sorted(self.held))
        self.sql(f"drop table {SCHEMA}.{RAW}")
        self.site.lake.create(RAW, self.columns, rows)

    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        """Delete rows that staging has taken in, as retention does."""
        gone = self.drawn(data, sorted(self.held & self.known.get(STAGING, set())))
        places = {self.changes[one].change_seq for one in gone if self.changes[one].change_seq}
        if places:
            listed = ", ".join(f"'{place}'" for place in sorted(places))
            self.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq in ({listed})")
            self.held -= {k for k, one in self.changes.items() if one.change_seq in places}

    # --- runs -----------------------------------------------------------------------------------

    @rule(models=some_models)
    def run(self, models: list[str]) -> None:
        """Run some models."""
        models = self.runnable(models)
        if models:
            self.dbt("run", "--select", *models)
            self.take_in(models)
            self.compare(models)

    @rule(models=some_models)
    def refresh(self, models: list[str]) -> None:
        """Rebuild some models; staging only if the raw table still has all its changes."""
        if not self.held >= self.known.get(STAGING, set()):
            models = [name for name in models if name != STAGING]
        models = self.runnable(models)
        if models:
            self.dbt("run", "--full-refresh", "--select", *models)
            self.known = {n: k for n, k in self.known.items() if n not in models}
            self.take_in(models)
            self.compare(models)

    @rule()
    def run_twice(self) -> None:
        """Run all, and again: the second run finds nothing, and commits nothing."""
        self.run_all()
        before = [self.version(name) for name in (STAGING, HISTORY, AUDIT)]
        self.dbt("run")
        assert [self.version(name) for name in (STAGING, HISTORY, AUDIT)] == before
        self.compare(list(MODELS))

    @precondition(lambda self: HISTORY in self.known)
    @rule(number=st.integers(1, 22), after=st.booleans())
    def end_a_run(self, number: int, after: bool) -> None:
        """End a run at a statement; a plain run puts it right."""
        self.end_a_run_at(number, after)
        self.run_all()

    @precondition(lambda self: HISTORY in self.known)
    @rule(data=st.data())
    def change_options(self, data: st.DataObject) -> None:
        """Change the options of the history: it asks for a full refresh, and has it."""
        chosen = data.draw(options(self.stream))
        is_other = in_no_order(chosen) != in_no_order(self.options)
        self.options = chosen
        self.write_models()
        if is_other:
            with pytest.raises(DbtError, match="--full-refresh"):
                self.site.project.dbt("run", "--select", HISTORY)
            self.refresh([HISTORY])
        else:
            self.run([HISTORY])

    @precondition(lambda self: HISTORY in self.known)
    @rule()
    def maintain(self) -> None:
        """Upkeep changes no row."""
        self.dbt("run-operation", "maintain_history", "--args", f"{{history: {HISTORY}}}")
        self.compare([HISTORY])

    # --- how it is done -------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, str]:
        return {**HEADER, **{name: self.stream.types[name] for name in self.stream.columns}}

    def drawn(self, data: st.DataObject, some: list[str]) -> list[str]:
        """Draw some of these, in any order."""
        if not some:
            return []
        return list(data.draw(st.lists(st.sampled_from(some), unique=True, max_size=12)))

    def rows_of(self, some: list[str]) -> list[Row]:
        """Return the rows of changes, as they land."""
        return [
            row
            for one in some
            for row in landed_rows(replace(self.stream, changes=[self.changes[one]]))
        ]

    def add_rows(self, some: list[str]) -> None:
        self.site.steps += 1
        if some:
            self.site.lake.append(RAW, self.columns, self.rows_of(some))
            self.held |= set(some)
            self.ahead = [one for one in self.ahead if one not in some]

    def write_models(self) -> None:
        project, key = self.site.project, self.stream.unique_key
        project.stream(STAGING, f"qlik_change_table({relation(RAW)}, unique_key={key!r})")
        head = f"materialized='history', unique_key={key!r}, {jinja(self.options)}"
        project.file(
            f"models/{HISTORY}.sql",
            f"{{{{ config({head}) }}}}\nselect * from {{{{ ref('{STAGING}') }}}}",
        )
        project.model(
            AUDIT,
            f"select * from {{{{ ref('{STAGING}') }}}}",
            materialized="audit",
            unique_key=key,
        )
        project.model(CURRENT, f"{{{{ current_state(ref('{HISTORY}')) }}}}")

    def runnable(self, models: list[str]) -> list[str]:
        """Leave out the models whose parents do not exist, and are not built with them."""
        there = set(self.known)
        chosen = []
        for name in models:
            parent = {STAGING: STAGING, CURRENT: HISTORY}.get(name, STAGING)
            if name == STAGING or parent in there or parent in chosen:
                chosen.append(name)
        return chosen

    def take_in(self, models: list[str]) -> None:
        """Note what the tables know after a run of these models, in their order."""
        for name in models:
            if name == STAGING:
                self.known[name] = self.known.get(name, set()) | self.held
            else:
                parent = HISTORY if name == CURRENT else STAGING
                self.known[name] = set(self.known[parent])

    def run_all(self) -> None:
        self.dbt("run")
        self.take_in(list(MODELS))
        self.compare(list(MODELS))

    def known_to(self, name: str) -> list[Change]:
        return [as_staged(self.changes[one]) for one in sorted(self.known[name])]

    def compare(self, models: list[str]) -> None:
        """Compare tables with the reference."""
        self.is_failing = True
        key, columns = self.stream.unique_key, self.stream.columns
        for name in models:
            found = self.site.lake.rows(f"select * from {SCHEMA}.{name}")
            if name == STAGING:
                sound = [row for row in found if row["reject_reason"] is None]
                assert len({row["change_id"] for row in found}) == len(found)
                assert len(sound) == len(self.known[name])
                continue
            changes = self.known_to(name)
            if name == AUDIT:
                expected = audit(changes, key, columns)
                for row in expected:
                    row["old_value"], row["new_value"] = (
                        text(row["old_value"]),
                        text(row["new_value"]),
                    )
                names = list(expected[0]) if expected else []
                assert as_sorted(found, names) == as_sorted(expected, names), name
                continue
            versions = history(changes, key, columns, **self.options)
            if name == CURRENT:
                assert as_sorted(found, columns) == as_sorted(current(versions), columns), name
                continue
            names = [*columns, *META_COLUMNS]
            got = [{one: row[one] for one in names} for row in in_order(found, key)]
            assert got == versions, name
        assert self.scratch_tables() <= self.left_over
        self.is_failing = False


def in_no_order(chosen: Options) -> dict[str, Any]:
    """Return options to compare: the order of their columns means nothing."""
    return {n: sorted(one) if isinstance(one, list) else one for n, one in chosen.items()}


def as_sorted(rows: list[Row], names: list[str]) -> list[Row]:
    return sorted(({name: row[name] for name in names} for row in rows), key=repr)


@pytest.mark.long
def test_whatever_happens_between_runs(make_project: Callable[[str], Project], lake: Lake) -> None:
    search(Machine, make_project("machine"), lake)
