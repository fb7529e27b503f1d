"""A million raw rows; one in a hundred is malformed, in each known way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import dialect_netiq
from conftest import FORMAT, SCHEMA, Lake, Project, column_list, relation
from generate import changes
from inserts import DIALECTS
from qlik_messages import headers, json_message, mask
from reference import Row

ROWS = int(os.environ.get("AFTERIMAGE_BAD_ROWS", "1000000"))
MOST = 1.15  # what a run over broken rows may cost, a run over good ones being 1

# How rows are broken, by a number of 0 to 99 that depends on the change_seq, and the reason
# expected. A before-image is broken together with its update.
WAYS = {
    0: "unknown operation",
    1: "change_seq is not 35 digits",
    2: "NULL in the key (id)",
    3: "change_mask cannot be decoded",
    4: "before-image without its update",
}
NUMBER = "pmod(xxhash64(header__change_seq, 'way'), 100)"
WAY = f"""
case
    when {NUMBER} in (0, 1, 2) then {NUMBER}
    when {NUMBER} = 3 and header__operation in ('INSERT', 'UPDATE', 'BEFOREIMAGE') then 3
    when {NUMBER} = 4 and header__operation in ('UPDATE', 'BEFOREIMAGE') then 4
end
"""


def cpu_seconds(spark: SparkSession) -> int:
    """Return the time that Spark's Java has computed, which other programs do not lengthen."""
    jvm: Any = spark._jvm
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    *days, clock = subprocess.check_output(["ps", "-o", "time=", "-p", pid], text=True).split("-")
    hours, minutes, seconds = (float(part) for part in f"0:{clock.strip()}".split(":")[-3:])
    return round(((int(days[0]) if days else 0) * 24 + hours) * 3600 + minutes * 60 + seconds)


@pytest.mark.long
def test_broken_rows_have_distinct_ids_and_cost_little(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    spark = lake.spark
    good = changes(spark, int(ROWS / 1.7)).selectExpr(
        "*", f"{WAY} as way", "hex(header__change_mask) as header__mask_text"
    )
    good.writeTo(f"{SCHEMA}.million_marked").using(FORMAT).createOrReplace()
    names = [n for n in good.columns if n not in ("way", "header__mask_text")]

    def land(table: str, broken: dict[str, str], condition: str = "true") -> None:
        """Write the marked rows as a change table, some columns of them broken."""
        landed = {"header__change_mask": "header__mask_text"} | broken
        listed = ", ".join(f"{landed.get(n, n)} as {n}" for n in names)
        spark.sql(
            f"create or replace table {SCHEMA}.{table} using {FORMAT} as "
            f"select {listed} from {SCHEMA}.million_marked where {condition}"
        )

    land("million_clean", {})
    land(
        "million_broken",
        {
            "header__change_oper": "if(way <=> 0, 'Z', header__change_oper)",
            "header__change_seq": "if(way <=> 1, left(header__change_seq, 34), header__change_seq)",
            "id": "if(way <=> 2, null, id)",
            "header__change_mask": "if(way <=> 3, 'no mask', header__mask_text)",
        },
        "not (way <=> 4 and header__operation = 'UPDATE')",
    )

    project = make_project("bad_input")
    for kind in ("clean", "broken"):
        raw = relation(f"million_{kind}")
        project.model(
            f"stg_{kind}",
            f"{{{{ qlik_change_table({raw}, unique_key=['id'], mask_encoding='hex_bytes') }}}}",
        )
        project.history(f"{kind}_history", f"stg_{kind}")
    seconds: dict[str, list[int]] = {"clean": [], "broken": []}
    for _ in range(4):  # the first round warms up
        for kind, times in seconds.items():
            started = cpu_seconds(spark)
            project.dbt("run", "--full-refresh", "--select", f"+{kind}_history")
            times.append(cpu_seconds(spark) - started)

    # Every row is there, and every broken one has its reason.
    landed_rows = lake.rows(f"select count(*) as n from {SCHEMA}.million_broken")[0]["n"]
    found = lake.rows(
        f"""
        select
            regexp_extract(reject_reason, '^[^:]+', 0) as reason,
            sum(source_rows) as n
        from {SCHEMA}.stg_broken
        group by 1
        """
    )
    by_reason = {row["reason"]: row["n"] for row in found}
    assert sum(by_reason.values()) == landed_rows
    assert landed_rows > 0.95 * ROWS
    marked = lake.rows(
        f"""
        select way, count(*) as n from {SCHEMA}.million_marked
        where way is not null and not (way = 4 and header__operation = 'UPDATE')
        group by way
        """
    )
    expected = {WAYS[row["way"]]: row["n"] for row in marked}
    assert set(expected) == set(WAYS.values())
    assert min(expected.values()) > 0.002 * ROWS
    assert {reason: n for reason, n in by_reason.items() if reason is not None} == expected

    # The good rows are what they are where no row is broken.
    compared = (
        "change_id, change_seq, operation, to_json(`before`), to_json(`after`), changed_columns,"
        " absent_columns, changed_at, transaction_id, source_rows"
    )
    untouched = (
        f"select {compared} from {SCHEMA}.stg_clean where change_seq in "
        f"(select header__change_seq from {SCHEMA}.million_marked where way is null)"
    )
    good_rows = f"select {compared} from {SCHEMA}.stg_broken where reject_reason is null"
    for left, right in ((untouched, good_rows), (good_rows, untouched)):
        assert lake.rows(f"select count(*) as n from ({left} except all {right})") == [{"n": 0}]

    clean, broken = (min(times[1:]) for times in seconds.values())
    print(f"{landed_rows} rows: clean {clean} s, broken {broken} s")
    assert broken <= MOST * clean, seconds


AT = datetime(2024, 1, 1, 12, 1)
BORN = f"columns={column_list(id='int', born='date')}"
MESSAGE = {
    "data": {"id": 1, "born": "yesterday"},
    "beforeData": None,
    "headers": headers(
        "INSERT",
        changeSequence=f"2024010112010000{1:019}",
        timestamp="yesterday",
        transactionEventCounter="first",
        changeMask=mask(["id"], ["id"]),
        columnMask=mask(["id"], ["id"]),
    ),
}
EVENT = {
    "record_id": "1",
    "status": "N",
    "event_type": "1",
    "event_time": "yesterday",
    "table_name": "usr",
    "table_key": "id=1",
    "column_name": "born",
    "new_value": "yesterday",
}


def insert(macro: str, **texts: str) -> tuple[str, dict[str, str], Row]:
    """Return the call of a macro, and a landed row with some texts, with its columns."""
    dialect = DIALECTS[macro]
    return (
        f"{macro}({{}}, unique_key=['id'])",
        dialect.columns | dict.fromkeys(texts, "string"),
        dialect.row(1, AT) | texts,
    )


# A landed row of each dialect with a time, and where it has typed values of text a number, that is
# none: the model's call, its columns and the row; its time, its reason and how many warnings.
NO_TIME: dict[str, tuple[tuple[str, dict[str, str], Row], tuple[Any, ...]]] = {
    "ansi__ct": (insert("qlik_change_table", header__timestamp="yesterday"), (AT, None, 1)),
    "ansi_ccd": (insert("db2_change_data", IBMSNAP_LOGMARKER="yesterday"), (None, None, 1)),
    "ansi_cdc": (
        insert(
            "openedge_change_table",
            **{"_Time-Stamp": "yesterday", "_Continuation-Position": "first"},
        ),
        (None, None, 1),
    ),
    "ansi_messages": (
        (
            f"qlik_messages({{}}, unique_key=['id'], {BORN})",
            {"value": "string", "timestamp": "string", "offset": "string"},
            {
                "value": json_message("DT", MESSAGE),
                "timestamp": "yesterday",
                "offset": "first",
            },
        ),
        (AT, 'a value does not fit its column: born "yesterday" (date)', 1),
    ),
    "ansi_log": (
        (
            f"netiq_event_log({{}}, unique_key=['id'], table='usr', {BORN})",
            dict.fromkeys(dialect_netiq.LOG, "string"),
            EVENT,
        ),
        (None, 'event_time is no time: "yesterday"', None),
    ),
}


@pytest.mark.slow
def test_a_malformed_timestamp_fails_no_run_in_ansi_mode(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    project = make_project("ansi")
    for table, ((call, columns, row), _) in NO_TIME.items():
        project.model(f"stg_{table}", f"{{{{ {call.replace('{}', relation(table))} }}}}")
        lake.create(table, columns, [row])
    lake.spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        project.dbt("run")
        assert lake.spark.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    found = "select changed_at, reject_reason, array_size(warnings) as warnings from {}.stg_{}"
    for table, (_, expected) in NO_TIME.items():
        rows = lake.rows(found.format(SCHEMA, table))
        assert [tuple(row.values()) for row in rows] == [expected], table
