"""Writes a change stream as SQL Server's change data capture would: rows of `cdc.<instance>_CT`.

It shares no code with the macro. An update is two rows, 3 and 4, of one `__$seqval`; one that
changes the key, and every fifth of the others, is a delete and an insert there, as a deferred
update is. Within a transaction the places run backward, so that `__$command_id` alone tells the
order. Texts are taken for nvarchar(max): in the row before an update they are NULL unless they
changed.

There are two capture instances: the earlier one, whose columns stand the other way round, ends in
the last third of the transactions, the later one begins in the second.

What the format cannot carry, and a stream for it has to leave out: rows of a full load and
truncates. Its changes have both rows whole.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from reference import Change, Row
from strategies import Stream

HEADER = {
    "__$start_lsn": "binary",
    "__$end_lsn": "binary",
    "__$seqval": "binary",
    "__$operation": "int",
    "__$update_mask": "binary",
}
LSN_TIMES = {"start_lsn": "binary", "tran_begin_time": "timestamp", "tran_end_time": "timestamp"}

# So that bytes matter, where one of them is about to turn.
_FIRST_COMMIT = 0x2D_0000_00FE_0001


def columns_of(stream: Stream, earlier: bool = False) -> dict[str, str]:
    """Give the columns of a change table and their Spark types."""
    names = stream.columns[::-1] if earlier else stream.columns
    return {**HEADER, **{name: stream.types[name] for name in names}, "__$command_id": "int"}


def commits(stream: Stream) -> dict[str | None, bytes]:
    """Give the log sequence number of each transaction, in their order."""
    names = dict.fromkeys(change.transaction_id for change in _in_order(stream))
    return {name: _lsn(_FIRST_COMMIT + number) for number, name in enumerate(names)}


def change_rows(stream: Stream) -> tuple[list[Row], list[Row]]:
    """Write the rows of the later and of the earlier capture instance."""
    numbers = commits(stream)
    later: list[Row] = []
    earlier: list[Row] = []
    for place, (name, group) in enumerate(
        groupby(_in_order(stream), key=lambda change: change.transaction_id)
    ):
        changes = list(group)
        if 3 * place >= len(numbers):
            later += _transaction(changes, numbers[name], stream.columns, stream)
        if 3 * place < 2 * len(numbers):
            earlier += _transaction(changes, numbers[name], stream.columns[::-1], stream)
    return later, earlier


def lsn_times(stream: Stream) -> list[Row]:
    """Write cdc.lsn_time_mapping, with a row of an idle time."""
    times = {change.transaction_id: change.changed_at for change in _in_order(stream)}
    rows: list[Row] = [
        {"start_lsn": lsn, "tran_begin_time": times[name], "tran_end_time": times[name]}
        for name, lsn in commits(stream).items()
    ]
    return [*rows, {**rows[-1], "start_lsn": _lsn(_FIRST_COMMIT - 1)}] if rows else []


def _in_order(stream: Stream) -> list[Change]:
    return sorted(stream.changes, key=lambda change: change.change_seq)


def _lsn(number: int) -> bytes:
    return number.to_bytes(10, "big")


def _transaction(
    changes: list[Change], commit: bytes, columns: list[str], stream: Stream
) -> list[Row]:
    rows = []
    command = 0
    for number, change in enumerate(changes):
        seqval = int.from_bytes(commit, "big") * 0x1_0000 - number
        header = {"__$start_lsn": commit, "__$seqval": _lsn(seqval)}
        for operation, image, mask, is_next in _written(change, columns, stream):
            command += is_next
            told = {"__$operation": operation, "__$update_mask": mask, "__$command_id": command}
            rows.append({**header, **told, **image})
    return rows


def _written(
    change: Change, columns: list[str], stream: Stream
) -> list[tuple[int, Row, bytes, bool]]:
    """Give operation, row and mask of each row, and whether it is a command of its own."""
    before, after = change.before, change.after
    if before is None:
        assert after is not None
        return [(2, after, _mask(columns, columns), True)]
    if after is None:
        return [(1, before, _mask(columns, columns), True)]
    moves = any(before[name] != after[name] for name in stream.unique_key)
    if moves or int(change.change_seq) % 5 == 0:
        everything = _mask(columns, columns)
        return [(1, before, everything, True), (2, after, everything, True)]
    changed = [name for name in columns if before[name] != after[name]]
    found: dict[str, Any] = {
        name: None if stream.types[name] == "string" and name not in changed else value
        for name, value in before.items()
    }
    found.update({name: before[name] for name in stream.unique_key})
    mask = _mask(changed, columns)
    return [(3, found, mask, True), (4, after, mask, False)]


def _mask(changed: list[str], columns: list[str]) -> bytes:
    bits = sum(1 << columns.index(name) for name in changed)
    return bits.to_bytes(len(columns) // 8 + 1, "big")
