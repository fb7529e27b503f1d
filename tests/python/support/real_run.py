"""One run of the real connectors: the modes, what happens to the database, and what each said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import postgres
from real_connector import Connectors, Mode
from real_source import COLUMNS, TABLES, Record, Workload, definition, old_days, record

Row = dict[str, Any]

SCHEMAS = {"converter.schemas.enable": "true"}
FLAT = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
    "transforms.flat.add.fields": "op,source.ts_us,source.ts_ms,source.snapshot,source.sequence"
    ",source.lsn,source.txId,source.schema,source.table",
    # Rows of other tables have other columns.
    "predicates": "things",
    "predicates.things.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.things.pattern": ".*_things",
    "transforms.flat.predicate": "things",
}

MODES = {
    mode.name: mode
    for mode in [
        Mode("adaptive", 3, "adaptive", "precise"),
        Mode("offsets", 1, "adaptive", "precise", by_offset=True),
        Mode("time_micros", 1, "adaptive_time_microseconds", "string", SCHEMAS),
        Mode("connect", 1, "connect", "double", by_offset=True),
        Mode("isostring", 3, "isostring", "precise", SCHEMAS),
        Mode("micros", 3, "microseconds", "string"),
        Mode("nanos", 1, "nanoseconds", "double", SCHEMAS, by_offset=True),
        Mode("flat", 3, "adaptive", "string", FLAT),
        Mode("avro", 3, "adaptive", "precise", form="Avro"),
    ]
}


@dataclass
class Told:
    """What the connectors sent, and what the database says of the same changes."""

    #: By mode and table, in the order in which they were sent.
    records: dict[tuple[str, str], list[Row]]
    #: The rows that were there before the connectors started.
    initial: dict[str, list[Row]]
    record: dict[str, Record]
    schemas: list[Row]


def told_by(modes: list[Mode], folder: Path) -> Told:
    """Change a database while connectors read it, are asked for snapshots, stop and break."""
    with postgres.running_server() as server:
        workload = Workload(1, [*TABLES], COLUMNS)
        server.run(definition() + workload.load(40) + old_days(0))
        initial = {table: list(record(server, table).rows.values()) for table in TABLES}
        server.run("truncate record;")
        tables = [*TABLES, "old_days"]
        connectors = Connectors(server, modes, folder, tables)
        happen(connectors, workload, tables, old_days(100))
        return Told(
            {
                (mode.name, table): connectors.records(mode, table)
                for mode in modes
                for table in tables
            },
            initial,
            {table: record(server, table) for table in TABLES},
            connectors.schemas(),
        )


def happen(connectors: Connectors, workload: Workload, tables: list[str], also: str = "") -> None:
    """Let everything happen to connectors that may."""
    server = connectors.server
    connectors.start()
    try:
        connectors.catch_up()
        server.run(workload.changes(100) + also)
        workload.interleaved(server, 5)
        # The snapshot meets changes, a connector that stops, and one that breaks.
        for table in tables:
            connectors.snapshot(table)
        server.run(workload.changes(60))
        connectors.stop()
        server.run(workload.changes(30))
        connectors.start()
        server.run(workload.changes(30))
        connectors.catch_up()
        connectors.forget()
        server.run(workload.changes(30))
        connectors.catch_up()
        connectors.kill()
        connectors.start()
        server.run(workload.changes(30))
        connectors.catch_up()
        connectors.snapshots_done()
        connectors.catch_up()
    finally:
        connectors.kill()
