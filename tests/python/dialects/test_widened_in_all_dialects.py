"""What a change is called does not depend on the width of its values, and messages are read again.

Each table of a source lands twice: with narrow types, and the same rows again after its columns
have widened. Values that are messages have no type; a model declares one, and somebody edits it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyspark
import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, column_list, relation
from dialect_netiq import LOG
from reference import Row
from tables_read_again import KEYS, NARROW, SOURCES, call

pytestmark = pytest.mark.skipif(
    FORMAT == "delta" and pyspark.__version__ < "4", reason="Delta 3.3 widens no int to bigint"
)

WIDE = {"id": "bigint", "size": "bigint", "weight": "double", "price": "decimal(20,2)"}
MODELS = {name: (f"stg_wide_{name}", f"wide_{name}_history") for name in SOURCES}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("widened_dialects")


# What each model holds: with narrow types, after it has read the rows again, and when built anew.
Runs = dict[str, list[list[Row]]]


@pytest.fixture(scope="module")
def runs(project: Project, lake: Lake) -> Runs:
    """Land all sources, widen their columns, and land the same rows again."""
    for name, (_, header, rows) in SOURCES.items():
        lake.create(f"wide_{name}", {**header, **NARROW}, rows)
        staging, history = MODELS[name]
        read = call(name, f"wide_{name}")
        project.stream(staging, read, on_schema_change="append_new_columns")
        project.history(history, staging)
    project.dbt("run")
    models = [model for of_source in MODELS.values() for model in of_source]
    first = lake.contents(*models)
    for name in SOURCES:
        table = f"{SCHEMA}.wide_{name}"
        if FORMAT == "delta":
            lake.spark.sql(
                f"alter table {table} set tblproperties ('delta.enableTypeWidening' = 'true')"
            )
        for column, kind in WIDE.items():
            lake.spark.sql(f"alter table {table} alter column {column} type {kind}")
        lake.spark.sql(f"insert into {table} select * from {table}")
    project.dbt("run")
    second = lake.contents(*models)
    project.dbt("run", "--full-refresh")
    third = lake.contents(*models)
    return {model: [first[model], second[model], third[model]] for model in models}


@pytest.mark.minutes
@pytest.mark.parametrize("source", SOURCES)
def test_rows_read_again_after_a_widening_are_the_same_changes(source: str, runs: Runs) -> None:
    staging, history = MODELS[source]
    first, second, anew = runs[staging]
    assert len(first) >= len(KEYS)
    assert by_name(second) == by_name(first)
    assert second == anew
    assert runs[history][1] == runs[history][2]
    assert runs[history][0] == runs[history][1]


def by_name(changes: list[Row]) -> dict[str, tuple[Any, ...]]:
    names = ("change_seq", "operation", "before", "after", "reject_reason")
    return {change["change_id"]: tuple(change[name] for name in names) for change in changes}


# --- values that are texts, whose types the model declares --------------------------------------

MANY = 3_000_000_000  # more than an int can hold
AT = 1709283600000  # 2024-03-01 09:00:00


def debezium(key: int, size: int) -> Row:
    source = {"ts_ms": AT, "snapshot": "false", "file": "binlog.000009", "pos": key, "row": 0}
    after = {"id": key, "size": size, "weight": 0.1, "price": "12345.50"}
    return {"value": json.dumps({"before": None, "after": after, "source": source, "op": "c"})}


def qlik_message(key: int, size: int) -> Row:
    headers = {"operation": "INSERT", "changeSequence": f"20240229{key:027d}"}
    values = {"id": key, "size": size, "weight": 0.1, "price": "12345.50"}
    body = {"data": values, "beforeData": None, "headers": headers}
    return {"value": json.dumps({"magic": "atMSG", "type": "DT", "message": body})}


def events(key: int, size: int) -> list[Row]:
    values = {"size": str(size), "weight": "0.1", "price": "12345.50"}
    return [
        {
            "record_id": key * 10 + number,
            "table_key": f"id={key}",
            "status": "N",
            "event_type": 1,
            "event_time": datetime(2024, 2, 29, 12, key),
            "table_name": "ITEMS",
            "column_name": column,
            "new_value": value,
        }
        for number, (column, value) in enumerate(values.items())
    ]


DECLARED: dict[str, tuple[str, dict[str, str], list[Row]]] = {
    "debezium": ("debezium_messages", {"value": "string"}, [debezium(1, 1), debezium(2, MANY)]),
    "qlik": ("qlik_messages", {"value": "string"}, [qlik_message(1, 1), qlik_message(2, MANY)]),
    "netiq": ("netiq_event_log", LOG, [*events(1, 1), *events(2, MANY)]),
}


@pytest.mark.minutes
@pytest.mark.parametrize("source", DECLARED)
def test_a_wider_type_in_the_model_takes_in_values_that_did_not_fit(
    source: str, project: Project, lake: Lake
) -> None:
    macro, columns, rows = DECLARED[source]
    lake.create("declared", columns, rows)

    def declare(types: dict[str, str]) -> None:
        listed = [{"name": name, "type": kind} for name, kind in types.items()]
        table = ", table='items'" if source == "netiq" else ""
        call = f"{macro}({relation('declared')}, unique_key=['id'], columns={listed}{table})"
        project.stream("stg_declared", call, on_schema_change="append_new_columns")

    models = ["stg_declared", "declared_history", "declared_audit"]
    project.history(models[1], models[0])
    select = f"select * from {{{{ ref('{models[0]}') }}}}"
    project.model(models[2], select, materialized="audit", unique_key=["id"])
    declare(NARROW)
    project.dbt("run", "--full-refresh", "--select", *models)
    assert MANY not in {
        row["size"] for row in lake.contents("declared_history")["declared_history"]
    }
    declare(WIDE)
    project.dbt("run", "--select", *models)
    found = lake.contents(*models)
    assert {change["reject_reason"] for change in found["stg_declared"]} == {None}
    values = sorted((row["id"], row["size"], row["weight"]) for row in found["declared_history"])
    assert values == [(1, 1, 0.1), (2, MANY, 0.1)]
    assert {row["price"] for row in found["declared_history"]} == {Decimal("12345.50")}
    project.dbt("run", "--full-refresh", "--select", *models)
    assert lake.contents(*models) == found


@pytest.mark.minutes
@pytest.mark.parametrize("source", DECLARED)
def test_a_wider_type_that_the_table_stores_as_the_same_is_noticed(
    source: str, project: Project, lake: Lake
) -> None:
    """Iceberg stores a smallint as an int."""
    macro, columns, _ = DECLARED[source]
    write: dict[str, Callable[[int, int], Row | list[Row]]] = {
        "debezium": debezium,
        "qlik": qlik_message,
        "netiq": events,
    }
    written = [write[source](1, 1), write[source](2, 40_000)]
    rows = [row for some in written for row in (some if isinstance(some, list) else [some])]
    lake.create("redeclared", columns, rows)

    def declare(size: str, setting: str = "append_new_columns") -> None:
        types = {**WIDE, "id": "int", "size": size}
        listed = [{"name": name, "type": kind} for name, kind in types.items()]
        table = ", table='items'" if source == "netiq" else ""
        call = f"{macro}({relation('redeclared')}, unique_key=['id'], columns={listed}{table})"
        project.stream("stg_redeclared", call, on_schema_change=setting)

    run = ("run", "--select", "stg_redeclared")
    declare("smallint")
    project.dbt(*run, "--full-refresh")
    sizes = f"select after.size from {SCHEMA}.stg_redeclared where reject_reason is null order by 1"
    assert [row["size"] for row in lake.rows(sizes)] == [1]
    declare("int", "fail")
    with pytest.raises(DbtError, match=r"of another type: size \(smallint, now int\)"):
        project.dbt(*run)
    declare("int")
    project.dbt(*run)
    assert [row["size"] for row in lake.rows(sizes)] == [1, 40_000]
    everything = f"select * from {SCHEMA}.stg_redeclared order by change_id"
    staged = lake.rows(everything)
    project.dbt(*run)
    assert lake.rows(everything) == staged


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_two_tables_of_a_topic_may_be_declared_with_types_of_two_widths(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of each the model remembers its own types."""

    def declare(**sizes: str) -> None:
        calls = []
        for table, size in sizes.items():
            listed = column_list(**{**WIDE, "id": "int", "size": size})
            call = f"netiq_event_log({relation('two_widths')}, ['id'], '{table}', {listed})"
            calls.append(f"select * from ({{{{ {call} }}}})")
        config = {"materialized": "change_stream", "on_schema_change": "append_new_columns"}
        project.model("stg_two_widths", " union all ".join(calls), **config)

    rows = [*events(1, 1), *({**row, "table_name": "PARTS"} for row in events(2, 40_000))]
    lake.create("two_widths", LOG, [*rows, *events(3, 40_000)])
    run = ("--no-quiet", "run", "--select", "stg_two_widths")
    sizes = f"select after.size from {SCHEMA}.stg_two_widths where reject_reason is null order by 1"
    declare(items="smallint", parts="int")
    project.dbt(*run, "--full-refresh")
    assert [row["size"] for row in lake.rows(sizes)] == [1, 40_000]
    properties = f"show tblproperties {SCHEMA}.stg_two_widths"
    remembered = lake.rows(properties)
    capfd.readouterr()
    project.dbt(*run)
    assert "stg_two_widths: nothing new" in capfd.readouterr().out
    assert lake.rows(properties) == remembered
    declare(items="int", parts="int")
    project.dbt(*run)
    assert [row["size"] for row in lake.rows(sizes)] == [1, 40_000, 40_000]
