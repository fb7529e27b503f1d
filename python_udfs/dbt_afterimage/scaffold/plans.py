"""Plans models from what a table shows: the key, the columns, and the source macro's arguments.

Only the source macros know a dialect, so the plans ask their private macros.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Context, Decimal
from itertools import pairwise, product
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, Project, literal, quote
from dbt_afterimage.scaffold.keys import NoKey, propose
from dbt_afterimage.scaffold.landed import Landed, names_of, rows_of, schema_ids, text_literal
from dbt_afterimage.scaffold.systems import header_name, header_prefix, sequences
from dbt_afterimage.text import visible
from dbt_afterimage.udfs.masks import MaskError, decode_change_mask


class SeveralTables(AfterimageError):
    """A landed table holds the messages, or the events, of several tables.

    Attributes:
        tables: Their names.
        staged: Those that have a staging model.
    """

    def __init__(self, what: str, tables: Sequence[str], staged: Sequence[str] = ()) -> None:
        """Say what belongs to them."""
        self.tables = sorted({one.lower(): one for one in reversed(tables)}.values())
        self.staged = staged
        super().__init__(
            f"{what} belong to several tables: choose one with --table: {', '.join(self.tables)}"
        )


class NothingLanded(AfterimageError):
    """What is landed now does not show what a plan needs: it may have been taken in and deleted."""


@dataclass(frozen=True)
class Question:
    """The input of a plan.

    Attributes:
        landed: The landed table.
        others: The tables given with it: `base`, `metadata`, `tracking`, `uow`, `lsn_times`.
        key: The key columns; empty if they are to be guessed.
        table: The source table, if the landed one holds several.
        arguments: Further arguments of the source macro.
        written_table, written_columns, written_number: What the staging model has that `init` has
            written (of OpenEdge the number of the source table). What is landed now may be of
            another table, or have less columns.
        written_metadata: Whether that model has its columns from metadata messages.
        written_absent: Its `null_is_absent`; none if it has none.
        written_places: Its `position` and its `headers`, as they stand there; none for one that it
            does not have, and empty without a model.
        undeclared: Columns that its table warns of, as messages have them and it does not.
        is_staged: Whether the landed table has a staging model, whoever has written it.
        listed: Source tables of it that the list has, if the question is for the others.
    """

    project: Project
    landed: Landed
    others: Mapping[str, Landed]
    key: Sequence[str]
    table: str | None
    arguments: Mapping[str, Any]
    written_table: str | None = None
    written_columns: Sequence[Column] = ()
    written_number: str | None = None
    written_metadata: bool = False
    written_absent: Sequence[str] | None = None
    written_places: Mapping[str, str | None] = field(default_factory=dict)
    undeclared: Sequence[str] = ()
    is_staged: bool = False
    listed: Sequence[str] = ()

    def with_written(self, columns: Sequence[Column]) -> list[Column]:
        """Return the columns that the model has, as wide as they are now, and the new ones."""
        found = {one.name.lower(): one for one in columns}
        written = {one.name.lower(): one for one in self.written_columns}
        return [
            *(
                Column(one.name, _wider(one.type, found.get(name, one).type))
                for name, one in written.items()
            ),
            *(one for name, one in found.items() if name not in written),
        ]

    def check_written(self, what: str, tables: Collection[str]) -> None:
        """Check that the tables found are the one that the model is of, and none is listed.

        Raises:
            SeveralTables: It is of another one, or some are listed.
        """
        others = [*self.listed, *([self.written_table] if self.written_table else [])]
        is_one = all(is_same_table(one, other) for one in tables for other in others)
        if self.listed or not is_one:
            raise SeveralTables(what, [*tables, *others])


@dataclass
class Plan:
    """The input of the templates.

    Attributes:
        table: The source table's name.
        call: Arguments of the source macro, beside the key, as Jinja.
        landed_rows: What every_row_accounted_for counts; none if it is unknown which landed rows
            belong to this table.
        notes: What was guessed, and what to check.
    """

    table: str
    key: list[str]
    columns: list[Column]
    call: dict[str, str] = field(default_factory=dict)
    landed_rows: str | None = None
    has_before_images: bool = True
    expects_tombstones: bool = True
    notes: list[str] = field(default_factory=list)


def qlik_change_table(question: Question) -> Plan:
    """Plan for a Qlik change table. The masks of deletes flag the key's columns alone."""
    landed, arguments = question.landed, question.arguments
    prefix = header_prefix(landed.columns, arguments)
    types = {c.name: c.type for c in landed.columns if header_name(c.name, prefix) is None}
    if not types:
        raise AfterimageError(f"{landed.name} has only header columns")
    columns, encoding = arguments.get("columns"), arguments.get("mask_encoding")
    layout = question.project.macro(
        "_qlik_layout",
        relation=landed.relation,
        unique_key=[columns[0] if columns and isinstance(columns, list) else next(iter(types))],
        columns=columns,
        header_prefix=prefix,
        header_columns=arguments.get("header_columns"),
        mask_encoding=encoding,
    )
    data = [Column(name, types[name]) for name in layout["columns"]]
    plan = Plan(
        re.sub(r"(?i)__ct$", "", landed.identifier),
        list(question.key),
        data,
        {} if prefix == "header__" else {"header_prefix": text_literal(prefix)},
        landed.reference,
    )
    if not plan.key:
        header, ordinals = layout["header"], layout["ordinals"]
        # Digits alone may have been loaded as a number.
        mask, is_binary = header["change_mask"], layout["mask_is_binary"]
        deleted = f"{header['change_oper']} = 'D' or {header['operation']} = 'DELETE'"
        masks = question.project.rows(
            f"select {f'hex({mask})' if is_binary else f'cast({mask} as string)'}, count(*)"
            f" from {landed.relation} where {deleted} group by 1 order by 2 desc limit 1000"
        )
        deletes: Counter[tuple[int, ...]] = Counter()
        for text, count in masks:
            # A Python function costs Spark more than the query.
            with suppress(MaskError):
                landed_mask = bytes.fromhex(text) if is_binary and text is not None else text
                flagged = decode_change_mask(landed_mask, layout["header_columns"], encoding)
                if flagged and flagged[-1] <= len(ordinals):
                    deletes[tuple(flagged)] += int(count)
        places = min(deletes, key=lambda flagged: (-deletes[flagged], flagged), default=())
        if not places or len(places) >= len(data):
            created = question.project.macro("_qlik_is_insert", header=header)
            why = "no mask of a delete flags some of the columns"
            raise _no_key(question, why, data, created, deleted)
        plan.key = [ordinals[place - 1] for place in places]
        evidence = f"the change masks of {deletes[places]} deletes, which flag the key alone"
        plan.notes.append(_guess(plan.key, evidence))
    return plan


def qlik_messages(question: Question) -> Plan:
    """Plan for Qlik's messages: by their metadata, else by the data of the first of them."""
    landed, table = question.landed, question.table
    value = str(question.arguments.get("value", "value"))
    metadata = question.others.get("metadata", landed)
    schemas = question.project.macro(
        "qlik_message_schemas", relation=metadata.relation, value=value
    )
    of_table = ""
    if table:
        condition = question.project.macro(
            "_is_table", table=table, schema_name="schema_name", table_name="table_name"
        )
        of_table = f" and {condition}"
    rows = question.project.query(
        "select to_json(struct(schema_name, table_name, schema_id, column_name, spark_type,"
        f" primary_key_position)) from ({schemas}) where reject_reason is null{of_table}"
        " order by published_at desc nulls last, table_version desc nulls last, schema_id desc,"
        " ordinal asc, column_name asc"
    )
    plan = Plan("", list(question.key), [], landed_rows=None if table else landed.reference)
    # Metadata that came after the model have other types than its guess, and it would be refused.
    keeps_columns = question.written_columns and not question.written_metadata
    if rows and (not keeps_columns or "metadata" in question.others):
        tables = {_full_name(row): row["table_name"] for row in rows}
        of_several = len(tables) > 1
        if of_several:
            with_data = _with_data(question, value, rows)
            tables = {name: one for name, one in tables.items() if name in with_data} or tables
        if len(tables) > 1:
            raise SeveralTables(f"the metadata messages in {metadata.name}", list(tables))
        if not table:
            question.check_written(f"the metadata messages in {metadata.name}", tables)
        [(full_name, plan.table)] = tables.items()
        rows = [row for row in rows if _full_name(row) == full_name]
        newest = [row for row in rows if row["schema_id"] == rows[0]["schema_id"]]
        plan.columns = [Column(row["column_name"], row["spark_type"]) for row in newest]
        if table or of_several or question.written_table:
            plan.call["table"] = text_literal(full_name)
        plan.call["metadata"] = metadata.reference
        keys = {int(r.get("primary_key_position") or 0): r["column_name"] for r in newest}
        guessed = [name for position, name in sorted(keys.items()) if position]
        guessed_from = "primaryKeyPosition of the metadata"
    elif "metadata" in question.others or question.written_metadata:
        of = f" of the table {table}" if table else ""
        keep = " and its staging model reads the columns from them: land one again"
        raise NothingLanded(
            f"{metadata.name} has no metadata message{of}{keep * question.written_metadata}"
        )
    else:
        named, bodies = _json_bodies(question, value)
        if not table:
            names = [named.full_name] if named is not None else []
            question.check_written(f"the messages in {landed.name}", names)
        found, guessed, is_whole = _json_columns(bodies, question.arguments.get("columns"))
        plan.columns = question.with_written(found)
        plan.table = table or name_of_topic(landed.identifier)
        if named is not None:
            plan.table = named.table
            # Messages of another table may come to the topic later.
            table = table or named.full_name
        if table:
            plan.call["table"] = text_literal(table)
            plan.landed_rows = None
        plan.call["columns"] = _column_list(plan.columns)
        why = "the model was written without metadata" if rows else "there is no metadata message"
        guess = "" if is_whole else " No message has all of them, so their order is a guess."
        plan.notes.append(
            f"columns: taken from the data of {len(bodies)} messages, as {why}. Check their types,"
            f" and their order, which the masks depend on.{guess}"
        )
        guessed_from = "changeMask of a DELETE, which flags the key alone"
    if not plan.key:
        if not guessed:
            why = "neither metadata nor the mask of a DELETE shows it"
            raise _no_key(question, why, plan.columns)
        plan.key = guessed
        plan.notes.append(_guess(guessed, guessed_from))
    return plan


def _with_data(question: Question, value: str, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the tables that metadata messages describe and the landed messages are of.

    The first messages say it. A topic that is looked at for the first time, or whose tables are
    listed one by one, is asked as a whole if some are left. (One with a single table need not have
    more, and would be read each time.)
    """
    project, relation = question.project, str(question.landed.relation)
    here = schema_ids(project, relation, value)
    tables = {_full_name(row) for row in rows}
    found = {_full_name(row) for row in rows if row["schema_id"] in here}
    listed = {one for one in tables for other in question.listed if is_same_table(one, other)}
    left = tables - found - listed
    if left and (question.listed or not question.is_staged):
        known = {row["schema_id"] for row in rows if _full_name(row) not in left}
        here = schema_ids(project, relation, value, known)
        found |= {_full_name(row) for row in rows if row["schema_id"] in here}
    return found


def name_of_topic(identifier: str) -> str:
    """Return what to call the only table of a topic that does not say its name."""
    return re.sub(r"(?i)_+(messages|topic)$", "", identifier)


def _full_name(row: Mapping[str, Any]) -> str:
    return ".".join(filter(None, (row.get("schema_name"), row["table_name"])))


def described_ids(project: Project, relation: str, value: str) -> set[str]:
    """Return the ids of the schemas that Qlik's metadata messages describe.

    Args:
        project: The dbt project.
        relation: The landed table, as schema.table.
        value: The column with the messages.
    """
    schema, _, table = relation.rpartition(".")
    messages = project.relation(schema, table, quoted=False)
    schemas = project.macro("qlik_message_schemas", relation=messages, value=value)
    rows = project.rows(f"select distinct schema_id from ({schemas}) where reject_reason is null")
    return {str(row[0]) for row in rows}


@dataclass(frozen=True)
class _Named:
    """A table that JSON messages name, with its schema if they name that."""

    table: str
    full_name: str


@dataclass(frozen=True)
class _Body:
    """A data message in JSON."""

    headers: Mapping[str, Any]
    data: Mapping[str, Any]


def _json_bodies(question: Question, value: str) -> tuple[_Named | None, list[_Body]]:
    """Return the table that JSON messages with `data` name, and the first of these messages.

    The messages are those of the table asked for, or of the only one there is. The table is None
    unless every message names it, or the model has one: where `table` is given, staging rejects
    those that name none.

    Messages with a column that the model lacks follow, if its table warns of some.

    Raises:
        SeveralTables: They are of several.
        AfterimageError: There is no such message; or they are of several topics, and only these
            may say of which table they are.
    """
    text = f"cast({quote(value)} as string)"
    here = {column.name.lower(): quote(column.name) for column in question.landed.columns}

    def said(*parts: str) -> str:
        paths = (f"$.{body}{part}" for body in ("message.", "") for part in parts)
        return "coalesce(" + ", ".join(f"get_json_object({text}, '{one}')" for one in paths) + ")"

    # As _qlik_located_messages reads them.
    schema = said("lineage.schema", "schema", "headers.schema")
    table = said("lineage.table", "table", "headers.table")
    messages = (
        f"(select {text} as message, {said('data')} as data, {table} as table_name,"
        f" concat_ws('.', {schema}, {table}) as full_name, {here.get('topic', 'null')} as topic"
        f" from {question.landed.relation} where {said('data')} is not null) as messages"
    )
    rows = question.project.rows(f"select distinct table_name, full_name, topic from {messages}")
    tables = {full_name.lower(): _Named(name, full_name) for name, full_name, _ in rows if name}
    asked, condition = (question.table or "").lower(), "true"
    if asked:
        tables = {name: one for name, one in tables.items() if asked in (name, one.table.lower())}
        names = ", ".join(map(literal, tables))
        condition = f"lower(full_name) in ({names})" if tables else "table_name is null"
    elif question.written_table:
        # The model rejects the others.
        condition = "table_name is not null"
    # Asked for by its name alone, a table may be in one schema, which some messages leave out.
    if len(tables.keys() - {asked}) > 1:
        full_names = [one.full_name for one in tables.values()]
        raise SeveralTables(f"the messages in {question.landed.name}", full_names)
    is_named = asked or question.written_table or all(name for name, *_ in rows)
    topics = sorted({topic for *_, topic in rows if topic})
    # A model that is there has been written for all of them.
    if len(topics) > 1 and not (is_named or question.is_staged or question.listed):
        raise AfterimageError(
            f"{question.landed.name} has messages of {len(topics)} topics"
            f" ({', '.join(map(visible, topics[:5]))}{', …' * (len(topics) > 5)}) that do not name"
            " their table, so rows of several tables would become one. Give a table with the"
            " messages of one topic: land each topic into its own, and put this one under `ignore`"
            " in afterimage.yml; or write and build a model that selects one (where topic ="
            " '…'). If the topics are shards of one table, write its staging model yourself, and"
            " run this again"
        )
    bodies = []
    query = f"select message from {messages} where {condition}"
    texts = question.project.rows(f"{query} limit 1000")
    if question.undeclared:
        has_one = _has_field("data", question.undeclared)
        texts = [*texts, *question.project.rows(f"{query} and {has_one} limit 1000")]
    for (text,) in texts:
        try:
            message = _read_json(text)
        except ValueError:
            continue  # staging rejects it, with its reason
        message = message if isinstance(message, dict) else {}
        body = message["message"] if isinstance(message.get("message"), dict) else message
        headers = body["headers"] if isinstance(body.get("headers"), dict) else {}
        if isinstance(body.get("data"), dict):
            bodies.append(_Body(headers, body["data"]))
    if not any(body.data for body in bodies):
        of = f" of the table {question.table}" if asked else ""
        raise NothingLanded(
            f"{question.landed.name} has no JSON message{of} with `data` and no metadata message,"
            " so its columns are unknown. Give --metadata, the table with the metadata messages"
        )
    return next(iter(tables.values())) if tables and is_named else None, bodies


def _has_field(row: str, names: Sequence[str]) -> str:
    """Return SQL: whether an object in JSON, as Spark writes it, has one of some fields."""
    fields = [literal(f"{json.dumps(name, ensure_ascii=False)}:") for name in names]
    return f"({' or '.join(f'contains({row}, {one})' for one in fields)})"


def _json_columns(bodies: Sequence[_Body], given: Any) -> tuple[list[Column], list[str], bool]:
    """Return the columns of the `data` of messages of one table, the key, and if one has them all.

    The types hold all the values seen. The order, which is that of a mask's bits, is the one of the
    columns given, if any are, else of the fullest message: a DELETE may have the key alone. The key
    is what the mask of a DELETE flags, if a message has all columns.
    """
    kinds: dict[str, Sequence[str]] = {}
    names: dict[str, str] = {}
    delete_mask = widest_mask = 0
    for body in bodies:
        mask = body.headers.get("changeMask")
        if isinstance(mask, str) and re.fullmatch("[0-9A-Fa-f]+", mask):
            widest_mask = max(widest_mask, int(mask, 16))
            if body.headers.get("operation") == "DELETE":
                delete_mask = int(mask, 16)
    fullest_first = sorted(bodies, key=lambda body: -len(body.data))
    for body in fullest_first:
        for column, cell in body.data.items():
            names.setdefault(column.lower(), column)
            kinds[column.lower()] = _common_kinds(cell, kinds.get(column.lower()))
    columns = [Column(names[column], _best(kind)) for column, kind in kinds.items()]
    is_whole = len(fullest_first[0].data) == len(kinds) and widest_mask < 1 << len(kinds)
    # Of columns that are given wrongly the macro says what is wrong.
    if isinstance(given, list) and all(isinstance(one, dict) and "name" in one for one in given):
        columns = [Column(str(one["name"]), str(one.get("type"))) for one in given]
        is_whole = True
    flagged = [c.name for place, c in enumerate(columns) if delete_mask >> place & 1]
    return columns, flagged if is_whole and len(flagged) < len(columns) else [], is_whole


# Of a decimal in Spark.
_MOST_DIGITS = 38


def _read_json(text: str) -> Any:
    """Read JSON with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


_KINDS = ("boolean", "bigint", "decimal(38,10)", "string")


def _common_kinds(cell: Any, others: Sequence[str] | None) -> Sequence[str]:
    """Return the types that hold a value, and others, exactly; the best one comes first."""
    fits = {"string"}
    if cell is None:
        fits = set(_KINDS)
    elif isinstance(cell, bool):
        fits.add("boolean")
    elif isinstance(cell, int | Decimal):
        number = Decimal(cell)
        if isinstance(cell, int) and -(2**63) <= cell < 2**63:
            fits.add("bigint")
        is_small = -(10**28) < number < 10**28
        if is_small and number == number.quantize(
            Decimal("1e-10"), context=Context(prec=_MOST_DIGITS)
        ):
            fits.add("decimal(38,10)")
    return [kind for kind in others or _KINDS if kind in fits]


def _best(kinds: Sequence[str]) -> str:
    # Of a column that was NULL in each message nothing is known.
    return "string" if len(kinds) == len(_KINDS) else kinds[0]


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
    guessed: list[str] = []
    updates = 0
    in_log_order = flattened = shows_deletes = shows_operations = shows_snapshots = False
    shows_transactions = False
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
            in_log_order = in_log_order or bool(source.get("sequence"))
            updates += message["op"] == "u" and isinstance(message.get("before"), dict)
            after: dict[str, Any] = next((f for f in schema if f.get("field") == "after"), {})
            schema = after.get("fields") or []
        row = (message.get("after") or message.get("before")) if is_envelope else message
        if not isinstance(row, dict):
            continue  # a truncate, or staging rejects it
        flattened = flattened or not is_envelope
        shows_deletes = shows_deletes or "__deleted" in row
        shows_operations = shows_operations or "__op" in row
        shows_snapshots = shows_snapshots or bool({"__source_snapshot", "__snapshot"} & {*row})
        shows_transactions = shows_transactions or any(
            f"__{prefix}{field}" in row
            for prefix in ("source_", "")
            for field in ("txId", "gtid", "commit_lsn")
        )
        declared.update({f["field"]: _declared_type(f) for f in schema if "field" in f})
        wide.update({f["field"]: _too_wide(f) for f in schema if "field" in f})
        if {"lsn", "__lsn", "__source_lsn"} & {*row, *(source if is_envelope else ())}:
            unmarked.update({f["field"]: _lacks_placeholder(f) for f in schema if "field" in f})
        for column, cell in row.items():
            if is_envelope or not column.startswith("__"):
                kinds[column] = _common_kinds(cell, kinds.get(column))
        guessed = guessed or list(_opened(key_text)[0])
    if not kinds:
        raise NothingLanded(
            f"{landed.name} has no Debezium message with a row, or it is in Avro: give --metadata,"
            " the table with the registry's schemas (id, schema), or land its topic with --registry"
        )
    if len(tables) > 1:
        raise SeveralTables(f"the messages in {landed.name}", list(tables))
    if not question.table:
        question.check_written(f"the messages in {landed.name}", tables)
    typed = question.with_written(
        [Column(name, declared.get(name) or _best(kind)) for name, kind in kinds.items()]
    )
    plan = Plan(
        next(iter(tables), landed.identifier).rpartition(".")[2],
        list(question.key) or guessed,
        [Column(one.name, _spark_type(one.type)) for one in typed],
        {"columns": _column_list(typed)},
        landed.reference,
        has_before_images=updates > 0,
    )
    has_offsets = {"partition", "offset"} <= set(here)
    shown = {
        "position": f"['{here['partition']}', '{here['offset']}']"
        if has_offsets and not in_log_order
        else None,
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
    if flattened and not shows_transactions:
        plan.notes.append(
            "flattened rows: they do not name their transaction. Add source.txId to add.fields"
            " (MySQL and MariaDB: source.gtid; SQL Server: source.commit_lsn). Without it a row may"
            " be lost where rows take each other's keys in one statement."
        )
    plan.notes += filter(None, wide.values())
    if not declared:
        plan.notes.append(
            "columns: taken from the values of the messages, as they have no schema. Check"
            " their types: a decimal may be Base64, and a date or a time a number."
        )
    if not plan.key:
        raise _no_key(question, "no message has a key", plan.columns)
    if not question.key:
        # A part of the key would make one row of several.
        lacking = [name for name in guessed if name not in kinds]
        if lacking:
            why = f"the keys of the messages have {', '.join(lacking)}, which no row has"
            raise _no_key(question, why, plan.columns)
        plan.notes.append(_guess(plan.key, "the keys of the messages"))
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
        wanted = [_has_field(f"coalesce({said(*parts)}, {whole})", question.undeclared)]
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
        message = _read_json(text or "{}")
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
            f"decimal({min(precision, _MOST_DIGITS)},{scale})"
            if scale <= _MOST_DIGITS
            else "string"
        )
    return _CONNECT_TYPES.get(logical) or _CONNECT_TYPES.get(str(field.get("type")), "string")


def _digits(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return the precision and the scale of a decimal. Avro's has the scale 0 if it says none.

    Spark's scale is at most the precision; PostgreSQL's numeric(2,4) holds up to 0.0099.
    """
    precision = int(parameters.get("connect.decimal.precision") or _MOST_DIGITS)
    scale = int(parameters.get("scale") or 0)
    return max(precision, scale), scale


def _too_wide(field: Mapping[str, Any]) -> str | None:
    """Return what to say of a decimal of more digits than Spark's have; none for other fields."""
    if str(field.get("name") or "").rpartition(".")[2] != "Decimal":
        return None
    precision, scale = _digits(field.get("parameters") or {})
    if precision <= _MOST_DIGITS and scale <= _MOST_DIGITS:
        return None
    effect = f"so a number of more than {_MOST_DIGITS - scale} digits before the point is rejected"
    if scale > _MOST_DIGITS:
        effect = "so it has the text of the message: Base64, unless decimal.handling.mode is string"
    return (
        f"{field['field']}: {_declared_type(field)}, as a decimal of Spark has at most"
        f" {_MOST_DIGITS} digits, and decimal({precision},{scale}) has more, {effect}."
    )


_WIDENINGS = [["tinyint", "smallint", "int", "bigint"], ["float", "double"]]


def _wider(written: str, found: str) -> str:
    """Return a column's new type if that has all values of its type, else its type."""
    for kinds in _WIDENINGS:
        if written in kinds and found in kinds:
            return max(written, found, key=kinds.index)
    digits = [re.fullmatch(r"decimal\((\d+),(\d+)\)", one) for one in (written, found)]
    (whole, scale), (new_whole, new_scale) = (
        (int(one[1]) - int(one[2]), int(one[2])) if one else (0, 0) for one in digits
    )
    has_all = all(digits) and new_whole >= whole and new_scale >= scale
    return found if has_all else written


def is_same_table(one: str, other: str) -> bool:
    """Whether two names mean one table.

    Args:
        one: A name.
        other: Another; one of the two may lack the schema.
    """
    parts, others = one.strip().lower().split("."), other.strip().lower().split(".")
    fewest = min(len(parts), len(others))
    return parts[-fewest:] == others[-fewest:]


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


def _lacks_placeholder(field: Mapping[str, Any]) -> bool:
    """Whether PostgreSQL's connector has no placeholder for a field, and writes NULL instead."""
    if field.get("type") != "array":
        return field.get("name") == "io.debezium.data.Bits"
    items = field.get("items") or {}
    return (items.get("type"), items.get("name")) not in _ITEMS_WITH_PLACEHOLDER


def netiq_event_log(question: Question) -> Plan:
    """Plan for an event log. `table_key` names the key's columns."""
    landed, base = question.landed, question.others.get("base")
    renamed = question.arguments.get("column_names", {})
    log = question.project.macro(
        "_netiq_log_columns", macro_name="init", relation=landed.relation, column_names=renamed
    )
    ask = question.project.rows
    name = f"trim({log['table_name']})"
    found = ask(
        f"select {name} as name, count(*) as events from {landed.relation} where {name} <> ''"
        " group by 1 order by events desc, name"
    )
    tables = [row[0] for row in found]
    table = question.table or question.written_table
    if not (tables or table):
        raise NothingLanded(f"{landed.name} has no events, so it does not show a table")
    if question.table is None:
        question.check_written(f"the events in {landed.name}", tables)
        if len({one.lower() for one in tables}) > 1:
            raise SeveralTables(f"the events in {landed.name}", tables)
    is_sure = table or question.is_staged
    if base is not None and not is_sure and not is_same_table(tables[0], base.identifier):
        raise AfterimageError(
            f"the events in {landed.name} are of {tables[0]}, and --base is {base.name}. If that"
            f" has the current rows of {tables[0]}, say so with --table {tables[0]}"
        )
    table = table or tables[0]
    is_alone = all(one.lower() == table.lower() for one in tables)
    events = f"from {landed.relation} where lower({name}) = {literal(table.lower())}"
    plan = Plan(table, list(question.key), [], has_before_images=False)
    if not plan.key:
        keys = ask(
            "select to_json(names), count(*) as events from"
            f" (select map_keys(parse_table_key({log['table_key']}).parts) as names {events})"
            " where size(names) > 0 group by names order by events desc, names limit 1"
        )
        if not keys:
            raise NothingLanded(f"no table_key of {table} in {landed.name} can be read. Give --key")
        plan.key = json.loads(keys[0][0])
        plan.notes.append(_guess(plan.key, f"table_key of {keys[0][1]} events"))
    plan.call["table"] = text_literal(table)
    if base is not None:
        plan.columns = base.columns
        plan.key = _spelled(plan.key, base.columns, f"the key (of --base {base.name})")
    else:
        column = f"trim({log['column_name']})"
        logged = ask(
            f"select min({column}) {events} and {column} <> '' group by lower({column})"
            f" order by min({log['record_id']})"
        )
        in_key = {name.lower() for name in plan.key}
        further = [row[0] for row in logged if row[0].lower() not in in_key]
        named = [Column(one, "string") for one in [*plan.key, *further]]
        plan.columns = question.with_written(named)
        plan.notes.append(
            "columns: those that the log names, all as text. Give --base, the table with the"
            " current rows, to get their types."
        )
        [(query_backs,)] = ask(
            f"select count(*) {events} and cast({log['event_type']} as int) in (5, 6, 7, 8)"
        )
        if query_backs:
            plan.notes.append(
                f"{query_backs} events are query-backs: they say that a row changed, but not"
                " how. Without --base they are rejected."
            )
    plan.call["columns"] = _column_list(plan.columns)
    if base is not None:
        plan.call["base"] = base.reference
    condition = f"lower({name}) = {text_literal(table.lower())} or coalesce({name}, '') = ''"
    plan.landed_rows = landed.reference if is_alone else f"({rows_of(landed, condition)})"
    return plan


def db2_change_data(question: Question) -> Plan:
    """Plan for a CD or CCD table. It does not show which columns are the key."""
    landed = question.landed
    found = [c for c in landed.columns if not c.name.upper().startswith("IBMSNAP_")]
    prefix = question.arguments.get("before_prefix", "X") or ""
    images = _before_images(question, found, prefix)
    columns = [column for column in found if column.name not in images.values()]
    if not question.key:
        code = _code(_named("IBMSNAP_OPERATION", landed))
        why = "replication tables do not show it"
        raise _no_key(question, why, columns, f"{code} = 'I'", f"{code} = 'D'")
    plan = Plan(
        re.sub(r"(?i)_+(cd|ccd)$|^(cd|ccd)_+", "", landed.identifier),
        list(question.key),
        columns,
        landed_rows=landed.reference,
    )
    plan.notes += [
        f"{image.name} counts as data, because {_unlike(one, image)}"
        for one, image in _unlike_images(columns, prefix)
    ]
    # A CCD table has the times itself.
    if "uow" in question.others or "IBMSNAP_LOGMARKER" not in map(
        str.upper, names_of(landed.columns)
    ):
        _add_commit_times(plan, question, "uow", "IBMSNAP_UOW")
    return plan


def db2_text_log(question: Question) -> Plan:
    """Plan for the log of a text index. The key's columns have the types of PKnn."""
    landed, base = question.landed, question.others.get("base")
    if base is None:
        raise AfterimageError(
            "give --base, the table with the current rows: the log of a text index has only keys"
        )
    plan = Plan(
        base.identifier,
        list(question.key),
        base.columns,
        {"base": base.reference},
        landed.reference,
        has_before_images=False,
    )
    if not plan.key:
        parts = sorted(
            (c for c in landed.columns if re.fullmatch(r"(?i)pk[0-9]+", c.name)),
            key=lambda column: int(column.name[2:]),
        )
        is_choice = False
        for part in parts:
            fitting = [c for c in base.columns if c.type == part.type and c.name not in plan.key]
            if not fitting:
                raise NoKey(base.name, "for some PKnn no column has its type", base.columns)
            is_choice = is_choice or len(fitting) > 1
            plan.key.append(fitting[0].name)
        quoted = [quote(name) for name in plan.key]
        pairs = " and ".join(
            f"log.{quote(part.name)} = base.{name}"
            for part, name in zip(parts, quoted, strict=True)
        )
        [(rows, keys, matches, misses)] = question.project.rows(
            f"select (select count(*) from {base.relation}),"
            f" (select count(distinct {', '.join(quoted)}) from {base.relation}),"
            f" (select count(*) from {landed.relation} as log"
            f" left semi join {base.relation} as base on {pairs}),"
            f" (select count(*) from {landed.relation} as log"
            f" left anti join {base.relation} as base on {pairs}"
            f" where {_code('OPERATION')} in ('0', '1'))"
        )
        # The right columns in another order match a row by chance.
        if rows != keys or not matches or (is_choice and misses > matches):
            why = f"{', '.join(plan.key)} would fit by type, but not by the rows"
            raise NoKey(base.name, why, base.columns)
        plan.notes.append(
            _guess(
                plan.key,
                f"the types of PKnn: these columns of {base.name} have the same types and are"
                f" unique, and {matches} rows of the log match a row by them",
            )
        )
    return plan


def openedge_change_table(question: Question) -> Plan:
    """Plan for an OpenEdge change table. It does not show which columns are the key."""
    landed, tracking = question.landed, question.others.get("tracking")
    field_map = question.arguments.get("field_map")

    def layout(place: Landed) -> Any:
        return question.project.macro(
            "_openedge_columns", relation=place.relation, declared=[], field_map=field_map
        )

    columns = [Column(one["name"], one["type"]) for one in layout(landed)["data"]]
    if not columns:
        raise AfterimageError(
            f"{landed.name} has only header columns. If it is the tracking table, give the change"
            " table, and this one with --tracking"
        )
    if not question.key:
        why, operation = "change tables do not tell it", layout(landed)["metadata"].get("operation")
        if not operation:
            raise _no_key(question, why, columns)
        code = _code(operation["name"])
        raise _no_key(question, why, columns, f"{code} = '1'", f"{code} = '2'")
    plan = Plan(re.sub(r"(?i)_+cdc$|^cdc_+", "", landed.identifier), list(question.key), columns)
    if tracking is not None:
        plan.call["tracking"] = tracking.reference

    # The number of the source table, if a table has it. The rows of a change table belong to one
    # source table, those of the tracking table to all, though it may show only some just now.
    number, numbered = question.arguments.get("source_table_number"), dict[str, str]()
    for place in [landed, *([tracking] if tracking else [])]:
        metadata = layout(place)["metadata"]
        if "table_number" not in metadata or "sequence" not in metadata:
            continue
        column = numbered[place.name] = quote(metadata["table_number"]["name"])
        if number is None and question.written_number is not None:
            number = plan.call["source_table_number"] = question.written_number
        elif number is None:
            rows = question.project.rows(
                f"select distinct cast({column} as bigint) from {place.relation} order by 1"
            )
            numbers = [str(row[0]) for row in rows if row[0] is not None]
            # The tracking table may show another table's alone. A model of the user's has a number.
            if len(numbers) != 1 or (place is tracking and not question.is_staged):
                raise AfterimageError(
                    f"{place.name} may have changes of several source tables, and has those of"
                    f" {', '.join(numbers) or 'none'} now. Give the number of the table of"
                    f" {landed.name}, its _File-Number in OpenEdge's _File:"
                    " arguments: {source_table_number: N}"
                )
            number = numbers[0]
            plan.call["source_table_number"] = number
            plan.notes.append(f"source_table_number: {number}, the only one in {place.name}.")
    if tracking is not None:
        of_table = f"{numbered[tracking.name]} = {number}" if tracking.name in numbered else None
        plan.landed_rows = f"({rows_of(landed)} union all {rows_of(tracking, of_table)})"
    elif not numbered:
        plan.landed_rows = landed.reference
    return plan


def sqlserver_change_table(question: Question) -> Plan:
    """Plan for a SQL Server change table. It does not show which columns are the key."""
    landed = question.landed
    columns = [column for column in landed.columns if not column.name.startswith("__$")]
    if not question.key:
        code = _code("__$operation")
        why = "change tables do not tell it"
        raise _no_key(question, why, columns, f"{code} = '2'", f"{code} = '1'")
    plan = Plan(
        # A capture instance is named after the schema and the table: dbo_orders_CT.
        re.sub(r"(?i)^dbo_|_+ct$", "", landed.identifier),
        list(question.key),
        columns,
        landed_rows=landed.reference,
    )
    _add_commit_times(plan, question, "lsn_times", "cdc.lsn_time_mapping")
    return plan


def dms_changes(question: Question) -> Plan:
    """Plan for the files of AWS DMS. By default its before-images have only the key."""
    landed, arguments = question.landed, question.arguments
    operation = str(arguments.get("operation", "Op")).lower()
    order = arguments.get("order_by") or sequences(landed.columns)
    has_operation = operation in map(str.lower, names_of(landed.columns))
    if has_operation and (not order or (len(order) > 1 and "order_by" not in arguments)):
        raise AfterimageError(
            f"{landed.name} has {len(order) or 'no'} columns …change_seq, so nothing gives the"
            " order of its changes. Name the columns that do with --arguments '{order_by: [...]}':"
            " times, and the file and the row in it, if the landing kept them. Better, let the task"
            " add a column with the expression $AR_H_CHANGE_SEQ"
        )
    prefix = arguments.get("before_prefix", "BI_") or ""
    images = _before_images(question, landed.columns, prefix)
    named = [*order, *images.values(), str(arguments.get("time", ""))]
    header = {operation, *map(str.lower, named)}
    plan = Plan(landed.identifier, list(question.key), [], landed_rows=landed.reference)
    if "time" not in arguments:
        header |= _add_dms_time(plan, question, operation, header)
    plan.columns = [column for column in landed.columns if column.name.lower() not in header]
    imaged = [column.name for column in plan.columns if column.name.lower() in images]
    unlike = _unlike_images(plan.columns, prefix)
    plan.has_before_images = len(imaged) == len(plan.columns)
    if not plan.key:
        why = "files of DMS do not show it"
        if imaged and not plan.has_before_images and not unlike and has_operation:
            why = _why_no_key(question, imaged, images)
            plan.key = [] if why else imaged
        if not plan.key:
            if not has_operation:
                raise _no_key(question, why, plan.columns, "true", loaded="true")
            code = f"coalesce({_code(_named(operation, landed))}, '')"
            placed = ", ".join(f"nullif({_code(_named(one, landed))}, '')" for one in order)
            loaded = f"{code} = '' or ({code} = 'I' and coalesce({placed}) is null)"
            kinds = f"{code} in ('', 'I')", f"{code} = 'D'", loaded
            raise _no_key(question, why, plan.columns, *kinds)
    for one, image in unlike:
        if one.name.lower() in map(str.lower, plan.key):
            raise AfterimageError(
                f"{image.name} is no before-image of the key, so key changes would be lost:"
                f" {_unlike(one, image)} To do without, --arguments '{{\"before_prefix\": null}}'"
            )
        plan.notes.append(f"{image.name} counts as data, because {_unlike(one, image)}")
    if images:
        plan.call["before_prefix"] = text_literal(prefix)
    if not question.key:
        plan.notes.append(_guess(imaged, "the before-images, which have only the key by default"))
    _add_null_texts(plan, question)
    if not has_operation:
        plan.notes.append(
            f"{landed.name} has no column {arguments.get('operation', 'Op')}: all its rows count as"
            " rows of the full load."
        )
    else:
        code = f"upper(trim({quote(str(arguments.get('operation', 'Op')))}))"
        [(inserts, updates, deletes, loads)] = question.project.rows(
            f"select count_if({code} = 'I'), count_if({code} = 'U'), count_if({code} = 'D'),"
            f" count_if(coalesce({code}, '') = '') from {landed.relation}"
        )
        if updates and not deletes:
            plan.notes.append(
                f"{landed.name} has updates, but no delete. A task with CdcInsertsOnly or"
                " CdcInsertsAndUpdates writes none, so deleted rows stay current."
            )
        by_sequence = set(sequences(landed.columns)) & {_named(name, landed) for name in order}
        if inserts and not loads and not by_sequence:
            plan.notes.append(
                f"{landed.name} has inserts, but no row without an operation, and its order is not"
                " $AR_H_CHANGE_SEQ. If the task has IncludeOpForFullLoad, rows of the full load"
                " count as inserts at the time of their transfer, and undo changes that were"
                " committed before it while the load ran. Switch it off, or let the task write"
                " $AR_H_CHANGE_SEQ."
            )
    return plan


def _add_null_texts(plan: Plan, question: Question) -> None:
    """Name the columns with the text NULL, which DMS writes into CSV files by default."""
    names = [column.name for column in question.landed.columns if column.type == "string"]
    if not names:
        return
    counts = ", ".join(f"count_if({quote(name)} = 'NULL')" for name in names)
    [row] = question.project.rows(f"select {counts} from {question.landed.relation}")
    found = [name for name, count in zip(names, row, strict=True) if int(count)]
    if found:
        plan.notes.append(
            f"{', '.join(found)} {'has' if len(found) == 1 else 'have'} the text NULL. By default"
            " DMS writes it into CSV files in place of NULL, and it would be a value. Set"
            " CsvNullValue to the empty text. Read files that are written already through a model"
            " that makes NULL of it."
        )


def _why_no_key(question: Question, imaged: Sequence[str], images: Mapping[str, str]) -> str:
    """Return why the columns with before-images may not be the key; empty if they are.

    A task may write them for all columns but large objects. Most updates leave the key as it is,
    but each changes one of those.
    """
    code = _code(_named(str(question.arguments.get("operation", "Op")), question.landed))
    pairs = [(quote(name), quote(images[name.lower()])) for name in imaged]
    has_image = " or ".join(f"{image} is not null" for _, image in pairs)
    is_same = " and ".join(f"{name} <=> {image}" for name, image in pairs)
    nulls = " or ".join(f"{name} is null" for name, _ in pairs)
    [(updates, same, lacking)] = question.project.rows(
        f"select count_if({code} = 'U' and ({has_image})),"
        f" count_if({code} = 'U' and ({has_image}) and {is_same}), count_if({nulls})"
        f" from {question.landed.relation}"
    )
    said = f"the columns with before-images are {', '.join(imaged)}"
    if int(lacking):
        rows = "1 row has" if int(lacking) == 1 else f"{lacking} rows have"
        return f"{said}, but {rows} NULL in one of them"
    if int(same) * 2 >= int(updates) > 0:
        return ""
    return f"{said}, and {same} of {updates} updates leave all of them as they are"


def _add_dms_time(plan: Plan, question: Question, operation: str, header: set[str]) -> set[str]:
    """Add the column with DMS's timestamps to the call, and return its name in lower case."""
    columns = question.landed.columns
    times = _dms_times(question, header)
    # DMS writes it behind its operation. A loader of CSV makes timestamps of the texts.
    behind = [
        one.name
        for before, one in pairwise(columns)
        if before.name.lower() == operation
        and one.name.lower() not in header
        and (one.type in ("timestamp", "timestamp_ntz") or one.name in times)
    ]
    if not behind:
        # A text elsewhere may be the table's own, and would be lost as data.
        which = f"Where {' or '.join(times)} is it" if times else "If there is one"
        plan.notes.append(
            "time: no column behind the operation looks like DMS's timestamps, so rows of the full"
            f" load have no time. {which} (TimestampColumnName), name it with --arguments"
            " '{\"time\": …}'."
        )
        return set()
    what = "texts like DMS's timestamps" if behind[0] in times else "the timestamp"
    plan.call["time"] = text_literal(behind[0])
    plan.notes.append(
        f"time: {behind[0]}, {what} behind {_named(operation, question.landed)}. Check it."
    )
    return {behind[0].lower()}


def _dms_times(question: Question, header: set[str]) -> list[str]:
    """Return the text columns outside the header in which all values are DMS timestamps."""
    texts = [
        column.name
        for column in question.landed.columns
        if column.type == "string" and column.name.lower() not in header
    ]
    if not texts:
        return []
    form = "'^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}[.][0-9]{6}$'"
    found = question.project.rows(
        f"select {', '.join(f'every({quote(name)} rlike {form})' for name in texts)}"
        f" from (select * from {question.landed.relation} limit 1000) as first_rows"
    )
    return [name for name, is_time in zip(texts, found[0], strict=True) if is_time]


PLANS: Mapping[str, Callable[[Question], Plan]] = {
    plan.__name__: plan
    for plan in (
        qlik_change_table,
        qlik_messages,
        debezium_messages,
        netiq_event_log,
        db2_change_data,
        db2_text_log,
        openedge_change_table,
        sqlserver_change_table,
        dms_changes,
    )
}


def make(macro: str, question: Question) -> Plan:
    """Return the plan for a table.

    Args:
        macro: The system's source macro.
        question: The input of the plan.

    Raises:
        AfterimageError: The user must say more, or the key is not among the columns.
    """
    plan = PLANS[macro](question)
    plan.key = _spelled(plan.key, plan.columns, "the key")
    return plan


def _spelled(key: Sequence[str], columns: Sequence[Column], what: str) -> list[str]:
    """Return the key's columns as the table spells them."""
    spelled = {column.name.lower(): column.name for column in columns}
    unknown = [name for name in key if name.lower() not in spelled]
    if unknown:
        raise AfterimageError(
            f"{what} names a column that does not exist. Allowed: {', '.join(names_of(columns))}."
            f" Got: {', '.join(unknown)}"
        )
    exact = set(names_of(columns))
    return [name if name in exact else spelled[name.lower()] for name in key]


def _add_commit_times(plan: Plan, question: Question, option: str, table: str) -> None:
    """Add the table of commit times to the call; if it was not given, add a note."""
    if option in question.others:
        plan.call[option] = question.others[option].reference
    else:
        plan.notes.append(
            f"changed_at will be unknown: {question.landed.name} has no commit times. Give"
            f" --{option.replace('_', '-')}, the table {table}."
        )


def _no_key(
    question: Question,
    why: str,
    columns: Sequence[Column],
    created: str | None = None,
    deleted: str = "false",
    loaded: str = "false",
) -> NoKey:
    """Return the error that asks for the key, with what the rows suggest.

    Args:
        question: The input of the plan.
        why: Why it cannot be guessed.
        columns: The columns that may be in it.
        created: SQL: whether a row is one of an insert or of a full load, if a query can tell.
        deleted: SQL: whether a row is one of a delete.
        loaded: SQL: whether a row is one of a full load.
    """
    landed = question.landed
    found = None
    if created:
        relation, kinds = str(landed.relation), (created, deleted, loaded)
        found = propose(question.project, relation, columns, landed.columns, *kinds)
    return NoKey(landed.name, why, columns, found)


def _before_images(question: Question, found: Sequence[Column], prefix: str) -> dict[str, str]:
    """Return the before-image column of each column, as the macro finds them, in lower case."""
    images: dict[str, str] = question.project.macro(
        "_before_columns",
        found=names_of(found),
        types={column.name.lower(): column.type for column in found},
        columns=question.arguments.get("columns") or [],
        prefix=prefix,
    )
    return images


def _unlike_images(columns: Sequence[Column], prefix: str) -> list[tuple[Column, Column]]:
    """Return data columns that would be before-images but for their type, each behind its own."""
    return [
        (one, image)
        for one, image in product(columns, columns)
        if prefix and image.name.lower() == f"{prefix}{one.name}".lower() and image.type != one.type
    ]


def _unlike(one: Column, image: Column) -> str:
    return (
        f"it is {image.type} and {one.name} is {one.type}. If it is a before-image, land both with"
        " one type. (A column of CSV files without a value is text: once it has one, drop the table"
        " and land all.)"
    )


def _named(name: str, landed: Landed) -> str:
    """Return a column as the table spells it; the name itself if it has none."""
    return next((c.name for c in landed.columns if c.name.lower() == name.lower()), name)


def _code(column: str) -> str:
    """Return SQL for the code of an operation."""
    return f"upper(trim(cast({quote(column)} as string)))"


def _guess(key: Sequence[str], guessed_from: str) -> str:
    return f"key: {', '.join(key)}, guessed from {guessed_from}. Check it."


def _column_list(columns: Sequence[Column]) -> str:
    """Return a list of {name, type} for a model."""
    lines = [f"        {{'name': {text_literal(c.name)}, 'type': '{c.type}'}}," for c in columns]
    return "[\n" + "\n".join(lines) + "\n    ]"
