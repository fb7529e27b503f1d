"""The engine against the plain-Python reference, on streams that no one would write by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from conftest import SCHEMA, Lake, Project
from reference import META_COLUMNS, Change, audit, history, sort_key
from strategies import Options, Stream, merged_streams, options, splits

# How many cases one Spark statement is shown, and how many statements there are.
CASES = 20
EXAMPLES = int(os.environ.get("AFTERIMAGE_EXAMPLES", "5"))

fewer_checks = settings(
    max_examples=EXAMPLES,
    deadline=None,
    # Shrinking would run Spark for minutes, and `assert_same_history` names the case anyway.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("history_engine")


def stream_columns(stream: Stream) -> dict[str, str]:
    """Return the columns of the change contract for a stream's table."""
    fields = ", ".join(f"`{name}`: {stream.types[name]}" for name in stream.columns)
    return {
        "change_id": "string",
        "change_seq": "string",
        "operation": "string",
        "before": f"struct<{fields}>",
        "after": f"struct<{fields}>",
        "changed_columns": "array<string>",
        "absent_columns": "array<string>",
        "changed_at": "timestamp",
        "transaction_id": "string",
        "reject_reason": "string",
        "ingested_at": "timestamp",
    }


def as_row(change: Change, stream: Stream) -> dict[str, Any]:
    """Return a change as a row of the stream's table, its images in the order of columns."""
    row = asdict(change)
    for image in ("before", "after"):
        if row[image] is not None:
            row[image] = tuple(row[image][name] for name in stream.columns)
    return row


def jinja(chosen: Options) -> str:
    """Write the options as arguments of `scd2`."""
    arguments = []
    for name, value in chosen.items():
        if name == "load_valid_from":
            value = str(value)
        arguments.append(f"{name}={'none' if value is None else repr(value)}")
    return ", ".join(arguments)


def in_order(rows: list[dict[str, Any]], unique_key: list[str]) -> list[dict[str, Any]]:
    """Order rows as the reference does."""
    return sorted(
        rows, key=lambda row: (sort_key(tuple(row[k] for k in unique_key)), row["version"])
    )


def assert_same_history(
    actual: list[dict[str, Any]], expected: list[dict[str, Any]], stream: Stream
) -> None:
    """Compare row for row, and show the changes of the first key that differs."""
    names = [*stream.columns, *META_COLUMNS]
    got = [{name: row[name] for name in names} for row in in_order(actual, stream.unique_key)]
    if got == expected:
        return
    for case in sorted({row["case_no"] for row in [*got, *expected]}):
        left = [row for row in got if row["case_no"] == case]
        right = [row for row in expected if row["case_no"] == case]
        if left != right:
            for change in stream.changes:
                if change.operation == "truncate" or case in {
                    (change.after or change.before or {}).get("case_no")
                }:
                    note(f"{change}")
            for row in left:
                note(f"got      {row}")
            for row in right:
                note(f"expected {row}")
            assert left == right


@given(data=st.data())
@fewer_checks
def test_a_full_build_is_what_the_reference_says(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES))
    chosen = data.draw(options(stream))
    table = "random_changes"
    lake.create(table, stream_columns(stream), [as_row(c, stream) for c in stream.distinct])

    sql = project.compile(
        "{{ scd2(api.Relation.create(schema='%s', identifier='%s'), unique_key=%r, %s) }}"
        % (SCHEMA, table, stream.unique_key, jinja(chosen))
    )
    actual = lake.rows(sql)

    assert_same_history(
        actual, history(stream.changes, stream.unique_key, stream.columns, **chosen), stream
    )
    assert len({row["history_id"] for row in actual}) == len(actual)


@given(data=st.data())
@fewer_checks
def test_incremental_runs_give_what_the_reference_says_after_each_batch(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES))
    chosen = data.draw(options(stream))
    batches = data.draw(splits(stream.distinct, max_batches=3))
    config = ", ".join(["materialized='history'", f"unique_key={stream.unique_key}", jinja(chosen)])
    project.file(
        "models/batched_history.sql",
        f"{{{{ config(file_format='iceberg', {config}) }}}}\n"
        f"select * from {SCHEMA}.batched_changes",
    )

    delivered: dict[str, dict[str, Any]] = {}
    for number, batch in enumerate(batches):
        for change in batch:
            # What comes again is written again, as staging does with a row that has changed.
            delivered[change.change_id] = as_row(change, stream) | {
                "ingested_at": datetime(2024, 1, 1) + timedelta(hours=number)
            }
        lake.create("batched_changes", stream_columns(stream), list(delivered.values()))
        project.dbt("run", *(["--full-refresh"] if number == 0 else []))

        so_far = [change for change in stream.distinct if change.change_id in delivered]
        assert_same_history(
            lake.rows(f"select * from {SCHEMA}.batched_history"),
            history(so_far, stream.unique_key, stream.columns, **chosen),
            replace(stream, changes=so_far),
        )


@given(data=st.data())
@fewer_checks
def test_the_audit_is_what_the_reference_says(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES))
    table = "random_changes"
    lake.create(table, stream_columns(stream), [as_row(c, stream) for c in stream.distinct])

    sql = project.compile(
        "{{ change_audit(api.Relation.create(schema='%s', identifier='%s'), unique_key=%r) }}"
        % (SCHEMA, table, stream.unique_key)
    )
    expected = audit(stream.changes, stream.unique_key, stream.columns)
    for row in expected:
        row["old_value"], row["new_value"] = text(row["old_value"]), text(row["new_value"])
    actual = lake.rows(sql)
    assert in_any_order(actual, list(expected[0]) if expected else []) == in_any_order(
        expected, list(expected[0]) if expected else []
    )


def in_any_order(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return rows in a form that two lists of them can be compared in."""
    return sorted(repr([row[name] for name in names]) for row in rows)


def text(value: Any) -> str | None:
    """Write a value as Spark casts it to a string."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        micros = f"{value:.%f}".rstrip("0").rstrip(".") if value.microsecond else ""
        return f"{value:%Y-%m-%d %H:%M:%S}{micros}"
    return str(value)
