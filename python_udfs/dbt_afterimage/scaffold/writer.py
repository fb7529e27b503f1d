"""The texts of a table's models: source, staging, history, current, audit, tests and docs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.files import Texts
from dbt_afterimage.runtime.project import Column, Project, quote
from dbt_afterimage.scaffold import landed as tables
from dbt_afterimage.scaffold.entries import FILE, Entry
from dbt_afterimage.scaffold.existing import KINDS, Existing, callers_of, folders_of, is_unedited
from dbt_afterimage.scaffold.landed import Landed, Source, model_name
from dbt_afterimage.scaffold.plans.question import Plan
from dbt_afterimage.scaffold.systems import SYSTEMS, Found, is_ours
from dbt_afterimage.text import text_literal

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NO_TEXT_IN_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


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


@dataclass(frozen=True)
class _DataColumn:
    name: str
    type: str
    doc: str
    is_plain: bool


class Writer:
    """Writes the texts of one table; models that are there keep their names."""

    def __init__(
        self,
        project: Project,
        entry: Entry,
        landed: Landed,
        others: Mapping[str, Landed],
        found: Found,
        plan: Plan,
        existing: Existing,
    ) -> None:
        self.project, self.entry, self.landed, self.others = project, entry, landed, others
        self.found, self.plan, self.existing = found, plan, existing
        # Models that are there keep their name, whatever the table is called by now.
        self.name = model_name(entry.name or existing.name or plan.table)
        self.folders = folders_of(project, found.system.folder)
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
                is_stream = any(callers_of([staging], system.macro) for system in SYSTEMS)
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
            option, config = "meta_column_names", history.config
            meta = dict(config.extra.get(option, config.meta.get(option)) or {})
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
