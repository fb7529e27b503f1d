"""Faults during a run: what the user sees, what the tables hold, and what repairs them.

The results are in docs/operations/faults.md. A `Site` is a warehouse with one table of each model
kind; each batch that lands in its raw table adds a row and renames the first one, so what every
table must hold after n batches is known. On Delta the metastore serves one process at a
time, so the tests' own session names tables by their paths.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from dialect_qlik import HEADER
from inserts import DIALECTS, call

RAW = {**HEADER, "id": "int", "name": "string", "filling": "string"}
SHOWN = {
    "stg_people": "change_seq, operation, reject_reason",
    "people_history": "id, version, name, closed_by",
    "people_current": "id, version, name",
    "people_audit": "id, operation, column_name",
}


def stage_people(project: Project, raw: str = relation("people__ct")) -> None:
    """Write the staging model of a change table and its history."""
    call = f"qlik_change_table({raw}, unique_key=['id'])"
    project.stream("stg_people", call)
    project.history("people_history", "stg_people")


@dataclass
class Site:
    """A warehouse folder, a catalog of this session that shows it, and a project on it."""

    folder: Path
    catalog: str
    project: Project
    spark: SparkSession
    batches: int = 0

    def land(self, filling: int = 0, **more: str) -> None:
        """Land the next batch: a row with its number, and a new name for row 1."""
        self.batches += 1
        number = self.batches
        source = random.Random(number)
        rows = [landed(2 * number, "I", number, "new", source.randbytes(filling).hex())]
        if number > 1:
            rows.append(landed(2 * number + 1, "U", 1, f"name {number}", None))
        columns = RAW | more
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        frame = self.spark.createDataFrame(
            [tuple(row.get(name) for name in columns) for row in rows], schema
        )
        if number == 1:
            frame.writeTo(self.table("people__ct")).using(FORMAT).createOrReplace()
        else:
            frame.writeTo(self.table("people__ct")).append()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("dbt")), *(arguments or ("run",))],
            cwd=self.project.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DBT_PROFILES_DIR": str(self.project.folder / "profiles"),
            "AFTERIMAGE_WAREHOUSE": str(self.folder),
            "AFTERIMAGE_DRIVER_MEMORY": "1g",
            "NO_COLOR": "1",
        }

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run dbt in its own process and return its exit code and output."""
        process = self.start(*arguments)
        output = process.communicate()[0]
        print(output)  # pytest shows it where a test fails
        return process.returncode, output

    def table(self, name: str) -> str:
        if FORMAT == "delta":
            return f"delta.`{self.folder}/{SCHEMA}.db/{name}`"
        return f"{self.catalog}.{SCHEMA}.{name}"

    def contents_of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the expected rows of a table."""
        found = self.spark.sql(f"select {SHOWN[name]} from {self.table(name)}").collect()
        return sorted(map(tuple, found), key=repr)

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        return {name: self.contents_of(name) for name in SHOWN}


def place(number: int) -> str:
    return f"2024010112000000{number:019d}"


def landed(number: int, letter: str, key: int, name: str, filling: str | None) -> dict[str, Any]:
    return {
        "header__change_seq": place(number),
        "header__change_oper": letter,
        "header__operation": {"I": "INSERT", "U": "UPDATE"}[letter],
        "header__timestamp": datetime(2024, 1, 1, 12) + timedelta(minutes=number),
        "header__transaction_id": f"t{number}",
        "id": key,
        "name": name,
        "filling": filling,
    }


def after(batches: int) -> dict[str, list[tuple[Any, ...]]]:
    """Compute what the tables hold after a number of batches."""
    numbers, renamed = range(1, batches + 1), range(2, batches + 1)
    staged = [(place(2 * n), "insert", None) for n in numbers]
    staged += [(place(2 * n + 1), "update", None) for n in renamed]
    versions: list[tuple[Any, ...]] = [
        (1, n, f"name {n}" if n > 1 else "new", None if n == batches else "update") for n in numbers
    ]
    versions += [(n, 1, "new", None) for n in renamed]
    audited = [(n, "insert", name) for n in numbers for name in ("id", "name", "filling")]
    audited += [(1, "update", "name") for _ in renamed]
    if batches > 1:
        audited.append((1, "update", "filling"))  # the first update sets it to NULL
    tables: dict[str, list[tuple[Any, ...]]] = {
        "stg_people": staged,
        "people_history": versions,
        "people_current": [(key, v, name) for key, v, name, closed in versions if closed is None],
        "people_audit": audited,
    }
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def assert_before_or_after(site: Site) -> None:
    """Check that each table is as before the last batch, or as after it."""
    now, before, then = site.contents(), after(site.batches - 1), after(site.batches)
    for name, rows in now.items():
        assert rows in (before[name], then[name]), name


@pytest.fixture
def make_site(
    make_project: Callable[[str], Project], spark: SparkSession
) -> Callable[[Path], Site]:
    """A function that sets up a site in a folder, with one batch landed and run."""

    def make(folder: Path) -> Site:
        catalog = f"site{random.getrandbits(40)}"
        for name, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": str(folder),
            ".cache-enabled": "false",
        }.items():
            spark.conf.set(f"spark.sql.catalog.{catalog}{name}", value)
        project = make_project("faults")
        by_path = relation(f"`{folder}/{SCHEMA}.db/people__ct`", "delta")
        stage_people(project, by_path if FORMAT == "delta" else relation("people__ct"))
        project.model("people_current", "{{ current_state(ref('people_history')) }}")
        audit = "{{ change_audit(ref('stg_people'), unique_key=['id']) }}"
        project.model("people_audit", audit)
        site = Site(folder, catalog, project, spark)
        if FORMAT == "iceberg":
            spark.sql(f"create namespace {catalog}.{SCHEMA}")
        site.land()
        code, output = site.run()
        assert code == 0, output
        return site

    return make


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


# --- the disk -----------------------------------------------------------------------------------


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
@pytest.mark.parametrize("model", ["stg_people", "people_history", "people_current"])
def test_disk_full(model: str, disk: Path, make_site: Callable[[Path], Site]) -> None:
    site = make_site(disk)
    site.land(filling=1024 * 1024)
    if model != "stg_people":
        assert site.run("run", "--select", "stg_people")[0] == 0
    if model == "people_current":
        assert site.run("run", "--select", "people_history")[0] == 0
    filler = disk / "filler"
    with filler.open("wb") as file:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        file.write(b"\0" * (free - 500 * 1024))
    code, output = site.run("run", "--select", model)
    assert code != 0
    assert "No space left on device" in output
    assert "Traceback" not in output
    assert_before_or_after(site)
    filler.unlink()
    assert site.run()[0] == 0
    assert site.contents() == after(2)


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_warehouse_read_only(disk: Path, make_site: Callable[[Path], Site]) -> None:
    site = make_site(disk)
    site.land()
    before = site.contents()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    code, output = site.run()
    assert code != 0
    assert "Read-only file system" in output
    assert "Traceback" not in output
    assert site.contents() == before
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert site.run()[0] == 0
    assert site.contents() == after(2)


# --- kill -9 ------------------------------------------------------------------------------------


def java_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the JVMs that a run has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        name, rest = stat.rsplit(")", 1)
        if name.endswith("(java") and int(rest.split()[3]) == process.pid:  # the session
            found.append(int(folder.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("victim", ["dbt and its JVM", "the JVM"])
def test_a_run_killed_at_any_moment(
    victim: str, tmp_path: Path, make_site: Callable[[Path], Site]
) -> None:
    """Moments are spread over the whole run, so that every model kind is hit."""
    site = make_site(tmp_path)
    site.land()
    started = time.monotonic()
    assert site.run()[0] == 0
    whole = time.monotonic() - started
    moment = random.Random(victim)
    for _ in range(int(os.environ.get("AFTERIMAGE_KILLS", "10"))):
        site.land()
        process = site.start()
        # The first half is Python and the JVM starting; the moments that matter come later.
        time.sleep(whole * moment.uniform(0.4, 1.0))
        if victim == "the JVM":
            for pid in java_of(process):
                os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate(timeout=120)[0]
        assert process.returncode != 0 or "Completed successfully" in output, output
        if victim == "the JVM" and process.returncode != 0:
            assert "the Java process that runs Spark has ended; run dbt again" in output
            assert "Traceback" not in output
        assert_before_or_after(site)
        assert site.run()[0] == 0
        assert site.contents() == after(site.batches)


# A process that kills itself before or after a statement that begins with a text.
KILLED = """
import os, sys

from dbt.cli.main import dbtRunner
from dbt_afterimage.runtime import cursor

moment, begins = sys.argv[1:]
execute = cursor.AfterimageCursor.execute

def watched(self, sql, *parameters):
    here = begins in " ".join(sql.split())[:300].lower()
    if here and moment == "before":
        os.killpg(0, 9)
    execute(self, sql, *parameters)
    if here:
        os.killpg(0, 9)

cursor.AfterimageCursor.execute = watched
print(dbtRunner().invoke(["run", "--select", "stg_people"]).success)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "begins"),
    [
        ("before", "create table"),
        ("after", "create table"),
        ("before", "merge into"),
        ("after", "merge into"),
        ("before", "alter table"),
        ("after", "alter table"),
    ],
)
def test_a_staging_run_killed_at_a_statement(
    moment: str, begins: str, tmp_path: Path, make_site: Callable[[Path], Site]
) -> None:
    site = make_site(tmp_path)
    site.land()
    process = subprocess.run(
        [sys.executable, "-c", KILLED, moment, begins],
        cwd=site.project.folder,
        env=site.environment(),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert process.returncode == -signal.SIGKILL, process.stdout
    assert_before_or_after(site)
    code, output = site.run()
    assert code == 0
    assert site.contents() == after(2)
    again = begins == "alter table" and moment == "before"
    is_read = begins != "alter table" and (begins, moment) != ("merge into", "after")
    assert ("2 rows landed, 2 changes: 2 new" in output) == is_read
    if again:
        assert "2 rows landed, nothing new" in output
    assert "stg_people: nothing new" in site.run()[1]


# --- files of a table ---------------------------------------------------------------------------


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_corrupt_data_file(tmp_path: Path, make_site: Callable[[Path], Site]) -> None:
    site = make_site(tmp_path)
    site.land()
    for file in (tmp_path / SCHEMA / "stg_people" / "data").rglob("*.parquet"):
        content = bytearray(file.read_bytes())
        content[4 : len(content) - 8] = b"\xff" * (len(content) - 12)
        file.write_bytes(content)
    code, output = site.run()
    assert code != 0
    assert "Traceback" not in output
    assert ".parquet" in output  # the file is named
    # The audit is built from all changes; the history's run reads only those that are new.
    assert site.contents_of("people_audit") == after(1)["people_audit"]
    for name in ("people_history", "people_current"):
        assert site.contents_of(name) == after(2)[name]
    assert site.run("run", "--full-refresh")[0] == 0
    assert site.contents() == after(2)


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_metadata_file_missing(tmp_path: Path, make_site: Callable[[Path], Site]) -> None:
    site = make_site(tmp_path)
    site.land()
    folder = tmp_path / SCHEMA / "stg_people" / "metadata"
    newest = (folder / "version-hint.text").read_text().strip()
    (folder / f"v{newest}.metadata.json").unlink()
    code, output = site.run()
    assert code != 0
    assert "Traceback" not in output
    assert f"Metadata file for version {newest} is missing under {folder}" in output
    for name in ("people_history", "people_current"):
        assert site.contents_of(name) == after(1)[name]
    # What is broken goes; it can be made again from the raw table.
    for file in folder.iterdir():
        file.unlink()
    assert site.run("run", "--full-refresh")[0] == 0
    assert site.contents() == after(2)


# --- two runs at once ---------------------------------------------------------------------------


@pytest.mark.needs("iceberg")
@pytest.mark.minutes
def test_two_runs_at_once(tmp_path: Path, make_site: Callable[[Path], Site]) -> None:
    site = make_site(tmp_path)
    for _ in range(3):
        site.land()
    processes = [site.start() for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert 0 in [process.returncode for process in processes], outputs
    for output in outputs:
        assert "Traceback" not in output
    assert site.run()[0] == 0
    assert site.contents() == after(4)


# --- the raw table ------------------------------------------------------------------------------


@pytest.fixture
def small(make_project: Callable[[str], Project], lake: Lake) -> Project:
    """The same models on the warehouse of all tests, where dbt runs in this process."""
    project = make_project("drift")
    stage_people(project)
    lake.create("people__ct", RAW, [landed(1, "I", 1, "new", "x")])
    project.dbt("run", "--full-refresh")
    return project


def names(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.rows(f"select * from {SCHEMA}.people_history order by id, version")
    return [(row["id"], row["name"]) for row in rows]


@pytest.mark.minutes
def test_retention_gap_is_reported(
    small: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rows 2 and 3 came and went between two runs."""
    lake.append("people__ct", RAW, [landed(2, "U", 1, "seen", "x")])
    small.dbt("--no-quiet", "run")
    assert "begins at" not in capfd.readouterr().out

    lake.create("people__ct", RAW, [])  # nothing is missing as yet
    small.dbt("--no-quiet", "run")
    lake.create("people__ct", RAW, [landed(4, "U", 1, "after the gap", "x")])
    assert "begins at" not in capfd.readouterr().out
    with pytest.raises(DbtError, match="may have been deleted before they were read"):
        small.dbt("run", "--vars", "{afterimage_on_gap: error}")
    assert names(lake) == [(1, "new"), (1, "seen")]
    capfd.readouterr()
    small.dbt("--no-quiet", "run")
    said = capfd.readouterr().out
    assert f"begins at {place(4)}, but " in said
    assert f"up to {place(2)}. " in said
    assert names(lake) == [(1, "new"), (1, "seen"), (1, "after the gap")]
    small.dbt("--no-quiet", "run")
    assert "begins at" not in capfd.readouterr().out


@pytest.mark.minutes
def test_retention_gap_in_other_dialects(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    project = make_project("gaps")
    macros = [macro for macro in DIALECTS if not macro.startswith("qlik")]
    assert len(macros) == 4

    def land(write: Callable[..., None], number: int) -> None:
        for macro in macros:
            dialect = DIALECTS[macro]
            row = dialect.row(number, datetime(2024, 1, number))
            write(f"gap_{macro}", dialect.columns, [row])

    for macro in macros:
        project.stream(f"stg_gap_{macro}", call(macro, f"gap_{macro}"))
    run = ("run", "--vars", "{afterimage_on_gap: error}")
    land(lake.create, 9)
    project.dbt(*run, "--full-refresh")
    land(lake.append, 10)
    project.dbt(*run)
    land(lake.create, 12)
    with pytest.raises(DbtError) as error:
        project.dbt(*run)
    for macro in macros:
        said = rf"{macro}: .* begins at 0*(12|C), but .* up to 0*(10|A)\."
        assert re.search(said, str(error.value)), macro
    project.dbt("run")
    project.dbt(*run)
    for macro in macros:
        assert len(lake.rows(f"select * from {SCHEMA}.stg_gap_{macro}")) == 3, macro


@pytest.mark.minutes
def test_a_clock_set_back_hides_nothing(small: Project, lake: Lake) -> None:
    """The last run has a time in the future; the next one gets an even later time."""
    lake.append("people__ct", RAW, [landed(2, "I", 2, "tomorrow", "x")])
    small.dbt("run")
    lake.spark.sql(
        f"update {SCHEMA}.stg_people set ingested_at = ingested_at + interval 400 days"
        " where after.id = 2"
    )
    small.dbt("run")
    lake.append("people__ct", RAW, [landed(3, "I", 3, "today", "x")])
    small.dbt("run")
    assert names(lake) == [(1, "new"), (2, "tomorrow"), (3, "today")]


WIDER = RAW | {"zip": "string"}


@pytest.mark.minutes
def test_a_column_added_to_the_raw_table_needs_a_full_refresh(small: Project, lake: Lake) -> None:
    before = names(lake)
    lake.spark.sql(f"alter table {SCHEMA}.people__ct add column zip string")
    lake.append("people__ct", WIDER, [landed(2, "I", 2, "wide", "x") | {"zip": "00100"}])
    with pytest.raises(DbtError, match=r"added: zip\).*full-refresh"):
        small.dbt("run")
    assert names(lake) == before
    small.dbt("run", "--full-refresh")
    assert names(lake) == [(1, "new"), (2, "wide")]
    found = lake.rows(f"select zip from {SCHEMA}.people_history where id = 2")
    assert found == [{"zip": "00100"}]


@pytest.mark.minutes
def test_a_column_dropped_from_the_raw_table_needs_a_full_refresh(
    small: Project, lake: Lake
) -> None:
    before = names(lake)
    lake.spark.sql(f"alter table {SCHEMA}.people__ct drop column filling")
    with pytest.raises(DbtError, match=r"dropped: filling\).*full-refresh"):
        small.dbt("run")
    assert names(lake) == before
    small.dbt("run", "--full-refresh")
    assert names(lake) == before


@pytest.mark.minutes
def test_a_column_in_another_case_needs_a_full_refresh(small: Project, lake: Lake) -> None:
    """Columns that a sparse row did not capture are listed by name."""
    before = names(lake)
    row = landed(1, "I", 1, "new", "x")
    row["Filling"] = row.pop("filling")
    columns = {name.replace("filling", "Filling"): kind for name, kind in RAW.items()}
    lake.create("people__ct", columns, [row])
    with pytest.raises(DbtError, match=r"added: Filling; dropped: filling\).*full-refresh"):
        small.dbt("run")
    assert names(lake) == before
    small.dbt("run", "--full-refresh")
    assert names(lake) == before


@pytest.mark.minutes
@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_a_column_of_another_type_needs_a_full_refresh(
    kind: str, small: Project, lake: Lake
) -> None:
    """`bigint` is wider than the old type, which no setting allows; `string` is not a number."""
    before = names(lake)
    value: Any = 2**40 if kind == "bigint" else "two"
    rows = [landed(1, "I", 1, "new", "x"), landed(2, "I", 2, "other", "x") | {"id": value}]
    rows[0]["id"] = 1 if kind == "bigint" else "1"
    lake.create("people__ct", RAW | {"id": kind}, rows)
    with pytest.raises(DbtError, match=rf"another type: id \(int, now {kind}\).*full-refresh"):
        small.dbt("run")
    assert names(lake) == before
    small.dbt("run", "--full-refresh")
    assert [row[1] for row in names(lake)] == ["new", "other"]


@pytest.mark.slow
def test_a_type_that_iceberg_does_not_have_is_not_a_drift(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Iceberg stores small whole numbers as int, and text of any length as text.

    Nor are the capitals in a struct.
    """
    project = make_project("small_types")
    table = "spark_catalog.default.small__ct"
    lake.spark.sql(f"drop table if exists {table}")
    lake.spark.sql(
        f"create table {table} (header__change_seq varchar(35), header__change_oper string,"
        " id smallint, size tinyint, name varchar(9), found struct<At: char(4)>) using parquet"
    )
    raw = relation("small__ct", "spark_catalog.default")
    project.stream("stg_small", f"qlik_change_table({raw}, unique_key=['id'])")
    project.history("small_history", "stg_small")
    for number, letter in ((1, "I"), (2, "U"), (3, "U")):
        lake.spark.sql(
            f"insert into {table} values ('{place(number)}', '{letter}', 1, {number}, 'a',"
            " named_struct('At', 'here'))"
        )
        project.dbt("run")
    found = lake.rows(f"select id, size, version from {SCHEMA}.small_history order by version")
    assert [tuple(row.values()) for row in found] == [(1, 1, 1), (1, 2, 2), (1, 3, 3)]
    lake.spark.sql(f"drop table {table}")
