"""Converts messages on Kafka to the JSON that the staging models read.

Pure functions without a Spark import; `registry` gives them their SQL names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from typing import Any

from dbt_afterimage.udfs import avro
from dbt_afterimage.udfs.avro import Convert, MessageError

MAGIC = b"atMSG"


def decode_avro_message(
    value: bytes | bytearray | memoryview | None, data_schema: str | None = None
) -> dict[str, str | None] | None:
    """Open a Qlik message in the Avro format.

    The envelope (Qlik, "The Replicate envelope") is a record of magic (5 bytes), type, headers
    (null or a map), messageSchemaId, messageSchema (each null or a text) and message. The message
    is Avro again. Its schema is in messageSchema, or else in the dataSchema of the metadata message
    with this messageSchemaId.

    Args:
        value: The bytes of the message.
        data_schema: The Avro schema of the payload, as JSON. Without a schema here or in the
            envelope, only the envelope is read.

    Returns:
        `type` (`MD` for metadata, `DT` for data), `schema_id`, and `message`: the payload in
        Qlik's JSON format, every value a text (bytes in hex, decimals in full, dates and times in
        ISO 8601), or NULL without a schema. `None` for a NULL value.

    Raises:
        MessageError: The bytes are not such a message, or do not fit their schema. If they do not
            fit `data_schema`, `type` and `schema_id` are known.

    Example:
        >>> value = b"atMSG" + bytes.fromhex("04 4454 00 02 04 7631 00 06 04 6f6b")
        >>> schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
        >>> decode_avro_message(value, schema)
        {'type': 'DT', 'schema_id': 'v1', 'message': '{"a": "ok"}'}
    """
    if value is None:
        return None
    data = avro.checked_bytes(value)
    if not data.startswith(MAGIC):
        hint = ", as messages of a schema registry do" if data[:1] == b"\0" else ""
        raise MessageError(f"does not begin with atMSG, but with {data[:5].hex().upper()}{hint}")
    kind, schema_id, own_schema, payload = avro.read_whole(_read_envelope, data, "the envelope")
    envelope = {"type": kind, "schema_id": schema_id}
    schema = data_schema if own_schema is None else own_schema
    try:
        message = None if schema is None else avro.read_payload(payload, schema, _plain_texts)
    except MessageError as error:
        # What is read by a schema of its own is known as a whole, or not at all.
        raise MessageError(str(error), envelope if own_schema is None else None) from None
    return {**envelope, "message": message}


def _plain_texts(kind: str, schema: Mapping[str, Any]) -> Convert | None:
    # Qlik's pages have these names in capitals, Avro in small letters.
    logical = str(schema.get("logicalType")).lower()
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return avro.decimal_text(schema)
    return _LOGICAL.get((kind, logical), _PLAIN.get(kind))


_PLAIN: dict[str, Convert] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "long": str,
    "float": avro.number_text,
    "double": avro.number_text,
    "bytes": lambda found: found.hex().upper(),
    "fixed": lambda found: found.hex().upper(),
}


def _checked(as_text: Convert) -> Convert:
    def text(number: int) -> str:
        try:
            return str(as_text(number))
        except (OverflowError, ValueError):
            raise MessageError(f"{number} is no date or time of the years 1 to 9999") from None

    return text


def _time_text(micros: int) -> str:
    if not 0 <= micros < 86_400_000_000:
        raise ValueError
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    return time(minutes // 60, minutes % 60, seconds, micros).isoformat("microseconds")


_LOGICAL: dict[tuple[str, Any], Convert] = {
    ("int", "date"): _checked(avro.day_text),
    ("int", "time-millis"): _checked(lambda millis: _time_text(millis * 1000)),
    ("long", "time-micros"): _checked(_time_text),
    ("long", "timestamp-millis"): _checked(lambda millis: avro.moment_text(millis * 1000)),
    ("long", "timestamp-micros"): _checked(avro.moment_text),
    ("long", "local-timestamp-millis"): _checked(lambda millis: avro.moment_text(millis * 1000)),
    ("long", "local-timestamp-micros"): _checked(avro.moment_text),
}


def _read_envelope(data: bytes, position: int) -> tuple[tuple[str, Any, Any, bytes], int]:
    kind, position = avro.read_string(data, position + len(MAGIC))
    _, position = _ENVELOPE_HEADERS.read(data, position)
    schema_id, position = _ENVELOPE_TEXT.read(data, position)
    schema, position = _ENVELOPE_TEXT.read(data, position)
    payload, position = avro.read_bytes(data, position)
    return (kind, schema_id, schema, payload), position


_NULL, _TEXT = avro.PRIMITIVES["null"], avro.PRIMITIVES["string"]
_ENVELOPE_TEXT = avro.union([_NULL, _TEXT])
_ENVELOPE_HEADERS = avro.union([_NULL, avro.blocks(_TEXT, is_map=True)])
