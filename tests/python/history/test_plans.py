"""How often Spark reads, shuffles and sorts for each model, against the intended numbers.

One more of any of these would only show in the run time, and only with much data.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.types import StructType

from conftest import FORMAT, SCHEMA, Lake, Project
from generate import changes

# A node of the plan by the word it begins with. A shuffle that is read again is no second one.
NODES = {
    "scans": r"BatchScan ",
    "shuffles": r"- Exchange ",
    "reused shuffles": r"ReusedExchange ",
    "broadcasts": r"BroadcastExchange ",
    "merge joins": r"SortMergeJoin ",
    "sorts": r"Sort \[",
    "windows": r"Window \[",
    "Python": r"(?:ArrowEvalPython|BatchEvalPython) ",
}

MEANT = {
    # The rows are shuffled once and read thrice: for the plain rows, to find the groups of the
    # others, and to take these out by a join, which does not read them where there are none. The
    # plain rows take one sort, the join two; the others' four have little to do. Another scan, and
    # the other shuffle, which is small, are for the masks.
    "stg_planned": {
        "scans": 2,
        "shuffles": 2,
        "reused shuffles": 3,
        "broadcasts": 2,
        "merge joins": 1,
        "sorts": 7,
        "windows": 8,
    },
    # The second scan, of a few columns, is for the key changes.
    "planned_history": {"scans": 2, "shuffles": 1, "sorts": 1, "windows": 3},
    "planned_current": {"scans": 1},
    # As the history: a table looks first whether there is a truncation, or rows that take each
    # other's keys. As some rows got another key, one more window puts what they were beside them.
    "planned_audit": {"scans": 2, "shuffles": 2, "sorts": 2, "windows": 4},
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Iterator[Project]:
    """A project with a change table of 2,000 changes, its staging and its history."""
    project = make_project("plans")
    changes(lake.spark, 2000).writeTo(f"{SCHEMA}.planned__ct").using(FORMAT).createOrReplace()
    project.file(
        "models/sources.yml",
        "sources: [{name: raw, schema: afterimage, tables: [{name: planned__ct}]}]",
    )
    project.model(
        "stg_planned",
        "{{ qlik_change_table(source('raw', 'planned__ct'), unique_key=['id']) }}",
        tblproperties={"write.metadata.metrics.column.change_seq": "full"},
    )
    project.history("planned_history", "stg_planned")
    project.file("models/planned_current.sql", "{{ current_state(ref('planned_history')) }}")
    project.file(
        "models/planned_audit.sql", "{{ change_audit(ref('stg_planned'), unique_key=['id']) }}"
    )
    # So few rows would be joined by a broadcast everywhere.
    thresholds = [
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.adaptive.autoBroadcastJoinThreshold",
    ]
    for threshold in thresholds:
        lake.spark.conf.set(threshold, "-1")
    # The profile cuts plans off that nobody reads.
    length = "spark.sql.maxPlanStringLength"
    shipped = lake.spark.conf.get(length)
    lake.spark.conf.set(length, str(2**31 - 16))
    project.dbt("run")
    yield project
    for threshold in thresholds:
        lake.spark.conf.unset(threshold)
    lake.spark.conf.set(length, shipped or "")
    for table in ("planned__ct", *MEANT):
        lake.spark.sql(f"drop table if exists {SCHEMA}.{table}")


def select_of(project: Project, model: str) -> str:
    """Return the select that a model runs."""
    text = (
        project.folder / ".afterimage/target/run/afterimage/models" / f"{model}.sql"
    ).read_text()
    select = re.search(r"^\s*(?:with|select)\s*$", text, re.MULTILINE)
    assert select, text
    return text[select.start() :]


def shape(project: Project, lake: Lake, model: str) -> dict[str, int]:
    """Return how often each node is in the executed plan of a model's select."""
    frame = lake.spark.sql(select_of(project, model))
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    plan = plan.split("== Final Plan ==")[-1].split("== Initial Plan ==")[0]
    found = Counter({name: len(re.findall(node, plan)) for name, node in NODES.items()})
    return {name: count for name, count in found.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize("model", MEANT)
def test_a_model_reads_shuffles_and_sorts_as_often_as_intended(
    model: str, project: Project, lake: Lake
) -> None:
    assert shape(project, lake, model) == MEANT[model]


@pytest.mark.slow
def test_plain_rows_are_read_only_twice(project: Project, lake: Lake) -> None:
    """They are read once for their values, and once to check that all rows are plain."""
    # A join that is compiled begins with its first side, one that is not with its second.
    compiled = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    as_before = {name: lake.spark.conf.get(name) or "" for name in compiled}
    try:
        for name, value in compiled.items():
            lake.spark.conf.set(name, value)
        frame = lake.spark.sql(select_of(project, "stg_planned"))
        frame.collect()
    finally:
        for name, value in as_before.items():
            lake.spark.conf.set(name, value)
    leaves = frame._jdf.queryExecution().executedPlan().executedPlan().collectLeaves()
    times_read = {}
    for leaf in (leaves.apply(place) for place in range(leaves.size())):
        if leaf.nodeName() == "ShuffleQueryStage":
            metrics = leaf.shuffle().metrics()
            written = metrics.apply("shuffleRecordsWritten").value()
            times_read[written] = metrics.apply("recordsRead").value() / written
    rows = lake.spark.table(f"{SCHEMA}.planned__ct").count()
    assert times_read[rows] == 2


def test_a_history_reads_only_the_before_image_columns_it_needs(
    project: Project, lake: Lake
) -> None:
    """The key, for deletes and key changes, and the one column that updates omit."""
    frame = lake.spark.sql(select_of(project, "planned_history"))
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    images = [
        {field.name for field in column.dataType.fields}
        for leaf in (leaves.apply(place) for place in range(leaves.size()))
        for column in StructType.fromJson(json.loads(leaf.schema().json())).fields
        if column.name == "before" and isinstance(column.dataType, StructType)
    ]
    assert images == [{"id", "notes"}, {"id"}]


def test_the_newest_change_is_found_without_reading(project: Project, lake: Lake) -> None:
    """Where no change is rejected, and with the table property that the scaffold sets."""
    for query in ("count(reject_reason)", "left(max(change_seq), 35)"):
        frame = lake.spark.sql(f"select {query} from {SCHEMA}.stg_planned")
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "LocalTableScan" in plan
        assert "BatchScan" not in plan
