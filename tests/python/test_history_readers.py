"""What reads histories: as_of and history_join, against rows worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import SCHEMA, Lake, Project

COLUMNS = {
    "id": "int",
    "value": "string",
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "is_deleted": "boolean",
    "history_id": "string",
}


def day(number: int) -> datetime:
    return datetime(2024, 1, number)


def version(
    key: int, value: str, start: int, end: int | None, deleted: bool = False
) -> dict[str, Any]:
    return {
        "id": key,
        "value": value,
        "valid_from": day(start),
        "valid_to": None if end is None else day(end),
        "is_deleted": deleted,
        "history_id": f"{key}-{value}-{start}",
    }


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    lake.create(
        "towns",
        COLUMNS,
        [
            version(1, "Rome", 1, 5),
            version(1, "Oslo", 5, 5),
            version(1, "Bonn", 5, 9),
            version(1, "Bonn", 9, None, deleted=True),
            version(2, "Kiel", 3, None),
        ],
    )
    lake.create(
        "grades",
        COLUMNS,
        [version(1, "A", 3, 7), version(1, "B", 12, None), version(3, "C", 2, 4)],
    )
    return make_project("history_readers")


def relation(table: str) -> str:
    return f"api.Relation.create(schema='{SCHEMA}', identifier='{table}')"


@pytest.mark.parametrize(
    ("moment", "towns"),
    [
        ("2023-12-31", []),
        ("2024-01-01", ["Rome"]),
        ("2024-01-04 23:59:59.999999", ["Kiel", "Rome"]),
        ("2024-01-05", ["Bonn", "Kiel"]),
        ("date_add(date'2024-01-08', 1)", ["Kiel"]),
    ],
)
def test_as_of_takes_the_versions_of_a_moment(
    project: Project, lake: Lake, moment: str, towns: list[str]
) -> None:
    sql = project.compile(f'{{{{ as_of({relation("towns")}, "{moment}") }}}}')
    assert sorted(row["value"] for row in lake.rows(sql)) == towns


def test_history_join_cuts_at_every_change_and_leaves_gaps(project: Project, lake: Lake) -> None:
    sql = project.compile(
        "{{ history_join({'town_': %s, 'grade_': %s}, unique_key=['id']) }}"
        % (relation("towns"), relation("grades"))
    )
    rows = [
        (r["id"], r["town_value"], r["grade_value"], r["valid_from"], r["valid_to"])
        for r in lake.rows(sql)
    ]
    assert sorted(rows, key=lambda row: (row[0], row[3])) == [
        (1, "Rome", None, day(1), day(3)),
        (1, "Rome", "A", day(3), day(5)),
        (1, "Bonn", "A", day(5), day(7)),
        (1, "Bonn", None, day(7), day(9)),
        (1, None, "B", day(12), None),
        (2, "Kiel", None, day(3), None),
        (3, None, "C", day(2), day(4)),
    ]
