"""`afterimage init`: from landed tables of no fixture to models that build."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

import qlik_messages
import registry_messages
from command_line import environment
from conftest import FORMAT, ROOT, DbtError, Lake, Project, inside
from dbt_afterimage import cli
from dbt_afterimage.commands.init import PACKAGE, add
from dbt_afterimage.runtime import files
from dbt_afterimage.runtime.project import Project as Opened
from dbt_afterimage.runtime.project import Where
from dbt_afterimage.scaffold import drafts
from dbt_afterimage.scaffold.entries import Entry
from dialect_netiq import LOG
from dialect_qlik import HEADER
from ends import interrupted
from pages import FENCED, page
from qlik_messages import column

AT = datetime(2024, 5, 1, 8, 0)
Row = dict[str, Any]


def mask(*places: int) -> bytes:
    """Return a change mask of Qlik: bit k is column k, counted from 0 with the header."""
    number = sum(1 << place for place in places)
    return number.to_bytes(-(-number.bit_length() // 8), "little")


def change_seq(number: int) -> str:
    return f"2024050108000000{number:019d}"


@dataclass
class Landed:
    """A landed table, what `afterimage init` is told of it, and what has to come out."""

    tables: dict[str, tuple[dict[str, str], list[Row]]]
    command: list[str]
    recognised: str
    history: str
    versions: list[tuple[Any, ...]]
    guess: str | None = None
    columns: str = ""
    told: list[str] = field(default_factory=list)
    has_odd_rows: bool = False


# Another header prefix, five header columns, a key that is not the first column, and columns that
# have names of ours: one of the history's, and the key one of the audit's.
FORMAT_OF_TARGET = (
    "{{ target.name if target.name in ['parquet', 'delta']"
    " else env_var('AFTERIMAGE_FORMAT', 'iceberg') }}"
)

POLICIES = Landed(
    tables={
        "policies__ct": (
            {
                "cdc_change_seq": "string",
                "cdc_change_oper": "string",
                "cdc_change_mask": "binary",
                "cdc_transaction_id": "string",
                "cdc_timestamp": "timestamp",
                "holder": "string",
                "change_id": "int",
                "version": "int",
                "yes": "string",
            },
            [
                {
                    "cdc_change_seq": change_seq(number),
                    "cdc_change_oper": oper,
                    "cdc_change_mask": flagged,
                    "cdc_timestamp": AT,
                    "holder": holder,
                    "change_id": key,
                    "version": version,
                }
                for number, oper, flagged, holder, key, version in [
                    (1, "I", mask(5, 6, 7), "Ann", 70, 1),
                    (2, "U", mask(5), "Ann B.", 70, 1),
                    (3, "I", mask(5, 6, 7), "Cid", 71, 4),
                    (4, "D", mask(6), "Cid", 71, 4),
                ]
            ],
        )
    },
    command=["landing.policies__ct"],
    recognised="landing.policies__ct is a Qlik change table: it has 5 of 7 signs",
    guess="key: change_id, guessed from the change masks of 1 deletes",
    history="policies_history",
    columns="change_id, holder, version, history_version",
    versions=[(70, "Ann", 1, 1), (70, "Ann B.", 1, 2), (71, "Cid", 4, 1)],
)


def data_message(operation: str, number: int, data: Row, **more: Any) -> Row:
    """Return the body of a data message."""
    headers = qlik_messages.headers(
        operation,
        changeSequence=change_seq(number),
        timestamp="2024-05-01T08:00:00.000",
        **more,
    )
    return {"data": data, "beforeData": None, "headers": headers}


def message(operation: str, number: int, data: Row, **more: Any) -> Row:
    body = data_message(operation, number, data, **more)
    return {"value": qlik_messages.json_message("DT", body), "topic": "fleet"}


KAFKA = {"value": "string", "topic": "string"}
# The key's columns in another order than the table's.
VANS = [column("MODEL", "STRING"), column("NUMBER", "INT4", key=2)]
VANS += [column("COUNTRY", "STRING", key=1)]
TRUCK_ID = column("ID", "INT4", key=1)

TRUCKS = Landed(
    tables={
        "fleet": (
            KAFKA,
            [
                message("INSERT", 1, {"ID": 1, "PLATE": "AB"}, externalSchemaId="TRUCKS-1"),
                message(
                    "INSERT",
                    2,
                    {"MODEL": "a", "NUMBER": 5, "COUNTRY": "nl"},
                    externalSchemaId="VANS-1",
                    changeMask="07",
                ),
                message(
                    "UPDATE",
                    3,
                    {"MODEL": "b", "NUMBER": 5, "COUNTRY": "nl"},
                    externalSchemaId="VANS-1",
                    changeMask="01",
                ),
            ],
        ),
        "fleet_schemas": (
            {"value": "string"},
            [
                qlik_messages.metadata("json", "VANS-1", "VANS", 1, VANS),
                qlik_messages.metadata("json", "TRUCKS-1", "TRUCKS", 1, [TRUCK_ID]),
            ],
        ),
    },
    command=["landing.fleet", "--metadata", "landing.fleet_schemas", "--table", "VANS"],
    recognised="landing.fleet is a landing of Qlik or Talend messages on Kafka:"
    " it has 3 of 7 signs",
    guess="key: COUNTRY, NUMBER, guessed from primaryKeyPosition",
    history="vans_history",
    columns="COUNTRY, NUMBER, MODEL, version",
    versions=[("nl", 5, "a", 1), ("nl", 5, "b", 2)],
)

# As Avro, with the structure of the table in the same topic.
ENGINES = [column("NO", "INT4", key=1), column("POWER", "NUMERIC", 6, 2)]


def avro_row(operation: str, number: int, data: Row, mask: str) -> Row:
    body = data_message(operation, number, data, changeMask=mask, externalSchemaId="ENGINES-1")
    schema = qlik_messages.data_schema(ENGINES)
    return {"value": qlik_messages.avro_message("DT", schema, body, "ENGINES-1")}


AVRO = Landed(
    tables={
        "engine_topic": (
            {"value": "binary", "topic": "string"},
            [
                avro_row("INSERT", 1, {"NO": 7, "POWER": Decimal("90.50")}, "03"),
                avro_row("UPDATE", 2, {"NO": 7, "POWER": Decimal("91.00")}, "02"),
                avro_row("INSERT", 3, {"NO": 8, "POWER": Decimal("66.00")}, "03"),
                avro_row("DELETE", 4, {"NO": 8, "POWER": Decimal("66.00")}, "01"),
                qlik_messages.metadata("avro", "ENGINES-1", "ENGINES", 1, ENGINES),
            ],
        ),
    },
    has_odd_rows=True,
    command=["landing.engine_topic"],
    recognised="landing.engine_topic is a landing of Qlik or Talend messages on Kafka:"
    " it has 3 of 7 signs",
    guess="key: NO, guessed from primaryKeyPosition",
    history="engines_history",
    columns="`NO`, cast(POWER as string), version",
    versions=[(7, "90.50", 1), (7, "91.00", 2), (8, "66.00", 1)],
)

METERS = Landed(
    tables={
        "meters_messages": (
            KAFKA,
            [
                message("INSERT", 1, {"ID": 8, "READING": 1.5, "ON": True}, changeMask="07"),
                message("UPDATE", 2, {"ID": 8, "READING": 2, "ON": None}, changeMask="06"),
                message("INSERT", 3, {"ID": 9, "READING": 3, "ON": True}, changeMask="07"),
                message("DELETE", 4, {"ID": 9, "READING": 3, "ON": True}, changeMask="01"),
            ],
        ),
    },
    command=["landing.meters_messages"],
    recognised="landing.meters_messages is a landing of Qlik or Talend messages on Kafka",
    guess="key: ID, guessed from changeMask of a DELETE",
    told=["columns: taken from the data of 4 messages"],
    history="meters_history",
    columns="ID, cast(READING as string), `ON`, version",
    versions=[
        (8, "1.5000000000", True, 1),
        (8, "2.0000000000", None, 2),
        (9, "3.0000000000", True, 1),
    ],
)

# Two tables in one topic, whose masks count the columns of their own.
LORRY, TRAM = {"schema": "dbo", "table": "LORRIES"}, {"schema": "dbo", "table": "TRAMS"}
LORRIES = Landed(
    tables={
        "depot_messages": (
            KAFKA,
            [
                message("INSERT", 1, {"LINE": 4, "CARS": 2}, changeMask="03", **TRAM),
                message("INSERT", 2, {"ID": 8, "PLATE": "AB"}, changeMask="03", **LORRY),
                message("UPDATE", 3, {"ID": 8, "PLATE": None}, changeMask="02", **LORRY),
                message("INSERT", 4, {"ID": 9, "PLATE": "CD"}, changeMask="03", **LORRY),
                message("DELETE", 5, {"ID": 9, "PLATE": "CD"}, changeMask="01", **LORRY),
                message("DELETE", 6, {"LINE": 4, "CARS": 2}, changeMask="02", **TRAM),
            ],
        ),
    },
    command=["landing.depot_messages", "--table", "dbo.LORRIES"],
    recognised="landing.depot_messages is a landing of Qlik or Talend messages on Kafka",
    guess="key: ID, guessed from changeMask of a DELETE",
    told=["columns: taken from the data of 4 messages"],
    history="lorries_history",
    columns="ID, PLATE, version",
    versions=[(8, "AB", 1), (8, None, 2), (9, "CD", 1)],
)


def event(record: int, kind: int, table: str, key: str, column: str | None, *values: Any) -> Row:
    old, new = values or (None, None)
    return {
        "record_id": record,
        "status": "N",
        "event_type": kind,
        "event_time": AT,
        "perpetrator": "APP",
        "table_name": table,
        "table_key": key,
        "column_name": column,
        "old_value": old,
        "new_value": new,
    }


BADGES = Landed(
    tables={
        "idm_events": (
            LOG,
            [
                event(1, 1, "BADGE", "site=3+badge_no=12", "color", None, "red"),
                event(2, 1, "DOOR", "id=1", "name", None, "front"),
                event(3, 2, "BADGE", "site=3+badge_no=12", "color", "red", "blue"),
                event(4, 1, "BADGE", "site=3+badge_no=13", "color", None, "grey"),
                event(5, 4, "BADGE", "site=3+badge_no=13", None),
            ],
        ),
        "badge": (
            {"site": "smallint", "badge_no": "int", "color": "string"},
            [{"site": 3, "badge_no": 12, "color": "blue"}],
        ),
    },
    command=["landing.idm_events", "--table", "badge", "--base", "landing.badge"],
    recognised="landing.idm_events is an Identity Manager JDBC event log: it has 10 of 10 signs",
    guess="key: site, badge_no, guessed from table_key of 4 events",
    history="badge_history",
    columns="site, badge_no, color, version",
    versions=[(3, 12, "red", 1), (3, 12, "blue", 2), (3, 13, "grey", 1)],
)

LOANS = Landed(
    tables={
        "cd_loans": (
            {
                "IBMSNAP_COMMITSEQ": "string",
                "IBMSNAP_INTENTSEQ": "string",
                "IBMSNAP_OPERATION": "string",
                "LOAN": "int",
                "RATE": "double",
                "XRATE": "double",
            },
            [
                {
                    "IBMSNAP_COMMITSEQ": f"{commit:020X}",
                    "IBMSNAP_INTENTSEQ": f"{commit + 900:020X}",
                    "IBMSNAP_OPERATION": operation,
                    "LOAN": 4,
                    "RATE": rate,
                    "XRATE": before,
                }
                for commit, operation, rate, before in [(1, "I", 1.5, None), (2, "U", 1.75, 1.5)]
            ],
        ),
        "uow": (
            {"IBMSNAP_COMMITSEQ": "string", "IBMSNAP_LOGMARKER": "timestamp"},
            [{"IBMSNAP_COMMITSEQ": f"{commit:020X}", "IBMSNAP_LOGMARKER": AT} for commit in (1, 2)],
        ),
    },
    command=["landing.cd_loans", "--key", "LOAN", "--uow", "landing.uow"],
    recognised="landing.cd_loans is a Db2 CD or CCD table: it has 3 of 3 signs",
    history="loans_history",
    columns="LOAN, RATE, version, valid_from",
    versions=[(4, 1.5, 1, AT), (4, 1.75, 2, AT)],
)

BOOKS = Landed(
    tables={
        "books_index_log": (
            {"OPERATION": "int", "TIME": "timestamp", "PK01": "string", "PK02": "int"},
            [
                {"OPERATION": 0, "TIME": AT, "PK01": "x", "PK02": 1},
                {"OPERATION": 2, "TIME": AT, "PK01": "x", "PK02": 2},
            ],
        ),
        "books": (
            {"EDITION": "int", "ISBN": "string", "TITLE": "string"},
            [
                {"EDITION": 1, "ISBN": "x", "TITLE": "One"},
                {"EDITION": 1, "ISBN": "y", "TITLE": "Two"},
            ],
        ),
    },
    command=["landing.books_index_log", "--base", "landing.books"],
    recognised="landing.books_index_log is the log table of a Db2 text index: it has 3 of 3 signs",
    guess="key: ISBN, EDITION, guessed from the types of PKnn",
    history="books_history",
    columns="ISBN, EDITION, TITLE, version",
    versions=[("x", 1, "One", 1)],
)

OPENEDGE = {"_Tran-Id": "int", "_Time-Stamp": "timestamp", "_Change-Sequence": "bigint"}
CRATES = Landed(
    tables={
        "CDC_Crate": (
            {
                **OPENEDGE,
                "_Continuation-Position": "int",
                "_ArrayIndex": "int",
                "_Fragment": "int",
                "_Operation": "int",
                "Crate-Num": "int",
                "Crate_Num": "string",
                "Load": "int",
            },
            [
                {
                    "_Tran-Id": 1,
                    "_Time-Stamp": AT,
                    "_Change-Sequence": sequence,
                    "_Continuation-Position": 0,
                    "_ArrayIndex": 0,
                    "_Fragment": 0,
                    "_Operation": operation,
                    "Crate-Num": 6,
                    "Load": load,
                }
                for sequence, operation, load in [(1, 1, 10), (2, 3, 10), (2, 4, 20)]
            ],
        ),
        "tracking": (
            {
                **OPENEDGE,
                "_Policy-Id": "string",
                "_Operation": "int",
                "_Change-FieldMap": "string",
                "_Source-Table-Number": "int",
            },
            [
                {
                    "_Tran-Id": 1,
                    "_Time-Stamp": AT,
                    "_Change-Sequence": sequence,
                    "_Operation": operation,
                    "_Source-Table-Number": 31,
                }
                for sequence, operation in [(1, 1), (2, 4)]
            ],
        ),
    },
    command=[
        *("landing.CDC_Crate", "--key", "Crate-Num", "--tracking", "landing.tracking"),
        *("--arguments", '{"source_table_number": 31}'),
    ],
    recognised="landing.CDC_Crate is an OpenEdge change table: it has 7 of 7 signs",
    history="crate_history",
    columns="`Crate-Num`, Load, version",
    versions=[(6, 10, 1), (6, 20, 2)],
)


SQLSERVER = {"__$start_lsn": "binary", "__$seqval": "binary", "__$operation": "int"}
LEASES = Landed(
    tables={
        "dbo_leases_CT": (
            {**SQLSERVER, "__$update_mask": "binary", "lease": "int", "rent": "int"},
            [
                {
                    "__$start_lsn": number.to_bytes(10, "big"),
                    "__$seqval": number.to_bytes(10, "big"),
                    "__$operation": operation,
                    "__$update_mask": mask,
                    "lease": 3,
                    "rent": rent,
                }
                for number, operation, mask, rent in [
                    (1, 2, b"\x03", 10),
                    (2, 3, b"\x02", 10),
                    (2, 4, b"\x02", 20),
                ]
            ],
        ),
        "lsn_times": (
            {"start_lsn": "binary", "tran_end_time": "timestamp"},
            [{"start_lsn": n.to_bytes(10, "big"), "tran_end_time": AT} for n in (1, 2)],
        ),
    },
    command=["landing.dbo_leases_CT", "--key", "lease", "--lsn-times", "landing.lsn_times"],
    recognised="landing.dbo_leases_CT is a SQL Server change table: it has 4 of 6 signs",
    history="leases_history",
    columns="lease, rent, version, valid_from",
    versions=[(3, 10, 1, AT), (3, 20, 2, AT)],
)

PARCEL = {"Op": "string", "dms_time": "string", "parcel": "int", "weight": "int"}
PARCELS = Landed(
    tables={
        "pallets": (
            {**PARCEL, "BI_parcel": "int", "AR_H_CHANGE_SEQ": "string"},
            [
                {
                    "Op": operation,
                    "dms_time": f"{AT:%Y-%m-%d %H:%M:%S}.000000",
                    "parcel": parcel,
                    "weight": weight,
                    "BI_parcel": before,
                    "AR_H_CHANGE_SEQ": number and change_seq(number),
                }
                for number, operation, parcel, weight, before in [
                    (None, None, 3, 10, None),
                    (1, "U", 4, 20, 3),
                    (2, "U", 4, 30, 4),
                ]
            ],
        ),
    },
    command=["landing.pallets"],
    recognised="landing.pallets is a table of AWS DMS: it has 3 of 3 signs",
    guess="key: parcel, guessed from the before-images, which have only the key by default.",
    told=[
        "time: dms_time, texts like DMS's timestamps behind Op. Check it.",
        "landing.pallets has updates, but no delete. A task with CdcInsertsOnly",
    ],
    history="pallets_history",
    columns="parcel, weight, version, valid_from",
    versions=[(3, 10, 1, AT), (4, 20, 1, AT), (4, 30, 2, AT)],
)


def debezium_message(place: int, operation: str, before: Row | None, after: Row | None) -> Row:
    """Return the payload of a message."""
    source = {"ts_ms": 1714550400000 + place, "db": "d", "table": "ferries", "file": "b.1"}
    source |= {"pos": place, "snapshot": "false"}
    return {"op": operation, "before": before, "after": after, "source": source}


def ferry_message(place: int, operation: str, before: Row | None, after: Row | None) -> Row:
    fields = [
        {"field": "ferry", "type": "int32"},
        {
            "field": "fare",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            # More than a decimal of Spark has.
            "parameters": {"scale": "2", "connect.decimal.precision": "50"},
        },
        {"field": "seen", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    ]
    schema = {
        "fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]
    }
    payload = debezium_message(place, operation, before, after)
    return {
        "key": json.dumps({"schema": {"type": "struct"}, "payload": {"ferry": 5}}),
        "value": json.dumps({"schema": schema, "payload": payload}),
        "partition": 0,
        "offset": place,
    }


FERRIES = Landed(
    tables={
        "d_ferries": (
            {"key": "string", "value": "string", "partition": "int", "offset": "bigint"},
            [
                ferry_message(1, "c", None, {"ferry": 5, "fare": "BOI=", "seen": 0}),
                ferry_message(
                    2,
                    "u",
                    {"ferry": 5, "fare": "BOI=", "seen": 0},
                    {"ferry": 5, "fare": "ASw=", "seen": 1000000},
                ),
                ferry_message(3, "d", {"ferry": 5, "fare": "ASw=", "seen": 1000000}, None),
                # The tombstone behind it.
                {**ferry_message(4, "d", None, None), "value": None},
            ],
        ),
    },
    command=["landing.d_ferries"],
    recognised="landing.d_ferries is a landing of Debezium messages on Kafka: it has 5 of 8 signs",
    guess="key: ferry, guessed from the keys of the messages",
    told=["fare: decimal(38,2), as a decimal of Spark has at most 38 digits"],
    history="ferries_history",
    columns="ferry, cast(fare as string), cast(seen as string), version",
    versions=[(5, "12.50", "1970-01-01 00:00:00", 1), (5, "3.00", "1970-01-01 00:00:01", 2)],
)

BARGE_KEY = registry_messages.record("Key", {"barge": "int"})
BARGES_ENVELOPE = registry_messages.envelope(
    {
        "barge": "int",
        "fare": ["null", registry_messages.decimal(6, 2)],
        "seen": ["null", registry_messages.logical("long", "io.debezium.time.MicroTimestamp")],
    },
    {"version": "string", "ts_ms": "long", "db": "string", "table": "string"}
    | {"file": "string", "pos": "long", "row": "int", "snapshot": "string"},
)


def barge_message(place: int, operation: str, before: Row | None, after: Row | None) -> Row:
    change = debezium_message(place, operation, before, after)
    change["source"] |= {"version": "2.7.3.Final", "table": "barges", "row": 0}
    return {
        "key": registry_messages.framed(1, BARGE_KEY, {"barge": 5}),
        "value": registry_messages.framed(2, BARGES_ENVELOPE, {**change, "transaction": None}),
        "partition": 0,
        "offset": place,
    }


BARGES = Landed(
    tables={
        "d_barges": (
            {"key": "binary", "value": "binary", "partition": "int", "offset": "bigint"},
            [
                barge_message(1, "c", None, {"barge": 5, "fare": Decimal("12.50"), "seen": 0}),
                barge_message(
                    2,
                    "u",
                    {"barge": 5, "fare": Decimal("12.50"), "seen": 0},
                    {"barge": 5, "fare": Decimal("3.00"), "seen": 1000000},
                ),
            ],
        ),
        "d_schemas": (
            {"id": "int", "schema": "string"},
            [
                {"id": 1, "schema": json.dumps(BARGE_KEY)},
                {"id": 2, "schema": json.dumps(BARGES_ENVELOPE)},
            ],
        ),
    },
    command=["landing.d_barges", "--metadata", "landing.d_schemas"],
    recognised="landing.d_barges is a landing of Debezium messages on Kafka: it has 5 of 8 signs",
    guess="key: barge, guessed from the keys of the messages",
    history="barges_history",
    columns="barge, cast(fare as string), cast(seen as string), version",
    versions=[(5, "12.50", "1970-01-01 00:00:00", 1), (5, "3.00", "1970-01-01 00:00:01", 2)],
)


def without_models(make_project: Callable[[str], Project], spark: SparkSession) -> Project:
    """Make a project, and the schema of landed tables."""
    project = make_project("scaffold")
    (project.folder / "profiles.yml").symlink_to("profiles/profiles.yml")
    shutil.copytree(ROOT / "models" / "docs", project.folder / "models" / "docs")
    spark.sql("create namespace if not exists landing")
    return project


@pytest.fixture
def empty(
    make_project: Callable[[str], Project], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project of one test alone, and the folder that commands run in."""
    project = without_models(make_project, spark)
    monkeypatch.chdir(project.folder)
    return project


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], spark: SparkSession) -> Iterator[Project]:
    """A project, and the folder that commands run in."""
    project = without_models(make_project, spark)
    with inside(project.folder):
        yield project


def land_table(
    lake: Lake, name: str, columns: dict[str, str], rows: list[Row], schema: str = "landing"
) -> None:
    lake.spark.sql(f"create namespace if not exists {schema}")
    frame = lake.frame(columns, rows)
    frame.writeTo(f"{schema}.{name}").using(FORMAT).createOrReplace()


def land(lake: Lake, landed: Landed) -> None:
    for name, (columns, rows) in landed.tables.items():
        land_table(lake, name, columns, rows)


class Init:
    """`afterimage init`, run in the project."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit code, and what it printed."""
        self._capsys.readouterr()
        code = cli.main(["init", *arguments])
        output = self._capsys.readouterr()
        # What is being done is said on stderr too.
        errors = [line for line in output.err.splitlines() if "reading the dbt project" not in line]
        return code, output.out, "\n".join(errors)

    def ok(self, *arguments: str) -> str:
        """Return what a command prints that must succeed."""
        code, output, errors = self(*arguments)
        assert (code, errors) == (0, "")
        return output

    def refused(self, *arguments: str) -> str:
        """Return the error of a command that must fail."""
        code, _, error = self(*arguments)
        assert code == 1
        return error


@pytest.fixture
def init(project: Project, capsys: pytest.CaptureFixture[str]) -> Init:
    return Init(capsys)


def counts(results: Any) -> list[str]:
    """Return what came of the tests that count landed rows."""
    tests = [result for result in results if result.node.resource_type == "test"]
    is_count = "every_row_accounted_for"
    return [str(one.status) for one in tests if one.node.test_metadata.name == is_count]


def check(landed: Landed, project: Project, lake: Lake, init: Init) -> None:
    """Land the tables, write the models, build them as they are, and look at the history."""
    land(lake, landed)
    output = init.ok(*landed.command)
    assert landed.recognised in output
    for told in [*landed.told, *([landed.guess] if landed.guess else [])]:
        assert told in output
    next_step = output.strip().splitlines()[-1]
    assert next_step.startswith("Next: dbt build --select stg_")

    results = project.dbt("build", *next_step.removeprefix("Next: dbt build ").split())
    assert ("warn" in [str(result.status) for result in results]) == landed.has_odd_rows
    assert {*counts(results)} <= {"pass"}
    rows = lake.rows(
        f"select {landed.columns} from afterimage.{landed.history}"
        f" order by {landed.columns.split(', version')[0]}, 1"
    )
    assert sorted((tuple(row.values()) for row in rows), key=repr) == sorted(
        landed.versions, key=repr
    )


@pytest.mark.slow
def test_table_that_no_fixture_has_becomes_models_that_build_as_they_are(
    project: Project, lake: Lake, init: Init
) -> None:
    check(POLICIES, project, lake, init)
    current = (project.folder / "models/current/policies_current.sql").read_text()
    assert "meta_column_names={'version': 'history_version'}" in current
    assert lake.rows("select change_id, holder from afterimage.policies_current") == [
        {"change_id": 70, "holder": "Ann B."}
    ]
    audited = lake.rows("select change_id, audit_change_id from afterimage.policies_audit")
    assert {row["change_id"] for row in audited} == {70, 71}
    assert all(row["audit_change_id"].startswith("2024050108") for row in audited)


@pytest.mark.slow
def test_models_are_of_the_format_of_the_target_unless_another_is_asked_for(
    empty: Project, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    init = Init(capsys)
    land(lake, POLICIES)
    init.ok("landing.policies__ct", "--name", "own")
    models = empty.folder / "models"
    for kind in ("history", "audit"):
        assert f"file_format='{FORMAT}'" in (models / kind / f"own_{kind}.sql").read_text()
    staging = models / "staging" / "qlik" / "stg_qlik__own.sql"
    assert f"file_format='{FORMAT}'" in staging.read_text()
    # Iceberg's catalog on a disk has no views, and each build of a table keeps the one before.
    config = (
        "materialized='view'"
        if FORMAT == "delta"
        else "materialized='table', post_hook='{{ afterimage.expire_snapshots() }}'"
    )
    current = (models / "current" / "own_current.sql").read_text()
    assert f"config({config})" in current
    assert "file_format" not in (empty.folder / "afterimage.yml").read_text()
    shutil.rmtree(models)
    (empty.folder / "afterimage.yml").unlink()
    init.ok("landing.policies__ct", "--file-format", "hudi")
    assert "file_format='hudi'" in (models / "history" / "policies_history.sql").read_text()


@pytest.mark.slow
def test_a_change_table_without_a_prefix_is_recognised(
    project: Project, lake: Lake, init: Init
) -> None:
    header = ("change_seq", "change_oper", "change_mask", "stream_position", "operation")
    columns = dict.fromkeys(header, "string") | {
        "change_mask": "binary",
        "transaction_id": "string",
        "timestamp": "timestamp",
        "name": "string",
        "id": "int",
    }
    delete = dict(zip(header, [change_seq(1), "D", mask(8), "0000012f:1", "DELETE"], strict=True))
    land_table(lake, "bare__ct", columns, [{**delete, "name": "Ann", "id": 1}])
    output = init.ok("landing.bare__ct")
    assert "landing.bare__ct is a Qlik change table: it has 7 of 7 signs" in output
    assert "key: id, guessed" in output
    staging = (project.folder / "models/staging/qlik/stg_qlik__bare.sql").read_text()
    assert "header_prefix=''" in staging
    project.dbt("run", "--select", "stg_qlik__bare")
    assert lake.rows("select before, changed_columns from afterimage.stg_qlik__bare") == [
        {"before": {"name": "Ann", "id": 1}, "changed_columns": None}
    ]


@pytest.mark.minutes
@pytest.mark.parametrize(
    "landed",
    [TRUCKS, AVRO, METERS, LORRIES, BADGES, LOANS, BOOKS, CRATES, LEASES, PARCELS, FERRIES, BARGES],
    ids=[
        *(
            "metadata",
            "avro",
            "messages",
            "messages of two tables",
            "event log",
            "cd",
            "text index",
            "openedge",
        ),
        *("sql server", "dms", "debezium", "debezium in avro"),
    ],
)
def test_every_system_builds_as_it_is(
    landed: Landed, project: Project, lake: Lake, init: Init
) -> None:
    check(landed, project, lake, init)


@pytest.mark.minutes
def test_table_may_be_named_with_its_catalog(project: Project, lake: Lake, init: Init) -> None:
    named = replace(
        POLICIES,
        tables={"covers__ct": POLICIES.tables["policies__ct"]},
        command=["lake.landing.covers__ct"],
        recognised=POLICIES.recognised.replace("landing.policies", "lake.landing.covers"),
        history="covers_history",
    )
    check(named, project, lake, init)


def test_columns_that_a_query_puts_before_those_of_sqlserver_are_no_data(
    project: Project, lake: Lake, init: Init
) -> None:
    header = SQLSERVER | {"__$update_mask": "binary"}
    rows = [
        {"committed_at": AT, **LEASES.tables["dbo_leases_CT"][1][0], "__$committed": AT},
    ]
    columns = {"committed_at": "timestamp", **header, "lease": "int", "rent": "int"}
    land_table(lake, "dbo_timed_leases_CT", columns | {"__$committed": "timestamp"}, rows)
    output = init.ok("landing.dbo_timed_leases_CT", "--key", "lease")
    assert "columns: without committed_at, which stand before __$start_lsn" in output
    staging = project.folder / "models/staging/sqlserver/stg_sqlserver__timed_leases.sql"
    assert "columns=['lease', 'rent']" in staging.read_text()

    del columns["__$seqval"], columns["committed_at"]
    land_table(lake, "dbo_net_leases_CT", columns, [])
    error = init.refused("landing.dbo_net_leases_CT", "--key", "lease")
    assert "has no column __$seqval: these are net changes" in error


def test_files_of_dms_without_an_order_ask_for_one(
    project: Project, lake: Lake, init: Init
) -> None:
    rows = [{"Op": "I", "parcel": 1}, {"Op": "U", "parcel": 1}]
    land_table(lake, "unordered_parcels", PARCEL, rows)
    _, output, errors = init("landing.unordered_parcels", "--key", "parcel")
    assert "so nothing gives the order of its changes. Name the columns that do" in output + errors
    output = init.ok(
        *("landing.unordered_parcels", "--key", "parcel"),
        *("--arguments", '{"order_by": ["weight"], "time": "dms_time"}'),
    )
    assert "a table of AWS DMS: it has 1 of 3 signs" in output
    staging = (project.folder / "models/staging/dms/stg_dms__unordered_parcels.sql").read_text()
    assert "order_by=['weight'],\n    time='dms_time'" in staging

    # Amazon's manual calls both the sequence and a stream position `transact_id`.
    columns = PARCEL | {"transact_id": "string", "position": "string"}
    rows = [
        {"Op": "I", "parcel": 1, "transact_id": "", "position": ""},
        {"Op": "U", "parcel": 1, "transact_id": change_seq(1), "position": "0000002c:0003"},
    ]
    land_table(lake, "named_parcels", columns, rows)
    output = init.ok("landing.named_parcels", "--key", "parcel")
    assert "order_by: transact_id, the 35 digits of $AR_H_CHANGE_SEQ. Check it." in output
    assert "IncludeOpForFullLoad" not in output
    staging = (project.folder / "models/staging/dms/stg_dms__named_parcels.sql").read_text()
    assert "order_by=['transact_id']" in staging
    rows[1]["transact_id"] = rows[1]["position"]
    land_table(lake, "placed_parcels", columns, rows)
    error = init.refused("landing.placed_parcels", "--key", "parcel")
    assert "no column with the 35 digits of $AR_H_CHANGE_SEQ in each change" in error
    # As CdcInsertsAndUpdates writes changes without IncludeOpForFullLoad.
    uncoded = {"parcel": "int", "transact_id": "string"}
    rows = [{"parcel": 1, "transact_id": place} for place in ("", change_seq(1))]
    land_table(lake, "uncoded_parcels", uncoded, rows)
    output = init.ok("landing.uncoded_parcels", "--key", "parcel", "--system", "dms_changes")
    assert "rows with a value of $AR_H_CHANGE_SEQ count as updates" in output
    staging = (project.folder / "models/staging/dms/stg_dms__uncoded_parcels.sql").read_text()
    assert "order_by=['transact_id']" in staging


@pytest.mark.slow
def test_a_key_that_fits_the_log_of_a_text_index_by_chance_is_refused(
    lake: Lake, init: Init
) -> None:
    """Both columns have the type of both PKnn, and the base has them in the other order."""
    lines = [(7, 1), (8, 1), (9, 2), (1, 1)]
    log = {"OPERATION": "int", "TIME": "timestamp", "PK01": "int", "PK02": "int"}
    logged = [{"OPERATION": 0, "TIME": AT, "PK01": order, "PK02": line} for order, line in lines]
    land_table(lake, "lines_index_log", log, logged)
    base = {"LINE_NO": "int", "ORDER_ID": "int", "NOTE": "string"}
    rows = [{"LINE_NO": line, "ORDER_ID": order} for order, line in lines]
    land_table(lake, "order_lines", base, rows)
    command = ("landing.lines_index_log", "--base", "landing.order_lines")
    error = init.refused(*command)
    assert "LINE_NO, ORDER_ID would fit by type, but not by the rows" in error
    # In the order of the log they fit, though a row was deleted since.
    land_table(lake, "order_lines", {"ORDER_ID": "int", "LINE_NO": "int"}, rows[1:])
    land_table(lake, "lines_index_log", log, [*logged, {**logged[0], "OPERATION": 2}])
    assert "key: ORDER_ID, LINE_NO, guessed from the types of PKnn" in init.ok(*command)


@pytest.mark.slow
def test_inserts_of_dms_that_may_be_of_the_full_load_have_a_note(lake: Lake, init: Init) -> None:
    """IncludeOpForFullLoad writes I. Only a sequence, which such a row lacks, tells them apart."""
    said = "has inserts, but no row without an operation, and its order is not $AR_H_CHANGE_SEQ."
    created = {"Op": "I", "dms_time": "2024-05-01 10:03:00.000000", "parcel": 1}
    loaded = {**created, "Op": "", "parcel": 2}
    sequence = {"AR_H_CHANGE_SEQ": "string"}
    by_time = ["--arguments", '{"order_by": ["dms_time"], "time": "dms_time"}']
    tables: dict[str, tuple[dict[str, str], list[Row], list[str], bool]] = {
        "all_inserts": (PARCEL, [created], by_time, True),
        "with_loads": (PARCEL, [created, loaded], by_time, False),
        "with_sequence": (PARCEL | sequence, [created], [], False),
    }
    for name, (columns, rows, arguments, is_noted) in tables.items():
        land_table(lake, name, columns, rows)
        output = init.ok(f"landing.{name}", "--key", "parcel", *arguments)
        assert (said in output) == is_noted, name
        assert ("UseTaskStartTimeForFullLoadTimestamp" in output) == is_noted, name


@pytest.mark.slow
def test_the_text_null_in_files_of_dms_has_a_note(lake: Lake, init: Init) -> None:
    """A task writes it into CSV files in place of NULL, unless it has a CsvNullValue."""
    columns = {"Op": "string", "parcel": "int", "weight": "string", "note": "string"}
    columns |= {"label": "string", "AR_H_CHANGE_SEQ": "string"}
    rows = [
        parcel_row(1, "I", parcel=1, weight="NULL", note="NULL", label="null"),
        parcel_row(2, "U", parcel=1, weight="7", note=None),
    ]
    said = "have the text NULL. "
    for name, landed, is_noted in (("null_texts", rows, True), ("no_null_texts", rows[1:], False)):
        land_table(lake, name, columns, landed)
        output = init.ok(f"landing.{name}", "--key", "parcel")
        assert (f"weight, note {said}" in output, said in output) == (is_noted, is_noted)


@pytest.mark.slow
def test_a_part_of_a_message_key_is_no_key(lake: Lake, init: Init) -> None:
    """A connector may leave a column of the key out of the rows: two rows look like one."""
    rows = []
    for place, tenant in enumerate((1, 2)):
        payload = debezium_message(place, "c", None, {"quay": 5, "name": "a"})
        rows.append(
            {"key": json.dumps({"tenant": tenant, "quay": 5}), "value": json.dumps(payload)}
        )
    land_table(lake, "d_halves", {"key": "string", "value": "string"}, rows)
    error = init.refused("landing.d_halves")
    assert "the keys of the messages have tenant, which no row has" in error


@pytest.mark.slow
def test_flattened_rows_without_the_kind_of_snapshot_have_a_note(lake: Lake, init: Init) -> None:
    row = {"quay": 5, "__op": "r", "__deleted": "false", "__source_sequence": '[null,"30"]'}
    said = "flattened rows: they do not have source.snapshot."
    for name, more in (("d_flat", {}), ("d_told", {"__source_snapshot": "true"})):
        message = {"key": '{"quay": 5}', "value": json.dumps(row | more)}
        land_table(lake, name, {"key": "string", "value": "string"}, [message])
        assert (said in init.ok(f"landing.{name}")) == (not more)


@pytest.mark.slow
def test_lines_of_json_are_messages_and_a_decimal_of_any_scale_is_a_key(
    project: Project, lake: Lake, init: Init, tmp_path: Path
) -> None:
    """As the S3 sink writes messages of Oracle, where a NUMBER has its scale beside it."""
    five, nine = {"scale": 0, "value": "BQ=="}, {"scale": 1, "value": "WQ=="}
    row = {"berth": five, "draught": nine}
    changes = [
        debezium_message(n, "c", None, row | {"berth": b}) for n, b in ((1, five), (2, nine))
    ]
    for change in changes:
        change["source"]["table"] = "berths"
    (tmp_path / "berths.json").write_text("\n".join(map(json.dumps, changes)))
    init.ok(f"text.`{tmp_path / 'berths.json'}`", "--key", "berth")
    staging = "stg_debezium__berths"
    project.dbt("run", "--select", staging)
    found = lake.rows(f"select after.*, reject_reason from afterimage.{staging} order by 1")
    assert [tuple(map(str, one.values())) for one in found] == [
        ("5.0000000000", "8.9000000000", "None"),
        ("8.9000000000", "8.9000000000", "None"),
    ]


def parcel_row(number: int, operation: str, **values: Any) -> Row:
    return {"Op": operation, "AR_H_CHANGE_SEQ": change_seq(number), **values}


@pytest.mark.slow
def test_before_images_of_more_than_the_key_are_not_taken_for_it(lake: Lake, init: Init) -> None:
    """Of all columns but a large object, as DMS writes them on request."""
    parcel = {"Op": "string", "parcel": "int", "weight": "int", "photo": "string"}
    parcel |= {"BI_parcel": "int", "BI_weight": "int", "AR_H_CHANGE_SEQ": "string"}
    rows = [parcel_row(n, "I", parcel=n, weight=10) for n in (1, 2)]
    land_table(lake, "imaged_parcels", parcel, rows)
    said = "with before-images are parcel, weight, and 0 of 0 updates leave all of them as they are"
    assert said in init.refused("landing.imaged_parcels")

    old = {"BI_parcel": 1, "BI_weight": 10}
    rows.append(parcel_row(3, "U", parcel=1, weight=20, **old))
    rows.append(parcel_row(4, "U", parcel=1, weight=30, **old | {"BI_weight": 20}))
    land_table(lake, "imaged_parcels", parcel, rows)
    error = init.refused("landing.imaged_parcels")
    assert said.replace("of 0", "of 2") in error
    assert "Proposed: --key parcel (" in error

    # Large objects alone have changed.
    rows = [parcel_row(5, "U", parcel=1, weight=10, **old), parcel_row(6, "I", parcel=3)]
    land_table(lake, "imaged_parcels", parcel, rows)
    said = "with before-images are parcel, weight, but 1 row has NULL in one of them"
    assert said in init.refused("landing.imaged_parcels")


@pytest.mark.slow
def test_before_images_of_dms_that_landed_as_text(project: Project, lake: Lake, init: Init) -> None:
    """As CSV files without an update land: no before-image has a value, so all are text."""
    columns = {"Op": "string", "AR_H_CHANGE_SEQ": "string", "parcel": "int", "code": "string"}
    columns |= {"BI_parcel": "string", "BI_code": "string"}
    land_table(lake, "text_parcels", columns, [parcel_row(1, "I", parcel=1, code="a")])
    error = init.refused("landing.text_parcels", "--key", "parcel,code")
    said = "it is string and parcel is int. If it is a before-image, land both with one type."
    assert "BI_parcel is no before-image of the key, so key changes would be lost" in error
    assert said in error
    assert f"BI_parcel counts as data, because {said}" in init.ok(
        "landing.text_parcels", "--key", "code"
    )
    staging = project.folder / "models/staging/dms/stg_dms__text_parcels.sql"
    assert "before_prefix='BI_'" in staging.read_text()


@pytest.mark.slow
def test_a_time_of_dms_may_have_landed_as_a_timestamp(
    project: Project, lake: Lake, init: Init
) -> None:
    columns = {"Op": "string", "dms_time": "timestamp", "parcel": "int", "seen": "timestamp"}
    columns |= {"AR_H_CHANGE_SEQ": "string"}
    rows = [parcel_row(1, "I", dms_time=AT, parcel=1, seen=AT)]
    land_table(lake, "timed_parcels", columns, rows)
    output = init.ok("landing.timed_parcels", "--key", "parcel")
    assert "time: dms_time, the timestamp behind Op. Check it." in output
    staging = project.folder / "models/staging/dms/stg_dms__timed_parcels.sql"
    assert "time='dms_time'" in staging.read_text()
    # The model is built by now, and keeps it.
    further = parcel_row(2, "U", dms_time=None, parcel=1, seen=AT)
    land_table(lake, "timed_parcels", columns, [*rows, further])
    init.ok("landing.timed_parcels", "--key", "parcel")
    assert "time='dms_time'" in staging.read_text()

    del columns["dms_time"]
    land_table(lake, "untimed_parcels", columns, [parcel_row(1, "I", parcel=1, seen=AT)])
    output = init.ok("landing.untimed_parcels", "--key", "parcel")
    said = "time: no column behind the operation looks like DMS's timestamps, so rows of the full"
    assert said in output
    assert "time=" not in staging.with_name("stg_dms__untimed_parcels.sql").read_text()

    # It may be the table's own: not the time of the change, or not in each row.
    columns = {"Op": "string", "measured_at": "timestamp", "sensor": "int", "value": "double"}
    columns |= {"AR_H_CHANGE_SEQ": "string"}
    rows = [
        parcel_row(number, operation, measured_at=datetime(2020, 1, 1), sensor=1, value=value)
        for number, operation, value in ((101, "I", 5.0), (102, "U", 6.0))
    ]
    unset = [row | {"measured_at": day} for row, day in zip(rows, (AT, None), strict=True)]
    for name, landed in (("old_readings", rows), ("unset_readings", unset)):
        land_table(lake, name, columns, landed)
        output = init.ok(f"landing.{name}", "--key", "sensor")
        assert f"{said} load have no time. Where measured_at is it (TimestampColumnName)" in output
        assert "time=" not in staging.with_name(f"stg_dms__{name}.sql").read_text()
    # The row without it is gone. The model is built by now.
    land_table(lake, "unset_readings", columns, unset[:1])
    assert "time: measured_at is not used" in init.ok("landing.unset_readings", "--key", "sensor")
    assert "time=" not in staging.with_name("stg_dms__unset_readings.sql").read_text()

    # A text elsewhere may be the table's own.
    columns = {"Op": "string", "parcel": "int", "created_at": "string", "AR_H_CHANGE_SEQ": "string"}
    rows = [parcel_row(1, "I", parcel=1, created_at="2020-05-06 07:08:09.000000")]
    land_table(lake, "created_parcels", columns, rows)
    output = init.ok("landing.created_parcels", "--key", "parcel")
    assert f"{said} load have no time. Where created_at is it (TimestampColumnName)" in output
    written = staging.with_name("stg_dms__created_parcels.sql").read_text()
    assert "time=" not in written


@pytest.mark.slow
def test_a_before_image_of_another_type_is_named(lake: Lake, init: Init) -> None:
    """As CSV files without an update land: no before-image has a value, so all are text."""
    header = {f"IBMSNAP_{name}": "string" for name in ("COMMITSEQ", "INTENTSEQ", "OPERATION")}
    data = {"LOAN": "int", "XLOAN": "string", "NAME": "string", "XNAME": "string"}
    land_table(lake, "first_cd", {**header, **data}, [])
    _, output, _ = init("landing.first_cd", "--key", "LOAN")
    assert "XLOAN counts as data, because it is string and LOAN is int." in output
    assert "XNAME" not in output


@pytest.mark.slow
def test_masks_that_were_loaded_as_numbers_show_the_key(lake: Lake, init: Init) -> None:
    """A seed, or another loader of CSV, takes the mask 10 for a number."""
    columns = {
        "header__change_seq": "string",
        "header__change_oper": "string",
        "header__change_mask": "bigint",
        "header__timestamp": "timestamp",
        "gate": "int",
        "name": "string",
    }
    rows: list[Row] = [
        {"header__change_oper": "I", "header__change_mask": 30, "gate": 1, "name": "a"},
        {"header__change_oper": "D", "header__change_mask": 10, "gate": 1, "name": "a"},
    ]
    for number, row in enumerate(rows):
        row["header__change_seq"] = change_seq(number)
    land_table(lake, "gates__ct", columns, rows)
    code, output, errors = init("landing.gates__ct")
    assert (code, errors) == (0, "")
    assert "key: gate, guessed from the change masks of 1 deletes" in output


@pytest.mark.slow
def test_masks_are_read_in_the_order_of_the_columns_given(
    project: Project, lake: Lake, init: Init
) -> None:
    """The landed table has another order than the source, and maybe no header in front."""
    header = {
        "header__change_seq": "string",
        "header__change_oper": "string",
        "header__change_mask": "binary",
    }
    data = {"amount": "int", "stall": "int"}
    rows: list[Row] = [
        {"header__change_oper": "I", "header__change_mask": mask(3, 4)},
        {"header__change_oper": "D", "header__change_mask": mask(3)},
    ]
    for number, row in enumerate(rows):
        row |= {"header__change_seq": change_seq(number), "stall": 1, "amount": 5}
    columns = ["stall", "amount"]
    for name, layout, arguments in (
        ("stalls__ct", header | data, {"columns": columns}),
        ("booths__ct", data | header, {"columns": columns, "header_columns": 3}),
    ):
        land_table(lake, name, layout, rows)
        output = init.ok(f"landing.{name}", "--arguments", json.dumps(arguments))
        assert "key: stall, guessed from the change masks of 1 deletes" in output

    body = {"data": {"amount": 5, "stall": 1}, "beforeData": None}
    body["headers"] = qlik_messages.headers("DELETE", changeSequence=change_seq(1), changeMask="01")
    message = {"value": qlik_messages.json_message("DT", body)}
    land_table(lake, "tents_messages", {"value": "string"}, [message])
    typed = [{"name": name, "type": "int"} for name in columns]
    output = init.ok("landing.tents_messages", "--arguments", json.dumps({"columns": typed}))
    assert "key: stall, guessed from changeMask of a DELETE" in output


@pytest.mark.slow
def test_columns_of_json_have_types_that_hold_every_value_seen(
    project: Project, lake: Lake, init: Init
) -> None:
    values: dict[str, tuple[list[str], str]] = {
        "quay": (["1", "2", "3"], "bigint"),
        "fee": (["1", "2.50", "null"], "decimal(38,10)"),
        "lat": (["52.52000659999999", "13.4", "7"], "string"),
        "tiny": (["1e-12", "1", "null"], "string"),
        "exact": (["0.1234567890123456789", "1", "2"], "string"),
        "big": (["18446744073709551615", "1", "null"], "decimal(38,10)"),
        "huge": (["1" + "0" * 30 + "1", "1", "1"], "string"),
        "open": (["true", "false", "null"], "boolean"),
        "mixed": (["true", "1", "null"], "string"),
        "nothing": (["null", "null", "null"], "string"),
    }
    rows = []
    for place in range(3):
        row = ", ".join(f'"{name}": {texts[place]}' for name, (texts, _) in values.items())
        source = debezium_message(place, "c", None, None)["source"]
        text = f'{{"op": "c", "before": null, "after": {{{row}}}, "source": {json.dumps(source)}}}'
        rows.append({"key": json.dumps({"quay": place + 1}), "value": text})
    land_table(lake, "d_numbers", {"key": "string", "value": "string"}, rows)
    init.ok("landing.d_numbers", "--arguments", '{"table": "ferries"}')
    staging = project.folder / "models/staging/debezium/stg_debezium__ferries.sql"
    text = staging.read_text()
    for name, (_, kind) in values.items():
        assert f"{{'name': '{name}', 'type': '{kind}'}}" in text
    project.dbt("run", "--select", staging.stem)
    rejected = lake.rows(f"select reject_reason from afterimage.{staging.stem}")
    assert [row["reject_reason"] for row in rejected] == [None] * 3


@pytest.mark.slow
def test_a_model_of_an_event_log_stays_as_it_is_while_events_are_deleted(
    empty: Project, lake: Lake, init: Init
) -> None:
    """A driver deletes what it has processed. What is left may be of another table, or nothing."""

    def look(*rows: Row) -> None:
        land_table(lake, "events", LOG, list(rows), schema="pruned")
        code, output, errors = init("pruned.*")
        assert (code, errors) == (0, ""), output

    names = [(1, "name", "Ada"), (2, "mail", "a@x")]
    rows = [event(place, 1, "USR", "id=1", name, None, value) for place, name, value in names]
    look(*({**row, "status": "S"} for row in rows))
    staging = empty.folder / "models/staging/netiq/stg_netiq__usr.sql"
    text = staging.read_text()
    assert "statuses=['N', 'S', 'W', 'E', 'F']" in text
    assert "{'name': 'mail', 'type': 'string'}" in text
    look(event(9, 2, "USR", "id=1", "name", "Ada", "Eda"))
    assert staging.read_text() == text
    look()
    assert staging.read_text() == text
    look(event(11, 1, "GRP", "gid=1", "name", None, "all"))
    assert staging.read_text() == text
    of_group = staging.with_name("stg_netiq__grp.sql").read_text()
    assert "table='GRP'" in of_group
    assert "unique_key=['gid']" in of_group
    look(event(12, 1, "GRP", "gid=1", "size", None, "3"))
    assert staging.read_text() == text
    added = "        {'name': 'size', 'type': 'string'},\n"
    columns = "        {'name': 'name', 'type': 'string'},\n"
    assert (
        staging.with_name("stg_netiq__grp.sql").read_text().partition("\n")[2]
        == (of_group.replace(columns, columns + added).partition("\n")[2])
    )


@pytest.mark.slow
def test_a_model_of_messages_stays_as_it_is_while_metadata_come_and_go(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Old rows of a topic may be deleted, the metadata message with them."""
    columns = [column("ID", "INT4", key=1), column("SUM", "NUMERIC", 6, 2)]
    landed = qlik_messages.metadata("json", "LOTS-1", "LOTS", 1, columns, day=2)
    structure = {**landed, "topic": "lots"}
    # Of the task before this one, which knew another key, and more versions.
    earlier = [column("ID", "INT4"), column("SUM", "NUMERIC", 6, 2, key=1)]
    of_task_before = qlik_messages.metadata("json", "LOTS-0", "LOTS", 3, earlier, day=1)
    gone = message("DELETE", 2, {"ID": 1, "SUM": "1.50"}, changeMask="01")
    of_lots = [message("INSERT", 1, {"ID": 1, "SUM": "1.50"}, changeMask="03"), gone]
    folder = empty.folder / "models/staging/qlik"

    land_table(lake, "lots", KAFKA, [of_task_before, structure, *of_lots], schema="shrunk")
    init.ok("shrunk.lots")
    text = (folder / "stg_qlik__lots.sql").read_text()
    assert "unique_key=['ID']" in text
    assert "metadata=source('shrunk', 'lots')" in text
    land_table(lake, "lots", KAFKA, of_lots, schema="shrunk")
    assert "reads the columns from them: land one again" in init.refused("shrunk.lots")
    assert (folder / "stg_qlik__lots.sql").read_text() == text

    land_table(lake, "plots", KAFKA, of_lots, schema="shrunk")
    init.ok("shrunk.plots")
    text = (folder / "stg_qlik__plots.sql").read_text()
    assert "metadata" not in text
    land_table(lake, "plots", KAFKA, [structure, *of_lots], schema="shrunk")
    assert "the model was written without metadata" in init.ok("shrunk.plots")
    # Also where they are beside it.
    land_table(lake, "plots", KAFKA, of_lots, schema="shrunk")
    land_table(lake, "structure", KAFKA, [structure], schema="shrunk")
    init.ok("shrunk.plots")
    assert (folder / "stg_qlik__plots.sql").read_text() == text


@pytest.mark.slow
def test_options_of_a_history_are_written_as_jinja_reads_them(
    empty: Project, lake: Lake, init: Init
) -> None:
    columns, rows = POLICIES.tables["policies__ct"]
    land_table(lake, "policies__ct", columns, rows, schema="optioned")
    options = """
          load_valid_from: 2000-01-01
          valid_to_current: 9999-12-31 00:00:00
          meta_column_names: {version: number}"""
    tables = f"""
    tables:
      - relation: optioned.policies__ct
        history: {options}
    """
    (empty.folder / "afterimage.yml").write_text(textwrap.dedent(tables))
    init.ok("--from", "afterimage.yml")
    history = (empty.folder / "models/history/policies_history.sql").read_text()
    assert "load_valid_from='2000-01-01'" in history
    # Other tests of this file build a history of this name.
    empty.dbt("build", "--full-refresh", "--select", "stg_qlik__policies+")
    present = lake.rows("select holder, number from afterimage.policies_current")
    assert present == [{"holder": "Ann B.", "number": 2}]
    code, output, _ = init("--check", "--from", "afterimage.yml")
    assert code == 0, output


@pytest.mark.slow
def test_columns_whose_placeholder_is_null_are_named(
    project: Project, lake: Lake, init: Init
) -> None:
    """The arrays and bits for which PostgreSQL's connector has none; and its times of day."""
    fields = [
        {"field": "quay", "type": "int32"},
        {"field": "flags", "type": "array", "items": {"type": "boolean", "optional": True}},
        {"field": "words", "type": "array", "items": {"type": "string", "optional": True}},
        {"field": "bits", "type": "bytes", "name": "io.debezium.data.Bits"},
        {"field": "day", "type": "string", "name": "io.debezium.time.IsoDate"},
        {"field": "clock", "type": "int64", "name": "io.debezium.time.MicroTime"},
    ]
    row = {"quay": 5, "flags": [True], "words": ["a"], "bits": "BQ==", "day": "2024-01-02Z"}
    row["clock"] = 36672123456
    source = {"ts_ms": 1714550400000, "schema": "public", "table": "quays", "lsn": 2}
    source |= {"sequence": '["1","2"]', "snapshot": "false"}
    payload = {"op": "c", "before": None, "after": row, "source": source}
    schema = {"fields": [{"field": "after", "fields": fields}]}
    message = json.dumps({"schema": schema, "payload": payload})
    landing = {"value": "string", "partition": "int", "offset": "bigint"}
    land_table(lake, "quays", landing, [{"value": message, "partition": 0, "offset": 1}])
    output = init.ok("landing.quays", "--key", "quay")
    assert "null_is_absent: flags, bits. An update that leaves a large value" in output
    staging = (project.folder / "models/staging/debezium/stg_debezium__quays.sql").read_text()
    assert "null_is_absent=['flags', 'bits']" in staging
    assert "{'name': 'clock', 'type': 'time(6)'}" in staging
    # PostgreSQL's log orders the messages of all partitions.
    assert "position" not in staging
    project.dbt("run", "--select", "stg_debezium__quays")
    assert lake.rows("select after.day, after.clock from afterimage.stg_debezium__quays") == [
        {"day": date(2024, 1, 2), "clock": "10:11:12.123456"}
    ]

    kinds = {
        "pier": "int",
        "flags": ["null", {"type": "array", "items": ["null", "boolean"]}],
        "words": ["null", {"type": "array", "items": ["null", "string"]}],
        "state": [{"type": "string", "connect.default": "new"}, "null"],
        "bits": ["null", registry_messages.logical("bytes", "io.debezium.data.Bits", length="9")],
    }
    envelope = registry_messages.envelope(
        kinds, dict.fromkeys(("version", "schema", "table"), "string") | {"lsn": "long"}
    )
    change = {"op": "c", "ts_ms": 1, "before": None, "transaction": None}
    change["source"] = {"version": "3.6.3.Final", "lsn": 2, "schema": "public", "table": "piers"}
    change["after"] = {"pier": 5, "flags": [True], "words": ["a"], "state": "new", "bits": b"5"}
    framed = registry_messages.framed(1, envelope, change)
    land_table(lake, "piers", {"value": "binary"}, [{"value": framed}])
    registered = [{"id": 1, "schema": json.dumps(envelope)}]
    land_table(lake, "pier_schemas", {"id": "int", "schema": "string"}, registered)
    output = init.ok("landing.piers", "--key", "pier", "--metadata", "landing.pier_schemas")
    assert "columns with a default: state. Unless the connector has value.converter" in output
    staging = (project.folder / "models/staging/debezium/stg_debezium__piers.sql").read_text()
    assert "null_is_absent=['flags', 'bits']" in staging


def test_a_column_called_op_alone_is_no_sign(lake: Lake, init: Init) -> None:
    columns = {"op": "string", "a": "int"}
    land_table(lake, "sums", columns, [{"op": "I", "a": 1}, {"op": "+", "a": 2}])
    _, output, errors = init("landing.sums", "--key", "a")
    assert "landing.sums is not a change table of a known system" in output + errors


def test_second_run_leaves_alone_what_was_edited_and_writes_the_rest(
    project: Project, lake: Lake, init: Init
) -> None:
    land(lake, POLICIES)
    init("landing.policies__ct", "--key", "change_id")
    model = project.folder / "models/history/policies_history.sql"
    mine = f"-- mine\n{model.read_text()}"
    model.write_text(mine)
    (project.folder / "models/audit/_audit.yml").unlink()
    output = init.ok("landing.policies__ct")
    assert model.read_text() == mine
    assert "kept   models/history/policies_history.sql (edited by hand)" in output
    assert "wrote  models/audit/_audit.yml" in output
    assert "wrote  models/history" not in output


def test_unknown_table_is_told_the_five_systems_and_what_each_is_known_by(
    lake: Lake, project: Project, init: Init
) -> None:
    land_table(lake, "plain", {"id": "int", "value": "string"}, [{"id": 1, "value": "{}"}])
    error = init.refused("landing.plain")
    for words in (
        "landing.plain is not a change table of a known system",
        "can be a stream if a model of yours gives it the change contract",
        "Qlik change table: header__change_seq, header__change_oper",
        "messages on Kafka: value, an envelope",
        "Debezium messages on Kafka: value, key, headers, a Debezium message",
        "event log: record_id, status, event_type",
        "CD or CCD table: IBMSNAP_COMMITSEQ, IBMSNAP_INTENTSEQ, IBMSNAP_OPERATION",
        "text index: OPERATION, TIME, PKnn",
        "OpenEdge change table: _Tran-Id, _Time-Stamp, _Change-Sequence",
        "It has: id, value",
    ):
        assert words in error


@pytest.mark.parametrize(
    ("landed", "command", "message"),
    [
        (LOANS, ["landing.cd_loans"], "the key cannot be guessed (replication tables do not show"),
        (
            BADGES,
            ["landing.idm_events"],
            "belong to several tables: choose one with --table: BADGE",
        ),
        pytest.param(
            BOOKS,
            ["landing.books_index_log"],
            "give --base, the table with the current rows",
            marks=pytest.mark.minutes,
        ),
        pytest.param(
            CRATES,
            CRATES.command[:5],
            "landing.tracking may have changes of several source tables, and has those of 31 now."
            " Give the number of the table of landing.CDC_Crate",
            marks=pytest.mark.minutes,
        ),
        pytest.param(
            LOANS,
            ["landing.nowhere"],
            "RELATION must be an existing table",
            marks=pytest.mark.minutes,
        ),
        pytest.param(
            LOANS,
            ["landing.cd_loans", "--key", "nix"],
            "the key names a column that does not exist. Allowed: LOAN, RATE. Got: nix",
            marks=pytest.mark.minutes,
        ),
        pytest.param(
            TRUCKS,
            ["landing.fleet", "--metadata", "landing.fleet_schemas"],
            "belong to several tables: choose one with --table: dbo.TRUCKS, dbo.VANS",
            marks=pytest.mark.minutes,
        ),
        pytest.param(
            replace(BARGES, tables={"d_other_barges": BARGES.tables["d_barges"]}),
            ["landing.d_other_barges"],
            "give --metadata, the table with the registry's schemas (id, schema)",
            marks=pytest.mark.minutes,
        ),
    ],
    ids=[
        *("key", "table", "base", "number of the table", "no table", "no column"),
        *("tables of metadata", "schemas"),
    ],
)
def test_what_cannot_be_known_is_asked_for(
    landed: Landed,
    command: list[str],
    message: str,
    empty: Project,
    lake: Lake,
    init: Init,
) -> None:
    land(lake, landed)
    error = init.refused(*command)
    assert message in error
    assert error.startswith("afterimage: ")
    assert "> in macro" not in error


def test_new_project_is_complete_and_is_never_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "My CRM"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert cli.main(["init"]) == 0
    settings = (folder / "dbt_project.yml").read_text()
    assert "name: my_crm\n" in settings
    assert yaml.safe_load(settings)["models"]["+file_format"] == FORMAT_OF_TARGET
    assert (folder / "profiles.yml").read_text().count("\nmy_crm:\n") == 1
    assert str(PACKAGE) in (folder / "packages.yml").read_text()
    (folder / "packages.yml").write_text("packages: []\n")
    capsys.readouterr()
    assert cli.main(["init"]) == 0
    output = capsys.readouterr().out
    assert "wrote" not in output
    assert f"- local: {PACKAGE}" in output
    assert (folder / "packages.yml").read_text() == "packages: []\n"


@pytest.mark.parametrize("name", ["dbt", "dbt-spark", "no"])
def test_new_project_does_not_bear_a_name_that_is_taken(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    assert cli.main(["init"]) == 0
    written = (tmp_path / name / "dbt_project.yml").read_text()
    assert f"name: project_{name.replace('-', '_')}\n" in written


def test_folder_without_a_project_is_told_what_to_run_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "landing.policies__ct"]) == 1
    assert "run `afterimage init` first" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--key", "id"), ("--project-dir", "elsewhere")])
def test_options_without_a_table_make_no_project(
    option: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", *option]) != 0
    assert "Options need a RELATION" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


ORDERS = {
    "orders__ct": (
        {
            "header__change_seq": "string",
            "header__change_oper": "string",
            "header__change_mask": "binary",
            "id": "int",
            "status": "string",
        },
        [
            {
                "header__change_seq": change_seq(number),
                "header__change_oper": oper,
                "header__change_mask": flagged,
                "id": key,
                "status": status,
            }
            for number, oper, flagged, key, status in [
                (1, "I", mask(3, 4), 5, "new"),
                (2, "U", mask(4), 5, "paid"),
                (3, "I", mask(3, 4), 6, "new"),
                (4, "D", mask(3), 6, "new"),
            ]
        ],
    )
}
CUT = """{{ config(
    materialized='history', unique_key=['id'], meta_column_names={'version': '_version'}
) }}
select * from {{ ref('stg_shop__orders') }}
"""


@pytest.fixture
def shop(
    make_project: Callable[[str], Project], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project that stages `landing.orders__ct` by names of its own, and cuts a history of it."""
    project = without_models(make_project, lake.spark)
    for name, (columns, rows) in ORDERS.items():
        land_table(lake, name, columns, rows)
    project.file(
        "models/sources.yml",
        "sources: [{name: shop, schema: landing, tables: [{name: orders__ct}]}]",
    )
    project.stream(
        "shop/stg_shop__orders",
        "afterimage.qlik_change_table(source('shop', 'orders__ct'), unique_key=['id'])",
    )
    project.file("models/marts/order_versions.sql", CUT)
    monkeypatch.chdir(project.folder)
    return project


def of_init(folder: Path) -> set[str]:
    """Return the files that `init` has written into the project `shop`."""
    ours = ("docs/policies", "staging", "history", "current", "audit", "docs/orders")
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("models/**/*.*")}
    return {path for path in paths if path.removeprefix("models/").startswith(ours)}


def bytes_of_init(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in of_init(folder)}


@pytest.mark.slow
def test_a_table_that_is_staged_already_gets_no_second_stream(
    shop: Project, lake: Lake, init: Init
) -> None:
    # By another name of the same table, too.
    output = init.ok("lake.landing.orders__ct")
    assert "already read by stg_shop__orders" in output
    assert "order_versions already exists" in output
    assert "key: id, as in order_versions" in output
    assert output.splitlines()[-1] == "Next: dbt build --select stg_shop__orders+"
    assert of_init(shop.folder) == {
        "models/docs/orders.md",
        "models/current/orders_current.sql",
        "models/current/_current.yml",
        "models/audit/orders_audit.sql",
        "models/audit/_audit.yml",
    }
    shop.dbt("build", "--select", "stg_shop__orders+")
    assert lake.rows("select id, status, _version from afterimage.orders_current") == [
        {"id": 5, "status": "paid", "_version": 2}
    ]
    audited = lake.rows("select distinct id from afterimage.orders_audit order by id")
    assert audited == [{"id": 5}, {"id": 6}]


def documented_load() -> tuple[str, str]:
    """Return the statement of docs/systems/dialects.md, "Full load of Qlik", and its model."""
    section = page("docs/systems/dialects.md").partition("## Full load of Qlik\n")[2]
    block = next(text for kind, text in FENCED.findall(section) if kind == "sql")
    copied, _, model = block.partition("-- models/staging/qlik/customers_with_load.sql\n")
    return copied.strip().removesuffix(";"), model


@pytest.mark.slow
def test_a_table_that_is_staged_with_its_full_load_keeps_its_models(
    empty: Project,
    lake: Lake,
    init: Init,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model stands between the raw table and the source macro, in a project that `up` began."""
    data = {"id": "int", "name": "string"}

    def change(number: int, oper: str, key: int, name: str) -> Row:
        flagged = mask(len(HEADER)) if oper == "D" else mask(len(HEADER) + 1)
        return {
            "header__change_seq": change_seq(number),
            "header__change_oper": oper,
            "header__change_mask": flagged,
            "header__timestamp": AT,
            "id": key,
            "name": name,
        }

    def up() -> str:
        capsys.readouterr()
        code = cli.main(["up"])
        output = capsys.readouterr()
        assert code == 0, output
        return output.out

    # The tables of other tests are in the catalog, too.
    landed = ["raw.customers__ct"]
    monkeypatch.setattr(
        "dbt_afterimage.commands.init._landed",
        lambda project, schema, ignore: [name for name in landed if name not in ignore],
    )
    changes = [change(1, "U", 1, "Eva"), change(2, "D", 2, "Ben")]
    land_table(lake, "customers__ct", HEADER | data, changes, schema="raw")
    loaded = [{"id": key, "name": name} for key, name in enumerate(("Ada", "Ben", "Cid"), 1)]
    land_table(lake, "customers", data, loaded, schema="raw")
    up()
    folder = empty.folder / "models"
    of_up = {path.name for path in folder.rglob("*.sql")}
    assert "stg_qlik__customers.sql" in of_up

    lake.spark.sql("drop table if exists raw.customers_loaded")
    copied, model = documented_load()
    lake.spark.sql(copied)
    landed.append("raw.customers_loaded")
    empty.file("models/staging/qlik/customers_with_load.sql", model)
    sources = "sources: [{{name: raw, schema: raw, tables: [{}]}}]"
    empty.file("models/loaded.yml", sources.format("{name: customers_loaded}"))
    staging = folder / "staging/qlik/stg_qlik__customers.sql"
    direct = "source('raw', 'customers__ct')"
    assert direct in staging.read_text()
    staging.write_text(staging.read_text().replace(direct, "ref('customers_with_load')"))
    for _ in range(2):
        assert "Answer the questions" not in up()
    of_up |= {"customers_with_load.sql"}
    assert {path.name for path in folder.rglob("*.sql")} == of_up

    def versions() -> list[tuple[Any, ...]]:
        rows = lake.rows("select * from afterimage.customers_history order by id, version")
        return [(row["id"], row["name"], row["closed_by"]) for row in rows]

    whole = [(1, "Ada", "update"), (1, "Eva", None), (2, "Ben", "delete"), (3, "Cid", None)]
    assert versions() == whole

    # A second change table, such as that of a new task, gets no history of its own.
    land_table(lake, "customers_2__ct", HEADER | data, [change(3, "U", 3, "Kim")], schema="raw")
    landed.append("raw.customers_2__ct")
    both = "{name: customers_loaded}, {name: customers_2__ct}"
    empty.file("models/loaded.yml", sources.format(both))
    more = "\nunion all\nselect * from {{ source('raw', 'customers_2__ct') }}\n"
    empty.file("models/staging/qlik/customers_with_load.sql", model.rstrip() + more)
    up()
    assert {path.name for path in folder.rglob("*.sql")} == of_up
    assert versions() == [*whole[:3], (3, "Cid", "update"), (3, "Kim", None)]
    said = init.refused("raw.customers_2__ct")
    assert "stg_qlik__customers reads it by way of other models" in said

    # The list goes on to write what stands on the staging model.
    path = empty.folder / "afterimage.yml"
    path.write_text(path.read_text() + "    history: {deletes: version}\n")
    init.ok("--from", "afterimage.yml")
    assert "deletes='version'" in (folder / "history/customers_history.sql").read_text()
    code, output, _ = init("--check")
    assert code == 1
    assert output.splitlines()[-2:] == [
        "models/staging/qlik/stg_qlik__customers.sql: was edited by hand, and is left alone",
        "raw.customers_2__ct: a Qlik change table, and not in the list",
    ]
    ignored = "ignore: [raw.customers_2__ct, '*/stg_qlik__customers.sql']\n"
    path.write_text(ignored + path.read_text())
    assert init.ok("--check").endswith("Everything matches afterimage.yml.\n")


@pytest.mark.slow
def test_the_list_leaves_models_alone_whose_rows_were_taken_in_and_deleted(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Nothing that is landed shows by then what a table is, or which columns it has."""
    columns, header = KEYLESS["cells_dms"]
    boxes = [header(n, "I") | {"id": n} for n in (1, 2)]
    of_lorries = message("INSERT", 1, {"ID": 8, "PLATE": "AB"}, changeMask="03", **LORRY)
    of_trams = message("INSERT", 2, {"LINE": 4, "CARS": 2}, changeMask="03", **TRAM)

    def land(boxes: list[Row], *messages: Row) -> None:
        land_table(lake, "boxes_dms", columns | {"id": "int"}, boxes, schema="shed")
        land_table(lake, "depot", KAFKA, list(messages), schema="shed")

    land(boxes, of_lorries, of_trams)
    init.ok("shed.boxes_dms", "--key", "id")
    for table, key in (("dbo.LORRIES", "ID"), ("dbo.TRAMS", "LINE")):
        init.ok("shed.depot", "--table", table, "--key", key)
    ours = bytes_of_init(empty.folder)
    land([], of_trams)
    output = init.ok("--from", "afterimage.yml")
    for name in ("boxes_dms", "depot"):
        assert output.count(f"shed.{name}: its models stay as they are") == 1
    assert "its table is not in the list" not in output
    assert bytes_of_init(empty.folder) == ours
    assert init.ok("--check").endswith("Everything matches afterimage.yml.\n")
    empty.dbt("parse")


@pytest.mark.slow
def test_a_history_goes_on_where_rows_land_meanwhile_or_landed_rows_are_deleted(
    empty: Project, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, rows = ORDERS["orders__ct"]
    land_table(lake, "parcels__ct", columns, rows)
    Init(capsys).ok("landing.parcels__ct")

    def land_parcel(number: int, key: int) -> None:
        row = rows[0] | {"header__change_seq": change_seq(number), "id": key}
        lake.frame(columns, [row]).writeTo("landing.parcels__ct").append()

    def built() -> tuple[list[str], list[int]]:
        """Return what came of the count of landed rows, and the keys that are present."""
        results = empty.dbt("build", "--select", "stg_qlik__parcels+")
        present = lake.rows("select id from afterimage.parcels_current order by id")
        return counts(results), [row["id"] for row in present]

    # Once staging has run, and before its rows are counted.
    with interrupted(lambda sql: "as landed_rows" in sql, lambda: land_parcel(5, 7)):
        assert built() == (["warn"], [5])
    assert built() == (["pass"], [5, 7])
    lake.spark.sql("delete from landing.parcels__ct where id = 6")
    land_parcel(6, 8)
    assert built() == (["warn"], [5, 7, 8])
    # What can have no such cause is an error.
    staging = "afterimage.stg_qlik__parcels"
    lake.spark.sql(f"insert into {staging} select * from {staging} where after.id = 8")
    with pytest.raises(DbtError, match="change_stream_is_complete"):
        empty.dbt("test", "--select", "stg_qlik__parcels")


@pytest.mark.minutes
def test_models_that_moved_are_not_written_twice(shop: Project, init: Init) -> None:
    init.ok("landing.orders__ct")
    models = shop.folder / "models"
    (models / "current" / "orders_current.sql").rename(models / "marts" / "orders_current.sql")
    (models / "current" / "_current.yml").rename(models / "marts" / "_current.yml")
    (models / "docs" / "orders.md").rename(models / "docs" / "columns.md")
    (models / "audit" / "orders_audit.sql").unlink()
    (models / "audit" / "_audit.yml").unlink()
    assert "orders_current already exists" in init.ok("landing.orders__ct")
    assert of_init(shop.folder) == {"models/audit/orders_audit.sql", "models/audit/_audit.yml"}
    shop.dbt("parse")


def test_a_column_that_came_later_is_added_to_docs_that_were_edited(
    shop: Project, lake: Lake, init: Init
) -> None:
    init.ok("landing.orders__ct")
    docs = shop.folder / "models/docs/orders.md"
    mine = docs.read_text().replace("`status` of orders", "Where the order is: `status` of orders")
    docs.write_text(mine)
    lake.spark.sql("alter table landing.orders__ct add column amount int")
    init.ok("landing.orders__ct")
    assert docs.read_text().startswith(mine)
    assert docs.read_text().removeprefix(mine).count("{% docs") == 1
    assert "orders__amount" in docs.read_text()
    assert "name: amount" in (shop.folder / "models/current/_current.yml").read_text()
    shop.dbt("parse")


def test_a_column_that_is_gone_stays_described_where_an_edited_file_names_it(
    shop: Project, lake: Lake, init: Init
) -> None:
    """Else dbt parses nothing of the project any longer."""
    init.ok("landing.orders__ct")
    docs, mart, current = (
        shop.folder / "models" / name
        for name in ("docs/orders.md", "marts/marts.yml", "current/_current.yml")
    )
    mart.write_text(
        "models: [{name: order_versions, description: \"{{ doc('orders__status') }}\"}]\n"
    )
    mine = current.read_text() + "    meta: {owner: me}\n"
    current.write_text(mine)
    columns, rows = ORDERS["orders__ct"]
    fewer = {name: kind for name, kind in columns.items() if name != "status"}
    land_table(lake, "orders__ct", fewer, rows)
    init.ok("landing.orders__ct")
    assert current.read_text() == mine
    assert "{% docs orders__status %}" in docs.read_text()
    shop.dbt("parse")
    _, output, _ = init("--check")
    said = [line for line in output.splitlines() if line.startswith("models/")]
    assert said == ["models/current/_current.yml: was edited by hand, and is left alone"]
    for file in (current, mart):
        assert "{% docs orders__status %}" in docs.read_text()
        file.unlink()
        init.ok("landing.orders__ct")
        shop.dbt("parse")
    assert "orders__status" not in docs.read_text()


def test_a_name_that_another_table_has_is_refused_before_anything_is_written(
    shop: Project, lake: Lake, init: Init
) -> None:
    land_table(lake, "other__ct", *ORDERS["orders__ct"])
    shop.file("models/marts/buyers_history.sql", "select 1 as id")
    error = init.refused("landing.other__ct", "--name", "buyers")
    assert "this project already has buyers_history (models/marts/buyers_history.sql)" in error
    assert "another name: --name" in error
    assert "renamed or moved, set the identifier or the schema of its old source" in error
    # So is one of a table that has a stream, but not these models.
    shop.file("models/marts/orders_audit.sql", "select 1 as id")
    error = init.refused("landing.orders__ct")
    assert "this project already has orders_audit (models/marts/orders_audit.sql)" in error
    assert of_init(shop.folder) == set()


def test_a_table_that_two_systems_read_is_declared_once(
    empty: Project, lake: Lake, init: Init
) -> None:
    land_table(lake, "parcels__ct", *ORDERS["orders__ct"], schema="wharf")
    land_table(lake, "leases_cd", *LOANS.tables["cd_loans"], schema="wharf")
    land_table(lake, "offices", {"id": "int"}, [{"id": 1}], schema="wharf")
    init.ok("wharf.parcels__ct", "--base", "wharf.offices")
    init.ok("wharf.leases_cd", "--key", "LOAN", "--base", "wharf.offices")
    empty.dbt("parse")
    # The list alone gives the same.
    ours = bytes_of_init(empty.folder)
    for path in ours:
        (empty.folder / path).unlink()
    init.ok("--from", "afterimage.yml")
    assert bytes_of_init(empty.folder) == ours
    assert init.ok("--check").endswith("Everything matches afterimage.yml.\n")


@pytest.mark.slow
def test_a_landed_table_is_not_replaced_by_a_model_of_its_name(
    empty: Project, lake: Lake, init: Init
) -> None:
    """It is in the target's schema, and nobody has another copy."""
    land_table(lake, "berths__ct", *ORDERS["orders__ct"])

    def refused(name: str) -> bool:
        """Land a table, and tell whether `init` refuses to write a model of its name."""
        land_table(lake, name, {"id": "int"}, [{"id": 1}], schema="afterimage")
        error = init.refused("landing.berths__ct")
        lake.spark.sql(f"drop table afterimage.{name}")
        assert of_init(empty.folder) == set()
        return f"afterimage.{name} exists, and Afterimage has not built it" in error

    assert all(refused(f"berths_{kind}") for kind in ("history", "current", "audit"))
    land_table(lake, "berths_audit", {"id": "int"}, [{"id": 1}], schema="afterimage")
    init.ok("landing.berths__ct", "--name", "moorings")
    # So is one that is built already, and whose model was deleted.
    empty.dbt("run", "--select", "stg_qlik__moorings+")
    shutil.rmtree(empty.folder / "models/staging")
    for kind in ("history", "current", "audit"):
        shutil.rmtree(empty.folder / "models" / kind)
    assert "wrote  models/history/moorings_history.sql" in init.ok("landing.berths__ct")
    assert lake.rows("select id from afterimage.berths_audit") == [{"id": 1}]
    lake.spark.sql("drop table afterimage.berths_audit")


@pytest.mark.minutes
def test_each_table_of_a_topic_has_a_stream_of_its_own(
    shop: Project, lake: Lake, init: Init
) -> None:
    land(lake, TRUCKS)
    for table in ("VANS", "TRUCKS"):
        command = ("landing.fleet", "--metadata", "landing.fleet_schemas", "--table", table)
        assert "already read" not in init.ok(*command)
    ours = bytes_of_init(shop.folder)
    output = init.ok(*command)
    assert "unchanged files" in output
    assert "wrote" not in output
    assert ours == bytes_of_init(shop.folder)


@pytest.mark.slow
def test_of_topics_that_do_not_name_their_table_a_model_selects_one(
    empty: Project, lake: Lake, init: Init
) -> None:
    """All of them as one table would have one row of those with equal keys."""

    def landed(topic: str, number: int, operation: str, name: str, mask: str) -> Row:
        row = {"ID": 1, "NAME": name}
        return {**message(operation, number, row, changeMask=mask), "topic": f"crm.{topic}"}

    rows = [landed("east", 1, "INSERT", "Ada", "03"), landed("west", 2, "INSERT", "Bob", "03")]
    rows.append(landed("west", 3, "DELETE", "Bob", "01"))
    land_table(lake, "kafka", KAFKA, rows, schema="broker")
    said = "broker.kafka has messages of 2 topics (crm.east, crm.west) that do not name their table"
    assert said in init.refused("broker.kafka")

    empty.file("models/sources.yml", "sources: [{name: broker, tables: [{name: kafka}]}]")
    select = "select * from {{ source('broker', 'kafka') }} where topic = 'crm.east'"
    empty.model("crm_east", select, materialized="table")
    empty.dbt("run", "--select", "crm_east")
    init.ok("afterimage.crm_east", "--key", "ID")
    empty.dbt("run", "--select", "stg_qlik__crm_east")
    staged = lake.rows("select after.NAME as name from afterimage.stg_qlik__crm_east")
    assert staged == [{"name": "Ada"}]
    # Then the raw table is no question any more.
    assert init("broker.*", "afterimage.crm_east")[0] == 0


@pytest.mark.slow
def test_a_table_is_found_behind_the_first_thousand_messages_of_a_topic(
    shop: Project, lake: Lake, init: Init
) -> None:
    def message(table: str, number: int) -> dict[str, Any]:
        source = {"schema": "public", "table": table, "snapshot": "false", "lsn": number}
        source |= {"sequence": json.dumps([str(number)] * 2), "ts_ms": 1_700_000_000_000 + number}
        row = {"id": number, "name": "a"}
        envelope = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}
        return {"key": json.dumps({"id": number}), "value": json.dumps(envelope), "offset": number}

    messages = [message("trucks", number) for number in range(1, 1006)]
    messages.append(message("vans", 1006))
    columns = {"key": "string", "value": "string", "offset": "bigint"}
    land_table(lake, "busy_topic", columns, messages)
    assert "stg_debezium__vans" in init.ok("landing.busy_topic", "--table", "public.vans")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_column_is_found_behind_the_first_thousand_messages_of_a_topic(
    form: str, empty: Project, lake: Lake, init: Init
) -> None:
    """The staging table warns of it."""
    row = {"barge": "int"}
    source = {"version": "string", "ts_ms": "long", "db": "string", "table": "string"}
    source |= {"file": "string", "pos": "long", "row": "int", "snapshot": "string"}
    schemas = [registry_messages.envelope(row | more, source) for more in ({}, {"email": "string"})]

    def message(place: int, **more: Any) -> Row:
        change = debezium_message(place, "c", None, {"barge": place, **more})
        change["source"] |= {"version": "2.7.3.Final", "row": 0, "table": f"{form}_boats"}
        value: Any = json.dumps(change)
        if form == "avro":
            number = 2 if more else 1
            change["transaction"] = None
            value = registry_messages.framed(number, schemas[number - 1], change)
        return {"value": value, "partition": 0, "offset": place}

    kind = "string" if form == "json" else "binary"
    columns = {"value": kind, "partition": "int", "offset": "bigint"}
    land_table(lake, "long_topic", columns, [message(place) for place in range(1, 1006)])
    registered = [{"id": n, "schema": json.dumps(one)} for n, one in enumerate(schemas, start=1)]
    land_table(lake, "long_schemas", {"id": "int", "schema": "string"}, registered)
    command = ["landing.long_topic", "--key", "barge"]
    command += ["--metadata", "landing.long_schemas"] * (form == "avro")
    init.ok(*command)
    later = lake.frame(columns, [message(1006, email="a@x")])
    later.writeTo("landing.long_topic").append()
    staging = empty.folder / f"models/staging/debezium/stg_debezium__{form}_boats.sql"
    assert "email" not in staging.read_text()
    empty.dbt("run", "--select", staging.stem)
    init.ok(*command)
    assert "{'name': 'email', 'type': 'string'}" in staging.read_text()


@pytest.mark.slow
def test_a_table_of_metadata_is_found_behind_the_first_thousand_messages_of_a_topic(
    empty: Project, lake: Lake, init: Init
) -> None:
    tables = ("ORDERS", "ITEMS", "SHIPS")
    columns = [column("ID", "INT4", key=1)]
    metadata = [qlik_messages.metadata("avro", f"{one}-1", one, 1, columns) for one in tables]

    def message(table: str, number: int) -> Row:
        body = data_message("INSERT", number, {"ID": number})
        schema = qlik_messages.data_schema(columns)
        return {"value": qlik_messages.avro_message("DT", schema, body, f"{table}-1")}

    topic = [message("ORDERS", number) for number in range(1, 1006)]
    topic.append(message("ITEMS", 1006))
    land_table(lake, "crm", {"value": "binary"}, topic, schema="harbour")
    land_table(lake, "crm_metadata", {"value": "binary"}, metadata, schema="harbour")
    opened = lake.rows("select decode_avro_message(value).schema_id as id from harbour.crm limit 1")
    assert opened == [{"id": "ORDERS-1"}]
    assert init("harbour.*")[0] == 0
    models = sorted(path.stem for path in (empty.folder / "models/staging/qlik").glob("*.sql"))
    assert models == ["stg_qlik__items", "stg_qlik__orders"]


# Sends the process a signal before the n-th step that it takes in the project's folder.
STOPPED = """
import json, os, sys
from pathlib import Path
from dbt_afterimage.runtime import files

folder, step, signal = Path(sys.argv[1]), *map(int, sys.argv[2:])
texts = json.loads(Path(folder, "files.json").read_text())
seen = 0

def stop(event, arguments):
    global seen
    writes = event in ("os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir") or (
        event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    )
    if writes and str(arguments[0]).startswith(str(folder)):
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal)

sys.addaudithook(stop)
files.write(folder, texts)
print(seen)
"""


def stopped(folder: Path, step: int, signal: int) -> int:
    """Write `files.json` of a folder and stop before a step; return how the process ended."""
    result = subprocess.run(
        [sys.executable, "-c", STOPPED, str(folder), str(step), str(signal)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, -signal), result.stderr
    return result.returncode


@pytest.fixture
def unwritten(shop: Project, lake: Lake, init: Init) -> tuple[Project, dict[str, str]]:
    """A project, and what `init` would write for `policies__ct`; the texts are in `files.json`."""
    land(lake, POLICIES)
    draft = drafts.draft(Opened(Where()), Entry("landing.policies__ct"))
    found = files.changes(shop.folder, [draft.texts], whole=False)
    texts = {change.path: change.new for change in found}
    (shop.folder / "files.json").write_text(json.dumps(texts))
    return shop, texts


def emptied(folder: Path) -> None:
    for path in of_init(folder):
        (folder / path).unlink()
    (folder / "afterimage.yml").unlink(missing_ok=True)


@pytest.mark.slow
def test_init_that_is_killed_at_any_step_leaves_a_project_that_parses(
    unwritten: tuple[Project, dict[str, str]], init: Init
) -> None:
    project, texts = unwritten
    states: set[frozenset[str]] = set()
    for step in range(1, 200):
        emptied(project.folder)
        ended = stopped(project.folder, step, 9)
        there = of_init(project.folder)
        for path in there:
            assert (project.folder / path).read_text() == texts[path]
        if frozenset(there) not in states:
            states.add(frozenset(there))
            project.dbt("parse")
            if len(there) in (1, 4, 8):
                output = init.ok("landing.policies__ct")
                assert of_init(project.folder) == set(texts)
                assert output.count("wrote  models") == len(texts) - len(there)
        if ended == 0:
            break
    assert len(states) == len(texts) + 1


def test_init_that_is_told_to_end_while_it_writes_has_written_all(
    unwritten: tuple[Project, dict[str, str]],
) -> None:
    project, texts = unwritten
    for step in range(1, 200):
        emptied(project.folder)
        ended = stopped(project.folder, step, 15)
        assert of_init(project.folder) in (set(), set(texts))
        if ended == 0:
            break
    assert step > len(texts)


def test_a_file_that_cannot_be_written_takes_back_the_others(
    unwritten: tuple[Project, dict[str, str]], init: Init
) -> None:
    project, _ = unwritten
    (project.folder / "models" / "audit").write_text("no folder")
    before = sorted(project.folder.rglob("models/**/*"))
    error = init.refused("landing.policies__ct")
    assert error.startswith("afterimage: nothing was written: ")
    assert "models/audit" in error
    assert len(error.splitlines()) == 1
    assert sorted(project.folder.rglob("models/**/*")) == before


def test_a_reader_that_goes_away_stops_no_writing(tmp_path: Path) -> None:
    env = environment(PYTHONPATH=str(ROOT / "python_udfs"), PYTHONUNBUFFERED="1")
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "dbt_afterimage", "init"],
        cwd=tmp_path,
        env=env,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert result.stderr == ""
    for name in ("dbt_project.yml", "packages.yml", "profiles.yml", ".gitignore", "models"):
        assert (tmp_path / name).exists()


def test_git_ignores_the_state_folder_of_a_project_that_has_a_gitignore_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".gitignore").write_text("/logs/\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init"]) == 0
    output = capsys.readouterr().out
    assert "Add these to .gitignore: /.afterimage/ /dbt_packages/ /target/" in output


def words(text: str) -> list[str]:
    return [line.split(":")[0] for line in text.splitlines()]


@pytest.fixture
def listed(shop: Project, lake: Lake, init: Init) -> tuple[Project, Init]:
    """A project whose list has three tables, made from a pattern."""
    for name in ("users__ct", "carts__ct"):
        columns, rows = ORDERS["orders__ct"]
        land_table(lake, name, columns, rows, schema="crm")
    land_table(lake, "loans_cd", *LOANS.tables["cd_loans"], schema="crm")
    land_table(lake, "plain", {"id": "int"}, [{"id": 1}], schema="crm")
    code, output, _ = init("crm.*")
    assert code == 1
    assert "crm.users__ct: qlik_change_table (3 of 7 signs), key id" in output
    assert re.search("crm.loans_cd +none +it has 1 row of an insert", output)
    assert "plain" not in output
    return shop, init


# The columns of a change that no system explains: its place and its operation.
KEYLESS: dict[str, tuple[dict[str, str], Callable[[int, str], dict[str, Any]]]] = {
    "pages__ct": (
        {"header__change_seq": "string", "header__change_oper": "string"},
        lambda n, code: {"header__change_seq": f"{n:035d}", "header__change_oper": code},
    ),
    "sheets_cd": (
        dict.fromkeys(
            ("IBMSNAP_COMMITSEQ", "IBMSNAP_INTENTSEQ", "IBMSNAP_OPERATION"),
            "string",
        ),
        lambda n, code: {
            "IBMSNAP_COMMITSEQ": f"{n:020X}",
            "IBMSNAP_INTENTSEQ": f"{n:020X}",
            "IBMSNAP_OPERATION": code,
        },
    ),
    "dbo_strips_CT": (
        {"__$start_lsn": "binary", "__$seqval": "binary", "__$operation": "int"},
        lambda n, code: {
            "__$start_lsn": n.to_bytes(10, "big"),
            "__$seqval": n.to_bytes(10, "big"),
            "__$operation": {"I": 2, "U": 4, "D": 1}[code],
        },
    ),
    "cells_dms": (
        {"Op": "string", "ar_h_change_seq": "string"},
        lambda n, code: {"Op": code, "ar_h_change_seq": f"{n:035d}"},
    ),
    "blocks_cdc": (
        {"_Change-Sequence": "bigint", "_Operation": "int"},
        lambda n, code: {"_Change-Sequence": n, "_Operation": {"I": 1, "U": 4, "D": 2}[code]},
    ),
}


@pytest.mark.slow
def test_keys_are_proposed_by_the_rows_and_taken_when_accepted(
    empty: Project, lake: Lake, init: Init
) -> None:
    lines = [
        *(("I", 1, 1, "ink"), ("I", 1, 2, "ink"), ("I", 2, 1, "pen"), ("U", 1, 1, "red ink")),
        *(("D", 2, 1, None), ("I", 2, 2, None)),
    ]
    for name, (columns, header) in KEYLESS.items():
        rows = [
            header(n, code) | {"PAGE": page, "LINE": line, "TEXT": text}
            for n, (code, page, line, text) in enumerate(lines, start=1)
        ]
        land_table(
            lake,
            name,
            {"TEXT": "string", "PAGE": "int", "LINE": "int"} | columns,
            # One row landed twice, and one has no value, as one of a truncate.
            [*rows, rows[0], header(9, "D")],
            schema="keyless",
        )
    columns, header = KEYLESS["sheets_cd"]
    for name, values in {
        "plain_cd": [(1, "a"), (2, "b")],
        "equal_cd": [(7, "a"), (7, "a")],
    }.items():
        rows = [header(n, "I") | {"X": x, "ITEM_ID": i} for n, (i, x) in enumerate(values, 1)]
        land_table(lake, name, {"X": "string", "ITEM_ID": "int"} | columns, rows, schema="keyless")
    code, output, _ = init("keyless.*")
    assert code == 1
    evidence = "unique among 4 inserts, NULL in none of 7 rows"
    for line in (
        "7 tables do not show the key. Proposed, by the rows:",
        *(rf"  keyless\.{name} +PAGE, LINE +{evidence}" for name in KEYLESS),
        r"  keyless\.plain_cd +ITEM_ID +unique among 2 inserts, NULL in none of 2 rows, so is X",
        r"  keyless\.equal_cd +none +no column, nor the first few together, is unique among 2",
        "--accept-keys takes the proposed keys; or write the right ones into afterimage.yml.",
    ):
        assert re.search(f"(?im)^{line}", output), line
    path = empty.folder / "afterimage.yml"
    text = path.read_text()
    assert "  # - relation: keyless.sheets_cd\n  #   key: [PAGE, LINE]\n" in text
    assert "  # - relation: keyless.equal_cd\n  #   key: []\n" in text
    init("keyless.*")
    assert path.read_text() == text
    assert "Proposed: --key PAGE,LINE (unique among 4" in init.refused("keyless.sheets_cd")
    assert not list(empty.folder.rglob("*sheets*.sql"))
    code, output, _ = init("keyless.*", "--accept-keys")
    assert code == 1
    assert f"keyless.sheets_cd: key accepted, {evidence}" in output
    listed = yaml.safe_load(path.read_text())["tables"]
    assert {one["relation"].lower(): one["key"] for one in listed} == {
        **{f"keyless.{name.lower()}": ["PAGE", "LINE"] for name in KEYLESS},
        "keyless.plain_cd": ["ITEM_ID"],
    }
    assert "# - relation: keyless.equal_cd" in path.read_text()
    assert len(list(empty.folder.rglob("*_history.sql"))) == 6


@pytest.mark.slow
def test_a_pattern_writes_what_it_can_and_lists_what_it_needs(
    listed: tuple[Project, Init], lake: Lake
) -> None:
    project, init = listed
    path = project.folder / "afterimage.yml"
    text = path.read_text()
    assert "  - relation: crm.users__ct\n    key: [id]\n" in text
    assert "  # - relation: crm.loans_cd\n  #   key: []\n" in text
    assert not list(project.folder.rglob("*loans*"))
    # Once the key is there the table is one like the others.
    text = text.replace("# - relation: crm.loans_cd\n  #   key: []", "- relation: crm.loans_cd")
    path.write_text(text.rstrip() + "\n    key: [LOAN]\n    history: {deletes: version}\n")
    init.ok("--from", "afterimage.yml")
    assert "deletes='version'" in (project.folder / "models/history/loans_history.sql").read_text()
    project.dbt("run", "--full-refresh", "--select", "stg_qlik__users+", "stg_db2__loans+")
    assert lake.rows("select id, status from afterimage.users_current") == [
        {"id": 5, "status": "paid"}
    ]


def test_a_question_is_answered_for_many_tables_by_the_defaults_or_by_the_command(
    shop: Project, lake: Lake, init: Init
) -> None:
    path = shop.folder / "afterimage.yml"
    # Debezium's procedures for Db2 name a capture table CDC_<schema>_<table>.
    for name in ("loans_cd", "cdc_leases"):
        land_table(lake, name, *LOANS.tables["cd_loans"], schema="bank")
    code, output, _ = init("bank.*")
    assert code == 1
    assert "No models for 2 tables: answer the questions in afterimage.yml" in output
    assert "Next" not in output
    asked = path.read_text()
    assert asked.count("#   key: []") == 2

    output = init.ok("bank.cdc_*", "--key", "LOAN")
    path.write_text("defaults: {key: [LOAN]}\n" + path.read_text())
    init.ok("bank.lo*")
    listed = "".join(
        f"  - relation: bank.{name}\n    key: [LOAN]\n" for name in ("cdc_leases", "loans_cd")
    )
    assert path.read_text().endswith("\ntables:\n" + listed)
    for name in ("loans", "leases"):
        model = shop.folder / f"models/history/{name}_history.sql"
        assert "unique_key=['LOAN']" in model.read_text()
    code, output, _ = init("--check")
    assert (code, output.splitlines()[-1]) == (0, "Everything matches afterimage.yml.")


def test_a_pattern_leaves_out_what_the_list_ignores(shop: Project, lake: Lake, init: Init) -> None:
    for name in ("users__ct", "users__ct_tmp"):
        land_table(lake, name, *ORDERS["orders__ct"], schema="yard")
    path = shop.folder / "afterimage.yml"
    path.write_text("ignore: ['yard.*_tmp']\ntables:\n")
    init.ok("yard.*")
    listed = "  - relation: yard.users__ct\n    key: [id]\n"
    assert path.read_text() == "ignore: ['yard.*_tmp']\ntables:\n" + listed


def test_tables_are_added_to_a_list_that_goes_on_behind_them(
    shop: Project, lake: Lake, init: Init
) -> None:
    for name in ("vans__ct", "cars__ct", "cars__ct_tmp"):
        land_table(lake, name, *ORDERS["orders__ct"], schema="yard2")
    path = shop.folder / "afterimage.yml"
    behind = "\n# Nobody needs these.\nignore: ['yard2.*_tmp']\n"
    path.write_text("tables: []\n" + behind)
    init.ok("yard2.vans__ct")
    assert path.read_text() == "tables:\n  - relation: yard2.vans__ct\n    key: [id]\n" + behind
    # Others write lists without an indent.
    path.write_text("tables:\n- relation: yard2.vans__ct\n  key: [id]\n" + behind)
    init.ok("yard2.*")
    listed = "".join(f"- relation: yard2.{one}__ct\n  key: [id]\n" for one in ("vans", "cars"))
    assert path.read_text() == "tables:\n" + listed + behind


def test_a_project_without_change_tables_is_no_error_of_up(
    empty: Project, lake: Lake, init: Init
) -> None:
    land_table(lake, "plums__ct", *ORDERS["orders__ct"])
    (empty.folder / "afterimage.yml").write_text("ignore: ['*']\ntables:\n")
    assert add(Opened(Where()), [], True, {}) == ([], 0)
    assert init.refused("--all") == "afterimage: nothing was written: no change table was found"


def test_a_table_is_listed_once_whatever_it_is_called(
    shop: Project, lake: Lake, init: Init
) -> None:
    path = shop.folder / "afterimage.yml"
    land_table(lake, "parts__ct", *ORDERS["orders__ct"])
    shop.file(
        "models/parts.yml",
        "sources: [{name: stock, schema: landing, tables: [{name: parts, identifier: parts__ct}]}]",
    )
    options = "key: [id]\n    arguments: {mask_encoding: hex}\n"
    path.write_text(f"tables:\n  - relation: stock.parts\n    {options}")
    init.ok("--from", "afterimage.yml")
    text, ours = path.read_text(), bytes_of_init(shop.folder)
    for name in ("landing.parts__ct", "lake.landing.parts__ct", "landing.part*__ct"):
        assert "unchanged files" in init.ok(name)
        assert (path.read_text(), bytes_of_init(shop.folder)) == (text, ours)
    _, output, _ = init("--check")
    assert "landing.parts__ct: a Qlik change table, and not in the list" not in output


@pytest.mark.slow
def test_a_name_that_needs_quotes_is_a_name(shop: Project, lake: Lake, init: Init) -> None:
    land_table(lake, "`crates-2024`", *ORDERS["orders__ct"], schema="hall")
    assert init.ok("hall.*").endswith("Next: dbt build --select stg_qlik__crates_2024+\n")
    shop.dbt("run", "--select", "stg_qlik__crates_2024+")
    rows = lake.rows("select id, status from afterimage.crates_2024_current")
    assert rows == [{"id": 5, "status": "paid"}]
    # As SQL writes it, it is the same table.
    assert "unchanged files" in init.ok("hall.`crates-2024`")


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_schema_that_needs_quotes_is_one_like_the_others(
    shop: Project, lake: Lake, init: Init, capsys: pytest.CaptureFixture[str]
) -> None:
    land_table(lake, "boxes__ct", *ORDERS["orders__ct"], schema="`hall-2`")
    assert init.ok("hall-2.*").endswith("Next: dbt build --select stg_qlik__boxes+\n")
    shop.dbt("build", "--select", "stg_qlik__boxes+")
    lake.spark.sql("insert into `hall-2`.boxes__ct select * from `hall-2`.boxes__ct where id = 6")
    row = {**ORDERS["orders__ct"][1][0], "header__change_seq": change_seq(9), "id": 7}
    lake.frame(ORDERS["orders__ct"][0], [row]).writeTo("`hall-2`.boxes__ct").append()
    cli.main(["news"])
    assert re.search(r"hall_2\.boxes__ct +3 rows landed", capsys.readouterr().out)
    shop.dbt("build", "--select", "stg_qlik__boxes+")
    rows = lake.rows("select id, status from afterimage.boxes_current order by id")
    assert rows == [{"id": 5, "status": "paid"}, {"id": 7, "status": "new"}]
    assert "unchanged files" in init.ok("hall-?.*")
    assert "unchanged files" in init.ok("`hall-2`.boxes__ct")


def test_a_pattern_goes_on_behind_what_cannot_be_read(
    shop: Project, lake: Lake, init: Init, tmp_path: Path
) -> None:
    """A file that Spark cannot read, and a source that nothing has landed for yet."""
    lake.frame(*ORDERS["orders__ct"]).write.parquet(str(tmp_path / "cranes"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "part-1.parquet").write_text("no parquet")
    source = """sources:
  - {name: docks, schema: parquet, quoting: {identifier: true}, tables: [%s]}
  - {name: docks_to_come, schema: nowhere, tables: [{name: empty}]}
"""
    tables = [f'{{name: {n}, identifier: "{tmp_path / n}"}}' for n in ("cranes", "damaged")]
    shop.file("models/docks.yml", source % ", ".join(tables))
    output = init.ok("docks*.*")
    assert "docks.damaged: left out, as it cannot be read. Spark failed: " in output
    assert "docks_to_come.empty: left out, as it cannot be read. " in output
    listed = "  - relation: docks.cranes\n    key: [id]\n"
    assert (shop.folder / "afterimage.yml").read_text().endswith("tables:\n" + listed)
    # Whoever names one is told.
    assert "Spark failed: " in init.refused("docks.damaged")


def test_what_a_test_keeps_is_no_change_table(shop: Project, lake: Lake, init: Init) -> None:
    text = dict.fromkeys(("finding", "change_id", "change_seq", "operation"), "string")
    land_table(lake, "afterimage_change_stream_is_clear_stg_shop", text, [], schema="kept_failures")
    land_table(lake, "coins__ct", *ORDERS["orders__ct"], schema="kept_failures")
    assert "change_stream_is_clear" not in init.ok("kept_failures.*")


@pytest.mark.slow
def test_models_of_a_package_are_built_on_and_not_written_again(
    empty: Project, lake: Lake, init: Init, tmp_path: Path
) -> None:
    land_table(lake, "ships__ct", *ORDERS["orders__ct"], schema="dock")
    init.ok("dock.ships__ct")
    # What was written here is a package of another project now.
    package = tmp_path / "dock_staging"
    package.mkdir()
    shutil.move(empty.folder / "models/staging", package / "models/staging")
    shutil.move(empty.folder / "models/docs", package / "models/docs")
    for folder in ("history", "current", "audit"):
        shutil.move(empty.folder / "models" / folder, package / "models" / folder)
    (empty.folder / "afterimage.yml").unlink()
    (package / "dbt_project.yml").write_text(
        "name: dock_staging\nversion: 1.0.0\nprofile: afterimage\n"
    )
    installed = empty.folder / "dbt_packages" / "dock_staging"
    installed.parent.mkdir(exist_ok=True)
    installed.symlink_to(package)
    (empty.folder / "packages.yml").write_text(f"packages: [{{local: {package}}}]\n")
    output = init.ok("dock.ships__ct")
    assert "dock.ships__ct is already read by stg_qlik__ships" in output
    assert of_init(empty.folder) == set()
    empty.dbt("parse")


def test_a_key_that_is_listed_stays_until_it_is_changed_in_the_list(
    shop: Project, lake: Lake, init: Init
) -> None:
    land_table(lake, "tills__ct", *ORDERS["orders__ct"], schema="pier")
    init.ok("pier.tills__ct")
    path = shop.folder / "afterimage.yml"
    text, ours = path.read_text(), bytes_of_init(shop.folder)
    said = "pier.tills__ct is already in afterimage.yml: change it there, then run"
    assert said in init.refused("pier.tills__ct", "--key", "status")
    # Under a pattern the option is for tables that have no key yet.
    init.ok("pier.*", "--key", "status")
    assert (path.read_text(), bytes_of_init(shop.folder)) == (text, ours)


def test_two_tables_of_one_name_are_a_question_and_stop_no_other(
    shop: Project, lake: Lake, init: Init
) -> None:
    for name in ("a.stalls__ct", "b.stalls__ct", "b.tents__ct"):
        schema, _, table = f"fair_{name}".partition(".")
        land_table(lake, table, *ORDERS["orders__ct"], schema=schema)
    code, _, errors = init("fair_*.*__ct")
    assert (code, errors) == (1, "")
    path = shop.folder / "afterimage.yml"
    text = path.read_text()
    listed = [one["relation"] for one in yaml.safe_load(text)["tables"]]
    assert listed == ["fair_a.stalls__ct", "fair_b.tents__ct"]
    asked = "another table has the model models/staging/qlik/stg_qlik__stalls.sql: give this one"
    comment = "  # - relation: fair_b.stalls__ct\n  #   key: []\n"
    assert f"  # {asked} a `name` in afterimage.yml\n{comment}" in text
    path.write_text(text.replace(comment, "  - {relation: fair_b.stalls__ct, name: booths}\n"))
    init.ok("--from", "afterimage.yml")
    assert (shop.folder / "models/history/booths_history.sql").is_file()


def test_models_are_written_where_dbt_reads_them(empty: Project, lake: Lake, init: Init) -> None:
    settings = empty.folder / "dbt_project.yml"
    text = settings.read_text().replace("docs-paths: [models/docs]", "model-paths: [dbt/models]")
    settings.unlink()
    settings.write_text(text)
    (empty.folder / "dbt").mkdir()
    (empty.folder / "models").rename(empty.folder / "dbt" / "models")
    land_table(lake, "orders__ct", *ORDERS["orders__ct"], schema="bay")
    init.ok("bay.orders__ct")
    assert not (empty.folder / "models").exists()
    assert "wrote" not in init.ok("--from", "afterimage.yml")
    code, output, _ = init("--check")
    assert (code, output.splitlines()[-1]) == (0, "Everything matches afterimage.yml.")
    listed = empty.dbt("ls", "--select", "stg_qlik__orders+", "--resource-type", "model")
    assert len(list(listed)) == 4


@pytest.mark.slow
def test_the_list_gives_the_same_bytes_as_one_table_after_the_other(
    listed: tuple[Project, Init],
) -> None:
    project, init = listed
    ours = bytes_of_init(project.folder)
    for path in ours:
        (project.folder / path).unlink()
    for _ in range(2):
        init.ok("--from", "afterimage.yml")
        paths = of_init(project.folder)
        assert {path: (project.folder / path).read_bytes() for path in paths} == ours


@pytest.mark.slow
def test_a_table_that_leaves_the_list_keeps_its_tests(listed: tuple[Project, Init]) -> None:
    """Its models go on being built; without `change_stream_is_complete` nothing guards them."""
    project, init = listed
    ours = bytes_of_init(project.folder)
    path = project.folder / "afterimage.yml"
    listing = yaml.safe_load(path.read_text())
    listing["tables"] = [one for one in listing["tables"] if one["relation"] != "crm.carts__ct"]
    path.write_text(yaml.safe_dump(listing))
    output = init.ok("--from", "afterimage.yml")
    assert "left   models/history/carts_history.sql: its table is not in the list" in output
    assert bytes_of_init(project.folder) == ours
    listed_tests = project.dbt("ls", "--select", "carts_history", "--resource-type", "test")
    assert any("history_is_sound" in one for one in listed_tests)
    # So it does where only another target builds them.
    settings = project.folder / "dbt_project.yml"
    text = yaml.safe_load(settings.read_text())
    kinds = {"history": "carts_history", "current": "carts_current", "audit": "carts_audit"}
    folders: Any = {kind: {name: {"+enabled": False}} for kind, name in kinds.items()}
    folders["staging"] = {"qlik": {"stg_qlik__carts": {"+enabled": False}}}
    text["models"]["afterimage"] = folders
    settings.unlink()
    settings.write_text(yaml.safe_dump(text))
    assert "carts" not in "".join(project.dbt("ls", "--resource-type", "model"))
    init.ok("--from", "afterimage.yml")
    assert bytes_of_init(project.folder) == ours


@pytest.mark.slow
def test_check_finds_each_drift(listed: tuple[Project, Init], lake: Lake) -> None:
    project, init = listed
    path = project.folder / "afterimage.yml"
    path.write_text("ignore: [crm.loans_cd]\n" + path.read_text())
    code, output, _ = init("--check")
    assert (code, output.splitlines()[-1]) == (0, "Everything matches afterimage.yml.")

    # A column appears, a key changes, a table is new, one is gone, a file is edited.
    lake.spark.sql("alter table crm.users__ct add column amount int")
    path.write_text(
        path.read_text().replace("users__ct\n    key: [id]", "users__ct\n    key: [id, status]")
    )
    columns, rows = ORDERS["orders__ct"]
    land_table(lake, "new__ct", columns, rows, schema="crm")
    lake.spark.sql("drop table crm.carts__ct")
    model = project.folder / "models/audit/users_audit.sql"
    model.write_text(model.read_text() + "-- mine\n")
    before = bytes_of_init(project.folder)
    code, output, _ = init("--check")
    assert code == 1
    for line in (
        "crm.carts__ct: RELATION must be an existing table",
        "crm.new__ct: a Qlik change table, and not in the list",
        "models/audit/users_audit.sql: was edited by hand, and is left alone",
        "models/history/users_history.sql: the key changed: ['id'] is now ['id', 'status']",
        "column amount of users_history appeared",
    ):
        assert line in output
    after = bytes_of_init(project.folder)
    assert after == before
    lake.spark.sql("drop table crm.new__ct")


@pytest.mark.minutes
def test_a_pattern_takes_the_tables_of_a_listed_topic_as_the_list_has_them(
    shop: Project, lake: Lake, init: Init
) -> None:
    for name, (columns, rows) in TRUCKS.tables.items():
        land_table(lake, name, columns, rows, schema="depot")
    for table in ("VANS", "TRUCKS"):
        topic = ("depot.fleet", "--metadata", "depot.fleet_schemas", "--table", table)
        init.ok(*topic)
    output = init.ok("depot.*")
    assert "choose one with --table" not in output
    assert "Next: dbt build --select stg_qlik__vans+ stg_qlik__trucks+" in output


@pytest.mark.slow
def test_a_further_table_of_an_event_log_gets_models(
    empty: Project, lake: Lake, init: Init
) -> None:
    path = empty.folder / "afterimage.yml"
    badge = event(1, 1, "BADGE", "no=12", "color", None, "red")
    door = event(2, 1, "DOOR", "id=1", "name", None, "front")
    gate = event(3, 1, "GATE", "id=7", "name", None, "north")

    def land_events(*events: Row) -> None:
        land_table(lake, "events", LOG, [*events], schema="idm")

    def listed() -> list[Any]:
        return [one.get("table") for one in yaml.safe_load(path.read_text())["tables"]]

    land_events(badge, door)
    init.ok("idm.*")
    assert listed() == [None, "BADGE", "DOOR"]
    assert init.ok("--check").endswith("Everything matches afterimage.yml.\n")
    land_events(badge, door, gate)
    code, output, _ = init("--check")
    assert code == 1
    assert "models/staging/netiq/stg_netiq__gate.sql: is missing" in output
    assert "wrote  models/staging/netiq/stg_netiq__gate.sql" in init.ok("idm.*")
    assert listed() == [None, "BADGE", "DOOR", "GATE"]
    # What the list says of one of them counts.
    edited = path.read_text().replace("BADGE\n", "BADGE\n    history: {deletes: version}\n")
    path.write_text(edited)
    init.ok("--from", "afterimage.yml")
    assert "deletes='version'" in (empty.folder / "models/history/badge_history.sql").read_text()
    # What was taken in may be deleted.
    land_events(gate)
    before = of_init(empty.folder)
    init.ok("idm.*")
    init.ok("--from", "afterimage.yml")
    assert (path.read_text(), of_init(empty.folder)) == (edited, before)
    empty.dbt("parse")


@pytest.mark.slow
def test_a_further_table_does_not_take_a_model_that_names_none(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Its current rows would be those of the first table's history."""
    badge = event(1, 1, "BADGE", "no=12", "color", None, "red")
    door = event(2, 1, "DOOR", "no=1", "name", None, "front")
    columns = "[{'name': 'no', 'type': 'string'}, {'name': 'color', 'type': 'string'}]"

    def stage(table: str) -> None:
        call = f"netiq_event_log(source('vault', 'events'), ['no'], {table}, columns={columns})"
        empty.stream("marts/stg_badges", f"afterimage.{call}")

    land_table(lake, "events", LOG, [badge], schema="vault")
    empty.file(
        "models/sources.yml", "sources: [{name: vault, schema: vault, tables: [{name: events}]}]"
    )
    stage("var('watched', 'BADGE')")
    empty.history("badge_history", "stg_badges", unique_key=["no"])
    assert "already read by stg_badges" in init.ok("vault.*")
    land_table(lake, "events", LOG, [badge, door], schema="vault")
    before = of_init(empty.folder)
    code, output, _ = init("vault.*")
    assert code == 1
    assert "vault.events may hold several tables, and stg_badges, which reads it," in output
    assert of_init(empty.folder) == before
    assert "may hold several tables" in init.refused("vault.events", "--table", "DOOR")
    # In the macro's own order it is the third argument.
    stage("'BADGE'")
    assert "wrote  models/history/door_history.sql" in init.ok("vault.*")
    door_current = (empty.folder / "models/current/door_current.sql").read_text()
    assert "ref('door_history')" in door_current
    assert "ref('stg_netiq__door')" in (empty.folder / "models/audit/door_audit.sql").read_text()


@pytest.mark.slow
def test_an_event_log_may_lack_columns_that_no_event_fills(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Its triggers write query-backs alone, and the writer of its files leaves out what is NULL."""
    missing = {"perpetrator", "column_name", "old_value", "new_value"}
    columns = {name: LOG[name] for name in LOG if name not in missing}
    land_table(
        lake, "persons", {"id": "int", "name": "string"}, [{"id": 5, "name": "Ada"}], "short"
    )
    land_table(lake, "log", columns, [event(1, 5, "PERSONS", "id=5", None)], schema="short")
    init.ok("short.log", "--base", "short.persons")
    staging = empty.folder / "models/staging/netiq/stg_netiq__persons.sql"
    assert "base=source('short', 'persons')" in staging.read_text()
    empty.dbt("run", "--select", staging.stem)
    found = lake.rows(f"select operation, after from afterimage.{staging.stem}")
    assert found == [{"operation": "insert", "after": {"id": 5, "name": "Ada"}}]


def test_several_rows_of_a_key_of_an_event_log_have_a_note(lake: Lake, init: Init) -> None:
    """A child table has only a foreign key, and its events have the key of the parent."""
    told: list[tuple[int, int, str | None, str | None, str | None]] = [
        (0, 1, "phoneno", None, "555-0"),
        (0, 4, None, None, None),
        (0, 1, "phoneno", None, "555-9"),
        (1, 1, "phoneno", None, "555-1"),
        (1, 1, "phoneno", None, "555-2"),
        (1, 2, "phoneno", "555-2", None),
    ]
    events = [
        event(number, kind, "usr_phone", f"idu={user}", column, old, new)
        for number, (user, kind, column, old, new) in enumerate(told, 1)
    ]
    land_table(lake, "phone_log", LOG, events)
    phones = [{"idu": 0, "phoneno": "555-9"}, {"idu": 1, "phoneno": "555-1"}]
    land_table(lake, "usr_phone", {"idu": "int", "phoneno": "string"}, phones)
    output = init.ok("landing.phone_log", "--base", "landing.usr_phone")
    assert "idu=1 has several inserts of one field and no delete. If usr_phone has" in output
    assert "several rows of one idu" not in output
    phones += [{"idu": 1, "phoneno": "555-2"}]
    land_table(lake, "usr_phone", {"idu": "int", "phoneno": "string"}, phones)
    output = init.ok("landing.phone_log", "--base", "landing.usr_phone")
    assert "landing.usr_phone has several rows of one idu, and a history has only one" in output


@pytest.mark.slow
def test_a_further_table_of_an_event_log_has_not_the_base_of_the_first(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Else the query-back of door 5 would read person 5."""
    land_table(lake, "persons", {"id": "int", "name": "string"}, [{"id": 5, "name": "Ada"}], "hr")
    person = event(1, 5, "PERSONS", "id=5", None)
    door = [event(2, 1, "DOORS", "id=5", "room", None, "B"), event(3, 5, "DOORS", "id=5", None)]
    land_table(lake, "doorlog", LOG, [person], schema="gates")
    init.ok("gates.doorlog", "--base", "hr.persons")
    land_table(lake, "doorlog", LOG, [person, *door], schema="gates")
    output = init.ok("gates.*")
    assert "1 events are query-backs" in output
    assert "Without --base they are rejected." in output
    folder = empty.folder / "models/staging/netiq"
    of_doors = (folder / "stg_netiq__doors.sql").read_text()
    assert "base=" not in of_doors
    assert "{'name': 'room', 'type': 'string'}" in of_doors
    assert "'name': 'name'" not in of_doors
    assert "base=source('hr', 'persons')" in (folder / "stg_netiq__persons.sql").read_text()
    tables = yaml.safe_load((empty.folder / "afterimage.yml").read_text())["tables"]
    listed = {one.get("table"): one.get("base") for one in tables}
    assert listed == {None: "hr.persons", "PERSONS": "hr.persons", "DOORS": None}


@pytest.mark.slow
def test_a_base_with_another_name_than_the_only_table_of_a_log_is_asked_about(
    empty: Project, lake: Lake, init: Init
) -> None:
    """Else the query-back of group 5 would read person 5."""
    land_table(lake, "people", {"id": "int", "name": "string"}, [{"id": 5, "name": "Ada"}], "hr")
    land_table(lake, "people_log", LOG, [event(1, 5, "GROUPS", "id=5", None)], schema="hr")
    command = ("hr.people_log", "--base", "hr.people")
    said = init.refused(*command)
    assert "the events in hr.people_log are of GROUPS, and --base is hr.people." in said
    assert "say so with --table GROUPS" in said
    assert not (empty.folder / "models/staging/netiq").exists()
    init.ok(*command, "--table", "GROUPS")
    staging = (empty.folder / "models/staging/netiq/stg_netiq__groups.sql").read_text()
    assert "base=source('hr', 'people')" in staging


@pytest.mark.minutes
def test_check_takes_no_model_of_the_project_for_a_change_table(
    shop: Project, lake: Lake, init: Init
) -> None:
    # The landed table is in the schema of the models.
    land_table(lake, "boats__ct", *ORDERS["orders__ct"], schema="afterimage")
    init.ok("afterimage.boats__ct")
    shop.dbt("run", "--select", "stg_qlik__boats+")
    _, output, _ = init("--check")
    assert "boats_audit" not in output
    assert "stg_qlik__boats" not in output


def test_a_pattern_that_fits_no_table_is_an_error_beside_one_that_does(
    lake: Lake, init: Init
) -> None:
    land_table(lake, "users__ct", *ORDERS["orders__ct"], schema="crm")
    assert init.refused("crm.users*", "crm.typo*") == "afterimage: no table matches crm.typo*"


def test_what_the_list_says_wrong_is_named(tmp_path: Path, project: Project, init: Init) -> None:
    path = tmp_path / "list.yml"
    for text, said in (
        (
            "tables: [{relation: a.b, keys: [id]}]",
            "a.b has unknown options. Allowed: relation, key, name, table, system, base, metadata,"
            " tracking, uow, lsn_times, file_format, arguments, history, models. Got: keys",
        ),
        ("tables: [{key: [id]}]", "each of `tables` needs a relation"),
        (
            "tables: [{relation: a.b, models: [hist]}]",
            "must be among history, current, audit. Got: hist",
        ),
        ("tables: [{relation: a.b}, a.b]", "lists a.b twice"),
        ("tables: [{relation: a.b, key: {a: 1}}]", "key of a.b must be a list"),
        (
            "tables: [{relation: a.b, key: [no]}]",
            "key of a.b must be a list of texts. Got: [False]",
        ),
        ("ignore: 'a.*_tmp'\ntables: [a.b]", "ignore must be a list of texts. Got: a.*_tmp"),
        ("defaults: [iceberg]", "defaults must be a mapping. Got: ['iceberg']"),
        ("tables: a.b", "tables must be a list. Got: a.b"),
        ("- a.b", "must map `tables` to a list"),
        ("tables: [", "is not valid YAML"),
    ):
        path.write_text(text)
        error = init.refused("--from", str(path))
        assert said in error
        assert len(error.splitlines()) == 1


def test_present_rows_need_a_history(shop: Project, lake: Lake, init: Init) -> None:
    path = shop.folder / "afterimage.yml"
    land_table(lake, "bills__ct", *ORDERS["orders__ct"], schema="till")
    path.write_text("tables: [{relation: till.bills__ct, models: [current]}]\n")
    said = init.refused("--from", "afterimage.yml")
    assert "models of till.bills__ct must have history beside current" in said
    assert said.endswith("Got: current")
    assert of_init(shop.folder) == set()
    # One that is there already is enough.
    path.write_text("tables: [{relation: landing.orders__ct, models: [current]}]\n")
    init.ok("--from", "afterimage.yml")
    assert (shop.folder / "models/current/orders_current.sql").is_file()
    shop.dbt("parse")


def test_a_file_of_properties_that_was_edited_gets_the_new_model_at_its_end(
    shop: Project, lake: Lake, init: Init
) -> None:
    land(lake, POLICIES)
    init.ok("landing.policies__ct")
    path = shop.folder / "models/history/_history.yml"
    mine = path.read_text().replace("What each row of policies was", "Policies")
    path.write_text(mine)
    land_table(lake, "items__ct", *ORDERS["orders__ct"])
    output = init.ok("landing.items__ct")
    assert "wrote  models/history/_history.yml (added at the end)" in output
    assert path.read_text().startswith(mine)
    assert "name: items_history" in path.read_text()
    shop.dbt("parse")


def test_a_file_that_takes_no_more_keeps_no_other_table_from_its_models(
    shop: Project, lake: Lake, init: Init
) -> None:
    columns, rows = ORDERS["orders__ct"]
    land_table(lake, "skiffs__ct", columns, rows, schema="slip")
    init.ok("slip.skiffs__ct")
    path = shop.folder / "models/staging/qlik/_stg_qlik.yml"
    board = "exposures:\n  - {name: board, type: dashboard, owner: {name: me}}\n"
    mine = path.read_text() + "\n" + board
    path.write_text(mine)
    # A new column of a table that is there is no reason to stop.
    land_table(lake, "skiffs__ct", {**columns, "amount": "int"}, rows, schema="slip")
    assert "kept   models/staging/qlik/_stg_qlik.yml (edited by hand)" in init.ok("slip.*")
    assert "amount" in (shop.folder / "models/history/_history.yml").read_text()

    land_table(lake, "yawls__ct", columns, rows, schema="slip")
    land_table(lake, "bills_cd", *LOANS.tables["cd_loans"], schema="slip")
    with (shop.folder / "afterimage.yml").open("a") as file:
        file.write("  - relation: slip.bills_cd\n    key: [LOAN]\n")
    code, output, errors = init("slip.*")
    assert (code, errors) == (1, "")
    said = "models/staging/qlik/_stg_qlik.yml was edited, so nothing can be added at its end."
    assert f"slip.yawls__ct: {said} Add stg_qlik__yawls yourself:\n  - name: stg_q" in output
    assert path.read_text() == mine
    text = (shop.folder / "afterimage.yml").read_text()
    assert f"# {said} Add stg_qlik__yawls yourself:\n  # - relation: slip.yawls__ct\n" in text
    assert not list(shop.folder.rglob("*yawls*"))
    assert (shop.folder / "models/staging/db2/stg_db2__bills.sql").is_file()
    shop.dbt("parse")


@pytest.mark.slow
def test_a_pattern_matches_files_that_are_read_in_place(
    shop: Project, lake: Lake, init: Init, tmp_path: Path
) -> None:
    # No schema of the catalog has the source's name.
    for till in ("north", "south"):
        lake.frame(*ORDERS["orders__ct"]).write.parquet(str(tmp_path / till))
    source = "sources: [{name: quay, schema: parquet, quoting: {identifier: true}, tables: [%s]}]"
    tables = [f'{{name: {till}, identifier: "{tmp_path / till}"}}' for till in ("north", "south")]
    shop.file("models/quay.yml", source % ", ".join(tables))
    output = init.ok("quay.n*")
    assert "quay.north is a Qlik change table" in output
    code, output, errors = init("--check")
    assert (code, errors) == (1, "")
    assert "quay.south: a Qlik change table, and not in the list" in output.splitlines()


@pytest.mark.slow
def test_files_are_named_as_spark_names_them(
    shop: Project, lake: Lake, init: Init, tmp_path: Path
) -> None:
    folder = tmp_path / "the tills" / "tills__ct"
    lake.frame(*ORDERS["orders__ct"]).write.parquet(str(folder))
    output = init.ok(f"parquet.`{folder}`")
    assert "is a Qlik change table" in output
    shop.dbt("run", "--select", "stg_qlik__tills+")
    assert lake.rows("select id, status from afterimage.tills_current") == [
        {"id": 5, "status": "paid"}
    ]
    other = tmp_path / "other tills" / "tills__ct"
    lake.frame(*ORDERS["orders__ct"]).write.parquet(str(other))
    before = bytes_of_init(shop.folder)
    error = init.refused(f"parquet.`{other}`", "--name", "other_tills")
    assert (
        f"would be the source parquet.tills__ct, but parquet.tills__ct is parquet.{folder}" in error
    )
    assert bytes_of_init(shop.folder) == before
