"""The engine against the plain-Python reference, on random streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from conftest import SCHEMA, Lake, Project, compile_statements, relation
from histories import (
    DAY,
    EXAMPLES,
    as_row,
    assert_same_history,
    fewer_checks,
    jinja,
    stream_columns,
    text,
)
from reference import Change, audit, history
from strategies import (
    START,
    Stream,
    merged_streams,
    options,
    seq,
    splits,
    splits_in_order,
    whole,
)

# How many cases one statement is shown, and how many examples there are of runs that build the
# histories below: 600 cases in all, and ten times as many where AFTERIMAGE_EXAMPLES says 50.
CASES = 50
FEW = max(2, EXAMPLES * 2 // 5)

# The ways that an incremental run can take, and what stream, options and batches must be like for
# each: keys cut from their beginning, as options or a rejected truncation ask for, or from the
# place of their first new change on; and then with nothing behind that place, or with versions to
# be held against. A table that was never truncated takes a shorter way in each.
WAYS = ["from_the_beginning", "from_places", "in_order"]
HISTORIES = {
    f"{way}_{kind}": (way, truncates)
    for way in WAYS
    for kind, truncates in {"truncated": True, "never_truncated": False}.items()
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("history_engine")


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def _compiled(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    compile_statements(spark, request.param)
    yield
    compile_statements(spark, before)


@pytest.mark.usefixtures("_compiled")
@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_a_full_build_equals_the_reference(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES, trades=True))
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


@pytest.mark.slow
@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_a_history_as_known_at_a_moment_has_the_changes_taken_in_by_then(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES, trades=True))
    chosen = data.draw(options(stream))
    batches = data.draw(splits(stream.distinct, min_batches=3, max_batches=3))
    runs = {change.change_id: number for number, batch in enumerate(batches) for change in batch}
    rows = [
        as_row(c, stream) | {"ingested_at": DAY + timedelta(hours=runs[c.change_id])}
        for c in stream.distinct
    ]
    lake.create("known_changes", stream_columns(stream), rows)

    sql = project.sql(
        f"known_at({relation('known_changes')}, '{DAY + timedelta(hours=1)}',"
        f" unique_key={stream.unique_key}, {jinja(chosen)})"
    )

    known = [change for change in stream.distinct if runs[change.change_id] <= 1]
    assert_same_history(
        lake.rows(sql),
        history(known, stream.unique_key, stream.columns, **chosen),
        replace(stream, changes=known),
    )


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_incremental_runs_equal_the_reference_after_each_batch(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    cases = []
    for name, (way, truncates) in HISTORIES.items():
        from_places = way != "from_the_beginning"
        stream = data.draw(
            merged_streams(
                CASES, truncates=truncates, from_places=from_places, trades=not from_places
            )
        )
        if from_places and data.draw(st.booleans()):
            stream = whole(stream)
        chosen = data.draw(options(stream, from_places))
        split = splits_in_order if way == "in_order" else splits
        batches = data.draw(split(stream.distinct, min_batches=2, max_batches=3))
        config = ", ".join(
            ["materialized='history'", f"unique_key={stream.unique_key}", jinja(chosen)]
        )
        project.file(
            f"models/{name}.sql",
            f"{{{{ config({config}) }}}}\nselect * from {SCHEMA}.{name}_changes",
        )
        delivered: dict[str, dict[str, Any]] = {}
        cases.append((name, stream, chosen, batches, delivered))

    for number in range(max(len(batches) for _, _, _, batches, _ in cases)):
        for name, stream, _, batches, delivered in cases:
            for change in batches[number] if number < len(batches) else []:
                # What comes again is written again, as staging does with a row that has changed.
                delivered[change.change_id] = as_row(change, stream) | {
                    "ingested_at": datetime(2024, 1, 1) + timedelta(hours=number)
                }
            lake.create(f"{name}_changes", stream_columns(stream), list(delivered.values()))
        project.dbt("run", *(["--full-refresh"] if number == 0 else []))

        for name, stream, chosen, _, delivered in cases:
            so_far = [change for change in stream.distinct if change.change_id in delivered]
            assert_same_history(
                lake.rows(f"select * from {SCHEMA}.{name}"),
                history(so_far, stream.unique_key, stream.columns, **chosen),
                replace(stream, changes=so_far),
            )


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_changes_that_are_taken_back_leave_no_trace(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    """They come again, rejected, in a run with others that are late; keys are cut from places."""
    cases = []
    for name, (truncates, trades) in {
        "back_plain": (False, False),
        "back_truncated": (True, False),
        "back_traded": (False, True),
    }.items():
        stream = data.draw(
            merged_streams(CASES, truncates=truncates, from_places=not trades, trades=trades)
        )
        # Absent columns, or a truncation in the second run, ask for a cut from the beginning.
        stream = stream if trades else whole(stream)
        chosen = data.draw(options(stream, from_places=True))
        fates = st.sampled_from(["stays", "stays", "stays", "stays", "is late", "is taken back"])
        fate = {
            change.change_id: "stays" if change.operation == "truncate" else data.draw(fates)
            for change in stream.distinct
        }
        config = ", ".join(
            ["materialized='history'", f"unique_key={stream.unique_key}", jinja(chosen)]
        )
        project.file(
            f"models/{name}.sql",
            f"{{{{ config({config}) }}}}\nselect * from {SCHEMA}.{name}_changes",
        )
        cases.append((name, stream, chosen, fate))

    for run in (0, 1):
        for name, stream, _, fate in cases:
            rows = []
            for change in stream.distinct:
                row = as_row(change, stream) | {"ingested_at": DAY}
                if run and fate[change.change_id] != "stays":
                    row["ingested_at"] = DAY + timedelta(hours=run)
                if run and fate[change.change_id] == "is taken back":
                    row["reject_reason"] = "no"
                if run or fate[change.change_id] != "is late":
                    rows.append(row)
            lake.create(f"{name}_changes", stream_columns(stream), rows)
        select = ["--select", *(name for name, *_ in cases)]
        project.dbt("run", *select, *([] if run else ["--full-refresh"]))

    for name, stream, chosen, fate in cases:
        left = [one for one in stream.distinct if fate[one.change_id] != "is taken back"]
        assert_same_history(
            lake.rows(f"select * from {SCHEMA}.{name}"),
            history(left, stream.unique_key, stream.columns, **chosen),
            replace(stream, changes=left),
        )


# Of each type a value, an equal one written otherwise where there is one, and another.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "int": (0, 0, -2147483648),
    "bigint": (9007199254740993, 9007199254740993, 9007199254740992),
    "float": (0.0, -0.0, float("nan")),
    "double": (float("nan"), float("nan"), 1e-300),
    "decimal(38,10)": (Decimal("1.5"), Decimal("1.50"), Decimal("1.5000000001")),
    "string": ("a", "a", "a "),
    "binary": (bytearray(b"\x00\xff"), bytearray(b"\x00\xff"), bytearray(b"\x00\xfe")),
    "boolean": (False, False, True),
    "date": (date(1, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": (datetime(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1)),
    "timestamp_ntz": (datetime(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
}
NESTED: dict[str, tuple[Any, Any, Any]] = {
    "array<int>": ([1, None], [1, None], [None, 1]),
    "struct<x: int, y: string>": ((1, None), (1, None), (None, "1")),
    "map<string, int>": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}),
    "array<map<string, int>>": ([{"a": 1}], [{"a": 1}], [{"a": 2}]),
}


@pytest.mark.slow
def test_keys_and_columns_of_every_type_are_compared_by_value(project: Project, lake: Lake) -> None:
    types = {f"key_{n}": kind for n, kind in enumerate(VALUES)}
    key = list(types)
    types |= {f"column_{n}": kind for n, kind in enumerate([*VALUES, *NESTED])}
    data = [*VALUES.values(), *NESTED.values()]
    stream = Stream(key, list(types), types, [])

    def change(
        number: int, row_key: list[Any], values: Sequence[Any], batch: int
    ) -> dict[str, Any]:
        return {
            "change_id": f"c{number}",
            "change_seq": f"{number:035d}",
            "operation": "update" if number else "insert",
            "after": (*row_key, *values),
            "changed_at": datetime(2024, 1, 1, 0, number),
            "ingested_at": datetime(2024, 1, 1 + batch),
        }

    # Each key differs from the first in one column, and from itself not at all.
    first, same = [v[0] for v in VALUES.values()], [v[1] for v in VALUES.values()]
    keys = [
        [v[2] if n == m else v[0] for m, v in enumerate(VALUES.values())] for n in range(len(key))
    ]
    rows = [
        change(0, first, [v[0] for v in data], 0),
        change(1, same, [v[1] for v in data], 0),
        *(change(2 + n, k, [v[0] for v in data], n % 2) for n, k in enumerate(keys)),
        # One column after the other takes another value, then all are NULL, twice.
        *(
            change(20 + n, same, [v[2 if m <= n else 0] for m, v in enumerate(data)], 1)
            for n in range(len(data))
        ),
        change(40, first, [None] * len(data), 1),
        change(41, same, [None] * len(data), 1),
    ]
    project.history("typed_history", f"{SCHEMA}.typed_changes", key)
    for batch in (0, 1):
        lake.create(
            "typed_changes",
            stream_columns(stream),
            [row for row in rows if row["ingested_at"] <= datetime(2024, 1, 1 + batch)],
        )
        project.dbt("run", "--select", "typed_history", *([] if batch else ["--full-refresh"]))
    by_key = (
        f"select count(*) as n from {SCHEMA}.typed_history group by {', '.join(key)} order by n"
    )
    counts = [row["n"] for row in lake.rows(by_key)]
    assert counts == [1] * len(keys) + [1 + len(data) + 1]

    in_batches = lake.rows(f"select * from {SCHEMA}.typed_history order by history_id")
    project.dbt("run", "--select", "typed_history", "--full-refresh")
    whole = lake.rows(f"select * from {SCHEMA}.typed_history order by history_id")
    assert repr(in_batches) == repr(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "truncated_at",
    [pytest.param(2, id="behind the row's place"), pytest.param(1, id="in the row's place")],
)
def test_no_version_begins_before_the_truncation_that_closed_the_previous_one(
    project: Project, lake: Lake, truncated_at: int
) -> None:
    stream = Stream(["id"], ["id"], {"id": "int"}, [])
    changes = [
        Change("c1", seq(1), "insert", after={"id": 1}, changed_at=START),
        Change("c2", seq(truncated_at), "truncate", changed_at=START + timedelta(hours=1)),
        # The source's clock has been set back.
        Change("c3", seq(3), "insert", after={"id": 1}, changed_at=START + timedelta(minutes=1)),
    ]
    project.history("truncated_history", f"{SCHEMA}.truncated_changes")
    for taken_in, flags in ((2, ["--full-refresh"]), (3, [])):
        rows = [
            as_row(change, stream) | {"ingested_at": START + timedelta(days=number // 2)}
            for number, change in enumerate(changes[:taken_in])
        ]
        lake.create("truncated_changes", stream_columns(stream), rows)
        project.dbt("run", "--select", "truncated_history", *flags)
    versions = lake.rows(f"select valid_from from {SCHEMA}.truncated_history where is_current")
    assert [row["valid_from"] for row in versions] == [START + timedelta(hours=1)]


@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_the_audit_equals_the_reference(data: st.DataObject, project: Project, lake: Lake) -> None:
    stream = data.draw(merged_streams(CASES, trades=True))
    table = "random_changes"
    users = data.draw(st.lists(st.sampled_from([None, "ann", "ben"]), min_size=1, max_size=5))
    named = {
        change.change_id: replace(change, changed_by=users[number % len(users)])
        for number, change in enumerate(stream.changes)
    }
    lake.create(table, stream_columns(stream), [as_row(c, stream) for c in named.values()])

    sql = project.compile(
        "{{ change_audit(api.Relation.create(schema='%s', identifier='%s'), unique_key=%r) }}"
        % (SCHEMA, table, stream.unique_key)
    )
    expected = audit(named.values(), stream.unique_key, stream.columns)
    for row in expected:
        row["old_value"], row["new_value"] = text(row["old_value"]), text(row["new_value"])
    actual = lake.rows(sql)
    assert in_any_order(actual, list(expected[0]) if expected else []) == in_any_order(
        expected, list(expected[0]) if expected else []
    )


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=FEW)
def test_an_incremental_audit_equals_the_reference_after_each_batch(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(CASES, trades=True))
    batches = data.draw(splits(stream.distinct, min_batches=2, max_batches=3))
    project.model(
        "grown_audit",
        f"select * from {SCHEMA}.audited_changes",
        materialized="audit",
        unique_key=stream.unique_key,
    )
    delivered: dict[str, dict[str, Any]] = {}
    for number, batch in enumerate(batches):
        for change in batch:
            delivered[change.change_id] = as_row(change, stream) | {
                "ingested_at": datetime(2024, 1, 1) + timedelta(hours=number)
            }
        lake.create("audited_changes", stream_columns(stream), list(delivered.values()))
        flags = [] if number else ["--full-refresh"]
        project.dbt("run", "--select", "grown_audit", *flags)

        so_far = [change for change in stream.distinct if change.change_id in delivered]
        expected = audit(so_far, stream.unique_key, stream.columns)
        for row in expected:
            row["old_value"], row["new_value"] = text(row["old_value"]), text(row["new_value"])
        names = list(expected[0]) if expected else []
        actual = lake.rows(f"select * from {SCHEMA}.grown_audit")
        assert in_any_order(actual, names) == in_any_order(expected, names)


def in_any_order(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return rows in a form that two lists of them can be compared in."""
    return sorted(repr([row[name] for name in names]) for row in rows)
