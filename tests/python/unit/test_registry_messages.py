"""Avro messages of a schema registry: read right, or refused with a reason."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from dbt_afterimage.udfs.avro import MessageError
from dbt_afterimage.udfs.registry_messages import decode_registry_message
from registry_messages import decimal, envelope, framed, logical, record

ONE_TEXT = json.dumps(record("R", {"a": "string"}))


def one_value(kind: Any, value: Any) -> Any:
    """Write one value of a type, and read it."""
    schema = record("R", {"a": kind})
    decoded = decode_registry_message(framed(7, schema, {"a": value}), json.dumps(schema))
    assert decoded is not None
    return json.loads(decoded["message"] or "")["a"]


def test_null_is_null() -> None:
    assert decode_registry_message(None, ONE_TEXT) is None
    assert decode_registry_message(b"\0\0\0\0\7\4ok", None) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_hand_made_message_is_read(kind: Any) -> None:
    # A zero byte, the id 7, a text of two bytes (zigzag 4).
    value = kind(bytes.fromhex("00 00000007 04 6F6B"))
    assert decode_registry_message(value, ONE_TEXT) == {"message": '{"a": "ok"}'}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("boolean", True, True),
        ("int", -(2**31), -(2**31)),
        ("long", 2**63 - 1, 2**63 - 1),
        ("float", 0.5, "0.5"),
        # Nine digits tell all floats apart.
        ("float", 0.1, "0.1"),
        ("float", 16777216.0, "16777216.0"),
        ("float", 3.4028234663852886e38, "3.4028235e+38"),
        ("float", float("-inf"), "-Infinity"),
        ("float", float("nan"), "NaN"),
        ("double", 0.1, "0.1"),
        ("double", 1e300, "1e+300"),
        ("double", float("nan"), "NaN"),
        ("string", 'q"uote\\ \u00e9\n', 'q"uote\\ \u00e9\n'),
        (["null", "string"], None, None),
        ("bytes", b"", ""),
        ("bytes", b"hi", "aGk="),
        ({"type": "fixed", "name": "F", "size": 3}, b"hi!", "aGkh"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": ["null", "string"]}, ["a", None], ["a", None]),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        # The scale is the schema's.
        (decimal(10, 2), Decimal("12.5"), "12.50"),
        (decimal(10, 2), Decimal("-0.05"), "-0.05"),
        (decimal(38, 0), Decimal(10**37), 10**37),
        (
            record("Scaled", {"scale": "int", "value": "bytes"}),
            {"scale": 1, "value": b"\1"},
            {"scale": 1, "value": "AQ=="},
        ),
        # 19783 days are 54 years with 13 leap days, January, February and no day of March.
        (logical("int", "io.debezium.time.Date"), 19783, "2024-03-01"),
        (
            logical("int", "org.apache.kafka.connect.data.Date", logicalType="date"),
            -1,
            "1969-12-31",
        ),
        (logical("int", "io.debezium.time.Date"), 2932897, "2932897 days since 1970"),
        (
            logical("long", "io.debezium.time.Timestamp"),
            1709283600123,
            "2024-03-01 09:00:00.123000Z",
        ),
        (
            logical(
                "long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis"
            ),
            -1,
            "1969-12-31 23:59:59.999000Z",
        ),
        (
            logical("long", "io.debezium.time.MicroTimestamp"),
            1709283600123456,
            "2024-03-01 09:00:00.123456Z",
        ),
        (
            logical("long", "io.debezium.time.NanoTimestamp"),
            1709283600123456789,
            "2024-03-01 09:00:00.123456Z",
        ),
        (
            logical("long", "io.debezium.time.MicroTimestamp"),
            253402300800000000,
            "253402300800000000 microseconds since 1970",
        ),
        # PostgreSQL's infinity
        (logical("int", "io.debezium.time.Date"), -2147472692, "infinity"),
        (logical("int", "io.debezium.time.Date"), -2147472691, "-infinity"),
        (logical("int", "io.debezium.time.Date"), -622191234, "infinity"),
        (logical("int", "io.debezium.time.Date"), -625821272, "-infinity"),
        (logical("long", "io.debezium.time.Timestamp"), 9223372036825200, "infinity"),
        (logical("long", "io.debezium.time.Timestamp"), -9223372036832400, "-infinity"),
        (logical("long", "io.debezium.time.MicroTimestamp"), 9223372036825200000, "infinity"),
        (logical("long", "io.debezium.time.MicroTimestamp"), -9223372036832400000, "-infinity"),
        (logical("long", "io.debezium.time.NanoTimestamp"), 2**63 - 1, "infinity"),
        (logical("long", "io.debezium.time.NanoTimestamp"), -(2**63), "-infinity"),
        (logical("string", "io.debezium.time.IsoDate"), "2024-03-01Z", "2024-03-01Z"),
        (
            logical("string", "io.debezium.time.ZonedTimestamp"),
            "2024-03-01T09:00:00Z",
            "2024-03-01T09:00:00Z",
        ),
        (logical("long", "io.debezium.time.MicroTime"), 32400000000, 32400000000),
    ],
)
def test_values_are_those_of_json_without_its_doubts(kind: Any, value: Any, read: Any) -> None:
    found = one_value(kind, value)
    assert (type(found), found) == (type(read), read)


@pytest.mark.parametrize(
    ("kind", "data", "read"),
    [
        ({"type": "bytes", "precision": 2, "scale": 5}, "04 0457", "0.01111"),
        ({"type": "fixed", "name": "F", "size": 2, "precision": 19, "scale": 1}, "0457", "111.1"),
    ],
)
def test_a_decimal_may_have_any_precision(kind: Any, data: str, read: str) -> None:
    """Avro ignores a precision that is wrong, as that of Oracle's NUMBER(2,5)."""
    schema = json.dumps(record("R", {"a": {**kind, "logicalType": "decimal"}}))
    decoded = decode_registry_message(bytes.fromhex(f"00 00000007 {data}"), schema)
    assert decoded == {"message": f'{{"a": "{read}"}}'}


def test_an_envelope_is_read() -> None:
    schema = envelope({"id": "int", "name": ["null", "string"]}, {"lsn": ["null", "long"]})
    change = {
        "before": None,
        "after": {"id": 1, "name": "a"},
        "source": {"lsn": 9},
        "transaction": None,
        "op": "c",
        "ts_ms": 5,
    }
    decoded = decode_registry_message(framed(1, schema, change), json.dumps(schema))
    assert decoded is not None
    assert json.loads(decoded["message"] or "") == change


def test_a_default_is_not_checked() -> None:
    # Avro wants a default of the first branch, but reading needs no default.
    schema = record("R", {"a": ["null", "long"]})
    schema["fields"][0]["default"] = "\0"
    decoded = decode_registry_message(bytes.fromhex("00 00000007 02 02"), json.dumps(schema))
    assert decoded == {"message": '{"a": 1}'}


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("00 00000007 06 6F6B", ONE_TEXT, "the message: 3 bytes are announced, 2 are there"),
        ("00 00000007 04 6F6B 00", ONE_TEXT, "the message: 1 bytes are left over"),
        ("00 00000007", ONE_TEXT, "the message: ends in the middle of a value"),
        ("00 000000", ONE_TEXT, "does not begin with a zero byte and the id of a schema"),
        ("01 00000007 04 6F6B", ONE_TEXT, "does not begin with a zero byte"),
        ("00 00000007", "{", "the schema of the message: not an Avro schema: JSONDecodeError"),
        (
            "00 00000007",
            json.dumps(
                record("R", {"a": {"type": "bytes", "logicalType": "decimal", "scale": -1}})
            ),
            "the schema of the message: not an Avro schema",
        ),
        (
            "00 00000007",
            json.dumps(record("R", {"a": {"type": "long", "connect.name": ["x"]}})),
            "the schema of the message: not an Avro schema: TypeError",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(value: str, schema: str, message: str) -> None:
    with pytest.raises(MessageError, match=message):
        decode_registry_message(bytes.fromhex(value), schema)


def test_damaged_bytes_are_read_or_refused() -> None:
    row = {"id": "int", "at": ["null", logical("long", "io.debezium.time.MicroTimestamp")]}
    schema = envelope({**row, "price": ["null", decimal(9, 2)]}, {"pos": "long"})
    after = {"id": 1, "at": 1709283600123456, "price": Decimal("1.25")}
    change = {"before": after, "after": after, "source": {"pos": 9}, "transaction": None}
    whole = framed(1, schema, {**change, "op": "u", "ts_ms": 5})
    text = json.dumps(schema)
    order = random.Random(1)
    for _ in range(5_000):
        data = bytearray(whole)
        for _ in range(order.randrange(1, 4)):
            data[order.randrange(len(data))] = order.randrange(256)
        try:
            decoded = decode_registry_message(data[: order.randrange(1, len(data) + 1)], text)
        except MessageError:
            continue
        assert decoded is not None
        assert isinstance(json.loads(decoded["message"] or ""), dict)
