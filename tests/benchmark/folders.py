"""What `afterimage up` and `afterimage news` cost a fleet of landed folders.

    .venv/bin/python tests/benchmark/folders.py --tables 40 --target server

Of ten tables seven are Qlik change tables, two come from AWS DMS and one is a topic of Debezium.
Each has 200 changes at first. Then nothing lands, then 20 changes in a few tables. Every figure is
that of a command in a process of its own, start and all. With --folder the project stays there.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST, NEW, OPEN = 200, 20, 60
START = datetime(2026, 1, 1)
KINDS = "qqqqqqqddt"


def row_of(number: int) -> dict[str, Any]:
    """Return the values of a row after its change of this number."""
    return {
        "id": number % OPEN,
        "name": f"name {number * 7919 % 1000}",
        "city": ("Turin", "Essen", "Paris", "Cairo")[number % 4],
        "status": ("new", "open", "paid")[number % 3],
        "balance": Decimal(number * 104729 % 100000) / 100,
        "score": number * 31 % 1000,
        "is_active": number % 2 == 0,
        "seen_at": START + timedelta(minutes=number),
    }


_TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "city": pa.string(),
    "status": pa.string(),
    "balance": pa.decimal128(12, 2),
    "score": pa.int32(),
    "is_active": pa.bool_(),
    "seen_at": pa.timestamp("us"),
}


def qlik(numbers: range) -> pa.Table:
    """Return the rows of a Qlik change table: an insert, then updates with their before-images."""
    rows = []
    for number in numbers:
        at = START + timedelta(seconds=number)
        header = {
            "header__change_seq": f"{at:%Y%m%d%H%M%S}00{number:019}",
            "header__stream_position": f"pos:{number}",
            "header__transaction_id": f"{number:032x}",
            "header__timestamp": at,
        }
        images = [("I", "INSERT", row_of(number))]
        if number >= OPEN:
            images = [
                ("B", "BEFOREIMAGE", row_of(number - OPEN)),
                ("U", "UPDATE", row_of(number)),
            ]
        for oper, word, image in images:
            # The mask has a bit for each column, of those of the header first; the key stays.
            mask = b"" if oper == "B" else (0x7FFF if oper == "I" else 0x7F00).to_bytes(2, "little")
            rows.append(
                header
                | {
                    "header__change_oper": oper,
                    "header__change_mask": mask,
                    "header__operation": word,
                }
                | image
            )
    types = {
        "header__change_seq": pa.string(),
        "header__change_oper": pa.string(),
        "header__change_mask": pa.binary(),
        "header__stream_position": pa.string(),
        "header__operation": pa.string(),
        "header__transaction_id": pa.string(),
        "header__timestamp": pa.timestamp("us"),
    }
    return pa.Table.from_pylist(rows, pa.schema(types | _TYPES))


def dms(numbers: range) -> pa.Table:
    """Return the rows of a table of AWS DMS whose task adds times and the order."""
    rows = [
        {
            "Op": "I" if number < OPEN else "U",
            "dms_timestamp": f"{START + timedelta(seconds=number):%Y-%m-%d %H:%M:%S.%f}",
            "ar_h_change_seq": f"{START + timedelta(seconds=number):%Y%m%d%H%M%S}00{number:019}",
            **row_of(number),
        }
        for number in numbers
    ]
    texts = dict.fromkeys(("Op", "dms_timestamp", "ar_h_change_seq"), pa.string())
    return pa.Table.from_pylist(rows, pa.schema(texts | _TYPES))


def debezium(numbers: range, table: str) -> pa.Table:
    """Return the messages of a topic of Debezium's connector for PostgreSQL."""

    def image(number: int) -> dict[str, Any] | None:
        if number < 0:
            return None
        row = row_of(number)
        row["balance"] = str(row["balance"])
        row["seen_at"] = int((row["seen_at"] - datetime(1970, 1, 1)).total_seconds() * 1_000_000)
        return row

    rows = []
    for number in numbers:
        millis = 1767225600000 + number * 1000
        value = {
            "before": image(number - OPEN),
            "after": image(number),
            "source": {
                "version": "3.0.0.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": millis,
                "snapshot": "false",
                "db": "shop",
                "schema": "public",
                "table": table,
                "txId": number + 500,
                "lsn": 10_000 + number,
            },
            "op": "c" if number < OPEN else "u",
            "ts_ms": millis + 100,
        }
        rows.append(
            {
                "key": json.dumps({"id": number % OPEN}).encode(),
                "value": json.dumps(value, separators=(",", ":")).encode(),
                "topic": f"shop.public.{table}",
                "partition": 0,
                "offset": number,
                "timestamp": START + timedelta(seconds=number),
            }
        )
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us"),
    }
    return pa.Table.from_pylist(rows, pa.schema(types))


class Fleet:
    """A project over many landed folders."""

    def __init__(self, folder: Path, target: str, tables: int) -> None:
        self.folder = folder
        self.target = target
        self.landed = folder / "landed"
        self.names = [f"{KINDS[n % len(KINDS)]}{n:03}" for n in range(tables)]
        self.counts = dict.fromkeys(self.names, 0)
        self.environment = dict(os.environ)

    def land(self, names: list[str], count: int) -> None:
        """Write the next changes of some tables, a file each."""
        for name in names:
            start = self.counts[name]
            numbers = range(start, start + count)
            makers = {"q": qlik, "d": dms, "t": partial(debezium, table=name)}
            (self.landed / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(makers[name[0]](numbers), self.landed / name / f"{start:06}.parquet")
            self.counts[name] += count

    def run(self, what: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> float:
        """Run a command and return its seconds."""
        started = time.monotonic()
        done = subprocess.run(
            [str(Path(sys.executable).with_name("afterimage")), *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        (self.folder / f"{what.replace(' ', '_')}.log").write_text(done.stdout + done.stderr)
        if done.returncode not in codes:
            print((done.stdout + done.stderr)[-3000:])
            raise SystemExit(f"{what}: afterimage ended with {done.returncode}")
        print(f"{len(self.names)} tables, {self.target}, {what}: {seconds:.1f} s", flush=True)
        return seconds

    def measure(self, with_news: int, rounds: int) -> None:
        """Run `up` from nothing, with nothing new and with news, and `news` before each."""
        where = ("--target", self.target)
        self.land(self.names, FIRST)
        self.run("up of an empty folder", "up", *where, codes=(0, 1))
        if self.target == "server":
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.environment["AFTERIMAGE_SERVER_PORT"] = str(probe.getsockname()[1])
            self.run("serve", "serve", "--daemon")
        try:
            folders = [str(self.landed / name) for name in self.names]
            self.run("land", "land", *folders, *where)
            self.run("from nothing", "up", *where, "--accept-keys")
            for number in range(1, rounds + 1):
                self.run(f"news of nothing {number}", "news", *where, codes=(0, 3))
                self.run(f"nothing new {number}", "up", *where)
                self.land(self.names[:: max(1, len(self.names) // with_news)][:with_news], NEW)
                self.run(f"news {number}", "news", *where, codes=(0, 3))
                self.run(f"{with_news} with news {number}", "up", *where)
        finally:
            if self.target == "server":
                self.run("stop", "serve", "--stop")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--news", type=int, default=10, help="how many tables get new changes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--target", default="server", choices=("server", "local"))
    parser.add_argument("--folder", type=Path, help="an empty folder to keep the project in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        fleet = Fleet(folder, arguments.target, arguments.tables)
        fleet.measure(arguments.news, arguments.rounds)


if __name__ == "__main__":
    main()
