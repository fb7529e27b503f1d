"""The texts of a table's models: source, staging, history, current, audit, tests and docs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.files import Texts, is_sealed
from dbt_afterimage.runtime.project import REGISTRY_SCHEMAS, Column, Project, quote
from dbt_afterimage.scaffold import landed as tables
from dbt_afterimage.scaffold import plans
from dbt_afterimage.scaffold.entries import FILE, Entry
from dbt_afterimage.scaffold.landed import Landed, Source, model_name, text_literal
from dbt_afterimage.scaffold.plans.qlik import described_ids, name_of_topic
from dbt_afterimage.scaffold.plans.question import (
    NothingLanded,
    Plan,
    Question,
    SeveralTables,
    is_same_table,
)
from dbt_afterimage.scaffold.systems import (
    ENVELOPE,
    SYSTEMS,
    Found,
    is_ours,
    known_by,
    recognise,
)

KINDS = ("staging", "history", "current", "audit")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TABLE = re.compile(r"""\btable\s*=\s*['"]([^'"]*)['"]""")
# Of this macro it is the third argument, behind the key.
_THIRD = re.compile(r"""\bnetiq_event_log\([^\[]*\[[^\]]*\]\s*,\s*['"]([^'"]*)['"]""")
_COLUMNS = re.compile(r"\bcolumns\s*=\s*(\[.*?\n    \])", re.DOTALL)
_NUMBER = re.compile(r"\bsource_table_number\s*=\s*(\d+)")
_METADATA = re.compile(r"\bmetadata\s*=")
_PLACES = {
    "position": re.compile(r"\bposition\s*=\s*(\[[^\]]*\])"),
    "headers": re.compile(r"""\bheaders\s*=\s*('[^']*'|"[^"]*")"""),
}
_ABSENT = re.compile(r"\bnull_is_absent\s*=\s*(\[[^\]]*\])")
# What staging models of messages say of these, before their names.
_UNDECLARED = "columns that are not declared: "
_OF_MESSAGES = ("qlik_messages", "debezium_messages")
_OF_SEVERAL = (*_OF_MESSAGES, "netiq_event_log")
_NO_TEXT_IN_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


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


@dataclass
class Draft:
    """What is known about a table, and the texts to write for it.

    Attributes:
        entry: The table, with the tables beside it that were found.
        found: How the table was recognised.
        staging: The name of the staging model, which may exist already.
        notes: What was guessed, and what to check.
    """

    entry: Entry
    found: Found
    key: list[str]
    staging: str
    texts: Texts
    notes: list[str] = field(default_factory=list)


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
            " names, give the system with --system and the names with --arguments. The systems and"
            f" their signs:\n{known_by()}\nIt has:"
            f" {', '.join(tables.names_of(landed.columns))}"
        )
        # The rows that showed it may have been taken in and deleted.
        for system in (one for one in SYSTEMS if one.is_shown_by_rows):
            existing = _Existing(project, landed, Found(system, [], [], {}), entry)
            if existing.staging is not None:
                raise Stays(said, existing.models)
        raise NoChangeTable(said)
    value = str(entry.arguments.get("value", "value"))
    of_qlik = is_searched and found.system.macro == "qlik_messages"
    if of_qlik and tables.holds_metadata(project, str(landed.relation), value)[1]:
        raise Stays(f"{landed.name} has only metadata messages, and no change", [])
    existing = _Existing(project, landed, found, entry)
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
    elif keeps_columns and found.system.macro in _OF_MESSAGES and not listed_tables:
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
    writer = _Writer(project, entry, landed, others, found, plan, existing)
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


class _Existing:
    """The models that a landed table already has, found by what they do, not by name.

    Attributes:
        name: The base name of those that `init` has written; none if it has written no staging.
    """

    def __init__(self, project: Project, landed: Landed, found: Found, entry: Entry) -> None:
        nodes = project.models()
        self._project, self._prefix = project, f"stg_{found.system.folder}__"
        self._folders = _folders(project, found.system.folder)
        name = model_name(entry.name) if entry.name else None
        self._macro = found.system.macro
        callers = _callers(nodes, self._macro)
        self.streams = self._streams(callers, landed.nodes, landed, entry)
        self._reads_through = not self.streams
        if callers and self._reads_through:
            through = self._streams(callers, _holders(nodes, landed.nodes), landed, entry)
            # Another name asks for models of its own.
            self.streams = [
                node for node in through if name is None or node.name == f"{self._prefix}{name}"
            ]
        self.staging = self._chosen("staging", self.streams, f"{self._prefix}{name}")
        self.name = self._name_by_us(self.staging) if self.staging is not None else None
        if name is None and self.staging is not None:
            name = self.staging.name.removeprefix(self._prefix)
        of_stream = _readers(nodes, self.staging)
        histories = [n for n in of_stream if n.config.materialized == "history"]
        histories += _callers(of_stream, "scd2")
        self.history = self._chosen("history", histories, f"{name}_history")
        currents = _callers(_readers(nodes, self.history), "current_state")
        self.current = self._chosen("current", currents, f"{name}_current")
        audits = [n for n in of_stream if n.config.materialized == "audit"]
        audits += _callers(of_stream, "change_audit")
        self.audit = self._chosen("audit", audits, f"{name}_audit")

    @property
    def models(self) -> list[Any]:
        """The models, without those that are lacking."""
        return [node for kind in KINDS if (node := getattr(self, kind)) is not None]

    @property
    def tables(self) -> list[str]:
        """The source tables that the staging models which may be meant say they are of."""
        return _tables_of(self.streams)

    @property
    def is_staged_by_us(self) -> bool:
        """Whether `init` has written a staging model."""
        return self.staging is not None and self.is_ours("staging")

    def is_of_another(self, *, is_listed: bool) -> bool:
        """Whether the staging model is another table's, and only reads this one through models.

        Args:
            is_listed: Whether the list has this table. Then the model is its own, unless it still
                is as `init` has written it for another.
        """
        if self.staging is None or not self._reads_through:
            return False
        path = self._project.file_of(self.staging)
        return not is_listed or (path is not None and is_unedited(self._project, path))

    def _streams(
        self, callers: Iterable[Any], held: frozenset[str], landed: Landed, entry: Entry
    ) -> list[Any]:
        """Return the staging models that read one of some tables."""
        found = [
            node
            for node in callers
            if not held.isdisjoint(node.depends_on.nodes) and self._is_of_table(node, landed, entry)
        ]
        sure = [node for node in found if not self._names_no_table(node)]
        return sure if entry.table and sure else found

    def _chosen(self, kind: str, nodes: Sequence[Any], name: str) -> Any:
        """Return the model that `init` would write, by its name, else by its place.

        Without one, it is the first by name.
        """

        def order(node: Any) -> tuple[bool, bool, str]:
            return node.name != name, not self._is_in_place(kind, node), str(node.name)

        return min(nodes, key=order, default=None)

    def _is_in_place(self, kind: str, node: Any) -> bool:
        return self._project.file_of(node) == f"{self._folders[kind]}/{node.name}.sql"

    def _name_by_us(self, staging: Any) -> str | None:
        """Return the base name of a staging model that `init` has written; none for others."""
        is_ours = self._is_in_place("staging", staging) and staging.name.startswith(self._prefix)
        return str(staging.name.removeprefix(self._prefix)) if is_ours else None

    def _is_of_table(self, node: Any, landed: Landed, entry: Entry) -> bool:
        """Whether a model may belong to a source table; a topic or an event log holds several."""
        if not entry.table:
            return True
        written = _table_of(node)
        if written is not None:
            return is_same_table(written, entry.table)
        # A model of ours without a table is of the only one that there was. Its name may say which.
        name, topic = self._name_by_us(node), landed.identifier
        table = entry.table.rpartition(".")[2].strip()
        possible = [entry.name] if entry.name else [table, topic, name_of_topic(topic)]
        return name is None or name in map(model_name, possible)

    def written(self) -> dict[str, Any]:
        """Return what a question tells of a staging model of ours."""
        if self.staging is None or not self.is_ours("staging"):
            return {}
        number = _NUMBER.search(self.staging.raw_code)
        declared, absent = (_list_in(self.staging, sign) for sign in (_COLUMNS, _ABSENT))
        places = {name: sign.search(self.staging.raw_code) for name, sign in _PLACES.items()}
        try:
            typed = [Column(one["name"], one["type"]) for one in declared or ()]
        except (TypeError, KeyError):
            typed = []  # Somebody has written them in another way.
        return {
            "written_table": _table_of(self.staging),
            "written_columns": typed,
            "written_number": number[1] if number else None,
            "written_metadata": _METADATA.search(self.staging.raw_code) is not None,
            "written_absent": absent,
            "written_places": {name: found[1] if found else None for name, found in places.items()},
        }

    def undeclared(self, written: Sequence[Column]) -> list[str]:
        """Return the columns of messages that the staging table warns of, and its model lacks.

        Args:
            written: The columns that the model has. Somebody who has edited it may have left some
                out.
        """
        path = self._project.file_of(self.staging)
        if path is None or not is_unedited(self._project, path):
            return []
        said: list[Sequence[Any]] = []
        # A table that is not built yet, or cannot be read, says nothing.
        with suppress(AfterimageError):
            said = self._project.rows(
                "select distinct warning from (select explode(warnings) as warning"
                f" from {self.staging.relation_name}) where startswith(warning, '{_UNDECLARED}')"
            )
        names = {name for [text] in said for name in text.removeprefix(_UNDECLARED).split(", ")}
        declared = {one.name.lower() for one in written}
        return sorted(name for name in names if name.lower() not in declared)

    def check_tables(self, landed: Landed) -> None:
        """Check that the staging models of ours that may be meant are of one source table.

        Raises:
            SeveralTables: They are of several.
        """
        ours = [node for node in self.streams if self._is_in_place("staging", node)]
        written = _tables_of(ours)
        if not all(is_same_table(one, other) for one in written for other in written):
            raise SeveralTables(f"the models of {landed.name}", written, self.tables)

    def check_named(self, landed: Landed) -> None:
        """Check that a staging model says of which source table it is, if there are any.

        Args:
            landed: What may hold several source tables.

        Raises:
            AfterimageError: None does. They may be of any of them.
        """
        if self.streams and all(map(self._names_no_table, self.streams)):
            node = self.staging
            raise AfterimageError(
                f"{landed.name} may hold several tables, and {node.name}, which reads it, does not"
                f" name one by `table='…'`: write that into its call of {self._macro}"
                f" ({node.original_file_path})"
            )

    def _names_no_table(self, node: Any) -> bool:
        """Whether a model that `init` did not write leaves open of which table it is."""
        return (
            self._macro in _OF_SEVERAL
            and self._name_by_us(node) is None
            and _table_of(node) is None
        )

    def is_ours(self, kind: str) -> bool:
        """Whether a model is where `init` writes it."""
        node = getattr(self, kind)
        return node is None or self._is_in_place(kind, node)


def _table_of(node: Any) -> str | None:
    """Return the source table that a staging model names in its call; none if it names none."""
    found = _TABLE.search(node.raw_code) or _THIRD.search(node.raw_code)
    return found[1] if found else None


def _tables_of(nodes: Iterable[Any]) -> list[str]:
    return [table for node in nodes if (table := _table_of(node)) is not None]


def _list_in(node: Any, sign: re.Pattern[str]) -> Any:
    """Return a list in a model's text; none if there is none that Python reads."""
    found = sign.search(node.raw_code)
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(found[1]) if found else None
    return None


def _folders(project: Project, system: str) -> dict[str, str]:
    models = project.models_folder
    return {"staging": f"{models}/staging/{system}"} | {
        kind: f"{models}/{kind}" for kind in (*KINDS[1:], "docs")
    }


def _callers(nodes: Iterable[Any], macro: str) -> list[Any]:
    return [node for node in nodes if f"macro.afterimage.{macro}" in node.depends_on.macros]


def _readers(nodes: Iterable[Any], read: Any) -> list[Any]:
    return [node for node in nodes if read is not None and read.unique_id in node.depends_on.nodes]


def _holders(nodes: Collection[Any], tables: frozenset[str]) -> frozenset[str]:
    """Return what holds the rows of tables: these, and the models that pass them on unstaged."""
    ends = [*(system.macro for system in SYSTEMS), "qlik_message_schemas"]
    macros = {f"macro.afterimage.{macro}" for macro in ends}
    held, new = tables, tables
    while new:
        read = [node for node in nodes if not new.isdisjoint(node.depends_on.nodes)]
        between = {node.unique_id for node in read if macros.isdisjoint(node.depends_on.macros)}
        new = frozenset(between - held)
        held |= new
    return held


def is_unedited(project: Project, path: str) -> bool:
    """Whether a file is there as a command of ours wrote it.

    Args:
        project: The dbt project.
        path: The file.
    """
    file = Path(project.folder, path)
    return file.is_file() and is_sealed(file.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class _DataColumn:
    name: str
    type: str
    doc: str
    is_plain: bool


class _Writer:
    def __init__(
        self,
        project: Project,
        entry: Entry,
        landed: Landed,
        others: Mapping[str, Landed],
        found: Found,
        plan: Plan,
        existing: _Existing,
    ) -> None:
        self.project, self.entry, self.landed, self.others = project, entry, landed, others
        self.found, self.plan, self.existing = found, plan, existing
        # Models that are there keep their name, whatever the table is called by now.
        self.name = model_name(entry.name or existing.name or plan.table)
        self.folders = _folders(project, found.system.folder)
        self.planned = {
            "staging": f"stg_{found.system.folder}__{self.name}",
            **{kind: f"{self.name}_{kind}" for kind in KINDS[1:]},
        }
        there = {node.name: node for node in project.relations() if node.resource_type != "source"}
        self._check_names(there)
        named = {kind: there.get(name) for kind, name in self.planned.items()}
        self.models = {kind: getattr(existing, kind) or named[kind] for kind in KINDS}
        self.names = {
            kind: node.name if node else self.planned[kind] for kind, node in self.models.items()
        }

    def _check_names(self, there: Mapping[str, Any]) -> None:
        """Check that no model of another table has one of the names."""
        if self.existing.staging is not None:
            taken = [
                there[self.planned[kind]]
                for kind in KINDS[1:]
                if getattr(self.existing, kind) is None and self.planned[kind] in there
            ]
            taken = [node for node in taken if not self._is_below(node, self.existing.staging)]
        else:
            staging = there.get(self.planned["staging"])
            taken = [there[self.planned[kind]] for kind in KINDS[1:] if self.planned[kind] in there]
            if staging is not None:
                is_stream = any(_callers([staging], system.macro) for system in SYSTEMS)
                taken = [staging] if is_stream else []
        if taken:
            of_table = f"the table {self.entry.table} of " if self.entry.table else ""
            raise AfterimageError(
                f"this project already has {taken[0].name} ({taken[0].original_file_path}), which"
                f" is not built from {of_table}{self.landed.name}. Give the new models another"
                f" name: --name. {tables.WAS_MOVED}"
            )

    def _check_tables(self, new: Sequence[str]) -> None:
        """Check that no new model has the name of a table in the target's schema that is not ours.

        Args:
            new: The kinds of the new models.
        """
        if not new:
            return
        place = tables.in_sql(str(self.project.credentials.schema))
        names = "|".join(self.planned[kind] for kind in new)
        try:
            shown = self.project.rows(f"show tables in {place} like '{names}'")
        except AfterimageError as error:
            # The first build makes the schema.
            if "SCHEMA_NOT_FOUND" in str(error) or "NoSuchNamespace" in str(error):
                return
            raise
        for name in sorted(str(row[1]) for row in shown):
            columns = self.project.columns_of(f"{place}.{quote(name)}")
            if columns is not None and not is_ours(columns):
                raise AfterimageError(
                    f"{self.project.credentials.schema}.{name} exists, and Afterimage has not built"
                    f" it: the model {name} would replace it. Give the new models another name:"
                    f" --name, or `name` in {FILE}"
                )

    def _expected_rejects(self) -> list[str]:
        """Return what a topic's messages are rejected for without anything being wrong."""
        if self.found.system.folder != "debezium":
            return []
        of_others = ["of another table%"] if self.entry.table is not None else []
        return ["tombstone:%"] * self.plan.expects_tombstones + of_others

    def _is_below(self, node: Any, above: Any) -> bool:
        """Whether a model reads another, be it by way of others."""
        nodes, seen, ahead = self.project.manifest.nodes, set(), [node.unique_id]
        while ahead:
            key = ahead.pop()
            if key == above.unique_id:
                return True
            if key in nodes and key not in seen:
                seen.add(key)
                ahead += nodes[key].depends_on_nodes
        return False

    def draft(self) -> Draft:
        wanted = [kind for kind in KINDS if kind == "staging" or kind in self.entry.models]
        if "current" in wanted and "history" not in wanted and self.models["history"] is None:
            raise AfterimageError(
                f"models of {self.landed.name} must have history beside current, which reads it."
                f" Got: {', '.join(self.entry.models)}"
            )
        self._check_tables([kind for kind in wanted if self.models[kind] is None])
        staging = self.names["staging"]
        made = Draft(self.entry, self.found, self.plan.key, staging, Texts(self.landed.name))
        texts = made.texts
        if self.existing.staging is not None and not self.existing.is_ours("staging"):
            streams = ", ".join(sorted(node.name for node in self.existing.streams))
            made.notes.append(
                f"{self.landed.name} is already read by {streams}. New models are built on"
                f" {staging}."
            )
        values = self._values()
        system = self.found.system.folder
        docs = f"{self.folders['docs']}/{self.name}.md"
        known = self.project.doc_blocks()
        blocks = {
            column.doc: _render("column.md", column=column, **values)
            for column in values["columns"]
            if known.get(column.doc, docs) == docs
        }
        if blocks:
            texts.blocks[docs] = blocks
            texts.heads[docs] = "What the columns mean. All models and sources refer to it.\n\n"
        if self.models["staging"] is None or self.existing.is_ours("staging"):
            for table in (self.landed, *self.others.values()):
                if table.source is not None:
                    path = self._source_file(table.source)
                    texts.blocks.setdefault(path, {})[table.source.table] = self._source(table)
                    texts.heads[path] = _render("sources.yml", source=table.source)
        for kind in wanted:
            path = f"{self.folders[kind]}/{self.planned[kind]}.sql"
            node = self.models[kind]
            if node is None or self.project.file_of(node) == path:
                texts.models[path] = self._model(kind, values)
            elif kind != "staging":
                made.notes.append(f"{node.name} already exists: {node.original_file_path}.")
        for kind in wanted:
            file = f"_stg_{system}.yml" if kind == "staging" else f"_{kind}.yml"
            path = f"{self.folders[kind]}/{file}"
            node = self.models[kind]
            patched = node.patch_path if node else None
            own = self.project.manifest.metadata.project_name
            is_free = not patched or patched == f"{own}://{path}"
            if self.names[kind] == self.planned[kind] and is_free:
                text = _render(f"{kind}.yml", **values)
                texts.blocks.setdefault(path, {})[self.names[kind]] = text
                texts.heads[path] = "models:\n"
        return made

    def _values(self) -> dict[str, Any]:
        """Return the values for the templates."""
        plan, ask = self.plan, self.project.macro
        history = self.models["history"]
        meta_columns = list(
            ask("_meta_columns", macro_name="init", meta_column_names=None, columns=[])
        )
        audit_columns = list(ask("_audit_columns"))
        meta = _renamed(plan.columns, meta_columns, "history_")
        if history is not None and history.config.materialized == "history":
            meta = dict(history.config.get("meta_column_names") or {})
        if "meta_column_names" in self.entry.history and self._is_written("history"):
            meta = dict(self.entry.history["meta_column_names"] or {})
        columns = [self._data_column(column) for column in plan.columns]
        key_columns = [column for column in columns if column.name in plan.key]
        return {
            "name": self.name,
            "names": self.names,
            "title": self.found.system.title,
            "system": self.found.system.folder,
            "key": plan.key,
            "table": plan.table,
            "landed_rows": plan.landed_rows,
            "expected_rejects": self._expected_rejects(),
            "has_before_images": plan.has_before_images,
            "columns": columns,
            "key_columns": key_columns,
            "contract": [*ask("_contract_columns"), "ingested_at"],
            "meta": meta,
            "meta_columns": meta_columns,
            "audit_meta": _renamed(key_columns, audit_columns, "audit_"),
            "audit_columns": audit_columns,
        }

    def _is_written(self, kind: str) -> bool:
        """Whether the text of a model will be ours: it is new, or nobody has edited it."""
        node = self.models[kind]
        if node is None:
            return True
        path = self.project.file_of(node)
        if path != f"{self.folders[kind]}/{self.planned[kind]}.sql":
            return False
        return is_unedited(self.project, path)

    def _data_column(self, column: Column) -> _DataColumn:
        is_plain = _PLAIN.fullmatch(column.name) is not None
        return _DataColumn(column.name, column.type, self._doc_name(column.name), is_plain)

    def _doc_name(self, column: str) -> str:
        """Return the doc block of a column; similar names may share one.

        dbt reads no name that begins with a digit, and no other table's begins with this sign.
        """
        before = "_" if self.name[0].isdigit() else ""
        return f"{before}{self.name}__{re.sub('[^A-Za-z0-9]+', '_', column).strip('_')}"

    def _source_file(self, source: Source) -> str:
        """Return the file of a source: the one that has it, be it that of another system."""
        known = self.project.source(source.name, source.table)
        there = None if known is None else self.project.file_of(known)
        return there or f"{self.folders['staging']}/_src_{source.name}.yml"

    def _source(self, table: Landed) -> str:
        if table is not self.landed:
            description, columns = f"Landed beside the changes of {self.name}.", {}
        else:
            description = f"The changes of {self.name} as they landed, {self.found.system.title}."
            data = set(tables.names_of(self.plan.columns))
            blocks = {name: self._doc_name(name) for name in data} | self.found.described
            columns = {
                name: _doc(blocks[name]) if name in blocks else "As it landed."
                for name in tables.names_of(table.columns)
            }
        return _render("source.yml", source=table.source, description=description, columns=columns)

    def _model(self, kind: str, values: Mapping[str, Any]) -> str:
        file_format = self.entry.file_format or self.project.table_format
        if kind == "staging":
            given = {"unique_key": repr(self.plan.key), **self.plan.call}
            for argument, value in self.entry.arguments.items():
                given[argument] = text_literal(value) if isinstance(value, str) else repr(value)
            return _render(
                "staging.sql",
                macro=self.found.system.macro,
                reference=self.landed.reference,
                call=given,
                file_format=file_format,
            )
        if kind == "current":
            has_views = self.project.has_views
            return _render(
                "current.sql",
                materialized="view" if has_views else "table",
                keeps_copies=not has_views and self.project.table_format == "iceberg",
                history=self.names["history"],
                meta=values["meta"],
            )
        meta = values["meta"] if kind == "history" else values["audit_meta"]
        options = {"meta_column_names": meta} if meta else {}
        if kind == "history":
            options |= self.entry.history
        return _render(
            "kept.sql",
            materialized=kind,
            key=self.plan.key,
            options={option: repr(value) for option, value in options.items()},
            file_format=file_format,
            staging=self.names["staging"],
        )


def _renamed(
    columns: Sequence[Column] | Sequence[_DataColumn], ours: Sequence[str], prefix: str
) -> dict[str, str]:
    """Return new names for those of our columns that share a name with a data column."""
    taken = {column.name.lower() for column in columns}
    return {
        name: prefix + name if prefix + name not in taken else f"_{prefix}{name}"
        for name in ours
        if name in taken
    }


def _doc(block: str) -> str:
    return f"\"{{{{ doc('{block}') }}}}\""


def yaml_name(name: str) -> str:
    """Return a name in YAML, in quotes unless YAML would read it as text anyway."""
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _NO_TEXT_IN_YAML
    return name if is_plain else json.dumps(name, ensure_ascii=False)


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The texts are Jinja themselves, so the templates use other delimiters.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "name": yaml_name,
        "doc": _doc,
        "tojson": lambda value: json.dumps(value, ensure_ascii=False),
    }
    return environment


def _render(template: str, **values: Any) -> str:
    return str(_templates().get_template(template).render(**values))
