"""The archive of Java's classes: when it is made, used, made again and left out."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import BIN, environment, run
from conftest import ROOT
from dbt_afterimage.runtime.class_archive import FOLDER, java_options
from dbt_afterimage.runtime.java import JavaChoice

FINISHED = (0xF00BABA8).to_bytes(4, "little") + b"classes"
UNFINISHED = bytes(4) + b"classes"
CONF = {"spark.driver.extraClassPath": "/jars/iceberg-1.10.2.jar"}


@pytest.fixture
def java(tmp_path: Path) -> JavaChoice:
    base = tmp_path / "java" / "lib" / "server" / "classes.jsa"
    base.parent.mkdir(parents=True)
    base.touch()
    return JavaChoice(tmp_path / "java", "17.0.15")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {FOLDER: str(tmp_path / "cache")}


def file_of(options: str) -> Path:
    return Path(options.split()[0].partition("=")[2])


def test_first_session_makes_the_archive_and_the_next_uses_it(
    java: JavaChoice, env: dict[str, str]
) -> None:
    making = java_options(java, CONF, env)
    assert making.startswith("-XX:ArchiveClassesAtExit=")
    file_of(making).write_bytes(FINISHED)
    using = java_options(java, CONF, env)
    assert using.startswith("-XX:SharedArchiveFile=")
    assert file_of(using).read_bytes() == FINISHED
    assert java_options(java, CONF, env) == using


def test_file_that_java_has_not_finished_is_not_used(java: JavaChoice, env: dict[str, str]) -> None:
    made = file_of(java_options(java, CONF, env))
    made.write_bytes(UNFINISHED)
    assert java_options(java, CONF, env).startswith("-XX:ArchiveClassesAtExit=")
    assert made.exists()
    day_before = time.time() - 24 * 60 * 60
    os.utime(made, (day_before, day_before))
    java_options(java, CONF, env)
    assert not made.exists()


def test_other_java_or_jar_has_an_archive_of_its_own(java: JavaChoice, env: dict[str, str]) -> None:
    file_of(java_options(java, CONF, env)).write_bytes(FINISHED)
    first = file_of(java_options(java, CONF, env))
    newer = replace(java, version="17.0.16")
    other_jar = {"spark.driver.extraClassPath": "/jars/iceberg-1.10.3.jar"}
    assert java_options(newer, CONF, env).startswith("-XX:ArchiveClassesAtExit=")
    assert java_options(java, other_jar, env).startswith("-XX:ArchiveClassesAtExit=")
    assert file_of(java_options(java, CONF, env)) == first
    month_before = time.time() - 30 * 24 * 60 * 60
    os.utime(first, (month_before, month_before))
    java_options(newer, CONF, env)
    assert not first.exists()


def test_java_11_has_no_archive(java: JavaChoice, env: dict[str, str]) -> None:
    assert java_options(replace(java, version="11.0.21"), CONF, env) == ""


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa"])
def test_options_of_the_profile_come_first(
    java: JavaChoice, env: dict[str, str], option: str
) -> None:
    conf = {**CONF, "spark.driver.extraJavaOptions": f"-Xss4m {option}"}
    assert java_options(java, conf, env) == ""


def test_java_without_its_own_archive_uses_none(java: JavaChoice, env: dict[str, str]) -> None:
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    assert java_options(java, CONF, env) == ""


def test_empty_setting_means_no_archive(java: JavaChoice) -> None:
    assert java_options(java, CONF, {FOLDER: ""}) == ""


def test_folder_that_cannot_be_made_means_no_archive(java: JavaChoice, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert java_options(java, CONF, {FOLDER: str(tmp_path / "file" / "cache")}) == ""


def test_a_path_with_a_blank_means_no_archive(java: JavaChoice, tmp_path: Path) -> None:
    """Spark splits the options at blanks."""
    made = file_of(java_options(java, CONF, {FOLDER: str(tmp_path / "cache")}))
    made.write_bytes(FINISHED)
    assert java_options(java, CONF, {FOLDER: str(tmp_path / "cache")})
    (tmp_path / "cache").rename(tmp_path / "cache copy")
    assert java_options(java, CONF, {FOLDER: str(tmp_path / "cache copy")}) == ""


@pytest.mark.minutes
def test_java_makes_and_uses_the_archive(tmp_path: Path) -> None:
    settings = environment(**{FOLDER: str(tmp_path), "AFTERIMAGE_WAREHOUSE": str(tmp_path / "w")})

    def show() -> None:
        shown = run(BIN / "dbt", "show", "--inline", "select 1 as one", cwd=ROOT, env=settings)
        assert "| one |" in shown.stdout

    show()
    deadline = time.monotonic() + 120
    while not any(file.read_bytes()[:4] == FINISHED[:4] for file in tmp_path.glob("*.new")):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    show()
    (archive,) = tmp_path.glob("*.jsa")
    assert archive.stat().st_size > 10_000_000
    show()
    assert list(tmp_path.glob("*.new")) == []
