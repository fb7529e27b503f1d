"""The `dbt` command as a user types it: no wrapper, no flags, processes of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from command_line import BIN, environment, run
from conftest import ROOT, SCHEMA, Lake, Project
from dbt_afterimage.runtime import java
from inserts import DIALECTS, call

pytestmark = pytest.mark.slow

# In New York, times are still UTC.
ELSEWHERE = {"TZ": "America/New_York"}


class Command:
    """`dbt` in a project's folder, on the warehouse of the test session."""

    def __init__(self, project: Project) -> None:
        self.folder = project.folder

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = environment(AFTERIMAGE_WAREHOUSE=os.environ["AFTERIMAGE_WAREHOUSE"], **variables)
        return run(BIN / "dbt", *arguments, cwd=self.folder, env=env)


@pytest.fixture(scope="module")
def dbt(make_project: Callable[[str], Project], lake: Lake) -> Command:
    """The command, in a project with a change table to stage."""
    project = make_project("command")
    (project.folder / "profiles.yml").symlink_to("profiles/profiles.yml")
    project.file("models/masks.sql", "select decode_change_mask('0B', 0) as ordinals")
    dialect = DIALECTS["qlik_change_table"]
    rows = [dialect.row(number, datetime(2023, 3, 21, 21, 34)) for number in (1, 2)]
    lake.create("bare__ct", dialect.columns, rows)
    project.stream("stg_bare", call("qlik_change_table", "bare__ct"))
    return Command(project)


@pytest.fixture(scope="module")
def first_run(dbt: Command) -> subprocess.CompletedProcess[str]:
    """A plain `dbt run`."""
    return dbt("run", **ELSEWHERE)


@pytest.mark.usefixtures("first_run")
def test_plain_run_has_the_udfs(lake: Lake) -> None:
    assert lake.rows(f"select * from {SCHEMA}.masks") == [{"ordinals": [1, 2, 4]}]


def test_run_prints_what_dbt_prints_and_nothing_of_spark(
    first_run: subprocess.CompletedProcess[str],
) -> None:
    assert first_run.stderr == ""
    noise = re.compile(r"\bWARN\b(?!=)|Setting default log level|Stage \d|Picked up|\bat org\.")
    assert [line for line in first_run.stdout.splitlines() if noise.search(line)] == []
    assert "PASS=2 WARN=0 ERROR=0" in first_run.stdout


@pytest.mark.usefixtures("first_run")
def test_a_schema_is_listed_without_a_query_per_table(dbt: Command) -> None:
    log = (dbt.folder / ".afterimage/logs/dbt.log").read_text()
    asked = re.findall(r"On list_None_afterimage: /\*.*?\*/\s*(\w+ \S+)", log, re.DOTALL)
    assert {"set `spark", "show tables"} <= {question.split(".")[0] for question in asked}
    assert len(asked) == 3


@pytest.mark.minutes
@pytest.mark.usefixtures("first_run")
def test_second_run_finds_the_tables_of_the_first_and_adds_nothing(
    dbt: Command, lake: Lake
) -> None:
    rows = f"select * from {SCHEMA}.stg_bare order by change_seq"
    before = lake.rows(rows)
    assert len(before) == 2
    assert "PASS=2 WARN=0 ERROR=0" in dbt("run").stdout
    assert lake.rows(rows) == before


@pytest.mark.minutes
def test_times_are_utc_in_any_local_time_zone(dbt: Command) -> None:
    query = """
        select
            cast('2023-03-21 21:34:16.123456' as timestamp) as moment,
            unix_micros(timestamp '2023-03-21 21:34:16.123456') as micros,
            current_timezone() as zone,
            abs(unix_seconds(current_timestamp()) - {{ run_started_at.timestamp() | int }}) < 600
                as is_now
    """
    result = dbt("--quiet", "show", "--output", "json", "--inline", query, **ELSEWHERE)
    (row,) = json.loads(result.stdout)["show"]
    assert row == {
        "moment": "2023-03-21T21:34:16.123456",
        "micros": 1679434456123456,
        "zone": "UTC",
        "is_now": True,
    }


@pytest.mark.minutes
@pytest.mark.usefixtures("first_run")
def test_docs_list_every_model_and_its_columns(dbt: Command) -> None:
    dbt("docs", "generate")
    catalog = json.loads((dbt.folder / ".afterimage/target/catalog.json").read_text())
    assert catalog["errors"] is None
    columns = {
        name.split(".")[-1]: {column: about["type"] for column, about in node["columns"].items()}
        for name, node in catalog["nodes"].items()
    }
    assert columns["masks"] == {"ordinals": "array<int>"}
    assert columns["stg_bare"]["changed_columns"] == "array<string>"


@pytest.mark.minutes
def test_docs_can_be_generated_before_any_table_exists(tmp_path: Path) -> None:
    run(
        BIN / "dbt",
        *("docs", "generate", "--target-path", str(tmp_path), "--log-path", str(tmp_path)),
        cwd=ROOT,
        env=environment(AFTERIMAGE_WAREHOUSE=str(tmp_path / "warehouse")),
    )
    nodes = json.loads((tmp_path / "manifest.json").read_text())["nodes"].values()
    placeholder = "do not exist yet"
    unknown = [node["name"] for node in nodes if placeholder in node.get("compiled_code", "")]
    assert len(unknown) > 30
    assert {"stg_qlik__customers", "stg_db2__stock", "customers_accounting"} <= set(unknown)


@pytest.mark.minutes
@pytest.mark.parametrize("target", ["local", "parquet"])
def test_the_tables_are_those_of_the_project_wherever_dbt_is_started(
    target: str, tmp_path: Path
) -> None:
    folder, elsewhere = tmp_path / "my shop", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
    project = Project(folder)
    project.model("starts", "select 1 as id", materialized="incremental")
    env = environment(DBT_TARGET=target, DBT_PROFILES_DIR=str(folder / "profiles"))
    run(BIN / "dbt", "run", cwd=folder, env=env)
    run(BIN / "dbt", "run", "--project-dir", "../my shop", cwd=elsewhere, env=env)
    count = ("--quiet", "show", "--output", "json", "--inline", "select * from {{ ref('starts') }}")
    shown = run(BIN / "dbt", *count, cwd=folder / "models", env=env)
    assert json.loads(shown.stdout)["show"] == [{"id": 1}, {"id": 1}]
    assert list(elsewhere.iterdir()) == []
    assert [path.name for path in (folder / "models").iterdir()] == ["starts.sql"]
    where = ("--project-dir", str(folder))
    said = run(BIN / "afterimage", "doctor", *where, cwd=elsewhere, env=env).stdout
    if target == "local":
        assert f"warehouse: {folder}/.afterimage/warehouse\n" in said


FAKE_JAVA = '#!/bin/sh\necho "$0 $*" >>"$JAVA_MARK"\nexit 1\n'


def test_commands_that_need_no_spark_start_no_java(
    make_project: Callable[[str], Project], tmp_path: Path
) -> None:
    project = make_project("no_java")
    project.file("models/masks.sql", "select decode_change_mask('0B', 0) as ordinals")
    (project.folder / "profiles.yml").symlink_to("profiles/profiles.yml")
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA)
    program.chmod(0o755)
    mark = tmp_path / "java_was_here"
    env = environment(JAVA_HOME=str(program.parents[1]), JAVA_MARK=str(mark))
    env["PATH"] = os.pathsep.join([str(program.parent), env["PATH"]])

    def dbt(command: str) -> str:
        own = ("--target-path", f"target/{command}") if command in ("parse", "ls") else ()
        return run(BIN / "dbt", *command.split(), *own, cwd=project.folder, env=env).stdout

    with ThreadPoolExecutor(2) as pool:
        commands = ["ls", "parse", "deps", "clean", "--help"]
        said = dict(zip(commands, pool.map(dbt, commands), strict=True))
    assert "afterimage.masks" in said["ls"]
    assert not mark.exists()
    # The mark is no idle one: where Spark is wanted, this very Java is asked first.
    assert java.choose_java(env).home != program.parents[1]
    assert str(program) in mark.read_text()


WRITER = """
{%% set writes = [] %%}
{%% for n in range(%(rounds)d) %%}
    {%% do writes.append("insert into %(table)s values ('%(name)s', " ~ n ~ ", 0)") %%}
    {%% do writes.append(
        "merge into %(table)s as known using (select '%(name)s' as writer, " ~ n ~ " as n) as new"
        ~ " on known.writer = new.writer and known.n = new.n"
        ~ " when matched then update set touched = known.touched + 1"
    ) %%}
{%% endfor %%}
{{ config(post_hook=writes) }}
select '%(name)s' as writer
"""
ROUNDS = 8


@pytest.mark.minutes
def test_two_processes_may_write_to_one_table_at_once(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    table = f"{SCHEMA}.written_by_two"
    lake.create("written_by_two", {"writer": "string", "n": "int", "touched": "int"}, [])
    commands = []
    for name in ("anna", "bert"):
        project = make_project(name)
        (project.folder / "profiles.yml").symlink_to("profiles/profiles.yml")
        settings = {"rounds": ROUNDS, "table": table, "name": name}
        project.file(f"models/written_by_{name}.sql", WRITER % settings)
        commands.append(Command(project))
    with ThreadPoolExecutor(2) as pool:
        for outcome in [pool.submit(command, "run") for command in commands]:
            assert "PASS=1 WARN=0 ERROR=0" in outcome.result().stdout
    assert lake.rows(f"select * from {table} order by writer, n") == [
        {"writer": name, "n": n, "touched": 1} for name in ("anna", "bert") for n in range(ROUNDS)
    ]
    commits = lake.rows(f"select * from {table}.snapshots")
    assert len(commits) == 1 + 2 * 2 * ROUNDS


def test_profile_is_found_in_the_projects_root() -> None:
    link = ROOT / "profiles.yml"
    assert link.is_symlink()
    assert not Path(os.readlink(link)).is_absolute()
    assert link.resolve() == ROOT / "profiles" / "profiles.yml"


PLAIN_PROFILE = """
afterimage:
  target: plain
  outputs:
    plain:
      type: spark
      method: session
      host: localhost
      schema: plain
      threads: 1
      server_side_parameters:
        spark.master: local[2]
        spark.sql.catalogImplementation: in-memory
        spark.sql.warehouse.dir: {folder}/warehouse
        spark.sql.session.timeZone: UTC
        spark.sql.shuffle.partitions: "2"
"""
PLAIN_CHANGES = """
{{ config(materialized='table', file_format='parquet') }}
select
    concat('c', number) as change_id,
    lpad(number, 35, '0') as change_seq,
    operation,
    if(operation = 'delete', named_struct('id', id, 'city', city), null) as `before`,
    if(operation = 'delete', null, named_struct('id', id, 'city', city)) as `after`,
    cast(null as array<string>) as changed_columns,
    cast(null as array<string>) as absent_columns,
    timestamp_seconds(number) as changed_at,
    cast(null as string) as transaction_id,
    cast(null as string) as reject_reason,
    timestamp_seconds(run) as ingested_at
from values
    (1, 'insert', 1, 'Rome', 0), (2, 'insert', 2, 'Bonn', 0),
    (4, 'delete', 2, null, 1), (3, 'update', 1, 'Oslo', 1), (0, 'insert', 1, 'Lima', 1)
    as changes (number, operation, id, city, run)
where run <= {{ var('run') }}
"""
PLAIN_RUNS = """
import json
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

for run in (0, 1, 1):
    outcome = dbtRunner().invoke(["--quiet", "run", "--vars", f"run: {run}"])
    assert outcome.success, outcome.exception or outcome.result
rows = SparkSession.builder.getOrCreate().sql(
    "select id, city, version, closed_by from plain.plain_history order by id, version"
).collect()
print(json.dumps([list(row) for row in rows]))
"""


@pytest.mark.minutes
def test_a_format_without_merge_is_rebuilt_by_every_run(
    make_project: Callable[[str], Project],
) -> None:
    project = make_project("plain")
    project.file("plain/profiles.yml", PLAIN_PROFILE.format(folder=project.folder))
    project.file("models/plain_changes.sql", PLAIN_CHANGES)
    project.history("plain_history", "plain_changes", file_format="parquet")
    result = run(
        sys.executable,
        *("-c", PLAIN_RUNS),
        cwd=project.folder,
        env=environment(DBT_PROFILES_DIR=str(project.folder / "plain")),
    )
    assert json.loads(result.stdout.splitlines()[-1]) == [
        [1, "Lima", 1, "update"],
        [1, "Rome", 2, "update"],
        [1, "Oslo", 3, None],
        [2, "Bonn", 1, "delete"],
    ]
