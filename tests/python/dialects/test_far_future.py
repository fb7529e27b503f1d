"""A change dated far in the future, or with a placeholder time, does not stop later runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import SCHEMA, Lake, Project, column_list, relation
from dialect_db2 import DB2_HEADER
from dialect_openedge import CHANGE_COLUMNS
from qlik_messages import headers, json_message, mask

Row = dict[str, Any]
FAR = datetime(2099, 1, 1)
PLACEHOLDER = datetime(1970, 1, 1)


def place(number: int, at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S}00{number:019}"


def change_row(number: int, at: datetime, time: datetime | None = None) -> Row:
    return {
        "header__change_seq": place(number, at),
        "header__change_oper": "I",
        "header__timestamp": time or at,
        "id": number,
    }


def message(number: int, at: datetime, time: datetime | None = None) -> Row:
    given_headers = headers(
        "INSERT",
        changeSequence=place(number, at),
        timestamp=f"{time or at:%Y-%m-%dT%H:%M:%S}",
        changeMask=mask(["id"], ["id"]),
        columnMask=mask(["id"], ["id"]),
    )
    return {
        "value": json_message(
            "DT", {"data": {"id": number}, "beforeData": None, "headers": given_headers}
        )
    }


def db2_row(number: int, at: datetime) -> Row:
    return {
        "IBMSNAP_COMMITSEQ": number.to_bytes(10, "big"),
        "IBMSNAP_INTENTSEQ": number.to_bytes(10, "big"),
        "IBMSNAP_OPERATION": "I",
        "IBMSNAP_LOGMARKER": at,
        "id": number,
    }


def openedge_row(number: int, at: datetime) -> Row:
    return {"_Change-Sequence": number, "_Operation": 1, "_Time-Stamp": at, "id": number}


QLIK_COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "int",
}
DIALECTS: dict[str, tuple[str, dict[str, str], Callable[..., Row]]] = {
    "qlik_change_table": ("", QLIK_COLUMNS, change_row),
    "qlik_messages": (f", columns={column_list(id='int')}", {"value": "string"}, message),
    "db2_change_data": ("", {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "int"}, db2_row),
    "openedge_change_table": ("", {**CHANGE_COLUMNS, "id": "int"}, openedge_row),
}


class Staging:
    """A staging model of one dialect, run after run."""

    def __init__(self, macro: str, project: Project, lake: Lake) -> None:
        arguments, self._columns, self.row = DIALECTS[macro]
        self._table = f"far_{macro}"
        self._project, self._lake = project, lake
        project.stream(
            f"stg_{self._table}",
            f"{macro}({relation(self._table)}, unique_key=['id']{arguments})",
        )
        lake.create(self._table, self._columns, [])

    def take_in(self, rows: list[Row], *arguments: str) -> list[Row]:
        """Land rows, run, and return what is staged then."""
        self._lake.append(self._table, self._columns, rows)
        self._project.dbt("run", *arguments)
        return self._lake.rows(f"select * from {SCHEMA}.stg_{self._table} order by after.id")


@pytest.fixture
def staging(macro: str, make_project: Callable[[str], Project], lake: Lake) -> Staging:
    return Staging(macro, make_project(macro), lake)


@pytest.mark.minutes
@pytest.mark.parametrize("macro", list(DIALECTS))
def test_a_change_dated_in_the_far_future_hides_no_later_change(staging: Staging) -> None:
    row = staging.row
    first = [row(1, datetime(2024, 1, 1)), row(2, datetime(2024, 1, 9)), row(7, FAR)]
    staging.take_in(first, "--full-refresh")
    # The first of the two comes late.
    later = [row(3, datetime(2024, 1, 8)), row(4, datetime(2024, 1, 10))]
    staged = staging.take_in(later)
    assert [change["after"]["id"] for change in staged] == [1, 2, 3, 4, 7]
    staged = staging.take_in([row(5, datetime(2024, 1, 11))])
    assert [change["after"]["id"] for change in staged] == [1, 2, 3, 4, 5, 7]


@pytest.mark.minutes
@pytest.mark.parametrize("macro", ["qlik_change_table", "qlik_messages"])
def test_a_placeholder_time_gives_way_to_the_real_one(staging: Staging) -> None:
    at, real = datetime(2024, 1, 1, 8), datetime(2024, 1, 1, 8, 0, 5)
    [change] = staging.take_in([staging.row(1, at, PLACEHOLDER)], "--full-refresh")
    assert (change["changed_at"], len(change["warnings"])) == (at, 1)
    staged = staging.take_in([staging.row(1, at, real)])
    [change] = [change for change in staged if change["reject_reason"] is None]
    assert (change["changed_at"], change["warnings"]) == (real, None)
    assert sum(change["source_rows"] for change in staged) == 2
