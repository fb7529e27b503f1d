"""The commands for a clone of the repository: the README's first lines, and the benchmark."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import environment, run
from conftest import ROOT
from pages import page, typed

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the commit, set up and tried as the README says."""
    folder = tmp_path_factory.mktemp("clone")
    # `pip install` of a checkout is what test_wheel.py does.
    assert ["make demo"] in typed(page("README.md"))
    script = f"git clone {shlex.quote(str(ROOT))} afterimage && cd afterimage && make demo"
    said = run("bash", "-c", script, cwd=folder, env=environment(), timeout=1800).stdout
    for shown in ("customers_history", "customers_audit"):
        assert shown in said
    return folder / "afterimage"


def test_demo_leaves_no_file_that_git_would_track(clone: Path) -> None:
    assert run("git", "status", "--short", cwd=clone).stdout == ""


@pytest.mark.parametrize(
    "line", [line for block in typed(page("docs/operations/benchmark.md")) for line in block]
)
def test_benchmark_of_a_hundredth_of_the_size(clone: Path, line: str) -> None:
    # One round of each part shows that the command works.
    smaller = re.sub(r"\d{7,}", lambda size: f"{int(size[0]) // 100} --repeats 1", line)
    assert smaller != line
    said = run("bash", "-c", smaller, cwd=clone, env=environment(), timeout=3600).stdout
    assert "ours" in said
    assert (clone / ".afterimage" / "benchmark" / "bench.json").exists()
