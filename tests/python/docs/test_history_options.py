"""The page on the options of a history: its input gives its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import ROOT, Lake, Project, contract_columns, relation
from pages import tables
from reference import Row

PAGE = (ROOT / "docs" / "guides" / "history_options.md").read_text()
TYPES = {"id": "int", "name": "string", "city": "string", "logins": "int"}
SECTION = re.compile(
    r"^## (?P<name>.+?)$.*?^```jinja\n(?P<options>.+?)\n```$(?P<rest>.*?)(?=^## |\Z)", re.M | re.S
)
SECTIONS = list(SECTION.finditer(PAGE))


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
def histories(make_project: Callable[[str], Project], lake: Lake) -> dict[str, list[Row]]:
    """Of each section the history that its options give."""
    fields = ", ".join(f"{name}: {kind}" for name, kind in TYPES.items())
    columns = contract_columns(fields)
    lake.create("documented_changes", columns, [landed(row) for row in tables(PAGE)[0]])
    calls = [
        f"scd2({relation('documented_changes')}, {section['options']})" for section in SECTIONS
    ]
    sqls = make_project("history_options").sqls(calls)
    return {
        section["name"]: lake.rows(f"select * from ({sql}) order by valid_from_seq")
        for section, sql in zip(SECTIONS, sqls, strict=True)
    }


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section["name"])
def test_the_option_gives_what_its_page_shows(
    section: re.Match[str], histories: dict[str, list[Row]]
) -> None:
    [expected] = tables(section["rest"])
    rows = histories[section["name"]]
    assert [{name: shown(row[name]) for name in expected[0]} for row in rows] == expected


def test_every_section_of_the_page_was_read() -> None:
    """The last one lists them all."""
    assert len(SECTIONS) == PAGE.count("\n## ") - 1 == 7
