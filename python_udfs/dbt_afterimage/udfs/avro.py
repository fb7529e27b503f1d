"""Reads values in Avro. A notation decides how each of them is written in JSON.

Pure functions without a Spark import.

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
from datetime import date, datetime, timedelta
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

Read = Callable[[bytes, int], tuple[Any, int]]
# From a value (a bool, an int, a float, a text or bytes) to what stands for it in JSON.
Convert = Callable[[Any], Any]
# Chooses it for the name of a type and what the schema says beside that. None: the value itself.
Notation = Callable[[str, Mapping[str, Any]], Convert | None]

_in_json = json.JSONEncoder(ensure_ascii=False).encode
_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1).toordinal()


class MessageError(ValueError):
    """A message or a schema that cannot be understood; the text says why.

    Attributes:
        known: Fields of the function's result that are known nevertheless.
    """

    def __init__(self, reason: str, known: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.known = known or {}


@dataclass(frozen=True)
class Reader:
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
_readers: dict[tuple[Notation, str], Reader] = {}
# The number of values in the lists of the current message so far.
_listed = [0]


def read_payload(payload: bytes, schema: str, notation: Notation) -> str:
    """Read the one value of a message that its schema describes.

    Args:
        payload: The value in Avro.
        schema: The schema that it was written with, as JSON.
        notation: How values are written.

    Returns:
        The value as JSON.

    Raises:
        MessageError: The schema is not valid, or the bytes do not fit it.
    """
    try:
        reader = _reader_of(schema, notation)
    except MessageError as error:
        raise MessageError(f"the schema of the message: {error}") from None
    content = read_whole(reader.read, payload, "the message")
    try:
        return _in_json(content)
    except RecursionError:
        raise MessageError("the message: nests too deeply") from None


def checked_bytes(value: Any) -> bytes:
    """Return a message's bytes.

    Args:
        value: Bytes of any kind.

    Raises:
        MessageError: The value is no bytes, or too many.
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise MessageError(f"an Avro message is bytes, got {type(value).__name__}")
    data = bytes(value)
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"{len(data)} bytes are more than {MAX_MESSAGE_BYTES}")
    return data


def read_whole(read: Read, data: bytes, what: str) -> Any:
    """Read a value that takes all of the bytes.

    Args:
        read: Reads it.
        data: The bytes.
        what: Its name in an error.

    Raises:
        MessageError: The bytes are no such value, or go on behind it.
    """
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


def _reader_of(schema: str, notation: Notation) -> Reader:
    reader = _readers.get((notation, schema))
    if reader is None:
        reader = _compile(schema, notation)
        if len(_readers) >= MAX_SCHEMAS_KEPT:
            _readers.clear()
        _readers[notation, schema] = reader
    return reader


def _compile(text: str, notation: Notation) -> Reader:
    # Imported here, so that masks can be decoded without fastavro.
    from fastavro.schema import parse_schema

    if not isinstance(text, str):
        raise MessageError(f"an Avro schema is text, got {type(text).__name__}")
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise MessageError(f"{len(text)} characters are more than {MAX_SCHEMA_CHARACTERS}")
    try:
        # A decimal may have more places than digits (Oracle's NUMBER(2,5)). Reading needs its scale
        # alone, but fastavro would refuse the schema.
        loaded = json.loads(
            text, object_hook=lambda part: {k: v for k, v in part.items() if k != "precision"}
        )
        if "__fastavro_parsed__" in text:
            raise MessageError("says of itself that it was checked")  # fastavro would accept it.
        named: dict[str, Any] = {}
        # Defaults are for readers that know another schema.
        parsed = parse_schema(loaded, named, _write_hint=False, _ignore_default_error=True)
        return _Compiler(named, notation).compile(parsed)
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

    def __init__(self, named: Mapping[str, Any], notation: Notation) -> None:
        self._named = named
        self._notation = notation
        self._done: dict[str, Reader] = {}
        self._open: set[str] = set()

    def compile(self, schema: Any) -> Reader:
        reader = self._reader(schema)
        if reader.values > MAX_SCHEMA_VALUES:
            raise MessageError(f"a record of more than {MAX_SCHEMA_VALUES} values")
        return reader

    def _reader(self, schema: Any) -> Reader:
        if isinstance(schema, list):
            return union([self._reader(branch) for branch in schema])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self._reader(kind)
        annotation = schema if isinstance(schema, dict) else {}
        if kind == "null":
            return PRIMITIVES[kind]
        if kind in PRIMITIVES:
            return _converted(PRIMITIVES[kind], self._notation(kind, annotation))
        if kind == "fixed":
            return _converted(_fixed(schema["size"]), self._notation(kind, annotation))
        if kind in ("array", "map"):
            items = self._reader(schema["items" if kind == "array" else "values"])
            return blocks(items, is_map=kind == "map")
        if kind == "enum":
            return _enum(list(schema["symbols"]))
        if kind in ("record", "error"):
            return self._record(schema)
        return self._by_name(kind)

    def _by_name(self, name: str) -> Reader:
        if name not in self._done:
            if name not in self._named:
                raise MessageError(f"no type is named {name!r}")
            self._done[name] = self._reader(self._named[name])
        return self._done[name]

    def _record(self, schema: Mapping[str, Any]) -> Reader:
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
    if byte < 0x80:  # Most numbers, since lengths and the branches of unions are numbers, too.
        return (number >> 1) ^ -(number & 1), position
    shift = 7
    while byte & 0x80:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63 and (shift > 70 or number >> 64):
            raise MessageError("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes with their length before them, and give the position after them."""
    size, position = _long(data, position)
    end = position + size
    if size < 0:
        raise MessageError(f"a length of {size}")
    if end > len(data):
        raise MessageError(f"{size} bytes are announced, {len(data) - position} are there")
    return data[position:end], end


def _read_null(data: bytes, position: int) -> tuple[None, int]:
    return None, position


def _read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    byte = data[position]
    if byte > 1:
        raise MessageError(f"a boolean of {byte}")
    return byte == 1, position + 1


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    number, position = _long(data, position)
    if not -(2**31) <= number < 2**31:
        raise MessageError("an int of more than 32 bits")
    return number, position


def _read_float(data: bytes, position: int) -> tuple[float, int]:
    if position + 4 > len(data):
        raise IndexError
    value = struct.unpack_from("<f", data, position)[0]
    # The shortest number that is this float. As a double, 0.1 would be 0.10000000149011612.
    for digits in range(6, 10):
        shorter = float(f"{value:.{digits}g}")
        if struct.pack("<f", shorter) == data[position : position + 4]:
            return shorter, position + 4
    return value, position + 4


def _read_double(data: bytes, position: int) -> tuple[float, int]:
    if position + 8 > len(data):
        raise IndexError
    return struct.unpack_from("<d", data, position)[0], position + 8


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a text, and give the position after it."""
    # Most are short: a byte says the length. What is damaged goes the longer way to its error.
    size = data[position]
    end = position + 1 + (size >> 1)
    if size < 0x80 and not size & 1 and end <= len(data):
        return data[position + 1 : end].decode(), end
    found, position = read_bytes(data, position)
    return found.decode(), position


PRIMITIVES: dict[str, Reader] = {
    "null": Reader(_read_null, 0),
    "boolean": Reader(_read_boolean, 1),
    "int": Reader(_read_int, 1),
    "long": Reader(_long, 1),
    "float": Reader(_read_float, 4),
    "double": Reader(_read_double, 8),
    "string": Reader(read_string, 1),
    "bytes": Reader(read_bytes, 1),
}


def number_text(number: float) -> str:
    """Write a float or a double as text."""
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def day_text(days: int) -> str:
    """Write a number of days since 1970 as a date. OverflowError or ValueError: no such date."""
    return date.fromordinal(_FIRST_DAY + days).isoformat()


def moment_text(micros: int) -> str:
    """Write a number of microseconds since 1970 as a time. OverflowError: no such time."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")


def decimal_text(schema: Mapping[str, Any]) -> Convert:
    """Return what writes the bytes of a decimal in full.

    Args:
        schema: The type, with its `scale`.
    """
    scale = schema.get("scale", 0)
    if not isinstance(scale, int) or not 0 <= scale <= MAX_SCALE:
        raise MessageError(f"a decimal with the scale {scale}")

    def text(found: bytes) -> str:
        if len(found) > MAX_DECIMAL_BYTES:
            raise MessageError(f"a decimal of {len(found)} bytes")
        unscaled = int.from_bytes(found, "big", signed=True)
        if scale == 0:
            return str(unscaled)
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}"

    return text


def _converted(raw: Reader, convert: Convert | None) -> Reader:
    if convert is None:
        return raw
    read_raw = raw.read

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read_raw(data, position)
        return convert(value), position

    return Reader(read, raw.smallest)


def _fixed(size: Any) -> Reader:
    if not isinstance(size, int) or not 0 <= size <= MAX_MESSAGE_BYTES:
        raise MessageError(f"a fixed type of the size {size}")

    def read(data: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(data):
            raise IndexError
        return data[position:end], end

    return Reader(read, size)


def _enum(symbols: list[str]) -> Reader:
    def read(data: bytes, position: int) -> tuple[str, int]:
        index, position = _long(data, position)
        if not 0 <= index < len(symbols):
            raise MessageError(f"symbol {index} of an enum of {len(symbols)}")
        return symbols[index], position

    return Reader(read, 1)


def union(branches: list[Reader]) -> Reader:
    """Return the reader of a value of one of several types."""
    reads = [branch.read for branch in branches]
    # By the byte that names it. There are further ways to write the same number.
    usual = {index * 2: read for index, read in enumerate(reads[:64])}

    def read(data: bytes, position: int) -> tuple[Any, int]:
        usual_read = usual.get(data[position])
        if usual_read is not None:
            return usual_read(data, position + 1)
        index, position = _long(data, position)
        if not 0 <= index < len(reads):
            raise MessageError(f"branch {index} of a union of {len(reads)}")
        return reads[index](data, position)

    return Reader(
        read,
        1 + min((branch.smallest for branch in branches), default=0),
        1 + max((branch.values for branch in branches), default=0),
    )


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    reads = [(name, reader.read) for name, reader in fields]

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, read_field in reads:
            record[name], position = read_field(data, position)
        return record, position

    return Reader(
        read,
        sum(reader.smallest for _, reader in fields),
        1 + sum(reader.values for _, reader in fields),
    )


def blocks(items: Reader, *, is_map: bool) -> Reader:
    """Return the reader of a list, or of a map."""
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
                    name, position = read_string(data, position)
                    item, position = items.read(data, position)
                    found.append((name, item))
                else:
                    item, position = items.read(data, position)
                    found.append(item)
        return (dict(found) if is_map else found), position

    return Reader(read, 1)
