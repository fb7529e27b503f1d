"""Event logs: the manual's documents, any delivery of a log, and what earlier runs have read."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain, groupby
from typing import Any
from xml.etree.ElementTree import canonicalize

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, column_list, emptied, relation

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
# A warning of ours ends the run.
STRICT = ("--warn-error-options", '{"error": ["JinjaLogWarning"]}')
WARNING = "query-back: the values may be newer than the event"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("netiq_event_log")


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


def event_log(table: str, columns: Any, unique_key: str = "['idu']", **arguments: Any) -> str:
    """Write the call that reads the events of `usr` from a log."""
    given = {"unique_key": unique_key, "table": "'usr'", "columns": columns, **arguments}
    text = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"netiq_event_log({relation(table)}, {text})"


# --- The manual's documents ---------------------------------------------------------------------

USR = column_list(idu="int", fname="string", lname="string", photo="binary")
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
        project.sql(
            f"xds_documents({relation(table)}, unique_key=['idu'], table='usr',"
            f" schema='indirect', columns={USR}, base={relation('xds_usr')}, {text})"
        )
    )
    assert all(row["reject_reason"] is None for row in rows)
    return {row["change_id"]: canonicalize(row["document"], strip_text=True) for row in rows}


@pytest.mark.slow
def test_documents_equal_those_of_the_manual(project: Project, lake: Lake) -> None:
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


@pytest.mark.slow
def test_query_back_inserts_can_be_adds(project: Project, lake: Lake) -> None:
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


@pytest.mark.minutes
def test_a_table_of_keys_alone_has_documents(project: Project, lake: Lake) -> None:
    lake.create("xds_member", {"idu": "int"}, [{"idu": 1}])
    lake.create("xds_member_log", LOG, [event(1, 6, 1)])
    sql = project.sql(
        f"xds_documents({relation('xds_member_log')}, unique_key=['idu'], table='usr',"
        f" schema='indirect', columns={column_list(idu='int')},"
        f" base={relation('xds_member')})"
    )
    [row] = lake.rows(sql)
    assert canonicalize(row["document"], strip_text=True) == canonicalize(
        f'<modify class-name="usr">{ASSOCIATION}</modify>', strip_text=True
    )


@pytest.mark.minutes
def test_a_small_decimal_of_the_base_has_no_exponent(project: Project, lake: Lake) -> None:
    rates = {1: "0.00000000", 2: "0.00000012", 3: "-1.50000000"}
    lake.create(
        "xds_rate",
        {"idu": "int", "rate": "decimal(12,8)"},
        [{"idu": key, "rate": Decimal(rate)} for key, rate in rates.items()],
    )
    lake.create("xds_rate_log", LOG, [event(key, 6, key) for key in rates])
    for kind in ("decimal(12,8)", "string"):
        columns = column_list(idu="int", rate=kind)
        sql = project.sql(
            f"xds_documents({relation('xds_rate_log')}, unique_key=['idu'], table='usr',"
            f" schema='indirect', columns={columns}, base={relation('xds_rate')})"
        )
        for row in lake.rows(sql):
            rate = rates[int(row["change_id"][:20])]
            assert f'<value type="string">{rate}</value>' in row["document"], kind


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


# --- Keys of other types than text and int -------------------------------------------------------


@pytest.mark.slow
def test_keys_differ_by_their_last_digit_and_a_time_is_not_a_date(
    project: Project, lake: Lake
) -> None:
    whole = "1234567890123456789012345678"
    keys = {
        ("2024-01-01", f"{whole}.0000000001"): None,
        ("2024-01-01", f"{whole}.0000000002"): None,
        ("202401", whole): 'day is no date: "202401"',
        ("2024-01-01 10:00:00", whole): 'day is no date: "2024-01-01 10:00:00"',
        ("2024-01-01", f"{whole}9"): f'sum is no decimal(38,10): "{whole}9"',
        ("2024-01-01", "0.00000000001"): 'sum is no decimal(38,10): "0.00000000001"',
    }
    events = [
        event(number, 4, 0, table_key=f"day={day}+sum={total}")
        for number, (day, total) in enumerate(keys, start=1)
    ]
    lake.create("typed_keys_log", LOG, events)
    columns = column_list(day="date", sum="decimal(38,10)")
    sql = project.sql(event_log("typed_keys_log", columns, "['day', 'sum']"))
    rows = lake.rows(f"select before.*, reject_reason from ({sql}) order by change_seq")
    assert [row["reject_reason"] for row in rows] == [
        reason and f"table_key does not cast: {reason}" for reason in keys.values()
    ]
    assert [(row["day"], str(row["sum"])) for row in rows[:2]] == [
        (date(2024, 1, 1), f"{whole}.0000000001"),
        (date(2024, 1, 1), f"{whole}.0000000002"),
    ]


def test_a_time_is_not_cut_to_fit(project: Project, lake: Lake) -> None:
    fits = {
        ("at", "2024-01-01 10:00:00.123456"): True,
        ("at", "2024-01-01 10:00:00.123456000"): True,
        ("at", "2024-01-01 10:00:00.1234567"): False,
        ("at", "2024-01-01T10:00:00+02:00"): True,
        ("clock", "2024-01-01 10:00:00"): True,
        ("clock", "2024-01-01T10:00:00Z"): False,
        ("clock", "2024-01-01 10:00:00.5+02:00"): False,
        ("clock", "2024-01-01 10:00:00 Europe/Rome"): False,
    }
    types = {"at": "timestamp", "clock": "timestamp_ntz"}
    events = [
        event(number, 1, number, column, new_value=text)
        for number, (column, text) in enumerate(fits, start=1)
    ]
    lake.create("exact_times_log", LOG, events)
    sql = project.sql(event_log("exact_times_log", column_list(idu="int", **types)))
    rows = lake.rows(f"select reject_reason from ({sql}) order by change_seq")
    assert [row["reject_reason"] for row in rows] == [
        None
        if fit
        else f'value does not cast: new_value of {column} is no {types[column]}: "{text}"'
        for (column, text), fit in fits.items()
    ]


def test_an_event_of_an_unknown_type_has_its_key(project: Project, lake: Lake) -> None:
    """An erasure finds it by that."""
    lake.create("unknown_type_log", LOG, [event(1, 9, 7, "fname", new_value="Ann")])
    sql = project.sql(event_log("unknown_type_log", USR))
    [row] = lake.rows(f"select reject_reason, after from ({sql})")
    assert row["reject_reason"] == "unknown event_type: 9"
    assert row["after"] == {"idu": 7, "fname": None, "lname": None, "photo": None}


def test_a_log_may_lack_columns_that_no_event_fills(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """In JSON a field that is always NULL is not there: query-backs and deletes name no field.

    In a table somebody may have forgotten them, so the build warns.
    """
    missing = {"perpetrator", "column_name", "old_value", "new_value"}
    events = [event(1, 5, 1), event(2, 5, 2), event(3, 4, 2), event(4, 6, 1)]
    lake.create("whole_log", LOG, events)
    lake.create("short_log", {name: LOG[name] for name in LOG if name not in missing}, events)
    lake.create("short_base", {"idu": "int", "fname": "string"}, [{"idu": 1, "fname": "Jim"}])
    given = {"base": relation("short_base"), "driver_user": "'IDM'"}
    columns = column_list(idu="int", fname="string")
    calls = [event_log(table, columns, **given) for table in ("whole_log", "short_log")]
    whole, short = [lake.rows(f"select * from ({sql}) order by 2") for sql in project.sqls(calls)]
    jim = {"idu": 1, "fname": "Jim"}
    assert [(row["operation"], row["after"]) for row in short if row["reject_reason"] is None] == [
        ("insert", jim),
        ("delete", None),
        ("update", jim),
    ]
    for row in [*whole, *short]:
        del row["ingested_at"]
    assert short == whole
    for name, call in zip(("whole", "short"), calls, strict=True):
        project.stream(f"stg_{name}_log", call)
    warnings = []
    for _ in range(2):
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", "stg_whole_log", "stg_short_log")
        said = " ".join(capfd.readouterr().out.split())
        warnings += re.findall(
            r"(\w+) lacks columns that count as NULL in each event: ([^.]*)\.", said
        )
    named = "perpetrator, column_name, old_value, new_value"
    assert warnings == [("short_log", named)]


@pytest.mark.slow
def test_a_run_names_the_columns_that_a_log_lacks(project: Project, lake: Lake) -> None:
    """They may have been forgotten where the log was landed."""
    run = (*STRICT, "run", "--full-refresh", "--select", "stg_log")
    columns = column_list(idu="int", fname="string")
    project.stream("stg_log", event_log("cut_log", columns, driver_user="'IDM'"))
    lake.create("cut_log", LOG, [event(1, 4, 1)])
    project.dbt(*run)
    missing = {"perpetrator", "old_value"}
    short = {name: LOG[name] for name in LOG if name not in missing}
    lake.create("cut_log", short, [event(1, 4, 1)])
    said = r"cut_log lacks .*: perpetrator, old_value\. .* `driver_user` excludes no event"
    with pytest.raises(DbtError, match=f"(?s){said}"):
        project.dbt(*run)


def test_an_event_that_gives_its_row_another_key_is_rejected(project: Project, lake: Lake) -> None:
    """A trigger after an update has the new key at hand. Type 3 may have its old value, too."""
    log = [
        event(1, 1, 1, "idu", new_value="1"),
        event(2, 2, 2, "idu", old_value="1", new_value="2"),
        event(3, 3, 3, "idu", old_value="3", new_value="3"),
        event(4, 3, 4, "idu", old_value="1", new_value="4"),
        event(5, 3, 5, "idu", old_value="of no type", new_value="5"),
    ]
    lake.create("new_key_log", LOG, log)
    sql = project.sql(event_log("new_key_log", USR))
    rows = lake.rows(f"select reject_reason from ({sql}) order by change_seq")
    moved = "the event changes the key: idu"
    assert [row["reject_reason"] for row in rows] == [None, moved, None, moved, None]


def test_a_base_whose_types_are_unknown_stops_the_run(project: Project, lake: Lake) -> None:
    """Its values could be rounded, or cut to fit."""
    lake.create("renamed_base", {"number": "int", "sum": "decimal(20,4)"}, [])
    lake.create("renamed_log", LOG, [event(1, 5, 0, table_key="id=1")])
    table = f"{{{{ {relation('renamed_base')} }}}}"
    project.model("renamed", f"select number as id, sum from {table}", materialized="ephemeral")
    columns = column_list(id="int", sum="decimal(10,2)")
    project.stream(
        "stg_renamed", event_log("renamed_log", columns, "['id']", base="ref('renamed')")
    )
    said = r"netiq_event_log: the columns of __dbt__cte__renamed cannot be\s+read\. .* An ephemeral"
    with pytest.raises(DbtError, match=f"(?s){said}"):
        project.dbt("run", "--select", "stg_renamed")


@pytest.mark.slow
def test_a_current_value_that_does_not_fit_its_type_rejects_the_query_back(
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
    columns = column_list(id="int", born="date", sum="decimal(10,2)", n="int")
    base_and_now = {"base": relation("wide_base"), "as_of": "'2027-01-01'"}
    sql = project.sql(event_log("wide_log", columns, "['id']", **base_and_now))
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", [6, 8])
def test_a_query_back_whose_values_do_not_fit_overrules_nothing(
    kind: int, project: Project, lake: Lake
) -> None:
    """It is rejected: what it overruled would be lost."""
    base = {"id": "int", "n": "string", "sum": "decimal(20,4)"}
    lake.create("misfit_base", base, [{"id": 1, "n": "John", "sum": Decimal("12.3450")}])
    column = "sum" if kind == 8 else None
    events = [
        event(1, 2, 0, "n", old_value="Jack", new_value="John", table_key="id=1"),
        event(2, 2, 0, "sum", old_value="1.00", new_value="2.00", table_key="id=1"),
        event(3, kind, 0, column, table_key="id=1"),
    ]
    lake.create("misfit_log", LOG, events)
    columns = column_list(id="int", n="string", sum="decimal(10,2)")
    base_and_now = {"base": relation("misfit_base"), "as_of": "'2027-01-01'"}
    sql = project.sql(event_log("misfit_log", columns, "['id']", **base_and_now))
    staged = {int(row["change_id"][:20]): row["reject_reason"] for row in lake.rows(sql)}
    misfit = 'value does not cast: present value of sum is no decimal(10,2): "12.3450"'
    # The two logged events are one change.
    assert staged == {1: None, 3: misfit}


@pytest.mark.slow
def test_a_field_that_does_not_fit_is_queried_back_alone(project: Project, lake: Lake) -> None:
    """One statement of the application changed both: the other one overrules, and counts."""
    base = {"id": "int", "n": "string", "sum": "decimal(20,4)"}
    lake.create("partly_base", base, [{"id": 1, "n": "John", "sum": Decimal("12.3450")}])
    events = [
        event(1, 2, 0, "n", old_value="Jack", new_value="Joe", table_key="id=1"),
        event(2, 8, 0, "n", table_key="id=1"),
        event(3, 8, 0, "sum", table_key="id=1"),
    ]
    lake.create("partly_log", LOG, events)
    columns = column_list(id="int", n="string", sum="decimal(10,2)")
    base_and_now = {"base": relation("partly_base"), "as_of": "'2027-01-01'"}
    sql = project.sql(event_log("partly_log", columns, "['id']", **base_and_now))
    staged = {int(row["change_id"][:20]): row for row in lake.rows(sql)}
    misfit = 'value does not cast: present value of sum is no decimal(10,2): "12.3450"'
    overruled = "overruled: by the query-back of the field, record 2"
    assert {n: row["reject_reason"] for n, row in staged.items()} == {
        1: overruled,
        2: None,
        3: misfit,
    }
    assert staged[2]["after"]["n"] == "John"


@pytest.mark.slow
def test_an_ephemeral_model_of_the_log_is_read_whole_despite_a_look_back(
    project: Project, lake: Lake
) -> None:
    lake.create("cut_log", LOG, [event(1, 1, 1, "fname", new_value="Jack")])
    log = f"select * from {{{{ {relation('cut_log')} }}}}"
    project.model("cut", log, materialized="ephemeral")
    project.stream("stg_cut", event_log("cut_log", USR).replace(relation("cut_log"), "ref('cut')"))
    run = ("run", "--select", "stg_cut", "--vars", "afterimage_lookback_hours: 24")
    project.dbt(*run)
    late = event(2, 1, 2, "fname", new_value="Jill", event_time=NOON - timedelta(days=9))
    lake.append("cut_log", LOG, [late])
    project.dbt(*run)
    staged = lake.rows(f"select after.fname from {SCHEMA}.stg_cut order by change_seq")
    assert [row["fname"] for row in staged] == ["Jack", "Jill"]


# --- Any delivery of a log ----------------------------------------------------------------------


# The events of one field: those of one kind are put together.
KINDS = {1: "insert", 2: "update", 3: "update", 7: "insert back", 8: "update back"}


class Judge:
    """The expected changes of a log, worked out one row of the table at a time, in runs.

    It follows the rules of the design and shares nothing with the SQL. Keys are integers, fields
    `a` and `b` are texts. `changes` holds what the staging table must hold after the last run.
    """

    def __init__(self, by_time: bool, precedence: str = "driver") -> None:
        self.by_time = by_time
        self.precedence = precedence
        self.changes: dict[str, Row] = {}
        self.taken_in: dict[int, str] = {}  # the change that each record became part of

    def read(self, rows: list[Row], base: list[Row]) -> dict[str, Row]:
        """Judge the log as it is now, except for events that earlier runs read."""
        self.base = {row["id"]: row for row in base}
        self.copies: dict[int, list[Row]] = {}
        for row in rows:
            self.copies.setdefault(row["record_id"], []).append(row)
        self.earlier = dict(self.taken_in)
        self.verdicts = {
            record: self.changes[name]["verdict"] for record, name in self.earlier.items()
        }
        events = []
        for record, copies in self.copies.items():
            if record in self.earlier or any(copy["status"] == "N" for copy in copies):
                events.append(copies[0])
            else:
                self.set_aside(copies[0], "not eligible")
        events.sort(key=lambda row: (row["event_time"] if self.by_time else 0, row["record_id"]))
        for key in {row["table_key"] for row in events}:
            self.judge([row for row in events if row["table_key"] == key])
        return self.changes

    def judge(self, events: list[Row]) -> None:
        """Judge the events of one row of the table, between two deletes at a time."""
        key = events[0]["table_key"]
        self.has_gaps = any(
            name.split("-")[1] == key and record not in self.copies
            for record, name in self.earlier.items()
        )
        generation: list[Row] = []
        for row in events:
            generation.append(row)
            if row["event_type"] == 4:
                self.judge_generation(generation, True)
                generation = []
        self.judge_generation(generation, False)
        for name in {self.taken_in[row["record_id"]] for row in events}:
            # A row that is delivered again is counted, whatever became of it.
            parts = [row for row in events if self.taken_in[row["record_id"]] == name]
            change = self.changes[name]
            change["source_rows"] = max(change["source_rows"], self.count(parts))

    def is_kept(self, row: Row) -> bool:
        """Return whether the change that an earlier run made of an event stays unchanged."""
        name = self.earlier.get(row["record_id"])
        if name is None:
            return False
        return (
            self.has_gaps or row["event_type"] >= 5 or self.changes[name]["verdict"] == "overruled"
        )

    def judge_generation(self, events: list[Row], is_deleted: bool) -> None:
        # A query-back of a row that is gone, and one of an earlier run, overrules nothing.
        pending = [row for row in events if row["record_id"] not in self.earlier]
        if is_deleted or self.precedence == "logged":
            pending = []
        judges = pending if events and key_of(events[0]) in self.base else []
        rows_back = [row for row in judges if row["event_type"] in (5, 6)]
        fields_back = [row for row in judges if row["event_type"] in (7, 8)]

        def is_overruled(row: Row) -> bool:
            field, kind = row["column_name"], row["event_type"]
            if row not in pending or kind not in KINDS:
                return False
            backs = rows_back + [
                back for back in fields_back if back["column_name"] == field and kind in (1, 2, 3)
            ]
            # What counts since an earlier run, and is behind all query-backs, would have the last
            # word. So would this event before one that an earlier run has overruled.
            counted, overruled = (
                [
                    place
                    for place, event in enumerate(events)
                    if (event["event_type"] in (5, 6) or event["column_name"] == field)
                    and self.verdicts.get(event["record_id"], "pending") == verdict
                ]
                for verdict in (None, "overruled")
            )
            has_earlier_query_back = self.has_gaps or any(
                event["event_type"] in (5, 6)
                or (event["event_type"] in (7, 8) and event["column_name"] == field)
                for event in events
                if self.verdicts.get(event["record_id"], "pending") is None
            )
            is_before = kind in (1, 2, 3) and events.index(row) < max(overruled, default=-1)
            if is_before and has_earlier_query_back:
                return True
            return any(events.index(back) > max(counted, default=-1) for back in backs)

        def side_by_side(row: Row) -> Any:
            kind = KINDS.get(row["event_type"], row["record_id"])
            return kind, row["event_time"]

        published: list[list[Row]] = []
        for _, neighbours in groupby(events, side_by_side):
            written: dict[str | None, int] = {}
            changes: dict[int, list[Row]] = {}
            for row in neighbours:
                field = row["column_name"]
                written[field] = written.get(field, 0) + 1
                if self.is_kept(row):
                    continue
                if is_overruled(row):
                    self.set_aside(row, "overruled")
                    self.taken_in[row["record_id"]] = change_id(row)
                else:
                    changes.setdefault(written[field], []).append(row)
            published += changes.values()
        for rows in published:
            for row in rows:  # what began a change may be part of another one by now
                self.changes.pop(change_id(row), None)
        for rows in published:
            behind = events[events.index(rows[-1]) + 1 :]
            self.publish(rows, is_deleted, behind)
            self.taken_in |= {row["record_id"]: change_id(rows[0]) for row in rows}

    def set_aside(self, row: Row, verdict: str) -> None:
        self.changes[change_id(row)] = {"verdict": verdict, "source_rows": self.count([row])}

    def publish(self, rows: list[Row], is_deleted: bool, behind: list[Row]) -> None:
        first = rows[0]
        kind = first["event_type"]
        key = key_of(first)
        named = [name for name in ("a", "b") if any(row["column_name"] == name for row in rows)]
        change: Row = {"verdict": None, "source_rows": self.count(rows)}
        present = self.base.get(key)
        unknown = []
        if kind >= 5 and (is_deleted or present is None):
            change["verdict"] = "row gone"
        elif kind == 4:
            change |= {"operation": "delete", "after": None, "changed_columns": None}
        else:
            values = {row["column_name"]: row["new_value"] for row in rows}
            if kind >= 5:
                read = {name: self.read_back(name, behind) for name in named or ("a", "b")}
                values = {name: value for name, (value, _) in read.items()}
                unknown = [name for name, (_, is_known) in read.items() if not is_known]
                values |= {
                    name: (present or {})[name] for name in values if values[name] is PRESENT
                }
            change |= {
                "operation": "insert" if kind in (1, 5, 7) else "update",
                "after": {"id": key, "a": values.get("a"), "b": values.get("b")},
                "changed_columns": named or None,
            }
        if change["verdict"] is None:
            lacking = {"a", "b"} - set(named or ["a", "b"])
            change["absent_columns"] = sorted(lacking | set(unknown))
        self.changes[change_id(first)] = change

    def read_back(self, field: str, behind: list[Row]) -> tuple[Any, bool]:
        """Return the value that a query-back gives for a field, and whether it is known."""
        if self.precedence == "logged":
            for row in behind:
                if row["column_name"] == field and row["event_type"] in (1, 2, 3):
                    old = row["old_value"] if row["event_type"] != 1 else None
                    return old, row["event_type"] == 2 or old is not None
        return PRESENT, True

    def count(self, rows: list[Row]) -> int:
        return sum(len(self.copies[row["record_id"]]) for row in rows)


PRESENT = object()


def key_of(row: Row) -> int:
    return int(row["table_key"].removeprefix("id="))


def change_id(row: Row) -> str:
    return f"{row['record_id']:020d}-{row['table_key']}"


def random_log(source: random.Random, objects: int, kinds: list[int]) -> list[Row]:
    """Write a log in which the events of many rows of one table are mixed."""
    rows: list[Row] = []
    weights = {1: 3, 2: 6, 3: 2, 4: 2, 5: 1, 6: 1, 7: 1, 8: 2}
    for record in range(1, objects * 6):
        kind = source.choices(kinds, weights=[weights[kind] for kind in kinds])[0]
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
                "old_value": source.choice([None, "v", "w"]) if kind in (2, 3) else None,
                "new_value": source.choice([None, "x", "y"]) if kind < 4 else None,
            }
        )
    return rows


def random_base(source: random.Random, objects: int) -> list[Row]:
    return [
        {"id": n, "a": source.choice(["p", "q"]), "b": None}
        for n in range(objects)
        if source.random() < 0.6
    ]


def stage_random(project: Project, by_time: bool, precedence: str) -> None:
    project.stream(
        "stg_random",
        f"netiq_event_log({relation('random_log')}, unique_key=['id'], table='T',"
        f" columns={column_list(id='int', a='string', b='string')},"
        f" base={relation('random_base')}, future_events={str(by_time).lower()},"
        f" as_of='2026-01-02', precedence='{precedence}')",
    )


def batches_of(
    source: random.Random, rows: list[Row], batches: int, in_order: bool
) -> list[list[Row]]:
    """Deliver a log in batches: in order and once, or in any order with repeats."""
    if not in_order:
        again = [{**row, "status": source.choice("NS")} for row in rows if source.random() < 0.1]
        rows = rows + again
        source.shuffle(rows)
    cuts = sorted(source.sample(range(1, len(rows)), batches - 1))
    return [rows[i:j] for i, j in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def run_random(project: Project, *arguments: str) -> None:
    project.dbt("run", "--select", "stg_random", *arguments)


deliveries = pytest.mark.parametrize(
    ("seed", "by_time", "in_order", "batches"),
    [
        (1, False, True, 3),
        pytest.param(2, True, False, 2, marks=pytest.mark.minutes),
        *(
            pytest.param(seed, seed % 2 == 0, seed % 3 == 0, 4, marks=pytest.mark.minutes)
            for seed in range(3, 15)
        ),
    ],
)


@pytest.mark.slow
@deliveries
def test_any_delivery_gives_what_one_reading_gives(
    seed: int, by_time: bool, in_order: bool, batches: int, project: Project, lake: Lake
) -> None:
    """Without query-backs."""
    source = random.Random(seed)
    batched = batches_of(source, random_log(source, 40, [1, 2, 3, 4]), batches, in_order)
    stage_random(project, by_time, "driver")
    lake.create("random_base", {"id": "int", "a": "string", "b": "string"}, [])
    lake.create("random_log", LOG, [])
    for number, batch in enumerate(batched):
        lake.append("random_log", LOG, batch)
        run_random(project, *(["--full-refresh"] if number == 0 else []))
    assert staged(lake, "stg_random") == Judge(by_time).read([*chain(*batched)], [])


@pytest.mark.minutes
@deliveries
def test_query_backs_follow_the_rules_in_each_run(
    seed: int, by_time: bool, in_order: bool, batches: int, project: Project, lake: Lake
) -> None:
    """Between the runs the driver marks events or deletes them, and the table moves on."""
    source = random.Random(seed)
    precedence = "logged" if seed % 4 == 3 else "driver"
    stage_random(project, by_time, precedence)
    judge = Judge(by_time, precedence)
    log: list[Row] = []
    rows = random_log(source, 40, list(range(1, 9)))
    for number, batch in enumerate(batches_of(source, rows, batches, in_order)):
        fates = source.choices(["left", "marked", "gone"], weights=[5, 3, 1], k=len(log))
        log = [
            {**row, "status": "S"} if fate == "marked" else row
            for row, fate in zip(log, fates, strict=True)
            if fate != "gone"
        ] + batch
        base = random_base(source, 40)
        lake.create("random_base", {"id": "int", "a": "string", "b": "string"}, base)
        lake.create("random_log", LOG, log)
        run_random(project, *(["--full-refresh"] if number == 0 else []))
        assert staged(lake, "stg_random") == judge.read(log, base)
    run_random(project, "--full-refresh")
    assert staged(lake, "stg_random") == Judge(by_time, precedence).read(log, base)


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
            change["absent_columns"] = sorted(row["absent_columns"] or [])
        changes[row["change_id"]] = change
    return changes


@pytest.mark.slow
def test_a_late_event_is_read(project: Project, lake: Lake) -> None:
    project.stream("stg_late", event_log("late_log", USR, as_of="'2027-01-01'"))

    def run(log: list[Row], *arguments: str) -> set[int]:
        lake.append("late_log", LOG, log)
        project.dbt("run", "--select", "stg_late", *arguments)
        rows = lake.rows(f"select change_id from {SCHEMA}.stg_late")
        return {int(row["change_id"][:20]) for row in rows}

    def insert(record: int, hours_before_noon: int) -> Row:
        time = NOON - timedelta(hours=hours_before_noon)
        return event(record, 1, record, "fname", event_time=time)

    lake.create("late_log", LOG, [])
    known = {3, 5, 9}
    assert run([insert(3, 2), insert(5, 1), insert(9, 0)], "--full-refresh") == known
    a_year_late = insert(1, 24 * 365)
    number_drawn_early = insert(2, 1)
    clock_behind = insert(6, 3)
    late = [a_year_late, number_drawn_early, clock_behind, insert(30, 0)]
    assert run(late) == known | {1, 2, 6, 30}


# --- What an earlier run has seen ---------------------------------------------------------------


@pytest.mark.minutes
def test_changes_stay_when_the_driver_and_the_table_move_on(project: Project, lake: Lake) -> None:
    types = {"idu": "int", "fname": "string", "lname": "string", "photo": "binary"}
    project.stream(
        "stg_moving",
        event_log(
            *("moving_log", USR),
            base=relation("moving_base"),
            future_events="true",
            as_of="var('as_of')",
        ),
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
    query_back = event(9, 6, 9, event_time=tomorrow)
    early = event(12, 2, 7, "fname", new_value="x", event_time=tomorrow)
    third = run(
        [held, event(8, 4, 1, event_time=later), query_back, early],
        [{"idu": 9, "fname": "Old"}],
        "2026-01-02 12:00:00",
    )
    assert [third[n] for n in (1, 2, 5, 6, 7)] == [second[n] for n in (1, 2, 5, 6, 7)]
    assert (third[4]["reject_reason"], third[4]["after"]["fname"]) == (None, "due")
    assert third[8]["operation"] == "delete"
    assert third[9]["after"]["fname"] == "Old"
    assert third[12]["source_rows"] == 1

    # What an earlier run took in overrules nothing. An event that arrives after another of its
    # change, but comes before it, gives the change another identity.
    logged = event(10, 2, 9, "fname", new_value="New", event_time=tomorrow)
    late = event(11, 2, 7, "lname", new_value="y", event_time=tomorrow)
    fourth = run(
        [query_back, logged, late, early],
        [{"idu": 9, "fname": "New"}],
        "2026-01-02 12:00:00",
    )
    assert fourth[9] == third[9]
    assert (fourth[9]["warnings"], fourth[10]["reject_reason"]) == ([WARNING], None)
    assert (fourth[11]["source_rows"], fourth[11]["changed_columns"]) == (2, ["fname", "lname"])
    assert fourth[12]["source_rows"] == 0
    assert fourth[12]["reject_reason"] == "moved: it is part of 00000000000000000011-idu=7"


@pytest.mark.minutes
def test_an_event_that_was_rejected_may_be_read_once_the_driver_has_processed_it(
    project: Project, lake: Lake
) -> None:
    """Its column was unknown. Rows that were no events, or of no table, are none now.

    A row whose key cannot be read keeps that reason: nobody has mended its trigger.
    """
    log = [
        event(5, 2, 1, "dept", new_value="HR"),
        event(6, 2, 2, "dept", new_value="IT", status="E"),
        event(7, 2, 3, "dept", new_value="IT", table_name=None),
        event(8, 2, 4, "dept", new_value="IT", table_key="idu=4+x=2"),
        event(9, 2, 4, "dept", new_value="IT", table_key="idu=4,2"),
        event(10, 2, 4, "dept", new_value="IT", table_key=None),
    ]
    bad_keys = [
        "table_key has not the columns of the key (idu): idu=4+x=2",
        "malformed table_key: position 6: ',' in a value without quotes",
        "malformed table_key: NULL",
    ]

    def listed(**columns: str) -> None:
        project.stream(
            "stg_unlisted",
            event_log("unlisted_log", column_list(**columns)),
            on_schema_change="append_new_columns",
        )

    reasons = f"select reject_reason from {SCHEMA}.stg_unlisted order by change_id"
    lake.create("unlisted_log", LOG, log)
    listed(idu="int", fname="string")
    project.dbt("run", "--select", "stg_unlisted", "--full-refresh")
    assert [row["reject_reason"] for row in lake.rows(reasons)] == [
        'unknown column_name: "dept"',
        'not eligible: status "E"',
        "no table_name: NULL",
        *bad_keys,
    ]
    lake.create("unlisted_log", LOG, [{**row, "status": "S", "table_name": "usr"} for row in log])
    listed(idu="int", fname="string", dept="string")
    project.dbt("run", "--select", "stg_unlisted")
    rows = lake.rows(f"select * from {SCHEMA}.stg_unlisted order by change_id")
    assert (rows[0]["after"]["dept"], rows[0]["reject_reason"]) == ("HR", None)
    assert {row["reject_reason"] for row in rows[1:3]} == {'not eligible: status "S"'}
    assert [row["reject_reason"] for row in rows[3:]] == bad_keys


@pytest.mark.minutes
@pytest.mark.parametrize("status", ["S", "N"])
def test_events_whose_key_did_not_fit_are_one_change_once_it_does(
    status: str, project: Project, lake: Lake
) -> None:
    """They count if their status was N, and once. A run between reads them with nothing new."""
    values = {"fname": "Ann", "lname": "Frost", "dept": "HR"}
    log = [
        event(record, 1, 3_000_000_000, column, new_value=value)
        for record, (column, value) in enumerate(values.items(), start=1)
    ]

    def declare(key: str) -> None:
        columns = column_list(idu=key, **dict.fromkeys(values, "string"))
        project.stream(
            "stg_unfit", event_log("unfit_log", columns), on_schema_change="append_new_columns"
        )

    staged = f"select * from {SCHEMA}.stg_unfit order by change_id"
    run = ("run", "--select", "stg_unfit")
    declare("int")
    lake.create("unfit_log", LOG, log)
    project.dbt(*run, "--full-refresh")
    reason = 'table_key does not cast: idu is no int: "3000000000"'
    assert [row["reject_reason"] for row in lake.rows(staged)] == [reason] * 3
    log = [{**row, "status": status} for row in log]
    lake.create("unfit_log", LOG, log)
    project.dbt(*run)
    assert [row["reject_reason"] for row in lake.rows(staged)] == [reason] * 3
    declare("bigint")
    lake.create("unfit_log", LOG, log)
    project.dbt(*run)
    whole, *moved = lake.rows(staged)
    assert whole["after"] == {"idu": 3_000_000_000, **values}
    assert (whole["operation"], whole["reject_reason"]) == ("insert", None)
    assert whole["source_rows"] == 3
    reason = "moved: it is part of 00000000000000000001-idu=3000000000"
    assert [(row["reject_reason"], row["source_rows"]) for row in moved] == [(reason, 0)] * 2


@pytest.mark.minutes
def test_a_change_that_has_moved_leaves_no_version(project: Project, lake: Lake) -> None:
    """The history removes the version of a change that is now part of another one."""
    log_runs = LogRuns("moved", project, lake, base="none")
    name = at(9, 2, 2, "fname", new_value="John")
    assert log_runs.run([name]) == [("John", 9, None, None)]
    assert log_runs.run([at(9, 1, 2, "lname", new_value="Frost"), name]) == [
        ("John", 9, None, None)
    ]
    versions = lake.rows(f"select lname, valid_from_seq from {SCHEMA}.moved_history")
    assert [tuple(row.values()) for row in versions] == [("Frost", f"{1:020d}")]


# --- Query-backs, and what is judged in one run -------------------------------------------------

PERSON = {"idu": "int", "fname": "string", "lname": "string"}
PERSON_COLUMNS = column_list(**PERSON)


def at(hour: int, record: int, kind: int, column: str | None = None, **values: Any) -> Row:
    """Write an event of user 1 by its hour."""
    return event(record, kind, 1, column, event_time=datetime(2026, 1, 1, hour), **values)


def processed(row: Row) -> Row:
    return {**row, "status": "S"}


class LogRuns:
    """A log of user 1, its staging model and its history, read in runs."""

    def __init__(self, name: str, project: Project, lake: Lake, **arguments: str) -> None:
        self.name, self.project, self.lake = name, project, lake
        given = {"as_of": "'2027-01-01'", "base": relation(f"{name}_base"), **arguments}
        project.stream(f"stg_{name}", event_log(f"{name}_log", PERSON_COLUMNS, **given))
        project.history(f"{name}_history", f"stg_{name}", ["idu"])
        self.full = ["--full-refresh"]

    def run(self, log: list[Row], *base: Row) -> list[tuple[Any, ...]]:
        """Read the log and the base as they are now; return fname, from, to and closed_by."""
        self.lake.create(f"{self.name}_log", LOG, log)
        self.lake.create(f"{self.name}_base", PERSON, list(base))
        models = (f"stg_{self.name}", f"{self.name}_history")
        self.project.dbt("run", "--select", *models, *self.full)
        self.full = []
        return [
            tuple(row.values())
            for row in self.lake.rows(
                "select fname, hour(valid_from), hour(valid_to), closed_by"
                f" from {SCHEMA}.{self.name}_history order by version"
            )
        ]

    def reject_reasons(self) -> dict[int, str | None]:
        """Return the reject reason of each change, by its record."""
        rows = self.lake.rows(f"select change_id, reject_reason from {SCHEMA}.stg_{self.name}")
        return {int(row["change_id"][:20]): row["reject_reason"] for row in rows}


@pytest.mark.minutes
@pytest.mark.parametrize("kind", [6, 8])
def test_a_query_back_of_a_deleted_row_overrules_nothing(
    kind: int, project: Project, lake: Lake
) -> None:
    log = [
        at(8, 1, 1, "fname", new_value="A"),
        at(8, 2, 1, "lname", new_value="L"),
        at(9, 3, 2, "fname", old_value="A", new_value="B"),
        at(10, 4, kind, "fname" if kind == 8 else None),
    ]
    life = [("A", 8, 9, "update"), ("B", 9, 11, "delete")]
    deleted = LogRuns(f"deleted_{kind}", project, lake)
    assert deleted.run([*log, at(11, 5, 4)]) == life
    assert deleted.reject_reasons() == {
        1: None,
        3: None,
        4: "row gone: deleted by record 5",
        5: None,
    }
    # The same of a row that came to be again: the delete parts the two lives.
    deleted.full = ["--full-refresh"]
    assert deleted.run([*log, at(11, 5, 4), at(12, 6, 5)], {"idu": 1, "fname": "C"}) == [
        *life,
        ("C", 12, None, None),
    ]
    # No delete was logged, but the row is not there.
    absent = LogRuns(f"absent_{kind}", project, lake)
    assert absent.run(log, {"idu": 2}) == [("A", 8, 9, "update"), ("B", 9, None, None)]
    assert absent.reject_reasons() == {1: None, 3: None, 4: "row gone: it is not in `base`"}


@pytest.mark.minutes
@pytest.mark.parametrize("mark", ["processed", "pending", "gone"])
def test_an_event_of_an_earlier_run_overrules_nothing(
    mark: str, project: Project, lake: Lake
) -> None:
    first = at(9, 1, 5)
    log_runs = LogRuns(f"earlier_{mark}", project, lake)
    assert log_runs.run([first], {"idu": 1, "fname": "Jack"}) == [("Jack", 9, None, None)]
    left = {"processed": [processed(first)], "pending": [first], "gone": []}[mark]
    later = at(12, 2, 2, "fname", old_value="Jack", new_value="John")
    assert log_runs.run([*left, later], {"idu": 1, "fname": "John"}) == [
        ("Jack", 9, 12, "update"),
        ("John", 12, None, None),
    ]
    assert log_runs.reject_reasons() == {1: None, 2: None}


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("kind", "mark"), [(6, "processed"), (8, "processed"), (6, "pending"), (8, "gone")]
)
def test_an_event_of_an_earlier_run_is_not_overruled(
    kind: int, mark: str, project: Project, lake: Lake
) -> None:
    taken_in = [
        at(8, 1, 1, "fname", new_value="A"),
        at(8, 2, 1, "lname", new_value="L"),
        at(9, 3, 2, "fname", old_value="A", new_value="B"),
    ]
    log_runs = LogRuns(f"later_{kind}_{mark}", project, lake)
    present = {"idu": 1, "fname": "B", "lname": "L"}
    assert log_runs.run(taken_in, present) == [("A", 8, 9, "update"), ("B", 9, None, None)]
    left = {"processed": list(map(processed, taken_in)), "pending": taken_in, "gone": []}[mark]
    query_back = at(10, 4, kind, "fname" if kind == 8 else None)
    assert log_runs.run([*left, query_back], {**present, "fname": "C"}) == [
        ("A", 8, 9, "update"),
        ("B", 9, 10, "update"),
        ("C", 10, None, None),
    ]
    assert log_runs.reject_reasons() == {1: None, 3: None, 4: None}


@pytest.mark.minutes
@pytest.mark.parametrize(("first", "last"), [(5, 2), (5, 8), (8, 2)])
def test_what_was_taken_in_behind_a_query_back_has_not_the_last_word(
    first: int, last: int, project: Project, lake: Lake
) -> None:
    """The query-back and the last event count only once `statuses` is edited."""
    log = [
        at(9, 1, first, "fname" if first == 8 else None, status="S"),
        at(12, 5, 2, "fname", old_value="Jack", new_value="John"),
        at(15, 9, last, "fname", old_value="John", new_value="Jim", status="S"),
    ]
    name = f"between_{first}_{last}"
    present = {"idu": 1, "fname": "Jim"}
    assert LogRuns(name, project, lake).run(log, present) == [("John", 12, None, None)]
    log_runs = LogRuns(name, project, lake, statuses="['N', 'S']")
    log_runs.full = []
    assert log_runs.run(log, present) == [
        ("Jim", 9, 12, "update"),
        ("John", 12, 15, "update"),
        ("Jim", 15, None, None),
    ]
    assert log_runs.reject_reasons() == {1: None, 5: None, 9: None}


@pytest.mark.minutes
@pytest.mark.parametrize(("first", "of"), [(5, "row"), (8, "field")])
def test_what_is_taken_in_late_before_an_overruled_event_has_not_the_last_word(
    first: int, of: str, project: Project, lake: Lake
) -> None:
    """The query-back has read the value of now, which is newer than both."""
    log = [
        at(9, 1, first, "fname" if first == 8 else None),
        at(12, 5, 2, "fname", old_value="Jack", new_value="John", status="S"),
        at(15, 9, 2, "fname", old_value="John", new_value="Jim"),
    ]
    name = f"before_{first}"
    present = {"idu": 1, "fname": "Jim"}
    assert LogRuns(name, project, lake).run(log, present) == [("Jim", 9, None, None)]
    log_runs = LogRuns(name, project, lake, statuses="['N', 'S']")
    log_runs.full = []
    assert log_runs.run(log, present) == [("Jim", 9, None, None)]
    overruled = f"overruled: by the query-back of the {of}, record 1"
    assert log_runs.reject_reasons() == {1: None, 5: overruled, 9: overruled}


@pytest.mark.minutes
def test_a_query_back_overrules_nothing_of_the_life_behind_a_delete_that_came_late(
    project: Project, lake: Lake
) -> None:
    log = [
        at(9, 1, 6),
        at(10, 3, 4, status="S"),
        at(11, 4, 1, "fname", new_value="Jack", status="S"),
        at(12, 5, 2, "fname", old_value="Jack", new_value="John"),
    ]
    present = {"idu": 1, "fname": "John"}
    assert LogRuns("two_lives", project, lake).run(log, present) == [("John", 9, None, None)]
    log_runs = LogRuns("two_lives", project, lake, statuses="['N', 'S']")
    log_runs.full = []
    # What an earlier run has overruled stays so, but the row is there.
    assert log_runs.run(log, present) == [("John", 9, 10, "delete"), ("Jack", 11, None, None)]
    overruled = "overruled: by the query-back of the row, record 1"
    assert log_runs.reject_reasons() == {1: None, 3: None, 4: None, 5: overruled}


@pytest.mark.slow
def test_an_event_stays_in_its_change_when_the_driver_deletes_the_others(
    project: Project, lake: Lake
) -> None:
    names = [at(8, 1, 1, "fname", new_value="A"), at(8, 2, 1, "lname", new_value="L")]
    log_runs = LogRuns("halved", project, lake)
    log_runs.run(names)
    assert log_runs.run([names[1], at(9, 3, 3, "fname", new_value="B")]) == [
        ("A", 8, 9, "update"),
        ("B", 9, None, None),
    ]
    assert log_runs.reject_reasons() == {1: None, 3: None}


@pytest.mark.slow
@pytest.mark.parametrize("precedence", ["driver", "logged"])
def test_precedence_says_whether_logged_values_count(
    precedence: str, project: Project, lake: Lake
) -> None:
    log = [
        at(9, 1, 5),
        at(12, 2, 2, "fname", old_value="Jack", new_value="John"),
        at(15, 3, 2, "fname", old_value="John", new_value="Jim"),
    ]
    log_runs = LogRuns(f"by_{precedence}", project, lake, precedence=repr(precedence))
    assert (
        log_runs.run(log, {"idu": 1, "fname": "Jim"})
        == {
            "driver": [("Jim", 9, None, None)],
            "logged": [
                ("Jack", 9, 12, "update"),
                ("John", 12, 15, "update"),
                ("Jim", 15, None, None),
            ],
        }[precedence]
    )


@pytest.mark.slow
def test_a_query_back_gives_values_that_no_event_has(project: Project, lake: Lake) -> None:
    """Each query-back, the first event after it, and the value that it reads."""
    log = [
        event(1, 6, 1),  # type 2: its old value, NULL too
        event(2, 2, 1, "fname", old_value="x", new_value="y"),
        event(3, 2, 1, "lname", old_value=None, new_value="y"),
        event(4, 6, 2),  # type 3: the old value, where it has one
        event(5, 3, 2, "fname", old_value="x", new_value="y"),
        event(6, 3, 2, "lname", new_value="y"),
        event(7, 5, 3),  # type 1 does not say
        event(8, 1, 3, "fname", new_value="y"),
        event(9, 8, 4, "fname"),  # earlier events and other fields do not count
        event(10, 2, 4, "lname", old_value="x", new_value="y"),
        event(11, 2, 5, "fname", old_value="x", new_value="y"),
        event(12, 7, 5, "fname"),
        event(13, 8, 6, "fname"),  # of several fields, each by its own
        event(14, 8, 6, "lname"),
        event(15, 2, 6, "lname", old_value="x", new_value="y"),
        event(16, 8, 7, "fname"),  # a delete ends what is about this row
        event(17, 4, 7),
        event(18, 2, 7, "fname", old_value="x", new_value="y"),
        event(19, 8, 8, "fname"),  # what is no event says nothing
        event(20, 2, 8, "fname", old_value="x", new_value="y", status="E"),
    ]
    lake.create("unsaid_log", LOG, log)
    present = [{"idu": n, "fname": f"f{n}", "lname": f"l{n}"} for n in range(1, 9)]
    lake.create("unsaid_base", PERSON, present)
    # A run with `--empty` or `--sample` looks rows up in the whole base.
    base = emptied("unsaid_base")
    sql = project.sql(event_log("unsaid_log", PERSON_COLUMNS, base=base, precedence="'logged'"))
    rows = lake.rows(
        "select int(left(change_id, 20)) as record, after.fname, after.lname, absent_columns,"
        f" reject_reason from ({sql})"
    )
    found = {row.pop("record"): tuple(row.values()) for row in rows}
    assert {n: found[n] for n in (1, 4, 7, 9, 12, 13, 16, 19)} == {
        1: ("x", None, None, None),
        4: ("x", None, ["lname"], None),
        7: (None, "l3", ["fname"], None),
        9: ("f4", None, ["lname"], None),
        12: ("f5", None, ["lname"], None),
        13: ("f6", "x", None, None),
        16: (None, None, ["lname"], "row gone: deleted by record 17"),
        19: ("f8", None, ["lname"], None),
    }
    assert found[11][3] is None


def moment(microsecond: int) -> datetime:
    return NOON + timedelta(microseconds=microsecond)


@pytest.mark.slow
def test_an_insert_whose_fields_have_times_of_their_own(project: Project, lake: Lake) -> None:
    """Table 5-16 of the manual, by triggers that read the clock for each row of the log."""
    rows = [
        {**row, "event_time": moment(n)} for n, row in enumerate(of_fields(1, 1, None), start=1)
    ]
    project.stream("stg_apart", event_log("apart_log", USR))
    project.history("apart_history", "stg_apart", ["idu"])
    lake.create("apart_log", LOG, rows)
    run = ("run", "--full-refresh", "--select", "stg_apart", "apart_history")
    project.dbt(*run)
    versions = f"""
        select fname, lname, hex(photo) as photo, valid_from, valid_to, operation
        from {SCHEMA}.apart_history order by version
    """
    assert [tuple(row.values()) for row in lake.rows(versions)] == [
        ("Jack", None, None, moment(1), moment(2), "insert"),
        ("Jack", "Frost", None, moment(2), moment(3), "insert"),
        ("Jack", "Frost", "AAAA", moment(3), None, "insert"),
    ]
    # The remedy of the docs: times of whole seconds.
    lake.create("apart_log", LOG, [{**row, "event_time": NOON} for row in rows])
    project.dbt(*run)
    assert [tuple(row.values()) for row in lake.rows(versions)] == [
        ("Jack", "Frost", "AAAA", NOON, None, "insert")
    ]


@pytest.mark.parametrize(("future_events", "last"), [("false", "third"), ("true", "second")])
def test_of_inserts_of_one_field_the_last_in_order_wins(
    future_events: str, last: str, project: Project, lake: Lake
) -> None:
    log = [
        event(1, 1, 1, "fname", new_value="first", event_time=moment(1)),
        event(2, 1, 1, "fname", new_value="second", event_time=moment(3)),
        event(3, 1, 1, "fname", new_value="third", event_time=moment(2)),
    ]
    lake.create("close_log", LOG, log)
    arguments = {"future_events": future_events, "as_of": "'2027-01-01'"}
    sql = project.sql(event_log("close_log", PERSON_COLUMNS, **arguments))
    rows = lake.rows(
        "select reject_reason, source_rows, operation, after.fname"
        f" from ({sql}) order by change_seq"
    )
    assert [tuple(row.values())[:3] for row in rows] == [(None, 1, "insert")] * 3
    assert {row["fname"] for row in rows} == {"first", "second", "third"}
    assert rows[-1]["fname"] == last


def test_a_delete_is_not_overruled_by_the_query_back_of_an_insert(
    project: Project, lake: Lake
) -> None:
    """A query-back beats its counterpart; a delete has none, and the order alone decides."""
    log = [
        *(event(1, 4, 1), event(2, 5, 1)),  # deleted and inserted again
        *(event(3, 5, 2), event(4, 4, 2)),  # inserted and deleted
        *(event(5, 4, 3), event(6, 5, 3)),  # as 1, but gone since then, without an event
        *(event(7, 5, 4), event(8, 4, 4)),  # as 2, but the base has the row
        *(event(9, 5, 5), event(9, 4, 5)),  # of one record
        *(event(10, 4, 6, event_time=moment(2)), event(11, 5, 6, event_time=moment(1))),
    ]
    lake.create("four_log", LOG, log)
    lake.create("four_base", PERSON, [{"idu": n, "fname": f"f{n}"} for n in (1, 4, 6)])
    arguments = {"base": relation("four_base"), "as_of": "'2027-01-01'"}

    def judged(**more: str) -> list[tuple[Any, ...]]:
        sql = project.sql(event_log("four_log", PERSON_COLUMNS, **arguments, **more))
        rows = lake.rows(
            "select int(right(change_id, 1)) as idu, operation, after.fname, reject_reason"
            f" from ({sql}) order by idu, change_seq"
        )
        return [tuple(row.values()) for row in rows]

    expected = [
        (1, "delete", None, None),
        (1, "insert", "f1", None),
        (2, "insert", None, "row gone: deleted by record 4"),
        (2, "delete", None, None),
        (3, "delete", None, None),
        (3, "insert", None, "row gone: it is not in `base`"),
        (4, "insert", None, "row gone: deleted by record 8"),
        (4, "delete", None, None),
        (5, "insert", None, "row gone: deleted by record 9"),
        (5, "delete", None, None),
    ]
    by_record = [(6, "delete", None, None), (6, "insert", "f6", None)]
    by_time = [(6, "insert", None, "row gone: deleted by record 10"), (6, "delete", None, None)]
    assert judged() == expected + by_record
    assert judged(future_events="true") == expected + by_time


# --- Rows of no table, and local time -----------------------------------------------------------


def test_rows_without_a_table_name_are_accounted_for(project: Project, lake: Lake) -> None:
    good = event(1, 1, 1, "fname", new_value="x")
    log = [
        good,
        event(2, 1, 1, "fname", new_value="y", table_name=None),
        event(3, 1, 1, "fname", new_value="y", table_name="  "),
        {**good, "table_name": None},  # a copy, but for the name
        event(4, 1, 1, "fname", new_value="z", table_name="other"),
    ]
    lake.create("nameless_log", LOG, log)
    sql = project.sql(event_log("nameless_log", PERSON_COLUMNS))
    rows = lake.rows(
        f"select change_id, after.fname, reject_reason, source_rows from ({sql}) order by change_id"
    )
    assert [tuple(row.values())[1:] for row in rows] == [
        ("x", None, 1),
        ("x", "no table_name: NULL", 1),
        ("y", "no table_name: NULL", 1),
        ("y", 'no table_name: "  "', 1),
    ]
    assert len({row["change_id"] for row in rows}) == 4
    assert rows[0]["change_id"] == "00000000000000000001-idu=1"


@pytest.mark.minutes
def test_a_row_without_a_table_name_is_once_in_a_model_of_two_tables(
    project: Project, lake: Lake
) -> None:
    """Twice, it would stop each run that meets it again: two rows with one change_id."""
    call = event_log("two_tables_log", PERSON_COLUMNS)
    calls = [call, call.replace("'usr'", "'grp'")]
    parts = [f"select * from ({{{{ {call} }}}})" for call in calls]
    project.model("stg_two_tables", " union all ".join(parts), materialized="change_stream")
    run = ("run", "--select", "stg_two_tables")
    changes = f"""
        select after.idu, after.fname, reject_reason, source_rows from {SCHEMA}.stg_two_tables
        order by change_id
    """
    nameless = "no table_name: NULL"

    def found() -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in lake.rows(changes)]

    log = [
        event(1, 1, 1, "fname", new_value="a"),
        event(2, 1, 1, "fname", new_value="b", table_name=None),
        event(3, 1, 2, "fname", new_value="c", table_name="grp"),
    ]
    lake.create("two_tables_log", LOG, log)
    project.dbt(*run, "--full-refresh")
    expected = [(1, "a", None, 1), (1, "b", nameless, 1), (2, "c", None, 1)]
    assert found() == expected
    later = [
        event(4, 2, 1, "fname", new_value="d"),
        event(5, 2, 2, "fname", new_value="e", table_name="grp"),
        event(6, 1, 2, "fname", new_value="f", table_name="  "),
    ]
    lake.append("two_tables_log", LOG, later)
    project.dbt(*run)
    expected += [(1, "d", None, 1), (2, "e", None, 1), (2, "f", 'no table_name: "  "', 1)]
    assert found() == expected
    lake.append("two_tables_log", LOG, [event(7, 2, 2, "fname", new_value="g", table_name="grp")])
    project.dbt(*run)
    expected.append((2, "g", None, 1))
    assert found() == expected
    project.dbt(*run, "--full-refresh")
    assert found() == expected


@pytest.mark.slow
def test_a_log_in_local_time(project: Project, lake: Lake) -> None:
    """Berlin is an hour ahead of UTC in winter: what is due there at 13:30 is due at 12:30."""
    lake.create(
        "local_log",
        LOG,
        [
            event(1, 1, 1, "fname", new_value="x", event_time=datetime(2026, 1, 1, 13, 30)),
            event(2, 1, 2, "fname", new_value="x", event_time=datetime(2026, 7, 1, 14, 31)),
        ],
    )
    arguments = {"time_zone": "'Europe/Berlin'", "future_events": "true"}
    due = {"'2026-01-01 12:29:00'": 0, "'2026-01-01 12:30:00'": 1, "'2026-07-01 12:31:00'": 2}
    for as_of, expected in due.items():
        sql = project.sql(event_log("local_log", PERSON_COLUMNS, **arguments, as_of=as_of))
        rows = lake.rows(f"select * from ({sql}) order by change_seq")
        assert sum(row["reject_reason"] is None for row in rows) == expected
    assert [row["changed_at"] for row in rows] == [
        datetime(2026, 1, 1, 12, 30),
        datetime(2026, 7, 1, 12, 31),
    ]


def test_a_change_names_the_user_of_its_first_event(project: Project, lake: Lake) -> None:
    lake.create(
        "signed_log",
        LOG,
        [
            event(2, 1, 1, "lname", new_value="y", perpetrator="BEN"),
            event(1, 1, 1, "fname", new_value="x", perpetrator="ANN"),
            event(3, 4, 1, perpetrator=" "),
            event(4, 1, 2, "fname", new_value="x", perpetrator=None),
            event(5, 9, 2, perpetrator="EVE"),
        ],
    )
    sql = project.sql(event_log("signed_log", PERSON_COLUMNS))
    rows = lake.rows(f"select changed_by, event_ids from ({sql}) order by change_seq")
    ids = [f"{record:020d}-idu={1 if record < 4 else 2}" for record in range(6)]
    assert [tuple(row.values()) for row in rows] == [
        ("ANN", ids[1:3]),
        (None, ids[3:4]),
        (None, ids[4:5]),
        ("EVE", ids[5:]),
    ]
