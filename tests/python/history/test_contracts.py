"""Contracts of dbt on histories and audits: the declared columns beside those of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from conftest import SCHEMA, DbtError, Lake, Project, contract_columns
from histories import change

COLUMNS = contract_columns("id: int, name: string, city: string")
ADA = change(1, "insert", (1, "Ada", "Rome"))
MOVED = change(2, "update", (1, "Ada", "Oslo"), run=1)

# The columns as the guide's pages list them, the types as people spell them. Spark says int for
# integer, and a string is a string whatever its length.
DATA = {"id": "integer", "name": "varchar(20)", "city": "string"}
OURS = {
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "valid_from_seq": "string",
    "valid_to_seq": "string",
    "is_current": "boolean",
    "is_deleted": "boolean",
    "version": "integer",
    "operation": "string",
    "closed_by": "string",
    "transaction_id": "string",
    "history_id": "string",
}
OF_AUDIT = {
    "id": "integer",
    "change_id": "string",
    "change_seq": "string",
    "operation": "string",
    "changed_at": "timestamp",
    "transaction_id": "string",
    "changed_by": "string",
    "column_name": "string",
    "old_value": "string",
    "new_value": "string",
    "old_value_from": "string",
}
# Makes the warnings of macros errors.
STRICT = ("--warn-error-options", '{"error": ["JinjaLogWarning"]}')
WIDER_ID = "| id | int | bigint | data type mismatch |"
FAILED = "This model has an enforced contract that failed."


def declare(project: Project, model: str, types: dict[str, str], **properties: Any) -> None:
    """Write a model's contract; `properties` are others of the model."""
    columns = [{"name": name, "data_type": kind} for name, kind in types.items()]
    described = {
        "name": model,
        "config": {"contract": {"enforced": True}},
        "columns": columns,
        **properties,
    }
    project.file(f"models/{model}.yml", yaml.safe_dump({"models": [described]}))


@pytest.fixture
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    """A history and an audit of one stream, neither of them built."""
    project = make_project("contracts")
    stream = f"{SCHEMA}.declared_changes"
    lake.create("declared_changes", COLUMNS, [ADA])
    for name in ("declared_history", "declared_audit"):
        lake.spark.sql(f"drop table if exists {SCHEMA}.{name}")
        kind = name.split("_")[1]
        project.model(name, f"select * from {stream}", materialized=kind, unique_key=["id"])
    return project


def tables(lake: Lake) -> list[str]:
    return sorted(row["tableName"] for row in lake.rows(f"show tables in {SCHEMA}"))


def columns_of(lake: Lake, table: str) -> list[str]:
    return lake.spark.table(f"{SCHEMA}.{table}").columns


def refused(project: Project, lake: Lake, model: str) -> str:
    """Run a model whose contract does not fit, and return what dbt said; nothing is written."""

    def written() -> tuple[list[str], Any]:
        there = tables(lake)
        query = f"select * from {SCHEMA}.{model}.metadata_log_entries"
        return there, len(lake.rows(query)) if model in there else None

    before = written()
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", model)
    assert written() == before
    assert FAILED in str(error.value)
    # The line of a column in dbt's table, without the width of its cells.
    return "\n".join(" ".join(line.split()) for line in str(error.value).splitlines())


@pytest.mark.slow
def test_a_history_keeps_its_contract_in_every_run(project: Project, lake: Lake) -> None:
    # dbt builds the table in the order of the contract.
    declare(project, "declared_history", OURS | DATA)
    project.dbt("run", "--select", "declared_history")
    assert columns_of(lake, "declared_history") == [*OURS, *DATA]
    lake.append("declared_changes", COLUMNS, [MOVED])
    project.dbt("run", "--select", "declared_history")
    found = lake.rows(f"select * from {SCHEMA}.declared_history order by version")
    assert [(row["id"], row["city"], row["closed_by"]) for row in found] == [
        (1, "Rome", "update"),
        (1, "Oslo", None),
    ]

    declare(project, "declared_history", OURS | DATA | {"id": "long"})
    assert "| id | int | bigint | data type mismatch |" in refused(
        project, lake, "declared_history"
    )
    # With a new change to take in, too.
    lake.append("declared_changes", COLUMNS, [change(3, "update", (1, "Ada", "Bonn"), run=2)])
    assert "| id | int | bigint | data type mismatch |" in refused(
        project, lake, "declared_history"
    )


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (DATA | OURS | {"id": "bigint"}, WIDER_ID),
        (DATA, "| valid_from | timestamp | | missing in contract |"),
        (DATA | OURS | {"nick": "string"}, "| nick | | string | missing in definition |"),
        # The compiled SQL is the stream; its columns are not the history's.
        (COLUMNS, "| change_seq | | string | missing in definition |"),
    ],
)
def test_a_history_is_not_built_against_its_contract(
    project: Project, lake: Lake, types: dict[str, str], said: str
) -> None:
    declare(project, "declared_history", types)
    assert said in refused(project, lake, "declared_history")
    assert "declared_history" not in tables(lake)


@pytest.mark.minutes
def test_a_new_column_of_the_stream_waits_for_the_contract(project: Project, lake: Lake) -> None:
    declare(project, "declared_history", DATA | OURS)
    project.dbt("run", "--select", "declared_history")
    wider = contract_columns("id: int, name: string, city: string, fax: string")
    lake.create("declared_changes", wider, [change(2, "update", (1, "Ada", "Oslo", "7"), run=1)])
    said = refused(project, lake, "declared_history")
    assert "| fax | string | | missing in contract |" in said
    declare(project, "declared_history", DATA | {"fax": "string"} | OURS)
    project.dbt("run", "--select", "declared_history")
    found = lake.rows(f"select fax from {SCHEMA}.declared_history order by version")
    assert found == [{"fax": None}, {"fax": "7"}]


@pytest.mark.minutes
def test_a_contract_names_our_columns_as_the_model_does(project: Project, lake: Lake) -> None:
    project.model(
        "declared_history",
        f"select * from {SCHEMA}.declared_changes",
        materialized="history",
        unique_key=["id"],
        meta_column_names={"version": "_version"},
    )
    declare(project, "declared_history", DATA | OURS)
    said = refused(project, lake, "declared_history")
    assert "| _version | int | | missing in contract |" in said
    renamed = {"_version" if name == "version" else name: kind for name, kind in OURS.items()}
    declare(project, "declared_history", DATA | renamed)
    project.dbt("run", "--select", "declared_history")


@pytest.mark.slow
def test_an_audit_keeps_its_contract_in_every_run(project: Project, lake: Lake) -> None:
    declare(project, "declared_audit", COLUMNS)
    assert "| before | | struct" in refused(project, lake, "declared_audit")
    assert "declared_audit" not in tables(lake)
    declare(project, "declared_audit", OF_AUDIT)
    project.dbt("run", "--select", "declared_audit")
    lake.append("declared_changes", COLUMNS, [MOVED])
    project.dbt("run", "--select", "declared_audit")
    found = lake.rows(f"select * from {SCHEMA}.declared_audit where operation = 'update'")
    assert [(row["column_name"], row["old_value"], row["new_value"]) for row in found] == [
        ("city", "Rome", "Oslo")
    ]
    declare(project, "declared_audit", OF_AUDIT | {"old_value": "int"})
    said = refused(project, lake, "declared_audit")
    assert "| old_value | string | int | data type mismatch |" in said


@pytest.mark.minutes
def test_constraints_that_iceberg_cannot_keep_are_a_warning(project: Project, lake: Lake) -> None:
    """Iceberg has no CHECK, and no NOT NULL for a column that exists."""
    not_null: dict[str, Any] = {"type": "not_null"}
    check: dict[str, Any] = {"type": "check", "expression": "id > 0"}
    columns: list[dict[str, Any]] = [
        {"name": name, "data_type": kind} for name, kind in (DATA | OURS).items()
    ]
    columns[0]["constraints"] = [not_null]
    declare(project, "declared_history", {}, columns=columns, constraints=[check])
    with pytest.raises(DbtError, match=r"not_null \(id\), check \(id > 0\).*data tests"):
        project.dbt(*STRICT, "run", "--select", "declared_history")
    assert "declared_history" not in tables(lake)
    project.dbt("run", "--select", "declared_history")
    lake.append("declared_changes", COLUMNS, [MOVED])
    project.dbt("run", "--select", "declared_history")

    # dbt's own way to say that one knows.
    not_null["warn_unsupported"] = check["warn_unsupported"] = False
    declare(project, "declared_history", {}, columns=columns, constraints=[check])
    project.dbt(*STRICT, "run", "--select", "declared_history")
