"""A staging run reads what has landed since the last one, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from conftest import FORMAT, ROOT, SCHEMA, DbtError, Lake, Project, column_list, relation
from dialect_db2 import DB2_HEADER, DB2_UOW
from dialect_netiq import LOG
from dialect_sqlserver import HEADER as SERVER_HEADER
from dialect_sqlserver import LSN_TIMES
from ends import ENDED, ended
from runs import (
    COLUMNS,
    FIRST,
    INCREMENTAL,
    PAIRS,
    PAIRS_AS_CHANGES,
    PARTNERS,
    RAW,
    STREAM,
    TABLE,
    Runs,
    at,
    model,
    pairs_of,
    row,
)

AUDIT = {"materialized": "audit", "unique_key": ["id"]}
# A warning of ours ends the run.
STRICT = ("--warn-error-options", '{"error": ["JinjaLogWarning"]}')


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("change_stream")


@pytest.fixture
def runs(project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]) -> Runs:
    return Runs(project, lake, capfd)


@pytest.mark.slow
def test_a_run_logs_landed_rows_and_new_changes(runs: Runs) -> None:
    runs.land(
        row(at(4), "U", "d"),  # new
        row(at(3), "B", "b"),  # of a known change
        row(at(5), "?", "e"),  # of no known operation
    )
    assert runs.run() == "3 rows landed, 3 changes: 1 new, 1 known, 1 rejected"
    runs.assert_as_a_full_refresh()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--full-refresh",)], ids=["run", "build"])
def test_a_session_in_another_zone_than_utc_is_warned_of(
    options: tuple[str, ...], runs: Runs, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Times without a zone would be hours off, and of other places once the zone is set right."""
    zone = "spark.sql.session.timeZone"
    shipped = lake.spark.conf.get(zone) or "UTC"
    said = {}
    for number, name in ((4, shipped), (5, "America/New_York")):
        runs.land(row(at(number), "U", "d"))
        lake.spark.conf.set(zone, name)
        capfd.readouterr()
        try:
            runs.project.dbt("--no-quiet", "run", "--select", "stg_stream", *options)
        finally:
            lake.spark.conf.set(zone, shipped)
        said[name] = " ".join(capfd.readouterr().out.split())
    assert "time zone" not in said[shipped]
    assert "the session's time zone is America/New_York" in said["America/New_York"]
    assert "Set `spark.sql.session.timeZone: UTC`, then run" in said["America/New_York"]


def test_a_run_with_nothing_new_commits_nothing_and_reads_no_raw_row(runs: Runs) -> None:
    runs.assert_nothing_new()
    assert RAW not in re.sub(r"/\*.*?\*/", "", runs.sql)


@pytest.mark.slow
def test_a_change_that_lands_a_year_late_is_read(runs: Runs) -> None:
    runs.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(9), "U", "z"))
    assert runs.run() == "2 rows landed, 2 changes: 2 new, 0 known, 0 rejected"
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
@pytest.mark.parametrize("others", [0, 1100], ids=["few", "many"])
@pytest.mark.parametrize("first", ["B", "U"])
def test_an_update_and_its_before_image_land_in_two_runs(
    first: str, others: int, runs: Runs
) -> None:
    """A run names the groups of up to a thousand rows; of more it looks for them."""
    second = {"B": "U", "U": "B"}[first]
    runs.land(row(at(4), first, {"B": "c", "U": "d"}[first]))
    runs.run()
    runs.land(
        row(at(4), second, {"B": "c", "U": "d"}[second]),
        row(at(5), "D", "d"),
        *(
            row(f"{at(6)[:16]}{number:019}", "I", "other", number)
            for number in range(2, others + 2)
        ),
    )
    assert runs.run().startswith(f"{others + 2} rows landed")
    [update] = [change for change in runs.staged() if change["change_seq"] == at(4)]
    assert (update["before"]["name"], update["after"]["name"]) == ("c", "d")
    assert (update["source_rows"], update["reject_reason"]) == (2, None)
    runs.assert_as_a_full_refresh()


@pytest.mark.slow
def test_rows_delivered_twice_are_counted(runs: Runs, lake: Lake) -> None:
    """They are no news: what was known at a moment stays so."""
    twice = [row(at(2), "U", "b"), row(at(3), "U", "c"), row(None, "I", "loaded", 7)]
    runs.land(*twice)
    taken_in = f"select change_id, ingested_at from {TABLE} order by change_id"
    before = lake.rows(taken_in)
    assert runs.run() == "3 rows landed, 3 changes: 0 new, 3 known, 0 rejected"
    assert lake.rows(taken_in) == before
    assert sum(change["source_rows"] for change in runs.staged()) == len(FIRST) + len(twice)
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
def test_rows_without_a_place_are_compared_with_earlier_ones(runs: Runs) -> None:
    """Another load of the key, a malformed row twice, and two rows that share a place of zeros."""
    zeros = "0" * 35
    runs.land(row("17", "U", "?"), row(zeros, "D", "x", 3), row(zeros, "I", "loaded too", 8))
    runs.run()
    runs.land(
        row("17", "U", "?"),
        row(zeros, "D", "y", 4),
        row(None, "I", "loaded again", 7),
        row(zeros, "I", "loaded twice", 8),
        row(at(6), "U", "f"),
    )
    runs.run()
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_compacted_raw_table_has_nothing_new(runs: Runs, lake: Lake) -> None:
    runs.land(row(at(4), "U", "d"))
    runs.run()
    compact = (
        f"call system.rewrite_data_files(table => '{SCHEMA}.{RAW}',"
        " options => map('rewrite-all', 'true'))"
    )
    lake.spark.sql(compact)
    runs.assert_nothing_new()
    # What landed before the table was compacted again.
    runs.land(row(at(5), "U", "e"))
    lake.spark.sql(compact)
    assert runs.run().startswith("1 rows landed, 1 changes: 1 new")
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_recreated_raw_table_is_read_once(runs: Runs, lake: Lake) -> None:
    lake.create(RAW, COLUMNS, [*FIRST, row(at(4), "U", "d")])
    assert runs.run() == (
        f"read all 6 rows of {SCHEMA}.{RAW} because it was replaced or rolled back, or its"
        " snapshots have expired, 1 changes: 1 new, 0 known, 0 rejected"
    )
    runs.assert_nothing_new()
    lake.spark.sql(f"drop table {SCHEMA}.{RAW}")
    lake.create(RAW, COLUMNS, [*FIRST, row(at(4), "U", "d")])
    assert runs.run().endswith("have expired, nothing new")
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_raw_table_rolled_back_is_read_once(runs: Runs, lake: Lake) -> None:
    [first] = lake.rows(f"select snapshot_id from {SCHEMA}.{RAW}.refs")
    runs.land(row(at(4), "U", "d"))
    runs.run()
    lake.spark.sql(f"call system.rollback_to_snapshot('{SCHEMA}.{RAW}', {first['snapshot_id']})")
    assert runs.run().startswith(f"read all 5 rows of {SCHEMA}.{RAW}")
    runs.land(row(at(5), "U", "e"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    assert {change["change_seq"] for change in runs.staged()} == {"", *map(at, range(1, 6))}


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_raw_table_with_expired_snapshots_is_read_once(runs: Runs, lake: Lake) -> None:
    for number in (4, 5):
        runs.land(row(at(number), "U", f"{number}"))
    lake.spark.sql(
        f"call system.expire_snapshots(table => '{SCHEMA}.{RAW}', older_than => "
        "timestamp '2999-01-01 00:00:00', retain_last => 1)"
    )
    assert runs.run().endswith("have expired, 2 changes: 2 new, 0 known, 0 rejected")
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_deleted_from_or_changed_in_the_raw_table(mode: str, runs: Runs, lake: Lake) -> None:
    raw = f"{SCHEMA}.{RAW}"
    ways = ["'format-version' = '2'"]
    ways += [f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge")]
    lake.spark.sql(f"alter table {raw} set tblproperties ({', '.join(ways)})")
    kept = runs.staged()
    lake.spark.sql(f"delete from {raw} where header__change_seq = '{at(1)}'")
    assert runs.run() == "nothing new"
    runs.land(row(at(4), "U", "d"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    assert [change for change in runs.staged() if change["change_seq"] != at(4)] == kept
    lake.spark.sql(f"update {raw} set name = 'mended' where header__change_seq = '{at(4)}'")
    assert runs.run() == "1 rows landed, 1 changes: 0 new, 1 known, 0 rejected"
    [mended] = [change for change in runs.staged() if change["change_seq"] == at(4)]
    assert mended["after"]["name"] == "mended"
    runs.assert_nothing_new()


@pytest.mark.needs("iceberg")
@pytest.mark.slow
def test_a_change_keeps_what_it_had_from_a_row_that_a_delete_file_names(
    runs: Runs, lake: Lake
) -> None:
    """The delete is nothing, and so is a compaction that carries it out."""
    raw = f"{SCHEMA}.{RAW}"
    lake.spark.sql(
        f"alter table {raw} set tblproperties"
        " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    lake.frame(COLUMNS, PAIRS).coalesce(1).writeTo(raw).append()
    runs.run()
    kept = runs.staged()
    assert pairs_of(kept) == PAIRS_AS_CHANGES
    compact = (
        f"call system.rewrite_data_files(table => '{raw}', options => map('rewrite-all', 'true'))"
    )
    lake.spark.sql(f"delete from {raw} where {PARTNERS}")
    lake.spark.sql(compact)
    assert runs.run() == "nothing new"
    assert runs.staged() == kept
    # What is left of each pair lands once more, so that as many rows are there as ever.
    runs.land(row(at(4), "U", "d"), row(at(5), "U", "d", 9), row(at(6), "B", "e", 43))
    runs.run()
    assert runs.staged() == kept
    # A file that landed is among those that were compacted.
    runs.land(row(at(7), "U", "f"), row(at(8), "U", "g"))
    lake.spark.sql(f"delete from {raw} where header__change_seq = '{at(7)}'")
    lake.spark.sql(compact)
    assert "1 new" in runs.run()
    assert pairs_of(runs.staged())[at(8)] == (None, (1, "g"))
    # None of those that were compacted has landed since.
    lake.spark.sql(f"delete from {raw} where header__change_seq = '{at(3)}'")
    lake.spark.sql(compact)
    runs.land(row(at(9), "U", "h"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    runs.assert_nothing_new()


@pytest.mark.slow
def test_a_small_table_is_built_by_a_shorter_statement(runs: Runs) -> None:
    runs.land(*PAIRS)
    runs.run("--full-refresh")
    assert "complex_groups" in runs.sql
    staged = runs.staged()
    runs.run("--full-refresh", "--vars", "{afterimage_small_table: 16}")
    assert "complex_groups" not in runs.sql
    assert runs.staged() == staged


@pytest.mark.slow
@pytest.mark.parametrize("keys", [(2, 3), (3, 2)])
def test_an_update_gives_up_a_before_image_that_may_be_of_another(
    keys: tuple[int, int], runs: Runs
) -> None:
    """Nothing is deleted: it is still there, but two updates of other keys have its place now."""
    runs.land(row(at(4), "B", "x"), row(at(4), "U", "x", keys[0]))
    runs.run()
    assert pairs_of(runs.staged())[at(4)] == ((1, "x"), (keys[0], "x"))
    runs.land(row(at(4), "U", "x", keys[1]))
    runs.run()
    found = runs.staged()
    assert sum(change["source_rows"] for change in found) == len(FIRST) + 3
    runs.run("--full-refresh")
    assert runs.staged() == found


@pytest.mark.slow
def test_a_run_killed_before_it_saves_its_state_is_repeated(runs: Runs, lake: Lake) -> None:
    def properties() -> dict[str, str]:
        rows = lake.rows(f"show tblproperties {TABLE}")
        return {row["key"]: row["value"] for row in rows if row["key"].startswith("afterimage.")}

    before = properties()
    runs.land(row(at(4), "U", "d"), row(at(3), "B", "b"))
    runs.run()
    staged = runs.staged()
    after = properties()
    assert after != before
    assignments = ", ".join(f"'{name}' = '{value}'" for name, value in before.items())
    lake.spark.sql(f"alter table {TABLE} set tblproperties ({assignments})")
    assert runs.run() == "2 rows landed, nothing new"
    assert (runs.staged(), properties()) == (staged, after)


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_staging_table_rolled_back_reads_everything_once(runs: Runs, lake: Lake) -> None:
    [first] = runs.snapshot()
    runs.land(row(at(4), "U", "d"))
    runs.run()
    staged = runs.staged()
    lake.spark.sql(f"call system.rollback_to_snapshot('{TABLE}', {first['snapshot_id']})")
    assert f"because {TABLE} was rolled back, 1 changes: 1 new" in runs.run()
    assert runs.staged() == staged
    runs.assert_nothing_new()


@pytest.mark.slow
def test_a_new_column_needs_a_full_refresh(runs: Runs, lake: Lake) -> None:
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} add column city string")
    with pytest.raises(DbtError, match=r"have changed since .* \(added: city\)"):
        runs.run()
    # The docs can be written until then.
    runs.project.dbt("docs", "generate", "--select", "stg_stream")
    runs.run("--full-refresh")
    assert "city" in runs.staged()[0]["after"]
    runs.assert_nothing_new()


@pytest.mark.slow
def test_another_key_needs_a_full_refresh(runs: Runs, project: Project, lake: Lake) -> None:
    """By the old key, one of two loads had replaced the other."""
    columns = COLUMNS | {"region": "string"}
    loads = [row(None, "I", "a", 1) | {"region": "EU"}, row(None, "I", "b", 1) | {"region": "US"}]
    lake.create(RAW, columns, loads)
    runs.run("--full-refresh")
    model(project, key="['region', 'ID']")
    lake.append(RAW, columns, [row(at(1), "U", "c", 1) | {"region": "EU"}])
    before = runs.staged()
    with pytest.raises(DbtError, match=r"Built with: id. Got: id, region"):
        runs.run()
    assert runs.staged() == before
    runs.run("--full-refresh")
    found = sorted((c["after"]["name"], c["reject_reason"]) for c in runs.staged())
    assert found == [("a", None), ("b", None), ("c", None)]
    model(project, key="['id', 'region']")
    lake.append(RAW, columns, [row(at(2), "U", "d", 1) | {"region": "EU"}])
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"


@pytest.mark.slow
def test_another_key_needs_a_full_refresh_whatever_the_raw_table_is_called(
    runs: Runs, project: Project, lake: Lake
) -> None:
    columns = COLUMNS | {"region": "string"}
    loads = [row(None, "I", "a", 1) | {"region": "EU"}, row(None, "I", "b", 1) | {"region": "US"}]
    for name in (RAW, "Renamed__CT"):
        lake.create(name, columns, loads)
    runs.run("--full-refresh")
    before = runs.staged()
    # The name and the key changed at once.
    model(project, raw="Renamed__CT", key="['id', 'region']")
    with pytest.raises(DbtError, match=r"Built with: id. Got: id, region"):
        runs.run()
    # The name changed first.
    model(project, raw="Renamed__CT")
    assert runs.run().endswith("nothing new")
    model(project, raw="Renamed__CT", key="['id', 'region']")
    lake.append("Renamed__CT", columns, [row(at(1), "U", "c", 1) | {"region": "EU"}])
    with pytest.raises(DbtError, match=r"Built with: id. Got: id, region"):
        runs.run()
    assert runs.staged() == before


@pytest.mark.minutes
def test_an_argument_that_ids_are_made_by_needs_a_full_refresh(
    project: Project, lake: Lake
) -> None:
    """Else new changes would sort before all old ones, be read twice, or be of another table."""
    events = f"netiq_event_log({relation('made_log')}, unique_key=['id'],"
    events += f" columns={column_list(id='int')}, table="
    log = events + "'usr', "
    messages = f"_messages({relation('made_messages')}, ['id'], columns={column_list(id='int')}, "
    openedge = f"openedge_change_table({relation('made_openedge')}, ['id'], "
    calls = {
        "stg_of_table": (events + "{})", "'usr'", "'GRP'"),
        "stg_of_topic": ("qlik" + messages + "table={})", "'items'", "none"),
        "stg_of_number": (openedge + "source_table_number={})", "1", "2"),
        "stg_placed": ("debezium" + messages + "position={})", "none", "['part', 'place']"),
        "stg_moved": ("debezium" + messages + "headers={})", "none", "'head'"),
        "stg_timed": (
            f"dms_changes({relation('made_dms')}, ['id'], columns=['id'],"
            " order_by=['place'], time={})",
            *("none", "'place'"),
        ),
        "stg_complete": (
            f"db2_change_data({relation('made_cd')}, unique_key=['id'], complete={{}})",
            *("false", "true"),
        ),
        "stg_by_time": (log + "future_events={})", "false", "true"),
        "stg_trimmed": (log + "trim_key_numbers={})", "false", "true"),
        "stg_condensed": (
            f"db2_change_data({relation('made_cd')}, unique_key=['id'], condensed={{}})",
            *("false", "true"),
        ),
        "stg_copied": (
            f"dated_copies({relation('made_copies')}, ['id'], columns=['id'], copy_column={{}})",
            *("'day'", "'loaded_at'"),
        ),
        "stg_keyed": (
            f"db2_text_log({relation('made_keys')}, {{}}, base={relation('made_base')})",
            *("['id', 'line']", "['line', 'id']"),
        ),
        "stg_ordered": (
            f"dms_changes({relation('made_dms')}, ['id'], columns=['id'], order_by={{}})",
            *("['place']", "['number', 'place']"),
        ),
    }
    lake.create("made_log", LOG, [])
    lake.create("made_cd", {**DB2_HEADER, "id": "int"}, [])
    dms = {"Op": "string", "id": "int", "place": "string", "number": "int"}
    lake.create("made_dms", dms, [{"Op": "I", "id": 1, "place": "1", "number": 1}])
    topic = {"value": "string", "head": "string", "part": "int", "place": "bigint"}
    lake.create("made_messages", topic, [])
    lake.create("made_openedge", {"_Change-Sequence": "int", "_Operation": "int", "id": "int"}, [])

    lake.create("made_copies", {"id": "int", "day": "date", "loaded_at": "timestamp"}, [])
    keys = {"OPERATION": "int", "TIME": "timestamp", "PK01": "int", "PK02": "int"}
    lake.create("made_keys", keys, [])
    lake.create("made_base", {"id": "int", "line": "int"}, [])

    def write(number: int) -> None:
        for name, (call, *values) in calls.items():
            project.stream(name, call.replace("{}", values[number]))

    run = ("run", "--select", *calls)
    write(0)
    project.dbt(*run, "--full-refresh")
    write(1)
    with pytest.raises(DbtError) as refused:
        project.dbt(*run)
    said = re.findall(
        r"the `([\w ]+)` of \S+ has changed since \S+ was built.*?Built with: (.*?)\. Got: (.*)",
        str(refused.value),
    )
    assert sorted(said) == [
        ("complete", "false", "true"),
        ("condensed", "false", "true"),
        ("copy_column", "day", "loaded_at"),
        ("form of order_by", "text", "time"),
        ("future_events", "false", "true"),
        ("headers", "none", "given"),
        ("order of unique_key", "id, line", "line, id"),
        ("order_by", "place", "number, place"),
        ("position", "none", "part, place"),
        ("source_table_number", "1", "2"),
        ("table", "items", "None"),
        ("table", "usr", "grp"),
        ("trim_key_numbers", "false", "true"),
    ]
    # A table of an earlier release does not say how it was built.
    for name in calls:
        lake.spark.sql(f"alter table {SCHEMA}.{name} unset tblproperties ('afterimage.keys')")
    project.dbt(*run)


@pytest.mark.minutes
def test_all_rows_are_read_once_by_another_rule(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rows that were read by the old one get other times, or count, or no longer do."""
    noon, berlin = datetime(2024, 1, 1, 12), "time_zone='Europe/Berlin'"
    lsn = b"\x00" * 9 + b"\x05"
    db2 = {
        "IBMSNAP_COMMITSEQ": lsn,
        "IBMSNAP_INTENTSEQ": lsn,
        "IBMSNAP_OPERATION": "I",
        "IBMSNAP_LOGMARKER": noon,
        "id": 2,
    }
    load = {**db2, "IBMSNAP_COMMITSEQ": None, "IBMSNAP_INTENTSEQ": None, "id": 1}
    lake.create(
        "zone_ccd", {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "int"}, [load, db2]
    )
    base = relation("zone_base")
    lake.create("zone_base", {"id": "int", "name": "string"}, [{"id": 1, "name": "x"}])
    logged = {"OPERATION": 0, "TIME": noon, "PK01": 1}
    lake.create("zone_log", {"OPERATION": "int", "TIME": "timestamp", "PK01": "int"}, [logged])
    captured = {"__$start_lsn": lsn, "__$seqval": lsn, "__$operation": 2, "id": 1}
    lake.create("zone_ct", SERVER_HEADER | {"id": "int"}, [captured])
    lake.create("zone_lsn", LSN_TIMES, [{"start_lsn": lsn, "tran_end_time": noon}])

    def event(record: int, kind: int, user: str = "app", status: str = "N") -> dict[str, Any]:
        return {
            "record_id": record,
            "table_key": f"id={record}",
            "status": status,
            "event_type": kind,
            "event_time": noon,
            "perpetrator": user,
            "table_name": "usr",
            "column_name": None if kind == 5 else "name",
            "new_value": "x",
        }

    # The first is a query-back, which keeps what it has read.
    log = [event(1, 5), event(2, 1), event(3, 1, user="DRIVER"), event(4, 1, status="S")]
    lake.create("zone_events", LOG, log)
    openedge = {"_Change-Sequence": "int", "_Operation": "int", "id": "int"}
    resets = [(1, 1, 1), (2, 7, None)]
    lake.create("reset_cdc", openedge, [dict(zip(openedge, row, strict=True)) for row in resets])
    columns = column_list(id="int", name="string")
    events = f"netiq_event_log({relation('zone_events')}, ['id'], 'usr', {columns}, base={base}"
    calls = {
        "stg_zone_ccd": (f"db2_change_data({relation('zone_ccd')}, ['id']", berlin),
        "stg_zone_log": (f"db2_text_log({relation('zone_log')}, ['id'], base={base}", berlin),
        "stg_zone_ct": (
            f"sqlserver_change_table({relation('zone_ct')}, ['id'],"
            f" lsn_times={relation('zone_lsn')}",
            berlin,
        ),
        "stg_events": (events, f"{berlin}, statuses=['S', 'N'], driver_user='DRIVER'"),
        "stg_reset": (
            f"openedge_change_table({relation('reset_cdc')}, ['id']",
            "partition_resets='truncate'",
        ),
    }

    def run(*arguments: str) -> dict[str, str]:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", *calls, *arguments)
        return dict(re.findall(r"(stg_\w+): (.*\w)", capfd.readouterr().out))

    for name, (call, _) in calls.items():
        project.stream(name, call + ")")
    run("--full-refresh")
    for name, (call, rule) in calls.items():
        project.stream(name, f"{call}, {rule})")
    said = run()
    for name, (_, rule) in calls.items():
        assert re.search(rf"because another `.*{rule.split('=')[0]}.* was given", said[name]), name
    found = lake.contents(*calls)
    an_hour_before = noon - timedelta(hours=1)
    assert {
        change["changed_at"] for name in calls if name != "stg_reset" for change in found[name]
    } == {an_hour_before}
    assert [change["reject_reason"] for change in found["stg_events"]] == [
        *(None, None),
        "not eligible: perpetrator is the driver: DRIVER",
        None,
    ]
    assert [change["operation"] for change in found["stg_reset"]] == ["insert", "truncate"]
    assert [change["operation"] for change in found["stg_zone_ccd"]] == ["insert", "load"]
    # A table of an earlier release does not say how it was read.
    lake.spark.sql(f"alter table {SCHEMA}.stg_reset unset tblproperties ('afterimage.keys')")
    project.stream("stg_reset", calls["stg_reset"][0] + ")")
    assert set(run().values()) == {"nothing new"}
    project.stream("stg_reset", f"{calls['stg_reset'][0]}, {calls['stg_reset'][1]})")
    run("--full-refresh")
    assert lake.contents(*calls) == found


def unite_calls(project: Project, name: str, *calls: str) -> None:
    parts = [f"select * from ({{{{ {call} }}}})" for call in calls]
    project.model(name, " union all ".join(parts), materialized="change_stream")


@pytest.mark.minutes
def test_a_call_is_compared_with_the_arguments_that_it_had_itself(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another call over the same raw table may have had the new ones before."""
    event = {
        "status": "N",
        "event_type": 1,
        "event_time": datetime(2024, 1, 1),
        "perpetrator": "DRIVER",
        "column_name": "name",
        "new_value": "x",
    }
    tables = {1: "usr", 2: "grp"}
    rows = [
        {**event, "record_id": number, "table_key": f"id={number}", "table_name": table}
        for number, table in tables.items()
    ]
    lake.create("both_log", LOG, rows)
    columns = column_list(id="int", name="string")
    log = f"netiq_event_log({relation('both_log')}, ['id'], columns={columns}, table="
    driver = ", driver_user='DRIVER'"
    # What the first call has had from the beginning is given to the second one.
    read_again = {"stg_both_users": (log, f"'usr'{driver}", "'grp'", f"'grp'{driver}")}
    refused = {"stg_both_places": (log, "'usr'", "'grp', future_events=true", "'grp'")}
    calls = {**read_again, **refused}

    def write(number: int) -> None:
        for name, (call, first, *second) in calls.items():
            unite_calls(project, name, f"{call}{first})", f"{call}{second[number]})")

    def run(*arguments: str) -> dict[str, str]:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", *read_again, *arguments)
        return dict(re.findall(r"(stg_\w+): (.*\w)", capfd.readouterr().out))

    write(0)
    project.dbt("run", "--select", *calls, "--full-refresh")
    write(1)
    said = run()
    assert "because another `driver_user` was given" in said["stg_both_users"]
    found = lake.contents(*read_again)
    assert {change["reject_reason"] for change in found["stg_both_users"]} == {
        "not eligible: perpetrator is the driver: DRIVER"
    }
    assert set(run().values()) == {"nothing new"}
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", *refused)
    assert sorted(re.findall(r"the `(\w+)` of .*?(Built with: .*)", str(error.value))) == [
        ("future_events", "Built with: true. Got: false"),
    ]
    # Calls may change places.
    for name, (call, first, _, second) in read_again.items():
        unite_calls(project, name, f"{call}{second})", f"{call}{first})")
    assert set(run().values()) == {"nothing new"}
    run("--full-refresh")
    assert lake.contents(*read_again) == found


@pytest.mark.minutes
def test_a_table_of_times_that_another_call_has_read_is_read_in_full_for_this_one(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """It has the times of rows that this call read without it."""
    noon = datetime(2024, 1, 1, 12)
    lsns = {"new": b"\x00" * 9 + b"\x05", "old": b"\x00" * 9 + b"\x06"}
    db2, server = {**DB2_HEADER, "id": "int"}, {**SERVER_HEADER, "id": "int"}
    for number, (name, lsn) in enumerate(lsns.items()):
        places = dict.fromkeys(("IBMSNAP_COMMITSEQ", "IBMSNAP_INTENTSEQ"), lsn)
        lake.create(f"{name}_cd", db2, [{**places, "IBMSNAP_OPERATION": "I", "id": number}])
        places = dict.fromkeys(("__$start_lsn", "__$seqval"), lsn)
        lake.create(f"{name}_ct", server, [{**places, "__$operation": 2, "id": number}])
    commits = [
        {
            "IBMSNAP_COMMITSEQ": lsn,
            "IBMSNAP_LOGMARKER": noon,
            "start_lsn": lsn,
            "tran_end_time": noon,
        }
        for lsn in lsns.values()
    ]
    lake.create("both_uow", DB2_UOW, commits)
    lake.create("both_lsn", LSN_TIMES, commits)
    times = {
        "stg_both_cd": ("db2_change_data", "cd", f"uow={relation('both_uow')}"),
        "stg_both_ct": ("sqlserver_change_table", "ct", f"lsn_times={relation('both_lsn')}"),
    }

    def write(of_old: bool) -> None:
        for name, (macro, table, by) in times.items():
            new, old = (f"{macro}({relation(f'{half}_{table}')}, ['id']" for half in lsns)
            unite_calls(project, name, f"{new}, {by})", f"{old}, {by})" if of_old else f"{old})")

    def run(*arguments: str) -> dict[str, str]:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", *times, *arguments)
        return dict(re.findall(r"(stg_\w+): (.*\w)", capfd.readouterr().out))

    def found() -> dict[str, list[datetime | None]]:
        changes = lake.contents(*times).items()
        return {
            name: [row["changed_at"] for row in sorted(rows, key=lambda row: row["after"]["id"])]
            for name, rows in changes
        }

    write(of_old=False)
    run("--full-refresh")
    assert found() == {name: [noon, None] for name in times}
    assert set(run().values()) == {"nothing new"}
    write(of_old=True)
    said = run()
    assert said.keys() == times.keys()
    for line in said.values():
        assert "because there is no record of what was read before" in line
    assert found() == {name: [noon, noon] for name in times}
    contents = lake.contents(*times)
    assert set(run().values()) == {"nothing new"}
    # A table of an earlier release does not say which call has read what.
    for name in times:
        lake.spark.sql(f"alter table {SCHEMA}.{name} unset tblproperties ('afterimage.keys')")
    assert set(run().values()) == {"nothing new"}
    run("--full-refresh")
    assert lake.contents(*times) == contents


@pytest.mark.minutes
def test_the_arguments_of_a_model_over_a_view_are_noted_each_time(
    project: Project, lake: Lake
) -> None:
    """They are all that is remembered of it. A sample leaves rows out: the next run reads them."""
    noon = datetime(2024, 1, 1, 12)
    queried = {
        "record_id": 1,
        "table_key": "id=1",
        "status": "N",
        "event_type": 5,
        "event_time": noon,
        "table_name": "usr",
    }
    lake.create("noted_log", LOG, [queried])
    lake.create("noted_base", {"id": "int"}, [{"id": 1}])
    lake.create("noted_topic", {"value": "string"}, [])
    lsn = b"\x00" * 9 + b"\x05"
    captured = {
        "IBMSNAP_COMMITSEQ": lsn,
        "IBMSNAP_INTENTSEQ": lsn,
        "IBMSNAP_OPERATION": "I",
        "IBMSNAP_LOGMARKER": noon,
        "id": 1,
    }
    ccd = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "int"}
    lake.create("noted_ccd", ccd, [captured])
    views = [f"noted_{name}" for name in ("log", "ccd", "topic")]
    for name in views:
        view = f"spark_catalog.default.{name}_view"
        lake.spark.sql(f"drop view if exists {view}")
        lake.spark.sql(f"create view {view} as select * from {SCHEMA}.{name}")
    project.file(
        "models/noted.yml",
        "sources: [{name: noted, schema: spark_catalog.default, tables: ["
        "{name: noted_log_view, config: {event_time: event_time}},"
        " {name: noted_ccd_view, config: {event_time: IBMSNAP_LOGMARKER}}]}]",
    )
    models = [f"stg_{name}" for name in views]

    def run(zone: str, *arguments: str, table: str = "none") -> set[datetime]:
        columns = column_list(id="int")
        calls = [
            f"netiq_event_log(source('noted', 'noted_log_view'), ['id'], 'usr', {columns},"
            f" base={relation('noted_base')}, time_zone={zone})",
            f"db2_change_data(source('noted', 'noted_ccd_view'), ['id'], time_zone={zone})",
            f"qlik_messages({relation('noted_topic_view', 'spark_catalog.default')}, ['id'],"
            f" {columns}, {table})",
        ]
        for name, call in zip(models, calls, strict=True):
            project.stream(name, call)
        project.dbt("run", "--select", *models, *arguments)
        found = lake.contents(*models)
        return {change["changed_at"] for name in models for change in found[name]}

    in_berlin = noon - timedelta(hours=1)
    assert run("'UTC'", "--full-refresh") == {noon}
    assert run("'Europe/Berlin'", "--sample", "1 day") == {noon}
    assert run("'Europe/Berlin'") == {in_berlin}
    assert run("'UTC'", table="'orders'") == {noon}
    with pytest.raises(DbtError, match=r"the `table` of .*Built with: orders\. Got: order_lines"):
        run("'UTC'", table="'order_lines'")
    for name in views:
        lake.spark.sql(f"drop view spark_catalog.default.{name}_view")
        (project.folder / f"models/stg_{name}.sql").unlink()
    (project.folder / "models/noted.yml").unlink()


@pytest.mark.minutes
def test_an_argument_that_was_tried_may_be_taken_back(project: Project, lake: Lake) -> None:
    """By a sample, or by a run that ended before it had noted anything."""
    noon, lsn = datetime(2024, 1, 1, 12), b"\x00" * 9 + b"\x05"
    change = {
        "IBMSNAP_COMMITSEQ": lsn,
        "IBMSNAP_INTENTSEQ": lsn,
        "IBMSNAP_OPERATION": "I",
        "IBMSNAP_LOGMARKER": noon,
        "id": 2,
    }
    load = {**change, "IBMSNAP_COMMITSEQ": None, "IBMSNAP_INTENTSEQ": None, "id": 1}
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "int"}
    lake.create("tried_ccd", columns, [load, change])
    project.file(
        "models/tried.yml",
        f"sources: [{{name: tried, schema: {SCHEMA}, tables: [{{name: tried_ccd,"
        " config: {event_time: IBMSNAP_LOGMARKER}}]}]",
    )

    def run(zone: str, *arguments: str) -> None:
        project.stream(
            "stg_tried",
            f"db2_change_data(source('tried', 'tried_ccd'), ['id'], time_zone='{zone}')",
            on_schema_change="append_new_columns",
        )
        project.dbt("run", "--select", "stg_tried", *arguments)

    def times() -> set[datetime]:
        return {one["changed_at"] for one in lake.rows(f"select * from {SCHEMA}.stg_tried")}

    def try_berlin() -> None:
        with (
            ended(lambda sql: "merge into" in sql.lower(), after=True),
            pytest.raises(DbtError, match=ENDED),
        ):
            run("Europe/Berlin")

    in_berlin = noon - timedelta(hours=1)
    run("UTC", "--full-refresh")
    for attempt in (partial(run, "Europe/Berlin", "--sample", "20 years"), try_berlin):
        attempt()
        assert times() == {in_berlin}
        run("UTC")
        assert times() == {noon}
    # A sample adds a new column, but does not come to the end of that.
    lake.spark.sql(f"alter table {SCHEMA}.tried_ccd add columns (city string)")
    run("UTC", "--sample", "20 years")
    run("America/New_York")
    assert times() == {noon + timedelta(hours=5)}


@pytest.mark.slow
def test_an_argument_given_later_over_a_view_must_stay(project: Project, lake: Lake) -> None:
    """Files of a full load have no order. Nothing has landed, so nothing else is to note."""
    lake.create(
        "ordered_later",
        {"id": "int", "Op": "string", "place": "string", "number": "int"},
        [],
    )

    def run(columns: str, order_by: str, *arguments: str) -> None:
        view = "spark_catalog.default.ordered_later_view"
        lake.spark.sql(f"drop view if exists {view}")
        lake.spark.sql(f"create view {view} as select {columns} from {SCHEMA}.ordered_later")
        project.stream(
            "stg_ordered_later",
            f"dms_changes({relation('ordered_later_view', 'spark_catalog.default')}, ['id'],"
            f" columns=['id'], order_by={order_by})",
        )
        project.dbt("run", "--select", "stg_ordered_later", *arguments)

    run("id", "none", "--full-refresh")
    run("*", "['place']")
    with pytest.raises(DbtError, match=r"the `order_by` of .*Built with: place\. Got: number"):
        run("*", "['number']")
    lake.spark.sql("drop view spark_catalog.default.ordered_later_view")
    (project.folder / "models/stg_ordered_later.sql").unlink()


@pytest.mark.minutes
def test_incremental_needs_a_full_refresh_for_a_new_column(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(project, lake, capfd, INCREMENTAL)
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} add column city string")
    with pytest.raises(DbtError, match=r"have changed since .* \(added: city\)"):
        runs.run()


@pytest.mark.minutes
def test_a_table_built_by_incremental_is_taken_over(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(project, lake, capfd, INCREMENTAL)
    staged = runs.staged()
    model(project)
    assert runs.run().endswith("because there is no record of what was read before, nothing new")
    runs.assert_nothing_new()
    assert runs.staged() == staged


@pytest.mark.slow
def test_rows_with_a_map_are_compared_with_earlier_ones(
    project: Project, lake: Lake, runs: Runs
) -> None:
    columns = {**COLUMNS, "marks": "map<string, int>"}
    first = [{**row(at(1), "I", "a"), "marks": {"x": 1, "y": 2}}]
    model(project, raw="mapped__ct")
    lake.create("mapped__ct", columns, first)
    runs.run("--full-refresh")
    lake.append("mapped__ct", columns, [*first, {**row(at(2), "U", "a"), "marks": {"x": 2}}])
    assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    assert [one["after"]["marks"] for one in runs.staged()] == [{"x": 1, "y": 2}, {"x": 2}]
    assert [one["source_rows"] for one in runs.staged()] == [2, 1]
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
def test_a_body_that_names_its_columns(project: Project, lake: Lake, runs: Runs) -> None:
    """Such as a filter around the macro: it does not mark the known changes."""
    columns = ", ".join(runs.staged()[0]) + ", ingested_at"
    body = project.folder / "models/stg_stream.sql"
    config, call = body.read_text().split("\n", 1)
    body.write_text(f"{config}\nselect {columns} from (\n{call}\n) as changes")
    runs.land(row(at(4), "U", "d"), row(at(3), "B", "b"))
    assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    assert runs.run() == "nothing new"
    runs.assert_as_a_full_refresh()


def unite(
    project: Project,
    lake: Lake,
    east: dict[str, str] = COLUMNS,
    west: dict[str, str] = COLUMNS,
    **config: Any,
) -> None:
    """Make two raw tables, and write a model of them."""
    for number, (name, columns) in enumerate({"east": east, "west": west}.items(), 1):
        lake.create(f"{name}__ct", columns, [row(at(number), "I", name, number)])
    write_union(project, relation("east__ct"), relation("west__ct"), **config)


def write_union(project: Project, *relations: str, **config: Any) -> None:
    parts = [
        f"select * from ({{{{ qlik_change_table({raw}, unique_key=['id']) }}}})"
        for raw in relations
    ]
    union = " union all ".join(parts)
    project.model("stg_stream", union, materialized="change_stream", **config)


@pytest.mark.minutes
def test_a_model_may_unite_several_raw_tables(project: Project, lake: Lake, runs: Runs) -> None:
    """Also when only some of them have news."""
    unite(project, lake)
    runs.run("--full-refresh")
    runs.assert_nothing_new()
    lake.append("west__ct", COLUMNS, [row(at(3), "U", "far west", 2)])
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
def test_a_further_raw_table_that_begins_later_is_no_gap_for_good(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """Of its own rows none was read, and the newest place is that of the other table."""
    unite(project, lake)
    write_union(project, relation("east__ct"))
    runs.run("--full-refresh")
    write_union(project, relation("east__ct"), relation("west__ct"))
    strict = ("--vars", "{afterimage_on_gap: error}")
    with pytest.raises(DbtError, match="for one run, if the table is a further one of the model"):
        runs.run(*strict)
    assert "1 new" in runs.run("--vars", "{afterimage_on_gap: ignore}")
    lake.append("west__ct", COLUMNS, [row(at(3), "U", "far west", 2)])
    assert "1 new" in runs.run(*strict)


@pytest.mark.needs("iceberg")
@pytest.mark.slow
def test_raw_tables_that_a_model_unites_may_have_types_of_two_widths(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """The staging table has the wider ones."""
    narrow = COLUMNS | {"price": "decimal(5,2)", "size": "float"}
    wide = COLUMNS | {"id": "bigint", "price": "decimal(9,2)", "size": "double"}
    unite(project, lake, narrow, wide)
    runs.run("--full-refresh")
    news = {"price": Decimal("1.50"), "size": 0.5}
    lake.append("east__ct", narrow, [row(at(3), "U", "far east", 1) | news])
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    lake.append("east__ct", narrow, [row(at(3), "U", "far east", 1) | news])
    lake.append("west__ct", wide, [row(at(4), "U", "far west", 2**40) | news])
    assert "2 changes: 1 new, 1 known, 0 rejected" in runs.run()
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_narrower_raw_table_may_be_added_and_the_wider_one_taken_away(
    project: Project, lake: Lake, runs: Runs
) -> None:
    narrow = COLUMNS | {"price": "decimal(5,2)", "size": "int"}
    wide = COLUMNS | {"id": "bigint", "price": "decimal(9,2)", "size": "bigint"}
    unite(project, lake, narrow, wide)
    east, west = relation("east__ct"), relation("west__ct")
    write_union(project, west)
    runs.run("--full-refresh")
    write_union(project, west, east)
    assert "1 changes: 1 new, 0 known, 0 rejected" in runs.run()
    write_union(project, east)
    for day in (3, 4):
        news = {"price": Decimal("1.50"), "size": day}
        lake.append("east__ct", narrow, [row(at(day), "U", f"day {day}") | news])
        # What landed before comes again.
        lake.append("east__ct", narrow, [row(at(1), "I", "east")])
        assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    runs.assert_nothing_new()
    found = lake.rows(f"select after.name, after.size from {TABLE} order by change_seq")
    assert [tuple(change.values()) for change in found] == [
        ("east", None),
        ("west", None),
        ("day 3", 3),
        ("day 4", 4),
    ]
    # A full refresh begins with the one raw table.
    runs.run("--full-refresh")
    lake.create("east__ct", narrow | {"price": "decimal(4,2)"}, [])
    with pytest.raises(DbtError, match=r"price \(decimal\(5,2\), now decimal\(4,2\)\)"):
        runs.run()


@pytest.mark.slow
def test_a_change_that_two_united_tables_hold_counts_once_in_one_table(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """In two it is there twice, as the docs say."""
    same = row(at(1), "I", "a")
    for name in ("east__ct", "west__ct"):
        lake.create(name, COLUMNS, [same])
    write_union(project, relation("east__ct"), relation("west__ct"))
    runs.run("--full-refresh")
    assert [change["source_rows"] for change in runs.staged()] == [1, 1]
    lake.create("both__ct", COLUMNS, [same] * 2)
    model(project, raw="both__ct")
    runs.run("--full-refresh")
    assert [change["source_rows"] for change in runs.staged()] == [2]


@pytest.mark.minutes
def test_united_tables_may_have_columns_with_capitals(
    project: Project, lake: Lake, runs: Runs
) -> None:
    columns = {"Op": "string", "AR_H_CHANGE_SEQ": "string", "ID": "int", "NAME": "string"}

    def change(day: int, op: str, key: int) -> dict[str, Any]:
        place = f"202401{day:02}".ljust(35, "0")
        return {"Op": op, "AR_H_CHANGE_SEQ": place, "ID": key, "NAME": f"{op} {day}"}

    parts = []
    for key, name in enumerate(["EAST", "WEST"], 1):
        lake.create(name, columns, [change(key, "I", key)])
        parts.append(f"select * from ({{{{ dms_changes({relation(name)}, unique_key=['ID']) }}}})")
    project.model("stg_stream", " union all ".join(parts), materialized="change_stream")
    runs.run("--full-refresh")
    lake.append("WEST", columns, [change(2, "I", 2), change(3, "U", 2)])
    assert "1 new, 1 known, 0 rejected" in runs.run()
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
def test_a_new_column_must_be_in_all_raw_tables_that_a_model_unites(
    project: Project, lake: Lake, runs: Runs
) -> None:
    unite(project, lake, on_schema_change="append_new_columns")
    runs.run("--full-refresh")
    before = runs.staged()
    lake.spark.sql(f"alter table {SCHEMA}.west__ct add columns (city string)")
    news = row(at(3), "U", "far west", 2) | {"city": "Rome"}
    lake.append("west__ct", COLUMNS | {"city": "string"}, [news])
    with pytest.raises(
        DbtError, match=r"Got: \S+west__ct with id, name, city; \S+east__ct without city"
    ):
        runs.run()
    assert runs.staged() == before
    lake.spark.sql(f"alter table {SCHEMA}.east__ct add columns (city string)")
    assert "1 new" in runs.run()
    assert {one["after"]["city"] for one in runs.staged()} == {None, "Rome"}
    runs.assert_as_a_full_refresh()
    # Of a column in two types, values of one would be cut to the other.
    for name, kind in {"east": "int", "west": "double"}.items():
        lake.spark.sql(f"alter table {SCHEMA}.{name}__ct add columns (rate {kind})")
    news = row(at(4), "U", "rated", 2) | {"city": "Rome", "rate": 1.7}
    lake.append("west__ct", COLUMNS | {"city": "string", "rate": "double"}, [news])
    before = runs.staged()
    for arguments in ([], ["--full-refresh"]):
        with pytest.raises(
            DbtError, match=r"Got: `rate`, which is int in \S+east__ct, and double once"
        ):
            runs.run(*arguments)
    assert runs.staged() == before


@pytest.mark.slow
def test_raw_tables_with_their_columns_in_another_order_are_not_united(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """Spark unites images by position: a name would become a city."""
    before = runs.staged()
    header = {name: kind for name, kind in COLUMNS.items() if name.startswith("header__")}
    west = header | {"id": "int", "city": "string", "name": "string"}
    unite(project, lake, COLUMNS | {"city": "string"}, west)
    with pytest.raises(
        DbtError, match=r"Got: \S+west__ct with id, city, name; \S+east__ct with id, name, city"
    ):
        runs.run("--full-refresh")
    assert runs.staged() == before


@pytest.mark.slow
def test_raw_tables_that_spell_their_columns_in_two_ways_are_not_united(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """Else each run after the build would take them for columns that have changed."""
    before = runs.staged()
    west = {"NAME" if name == "name" else name: kind for name, kind in COLUMNS.items()}
    unite(project, lake, COLUMNS, west)
    with pytest.raises(
        DbtError, match=r"spelled alike.* Got: \S+west__ct with id, NAME; \S+east__ct without NAME"
    ):
        runs.run("--full-refresh")
    assert runs.staged() == before


def test_the_columns_have_the_documented_types(runs: Runs, lake: Lake) -> None:
    """A contract of dbt compares them."""
    page = (ROOT / "docs/reference/change_contract.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| (string|int|timestamp) \|", page, re.MULTILINE))
    assert len(documented) == 9
    types = {row["col_name"]: row["data_type"] for row in lake.rows(f"describe {TABLE}")}
    assert {name: types[name] for name in documented} == documented


@pytest.mark.slow
def test_compile_leaves_nothing_behind(project: Project, lake: Lake, runs: Runs) -> None:
    runs.land(row(at(4), "U", "d"))
    node = project.dbt("compile", "--select", "stg_stream").results[0].node
    assert [change["change_seq"] for change in lake.rows(node.compiled_code)] == [at(4)]
    assert not lake.rows("show views in spark_catalog.global_temp like 'afterimage_*'")
    assert node.config.meta == {}


@pytest.mark.slow
def test_what_a_run_decided_is_not_left_in_the_manifest(project: Project, runs: Runs) -> None:
    """The source macro notes it in the model's meta, and the materialization takes it away."""
    for rows in [[row(at(4), "U", "d")], []]:
        if rows:
            runs.land(*rows)
        assert project.dbt("run", "--select", "stg_stream").results[0].node.config.meta == {}


def test_a_model_that_is_not_a_change_stream_is_an_error(project: Project) -> None:
    project.model("stg_none", "select 1 as change_id", materialized="change_stream")
    with pytest.raises(DbtError, match=r"must return the columns of the .*change_seq"):
        project.dbt("run", "--select", "stg_none")


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_staging_table_copied_to_another_schema_reads_everything_once(
    runs: Runs, lake: Lake
) -> None:
    """A copy by a query has no properties."""
    staged = runs.staged()
    lake.spark.sql(f"create table {SCHEMA}.copied using {FORMAT} as select * from {TABLE}")
    lake.spark.sql(f"drop table {TABLE}")
    lake.spark.sql(f"create table {TABLE} using {FORMAT} as select * from {SCHEMA}.copied")
    lake.spark.sql(f"drop table {SCHEMA}.copied")
    runs.land(row(at(4), "U", "d"))
    said = runs.run()
    assert said.startswith(f"read all 6 rows of {SCHEMA}.{RAW} because there is no record")
    assert said.endswith("1 changes: 1 new, 0 known, 0 rejected")
    assert [change for change in runs.staged() if change["change_seq"] != at(4)] == staged
    runs.assert_nothing_new()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_dropped_partitions_remove_no_change(runs: Runs, lake: Lake) -> None:
    raw = f"{SCHEMA}.{RAW}"
    lake.spark.sql(f"alter table {raw} add partition field header__change_oper")
    runs.land(row(at(4), "D", "c"), row(at(5), "I", "again"))
    runs.run()
    staged = runs.staged()
    lake.spark.sql(f"delete from {raw} where header__change_oper = 'D'")
    assert runs.run() == "nothing new"
    assert runs.staged() == staged


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_branch_is_read_in_full(project: Project, runs: Runs, lake: Lake) -> None:
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} create branch audited")
    runs.land(row(at(4), "U", "not audited"))
    project.stream(
        "stg_stream",
        f"qlik_change_table({relation(f'{RAW}.branch_audited')}, unique_key=['id'])",
    )
    runs.run("--full-refresh")
    assert len(runs.staged()) == len(FIRST) - 1
    branch = f"insert into {SCHEMA}.{RAW}.branch_audited values"
    lake.spark.sql(f"{branch} ('{at(9).replace('2024', '2023')}', 'U', null, 1, 'late')")
    assert runs.run() == "1 changes: 1 new, 0 known, 0 rejected"
    assert runs.run() == "nothing new"


class Landing:
    """A raw table of the session catalog, whose rows the change stream reads."""

    def __init__(
        self,
        lake: Lake,
        project: Project,
        name: str,
        using: str,
        more: dict[str, str] | None = None,
    ) -> None:
        self.lake, self.project, self.name = lake, project, f"spark_catalog.default.{name}"
        self.columns = COLUMNS | (more or {})
        columns = ", ".join(f"{column} {kind}" for column, kind in self.columns.items())
        self.drop()
        lake.spark.sql(f"create table {self.name} ({columns}) using {using}")
        project.stream(
            "stg_stream",
            f"qlik_change_table({relation(name, 'spark_catalog.default')}, unique_key=['id'])",
        )

    def land(self, *rows: dict[str, Any]) -> None:
        self.earlier = self.files()
        for landed in rows:
            values = [landed.get(name) for name in self.columns]
            literals = ", ".join("null" if value is None else repr(value) for value in values)
            self.lake.spark.sql(f"insert into {self.name} values ({literals})")

    def drop(self) -> None:
        self.lake.spark.sql(f"drop table if exists {self.name}")

    def files(self) -> set[Path]:
        rows = self.lake.rows(f"describe table extended {self.name}")
        [location] = [row["data_type"] for row in rows if row["col_name"] == "Location"]
        return set(Path(urlparse(location).path).iterdir())

    def age(self, hours: float) -> None:
        """Set the age of the files that landed last."""
        for file in self.files() - self.earlier:
            time = file.stat().st_mtime - 3600 * hours
            os.utime(file, (time, time))


@pytest.mark.minutes
@pytest.mark.parametrize("using", ["parquet", "json"])
def test_files_are_read_by_when_they_were_written(
    using: str, project: Project, lake: Lake, runs: Runs
) -> None:
    landing = Landing(lake, project, f"files_{using}__ct", using)
    landing.land(*FIRST[:3])
    landing.age(hours=5)
    assert "built" in runs.run("--full-refresh")
    assert runs.run() == "nothing new"
    assert landing.name not in re.sub(r"/\*.*?\*/", "", runs.sql)
    # A year late, and the update whose before-image is in a file of five hours ago.
    landing.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(2), "U", "b"))
    assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    [update] = [change for change in runs.staged() if change["change_seq"] == at(2)]
    assert (update["before"]["name"], update["source_rows"]) == ("a", 2)
    # A file of the last hour that comes to light behind a newer one.
    landing.land(row(at(7), "U", "slow"))
    landing.age(hours=1 / 4)
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    # One that came without Spark.
    [slow] = [file for file in landing.files() - landing.earlier if file.name.startswith("part-")]
    shutil.copy(slow, slow.with_name(f"part-again-{slow.name}"))
    assert runs.run() == "1 rows landed, 1 changes: 0 new, 1 known, 0 rejected"
    assert runs.run() == "nothing new"
    runs.assert_as_a_full_refresh()
    landing.drop()


@pytest.mark.minutes
def test_files_may_have_a_column_like_a_detail_of_their_table(
    project: Project, lake: Lake, runs: Runs
) -> None:
    landing = Landing(lake, project, "provided__ct", "parquet", {"Provider": "string"})
    landing.land(*FIRST[1:3])
    runs.run("--full-refresh")
    landing.land(row(at(9), "U", "z"))
    said = runs.run()
    landing.drop()
    assert said == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"


@pytest.mark.minutes
def test_a_column_that_hides_when_files_were_written_hides_no_row(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """A loader has kept what Spark said of its own files; in these rows it knew nothing."""
    details = "file_path:string, file_size:bigint, file_modification_time:timestamp"
    more = {"_metadata": f"struct<{details}>"}
    landing = Landing(lake, project, "loaded__ct", "parquet", more)
    landing.land(*FIRST[1:3])
    runs.run("--full-refresh")
    landing.land(row(at(9), "U", "z"))
    said = runs.run()
    landing.drop()
    assert said == (
        f"read all rows of {landing.name} because it has a column `_metadata`,"
        " 1 changes: 1 new, 0 known, 0 rejected"
    )


@pytest.mark.slow
def test_a_schema_may_have_the_name_of_a_format(project: Project, lake: Lake) -> None:
    lake.spark.sql("create namespace if not exists csv")
    lake.spark.sql("drop table if exists csv.people__ct")
    place = "csv.people__ct"
    lake.frame(COLUMNS, FIRST[1:2]).writeTo(place).using(FORMAT).create()
    project.stream("stg_csv", f"qlik_change_table({relation('people__ct', 'csv')}, ['id'])")
    project.dbt("run", "--select", "stg_csv")
    lake.frame(COLUMNS, [row(at(9), "U", "z")]).writeTo(place).append()
    project.dbt("run", "--select", "stg_csv")
    assert len(lake.rows(f"select * from {SCHEMA}.stg_csv")) == 2


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_table_of_files_may_take_the_name_of_an_iceberg_table(
    project: Project, lake: Lake, runs: Runs
) -> None:
    landing = Landing(lake, project, "followed__ct", "parquet")
    landing.land(*FIRST[1:3])
    runs.run("--full-refresh")
    read = json.dumps({landing.name: "8744736658442914487"}).encode().hex()
    lake.spark.sql(f"alter table {TABLE} set tblproperties ('afterimage.read' = '{read}')")
    landing.land(row(at(9), "U", "z"))
    said = runs.run()
    landing.drop()
    assert said.endswith("1 changes: 1 new, 0 known, 0 rejected")


@pytest.mark.minutes
def test_a_file_from_the_future_hides_no_later_one(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """The clock of a writer is three hours ahead."""
    landing = Landing(lake, project, "future__ct", "parquet")
    landing.land(*FIRST[:3])
    landing.age(hours=-3)
    runs.run("--full-refresh")
    landing.land(row(at(9), "U", "z"))
    said = runs.run()
    landing.drop()
    assert said == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"


@pytest.mark.minutes
def test_a_clock_that_was_set_back_hides_no_file(project: Project, lake: Lake, runs: Runs) -> None:
    """What is remembered was noted a day ahead."""
    landing = Landing(lake, project, "set_back__ct", "parquet")
    landing.land(*FIRST[1:3])
    runs.run("--full-refresh")
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    state = json.dumps({"newest": int(tomorrow.timestamp() * 1_000_000), "files": None})
    read = json.dumps({landing.name: state}).encode().hex()
    lake.spark.sql(f"alter table {TABLE} set tblproperties ('afterimage.read' = '{read}')")
    landing.land(row(at(9), "U", "z"))
    said = runs.run()
    assert "because the clock was set back" in said
    assert said.endswith("1 changes: 1 new, 0 known, 0 rejected")
    assert runs.run() == "nothing new"
    landing.drop()


@pytest.mark.minutes
def test_a_view_is_read_in_full_unless_a_look_back_is_set(
    project: Project, lake: Lake, runs: Runs
) -> None:
    landing = Landing(lake, project, "seen__ct", "parquet")
    view = landing.name.replace("seen", "view")
    model = project.folder / "models/stg_stream.sql"
    model.write_text(model.read_text().replace("seen", "view"))
    lake.spark.sql(f"drop view if exists {view}")
    lake.spark.sql(f"create view {view} as select * from {landing.name}")
    landing.land(*FIRST)
    runs.run("--full-refresh")
    assert runs.run() == "nothing new"
    landing.land(row(at(9).replace("2024", "2023"), "I", "late", 2))
    assert runs.run() == "1 changes: 1 new, 0 known, 0 rejected"
    landing.land(row(at(8).replace("2024", "2022"), "I", "too late", 3), row(at(4), "U", "d"))
    in_a_day = ("--vars", "afterimage_lookback_hours: 24")
    assert runs.run(*in_a_day) == "1 changes: 1 new, 0 known, 0 rejected"
    assert runs.run() == "1 changes: 1 new, 0 known, 0 rejected"
    lake.spark.sql(f"drop view {view}")
    landing.drop()


LOOK_BACK = ("--vars", "afterimage_lookback_hours: 6")


def see(lake: Lake, table: str) -> str:
    """Make a view of a table, and return it as Jinja names it."""
    view = f"spark_catalog.default.{table}_view"
    lake.spark.sql(f"drop view if exists {view}")
    lake.spark.sql(f"create view {view} as select * from {SCHEMA}.{table}")
    return relation(f"{table}_view", "spark_catalog.default")


@pytest.mark.minutes
def test_a_view_that_was_not_read_before_is_read_whole_despite_a_look_back(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """It comes beside another, whose newest change is days later, or in its place."""
    days = {"east": (1, 9), "west": (2, 3), "north": (4, 5)}
    views = []
    for key, (name, (first, second)) in enumerate(days.items(), 1):
        rows = [row(at(first), "I", "first", key), row(at(second), "U", "second", key)]
        lake.create(f"{name}__ct", COLUMNS, rows)
        views.append(see(lake, f"{name}__ct"))
    east, west, north = views
    write_union(project, east)
    runs.run("--full-refresh")
    for relations, new in (((east, west), "west"), ((east, north), "north")):
        write_union(project, *relations)
        assert runs.run(*LOOK_BACK) == (
            f"read all rows of spark_catalog.default.{new}__ct_view because there is no record of"
            " what was read before, 2 changes: 2 new, 0 known, 0 rejected"
        )
        assert runs.run(*LOOK_BACK) == "nothing new"
    for name in days:
        lake.spark.sql(f"drop view spark_catalog.default.{name}__ct_view")


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_staging_table_rolled_back_reads_a_view_whole_despite_a_look_back(
    project: Project, lake: Lake, runs: Runs
) -> None:
    write_union(project, see(lake, RAW))
    runs.run("--full-refresh")
    [first] = runs.snapshot()
    runs.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(4), "U", "d"))
    assert runs.run() == "2 changes: 2 new, 0 known, 0 rejected"
    staged = runs.staged()
    lake.spark.sql(f"call system.rollback_to_snapshot('{TABLE}', {first['snapshot_id']})")
    assert f"because {TABLE} was rolled back, 2 changes: 2 new" in runs.run(*LOOK_BACK)
    assert runs.staged() == staged
    assert runs.run(*LOOK_BACK) == "nothing new"
    lake.spark.sql(f"drop view spark_catalog.default.{RAW}_view")


@pytest.mark.minutes
def test_a_new_column_of_a_view_is_read_from_all_rows_despite_a_look_back(
    project: Project, lake: Lake, runs: Runs
) -> None:
    write_union(project, see(lake, RAW), on_schema_change="append_new_columns")
    runs.run("--full-refresh")
    lake.spark.sql(
        f"create or replace view spark_catalog.default.{RAW}_view as"
        f" select *, concat('of ', name) as city from {SCHEMA}.{RAW}"
    )
    said = runs.run(*LOOK_BACK)
    assert "because it has new columns, 4 changes: 0 new, 4 known, 0 rejected" in said
    runs.assert_as_a_full_refresh()
    lake.spark.sql(f"drop view spark_catalog.default.{RAW}_view")


@pytest.mark.minutes
def test_a_build_with_a_sample_of_a_view_is_no_record_for_a_look_back(
    project: Project, lake: Lake, runs: Runs
) -> None:
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    rows = [row(at(1), "I", "old"), row(at(9), "I", "recent", 2) | {"header__timestamp": now}]
    lake.create("sampled__ct", COLUMNS, rows)
    see(lake, "sampled__ct")
    project.file(
        "models/sampled_view.yml",
        "sources: [{name: seen, schema: spark_catalog.default, tables: ["
        "{name: sampled__ct_view, config: {event_time: header__timestamp}}]}]",
    )
    write_union(project, "source('seen', 'sampled__ct_view')")
    runs.run("--full-refresh", "--sample", "1 day")
    assert len(runs.staged()) == 1
    assert "1 new" in runs.run(*LOOK_BACK)
    assert len(runs.staged()) == 2
    assert runs.run(*LOOK_BACK) == "nothing new"
    lake.spark.sql("drop view spark_catalog.default.sampled__ct_view")
    (project.folder / "models/sampled_view.yml").unlink()


@pytest.mark.minutes
def test_incremental_reads_rows_that_land_a_year_late(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(project, lake, capfd, INCREMENTAL)
    runs.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(2), "U", "b"))
    runs.run()
    assert len(runs.staged()) == len(FIRST)
    # As if that run had been three hours later, and the one before two hours ago.
    lake.spark.sql(f"update {TABLE} set ingested_at = current_timestamp() + interval 3 hours")
    runs.land(row(at(8).replace("2024", "2023"), "I", "later", 3))
    runs.run()
    assert len(runs.staged()) == len(FIRST) + 1
    runs.assert_as_a_full_refresh()


@pytest.mark.slow
def test_the_time_of_a_run_is_right_in_a_session_of_another_zone(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """West of UTC it was hours ahead: `incremental` then took rows that landed later for known."""
    zone = "spark.sql.session.timeZone"
    shipped = lake.spark.conf.get(zone) or "UTC"
    lake.spark.conf.set(zone, "America/New_York")
    start = datetime.now(timezone.utc).timestamp()
    try:
        Runs(project, lake, capfd, INCREMENTAL)
    finally:
        lake.spark.conf.set(zone, shipped)
    [run] = lake.rows(f"select distinct unix_micros(ingested_at) as micros from {TABLE}")
    # Each model has a fraction of a second of its own.
    assert start <= run["micros"] / 1e6 <= datetime.now(timezone.utc).timestamp() + 1


@pytest.mark.slow
def test_a_run_of_incremental_takes_no_sample(project: Project, lake: Lake) -> None:
    """The next run would begin at its time, and never read the other rows."""
    lake.create("part__ct", COLUMNS, [row(at(1), "I", "first")])
    project.file(
        "models/part.yml",
        f"sources: [{{name: part, schema: {SCHEMA}, tables: [{{name: part__ct,"
        " config: {event_time: header__timestamp}}]}]",
    )
    project.file(
        "models/stg_part.sql",
        f"{{{{ config({INCREMENTAL}) }}}}\n"
        "{{ qlik_change_table(source('part', 'part__ct'), unique_key=['id']) }}",
    )
    run = ["run", "--select", "stg_part"]
    project.dbt(*run, "--full-refresh")
    lake.append("part__ct", COLUMNS, [row(at(9), "I", "old", 2)])
    with pytest.raises(DbtError, match=r"takes no sample.*part__ct.*without `--sample`"):
        project.dbt(*run, "--sample", "1 day")
    project.dbt(*run)
    assert len(lake.rows(f"select * from {SCHEMA}.stg_part")) == 2


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_run_compacts_the_files_of_runs_when_there_are_many(runs: Runs) -> None:
    model(runs.project, f"{STREAM}, compact_after=3")
    said = []
    for day in range(4, 9):
        runs.land(row(at(day), "U", f"day {day}"))
        said.append(runs.run())
    # The fourth file of a run is one more than may gather.
    assert [line for line in said if line == "compacted"] == ["compacted"]
    assert said.index("compacted") == 3
    assert runs.lake.rows(f"select count(*) as n from {TABLE}.files") == [{"n": 2}]
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


@pytest.mark.needs("delta")
@pytest.mark.slow
def test_a_run_writes_comments_of_columns_that_are_new_alone(runs: Runs, lake: Lake) -> None:
    """Delta commits each of them, and its tables are compacted by the number of commits."""
    file = "models/stg_stream.yml"

    def describe(**descriptions: str) -> None:
        columns = [{"name": name, "description": said} for name, said in descriptions.items()]
        models = [{"name": "stg_stream", "columns": columns}]
        runs.project.file(file, json.dumps({"version": 2, "models": models}))

    def comments() -> dict[str, str]:
        found = lake.rows(f"describe table {TABLE}")
        return {row["col_name"]: row["comment"] for row in found if row["comment"]}

    model(runs.project, f"{STREAM}, persist_docs={{'columns': true}}")
    said = {"change_id": "the change's name", "Operation": "load, insert, …", "changed_at": ""}
    describe(**said)
    runs.run()
    expected = {"change_id": "the change's name", "operation": "load, insert, …"}
    assert comments() == expected
    before = len(lake.rows(f"describe history {TABLE}"))
    runs.assert_nothing_new()
    assert len(lake.rows(f"describe history {TABLE}")) == before
    describe(**said | {"change_id": ""})
    runs.run()
    assert len(lake.rows(f"describe history {TABLE}")) == before + 1
    assert comments() == {"operation": "load, insert, …"}
    (runs.project.folder / file).unlink()


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_run_compacts_after_the_first_snapshots_have_expired(runs: Runs, lake: Lake) -> None:
    """The catalog's own upkeep expires snapshots, the build's among them."""
    model(runs.project, f"{STREAM}, compact_after=3")
    said = []
    for day in range(4, 9):
        runs.land(row(at(day), "U", f"day {day}"))
        said.append(runs.run())
        if day == 4:
            lake.spark.sql(
                f"call system.expire_snapshots(table => '{TABLE}',"
                " older_than => timestamp '2100-01-01', retain_last => 1)"
            )
    assert "compacted" in said


def history_of_the_stream(project: Project) -> None:
    project.history("stream_history", "stg_stream")
    project.dbt("run", "--select", "stream_history", "--full-refresh")


@pytest.mark.minutes
def test_a_full_refresh_after_the_clock_was_ahead_reaches_the_history(
    project: Project, lake: Lake, runs: Runs
) -> None:
    lake.spark.sql(f"update {TABLE} set ingested_at = ingested_at + interval 3 days")
    history_of_the_stream(project)
    runs.run("--full-refresh")
    runs.land(row(at(9), "I", "new", 99))
    runs.run()
    project.dbt("run", "--select", "stream_history")
    (project.folder / "models/stream_history.sql").unlink()
    assert len(lake.rows(f"select * from {SCHEMA}.stream_history where id = 99")) == 1


@pytest.mark.slow
def test_a_full_refresh_of_staging_alone_warns_of_changes_that_are_gone(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """The history reads what is new, and so keeps what came of them."""
    history_of_the_stream(project)
    refresh = (*STRICT, "run", "--full-refresh", "--select")
    delete = f"delete from {SCHEMA}.{RAW} where header__change_seq = '{{}}'"
    project.dbt(*refresh, "stg_stream")
    lake.spark.sql(delete.format(at(3)))
    with pytest.raises(
        DbtError, match=r"1 changes that .* stays in stream_history\. .* --select stg_stream\+`"
    ):
        project.dbt(*refresh, "stg_stream")
    lake.spark.sql(delete.format(at(1)))
    project.dbt(*refresh, "stg_stream+")
    (project.folder / "models/stream_history.sql").unlink()
    found = lake.rows(f"select name from {SCHEMA}.stream_history order by id, valid_from_seq")
    assert [one["name"] for one in found] == ["b", "loaded"]


@pytest.mark.slow
def test_a_full_refresh_warns_for_a_history_that_is_never_rebuilt(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """dbt's own `full_refresh: false` goes before the flag."""
    lake.spark.sql(f"drop table if exists {SCHEMA}.locked_history")
    project.history("locked_history", "stg_stream", full_refresh=False)
    project.dbt("run", "--select", "locked_history")
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq = '{at(3)}'")
    with pytest.raises(DbtError, match=r"1 changes that .* stays in locked_history\. "):
        project.dbt(*STRICT, "run", "--full-refresh", "--select", "stg_stream+")
    (project.folder / "models/locked_history.sql").unlink()


@pytest.mark.slow
def test_changes_of_an_erased_key_are_not_gone(project: Project, lake: Lake, runs: Runs) -> None:
    """Somebody has listed the key 1, which has three changes. They are still there, erased."""
    history_of_the_stream(project)
    columns = dict.fromkeys(("model", "erased_key", "reference"), "string")
    listed = {"model": "stg_stream", "erased_key": '{"id": "1"}'}
    lake.create("listed_by_hand", columns | {"requested_at": "timestamp"}, [listed])
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where id = 7")
    refresh = ("run", "--full-refresh", "--vars", f"afterimage_erasures: {SCHEMA}.listed_by_hand")
    with pytest.raises(DbtError, match="are gone") as raised:
        project.dbt(*STRICT, *refresh, "--select", "stg_stream")
    assert re.findall(r"stg_stream: (\d+) changes that", str(raised.value)) == ["1"]
    (project.folder / "models/stream_history.sql").unlink()
    reasons = [change["reject_reason"] for change in runs.staged()]
    assert reasons == ["erased"] * 3


@pytest.mark.slow
def test_the_version_before_a_full_refresh_brings_back_what_was_pruned(
    project: Project, lake: Lake, runs: Runs, capfd: pytest.CaptureFixture[str]
) -> None:
    """The statements of the docs. What landed meanwhile is taken in."""
    history_of_the_stream(project)
    project.model("stream_audit", "select * from {{ ref('stg_stream') }}", **AUDIT)
    project.dbt("run", "--select", "stream_audit", "--full-refresh")
    kept = f"select * from {SCHEMA}.{{}} where {{}} <> '{at(4)}'"
    tables = {"stream_history": "valid_from_seq", "stream_audit": "change_seq"}
    before = {name: len(lake.rows(kept.format(name, column))) for name, column in tables.items()}
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq in ('{at(1)}', '{at(2)}')")
    runs.land(row(at(4), "U", "d"))
    capfd.readouterr()
    project.dbt("--no-quiet", "run", "--full-refresh", "--select", "stg_stream")
    [version] = re.findall(r"go back to version\s+(\d+)", capfd.readouterr().out)
    with pytest.raises(DbtError, match=r"audit stream_audit: 3 rows of .* would be lost"):
        project.dbt("run", "--select", "stream_audit")
    back = {
        "iceberg": f"call system.set_current_snapshot('{TABLE}', {version})",
        "delta": f"restore table {TABLE} to version as of {version}",
    }
    lake.spark.sql(back[FORMAT])
    project.dbt("run", "--select", "stg_stream+")
    for name in ("stream_history", "stream_audit"):
        (project.folder / f"models/{name}.sql").unlink()
    assert {
        name: len(lake.rows(kept.format(name, column))) for name, column in tables.items()
    } == before
    assert [change["change_seq"] for change in runs.staged() if change["change_seq"]] == [
        at(number) for number in (1, 2, 3, 4)
    ]


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_a_rollback_of_staging_and_raw_table_warns_of_changes_that_are_gone(
    project: Project, lake: Lake, runs: Runs
) -> None:
    history_of_the_stream(project)
    names = {f"{SCHEMA}.{RAW}": 0, TABLE: 0}
    for name in names:
        [names[name]] = [one["snapshot_id"] for one in lake.rows(f"select * from {name}.refs")]
    runs.land(row(at(9), "I", "bad", 99))
    project.dbt("run", "--select", "stg_stream+")
    for name, snapshot in names.items():
        lake.spark.sql(f"call system.rollback_to_snapshot('{name}', {snapshot})")
    run = (*STRICT, "run", "--select", "stg_stream")
    with pytest.raises(DbtError, match=r"1 changes that .* stays in stream_history\. "):
        project.dbt(*run)
    project.dbt(*run)
    (project.folder / "models/stream_history.sql").unlink()


@pytest.mark.minutes
def test_a_history_of_two_models_may_run_before_the_second_commits(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """Both are of one dbt run; what the second commits is new all the same."""
    first, later = row(at(1), "I", "here", 50), row(at(4), "U", "there", 50)
    lake.create("later__ct", COLUMNS, [first])
    project.file(
        "models/stg_later.sql",
        f"{{{{ config({STREAM}) }}}}\n-- depends_on: {{{{ ref('united_history') }}}}\n"
        f"{{{{ qlik_change_table({relation('later__ct')}, unique_key=['id']) }}}}",
    )
    project.file(
        "models/united_history.sql",
        "{{ config(materialized='history', unique_key=['id']) }}\n"
        f"select * from {{{{ ref('stg_stream') }}}} union all select * from {SCHEMA}.stg_later",
    )
    project.dbt("run", "--select", "stg_later")
    project.dbt("run", "--select", "united_history")
    lake.append("later__ct", COLUMNS, [later])
    runs.land(row(at(5), "U", "news"))
    project.dbt("run", "--select", "stg_stream", "united_history", "stg_later")
    project.dbt("run", "--select", "united_history")
    for name in ("stg_later", "united_history"):
        (project.folder / f"models/{name}.sql").unlink()
    found = lake.rows(f"select name from {SCHEMA}.united_history where id = 50 and is_current")
    assert found == [{"name": "there"}]


@pytest.mark.minutes
def test_a_sample_of_a_history_leaves_nothing_out_for_good(
    project: Project, lake: Lake, runs: Runs
) -> None:
    model(project, f"{STREAM}, event_time='changed_at'")
    runs.run("--full-refresh")
    history_of_the_stream(project)
    recent = f"{datetime.now(timezone.utc) - timedelta(hours=1):%Y%m%d%H%M%S}00{1:019}"
    runs.land(row(at(9), "I", "old", 98), row(recent, "I", "recent", 97))
    runs.run()
    project.dbt("run", "--select", "stream_history", "--sample", "1 day")
    project.dbt("run", "--select", "stream_history")
    (project.folder / "models/stream_history.sql").unlink()
    assert len(lake.rows(f"select * from {SCHEMA}.stream_history where id in (97, 98)")) == 2


@pytest.mark.slow
def test_a_sample_of_an_audit_leaves_nothing_out_for_good(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """The sample lacks the changes before, and so do rows of the audit, until the next run."""
    model(project, f"{STREAM}, event_time='changed_at'")
    runs.land(row(at(9), "I", "old", 98))
    runs.run("--full-refresh")
    project.model("stream_audit", "select * from {{ ref('stg_stream') }}", **AUDIT)
    audit = partial(project.dbt, "run", "--select", "stream_audit")
    audit("--full-refresh")
    recent = f"{datetime.now(timezone.utc) - timedelta(hours=1):%Y%m%d%H%M%S}00{1:019}"
    runs.land(row(recent, "U", "recent", 98))
    runs.run()
    audit("--sample", "1 day")
    audit()
    found = f"select change_seq, column_name, old_value, new_value from {SCHEMA}.stream_audit"
    rows = lake.rows(f"{found} where id = 98 order by 1, 2")
    audit("--full-refresh")
    assert rows == lake.rows(f"{found} where id = 98 order by 1, 2")
    assert [row["new_value"] for row in rows][-1] == "recent"
    (project.folder / "models/stream_audit.sql").unlink()


@pytest.mark.slow
def test_a_sample_of_a_source_in_another_schema(project: Project, lake: Lake) -> None:
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    rows = [row(at(1), "I", "old"), row(at(9), "I", "recent", 2) | {"header__timestamp": now}]
    lake.spark.sql("create namespace if not exists sampled")
    lake.frame(COLUMNS, rows).writeTo("sampled.people__ct").using(FORMAT).createOrReplace()
    project.file(
        "models/sampled.yml",
        "sources: [{name: sampled, tables: [{name: people__ct,"
        " config: {event_time: header__timestamp}}]}]",
    )
    project.stream(
        "stg_sampled",
        "qlik_change_table(source('sampled', 'people__ct'), unique_key=['id'])",
    )
    for arguments, ids in (["--sample", "1 day"], [2]), ([], [1, 2]):
        project.dbt("run", "--select", "stg_sampled", *arguments)
        found = lake.rows(f"select `after`.id from {SCHEMA}.stg_sampled order by id")
        assert [row["id"] for row in found] == ids


@pytest.mark.minutes
def test_a_sample_is_no_gap_and_counts_no_fewer_copies(project: Project, lake: Lake) -> None:
    """It lacks the rows that were read before, which the raw table still has."""
    columns = COLUMNS | {"landed_at": "timestamp"}
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    old = {"landed_at": now - timedelta(days=9)}
    earlier = [row(at(1), "I", "old") | old, row(at(2), "I", "twice", 3) | old]
    lake.create("sample__ct", columns, earlier)
    project.file(
        "models/sample.yml",
        f"sources: [{{name: sample, schema: {SCHEMA}, tables: [{{name: sample__ct,"
        " config: {event_time: landed_at}}]}]",
    )
    project.stream(
        "stg_sample",
        "qlik_change_table(source('sample', 'sample__ct'), ['id'], columns=['id', 'name'])",
    )
    run = ["run", "--select", "stg_sample", "--vars", "{afterimage_on_gap: error}"]
    project.dbt(*run)
    new = [row(at(9), "I", "new", 2), row(at(2), "I", "twice", 3)]
    lake.append("sample__ct", columns, [one | {"landed_at": now} for one in new])
    for arguments, copies in (["--sample", "1 day"], 1), ([], 2), (["--sample", "1 day"], 2):
        project.dbt(*run, *arguments)
        found = lake.rows(f"select source_rows from {SCHEMA}.stg_sample order by change_seq")
        assert [one["source_rows"] for one in found] == [1, copies, 1]


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_upkeep_of_a_staging_table_is_no_news(runs: Runs) -> None:
    for day in range(4, 8):
        runs.land(row(at(day), "U", f"day {day}"))
        runs.run()
    upkeep = "{history: stg_stream, retain_days: 0}"
    runs.project.dbt("run-operation", "maintain_history", "--args", upkeep)
    assert runs.lake.rows(f"select count(*) as n from {TABLE}.files") == [{"n": 1}]
    # The last run's may be of the same second as the upkeep.
    assert runs.lake.rows(f"select count(*) as n from {TABLE}.snapshots")[0]["n"] <= 2
    runs.assert_nothing_new()
    runs.land(row(at(8), "U", "h"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    runs.assert_as_a_full_refresh()


@pytest.mark.minutes
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([f"f{number}: int" for number in range(30)], id="many"),
        pytest.param(["`first-name`: int", "`1st`: struct<`a b`: int>", "z: int"], id="odd names"),
    ],
)
def test_a_column_may_be_a_struct_of_any_fields(
    fields: list[str], project: Project, lake: Lake, runs: Runs
) -> None:
    columns = COLUMNS | {"nested": f"struct<{', '.join(fields)}>"}
    lake.create(RAW, columns, FIRST)
    runs.run("--full-refresh")
    lake.append(RAW, columns, [row(at(4), "U", "d")])
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"


@pytest.mark.parametrize(
    ("table", "place"), [("landed.people__ct", ""), ("lake_1.PEOPLE", ", identifier: PEOPLE")]
)
def test_a_unit_test_may_give_the_rows_of_a_source(
    table: str, place: str, project: Project, lake: Lake
) -> None:
    """The columns that it does not give are those of the landed table."""
    schema = table.split(".")[0]
    lake.spark.sql("drop table if exists landed.people__ct")
    lake.spark.sql(f"create namespace if not exists {schema}")
    lake.frame(COLUMNS, []).writeTo(table).using(FORMAT).createOrReplace()
    project.file(
        "models/landed.yml",
        f"sources: [{{name: landed, schema: {schema}, tables: [{{name: people__ct{place}}}]}}]",
    )
    project.file(
        "models/stg_given.sql",
        "{{ qlik_change_table(source('landed', 'people__ct'), unique_key=['id']) }}",
    )
    project.file(
        "models/stg_given.yml",
        "unit_tests:\n"
        "  - name: an_insert\n"
        "    model: stg_given\n"
        "    given:\n"
        "      - input: source('landed', 'people__ct')\n"
        f"        rows: [{{header__change_seq: '{at(1)}', header__change_oper: I, id: 1}}]\n"
        "    expect: {rows: [{operation: insert, reject_reason: null}]}\n",
    )
    project.dbt("test", "--select", "stg_given")


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_tables_may_be_in_another_catalog(
    make_project: Callable[[str], Project], lake: Lake, tmp_path: Path
) -> None:
    """The raw table and all models; Iceberg's procedures are those of one catalog.

    A catalog may say that files of its tables must not be deleted, as Nessie does. Scratch tables
    are dropped with their files all the same. A name with a hyphen needs backticks.
    """
    aside = "`a-side`"
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(tmp_path),
        ".table-default.gc.enabled": "false",
    }.items():
        lake.spark.conf.set(f"spark.sql.catalog.a-side{name}", value)
    raw = f"{aside}.{SCHEMA}.raw__ct"
    lake.spark.sql(f"create namespace {aside}.{SCHEMA}")
    lake.frame(COLUMNS, FIRST).writeTo(raw).using(FORMAT).create()
    project = make_project("aside")
    profiles = project.folder / "profiles"
    profile = (profiles / "profiles.yml").read_text()
    profiles.unlink()
    profile = profile.replace(f"schema: {SCHEMA}", f'schema: "{aside}.{SCHEMA}"')
    project.file("profiles/profiles.yml", profile)
    deleted = {"gc.enabled": "true"}
    project.stream(
        "stg_aside",
        f"qlik_change_table({relation('raw__ct', f'{aside}.{SCHEMA}')}, unique_key=['id'])",
        compact_after=1,
        tblproperties=deleted,
    )
    project.history("aside_history", "stg_aside", compact_after=1, tblproperties=deleted)
    project.dbt("run")
    for day in (4, 5, 6):
        lake.frame(COLUMNS, [row(at(day), "U", f"day {day}")]).writeTo(raw).append()
        project.dbt("run")
    upkeep = "{history: aside_history, retain_days: 0}"
    project.dbt("run-operation", "maintain_history", "--args", upkeep)
    # Each run but the first has added to the tables.
    snapshots = f"{aside}.{SCHEMA}.stg_aside.snapshots"
    assert len(lake.rows(f"select * from {snapshots} where parent_id is null")) == 1
    found = lake.rows(
        f"select name from {aside}.{SCHEMA}.aside_history where id = 1 and is_current"
    )
    assert found == [{"name": "day 6"}]
    # Its tables may be of other formats, for all that dbt is told.
    lake.spark.conf.set("spark.sql.catalog.a-side", "org.example.AnyCatalog")
    for table in ("stg_aside", "aside_history"):
        with pytest.raises(DbtError) as error:
            project.dbt("run", "--select", table)
        said = " ".join(str(error.value).split())
        assert f"{aside}.{SCHEMA}.{table} exists, but dbt does not find it" in said
        assert f"Got: {aside}.{SCHEMA}" in said
