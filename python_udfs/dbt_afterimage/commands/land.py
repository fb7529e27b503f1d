"""`afterimage land`: turns landed files, and topics of Kafka, into raw tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import states
from dbt_afterimage.landing import broker as kafka
from dbt_afterimage.landing.broker import Broker, Topic
from dbt_afterimage.landing.files import Landing, is_hidden, look, shown, sql_path
from dbt_afterimage.landing.memory import memory_in
from dbt_afterimage.landing.registry import Schemas, check_url, is_topic_of_registry
from dbt_afterimage.landing.stage import check_in_place
from dbt_afterimage.landing.tables import Table, columns_at
from dbt_afterimage.landing.topics import (
    COLUMNS,
    CreatedAgain,
    TopicTable,
    holds,
    spark_of,
    table_name,
)
from dbt_afterimage.runtime import files, jars
from dbt_afterimage.runtime.files import Change, Texts
from dbt_afterimage.runtime.project import Column, Project, Where, quote, step
from dbt_afterimage.scaffold.landed import shows
from dbt_afterimage.scaffold.systems import recognise
from dbt_afterimage.scaffold.writer import yaml_name
from dbt_afterimage.text import visible

SCHEMA = "raw"
_SOURCE = """\
sources:
  - name: {name}
    schema: {format}
    quoting:
      identifier: true
    config:
      # `dbt source freshness` lists the files and reads none.
      loaded_at_query: "{{{{ afterimage.last_landed(this) }}}}"
      freshness:
        warn_after: {{count: 24, period: hour}}
    tables:
"""
_TITLES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro", "csv": "CSV", "json": "JSON"}
_MOST_COLUMNS, _MOST_CHARACTERS = 12, 40
# The names that `--as` takes.
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class Raw:
    """A raw table to make from a path.

    Attributes:
        is_named: Whether the user gave the name.
    """

    schema: str
    table: str
    landing: Landing
    is_named: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


def topic_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of topics to a command, which gets them as one argument, `how`."""

    @wraps(function)
    def with_how(registry: str | None, accept_gap: bool, **options: Any) -> Any:
        url = None if registry is None else check_url(registry)
        return function(**options, how=How(url, accept_gap))

    with_how = click.option(
        "--accept-gap",
        is_flag=True,
        help="Go on where a broker has deleted messages before they landed, and note the gap;"
        " for all topics that are named.",
    )(with_how)
    return click.option(
        "--registry",
        metavar="URL",
        help="The schema registry that has the schemas of the messages in Avro.",
    )(with_how)


@dataclass(frozen=True)
class How:
    """How to land topics.

    Attributes:
        registry: The schema registry, if it is to be asked.
        accept_gap: Whether to go on where a broker has deleted messages.
    """

    registry: str | None = None
    accept_gap: bool = False


@click.command("land")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--as",
    "name",
    metavar="SCHEMA.TABLE",
    help="Name of the table, for one PATH (default: schema raw, and the name of the PATH).",
)
@topic_options
@click.option(
    "--copy",
    is_flag=True,
    help="Load the rows into a table; run again to add new files."
    " CSV is always loaded, and Avro if Spark has no reader for it.",
)
@where_options
def command(paths: Sequence[str], name: str | None, copy: bool, how: How, where: Where) -> None:
    """Turn landed files and topics into raw tables.

    The files are Parquet, ORC, CSV, JSON or Avro. Each PATH is a file, or a folder with the
    files of one table. Without --copy nothing is loaded: a dbt source names the path, and each
    `dbt run` takes in what has landed there since. A PATH such as kafka://HOST:PORT/TOPIC, or
    'kafka://HOST:PORT/crm.*', is a topic of Kafka; run again to load the new messages.
    """
    landed, left_out = land_all(where, paths, name, how, copy=copy)
    if landed:
        names = " ".join(landed)
        print(f"Next: afterimage init {names}" if len(landed) <= 5 else "Next: afterimage up")
    if left_out:
        raise AfterimageError("\nafterimage: ".join(left_out))


def land_all(
    where: Where, paths: Sequence[str], name: str | None, how: How, *, copy: bool
) -> tuple[list[str], list[str]]:
    """Make raw tables of files and topics, and print what they are.

    A path or a topic that cannot be landed does not keep the others from it.

    Args:
        where: The dbt project.
        paths: Files, folders with the files of one table, and topics.
        name: The name of the table, for one path; by default each is named after its path.
        how: How to land topics.
        copy: Whether to load files that Spark could read in place.

    Returns:
        The names of the tables, and why something could not be landed.

    Raises:
        AfterimageError: The name makes no sense, or the project cannot be read.
    """
    addresses = [kafka.address(path) for path in paths if kafka.is_address(path)]
    of_files = [path for path in paths if not kafka.is_address(path)]
    if name is not None and addresses and len(paths) > 1:
        raise AfterimageError("--as names one table; give one PATH with it")
    left_out: list[str] = []
    raws = named(of_files, name, left_out) if of_files else []
    if not raws and not addresses:
        # To say so takes no Spark.
        return [], left_out
    if addresses:
        jars.want(jars.KAFKA)
    project = Project(where)
    landed = land(project, raws, left_out, copy=copy)
    for one in addresses:
        with _noted(left_out):
            landed += _land_topics(project, one, name, how, left_out)
    return list(dict.fromkeys(landed)), left_out


@contextmanager
def _noted(left_out: list[str]) -> Iterator[None]:
    """Note why something cannot be landed, and go on."""
    try:
        yield
    except AfterimageError as error:
        left_out.append(str(error))


def _land_topics(
    project: Project, where: kafka.Address, name: str | None, how: How, left_out: list[str]
) -> list[str]:
    with step(f"asking {where.servers} for its topics"):
        broker = Broker(spark_of(project), where.servers)
        topics = broker.topics(where.topics)
    try:
        tables: dict[str, list[str]] = {}
        for topic in topics:
            schema, table = (SCHEMA, table_name(topic)) if name is None else _parts(name)
            tables.setdefault(f"{schema}.{table}", []).append(topic)
        landed = []
        for shown_name, (topic, *others) in tables.items():
            with _noted(left_out):
                if others:
                    raise AfterimageError(
                        f"topics {topic} and {others[0]} would both become {shown_name}; land one"
                        " of them separately: --as SCHEMA.TABLE"
                    )
                try:
                    _land_topic(project, broker, topic, shown_name, how)
                except CreatedAgain as error:
                    other = _landed_again(project, error.topic) if name is None else None
                    if other is None:
                        raise
                    _land_topic(project, broker, topic, other, how)
                    shown_name = other
                landed.append(shown_name)
        return landed
    finally:
        broker.close()


def _landed_again(project: Project, topic: Topic) -> str | None:
    """Return the source's table that a topic which was created again has landed into, if any."""
    tables = {
        str(one.relation_name): f"{one.schema}.{one.identifier}"
        for one in project.sources()
        if _NAME.fullmatch(f"{one.schema}.{one.identifier}")
    }
    for relation, known in states.properties_of(project, tables).items():
        memory = None if isinstance(known, AfterimageError) else memory_in(known)
        if memory is not None and holds(memory.files.get(topic.path, {}), topic):
            return tables[relation]
    return None


def _land_topic(project: Project, broker: Broker, topic: str, shown_name: str, how: How) -> None:
    schema, _, table = shown_name.partition(".")
    source = project.source(schema, table)
    if source is not None and _is_path(source):
        raise AfterimageError(
            f"the project already has a source {shown_name}, for {visible(source.identifier)}"
            f" ({source.original_file_path}); choose another name: --as SCHEMA.TABLE"
        )
    schema, table = _table_of(project, schema, table)
    shown_name = f"{schema}.{table}"
    with step(f"loading {shown_name}"):
        read = TopicTable(project, schema, table).load_topic(
            broker, topic, accept_gap=how.accept_gap
        )
    loaded = "nothing new"
    if read.messages:
        plural = "s"[: read.messages != 1]
        loaded = f"{read.messages:,} message{plural} loaded ({_size(read.size)})"
    print(f"{shown_name}: Kafka, topic {topic}, {loaded}, lag {read.lag:,}")
    for note in read.notes:
        print(f"  {note}")
    relation = f"{quote(schema)}.{quote(table)}"
    found = recognise(list(COLUMNS), {}, None, partial(shows, project, relation))
    if found:
        print(f"  looks like {found.system.title}")
    _land_schemas(project, broker, schema, table, how)


def _land_schemas(project: Project, broker: Broker, schema: str, table: str, how: How) -> None:
    """Keep the schemas of a topic's messages, or those that the topic itself has."""
    schemas = Schemas(project, schema)
    if is_topic_of_registry(project, f"{quote(schema)}.{quote(table)}"):
        print("  looks like the topic of a schema registry")
        if how.registry:
            return  # That is asked, and the ids of one registry are in the table.
        found = schemas.add_from_topic(table)
    elif how.registry:
        with step(f"asking {how.registry} for schemas"):
            found = schemas.add_from_registry(table, how.registry, broker)
    else:
        return
    if found.added:
        print(f"  {schemas.shown}: {found.added} schema{'s'[: found.added != 1]} added")
    for note in found.notes:
        print(f"  {note}")


def _size(size: int) -> str:
    power = min((len(str(size)) - 1) // 3, 3)
    return f"{size / 1000**power:.{min(power, 1)}f} {('bytes', 'kB', 'MB', 'GB')[power]}"


def land(project: Project, raws: Sequence[Raw], left_out: list[str], *, copy: bool) -> list[str]:
    """Make raw tables, print what they are, and return their names.

    Args:
        project: The dbt project.
        raws: The tables to make.
        left_out: Gets why a table could not be made.
        copy: Whether to load files that Spark could read in place.
    """
    in_place: list[Raw] = []
    copied: list[Raw] = []
    columns: dict[str, list[Column]] = {}
    for raw in raws:
        with _noted(left_out), step(f"looking at {shown(raw.landing.path)}"):
            found = None if copy else _read_in_place(project, raw)
            _check_name(project, raw, in_place=found is not None)
            if found is None:
                copied.append(raw)
            else:
                _sources(project, [raw])
                columns[str(raw)] = found
                in_place.append(raw)
    written = _sources(project, in_place)
    files.write(project.folder, {change.path: change.new for change in written})
    for raw in in_place:
        relation = f"{raw.landing.format}.`{sql_path(raw.landing.path)}`"
        _say(project, raw, "read in place", relation, columns[str(raw)])
    for change in written:
        print(f"wrote  {change.path}")
    landed = [str(raw) for raw in in_place]
    for raw in copied:
        with _noted(left_out):
            schema, name = _table_of(project, raw.schema, raw.table)
            table = Table(project, schema, name)
            with step(f"loading {schema}.{name}"):
                new, notes = table.load(raw.landing, more=raw.is_named)
                present = table.columns() or []
            loaded = f"{_files(len(new))} loaded" if new else "nothing new"
            there = replace(raw, schema=schema, table=name)
            _say(project, there, loaded, f"{quote(schema)}.{quote(name)}", present)
            for note in notes:
                print(f"  {note}")
            landed.append(str(raw))
    return landed


def named(paths: Sequence[str], name: str | None, left_out: list[str]) -> list[Raw]:
    """Return the tables to make from paths.

    Args:
        paths: Files, and folders with the files of one table.
        name: The name of the table, for one path; by default each is named after its path.
        left_out: Gets why a path cannot be landed, or that two would have one name.

    Raises:
        AfterimageError: The name makes no sense.
    """
    # A shell's `landing/*` includes Spark's own `_SUCCESS`.
    given = [Path(path) for path in paths]
    seen = [path for path in given if not is_hidden(path.name)]
    if not seen:
        left_out.append(f"{shown(given[0])} is hidden, so Spark would not read it; rename it")
    if name is not None and len(seen) > 1:
        raise AfterimageError("--as names one table; give one PATH with it")
    raws: dict[str, Raw] = {}
    for path in seen:
        with _noted(left_out):
            landing = look(path)
            schema, table = (SCHEMA, landing.table) if name is None else _parts(name)
            raw = Raw(schema, table, landing, name is not None)
            other = raws.setdefault(str(raw).lower(), raw)
            if other.landing.path != landing.path:
                raise AfterimageError(
                    f"{shown(other.landing.path)} and {shown(landing.path)} would both become"
                    f" {raw}; land one of them separately: --as SCHEMA.TABLE"
                )
    return list(raws.values())


def _parts(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise AfterimageError(
            f"--as must be SCHEMA.TABLE, both of letters, digits and _. Got: {visible(name)}"
        )
    return match[1], match[2]


def _read_in_place(project: Project, raw: Raw) -> list[Column] | None:
    """Return the columns of files that Spark reads by path; none if they must be loaded."""
    if raw.landing.format == "csv":
        return None
    if raw.landing.is_described:
        raise AfterimageError(
            f"{shown(raw.landing.path)} has .dfm files, in which Qlik describes the others, and in"
            " place Spark would read them too; load the files with --copy, or let Qlik create no"
            " metadata files, and move these away"
        )
    if raw.landing.format != "json" or any(file.dates for file in raw.landing.files):
        check_in_place(raw.landing.format, raw.landing.files)
    try:
        return columns_at(project, raw.landing.format, raw.landing.path, shown(raw.landing.path))
    except AfterimageError as error:
        # The reader for Avro is a jar of its own.
        if raw.landing.format == "avro" and "data source: avro" in str(error).lower():
            return None
        raise


def _check_name(project: Project, raw: Raw, *, in_place: bool) -> None:
    """Check that no other raw table has the name.

    Raises:
        AfterimageError: One has. The text says which.
    """
    source = project.source(raw.schema, raw.table)
    is_path = source is not None and _is_path(source)
    if source is not None and (in_place or is_path) and not (in_place and _is_this(source, raw)):
        read = f"{source.schema}.{source.identifier}"
        raise AfterimageError(
            f"the project already has a source {raw}, for {visible(read)}"
            f" ({source.original_file_path}); choose another name: --as SCHEMA.TABLE"
        )
    if in_place and Table(project, raw.schema, raw.table).columns() is not None:
        raise AfterimageError(
            f"the table {raw} already exists; choose another name: --as SCHEMA.TABLE"
        )


def _table_of(project: Project, schema: str, table: str) -> tuple[str, str]:
    """Return the schema and the name of a raw table that may have been renamed, or moved.

    Its source has the former name then, by which models go on reading it.
    """
    source = project.source(schema, table)
    match = None if source is None else _NAME.fullmatch(f"{source.schema}.{source.identifier}")
    return (match[1], match[2]) if match else (schema, table)


def _is_path(source: Any) -> bool:
    return source.schema in _TITLES and "/" in source.identifier


def _is_this(source: Any, raw: Raw) -> bool:
    return (source.schema, source.identifier) == (
        raw.landing.format,
        sql_path(raw.landing.path),
    )


def _sources(project: Project, raws: Sequence[Raw]) -> list[Change]:
    """Return the changes of files by which the paths that have no source get one.

    Raises:
        Refused: A file was edited, and takes no more.
    """
    wanted = []
    for raw in raws:
        if project.source(raw.schema, raw.table) is None:
            # If a file has two sources of one name, dbt's partial parsing sees only the last.
            folder = f"{project.models_folder}/sources"
            path = f"{folder}/_src_{raw.schema}_{raw.landing.format}.yml"
            identifier = json.dumps(_template(sql_path(raw.landing.path)), ensure_ascii=False)
            block = f"      - name: {yaml_name(raw.table)}\n        identifier: {identifier}\n"
            head = _SOURCE.format(name=yaml_name(raw.schema), format=raw.landing.format)
            wanted.append(Texts(str(raw), {}, {path: {raw.table: block}}, {path: head}))
    return files.changes(project.folder, wanted, whole=False)


def _template(text: str) -> str:
    """Return Jinja that renders to a text, because dbt renders identifiers."""
    is_plain = not any(sign in text for sign in ("{{", "{%", "{#"))
    return text if is_plain else f"{{{{ {json.dumps(text)} }}}}"


def _say(project: Project, raw: Raw, what: str, relation: str, columns: Sequence[Column]) -> None:
    print(f"{raw}: {_TITLES[raw.landing.format]}, {_files(len(raw.landing.files))}, {what}")
    shown_columns = [
        f"{visible(one.name)} {_short(visible(one.type))}" for one in columns[:_MOST_COLUMNS]
    ]
    more = len(columns) - len(shown_columns)
    print(f"  {', '.join(shown_columns)}{f', and {more} more' if more else ''}")
    found = recognise(columns, {}, None, partial(shows, project, relation))
    if found:
        print(f"  looks like {found.system.title}")


def _short(kind: str) -> str:
    return kind if len(kind) <= _MOST_CHARACTERS else kind[: _MOST_CHARACTERS - 1] + "…"


def _files(count: int) -> str:
    return f"{count} file{'s'[: count != 1]}"
