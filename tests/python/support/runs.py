"""Runs of a staging model over a Qlik change table, and what each of them says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conftest import FORMAT, SCHEMA, Lake, Project, relation

RAW = "Stream__CT"
TABLE = f"{SCHEMA}.stg_stream"
COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "int",
    "name": "string",
}
STREAM = f"materialized='change_stream', file_format='{FORMAT}'"
INCREMENTAL = (
    "materialized='incremental', incremental_strategy='merge', unique_key='change_id',"
    f" file_format='{FORMAT}'"
)


def model(project: Project, config: str = STREAM, raw: str = RAW, key: str = "['id']") -> None:
    raw = relation(raw)
    project.file(
        "models/stg_stream.sql",
        f"{{{{ config({config}) }}}}\n{{{{ qlik_change_table({raw}, unique_key={key}) }}}}",
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

# Updates as pairs of rows: one of values, two that change the key.
PAIRS = [
    row(at(4), "B", "c"),
    row(at(4), "U", "d"),
    row(at(5), "B", "d", 42),
    row(at(5), "U", "d", 9),
    row(at(6), "B", "e", 43),
    row(at(6), "U", "e", 8),
]
# Of each pair the key and the name, before and after.
PAIRS_AS_CHANGES = {
    at(4): ((1, "c"), (1, "d")),
    at(5): ((42, "d"), (9, "d")),
    at(6): ((43, "e"), (8, "e")),
}
# One row of each pair.
PARTNERS = f"(header__change_seq = '{at(4)}' and header__change_oper = 'B') or id in (42, 8)"


def pairs_of(staged: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the changes behind the first ones as PAIRS_AS_CHANGES has them; all must be good."""
    assert [change["reject_reason"] for change in staged if change["reject_reason"]] == []
    return {
        change["change_seq"]: tuple(
            image and (image["id"], image["name"]) for image in (change["before"], change["after"])
        )
        for change in staged
        if change["change_seq"] > at(3)
    }


class Runs:
    """A staging table on a raw table, and the log lines of its runs."""

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
        """Run the model and return its log line."""
        self.capfd.readouterr()
        result = self.project.dbt("--no-quiet", "run", "--select", "stg_stream", *arguments)
        self.sql = result.results[0].node.compiled_code
        views = [view["viewName"] for view in self.lake.rows("show views in spark_catalog.default")]
        assert not [view for view in views if view.startswith("afterimage_")]
        tables = self.lake.rows(f"show tables in {SCHEMA} like 'stg_stream__scratch*'")
        assert tables == []
        said = re.findall(r"stg_stream: (.*)", self.capfd.readouterr().out)
        return said[-1].strip() if said else ""

    def land(self, *rows: dict[str, Any]) -> None:
        self.lake.append(RAW, COLUMNS, list(rows))

    def staged(self) -> list[dict[str, Any]]:
        """Return the table's rows without the time of the run."""
        rows = self.lake.rows(f"select * from {TABLE} order by change_id")
        return [{name: row[name] for name in row if name != "ingested_at"} for row in rows]

    def snapshot(self) -> Any:
        """Return what tells whether rows were committed; what is remembered are properties."""
        if FORMAT == "delta":
            commits = self.lake.rows(f"describe history {TABLE}")
            return next(one for one in commits if "PROPERTIES" not in one["operation"])["version"]
        return self.lake.rows(f"select snapshot_id from {TABLE}.refs where name = 'main'")

    def assert_as_a_full_refresh(self) -> None:
        in_runs = self.staged()
        self.run("--full-refresh")
        assert self.staged() == in_runs

    def assert_nothing_new(self) -> None:
        before = self.snapshot()
        assert self.run() == "nothing new"
        assert self.snapshot() == before
