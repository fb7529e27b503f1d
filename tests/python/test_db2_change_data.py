"""Rows of Db2's tables in, changes and history out: whatever the order, the batches and the repeats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SCHEMA, DbtError, Lake, Project
from dialects import (
    DB2_HEADER,
    Db2Style,
    db2_cd_rows,
    db2_changes,
    db2_columns,
    db2_uow_rows,
)
from reference import Change, Row, history
from strategies import merged_streams, splits, streams
from test_history_engine import EXAMPLES, assert_same_history, fewer_checks

STAGED = (
    "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='change_id', "
    "file_format='iceberg') }}\n"
)
UOW = {"IBMSNAP_COMMITSEQ": "binary", "IBMSNAP_LOGMARKER": "timestamp"}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("db2_change_data")


def relation(table: str) -> str:
    return f"api.Relation.create(schema='{SCHEMA}', identifier='{table}')"


def contents(lake: Lake, *tables: str) -> dict[str, list[Row]]:
    """Return tables in an order of their own, less the time of the run."""
    found = {}
    for table in tables:
        rows = lake.rows(f"select * from {SCHEMA}.{table}")
        for row in rows:
            row.pop("ingested_at", None)
        found[table] = sorted(rows, key=repr)
    return found


# --- the writer itself --------------------------------------------------------------------------


@given(stream=streams(honest=True))
def test_both_styles_tell_the_same_table(stream: Any) -> None:
    tables = [
        {
            tuple(row[name] for name in stream.unique_key): {
                name: row[name] for name in stream.columns
            }
            for row in history(
                db2_changes(stream, style), stream.unique_key, stream.columns, deletes="close"
            )
            if row["is_current"]
        }
        for style in ("single", "pairs")
    ]

    assert tables[0] == tables[1]


@given(stream=streams(honest=True), style=st.sampled_from(["single", "pairs"]))
def test_a_row_has_a_place_to_itself(stream: Any, style: Db2Style) -> None:
    places = [
        (int.from_bytes(row["IBMSNAP_COMMITSEQ"], "big"), row["IBMSNAP_INTENTSEQ"])
        for row in db2_cd_rows(stream, style)
        if any(row["IBMSNAP_COMMITSEQ"])
    ]

    assert len(places) == len(set(places))


# --- through dbt --------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["single", "pairs"])
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_any_order_any_batches_and_repeats_give_what_the_reference_says(
    style: Db2Style, data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(8, max_changes=12, honest=True))
    batches = data.draw(splits(db2_cd_rows(stream, style), max_batches=3))
    columns, key = db2_columns(stream, style), stream.unique_key
    uow = f", uow={relation('random_uow')}, complete=true" if style == "single" else ""
    project.file(
        "models/stg_random.sql",
        f"{STAGED}{{{{ db2_change_data({relation('random_cd')}, unique_key={key}{uow}) }}}}",
    )
    project.file(
        "models/random_history.sql",
        f"{{{{ config(materialized='history', unique_key={key}) }}}}\n"
        "select * from {{ ref('stg_random') }}",
    )
    run = ("run", "--select", "stg_random", "random_history")

    lake.create("random_uow", UOW, db2_uow_rows(stream))
    lake.create("random_cd", columns, [])
    for number, batch in enumerate(batches):
        lake.append("random_cd", columns, batch)
        project.dbt(*run, *(["--full-refresh"] if number == 0 else []))
    in_batches = contents(lake, "stg_random", "random_history")

    expected = db2_changes(stream, style)
    assert_same_history(
        lake.rows(f"select * from {SCHEMA}.random_history"),
        history(expected, key, stream.columns),
        stream,
    )
    assert [as_change(row) for row in in_batches["stg_random"]] == sorted(
        [as_change(vars(change)) for change in expected], key=repr
    )
    assert sum(row["source_rows"] for row in in_batches["stg_random"]) == sum(map(len, batches))

    lake.create("random_cd", columns, sorted(chain.from_iterable(batches), key=repr))
    project.dbt(*run, "--full-refresh")
    assert contents(lake, "stg_random", "random_history") == in_batches


def as_change(row: Row) -> Row:
    """Keep of a change what the source tells."""
    names = ("change_seq", "operation", "before", "after", "changed_at", "transaction_id")
    return {name: row[name] for name in [*names, "reject_reason"]}
