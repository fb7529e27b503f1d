"""Times that land as text: which are valid, which are not, and where that is reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

import dialect_netiq
import dialect_openedge
from conftest import Lake, Project, column_list, relation

MORNING = datetime(2024, 1, 1, 8)

# What every dialect reads: a time of day alone would be one of today.
TEXTS: dict[str | None, datetime | None] = {
    "2024-01-01 08:00:00": MORNING,
    "2024-01-01T08:00:00.5": datetime(2024, 1, 1, 8, 0, 0, 500000),
    "10:00:00": None,
    "T10:00": None,
    " 10:00": None,
    "2024": datetime(2024, 1, 1),
    "202401": None,
    "080000": None,
    "yesterday": None,
    None: None,
}
# What Db2 writes itself, with as many digits of the second as its type has.
DB2_TEXTS: dict[str | None, datetime | None] = {
    **TEXTS,
    "2024-01-01-08.00.00": MORNING,
    "2024-01-01-08.00.00.": MORNING,
    "2024-01-01-08.00.00.000000": MORNING,
    " 2024-01-01-08.00.00.5 ": datetime(2024, 1, 1, 8, 0, 0, 500000),
    "2024-01-01-08.00.00.123456789012": datetime(2024, 1, 1, 8, 0, 0, 123456),
    "08.00.00": None,
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("landed_times")


def numbered(texts: dict[str | None, datetime | None]) -> list[tuple[int, str | None]]:
    return list(enumerate(texts, start=1))


def test_text_of_a_qlik_change_table(project: Project, lake: Lake) -> None:
    """The time in change_seq takes its place, if it is one: the hour 24 is none."""
    columns = {
        "header__change_seq": "string",
        "header__change_oper": "string",
        "header__timestamp": "string",
        "id": "int",
    }
    rows = [
        {
            "header__change_seq": f"{begin}{number:025d}",
            "header__change_oper": "I",
            "header__timestamp": text,
            "id": number + shift,
        }
        for shift, begin in [(0, "2024010112"), (100, "2024010124")]
        for number, text in numbered(TEXTS)
    ]
    lake.create("times__ct", columns, rows)
    sql = project.sql(f"qlik_change_table({relation('times__ct')}, unique_key=['id'])")
    found = {row["after"]["id"]: row for row in lake.rows(sql)}
    unknown = "changed_at is unknown: neither timestamp nor change_seq has it"
    for number, text in numbered(TEXTS):
        at = TEXTS[text]
        noon, no_hour = found[number], found[number + 100]
        assert (noon["changed_at"], noon["warnings"]) == (
            (at, None)
            if at
            else (datetime(2024, 1, 1, 12), ["changed_at is taken from change_seq"])
        )
        assert (no_hour["changed_at"], no_hour["warnings"]) == (
            (at, None) if at else (None, [unknown])
        )


def test_text_of_a_logmarker(project: Project, lake: Lake) -> None:
    place = {"IBMSNAP_COMMITSEQ": "binary", "IBMSNAP_INTENTSEQ": "binary"}
    columns = {**place, "IBMSNAP_OPERATION": "string", "IBMSNAP_LOGMARKER": "string", "id": "int"}
    rows: list[dict[str, Any]] = []
    for number, text in numbered(DB2_TEXTS):
        sequence = number.to_bytes(16, "big")
        rows.append({"IBMSNAP_COMMITSEQ": sequence, "IBMSNAP_INTENTSEQ": sequence})
        rows[-1] |= {"IBMSNAP_OPERATION": "I", "IBMSNAP_LOGMARKER": text, "id": number}
    lake.create("times_ccd", columns, rows)
    lake.create("times_cd", {k: v for k, v in columns.items() if k != "IBMSNAP_LOGMARKER"}, rows)
    lake.create("times_uow", {"IBMSNAP_COMMITSEQ": "binary", "IBMSNAP_LOGMARKER": "string"}, rows)
    unknown = "changed_at is unknown: neither IBMSNAP_LOGMARKER nor IBMSNAP_UOW has it"
    calls = [relation("times_ccd"), f"{relation('times_cd')}, uow={relation('times_uow')}"]
    for call in calls:
        sql = project.sql(f"db2_change_data({call}, unique_key=['id'])")
        found = {row["after"]["id"]: row for row in lake.rows(sql)}
        for number, text in numbered(DB2_TEXTS):
            at = DB2_TEXTS[text]
            assert found[number]["changed_at"] == at, text
            assert found[number]["warnings"] == (None if at else [unknown]), text


def test_text_of_a_text_index_log(project: Project, lake: Lake) -> None:
    rows = [{"OPERATION": 0, "TIME": text, "PK01": no} for no, text in numbered(DB2_TEXTS)]
    lake.create("times_log", {"OPERATION": "int", "TIME": "string", "PK01": "int"}, rows)
    lake.create("times_base", {"no": "int"}, [{"no": no} for no, _ in numbered(DB2_TEXTS)])
    sql = project.sql(
        f"db2_text_log({relation('times_log')}, unique_key=['no'], base={relation('times_base')})"
    )
    changes = lake.rows(sql)
    assert sorted(row["changed_at"] for row in changes if row["reject_reason"] is None) == sorted(
        at for at in DB2_TEXTS.values() if at
    )
    reasons = {f"no TIME: {text or 'NULL'}" for text, at in DB2_TEXTS.items() if at is None}
    assert {row["reject_reason"] for row in changes} == {None, *reasons}


def test_text_of_an_openedge_time_stamp(project: Project, lake: Lake) -> None:
    texts: dict[str | None, datetime | None] = {
        **TEXTS,
        "2024-03-01 10:00:00:123 + 02:00": datetime(2024, 3, 1, 8, 0, 0, 123000),
        "10:00:00:123 + 02:00": None,
    }
    columns = {**dialect_openedge.CHANGE_COLUMNS, "_Time-Stamp": "string", "id": "int"}
    rows = [
        {"_Change-Sequence": number, "_Operation": 1, "_Time-Stamp": text, "id": number}
        for number, text in numbered(texts)
    ]
    lake.create("times__cdc", columns, rows)
    sql = project.sql(f"openedge_change_table({relation('times__cdc')}, unique_key=['id'])")
    found = {row["after"]["id"]: row for row in lake.rows(sql)}
    for number, text in numbered(texts):
        at = texts[text]
        assert found[number]["changed_at"] == at, text
        unread = "_Time-Stamp is missing or cannot be read" in (found[number]["warnings"] or [])
        assert unread == (at is None), text


def test_text_of_an_event_time(project: Project, lake: Lake) -> None:
    rows = [
        {
            "record_id": str(number),
            "status": "N",
            "event_type": "1",
            "event_time": text,
            "table_name": "usr",
            "table_key": f"id={number}",
            "column_name": "name",
            "new_value": "a",
        }
        for number, text in numbered(TEXTS)
    ]
    lake.create("times_usr_log", dict.fromkeys(dialect_netiq.LOG, "string"), rows)
    columns = column_list(id="int", name="string")
    sql = project.sql(
        f"netiq_event_log({relation('times_usr_log')}, unique_key=['id'], table='usr',"
        f" columns={columns})"
    )
    changes = lake.rows(sql)
    assert sorted(row["changed_at"] for row in changes if row["reject_reason"] is None) == sorted(
        at for at in TEXTS.values() if at
    )
    reasons = {
        "event_time is no time: " + (f'"{text}"' if text else "NULL")
        for text, at in TEXTS.items()
        if at is None
    }
    assert {row["reject_reason"] for row in changes} == {None, *reasons}
