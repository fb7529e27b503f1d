"""What a run must build: the models with news and what was left over, and all below them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import record, states
from dbt_afterimage.fleet.news import Reader
from dbt_afterimage.fleet.record import Record
from dbt_afterimage.runtime.project import Project
from dbt_afterimage.runtime.run_dbt import DbtFailed
from dbt_afterimage.scaffold.systems import SYSTEMS

_DONE = {"success", "pass", "warn", "no-op"}
_TABLES = ("model", "snapshot", "seed")
_TESTS = ("test", "unit_test")
# `dated_copies` belongs to no system that `init` could recognise.
_SOURCE_MACROS = {
    f"macro.afterimage.{name}" for name in ("dated_copies", *(one.macro for one in SYSTEMS))
}
# What may have a meaning in a selector of dbt, which ends at a space or a comma.
_SPECIAL = re.compile(r"[^\w.-]")


@dataclass(frozen=True)
class Work:
    """What a run must build.

    Attributes:
        nodes: The ids of all that must be built or tested.
        selectors: What dbt is told to select, which is at least these.
        exclude: What dbt is told to leave out.
        left_out: The ids of what would be built or tested without that.
        built: The names of the models, snapshots and seeds among them.
        left_alone: How many others there are.
        staging: The ids of all staging models but ephemeral ones, by their names.
        seeds: A checksum of each large seed, by its id.
    """

    nodes: frozenset[str]
    selectors: tuple[str, ...]
    exclude: tuple[str, ...]
    left_out: frozenset[str]
    built: tuple[str, ...]
    left_alone: int
    staging: tuple[str, ...]
    seeds: Mapping[str, str]


def is_staging(node: Any) -> bool:
    """Whether a model stages a raw table: as a change stream, or by the macro of a source.

    Args:
        node: The manifest's node of a model.
    """
    return bool(
        node.config.materialized == "change_stream" or _SOURCE_MACROS & set(node.depends_on.macros)
    )


class Graph:
    """The nodes that `afterimage up` is about: staging models, all below them, and what these read.

    Attributes:
        nodes: The nodes that dbt runs, by their ids.
    """

    def __init__(self, project: Project) -> None:
        """Follow the references between nodes.

        Args:
            project: The dbt project.
        """
        manifest = project.manifest
        self._all: dict[str, Any] = {**manifest.nodes, **manifest.unit_tests}
        self._children: dict[str, list[str]] = {}
        for key, node in self._all.items():
            for parent in node.depends_on_nodes:
                self._children.setdefault(parent, []).append(key)
        self.staging = [one.unique_id for one in project.models() if is_staging(one)]
        within = self.above(self.below(self.staging))
        within |= {
            key for one in within for key in self._children.get(one, ()) if self._is_test(key)
        }
        self.nodes = {key: node for key, node in self._all.items() if key in within}

    def below(self, keys: Iterable[str]) -> set[str]:
        """Return nodes and all that is built from them, tests included."""
        found: set[str] = set()
        ahead = list(keys)
        while ahead:
            one = ahead.pop()
            if one not in found:
                found.add(one)
                ahead += self._children.get(one, ())
        return found

    def above(self, keys: Iterable[str]) -> set[str]:
        """Return nodes and all that they are built from, without sources."""
        found: set[str] = set()
        ahead = list(keys)
        while ahead:
            one = ahead.pop()
            if one in self._all and one not in found:
                found.add(one)
                ahead += self._all[one].depends_on_nodes
        return found

    def runs(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the nodes among these that dbt runs."""
        return frozenset(
            key
            for key in keys
            if key in self._all
            and self._all[key].resource_type in (*_TABLES, *_TESTS)
            and getattr(self._all[key].config, "materialized", None) != "ephemeral"
        )

    def tops(self, keys: Collection[str]) -> list[str]:
        """Return the nodes among these that are not below others of them."""
        lower = self.below(child for key in keys for child in self._children.get(key, ()))
        return [key for key in keys if key not in lower]

    def names(self, keys: Iterable[str]) -> list[str]:
        """Return names by which dbt selects nodes; it may take others for the same."""
        # To dbt a question mark stands for any character.
        return [_SPECIAL.sub("?", ".".join(self._all[key].fqn)) for key in keys]

    def _is_test(self, key: str) -> bool:
        return self._all[key].resource_type in _TESTS


def work(
    project: Project,
    kept: Record,
    readers: Mapping[str, Reader],
    *,
    everything: bool,
    exclude: Sequence[str] = (),
) -> Work:
    """Return what must be built. When in doubt, that is too much.

    Args:
        project: The dbt project.
        kept: What the run before has kept.
        readers: What the models have to do, as far as their tables say.
        everything: Whether to build everything.
        exclude: Selectors of dbt for what is left out.

    Raises:
        AfterimageError: A selector selects nothing.
    """
    graph = Graph(project)
    unwanted = project.chosen("--exclude", exclude)
    # dbt's `state:modified` does not see variables, and without a record nothing is known.
    changed = kept.manifest is None or kept.settings != record.settings_of(project)
    seeds = record.large_seeds_of(project)
    if everything or changed:
        return _work(graph, graph.runs(graph.nodes), None, seeds, exclude, unwanted)
    roots = set(kept.pending)
    for key, reader in readers.items():
        # A staging table at another version was built by somebody else, who may have left out what
        # is below it.
        is_known = reader.version is not None and reader.version == kept.versions.get(key)
        if reader.has_news or not is_known:
            roots.add(key)
    roots |= edited(project, kept)
    # dbt says that they are the same.
    roots |= {
        key for key, checksum in seeds.items() if kept.seeds.get(key) != checksum or not checksum
    }
    roots &= graph.nodes.keys()
    due = graph.runs(graph.below(roots))
    return _work(graph, due, graph.tops(roots), seeds, exclude, unwanted)


def edited(project: Project, kept: Record) -> set[str]:
    """Return the nodes that were edited since the last run, by any hand.

    Args:
        project: The dbt project.
        kept: What that run has kept, with its manifest.
    """
    if kept.texts == record.texts_of(project):
        return set()
    found = project.selected("state:modified", state=kept.manifest)
    # `dbt build` runs a unit test with its model alone.
    return found | {
        model
        for key, unit_test in project.manifest.unit_tests.items()
        if key in found
        for model in unit_test.depends_on_nodes[:1]
    }


def note_upkeep(project: Project, kept: Record, readers: Mapping[str, Reader]) -> None:
    """Let the record follow staging tables that were only compacted since the last `up`.

    Args:
        project: The dbt project.
        kept: What the last `up` has kept; changed in place.
        readers: What the models have to do, as far as their tables say.
    """
    pairs = {
        key: (str(reader.node.relation_name), kept.versions[key])
        for key, reader in readers.items()
        if reader.version is not None and kept.versions.get(key, reader.version) != reader.version
    }
    present = {pair: str(readers[key].version) for key, pair in pairs.items()}
    same = states.rewritten(project, present) if present else ()
    for key, pair in pairs.items():
        if pair in same:
            kept.versions[key] = present[pair]


def note_left_over(project: Project, kept: Record, readers: Mapping[str, Reader]) -> None:
    """Give models that have no news a reason, if the next `up` has something to do below them.

    Args:
        project: The dbt project.
        kept: What the last `up` has kept.
        readers: What the models have to do; changed in place.
    """
    if kept.manifest is None:
        # Nobody has called `up`.
        return
    graph, pending = Graph(project), set(kept.pending)
    for key, reader in readers.items():
        left = len(graph.below([key]) & pending)
        if reader.has_news:
            continue
        if left:
            reader.reason = (
                f"{left} models and tests failed last time, were left out, or were not reached"
            )
        elif reader.version != kept.versions.get(key):
            reader.reason = "built since by another command: what is below may not be"


def _work(
    graph: Graph,
    due: frozenset[str],
    tops: Collection[str] | None,
    seeds: Mapping[str, str],
    exclude: Sequence[str],
    unwanted: Collection[str],
) -> Work:
    """Return the work; `tops` are the nodes above all others due, none if everything is."""
    if tops is None:
        # Staging models, all below them, and what these read.
        selectors = [f"@fqn:{name}" for name in graph.names(graph.staging)]
    else:
        selectors = [f"fqn:{name}+" for name in graph.names(tops)]
    nodes = due.difference(unwanted)
    tables = [key for key in graph.runs(graph.nodes) if key.split(".")[0] in _TABLES]
    built = sorted(graph.nodes[key].name for key in tables if key in nodes)
    staging = sorted(graph.runs(graph.staging), key=lambda key: str(graph.nodes[key].name))
    return Work(
        nodes=nodes,
        selectors=tuple(selectors),
        exclude=tuple(exclude),
        left_out=due - nodes,
        built=tuple(built),
        left_alone=len(tables) - len(built),
        staging=tuple(staging),
        seeds=seeds,
    )


def build(project: Project, kept: Record, found: Work) -> None:
    """Build what must be built, and keep what came of it.

    Args:
        project: The dbt project.
        kept: What the run before has kept; changed in place, and written.
        found: What must be built.

    Raises:
        AfterimageError: A model or a test failed: the text is dbt's message. Or dbt has passed over
            a model.
    """
    # Before the build begins: if it is killed, the next run takes up all of it.
    kept.pending = sorted({*kept.pending, *found.nodes, *found.left_out})
    kept.settings = record.settings_of(project)
    kept.seeds = dict(found.seeds)
    kept.keep(project)
    failure: AfterimageError | None = None
    versions: dict[str, str] = {}

    def note_version(key: str) -> None:
        # What has no version here is built by the next run. If Spark has ended, dbt says so.
        with suppress(Exception):
            if version := _version(project, key):
                versions[key] = version

    try:
        # At the end of the build another command may have built the table since: what is below it
        # lacks those rows.
        result = project.run(
            *("build", "--indirect-selection", "eager", "--select", *found.selectors),
            *(("--exclude", *found.exclude) if found.exclude else ()),
            log="info",
            ended=note_version,
        )
    except DbtFailed as error:
        failure, result = error, error.result
    statuses = {
        one.node.unique_id: str(one.status) for one in getattr(result, "results", None) or []
    }
    done = {key for key, status in statuses.items() if status in _DONE}
    # dbt may have selected more, which is to be built to its end, too.
    pending = (found.nodes | statuses.keys()) - done
    missed = found.nodes - statuses.keys()
    if failure is None:
        # Tests may be left out on purpose: `DBT_EXCLUDE_RESOURCE_TYPES`.
        pending -= {key for key in missed if key.split(".")[0] in _TESTS}
    kept.pending = sorted(pending | found.left_out)
    kept.versions |= {key: version for key, version in versions.items() if key in done}
    kept.keep(project)
    if failure is not None:
        raise failure
    tables = [key for key in missed if key.split(".")[0] in _TABLES]
    if tables:
        names = ", ".join(sorted(project.manifest.nodes[key].name for key in tables))
        raise AfterimageError(
            f"dbt reported success, but has not built {names}. If a setting of dbt leaves it out,"
            " such as DBT_EXCLUDE_RESOURCE_TYPES, unset that for `up`; the next run tries again"
        )


def _version(project: Project, key: str) -> str | None:
    """Return the present version of a node's table, if it is a staging table that has one."""
    node = project.manifest.nodes.get(key)
    if node is None or node.config.materialized != "change_stream":
        return None
    name = str(node.relation_name)
    return states.versions_of(project, states.properties_of(project, [name])).get(name)
