"""Ends a run at a statement: what a killed process leaves in tables is what it had sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from conftest import DbtError
from dbt_afterimage.runtime.cursor import AfterimageCursor

# What follows the statements that a run has sent, once it has ended.
ENDED = "the run has ended"
# How a statement begins that writes; the last three are a format's maintenance.
_AT_WORK = ["create", "merge into", "insert into", "alter table", "drop table"]
_AT_WORK += ["call ", "reorg ", "vacuum "]


@contextmanager
def ended(watch: Callable[[str], bool], after: bool = False) -> Iterator[list[str]]:
    """End the run before, or after, the first statement that `watch` chooses.

    Args:
        watch: Whether a statement is the one.
        after: Whether it is still sent.

    Yields:
        The statements sent; `ENDED` comes last if it ended.
    """
    execute = AfterimageCursor.execute
    sent: list[str] = []

    def watched(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        if sent and sent[-1] == ENDED:
            raise DbtError(ENDED)
        is_chosen = watch(sql)
        if not is_chosen or after:
            execute(self, sql, *parameters)
            sent.append(sql)
        if is_chosen:
            sent.append(ENDED)
            raise DbtError(ENDED)

    with patch.object(AfterimageCursor, "execute", watched):
        yield sent


@contextmanager
def interrupted(watch: Callable[[str], bool], act: Callable[[], None]) -> Iterator[None]:
    """Let something happen before the first statement that `watch` chooses, or at the end."""
    execute = AfterimageCursor.execute
    is_done: list[str] = []

    def watched(self: AfterimageCursor, sql: str, *parameters: Any) -> None:
        if not is_done and watch(sql):
            is_done.append(sql)
            act()
        execute(self, sql, *parameters)

    with patch.object(AfterimageCursor, "execute", watched):
        yield
    if not is_done:
        act()


def at_work(number: int) -> Callable[[str], bool]:
    """Choose the statement with a number among those that write, or ask what a run goes by."""
    left = [number]

    def watch(sql: str) -> bool:
        words = sql.lower()
        left[0] -= any(verb in words for verb in _AT_WORK)
        return left[0] == 0

    return watch
