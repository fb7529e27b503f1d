"""The shipped examples: every seed, model, unit test and data test of the project itself."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from dbt.cli.main import dbtRunner

from conftest import ROOT


def test_the_examples_build_and_every_test_of_theirs_passes(spark: object, tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        outcome = dbtRunner().invoke(
            [
                *("--quiet", "build"),
                *("--target-path", str(tmp_path), "--log-path", str(tmp_path)),
            ]
        )
    finally:
        os.chdir(before)

    assert outcome.exception is None, outcome.exception
    results = outcome.result.results  # type: ignore[union-attr]
    assert [
        f"{r.node.name}: {r.message}" for r in results if r.status not in ("success", "pass")
    ] == []
    kinds = Counter(str(result.node.resource_type) for result in results)
    assert kinds["unit_test"] > 80
    assert kinds["test"] > 50
