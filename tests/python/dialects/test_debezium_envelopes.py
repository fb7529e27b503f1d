"""One parse reads an envelope; it says what the members say that are parsed in turn.

A usual envelope is read straight into types, and gives the same rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Lake, Project, column_list, relation
from random_json import damaged, number, spaced, string, value

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


TYPES = {
    "id": "bigint",
    "small": "smallint",
    "name": "string",
    "amount": "decimal(18,2)",
    "born": "date",
    "seen": "timestamp(3)",
    "told": "timestamp_ntz(6)",
    "zoned": "timestamp",
    "rise": "time(6)",
    "score": "double",
    "ratio": "float",
    "ok": "boolean",
    "mark": "binary",
}
# What connectors write, then what they write in other modes, at the ends of a type, or never.
VALUES = {
    "id": (["1", "2", "-7"], ["-0", "1.0", "9223372036854775807", "9223372036854775808", '"1"']),
    "small": (["0", "-32768", "32767"], ["32768", "1e2", "01"]),
    "name": (
        ['"a"', '"\u00e9 b"', '""', '"null"'],
        ['"a\\"b"', '"\\u00e9"', '"\\q"', "1.50", "{}"],
    ),
    "amount": (
        ['"AAAE0g=="', '"8A=="', '"fw=="'],
        ['""', '"1250"', '"AAAAAAAAAAAB"', '"Infinity"', "1"],
    ),
    "born": (["0", "19723", "-20"], ["-719162", "99999", "-2147472692", '"2024-01-02Z"', "100000"]),
    "seen": (["0", "1704067200000"], ["-1", "9999999999999", f"1{'0' * 18}", '"2024"']),
    "told": (["0", "1704067200000001"], ["-5", "9223372036825200000", "9999999999999999"]),
    "zoned": (
        ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05.000006Z"'],
        ['"2024-02-30T00:00:00Z"', '"+294247-01-10T04:00:25.2Z"', '"infinity"', '"1-"', "5"],
    ),
    "rise": (["0", "86399999999", "36672500000"], ["-1", "90000000000", '"10:11:12Z"']),
    "score": (["0.5", "-1.25", "1.0E10", "3.0"], ["3", "1.50", "1e400", '"NaN"', "NaN", "0.1e-5"]),
    "ratio": (["0.5", "0.1", "1.0E10"], ["0.10000000149", "1e39", "16777217"]),
    "ok": (["true", "false"], ["1", '"true"']),
    "mark": (
        ['"AQI="', '""', f'"{"QUJD" * 30}"'],
        ['"AQI"', '"A+B"', '"__debezium_unavailable_value"'],
    ),
}


def usual_row(source: random.Random) -> str:
    """Return a row as a connector writes it, or nearly."""
    fields = []
    for name, (usual, odd) in VALUES.items():
        kind = source.random()
        text = source.choice(usual if kind < 0.9 else ["null"] if kind < 0.985 else odd)
        if kind > 0.999:
            text = number(source)
        fields.append(f'"{name}":{text}')
    if source.random() < 0.05:
        fields.insert(
            source.randint(0, len(fields)), source.choice(['"new":1', '"id":2', fields[2]])
        )
    if source.random() < 0.05:
        fields.pop(source.randrange(len(fields)))
    if source.random() < 0.03:
        fields.reverse()
    return "{" + ",".join(fields) + "}"


def usual_envelope(source: random.Random, place: int) -> str:
    """Return an envelope as a connector writes it, or nearly."""
    op = source.choices("crudtmx", [30, 20, 40, 20, 1, 1, 1])[0]
    before = usual_row(source) if op in "ud" and source.random() < 0.7 else "null"
    if before != "null" and source.random() < 0.3:
        # PostgreSQL has the key of the row before, and NULL or a value made up in other columns.
        made_up = {"small": "0", "name": '""', "ok": "false", "mark": '""', "id": "1"}
        before = json.dumps(dict.fromkeys(TYPES), separators=(",", ":"))
        for name in source.sample(sorted(made_up), 2):
            before = before.replace(f'"{name}":null', f'"{name}":{made_up[name]}')
    after = "null" if op == "d" or source.random() < 0.02 else usual_row(source)
    origin = f'"ts_ms":{1704067200000 + place},"db":"crm","table":"{source.choice("tttts")}"'
    snapshot = source.choice(["false", "false", "true", "incremental", "INCREMENTAL"])
    log = [
        f'"file":"binlog.000001","pos":{place},"row":0',
        f'"lsn":{place},"sequence":"[null,\\"{place}\\"]","txId":7',
        f'"lsn":{place},"txId":7',
        f'"commit_lsn":"0000002b:00000{place:03x}:0003","change_lsn":"0000002b:00000{place:03x}:0002"',
        f'"file":"no place","pos":"{place}"',
    ]
    origin = f'"snapshot":"{snapshot}",{origin},{source.choice(log)}'
    more = source.choice(
        [
            ',"transaction":null',
            f',"after":{after}',
            ',"after":null,"source":null',
            ',"op":"u"',
            ',"payload":1,"__op":"d"',
            ',"payload":null,"ddl":1',
            ',"schema":{"fields":[]}',
        ]
    )
    return (
        f'{{"before":{before},"after":{after},"source":{{{origin}}},"op":"{op}",'
        f'"ts_ms":1704067200500{more if source.random() < 0.3 else ""}}}'
    )


@pytest.mark.parametrize("name", ["it's", 'a"b', r"a\b", "a`b", "x<row>", "\u00e9 (1)"])
def test_a_usual_envelope_has_columns_of_any_name(
    make_project: Callable[[str], Project], lake: Lake, name: str
) -> None:
    row = {"id": 1, name: 2}
    origin = {"ts_ms": 1704067200000, "file": "binlog.000007", "pos": 42, "row": 1}
    change = {"before": None, "after": row, "source": origin, "op": "c"}
    text = json.dumps(change, separators=(",", ":"), ensure_ascii=False)
    lake.create("named", {"value": "string"}, [{"value": text}])
    columns = [{"name": "id", "type": "int"}, {"name": name, "type": "int"}]
    project = make_project("names_of_columns")
    call = f"debezium_messages({relation('named')}, unique_key=['id'], columns={columns})"
    [found] = lake.rows(project.sql(call))
    assert (found["reject_reason"], found["after"], found["absent_columns"]) == (None, row, None)


def told(change: dict[str, Any]) -> str:
    """Return a change as text, without what depends on a space in the message."""
    change["reject_reason"] = re.sub(
        "^(not a JSON message|neither an envelope [^:]*): .*", r"\1", change["reject_reason"] or ""
    )
    change["change_id"] = re.sub("^rejected-.*", "rejected", change["change_id"])
    return repr({name: value for name, value in change.items() if name != "ingested_at"})


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["", ", table='t', position=['offset']"])
def test_a_usual_envelope_gives_the_rows_of_any_other(
    make_project: Callable[[str], Project], lake: Lake, arguments: str
) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")))
    texts = [usual_envelope(source, place) for place in range(1, 3001)]
    texts = [damaged(source, text) if source.random() < 0.1 else text for text in texts]
    values = [text.encode() for text in texts]
    values[::50] = [value.replace(b"a", b"\xff", 1) for value in values[::50]]
    # A space between members means nothing, and such a message is no usual one.
    apart = [value.replace(b'{"before":', b'{"before": ') for value in values]
    project = make_project("usual_envelopes")
    found = []
    for name, written in (("usual", values), ("apart", apart)):
        rows = [{"value": value, "offset": place} for place, value in enumerate(written)]
        lake.create(f"{name}_envelopes", {"value": "binary", "offset": "bigint"}, rows)
        sql = project.sql(
            f"debezium_messages({relation(f'{name}_envelopes')}, unique_key=['id', 'name'], "
            f"columns={column_list(**TYPES)}{arguments})"
        )
        read = sql[: sql.index("\nimages as (")].rstrip().rstrip(",")
        [count] = lake.rows(f"{read} select count(usual) as usual from messages")
        found.append((count["usual"], lake.rows(sql)))
    (usual, changes), (unusual, others) = found
    assert 300 < usual < 2000
    assert unusual == 0
    assert Counter(map(told, changes)) == Counter(map(told, others))


def test_a_usual_envelope_with_bytes_that_are_no_text_keeps_its_id(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    change = {
        "before": None,
        "after": {"id": 1},
        "source": {"db": "c?m", "file": "none"},
        "op": "c",
    }
    text = json.dumps(change, separators=(",", ":"))
    lake.create("garbled", {"value": "binary"}, [{"value": text.encode().replace(b"?", b"\xff")}])
    columns = column_list(id="int")
    call = f"debezium_messages({relation('garbled')}, unique_key=['id'], columns={columns})"
    [found] = lake.rows(make_project("garbled").sql(call))
    digest = hashlib.md5(text.replace("?", "\ufffd").encode()).hexdigest()
    assert found["change_id"] == f"rejected-{digest}"


@pytest.mark.slow
def test_few_messages_are_read_by_the_shorter_statement(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    def landed(op: str, place: int, key: int, note: str) -> dict[str, str]:
        read = {"snapshot": "true" if op == "r" else "false", "ts_ms": 1704067200000 + place}
        origin = {**read, "file": "b.1", "pos": place}
        change = {
            "before": None,
            "after": {"id": key, "note": note},
            "source": origin,
            "op": op,
        }
        return {"value": json.dumps(change, separators=(",", ":"))}

    project = make_project("few")
    columns = column_list(id="int", note="string")
    call = f"debezium_messages({relation('few')}, unique_key=['id'], columns={columns})"
    project.stream("stg_few", call)
    first = [landed("r", 1, 1, "old"), landed("c", 20, 2, "a"), landed("u", 30, 2, "b")]
    lake.create("few", {"value": "string"}, first)
    statements = []
    for size, news in (
        (0, []),
        (16, [first[1], landed("u", 25, 2, "late"), landed("r", 2, 1, "new")]),
    ):
        lake.append("few", {"value": "string"}, news)
        done = project.dbt("run", "--vars", f"{{afterimage_small_table: {size}}}")
        statements.append(done.results[0].node.compiled_code)
    assert ["m_read" in statement for statement in statements] == [True, False]
    staged = lake.contents("stg_few")
    for size in (16, 0):
        project.dbt("run", "--full-refresh", "--vars", f"{{afterimage_small_table: {size}}}")
        assert lake.contents("stg_few") == staged
