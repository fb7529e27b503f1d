"""Writes a change stream as Debezium's PostgreSQL connector would: JSON messages on Kafka.

It shares no code with the macro. Every other message has its schema beside it. A transaction has
later places in the log the earlier it commits, so only the last commit before it gives the order.
A key change is a delete, a tombstone and an insert, linked by headers. An unknown text is the
placeholder; an unknown value of another type is left out, as by a column list that was shorter.

What the format cannot carry: nothing that a stream here holds.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from reference import Change, Row
from strategies import Stream

LANDING = {"key": "string", "value": "string", "headers": "map<string,string>"}
PLACEHOLDER = "__debezium_unavailable_value"
_EPOCH = datetime(1970, 1, 1)


def columns_of(stream: Stream) -> list[dict[str, str]]:
    """Give the columns as the macro takes them; PostgreSQL's times have microseconds."""
    return [
        {"name": name, "type": f"{kind}(6)" if kind.startswith("timestamp") else kind}
        for name, kind in ((name, stream.types[name]) for name in stream.columns)
    ]


def messages(stream: Stream) -> list[Row]:
    """Write the messages of a stream."""
    rows: list[Row] = []
    commit, number = 0, 0
    transaction: str | None = None
    changes = sorted(stream.changes, key=lambda change: change.change_seq)
    for place, change in enumerate(changes):
        if change.operation != "load" and change.transaction_id != transaction:
            commit, number, transaction = commit + 1, 0, change.transaction_id
        number += 1
        lsn = 2**40 - commit * 10_000 + number
        micros = _since_1970(change.changed_at or datetime(2023, 1, 1))
        source = {
            "connector": "postgresql",
            "ts_ms": micros // 1000,
            "ts_us": micros,
            "snapshot": "true" if change.operation == "load" else "false",
            "sequence": json.dumps([str(1000 + commit) if commit > 1 else None, str(lsn)]),
            "schema": "public",
            "table": "t",
            "txId": change.transaction_id,
            "lsn": lsn,
        }
        for key, value, headers in _written(change, stream):
            if value is not None:
                value = {**value, "source": source, "ts_ms": 1709251200000 + place}
            if value is not None and place % 2:
                value = {"schema": {"type": "struct", "optional": False}, "payload": value}
            rows.append(
                {
                    "key": json.dumps({"schema": None, "payload": key} if place % 2 else key),
                    "value": None if value is None else json.dumps(value),
                    "headers": headers,
                }
            )
    return rows


def _written(change: Change, stream: Stream) -> list[tuple[Row, Row | None, dict[str, str] | None]]:
    """Give key, envelope and headers of each message of a change."""
    before, after = (
        _json(change.before, [], stream),
        _json(change.after, change.absent_columns or [], stream),
    )
    old, new = _key(before, stream), _key(after, stream)
    envelope: Row = {"op": change.operation[0], "before": before, "after": after}
    if change.operation == "truncate":
        return [({}, {"op": "t", "before": None, "after": None}, None)]
    if change.operation == "load":
        return [(new, {**envelope, "op": "r"}, None)]
    if change.operation == "insert":
        return [(new, {**envelope, "op": "c"}, None)]
    if change.operation == "delete":
        return [(old, envelope, None), (old, None, None)]
    if before is None or old == new:
        return [(new, envelope, None)]
    return [
        (old, {**envelope, "op": "d", "after": None}, {"__debezium.newkey": json.dumps(new)}),
        (old, None, None),
        (new, {**envelope, "op": "c", "before": None}, {"__debezium.oldkey": json.dumps(old)}),
    ]


def _key(row: Row | None, stream: Stream) -> Row:
    return {name: row[name] for name in stream.unique_key} if row else {}


def _json(row: Row | None, absent: list[str], stream: Stream) -> Row | None:
    if row is None:
        return None
    written = {}
    for name, value in row.items():
        if name not in absent:
            written[name] = _value(value, stream.types[name])
        elif stream.types[name] == "string":
            written[name] = PLACEHOLDER
    return written


def _value(value: Any, kind: str) -> Any:
    if isinstance(value, datetime):
        return _since_1970(value)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(int(kind.split(",")[1].rstrip(")"))))
        size = unscaled.bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    return value


def _since_1970(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
