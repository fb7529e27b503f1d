"""Landings, upkeep and ends of runs in random order, in the words of any dialect.

The rows of a change land apart and in any order, so what a table holds in between is the business
of each dialect. Once all rows are there, it must be what the reference says, whatever happened
before. `test_machine.py` knows what is right after each run, for one dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from all_dialects import (
    FLAVOURS,
    FULLEST,
    MACRO,
    PLACES,
    by_case,
    carriers,
    in_dialect,
    name_in,
    told_streams,
)
from conftest import FORMAT, SCHEMA, Lake, Project
from ends import at_work, interrupted
from histories import in_order, jinja
from machines import End, Tables, moments, search, some_ends
from reference import Row, current, history
from strategies import options

STAGING, HISTORY, AUDIT, CURRENT = "stg_any", "any_history", "any_audit", "any_current"
MODELS = (STAGING, HISTORY, AUDIT, CURRENT)
CASES = 7
ADDED = "added_later"
# Their rows have no mask that counts columns, and their columns are those of the raw table, which
# may get one anywhere.
IN_ANY_ORDER = ("db2_single", "db2_pairs", "dms")
# Rejected, but no fault of a row: an event that came before those it belongs to, and what follows a
# delete on Kafka.
EXPECTED = ("moved: ", "tombstone: ")
some_models = st.lists(st.sampled_from(MODELS), min_size=1, unique=True)


class AnyDialect(Tables):
    """The raw tables of a dialect, a staging table, and what is made of that."""

    names = "all_*|stg_any*|any_*"

    @initialize(data=st.data(), dialect=st.sampled_from(list(MACRO)))
    def begin(self, data: st.DataObject, dialect: str) -> None:
        """Draw a dialect and a source, and land some of its rows."""
        self.dialect = dialect
        has_truncates = dialect in carriers(FULLEST) and data.draw(st.booleans())
        flavours = [FULLEST] if has_truncates else FLAVOURS
        self.told = data.draw(told_streams(CASES, flavours))
        self.options = data.draw(options(self.told.stream))
        self.stream = self.told.of(dialect)
        written = in_dialect(dialect, self.told)
        self.columns = {table: columns for table, (columns, _) in written.tables.items()}
        # The rows that have not landed yet; of those that have, by their numbers, the ones that
        # are still there; and whether rows were deleted.
        self.rows = {table: rows for table, (_, rows) in written.tables.items()}
        self.ahead = {table: list(range(len(rows))) for table, rows in self.rows.items()}
        self.is_pruned = False
        # The last landing of a table, as long as it can be rolled back: the version before it, and
        # the rows that were new.
        self.last: dict[str, tuple[Any, list[int]]] = {}
        self.built: set[str] = set()
        for table, columns in self.columns.items():
            self.site.lake.create(table, columns, [])
        self.write_models(written.call)
        note(f"{dialect} {self.options} {self.stream.types}")
        self.land(data)

    def write_models(self, call: str) -> None:
        project, key = self.site.project, self.told.stream.unique_key
        config = f"unique_key={key}, {jinja(self.options)}"
        project.stream(STAGING, call, on_schema_change="append_new_columns")
        project.file(
            f"models/{HISTORY}.sql",
            f"{{{{ config(materialized='history', {config}) }}}}\n"
            f"select * from {{{{ ref('{STAGING}') }}}}",
        )
        changes = f"select * from {{{{ ref('{STAGING}') }}}}"
        project.model(AUDIT, changes, materialized="audit", unique_key=key)
        project.model(CURRENT, f"{{{{ current_state(ref('{HISTORY}')) }}}}")

    def check_at_the_end(self) -> None:
        """Whatever happened: once all rows are there, all is right."""
        if hasattr(self, "built"):
            self.land_the_rest()

    # --- what happens between runs --------------------------------------------------------------

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        """Land rows in any order, and some of them again."""
        self.land_up_to(30, data)

    def land_up_to(self, most: int, data: st.DataObject) -> None:
        self.add(*self.some_rows(most, data))

    def some_rows(self, most: int, data: st.DataObject) -> tuple[str, list[int]]:
        """Draw new rows of a table, in any order, and some that landed."""
        table = data.draw(st.sampled_from(sorted(self.rows)))
        ahead = self.ahead[table]
        landed = sorted({*range(len(self.rows[table]))} - {*ahead})
        new = (
            data.draw(st.lists(st.sampled_from(ahead), unique=True, max_size=most)) if ahead else []
        )
        # A part of a change may come again alone, after the others were deleted.
        again = data.draw(st.lists(st.sampled_from(landed), max_size=3)) if landed else []
        return table, data.draw(st.permutations([*new, *again]))

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Rewrite the files of a raw table."""
        self.may_land(data)
        self.rewrite_files(self.one_table(data))

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """Remove what only older versions of a raw table need."""
        self.may_land(data)
        self.expire_snapshots(self.one_table(data))

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        """Take back the last landing of a table; its rows land again later."""
        table = data.draw(st.sampled_from(sorted(self.last)))
        version, numbers = self.last.pop(table)
        if FORMAT == "delta":
            self.sql(f"restore table {SCHEMA}.{table} to version as of {version}")
        else:
            [head] = version
            name = f"'{SCHEMA}.{table}'"
            self.sql(f"call system.rollback_to_snapshot({name}, {head['snapshot_id']})")
        self.ahead[table] += numbers

    @rule(data=st.data())
    def make_anew(self, data: st.DataObject) -> None:
        """Drop a raw table, and create it with the same rows."""
        self.may_land(data)
        table = f"{SCHEMA}.{self.one_table(data)}"
        self.sql(
            f"create or replace table {SCHEMA}.all_copy using {FORMAT} as select * from {table}"
        )
        self.sql(f"drop table {table}")
        self.sql(f"create table {table} using {FORMAT} as select * from {SCHEMA}.all_copy")

    @rule(data=st.data())
    def add_a_column(self, data: st.DataObject) -> None:
        """Add a column to a raw table, once; no row has a value of it."""
        self.may_land(data)
        table = self.one_table(data)
        names = list(self.columns[table])
        if ADDED not in names:
            last = names[-1]
            own = [name for name in names if name in self.stream.columns]
            if self.dialect in IN_ANY_ORDER and own:
                last = data.draw(st.sampled_from(own))
            self.sql(f"alter table {SCHEMA}.{table} add columns ({ADDED} string after `{last}`)")
            names.insert(names.index(last) + 1, ADDED)
            types = {**self.columns[table], ADDED: "string"}
            self.columns[table] = {name: types[name] for name in names}

    @precondition(lambda self: HISTORY in self.built and not any(self.ahead.values()))
    @rule(data=st.data(), part=st.integers(0, 2))
    def prune(self, data: st.DataObject, part: int) -> None:
        """Delete rows that all tables know, as retention does."""
        self.run_these(list(MODELS))
        table = self.one_table(data)
        columns = ", ".join(f"`{name}`" for name in self.columns[table])
        self.sql(
            f"delete from {SCHEMA}.{table} where pmod(hash(to_json(struct({columns}))), 3) = {part}"
        )
        self.is_pruned = True
        self.last.clear()

    # --- runs -----------------------------------------------------------------------------------

    @rule(data=st.data(), models=some_models)
    def run(self, data: st.DataObject, models: list[str]) -> None:
        """Run some models, those of them that have what they need."""
        self.may_land(data)
        self.run_these(models)

    def run_these(self, models: list[str]) -> None:
        models = self.runnable(models)
        if models:
            self.dbt("run", "--select", *models)
            self.built |= set(models)
            assert self.scratch_tables() <= self.left_over

    @rule(data=st.data(), models=some_models)
    def refresh(self, data: st.DataObject, models: list[str]) -> None:
        """Rebuild some models; staging only if the raw tables still have all rows."""
        self.may_land(data)
        self.refresh_these(models)

    def refresh_these(self, models: list[str]) -> None:
        models = self.runnable([n for n in models if n != STAGING or not self.is_pruned])
        if models:
            self.dbt("run", "--full-refresh", "--select", *models)
            self.built |= set(models)

    @precondition(lambda self: HISTORY in self.built)
    @rule()
    def run_twice(self) -> None:
        """Run all, and again: the second run finds nothing, and commits nothing."""
        self.run_these(list(MODELS))
        before = {name: self.version(name) for name in (STAGING, HISTORY, AUDIT)}
        self.dbt("run")
        assert {name: self.version(name) for name in (STAGING, HISTORY, AUDIT)} == before

    @precondition(lambda self: HISTORY in self.built)
    @rule(data=st.data(), ends=some_ends((STAGING, HISTORY, AUDIT)))
    def end_runs(self, data: st.DataObject, ends: list[End]) -> None:
        """End runs, each at a statement. What they left is put right by a later run."""
        for end in ends:
            self.may_land(data)
            self.end_a_run_at(*end)

    @precondition(lambda self: HISTORY in self.built)
    @rule(data=st.data(), numbers=st.sets(moments, min_size=1, max_size=4))
    def land_meanwhile(self, data: st.DataObject, numbers: set[int]) -> None:
        """Land rows at some moments of a run: this run or the next one takes them in."""
        self.land_up_to(6, data)
        with ExitStack() as stack:
            for number in numbers:
                land = partial(self.add, *self.some_rows(6, data))
                stack.enter_context(interrupted(at_work(number), land))
            self.dbt("run", "--threads", "1")
        self.built |= {*MODELS}

    @precondition(lambda self: HISTORY in self.built)
    @rule()
    def maintain(self) -> None:
        """Look after the history's files."""
        self.dbt("run-operation", "maintain_history", "--args", f"{{history: {HISTORY}}}")

    @rule()
    def land_the_rest(self) -> None:
        """Land what is left, run all, and compare with the reference and with a full refresh."""
        for table, ahead in self.ahead.items():
            self.add(table, ahead)
        self.run_these(list(MODELS))
        self.compare()
        if not self.is_pruned:
            tables = (STAGING, HISTORY, AUDIT)
            in_runs = self.site.lake.contents(*tables)
            self.refresh_these(list(tables))
            assert in_runs == self.site.lake.contents(*tables)

    # --- how it is done -------------------------------------------------------------------------

    def may_land(self, data: st.DataObject) -> None:
        """Land a few rows, or none: few of the things that happen matter without news.

        Staging may take them in at once, so that they are news for the history and the audit alone.
        """
        how = data.draw(st.sampled_from(["none", "landed", "staged"]))
        if how != "none":
            self.land_up_to(3, data)
        if how == "staged" and STAGING in self.built:
            self.run_these([STAGING])

    def one_table(self, data: st.DataObject) -> str:
        """Draw a raw table. After what is done to it, its last landing cannot be taken back."""
        table = data.draw(st.sampled_from(sorted(self.rows)))
        self.last.pop(table, None)
        return table

    def add(self, table: str, numbers: list[int]) -> None:
        self.site.steps += 1
        if numbers:
            new = [one for one in numbers if one in self.ahead[table]]
            self.last[table] = self.version(table), new
            rows = [self.rows[table][number] for number in numbers]
            self.site.lake.append(table, self.columns[table], rows)
            self.ahead[table] = [one for one in self.ahead[table] if one not in numbers]

    def runnable(self, models: list[str]) -> list[str]:
        """Leave out the models whose parents do not exist, and are not built with them."""
        chosen: list[str] = []
        for name in [one for one in MODELS if one in models]:
            parent = HISTORY if name == CURRENT else STAGING
            if name == STAGING or parent in {*self.built, *chosen}:
                chosen.append(name)
        return chosen

    def compare(self) -> None:
        """Compare history and present rows with the reference."""
        lake, key, columns = self.site.lake, self.stream.unique_key, self.stream.columns
        expected = " and ".join(f"reject_reason not like '{word}%'" for word in EXPECTED)
        query = f"select * from {SCHEMA}.{STAGING} where reject_reason is not null and {expected}"
        assert lake.rows(query) == []
        named = name_in(self.dialect, self.told)
        versions = history(self.stream.changes, key, columns, **self.options)
        found = lake.rows(f"select * from {SCHEMA}.{HISTORY}")
        got = by_case(in_order(found, key), PLACES)
        due = by_case(in_order(versions, key), PLACES)
        for rows in got.values():
            for row in rows:
                assert row.pop(ADDED, None) is None
        for rows in due.values():
            for row in rows:
                row["transaction_id"] = named(row["transaction_id"])
        assert got == due
        present = lake.rows(f"select * from {SCHEMA}.{CURRENT}")
        assert in_columns(present, columns) == in_columns(current(versions), columns)


def in_columns(rows: list[Row], columns: list[str]) -> list[dict[str, Any]]:
    return sorted(({name: row[name] for name in columns} for row in rows), key=repr)


@pytest.mark.long
def test_whatever_happens_between_runs_in_any_dialect(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    search(AnyDialect, make_project("any_dialect"), lake)
