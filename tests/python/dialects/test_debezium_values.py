"""Values as Debezium's connectors write them, in; changes out."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
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
) -> Row:
    """Write a message of PostgreSQL's connector."""
    source = {
        "ts_ms": 1709283600000 + lsn,
        "snapshot": "false",
        "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
        "lsn": lsn,
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


def changes(project: Project, lake: Lake, columns: dict[str, str], rows: list[Row]) -> list[Row]:
    lake.create("values_as_written", LANDING, rows)
    found = lake.rows(project.compile(call("values_as_written", columns)))
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


def scaled(unscaled: int, scale: int) -> Row:
    """Write a decimal of any scale (VariableScaleDecimal)."""
    return {"scale": scale, "value": b64encode(unscaled.to_bytes(8, "big", signed=True)).decode()}


DECIMALS: list[tuple[str, Any, str | None]] = [
    ("decimal(38,10)", scaled(112345678901, 11), None),
    ("decimal(38,10)", scaled(112345678900, 11), "1.1234567890"),
    ("decimal(38,10)", scaled(-1, 11), None),
    ("decimal(38,10)", scaled(0, 11), "0E-10"),
    ("decimal(10,1)", 1.25e1, "12.5"),
    ("decimal(10,1)", 1.25, None),
    ("decimal(38,2)", "Infinity", None),
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
