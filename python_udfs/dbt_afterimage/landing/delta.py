"""Rows of landed files come into a Delta table once, because the commit that adds them has a mark.

Delta cannot commit rows and a property together either, and has no branches. So the property first
says that a load has begun, with its files and its mark. Then one statement adds all rows, in one
commit, which bears the mark as its `userMetadata`. Then the property counts the files as loaded. If
a process is killed in between, the next load finds the load that has begun, and asks the table's
log whether a commit has the mark.

A statement of a killed process may still run on a server. Before the log is asked, its files are
removed, so it cannot begin to read any more, and the property is set anew, which makes Delta refuse
a commit that began before. So what the log says stays true.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.memory import Load, Memory, Pending, Target
from dbt_afterimage.runtime.project import Column

_MARK = "spark.databricks.delta.commitInfo.userMetadata"
_MAPPING = "delta.columnMapping.mode"
# What Delta allows in no name, also of a struct's field, unless it maps the names to its own.
_ODD = re.compile(r"[ ,;{}()\n\t=]")
# What its errors say if another program has changed the table, not merely added rows.
_OVERTAKEN = ("METADATA_CHANGED", "PROTOCOL_CHANGED", "DELTA_CONCURRENT", "ConcurrentModification")


@dataclass(frozen=True)
class _Commit:
    version: int
    time: str
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    mark: str | None

    @classmethod
    def of(cls, row: Sequence[Any]) -> _Commit:
        # The order that DESCRIBE HISTORY has had since its first release.
        version, time, _, _, operation, parameters, *_, metrics, mark, _ = row
        return cls(int(version), str(time), operation, _map(parameters), _map(metrics), mark)


def _map(value: Any) -> Mapping[str, Any]:
    """Return a map; over Thrift it is a text."""
    found = json.loads(value) if isinstance(value, str) else value
    return dict(found or {})


class Delta:
    """A Delta table.

    Attributes:
        name: The format, as in SQL.
        takes_back: Whether rows can be taken back after they were written.
        widens: Whether a column can get a wider type: only by a feature that older readers lack.
    """

    name = "delta"
    takes_back = False
    widens = False

    def __init__(self, target: Target) -> None:
        """Name the table; nothing is asked yet."""
        self._target = target

    def name_properties(self, columns: Sequence[Column]) -> dict[str, str]:
        """Return the properties that a table needs for the names of its columns."""
        odd = any(
            _ODD.search(name)
            for column in columns
            for name in (column.name, *re.findall("`([^`]*)`", column.type))
        )
        return {_MAPPING: "name"} if odd else {}

    def allow(self, columns: Sequence[Column]) -> None:
        """Let the table have these new columns, whose names or types it may not have by itself."""
        needed = self.name_properties(columns)
        if needed and self._target.properties().get(_MAPPING) == "name":
            needed = {}
        elif needed:
            needed |= {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
        if any("timestamp_ntz" in column.type for column in columns):
            needed["delta.feature.timestampNtz"] = "supported"
        if needed:
            self._target.set_properties(needed)

    def has_rows(self) -> bool:
        """Whether the table has rows."""
        return bool(self._target.rows("select 1 from {} limit 1"))

    def settle(self, memory: Memory) -> None:
        """Find out whether the rows of a load that was killed are in.

        Args:
            memory: What the table remembers, changed in place.

        Raises:
            AfterimageError: Nobody can tell, or another program was faster.
        """
        pending = memory.pending
        if pending is None:
            return
        with self._unless_overtaken():
            # From here on Delta refuses the load's commit, if its statement still runs.
            pending.asked += 1
            self._target.remember(memory)
            if self._is_in(pending):
                memory.add(pending.path, pending.files)
            memory.pending = None
            self._target.remember(memory)

    def load(self, load: Load, memory: Memory) -> None:
        """Add the rows, and remember what they are of.

        Args:
            load: The files, which are copies, or the messages, and their rows.
            memory: What the table remembers, changed in place.

        Raises:
            AfterimageError: What is loaded has changed, or another program was faster.
        """
        load.check()
        query = " union all ".join(load.selects)
        rows = None
        if load.is_copy:
            rows = self._target.count(query) if query else 0
        mark = f"afterimage-land-{uuid.uuid4().hex}"
        with self._unless_overtaken():
            memory.pending = Pending(mark, self._version(), rows, load.path, load.contents)
            self._target.remember(memory)
            if query:
                self._target.insert(load.columns, query, settings={_MARK: mark})
            if not load.is_copy:
                self._check_again(load, memory.pending)
            # Read again: another project may have asked about this load meanwhile.
            now = self._target.memory() or memory
            if now.pending and now.pending.id == mark:
                now.pending = None
            now.add(load.path, load.seen(self._target.name) if load.seen else load.contents)
            self._target.remember(now)

    def _check_again(self, load: Load, pending: Pending) -> None:
        """Take the rows back if what they were read from has changed meanwhile."""
        try:
            load.check()
        except AfterimageError:
            # The version of the property, and that of the rows.
            if self._version() != pending.since + 2:
                raise self._unclear(pending, "another program has written meanwhile") from None
            self._target.rows(f"restore table {{}} to version as of {pending.since}")
            raise

    def _is_in(self, pending: Pending) -> bool:
        """Whether a commit with the load's mark is part of the table as it is."""
        newest = self._version()
        count = newest - pending.since
        commits = self._commits(max(count, 1))
        if len(commits) != count:
            raise self._unclear(pending, "its log no longer holds all versions since")
        present = newest
        shared = self._is_session_shared()
        for commit in commits:
            if commit.version > present:
                continue  # A RESTORE has taken it back.
            if commit.operation == "RESTORE":
                present = _restored(commit, commits)
            elif commit.mark == pending.id:
                return True
            elif shared and commit.operation == "WRITE":
                # Another client of the session may have set another mark.
                written = commit.metrics.get("numOutputRows")
                if written is None or pending.rows in (None, int(written)):
                    why = f"version {commit.version} may be of this load, but lacks its mark"
                    raise self._unclear(pending, why)
        return False

    def _is_session_shared(self) -> bool:
        [[_, value]] = self._target.rows("set spark.sql.hive.thriftServer.singleSession")
        return str(value).lower() == "true"

    def _version(self) -> int:
        return self._commits(1)[0].version

    def _commits(self, most: int) -> list[_Commit]:
        """Return the newest commits, the newest first."""
        return [_Commit.of(row) for row in self._target.rows(f"describe history {{}} limit {most}")]

    def _unclear(self, pending: Pending, why: str) -> AfterimageError:
        count = len(pending.files)
        what = "partition" if pending.path.startswith("kafka:") else "file"
        return AfterimageError(
            f"a load of {count} {what}{'s'[: count != 1]} into {self._target.shown} was killed"
            f" after version {pending.since}, and nobody can tell whether their rows are in: {why};"
            f" restore version {pending.since}, or drop the table, and land all {what}s again"
        )

    @contextmanager
    def _unless_overtaken(self) -> Iterator[None]:
        try:
            yield
        except AfterimageError as error:
            if any(word in str(error) for word in _OVERTAKEN):
                raise self._target.overtaken() from None
            raise


def _restored(commit: _Commit, commits: Sequence[_Commit]) -> int:
    """Return the version that a RESTORE has gone back to; a time means the last one before it."""
    version = commit.parameters.get("version")
    if version is not None:
        return int(version)
    time = str(commit.parameters.get("timestamp"))[:19]
    return max((one.version for one in commits if one.time[:19] <= time), default=-1)
