"""Plans for Qlik: its change tables, and its messages on Kafka."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, Project, literal, quote
from dbt_afterimage.scaffold.landed import schema_ids
from dbt_afterimage.scaffold.plans.json_values import best_kind, common_kinds, has_field, read_json
from dbt_afterimage.scaffold.plans.question import (
    NothingLanded,
    Plan,
    Question,
    SeveralTables,
    column_list,
    guess_note,
    is_same_table,
    no_key,
)
from dbt_afterimage.scaffold.systems import header_name, header_prefix
from dbt_afterimage.text import text_literal, visible
from dbt_afterimage.udfs.masks import MaskError, decode_change_mask

# Columns that loaders add: Auto Loader's _rescued_data, the name of a file, the time of a load.
_IS_OF_LOADER = re.compile(
    r"_(?!id$).+|(load|loaded|ingest|ingested|insert|inserted|dlt|etl)_?(at|ts|time|timestamp|date)"
    r"|(src|source|input)_?file(_?(name|path))?",
    re.IGNORECASE,
)


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
    added = [name for name in layout["columns"] if _IS_OF_LOADER.fullmatch(name)]
    if added and not columns:
        plan.notes.append(
            f"columns: {', '.join(map(visible, added))} may come from a loader, not the source. If"
            " so, leave them out (--arguments '{\"columns\": […]}'): otherwise a change that is"
            " loaded twice is two changes."
        )
    if not layout["has_mask"]:
        plan.notes.append(
            "no change_mask: a NULL in an update counts as the value, also where the source did not"
            " capture it. Let the task write the mask."
        )
    if not encoding and layout["has_mask"] and not layout["mask_is_binary"]:
        encoding = question.written_encoding
        if not encoding and _is_text_of_bytes(question, layout):
            encoding = "hex_bytes"
            plan.notes.append(
                "mask_encoding: hex_bytes, because as hex numerals masks would flag header columns."
                " Check it."
            )
        if encoding:
            plan.call["mask_encoding"] = text_literal(encoding)
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
            raise no_key(question, why, data, created, deleted)
        plan.key = [ordinals[place - 1] for place in places]
        evidence = f"the change masks of {deletes[places]} deletes, which flag the key alone"
        plan.notes.append(guess_note(plan.key, evidence))
    return plan


def _is_text_of_bytes(question: Question, layout: Mapping[str, Any]) -> bool:
    """Whether masks that are text have their first byte first, as no bits of a header show."""
    mask, header = layout["header"]["change_mask"], int(layout["header_columns"])
    rows = question.project.rows(
        f"select distinct cast({mask} as string) from {question.landed.relation}"
        f" where {mask} is not null limit 1000"
    )

    def places(encoding: str) -> set[int]:
        return {k for (text,) in rows for k in decode_change_mask(text, 0, encoding) or ()}

    with suppress(MaskError):
        of_bytes, numerals = places("hex_bytes"), places("hex")
        last = header + len(layout["ordinals"])
        return bool(numerals) and min(numerals) <= header < min(of_bytes) <= max(of_bytes) <= last
    return False


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
        plan.call["columns"] = column_list(plan.columns)
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
            raise no_key(question, why, plan.columns)
        plan.key = guessed
        plan.notes.append(guess_note(guessed, guessed_from))
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
        has_one = has_field("data", question.undeclared)
        texts = [*texts, *question.project.rows(f"{query} and {has_one} limit 1000")]
    for (text,) in texts:
        try:
            message = read_json(text)
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
    if not (is_named or question.is_staged or question.listed or "columns" in question.arguments):
        _check_one_table(question.landed.name, bodies)
    return next(iter(tables.values())) if tables and is_named else None, bodies


# What users call the column that a rule of their task writes $AR_M_SOURCE_TABLE_NAME into.
_NAMES_TABLE = re.compile(
    r"((source|src)_?)?(schema_?)?table_?name|(source|src|schema)_?table", re.I
)


def _check_one_table(name: str, bodies: Sequence[_Body]) -> None:
    """Check that messages which do not name their table can be of one.

    Raises:
        AfterimageError: A column of theirs names several, or inserts have columns of their own.
    """
    named: dict[str, set[str]] = {}
    for body in bodies:
        for column, cell in body.data.items():
            if _NAMES_TABLE.fullmatch(column) and isinstance(cell, str):
                named.setdefault(column, set()).add(cell)
    creating = ("INSERT", "REFRESH")
    shapes = {frozenset(b.data) for b in bodies if b.headers.get("operation") in creating}
    widest = max(shapes, key=lambda shape: (len(shape), sorted(shape)), default=frozenset())
    other = max(shapes, key=lambda shape: len(shape - widest), default=widest)
    column = max(named, key=lambda column: len(named[column]), default="")
    if len(named.get(column, ())) > 1:
        tables = sorted(named[column])
        why = (
            f"{visible(column)} is {', '.join(map(visible, tables[:5]))}{', …' * (len(tables) > 5)}"
        )
        one = text_literal(visible(tables[0]))
        answer = (
            f"Write and build a model that selects one (where {one} in (get_json_object(value,"
            f" '$.message.data.{visible(column)}'), get_json_object(value, '$.message.beforeData."
            f"{visible(column)}')), without `message.` if they have no envelope), give that one,"
            " and put this one under `ignore` in afterimage.yml"
        )
    elif other - widest:
        mine, others = visible(min(widest - other)), visible(min(other - widest))
        why = f"some inserts have the column {mine}, others {others}"
        answer = (
            "Let the task write each table to a topic of its own, or add the table's name to the"
            " data (a global rule with $AR_M_SOURCE_TABLE_NAME), by which a model can select one"
        )
    else:
        return
    raise AfterimageError(
        f"{name} seems to have messages of several tables, which they do not name ({why}), so their"
        f" rows would become one table's. {answer}. If they are of one table, give its columns:"
        ' --arguments \'{"columns": [{"name": …, "type": …}]}\''
    )


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
            kinds[column.lower()] = common_kinds(cell, kinds.get(column.lower()))
    columns = [Column(names[column], best_kind(kind)) for column, kind in kinds.items()]
    is_whole = len(fullest_first[0].data) == len(kinds) and widest_mask < 1 << len(kinds)
    # Of columns that are given wrongly the macro says what is wrong.
    if isinstance(given, list) and all(isinstance(one, dict) and "name" in one for one in given):
        columns = [Column(str(one["name"]), str(one.get("type"))) for one in given]
        is_whole = True
    flagged = [c.name for place, c in enumerate(columns) if delete_mask >> place & 1]
    return columns, flagged if is_whole and len(flagged) < len(columns) else [], is_whole
