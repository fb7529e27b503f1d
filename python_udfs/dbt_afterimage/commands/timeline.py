"""`afterimage timeline`: the versions of some records of a history on a timeline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.options import found_at, output_option, parse_csv, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page
from dbt_afterimage.pages.timeline import Key, Record, Version, document
from dbt_afterimage.runtime import project as p
from dbt_afterimage.runtime.project import CONTRACT, Column, Project, Where, step
from dbt_afterimage.text import EPOCH, visible

META = (
    *("valid_from", "valid_to", "valid_from_seq", "valid_to_seq", "is_current", "is_deleted"),
    *("version", "operation", "closed_by", "transaction_id", "history_id"),
)
_TEXTS = ("valid_from_seq", "valid_to_seq", "operation", "closed_by", "transaction_id")
# A page shows at most this many records that the given ones became or came from.
_NEIGHBOURS = 12


@click.command("timeline")
@click.option("--model", required=True, help="The history, such as customers_history.")
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    help="The record's key; several columns as CSV in the order of unique_key (42,eu)."
    " Repeat for more records.",
)
@click.option(
    "--key-columns",
    help="The key columns as CSV, if the model has no unique_key in its config.",
)
@click.option(
    "--until",
    help="Where open versions end in the picture: `now`, or a date or time in UTC"
    " (default: shortly after the newest change shown).",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    help="Show this many versions of each record, the newest ones, however large the page"
    " becomes (default: as many as fit into 200 KB).",
)
@output_option
@where_options
def command(
    model: str,
    keys: Sequence[str],
    key_columns: str | None,
    until: str | None,
    most: int | None,
    output: Path | None,
    where: Where,
) -> None:
    """Write a page with the versions of some records."""
    drawn_until = _until(until)
    project = Project(where)
    node = project.model(model)
    name = p.shown_name(node)
    with step(f"reading {name}"):
        records = read(project, node, keys, key_columns, most or 1000)
    made = document(name, str(node.relation_name), records, drawn_until, most is not None)
    asked = made.content["records"]
    path = output or project.pages_folder() / _file_name(name, [r.key.text for r in asked])
    page.write(path, made, shares_script=output is None)
    shown = sum(len(record.versions) for record in asked)
    plural = "s" if shown != 1 else ""
    place, address = found_at(path)
    print(f"{place}: {shown} version{plural} of {len(asked)} record{'s'[: len(asked) > 1]}")
    print(f"  {address}")


class _History:
    """The table of a history, and how to read versions from it."""

    def __init__(self, node: Any, columns: Sequence[Column], unique_key: Sequence[str]) -> None:
        by_name = {column.name.lower(): column for column in columns}
        # As the macro `_option`. `config.get` would warn of an option in `meta`.
        option, config = "meta_column_names", node.config
        renamed = config.extra.get(option, config.meta.get(option)) or {}
        names = {name: name for name in META} | dict(renamed)
        missing = [names[name] for name in META if names[name].lower() not in by_name]
        if missing:
            raise AfterimageError(
                f"{node.name} is not a history, as it has no column {', '.join(missing)};"
                " name one with --model"
            )
        unknown = [name for name in unique_key if name.lower() not in by_name]
        if unknown:
            raise AfterimageError(f"{node.name} has no key column {', '.join(unknown)}")
        self.node = node
        self.key = [by_name[name.lower()] for name in unique_key]
        ours = {name.lower() for name in names.values()}
        data = [column for column in columns if column.name.lower() not in ours]
        self._names = [column.name for column in data]
        self.meta = m = {name: p.quote(names[name]) for name in META}
        fields = {name: f"cast({m[name]} as string)" for name in _TEXTS} | {
            "is_deleted": m["is_deleted"],
            "version": m["version"],
            "valid_from": f"unix_micros(cast({m['valid_from']} as timestamp))",
            # A config may give open versions a valid_to.
            "valid_to": f"if({m['is_current']}, null,"
            f" unix_micros(cast({m['valid_to']} as timestamp)))",
            "values": f"array({', '.join(p.text_of(c, p.quote(c.name)) for c in data)})",
        }
        listed = ", ".join(f"'{name}', {expression}" for name, expression in fields.items())
        self.line = f"to_json(named_struct({listed}))"

    def version(self, row: dict[str, Any]) -> Version:
        """Return the version in a line, which leaves out NULLs."""
        values = dict(zip(self._names, row.pop("values"), strict=True))
        return Version(values=values, **row)

    def record(self, versions: list[Version], is_asked: bool = True) -> Record:
        """Return the record that has these versions."""
        names = [column.name for column in self.key]
        key = self.key_of([versions[-1].values[name] for name in names])
        return Record(key, sorted(versions, key=lambda v: v.version), names, is_asked)

    def key_of(self, values: Sequence[str | None]) -> Key:
        """Return a key in readable form."""
        parts = [str(value) for value in values]
        pairs = zip(self.key, parts, strict=True)
        text = ", ".join(f"{column.name} {part}" for column, part in pairs)
        return Key(text, "/".join(parts))


def read(
    project: Any, node: Any, keys: Sequence[str], key_columns: str | None, most: int
) -> list[Record]:
    """Read the versions of some records, and of those that they became or came from.

    Args:
        project: The dbt project.
        node: The history's node.
        keys: The keys, as the command line gives them.
        key_columns: The key columns as CSV, if the model's config does not give them.
        most: How many versions of a record to read; the newest ones.

    Raises:
        AfterimageError: The model is not a history, or a key does not fit or has no version.
    """
    named = list(parse_csv(key_columns)) if key_columns else node.config.unique_key
    unique_key = [named] if isinstance(named, str) else list(named or [])
    if not unique_key:
        raise AfterimageError(f"the config of {node.name} has no unique_key; give --key-columns")
    history = _History(node, project.columns(node), unique_key)
    conditions = []
    for given in keys:
        # A comma in the key of one column is part of it.
        parts = [given] if len(unique_key) == 1 else list(parse_csv(given))
        if len(parts) != len(unique_key):
            raise AfterimageError(
                f"--key must give {', '.join(unique_key)} as CSV, {len(unique_key)} values."
                f" Got: {visible(given)}"
            )
        pairs = zip(history.key, parts, strict=True)
        conditions.append(" and ".join(p.equals(column, part) for column, part in pairs))
    branches = [
        f"(select {place} as place, {history.line} as line"
        f" from {node.relation_name} where {condition}"
        f" order by {history.meta['version']} desc limit {most})"
        for place, condition in enumerate(conditions)
    ]
    rows = project.query(
        "select concat('[', place, ',', line, ']') as line from ("
        + " union all ".join(branches)
        + ") as versions"
    )
    records = []
    for place, given in enumerate(keys):
        versions = [history.version(row) for found, row in rows if found == place]
        if not versions:
            types = ", ".join(f"{column.name} {column.type}" for column in history.key)
            raise AfterimageError(
                f"no version of {node.name} has {', '.join(unique_key)} {visible(given)};"
                f" give a --key that is in it (its key: {types})"
            )
        records.append(history.record(versions))
    return _with_both_keys(project, history, records)


def _with_both_keys(project: Any, history: _History, records: list[Record]) -> list[Record]:
    """Return the records, each with those that it directly became or came from beside it."""
    moves = _moves(project, history, records)
    was = {(new.key, new.versions[0].valid_from_seq): old for old, new in moves}
    becomes = {(old.key, old.versions[0].valid_to_seq): new for old, new in moves}
    ended_in = _endings(project, history, records, becomes)
    known = {record.key for record in records}
    beside: dict[Key | None, Record] = {}
    for one in (one for move in moves for one in move if one.key not in known):
        if one.key in beside or len(beside) < _NEIGHBOURS:
            versions = beside.setdefault(one.key, replace(one, versions=[])).versions
            versions += [version for version in one.versions if version not in versions]
    for record in (*records, *beside.values()):
        key = record.key
        record.versions = [
            replace(
                version,
                was=old.key if (old := was.get((key, version.valid_from_seq))) else None,
                becomes=new.key if (new := becomes.get((key, version.valid_to_seq))) else None,
                ended_in=ended_in.get((key, version.valid_to_seq)) if version.ends else None,
            )
            for version in sorted(record.versions, key=lambda version: version.version)
        ]
    shown: list[Record] = []
    for record in records:
        olds = [version.was for version in record.versions]
        news = [version.becomes for version in record.versions]
        shown += [beside.pop(key) for key in olds if key in beside]
        shown.append(record)
        shown += [beside.pop(key) for key in news if key in beside]
    return shown


def _moves(
    project: Any, history: _History, records: Sequence[Record]
) -> list[tuple[Record, Record]]:
    """Return the key changes of some records: a record of the version before, and one of the next.

    If several rows changed their keys at one place in the order, they are left out.
    """
    places = {
        place
        for record in records
        for number, version in enumerate(record.versions)
        for place, is_end in (
            (version.valid_from_seq, record.begins(number)),
            (version.valid_to_seq, version.closed_by == "key_change"),
        )
        # Full-load rows all have the empty place.
        if is_end and place
    }
    if not places:
        return []
    m = history.meta
    listed = ", ".join(map(p.literal, sorted(places)))
    rows = project.query(
        f"select {history.line} as line from {history.node.relation_name}"
        f" where ({m['closed_by']} = 'key_change' and {m['valid_to_seq']} in ({listed}))"
        f" or (not {m['is_deleted']} and {m['valid_from_seq']} in ({listed}))"
    )
    olds: dict[str | None, list[Record]] = defaultdict(list)
    news: dict[str | None, list[Record]] = defaultdict(list)
    for one in (history.record([history.version(row)], is_asked=False) for row in rows):
        (version,) = one.versions
        if version.closed_by == "key_change":
            olds[version.valid_to_seq].append(one)
        news[version.valid_from_seq].append(one)
    return [
        (olds[place][0], news[place][0])
        for place in sorted(places)
        if len(olds[place]) == len(news[place]) == 1
    ]


def _endings(
    project: Any, history: _History, records: Sequence[Record], becomes: Any
) -> dict[tuple[Key, str | None], str]:
    """Return which transaction, and whose, ended records: by key and place in the order.

    A history that closes versions does not say who deleted a row. Its stream does.
    """
    ends = {(r.key, v.valid_to_seq) for r in records for v in r.versions if v.ends}
    known = {
        (record.key, version.valid_from_seq): version.transaction_id
        for record in records
        for version in record.versions
        if version.is_deleted
    } | {end: new.versions[0].transaction_id for end, new in becomes.items()}
    found = {end: f"transaction {name}" for end, name in known.items() if end in ends and name}
    if not ends:
        return found
    places = ", ".join(map(p.literal, sorted({place for _, place in ends if place})))
    for stream in project.parents(history.node):
        found_columns = project.columns_of(str(stream.relation_name)) or ()
        types = {column.name.lower(): column.type for column in found_columns}
        # The history may have renamed its key, or select from other tables too.
        has_key = all(
            re.search(f"[<,]{re.escape(column.name.lower())}:", types.get("before", ""))
            for column in history.key
        )
        if not has_key or not types.keys() >= {*CONTRACT, "transaction_id", "changed_by"}:
            continue
        both = "coalesce(before.{0}, after.{0})"
        key = [p.text_of(column, both.format(p.quote(column.name))) for column in history.key]
        rows = project.query(
            "select to_json(array(change_seq, operation, transaction_id, changed_by,"
            f" {', '.join(key)})) as line from {stream.relation_name}"
            f" where reject_reason is null and change_seq in ({places})"
        )
        for place, operation, transaction, user, *values in rows:
            named = {history.key_of(values)}
            if operation == "truncate":
                named = {key for key, end in ends if end == place}
            who = " ".join(
                f"{word} {name}"
                for word, name in (("transaction", transaction), ("by", user))
                if name
            )
            found |= {(key, place): who for key in named}
    return found


def _until(given: str | None) -> int | None:
    if given is None:
        return None

    try:
        when = datetime.now(timezone.utc) if given == "now" else datetime.fromisoformat(given)
    except ValueError:
        raise AfterimageError(
            f"--until must be `now`, or a date or time in UTC such as 2024-01-31. Got: {given}"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    delta = when - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _file_name(model: str, keys: Sequence[str]) -> str:
    words = re.sub(r"[^\w-]+", "-", "_".join(keys)).strip("-")[:60]
    return f"{model}-{words}.html"
