"""A real Debezium on a real PostgreSQL: each row beside the database's own record of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

import postgres
import real_run
from conftest import SCHEMA, Lake, Project, relation
from real_answers import columns_of, history, reloads, selected, shown, stored
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


POSITION = ", position=['partition', 'offset']"


@pytest.mark.minutes
@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("position", ["", POSITION], ids=["log", "kafka"])
def test_rows_are_those_of_the_database(
    mode: str, position: str, told: Told, project: Project, lake: Lake
) -> None:
    settings = (MODES[mode].time, MODES[mode].decimal)
    columns = columns_of(*settings)
    names = {}
    for table in TABLES:
        name = names[table] = f"{mode}_{table}"
        lake.create(f"landed_{name}", LANDING, told.records[mode, table])
        project.stream(
            f"stg_{name}",
            f"debezium_messages({relation('landed_' + name)}, unique_key=['id'],"
            f" columns={columns}, key='key', headers='headers'{position})",
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
    wrong = {}
    for table, name in names.items():
        record = told.record[table]
        initial = [stored(row, *settings) for row in told.initial[table]]
        changes = [
            (at, old and stored(old, *settings), new and stored(new, *settings))
            for at, old, new in record.changes
        ]
        texts = selected(columns)
        reasons = lake.rows(
            f"select split(reject_reason, ':')[0] as reason, count(*) as n from {SCHEMA}.stg_{name}"
            " where reject_reason is not null group by 1"
        )
        wrong[f"{table} rejected"] = {row["reason"]: row["n"] for row in reasons} or None
        versions = lake.rows(
            f"select {texts}, cast(valid_from as string) as valid_from,"
            f" cast(valid_to as string) as valid_to, closed_by from {SCHEMA}.{name}_history"
            f" order by {name}_history.id, version"
        )
        # The versions of a key stay in their order.
        wrong[f"{table} history"] = differences(
            [row | shown(row, settings[1]) for row in versions],
            sorted(
                history(initial, changes, reloads(told.records[mode, table])),
                key=lambda row: int(row["id"] or 0),
            ),
        )
        rows = lake.rows(f"select {texts} from {SCHEMA}.{name}_current order by {name}_current.id")
        wrong[f"{table} current"] = differences(
            [shown(row, settings[1]) for row in rows],
            [stored(record.rows[key], *settings) for key in sorted(record.rows)],
        )
    assert {what: rows for what, rows in wrong.items() if rows} == {}


def differences(got: list[Row], expected: list[Row]) -> str | None:
    """Compare row for row, each in its order, and print what the first ones differ in."""
    keys = sorted({row["id"] for row in [*got, *expected]}, key=int)
    different = 0
    for key in keys:
        ours = [row for row in got if row["id"] == key]
        theirs = [row for row in expected if row["id"] == key]
        if ours == theirs:
            continue
        different += 1
        print("key", key, "has", len(ours), "rows and should have", len(theirs))
        for one, other in zip_longest(ours, theirs, fillvalue={}):
            for name in one.keys() | other.keys():
                if one.get(name) != other.get(name):
                    at = one.get("valid_from"), other.get("valid_from")
                    print("   ", at, name, "is", one.get(name), "and not", other.get(name))
    return (
        f"{different} of {len(keys)} keys, {len(got)} and {len(expected)} rows"
        if different
        else None
    )
