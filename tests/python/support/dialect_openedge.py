"""Writes a change stream as OpenEdge would: rows of a change table, and of its tracking table.

An update with a before-image is two change rows (policy level 3), one without is one (level 2); a
truncate is a tracking row alone. An update has the fields that it changed and the key, and NULL in
the others; landings that fill these are read too (`whole`). What OpenEdge cannot carry is left out
or takes the nearest form that it has; `carried` says what then must come out:

- rows of a full load: change data capture begins with the first change;
- columns of inserts that were not captured: NULL is NULL there;
- columns that an update was to set to NULL, if neither its map nor the row before shows it;
- changes without a time or a transaction, placeholder times;
- a field map of creates and deletes; "nothing changed" where the map lists names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from reference import Change, Row
from strategies import SEQ_BASE, Stream

FieldMaps = Literal["bits", "names", "bytes", "hex"]
SplitOrder = Literal["zero_first", "zero_last"]

TABLE_NUMBER = 12
CLOCK = datetime(2024, 1, 1, 12)  # where the stream has no time
OPERATIONS = {"insert": 1, "delete": 2, "before": 3, "update": 4, "truncate": 7}

CHANGE_COLUMNS = {
    "_Tran-Id": "int",
    "_Time-Stamp": "timestamp",
    "_Change-Sequence": "bigint",
    "_Continuation-Position": "int",
    "_ArrayIndex": "int",
    "_Fragment": "int",
    "_Operation": "int",
}
TRACKING_COLUMNS = {
    "_Policy-Id": "string",
    "_Tran-Id": "int",
    "_Time-Stamp": "timestamp",
    "_Change-Sequence": "bigint",
    "_Operation": "int",
    "_Change-FieldMap": "string",
    "_Recid": "bigint",
    "_Source-Table-Number": "int",
    "_User-Name": "string",
}


@dataclass(frozen=True)
class Split:
    """Where a record breaks in two: after field `position`, or inside it, after `cut` characters.

    The position is written into the second part, unless the order is `zero_last`.
    """

    position: int
    cut: int = 0


def carried(stream: Stream, maps: FieldMaps, whole: bool = False) -> list[Change]:
    """Return the changes of a stream that OpenEdge can express, each once."""
    return [
        _as_told(change if whole else _sparse(change, stream.unique_key), maps, stream)
        for change in stream.distinct
        if change.reject_reason is None and change.operation != "load"
    ]


def change_rows(change: Change) -> list[Row]:
    """Write a carried change's rows of the change table; a truncate has none."""
    if change.operation == "truncate":
        return []
    rows = []
    if change.operation == "update" and change.before is not None:
        rows.append(_change_row(change, OPERATIONS["before"], change.before))
    image = change.before if change.operation == "delete" else change.after
    assert image is not None
    rows.append(_change_row(change, OPERATIONS[change.operation], image))
    return rows


def tracking_row(
    change: Change, columns: list[str], maps: FieldMaps, table_number: int = TABLE_NUMBER
) -> Row:
    """Write a carried change's row of the change tracking table."""
    return {
        "_Policy-Id": "policy",
        "_Tran-Id": _number_of(change),
        "_Time-Stamp": change.changed_at,
        "_Change-Sequence": int(change.change_seq),
        "_Operation": OPERATIONS[change.operation],
        "_Change-FieldMap": _field_map(change, columns, maps),
        "_Recid": int(change.change_seq) % 1000,
        "_Source-Table-Number": table_number,
        "_User-Name": "somebody",
    }


def in_two_parts(row: Row, columns: list[str], split: Split, order: SplitOrder) -> list[Row]:
    """Break a row of the change table as OpenEdge does near 32,000 bytes."""
    first, second = dict(row), dict(row)
    for number, column in enumerate(columns, start=1):
        if number < split.position:
            second[column] = None
        elif number > split.position:
            first[column] = None
        elif split.cut:
            first[column], second[column] = row[column][: split.cut], row[column][split.cut :]
        else:
            second[column] = None
    marked = second if order == "zero_first" else first
    marked["_Continuation-Position"] = split.position
    marked["_Fragment"] = 1 if split.cut else 0
    return [first, second]


def possible_splits(row: Row, columns: list[str]) -> list[Split]:
    """List where a row could break."""
    places = [Split(number) for number in range(1, len(columns))]
    for number, column in enumerate(columns, start=1):
        value = row[column]
        if isinstance(value, str):
            places += [Split(number, cut) for cut in range(1, len(value))]
    return places


def types_of(stream: Stream, maps: FieldMaps) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns of the change table and of the tracking table."""
    data = {name: stream.types[name] for name in stream.columns}
    tracking = dict(TRACKING_COLUMNS)
    if maps == "bytes":
        tracking["_Change-FieldMap"] = "binary"
    return {**CHANGE_COLUMNS, **data}, tracking


def _sparse(change: Change, key: list[str]) -> Change:
    """Leave what an update did not change out of its rows. Without a map, what differs changed."""
    if change.operation != "update" or change.after is None:
        return change
    before, after, changed = change.before, change.after, change.changed_columns
    if changed is None and before is None:
        return change
    if changed is None:
        assert before is not None
        changed = [name for name in after if before[name] != after[name]]

    def left(image: Row) -> Row:
        return {n: v if n in key or n in changed else None for n, v in image.items()}

    return replace(change, before=before and left(before), after=left(after))


def _absent(change: Change, changed: list[str] | None, key: list[str]) -> list[str] | None:
    """Return the columns of an update that nothing shows to be set."""
    if change.operation != "update" or change.after is None:
        return None
    before = change.before or {}
    was_set = {n for n, v in before.items() if v is not None} if changed is None else {*changed}
    empty = [name for name, value in change.after.items() if value is None]
    return [name for name in empty if name not in key and name not in was_set] or None


def _as_told(change: Change, maps: FieldMaps, stream: Stream) -> Change:
    has_time = change.changed_at is not None and change.changed_at > datetime(1970, 1, 2)
    changed = change.changed_columns
    if change.operation != "update" or (maps == "names" and not changed):
        changed = None
    return replace(
        change,
        change_seq=f"{int(change.change_seq) - SEQ_BASE:019d}",
        changed_at=change.changed_at if has_time else CLOCK,
        transaction_id=(change.transaction_id or "tx0").removeprefix("tx"),
        changed_columns=changed,
        absent_columns=_absent(change, changed, stream.unique_key),
    )


def _number_of(change: Change) -> int:
    return int(change.transaction_id or 0)


def _change_row(change: Change, operation: int, image: Row) -> Row:
    return {
        "_Tran-Id": _number_of(change),
        "_Time-Stamp": change.changed_at,
        "_Change-Sequence": int(change.change_seq),
        "_Continuation-Position": 0,
        "_ArrayIndex": 0,
        "_Fragment": 0,
        "_Operation": operation,
        **image,
    }


def _field_map(change: Change, columns: Iterable[str], maps: FieldMaps) -> Any:
    if change.changed_columns is None:
        return None
    if maps == "names":
        return ";".join(change.changed_columns)
    bits = "".join("1" if column in change.changed_columns else "0" for column in columns)
    if maps == "bits":
        return bits
    bits += "0" * (-len(bits) % 8)
    raw = bytes(int(bits[place : place + 8], 2) for place in range(0, len(bits), 8))
    return raw if maps == "bytes" else raw.hex()
