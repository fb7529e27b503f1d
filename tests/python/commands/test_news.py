"""`afterimage news`, and what `up` builds: what has landed, said beside what was landed."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from conftest import FORMAT, SCHEMA, Lake, Project, inside, relation
from dbt_afterimage.cli import main
from dbt_afterimage.commands import init
from dbt_afterimage.commands.news import held_topics
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import building, news, record, states
from dbt_afterimage.runtime.project import Project as Opened
from dbt_afterimage.runtime.project import Where
from runs import COLUMNS, at, row

pytestmark = pytest.mark.slow

CURRENT = "{{{{ config(materialized='table') }}}} {{{{ current_state(ref('{}_history')) }}}}"
# Rows of the raw tables, as they land.
FIRST = [row(at(1), "I", "a"), row(at(2), "U", "b")]


def write(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    schema = pyarrow.schema(
        [
            ("header__change_seq", pyarrow.string()),
            ("header__change_oper", pyarrow.string()),
            ("header__timestamp", pyarrow.timestamp("us", tz="UTC")),
            ("id", pyarrow.int32()),
            ("name", pyarrow.string()),
        ]
    )
    parquet.write_table(
        pyarrow.Table.from_pylist(list(rows), schema=schema), folder / f"part-{number}.parquet"
    )


class Fleet:
    """A project of several raw tables, each with a staging model, a history and current rows."""

    TABLES = ("one", "two", "files", "more_files")

    def __init__(self, project: Project, lake: Lake, folder: Path) -> None:
        self.project, self.lake, self.folder = project, lake, folder
        for name in ("one", "two"):
            lake.create(f"fleet_{name}__ct", COLUMNS, FIRST)
        for name in ("files", "more_files"):
            write(folder / name, 1, *FIRST)
        tables = [f"{{name: {name}, identifier: fleet_{name}__ct}}" for name in ("one", "two")]
        files = [f"{{name: {n}, identifier: '{folder / n}'}}" for n in ("files", "more_files")]
        project.file(
            "models/sources.yml",
            f"""
sources:
  - name: raw
    schema: {SCHEMA}
    tables: [{", ".join(tables)}]
  - name: landed
    schema: parquet
    quoting: {{identifier: true}}
    tables: [{", ".join(files)}]
models:
  - name: two_history
    columns: [{{name: history_id, data_tests: [unique]}}]
""",
        )
        for name in self.TABLES:
            source = "raw" if name in ("one", "two") else "landed"
            project.stream(
                f"stg_fleet__{name}",
                f"qlik_change_table(source('{source}', '{name}'), unique_key=['id'])",
                file_format=FORMAT,
            )
            project.history(f"{name}_history", f"stg_fleet__{name}")
            project.file(f"models/{name}_current.sql", CURRENT.format(name))

    def land(self, name: str, number: int, *rows: dict[str, Any]) -> None:
        if name in ("one", "two"):
            self.lake.append(f"fleet_{name}__ct", COLUMNS, list(rows))
        else:
            write(self.folder / name, number, *rows)

    def open(self) -> Opened:
        profiles = str(self.project.folder / "profiles")
        return Opened(Where(project_dir=str(self.project.folder), profiles_dir=profiles))

    def news(self) -> dict[str, str]:
        """Return what is said of each raw table."""
        return {
            name: reader.reason or one.text
            for reader in news.look(self.open()).values()
            for name, one in reader.news.items()
        }

    def work(self) -> building.Work:
        project = self.open()
        kept, readers = record.of(project), news.look(project)
        building.note_upkeep(project, kept, readers)
        return building.work(project, kept, readers, everything=False)

    def build(self) -> tuple[str, ...]:
        """Build what must be built, and return its models."""
        found = self.work()
        if found.nodes:
            project = self.open()
            building.build(project, record.of(project), found)
        return found.built

    def names(self, query: str) -> list[str]:
        return [one["name"] for one in self.lake.rows(query)]


@pytest.fixture(scope="module")
def fleet(
    make_project: Callable[[str], Project], lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> Fleet:
    """The tables, built once."""
    fleet = Fleet(make_project("fleet"), lake, tmp_path_factory.mktemp("landing"))
    assert fleet.news() == dict.fromkeys(
        ("raw.one", "raw.two", "landed.files", "landed.more_files"), "never built"
    )
    # There is no record, so everything is built.
    assert len(fleet.build()) == 12
    assert fleet.build() == ()
    return fleet


def test_what_has_landed_is_said_and_what_reads_it_is_built(fleet: Fleet) -> None:
    quiet = dict.fromkeys(
        ("raw.one", "raw.two", "landed.files", "landed.more_files"), "nothing new"
    )
    assert fleet.news() == quiet
    fleet.land("one", 2, row(at(3), "U", "c"), row(at(3, 2), "U", "d"), row(at(4), "U", "e"))
    fleet.land("more_files", 2, row(at(3), "U", "c"))
    said = fleet.news()
    rows = "3 rows landed since " if FORMAT == "iceberg" else "version 1 landed at "
    assert said["raw.one"].startswith(rows)
    assert said["landed.more_files"].startswith("1 file landed since ")
    assert {name: said[name] for name in ("raw.two", "landed.files")} == {
        "raw.two": "nothing new",
        "landed.files": "nothing new",
    }
    assert fleet.build() == (
        *("more_files_current", "more_files_history", "one_current", "one_history"),
        *("stg_fleet__more_files", "stg_fleet__one"),
    )
    assert fleet.names(f"select name from {SCHEMA}.one_current") == ["e"]
    assert fleet.names(f"select name from {SCHEMA}.more_files_current") == ["c"]
    assert fleet.news() == quiet
    assert fleet.build() == ()


def test_the_command_has_a_line_for_each_table_and_an_exit_code(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.build()
    monkeypatch.chdir(fleet.project.folder)
    assert main(["news", "--profiles-dir", "profiles"]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "landed.files       nothing new",
        "landed.more_files  nothing new",
        "raw.one            nothing new",
        "raw.two            nothing new",
    ]
    fleet.land("two", 2, row(at(5), "U", "z"))
    assert main(["news", "--profiles-dir", "profiles"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    selected = ["news", "--profiles-dir", "profiles", "--select"]
    assert main([*selected, "source:raw.one+"]) == 3
    assert main([*selected, "stg_fleet__two"]) == 0
    assert re.fullmatch(
        "raw.one  nothing new\nraw.two  (1 row landed since|version .*).*\n",
        capsys.readouterr().out,
    )
    fleet.build()


def test_news_are_those_above_what_is_selected(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.build()
    fleet.land("two", 7, row(at(5, 11), "U", "y"))
    monkeypatch.chdir(fleet.project.folder)
    selected = ["news", "--profiles-dir", "profiles", "--select"]
    assert main([*selected, "two_history"]) == 0
    assert re.fullmatch("raw.two  (1 row landed|version ).*\n", capsys.readouterr().out)
    assert main([*selected, "one_current"]) == 3
    assert capsys.readouterr().out == "raw.one  nothing new\n"
    assert main([*selected, "two_histori"]) == 1
    assert main([*selected, "source:raw.two+"]) == 0
    assert main([*selected, "source:raw.two"]) == 1
    fleet.build()


def test_up_leaves_out_a_table_with_a_schedule_of_its_own(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.build()
    monkeypatch.chdir(fleet.project.folder)
    # The tables of other tests are in the catalog, too.
    monkeypatch.setattr(init, "add", lambda *_, **__: ([], 0))
    up = ["up", "--profiles-dir", "profiles"]
    own = "stg_fleet__two+"
    fleet.land("one", 9, row(at(5, 13), "U", "w"))
    fleet.land("two", 9, row(at(5, 13), "U", "w"))
    assert main([*up, "--exclude", own]) == 0
    said = capsys.readouterr().out
    assert "Building 3 models with 0 tests; 9 have nothing new or are left out." in said
    assert fleet.names(f"select name from {SCHEMA}.one_current") == ["w"]
    assert fleet.names(f"select name from {SCHEMA}.two_current") != ["w"]
    # Its own schedule, which is no news for the others.
    fleet.project.dbt("build", "--select", own)
    assert fleet.names(f"select name from {SCHEMA}.two_current") == ["w"]
    capsys.readouterr()
    assert main([*up, "--exclude", own]) == 0
    assert "Nothing new in 12 models, or they are left out.\n" in capsys.readouterr().out
    assert fleet.build() == ("stg_fleet__two", "two_current", "two_history")
    assert fleet.build() == ()


def test_a_list_that_was_edited_is_news(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has answered a question, and `up` would write models."""
    fleet.build()
    monkeypatch.chdir(fleet.project.folder)
    listing = fleet.project.folder / "afterimage.yml"
    kept = record.of(fleet.open())
    try:
        listing.write_text("tables: [{relation: raw.badges__ct, key: [no]}]\n")
        assert main(["news", "--profiles-dir", "profiles"]) == 0
        said = "afterimage.yml was edited since the last run, or has open questions\n"
        assert capsys.readouterr().out.endswith(said)
        # As `up` leaves it.
        kept.listing = record.checksum_of_file(listing)
        kept.keep(fleet.open())
        assert main(["news", "--profiles-dir", "profiles"]) == 3
    finally:
        listing.unlink()
    kept.listing = ""
    kept.keep(fleet.open())


def test_what_somebody_else_builds_before_up_has_ended_is_built_to_its_end(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.build()
    fleet.land("two", 3, row(at(6), "U", "g"))
    run = Opened.run

    def overtaken(self: Opened, *command: str, **more: Any) -> Any:
        result = run(self, *command, **more)
        if command[0] == "build":
            fleet.land("two", 4, row(at(6, 1), "U", "h"))
            fleet.project.dbt("run", "--select", "stg_fleet__two")
        return result

    models = ("stg_fleet__two", "two_current", "two_history")
    with monkeypatch.context() as patched:
        patched.setattr(Opened, "run", overtaken)
        assert fleet.build() == models
    assert fleet.names(f"select name from {SCHEMA}.two_current") == ["g"]
    assert fleet.build() == models
    assert fleet.names(f"select name from {SCHEMA}.two_current") == ["h"]
    assert fleet.build() == ()


@pytest.mark.needs("iceberg")
def test_iceberg_tables_are_asked_without_a_statement_in_any_thread(lake: Lake) -> None:
    """A command starts Spark in a thread of its own, while dbt parses."""
    lake.create("asked", COLUMNS, FIRST)
    with ThreadPoolExecutor(1) as another:
        found = another.submit(states._of_session, lake.spark, [f"{SCHEMA}.asked"]).result()
    [snapshot] = lake.rows(f"select snapshot_id from {SCHEMA}.asked.snapshots")
    assert found[f"{SCHEMA}.asked"]["current-snapshot-id"] == str(snapshot["snapshot_id"])


def test_a_topic_is_looked_for_in_tables_and_not_in_files(
    make_project: Callable[[str], Project], lake: Lake, tmp_path: Path
) -> None:
    write(tmp_path / "files", 1, *FIRST)
    lake.create("not_of_a_topic", COLUMNS, FIRST)
    project = make_project("topics")
    project.file(
        "models/sources.yml",
        f"""
sources:
  - {{name: raw, schema: {SCHEMA}, tables: [{{name: not_of_a_topic}}]}}
  - name: landed
    schema: parquet
    quoting: {{identifier: true}}
    tables: [{{name: files, identifier: '{tmp_path / "files"}'}}]
""",
    )
    profiles = str(project.folder / "profiles")
    opened = Opened(Where(project_dir=str(project.folder), profiles_dir=profiles))
    assert held_topics(opened, ["new"]) == ({}, [])


def test_what_somebody_else_has_built_is_built_to_its_end(fleet: Fleet) -> None:
    fleet.build()
    fleet.land("one", 3, row(at(6), "U", "f"))
    fleet.project.dbt("run", "--select", "stg_fleet__one")
    assert fleet.news()["raw.one"] == "nothing new"
    assert fleet.build() == ("one_current", "one_history", "stg_fleet__one")
    assert fleet.names(f"select name from {SCHEMA}.one_current") == ["f"]


def test_upkeep_of_a_staging_table_is_no_reason_to_build(
    fleet: Fleet, lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fleet.project.folder)
    fleet.land("one", 4, row(at(6, 1), "U", "f"))
    fleet.build()
    table = f"{SCHEMA}.stg_fleet__one"

    def compact() -> None:
        versions = lake.rows(f"select count(*) as n from {table}.snapshots") if is_iceberg else []
        lake.spark.sql(
            f"call system.rewrite_data_files(table => '{table}',"
            " options => map('rewrite-all', 'true'))"
            if is_iceberg
            else f"optimize {table}"
        )
        if is_iceberg:
            assert versions != lake.rows(f"select count(*) as n from {table}.snapshots")
        else:
            [newest] = lake.rows(f"describe history {table} limit 1")
            assert newest["operation"] == "OPTIMIZE"

    is_iceberg = FORMAT == "iceberg"
    compact()
    assert main(["news", "--profiles-dir", "profiles"]) == 3
    assert "built since" not in capsys.readouterr().out
    assert fleet.build() == ()

    # What another command has built is still to be built to its end.
    fleet.land("one", 5, row(at(6, 2), "U", "g"))
    fleet.project.dbt("run", "--select", "stg_fleet__one")
    compact()
    assert fleet.news()["raw.one"] == "nothing new"
    assert fleet.build() == ("one_current", "one_history", "stg_fleet__one")


def test_what_failed_and_what_was_skipped_is_built_again(fleet: Fleet) -> None:
    fleet.build()
    path = fleet.project.folder / "models" / "two_history.sql"
    good = path.read_text()
    path.write_text(good.replace("select * from", "select *, 1 / 'x' as broken, oh from"))
    fleet.land("two", 3, row(at(7), "U", "g"))
    with pytest.raises(AfterimageError, match="oh"):
        fleet.build()
    # The staging model has read the row, so nothing is new in the raw table.
    assert fleet.news()["raw.two"] == "nothing new"
    assert fleet.work().built == ("two_current", "two_history")
    path.write_text(good)
    assert fleet.build() == ("two_current", "two_history")
    assert fleet.names(f"select name from {SCHEMA}.two_current") == ["g"]
    assert fleet.build() == ()


def test_a_build_that_is_killed_is_taken_up(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.build()
    fleet.land("two", 4, row(at(8), "U", "h"))

    def killed(self: Opened, *command: str, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Opened, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            fleet.build()
    fleet.project.dbt("run", "--select", "stg_fleet__two")
    kept = record.of(fleet.open())
    assert len([one for one in kept.pending if one.startswith("model.")]) == 3
    assert fleet.build() == ("stg_fleet__two", "two_current", "two_history")
    assert fleet.names(f"select name from {SCHEMA}.two_current") == ["h"]


def test_a_manifest_that_is_half_written_is_not_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.build()
    path = fleet.project.folder / "models" / "files_current.sql"
    path.write_text(path.read_text() + " -- edited, too\n")

    kind = type(fleet.open().manifest)
    write = kind.write

    def stopped(self: Any, path: str) -> None:
        if "up" not in Path(path).parts:
            # dbt's own, when it has parsed.
            write(self, path)
            return
        Path(path).write_text('{"metadata": {')
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(kind, "write", stopped)
        with pytest.raises(OSError, match="No space"):
            fleet.build()
    assert fleet.build() == ("files_current",)


def test_what_was_edited_and_what_was_dropped_is_built(
    fleet: Fleet, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.build()
    path = fleet.project.folder / "models" / "files_current.sql"
    path.write_text(path.read_text() + " -- edited\n")
    with inside(fleet.project.folder):
        assert main(["news", "--profiles-dir", "profiles"]) == 0
    assert "edited since the last run, or new: files_current" in capsys.readouterr().out
    assert fleet.build() == ("files_current",)
    with inside(fleet.project.folder):
        assert main(["news", "--profiles-dir", "profiles"]) == 3
    lake.spark.sql(f"drop table {SCHEMA}.one_history")
    assert fleet.build() == ("one_current", "one_history")
    assert fleet.build() == ()


def test_without_a_record_everything_is_built(fleet: Fleet) -> None:
    fleet.build()
    kept = record.of(fleet.open())
    (kept.folder / "record.json").write_text("{")
    assert fleet.work().left_alone == 0
    assert len(fleet.build()) == 12


def test_a_model_that_remembers_nothing_may_have_news(fleet: Fleet) -> None:
    fleet.project.model(
        "one_counted",
        "select count(*) as changes from {{ source('raw', 'one') }}",
        materialized="table",
    )
    fleet.project.model(
        "one_told", "select * from {{ ref('stg_fleet__one') }} cross join {{ ref('one_counted') }}"
    )
    try:
        fleet.build()
        assert fleet.news()["raw.one"] == "may have news: the model remembers nothing"
        # It is not below a staging model, but a model that is needs it.
        assert fleet.build() == ("one_counted", "one_told")
    finally:
        for name in ("one_counted", "one_told"):
            (fleet.project.folder / "models" / f"{name}.sql").unlink()
    assert fleet.build() == ()


def test_models_that_up_does_not_build_are_no_news(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.build()
    fleet.project.model("lone", "select 1 as one from {{ source('raw', 'one') }}")
    try:
        assert fleet.build() == ()
        with inside(fleet.project.folder):
            capsys.readouterr()
            assert main(["news", "--profiles-dir", "profiles"]) == 3
            said = "`dbt run` builds these and `afterimage up` does not: lone\n"
            assert capsys.readouterr().out.endswith(said)
            assert main(["news", "--profiles-dir", "profiles", "--select", "lone"]) == 0
    finally:
        (fleet.project.folder / "models" / "lone.sql").unlink()


def test_a_raw_table_that_was_made_anew_or_is_gone_has_news(fleet: Fleet, lake: Lake) -> None:
    fleet.build()
    lake.create("fleet_one__ct", COLUMNS, [*FIRST, row(at(9), "U", "i")])
    assert fleet.news()["raw.one"] != "nothing new"
    assert "one_history" in fleet.build()
    assert fleet.names(f"select name from {SCHEMA}.one_current") == ["i"]
    lake.spark.sql(f"drop table {SCHEMA}.fleet_one__ct")
    assert fleet.news()["raw.one"] == "it does not exist"
    lake.create("fleet_one__ct", COLUMNS, [*FIRST, row(at(9), "U", "i"), row(at(10), "U", "j")])
    assert fleet.news()["raw.one"] != "nothing new"
    fleet.build()
    assert fleet.names(f"select name from {SCHEMA}.one_current") == ["j"]


def test_a_table_that_a_model_no_longer_reads_is_no_news(fleet: Fleet, lake: Lake) -> None:
    path = fleet.project.folder / "models" / "sources.yml"
    before = path.read_text()
    lake.create("fleet_elsewhere__ct", COLUMNS, [*FIRST, row(at(11), "U", "k")])
    fleet.build()
    try:
        path.write_text(before.replace("fleet_one__ct", "fleet_elsewhere__ct"))
        assert "one_history" in fleet.build()
        lake.append("fleet_one__ct", COLUMNS, [row(at(12), "U", "elsewhere")])
        assert fleet.news()["raw.one"] == "nothing new"
        assert fleet.build() == ()
    finally:
        path.write_text(before)
    fleet.build()


def test_a_file_that_comes_late_is_news(fleet: Fleet) -> None:
    """Written before others that a run has read, and seen after them."""
    fleet.build()
    write(fleet.folder / "files", 7, row(at(10), "U", "late"))
    newest = datetime.now().timestamp() - 600
    os.utime(fleet.folder / "files" / "part-7.parquet", (newest, newest))
    assert fleet.news()["landed.files"].startswith("1 file landed since ")
    assert "files_history" in fleet.build()
    assert fleet.names(f"select name from {SCHEMA}.files_current") == ["late"]


def test_folders_that_spark_cannot_list_together_are_listed_alone(fleet: Fleet) -> None:
    """A partitioned folder: Spark would leave out what is beside it, and say nothing."""
    fleet.build()
    # Both now have a folder that looks like a partition; the rows keep their columns.
    for name in ("files", "more_files"):
        part = fleet.folder / name / "day=1"
        write(part, 8, row(at(11), "U", f"{name} of a partition"))
    said = fleet.news()
    assert said["landed.files"] != "nothing new"
    assert said["landed.more_files"] != "nothing new"
    for name in ("files", "more_files"):
        (fleet.folder / name / "day=1" / "part-8.parquet").unlink()
        (fleet.folder / name / "day=1").rmdir()
    write(fleet.folder / "files" / "day=1", 8, row(at(11), "U", "x"))
    fleet.land("more_files", 9, row(at(12), "U", "y"))
    said = fleet.news()
    assert said["landed.more_files"] != "nothing new"
    (fleet.folder / "files" / "day=1" / "part-8.parquet").unlink()
    (fleet.folder / "files" / "day=1").rmdir()
    fleet.build()


def time_of_commit(lake: Lake, table: str) -> datetime:
    """Return when the newest commit of a table was made."""
    query = (
        f"describe history {SCHEMA}.{table} limit 1"
        if FORMAT == "delta"
        else f"select max(committed_at) as timestamp from {SCHEMA}.{table}.snapshots"
    )
    [commit] = lake.rows(query)
    made: datetime = commit["timestamp"]
    return made


def test_the_freshness_of_dbt_is_when_rows_landed(fleet: Fleet, lake: Lake) -> None:
    """`dbt source freshness` with the query that `init` and `land` write into sources."""
    fleet.build()
    two = f"{SCHEMA}.fleet_two__ct"
    path = fleet.project.folder / "models" / "sources.yml"
    before = path.read_text()
    query = (
        'config: {loaded_at_query: "{{ last_landed(this) }}",'
        " freshness: {warn_after: {count: 24, period: hour}}}"
    )
    path.write_text(before.replace("    tables: [", f"    {query}\n    tables: ["))
    if FORMAT == "iceberg":
        # Of this one no commit that landed rows is left.
        one = f"table => '{SCHEMA}.fleet_one__ct'"
        lake.spark.sql(
            f"call system.rewrite_data_files({one}, options => map('rewrite-all', 'true'))"
        )
        lake.spark.sql(
            f"call system.expire_snapshots({one}, retain_last => 1,"
            " older_than => timestamp '2999-01-01 00:00:00')"
        )
    try:
        fleet.land("two", 5, row(at(20), "U", "fresh"))
        made = time_of_commit(lake, "fleet_two__ct")
        fleet.land("more_files", 10, row(at(20), "U", "fresh"))
        # What is deleted, or written to a branch, has not landed.
        time.sleep(1.1)
        lake.spark.sql(f"delete from {two} where header__change_seq = '{at(20)}'")
        if FORMAT == "iceberg":
            lake.spark.sql(f"alter table {two} create branch aside")
            lake.frame(COLUMNS, FIRST).writeTo(f"{two}.branch_aside").append()
        results = fleet.project.dbt("source", "freshness").results
    finally:
        path.write_text(before)
        if FORMAT == "iceberg":
            lake.spark.sql(f"alter table {two} drop branch if exists aside")
    landed = {one.node.name: one.max_loaded_at for one in results}
    assert set(landed) == {"one", "two", "files", "more_files"}
    written = (fleet.folder / "more_files" / "part-10.parquet").stat().st_mtime
    assert abs(landed["more_files"].timestamp() - written) < 0.01
    assert abs(landed["two"].replace(tzinfo=None) - made).total_seconds() < 1
    assert landed["two"] > landed["one"]
    assert landed["one"].year > 2000
    fleet.build()


@pytest.mark.needs("iceberg")
def test_a_staging_table_that_was_rolled_back_has_lost_what_it_read(
    fleet: Fleet, lake: Lake
) -> None:
    fleet.build()
    table = f"{SCHEMA}.stg_fleet__two"
    [before] = lake.rows(f"select max(snapshot_id) as id from {table}.refs where name = 'main'")
    fleet.land("two", 6, row(at(21), "U", "k"))
    fleet.build()
    lake.spark.sql(f"call system.rollback_to_snapshot('{table}', {before['id']})")
    assert fleet.news()["raw.two"] == "its table was rolled back"
    # A run that reads nothing does not hide that.
    fleet.project.dbt("run", "--empty", "--select", "stg_fleet__two")
    assert fleet.news()["raw.two"] == "its table was rolled back"
    assert "stg_fleet__two" in fleet.build()
    assert lake.rows(f"select count(*) as n from {table} where `after`.name = 'k'") == [{"n": 1}]
    # A compacted table is at another version too, and has lost nothing.
    lake.spark.sql(
        f"call system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )
    assert fleet.news()["raw.two"] == "nothing new"
    fleet.build()


EVENTS = {
    "record_id": "bigint",
    "status": "string",
    "event_type": "int",
    "event_time": "timestamp",
    **dict.fromkeys(
        ("perpetrator", "table_name", "table_key", "column_name", "old_value", "new_value"),
        "string",
    ),
}
EVENT = {
    "record_id": 1,
    "status": "N",
    "event_type": 1,
    "event_time": datetime(2024, 5, 1),
    "table_name": "badge",
    "table_key": "no=12",
    "column_name": "color",
    "old_value": "",
    "new_value": "red",
}


def event_log(fleet: Fleet, **options: str) -> Path:
    """Write a staging model of an event log, whose table no source names."""
    fleet.lake.create("fleet_events", EVENTS, [EVENT])
    # Of another test, with other arguments.
    fleet.lake.spark.sql(f"drop table if exists {SCHEMA}.stg_fleet__events")
    call = f"""netiq_event_log(
        api.Relation.create(schema='{SCHEMA}', identifier='fleet_events'), ['no'], 'badge',
        [{{'name': 'no', 'type': 'string'}}, {{'name': 'color', 'type': 'string'}}],
        {", ".join(f"{name}={value}" for name, value in options.items())}
    )"""
    fleet.project.stream("stg_fleet__events", call, file_format=FORMAT)
    return fleet.project.folder / "models" / "stg_fleet__events.sql"


def test_a_model_that_waits_for_a_time_is_built_each_time(fleet: Fleet) -> None:
    path = event_log(fleet, future_events="true")
    try:
        assert "stg_fleet__events" in fleet.build()
        waits = "it waits for more than rows that land"
        assert fleet.news()[f"{SCHEMA}.fleet_events"] == waits
        assert "stg_fleet__events" in fleet.build()
        assert fleet.news()[f"{SCHEMA}.fleet_events"] == waits
    finally:
        path.unlink()
    fleet.build()


def test_a_table_that_is_read_without_asking_is_no_news(fleet: Fleet) -> None:
    columns, badge = {"no": "string", "color": "string"}, {"no": "12", "color": "red"}
    fleet.lake.create("fleet_badges", columns, [badge])
    fleet.project.file(
        "models/badges.yml",
        f"sources: [{{name: base, schema: {SCHEMA}, tables: [{{name: fleet_badges}}]}}]",
    )
    path = event_log(fleet, base="source('base', 'fleet_badges')")
    try:
        assert "stg_fleet__events" in fleet.build()
        # A run would not look at it either, since no event has landed.
        fleet.lake.append("fleet_badges", columns, [badge])
        assert fleet.news()[f"{SCHEMA}.fleet_events"] == "nothing new"
        assert fleet.build() == ()
    finally:
        path.unlink()
        (fleet.project.folder / "models" / "badges.yml").unlink()
    fleet.build()


@pytest.mark.minutes
def test_a_folder_with_many_files_an_hour_is_quiet_until_another_one_lands(
    make_project: Callable[[str], Project],
    lake: Lake,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Read by its path, and as a table of a catalog."""
    crowd = 250
    project = make_project("crowded")
    lake.spark.sql("drop table if exists spark_catalog.default.crowded__ct")
    for name in ("path", "table"):
        for number in range(crowd):
            write(tmp_path / name, number, row(at(1, number + 1), "I", "a", number))
    # A file without a row is a file, too.
    write(tmp_path / "path", -1)
    lake.spark.sql(
        "create table spark_catalog.default.crowded__ct"
        f" using parquet location '{tmp_path / 'table'}'"
    )
    raw = {"path": relation(f"`{tmp_path / 'path'}`", "parquet")}
    raw["table"] = relation("crowded__ct", "spark_catalog.default")
    for name, one in raw.items():
        call = f"qlik_change_table({one}, unique_key=['id'])"
        project.stream(f"stg_{name}", call, file_format=FORMAT)

    def run() -> list[str]:
        capfd.readouterr()
        project.dbt("--no-quiet", "run")
        return sorted(re.findall(r"(stg_\w+: .*\S)", capfd.readouterr().out))

    def said() -> set[str]:
        profiles = str(project.folder / "profiles")
        opened = Opened(Where(project_dir=str(project.folder), profiles_dir=profiles))
        return {n.text for one in news.look(opened).values() for n in one.news.values()}

    quiet = ["stg_path: nothing new", "stg_table: nothing new"]
    try:
        run()
        assert said() == {"nothing new"}
        assert run() == quiet
        for name in raw:
            write(tmp_path / name, crowd, row(at(2), "U", "b", 7))
        by_table, by_path = sorted(said())
        assert by_table.startswith("files landed, the newest at ")
        assert re.fullmatch(rf"some of {crowd + 2} files since .* UTC are new", by_path)
        # The whole hour is read again.
        assert [text.split(": ", 1)[1] for text in run()] == [
            f"{crowd + 1} rows landed, 1 changes: 1 new, 0 known, 0 rejected"
        ] * 2
        for name in raw:
            staged = lake.rows(f"select change_seq, source_rows from {SCHEMA}.stg_{name}")
            assert len(staged) == crowd + 1
            assert [one["change_seq"] for one in staged].count(at(2)) == 1
        assert said() == {"nothing new"}
        assert run() == quiet
        # The hour moves on with the newest file, and most files are behind it.
        for name in raw:
            for number in range(crowd - 10):
                os.utime(tmp_path / name / f"part-{number}.parquet", (0, 0))
        write(tmp_path / "path", crowd + 1, row(at(3), "U", "c", 7))
        run()
        assert said() == {"nothing new"}
        assert run() == quiet
    finally:
        lake.spark.sql("drop table if exists spark_catalog.default.crowded__ct")


def test_one_up_at_a_time(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fleet.project.folder)
    with record.of(fleet.open()).taken():
        assert main(["up", "--profiles-dir", "profiles"]) == 1
    assert "another `afterimage up` is at work in this project" in capsys.readouterr().err


def test_up_builds_a_merged_staging_model_in_an_odd_folder_beside_a_path_without_files(
    fleet: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet.build()
    fleet.project.model(
        "CRM changes, old/stg_fleet__merged",
        "{{ qlik_change_table(source('raw', 'two'), unique_key=['id']) }}",
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="change_id",
        file_format=FORMAT,
    )
    fleet.project.model("merged_names", "select after.name from {{ ref('stg_fleet__merged') }}")
    # The tables of other tests are in the catalog, too.
    monkeypatch.setattr(init, "add", lambda *_, **__: ([], 0))
    monkeypatch.chdir(fleet.project.folder)

    def up(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["up", *arguments, "--profiles-dir", "profiles"])
        return code, capsys.readouterr().out

    try:
        fleet.land("two", 31, row(at(31), "U", "first"))
        code, said = up(str(tmp_path))
        assert code == 1
        assert re.search("^not landed: .* has no files yet", said)
        assert re.search("^stg_fleet__merged: ", said, re.M)
        assert "first" in fleet.names(f"select name from {SCHEMA}.merged_names")
        assert fleet.names(f"select name from {SCHEMA}.two_current") == ["first"]
        fleet.land("two", 32, row(at(32), "U", "second"))
        code, said = up()
        assert code == 0
        assert {"first", "second"} <= {*fleet.names(f"select name from {SCHEMA}.merged_names")}
        # It remembers nothing, and `news` counts it as well.
        assert "Building 2 models" in up()[1]
        assert main(["news", "--profiles-dir", "profiles"]) == 0
        assert "raw.two (stg_fleet__merged)  may have news" in capsys.readouterr().out
    finally:
        shutil.rmtree(fleet.project.folder / "models" / "CRM changes, old")
        (fleet.project.folder / "models" / "merged_names.sql").unlink()
