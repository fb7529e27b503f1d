"""A real Debezium on a real PostgreSQL: each row beside the database's own record of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import postgres
import real_run
from conftest import SCHEMA, Lake, Project, relation
from real_answers import (
    audit,
    columns_of,
    in_audit,
    selected,
    shown,
    stored,
)
from real_connector import PYTHON
from real_differences import differences, wrong_history
from real_run import MODES, Told
from real_source import OLD_DAYS, TABLES

Row = dict[str, Any]

LANDING = {
    "topic": "string",
    "key": "string",
    "value": "string",
    "headers": "array<struct<key: string, value: string>>",
    "partition": "int",
    "offset": "bigint",
}


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the connectors sent, and what the database says of the same changes."""
    if postgres.binaries() is None:
        pytest.skip("no server of PostgreSQL on this machine")
    if not PYTHON.exists():
        pytest.skip("no .venv-real: `make test-real` makes it")
    chosen = {
        str(item.callspec.params["mode"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
    }
    modes = [mode for name, mode in MODES.items() if name in chosen]
    return real_run.told_by(modes, tmp_path_factory.mktemp("connectors"))


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("real_debezium")


@pytest.mark.minutes
@pytest.mark.parametrize("mode", list(MODES))
def test_rows_are_those_of_the_database(
    mode: str, told: Told, project: Project, lake: Lake
) -> None:
    options = "key='key', headers='headers'"
    if MODES[mode].by_offset:
        options += ", position=['partition', 'offset']"
    is_avro = MODES[mode].form == "Avro"
    if is_avro:
        lake.create("schemas", {"id": "int", "schema": "string"}, told.schemas)
        options += f", schemas={relation('schemas')}"
    settings = (MODES[mode].time, MODES[mode].decimal)
    columns = columns_of(*settings)
    names = {}
    for table in TABLES:
        name = names[table] = f"{mode}_{table}"
        lake.create(f"landed_{name}", *landed(told.records[mode, table], is_avro))
        project.stream(
            f"stg_{name}",
            f"debezium_messages({relation('landed_' + name)}, unique_key=['id'],"
            f" columns={columns}, {options})",
        )
        project.history(f"{name}_history", f"stg_{name}")
        project.model(f"{name}_current", f"{{{{ current_state(ref('{name}_history')) }}}}")
        project.model(
            f"{name}_audit",
            f"select * from {{{{ ref('stg_{name}') }}}}",
            materialized="audit",
            unique_key=["id"],
        )
    models = " ".join(f"+{name}_current +{name}_audit" for name in names.values())
    project.dbt("run", "--full-refresh", "--select", models)
    wrong: dict[str, Any] = {}
    for table, name in names.items():
        record = told.record[table]
        initial = [stored(row, *settings) for row in told.initial[table]]
        changes = [
            (at, old and stored(old, *settings), new and stored(new, *settings))
            for at, old, new in record.changes
        ]
        texts = selected(columns)
        rejected = lake.rows(
            f"select distinct reject_reason as reason from {SCHEMA}.stg_{name}"
            " where reject_reason is not null and reject_reason not like 'tombstone: %'"
        )
        wrong[f"{table} rejected"] = [row["reason"] for row in rejected[:3]]
        wrong[f"{table} history"] = wrong_history(
            lake, f"{SCHEMA}.{name}_history", told, MODES[mode], table
        )
        rows = lake.rows(f"select {texts} from {SCHEMA}.{name}_current")
        wrong[f"{table} current"] = differences(
            [shown(row, settings[1]) for row in rows],
            [stored(row, *settings) for row in record.rows.values()],
        )
        audited = lake.rows(
            "select cast(id as string) as id, cast(changed_at as string) as at, column_name,"
            f" old_value, new_value from {SCHEMA}.{name}_audit order by change_seq"
        )
        for row in audited:
            for value in ("old_value", "new_value"):
                row[value] = in_audit(row["column_name"], row[value], settings[1])
        due = audit(initial, changes)
        # Of a row that leaves its key no message says whether other columns are made up.
        moved = {row["at"] for row in due if row["column_name"] == "id" and row["old_value"]}
        audited, due = ([r for r in rows if r["at"] not in moved] for rows in (audited, due))
        wrong[f"{table} audit"] = differences(*(sorted(r, key=in_order) for r in (audited, due)))
    assert {what: rows for what, rows in wrong.items() if rows} == {}


@pytest.mark.minutes
@pytest.mark.parametrize("mode", ["isostring"])
def test_a_snapshot_turns_days_that_javas_old_calendar_lacks(mode: str, told: Told) -> None:
    days: dict[str, set[tuple[str, ...]]] = {}
    for kind in ("first", "streamed", "incremental"):
        days[kind] = set()
    for record in told.records[mode, "old_days"]:
        message = json.loads(record["value"])["payload"]
        kind = message["source"]["snapshot"]
        kind = kind if kind == "incremental" else "first" if message["op"] == "r" else "streamed"
        place = message["after"]["id"] % 100
        days[kind].add((OLD_DAYS[place], message["after"]["day"]))
    as_it_is = {(day, f"{day}Z") for day in OLD_DAYS if "BC" not in day}
    assert days["streamed"] == {*as_it_is, ("0044-03-15 BC", "-0043-03-15Z")}
    turned = {
        ("1582-10-04", "1582-10-04Z"),
        ("1582-10-05", "1582-10-15Z"),
        ("1582-10-14", "1582-10-24Z"),
        ("1582-10-15", "1582-10-15Z"),
        ("0044-03-15 BC", "0044-03-15Z"),
    }
    assert days["first"] == days["incremental"] == turned


def landed(records: list[Row], is_avro: bool) -> tuple[dict[str, str], list[Row]]:
    """Return the columns and the rows of a landing of records."""
    if not is_avro:
        return LANDING, records
    binary = dict.fromkeys(("key", "value"), "binary")
    rows = [
        {**record, **{name: record[name] and bytes.fromhex(record[name]) for name in binary}}
        for record in records
    ]
    return LANDING | binary, rows


def in_order(row: Row) -> tuple[str, str, str]:
    """Return what puts the rows of an audit in order."""
    return str(row["at"]), row["id"], row["column_name"]
