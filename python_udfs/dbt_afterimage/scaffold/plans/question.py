"""What all plans share: the question, the plan, and what several systems ask or say."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, Project, quote
from dbt_afterimage.scaffold.keys import NoKey, propose
from dbt_afterimage.scaffold.landed import Landed, names_of
from dbt_afterimage.text import text_literal


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
        written_encoding: Its `mask_encoding`; none if it has none.
        written_statuses: Its `statuses`; none if it has none.
        written_order: Its `order_by`; none if it has none.
        written_places: Its `position`, `headers` and `time`, as they stand there; none for one that
            it does not have, and empty without a model.
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
    written_encoding: str | None = None
    written_statuses: Sequence[str] | None = None
    written_order: Sequence[str] | None = None
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


_WIDENINGS = [["tinyint", "smallint", "int", "bigint"], ["float", "double"]]


def _wider(written: str, found: str) -> str:
    """Return a column's new type if a built table can follow to it, else its type."""
    for kinds in _WIDENINGS:
        if written in kinds and found in kinds:
            return max(written, found, key=kinds.index)
    digits = [re.fullmatch(r"decimal\((\d+),(\d+)\)", one) for one in (written, found)]
    (size, scale), (new_size, new_scale) = (
        (int(one[1]), int(one[2])) if one else (0, 0) for one in digits
    )
    return found if all(digits) and new_size >= size and new_scale == scale else written


def is_same_table(one: str, other: str) -> bool:
    """Whether two names mean one table.

    Args:
        one: A name.
        other: Another; one of the two may lack the schema.
    """
    parts, others = one.strip().lower().split("."), other.strip().lower().split(".")
    fewest = min(len(parts), len(others))
    return parts[-fewest:] == others[-fewest:]


def spelled(key: Sequence[str], columns: Sequence[Column], what: str) -> list[str]:
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


def add_commit_times(plan: Plan, question: Question, option: str, table: str) -> None:
    """Add the table of commit times to the call; if it was not given, add a note."""
    if option in question.others:
        plan.call[option] = question.others[option].reference
    else:
        plan.notes.append(
            f"changed_at will be unknown: {question.landed.name} has no commit times. Give"
            f" --{option.replace('_', '-')}, the table {table}."
        )


def no_key(
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


def before_images(question: Question, found: Sequence[Column], prefix: str) -> dict[str, str]:
    """Return the before-image column of each column, as the macro finds them, in lower case."""
    images: dict[str, str] = question.project.macro(
        "_before_columns",
        found=names_of(found),
        types={column.name.lower(): column.type for column in found},
        columns=question.arguments.get("columns") or [],
        prefix=prefix,
    )
    return images


def unlike_images(columns: Sequence[Column], prefix: str) -> list[tuple[Column, Column]]:
    """Return data columns that would be before-images but for their type, each behind its own."""
    return [
        (one, image)
        for one, image in product(columns, columns)
        if prefix and image.name.lower() == f"{prefix}{one.name}".lower() and image.type != one.type
    ]


def why_unlike(one: Column, image: Column) -> str:
    return (
        f"it is {image.type} and {one.name} is {one.type}. If it is a before-image, land both with"
        " one type. (A column of CSV files without a value is text: once it has one, drop the table"
        " and land all.)"
    )


def column_named(name: str, landed: Landed) -> str:
    """Return a column as the table spells it; the name itself if it has none."""
    return next((c.name for c in landed.columns if c.name.lower() == name.lower()), name)


def code_of(column: str) -> str:
    """Return SQL for the code of an operation."""
    return f"upper(trim(cast({quote(column)} as string)))"


def guess_note(key: Sequence[str], guessed_from: str) -> str:
    return f"key: {', '.join(key)}, guessed from {guessed_from}. Check it."


def column_list(columns: Sequence[Column], encodings: Mapping[str, str] | None = None) -> str:
    """Return a list of {name, type} for a model, with the `encoding` of columns that have one.

    Args:
        columns: The columns.
        encodings: The encoding of some, by their names in lower case.
    """
    ends = {name: f", 'encoding': '{encoding}'" for name, encoding in (encodings or {}).items()}
    lines = [
        f"        {{'name': {text_literal(one.name)}, 'type': '{one.type}'"
        f"{ends.get(one.name.lower(), '')}}},"
        for one in columns
    ]
    return "[\n" + "\n".join(lines) + "\n    ]"
