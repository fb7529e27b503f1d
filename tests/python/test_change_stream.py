"""A staging run takes in what has landed since the last one, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SCHEMA, DbtError, Lake, Project
from strategies import merged_streams
from test_history_engine import EXAMPLES, fewer_checks
from test_qlik_change_table import HEADER, landed_rows

RAW = "stream__ct"
TABLE = f"{SCHEMA}.stg_stream"
COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "int",
    "name": "string",
}
STREAM = "materialized='change_stream', file_format='iceberg'"
INCREMENTAL = (
    "materialized='incremental', incremental_strategy='merge', unique_key='change_id',"
    " file_format='iceberg'"
)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("change_stream")


def model(project: Project, config: str = STREAM, raw: str = RAW, key: str = "['id']") -> None:
    relation = f"api.Relation.create(schema='{SCHEMA}', identifier='{raw}')"
    project.file(
        "models/stg_stream.sql",
        f"{{{{ config({config}) }}}}\n{{{{ qlik_change_table({relation}, unique_key={key}) }}}}",
    )


def at(day: int, number: int = 1) -> str:
    return f"202401{day:02}120000{'0' * 2}{number:019}"


def row(seq: str | None, letter: str, name: str, id: int = 1) -> dict[str, Any]:
    return {"header__change_seq": seq, "header__change_oper": letter, "id": id, "name": name}


FIRST = [
    row(None, "I", "loaded", 7),
    row(at(1), "I", "a"),
    row(at(2), "B", "a"),
    row(at(2), "U", "b"),
    row(at(3), "U", "c"),
]


class Runs:
    """A staging table on a raw table, and what its runs say."""

    def __init__(
        self, project: Project, lake: Lake, capfd: pytest.CaptureFixture[str], config: str = STREAM
    ) -> None:
        self.project, self.lake, self.capfd = project, lake, capfd
        model(project, config)
        lake.spark.sql(f"drop table if exists {TABLE}")
        lake.create(RAW, COLUMNS, FIRST)
        self.sql = ""
        self.run()

    def run(self, *arguments: str) -> str:
        """Run the model and return the line that it says."""
        self.capfd.readouterr()
        result = self.project.dbt("--no-quiet", "run", "--select", "stg_stream", *arguments)
        self.sql = result.results[0].node.compiled_code
        views = [view["viewName"] for view in self.lake.rows("show views in spark_catalog.default")]
        assert not [view for view in views if view.startswith("afterimage_")]
        said = re.findall(r"stg_stream: (.*)", self.capfd.readouterr().out)
        return said[-1].strip() if said else ""

    def land(self, *rows: dict[str, Any]) -> None:
        self.lake.append(RAW, COLUMNS, list(rows))

    def staged(self) -> list[dict[str, Any]]:
        """Return the table's rows but for the time of the run."""
        rows = self.lake.rows(f"select * from {TABLE} order by change_id")
        return [{name: row[name] for name in row if name != "ingested_at"} for row in rows]

    def snapshot(self) -> Any:
        return self.lake.rows(f"select snapshot_id from {TABLE}.refs where name = 'main'")

    def assert_as_a_full_refresh(self) -> None:
        in_runs = self.staged()
        self.run("--full-refresh")
        assert self.staged() == in_runs

    def assert_nothing_new(self) -> None:
        before = self.snapshot()
        assert self.run() == "nothing new"
        assert self.snapshot() == before


@pytest.fixture
def runs(project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]) -> Runs:
    return Runs(project, lake, capfd)


def test_a_run_says_what_has_landed_and_what_it_made_of_it(runs: Runs) -> None:
    runs.land(
        row(at(4), "U", "d"),  # new
        row(at(3), "B", "b"),  # of a known change
        row(at(5), "?", "e"),  # of no known operation
    )
    assert runs.run() == "3 rows landed, 3 changes: 1 new, 1 known, 1 rejected"
    runs.assert_as_a_full_refresh()


def test_nothing_new_is_no_commit_and_reads_no_raw_row(runs: Runs) -> None:
    runs.assert_nothing_new()
    assert RAW not in re.sub(r"/\*.*?\*/", "", runs.sql)
