"""`afterimage health --all` on many tables: what it holds at once, and what `up` keeps of it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbt_afterimage.commands import health
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet.record import Record
from dbt_afterimage.pages.health import HOUR
from dbt_afterimage.runtime.project import CONTRACT, Column

LINES = 2_000


class Tables:
    """A project whose staging tables answer without Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.broken: set[str] = set()

    def columns_of(self, relation: str) -> list[Column]:
        return [Column(name, "string") for name in CONTRACT]

    def query(self, sql: str) -> list[dict[str, Any]]:
        name = sql.split("from stg.")[1].split()[0]
        self.asked.append(name)
        if name in self.broken:
            raise AfterimageError("Spark failed: the file is gone")
        # An insert each hour, taken in a minute later by a run of its own.
        return [
            {
                "run": hour * HOUR + 60_000_000,
                "hour": hour,
                "kind": "insert",
                "changes": 2,
                "first": hour * HOUR,
                "last": hour * HOUR,
                "late": 0,
            }
            for hour in range(480_000, 480_000 + LINES)
        ]

    def pages_folder(self) -> Path:
        return self.folder


def nodes(count: int) -> list[Any]:
    return [
        SimpleNamespace(
            name=f"t{n}",
            unique_id=f"model.own.t{n}",
            relation_name=f"stg.t{n}",
            raw_code="",
            depends_on=SimpleNamespace(macros=[], nodes=[]),
            config=SimpleNamespace(materialized="change_stream"),
        )
        for n in range(count)
    ]


@contextmanager
def peak() -> Iterator[list[int]]:
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def write(tables: Tables, count: int, kept: Record | None = None) -> int:
    return health.write(cast(Any, tables), nodes(count), 24, is_all=True, kept=kept)


def test_the_page_of_many_tables_takes_the_memory_of_one(tmp_path: Path) -> None:
    write(Tables(tmp_path), 1)  # Imports what draws a page.
    with peak() as one:
        write(Tables(tmp_path), 1)
    with peak() as many:
        write(Tables(tmp_path), 20)
    assert many[0] < 1.2 * one[0], (one, many)


def test_a_table_that_is_as_it_was_is_not_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Record(tmp_path / "up", versions={f"model.own.t{n}": "1" for n in range(4)})
    tables = Tables(tmp_path)
    assert write(tables, 4, kept) == 0
    first = capsys.readouterr().out
    assert tables.asked == ["t0", "t1", "t2", "t3"]
    # A run built one of them, and another one failed.
    kept.versions["model.own.t1"] = "2"
    kept.pending = ["model.own.t2"]
    tables.broken = {"t2"}
    tables.asked.clear()
    assert write(tables, 4, kept) == 1
    assert tables.asked == ["t1", "t2"]
    said, before = (
        dict(line.split(": ", 1) for line in text.splitlines()[:4])
        for text in (capsys.readouterr().out, first)
    )
    assert said.pop("t2") == "look here, because Spark failed: the file is gone"
    del before["t2"]
    assert said == before


def test_what_an_older_version_kept_is_read_again(tmp_path: Path) -> None:
    kept = Record(tmp_path / "up", versions={"model.own.t0": "1"})
    (tmp_path / "up" / "health").mkdir(parents=True)
    kept_before = tmp_path / "up" / "health" / "model.own.t0.json"
    kept_before.write_text('{"version": "1", "groups": []}')
    tables = Tables(tmp_path)
    assert [write(tables, 1, kept), write(tables, 1, kept)] == [0, 0]
    assert tables.asked == ["t0"]


def test_a_staging_model_without_a_table_has_a_line_however_it_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a project whose other models have no table either."""
    stream, merged, plain = nodes(3)
    merged.config.materialized = "incremental"
    merged.depends_on.macros = ["macro.afterimage.qlik_change_table"]
    plain.config.materialized = "table"
    plain.depends_on.macros = ["macro.dbt.is_incremental"]
    tables = Tables(tmp_path)
    built = stream.relation_name
    columns_of = tables.columns_of
    monkeypatch.setattr(tables, "columns_of", lambda one: columns_of(one) if one == built else None)
    health.write(cast(Any, tables), [stream, merged, plain], 24, is_all=True)
    said = capsys.readouterr().out
    assert "t1: look here, because it has not been built" in said
    assert "t2" not in said
