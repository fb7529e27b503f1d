"""Upkeep: of many tables by one command, and of a table that each run replaces by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project
from dbt_afterimage.cli import main
from machines import set_ahead


def typed(project: Project, *arguments: str) -> int:
    """Type `afterimage maintain` in the project's folder."""
    where = ("--project-dir", str(project.folder), "--profiles-dir")
    return main(["maintain", *arguments, *where, str(project.folder / "profiles")])


def folder_of(lake: Lake, table: str) -> Path:
    described = lake.rows(f"describe table extended {SCHEMA}.{table}")
    [place] = [one["data_type"] for one in described if one["col_name"] == "Location"]
    return Path(place.removeprefix("file:"))


def copies(lake: Lake, table: str) -> int:
    """Return how many data files are on the disk; each build of a model here writes one."""
    return len(list(folder_of(lake, table).rglob("*.parquet")))


@pytest.mark.minutes
@pytest.mark.needs("iceberg")
def test_one_table_that_fails_does_not_keep_the_others_from_upkeep(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    project = make_project("upkeep")
    names = ("kept_a", "kept_broken", "kept_c")
    for name in names:
        project.model(name, "select 1 as id", materialized="table")
    # A model of a group, which others may not read, is kept as well.
    project.file(
        "models/groups.yml",
        "{groups: [{name: own, owner: {name: us}}], models: [{name: kept_a,"
        " config: {group: own, access: private}}]}",
    )
    project.model("kept_unbuilt", "select 1 as id", materialized="table", tags=["later"])
    project.model("kept_aside", "select 1 as id", materialized="ephemeral")
    project.file(
        "models/sources.yml",
        f"sources: [{{name: landed, schema: {SCHEMA}, tables: [{{name: upkeep_raw}}]}}]",
    )
    for _ in range(3):
        project.dbt("run", "--exclude", "tag:later")
        lake.create("upkeep_raw", {"id": "int"}, [{"id": 1}])
    assert [copies(lake, name) for name in (*names, "upkeep_raw")] == [3, 3, 3, 3]
    for manifest in (folder_of(lake, "kept_broken") / "metadata").glob("*.avro"):
        manifest.unlink()

    assert typed(project, "--retain-days", "0") == 1
    said = capfd.readouterr()
    assert {line.split(":")[0] for line in said.out.splitlines()} == {
        "kept_a",
        "kept_c",
        "kept_unbuilt",
    }
    assert "kept_unbuilt: not built" in said.out
    assert "1 of 4 failed" in said.err
    assert "kept_broken: " in said.err
    assert [copies(lake, name) for name in ("kept_a", "kept_c", "upkeep_raw")] == [1, 1, 3]

    assert typed(project, "--retain-days", "0", "--select", "source:landed") == 0
    assert "landed.upkeep_raw: compacted" in capfd.readouterr().out
    assert copies(lake, "upkeep_raw") == 1


@pytest.mark.slow
def test_upkeep_of_nothing_is_an_error(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """As where the tables are in another warehouse."""
    project = make_project("upkeep_of_nothing")
    project.model("never_built", "select 1 as id", materialized="table")
    assert typed(project) == 1
    said = capfd.readouterr()
    assert said.out == "never_built: not built\n"
    assert "no table is built: run `dbt build` first" in said.err


@pytest.mark.slow
@pytest.mark.needs("iceberg", "delta")
def test_an_operation_takes_several_tables(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    project = make_project("upkeep_of_two")
    project.model("upkept", "select 1 as id", materialized="table", file_format=FORMAT)
    # Its table has the name of the other one, in another schema.
    project.model(
        "upkept_elsewhere",
        "select 1 as id",
        materialized="table",
        file_format=FORMAT,
        schema="aside",
        alias="upkept",
    )
    project.file(
        "models/sources.yml",
        f"{{sources: [{{name: landed, schema: {SCHEMA}, tables: [{{name: upkept_raw}}]}}],"
        " groups: [{name: own, owner: {name: us}}],"
        " models: [{name: upkept, config: {group: own, access: private}}]}",
    )
    for _ in range(2):
        project.dbt("run")
        lake.create("upkept_raw", {"id": "int"}, [{"id": 1}])
    given = "{history: [upkept, upkept_elsewhere, source:landed.upkept_raw], retain_days: 0}"
    capfd.readouterr()
    project.dbt("--no-quiet", "run-operation", "maintain_history", "--args", given)
    said = capfd.readouterr().out
    assert "upkept: compacted" in said
    assert "upkept_elsewhere: compacted" in said
    assert "source:landed.upkept_raw: compacted" in said
    if FORMAT == "iceberg":
        assert [copies(lake, name) for name in ("upkept", "upkept_raw")] == [1, 1]
    with pytest.raises(DbtError):
        project.dbt("--no-quiet", "run-operation", "maintain_history", "--args", "{history: [1]}")
    assert "`history` must be the name of a model" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.needs("iceberg", "delta")
def test_a_table_that_each_run_replaces_keeps_the_copies_of_a_day(
    make_project: Callable[[str], Project], lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    project = make_project("upkeep_of_itself")
    hook = "{{ afterimage.expire_snapshots() }}"
    project.model("replaced", "select 1 as id", materialized="table", post_hook=hook)
    found = []
    for days in (0, 0, 1.9, 2.1):
        with set_ahead(timedelta(days=days)):
            capfd.readouterr()
            project.dbt("--no-quiet", "run")
        is_said = "replaced: snapshots older than 1 days are gone" in capfd.readouterr().out
        found.append((copies(lake, "replaced"), is_said))
    if FORMAT == "iceberg":
        assert found == [(1, False), (2, False), (3, False), (1, True)]
    assert lake.rows(f"select * from {SCHEMA}.replaced") == [{"id": 1}]


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_table_whose_files_must_not_be_deleted_keeps_all_copies(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """So are all tables of a Nessie catalog, whose other branches may need the files."""
    project = make_project("upkeep_of_nothing")
    kept = {"materialized": "table", "tblproperties": {"gc.enabled": False}}
    hook = "{{ afterimage.expire_snapshots() }}"
    project.model("never_deleted", "select 1 as id", **kept, post_hook=hook)
    for days in (0, 2.1):
        with set_ahead(timedelta(days=days)):
            project.dbt("run")
    assert copies(lake, "never_deleted") == 2
