"""A database whose changes are random, and its own record of them.

Triggers write each row before and after each change in a table, with the transaction. The order of
the transactions is that of their commits, as the server has it (`track_commit_timestamp`).
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from postgres import Server
from real_connector import Database

Row = dict[str, Any]

# The columns, with their types in PostgreSQL.
COLUMNS = {
    "id": "int primary key",
    "small": "smallint",
    "big": "bigint not null",
    "price": "numeric(10,2)",
    "amount": "numeric(30,9) not null",
    "ratio": "double precision",
    "sure": "boolean not null",
    "day": "date",
    "clock": "time(6)",
    "seen": "timestamp(6)",
    "seen_ms": "timestamp(3)",
    "seen_zone": "timestamptz",
    "uid": "uuid",
    "state": "colour",
    "flags": "bit(11)",
    "code": "varchar(20) not null",
    "note": "text",
    "photo": "bytea",
    "doc": "jsonb",
    "words": "text[]",
}
# What the server stores outside of a row of more than 2 kB. An update that leaves it alone does not
# log it.
TOASTED = ["note", "photo", "doc", "words"]
TABLES = {"plain_things": "default", "full_things": "full"}


def definition() -> str:
    """Return the statements that make the tables, and the record of what happens to them."""
    statements = [
        "create type colour as enum ('red', 'green', 'blue');",
        "create table marks (id int primary key);",
        "create table old_days (id int primary key, day date);",
        "create table record (place bigserial primary key, transaction xid default"
        " pg_current_xact_id()::xid, of_table text, old jsonb, new jsonb);",
        "create publication everything for all tables;",
        """
create function keep_record() returns trigger language plpgsql as $$
begin
    insert into record (of_table, old, new) values (
        tg_table_name,
        case when tg_op <> 'INSERT' then to_jsonb(old) end,
        case when tg_op <> 'DELETE' then to_jsonb(new) end
    );
    return null;
end $$;
""",
    ]
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for table, identity in TABLES.items():
        statements.append(f"create table {table} ({columns}) with (toast_tuple_target = 128);")
        statements += [
            f"alter table {table} alter column {name} set storage external;" for name in TOASTED
        ]
        statements.append(f"alter table {table} replica identity {identity};")
        statements.append(
            f"create trigger keep_record after insert or update or delete on {table}"
            " for each row execute function keep_record();"
        )
    return "\n".join(statements)


# By id; a snapshot reads some of them as other days.
OLD_DAYS = ["1582-10-04", "1582-10-05", "1582-10-14", "1582-10-15", "0044-03-15 BC"]


def old_days(first: int) -> str:
    """Return statements that insert the old days."""
    rows = ", ".join(f"({first + place}, '{day}')" for place, day in enumerate(OLD_DAYS))
    return f"insert into old_days values {rows};"


def literal(value: Any) -> str:
    """Write a value as SQL."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list):
        return "array[" + ", ".join(map(literal, value)) + "]::text[]"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"


class Workload:
    """Random statements for tables with the same columns, the same ones for each seed."""

    def __init__(self, seed: int, tables: list[str], columns: dict[str, str]) -> None:
        self.random = random.Random(seed)
        self.columns = columns
        self.living: dict[str, set[int]] = {table: set() for table in tables}
        self.next_key = 0

    def load(self, rows: int) -> str:
        """Return statements that fill the tables."""
        return "\n".join(self._insert(table) for table in self.living for _ in range(rows))

    def changes(self, transactions: int) -> str:
        """Return statements in transactions, each of one to six changes in any table."""
        written = []
        for _ in range(transactions):
            statements = [self._change() for _ in range(self.random.choice([1, 1, 1, 2, 4, 6]))]
            written.append("begin;\n" + "\n".join(statements) + "\ncommit;")
        return "\n".join(written)

    def interleaved(self, server: Database, pairs: int) -> None:
        """Run pairs of transactions, of which the one that began first commits last."""
        for _ in range(pairs):
            clients = [
                subprocess.Popen(
                    server.client(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                for _ in range(2)
            ]
            turns = [(0, "begin;"), (1, "begin;")]
            for number, table in enumerate(self.living):
                first = number % 2
                turns += [(first, self._insert(table)), (1 - first, self._insert(table))]
            for number, statement in [*turns, (1, "commit;"), (0, "commit;")]:
                client = clients[number]
                assert client.stdin is not None
                assert client.stdout is not None
                client.stdin.write(statement + "\nselect 'done';\n")
                client.stdin.flush()
                assert client.stdout.readline() == "done\n"
            for client in clients:
                client.communicate()

    def _change(self) -> str:
        table = self.random.choice(list(self.living))
        living = sorted(self.living[table])
        kind = self.random.choice(["insert", "delete", "key", *["update"] * 6])
        if kind == "insert" or not living:
            return self._insert(table)
        key = self.random.choice(living)
        if kind == "delete":
            self.living[table].remove(key)
            return f"delete from {table} where id = {key};"
        changed = self._some_values()
        if kind == "key":
            self.living[table].remove(key)
            new = self._free_key(table)
            self.living[table].add(new)
            # Often nothing but the key changes.
            changed = {"id": new, **(changed if self.random.random() < 0.4 else {})}
        written = ", ".join(f"{name} = {literal(value)}" for name, value in changed.items())
        return f"update {table} set {written} where id = {key};"

    def _insert(self, table: str) -> str:
        key = self._free_key(table)
        self.living[table].add(key)
        row = {"id": key, **{name: self.value(name) for name in self.columns if name != "id"}}
        values = ", ".join(map(literal, row.values()))
        return f"insert into {table} ({', '.join(row)}) values ({values});"

    def _free_key(self, table: str) -> int:
        """Return a key that was not used before, or one whose row is gone."""
        gone = sorted(set(range(1, self.next_key + 1)) - self.living[table])
        if gone and self.random.random() < 0.5:
            return self.random.choice(gone)
        self.next_key += 1
        return self.next_key

    def _some_values(self) -> Row:
        others = [name for name in self.columns if name != "id"]
        names = self.random.sample(others, self.random.choice([1, 2, 5]))
        return {name: self.value(name) for name in names}

    def value(self, name: str) -> Any:
        """Draw a value of a column."""
        draw = self.random
        if "not null" not in self.columns[name] and draw.random() < 0.15:
            return None
        moment = datetime(1, 1, 1) + timedelta(
            days=draw.choice([draw.randrange(3652058), draw.randrange(577000, 578000), 738000]),
            microseconds=draw.randrange(86400 * 10**6),
        )
        if name == "day":
            # See OLD_DAYS for those in between.
            days = [date(1582, 10, 4), date(1582, 10, 15), moment.date()]
            return draw.choice([day for day in days if not days[0] < day < days[1]])
        values: dict[str, Any] = {
            "small": lambda: draw.randrange(-(2**15), 2**15),
            "big": lambda: draw.choice([0, draw.randrange(-(2**63), 2**63)]),
            "price": lambda: f"{draw.choice([0, draw.randrange(-(10**10), 10**10)]) / 100:.2f}",
            "amount": lambda: draw.choice(
                ["0.000000000", f"{draw.randrange(10**21)}.{draw.randrange(10**9):09}"]
            ),
            "ratio": lambda: draw.choice([0.5, -1e300, draw.random()]),
            "sure": lambda: draw.random() < 0.5,
            "clock": lambda: moment.time().isoformat("microseconds"),
            "seen": lambda: moment.isoformat(" ", "microseconds"),
            "seen_ms": lambda: moment.isoformat(" ", "milliseconds"),
            "seen_zone": lambda: moment.isoformat(" ", "microseconds") + "+00",
            "uid": lambda: f"{draw.randrange(16**32):032x}",
            "state": lambda: draw.choice(["red", "green", "blue"]),
            "flags": lambda: f"{draw.randrange(2**11):011b}",
            "code": lambda: draw.choice(["", "a", "it's", "true", "1250", "\u00e4\u4e2d"]),
            "note": lambda: draw.choice(["", "short", "n" * 2100 + str(draw.random())]),
            "photo": lambda: "\\x" + draw.randbytes(draw.choice([0, 3, 2100])).hex(),
            "doc": lambda: json.dumps({"a": [1, None, "x" * draw.choice([1, 2100])]}),
            "words": lambda: [f"w{draw.random()}"] * draw.choice([0, 1, 120]),
        }
        return values[name]()


@dataclass
class Record:
    """What the database says of itself.

    Attributes:
        rows: The rows now, by key.
        changes: The changes in the order of their commits: time, row before, row after.
    """

    rows: dict[int, Row]
    changes: list[tuple[str, Row | None, Row | None]]


def record(server: Server, table: str) -> Record:
    """Return the record of a table."""
    changes = server.rows(
        "select old, new, (pg_xact_commit_timestamp(transaction) at time zone 'UTC')::text"
        f" as at from record where of_table = '{table}'"
        " order by pg_xact_commit_timestamp(transaction), place"
    )
    return Record(
        {row["id"]: row for row in server.rows(f"select * from {table}")},
        [(change["at"], change["old"], change["new"]) for change in changes],
    )
