"""Writes a change stream as Debezium's PostgreSQL connector would: messages on Kafka, JSON or Avro.

It shares no code with the macro. Every other JSON message has its schema beside it; in Avro each
set of columns has a schema of its own in the registry. A transaction has later places in the log
the earlier it commits, so only the last commit before it gives the order.
A key change is a delete, a tombstone and an insert, linked by headers. An unknown text is the
placeholder; an unknown value of another type is left out, as by a column list that was shorter.
Whole numbers have a default in the database. The converter is told to keep NULL in them: then the
kind of snapshot is NULL outside of snapshots, too.

What the format cannot carry: nothing that a stream here holds.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from reference import Change, Row
from registry_messages import decimal, envelope, framed, logical, record
from strategies import Stream

LANDING = {"key": "string", "value": "string", "headers": "map<string,string>"}
AVRO_LANDING = {**LANDING, "key": "binary", "value": "binary"}
SCHEMAS = {"id": "int", "schema": "string"}
PLACEHOLDER = "__debezium_unavailable_value"
_EPOCH = datetime(1970, 1, 1)
# Writes a value of a type.
Write = Callable[[Any, str], Any]


def columns_of(stream: Stream) -> list[dict[str, str]]:
    """Give the columns as the macro takes them; PostgreSQL's times have microseconds."""
    return [
        {"name": name, "type": f"{kind}(6)" if kind.startswith("timestamp") else kind}
        for name, kind in ((name, stream.types[name]) for name in stream.columns)
    ]


def messages(stream: Stream) -> list[Row]:
    """Write the messages of a stream in JSON, as a connector does, but some with spaces."""
    rows: list[Row] = []
    for place, (key, value, headers) in enumerate(_envelopes(stream, _in_json)):
        if value is not None and place % 2:
            value = {"schema": {"type": "struct", "optional": False}, "payload": value}
        rows.append(
            {
                "key": json.dumps({"schema": None, "payload": key} if place % 2 else key),
                "value": None
                if value is None
                else json.dumps(value, separators=None if place % 8 == 4 else (",", ":")),
                "headers": headers,
            }
        )
    return rows


def avro_messages(stream: Stream) -> tuple[list[Row], list[Row]]:
    """Write the messages of a stream in Avro, and the schemas of the registry."""
    rows: list[Row] = []
    schemas: list[Any] = [
        record("Key", {name: _avro_type(name, stream) for name in stream.unique_key})
    ]
    for key, value, headers in _envelopes(stream, _in_avro):
        written = None
        if value is not None:
            names = value["after"] or value["before"] or {}
            schema = envelope({name: _avro_type(name, stream) for name in names}, _SOURCE)
            if schema not in schemas:
                schemas.append(schema)
            written = framed(schemas.index(schema) + 1, schema, {"transaction": None, **value})
        key_written = framed(1, schemas[0], key) if key else None
        rows.append({"key": key_written, "value": written, "headers": headers})
    return rows, [
        {"id": number, "schema": json.dumps(schema)} for number, schema in enumerate(schemas, 1)
    ]


_DEFAULT_FALSE = {"connect.default": "false"}
_SOURCE: dict[str, Any] = {
    "connector": "string",
    "ts_ms": "long",
    "ts_us": ["null", "long"],
    "snapshot": [logical("string", "io.debezium.data.Enum", **_DEFAULT_FALSE), "null"],
    "sequence": ["null", "string"],
    "schema": "string",
    "table": "string",
    "txId": ["null", "string"],
    "lsn": ["null", "long"],
}
_AVRO_TYPES: dict[str, Any] = {
    "bigint": "long",
    "date": logical("int", "io.debezium.time.Date"),
    "timestamp": logical("long", "io.debezium.time.MicroTimestamp"),
    "timestamp_ntz": logical("long", "io.debezium.time.MicroTimestamp"),
}


def _avro_type(name: str, stream: Stream) -> Any:
    kind = stream.types[name]
    if kind.startswith("decimal"):
        digits, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return ["null", decimal(int(digits), int(scale))]
    if kind in ("int", "bigint"):
        return [{"type": _AVRO_TYPES.get(kind, kind), "connect.default": 0}, "null"]
    return ["null", _AVRO_TYPES.get(kind, kind)]


def _envelopes(
    stream: Stream, write: Write
) -> Iterator[tuple[Row, Row | None, dict[str, str] | None]]:
    """Give key, envelope and headers of each message of a stream."""
    commit, number = 0, 0
    transaction: str | None = None
    changes = sorted(stream.changes, key=lambda change: change.change_seq)
    for place, change in enumerate(changes):
        if change.operation != "load" and change.transaction_id != transaction:
            commit, number, transaction = commit + 1, 0, change.transaction_id
        number += 1
        # A place in the log is before all commits from its own on, but not in their order.
        lsn = 2**40 - commit * 10_000 + number
        micros = _since_1970(change.changed_at or datetime(2023, 1, 1))
        source = {
            "connector": "postgresql",
            "ts_ms": micros // 1000,
            "ts_us": micros,
            "snapshot": "true" if change.operation == "load" else "false" if place % 2 else None,
            "sequence": json.dumps([str(2**40 + commit) if commit > 1 else None, str(lsn)]),
            "schema": "public",
            "table": "t",
            "txId": change.transaction_id,
            "lsn": lsn,
        }
        for key, value, headers in _written(change, stream, write):
            if value is not None:
                rows = {"before": value["before"], "after": value["after"]}
                at = 1709251200000 + place
                value = {**rows, "source": source, "op": value["op"], "ts_ms": at}
            yield key, value, headers


def _written(
    change: Change, stream: Stream, write: Write
) -> list[tuple[Row, Row | None, dict[str, str] | None]]:
    """Give key, envelope and headers of each message of a change."""
    before, after = (
        _row(change.before, [], stream, write),
        _row(change.after, change.absent_columns or [], stream, write),
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


def _row(row: Row | None, absent: list[str], stream: Stream, write: Write) -> Row | None:
    if row is None:
        return None
    written = {}
    for name, value in row.items():
        if name not in absent:
            written[name] = write(value, stream.types[name])
        elif stream.types[name] == "string":
            written[name] = PLACEHOLDER
    return written


def _in_avro(value: Any, kind: str) -> Any:
    if isinstance(value, datetime):
        return _since_1970(value)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return value


def _in_json(value: Any, kind: str) -> Any:
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(int(kind.split(",")[1].rstrip(")"))))
        size = unscaled.bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    return _in_avro(value, kind)


def _since_1970(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
