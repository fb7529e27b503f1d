"""What stands around the engine, in random order: landings, upkeep, options, and ends of runs.

A state machine of Hypothesis draws what happens to the tables of a small project between its runs,
and after each run compares them with the reference. What is right is written from the docs, never
from the macros: which changes each table knows, with which columns, and what it then holds.

    AFTERIMAGE_SECONDS=3600 make test-machine

draws new examples for so long. `--hypothesis-seed` repeats a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project
from dialect_qlik import HEADER, as_masked, as_staged, landed_rows
from ends import at_work, interrupted
from histories import in_order, jinja, text
from machines import End, Raw, Tables, moments, search, some_ends
from reference import META_COLUMNS, Change, Row, audit, current, history
from strategies import DOMAINS, Options, Stream, merged_streams, options

RAW = "machine__ct"
STAGING, HISTORY, AUDIT, CURRENT = "stg_machine", "machine_history", "machine_audit", "machine_now"
MODELS = (STAGING, HISTORY, AUDIT, CURRENT)
WIDER = {"int": "bigint", "decimal(20,2)": "decimal(24,2)"}
# What a value in the raw table may become; some need the wider type.
VALUES = {**DOMAINS, "decimal(24,2)": [Decimal("0.10"), Decimal("1234567890123456789012.34")]}
# A window of the places in time of `strategies`, which some changes are outside of.
SAMPLE = "{'start': '2024-01-01T12:03', 'end': '2024-01-01T13'}"
INCREMENTAL = {
    "materialized": "incremental",
    "incremental_strategy": "merge",
    "unique_key": "change_id",
}
PROPERTIES = """
sources:
  - name: machine
    schema: {catalog}
    tables: [{{name: {table}, config: {{event_time: header__timestamp}}}}]
models:
  - name: stg_machine
    data_tests:
      - change_stream_is_complete: {{arguments: {{relation: "source('machine', '{table}')"}}}}
  - name: machine_history
    data_tests: [history_is_sound: {{arguments: {{unique_key: {key}}}}}]
  - name: machine_now
    data_tests: [one_row_per_key: {{arguments: {{unique_key: {key}}}}}]
"""
some_models = st.lists(st.sampled_from(MODELS), min_size=1, unique=True).map(
    lambda chosen: [name for name in MODELS if name in chosen]
)
often = st.integers(0, 3).map(bool)
# One of the statements by which a run follows new columns, and whether it ends before or after it.
ends = st.tuples(often, st.integers(1, 6), st.booleans()).map(
    lambda one: one[1:] if one[0] else None
)


class Machine(Tables):
    """A raw table, its staging table, and what is made of that."""

    names = "*machine*"

    def __init__(self) -> None:
        super().__init__()
        self.stream: Stream
        # The changes that have not landed yet, by their ids; those in the raw table, as they are
        # there; and those that each table knows, as it knows them. A table that does not exist yet
        # is left out.
        self.ahead: dict[str, Change] = {}
        self.held: dict[str, Change] = {}
        self.known: dict[str, dict[str, Change]] = {}
        # The data columns of the raw table and of each table, and one that staging may get: the raw
        # table has it from the beginning, but the model does not list it, or gets it then too.
        self.columns: list[str] = []
        self.columns_of: dict[str, list[str]] = {}
        self.hidden: str | None = None
        self.is_listed = False
        # Whether a new column is followed, and whether each row that landed is still there.
        self.follows = True
        self.is_whole = True
        self.options: Options
        self.raw: Raw

    # --- what happens between runs --------------------------------------------------------------

    @initialize(data=st.data(), is_files=st.booleans(), follows=often, is_listed=st.booleans())
    def begin(self, data: st.DataObject, is_files: bool, follows: bool, is_listed: bool) -> None:
        """Draw a source, and land some of its changes."""
        stream = data.draw(merged_streams(4, max_changes=12, honest=True, trades=True))
        others = [one for one in stream.columns if one not in stream.unique_key]
        has_hidden: bool = data.draw(often)
        if len(others) > 1 and has_hidden:
            self.hidden = data.draw(st.sampled_from(others))
            if not is_listed:  # A raw table gets a column at its end.
                left = [one for one in stream.columns if one != self.hidden]
                stream = replace(stream, columns=[*left, self.hidden])
        self.stream, self.follows, self.is_listed = stream, follows, is_listed
        self.columns = [one for one in stream.columns if is_listed or one != self.hidden]
        # A rejected change has no row here.
        self.ahead = {one.change_id: one for one in stream.distinct if one.reject_reason is None}
        self.options = data.draw(options(replace(stream, columns=self.staged)))
        self.raw = Raw(self.site.lake, RAW, is_files)
        self.raw.create(self.types, [])
        self.write_models()
        note(f"{self.raw.name} {self.options} {stream.types} {follows=}")
        note(f"{self.hidden=} {is_listed=}")
        self.add_rows(self.drawn(data, self.ahead))
        # What happens before a first build matters little.
        if data.draw(often):
            self.run_all()

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        """Land further changes in any order, and some rows again."""
        again = self.drawn(data, self.held)[:2]
        self.add_rows([*self.drawn(data, self.ahead), *again])

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Rewrite the files of the raw table."""
        self.may_land(data)
        if self.raw.is_files:
            self.write_anew()
        else:
            self.rewrite_files(RAW)

    @precondition(lambda self: not self.raw.is_files)
    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        """Remove what only older versions of the raw table need."""
        self.may_land(data)
        self.expire_snapshots(RAW)

    @rule(data=st.data())
    def make_anew(self, data: st.DataObject) -> None:
        """Drop the raw table, and create it with the same rows."""
        self.may_land(data)
        self.create_anew()

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """Move the raw table from files to a table, or back; the model names the other one."""
        self.may_land(data)
        self.raw.drop()
        self.raw = Raw(self.site.lake, RAW, not self.raw.is_files)
        self.create_anew()
        self.write_models()

    @precondition(lambda self: STAGING in self.known)
    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        """Delete rows that staging has taken in, as retention does."""
        self.may_land(data)
        staged = {one: self.held[one] for one in self.held if one in self.known[STAGING]}
        gone = self.drawn(data, staged)
        places = {one.change_seq for one in gone if one.change_seq}
        # What was changed in place since is not known as it is.
        changed = [k for k, one in staged.items() if one != self.known[STAGING][k]]
        if places and not changed:
            self.held = {k: one for k, one in self.held.items() if one.change_seq not in places}
            self.is_whole = False
            listed = ", ".join(f"'{place}'" for place in sorted(places))
            if self.raw.is_files:
                self.write_anew()
            else:
                self.sql(f"delete from {self.raw.name} where header__change_seq in ({listed})")

    @rule(data=st.data())
    def change_in_place(self, data: st.DataObject) -> None:
        """Change a value in a row of the raw table."""
        self.may_land(data)
        self.change_a_value(data, self.columns)

    def change_a_value(self, data: st.DataObject, columns: list[str]) -> None:
        """Change a value in one of these columns, if a row has one."""
        cells = [
            (number, column)
            for number, one in sorted(self.held.items())
            if one.change_seq and one.operation in ("insert", "update")
            for column in columns
            if column not in self.stream.unique_key
            and column not in (one.absent_columns or [])
            and column in (self.columns if one.changed_columns is None else one.changed_columns)
        ]
        if not cells:
            return
        number, column = data.draw(st.sampled_from(cells))
        kind = self.stream.types[column]
        one = self.held[number]
        values = [v for v in (None, *VALUES[kind]) if v != (one.after or {}).get(column)]
        value = data.draw(st.sampled_from(values))
        self.held[number] = replace(one, after={**(one.after or {}), column: value})
        if self.raw.is_files:
            self.write_anew()
            return
        literal = "null" if value is None else f"cast('{text(value)}' as {kind})"
        self.sql(
            f"update {self.raw.name} set `{column}` = {literal} where header__change_seq ="
            f" '{one.change_seq}' and header__change_oper = '{one.operation[0].upper()}'"
        )

    @precondition(lambda self: self.hidden and self.is_complete)
    @rule(end=ends)
    def add_a_column(self, end: tuple[int, bool] | None) -> None:
        """Add a column to the model's list, or to the raw table, where later rows have values."""
        assert self.hidden
        column, self.hidden = self.hidden, None
        if self.is_listed:
            self.write_models()
        else:
            kind = self.stream.types[column]
            self.sql(f"alter table {self.raw.name} add columns (`{column}` {kind})")
            self.columns = self.stream.columns
            self.held = {k: with_column(one, column) for k, one in self.held.items()}
        self.follow(end)

    @precondition(lambda self: not self.raw.is_files and FORMAT == "iceberg")
    @rule(data=st.data(), end=ends)
    def widen(self, data: st.DataObject, end: tuple[int, bool] | None) -> None:
        """Make a column of the raw table wider, and change a value to one that may need it."""
        types = self.stream.types
        narrow = [one for one in self.staged if types[one] in WIDER]
        if narrow and (self.follows or self.is_complete):
            column = data.draw(st.sampled_from(narrow))
            wider = WIDER[types[column]]
            self.stream = replace(self.stream, types={**types, column: wider})
            self.sql(f"alter table {self.raw.name} alter column `{column}` type {wider}")
            self.change_a_value(data, [column])
            self.follow(end)

    @rule(data=st.data(), days=st.sampled_from([0, 3, -2, 0.1]), models=st.none() | some_models)
    def set_the_clock(self, data: st.DataObject, days: float, models: list[str] | None) -> None:
        """Set dbt's clock ahead, or back: from now on, or for one run, before another."""
        self.may_land(data)
        before, self.clock = self.clock, timedelta(days=days)
        if models:
            self.run_these(models)
            self.clock = before
            self.may_land(data)
            self.run_these(models)

    # --- runs -----------------------------------------------------------------------------------

    @rule(data=st.data(), models=some_models)
    def run(self, data: st.DataObject, models: list[str]) -> None:
        """Run some models."""
        self.may_land(data)
        self.run_these(models)

    @rule(data=st.data(), models=some_models)
    def refresh(self, data: st.DataObject, models: list[str]) -> None:
        """Rebuild some models; staging only if the raw table still has all its changes."""
        self.may_land(data)
        self.refresh_these(models)

    @rule()
    def run_twice(self) -> None:
        """Run all, and again: the second run finds nothing, and commits nothing. The tests hold."""
        self.run_all()
        before = [self.version(name) for name in (STAGING, HISTORY, AUDIT)]
        self.dbt("run")
        assert [self.version(name) for name in (STAGING, HISTORY, AUDIT)] == before
        self.compare(list(MODELS))
        left_out = [] if self.is_whole else ["--exclude", "change_stream_is_complete*"]
        self.dbt("test", *left_out)

    @precondition(lambda self: HISTORY in self.known)
    @rule(data=st.data(), ends=some_ends((STAGING, HISTORY, AUDIT)))
    def end_runs(self, data: st.DataObject, ends: list[End]) -> None:
        """End runs, each at a statement; a plain run puts it right."""
        for end in ends:
            self.may_land(data)
            self.end_a_run_at(*end)
        self.run_all()

    @precondition(lambda self: HISTORY in self.known)
    @rule(data=st.data(), numbers=st.sets(moments, min_size=1, max_size=3))
    def land_meanwhile(self, data: st.DataObject, numbers: set[int]) -> None:
        """Land rows at some moments of a run: this run or the next one takes them in."""
        rows = self.drawn(data, self.ahead)
        self.add_rows(rows[len(numbers) :])
        with ExitStack() as stack:
            for number, one in zip(numbers, rows, strict=False):
                stack.enter_context(interrupted(at_work(number), partial(self.add_rows, [one])))
            self.dbt("run", "--threads", "1")
        self.run_all()

    @precondition(lambda self: self.is_built)
    @rule(data=st.data())
    def run_a_sample(self, data: st.DataObject) -> None:
        """A run of a sample leaves nothing out for good, also of what staging knows already."""
        self.add_rows(self.drawn(data, self.ahead)[:6])
        if data.draw(st.booleans()):
            self.run_these([STAGING])
        self.dbt("run", "--sample", SAMPLE, "--select", STAGING, HISTORY, AUDIT)
        self.run_all()

    @precondition(lambda self: self.is_built)
    @rule(data=st.data())
    def run_empty(self, data: st.DataObject) -> None:
        """A run without rows changes none."""
        self.may_land(data)
        self.dbt("run", "--empty", "--select", STAGING, HISTORY, AUDIT)
        self.compare([STAGING, HISTORY, AUDIT])

    @precondition(lambda self: STAGING in self.known and not self.clock and self.is_now)
    @rule(data=st.data())
    def run_as_incremental(self, data: st.DataObject) -> None:
        """Make staging a model of dbt's own `incremental` for a run."""
        self.may_land(data)
        self.write_models(**INCREMENTAL)
        self.run_these([STAGING])
        self.write_models()

    @precondition(lambda self: HISTORY in self.known)
    @rule(data=st.data())
    def change_options(self, data: st.DataObject) -> None:
        """Change each option of the history alone, and some: it asks for a full refresh."""
        chosen = data.draw(options(replace(self.stream, columns=self.columns_of[HISTORY])))
        values: dict[str, list[Any]] = {name: [one] for name, one in chosen.items()}
        values["track_columns"] += [None, []]
        before = self.options
        others = [
            other
            for name, some in values.items()
            for one in some
            if is_allowed(other := cast("Options", {**before, name: one}))
        ]
        for other in others:
            if in_no_order(other) != in_no_order(before):
                self.options = other
                self.write_models()
                with pytest.raises(DbtError, match="--full-refresh"):
                    self.dbt("run", "--select", HISTORY)
        self.options = data.draw(st.sampled_from([chosen, *others]))
        self.write_models()
        if in_no_order(self.options) == in_no_order(before):
            self.run_these([HISTORY])
        else:
            self.refresh_these([HISTORY])

    @precondition(lambda self: HISTORY in self.known)
    @rule()
    def maintain(self) -> None:
        """Upkeep changes no row."""
        self.dbt("run-operation", "maintain_history", "--args", f"{{history: {HISTORY}}}")
        self.compare([HISTORY])

    # --- how it is done -------------------------------------------------------------------------

    @property
    def types(self) -> dict[str, str]:
        return {**HEADER, **{name: self.stream.types[name] for name in self.columns}}

    @property
    def staged(self) -> list[str]:
        return [one for one in self.columns if one != self.hidden]

    @property
    def is_complete(self) -> bool:
        """Whether the raw table still has all that staging knows."""
        return self.held.keys() >= self.known.get(STAGING, {}).keys()

    @property
    def is_built(self) -> bool:
        return self.known.keys() >= {*MODELS}

    @property
    def is_now(self) -> bool:
        """Whether no run was ahead of its time."""
        return self.latest <= timedelta()

    def drawn(self, data: st.DataObject, some: dict[str, Change]) -> list[Change]:
        """Draw some of these, in any order."""
        if not some:
            return []
        ids = data.draw(st.lists(st.sampled_from(sorted(some)), unique=True, max_size=12))
        return [some[one] for one in ids]

    def may_land(self, data: st.DataObject) -> None:
        """Land a few rows, or none: few of the things that happen matter without news.

        Staging may take them in at once, so that they are news for the history and the audit alone.
        """
        how = data.draw(st.sampled_from(["none", "landed", "staged"]))
        if how != "none":
            self.add_rows(self.drawn(data, self.ahead)[:3])
        if how == "staged" and STAGING in self.known:
            self.run_these([STAGING])

    def create_anew(self) -> None:
        """Drop the raw table, and create it with the same rows."""
        self.site.steps += 1
        self.raw.drop()
        self.raw.create(self.types, self.rows_of(self.held.values()))
        self.is_whole = False

    def run_these(self, models: list[str]) -> None:
        models = self.runnable(models)
        if models:
            self.dbt("run", "--select", *models)
            self.take_in(models)
            self.compare(models)

    def refresh_these(self, models: list[str]) -> None:
        if not self.is_complete:
            models = [name for name in models if name != STAGING]
        models = self.runnable(models)
        if models:
            self.dbt("run", "--full-refresh", "--select", *models)
            self.known = {n: k for n, k in self.known.items() if n not in models}
            self.take_in(models)
            self.compare(models)

    def rows_of(self, some: Iterable[Change]) -> list[Row]:
        """Return the rows of changes, as they land."""
        return landed_rows(replace(self.stream, columns=self.columns, changes=list(some)))

    def add_rows(self, some: list[Change]) -> None:
        self.site.steps += 1
        if some:
            if self.hidden and not self.is_listed:
                some = [without_column(one, self.hidden) for one in some]
            self.raw.append(self.types, self.rows_of(some))
            self.held.update({one.change_id: one for one in some})
            self.ahead = {k: one for k, one in self.ahead.items() if k not in self.held}

    def write_anew(self) -> None:
        """Rewrite all files of the raw table."""
        self.site.steps += 1
        self.raw.overwrite(self.types, self.rows_of(self.held.values()))
        self.is_whole = False

    def follow(self, end: tuple[int, bool] | None) -> None:
        """Let staging follow the raw table's columns, or see that it stops, and rebuild it.

        The run that follows them may end at a statement; a plain run puts it right.
        """
        if self.follows or STAGING not in self.known:
            if end is None:
                self.run_these([STAGING])
            else:
                self.end_a_run_at(None, *end)
                self.run_all()
            return
        with pytest.raises(DbtError, match=r"the columns of .* have changed"):
            self.site.project.dbt("run", "--select", STAGING)
        self.refresh_these([STAGING])

    def write_models(self, **config: str) -> None:
        project, key = self.site.project, self.stream.unique_key
        catalog, _, table = self.raw.name.rpartition(".")
        project.file("models/machine.yml", PROPERTIES.format(catalog=catalog, table=table, key=key))
        if self.follows:
            config["on_schema_change"] = "append_new_columns"
        config = {"materialized": "change_stream", "event_time": "changed_at", **config}
        listed = f", columns={self.staged!r}" if self.is_listed else ""
        call = f"qlik_change_table(source('machine', '{table}'), unique_key={key!r}{listed})"
        project.model(STAGING, f"{{{{ {call} }}}}", **config)
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
                self.known[name] = {**self.known.get(name, {}), **self.held}
                self.columns_of[name] = self.staged
            else:
                parent = HISTORY if name == CURRENT else STAGING
                self.known[name] = dict(self.known[parent])
                self.columns_of[name] = self.columns_of[parent]

    def run_all(self) -> None:
        self.dbt("run")
        self.take_in(list(MODELS))
        self.compare(list(MODELS))

    def compare(self, models: list[str]) -> None:
        """Compare tables with the reference."""
        key = self.stream.unique_key
        for name in models:
            columns = self.columns_of[name]
            changes = [as_masked(as_staged(one)) for _, one in sorted(self.known[name].items())]
            found = self.site.lake.rows(f"select * from {SCHEMA}.{name}")
            if name == STAGING:
                sound = [row for row in found if row["reject_reason"] is None]
                assert len({row["change_id"] for row in found}) == len(found)
                assert len(sound) == len(changes)
            elif name == AUDIT:
                expected = audit(changes, key, columns)
                for row in expected:
                    row["old_value"] = text(row["old_value"])
                    row["new_value"] = text(row["new_value"])
                names = list(expected[0]) if expected else []
                assert as_sorted(found, names) == as_sorted(expected, names), name
            else:
                versions = history(changes, key, columns, **self.options)
                if name == CURRENT:
                    assert as_sorted(found, columns) == as_sorted(current(versions), columns), name
                else:
                    names = [*columns, *META_COLUMNS]
                    got = [{one: row[one] for one in names} for row in in_order(found, key)]
                    assert got == versions, name
        assert self.scratch_tables() <= self.left_over


def without_column(change: Change, column: str) -> Change:
    """Return a change of a table that does not have a column yet."""

    def left(given: Any) -> Any:
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name != column}
        return given and [name for name in given if name != column]

    names = ("before", "after", "changed_columns", "absent_columns")
    return replace(change, **{name: left(getattr(change, name)) for name in names})


def with_column(change: Change, column: str) -> Change:
    """Return a change that landed before a column was added.

    Its row holds NULL there. A mask, which an update may have, does not flag the column.
    """
    has_mask = change.changed_columns is not None or bool(change.absent_columns)
    is_absent = change.operation == "update" and has_mask
    return replace(
        change,
        before=change.before and {**change.before, column: None},
        after=change.after and {**change.after, column: None},
        absent_columns=[*(change.absent_columns or []), column]
        if is_absent
        else change.absent_columns,
    )


def is_allowed(chosen: Options) -> bool:
    """Whether the columns of these options go together."""
    track, ignore = chosen["track_columns"], chosen["ignore_columns"]
    overwritten = chosen["overwrite_columns"] or []
    return track is None or (ignore is None and not {*track} & {*overwritten})


def in_no_order(chosen: Options) -> dict[str, Any]:
    """Return options to compare: the order of their columns means nothing."""
    return {n: sorted(one) if isinstance(one, list) else one for n, one in chosen.items()}


def as_sorted(rows: list[Row], names: list[str]) -> list[Row]:
    return sorted(({name: row[name] for name in names} for row in rows), key=repr)


@pytest.mark.long
def test_whatever_happens_between_runs(make_project: Callable[[str], Project], lake: Lake) -> None:
    search(Machine, make_project("machine"), lake)
