"""`dbt show --select` gives the rows that were built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conftest import Lake, Project, relation

COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "id": "int",
    "name": "string",
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    project = make_project("show")
    project.stream("stg_shown", f"qlik_change_table({relation('shown__ct')}, unique_key=['id'])")
    project.history("shown_history", "stg_shown")
    project.model("shown_names", "select id, name from {{ ref('shown_history') }}")
    lake.create(
        "shown__ct",
        COLUMNS,
        [
            dict(zip(COLUMNS, row, strict=True))
            for row in [
                (f"2024010112010000{1:019}", "I", 1, "Ada"),
                (f"2024010112010000{2:019}", "U", 1, "Ann"),
                (f"2024010112010000{3:019}", "U", None, "Bob"),
            ]
        ],
    )
    return project


def shown(project: Project, name: str, *more: str) -> list[dict[str, Any]]:
    results = project.dbt("show", "--select", name, *more).results
    [table] = [result.agate_table for result in results if result.node.name == name]
    return [dict(zip(table.column_names, row, strict=True)) for row in table.rows]


@pytest.mark.minutes
def test_show_returns_the_built_rows(project: Project) -> None:
    # Not built: the model's own query, as dbt does it.
    operations = ["insert", "update", "update"]
    assert sorted(row["operation"] for row in shown(project, "stg_shown")) == operations

    project.dbt("run")
    staged = shown(project, "stg_shown", "--limit", "-1")
    assert sorted(row["operation"] for row in staged) == operations
    assert len(shown(project, "stg_shown", "--limit", "1")) == 1
    history = shown(project, "shown_history")
    assert sorted((row["name"], row["version"]) for row in history) == [("Ada", 1), ("Ann", 2)]

    # Of other models, tests and queries dbt shows what they ask.
    project.file(
        "models/shown.yml", "models: [{name: stg_shown, data_tests: [no_rejected_changes]}]"
    )
    assert sorted(row["name"] for row in shown(project, "shown_names")) == ["Ada", "Ann"]
    [failure] = shown(project, "no_rejected_changes_stg_shown_")
    assert failure["reject_reason"] == "NULL in the key (id)"
    query = "select count(*) as n from {{ ref('shown_history') }}"
    [counted] = project.dbt("show", "--inline", query).results[0].agate_table.rows
    assert counted[0] == 2
