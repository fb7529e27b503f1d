"""One stream of changes in the words of every dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from hypothesis import strategies as st

import dialect_debezium
import dialect_dms
import dialect_sqlserver
from conftest import ROOT, column_list, relation
from dialect_db2 import DB2_FIRST_COMMIT, DB2_UOW, Db2Style, db2_cd_rows, db2_columns, db2_uow_rows
from dialect_netiq import LOG, TABLE, log_rows
from dialect_openedge import TABLE_NUMBER, carried, change_rows, tracking_row, types_of
from dialect_qlik import HEADER, landed_message, landed_rows, landing, qlik_column
from pages import tables
from qlik_messages import metadata
from reference import Change, Key, Row
from strategies import START, Stream, schemas, seq, streams

# What the streams of one run hold: a case each, in turn.
LEAST: frozenset[str] = frozenset()
STILL = LEAST | {"transaction", "update of nothing"}
FLAVOURS: list[frozenset[str]] = [
    LEAST,
    STILL | {"key change"},
    STILL | {"key change", "key trade"},
    STILL,
    STILL | {"full load"},
    STILL | {"key change", "key trade", "full load"},
    # What a dialect has that names no transaction.
    frozenset({"key change", "full load", "update of nothing"}),
]
# What only dialects have that tell a truncate as well.
FULLEST = STILL | {"key change", "key trade", "new life in a transaction", "truncate"}
PLACES = "valid_from_seq", "valid_to_seq", "history_id"

[PAGE] = tables((ROOT / "docs" / "systems" / "dialects.md").read_text())
MACRO = {
    "qlik_change_table": "qlik_change_table",
    "qlik_json": "qlik_messages",
    "qlik_avro": "qlik_messages",
    "db2_single": "db2_change_data (one row an update)",
    "db2_pairs": "db2_change_data (delete and insert)",
    "openedge": "openedge_change_table",
    "sqlserver": "sqlserver_change_table",
    "debezium_json": "debezium_messages",
    "debezium_avro": "debezium_messages",
    "dms": "dms_changes",
    "netiq": "netiq_event_log",
}
CARRIES = {
    dialect: {row[""] for row in PAGE if row[column] == "yes"} for dialect, column in MACRO.items()
}


def carriers(needed: Iterable[str]) -> list[str]:
    """List the dialects that carry all of this."""
    return [dialect for dialect in MACRO if CARRIES[dialect].issuperset(needed)]


# --- one stream in words that all its dialects have ---------------------------------------------


@dataclass
class Retold:
    """An honest stream, retold without what some dialects cannot carry.

    `sparse` says no more than the stream did; in `whole` each change holds the whole row before it
    and after it. Both mean the same.
    """

    unique_key: list[str]
    allowed: frozenset[str]
    number: int
    sparse: list[Change] = field(default_factory=list)
    whole: list[Change] = field(default_factory=list)
    table: dict[Key, Row] = field(default_factory=dict)
    transaction: int = 0
    told_transaction: str | None = None
    now: datetime = START
    # Of each key the time of its last change, and the transaction in which it was deleted.
    times: dict[Key, datetime] = field(default_factory=dict)
    deaths: dict[Key, int] = field(default_factory=dict)

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.unique_key)

    def tell(self, change: Change) -> None:
        """Take in the next change of the stream."""
        operation, before, after = change.operation, change.before, change.after
        if operation == "truncate":
            if "truncate" in self.allowed:
                self.table.clear()
                self.add(change, change)
            else:
                for row in list(self.table.values()):
                    self.delete(change, row, row)
        elif operation == "delete":
            assert before is not None
            self.delete(change, before, self.table[self.key(before)])
        elif operation == "update":
            assert after is not None
            old = self.table[self.key(before or after)]
            absent = change.absent_columns or []
            new = {name: old[name] if name in absent else after[name] for name in after}
            self.update(change, old, new)
        else:
            assert after is not None
            if operation == "load" and "full load" not in self.allowed:
                change = replace(change, operation="insert")
            self.insert(change, after)

    def tell_trade(self, changes: Sequence[Change]) -> None:
        """Take in the updates by which rows take each other's keys in one statement."""
        moves = [(change, change.before or {}, change.after or {}) for change in changes]
        if not self.allowed.issuperset({"transaction", "key change", "key trade"}):
            plain = [
                (replace(change, absent_columns=None, changed_columns=None), old, new)
                for change, old, new in moves
            ]
            for change, old, _ in plain:
                self.delete(change, old, old)
            for change, _, new in plain:
                self.insert(replace(change, operation="insert", before=None, after=new), new)
            return
        keys = [self.key(row) for _, old, new in moves for row in (old, new)]
        for _, old, _ in moves:
            del self.table[self.key(old)]
        for number, (change, old, new) in enumerate(moves):
            self.table[self.key(new)] = new
            changed = [name for name in new if new[name] != old[name]]
            whole = replace(change, absent_columns=None, changed_columns=changed)
            self.add(change, whole, *keys, goes_on=number > 0)

    def insert(self, change: Change, row: Row) -> None:
        self.table[self.key(row)] = row
        self.add(change, replace(change, absent_columns=None, changed_columns=None), self.key(row))

    def delete(self, change: Change, told: Row, row: Row) -> None:
        del self.table[self.key(row)]
        told_change = replace(change, operation="delete", before=told, after=None)
        self.add(told_change, replace(told_change, before=row), self.key(row))
        self.deaths[self.key(row)] = self.transaction

    def update(self, change: Change, old: Row, new: Row) -> None:
        if self.key(old) != self.key(new) and "key change" not in self.allowed:
            plain = replace(change, absent_columns=None, changed_columns=None)
            self.delete(plain, old, old)
            self.insert(replace(plain, operation="insert", before=None, after=new), new)
            return
        if old == new and "update of nothing" not in self.allowed:
            return
        del self.table[self.key(old)]
        self.table[self.key(new)] = new
        changed = [name for name in new if new[name] != old[name]]
        whole = replace(
            change, before=old, after=new, absent_columns=None, changed_columns=changed or None
        )
        self.add(change, whole, self.key(old), self.key(new))

    def add(self, sparse: Change, whole: Change, *keys: Key, goes_on: bool = False) -> None:
        """Give a change its place, its transaction and its time, and write it down."""
        if sparse.operation == "load":
            stamp: dict[str, Any] = {"change_seq": "", "changed_at": None, "transaction_id": None}
        else:
            self.number += 1
            if not goes_on:
                self.begin(sparse, keys)
            stamp = {
                "change_seq": seq(self.number),
                "changed_at": self.now,
                "transaction_id": f"tx{self.transaction}",
            }
            self.times.update(dict.fromkeys(keys, self.now))
        stamp["change_id"] = f"{self.number}-{len(self.sparse)}"
        self.sparse.append(replace(sparse, **stamp))
        self.whole.append(replace(whole, **stamp))

    def begin(self, change: Change, keys: Sequence[Key]) -> None:
        """Begin another transaction where the stream does, or a dialect must."""
        goes_on = (
            self.transaction > 0
            and change.transaction_id is not None
            and change.transaction_id == self.told_transaction
            and "transaction" in self.allowed
        )
        if "new life in a transaction" not in self.allowed:
            goes_on = goes_on and not any(self.deaths.get(k) == self.transaction for k in keys)
        self.told_transaction = change.transaction_id
        if goes_on:
            return
        self.transaction = max(self.transaction, self.number)
        at = change.changed_at
        self.now = at if at is not None and at > datetime(1970, 1, 2) else START
        while "transaction" not in self.allowed and self.now in [self.times.get(k) for k in keys]:
            self.now += timedelta(seconds=1)


@dataclass(frozen=True)
class Case:
    """A stream and the dialects that carry it."""

    stream: Stream  # its changes are told sparsely
    whole: list[Change]
    dialects: list[str]


def retold(stream: Stream, number: int, rank: int, allowed: frozenset[str]) -> Case:
    """Retell a stream as the case with a number; the first cases have the last places."""
    teller = Retold(stream.unique_key, allowed, rank * 1000)
    begins = {place: min(trade) for trade in stream.trades for place in trade}
    good = [change for change in stream.distinct if change.reject_reason is None]
    good.sort(key=lambda change: change.change_seq)
    for place, told in groupby(good, key=lambda c: begins.get(c.change_seq, c.change_seq)):
        if place in begins:
            teller.tell_trade(list(told))
            continue
        for change in told:
            teller.tell(change)
    return Case(
        replace(stream, changes=[of_case(change, number) for change in teller.sparse]),
        [of_case(change, number) for change in teller.whole],
        carriers(allowed),
    )


def of_case(change: Change, number: int) -> Change:
    return replace(
        change,
        change_id=f"{number}-{change.change_id}",
        before=None if change.before is None else {"case_no": number, **change.before},
        after=None if change.after is None else {"case_no": number, **change.after},
    )


@dataclass(frozen=True)
class Told:
    """Many cases with one schema, in one table."""

    stream: Stream
    cases: list[Case]

    def of(self, dialect: str, whole: bool = False) -> Stream:
        """Give the stream that a dialect carries."""
        changes: list[Change] = []
        for case in self.cases:
            if dialect in case.dialects:
                changes += case.whole if whole else case.stream.changes
        return replace(self.stream, changes=changes)


@st.composite
def told_streams(draw: st.DrawFn, cases: int, flavours: Sequence[frozenset[str]]) -> Told:
    """Draw streams that each hold what a flavour allows."""
    schema = draw(schemas(min_keys=4))
    told = []
    for number in range(cases):
        stream = draw(streams(max_changes=12, honest=True, schema=schema, trades=True))
        told.append(retold(stream, number, cases - number, flavours[number % len(flavours)]))
    names, types = schema.columns, schema.types
    whole = Stream(
        ["case_no", *schema.unique_key], ["case_no", *names], {"case_no": "int", **types}, []
    )
    return Told(whole, told)


# --- the dialects -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Landed:
    """The tables of a dialect (columns and rows), and the macro call that reads them."""

    tables: dict[str, tuple[dict[str, str], list[Row]]]
    call: str


def in_dialect(dialect: str, told: Told) -> Landed:
    """Write the cases that a dialect carries as its tool would."""
    sparse, whole = told.of(dialect), told.of(dialect, whole=True)
    key = sparse.unique_key
    raw = f"all_{dialect}"
    typed = column_list(**{name: sparse.types[name] for name in sparse.columns})
    if dialect == "qlik_change_table":
        columns = {**HEADER, **{name: sparse.types[name] for name in sparse.columns}}
        return Landed(
            {raw: (columns, landed_rows(sparse))},
            f"qlik_change_table({relation(raw)}, unique_key={key})",
        )
    if dialect in ("qlik_json", "qlik_avro"):
        form = dialect.removeprefix("qlik_")
        columns_of = [qlik_column(name, sparse.types[name], key) for name in sparse.columns]
        messages = [landed_message(change, sparse, form, columns_of) for change in sparse.changes]
        return Landed(
            {
                raw: (landing(form), messages),
                f"{raw}_metadata": (landing(form), [metadata(form, "v1", "T", 1, columns_of)]),
            },
            f"qlik_messages({relation(raw)}, unique_key={key}, columns={typed}, "
            f"metadata={relation(f'{raw}_metadata')})",
        )
    if dialect in ("db2_single", "db2_pairs"):
        style: Db2Style = "single" if dialect == "db2_single" else "pairs"
        arguments = f"{relation(raw)}, unique_key={key}, complete=true"
        landed_tables = {raw: (db2_columns(sparse, style), db2_cd_rows(sparse, style))}
        if style == "single":
            landed_tables[f"{raw}_uow"] = (DB2_UOW, db2_uow_rows(sparse))
            arguments += f", uow={relation(f'{raw}_uow')}"
        return Landed(landed_tables, f"db2_change_data({arguments})")
    if dialect == "openedge":
        changes = carried(whole, "bits")
        columns, tracking = types_of(whole, "bits")
        rows = [row for change in changes for row in change_rows(change)]
        return Landed(
            {
                raw: (columns, rows),
                f"{raw}_tracking": (
                    tracking,
                    [tracking_row(change, whole.columns, "bits") for change in changes],
                ),
            },
            f"openedge_change_table({relation(raw)}, unique_key={key}, "
            f"tracking={relation(f'{raw}_tracking')}, source_table_number={TABLE_NUMBER}, "
            "partition_resets='truncate')",
        )
    if dialect == "sqlserver":
        later, earlier = dialect_sqlserver.change_rows(whole)
        return Landed(
            {
                raw: (dialect_sqlserver.columns_of(whole), later),
                f"{raw}_earlier": (dialect_sqlserver.columns_of(whole, earlier=True), earlier),
                f"{raw}_times": (dialect_sqlserver.LSN_TIMES, dialect_sqlserver.lsn_times(whole)),
            },
            f"sqlserver_change_table({relation(raw)}, unique_key={key}, "
            f"earlier={relation(f'{raw}_earlier')}, lsn_times={relation(f'{raw}_times')})",
        )
    if dialect.startswith("debezium"):
        arguments = (
            f"{relation(raw)}, unique_key={key}, key='key', headers='headers', "
            f"columns={dialect_debezium.columns_of(sparse)}"
        )
        if dialect == "debezium_json":
            rows = dialect_debezium.messages(sparse)
            return Landed(
                {raw: (dialect_debezium.LANDING, rows)}, f"debezium_messages({arguments})"
            )
        rows, registered = dialect_debezium.avro_messages(sparse)
        return Landed(
            {
                raw: (dialect_debezium.AVRO_LANDING, rows),
                f"{raw}_schemas": (dialect_debezium.SCHEMAS, registered),
            },
            f"debezium_messages({arguments}, schemas={relation(f'{raw}_schemas')})",
        )
    if dialect == "dms":
        return Landed(
            {raw: (dialect_dms.columns_of(whole), dialect_dms.landed_rows(whole))},
            f"dms_changes({relation(raw)}, unique_key={key}, time='dms_time', before_prefix='BI_')",
        )
    return Landed(
        {raw: (LOG, log_rows(whole.changes, key))},
        f"netiq_event_log({relation(raw)}, unique_key={key}, table='{TABLE}', columns={typed})",
    )


def name_in(dialect: str, told: Told) -> Callable[[str | None], str | None]:
    """Give how a dialect names the stream's transactions."""
    if dialect.startswith("db2"):
        changes = sorted(told.of(dialect).changes, key=lambda change: change.change_seq)
        names = dict.fromkeys(c.transaction_id for c in changes if c.operation != "load")
        commits = {name: f"{DB2_FIRST_COMMIT + n:032X}" for n, name in enumerate(names, 1)}
        return lambda name: name and commits[name]
    if dialect == "openedge":
        return lambda name: name and name.removeprefix("tx")
    if dialect == "sqlserver":
        numbers = dialect_sqlserver.commits(told.of(dialect, whole=True))
        return lambda name: name and numbers[name].hex().upper()
    return lambda name: None if dialect in ("dms", "netiq") else name


def by_case(rows: Iterable[Row], without: Sequence[str]) -> dict[int, list[Row]]:
    cases: dict[int, list[Row]] = {}
    for row in rows:
        told = {name: value for name, value in row.items() if name not in without}
        cases.setdefault(row["case_no"], []).append(told)
    return cases
