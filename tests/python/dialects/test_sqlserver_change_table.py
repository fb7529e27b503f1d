"""Rows of SQL Server's change tables in, changes and history out, whatever arrives when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import Lake, Project, relation
from deliveries import count_rows, run_in_batches_and_at_once
from dialect_sqlserver import HEADER, LSN_TIMES
from reference import Row

COLUMNS = {**HEADER, "id": "string", "value": "int", "__$command_id": "int"}
EARLIER = {**HEADER, "id": "string"}
TABLES = ("stg_parts", "parts_history")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("sqlserver_change_table")


def row(
    commit: int, place: int, operation: int, key: str | None, value: int | None, command: int = 1
) -> Row:
    return {
        "__$start_lsn": commit.to_bytes(10, "big"),
        "__$seqval": place.to_bytes(10, "big"),
        "__$operation": operation,
        "__$update_mask": b"\x02" if operation > 2 else b"\x03",
        "id": key,
        "value": value,
        "__$command_id": command,
    }


def time_of(commit: int) -> Row:
    return {"start_lsn": commit.to_bytes(10, "big"), "tran_end_time": datetime(2024, 1, commit)}


BATCHES: list[list[Row]] = [
    [
        *(row(10, number, 2, key, 0, number) for number, key in enumerate("abcdefgh", 1)),
        row(12, 1, 3, "a", 0),  # its row 4 comes later
        row(12, 2, 1, "b", 0, 1),  # its insert does
        row(12, 3, 1, "c", 0, 1),  # a key change, until it is seen that others share its place
        row(12, 3, 2, "c2", 0, 2),
        row(12, 4, 4, "d", 1),  # its row 3 comes later
        row(13, 1, 2, "moved", 0, 2),  # the old key comes later
        {**row(13, 2, 2, "nowhere", 0), "__$seqval": None},
    ],
    [
        row(12, 1, 4, "a", 1),
        row(12, 2, 2, "b", 1, 2),
        row(12, 3, 1, "e", 0, 0),
        row(12, 3, 2, "c", 5, 9),
        row(12, 4, 3, "d", 0),
        row(10, 1, 2, "a", 0, 1),
        row(13, 1, 1, "f", 0, 1),
    ],
    [
        row(11, 1, 4, "g", 1),  # older than what was read, and its other row comes too
        row(11, 1, 3, "g", 0),
        row(14, 1, 1, "h", 0),
        row(14, 2, 2, None, 0),
        {**row(13, 2, 2, "nowhere", 0), "__$seqval": None},
    ],
]
TIMES = [[time_of(10), time_of(13)], [time_of(12), time_of(9)], [time_of(11), time_of(14)]]


def models(project: Project, arguments: str) -> None:
    project.stream(
        "stg_parts",
        f"sqlserver_change_table({relation('parts_ct')}, unique_key=['id'],"
        f" lsn_times={relation('parts_times')}{arguments})",
    )
    project.history("parts_history", "stg_parts")


def told(staged: list[Row], after: int) -> list[tuple[Any, ...]]:
    """Give key before and after, operation, values and copies of the changes behind a commit."""
    found = []
    for change in staged:
        if change["reject_reason"] is None and change["transaction_id"] > f"{after:020X}":
            old, new = change["before"] or {}, change["after"] or {}
            found.append(
                (
                    int(change["transaction_id"], 16),
                    change["operation"],
                    *(old.get("id"), old.get("value"), new.get("id"), new.get("value")),
                    change["source_rows"],
                )
            )
    return sorted(found, key=repr)


@pytest.mark.minutes
def test_three_batches_give_what_a_full_refresh_gives(project: Project, lake: Lake) -> None:
    models(project, "")
    first, _, last = run_in_batches_and_at_once(
        *(project, lake, TABLES),
        [
            {"parts_ct": (COLUMNS, rows), "parts_times": (LSN_TIMES, times)}
            for rows, times in zip(BATCHES, TIMES, strict=True)
        ],
    )
    staged = last["stg_parts"]
    assert told(first["stg_parts"], 10) == [
        (12, "delete", "b", 0, None, None, 1),
        (12, "update", "c", 0, "c2", 0, 2),
        (12, "update", None, None, "d", 1, 1),
        (13, "insert", None, None, "moved", 0, 1),
    ]
    assert told(staged, 10) == [
        (11, "update", "g", 0, "g", 1, 2),
        (12, "delete", "e", 0, None, None, 1),
        (12, "insert", None, None, "c2", 0, 1),
        (12, "update", "a", 0, "a", 1, 2),
        (12, "update", "b", 0, "b", 1, 2),
        (12, "update", "c", 0, "c", 5, 2),
        (12, "update", "d", 0, "d", 1, 2),
        (13, "update", "f", 0, "moved", 0, 2),
        (14, "delete", "h", 0, None, None, 1),
    ]
    assert count_rows(staged) == sum(map(len, BATCHES))
    assert {change["changed_at"] for change in staged if change["transaction_id"]} == {
        datetime(2024, 1, commit) for commit in (10, 11, 12, 13, 14)
    }
    assert sorted(change["reject_reason"] for change in staged if change["reject_reason"]) == [
        "NULL in the key (id)",
        f"no place in the log (start_lsn, seqval, command): {13:020X} 1",
    ]


@pytest.mark.minutes
def test_what_the_later_instance_brings_fills_the_change(project: Project, lake: Lake) -> None:
    models(project, f", earlier={relation('parts_earlier_ct')}")
    rows = [row(10, 1, 2, "a", 1), row(11, 1, 2, "b", 2), row(12, 1, 1, "b", 2)]
    lake.create("parts_times", LSN_TIMES, [time_of(commit) for commit in (10, 11, 12)])
    lake.create("parts_earlier_ct", EARLIER, rows)
    first, last = run_in_batches_and_at_once(
        *(project, lake, TABLES),
        [{"parts_ct": (COLUMNS, [])}, {"parts_ct": (COLUMNS, rows[1:])}],
    )
    assert told(first["stg_parts"], 0) == [
        (10, "insert", None, None, "a", None, 1),
        (11, "insert", None, None, "b", None, 1),
        (12, "delete", "b", None, None, None, 1),
    ]
    assert told(last["stg_parts"], 0) == [
        (10, "insert", None, None, "a", None, 1),
        (11, "insert", None, None, "b", 2, 2),
        (12, "delete", "b", 2, None, None, 2),
    ]
    absent = {
        change["after"]["id"]: change["absent_columns"]
        for change in last["stg_parts"]
        if change["after"]
    }
    assert absent == {"a": ["value"], "b": None}


def test_the_earlier_instance_may_have_names_in_other_capitals(
    project: Project, lake: Lake
) -> None:
    lake.create("capitals_ct", COLUMNS, [row(11, 1, 2, "b", 2)])
    earlier = {"VALUE" if name == "value" else name: kind for name, kind in COLUMNS.items()}
    lake.create("capitals_earlier_ct", earlier, [{**row(10, 1, 4, "a", 1), "VALUE": 1}])
    sql = project.sql(
        f"sqlserver_change_table({relation('capitals_ct')}, unique_key=['id'],"
        f" earlier={relation('capitals_earlier_ct')})"
    )
    found = lake.rows(
        "select after.id, after.value, changed_columns,"
        " coalesce(size(absent_columns), 0) > 0 as lacks_columns"
        f" from ({sql}) order by change_seq"
    )
    assert [tuple(change.values()) for change in found] == [
        ("a", 1, ["value"], False),
        ("b", 2, None, False),
    ]


def test_masks_do_not_count_columns_that_a_query_puts_before_the_header(
    project: Project, lake: Lake
) -> None:
    """`select sys.fn_cdc_map_lsn_to_time(__$start_lsn) as CommitDateTime, …, C.*`."""
    added = {"CommitDateTime": "timestamp", "Operation": "string"}
    data = {"ApplId": "int", "Status": "string", "Note": "string"}
    rows = [
        {
            "CommitDateTime": datetime(2024, 1, 11),
            "Operation": image,
            "__$start_lsn": (11).to_bytes(10, "big"),
            "__$seqval": (1).to_bytes(10, "big"),
            "__$operation": operation,
            "__$update_mask": b"\x04",
            "ApplId": 1,
            "Status": "new",
            "Note": note,
        }
        for image, operation, note in (("BU", 3, None), ("AU", 4, "x"))
    ]
    lake.create("queried_ct", {**added, **HEADER, **data, "__$lsn_period": "string"}, rows)
    call = f"sqlserver_change_table({relation('queried_ct')}, ['ApplId'], columns={list(data)})"
    [found] = lake.rows(
        f"select `before`, `after`, changed_columns, size(warnings) as n from ({project.sql(call)})"
    )
    assert found == {
        "before": {"ApplId": 1, "Status": "new", "Note": None},
        "after": {"ApplId": 1, "Status": "new", "Note": "x"},
        "changed_columns": ["Note"],
        "n": 1,  # of the time, for want of lsn_times
    }
