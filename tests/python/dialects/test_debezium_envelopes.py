"""One parse reads an envelope; it says what the members say that are parsed in turn."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Lake, Project
from random_json import damaged, spaced, string, value

SAID = "m.is_envelope, m.op, m.kind, m.source, m.source_time, m.log_place, m.row, m.before"


@pytest.fixture(scope="module")
def read(make_project: Callable[[str], Project], lake: Lake) -> Callable[[list[str]], list[Any]]:
    sql = make_project("envelopes").sql(
        "afterimage._debezium_of_message(afterimage._exact_numbers('text'),"
        f" 'struct(m.payload is null and m.is_envelope as by_one_parse, struct({SAID}) as said)')"
    )

    def said(texts: list[str]) -> list[Any]:
        rows = [{"number": number, "text": text} for number, text in enumerate(texts)]
        lake.frame({"number": "int", "text": "string"}, rows).createOrReplaceTempView("envelopes")
        found = lake.rows(f"select number, to_json({sql}) as said from envelopes order by 1")
        return [json.loads(row["said"]) for row in found]

    return said


def envelope(source: random.Random) -> str:
    """Return an envelope, with any values in its rows, and nothing that stands in its place."""
    rows = [row(source) if source.random() < 0.8 else "null" for _ in range(2)]
    place = f'"file": "binlog.000001", "pos": {source.randint(1, 10**6)}, "row": 0'
    text = (
        f'{{"before":{rows[0]}, "after":{rows[1]}, "source":{{"ts_ms": 1704067200000, {place}}},'
        f' "op":"{source.choice("curdtm")}", "ts_ms": 1704067200500}}'
    )
    if source.random() < 0.3:
        return f'{{"schema":{{"fields": [{value(source, 1)}]}}, "payload":{text}}}'
    return text


def row(source: random.Random) -> str:
    written = [value(source, 2) for _ in range(source.randint(0, 4))]
    written += source.choice([[], [], ["NaN"], ["-Infinity"], [string(source)]])
    fields = [f'"{name}"{spaced(source, ":")}{text}' for name, text in enumerate(written)]
    return "{" + ", ".join(fields) + "}"


def test_one_parse_says_what_parses_in_turn_say(read: Callable[[list[str]], list[Any]]) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")))
    texts = [damaged(source, envelope(source)) for _ in range(5000)]
    # A space in front means nothing, and such a message is read by its members in turn.
    once, in_turn = read(texts), read([f" {text}" for text in texts])
    for text, one, other in zip(texts, once, in_turn, strict=True):
        assert one.get("said") == other.get("said"), text
    ways = [answer.get("by_one_parse") for answer in once]
    assert 1000 < ways.count(True) < 4500
    assert not any(answer.get("by_one_parse") for answer in in_turn)


def test_an_envelope_is_read_as_it_is_written(read: Callable[[list[str]], list[Any]]) -> None:
    before = {"id": 1, "name": 'an "old" name', "born": None, "tags": ["a", None], "ok": True}
    after = {**before, "name": "\u00e9\n", "amount": "AAAE0g==", "big": 12345678901234567890}
    origin = {"ts_ms": 1704067200000, "file": "binlog.000007", "pos": 42, "row": 1, "db": "crm"}
    change = {"before": before, "after": after, "source": origin, "op": "u", "ts_ms": 1}
    with_schema = {"schema": {"type": "struct", "fields": []}, "payload": change}
    for message in (change, with_schema):
        (answer,) = read([json.dumps(message, separators=(",", ":"))])
        said = answer["said"]
        assert answer["by_one_parse"]
        assert (said["op"], said["kind"], said["is_envelope"]) == ("u", "update", True)
        assert said["log_place"] == "0000000007" + "42".zfill(20) + "1".zfill(10)
        assert said["source"] == {name: str(text) for name, text in origin.items()}
        for name, values in (("before", before), ("row", after)):
            assert said[name] == {
                column: text
                if text is None or isinstance(text, str)
                else json.dumps(text).replace(" ", "")
                for column, text in values.items()
            }
