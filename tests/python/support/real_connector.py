"""Starts and stops real Debezium connectors, and reads what they sent. See `debezium_engine.py`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from conftest import ROOT

PYTHON = ROOT / ".venv-real" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
ENGINE = Path(__file__).with_name("debezium_engine.py")

# Seconds that something may take which takes a few.
PATIENCE = 120


@dataclass(frozen=True)
class Mode:
    """One way to set up a connector. All modes read the same database at the same time."""

    name: str
    partitions: int
    time: str
    decimal: str
    properties: dict[str, str] = field(default_factory=dict)
    # Whether the messages are ordered by their offsets, or by their places in the log.
    by_offset: bool = False
    # `Json` or `Avro`.
    form: str = "Json"


class Database(Protocol):
    """A running server of a database that connectors read."""

    port: int

    def connector(self, name: str, folder: Path) -> dict[str, str]:
        """Return the properties of a connector that reads it."""

    def jars(self) -> list[Path]:
        """Return the jars of that connector; none if .venv-real has them."""

    def run(self, sql: str) -> str:
        """Run statements, each in a transaction of its own unless they say otherwise."""

    def client(self) -> list[str]:
        """Return the command that runs SQL from its standard input."""


class Connectors:
    """The connectors of some modes, in one process; each has its own slot and signal table."""

    def __init__(
        self, server: Database, modes: list[Mode], folder: Path, tables: list[str]
    ) -> None:
        self.server = server
        self.modes = modes
        self.folder = folder
        self.marks = 0
        # How far the file of a mode is read, and the keys of the marks up to there.
        self.read = {mode.name: 0 for mode in modes}
        self.seen: dict[str, set[str]] = {mode.name: set() for mode in modes}
        settings = [
            {
                "name": mode.name,
                "partitions": mode.partitions,
                "form": mode.form,
                "properties": self._properties(mode, [*tables, "marks", f"signal_{mode.name}"]),
            }
            for mode in modes
        ]
        (folder / "connectors.json").write_text(json.dumps(settings))
        for mode in modes:
            server.run(
                f"create table signal_{mode.name}"
                " (id varchar(42) primary key, type text, data text);"
            )

    def _properties(self, mode: Mode, tables: list[str]) -> dict[str, str]:
        return {
            "name": mode.name,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self.folder / f"{mode.name}.offsets"),
            "offset.flush.interval.ms": "0",
            "topic.prefix": mode.name,
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            **self.server.connector(mode.name, self.folder),
            "table.include.list": ",".join(f"public.{table}" for table in tables),
            "signal.data.collection": f"public.signal_{mode.name}",
            "incremental.snapshot.chunk.size": "8",
            "poll.interval.ms": "20",
            "converter.schemas.enable": "false",
            "time.precision.mode": mode.time,
            "decimal.handling.mode": mode.decimal,
            **mode.properties,
        }

    def start(self) -> None:
        """Start all connectors; they go on from where they stopped."""
        with (self.folder / "engine.log").open("a") as log:
            self.process = subprocess.Popen(
                [PYTHON, ENGINE, self.folder / "connectors.json", *self.server.jars()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """Let the connectors end by themselves."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def forget(self) -> None:
        """Let the connectors go on without noting how far they have come."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"forget\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End the connectors as a broken machine does; what they forgot to note is sent again."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def catch_up(self) -> None:
        """Wait until every connector has sent all that the database has committed."""
        self.marks += 1
        self.server.run(f"insert into marks values ({self.marks});")
        self._wait_for(lambda mode: self._marks_seen(mode) == self.marks)

    def _marks_seen(self, mode: Mode) -> int:
        path = self.folder / f"{mode.name}.jsonl"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self.read[mode.name])
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self.read[mode.name] += len(line)
                    if b'.public.marks", ' in line[:100]:
                        self.seen[mode.name].add(json.loads(line)["key"])
        return len(self.seen[mode.name])

    def snapshot(self, table: str) -> None:
        """Ask every connector for an incremental snapshot of a table."""
        data = json.dumps({"data-collections": [f"public.{table}"], "type": "incremental"})
        self.server.run(
            "".join(
                f"insert into signal_{mode.name}"
                f" values ('ask {table}', 'execute-snapshot', '{data}');"
                for mode in self.modes
            )
        )

    def _windows(self) -> dict[str, int]:
        """Count what each connector has written of the windows of its snapshots."""
        return {
            mode.name: int(self.server.run(f"select count(*) from signal_{mode.name};"))
            for mode in self.modes
        }

    def snapshots_done(self) -> None:
        """Wait until no connector reads on in a snapshot."""
        before: dict[str, int] = {}
        while (now := self._windows()) != before:
            assert self.process.poll() is None, self._log()
            before = now
            time.sleep(3)

    def records(self, mode: Mode, table: str) -> list[dict[str, Any]]:
        """Return the records of a table's topic, in the order in which they were sent."""
        path = self.folder / f"{mode.name}.jsonl"
        if not path.exists():
            return []
        lines = [line for line in path.read_text().split("\n")[:-1] if line]
        records = [json.loads(line) for line in lines]
        return [record for record in records if record["topic"].endswith(f".{table}")]

    def schemas(self) -> list[dict[str, Any]]:
        """Return the schemas of the registry."""
        path = self.folder / "schemas.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def _wait_for(self, condition: Callable[[Mode], bool]) -> None:
        end = time.monotonic() + PATIENCE
        for mode in self.modes:
            while not condition(mode):
                assert self.process.poll() is None, self._log()
                assert time.monotonic() < end, f"{mode.name} does not come along: {self._log()}"
                time.sleep(0.1)

    def _log(self) -> str:
        return (self.folder / "engine.log").read_text()[-4000:]
