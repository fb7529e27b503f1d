"""The shipped examples: every seed, model, unit test and data test of the project itself."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

from conftest import ROOT


def test_the_examples_build_and_every_test_of_theirs_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Of a few rows each: to compile Java for them takes longer than to go without.
    without_compiling = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in without_compiling.items():
        spark.conf.set(name, value)
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
        for name in without_compiling:
            spark.conf.unset(name)

    assert outcome.exception is None, outcome.exception
    results = outcome.result.results  # type: ignore[union-attr]
    assert [
        f"{r.node.name}: {r.message}" for r in results if r.status not in ("success", "pass")
    ] == []
    kinds = Counter(str(result.node.resource_type) for result in results)
    assert kinds["unit_test"] > 80
    assert kinds["test"] > 50
