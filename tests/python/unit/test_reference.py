"""What must hold for the reference with any stream, and what it refuses.

`test_cases_in_python.py` has the cases worked by hand.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import COLUMNS, KEY, at, read_changes
from reference import META_COLUMNS, Change, Row, as_of, audit, current, history, sort_key
from strategies import Options, Stream, options, splits, streams

wild = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_columns_come_in_order() -> None:
    changes = read_changes("[{op: insert, seq: 1, after: {id: 1, a: x}}]")
    assert list(history(changes, KEY, COLUMNS)[0]) == [*COLUMNS, *META_COLUMNS]
    names = "id change_seq operation changed_at changed_by column_name old_value new_value"
    assert [list(row) for row in audit(changes, KEY, COLUMNS)] == [names.split()] * 2


def test_current_and_as_of() -> None:
    changes = read_changes("""
        - {op: insert, seq: 1, after: {id: 1, a: x}}
        - {op: update, seq: 2, after: {id: 1, a: y}}
        - {op: update, seq: 3, at: 20, after: {id: 1, a: z}}
        - {op: delete, seq: 4, at: 30, before: {id: 1}}
        - {op: insert, seq: 5, at: 40, after: {id: 1, a: w}}
        - {op: insert, seq: 1, after: {id: 2, a: o}}
        - {op: delete, seq: 6, before: {id: 2}}
    """)
    rows = history(changes, KEY, COLUMNS, deletes="version")
    assert [row["a"] for row in current(rows)] == ["w"]
    expected: dict[int, list[str]] = {
        9: [],
        10: ["x", "o"],
        19: ["x", "o"],
        20: ["z", "o"],  # y lasted no time
        30: ["o"],
        39: ["o"],
        40: ["w", "o"],
        60: ["w"],
    }
    assert {minute: [row["a"] for row in as_of(rows, at(minute))] for minute in expected} == (
        expected
    )


def test_one_id_with_two_contents_is_refused() -> None:
    changes = read_changes("""
        - {op: insert, seq: 1, after: {id: 1, a: x}, cid: c1}
        - {op: insert, seq: 1, after: {id: 1, a: y}, cid: c1}
    """)
    with pytest.raises(ValueError, match="'c1'"):
        history(changes, KEY, COLUMNS)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("{op: insert, seq: 1}", "no after"),
        ("{op: delete, seq: 1}", "no before"),
        ("{op: load, seq: 1, after: {id: 1}}", "load row"),
        ("{op: upsert, seq: 1, after: {id: 1}}", "no such operation"),
        ("{op: update, seq: 1, after: {id: 1}, absent: [id]}", "key column"),
    ],
)
def test_a_broken_change_is_refused(broken: str, message: str) -> None:
    [change] = read_changes(f"[{broken}]")
    with pytest.raises(ValueError, match=message):
        history([change], KEY, COLUMNS)
    history([replace(change, reject_reason="broken")], KEY, COLUMNS)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [({"grain": "day"}, "grain"), ({"deletes": "keep"}, "deletes"), ({"columns": ["a"]}, "id")],
)
def test_an_argument_that_is_not_allowed_is_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        history([], **{"unique_key": KEY, "columns": COLUMNS, **chosen})


# --- what holds for any stream ------------------------------------------------------------------


def of(stream: Stream, **chosen: Any) -> list[Row]:
    """Compute the history of a stream."""
    return history(stream.changes, stream.unique_key, stream.columns, **chosen)


def by_key(stream: Stream, rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Sort rows into their keys."""
    keys: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        keys[tuple(row[column] for column in stream.unique_key)].append(row)
    return keys


def data_of(stream: Stream, rows: list[Row]) -> list[Row]:
    """Keep the data columns of rows, in the order of keys."""
    kept = [{column: row[column] for column in stream.columns} for row in rows]
    return sorted(kept, key=lambda row: sort_key(tuple(row[name] for name in stream.unique_key)))


def versions_of_a_key_follow_one_another(stream: Stream, chosen: Options) -> None:
    for versions in by_key(stream, of(stream, **chosen)).values():
        assert [row["version"] for row in versions] == list(range(1, len(versions) + 1))
        assert all(row["is_current"] == (row["valid_to_seq"] is None) for row in versions)
        open_ends = {row["valid_to"] for row in versions if row["is_current"]}
        assert open_ends <= {chosen["valid_to_current"]}
        assert all((row["closed_by"] is None) == row["is_current"] for row in versions)
        assert not any(row["is_current"] for row in versions[:-1])
        for row in versions:
            assert row["valid_from_seq"] <= (row["valid_to_seq"] or row["valid_from_seq"])
            assert row["valid_from"] <= (row["valid_to"] or row["valid_from"])
        for row, following in pairwise(versions):
            assert row["valid_to"] <= following["valid_from"]
            assert row["valid_to_seq"] <= following["valid_from_seq"]
            if row["closed_by"] == "update" or chosen["deletes"] == "version":
                assert row["valid_to"] == following["valid_from"]
                assert row["valid_to_seq"] == following["valid_from_seq"]
        if chosen["deletes"] == "version":
            assert versions[-1]["is_current"]
            for row, following in pairwise(versions):
                assert following["is_deleted"] == (row["closed_by"] != "update")


def neither_order_nor_repetition_nor_batches_matter(
    stream: Stream, chosen: Options, batches: list[list[Change]]
) -> None:
    expected = of(stream, **chosen)
    again = [change for batch in batches for change in batch]
    assert {change.change_id for change in again} == {one.change_id for one in stream.changes}
    assert history(again, stream.unique_key, stream.columns, **chosen) == expected
    expected_audit = audit(stream.changes, stream.unique_key, stream.columns)
    assert audit(again, stream.unique_key, stream.columns) == expected_audit
    assert history(stream.distinct, stream.unique_key, stream.columns, **chosen) == expected


def rejected_changes_make_no_difference(stream: Stream, chosen: Options) -> None:
    good = [one for one in stream.changes if one.reject_reason is None]
    assert history(good, stream.unique_key, stream.columns, **chosen) == of(stream, **chosen)


def as_of_finds_one_row_per_key_and_agrees_with_current(stream: Stream, chosen: Options) -> None:
    rows = of(stream, **chosen)
    moments = {row["valid_from"] for row in rows} | {row["valid_to"] for row in rows} - {None}
    for moment in moments:
        found = by_key(stream, as_of(rows, moment))
        assert all(len(versions) == 1 for versions in found.values())
    assert as_of(rows, datetime(9999, 1, 1)) == current(rows)
    assert all(len(versions) == 1 for versions in by_key(stream, current(rows)).values())


def a_transaction_never_has_more_versions_than_its_changes(stream: Stream, chosen: Options) -> None:
    fine = by_key(stream, of(stream, **{**chosen, "grain": "change"}))
    coarse = by_key(stream, of(stream, **{**chosen, "grain": "transaction"}))
    assert set(coarse) <= set(fine)
    assert all(len(coarse[key]) <= len(fine[key]) for key in coarse)
    # What is open has the same tracked values either way; so have all columns if all are tracked.
    everything = {"deletes": chosen["deletes"]}
    assert data_of(stream, current(of(stream, **everything, grain="transaction"))) == (
        data_of(stream, current(of(stream, **everything)))
    )


def grains_agree_if_no_transaction_has_two_changes(stream: Stream, chosen: Options) -> None:
    alone = [replace(one, transaction_id=f"tx-{one.change_id}") for one in stream.changes]
    of_alone = replace(stream, changes=alone)
    assert of(of_alone, **{**chosen, "grain": "transaction"}) == (
        of(of_alone, **{**chosen, "grain": "change"})
    )


def deletes_version_adds_only_deleted_versions(stream: Stream, chosen: Options) -> None:
    closed = of(stream, **{**chosen, "deletes": "close"})
    marked = of(stream, **{**chosen, "deletes": "version"})
    living = [{**row, "version": 0} for row in marked if not row["is_deleted"]]
    assert living == [{**row, "version": 0} for row in closed]


def adjacent_versions_differ_in_a_tracked_column(stream: Stream, chosen: Options) -> None:
    asked: Any = chosen | {"deletes": "close", "ignore_columns": None, "overwrite_columns": None}
    tracked = stream.columns if chosen["track_columns"] is None else chosen["track_columns"]
    for versions in by_key(stream, of(stream, **asked)).values():
        for row, following in pairwise(versions):
            if row["closed_by"] == "update":
                assert [row[name] for name in tracked] != [following[name] for name in tracked]


def overwritten_columns_have_one_value_per_key(stream: Stream, chosen: Options) -> None:
    for versions in by_key(stream, of(stream, **chosen)).values():
        for column in chosen["overwrite_columns"] or []:
            assert len({row[column] for row in versions}) == 1


def the_current_rows_equal_those_of_the_source(stream: Stream) -> None:
    assert stream.table is not None
    for grain in ("change", "transaction"):
        assert data_of(stream, current(of(stream, grain=grain))) == data_of(stream, stream.table)


def the_audit_leads_to_the_rows_of_the_source(stream: Stream) -> None:
    # Each row of the audit is true of the table before it and makes it that after it. A key change
    # has rows for what it changed, so the row is moved first; the key columns tell from where.
    audited = audit(stream.changes, stream.unique_key, stream.columns)
    by_seq: dict[str, list[Row]] = defaultdict(list)
    for row in audited:
        by_seq[row["change_seq"]].append(row)
    table: dict[tuple[Any, ...], Row] = {}
    # Rows that take each other's keys all leave before any of them arrives.
    begins = {place: min(trade) for trade in stream.trades for place in trade}
    for _, places in groupby(sorted(by_seq), key=lambda place: begins.get(place, place)):
        arrivals: dict[tuple[Any, ...], Row] = {}
        for key, rows in (one for place in places for one in by_key(stream, by_seq[place]).items()):
            old = {row["column_name"]: row["old_value"] for row in rows}
            new = {row["column_name"]: row["new_value"] for row in rows}
            is_update = rows[0]["operation"] == "update"
            left = key
            if is_update:  # a key column without a row has kept its value
                left = tuple(
                    old.get(name, value) for name, value in zip(stream.unique_key, key, strict=True)
                )
            before = table.pop(left, dict.fromkeys(stream.columns))
            assert {name: before[name] for name in old} == old
            if rows[0]["operation"] not in ("delete", "truncate"):
                arrivals[key] = {**before, **new}
        table |= arrivals
    assert stream.table is not None
    assert data_of(stream, list(table.values())) == data_of(stream, stream.table)


def streams_have_the_promised_properties(stream: Stream, chosen: Options) -> None:
    assert set(stream.types) == set(stream.columns) > set(stream.unique_key)
    assert not set(chosen["track_columns"] or []) & set(chosen["overwrite_columns"] or [])
    for one in stream.changes:
        assert one.change_seq == "" if one.operation == "load" else len(one.change_seq) == 35
        for image in (one.before, one.after):
            assert image is None or list(image) == stream.columns
        assert one.after is None or not any(one.after[name] for name in one.absent_columns or [])


# All properties look at one stream: to draw it takes far longer than to compute its histories.


@wild
@given(st.data())
def test_what_holds_for_any_stream(data: st.DataObject) -> None:
    stream = data.draw(streams(trades=data.draw(st.booleans())))
    chosen = data.draw(options(stream))
    streams_have_the_promised_properties(stream, chosen)
    neither_order_nor_repetition_nor_batches_matter(
        stream, chosen, data.draw(splits(stream.changes))
    )
    rejected_changes_make_no_difference(stream, chosen)
    versions_of_a_key_follow_one_another(stream, chosen)
    adjacent_versions_differ_in_a_tracked_column(stream, chosen)
    overwritten_columns_have_one_value_per_key(stream, chosen)
    deletes_version_adds_only_deleted_versions(stream, chosen)
    a_transaction_never_has_more_versions_than_its_changes(stream, chosen)
    grains_agree_if_no_transaction_has_two_changes(stream, chosen)
    as_of_finds_one_row_per_key_and_agrees_with_current(stream, chosen)


@wild
@given(streams(honest=True, trades=True))
def test_what_holds_for_the_stream_of_a_consistent_source(stream: Stream) -> None:
    the_current_rows_equal_those_of_the_source(stream)
    the_audit_leads_to_the_rows_of_the_source(stream)
