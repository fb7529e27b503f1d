"""Rows that land twice or without their place, in two runs: none is lost, none is stored twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, column_list, relation
from deliveries import count_rows, run_in_batches
from dialect_db2 import DB2_HEADER, DB2_UOW
from dialect_openedge import CHANGE_COLUMNS, TRACKING_COLUMNS
from dialect_sqlserver import HEADER, LSN_TIMES
from reference import Row

SEQ = "20240229235959990000000000000000101"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("rows_read_again")


def in_two_runs(
    project: Project, lake: Lake, call: str, columns: dict[str, str], batches: list[list[Row]]
) -> list[Row]:
    """Stage `again`, the landing, and see that a full refresh gives what two runs give."""
    project.stream("read_again", call)
    landed = [{"again": (columns, rows)} for rows in batches]
    found = run_in_batches(project, lake, ["read_again"], landed)[-1]["read_again"]
    project.dbt("run", "--select", "read_again", "--full-refresh")
    assert outline(found) == outline(lake.contents("read_again")["read_again"])
    assert count_rows(found) == sum(map(len, batches))
    return found


def message(operation: str, sequence: Any, **data: Any) -> Row:
    headers = {"operation": operation, "changeSequence": sequence}
    body = {"data": {"ID": 1, "NAME": "x", **data}, "beforeData": None, "headers": headers}
    return {"value": json.dumps({"magic": "atMSG", "type": "DT", "message": body})}


QLIK_COLUMNS = column_list(ID="int", NAME="string")
QLIK_CALL = f"qlik_messages({relation('again')}, unique_key=['ID'], columns={QLIK_COLUMNS})"


@pytest.mark.parametrize(
    ("first", "second", "changes"),
    [
        pytest.param(
            message("INSERT", int(SEQ)), message("INSERT", int(SEQ)), 1, id="a place as a number"
        ),
        pytest.param(message("REFRESH", SEQ), message("REFRESH", SEQ), 1, id="a load with a place"),
        pytest.param(
            message("REFRESH", None, changeSequence=SEQ),
            message("REFRESH", None, changeSequence=SEQ),
            1,
            id="a load with data like a place",
        ),
        pytest.param(
            message("REFRESH", SEQ),
            message("REFRESH", SEQ.replace("2024", "2025"), NAME="y"),
            2,
            id="two loads of a key with a place",
        ),
    ],
)
def test_what_looks_like_a_place_in_a_qlik_message(
    first: Row, second: Row, changes: int, project: Project, lake: Lake
) -> None:
    found = in_two_runs(project, lake, QLIK_CALL, {"value": "string"}, [[first], [second]])
    assert len(found) == changes


def outline(changes: list[Row]) -> list[tuple[Any, ...]]:
    columns = ("change_id", "after", "reject_reason", "source_rows")
    return sorted((tuple(change[name] for name in columns) for change in changes), key=repr)


def test_rows_of_zeros_without_an_operation_all_stay(project: Project, lake: Lake) -> None:
    columns = {
        "header__change_seq": "string",
        "header__change_oper": "string",
        "header__timestamp": "timestamp",
        "id": "int",
    }
    in_two_runs(
        project,
        lake,
        f"qlik_change_table({relation('again')}, unique_key=['id'])",
        columns,
        [[{"header__change_seq": "0" * 35, "id": 1}], [{"header__change_seq": "0" * 35, "id": 2}]],
    )


def lsn(number: int) -> bytes:
    return number.to_bytes(10, "big")


def captured(commit: int | None, key: str) -> Row:
    return {
        "__$start_lsn": None if commit is None else lsn(commit),
        "__$seqval": lsn(1),
        "__$operation": 2,
        "__$update_mask": b"\x01",
        "id": key,
    }


@pytest.mark.parametrize("has_command", [False, True])
def test_a_row_of_sql_server_without_its_commit_is_rejected(
    has_command: bool, project: Project, lake: Lake
) -> None:
    columns = HEADER | {"id": "string"} | ({"__$command_id": "int"} if has_command else {})
    found = in_two_runs(
        project,
        lake,
        f"sqlserver_change_table({relation('again')}, unique_key=['id'])",
        columns,
        [[captured(4, "a")], [captured(None, "b"), captured(5, "c")]],
    )
    [rejected] = [change for change in found if change["reject_reason"] is not None]
    assert rejected["reject_reason"].startswith("no place in the log")
    assert (rejected["after"]["id"], rejected["change_id"] is None) == ("b", False)


def test_a_commit_time_stays_when_its_table_is_cleaned_up(project: Project, lake: Lake) -> None:
    at = datetime(2024, 3, 1)
    columns = HEADER | {"id": "string"}
    lake.create("timed", columns, [captured(4, "a")])
    lake.create("times", LSN_TIMES, [{"start_lsn": lsn(4), "tran_end_time": at}])
    project.stream(
        "stg_timed",
        f"sqlserver_change_table({relation('timed')}, unique_key=['id'],"
        f" lsn_times={relation('times')})",
    )
    project.dbt("run", "--select", "stg_timed", "--full-refresh")
    # SQL Server has cleaned up the old commit, and the landing copies the small table again.
    lake.append("timed", columns, [captured(5, "b")])
    lake.create("times", LSN_TIMES, [{"start_lsn": lsn(5), "tran_end_time": at}])
    project.dbt("run", "--select", "stg_timed")
    found = lake.rows(f"select changed_at, warnings from {SCHEMA}.stg_timed")
    assert [(change["changed_at"], change["warnings"]) for change in found] == [(at, None)] * 2


def test_a_commit_keeps_its_time_whatever_its_rows_gain(project: Project, lake: Lake) -> None:
    """A copy, a row before, a further change; then the table moves to a second instance."""
    at, times = datetime(2024, 3, 1), relation("kept_times")
    columns = HEADER | {"id": "string"}
    after = {**captured(5, "b"), "__$operation": 4}
    lake.create("kept_ct", columns, [captured(4, "a"), after])
    lake.create(
        "kept_times", LSN_TIMES, [{"start_lsn": lsn(n), "tran_end_time": at} for n in (4, 5)]
    )

    def run(tables: str, *arguments: str) -> None:
        project.stream(
            "stg_kept",
            f"sqlserver_change_table({tables}, unique_key=['id'], lsn_times={times})",
            on_schema_change="append_new_columns",
        )
        project.dbt("run", "--select", "stg_kept", *arguments)

    run(relation("kept_ct"), "--full-refresh")
    lake.create("kept_times", LSN_TIMES, [{"start_lsn": lsn(6), "tran_end_time": at}])
    late = {**captured(4, "c"), "__$seqval": lsn(2)}
    lake.append("kept_ct", columns, [captured(4, "a"), {**after, "__$operation": 3}, late])
    run(relation("kept_ct"))
    noted = {**after, "__$update_mask": b"\x02"}
    both = [{**noted, "__$operation": 3}, {**noted, "note": "x"}]
    lake.create("kept_v2_ct", {**columns, "note": "string"}, both)
    run(f"{relation('kept_v2_ct')}, earlier={relation('kept_ct')}")
    found = lake.rows(
        "select after.id, after.note, absent_columns, changed_at, warnings, source_rows"
        f" from {SCHEMA}.stg_kept order by id"
    )
    assert [tuple(change.values()) for change in found] == [
        ("a", None, ["note"], at, None, 2),
        ("b", "x", None, at, None, 4),
        ("c", None, ["note"], at, None, 1),
    ]


def test_a_table_beside_the_changes_may_be_given_later_but_not_taken_away(
    project: Project, lake: Lake
) -> None:
    """Rows that are read again would lose what it said. Once it is empty, they keep that."""
    at = datetime(2024, 3, 1)
    number = {"_Change-Sequence": 4, "_Operation": 1, "_Time-Stamp": at}
    tracked = {"_Source-Table-Number": 12, "_User-Name": "ann"}
    cd = {"IBMSNAP_COMMITSEQ": lsn(4), "IBMSNAP_INTENTSEQ": lsn(1), "IBMSNAP_OPERATION": "I"}
    key = {"id": "string"}
    landed: dict[str, tuple[dict[str, str], Row]] = {
        "beside_ct": (HEADER | key, captured(4, "a")),
        "beside_cd": (DB2_HEADER | key, cd | {"id": "a"}),
        "beside__cdc": (CHANGE_COLUMNS | key, number | {"id": "a"}),
    }
    beside: dict[str, tuple[dict[str, str], Row]] = {
        "beside_times": (LSN_TIMES, {"start_lsn": lsn(4), "tran_end_time": at}),
        "beside_uow": (DB2_UOW, {"IBMSNAP_COMMITSEQ": lsn(4), "IBMSNAP_LOGMARKER": at}),
        "beside_tracking": (TRACKING_COLUMNS, number | tracked),
    }
    calls = {
        "stg_beside_ct": ("sqlserver_change_table", "beside_ct", "lsn_times", "beside_times"),
        "stg_beside_cd": ("db2_change_data", "beside_cd", "uow", "beside_uow"),
        "stg_beside_cdc": ("openedge_change_table", "beside__cdc", "tracking", "beside_tracking"),
    }
    names = list(calls)

    def write(are_given: bool, *chosen: str) -> None:
        for name in chosen:
            macro, table, argument, other = calls[name]
            more = f", {argument}={relation(other)}" if are_given else ""
            more += ", source_table_number=12" if argument == "tracking" else ""
            project.stream(name, f"{macro}({relation(table)}, unique_key=['id']{more})")

    def create(tables: dict[str, tuple[dict[str, str], Row]], are_filled: bool = True) -> None:
        for name, (columns, row) in tables.items():
            lake.create(name, columns, [row] if are_filled else [])

    def said() -> list[tuple[Any, ...]]:
        query = "select changed_at, changed_by, source_rows, warnings from"
        return [tuple(row.values()) for n in names for row in lake.rows(f"{query} {SCHEMA}.{n}")]

    create(landed | beside)
    # The times of commits come later.
    write(False, *names[:2])
    write(True, names[2])
    project.dbt("run", "--select", *names, "--full-refresh")
    write(True, *names)
    project.dbt("run", "--select", *names)
    known = [(at, None, 1, None), (at, None, 1, None), (at, "ann", 2, None)]
    assert said() == known

    write(False, *names)
    with pytest.raises(DbtError) as refused:
        project.dbt("run", "--select", *names)
    refusal = r"the `(\w+)` of \S+ has changed since .* Built with: given. Got: None"
    assert sorted(re.findall(refusal, str(refused.value))) == ["lsn_times", "tracking", "uow"]

    create(beside, are_filled=False)
    create(landed)
    write(True, *names)
    project.dbt("run", "--select", *names)
    assert said() == known


def test_a_late_row_is_no_known_change_that_has_lost_its_time(project: Project, lake: Lake) -> None:
    """It gets the number of another change of its place."""
    columns = HEADER | {"id": "string"}
    moved = [{**captured(4, "b"), "__$operation": 1}, captured(4, "b"), captured(4, "c")]
    lake.create("moved_ct", columns, moved)
    time = {"start_lsn": lsn(4), "tran_end_time": datetime(2024, 3, 1)}
    lake.create("moved_times", LSN_TIMES, [time])
    project.stream(
        "stg_moved",
        f"sqlserver_change_table({relation('moved_ct')}, unique_key=['id'],"
        f" lsn_times={relation('moved_times')})",
    )
    project.dbt("run", "--select", "stg_moved", "--full-refresh")
    lake.append("moved_ct", columns, [{**captured(4, "a"), "__$operation": 1}])
    lake.create("moved_times", LSN_TIMES, [{**time, "start_lsn": lsn(5)}])
    project.dbt("run", "--select", "stg_moved")
    found = lake.rows(f"select operation, coalesce(after, before).id from {SCHEMA}.stg_moved")
    assert sorted(tuple(change.values()) for change in found) == [
        ("delete", "a"),
        ("insert", "c"),
        ("update", "b"),
    ]


def test_a_placeholder_of_a_time_does_not_hide_a_change_of_dms(
    project: Project, lake: Lake
) -> None:
    columns = {"Op": "string", "id": "string", "change_seq": "string", "dms_time": "string"}

    def change(key: int, second: int, time: str) -> Row:
        seq = f"2024080106000{second}00{key:019d}"
        return {"Op": "I", "id": key, "change_seq": seq, "dms_time": time}

    lake.create("parts", columns, [change(1, 1, "2024-08-01 06:00:01.000000")])
    # A branch does not tell what has landed, so the run looks back by time.
    lake.spark.sql(f"alter table {SCHEMA}.parts create branch side")
    raw = relation("parts.branch_side")
    project.stream("stg_parts", f"dms_changes({raw}, unique_key=['id'], time='dms_time')")
    run = ("run", "--select", "stg_parts", "--vars", "afterimage_lookback_hours: 24")
    project.dbt(*run, "--full-refresh")
    values = ", ".join(
        f"'{value}'" for value in change(2, 2, "1970-01-01 00:00:00.000000").values()
    )
    lake.spark.sql(f"insert into {SCHEMA}.parts.branch_side values ({values})")
    project.dbt(*run)
    assert len(lake.rows(f"select * from {SCHEMA}.stg_parts")) == 2


def test_a_load_of_debezium_replaces_one_that_is_no_longer_landed(
    project: Project, lake: Lake
) -> None:
    columns = column_list(id="int", note="string")
    project.stream(
        "stg_loads",
        f"debezium_messages({relation('loads')}, unique_key=['id'], columns={columns})",
    )

    def loaded(note: str, time: int) -> list[Row]:
        source = {"ts_ms": time, "snapshot": "true", "file": "b.1", "pos": 4}
        return [
            {"value": json.dumps({"op": "r", "after": {"id": key, "note": note}, "source": source})}
            for key in range(8)
        ]

    lake.create("loads", {"value": "string"}, loaded("old", 1709283600000))
    project.dbt("run", "--select", "stg_loads")
    lake.spark.sql(f"delete from {SCHEMA}.loads")
    lake.append("loads", {"value": "string"}, loaded("new", 1709287200000))
    project.dbt("run", "--select", "stg_loads")
    kept = lake.rows(f"select after.note from {SCHEMA}.stg_loads where reject_reason is null")
    assert [row["note"] for row in kept] == ["new"] * 8


@pytest.mark.slow
@pytest.mark.parametrize("other", ["table", "value"])
def test_a_rejected_load_of_debezium_leaves_a_good_one_that_is_no_longer_landed(
    other: str, project: Project, lake: Lake
) -> None:
    columns = "[{'name': 'id', 'type': 'int'}, {'name': 'weight', 'type': 'smallint'}]"
    project.stream(
        "stg_loads",
        f"debezium_messages({relation('loads')}, unique_key=['id'], columns={columns},"
        " table='shop.parcels')",
        on_schema_change="append_new_columns",
    )

    def loaded(key: int, weight: int, table: str) -> Row:
        source = {"ts_ms": 1709283600000, "snapshot": "true", "db": "shop", "table": table}
        value = {
            "before": None,
            "after": {"id": key, "weight": weight},
            "source": source,
            "op": "r",
        }
        # One as the connector writes it, which is read in one step, and one with spaces.
        return {"value": json.dumps(value, separators=(",", ":") if key == 1 else None)}

    lake.create("loads", {"value": "string"}, [loaded(1, 7, "parcels"), loaded(2, 8, "parcels")])
    project.dbt("run", "--select", "stg_loads", "--full-refresh")
    lake.spark.sql(f"delete from {SCHEMA}.loads")
    rejected = {
        "table": [loaded(1, 3, "orders"), loaded(2, 4, "orders")],
        "value": [loaded(1, 70000, "parcels"), loaded(2, 80000, "parcels")],
    }[other]
    lake.append("loads", {"value": "string"}, rejected)
    project.dbt("run", "--select", "stg_loads")
    good = lake.rows(f"select after.weight from {SCHEMA}.stg_loads where reject_reason is null")
    assert sorted(row["weight"] for row in good) == [7, 8]
    assert len(lake.rows(f"select * from {SCHEMA}.stg_loads")) == 4
    if other == "value":
        # What fits now is the load of its key, and no rejected change any longer.
        model = project.folder / "models/stg_loads.sql"
        model.write_text(model.read_text().replace("smallint", "int"))
        project.dbt("run", "--select", "stg_loads")
        found = lake.rows(f"select reject_reason, after.weight from {SCHEMA}.stg_loads")
        assert sorted((row["weight"], row["reject_reason"]) for row in found) == [
            (70000, None),
            (80000, None),
        ]


DEBEZIUM_CALL = (
    f"debezium_messages({relation('again')}, unique_key=['id'],"
    f" columns={column_list(id='int', note='string')}, position=['partition', 'offset'])"
)
POSITIONED = {"value": "string", "partition": "int", "offset": "bigint"}


def at_offset(offset: int, value: Row) -> Row:
    return {"value": json.dumps(value), "partition": 0, "offset": offset}


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("value", "changes"),
    [
        pytest.param({"hello": 1}, 1, id="no row"),
        pytest.param({"ts_ms": 1709283600000}, 1, id="a heartbeat"),
        pytest.param({"op": "m", "source": {"ts_ms": 1}}, 1, id="a logical message"),
        pytest.param(
            {"op": "r", "after": {"id": 1}, "source": {"ts_ms": 1, "snapshot": "incremental"}},
            3,
            id="a row of an incremental snapshot",
        ),
    ],
)
def test_a_message_of_debezium_without_a_place_in_the_log_comes_again(
    value: Row, changes: int, project: Project, lake: Lake
) -> None:
    found = in_two_runs(
        project,
        lake,
        DEBEZIUM_CALL,
        POSITIONED,
        [[at_offset(1, value)], [at_offset(2, value), at_offset(3, value)]],
    )
    assert len({change["change_id"] for change in found}) == len(found) == changes
