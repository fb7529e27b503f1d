"""A table that earlier runs have built stays, if its model's `file_format` becomes another one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.spark.impl import SparkAdapter
from dbt.config.profile import Profile

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project
from runs import RAW, TABLE, Runs, at, model, row

TABLES = ("stg_stream", "stream_history", "stream_audit")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("format_kept")


@pytest.fixture
def runs(project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]) -> Runs:
    """A staging table, a history and an audit that have taken in the first changes."""
    write(project, repr(FORMAT))
    runs = Runs(project, lake, capfd)
    project.dbt("run", "--select", *TABLES[1:], "--full-refresh")
    return runs


def write(project: Project, file_format: str) -> None:
    """Write the three models; none but the staging model is above another."""
    model(project, f"materialized='change_stream', file_format={file_format}")
    for kind in ("history", "audit"):
        config = f"materialized='{kind}', unique_key=['id'], file_format={file_format}"
        project.file(
            f"models/stream_{kind}.sql", f"{{{{ config({config}) }}}}\nselect * from {TABLE}"
        )


def refused(project: Project) -> list[str]:
    """Run the three models, which must all be refused; return what dbt says of each."""
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", *TABLES)
    said = " ".join(str(error.value).split())
    return [
        said.split(f"{name} `file_format` must be ")[1][:350]
        for name in ("change_stream stg_stream:", "history stream_history:", "audit stream_audit:")
    ]


@pytest.mark.slow
def test_a_format_that_is_edited_or_lost_drops_no_table(
    project: Project, lake: Lake, runs: Runs
) -> None:
    """The raw table is pruned: what the tables hold is the only copy."""
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq <= '{at(2)}'")
    before, version = lake.contents(*TABLES), runs.snapshot()
    other = {"iceberg": "delta", "delta": "iceberg"}[FORMAT]
    for file_format in ("none", "'parquet'", f"'{other}'"):
        write(project, file_format)
        for name, said in zip(TABLES, refused(project), strict=True):
            assert said.startswith(f"'{FORMAT}'")
            assert "such as a landed one, give the model another `alias`" in said
            assert f"dbt run --full-refresh --select {name}`; copy the table first" in said
            assert f"Got: {file_format.strip(chr(39))}" in said
    write(project, repr(FORMAT))
    runs.assert_nothing_new()
    assert (lake.contents(*TABLES), runs.snapshot()) == (before, version)


def test_another_adapter_is_refused_before_anything_is_asked(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt finds our materializations under each child of dbt-spark, such as dbt-glue."""
    told = Profile.to_target_dict
    monkeypatch.setattr(Profile, "to_target_dict", lambda self: {**told(self), "type": "glue"})
    kinds = dict(zip(TABLES, ("change_stream", "history", "audit"), strict=True))
    for name, kind in kinds.items():
        project.model(name, "select 1 as id", materialized=kind, unique_key=["id"])
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", *TABLES)
    said = " ".join(str(error.value).split())
    for name, kind in kinds.items():
        assert f"{kind} {name}: the adapter must be dbt-spark or dbt-databricks" in said
    assert said.count("Got: glue") == 3


@pytest.mark.slow
def test_a_schema_that_is_listed_as_empty_replaces_no_table(
    project: Project, lake: Lake, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So dbt-spark says if another job drops a table while Spark lists them."""
    before, version = lake.contents(*TABLES), runs.snapshot()
    monkeypatch.setattr(SparkAdapter, "list_relations_without_caching", lambda *_: [])
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", *TABLES)
    said = " ".join(str(error.value).split())
    for name in TABLES:
        assert f"{SCHEMA}.{name} exists, but dbt did not find it" in said
    assert (lake.contents(*TABLES), runs.snapshot()) == (before, version)


@pytest.mark.slow
def test_a_format_in_capitals_is_the_same_format(project: Project, lake: Lake, runs: Runs) -> None:
    """Spark takes `using ICEBERG`, so the tables are no others."""
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq <= '{at(2)}'")
    runs.land(row(at(4), "U", "d"))
    before = lake.contents(*TABLES)
    write(project, repr(FORMAT.upper()))
    assert "1 changes: 1 new" in runs.run()
    project.dbt("run", "--select", *TABLES[1:])
    after = lake.contents(*TABLES)
    assert [len(after[name]) - len(before[name]) for name in TABLES] == [1, 1, 1]


def test_dbts_list_of_a_schema_says_which_format_a_table_has(project: Project) -> None:
    """As Spark 3.5 lists tables; one of Iceberg in its session catalog is listed as one of Hive."""
    listed = {
        "Type: MANAGED\nProvider: PARQUET\nOwner: me\n": "parquet",
        "Provider: string\nType: MANAGED\nProvider: delta\n": "delta",
        "Provider: hive\nTable Properties: [EXTERNAL=TRUE, table_type=ICEBERG]\n": "iceberg",
        "Type: MANAGED\nProvider: hive\n": "None",
        "Type: MANAGED\n": "None",
    }
    tables = [
        f"api.Relation.create(schema='a', identifier='b', information={text!r})" for text in listed
    ]
    said = project.sqls(f"_listed_format({table})" for table in tables)
    assert [text.strip() for text in said] == list(listed.values())


@pytest.mark.needs("iceberg")
@pytest.mark.slow
def test_a_full_refresh_drops_no_table_of_icebergs_session_catalog(
    project: Project, lake: Lake, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark lists it as one of Hive. A table that was dropped has lost its snapshots."""
    listed = "Type: MANAGED\nProvider: hive\nTable Properties: [table_type=ICEBERG]\n"
    monkeypatch.setattr(
        SparkAdapter, "_get_relation_information", lambda _, row: (row[0], row[1], listed)
    )
    before = {name: snapshots(lake, name) for name in TABLES}
    for name in TABLES:
        project.dbt("run", "--select", name, "--full-refresh")
        assert before[name] < snapshots(lake, name)


def snapshots(lake: Lake, table: str) -> set[int]:
    rows = lake.rows(f"select snapshot_id from {SCHEMA}.{table}.snapshots")
    return {row["snapshot_id"] for row in rows}


@pytest.mark.needs("delta")
@pytest.mark.slow
def test_tables_of_files_become_tables_of_delta(project: Project, lake: Lake, runs: Runs) -> None:
    """Not by themselves. The statements of the docs keep what the raw table no longer has."""
    before = lake.contents(*TABLES)
    write(project, "'parquet'")
    project.dbt("run", "--select", "stg_stream", "--full-refresh")
    project.dbt("run", "--select", *TABLES[1:], "--full-refresh")
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq <= '{at(2)}'")
    write(project, "'delta'")
    assert [said[:9] for said in refused(project)] == ["'parquet'"] * 3
    lake.spark.sql(f"drop table if exists {TABLE}_parquet")
    lake.spark.sql(f"alter table {TABLE} rename to {TABLE}_parquet")
    lake.spark.sql(f"create table {TABLE} using delta as select * from {TABLE}_parquet")
    runs.run()
    project.dbt("run", "--select", *TABLES[1:], "--full-refresh")
    assert lake.contents(*TABLES) == before
    runs.assert_nothing_new()
