"""Writes a change stream as Qlik would: rows of a change table, and messages.

It shares no code with the macros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from qlik_messages import Column, avro_message, column, data_schema, headers, json_message, mask
from reference import Change
from strategies import Stream

HEADER = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__change_mask": "binary",
    "header__stream_position": "string",
    "header__operation": "string",
    "header__transaction_id": "string",
    "header__timestamp": "timestamp",
}
WORDS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE", "": "TRUNCATE"}
LETTERS = {"load": "I", "insert": "I", "update": "U", "delete": "D", "truncate": ""}
SEQ_TIME = datetime(2024, 1, 1, 12)  # what the places of `strategies` say
LANDING = {
    "key": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
QLIK_TYPES = {
    "string": "STRING",
    "int": "INT4",
    "bigint": "INT8",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "DATETIME",
}


def landed_rows(stream: Stream) -> list[dict[str, Any]]:
    """Write a stream as Qlik would: one row per change, and one more for each before-image."""
    rows = []
    for change in stream.distinct:
        if change.reject_reason is not None:
            continue
        letter = LETTERS[change.operation]
        image = change.before if change.operation == "delete" else change.after
        rows.append(_row(change, letter, image or {}, _mask(change, stream.columns)))
        if change.operation == "update" and change.before is not None:
            rows.append(_row(change, "B", change.before, b""))
    return rows


def as_staged(change: Change) -> Change:
    """Give a change the time that staging finds where Qlik's own is missing or a placeholder."""
    placeholder = change.changed_at is None or change.changed_at < datetime(1970, 1, 2)
    if placeholder and change.operation != "load":
        return replace(change, changed_at=SEQ_TIME)
    return change


def as_masked(change: Change) -> Change:
    """Give an update the columns that its row in a change table does not tell.

    They are NULL, and the mask does not flag them. An insert tells all: what it lacks is NULL, also
    where it meets a row whose delete has not landed yet.
    """
    flagged = change.changed_columns
    if change.operation in ("insert", "load"):
        return replace(change, absent_columns=None)
    if change.operation != "update" or flagged is None:
        return change
    told = change.after or {}
    absent = [name for name, value in told.items() if value is None and name not in flagged]
    return replace(change, absent_columns=absent)


def landing(form: str) -> dict[str, str]:
    return {"value": "string" if form == "json" else "binary", **LANDING}


def qlik_column(name: str, spark_type: str, keys: Sequence[str]) -> Column:
    key = keys.index(name) + 1 if name in keys else 0
    if spark_type.startswith("decimal"):
        return column(name, "NUMERIC", 20, 2, key)
    return column(name, QLIK_TYPES[spark_type], key=key)


def landed_message(
    change: Change, stream: Stream, form: str, columns: list[Column], counter: int | None = None
) -> dict[str, Any]:
    """Write a change as Qlik would; `counter` is its number in its transaction."""
    operation = {"load": "REFRESH"}.get(change.operation, change.operation.upper())
    absent = change.absent_columns or []
    present = [name for name in stream.columns if name not in absent]
    changed = change.changed_columns if change.operation == "update" else None
    body = {
        "data": change.after,
        "beforeData": change.before,
        "headers": headers(
            operation,
            changeSequence=change.change_seq or None,
            timestamp=change.changed_at.isoformat() if change.changed_at else None,
            transactionId=change.transaction_id,
            changeMask=None if changed is None else mask(changed, stream.columns),
            columnMask=mask(present, stream.columns),
            transactionEventCounter=counter,
        ),
    }
    if form == "json":
        return {"value": json_message("DT", body)}
    for image in ("data", "beforeData"):
        values = body[image]
        if isinstance(values, dict):
            body[image] = {
                name: value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) else value
                for name, value in values.items()
            }
    return {"value": avro_message("DT", data_schema(columns), body, "v1")}


def _row(change: Change, letter: str, image: dict[str, Any], bits: bytes | None) -> dict[str, Any]:
    return {
        "header__change_seq": change.change_seq,
        "header__change_oper": letter,
        "header__change_mask": bits,
        "header__operation": WORDS[letter],
        "header__transaction_id": change.transaction_id,
        "header__timestamp": change.changed_at,
        **image,
    }


def _mask(change: Change, columns: list[str]) -> bytes | None:
    """Flag the changed columns; if the stream does not say, all captured ones."""
    if change.operation != "update":
        return None
    flagged = change.changed_columns
    if flagged is None:
        if not change.absent_columns:
            return None
        flagged = [name for name in columns if name not in change.absent_columns]
    bits = sum(1 << (len(HEADER) + columns.index(name)) for name in flagged)
    return bits.to_bytes(len(columns) // 8 + 2, "little").rstrip(b"\0")
