"""A table's draft: what wrote it, what it has already, the plan, and the texts to write."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import REGISTRY_SCHEMAS, Column, Project, quote
from dbt_afterimage.scaffold import landed as tables
from dbt_afterimage.scaffold import plans
from dbt_afterimage.scaffold.entries import FILE, Entry
from dbt_afterimage.scaffold.existing import OF_MESSAGES, Existing
from dbt_afterimage.scaffold.landed import Landed
from dbt_afterimage.scaffold.plans.qlik import described_ids
from dbt_afterimage.scaffold.plans.question import NothingLanded, Question, SeveralTables
from dbt_afterimage.scaffold.systems import ENVELOPE, SYSTEMS, Found, hint, known_by, recognise
from dbt_afterimage.scaffold.writer import Draft, Writer


class NoChangeTable(AfterimageError):
    """A table is not a change table of a known system."""


class Stays(AfterimageError):
    """A table has its models already, and they stay as they are.

    Attributes:
        models: Their nodes.
    """

    def __init__(self, text: str, models: Sequence[Any]) -> None:
        self.models = models
        super().__init__(text)


def look(
    project: Project, entry: Entry, every: Collection[str] | None = None
) -> tuple[Landed, Found | None]:
    """Return a landed table, and the system that wrote it; none if it is not a change table.

    Args:
        project: The dbt project.
        entry: The table and its options.
        every: All tables of the project, if they are known.

    Raises:
        NotReadable: There is no such table, or Spark cannot read it.
        AfterimageError: Its source would be that of another table, or there is no such system.
    """
    landed = tables.find(project, "RELATION", entry.relation, _own_sources(project), every)

    def shows(sign: str, column: Column) -> bool:
        try:
            return tables.shows(project, landed.relation, sign, column)
        except AfterimageError as error:
            raise tables.NotReadable(str(error)) from None

    return landed, recognise(landed.columns, entry.arguments, entry.system, shows)


def _own_sources(project: Project) -> str:
    """Return a pattern of the property files in which sources are declared by us."""
    return rf"{re.escape(project.models_folder)}/staging/\w+/_src_\w+\.yml"


def draft(
    project: Project,
    entry: Entry,
    *,
    is_searched: bool = False,
    is_listed: bool = True,
    listed_tables: Sequence[str] = (),
    every: Collection[str] | None = None,
) -> Draft:
    """Look at a landed table and return the texts to write for it.

    Args:
        project: The dbt project.
        entry: The table and its options.
        is_searched: Whether the table is one of many that are looked at, and nobody has named it.
        is_listed: Whether `afterimage.yml` has it.
        listed_tables: Source tables of it that the list has. The entry is for the others.
        every: All tables of the project, if they are known.

    Raises:
        NoChangeTable: It is not a change table.
        SeveralTables: It holds several source tables, or some are listed.
        Stays: It has models, and what is landed now does not show what theirs are; or they are
            those of another table; or nothing but metadata messages was found by a search.
        NotReadable: There is no such table, or Spark cannot read it.
        AfterimageError: The user must say more about it.
    """
    landed, found = look(project, entry, every)
    if found is None:
        said = (
            f"{landed.name} is not a change table of a known system. If its columns have other"
            " names, give the system with --system and the names with --arguments. A table with a"
            " row of I, U or D for each change can be read as dms_changes, with operation and"
            " order_by in --arguments (docs/systems/dms_changes.md). Any other can be a stream if a"
            " model of yours gives it the change contract. The systems and their signs:"
            f"\n{known_by()}\nIt has:"
            f" {', '.join(tables.names_of(landed.columns))}\n{hint(landed.columns)}".rstrip()
        )
        # The rows that showed it may have been taken in and deleted.
        for system in (one for one in SYSTEMS if one.is_shown_by_rows):
            existing = Existing(project, landed, Found(system, [], [], {}), entry)
            if existing.staging is not None:
                raise Stays(said, existing.models)
        raise NoChangeTable(said)
    value = str(entry.arguments.get("value", "value"))
    of_qlik = is_searched and found.system.macro == "qlik_messages"
    if of_qlik and tables.holds_metadata(project, str(landed.relation), value)[1]:
        raise Stays(f"{landed.name} has only metadata messages, and no change", [])
    existing = Existing(project, landed, found, entry)
    if existing.is_of_another(is_listed=is_listed):
        raise Stays(
            f"{landed.name} has models already: {existing.staging.name} reads it by way of other"
            f" models. If {FILE} has none of the tables that it reads, add this one there",
            existing.models,
        )
    if entry.table:
        existing.check_named(landed)
    written = existing.written()
    keeps_columns = written.get("written_columns") and not written["written_metadata"]
    if not keeps_columns or found.system.macro != "qlik_messages":
        entry = _with_metadata(project, entry, landed, found)
    try:
        others = {
            option: tables.find(project, f"--{option}", name, _own_sources(project), every)
            for option, name in entry.others().items()
        }
    except tables.NotReadable as error:
        # The table itself can be read, so what it needs beside it is a question.
        raise AfterimageError(str(error)) from None
    key, notes = list(entry.key), []
    known_key = existing.history and existing.history.config.unique_key
    if not key and known_key:
        key = [known_key] if isinstance(known_key, str) else list(known_key)
        if not existing.is_ours("history"):
            notes.append(f"key: {', '.join(key)}, as in {existing.history.name}.")
    if listed_tables:
        written["listed"] = listed_tables
    else:
        existing.check_tables(landed)
    if "columns" in entry.arguments:
        written["written_columns"] = []
    elif keeps_columns and found.system.macro in OF_MESSAGES and not listed_tables:
        written["undeclared"] = existing.undeclared(written["written_columns"])
    written["is_staged"] = existing.staging is not None
    question = Question(project, landed, others, key, entry.table, entry.arguments, **written)
    try:
        plan = plans.make(found.system.macro, question)
    except SeveralTables as error:
        existing.check_named(landed)
        error.staged = existing.tables
        raise
    except NothingLanded as error:
        if existing.is_staged_by_us:
            raise Stays(str(error), existing.models) from None
        raise
    writer = Writer(project, entry, landed, others, found, plan, existing)
    made = writer.draft()
    made.notes = [*notes, *plan.notes, *made.notes]
    return made


def _with_metadata(project: Project, entry: Entry, landed: Landed, found: Found) -> Entry:
    """Return the entry with the table that describes its messages, if there is one beside it."""
    value = str(entry.arguments.get("value", "value"))
    schema = entry.relation.rpartition(".")[0] or str(project.credentials.schema)
    if entry.metadata or "`" in entry.relation:
        return entry
    if found.system.macro == "debezium_messages" and tables.is_framed(project, landed, value):
        name = f"{schema}.{REGISTRY_SCHEMAS}"
        return entry if project.columns_of(name) is None else replace(entry, metadata=name)
    if found.system.macro == "qlik_messages":
        ids = tables.schema_ids(project, str(landed.relation), value)
        if ids and not tables.holds_metadata(project, str(landed.relation), value)[0]:
            for name in metadata_beside(project, schema, value):
                if ids & described_ids(project, name, value):
                    return replace(entry, metadata=name)
    return entry


def metadata_beside(project: Project, schema: str, value: str) -> list[str]:
    """Return the tables of a schema that have nothing but Qlik's metadata messages.

    Args:
        project: The dbt project.
        schema: The schema.
        value: The column with the messages.
    """
    place = tables.in_sql(schema)
    try:
        listed = project.rows(f"show tables in {place}")
    except AfterimageError:
        return []  # The name of a source that is no schema.
    found = []
    for name in sorted(str(row[1]) for row in listed):
        # A table that cannot be read is nothing to read beside others.
        with suppress(AfterimageError):
            if _has_only_metadata(project, f"{place}.{quote(name)}", value):
                found.append(f"{schema}.{name}")
    return found


def _has_only_metadata(project: Project, relation: str, value: str) -> bool:
    columns = project.columns_of(relation) or []
    column = next((c for c in columns if c.name.lower() == value.lower()), None)
    if column is None or not tables.shows(project, relation, ENVELOPE, column):
        return False
    return tables.holds_metadata(project, relation, column.name)[1]
