"""Rows of Db2's tables in, changes and history out: in any order, batches and repeats."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SCHEMA, Lake, Project, relation
from deliveries import Batch, count_rows, run_in_batches_and_at_once
from dialect_db2 import (
    DB2_HEADER,
    DB2_UOW,
    Db2Style,
    db2_cd_rows,
    db2_changes,
    db2_columns,
    db2_uow_rows,
)
from histories import EXAMPLES, assert_same_history, fewer_checks
from reference import Row, history
from strategies import merged_streams, splits, streams

STYLES: tuple[Db2Style, ...] = ("single", "pairs")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("db2_change_data")


# --- the writer itself --------------------------------------------------------------------------


@given(stream=streams(honest=True))
def test_both_styles_give_the_same_history(stream: Any) -> None:
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
        for style in STYLES
    ]

    assert tables[0] == tables[1]


@given(stream=streams(honest=True), style=st.sampled_from(STYLES))
def test_each_row_has_its_own_place(stream: Any, style: Db2Style) -> None:
    places = [
        (int.from_bytes(row["IBMSNAP_COMMITSEQ"], "big"), row["IBMSNAP_INTENTSEQ"])
        for row in db2_cd_rows(stream, style)
        if any(row["IBMSNAP_COMMITSEQ"])
    ]

    assert len(places) == len(set(places))


# --- through dbt --------------------------------------------------------------------------------


@pytest.mark.minutes
@pytest.mark.parametrize("style", STYLES)
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_any_order_any_batches_and_repeats_equal_the_reference(
    style: Db2Style, data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(8, max_changes=12, honest=True))
    batches = data.draw(splits(db2_cd_rows(stream, style), max_batches=3))
    columns, key = db2_columns(stream, style), stream.unique_key
    uow = f", uow={relation('random_uow')}, complete=true" if style == "single" else ""
    project.stream("stg_random", f"db2_change_data({relation('random_cd')}, unique_key={key}{uow})")
    project.history("random_history", "stg_random", key)
    raw = {"random_cd": columns, "random_uow": DB2_UOW}
    rows = [{"random_cd": batch} for batch in batches]
    rows[0] |= {"random_uow": db2_uow_rows(stream)}

    found = run_in_batches_and_at_once(
        *(project, lake, ("stg_random", "random_history")),
        [{table: (raw[table], landed) for table, landed in batch.items()} for batch in rows],
    )[-1]
    expected = db2_changes(stream, style)
    assert_same_history(found["random_history"], history(expected, key, stream.columns), stream)
    assert as_told(found["stg_random"]) == as_told([vars(change) for change in expected])
    assert count_rows(found["stg_random"]) == sum(map(len, batches))


def as_told(changes: list[Row]) -> list[Row]:
    """Keep the columns of changes that the source gives, in a fixed order."""
    names = ("change_seq", "operation", "changed_at", "transaction_id", "reject_reason")
    rows = [{name: change[name] for name in (*names, "before", "after")} for change in changes]
    return sorted(rows, key=lambda row: (row["change_seq"], sorted_items(row["after"])))


def sorted_items(image: Row | None) -> str:
    return repr(sorted((image or {}).items()))


def landed(commit: int, intent: int, letter: str, key: str | None, value: int) -> Row:
    return {
        "IBMSNAP_COMMITSEQ": commit.to_bytes(16, "big"),
        "IBMSNAP_INTENTSEQ": intent.to_bytes(16, "big"),
        "IBMSNAP_OPERATION": letter,
        "id": key,
        "value": value,
    }


def test_loads_of_several_keys_share_no_window(project: Project, lake: Lake) -> None:
    """There are as many as the source has rows."""
    keys = range(1, 6)
    loads = [landed(0, 0, "I", str(key), 1) for key in keys]
    lake.create("loads_cd", {**DB2_HEADER, "id": "string", "value": "int"}, loads)
    call = f"db2_change_data({relation('loads_cd')}, unique_key=['id'], complete=true"
    before, _, steps = project.sql(f"{call}, pair_key_changes=true)").partition("key_changes as (")
    windows = re.findall(r"partition by (if\([^()]*\))", steps.split("paired_changes as (")[0])
    assert len(windows) == 2
    for window in windows:
        counted = f"select distinct {window} from paired where kind = 'load'"
        assert len(lake.rows(f"{before} found as ({counted}) select * from found")) == len(keys)


def test_the_window_gives_what_the_self_join_gives(project: Project, lake: Lake) -> None:
    """Where each key is updated once in a commit."""
    rows = [landed(1, n, "I", key, n) for n, key in enumerate("abcd", 1)]
    rows += [landed(2, n, "D", key, n - 10) for n, key in enumerate("abc", 11)]
    rows += [landed(2, n, "I", key, n) for n, key in enumerate("bca", 21)]
    rows += [landed(2, 30, "D", "d", 4), landed(2, 31, "I", "e", 31)]
    rows += [landed(3, 41, "D", "b", 21), landed(4, 42, "I", "b", 42)]
    rows += [landed(5, 51, "D", "c", 22), landed(5, 52, "D", "a", 23), landed(5, 53, "I", "a", 53)]
    lake.create("joined_cd", {**DB2_HEADER, "id": "string", "value": "int"}, rows)
    join = f"""
        select coalesce(d.id, i.id) as id, d.value as before, i.value as after
        from (select * from {SCHEMA}.joined_cd where IBMSNAP_OPERATION = 'D') as d
        full outer join (select * from {SCHEMA}.joined_cd where IBMSNAP_OPERATION = 'I') as i
            on d.IBMSNAP_COMMITSEQ = i.IBMSNAP_COMMITSEQ and d.id = i.id
    """
    changes = project.sql(f"db2_change_data({relation('joined_cd')}, unique_key=['id'])")
    images = f"""
        select coalesce(after.id, before.id) as id, before.value as before, after.value as after
        from ({changes})
    """
    joined = sorted(map(repr, lake.rows(join)))
    assert len(joined) == 13
    assert sorted(map(repr, lake.rows(images))) == joined


HALVES: list[list[Row]] = [
    [
        *(landed(1, number, "I", key, 0) for number, key in enumerate("abcdefg")),
        landed(2, 11, "D", "a", 0),  # its insert comes in the second run
        landed(2, 14, "I", "b", 1),  # its delete does
        landed(2, 17, "D", "c", 1),  # the second pair of c; its first comes later
        landed(2, 18, "I", "c", 2),
        landed(2, 19, "D", "d", 0),  # a pair that belongs to no one: the rows between come later
        landed(2, 22, "I", "d", 2),
        landed(3, 30, "I", "moved", 5),  # its delete, of another key, comes later
        landed(4, 41, "D", "e", 0),  # with the next a key change, until there is one more insert
        landed(4, 42, "I", "f2", 6),
        landed(4, 43, "Z", "g", 6),
    ],
    [
        landed(2, 12, "I", "a", 1),
        landed(2, 13, "D", "b", 0),
        landed(2, 15, "D", "c", 0),
        landed(2, 16, "I", "c", 1),
        landed(2, 20, "I", "d", 1),
        landed(2, 21, "D", "d", 1),
        landed(3, 29, "D", "g", 0),
        landed(4, 44, "I", "e2", 6),
        landed(4, 41, "D", "e", 0),
    ],
]


@pytest.mark.minutes
def test_halves_of_a_commit_that_arrive_separately_give_the_same_result(
    project: Project, lake: Lake
) -> None:
    first, second = in_halves("", project, lake)

    assert summary(first, ["a", "b", "c", "d"]) == [
        ("a", 11, "delete", 0, None),
        ("b", 14, "insert", None, 1),
        ("c", 17, "update", 1, 2),
        ("d", 19, "update", 0, 2),
    ]
    assert summary(second, ["a", "b", "c", "d", "g", "moved"]) == [
        ("a", 11, "update", 0, 1),
        ("b", 13, "update", 0, 1),
        ("c", 15, "update", 0, 1),
        ("c", 17, "update", 1, 2),
        ("d", 19, "update", 0, 1),
        ("d", 21, "update", 1, 2),
        ("g", 29, "delete", 0, None),
        ("moved", 30, "insert", None, 5),
    ]


@pytest.mark.minutes
def test_key_changes_whose_rows_arrive_separately_give_the_same_result(
    project: Project, lake: Lake
) -> None:
    first, second = in_halves(", pair_key_changes=true", project, lake)

    assert summary(first, ["e", "f2", "g", "moved"]) == [
        ("e", 41, "update", 0, 0),
        ("f2", 42, "update", 0, 6),
        ("moved", 30, "insert", None, 5),
    ]
    assert summary(second, ["e", "e2", "f2", "g", "moved"]) == [
        ("e", 41, "delete", 0, None),
        ("e2", 44, "insert", None, 6),
        ("f2", 42, "insert", None, 6),
        ("g", 29, "update", 0, 0),
        ("moved", 30, "update", 0, 5),
    ]


def in_halves(option: str, project: Project, lake: Lake) -> list[list[Row]]:
    """Deliver both halves, see that a full rebuild changes nothing, and give what was staged."""
    columns = {**DB2_HEADER, "id": "string", "value": "int"}
    commits = [
        {"IBMSNAP_COMMITSEQ": n.to_bytes(10, "big"), "IBMSNAP_LOGMARKER": datetime(2024, 1, n)}
        for n in (1, 2, 3, 4)
    ]
    project.stream(
        "stg_halves",
        f"db2_change_data({relation('halves_cd')}, unique_key=['id'],"
        f" uow={relation('halves_uow')}{option})",
    )
    project.history("halves_history", "stg_halves")
    batches: list[Batch] = [
        {
            "halves_uow": (DB2_UOW, [commits[0], *commits[2:]]),
            "halves_cd": (columns, HALVES[0]),
        },
        # The time of the second commit comes late as well.
        {"halves_uow": (DB2_UOW, commits[1:2]), "halves_cd": (columns, HALVES[1])},
    ]
    tables = ("stg_halves", "halves_history")
    first, second = run_in_batches_and_at_once(project, lake, tables, batches)
    rows = second["stg_halves"]
    assert len({row["change_id"] for row in rows}) == len(rows)
    assert count_rows(rows) == len(HALVES[0]) + len(HALVES[1])
    return [first["stg_halves"], rows]


def summary(staged: list[Row], keys: Any) -> list[tuple[Any, ...]]:
    """Give key, place in the log, operation and values of the changes after the first commit."""
    found = []
    for row in staged:
        before, after = row["before"] or {}, row["after"] or {}
        key = (after or before)["id"]
        if row["reject_reason"] is None and row["transaction_id"] != f"{1:032X}" and key in keys:
            place = int(row["change_seq"][32:], 16)
            found.append((key, place, row["operation"], before.get("value"), after.get("value")))
    return sorted(found, key=lambda change: change[:2])


@pytest.mark.slow
def test_late_rows_are_read_with_their_whole_commit(project: Project, lake: Lake) -> None:
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "string", "value": "int"}

    def row(commit: int, intent: int, letter: str, key: str | None, day: int) -> Row:
        at = datetime(2024, 1, day)
        return {**landed(commit, intent, letter, key, 0), "IBMSNAP_LOGMARKER": at}

    project.stream("stg_late", f"db2_change_data({relation('late_ccd')}, unique_key=['id'])")
    run = ("run", "--select", "stg_late")
    lake.create(
        "late_ccd",
        columns,
        [row(10, 4, "I", "a", 1), row(20, 2, "I", "b", 8), row(30, 3, "I", "c", 10)],
    )
    project.dbt(*run, "--full-refresh")
    lake.append(
        "late_ccd",
        columns,
        [
            row(10, 1, "D", "a", 1),  # turns the insert after it into an update
            row(15, 5, "I", "late", 7),
            row(20, 6, "D", "c", 8),
            row(0, 0, "I", "load", 1),
            row(30, 7, "I", None, 10),
        ],
    )
    project.dbt(*run)

    assert [
        (row["key"], row["operation"])
        for row in lake.rows(
            "select coalesce(after, before).id as key, operation "
            f"from {SCHEMA}.stg_late order by key nulls first, operation"
        )
    ] == [
        (None, "insert"),
        ("a", "update"),
        ("b", "insert"),
        ("c", "delete"),
        ("c", "insert"),
        ("late", "insert"),
        ("load", "load"),
    ]


@pytest.mark.slow
def test_the_time_of_a_commit_may_land_after_its_rows(project: Project, lake: Lake) -> None:
    columns = {**DB2_HEADER, "id": "string", "value": "int"}
    project.stream(
        "stg_timed",
        f"db2_change_data({relation('timed_cd')}, unique_key=['id'], uow={relation('timed_uow')})",
    )
    run = ("run", "--select", "stg_timed")
    lake.create("timed_cd", columns, [landed(n, n, "I", f"key {n}", n) for n in (1, 2)])
    lake.create("timed_uow", DB2_UOW, [])
    project.dbt(*run, "--full-refresh")
    lake.append("timed_cd", columns, [landed(3, 3, "I", "key 3", 3)])
    project.dbt(*run)
    at = datetime(2024, 1, 1)
    commit = (2).to_bytes(10, "big")
    lake.append("timed_uow", DB2_UOW, [{"IBMSNAP_COMMITSEQ": commit, "IBMSNAP_LOGMARKER": at}])
    project.dbt(*run)

    found = lake.rows(f"select after.id, changed_at from {SCHEMA}.stg_timed order by change_seq")
    assert [tuple(row.values()) for row in found] == [
        ("key 1", None),
        ("key 2", at),
        ("key 3", None),
    ]


@pytest.mark.slow
def test_a_commit_keeps_its_time_whatever_its_rows_gain(project: Project, lake: Lake) -> None:
    """IBMSNAP_UOW has lost it when a copy lands, and a further change."""
    columns = {**DB2_HEADER, "id": "string", "value": "int"}
    call = f"db2_change_data({relation('kept_cd')}, unique_key=['id'], uow={relation('kept_uow')})"
    project.stream("stg_kept", call)
    run = ("run", "--select", "stg_kept")
    at = datetime(2024, 1, 1)
    commit = (2).to_bytes(10, "big")
    lake.create("kept_cd", columns, [landed(2, 1, "I", "key 1", 1)])
    lake.create("kept_uow", DB2_UOW, [{"IBMSNAP_COMMITSEQ": commit, "IBMSNAP_LOGMARKER": at}])
    project.dbt(*run, "--full-refresh")
    lake.create("kept_uow", DB2_UOW, [])
    more = [landed(2, 1, "I", "key 1", 1), landed(2, 2, "I", "key 2", 2)]
    lake.append("kept_cd", columns, more)
    project.dbt(*run)
    found = lake.rows(
        f"select after.id, changed_at, warnings, source_rows from {SCHEMA}.stg_kept order by id"
    )
    assert [tuple(row.values()) for row in found] == [
        ("key 1", at, None, 2),
        ("key 2", at, None, 1),
    ]


def test_keys_that_differ_by_less_than_a_millisecond_are_two(project: Project, lake: Lake) -> None:
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "at": "timestamp", "value": "int"}
    first, second, third = (datetime(2024, 1, 1, 12, 0, 0, 123000 + n) for n in (1, 2, 3))

    def row(commit: int, intent: int, letter: str, key: datetime) -> Row:
        at = datetime(2024, 1, 1)
        return {**landed(commit, intent, letter, None, 0), "IBMSNAP_LOGMARKER": at, "at": key}

    project.stream("stg_near", f"db2_change_data({relation('near_ccd')}, unique_key=['at'])")
    loads = [row(0, 0, "I", first), row(0, 0, "I", second)]
    lake.create("near_ccd", columns, [*loads, row(10, 1, "D", first), row(10, 2, "I", third)])
    project.dbt("run", "--full-refresh", "--select", "stg_near")

    assert [
        (row["key"], row["operation"], row["reject_reason"])
        for row in lake.rows(
            "select coalesce(after, before).at as key, operation, reject_reason "
            f"from {SCHEMA}.stg_near order by change_seq, key"
        )
    ] == [
        (first, "load", None),
        (second, "load", None),
        (first, "delete", None),
        (third, "insert", None),
    ]


@pytest.mark.minutes
def test_a_row_of_a_condensed_table_takes_the_place_of_the_one_before(
    project: Project, lake: Lake
) -> None:
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "string", "value": "int"}

    def row(commit: int, letter: str, key: str, value: int) -> Row:
        at = datetime(2024, 1, 1 + commit)
        return {**landed(commit, commit, letter, key, value), "IBMSNAP_LOGMARKER": at}

    project.stream(
        "stg_condensed",
        f"db2_change_data({relation('condensed_ccd')}, unique_key=['id'], condensed=true)",
    )
    project.history("condensed_history", "stg_condensed")
    tables = ("stg_condensed", "condensed_history")
    run = ("run", "--select", *tables)
    lake.create(
        "condensed_ccd", columns, [row(1, "I", "a", 1), row(2, "I", "b", 1), row(3, "D", "c", 1)]
    )
    project.dbt(*run, "--full-refresh")
    # Apply has put newer rows in the place of all three.
    lake.create(
        "condensed_ccd", columns, [row(4, "D", "a", 1), row(5, "U", "b", 2), row(6, "I", "c", 2)]
    )
    project.dbt(*run)
    after_second = lake.contents(*tables)
    project.dbt(*run, "--full-refresh")

    assert lake.contents(*tables) == after_second
    assert [
        (row["id"], row["value"], row["valid_from"], row["is_current"])
        for row in after_second["condensed_history"]
    ] == [("b", 2, datetime(2024, 1, 6), True), ("c", 2, datetime(2024, 1, 7), True)]


def test_a_commit_of_a_condensed_table_counts_though_its_load_has_a_later_time(
    project: Project, lake: Lake
) -> None:
    """A load row may bear the time of the load's end, or of another clock than the source's."""
    columns = {**DB2_HEADER, "IBMSNAP_LOGMARKER": "timestamp", "id": "string", "value": "int"}

    def row(commit: int, letter: str, key: str, value: int, second: int) -> Row:
        at = datetime(2024, 1, 1, 10, 0, second)
        return {**landed(commit, commit, letter, key, value), "IBMSNAP_LOGMARKER": at}

    project.stream(
        "stg_loaded",
        f"db2_change_data({relation('loaded_ccd')}, unique_key=['id'], condensed=true)",
    )
    project.history("loaded_history", "stg_loaded")
    tables = ("stg_loaded", "loaded_history")
    run = ("run", "--select", *tables)
    lake.create("loaded_ccd", columns, [row(0, "I", key, 100, 40) for key in "abc"])
    project.dbt(*run, "--full-refresh")
    changed = [row(1, "U", "a", 120, 20), row(2, "D", "b", 100, 30)]
    lake.create("loaded_ccd", columns, [*changed, row(0, "I", "c", 100, 40)])
    project.dbt(*run)
    found = lake.contents(*tables)
    assert [(row["id"], row["value"], row["is_current"]) for row in found["loaded_history"]] == [
        ("a", 120, True),
        ("c", 100, True),
    ]
    project.dbt(*run, "--full-refresh")
    assert lake.contents(*tables) == found


def test_a_compile_may_come_before_the_table_of_commits(project: Project, lake: Lake) -> None:
    lake.create("early_cd", {**DB2_HEADER, "id": "int"}, [])
    call = f"unique_key=['id'], before_prefix=none, uow={relation('no_such_uow')}"
    compiled = project.sql(f"db2_change_data({relation('early_cd')}, {call})")
    assert "do not exist yet" in compiled


def test_before_images_are_found_by_prefix_name_and_type(project: Project, lake: Lake) -> None:
    lake.create(
        "named_cd",
        {
            **DB2_HEADER,
            **{"id": "int", "name": "string", "XNAME": "string", "size": "int", "Xsize": "string"},
            **{"XXNAME": "string", "ref": "int"},
        },
        [landed(1, 1, "U", None, 0) | {"id": 1, "name": "b", "XNAME": "a", "XXNAME": "x"}],
    )

    compiled = project.sql(f"db2_change_data({relation('named_cd')}, unique_key=['ID'])")

    assert lake.rows(compiled)[0]["after"] == {
        "id": 1,
        "name": "b",
        "size": None,
        "Xsize": None,
        "XXNAME": "x",
        "ref": None,
    }
    assert lake.rows(compiled)[0]["before"] == {
        "id": 1,
        "name": "a",
        "size": None,
        "Xsize": None,
        "XXNAME": None,
        "ref": None,
    }
