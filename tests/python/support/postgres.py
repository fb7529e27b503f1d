"""A PostgreSQL server for tests, with the binaries of the distribution and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "24",
    "max_replication_slots": "24",
    "track_commit_timestamp": "on",
    "fsync": "off",
    "synchronous_commit": "off",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "60",
}


def binaries() -> Path | None:
    """Return the folder of the newest server on this machine, of version 13 or later, or None."""
    found = {
        float(path.parts[-3]): path.parent
        for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")
    }
    newest = max(found, default=0.0)
    return found[newest] if newest >= 13 else None


class Server:
    """A running server; its database is `postgres`, and its user of that name needs no password."""

    def __init__(self, folder: Path, bin: Path, port: int) -> None:
        self.folder = folder
        self.bin = bin
        self.port = port

    def command(self, *arguments: str) -> list[str]:
        return [str(self.bin / arguments[0]), *arguments[1:]]

    def client(self) -> list[str]:
        """Return the command that runs SQL from its standard input."""
        return self.command(
            *("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"),
            *("-p", str(self.port), "-U", "postgres", "postgres"),
        )

    def connector(self, name: str, folder: Path) -> dict[str, str]:
        """Return the properties of a connector that reads this server."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": "everything",
            "publication.autocreate.mode": "disabled",
        }

    def jars(self) -> list[Path]:
        """Return the jars of that connector: none, since .venv-real has them."""
        return []

    def run(self, sql: str) -> str:
        """Run statements, each in a transaction of its own unless they say otherwise."""
        done = subprocess.run(self.client(), input=sql, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query as JSON has them."""
        lines = self.run(f"select row_to_json(q) from ({query}) as q;").splitlines()
        return [json.loads(line, parse_float=Decimal) for line in lines]


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start a server, and remove all of it afterwards."""
    bin = binaries()
    assert bin is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # PostgreSQL does not run as root, and its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    user: dict[str, Any] = {}
    if os.getuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    data = folder / "data"
    server = Server(folder, bin, port)

    def call(*arguments: str) -> None:
        with (folder / "commands.log").open("a") as log:
            subprocess.run(
                server.command(*arguments), check=True, cwd=folder, stdout=log, stderr=log, **user
            )

    try:
        call("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        options = {**SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
        call("pg_ctl", "start", "-w", "-D", str(data), "-l", str(folder / "server.log"))
        yield server
    finally:
        if (data / "postmaster.pid").exists():
            call("pg_ctl", "stop", "-m", "immediate", "-D", str(data))
        shutil.rmtree(folder, ignore_errors=True)
