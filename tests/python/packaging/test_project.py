"""The shipped examples: every seed, model, unit test and data test of the project itself."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples import UNIT_TESTS, failures, run_dbt

pytestmark = pytest.mark.slow

# Eight at a time, since each takes seconds.
EIGHT_EACH = [list(UNIT_TESTS)[first : first + 8] for first in range(0, len(UNIT_TESTS), 8)]


@dataclass
class Built:
    """The result of `dbt build` of the project."""

    results: list[Any]
    nodes: list[dict[str, Any]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which dbt finds the project already parsed."""
    return tmp_path_factory.mktemp("target")


@pytest.fixture(scope="module")
def built(spark: SparkSession, target: Path) -> Built:
    """The examples, built into the tests' warehouse."""
    results = run_dbt(target, "build", "--exclude-resource-type", "unit_test")
    manifest = json.loads((target / "manifest.json").read_text())
    return Built(results=results, nodes=list(manifest["nodes"].values()))


def test_the_examples_build_and_every_test_of_their_rows_passes(built: Built) -> None:
    assert failures(built.results) == []
    kinds = Counter(str(result.node.resource_type) for result in built.results)
    assert kinds["model"] > 30
    assert kinds["test"] > 300


@pytest.mark.minutes
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("names", EIGHT_EACH, ids=lambda names: names[0])
def test_every_unit_test_passes(names: list[str], target: Path) -> None:
    # No more than their inputs: CI draws a few of these tests.
    inputs = sorted({f"+{UNIT_TESTS[name]}" for name in names})
    others = ("--exclude-resource-type", "unit_test", "test")
    assert failures(run_dbt(target, "build", "--select", *inputs, *others)) == []
    results = run_dbt(target, "test", "--select", *names)
    assert failures(results) == []
    assert len(results) == len(names)


def test_every_model_and_each_of_its_columns_is_described(
    built: Built, spark: SparkSession
) -> None:
    models = [
        node
        for node in built.nodes
        if node["resource_type"] == "model" and node["config"]["materialized"] != "ephemeral"
    ]
    assert len(models) > 30
    for model in models:
        assert model["description"], model["name"]
        described = {
            name.lower() for name, column in model["columns"].items() if column["description"]
        }
        columns = spark.table(f"{model['schema']}.{model['alias']}").columns
        assert {name.lower() for name in columns} <= described, model["name"]


@pytest.mark.minutes
@pytest.mark.skipif(
    os.environ.get("DBT_TARGET") == "parquet", reason="each run rebuilds Parquet tables"
)
def test_a_second_run_finds_no_new_change(
    built: Built, spark: SparkSession, tmp_path: Path
) -> None:
    models = [
        f"{node['schema']}.{node['alias']}"
        for node in built.nodes
        if node["config"]["materialized"] == "change_stream"
    ]
    assert len(models) > 10

    def taken_in() -> dict[str, dict[str, Any]]:
        return {
            model: {row.change_id: row.ingested_at for row in spark.table(model).collect()}
            for model in models
        }

    first = taken_in()
    run_dbt(tmp_path, "run", "--select", "config.materialized:change_stream")
    assert taken_in() == first
