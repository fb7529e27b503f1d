"""Which statements wait for other processes, and how."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from command_line import BIN, attempt, environment
from conftest import Project
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.warehouse import (
    _WRITES,
    _CommitLock,
    _local_warehouses,
    exclusive_writes,
    local_folder,
)

DBT_COMMENT = '/* {"app": "dbt", "dbt_version": "1.11.16", "node_id": "model.afterimage.a"} */\n'

WRITES = [
    "create table a as select 1",
    "CREATE OR REPLACE TABLE a using iceberg as select 1",
    "create table if not exists a (b int)",
    "create external table a (b int)",
    "replace table a as select 1",
    "insert into a values (1)",
    "insert overwrite a select 1",
    "merge into a using b on a.c = b.c when matched then delete",
    "update a set b = 1",
    "delete from a",
    "truncate table a",
    "drop table if exists a",
    "alter table a add column b int",
    "call lake.system.rewrite_data_files('a')",
    "with b as (select 1) insert into a select * from b",
    "with b as (select 1)\nmerge into a using b on true when not matched then insert *",
    "with b as (select 1) delete from a where c in (select * from b)",
    "with b as (select 1) update a set c = 1",
    "from b insert into a select *",
]
READS = [
    "select 1",
    "select 'insert into a'",
    "select * from a /* insert into b */",
    "with b as (select 1) select * from b",
    "with b as (select 1 as updated) select updated from b",
    "show tables in a",
    "describe table a",
    "explain insert into a values (1)",
    "set spark.sql.ansi.enabled = true",
    "create namespace if not exists a",
    "create temporary view a as select 1",
    "-- insert into a\nselect 1",
    "/* insert into a */ select 1",
    "inserted",
    "",
]
PREFIXES = ["", "\n  ", DBT_COMMENT, "-- a note\n", "/**/ /* * ** */ -- x\n\t", "/* a\nb */"]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("sql", WRITES)
def test_statement_that_writes_is_detected_by_its_first_word(prefix: str, sql: str) -> None:
    assert _WRITES.match(prefix + sql)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("sql", READS)
def test_statement_that_reads_does_not_wait(prefix: str, sql: str) -> None:
    assert not _WRITES.match(prefix + sql)


def test_long_statement_is_classified_at_once() -> None:
    comments = "/* one of many */ " * 200
    columns = ", ".join(f"'update' as update_{i} /* c */" for i in range(2000))
    begun = time.monotonic()
    assert not _WRITES.match(f"{comments}select {columns}")
    assert not _WRITES.match(f"{comments}with a as (select {columns}) select * from a")
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/data/warehouse", "/data/warehouse"),
        ("warehouse", "warehouse"),
        ("/data/12:30", "/data/12:30"),
        ("file:/data/warehouse", "/data/warehouse"),
        ("file:///data/warehouse", "/data/warehouse"),
        ("s3://bucket/warehouse", None),
        ("hdfs://host:8020/warehouse", None),
        ("hdfs:/warehouse", None),
        ("", None),
    ],
)
def test_location_is_a_folder_or_not(location: str, folder: str | None) -> None:
    assert local_folder(location) == (Path(folder) if folder else None)


class Conf(dict[str, str]):
    """A session's settings, of which only `get` is used."""


class Session:
    """A session on catalogs in folders, without a JVM. The catalog `lake` is the default one."""

    def __init__(self, kind: str, folders: Mapping[str, Path | str]) -> None:
        self.conf = Conf({"spark.sql.defaultCatalog": "lake"} if "lake" in folders else {})
        for catalog, folder in folders.items():
            self.conf[f"spark.sql.catalog.{catalog}"] = "org.apache.iceberg.spark.SparkCatalog"
            self.conf[f"spark.sql.catalog.{catalog}.type"] = kind
            self.conf[f"spark.sql.catalog.{catalog}.warehouse"] = str(folder)
        self.sparkContext = self

    def getConf(self) -> Session:
        return self

    def getAll(self) -> list[tuple[str, str]]:
        return list(self.conf.items())


def session(folder: Path | str, kind: str = "hadoop") -> SparkSession:
    return session_of(kind, {"lake": folder})


def session_of(kind: str, folders: Mapping[str, Path | str]) -> SparkSession:
    fake: Any = Session(kind, folders)
    return cast(SparkSession, fake)


WAIT_FOR_THE_LOCK = """\
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    print("ready", flush=True)
    fcntl.flock(file, fcntl.LOCK_EX)
    print("mine", flush=True)
    sys.stdin.read()
"""


class OtherProcess:
    """A process that holds the lock of a warehouse until it is asked to release it."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", WAIT_FOR_THE_LOCK, folder / ".afterimage-lock"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_for("ready")

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.said.append(line.strip())

    def wait_for(self, word: str) -> None:
        deadline = time.monotonic() + 20
        while word not in self.said:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def let_go(self) -> None:
        self._process.communicate()
        self._reader.join()


def test_other_process_waits_while_this_one_writes(tmp_path: Path) -> None:
    with exclusive_writes(session(tmp_path), "insert into a values (1)"):
        other = OtherProcess(tmp_path)
        time.sleep(0.3)
        assert other.said == ["ready"]
    other.wait_for("mine")
    other.let_go()


def test_this_process_waits_while_another_writes(tmp_path: Path) -> None:
    other = OtherProcess(tmp_path)
    other.wait_for("mine")
    entered = threading.Event()

    def write() -> None:
        with exclusive_writes(session(tmp_path), "insert into a values (1)"):
            entered.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not entered.wait(0.3)
    with exclusive_writes(session(tmp_path), "select 1"):
        pass  # a read goes ahead
    other.let_go()
    assert entered.wait(20)
    thread.join()


def test_threads_of_one_process_write_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=20)

    def write() -> None:
        with exclusive_writes(session(tmp_path), "insert into a values (1)"):
            together.wait()

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_last_thread_to_end_releases_the_lock(tmp_path: Path) -> None:
    with exclusive_writes(session(tmp_path), "insert into a values (1)"):
        with exclusive_writes(session(tmp_path), "insert into b values (1)"):
            pass
        other = OtherProcess(tmp_path)
        time.sleep(0.3)
        assert other.said == ["ready"]
    other.wait_for("mine")
    other.let_go()


def test_statement_that_fails_releases_the_lock(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="refused"),
        exclusive_writes(session(tmp_path), "insert into a values (1)"),
    ):
        raise RuntimeError("refused")
    other = OtherProcess(tmp_path)
    other.wait_for("mine")
    other.let_go()


@pytest.mark.parametrize("default", ["lake", "first"])
def test_each_local_catalog_is_locked(tmp_path: Path, default: str) -> None:
    """Its name may be in the target's schema, or in a source's; two may have one folder."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    folders: dict[str, Path | str] = {
        default: other,
        "second": one,
        "third": f"file:{one}/../other",
    }
    spark = session_of("hadoop", folders)
    commits = _CommitLock(_local_warehouses(spark))

    def exclusive() -> AbstractContextManager[None]:
        return exclusive_writes(spark, "insert into second.a values (1)")

    @contextmanager
    def commit() -> Iterator[None]:
        commits.acquire("v2.metadata.json", "me")
        yield
        assert commits.release("v2.metadata.json", "me")

    for waits in (exclusive, commit):
        with waits():
            others = [OtherProcess(folder) for folder in (one, other)]
            time.sleep(0.3)
            assert [process.said for process in others] == [["ready"], ["ready"]]
        for process in others:
            process.wait_for("mine")
            process.let_go()


def test_catalog_that_can_only_be_read_is_not_locked(tmp_path: Path) -> None:
    # A folder in the place of the file, for root may write everywhere.
    (tmp_path / "raw" / ".afterimage-lock").mkdir(parents=True)
    own = tmp_path / "own"
    own.mkdir()
    spark = session_of("hadoop", {"lake": own, "raw": tmp_path / "raw"})
    with exclusive_writes(spark, "insert into a select * from raw.crm.b"):
        assert (own / ".afterimage-lock").exists()


def test_file_uri_has_the_lock_of_its_folder(tmp_path: Path) -> None:
    with exclusive_writes(session(f"file://{tmp_path}"), "insert into a values (1)"):
        assert (tmp_path / ".afterimage-lock").exists()


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_catalog_that_settles_commits_itself_needs_no_lock(tmp_path: Path, kind: str) -> None:
    with exclusive_writes(session(tmp_path, kind), "insert into a values (1)"):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["s3://bucket/warehouse", "", "/no/such/folder"])
def test_storage_without_a_folder_here_needs_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with exclusive_writes(session(location), "insert into a values (1)"):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "below"),
    [
        (["dbt", "run"], ""),
        (["dbt", "run"], "deep/warehouse"),
        (["dbt", "run", "--target", "parquet"], "warehouse"),
        (["afterimage", "timeline", "--model", "first", "--key", "1", "--key-columns", "id"], ""),
        (["afterimage", "init", "landing.orders__ct"], ""),
        (["afterimage", "serve"], ""),
    ],
    ids=lambda value: "_".join(value[:2]) if isinstance(value, list) else value or "file",
)
def test_warehouse_that_cannot_be_made_is_named_with_its_setting(
    tmp_path: Path, command: list[str], below: str
) -> None:
    """A path below a file, where not even root can make a folder."""
    project = Project(tmp_path)
    project.file("models/first.sql", "select 1 as id")
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    warehouse = blocked / below
    env = environment(
        AFTERIMAGE_WAREHOUSE=str(warehouse), DBT_PROFILES_DIR=str(tmp_path / "profiles")
    )
    result = attempt(BIN / command[0], *command[1:], cwd=tmp_path, env=env)
    assert result.returncode != 0
    output = result.stdout + result.stderr
    (said,) = {line.strip() for line in output.splitlines() if "AFTERIMAGE_WAREHOUSE" in line}
    assert f"the warehouse {warehouse} cannot be written to (it is not a folder)" in said
    assert "Set AFTERIMAGE_WAREHOUSE to a folder" in said
    assert "Traceback" not in output
    assert "\tat " not in output


@pytest.mark.parametrize("sql", ["insert into a values (1)", "create schema if not exists lake.a"])
def test_read_only_warehouse_is_reported_once_a_statement_writes(tmp_path: Path, sql: str) -> None:
    # A folder in the place of the file, for root may write everywhere.
    (tmp_path / ".afterimage-lock").mkdir()
    with exclusive_writes(session(tmp_path), "select 1"):
        pass
    with (
        pytest.raises(AfterimageError, match=f"{tmp_path} .* AFTERIMAGE_WAREHOUSE"),
        exclusive_writes(session(tmp_path), sql),
    ):
        raise AssertionError("not reached")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_warehouse_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with (
        pytest.raises(AfterimageError, match="Permission denied"),
        exclusive_writes(session(tmp_path), "drop table a"),
    ):
        raise AssertionError("not reached")
