"""Messages of a schema registry, written with fastavro as Kafka Connect's Avro converter does."""

from __future__ import annotations

import io
from typing import Any

import fastavro


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """Write a message: a zero byte, the id of its schema in four bytes, the value in Avro."""
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + target.getvalue()


def logical(kind: str, name: str, **further: Any) -> dict[str, Any]:
    """Return the type of a field that has a name in Kafka Connect."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **further}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """Return the type of a decimal."""
    return logical(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        scale=scale,
        precision=precision,
        logicalType="decimal",
    )


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a record. A type that may be NULL has NULL as its default, as Kafka Connect writes.

    Where the database has a default, NULL is the second type.
    """
    return {
        "type": "record",
        "name": name,
        "namespace": "server.public.t",
        "fields": [
            {"name": field, "type": kind} | _default(kind) for field, kind in fields.items()
        ],
        "connect.name": f"server.public.t.{name}",
    }


def _default(kind: Any) -> dict[str, Any]:
    first = kind[0] if isinstance(kind, list) else None
    if isinstance(first, dict) and "connect.default" in first:
        return {"default": first["connect.default"]}
    return {"default": None} if first == "null" else {}


def envelope(row: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a change, from the types of the row and of `source`."""
    return record(
        "Envelope",
        {
            "before": ["null", record("Value", row)],
            "after": ["null", "Value"],
            "source": record("Source", source),
            "transaction": ["null", record("block", {"id": "string", "total_order": "long"})],
            "op": "string",
            "ts_ms": ["null", "long"],
        },
    )
