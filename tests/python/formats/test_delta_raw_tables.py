"""What has landed in a raw Delta table, whatever was done to it since the last run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from conftest import SCHEMA, Lake, Project, relation
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

pytestmark = [pytest.mark.slow, pytest.mark.needs("delta")]

TABLE_OF_ROWS = f"{SCHEMA}.{RAW}"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("delta_raw_tables")


@pytest.fixture
def runs(project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]) -> Runs:
    return Runs(project, lake, capfd)


def location(lake: Lake) -> Path:
    [detail] = lake.rows(f"describe detail {TABLE_OF_ROWS}")
    return Path(urlparse(detail["location"]).path)


def test_rows_that_landed_are_read_and_nothing_else(runs: Runs, lake: Lake) -> None:
    runs.assert_nothing_new()
    assert RAW not in runs.sql
    runs.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(9), "U", "z"))
    assert runs.run() == "2 rows landed, 2 changes: 2 new, 0 known, 0 rejected"
    runs.land(row(at(3), "B", "b"))
    runs.land(row(at(4), "U", "d"))
    assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    runs.assert_as_a_full_refresh()


def test_a_compacted_table_has_nothing_new(runs: Runs, lake: Lake) -> None:
    runs.land(row(at(4), "U", "d"))
    runs.run()
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    runs.assert_nothing_new()
    # What landed before the table was compacted again: the rows around it are read too, and known.
    runs.land(row(at(5), "U", "e"))
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    assert "1 changes: 1 new" in runs.run()
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


@pytest.mark.parametrize("marks", ["true", "false"])
def test_rows_deleted_and_changed(marks: str, runs: Runs, lake: Lake) -> None:
    """With deletion vectors and with rewritten files."""
    lake.spark.sql(
        f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.enableDeletionVectors' = '{marks}')"
    )
    kept = runs.staged()
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_seq = '{at(1)}'")
    assert runs.run().endswith("nothing new")
    assert runs.staged() == kept
    runs.land(row(at(4), "U", "d"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    lake.spark.sql(
        f"update {TABLE_OF_ROWS} set name = 'mended' where header__change_seq = '{at(4)}'"
    )
    assert "1 changes: 0 new, 1 known, 0 rejected" in runs.run()
    [mended] = [change for change in runs.staged() if change["change_seq"] == at(4)]
    assert mended["after"]["name"] == "mended"
    runs.assert_nothing_new()


@pytest.mark.parametrize("marks", ["true", "false"])
def test_a_change_keeps_what_it_had_from_a_row_that_was_deleted(
    marks: str, runs: Runs, lake: Lake
) -> None:
    """Its before-image, its old key, or its row after the change; all rows are in one file."""
    lake.spark.sql(
        f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.enableDeletionVectors' = '{marks}')"
    )
    land_one_file(lake, [*PAIRS, row(at(7), "B", "f"), row(at(7), "U", "g")])
    runs.run()
    kept = runs.staged()
    assert pairs_of(kept) == PAIRS_AS_CHANGES | {at(7): ((1, "f"), (1, "g"))}
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where {PARTNERS}")
    assert runs.run() == "nothing new"
    assert runs.staged() == kept
    # A compaction of what is left is no landing either.
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_oper = 'B'")
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    assert runs.run() == "nothing new"
    assert runs.staged() == kept
    # What landed before a row of its file was deleted, and the rest was compacted.
    land_one_file(lake, [row(at(8), "U", "h"), row(at(9), "U", "i")])
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_seq = '{at(8)}'")
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    assert "1 changes: 1 new" in runs.run()
    assert pairs_of(runs.staged())[at(9)] == (None, (1, "i"))
    runs.assert_nothing_new()


def land_one_file(lake: Lake, rows: list[dict[str, Any]]) -> None:
    lake.frame(COLUMNS, rows).coalesce(1).writeTo(TABLE_OF_ROWS).append()


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        # A loader has kept the name of the file that it read, in Spark's own column.
        ("_metadata", "struct<file_name:string>", ("1.csv",)),
        # Delta 3.3 takes it for the file's own name, and skips files by its values (delta#5341).
        ("file_name", "string", "scan_1.pdf"),
    ],
)
def test_a_column_that_hides_the_files_of_rows_hides_no_row(
    name: str, kind: str, value: Any, runs: Runs, lake: Lake
) -> None:
    columns = COLUMNS | {name: kind}
    rows = [one | {name: value} for one in (*FIRST, row(at(4), "U", "d"))]
    lake.create(RAW, columns, rows[:-1])
    runs.run("--full-refresh")
    lake.append(RAW, columns, rows[-1:])
    assert runs.run() == (
        f"read all 6 rows of {TABLE_OF_ROWS} because it has a column `{name}`,"
        " 1 changes: 1 new, 0 known, 0 rejected"
    )
    runs.assert_nothing_new()


def test_a_table_overwritten_is_read_once(runs: Runs, lake: Lake) -> None:
    rows = [*FIRST, row(at(4), "U", "d")]
    lake.frame(COLUMNS, rows).write.format("delta").mode("overwrite").saveAsTable(TABLE_OF_ROWS)
    assert runs.run() == "6 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


def test_a_restored_table_keeps_what_was_read(runs: Runs, lake: Lake) -> None:
    [first] = lake.rows(f"describe history {TABLE_OF_ROWS} limit 1")
    runs.land(row(at(4), "U", "d"))
    runs.run()
    lake.spark.sql(f"restore table {TABLE_OF_ROWS} to version as of {first['version']}")
    assert runs.run().endswith("nothing new")
    runs.land(row(at(5), "U", "e"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    assert {change["change_seq"] for change in runs.staged()} == {"", *map(at, range(1, 6))}


def test_a_restored_table_gives_back_rows_that_were_never_read(runs: Runs, lake: Lake) -> None:
    """They landed and were deleted between two runs, and RESTORE brings them back."""
    runs.land(row(at(4), "U", "d"))
    [landed] = lake.rows(f"describe history {TABLE_OF_ROWS} limit 1")
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_seq = '{at(4)}'")
    assert runs.run().endswith("nothing new")
    lake.spark.sql(f"restore table {TABLE_OF_ROWS} to version as of {landed['version']}")
    assert "1 changes: 1 new" in runs.run()
    runs.assert_as_a_full_refresh()


@pytest.mark.parametrize("dropped", [True, False])
def test_a_table_created_again_is_read_once(dropped: bool, runs: Runs, lake: Lake) -> None:
    runs.assert_nothing_new()
    if dropped:
        lake.spark.sql(f"drop table {TABLE_OF_ROWS}")
    lake.create(RAW, COLUMNS, [*FIRST, row(at(4), "U", "d")])
    assert runs.run() == (
        f"read all 6 rows of {TABLE_OF_ROWS} because it was replaced,"
        " 1 changes: 1 new, 0 known, 0 rejected"
    )
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


def test_a_log_that_is_cut_off_is_said(runs: Runs, lake: Lake) -> None:
    """Delta removes the log of commits older than 30 days where a checkpoint stands for them."""
    lake.spark.sql(
        f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.checkpointInterval' = '1')"
    )
    for number in (4, 5, 6):
        runs.land(row(at(number), "U", f"{number}"))
    log = location(lake) / "_delta_log"
    commits = sorted(log.glob("0*.json"))
    for commit in commits[:-1]:
        commit.unlink()
        for checksum in log.glob(f".{commit.name}.crc"):
            checksum.unlink()
    assert runs.run() == (
        f"read all 8 rows of {TABLE_OF_ROWS} because its log no longer holds all commits since,"
        " 3 changes: 3 new, 0 known, 0 rejected"
    )
    runs.assert_nothing_new()


def test_commits_that_the_log_does_not_show_are_not_taken_for_none(
    project: Project, runs: Runs, lake: Lake
) -> None:
    """The history has their versions, and their files are gone by now, or not yet published."""
    runs.land(row(at(4), "U", "d"))
    [shown] = lake.rows(f"describe history {TABLE_OF_ROWS} limit 1")
    for version in (shown["version"] + 1, shown["version"] + 2):
        commits = [{"version": version, "operation": "WRITE"}]
        call = f"_rows_by_log({relation(RAW)}, '', '{location(lake)}', {commits}, none)"
        said = project.compile(f"{{% if execute %}}{{{{ {call} }}}}{{% endif %}}")
        assert "its log no longer holds all commits since" in said


def test_files_from_a_backup_are_read_once(runs: Runs, lake: Lake, tmp_path: Path) -> None:
    """The versions since the backup are other commits than those that were read."""
    place, backup = location(lake), tmp_path / "backup"
    shutil.copytree(place, backup)
    runs.land(row(at(4), "U", "d"))
    runs.run()
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    lake.spark.catalog.clearCache()
    forget_logs(lake)
    runs.land(row(at(5), "U", "after the backup"))
    assert "because its log no longer holds all commits since" in runs.run()
    assert [
        change["after"]["name"] for change in runs.staged() if change["change_seq"] == at(5)
    ] == ["after the backup"]
    runs.assert_nothing_new()


def forget_logs(lake: Lake) -> None:
    """Make Delta look at the files again, as another process would."""
    jvm: Any = lake.spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_a_vacuumed_table_has_nothing_new(runs: Runs, lake: Lake) -> None:
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where id = 7")
    runs.land(row(at(4), "U", "d"))
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.spark.sql(f"vacuum {TABLE_OF_ROWS} retain 0 hours")
    lake.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert "1 changes: 1 new" in runs.run()
    runs.assert_nothing_new()


def test_a_change_data_feed_gives_the_changed_rows_alone(runs: Runs, lake: Lake) -> None:
    feed = f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.enableChangeDataFeed' = 'true')"
    lake.spark.sql(feed)
    # By files, because the feed begins here.
    runs.land(row(at(4), "U", "d"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    lake.spark.sql(
        f"update {TABLE_OF_ROWS} set name = 'mended' where header__change_seq = '{at(4)}'"
    )
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_seq = '{at(1)}'")
    runs.land(row(at(5), "U", "e"))
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    # By files more rows would have landed.
    assert runs.run() == "2 rows landed, 2 changes: 1 new, 1 known, 0 rejected"
    runs.assert_nothing_new()
    lake.spark.sql(f"optimize {TABLE_OF_ROWS}")
    lake.spark.sql(f"delete from {TABLE_OF_ROWS} where header__change_seq = '{at(5)}'")
    assert runs.run().endswith("nothing new")


def test_a_change_data_feed_is_not_asked_across_a_change_of_columns(
    project: Project, runs: Runs, lake: Lake
) -> None:
    """One that came with the rows of a write, of a column that the model does not take."""
    lake.create(RAW, COLUMNS | {"extra": "int"}, FIRST)
    lake.spark.sql(
        f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    raw = relation(RAW)
    project.stream(
        "stg_stream", f"qlik_change_table({raw}, unique_key=['id'], columns=['id', 'name'])"
    )
    runs.run("--full-refresh")
    lake.append(RAW, COLUMNS | {"extra": "int"}, [row(at(4), "U", "d")])
    rows = lake.frame(COLUMNS, [*FIRST, row(at(4), "U", "d"), row(at(5), "U", "e")])
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        str(location(lake))
    )
    assert runs.run() == "7 rows landed, 2 changes: 2 new, 0 known, 0 rejected"
    lake.spark.sql(
        f"update {TABLE_OF_ROWS} set name = 'mended' where header__change_seq = '{at(5)}'"
    )
    # By the feed again: by files the other rows of the file would have landed, too.
    assert runs.run() == "1 rows landed, 1 changes: 0 new, 1 known, 0 rejected"
    runs.assert_as_a_full_refresh()


def test_a_change_data_feed_is_not_asked_for_what_vacuum_may_have_removed(
    runs: Runs, lake: Lake
) -> None:
    """On some stores of objects the log does not say that VACUUM was here."""
    lake.spark.sql(
        f"alter table {TABLE_OF_ROWS} set tblproperties ('delta.enableChangeDataFeed' = 'true',"
        " 'delta.deletedFileRetentionDuration' = 'interval 2 seconds')"
    )
    runs.land(row(at(4), "U", "d"))
    runs.run()
    lake.spark.sql(
        f"update {TABLE_OF_ROWS} set name = 'mended' where header__change_seq = '{at(4)}'"
    )
    time.sleep(3)
    lake.spark.conf.set("spark.databricks.delta.vacuum.logging.enabled", "false")
    lake.spark.sql(f"vacuum {TABLE_OF_ROWS}")
    lake.spark.conf.unset("spark.databricks.delta.vacuum.logging.enabled")
    assert runs.run() == "1 rows landed, 1 changes: 0 new, 1 known, 0 rejected"
    runs.assert_as_a_full_refresh()


def test_a_table_of_odd_column_names(project: Project, lake: Lake, runs: Runs) -> None:
    """Delta stores such names by a mapping; partitions are folders named after a value."""
    names = {**COLUMNS, "two words": "string", "a.b": "int"}
    columns = ", ".join(f"`{name}` {kind}" for name, kind in names.items())
    lake.spark.sql(f"drop table if exists {SCHEMA}.odd__ct")
    lake.spark.sql(
        f"create table {SCHEMA}.odd__ct ({columns}) using delta partitioned by (`two words`)"
        " tblproperties ('delta.columnMapping.mode' = 'name')"
    )
    odd = {"two words": "x=y/z é", "a.b": 5}
    lake.append("odd__ct", names, [row(at(1), "I", "a") | odd])
    model(project, raw="odd__ct")
    runs.run("--full-refresh")
    lake.append("odd__ct", names, [row(at(2), "U", "b") | odd, row(at(2), "B", "a") | odd])
    assert runs.run() == "2 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    [update] = [change for change in runs.staged() if change["change_seq"] == at(2)]
    assert (update["after"]["two words"], update["after"]["a.b"]) == ("x=y/z é", 5)
    runs.assert_as_a_full_refresh()


def test_a_table_that_is_named_by_its_path(project: Project, lake: Lake, runs: Runs) -> None:
    project.stream(
        "stg_stream",
        f"qlik_change_table({relation(f'`{location(lake)}`', 'delta')}, unique_key=['id'])",
    )
    runs.run("--full-refresh")
    runs.land(row(at(4), "U", "d"))
    assert runs.run() == "1 rows landed, 1 changes: 1 new, 0 known, 0 rejected"
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


def test_many_files_are_read_by_their_bounds(runs: Runs, lake: Lake) -> None:
    rows = [row(at(5, number), "U", f"{number}") for number in range(1, 511)]
    frame = lake.frame(COLUMNS, rows).repartition(510)
    frame.writeTo(TABLE_OF_ROWS).append()
    assert runs.run() == "510 rows landed, 510 changes: 510 new, 0 known, 0 rejected"
    runs.assert_nothing_new()


def test_dbts_own_incremental_reads_by_the_time_of_commits(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(project, lake, capfd, INCREMENTAL)
    runs.land(row(at(9).replace("2024", "2023"), "I", "late", 2), row(at(2), "U", "b"))
    runs.run()
    assert len(runs.staged()) == len(FIRST)
    runs.assert_as_a_full_refresh()


def test_a_staging_table_that_was_restored_reads_what_it_lost(runs: Runs, lake: Lake) -> None:
    [first] = lake.rows(f"describe history {TABLE} limit 1")
    runs.land(row(at(4), "U", "d"))
    runs.run()
    staged = runs.staged()
    lake.spark.sql(f"restore table {TABLE} to version as of {first['version']}")
    assert "1 changes: 1 new" in runs.run()
    assert runs.staged() == staged
    runs.assert_nothing_new()


def test_a_run_compacts_the_files_of_runs_when_there_are_many(runs: Runs, lake: Lake) -> None:
    model(runs.project, f"{STREAM}, compact_after=3")
    said = []
    for day in range(4, 9):
        runs.land(row(at(day), "U", f"day {day}"))
        said.append(runs.run())
    # Version 6 is of the third run: the build and the runs have made two each.
    assert [line == "compacted" for line in said] == [False, False, True, False, False]
    operations = [one["operation"] for one in lake.rows(f"describe history {TABLE}")]
    assert operations.count("OPTIMIZE") == 1
    runs.assert_nothing_new()
    runs.assert_as_a_full_refresh()


def test_new_columns_may_need_what_the_tables_were_not_built_with(
    project: Project, runs: Runs, lake: Lake
) -> None:
    """A name that Delta must map, and a time without a zone."""
    model(project, f"{STREAM}, on_schema_change='append_new_columns'")
    project.history("stream_history", "stg_stream")
    project.dbt("run", "--full-refresh", "--select", "stream_history")
    mapped = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2'"
    mapped += ", 'delta.minWriterVersion' = '5', 'delta.feature.timestampNtz' = 'supported'"
    lake.spark.sql(f"alter table {TABLE_OF_ROWS} set tblproperties ({mapped})")
    columns = "`Unit Price` int, seen_at timestamp_ntz"
    lake.spark.sql(f"alter table {TABLE_OF_ROWS} add columns ({columns})")
    lake.spark.sql(
        f"insert into {TABLE_OF_ROWS} values"
        f" ('{at(9)}', 'I', null, 9, 'new', 5, timestamp_ntz '2024-01-09 10:00:00')"
    )
    runs.run()
    project.dbt("run", "--select", "stream_history")
    (project.folder / "models/stream_history.sql").unlink()
    found = lake.rows(
        f"select `Unit Price` as price, cast(seen_at as string) as seen_at"
        f" from {SCHEMA}.stream_history where id = 9"
    )
    assert found == [{"price": 5, "seen_at": "2024-01-09 10:00:00"}]
