"""Rows that come again in other words, and what drivers do to their logs, in; changes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, column_list, relation
from dialect_db2 import DB2_HEADER
from dialect_netiq import LOG
from dialect_openedge import CHANGE_COLUMNS, TRACKING_COLUMNS
from dialect_sqlserver import HEADER as SQLSERVER_HEADER
from ends import ENDED, ended
from reference import Row

AT = datetime(2026, 1, 1, 12)
USERS = "[{'name': 'idu', 'type': '%s'}, {'name': 'fname', 'type': 'string'}]"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("other_words")


def models(project: Project, name: str, call: str) -> tuple[str, ...]:
    """Write a staging model and its history, and return the run of both."""
    project.stream(f"stg_{name}", call)
    project.history(f"{name}_history", f"stg_{name}")
    return "run", "--select", f"stg_{name}", f"{name}_history"


def captured(commit: int, intent: int, letter: str, key: Any, **values: Any) -> Row:
    """Write a row of a Db2 change table."""
    return {
        "IBMSNAP_COMMITSEQ": commit.to_bytes(16, "big"),
        "IBMSNAP_INTENTSEQ": intent.to_bytes(16, "big"),
        "IBMSNAP_OPERATION": letter,
        "id": key,
        **values,
    }


def event(record: int, kind: int, key: str, at: datetime = AT, **values: Any) -> Row:
    """Write a row of an event log."""
    return {
        "record_id": record,
        "status": "N",
        "event_type": kind,
        "event_time": at,
        "table_name": "usr",
        "table_key": f"idu={key}",
        **values,
    }


def test_a_delete_of_db2_that_comes_again_in_other_words_does_not_delete_the_new_row(
    project: Project, lake: Lake
) -> None:
    """The insert is at a later place than both copies of the delete."""
    columns = {**DB2_HEADER, "id": "int", "name": "string"}
    run = models(project, "again", f"db2_change_data({relation('again_cd')}, unique_key=['id'])")
    rows = [
        captured(1, 1, "I", 1, name="a"),
        captured(2, 2, "D", 1, name="a"),
        captured(2, 3, "I", 1, name="b"),
    ]
    lake.create("again_cd", columns, rows)
    project.dbt(*run, "--full-refresh")
    # A CHAR that is padded this time.
    lake.append("again_cd", columns, [captured(2, 2, "D", 1, name="a   ")])
    project.dbt(*run)
    found = lake.rows(f"select id, name from {SCHEMA}.again_history where is_current")
    assert found == [{"id": 1, "name": "b"}]
    # What the docs say of the further row.
    staged = lake.rows(f"select operation, warnings from {SCHEMA}.stg_again order by change_seq")
    assert [row["operation"] for row in staged] == ["insert", "delete", "update"]
    assert "another change of this key has the same change_seq" in staged[2]["warnings"]


def openedge(place: int, operation: int, key: int) -> Row:
    at = datetime(2024, 1, 1, place)
    return {"_Change-Sequence": place, "_Operation": operation, "_Time-Stamp": at, "id": key}


def qlik(place: int, letter: str, key: int) -> Row:
    return {"header__change_seq": f"{place:035d}", "header__change_oper": letter, "id": key}


def sqlserver(place: int, operation: int, key: int) -> Row:
    lsn = place.to_bytes(10, "big")
    return {"__$start_lsn": lsn, "__$seqval": lsn, "__$operation": operation, "id": key}


@pytest.mark.slow
@pytest.mark.parametrize("again", [["a   "], ["a   ", "b   "]])
def test_a_delete_of_sqlserver_that_comes_again_in_other_words_does_not_delete_the_new_row(
    again: list[str], project: Project, lake: Lake
) -> None:
    """Of an update that is written as a delete and an insert, with one key."""
    columns = {**SQLSERVER_HEADER, "id": "int", "name": "string"}
    call = f"sqlserver_change_table({relation('halves__ct')}, unique_key=['id'])"
    run = models(project, "halves", call)
    rows = [
        sqlserver(1, 2, 1) | {"name": "a"},
        sqlserver(2, 1, 1) | {"name": "a"},
        sqlserver(2, 2, 1) | {"name": "b"},
    ]
    lake.create("halves__ct", columns, rows)
    project.dbt(*run, "--full-refresh")
    copies = [
        sqlserver(2, operation, 1) | {"name": name} for operation, name in enumerate(again, 1)
    ]
    lake.append("halves__ct", columns, copies)
    for arguments in ([], ["--full-refresh"]):
        project.dbt(*run, *arguments)
        [found] = lake.rows(f"select name from {SCHEMA}.halves_history where is_current")
        assert found["name"].strip() == "b"


# Of each source that writes an update as two rows: an insert of key 1, and the update that makes it
# key 2.
MOVES: dict[str, tuple[str, dict[str, str], list[Row]]] = {
    "openedge": (
        "openedge_change_table",
        CHANGE_COLUMNS,
        [openedge(1, 1, 1), openedge(2, 3, 1), openedge(2, 4, 2)],
    ),
    "qlik": (
        "qlik_change_table",
        {"header__change_seq": "string", "header__change_oper": "string"},
        [qlik(1, "I", 1), qlik(2, "B", 1), qlik(2, "U", 2)],
    ),
    "sqlserver": (
        "sqlserver_change_table",
        SQLSERVER_HEADER,
        [sqlserver(1, 2, 1), sqlserver(2, 3, 1), sqlserver(2, 4, 2)],
    ),
}


@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.parametrize("source", MOVES)
def test_a_row_that_comes_again_in_other_words_parts_no_key_change(
    source: str, again: int, project: Project, lake: Lake
) -> None:
    """The rows before the update (or those after it) have one key, so what changed is certain."""
    macro, header, rows = MOVES[source]
    columns = {**header, "id": "int", "name": "string"}
    rows = [{**row, "name": "a"} for row in rows]
    run = models(project, "moved", f"{macro}({relation('moved')}, unique_key=['id'])")
    lake.create("moved", columns, rows)
    project.dbt(*run, "--full-refresh")
    current = f"select id from {SCHEMA}.moved_history where is_current order by 1"
    assert lake.rows(current) == [{"id": 2}]
    lake.append("moved", columns, [{**rows[again], "name": "a "}])
    project.dbt(*run)
    assert lake.rows(current) == [{"id": 2}]


@pytest.mark.parametrize("again", [1, 2])
def test_a_row_of_db2_that_comes_again_in_other_words_parts_no_key_change(
    again: int, project: Project, lake: Lake
) -> None:
    columns = {**DB2_HEADER, "id": "int", "name": "string"}
    rows = [
        captured(1, 1, "I", 1, name="a"),
        captured(2, 2, "D", 1, name="a"),
        captured(2, 3, "I", 2, name="a"),
    ]
    run = models(
        project,
        "traded",
        f"db2_change_data({relation('traded_cd')}, unique_key=['id'], pair_key_changes=true)",
    )
    lake.create("traded_cd", columns, rows)
    project.dbt(*run, "--full-refresh")
    staged = f"select before.id as old, after.id as new from {SCHEMA}.stg_traded where operation"
    moved = f"{staged} = 'update' and before.id <> after.id"
    assert lake.rows(moved) == [{"old": 1, "new": 2}]
    lake.append("traded_cd", columns, [{**rows[again], "name": "a "}])
    project.dbt(*run)
    assert lake.rows(moved) == [{"old": 1, "new": 2}]
    assert lake.rows(f"{staged} = 'delete'") == []
    current = f"select id from {SCHEMA}.traded_history where is_current"
    assert lake.rows(current) == [{"id": 2}]


def test_a_rejected_insert_of_db2_parts_no_key_change(project: Project, lake: Lake) -> None:
    """Whatever hash it has: there are several."""
    columns = {**DB2_HEADER, "id": "int", "name": "string"}
    run = models(
        project,
        "keyless",
        f"db2_change_data({relation('keyless_cd')}, unique_key=['id'], pair_key_changes=true)",
    )
    rows = [
        captured(1, 1, "I", 1, name="a"),
        captured(2, 2, "D", 1, name="a"),
        captured(2, 3, "I", 2, name="a"),
        *(captured(2, intent, "I", None, name=f"n{intent}") for intent in range(4, 9)),
    ]
    lake.create("keyless_cd", columns, rows)
    project.dbt(*run, "--full-refresh")
    current = f"select id from {SCHEMA}.keyless_history where is_current"
    assert lake.rows(current) == [{"id": 2}]


def test_a_first_part_that_was_a_change_in_two_forms_counts_once_when_the_second_lands(
    project: Project, lake: Lake
) -> None:
    """Alone, nothing tells that a row without a position is half a record."""
    columns = {**CHANGE_COLUMNS, "id": "int", "note": "string", "price": "int"}
    header = {"_Change-Sequence": 7, "_Operation": 1}
    first = {**header, "_Continuation-Position": 0, "_Fragment": 0, "id": 7, "note": "A tent; for"}
    second = {**header, "_Continuation-Position": 2, "_Fragment": 1, "note": " two", "price": 9}
    run = models(
        project, "halves", f"openedge_change_table({relation('halves_cdc')}, unique_key=['id'])"
    )
    lake.create("halves_cdc", columns, [first])
    project.dbt(*run, "--full-refresh")
    for rows in [{**first, "note": "A tent; for  "}], [second]:
        lake.append("halves_cdc", columns, rows)
        project.dbt(*run)
    current = f"select trim(note) as note, price from {SCHEMA}.halves_history where is_current"
    staged = (
        "select change_id, change_seq, `after`, `before`, reject_reason, source_rows, warnings"
        f" from {SCHEMA}.stg_halves order by change_id"
    )
    assert [row["price"] for row in lake.rows(current)] == [9]
    in_runs = lake.rows(staged)
    assert [(row["reject_reason"], row["source_rows"]) for row in in_runs] == [
        (None, 3),
        ("superseded: another form of this part counts", 0),
    ]
    project.dbt(*run, "--full-refresh")
    assert lake.rows(staged) == in_runs


def test_a_part_of_a_split_record_that_comes_again_in_other_words_is_no_third_part(
    project: Project, lake: Lake
) -> None:
    """Of 7 the second part comes again, padded; of 8 the first; of 9 what SQL made of both.

    Of 10 only the first part landed as such, and then what SQL made of both.
    """
    columns = {**CHANGE_COLUMNS, "id": "int", "price": "int", "note": "string"}

    def part(place: int, position: int, **values: Any) -> Row:
        fragment = {"_Continuation-Position": position, "_Fragment": min(position, 1)}
        return {"_Change-Sequence": place, "_Operation": 1, **fragment, **values}

    text = "A tent; for two people"
    places = (7, 8, 9, 10)
    first = {place: part(place, 0, id=place, price=9, note="A tent; for") for place in places}
    second = {place: part(place, 3, note=" two people") for place in places[:3]}
    whole = {place: {**first[place], **part(place, 3, note=text)} for place in places}
    run = models(
        project, "parts", f"openedge_change_table({relation('parts_cdc')}, unique_key=['id'])"
    )
    lake.create("parts_cdc", columns, [*first.values(), *second.values(), whole[10]])
    project.dbt(*run, "--full-refresh")
    staged = (
        "select change_id, trim(after.note) as note, after.price, reject_reason, source_rows"
        f" from {SCHEMA}.stg_parts order by 1"
    )
    assert [tuple(row.values())[1:] for row in lake.rows(staged)] == [(text, 9, None, 2)] * 4
    again = [{**second[7], "note": " two people  "}, {**first[8], "price": None}, whole[9]]
    lake.append("parts_cdc", columns, again)
    project.dbt(*run)
    found = [tuple(row.values()) for row in lake.rows(staged)]
    # A first part could have been a change before its second part landed.
    superseded = found.pop(2)
    assert superseded[0] == f"{8:019d}-2"
    assert superseded[3:] == ("superseded: another form of this part counts", 0)
    assert [row[0] for row in found] == [f"{place:019d}" for place in places]
    assert {row[1] for row in found} == {text}
    assert [row[3:] for row in found] == [(None, 3), (None, 3), (None, 3), (None, 2)]
    assert found[2][2] == 9
    current = lake.rows(f"select id from {SCHEMA}.parts_history where is_current order by 1")
    assert [row["id"] for row in current] == list(places)


def test_a_query_back_reads_whole_numbers_however_they_are_stored(
    project: Project, lake: Lake
) -> None:
    """Spark writes a zero of decimal(38,10) as 0E-10, and a large double as 2.0E7."""
    lake.create("whole_log", LOG, [event(key + 1, 6, str(key)) for key in range(3)])
    types = {"idu": "decimal(38,10)", "points": "decimal(38,10)", "weight": "double"}
    base = [
        {"idu": Decimal(0), "points": Decimal(5), "weight": 2.0},
        {"idu": Decimal(1), "points": Decimal(0), "weight": 1.0},
        {"idu": Decimal(2), "points": Decimal("5.5"), "weight": 2e7},
    ]
    lake.create("whole_base", types, base)
    columns = [
        {"name": name, "type": kind}
        for name, kind in (("idu", "int"), ("points", "int"), ("weight", "bigint"))
    ]
    sql = project.sql(
        f"netiq_event_log({relation('whole_log')}, unique_key=['idu'], table='usr',"
        f" columns={columns}, base={relation('whole_base')})"
    )
    found = lake.rows(f"select after, reject_reason from ({sql}) order by change_seq")
    assert [row["after"] for row in found[:2]] == [
        {"idu": 0, "points": 5, "weight": 2},
        {"idu": 1, "points": 0, "weight": 1},
    ]
    assert "present value of points is no int" in found[2]["reject_reason"]


@pytest.mark.minutes
def test_a_held_back_event_that_the_driver_has_processed_is_taken_in(
    project: Project, lake: Lake
) -> None:
    project.stream(
        "stg_held",
        f"netiq_event_log({relation('held_log')}, unique_key=['idu'], table='usr',"
        f" columns={USERS % 'int'}, future_events=true, as_of=var('now'))",
    )
    rows = [
        event(1, 1, "1", datetime(2026, 1, 1, 8), column_name="fname", new_value="A"),
        event(2, 3, "1", datetime(2026, 1, 1, 12), column_name="fname", new_value="B"),
    ]
    lake.create("held_log", LOG, rows)
    run = ("run", "--select", "stg_held", "--vars")
    project.dbt(*run, "now: '2026-01-01 10:00:00'", "--full-refresh")
    # At its time the driver publishes the event, and says so in its log.
    lake.spark.sql(f"update {SCHEMA}.held_log set status = 'S'")
    project.dbt(*run, "now: '2026-01-01 13:00:00'")
    found = lake.rows(
        f"select after.fname, reject_reason from {SCHEMA}.stg_held order by change_seq"
    )
    assert found == [
        {"fname": "A", "reject_reason": None},
        {"fname": "B", "reject_reason": None},
    ]


@pytest.mark.minutes
def test_a_copy_without_a_table_name_lets_a_query_back_keep_what_it_read(
    project: Project, lake: Lake
) -> None:
    project.stream(
        "stg_unnamed",
        f"netiq_event_log({relation('unnamed_log')}, unique_key=['idu'], table='usr',"
        f" columns={USERS % 'int'}, base={relation('unnamed_base')})",
    )
    types = {"idu": "int", "fname": "string"}
    first = event(1, 6, "1")
    lake.create("unnamed_log", LOG, [first, {**first, "table_name": None}])
    lake.create("unnamed_base", types, [{"idu": 1, "fname": "Jack"}])
    project.dbt("run", "--select", "stg_unnamed", "--full-refresh")
    names = {"column_name": "fname", "old_value": "Jack", "new_value": "John"}
    lake.append("unnamed_log", LOG, [event(2, 2, "1", datetime(2026, 1, 1, 13), **names)])
    lake.create("unnamed_base", types, [{"idu": 1, "fname": "Jim"}])
    project.dbt("run", "--select", "stg_unnamed")
    found = lake.rows(
        f"select after.fname, reject_reason from {SCHEMA}.stg_unnamed"
        " where coalesce(reject_reason, '') not like 'no table%' order by change_seq"
    )
    assert found == [
        {"fname": "Jack", "reject_reason": None},
        {"fname": "John", "reject_reason": None},
    ]


@pytest.mark.minutes
def test_an_event_that_comes_again_in_other_words_leaves_its_change_whole(
    project: Project, lake: Lake
) -> None:
    """Two query-backs are one change; then one of them lands again, with an empty user."""
    columns = [{"name": "idu", "type": "int"}]
    columns += [{"name": name, "type": "string"} for name in ("fname", "lname")]
    project.stream(
        "stg_whole",
        f"netiq_event_log({relation('whole_events')}, unique_key=['idu'], table='usr',"
        f" columns={columns}, base={relation('whole_people')})",
    )
    types = {"idu": "int", "fname": "string", "lname": "string"}
    log = [event(11, 8, "1", column_name="fname"), event(12, 8, "1", column_name="lname")]
    lake.create("whole_events", LOG, log)
    lake.create("whole_people", types, [{"idu": 1, "fname": "Jack", "lname": "Frost"}])
    project.dbt("run", "--select", "stg_whole", "--full-refresh")
    lake.append("whole_events", LOG, [{**log[0], "perpetrator": ""}])
    lake.create("whole_people", types, [{"idu": 1, "fname": "John", "lname": "Doe"}])
    project.dbt("run", "--select", "stg_whole")
    changes = lake.rows(
        "select change_id, after.fname, after.lname, size(event_ids) as events, source_rows"
        f" from {SCHEMA}.stg_whole order by change_seq"
    )
    assert changes[0] == {
        "change_id": f"{11:020d}-idu=1",
        "fname": "Jack",
        "lname": "Frost",
        "events": 2,
        "source_rows": 2,
    }
    assert sum(row["source_rows"] for row in changes) == 3
    # All of them are known now. A query-back of the row does not overrule them.
    lake.create("whole_people", types, [{"idu": 1, "fname": "Jim", "lname": "Low"}])
    lake.append("whole_events", LOG, [event(20, 6, "1", datetime(2026, 1, 2))])
    project.dbt("run", "--select", "stg_whole")
    staged = (
        "select change_id, after.fname, after.lname, size(event_ids) as events, source_rows"
        f" from {SCHEMA}.stg_whole order by change_seq"
    )
    assert lake.rows(staged)[: len(changes)] == changes


@pytest.mark.minutes
@pytest.mark.parametrize("first", [["fname"], ["fname", "lname"]])
def test_an_event_of_another_column_with_a_known_record_id_is_an_event_of_its_own(
    first: list[str], project: Project, lake: Lake
) -> None:
    columns = [{"name": "idu", "type": "int"}]
    columns += [{"name": name, "type": "string"} for name in ("fname", "lname")]
    project.stream(
        "stg_twice",
        f"netiq_event_log({relation('twice_events')}, unique_key=['idu'], table='usr',"
        f" columns={columns}, base={relation('twice_people')})",
    )
    types = {"idu": "int", "fname": "string", "lname": "string"}
    at = datetime(2026, 1, 1)
    log = [event(10 + place, 8, "1", at, column_name=name) for place, name in enumerate(first)]
    lake.create("twice_events", LOG, log)
    lake.create("twice_people", types, [{"idu": 1, "fname": "Jack", "lname": "Frost"}])
    project.dbt("run", "--select", "stg_twice", "--full-refresh")
    lake.append("twice_events", LOG, [event(10, 8, "1", at, column_name="lname")])
    project.dbt("run", "--select", "stg_twice")
    [found] = lake.rows(
        "select max(after.fname) as fname, max(after.lname) as lname, sum(source_rows) as n"
        f" from {SCHEMA}.stg_twice where reject_reason is null"
    )
    assert found == {"fname": "Jack", "lname": "Frost", "n": len(first) + 1}


@pytest.mark.minutes
@pytest.mark.parametrize(
    "is_interrupted", [False, pytest.param(True, marks=pytest.mark.needs("iceberg"))]
)
def test_a_query_back_kept_from_before_a_new_column_knows_nothing_of_it(
    is_interrupted: bool, project: Project, lake: Lake
) -> None:
    """And one whose value did not fit is read again after the type has widened.

    A run that is killed may have altered the table, and no more.
    """

    def declare(age: str, further: list[str]) -> None:
        columns = [{"name": "idu", "type": "int"}, {"name": "age", "type": age}]
        columns += [{"name": name, "type": "string"} for name in ["fname", *further]]
        project.stream(
            "stg_dept",
            f"netiq_event_log({relation('dept_log')}, unique_key=['idu'], table='usr',"
            f" columns={columns}, base={relation('dept_base')})",
            on_schema_change="append_new_columns",
        )

    log = [
        event(1, 1, "1", column_name="dept", new_value="A"),
        event(2, 8, "1", datetime(2026, 1, 1, 13), column_name="fname"),
        event(3, 6, "2"),
    ]
    lake.create("dept_log", LOG, log)
    types = {"idu": "int", "age": "bigint", "fname": "string", "dept": "string"}
    base: list[Row] = [{"idu": 1, "fname": "Jack"}, {"idu": 2, "age": 3_000_000_000}]
    lake.create("dept_base", types, base)
    project.history("dept_history", "stg_dept", ["idu"])
    run = ("run", "--select", "stg_dept", "dept_history")
    declare("int", [])
    project.dbt(*run, "--full-refresh")
    declare("bigint", ["dept"])
    if is_interrupted:
        table = f"alter table {SCHEMA}.stg_dept"
        lake.spark.sql(f"{table} set tblproperties ('write.merge.mode' = 'none')")
        with pytest.raises(DbtError):
            project.dbt("run", "--select", "stg_dept")
        lake.spark.sql(f"{table} unset tblproperties ('write.merge.mode')")
    project.dbt(*run)
    staged = (
        "select idu, fname, dept, age, absent_columns, reject_reason from"
        f" (select after.*, absent_columns, reject_reason from {SCHEMA}.stg_dept) order by 1, 2"
    )
    in_runs = lake.rows(staged)
    current = f"select fname, dept from {SCHEMA}.dept_history where is_current and idu = 1"
    assert lake.rows(current) == [{"fname": "Jack", "dept": "A"}]
    assert [row["age"] for row in in_runs if row["idu"] == 2] == [3_000_000_000]
    project.dbt(*run, "--full-refresh")
    assert lake.rows(staged) == in_runs


@pytest.mark.slow
def test_a_query_back_that_was_read_with_a_new_column_keeps_it(
    project: Project, lake: Lake
) -> None:
    """Though the run that added the column was killed after it had written its changes."""

    def declare(further: list[str]) -> None:
        columns = column_list(idu="int", **dict.fromkeys(["fname", *further], "string"))
        project.stream(
            "stg_late",
            f"netiq_event_log({relation('late_log')}, unique_key=['idu'], table='usr',"
            f" columns={columns}, base={relation('late_base')})",
            on_schema_change="append_new_columns",
        )

    def found() -> list[Row]:
        return lake.rows(
            "select after.*, absent_columns from"
            f" (select * from {SCHEMA}.stg_late order by change_seq)"
        )

    types = {"idu": "int", "fname": "string", "dept": "string", "room": "string"}
    one, two = ({"idu": key, "fname": "Jack", "dept": "A", "room": "7"} for key in (1, 2))
    lake.create("late_log", LOG, [event(1, 6, "1")])
    lake.create("late_base", types, [one])
    declare([])
    project.dbt("run", "--select", "stg_late", "--full-refresh")
    declare(["dept"])
    lake.append("late_log", LOG, [event(2, 6, "2")])
    lake.append("late_base", types, [two])
    with (
        ended(lambda sql: "merge into" in sql.lower(), after=True) as sent,
        pytest.raises(DbtError),
    ):
        project.dbt("run", "--select", "stg_late")
    assert sent[-1] == ENDED
    first = {"idu": 1, "fname": "Jack", "dept": None, "absent_columns": ["dept"]}
    second = {"idu": 2, "fname": "Jack", "dept": "A", "absent_columns": None}
    assert found() == [first, second]
    project.dbt("run", "--select", "stg_late")
    assert found() == [first, second]
    # The next column is one that both were read without.
    declare(["dept", "room"])
    project.dbt("run", "--select", "stg_late")
    assert found() == [
        {**first, "room": None, "absent_columns": ["dept", "room"]},
        {**second, "room": None, "absent_columns": ["room"]},
    ]


@pytest.mark.minutes
def test_a_look_back_compares_times_of_one_clock(project: Project, lake: Lake) -> None:
    """A view does not tell what has landed. New York is four hours behind UTC in summer."""
    table, view = "spark_catalog.default.seen_ccd", "spark_catalog.default.seen_ccd_view"
    lake.spark.sql(f"drop view if exists {view}")
    lake.spark.sql(f"drop table if exists {table}")
    lake.spark.sql(
        f"create table {table} (IBMSNAP_COMMITSEQ binary, IBMSNAP_INTENTSEQ binary,"
        " IBMSNAP_OPERATION string, IBMSNAP_LOGMARKER timestamp, id int) using parquet"
    )
    lake.spark.sql(f"create view {view} as select * from {table}")

    def land(number: int, at: str) -> None:
        place = f"X'{number:032x}'"
        lake.spark.sql(
            f"insert into {table} values ({place}, {place}, 'I', timestamp '{at}', {number})"
        )

    project.stream(
        "stg_seen",
        f"db2_change_data({relation('seen_ccd_view', 'spark_catalog.default')},"
        " unique_key=['id'], time_zone='America/New_York')",
    )
    run = ("run", "--select", "stg_seen", "--vars", "afterimage_lookback_hours: 2")
    land(1, "2024-06-01 08:00:00")
    project.dbt(*run, "--full-refresh")
    land(2, "2024-06-01 09:00:00")
    project.dbt(*run)
    found = lake.rows(f"select after.id from {SCHEMA}.stg_seen order by 1")
    lake.spark.sql(f"drop view {view}")
    lake.spark.sql(f"drop table {table}")
    assert [row["id"] for row in found] == [1, 2]


def test_texts_that_are_no_utf8_fail_no_run(project: Project, lake: Lake) -> None:
    """Latin-1 that a landing wrote as text: a key, a field map, a mask, and two keys Ä and Ö."""
    lake.create("bytes_log", LOG, [event(1, 1, "1", column_name="fname", new_value="A")])
    lake.append("bytes_log", LOG, [event(2, 1, "1", column_name="fname", new_value="A")])
    key = "cast(X'6964753DC4' as string)"
    lake.spark.sql(f"update {SCHEMA}.bytes_log set table_key = {key} where record_id = 2")
    sql = project.sql(
        f"netiq_event_log({relation('bytes_log')}, unique_key=['idu'], table='usr',"
        f" columns={USERS % 'string'})"
    )
    reasons = [
        row["reject_reason"] for row in lake.rows(f"select * from ({sql}) order by change_seq")
    ]
    assert [reason is None for reason in reasons] == [True, False]

    columns = {**CHANGE_COLUMNS, "id": "int"}
    row = {"_Change-Sequence": 1, "_Operation": 4, "_Time-Stamp": AT}
    lake.create("bytes_cdc", columns, [{**row, "id": 1}])
    lake.create("bytes_tracking", TRACKING_COLUMNS, [{**row, "_Source-Table-Number": 12}])
    lake.spark.sql(f"update {SCHEMA}.bytes_tracking set `_Change-FieldMap` = cast(X'C4' as string)")
    sql = project.sql(
        f"openedge_change_table({relation('bytes_cdc')}, unique_key=['id'],"
        f" tracking={relation('bytes_tracking')}, source_table_number=12)"
    )
    [found] = lake.rows(sql)
    assert "the field map has what is no field" in str(found["warnings"])

    raw = f"{SCHEMA}.bytes_ct"
    lake.spark.sql(
        f"create or replace table {raw} using {FORMAT} as select"
        f" '{'2' * 35}' as header__change_seq, cast(X'C4' as string) as header__change_mask,"
        " 'U' as header__change_oper, 'x' as header__stream_position,"
        " 'UPDATE' as header__operation, 't' as header__transaction_id,"
        " timestamp '2024-01-01' as header__timestamp, 1 as id"
    )
    call = f"qlik_change_table({relation('bytes_ct')}, unique_key=['id'])"
    sql = project.sql(call)
    [found] = lake.rows(sql)
    assert "change_mask cannot be decoded" in found["reject_reason"]

    raw = f"{SCHEMA}.bytes_ccd"
    lake.spark.sql(
        f"create or replace table {raw} using {FORMAT} as select"
        " cast(null as binary) as IBMSNAP_COMMITSEQ, cast(null as binary) as IBMSNAP_INTENTSEQ,"
        " 'I' as IBMSNAP_OPERATION, cast(null as timestamp) as IBMSNAP_LOGMARKER,"
        " cast(key as string) as id from values (X'C4'), (X'D6') as landed(key)"
    )
    sql = project.sql(f"db2_change_data({relation('bytes_ccd')}, unique_key=['id'])")
    rows = lake.rows(f"select hex(after.id) as id, reject_reason from ({sql}) order by 1")
    assert rows == [{"id": "C4", "reject_reason": None}, {"id": "D6", "reject_reason": None}]


def test_a_count_is_no_time(project: Project, lake: Lake) -> None:
    """Microseconds since 1970 are not seconds, and a number is not a date."""
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "bigint", "id": "int"}
    rows = [
        captured(number, 1, "I", number, IBMSNAP_LOGMARKER=at)
        for number, at in ((1, 1704096000000000), (2, 20240101))
    ]
    lake.create("count_ccd", columns, rows)
    sql = project.sql(f"db2_change_data({relation('count_ccd')}, unique_key=['id'])")
    assert [row["changed_at"] for row in lake.rows(sql)] == [None, None]
    row = event(1, 1, "1", column_name="fname", new_value="A") | {"event_time": 1704096000000}
    lake.create("count_log", {**LOG, "event_time": "bigint"}, [row])
    sql = project.sql(
        f"netiq_event_log({relation('count_log')}, unique_key=['idu'], table='usr',"
        f" columns={USERS % 'int'})"
    )
    [found] = lake.rows(sql)
    assert found["reject_reason"] == 'event_time is no time: "1704096000000"'
