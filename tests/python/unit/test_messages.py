"""Qlik's Avro messages: read right, or refused with a reason."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dbt_afterimage.udfs import avro
from dbt_afterimage.udfs.avro import MessageError
from dbt_afterimage.udfs.messages import decode_avro_message
from dbt_afterimage.udfs.spark import vectorised
from qlik_messages import ENVELOPE, avro_message, column, data_schema, encode, headers, record

ONE_TEXT = json.dumps(record("R", [{"name": "a", "type": "string"}]))

# By hand from the Avro specification: magic, type "DT", no headers, messageSchemaId "v1", no
# messageSchema, 3 bytes of message: the text "ok" as the first and only field.
HAND_MADE = "61744D5347 04 4454 00 02 04 7631 00 06 04 6F6B"


def hand_made(text: str = HAND_MADE) -> bytes:
    return bytes.fromhex(text)


def read(value: bytes, schema: Any) -> Any:
    """Decode a payload of a schema."""
    decoded = decode_avro_message(value, schema if isinstance(schema, str) else json.dumps(schema))
    assert decoded is not None
    return json.loads(decoded["message"] or "")


def message_of(payload: bytes) -> bytes:
    """Put a payload into an envelope."""
    return encode(
        ENVELOPE,
        {
            "magic": b"atMSG",
            "type": "DT",
            "headers": None,
            "messageSchemaId": "v1",
            "messageSchema": None,
            "message": payload,
        },
    )


def one_value(kind: Any, value: Any) -> Any:
    """Write one value of a type, and read it."""
    schema = record("R", [{"name": "a", "type": kind}])
    return read(message_of(encode(schema, {"a": value})), schema)["a"]


def test_null_is_null() -> None:
    assert decode_avro_message(None) is None
    assert decode_avro_message(None, ONE_TEXT) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_hand_made_message_is_read(kind: Any) -> None:
    assert decode_avro_message(kind(hand_made()), ONE_TEXT) == {
        "type": "DT",
        "schema_id": "v1",
        "message": '{"a": "ok"}',
    }


def test_without_a_schema_the_envelope_alone_is_read() -> None:
    assert decode_avro_message(hand_made()) == {"type": "DT", "schema_id": "v1", "message": None}


def test_envelope_may_have_headers_and_no_schema_id() -> None:
    value = encode(
        ENVELOPE,
        {
            "magic": b"atMSG",
            "type": "MD",
            "headers": {"a": "b", "c": "d"},
            "messageSchemaId": None,
            "messageSchema": ONE_TEXT,
            "message": b"\x04ok",
        },
    )
    expected = {"type": "MD", "schema_id": None, "message": '{"a": "ok"}'}
    assert decode_avro_message(value) == expected
    # The envelope's own schema is the one that the message was written with.
    assert decode_avro_message(value, '"long"') == expected


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("null", None, None),
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("int", -(2**31), "-2147483648"),
        ("long", 2**63 - 1, "9223372036854775807"),
        ("long", 9007199254740993, "9007199254740993"),
        ("float", 0.5, "0.5"),
        ("double", 0.1, "0.1"),
        ("double", float("nan"), "NaN"),
        ("double", float("inf"), "Infinity"),
        ("double", float("-inf"), "-Infinity"),
        ("string", 'q"uote\\ \u00e9\n', 'q"uote\\ \u00e9\n'),
        ("bytes", b"\x00\xff", "00FF"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", "00FF"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        (["null", "string"], None, None),
        (["null", "string"], "", ""),
        ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), "1969-12-31"),
        ({"type": "int", "logicalType": "date"}, date(9999, 12, 31), "9999-12-31"),
        ({"type": "int", "logicalType": "time-millis"}, 52_200_250, "14:30:00.250000"),
        ({"type": "long", "logicalType": "time-micros"}, 86_399_999_999, "23:59:59.999999"),
        ({"type": "long", "logicalType": "timestamp-millis"}, -1, "1969-12-31 23:59:59.999000"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, "1970-01-01 00:00:00.000001"),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            0,
            "1970-01-01 00:00:00.000000",
        ),
        # As Qlik's pages print these names. The writer knows them in small letters alone.
        ({"type": "int", "logicalType": "DATE"}, 9131, "1995-01-01"),
        ({"type": "long", "logicalType": "TIMESTAMP-MICROS"}, 1, "1970-01-01 00:00:00.000001"),
        ({"type": "bytes", "logicalType": "DECIMAL", "scale": 2}, b"\x7b", "1.23"),
        ({"type": "string", "logicalType": "uuid"}, "not checked", "not checked"),
        ({"type": "array", "items": "int"}, [1, 2], ["1", "2"]),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": "1"}),
    ],
)
def test_every_type_is_a_text_that_loses_nothing(kind: Any, value: Any, text: Any) -> None:
    assert one_value(kind, value) == text


@pytest.mark.parametrize(
    ("unscaled", "scale", "text"),
    [
        (0, 0, "0"),
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (12345678901234567890123456789012345678, 10, "1234567890123456789012345678.9012345678"),
        (-1, 0, "-1"),
        (2**600, 0, str(2**600)),
    ],
)
def test_decimals_are_written_in_full(unscaled: int, scale: int, text: str) -> None:
    size = unscaled.bit_length() // 8 + 1
    raw = unscaled.to_bytes(size, "big", signed=True)
    described = {"logicalType": "decimal", "precision": 200, "scale": scale}
    for kind, payload in (
        ({"type": "bytes", **described}, encode("bytes", raw)),
        ({"type": "fixed", "name": "F", "size": size, **described}, raw),
    ):
        with suppress(MessageError):  # fastavro wants the digits to fit a fixed type
            schema = record("R", [{"name": "a", "type": kind}])
            assert read(message_of(payload), schema) == {"a": text}


def test_message_of_qlik_is_read_as_its_json() -> None:
    columns = [column("ID", "INT4", key=1), column("SUM", "NUMERIC", 12, 2)]
    head = headers("UPDATE", changeSequence="2" * 35, changeMask="02", transactionEventCounter=1)
    value = avro_message(
        "DT",
        data_schema(columns),
        {
            "data": {"ID": 1, "SUM": Decimal("1.50")},
            "beforeData": None,
            "headers": head,
        },
        "v1",
    )
    assert read(value, data_schema(columns)) == {
        "data": {"ID": "1", "SUM": "1.50"},
        "beforeData": None,
        "headers": {**head, "transactionEventCounter": "1"},
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "does not begin with atMSG, but with $"),
        ("00 00000001 04", "but with 0000000001, as messages of a schema registry do"),
        ("7B7D", "but with 7B7D"),
        ("61744D5347", "the envelope: ends in the middle of a value"),
        ("61744D5347 04 44", "the envelope: 2 bytes are announced, 1 are there"),
        ("61744D5347 03 4454", "the envelope: a length of -2"),
        ("61744D5347 04 FFFE 00", "the envelope: holds a text that is not UTF-8"),
        ("61744D5347 04 4454 01", "the envelope: branch -1 of a union of 2"),
        ("61744D5347 04 4454 04", "the envelope: branch 2 of a union of 2"),
        ("61744D5347 04 4454 02 FEFFFFFF0F", "the envelope: a list of 2147483647 items"),
        ("61744D5347 04 4454 02 01", "the envelope: ends in the middle"),
        ("61744D5347" + "FF" * 30, "the envelope: a number of more than 64 bits"),
        ("61744D5347 FFFFFFFFFFFFFFFFFF 02", "the envelope: a number of more than 64 bits"),
        (HAND_MADE + "00", "the envelope: 1 bytes are left over"),
        ("61744D5347 04 4454 00 02 04 7631 00 04 04 6F", "the message: 2 bytes are announced, 1"),
        ("61744D5347 04 4454 00 02 04 7631 00 08 04 6F6B 00", "the message: 1 bytes are left over"),
    ],
)
def test_damaged_message_is_refused_with_the_reason(value: str, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode_avro_message(hand_made(value), ONE_TEXT)


@pytest.mark.parametrize(
    ("payload", "text"),
    [("00", None), ("02 02", "1"), ("80 00", None), ("82 80 00 02", "1")],
)
def test_a_branch_may_be_written_in_several_ways(payload: str, text: str | None) -> None:
    schema = record("R", [{"name": "a", "type": ["null", "long"]}])
    assert read(message_of(bytes.fromhex(payload)), schema) == {"a": text}


@pytest.mark.parametrize(("payload", "branch"), [("01", -1), ("04", 2), ("80 01 00", 64)])
def test_a_branch_that_a_union_lacks_is_refused(payload: str, branch: int) -> None:
    schema = json.dumps(record("R", [{"name": "a", "type": ["null", "long"]}]))
    with pytest.raises(MessageError, match=f"the message: branch {branch} of a union of 2"):
        decode_avro_message(message_of(bytes.fromhex(payload)), schema)


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1203])
def test_a_record_may_have_many_fields(count: int) -> None:
    kinds = ["string", ["null", "string"], "long"]
    fields = [{"name": f"f{number}", "type": kinds[number % 3]} for number in range(count)]
    row = {f"f{number}": number if number % 3 == 2 else f"{number}" for number in range(count)}
    value = message_of(encode(record("R", fields), row))
    assert read(value, record("R", fields)) == {name: str(one) for name, one in row.items()}


def test_unions_may_lie_within_unions() -> None:
    """Avro has none such, but the parser takes them."""
    kind: Any = "string"
    for _ in range(150):
        kind = ["null", kind]
    value = message_of(b"\2" * 150 + b"\4ok")
    assert read(value, record("R", [{"name": "a", "type": kind}])) == {"a": "ok"}


def test_envelope_is_known_where_a_message_does_not_fit_the_schema_of_its_id() -> None:
    cut_short = "61744D5347 04 4454 00 02 04 7631 {} 04 04 6F"
    by_id = hand_made(cut_short.format("00"))
    by_its_own = hand_made(cut_short.format("02" + encode("string", ONE_TEXT).hex()))
    opened = vectorised(decode_avro_message, ["type", "schema_id", "message", "error"])(
        pd.Series([by_id, by_its_own]), pd.Series([ONE_TEXT, None])
    )
    reason = "the message: 2 bytes are announced, 1 are there"
    assert opened.values.tolist() == [["DT", "v1", None, reason], [None, None, None, reason]]


def field(kind: Any) -> str:
    return json.dumps(record("R", [{"name": "a", "type": kind}]))


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("int", "8080808010", "an int of more than 32 bits"),
        ("boolean", "02", "a boolean of 2"),
        ("float", "000000", "ends in the middle"),
        ("double", "00000000000000", "ends in the middle"),
        ({"type": "fixed", "name": "F", "size": 3}, "0000", "ends in the middle"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "01", "symbol -1 of an enum of 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "symbol 1 of an enum of 1"),
        ({"type": "int", "logicalType": "date"}, "FEFFFFFF0F", "is no date or time of the years"),
        ({"type": "int", "logicalType": "time-millis"}, "01", "-1 is no date or time"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            "FEFFFFFFFFFFFFFFFF01",
            "is no date or time of the years",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "8204" + "00" * 257,
            "a decimal of 257 bytes",
        ),
        ({"type": "array", "items": "int"}, "FEFFFFFF0F", "a list of 2147483647 items, 0 bytes"),
        ({"type": "array", "items": "int"}, "02", "a list of 1 items, 0 bytes left"),
    ],
)
def test_damaged_value_is_refused_with_the_reason(kind: Any, payload: str, reason: str) -> None:
    with pytest.raises(MessageError, match=f"the message: .*{reason}"):
        decode_avro_message(message_of(bytes.fromhex(payload)), field(kind))


def doubling(depth: int) -> str:
    """Return a short schema whose records hold twice as many values at each level."""
    schema: Any = record("R0", [{"name": "x", "type": "null"}])
    for level in range(1, depth):
        schema = record(
            f"R{level}",
            [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}],
        )
    return json.dumps(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("", "not an Avro schema: JSONDecodeError"),
        ("{", "not an Avro schema"),
        ("5", "not an Avro schema"),
        ("null", "not an Avro schema"),
        ('"decimal"', "not an Avro schema"),
        ('{"type": "record"}', "not an Avro schema"),
        ('{"type": "record", "name": "R", "fields": 5}', "not an Avro schema"),
        ('{"type": "record", "name": "R", "fields": [{}]}', "not an Avro schema"),
        ('{"type": "enum", "name": "E", "symbols": 1}', "not an Avro schema"),
        ('{"type": "record", "__fastavro_parsed__": true}', "says of itself that it was checked"),
        ("[" * 100_000, "nests too deeply"),
        ('{"a":' * 100_000, "nests too deeply"),
        (" " * (avro.MAX_SCHEMA_CHARACTERS + 1), "characters are more than"),
        (doubling(40), "a record of more than 50000 values"),
        (field(["null", "R"]), "the record R holds itself"),
        (
            json.dumps(
                {"type": "record", "name": "R", "fields": [{"name": "n" * 1001, "type": "int"}]}
            ),
            "a name of more than 1000 characters",
        ),
        (field({"type": "array", "items": "null"}), "items hold up to 1 values in 0 bytes"),
        (field({"type": "map", "values": json.loads(doubling(9))}), "values in 1 bytes"),
        (field({"type": "fixed", "name": "F", "size": -1}), "a fixed type of the size -1"),
        (field({"type": "fixed", "name": "F", "size": 10**12}), "a fixed type of the size"),
        (
            field({"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9}),
            "a decimal with the scale 1000000000",
        ),
    ],
)
def test_malformed_or_oversized_schema_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(MessageError, match=f"the schema of the message: .*{reason}"):
        decode_avro_message(hand_made(), schema)


def test_message_that_is_too_long_or_not_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(MessageError, match="18 bytes are more than 10"):
        decode_avro_message(hand_made())
    with pytest.raises(MessageError, match="an Avro message is bytes, got str"):
        decode_avro_message("text")  # type: ignore[arg-type]


def test_message_that_nests_too_deeply_is_refused() -> None:
    """Each record holds the previous one, so no branch of the schema looks deep."""
    records: list[Any] = [{"type": "record", "name": "R0", "fields": []}]
    for number in range(1, 1000):
        inner = {"name": "f", "type": f"R{number - 1}"}
        records.append({"type": "record", "name": f"R{number}", "fields": [inner]})
    with pytest.raises(MessageError, match="nests too deeply"):
        decode_avro_message(message_of(encode("long", 999)), json.dumps(records))


def test_lists_of_a_message_have_a_limit() -> None:
    fields = [{"name": f"n{number}", "type": "null"} for number in range(98)]
    fields.append({"name": "flag", "type": "boolean"})
    item = {"type": "record", "name": "R", "fields": fields}
    schema = json.dumps({"type": "array", "items": item})
    most = avro.MAX_LISTED_VALUES // 100

    def listed(count: int) -> bytes:
        return message_of(encode("long", count) + bytes(count) + b"\0")

    assert len(read(listed(most), schema)) == most
    with pytest.raises(MessageError, match="lists of more than 250000 values"):
        read(listed(most + 1), schema)


def test_few_schemas_are_cached() -> None:
    for number in range(2 * avro.MAX_SCHEMAS_KEPT):
        name = f"R{number}"
        read(hand_made(), json.dumps(record(name, [{"name": "a", "type": "string"}])))
    assert len(avro._readers) <= avro.MAX_SCHEMAS_KEPT


SIMPLE = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string", "bytes"])


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """Draw an Avro type, and a value of it that fastavro can write."""
    kind: Any = draw(SIMPLE)
    shape = draw(st.sampled_from(["simple", "union", "record", "array", "map"]))
    if shape == "union":
        inner, value = draw(schemas_and_values(depth=0))
        if inner == "null":
            return ["null", "int"], None
        return ["null", inner], draw(st.sampled_from([None, value]))
    if shape == "record" and depth:
        parts = draw(st.lists(schemas_and_values(depth=depth - 1), max_size=4))
        fields = [{"name": f"f{place}", "type": part[0]} for place, part in enumerate(parts)]
        return record("R", fields), {f"f{i}": part[1] for i, part in enumerate(parts)}
    if shape in ("array", "map") and depth:
        kind = draw(SIMPLE.filter(lambda simple: simple != "null"))
        items = draw(st.lists(value_of(kind), max_size=4))
        if shape == "array":
            return {"type": "array", "items": kind}, items
        return {"type": "map", "values": kind}, {f"k{i}": item for i, item in enumerate(items)}
    return kind, draw(value_of(kind))


def value_of(kind: str) -> st.SearchStrategy[Any]:
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        # As a double, other floats have more digits than we write; a test of their own has these.
        "float": st.integers(-(2**24), 2**24).map(float)
        | st.integers(-999, 999).map(lambda quarters: quarters / 4)
        | st.sampled_from([float("inf"), float("-inf"), -0.0]),
        "double": st.floats(allow_nan=False),
        "string": st.text(st.characters(exclude_categories=["Cs"])),
        "bytes": st.binary(),
    }[kind]


def numbered(kind: Any, numbers: Iterator[int]) -> Any:
    """Give each record its own name, as a schema requires."""
    if isinstance(kind, dict) and kind["type"] == "record":
        fields = [{**part, "type": numbered(part["type"], numbers)} for part in kind["fields"]]
        return record(f"R{next(numbers)}", fields)
    return kind


def as_text(value: Any) -> Any:
    """Convert what fastavro's reader gives to the form of our reader."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, dict):
        return {name: as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return value


@given(schemas_and_values())
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(drawn: tuple[Any, Any]) -> None:
    kind, value = drawn
    schema = record("Top", [{"name": "a", "type": numbered(kind, count())}])
    payload = encode(json.loads(json.dumps(schema)), {"a": value})
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert read(message_of(payload), schema) == as_text(
        fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
    )


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_no_digits_but_those_that_tell_it_apart(value: float) -> None:
    schema = record("Top", [{"name": "a", "type": "float"}])
    found = read(message_of(struct.pack("<f", value)), schema)["a"]
    assert struct.pack("<f", float(found)) == struct.pack("<f", value)
    assert len(Decimal(found).normalize().as_tuple().digits) <= 9


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**15), max_value=10**15
    ),
    st.dates(),
    st.datetimes(),
)
def test_decimals_and_times_come_back(number: Decimal, day: date, moment: datetime) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}
    assert Decimal(one_value(kind, number)) == number
    assert one_value({"type": "int", "logicalType": "date"}, day) == day.isoformat()
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    kind = {"type": "long", "logicalType": "timestamp-micros"}
    if moment.year > 1:
        assert one_value(kind, moment.replace(tzinfo=timezone.utc)) == moment.isoformat(
            " ", "microseconds"
        )
    assert one_value({"type": "long", "logicalType": "local-timestamp-micros"}, micros)


QLIK_COLUMNS = [
    column("ID", "INT4", key=1),
    column("NAME", "STRING"),
    column("SUM", "NUMERIC", 12, 2),
    column("ON", "DATE"),
    column("AT", "DATETIME"),
    column("RAW", "BYTES"),
    column("IS", "BOOLEAN"),
    column("SHARE", "REAL8"),
]
QLIK_SCHEMA = json.dumps(data_schema(QLIK_COLUMNS))
LISTS_SCHEMA = field(
    ["null", {"type": "array", "items": "string"}, {"type": "map", "values": ["null", "long"]}]
)


def a_good_message() -> bytes:
    row = {
        "ID": 1,
        "NAME": "Ada",
        "SUM": Decimal("12.50"),
        "ON": date(2024, 2, 29),
        "AT": datetime(2024, 2, 29, tzinfo=timezone.utc),
        "RAW": b"\x00\x01",
        "IS": True,
        "SHARE": 0.5,
    }
    head = headers("UPDATE", changeSequence="2" * 35, changeMask="01", columnMask="FF")
    message = {"data": row, "beforeData": row, "headers": head}
    return avro_message("DT", data_schema(QLIK_COLUMNS), message, "v1")


def assert_read_or_refused(value: bytes, schema: str | None) -> None:
    reason = "no refusal"
    try:
        decoded = decode_avro_message(value, schema)
    except ValueError as refusal:
        reason = str(refusal)
    else:
        assert decoded is not None
        assert decoded["message"] is None or json.loads(decoded["message"]) != ""
    assert len(reason) > 9


def fuzz(rounds: int, seed: int) -> None:
    """Read damaged bytes: cut, changed and joined, or plain noise."""
    chance = random.Random(seed)
    good = a_good_message()
    schemas = [None, ONE_TEXT, QLIK_SCHEMA, LISTS_SCHEMA]
    for _ in range(rounds):
        kind = chance.randrange(4)
        value = bytearray(good)
        if kind == 0:
            value = bytearray(b"atMSG") * chance.randrange(2)
            value += chance.randbytes(chance.randrange(60))
        elif kind == 1:
            value = bytearray(message_prefix() + chance.randbytes(chance.randrange(40)))
            value[13:13] = bytes([2 * (len(value) - 13)]) if chance.randrange(2) else b""
        else:
            for _ in range(chance.randrange(1, 4)):
                place = chance.randrange(len(value))
                if kind == 2:
                    value[place] = chance.randrange(256)
                else:
                    del value[place : place + chance.randrange(1, 9)]
                    value[place:place] = chance.randbytes(chance.randrange(3))
                if not value:
                    break
        assert_read_or_refused(bytes(value), schemas[chance.randrange(len(schemas))])


def message_prefix() -> bytes:
    """Return an envelope up to the length of its message."""
    return hand_made("61744D5347 04 4454 00 02 04 7631 00")[:13]


def test_twenty_thousand_damaged_messages_are_read_or_refused() -> None:
    fuzz(20_000, seed=1)


@pytest.mark.minutes
def test_a_million_damaged_messages_are_read_or_refused() -> None:
    fuzz(1_000_000, seed=2)


@given(st.binary(), st.none() | st.text())
@example(b"atMSG", "{}")
def test_any_bytes_and_schema_are_read_or_refused(value: bytes, schema: str | None) -> None:
    assert_read_or_refused(value, schema)
    assert_read_or_refused(b"atMSG" + value, schema)


AVRO_WORDS = ["record", "array", "map", "fixed", "enum", "int", "bytes", "decimal", "date", "R"]
AVRO_NAMES = [
    *("type", "name", "fields", "items", "values", "size", "symbols", "logicalType"),
    *("precision", "scale", "namespace", "aliases", "default"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([*AVRO_WORDS, *AVRO_NAMES]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(AVRO_NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.binary(max_size=30))
def test_a_message_with_any_json_as_schema_is_read_or_refused(schema: Any, payload: bytes) -> None:
    with suppress(MessageError):
        decoded = decode_avro_message(message_of(payload), json.dumps(schema))
        assert decoded is not None
        assert decoded["message"] is not None
