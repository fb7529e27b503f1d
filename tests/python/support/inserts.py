"""An insert in each dialect: a landed row with a number for its place and its key, and a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import dialect_sqlserver
from conftest import column_list, relation
from dialect_db2 import DB2_HEADER
from dialect_openedge import CHANGE_COLUMNS
from qlik_messages import headers, json_message, mask
from reference import Row


class Dialect(NamedTuple):
    """The columns of a landed table, a row of it, and what else its macro is told."""

    columns: dict[str, str]
    row: Callable[..., Row]
    arguments: str = ""


def call(macro: str, table: str) -> str:
    """Write the call that reads a table of a macro's dialect."""
    return f"{macro}({relation(table)}, unique_key=['id']{DIALECTS[macro].arguments})"


def _place(number: int, at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S}00{number:019}"


def _change_row(number: int, at: datetime, time: datetime | None = None) -> Row:
    """`time` is what the header says in place of the time in the place."""
    return {
        "header__change_seq": _place(number, at),
        "header__change_oper": "I",
        "header__timestamp": time or at,
        "id": number,
    }


def _message(number: int, at: datetime, time: datetime | None = None) -> Row:
    head = headers(
        "INSERT",
        changeSequence=_place(number, at),
        timestamp=f"{time or at:%Y-%m-%dT%H:%M:%S}",
        changeMask=mask(["id"], ["id"]),
        columnMask=mask(["id"], ["id"]),
    )
    body = {"data": {"id": number}, "beforeData": None, "headers": head}
    return {"value": json_message("DT", body)}


def _db2_row(number: int, at: datetime) -> Row:
    return {
        "IBMSNAP_COMMITSEQ": number.to_bytes(10, "big"),
        "IBMSNAP_INTENTSEQ": number.to_bytes(10, "big"),
        "IBMSNAP_OPERATION": "I",
        "IBMSNAP_LOGMARKER": at,
        "id": number,
    }


def _openedge_row(number: int, at: datetime) -> Row:
    return {"_Change-Sequence": number, "_Operation": 1, "_Time-Stamp": at, "id": number}


def _sqlserver_row(number: int, at: datetime) -> Row:
    place = number.to_bytes(10, "big")
    return {"__$start_lsn": place, "__$seqval": place, "__$operation": 2, "id": number}


def _dms_row(number: int, at: datetime) -> Row:
    return {"Op": "I", "id": number, "change_seq": f"{number:035d}"}


DIALECTS = {
    "qlik_change_table": Dialect(
        {
            "header__change_seq": "string",
            "header__change_oper": "string",
            "header__timestamp": "timestamp",
            "id": "int",
        },
        _change_row,
    ),
    "qlik_messages": Dialect({"value": "string"}, _message, f", columns={column_list(id='int')}"),
    "db2_change_data": Dialect(
        {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "int"}, _db2_row
    ),
    "openedge_change_table": Dialect({**CHANGE_COLUMNS, "id": "int"}, _openedge_row),
    "sqlserver_change_table": Dialect({**dialect_sqlserver.HEADER, "id": "int"}, _sqlserver_row),
    "dms_changes": Dialect({"Op": "string", "id": "int", "change_seq": "string"}, _dms_row),
}
