"""A database in MariaDB whose changes are random, and its own record of them, kept by triggers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from conftest import Lake
from mariadb import Server, running_server
from real_answers import history, reloads, selected
from real_connector import Connectors, Mode
from real_differences import differences
from real_run import Told, happen
from real_source import Record, Workload

Row = dict[str, Any]
Texts = dict[str, str | None]

# The columns, with their types in MariaDB and as `debezium_messages` is told them.
COLUMNS = {
    "id": ("int primary key", "int"),
    "small": ("smallint", "smallint"),
    "big": ("bigint not null", "bigint"),
    "huge": ("bigint unsigned", "decimal(20,0)"),
    "price": ("decimal(10,2)", "decimal(10,2)"),
    "amount": ("decimal(30,9) not null", "decimal(30,9)"),
    "ratio": ("double", "double"),
    "sure": ("tinyint(1) not null", "smallint"),
    "day": ("date", "date"),
    "clock": ("time(6)", "time(6)"),
    "seen": ("datetime(6)", "timestamp_ntz(6)"),
    "seen_ms": ("datetime(3)", "timestamp_ntz(3)"),
    "seen_zone": ("timestamp(6) null", "timestamp(6)"),
    "since": ("year", "int"),
    "state": ("enum('red', 'green', 'blue')", "string"),
    "words": ("set('a', 'b', 'c')", "string"),
    "flags": ("bit(11)", "binary"),
    "code": ("varchar(20) not null", "string"),
    "note": ("longtext", "string"),
    "photo": ("blob", "binary"),
    "doc": ("json", "string"),
}
TABLE = "things"
# How the record writes the values, where not as texts.
_AS_TEXT = {"id": "{}", "flags": "bin({})", "photo": "hex({})"}


def _row(which: str) -> str:
    """Return SQL that gives a row as a JSON object."""
    values = []
    for name in COLUMNS:
        value = f"{which}.{name}"
        values.append(f"'{name}', {_AS_TEXT.get(name, 'cast({} as char)').format(value)}")
    return f"json_object({', '.join(values)})"


def definition() -> str:
    """Return the statements that make the table, and the record of what happens to it."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    statements = [
        "create table marks (id int primary key);",
        f"create table {TABLE} ({columns});",
        "create table record (place bigint auto_increment primary key, at bigint,"
        " old longtext, new longtext);",
    ]
    images = {
        "insert": f"null, {_row('new')}",
        "update": f"{_row('old')}, {_row('new')}",
        "delete": f"{_row('old')}, null",
    }
    # The time of a change in the log is that of its statement, in whole seconds.
    statements += [
        f"create trigger keep_{event} after {event} on {TABLE} for each row insert into record"
        f" (at, old, new) values (unix_timestamp(), {values});"
        for event, values in images.items()
    ]
    return "\n".join(statements)


class MariaWorkload(Workload):
    """Random statements for the table, the same ones for each seed."""

    def __init__(self, seed: int) -> None:
        kinds = {name: kind for name, (kind, _) in COLUMNS.items()}
        super().__init__(seed, [TABLE], kinds)

    def value(self, name: str) -> Any:
        """Draw a value of a column."""
        draw = self.random
        values: dict[str, Any] = {
            "huge": lambda: draw.choice([0, draw.randrange(2**64)]),
            # Of any sign, and up to 838 hours.
            "clock": lambda: (
                f"{draw.choice(['', '-'])}{draw.randrange(839):02d}:"
                f"{draw.randrange(60):02d}:{draw.randrange(60):02d}.{draw.randrange(10**6):06d}"
            ),
            "seen_zone": lambda: (
                datetime(1970, 1, 2)
                + timedelta(microseconds=draw.randrange(2**31 * 10**6 - 10**11))
            ).isoformat(" ", "microseconds"),
            "flags": lambda: draw.randrange(2**11),
            "photo": lambda: draw.randbytes(draw.choice([0, 3, 2100])),
            "since": lambda: draw.choice([1901, 2155, 2026]),
            "words": lambda: draw.choice(["", "a", "a,c", "a,b,c"]),
        }
        if name in values:
            return values[name]()
        drawn = super().value(name)
        while name in ("day", "seen", "seen_ms") and drawn is not None and is_read_otherwise(drawn):
            drawn = super().value(name)
        return drawn


def is_read_otherwise(moment: Any) -> bool:
    """Tell whether the connector makes another time of a time.

    It takes years of two digits for those from 1970 to 2069, unless it is told not to
    (`enable.time.adjuster`), and a snapshot turns the days that Java's old calendar lacks.
    """
    text = str(moment)
    return text < "0100" or "1582-10-05" <= text[:10] < "1582-10-15"


def record(server: Server) -> Record:
    """Return the record of the table."""
    changes = server.rows(
        "select json_object('at', at, 'old', old, 'new', new) from record order by place"
    )
    return Record(
        {row["id"]: row for row in server.rows(f"select {_row(TABLE)} from {TABLE}")},
        [
            (
                str(datetime.fromtimestamp(int(change["at"]), timezone.utc).replace(tzinfo=None)),
                *(change[w] and json.loads(change[w], parse_float=Decimal) for w in ("old", "new")),
            )
            for change in changes
            # The server logs no update of nothing.
            if change["old"] != change["new"]
        ],
    )


def stored(row: Row, mode: Mode) -> Texts:
    """Return a row of the record in the texts that Spark has for its values.

    Some settings of a connector cannot show all values.
    """
    return {name: _text(name, value, mode) for name, value in row.items()}


def _text(name: str, value: Any, mode: Mode) -> str | None:
    if value is None:
        return None
    match name:
        case "ratio":
            return repr(float(value))
        case "amount" if mode.decimal == "precise":
            return str(Decimal(value))
        case "flags":
            return int(value, 2).to_bytes(2, "little").hex()
        case "photo":
            return str(value).lower()
        case "doc":
            return json.dumps(json.loads(value))
        case "clock" if mode.time == "isostring" and not is_time_of_day(value):
            return None
        case "clock" | "seen" | "seen_ms" | "seen_zone":
            return value.rstrip("0").rstrip(".") if "." in value else str(value)
    return str(value)


def is_time_of_day(text: str) -> bool:
    return not text.startswith("-") and int(text.split(":")[0]) < 24


def told_by(modes: list[Mode], folder: Path) -> Told:
    """Change a database while connectors read it, are asked for snapshots, stop and break."""
    with running_server() as server:
        workload = MariaWorkload(1)
        server.run(definition() + workload.load(40))
        initial = list(record(server).rows.values())
        server.run("truncate record;")
        connectors = Connectors(server, modes, folder, [TABLE])
        happen(connectors, workload, [TABLE])
        return Told(
            {(mode.name, TABLE): connectors.records(mode, TABLE) for mode in modes},
            {TABLE: initial},
            {TABLE: record(server)},
            [],
        )


def wrong_history(lake: Lake, relation: str, told: Told, mode: Mode) -> str | None:
    """Compare a history with the record of the table; return how much differs, if anything."""
    columns = [{"name": name, "type": kind} for name, (_, kind) in COLUMNS.items()]
    versions = lake.rows(
        f"select {selected(columns)}, cast(valid_from as string) as valid_from,"
        " cast(valid_to as string) as valid_to, closed_by"
        f" from {relation} as versions order by versions.id, version"
    )
    for row in versions:
        row["ratio"] = row["ratio"] and repr(float(row["ratio"]))
        row["doc"] = row["doc"] and json.dumps(json.loads(row["doc"]))
    expected = history(
        [stored(row, mode) for row in told.initial[TABLE]],
        [
            (at, old and stored(old, mode), new and stored(new, mode))
            for at, old, new in told.record[TABLE].changes
        ],
        reloads(told.records[mode.name, TABLE]),
    )
    if mode.partitions > 1:
        # By offsets, a key change in two partitions is a delete and an insert.
        for row in [*versions, *expected]:
            row["closed_by"] = "delete" if row["closed_by"] == "key_change" else row["closed_by"]
    return differences(versions, expected)
