"""Qlik's messages, written as Qlik writes them: by the manual, and with fastavro's writer."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro

ENVELOPE = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}

PARSED_ENVELOPE = fastavro.parse_schema(ENVELOPE)

# Qlik, "Kafka target data types": what a column is in Avro, with logical types.
AVRO_TYPES: dict[str, Any] = {
    "BOOLEAN": "boolean",
    "INT4": "int",
    "INT8": "long",
    "REAL8": "double",
    "STRING": "string",
    "CLOB": "string",
    "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "DATETIME": {"type": "long", "logicalType": "timestamp-micros"},
}

TEXT_HEADERS = (
    "changeSequence",
    "timestamp",
    "streamPosition",
    "transactionId",
    "changeMask",
    "columnMask",
    "externalSchemaId",
)

Column = dict[str, Any]
_NULLABLE = ["null", "string"]


def column(name: str, kind: str, precision: int = 0, scale: int = 0, key: int = 0) -> Column:
    """Describe a column, as metadata messages do."""
    return {
        "name": name,
        "type": kind,
        "length": 0,
        "precision": precision,
        "scale": scale,
        "primaryKeyPosition": key,
    }


def data_schema(
    columns: Sequence[Column],
    required: Sequence[str] = (),
    masks: str = "string",
    lacks: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the Avro schema of a table's data messages; some headers may be texts without NULL.

    The masks may be texts, as in JSON, or `bytes`, as in public copies of Qlik's own schema. It
    may lack some headers.
    """
    types = {"changeMask": ["null", masks], "columnMask": ["null", masks]}
    fields = []
    for described in columns:
        kind = AVRO_TYPES.get(described["type"]) or {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": described["precision"],
            "scale": described["scale"],
        }
        fields.append({"name": described["name"], "type": ["null", kind]})
    operations = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
    return {
        "type": "record",
        "name": "DataMessage",
        "fields": [
            {"name": "data", "type": ["null", record("Data", fields)]},
            {"name": "beforeData", "type": ["null", "Data"]},
            {
                "name": "headers",
                "type": record(
                    "Headers",
                    [
                        {
                            "name": "operation",
                            "type": {"type": "enum", "name": "Operation", "symbols": operations},
                        },
                        *(
                            {
                                "name": name,
                                "type": "string"
                                if name in required
                                else types.get(name, _NULLABLE),
                            }
                            for name in TEXT_HEADERS
                            if name not in lacks
                        ),
                        {"name": "transactionEventCounter", "type": ["null", "long"]},
                        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
                    ],
                ),
            },
        ],
    }


def record(name: str, fields: list[Any]) -> dict[str, Any]:
    """Return an Avro record."""
    return {"type": "record", "name": name, "fields": fields}


METADATA = record(
    "MetadataMessage",
    [
        {"name": "schemaId", "type": "string"},
        {
            "name": "lineage",
            "type": record(
                "Lineage",
                [
                    *(
                        {"name": name, "type": "string"}
                        for name in ("server", "task", "schema", "table", "timestamp")
                    ),
                    {"name": "tableVersion", "type": "int"},
                ],
            ),
        },
        {
            "name": "tableStructure",
            "type": record(
                "TableStructure",
                [
                    {
                        "name": "tableColumns",
                        "type": {
                            "type": "map",
                            "values": record(
                                "ColumnInfo",
                                [
                                    {"name": "type", "type": "string"},
                                    *(
                                        {"name": name, "type": "int"}
                                        for name in (
                                            "ordinal",
                                            "length",
                                            "precision",
                                            "scale",
                                            "primaryKeyPosition",
                                        )
                                    ),
                                ],
                            ),
                        },
                    }
                ],
            ),
        },
        {"name": "dataSchema", "type": "string"},
    ],
)


def encode(schema: Any, value: Any) -> bytes:
    """Write a value in Avro."""
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def avro_message(
    kind: str, schema: Any, message: Any, schema_id: str | None = None, own_schema: bool = False
) -> bytes:
    """Write a message in the Avro format."""
    return encode(
        PARSED_ENVELOPE,
        {
            "magic": b"atMSG",
            "type": kind,
            "headers": None,
            "messageSchemaId": schema_id,
            "messageSchema": json.dumps(schema) if own_schema else None,
            "message": encode(schema, message),
        },
    )


def json_message(kind: str, message: Any) -> str:
    """Write a message in the JSON format."""
    envelope = {
        "magic": "atMSG",
        "type": kind,
        "headers": None,
        "messageSchemaId": None,
        "messageSchema": None,
        "message": message,
    }
    # Replicate writes no spaces.
    return json.dumps(envelope, default=str, separators=(",", ":"))


def metadata(
    form: str,
    schema_id: str,
    table: str,
    version: int,
    columns: Sequence[Column],
    day: int | None = None,
    schema: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a landed metadata message, in the form `json` or `avro`, of a day of January."""
    body = {
        "schemaId": schema_id,
        "lineage": {
            "server": "replicate-1",
            "task": "task",
            "schema": "dbo",
            "table": table,
            "tableVersion": version,
            "timestamp": f"2024-01-{day or version:02d}T00:00:00.000",
        },
        "tableStructure": {
            "tableColumns": {
                described["name"]: {"ordinal": place}
                | {name: value for name, value in described.items() if name != "name"}
                for place, described in enumerate(columns, start=1)
            }
        },
        "dataSchema": json.dumps(schema or data_schema(columns)),
    }
    if form == "json":
        return {"value": json_message("MD", body)}
    return {"value": avro_message("MD", METADATA, body, own_schema=True)}


def mask(names: Sequence[str], columns: Sequence[str]) -> str:
    """Return the hex numeral that flags columns."""
    bits = sum(1 << columns.index(name) for name in names)
    return bits.to_bytes(len(columns) // 8 + 1, "big").hex().upper()


def headers(operation: str, **given: Any) -> dict[str, Any]:
    """Return the headers of a data message; what is not given is NULL."""
    empty = dict.fromkeys([*TEXT_HEADERS, "transactionEventCounter", "transactionLastEvent"])
    return {"operation": operation, **empty, **given}
