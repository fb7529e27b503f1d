"""Writes a change stream as Db2's SQL Replication would: rows of CD, CCD and unit-of-work tables.

The writer shares no code with the macros, so what it writes and what they read can be compared.
`db2_changes` says what is left of a stream, since Db2 cannot carry all of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from reference import Change, Key, Row
from strategies import Stream

Db2Style = Literal["single", "pairs"]


DB2_HEADER = {
    "IBMSNAP_COMMITSEQ": "binary",
    "IBMSNAP_INTENTSEQ": "binary",
    "IBMSNAP_OPERATION": "string",
}
DB2_UOW = {"IBMSNAP_COMMITSEQ": "binary", "IBMSNAP_LOGMARKER": "timestamp"}
# Log sequence numbers begin somewhere; so that bytes matter, where two of them are about to turn.
DB2_FIRST_COMMIT = 0xFFF0
DB2_FIRST_INTENT = 0xFEFFF8


def db2_columns(stream: Stream, style: Db2Style) -> dict[str, str]:
    """Give the columns of the CD or CCD table and their Spark types."""
    data = {name: stream.types[name] for name in stream.columns}
    if style == "single":
        return {**DB2_HEADER, **data, **{f"X{name}": kind for name, kind in data.items()}}
    return {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", **data}


def db2_changes(stream: Stream, style: Db2Style) -> list[Change]:
    """Return what a Db2 table can express of an honest stream, as rows of the change contract.

    Rows are whole: what the stream leaves out is what the row held before. A truncate is not
    captured, so its rows live on; a malformed change is not written. All changes of a commit have
    its time. A key that is deleted and inserted again in one commit is updated. In the style
    `pairs` an update has its row before, and one that changes the key is a delete and an insert.
    """
    expressed: list[Change] = []
    deleted_at: dict[tuple[str | None, Key], int] = {}
    for change in _db2_written(stream, style):
        row = change.before if change.operation == "delete" else change.after
        assert row is not None
        key = (change.transaction_id, tuple(row[name] for name in stream.unique_key))
        place = deleted_at.pop(key, None)
        if place is not None and change.operation == "insert":
            expressed[place] = replace(expressed[place], operation="update", after=change.after)
            continue
        if change.operation == "delete":
            deleted_at[key] = len(expressed)
        expressed.append(change)
    return expressed


def db2_cd_rows(stream: Stream, style: Db2Style) -> list[Row]:
    """Write an honest stream as the rows of a CD or CCD table.

    Args:
        stream: The stream.
        style: `single`, an update is one row with its before-image in columns that begin with
            X; or `pairs`, an update is a delete and an insert, and each row has its commit time.
    """
    rows: list[Row] = []
    for change in _db2_written(stream, style):
        before, after = change.before or {}, change.after or {}
        if change.operation in ("load", "insert"):
            rows.append(_row(change, "I", after, style))
        elif change.operation == "delete":
            rows.append(_row(change, "D", before, style, before))
        elif style == "single":
            rows.append(_row(change, "U", after, style, before))
        else:
            rows.append(_row(change, "D", before, style))
            rows.append(_row(change, "I", after, style, later=1))
    return rows


def db2_uow_rows(stream: Stream) -> list[Row]:
    """Write the unit-of-work table of a CD table: one row per commit, in the long form."""
    times = {
        change.transaction_id: change.changed_at
        for change in db2_changes(stream, "single")
        if change.transaction_id is not None
    }
    return [
        {"IBMSNAP_COMMITSEQ": bytes.fromhex(commit), "IBMSNAP_LOGMARKER": at}
        for commit, at in times.items()
        if at is not None
    ]


def _db2_written(stream: Stream, style: Db2Style) -> list[Change]:
    """Give each change its place, its commit and its time, in order."""
    changes: list[Change] = []
    commit, intent = DB2_FIRST_COMMIT, DB2_FIRST_INTENT
    previous: Change | None = None
    committed_at: datetime | None = None

    for change in _whole(stream, style):
        if change.operation == "load":
            at = change.changed_at if style == "pairs" else None
            changes.append(replace(change, changed_at=at, transaction_id=None))
            continue
        same_commit = (
            previous is not None
            and change.transaction_id is not None
            and change.transaction_id == previous.transaction_id
        )
        if not same_commit:
            commit += 1
            committed_at = _time(change.changed_at)
        previous = change
        for part in _parts(change, stream.unique_key, style):
            intent += 1
            changes.append(
                replace(
                    part,
                    change_id=f"{len(changes)}",
                    change_seq=f"{commit:032X}{intent:032X}",
                    changed_at=committed_at,
                    transaction_id=f"{commit:032X}",
                )
            )
            if style == "pairs" and part.operation == "update":
                intent += 1  # the insert has a place of its own
    return changes


def _row(
    change: Change,
    letter: str,
    image: Row,
    style: Db2Style,
    before: Row | None = None,
    later: int = 0,
) -> dict[str, Any]:
    if change.operation == "load":
        commit = intent = 0
    else:
        commit, intent = int(change.change_seq[:32], 16), int(change.change_seq[32:], 16) + later
    # Some rows were captured before the upgrade that made 16 bytes of 10.
    size = 10 if commit % 3 else 16
    row = {
        "IBMSNAP_COMMITSEQ": commit.to_bytes(size, "big"),
        "IBMSNAP_INTENTSEQ": intent.to_bytes(size, "big"),
        "IBMSNAP_OPERATION": letter,
        **image,
    }
    if style == "pairs":
        return {**row, "IBMSNAP_LOGMARKER": change.changed_at}
    return {**row, **{f"X{name}": value for name, value in (before or {}).items()}}


def _parts(change: Change, unique_key: list[str], style: Db2Style) -> list[Change]:
    """Split an update that `pairs` cannot express as one."""
    if style == "single" or change.operation != "update":
        return [change]
    before, after = change.before, change.after
    assert before is not None  # _whole saw to it
    assert after is not None
    if all(before[name] == after[name] for name in unique_key):
        return [change]
    return [
        replace(change, operation="delete", after=None),
        replace(change, operation="insert", before=None),
    ]


def _time(at: datetime | None) -> datetime | None:
    """Leave out the placeholder times, which Db2 does not write."""
    return None if at is None or at < datetime(1970, 1, 2) else at


def _whole(stream: Stream, style: Db2Style) -> list[Change]:
    """Fill in what an honest stream leaves out, from the rows of the table as they were."""
    # Rows that take each other's keys may meet at one.
    table: dict[Key, list[Row]] = defaultdict(list)
    whole: list[Change] = []

    def key(row: Row) -> Key:
        return tuple(row[name] for name in stream.unique_key)

    def take(image: Row) -> Row:
        rows = table[key(image)]
        return rows.pop(rows.index(image) if image in rows else -1)

    for change in sorted(stream.distinct, key=lambda change: change.change_seq):
        before, after = change.before, change.after
        if change.reject_reason is not None or change.operation == "truncate":
            continue
        if change.operation == "delete":
            assert before is not None  # an honest stream has it
            before = take(before)
        elif change.operation == "update":
            assert after is not None
            old = take(before or after)
            absent = change.absent_columns or []
            after = {name: old[name] if name in absent else after[name] for name in after}
            before = None if before is None and style == "single" else old
        if after is not None:
            if change.operation != "update":
                table[key(after)].clear()  # of a truncate nothing is told
            table[key(after)].append(after)
        whole.append(
            replace(change, before=before, after=after, absent_columns=None, changed_columns=None)
        )
    return whole
