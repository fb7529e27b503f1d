"""Messages in, history out: two formats, two versions of a table, any batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, column_list, emptied, relation
from deliveries import Batch, count_rows, run_in_batches, run_in_batches_and_at_once
from dialect_qlik import as_staged, landed_message, landing, qlik_column
from histories import EXAMPLES, assert_same_history, fewer_checks
from qlik_messages import (
    Column,
    avro_message,
    column,
    data_schema,
    headers,
    json_message,
    mask,
    metadata,
)
from reference import Change, Key, Row, history
from strategies import DOMAINS, Stream, merged_streams, splits

FORMATS = ["json", "avro"]


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("qlik_messages")


VERSION_1 = [
    column("ID", "INT4", key=1),
    column("NAME", "STRING"),
    column("BALANCE", "NUMERIC", 12, 2),
]
VERSION_2 = [VERSION_1[0], VERSION_1[1], column("EMAIL", "STRING"), VERSION_1[2]]
VERSIONS = {"v1": VERSION_1, "v2": VERSION_2}
BALANCE = {"BALANCE": "decimal(12,2)"}
ACCOUNT = {"ID": "int", "NAME": "string", **BALANCE}


def message(
    form: str,
    version: str,
    operation: str,
    place: int,
    data: dict[str, Any] | None,
    before: dict[str, Any] | None = None,
    changed: Sequence[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """Return a landed message of the accounts table."""
    columns = [described["name"] for described in VERSIONS[version]]
    body = {
        "data": data,
        "beforeData": before,
        "headers": headers(
            operation,
            changeSequence=f"2024010112000000{place:019d}" if place else None,
            timestamp=f"2024-01-01T12:00:{place:02d}" if place else None,
            changeMask=mask(changed, columns),
            columnMask=mask(columns, columns),
            externalSchemaId=version,
            **more,
        ),
    }
    if form == "json":
        return {"value": json_message("DT", body)}
    for image in (data, before):
        if image and "BALANCE" in image:
            image["BALANCE"] = Decimal(image["BALANCE"])
    return {"value": avro_message("DT", data_schema(VERSIONS[version]), body, version)}


def described(form: str, version: str) -> dict[str, Any]:
    """Return a landed metadata message of the accounts table."""
    return metadata(form, version, "ACCOUNTS", int(version[1:]), VERSIONS[version])


def of_version_1(form: str) -> list[dict[str, Any]]:
    ada = {"ID": 1, "NAME": "Ada", "BALANCE": "1.00"}
    return [
        message(form, "v1", "REFRESH", 0, dict(ada)),
        message(
            form, "v1", "UPDATE", 1, {**ada, "BALANCE": "2.00"}, dict(ada), changed=["BALANCE"]
        ),
        message(form, "v1", "INSERT", 2, {"ID": 2, "NAME": "Bob", "BALANCE": "0.10"}),
    ]


def of_version_2(form: str) -> list[dict[str, Any]]:
    ada = {"ID": 1, "NAME": "Ada", "EMAIL": None, "BALANCE": "2.00"}
    return [
        message(form, "v2", "UPDATE", 3, {**ada, "EMAIL": "a@x"}, dict(ada), changed=["EMAIL"]),
        message(
            form,
            "v2",
            "UPDATE",
            4,
            {**ada, "EMAIL": "a@x", "BALANCE": "3.00"},
            {**ada, "EMAIL": "a@x"},
            changed=["BALANCE"],
        ),
        message(form, "v2", "DELETE", 5, None, {"ID": 2, "NAME": "Bob", "BALANCE": "0.10"}),
    ]


TWO_VERSIONS = [
    # ID, NAME, EMAIL, BALANCE, places, what opened and closed the version
    (1, "Ada", None, "1.00", 0, 1, "load", "update"),
    (1, "Ada", None, "2.00", 1, 3, "update", "update"),
    (1, "Ada", "a@x", "2.00", 3, 4, "update", "update"),
    (1, "Ada", "a@x", "3.00", 4, None, "update", None),
    (2, "Bob", None, "0.10", 2, 5, "insert", "delete"),
]


def two_versions(lake: Lake, form: str) -> list[tuple[Any, ...]]:
    def place(change_seq: str | None) -> int | None:
        return None if change_seq is None else int(change_seq[16:] or 0)

    rows = lake.rows(
        f"select * from {SCHEMA}.versioned_{form}_history where ID <> 9 order by ID, version"
    )
    return [
        (
            row["ID"],
            row["NAME"],
            row["EMAIL"],
            str(row["BALANCE"]),
            place(row["valid_from_seq"]),
            place(row["valid_to_seq"]),
            row["operation"],
            row["closed_by"],
        )
        for row in rows
    ]


def staged(lake: Lake, table: str) -> list[dict[str, Any]]:
    rows = lake.rows(f"select * from {SCHEMA}.{table} order by change_id")
    for row in rows:
        del row["ingested_at"]
    return rows


def test_a_column_may_be_called_operation(project: Project, lake: Lake) -> None:
    """What it says does not make a message a load."""
    texts = [
        json_message("DT", {"data": {"OPERATION": data}, "headers": headers(operation)})
        for operation, data in (("UPDATE", "Refresh index"), ("REFRESH", "none"))
    ]
    is_load = project.sql("afterimage._qlik_is_load({'value': 'value', 'is_binary': false})")
    found = lake.frame({"value": "string"}, [{"value": text} for text in texts])
    assert [row[0] for row in found.selectExpr(is_load).collect()] == [False, True]


@pytest.mark.minutes
def test_a_table_changed_in_two_steps_has_one_history_in_either_format(
    project: Project, lake: Lake
) -> None:
    for form in FORMATS:
        project.stream(
            f"stg_versioned_{form}",
            f"qlik_messages({relation('versioned_' + form)}, unique_key=['ID'],"
            f" columns={column_list(ID='int', NAME='string', EMAIL='string', **BALANCE)},"
            f" table='ACCOUNTS', metadata={relation(f'versioned_{form}_metadata')})",
        )
        project.history(f"versioned_{form}_history", f"stg_versioned_{form}", ["ID"])
        # The messages of the second version come before their schema does.
        messages = of_version_1(form) + of_version_2(form)
        lake.create(f"versioned_{form}", landing(form), messages)
        lake.create(f"versioned_{form}_metadata", landing(form), [described(form, "v1")])

    project.dbt("run", "--select", "+versioned_json_history", "+versioned_avro_history")
    for form in FORMATS:
        waiting = [
            row["reject_reason"]
            for row in staged(lake, f"stg_versioned_{form}")
            if row["schema_id"] == "v2"
        ]
        assert waiting == ["no metadata message has the schema id: v2"] * 3
        # With a message of a month later, whose place is far from theirs.
        late = message(form, "v1", "INSERT", 9, {"ID": 9, "NAME": "late", "BALANCE": "9.00"})
        late["value"] = later(late["value"])
        lake.append(f"versioned_{form}", landing(form), [late])
        lake.append(f"versioned_{form}_metadata", landing(form), [described(form, "v2")])

    project.dbt("run", "--select", "+versioned_json_history", "+versioned_avro_history")
    in_batches = {form: staged(lake, f"stg_versioned_{form}") for form in FORMATS}
    for form, rows in in_batches.items():
        assert two_versions(lake, form) == TWO_VERSIONS
        changed = {row["change_seq"][16:]: row["changed_columns"] for row in rows}
        assert changed[f"{1:019d}"] == ["BALANCE"]
        assert changed[f"{3:019d}"] == ["EMAIL"]
        assert changed[f"{4:019d}"] == ["BALANCE"]
        assert [row for row in rows if row["reject_reason"]] == []

    project.dbt("run", "--select", "stg_versioned_json", "stg_versioned_avro", "--full-refresh")
    assert {form: staged(lake, f"stg_versioned_{form}") for form in FORMATS} == in_batches


def unnamed(
    place: int, time: str | None, changed: str, landed_at: datetime | None = None, **more: Any
) -> dict[str, Any]:
    """Return an update that names no schema, of a row with all columns; its key is its place."""
    data = {"ID": place, "NAME": "Ada", "EMAIL": "a@x", "BALANCE": "1.00"}
    head = headers(
        "UPDATE",
        changeSequence=f"2024010212000000{place:019d}",
        timestamp=time,
        changeMask=changed,
        columnMask="07" if changed else None,
    )
    value = json.dumps({"data": data, "beforeData": None, "headers": head, **more})
    return {"value": value, "timestamp": landed_at}


# BALANCE stands before EMAIL here, and behind it in the table's second version.
OTHER_ORDER = column_list(ID="int", NAME="string", **BALANCE, EMAIL="string")
NO_SCHEMA = "the message names no schema: it is read by"
NONE_DESCRIBED = "the message names no schema, and no metadata message describes its table"


def read_unnamed(
    project: Project, lake: Lake, messages: list[dict[str, Any]], described: list[dict[str, Any]]
) -> list[tuple[list[str] | None, list[str] | None, str | None]]:
    """Read messages: what changed, the warnings and the reason of each, in order."""
    lake.create("unnamed", landing("json"), messages)
    lake.create("unnamed_metadata", landing("json"), described)
    call = (
        f"qlik_messages({relation('unnamed')}, unique_key=['ID'], columns={OTHER_ORDER},"
        f" metadata={relation('unnamed_metadata')})"
    )
    rows = lake.rows(f"select * from ({project.sql(call)}) as staged order by change_seq")
    assert [row["schema_id"] for row in rows] == [None] * len(messages)
    return [(row["changed_columns"], row["warnings"], row["reject_reason"]) for row in rows]


@pytest.mark.slow
def test_a_message_that_names_no_schema_is_read_by_the_only_one(
    project: Project, lake: Lake
) -> None:
    """Its masks count by that schema, not by `columns`. It was not there by the first message."""
    messages = [
        unnamed(1, "2024-01-01T12:00:00", "04"),
        unnamed(2, "2024-01-03T12:00:00", "08"),
        unnamed(3, "2024-01-03T12:00:00", ""),
    ]
    assert read_unnamed(project, lake, messages, [described("json", "v2")]) == [
        (["EMAIL"], [f"{NO_SCHEMA} v2, the first of its table"], None),
        (["BALANCE"], None, None),
        (None, None, None),
    ]


def test_of_several_schemas_the_newest_of_the_messages_time_counts_with_a_warning(
    project: Project, lake: Lake
) -> None:
    """The first version is of 2024-01-01, the second of 2024-01-02."""
    newest = [f"{NO_SCHEMA} {version}, the newest of its table by then" for version in ("v1", "v2")]
    messages = [
        unnamed(1, "2024-01-01T12:00:00", "04"),
        unnamed(2, "2024-01-02T12:00:00", "04"),
        # Kafka's time says best whether a message was written before a schema or after it.
        unnamed(3, "2024-01-01T12:00:00", "04", landed_at=datetime(2024, 1, 2, 0, 0, 1)),
        # Of the time in its changeSequence.
        unnamed(4, "1970-01-01T00:00:00", "04"),
        unnamed(5, "2023-12-31T00:00:00", "04"),
        unnamed(6, "2024-01-02T12:00:00", ""),
    ]
    # A restarted task writes the second one again; it was there before.
    again = metadata("json", "v2", "ACCOUNTS", 2, VERSIONS["v2"], day=10)
    schemas = [*(described("json", version) for version in ("v2", "v1", "v2")), again]
    taken = "changed_at is taken from change_seq"
    assert read_unnamed(project, lake, messages, schemas) == [
        (["BALANCE"], [newest[0]], None),
        (["EMAIL"], [newest[1]], None),
        (["EMAIL"], [newest[1]], None),
        (["EMAIL"], [taken, newest[1]], None),
        (["BALANCE"], [f"{NO_SCHEMA} v1, the first of its table"], None),
        (None, None, None),
    ]


def test_the_newest_schema_is_the_one_published_last(project: Project, lake: Lake) -> None:
    """A task that was set up again may count the versions of a table from 1 again."""
    schemas = [
        metadata("json", "old", "ACCOUNTS", 3, VERSION_1, day=1),
        metadata("json", "new", "ACCOUNTS", 1, VERSION_2, day=2),
    ]
    messages = [unnamed(1, "2024-01-03T12:00:00", "04")]
    assert read_unnamed(project, lake, messages, schemas) == [
        (["EMAIL"], [f"{NO_SCHEMA} new, the newest of its table by then"], None)
    ]
    call = (
        f"qlik_messages({relation('unnamed')}, unique_key=['ID'],"
        f" metadata={relation('unnamed_metadata')})"
    )
    [row] = lake.rows(project.sql(call))
    assert list(row["after"]) == ["ID", "NAME", "EMAIL", "BALANCE"]


@pytest.mark.slow
def test_a_kept_schema_has_the_time_of_its_first_message(project: Project, lake: Lake) -> None:
    """That message lands last here, and then leaves the topic."""
    call = f"{{{{ qlik_message_schemas({relation('kept_metadata')}) }}}}"
    config = {"materialized": "incremental", "incremental_strategy": "merge"}
    project.model("kept_schemas", call, **config, unique_key="schema_column_id", file_format=FORMAT)
    for landed_days, refresh in (([10], ["--full-refresh"]), ([10, 2], []), ([12], [])):
        lake.create(
            "kept_metadata",
            landing("json"),
            [metadata("json", "v2", "ACCOUNTS", 2, VERSION_2, day=day) for day in landed_days],
        )
        project.dbt("run", "--select", "kept_schemas", *refresh)
    found = lake.rows(f"select distinct published_at from {SCHEMA}.kept_schemas")
    assert [row["published_at"].day for row in found] == [2]


@pytest.mark.slow
def test_a_message_that_names_no_schema_is_rejected_where_none_can_be_told(
    project: Project, lake: Lake
) -> None:
    def of_table(name: str, version: str) -> dict[str, Any]:
        return metadata("json", version, name, 1, VERSIONS[version])

    time = "2024-01-03T12:00:00"
    one, other = of_table("ACCOUNTS", "v1"), of_table("ORDERS", "v2")
    messages = [
        unnamed(1, time, "04"),
        unnamed(2, time, "04", table="accounts"),
        unnamed(3, time, "04", schema="dbo", table="ORDERS"),
        unnamed(4, time, "04", schema="old", table="ORDERS"),
        unnamed(5, time, "", schema="old", table="ORDERS"),
    ]
    assert read_unnamed(project, lake, messages, [one, other]) == [
        (
            ["BALANCE"],
            None,
            "the message names neither its schema nor its table, and the metadata messages describe"
            " several",
        ),
        (["BALANCE"], None, None),
        (["EMAIL"], None, None),
        (["BALANCE"], None, NONE_DESCRIBED),
        (None, None, None),
    ]
    assert read_unnamed(project, lake, messages[:1], []) == [(["BALANCE"], None, NONE_DESCRIBED)]


@pytest.mark.minutes
@pytest.mark.parametrize("shares_topic", [True, False], ids=["one topic", "two topics"])
@pytest.mark.parametrize("versions", [("v1", "v2"), ("v2", "v1")], ids="-".join)
def test_what_names_no_schema_is_read_alike_whenever_its_metadata_come(
    versions: tuple[str, str], shares_topic: bool, project: Project, lake: Lake
) -> None:
    told = "shared" if shares_topic else "told_apart"
    schemas = told if shares_topic else f"{told}_metadata"
    project.stream(
        f"stg_{told}",
        f"qlik_messages({relation(told)}, unique_key=['ID'], columns={OTHER_ORDER},"
        f" metadata={relation(schemas)})",
    )
    first, second = unnamed(1, "2024-01-01T12:00:00", "04"), unnamed(2, "2024-01-02T12:00:00", "04")
    lake.create(told, landing("json"), [first, second])
    if not shares_topic:
        lake.create(schemas, landing("json"), [])

    def found(*arguments: str) -> list[dict[str, Any]]:
        project.dbt("run", "--select", f"stg_{told}", *arguments)
        return staged(lake, f"stg_{told}")

    def changes(rows: list[dict[str, Any]]) -> list[Any]:
        rows = sorted(rows, key=lambda row: row["change_seq"])
        told = [row for row in rows if row["change_seq"]]
        return [(r["changed_columns"], r["warnings"], r["reject_reason"]) for r in told]

    assert [reason for *_, reason in changes(found("--full-refresh"))] == [NONE_DESCRIBED] * 2
    lake.append(schemas, landing("json"), [described("json", versions[0])])
    by_first = found()
    column = {"v1": "BALANCE", "v2": "EMAIL"}[versions[0]]
    # The second version was not there by the first message.
    doubt = [f"{NO_SCHEMA} v2, the first of its table"] if versions[0] == "v2" else None
    assert changes(by_first) == [([column], doubt, None), ([column], None, None)]
    assert found() == by_first
    lake.append(schemas, landing("json"), [described("json", versions[1])])
    by_both = found()
    assert changes(by_both) == [
        (["BALANCE"], [f"{NO_SCHEMA} v1, the newest of its table by then"], None),
        (["EMAIL"], [f"{NO_SCHEMA} v2, the newest of its table by then"], None),
    ]
    # A later message, and the same metadata again.
    lake.append(told, landing("json"), [unnamed(3, "2024-01-05T12:00:00", "04")])
    lake.append(schemas, landing("json"), [described("json", versions[1])])
    at_last = found()
    assert changes(at_last)[2][0] == ["EMAIL"]
    assert found("--full-refresh") == at_last


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "avro"])
def test_metadata_may_be_given_later_for_the_messages_of_one_topic(
    form: str, project: Project, lake: Lake
) -> None:
    """Then what was read without it is read again, though nothing has landed."""

    def found(*arguments: str) -> list[dict[str, Any]]:
        project.dbt("run", "--select", "stg_later", *arguments)
        return staged(lake, "stg_later")

    without = f"qlik_messages({relation('later')}, unique_key=['ID'], columns={OTHER_ORDER}"
    project.stream("stg_later", f"{without})")
    lake.create("later", landing(form), [described(form, "v2"), *of_version_2(form)])
    at_first = found("--full-refresh")
    project.stream("stg_later", f"{without}, metadata={relation('later')})")
    by_metadata = found()
    assert by_metadata != at_first
    assert found() == by_metadata
    assert found("--full-refresh") == by_metadata


@pytest.mark.slow
def test_a_table_whose_metadata_are_gone_is_told_the_columns_it_has(
    project: Project, lake: Lake
) -> None:
    """A full refresh would cost what the raw table no longer holds.

    A run with `--empty` reads them, but no messages.
    """

    def call(further: str = "", raw: str = relation("bereft")) -> str:
        return f"qlik_messages({raw}, unique_key=['ID'], metadata={raw}{further})"

    project.stream("stg_bereft", call())
    lake.create("bereft", landing("json"), [described("json", "v1"), *of_version_1("json")])
    assert lake.rows(project.sql(call(raw=emptied("bereft")))) == []
    project.dbt("run", "--select", "stg_bereft", "--full-refresh")
    lake.create("bereft", landing("json"), of_version_1("json")[2:])
    with pytest.raises(DbtError, match=r"(?s)no metadata message in .* Run it\s+without"):
        project.sql(call(raw=emptied("bereft")))
    with pytest.raises(DbtError, match=r"(?s)no metadata message in .* do not rebuild") as error:
        project.dbt("run", "--select", "stg_bereft")
    columns = str(error.value).partition("for each LOB: ")[2].partition("]")[0] + "]"
    assert columns.startswith("columns=[{'name': 'ID', 'type': 'int'}")
    project.stream("stg_bereft", call(f", {columns}"))
    project.dbt("run", "--select", "stg_bereft")
    changes = f"select after.ID, after.BALANCE from {SCHEMA}.stg_bereft where operation <> 'load'"
    assert sorted(tuple(row.values()) for row in lake.rows(changes) if row["ID"]) == [
        (1, Decimal("2.00")),
        (2, Decimal("0.10")),
    ]


@pytest.mark.slow
def test_metadata_are_not_taken_away_from_a_model(project: Project, lake: Lake) -> None:
    """What is read again would be read by `columns`. Once there are none, it stays as it is."""
    columns = column_list(ID="int", NAME="string", EMAIL="string", **BALANCE)
    call = f"qlik_messages({relation('bound')}, unique_key=['ID'], columns={columns}"
    given = f", metadata={relation('bound_metadata')}"

    def found(further: str, *arguments: str) -> list[tuple[Any, ...]]:
        project.stream("stg_bound", f"{call}{further})")
        project.dbt("run", "--select", "stg_bound", *arguments)
        rows = staged(lake, "stg_bound")
        return [(row["changed_columns"], row["absent_columns"]) for row in rows]

    ada = {"ID": 1, "NAME": "Ada", "BALANCE": "10.00"}
    # By the order of `columns` its bit is that of EMAIL, and BALANCE was not captured.
    sent = message("json", "v1", "UPDATE", 1, {**ada, "BALANCE": None}, ada, changed=["BALANCE"])
    lake.create("bound", landing("json"), [sent])
    lake.create("bound_metadata", landing("json"), [described("json", "v1")])
    as_sent = [(["BALANCE"], ["EMAIL"])]
    assert found(given, "--full-refresh") == as_sent
    lake.create("bound_metadata", landing("json"), [])
    lake.create("bound", landing("json"), [sent])
    refusal = r"(?s)the `metadata` of .* has changed since .* Built with: given. Got: None"
    with pytest.raises(DbtError, match=refusal):
        found("")
    assert found(given) == as_sent


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_what_was_read_by_a_schema_stays_where_that_is_gone(
    form: str, project: Project, lake: Lake
) -> None:
    """By `columns` the masks of its messages would mean other columns."""
    columns = column_list(ID="int", NAME="string", EMAIL="string", **BALANCE)
    project.stream(
        "stg_lasting",
        f"qlik_messages({relation('lasting')}, unique_key=['ID'], columns={columns},"
        f" metadata={relation('lasting_metadata')})",
    )

    def found(*arguments: str) -> list[dict[str, Any]]:
        project.dbt("run", "--select", "stg_lasting", *arguments)
        return staged(lake, "stg_lasting")

    nameless = unnamed(7, "2024-01-03T12:00:00", "04")
    if form == "avro":
        nameless["value"] = nameless["value"].encode()
    lake.create("lasting", landing(form), [*of_version_1(form), nameless])
    lake.create("lasting_metadata", landing(form), [described(form, "v1")])
    at_first = found("--full-refresh")
    changed = [row["changed_columns"] for row in at_first if row["operation"] == "update"]
    assert changed == [["BALANCE"]] * 2
    lake.create("lasting_metadata", landing(form), [])
    assert found() == at_first
    # What lands without the schema waits for it.
    lake.append("lasting", landing(form), of_version_2(form)[:1])
    assert [row for row in found() if row["schema_id"] != "v2"] == at_first
    lake.append("lasting_metadata", landing(form), [described(form, one) for one in VERSIONS])
    assert found() == found("--full-refresh")


@pytest.mark.slow
def test_what_names_no_schema_stays_as_the_one_of_its_time_read_it(
    project: Project, lake: Lake
) -> None:
    """By a later one, which is all that is left, its masks would mean other columns."""
    project.stream(
        "stg_outlived",
        f"qlik_messages({relation('outlived')}, unique_key=['ID'], columns={OTHER_ORDER},"
        f" metadata={relation('outlived_metadata')})",
    )

    def found(*arguments: str) -> list[dict[str, Any]]:
        project.dbt("run", "--select", "stg_outlived", *arguments)
        rows = staged(lake, "stg_outlived")
        return sorted(rows, key=lambda row: str(row["change_seq"]))

    lake.create("outlived", landing("json"), [unnamed(1, "2024-01-01T12:00:00", "04")])
    lake.create("outlived_metadata", landing("json"), [described("json", "v1")])
    at_first = found("--full-refresh")
    assert [(row["changed_columns"], row["warnings"]) for row in at_first] == [(["BALANCE"], None)]
    lake.create("outlived_metadata", landing("json"), [described("json", "v2")])
    assert found() == at_first
    # What lands without the schema of its time is read by the later one, until its own is back.
    lake.append("outlived", landing("json"), [unnamed(2, "2024-01-01T12:00:00", "04")])
    [first, second] = found()
    assert [first] == at_first
    doubt = [f"{NO_SCHEMA} v2, the first of its table"]
    assert (second["changed_columns"], second["warnings"]) == (["EMAIL"], doubt)
    lake.append("outlived_metadata", landing("json"), [described("json", "v1")])
    by_both = found()
    assert [row["changed_columns"] for row in by_both] == [["BALANCE"]] * 2
    assert found("--full-refresh") == by_both


@pytest.mark.slow
def test_what_names_no_schema_stays_as_its_first_message_was_read(
    project: Project, lake: Lake
) -> None:
    """The task has written it again, after a new version of the table, and only that is landed."""
    columns = column_list(ID="int", NAME="string", EMAIL="string", **BALANCE)
    project.stream(
        "stg_resent",
        f"qlik_messages({relation('resent')}, unique_key=['ID'], columns={columns},"
        f" metadata={relation('resent_metadata')})",
    )

    def sent(offset: int, day: int) -> dict[str, Any]:
        head = headers(
            "UPDATE", changeSequence=f"2024010112{1:025d}", changeMask="04", columnMask="07"
        )
        body = {"data": {"ID": 1, "NAME": "Ada", "BALANCE": None}, "headers": head}
        landed = {"topic": "t", "partition": 0, "timestamp": datetime(2024, 1, day, 12)}
        return {"value": json.dumps(body), "offset": offset, **landed}

    def changes(*arguments: str) -> list[tuple[Any, ...]]:
        project.dbt("run", "--select", "stg_resent", *arguments)
        rows = staged(lake, "stg_resent")
        return [(row["changed_columns"], row["absent_columns"]) for row in rows]

    # BALANCE was set to NULL. Later the bit is that of EMAIL, and BALANCE has none in columnMask.
    as_sent = [(["BALANCE"], ["EMAIL"])]
    lake.create("resent", landing("json"), [sent(offset=5, day=1)])
    lake.create("resent_metadata", landing("json"), [described("json", "v1")])
    assert changes("--full-refresh") == as_sent
    lake.append("resent_metadata", landing("json"), [described("json", "v2")])
    assert changes() == as_sent
    lake.create("resent", landing("json"), [sent(offset=9, day=2)])
    assert changes() == as_sent
    # The old version may leave with the messages of its time.
    lake.create("resent_metadata", landing("json"), [described("json", "v2")])
    assert changes() == as_sent


@pytest.mark.minutes
def test_what_was_read_by_a_schema_stays_whatever_has_all_rows_read_again(
    project: Project, lake: Lake
) -> None:
    """A record of what was read that is gone, a copy of the table, another relation, a column."""
    raw = relation("lasting_on")

    def run(columns: Any, schemas: str, *models: str, **config: str) -> list[dict[str, Any]]:
        project.stream(
            "stg_lasting_on",
            f"qlik_messages({raw}, unique_key=['ID'], columns={columns}, metadata={schemas})",
            **config,
        )
        project.dbt("run", "--select", "stg_lasting_on", *models, *flags)
        return staged(lake, "stg_lasting_on")

    landed, kept = relation("lasting_on_metadata"), "ref('lasting_on_schemas')"
    narrow = column_list(**ACCOUNT)
    lake.create("lasting_on", landing("json"), of_version_1("json"))
    lake.create("lasting_on_metadata", landing("json"), [described("json", "v1")])
    flags = ["--full-refresh"]
    at_first = run(narrow, landed)
    assert [row["warnings"] for row in at_first] == [None] * 3
    flags = []
    lake.create("lasting_on_metadata", landing("json"), [described("json", "v2")])

    # As a run leaves it that another one has overtaken.
    staging = f"{SCHEMA}.stg_lasting_on"
    lake.spark.sql(f"alter table {staging} set tblproperties ('afterimage.read' = '')")
    assert run(narrow, landed) == at_first
    copied = lake.spark.table(staging).collect()
    types = lake.spark.table(staging).schema
    lake.spark.sql(f"drop table {staging}")
    copy = lake.spark.createDataFrame(copied, types)
    copy.writeTo(staging).using(FORMAT).create()
    assert run(narrow, landed) == at_first
    call = f"{{{{ qlik_message_schemas({landed}) }}}}"
    project.model("lasting_on_schemas", call, materialized="table", file_format=FORMAT)
    assert run(narrow, kept, "lasting_on_schemas") == at_first
    # By the order of these columns BALANCE would be EMAIL.
    wide = column_list(ID="int", NAME="string", EMAIL="string", **BALANCE)
    widened = run(wide, kept, on_schema_change="append_new_columns")
    assert [row["changed_columns"] for row in widened] == [
        row["changed_columns"] for row in at_first
    ]
    assert [row["absent_columns"] for row in widened] == [None] * 3
    assert [row["after"] for row in widened] == [
        {**row["after"], "EMAIL": None} for row in at_first
    ]


@pytest.mark.slow
def test_what_its_data_schema_could_not_read_is_read_by_a_later_one(
    project: Project, lake: Lake
) -> None:
    """It was missing in one metadata message, and cut off in another."""
    project.stream(
        "stg_mended",
        f"qlik_messages({relation('mended')}, unique_key=['ID'],"
        f" columns={column_list(**ACCOUNT, EMAIL='string')},"
        f" metadata={relation('mended_metadata')})",
    )

    def found(*arguments: str) -> list[dict[str, Any]]:
        project.dbt("run", "--select", "stg_mended", *arguments)
        return staged(lake, "stg_mended")

    def lacking(version: str, **schema: str) -> dict[str, Any]:
        sent = json.loads(described("json", version)["value"])
        del sent["message"]["dataSchema"]
        sent["message"] |= schema
        return {"value": json.dumps(sent).encode()}

    lake.create("mended", landing("avro"), [*of_version_1("avro"), *of_version_2("avro")])
    damaged = [lacking("v1"), lacking("v2", dataSchema='{"type": "rec')]
    lake.create("mended_metadata", landing("avro"), damaged)
    reasons = {row["reject_reason"].split(":")[0] for row in found("--full-refresh")}
    assert reasons == {"the metadata message has no dataSchema", "not an Avro message"}
    later = [metadata("avro", name, "ACCOUNTS", 1, VERSIONS[name], day=20) for name in VERSIONS]
    lake.append("mended_metadata", landing("avro"), later)
    read_again = found()
    assert [row["reject_reason"] for row in read_again] == [None] * 6
    assert found("--full-refresh") == read_again


@pytest.mark.minutes
def test_a_message_without_a_place_stays_one_row(project: Project, lake: Lake) -> None:
    """A message that cannot be read has a place in its bytes alone: it waits, or is cut off."""
    inserts = {
        place: message("avro", "v1", "INSERT", place, {"ID": place, "NAME": "x", "BALANCE": "1"})
        for place in (3, 4, 5)
    }
    cut = message("json", "v1", "INSERT", 4, {"ID": 4, "NAME": "x", "BALANCE": "1"})
    cut["value"] = cut["value"][: cut["value"].index("changeSequence") + 60].encode()
    lake.create("unplaced", landing("avro"), [inserts[4], cut])
    lake.create("unplaced_metadata", landing("avro"), [])
    project.stream(
        "stg_unplaced",
        f"qlik_messages({relation('unplaced')}, unique_key=['ID'],"
        f" columns={column_list(**ACCOUNT)},"
        f" table='ACCOUNTS', metadata={relation('unplaced_metadata')})",
    )

    def found() -> list[str]:
        project.dbt("run", "--select", "stg_unplaced")
        rows = staged(lake, "stg_unplaced")
        assert len({row["change_id"] for row in rows}) == len(rows)
        return sorted(str(row["reject_reason"]).split(":")[0] for row in rows)

    waits = "no metadata message has the schema id"
    assert found() == [waits, "not a JSON message"]
    # Before and after them, so that they are read again.
    lake.append("unplaced", landing("avro"), [inserts[3], inserts[5]])
    assert found() == [waits, waits, waits, "not a JSON message"]
    lake.append("unplaced_metadata", landing("avro"), [described("avro", "v1")])
    assert found() == ["None", "None", "None", "not a JSON message"]


def later(value: str | bytes) -> str | bytes:
    """Move a message by a month."""
    if isinstance(value, str):
        return value.replace('"2024010112000000', '"2024020112000000')
    return value.replace(b"2024010112000000", b"2024020112000000")


@dataclass
class Partition:
    """A partition of a topic as a Qlik task fills it, and what its messages mean.

    Changes may share a changeSequence, then the counter orders them. After a change the table may
    be loaded again: the rows come once or twice, and may be others than the changes say. A load
    message behind a change is a change right behind the greatest changeSequence before it.
    """

    draw: st.DrawFn
    stream: Stream
    form: str
    columns: list[Column]
    number: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    meant: list[Change] = field(default_factory=list)
    table: dict[Key, Row] = field(default_factory=dict)
    base: str = ""
    counter: int = 0

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.stream.unique_key)

    def write(self, change: Change, counter: int | None = None) -> dict[str, Any]:
        """Append a message."""
        offset = len(self.messages)
        message = {
            **landed_message(change, self.stream, self.form, self.columns, counter),
            "topic": "t",
            "partition": self.number,
            "offset": offset,
            "timestamp": datetime(2024, 2, 1) + timedelta(minutes=offset),
        }
        self.messages.append(message)
        return message

    def tell(self, change: Change) -> None:
        """Write a change of the stream."""
        self.apply(change)
        if change.operation == "load":
            self.write(change)
            self.meant.append(change)
            return
        is_next = self.base and self.draw(st.booleans())
        self.counter = self.counter + 1 if is_next else 1
        self.base = self.base if is_next else change.change_seq
        self.write(replace(change, change_seq=self.base), self.counter)
        suffix = f".c{self.counter:019d}" if self.counter > 1 else ""
        self.meant.append(as_staged(replace(change, change_seq=self.base + suffix)))
        if self.draw(st.integers(0, 2)) < 2:
            self.reload(f"{self.base}.r{len(self.messages) - 1:019d}")

    def apply(self, change: Change) -> None:
        """Keep the table as the changes say it is."""
        if change.operation == "delete":
            assert change.before is not None
            self.table.pop(self.key(change.before), None)
            return
        assert change.after is not None
        old = self.table.pop(self.key(change.before or change.after), {})
        absent = change.absent_columns or []
        self.table[self.key(change.after)] = {
            name: old.get(name) if name in absent else value for name, value in change.after.items()
        }

    def reload(self, place: str) -> None:
        """Load the table again."""
        written: dict[Key, list[tuple[Change, dict[str, Any]]]] = {}
        for _ in range(self.draw(st.integers(1, 2))):
            for key in list(self.table):
                if self.draw(st.integers(0, 3)) < 3:
                    found = self.row_found(self.table[key])
                    at = self.draw(st.sampled_from([None, None, datetime(2024, 1, 31)]))
                    change = Change("", "", "load", after=found, changed_at=at)
                    written.setdefault(key, []).append((change, self.write(change)))
        for number, (key, loads) in enumerate(written.items()):
            last = loads[-1][0]
            first = next(message for change, message in loads if change == last)
            self.table[key] = last.after or {}
            self.meant.append(
                replace(
                    last,
                    change_id=f"{self.number}-{place}-{number}",
                    change_seq=place,
                    operation="update",
                    changed_at=last.changed_at or first["timestamp"],
                )
            )

    def row_found(self, row: Row) -> Row:
        """Give the row as it is, or as an uncaptured change has left it."""
        if self.draw(st.booleans()):
            return row
        keys = self.stream.unique_key
        name = self.draw(st.sampled_from([name for name in row if name not in keys]))
        return {**row, name: self.draw(st.sampled_from([None, *DOMAINS[self.stream.types[name]]]))}


@st.composite
def topics(
    draw: st.DrawFn, stream: Stream, form: str, columns: list[Column]
) -> tuple[list[dict[str, Any]], list[Change]]:
    """Draw the messages of a stream, one partition per case, and their changes."""
    partitions: dict[int, Partition] = {}
    for change in sorted(stream.distinct, key=lambda change: change.change_seq):
        if change.operation == "truncate" or change.reject_reason is not None:
            continue
        number = (change.after or change.before or {})["case_no"]
        if number not in partitions:
            partitions[number] = Partition(draw, stream, form, columns, number)
        partitions[number].tell(change)
    return (
        [message for partition in partitions.values() for message in partition.messages],
        [change for partition in partitions.values() for change in partition.meant],
    )


@given(data=st.data())
@settings(fewer_checks, max_examples=1)
@pytest.mark.minutes
def test_reloads_and_counters_mean_the_same_in_any_batches(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    check_batches("json", data, project, lake, cases=24, max_batches=2)


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
@pytest.mark.parametrize("form", FORMATS)
def test_any_order_any_batches_and_repeats_give_what_one_batch_gives(
    form: str, data: st.DataObject, project: Project, lake: Lake
) -> None:
    check_batches(form, data, project, lake, cases=8, max_batches=4)


def check_batches(
    form: str, data: st.DataObject, project: Project, lake: Lake, cases: int, max_batches: int
) -> None:
    """Deliver drawn messages in drawn batches, and compare the history with the oracle."""
    stream = data.draw(merged_streams(cases, max_changes=12, honest=True))
    columns = [qlik_column(name, stream.types[name], stream.unique_key) for name in stream.columns]
    messages, good = data.draw(topics(stream, form, columns))
    batches = data.draw(splits(messages, max_batches=max_batches))
    typed = column_list(**{name: stream.types[name] for name in stream.columns})
    key = stream.unique_key
    project.stream(
        "stg_random_messages",
        f"qlik_messages({relation('random_messages')}, unique_key={key}, columns={typed},"
        f" metadata={relation('random_metadata')})",
    )
    project.history("random_messages_history", "stg_random_messages", key)
    lake.create("random_metadata", landing(form), [metadata(form, "v1", "T", 1, columns)])

    found = run_in_batches_and_at_once(
        *(project, lake, ("stg_random_messages", "random_messages_history")),
        [{"random_messages": (landing(form), batch)} for batch in batches],
    )[-1]
    assert_same_history(
        found["random_messages_history"],
        history(good, key, stream.columns),
        replace(stream, changes=good),
    )
    assert count_rows(found["stg_random_messages"]) == sum(map(len, batches))


@pytest.mark.minutes
def test_transaction_that_was_held_back_is_read_once_it_is_complete(
    project: Project, lake: Lake
) -> None:
    project.stream(
        "stg_held",
        f"qlik_messages({relation('held')}, unique_key=['ID'], columns={column_list(ID='int')},"
        " complete_transactions=true)",
    )

    def event(place: int, number: int, last: bool) -> dict[str, Any]:
        return message(
            "json",
            "v1",
            "INSERT",
            place,
            {"ID": place},
            transactionId="T",
            transactionEventCounter=number,
            transactionLastEvent=last,
        )

    def reasons() -> list[str | None]:
        rows = lake.rows(f"select * from {SCHEMA}.stg_held order by change_seq")
        return [row["reject_reason"] for row in rows]

    held = "held back: transaction T has 2 of 3 events"
    lake.create("held", landing("json"), [event(3, 3, True), event(1, 1, False)])
    project.dbt("run", "--select", "stg_held", "--full-refresh")
    assert reasons() == [held, held]
    lake.append("held", landing("json"), [event(2, 2, False)])
    project.dbt("run", "--select", "stg_held")
    assert reasons() == [None, None, None]
    in_batches = staged(lake, "stg_held")
    project.dbt("run", "--select", "stg_held", "--full-refresh")
    assert staged(lake, "stg_held") == in_batches

    # Without the argument nothing is held back, nor is what earlier runs held back.
    lake.create("held", landing("json"), [event(1, 1, False), event(2, 2, False)])
    project.dbt("run", "--select", "stg_held", "--full-refresh")
    assert reasons() == ["held back: transaction T has 2 of more events"] * 2
    model = project.folder / "models/stg_held.sql"
    model.write_text(model.read_text().replace(", complete_transactions=true", ""))
    lake.append("held", landing("json"), [event(3, 3, True)])
    project.dbt("run", "--select", "stg_held")
    assert reasons() == [None, None, None]


@pytest.mark.slow
@pytest.mark.parametrize("is_erased", [False, True], ids=["", "but for an erased key"])
def test_what_is_held_back_is_taken_in_though_its_message_has_left_the_raw_table(
    is_erased: bool, project: Project, lake: Lake
) -> None:
    """As it is stored, once it is due. So is the rest of the transaction, which is there."""
    project.stream(
        "stg_left",
        f"qlik_messages({relation('left_topic')}, unique_key=['ID'],"
        f" columns={column_list(ID='int')}, complete_transactions=true)",
    )
    project.history("left_history", "stg_left", ["ID"])

    def event(place: int, name: str, number: int, last: bool, time: str) -> dict[str, Any]:
        more: dict[str, Any] = {"transactionEventCounter": number, "transactionLastEvent": last}
        told = message("json", "v1", "INSERT", place, {"ID": place}, transactionId=name, **more)
        return {**told, "value": told["value"].replace('"20240101120000', f'"{time}')}

    def told(*flags: str) -> list[tuple[Any, ...]]:
        project.dbt("run", "--select", "stg_left+", *flags)
        rows = lake.rows(f"select * from {SCHEMA}.stg_left order by change_seq")
        return [(row["after"]["ID"], row["reject_reason"], incomplete(row)) for row in rows]

    def incomplete(row: Row) -> list[str]:
        return [said for said in row["warnings"] or [] if "complete" in said]

    begun = [event(1, "T", 1, False, "20240101120000"), event(2, "T", 2, False, "20240101120000")]
    lake.create("left_topic", landing("json"), begun)
    held = "held back: transaction T has 2 of more events"
    assert told("--full-refresh") == [(1, held, []), (2, held, [])]
    lake.spark.sql(f"delete from {SCHEMA}.left_topic where value like '%\"ID\":1}}%'")
    lake.append("left_topic", landing("json"), [event(3, "U", 1, True, "20240101123000")])
    held_now = "held back: transaction T has 1 of more events"
    assert told() == [(1, held, []), (2, held_now, []), (3, None, [])]
    lake.append("left_topic", landing("json"), [event(4, "V", 1, True, "20240109120000")])
    if is_erased:
        columns = dict.fromkeys(("model", "erased_key", "reference"), "string")
        listed = {"model": "stg_left", "erased_key": '{"ID": "1"}', "requested_at": datetime.now()}
        lake.create("afterimage_erasures", columns | {"requested_at": "timestamp"}, [listed])
    why = "the transaction is not complete: "
    released = [
        (1, None, [f"{why}messages of it have left the raw table"]),
        (2, None, [f"{why}1 of more events"]),
        (3, None, []),
        (4, None, []),
    ]
    if is_erased:
        assert told() == [(1, held, []), *released[1:]]
        lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")
        return
    assert told() == released
    in_history = lake.rows(f"select ID from {SCHEMA}.left_history order by ID")
    assert [row["ID"] for row in in_history] == [1, 2, 3, 4]
    # It lands again, and is known.
    lake.append("left_topic", landing("json"), begun[:1])
    assert [one[:2] for one in told()] == [one[:2] for one in released]


@pytest.mark.slow
def test_a_transaction_that_was_complete_stays_so(project: Project, lake: Lake) -> None:
    """Its first event is no longer landed when the others are sent again."""
    project.stream(
        "stg_stays",
        f"qlik_messages({relation('stays')}, unique_key=['ID'], columns={column_list(ID='int')},"
        " complete_transactions=true)",
    )

    def event(place: int, name: str, number: int, last: bool) -> dict[str, Any]:
        more: dict[str, Any] = {"transactionEventCounter": number, "transactionLastEvent": last}
        return message("json", "v1", "INSERT", place, {"ID": place}, transactionId=name, **more)

    def told() -> list[tuple[Any, ...]]:
        project.dbt("run", "--select", "stg_stays", *flags)
        rows = lake.rows(f"select * from {SCHEMA}.stg_stays order by change_seq")
        return [(row["after"]["ID"], row["reject_reason"], row["warnings"]) for row in rows]

    flags = ["--full-refresh"]
    events = [event(1, "T", 1, False), event(2, "T", 2, False), event(3, "T", 3, True)]
    lake.create("stays", landing("json"), events)
    at_first = told()
    assert [one[:2] for one in at_first] == [(1, None), (2, None), (3, None)]
    flags = []
    lake.create("stays", landing("json"), events[1:])
    assert told() == at_first
    # A later change, after which nothing is held back.
    after = event(4, "U", 1, True)
    after["value"] = after["value"].replace('"2024010112000000', '"2024010912000000')
    lake.append("stays", landing("json"), [*events[1:], after])
    assert told()[:3] == at_first


@pytest.mark.minutes
def test_a_transaction_that_has_landed_is_complete_without_holding_back(
    project: Project, lake: Lake
) -> None:
    """Its two events are a hundredth of a second apart; they land at once, or one after another."""
    project.stream(
        "stg_at_once",
        f"qlik_messages({relation('at_once')}, unique_key=['ID'], columns={column_list(ID='int')},"
        " complete_transactions=true, hold_back_hours=0)",
    )

    def event(number: int) -> dict[str, Any]:
        landed = message(
            "json",
            "v1",
            "INSERT",
            0,
            {"ID": number},
            transactionId="T",
            transactionEventCounter=number,
            transactionLastEvent=number == 2,
        )
        sequence = f"202401011000001{5 + number}{number:019d}"
        value = landed["value"].replace('"changeSequence":null', f'"changeSequence": "{sequence}"')
        assert value != landed["value"]
        return {**landed, "value": value}

    def told() -> list[tuple[Any, ...]]:
        project.dbt("run", "--select", "stg_at_once", *flags)
        rows = lake.rows(f"select * from {SCHEMA}.stg_at_once order by change_seq")
        return [(row["after"]["ID"], row["reject_reason"], incomplete(row)) for row in rows]

    def incomplete(row: Row) -> list[str]:
        return [said for said in row["warnings"] or [] if "complete" in said]

    complete: list[tuple[Any, ...]] = [(1, None, []), (2, None, [])]
    flags = ["--full-refresh"]
    lake.create("at_once", landing("json"), [event(1), event(2)])
    assert told() == complete
    lake.create("at_once", landing("json"), [event(1)])
    assert told() == [(1, "held back: transaction T has 1 of more events", [])]
    flags = []
    lake.append("at_once", landing("json"), [event(2)])
    assert told() == complete


@pytest.mark.minutes
def test_an_event_lands_days_after_its_transaction_was_released(
    project: Project, lake: Lake
) -> None:
    """The first and last event are over an hour apart, neighbours at most an hour."""
    project.stream(
        "stg_given_up",
        f"qlik_messages({relation('given_up')}, unique_key=['ID'],"
        f" columns={column_list(ID='int')}, complete_transactions=true)",
    )

    def event(time: str, name: str, number: int, last: bool) -> dict[str, Any]:
        landed = message(
            "json",
            "v1",
            "INSERT",
            number,
            {"ID": number},
            transactionId=name,
            transactionEventCounter=number,
            transactionLastEvent=last,
        )
        return {**landed, "value": landed["value"].replace('"2024010112000000', f'"{time}00')}

    def incomplete() -> list[list[str]]:
        rows = lake.rows(f"select * from {SCHEMA}.stg_given_up order by change_seq")
        assert [row["reject_reason"] for row in rows] == [None] * len(rows)
        return [[said for said in row["warnings"] if "complete" in said] for row in rows]

    begun = [event("20240101100000", "T", 1, False), event("20240101104000", "T", 2, False)]
    lake.create("given_up", landing("json"), [*begun, event("20240109120000", "U", 1, True)])
    project.dbt("run", "--select", "stg_given_up", "--full-refresh")
    warned = ["the transaction is not complete: 2 of more events"]
    assert incomplete() == [warned, warned, []]
    # More than an hour after the first event, which identifies its transaction.
    lake.append("given_up", landing("json"), [event("20240101112000", "T", 3, True)])
    project.dbt("run", "--select", "stg_given_up")
    assert incomplete() == [[]] * 4
    in_batches = staged(lake, "stg_given_up")
    project.dbt("run", "--select", "stg_given_up", "--full-refresh")
    assert staged(lake, "stg_given_up") == in_batches


@pytest.mark.slow
def test_a_new_column_in_the_metadata_stops_the_run_or_is_added(
    project: Project, lake: Lake
) -> None:
    """One landing holds both, in a column of another name; the key is spelt in lower case."""
    project.stream(
        "stg_grown",
        f"qlik_messages({relation('grown')}, unique_key=['id'], value='payload',"
        f" metadata={relation('grown')})",
    )
    project.stream(
        "stg_chosen",
        f"qlik_messages({relation('grown')}, unique_key=['id'], columns=['id', 'name'],"
        f" value='payload', metadata={relation('grown')})",
    )
    run = ("run", "--select", "stg_grown", "stg_chosen")
    landing = {"payload": "string"}

    def land(*messages: dict[str, Any]) -> None:
        lake.append("grown", landing, [{"payload": landed["value"]} for landed in messages])

    lake.create("grown", landing, [])
    land(described("json", "v1"), *of_version_1("json"))
    project.dbt(*run, "--full-refresh")
    land(described("json", "v2"), *of_version_2("json"))
    with pytest.raises(DbtError, match=r"have changed since .*added: EMAIL\).*full-refresh"):
        project.dbt(*run)
    chosen = f"select after.* from {SCHEMA}.stg_chosen where operation = 'insert'"
    assert lake.rows(chosen) == [{"ID": 2, "NAME": "Bob"}]
    grown = project.folder / "models" / "stg_grown.sql"
    grown.write_text(
        grown.read_text().replace("config(", "config(on_schema_change='append_new_columns', ")
    )
    project.dbt(*run)
    emails = f"select after.EMAIL from {SCHEMA}.stg_grown where operation = 'update'"
    assert sorted(str(row["EMAIL"]) for row in lake.rows(emails)) == ["None", "a@x", "a@x"]
    in_runs = lake.contents("stg_grown")
    project.dbt(*run, "--full-refresh")
    assert lake.contents("stg_grown") == in_runs


ROW = column_list(ID="int", NAME="string")


def version_models(project: Project, name: str, **arguments: str) -> tuple[str, ...]:
    """Write a staging model and its history of rows of ID and NAME, and return their names."""
    more = "".join(f", {argument}={value}" for argument, value in arguments.items())
    project.stream(
        f"stg_{name}",
        f"qlik_messages({relation(name)}, unique_key=['ID'], columns={ROW}{more})",
    )
    project.history(f"{name}_history", f"stg_{name}", ["ID"])
    return (f"stg_{name}", f"{name}_history")


def at_offset(place: int, operation: str, sequence: str | None, **body: Any) -> dict[str, Any]:
    """Return a landed JSON message, consumed so many minutes after nine on the second day."""
    head = {"operation": operation, "changeSequence": sequence, **body.pop("headers", {})}
    return {
        "value": json.dumps({**body, "headers": head}),
        "topic": "t",
        "partition": 0,
        "offset": place,
        "timestamp": datetime(2024, 1, 2, 9, place),
    }


def in_json(table: str, *batches: list[dict[str, Any]]) -> list[Batch]:
    return [{table: (landing("json"), batch)} for batch in batches]


def ways_to_deliver(table: str, messages: list[dict[str, Any]]) -> list[list[Batch]]:
    """Give ways to deliver messages: at once, and the later half before the earlier one."""
    half = len(messages) // 2
    return [in_json(table, messages), in_json(table, messages[half:], messages[:half])]


@pytest.mark.minutes
def test_the_counter_orders_changes_of_one_change_sequence_with_any_keys(
    project: Project, lake: Lake
) -> None:
    """1 becomes 2 and then 3, in one changeSequence; the counter of the last has two digits."""
    models = version_models(project, "counted")
    first, second = (f"2024010112{number:025d}" for number in (1, 2))

    def moved(old: int, new: int, counter: int) -> dict[str, Any]:
        return at_offset(
            counter,
            "UPDATE",
            second,
            data={"ID": new, "NAME": "a"},
            beforeData={"ID": old, "NAME": "a"},
            headers={"transactionEventCounter": counter, "transactionId": "T"},
        )

    messages = [
        at_offset(0, "INSERT", first, data={"ID": 1, "NAME": "a"}),
        moved(1, 2, 1),
        moved(2, 3, 2),
        moved(3, 4, 10),
    ]
    tenth = f"{second}.c0000000000000000010"
    for batches in ways_to_deliver("counted", messages):
        run_in_batches(project, lake, models, batches)
        found = [
            (row["ID"], row["valid_from_seq"], row["valid_to_seq"], row["closed_by"])
            for row in lake.rows(f"select * from {SCHEMA}.counted_history order by ID")
        ]
        assert found == [
            (1, first, second, "key_change"),
            (2, second, f"{second}.c0000000000000000002", "key_change"),
            (3, f"{second}.c0000000000000000002", tenth, "key_change"),
            (4, tenth, None, None),
        ]


@pytest.mark.minutes
def test_a_reload_is_a_change_at_its_own_place_and_time(project: Project, lake: Lake) -> None:
    """The second reload has the same bytes as the first load, and arrives twice.

    A time may have landed as Kafka counts it.
    """
    models = version_models(project, "reloaded")
    first, second = (f"2024010112{number:025d}" for number in (1, 2))

    def changed(place: int, sequence: str, name: str, at: str) -> dict[str, Any]:
        head = {"timestamp": at}
        return at_offset(place, "UPDATE", sequence, data={"ID": 1, "NAME": name}, headers=head)

    def loaded(place: int, key: int, name: str) -> dict[str, Any]:
        return at_offset(place, "REFRESH", None, data={"ID": key, "NAME": name})

    messages = [
        loaded(0, 1, "a"),
        changed(1, first, "b", "2024-01-01T12:00:01"),
        loaded(2, 1, "old"),
        loaded(3, 1, "c"),
        loaded(4, 2, "x"),
        changed(5, second, "d", "2024-01-02T09:05:30"),
        loaded(6, 1, "a"),
        loaded(7, 1, "a"),
        # The same message consumed twice, and one of another partition: a load as any.
        loaded(6, 1, "a"),
        {**loaded(8, 3, "y"), "partition": 1},
    ]
    since, millisecond = datetime(1970, 1, 1), timedelta(milliseconds=1)
    counted = [{**row, "timestamp": (row["timestamp"] - since) // millisecond} for row in messages]
    columns = {**landing("json"), "timestamp": "bigint"}
    again = [{"reloaded": (columns, rows)} for rows in ([counted[0], counted[6]], counted)]
    ways = []
    for batches in [*ways_to_deliver("reloaded", messages), again]:
        ways.append(run_in_batches(project, lake, models, batches)[-1]["stg_reloaded"])
        at = [datetime(1900, 1, 1), datetime(2024, 1, 1, 12, 0, 1), datetime(2024, 1, 2, 9, 3)]
        at += [datetime(2024, 1, 2, 9, 5, 30), datetime(2024, 1, 2, 9, 6)]
        behind_first = f"{first}.r0000000000000000001"
        behind_second = f"{second}.r0000000000000000005"
        found = [
            (row["ID"], row["NAME"], row["valid_from"], row["valid_to"], row["valid_from_seq"])
            for row in lake.rows(f"select * from {SCHEMA}.reloaded_history order by ID, version")
        ]
        assert found == [
            (1, "a", at[0], at[1], ""),
            (1, "b", at[1], at[2], first),
            (1, "c", at[2], at[3], behind_first),
            (1, "d", at[3], at[4], second),
            (1, "a", at[4], None, behind_second),
            (2, "x", datetime(2024, 1, 2, 9, 4), None, behind_first),
            (3, "y", at[0], None, ""),
        ]
    rows_of_key = [
        (row["change_seq"], row["operation"], row["reject_reason"], row["source_rows"])
        for row in sorted(ways[0], key=lambda row: (row["change_seq"], row["after"]["NAME"]))
        if row["after"]["ID"] == 1
    ]
    superseded = "superseded: a later load of this key came"
    assert rows_of_key == [
        ("", "load", None, 1),
        (first, "update", None, 1),
        (behind_first, "update", None, 1),
        (behind_first, "update", superseded, 1),
        (second, "update", None, 1),
        (behind_second, "update", None, 3),
    ]
    rows_delivered = [sum(row.pop("source_rows") for row in way) for way in ways]
    assert rows_delivered == [10, 10, 12]
    assert ways[1:] == [ways[0]] * 2


@pytest.mark.minutes
def test_a_load_message_with_a_place_is_a_reload_where_it_follows_a_change(
    project: Project, lake: Lake
) -> None:
    models = version_models(project, "zeros")
    place = f"2024010112{1:025d}"

    def told(offset: int, operation: str, sequence: str, name: str) -> dict[str, Any]:
        return at_offset(offset, operation, sequence, data={"ID": 1, "NAME": name})

    messages = [
        told(0, "REFRESH", "0" * 35, "a"),
        told(1, "UPDATE", place, "b"),
        told(2, "REFRESH", "0" * 35, "c"),
    ]
    for batches in ways_to_deliver("zeros", messages):
        run_in_batches(project, lake, models, batches)
        found = lake.rows(f"select * from {SCHEMA}.zeros_history order by version")
        assert [(row["NAME"], row["valid_from_seq"]) for row in found] == [
            ("a", ""),
            ("b", place),
            ("c", f"{place}.r0000000000000000001"),
        ]


@pytest.mark.slow
@pytest.mark.parametrize("fraction", ["", ".000", ".000Z", ".000000", ".000000Z"])
def test_a_reload_in_avro_is_seen_whatever_follows_the_place_in_the_bytes(
    fraction: str, project: Project, lake: Lake
) -> None:
    """The length of the time follows it in one byte, and may look like a digit."""
    schema = data_schema(VERSION_1, required=["changeSequence", "timestamp"])

    def told(offset: int, operation: str, name: str) -> dict[str, Any]:
        head = headers(
            operation,
            changeSequence=f"2024010112{offset:025d}" if operation == "UPDATE" else "",
            timestamp=f"2024-01-01T12:00:00{fraction}",
        )
        data = {"ID": 1, "NAME": name, "BALANCE": Decimal("1.00")}
        body = {"data": data, "beforeData": None, "headers": head}
        value = avro_message("DT", schema, body, own_schema=True)
        return {"value": value, "topic": "t", "partition": 0, "offset": offset}

    lake.create(
        "avro_reloads",
        landing("avro"),
        [told(0, "REFRESH", "a"), told(1, "UPDATE", "b"), told(2, "REFRESH", "c")],
    )
    call = f"qlik_messages({relation('avro_reloads')}, unique_key=['ID'], columns={ROW})"
    rows = lake.rows(f"select * from ({project.sql(call)}) as staged order by change_seq")
    assert [(row["operation"], row["after"]["NAME"]) for row in rows] == [
        ("load", "a"),
        ("update", "b"),
        ("update", "c"),
    ]


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_run_that_has_met_none_of_its_messages_reads_no_earlier_file(
    project: Project, lake: Lake
) -> None:
    models = version_models(project, "unread")
    messages = [
        at_offset(key, "INSERT", f"2024010112{key:025d}", data={"ID": key, "NAME": "a"})
        for key in (1, 2, 3)
    ]
    lake.create("unread", landing("json"), messages[:2])
    project.dbt("run", "--select", *models, "--full-refresh")
    for file in lake.rows(f"select file_path from {SCHEMA}.unread.files"):
        Path(file["file_path"].removeprefix("file:")).unlink()
    lake.append("unread", landing("json"), messages[2:])
    project.dbt("run", "--select", *models)
    found = lake.rows(f"select ID from {SCHEMA}.unread_history where is_current order by ID")
    assert [row["ID"] for row in found] == [1, 2, 3]


@pytest.mark.slow
def test_a_load_message_with_a_place_is_kept_where_transactions_must_be_complete(
    project: Project, lake: Lake
) -> None:
    """It lands beside a change, whose place is all that a later run would look for."""
    models = version_models(project, "settled", complete_transactions="true")
    batches = [
        [
            at_offset(0, "REFRESH", "0" * 35, data={"ID": 1, "NAME": "a"}),
            at_offset(1, "UPDATE", f"2024010112{1:025d}", data={"ID": 1, "NAME": "b"}),
        ],
        [
            at_offset(2, "REFRESH", "0" * 35, data={"ID": 2, "NAME": "x"}),
            at_offset(3, "UPDATE", f"2024010112{3:025d}", data={"ID": 1, "NAME": "c"}),
        ],
    ]
    landed = [{"settled": (landing("json"), batch)} for batch in batches]
    run_in_batches(project, lake, models, landed)
    current = f"select ID, NAME from {SCHEMA}.settled_history where is_current order by ID"
    assert lake.rows(current) == [{"ID": 1, "NAME": "c"}, {"ID": 2, "NAME": "x"}]


@pytest.mark.minutes
def test_a_reload_does_not_replace_the_load_that_is_no_longer_landed(
    project: Project, lake: Lake
) -> None:
    models = version_models(project, "pruned")
    loads = [at_offset(place, "REFRESH", None, data={"ID": 1, "NAME": "a"}) for place in (0, 3, 5)]
    names = {1: "b", 2: "c", 4: "d"}
    changes = {
        place: at_offset(place, "UPDATE", f"2024010112{place:025d}", data={"ID": 1, "NAME": name})
        for place, name in names.items()
    }
    again = {**changes[2], "offset": 6}
    batches = [
        [loads[0], changes[1]],
        [changes[2], loads[1]],
        [changes[4], loads[2]],
        # The first load again, without the reloads of the same bytes.
        [loads[0], changes[1]],
        # A change that the task has written again behind the reload, twice without its first copy.
        [loads[1], again],
        [loads[1], loads[2], again],
    ]
    for number, batch in enumerate(batches):
        lake.create("pruned", landing("json"), batch)
        project.dbt("run", "--select", *models, *(["--full-refresh"] if number == 0 else []))
        found = lake.rows(f"select NAME from {SCHEMA}.pruned_history order by version")
        assert [row["NAME"] for row in found] == ["a", "b", "c", "a", "d", "a"][: 2 * number + 2]


@pytest.mark.minutes
def test_a_change_in_two_messages_counts_once_whichever_leaves_the_raw_table(
    project: Project, lake: Lake
) -> None:
    """The task has written it again, with a space more."""
    models = version_models(project, "spaced")
    sequences = [f"2024010112{number:025d}" for number in (1, 2)]
    inserted = at_offset(0, "INSERT", sequences[0], data={"ID": 1, "NAME": "a"})
    images = {"data": {"ID": 1, "NAME": "b"}, "beforeData": {"ID": 1, "NAME": "a"}}
    first = at_offset(1, "UPDATE", sequences[1], **images)
    second = at_offset(2, "UPDATE", sequences[1], **images)
    second["value"] += " "
    later = {**first, "offset": 3, "timestamp": datetime(2024, 1, 2, 9, 3)}
    of_first, of_second = [(True, 1, True), (False, 1, False)], [(False, 1, True), (True, 1, False)]
    # Each batch is a new table, so that a run reads all that it has.
    for number, (batch, expected) in enumerate(
        [
            ([inserted, first, second], of_first),
            ([inserted, second], of_first),
            ([inserted, first], of_first),
            ([inserted, second, second], [of_first[0], (False, 2, False)]),
            # The second one is now the first that is landed.
            ([inserted, second, later], of_second),
            ([inserted, later], of_second),
        ]
    ):
        lake.create("spaced", landing("json"), batch)
        project.dbt("run", "--select", *models, *(["--full-refresh"] if number == 0 else []))
        rows = lake.rows(
            "select reject_reason is null as is_good, source_rows,"
            f" change_id = md5('{first['value']}') as is_first from {SCHEMA}.stg_spaced"
            f" where change_seq = '{sequences[1]}' order by is_first desc"
        )
        assert [tuple(row.values()) for row in rows] == expected, number
    # Beside another change of the key at this place, too.
    other = at_offset(4, "UPDATE", sequences[1], data={"ID": 1, "NAME": "c"})
    lake.create("spaced", landing("json"), [inserted, later, other])
    project.dbt("run", "--select", *models)
    query = f"select after.name from {SCHEMA}.stg_spaced where reject_reason is null"
    assert sorted(row["name"] for row in lake.rows(query)) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_reload_keeps_the_time_of_a_message_that_is_no_longer_landed(
    project: Project, lake: Lake
) -> None:
    """The load was restarted. The change behind it is older than the second copy: it was cached."""
    models = version_models(project, "restarted")
    first, second = (f"2024010112{number:025d}" for number in (1, 2))
    changed = at_offset(0, "UPDATE", first, data={"ID": 1, "NAME": "b"})
    loaded, again = (
        at_offset(place, "REFRESH", None, data={"ID": 1, "NAME": "c"}) for place in (5, 30)
    )
    head = {"timestamp": "2024-01-02T09:10:00"}
    cached = at_offset(31, "UPDATE", second, data={"ID": 1, "NAME": "d"}, headers=head)
    for batches in [
        [[changed, loaded, again, cached], [again, cached]],
        [[changed, loaded], [again, cached]],
    ]:
        flags = ["--full-refresh"]
        for batch in batches:
            lake.create("restarted", landing("json"), batch)
            project.dbt("run", "--select", *models, *flags)
            flags = []
        found = lake.rows(f"select * from {SCHEMA}.restarted_history order by version")
        assert [(row["NAME"], row["valid_from"]) for row in found] == [
            ("b", datetime(2024, 1, 1, 12)),
            ("c", datetime(2024, 1, 2, 9, 5)),
            ("d", datetime(2024, 1, 2, 9, 10)),
        ]


@pytest.mark.minutes
def test_raw_tables_of_one_model_have_offsets_of_their_own(project: Project, lake: Lake) -> None:
    """Without a column `topic` the table tells where a message was, and whose a tombstone is."""
    columns = {name: kind for name, kind in landing("json").items() if name != "topic"}
    raw = [relation(name) for name in ("east", "west")]
    parts = [
        f"select * from ({{{{ qlik_messages({one}, unique_key=['ID'], columns={ROW}) }}}})"
        for one in raw
    ]
    project.model("stg_united", " union all ".join(parts), materialized="change_stream")
    project.history("united_history", "stg_united", ["ID"])

    def told(place: int, operation: str, sequence: int | None, key: int, name: str) -> Row:
        text = None if sequence is None else f"2024010112{sequence:025d}"
        return at_offset(place, operation, text, data={"ID": key, "NAME": name})

    tombstone = {"key": "k", "value": None, "partition": 0}
    east = [told(0, "REFRESH", None, 1, "a"), told(1, "UPDATE", 5, 1, "b")]
    west = [
        told(0, "REFRESH", None, 2, "x"),
        told(1, "REFRESH", None, 3, "y"),
        told(2, "REFRESH", None, 4, "old"),
        told(3, "UPDATE", 2, 4, "new"),
    ]
    lake.create("east", columns, [*east, {**tombstone, "offset": 2}])
    lake.create("west", columns, [*west, {**tombstone, "offset": 4}])
    news = [
        # A change alone, then a reload: it follows the changes of its own table.
        [told(5, "UPDATE", 9, 2, "z")],
        [told(6, "REFRESH", None, 4, "newer"), {**tombstone, "offset": 7}],
    ]
    flags = ["--full-refresh"]
    current = {1: "b", 2: "x", 3: "y", 4: "new"}
    for batch, changed in zip([[], *news], [{}, {2: "z"}, {4: "newer"}], strict=True):
        if batch:
            lake.append("west", columns, batch)
        project.dbt("run", "--select", "stg_united", "united_history", *flags)
        flags = []
        current |= changed
        found = lake.rows(f"select ID, NAME from {SCHEMA}.united_history where is_current")
        assert {row["ID"]: row["NAME"] for row in found} == current
    placed = lake.rows(f"select change_seq from {SCHEMA}.stg_united where after.NAME = 'newer'")
    assert [row["change_seq"] for row in placed] == [f"2024010112{9:025d}.r{5:019d}"]
    in_runs = lake.contents("stg_united")
    project.dbt("run", "--select", "stg_united", "--full-refresh")
    assert lake.contents("stg_united") == in_runs


@pytest.mark.slow
def test_two_tables_of_a_topic_need_a_model_each(project: Project, lake: Lake) -> None:
    """The changes of one, which come first in the partition, make no reload of the other's load."""

    def call(table: str) -> str:
        arguments = f"unique_key=['ID'], columns={ROW}, table='dbo.{table}'"
        return f"qlik_messages({relation('regions')}, {arguments})"

    def told(place: int, table: str, sequence: int | None, key: int, name: str) -> Row:
        operation = "UPDATE" if sequence else "REFRESH"
        text = f"2024010112{sequence:025d}" if sequence else None
        head = {"schema": "dbo", "table": table}
        data = {"ID": key, "NAME": name}
        return at_offset(place, operation, text, data=data, headers=head)

    parts = [f"select * from ({{{{ {call(table)} }}}})" for table in ("EAST", "WEST")]
    project.model("stg_both", " union all ".join(parts), materialized="change_stream")
    project.stream("stg_east", call("EAST"))
    project.stream("stg_west", call("WEST"))
    streams = [f"select * from {{{{ ref('stg_{region}') }}}}" for region in ("east", "west")]
    config = {"materialized": "history", "unique_key": ["ID"]}
    project.model("regions_history", " union all ".join(streams), **config)
    messages = [
        told(0, "EAST", None, 1, "a"),
        told(1, "EAST", 1, 1, "b"),
        told(2, "WEST", None, 2, "x"),
        told(3, "WEST", 2, 2, "y"),
    ]
    lake.create("regions", landing("json"), messages)
    said = r"regions twice.*a model for each.*Got: dbo\.east and dbo\.WEST"
    with pytest.raises(DbtError, match=f"(?s){said}"):
        project.dbt("run", "--select", "stg_both", "--full-refresh")
    models = ("stg_east", "stg_west", "regions_history")
    project.dbt("run", "--select", *models, "--full-refresh")
    lake.append("regions", landing("json"), [told(4, "WEST", 3, 2, "z")])
    project.dbt("run", "--select", *models)
    begin = datetime(1900, 1, 1)
    found = lake.rows(f"select * from {SCHEMA}.regions_history order by ID, version")
    assert [(row["ID"], row["NAME"], row["valid_from"] == begin) for row in found] == [
        (1, "a", True),
        (1, "b", False),
        (2, "x", True),
        (2, "y", False),
        (2, "z", False),
    ]


@pytest.mark.slow
def test_a_table_keeps_its_offsets_when_a_model_gets_another_or_loses_one(
    project: Project, lake: Lake
) -> None:
    """No load is behind changes of another table, and a reload is behind those of its own."""
    columns = {name: kind for name, kind in landing("json").items() if name != "topic"}
    places: dict[int | None, str] = {
        None: "",
        **{number: f"2024010112{number:025d}" for number in (1, 3, 6)},
    }

    def told(offset: int, key: int, name: str, place: int | None = None) -> Row:
        operation = "UPDATE" if place else "REFRESH"
        return at_offset(offset, operation, places[place], data={"ID": key, "NAME": name})

    def run(*tables: str, flags: Sequence[str] = ()) -> dict[tuple[int, str], str]:
        parts = [
            f"select * from ({{{{ qlik_messages({relation(table)}, unique_key=['ID'],"
            f" columns={ROW}) }}}})"
            for table in tables
        ]
        project.model("stg_joined", " union all ".join(parts), materialized="change_stream")
        project.dbt("run", "--select", "stg_joined", *flags)
        rows = lake.rows(f"select * from {SCHEMA}.stg_joined where reject_reason is null")
        assert len(rows) == len({(row["after"]["ID"], row["after"]["NAME"]) for row in rows})
        return {(row["after"]["ID"], row["after"]["NAME"]): row["change_seq"] for row in rows}

    lake.create("first", columns, [told(0, 1, "a"), told(1, 1, "b", 1), told(2, 1, "c", 6)])
    lake.create("second", columns, [told(0, 7, "p"), told(5, 9, "x"), told(6, 9, "y", 3)])
    expected = {(1, "a"): "", (1, "b"): places[1], (1, "c"): places[6]}
    assert run("first", flags=["--full-refresh"]) == expected
    expected |= {(7, "p"): "", (9, "x"): "", (9, "y"): places[3]}
    assert run("first", "second") == expected
    lake.append("first", columns, [told(3, 1, "d")])
    expected[1, "d"] = f"{places[6]}.r{2:019d}"
    assert run("second", "first") == expected
    lake.append("second", columns, [told(7, 9, "z")])
    expected[9, "z"] = f"{places[3]}.r{6:019d}"
    assert run("second") == expected


@pytest.mark.slow
@pytest.mark.parametrize("are_gone", [False, True])
def test_a_raw_table_may_get_a_topic_if_its_earlier_rows_get_it_or_none_is_read(
    are_gone: bool, project: Project, lake: Lake
) -> None:
    """A reload is then behind the changes that had none."""
    models = version_models(project, "titled")
    columns = {name: kind for name, kind in landing("json").items() if name != "topic"}
    place = f"2024010112{1:025d}"
    messages = [
        at_offset(0, "REFRESH", None, data={"ID": 1, "NAME": "a"}),
        at_offset(1, "UPDATE", place, data={"ID": 1, "NAME": "b"}),
        at_offset(2, "REFRESH", None, data={"ID": 1, "NAME": "c"}),
    ]
    lake.create("titled", columns, messages[:2])
    project.dbt("run", "--select", *models, "--full-refresh")
    lake.spark.sql(f"alter table {SCHEMA}.titled add columns (topic string)")
    if are_gone:
        lake.spark.sql(f"delete from {SCHEMA}.titled")
        kept = ", ".join(f"`{name}`" for name in columns)
        bare = f"select {kept} from {{{{ {relation('titled')} }}}}"
        project.model("titled_bare", bare, materialized="table", file_format=FORMAT)
        call = f"qlik_messages(ref('titled_bare'), unique_key=['ID'], columns={ROW})"
        project.stream("stg_titled", call)
        models = ("titled_bare", *models)
    else:
        lake.spark.sql(f"update {SCHEMA}.titled set topic = 't'")
    lake.append("titled", {**columns, "topic": "string"}, messages[2:])
    for flags in [[]] if are_gone else [[], ["--full-refresh"]]:
        project.dbt("run", "--select", *models, *flags)
        found = lake.rows(f"select * from {SCHEMA}.titled_history order by version")
        assert [row["NAME"] for row in found] == ["a", "b", "c"]


def test_a_place_in_the_future_moves_no_reload(project: Project, lake: Lake) -> None:
    """Whether its change is good or rejected: else what follows would stand before the reload."""
    first, second = (f"2024010112{number:025d}" for number in (1, 2))
    lake.create(
        "ahead",
        landing("json"),
        [
            at_offset(0, "REFRESH", None, data={"ID": 1, "NAME": "a"}),
            at_offset(1, "UPDATE", first, data={"ID": 1, "NAME": "b"}),
            at_offset(2, "INSERT", f"2999010112{1:025d}", data={"ID": 9, "NAME": "z"}),
            at_offset(3, "INSERT", f"2999010112{2:025d}", data={"NAME": "no key"}),
            at_offset(4, "REFRESH", None, data={"ID": 1, "NAME": "c"}),
            at_offset(5, "UPDATE", second, data={"ID": 1, "NAME": "d"}),
        ],
    )
    rows = [row for row in read(project, lake, "ahead") if row["after"]["ID"] == 1]
    assert [(row["after"]["NAME"], row["change_seq"]) for row in rows] == [
        ("a", ""),
        ("b", first),
        ("c", f"{first}.r{3:019d}"),
        ("d", second),
    ]


@pytest.mark.slow
def test_an_erased_key_leaves_the_reload_of_another_at_its_place(
    project: Project, lake: Lake
) -> None:
    models = version_models(project, "forgotten")
    sequence = f"2024010112{1:025d}"
    landed = [
        at_offset(0, "REFRESH", None, data={"ID": 1, "NAME": "a"}),
        at_offset(1, "REFRESH", None, data={"ID": 2, "NAME": "x"}),
        at_offset(2, "UPDATE", sequence, data={"ID": 2, "NAME": "y"}),
    ]
    lake.create("forgotten", landing("json"), landed)
    project.dbt("run", "--select", *models, "--full-refresh")
    asked = json.dumps({"staging": "stg_forgotten", "keys": [{"ID": 2}]})
    project.dbt("run-operation", "erase", "--args", asked)
    reload = [
        at_offset(3, "REFRESH", None, data={"ID": 1, "NAME": "b"}),
        at_offset(4, "REFRESH", None, data={"ID": 2, "NAME": "y"}),
    ]
    lake.append("forgotten", landing("json"), reload)
    project.dbt("run", "--select", *models)
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")
    found = lake.rows(f"select * from {SCHEMA}.forgotten_history order by version")
    assert [(row["ID"], row["NAME"], row["valid_from_seq"]) for row in found] == [
        (1, "a", ""),
        (1, "b", f"{sequence}.r{2:019d}"),
    ]


def read(project: Project, lake: Lake, table: str) -> list[dict[str, Any]]:
    """Return the macro's rows for landed messages of ID and NAME, in order."""
    call = f"qlik_messages({relation(table)}, unique_key=['ID'], columns={ROW})"
    return sorted(lake.rows(project.sql(call)), key=lambda r: r["change_seq"])


def test_a_delete_is_filled_from_its_before_image(project: Project, lake: Lake) -> None:
    images: list[tuple[Any, Any, Any]] = [
        ({"ID": 1}, {"ID": 1, "NAME": "a"}, "a"),
        ({"ID": 1, "NAME": None}, {"ID": 1, "NAME": "a"}, "a"),
        ({"ID": 1, "NAME": "b"}, None, "b"),
        ({"ID": 1, "NAME": "b"}, {"ID": 1}, "b"),
        ({"ID": None, "NAME": None}, {"ID": 1, "NAME": "a"}, "a"),
        ({"ID": 1}, None, None),
    ]
    messages = [
        at_offset(place, "DELETE", f"2024010112{place:025d}", data=data, beforeData=before)
        for place, (data, before, _) in enumerate(images)
    ]
    lake.create("sparse_deletes", landing("json"), messages)
    rows = read(project, lake, "sparse_deletes")
    assert [row["before"] for row in rows] == [{"ID": 1, "NAME": name} for *_, name in images]
    assert {row["reject_reason"] for row in rows} == {None}


def test_a_key_change_with_an_unknown_old_key_gets_a_warning(project: Project, lake: Lake) -> None:
    unknown = "the key changed, but without a before-image the old key is unknown"
    updates: list[tuple[str | None, Any, list[str] | None]] = [
        ("01", None, [unknown]),
        ("03", {"NAME": "a"}, [unknown]),
        ("01", {"ID": 1, "NAME": "a"}, None),
        ("02", None, None),
        (None, None, None),
    ]
    messages = [
        at_offset(
            place,
            "UPDATE",
            f"2024010112{place:025d}",
            data={"ID": 2, "NAME": "a"},
            beforeData=before,
            headers={"changeMask": flags, "timestamp": "2024-01-01T12:00:00"},
        )
        for place, (flags, before, _) in enumerate(updates)
    ]
    messages.append(
        at_offset(
            9,
            "INSERT",
            f"2024010112{9:025d}",
            data={"ID": 3, "NAME": "a"},
            headers={"changeMask": "03", "timestamp": "2024-01-01T12:00:00"},
        )
    )
    lake.create("moved_keys", landing("json"), messages)
    rows = read(project, lake, "moved_keys")
    assert [row["warnings"] for row in rows] == [*(warned for *_, warned in updates), None]


def test_a_delete_whose_mask_flags_another_key_gets_a_warning(project: Project, lake: Lake) -> None:
    """The bits mean what they mean in change tables: a delete flags only the key's columns."""
    masks = {"01": None, "00": None, None: None, "03": "ID, NAME", "02": "NAME"}
    messages = [
        at_offset(
            place,
            "DELETE",
            f"2024010112{place:025d}",
            data={"ID": place, "NAME": "a"},
            headers={"changeMask": flags, "timestamp": "2024-01-01T12:00:00"},
        )
        for place, flags in enumerate(masks)
    ]
    lake.create("ended_rows", landing("json"), messages)
    assert [row["warnings"] for row in read(project, lake, "ended_rows")] == [
        flagged and [f"changeMask of a delete flags {flagged}, and unique_key is ID"]
        for flagged in masks.values()
    ]


@pytest.mark.slow
def test_masks_of_bytes_are_read_in_the_order_that_fits_the_columns(
    project: Project, lake: Lake
) -> None:
    """Qlik's own schema has bytes, and no page says which comes first. Texts are numerals."""
    columns = [column("ID", "INT4", key=1), *(column(f"C{n}", "STRING") for n in range(2, 11))]
    names = [described["name"] for described in columns]
    some, fewer = ["ID", "C2", "C5"], ["ID", "C2", "C5", "C9", "C10"]
    updated, deleted = ["C2", "C5"], ["ID"]
    # How many columns the table had, the order of the masks, columns in the two masks.
    sent: list[tuple[int, str, list[str], list[str] | None]] = [
        (10, "low", updated, names),
        (10, "high", updated, names),
        (10, "text", updated, names),
        (10, "trimmed", updated, names),
        (10, "low", updated, some),
        (10, "low", updated, fewer),
        (10, "high", updated, fewer),
        (10, "low", updated, None),
        (10, "low without columnMask", updated, None),
        # Read as bytes, these two would be of other columns.
        (10, "text", updated, None),
        (10, "json", updated, None),
        # Both orders fit the columns, and one of them the key.
        (10, "low", ["C2"], ["ID", "C2"]),
        (10, "high", ["C2"], ["ID", "C2"]),
        (10, "high", deleted, ["ID"]),
        (9, "low", updated, names[:9]),
        (9, "high", updated, names[:9]),
        (8, "low", updated, names[:8]),
        (8, "high", updated, names[:8]),
        (7, "low", updated, names[:7]),
        (7, "text", updated, names[:7]),
        (10, "low", deleted, ["ID"]),
        (10, "low", deleted, names),
        (10, "high", deleted, names),
        (10, "text", deleted, ["ID"]),
    ]

    def masked(flagged: list[str] | None, order: str, of_table: list[str]) -> str | bytes | None:
        if flagged is None or order in ("text", "json"):
            return None if flagged is None else mask(flagged, of_table)
        high_first = bytes.fromhex(mask(flagged, of_table))
        low_first = high_first[::-1]
        orders = {"high": high_first, "trimmed": low_first.rstrip(b"\0")}
        return orders.get(order, low_first)

    messages: list[Row] = []
    schemas: dict[str, Row] = {}
    for place, (width, order, changed, present) in enumerate(sent, start=1):
        of_table, kind = names[:width], "string" if order == "text" else "bytes"
        lacks = ["columnMask"] if order == "low without columnMask" else []
        schema = data_schema(columns[:width], masks=kind, lacks=lacks)
        schema_id = "-".join([kind, str(width), *lacks])
        schemas[schema_id] = metadata(
            "avro", schema_id, "WIDE", width, columns[:width], schema=schema
        )
        head = headers(
            "DELETE" if changed == deleted else "UPDATE",
            changeSequence=f"2024010112{place:025d}",
            timestamp="2024-01-01T12:00:00",
            changeMask=masked(changed, order, of_table),
            columnMask=masked(present, order, of_table),
            externalSchemaId=schema_id if order == "json" else None,
        )
        captured = [name for name in present or of_table if name != "C5"]
        after = dict.fromkeys(of_table) | dict.fromkeys(captured, "new") | {"ID": place}
        before = dict.fromkeys(of_table, "old") | {"ID": place}
        data = None if changed == deleted else after
        body = {"data": data, "beforeData": before, "headers": head}
        value = (
            json_message("DT", body).encode()
            if order == "json"
            else avro_message("DT", schema, body, schema_id)
        )
        messages.append({"value": value})
    lake.create("masks_of_bytes", landing("avro"), messages)
    lake.create("masks_of_bytes_metadata", landing("avro"), list(schemas.values()))
    types = column_list(**({"ID": "int"} | dict.fromkeys(names[1:], "string")))
    project.stream(
        "stg_masks_of_bytes",
        f"qlik_messages({relation('masks_of_bytes')}, unique_key=['ID'], columns={types},"
        f" metadata={relation('masks_of_bytes_metadata')})",
    )
    project.dbt("run", "--select", "stg_masks_of_bytes", "--full-refresh")
    rows = sorted(staged(lake, "stg_masks_of_bytes"), key=lambda row: str(row["change_seq"]))
    assert [(row["reject_reason"], row["warnings"]) for row in rows] == [(None, None)] * len(sent)
    told = [row for row in rows if row["operation"] == "update"]
    assert [(row["changed_columns"], row["absent_columns"]) for row in told] == [
        (changed, [name for name in names if name not in (present or names)] or None)
        for _, _, changed, present in sent
        if changed != deleted
    ]


UNKNOWN = "changed_at is unknown: neither timestamp nor change_seq has it"


def test_a_malformed_timestamp_is_null_and_gets_a_warning(project: Project, lake: Lake) -> None:
    """A time of day alone would become one of today; the hour 24 does not exist."""
    noon, none = datetime(2024, 1, 1, 12), "202401012400000"
    taken = "changed_at is taken from change_seq"
    cases: list[tuple[str, str | None, Any, list[str] | None]] = [
        ("2024010112", "2024-01-01T12:00:00", noon, None),
        ("2024010112", "10:00:00", noon, [taken, 'timestamp is no time: "10:00:00"']),
        ("2024010112", "T10:00:00", noon, [taken, 'timestamp is no time: "T10:00:00"']),
        ("2024010112", None, noon, [taken]),
        (none, "2024-01-01T12:00:00", noon, None),
        (none, "10:00:00", None, [UNKNOWN, 'timestamp is no time: "10:00:00"']),
        (none, None, None, [UNKNOWN]),
    ]
    messages = [
        at_offset(
            number,
            "INSERT",
            f"{begin}{number:0{35 - len(begin)}d}",
            data={"ID": number},
            headers={"timestamp": header},
        )
        for number, (begin, header, *_) in enumerate(cases)
    ]
    loaded = at_offset(9, "REFRESH", None, data={"ID": 9}, headers={"timestamp": "10:00:00"})
    lake.create("no_times", landing("json"), [*messages, {**loaded, "partition": 1}])
    rows = {row["after"]["ID"]: row for row in read(project, lake, "no_times")}
    for number, (*_, at, warned) in enumerate(cases):
        assert (rows[number]["changed_at"], rows[number]["warnings"]) == (at, warned)
    assert rows[9]["changed_at"] is None
    assert rows[9]["warnings"] == ['timestamp is no time: "10:00:00"']


@pytest.mark.parametrize("landed_as", ["string", "binary"])
def test_a_name_that_is_no_text_fails_no_run(landed_as: str, project: Project, lake: Lake) -> None:
    """Cut within a character, or no UTF-8; beside a number that is read digit by digit."""
    name = {"string": "caf\ud83d", "binary": "caf?"}[landed_as]
    sent = message("json", "v1", "INSERT", 1, {"ID": 1, "NAME": name, "BALANCE": 1.5})
    if landed_as == "binary":
        sent["value"] = sent["value"].encode().replace(b"f?", b"f\xe9")
    else:
        assert "caf\\ud83d" in sent["value"]
    lake.create("no_text", {"value": landed_as}, [sent])
    sql = project.sql(
        f"qlik_messages({relation('no_text')}, unique_key=['ID'], columns={column_list(**ACCOUNT)})"
    )
    [row] = lake.rows(sql)
    assert row["reject_reason"] is None
    assert (row["after"]["ID"], row["after"]["BALANCE"]) == (1, Decimal("1.50"))
    assert row["after"]["NAME"].startswith("caf" if landed_as == "string" else "caf\ufffd")


def test_a_message_without_a_schema_is_not_lost(project: Project, lake: Lake) -> None:
    """It could be of either of two tables of one name; messages of another are known."""
    columns = column_list(ID="int")
    sent = [
        message("json", "v1", "INSERT", number, {"ID": number}, table=table, schema=schema)
        for number, (schema, table) in enumerate(
            [("dbo", "ACCOUNTS"), (None, "accounts"), (None, "ORDERS"), ("old", "ACCOUNTS")], 1
        )
    ]
    lake.create("schemaless", {"value": "string"}, sent)
    sql = project.sql(
        f"qlik_messages({relation('schemaless')}, unique_key=['ID'], columns={columns},"
        " table='dbo.accounts')"
    )
    found = {row["change_seq"][-1]: row["reject_reason"] for row in lake.rows(sql)}
    reason = "the message does not say which schema its table is of: accounts"
    assert found == {"1": None, "2": reason}


@pytest.mark.minutes
def test_a_message_whose_schema_names_its_table_in_whole_waits_for_it(
    project: Project, lake: Lake
) -> None:
    sent = json.loads(of_version_1("json")[2]["value"])
    sent["message"] |= {"table": "ACCOUNTS"}
    sent["message"]["headers"] |= {"changeMask": None, "columnMask": None}
    lake.create("named", {"value": "string"}, [{"value": json.dumps(sent)}])
    lake.create("named_schemas", {"value": "string"}, [])
    project.stream(
        "stg_named",
        f"qlik_messages({relation('named')}, unique_key=['ID'],"
        f" columns={ROW}, metadata={relation('named_schemas')},"
        " table='dbo.accounts')",
    )
    project.dbt("run", "--select", "stg_named")
    lake.append("named_schemas", {"value": "string"}, [described("json", "v1")])
    project.dbt("run", "--select", "stg_named")
    found = staged(lake, "stg_named")
    project.dbt("run", "--select", "stg_named", "--full-refresh")
    assert found == staged(lake, "stg_named")
    assert [change["reject_reason"] for change in found] == [None]


@pytest.mark.slow
@pytest.mark.parametrize("landed_as", ["string", "binary"])
def test_a_load_message_is_read_with_any_digits_in_its_data(
    landed_as: str, project: Project, lake: Lake
) -> None:
    columns = column_list(ID="int", PAD="string")
    project.stream(
        "stg_padded",
        f"qlik_messages({relation('padded')}, unique_key=['ID'], columns={columns})",
    )
    messages = [
        message("json", "v1", "INSERT", 1, {"ID": 1, "PAD": "x"}),
        message("json", "v1", "REFRESH", 0, {"ID": 2, "PAD": "0" * 40}),
    ]
    if landed_as == "binary":
        messages = [{"value": landed["value"].encode()} for landed in messages]
    lake.create("padded", {"value": landed_as}, messages[:1])
    project.dbt("run", "--select", "stg_padded", "--full-refresh")
    lake.append("padded", {"value": landed_as}, messages[1:])
    project.dbt("run", "--select", "stg_padded")
    operations = f"select operation from {SCHEMA}.stg_padded order by after.ID"
    assert [row["operation"] for row in lake.rows(operations)] == ["insert", "load"]


@pytest.mark.minutes
def test_unknown_types_are_an_error(project: Project, lake: Lake) -> None:
    lake.create("typeless", landing("json"), [])
    lake.create("typeless_metadata", landing("json"), [described("json", "v1")])
    call = f"qlik_messages({relation('typeless')}, unique_key=['ID'], %s)"

    def compiled(arguments: str) -> str:
        return project.compile("{{ " + call % arguments + " }}")

    with pytest.raises(DbtError, match="`columns` leaves out the type of ID, NAME"):
        compiled("columns=['ID', 'NAME']")
    known = f"metadata={relation('typeless_metadata')}"
    with pytest.raises(DbtError, match="the type of the column EMAIL is not known: no metadata"):
        compiled(f"columns=['ID', 'EMAIL'], {known}")
    with pytest.raises(DbtError, match=r"no metadata message in .* of the table ORDERS has"):
        compiled(f"{known}, table='ORDERS'")
    sql = compiled(f"columns=['ID', {{'name': 'BALANCE'}}], {known}, table='dbo.accounts'")
    assert "as decimal(12,2))" in sql
    assert "row_values['NAME']" in compiled(known)


VALUES: list[tuple[str, str, Any]] = [
    ('"12.50"', "decimal(12,2)", Decimal("12.50")),
    ("12345678901234567890.12345", "decimal(38,5)", Decimal("12345678901234567890.12345")),
    ("1e2", "decimal(12,2)", Decimal("100.00")),
    ('"12.505"', "decimal(12,2)", None),
    ('"10000000000.00"', "decimal(12,2)", None),
    ('"1.23456789015"', "decimal(38,10)", None),
    ('"1.2345678901000"', "decimal(38,10)", Decimal("1.2345678901")),
    ("5.4", "decimal(38,0)", None),
    ('"ten"', "decimal(12,2)", None),
    ("1.10", "string", "1.10"),
    ('"1.0"', "int", 1),
    ("1.5", "int", None),
    ("2147483648", "int", None),
    ("9007199254740993", "bigint", 9007199254740993),
    ('"2024-02-30"', "date", None),
    ('"202402"', "date", None),
    ('"2024-02-29T00:00:00"', "date", datetime(2024, 2, 29).date()),
    ('"2024-02-29T12:00:00"', "date", None),
    ('"2024-02-29T12:00:00.000001"', "timestamp", datetime(2024, 2, 29, 12, 0, 0, 1)),
    ('"202402"', "timestamp", None),
    ('"noon"', "timestamp", None),
    ('"12:00:00"', "timestamp", None),
    ("true", "boolean", True),
    ('"maybe"', "boolean", None),
    ('"0aFF"', "binary", bytearray(b"\x0a\xff")),
    ('"0aF"', "binary", None),
    ('"0g"', "binary", None),
    ("0.1", "double", 0.1),
    ('"NaN?"', "double", None),
    ('{"a": 1}', "string", '{"a":1}'),
]


@pytest.mark.parametrize(("text", "spark_type", "value"), VALUES)
def test_value_that_does_not_fit_its_type_is_found(
    text: str, spark_type: str, value: Any, checked_values: dict[tuple[str, str], Any]
) -> None:
    assert checked_values[(text, spark_type)] == value


@pytest.fixture(scope="module")
def checked_values(project: Project, lake: Lake) -> dict[tuple[str, str], Any]:
    """The macro's results for the values above: all in one query, NULL for rejected ones."""
    columns = column_list(ID="int")
    rows = []
    for number, (text, spark_type, _) in enumerate(VALUES):
        columns.append({"name": f"c{number}", "type": spark_type})
        head = json.dumps(headers("INSERT", changeSequence="2" * 35))
        rows.append({"value": f'{{"data":{{"ID":{number},"c{number}":{text}}},"headers":{head}}}'})
    lake.create("typed", landing("json"), rows)
    sql = project.sql(f"qlik_messages({relation('typed')}, unique_key=['ID'], columns={columns})")
    found = {}
    for row in lake.rows(sql):
        number = row["after"]["ID"]
        text, spark_type, _ = VALUES[number]
        value = row["after"][f"c{number}"]
        if row["reject_reason"] is not None:
            assert f"does not fit its column: c{number} " in row["reject_reason"]
            value = None
        found[(text, spark_type)] = value
    return found
