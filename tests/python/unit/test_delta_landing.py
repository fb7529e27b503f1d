"""What a Delta table's log says of a load that was killed. The log is given; Delta's own is asked
in tests/python/commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.delta import Delta
from dbt_afterimage.landing.memory import Memory, Pending, Target

FILES = {"2.csv": [7, 1, "digest"]}
MARK = "afterimage-land-1"


class Told(Target):
    """A table whose log is given, the oldest commit first; it begins with version 5."""

    def __init__(self, *commits: Mapping[str, Any], shared: str = "<undefined>") -> None:
        self.shown = "raw.t"
        self._shared = shared
        self.remembered: list[str] = []
        self._commits = [{"operation": "SET TBLPROPERTIES", **one} for one in commits]

    def rows(self, statement: str) -> list[Sequence[Any]]:
        if statement.startswith("set "):
            return [("", self._shared)]
        most = int(statement.rpartition(" ")[2])
        found: list[Sequence[Any]] = []
        for number, one in enumerate(self._commits):
            # As over Thrift, where maps are texts.
            parameters = json.dumps(one.get("parameters"))
            metrics = json.dumps({"numOutputRows": str(one.get("rows", 0))})
            row = [5 + number, f"2024-05-01 08:00:0{number}", None, None, one["operation"]]
            row += [parameters, None, None, None, None, None, True, metrics, one.get("mark"), ""]
            found.append(row)
        return found[::-1][:most]

    def remember(self, memory: Memory) -> None:
        self.remembered.append(memory.text())


PENDING: Mapping[str, Any] = {}
ADDED = {"operation": "WRITE", "mark": MARK, "rows": 3}
OTHERS = {"operation": "WRITE", "rows": 3}
ASKED: Mapping[str, Any] = {}


def restore(version: int | None, time: str | None = None) -> Mapping[str, Any]:
    return {"operation": "RESTORE", "parameters": {"version": version, "timestamp": time}}


def settled(table: Told, since: int = 4) -> bool:
    """Return whether the files of the load count as loaded."""
    memory = Memory(pending=Pending(MARK, since, 3, "/landing", dict(FILES)))
    Delta(table).settle(memory)
    assert memory.pending is None
    assert memory.files in ({}, {"/landing": FILES})
    # Once before the log is asked, with another text, so that Delta refuses what began before.
    assert len(set(table.remembered)) == 2
    return bool(memory.files)


@pytest.mark.parametrize(
    ("commits", "is_in"),
    [
        ([PENDING, ASKED], False),
        ([PENDING, ADDED, ASKED], True),
        ([PENDING, OTHERS, ASKED], False),
        ([PENDING, OTHERS, ADDED, OTHERS, ASKED], True),
        # Somebody has deleted the rows since: the files were loaded all the same.
        ([PENDING, ADDED, {"operation": "DELETE"}, ASKED], True),
        ([PENDING, ADDED, restore(5), ASKED], False),
        ([PENDING, ADDED, restore(6), ASKED], True),
        ([PENDING, ADDED, OTHERS, restore(5), restore(7), ASKED], True),
        ([PENDING, ADDED, OTHERS, restore(7), restore(5), ASKED], False),
        ([PENDING, ADDED, restore(None, "2024-05-01 08:00:00.5"), ASKED], False),
        ([PENDING, ADDED, restore(None, "2024-05-01 08:00:01"), ASKED], True),
    ],
)
def test_the_mark_counts_in_the_versions_that_the_table_is_made_of(
    commits: list[Mapping[str, Any]], is_in: bool
) -> None:
    assert settled(Told(*commits)) == is_in


def test_a_log_that_has_lost_commits_decides_nothing() -> None:
    with pytest.raises(AfterimageError, match="no longer holds all versions since; restore"):
        settled(Told(ASKED), since=2)


def test_in_a_session_that_clients_share_a_commit_without_the_mark_may_be_the_loads() -> None:
    with pytest.raises(AfterimageError, match="version 6 may be of this load, but lacks its mark"):
        settled(Told(PENDING, OTHERS, ASKED, shared="true"))
    assert not settled(Told(PENDING, {**OTHERS, "rows": 4}, ASKED, shared="true"))
    assert settled(Told(PENDING, ADDED, OTHERS | {"rows": 4}, ASKED, shared="true"))
