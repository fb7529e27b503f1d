"""A landed table: its columns, and how models refer to it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.files import ANOTHER_NAME, is_sealed
from dbt_afterimage.runtime.project import Column, Project, quote
from dbt_afterimage.scaffold.systems import DEBEZIUM_MESSAGE, ENVELOPE, OPERATION

# A name that Spark reads without quotes.
_PLAIN = re.compile("[A-Za-z0-9_]+")
# `parquet.`/folder``: files that Spark reads by their path.
_FILES = re.compile(r"(?P<format>parquet|orc|json|csv|avro|text)\.`(?P<path>[^`]+)`", re.IGNORECASE)
# Whatever else is behind a dot is part of a name: `dbo.orders__ct`.
_ENDING = re.compile(
    r"(\.(parquet|pq|orc|avro|csv|json|jsonl|ndjson|txt))?(\.(gz|bz2))?$", re.IGNORECASE
)

# What to do about a table that only bears another name than before.
WAS_MOVED = (
    "If it is the same table, renamed or moved, set the identifier or the schema of its old source"
    " to it instead, so that its history goes on"
)


class NotReadable(AfterimageError):
    """Spark does not read a table: it is not there, not allowed, or damaged."""


@dataclass(frozen=True)
class Source:
    """A source to declare."""

    name: str
    schema: str
    table: str
    identifier: str

    @property
    def is_plain(self) -> bool:
        """Whether the table's name needs no quotes, and is the source's."""
        return self.identifier == self.table and _PLAIN.fullmatch(self.table) is not None


@dataclass(frozen=True)
class Landed:
    """A landed table.

    Attributes:
        name: Its name in messages.
        relation: The table for dbt's macros; as a text, for SQL.
        nodes: The project's seeds, models and sources that are this table.
        reference: How a model refers to it, such as `source('raw', 'orders__ct')`.
        source: The source to declare for that; none if the project has it.
    """

    name: str
    relation: Any
    identifier: str
    columns: list[Column]
    nodes: frozenset[str]
    reference: str
    source: Source | None


def find(
    project: Project,
    option: str,
    name: str,
    own_files: str,
    every: Collection[str] | None = None,
) -> Landed:
    """Return a landed table.

    Args:
        project: The dbt project.
        option: The option that names the table.
        name: `schema.table`, `catalog.schema.table`, a table of the target's schema,
            `source.table`, or files as Spark names them (parquet.`/folder`).
        own_files: Pattern of the files in which we declare sources.
        every: All tables of the project, as `full_name` has them, if they are known. A source that
            we have declared for none of them gives way.

    Raises:
        NotReadable: There is no such table, or Spark cannot read it.
        AfterimageError: The source to declare is another table.
    """
    files = _FILES.fullmatch(name)
    declared, schema, identifier = _place(project, name)
    if declared is not None:
        relation = project.relation(schema, identifier, quoted=declared.quoting.identifier is True)
    else:
        schema = schema or str(project.credentials.schema)
        relation = project.relation(schema, identifier, quoted=not _PLAIN.fullmatch(identifier))
    try:
        columns = project.columns_of(str(relation))
    except AfterimageError as error:
        raise NotReadable(str(error)) from None
    if not columns:
        raise NotReadable(
            f"{option} must be an existing table, as schema.table, or its name alone in the schema"
            f" {project.credentials.schema}. Got: {name}"
        )

    # The name of the current catalog may be given or not.
    catalog = f"{project.catalog}.".lower()
    full_name = _compared(schema, identifier)
    names = {full_name, full_name.removeprefix(catalog), catalog + full_name}
    nodes: dict[str, Any] = {}
    for node in project.relations():
        if _compared(node.schema, getattr(node, "identifier", None) or node.alias) in names:
            nodes[node.unique_id] = node
    elsewhere = [
        node
        for node in nodes.values()
        if not re.fullmatch(own_files, project.file_of(node) or "of a package")
    ]
    known = elsewhere[-1] if elsewhere else None
    # A source that we have declared keeps its name, also where its table was renamed or has moved.
    own = [node for node in nodes.values() if node not in elsewhere]
    table = declared.name if declared is not None else identifier
    if files is not None or own:
        table = own[-1].name if own else _table_of_files(identifier)
    source_name = own[-1].source_name if own else model_name(schema)
    source = Source(source_name, schema, table, identifier)
    if known is None:
        others = [node for node in project.sources() if node.unique_id not in nodes]
        gone = [node for node in others if _is_gone(project, node, own_files, every)]
        others = [node for node in others if node not in gone]
        # A folder that has moved, and the models that read it.
        nodes |= {
            node.unique_id: node
            for node in gone
            if (node.source_name, node.name) == (source.name, source.table)
        }
        _check_free(project, source, name, others, own_files)
        reference = f"source('{source.name}', '{source.table}')"
    elif known.resource_type == "source":
        reference = f"source('{known.source_name}', '{known.name}')"
        source = Source(known.source_name, schema, known.name, identifier)
    else:
        reference = f"ref('{known.name}')"
    return Landed(
        name if declared is not None or files else f"{schema}.{identifier}",
        relation,
        table,
        columns,
        frozenset(nodes),
        reference,
        None if elsewhere else source,
    )


def in_sql(schema: str) -> str:
    """Return a schema as SQL has it.

    Args:
        schema: The schema, after its catalog or without; it may be in quotes already.
    """
    return schema if "`" in schema else ".".join(map(quote, schema.split(".")))


def full_name(project: Project, name: str) -> str:
    """Return one name for a table, which may be given as a source, with its catalog or without.

    Args:
        project: The dbt project.
        name: What `find` takes.
    """
    _, schema, identifier = _place(project, name)
    return _in_catalog(project, schema or str(project.credentials.schema), identifier)


def _in_catalog(project: Project, schema: str, identifier: str) -> str:
    return _compared(schema, identifier).removeprefix(f"{project.catalog}.".lower())


def _compared(schema: str, identifier: str) -> str:
    """Return a name in small letters, unless it is a path: that says more than these."""
    name = f"{schema}.{identifier}".rstrip("/")
    return name if "/" in identifier else name.lower()


def _table_of_files(path: str) -> str:
    """Return the name of a source's table for files: their last name without a known ending."""
    name = PurePosixPath(path).name
    return re.sub(r"\W+", "_", _ENDING.sub("", name) or name)


def _is_gone(project: Project, node: Any, own_files: str, every: Collection[str] | None) -> bool:
    """Whether a source is one that we have declared for a table which the project has no more."""
    file = project.file_of(node)
    if every is None or not file or not re.fullmatch(own_files, file):
        return False
    text = Path(project.folder, file).read_text(encoding="utf-8")
    return is_sealed(text) and _in_catalog(project, node.schema, node.identifier) not in every


def _check_free(
    project: Project, source: Source, name: str, others: Sequence[Any], own_files: str
) -> None:
    """Check that a source to declare does not take the place of another table's."""
    for other in others:
        if other.source_name != source.name:
            continue
        # A file of ours has one schema for all its tables.
        is_ours = re.fullmatch(own_files, project.file_of(other) or "of a package")
        is_elsewhere = is_ours and other.schema.lower() != source.schema.lower()
        if other.name == source.table or is_elsewhere:
            raise AfterimageError(
                f"{name} would be the source {source.name}.{source.table}, but"
                f" {other.source_name}.{other.name} is {other.schema}.{other.identifier}."
                f" {ANOTHER_NAME}. {WAS_MOVED} ({project.file_of(other) or 'in its package'})"
            )


def _place(project: Project, name: str) -> tuple[Any, str, str]:
    """Return what a name stands for: the source, if it is one, the schema and the identifier.

    The schema is empty if none is given. The identifier may be in backticks, as SQL needs some.
    """
    files = _FILES.fullmatch(name)
    if files:
        schema, identifier = files["format"].lower(), files["path"]
    else:
        schema, _, identifier = name.rpartition(".")
        identifier = re.sub("^`([^`]+)`$", r"\1", identifier)
    declared = project.source(schema, identifier)
    if declared is None:
        return None, schema, identifier
    return declared, declared.schema, declared.identifier


def model_name(text: str) -> str:
    """Return a model name made from a text: lower case, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "changes"


def shows(project: Project, relation: Any, sign: str, column: Column) -> bool:
    """Whether the first values of a column show a sign.

    An envelope is a Qlik message, in JSON or in Avro. AWS DMS's `Op` is I, U or D.
    """
    name = quote(column.name)
    text = f"cast({name} as string)"

    def has(*paths: str) -> str:
        return " or ".join(f"get_json_object({text}, '$.{path}') is not null" for path in paths)

    avro = framed = ""
    if column.type == "binary":
        avro = f" or contains({name}, cast('atMSG' as binary))"
        # In Avro nothing else is sure to be there: the version of the connector, `2.7.3.Final`.
        framed = f" or startswith({name}, X'00') and contains({name}, cast('.Final' as binary))"
    condition = {
        ENVELOPE: f"get_json_object({text}, '$.magic') = 'atMSG'"
        f" or {has('headers.operation', 'message.headers.operation')}{avro}",
        DEBEZIUM_MESSAGE: f"({has('op', 'payload.op')}) and ({has('source', 'payload.source')})"
        f" or {has('__op', '__deleted', 'payload.__op', 'payload.__deleted')}{framed}",
        OPERATION: f"{text} in ('I', 'U', 'D')",
    }[sign]
    enough, there = "1", f"{name} is not null"
    if sign == OPERATION:
        # Nothing stands for a row of a full load.
        enough, there = "count(*)", f"{text} <> ''"
    [(found,)] = project.rows(
        f"select count(*) > 0 and count_if({condition}) >= {enough}"
        f" from (select {name} from {relation} where {there} limit 100) as first_rows"
    )
    return bool(found)


def is_framed(project: Project, landed: Landed, name: str) -> bool:
    """Whether a column has messages in Avro, as those of a schema registry begin.

    Args:
        project: The dbt project.
        landed: The landed table.
        name: The column.
    """
    types = {column.name.lower(): column.type for column in landed.columns}
    if types.get(name.lower()) != "binary":
        return False
    value = quote(name)
    [(found,)] = project.rows(
        f"select count_if(startswith({value}, X'00') and length({value}) >= 5) > 0"
        f" from (select {value} from {landed.relation} where {value} is not null limit 100)"
    )
    return bool(found)


def holds_metadata(project: Project, relation: str, name: str) -> tuple[bool, bool]:
    """Whether the first messages of Qlik are metadata: some of them, and all.

    Args:
        project: The dbt project.
        relation: The landed table, as in SQL.
        name: The column with the messages.
    """
    kind = _qlik(project, relation, name, ("type",), "type")
    bare = f"get_json_object(cast({quote(name)} as string), '$.schemaId') is not null"
    [(some, every)] = project.rows(
        "select coalesce(bool_or(is_metadata), false), coalesce(bool_and(is_metadata), false)"
        f" from (select coalesce({kind} = 'MD', false) or {bare} as is_metadata"
        f" from {_first(relation, name)})"
    )
    return bool(some), bool(every)


def schema_ids(
    project: Project, relation: str, name: str, beside: Collection[str] | None = None
) -> set[str]:
    """Return the ids of the schemas that the first messages of Qlik name.

    Args:
        project: The dbt project.
        relation: The landed table, as in SQL.
        name: The column with the messages.
        beside: Ids that are known. All messages are asked for others then.
    """
    paths = ("messageSchemaId", "message.headers.externalSchemaId", "headers.externalSchemaId")
    found = _qlik(project, relation, name, paths, "schema_id")
    messages = _first(relation, name, 1000)
    if beside is not None:
        messages = _unlike(relation, name, beside)
    rows = project.rows(f"select distinct {found} from {messages}")
    return {str(row[0]) for row in rows if row[0] is not None}


def _unlike(relation: str, name: str, ids: Collection[str]) -> str:
    """Return a query for all messages but Avro's data that name one of some schemas.

    Their envelopes begin with the same bytes, and to open each of them would take long.
    """
    value = quote(name)
    where = f"{value} is not null"
    for encoded in sorted(one.encode() for one in ids):
        # The length of a text is a byte up to here.
        if len(encoded) < 64:
            begins = b"atMSG\x04DT\x00\x02" + bytes([2 * len(encoded)]) + encoded
            where += f" and not startswith(cast({value} as binary), X'{begins.hex()}')"
    return f"(select {value} from {relation} where {where})"


def _first(relation: str, name: str, count: int = 100) -> str:
    value = quote(name)
    return f"(select {value} from {relation} where {value} is not null limit {count})"


def _qlik(project: Project, relation: str, name: str, paths: Sequence[str], field: str) -> str:
    """Return SQL for what messages say, in JSON at one of some paths, or in Avro's envelope."""
    value = quote(name)
    text = f"cast({value} as string)"
    in_json = ", ".join(f"get_json_object({text}, '$.{path}')" for path in paths)
    columns = {one.name.lower(): one.type for one in project.columns_of(relation) or []}
    if columns.get(name.lower()) != "binary":
        return f"coalesce({in_json})"
    is_json = f"substring({value}, 1, 1) = X'7B'"
    in_avro = f"decode_avro_message(if({is_json}, null, {value})).{field}"
    return f"if({is_json}, coalesce({in_json}), {in_avro})"


def rows_of(landed: Landed, condition: str | None = None) -> str:
    """Return a query for the rows of a landed table, for a test."""
    where = f" where {condition}" if condition else ""
    return f"select 1 as landed from {{{{ {landed.reference} }}}}{where}"


def names_of(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns."""
    return [column.name for column in columns]
