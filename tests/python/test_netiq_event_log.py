"""Event logs: the manual's documents, any delivery of a log, and what an earlier run has seen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any
from xml.etree.ElementTree import canonicalize

import pytest

from conftest import SCHEMA, DbtError, Lake, Project

Row = dict[str, Any]

LOG = {
    "record_id": "bigint",
    "status": "string",
    "event_type": "int",
    "event_time": "timestamp",
    "perpetrator": "string",
    "table_name": "string",
    "table_key": "string",
    "column_name": "string",
    "old_value": "string",
    "new_value": "string",
}
NOON = datetime(2026, 1, 1, 12)
WARNING = "query-back: the values may be newer than the event"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("netiq_event_log")


def relation(table: str) -> str:
    return f"api.Relation.create(schema='{SCHEMA}', identifier='{table}')"


def event(record: int, kind: int, key: int, column: str | None = None, **values: Any) -> Row:
    return {
        "record_id": record,
        "status": "N",
        "event_type": kind,
        "event_time": NOON,
        "table_name": "usr",
        "table_key": f"idu={key}",
        "column_name": column,
        **values,
    }


# --- The manual's documents ---------------------------------------------------------------------

USR = (
    "[{'name': 'idu', 'type': 'int'}, {'name': 'fname', 'type': 'string'}, "
    "{'name': 'lname', 'type': 'string'}, {'name': 'photo', 'type': 'binary'}]"
)
INITIAL = {"fname": "Jack", "lname": "Frost", "photo": "qqo="}
CURRENT = {"fname": "John", "lname": "Doe", "photo": "u7s="}

# NetIQ, "Identity Manager Driver for JDBC", "Event Types", with its line breaks.
ASSOCIATION = "<association>idu=1,table=usr,schema=indirect \n</association>"
ADD = f"""
<add class-name="usr"> {ASSOCIATION}
<add-attr attr-name="fname"> <value type="string">Jack</value> </add-attr>
<add-attr attr-name="lname"> <value type="string">Frost</value> </add-attr>
<add-attr attr-name="photo"> <value type="octet">qqo=</value> </add-attr> </add>
"""
MODIFY = f"""
<modify class-name="usr"> {ASSOCIATION}
<modify-attr attr-name="fname">
<remove-value> <value type="string">Jack</value> </remove-value>
<add-value> <value type="string">John</value> </add-value> </modify-attr>
<modify-attr attr-name="lname">
<remove-value> <value type="string">Frost</value> </remove-value>
<add-value> <value type="string">Doe</value> </add-value> </modify-attr>
<modify-attr attr-name="photo">
<remove-value> <value type="octet">qqo=</value> </remove-value>
<add-value> <value type="octet">u7s=</value> </add-value> </modify-attr> </modify>
"""
REMOVE_ALL = f"""
<modify class-name="usr"> {ASSOCIATION}
<modify-attr attr-name="fname"> <remove-all-values/>
<add-value> <value type="string">John</value> </add-value> </modify-attr>
<modify-attr attr-name="lname"> <remove-all-values/>
<add-value> <value type="string">Doe</value> </add-value> </modify-attr>
<modify-attr attr-name="photo"> <remove-all-values/>
<add-value> <value type="octet">u7s=</value> </add-value> </modify-attr> </modify>
"""
DELETE = f'<delete class-name="usr"> {ASSOCIATION} </delete>'
PRESENT_FNAME = f"""
<modify class-name="usr"> {ASSOCIATION}
<modify-attr attr-name="fname"> <remove-all-values/>
<add-value> <value type="string">John</value> </add-value> </modify-attr> </modify>
"""
ADD_PRESENT = f"""
<add class-name="usr"> {ASSOCIATION}
<add-attr attr-name="fname"> <value type="string">John</value> </add-attr>
<add-attr attr-name="lname"> <value type="string">Doe</value> </add-attr>
<add-attr attr-name="photo"> <value type="octet">u7s=</value> </add-attr> </add>
"""


def of_fields(first: int, kind: int, old: dict[str, str] | None) -> list[Row]:
    """Write the manual's three rows of a field type."""
    new = INITIAL if kind == 1 else CURRENT
    return [
        event(first + n, kind, 1, name, old_value=old and old[name], new_value=value)
        for n, (name, value) in enumerate(new.items())
    ]


def documents(project: Project, lake: Lake, table: str, **arguments: str) -> dict[str, str]:
    """Return the documents of an event log by change_id, in one spelling."""
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
    rows = lake.rows(
        project.compile(
            f"{{{{ xds_documents({relation(table)}, unique_key=['idu'], table='usr', "
            f"schema='indirect', columns={USR}, base={relation('xds_usr')}, {text}) }}}}"
        )
    )
    assert all(row["reject_reason"] is None for row in rows)
    return {row["change_id"]: canonicalize(row["document"], strip_text=True) for row in rows}


def test_documents_are_the_manuals(project: Project, lake: Lake) -> None:
    types = {"idu": "int", "fname": "string", "lname": "string", "photo": "binary"}
    present = {"fname": "John", "lname": "Doe", "photo": b"\xbb\xbb"}
    lake.create("xds_usr", types, [{"idu": key, **present} for key in (1, 6, 7, 8)])
    lake.create(
        "xds_log",
        LOG,
        [
            *of_fields(1, 1, None),  # table 5-16
            *of_fields(4, 2, INITIAL),  # table 5-17
            *of_fields(7, 3, INITIAL),  # table 5-18
            event(10, 4, 1),  # table 5-19
            event(11, 5, 1),  # table 5-20: the values of now
            # The manual's text stops there; these follow from its rules.
            event(12, 6, 6),
            event(13, 7, 7, "fname"),
            event(14, 8, 8, "fname"),
        ],
    )
    expected = [(1, 1, ADD), (4, 1, MODIFY), (7, 1, REMOVE_ALL), (10, 1, DELETE)]
    expected += [(11, 1, REMOVE_ALL), (12, 6, REMOVE_ALL)]
    expected += [(13, 7, PRESENT_FNAME), (14, 8, PRESENT_FNAME)]
    assert documents(project, lake, "xds_log") == {
        f"{record:020d}-idu={key}": canonicalize(
            text.replace("idu=1", f"idu={key}"), strip_text=True
        )
        for record, key, text in expected
    }


def test_query_back_inserts_may_be_adds(project: Project, lake: Lake) -> None:
    types = {"idu": "int", "fname": "string", "lname": "string", "photo": "binary"}
    present = {"fname": "John", "lname": "Doe", "photo": b"\xbb\xbb"}
    lake.create("xds_usr", types, [{"idu": 1, **present}, {"idu": 2, "photo": b"x" * 99}])
    lake.create("xds_add_log", LOG, [event(1, 5, 1), event(2, 6, 2)])
    found = documents(project, lake, "xds_add_log", query_back_inserts="'add'")
    assert found["00000000000000000001-idu=1"] == canonicalize(ADD_PRESENT, strip_text=True)
    # NULL is no value to add, and Base64 stays on one line however long it is.
    assert found["00000000000000000002-idu=2"] == canonicalize(
        f"""
        <modify class-name="usr"> {ASSOCIATION.replace("idu=1", "idu=2")}
        <modify-attr attr-name="fname"><remove-all-values/></modify-attr>
        <modify-attr attr-name="lname"><remove-all-values/></modify-attr>
        <modify-attr attr-name="photo"><remove-all-values/><add-value>
        <value type="octet">{"eHh4" * 33}</value></add-value></modify-attr></modify>
        """,
        strip_text=True,
    )


def test_udfs_give_a_struct_with_the_reason_of_a_refusal(lake: Lake) -> None:
    assert lake.rows(
        r"""
        select
            parse_table_key('b=2+a=1') as good,
            parse_table_key('a=1,2') as bad,
            parse_table_key(cast(null as string)) as none,
            parse_table_key('a= 1', true).parts as trimmed,
            format_table_key(to_json(named_struct('a', 1, 'b', 'x+y'))) as written,
            format_table_key('[]') as unwritten,
            xds_document('{"event": "delete", "class_name": "u", "association": "a"}') as document,
            xds_document('{"event": "delete", "class_name": "u", "association": "\\u0001"}') as odd
        """
    ) == [
        {
            "good": {
                "parts": {"b": "2", "a": "1"},
                "canonical": "a=1+b=2",
                "warning": None,
                "error": None,
            },
            "bad": {
                "parts": None,
                "canonical": None,
                "warning": None,
                "error": "position 4: ',' in a value without quotes",
            },
            "none": {"parts": None, "canonical": None, "warning": None, "error": None},
            "trimmed": {"a": "1"},
            "written": 'a=1+b="x+y"',
            "unwritten": None,
            "document": {
                "document": '<delete class-name="u"><association>a</association></delete>',
                "error": None,
            },
            "odd": {
                "document": None,
                "error": "the association: XML has no place for the character U+0001 at position 1",
            },
        }
    ]


# --- Arguments ----------------------------------------------------------------------------------

GOOD = {
    "relation": "'log'",
    "unique_key": "['id']",
    "table": "'usr'",
    "columns": "[{'name': 'id', 'type': 'int'}, {'name': 'a', 'type': 'string'}]",
}


def call(macro: str = "netiq_event_log", **arguments: str) -> str:
    given = {**GOOD, **arguments}
    return f"{{{{ {macro}({', '.join(f'{name}={value}' for name, value in given.items())}) }}}}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unique_key": "'id'"}, "`unique_key` must be a list of column names, with at least one"),
        ({"unique_key": "['b']"}, "`unique_key` names a column that is not there"),
        ({"table": "none"}, "`table` must be a text that is not empty. Got: None"),
        ({"columns": "['id']"}, "each of `columns` must be a {name, type}"),
        ({"columns": "[]"}, "`columns` must be a list of {name, type}, with at least one"),
        (
            {"columns": "[{'name': 'id', 'type': 'int) or (1'}]"},
            "the type one of string, boolean, tinyint, smallint, int, bigint, float, double, date,"
            " timestamp, timestamp_ntz, binary, decimal(p,s)."
            " Got: {'name': 'id', 'type': 'int) or (1'}",
        ),
        ({"columns": "[{'name': 'id'}]"}, "each of `columns` must be a {name, type}"),
        (
            {"columns": "[{'name': 'id', 'type': 'int'}, {'name': 'ID', 'type': 'int'}]"},
            "`columns` names a column twice",
        ),
        ({"driver_user": "1"}, "`driver_user` must be a text that is not empty. Got: 1"),
        ({"allow_loopback": "'no'"}, "`allow_loopback` must be one of [True, False]. Got: no"),
        ({"future_events": "'yes'"}, "`future_events` must be one of [True, False]. Got: yes"),
        ({"trim_key_numbers": "'yes'"}, "`trim_key_numbers` must be one of [True, False]"),
        (
            {"force_username_case": "'title'"},
            "`force_username_case` must be one of ['upper', 'lower']. Got: title",
        ),
        ({"statuses": "'N'"}, "`statuses` must be a list of texts, with at least one. Got: N"),
        ({"as_of": "'today'"}, "`as_of` must be a moment in UTC, as '2024-01-31'"),
        ({"column_names": "['id']"}, "`column_names` must map columns of the event log"),
        ({"column_names": "{'seq': 'id'}"}, "`column_names` must be one of ['record_id', 'status'"),
        ({"column_names": "{'status': 1}"}, "`column_names` must be a text that is not empty"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, str],
    message: str,
    project: Project,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(DbtError):
        project.compile(call(**arguments))
    said = " ".join(capfd.readouterr().out.split())
    assert "netiq_event_log: " in said
    assert message in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": "''"}, "xds_documents: `schema` must be a text that is not empty"),
        (
            {"schema": "'s'", "query_back_inserts": "'insert'"},
            "`query_back_inserts` must be one of ['modify', 'add']. Got: insert",
        ),
        ({"schema": "'s'", "table": "''"}, "xds_documents: `table` must be a text"),
    ],
)
def test_wrong_arguments_of_xds_documents_are_named(
    arguments: dict[str, str],
    message: str,
    project: Project,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(DbtError):
        project.compile(call("xds_documents", **arguments))
    assert message in " ".join(capfd.readouterr().out.split())


def test_a_log_without_one_of_its_ten_columns_is_refused(project: Project, lake: Lake) -> None:
    lake.create("nine_columns", {k: v for k, v in LOG.items() if k != "old_value"}, [])
    with pytest.raises(DbtError, match="nine_columns has no column 'old_value'"):
        project.compile(call(relation=relation("nine_columns")))
    project.compile(
        call(relation=relation("nine_columns"), column_names="{'old_value': 'new_value'}")
    )


def test_a_base_without_a_column_is_refused(project: Project, lake: Lake) -> None:
    lake.create("no_a", {"ID": "int"}, [])
    with pytest.raises(DbtError, match=r"`columns \(of `base`\)` names a column that is not there"):
        project.compile(call(base=relation("no_a")))


# --- Keys of other types than text and int -------------------------------------------------------


def test_keys_are_told_apart_to_their_last_digit_and_a_time_is_no_date(
    project: Project, lake: Lake
) -> None:
    whole = "1234567890123456789012345678"
    keys = {
        ("2024-01-01", f"{whole}.0000000001"): None,
        ("2024-01-01", f"{whole}.0000000002"): None,
        ("2024-01-01 10:00:00", whole): 'day is no date: "2024-01-01 10:00:00"',
        ("2024-01-01", f"{whole}9"): f'sum is no decimal(38,10): "{whole}9"',
        ("2024-01-01", "0.00000000001"): 'sum is no decimal(38,10): "0.00000000001"',
    }
    events = [
        event(number, 4, 0, table_key=f"day={day}+sum={total}")
        for number, (day, total) in enumerate(keys, start=1)
    ]
    lake.create("typed_keys_log", LOG, events)
    sql = project.compile(
        call(
            relation=relation("typed_keys_log"),
            unique_key="['day', 'sum']",
            columns="[{'name': 'day', 'type': 'date'}, {'name': 'sum', 'type': 'decimal(38,10)'}]",
        )
    )
    rows = lake.rows(f"select before.*, reject_reason from ({sql}) order by change_seq")
    assert [row["reject_reason"] for row in rows] == [
        reason and f"table_key does not cast: {reason}" for reason in keys.values()
    ]
    assert [(row["day"], str(row["sum"])) for row in rows[:2]] == [
        (date(2024, 1, 1), f"{whole}.0000000001"),
        (date(2024, 1, 1), f"{whole}.0000000002"),
    ]


def test_a_present_value_that_does_not_fit_its_type_rejects_the_query_back(
    project: Project, lake: Lake
) -> None:
    """A base often has wider types than the log's columns are declared with."""
    base = {"id": "decimal(38,10)", "born": "timestamp", "sum": "decimal(20,4)", "n": "string"}
    rows: list[Row] = [
        {"id": 1, "born": datetime(2024, 2, 29), "sum": Decimal("12.3400"), "n": "7"},
        {"id": 2, "born": datetime(2024, 2, 29, 12), "sum": Decimal(1), "n": "7"},
        {"id": 3, "born": None, "sum": Decimal("12.345"), "n": "7"},
        {"id": 4, "born": None, "sum": Decimal(1), "n": "3000000000"},
        {"id": 5, "born": None, "sum": Decimal("12.345"), "n": "7"},
    ]
    lake.create("wide_base", base, [{**row, "id": Decimal(row["id"])} for row in rows])
    events = [event(n, 5, 0, table_key=f"id={n}") for n in (1, 2, 3, 4)]
    events.append(event(5, 8, 0, "n", table_key="id=5"))
    lake.create("wide_log", LOG, events)
    columns = {"id": "int", "born": "date", "sum": "decimal(10,2)", "n": "int"}
    sql = project.compile(
        call(
            relation=relation("wide_log"),
            columns=repr([{"name": name, "type": kind} for name, kind in columns.items()]),
            base=relation("wide_base"),
            as_of="'2027-01-01'",
        )
    )
    staged = {int(row["change_id"][:20]): row for row in lake.rows(sql)}
    assert staged[1]["after"] == {
        "id": 1,
        "born": date(2024, 2, 29),
        "sum": Decimal("12.34"),
        "n": 7,
    }
    reason = "value does not cast: present value of"
    assert {number: row["reject_reason"] for number, row in staged.items()} == {
        1: None,
        2: f'{reason} born is no date: "2024-02-29 12:00:00"',
        3: f'{reason} sum is no decimal(10,2): "12.3450"',
        4: f'{reason} n is no int: "3000000000"',
        5: None,  # of a column that fits
    }


# --- Any delivery of a log ----------------------------------------------------------------------


# The events of one field: those of one kind are put together.
KINDS = {1: "insert", 2: "update", 3: "update", 7: "insert back", 8: "update back"}


class Judge:
    """What must become of a log's events, judged one row of the table at a time.

    It knows the rules of the design and nothing of the SQL. Keys are whole numbers, fields `a` and
    `b` are texts.
    """

    def __init__(self, rows: list[Row], base: list[Row], by_time: bool) -> None:
        self.base = {row["id"]: row for row in base}
        self.changes: dict[str, Row] = {}
        self.copies: dict[int, list[Row]] = {}
        for row in rows:
            self.copies.setdefault(row["record_id"], []).append(row)
        events = []
        for copies in self.copies.values():
            row = copies[0]
            if any(copy["status"] == "N" for copy in copies):
                events.append(row)
            else:
                self.set_aside(row, "not eligible")
        events.sort(key=lambda row: (row["event_time"] if by_time else 0, row["record_id"]))
        for key in {row["table_key"] for row in events}:
            self.judge([row for row in events if row["table_key"] == key])

    def judge(self, events: list[Row]) -> None:
        """Judge the events of one row of the table, between two deletes at a time."""
        pending: list[Row] = []
        for row in events:
            pending.append(row)
            if row["event_type"] == 4:
                self.judge_generation(pending, True)
                pending = []
        self.judge_generation(pending, False)

    def judge_generation(self, events: list[Row], is_deleted: bool) -> None:
        row_back = any(row["event_type"] in (5, 6) for row in events)
        fields_back = {row["column_name"] for row in events if row["event_type"] in (7, 8)}

        def side_by_side(row: Row) -> Any:
            kind = KINDS.get(row["event_type"], row["record_id"])
            return kind, row["event_time"]

        for _, neighbours in groupby(events, side_by_side):
            written: dict[str | None, int] = {}
            changes: dict[int, list[Row]] = {}
            for row in neighbours:
                field = row["column_name"]
                written[field] = written.get(field, 0) + 1
                is_field = row["event_type"] in KINDS
                is_logged = row["event_type"] in (1, 2, 3)
                if (row_back and is_field) or (field in fields_back and is_logged):
                    self.set_aside(row, "overruled")
                else:
                    changes.setdefault(written[field], []).append(row)
            for rows in changes.values():
                self.publish(rows, is_deleted)

    def set_aside(self, row: Row, verdict: str) -> None:
        self.changes[change_id(row)] = {"verdict": verdict, "source_rows": self.count([row])}

    def publish(self, rows: list[Row], is_deleted: bool) -> None:
        first = rows[0]
        kind = first["event_type"]
        key = int(first["table_key"].removeprefix("id="))
        named = [name for name in ("a", "b") if any(row["column_name"] == name for row in rows)]
        change: Row = {"verdict": None, "source_rows": self.count(rows)}
        present = self.base.get(key)
        if kind >= 5 and (is_deleted or present is None):
            change["verdict"] = "row gone"
        elif kind == 4:
            change |= {"operation": "delete", "after": None, "changed_columns": None}
        else:
            values = {row["column_name"]: row["new_value"] for row in rows}
            if kind >= 5:
                values = {name: (present or {})[name] for name in named or ("a", "b")}
            change |= {
                "operation": "insert" if kind in (1, 5, 7) else "update",
                "after": {"id": key, "a": values.get("a"), "b": values.get("b")},
                "changed_columns": named or None,
            }
        self.changes[change_id(first)] = change

    def count(self, rows: list[Row]) -> int:
        return sum(len(self.copies[row["record_id"]]) for row in rows)


def change_id(row: Row) -> str:
    return f"{row['record_id']:020d}-{row['table_key']}"


def random_log(source: random.Random, objects: int) -> list[Row]:
    """Write a log in which the events of many rows of one table are mixed."""
    rows: list[Row] = []
    for record in range(1, objects * 6):
        kind = source.choices(range(1, 9), weights=[3, 6, 2, 2, 1, 1, 1, 2])[0]
        field = source.choice(["a", "b"]) if kind in KINDS else None
        rows.append(
            {
                "record_id": record,
                "status": source.choice(["N"] * 9 + ["S"]),
                "event_type": kind,
                "event_time": NOON + timedelta(minutes=source.choice([0, 0, 0, 5])),
                "table_name": "t",
                "table_key": f"id={source.randrange(objects)}",
                "column_name": field,
                "new_value": source.choice([None, "x", "y"]) if kind < 4 else None,
            }
        )
    return rows


@pytest.mark.long
@pytest.mark.parametrize(
    ("seed", "by_time", "in_order", "batches"),
    [
        (1, False, True, 3),
        (2, True, False, 2),
        *(
            pytest.param(seed, seed % 2 == 0, seed % 3 == 0, 4, marks=pytest.mark.long)
            for seed in range(3, 15)
        ),
    ],
)
def test_any_delivery_gives_what_one_reading_gives(
    seed: int, by_time: bool, in_order: bool, batches: int, project: Project, lake: Lake
) -> None:
    """Deliver a log in batches; in order they may be read with no look-back at all."""
    source = random.Random(seed)
    rows = random_log(source, objects=40)
    base = [{"id": n, "a": f"a{n}", "b": None} for n in range(40) if source.random() < 0.6]
    lake.create("random_base", {"id": "int", "a": "string", "b": "string"}, base)
    repeats = [{**row, "status": source.choice("NS")} for row in rows if source.random() < 0.1]
    if not in_order:
        rows = rows + repeats
        source.shuffle(rows)
    project.file(
        "models/stg_random.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='change_id', file_format='iceberg') }}\n"
        f"{{{{ netiq_event_log({relation('random_log')}, unique_key=['id'], table='T', "
        "columns=[{'name': 'id', 'type': 'int'}, {'name': 'a', 'type': 'string'}, "
        "{'name': 'b', 'type': 'string'}], "
        f"base={relation('random_base')}, future_events={str(by_time).lower()}, "
        "as_of='2026-01-02') }}",
    )
    lake.create("random_log", LOG, [])
    cuts = sorted(source.sample(range(len(rows)), batches - 1))
    settings = json.dumps({"afterimage_lookback_hours": 0 if in_order else 72})
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        lake.append("random_log", LOG, rows[begin:end])
        full = ["--full-refresh"] if begin == 0 else []
        project.dbt("run", "--select", "stg_random", "--vars", settings, *full)
    expected = Judge(rows, base, by_time).changes

    found = staged(lake, "stg_random")
    for name, change in found.items():
        # What an earlier run has read, before it learned of the delete, stays.
        if expected[name]["verdict"] == "row gone" and change["verdict"] is None:
            assert change["after"]["id"] in [row["id"] for row in base]
            expected[name] = change
    assert found == expected

    if in_order:
        return
    project.dbt("run", "--select", "stg_random", "--full-refresh")
    assert staged(lake, "stg_random") == Judge(rows, base, by_time).changes


def staged(lake: Lake, table: str) -> dict[str, Row]:
    """Return a staging table as `Judge` describes it."""
    changes = {}
    for row in lake.rows(f"select * from {SCHEMA}.{table} where source_rows > 0"):
        reason = row["reject_reason"]
        change = {
            "verdict": reason and reason.split(":")[0],
            "source_rows": row["source_rows"],
        }
        if reason is None:
            change |= {name: row[name] for name in ("operation", "after", "changed_columns")}
            fields = {"a", "b"} - set(row["changed_columns"] or ["a", "b"])
            assert set(row["absent_columns"] or []) == fields
        changes[row["change_id"]] = change
    return changes


def test_the_lookback_goes_by_the_events_own_time(project: Project, lake: Lake) -> None:
    project.file(
        "models/stg_late.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='change_id', file_format='iceberg') }}\n"
        f"{{{{ netiq_event_log({relation('late_log')}, unique_key=['idu'], table='usr', "
        f"columns={USR}, as_of='2027-01-01') }}}}",
    )

    def run(log: list[Row], *arguments: str) -> set[int]:
        lake.append("late_log", LOG, log)
        variables = json.dumps({"afterimage_lookback_hours": 1})
        project.dbt("run", "--select", "stg_late", "--vars", variables, *arguments)
        rows = lake.rows(f"select change_id from {SCHEMA}.stg_late")
        return {int(row["change_id"][:20]) for row in rows}

    def insert(record: int, hours_before_noon: int) -> Row:
        time = NOON - timedelta(hours=hours_before_noon)
        return event(record, 1, record, "fname", event_time=time)

    lake.create("late_log", LOG, [])
    known = {3, 5, 9}
    assert run([insert(3, 2), insert(5, 1), insert(9, 0)], "--full-refresh") == known
    too_late = insert(1, 3)
    number_drawn_early = insert(2, 1)
    clock_behind = insert(6, 3)
    assert run([too_late, number_drawn_early, clock_behind, insert(30, 0)]) == known | {2, 6, 30}


# --- What an earlier run has seen ---------------------------------------------------------------


@pytest.mark.minutes
def test_what_was_taken_in_stays_when_the_driver_and_the_table_move_on(
    project: Project, lake: Lake
) -> None:
    types = {"idu": "int", "fname": "string", "lname": "string", "photo": "binary"}
    project.file(
        "models/stg_moving.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='change_id', file_format='iceberg') }}\n"
        f"{{{{ netiq_event_log({relation('moving_log')}, unique_key=['idu'], table='usr', "
        f"columns={USR}, base={relation('moving_base')}, future_events=true, "
        "as_of=var('as_of')) }}",
    )

    def run(log: list[Row], base: list[Row], as_of: str, *arguments: str) -> dict[int, Row]:
        lake.create("moving_log", LOG, log)
        lake.create("moving_base", types, base)
        variables = json.dumps({"as_of": as_of})
        project.dbt("run", "--select", "stg_moving", "--vars", variables, *arguments)
        rows = lake.rows(f"select * from {SCHEMA}.stg_moving")
        return {int(row["change_id"][:20]): row for row in rows}

    def processed(row: Row) -> Row:
        return {**row, "status": "S"}

    later, tomorrow = NOON + timedelta(hours=1), NOON + timedelta(days=1)
    query_back = event(1, 5, 1)
    fields = [event(2, 2, 2, "fname", new_value="x"), event(3, 2, 2, "lname", new_value="y")]
    held = event(4, 1, 3, "fname", new_value="due", event_time=tomorrow)
    failed = event(5, 1, 5, "fname", new_value="z", status="E")
    first = run(
        [query_back, *fields, held, failed],
        [{"idu": 1, "fname": "Ann"}],
        "2026-01-01 13:00:00",
        "--full-refresh",
    )
    assert first[1]["after"] == {"idu": 1, "fname": "Ann", "lname": None, "photo": None}
    assert first[2]["source_rows"] == 2
    assert first[4]["reject_reason"].startswith("held back: ")
    assert first[5]["reject_reason"] == 'not eligible: status "E"'

    # The driver has processed the events, the row has changed, and half of a change is read again.
    second = run(
        [
            processed(query_back),
            processed(fields[0]),
            fields[1],
            held,
            {**failed, "status": "N"},
            event(6, 6, 1, event_time=later),
            event(7, 1, 6, "fname", new_value="late", status="S"),
        ],
        [{"idu": 1, "fname": "Bob"}],
        "2026-01-01 14:00:00",
    )
    assert (second[1]["after"], second[1]["reject_reason"]) == (first[1]["after"], None)
    assert second[6]["after"] == {"idu": 1, "fname": "Bob", "lname": None, "photo": None}
    assert (second[2], 3 in second) == (first[2], False)
    assert second[5]["reject_reason"] is None
    assert second[7]["reject_reason"] == 'not eligible: status "S"'
    assert second[1]["ingested_at"] == first[1]["ingested_at"]

    # The log has been emptied, the row is gone, and what was held back is due.
    overruling = event(9, 6, 9, event_time=tomorrow)
    early = event(12, 2, 7, "fname", new_value="x", event_time=tomorrow)
    third = run(
        [held, event(8, 4, 1, event_time=later), overruling, early],
        [{"idu": 9, "fname": "Old"}],
        "2026-01-02 12:00:00",
    )
    assert [third[n] for n in (1, 2, 5, 6, 7)] == [second[n] for n in (1, 2, 5, 6, 7)]
    assert (third[4]["reject_reason"], third[4]["after"]["fname"]) == (None, "due")
    assert third[8]["operation"] == "delete"
    assert third[9]["after"]["fname"] == "Old"
    assert third[12]["source_rows"] == 1

    # A query-back that overrules what it has not yet seen is read anew. An event that arrives after
    # another of its change, but stands before it, gives the change another identity.
    overruled = event(10, 2, 9, "fname", new_value="New", event_time=tomorrow)
    late = event(11, 2, 7, "lname", new_value="y", event_time=tomorrow)
    fourth = run(
        [overruling, overruled, late, early],
        [{"idu": 9, "fname": "New"}],
        "2026-01-02 12:00:00",
    )
    assert fourth[9]["after"]["fname"] == "New"
    assert fourth[9]["warnings"] == [WARNING]
    assert fourth[10]["reject_reason"] == "overruled: by the query-back of the row, record 9"
    assert (fourth[11]["source_rows"], fourth[11]["changed_columns"]) == (2, ["fname", "lname"])
    assert fourth[12]["source_rows"] == 0
    assert fourth[12]["reject_reason"] == "moved: it is part of 00000000000000000011-idu=7"


@pytest.mark.minutes
def test_a_query_back_that_is_taken_back_leaves_no_version(project: Project, lake: Lake) -> None:
    """Two fields were one change, until an event of the row overruled both, and the row is gone."""
    types = {"idu": "int", "fname": "string", "lname": "string", "photo": "binary"}
    project.file(
        "models/stg_gone.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='change_id', file_format='iceberg') }}\n"
        f"{{{{ netiq_event_log({relation('gone_log')}, unique_key=['idu'], table='usr', "
        f"columns={USR}, base={relation('gone_base')}, as_of='2027-01-01') }}}}",
    )
    project.file(
        "models/gone_history.sql",
        "{{ config(materialized='history', unique_key=['idu'], file_format='iceberg') }}\n"
        "select * from {{ ref('stg_gone') }}",
    )
    run = ("run", "--select", "stg_gone", "gone_history")
    lake.create("gone_log", LOG, [event(1, 8, 1, "fname"), event(2, 8, 1, "lname")])
    lake.create("gone_base", types, [{"idu": 1, "fname": "John", "lname": "Frost"}])
    project.dbt(*run, "--full-refresh")
    versions = f"select idu, fname, valid_to_seq from {SCHEMA}.gone_history"
    assert [row["fname"] for row in lake.rows(versions)] == ["John"]
    lake.append("gone_log", LOG, [event(3, 6, 1, event_time=NOON + timedelta(minutes=1))])
    lake.create("gone_base", types, [])
    project.dbt(*run)
    assert lake.rows(versions) == []
