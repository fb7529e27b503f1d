"""Afterimage as a package of another dbt project: installed by `dbt deps`, without any network."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

from command_line import BIN, environment, run
from conftest import ROOT, Lake, inside

pytestmark = pytest.mark.slow

PROJECT = ROOT / "tests" / "package_project"


def dbt(folder: Path, *arguments: str) -> Any:
    """Run dbt in a folder, in this process, and return its result."""
    with inside(folder):
        outcome = dbtRunner().invoke(["--quiet", *arguments, "--profiles-dir", str(folder)])
    assert outcome.success, outcome.exception or [
        (result.node.name, result.status, result.message)
        for result in getattr(outcome.result, "results", [])
    ]
    return outcome.result


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example project."""
    ours = shutil.ignore_patterns("dbt_packages", ".afterimage", "package-lock.yml")
    return Path(shutil.copytree(PROJECT, tmp_path / "shop", ignore=ours))


def test_project_with_the_local_package_builds(
    project: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERIMAGE_REPOSITORY", str(ROOT))
    dbt(project, "deps")
    results = dbt(project, "build").results

    # The project's `dispatch` chooses how tables are listed.
    log = (project / ".afterimage" / "logs" / "dbt.log").read_text()
    assert "show tables in shop" in log
    assert "show table extended" not in log

    # The package's own examples are not built in somebody else's project.
    assert {result.node.package_name for result in results} == {"shop"}
    assert sum(result.node.resource_type == "test" for result in results) == 9

    history = lake.rows(
        "select order_no, status, cast(total as string) as total, valid_from, valid_to, closed_by"
        " from shop.orders_history order by order_no, version"
    )
    second = [datetime(2024, 3, 1, 12, 0, seconds) for seconds in range(4)]
    assert [tuple(row.values()) for row in history] == [
        # The load row has no timestamp: it begins when this project's own var says.
        (1, "open", "10.00", datetime(2000, 1, 1), second[2], "update"),
        (1, "paid", "10.00", second[2], None, None),
        (2, "open", "7.50", second[1], second[3], "delete"),
    ]
    assert lake.rows("select order_no, status from shop.orders_current") == [
        {"order_no": 1, "status": "paid"}
    ]
    results = dbt(project, "show", "--select", "orders_history,resource_type:model").results
    [shown] = [result for result in results if result.node.name == "orders_history"]
    assert sorted(row["closed_by"] or "" for row in shown.agate_table.rows) == [
        "",
        "delete",
        "update",
    ]
    # The UDFs come with the pip-installed package.
    assert lake.rows("select ordinals from shop.orders_flagged order by header__change_seq") == [
        {"ordinals": [1, 2, 3]},
        {"ordinals": [2]},
        {"ordinals": [1]},
    ]
    # By `dispatch`, seeds are loaded by Afterimage's macros: an empty cell is NULL, not a text.
    empty = "select count(*) as n from shop.orders__ct where header__change_seq is null"
    assert lake.rows(empty) == [{"n": 1}]

    # Without it the package changes nothing of dbt's own.
    settings = project / "dbt_project.yml"
    settings.write_text(settings.read_text().split("dispatch:")[0])
    written = len((project / ".afterimage" / "logs" / "dbt.log").read_text())
    dbt(project, "run", "--select", "orders_current")
    log = (project / ".afterimage" / "logs" / "dbt.log").read_text()[written:]
    assert "show table extended in shop" in log


@pytest.mark.minutes
def test_project_with_the_package_from_git_builds_by_the_documented_commands(
    project: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "afterimage.git"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, tracked.stdout.split("\0")):
        target = repository / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "release"],
        ["tag", "v1"],
    ):
        run("git", *command, cwd=repository)
    (project / "packages.yml").write_text(
        f"packages:\n  - git: file://{repository}\n    revision: v1\n"
    )
    env = environment(AFTERIMAGE_WAREHOUSE=str(tmp_path / "warehouse"))
    run(BIN / "dbt", "deps", cwd=project, env=env)
    built = run(BIN / "dbt", "build", cwd=project, env=env)
    assert "ERROR=0" in built.stdout
    assert "WARN=0" in built.stdout
