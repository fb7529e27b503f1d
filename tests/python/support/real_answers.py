"""From the database's own record to the rows that a history, an audit and a present state must have.

Values are compared as texts, in the form that `canonical` gives them on the database's side and
`SELECTED` on that of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time
from typing import Any

Row = dict[str, Any]
Texts = dict[str, str | None]

LOADED = "1900-01-01 00:00:00"

# The columns as `debezium_messages` is told them.
TYPES = {
    "id": "int",
    "small": "smallint",
    "big": "bigint",
    "price": "decimal(10,2)",
    "amount": "decimal(30,9)",
    "ratio": "double",
    "sure": "boolean",
    "day": "date",
    "clock": "bigint",
    "seen": "timestamp_ntz(6)",
    "seen_ms": "timestamp_ntz(3)",
    "seen_zone": "timestamp(6)",
    "uid": "string",
    "state": "string",
    "flags": "binary",
    "code": "string",
    "note": "string",
    "photo": "binary",
    "doc": "string",
    "words": "array<string>",
}


def selected(column: str, kind: str) -> str:
    """Return SQL that gives a column of Spark's as text."""
    if kind == "binary":
        return f"lower(hex({column}))"
    if kind.startswith("array"):
        return f"to_json({column})"
    return f"cast({column} as string)"


def canonical(row: Mapping[str, Any], units: Mapping[str, str]) -> Texts:
    """Return a row as the database shows it in JSON, in the texts that Spark shows.

    `units` says for a column what its connector leaves of it: `millis`, or `iso` for times of day
    as text.
    """
    return {name: _text(name, row[name], units.get(name)) for name in TYPES}


def _text(name: str, value: Any, unit: str | None) -> str | None:
    if value is None:
        return None
    if name == "ratio":
        return repr(float(value))
    if isinstance(value, bool):
        return str(value).lower()
    if name == "flags":
        # The lowest byte first; the connector leaves out those at the end that are zero.
        return int(value, 2).to_bytes(2, "little").rstrip(b"\0").hex()
    if name == "photo":
        return str(value).removeprefix("\\x")
    if name == "words":
        return json.dumps(value, separators=(",", ":"))
    if name == "doc":
        return json.dumps(value)
    if name == "clock":
        moment = time.fromisoformat((value + "000000")[:15] if "." in value else value)
        micros = (moment.hour * 60 + moment.minute) * 60 + moment.second
        micros = micros * 10**6 + moment.microsecond
        return str(micros // 1000 if unit == "millis" else micros)
    if name.startswith("seen"):
        text = str(value).replace("T", " ").removesuffix("+00:00")
        if "." in text:
            text = (text[:23] if unit == "millis" else text).rstrip("0").rstrip(".")
        return text
    return str(value)


def comparable(name: str, text: str | None) -> str | None:
    """Return a text of Spark's in one form, where there are several for a value."""
    if text is None:
        return None
    if name == "ratio":
        return repr(float(text))
    if name == "doc":
        return json.dumps(json.loads(text))
    return text


@dataclass
class Version:
    """One version of a key's history."""

    key: str
    values: Texts
    valid_from: str
    valid_to: str | None = None
    closed_by: str | None = None


def history(initial: list[Texts], changes: list[tuple[str, Texts | None, Texts | None]]) -> list[Version]:
    """Return the versions of a table: the rows of its snapshot, and the changes in their order."""
    versions: list[Version] = []
    living: dict[str, Version] = {}

    def opens(row: Texts, at: str) -> None:
        key = str(row["id"])
        living[key] = Version(key, row, at)
        versions.append(living[key])

    def closes(row: Texts, at: str, by: str) -> None:
        version = living.pop(str(row["id"]))
        version.valid_to, version.closed_by = at, by

    for row in initial:
        opens(row, LOADED)
    for at, old, new in changes:
        if old == new:
            continue
        if old is not None:
            moved = new is not None and new["id"] != old["id"]
            closes(old, at, "delete" if new is None else "key_change" if moved else "update")
        if new is not None:
            opens(new, at)
    return versions


def audit(initial: list[Texts], changes: list[tuple[str, Texts | None, Texts | None]]) -> list[tuple[Any, ...]]:
    """Return who changed what: key, time, column, value before and after."""
    nothing: Texts = dict.fromkeys(TYPES)
    rows: list[tuple[Any, ...]] = []
    for at, old, new in [*((None, None, row) for row in initial), *changes]:
        key = (new or old or nothing)["id"]
        for name in TYPES:
            before, after = (old or nothing)[name], (new or nothing)[name]
            if before != after:
                rows.append((key, at, name, before, after))
    return rows
