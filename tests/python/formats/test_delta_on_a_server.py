"""Delta tables behind a server: two real runs at once.

Spark's own metastore serves one process at a time, and here that is the server. So the tests' own
session, which lands rows and looks at tables, names them by their paths.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import BIN, attempt, environment
from conftest import ROOT, SCHEMA, Lake, Project, relation
from runs import COLUMNS, at, row
from standalone import free_port

pytestmark = [pytest.mark.minutes, pytest.mark.needs("delta")]

TABLES = ("stg_twice", "twice_history", "twice_audit")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def project(make_project: Callable[[str], Project], warehouse: Path) -> Project:
    project = make_project("twice")
    raw = relation(f"`{warehouse}/raw`", "delta")
    project.stream(TABLES[0], f"qlik_change_table({raw}, unique_key=['id'])")
    project.history(TABLES[1], TABLES[0])
    project.model(
        TABLES[2],
        f"select * from {{{{ ref('{TABLES[0]}') }}}}",
        materialized="audit",
        unique_key=["id"],
    )
    return project


@pytest.fixture
def variables(project: Project, warehouse: Path) -> Iterator[dict[str, str]]:
    """The environment of dbt's processes, while a server runs for them."""
    variables = environment(
        AFTERIMAGE_WAREHOUSE=str(warehouse),
        AFTERIMAGE_SERVER_PORT=str(free_port()),
        AFTERIMAGE_JARS=os.environ["AFTERIMAGE_JARS"],
        AFTERIMAGE_FORMAT="delta",
        DBT_TARGET="server",
        DBT_PROFILES_DIR=str(project.folder / "profiles"),
        DBT_SEND_ANONYMOUS_USAGE_STATS="false",
        PYTHONPATH=str(ROOT / "python_udfs"),
    )
    serve = (BIN / "python", "-m", "dbt_afterimage", "serve")
    started = attempt(
        *(*serve, "--daemon", "--memory", "1g", "--target", "delta"),
        cwd=project.folder,
        env=variables,
    )
    assert started.returncode == 0, started.stderr
    try:
        yield variables
    finally:
        attempt(*serve, "--stop", cwd=project.folder, env=variables)


def run(project: Project, variables: dict[str, str], number: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BIN / "dbt", "run", "--target-path", f"target_{number}"],
        cwd=project.folder,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )


def contents(lake: Lake, warehouse: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the tables without the times of runs."""
    found = {}
    for table in TABLES:
        rows = lake.rows(f"select * from delta.`{warehouse}/{SCHEMA}.db/{table}`")
        found[table] = [{k: v for k, v in one.items() if k != "ingested_at"} for one in rows]
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def test_two_runs_at_once(
    project: Project, lake: Lake, warehouse: Path, variables: dict[str, str]
) -> None:
    """No row is doubled or lost, and a run that was overtaken says so."""
    for batch in range(4):
        keys = range(20 * batch, 20 * batch + 20)
        rows = [row(at(batch + 2, key), "I", "new", key) for key in keys]
        # Row 1 changes too, in each batch.
        rows.append(row(at(batch + 3, 99), "U", f"name {batch}", 1))
        frame = lake.frame(COLUMNS, rows)
        frame.write.format("delta").mode("append").save(f"{warehouse}/raw")
        runs = [run(project, variables, number) for number in range(2 if batch else 1)]
        said = [one.communicate()[0] for one in runs]
        for one, text in zip(runs, said, strict=True):
            assert one.returncode == 0 or "nother run has changed" in text, text
        again = run(project, variables)
        text = again.communicate()[0]
        assert again.returncode == 0, text
        assert re.search("stg_twice: nothing new", text) or batch
    found = contents(lake, warehouse)
    assert [len(found[table]) for table in TABLES[:2]] == [84, 84]
    refreshed = attempt(*(BIN / "dbt", "run", "--full-refresh"), cwd=project.folder, env=variables)
    assert refreshed.returncode == 0, refreshed.stdout
    assert contents(lake, warehouse) == found
