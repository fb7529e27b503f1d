"""What the state machines share: tables, what happens to them, and an end in time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from dbt import tracking
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project
from ends import ENDED, at_work, ended

STEPS = int(os.environ.get("AFTERIMAGE_STEPS", "15"))
SECONDS = float(os.environ.get("AFTERIMAGE_SECONDS", "300"))
# What a step fails with; the second is `pytest.raises`, where nothing was raised.
FAILURES = (Exception, pytest.fail.Exception)
SHRINKS = os.environ.get("AFTERIMAGE_SHRINKS", "yes") == "yes"
# Of which model, or of all; at which statement; and whether after it.
End = tuple[str | None, int, bool]
# The statements of a run that write, by number. Among the first it looks for what has landed.
moments = st.integers(1, 6) | st.integers(1, 22)


def some_ends(models: Sequence[str]) -> st.SearchStrategy[list[End]]:
    """Draw where runs end, one after the other: of all models, or of one, which has fewer."""
    of_all = st.tuples(st.none(), moments, st.booleans())
    of_one = st.tuples(st.sampled_from(models), st.integers(1, 8), st.booleans())
    return st.lists(of_all | of_one, min_size=1, max_size=3)


@dataclass
class Site:
    """The tables, and how far the machines have come."""

    project: Project
    lake: Lake
    ends_at: float
    has_failed: bool = False
    steps: int = 0
    runs: int = 0
    machines: int = 0


class Raw:
    """A raw table: one of the format, or files that Spark reads as a table."""

    def __init__(self, lake: Lake, table: str, is_files: bool) -> None:
        self.lake, self.is_files = lake, is_files
        self.name = f"{'spark_catalog.default' if is_files else SCHEMA}.{table}"
        self.drop()

    def drop(self) -> None:
        self.lake.spark.sql(f"drop table if exists {self.name}")

    def create(self, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        fields = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        using = "parquet" if self.is_files else FORMAT
        self.lake.spark.sql(f"create table {self.name} ({fields}) using {using}")
        if rows:
            self.append(columns, rows)

    def append(self, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        self.write("insert into", columns, rows)

    def overwrite(self, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        self.write("insert overwrite", columns, rows)

    def write(self, verb: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        self.lake.frame(columns, rows).createOrReplaceTempView("new_rows")
        self.lake.spark.sql(f"{verb} {self.name} select * from new_rows")


@contextmanager
def set_ahead(by: timedelta) -> Iterator[None]:
    """Set the clock ahead that dbt takes the time of a run from."""
    real = tracking.User

    class Ahead(real):  # type: ignore[misc, valid-type]
        def __init__(self, cookie_dir: str | None) -> None:
            super().__init__(cookie_dir)
            self.run_started_at += by

    with patch.object(tracking, "User", Ahead):
        yield


class TimeIsUp(KeyboardInterrupt):
    """Ends the search: Hypothesis goes on after any other exception."""


class Tables(RuleBasedStateMachine):
    """Raw tables, and the models that are made of them.

    Attributes:
        names: The names of all tables, as a pattern of SHOW TABLES.
    """

    site: ClassVar[Site]
    names: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        # What fails is shrunk, for which Hypothesis takes five minutes at most.
        if time.monotonic() > self.site.ends_at and not self.site.has_failed:
            raise TimeIsUp
        self.site.machines += 1
        # Scratch tables of runs that ended: later runs drop them two days later, as the docs say.
        self.left_over: set[str] = set()
        # How far dbt's clock is ahead, and how far it has been at most.
        self.clock = self.latest = timedelta()
        for name in self.tables(self.names):
            self.site.lake.spark.sql(f"drop table if exists {SCHEMA}.{name}")

    def teardown(self) -> None:
        """Check the end, unless a step failed; note a failure, which must not end with the time."""
        error = sys.exc_info()[1]  # Hypothesis calls this in a `finally`.
        if isinstance(error, KeyboardInterrupt):
            return
        if isinstance(error, FAILURES) and not isinstance(error, HypothesisException):
            self.site.has_failed = True
            return
        try:
            self.check_at_the_end()
        except FAILURES:
            self.site.has_failed = True
            raise

    def check_at_the_end(self) -> None:
        """Check what must hold after the last step."""

    def dbt(self, *arguments: str) -> None:
        self.site.steps += 1
        self.site.runs += 1
        self.latest = max(self.latest, self.clock)
        with set_ahead(self.clock):
            self.site.project.dbt(*arguments)

    def end_a_run_at(self, model: str | None, number: int, after: bool) -> None:
        """End a run of a model, or of all, before or after a statement, if it has so many."""
        chosen = ["--select", model] if model else []
        with ended(at_work(number), after) as sent:
            try:
                self.dbt("run", "--threads", "1", *chosen)
            except DbtError:
                assert sent[-1:] == [ENDED]
                note(f"ended at {sent[-2:-1]}")
        self.left_over |= self.scratch_tables()

    def sql(self, statement: str) -> None:
        self.site.steps += 1
        self.site.lake.spark.sql(statement)

    def rewrite_files(self, table: str) -> None:
        if FORMAT == "delta":
            self.sql(f"optimize {SCHEMA}.{table}")
        else:
            self.sql(
                f"call system.rewrite_data_files(table => '{SCHEMA}.{table}',"
                " options => map('rewrite-all', 'true'))"
            )

    def expire_snapshots(self, table: str) -> None:
        """Remove what only older versions of a table need."""
        if FORMAT != "delta":
            self.sql(
                f"call system.expire_snapshots(table => '{SCHEMA}.{table}', retain_last => 1,"
                " older_than => timestamp '2999-01-01 00:00:00')"
            )

    def tables(self, pattern: str) -> set[str]:
        shown = self.site.lake.rows(f"show tables in {SCHEMA} like '{pattern}'")
        return {row["tableName"] for row in shown}

    def scratch_tables(self) -> set[str]:
        return {name for name in self.tables(self.names) if "__scratch_" in name}

    def version(self, name: str) -> Any:
        table = f"{SCHEMA}.{name}"
        if FORMAT == "delta":
            return self.site.lake.rows(f"describe history {table} limit 1")[0]["version"]
        return self.site.lake.rows(f"select snapshot_id from {table}.refs where name = 'main'")


def search(machine: type[Tables], project: Project, lake: Lake) -> None:
    """Draw machines until the time is up."""
    began = time.monotonic()
    site = machine.site = Site(project, lake, began + SECONDS)
    with suppress(TimeIsUp):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=int(os.environ.get("AFTERIMAGE_EXAMPLES", "10000")),
                stateful_step_count=STEPS,
                deadline=None,
                phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SHRINKS else [])],
                suppress_health_check=list(HealthCheck),
            ),
        )
    seconds = time.monotonic() - began
    print(f"{site.machines} machines, {site.steps} steps, {site.runs} runs, {seconds:.0f} s")
    assert site.machines
