"""The page on the options of a history: its input gives its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import ROOT, Lake, Project, contract_columns, relation
from pages import tables

PAGE = (ROOT / "docs" / "guides" / "history_options.md").read_text()
TYPES = {"id": "int", "name": "string", "city": "string", "logins": "int"}
SECTION = re.compile(
    r"^## (?P<name>.+?)$.*?^```jinja\n(?P<options>.+?)\n```$(?P<rest>.*?)(?=^## |\Z)", re.M | re.S
)


def landed(row: dict[str, str]) -> dict[str, Any]:
    image = (int(row["id"]), row["name"], row["city"], int(row["logins"]))
    is_delete = row["operation"] == "delete"
    return {
        "change_id": row["change_seq"],
        "change_seq": row["change_seq"],
        "operation": row["operation"],
        "before" if is_delete else "after": image,
        "changed_at": datetime.fromisoformat(row["changed_at"]),
        "transaction_id": row["transaction_id"],
        "ingested_at": datetime(2024, 1, 2),
    }


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "*NULL*" if value is None else str(value)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    fields = ", ".join(f"{name}: {kind}" for name, kind in TYPES.items())
    columns = contract_columns(fields)
    lake.create("documented_changes", columns, [landed(row) for row in tables(PAGE)[0]])
    return make_project("history_options")


@pytest.mark.parametrize(
    ("options", "rest"),
    [pytest.param(m["options"], m["rest"], id=m["name"]) for m in SECTION.finditer(PAGE)],
)
def test_the_option_gives_what_its_page_shows(
    options: str, rest: str, project: Project, lake: Lake
) -> None:
    raw = relation("documented_changes")
    sql = project.sql(f"scd2({raw}, {options})")
    [expected] = tables(rest)
    rows = sorted(lake.rows(sql), key=lambda row: row["valid_from_seq"])
    assert [{name: shown(row[name]) for name in expected[0]} for row in rows] == expected


def test_every_section_of_the_page_was_read() -> None:
    assert len(SECTION.findall(PAGE)) == PAGE.count("\n## ") == 7
