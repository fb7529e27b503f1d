"""How cases are written for the reference: changes of one small table, and versions of its rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from reference import Change, Row, history

KEY = ["id"]
COLUMNS = ["id", "a", "b"]


def at(minute: int) -> datetime:
    """Give the time a number of minutes into the day of all cases."""
    return datetime(2024, 1, 1) + timedelta(minutes=minute)


def rec(key: Any, a: Any = None, b: Any = None) -> Row:
    """Write a row of the table of all cases."""
    return {"id": key, "a": a, "b": b}


def seq(number: int) -> str:
    """Write a change_seq; 0 is that of load rows."""
    return f"{number:035d}" if number else ""


def change(
    operation: Any,
    number: int,
    minute: int | None,
    after: Row | None = None,
    before: Row | None = None,
    *,
    cid: str | None = None,
    absent: list[str] | None = None,
    tx: str | None = None,
    reject: str | None = None,
) -> Change:
    """Write a change; its id comes from operation and place where it does not matter."""
    row = after or before
    return Change(
        change_id=cid or f"{operation}-{number}-{row['id'] if row else ''}",
        change_seq=seq(number),
        operation=operation,
        before=before,
        after=after,
        absent_columns=absent,
        changed_at=None if minute is None else at(minute),
        transaction_id=tx,
        reject_reason=reject,
    )


def load(after: Row, minute: int | None = None, **more: Any) -> Change:
    """Write a full-load row."""
    return change("load", 0, minute, after, **more)


def ins(number: int, minute: int | None, after: Row, **more: Any) -> Change:
    """Write an insert."""
    return change("insert", number, minute, after, **more)


def upd(
    number: int, minute: int | None, after: Row, before: Row | None = None, **more: Any
) -> Change:
    """Write an update."""
    return change("update", number, minute, after, before, **more)


def dele(number: int, minute: int | None, before: Row, **more: Any) -> Change:
    """Write a delete."""
    return change("delete", number, minute, None, before, **more)


def trunc(number: int, minute: int | None, **more: Any) -> Change:
    """Write a truncate."""
    return change("truncate", number, minute, **more)


def ver(
    number: int,
    row: Row,
    opened: tuple[str, int, int | datetime],
    closed: tuple[str, int, int | datetime] | None = None,
    *,
    tx: str | None = None,
    deleted: bool = False,
) -> Row:
    """Write a version: its number, its data, and what opened and closed it, where and when."""

    def moment(when: int | datetime) -> datetime:
        return when if isinstance(when, datetime) else at(when)

    return {
        **row,
        "valid_from": moment(opened[2]),
        "valid_to": moment(closed[2]) if closed else None,
        "valid_from_seq": seq(opened[1]),
        "valid_to_seq": seq(closed[1]) if closed else None,
        "is_current": closed is None,
        "is_deleted": deleted,
        "version": number,
        "operation": opened[0],
        "closed_by": closed[0] if closed else None,
        "transaction_id": tx,
    }


def history_of(*changes: Change, **chosen: Any) -> list[Row]:
    """Compute the history of the table of all cases."""
    return history(changes, KEY, COLUMNS, **chosen)
