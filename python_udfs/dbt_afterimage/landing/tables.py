"""Loads landed files into a table of the catalog's format, each of them once.

The table remembers its files in a property. How rows and property come in together is a matter of
the format: `iceberg.py` and `delta.py`.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.delta import Delta
from dbt_afterimage.landing.files import File, Landing, shown, sql_path
from dbt_afterimage.landing.iceberg import Iceberg
from dbt_afterimage.landing.memory import PROPERTY, Load, Memory, Target, assignments
from dbt_afterimage.landing.stage import Group, columns_without_a_type, stage
from dbt_afterimage.landing.types import NESTED, can_alter, common, converted, holds, looser
from dbt_afterimage.runtime.locks import lock
from dbt_afterimage.runtime.project import Column, Project, quote
from dbt_afterimage.runtime.state import state_folder
from dbt_afterimage.text import text_literal, visible

# The texts that may become values of a type: those that can be turned back without a difference,
# apart from zeros at the end of fractions of one length. Leading zeros, signs and exponents stay
# text.
_WHOLE = "-?[1-9][0-9]{0,18}|0"
_TYPES = {
    "boolean": "(?i)true|false",
    "bigint": _WHOLE,
    "double": rf"(?:{_WHOLE}|-0)(?:[.][0-9]+)?",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?",
}
# The fraction of a number. A lone 0 is none: some writers put one behind each whole number.
_FRACTION = "[.](0[0-9]+|[1-9][0-9]*)$"
# Spark would take the partition `code=007` for the number 7.
_PARTITIONS_ARE_TEXTS = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
# The lines of JSON that show the order of the columns.
_LINES_FOR_ORDER = 1000
# As many digits as a double keeps.
_DOUBLE_DIGITS = 15
# An event log has the values of all columns in one, and its first file may have numbers alone.
_EVENT_LOG, _TEXTS_OF_EVENTS = {"record_id", "event_type"}, {"table_key", "old_value", "new_value"}


class _Misfit(AfterimageError):
    """Values of a file do not fit into a column of the table."""

    def __init__(self, message: str, own: Column, column: Column) -> None:
        super().__init__(message)
        self.own, self.column = own, column


@dataclass
class _Plan:
    """What a load does to the table.

    Attributes:
        columns: All columns that the table has then.
        new: Those that it lacks.
        widened: Those that get a wider type.
        selects: The queries for the rows, which return all columns.
    """

    columns: list[Column]
    new: list[Column]
    widened: list[Column]
    selects: list[str]


class Table:
    """A raw table that landed files are loaded into."""

    def __init__(self, project: Project, schema: str, name: str) -> None:
        """Name the table; nothing is asked yet."""
        self._project = project
        self._schema = quote(schema)
        self._name = f"{quote(schema)}.{quote(name)}"
        self._shown = f"{schema}.{name}"
        self._target = Target(project, self._name, self._shown)
        self._state = state_folder(project.folder) / "landing" / f"{schema}.{name}"

    def columns(self) -> list[Column] | None:
        """Return the table's columns; none if it does not exist."""
        return self._project.columns_of(self._name)

    def load(self, landing: Landing, *, more: bool) -> tuple[list[File], list[str]]:
        """Load the files that were not loaded before.

        Args:
            landing: The files.
            more: Whether the table may already have files of another path.

        Returns:
            The files that were loaded, and what to tell beside.

        Raises:
            AfterimageError: They cannot be loaded; none of them is.
        """
        with self._alone():
            memory = self._remembered()
            path = str(landing.path)
            unknown = self._new(landing, memory, more=more)
            moved = _moved(unknown, memory)
            for file, other in moved.items():
                content = memory.files[other][file.name][2]
                memory.add(path, {file.name: [file.size, file.modified, content]})
            new = [file for file in unknown if file not in moved]
            if new:
                folder = self._state / uuid.uuid4().hex
                folder.mkdir()
                has_partitions = any(file.partitions for file in new)
                settings = _PARTITIONS_ARE_TEXTS if has_partitions else {}
                with _removed(folder), self._project.using(settings):
                    links = self._format.takes_back
                    groups = stage(landing.format, new, folder, links=links)
                    self._load(path, new, groups, memory)
            elif moved:
                self._target.remember(memory)
        return new, [
            f"not loaded again: {count} file{'s'[: count != 1]} that came from {visible(other)}"
            " (the same name, size, time and content)"
            for other, count in Counter(moved.values()).items()
        ]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from loading into the table; the lock ends with this one."""
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "lock").open("w") as file:
            lock(file)
            for left in self._state.iterdir():
                if left.is_dir():  # by a process that was killed
                    shutil.rmtree(left)
            yield

    @cached_property
    def _format(self) -> Iceberg | Delta:
        # The table is in the session's catalog, whichever the target's schema names.
        file_format = self._project.format_in(self._project.catalog)
        kind = Delta if file_format == "delta" else Iceberg
        return kind(self._target)

    def _remembered(self) -> Memory:
        """Return what the table remembers, after finishing what a killed process left half done."""
        if self.columns() is None:
            return Memory()
        memory = self._target.memory()
        if memory is None:
            raise AfterimageError(
                f"{self._shown} already exists and was not made from landed files;"
                " choose another name: --as SCHEMA.TABLE"
            )
        self._format.settle(memory)
        return memory

    def _new(self, landing: Landing, memory: Memory, *, more: bool) -> list[File]:
        path = str(landing.path)
        if path not in memory.files and memory.files and not more:
            raise AfterimageError(
                f"{self._shown} holds the files of {visible(next(iter(memory.files)))}; to load"
                f" those of {shown(landing.path)} too, name the table: --as SCHEMA.TABLE"
            )
        # A file may have been landed alone, and now with its folder.
        known = {
            place: found
            for landed, names in memory.files.items()
            for name, found in names.items()
            for place in (landed, f"{landed}/{name}")
        }
        new = []
        # An empty file may be one that is being written.
        for file in (one for one in landing.files if one.size):
            size, modified, content = known.get(str(file.path), (None, None, None))
            if size is None:
                new.append(file)
            elif (size, modified) != (file.size, file.modified) and content != file.content():
                raise AfterimageError(
                    f"{shown(file.path)} has changed since it was loaded into {self._shown};"
                    " land new rows as a new file, or drop the table and land all files again"
                )
        return new

    def _load(
        self, path: str, files: Sequence[File], groups: Sequence[Group], memory: Memory
    ) -> None:
        read = [(group, self._columns_in(group)) for group in groups]
        read = [(group, columns) for group, columns in read if columns]
        # Where an earlier process was killed before the first file was in, this begins again.
        present = self.columns()
        if present and not memory.files and not self._format.has_rows():
            present = None
        types = self._types(read, {one.name.lower() for one in present or []})
        plan = self._planned(read, types, present or [])

        def check() -> None:
            for file in files:
                file.check_unchanged()

        # Half a file may show another type, which the column would keep.
        check()
        if present is None:
            self._make(plan.new)
        elif plan.new:
            self._format.allow(plan.new)
            self._project.rows(f"alter table {self._name} add columns ({_listed(plan.new)})")
        for one in plan.widened:
            self._project.rows(
                f"alter table {self._name} alter column {quote(one.name)} type {one.type}"
            )
        contents = {file.name: [file.size, file.modified, file.content()] for file in files}
        self._format.load(Load(path, contents, names_in(plan.columns), plan.selects, check), memory)

    def _planned(
        self,
        read: Sequence[tuple[Group, list[Column]]],
        types: Mapping[str, str],
        present: Sequence[Column],
    ) -> _Plan:
        """Find types that hold all values, before anything is written.

        Raises:
            AfterimageError: A column that is there holds them not, and cannot become wider; or
                there is no type that holds them.
        """
        there = {one.name.lower(): one for one in present}
        untyped = self._untyped(read, present)
        widened: dict[str, Column] = {}
        loosened: dict[str, str] = {}
        while True:
            united = _united(read, types, loosened)
            new = [one for one in united if one.name.lower() not in there]
            # Known before any query is written: each must return all columns.
            columns = [*(widened.get(name, one) for name, one in there.items()), *new]
            try:
                selects = [self._select(group, found, columns, untyped) for group, found in read]
            except _Misfit as misfit:
                name, own, kind = misfit.column.name, misfit.own.type, misfit.column.type
                if name.lower() in there:
                    wider = common(kind, own)
                    if not (wider and self._format.widens and can_alter(kind, wider)):
                        raise
                    widened[name.lower()] = Column(name, wider)
                    continue
                loose = looser(own, kind)
                if loose is None:
                    raise AfterimageError(
                        f"{visible(name)} is {own} in some files for {self._shown} and {kind} in"
                        " others, and no type holds both; land them as two tables"
                    ) from None
                loosened[name.lower()] = loose
            else:
                return _Plan(columns, new, list(widened.values()), selects)

    def _make(self, columns: Sequence[Column]) -> None:
        """Make the table, empty."""
        if not columns:
            raise AfterimageError(f"no file for {self._shown} has a column; land them once one has")
        self._create(
            columns,
            "--copy needs one (CSV and Avro are always copied); choose another --target, or land"
            " Parquet in place",
        )

    def _create(self, columns: Sequence[Column], remedy: str) -> list[Column]:
        """Make the table, empty; where there is one, replace it.

        Args:
            columns: Its columns.
            remedy: What to do where no such table can be made.
        """
        self._project.rows(f"create schema if not exists {self._schema}")
        properties = {PROPERTY: Memory().text(), **self._format.name_properties(columns)}
        verb = "create table" if self.columns() is None else "create or replace table"
        try:
            self._project.rows(
                f"{verb} {self._name} ({_listed(columns)}) using {self._format.name}"
                f" tblproperties ({assignments(properties)})"
            )
        except AfterimageError as error:
            if "data source: iceberg" not in str(error):
                raise
            raise AfterimageError(
                f"{self._project.target} has neither Iceberg nor Delta, and {remedy}"
            ) from None
        made = self.columns()
        assert made is not None
        return made

    def _types(
        self, read: Sequence[tuple[Group, list[Column]]], known: Collection[str]
    ) -> dict[str, str]:
        """Return the type of each text column: the first that fits all values of all files.

        Args:
            read: The files.
            known: Columns that the table already has; their types stay.
        """
        fits: dict[str, set[str]] = {}
        seen: set[str] = set()
        lengths: dict[str, set[int]] = {}
        padded: set[str] = set()
        for group, _ in read:
            names = {name.lower() for name in group.texts}
            texts = _TEXTS_OF_EVENTS if names >= _EVENT_LOG else set()
            # A mask is hex, and the first file may have digits alone.
            new = [
                name
                for name in group.texts
                if not name.lower().endswith("mask") and name.lower() not in texts | {*known}
            ]
            for name, has_values, zeros, shortest, longest, *counts in self._counted(group, new):
                key = name.lower()
                misfits = dict(zip(_TYPES, counts, strict=True))
                fitting = {kind for kind, count in misfits.items() if not count}
                fits[key] = fits.get(key, set(_TYPES)) & fitting
                lengths.setdefault(key, set()).update({shortest, longest} - {None})
                if zeros:
                    padded.add(key)
                if has_values:
                    seen.add(key)
        for name in padded:
            # Amounts have as many digits each. Codes do not: 1.10 is not 1.1.
            if len(lengths[name]) > 1:
                fits[name].discard("double")
        return {
            name: next((kind for kind in _TYPES if kind in fitting and name in seen), "string")
            for name, fitting in fits.items()
        }

    def _counted(self, group: Group, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return for each text column how many values it has, and how many misfit each type.

        In between: how many end in a zero of a fraction, and the lengths of the shortest and of the
        longest fraction.
        """
        if not names:
            return []
        counts = []
        for name in names:
            text = quote(name)
            fraction = f"length(nullif(regexp_extract({text}, '{_FRACTION}', 1), ''))"
            counts.append(f"count(nullif({text}, ''))")
            counts.append(f"count_if({text} rlike '[.][0-9]+0$')")
            counts += [f"min({fraction})", f"max({fraction})"]
            counts += [f"count_if({text} <> '' and not {_fits(text, kind)})" for kind in _TYPES]
        [row] = self._project.rows(f"select {', '.join(counts)} from {_source(group)}")
        width = len(_TYPES) + 4
        return [
            (name, *row[number * width : (number + 1) * width]) for number, name in enumerate(names)
        ]

    def _untyped(
        self, read: Sequence[tuple[Group, list[Column]]], present: Sequence[Column]
    ) -> set[str]:
        """Return the text columns of the table that have no value yet, and another type in a file.

        Nothing has shown so far that they are text, and no file says so. JSON without a value and
        CSV count as text, but do not say it.
        """
        texts = {one.name.lower() for one in present if one.type == "string"}
        declared = {
            one.name.lower()
            for group, columns in read
            for one in columns
            if one.type == "string" and group.format != "json" and one.name not in group.texts
        }
        names = {
            one.name.lower()
            for group, columns in read
            for one in columns
            if one.type not in ("string", "void") and one.name not in group.texts
        }
        doubtful = sorted(texts & names - declared)
        if not doubtful:
            return set()
        counts = ", ".join(f"count({quote(name)})" for name in doubtful)
        [row] = self._project.rows(f"select {counts} from {self._name}")
        return {name for name, count in zip(doubtful, row, strict=True) if not count}

    def _select(
        self,
        group: Group,
        columns: Sequence[Column],
        present: Sequence[Column],
        untyped: Collection[str],
    ) -> str:
        """Return the query for a group's rows, with the table's columns and types.

        Args:
            group: The group.
            columns: Its columns.
            present: Those of the table.
            untyped: Those that are text only because they have no value yet.

        Raises:
            AfterimageError: A value would change.
        """
        found = {column.name.lower(): column for column in columns}
        expressions, doubtful = [], []
        for column in present:
            own = found.pop(column.name.lower(), None)
            kind = column.spelled or column.type
            if own is None or own.type == "void":
                expressions.append(f"cast(null as {column.type})")
            elif "binary" in (own.type, column.type) and own.type != column.type:
                # A text may be the digits of bytes, and a cast would take its letters.
                expressions.append(f"cast(null as {column.type})")
                no_value = " <> ''" if own.name in group.texts else " is not null"
                doubtful.append((own, column, f"{quote(own.name)}{no_value}"))
            elif own.name in group.texts and column.type != "string":
                expressions.append(f"cast(nullif({quote(own.name)}, '') as {column.type})")
                if column.type in _TYPES:
                    fits = _fits(quote(own.name), column.type)
                    doubtful.append((own, column, f"{quote(own.name)} <> '' and not {fits}"))
                else:
                    doubtful.append((own, column, _differs(own, column)))
            elif holds(kind, own.spelled or own.type):
                expressions.append(converted(quote(own.name), own.spelled or own.type, kind))
            elif own.type == "string" and column.type.startswith(NESTED):
                # JSON without a value counts as text.
                expressions.append(f"cast(null as {column.type})")
                doubtful.append((own, column, f"{quote(own.name)} is not null"))
            elif (
                group.format == "json"
                and own.type.startswith(NESTED)
                and column.type.startswith(NESTED)
            ):
                # Items of an empty list, and a field without a value, count as texts.
                text = f"to_json({quote(own.name)})"
                value = f"from_json({text}, {text_literal(kind)})"
                expressions.append(value)
                doubtful.append((own, column, f"not (to_json({value}) <=> {text})"))
            elif own.type.startswith(NESTED) or column.type.startswith(NESTED):
                raise self._misfit("values", own, column)
            elif column.name.lower() in untyped or (
                _is_time(own.type) != _is_time(column.type)
                and "string" not in (own.type, column.type)
            ):
                # Spark takes a number for seconds, whatever it counts.
                expressions.append(f"cast(null as {column.type})")
                doubtful.append((own, column, f"{quote(own.name)} is not null"))
            else:
                expressions.append(f"cast({quote(own.name)} as {column.type})")
                doubtful.append((own, column, _differs(own, column)))
        if doubtful:
            counts = ", ".join(f"count_if({condition})" for _, _, condition in doubtful)
            [row] = self._project.rows(f"select {counts} from {_source(group)}")
            for (own, column, condition), count in zip(doubtful, row, strict=True):
                if count:
                    plural = "s"[: count != 1]
                    why = ", as it has no value yet" if column.name.lower() in untyped else ""
                    got = self._got(group, own, condition)
                    raise self._misfit(f"{count} value{plural}", own, column, why, got)
        return f"select {', '.join(expressions)} from {_source(group)}"

    def _got(self, group: Group, own: Column, condition: str) -> str:
        """Return what an error message shows of the values that do not fit: one of them."""
        text = f"left(cast({quote(own.name)} as string), 60)"
        query = f"select {text} from {_source(group)} where {condition} limit 1"
        [(value,)] = self._project.rows(query)
        # Some writers of CSV write it for NULL.
        is_word = value == "NULL" and own.name in group.texts
        hint = ", which is a text: only an empty cell is NULL" if is_word else ""
        return f". Got: {visible(value)}{hint}"

    def _misfit(
        self, what: str, own: Column, column: Column, why: str = "", got: str = ""
    ) -> _Misfit:
        return _Misfit(
            f"{what} of {visible(own.name)} ({own.type}) would change in {self._shown}, where the"
            f" column is {column.type}{why}; land these files as another table, or drop this one"
            f" and land all files again{got}",
            own,
            column,
        )

    def _columns_in(self, group: Group) -> list[Column]:
        if not any(group.folder.iterdir()):
            return []
        described = columns_at(self._project, group.format, group.folder, self._shown)
        if group.format == "json":
            places = {name: place for place, name in enumerate(self._names_in(group.folder))}
            described.sort(key=lambda one: places.get(one.name, len(places)))
        untyped = columns_without_a_type(group)
        return [Column(one.name, "void") if one.name in untyped else one for one in described]

    def _names_in(self, folder: Path) -> list[str]:
        """Return the names in JSON objects in their order; Spark sorts columns by name.

        Masks count columns in the source's order, and the fullest of the first objects show it.
        """
        lines = f"(select value from text.`{sql_path(folder)}` limit {_LINES_FOR_ORDER})"
        found = self._project.rows(f"select to_json(json_object_keys(value)) from {lines}")
        names: list[str] = []
        objects = map(json.loads, dict.fromkeys(one for (one,) in found if one is not None))
        for keys in sorted(objects, key=len, reverse=True):
            place = 0
            for name in keys:
                # A name that fuller objects left out stands behind the one before it.
                if name not in names:
                    names.insert(place, name)
                place = names.index(name) + 1
        return names


def _moved(files: Sequence[File], memory: Memory) -> dict[File, str]:
    """Return those of unknown files that were loaded from another landed path, each with that path.

    A container may mount the folder elsewhere, or a link may lead to it. The next delivery may have
    the same name and content, but not the same time.
    """
    return {
        file: landed
        for file in files
        for landed, names in memory.files.items()
        if (known := names.get(file.name)) is not None
        and known[:2] == [file.size, file.modified]
        and known[2] == file.content()
    }


@contextmanager
def _removed(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _united(
    read: Sequence[tuple[Group, list[Column]]],
    types: Mapping[str, str],
    loosened: Mapping[str, str],
) -> list[Column]:
    """Return the columns of all groups, each with a type that holds all its values.

    Args:
        read: The groups and their columns.
        types: The types of text columns.
        loosened: Types in place of those whose values do not fit together.
    """
    columns: dict[str, tuple[str, str]] = {}
    for group, found in read:
        for column in found:
            key, own = column.name.lower(), column.spelled or column.type
            own = types.get(key, own) if column.name in group.texts else own
            name, known = columns.setdefault(key, (column.name, own))
            columns[key] = name, loosened.get(key) or common(known, own) or known
    # A column without a value in any file: a text can hold what comes.
    typed = [(name, "string" if kind == "void" else kind) for name, kind in columns.values()]
    return [Column(name, kind.lower(), kind) for name, kind in typed]


def _is_time(kind: str) -> bool:
    return kind.startswith(("date", "timestamp"))


def names_in(columns: Sequence[Column]) -> str:
    """Return the names of columns as a list in SQL."""
    return ", ".join(quote(one.name) for one in columns)


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(f"{quote(one.name)} {one.spelled or one.type}" for one in columns)


def _source(group: Group) -> str:
    return f"{group.format}.`{sql_path(group.folder)}`"


def _fits(text: str, kind: str) -> str:
    """Return the condition that a text is a value of a type."""
    condition = (
        f"{text} rlike '^(?:{_TYPES[kind]})\\\\z' and try_cast({text} as {kind}) is not null"
    )
    if kind == "double":
        condition += f" and length(regexp_replace({text}, '[^0-9]', '')) <= {_DOUBLE_DIGITS}"
    return f"({condition})"


def _differs(own: Column, column: Column) -> str:
    """Return the condition that a value changes when it is cast to the other type and back.

    In ANSI mode a plain cast of a value that does not fit ends the query.
    """
    name = quote(own.name)
    return f"not (try_cast(try_cast({name} as {column.type}) as {own.type}) <=> {name})"


def columns_at(project: Project, format_name: str, path: Path, what: str) -> list[Column]:
    """Return the columns of files that Spark reads by their path.

    Args:
        project: The project whose Spark it is.
        format_name: The format.
        path: The path.
        what: What was landed, for error messages.

    Raises:
        AfterimageError: Spark cannot read them.
    """
    try:
        columns = project.columns_of(f"{format_name}.`{sql_path(path)}`") or []
    except AfterimageError as error:
        # Spark says no more than this. Files that cannot be read were found before.
        unclear = ("[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY]", "[COLUMN_ALREADY_EXISTS]")
        if not any(code in str(error) for code in unclear):
            raise
        raise AfterimageError(
            f"Spark finds no columns in the {format_name} files of {what}; check whether two names"
            " differ only in case, one is also a partition (column=value), or one has a type that"
            " Spark does not read, such as a UUID"
        ) from None
    if format_name == "json" and any(one.name == "_corrupt_record" for one in columns):
        raise AfterimageError(
            f"{what} has lines that are not JSON objects; write one object per line"
            " (jq -c '.[]' splits a list into lines)"
        )
    return columns
