"""Cases worked by hand for the reference, and what must hold for any stream.

The expected rows are written down from the rules of the design, never copied from a run.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cases import (
    COLUMNS,
    KEY,
    at,
    change,
    dele,
    history_of,
    ins,
    load,
    rec,
    seq,
    trunc,
    upd,
    ver,
)
from reference import META_COLUMNS, Change, Row, as_of, audit, current, history, sort_key
from strategies import Options, Stream, options, splits, streams

Y1900 = datetime(1900, 1, 1)

wild = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# --- the plain way ------------------------------------------------------------------------------


def test_a_row_from_insert_to_delete() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x"), tx="t1"),
        upd(2, 20, rec(1, "y"), rec(1, "x"), tx="t2"),
        dele(3, 30, rec(1, "y"), tx="t3"),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 2, 20), tx="t1"),
        ver(2, rec(1, "y"), ("update", 2, 20), ("delete", 3, 30), tx="t2"),
    ]


def test_columns_come_in_order() -> None:
    (row,) = history_of(ins(1, 10, rec(1, "x")))
    assert list(row) == ["id", "a", "b", *META_COLUMNS]


def test_no_changes_no_history() -> None:
    assert history_of() == []


def test_arrival_order_does_not_matter() -> None:
    assert history_of(
        dele(3, 30, rec(1, "y")), upd(2, 20, rec(1, "y")), ins(1, 10, rec(1, "x")), load(rec(1))
    ) == [
        ver(1, rec(1), ("load", 0, Y1900), ("update", 1, 10)),
        ver(2, rec(1, "x"), ("insert", 1, 10), ("update", 2, 20)),
        ver(3, rec(1, "y"), ("update", 2, 20), ("delete", 3, 30)),
    ]


def test_keys_of_several_columns_are_kept_apart() -> None:
    rows = history(
        [
            Change("1", seq(1), "insert", after={"x": 1, "y": 2, "v": "p"}, changed_at=at(1)),
            Change("2", seq(2), "insert", after={"x": 1, "y": 3, "v": "q"}, changed_at=at(2)),
            Change("3", seq(3), "delete", before={"x": 1, "y": 2, "v": None}, changed_at=at(3)),
        ],
        ["x", "y"],
        ["x", "y", "v"],
    )
    assert [(r["y"], r["v"], r["closed_by"]) for r in rows] == [(2, "p", "delete"), (3, "q", None)]


def test_change_seq_is_a_string() -> None:
    rows = history_of(
        replace(ins(1, 10, rec(1, "x")), change_seq="9"),
        replace(upd(2, 20, rec(1, "y")), change_seq="10"),
    )
    assert [(row["a"], row["valid_from_seq"]) for row in rows] == [("y", "10"), ("x", "9")]


# --- rule 1: rejected changes -------------------------------------------------------------------


def test_rejected_changes_are_ignored() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 99, rec(1, "bad"), reject="?"),
        upd(3, 30, rec(1, "y")),
        dele(3, 98, rec(1), reject="?"),
        trunc(4, 97, reject="?"),
        ins(5, 96, rec(2, "bad"), reject="?"),
        change("update", 6, 95, reject="neither before nor after"),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 3, 30)),
        ver(2, rec(1, "y"), ("update", 3, 30)),
    ]


# --- rule 2: one place, one change --------------------------------------------------------------


def test_the_same_change_twice_is_one() -> None:
    once = ins(1, 10, rec(1, "x"))
    assert history_of(once, replace(once), once) == [ver(1, rec(1, "x"), ("insert", 1, 10))]


def test_one_id_with_two_contents_is_refused() -> None:
    with pytest.raises(ValueError, match="'c1'"):
        history_of(ins(1, 10, rec(1, "x"), cid="c1"), ins(1, 10, rec(1, "y"), cid="c1"))


def test_at_one_place_the_delete_comes_last() -> None:
    # The insert and the update of place 2 leave no version, but their times count.
    assert history_of(
        ins(1, 10, rec(1, "x")),
        ins(2, 80, rec(1, "i"), cid="z"),
        upd(2, 90, rec(1, "u"), cid="y"),
        dele(2, 20, rec(1, "x"), cid="a"),
        ins(3, 30, rec(1, "n")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("delete", 2, 90)),
        ver(2, rec(1, "n"), ("insert", 3, 90)),
    ]


def test_at_one_place_the_update_comes_before_the_insert() -> None:
    assert history_of(ins(1, 10, rec(1, "i"), cid="z"), upd(1, 11, rec(1, "u"), cid="a")) == [
        ver(1, rec(1, "u"), ("update", 1, 11))
    ]


def test_at_one_place_and_operation_the_greatest_id_as_a_string_comes_last() -> None:
    assert history_of(
        upd(1, 10, rec(1, "nine"), cid="c9"), upd(1, 11, rec(1, "ten"), cid="c10")
    ) == [ver(1, rec(1, "nine"), ("update", 1, 11))]


def test_one_place_of_two_keys_is_not_a_tie() -> None:
    assert history_of(ins(1, 10, rec(1, "x")), dele(1, 10, rec(2)), ins(1, 11, rec(3, "z"))) == [
        ver(1, rec(1, "x"), ("insert", 1, 10)),
        ver(1, rec(3, "z"), ("insert", 1, 11)),
    ]


def test_a_reload_leaves_the_later_load_row() -> None:
    assert history_of(
        load(rec(1, "late"), 20, cid="a"),
        load(rec(1, "early"), 10, cid="c"),
        load(rec(1, "timeless"), cid="d"),
    ) == [ver(1, rec(1, "late"), ("load", 0, 20))]


def test_a_reload_at_one_time_leaves_the_greatest_id() -> None:
    assert history_of(
        load(rec(1, "p"), 20, cid="a"), load(rec(1, "q"), 20, cid="b"), load(rec(2, "r"), cid="d"),
        load(rec(2, "s"), cid="c"),
    ) == [
        ver(1, rec(1, "q"), ("load", 0, 20)),
        ver(1, rec(2, "r"), ("load", 0, Y1900)),
    ]  # fmt: skip


def test_an_overruled_update_still_moves_the_row_out_of_its_old_key() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 20, rec(9, "moved"), rec(1, "x"), cid="a"),
        upd(2, 21, rec(9, "stays"), cid="b"),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 2, 20)),
        ver(1, rec(9, "stays"), ("update", 2, 21)),
    ]


# --- rule 3: key changes ------------------------------------------------------------------------


def test_a_key_change_closes_the_old_key_and_opens_the_new_one() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x"), tx="t1"), upd(2, 20, rec(2, "x"), rec(1, "x"), tx="t2")
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 2, 20), tx="t1"),
        ver(1, rec(2, "x"), ("update", 2, 20), tx="t2"),
    ]


def test_a_key_change_from_an_unknown_key() -> None:
    assert history_of(upd(2, 20, rec(2, "x"), rec(1, "x")), deletes="version") == [
        ver(1, rec(2, "x"), ("update", 2, 20))
    ]


def test_a_key_change_to_an_existing_key_is_an_update_there() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        ins(2, 20, rec(2, "y")),
        upd(3, 30, rec(2, "x"), rec(1, "x")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 3, 30)),
        ver(1, rec(2, "y"), ("insert", 2, 20), ("update", 3, 30)),
        ver(2, rec(2, "x"), ("update", 3, 30)),
    ]


def test_a_key_change_to_an_existing_key_with_the_same_values_opens_nothing() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        ins(2, 20, rec(2, "x")),
        upd(3, 30, rec(2, "x"), rec(1, "x")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 3, 30)),
        ver(1, rec(2, "x"), ("insert", 2, 20)),
    ]


def test_two_keys_swapped_in_one_place() -> None:
    # Each key loses its row before it gets the other's; what counts is that it has one again.
    assert history_of(
        ins(1, 10, rec(1, "x")),
        ins(2, 11, rec(2, "y")),
        upd(3, 30, rec(2, "x"), rec(1, "x")),
        upd(3, 30, rec(1, "y"), rec(2, "y")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 3, 30)),
        ver(2, rec(1, "y"), ("update", 3, 30)),
        ver(1, rec(2, "y"), ("insert", 2, 11), ("update", 3, 30)),
        ver(2, rec(2, "x"), ("update", 3, 30)),
    ]


def test_a_row_leaves_before_the_keys_own_change_of_that_place() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 20, rec(2, "x"), rec(1, "x"), cid="z"),
        ins(2, 20, rec(1, "z"), cid="a"),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 2, 20)),
        ver(2, rec(1, "z"), ("insert", 2, 20)),
        ver(1, rec(2, "x"), ("update", 2, 20)),
    ]


def test_the_delete_of_a_key_that_was_left_in_that_place_does_nothing() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 20, rec(2, "x"), rec(1, "x"), cid="z"),
        dele(2, 21, rec(1, "x"), cid="a"),
    )[0] == ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 2, 20))


def test_if_two_rows_leave_one_key_at_one_place_the_smaller_id_is_first() -> None:
    rows = history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 21, rec(3, "x"), rec(1, "x"), cid="b", tx="tb"),
        upd(2, 20, rec(2, "x"), rec(1, "x"), cid="a", tx="ta"),
        ins(3, 5, rec(1, "y")),
        deletes="version",
    )
    assert rows[:3] == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 2, 20)),
        ver(2, rec(1, "x"), ("key_change", 2, 20), ("update", 3, 21), tx="ta", deleted=True),
        ver(3, rec(1, "y"), ("insert", 3, 21)),
    ]


def test_a_key_that_is_used_again() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 20, rec(2, "x"), rec(1, "x")),
        upd(3, 30, rec(1, "x"), rec(2, "x")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("key_change", 2, 20)),
        ver(2, rec(1, "x"), ("update", 3, 30)),
        ver(1, rec(2, "x"), ("update", 2, 20), ("key_change", 3, 30)),
    ]


# --- rule 4: truncates --------------------------------------------------------------------------


def test_a_truncate_closes_all_that_is_open() -> None:
    assert history_of(
        load(rec(1, "x")),
        ins(1, 10, rec(2, "y")),
        ins(2, 20, rec(3, "z")),
        dele(3, 30, rec(3, "z")),
        trunc(4, 40),
        ins(5, 50, rec(2, "y")),
    ) == [
        ver(1, rec(1, "x"), ("load", 0, Y1900), ("truncate", 4, 40)),
        ver(1, rec(2, "y"), ("insert", 1, 10), ("truncate", 4, 40)),
        ver(2, rec(2, "y"), ("insert", 5, 50)),
        ver(1, rec(3, "z"), ("insert", 2, 20), ("delete", 3, 30)),
    ]


def test_a_truncate_comes_last_in_its_place() -> None:
    assert history_of(trunc(1, 12, cid="a"), ins(1, 11, rec(1, "x"), cid="z")) == []


def test_the_first_of_two_truncates_closes() -> None:
    assert history_of(ins(1, 10, rec(1, "x")), trunc(3, 30), trunc(2, 20)) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("truncate", 2, 20))
    ]


def test_a_truncate_of_an_empty_table_does_nothing() -> None:
    assert history_of(trunc(1, 10)) == []


def test_a_truncate_while_the_key_does_not_exist_does_not_count_for_time() -> None:
    assert history_of(
        trunc(1, 90),
        ins(2, 20, rec(1, "x")),
        dele(3, 30, rec(1, "x")),
        trunc(4, 95),
        ins(5, 50, rec(1, "x")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 2, 20), ("delete", 3, 30)),
        ver(2, rec(1, "x"), ("insert", 5, 50)),
    ]


# --- rule 5: what was not captured --------------------------------------------------------------


def test_an_absent_column_comes_from_the_before_image() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(1, "y"), rec(1, "x", "t"), absent=["b"]),
    )[1] == ver(2, rec(1, "y", "t"), ("update", 2, 20))


def test_an_absent_column_without_before_image_comes_from_the_state() -> None:
    assert history_of(ins(1, 10, rec(1, "x", "s")), upd(2, 20, rec(1, "y"), absent=["b"]))[
        1
    ] == ver(2, rec(1, "y", "s"), ("update", 2, 20))


def test_a_null_in_the_before_image_says_nothing_about_an_absent_column() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")), upd(2, 20, rec(1, "y"), rec(1, "x"), absent=["b"])
    )[1] == ver(2, rec(1, "y", "s"), ("update", 2, 20))


def test_a_captured_null_is_a_null() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")), upd(2, 20, rec(1, "x", None), rec(1, "x", "s"))
    ) == [
        ver(1, rec(1, "x", "s"), ("insert", 1, 10), ("update", 2, 20)),
        ver(2, rec(1, "x", None), ("update", 2, 20)),
    ]


def test_an_absent_column_of_an_unknown_key_is_null() -> None:
    assert history_of(upd(2, 20, rec(1, "y"), absent=["b"])) == [
        ver(1, rec(1, "y", None), ("update", 2, 20))
    ]


def test_an_absent_column_does_not_come_from_before_a_delete() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")), dele(2, 20, rec(1)), upd(3, 30, rec(1, "y"), absent=["b"])
    )[1] == ver(2, rec(1, "y", None), ("update", 3, 30))


def test_the_state_changes_without_a_version() -> None:
    # Place 2 opens nothing, as b is ignored; place 3 still finds its b.
    assert history_of(
        ins(1, 10, rec(1, "x", "old")),
        upd(2, 20, rec(1, "x", "new")),
        upd(3, 30, rec(1, "y"), absent=["b"]),
        ignore_columns=["b"],
    ) == [
        ver(1, rec(1, "x", "old"), ("insert", 1, 10), ("update", 3, 30)),
        ver(2, rec(1, "y", "new"), ("update", 3, 30)),
    ]


def test_an_update_with_nothing_captured_changes_nothing() -> None:
    assert history_of(ins(1, 10, rec(1, "x", "s")), upd(2, 20, rec(1), absent=["a", "b"])) == [
        ver(1, rec(1, "x", "s"), ("insert", 1, 10))
    ]


def test_an_absent_column_of_a_key_change_comes_from_the_row_that_left_the_old_key() -> None:
    # a: the before-image has it. b: it does not, so it is key 1's "s", not the "t" of key 2.
    assert history_of(
        ins(1, 10, rec(1, "x", "s")),
        ins(2, 20, rec(2, "y", "t")),
        upd(3, 30, rec(2), rec(1, "x", None), absent=["a", "b"]),
    )[2] == ver(2, rec(2, "x", "s"), ("update", 3, 30))


def test_an_absent_column_moves_with_the_row_through_a_chain_of_key_changes() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(2, "x"), rec(1, "x"), absent=["b"]),
        upd(3, 30, rec(3, "y"), rec(2, "x"), absent=["b"]),
        upd(4, 40, rec(1, "y"), rec(3, "y"), absent=["b"]),
    ) == [
        ver(1, rec(1, "x", "s"), ("insert", 1, 10), ("key_change", 2, 20)),
        ver(2, rec(1, "y", "s"), ("update", 4, 40)),
        ver(1, rec(2, "x", "s"), ("update", 2, 20), ("key_change", 3, 30)),
        ver(1, rec(3, "y", "s"), ("update", 3, 30), ("key_change", 4, 40)),
    ]


def test_an_absent_column_of_an_unknown_row_is_unknown() -> None:
    assert history_of(
        ins(1, 10, rec(2, "y", "t")),
        upd(2, 20, rec(2, "x"), rec(1, "x"), absent=["b"]),
    )[1] == ver(2, rec(2, "x", None), ("update", 2, 20))


# --- rule 6: what opens a version ---------------------------------------------------------------


def test_a_change_that_changes_nothing_opens_nothing() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")), upd(2, 20, rec(1, "x"), rec(1, "w")), ins(3, 30, rec(1, "x"))
    ) == [ver(1, rec(1, "x"), ("insert", 1, 10))]


def test_an_insert_of_an_existing_key_is_an_update() -> None:
    assert history_of(ins(1, 10, rec(1, "x")), ins(2, 20, rec(1, "y"))) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 2, 20)),
        ver(2, rec(1, "y"), ("insert", 2, 20)),
    ]


def test_an_update_of_an_unknown_key_opens_a_version() -> None:
    assert history_of(upd(1, 10, rec(1, "y"), rec(1, "x"))) == [
        ver(1, rec(1, "y"), ("update", 1, 10)),
    ]


def test_only_tracked_columns_open_versions() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(1, "x", "t")),
        upd(3, 30, rec(1, "y", "u")),
        upd(4, 40, rec(1, "y", "v")),
        track_columns=["a"],
    ) == [
        ver(1, rec(1, "x", "s"), ("insert", 1, 10), ("update", 3, 30)),
        ver(2, rec(1, "y", "u"), ("update", 3, 30)),
    ]


def test_null_and_value_differ_and_null_and_null_do_not() -> None:
    rows = history_of(
        ins(1, 10, rec(1, None)),
        upd(2, 20, rec(1, None)),
        upd(3, 30, rec(1, "")),
        upd(4, 40, rec(1, None)),
    )
    assert [(row["a"], row["valid_from"]) for row in rows] == [
        (None, at(10)),
        ("", at(30)),
        (None, at(40)),
    ]


# --- rule 7: overwritten columns ----------------------------------------------------------------


def test_an_overwritten_column_shows_its_last_value_before_and_after_a_delete() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "1")),
        dele(2, 20, rec(1, "x", "1")),
        ins(3, 30, rec(1, "y", "2")),
        upd(4, 40, rec(1, "y", "3")),
        dele(5, 50, rec(1, "y", "99")),
        ins(1, 10, rec(2, "z", "4")),
        overwrite_columns=["b"],
        deletes="version",
    ) == [
        ver(1, rec(1, "x", "3"), ("insert", 1, 10), ("delete", 2, 20)),
        ver(2, rec(1, "x", "3"), ("delete", 2, 20), ("update", 3, 30), deleted=True),
        ver(3, rec(1, "y", "3"), ("insert", 3, 30), ("delete", 5, 50)),
        ver(4, rec(1, "y", "3"), ("delete", 5, 50), deleted=True),
        ver(1, rec(2, "z", "4"), ("insert", 1, 10)),
    ]


def test_an_overwritten_column_that_is_absent_at_last_keeps_its_value() -> None:
    rows = history_of(
        ins(1, 10, rec(1, "x", "1")),
        upd(2, 20, rec(1, "x", "2")),
        upd(3, 30, rec(1, "y"), absent=["b"]),
        overwrite_columns=["b"],
    )
    assert [row["b"] for row in rows] == ["2", "2"]


# --- rule 8: deletes ----------------------------------------------------------------------------


def test_delete_and_insert_again_leave_a_gap() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x")), dele(2, 20, rec(1, "x")), ins(3, 30, rec(1, "x"))
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("delete", 2, 20)),
        ver(2, rec(1, "x"), ("insert", 3, 30)),
    ]


def test_deletes_of_a_key_that_does_not_exist_do_nothing() -> None:
    assert history_of(
        dele(1, 10, rec(1)), ins(2, 20, rec(1, "x")), dele(3, 30, rec(1)), dele(4, 40, rec(1)),
        dele(5, 50, rec(7)), deletes="version",
    ) == [
        ver(1, rec(1, "x"), ("insert", 2, 20), ("delete", 3, 30)),
        ver(2, rec(1, "x"), ("delete", 3, 30), deleted=True),
    ]  # fmt: skip


# --- rule 9: deleted versions -------------------------------------------------------------------


def test_each_end_of_a_row_opens_a_deleted_version() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x"), tx="t1"),
        dele(2, 20, rec(1), tx="t2"),
        ins(3, 30, rec(1, "y"), tx="t3"),
        trunc(4, 40, tx="t4"),
        ins(5, 50, rec(1, "z"), tx="t5"),
        upd(6, 60, rec(2, "z"), rec(1, "z"), tx="t6"),
        deletes="version",
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("delete", 2, 20), tx="t1"),
        ver(2, rec(1, "x"), ("delete", 2, 20), ("update", 3, 30), tx="t2", deleted=True),
        ver(3, rec(1, "y"), ("insert", 3, 30), ("truncate", 4, 40), tx="t3"),
        ver(4, rec(1, "y"), ("truncate", 4, 40), ("update", 5, 50), tx="t4", deleted=True),
        ver(5, rec(1, "z"), ("insert", 5, 50), ("key_change", 6, 60), tx="t5"),
        ver(6, rec(1, "z"), ("key_change", 6, 60), tx="t6", deleted=True),
        ver(1, rec(2, "z"), ("update", 6, 60), tx="t6"),
    ]


def test_a_deleted_version_shows_the_last_state_not_the_last_version() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "old")),
        upd(2, 20, rec(1, "x", "new")),
        dele(3, 30, rec(1, "before", "image")),
        ignore_columns=["b"],
        deletes="version",
    ) == [
        ver(1, rec(1, "x", "old"), ("insert", 1, 10), ("delete", 3, 30)),
        ver(2, rec(1, "x", "new"), ("delete", 3, 30), deleted=True),
    ]


# --- rule 10: times -----------------------------------------------------------------------------


def test_time_running_backward_stands_still() -> None:
    assert history_of(
        ins(1, 30, rec(1, "x")),
        upd(2, 20, rec(1, "y")),
        dele(3, 10, rec(1)),
        ins(4, 40, rec(1, "z")),
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 30), ("update", 2, 30)),
        ver(2, rec(1, "y"), ("update", 2, 30), ("delete", 3, 30)),
        ver(3, rec(1, "z"), ("insert", 4, 40)),
    ]


def test_the_running_maximum_is_that_of_the_key() -> None:
    assert history_of(ins(1, 90, rec(1, "x")), ins(2, 20, rec(2, "y")))[1] == ver(
        1, rec(2, "y"), ("insert", 2, 20)
    )


def test_events_without_effect_count_for_time() -> None:
    # The delete of a key never seen, an update that changes nothing, a row that left long since.
    assert history_of(
        dele(1, 15, rec(1)),
        ins(2, 10, rec(1, "x")),
        upd(3, 35, rec(1, "x")),
        upd(4, 30, rec(1, "y")),
        dele(5, 40, rec(1)),
        upd(6, 65, rec(2, "y"), rec(1, "y")),
        ins(7, 50, rec(1, "z")),
    )[:3] == [
        ver(1, rec(1, "x"), ("insert", 2, 15), ("update", 4, 35)),
        ver(2, rec(1, "y"), ("update", 4, 35), ("delete", 5, 40)),
        ver(3, rec(1, "z"), ("insert", 7, 65)),
    ]


def test_a_truncate_that_closed_counts_for_time() -> None:
    assert history_of(ins(1, 10, rec(1, "x")), trunc(2, 30), ins(3, 20, rec(1, "y"))) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("truncate", 2, 30)),
        ver(2, rec(1, "y"), ("insert", 3, 30)),
    ]


def test_a_change_without_time_has_that_of_load_rows() -> None:
    since = datetime(2023, 1, 1)
    assert history_of(
        load(rec(1, "x")),
        upd(1, None, rec(1, "y")),
        upd(2, 20, rec(1, "z")),
        dele(3, None, rec(1)),
        load(rec(2, "l"), 5),
        load_valid_from=since,
    ) == [
        ver(1, rec(1, "x"), ("load", 0, since), ("update", 1, since)),
        ver(2, rec(1, "y"), ("update", 1, since), ("update", 2, 20)),
        ver(3, rec(1, "z"), ("update", 2, 20), ("delete", 3, 20)),
        ver(1, rec(2, "l"), ("load", 0, 5)),
    ]


def test_a_load_row_with_a_late_time_pushes_the_changes_behind_it() -> None:
    assert history_of(ins(1, 10, rec(1, "y")), load(rec(1, "x"), 60)) == [
        ver(1, rec(1, "x"), ("load", 0, 60), ("update", 1, 60)),
        ver(2, rec(1, "y"), ("insert", 1, 60)),
    ]


# --- rule 11: transactions ----------------------------------------------------------------------


def test_only_the_last_state_of_a_transaction_counts() -> None:
    changes = [
        ins(1, 10, rec(1, "x"), tx="t"),
        upd(2, 12, rec(1, "y"), tx="t"),
        upd(3, 11, rec(1, "z"), tx="t"),
        upd(4, 40, rec(1, "w"), tx="u"),
    ]
    assert history_of(*changes, grain="transaction") == [
        ver(1, rec(1, "z"), ("update", 3, 12), ("update", 4, 40), tx="t"),
        ver(2, rec(1, "w"), ("update", 4, 40), tx="u"),
    ]
    assert len(history_of(*changes)) == 4


def test_changes_without_transaction_are_separate() -> None:
    assert len(history_of(ins(1, 1, rec(1, "x")), upd(2, 2, rec(1, "y")), grain="transaction")) == 2


def test_a_transaction_id_used_again_is_another_transaction() -> None:
    rows = history_of(
        ins(1, 1, rec(1, "x"), tx="t"),
        upd(2, 2, rec(1, "y"), tx="u"),
        upd(3, 3, rec(1, "z"), tx="t"),
        grain="transaction",
    )
    assert [row["a"] for row in rows] == ["x", "y", "z"]


def test_changes_of_other_keys_do_not_split_a_transaction() -> None:
    rows = history_of(
        ins(1, 1, rec(1, "x"), tx="t"),
        ins(2, 2, rec(2, "o"), tx="u"),
        upd(3, 3, rec(1, "z"), tx="t"),
        grain="transaction",
    )
    assert [row["a"] for row in rows] == ["z", "o"]


def test_a_change_undone_in_the_same_transaction_opens_nothing() -> None:
    # Also with a delete between; but the times of the transaction count for what follows.
    assert history_of(
        ins(1, 10, rec(1, "x"), tx="t"),
        upd(2, 50, rec(1, "y"), tx="u"),
        dele(3, 30, rec(1), tx="u"),
        ins(4, 40, rec(1, "x"), tx="u"),
        upd(5, 20, rec(1, "z"), tx="v"),
        grain="transaction",
        deletes="version",
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 5, 50), tx="t"),
        ver(2, rec(1, "z"), ("update", 5, 50), tx="v"),
    ]


def test_delete_and_insert_in_one_transaction_are_an_update() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x"), tx="t"),
        dele(2, 20, rec(1), tx="u"),
        ins(3, 30, rec(1, "y"), tx="u"),
        grain="transaction",
    ) == [
        ver(1, rec(1, "x"), ("insert", 1, 10), ("update", 3, 30), tx="t"),
        ver(2, rec(1, "y"), ("insert", 3, 30), tx="u"),
    ]


def test_a_row_inserted_and_deleted_in_one_transaction_has_no_version() -> None:
    assert (
        history_of(
            ins(1, 10, rec(1, "x"), tx="t"),
            dele(2, 20, rec(1), tx="t"),
            grain="transaction",
            deletes="version",
        )
        == []
    )


def test_a_transaction_that_ends_a_row_ends_it_at_its_last_end() -> None:
    # update, delete, insert, key change, delete without effect: the key change ended it, at 4.
    assert history_of(
        ins(0, 5, rec(1, "x"), tx="s"),
        upd(1, 10, rec(1, "y"), tx="t"),
        dele(2, 20, rec(1), tx="t"),
        ins(3, 15, rec(1, "z"), tx="t"),
        upd(4, 25, rec(2, "z"), rec(1, "z"), tx="t"),
        dele(5, 90, rec(1), tx="t"),
        ins(6, 60, rec(1, "w"), tx="v"),
        grain="transaction",
        deletes="version",
    )[:3] == [
        ver(1, rec(1, "x"), ("insert", 0, 5), ("key_change", 4, 25), tx="s"),
        ver(2, rec(1, "z"), ("key_change", 4, 25), ("update", 6, 90), tx="t", deleted=True),
        ver(3, rec(1, "w"), ("insert", 6, 90), tx="v"),
    ]


def test_columns_are_filled_step_by_step_within_a_transaction() -> None:
    assert history_of(
        ins(1, 10, rec(1, "x", "s"), tx="t"),
        upd(2, 20, rec(1, "y"), absent=["b"], tx="t"),
        upd(3, 30, rec(1, None, "u"), absent=["a"], tx="t"),
        grain="transaction",
    ) == [ver(1, rec(1, "y", "u"), ("update", 3, 30), tx="t")]


def test_an_event_without_effect_does_not_split_a_transaction() -> None:
    start = [ins(1, 10, rec(1, "x"), tx="s"), dele(2, 20, rec(1), tx="t")]
    again = ins(4, 40, rec(1, "y"), tx="t")
    for nothing in (dele(3, 30, rec(1), tx="u"), trunc(3, 30, tx="u")):
        whole = history_of(*start, nothing, again, grain="transaction")
        assert [row["closed_by"] for row in whole] == ["update", None]


def test_a_state_deleted_in_its_transaction_still_overwrites() -> None:
    rows = history_of(
        ins(1, 10, rec(1, "x", "1"), tx="s"),
        upd(2, 20, rec(1, "y", "2"), tx="t"),
        dele(3, 30, rec(1), tx="t"),
        grain="transaction",
        overwrite_columns=["b"],
    )
    assert rows == [ver(1, rec(1, "x", "2"), ("insert", 1, 10), ("delete", 3, 30), tx="s")]


# --- current and as of --------------------------------------------------------------------------


def test_current_and_as_of() -> None:
    rows = history_of(
        ins(1, 10, rec(1, "x")),
        upd(2, 20, rec(1, "y")),
        upd(3, 20, rec(1, "z")),
        dele(4, 30, rec(1)),
        ins(5, 40, rec(1, "w")),
        ins(1, 10, rec(2, "o")),
        dele(6, 60, rec(2)),
        deletes="version",
    )
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


# --- audit --------------------------------------------------------------------------------------


def audited(*changes: Change) -> list[tuple[Any, ...]]:
    """Give the audit of the table of all cases as tuples without the time."""
    names = ("id", "change_seq", "operation", "column_name", "old_value", "new_value")
    return [tuple(row[name] for name in names) for row in audit(changes, KEY, COLUMNS)]


def test_audit_from_insert_to_delete() -> None:
    rows = audit(
        [ins(1, 10, rec(1, "x")), upd(2, 20, rec(1, "y"), rec(1, "x")), dele(3, None, rec(1, "y"))],
        KEY,
        COLUMNS,
    )
    names = (
        *("id", "change_seq", "operation", "changed_at", "changed_by"),
        *("column_name", "old_value", "new_value"),
    )
    assert [list(row) for row in rows] == [list(names)] * 5
    assert [tuple(row.values()) for row in rows] == [
        (1, seq(1), "insert", at(10), None, "id", None, 1),
        (1, seq(1), "insert", at(10), None, "a", None, "x"),
        (1, seq(2), "update", at(20), None, "a", "x", "y"),
        (1, seq(3), "delete", None, None, "id", 1, None),
        (1, seq(3), "delete", None, None, "a", "y", None),
    ]


def test_audit_takes_the_old_value_from_the_before_image_then_from_the_state() -> None:
    assert audited(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(1, "y", "t"), rec(1, "image", None)),
        upd(3, 30, rec(1, "z", "t")),
    )[3:] == [
        (1, seq(2), "update", "a", "image", "y"),
        (1, seq(2), "update", "b", "s", "t"),
        (1, seq(3), "update", "a", "y", "z"),
    ]


def test_audit_of_absent_columns_and_captured_nulls() -> None:
    assert audited(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(1, None, None), rec(1, "x"), absent=["b"]),
    )[3:] == [(1, seq(2), "update", "a", "x", None)]


def test_audit_of_unknown_keys() -> None:
    assert audited(
        upd(1, 10, rec(1, "y", "s"), rec(1, "x", "s")), upd(2, 20, rec(2, "z")),
        dele(3, 30, rec(3, "w")), dele(4, 40, rec(3)),
    ) == [
        (1, seq(1), "update", "a", "x", "y"),
        (2, seq(2), "update", "id", None, 2),
        (2, seq(2), "update", "a", None, "z"),
        (3, seq(3), "delete", "id", 3, None),
        (3, seq(3), "delete", "a", "w", None),
        (3, seq(4), "delete", "id", 3, None),
    ]  # fmt: skip


def test_audit_of_a_delete_with_only_the_key_uses_the_state() -> None:
    assert audited(ins(1, 10, rec(1, "x")), dele(2, 20, rec(1)))[2:] == [
        (1, seq(2), "delete", "id", 1, None),
        (1, seq(2), "delete", "a", "x", None),
    ]


def test_audit_of_a_truncate_has_the_existing_keys() -> None:
    assert audited(
        ins(1, 10, rec(1, "x")),
        ins(2, 20, rec(2, None, "s")),
        ins(3, 30, rec(3, "z")),
        dele(4, 40, rec(3, "z")),
        trunc(5, 50),
    ) == [
        (1, seq(1), "insert", "id", None, 1),
        (1, seq(1), "insert", "a", None, "x"),
        (1, seq(5), "truncate", "id", 1, None),
        (1, seq(5), "truncate", "a", "x", None),
        (2, seq(2), "insert", "id", None, 2),
        (2, seq(2), "insert", "b", None, "s"),
        (2, seq(5), "truncate", "id", 2, None),
        (2, seq(5), "truncate", "b", "s", None),
        (3, seq(3), "insert", "id", None, 3),
        (3, seq(3), "insert", "a", None, "z"),
        (3, seq(4), "delete", "id", 3, None),
        (3, seq(4), "delete", "a", "z", None),
    ]


def test_audit_of_a_key_change_is_at_the_new_key() -> None:
    assert audited(
        ins(1, 10, rec(1, "x", "s")),
        upd(2, 20, rec(2, "y", "s"), rec(1, "x", "s")),
        dele(3, 30, rec(1, None, None)),
    )[3:] == [
        (1, seq(3), "delete", "id", 1, None),
        (2, seq(2), "update", "id", 1, 2),
        (2, seq(2), "update", "a", "x", "y"),
    ]


def test_audit_of_a_key_change_to_an_existing_key_uses_only_the_before_image() -> None:
    assert audited(
        ins(1, 10, rec(1, "x", None)),
        ins(2, 20, rec(2, "y", "t")),
        upd(3, 30, rec(2, "x", "u"), rec(1, "x", None)),
    )[5:] == [
        (2, seq(3), "update", "id", 1, 2),
        (2, seq(3), "update", "b", None, "u"),
    ]


def test_audit_of_an_insert_of_an_existing_key_has_the_changed_columns() -> None:
    assert audited(ins(1, 10, rec(1, "x", "s")), ins(2, 20, rec(1, "y", "s")))[3:] == [
        (1, seq(2), "insert", "a", "x", "y")
    ]


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Change("c", seq(1), "insert"), "no after"),
        (Change("c", seq(1), "delete"), "no before"),
        (Change("c", seq(1), "load", after=rec(1)), "load row"),
        (change("upsert", 1, 1, rec(1)), "no such operation"),
        (Change("c", seq(1), "update", after=rec(1), absent_columns=["id"]), "key column"),
    ],
)
def test_a_broken_change_is_refused(broken: Change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        history_of(broken)
    history_of(replace(broken, reject_reason="broken"))


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


@wild
@given(st.data())
def test_versions_of_a_key_follow_one_another(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen = data.draw(options(stream))
    for versions in by_key(stream, of(stream, **chosen)).values():
        assert [row["version"] for row in versions] == list(range(1, len(versions) + 1))
        assert all(row["is_current"] == (row["valid_to"] is None) for row in versions)
        assert all(row["valid_to_seq"] is not None or row["is_current"] for row in versions)
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


@wild
@given(st.data())
def test_neither_order_nor_repetition_nor_batches_matter(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen = data.draw(options(stream))
    expected = of(stream, **chosen)
    again = [row for batch in data.draw(splits(stream.changes)) for row in batch]
    assert history(again, stream.unique_key, stream.columns, **chosen) == expected
    told_before = audit(stream.changes, stream.unique_key, stream.columns)
    assert audit(again, stream.unique_key, stream.columns) == told_before
    assert history(stream.distinct, stream.unique_key, stream.columns, **chosen) == expected


@wild
@given(st.data())
def test_rejected_changes_make_no_difference(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen = data.draw(options(stream))
    good = [one for one in stream.changes if one.reject_reason is None]
    assert history(good, stream.unique_key, stream.columns, **chosen) == of(stream, **chosen)


@wild
@given(st.data())
def test_as_of_finds_one_row_per_key_and_agrees_with_current(data: st.DataObject) -> None:
    stream = data.draw(streams())
    rows = of(stream, **data.draw(options(stream)))
    moments = {row["valid_from"] for row in rows} | {row["valid_to"] for row in rows} - {None}
    for moment in moments:
        found = by_key(stream, as_of(rows, moment))
        assert all(len(versions) == 1 for versions in found.values())
    assert as_of(rows, datetime(9999, 1, 1)) == current(rows)
    assert all(len(versions) == 1 for versions in by_key(stream, current(rows)).values())


@wild
@given(st.data())
def test_a_transaction_never_has_more_versions_than_its_changes(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen: Any = data.draw(options(stream))
    fine = by_key(stream, of(stream, **{**chosen, "grain": "change"}))
    coarse = by_key(stream, of(stream, **{**chosen, "grain": "transaction"}))
    assert set(coarse) <= set(fine)
    assert all(len(coarse[key]) <= len(fine[key]) for key in coarse)
    # What is open has the same tracked values either way; so have all columns if all are tracked.
    everything = {"deletes": chosen["deletes"]}
    assert data_of(stream, current(of(stream, **everything, grain="transaction"))) == (
        data_of(stream, current(of(stream, **everything)))
    )


@wild
@given(st.data())
def test_grains_agree_if_no_transaction_has_two_changes(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen: Any = data.draw(options(stream))
    alone = [replace(one, transaction_id=f"tx-{one.change_id}") for one in stream.changes]
    assert history(
        alone, stream.unique_key, stream.columns, **{**chosen, "grain": "transaction"}
    ) == history(alone, stream.unique_key, stream.columns, **{**chosen, "grain": "change"})


@wild
@given(st.data())
def test_deletes_version_adds_only_deleted_versions(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen: Any = data.draw(options(stream))
    closed = of(stream, **{**chosen, "deletes": "close"})
    marked = of(stream, **{**chosen, "deletes": "version"})
    living = [{**row, "version": 0} for row in marked if not row["is_deleted"]]
    assert living == [{**row, "version": 0} for row in closed]


@wild
@given(st.data())
def test_adjacent_versions_differ_in_a_tracked_column(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen = data.draw(options(stream))
    assume(not chosen["overwrite_columns"] and not chosen["ignore_columns"])
    tracked = chosen["track_columns"] or stream.columns
    for versions in by_key(stream, of(stream, **{**chosen, "deletes": "close"})).values():
        for row, following in pairwise(versions):
            if row["closed_by"] == "update":
                assert [row[name] for name in tracked] != [following[name] for name in tracked]


@wild
@given(st.data())
def test_overwritten_columns_have_one_value_per_key(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen = data.draw(options(stream))
    for versions in by_key(stream, of(stream, **chosen)).values():
        for column in chosen["overwrite_columns"] or []:
            assert len({row[column] for row in versions}) == 1


@wild
@given(streams(honest=True), st.sampled_from(["change", "transaction"]))
def test_the_current_rows_equal_those_of_a_consistent_source(stream: Stream, grain: str) -> None:
    assert stream.table is not None
    assert data_of(stream, current(of(stream, grain=grain))) == data_of(stream, stream.table)


@wild
@given(streams(honest=True))
def test_the_audit_of_a_consistent_source_leads_to_its_rows(stream: Stream) -> None:
    # Each row of the audit is true of the table before it and makes it that after it. A key change
    # has rows for what it changed, so the row is moved first; the key columns tell from where.
    told_rows = audit(stream.changes, stream.unique_key, stream.columns)
    by_seq: dict[str, list[Row]] = defaultdict(list)
    for row in told_rows:
        by_seq[row["change_seq"]].append(row)
    table: dict[tuple[Any, ...], Row] = {}
    for place in sorted(by_seq):
        for key, rows in by_key(stream, by_seq[place]).items():
            old = {row["column_name"]: row["old_value"] for row in rows}
            new = {row["column_name"]: row["new_value"] for row in rows}
            is_update = rows[0]["operation"] == "update"
            left = key
            if is_update:  # a key column that is not history_of is as it was
                left = tuple(
                    old.get(name, value) for name, value in zip(stream.unique_key, key, strict=True)
                )
            before = table.pop(left, dict.fromkeys(stream.columns))
            assert {name: before[name] for name in old} == old
            if rows[0]["operation"] not in ("delete", "truncate"):
                table[key] = {**before, **new}
    assert stream.table is not None
    assert data_of(stream, list(table.values())) == data_of(stream, stream.table)


@wild
@given(st.data())
def test_splits_contain_every_row(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(), unique=True, max_size=10))
    delivered = [row for batch in data.draw(splits(rows)) for row in batch]
    assert set(delivered) == set(rows)


@wild
@given(st.data())
def test_streams_have_the_promised_properties(data: st.DataObject) -> None:
    stream = data.draw(streams())
    chosen: Options = data.draw(options(stream))
    assert set(stream.types) == set(stream.columns) > set(stream.unique_key)
    assert not set(chosen["track_columns"] or []) & set(chosen["overwrite_columns"] or [])
    for one in stream.changes:
        assert one.change_seq == "" if one.operation == "load" else len(one.change_seq) == 35
        for image in (one.before, one.after):
            assert image is None or list(image) == stream.columns
        assert one.after is None or not any(one.after[name] for name in one.absent_columns or [])
