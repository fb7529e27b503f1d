"""The models that a landed table already has."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.files import is_sealed
from dbt_afterimage.runtime.project import Column, Project
from dbt_afterimage.scaffold.entries import Entry
from dbt_afterimage.scaffold.landed import Landed, model_name
from dbt_afterimage.scaffold.plans.qlik import name_of_topic
from dbt_afterimage.scaffold.plans.question import SeveralTables, is_same_table
from dbt_afterimage.scaffold.systems import SYSTEMS, Found

KINDS = ("staging", "history", "current", "audit")
_TABLE = re.compile(r"""\btable\s*=\s*['"]([^'"]*)['"]""")
# Of this macro it is the third argument, behind the key.
_THIRD = re.compile(r"""\bnetiq_event_log\([^\[]*\[[^\]]*\]\s*,\s*['"]([^'"]*)['"]""")
_COLUMNS = re.compile(r"\bcolumns\s*=\s*(\[.*?\n    \])", re.DOTALL)
_NUMBER = re.compile(r"\bsource_table_number\s*=\s*(\d+)")
_METADATA = re.compile(r"\bmetadata\s*=")
_PLACES = {
    "position": re.compile(r"\bposition\s*=\s*(\[[^\]]*\])"),
    "headers": re.compile(r"""\bheaders\s*=\s*('[^']*'|"[^"]*")"""),
    "time": re.compile(r"""\btime\s*=\s*('[^']*'|"[^"]*")"""),
}
_ENCODING = re.compile(r"""\bmask_encoding\s*=\s*['"](\w+)['"]""")
_ORDER = re.compile(r"\border_by\s*=\s*(\[[^\]]*\])")
_STATUSES = re.compile(r"\bstatuses\s*=\s*(\[[^\]]*\])")
_ABSENT = re.compile(r"\bnull_is_absent\s*=\s*(\[[^\]]*\])")
# What staging models of messages say of these, before their names.
_UNDECLARED = "columns that are not declared: "
OF_MESSAGES = ("qlik_messages", "debezium_messages")
_OF_SEVERAL = (*OF_MESSAGES, "netiq_event_log")


class Existing:
    """The models that a landed table already has, found by what they do, not by name.

    Attributes:
        name: The base name of those that `init` has written; none if it has written no staging.
    """

    def __init__(self, project: Project, landed: Landed, found: Found, entry: Entry) -> None:
        nodes = project.models()
        self._project, self._prefix = project, f"stg_{found.system.folder}__"
        self._folders = folders_of(project, found.system.folder)
        name = model_name(entry.name) if entry.name else None
        self._macro = found.system.macro
        callers = callers_of(nodes, self._macro)
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
        histories += callers_of(of_stream, "scd2")
        self.history = self._chosen("history", histories, f"{name}_history")
        currents = callers_of(_readers(nodes, self.history), "current_state")
        self.current = self._chosen("current", currents, f"{name}_current")
        audits = [n for n in of_stream if n.config.materialized == "audit"]
        audits += callers_of(of_stream, "change_audit")
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
        number, encoding = (one.search(self.staging.raw_code) for one in (_NUMBER, _ENCODING))
        declared, absent, statuses, order = (
            _list_in(self.staging, sign) for sign in (_COLUMNS, _ABSENT, _STATUSES, _ORDER)
        )
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
            "written_encoding": encoding[1] if encoding else None,
            "written_statuses": statuses,
            "written_order": order,
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


def folders_of(project: Project, system: str) -> dict[str, str]:
    models = project.models_folder
    return {"staging": f"{models}/staging/{system}"} | {
        kind: f"{models}/{kind}" for kind in (*KINDS[1:], "docs")
    }


def callers_of(nodes: Iterable[Any], macro: str) -> list[Any]:
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
