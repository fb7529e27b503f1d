"""What a raw table remembers of what was loaded into it, in one of its properties.

Of files it remembers each file, and of a topic how far each partition was read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Project

PROPERTY = "afterimage.landed"
# How many messages of a topic the table lacks, for the macro change_accounting.
MISSING = "afterimage.missing"

# What is known of each file, [size, time of writing, content]; of the partitions of a topic see
# `topics.py`.
Contents = dict[str, list[Any]]


@dataclass
class Pending:
    """A load that has begun, and of which it is not known yet whether its rows are in.

    Attributes:
        id: What marks its commit.
        since: The table's version before it.
        rows: How many rows it adds; none if nobody has counted them.
        path: The landed path.
        files: The files, or partitions, by their names.
        asked: How often a later load has asked about it.
    """

    id: str
    since: int
    rows: int | None
    path: str
    files: Contents
    asked: int = 0


@dataclass
class Memory:
    """What a table remembers.

    Attributes:
        files: Landed path -> name of a file, or partition -> what is known of it.
        latest: Landed path and names of the newest ones, with what was known before (Iceberg).
        snapshot: The snapshot that added them (Iceberg).
        branch: Its branch (Iceberg); empty as it was written when only the snapshot counted.
        pending: The load that has begun (Delta).
        tells_missing: Whether the table says how many messages it lacks.
    """

    files: dict[str, Contents] = field(default_factory=dict)
    latest: tuple[str, dict[str, list[Any] | None]] = ("", {})
    snapshot: str = ""
    branch: str = ""
    pending: Pending | None = None
    tells_missing: bool = False

    def add(self, path: str, contents: Contents) -> None:
        """Note that files, or messages, were loaded."""
        self.files.setdefault(path, {}).update(contents)

    def add_latest(self, path: str, contents: Contents, snapshot: str, branch: str) -> None:
        """Note them, so that they can be forgotten if their snapshot is never published."""
        known = self.files.get(path, {})
        self.latest = (path, {name: known.get(name) for name in contents})
        self.snapshot, self.branch = snapshot, branch
        self.add(path, contents)

    def forget_latest(self) -> None:
        """Go back to what was known before the latest were added."""
        path, before = self.latest
        for name, known in before.items():
            if known is None:
                del self.files[path][name]
            else:
                self.files[path][name] = known
        if not self.files[path]:
            del self.files[path]
        self.latest, self.snapshot, self.branch = ("", {}), "", ""

    @property
    def missing(self) -> int:
        """How many messages of a topic the broker had deleted before: accepted gaps."""
        return sum(
            end - first
            for path, known in self.files.items()
            if path.startswith("kafka:")
            for *_, gaps in known.values()
            for first, end in gaps
        )

    def text(self) -> str:
        """Return it as the property's value."""
        said: dict[str, Any] = {"files": self.files, "latest": self.latest}
        said |= {"snapshot": self.snapshot, "branch": self.branch}
        if self.pending:
            said["pending"] = asdict(self.pending)
        # As hex: `show tblproperties` hides values with `token` or the like in them.
        return zlib.compress(json.dumps(said, separators=(",", ":")).encode()).hex()


def memory_in(properties: Mapping[str, str]) -> Memory | None:
    """Return what a table remembers; none if it was not made from landed files.

    Args:
        properties: The table's properties.
    """
    text = properties.get(PROPERTY)
    if text is None:
        return None
    found = json.loads(zlib.decompress(bytes.fromhex(text)))
    pending = Pending(**found["pending"]) if "pending" in found else None
    path, latest = found["latest"]
    if isinstance(latest, list):  # as it was written when only files could be loaded
        latest = dict.fromkeys(latest)
    return Memory(
        found["files"],
        (path, latest),
        found["snapshot"],
        found.get("branch", ""),
        pending,
        MISSING in properties,
    )


@dataclass(frozen=True)
class Load:
    """What is to be loaded.

    Attributes:
        path: The landed path.
        contents: What is known of what is loaded.
        columns: The table's columns, as a list in SQL.
        selects: Queries that return these columns.
        check: Raises an error if what is loaded has changed since it was looked at.
        is_copy: Whether what is loaded stays as it is, however often it is read.
        seen: Returns what is known once the rows are in; asks the table, or its branch.
    """

    path: str
    contents: Contents
    columns: str
    selects: Sequence[str]
    check: Callable[[], None]
    is_copy: bool = True
    seen: Callable[[str], Contents] | None = None


class Target:
    """A raw table, for the statements of its format."""

    def __init__(self, project: Project, name: str, shown: str) -> None:
        """Name the table.

        Args:
            project: The dbt project.
            name: The table, as in SQL.
            shown: The table, as in messages.
        """
        self._project, self._name, self.shown = project, name, shown

    @property
    def name(self) -> str:
        """The table, as in SQL."""
        return self._name

    def rows(self, statement: str) -> list[Sequence[Any]]:
        """Run a statement in which `{}` stands for the table."""
        return self._project.rows(statement.replace("{}", self._name))

    def insert(
        self, columns: str, query: str, branch: str = "", settings: Mapping[str, str] | None = None
    ) -> None:
        """Add the rows of a query, in which any name may stand, even `{}`.

        Args:
            columns: The table's columns, as a list in SQL.
            query: The query.
            branch: The end of the table's name, if the rows are not for the table itself.
            settings: Settings of Spark for this statement alone.
        """
        self._project.rows(f"insert into {self._name}{branch} ({columns}) {query}", settings)

    def count(self, query: str) -> int:
        """Return how many rows a query has."""
        return int(self._project.rows(f"select count(*) from ({query})")[0][0])

    def properties(self) -> dict[str, str]:
        """Return the table's properties."""
        return {row[0]: row[1] for row in self.rows("show tblproperties {}")}

    def memory(self) -> Memory | None:
        """Return what the table remembers; none if it was not made from landed files."""
        return memory_in(self.properties())

    def remember(self, memory: Memory) -> None:
        """Write what the table is to remember."""
        # Once it is there, 0 is written too: the rows behind a gap may have been removed.
        is_told = memory.missing or memory.tells_missing
        missing = {MISSING: str(memory.missing)} if is_told else {}
        memory.tells_missing = bool(is_told)
        self.set_properties({PROPERTY: memory.text(), **missing})

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table."""
        self.rows(f"alter table {{}} set tblproperties ({assignments(properties)})")

    def overtaken(self) -> AfterimageError:
        """Return the error that another program was faster."""
        return AfterimageError(
            f"another program has written to {self.shown} in the meantime; land again"
        )


def assignments(properties: Mapping[str, str]) -> str:
    """Return properties as a list in SQL."""
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
