"""Run dbt on the project itself: its examples, and their unit tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from dbt.cli.main import dbtRunner

from conftest import ROOT, inside

# Each unit test, and the model that it is of.
UNIT_TESTS: dict[str, str] = {
    test["name"]: test["model"]
    for file in sorted((ROOT / "models" / "unit_tests").rglob("*.yml"))
    for test in yaml.safe_load(file.read_text())["unit_tests"]
}


def run_dbt(target: Path, *arguments: str) -> list[Any]:
    """Run dbt on the project itself, into the tests' warehouse; return each node's result."""
    where = ("--target-path", str(target), "--log-path", str(target))
    with inside(ROOT):
        outcome = dbtRunner().invoke(["--quiet", *arguments, *where])
    assert outcome.exception is None, outcome.exception
    result: Any = outcome.result
    results: list[Any] = result.results
    return results


def failures(results: list[Any]) -> list[str]:
    """Return what dbt says of each node that failed."""
    return [f"{r.node.name}: {r.message}" for r in results if r.status not in ("success", "pass")]
