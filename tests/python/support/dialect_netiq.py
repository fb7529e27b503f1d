"""Writes changes as the triggers of an Identity Manager event log would: one row a field.

Every change must hold whole rows. Updates that change the key, and neighbouring updates of one row
that have one time, are nothing that an event log can carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reference import Change, Row

LOG = {
    "record_id": "bigint",
    "table_key": "string",
    "status": "string",
    "event_type": "int",
    "event_time": "timestamp",
    "perpetrator": "string",
    "table_name": "string",
    "column_name": "string",
    "old_value": "string",
    "new_value": "string",
}
TABLE = "items"
INSERT_FIELD, UPDATE_FIELD, UPDATE_FIELD_NO_OLD, DELETE_ROW = 1, 2, 3, 4
SPECIAL = set(",;'+\"=\\<>")


def log_rows(changes: Sequence[Change], unique_key: Sequence[str]) -> list[Row]:
    """Write changes as rows of the event log, in the order of their places."""
    rows: list[Row] = []
    for change in sorted(changes, key=lambda change: change.change_seq):
        image = change.before if change.operation == "delete" else change.after
        assert image is not None
        for event in _events(change, unique_key):
            rows.append(
                {
                    "record_id": len(rows) + 1,
                    "table_key": _key([(name, image[name]) for name in unique_key]),
                    "status": "N",
                    "event_time": change.changed_at,
                    "table_name": TABLE.upper(),
                    **event,
                }
            )
    return rows


def _events(change: Change, unique_key: Sequence[str]) -> list[Row]:
    if change.operation == "delete":
        return [{"event_type": DELETE_ROW}]
    before, after = change.before or {}, change.after
    assert after is not None
    fields = [name for name in after if name not in unique_key]
    if change.operation == "insert":
        return [
            {"event_type": INSERT_FIELD, "column_name": name, "new_value": _text(after[name])}
            for name in fields
        ]
    assert change.operation == "update", change.operation
    # Types 2 and 3 say the same of what comes after; which a trigger writes is a matter of taste.
    kind = UPDATE_FIELD if change.change_seq[-1] in "02468" else UPDATE_FIELD_NO_OLD
    return [
        {
            "event_type": kind,
            "column_name": name.upper(),
            "old_value": _text(before[name]) if kind == UPDATE_FIELD else None,
            "new_value": _text(after[name]),
        }
        for name in fields
        if before[name] != after[name]
    ]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _key(parts: Sequence[tuple[str, Any]]) -> str:
    return "+".join(f"{name}={_in_key(str(value))}" for name, value in parts)


def _in_key(value: str) -> str:
    if value and value == value.strip() and not SPECIAL & set(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
