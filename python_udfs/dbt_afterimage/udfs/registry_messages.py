"""Converts Avro messages of a schema registry to the JSON of Kafka Connect's JSON converter.

Pure functions without a Spark import; `registry` gives them their SQL names.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from dbt_afterimage.udfs import avro
from dbt_afterimage.udfs.avro import Convert, MessageError

# The magic byte 0 and the id of the schema in four bytes.
FRAME_BYTES = 5


def decode_registry_message(
    value: bytes | bytearray | memoryview | None, schema: str | None
) -> dict[str, str | None] | None:
    """Open a message as the Avro converter of Kafka Connect writes it.

    The JSON is that of Kafka Connect's JSON converter, except where that leaves a doubt. Decimals
    are written in full; whole ones are numbers. Dates and times with a date are ISO 8601, those in
    UTC with a Z. The schema says what their numbers count. PostgreSQL's infinity is `infinity`.

    Args:
        value: The bytes of the message.
        schema: The schema of its id in the registry, as JSON.

    Returns:
        `message`: the message as JSON. `None` for a NULL value or a NULL schema.

    Raises:
        MessageError: The bytes are not such a message, or do not fit their schema.

    Example:
        >>> schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}'
        >>> decode_registry_message(bytes.fromhex("00 00000007 04 6869"), schema)
        {'message': '{"a": "aGk="}'}
    """
    if value is None or schema is None:
        return None
    data = avro.checked_bytes(value)
    if len(data) < FRAME_BYTES or data[0] != 0:
        raise MessageError("does not begin with a zero byte and the id of a schema")
    return {"message": avro.read_payload(data[FRAME_BYTES:], schema, _connect_json)}


def _connect_json(kind: str, schema: Mapping[str, Any]) -> Convert | None:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        in_full = avro.decimal_text(schema)
        # A whole number as text could be Base64.
        return in_full if schema.get("scale") else lambda found: int(in_full(found))
    counted = _COUNTED.get(schema.get("connect.name", logical))
    if counted is not None and kind in ("int", "long"):
        return counted
    return _PLAIN.get(kind)


_PLAIN: dict[str, Convert] = {
    "float": avro.number_text,
    "double": avro.number_text,
    "bytes": lambda found: base64.b64encode(found).decode(),
    "fixed": lambda found: base64.b64encode(found).decode(),
}


def _counting(unit: str, as_text: Convert, *, last: set[int], first: set[int]) -> Convert:
    """Return what writes a number as text; PostgreSQL's infinities are `last` and `first`."""

    def text(number: int) -> str:
        if number in last or number in first:
            return "infinity" if number in last else "-infinity"
        try:
            return str(as_text(number))
        except (OverflowError, ValueError):
            return f"{number} {unit} since 1970"

    return text


_DAYS = _counting(
    "days",
    avro.day_text,
    # The first one is that of a change. Those of a snapshot depend on the connector's time zone.
    last={-2147472692, -622191235, -622191234, -622191233},
    first={-2147472691, -625821273, -625821272, -625821271},
)
_MILLIS = _counting(
    "milliseconds",
    lambda millis: avro.moment_text(millis * 1000) + "Z",
    last={9223372036825200},
    first={-9223372036832400},
)
_MICROS = _counting(
    "microseconds",
    lambda micros: avro.moment_text(micros) + "Z",
    last={9223372036825200000},
    first={-9223372036832400000},
)
_NANOS = _counting(
    "nanoseconds",
    lambda nanos: avro.moment_text(nanos // 1000) + "Z",
    last={2**63 - 1},
    first={-(2**63)},
)
# A time of day has no type in Spark, and stays a number.
_COUNTED: dict[Any, Convert] = {
    "io.debezium.time.Date": _DAYS,
    "org.apache.kafka.connect.data.Date": _DAYS,
    "date": _DAYS,
    "io.debezium.time.Timestamp": _MILLIS,
    "org.apache.kafka.connect.data.Timestamp": _MILLIS,
    "timestamp-millis": _MILLIS,
    "io.debezium.time.MicroTimestamp": _MICROS,
    "timestamp-micros": _MICROS,
    "io.debezium.time.NanoTimestamp": _NANOS,
}
