"""Histories and audits of streams that no source of ours writes: runs give what a rebuild gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, contract_columns, relation
from histories import DAY, change, in_order
from reference import META_COLUMNS, Change, Deletes, Row, current
from reference import history as by_reference

FIELDS = "id: int, name: string, city: string"
NAMES = ["id", "name", "city"]
COLUMNS = contract_columns(FIELDS)
TABLE = f"{SCHEMA}.any_table"


@pytest.fixture
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    lake.spark.sql(f"drop table if exists {TABLE}")
    return make_project("any_stream")


def model(project: Project, kind: str = "history", **config: Any) -> None:
    config = {"materialized": kind, "unique_key": ["id"], **config}
    project.model("any_table", f"select * from {SCHEMA}.any_stream", **config)


def at(minutes: int, **other: Any) -> Row:
    return {"changed_at": DAY + timedelta(minutes=minutes), **other}


def times(rows: list[Row], key: int) -> list[tuple[int | None, int | None]]:
    """Return the minutes from which and until which the versions of a key are valid."""

    def minutes(time: datetime | None) -> int | None:
        return None if time is None else (time - DAY) // timedelta(minutes=1)

    own = sorted((row for row in rows if row["id"] == key), key=lambda row: row["version"])
    return [(minutes(row["valid_from"]), minutes(row["valid_to"])) for row in own]


def placed(place: str, number: int, operation: str, row: tuple[Any, ...], run: int = 0) -> Row:
    return change(number, operation, row, run) | {"change_seq": place}


def assert_runs_give_a_rebuild(
    project: Project, lake: Lake, *streams: list[Row], columns: dict[str, str] = COLUMNS
) -> list[Row]:
    """Run with each state of the stream, and compare with a rebuild from the last; return that."""
    for number, rows in enumerate(streams):
        lake.create("any_stream", columns, rows)
        project.dbt("run", *([] if number else ["--full-refresh"]))
    in_runs = sorted(lake.rows(f"select * from {TABLE}"), key=repr)
    project.dbt("run", "--full-refresh")
    rebuilt = sorted(lake.rows(f"select * from {TABLE}"), key=repr)
    assert in_runs == rebuilt
    return rebuilt


@pytest.mark.slow
def test_places_may_have_different_lengths(project: Project, lake: Lake) -> None:
    """`cast(changed_at as string)` drops the zeros at the end."""
    model(project)
    first = [
        placed("2024-01-01 10:00:00.100", 1, "insert", (2, "Ben", "Bonn")),
        placed("2024-01-01 10:00:00.3", 2, "update", (2, "Ben", "Bari")),
    ]
    second = [
        placed("2024-01-01 10:00:00.1234", 3, "insert", (1, "Ada", "Rome"), 1),
        placed("2024-01-01 10:00:00.456", 4, "update", (2, "Ben", "Oslo"), 1),
    ]
    assert_runs_give_a_rebuild(project, lake, first, first + second)


@pytest.mark.minutes
def test_places_may_have_capitals_and_small_letters(project: Project, lake: Lake) -> None:
    """Places such as KSUIDs sort by bytes, capitals first."""
    model(project)
    moved = {"before": (1, "Ada", None), "absent_columns": ["city"]}
    first = [
        placed("A1", 1, "insert", (1, "Ada", "Rome")),
        placed("a2", 2, "update", (2, "Ada", None)) | moved,
    ]
    second = [placed("Z0", 3, "insert", (9, "Zoe", "Zug"), 1)]
    late = [placed("Z1", 4, "update", (1, "Ada", "Oslo"), 2)]
    assert_runs_give_a_rebuild(project, lake, first, first + second, first + second + late)


@pytest.mark.slow
def test_a_column_that_is_renamed_to_capitals_stays_sparse(project: Project, lake: Lake) -> None:
    model(project)
    first = change(1, "insert", (1, "Ada", "Rome"))
    second = change(2, "update", (1, "Eva", None))
    lake.create("any_stream", COLUMNS, [first, second | {"absent_columns": ["city"]}])
    project.dbt("run", "--full-refresh")
    # Staging alone is refreshed.
    again = {"ingested_at": DAY + timedelta(hours=1)}
    rows = [
        first | again,
        second | again | {"absent_columns": ["CITY"]},
        change(3, "update", (1, "Ida", None), 1) | {"absent_columns": ["CITY"]},
    ]
    columns = contract_columns("id: int, name: string, CITY: string")
    lake.create("any_stream", columns, rows)
    project.dbt("run")
    found = lake.rows(f"select name, city from {TABLE} order by version")
    assert [tuple(row.values()) for row in found] == [
        ("Ada", "Rome"),
        ("Eva", "Rome"),
        ("Ida", "Rome"),
    ]


def test_columns_that_a_change_lacks_may_be_named_with_other_capitals(
    project: Project, lake: Lake
) -> None:
    """Also in SQL that may be kept in a view, which knows nothing of the rows."""
    rows = [
        change(1, "insert", (1, "Ada", "Rome")),
        change(2, "update", (1, None, "Oslo")) | {"absent_columns": ["NAME"]},
        change(3, "update", (1, "Eva", "Oslo")) | {"before": (1, "Ada", "Oslo")},
    ]
    lake.create("any_stream", COLUMNS, rows)
    given = f"{relation('any_stream')}, unique_key=['id']"
    audit, findings, *histories = project.sqls(
        [
            f"change_audit({given})",
            f"test_before_images_agree({given})",
            f"scd2({given})",
            f"scd2({given}, follow_keys=false)",
            f"known_at({given}, moment='2030-01-01')",
        ]
    )
    for history in histories:
        found = lake.rows(f"select name, city from ({history}) order by version")
        assert [tuple(row.values()) for row in found] == [
            ("Ada", "Rome"),
            ("Ada", "Oslo"),
            ("Eva", "Oslo"),
        ]
    changed = lake.rows(
        f"select column_name, old_value, new_value from ({audit})"
        " where operation = 'update' order by change_seq"
    )
    assert [tuple(row.values()) for row in changed] == [
        ("city", "Rome", "Oslo"),
        ("name", "Ada", "Eva"),
    ]
    assert lake.rows(findings) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["history", "audit"])
def test_a_part_of_a_key_may_be_null(kind: str, project: Project, lake: Lake) -> None:
    model(project, kind, unique_key=["id", "name"])
    first = [change(1, "insert", (1, None, "Rome"))]
    second = [change(2, "update", (1, None, "Oslo"), 1)]
    assert assert_runs_give_a_rebuild(project, lake, first, first + second)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["history", "audit"])
def test_a_key_that_is_not_always_captured_is_refused(
    kind: str, project: Project, lake: Lake
) -> None:
    """All rows whose name is unknown would have the key NULL. A rejected change has no key."""
    model(project, kind, unique_key=["NAME"])
    sparse = change(3, "update", (1, None, "Oslo"), 1) | {"absent_columns": ["city", "name"]}
    rejected = change(2, "update", (1, None, "Bari")) | {"absent_columns": ["name"]}
    rows = [change(1, "insert", (1, "Ada", "Rome")), rejected | {"reject_reason": "no key"}]
    lake.create("any_stream", COLUMNS, rows)
    project.dbt("run", "--full-refresh")
    lake.append("any_stream", COLUMNS, [sparse])
    for command in (["run"], ["run", "--full-refresh"]):
        with pytest.raises(DbtError) as error:
            project.dbt(*command)
        assert f"{kind} any_table: 1 changes did not capture the column `name`" in str(error.value)


def test_a_row_leaves_a_key_with_a_null_part(project: Project, lake: Lake) -> None:
    model(project, unique_key=["id", "name"])
    moved = {"before": (1, None, None), "absent_columns": ["city"]}
    lake.create(
        "any_stream",
        COLUMNS,
        [change(1, "insert", (1, None, "Rome")), change(2, "update", (2, "x", None)) | moved],
    )
    project.dbt("run", "--full-refresh")
    found = lake.rows(f"select id, name, city from {TABLE} order by id")
    assert [tuple(row.values()) for row in found] == [(1, None, "Rome"), (2, "x", "Rome")]


@pytest.mark.slow
def test_rows_take_keys_whose_first_part_is_null(project: Project, lake: Lake) -> None:
    """The history does not show the last `city` of row 2, which decides who left its key."""
    columns = contract_columns("region: string, id: int, name: string, city: string")
    moves = [
        change(number, "update", (None, number - 2, "Ben", "Bari"), 1)
        | {"before": (None, number - 3, "Ben", "Bari"), "transaction_id": "t"}
        for number in (4, 5)
    ]
    first = [
        change(1, "insert", (None, 1, "Ben", "Bari")),
        change(2, "insert", (None, 2, "Ben", "Bonn")),
        change(3, "update", (None, 2, "Ben", "Bari")),
    ]
    model(project, unique_key=["region", "id"], ignore_columns=["city"])
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, first + moves, columns=columns)
    assert {row["id"] for row in rebuilt if row["is_current"]} == {2, 3}


@pytest.mark.minutes
def test_a_truncation_that_is_taken_back(project: Project, lake: Lake) -> None:
    model(project)
    late = DAY + timedelta(hours=1)
    truncation = change(3, "truncate", None) | {"changed_at": late + timedelta(hours=1)}
    first = [
        change(1, "insert", (1, "Ada", "Rome")),
        change(2, "update", (1, "Ada", "Rome")) | {"changed_at": late},
    ]
    last = [change(4, "insert", (1, "Eva", "Rome"))]
    taken_back = truncation | {"reject_reason": "no", "ingested_at": late}
    assert_runs_give_a_rebuild(
        project, lake, [*first, truncation, *last], [*first, taken_back, *last]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [{"kind": "history"}, {"kind": "history", "grain": "transaction"}, {"kind": "audit"}],
    ids=["history", "transactions", "audit"],
)
def test_what_ordinary_runs_take_back_is_no_loss(
    config: dict[str, Any], project: Project, lake: Lake
) -> None:
    """Versions go, and rows live on, though the first change of their key is a later one now."""

    def again(row: Row, run: int = 1, **other: Any) -> Row:
        return row | {"ingested_at": DAY + timedelta(hours=run)} | other

    def ids(rows: list[Row]) -> Row:
        return {row["change_id"]: row for row in rows}

    model(project, **config)
    rejected: dict[str, Any] = {"reject_reason": "not understood"}
    loads = [placed("", n, "load", (n, "Ada", "Rome")) for n in (2, 3, 4, 5)]
    changes = [
        change(11, "insert", (1, "Ada", "Rome")),
        change(12, "update", (2, "Ada", "Oslo")),
        change(13, "update", (3, "Ada", "Oslo")),
        change(16, "insert", (6, "Ada", "Rome")),
        change(17, "delete", (6, "Ada", "Rome")),
        change(19, "insert", (7, "Ada", "Rome")),
    ]
    late = [
        placed("", 1, "load", (1, "Ada", "Bonn"), 1),
        # Another load of the key came.
        again(loads[0], **rejected),
        placed("", 20, "load", (2, "Ada", "Bari"), 1),
        # A log that has keys alone says now that the row is gone.
        again(loads[3], operation="delete", before=(5, None, None), after=None),
        again(changes[2], **rejected),
        again(changes[4], **rejected),
        again(changes[5], change_seq=f"{18:035d}"),
    ]
    # A load stands behind a change that has landed since.
    moved = again(loads[2], 2, change_seq=f"{10:035d}.r{1:019d}", operation="update")
    first = ids([*loads, *changes])
    states = [first, first | ids(late), first | ids([*late, moved])]
    assert_runs_give_a_rebuild(project, lake, *(list(rows.values()) for rows in states))


@pytest.mark.slow
def test_a_change_that_is_taken_back_leaves_the_time_of_an_earlier_one(
    project: Project, lake: Lake
) -> None:
    """Neither of the two opened a version, and the source's clock was set back after them."""
    model(project)
    first = [
        change(1, "insert", (1, "Ada", "Rome")) | at(0),
        change(2, "update", (1, "Ada", "Rome")) | at(60),
        change(3, "update", (1, "Ada", "Rome")) | at(120),
        change(4, "update", (1, "Ada", "Oslo")) | at(30),
    ]
    late = at(120, ingested_at=DAY + timedelta(hours=1), reject_reason="not understood")
    second = [*first[:2], first[2] | late, first[3]]
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, second)
    assert times(rebuilt, 1) == [(0, 60), (60, None)]


@pytest.mark.slow
def test_a_truncation_delivered_again_moves_a_row_that_began_at_its_place(
    project: Project, lake: Lake
) -> None:
    """No version says that the truncation is one of the key's events."""
    model(project)
    truncation = change(2, "truncate", None)
    rows = [
        change(1, "insert", (1, "Ada", "Rome")) | {"change_seq": truncation["change_seq"]} | at(2),
        change(3, "update", (1, "Ada", "Oslo")) | at(3),
    ]
    again = truncation | at(5, ingested_at=DAY + timedelta(hours=1))
    rebuilt = assert_runs_give_a_rebuild(project, lake, [*rows, truncation | at(2)], [*rows, again])
    assert times(rebuilt, 1) == [(5, None)]


@pytest.mark.slow
@pytest.mark.parametrize("deletes", ["close", "version"])
def test_a_truncation_that_moves_to_an_earlier_place_leaves_later_rows_alive(
    deletes: Deletes, project: Project, lake: Lake
) -> None:
    """Row 2 began between the new place and the former one."""
    model(project, deletes=deletes)
    rows = [change(1, "insert", (1, "Ada", "Rome")), change(8, "insert", (2, "Ben", "Bonn"))]
    truncation = change(9, "truncate", None)
    moved = change(9, "truncate", None, run=1) | {"change_seq": f"{7:035d}"}
    rebuilt = assert_runs_give_a_rebuild(project, lake, [*rows, truncation], [*rows, moved])

    changes = [
        Change(
            row["change_id"],
            row["change_seq"],
            row["operation"],
            after=dict(zip(NAMES, row["after"], strict=True)) if row["after"] else None,
            changed_at=row["changed_at"],
        )
        for row in [*rows, moved]
    ]
    expected = by_reference(changes, ["id"], NAMES, deletes=deletes)
    assert [row["id"] for row in current(expected)] == [2]
    shown = [*NAMES, *META_COLUMNS]
    found = [{name: row[name] for name in shown} for row in in_order(rebuilt, ["id"])]
    assert found == [{name: row[name] for name in shown} for row in expected]


def test_a_row_goes_with_its_delete_however_its_values_are_written(
    project: Project, lake: Lake
) -> None:
    """A map has no order, and -0.0 is 0.0; each row comes and goes in one transaction.

    A map inside of another value proves nothing.
    """
    model(project)
    columns = contract_columns(
        "id: int, x: double, m: map<string, int>, s: array<double>, n: struct<m: map<string, int>>"
    )
    values: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
        ((1, 0.0, {"a": 1, "b": 2}, [0.0]), (1, -0.0, {"b": 2, "a": 1}, [-0.0])),
        ((2, 1.0, {"a": 1}, [1.0]), (2, 1.0, {"a": 1}, [1.0])),
        ((3, 1.0, {"a": 1}, [1.0]), (3, 2.0, {"a": 1}, [1.0])),
        ((4, 1.0, {"a": 1}, [1.0]), (4, 1.0, {"a": 2}, [1.0])),
        ((5, 1.0, {"a": 1}, [1.0]), (5, 1.0, {"a": 1}, [2.0])),
    ]
    rows: list[Row] = []
    nested: list[Row] = [{"m": {"a": 1, "b": 2}}, {"m": {"b": 2, "a": 1}}]
    for row, shown in [((*row, nested[0]), (*shown, nested[1])) for row, shown in values]:
        rows += [change(len(rows) + 1, "insert", row), change(len(rows) + 2, "delete", shown)]
    lake.create("any_stream", columns, [row | {"transaction_id": "one"} for row in rows])
    project.dbt("run", "--full-refresh")
    found = lake.rows(f"select id, closed_by from {TABLE} order by id")
    ends = {1: "delete", 2: "delete", 3: None, 4: None, 5: None}
    assert {row["id"]: row["closed_by"] for row in found} == ends


@pytest.mark.slow
@pytest.mark.parametrize("is_truncated", [False, True])
def test_a_clock_that_was_set_back_does_not_meet_the_end_of_an_earlier_row(
    is_truncated: bool, project: Project, lake: Lake
) -> None:
    """The row of key 2 moves on, in the statement that brought another one there before."""
    model(project)
    moves = [
        change(number, "update", (key + 1, name, None))
        | {"before": (key, name, None)}
        | at(minute, transaction_id="moves")
        for number, key, name, minute in [(3, 1, "Ada", 120), (4, 2, "Ben", 130)]
    ]
    first = [
        change(1, "insert", (1, "Ada", None)) | at(0),
        change(2, "insert", (2, "Ben", None)) | at(0),
        *moves,
    ]
    later = change(5, "update", (2, "Eva", None), 1) | at(125)
    if is_truncated:
        later = change(5, "truncate", None, 1) | at(125)
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, [*first, later])
    assert times(rebuilt, 2)[:2] == [(0, 120), (120, 125)]


@pytest.mark.slow
def test_a_change_at_a_known_place_leaves_the_earlier_one_its_time(
    project: Project, lake: Lake
) -> None:
    """A change without a version has the latest time before the place."""
    model(project)
    first = [
        placed("1", 1, "insert", (1, "Ada", "Rome")) | at(0),
        placed("3", 3, "update", (1, "Ada", "Rome")) | at(120),
        placed("9", 9, "update", (1, "Ada", "Oslo")) | at(60),
    ]
    tied = placed("9.002", 10, "update", (1, "Ada", "Bonn"), 1) | at(180)
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, [*first, tied])
    assert times(rebuilt, 1) == [(0, 120), (120, 180), (180, None)]
    # A place may lie between the new one and that which it seems to share.
    first[-1]["change_seq"], tied["change_seq"] = "9.1", "9.234"
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, [*first, tied])
    assert times(rebuilt, 1) == [(0, 120), (120, 180), (180, None)]


@pytest.mark.slow
@pytest.mark.parametrize("grain", ["change", "transaction"])
def test_a_transaction_id_that_is_used_again_in_a_later_run(
    grain: str, project: Project, lake: Lake
) -> None:
    """A late change between two that were an hour apart makes one transaction of them."""
    model(project, grain=grain)
    one = {"transaction_id": "t"}
    first = [
        change(1, "insert", (1, "Ada", "Rome")) | at(0, **one),
        change(2, "insert", (2, "Ben", "Bonn")) | at(0, **one),
    ]
    second = [
        change(5, "update", (1, "Ada", "Bari"), 1) | at(61, **one),
        # A change was lost upstream.
        change(6, "delete", (2, "Ben", "Oslo"), 1) | at(61, **one),
    ]
    late = [change(4, "update", (1, "Ada", "Oslo"), 2) | at(30, **one)]
    rebuilt = assert_runs_give_a_rebuild(
        project, lake, first, [*first, *second], [*first, *second, *late]
    )
    steps = [(0, 30), (30, 61), (61, None)]
    assert times(rebuilt, 1) == (steps if grain == "change" else steps[-1:])
    assert times(rebuilt, 2) == [(0, 61)]


@pytest.mark.slow
@pytest.mark.parametrize("is_applied", [False, True])
def test_a_run_with_a_truncation_and_a_rejected_change(
    is_applied: bool, project: Project, lake: Lake
) -> None:
    """A topic of several tables also brings the truncations of others, which are rejected."""
    model(project)
    first = [
        change(1, "insert", (1, "Ada", "Rome")),
        change(2, "insert", (2, "Ben", "Bonn")),
        change(3, "insert", (3, "Eva", "Oslo")),
        change(4, "delete", (3, "Eva", "Oslo")),
    ]
    reason = None if is_applied else "of another table"
    second = [
        change(5, "truncate", None, 1) | {"reject_reason": reason},
        change(6, "delete", (2, "Ben", "Bonn"), 1) | {"reject_reason": "not understood"},
    ]
    rebuilt = assert_runs_give_a_rebuild(project, lake, first, first + second)
    ends = [(row["id"], row["closed_by"]) for row in sorted(rebuilt, key=lambda row: row["id"])]
    end = "truncate" if is_applied else None
    assert ends == [(1, end), (2, end), (3, "delete")]


def test_no_column_may_be_tracked(project: Project, lake: Lake) -> None:
    """An empty list is something else than none, which tracks all."""
    changes = [
        change(1, "insert", (1, "Ada", "Rome")),
        change(2, "update", (1, "Ada", "Oslo")),
        change(3, "delete", (1, "Ada", "Oslo")),
    ]
    lake.create("any_stream", COLUMNS, changes)
    for tracked, versions in ([], 1), (None, 2):
        model(project, track_columns=tracked)
        project.dbt("run", "--full-refresh")
        assert len(lake.rows(f"select * from {TABLE}")) == versions


def test_a_full_refresh_after_a_column_of_ours_is_renamed(project: Project, lake: Lake) -> None:
    lake.create("any_stream", COLUMNS, [change(1, "insert", (1, "Ada", "Rome"))])
    model(project)
    project.dbt("run", "--full-refresh")
    model(project, meta_column_names={"valid_to_seq": "_valid_to_seq"})
    project.dbt("run", "--full-refresh")
    assert lake.rows(f"select _valid_to_seq from {TABLE}") == [{"_valid_to_seq": None}]
    model(project, "audit")
    project.dbt("run", "--full-refresh")
    assert len(lake.rows(f"select * from {TABLE}")) == 3


@pytest.mark.minutes
def test_a_history_that_is_deferred_to_keeps_its_column_names(project: Project, lake: Lake) -> None:
    """`is_current` is a column of the source."""
    columns = contract_columns("id: int, is_current: boolean")
    lake.create(
        "any_stream",
        columns,
        [
            change(1, "insert", (1, False)),
            change(2, "insert", (2, True)),
            change(3, "update", (2, False)),
        ],
    )
    project.file(
        "models/contracts_history.sql",
        "{{ config(materialized='history', unique_key=['id'],"
        " schema=var('where'), meta_column_names={'is_current': '_is_current'}) }}\n"
        f"select * from {SCHEMA}.any_stream",
    )
    project.file(
        "models/contracts.sql",
        "{{ config(materialized='table', schema=var('where')) }}\n"
        "{{ current_state(ref('contracts_history')) }}",
    )
    production, own = ["--vars", "{where: prod}"], ["--vars", "{where: dev}"]
    project.dbt("run", *production)
    right = lake.rows(f"select * from {SCHEMA}_prod.contracts order by id")
    assert [(row["id"], row["is_current"]) for row in right] == [(1, False), (2, False)]
    state = project.folder / "state"
    state.mkdir()
    project.dbt("--write-json", "parse", *production)
    shutil.copy(project.folder / ".afterimage/target/manifest.json", state)
    project.dbt("run", "--select", "contracts", "--defer", "--state", str(state), *own)
    assert lake.rows(f"select * from {SCHEMA}_dev.contracts order by id") == right
