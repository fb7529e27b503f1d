"""Erased keys are in no table and in no file, and stay out of them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from all_dialects import LEAST, MACRO, PLACES, STILL, Told, in_dialect, name_in, retold
from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from dbt_afterimage.cli import main
from dbt_afterimage.runtime.cursor import AfterimageCursor
from dialect_netiq import LOG
from dialect_openedge import CHANGE_COLUMNS, TRACKING_COLUMNS
from ends import ENDED, at_work, ended
from reference import Change, Operation, Row, history
from strategies import START, Stream, seq

RAW = "clients__ct"
COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "code": "string",
    "name": "string",
}


def row(number: int, letter: str, code: str | bytes | Decimal | int, name: str) -> dict[str, Any]:
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


@pytest.fixture(autouse=True)
def _own_list(lake: Lake) -> Iterator[None]:
    """Other tests have no list of erasures: it names models that their projects do not have."""
    yield
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    project = make_project("erase")
    project.file(
        "models/sources.yml",
        f"sources: [{{name: crm, schema: {SCHEMA}, tables: [{{name: {RAW}}}]}}]",
    )
    project.stream("stg_clients", f"qlik_change_table(source('crm', '{RAW}'), unique_key=['code'])")
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

    Delta's log keeps bounds of all columns of a raw table, and of a model that is a plain `table`.
    """
    [place] = {
        Path(one["file"].removeprefix("file:"))
        for one in lake.rows(f"select input_file_name() as file from {SCHEMA}.{table} limit 1")
    }
    folder = next(up for up in place.parents if up.name == table or up.name.startswith(table))
    found = set()
    for file in folder.rglob("*"):
        is_bounded = table in ("clients_current", RAW, "cdc_item") and "_delta_log" in file.parts
        if not file.is_file() or is_bounded:
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
    assert f"crm.{RAW}: has 3 rows of these keys, and is left alone" in said

    keys = tmp_path / "keys.csv"
    keys.write_text("code\neve-now\nbob\n")
    assert typed(project, "stg_clients", "--keys", str(keys), "--reference", "17", "--yes") == 0
    assert "stg_clients: erased 3 keys" in capfd.readouterr().out
    listed = lake.rows(f"select erased_key, reference from {SCHEMA}.afterimage_erasures")
    assert {(one["erased_key"], one["reference"]) for one in listed} == {
        (f'{{"code":"{code}"}}', "17") for code in ("eve-at-first", "eve-now", "bob")
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


# The same story in the words of any dialect. What comes last is late.
KEY = ["case_no", "code"]
TYPES = {"code": "string", "name": "string"}


def change(
    number: int, operation: Operation, old: str | None, new: str | None, name: str = ""
) -> Change:
    """A change of the story. What the row before it was called, `retold` works out."""
    return Change(
        str(number),
        seq(number),
        operation,
        before=None if old is None else {"code": old, "name": None},
        after=None if new is None else {"code": new, "name": name},
        changed_at=START + timedelta(minutes=number),
        transaction_id=f"tx{number}",
    )


STORY = [
    change(1, "insert", None, "eve-at-first", "Eve Marker"),
    change(2, "insert", None, "ada", "Ada"),
    change(3, "update", "eve-at-first", "eve-now", "Eve Secondmark"),
    change(4, "insert", None, "bob", "Bob"),
    change(5, "update", "ada", "ada", "Ada L."),
    change(6, "delete", "bob", None),
    change(7, "update", "eve-now", "eve-now", "Eve Latemark"),
    change(8, "insert", None, "cid", "Cid"),
]


def told() -> Told:
    """The story twice: where a key cannot change, and where it can."""
    stream = Stream(["code"], list(TYPES), TYPES, STORY)
    flavours = [LEAST, STILL | {"key change"}]
    cases = [retold(stream, number, 2 - number, those) for number, those in enumerate(flavours)]
    return Told(Stream(KEY, ["case_no", *TYPES], {"case_no": "int", **TYPES}, []), cases)


def is_late(row: Row) -> bool:
    return any(mark in str(row) for mark in ("Latemark", "Cid"))


def of_others(rows: Sequence[Row]) -> list[Row]:
    of_eve = ("eve", "erased-")
    return sorted((one for one in rows if not str(one["code"]).startswith(of_eve)), key=str)


@pytest.mark.slow
def test_keys_as_hashes(
    project: Project,
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The list, here one of the user's own, has no key then; a hash can be added by hand."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {erasures}")
    # What another test has erased there would stop the run: the list is empty.
    lake.spark.sql(f"drop table if exists {SCHEMA}.stg_clients")
    lake.spark.sql(
        f"create table {erasures} (model string, erased_key string, requested_at timestamp,"
        f" reference string) using {FORMAT}"
    )
    project.dbt("run", "--full-refresh")

    def digest(key: str) -> str:
        return "sha256:" + hashlib.sha256(f"pepper{len(key)}:{key}".encode()).hexdigest()

    monkeypatch.setenv("AFTERIMAGE_ERASURE_SALT", "pepper")
    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}])
    assert {one["erased_key"] for one in lake.rows(f"select erased_key from {erasures}")} == {
        digest("eve-now"),
        digest("eve-at-first"),
    }
    lake.append(RAW, COLUMNS, [row(6, "U", "eve-now", "Eve Latemark")])
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        for name in (*MODELS, "afterimage_erasures"):
            assert found_in_files(lake, name) == set(), (name, refresh)

    lake.spark.sql(
        f"insert into {erasures} values"
        f" ('stg_clients', '{digest('bob')}', current_timestamp(), 'by hand'),"
        f" ('stg_clients', '{digest('nobody')}', current_timestamp(), 'by hand')"
    )
    assert typed(project, "stg_clients", "--listed", "--yes") == 0
    said = capfd.readouterr().out
    assert "stg_clients: erased 1 key\n" in said
    assert "clients_history: no file has rows of these keys" in said
    assert {one["code"] for one in lake.rows(f"select code from {SCHEMA}.clients_history")} == {
        "ada"
    }
    assert len(lake.rows(f"select * from {erasures}")) == 4
    assert typed(project, "stg_clients", "--listed", "--yes") == 0
    assert "stg_clients: erased 0 keys" in capfd.readouterr().out

    monkeypatch.delenv("AFTERIMAGE_ERASURE_SALT")
    lake.append(RAW, COLUMNS, [row(7, "I", "cid", "Cid")])
    with pytest.raises(DbtError):
        project.dbt("run", "--select", "stg_clients")
    assert "has hashes of keys. Set AFTERIMAGE_ERASURE_SALT" in capfd.readouterr().out
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_a_key_with_capitals_and_an_entry_without_it(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_capitals")
    project.stream(
        "stg_capitals", f"qlik_change_table({relation('Capitals__ct')}, unique_key=['Code'])"
    )
    project.history("capitals_history", "stg_capitals", ["Code"])
    columns = {name.replace("code", "Code"): kind for name, kind in COLUMNS.items()}
    rows = [{name.replace("code", "Code"): value for name, value in row.items()} for row in ROWS]
    lake.create("Capitals__ct", columns, rows)
    lake.spark.sql(f"drop table if exists {erasures}")
    project.dbt("run", "--full-refresh")

    def left() -> set[str]:
        return {one["Code"] for one in lake.rows(f"select Code from {SCHEMA}.capitals_history")}

    erase(project, staging="stg_capitals", keys=[{"code": "eve-now"}])
    assert left() == {"ada", "bob"}

    def list_by_hand(model: str, key: str) -> None:
        lake.spark.sql(f"insert into {erasures} values ('{model}', '{key}', null, null, null)")

    list_by_hand("stg_capitals", '{"CODE": "bob"}')
    list_by_hand("stg_nobody", '{"id": "7"}')
    # A run reads the change again, without values now, and the old one is still there.
    bob = next(row for row in rows if row["Code"] == "bob")
    lake.append("Capitals__ct", columns, [bob])
    project.dbt("run", "--select", "stg_capitals")
    erase(project, staging="stg_capitals", listed=True)
    for _ in range(2):
        assert left() == {"ada"}
        changes = lake.rows(f"select change_id, source_rows from {SCHEMA}.stg_capitals")
        assert len({one["change_id"] for one in changes}) == len(changes) == 5
        assert sum(one["source_rows"] for one in changes) == len(rows) + 1
        project.dbt("run")

    list_by_hand("stg_capitals", '{"id": "7"}')
    lake.append("Capitals__ct", columns, [rows[1] | {"Code": "cid"}])
    with pytest.raises(DbtError):
        project.dbt("run")
    assert "without a value for each column of its key (Code)" in capfd.readouterr().out
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_a_key_is_the_same_in_any_type(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Below the staging model, in the list, and in what the command is told."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_typed")
    source = f"qlik_change_table({relation('typed__ct')}, unique_key=['code'])"
    project.stream("stg_typed", source)
    project.history("typed_history", "stg_typed", ["code"])
    for kind in ("bigint", "string"):
        project.model(
            f"typed_{kind}",
            f"select cast(code as {kind}) as code, name from {{{{ ref('typed_history') }}}}",
            materialized="incremental",
            unique_key="code",
            file_format=FORMAT,
        )
    columns = COLUMNS | {"code": "decimal(38,10)"}
    rows = [row(n, "I", Decimal(n), f"Number {n}") for n in range(1, 5)]
    lake.create("typed__ct", columns, rows)
    lake.spark.sql(f"drop table if exists {erasures}")
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_typed", keys=[{"code": "1"}])
    for name in ("typed_history", "typed_bigint", "typed_string"):
        left = lake.rows(f"select cast(code as decimal) as code from {SCHEMA}.{name}")
        assert {one["code"] for one in left} == {2, 3, 4}, name
    lake.spark.sql(
        f"""insert into {erasures} values ('stg_typed', '{{"code": "02"}}', null, null, null)"""
    )
    for refresh in (["--full-refresh"], []):
        lake.append("typed__ct", columns, [row(5, "U", Decimal(2), "Latemark")])
        project.dbt("run", "--select", "+typed_history", *refresh)
        left = lake.rows(f"select cast(code as int) as code from {SCHEMA}.typed_history")
        assert {one["code"] for one in left} == {3, 4}, refresh

    with pytest.raises(DbtError):
        erase(project, staging="stg_typed", keys=[{"code": "3.00000000001"}])
    assert "must have values of the types of the columns" in capfd.readouterr().out
    lake.spark.sql(
        f"""insert into {erasures} values ('stg_typed', '{{"code": "x"}}', null, null, null)"""
    )
    lake.append("typed__ct", columns, [row(6, "I", Decimal(6), "Six")])
    with pytest.raises(DbtError):
        project.dbt("run", "--select", "stg_typed")
    assert "or with one that is not of the type of the column" in capfd.readouterr().out
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_a_text_may_be_a_number_below(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """A key with leading zeros is text in CSV files, and somebody casts it."""
    project = make_project("erase_texts")
    source = f"qlik_change_table({relation('texts__ct')}, unique_key=['code'])"
    project.stream("stg_texts", source)
    for kind in ("int", "decimal(10,2)"):
        project.model(
            f"texts_{kind[:3]}",
            f"select cast(after.code as {kind}) as code, after.name from {{{{ ref('stg_texts') }}}}"
            " where reject_reason is null",
            materialized="incremental",
            unique_key="code",
            file_format=FORMAT,
        )
    rows = [row(n, "I", code, f"Number {n}") for n, code in enumerate(("042", "43", "44"), 1)]
    lake.create("texts__ct", COLUMNS, rows)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    # dbt reads `--args` as YAML, where 042 is 34.
    with pytest.raises(DbtError):
        erase(project, staging="stg_texts", keys=[{"code": 34}])
    assert "write the value of the text column code in quotes" in capfd.readouterr().out
    assert typed(project, "stg_texts", "code=042", "--dry-run") == 0
    assert "texts_int: 1 rows" in capfd.readouterr().out
    assert typed(project, "stg_texts", "code=042", "--yes") == 0
    for name in ("texts_int", "texts_dec"):
        left = lake.rows(f"select cast(code as int) as code from {SCHEMA}.{name}")
        assert {one["code"] for one in left} == {43, 44}, name
    lake.spark.sql(
        f"""insert into {SCHEMA}.afterimage_erasures
        values ('stg_texts', '{{"code": "43"}}', null, null, null)"""
    )
    # A run has taken the values out of the staging table: the list alone has the key.
    project.dbt("run", "--full-refresh", "--select", "stg_texts")
    assert typed(project, "stg_texts", "--listed", "--yes") == 0
    for name in ("texts_int", "texts_dec"):
        left = lake.rows(f"select cast(code as int) as code from {SCHEMA}.{name}")
        assert {one["code"] for one in left} == {44}, name
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


def forget(lake: Lake, table: str, name: str) -> list[Any]:
    """Let a staging table be of a release that did not remember something; return what it was."""
    [kept] = lake.rows(f"show tblproperties {SCHEMA}.{table} ('afterimage.keys')")
    keys = json.loads(bytes.fromhex(kept["value"]))
    noted = [one.pop(name) for one in keys]
    earlier = json.dumps(keys).encode().hex()
    lake.spark.sql(
        f"alter table {SCHEMA}.{table} set tblproperties ('afterimage.keys' = '{earlier}')"
    )
    return noted


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
def test_a_schema_of_a_registry_is_no_row_of_a_key(
    is_known: bool,
    make_project: Callable[[str], Project],
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its `id` is a number as those of customers are. An earlier release did not remember it."""
    project = make_project("erase_schemas")
    tables = [{"name": "topic"}, {"name": "registry_schemas"}]
    sources = {"sources": [{"name": "raw", "schema": SCHEMA, "tables": tables}]}
    project.file("models/sources.yml", json.dumps(sources))
    columns = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_people",
        f"debezium_messages(source('raw', 'topic'), unique_key=['id'], columns={columns},"
        " schemas=source('raw', 'registry_schemas'))",
    )
    source = {"ts_ms": 1709283600000, "snapshot": "false", "file": "b.1", "pos": 4}
    message = {"op": "c", "after": {"id": 5, "name": "Eve"}, "source": source}
    lake.create("topic", {"value": "string"}, [{"value": json.dumps(message)}])
    schemas = [{"id": n, "schema": '"string"'} for n in (4, 5)]
    kinds = {"id": "int", "schema": "string"} | ({"subject": "string"} if is_known else {})
    lake.create("registry_schemas", kinds, schemas)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    if not is_known:
        noted = forget(lake, "stg_people", "without_changes")
        assert noted == [[f"{SCHEMA}.registry_schemas"]]
    with pytest.raises(DbtError):
        erase(project, staging="stg_people", keys=[{"id": 5}], raw=True)
    assert "reads no table of Iceberg or Delta with the columns" in capfd.readouterr().out
    assert typed(project, "stg_people", "id=5", "--yes") == 0
    said = capfd.readouterr().out
    assert "raw.topic: may have rows of these keys" in said
    assert "registry_schemas" not in said
    assert len(lake.rows(f"select * from {SCHEMA}.registry_schemas")) == 2
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_a_column_of_a_topic_is_no_key_of_its_messages(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """A table may have a key that is called `offset`. The message with the offset 5 is of key 7."""
    project = make_project("erase_offsets")
    sources = {"sources": [{"name": "raw", "schema": SCHEMA, "tables": [{"name": "offsets"}]}]}
    project.file("models/sources.yml", json.dumps(sources))
    columns = [{"name": "offset", "type": "int"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_offsets",
        f"debezium_messages(source('raw', 'offsets'), unique_key=['offset'], columns={columns})",
    )
    messages = []
    for place, key, name in ((5, 7, "Ada"), (7, 5, "Eve Marker")):
        source = {"ts_ms": 1709283600000, "snapshot": "false", "file": "b.1", "pos": place}
        after = {"offset": key, "name": name}
        value = json.dumps({"op": "c", "after": after, "source": source})
        messages.append({"value": value, "partition": 0, "offset": place})
    kinds = {"value": "string", "partition": "int", "offset": "bigint"}
    lake.create("offsets", kinds, messages)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    for is_known in (True, False):
        if not is_known:
            forget(lake, "stg_offsets", "made_by")
        with pytest.raises(DbtError):
            erase(project, staging="stg_offsets", keys=[{"offset": 5}], raw=True)
        assert "reads no table of Iceberg or Delta with the columns" in capfd.readouterr().out
        assert len(lake.rows(f"select * from {SCHEMA}.offsets")) == 2
    assert typed(project, "stg_offsets", "offset=5", "--dry-run") == 0
    assert "raw.offsets: may have rows of these keys" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "listed"),
    [
        ("numeric(10, 2)", "42.00", "42"),
        ("long", "42", "042"),
        ("timestamp_ltz", "2024-01-01 00:00:00", "2024-01-01"),
    ],
)
def test_a_listed_key_is_known_whatever_word_declares_its_type(
    kind: str, value: str, listed: str, make_project: Callable[[str], Project], lake: Lake
) -> None:
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_words")
    columns = [{"name": "ID", "type": kind}, {"name": "NAME", "type": "string"}]
    project.stream(
        "stg_words", f"qlik_messages({relation('words')}, unique_key=['ID'], columns={columns})"
    )
    head = {"operation": "INSERT", "changeSequence": f"2024010112{1:025d}"}
    message = json.dumps({"data": {"ID": value, "NAME": "Eve Marker"}, "headers": head})
    lake.create("words", {"value": "string"}, [{"value": message}])
    lake.spark.sql(f"drop table if exists {erasures}")
    lake.spark.sql(
        f"create table {erasures} using {FORMAT} as select 'stg_words' as model,"
        f""" '{{"ID": "{listed}"}}' as erased_key, current_timestamp() as requested_at,"""
        " cast(null as string) as reference, cast(null as string) as kept"
    )
    project.dbt("run", "--full-refresh", "--select", "stg_words")
    found = lake.rows(f"select reject_reason, `after` from {SCHEMA}.stg_words")
    assert found == [{"reject_reason": "erased", "after": None}]
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_a_key_of_bytes_is_hex(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """As audits and timelines write it; most bytes are no text."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_bytes")
    project.stream("stg_bytes", f"qlik_change_table({relation('bytes__ct')}, unique_key=['code'])")
    project.history("bytes_history", "stg_bytes", ["code"])
    columns = COLUMNS | {"code": "binary"}
    first, now, ada, bob = (bytes([10, last]) for last in (0xFE, 0xFF, 0xFD, 0xFC))
    rows = [
        row(1, "I", first, "Eve"),
        row(2, "I", ada, "Ada"),
        row(3, "B", first, "Eve"),
        row(3, "U", now, "Eve"),
        row(4, "I", bob, "Bob"),
    ]
    lake.create("bytes__ct", columns, rows)
    lake.spark.sql(f"drop table if exists {erasures}")
    project.dbt("run", "--full-refresh")

    def left() -> set[bytes]:
        found = lake.rows(f"select code from {SCHEMA}.bytes_history")
        return {bytes(one["code"]) for one in found}

    assert left() == {first, now, ada, bob}
    erase(project, staging="stg_bytes", keys=[{"code": "0AFF"}])
    assert left() == {ada, bob}
    assert {one["erased_key"] for one in lake.rows(f"select erased_key from {erasures}")} == {
        '{"code":"0AFF"}',
        '{"code":"0AFE"}',
    }
    lake.spark.sql(
        f"""insert into {erasures} values ('stg_bytes', '{{"code": "0afc"}}', null, null, null)"""
    )
    erase(project, staging="stg_bytes", listed=True)
    project.dbt("run", "--full-refresh")
    assert left() == {ada}
    with pytest.raises(DbtError):
        erase(project, staging="stg_bytes", keys=[{"code": "no hex"}])
    assert "must have values of the types of the columns" in capfd.readouterr().out
    lake.spark.sql(f"drop table {erasures}")


def list_by_hand(lake: Lake, code: str) -> None:
    erasures = f"{SCHEMA}.afterimage_erasures"
    lake.spark.sql(f"drop table if exists {erasures}")
    lake.spark.sql(
        f"create table {erasures} using {FORMAT} as select 'stg_clients' as model,"
        f""" '{{"code": "{code}"}}' as erased_key, current_timestamp() as requested_at,"""
        " 'by hand' as reference, cast(null as string) as kept"
    )


@pytest.mark.slow
def test_listed_keys_that_staging_has_lost_are_counted_below(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    list_by_hand(lake, "bob")
    project.dbt("run", "--full-refresh", "--select", "stg_clients")
    capfd.readouterr()
    assert typed(project, "stg_clients", "--listed", "--dry-run") == 0
    said = capfd.readouterr().out
    assert "stg_clients: 0 rows\n" in said
    assert "clients_history: 1 rows\n" in said
    assert f"crm.{RAW}: has 1 rows of these keys" in said
    assert typed(project, "stg_clients", "--listed", "--yes") == 0
    codes = {one["code"] for one in lake.rows(f"select code from {SCHEMA}.clients_history")}
    assert codes == {"eve-at-first", "eve-now", "ada"}
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_a_row_that_took_an_erased_key_is_gone_from_its_own(project: Project, lake: Lake) -> None:
    """Else its last version there would be open for ever. Its own key can be erased too."""
    lake.create(RAW, COLUMNS, ROWS)
    list_by_hand(lake, "eve-now")
    project.dbt("run", "--full-refresh")
    query = f"select code, closed_by, is_current from {SCHEMA}.clients_history where name like 'E%'"
    assert [tuple(one.values()) for one in lake.rows(query)] == [("eve-at-first", "delete", False)]
    query = f"select * from {SCHEMA}.stg_clients where startswith(change_id, 'erased-')"
    [left] = lake.rows(query)
    assert left["operation"] == "delete"
    assert left["before"] == {"code": "eve-at-first", "name": "Eve Marker"}
    assert (left["after"], left["reject_reason"]) == (None, None)
    assert left["warnings"] == ["the row took a key that is erased: erase this one too"]

    erase(project, staging="stg_clients", keys=[{"code": "eve-at-first"}])
    lake.append(RAW, COLUMNS, [ROWS[2], ROWS[3]])  # The same change, delivered again.
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        for name in MODELS:
            assert found_in_files(lake, name) == set(), (name, refresh)
        changes = lake.rows(f"select change_id, source_rows from {SCHEMA}.stg_clients")
        assert len({one["change_id"] for one in changes}) == len(changes) == 5
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_the_interval_of_a_key_ends_where_the_row_goes_on_to_another(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Else one row of the source would be there twice: as the token, and with its new key."""
    project = make_project("erase_departed")
    project.stream(
        "stg_departed", f"qlik_change_table({relation('departed__ct')}, unique_key=['code'])"
    )
    project.history("departed_history", "stg_departed", ["code"])
    lake.create("departed__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_departed", keys=[{"code": "eve-now"}], keep_intervals=[])
    project.dbt("run")
    moved = [row(2, "B", "eve-now", "Eve Marker"), row(2, "U", "eve-new", "Eve Secondmark")]
    further = [row(3, "B", "eve-new", "Eve"), row(3, "U", "eve-new", "Eve N.")]
    lake.append("departed__ct", COLUMNS, moved)
    project.dbt("run")
    lake.append("departed__ct", COLUMNS, [*moved, *further])
    history = f"select * from {SCHEMA}.departed_history order by valid_from, code"
    warned = f"select warnings[0] as said from {SCHEMA}.stg_departed where operation = 'delete'"
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        first, second = lake.rows(history)
        assert first["code"].startswith("erased-")
        assert (first["closed_by"], first["is_current"]) == ("delete", False)
        assert (second["code"], second["name"]) == ("eve-new", "Eve N.")
        assert second["is_current"]
        said = "the row went on to a key that is not erased: erase that one too"
        assert lake.rows(warned) == [{"said": said}]
        assert found_in_files(lake, "stg_departed") == set()
    # The new key is erased as a whole, and all that there is of it lands again.
    erase(project, staging="stg_departed", keys=[{"code": "eve-new"}])
    lake.append("departed__ct", COLUMNS, [*moved, *further])
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        assert lake.rows(history) == [first]
        assert lake.rows(warned) == [{"said": None}]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_what_may_be_of_others_is_left_alone_and_named(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    project = make_project("erase_beside")
    tables = [f"{name}__ct" for name in ("people", "orders")]
    project.file(
        "models/sources.yml",
        json.dumps(
            {
                "sources": [
                    {"name": "crm", "schema": SCHEMA, "tables": [{"name": name} for name in tables]}
                ]
            }
        ),
    )
    for table in tables:
        lake.create(table, COLUMNS, [row(1, "I", "eve-now", f"One of {table}")])
        source = f"qlik_change_table(source('crm', '{table}'), unique_key=['code'])"
        project.stream(f"stg_{table.removesuffix('__ct')}", source)
    project.model("people_landed", "select code, name from {{ source('crm', 'people__ct') }}")
    # Its key is that of the orders.
    project.model(
        "orders_enriched",
        "select orders.after.code, people.after.name from {{ ref('stg_orders') }} as orders"
        " cross join {{ ref('stg_people') }} as people",
        materialized="incremental",
        unique_key="code",
        file_format=FORMAT,
    )
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    assert typed(project, "stg_people", "code=eve-now", "--yes") == 0
    said = capfd.readouterr().out
    left_alone = "orders_enriched: is left alone, as this may be the key of stg_orders, which"
    assert f"{left_alone} it has rows of too; it has 1 rows of these values" in said
    assert "people_landed: is left alone; it reads what stg_people reads" in said
    assert len(lake.rows(f"select * from {SCHEMA}.orders_enriched")) == 1


@pytest.mark.slow
def test_each_version_of_a_model_is_erased_by_its_table(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """All versions have one name."""
    project = make_project("erase_versions")
    table = {"name": "crm", "schema": SCHEMA, "tables": [{"name": "versioned__ct"}]}
    model = {"name": "stg_versioned", "latest_version": 2, "versions": [{"v": 1}, {"v": 2}]}
    project.file("models/sources.yml", json.dumps({"sources": [table], "models": [model]}))
    for number in (1, 2):
        project.stream(
            f"stg_versioned_v{number}",
            "qlik_change_table(source('crm', 'versioned__ct'), unique_key=['code'])",
        )
        project.model(
            f"versioned_history_{number}",
            f"select * from {{{{ ref('stg_versioned', v={number}) }}}}",
            materialized="history",
            unique_key=["code"],
        )
    lake.create("versioned__ct", COLUMNS, ROWS)
    project.dbt("run", "--full-refresh")

    def codes(number: int) -> set[str]:
        stored = [
            f"after.code from {SCHEMA}.stg_versioned_v{number} where after.code is not null",
            f"code from {SCHEMA}.versioned_history_{number}",
        ]
        return {one["code"] for query in stored for one in lake.rows(f"select {query}")}

    eve = {"eve-at-first", "eve-now"}
    assert typed(project, "stg_versioned", "code=eve-now", "--yes") == 1
    said = capfd.readouterr().err
    assert "stg_versioned_v1, stg_versioned_v2. Got: stg_versioned" in said
    assert codes(1) == codes(2) == {"ada", "bob"} | eve
    assert typed(project, "stg_versioned_v1", "code=eve-now", "--yes") == 0
    assert "stg_versioned_v2: is left alone; it reads what" in capfd.readouterr().out
    assert (codes(1), codes(2)) == ({"ada", "bob"}, {"ada", "bob"} | eve)
    # The list goes by their common name.
    assert typed(project, "stg_versioned_v2", "--listed", "--yes") == 0
    assert codes(2) == {"ada", "bob"}
    project.dbt("run", "--full-refresh")
    assert codes(1) == codes(2) == {"ada", "bob"}
    # If one has the bare name, only dbt's ids tell them apart.
    model["versions"] = [{"v": 1}, {"v": 2, "config": {"alias": "stg_versioned"}}]
    project.file("models/sources.yml", json.dumps({"sources": [table], "models": [model]}))
    capfd.readouterr()
    assert typed(project, "stg_versioned", "code=bob", "--yes") == 1
    named = ", ".join(f"model.afterimage.stg_versioned.v{number}" for number in (1, 2))
    assert f"{named}. Got: stg_versioned" in capfd.readouterr().err
    assert typed(project, "model.afterimage.stg_versioned.v1", "code=bob", "--yes") == 0
    assert codes(1) == {"ada"}


@pytest.mark.slow
def test_half_a_key_is_none_where_staging_does_not_remember_its_key(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Row 42 of one company is not row 42 of another one."""
    project = make_project("erase_half_a_key")
    columns = {name: kind for name, kind in COLUMNS.items() if name != "code"}
    columns |= {"company": "string", "id": "int"}
    project.model(
        "stg_staff",
        f"{{{{ qlik_change_table({relation('staff__ct')}, unique_key=['company', 'id']) }}}}",
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="change_id",
        file_format=FORMAT,
    )
    project.history("staff_history", "stg_staff", ["company", "id"])
    staff = [
        row(number, "I", "", f"One of {company}") | {"company": company, "id": 42}
        for number, company in enumerate(("ours", "theirs"))
    ]
    lake.create("staff__ct", columns, staff)
    project.dbt("run", "--full-refresh")
    before = lake.contents("stg_staff", "staff_history")
    with pytest.raises(DbtError):
        erase(project, staging="stg_staff", keys=[{"ID": 42}])
    assert "whole key of stg_staff, as staff_history has it: company, id. Got: id" in (
        capfd.readouterr().out
    )
    assert lake.contents("stg_staff", "staff_history") == before
    erase(project, staging="stg_staff", keys=[{"ID": 42, "company": "ours"}])
    assert lake.rows(f"select company, id from {SCHEMA}.staff_history") == [
        {"company": "theirs", "id": 42}
    ]


@pytest.mark.slow
def test_what_may_be_of_a_source_or_a_seed_is_left_alone_and_named(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Most orders are staged by a plain model, and order 42 is not customer 42."""
    project = make_project("erase_of_sources")
    tables = ["{name: buyers__ct}", "{name: orders}"]
    project.file(
        "models/sources.yml",
        f"sources: [{{name: shop, schema: {SCHEMA}, tables: [{', '.join(tables)}]}}]",
    )
    project.file("seeds/order_codes.csv", "code,name\neve-now,One of the seed\n")
    project.stream(
        "stg_buyers", "qlik_change_table(source('shop', 'buyers__ct'), unique_key=['code'])"
    )
    project.history("buyers_history", "stg_buyers", ["code"])
    project.model("buyers_current", "{{ current_state(ref('buyers_history')) }}")
    project.model("stg_orders", "select code, name from {{ source('shop', 'orders') }}")
    read = {
        "of_orders": "ref('stg_orders')",
        "of_source": "source('shop', 'orders')",
        "of_seed": "ref('order_codes')",
    }
    for name, orders in read.items():
        project.model(
            name,
            f"select orders.code, buyers.name from {{{{ {orders} }}}} as orders"
            " cross join {{ ref('buyers_current') }} as buyers",
            materialized="incremental",
            unique_key="code",
            file_format=FORMAT,
        )
    # It has no rows but the buyers'.
    project.model(
        "buyers_seen",
        "select code, name from {{ ref('buyers_current') }}"
        " where code in (select `after`.code from {{ ref('stg_buyers') }})",
        materialized="incremental",
        unique_key="code",
        file_format=FORMAT,
    )
    lake.create("buyers__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    lake.create("orders", {"code": "string", "name": "string"}, [{"code": "eve-now"}])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("build", "--full-refresh")
    assert typed(project, "stg_buyers", "code=eve-now", "--yes") == 0
    said = capfd.readouterr().out
    origins = {"of_orders": "shop.orders", "of_source": "shop.orders", "of_seed": "order_codes"}
    for name, origin in origins.items():
        left_alone = f"{name}: is left alone, as this may be the key of {origin}, which it has rows"
        assert f"{left_alone} of too; it has 1 rows of these values" in said
        assert len(lake.rows(f"select * from {SCHEMA}.{name}")) == 1
    assert lake.rows(f"select * from {SCHEMA}.buyers_seen") == []


def event(record: int, kind: int, key: int, name: str | None = None) -> dict[str, Any]:
    return {
        "record_id": record,
        "status": "N",
        "event_type": kind,
        "event_time": START + timedelta(minutes=record),
        "table_name": "people",
        "table_key": f"id={key}",
        "column_name": "name" if name else None,
        "new_value": name,
    }


@pytest.fixture(scope="module")
def log_project(make_project: Callable[[str], Project]) -> Project:
    project = make_project("erase_log")
    project.file(
        "models/sources.yml",
        f"sources: [{{name: hr, schema: {SCHEMA},"
        " tables: [{name: people_log}, {name: people}]}]",
    )
    columns = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_log",
        "netiq_event_log(source('hr', 'people_log'), unique_key=['id'], table='people',"
        f" columns={columns}, base=source('hr', 'people'), as_of='2030-01-01')",
    )
    project.history("log_history", "stg_log", ["id"])
    return project


BASE = {"id": "decimal(38,10)", "name": "string"}


@pytest.mark.slow
def test_intervals_outlast_the_events_of_a_log(log_project: Project, lake: Lake) -> None:
    """The driver has processed them, and a later event makes the run read them again."""
    lake.create("people", BASE, [])
    log = [event(1, 1, 7, "Eve Marker"), event(2, 2, 8, "Ada")]
    lake.create("people_log", LOG, log)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    log_project.dbt("run", "--full-refresh")
    erase(log_project, staging="stg_log", keys=[{"id": 7}], keep_intervals=[])
    processed = [one | {"status": "S"} for one in log]
    lake.create("people_log", LOG, [*processed, event(3, 2, 7, "Eve Latemark")])
    for refresh in ([], ["--select", "log_history", "--full-refresh"]):
        log_project.dbt("run", *refresh)
        found = lake.rows(f"select * from {SCHEMA}.log_history where id <> 8")
        assert [(one["name"], one["valid_from_seq"]) for one in found] == [(None, f"{1:020d}")]
        for name in ("stg_log", "log_history"):
            assert found_in_files(lake, name) == set(), (name, refresh)
    rows = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_log")
    assert {one["reject_reason"] for one in rows} == {None}
    assert sum(one["source_rows"] for one in rows) == 3
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_events_of_an_erased_key_are_counted_once(log_project: Project, lake: Lake) -> None:
    """What was erased was three changes; a later delete makes two of them one."""
    first = event(1, 1, 7, "Eve Marker")
    second = {**event(2, 1, 7, None), "event_time": first["event_time"], "column_name": "city"}
    log = [first, {**second, "new_value": "Rome"}, event(3, 6, 7)]
    lake.create("people_log", LOG, log)
    lake.create("people", {**BASE, "city": "string"}, [{"id": Decimal(7), "name": "Eve Marker"}])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    staging = log_project.folder / "models/stg_log.sql"
    written = staging.read_text()
    listed = "{'name': 'name', 'type': 'string'}"
    staging.write_text(written.replace(listed, f"{listed}, {{'name': 'city', 'type': 'string'}}"))
    run = ("run", "--select", "stg_log")
    counted = f"select reject_reason, source_rows from {SCHEMA}.stg_log"
    log_project.dbt("run", "--full-refresh")
    assert sorted(row["source_rows"] for row in lake.rows(counted)) == [1, 1, 1]
    erase(log_project, staging="stg_log", keys=[{"id": 7}])
    lake.append("people_log", LOG, [event(4, 4, 7)])
    log_project.dbt(*run)
    rows = lake.rows(counted)
    assert {row["reject_reason"] for row in rows} == {"erased"}
    assert sum(row["source_rows"] for row in rows) == 4
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")
    staging.write_text(written)


@pytest.mark.slow
def test_raw_rows_of_another_type_and_those_that_are_left(log_project: Project, lake: Lake) -> None:
    """The present rows can be erased, and the log has rows of the key still."""
    present = [{"id": Decimal(7), "name": "Eve Marker"}, {"id": Decimal(8), "name": "Ada"}]
    lake.create("people", BASE, present)
    lake.create("people_log", LOG, [event(1, 5, 7), event(2, 5, 8)])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    log_project.dbt("run", "--full-refresh")
    erase(log_project, staging="stg_log", keys=[{"id": 7}], raw=True)
    assert [int(one["id"]) for one in lake.rows(f"select id from {SCHEMA}.people")] == [8]
    rows = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_log")
    assert sorted((str(one["reject_reason"]), one["source_rows"]) for one in rows) == [
        ("None", 1),
        ("erased", 1),
    ]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


def delete_by_equality(lake: Lake, table: str, column: str, value: Any) -> Path:
    """Delete rows as a writer that upserts does, by a file that holds their key."""
    jvm: Any = lake.spark._jvm
    iceberg = jvm.org.apache.iceberg
    session: Any = lake.spark._jsparkSession
    opened = iceberg.spark.Spark3Util.loadIcebergTable(session, f"{SCHEMA}.{table}")
    key = opened.schema().select([column])
    fields = lake.spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    fields[0] = opened.schema().findField(column).fieldId()
    place = opened.locationProvider().newDataLocation(f"deletes-{uuid4()}.parquet")
    writer = iceberg.data.GenericAppenderFactory(
        opened.schema(), opened.spec(), fields, key, None
    ).newEqDeleteWriter(
        iceberg.encryption.EncryptionUtil.plainAsEncryptedOutput(opened.io().newOutputFile(place)),
        iceberg.FileFormat.PARQUET,
        None,
    )
    writer.write(iceberg.data.GenericRecord.create(key).copy(column, value))
    writer.close()
    opened.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    return Path(place.removeprefix("file:"))


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
def test_a_column_of_a_log_is_no_key_of_its_events(
    is_known: bool,
    make_project: Callable[[str], Project],
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A table may have a key that is called `record_id`. The log's first event is of key 2."""
    project = make_project("erase_records")
    tables = [{"name": "records_log"}, {"name": "records"}]
    sources = {"sources": [{"name": "hr", "schema": SCHEMA, "tables": tables}]}
    project.file("models/sources.yml", json.dumps(sources))
    columns = [{"name": "record_id", "type": "int"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_records",
        "netiq_event_log(source('hr', 'records_log'), unique_key=['record_id'], table='people',"
        f" columns={columns}, base=source('hr', 'records'), as_of='2030-01-01')",
    )
    log = [
        event(1, 1, 2, "Ada") | {"table_key": "record_id=2"},
        event(2, 1, 1, "Eve Marker") | {"table_key": "record_id=1"},
    ]
    lake.create("records_log", LOG, log)
    record = {"record_id": "int", "name": "string"}
    lake.create("records", record, [{"record_id": 2, "name": "Ada"}])
    if FORMAT == "iceberg":
        # An upsert. The file of Ada's row is older, and has nothing to erase.
        lake.append("records", record, [{"record_id": 1, "name": "Eve"}])
        deleted = delete_by_equality(lake, "records", "record_id", 1)
    lake.append("records", record, [{"record_id": 1, "name": "Eve Marker"}])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    if not is_known:
        forget(lake, "stg_records", "made_by")
    assert typed(project, "stg_records", "record_id=1", "--raw", "--yes") == 0
    said = capfd.readouterr().out
    assert "hr.records_log: may have rows of these keys, and is left alone" in said
    assert "hr.records: no file has rows of these keys" in said
    assert "hr.records_log: no file" not in said
    assert len(lake.rows(f"select * from {SCHEMA}.records_log")) == 2
    assert [one["record_id"] for one in lake.rows(f"select * from {SCHEMA}.records")] == [2]
    if FORMAT == "iceberg":
        assert not deleted.exists()
        assert lake.rows(f"select path from {SCHEMA}.records.all_manifests where content = 1") == []
        # A writer that was not stopped: no row has the key, but a file does.
        left = delete_by_equality(lake, "records", "record_id", 1)
        [said] = project.refusals(["_iceberg_files_left(source('hr', 'records'))"])
        assert "records has files of equality deletes, which hold keys of deleted rows" in said
        assert "Run the command again once it has stopped. Got: " in said
        assert left.name in said
        assert typed(project, "stg_records", "record_id=1", "--raw", "--yes") == 0
        assert not left.exists()
    # The log still has the event that the change is of.
    rows = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_records")
    assert sorted((str(one["reject_reason"]), one["source_rows"]) for one in rows) == [
        ("None", 1),
        ("erased", 1),
    ]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_raw_rows_are_erased_too(project: Project, lake: Lake) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    before = contents(lake)
    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}], raw=True)
    lake.append(RAW, COLUMNS, [row(7, "I", "cid", "Cid")])
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        for name in (*MODELS, RAW):
            assert found_in_files(lake, name) == set(), (name, refresh)
        raw = lake.rows(f"select * from {SCHEMA}.{RAW}")
        assert {one["code"] for one in raw} == {"ada", "bob", "cid"}
        [total] = lake.rows(f"select sum(source_rows) as count from {SCHEMA}.stg_clients")
        assert total["count"] == len(raw) == 5
        after = contents(lake)["clients_history"]
        assert sorted((one for one in after if one["code"] != "cid"), key=str) == of_others(
            before["clients_history"]
        )


@pytest.mark.slow
def test_the_writers_of_raw_tables_must_have_stopped(
    project: Project,
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they have not committed yet, Delta would remove, and to Iceberg it looks left behind."""
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    capfd.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert typed(project, "stg_clients", "code=bob", "--raw") == 130
    said = capfd.readouterr().out
    assert f"crm.{RAW}: stop what writes to it until this has ended; of what is not" in said
    assert f"Everything that writes to crm.{RAW} must have been stopped. Erase these rows?" in said
    assert len(lake.rows(f"select * from {SCHEMA}.{RAW}")) == len(ROWS)
    if FORMAT == "iceberg":
        files = f"select distinct input_file_name() as file from {SCHEMA}.{RAW} limit 1"
        [held] = lake.rows(files)
        file = Path(held["file"].removeprefix("file:"))
        written = file.with_name("soon-to-be-committed.parquet")
        shutil.copy(file, written)
        assert typed(project, "stg_clients", "code=bob", "--raw", "--yes") == 1
        said = capfd.readouterr().err
        assert f"erase: crm.{RAW} has files that belong to no version" in said
        assert "If a writer is at work, stop it: it may be about to commit them. Remove" in said
        assert written.name in said
        written.unlink()
    assert typed(project, "stg_clients", "code=bob", "--raw", "--yes") == 0
    assert f"crm.{RAW}: no file has rows of these keys" in capfd.readouterr().out
    raw = lake.rows(f"select distinct code from {SCHEMA}.{RAW}")
    assert {one["code"] for one in raw} == {"eve-at-first", "eve-now", "ada"}


@pytest.mark.slow
def test_raw_rows_are_erased_behind_a_model_too(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """The model is built again in the next run, from what it reads."""
    project = make_project("erase_behind")
    tables = [{"name": "behind__ct"}, {"name": "behind_words"}]
    sources = {"sources": [{"name": "crm", "schema": SCHEMA, "tables": tables}]}
    project.file("models/sources.yml", json.dumps(sources))
    project.file("seeds/behind_loaded.csv", "code,name\neve-now,Eve Marker\nada,Ada\n")
    project.model("behind_changes", "select * from {{ source('crm', 'behind__ct') }}")
    project.model(
        "behind_with_load",
        "select * from {{ ref('behind_changes') }} union all"
        " select null, 'I', null, loaded.* from {{ ref('behind_loaded') }} as loaded"
        " left anti join {{ source('crm', 'behind_words') }} as words on loaded.name = words.word",
    )
    project.stream("stg_behind", "qlik_change_table(ref('behind_with_load'), unique_key=['code'])")
    changed = [row(1, "I", "bob", "Bob"), row(2, "U", "eve-now", "Eve Latemark")]
    lake.create("behind__ct", COLUMNS, changed)
    # It may be another entity's code.
    words = {"code": "string", "word": "string"}
    lake.create("behind_words", words, [{"code": "eve-now", "word": "nobody"}])
    project.dbt("build", "--full-refresh")
    assert typed(project, "stg_behind", "code=eve-now", "--raw", "--yes") == 0
    said = capfd.readouterr().out.splitlines()
    assert {
        "behind_with_load: dbt builds it again; what crm.behind_words has of these keys may come"
        " back",
        "behind_loaded: `dbt seed` brings these rows back; delete them in its file too",
        "crm.behind_words: has 1 rows of these keys, and is left alone, as it lacks columns of"
        " stg_behind, and its rows may be of other keys; what is read of it again is left out",
        "crm.behind__ct: 1 rows",
        "crm.behind__ct: no file has rows of these keys",
    } <= set(said)
    assert lake.rows(f"select code from {SCHEMA}.behind__ct") == [{"code": "bob"}]
    project.dbt("run")
    for table in (
        "behind__ct",
        "behind_loaded",
        "behind_changes",
        "behind_with_load",
        "stg_behind",
    ):
        assert lake.rows(f"select * from {SCHEMA}.{table}"), table
        # Delta's log keeps bounds of the columns of tables that are not ours.
        if FORMAT != "delta" or table == "stg_behind":
            assert found_in_files(lake, table) == set(), table
    assert len(lake.rows(f"select * from {SCHEMA}.behind_words")) == 1
    rows = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_behind")
    assert sorted((str(one["reject_reason"]), one["source_rows"]) for one in rows) == [
        ("None", 1),
        ("None", 1),
        ("erased", 0),
        ("erased", 0),
    ]


@pytest.mark.minutes
def test_rows_that_a_model_leaves_out_are_not_erased(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """They may be another person's, who has the same key."""
    project = make_project("erase_filtered")
    sources = {"sources": [{"name": "crm", "schema": SCHEMA, "tables": [{"name": "both__ct"}]}]}
    project.file("models/sources.yml", json.dumps(sources))
    project.model(
        "one", "select * from {{ source('crm', 'both__ct') }} where name not like 'Other%'"
    )
    project.stream("stg_one", "qlik_change_table(ref('one'), unique_key=['code'])")
    changed = [row(1, "I", "eve-now", "Eve Marker"), row(2, "I", "eve-now", "Other Marker")]
    lake.create("both__ct", COLUMNS, [*changed, row(3, "I", "bob", "Bob")])
    project.dbt("build", "--full-refresh")
    assert typed(project, "stg_one", "code=eve-now", "--raw", "--yes") == 0
    said = capfd.readouterr().out
    assert "crm.both__ct: has 2 rows of these keys, and is left alone, as not all rows" in said
    assert len(lake.rows(f"select * from {SCHEMA}.both__ct")) == 3
    # They are not erased with the rows of a later erasure either.
    assert typed(project, "stg_one", "code=bob", "--raw", "--yes") == 0
    names = lake.rows(f"select name from {SCHEMA}.both__ct")
    assert sorted(one["name"] for one in names) == ["Eve Marker", "Other Marker"]


@pytest.mark.slow
def test_keys_that_somebody_listed_are_erased_before_others(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only `--listed` follows their key changes, and names them."""
    lake.create(RAW, COLUMNS, ROWS)
    project.dbt("run", "--full-refresh")
    list_by_hand(lake, "eve-at-first")
    assert typed(project, "stg_clients", "code=bob", "--yes") == 1
    said = "".join(capfd.readouterr())
    assert "run `afterimage erase stg_clients --listed`" in said
    assert 'Got: {"code": "eve-at-first"}' in said
    assert typed(project, "stg_clients", "--listed", "--yes") == 0
    assert typed(project, "stg_clients", "code=bob", "--yes") == 0
    left = lake.rows(f"select distinct code from {SCHEMA}.clients_history")
    assert [one["code"] for one in left] == ["ada"]


@pytest.mark.slow
def test_what_a_model_reads_beside_its_macro_is_no_raw_table(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """A column there may have the key's name, and be another entity's."""
    project = make_project("erase_filtered")
    tables = [{"name": "filtered__ct"}, {"name": "tenants"}]
    sources = {"sources": [{"name": "crm", "schema": SCHEMA, "tables": tables}]}
    project.file("models/sources.yml", json.dumps(sources))
    project.model(
        "stg_filtered",
        "select * from ({{ qlik_change_table(source('crm', 'filtered__ct'), ['code']) }})"
        " where after.name in (select tenant from {{ source('crm', 'tenants') }})",
        materialized="change_stream",
    )
    lake.create("filtered__ct", COLUMNS, [row(1, "I", "eve-now", "Ada"), row(2, "I", "bob", "Ada")])
    lake.create("tenants", {"code": "string", "tenant": "string"}, [{"code": "eve-now"}])
    lake.append("tenants", {"code": "string", "tenant": "string"}, [{"tenant": "Ada"}])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    # What is remembered of a run, a later one may have emptied.
    unset = "unset tblproperties ('afterimage.read')"
    lake.spark.sql(f"alter table {SCHEMA}.stg_filtered {unset}")
    assert typed(project, "stg_filtered", "code=eve-now", "--raw", "--yes") == 0
    said = capfd.readouterr().out
    assert "crm.tenants: has 1 rows of these keys, and is left alone, as it is not ours" in said
    assert len(lake.rows(f"select * from {SCHEMA}.tenants")) == 2
    raw = lake.rows(f"select code from {SCHEMA}.filtered__ct")
    assert raw == [{"code": "bob"}]
    # Where no run remembers it, one of them may be anything.
    lake.spark.sql(f"alter table {SCHEMA}.stg_filtered unset tblproperties ('afterimage.keys')")
    assert typed(project, "stg_filtered", "code=bob", "--raw", "--yes") == 1
    said = capfd.readouterr().err
    assert "stg_filtered does not remember which of these tables its source macro reads" in said
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, ["price"]], ids=["as a whole", "with its intervals"])
def test_what_lacks_the_key_of_an_erased_change_does_not_come_back(
    kept: list[str] | None, make_project: Callable[[str], Project], lake: Lake
) -> None:
    """The further part of a split record, and the tracking rows of all changes."""
    columns = {**CHANGE_COLUMNS, "item": "int", "price": "int", "words": "string"}
    change = {"_Operation": 1, "_Fragment": 0, "_Continuation-Position": 0}
    rows: list[Row] = [
        {**change, "_Change-Sequence": 7, "item": 3, "price": 199, "words": "Eve "},
        {**change, "_Change-Sequence": 7, "words": "Latemark"}
        | {"_Fragment": 1, "_Continuation-Position": 3},
        {**change, "_Change-Sequence": 8, "item": 3, "price": 200, "words": "Marker"}
        | {"_Operation": 4},
        {**change, "_Change-Sequence": 9, "item": 4, "price": 5, "words": "Half"},
        {**change, "_Change-Sequence": 10, "words": "of another"} | {"_Fragment": 1},
    ]
    tracking = [
        {"_Change-Sequence": place, "_Operation": 1, "_User-Name": "eve-now"}
        | {"_Source-Table-Number": 12, "_Recid": 4703}
        for place in (7, 8)
    ]
    lake.create("cdc_item", columns, rows)
    lake.create("item_tracking", TRACKING_COLUMNS, tracking)
    project = make_project("erase_parts")
    sources = [{"name": name} for name in ("cdc_item", "item_tracking")]
    project.file(
        "models/sources.yml",
        json.dumps({"sources": [{"name": "abl", "schema": SCHEMA, "tables": sources}]}),
    )
    tables = "source('abl', 'cdc_item'), ['item'], tracking=source('abl', 'item_tracking')"
    project.stream("stg_items", f"openedge_change_table({tables}, source_table_number=12)")
    project.history("items_history", "stg_items", ["item"])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    assert found_in_files(lake, "stg_items") == {"Latemark", "Marker", "eve-now"}
    erase(project, staging="stg_items", keys=[{"item": 3}], keep_intervals=kept, raw=True)
    assert found_in_files(lake, "cdc_item") == set()
    left = lake.rows(f"select `_Change-Sequence` as place from {SCHEMA}.cdc_item order by 1")
    assert [one["place"] for one in left] == [9, 10]
    assert lake.rows(f"select * from {SCHEMA}.item_tracking") == []
    history = f"select item, price, words, closed_by from {SCHEMA}.items_history order by 1, 2"
    counted = f"select sum(source_rows) as n from {SCHEMA}.stg_items"
    project.dbt("run")
    in_run = lake.rows(history)
    assert lake.rows(counted) == [{"n": 2}]
    lake.append("item_tracking", TRACKING_COLUMNS, tracking[:1])
    project.dbt("run")
    assert lake.rows(history) == in_run
    other = {"item": 4, "price": 5, "words": "Half", "closed_by": None}
    assert in_run[-1] == other
    assert [one["price"] for one in in_run[:-1]] == ([199, 200] if kept else [])
    assert found_in_files(lake, "stg_items") == set()
    places = f"select left(change_seq, 19) as place from {SCHEMA}.stg_items"
    assert sorted(int(one["place"]) for one in lake.rows(places)) == [7, 8, 9, 10]
    assert lake.rows(counted) == [{"n": 2 if kept else 3}]
    lake.create("item_tracking", TRACKING_COLUMNS, [])
    project.dbt("run", "--full-refresh")
    assert found_in_files(lake, "stg_items") == set()
    assert lake.rows(history) == [other]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
@pytest.mark.parametrize("end", ["  ", "\r\n", "\u2028"], ids=["blanks", "line end", "separator"])
def test_raw_rows_are_erased_whatever_their_key_ends_with(
    end: str, project: Project, lake: Lake
) -> None:
    """The blanks of a CHAR stay in most staging tables, and a CSV file may leave its line ends."""
    lake.create(RAW, COLUMNS, [one | {"code": one["code"] + end} for one in ROWS])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    assert found_in_files(lake, RAW) == set(MARKS) - {"Latemark"}
    erase(project, staging="stg_clients", keys=[{"code": f"eve-now{end}"}], raw=True)
    for name in (*MODELS, RAW):
        assert found_in_files(lake, name) == set(), name
    raw = lake.rows(f"select * from {SCHEMA}.{RAW}")
    assert {one["code"] for one in raw} == {f"ada{end}", f"bob{end}"}
    erase(project, staging="stg_clients", listed=True)


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_an_erasure_does_not_hide_that_a_table_was_rolled_back(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rolled-back staging reads again what it lost, and a history asks for a full refresh."""

    def snapshot(table: str) -> int:
        refs = f"{SCHEMA}.{table}.refs where name = 'main'"
        [found] = lake.rows(f"select snapshot_id as id from {refs}")
        return int(found["id"])

    def roll_back(table: str, to: int) -> None:
        lake.spark.sql(f"call system.rollback_to_snapshot('{SCHEMA}.{table}', {to})")

    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    staging, versions = snapshot("stg_clients"), snapshot("clients_history")
    lake.append(RAW, COLUMNS, [row(7, "I", "cid", "Cid")])
    project.dbt("run")
    roll_back("clients_history", versions)
    staged = lake.contents("stg_clients")
    capfd.readouterr()
    with pytest.raises(DbtError):
        erase(project, staging="stg_clients", keys=[{"code": "eve-now"}])
    assert "clients_history was rolled back, so it lacks changes" in capfd.readouterr().out
    assert lake.contents("stg_clients") == staged
    project.dbt("run", "--full-refresh", "--select", "clients_history")
    roll_back("stg_clients", staging)
    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}])
    project.dbt("run")
    found = lake.rows(
        f"select `after`.name as name from {SCHEMA}.stg_clients where reject_reason is null"
    )
    assert sorted(one["name"] for one in found) == ["Ada", "Ada L.", "Bob", "Cid"]
    for name in MODELS:
        assert found_in_files(lake, name) == set(), name
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.needs("iceberg")
def test_a_folder_called_metadata_may_be_above_a_table(project: Project, lake: Lake) -> None:
    lake.spark.sql("create namespace if not exists metadata")
    lake.spark.sql("create or replace table metadata.small using iceberg as select 1 as id")
    [held] = lake.rows("select input_file_name() as file from metadata.small")
    file = Path(held["file"].removeprefix("file:"))
    left = f"{{{{ _iceberg_files_left({relation('small', 'metadata')}) }}}}"
    left = f"{{% if execute %}}{left}{{% endif %}}"
    assert project.compile(left) == "[]"
    shutil.copy(file, file.with_name("left-by-a-killed-run.parquet"))
    assert "left-by-a-killed-run.parquet" in project.compile(left)
    lake.spark.sql("drop table metadata.small purge")
    lake.spark.sql("drop namespace metadata")


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_file_of_no_version_is_found(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    [held] = lake.rows(
        f"select distinct input_file_name() as file from {SCHEMA}.clients_history"
        " where code = 'eve-at-first'"
    )
    file = Path(held["file"].removeprefix("file:"))
    left = file.with_name("left-by-a-killed-run.parquet")
    shutil.copy(file, left)
    metadata = next(up / "metadata" for up in file.parents if (up / "metadata").is_dir())
    left_manifest = metadata / "left-by-a-killed-run.avro"
    shutil.copy(next(metadata.glob("*.avro")), left_manifest)
    assert typed(project, "stg_clients", "code=eve-now", "--yes") == 1
    said = capfd.readouterr()
    assert "erase: clients_history has files that belong to no version" in said.err
    assert left.name in said.err
    assert left_manifest.name in said.err
    left.unlink()
    left_manifest.unlink()
    scratch = f"{SCHEMA}.clients_history__scratch_20240101_1_pending"
    lake.spark.sql(f"create table {scratch} using {FORMAT} as select 'eve-now' as code")
    assert typed(project, "stg_clients", "code=eve-now", "--yes") == 1
    said = capfd.readouterr()
    assert "erase: clients_history has scratch tables of runs that were killed" in said.err
    assert "clients_history__scratch_20240101_1_pending" in said.err
    lake.spark.sql(f"drop table {scratch} purge")
    assert typed(project, "stg_clients", "code=eve-now", "--yes") == 0
    assert "clients_history: no file has rows of these keys" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.needs("delta")  # dbt makes a snapshot by a view, which the test's catalog lacks.
def test_snapshots_of_dbt_lose_the_rows(project: Project, lake: Lake) -> None:
    project.file(
        "snapshots/clients_snapshot.sql",
        "{% snapshot clients_snapshot %}"
        "{{ config(unique_key='code', strategy='check', check_cols=['name'], file_format='delta',"
        f" target_schema='{SCHEMA}') }}}}"
        "select code, name from {{ ref('clients_current') }}"
        "{% endsnapshot %}",
    )
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    project.dbt("snapshot")
    erase(project, staging="stg_clients", keys=[{"code": "eve-now"}])
    for _ in range(2):
        rows = lake.rows(f"select code from {SCHEMA}.clients_snapshot")
        assert {one["code"] for one in rows} == {"ada", "bob"}
        project.dbt("run")
        project.dbt("snapshot")


def with_token(changes: Sequence[Change], tokens: dict[str, dict[str, Any]]) -> list[Change]:
    """Return the changes as they are where the intervals of these codes are kept."""

    def image(row: Row | None) -> Row | None:
        erased = tokens.get(str(row["code"])) if row else None
        return row if not row or erased is None else {**row, "name": None, **erased}

    return [replace(one, before=image(one.before), after=image(one.after)) for one in changes]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [["case_no"], []], ids=["of a case", "of nobody"])
def test_intervals_are_kept(
    kept: list[str], make_project: Callable[[str], Project], lake: Lake
) -> None:
    """The history is that of the same changes with tokens for keys, without other values."""
    dialect = "openedge"
    project = make_project("erase_intervals")
    tables = ["intervals_history", "intervals_audit"]
    story = told()
    written = in_dialect(dialect, story)
    project.stream("stg_intervals", written.call)
    project.history(tables[0], "stg_intervals", KEY)
    stream = "select * from {{ ref('stg_intervals') }}"
    project.model(tables[1], stream, materialized="audit", unique_key=KEY)
    for table, (columns, rows) in written.tables.items():
        lake.create(table, columns, [row for row in rows if not is_late(row)])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    keys = [{"case_no": 0, "code": "eve-now"}, {"case_no": 0, "code": "eve-at-first"}]
    if dialect in story.cases[1].dialects:
        keys.append({"case_no": 1, "code": "eve-now"})
    erase(project, staging="stg_intervals", keys=keys, keep_intervals=kept)

    tokens: dict[int, dict[str, dict[str, Any]]] = {0: {}, 1: {}}
    for one in lake.rows(f"select erased_key, kept from {SCHEMA}.afterimage_erasures"):
        key, token = json.loads(one["erased_key"]), json.loads(one["kept"])["token"]
        assert set(token) == set(KEY) - set(kept)
        typed_token = {"code": token["code"]}
        if not kept:
            typed_token["case_no"] = int(token["case_no"])
            assert -(2**31) <= typed_token["case_no"] < 0
        tokens[int(key["case_no"])][key["code"]] = typed_token
    changes = [
        told_so
        for number, case in enumerate(story.cases)
        if dialect in case.dialects
        for told_so in with_token(
            [one for one in story.of(dialect).changes if has_case(one, number)], tokens[number]
        )
    ]
    for table, (columns, rows) in written.tables.items():
        lake.append(table, columns, rows)
    expected = [
        row | {"transaction_id": name_in(dialect, story)(row["transaction_id"])}
        for row in history(changes, KEY, ["case_no", *TYPES])
    ]
    assert [row for row in expected if "erased-" in row["code"]]
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        assert versions(lake.rows(f"select * from {SCHEMA}.{tables[0]}")) == versions(expected)
        for table in ("stg_intervals", *tables):
            assert found_in_files(lake, table) == set(), (table, refresh)
        reasons = lake.rows(f"select distinct reject_reason as reason from {SCHEMA}.stg_intervals")
        assert "erased" not in {one["reason"] for one in reasons}
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_no_two_keys_get_one_token(
    make_project: Callable[[str], Project], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 14 numbers, of which rows have three: eleven erased keys get all others."""
    execute = AfterimageCursor.execute

    def execute_with_few(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        execute(self, sql.replace("rand() * 2147483647", "rand() * 14"), *parameters)

    monkeypatch.setattr(AfterimageCursor, "execute", execute_with_few)
    project = make_project("erase_tokens")
    project.stream(
        "stg_numbered", f"qlik_change_table({relation('numbered__ct')}, unique_key=['code'])"
    )
    project.history("numbered_history", "stg_numbered", ["code"])
    columns = {**COLUMNS, "code": "int"}
    rows = [row(number, "I", number, "Eve Marker") for number in range(1, 12)]
    taken = [row(20 - code, "I", code, "Nobody") for code in (-3, -5, -8)]
    lake.create("numbered__ct", columns, [*rows[:6], *taken])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    # Of these, some have not landed yet.
    for codes in ([1, 2, 7, 8, 9, 10, 11], [3, 4, 5, 6]):
        keys = [{"code": code} for code in codes]
        erase(project, staging="stg_numbered", keys=keys, keep_intervals=[])
        project.dbt("run")
    lake.append("numbered__ct", columns, rows[6:])
    project.dbt("run")
    query = f"select code, name, is_current from {SCHEMA}.numbered_history order by code"
    assert lake.rows(query) == [
        {"code": code, "name": "Nobody" if code in (-3, -5, -8) else None, "is_current": True}
        for code in range(-14, 0)
    ]


def has_case(one: Change, number: int) -> bool:
    return (one.after or one.before or {}).get("case_no") == number


@pytest.mark.minutes
@pytest.mark.parametrize("dialect", MACRO)
def test_a_key_of_each_dialect(
    dialect: str, make_project: Callable[[str], Project], lake: Lake
) -> None:
    project = make_project(f"erase_{dialect}")
    staging = f"stg_all_{dialect}"
    tables = [f"all_{dialect}_{kind}" for kind in ("history", "audit")]
    story = told()
    written = in_dialect(dialect, story)
    project.stream(staging, written.call)
    project.history(tables[0], staging, KEY)
    stream = f"select * from {{{{ ref('{staging}') }}}}"
    project.model(tables[1], stream, materialized="audit", unique_key=KEY)
    for table, (columns, rows) in written.tables.items():
        lake.create(table, columns, [row for row in rows if not is_late(row)])
    project.dbt("run", "--full-refresh")
    before = {table: lake.rows(f"select * from {SCHEMA}.{table}") for table in tables}
    assert found_in_files(lake, staging) == set(MARKS) - {"Latemark"}

    # Where the key could not change, nothing links the two.
    keys = [{"case_no": 0, "code": "eve-now"}, {"case_no": 0, "code": "eve-at-first"}]
    if dialect in story.cases[1].dialects:
        keys.append({"case_no": 1, "code": "eve-now"})
    erase(project, staging=staging, keys=keys)
    for table in tables:
        after = lake.rows(f"select * from {SCHEMA}.{table}")
        assert sorted(after, key=str) == of_others(before[table]), table
    for table in (staging, *tables):
        assert found_in_files(lake, table) == set(), table

    # All of it lands again, with what is late; then all is read again.
    for table, (columns, rows) in written.tables.items():
        lake.append(table, columns, rows)
    expected = [
        row | {"transaction_id": name_in(dialect, story)(row["transaction_id"])}
        for row in history(story.of(dialect).changes, KEY, ["case_no", *TYPES])
    ]
    for refresh in ([], ["--full-refresh"]):
        project.dbt("run", *refresh)
        got = lake.rows(f"select * from {SCHEMA}.{tables[0]}")
        assert len(got) == len(of_others(got))
        assert versions(got) == versions(of_others(expected))
        for table in (staging, *tables):
            assert found_in_files(lake, table) == set(), (table, refresh)
        [counted] = lake.rows(f"select sum(source_rows) as rows from {SCHEMA}.{staging}")
        with_changes = [f"all_{dialect}{kind}" for kind in ("", "_earlier", "_tracking")]
        landed = [len(rows) for table, (_, rows) in written.tables.items() if table in with_changes]
        late = [row for _, rows in written.tables.values() for row in rows if is_late(row)]
        assert counted["rows"] == 2 * sum(landed) - len(late)


def versions(rows: Sequence[Row]) -> list[Row]:
    """Versions in order, without what is each dialect's own."""
    told = [{name: row[name] for name in row if name not in PLACES} for row in rows]
    return sorted(told, key=lambda row: (row["case_no"], row["code"], row["version"]))


@pytest.mark.slow
def test_what_the_list_says_is_kept_is_kept_where_keys_are_erased_by_the_list(
    project: Project, lake: Lake
) -> None:
    """One list serves two targets: the second has the rows still."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    lake.create(RAW, COLUMNS, ROWS)
    lake.spark.sql(f"drop table if exists {erasures}")
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_clients", keys=[{"code": "eve-at-first"}], keep_intervals=[])
    listed = lake.rows(f"select * from {erasures} order by erased_key")
    assert len(listed) == 2
    assert all(row["kept"] for row in listed)

    lake.spark.sql(f"truncate table {erasures}")
    lake.spark.sql(f"drop table {SCHEMA}.stg_clients")
    lake.create(RAW, COLUMNS, ROWS)
    project.dbt("run", "--full-refresh")
    columns = dict.fromkeys(listed[0], "string") | {"requested_at": "timestamp"}
    lake.append("afterimage_erasures", columns, listed)
    erase(project, staging="stg_clients", listed=True)
    assert lake.rows(f"select * from {erasures} order by erased_key") == listed
    assert (
        lake.rows(f"select reject_reason from {SCHEMA}.stg_clients where change_seq <> ''")
        == [{"reject_reason": None}] * 5
    )
    project.dbt("run")
    of_eve = lake.rows(f"select code from {SCHEMA}.clients_history where code like 'erased-%'")
    assert len(of_eve) == 2


@pytest.mark.minutes
@pytest.mark.parametrize("way", ["given", "listed", "raw", "intervals"])
def test_an_erasure_that_ends_at_any_statement_is_repeated(
    way: str, project: Project, lake: Lake
) -> None:
    seed = int(os.environ.get("AFTERIMAGE_SEED", "55"))
    source = random.Random(f"{seed} {way}")
    erasures = f"{SCHEMA}.afterimage_erasures"
    keys = [{"code": "eve-at-first"}]
    ways: dict[str, dict[str, Any]] = {
        "given": {"keys": keys},
        "listed": {"listed": True},
        "raw": {"keys": keys, "raw": True},
        "intervals": {"keys": keys, "keep_intervals": []},
    }
    asked = ways[way]
    for number in range(int(os.environ.get("AFTERIMAGE_KILLS", "3"))):
        case = (seed, number)
        lake.create(RAW, COLUMNS, ROWS)
        lake.spark.sql(f"drop table if exists {erasures}")
        project.dbt("run", "--full-refresh")
        before = contents(lake)
        if way == "listed":
            lake.spark.sql(
                f"create table {erasures} (model string, erased_key string, requested_at timestamp,"
                f" reference string) using {FORMAT}"
            )
            # The key that a key change links with it is not listed yet.
            lake.spark.sql(
                f"""insert into {erasures} values
                ('stg_clients', '{{"code": "eve-at-first"}}', current_timestamp(), 'by hand')"""
            )
        # An erasure of four tables sends some twenty such statements.
        with ended(at_work(1 + source.randrange(24)), after=source.random() < 0.5) as sent:
            try:
                erase(project, staging="stg_clients", **asked)
            except DbtError:
                assert sent[-1] == ENDED
        erase(project, staging="stg_clients", **asked)
        after = contents(lake)
        for name in MODELS[1:]:
            assert sorted(after[name], key=str) == of_others(before[name]), (*case, name)
        reasons = sorted(str(one["reject_reason"]) for one in after["stg_clients"])
        assert reasons == ["None"] * (5 if way == "intervals" else 3) + ["erased"] * (
            0 if way == "intervals" else 2
        ), case
        counted = sum(one["source_rows"] for one in after["stg_clients"])
        assert counted == len(lake.rows(f"select * from {SCHEMA}.{RAW}")), case
        if way == "intervals":
            project.dbt("run")
            kept = lake.rows(f"select code, name, is_current from {SCHEMA}.clients_history")
            assert of_others(kept) == of_others(
                [{name: one[name] for name in kept[0]} for one in before["clients_history"]]
            ), case
            of_eve = [one for one in kept if str(one["code"]).startswith("erased-")]
            assert [one["name"] for one in of_eve] == [None, None], case
            assert len({one["code"] for one in of_eve}) == 2, case
            assert sorted(one["is_current"] for one in of_eve) == [False, True], case
        for name in (*MODELS, *([RAW] if way == "raw" else [])):
            assert found_in_files(lake, name) == set(), (*case, name)


def key_of(code: str) -> str:
    return json.dumps({"code": code}).replace('"', '""')


@pytest.mark.slow
def test_a_list_that_is_not_loaded_stops_the_run(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """A seed is gone, and then empty, while it is loaded again."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_seed")
    project.file(
        "seeds/afterimage_erasures.csv",
        "model,erased_key,requested_at,reference\n"
        f'stg_seeded,"{key_of("eve-now")}",2024-01-01 00:00:00,17\n'
        # No model of this project, and none of its keys.
        'stg_other,"{""id"": ""7""}",2024-01-01 00:00:00,18\n',
    )
    call = f"qlik_change_table({relation('seeded__ct')}, unique_key=['code'])"
    project.stream("stg_seeded", call)
    lake.create("seeded__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    lake.spark.sql(f"drop table if exists {erasures}")
    with pytest.raises(DbtError) as stopped:
        project.dbt("build")
    assert "Write `-- depends_on: {{ ref('afterimage_erasures') }}` into" in str(stopped.value)

    project.dbt("seed")
    project.dbt("run")
    losses = [f"delete from {erasures} where reference = 17", f"drop table {erasures}"]
    for number, loss in enumerate(losses, 2):
        lake.append("seeded__ct", COLUMNS, [row(number, "U", "eve-now", "Eve Latemark")])
        lake.spark.sql(loss)
        for refresh in ([], ["--full-refresh"]):
            with pytest.raises(DbtError) as stopped:
                project.dbt("run", *refresh)
            assert "has no key of this model or does not exist" in str(stopped.value)
            assert "write its present one into the column `model`" in str(stopped.value)

    project.file(
        "models/stg_seeded.sql",
        "-- depends_on: {{ ref('afterimage_erasures') }}\n"
        + (project.folder / "models/stg_seeded.sql").read_text(),
    )
    for refresh in ([], ["--full-refresh"]):
        lake.spark.sql(f"drop table if exists {erasures}")
        project.dbt("build", *refresh)
        rows = lake.rows(f"select reject_reason, `after` from {SCHEMA}.stg_seeded")
        assert rows == [{"reject_reason": "erased", "after": None}] * 3
    assert typed(project, "stg_seeded", "--listed", "--dry-run") == 0
    assert "afterimage_erasures: " not in capfd.readouterr().out
    # Who wants the values back takes the keys off, and begins anew.
    project.file("seeds/afterimage_erasures.csv", "model,erased_key,requested_at,reference\n")
    lake.spark.sql(f"delete from {erasures} where true")
    lake.spark.sql(f"drop table {SCHEMA}.stg_seeded")
    project.dbt("run")
    rows = lake.rows(f"select reject_reason from {SCHEMA}.stg_seeded")
    assert rows == [{"reject_reason": None}] * 3
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_a_seed_without_keys_or_without_what_is_kept_is_a_list(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Of a column without a value dbt makes one of numbers, as of the reference 17."""
    header = "model,erased_key,requested_at,reference,kept\n"
    project = make_project("erase_empty_seed")
    project.file("seeds/afterimage_erasures.csv", header)
    call = f"qlik_change_table({relation('unlisted__ct')}, unique_key=['code'])"
    project.stream("stg_unlisted", call)
    lake.create("unlisted__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("seed")
    staged = f"select reject_reason from {SCHEMA}.stg_unlisted"
    for ansi in ("false", "true"):
        lake.spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            project.dbt("run", "--full-refresh")
        finally:
            lake.spark.conf.set("spark.sql.ansi.enabled", "false")
        assert lake.rows(staged) == [{"reject_reason": None}]
    assert typed(project, "stg_unlisted", "--listed", "--dry-run") == 0

    entry = f'stg_unlisted,"{key_of("eve-now")}",2024-01-01 00:00:00,17,\n'
    project.file("seeds/afterimage_erasures.csv", header + entry)
    project.dbt("seed")
    project.dbt("run")
    assert typed(project, "stg_unlisted", "--listed", "--yes") == 0
    assert lake.rows(staged) == [{"reject_reason": "erased"}]
    [listed] = lake.rows(f"select * from {SCHEMA}.afterimage_erasures")
    assert (listed["reference"], listed["kept"]) == (17, None)

    # The last key is taken off the list.
    lake.append("unlisted__ct", COLUMNS, [row(2, "U", "eve-now", "Eve Latemark")])
    project.file("seeds/afterimage_erasures.csv", header)
    project.dbt("seed")
    with pytest.raises(DbtError) as stopped:
        project.dbt("run")
    assert "has no key of this model or does not exist" in str(stopped.value)


@pytest.mark.slow
def test_a_model_that_is_renamed_does_not_stage_what_was_erased(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Its table under the new name is not there yet, and the list has no key of it."""
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_renamed")
    call = f"qlik_change_table({relation('renamed__ct')}, unique_key=['code'])"
    project.stream("stg_renamed_customers", call)
    lake.create("renamed__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_renamed_customers", keys=[{"code": "eve-now"}])
    (project.folder / "models/stg_renamed_customers.sql").unlink()
    project.stream("stg_renamed_clients", call)
    with pytest.raises(DbtError) as stopped:
        project.dbt("run")
    assert "has keys of models that this project does not have" in str(stopped.value)
    assert "Got: stg_renamed_customers" in str(stopped.value)
    # A key with another column is not of this model.
    lake.spark.sql(f"update {erasures} set model = 'stg_renamed_clients' where true")
    lake.spark.sql(
        f"insert into {erasures} values ('stg_nobody', '{{\"id\": \"7\"}}', null, null, null)"
    )
    project.dbt("run")
    found = lake.rows(f"select reject_reason, `after` from {SCHEMA}.stg_renamed_clients")
    assert found == [{"reject_reason": "erased", "after": None}]


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_token_is_of_the_type_that_the_table_has(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Iceberg stores a `smallint` as `int`, from which a token is drawn."""
    project = make_project("erase_small")
    columns = [{"name": "id", "type": "smallint"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_small",
        f"netiq_event_log({relation('small_log')}, unique_key=['id'], table='people',"
        f" columns={columns})",
    )
    lake.create("small_log", LOG, [event(1, 1, 7, "Eve Marker")])
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_small", keys=[{"id": 7}], keep_intervals=[])
    query = f"select `after`.* from {SCHEMA}.stg_small"
    [erased] = lake.rows(query)
    assert erased["id"] < 0
    project.dbt("run", "--full-refresh")
    assert lake.rows(query) == [erased]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, []], ids=["as a whole", "with its intervals"])
def test_a_change_away_from_an_erased_key_stays_erased_without_its_old_row(
    kept: list[str] | None, make_project: Callable[[str], Project], lake: Lake
) -> None:
    """It has left the raw table, and the new row, whose key is not erased, is read again."""
    project = make_project("erase_half_gone")
    call = f"qlik_change_table({relation('half_gone__ct')}, unique_key=['code'])"
    project.stream("stg_half_gone", call)
    lake.create("half_gone__ct", COLUMNS, [row(1, "I", "eve-now", "Eve Marker")])
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_half_gone", keys=[{"code": "eve-now"}], keep_intervals=kept)
    moved = [row(2, "B", "eve-now", "Eve Marker"), row(2, "U", "eve-new", "Eve Secondmark")]
    lake.append("half_gone__ct", COLUMNS, moved)
    project.dbt("run")
    before = lake.contents("stg_half_gone")["stg_half_gone"]
    assert len(before) == 2
    lake.create("half_gone__ct", COLUMNS, moved[1:] * 3)
    project.dbt("run")
    after = lake.contents("stg_half_gone")["stg_half_gone"]
    assert [{**one, "source_rows": None} for one in after] == [
        {**one, "source_rows": None} for one in before
    ]
    assert found_in_files(lake, "stg_half_gone") == set()


@pytest.mark.slow
def test_tokens_outlast_that_their_key_is_erased_as_a_whole(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """What lands again of the key counts, and its versions stay as they are."""
    project = make_project("erase_twice")
    project.stream("stg_twice", f"qlik_change_table({relation('twice__ct')}, unique_key=['code'])")
    project.history("twice_history", "stg_twice", ["code"])
    rows = [
        row(1, "I", "eve-at-first", "Eve Marker"),
        row(2, "B", "eve-at-first", "Eve Marker"),
        row(2, "U", "eve-now", "Eve Secondmark"),
        row(3, "I", "bob", "Bob"),
    ]
    lake.create("twice__ct", COLUMNS, rows)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    keys = [{"code": "eve-at-first"}]
    erase(project, staging="stg_twice", keys=keys, keep_intervals=[])
    project.dbt("run")
    history = f"select * from {SCHEMA}.twice_history order by code, version"
    versions = lake.rows(history)
    assert [one["closed_by"] for one in versions if one["name"] is None] in (
        ["key_change", None],
        [None, "key_change"],
    )
    late = [row(4, "U", "eve-now", "Eve Latemark")]
    for code in ("eve-now", "eve-at-first"):
        erase(project, staging="stg_twice", keys=[{"code": code}])
        lake.append("twice__ct", COLUMNS, rows + late)
        project.dbt("run")
        assert lake.rows(history) == versions, code
        for name in ("stg_twice", "twice_history"):
            assert found_in_files(lake, name) == set(), (name, code)
        staged = lake.rows(f"select change_seq, source_rows, reject_reason from {SCHEMA}.stg_twice")
        landed = lake.rows(f"select code from {SCHEMA}.twice__ct")
        assert sum(one["source_rows"] for one in staged) == len(landed)
        reasons = [one["reject_reason"] for one in sorted(staged, key=str)]
        assert reasons == [None, None, None, "erased"]
    project.dbt("run", "--full-refresh")
    assert [one["code"] for one in lake.rows(history)] == ["bob"]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_what_is_held_back_ends_a_token_when_it_is_due(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Whether it was held back before the key was erased, as that of 8, or landed later."""
    project = make_project("erase_held_back")
    columns = [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    project.stream(
        "stg_held",
        f"netiq_event_log({relation('held_log')}, unique_key=['id'], table='people',"
        f" columns={columns}, future_events=true, as_of=var('as_of'))",
    )
    project.history("held_history", "stg_held", ["id"])
    tomorrow = START + timedelta(days=1)

    def run(day: int, *arguments: str) -> list[dict[str, Any]]:
        now = json.dumps({"as_of": f"{START + timedelta(days=day, hours=1):%Y-%m-%d %H:%M:%S}"})
        project.dbt("run", "--vars", now, *arguments)
        return lake.rows(f"select id, name, closed_by, valid_to from {SCHEMA}.held_history")

    log = [event(1, 1, 7, "Eve Marker"), event(2, 1, 8, "Eve Secondmark"), event(3, 4, 8)]
    log[2]["event_time"] = tomorrow
    lake.create("held_log", LOG, log)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    run(0, "--full-refresh")
    now = json.dumps({"as_of": f"{START:%Y-%m-%d}"})
    asked = {"staging": "stg_held", "keys": [{"id": 7}, {"id": 8}], "keep_intervals": []}
    project.dbt("run-operation", "erase", "--args", json.dumps(asked), "--vars", now)
    lake.append("held_log", LOG, [event(9, 4, 7) | {"event_time": tomorrow}])
    assert [one["closed_by"] for one in run(0)] == [None, None]
    for refresh in ([], ["--full-refresh"]):
        found = run(2, *refresh)
        assert [one["closed_by"] for one in found] == ["delete", "delete"], refresh
        assert {one["valid_to"] for one in found} == {tomorrow}
        assert all(one["id"] < 0 and one["name"] is None for one in found)
        for name in ("stg_held", "held_history"):
            assert found_in_files(lake, name) == set(), (name, refresh)
        staged = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_held")
        assert staged == [{"reject_reason": None, "source_rows": 1}] * 4
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_hashes_stop_a_run_if_the_key_is_written_otherwise(
    make_project: Callable[[str], Project], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    erasures = f"{SCHEMA}.afterimage_erasures"
    project = make_project("erase_hashed")
    call = f"qlik_change_table({relation('hashed__ct')}, unique_key=['code'])"
    project.stream("stg_hashed", call)
    rows = [row(1, "I", Decimal(7), "Eve Marker")]
    monkeypatch.setenv("AFTERIMAGE_ERASURE_SALT", "pepper")
    lake.create("hashed__ct", COLUMNS | {"code": "decimal(20,0)"}, rows)
    lake.spark.sql(f"drop table if exists {erasures}")
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_hashed", keys=[{"code": "7"}])
    for kind in ("decimal(38,0)", "decimal(38,10)"):
        lake.create("hashed__ct", COLUMNS | {"code": kind}, rows)
        if kind == "decimal(38,0)":
            project.dbt("run", "--full-refresh")
        else:
            with pytest.raises(DbtError) as stopped:
                project.dbt("run", "--full-refresh")
            assert "has hashes of keys whose column code was decimal(38,0)" in str(stopped.value)
            assert "Got: decimal(38,10)" in str(stopped.value)
        found = lake.rows(f"select reject_reason from {SCHEMA}.stg_hashed")
        assert found == [{"reject_reason": "erased"}], kind
    lake.spark.sql(f"drop table {erasures}")


@pytest.mark.slow
def test_what_is_kept_may_come_back_in_other_capitals(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    project = make_project("erase_in_capitals")
    call = f"qlik_change_table({relation('recased__ct')}, unique_key=['code'])"
    project.stream("stg_recased", call)
    lake.create("recased__ct", COLUMNS, [row(1, "I", "eve-now", "Rome")])
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    erase(project, staging="stg_recased", keys=[{"code": "eve-now"}], keep_intervals=["name"])
    [before] = lake.rows(f"select `after`.* from {SCHEMA}.stg_recased")
    assert before["code"].startswith("erased-")
    columns = {name.upper() if "_" not in name else name: kind for name, kind in COLUMNS.items()}
    recased = {name.upper(): value for name, value in row(1, "I", "eve-now", "Rome").items()}
    named = {name: recased[name.upper()] for name in columns if name.upper() in recased}
    lake.create("recased__ct", columns, [named])
    project.dbt("run", "--full-refresh")
    [after] = lake.rows(f"select `after`.* from {SCHEMA}.stg_recased")
    assert after == {"CODE": before["code"], "NAME": "Rome"}
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
@pytest.mark.parametrize("raw", [[], ["--raw"]], ids=["left alone", "raw"])
def test_a_key_is_erased_where_what_was_read_is_gone(
    raw: list[str],
    make_project: Callable[[str], Project],
    lake: Lake,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A table that was dropped, and a folder that was emptied and removed."""
    folder = tmp_path / "landed"
    lake.frame(COLUMNS, ROWS).write.parquet(str(folder))
    lake.create("gone__ct", COLUMNS, ROWS)
    project = make_project("erase_gone")
    landed = [{"name": "landed", "identifier": str(folder)}]
    sources = [
        {"name": "crm", "schema": SCHEMA, "tables": [{"name": "gone__ct"}]},
        {"name": "files", "schema": "parquet", "quoting": {"identifier": True}, "tables": landed},
    ]
    project.file("models/sources.yml", json.dumps({"sources": sources}))
    for name, source in (("gone", "'crm', 'gone__ct'"), ("landed", "'files', 'landed'")):
        call = f"qlik_change_table(source({source}), unique_key=['code'])"
        project.stream(f"stg_{name}", call)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    lake.spark.sql(f"drop table {SCHEMA}.gone__ct")
    shutil.rmtree(folder)
    for name, table in (("gone", "crm.gone__ct"), ("landed", "files.landed")):
        assert typed(project, f"stg_{name}", "code=eve-now", *raw, "--yes") == 0
        said = capfd.readouterr().out
        assert f"{table}: is gone, so nothing is erased there" in said
        assert found_in_files(lake, f"stg_{name}") == set()
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
@pytest.mark.needs("delta")
def test_a_change_data_feed_is_not_asked_for_what_an_erasure_has_removed(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """On some stores of objects the log does not say by itself that VACUUM was here.

    On a disk the feed leaves an empty folder behind, which is no file.
    """
    project = make_project("erase_feed")
    project.file(
        "models/sources.yml",
        f"sources: [{{name: crm, schema: {SCHEMA}, tables: [{{name: fed__ct}}]}}]",
    )
    project.stream("stg_fed", "qlik_change_table(source('crm', 'fed__ct'), unique_key=['code'])")
    lake.create("fed__ct", COLUMNS, ROWS)
    lake.spark.sql(
        f"alter table {SCHEMA}.fed__ct set tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt("run", "--full-refresh")
    lake.append("fed__ct", COLUMNS, [row(6, "I", "cid", "Cid")])
    lake.spark.conf.set("spark.databricks.delta.vacuum.logging.enabled", "false")
    try:
        erase(project, staging="stg_fed", keys=[{"code": "eve-now"}], raw=True)
    finally:
        lake.spark.conf.unset("spark.databricks.delta.vacuum.logging.enabled")
    lake.append("fed__ct", COLUMNS, [row(7, "I", "dan", "Dan")])
    project.dbt("run")
    staged = lake.rows(f"select `after`.name, reject_reason from {SCHEMA}.stg_fed")
    assert sorted((str(one["name"]), str(one["reject_reason"])) for one in staged) == [
        ("Ada", "None"),
        ("Ada L.", "None"),
        ("Bob", "None"),
        ("Cid", "None"),
        ("Dan", "None"),
        ("None", "erased"),
        ("None", "erased"),
    ]
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
def test_the_list_is_made_with_its_schema(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """dbt makes the schemas of the models that it runs, and no others."""
    project = make_project("erase_schema")
    call = f"qlik_change_table({relation('apart__ct')}, unique_key=['code'])"
    project.stream("stg_apart", call)
    lake.create("apart__ct", COLUMNS, ROWS)
    named = ("--vars", json.dumps({"afterimage_erasures": "privacy.erasures"}))
    project.dbt("run", "--full-refresh", *named)
    asked = {"staging": "stg_apart", "keys": [{"code": "eve-now"}]}
    project.dbt("run-operation", "erase", "--args", json.dumps(asked), *named)
    listed = lake.rows("select erased_key from privacy.erasures")
    assert {json.loads(one["erased_key"])["code"] for one in listed} == {"eve-at-first", "eve-now"}
    staged = lake.rows(f"select reject_reason from {SCHEMA}.stg_apart")
    assert [one["reject_reason"] for one in staged].count("erased") == 2
    lake.spark.sql("drop table privacy.erasures")
    lake.spark.sql("drop schema privacy")
