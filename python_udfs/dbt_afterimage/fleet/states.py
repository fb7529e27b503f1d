"""How a raw table stands beside what a staging model remembers of it: by metadata alone.

The states are those that macros/formats/*_landed.sql remember. This is the only module on the
Python side that knows them.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import xor
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Project
from dbt_afterimage.text import EPOCH

# The text by which dbt knows a table that Spark reads by its path: a format, and a path.
_BY_PATH = re.compile(r"(?P<format>parquet|orc|csv|json|avro|text|delta)\.`(?P<path>.+)`", re.I)
# Folders that one statement can list together: nothing in their names has a meaning in a glob, in
# an address or in SQL.
_PLAIN_PATH = re.compile(r"(?P<parent>[\w./:-]*)/(?P<name>\w[\w.-]*)/?", re.ASCII)
_TOGETHER = 400
# A union of so many small questions is planned in about a second.
_QUESTIONS = 40
_HOUR = 3_600_000_000
# Iceberg allows the clocks of committers to differ by a minute.
_CLOCKS = "interval 2 minutes"
# The listing reads no content, so the sizes of files need not be spread over tasks. Nor does each
# folder need a task of its own, which takes longer to start than a folder to list.
_LISTING = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}


@dataclass(frozen=True)
class News:
    """What has landed in a raw table since a staging model read it.

    Attributes:
        kind: `nothing`, `new`, or `unknown` if the metadata cannot tell.
        text: The same in words.
    """

    kind: str
    text: str


NOTHING = News("nothing", "nothing new")
# A raw table as SQL names it, and what is remembered of it.
Pair = tuple[str, str]


def compare(project: Project, pairs: Iterable[Pair]) -> dict[Pair, News]:
    """Compare raw tables with what is remembered of them.

    Args:
        project: The dbt project.
        pairs: The tables and their remembered states.
    """
    by_kind: dict[str, list[Pair]] = defaultdict(list)
    named: list[Pair] = []
    for pair in dict.fromkeys(pairs):
        path = _BY_PATH.fullmatch(pair[0])
        if path is None:
            named.append(pair)
        else:
            by_kind["delta" if path["format"].lower() == "delta" else "paths"].append(pair)
    found: dict[Pair, News] = {}
    properties = properties_of(project, [name for name, _ in named])
    snapshots: dict[Pair, str] = {}
    for pair in named:
        known = properties[pair[0]]
        if isinstance(known, AfterimageError):
            found[pair] = _cannot_be_asked(known)
        elif (snapshot := _snapshot(known)) is not None:
            snapshots[pair] = snapshot
        elif any(name.startswith("delta.") for name in known):
            by_kind["delta"].append(pair)
        elif pair[1].startswith("{"):
            by_kind["files"].append(pair)
        else:
            found[pair] = News("unknown", "its format does not tell what has landed")
    found |= _of_iceberg(project, snapshots)
    found |= _of_delta(project, by_kind["delta"])
    found |= _of_paths(project, by_kind["paths"])
    found |= _of_files(project, by_kind["files"])
    return found


def properties_of(
    project: Project, tables: Iterable[str]
) -> dict[str, dict[str, str] | AfterimageError]:
    """Return the properties of tables, or why they cannot be read.

    Args:
        project: The dbt project.
        tables: The tables, as in SQL.
    """
    names = list(dict.fromkeys(tables))
    found: dict[str, dict[str, str] | AfterimageError] = dict(_of_session(project.spark, names))
    further = [name for name in names if name not in found]
    answers = project.ask([f"show tblproperties {name}" for name in further])
    for name, answer in zip(further, answers, strict=True):
        found[name] = (
            answer if isinstance(answer, AfterimageError) else {row[0]: row[1] for row in answer}
        )
    return found


def _of_session(spark: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what Iceberg's own API says of its tables; others, and those gone, are left out.

    It costs some milliseconds for a table, a tenth of what SHOW TBLPROPERTIES costs.
    """
    if spark is None:
        return {}
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm, session = spark._jvm, spark._jsparkSession
    found = {}
    for name in names:
        try:
            # Another thread has started Spark. In one without an active session names are those of
            # Spark's own catalog.
            session.setActiveSession(session)
            table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, name)
            # The catalog may keep it for half a minute.
            table.refresh()
            snapshot = table.currentSnapshot()
            mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
            known = json.loads(mapper.writeValueAsString(table.properties()))
        # No Iceberg here, no such table, one of another format, or no Spark any more: a statement
        # says what is the matter.
        except (Py4JError, PySparkException, TypeError, OSError):
            continue
        known["current-snapshot-id"] = "none" if snapshot is None else str(snapshot.snapshotId())
        found[name] = known
    return found


def versions_of(
    project: Project, properties: Mapping[str, dict[str, str] | AfterimageError]
) -> dict[str, str]:
    """Return the present versions of tables of ours; those that have none are left out.

    Args:
        project: The dbt project.
        properties: The properties of each.
    """
    found, deltas = {}, []
    for name, known in properties.items():
        if isinstance(known, AfterimageError):
            continue
        if (snapshot := _snapshot(known)) is not None:
            found[name] = snapshot
        elif any(key.startswith("delta.") for key in known):
            deltas.append(name)
    for name, commit in _commits(project, deltas).items():
        if not isinstance(commit, AfterimageError):
            found[name] = "@".join(commit)
    return found


def rewritten(project: Project, versions: Mapping[Pair, str]) -> set[Pair]:
    """Return the tables that have the rows of an earlier version: since then came only upkeep.

    Args:
        project: The dbt project.
        versions: Tables of ours with an earlier version, and their present version.
    """
    since = _snapshots_since(project, versions)
    found = {pair for pair, commits in since.items() if not any(commit[3] for commit in commits)}
    deltas = [pair for pair, version in versions.items() if "@" in version and "@" in pair[1]]
    answers = project.macros(
        "_delta_is_rewritten",
        [
            {
                "relation": pair[0],
                "commit": pair[1].split("@"),
                "present": int(versions[pair].split("@")[0]),
            }
            for pair in deltas
        ],
    )
    return found | {pair for pair, answer in zip(deltas, answers, strict=True) if answer is True}


def rolled_back(project: Project, noted: Mapping[str, str]) -> set[str]:
    """Return the Iceberg tables whose rows were taken back since a snapshot.

    Args:
        project: The dbt project.
        noted: The tables, each with the snapshot that it notes.

    Raises:
        AfterimageError: Spark failed.
    """
    names = list(noted)
    taken_back = set()
    for number, (lost,) in _each_of(
        project,
        [
            "select <number> as number, count_if(not is_current_ancestor) as lost"
            f" from {name}.history where snapshot_id = {int(noted[name])}"
            for name in names
        ],
    ):
        if int(lost):
            taken_back.add(names[number])
    return taken_back


def is_absent(error: AfterimageError) -> bool:
    """Whether a table cannot be asked because it does not exist."""
    return "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error)


def _cannot_be_asked(error: AfterimageError) -> News:
    text = str(error)
    if is_absent(error):
        return News("unknown", "it does not exist")
    if "EXPECT_TABLE_NOT_VIEW" in text or "is a view" in text:
        return News("unknown", "a view does not tell what has landed")
    return News("unknown", f"it cannot be asked: {text.splitlines()[0]}")


def _snapshot(properties: Mapping[str, str]) -> str | None:
    """Return the present snapshot of an Iceberg table; an empty text if it never had a row."""
    snapshot = properties.get("current-snapshot-id")
    return "" if snapshot == "none" else snapshot


def _each_of(project: Project, questions: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Ask many questions in few statements; yield the number of its question before each row."""
    for start in range(0, len(questions), _QUESTIONS):
        asked = questions[start : start + _QUESTIONS]
        numbered = [text.replace("<number>", str(start + n)) for n, text in enumerate(asked)]
        for number, *row in project.rows(" union all ".join(numbered)):
            yield int(number), row


def _of_iceberg(project: Project, snapshots: Mapping[Pair, str]) -> dict[Pair, News]:
    found = {pair: NOTHING for pair, snapshot in snapshots.items() if snapshot == pair[1]}
    changed = [pair for pair in snapshots if pair not in found]
    found |= {pair: News("new", "all rows are read again") for pair in changed}
    known = {pair: snapshots[pair] for pair in changed}
    for pair, since in _snapshots_since(project, known).items():
        rows = sum(int(added or 0) for _, added, *_ in since)
        first = min(int(committed) for _, _, committed, _ in since)
        found[pair] = News("new", f"{_count(rows, 'row')} landed since {_moment(first)}")
    return found


def _snapshots_since(
    project: Project, snapshots: Mapping[Pair, str]
) -> dict[Pair, list[Sequence[Any]]]:
    """Return what was committed to Iceberg tables after a known snapshot.

    Args:
        project: The dbt project.
        snapshots: The present snapshot of each table.

    Returns:
        The parent of each snapshot since, the rows that it added, its time, and whether it changed
        rows. A table is left out if its snapshots do not lead back to the known one.
    """
    # Without a snapshot on one of the sides, or with a version of another format, there is no way
    # from one to the other.
    walks = [pair for pair, one in snapshots.items() if pair[1].isdigit() and one.isdigit()]
    commits: dict[Pair, dict[str, Sequence[Any]]] = defaultdict(dict)
    for number, (snapshot, *commit) in _each_of(
        project,
        [
            "select <number> as number, cast(snapshot_id as string) as snapshot_id,"
            " cast(parent_id as string) as parent_id,"
            " if(operation = 'replace', 0, cast(summary['added-records'] as bigint)) as added,"
            " unix_micros(committed_at) as committed_at, operation <> 'replace' as is_change"
            f" from {name}.snapshots"
            f" where committed_at >= (select committed_at from {name}.snapshots"
            f" where snapshot_id = {state}) - {_CLOCKS}"
            for name, state in walks
        ],
    ):
        commits[walks[number]][snapshot] = commit
    found: dict[Pair, list[Sequence[Any]]] = {}
    for pair in walks:
        since: list[Sequence[Any]] = []
        at = snapshots[pair]
        while at != pair[1] and at in commits[pair] and len(since) < len(commits[pair]):
            since.append(commits[pair][at])
            at = commits[pair][at][0]
        if at == pair[1]:
            found[pair] = since
    return found


def _commits(project: Project, names: Sequence[str]) -> dict[str, list[str] | AfterimageError]:
    """Return the newest commit of each Delta table: its version and its time."""
    answers = project.macros("_delta_commit", [{"relation": name} for name in names])
    return dict(zip(names, answers, strict=True))


def _of_delta(project: Project, pairs: Sequence[Pair]) -> dict[Pair, News]:
    commits = _commits(project, list(dict.fromkeys(name for name, _ in pairs)))
    found = {}
    for pair in pairs:
        commit, before = commits[pair[0]], pair[1].split("@")[1:]
        if isinstance(commit, AfterimageError):
            found[pair] = _cannot_be_asked(commit)
        elif commit == before:
            found[pair] = NOTHING
        else:
            found[pair] = News("new", f"version {commit[0]} landed at {commit[1][:19]}")
    return found


@dataclass
class _Listed:
    """The files of a table: how many there are, and those near the newest that is known.

    Attributes:
        recent: The mark and the time of each.
    """

    files: int
    recent: list[tuple[str, int]]


def _of_paths(project: Project, pairs: Sequence[Pair]) -> dict[Pair, News]:
    """Compare files that Spark reads by their path."""
    since: dict[str, int] = {}
    for name, state in pairs:
        known = _newest(state)
        since[name] = min(since.get(name, known), known)
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    alone: list[str] = []
    for name in since:
        plain = _PLAIN_PATH.fullmatch(_path(name))
        # Two names for the same folder, such as `/a` and `/a/`.
        if plain is None or plain["name"] in groups[plain["parent"]]:
            alone.append(name)
        else:
            groups[plain["parent"]][plain["name"]] = name
    listed: dict[str, _Listed | AfterimageError] = {}
    mark = str(project.macro("_file_mark"))
    for parent, folders in groups.items():
        names = list(folders)
        for start in range(0, len(names), _TOGETHER):
            some = {one: folders[one] for one in names[start : start + _TOGETHER]}
            listed |= _list_together(project, mark, parent, some, since)
    # A folder of which nothing came may be an empty one, or one that Spark left out of the list,
    # as it does with others beside a partitioned one.
    alone += [name for folders in groups.values() for name in folders.values()]
    for name in alone:
        if name not in listed:
            listed[name] = _list_alone(project, mark, name, since[name])
    found = {}
    for pair in pairs:
        one = listed[pair[0]]
        found[pair] = (
            _cannot_be_asked(one) if isinstance(one, AfterimageError) else _unread(one, pair[1])
        )
    return found


def _list_together(
    project: Project,
    mark: str,
    parent: str,
    folders: Mapping[str, str],
    since: Mapping[str, int],
) -> dict[str, _Listed | AfterimageError]:
    """List folders that are beside each other in one statement, or in two for half of them each.

    Some folders cannot be listed together: a partitioned one beside another, or one that is gone.
    """
    if len(folders) < 2:
        return {}
    known = ", ".join(f"'{one}', {since[name]}" for one, name in folders.items())
    within = parent.rpartition("://")[2].lstrip("/")
    try:
        rows = _listing(
            project,
            mark,
            f"{parent}/{{{','.join(folders)}}}",
            f"regexp_extract(landed_files._metadata.file_path, '/{within}/([^/]+)', 1)",
            f"element_at(map({known}), folder)",
        )
    except AfterimageError:
        names = list(folders)
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        listed: dict[str, _Listed | AfterimageError] = {}
        for half in halves:
            some = {one: folders[one] for one in half}
            listed |= _list_together(project, mark, parent, some, since)
        return listed
    return {folders[folder]: files for folder, files in rows if folder in folders}


def _list_alone(project: Project, mark: str, name: str, since: int) -> _Listed | AfterimageError:
    try:
        rows = _listing(project, mark, _path(name), "''", f"{since}")
    except AfterimageError as error:
        return error
    return next((files for _, files in rows), _Listed(0, []))


def _listing(
    project: Project, mark: str, path: str, folder: str, since: str
) -> list[tuple[str, _Listed]]:
    """List files by Spark's source of binary files, which needs no schema and opens none of them.

    Args:
        project: The dbt project.
        mark: SQL for the mark of a file.
        path: The path, which may be a pattern.
        folder: SQL for the folder of a file.
        since: SQL for the time in microseconds from which files are listed one by one.
    """
    rows = project.rows(
        f"""
        select
            folder,
            count(*) as files,
            to_json(collect_list(if(written_at >= {since}, struct(mark, written_at), null)))
                as recent

        from (
            select
                {folder} as folder,
                {mark} as mark,
                unix_micros(landed_files._metadata.file_modification_time) as written_at

            from binaryFile.`{path}` as landed_files
        ) as listed
        group by folder
        """,
        _LISTING,
    )
    return [
        (
            str(row[0]),
            _Listed(
                int(row[1]), [(one["mark"], int(one["written_at"])) for one in json.loads(row[2])]
            ),
        )
        for row in rows
    ]


def _unread(listed: _Listed, state: str) -> News:
    """Return which files are not among those remembered; the macro is `_files_landed`."""
    since = _newest(state)
    known = _files_state(state)
    marks = set((known.get("files") or "").split())
    unread = {mark: at for mark, at in listed.recent if at >= since and mark not in marks}
    digest = None if _is_set_back(known) else known.get("digest")
    if not unread or (digest and digest == _digest(unread)):
        return NOTHING
    files, first = _count(len(unread), "file"), _moment(min(unread.values()))
    # A digest does not tell which of them are new.
    return News(
        "new",
        f"some of {files} since {first} are new" if digest else f"{files} landed since {first}",
    )


def _digest(marks: Collection[str]) -> str:
    """Return the number and the digest of many files, as the macro `_files_of` does."""
    return f"{len(marks)} {reduce(xor, (int(mark, 16) for mark in marks)):X}"


def _of_files(project: Project, pairs: Sequence[Pair]) -> dict[Pair, News]:
    """Compare tables of files that a catalog names, whose partitions may be anywhere."""
    found = {}
    for pair in pairs:
        name, state = pair
        known = _files_state(state)
        try:
            project.rows(f"refresh table {name}")
            moment = None if _is_set_back(known) else known.get("newest")
            unread = project.macro("_is_written_since", moment=moment, files=known.get("files"))
            there = project.macro("_files_of", relation=name, condition=unread)
        except AfterimageError as error:
            found[pair] = _cannot_be_asked(error)
            continue
        digest = None if moment is None else known.get("digest")
        found[pair] = (
            NOTHING
            if there["newest"] is None or (digest and digest == there["digest"])
            else News("new", f"files landed, the newest at {_moment(int(there['newest']))}")
        )
    return found


def _files_state(state: str) -> dict[str, Any]:
    # The table of this name may have been another one before.
    return dict(json.loads(state)) if state.startswith("{") else {}


def _newest(state: str) -> int:
    """Return from when on a file may be one that was not read yet."""
    known = _files_state(state)
    newest = known.get("newest")
    return 0 if newest is None or _is_set_back(known) else int(newest) - _HOUR


def _is_set_back(known: dict[str, Any]) -> bool:
    """Whether the clock was set back since a run, as the macro `_files_landed` finds it."""
    return int(known.get("newest") or 0) > time.time() * 1_000_000 + _HOUR / 2


def _path(name: str) -> str:
    path = _BY_PATH.fullmatch(name)
    return path["path"] if path else name


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s'[: number != 1]}"


def _moment(micros: int) -> str:
    at: datetime = EPOCH + timedelta(microseconds=micros)
    return at.strftime("%Y-%m-%d %H:%M UTC")
