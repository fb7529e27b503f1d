"""Hypothesis strategies for change streams, options of a history, and ways to deliver a stream.

    @given(streams(), st.data())
    def test(stream, data):
        chosen = data.draw(options(stream))
        batches = data.draw(splits(stream.changes))
        expected = history(stream.changes, stream.unique_key, stream.columns, **chosen)

All domains are small, so that values, keys, times and places collide often.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict, TypeVar

from hypothesis import assume
from hypothesis import strategies as st

from reference import Change, Deletes, Grain, Key, Operation, Row

T = TypeVar("T")

START = datetime(2024, 1, 1, 12)

# A change_seq has 35 digits, of which a double keeps 17: two that differ at the end only are one
# number if they are read as numbers.
SEQ_BASE = 20240101120000000000000000000000000

# Each of many cases in one table has so many places to itself.
CASE_PLACES = 10**6

# For each Spark type of a data column the values that it takes here, NULL apart.
DOMAINS: dict[str, list[Any]] = {
    "string": ["", "a", "A", "a ", "NULL", "é"],
    "int": [0, 1, -1],
    "bigint": [0, 9007199254740993, 9007199254740992],
    "boolean": [False, True],
    "date": [date(1970, 1, 1), date(2024, 2, 29)],
    "timestamp": [
        datetime(1970, 1, 1),
        datetime(2024, 3, 31, 2, 30, 0, 1),
        datetime(2024, 3, 31, 2, 30, 0, 2),
    ],
    "decimal(20,2)": [Decimal("0.00"), Decimal("0.10"), Decimal("123456789012345678.91")],
}

# The same for key columns; no value is NULL.
KEY_DOMAINS: dict[str, list[Any]] = {
    "string": ["k", "K", "k "],
    "int": [0, 1, 2],
    "bigint": [1, 9007199254740993, 9007199254740992],
    "date": [date(1970, 1, 1), date(2024, 2, 29)],
    "timestamp": [datetime(2024, 3, 31, 2, 30, 0, 1), datetime(2024, 3, 31, 2, 30, 0, 2)],
}

# Names that are simple, in mixed case, reserved words, or likely to be used inside the engine.
KEY_NAMES = ["id", "key", "Region", "order_no"]
DATA_NAMES = ["a", "b", "order", "Name", "value", "state", "before", "changed_at", "rank", "group"]


class Options(TypedDict):
    """The keyword arguments of `reference.history` beside the stream, the key and the columns."""

    track_columns: list[str] | None
    ignore_columns: list[str] | None
    overwrite_columns: list[str] | None
    grain: Grain
    deletes: Deletes
    load_valid_from: datetime
    valid_to_current: datetime | None


@dataclass(frozen=True)
class Stream:
    """A table and the changes that its change table holds.

    Attributes:
        unique_key: The names of the key columns.
        columns: The names of all data columns, the key columns among them.
        types: The Spark type of each column.
        changes: The changes as delivered: in any order, some several times.
        table: The rows of the source's table at the end; None if the stream may contradict itself.
        trades: The places of each statement in which rows take each other's keys.
    """

    unique_key: list[str]
    columns: list[str]
    types: dict[str, str]
    changes: list[Change]
    table: list[Row] | None = None
    trades: list[list[str]] = field(default_factory=list)

    @property
    def distinct(self) -> list[Change]:
        """Each change once, as a staging model keeps it."""
        return list({change.change_id: change for change in self.changes}.values())


def seq(number: int) -> str:
    """Give the change_seq with a number."""
    return f"{SEQ_BASE + number:035d}"


def _often(draw: st.DrawFn, percent: int) -> bool:
    """Draw True in about so many of a hundred cases; shrinks to False."""
    return draw(st.integers(0, 99)) >= 100 - percent


@dataclass
class _Source:
    """A source that writes a change table; only an honest one writes a consistent one."""

    draw: st.DrawFn
    unique_key: list[str]
    columns: list[str]
    types: dict[str, str]
    honest: bool
    keys: list[Row]
    truncates: bool
    from_places: bool
    table: dict[Key, Row] = field(default_factory=dict)
    number: int = 0
    clock: datetime = START
    transaction: int = 0

    @property
    def data_columns(self) -> list[str]:
        return [column for column in self.columns if column not in self.unique_key]

    def key_of(self, row: Row) -> Key:
        return tuple(row[column] for column in self.unique_key)

    def value(self, column: str) -> Any:
        return self.draw(st.sampled_from([None, *DOMAINS[self.types[column]]]))

    def row(self) -> Row:
        """Draw a whole row with any of the keys that this stream knows."""
        key = self.draw(st.sampled_from(self.keys))
        return {name: key[name] if name in key else self.value(name) for name in self.columns}

    def new_row(self) -> Row | None:
        """Draw a row whose key is free where the source is honest; None if it came out taken."""
        row = self.row()
        return None if self.honest and self.key_of(row) in self.table else row

    def old_row(self) -> Row | None:
        """Draw a row of the table; a source that is not honest may give another row."""
        if not self.honest and _often(self.draw, 20):
            return self.row()
        if not self.table:
            return None
        return dict(self.table[self.draw(st.sampled_from(list(self.table)))])

    def stamp(self, change: Change) -> Change:
        """Give a change its place, its time and its transaction."""
        draw = self.draw
        self.number += 1 if self.honest else draw(st.sampled_from([1, 0, 1, 2, 1]))
        minutes = draw(st.sampled_from([1, 0, 0, 5, -1, -30]))
        self.clock += timedelta(minutes=minutes, microseconds=minutes)
        at: datetime | None = self.clock
        if _often(draw, 8):
            at = draw(st.sampled_from([None, datetime(1970, 1, 1)]))
        name: str | None
        kind = draw(st.sampled_from(["same", "next", "none", "reused"]))
        if kind == "next":
            self.transaction += 1
        if kind == "none":
            name = None
        elif kind == "reused":
            name = f"tx{draw(st.integers(0, self.transaction))}"
        else:
            name = f"tx{self.transaction}"
        return replace(change, change_seq=seq(self.number), changed_at=at, transaction_id=name)

    def load(self) -> Change | None:
        """Read a row by full load, which an honest source does ahead of all changes."""
        row = self.new_row()
        if row is None:
            return None
        absent = self.absence(row, None)
        if self.honest:  # not captured, so nobody will ever learn what it was
            row = {name: None if name in absent else row[name] for name in row}
            self.table[self.key_of(row)] = row
        at = self.draw(st.sampled_from([None, START, START + timedelta(hours=1)]))
        transaction = self.draw(st.sampled_from([None, None, "tx0"]))
        return self.upsert("load", None, row, absent, at=at, transaction=transaction)

    def insert(self) -> Change | None:
        """Insert a row."""
        row = self.new_row()
        if row is None:
            return None
        absent = self.absence(row, None)
        if self.honest:
            row = {name: None if name in absent else row[name] for name in row}
        self.table[self.key_of(row)] = row
        return self.stamp(self.upsert("insert", None, row, absent))

    def update(self) -> Change | None:
        """Update a row: some columns, none, or the key; with or without a before-image."""
        draw = self.draw
        old = self.old_row()
        if old is None:
            return None
        new = dict(old)
        for column in draw(st.lists(st.sampled_from(self.data_columns), max_size=2, unique=True)):
            new[column] = self.value(column)
        moved = False
        if _often(draw, 20):
            target = self.new_row()
            if target is not None:
                new.update({column: target[column] for column in self.unique_key})
                moved = self.key_of(new) != self.key_of(old)
        self.table.pop(self.key_of(old), None)
        self.table[self.key_of(new)] = new

        before: Row | None = None
        if moved or _often(draw, 50):
            before = dict(old)
        if before is not None and not self.honest and _often(draw, 25):
            for column in draw(st.lists(st.sampled_from(self.data_columns), max_size=2)):
                before[column] = self.value(column)
        absent = self.absence(new, old)
        if before is not None and not moved and _often(draw, 30):
            # Some sources capture in the before-image what they capture after, and no more.
            before = {name: None if name in absent else before[name] for name in before}
        if before is not None and moved and not absent and not self.honest and _often(draw, 30):
            # Others write the whole row after, and of the row before the key alone.
            before = {name: before[name] if name in self.unique_key else None for name in before}
        return self.stamp(self.upsert("update", before, new, absent))

    def trade(self) -> list[Change]:
        """Give some rows each other's keys in one statement, such as `id = id + 1`, or a swap.

        The last row of a chain takes a free key. The changes are written in any order, and each
        with whole images, or nothing would show which row left a key.
        """
        draw = self.draw
        if len(self.table) < 2:
            return []
        movers = draw(st.permutations(list(self.table)))[: draw(st.integers(2, 4))]
        free = [key for key in map(self.key_of, self.keys) if key not in self.table]
        targets = movers[1:] + (movers[:1] if not free or draw(st.booleans()) else free[:1])
        moves = []
        for key, target in zip(movers, targets, strict=True):
            old = self.table[key]
            new = old | dict(zip(self.unique_key, target, strict=True))
            if _often(draw, 20):
                column = draw(st.sampled_from(self.data_columns))
                new[column] = self.value(column)
            moves.append((old, new))
        for old, _ in moves:
            del self.table[self.key_of(old)]
        self.table.update({self.key_of(new): new for _, new in moves})
        changes: list[Change] = []
        for old, new in draw(st.permutations(moves)):
            if changes and not self.honest:
                self.number += 1  # one that is not honest may use a place twice
            change = self.stamp(self.upsert("update", dict(old), new, []))
            first = changes[0].transaction_id if changes else change.transaction_id
            change = replace(change, transaction_id=first or f"tx{self.transaction}")
            # More than an hour between two changes of a statement would part them.
            changes.append(replace(change, changed_at=self.clock) if self.honest else change)
        return changes

    def delete(self) -> Change | None:
        """Delete a row; the before-image may hold the key alone."""
        old = self.old_row()
        if old is None:
            return None
        self.table.pop(self.key_of(old), None)
        if _often(self.draw, 25):
            old = {name: old[name] if name in self.unique_key else None for name in old}
        return self.stamp(Change("", "", "delete", before=old))

    def truncate(self) -> Change:
        """Empty the table."""
        self.table.clear()
        alone = int(self.from_places)  # in its place
        self.number += alone
        change = self.stamp(Change("", "", "truncate"))
        self.number += alone
        return change

    def rejected(self) -> Change:
        """Write a malformed row, which may look well-formed."""
        operations: list[Operation] = ["load", "insert", "update", "delete"]
        operation = self.draw(
            st.sampled_from([*operations, "truncate"] if self.truncates else operations)
        )
        before = self.row() if self.draw(st.booleans()) else None
        after = self.row() if self.draw(st.booleans()) else None
        number, clock = self.number, self.clock
        change = self.stamp(
            Change("", "", operation, before=before, after=after, reject_reason="not understood")
        )
        if self.honest:  # it shares a place with a good change and must not disturb it
            self.number, self.clock = number, clock
        return replace(change, change_seq="") if operation == "load" else change

    def absence(self, row: Row, old: Row | None) -> list[str]:
        """Choose the columns that are not captured; an honest source leaves out what is unchanged.

        Args:
            row: The row after the change.
            old: The row before an update; None for a load or an insert, where columns are seldom
                absent.
        """
        if not _often(self.draw, 10 if old is None else 50):
            return []
        columns = self.data_columns
        if self.honest and old is not None:
            columns = [column for column in columns if row[column] == old[column]]
        return [column for column in columns if self.draw(st.booleans())]

    def upsert(
        self,
        operation: Operation,
        before: Row | None,
        after: Row,
        absent: list[str],
        *,
        at: datetime | None = None,
        transaction: str | None = None,
    ) -> Change:
        """Write a load, an insert or an update without a place."""
        changed: list[str] | None = None
        if operation == "update" and self.draw(st.booleans()):
            changed = [
                column
                for column in self.columns
                if column not in absent and (before is None or before[column] != after[column])
            ]
        says_nothing_is_absent: bool = self.draw(st.booleans())
        return Change(
            change_id="",
            change_seq="",
            operation=operation,
            before=before,
            after={name: None if name in absent else after[name] for name in after},
            changed_columns=changed,
            absent_columns=absent if absent or says_nothing_is_absent else None,
            changed_at=at,
            transaction_id=transaction,
        )


@dataclass(frozen=True)
class Schema:
    """The columns of a table, and the keys that its streams know."""

    unique_key: list[str]
    columns: list[str]
    types: dict[str, str]
    keys: list[Row]


@st.composite
def schemas(draw: st.DrawFn, min_keys: int = 1) -> Schema:
    """Draw a table's columns, and the keys of its streams, so many or more."""
    unique_key = draw(st.lists(st.sampled_from(KEY_NAMES), min_size=1, max_size=3, unique=True))
    data = draw(st.lists(st.sampled_from(DATA_NAMES), min_size=1, max_size=8, unique=True))
    columns = [*unique_key, *data]
    if draw(st.booleans()):  # the key need not come first
        columns = [*data, *unique_key]
    types = {name: draw(st.sampled_from(sorted(KEY_DOMAINS))) for name in unique_key}
    types.update({name: draw(st.sampled_from(sorted(DOMAINS))) for name in data})
    key = st.fixed_dictionaries(
        {name: st.sampled_from(KEY_DOMAINS[types[name]]) for name in unique_key}
    )
    return Schema(unique_key, columns, types, draw(st.lists(key, min_size=min_keys, max_size=4)))


@st.composite
def streams(
    draw: st.DrawFn,
    max_changes: int = 20,
    honest: bool = False,
    schema: Schema | None = None,
    truncates: bool = True,
    from_places: bool = False,
    trades: bool = False,
) -> Stream:
    """Draw a table and its change stream.

    Args:
        draw: Hypothesis gives it.
        max_changes: The greatest number of different changes.
        honest: Whether the stream tells the truth: every change is legal, before-images agree, a
            place has one change, full-load rows stood in the table before the first change, and
            only unchanged columns are absent from updates. Times, order and repetition stay wild.
            `Stream.table` is then the table at the end.
        schema: The table's columns; drawn where left out.
        truncates: Whether the table may be truncated.
        from_places: Whether to draw only changes that let an incremental run cut a key from the
            place of its first new change on, and not from its beginning: none is rejected, and
            none shares its place with a truncation.
        trades: Whether rows may take each other's keys in a statement.
    """
    if schema is None:
        schema = draw(schemas())
    source = _Source(
        draw,
        schema.unique_key,
        schema.columns,
        schema.types,
        honest,
        schema.keys,
        truncates,
        from_places,
    )

    # update comes first so that examples shrink to it, and several times so that it is frequent
    kinds = ["update"] * 6 + ["insert"] * 5 + ["delete"] * 3 + ["load"]
    if not from_places:
        kinds.append("rejected")
    if truncates:
        kinds.append("truncate")
    if trades:
        kinds += ["trade"] * 4
    changes: list[Change] = []
    statements: list[list[str]] = []
    if honest or draw(st.booleans()):
        for _ in range(draw(st.integers(0, 3))):
            loaded = source.load()
            if loaded is not None:
                changes.append(loaded)
    first = ["insert"] * draw(st.integers(0, 4)) + ["trade"] if trades else []
    for number in range(len(first) + draw(st.integers(0, max(0, max_changes - 3)))):
        kind = first[number] if number < len(first) else draw(st.sampled_from(kinds))
        if honest and kind == "load":
            kind = "insert"
        if kind == "trade":
            moves = source.trade()
            if moves:
                statements.append([move.change_seq for move in moves])
                changes += moves
                continue
            kind = "insert"
        made: Change | None = getattr(source, kind)()
        if made is None:
            made = source.insert()
        if made is not None:
            changes.append(made)

    # The order of change_ids has nothing to do with that of changes; "c10" comes before "c9".
    numbers = draw(st.permutations(range(1, len(changes) + 1)))
    changes = [
        replace(change, change_id=f"c{number}")
        for change, number in zip(changes, numbers, strict=True)
    ]
    if changes:
        changes += draw(st.lists(st.sampled_from(changes), max_size=3))
    if draw(st.booleans()):
        changes = draw(st.permutations(changes))
    return Stream(
        schema.unique_key,
        schema.columns,
        schema.types,
        changes,
        list(source.table.values()) if honest else None,
        statements,
    )


@st.composite
def merged_streams(
    draw: st.DrawFn,
    cases: int,
    max_changes: int = 20,
    honest: bool = False,
    truncates: bool = True,
    from_places: bool = False,
    trades: bool = False,
) -> Stream:
    """Draw many streams of one schema and put them into one table, as one more key column.

    A Spark statement costs far more than the few rows of one case, so the engine is shown many
    cases at once. Each case has a range of places to itself, the first ones the highest, so that a
    truncate of one case ends the lives of later cases only.

    Args:
        draw: Hypothesis gives it.
        cases: How many streams.
        max_changes: The greatest number of different changes of each.
        honest: Whether the streams are consistent (see `streams`).
        truncates: Whether the table may be truncated, which in one of many cases it is.
        from_places: Whether runs can begin at places (see `streams`).
        trades: Whether rows may take each other's keys in a statement.
    """
    schema = draw(schemas())
    changes: list[Change] = []
    for case in range(cases):
        stream = draw(streams(max_changes, honest, schema, truncates, from_places, trades))
        changes += [_of_case(change, case, cases - case) for change in stream.changes]
    # A search begins with the simplest streams, which hold nothing; a short one would end there.
    assume(len(changes) > cases)
    return Stream(
        ["case_no", *schema.unique_key],
        ["case_no", *schema.columns],
        {"case_no": "int", **schema.types},
        changes,
    )


def _of_case(change: Change, case: int, rank: int) -> Change:
    """Move a change into a case's range of places and keys."""
    place = change.change_seq
    return replace(
        change,
        change_id=f"{change.change_id}-{case}",
        change_seq=f"{int(place) + rank * CASE_PLACES:035d}" if place else place,
        before=None if change.before is None else {"case_no": case, **change.before},
        after=None if change.after is None else {"case_no": case, **change.after},
    )


def whole(stream: Stream) -> Stream:
    """Return the stream with the columns that its source did not capture as NULLs."""
    return replace(stream, changes=[replace(c, absent_columns=None) for c in stream.changes])


@st.composite
def options(draw: st.DrawFn, stream: Stream, from_places: bool = False) -> Options:
    """Draw the options of a history over a stream.

    No column is both tracked and ignored, or both tracked and overwritten, and `track_columns` and
    `ignore_columns` are not given together. An ignored column may be overwritten as well.

    Args:
        draw: Hypothesis gives it.
        stream: The stream.
        from_places: Whether to draw only options that let an incremental run begin at places (see
            `streams`).
    """
    data = [column for column in stream.columns if column not in stream.unique_key]
    some: st.SearchStrategy[list[str]] = st.lists(st.sampled_from(data), min_size=1, unique=True)
    overwrite = draw(some) if not from_places and draw(st.booleans()) else None
    left = [column for column in data if column not in (overwrite or [])]
    track: list[str] | None = None
    ignore: list[str] | None = None
    choices = ["all", "track", "ignore"]
    if from_places:
        # A column that opens no version asks for a cut from the beginning where one is absent.
        is_sparse = any(change.absent_columns for change in stream.changes)
        choices = ["all"] if is_sparse else ["track", "ignore"]
    choice = draw(st.sampled_from(choices))
    if choice == "track":
        track = draw(st.lists(st.sampled_from(left), unique=True)) if left else []
    elif choice == "ignore":
        ignore = draw(some)
    return Options(
        track_columns=track,
        ignore_columns=ignore,
        overwrite_columns=overwrite,
        grain="change" if from_places else draw(st.sampled_from(["change", "transaction"])),
        deletes=draw(st.sampled_from(["close", "version"])),
        load_valid_from=draw(
            st.sampled_from([datetime(1900, 1, 1), START - timedelta(hours=1), START])
        ),
        valid_to_current=draw(st.sampled_from([None, datetime(9999, 12, 31)])),
    )


@st.composite
def splits(
    draw: st.DrawFn, rows: Sequence[T], min_batches: int = 1, max_batches: int = 4
) -> list[list[T]]:
    """Draw a way to deliver rows: in batches, in any order, some rows twice.

    Every row is in at least one batch. A batch may be empty.
    """
    batches: list[list[T]] = [[] for _ in range(draw(st.integers(min_batches, max_batches)))]
    place = st.integers(0, len(batches) - 1)
    for row in rows:
        batches[draw(place)].append(row)
        if _often(draw, 15):
            batches[draw(place)].append(row)
    return [draw(st.permutations(batch)) for batch in batches]


@st.composite
def splits_in_order(
    draw: st.DrawFn, changes: Sequence[Change], min_batches: int = 1, max_batches: int = 4
) -> list[list[Change]]:
    """Draw a way to deliver a stream in batches that never reach back: what most runs are given.

    Loads come first. Of merged streams each case is split by itself.
    """
    batches: list[list[Change]] = [[] for _ in range(draw(st.integers(min_batches, max_batches)))]
    cases: dict[int, list[Change]] = {}
    for change in changes:
        if change.change_seq:
            cases.setdefault(int(change.change_seq) // CASE_PLACES, []).append(change)
        else:
            batches[0].append(change)
    for case in cases.values():
        places = sorted({change.change_seq for change in case})
        ends = st.lists(
            st.sampled_from(places), min_size=len(batches) - 1, max_size=len(batches) - 1
        )
        bounds = sorted(draw(ends))
        for change in case:
            batches[bisect_right(bounds, change.change_seq)].append(change)
    return batches
