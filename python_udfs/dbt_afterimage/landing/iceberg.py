"""Rows of landed files come into an Iceberg table once, by way of a branch.

Iceberg cannot commit rows and a property together. So the rows go into a branch first. Then the
property is set to the files and the branch's snapshot, and then `main` moves to that snapshot. If a
process is killed in between, the next run drops a branch that the property does not name, and
publishes one that it names. If a statement of a killed process still runs on a server, it writes to
its branch only: each load has a branch of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.memory import Load, Memory, Target
from dbt_afterimage.runtime.project import Column

_BRANCH = "afterimage_land"


class Iceberg:
    """An Iceberg table.

    Attributes:
        name: The format, as in SQL.
        takes_back: Whether rows can be taken back after they were written.
        widens: Whether a column can get a wider type.
    """

    name = "iceberg"
    takes_back = True
    widens = True

    def __init__(self, target: Target) -> None:
        """Name the table; nothing is asked yet."""
        self._target = target

    def name_properties(self, columns: Sequence[Column]) -> dict[str, str]:
        """Return the properties of a new table: of the files of its metadata old ones go."""
        return {"write.metadata.delete-after-commit.enabled": "true"}

    def allow(self, columns: Sequence[Column]) -> None:
        """Let the table have these new columns: it may have any."""

    def has_rows(self) -> bool:
        """Whether anybody has ever written to the table."""
        return bool(self._target.rows("select 1 from {}.refs"))

    def settle(self, memory: Memory) -> None:
        """Finish, or drop, what a killed process left half done.

        Args:
            memory: What the table remembers, changed in place.
        """
        for name, snapshot in self._heads().items():
            if not name.startswith(_BRANCH):
                continue
            # One without rows has the snapshot that it began with, which may be of another load.
            is_known = snapshot == memory.snapshot and memory.branch in (name, "")
            if is_known and not self._publish(memory, name):
                self._forget_latest(memory)
            self._drop(name)

    def load(self, load: Load, memory: Memory) -> None:
        """Add the rows, and remember what they are of.

        Args:
            load: The files, or the messages, and their rows.
            memory: What the table remembers, changed in place.

        Raises:
            AfterimageError: What is loaded has changed meanwhile, or another program was faster.
        """
        branch = f"{_BRANCH}_{uuid.uuid4().hex[:12]}"
        before = self._heads().get("main")
        self._target.rows(f"alter table {{}} create branch {branch}")
        try:
            for select in load.selects:
                self._target.insert(load.columns, select, branch=f".branch_{branch}")
            load.check()
            seen = load.seen(f"{self._target.name}.branch_{branch}") if load.seen else load.contents
        except AfterimageError:
            if branch not in self._heads():
                raise self._target.overtaken() from None
            raise
        heads = self._heads()
        if heads.get("main") != before:
            # Another project may have dropped the branch as a leftover. Iceberg then makes it anew
            # for the rows, on what the other one has published, and would publish them too.
            self._drop(branch)
            raise self._target.overtaken()
        memory.add_latest(load.path, seen, heads.get(branch, ""), branch)
        self._target.remember(memory)
        if not self._publish(memory, branch):
            self._forget_latest(memory)
            self._drop(branch)
            raise self._target.overtaken()
        self._drop(branch)

    def _heads(self) -> dict[str, str]:
        """Return the branches, each with its snapshot."""
        found = self._target.rows(
            "select name, cast(snapshot_id as string) from {}.refs where type = 'BRANCH'"
        )
        return {str(name): str(snapshot) for name, snapshot in found}

    def _publish(self, memory: Memory, branch: str) -> bool:
        """Move `main` to the branch; false if another program has written to it since."""
        if not memory.snapshot:
            return False
        current = self._target.rows(
            "select 1 from {}.history where is_current_ancestor and snapshot_id = "
            + str(int(memory.snapshot))
        )
        if current:
            return True
        try:
            self._target.rows(f"call system.fast_forward('{{}}', 'main', '{branch}')")
        except AfterimageError as error:
            # After a commit to `main`, or if another project took the branch for a leftover.
            if "Cannot fast-forward" in str(error) or "Ref does not exist" in str(error):
                return False
            raise
        return True

    def _forget_latest(self, memory: Memory) -> None:
        memory.forget_latest()
        self._target.remember(memory)

    def _drop(self, branch: str) -> None:
        self._target.rows(f"alter table {{}} drop branch if exists {branch}")
