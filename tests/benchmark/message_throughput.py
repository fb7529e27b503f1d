"""How many messages a second the staging of Kafka messages takes in: Qlik's, or Debezium's.

    python tests/benchmark/message_throughput.py [messages] [form] [rounds]

The forms are json, avro, debezium, debezium_avro, or all of them. Writes the messages into the
warehouse (AFTERIMAGE_WAREHOUSE), builds `qlik_messages` (json, avro) or `debezium_messages`
(debezium, debezium_avro) over them as a table with dbt's own session, in turn with the limit, and
prints the median seconds of both. A round before the first warms up. A tenth of the messages is
delivered twice. The data has ten columns of all usual types.

The limit reads the same messages into typed columns, shuffles them by the key, sorts and writes
them: JSON by Spark's own from_json, Avro by fastavro in batches of Arrow.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [
    str(ROOT / name)
    for name in ("tests/benchmark", "tests/python", "tests/python/support", "python_udfs")
]
sys.path[:0] = FOLDERS
# Spark's workers, which make the messages, look there too.
os.environ["PYTHONPATH"] = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])

import fastavro  # noqa: E402

from bench import measure  # noqa: E402
from conftest import SCHEMA, Project  # noqa: E402
from qlik_messages import (  # noqa: E402
    avro_message,
    column,
    data_schema,
    headers,
    json_message,
    metadata,
)
from registry_messages import decimal, envelope, framed, logical  # noqa: E402

COLUMNS = [
    column("ID", "INT8", key=1),
    column("NAME", "STRING"),
    column("CITY", "STRING"),
    column("STREET", "STRING"),
    column("BALANCE", "NUMERIC", 12, 2),
    column("BORN_ON", "DATE"),
    column("SEEN_AT", "DATETIME"),
    column("SCORE", "REAL8"),
    column("ACTIVE", "BOOLEAN"),
    column("NOTES", "STRING"),
]
DEBEZIUM_COLUMNS = [
    {"name": name, "type": kind}
    for name, kind in {
        "ID": "bigint",
        "NAME": "string",
        "CITY": "string",
        "STREET": "string",
        "BALANCE": "decimal(12,2)",
        "BORN_ON": "date",
        "SEEN_AT": "timestamp(3)",
        "SCORE": "double",
        "ACTIVE": "boolean",
        "NOTES": "string",
    }.items()
]
DATA_SCHEMA = fastavro.parse_schema(data_schema(COLUMNS))
START = datetime(2024, 1, 1)
DEBEZIUM_SCHEMA = fastavro.parse_schema(
    envelope(
        {
            "ID": "long",
            "NAME": "string",
            "CITY": "string",
            "STREET": "string",
            "BALANCE": decimal(12, 2),
            "BORN_ON": logical("int", "io.debezium.time.Date"),
            "SEEN_AT": logical("long", "io.debezium.time.Timestamp"),
            "SCORE": "double",
            "ACTIVE": "boolean",
            "NOTES": ["null", "string"],
        },
        {"snapshot": "string", "db": "string", "table": "string", "ts_ms": "long"}
        | {"file": "string", "pos": "long", "row": "int"},
    )
)


def row(number: int, version: int) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "ID": number,
        "NAME": f"Customer number {number}",
        "CITY": ("Oslo", "Rome", "Kyiv")[version % 3],
        "STREET": f"{version} Long Street",
        "BALANCE": Decimal(number * 7 % 1_000_000) / 100,
        "BORN_ON": (START - timedelta(days=number % 20_000)).date(),
        "SEEN_AT": START + timedelta(seconds=number),
        "SCORE": number / 8,
        "ACTIVE": number % 2 == 0,
        "NOTES": None if number % 5 else "a note of some length, as people write them",
    }


def debezium_row(values: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the MySQL connector writes it."""
    return {
        **values,
        "BORN_ON": (values["BORN_ON"] - datetime(1970, 1, 1).date()).days,
        "SEEN_AT": (values["SEEN_AT"] - datetime(1970, 1, 1)) // timedelta(milliseconds=1),
    }


def in_json(change: dict[str, Any]) -> str:
    """Return a change in JSON, with decimals in Base64."""
    for values in filter(None, (change["before"], change["after"])):
        unscaled = int(values["BALANCE"] * 100).to_bytes(5, "big", signed=True)
        values["BALANCE"] = base64.b64encode(unscaled).decode()
    # JsonConverter writes no spaces.
    return json.dumps(change, separators=(",", ":"))


def message(number: int, form: str) -> str | bytes:
    """Return the message with a number: an update of one of many rows, or its insert."""
    key = number * 7919 % 100_003
    version = number // 100_003
    moment = datetime(2024, 1, 1) + timedelta(seconds=number // 100)
    if form.startswith("debezium"):
        source = {"ts_ms": 1704067200000 + number, "file": "binlog.000001", "pos": number}
        change = {
            "before": debezium_row(row(key, version)) if version else None,
            "after": debezium_row(row(key, version + 1)),
            "source": {"snapshot": "false", "db": "crm", "table": "T", "row": 0, **source},
            "op": "u" if version else "c",
            "ts_ms": 1704067200500 + number,
        }
        if form == "debezium":
            return in_json(change)
        return framed(7, DEBEZIUM_SCHEMA, {**change, "transaction": None})
    body = {
        "data": row(key, version + 1),
        "beforeData": row(key, version) if version else None,
        "headers": headers(
            "UPDATE" if version else "INSERT",
            # A hundred changes a second, as a log has them: messages that land later are later.
            changeSequence=f"{moment:%Y%m%d%H%M%S}00{number:019d}",
            timestamp="2024-01-01T00:00:00.000",
            transactionId=f"{number // 10:032X}",
            changeMask="000C" if version else "03FF",
            columnMask="03FF",
            externalSchemaId="v1",
            transactionEventCounter=number % 10 + 1,
            transactionLastEvent=number % 10 == 9,
        ),
    }
    if form == "avro":
        return avro_message("DT", DATA_SCHEMA, body, "v1")
    return json_message("DT", body)


def write(spark: Any, form: str, messages: int) -> None:
    """Land the messages, made by Spark's own workers."""
    from pyspark.sql.functions import col, udf

    kind = "binary" if form.endswith("avro") else "string"
    # A message made once in eleven numbers is the one before it, delivered again.
    make = udf(lambda number: message(number - number // 11, form), kind)
    frame = spark.range(0, messages, 1, 4).select(
        make(col("id")).alias("value"), col("id").alias("offset")
    )
    frame.writeTo(f"{SCHEMA}.landed_{form}").using("iceberg").createOrReplace()
    if form == "debezium_avro":
        spark.createDataFrame([(7, json.dumps(DEBEZIUM_SCHEMA))], "id int, schema string").writeTo(
            f"{SCHEMA}.landed_debezium_avro_schemas"
        ).using("iceberg").createOrReplace()
    if form.startswith("debezium"):
        return
    described = metadata(form, "v1", "T", 1, COLUMNS)["value"]
    spark.createDataFrame([(described,)], f"value {kind}").writeTo(
        f"{SCHEMA}.landed_{form}_metadata"
    ).using("iceberg").createOrReplace()


# What the limit reads of a message: its place, and its row before and after.
_ROW = (
    "ID bigint, NAME string, CITY string, STREET string, BALANCE decimal(12,2), BORN_ON date,"
    " SEEN_AT timestamp, SCORE double, ACTIVE boolean, NOTES string"
)
# Debezium writes days and milliseconds as numbers, and in JSON decimals as Base64.
_NUMBERS_ROW = _ROW.replace("date", "int").replace("timestamp", "bigint")
_DEBEZIUM_ROW = _NUMBERS_ROW.replace("decimal(12,2)", "string")
_QLIK_MESSAGE = (
    "magic string, type string, message struct<headers: struct<operation: string,"
    " changeSequence: string, `timestamp`: string, transactionId: string, changeMask: string,"
    " columnMask: string, externalSchemaId: string, transactionEventCounter: string,"
    f" transactionLastEvent: string>, data: struct<{_ROW}>, beforeData: struct<{_ROW}>>"
)
_DEBEZIUM_MESSAGE = (
    f"before struct<{_DEBEZIUM_ROW}>, after struct<{_DEBEZIUM_ROW}>, op string, ts_ms bigint,"
    " source struct<ts_ms: bigint, file: string, pos: bigint, row: int, snapshot: string,"
    " db: string, `table`: string>"
)


def limit(spark: Any, form: str) -> None:
    """Write what the limit makes of the messages."""
    landed = f"{SCHEMA}.landed_{form}"
    if form.endswith("avro"):
        row = _NUMBERS_ROW if form == "debezium_avro" else _ROW
        spark.table(landed).select("value").mapInArrow(
            _decoder(form), f"place string, image struct<{row}>, row_before struct<{row}>"
        ).createOrReplaceTempView("typed_messages")
        rows = "typed_messages"
    elif form == "debezium":
        rows = (
            "(select m.source.pos as place, m.after as image, m.before as row_before, m.op,"
            " m.source.ts_ms as changed_at"
            f" from (select from_json(value, '{_DEBEZIUM_MESSAGE}') as m from {landed}))"
        )
    else:
        rows = (
            "(select m.headers.changeSequence as place, m.data as image,"
            " m.beforeData as row_before, m.headers.operation as op,"
            " m.headers.`timestamp` as changed_at"
            f" from (select from_json(value, '{_QLIK_MESSAGE}').message as m from {landed}))"
        )
    spark.sql(
        f"create or replace table {SCHEMA}.limit_{form} using iceberg as"
        f" select * from {rows} distribute by image.ID sort by image.ID, place"
    )


def _decoder(form: str) -> Any:
    """Return a function that reads batches of Avro messages with fastavro."""

    def decode(batches: Any) -> Any:
        import io

        import pyarrow

        from qlik_messages import PARSED_ENVELOPE

        for batch in batches:
            rows = []
            for value in batch.column("value").to_pylist():
                if form == "debezium_avro":
                    change = fastavro.schemaless_reader(
                        io.BytesIO(value[5:]), DEBEZIUM_SCHEMA, None
                    )
                    place, image, before = (
                        change["source"]["pos"],
                        change["after"],
                        change["before"],
                    )
                else:
                    opened = fastavro.schemaless_reader(io.BytesIO(value), PARSED_ENVELOPE, None)
                    change = fastavro.schemaless_reader(
                        io.BytesIO(opened["message"]), DATA_SCHEMA, None
                    )
                    place = change["headers"]["changeSequence"]
                    image, before = change["data"], change["beforeData"]
                rows.append({"place": str(place), "image": image, "row_before": before})
            yield pyarrow.RecordBatch.from_pylist(rows, schema=_arrow_schema(form))

    return decode


def _arrow_schema(form: str) -> Any:
    import pyarrow

    of_debezium = form == "debezium_avro"

    row = pyarrow.struct(
        [
            ("ID", pyarrow.int64()),
            ("NAME", pyarrow.string()),
            ("CITY", pyarrow.string()),
            ("STREET", pyarrow.string()),
            ("BALANCE", pyarrow.decimal128(12, 2)),
            ("BORN_ON", pyarrow.int32() if of_debezium else pyarrow.date32()),
            ("SEEN_AT", pyarrow.int64() if of_debezium else pyarrow.timestamp("us", "UTC")),
            ("SCORE", pyarrow.float64()),
            ("ACTIVE", pyarrow.bool_()),
            ("NOTES", pyarrow.string()),
        ]
    )
    return pyarrow.schema([("place", pyarrow.string()), ("image", row), ("row_before", row)])


def main(messages: int, forms: list[str], rounds: int) -> None:
    """Land, stage, and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AFTERIMAGE_WAREHOUSE", f"{folder}/warehouse")
        os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
        (Path(folder) / "project").mkdir()
        project = Project(Path(folder) / "project")
        for form in ("json", "avro"):
            landed = f"api.Relation.create(schema='{SCHEMA}', identifier='landed_{form}')"
            described = landed.replace(f"landed_{form}", f"landed_{form}_metadata")
            project.file(
                f"models/schemas_{form}.sql",
                "{{ config(materialized='table', file_format='iceberg') }}\n"
                f"{{{{ qlik_message_schemas({described}) }}}}",
            )
            project.file(
                f"models/staged_{form}.sql",
                "{{ config(materialized='table', file_format='iceberg') }}\n"
                f"{{{{ qlik_messages({landed}, unique_key=['ID'],"
                f" metadata=ref('schemas_{form}')) }}}}",
            )
        for form in ("debezium", "debezium_avro"):
            landed = f"api.Relation.create(schema='{SCHEMA}', identifier='landed_{form}')"
            schemas = landed.replace(form, f"{form}_schemas") if form == "debezium_avro" else "none"
            project.file(
                f"models/staged_{form}.sql",
                "{{ config(materialized='table', file_format='iceberg') }}\n"
                f"{{{{ debezium_messages({landed}, unique_key=['ID'], columns={DEBEZIUM_COLUMNS},"
                f" schemas={schemas}) }}}}",
            )
        project.file("models/first.sql", "select 1 as one")
        project.dbt("run", "--select", "first")
        from dbt_afterimage.runtime.session import open_session

        spark = open_session({})
        for form in forms:
            write(spark, form, messages)
            if not form.startswith("debezium"):
                project.dbt("run", "--select", f"schemas_{form}")
            ways = {
                "ours": lambda form=form: project.dbt("run", "--select", f"staged_{form}"),
                "limit": lambda form=form: limit(spark, form),
            }
            seconds = measure(ways, rounds, form)
            found = spark.sql(
                "select count(*) as changes, sum(source_rows) as rows,"
                f" count(reject_reason) as rejected from {SCHEMA}.staged_{form}"
            ).first()
            assert found is not None
            assert (found["rows"], found["rejected"]) == (messages, 0), found
            ours, least = seconds["ours"], seconds["limit"]
            print(
                json.dumps(
                    {
                        "format": form,
                        "messages": messages,
                        "changes": found["changes"],
                        "seconds": round(ours, 1),
                        "limit": round(least, 1),
                        "times_the_limit": round(ours / least, 2),
                        "cores": os.cpu_count(),
                    }
                ),
                flush=True,
            )
        spark.stop()


if __name__ == "__main__":
    chosen = sys.argv[2] if len(sys.argv) > 2 else "all"
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000,
        ["json", "avro", "debezium", "debezium_avro"] if chosen == "all" else [chosen],
        int(sys.argv[3]) if len(sys.argv) > 3 else 3,
    )
