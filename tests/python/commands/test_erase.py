"""Erased keys are in no table and in no file, and stay out of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from dbt_afterimage.cli import main

RAW = "clients__ct"
COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "code": "string",
    "name": "string",
}


def row(number: int, letter: str, code: str, name: str) -> dict[str, Any]:
    return {
        "header__change_seq": f"20240101120000{'0' * 2}{number:019}",
        "header__change_oper": letter,
        "code": code,
        "name": name,
    }


# Eve had another key and another name before; Ada and Bob have nothing to do with her.
ROWS = [
    row(1, "I", "eve-at-first", "Eve Marker"),
    row(2, "I", "ada", "Ada"),
    row(3, "B", "eve-at-first", "Eve Marker"),
    row(3, "U", "eve-now", "Eve Secondmark"),
    row(4, "I", "bob", "Bob"),
    row(5, "B", "ada", "Ada"),
    row(5, "U", "ada", "Ada L."),
]
MARKS = ("eve-at-first", "eve-now", "Marker", "Secondmark", "Latemark")
MODELS = ("stg_clients", "clients_history", "clients_audit", "clients_current")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    project = make_project("erase")
    project.stream("stg_clients", f"qlik_change_table({relation(RAW)}, unique_key=['code'])")
    project.history("clients_history", "stg_clients", ["code"])
    project.model(
        "clients_audit",
        "select * from {{ ref('stg_clients') }}",
        materialized="audit",
        unique_key=["code"],
    )
    project.model(
        "clients_current",
        "{{ current_state(ref('clients_history')) }}",
        materialized="table",
        file_format=FORMAT,
    )
    # What it calls `code` is another one's.
    project.model(
        "visits",
        "select reverse(name) as note, 'eve-now' as code from {{ ref('clients_current') }}"
        " where name like 'Ada%'",
        materialized="incremental",
        file_format=FORMAT,
    )
    project.model(
        "clients_accounting",
        "{{ change_accounting(ref('stg_clients'), unique_key=['code']) }}",
        materialized="table",
        file_format=FORMAT,
    )
    return project


def erase(project: Project, **arguments: Any) -> None:
    """Erase keys by dbt alone."""
    project.dbt("run-operation", "erase", "--args", json.dumps(arguments))


def typed(project: Project, *arguments: str) -> int:
    """Type `afterimage erase` in the project's folder."""
    where = ("--project-dir", str(project.folder), "--profiles-dir")
    return main(["erase", *arguments, *where, str(project.folder / "profiles")])


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from texts(one)
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif value is not None:
        yield str(value)


def found_in_files(lake: Lake, table: str) -> set[str]:
    """Return which marks are in any file below a table, of Parquet or other.

    Delta's log keeps bounds of all columns of a model that is a plain `table`.
    """
    [place] = {
        Path(one["file"].removeprefix("file:"))
        for one in lake.rows(f"select input_file_name() as file from {SCHEMA}.{table} limit 1")
    }
    folder = next(up for up in place.parents if up.name == table or up.name.startswith(table))
    found = set()
    for file in folder.rglob("*"):
        if not file.is_file() or (table == "clients_current" and "_delta_log" in file.parts):
            continue
        content = file.read_bytes().decode("latin-1")
        if file.suffix == ".parquet":
            read: pa.Table = parquet.ParquetFile(file).read()
            content += " ".join(texts(read.to_pylist()))
        elif file.suffix == ".avro":  # Iceberg's manifests, with bounds of values
            with file.open("rb") as opened:
                content += " ".join(texts(list(fastavro.reader(opened))))
        found |= {mark for mark in MARKS if mark in content}
    return found


def contents(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    return {name: lake.rows(f"select * from {SCHEMA}.{name}") for name in MODELS}


@pytest.mark.slow
def test_a_key_with_a_key_change_in_its_past(project: Project, lake: Lake) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    project.dbt("run", "--full-refresh")
    assert found_in_files(lake, "stg_clients") == set(MARKS) - {"Latemark"}
    before = contents(lake)

    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}], dry_run=True)
    assert contents(lake) == before
    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}], reference="request 17")
    after = contents(lake)
    for name in MODELS[1:]:
        others = [one for one in before[name] if "eve" not in str(one["code"])]
        assert sorted(after[name], key=str) == sorted(others, key=str), name
        assert found_in_files(lake, name) == set()
    assert found_in_files(lake, "stg_clients") == set()
    erased = [one for one in after["stg_clients"] if one["reject_reason"] == "erased"]
    assert [one["operation"] for one in sorted(erased, key=lambda one: str(one["change_seq"]))] == [
        "insert",
        "update",
    ]
    assert sum(one["source_rows"] for one in after["stg_clients"]) == len(ROWS)

    # A late row of the key, a row of another one, and then all of it again.
    late = [row(6, "U", "eve-now", "Eve Latemark"), row(7, "I", "cid", "Cid")]
    lake.append(RAW, COLUMNS, late)
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        names = {one["name"] for one in lake.rows(f"select name from {SCHEMA}.clients_current")}
        assert names == {"Ada L.", "Bob", "Cid"}
        [counted] = lake.rows(
            f"select sum(source_rows) as count from {SCHEMA}.clients_accounting"
            " where reason = 'erased'"
        )
        assert counted["count"] == 4
        [total] = lake.rows(f"select sum(source_rows) as count from {SCHEMA}.stg_clients")
        assert total["count"] == len(ROWS) + len(late)
        for name in MODELS:
            assert found_in_files(lake, name) == set(), (name, refresh)


def test_keys_that_are_none(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    project.dbt("run", "--full-refresh", "--select", "stg_clients")
    refused: list[tuple[str, list[dict[str, Any]], str]] = [
        ("stg_clients", [], "must be a list of keys"),
        ("stg_clients", [{"code": 1}, {"name": 1}], "must be a list of keys, each with the same"),
        ("stg_clients", [{"name": "Eve"}], "the whole key of stg_clients: code. Got: name"),
        ("stg_clients", [{"nobody": 1}], "names a column that does not exist"),
        ("stg_nobody", [{"code": 1}], "must be a model that was built. Got: stg_nobody"),
    ]
    for staging, keys, said in refused:
        capfd.readouterr()
        with pytest.raises(DbtError):
            erase(project, staging=staging, keys=keys)
        assert said in capfd.readouterr().out


@pytest.mark.slow
def test_the_command_says_what_it_will_touch(
    project: Project, lake: Lake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    before = contents(lake)
    capfd.readouterr()
    assert typed(project, "stg_clients", "code=eve-at-first", "--dry-run") == 0
    said = capfd.readouterr().out
    assert contents(lake) == before
    assert said.splitlines()[:3] == [
        'key {"code": "eve-at-first"}',
        'key {"code": "eve-now"}, linked by a key change',
        "stg_clients: 2 rows",
    ]
    assert "clients_history: 2 rows" in said
    assert "clients_accounting: is left alone" in said
    assert "visits: is left alone" in said

    keys = tmp_path / "keys.csv"
    keys.write_text("code\neve-now\nbob\n")
    assert typed(project, "stg_clients", "--keys", str(keys), "--reference", "17", "--yes") == 0
    assert "stg_clients: erased 3 keys" in capfd.readouterr().out
    listed = lake.rows(f"select erased_key, reference from {SCHEMA}.afterimage_erasures")
    assert {(one["erased_key"], one["reference"]) for one in listed} == {
        (json.dumps({"code": code}), "17") for code in ("eve-at-first", "eve-now", "bob")
    }
    assert {one["code"] for one in lake.rows(f"select code from {SCHEMA}.clients_history")} == {
        "ada"
    }
    assert len(lake.rows(f"select * from {SCHEMA}.visits")) == 1
    # A second time there is nothing to do, and the list stays as it is.
    assert typed(project, "stg_clients", "code=bob", "--yes") == 0
    assert lake.rows(f"select erased_key, reference from {SCHEMA}.afterimage_erasures") == listed

    assert typed(project, "stg_clients", "code") == 1
    assert "a key is written COLUMN=VALUE, not code" in capfd.readouterr().err
