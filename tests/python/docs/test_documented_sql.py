"""The SQL of the docs gives the results that the docs show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import (
    FORMAT,
    ROOT,
    SCHEMA,
    DbtError,
    Lake,
    Project,
    column_list,
    contract_columns,
    relation,
)
from dialect_qlik import HEADER
from qlik_messages import avro_message, column, data_schema, headers, json_message, metadata

JANUARY = datetime(2023, 1, 1)


def documented(page: str, begins: str) -> str:
    """Return the SQL of a page from a line on, with the tables of the test schema."""
    text = (ROOT / "docs" / page).read_text()
    sql = next(
        block[block.index(begins) :]
        for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        if begins in block
    )
    return re.sub(r"\{\{ (?:ref|source)\((?:'\w+', )?'(\w+)'\) \}\}", rf"{SCHEMA}.\1", sql)


def test_only_commits_that_capture_has_written_completely_are_landed(lake: Lake) -> None:
    """The bound is that of the register's two columns which is larger, of all its rows."""
    columns = {"IBMSNAP_COMMITSEQ": "binary", "ID": "int"}
    commits = [{"IBMSNAP_COMMITSEQ": n.to_bytes(16, "big"), "ID": n} for n in (1, 254, 256, 257)]
    lake.create("deposits_cd", columns, commits)
    progress = {"SYNCHPOINT": "binary", "CD_NEW_SYNCHPOINT": "binary"}
    for values, expected in {
        ((256, None), (None, 3)): [1, 254, 256],
        ((3, 254), (3, None)): [1, 254],
        ((None, None),): [],
    }.items():
        rows = [
            {
                k: None if n is None else n.to_bytes(16, "big")
                for k, n in zip(progress, row, strict=True)
            }
            for row in values
        ]
        lake.create("ibmsnap_register", progress, rows)
        sql = documented("systems/db2_change_data.md", "select *\nfrom deposits_cd")
        for table in ("deposits_cd", "ibmsnap_register"):
            sql = sql.replace(f"from {table}", f"from {SCHEMA}.{table}")
        assert sorted(row["ID"] for row in lake.rows(sql)) == expected


def test_a_snapshot_is_continued_until_the_first_change_of_each_key(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    def changed(
        number: int, operation: str, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None
    ) -> dict[str, Any]:
        return {
            "change_id": str(number),
            "change_seq": f"{number:035}",
            "operation": operation,
            "before": before,
            "after": after,
            "changed_at": datetime(2024, number, 1),
        }

    lake.create(
        "customers_snapshot",
        {
            "id": "int",
            "name": "string",
            "dbt_valid_from": "timestamp",
            "dbt_valid_to": "timestamp",
        },
        [
            {"id": id, "name": name, "dbt_valid_from": JANUARY}
            for id, name in enumerate(["changed", "never changed", "deleted", "of another key"], 1)
        ],
    )
    lake.create(
        "stg_qlik__customers",
        contract_columns("id: int, name: string"),
        [
            changed(5, "update", (1, "changed"), (1, "changed now")),
            changed(6, "delete", (3, "deleted"), None),
            changed(7, "update", (4, "of another key"), (5, "of another key")),
            changed(8, "truncate", None, None),
        ],
    )
    project = make_project("coming_from")
    stream = relation("stg_qlik__customers")
    project.model("customers_history", f"{{{{ scd2({stream}, unique_key=['id']) }}}}")
    project.dbt("run")

    rows = lake.rows(documented("start/coming_from.md", "with images as ("))
    may, june, july, august = (datetime(2024, month, 1) for month in (5, 6, 7, 8))
    assert sorted(tuple(row.values()) for row in rows) == [
        (1, "changed", JANUARY, may),
        (1, "changed now", may, august),
        (2, "never changed", JANUARY, august),
        (3, "deleted", JANUARY, june),
        (4, "of another key", JANUARY, july),
        (5, "of another key", july, august),
    ]


def test_a_full_load_comes_before_the_changes(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    data = {"id": "int", "name": "string"}
    loaded = [{"id": 1, "name": "changes"}, {"id": 2, "name": "never changes"}]
    change = {
        "header__change_seq": f"2024050112000000{1:019}",
        "header__change_oper": "U",
        "header__operation": "UPDATE",
        "header__timestamp": datetime(2024, 5, 1, 12),
        "id": 1,
        "name": "has changed",
    }
    lake.create("customers__ct", HEADER | data, [change])
    lake.create("customers_loaded", data, loaded)
    both = documented("systems/dialects.md", "select * from {{ source('raw', 'customers__ct') }}")
    lake.spark.sql(f"create or replace table {SCHEMA}.customers_with_load using iceberg as {both}")
    project = make_project("full_load")
    raw = relation("customers_with_load")
    project.model("stg_loaded", f"{{{{ qlik_change_table({raw}, unique_key=['id']) }}}}")
    project.dbt("run")

    assert [
        (row["operation"], row["after"])
        for row in lake.rows(f"select * from {SCHEMA}.stg_loaded order by change_seq, after.id")
    ] == [
        ("load", {"id": 1, "name": "changes"}),
        ("load", {"id": 2, "name": "never changes"}),
        ("update", {"id": 1, "name": "has changed"}),
    ]

    # The source adds a column, and Qlik adds it to the change table.
    for table in ("customers__ct", "customers_loaded"):
        lake.spark.sql(f"alter table {SCHEMA}.{table} add columns (email string)")
    later = {"header__change_seq": f"2024050112000000{2:019}", "email": "a@x"}
    lake.append("customers__ct", HEADER | data | {"email": "string"}, [change | later])
    lake.spark.sql(f"create or replace table {SCHEMA}.customers_with_load using iceberg as {both}")
    project.dbt("run")
    names = f"select after.* from {SCHEMA}.stg_loaded order by change_seq, after.id"
    assert [tuple(row.values()) for row in lake.rows(names)] == [
        (1, "changes", None),
        (2, "never changes", None),
        (1, "has changed", None),
        (1, "has changed", "a@x"),
    ]


@pytest.mark.slow
def test_what_a_reload_found_is_written_into_the_change_table(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """It counts from the reload on, and what was changed since then stands behind it."""
    data = {"id": "int", "name": "string"}
    first, second = datetime(2024, 5, 1, 12), datetime(2024, 5, 2, 12)
    reload, later = datetime(2024, 6, 1, 9), datetime(2024, 6, 1, 10)

    def landed(at: datetime, number: int, oper: str, id: int, name: str) -> dict[str, Any]:
        place = f"{at:%Y%m%d%H%M%S}00{number:019}"
        head = {"header__change_seq": place, "header__change_oper": oper}
        return {**head, "header__timestamp": at, "id": id, "name": name}

    changes = [
        landed(first, 1, "I", 1, "a"),
        landed(first, 2, "I", 2, "deleted while the task was down"),
        landed(first, 3, "I", 3, "never changed"),
        landed(second, 4, "B", 1, "a"),
        landed(second, 4, "U", 1, "b"),
        landed(later, 5, "B", 1, "changed while the task was down"),
        landed(later, 5, "U", 1, "d"),
        landed(later, 6, "I", 5, "inserted later"),
    ]
    lake.create("customers__ct", HEADER | data, changes)
    found = {1: "changed while the task was down", 3: "never changed", 4: "inserted"}
    lake.create("customers", data, [{"id": id, "name": name} for id, name in found.items()])
    project = make_project("reloaded")
    call = f"qlik_change_table({relation('customers__ct')}, unique_key=['id'])"
    project.stream("stg_reloaded", call, file_format=FORMAT)
    project.history("reloaded_history", "stg_reloaded", file_format=FORMAT)
    current = "{{ current_state(ref('reloaded_history')) }}"
    project.model("customers_current", current, materialized="table")
    project.dbt("run")
    statement = documented("systems/dialects.md", "insert into raw.customers__ct")
    for schema in ("raw", "crm"):
        statement = statement.replace(f"{schema}.", f"{SCHEMA}.")
    lake.spark.sql(statement)
    project.dbt("run")

    history = f"select * from {SCHEMA}.reloaded_history order by id, version"
    names = ("id", "name", "valid_from", "valid_to", "closed_by")
    assert [tuple(row[name] for name in names) for row in lake.rows(history)] == [
        (1, "a", first, second, "update"),
        (1, "b", second, reload, "update"),
        (1, "changed while the task was down", reload, later, "update"),
        (1, "d", later, None, None),
        (2, "deleted while the task was down", first, reload, "delete"),
        (3, "never changed", first, None, None),
        (4, "inserted", reload, None, None),
        (5, "inserted later", later, None, None),
    ]
    # What the reload found as it was is no change.
    written = f"select operation from {SCHEMA}.stg_reloaded where changed_at = timestamp '{reload}'"
    assert sorted(row["operation"] for row in lake.rows(written)) == ["delete", "update", "update"]


@pytest.mark.slow
def test_what_a_task_wrote_again_counts_once(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Whether the new sequences are lower, or behind all others: Qlik does not say it."""
    data = {"id": "int", "name": "string"}
    # Hour, position, letter, key, name.
    before = [(1, 1, "I", 1, "a"), (1, 2, "I", 2, "x")]
    twice = [(2, 3, "B", 1, "a"), (2, 3, "U", 1, "b"), (2, 4, "B", 1, "b"), (2, 4, "U", 1, "c")]
    twice += [(3, 5, "D", 2, "x")]
    later = [(4, 6, "B", 1, "c"), (4, 6, "U", 1, "d")]
    rows = []

    def land(change: tuple[int, int, str, int, str], hour: int, number: int, group: int) -> None:
        at, position, oper, id, name = change
        rows.append(
            {
                "header__change_seq": f"20240501{hour:02}000000{number + group:019}",
                "header__change_oper": oper,
                "header__stream_position": f"{group}:{position:08}",
                "header__transaction_id": f"{at:032}",
                "header__timestamp": datetime(2024, 5, 1, at),
                "id": id + group,
                "name": name,
            }
        )

    for change in before + twice:
        for group in (0, 100):
            land(change, change[0], 10_000 + change[1], group)
    for change in twice + later:
        land(change, change[0], change[1], 0)
        land(change, 5, 20_000 + change[1], 100)
    lake.create("customers__ct", HEADER | data, rows)
    once = documented("systems/qlik_change_table.md", "select changes.*")
    lake.spark.sql(f"create or replace table {SCHEMA}.customers_once using {FORMAT} as {once}")
    project = make_project("written_again")
    project.stream(
        "stg_once",
        f"qlik_change_table({relation('customers_once')}, unique_key=['id'])",
        file_format=FORMAT,
    )
    project.history("once_history", "stg_once", file_format=FORMAT)
    project.model("once_audit", "{{ change_audit(ref('stg_once'), unique_key=['id']) }}")
    project.dbt("run")

    audited = lake.rows(
        f"select * from {SCHEMA}.once_audit where column_name = 'name' order by id, change_seq"
    )
    names = ("id", "old_value", "new_value")
    assert [tuple(row[name] for name in names) for row in audited] == [
        (id + group, *values)
        for group in (0, 100)
        for id, *values in [
            (1, None, "a"),
            (1, "a", "b"),
            (1, "b", "c"),
            (1, "c", "d"),
            (2, None, "x"),
            (2, "x", None),
        ]
    ]
    history = lake.rows(f"select * from {SCHEMA}.once_history order by id, version")
    assert [(row["id"], row["name"], row["closed_by"]) for row in history] == [
        (id + group, *version)
        for group in (0, 100)
        for id, *version in [
            (1, "a", "update"),
            (1, "b", "update"),
            (1, "c", "update"),
            (1, "d", None),
            (2, "x", "delete"),
        ]
    ]


@pytest.mark.slow
def test_a_topic_that_was_created_again_is_read_behind_the_old_one(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """What its load finds changed is a change, as by any reload."""
    landed = {"key": "string", "value": "string", "partition": "int"}
    landed |= {"offset": "bigint", "timestamp": "timestamp"}

    def told(offset: int, operation: str, key: int, name: str, sequence: str | None = None) -> Any:
        body = {
            "data": {"ID": key, "NAME": name},
            "beforeData": None,
            "headers": headers(operation, changeSequence=sequence),
        }
        return {"value": json_message("DT", body), "partition": 0, "offset": offset}

    place = f"2024010112{1:025d}"
    old = [
        told(0, "REFRESH", 1, "a"),
        told(1, "REFRESH", 2, "x"),
        told(9, "UPDATE", 1, "b", place),
    ]
    lake.create("crm", landed, old)
    lake.create("crm_again", landed, [told(0, "REFRESH", 1, "c"), told(1, "REFRESH", 2, "x")])
    both = documented("systems/qlik_messages.md", "select key, value, partition")
    lake.spark.sql(f"create or replace table {SCHEMA}.crm_both using {FORMAT} as {both}")
    project = make_project("created_again")
    project.history("accounts_history", "stg_accounts", ["ID"])
    for table in ("crm", "crm_both"):
        columns = column_list(ID="int", NAME="string")
        call = f"qlik_messages({relation(table)}, unique_key=['ID'], columns={columns})"
        project.stream("stg_accounts", call)
        project.dbt("run")
    versions = lake.rows(f"select * from {SCHEMA}.accounts_history order by ID, version")
    assert [(row["ID"], row["NAME"], row["valid_from_seq"]) for row in versions] == [
        (1, "a", ""),
        (1, "b", place),
        (1, "c", f"{place}.r{9:019d}"),
        (2, "x", ""),
    ]


def test_the_text_null_of_dms_becomes_null_before_staging(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """A task without CsvNullValue writes it, and so a column of numbers lands as text."""
    columns = {"Op": "string", "rental_id": "bigint", "note": "string", "seats": "string"}
    columns |= {"ar_h_change_seq": "string", "dms_time": "timestamp"}
    told = [("I", "x", "2", None), ("U", "NULL", "3", 1), ("U", "y", "NULL", 2)]
    rows = [
        {
            "Op": operation,
            "rental_id": 1,
            "note": note,
            "seats": seats,
            # Empty in a row of the full load.
            "ar_h_change_seq": "NULL" if number is None else f"2024080107000000{number:019}",
            "dms_time": datetime(2024, 8, 1),
        }
        for operation, note, seats, number in told
    ]
    lake.create("rentals", columns, rows)
    sql = documented("systems/dms_changes.md", "select\n        nullif(Op, 'NULL')")
    lake.spark.sql(f"create or replace table {SCHEMA}.nulled_rentals using {FORMAT} as {sql}")
    call = f"dms_changes({relation('nulled_rentals')}, unique_key=['rental_id'], time='dms_time')"
    found = lake.rows(make_project("null_of_dms").sql(call))
    assert sorted((row["change_seq"], row["operation"], row["after"]) for row in found) == [
        ("", "load", {"rental_id": 1, "note": "x", "seats": 2}),
        (f"2024080107000000{1:019}", "update", {"rental_id": 1, "note": None, "seats": 3}),
        (f"2024080107000000{2:019}", "update", {"rental_id": 1, "note": "y", "seats": None}),
    ]


def test_a_db2_table_without_places_in_the_log_is_read_by_its_times(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    columns = {"IDENTIFIER": "string", "NAME": "string", "IBMSNAP_OPERATION": "string"}
    columns |= {"IBMSNAP_COMMITSEQ": "binary", "IBMSNAP_LOGMARKER": "timestamp"}
    told = [("I", "Ann", None), ("U", "Anna", 6), ("D", "Anna", 8), ("I", "Anne", 8)]
    rows = [
        {
            "IDENTIFIER": "AaiU7IW0Rt",
            "NAME": name,
            "IBMSNAP_OPERATION": operation,
            "IBMSNAP_COMMITSEQ": None,
            "IBMSNAP_LOGMARKER": day and datetime(2018, 3, day, 12),
        }
        for operation, name, day in told
    ]
    lake.create("client_t", columns, rows)
    call = documented("systems/db2_change_data.md", "dms_changes(").split("}}")[0]
    call = call.replace("source('landing', 'client_t')", relation("client_t"))
    sql = make_project("without_places").sql(call.strip())
    found = lake.rows(f"{sql} order by change_seq")
    # A load has no time. Of one commit the delete comes last.
    assert [
        (row["operation"], (row["after"] or row["before"])["NAME"], row["changed_at"])
        for row in found
    ] == [
        ("load", "Ann", None),
        ("update", "Anna", datetime(2018, 3, 6, 12)),
        ("insert", "Anne", datetime(2018, 3, 8, 12)),
        ("delete", "Anna", datetime(2018, 3, 8, 12)),
    ]


def test_file_and_row_of_dms_give_the_order(
    make_project: Callable[[str], Project], lake: Lake, tmp_path: Path
) -> None:
    """Changes of one transaction have one time. A load has I, as IncludeOpForFullLoad writes it."""
    columns = {"Op": "string", "rental_id": "int", "car": "string", "status": "string"}
    columns |= {"dms_time": "string"}
    files = {
        "LOAD00000001": [("I", 1, "booked"), ("I", 2, "booked")],
        "20240801-070000000": [("D", 1, "in"), ("I", 1, "out"), ("U", 2, "out"), ("U", 2, "in")],
        "20240801-080000000": [("U", 2, "lost")],
    }
    for name, told in files.items():
        time = {"dms_time": "2024-08-01 07:00:00.000000"}
        rows = [{"Op": code, "rental_id": key, "status": s, **time} for code, key, s in told]
        lake.frame(columns, rows).coalesce(1).write.parquet(str(tmp_path / name))
        [made] = (tmp_path / name).glob("part-*.parquet")
        (tmp_path / "rentals").mkdir(exist_ok=True)
        made.rename(tmp_path / "rentals" / f"{name}.parquet")
    sql = documented("systems/dms_changes.md", "select\n        -- Rows of the full load")
    sql = sql.replace(f"{SCHEMA}.rentals", f"parquet.`{tmp_path / 'rentals'}`")
    lake.spark.sql(f"create or replace table {SCHEMA}.rentals_in_order using {FORMAT} as {sql}")
    order = "order_by=['dms_time', 'dms_file', 'dms_row'], time='dms_time'"
    call = f"dms_changes({relation('rentals_in_order')}, unique_key=['rental_id'], {order})"
    found = lake.rows(
        "select operation, coalesce(`after`, `before`).rental_id as id, `after`.status as status"
        f" from ({make_project('order_of_dms').sql(call)}) order by change_seq, id"
    )
    assert [tuple(row.values()) for row in found] == [
        ("load", 1, "booked"),
        ("load", 2, "booked"),
        ("delete", 1, None),
        ("insert", 1, "out"),
        ("update", 2, "out"),
        ("update", 2, "in"),
        ("update", 2, "lost"),
    ]


def test_net_changes_of_sqlserver_are_read_with_a_place_of_their_own(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """`merge` gives 5 for an insert or an update. The time stands beside the row."""
    header = {"__$start_lsn": "binary", "__$operation": "int", "__$update_mask": "binary"}
    columns = {**header, "order_id": "int", "status": "string", "committed_at": "timestamp"}
    told = [(1, 2, 4, "new"), (2, 1, 5, "new"), (2, 2, 7, "new"), (2, 5, 4, "paid")]
    rows = [
        {
            "__$start_lsn": commit.to_bytes(10, "big"),
            "__$operation": operation,
            "order_id": key,
            "status": status,
            "committed_at": datetime(2024, 1, commit),
        }
        for commit, operation, key, status in told
    ]
    page = "systems/sqlserver_change_table.md"
    lake.create("dbo_orders_net", columns, rows)
    lake.create("dbo_orders_CT", columns, rows)
    for table, begins in (
        ("orders_net_changes", "select\n        `__$start_lsn`,"),
        ("orders_times", "select distinct\n        `__$start_lsn`"),
    ):
        sql = documented(page, begins)
        lake.spark.sql(f"create or replace table {SCHEMA}.{table} using {FORMAT} as {sql}")
    call = f"sqlserver_change_table({relation('orders_net_changes')}, unique_key=['order_id'],"
    sql = make_project("net").sql(f"{call} lsn_times={relation('orders_times')})")
    found = lake.rows(
        "select operation, coalesce(`after`, `before`).order_id as id, `after`.status as status,"
        f" changed_at, warnings from ({sql}) order by changed_at, id"
    )
    assert [tuple(row.values()) for row in found] == [
        ("insert", 4, "new", datetime(2024, 1, 1), None),
        ("update", 4, "paid", datetime(2024, 1, 2), None),
        ("delete", 5, None, datetime(2024, 1, 2), None),
        ("insert", 7, "new", datetime(2024, 1, 2), None),
    ]


@pytest.mark.slow
def test_a_stream_of_ones_own_is_the_stream_of_a_history(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """The second commit overwrites the table; the others come in a run of their own.

    The last one changes a key.
    """
    columns = {"id": "int", "balance": "int", "_change_type": "string", "_commit_version": "bigint"}
    columns |= {"_commit_timestamp": "timestamp"}
    told = [
        (1, [(1, 10, "insert"), (2, 20, "insert")]),
        (2, [(1, 10, "delete"), (2, 20, "delete"), (1, 11, "insert")]),
        (3, [(1, 11, "update_preimage"), (1, 12, "update_postimage")]),
        (4, [(1, 12, "update_preimage"), (3, 12, "update_postimage")]),
    ]
    rows = [
        [dict(zip(columns, (*values, n, datetime(2024, 1, n)), strict=True)) for values in changes]
        for n, changes in told
    ]
    project = make_project("own_stream")
    sql = documented("reference/change_contract.md", "with feed as (")
    options = {"materialized": "incremental", "incremental_strategy": "append"}
    project.model("stg_accounts", sql, **options, file_format=FORMAT)
    project.history("accounts_history", "stg_accounts")
    lake.create("account_changes", columns, rows[0] + rows[1])
    project.dbt("run", "--full-refresh")
    lake.append("account_changes", columns, rows[2] + rows[3])
    project.dbt("run")
    versions = lake.rows(
        "select id, balance, day(valid_from) as first, day(valid_to) as last, closed_by"
        f" from {SCHEMA}.accounts_history order by id, version"
    )
    assert [tuple(row.values()) for row in versions] == [
        (1, 10, 1, 2, "delete"),
        (1, 11, 2, 3, "update"),
        (1, 12, 3, 4, "delete"),
        (2, 20, 1, 2, "delete"),
        (3, 12, 4, None, None),
    ]


@pytest.mark.slow
def test_the_rows_of_a_renamed_staging_model_are_put_where_its_new_name_is(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Its raw table was pruned, so the table that a run has built lacks what only they know."""
    columns = HEADER | {"id": "int", "name": "string"}

    def landed(number: int, oper: str, name: str) -> dict[str, Any]:
        place = f"2024050112000000{number:019}"
        head = {"header__change_seq": place, "header__change_oper": oper}
        return {**head, "header__timestamp": datetime(2024, 5, number), "id": 1, "name": name}

    lake.create("pruned__ct", columns, [landed(1, "I", "Ada"), landed(2, "U", "Eva")])
    project = make_project("renamed_staging")

    def write(staging: str) -> None:
        call = f"qlik_change_table({relation('pruned__ct')}, unique_key=['id'])"
        project.stream(staging, call, file_format=FORMAT)
        audit = {"materialized": "audit", "unique_key": ["id"], "file_format": FORMAT}
        project.model("crm_audit", f"select * from {{{{ ref('{staging}') }}}}", **audit)

    def names() -> list[tuple[str | None, str | None]]:
        rows = lake.rows(
            f"select old_value, new_value from {SCHEMA}.crm_audit where column_name = 'name'"
            " order by change_seq"
        )
        return [(row["old_value"], row["new_value"]) for row in rows]

    write("stg_customers")
    project.dbt("run", "--full-refresh")
    lake.spark.sql(f"delete from {SCHEMA}.pruned__ct where name = 'Ada'")
    lake.append("pruned__ct", columns, [landed(3, "U", "Ida")])
    (project.folder / "models/stg_customers.sql").unlink()
    write("stg_crm__customers")
    with pytest.raises(DbtError, match="would be lost"):
        project.dbt("run")
    assert names() == [(None, "Ada"), ("Ada", "Eva")]
    statements = documented("operations/troubleshooting.md", "drop table crm.stg_crm__customers")
    for statement in statements.replace("crm.", f"{SCHEMA}.").split(";"):
        if statement.strip():
            lake.spark.sql(statement.replace("using iceberg", f"using {FORMAT}"))
    project.dbt("run")
    assert names() == [(None, "Ada"), ("Ada", "Eva"), ("Eva", "Ida")]
    assert len(lake.rows(f"select change_id from {SCHEMA}.stg_crm__customers")) == 3


@pytest.mark.slow
def test_the_stream_position_of_a_change_is_in_its_message(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """It is a header of changes alone (Qlik, "Metadata and data messages")."""
    columns = [column("ID", "INT4", key=1)]
    load = {"data": {"ID": 0}, "beforeData": None, "headers": headers("REFRESH")}
    changes = [
        {
            "data": {"ID": number},
            "beforeData": None,
            "headers": headers(
                "INSERT",
                changeSequence=f"{number:035}",
                timestamp="2024-01-01T12:00:00",
                streamPosition=position,
            ),
        }
        for number, position in ((1, "0000012f:00000001"), (2, "0000012f:00000009"))
    ]
    bodies: list[Any] = [load, *changes]
    written: dict[str, list[Any]] = {
        "crm": [json_message("DT", body) for body in [*bodies, bodies[2]]],
        "crm_avro": [avro_message("DT", data_schema(columns), body, "v1") for body in bodies],
    }
    schema = metadata("avro", "v1", "T", 1, columns)
    lake.create("crm_schemas", {"value": "binary"}, [schema])
    project = make_project("stream_position")
    for table, values in written.items():
        kind = "string" if table == "crm" else "binary"
        lake.create(table, {"value": kind}, [{"value": value} for value in values])
        call = (
            f"qlik_messages({relation(table)}, unique_key=['ID'], columns={column_list(ID='int')}"
        )
        model = "stg_qlik__accounts" if table == "crm" else "stg_avro"
        project.model(model, f"{{{{ {call}, metadata={relation('crm_schemas')}) }}}}")
    project.dbt("run")

    def found(sql: str) -> list[tuple[int, str | None]]:
        return sorted((row["after"]["ID"], row["stream_position"]) for row in lake.rows(sql))

    expected = [(0, None), (1, "0000012f:00000001"), (2, "0000012f:00000009")]
    page = "systems/qlik_messages.md"
    by_join = documented(page, "select\n    changes.*,")
    assert found(by_join) == expected
    json_in_avro = "decode_avro_message(value, data_schema).message"
    assert f"`{json_in_avro}`" in (ROOT / "docs" / page).read_text()
    schemas = project.sql(f"qlik_message_schemas({relation('crm_schemas')})")
    in_avro = (
        by_join.replace("(value, '$.message.", f"({json_in_avro}, '$.")
        .replace(f"{SCHEMA}.crm", f"{SCHEMA}.crm_avro cross join ({schemas}) as schemas")
        .replace("stg_qlik__accounts", "stg_avro")
    )
    assert found(in_avro) == expected


@pytest.mark.slow
@pytest.mark.parametrize("form", ["flattened", "envelopes"])
def test_rows_that_landed_as_columns_keep_their_nulls(
    form: str, make_project: Callable[[str], Project], lake: Lake
) -> None:
    parcel = {"id": "int", "name": "string", "price": "decimal(10,0)", "weight": "double"}
    parcel |= {"seen": "timestamp", "day": "date", "photo": "binary"}
    first: dict[str, Any] = {"id": 1, "name": "a", "price": Decimal(1250), "weight": 0.5}
    first |= {"seen": datetime(2024, 3, 1, 9, 0, 0, 123456), "day": date(2024, 3, 1)}
    first |= {"photo": b"\0a"}
    second = first | {"name": None, "photo": None}
    places = [(1709283600000 + n, f'["{n}","{n}"]') for n in (10, 20, 30)]
    if form == "flattened":
        # As Debezium Server's sink for Iceberg lands them.
        added = {"__op": "string", "__deleted": "string"}
        added |= {"__source_ts_ns": "bigint", "__source_sequence": "string"}
        columns = parcel | added
        rows = [
            row | dict(zip(added, (op, str(op == "d").lower(), at * 10**6, place), strict=True))
            for op, row, (at, place) in zip("cud", (first, second, second), places, strict=True)
        ]
    else:
        image = f"struct<{', '.join(f'{name}: {kind}' for name, kind in parcel.items())}>"
        source = "struct<ts_ms: bigint, sequence: string>"
        columns = {"before": image, "after": image, "source": source, "op": "string"}
        one, two = tuple(first.values()), tuple(second.values())
        images = [(None, one), (None, two), (two, None)]
        rows = [
            dict(zip(columns, (before, after, source, op), strict=True))
            for op, (before, after), source in zip("cud", images, places, strict=True)
        ]
    lake.create("parcel_rows", columns, rows)
    recipe = documented("systems/debezium_messages.md", "select\n    to_json(")
    lake.spark.sql(f"create or replace table {SCHEMA}.parcel_messages using iceberg as {recipe}")
    call = f"debezium_messages({relation('parcel_messages')}, unique_key=['id']"
    query = make_project("columns").compile(f"{{{{ {call}, columns={column_list(**parcel)}) }}}}")
    found = sorted(lake.rows(query), key=lambda change: change["change_seq"])
    assert [change["operation"] for change in found] == ["insert", "update", "delete"]
    assert [change["after"] for change in found] == [first, second, None]
    assert [change["absent_columns"] for change in found] == [None] * 3
    assert [change["warnings"] for change in found] == [None] * 3


@pytest.mark.slow
def test_messages_without_a_source_are_read_by_the_documented_select(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Those of Flink, and the rows that the DebeziumTransform of Iceberg's sink makes."""
    page = " ".join((ROOT / "docs/systems/debezium_messages.md").read_text().split())
    of_flink = """concat('{"source":{},', substring(cast(value as string), 2)) as value"""
    of_sink = "decode(_cdc.op, 'I', 'c', 'U', 'u', 'D', 'd') as __op,"
    of_sink += " unix_millis(_cdc.ts) as __source_ts_ms"
    assert f"`{of_flink}`" in page
    assert f"`{of_sink}`" in page
    old: dict[str, Any] = {"id": 5, "name": "a"}
    new: dict[str, Any] = {"id": 5, "name": None}
    # Flink writes an update as a delete and an insert.
    messages = [("c", None, old), ("d", old, None), ("c", None, new)]
    written = [
        json.dumps({"before": before, "after": after, "op": op}).encode()
        for op, before, after in messages
    ]
    landed = {"value": "binary", "partition": "int", "offset": "bigint"}
    lake.create(
        "flink",
        landed,
        [{"value": text, "partition": 0, "offset": n} for n, text in enumerate(written)],
    )
    at = datetime(2024, 3, 1, 9)
    cdc = "struct<op: string, ts: timestamp, offset: bigint>"
    lake.create(
        "sink",
        {"id": "int", "name": "string", "_cdc": cdc},
        [
            {**row, "_cdc": (op, at, n)}
            for n, (op, row) in enumerate([("I", old), ("U", new), ("D", new)])
        ],
    )
    kept = "map('ignoreNullFields', 'false')"
    views = {
        "flink": f"select {of_flink}, partition, offset from {SCHEMA}.flink",
        "sink": f"select to_json(struct(id, name, {of_sink}), {kept}) as value,"
        f" _cdc.offset as offset from {SCHEMA}.sink",
    }
    project, found = make_project("columns"), {}
    for name, view in views.items():
        lake.spark.sql(f"create or replace table {SCHEMA}.{name}_seen using {FORMAT} as {view}")
        call = f"debezium_messages({relation(f'{name}_seen')}, unique_key=['id']"
        call += f", columns={column_list(id='int', name='string')}, position=['offset']"
        rows = lake.rows(project.compile(f"{{{{ {call}) }}}}"))
        found[name] = [
            (change["operation"], change["after"], change["changed_at"])
            for change in sorted(rows, key=lambda change: change["change_seq"])
        ]
    assert found["flink"] == [
        ("insert", old, None),
        ("delete", None, None),
        ("insert", new, None),
    ]
    assert found["sink"] == [("insert", old, at), ("update", new, at), ("delete", None, at)]


def test_our_macros_and_tests_are_called_with_the_package_s_name() -> None:
    """Without it a project that a model was copied to does not find them, unlike this one."""
    macros = [
        macro["name"]
        for path in (ROOT / "macros").rglob("*.yml")
        for macro in yaml.safe_load(path.read_text()).get("macros", [])
    ]
    tests = [path.stem for path in (ROOT / "tests" / "generic").glob("*.sql")]
    bare_macro = re.compile(rf"(?<![\w.])(?:{'|'.join(macros)})\(")
    bare_test = re.compile(rf"^\s*- (?:{'|'.join(tests)})(?::|$)", re.MULTILINE)
    found = {}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    models = [*(ROOT / "models").rglob("*.*"), *(ROOT / "tests" / "package_project").rglob("*.*")]
    for path in [*pages, *(path for path in models if path.suffix in (".sql", ".yml"))]:
        text = path.read_text()
        calls = bare_macro.findall(" ".join(re.findall(r"\{\{.*?\}\}", text, re.DOTALL)))
        if calls + bare_test.findall(text):
            found[path.name] = calls + bare_test.findall(text)
    assert found == {}


def test_a_documented_model_is_built_as_the_example_of_its_name() -> None:
    """And reads what that reads, where the example reads a source."""
    compared = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for block in re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL):
            for path, sql in re.findall(
                r"^-- (models/\S+\.sql)\n(.*?)(?=^-- |\Z)", block, re.MULTILINE | re.DOTALL
            ):
                built = re.search(r"materialized='(\w+)'", sql)
                assert built, (page.name, path)
                example = next(
                    (
                        (root / path).read_text()
                        for root in (ROOT, ROOT / "tests" / "package_project")
                        if (root / path).exists()
                    ),
                    None,
                )
                if example is None:
                    continue
                compared.append(path)
                assert f"'{built[1]}'" in example, (page.name, path)
                assert re.findall(r"afterimage\.\w+", sql) == re.findall(
                    r"afterimage\.\w+", example
                ), (page.name, path)
                if "source(" in example:
                    assert sql.split() == example.split(), (page.name, path)
    assert len(compared) > 12
    assert compared.count("models/staging/qlik/stg_qlik__customers.sql") == 2
