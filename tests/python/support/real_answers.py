"""From the database's own record to the rows that history, audit and present state must have.

Values are compared as texts: `selected` and `shown` make them of Spark's rows, and `stored` of
those of the database.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

Row = dict[str, Any]
Texts = dict[str, str | None]

LOADED = "1900-01-01 00:00:00"

# The columns as `debezium_messages` is told them, with the connector's default settings.
TYPES = {
    "id": "int",
    "small": "smallint",
    "big": "bigint",
    "price": "decimal(10,2)",
    "amount": "decimal(30,9)",
    "ratio": "double",
    "sure": "boolean",
    "day": "date",
    "clock": "time(6)",
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

# What other settings make of some columns, by `time.precision.mode` and `decimal.handling.mode`.
OTHER_TYPES: dict[str, dict[str, str]] = {
    "connect": {"clock": "time(3)", "seen": "timestamp_ntz(3)"},
    "microseconds": {"seen_ms": "timestamp_ntz(6)"},
    "nanoseconds": {
        "clock": "time(9)",
        "seen": "timestamp_ntz(9)",
        "seen_ms": "timestamp_ntz(9)",
    },
    "double": {"amount": "double"},
}


def columns_of(time_mode: str, decimal_mode: str) -> list[dict[str, str]]:
    """Return the columns as `debezium_messages` takes them, for the settings of a connector."""
    types = TYPES | OTHER_TYPES.get(time_mode, {}) | OTHER_TYPES.get(decimal_mode, {})
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    for column in columns:
        if column["type"].startswith("decimal") and decimal_mode == "string":
            column["encoding"] = "text"
    return columns


def selected(columns: list[dict[str, str]]) -> str:
    """Return SQL that gives the columns of Spark's as texts."""
    return ", ".join(
        (
            f"lower(hex({column['name']}))"
            if column["type"] == "binary"
            else f"to_json({column['name']})"
            if column["type"].startswith("array")
            else f"cast({column['name']} as string)"
        )
        + f" as {column['name']}"
        for column in columns
    )


def shown(row: Row, decimal_mode: str) -> Texts:
    """Return a row of such texts in one form, where there are several for a value."""
    texts = {name: row[name] for name in TYPES}
    for name in ("ratio", "amount") if decimal_mode == "double" else ("ratio",):
        texts[name] = texts[name] and repr(float(texts[name]))
    texts["doc"] = texts["doc"] and json.dumps(json.loads(texts["doc"]))
    return texts


def stored(row: Row, time_mode: str, decimal_mode: str) -> Texts:
    """Return a row, as the database shows it in JSON, in the same texts.

    Some settings of a connector cannot show all that a value has: milliseconds, and nanoseconds in
    64 bits.
    """
    return {name: _text(name, row[name], time_mode, decimal_mode) for name in TYPES}


def _text(name: str, value: Any, time_mode: str, decimal_mode: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    match name:
        case "ratio":
            return repr(float(value))
        case "amount" if decimal_mode == "double":
            return repr(float(value))
        case "flags":
            # The lowest byte first; the connector leaves out those at the end that are zero.
            return int(value, 2).to_bytes(2, "little").rstrip(b"\0").hex()
        case "photo":
            return str(value).removeprefix("\\x")
        case "words":
            return json.dumps(value, separators=(",", ":"))
        case "doc":
            return json.dumps(value)
        case "clock" if time_mode == "connect":
            return _without_zeros(_in_digits(value)[:12])
        case "seen" | "seen_ms" | "seen_zone":
            return _moment(name, datetime.fromisoformat(_in_digits(value)[:26]), time_mode)
    return str(value)


def _in_digits(value: str) -> str:
    """Return a time with all six digits of its microseconds, which Python's parser needs."""
    text = value.removesuffix("+00:00")
    whole, _, digits = text.partition(".")
    return f"{whole}.{digits:0<6}"


def _moment(name: str, moment: datetime, time_mode: str) -> str | None:
    if name != "seen_zone":
        if time_mode == "connect":
            moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        nanos = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) * 1000
        if time_mode == "nanoseconds" and not -(2**63) <= nanos < 2**63:
            return None
    return _shown_time(moment)


def _without_zeros(text: str) -> str:
    """Return a time as PostgreSQL and Spark show it."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown_time(moment: datetime) -> str:
    return _without_zeros(moment.isoformat(" "))


Changes = list[tuple[str, Texts | None, Texts | None]]
# By key: how many of its changes come before a row of an incremental snapshot, and that row's time.
Reloads = dict[str, list[tuple[int, str]]]


def in_json(records: list[Row], schemas: list[Row]) -> list[Row]:
    """Return records in Avro, as hex digits, in JSON."""
    parsed = {one["id"]: fastavro.parse_schema(json.loads(one["schema"])) for one in schemas}

    def opened(digits: str | None) -> str | None:
        if digits is None:
            return None
        message = bytes.fromhex(digits)
        schema = parsed[int.from_bytes(message[1:5], "big")]
        return json.dumps(
            fastavro.schemaless_reader(BytesIO(message[5:]), schema, None), default=str
        )

    return [
        {**record, "key": opened(record["key"]), "value": opened(record["value"])}
        for record in records
    ]


def reloads(records: list[Row]) -> Reloads:
    """Return the rows of incremental snapshots, which say when the connector sent them.

    Such a row holds what the log has said up to its place, so it changes nothing. But it is an
    event with a time, and no later version of its key begins before that.
    """
    found: Reloads = {}
    places: dict[str, set[str]] = {}
    for record in records:
        if record["value"] is None:
            continue
        key, message = _payload(record["key"]), _payload(record["value"])
        source = message.get("source") or {
            name.removeprefix("__source_"): value for name, value in message.items()
        }
        name = str(key["id"])
        if source["snapshot"] == "incremental":
            at = datetime(1970, 1, 1) + timedelta(microseconds=source["ts_us"])
            found.setdefault(name, []).append((len(places.get(name, ())), _shown_time(at)))
        elif message.get("op", message.get("__op")) != "r":
            # What is sent again after a connector broke has its place already. One that stopped in
            # a snapshot says of all changes that a snapshot read them, until it goes on with that.
            place = source.get("sequence") or f"{source['file']} {source['pos']} {source['row']}"
            places.setdefault(name, set()).add(place)
    return found


def _payload(text: str) -> Row:
    message: Row = json.loads(text)
    payload: Row = message.get("payload", message)
    return payload


def history(initial: list[Texts], changes: Changes, reloads: Reloads) -> list[Texts]:
    """Return the versions of a table: the rows of its snapshot, and the changes in their order."""
    versions: list[Texts] = []
    living: dict[str, Texts] = {}
    counts: dict[str, int] = {}

    def not_before(key: str, at: str) -> str:
        """Return when a change of a key counts: not before what came before it."""
        counts[key] = counts.get(key, 0) + 1
        return max([at, *(time for place, time in reloads.get(key, ()) if place < counts[key])])

    def open_version(row: Texts, at: str) -> None:
        living[str(row["id"])] = {**row, "valid_from": at, "valid_to": None, "closed_by": None}
        versions.append(living[str(row["id"])])

    for row in initial:
        open_version(row, LOADED)
    for at, old, new in changes:
        old_key, new_key = (row and str(row["id"]) for row in (old, new))
        times = {key: not_before(key, at) for key in {old_key, new_key} if key}
        if old == new:
            continue
        if old_key:
            has_moved = new_key is not None and new_key != old_key
            closed_by = "delete" if new is None else "key_change" if has_moved else "update"
            living.pop(old_key).update(valid_to=times[old_key], closed_by=closed_by)
        if new is not None and new_key:
            open_version(new, times[new_key])
    return versions


def audit(initial: list[Texts], changes: Changes) -> list[Row]:
    """Return who changed what: one row per changed column. A row that moved is at its new key."""
    nothing: Texts = dict.fromkeys(TYPES)
    rows = []
    for at, old, new in [*((None, None, row) for row in initial), *changes]:
        before, after = old or nothing, new or nothing
        for name in TYPES:
            if before[name] != after[name]:
                values = {"old_value": before[name], "new_value": after[name]}
                row = {"id": (new or before)["id"], "at": at, "column_name": name, **values}
                rows.append(row)
    return rows


def in_audit(name: str, text: str | None, decimal_mode: str) -> str | None:
    """Return a value that an audit shows in the form in which `stored` has it."""
    if text is None:
        return None
    if name in ("flags", "photo"):
        return text.lower()
    if name == "amount" and decimal_mode != "double":
        return str(Decimal(text))
    return shown({**dict.fromkeys(TYPES), name: text}, decimal_mode)[name]
