"""The plan for Debezium's messages, from their schemas or their values."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from dbt_afterimage.runtime.project import Column, literal, quote
from dbt_afterimage.scaffold.plans.json_values import (
    MOST_DIGITS,
    best_kind,
    common_kinds,
    has_field,
    read_json,
)
from dbt_afterimage.scaffold.plans.question import (
    NothingLanded,
    Plan,
    Question,
    SeveralTables,
    column_list,
    guess_note,
    no_key,
)
from dbt_afterimage.scaffold.systems import FLATTENED_ROWS
from dbt_afterimage.text import text_literal


def debezium_messages(question: Question) -> Plan:
    """Plan for Debezium's messages: by their schemas, else by the values of the first of them."""
    landed, arguments = question.landed, question.arguments
    here = {column.name.lower(): column.name for column in landed.columns}
    value, key = str(arguments.get("value", "value")), arguments.get("key", here.get("key"))
    texts = _message_texts(question, value, str(key) if key else None)
    kinds: dict[str, Sequence[str]] = {}
    declared: dict[str, str] = {}
    tables: set[str] = set()
    wide: dict[str, str | None] = {}
    unmarked: dict[str, bool] = {}
    defaults: dict[str, bool] = {}
    encodings: dict[str, str] = {}
    scaled: dict[str, None] = {}
    counted: dict[str, set[tuple[str, int]]] = {}
    guessed: list[str] = []
    updates = 0
    in_log_order = flattened = shows_deletes = shows_operations = shows_snapshots = False
    shows_times = shows_transactions = lacks_key = lacks_place = keeps_null = False
    # A model that takes all flattened rows for those of one table stays: they may be its shards.
    parts: set[str] = set()
    asked = question.table or question.written_table or question.listed
    keeps_one, is_named = question.is_staged and not asked, True
    for text, key_text, avro_schema in texts:
        message, schema = _opened(text)
        schema = _connect_fields(avro_schema) or schema
        source: Any = message.get("source")
        is_flattened = _is_flattened(message)
        is_envelope = isinstance(source, dict) and "op" in message and not is_flattened
        if not (is_envelope or is_flattened):
            continue  # staging rejects it, with its reason
        names = _names_in(message)
        if question.table and question.table.lower() not in map(str.lower, names):
            continue
        is_part = is_flattened and keeps_one
        (parts if is_part else tables).update(names[1:])
        is_named = is_named and (is_envelope or (bool(names) and not is_part))
        if is_envelope:
            # PostgreSQL's. Its log orders the messages across partitions too.
            in_log_order = in_log_order or _is_place(source.get("sequence"))
            updates += message["op"] == "u" and isinstance(message.get("before"), dict)
            after: dict[str, Any] = next((f for f in schema if f.get("field") == "after"), {})
            schema = after.get("fields") or []
        row = (message.get("after") or message.get("before")) if is_envelope else message
        if not isinstance(row, dict):
            continue  # a truncate, or staging rejects it
        flattened = flattened or not is_envelope
        if is_flattened:
            sequence = message.get("__source_sequence") or message.get("__sequence")
            lacks_place = lacks_place or not _is_place(sequence)
        shows_deletes = shows_deletes or "__deleted" in row
        shows_operations = shows_operations or "__op" in row
        shows_snapshots = shows_snapshots or bool({"__source_snapshot", "__snapshot"} & {*row})
        shows_times = shows_times or any(f"__source_ts_{unit}" in row for unit in _UNITS)
        shows_transactions = shows_transactions or any(
            f"__{prefix}{field}" in row
            for prefix in ("source_", "")
            for field in ("txId", "gtid", "commit_lsn")
        )
        declared.update({f["field"]: _declared_type(f) for f in schema if "field" in f})
        wide.update({f["field"]: _too_wide(f) for f in schema if "field" in f})
        defaults.update({f["field"]: _null_may_be_default(f) for f in schema if "field" in f})
        if {"lsn", "__lsn", "__source_lsn"} & {*row, *(source if is_envelope else ())}:
            unmarked.update({f["field"]: _lacks_placeholder(f) for f in schema if "field" in f})
            # A shape of PostGIS, whose schema may be missing.
            unmarked |= {name: True for name, cell in row.items() if _is_shape(cell)}
        shows_file = "file" in source if is_envelope else {"__file", "__source_file"} & {*row}
        if shows_file:
            # MySQL's loads have blanks in JSON, and its changes have none.
            encodings.update({f["field"].lower(): "json" for f in schema if f.get("name") == _JSON})
        for column, cell in row.items():
            if is_envelope or not column.startswith("__"):
                kinds[column] = common_kinds(_number_in(cell), kinds.get(column))
                keeps_null = keeps_null or (cell is None and defaults.get(column, False))
                scaled |= {column: None} if _is_scaled(cell) else {}
                units = counted.setdefault(column.lower(), set())
                units |= {_time_in(cell)} if cell is not None else set()
        guessed = guessed or list(_opened(key_text)[0])
        lacks_key = lacks_key or key_text is None
    if not kinds:
        raise NothingLanded(
            f"{landed.name} has no Debezium message with a row. {_why_no_row(texts)}"
        )
    if len(tables) > 1:
        raise SeveralTables(f"the messages in {landed.name}", list(tables))
    if not question.table:
        question.check_written(f"the messages in {landed.name}", tables)
    typed = question.with_written(
        [Column(name, declared.get(name) or best_kind(kind)) for name, kind in kinds.items()]
    )
    plan = Plan(
        next(iter(tables), landed.identifier).rpartition(".")[2],
        list(question.key) or guessed,
        [Column(one.name, _spark_type(one.type)) for one in typed],
        {"columns": column_list(typed, encodings)},
        landed.reference,
        has_before_images=updates > 0,
    )
    in_log_order = in_log_order or (flattened and not lacks_place)
    places, is_spread = None, False
    further = [name for name in guessed if name.lower() not in map(str.lower, plan.key)]
    if {"partition", "offset"} <= set(here) and not in_log_order:
        places = f"['{here['partition']}', '{here['offset']}']"
        # Kafka keeps the messages of one key in one partition.
        if key and (lacks_key or further):
            partitions = f"count(distinct {quote(here['partition'])})"
            [(count,)] = question.project.rows(f"select {partitions} from {landed.relation}")
            is_spread = int(count) > 1
    shown = {
        "position": None if is_spread else places,
        "key": text_literal(str(key)) if key else None,
        "headers": text_literal(here["headers"]) if "headers" in here else None,
    }
    for argument, now in shown.items():
        if argument in arguments:
            continue
        # Places and ids depend on two of them: the run of a model that is built would stop.
        text = question.written_places.get(argument, now)
        if text is not None:
            plan.call[argument] = text
        elif argument == "headers" and now is not None:
            plan.notes.append(
                "headers: not used, as the model was written before the table had them. To use"
                " them, give `headers` in `arguments`, and run the model and all below it once with"
                " --full-refresh while all messages are landed."
            )
    if is_spread and "position" not in {*plan.call, *arguments}:
        why = f"their keys have {', '.join(further)}" if further else "some of them have no key"
        plan.notes.append(
            f"position: left out. The messages of one row may be in several partitions, as {why},"
            " and offsets order those of one partition only. The order is that of the database's"
            " log, and a message without its place there is rejected."
        )
    # Messages of another table may come to the topic later. With `table`, staging rejects flattened
    # rows that do not name theirs. A model that is built keeps it: its run would stop.
    table = question.table or question.written_table
    if is_named:
        table = table or next(iter(tables), None)
    if table and "table" not in arguments:
        plan.call["table"] = text_literal(table)
    if "metadata" in question.others:
        plan.call["schemas"] = question.others["metadata"].reference
    # Updates from before the switch to REPLICA IDENTITY FULL may be still to be read.
    written = question.written_absent
    if "null_is_absent" not in arguments and (not updates or written is not None):
        lacking = list(written or ())
        lacking += [name for name, lacks in unmarked.items() if lacks and name not in lacking]
        _add_null_is_absent(plan, lacking, typed)
    if len(parts) > 1:
        plan.notes.append(
            f"flattened rows: they are of {', '.join(sorted(parts))}, and the model takes them for"
            " rows of one table. If these are not its shards, delete the topic's models, drop their"
            " tables and run this again."
        )
    if flattened and not shows_deletes:
        plan.expects_tombstones = False
        plan.notes.append(
            "flattened rows: none of them is a delete. By default ExtractNewRecordState drops"
            " deletes, and the tombstone that is left cannot end a row: set its"
            " delete.tombstone.handling.mode to rewrite. Until then the test of this table warns of"
            " each tombstone."
        )
    if flattened and shows_operations and not shows_snapshots:
        plan.notes.append(
            "flattened rows: they do not have source.snapshot. Add it to add.fields before you take"
            " an incremental snapshot: its rows look like those of a full load without it."
        )
    if flattened and not shows_times:
        plan.notes.append(
            "flattened rows: they do not have source.ts_ms, so the history has no times: each"
            " version begins at 1900-01-01 (load_valid_from), and as_of finds only the last. Add"
            " source.ts_ms to add.fields. (__ts_ms is the time of the connector, and is not read.)"
        )
    if flattened and not shows_transactions:
        plan.notes.append(
            "flattened rows: they do not name their transaction. Add source.txId to add.fields"
            " (MySQL and MariaDB: source.gtid; SQL Server: source.commit_lsn). Without it a row may"
            " be lost where rows take each other's keys in one statement."
        )
    plan.notes += filter(None, wide.values())
    # The schema shows the default also where the converter keeps NULL.
    with_default = [name for name in kinds if defaults.get(name) and not keeps_null]
    if with_default:
        plan.notes.append(f"columns with a default: {', '.join(with_default)}. {_NULL_AS_DEFAULT}")
    plan.notes += [
        f"{one.name}: decimal(38,10), as its numbers have no scale in common. One with more than 10"
        " places, or with more than 28 digits before the point, is rejected. If there are some,"
        " declare another scale, such as decimal(38,18)."
        for one in typed
        if one.name in scaled and one.type == "decimal(38,10)"
    ]
    if not declared:
        plan.notes.append(
            "columns: taken from the values of the messages, as they have no schema. Check"
            " their types: a decimal may be Base64, and a date or a time a number."
            f" {_NULL_AS_DEFAULT}"
        )
        # The type of a column that the model has already is settled.
        settled = {column.name.lower() for column in question.written_columns}
        plan.notes += filter(
            None,
            (
                _time_note(one.name, counted[one.name.lower()])
                for one in typed
                if one.type == "bigint" and one.name.lower() not in settled
            ),
        )
    if not plan.key:
        keys = [key_text for _, key_text, _ in texts if key_text]
        unnamed = f"the keys of the messages name no column: {keys[0][:60]}" if keys else None
        raise no_key(question, unnamed or "no message has a key", plan.columns)
    if not question.key:
        # A part of the key would make one row of several.
        lacking = [name for name in guessed if name not in kinds]
        if lacking:
            why = f"the keys of the messages have {', '.join(lacking)}, which no row has"
            raise no_key(question, why, plan.columns)
        plan.notes.append(guess_note(plan.key, "the keys of the messages"))
    return plan


def _add_null_is_absent(plan: Plan, unmarked: Sequence[str], typed: Sequence[Column]) -> None:
    """Name the columns in which PostgreSQL's connector writes NULL for a value that it lacks.

    The argument is there for every table with arrays, because without it the macro cannot tell
    whether somebody has thought of this.
    """
    if unmarked:
        plan.notes.append(
            f"null_is_absent: {', '.join(unmarked)}. An update that leaves a large value of these"
            " types as it is has NULL there, so NULL is read as not captured. With REPLICA IDENTITY"
            " FULL this is not needed."
        )
    if unmarked or any(column.type.startswith("array") for column in typed):
        plan.call["null_is_absent"] = f"[{', '.join(text_literal(name) for name in unmarked)}]"


def _message_texts(question: Question, value: str, key: str | None) -> list[Sequence[str | None]]:
    """Return the first messages and their keys as JSON, each with its Avro schema if it has one.

    Messages with a column that the model lacks follow, if its table warns of some. If none is of
    the table asked for, or of one beside those that are listed, the first of these follow. (Of Avro
    only those that are asked for: it would be opened whole each time.)
    """
    landed, metadata = question.landed, question.others.get("metadata")
    if metadata is None:
        texts = f"cast({quote(value)} as string), cast({quote(key) if key else 'null'} as string)"
        rows, schema = str(landed.relation), "null"
        opened_value = f"cast({quote(value)} as string)"
    else:
        opened_value = "afterimage_value"
        types = {column.name.lower(): column.type for column in landed.columns}
        columns = {
            argument: {"sql": quote(name), "type": types.get(name.lower())}
            if name
            else {"sql": "cast(null as string)", "type": "string"}
            for argument, name in (("value", value), ("key", key))
        }
        opened = question.project.macro(
            "_debezium_opened", **columns, schemas=str(metadata.relation)
        )
        texts = "afterimage_value, afterimage_key_row"
        rows = opened.replace("<rows>", str(landed.relation))
        schema = (
            f"(select max(`schema`) from {metadata.relation} as known"
            " where known.id = messages.afterimage_value_id)"
        )
    query = f"select {texts}, {schema} from {rows} as messages where {quote(value)} is not null"
    found = question.project.rows(f"{query} limit 1000")

    def said(*names: str) -> str:
        return ", ".join(f"get_json_object({opened_value}, '$.{name}')" for name in names)

    def source(name: str) -> str:
        places = [f"source.{name}", f"__source_{name}", f"__{name}"]
        places += [f"payload.{place}" for place in places]
        return f"nullif(coalesce({said(*places)}), '')"

    def are_of(tables: Collection[str]) -> str:
        names = ", ".join(map(literal, sorted(tables)))
        full_name = (
            f"concat_ws('.', coalesce({source('schema')}, {source('db')}), {source('table')})"
        )
        return f"(lower({source('table')}) in ({names}) or lower({full_name}) in ({names}))"

    table = {question.table.lower()} if question.table else set()
    if question.undeclared:
        parts = ("payload.after", "after", "payload.before", "before", "payload")
        whole = f"get_json_object({opened_value}, '$')"
        wanted = [has_field(f"coalesce({said(*parts)}, {whole})", question.undeclared)]
        wanted += [are_of(table)] if table else []
        if metadata is not None:
            # Only what these schemas describe is opened.
            fields = (literal(json.dumps(name)) for name in question.undeclared)
            has_one = " or ".join(f"contains(`schema`, {field})" for field in fields)
            ids = f"select try_cast(id as bigint) from {metadata.relation} where {has_one}"
            wanted.append(f"afterimage_value_id in ({ids})")
        found = [
            *found,
            *question.project.rows(f"{query} and {' and '.join(wanted)} limit 1000"),
        ]
    listed = question.listed if metadata is None else []
    asked = table or {name.lower() for name in listed}
    shown = [{name.lower() for name in _names_in(_opened(text)[0])} for text, *_ in found]
    if not asked or any(bool(names & asked) == bool(table) for names in shown if names):
        return found
    is_wanted = are_of(asked) if table else f"not {are_of(asked)}"
    return [*found, *question.project.rows(f"{query} and {is_wanted} limit 1000")]


def _why_no_row(texts: Sequence[Sequence[str | None]]) -> str:
    """Say what the first messages may be, if none of them shows a row."""
    first = next((str(text) for text, *_ in texts if text), "")
    if re.match(r'\0.{2,4}\{"', first, re.DOTALL):
        return (
            "They are JSON behind the id of a schema (JSON Schema): read a view of this table that"
            " has substring(value, 6) as value, and substring(key, 6) as key"
        )
    if any(_opened(text)[0] for text, *_ in texts):
        return FLATTENED_ROWS
    return (
        "If they are in Avro, give --metadata, the table with the registry's schemas (id, schema),"
        " or land the topic with --registry"
    )


_NULL_AS_DEFAULT = (
    "Unless the connector has value.converter.replace.null.with.default=false (for Confluent's"
    " Avro, value.converter.ignore.default.for.nullables=true; for flattened rows also"
    " replace.null.with.default=false in ExtractNewRecordState), it writes NULL in a column with a"
    ' default as that default: see "NULL in a column with a default" in'
    " docs/systems/debezium_messages.md."
)

# Of the time of a change, in a flattened row.
_UNITS = ("ms", "us", "ns")


def _number_in(cell: Any) -> Any:
    """Return a value; of a decimal with a scale of its own a number that has decimal(38,10)."""
    return Decimal("0.5") if _is_scaled(cell) else cell


def _is_scaled(cell: Any) -> bool:
    """Whether a value is a decimal with a scale of its own (VariableScaleDecimal)."""
    is_decimal = isinstance(cell, dict) and set(cell) == {"scale", "value"}
    return is_decimal and isinstance(cell["scale"], int)


def _is_place(sequence: Any) -> bool:
    """Whether staging can read a `source.sequence`. An old connector of YugabyteDB had others."""
    return re.fullmatch(r'\[(null|"\d{1,20}"), *"\d{1,20}"\]', str(sequence or "")) is not None


def _is_shape(cell: Any) -> bool:
    """Whether a value is a `geometry` or a `geography` of PostGIS. (A `point` has `x` and `y`.)"""
    return isinstance(cell, dict) and set(cell) == {"wkb", "srid"}


# What a number of so many units since 1970 is in, and the precision that stands for it.
_COUNTS = {1: ("milliseconds", 3), 1_000: ("microseconds", 6), 1_000_000: ("nanoseconds", 9)}


def _time_in(cell: Any) -> tuple[str, int]:
    """Return the unit and the precision of a number that may be a time of 2000 to 2099."""
    if isinstance(cell, int):
        for factor, unit in _COUNTS.items():
            if 946_684_800_000 <= cell / factor < 4_102_444_800_000:
                return unit
    return "", 0


def _time_note(name: str, found: Collection[tuple[str, int]]) -> str | None:
    """Return what to say of a column all of whose values may be times that count one unit."""
    unit, precision = next(iter(found)) if len(found) == 1 else ("", 0)
    if not unit:
        return None
    return (
        f"{name}: read as {unit} since 1970, its numbers are times of 2000 to 2099. If it is a"
        f" time, declare timestamp({precision}) or timestamp_ntz({precision})."
    )


def _is_flattened(message: Mapping[str, Any]) -> bool:
    return not {"__op", "__deleted"}.isdisjoint(message)


def _names_in(message: Mapping[str, Any]) -> list[str]:
    """Return the name and the full name of the table of a message; none if it names none.

    A flattened row has them beside its columns, by the names that the macro reads.
    """
    source: Any = message.get("source")

    def said(name: str) -> str:
        if _is_flattened(message):
            return str(message.get(f"__source_{name}") or message.get(f"__{name}") or "")
        return str(source.get(name) or "") if isinstance(source, dict) else ""

    name = said("table")
    schema = said("schema") or said("db")
    return [name, ".".join(filter(None, (schema, name)))] if name else []


_CONNECT_NAMES = {"int": "int32", "long": "int64"}


def _connect_fields(avro_schema: str | None) -> list[dict[str, Any]]:
    """Return the fields of an Avro schema as those of a Kafka Connect schema."""
    try:
        return _fields_of(json.loads(avro_schema or "{}"), {})
    except (ValueError, AttributeError, KeyError, TypeError):
        return []


def _fields_of(record: Any, known: dict[str, Any]) -> list[dict[str, Any]]:
    known[record.get("name")] = record
    fields = []
    for one in record.get("fields") or []:
        kind = one["type"]
        if isinstance(kind, list):
            kind = next(branch for branch in kind if branch != "null")
        if isinstance(kind, str):
            # A type that has been described before is named, with its namespace or without.
            kind = known.get(kind.rpartition(".")[2], {"type": kind})
        fields.append(
            {
                "field": one["name"],
                "type": _CONNECT_NAMES.get(kind["type"], kind["type"]),
                "name": kind.get("connect.name"),
                "items": _items_of(kind),
                "optional": isinstance(one["type"], list),
                "default": one.get("default"),
                "parameters": {
                    "scale": kind.get("scale"),
                    "connect.decimal.precision": kind.get("precision"),
                },
                "fields": _fields_of(kind, known) if kind["type"] == "record" else [],
            }
        )
    return fields


def _items_of(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of the items of an Avro array, as Kafka Connect describes it."""
    items = kind.get("items")
    if isinstance(items, list):
        items = next((branch for branch in items if branch != "null"), None)
    if not isinstance(items, dict):
        items = {"type": items}
    return {
        "type": _CONNECT_NAMES.get(items["type"], items["type"]),
        "name": items.get("connect.name"),
    }


def _opened(text: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the payload of a message or of its key, and the fields of its schema."""
    try:
        message = read_json(text or "{}")
    except ValueError:
        return {}, []
    if isinstance(message, dict) and set(message) == {"schema", "payload"}:
        schema = message["schema"] if isinstance(message["schema"], dict) else {}
        fields = schema.get("fields")
        message = message["payload"]
        if isinstance(message, dict):
            return message, fields if isinstance(fields, list) else []
    return (message if isinstance(message, dict) else {}), []


_CONNECT_TYPES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "bytes": "binary",
    "array": "array<string>",
    "Date": "date",
    "Timestamp": "timestamp(3)",
    "MicroTimestamp": "timestamp(6)",
    "NanoTimestamp": "timestamp(9)",
    "ZonedTimestamp": "timestamp",
    "IsoDate": "date",
    "IsoTimestamp": "timestamp",
    "Time": "time(3)",
    "MicroTime": "time(6)",
    "NanoTime": "time(9)",
    "IsoTime": "time(6)",
    "VariableScaleDecimal": "decimal(38,10)",
}


def _declared_type(field: Mapping[str, Any]) -> str:
    """Return the type of a field of a Kafka Connect schema as the macro takes it."""
    logical = str(field.get("name") or "").rpartition(".")[2]
    parameters = field.get("parameters") or {}
    if logical == "Decimal":
        precision, scale = _digits(parameters)
        return (
            f"decimal({min(precision, MOST_DIGITS)},{scale})" if scale <= MOST_DIGITS else "string"
        )
    return _CONNECT_TYPES.get(logical) or _CONNECT_TYPES.get(str(field.get("type")), "string")


def _digits(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return the precision and the scale of a decimal. Avro's has the scale 0 if it says none.

    Spark's scale is at most the precision; PostgreSQL's numeric(2,4) holds up to 0.0099.
    """
    precision = int(parameters.get("connect.decimal.precision") or MOST_DIGITS)
    scale = int(parameters.get("scale") or 0)
    # A NUMBER(20,-2) of Oracle has 22 digits before the point.
    return (max(precision, scale), scale) if scale >= 0 else (precision - scale, 0)


def _too_wide(field: Mapping[str, Any]) -> str | None:
    """Return what to say of a decimal of more digits than Spark's have; none for other fields."""
    if str(field.get("name") or "").rpartition(".")[2] != "Decimal":
        return None
    precision, scale = _digits(field.get("parameters") or {})
    if precision <= MOST_DIGITS and scale <= MOST_DIGITS:
        return None
    effect = f"so a number of more than {MOST_DIGITS - scale} digits before the point is rejected"
    if scale > MOST_DIGITS:
        effect = "so it has the text of the message: Base64, unless decimal.handling.mode is string"
    return (
        f"{field['field']}: {_declared_type(field)}, as a decimal of Spark has at most"
        f" {MOST_DIGITS} digits, and decimal({precision},{scale}) has more, {effect}."
    )


def _null_may_be_default(field: Mapping[str, Any]) -> bool:
    """Whether a converter that replaces NULL by the default of a column does so in a field."""
    return bool(field.get("optional")) and field.get("default") is not None


def _spark_type(declared: str) -> str:
    """Return the type that a column has which the macro reads as a declared one."""
    base = declared.partition("(")[0]
    return {"time": "string", "timestamp": base, "timestamp_ntz": base}.get(base, declared)


# The items of arrays for which PostgreSQL's connector has a placeholder.
_ITEMS_WITH_PLACEHOLDER = {(kind, None) for kind in ("string", "int32", "int64", "bytes")} | {
    ("int32", "io.debezium.time.Date"),
    ("string", "io.debezium.data.Uuid"),
    ("string", "io.debezium.data.Json"),
}
# Beside arrays: `bit`, and what is written as an object. A `point` is too small to be left out.
_WITHOUT_PLACEHOLDER = {"Bits", "Geometry", "Geography", "SparseDoubleVector"}

_JSON = "io.debezium.data.Json"


def _lacks_placeholder(field: Mapping[str, Any]) -> bool:
    """Whether PostgreSQL's connector has no placeholder for a field, and writes NULL instead."""
    if field.get("type") != "array":
        return str(field.get("name") or "").rpartition(".")[2] in _WITHOUT_PLACEHOLDER
    items = field.get("items") or {}
    return (items.get("type"), items.get("name")) not in _ITEMS_WITH_PLACEHOLDER
