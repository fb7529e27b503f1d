"""Converts Qlik's Avro messages on Kafka to the JSON of Qlik's JSON format.

Pure functions without a Spark import; `registry` gives them their SQL names.

fastavro checks the schema and resolves its names, but the bytes are read here. They come from
outside, and fastavro's reader trusts them: it counts a negative union or enum index from the end
and reads integers of any length, so it turns damaged bytes into wrong values.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_SCHEMA_CHARACTERS = 1024 * 1024
# The most values that one record may hold when all names in its schema are expanded. A schema of a
# few lines can multiply to more than any machine can read.
MAX_SCHEMA_VALUES = 50_000
# Lists have the same problem if their items hold many values in few bytes, or none.
MAX_VALUES_PER_BYTE = 100
MAX_LISTED_VALUES = 250_000
MAX_NAME_CHARACTERS = 1000
MAX_DECIMAL_BYTES = 256
MAX_SCALE = 255
MAX_SCHEMAS_KEPT = 256

MAGIC = b"atMSG"
Read = Callable[[bytes, int], tuple[Any, int]]

_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1).toordinal()


class MessageError(ValueError):
    """A message or a schema that cannot be understood; the text says why."""


@dataclass(frozen=True)
class _Reader:
    """A reader for values of one type.

    Attributes:
        read: Takes the bytes and a position, returns the value and the position after it.
        smallest: The fewest bytes of a value.
        values: The most values that one read gives, without the items of lists.
    """

    read: Read
    smallest: int
    values: int = 1


# Schemas are few and recur with every message. (lru_cache objects cannot be sent to executors by
# value.)
_readers: dict[str, _Reader] = {}
# The number of values in the lists of the current message so far.
_listed = [0]


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
        MessageError: The bytes are not such a message, or do not fit their schema.

    Example:
        >>> value = b"atMSG" + bytes.fromhex("04 4454 00 02 04 7631 00 06 04 6f6b")
        >>> schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
        >>> decode_avro_message(value, schema)
        {'type': 'DT', 'schema_id': 'v1', 'message': '{"a": "ok"}'}
    """
    if value is None:
        return None
    if not isinstance(value, bytes | bytearray | memoryview):
        raise MessageError(f"an Avro message is bytes, got {type(value).__name__}")
    data = bytes(value)
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"{len(data)} bytes are more than {MAX_MESSAGE_BYTES}")
    if not data.startswith(MAGIC):
        hint = ", as messages of a schema registry do" if data[:1] == b"\0" else ""
        raise MessageError(f"does not begin with atMSG, but with {data[:5].hex().upper()}{hint}")
    kind, schema_id, own_schema, payload = _read_whole(_read_envelope, data, "the envelope")
    schema = data_schema if own_schema is None else own_schema
    message = None
    if schema is not None:
        try:
            reader = _reader_of(schema)
        except MessageError as error:
            raise MessageError(f"the schema of the message: {error}") from None
        content = _read_whole(reader.read, payload, "the message")
        try:
            message = json.dumps(content, ensure_ascii=False)
        except RecursionError:
            raise MessageError("the message: nests too deeply") from None
    return {"type": kind, "schema_id": schema_id, "message": message}


def quote_json_numbers(text: str | None) -> str | None:
    """Put the numbers of a JSON text in quotes, digit for digit.

    Spark reads a JSON number with a fraction as a double, which loses digits of a wide decimal.

    Args:
        text: A JSON text.

    Returns:
        The same JSON with every number as a text. `None` for NULL.

    Raises:
        MessageError: The text is not JSON.

    Example:
        >>> quote_json_numbers('{"AMOUNT": 12345678901234567.890}')
        '{"AMOUNT": "12345678901234567.890"}'
    """
    if text is None:
        return None
    if len(text) > MAX_MESSAGE_BYTES:
        raise MessageError(f"{len(text)} characters are more than {MAX_MESSAGE_BYTES}")
    try:
        parsed = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except RecursionError:
        raise MessageError("nests too deeply") from None
    except ValueError as error:
        raise MessageError(f"not JSON: {error}") from None
    # ASCII only: a text cut inside an emoji ends with half a surrogate pair, which is not UTF-8.
    return json.dumps(parsed)


def _read_envelope(data: bytes, position: int) -> tuple[tuple[str, Any, Any, bytes], int]:
    kind, position = _read_string(data, position + len(MAGIC))
    _, position = _ENVELOPE_HEADERS.read(data, position)
    schema_id, position = _ENVELOPE_TEXT.read(data, position)
    schema, position = _ENVELOPE_TEXT.read(data, position)
    payload, position = _bytes(data, position)
    return (kind, schema_id, schema, payload), position


def _read_whole(read: Read, data: bytes, what: str) -> Any:
    _listed[0] = 0
    try:
        value, end = read(data, 0)
    except RecursionError:
        raise MessageError(f"{what}: nests too deeply") from None
    except IndexError:
        raise MessageError(f"{what}: ends in the middle of a value") from None
    except UnicodeDecodeError:
        raise MessageError(f"{what}: holds a text that is not UTF-8") from None
    except MessageError as error:
        raise MessageError(f"{what}: {error}") from None
    if end != len(data):
        raise MessageError(f"{what}: {len(data) - end} bytes are left over")
    return value


def _reader_of(schema: str) -> _Reader:
    reader = _readers.get(schema)
    if reader is None:
        reader = _compile(schema)
        if len(_readers) >= MAX_SCHEMAS_KEPT:
            _readers.clear()
        _readers[schema] = reader
    return reader


def _compile(text: str) -> _Reader:
    # Imported here, so that masks can be decoded without fastavro.
    from fastavro.schema import parse_schema

    if not isinstance(text, str):
        raise MessageError(f"an Avro schema is text, got {type(text).__name__}")
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise MessageError(f"{len(text)} characters are more than {MAX_SCHEMA_CHARACTERS}")
    try:
        loaded = json.loads(text)
        if "__fastavro_parsed__" in text:
            raise MessageError("says of itself that it was checked")  # fastavro would accept it.
        named: dict[str, Any] = {}
        return _Compiler(named).compile(parse_schema(loaded, named, _write_hint=False))
    except MessageError:
        raise
    except RecursionError:
        raise MessageError("nests too deeply") from None
    # fastavro has no single error for a bad schema; anything from KeyError to AttributeError
    # occurs.
    except Exception as error:
        raise MessageError(f"not an Avro schema: {type(error).__name__} {error}"[:200]) from None


class _Compiler:
    """Makes the readers of a schema that fastavro has parsed."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._done: dict[str, _Reader] = {}
        self._open: set[str] = set()

    def compile(self, schema: Any) -> _Reader:
        reader = self._reader(schema)
        if reader.values > MAX_SCHEMA_VALUES:
            raise MessageError(f"a record of more than {MAX_SCHEMA_VALUES} values")
        return reader

    def _reader(self, schema: Any) -> _Reader:
        if isinstance(schema, list):
            return _union([self._reader(branch) for branch in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._reader(kind)
        annotation = schema if isinstance(schema, dict) else {}
        logical = _LOGICAL.get((kind, annotation.get("logicalType")))
        if logical is not None:
            return logical
        if annotation.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
            return _decimal(annotation)
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        if kind in ("array", "map"):
            items = self._reader(schema["items" if kind == "array" else "values"])
            return _blocks(items, is_map=kind == "map")
        if kind == "fixed":
            return _fixed(schema["size"])
        if kind == "enum":
            return _enum(list(schema["symbols"]))
        if kind in ("record", "error"):
            return self._record(schema)
        return self._by_name(kind)

    def _by_name(self, name: str) -> _Reader:
        if name not in self._done:
            if name not in self._named:
                raise MessageError(f"no type is named {name!r}")
            self._done[name] = self._reader(self._named[name])
        return self._done[name]

    def _record(self, schema: Mapping[str, Any]) -> _Reader:
        name = schema["name"]
        if name in self._open:
            # No table is a record within itself, and the bytes could nest it to any depth.
            raise MessageError(f"the record {name} holds itself")
        self._open.add(name)
        for field in schema["fields"]:
            if len(str(field["name"])) > MAX_NAME_CHARACTERS:
                raise MessageError(f"a name of more than {MAX_NAME_CHARACTERS} characters")
        fields = [(str(field["name"]), self._reader(field["type"])) for field in schema["fields"]]
        self._open.remove(name)
        self._done[name] = reader = _record(fields)
        return reader


def _long(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    number = byte & 0x7F
    shift = 7
    while byte & 0x80:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63 and (shift > 70 or number >> 64):
            raise MessageError("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    size, position = _long(data, position)
    end = position + size
    if size < 0:
        raise MessageError(f"a length of {size}")
    if end > len(data):
        raise MessageError(f"{size} bytes are announced, {len(data) - position} are there")
    return data[position:end], end


def _read_null(data: bytes, position: int) -> tuple[None, int]:
    return None, position


def _read_boolean(data: bytes, position: int) -> tuple[str, int]:
    byte = data[position]
    if byte > 1:
        raise MessageError(f"a boolean of {byte}")
    return ("true" if byte else "false"), position + 1


def _read_int(data: bytes, position: int) -> tuple[str, int]:
    number, position = _long(data, position)
    if not -(2**31) <= number < 2**31:
        raise MessageError("an int of more than 32 bits")
    return str(number), position


def _read_long(data: bytes, position: int) -> tuple[str, int]:
    number, position = _long(data, position)
    return str(number), position


def _read_float(data: bytes, position: int) -> tuple[str, int]:
    if position + 4 > len(data):
        raise IndexError
    return _number_text(struct.unpack_from("<f", data, position)[0]), position + 4


def _read_double(data: bytes, position: int) -> tuple[str, int]:
    if position + 8 > len(data):
        raise IndexError
    return _number_text(struct.unpack_from("<d", data, position)[0]), position + 8


def _number_text(number: float) -> str:
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    found, position = _bytes(data, position)
    return found.decode(), position


def _read_bytes(data: bytes, position: int) -> tuple[str, int]:
    found, position = _bytes(data, position)
    return found.hex().upper(), position


_PRIMITIVES: dict[str, _Reader] = {
    "null": _Reader(_read_null, 0),
    "boolean": _Reader(_read_boolean, 1),
    "int": _Reader(_read_int, 1),
    "long": _Reader(_read_long, 1),
    "float": _Reader(_read_float, 4),
    "double": _Reader(_read_double, 8),
    "string": _Reader(_read_string, 1),
    "bytes": _Reader(_read_bytes, 1),
}


def _from_number(as_text: Callable[[int], str]) -> _Reader:
    def read(data: bytes, position: int) -> tuple[str, int]:
        number, position = _long(data, position)
        try:
            return as_text(number), position
        except (OverflowError, ValueError):
            raise MessageError(f"{number} is no date or time of the years 1 to 9999") from None

    return _Reader(read, 1)


def _date_text(days: int) -> str:
    return date.fromordinal(_FIRST_DAY + days).isoformat()


def _time_text(micros: int) -> str:
    if not 0 <= micros < 86_400_000_000:
        raise ValueError
    seconds, micros = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    return time(minutes // 60, minutes % 60, seconds, micros).isoformat("microseconds")


def _timestamp_text(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")


_LOGICAL: dict[tuple[Any, Any], _Reader] = {
    ("int", "date"): _from_number(_date_text),
    ("int", "time-millis"): _from_number(lambda millis: _time_text(millis * 1000)),
    ("long", "time-micros"): _from_number(_time_text),
    ("long", "timestamp-millis"): _from_number(lambda millis: _timestamp_text(millis * 1000)),
    ("long", "timestamp-micros"): _from_number(_timestamp_text),
    ("long", "local-timestamp-millis"): _from_number(lambda m: _timestamp_text(m * 1000)),
    ("long", "local-timestamp-micros"): _from_number(_timestamp_text),
}


def _decimal(schema: Mapping[str, Any]) -> _Reader:
    scale = schema.get("scale", 0)
    size = schema.get("size")
    if not isinstance(scale, int) or not 0 <= scale <= MAX_SCALE:
        raise MessageError(f"a decimal with the scale {scale}")
    raw = _bytes if size is None else _fixed_bytes(size)

    def read(data: bytes, position: int) -> tuple[str, int]:
        found, position = raw(data, position)
        if len(found) > MAX_DECIMAL_BYTES:
            raise MessageError(f"a decimal of {len(found)} bytes")
        unscaled = int.from_bytes(found, "big", signed=True)
        if scale == 0:
            return str(unscaled), position
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}", position

    return _Reader(read, 1 if size is None else size)


def _fixed_bytes(size: Any) -> Callable[[bytes, int], tuple[bytes, int]]:
    if not isinstance(size, int) or not 0 <= size <= MAX_MESSAGE_BYTES:
        raise MessageError(f"a fixed type of the size {size}")

    def read(data: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(data):
            raise IndexError
        return data[position:end], end

    return read


def _fixed(size: Any) -> _Reader:
    raw = _fixed_bytes(size)

    def read(data: bytes, position: int) -> tuple[str, int]:
        found, position = raw(data, position)
        return found.hex().upper(), position

    return _Reader(read, size)


def _enum(symbols: list[str]) -> _Reader:
    def read(data: bytes, position: int) -> tuple[str, int]:
        index, position = _long(data, position)
        if not 0 <= index < len(symbols):
            raise MessageError(f"symbol {index} of an enum of {len(symbols)}")
        return symbols[index], position

    return _Reader(read, 1)


def _union(branches: list[_Reader]) -> _Reader:
    reads = [branch.read for branch in branches]

    def read(data: bytes, position: int) -> tuple[Any, int]:
        index, position = _long(data, position)
        if not 0 <= index < len(reads):
            raise MessageError(f"branch {index} of a union of {len(reads)}")
        return reads[index](data, position)

    return _Reader(
        read,
        1 + min((branch.smallest for branch in branches), default=0),
        1 + max((branch.values for branch in branches), default=0),
    )


def _record(fields: list[tuple[str, _Reader]]) -> _Reader:
    reads = [(name, reader.read) for name, reader in fields]

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, read_field in reads:
            record[name], position = read_field(data, position)
        return record, position

    return _Reader(
        read,
        sum(reader.smallest for _, reader in fields),
        1 + sum(reader.values for _, reader in fields),
    )


def _blocks(items: _Reader, *, is_map: bool) -> _Reader:
    smallest = items.smallest + is_map
    if items.values > MAX_VALUES_PER_BYTE * smallest:
        raise MessageError(
            f"a list whose items hold up to {items.values} values in {smallest} bytes"
        )

    def read(data: bytes, position: int) -> tuple[Any, int]:
        found: list[Any] = []
        while True:
            count, position = _long(data, position)
            if count == 0:
                break
            if count < 0:
                count = -count
                _, position = _long(data, position)  # The block's size in bytes, for skipping.
            if count * smallest > len(data) - position:
                raise MessageError(f"a list of {count} items, {len(data) - position} bytes left")
            _listed[0] += count * items.values
            if _listed[0] > MAX_LISTED_VALUES:
                raise MessageError(f"lists of more than {MAX_LISTED_VALUES} values")
            for _ in range(count):
                if is_map:
                    name, position = _read_string(data, position)
                    item, position = items.read(data, position)
                    found.append((name, item))
                else:
                    item, position = items.read(data, position)
                    found.append(item)
        return (dict(found) if is_map else found), position

    return _Reader(read, 1)


_ENVELOPE_TEXT = _union([_PRIMITIVES["null"], _PRIMITIVES["string"]])
_ENVELOPE_HEADERS = _union([_PRIMITIVES["null"], _blocks(_PRIMITIVES["string"], is_map=True)])
