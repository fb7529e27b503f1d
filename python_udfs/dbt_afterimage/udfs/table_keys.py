"""Reads and writes the `table_key` of an Identity Manager event log.

Pure functions without a Spark import; `registry` gives them their SQL names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_LENGTH = 100_000  # characters; a longer text is a mistake, not a key

# NetIQ, "JDBC driver: event log table", table_key: a value with one of these must be quoted.
SPECIAL = ",;'+\"=\\<>"

_PLAIN = r"[^,;'+\"=\\<>]+"
_PART = re.compile(rf'({_PLAIN})=(?:"((?:[^"\\]|\\["\\])*)"|({_PLAIN}))(?:(\+)|\Z)')
_ESCAPE = re.compile(r'\\(["\\])')
_PADDED_NUMBER = re.compile(r"(?=\s|.*\s\Z)\s*(-?[0-9]+(?:\.[0-9]+)?)\s*", re.DOTALL)


class TableKeyError(ValueError):
    """A key that violates the grammar; the message says what is wrong, and where."""


def parse_table_key(table_key: str | None, trim_numbers: bool = False) -> dict[str, Any] | None:
    r"""Split an event log's `table_key` into its parts.

    The grammar (NetIQ, "JDBC driver: event log table"): parts `column=value`, joined by `+`. A
    value with one of `, ; ' + " = \ < >` is in double quotes, where `\"` means a double quote and
    `\\` a backslash; nothing else is an escape. An empty value is written `""`.

    Args:
        table_key: The text as landed.
        trim_numbers: Whether blanks around an unquoted number are removed.

    Returns:
        `parts` (column to value, in the order of the key), `canonical` (equal for every order of
        the parts and every quoting: sorted by column, quoted if needed) and `warning` (blanks
        around a number, which the vendor warns about; else None). `None` for NULL.

    Raises:
        TableKeyError: The text violates the grammar; the message gives the position of the
            character, counted from 1.

    Example:
        >>> parse_table_key("pkey2=value2+pkey1=value1")["canonical"]
        'pkey1=value1+pkey2=value2'
    """
    if table_key is None:
        return None
    if not isinstance(table_key, str):
        raise TableKeyError(f"a table_key is text, got {type(table_key).__name__}")
    if len(table_key) > MAX_LENGTH:
        raise TableKeyError(f"{len(table_key)} characters, but {MAX_LENGTH} are the most")
    parts: dict[str, str] = {}
    padded: list[str] = []
    position = 0
    while True:
        match = _PART.match(table_key, position)
        if match is None:
            raise _mistake(table_key, position)
        name, quoted, plain, plus = match.groups()
        if name in parts:
            raise TableKeyError(f"position {position + 1}: column {name!r} is there twice")
        if plain is None:
            parts[name] = _ESCAPE.sub(r"\1", quoted)
        else:
            number = _PADDED_NUMBER.fullmatch(plain)
            if number is not None:
                padded.append(name)
            parts[name] = number.group(1) if number is not None and trim_numbers else plain
        position = match.end()
        if plus is None:
            break
    return {
        "parts": parts,
        "canonical": format_table_key(dict(sorted(parts.items(), key=_by_column))),
        "warning": f"blanks around a number: {', '.join(padded)}" if padded else None,
    }


def _by_column(part: tuple[str, str]) -> tuple[str, str]:
    # Databases spell unquoted names differently.
    return (part[0].lower(), part[0])


def _mistake(text: str, start: int) -> TableKeyError:
    """Find the character at which a non-matching part goes wrong."""

    def at(position: int, what: str) -> TableKeyError:
        return TableKeyError(f"position {position + 1}: {what}")

    end = len(text)
    position = start
    while position < end and text[position] not in SPECIAL:
        position += 1
    if position == start:
        if start == end:
            return at(start, "a column is missing" + (" after '+'" if start else ""))
        return at(start, f"a column is missing before {text[start]!r}")
    if position == end:
        return at(end, f"'=' is missing after {text[start:end]!r}")
    if text[position] != "=":
        return at(position, f"{text[position]!r} in the name of a column")
    position += 1
    if position == end or text[position] == "+":
        return at(position, 'a value is missing (an empty one is written "")')
    if text[position] != '"':
        while text[position] not in SPECIAL:
            position += 1
        return at(position, f"{text[position]!r} in a value without quotes")
    opened = position
    position += 1
    while position < end and text[position] != '"':
        if text[position] == "\\":
            if text[position + 1 : position + 2] not in ('"', "\\"):
                return at(position, "a backslash that escapes neither '\"' nor another backslash")
            position += 1
        position += 1
    if position >= end:
        return at(opened, "a quote that is never closed")
    return at(position + 1, f"{text[position + 1]!r} after a closing quote, where '+' must stand")


def format_table_key(parts: Mapping[str, Any] | str | None) -> str | None:
    r"""Write a `table_key`: the inverse of `parse_table_key`.

    Args:
        parts: Column to value, as a mapping or as the text of a JSON object (`to_json` of a struct
            or a map). Numbers are written as they are in the text.

    Returns:
        The key, with its parts in the given order and values quoted if needed. `None` for NULL.

    Raises:
        TableKeyError: A column or a value cannot be written.

    Example:
        >>> format_table_key({"a": "x+y", "b": "2"})
        'a="x+y"+b=2'
    """
    if parts is None:
        return None
    if isinstance(parts, str):
        parts = _from_json(parts)
    if not isinstance(parts, Mapping) or not parts:
        raise TableKeyError("the parts are a mapping of at least one column to its value")
    return "+".join(f"{_name(name)}={_value(name, value)}" for name, value in parts.items())


def _from_json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise TableKeyError("a column is there twice")
        return dict(pairs)

    if len(text) > 2 * MAX_LENGTH:
        raise TableKeyError(f"{len(text)} characters of JSON, but {2 * MAX_LENGTH} are the most")
    try:
        # Numbers stay text, so that 1.10 does not become 1.1.
        return json.loads(text, object_pairs_hook=once, parse_int=str, parse_float=str)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TableKeyError(f"the parts are no JSON object: {error}") from None


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name or set(name) & set(SPECIAL):
        raise TableKeyError(f"a column's name is text without any of {SPECIAL}, got {name!r}")
    return name


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise TableKeyError(f"column {name!r} has no value that a key can hold: {value!r}")
    if value and value == value.strip() and not set(value) & set(SPECIAL):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
