"""Debezium's messages in, changes out: whatever arrives when, and whatever the bytes are."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import qlik_messages
from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, column_list, relation
from deliveries import run_in_batches_and_at_once
from reference import Row
from registry_messages import decimal, framed, logical, record
from registry_messages import envelope as envelope_schema

LANDING = {
    "key": "string",
    "value": "string",
    "headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
    "offset": "bigint",
}
TABLES = ("stg_things", "things_history")
TYPES = {
    "id": "int",
    "n": "bigint",
    "price": "decimal(10,2)",
    "day": "date",
    "at": "timestamp(3)",
    "sure": "boolean",
    "ratio": "double",
    "photo": "binary",
    "tags": "array<string>",
    "note": "string",
}
COLUMNS = column_list(**TYPES)
# A warning of ours ends the run.
STRICT = ("--warn-error-options", '{"error": ["JinjaLogWarning"]}')
PLACEHOLDER = "__debezium_unavailable_value"
AT = 1709283600000  # 2024-03-01 09:00:00


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("debezium_messages")


def envelope(operation: str, place: int, before: Row | None, after: Row | None) -> Row:
    return {
        "before": before,
        "after": after,
        "source": {
            "ts_ms": AT + 1000 * place,
            "snapshot": "true" if operation == "r" else "false",
            "file": "binlog.000009",
            "pos": place,
            "row": 0,
            "gtid": f"g:{place}",
        },
        "op": operation,
    }


def landed(
    offset: int, value: Row | str | None, key: int | None = None, header: str | None = None
) -> Row:
    return {
        "key": None if key is None else json.dumps({"id": key}),
        "value": value if value is None or isinstance(value, str) else json.dumps(value),
        "headers": [(f"__debezium.{header}", b"{}")] if header else None,
        "partition": 0,
        "offset": offset,
    }


def thing(key: int, note: str) -> Row:
    return {"id": key, "note": note}


BATCHES: list[list[Row]] = [
    [
        landed(0, envelope("r", 1, None, thing(1, "loaded"))),
        landed(1, envelope("c", 10, None, thing(2, "a"))),
        landed(3, envelope("d", 30, thing(2, "b"), None), header="newkey"),
        landed(4, None, key=2),
        landed(9, envelope("c", 50, None, thing(4, "moved here")), header="oldkey"),
        landed(10, envelope("u", 60, thing(4, "moved here"), thing(4, "last"))),
        landed(11, "no JSON"),
    ],
    [
        landed(5, envelope("c", 30, None, thing(3, "b")), header="oldkey"),
        landed(6, envelope("c", 10, None, thing(2, "a"))),
        landed(7, envelope("r", 2, None, thing(1, "loaded again"))),
        landed(8, envelope("d", 50, thing(5, "moved here"), None), header="newkey"),
        landed(12, None, key=2),
    ],
    [
        landed(2, envelope("u", 20, thing(2, "a"), thing(2, "b"))),
        landed(13, envelope("u", 60, thing(4, "moved here"), thing(4, "last"))),
        landed(14, "no JSON"),
        landed(15, envelope("c", 5, None, thing(5, "early"))),
    ],
]


def models(project: Project, table: str, arguments: str) -> None:
    project.stream(
        "stg_things",
        f"debezium_messages({relation(table)}, unique_key=['id'], key='key',"
        f" columns={COLUMNS}{arguments})",
    )
    project.history("things_history", "stg_things")


@pytest.mark.minutes
@pytest.mark.parametrize(
    "position", ["", ", position=['partition', 'offset']"], ids=["log", "kafka"]
)
def test_three_batches_give_what_a_full_refresh_gives(
    position: str, project: Project, lake: Lake
) -> None:
    models(project, "things", f", headers='headers'{position}")
    in_batches = run_in_batches_and_at_once(
        project, lake, TABLES, [{"things": (LANDING, rows)} for rows in BATCHES]
    )[-1]
    told = [
        (
            change["operation"],
            (change["before"] or {}).get("id"),
            (change["after"] or {}).get("id"),
            (change["after"] or {}).get("note"),
            change["changed_at"],
            change["source_rows"],
        )
        for change in sorted(in_batches["stg_things"], key=lambda change: change["change_seq"])
        if change["reject_reason"] is None
    ]

    def at(place: int) -> datetime:
        return datetime(2024, 3, 1, 9, place // 60, place % 60)

    loads_and_changes = [
        ("load", None, 1, "loaded again", None, 1),
        ("insert", None, 2, "a", at(10), 2),
        ("update", 2, 2, "b", at(20), 1),
        ("update", 2, 3, "b", at(30), 2),
        ("update", 5, 4, "moved here", at(50), 2),
        ("update", 4, 4, "last", at(60), 2),
    ]
    early = ("insert", None, 5, "early", at(5), 1)
    assert told == (
        [*loads_and_changes, early]
        if position
        else [loads_and_changes[0], early, *loads_and_changes[1:]]
    )
    assert sorted(
        (change["reject_reason"], change["source_rows"])
        for change in in_batches["stg_things"]
        if change["reject_reason"]
    ) == [
        ("not a JSON message: no JSON", 2),
        ("superseded: a later load of this key came", 1),
        ("tombstone: the value is NULL", 2),
    ]


def of_postgresql(operation: str, place: int, before: Row | None, after: Row | None) -> Row:
    message = envelope(operation, place, before, after)
    sequence = json.dumps([str(place), str(place)])
    message["source"] = {"ts_ms": AT, "snapshot": "false", "sequence": sequence, "lsn": place}
    return message


@pytest.mark.slow
def test_key_changes_that_share_a_place_go_by_their_offsets(project: Project, lake: Lake) -> None:
    """MariaDB may give all messages of a statement one place. Here two rows swap their keys."""
    models(project, "swapped", ", headers='headers', position=['partition', 'offset']")
    rows = [landed(0, envelope("c", 10, None, thing(1, "a")))]
    rows.append(landed(1, envelope("c", 11, None, thing(2, "b"))))
    for old, new, note in ((1, 99, "a"), (2, 1, "b"), (99, 2, "a")):
        delete = envelope("d", 20, thing(old, note), None)
        insert = envelope("c", 20, None, thing(new, note))
        rows.append(landed(len(rows), delete, header="newkey"))
        rows.append(landed(len(rows), insert, header="oldkey"))
    for batches in ([rows], [rows[:5], rows[5:]]):
        found = run_in_batches_and_at_once(
            project, lake, TABLES, [{"swapped": (LANDING, batch)} for batch in batches]
        )[-1]["things_history"]
        current = sorted((row["id"], row["note"]) for row in found if row["is_current"])
        assert current == [(1, "b"), (2, "a")]


def test_a_delete_and_an_insert_at_one_place_leave_the_row(project: Project, lake: Lake) -> None:
    """t(month, id, primary key (month, id)): an update of the month, without headers."""
    rows = [
        landed(0, envelope("d", 20, {"id": 5, "month": 7}, None)),
        landed(1, envelope("c", 20, None, {"id": 5, "month": 8})),
        landed(2, envelope("c", 20, None, {"id": 5, "month": 8})),
        # MariaDB may give all changes of a transaction one place.
        landed(3, envelope("c", 30, None, {"id": 6, "month": 7})),
        landed(4, envelope("u", 30, None, {"id": 6, "month": 8})),
    ]
    lake.create("months", LANDING, rows)
    columns = column_list(id="int", month="int")
    call = f"debezium_messages({relation('months')}, unique_key=['id'], columns={columns})"
    found = sorted(lake.rows(project.sql(call)), key=lambda change: change["change_seq"])
    assert [(change["operation"], change["source_rows"]) for change in found] == [
        ("delete", 1),
        ("insert", 2),
        ("insert", 1),
        ("update", 1),
    ]


@pytest.mark.slow
def test_an_unknown_operation_that_is_no_letter_is_known_when_it_lands_again(
    project: Project, lake: Lake
) -> None:
    models(project, "unknown", "")
    rows = [landed(place, envelope("5", 10, None, thing(1, "a"))) for place in range(2)]
    [change] = run_in_batches_and_at_once(
        project, lake, ["stg_things"], [{"unknown": (LANDING, [row])} for row in rows]
    )[-1]["stg_things"]
    assert (change["reject_reason"], change["source_rows"]) == ('unknown operation: "5"', 2)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["u", "d"])
def test_a_row_of_a_snapshot_is_older_than_the_change_that_has_it_sent(
    operation: str, project: Project, lake: Lake
) -> None:
    """Without watermarks in PostgreSQL's log (`read.only`) both have one place, even of one key."""
    models(project, "sent", "")
    inserted = of_postgresql("c", 10, None, thing(1, "new"))
    reread = of_postgresql("r", 30, None, thing(1, "new"))
    after = thing(1, "paid") if operation == "u" else None
    change = of_postgresql(operation, 30, thing(1, "new"), after)
    for message in (reread, change):
        message["source"]["sequence"] = '["20","30"]'
    reread["source"]["snapshot"] = "incremental"
    rows = [landed(place, message) for place, message in enumerate((inserted, reread, change))]
    for batches in ([rows], [rows[:2], rows[2:]], [[rows[0], rows[2]], [rows[1]]]):
        found = run_in_batches_and_at_once(
            project, lake, TABLES, [{"sent": (LANDING, batch)} for batch in batches]
        )[-1]["things_history"]
        versions = sorted(found, key=lambda row: row["version"])
        assert [(row["note"], row["is_current"]) for row in versions] == (
            [("new", False), ("paid", True)] if after else [("new", False)]
        )


@pytest.mark.slow
def test_a_key_change_whose_halves_land_in_two_runs_ends_the_row_at_its_old_key(
    project: Project, lake: Lake
) -> None:
    """The first run takes the delete for one, and the history has it at its offset."""
    models(project, "halves", ", headers='headers', position=['partition', 'offset']")
    rows = [
        landed(9, envelope("c", 10, None, thing(1, "long"))),
        landed(10, envelope("d", 20, thing(1, "long"), None), header="newkey"),
        landed(11, None, key=1),
        landed(12, envelope("c", 20, None, thing(20, PLACEHOLDER)), header="oldkey"),
    ]
    found = run_in_batches_and_at_once(
        project, lake, TABLES, [{"halves": (LANDING, batch)} for batch in (rows[:3], rows[3:])]
    )[-1]["things_history"]
    versions = sorted(found, key=lambda row: row["id"])
    assert [(row["id"], row["note"], row["closed_by"]) for row in versions] == [
        (1, "long", "key_change"),
        (20, "long", None),
    ]


@pytest.mark.slow
def test_what_is_sent_again_keeps_its_place_if_its_first_message_is_gone(
    project: Project, lake: Lake
) -> None:
    models(project, "resent", ", headers='headers', position=['partition', 'offset']")
    rows = [
        landed(100, envelope("c", 400, None, thing(1, "new"))),
        landed(101, envelope("u", 500, thing(1, "new"), thing(1, "a"))),
        landed(102, envelope("u", 600, thing(1, "a"), thing(1, "b"))),
        landed(103, envelope("d", 700, thing(1, "b"), None), header="newkey"),
        landed(104, envelope("c", 700, None, thing(2, "b")), header="oldkey"),
        landed(105, envelope("u", 800, thing(2, "b"), thing(2, "c"))),
    ]
    lake.create("resent", LANDING, rows)
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    before = lake.contents(*TABLES)
    told = [
        (row["id"], row["note"], row["closed_by"])
        for row in sorted(before["things_history"], key=lambda row: row["valid_from_seq"])
    ]
    assert told == [
        (1, "new", "update"),
        (1, "a", "update"),
        (1, "b", "key_change"),
        (2, "b", "update"),
        (2, "c", None),
    ]
    lake.spark.sql(f"delete from {SCHEMA}.resent where offset < 105")
    # One change comes twice, so that it has news.
    again = [{**row, "offset": 106 + number} for number, row in enumerate([rows[1], *rows[1:5]])]
    lake.append("resent", LANDING, again)
    project.dbt("run", "--select", *TABLES)
    after = lake.contents(*TABLES)
    assert after["things_history"] == before["things_history"]
    assert [row["change_seq"] for row in after["stg_things"]] == [
        row["change_seq"] for row in before["stg_things"]
    ]
    assert sorted(row["source_rows"] for row in after["stg_things"]) == [1, 1, 1, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["d", "c"])
@pytest.mark.parametrize("position", ["", ", position=['partition', 'offset']"])
def test_a_key_change_stays_whole_if_one_of_its_messages_is_gone_when_all_is_read_again(
    position: str, gone: str, project: Project, lake: Lake
) -> None:
    models(project, "half_gone", f", headers='headers'{position}")
    rows = [
        landed(0, envelope("c", 10, None, thing(1, "a"))),
        landed(1, envelope("d", 20, thing(1, "a"), None), header="newkey"),
        landed(2, envelope("c", 20, None, thing(2, "a")), header="oldkey"),
    ]
    lake.create("half_gone", LANDING, rows)
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    before = lake.contents(*TABLES)
    versions = sorted(before["things_history"], key=lambda row: row["id"])
    assert [(row["id"], row["closed_by"]) for row in versions] == [(1, "key_change"), (2, None)]
    # A table made anew is read from its beginning.
    left = [rows[0], rows[2 if gone == "d" else 1]]
    lake.spark.sql(f"drop table {SCHEMA}.half_gone")
    lake.create("half_gone", LANDING, [*left, landed(3, envelope("c", 30, None, thing(3, "new")))])
    project.dbt("run", "--select", *TABLES)
    after = lake.contents(*TABLES)
    assert [row for row in after["stg_things"] if row not in before["stg_things"]] == [
        row for row in after["stg_things"] if (row["after"] or {}).get("id") == 3
    ]
    assert all(row in after["stg_things"] for row in before["stg_things"])
    assert all(row in after["things_history"] for row in before["things_history"])


@pytest.mark.minutes
def test_a_topic_of_another_name_needs_a_number(project: Project, lake: Lake) -> None:
    """Its offsets begin again. Both connectors run for a while, so both topics have changes."""
    run = (*STRICT, "run", "--select", *TABLES)
    paid = envelope("u", 20, None, thing(1, "paid"))
    sent = envelope("u", 30, None, thing(1, "sent"))
    old = [landed(1000, paid), landed(1001, sent)]
    new = [landed(0, paid), landed(3, sent), landed(4, envelope("u", 40, None, thing(1, "paid")))]
    lake.create("old_topic", LANDING, old)
    lake.create("new_topic", LANDING, new)
    models(project, "old_topic", ", position=['partition', 'offset']")
    project.dbt(*run, "--full-refresh")
    # What `--empty` and `--sample` make of the table is no other one.
    file = project.folder / "models/stg_things.sql"
    file.write_text(file.read_text().replace("identifier=", "limit=0, identifier="))
    project.dbt(*run)
    models(project, "new_topic", ", position=['partition', 'offset']")
    with pytest.raises(DbtError, match=r"built from \S+old_topic, .* those of \S+new_topic"):
        project.dbt(*run)
    numbered = [row | {"generation": 1} for row in old] + [row | {"generation": 2} for row in new]
    columns = {**LANDING, "generation": "int"}
    lake.create("both_topics", columns, numbered)
    models(project, "both_topics", ", position=['generation', 'partition', 'offset']")
    project.dbt(*run, "--full-refresh")
    before = lake.contents("things_history")
    versions = sorted(before["things_history"], key=lambda row: row["version"])
    assert [row["note"] for row in versions] == ["paid", "sent", "paid"]
    # What both have keeps its place once the old topic's rows are gone. All is read again.
    lake.create("both_topics", columns, numbered[2:])
    project.dbt("run", "--select", *TABLES)
    assert lake.contents("things_history") == before


def unite(project: Project, *calls: str) -> None:
    """Let the model read several raw tables; a call is a table and further arguments."""
    parts = []
    for call in calls:
        table, _, arguments = call.partition(",")
        macro = f"debezium_messages({relation(table)}, unique_key=['id'], columns={COLUMNS}"
        parts.append(f"select * from ({{{{ {macro},{arguments}) }}}})")
    project.model("stg_things", " union all ".join(parts), materialized="change_stream")


def flattened(offset: int, key: int, note: str) -> Row:
    """Return a row that does not have its place in the log."""
    return landed(offset, {**thing(key, note), "__op": "u", "__source_ts_ms": AT}, key=key)


@pytest.mark.minutes
def test_a_row_without_its_place_does_not_replace_that_of_another_topic(
    project: Project, lake: Lake
) -> None:
    """Two shards have no key in common, but the same offsets, by which such rows are named."""
    position = "key='key', position=['partition', 'offset']"
    calls = [f"{table}, {position}" for table in ("eu_things", "us_things")]
    unite(project, *calls)
    run = ("run", "--select", "stg_things")
    lake.create("eu_things", LANDING, [flattened(17, 1, "paid")])
    lake.create("us_things", LANDING, [flattened(16, 7, "new"), flattened(20, 8, "sent")])
    project.dbt(*run, "--full-refresh")
    # The same row again, as in a table made anew, and one at an offset of its own.
    lake.create("eu_things", LANDING, [flattened(17, 1, "paid"), flattened(18, 2, "paid")])
    project.dbt(*run)
    before = lake.contents("stg_things")
    assert len(before["stg_things"]) == 4
    lake.append("us_things", LANDING, [flattened(17, 7, "paid")])
    said = r"neither message has its place in the log.* Got: 0+17\b"
    with pytest.raises(DbtError, match=said):
        project.dbt(*run)
    # As does a table that takes the place of both.
    unite(project, calls[1].replace("us_things", "new_things"))
    lake.create("new_things", LANDING, [flattened(18, 7, "paid")])
    with pytest.raises(DbtError, match=r"neither message has its place in the log.* Got: 0+18\b"):
        project.dbt(*run)
    assert lake.contents("stg_things") == before


@pytest.mark.minutes
def test_tombstones_of_two_calls_need_a_key(project: Project, lake: Lake) -> None:
    """Without it nothing tells them apart: all of them would be one change, of both calls."""
    run = ("run", "--select", "stg_things")

    def deleted(place: int, key: int) -> list[Row]:
        return [
            landed(place, envelope("d", place, thing(key, "a"), None), key=key),
            landed(place + 1, None, key=key),
        ]

    lake.create("eu_things", LANDING, deleted(10, 1))
    lake.create("us_things", LANDING, deleted(20, 7)[:1])
    unite(project, "eu_things", "us_things")
    # Only one of the connectors writes tombstones.
    project.dbt(*run, "--full-refresh")
    lake.append("eu_things", LANDING, deleted(30, 2))
    project.dbt(*run)
    before = lake.contents("stg_things")
    tombstones = [row["source_rows"] for row in before["stg_things"] if row["reject_reason"]]
    assert tombstones == [2]
    lake.append("us_things", LANDING, deleted(40, 8))
    lake.append("eu_things", LANDING, deleted(50, 3))
    for arguments in ((), ("--full-refresh",)):
        with pytest.raises(DbtError, match=r"Give `key` .*Got: \S+eu_things, \S+us_things"):
            project.dbt(*run, *arguments)
    assert lake.contents("stg_things") == before
    unite(project, "eu_things, key='key'", "us_things, key='key'")
    for key in (4, 5):
        project.dbt(*run)
        lake.append("eu_things", LANDING, deleted(50 + 10 * key, key))
        lake.append("us_things", LANDING, deleted(55 + 10 * key, 10 + key))
    project.dbt(*run, "--full-refresh")
    found = lake.contents("stg_things")["stg_things"]
    assert [row["source_rows"] for row in found if row["reject_reason"]] == [1] * 8


@pytest.mark.minutes
def test_two_tables_of_a_topic_need_a_model_each(project: Project, lake: Lake) -> None:
    """A call rejects the other table's messages, by the change_id that these have there."""

    def of_table(table: str, operation: str, place: int, note: str) -> Row:
        told = envelope(operation, place, None, thing(1, note))
        return landed(place, {**told, "source": {**told["source"], "db": "shop", "table": table}})

    calls = [f"both_tables, table='shop.{table}'" for table in ("east", "WEST")]
    loads = [of_table("east", "r", 1, "a"), of_table("west", "r", 2, "x")]
    lake.create("both_tables", LANDING, loads)
    unite(project, *calls)
    run = ("run", "--full-refresh", "--select")
    said = r"both_tables twice.*a model for each.*Got: shop\.east and shop\.WEST"
    with pytest.raises(DbtError, match=f"(?s){said}"):
        project.dbt(*run, "stg_things")
    lake.append("both_tables", LANDING, [of_table("west", "u", 10, "y")])
    found = {}
    for call in calls:
        unite(project, call)
        project.dbt(*run, "stg_things")
        rows = lake.rows(f"select * from {SCHEMA}.stg_things order by change_seq, change_id")
        found[call] = [
            (row["change_id"], row["after"]["note"], row["reject_reason"]) for row in rows
        ]
    east, west = found.values()
    good = [[note for _, note, reason in rows if reason is None] for rows in (east, west)]
    assert good == [["a"], ["x", "y"]]
    assert east[0][0] == west[0][0]
    assert east[-1] == (west[-1][0], "y", "of another table: shop.west")


@pytest.mark.minutes
def test_a_key_change_of_two_topics_counts_once_where_a_view_ends_the_old_one(
    project: Project, lake: Lake
) -> None:
    """As the docs say. Otherwise it is two changes, and the later one undoes `sent`."""
    shared = [
        landed(100, envelope("d", 20, thing(1, "paid"), None), header="newkey"),
        landed(101, envelope("c", 20, None, thing(2, "paid")), header="oldkey"),
        landed(102, envelope("u", 30, thing(2, "paid"), thing(2, "sent"))),
    ]
    old = [landed(99, envelope("c", 10, None, thing(1, "paid"))), *shared]
    new = [row | {"offset": row["offset"] - 100} for row in shared]
    numbered = [row | {"generation": 1} for row in old if row["offset"] < 100]
    numbered += [row | {"generation": 2} for row in new]
    lake.create("cut_topics", {**LANDING, "generation": "int"}, numbered)
    position = ", position=['generation', 'partition', 'offset']"
    models(project, "cut_topics", f", headers='headers'{position}")
    project.dbt(*STRICT, "run", "--select", *TABLES, "--full-refresh")
    versions = lake.rows(
        f"select id, note, closed_by from {SCHEMA}.things_history order by valid_from_seq"
    )
    assert [tuple(row.values()) for row in versions] == [
        (1, "paid", "key_change"),
        (2, "paid", "update"),
        (2, "sent", None),
    ]


@pytest.mark.minutes
@pytest.mark.parametrize("is_pruned", [False, True], ids=["all is landed", "pruned"])
def test_a_second_snapshot_that_was_read_can_be_taken_back(
    is_pruned: bool, project: Project, lake: Lake
) -> None:
    """As the docs say. Without that, the history has `b` alone, from the beginning on."""
    models(project, "read_twice", ", position=['partition', 'offset']")
    project.model(
        "things_audit",
        "select * from {{ ref('stg_things') }}",
        materialized="audit",
        unique_key=["id"],
    )
    below = ("things_history", "things_audit")
    rows = [
        landed(0, envelope("r", 1, None, thing(1, "a"))),
        landed(10, envelope("u", 20, None, thing(1, "b"))),
    ]
    lake.create("read_twice", LANDING, rows)
    project.dbt("run", "--select", "stg_things+", "--full-refresh")
    before = lake.contents(*below)
    version = {
        "iceberg": f"select snapshot_id as v from {SCHEMA}.stg_things.refs",
        "delta": f"select max(version) as v from (describe history {SCHEMA}.stg_things)",
    }
    [known] = lake.rows(version[FORMAT])
    if is_pruned:
        lake.spark.sql(f"delete from {SCHEMA}.read_twice where offset = 0")
    again = landed(900, envelope("r", 90, None, thing(1, "b")))
    later = landed(901, envelope("c", 91, None, thing(2, "c")))
    lake.append("read_twice", LANDING, [again, later])
    project.dbt("run", "--select", "stg_things+")
    [counted] = lake.rows(f"select count(*) as n from {SCHEMA}.things_history where id = 1")
    assert counted["n"] == 1
    lake.spark.sql(f"delete from {SCHEMA}.read_twice where offset = 900")
    if is_pruned:
        back = {
            "iceberg": f"call system.set_current_snapshot('{SCHEMA}.stg_things', {known['v']})",
            "delta": f"restore table {SCHEMA}.stg_things to version as of {known['v']}",
        }
        lake.spark.sql(back[FORMAT])
        project.dbt("run", "--select", "stg_things")
        project.dbt("run", "--full-refresh", "--select", *below)
    else:
        project.dbt("run", "--full-refresh", "--select", "stg_things+")
    (project.folder / "models/things_audit.sql").unlink()
    for name, found in lake.contents(*below).items():
        assert [row for row in found if row["id"] == 1] == before[name], name
        assert [row["id"] for row in found].count(2) == 1 + (name == "things_audit"), name


# A key change in two partitions: PostgreSQL's connector does not send the long value again.
MOVED: list[Row] = [
    landed(0, of_postgresql("c", 10, None, thing(1, "long"))),
    landed(1, of_postgresql("d", 20, thing(1, ""), None), key=1, header="newkey"),
    landed(2, None, key=1, header="newkey"),
    landed(0, of_postgresql("c", 20, None, thing(2, PLACEHOLDER)), header="oldkey")
    | {"partition": 1},
    landed(1, of_postgresql("u", 30, None, thing(2, PLACEHOLDER))) | {"partition": 1},
]
LOST = (
    "the row came from a key whose delete is not in this partition: columns that the message lacks"
    " are unknown. Leave `position` out"
)


@pytest.mark.minutes
@pytest.mark.parametrize(
    "position", ["", ", position=['partition', 'offset']"], ids=["log", "kafka"]
)
def test_messages_that_land_one_by_one_give_what_a_full_refresh_gives(
    position: str, project: Project, lake: Lake
) -> None:
    """Some runs have met what lands, and read the earlier messages, and the others have not."""
    models(project, "single", f", headers='headers'{position}")
    reread = envelope("r", 55, None, thing(4, "read again") | {"price": 1.50, "tags": [1.5]})
    reread["source"]["snapshot"] = "incremental"
    # Without its place, and no envelope.
    unplaced = envelope("u", 56, None, thing(4, "nowhere"))
    del unplaced["source"]["pos"]
    rows = [row for batch in BATCHES for row in batch]
    rows += [landed(16 + number, reread) for number in range(2)]
    rows += [landed(18 + number, unplaced) for number in range(2)]
    random.Random(int(os.environ.get("AFTERIMAGE_SEED", "7"))).shuffle(rows)
    found = run_in_batches_and_at_once(
        project, lake, TABLES, [{"single": (LANDING, [row])} for row in rows]
    )[-1]
    assert sum(change["source_rows"] for change in found["stg_things"]) == len(rows)


@pytest.mark.minutes
@pytest.mark.parametrize("first", ["the delete", "the insert"])
def test_what_lands_again_after_an_erasure_is_read_with_what_was_erased(
    first: str, project: Project, lake: Lake
) -> None:
    """The id of an erased change does not say which messages belong to it."""
    moved = [
        landed(1, envelope("d", 20, thing(1, "Eve"), None), header="newkey"),
        landed(2, envelope("c", 20, None, thing(2, "Eve")), header="oldkey"),
    ]
    if first == "the insert":
        moved.reverse()
    inserted = landed(0, envelope("c", 10, None, thing(1, "Eve")))
    models(project, "erased", ", headers='headers'")
    lake.create("erased", LANDING, [inserted, moved[0]])
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    keys = [{"id": 1}] if first == "the delete" else [{"id": 2}]
    project.dbt(
        "run-operation", "erase", "--args", json.dumps({"staging": "stg_things", "keys": keys})
    )
    try:
        for rows in ([moved[1]], [inserted, moved[0]]):
            lake.append("erased", LANDING, rows)
            project.dbt("run", "--select", *TABLES)
            in_batches = lake.contents(*TABLES)
            project.dbt("run", "--select", *TABLES, "--full-refresh")
            assert in_batches == lake.contents(*TABLES)
        [counted] = lake.rows(f"select sum(source_rows) as rows from {SCHEMA}.stg_things")
        assert counted["rows"] == 5
    finally:
        lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_run_that_has_met_none_of_its_messages_reads_no_earlier_file(
    project: Project, lake: Lake
) -> None:
    models(project, "unread", "")
    rows = [landed(place, envelope("c", place, None, thing(place, "a"))) for place in (1, 2, 3)]
    lake.create("unread", LANDING, rows[:2])
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    for file in lake.rows(f"select file_path from {SCHEMA}.unread.files"):
        Path(file["file_path"].removeprefix("file:")).unlink()
    lake.append("unread", LANDING, rows[2:])
    project.dbt("run", "--select", *TABLES)
    found = lake.rows(f"select id from {SCHEMA}.things_history where is_current order by id")
    assert [row["id"] for row in found] == [1, 2, 3]


@pytest.mark.slow
def test_a_file_that_lands_while_a_run_is_at_work_is_the_next_ones(
    project: Project, lake: Lake, tmp_path: Path
) -> None:
    """It has the insert of a key change, whose delete an earlier run has read alone."""
    # Marks of files are the same in each statement, whatever is in their path.
    topic = tmp_path / "a töpic, 100%"
    rows = [
        landed(9, envelope("c", 10, None, thing(1, "long"))),
        landed(10, envelope("d", 20, thing(1, "long"), None), header="newkey"),
        landed(11, None, key=1),
        landed(12, envelope("c", 20, None, thing(20, "long")), header="oldkey"),
        landed(13, envelope("c", 30, None, thing(2, "other"))),
    ]

    def land(name: str, *messages: Row) -> Path:
        folder = topic / name if name.startswith("batch=") else tmp_path / name
        lake.frame(LANDING, list(messages)).coalesce(1).write.parquet(str(folder))
        return folder

    def run(*options: str, pre_hook: str | None = None) -> list[tuple[int, str, str | None]]:
        project.stream(
            "stg_things",
            f"debezium_messages({relation(f'`{topic}`', 'parquet')}, unique_key=['id'],"
            f" key='key', headers='headers', columns={COLUMNS})",
            pre_hook=pre_hook,
        )
        project.history("things_history", "stg_things")
        project.dbt("run", "--select", *TABLES, *options)
        found = lake.rows(f"select id, note, closed_by from {SCHEMA}.things_history order by id")
        return [(row["id"], row["note"], row["closed_by"]) for row in found]

    land("batch=1", *rows[:3])
    assert run("--full-refresh") == [(1, "long", "delete")]
    land("batch=2", rows[4])
    later = land("later", rows[3])
    # A hook runs once the model's SQL is made, right before it.
    lands = f"insert overwrite directory '{topic}/batch=3' using parquet"
    assert run(pre_hook=f"{lands} select * from parquet.`{later}`") == [
        (1, "long", "delete"),
        (2, "other", None),
    ]
    whole = [(1, "long", "key_change"), (2, "other", None), (20, "long", None)]
    assert run() == whole
    assert run("--full-refresh") == whole


@pytest.mark.slow
@pytest.mark.parametrize("system", ["debezium", "qlik"])
def test_messages_that_are_gone_before_a_run_count_as_they_are(
    system: str, project: Project, lake: Lake
) -> None:
    """They landed since the last run, and were deleted, changed or landed again before this one."""

    def message(place: int, key: int, note: str) -> str:
        if system == "debezium":
            return json.dumps(envelope("c", place, None, thing(key, note)))
        number = f"20240301{place:027d}"
        headers = qlik_messages.headers("INSERT", changeSequence=number)
        body = {"data": thing(key, note), "beforeData": None, "headers": headers}
        return qlik_messages.json_message("DT", body)

    if system == "debezium":
        models(project, "gone", "")
    else:
        columns = column_list(id="int", note="string")
        call = f"qlik_messages({relation('gone')}, unique_key=['id'], columns={columns})"
        project.stream("stg_things", call)
        project.history("things_history", "stg_things")
    rows = [landed(place, message(place, place, "a")) for place in range(1, 6)]
    lake.create("gone", LANDING, rows[:1])
    if FORMAT == "delta":
        feed = "('delta.enableChangeDataFeed' = 'true')"
        lake.spark.sql(f"alter table {SCHEMA}.gone set tblproperties {feed}")
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    lake.append("gone", LANDING, rows[1:])
    lake.spark.sql(f"delete from {SCHEMA}.gone where offset = 2")
    lake.spark.sql(
        f"update {SCHEMA}.gone set value = replace(value, '\"a\"', '\"b\"') where offset = 3"
    )
    lake.spark.sql(f"delete from {SCHEMA}.gone where offset = 4")
    lake.append("gone", LANDING, [rows[3]])
    project.dbt("run", "--select", *TABLES)
    found = lake.contents(*TABLES)
    assert sorted((row["id"], row["note"]) for row in found["things_history"]) == [
        (1, "a"),
        (3, "b"),
        (4, "a"),
        (5, "a"),
    ]
    assert [row["source_rows"] for row in found["stg_things"]] == [1] * 4
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    assert lake.contents(*TABLES) == found


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("position", "notes", "closed_by", "warnings"),
    [
        ("", ["long", "long"], "key_change", {None}),
        (", position=['partition', 'offset']", ["long", None], "delete", {None, LOST}),
    ],
    ids=["log", "kafka"],
)
def test_a_key_change_in_two_partitions_keeps_its_values_in_the_order_of_the_log(
    position: str,
    notes: list[str | None],
    closed_by: str,
    warnings: set[str | None],
    project: Project,
    lake: Lake,
) -> None:
    lake.create("things", LANDING, MOVED)
    columns = column_list(id="int", note="string")
    project.stream(
        "stg_things",
        f"debezium_messages({relation('things')}, unique_key=['id'], key='key', headers='headers',"
        f" columns={columns}{position})",
    )
    project.history("things_history", "stg_things")
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    found = lake.contents(*TABLES)
    versions = sorted(found["things_history"], key=lambda row: (row["id"], row["version"]))
    assert [(row["id"], row["note"], row["closed_by"]) for row in versions] == [
        (1, notes[0], closed_by),
        (2, notes[1], None),
    ]
    said = {warning for one in found["stg_things"] for warning in one["warnings"] or [None]} - {
        "the key changed and not all columns were captured: they keep the old key's values,"
        " where these are known"
    }
    assert said == warnings


@pytest.mark.minutes
@pytest.mark.parametrize("half", ["c", "d"])
def test_a_half_of_a_key_change_that_did_not_fit_goes_into_the_whole_when_it_does(
    half: str, project: Project, lake: Lake
) -> None:
    many = 3_000_000_000
    before, after = (
        {"id": key, "n": many if half == op else 5} for key, op in ((1, "d"), (2, "c"))
    )
    lake.create(
        "half_fits",
        LANDING,
        [
            landed(0, envelope("d", 20, before, None), header="newkey"),
            landed(1, envelope("c", 20, None, after), header="oldkey"),
        ],
    )

    def run(kind: str) -> list[Row]:
        columns = column_list(id="int", n=kind)
        project.stream(
            "stg_half_fits",
            f"debezium_messages({relation('half_fits')}, unique_key=['id'], headers='headers',"
            f" columns={columns})",
            on_schema_change="append_new_columns",
        )
        flags = ["--full-refresh"] if kind == "int" else []
        project.dbt("run", "--select", "stg_half_fits", *flags)
        return lake.contents("stg_half_fits")["stg_half_fits"]

    assert sorted(change["reject_reason"] is None for change in run("int")) == [False, True]
    [whole] = run("bigint")
    assert (whole["operation"], whole["source_rows"]) == ("update", 2)
    assert (whole["before"], whole["after"]) == (before, after)


# --- Avro ---------------------------------------------------------------------------------------

AVRO_LANDING = {**LANDING, "key": "binary", "value": "binary"}
SCHEMAS = {"id": "int", "schema": "string"}
AVRO_TYPES: dict[str, Any] = {
    "id": "int",
    "n": "long",
    "price": decimal(10, 2),
    "day": logical("int", "io.debezium.time.Date"),
    "at": logical("long", "io.debezium.time.Timestamp"),
    "sure": "boolean",
    "ratio": "double",
    "photo": "bytes",
    "tags": {"type": "array", "items": ["null", "string"]},
    "note": "string",
}
AVRO_ROW = {name: kind if name == "id" else ["null", kind] for name, kind in AVRO_TYPES.items()}
AVRO_SOURCE = {"ts_ms": "long", "snapshot": ["string", "null"], "gtid": "string"} | {
    "file": "string",
    "pos": "long",
    "row": "int",
}
AVRO_ENVELOPE = envelope_schema(AVRO_ROW, AVRO_SOURCE)
AVRO_KEY = record("Key", {"id": "int"})
BY_ID = {7: AVRO_ENVELOPE, 8: AVRO_KEY, 9: {**AVRO_ENVELOPE, "doc": "as it was registered later"}}


AVRO_VALUES: Row = {
    "n": -(2**63),
    "price": Decimal("-0.05"),
    "day": 19783,
    "at": AT + 7,
    "sure": False,
    "ratio": 0.1,
    "photo": b"\0hi",
    "tags": ["a", None],
    "note": '"op":"d"',
}


def in_avro(row: Row, schema_id: int = 7) -> Row:
    """Write a landed row with its message and its key in Avro."""
    value, key = row["value"], row["key"]
    try:
        message = json.loads(value or "null")
    except ValueError:
        message = None
    if message is not None:
        value = framed(schema_id, BY_ID[schema_id], {"transaction": None, "ts_ms": 1, **message})
    elif value is not None:
        value = value.encode()
    return {**row, "value": value, "key": key and framed(8, AVRO_KEY, json.loads(key))}


def schema_rows(*ids: int) -> list[Row]:
    return [{"id": one, "schema": json.dumps(BY_ID[one])} for one in ids]


@pytest.mark.slow
def test_every_type_is_read_from_avro(project: Project, lake: Lake) -> None:
    before = thing(1, "old")
    after = {"id": 1, **AVRO_VALUES}
    unknown = {"note": "__debezium_unavailable_value", "photo": b"__debezium_unavailable_value"}
    rows = [
        in_avro(landed(0, "null") | {"value": None}),
        in_avro(landed(1, "no JSON")),
        *(
            landed(offset, None) | {"value": framed(7, AVRO_ENVELOPE, change)}
            for offset, change in enumerate(
                (
                    {**envelope("u", 10, before, after), "transaction": None, "ts_ms": 1},
                    {**envelope("u", 20, None, {**after, **unknown}), "transaction": None},
                    {**envelope("d", 30, None, None), "transaction": None, "ts_ms": 1},
                ),
                start=2,
            )
        ),
        landed(5, None) | {"value": b"\0\0\0\0\x07\x02"},
        landed(6, None) | {"value": b"\0\0\0\0\x06\x02"},
        # A message of a converter for JSON in the same topic.
        landed(7, None) | {"value": json.dumps(envelope("c", 40, None, thing(2, "b"))).encode()},
    ]
    rows[4]["key"] = framed(8, AVRO_KEY, {"id": 1})
    lake.create("typed", AVRO_LANDING, rows)
    lake.create("typed_schemas", SCHEMAS, [*schema_rows(7, 8), *schema_rows(7)])
    project.stream(
        "stg_typed",
        f"debezium_messages({relation('typed')}, unique_key=['id'], key='key', columns={COLUMNS},"
        f" schemas={relation('typed_schemas')})",
    )
    project.dbt("run", "--select", "stg_typed")

    staged = lake.contents("stg_typed")["stg_typed"]
    changes = sorted(
        (one for one in staged if one["reject_reason"] is None), key=lambda one: one["change_seq"]
    )
    expected = {
        "id": 1,
        "n": -(2**63),
        "price": Decimal("-0.05"),
        "day": date(2024, 3, 1),
        "at": datetime(2024, 3, 1, 9, 0, 0, 7000),
        "sure": False,
        "ratio": 0.1,
        "photo": bytearray(b"\0hi"),
        "tags": ["a", None],
        "note": '"op":"d"',
    }
    empty = dict.fromkeys(TYPES)
    told = [
        (one["operation"], one["before"], one["after"], one["absent_columns"]) for one in changes
    ]
    assert told == [
        ("update", {**empty, **before}, expected, None),
        ("update", None, {**expected, "photo": None, "note": None}, ["photo", "note"]),
        ("delete", {**empty, "id": 1}, None, None),
        (
            "insert",
            None,
            {**empty, "id": 2, "note": "b"},
            sorted(set(TYPES) - {"id", "note"}, key=list(TYPES).index),
        ),
    ]
    assert sorted(one["reject_reason"] for one in staged if one["reject_reason"]) == [
        "no schema has the id: 6",
        "not a JSON message: no JSON",
        "not an Avro message: the message: ends in the middle of a value",
        "tombstone: the value is NULL",
    ]


@pytest.mark.minutes
@pytest.mark.parametrize("is_replaced", [False, True], ids=["grows", "replaced"])
@pytest.mark.parametrize(
    "position", ["", ", position=['partition', 'offset']"], ids=["log", "kafka"]
)
def test_a_schema_may_come_after_its_messages(
    position: str,
    is_replaced: bool,
    project: Project,
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Also if each landing replaces the table, so that a run cannot tell what is new."""
    models(project, "avro", f", headers='headers', schemas={relation('avro_schemas')}{position}")
    models_of_json = f", headers='headers'{position}"
    run = ("run", "--select", *TABLES)
    ids = [(7, 8), (7, 8, 9), (7, 8, 9)]
    landed: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for number, rows in enumerate(BATCHES):
        # The second half of a batch has another schema, which comes one batch later.
        avro = [in_avro(row, 7 if place % 2 else 9) for place, row in enumerate(rows)]
        landed += avro
        if number == 0 or is_replaced:
            lake.create("avro", AVRO_LANDING, landed)
        else:
            lake.append("avro", AVRO_LANDING, avro)
        lake.create("avro_schemas", SCHEMAS, schema_rows(*ids[number]))
        capfd.readouterr()
        project.dbt("--no-quiet", *run, *(["--full-refresh"] if number == 0 else []))
        staged = lake.contents(*TABLES)["stg_things"]
        # A row that only waited for its schema is not counted; one that came again is.
        rejected = [row for row in staged if row["reject_reason"] and row not in known]
        assert f" {len(rejected)} rejected" in capfd.readouterr().out
        known = staged
        waiting = {one["reject_reason"] for one in staged if "schema" in str(one["reject_reason"])}
        assert waiting == ({"no schema has the id: 9"} if number == 0 else set())
        assert sum(one["source_rows"] for one in staged) == sum(map(len, BATCHES[: number + 1]))
    in_batches = lake.contents(*TABLES)
    project.dbt(*run, "--full-refresh")
    assert lake.contents(*TABLES) == in_batches

    lake.create("things", LANDING, [row for rows in BATCHES for row in rows])
    models(project, "things", models_of_json)
    project.dbt(*run, "--full-refresh")
    in_json = lake.contents(*TABLES)
    assert in_json["things_history"] == in_batches["things_history"]


@pytest.mark.minutes
def test_a_message_that_left_before_its_schema_came_wakes_no_run_once_its_row_is_deleted(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the docs say."""
    models(project, "gone_early", f", schemas={relation('avro_schemas')}")
    lake.create("avro_schemas", SCHEMAS, schema_rows(8))
    lake.create("gone_early", AVRO_LANDING, [in_avro(row, 7) for row in BATCHES[0][1:3]])
    project.dbt("run", "--select", "stg_things", "--full-refresh")
    lake.spark.sql(f"delete from {SCHEMA}.gone_early where offset = 3")
    lake.create("avro_schemas", SCHEMAS, schema_rows(7, 8))
    waiting = f"from {SCHEMA}.stg_things where reject_reason = 'no schema has the id: 7'"

    def said() -> str:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", "stg_things")
        return capfd.readouterr().out

    for _ in range(2):
        assert "because earlier rows waited for what has landed" in said()
        assert len(lake.rows(f"select 1 {waiting}")) == 1
    lake.spark.sql(f"delete {waiting}")
    assert "nothing new" in said()
    assert [row["reject_reason"] for row in lake.contents("stg_things")["stg_things"]] == [None]


@pytest.mark.minutes
@pytest.mark.parametrize(("kind", "written"), [("double", float), ("string", "0{}".format)])
def test_a_schema_that_comes_may_have_its_id_in_another_form(
    kind: str, written: Callable[[int], Any], project: Project, lake: Lake
) -> None:
    models(project, "avro", f", schemas={relation('avro_schemas')}")
    lake.create("avro", AVRO_LANDING, [in_avro(BATCHES[0][1], 9)])
    for ids in [(7,), (7, 8, 9)]:
        schemas = [{**row, "id": written(row["id"])} for row in schema_rows(*ids)]
        lake.create("avro_schemas", {**SCHEMAS, "id": kind}, schemas)
        full_refresh = ["--full-refresh"] if ids == (7,) else []
        project.dbt("run", "--select", "stg_things", *full_refresh)
    [change] = lake.contents("stg_things")["stg_things"]
    assert change["reject_reason"] is None


@pytest.mark.slow
def test_schemas_may_be_given_later(project: Project, lake: Lake) -> None:
    """Then what was rejected without them is read again, though nothing has landed."""
    avro = [in_avro(row, 7) for row in BATCHES[0]]
    lake.create("avro", AVRO_LANDING, avro)
    lake.create("avro_schemas", SCHEMAS, schema_rows(7, 8))
    run = ("run", "--select", "stg_things")
    models(project, "avro", ", headers='headers'")
    project.dbt(*run, "--full-refresh")
    at_first = lake.contents("stg_things")["stg_things"]
    assert {row["reject_reason"] is None for row in at_first} == {False}
    models(project, "avro", f", headers='headers', schemas={relation('avro_schemas')}")
    project.dbt(*run)
    in_runs = lake.contents("stg_things")["stg_things"]
    assert sum(row["source_rows"] for row in in_runs) == len(avro)
    project.dbt(*run, "--full-refresh")
    assert lake.contents("stg_things")["stg_things"] == in_runs
    # Without them again, a message that is read again is a row of its own, beside its change.
    models(project, "avro", ", headers='headers'")
    lake.create("avro", AVRO_LANDING, avro)
    project.dbt(*run)
    taken_away = lake.contents("stg_things")["stg_things"]
    assert [row for row in taken_away if row["reject_reason"] is None] == [
        row for row in in_runs if row["reject_reason"] is None
    ]
    assert [row for row in at_first if row not in taken_away] == []


# --- whatever the bytes are ---------------------------------------------------------------------

# For each column JSON that fits its type, and JSON that does not.
FITS = {
    "n": ["0", "-9223372036854775808", '"7"', "5.0", "null"],
    "price": ['"BOI="', '"/w=="', "12.5", "-1", '"0.10"', '{"scale": 1, "value": "AQ=="}'],
    "day": ["0", "-719162", "2932896", '"2024-02-29"'],
    "at": ["0", "-1", "253402300799999", '"2024-03-01T09:00:00Z"'],
    "sure": ["true", "false", "0", "1"],
    "ratio": ["1.5", "1e300", '"NaN"', "-0"],
    "photo": ['""', '"aGk="', '"aGkh"'],
    "tags": ["[]", '["a", null]', "[1]"],
    "note": ["1", "[]", "{}", '"\\ud83d"', '"\\u0000"', '"\\"op\\":\\"d\\""', "1e400"],
}
MISFITS = {
    "n": ["9223372036854775808", "1.5", '""', '"x"', "true", "[1]", "1e3", "{}"],
    "price": ['"x"', "true", "0.125", "1e30", '"BOI"', "[]", '{"scale": 1}', '"' + "A" * 40 + '"'],
    "day": ["2932897", "-719163", '"2024-02-30"', '"x"', "true", "1.5", "99999999999999999999"],
    "at": ["253402300800000", '"12:00:00"', "1.5", "true", "9" * 40, '"2024-13-01"'],
    "sure": ["2", '"x"', "[]", '""'],
    "ratio": ['"x"', "true", "[]"],
    "photo": ['"aGk"', '"!!!!"', "1", '"a==="'],
    "tags": ['"x"', "5", "true"],
}


def described(number: int, column: str, token: str, file: int = 7) -> bytes:
    message = envelope("c", number, None, {"id": number, column: "<token>"})
    message["source"]["file"] = f"binlog.{file:06d}"
    return json.dumps(message).replace('"<token>"', token).encode()


def broken(order: random.Random, number: int) -> bytes:
    """Return a message that was damaged: bytes turned, cut, doubled, or tokens in wrong places."""
    column = order.choice(list(FITS))
    return damaged(order, described(number, column, order.choice(FITS[column]), file=9))


def broken_avro(order: random.Random, number: int) -> bytes:
    """Return a damaged message in Avro. The schema with the id 9 is not in the registry."""
    row = {name: order.choice([None, value]) for name, value in AVRO_VALUES.items()}
    change = envelope("u", number, thing(number, "old"), {**row, "id": number})
    schema_id = order.choice([7, 7, 9])
    message = framed(schema_id, BY_ID[schema_id], {**change, "transaction": None, "ts_ms": 1})
    return damaged(order, message)


def damaged(order: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(order.choice([1, 1, 2, 8])):
        where = order.randrange(len(data))
        way = order.randrange(6)
        if way == 0:
            data[where] = order.randrange(256)
        elif way == 1:
            data = data[: max(1, where)]
        elif way == 2:
            data[where:where] = data[where : where + order.randrange(40)]
        elif way == 3:
            data[where:where] = order.choice([b'"', b"{", b"}", b"[", b",", b":", b"\\", b"null"])
        elif way == 4:
            del data[where : where + order.randrange(1, 20)]
            data = data or bytearray(b"{")
        else:
            data = bytearray(order.randbytes(order.randrange(1, 60)))
    return bytes(data)


def check_any_bytes(count: int, project: Project, lake: Lake) -> None:
    order = random.Random(count)
    known: list[tuple[int, str | None, bytes]] = []
    for is_wrong, tokens in ((False, FITS), (True, MISFITS)):
        for column, those in tokens.items():
            for token in those:
                number = len(known) + 1
                known.append(
                    (number, column if is_wrong else None, described(number, column, token))
                )
    values = [value for *_, value in known]
    values += [broken(order, 1000 + number) for number in range(count - len(values))]
    avro = [broken_avro(order, 1000 + number) for number in range(count - len(known))]
    schemas = f", schemas={relation('any_schemas')}"
    lake.create("any_schemas", SCHEMAS, schema_rows(7, 8))
    for table, kind in {"bytes": "binary", "texts": "string", "avro": "binary"}.items():
        # As text a landing has no bytes that are none.
        rows = [
            {"value": value if kind == "binary" else value.decode("utf-8", "replace")}
            for value in (values[: len(known)] + avro if table == "avro" else values)
        ]
        lake.create(f"any_{table}", {"value": kind}, rows)
        project.model(
            f"stg_any_{table}",
            f"{{{{ debezium_messages({relation(f'any_{table}')}, unique_key=['id'],"
            f" columns={COLUMNS}{schemas if table == 'avro' else ''}) }}}}",
        )
    tables = ["stg_any_bytes", "stg_any_texts", "stg_any_avro"]
    found = {}
    for ansi in ("false", "true"):
        lake.spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            project.dbt("run", "--select", *tables)
        finally:
            lake.spark.conf.set("spark.sql.ansi.enabled", "false")
        found[ansi] = lake.contents(*tables)
    assert repr(found["true"]) == repr(found["false"])
    for staged in found["true"].values():
        assert sum(change["source_rows"] for change in staged) == count
        assert len({change["change_id"] for change in staged}) == len(staged)
        reasons = {
            int(change["change_seq"][10:30]): change["reject_reason"]
            for change in staged
            if change["change_seq"].startswith(f"{7:010d}")
        }
        wrong = [
            (value, reasons[number])
            for number, column, value in known
            if not (
                reasons[number] is None
                if column is None
                else str(reasons[number]).startswith(f"a value does not fit its column: {column} ")
            )
        ]
        assert wrong == []


@pytest.mark.minutes
def test_any_bytes_end_in_one_bucket(project: Project, lake: Lake) -> None:
    check_any_bytes(2_000, project, lake)


@pytest.mark.long
def test_a_hundred_thousand_damaged_messages_end_in_one_bucket_each(
    project: Project, lake: Lake
) -> None:
    check_any_bytes(100_000, project, lake)
