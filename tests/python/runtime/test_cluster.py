"""The target `cluster` on a real standalone cluster: a master, workers, executors."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import BIN, attempt, environment, run
from conftest import ROOT, Lake, Project, relation
from generate import changes
from pages import page, typed
from standalone import StandaloneCluster

# The number of changes in the raw table; their before-images come on top.
CHANGES = int(os.environ.get("AFTERIMAGE_CLUSTER_CHANGES", "1000000"))


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master, and two workers of one core each."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        for _ in range(2):
            cluster.add_worker(memory="1536m")
        yield cluster
    finally:
        cluster.stop()


def dbt(
    cluster: StandaloneCluster, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    env = cluster.application_environment(
        DBT_PROFILES_DIR=str(ROOT / "profiles"),
        AFTERIMAGE_EXECUTOR_MEMORY="1g",
        AFTERIMAGE_SHUFFLE_PARTITIONS="8",
        **variables,
    )
    return run(BIN / "dbt", *arguments, "--target", "cluster", cwd=folder, env=env, timeout=1800)


@pytest.mark.long
def test_the_examples_build_on_executors_that_have_a_bare_python(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """Every seed, model and test of the project, typed as the page of the cluster has it.

    The workers' side has a Python without a package, to which the page brings an archive.
    """
    bare = tmp_path / "bare"
    run(sys.executable, "-m", "venv", "--without-pip", bare, cwd=tmp_path)
    build, archive = typed(page("docs/operations/cluster.md"))
    script = "\n".join([*archive, f"cd {shlex.quote(str(ROOT))}", *build])
    for written, ours in {
        "spark://master:7077": cluster.url,
        "hdfs://name-node/warehouse": str(tmp_path / "warehouse"),
        "python3.11": str(bare / "bin" / "python"),
    }.items():
        assert written in script
        script = script.replace(written, shlex.quote(ours))
    env = cluster.application_environment(
        PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}",
        PYSPARK_DRIVER_PYTHON=sys.executable,
        AFTERIMAGE_EXECUTOR_MEMORY="1g",
        AFTERIMAGE_SHUFFLE_PARTITIONS="8",
        DBT_EXCLUDE_RESOURCE_TYPES="unit_test",
        DBT_TARGET_PATH=str(tmp_path / "target"),
        DBT_LOG_PATH=str(tmp_path / "logs"),
    )
    result = run("bash", "-e", "-c", script, cwd=tmp_path, env=env, timeout=1800)
    assert "ERROR=0" in result.stdout
    outcome = json.loads((tmp_path / "target" / "run_results.json").read_text())
    statuses = {row["status"] for row in outcome["results"]}
    assert statuses == {"success", "pass"}
    assert len(outcome["results"]) > 100


@pytest.fixture
def million(
    make_project: Callable[[str], Project], lake: Lake, tmp_path: Path
) -> Iterator[Project]:
    """A project with a raw table of a million changes, staging and history."""
    project = make_project("million")
    staged = f"{{{{ qlik_change_table({relation('raw__ct')}, unique_key=['id']) }}}}"
    project.model("stg_raw", staged, materialized="table")
    project.history("raw_history", "stg_raw")
    changes(lake.spark, CHANGES).writeTo("afterimage.raw__ct").using("iceberg").createOrReplace()
    yield project
    for table in ("raw__ct", "stg_raw", "raw_history"):
        lake.spark.sql(f"drop table if exists afterimage.{table}")


def size(lake: Lake, table: str) -> dict[str, Any]:
    query = "select sum(record_count) as `rows`, sum(file_size_in_bytes) as bytes from"
    return lake.rows(f"{query} afterimage.{table}.files")[0]


@pytest.mark.long
def test_a_million_changes_give_the_same_rows_when_a_worker_is_killed(
    million: Project, lake: Lake, cluster: StandaloneCluster
) -> None:
    warehouse = os.environ["AFTERIMAGE_WAREHOUSE"]
    begun = time.monotonic()
    dbt(cluster, million.folder, "run", "--full-refresh", AFTERIMAGE_WAREHOUSE=warehouse)
    seconds = time.monotonic() - begun
    calm = {table: snapshot(lake, table) for table in ("stg_raw", "raw_history")}
    for table in ("raw__ct", "stg_raw", "raw_history"):
        about = size(lake, table)
        print(f"{table}: {about['rows']} rows, {about['bytes'] / about['rows']:.0f} bytes a row")
    assert size(lake, "stg_raw")["rows"] == CHANGES

    timer = threading.Timer(seconds / 2, os.kill, [cluster.workers[1], signal.SIGKILL])
    timer.start()
    begun = time.monotonic()
    dbt(cluster, million.folder, "run", "--full-refresh", AFTERIMAGE_WAREHOUSE=warehouse)
    print(f"calm: {seconds:.0f} s; with a worker killed: {time.monotonic() - begun:.0f} s")
    # The master has heard of the death before the run was over, so the run has felt it.
    assert "removing it" in cluster.log("master")
    for table, before in calm.items():
        assert snapshot(lake, table) != before
        # `ingested_at` is the time of the run.
        then = lake.spark.read.option("snapshot-id", before).table(f"afterimage.{table}")
        then = then.drop("ingested_at")
        now = lake.spark.table(f"afterimage.{table}").drop("ingested_at")
        assert then.exceptAll(now).count() == now.exceptAll(then).count() == 0


def snapshot(lake: Lake, table: str) -> int:
    query = f"select snapshot_id from afterimage.{table}.refs where name = 'main'"
    number: int = lake.rows(query)[0]["snapshot_id"]
    return number


HIVE_SITE = """\
<configuration>
  <property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
  <property><name>hive.metastore.schema.verification</name><value>false</value></property>
  <!-- An embedded metastore has no table for locks. -->
  <property><name>iceberg.engine.hive.lock-enabled</name><value>false</value></property>
  <property><name>hive.metastore.warehouse.dir</name><value>{warehouse}</value></property>
  <property>
    <name>javax.jdo.option.ConnectionURL</name>
    <value>jdbc:derby:;databaseName={folder}/metastore;create=true</value>
  </property>
</configuration>
"""
STREAM = """\
{{ config(materialized='incremental', incremental_strategy='append', file_format='iceberg') }}
select
    cast(number as string) as change_id,
    lpad(number, 10, '0') as change_seq,
    'insert' as operation,
    cast(null as struct<id: bigint, name: string>) as `before`,
    named_struct('id', number, 'name', concat('name ', number)) as `after`,
    cast(null as array<string>) as changed_columns,
    cast(null as array<string>) as absent_columns,
    timestamp '2024-01-01 00:00:00' as changed_at,
    't' as transaction_id,
    cast(null as string) as reject_reason,
    timestamp '{{ run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f") }}' as ingested_at

from (
    select id + {{ '(select max(`after`.id) + 1 from ' ~ this ~ ')' if is_incremental() else 1 }}
        as number
    from range(3)
)
"""


@pytest.mark.long
def test_tables_may_be_in_a_hive_catalog(
    make_project: Callable[[str], Project], tmp_path: Path
) -> None:
    """Runs on an Iceberg catalog that the environment names, each in its own process.

    By default its metastore compares columns by position, so a new one needs the page's setting.
    """
    project = make_project("hive")
    project.file("models/changes.sql", STREAM)
    project.history("people_history", "changes")
    warehouse = tmp_path / "warehouse"
    site = HIVE_SITE.format(warehouse=warehouse, folder=tmp_path)
    (tmp_path / "hive-site.xml").write_text(site)
    env = environment(
        SPARK_MASTER="local[2]",
        SPARK_CONF_DIR=str(tmp_path),
        AFTERIMAGE_CATALOG="hive",
        AFTERIMAGE_WAREHOUSE=str(warehouse),
        AFTERIMAGE_SHUFFLE_PARTITIONS="2",
        DBT_PROFILES_DIR=str(ROOT / "profiles"),
        DBT_TARGET="cluster",
    )

    def shown(query: str) -> Any:
        command = (BIN / "dbt", "--quiet", "show", "--output", "json", "--inline", query)
        return json.loads(run(*command, cwd=project.folder, env=env).stdout)["show"]

    for run_number in (1, 2):
        run(BIN / "dbt", "run", cwd=project.folder, env=env)
        query = "select count(*) as versions, max(id) as newest from afterimage.people_history"
        assert shown(query) == [{"versions": 3 * run_number, "newest": 3 * run_number}]

    wider = STREAM.replace("name: string", "name: string, city: string").replace("(3)", "(6)")
    project.file("models/changes.sql", wider.replace("number))", "number), 'city', 'Rome')"))
    # dbt itself drops this table, which is no history.
    staged = (BIN / "dbt", "run", "--full-refresh", "--select", "changes")
    run(*staged, cwd=project.folder, env=env)
    update = (BIN / "dbt", "run", "--select", "people_history")
    setting = "hive.metastore.disallow.incompatible.col.type.changes"
    for command in (update, (*update, "--full-refresh")):
        refused = attempt(*command, cwd=project.folder, env=env)
        assert refused.returncode == 1
        assert f"Set {setting} to false" in refused.stdout
    assert f"`{setting}` to `false`" in page("docs/operations/cluster.md")
    allowed = f"<property><name>{setting}</name><value>false</value></property></configuration>"
    (tmp_path / "hive-site.xml").write_text(site.replace("</configuration>", allowed))
    run(*update, cwd=project.folder, env=env)
    query = "select city, count(*) as versions from afterimage.people_history group by city"
    assert shown(query) == [{"city": "Rome", "versions": 6}]
    # A catalog of type `hadoop` would have left one beside the table.
    assert not list(tmp_path.rglob("version-hint.text"))
