"""A MariaDB server for tests, with the binaries of the distribution and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from conftest import ROOT
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import jars

LISTING = Path(__file__).with_name("mariadb_jars.txt")
FOLDER = ROOT / ".afterimage" / "connector"

# The database has the name of PostgreSQL's schema, so topics have the same names.
DATABASE = "public"
PROGRAMS = ("mariadbd", "mariadb", "mariadb-install-db")

# Seconds that the server may take to start.
PATIENCE = 60


def lacking() -> str | None:
    """Return what of the server and its connector cannot be had here; none if all can."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} on this machine"
    try:
        jars.fetched(LISTING, FOLDER, os.environ)
    except AfterimageError as error:
        return str(error)
    return None


def _program(name: str) -> str | None:
    # Servers are in a folder that a user's PATH may not have.
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Server:
    """A running server; its user `root` needs no password."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.connectors = 0

    def client(self) -> list[str]:
        """Return the command that runs SQL from its standard input."""
        socket_file = str(self.folder / "socket")
        names = ("--socket", socket_file, "--user", "root", "--default-character-set", "utf8mb4")
        form = ("-N", "-B", "--raw", "--unbuffered")
        return [str(_program("mariadb")), "--no-defaults", *names, *form, DATABASE]

    def connector(self, name: str, folder: Path) -> dict[str, str]:
        """Return the properties of a connector that reads this server."""
        self.connectors += 1
        history = "schema.history.internal"
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.user": "root",
            "database.password": "",
            "database.include.list": DATABASE,
            "database.server.id": str(1000 + self.connectors),
            "database.ssl.mode": "disable",
            "include.schema.changes": "false",
            history: "io.debezium.storage.file.history.FileSchemaHistory",
            f"{history}.file.filename": str(folder / f"{name}.history"),
        }

    def jars(self) -> list[Path]:
        """Return the jars of that connector."""
        return jars.fetched(LISTING, FOLDER, os.environ)

    def run(self, sql: str) -> str:
        """Run statements, each in a transaction of its own unless they say otherwise."""
        done = subprocess.run(self.client(), input=sql, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the objects of a query that selects one JSON object a row."""
        lines = self.run(f"{query};").splitlines()
        return [json.loads(line, parse_float=Decimal) for line in lines]


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """Start a server, and remove all of it afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="mariadb-", dir="/tmp"))
    user = pwd.getpwuid(os.getuid()).pw_name
    options = ["--no-defaults", f"--datadir={folder / 'data'}", f"--user={user}"]
    process = None
    try:
        with (folder / "server.log").open("a") as log:
            subprocess.run(
                [
                    str(_program("mariadb-install-db")),
                    *options,
                    "--auth-root-authentication-method=normal",
                ],
                check=True,
                stdout=log,
                stderr=log,
            )
            process = subprocess.Popen(
                [
                    str(_program("mariadbd")),
                    *options,
                    *("--bind-address=127.0.0.1", f"--port={port}"),
                    *(f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"),
                    *("--server-id=1", "--log-bin=log", "--binlog-format=ROW"),
                    *("--binlog-row-image=FULL", "--max-binlog-size=65536"),
                    *("--default-time-zone=+00:00", "--character-set-server=utf8mb4"),
                    *("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"),
                ],
                stdout=log,
                stderr=log,
            )
        server = Server(folder, port)
        end = time.monotonic() + PATIENCE
        command = [word for word in server.client() if word != DATABASE]
        while True:
            made = subprocess.run(
                command, input=f"create database {DATABASE};", capture_output=True, text=True
            )
            if made.returncode == 0:
                break
            assert process.poll() is None, (folder / "server.log").read_text()[-4000:]
            assert time.monotonic() < end, made.stderr
            time.sleep(0.2)
        yield server
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
