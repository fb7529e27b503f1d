"""OpenEdge rows in, history out: whatever the order, the batches and the repeats of delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from conftest import SCHEMA, DbtError, Lake, Project
from dialect_openedge import (
    TABLE_NUMBER,
    FieldMaps,
    SplitOrder,
    carried,
    change_rows,
    in_two_parts,
    possible_splits,
    tracking_row,
    types_of,
)
from reference import Change, Row, history
from strategies import Stream, merged_streams, splits
from test_history_engine import EXAMPLES, assert_same_history, fewer_checks

CHANGES = "random_items__cdc"
TRACKING = "random_cdc_tracking"
STAGED = (
    "change_seq",
    "operation",
    "before",
    "after",
    "changed_columns",
    "absent_columns",
    "changed_at",
    "transaction_id",
    "reject_reason",
)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("openedge_change_table")


def relation(table: str) -> str:
    return f"api.Relation.create(schema='{SCHEMA}', identifier='{table}')"


def draw_rows(
    data: st.DataObject, changes: list[Change], columns: list[str], maps: FieldMaps, order: SplitOrder
) -> list[tuple[str, Row]]:
    """Write the changes as rows of both tables; some records break in two."""
    rows: list[tuple[str, Row]] = []
    for change in changes:
        for row in change_rows(change):
            parts = [row]
            places = possible_splits(row, columns)
            if places and data.draw(st.integers(0, 3)) == 3:
                parts = in_two_parts(row, columns, data.draw(st.sampled_from(places)), order)
            rows += [(CHANGES, part) for part in parts]
        rows.append((TRACKING, tracking_row(change, columns, maps)))
    return rows


@given(data=st.data())
@settings(fewer_checks, max_examples=max(2, EXAMPLES // 2))
def test_any_order_any_batches_and_repeats_give_what_one_batch_gives(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(8, max_changes=12, honest=True))
    maps: FieldMaps = data.draw(st.sampled_from(["bits", "names", "bytes", "hex"]))
    order: SplitOrder = data.draw(st.sampled_from(["zero_first", "zero_last"]))
    changes = carried(stream, maps)
    rows = draw_rows(data, changes, stream.columns, maps, order)
    batches = data.draw(splits(rows, max_batches=3))
    note(f"{maps} {order} {stream.types}")
    types = dict(zip((CHANGES, TRACKING), types_of(stream, maps), strict=True))
    key = stream.unique_key
    encoding = "'hex'" if maps == "hex" else "none"
    project.file(
        "models/stg_random.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key='change_id', file_format='iceberg') }}\n"
        f"{{{{ openedge_change_table({relation(CHANGES)}, unique_key={key}, "
        f"tracking={relation(TRACKING)}, source_table_number={TABLE_NUMBER}, "
        f"partition_resets='truncate', field_map_encoding={encoding}, split_order='{order}') }}}}",
    )
    project.file(
        "models/random_history.sql",
        f"{{{{ config(materialized='history', unique_key={key}) }}}}\n"
        "select * from {{ ref('stg_random') }}",
    )
    # Another table's changes, with the same sequences.
    others = [tracking_row(change, stream.columns, maps, table_number=15) for change in changes]

    lake.create(CHANGES, types[CHANGES], [])
    lake.create(TRACKING, types[TRACKING], others)
    for number, batch in enumerate(batches):
        deliver(lake, types, batch)
        project.dbt("run", *(["--full-refresh"] if number == 0 else []))
    in_batches = contents(lake)

    assert_same_changes(lake, changes, stream)
    assert_same_history(
        lake.rows(f"select * from {SCHEMA}.random_history"),
        history(changes, key, stream.columns),
        stream,
    )
    delivered = sum(len(batch) for batch in batches)
    assert lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_random") == [
        {"n": delivered or None}
    ]

    project.dbt("run", "--full-refresh")
    assert contents(lake) == in_batches


def deliver(lake: Lake, types: dict[str, dict[str, str]], batch: list[tuple[str, Row]]) -> None:
    for table in (CHANGES, TRACKING):
        lake.append(table, types[table], [row for name, row in batch if name == table])


def contents(lake: Lake) -> list[list[dict[str, Any]]]:
    """Return both tables, less the time of the run."""
    staged = lake.rows(f"select * from {SCHEMA}.stg_random order by change_id")
    for row in staged:
        del row["ingested_at"]
    return [staged, lake.rows(f"select * from {SCHEMA}.random_history order by history_id")]


def assert_same_changes(lake: Lake, changes: list[Change], stream: Stream) -> None:
    """Compare the staging model with what the stream says, change for change."""
    staged = {row["change_id"]: row for row in lake.rows(f"select * from {SCHEMA}.stg_random")}
    expected = {change.change_seq: change for change in changes}
    assert sorted(staged) == sorted(expected)
    for change_id, change in expected.items():
        row = staged[change_id]
        told = {name: getattr(change, name) for name in STAGED}
        if told["changed_columns"] is not None:
            told["changed_columns"] = [c for c in stream.columns if c in told["changed_columns"]]
        assert {name: row[name] for name in STAGED} == told
        assert row["tracking"]["user_name"] == "somebody"
