"""A usual message of Qlik is read straight into types, and gives the rows of any other."""

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

from conftest import Lake, Project, column_list, compile_statements, relation
from qlik_messages import column, headers, json_message, mask, metadata
from random_json import damaged, number

TYPES = {
    "id": "bigint",
    "name": "string",
    "amount": "decimal(12,2)",
    "score": "double",
    "small": "float",
    "ok": "boolean",
    "born_on": "date",
    "seen_at": "timestamp",
    "mark": "binary",
    "note": "string",
    "code": "string",
}
# How values are written: as usual, and as they rarely are.
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "id": (["1", "2", "-9223372036854775808"], ['"1"', "1.0", "9223372036854775808", "null"]),
    "name": (['"a"', '""', '"\u00e9 b"', '"null"'], ['"a\\"b"', '"\\u0061"', "7", '{"a": 1.50}']),
    "amount": (['"1.50"', '"-0.01"', '"12.5"', '"7"'], ['"1.505"', "1.50", "2.5", '"1e2"', '"x"']),
    "score": (["0.125", "-3.0", "1.0E10"], ["3", "0.1250", '"NaN"', "NaN", "1e400", "-0.0"]),
    "small": (["0.1", "16777216.0"], ["0.10", "16777217", "1e39", '"Infinity"']),
    "ok": (["true", "false"], ['"true"', "1", '"x"']),
    "born_on": (
        ['"2024-02-29"', '"0001-01-01"'],
        ['"2023-02-29"', '"2024-1-1"', '"10:11:12"', "3"],
    ),
    "seen_at": (
        ['"2024-01-01T10:11:12.130"', '"2024-01-01 10:11:12"'],
        ['"2024-01-01T10:11:12.1234567"', '"2024-01-01T10:11:12Z"', '"10:11"', "1704103872"],
    ),
    "mark": (['"00FF"', '""', '"AB"', '"ab"'], ['"0"', '"zz"', "12"]),
    "note": (['"x"', '"longer"', '"[1.5]"'], ["1.10", "[1.5]", '{"a":1.5}', "true"]),
    "code": (["7", "12.5", "true"], ["[1.5]", '{"a":1.5}', '"7"', "1.10", '"x"']),
}
HEADERS: dict[str, tuple[list[str], list[str]]] = {
    "changeSequence": ([], ["null", '""', "20240101000000000000000000000000001", '"12.5"']),
    "timestamp": (['"2024-01-01T00:00:00.000"'], ["null", '"no time"', "1.50", '""']),
    "transactionId": (['"00AB"', '"1"'], ["null", "1.50", "7", '""']),
    "changeMask": (['"0004"', '"03FF"', '"0000"'], ["null", '"2"', '"G"', '"FFFF"', '"0x1"']),
    "columnMask": (['"07FF"', '"07FF"', '"07F7"'], ["null", '"1"', "3", '"0FFF"']),
    "externalSchemaId": (["null"], ['"s1"', '""']),
    "transactionEventCounter": (["1", "2"], ["null", '"2"', "1.0", '"x"']),
    "transactionLastEvent": (["true", "false", "null"], ['"true"', "1"]),
}


def drawn(source: random.Random, values: dict[str, tuple[list[str], list[str]]]) -> list[str]:
    """Return members as a task writes them, or nearly."""
    members = []
    for name, (usual, odd) in values.items():
        kind = source.random()
        text = source.choice(usual if kind < 0.93 else ["null"] if kind < 0.985 else odd)
        members.append(f'"{name}":{number(source) if kind > 0.999 else text}')
    return members


def row(source: random.Random) -> str:
    members = drawn(source, VALUES)
    if source.random() < 0.04:
        members.insert(source.randrange(len(members)), '"new":1')
    if source.random() < 0.04:
        members.pop(source.randrange(len(members)))
    if source.random() < 0.02:
        members.reverse()
    return "{" + ",".join(members) + "}"


def message(source: random.Random, place: int, wrapped: bool) -> str:
    """Return a message as a task writes it, or nearly."""
    operation = source.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "REFRESH"])
    if source.random() < 0.02:
        operation = source.choice(["update", "TRUNCATE", " DELETE"])
    rows = [row(source), row(source) if operation == "UPDATE" else "null"]
    if operation == "DELETE" and source.random() < 0.7:
        rows = [source.choice(["null", "null", rows[0]]), rows[0]]
    if source.random() < 0.03:
        rows[source.randrange(2)] = "null"
    sequence = f'"20240101000000{place // 3:021d}"'
    headers = drawn(
        source, HEADERS | {"changeSequence": ([sequence], HEADERS["changeSequence"][1])}
    )
    if source.random() < 0.1:
        headers.append(source.choice(['"table":"t"', '"table":"t.1"', '"schema":2.50']))
    more = source.choice(["", "", ',"schemaId":"s2"', ',"table":"t"', ',"lineage":{"table":"t"}'])
    body = (
        f'"data":{rows[0]},"beforeData":{rows[1]},'
        f'"headers":{{"operation":"{operation}",{",".join(headers)}}}'
    )
    body += more if source.random() < 0.1 else ""
    if not wrapped:
        return "{" + body + source.choice(["", "", "", ',"type":"DT"', ',"magic":"x"']) + "}"
    kind = source.choices(["DT", "MD", "XX"], [60, 1, 1])[0]
    magic = source.choices(["atMSG", "other"], [60, 1])[0]
    schema = source.choice(["null", "null", '"s1"', '"s.1"'])
    last = source.choice([',"type":"MD"', ',"magic":"x"', " "]) if source.random() < 0.03 else ""
    return (
        f'{{"magic":"{magic}","type":"{kind}","headers":null,"messageSchemaId":{schema},'
        f'"messageSchema":null,"message":{{{body}}}{last}}}'
    )


def told(change: dict[str, Any], as_written: dict[str, str]) -> str:
    """Return a change as text, without what depends on a space in the message."""
    change["change_id"] = as_written.get(change["change_id"], change["change_id"])
    change["reject_reason"] = re.sub(
        "(not a JSON message): .*", r"\1", change["reject_reason"] or ""
    )
    return repr({name: value for name, value in change.items() if name != "ingested_at"})


@pytest.mark.slow
@pytest.mark.parametrize("lobs", [[], ["note", "mark"]])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_usual_message_gives_the_rows_of_any_other(
    make_project: Callable[[str], Project], lake: Lake, wrapped: bool, lobs: list[str]
) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")))
    texts = [message(source, place, wrapped) for place in range(1, 3001)]
    texts = [damaged(source, text) if source.random() < 0.1 else text for text in texts]
    # How values are written is seen in the first messages: this one, or one nested without end.
    plain = ",".join(f'"{name}":{usual[0]}' for name, (usual, _) in VALUES.items())
    first = f'{{"data":{{{plain}}},"beforeData":null,"headers":{{"operation":"REFRESH"}}}}'
    envelope = '{"magic":"atMSG","type":"DT","headers":null,"messageSchemaId":null,'
    first = f'{envelope}"messageSchema":null,"message":{first}}}' if wrapped else first
    texts = ['{"data":{"id":' + "[" * 5000, first, *texts]
    # A space between members means nothing, and such a message is no usual one.
    apart = [
        text.replace('"data":', '"data": ', 1).replace('"beforeData":', '"beforeData": ', 1)
        for text in texts
    ]
    columns = [{**column, "lob": column["name"] in lobs} for column in column_list(**TYPES)]
    project = make_project("usual_messages")
    found = []
    for name, written in (("usual", texts), ("apart", apart)):
        table = f"{name}_qlik"
        rows = [{"value": value, "offset": place} for place, value in enumerate(written)]
        lake.create(table, {"value": "string", "offset": "bigint"}, rows)
        sql = project.sql(
            f"qlik_messages({relation(table)}, unique_key=['id', 'name'], columns={columns})"
        )
        found.append((sql, lake.rows(sql)))
    (sql, changes), (longer, others) = found
    read = sql[: sql.index("\nlocated as (")].rstrip().rstrip(",")
    [count] = lake.rows(f"{read} select count_if(is_usual) as usual from opened_messages")
    assert 300 < count["usual"] < 2500
    # None of the others looks usual, so nothing is sought.
    assert "is_usual" not in longer
    ids = {
        hashlib.md5(other.encode()).hexdigest(): hashlib.md5(text.encode()).hexdigest()
        for text, other in zip(texts, apart, strict=True)
    }
    expected = Counter(told(change, ids) for change in others)
    assert Counter(told(change, {}) for change in changes) == expected


@pytest.mark.parametrize("name", ["a b", "a`b", "x<row>", "it's", "\u00e9 (1)", "_1", "select"])
def test_a_usual_message_has_columns_of_any_name(
    make_project: Callable[[str], Project], lake: Lake, name: str
) -> None:
    body = {
        "data": {"id": 1, name: 2},
        "beforeData": None,
        "headers": {"operation": "INSERT", "changeSequence": "20240101" + "0" * 27},
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    lake.create("named_qlik", {"value": "string"}, [{"value": text}])
    columns = [{"name": "id", "type": "int"}, {"name": name, "type": "int"}]
    call = f"qlik_messages({relation('named_qlik')}, unique_key=['id'], columns={columns})"
    sql = make_project("named_columns").sql(call)
    [found] = lake.rows(sql)
    assert (found["reject_reason"], found["after"]) == (None, body["data"])
    assert found["absent_columns"] is None
    # Two of these names would need another text in SQL or in JSON.
    assert ("is_usual" in sql) == (name not in ("x<row>", "it's"))


@pytest.mark.slow
@pytest.mark.parametrize("has_metadata", [True, False])
def test_few_messages_are_read_by_the_shorter_statement(
    make_project: Callable[[str], Project], lake: Lake, has_metadata: bool
) -> None:
    names, table = ["id", "note"], f"few_qlik_{has_metadata}".lower()

    def landed(operation: str, place: int, key: int, note: str) -> dict[str, Any]:
        body = {
            "data": {"id": key, "note": note},
            "beforeData": {"id": key, "note": "a"} if operation == "UPDATE" else None,
            "headers": headers(
                operation,
                changeSequence=f"20240101000000{place:021d}",
                timestamp="2024-01-01T00:00:00.000",
                transactionId="00AB",
                changeMask=mask(["note"], names) if operation == "UPDATE" else None,
                columnMask=mask(names, names),
                externalSchemaId="s1",
            ),
        }
        return {"value": json_message("DT", body)}

    project = make_project("few_of_qlik")
    call = f"qlik_messages({relation(table)}, unique_key=['id']"
    if has_metadata:
        call += f", table='t', metadata={relation(table)})"
    else:
        call += f", columns={column_list(id='int', note='string')})"
    project.stream(f"stg_{table}", call)
    described = metadata(
        "json", "s1", "t", 1, [column("id", "INT4", key=1), column("note", "STRING")]
    )
    first = [
        *([described] if has_metadata else []),
        landed("REFRESH", 1, 1, "old"),
        landed("INSERT", 20, 2, "a"),
        landed("UPDATE", 30, 2, "b"),
    ]
    news = [first[-1], landed("UPDATE", 25, 2, "late"), landed("REFRESH", 40, 1, "new")]
    lake.create(table, {"value": "string"}, first)
    statements = []
    for size, batch in ((0, []), (16, news), (0, [landed("DELETE", 50, 2, "b")])):
        lake.append(table, {"value": "string"}, batch)
        done = project.dbt("run", "--vars", f"{{afterimage_small_table: {size}}}")
        statements.append(done.results[0].node.compiled_code)
    assert ["is_usual" in statement for statement in statements] == [True, False, True]
    staged = lake.contents(f"stg_{table}")
    changes = sorted(staged[f"stg_{table}"], key=lambda change: change["change_seq"])
    if has_metadata:
        assert changes.pop(0)["reject_reason"] == "metadata message: it holds no change"
    told = [
        (change["operation"], change["after"] and change["after"]["note"]) for change in changes
    ]
    assert told == [
        ("load", "old"),
        ("load", "new"),
        ("insert", "a"),
        ("update", "late"),
        ("update", "b"),
        ("delete", None),
    ]
    superseded, *others = [change["reject_reason"] for change in changes]
    assert superseded == "superseded: a later load of this key came"
    assert others == [None] * 5
    for size in (16, 0):
        project.dbt("run", "--full-refresh", "--vars", f"{{afterimage_small_table: {size}}}")
        assert lake.contents(f"stg_{table}") == staged


@pytest.mark.slow
def test_java_compiles_all_that_spark_writes_for_many_messages(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Else Spark prints the error, some thousand lines of it, and interprets that part."""
    kinds = {
        **dict.fromkeys(("name", "city", "street", "notes"), "STRING"),
        "born_on": "DATE",
        "seen_at": "DATETIME",
        "score": "REAL8",
        "active": "BOOLEAN",
    }
    columns = [column("id", "INT8", key=1), *(column(name, kind) for name, kind in kinds.items())]
    columns.append(column("balance", "NUMERIC", 12, 2))
    names = [one["name"] for one in columns]

    def landed(place: int) -> dict[str, Any]:
        data = {**dict.fromkeys(names), "id": place}
        sequence = f"20240101000000{place:021d}"
        said = headers("INSERT", changeSequence=sequence, columnMask=mask(names, names))
        said |= {"timestamp": "2024-01-01T00:00:00.000", "externalSchemaId": "s1"}
        body = {"data": data, "beforeData": None, "headers": said}
        return {"value": json_message("DT", body), "offset": place}

    project = make_project("compiled_qlik")
    lake.create("compiled_metadata", {"value": "string"}, [metadata("json", "s1", "t", 1, columns)])
    lake.create("compiled", {"value": "string", "offset": "bigint"}, [landed(1), landed(2)])
    project.model("schemas_now", f"{{{{ qlik_message_schemas({relation('compiled_metadata')}) }}}}")
    project.stream(
        "stg_compiled",
        f"qlik_messages({relation('compiled')}, unique_key=['id'], metadata=ref('schemas_now'))",
    )
    before = lake.spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    compile_statements(lake.spark, True)
    lake.spark.conf.set("spark.sql.codegen.fallback", "false")
    try:
        for place in (3, 4):
            project.dbt("run", "--vars", "{afterimage_small_table: 0}")
            lake.append("compiled", {"value": "string", "offset": "bigint"}, [landed(place)])
    finally:
        lake.spark.conf.unset("spark.sql.codegen.fallback")
        compile_statements(lake.spark, before)
    assert len(lake.contents("stg_compiled")["stg_compiled"]) == 3
