"""Values as Debezium's connectors write them, in; changes out."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from conftest import SCHEMA, Lake, Project, column_list, relation
from reference import Row

LANDING = {"value": "string", "headers": "array<struct<key: string, value: binary>>"}
PLACEHOLDER = "__debezium_unavailable_value"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("debezium_values")


def landed(
    op: str,
    lsn: int,
    before: Row | None,
    after: Row | None,
    commit: int | None = None,
    header: str | None = None,
    transaction: int | None = None,
) -> Row:
    """Write a message of PostgreSQL's connector."""
    source = {
        "ts_ms": 1709283600000 + lsn,
        "snapshot": "false",
        "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
        "lsn": lsn,
        "txId": transaction,
    }
    return {
        "value": json.dumps({"before": before, "after": after, "source": source, "op": op}),
        "headers": [(f"__debezium.{header}", b"{}")] if header else None,
    }


def call(table: str, columns: dict[str, str], arguments: str = "") -> str:
    typed = column_list(**columns)
    return (
        f"{{{{ debezium_messages({relation(table)}, unique_key=['id'], columns={typed}{arguments})"
        " }}"
    )


def changes(
    project: Project, lake: Lake, columns: dict[str, str], rows: list[Row], arguments: str = ""
) -> list[Row]:
    lake.create("values_as_written", LANDING, rows)
    found = lake.rows(project.compile(call("values_as_written", columns, arguments)))
    return sorted(found, key=lambda change: (change["change_seq"], change["change_id"]))


def test_a_nested_value_does_not_depend_on_the_numbers_beside_it(
    project: Project, lake: Lake
) -> None:
    place = {"wkb": "AQEAAAA=", "srid": 4326, "m": [1, 2.50]}
    rows = [
        landed("c", 10, None, {"id": 1, "place": place, "list": [1, 2], "ratio": 2}),
        landed("u", 20, None, {"id": 1, "place": place, "list": [1, 2], "ratio": 1.5}),
    ]
    columns = {"id": "int", "place": "string", "list": "string", "ratio": "double"}
    first, second = (change["after"] for change in changes(project, lake, columns, rows))
    assert (first["place"], first["list"]) == (second["place"], second["list"])
    assert (first["ratio"], second["ratio"]) == (2.0, 1.5)
    # Spark writes these numbers as they are, but for the last.
    rows = [
        landed("c", 10, None, {"id": 1, "place": {"x": 1.5}, "list": [2.25], "ratio": 1.5}),
        landed("u", 20, None, {"id": 1, "place": {"x": 1.5}, "list": [2.25], "ratio": 0.0005}),
    ]
    first, second = (change["after"] for change in changes(project, lake, columns, rows))
    assert (first["place"], first["list"]) == (second["place"], second["list"])
    # A column may have the name of a part of the message. (PostgreSQL's messages have an array.)
    row = {"id": 1, "data": {"x": 1.5}, "source": [2.25]}
    source = {"file": "binlog.000001", "row": 0, "ts_ms": 1709283600000}
    rows = [
        {"value": json.dumps({"op": op, "after": row | {"ratio": ratio}, "source": source | at})}
        for op, ratio, at in (("c", 1.5, {"pos": 4}), ("u", 0.0005, {"pos": 9}))
    ]
    columns = {"id": "int", "data": "string", "source": "string", "ratio": "double"}
    first, second = (change["after"] for change in changes(project, lake, columns, rows))
    assert (first["data"], first["source"]) == (second["data"], second["source"])


def test_json_of_mysql_is_the_same_in_snapshots_and_changes(project: Project, lake: Lake) -> None:
    """Only rows of a snapshot have blanks (dbz#2376)."""
    blanks = r'{"t : , \" {": "a,  \\", "b c": [1.0, "", null, {"d": "\\\" : "}]}'
    compact = r'{"t : , \" {":"a,  \\","b c":[1.0,"",null,{"d":"\\\" : "}]}'
    assert json.loads(blanks) == json.loads(compact)
    shown: list[tuple[str, str, str | None, str | None]] = [
        ("r", "true", None, blanks),
        ("u", "false", compact, compact),
        ("r", "incremental", None, blanks),
        # Many texts, and one long text with many escapes.
        ("u", "false", compact, json.dumps({"long": '\\"  ' * 20000, "many": ["  "] * 20000})),
        ("u", "false", compact, None),
        # Without quotes it needs no longer way.
        ("u", "false", None, "[1, 2]"),
    ]
    rows = []
    for pos, (op, snapshot, before, after) in enumerate(shown):
        source = {"file": "b.1", "pos": pos, "row": 0, "ts_ms": 1709283600000, "snapshot": snapshot}
        old = None if before is None else {"id": 1, "doc": before}
        change = {"before": old, "after": {"id": 1, "doc": after}, "source": source, "op": op}
        rows.append({"value": json.dumps(change, separators=(",", ":"))})
    lake.create("json_of_mysql", LANDING, rows)
    columns = (
        "[{'name': 'id', 'type': 'int'}, {'name': 'doc', 'type': 'string', 'encoding': 'json'}]"
    )
    query = f"debezium_messages({relation('json_of_mysql')}, unique_key=['id'], columns={columns})"
    found = lake.rows(project.compile(f"{{{{ {query} }}}}"))
    found.sort(key=lambda change: change["change_seq"] or "")
    longest = json.dumps(json.loads(str(shown[3][3])), separators=(",", ":"))
    assert [change["after"]["doc"] for change in found] == [compact] * 3 + [longest, None, "[1,2]"]
    assert [change["before"] and change["before"]["doc"] for change in found] == [
        *(None, compact, None, compact, compact, None)
    ]


def test_a_time_with_an_offset_is_in_utc_where_the_type_has_no_zone(
    project: Project, lake: Lake
) -> None:
    rows = [
        landed("c", 10, None, {"id": 1, "seen": "2018-07-13T12:23:45.456+11:00"}),
        landed("c", 20, None, {"id": 2, "seen": "2018-07-13T01:23:45.456Z"}),
        landed("c", 30, None, {"id": 3, "seen": "2018-07-13T01:23:45.456"}),
    ]
    columns = {"id": "int", "seen": "timestamp_ntz"}
    found = [change["after"]["seen"] for change in changes(project, lake, columns, rows)]
    assert found == [datetime(2018, 7, 13, 1, 23, 45, 456000)] * 3


def test_a_row_of_a_snapshot_may_be_of_an_incremental_one(project: Project, lake: Lake) -> None:
    """Only `source.snapshot` tells; without it, such a row of a gap would count as the oldest."""
    told = {"__op": "r", "__deleted": "false", "__source_sequence": '[null,"30"]'}
    rows = [
        {"value": json.dumps({"id": number} | told | more)}
        for number, more in enumerate(
            [{}, {"__source_snapshot": "true"}, {"__source_snapshot": "incremental"}]
        )
    ]
    found = {row["after"]["id"]: row for row in changes(project, lake, {"id": "int"}, rows)}
    assert [found[n]["operation"] for n in range(3)] == ["load", "load", "update"]
    unsure = (
        "without source.snapshot a row of an incremental snapshot looks like one of a full load"
    )
    assert [found[n]["warnings"] for n in range(2)] == [[unsure], None]
    assert unsure not in (found[2]["warnings"] or [])


def test_columns_of_flattened_rows_may_be_named_like_parts_of_an_envelope(
    project: Project, lake: Lake
) -> None:
    data = {"id": 5, "before": '{"id": 77}', "op": "buy", "source": '{"file": "up.csv"}'}
    told = {"__op": "c", "__source_file": "binlog.000001", "__source_pos": 400}
    # `__ts_ms` is the connector's clock.
    told |= {"__source_ts_ns": 1709283600123456789, "__ts_ms": 1709283699000}
    columns = {"id": "int", "before": "string", "op": "string", "source": "string"}
    [change] = changes(project, lake, columns, [{"value": json.dumps(data | told)}])
    assert (change["operation"], change["reject_reason"]) == ("insert", None)
    assert (change["before"], change["after"]) == (None, data)
    assert change["change_seq"] == f"{1:010}{400:020}{0:010}"
    assert change["changed_at"] == datetime(2024, 3, 1, 9, 0, 0, 123456)


def test_what_stands_behind_the_id_of_a_schema_is_named(project: Project, lake: Lake) -> None:
    """Confluent's converters for JSON Schema and for Avro write the same five bytes first."""
    rows = [
        {"value": f"\0\0\0\0\5{text}"} for text in (landed("c", 10, None, {"id": 1})["value"], "\0")
    ]
    found = changes(project, lake, {"id": "int"}, rows)
    assert sorted(change["reject_reason"] for change in found) == [
        "Avro is read from a binary column, and with `schemas`",
        "JSON behind the id of its schema: read substring(value, 6)",
    ]


def test_a_delete_without_a_row_has_any_number_as_its_key(project: Project, lake: Lake) -> None:
    """`1250` is Base64 of another number, where it has quotes."""
    rows = [landed("d", 10, None, None) | {"key": '{"id": 1250}'}]
    lake.create("deleted_by_key", {**LANDING, "key": "string"}, rows)
    query = call("deleted_by_key", {"id": "decimal(38,0)"}, ", key='key'")
    [change] = lake.rows(project.compile(query))
    assert (change["operation"], change["before"]) == ("delete", {"id": 1250})


def scaled(unscaled: int, scale: int) -> Row:
    """Write a decimal of any scale (VariableScaleDecimal)."""
    return {"scale": scale, "value": b64encode(unscaled.to_bytes(8, "big", signed=True)).decode()}


DECIMALS: list[tuple[str, Any, str | None]] = [
    ("decimal(38,10)", scaled(112345678901, 11), None),
    ("decimal(38,10)", scaled(112345678900, 11), "1.1234567890"),
    ("decimal(38,10)", scaled(-1, 11), None),
    ("decimal(38,10)", scaled(0, 11), "0E-10"),
    # Of Oracle.
    ("decimal(38,10)", scaled(-12, -2), "-1200.0000000000"),
    ("decimal(10,1)", 1.25e1, "12.5"),
    ("decimal(10,1)", 1.25, None),
]


def test_a_decimal_loses_no_digit(project: Project, lake: Lake) -> None:
    names = {kind: f"p{number}" for number, (kind, _, _) in enumerate(DECIMALS)}
    rows = [
        landed("c", 10 + number, None, {"id": number, names[kind]: value})
        for number, (kind, value, _) in enumerate(DECIMALS)
    ]
    columns = {"id": "int"} | {name: kind for kind, name in names.items()}
    found = changes(project, lake, columns, rows)
    assert len(found) == len(DECIMALS)
    for change in found:
        kind, value, expected = DECIMALS[change["after"]["id"]]
        read = change["after"][names[kind]]
        fits = change["reject_reason"] is None
        assert (str(read) if fits else None) == expected, (kind, value)


PLACEHOLDERS: list[tuple[str, Any]] = [
    ("list", list(PLACEHOLDER.encode())),  # integer[], bigint[], date[]
    ("text", list(PLACEHOLDER.encode())),
    ("text", {PLACEHOLDER: PLACEHOLDER}),  # hstore
    ("text", json.dumps({PLACEHOLDER: PLACEHOLDER})),  # hstore as text
    ("list", [b64encode(PLACEHOLDER.encode()).decode()]),  # bytea[]
    # date[] in Avro, where the schema says that the numbers are days
    (
        "list",
        [(date(1970, 1, 1) + timedelta(days=byte)).isoformat() for byte in PLACEHOLDER.encode()],
    ),
    # By Java's UUID.nameUUIDFromBytes: MD5, with the bits of version 3.
    ("list", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
]


def test_a_placeholder_of_any_type_is_absent(project: Project, lake: Lake) -> None:
    rows = [
        landed("u", 10 + number, None, {"id": number, "text": "t", "list": ["l"], name: written})
        for number, (name, written) in enumerate(PLACEHOLDERS)
    ]
    columns = {"id": "int", "text": "string", "list": "array<string>"}
    found = changes(project, lake, columns, rows)
    assert [(change["after"]["id"], change["absent_columns"]) for change in found] == [
        (number, [name]) for number, (name, _) in enumerate(PLACEHOLDERS)
    ]


def test_a_short_placeholder_is_no_value_of_another_type(project: Project, lake: Lake) -> None:
    """`Pw==` is Base64 of `?`, and of the decimal 0.63."""
    columns = {"id": "int", "price": "decimal(8,2)", "note": "string", "list": "array<string>"}
    columns |= {"photo": "binary"}
    value: Row = {"price": "Pw==", "note": "Pw==", "list": ["l"], "photo": "Pz8="}
    rows = [
        landed("u", 10, None, {"id": 1, **value}),
        landed("u", 20, None, {"id": 1, **value, "note": "?", "list": ["?"], "photo": "Pw=="}),
    ]
    whole, lacking = changes(project, lake, columns, rows, ", placeholder='?'")
    assert (whole["after"]["price"], whole["after"]["note"]) == (Decimal("0.63"), "Pw==")
    assert (whole["after"]["photo"], whole["absent_columns"]) == (b"??", None)
    assert lacking["after"]["price"] == Decimal("0.63")
    assert lacking["absent_columns"] == ["note", "list", "photo"]


def test_a_connector_that_was_set_up_again_goes_on_in_the_order_of_the_log(
    project: Project, lake: Lake
) -> None:
    # Before its first transaction a connector knows no last commit.
    rows = [
        landed("c", 1010, None, {"id": 1, "note": "first"}),
        landed("u", 1030, None, {"id": 1, "note": "second"}, commit=1025),
        landed("u", 5010, None, {"id": 1, "note": "third"}),
        landed("u", 5030, None, {"id": 1, "note": "fourth"}, commit=5025),
    ]
    found = changes(project, lake, {"id": "int", "note": "string"}, rows)
    assert [c["after"]["note"] for c in found] == ["first", "second", "third", "fourth"]


def test_what_a_connector_makes_up_is_no_value_of_a_flattened_row_without_its_place(
    project: Project, lake: Lake
) -> None:
    """The transform adds only the fields that it is told to, so nothing names PostgreSQL."""
    columns = {"id": "int", "note": "string", "n": "int", "price": "decimal(10,2)"}
    columns |= {"spot": "string", "area": "string"}
    told = {"__source_ts_ms": 1714550400000}
    real = {"id": 7, "note": "a text", "n": 5, "price": "CgA=", **told}
    made_up = {"id": 7, "note": "", "n": 0, "price": "AA==", **told}
    # A point, and an empty collection of PostGIS.
    made_up |= {
        "spot": {"x": 0.0, "y": 0.0, "wkb": "AQEAAAAAAAAAAAAAAAAAAAAAAAAA", "srid": None},
        "area": {"wkb": "AQcAAAAAAAAA", "srid": None},
    }
    values = [
        {**real, "__op": "c", "__deleted": "false"},
        {**made_up, "__op": "d", "__deleted": "true"},
        {**real, "__op": "d", "__deleted": "true"},
    ]
    lake.create(
        "values_with_offsets",
        LANDING | {"partition": "int", "offset": "bigint"},
        [
            {"value": json.dumps(value), "headers": None, "partition": 0, "offset": place}
            for place, value in enumerate(values)
        ],
    )
    position = ", position=['partition', 'offset']"
    found = lake.rows(project.compile(call("values_with_offsets", columns, position)))
    found.sort(key=lambda change: str(change["change_seq"]))
    nowhere = {"spot": None, "area": None}
    nothing = {"id": 7, "note": None, "n": None, "price": None, **nowhere}
    all_of_it = {"id": 7, "note": "a text", "n": 5, "price": Decimal("25.60"), **nowhere}
    assert [change["before"] for change in found] == [None, nothing, all_of_it]


@pytest.mark.minutes
def test_what_a_connector_makes_up_for_the_old_row_is_no_value(
    project: Project, lake: Lake
) -> None:
    """With REPLICA IDENTITY DEFAULT, columns that are NOT NULL show '' and 0 in `before`."""
    made_up = {"note": "", "n": 0, "flag": False, "price": "AA=="}
    real = {"note": "a text", "n": 5, "flag": True, "price": "CgA="}
    columns = {
        "id": "int",
        "note": "string",
        "n": "int",
        "flag": "boolean",
        "price": "decimal(10,2)",
    }
    lake.create(
        "made_up",
        LANDING,
        [
            landed("c", 10, None, {"id": 1, **real}),
            landed("c", 11, None, {"id": 7, **real}),
            # The large text did not change, so it is in neither row.
            landed("d", 20, {"id": 1, **made_up}, None, header="newkey"),
            landed("c", 20, None, {"id": 2, **real, "note": PLACEHOLDER, "n": 7}, header="oldkey"),
            landed("d", 30, {"id": 7, **made_up}, None),
        ],
    )
    project.model(
        "stg_made_up",
        call("made_up", columns, ", headers='headers'"),
        materialized="change_stream",
    )
    project.history("made_up_history", "stg_made_up")
    project.model("made_up_audit", "{{ change_audit(ref('stg_made_up'), ['id']) }}")
    project.dbt("run", "--select", "+made_up_history", "made_up_audit")
    current = lake.rows(f"select id, note, n from {SCHEMA}.made_up_history where is_current")
    assert current == [{"id": 2, "note": "a text", "n": 7}]
    old = lake.rows(
        f"select column_name, old_value from {SCHEMA}.made_up_audit where operation = 'delete'"
    )
    assert {row["column_name"]: row["old_value"] for row in old} == {
        "id": "7",
        "note": "a text",
        "n": "5",
        "flag": "true",
        "price": "25.60",
    }


@pytest.mark.minutes
@pytest.mark.parametrize("transaction", [7, None], ids=["one transaction", "no transaction"])
def test_a_default_of_the_old_row_neither_leaves_it_open_nor_is_audited(
    transaction: int | None, project: Project, lake: Lake
) -> None:
    """t(id primary key, state text not null default 'new', note text), and no large value."""

    def moved(lsn: int, old: int, new: int, note: str) -> list[Row]:
        default = {"id": old, "state": "new", "note": None}
        row = {"id": new, "state": "paid", "note": note}
        return [
            landed("d", lsn, default, None, header="newkey", transaction=transaction),
            landed("c", lsn, None, row, header="oldkey", transaction=transaction),
        ]

    paid = {"id": 1, "state": "paid", "note": "a"}
    first = landed("c", 10, None, paid, transaction=transaction)
    rows = [first, *moved(20, 1, 2, "a"), *moved(30, 2, 3, "b")]
    lake.create("defaults", LANDING, rows)
    columns = {"id": "int", "state": "string", "note": "string"}
    project.stream("stg_defaults", call("defaults", columns, ", headers='headers'")[3:-3])
    project.history("defaults_history", "stg_defaults")
    project.model("defaults_audit", "{{ change_audit(ref('stg_defaults'), ['id']) }}")
    project.dbt("run", "--full-refresh", "--select", "+defaults_history", "defaults_audit")
    found = lake.rows(f"select * from {SCHEMA}.defaults_history where is_current")
    assert [(row["id"], row["state"], row["note"]) for row in found] == [(3, "paid", "b")]
    audited = lake.rows(
        f"select column_name, old_value, new_value from {SCHEMA}.defaults_audit"
        " where operation = 'update' order by change_seq, column_name"
    )
    # The deletes do not say what the rows were, but the rows at their keys do.
    assert [tuple(row.values()) for row in audited] == [
        ("id", "1", "2"),
        ("id", "2", "3"),
        ("note", "a", "b"),
    ]


def test_of_the_old_row_of_a_key_change_what_the_new_one_has_too_is_certain(
    project: Project, lake: Lake
) -> None:
    """With REPLICA IDENTITY FULL it is a row, else defaults: the message does not say which."""
    before = {"id": 1, "state": "new", "note": "a"}
    after = {"id": 2, "state": "paid", "note": "a"}
    halves = [
        landed("d", 20, before, None, header="newkey"),
        landed("c", 20, None, after, header="oldkey"),
    ]
    columns = {"id": "int", "state": "string", "note": "string"}
    [found] = changes(project, lake, columns, halves, ", headers='headers'")
    assert (found["operation"], found["before"]) == ("update", {**before, "state": None})
    assert found["after"] == after


@pytest.mark.parametrize("code", ["b", ""])
def test_an_update_of_a_key_that_is_not_the_tables_own_may_begin_at_zero(
    code: str, project: Project, lake: Lake
) -> None:
    """REPLICA IDENTITY USING INDEX on (tenant, code): `before` has these, and made-up values."""
    before = {"id": 0, "tenant": 0, "code": "a", "note": None}
    rows = [
        landed("u", 10, before, {"id": 9, "tenant": 0, "code": code, "note": "x"}),
        # The key alone may be made up as well.
        landed("u", 20, {**before, "code": ""}, {"id": 9, "tenant": 7, "code": "c", "note": "x"}),
    ]
    lake.create("other_key", LANDING, rows)
    columns = column_list(id="int", tenant="int", code="string", note="string")
    query = project.compile(
        f"{{{{ debezium_messages({relation('other_key')}, unique_key=['tenant', 'code'],"
        f" columns={columns}) }}}}"
    )
    found, unknown = sorted(lake.rows(query), key=lambda change: change["change_seq"])
    assert found["before"] == {"id": None, "tenant": 0, "code": "a", "note": None}
    assert unknown["before"] is None


def by_code(project: Project, lake: Lake, rows: list[Row], unique_key: list[str]) -> list[Row]:
    """Stage messages of t(id primary key, code unique not null, name), with their keys."""
    lake.create("by_code", {**LANDING, "key": "string"}, [{"key": None} | row for row in rows])
    columns = column_list(id="int", code="string", name="string")
    query = project.compile(
        f"{{{{ debezium_messages({relation('by_code')}, unique_key={unique_key}, key='key',"
        f" columns={columns}) }}}}"
    )
    return sorted(lake.rows(query), key=lambda change: change["change_seq"])


def test_a_delete_whose_key_the_connector_made_up_is_rejected(project: Project, lake: Lake) -> None:
    """With REPLICA IDENTITY DEFAULT `before` has the id, and '' for `code`, which is NOT NULL."""
    key_alone = landed("d", 10, {"id": 5, "code": "", "name": None}, None)
    index_on_code = landed("d", 20, {"id": 0, "code": "", "name": None}, None)
    full = landed("d", 30, {"id": 5, "code": "", "name": "n"}, None)
    rows = [
        key_alone | {"key": '{"id": 5}'},
        index_on_code | {"key": '{"id": 0}'},
        full | {"key": '{"code": ""}'},
    ]
    made_up, *sure = by_code(project, lake, rows, ["code"])
    assert made_up["reject_reason"] == (
        "the key of the deleted row may be made up (code): PostgreSQL shows its REPLICA IDENTITY"
        " alone"
    )
    assert [(c["reject_reason"], c["before"]["code"]) for c in sure] == [(None, "")] * 2
    # Without the message's key, `id` tells that the row before has more than its key.
    [made_up] = by_code(project, lake, [key_alone], ["code"])
    assert made_up["reject_reason"].startswith("the key of the deleted row may be made up")
    # A part of the key may be zero or empty.
    [whole] = by_code(project, lake, [full], ["id", "code"])
    assert (whole["reject_reason"], whole["before"]["name"]) == (None, "n")
    [part] = by_code(project, lake, rows[:1], ["id", "code"])
    assert part["reject_reason"].startswith("the key of the deleted row may be made up (id, code)")


def test_a_key_that_the_connector_made_up_is_not_the_key_before(
    project: Project, lake: Lake
) -> None:
    """REPLICA IDENTITY USING INDEX on `code`: the row before has that, and 0 for `id`."""
    before = {"id": 0, "code": "A", "name": ""}
    rows = [
        landed("u", 10, before, {"id": 5, "code": "B", "name": PLACEHOLDER}),
        landed("u", 20, before, {"id": 5, "code": "B", "name": "n"}) | {"key": '{"id": 5}'},
    ]
    left, known = by_code(project, lake, rows, ["id"])
    assert (left["before"], left["absent_columns"]) == (None, ["name"])
    assert (known["before"], known["after"]["name"]) == (None, "n")
    # With REPLICA IDENTITY FULL a key that is not that of the message may have been empty.
    was_empty = {"id": 5, "code": "", "name": "n"}
    full = landed("u", 30, was_empty, {**was_empty, "code": "B"}) | {"key": '{"id": 5}'}
    [changed] = by_code(project, lake, [full], ["code"])
    assert changed["before"] == was_empty


def test_flattened_halves_with_nothing_but_deleted_are_one_key_change(
    project: Project, lake: Lake
) -> None:
    """`add.fields` without `op`: all that is no delete is an update."""

    def half(lsn: int, key: int, deleted: str, header: str, **values: Any) -> Row:
        place = {"__source_lsn": lsn, "__source_sequence": json.dumps(["1", str(lsn)])}
        value = json.dumps({"id": key, **values, "__deleted": deleted, **place})
        return {"value": value, "headers": [(f"__debezium.{header}", b"{}")]}

    rows = [
        half(20, 1, "true", "newkey", note=None, flags=None),
        half(20, 2, "false", "oldkey", note=PLACEHOLDER, flags=None),
    ]
    columns = {"id": "int", "note": "string", "flags": "array<string>"}
    option = ", headers='headers', null_is_absent=['flags']"
    [found] = changes(project, lake, columns, rows, option)
    assert (found["operation"], found["source_rows"]) == ("update", 2)
    assert (found["before"]["id"], found["after"]["id"]) == (1, 2)
    assert found["absent_columns"] == ["note", "flags"]


def test_halves_without_a_place_in_the_log_say_that_it_is_missing(
    project: Project, lake: Lake
) -> None:
    def half(offset: int, op: str, key: int, header: str, note: str | None) -> Row:
        value = json.dumps({"id": key, "note": note, "__op": op})
        headers = [(f"__debezium.{header}", b"{}")]
        return {"value": value, "headers": headers, "partition": 0, "offset": offset}

    rows = [half(0, "d", 1, "newkey", None), half(1, "c", 2, "oldkey", PLACEHOLDER)]
    lake.create("halves", {**LANDING, "partition": "int", "offset": "bigint"}, rows)
    option = ", headers='headers', position=['partition', 'offset']"
    query = project.compile(call("halves", {"id": "int", "note": "string"}, option))
    deleted, inserted = sorted(lake.rows(query), key=lambda change: change["change_seq"])
    assert (deleted["operation"], inserted["operation"]) == ("delete", "insert")
    assert inserted["warnings"][1:] == [
        "the row came from another key, and the message does not have its place in the log:"
        " columns that it lacks are unknown"
    ]


def test_a_row_from_another_key_says_what_it_lacks_where_no_header_says_so(
    project: Project, lake: Lake
) -> None:
    """Of inserts, PostgreSQL's connector knows no large value in those of key changes alone."""
    rows = [
        landed("c", 10, None, {"id": 5, "note": "whole"}),
        landed("d", 20, {"id": 1, "note": None}, None),
        landed("c", 20, None, {"id": 2, "note": PLACEHOLDER}),
        # Before the table had the column.
        landed("c", 30, None, {"id": 3}),
        landed("u", 40, None, {"id": 5, "note": PLACEHOLDER}),
    ]
    warning = (
        "the row came from another key, and no header says from which: columns that it lacks are"
        " unknown"
    )
    for option in ("", ", headers='headers'"):
        found = changes(project, lake, {"id": "int", "note": "string"}, rows, option)
        assert sorted(
            (int(one["change_seq"][20:]), one["operation"], one["absent_columns"], one["warnings"])
            for one in found
        ) == [
            (10, "insert", None, None),
            (20, "delete", None, None),
            (20, "insert", ["note"], [warning]),
            (30, "insert", ["note"], None),
            (40, "update", ["note"], None),
        ], option


def test_bytes_of_a_decimal_are_no_number_whatever_else_has_its_columns_name(
    project: Project, lake: Lake
) -> None:
    """`9999` is Base64 of -532611; MySQL's `source` has a number called `pos`."""

    def of_mysql(place: int, value: Any, **more: Any) -> Row:
        source = {"ts_ms": 1709283600000, "snapshot": "false", "file": "bin.1"}
        source |= {"pos": place, "row": 0}
        after = {"id": place, "pos": value, **more}
        message = {"before": None, "after": after, "source": source, "op": "c"}
        return {"value": json.dumps(message), "headers": None}

    rows = [of_mysql(400, "9999"), of_mysql(500, 9999), of_mysql(600, "1250", data={"pos": 7})]
    columns = {"id": "int", "pos": "decimal(10,2)", "data": "string"}
    found = changes(project, lake, columns, rows)
    # 1250 is Base64 of D7 6E 74.
    unscaled = int.from_bytes(bytes.fromhex("D76E74"), "big", signed=True)
    assert [str(change["after"]["pos"]) for change in found] == [
        "-5326.11",
        "9999.00",
        f"{unscaled / 100:.2f}",
    ]


@pytest.mark.parametrize("form", ["no name", "one name"])
def test_odd_fields_in_the_schema_of_a_message_fail_no_run(
    form: str, project: Project, lake: Lake
) -> None:
    def scale(number: int, **name: str) -> Row:
        return {"parameters": {"scale": str(number)}, **name}

    odd = {"no name": [scale(2)], "one name": [scale(4, field="price"), scale(2, field="price")]}
    rows = [landed("c", 10, None, {"id": 1, "price": "AehI"})]
    payload = json.loads(rows[0]["value"])
    after = {"field": "after", "fields": [*odd[form], scale(4, field="price")]}
    rows[0]["value"] = json.dumps({"schema": {"fields": [after]}, "payload": payload})
    value = json.dumps({"schema": {"fields": odd[form]}, "payload": {"x": 1}})
    rows.append({"value": value, "headers": None})
    found = changes(project, lake, {"id": "int", "price": "decimal(10,2)"}, rows)
    assert len(found) == 2
    [good] = [change for change in found if change["reject_reason"] is None]
    assert str(good["after"]["price"]) == "12.50"


def test_the_schema_of_a_message_may_stand_anywhere(project: Project, lake: Lake) -> None:
    """A converter may sort the members, or leave blanks. BOI= is 1250."""
    payload = json.loads(landed("c", 10, None, {"id": 1, "price": "BOI="})["value"])
    fields = [{"field": "price", "parameters": {"scale": "2"}}]
    schema = {"fields": [{"field": "after", "fields": fields}]}
    rows = [
        {"value": json.dumps({"payload": payload, "schema": schema})},
        {"value": json.dumps({"payload": payload, "schema": schema}, indent=1)},
        {"value": " " + json.dumps({"schema": schema, "payload": payload}, indent=1)},
        {"value": json.dumps({"payload": None, "schema": schema})},
    ]
    *found, tombstone = changes(project, lake, {"id": "int", "price": "decimal(12,4)"}, rows)[::-1]
    assert tombstone["reject_reason"] == "tombstone: the value is NULL"
    assert [(str(c["after"]["price"]), c["source_rows"]) for c in found] == [("12.5000", 3)]


# What Debezium 3.6 wrote, in each time.precision.mode, for a row that was inserted into PostgreSQL
# 15: date '2024-01-02', time(3) '10:11:12.5', time '10:11:12.123456', timestamp(3)
# '2024-01-02 03:04:05.12', timestamp '2024-01-02 03:04:05.12345'; and its timestamptz and timetz,
# which are the same in all modes.
WRITTEN: dict[str, dict[str, tuple[str, Any]]] = {
    "adaptive": {
        "day": ("date", 19724),
        "time3": ("time(3)", 36672500),
        "time6": ("time(6)", 36672123456),
        "seen3": ("timestamp_ntz(3)", 1704164645120),
        "seen6": ("timestamp_ntz(6)", 1704164645123450),
    },
    "adaptive_time_microseconds": {
        "day": ("date", 19724),
        "time3": ("time(6)", 36672500000),
        "time6": ("time(6)", 36672123456),
        "seen3": ("timestamp(3)", 1704164645120),
        "seen6": ("timestamp(6)", 1704164645123450),
    },
    "connect": {
        "day": ("date", 19724),
        "time3": ("time(3)", 36672500),
        "time6": ("time(3)", 36672123),
        "seen3": ("timestamp(3)", 1704164645120),
        "seen6": ("timestamp(3)", 1704164645123),
    },
    "isostring": {
        "day": ("date", "2024-01-02Z"),
        "time3": ("time(6)", "10:11:12.5Z"),
        "time6": ("time(6)", "10:11:12.123456Z"),
        "seen3": ("timestamp_ntz", "2024-01-02T03:04:05.12Z"),
        "seen6": ("timestamp(6)", "2024-01-02T03:04:05.12345Z"),
    },
    "microseconds": {
        "day": ("date", 19724),
        "time3": ("time(6)", 36672500000),
        "time6": ("time(6)", 36672123456),
        "seen3": ("timestamp(6)", 1704164645120000),
        "seen6": ("timestamp(6)", 1704164645123450),
    },
    "nanoseconds": {
        "day": ("date", 19724),
        "time3": ("time(9)", 36672500000000),
        "time6": ("time(9)", 36672123456000),
        "seen3": ("timestamp(9)", 1704164645120000000),
        "seen6": ("timestamp(9)", 1704164645123450000),
    },
}
ZONED = {
    "seen_zone": ("timestamp", "2024-01-02T01:04:05.123450Z"),
    "time_zone": ("string", "08:11:12.12Z"),
    # A datetimeoffset of SQL Server has seven digits, of which Spark keeps six.
    "seen_offset": ("timestamp", "2024-01-02T01:04:05.1234567Z"),
    "seen_offset_as_text": ("string", "2024-01-02T01:04:05.1234567Z"),
}
IN_THE_DATABASE = {
    "day": date(2024, 1, 2),
    "time3": "10:11:12.5",
    "time6": "10:11:12.123456",
    "seen3": datetime(2024, 1, 2, 3, 4, 5, 120000),
    "seen6": datetime(2024, 1, 2, 3, 4, 5, 123450),
    "seen_zone": datetime(2024, 1, 2, 1, 4, 5, 123450),
    "time_zone": "08:11:12.12Z",
    "seen_offset": datetime(2024, 1, 2, 1, 4, 5, 123456),
    "seen_offset_as_text": "2024-01-02T01:04:05.1234567Z",
}


def all_modes() -> Iterator[tuple[str, str, Any, Any]]:
    """Give a name, the declared type, what is written and what is read for each mode and type."""
    for mode, columns in WRITTEN.items():
        for name, (kind, written) in columns.items():
            read = IN_THE_DATABASE[name]
            if mode == "connect" and name == "time6":
                read = "10:11:12.123"  # This mode has only milliseconds.
            if mode == "connect" and isinstance(read, datetime):
                read = read.replace(microsecond=read.microsecond // 1000 * 1000)
            yield f"{mode}_{name}", kind, written, read
    for name, (kind, written) in ZONED.items():
        yield name, kind, written, IN_THE_DATABASE[name]


def test_the_forms_of_all_time_modes_are_read(project: Project, lake: Lake) -> None:
    types = {name: kind for name, kind, _, _ in all_modes()}
    written = {name: value for name, _, value, _ in all_modes()}
    read = {name: value for name, _, _, value in all_modes()}
    with_schema = landed("c", 20, None, {"id": 2, **written})
    payload = json.loads(with_schema["value"])
    with_schema["value"] = json.dumps({"schema": {"type": "struct"}, "payload": payload})
    flattened = {"id": 3, **written, "__op": "c", "__source_sequence": '[null,"30"]'}
    rows = [
        landed("c", 10, None, {"id": 1, **written}),
        with_schema,
        {"value": json.dumps(flattened), "headers": None},
    ]
    found = changes(project, lake, {"id": "int"} | types, rows)
    assert [change["reject_reason"] for change in found] == [None] * 3
    assert [change["after"] for change in found] == [{"id": n, **read} for n in (1, 2, 3)]


# What it wrote for `infinity` and `-infinity`. Debezium, "PostgreSQL: temporal types", names the
# two numbers of timestamps. A date depends on who read it: the log, or a snapshot.
INFINITIES: dict[str, tuple[str, Any, Any]] = {
    "day": ("date", -2147472692, -2147472691),
    "day_of_snapshot": ("date", -622191234, -625821272),
    "iso_day": ("date", "-5877611-06-21Z", "-5877611-06-22Z"),
    "iso_day_of_snapshot": ("date", "+292278994-08-16Z", "+292269055-12-02Z"),
    "millis": ("timestamp(3)", 9223372036825200, -9223372036832400),
    "micros": ("timestamp(6)", 9223372036825200000, -9223372036832400000),
    "nanos": ("timestamp_ntz(9)", 9223372036854775807, -9223372036854775808),
    "iso": ("timestamp_ntz", "+294247-01-10T04:00:25.2Z", "-290308-12-21T19:59:27.6Z"),
    "zoned": ("timestamp", "infinity", "-infinity"),
}


def infinite_rows() -> list[Row]:
    last, first = ({name: written[sign] for name, written in INFINITIES.items()} for sign in (1, 2))
    return [
        landed("c", 10, None, {"id": 1, **last}),
        landed("c", 20, None, {"id": 2, **first}),
        landed("u", 30, None, {"id": 2, **dict.fromkeys(INFINITIES)}),
    ]


INFINITE_COLUMNS = {"id": "int"} | {name: kind for name, (kind, _, _) in INFINITIES.items()}


def bounds(day: date, moment: datetime) -> Row:
    return {name: day if kind == "date" else moment for name, (kind, _, _) in INFINITIES.items()}


@pytest.mark.parametrize("argument", ["", ", infinity='bound'"])
def test_infinity_is_the_last_time_that_fits(project: Project, lake: Lake, argument: str) -> None:
    found = changes(project, lake, INFINITE_COLUMNS, infinite_rows(), argument)
    assert [change["reject_reason"] for change in found] == [None] * 3
    last, first, neither = (change["after"] for change in found)
    assert last == {"id": 1} | bounds(date(9999, 12, 31), datetime(9999, 12, 31))
    assert first == {"id": 2} | bounds(date(1, 1, 1), datetime(1, 1, 3))
    assert neither == {"id": 2} | dict.fromkeys(INFINITIES)
    warning = "infinity is read as the last or the first time that fits: " + ", ".join(INFINITIES)
    expected = None if argument else [warning]
    assert [change["warnings"] for change in found] == [expected, expected, None]


def test_infinity_may_be_null(project: Project, lake: Lake) -> None:
    found = changes(project, lake, INFINITE_COLUMNS, infinite_rows(), ", infinity='null'")
    assert [change["reject_reason"] for change in found] == [None] * 3
    assert [change["after"] for change in found] == [
        {"id": n, **dict.fromkeys(INFINITIES)} for n in (1, 2, 2)
    ]
    assert [change["warnings"] for change in found] == [None] * 3


def test_infinity_may_reject_the_message(project: Project, lake: Lake) -> None:
    found = changes(project, lake, INFINITE_COLUMNS, infinite_rows(), ", infinity='reject'")
    reasons = [change["reject_reason"] or "" for change in found]
    for text, reason in zip(("infinity", "-infinity"), reasons, strict=False):
        assert reason == "a value does not fit its column: " + ", ".join(
            f'{name} "{text}" ({kind.partition("(")[0]})'
            for name, (kind, _, _) in INFINITIES.items()
        )
    assert not reasons[2]


def test_a_date_that_looks_like_infinity_is_none(project: Project, lake: Lake) -> None:
    """The number of microseconds is a time in milliseconds' range, and the other way round."""
    written = {"day": 2932896, "micros": 9223372036825200}
    [found] = changes(
        project,
        lake,
        {"id": "int", "day": "date", "micros": "timestamp_ntz(6)"},
        [landed("c", 10, None, {"id": 1, **written})],
    )
    moment = datetime(2262, 4, 11, 23, 47, 16, 825200)
    assert found["after"] == {"id": 1, "day": date(9999, 12, 31), "micros": moment}
    assert found["warnings"] is None


def test_a_decimal_that_is_no_number_is_null_as_by_default(project: Project, lake: Lake) -> None:
    """By default the connector itself writes NULL for NaN; as text or double it writes these."""
    written = ["NaN", "Infinity", "-Infinity", "NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY"]
    columns = {"id": "int", "price": "decimal(10,2)"}
    rows = [
        landed("c", 10 + number, None, {"id": number, "price": value})
        for number, value in enumerate(written)
    ]
    # 39 digits, in the form of the mode `precise`
    rows.append(landed("c", 90, None, {"id": 9, "price": b64encode(b"\x7f" * 17).decode()}))
    found = changes(project, lake, columns, rows)
    assert [(change["after"]["price"], change["reject_reason"]) for change in found[:-1]] == [
        (None, None)
    ] * len(written)
    assert [change["warnings"] for change in found[:-1]] == [
        [f'no number, NULL is in its place: price "{value}" (decimal(10,2))'] for value in written
    ]
    assert found[-1]["reject_reason"].startswith("a value does not fit its column: price ")


UNMARKED: dict[str, Row] = {
    "flags": {"type": "array", "items": {"type": "boolean", "optional": True}},
    "moods": {"type": "array", "items": {"type": "string", "name": "io.debezium.data.Enum"}},
    "bits": {"type": "bytes", "name": "io.debezium.data.Bits"},
}
MARKED: dict[str, Row] = {
    "words": {"type": "array", "items": {"type": "string", "optional": True}},
    "days": {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
    "raw": {"type": "bytes"},
}
FIELDS = [{"field": name, **kind} for name, kind in {**UNMARKED, **MARKED}.items()]
ARRAYS = {"id": "int", "n": "int"} | {
    field["field"]: "binary" if field["type"] == "bytes" else "array<string>" for field in FIELDS
}
FULL_ROW: Row = {
    "flags": [True],
    "moods": ["sad"],
    "bits": "BQ==",
    "words": ["w"],
    "days": [19724],
    "raw": "qw==",
}
TOASTED: Row = {
    **dict.fromkeys(UNMARKED),
    "words": [PLACEHOLDER],
    "days": list(PLACEHOLDER.encode()),
    "raw": b64encode(PLACEHOLDER.encode()).decode(),
}


def test_null_may_be_a_value_that_was_not_captured(project: Project, lake: Lake) -> None:
    """As Debezium 3.6 wrote an update of another column, with large values in all these."""
    old = {"id": 3, "n": 1, **FULL_ROW}
    rows = [
        landed("c", 10, None, {"id": 1, "n": 1, **dict.fromkeys(FULL_ROW)}),
        landed("u", 20, None, {"id": 1, "n": 2, **TOASTED}),
        # REPLICA IDENTITY FULL: the connector knows all of the row.
        landed("u", 30, old, {"id": 3, "n": 2, **dict.fromkeys(FULL_ROW)}),
        landed("d", 40, {"id": 5, "n": None, **dict.fromkeys(FULL_ROW)}, None, header="newkey"),
        landed("c", 40, None, {"id": 6, "n": 1, **TOASTED}, header="oldkey"),
    ]
    # A shape of PostGIS is an object.
    shape = {"wkb": "AQEAAAA=", "srid": 4326}
    rows.append(landed("c", 50, None, {"id": 8, "n": 1, "area": shape}))
    rows.append(landed("u", 60, None, {"id": 8, "n": 2, **FULL_ROW, "area": None}))
    option = f", headers='headers', null_is_absent={[*UNMARKED, 'area']}"
    columns = {**ARRAYS, "area": "string"}
    inserted, updated, full, moved, drawn, kept = changes(project, lake, columns, rows, option)
    assert json.loads(drawn["after"]["area"]) == shape
    assert kept["absent_columns"] == ["area"]
    # The others lack the column.
    absent = {*UNMARKED, *MARKED, "area"}
    assert (inserted["absent_columns"], full["absent_columns"]) == (["area"], ["area"])
    assert set(updated["absent_columns"]) == absent
    assert (moved["operation"], set(moved["absent_columns"])) == ("update", absent)
    assert [change["warnings"] for change in (inserted, updated, full)] == [None] * 3


def test_a_null_that_may_not_have_been_captured_has_a_warning(project: Project, lake: Lake) -> None:
    bare = landed("u", 10, None, {"id": 1, "n": 2, **dict.fromkeys(FULL_ROW)})
    with_schema = landed("u", 20, None, {"id": 2, "n": 2, **dict.fromkeys(FULL_ROW)})
    schema = {"type": "struct", "fields": [{"field": "after", "fields": FIELDS}]}
    payload = json.loads(with_schema["value"])
    with_schema["value"] = json.dumps({"schema": schema, "payload": payload})
    old = {"id": 3, "n": 1, **FULL_ROW}
    rows = [
        bare,
        with_schema,
        landed("u", 30, old, {"id": 3, "n": 2, **dict.fromkeys(FULL_ROW)}),
        landed("c", 40, None, {"id": 4, "n": 2, **dict.fromkeys(FULL_ROW)}),
        landed("u", 50, None, {"id": 5, "n": 2, **FULL_ROW}),
        landed("d", 60, {"id": 6, "n": 0, **dict.fromkeys(FULL_ROW)}, None, header="newkey"),
        landed("c", 60, None, {"id": 7, "n": 2, **dict.fromkeys(FULL_ROW)}, header="oldkey"),
    ]
    warning = "NULL may be a value that was not captured, see `null_is_absent`: "
    found = changes(project, lake, ARRAYS, rows, ", headers='headers'")
    assert [change["warnings"] for change in found] == [
        # Without a schema, arrays are all alike, and bits are like other bytes.
        [warning + "flags, moods, words, days"],
        [warning + "flags, moods, bits"],
        None,
        None,
        None,
        [warning + "flags, moods, words, days"],
    ]
    # Whoever gives the argument has thought of it.
    option = ", headers='headers', null_is_absent=[]"
    for change in changes(project, lake, ARRAYS, rows, option):
        assert (change["warnings"], change["absent_columns"]) == (None, None)


def test_what_a_connector_makes_up_for_a_date_is_no_value(project: Project, lake: Lake) -> None:
    """As isostring and Avro have it, for columns that are NOT NULL."""
    columns = {"id": "int", "day": "date", "seen": "timestamp(6)", "clock": "time(6)"}
    made_up: list[Row] = [
        {"day": "1970-01-01Z", "seen": "1970-01-01T00:00:00Z", "clock": "00:00:00Z"},
        {"day": "1970-01-01", "seen": "1970-01-01 00:00:00.000000Z", "clock": 0},
    ]
    rows = [
        landed("d", 10 + number, {"id": number, **values}, None)
        for number, values in enumerate(made_up)
    ]
    for number, change in enumerate(changes(project, lake, columns, rows)):
        only_key = {"id": number, "day": None, "seen": None, "clock": None}
        assert change["before"] == only_key


def test_rows_that_differ_by_a_null_in_an_array_are_no_copies(project: Project, lake: Lake) -> None:
    both = [["a"], ["a", None]]
    rows = [landed("u", 7, None, {"id": 1, "tags": tags}) for tags in both]
    found = changes(project, lake, {"id": "int", "tags": "array<string>"}, rows)
    assert sorted((change["after"]["tags"] for change in found), key=len) == both
    assert [change["source_rows"] for change in found] == [1, 1]


def test_a_time_of_day_is_text(project: Project, lake: Lake) -> None:
    """MySQL's times may be negative or have more hours than a day."""
    written = [0, 86400000000, -45296000001, 3020399000000, "23:59:59.999999Z", "10:00:00+02:00"]
    read = ["00:00:00", "24:00:00", "-12:34:56.000001", "838:59:59", "23:59:59.999999"]
    rows = [
        landed("c", 10 + number, None, {"id": number, "clock": value})
        for number, value in enumerate(written)
    ]
    found = changes(project, lake, {"id": "int", "clock": "time(6)"}, rows)
    assert [change["after"]["clock"] for change in found] == [*read, "10:00:00+02:00"]
