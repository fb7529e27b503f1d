"""Which models have something to do: news in their raw tables, or no table yet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import states
from dbt_afterimage.fleet.states import News, Pair
from dbt_afterimage.runtime.project import Project

NEVER_BUILT = News("new", "never built")
_REMEMBERS_NOTHING = News("unknown", "may have news: the model remembers nothing")

_IN_SCHEMA = re.compile(r"(.+)\.(?:`(?:[^`]|``)+`|[^`.]+)")


@dataclass
class Reader:
    """A model, and what it has to do.

    Attributes:
        news: What has landed in each raw table that it reads, by the name that people know.
        reason: Why it must be built whatever has landed; none if there is no such reason.
        version: The present version of its table, if it is a staging model that has one.
    """

    node: Any
    news: dict[str, News] = field(default_factory=dict)
    reason: str | None = None
    version: str | None = None

    @property
    def has_news(self) -> bool:
        """Whether it must be built, as far as anybody can tell."""
        return self.reason is not None or any(one.kind != "nothing" for one in self.news.values())


def look(project: Project) -> dict[str, Reader]:
    """Ask the metadata what the models of a project have to do.

    Args:
        project: The dbt project.

    Returns:
        The models that read raw tables, that have no table yet, or that depend on nothing.

    Raises:
        AfterimageError: Spark does not answer.
    """
    nodes = project.manifest.nodes.values()
    models = [one for one in nodes if one.resource_type in ("model", "snapshot", "seed")]
    built = _built(project, models)
    staging = [
        one
        for one in models
        if one.config.materialized == "change_stream" and one.unique_id in built
    ]
    properties = states.properties_of(project, [str(one.relation_name) for one in staging])
    versions = states.versions_of(project, properties)
    # Each staging model beside what it remembers.
    memories = {one.unique_id: _Memory(project, one, properties) for one in staging}
    _note_rollbacks(project, memories.values())
    compared = states.compare(
        project, [pair for memory in memories.values() for pair in memory.pairs.values()]
    )
    found = {}
    for node in models:
        reader = Reader(node)
        memory = memories.get(node.unique_id)
        if memory is not None:
            reader.news = memory.news(compared)
            reader.reason = memory.reason
            reader.version = versions.get(str(node.relation_name))
        elif node.resource_type != "seed":
            raw = _raw_tables(project, node)
            reader.news = dict.fromkeys(raw, _REMEMBERS_NOTHING)
            if not node.depends_on.nodes:
                # It may read a table by its name.
                reader.reason = "it depends on nothing that dbt knows of"
        if node.unique_id not in built and _has_table(node):
            reader.reason = NEVER_BUILT.text
        if reader.news or reader.reason:
            found[node.unique_id] = reader
    return found


def _has_table(node: Any) -> bool:
    return bool(node.config.materialized != "ephemeral" and node.relation_name)


def _built(project: Project, nodes: Iterable[Any]) -> set[str]:
    """Return which models have a table or a view."""
    wanted = [node for node in nodes if _has_table(node)]
    schemas = list(dict.fromkeys(_schema(node) for node in wanted))
    shown = project.ask([f"show tables in {schema}" for schema in schemas])
    # A catalog that keeps its views apart lists them apart; one that has none refuses.
    views = [s for s in schemas if any(_schema(n) == s and _is_view(n) for n in wanted)]
    shown_views = dict(
        zip(views, project.ask([f"show views in {schema}" for schema in views]), strict=True)
    )
    there: set[tuple[str, str]] = set()
    for schema, answer in zip(schemas, shown, strict=True):
        if isinstance(answer, AfterimageError):
            if "SCHEMA_NOT_FOUND" in str(answer) or "NoSuchNamespace" in str(answer):
                continue
            raise answer
        there |= {(schema, str(row[1]).lower()) for row in answer}
        more = shown_views.get(schema, [])
        if not isinstance(more, AfterimageError):
            there |= {(schema, str(row[1]).lower()) for row in more}
    return {node.unique_id for node in wanted if (_schema(node), node.alias.lower()) in there}


def _schema(node: Any) -> str:
    """Return the schema of a model's table as dbt writes it, with its catalog and with quotes."""
    found = _IN_SCHEMA.fullmatch(str(node.relation_name))
    return found[1] if found else str(node.schema)


def _is_view(node: Any) -> bool:
    return bool(node.config.materialized == "view")


def _raw_tables(project: Project, node: Any) -> dict[str, str]:
    """Return the sources and seeds that a model reads: the name that people know -> as in SQL."""
    manifest = project.manifest
    found = {}
    for key in node.depends_on.nodes:
        if key in manifest.sources:
            source = manifest.sources[key]
            found[f"{source.source_name}.{source.name}"] = str(source.relation_name)
    return found


class _Memory:
    """What a staging model remembers of the raw tables that it reads.

    Attributes:
        pairs: The name that people know -> the table and its remembered state.
        reason: Why the memory counts for nothing.
        noted: The snapshot for which it holds, where another one is present.
    """

    def __init__(
        self,
        project: Project,
        node: Any,
        properties: Mapping[str, dict[str, str] | AfterimageError],
    ) -> None:
        self.relation = str(node.relation_name)
        self.pairs: dict[str, Pair] = {}
        self.reason: str | None = None
        self.noted: str | None = None
        self._raw = _raw_tables(project, node)
        self._unknown: dict[str, News] = {}
        known = properties[self.relation]
        if isinstance(known, AfterimageError):
            self.reason = f"its table cannot be asked: {str(known).splitlines()[0]}"
            return
        read = _read(known.get("afterimage.read", ""))
        asked = [json.loads(state) for name, state in read.items() if name.endswith(" asks")]
        if not asked:
            self.reason = "there is no record of what was read before"
            return
        noted = known.get("afterimage.snapshot")
        if noted and noted != known.get("current-snapshot-id"):
            self.noted = noted
        if any(one["waits"] for one in asked):
            self.reason = "it waits for more than rows that land"
        names = {relation: name for name, relation in self._nodes(project, node).items()}
        others = {other for one in asked for other in one["others"]}
        tables = list(dict.fromkeys(table for one in asked for table in one["tables"]))
        for table in tables:
            shown = names.get(table, table)
            if table in read:
                self.pairs[shown] = table, read[table]
            else:
                self._unknown[shown] = News("unknown", "may have news: nobody can tell")
        # A source that the model reads beside its macro.
        for name, relation in self._raw.items():
            if relation not in {*tables, *others}:
                self._unknown[name] = News("unknown", "may have news: nobody asks it")

    @staticmethod
    def _nodes(project: Project, node: Any) -> dict[str, str]:
        """Return all that a model reads: the name that people know -> as in SQL."""
        parents = {one.name: str(one.relation_name) for one in project.parents(node)}
        return parents | _raw_tables(project, node)

    def news(self, compared: Mapping[Pair, News]) -> dict[str, News]:
        """Return what has landed in each raw table."""
        found = {name: compared[pair] for name, pair in self.pairs.items()} | self._unknown
        if not found and self._raw:
            found = dict.fromkeys(self._raw, News("unknown", self.reason or "nobody can tell"))
        return found


def _read(text: str) -> dict[str, str]:
    """Return what a property says that `_as_property` has made; empty if it says nothing."""
    try:
        return dict(json.loads(bytes.fromhex(text).decode()))
    except ValueError:
        return {}


def _note_rollbacks(project: Project, memories: Iterable[_Memory]) -> None:
    noted = {memory.relation: memory.noted for memory in memories if memory.noted}
    taken_back = states.rolled_back(project, noted) if noted else set()
    for memory in memories:
        if memory.relation in taken_back:
            memory.reason = "its table was rolled back"
