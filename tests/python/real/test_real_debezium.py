"""A real Debezium on a real PostgreSQL: each row beside the database's own record of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import postgres
import real_run
from conftest import SCHEMA, Lake, Project, column_list, relation
from real_answers import LOADED, TYPES, audit, canonical, comparable, history, selected
from real_connector import PYTHON
from real_run import MODES, Told
from real_source import TABLES

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
    chosen = [
        MODES[item.callspec.params["mode"]]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
    ]
    return real_run.told_by(chosen, tmp_path_factory.mktemp("connectors"))


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("real_debezium")


def texts(types: dict[str, str]) -> str:
    return ", ".join(f"{selected(name, kind)} as {name}" for name, kind in types.items())


def in_one_form(row: Row) -> Row:
    return {name: comparable(name, row[name]) for name in TYPES}


@pytest.mark.minutes
@pytest.mark.parametrize("mode", list(MODES))
def test_rows_are_those_of_the_database(mode: str, told: Told, project: Project, lake: Lake) -> None:
    arguments = "key='key', headers='headers', position=['partition', 'offset']"
    names = {}
    for table in TABLES:
        name = names[table] = f"{mode}_{table}"
        lake.create(f"landed_{name}", LANDING, told.records[mode, table])
        project.stream(
            f"stg_{name}",
            f"debezium_messages({relation('landed_' + name)}, unique_key=['id'],"
            f" columns={column_list(**TYPES)}, {arguments})",
        )
        project.history(f"{name}_history", f"stg_{name}")
        project.model(f"{name}_current", f"{{{{ current_state(ref('{name}_history')) }}}}")
        project.model(
            f"{name}_audit",
            f"select * from {{{{ ref('stg_{name}') }}}}",
            materialized="audit",
            unique_key=["id"],
        )
    project.dbt("run", "--select", " ".join(f"+{name}_current +{name}_audit" for name in names.values()))
    units: dict[str, str] = {}
    for table, name in names.items():
        initial = [canonical(row, units) for row in told.initial[table]]
        record = told.record[table]
        changes = [
            (at, old and canonical(old, units), new and canonical(new, units))
            for at, old, new in record.changes
        ]
        rejected = lake.rows(
            f"select reject_reason, count(*) as count from {SCHEMA}.stg_{name}"
            " where reject_reason is not null group by 1"
        )
        assert {row["reject_reason"] for row in rejected} == {"tombstone: the value is NULL"}

        versions = lake.rows(
            f"select {texts(TYPES)}, cast(valid_from as string) as valid_from,"
            f" cast(valid_to as string) as valid_to, closed_by from {SCHEMA}.{name}_history"
            " order by id, version"
        )
        got = [row | in_one_form(row) for row in versions]
        expected = [
            one.values
            | {"valid_from": one.valid_from, "valid_to": one.valid_to, "closed_by": one.closed_by}
            for one in history(initial, changes)
        ]
        # The versions of a key stay in their order.
        expected.sort(key=lambda one: int(str(one["id"])))
        assert_same(got, expected)

        rows = [in_one_form(row) for row in lake.rows(f"select {texts(TYPES)} from {SCHEMA}.{name}_current")]
        assert_same(
            sorted(rows, key=repr),
            sorted((canonical(row, units) for row in record.rows.values()), key=repr),
        )


def assert_same(got: list[Row], expected: list[Row]) -> None:
    """Compare row for row, each in its order; show what differs in the first ones."""
    different = [(one, other) for one, other in zip_longest(got, expected) if one != other]
    for one, other in different[:5]:
        if one is None or other is None:
            print("one side alone has", one or other)
            continue
        print("row", {name: one.get(name) for name in ("id", "valid_from", "valid_to", "at")})
        for name in one:
            if one[name] != other[name]:
                print("   ", name, "is", one[name], "and not", other[name])
    assert (len(different), len(got)) == (0, len(expected))
