"""From topics of a real broker to histories, in an empty folder, by one command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import broker as kafka
import mariadb
import mariadb_source
import postgres
import qlik_messages as qlik
import real_run
from broker import Broker, options_file, running_broker
from command_line import BIN, environment
from conftest import Lake
from dbt_afterimage.landing.broker import OPTIONS
from messages import Topics
from pages import page, typed
from real_connector import PYTHON, Mode
from real_differences import wrong_history
from real_run import MODES, SCHEMAS, Told
from real_source import TABLES
from registry import running_registry
from registry_messages import envelope, framed

pytestmark = pytest.mark.minutes

AUTH = "reader:marker-of-a-secret-9215"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of one process."""
    why = kafka.lacking()
    if why:
        pytest.skip(why)
    with running_broker() as found:
        yield found


NO_ENVIRONMENT = "no .venv-real: `make test-real` makes it"
# Numbers that no bigint holds, and the types of all columns.
UNSIGNED = {"bigint.unsigned.handling.mode": "precise", **SCHEMAS}
# A connector that writes JSON with schemas, and one that writes Avro.
CONNECTORS = ("isostring", "avro")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the connectors sent, and what the database says of the same changes."""
    if postgres.binaries() is None:
        pytest.skip("no server of PostgreSQL on this machine")
    if not PYTHON.exists():
        pytest.skip(NO_ENVIRONMENT)
    modes = [MODES[name] for name in CONNECTORS]
    return real_run.told_by(modes, tmp_path_factory.mktemp("connectors"))


@pytest.fixture(scope="module")
def topics(broker: Broker, lake: Lake) -> Topics:
    return Topics(lake.spark, broker)


class Folder:
    """An empty folder with a warehouse of its own, in which commands are typed."""

    def __init__(self, folder: Path, lake: Lake, broker: Broker) -> None:
        self.folder, self.lake, self.broker = folder / "depot", lake, broker
        self.folder.mkdir()
        self.warehouse = str(folder / "warehouse")
        for option, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": self.warehouse,
            ".cache-enabled": "false",
        }.items():
            lake.spark.conf.set(f"spark.sql.catalog.{folder.name}{option}", value)
        self.catalog = folder.name

    def type(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `afterimage`."""
        return subprocess.run(
            [str(BIN / "afterimage"), *words],
            cwd=self.folder,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            check=False,
        )

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the variables of a shell there."""
        return environment(
            AFTERIMAGE_WAREHOUSE=self.warehouse,
            PYTHONPATH=os.environ.get("PYTHONPATH", ""),
            **variables,
        )

    def rows(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table of the project, in order."""
        found = self.lake.rows(f"select {columns} from {self.catalog}.depot.{table}")
        return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, lake: Lake, broker: Broker) -> Folder:
    return Folder(tmp_path_factory.mktemp("own"), lake, broker)


SOURCE = {
    "version": "string",
    "lsn": "long",
    "ts_ms": "long",
    "schema": "string",
    "table": "string",
}


def change(place: int, table: str, op: str, before: Any, after: Any) -> dict[str, Any]:
    """Return a message of Debezium."""
    source = {
        "version": "3.0.0.Final",
        "lsn": place,
        "ts_ms": place * 1000,
        "schema": "public",
        "table": table,
    }
    source |= {"txId": place, "snapshot": "false", "sequence": f'["{place}","{place}"]'}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": place}


def in_json(place: int, table: str, op: str, before: Any, after: Any) -> dict[str, Any]:
    """Return a record of a topic, in JSON."""
    key = {"id": (after or before)["id"]}
    said = change(place, table, op, before, after)
    return {"key": json.dumps(key), "value": json.dumps(said)}


def qlik_record(number: int, operation: str, mask: str, **data: Any) -> dict[str, Any]:
    headers = {
        "operation": operation,
        "changeSequence": f"2024050108000000{number:019d}",
        "timestamp": f"2024-05-01T08:{number:02d}:00.000",
        "changeMask": mask,
    }
    body = {"data": data, "beforeData": None, "headers": headers}
    return {"value": json.dumps({"magic": "atMSG", "type": "DT", "message": body})}


def in_avro(number: int, table: str, **data: Any) -> dict[str, Any]:
    """Return a message of Qlik in Avro, which names its schema."""
    columns = [qlik.column("ID", "INT8", key=1), qlik.column("CITY", "STRING")]
    headers = qlik.headers(
        "INSERT",
        changeSequence=f"2024050108000000{number:019d}",
        timestamp=f"2024-05-01T08:{number:02d}:00.000",
        changeMask="03",
    )
    body = {"data": data, "beforeData": None, "headers": headers}
    schema = qlik.data_schema(columns)
    return {"value": qlik.avro_message("DT", schema, body, f"{table}-v1")}


def test_three_systems_in_one_command(
    folder: Folder, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    topics.create("shop.meters", 2)
    topics.send(
        "shop.meters",
        [
            qlik_record(1, "INSERT", "03", ID=8, READING=1) | {"partition": 0},
            qlik_record(2, "UPDATE", "02", ID=8, READING=2) | {"partition": 0},
            qlik_record(3, "INSERT", "03", ID=9, READING=5) | {"partition": 1},
            qlik_record(4, "DELETE", "01", ID=9, READING=5) | {"partition": 1},
        ],
    )
    # Two tables on one topic.
    topics.create("shop.public")
    ada, bob = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}
    topics.send(
        "shop.public",
        [
            in_json(10, "people", "c", None, ada),
            in_json(11, "vans", "c", None, {"id": 7, "plate": "AB"}),
            in_json(12, "people", "u", ada, ada | {"name": "Ada L."}),
            in_json(13, "people", "c", None, bob),
            in_json(14, "people", "d", bob, None),
            {"key": json.dumps({"id": 2}), "value": None},
        ],
    )
    source = SOURCE | {"txId": "long", "snapshot": "string", "sequence": "string"}
    schema = envelope({"id": "int", "total": ["null", "double"]}, source)
    key_schema = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    old, new = {"id": 1, "total": 1.5}, {"id": 1, "total": 2.5}
    changes = [change(20, "orders", "c", None, old), change(21, "orders", "u", old, new)]
    topics.create("shop.orders")
    topics.send(
        "shop.orders",
        [
            {
                "key": framed(4, key_schema, {"id": 1}),
                "value": framed(5, schema, {**one, "transaction": None}),
            }
            for one in changes
        ],
    )
    # Data of two tables in Avro, and a topic with the metadata of three.
    sites = [qlik.column("ID", "INT8", key=1), qlik.column("CITY", "STRING")]
    topics.create("shop.crm")
    topics.create("shop.crm_metadata")
    topics.send(
        "shop.crm_metadata",
        [
            qlik.metadata("avro", f"{table}-v1", table, 1, sites)
            for table in ("SITES", "CLIENTS", "OTHERS")
        ],
    )
    topics.send(
        "shop.crm",
        [in_avro(1, "SITES", ID=1, CITY="Bern"), in_avro(2, "CLIENTS", ID=2, CITY="Ulm")],
    )
    options = options_file(tmp_path / "options", {"registry.basic.auth": AUTH})
    path = f"kafka://{broker.address}/shop.*"
    with running_registry({4: json.dumps(key_schema), 5: json.dumps(schema)}, AUTH) as registry:
        command = ("up", path, "--registry", registry.url)
        done = folder.type(*command, **{OPTIONS: options})
        print(done.stdout, done.stderr)
        assert done.returncode == 0
        assert AUTH.split(":")[1] not in done.stdout + done.stderr
        assert "raw.registry_schemas: 2 schemas added" in done.stdout
        histories: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
            "meters": ("ID, READING, version", [(8, 1, 1), (8, 2, 2), (9, 5, 1)]),
            "people": (
                "id, name, version, closed_by",
                [(1, "Ada L.", 2, None), (1, "Ada", 1, "update"), (2, "Bob", 1, "delete")],
            ),
            "vans": ("id, plate, version", [(7, "AB", 1)]),
            "orders": ("id, total, version", [(1, 1.5, 1), (1, 2.5, 2)]),
            "sites": ("ID, CITY, version", [(1, "Bern", 1)]),
            "clients": ("ID, CITY, version", [(2, "Ulm", 1)]),
        }
        for table, (columns, expected) in histories.items():
            name = "shop_meters" if table == "meters" else table
            assert folder.rows(columns, f"{name}_history") == sorted(expected, key=repr), table

        # What comes later is taken in by the same command; known schemas are not asked for again.
        topics.send(
            "shop.meters", [{**qlik_record(5, "UPDATE", "02", ID=8, READING=3), "partition": 0}]
        )
        done = folder.type(*command, **{OPTIONS: options})
        print(done.stdout, done.stderr)
        assert done.returncode == 0
        assert registry.asked == [4, 5]

        # What the broker has deleted stays in the account of the table.
        gone = [qlik_record(n, "UPDATE", "02", ID=8, READING=n) for n in (6, 7)]
        topics.send("shop.meters", [one | {"partition": 0} for one in gone])
        topics.forget("shop.meters", 0, 4)
        done = folder.type(*command, **{OPTIONS: options})
        assert done.returncode == 1
        assert "no longer has up to 1 messages: 1 of partition 0 (offsets 3 to 3)" in done.stderr
        done = folder.type(*command, "--accept-gap", **{OPTIONS: options})
        print(done.stdout, done.stderr)
        assert done.returncode == 0
        lacks = "raw.shop_meters lacks 1 message of partition 0 (offsets 3 to 3)"
        assert lacks in health_of("shop_meters", done.stdout)
        # The page says so too when only others are built.
        van = {"id": 7, "plate": "AB"}
        topics.send("shop.public", [in_json(15, "vans", "u", van, van | {"plate": "CD"})])
        done = folder.type(*command, **{OPTIONS: options})
        assert done.returncode == 0
        assert lacks in health_of("shop_meters", done.stdout)
    rows = folder.rows("ID, READING, version", "shop_meters_history")
    assert rows == [(8, 1, 1), (8, 2, 2), (8, 3, 3), (8, 7, 4), (9, 5, 1)]


def send(topics: Topics, records: list[dict[str, Any]], mode: Mode) -> None:
    """Send what a connector has written of a table to its topic."""

    def sent(text: str | None) -> str | bytes | None:
        return bytes.fromhex(text) if text and mode.form == "Avro" else text

    topics.create(records[0]["topic"], mode.partitions)
    topics.send(
        records[0]["topic"],
        [
            {
                "key": sent(record["key"]),
                "value": sent(record["value"]),
                "headers": dict(record["headers"]),
                "partition": record["partition"],
            }
            for record in records
        ],
    )


def health_of(model: str, said: str) -> str:
    """Return the line of a model that needs a look."""
    [line] = [one for one in said.splitlines() if f"{model}: look here" in one]
    return line.replace("`", "")


@pytest.mark.parametrize("mode", CONNECTORS)
def test_histories_of_a_real_connector_are_the_database_s_record(
    mode: str, told: Told, folder: Folder, topics: Topics, broker: Broker, lake: Lake
) -> None:
    for table in TABLES:
        send(topics, told.records[mode, table], MODES[mode])
    # By default NULL in an update of `flags` is read as not captured, since the message of a value
    # that the update left alone looks the same. The bits here are too short for that.
    folder.type("init")
    (folder.folder / "afterimage.yml").write_text(
        f"tables:\n  - relation: raw.{mode}_public_plain_things\n    key: [id]\n"
        "    arguments: {null_is_absent: []}\n"
    )
    with running_registry({row["id"]: row["schema"] for row in told.schemas}) as registry:
        path = f"kafka://{broker.address}/{mode}.public.*"
        done = folder.type("up", path, "--registry", registry.url)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert f"{len(told.records[mode, 'plain_things']):,} messages loaded" in done.stdout
    wrong = {
        table: wrong_history(
            lake, f"{folder.catalog}.depot.{table}_history", told, MODES[mode], table
        )
        for table in TABLES
    }
    assert wrong == dict.fromkeys(TABLES)


# One writes numbers where it can, the other texts.
MARIADB = {
    mode.name: mode
    for mode in [
        Mode("numbers", 1, "adaptive_time_microseconds", "precise", UNSIGNED),
        Mode("texts", 2, "isostring", "string", UNSIGNED),
    ]
}


@pytest.fixture(scope="module")
def told_by_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What connectors for MariaDB sent, and what the database says of the same changes."""
    why = mariadb.lacking() or (None if PYTHON.exists() else NO_ENVIRONMENT)
    if why:
        pytest.skip(why)
    return mariadb_source.told_by([*MARIADB.values()], tmp_path_factory.mktemp("mariadb"))


@pytest.mark.parametrize("mode", list(MARIADB))
def test_histories_of_mariadb_are_the_database_s_record(
    mode: str, told_by_mariadb: Told, folder: Folder, topics: Topics, broker: Broker, lake: Lake
) -> None:
    table = mariadb_source.TABLE
    send(topics, told_by_mariadb.records[mode, table], MARIADB[mode])
    done = folder.type("up", f"kafka://{broker.address}/{mode}.public.*")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    history = f"{folder.catalog}.depot.{table}_history"
    assert mariadb_source.wrong_history(lake, history, told_by_mariadb, MARIADB[mode]) is None


def test_the_page_followed_to_the_letter(folder: Folder, lake: Lake) -> None:
    """But for the ports, which may be taken."""
    text = page("docs/start/from_kafka.md")
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        ports = {"9092": str(one.getsockname()[1]), "9093": str(other.getsockname()[1])}

    def here(text: str) -> str:
        return re.sub("909[23]", lambda found: ports[found[0]], text)

    [settings] = [
        block for block in re.findall(r"```properties\n(.*?)```", text, re.S) if "log.dirs" in block
    ]
    (folder.folder / "server.properties").write_text(here(settings))
    *_, broker, message = typed(text)
    env = folder.environment()
    env["PATH"] = f"{BIN}:{env['PATH']}"
    server = None
    try:
        for line in [*broker, *message]:
            if line.endswith("&"):
                words = ["sh", "-c", f"exec {here(line.rstrip('& '))}"]
                server = subprocess.Popen(words, cwd=folder.folder, env=env)
                wait_for(int(ports["9092"]))
                continue
            if line.startswith("for "):
                line = f"{broker[0]}; {line}"
            done = subprocess.run(
                here(line),
                shell=True,
                cwd=folder.folder,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    finally:
        if server is not None:
            server.kill()
            server.wait()
    assert folder.rows("id, reading, version", "meters_history") == [(1, 5, 1)]


def wait_for(port: int) -> None:
    """Wait until something listens at a port."""
    end = time.monotonic() + kafka.PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.2)
