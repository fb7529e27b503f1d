"""The history of a change stream, worked out one change at a time in plain Python.

The SQL engine is compared with this oracle. It shares no code with it and is written for
clarity alone: it takes one key, walks that key's events in order, and notes down what a person with
pencil and paper would note down. The rules are those of the design, section 4; the numbers in the
comments ("rule 5") are those of the list below.

1.  A rejected change is never applied and counts for nothing.
2.  The order within a key is `change_seq`, compared as a string; load rows have `''` and come
    first. Several changes with one key and one `change_seq` are applied in the order load, insert,
    update, delete, then by `change_id` (load rows by `changed_at` first). Events of a key with one
    `change_seq` count as one: only what they came to can open or close a version.
3.  An update whose before-image has another key takes the row out of the old key (an event "out",
    ahead of the old key's own change with that `change_seq`) and is an upsert at the new key.
4.  A truncate ends the life of every key that is alive then; among events with one `change_seq` it
    is the last.
5.  A column that the source could not capture takes its value from the before-image; else, if the
    update changed the key, from the row that left the old key; else from the state just before if
    the key is alive. Else it is unknown, and NULL. All other values are taken as they are.
6.  An upsert opens a version if the key is not alive or a tracked column differs from the state
    just before. In any case it is the new state.
7.  Overwritten columns show the key's last state in every version.
8.  A delete of a key that is not alive does nothing (and does not part what counts as one); one
    of a living key ends its life.
9.  With `deletes="version"` the end of a life opens a version marked as deleted.
10. Times are the running maximum of `changed_at` over the key's events. A truncate is an event of a
    key only if the key was alive just before it; all other events count whatever they did.
11. With `grain="transaction"` neighbouring events of one transaction count as one. Sources use ids
    again: an event more than an hour after the one before it is of another transaction, whatever
    its id. A time that is missing, or earlier than the one before, says nothing.
12. Versions are numbered from 1 within a key.
13. Rows may take each other's keys within a transaction. An end that is no truncate is that of an
    earlier row of the key, and does nothing, where the key's last upsert is an arrival (an insert,
    or an update that brings a row from another key) of the same transaction (as in rule 11), and
    (a) the before-image holds a value (not NULL) other than that arrival says; or
    (b) the arrival is the event just before it, the key was taken when the row came, and the
        before-image holds no value other than the last upsert before the arrival said.
    Whether a key is taken says the last event before, leaving out ends that (a) holds for, and
    each arrival with the end just behind it in one transaction, which leave the key as they found
    it. Only if that end cannot be an earlier row's (its before-image holds a value other than the
    last upsert before the arrival said), it is left in: the row that came is gone, and the key with
    it.
    The row that such an end takes away is the one that lived at the key when the last row came.

Times are `datetime` objects without a time zone and mean UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

Row = dict[str, Any]
Key = tuple[Any, ...]
Operation = Literal["load", "insert", "update", "delete", "truncate"]
Grain = Literal["change", "transaction"]
Deletes = Literal["close", "version"]

LOAD_VALID_FROM = datetime(1900, 1, 1)

# What orders changes with one key and one change_seq (rule 2).
PRECEDENCE: dict[Operation, int] = {
    "load": 1,
    "insert": 2,
    "update": 3,
    "delete": 4,
    "truncate": 5,
}

# The columns of a history that are not data columns, in their order.
META_COLUMNS = (
    "valid_from",
    "valid_to",
    "valid_from_seq",
    "valid_to_seq",
    "is_current",
    "is_deleted",
    "version",
    "operation",
    "closed_by",
    "transaction_id",
)


@dataclass(frozen=True)
class Change:
    """One row of a staging model: the change contract without `ingested_at`."""

    change_id: str
    change_seq: str
    operation: Operation
    before: Row | None = None
    after: Row | None = None
    changed_columns: list[str] | None = None
    absent_columns: list[str] | None = None
    changed_at: datetime | None = None
    transaction_id: str | None = None
    reject_reason: str | None = None
    changed_by: str | None = None


@dataclass(frozen=True)
class Event:
    """What a change means for one key.

    An update that changes the key is two events: "out" at the old key, "upsert" at the new one.
    """

    kind: Literal["out", "upsert", "delete", "truncate"]
    change: Change


@dataclass(frozen=True)
class Step:
    """One event of a key, with what was before it and what is after it."""

    event: Event
    moment: datetime  # the running maximum of changed_at, this event included
    was_alive: bool
    is_alive: bool
    state_before: Row  # the last known row of the key, also while it is not alive; {} if never seen
    state: Row
    row_before: Row | None  # what the change found: the row that left another key, or lived here


@dataclass
class Life:
    """What is known of a key while its events are walked."""

    steps: list[Step] = field(default_factory=list)
    ends_of_earlier_rows: list[Step] = field(default_factory=list)
    alive: bool = False
    state: Row = field(default_factory=dict)
    moment: datetime | None = None
    # Rule 13: what the key's last upsert says by itself, the last arrival, the row that lived here
    # when it came and what that one's last upsert said, and whether the key is taken, by each event
    # that tells.
    said: Row = field(default_factory=dict)
    upsert: Change | None = None
    arrival: Change | None = None
    replaced: Row | None = None
    found: Row = field(default_factory=dict)
    takers: list[bool] = field(default_factory=list)
    previous: Change | None = None


def history(
    changes: Iterable[Change],
    unique_key: Sequence[str],
    columns: Sequence[str],
    track_columns: Sequence[str] | None = None,
    ignore_columns: Sequence[str] | None = None,
    overwrite_columns: Sequence[str] | None = None,
    grain: Grain = "change",
    deletes: Deletes = "close",
    load_valid_from: datetime = LOAD_VALID_FROM,
    valid_to_current: datetime | None = None,
) -> list[Row]:
    """Compute the history of a table from its changes.

    Args:
        changes: The changes, in any order; the same change may come several times.
        unique_key: The names of the key columns.
        columns: The names of all data columns, the key columns among them, in source order.
        track_columns: The columns whose change opens a version. All but the key, the ignored and
            the overwritten ones where left out.
        ignore_columns: The columns whose change opens no version.
        overwrite_columns: The columns that show their last value in every version.
        grain: Whether each change counts or only what a transaction came to.
        deletes: Whether the end of a life opens a version of its own.
        load_valid_from: The time of changes without one.
        valid_to_current: The `valid_to` of open versions.

    Returns:
        The versions, by key and version number: the data columns, then `META_COLUMNS`.

    Raises:
        ValueError: An argument has a value that is not allowed, or a change breaks the contract.
    """
    if grain not in ("change", "transaction"):
        raise ValueError(f"grain must be 'change' or 'transaction', not {grain!r}")
    if deletes not in ("close", "version"):
        raise ValueError(f"deletes must be 'close' or 'version', not {deletes!r}")
    overwritten = list(overwrite_columns or [])
    if track_columns is None:
        untracked = {*unique_key, *(ignore_columns or []), *overwritten}
        tracked = [column for column in columns if column not in untracked]
    else:
        tracked = list(track_columns)

    rows: list[Row] = []
    for life in _walk_all(changes, unique_key, columns, load_valid_from):
        steps = life.steps
        versions = _versions(_runs(steps, grain), columns, tracked, deletes)
        for version in versions:  # rule 7
            for column in overwritten:
                version[column] = _last_upsert(steps).state[column]
        for version in versions:
            if version["is_current"]:
                version["valid_to"] = valid_to_current
        rows.extend(versions)
    return rows


def current(history_rows: Iterable[Row]) -> list[Row]:
    """Keep the versions that are open and not deleted: the rows of the table now."""
    return [row for row in history_rows if row["is_current"] and not row["is_deleted"]]


def as_of(history_rows: Iterable[Row], moment: datetime) -> list[Row]:
    """Keep the versions that were valid at a moment: the rows of the table then.

    Intervals are half-open, so a version that began and ended at one time is never among them.
    """
    return [
        row
        for row in history_rows
        if not row["is_deleted"]
        and row["valid_from"] <= moment
        and (row["is_current"] or moment < row["valid_to"])
    ]


def audit(
    changes: Iterable[Change], unique_key: Sequence[str], columns: Sequence[str]
) -> list[Row]:
    """Say who changed what: one row for each column that a change changed.

    The value before comes from the before-image if there is one and it is not NULL there, else
    from the row that lived at the key, else it is NULL. For an update that changes the key that is
    the row that left the old key. It gives rows (the key columns among them) for the new key, and
    none for the old one. A delete of a key that is not alive, or of an earlier row of the key,
    still says what its before-image held; a truncate has rows for the keys that are alive.

    Args:
        changes: The changes, in any order; the same change may come several times.
        unique_key: The names of the key columns.
        columns: The names of all data columns, the key columns among them, in source order.

    Returns:
        By key, then in the order of changes, then in the order of columns: the key columns,
        `change_seq`, `operation`, `changed_at`, `changed_by`, `column_name`, `old_value`,
        `new_value`.
    """
    rows: list[Row] = []
    for life in _walk_all(changes, unique_key, columns, LOAD_VALID_FROM):
        for step in [*life.steps, *life.ends_of_earlier_rows]:
            change = step.event.change
            if step.event.kind == "out":
                continue  # the new key's rows say it
            for column in columns:
                old = _value_before(step, column)
                new = step.state[column] if step.event.kind == "upsert" else None
                if same(old, new):
                    continue
                if step.event.kind == "truncate":
                    key = _key_of(step.state, unique_key)
                else:
                    key = _own_key(change, unique_key)
                row: Row = dict(zip(unique_key, key, strict=True))
                row["change_seq"] = change.change_seq
                row["operation"] = change.operation
                row["changed_at"] = change.changed_at
                row["changed_by"] = change.changed_by
                row["column_name"] = column
                row["old_value"] = old
                row["new_value"] = new
                rows.append(row)
    return rows


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal by SQL's `<=>` has it: NULL is NULL, NaN is NaN."""
    if left is None or right is None:
        return left is None and right is None
    return bool(left == right) or bool(left != left and right != right)


def sort_key(key: Key) -> tuple[tuple[bool, Any], ...]:
    """Give a sort key that allows NULLs, which come first."""
    return tuple((value is not None, value) for value in key)


# --- from changes to the events of one key ------------------------------------------------------


def _walk_all(
    changes: Iterable[Change],
    unique_key: Sequence[str],
    columns: Sequence[str],
    load_valid_from: datetime,
) -> list[Life]:
    """Walk all events in order, and return what became of each key."""
    missing = [column for column in unique_key if column not in columns]
    if missing or not unique_key:
        raise ValueError(f"unique_key {list(unique_key)} must be some of columns {list(columns)}")
    lives: dict[Key, Life] = {}
    rows_that_left: dict[str, Row | None] = {}  # by the change_id of the update that moved the row
    for event, key in _events(_applied(changes, unique_key), unique_key):
        for life in list(lives.values()) if key is None else [lives.setdefault(key, Life())]:
            moved_row = rows_that_left.get(event.change.change_id)
            leaving = _take_step(life, event, columns, unique_key, load_valid_from, moved_row)
            if event.kind == "out":
                rows_that_left[event.change.change_id] = leaving
    return [lives[key] for key in sorted(lives, key=sort_key)]


def _applied(changes: Iterable[Change], unique_key: Sequence[str]) -> list[Change]:
    """Keep the changes that are applied: good ones, each once (rule 1)."""
    distinct: dict[str, Change] = {}
    for change in changes:
        if change.reject_reason is not None:
            continue
        _check(change, unique_key)
        if distinct.setdefault(change.change_id, change) != change:
            raise ValueError(f"two different changes have the change_id {change.change_id!r}")
    return list(distinct.values())


def _check(change: Change, unique_key: Sequence[str]) -> None:
    """Refuse a change that breaks the contract and yet is not marked as rejected."""
    name = f"change {change.change_id!r} ({change.operation})"
    if change.operation not in ("load", "insert", "update", "delete", "truncate"):
        raise ValueError(f"{name}: no such operation")
    if change.operation == "load" and change.change_seq != "":
        raise ValueError(f"{name}: a load row has the change_seq ''")
    if change.operation in ("load", "insert", "update") and change.after is None:
        raise ValueError(f"{name}: has no after")
    if change.operation == "delete" and change.before is None:
        raise ValueError(f"{name}: has no before")
    absent = change.absent_columns or []
    if any(column in absent for column in unique_key):
        raise ValueError(f"{name}: a key column is absent")


def _rank(change: Change) -> tuple[int, bool, datetime, str]:
    """Give what orders changes with one key and one change_seq."""
    precedence = PRECEDENCE[change.operation]
    if change.operation == "load" and change.changed_at is not None:
        return (precedence, True, change.changed_at, change.change_id)
    return (precedence, False, datetime.min, change.change_id)


def _key_of(row: Row, unique_key: Sequence[str]) -> Key:
    return tuple(row[column] for column in unique_key)


def _own_key(change: Change, unique_key: Sequence[str]) -> Key:
    """Give the key of a change: that of the row after it, for a delete that of the row before."""
    row = change.before if change.operation == "delete" else change.after
    assert row is not None  # _check saw to it
    return _key_of(row, unique_key)


def _key_left(change: Change, unique_key: Sequence[str]) -> Key | None:
    """Give the key of the row before an update that changed it; else None (rule 3)."""
    if change.operation != "update" or change.before is None:
        return None
    old_key = _key_of(change.before, unique_key)
    return old_key if old_key != _own_key(change, unique_key) else None


def _events(applied: Sequence[Change], unique_key: Sequence[str]) -> list[tuple[Event, Key | None]]:
    """List all events in order, each with its key; that of a truncate is None, for all keys."""
    # Within one change_seq: rows that leave a key, then the keys' own changes, then truncates.
    placed: list[tuple[tuple[str, int, tuple[int, bool, datetime, str]], Event, Key | None]] = []

    def place(event: Event, phase: int, key: Key | None) -> None:
        change = event.change
        placed.append(((change.change_seq, phase, _rank(change)), event, key))

    for change in applied:
        if change.operation == "truncate":
            place(Event("truncate", change), 3, None)
            continue
        old_key = _key_left(change, unique_key)
        if old_key is not None:
            place(Event("out", change), 1, old_key)
        kind: Literal["delete", "upsert"] = "delete" if change.operation == "delete" else "upsert"
        place(Event(kind, change), 2, _own_key(change, unique_key))
    return [(event, key) for _, event, key in sorted(placed, key=lambda entry: entry[0])]


# --- from the events of one key to its states ---------------------------------------------------


def _take_step(
    life: Life,
    event: Event,
    columns: Sequence[str],
    unique_key: Sequence[str],
    load_valid_from: datetime,
    moved_row: Row | None,
) -> Row | None:
    """Note what an event does to a key.

    Returns:
        The row that an end takes away, as far as it is known.
    """
    change, previous = event.change, life.previous
    life.previous = change
    if event.kind == "truncate":
        life.takers.clear()
        if not life.alive:
            return None  # no event of this key (rule 10)
    row_before = life.state if life.alive else None
    if event.kind in ("out", "delete") and _is_of_an_earlier_row(life, change, previous):
        life.ends_of_earlier_rows.append(Step(event, datetime.min, False, False, {}, {}, None))
        return life.replaced

    at = change.changed_at or load_valid_from
    life.moment = at if life.moment is None else max(life.moment, at)
    was_alive, state_before = life.alive, life.state
    other = row_before
    if event.kind == "upsert":
        has_moved = _key_left(change, unique_key) is not None
        if has_moved or change.operation == "insert":
            life.arrival, life.replaced, life.found = change, row_before, life.said
        life.said, life.upsert = _said(change, columns), change
        life.takers.append(True)
        other = moved_row if has_moved else row_before
        life.state = {name: life.said.get(name, (other or {}).get(name)) for name in columns}
    life.alive = event.kind == "upsert"  # the state stays behind as the last one known
    life.steps.append(
        Step(event, life.moment, was_alive, life.alive, state_before, life.state, other)
    )
    return row_before


def _is_of_an_earlier_row(life: Life, end: Change, previous: Change | None) -> bool:
    """Return whether an end belongs to an earlier row of the key (rule 13)."""
    arrival, upsert = life.arrival, life.upsert
    if arrival is None or upsert is None:
        life.takers.append(False)
        return False
    if upsert is arrival and _are_of_one_transaction(arrival, end):
        if _contradicts(end, life.said):
            return True
        if previous is arrival:
            life.takers.pop()
            is_taken = life.takers[-1] if life.takers else False
            if is_taken and not _contradicts(end, life.found):
                return True
    life.takers.append(False)
    return False


def _are_of_one_transaction(first: Change, second: Change) -> bool:
    """Return whether two changes of a key, in their order, are of one transaction (rule 11)."""
    if first.transaction_id is None or first.transaction_id != second.transaction_id:
        return False
    if first.changed_at is None or second.changed_at is None:
        return True
    return second.changed_at <= first.changed_at + timedelta(hours=1)


def _contradicts(end: Change, said: Row) -> bool:
    """Return whether a before-image has a value that a row is known not to have."""
    before = end.before or {}
    return any(
        before[name] is not None and not same(before[name], value) for name, value in said.items()
    )


def _said(change: Change, columns: Sequence[str]) -> Row:
    """Give the values that an upsert says by itself (rule 5)."""
    assert change.after is not None  # _check saw to it
    absent = change.absent_columns or []
    row: Row = {}
    for column in columns:
        if column not in absent:
            row[column] = change.after[column]
        elif change.before is not None and change.before[column] is not None:
            row[column] = change.before[column]
    return row


def _value_before(step: Step, column: str) -> Any:
    """Give the value of a column before a change, as the audit has it."""
    before = step.event.change.before
    if before is not None and before[column] is not None:
        return before[column]
    return None if step.row_before is None else step.row_before[column]


# --- from the states of one key to its versions -------------------------------------------------


def _runs(steps: Sequence[Step], grain: Grain) -> list[list[Step]]:
    """Put together the steps that count as one (rules 2 and 11)."""
    runs: list[list[Step]] = []
    for step in steps:
        if step.event.kind != "upsert" and not step.was_alive:
            continue  # nothing happened (rule 8)
        change = step.event.change
        last = runs[-1][-1].event.change if runs else None
        if last is not None and (
            change.change_seq == last.change_seq
            or (grain == "transaction" and _are_of_one_transaction(last, change))
        ):
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


def _versions(
    runs: Sequence[Sequence[Step]],
    columns: Sequence[str],
    tracked: Sequence[str],
    deletes: Deletes,
) -> list[Row]:
    """Build the versions of one key, except for the overwritten columns."""
    versions: list[Row] = []

    def close(step: Step, closed_by: str) -> None:
        if versions and versions[-1]["is_current"]:
            versions[-1]["valid_to"] = step.moment
            versions[-1]["valid_to_seq"] = step.event.change.change_seq
            versions[-1]["is_current"] = False
            versions[-1]["closed_by"] = closed_by

    def open_(step: Step, operation: str, is_deleted: bool) -> None:
        row: Row = {column: step.state[column] for column in columns}
        row["valid_from"] = step.moment
        row["valid_to"] = None
        row["valid_from_seq"] = step.event.change.change_seq
        row["valid_to_seq"] = None
        row["is_current"] = True
        row["is_deleted"] = is_deleted
        row["version"] = len(versions) + 1
        row["operation"] = operation
        row["closed_by"] = None
        row["transaction_id"] = step.event.change.transaction_id
        versions.append(row)

    for run in runs:
        was_alive, state_before = run[0].was_alive, run[0].state_before
        is_alive, state = run[-1].is_alive, run[-1].state
        if is_alive:
            if was_alive and all(same(state_before[name], state[name]) for name in tracked):
                continue  # nothing tracked has changed (rule 6)
            step = _last_upsert(run)
            close(step, "update")
            open_(step, step.event.change.operation, is_deleted=False)
        elif was_alive:
            step = [step for step in run if step.was_alive and not step.is_alive][-1]
            ended_by = "key_change" if step.event.kind == "out" else step.event.kind
            close(step, ended_by)
            if deletes == "version":
                open_(step, ended_by, is_deleted=True)
        # Not alive before, not alive after: nothing to be seen (rule 8).
    return versions


def _last_upsert(steps: Sequence[Step]) -> Step:
    return [step for step in steps if step.event.kind == "upsert"][-1]
