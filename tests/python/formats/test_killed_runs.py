"""A run that ends at any statement, or that another run overtakes: the next one puts it right.

The session stays; what a killed process leaves in tables is what it had sent. tests/python/runtime
kills real processes.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from dbt_afterimage.runtime.cursor import AfterimageCursor
from ends import ENDED, at_work, ended
from machines import set_ahead
from runs import COLUMNS, row

RAW = "killed__ct"
TABLES = ("stg_killed", "killed_history", "killed_audit", "killed_current")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    project = make_project("killed_runs")
    project.stream("stg_killed", f"qlik_change_table({relation(RAW)}, unique_key=['id'])")
    project.history("killed_history", "stg_killed")
    project.model(
        "killed_audit",
        "select * from {{ ref('stg_killed') }}",
        materialized="audit",
        unique_key=["id"],
    )
    project.model("killed_current", "{{ current_state(ref('killed_history')) }}")
    return project


def at(minute: int, number: int = 1) -> str:
    """A place in the first minutes of a day, of which there are enough for any number of runs."""
    return f"20240101{minute // 60:02}{minute % 60:02}0000{number:019}"


def batch(number: int) -> list[dict[str, Any]]:
    """A new row, an update of row 1, and now and then a late change and a row without news."""
    rows = [row(at(2 * number), "I", "new", number)]
    if number > 1:
        rows.append(row(at(2 * number, 5), "U", f"name {number}", 1))
    if number % 3 == 0:
        rows.append(row(at(2 * number - 3, 9), "U", "late", 1))
        rows.append(row(at(2 * number), "I", "new", number))
    return rows


@pytest.mark.minutes
def test_a_run_that_ends_at_any_statement_is_repeated(project: Project, lake: Lake) -> None:
    seed = int(os.environ.get("AFTERIMAGE_SEED", "50"))
    source = random.Random(seed)
    lake.create(RAW, COLUMNS, batch(1))
    project.dbt("run", "--full-refresh")
    for number in range(2, 2 + int(os.environ.get("AFTERIMAGE_KILLS", "4"))):
        lake.append(RAW, COLUMNS, batch(number))
        # A run of these models sends some twenty such statements.
        watch = at_work(1 + source.randrange(22))
        with ended(watch, after=source.random() < 0.5) as sent:
            try:
                project.dbt("run", "--threads", "1")
            except DbtError:
                assert sent[-1] == ENDED
        project.dbt("run")
        found = lake.contents(*TABLES)
        names = [one["tableName"] for one in lake.rows(f"show tables in {SCHEMA} like '*killed*'")]
        assert len(found["killed_current"]) == number
        project.dbt("run", "--full-refresh")
        assert found == lake.contents(*TABLES), (seed, number)
        for name in names:
            if "__scratch_" in name:
                lake.spark.sql(f"drop table {SCHEMA}.{name}")


@pytest.mark.minutes
def test_scratch_tables_of_runs_that_ended_are_dropped_two_days_later(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    def scratch_tables() -> set[str]:
        shown = lake.rows(f"show tables in {SCHEMA} like '*killed*__scratch_*'")
        return {one["tableName"] for one in shown}

    def watched(days: int, *models: str) -> list[str]:
        """Run models some days later, and return the statements sent."""
        with set_ahead(timedelta(days=days)), ended(lambda sql: False) as sent:
            project.dbt("--no-quiet", "run", "--threads", "1", "--select", *(models or TABLES))
        return sent

    # Names that only begin as ours do.
    others = {"killed_audit__scratch_20240101_notes", "killed_audit_2__scratch_20240101_0a1b2c3d_x"}
    lake.create(RAW, COLUMNS, batch(1))
    project.dbt("run", "--full-refresh")
    for name in others | scratch_tables():
        lake.spark.sql(f"drop table if exists {SCHEMA}.{name}")
    lake.append(RAW, COLUMNS, batch(2))
    for model in TABLES[:3]:
        with ended(lambda sql: "merge into" in sql), pytest.raises(DbtError):
            project.dbt("run", "--select", model)
        project.dbt("run", "--select", model)
    left = scratch_tables()
    assert {re.sub("__scratch_.*_", " ", name) for name in left} == {
        "stg_killed staged",
        "killed_history touched",
        "killed_history difference",
        "killed_audit touched",
        "killed_audit difference",
    }
    for name in others:
        lake.create(name, {"id": "int"}, [])

    # The run may still be at work.
    watched(1)
    assert scratch_tables() == left | others
    # The history itself is not asked for anything.
    capfd.readouterr()
    sent = watched(2, "killed_history")
    dropped = {name for name in left if name.startswith("killed_history")}
    assert scratch_tables() == (left - dropped) | others
    (said,) = re.findall(
        r"killed_history: dropped scratch tables of runs that did not end: (.*)",
        capfd.readouterr().out,
    )
    assert set(said.strip().split(", ")) == dropped
    # dbt itself lists the schema, once.
    assert len([sql for sql in sent if "show table" in sql]) == 1
    lake.append(RAW, COLUMNS, batch(3))
    watched(2)
    assert scratch_tables() == others
    assert not [sql for sql in watched(2) if "__scratch_" in sql]
    found = lake.contents(*TABLES)
    project.dbt("run", "--full-refresh")
    assert found == lake.contents(*TABLES)


@pytest.mark.minutes
@pytest.mark.needs("delta")
@pytest.mark.parametrize("model", ["stg_killed", "killed_history", "killed_audit"])
@pytest.mark.parametrize("moment", ["before the run asks", "before it writes"])
def test_a_run_that_another_one_overtakes_says_so(
    moment: str, model: str, project: Project, lake: Lake
) -> None:
    """Another run's commit lies between what this run has read and what it writes."""
    lake.create(RAW, COLUMNS, batch(1))
    project.dbt("run", "--full-refresh")
    lake.append(RAW, COLUMNS, batch(2))
    if model != "stg_killed":
        project.dbt("run", "--select", "stg_killed")
    execute = AfterimageCursor.execute
    is_overtaken: list[str] = []
    table = f"{SCHEMA}.{model}"

    def overtaken(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        is_writing = "merge into" in sql
        if moment == "before it writes":
            is_due = is_writing
        else:
            is_due = "create table" in sql and "__scratch_" in sql
        if is_due and not is_overtaken:
            is_overtaken.append(sql)
            # It changes no row, and is a commit all the same.
            lake.spark.sql(f"alter table {table} set tblproperties ('another' = 'run')")
        execute(self, sql, *parameters)

    AfterimageCursor.execute = overtaken  # type: ignore[method-assign]
    try:
        with pytest.raises(DbtError, match="another run has changed"):
            project.dbt("run", "--select", model)
    finally:
        AfterimageCursor.execute = execute  # type: ignore[method-assign]
    assert is_overtaken
    project.dbt("run")
    found = lake.contents(*TABLES)
    project.dbt("run", "--full-refresh")
    assert found == lake.contents(*TABLES)


@pytest.mark.minutes
@pytest.mark.needs("delta")
def test_a_compaction_meanwhile_is_no_other_run(project: Project, lake: Lake) -> None:
    """Tables may compact themselves after each write, and somebody may do it at any time."""
    lake.create(RAW, COLUMNS, batch(1))
    project.dbt("run", "--full-refresh")
    lake.append(RAW, COLUMNS, batch(2))
    execute = AfterimageCursor.execute

    def compacting(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        table = re.search(r"merge into (\S+)", sql)
        if table:
            lake.spark.sql(f"optimize {table[1]}")
        execute(self, sql, *parameters)
        if table:
            lake.spark.sql(f"optimize {table[1]}")

    AfterimageCursor.execute = compacting  # type: ignore[method-assign]
    try:
        project.dbt("run")
    finally:
        AfterimageCursor.execute = execute  # type: ignore[method-assign]
    found = lake.contents(*TABLES)
    project.dbt("run", "--full-refresh")
    assert found == lake.contents(*TABLES)


@pytest.mark.minutes
@pytest.mark.needs("iceberg")
def test_a_catalog_may_compact_a_table_that_a_run_has_looked_at(
    project: Project, lake: Lake
) -> None:
    """Some compact all tables by themselves. Between two compactions, another run may write."""
    lake.create(RAW, COLUMNS, batch(1))
    project.dbt("run", "--full-refresh")
    lake.append(RAW, COLUMNS, batch(2))
    execute = AfterimageCursor.execute
    written_by_others: list[str] = []
    compacted: set[str] = set()

    def compacting(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        found = re.search(r"create table (\S+)__scratch_", sql)
        table = found[1] if found else ""
        for _ in (1, 2) if found else ():
            options = "map('rewrite-all', 'true')"
            lake.spark.sql(
                f"call system.rewrite_data_files(table => '{table}', options => {options})"
            )
            compacted.add(table.split(".")[-1])
            if table in written_by_others:
                lake.spark.sql(f"insert into {table} select * from {table} where false")
                written_by_others.remove(table)
        execute(self, sql, *parameters)

    AfterimageCursor.execute = compacting  # type: ignore[method-assign]
    try:
        project.dbt("run")
        assert compacted == set(TABLES[:3])
        lake.append(RAW, COLUMNS, batch(3))
        written_by_others.append(f"{SCHEMA}.killed_history")
        with pytest.raises(DbtError, match="another run has changed"):
            project.dbt("run")
        assert not written_by_others
        project.dbt("run")
    finally:
        AfterimageCursor.execute = execute  # type: ignore[method-assign]
    found = lake.contents(*TABLES)
    project.dbt("run", "--full-refresh")
    assert found == lake.contents(*TABLES)


def test_the_format_is_the_one_of_the_target(lake: Lake) -> None:
    lake.create("of_format", {"id": "int"}, [])
    said = lake.rows(f"describe table extended {SCHEMA}.of_format")
    assert [row["data_type"] for row in said if row["col_name"] == "Provider"] == [FORMAT]
