"""What a history run guarantees besides its rows: no needless commit, clear errors, safety."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, SCHEMA, DbtError, Lake, Project, contract_columns, relation
from histories import DAY, change
from machines import set_ahead

FIELDS = "id: int, name: string, city: string"
COLUMNS = contract_columns(FIELDS)
# A warning of ours ends the run.
STRICT = ("--warn-error-options", '{"error": ["JinjaLogWarning"]}')


@pytest.fixture
def unbuilt(make_project: Callable[[str], Project]) -> Project:
    """A project with the model of a history, for tests that have changes of their own."""
    project = make_project("history_runs")
    write_model(project)
    return project


@pytest.fixture
def project(unbuilt: Project, lake: Lake) -> Project:
    """The project, its history built from one change."""
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome"))])
    unbuilt.dbt("run", "--full-refresh")
    return unbuilt


def write_model(project: Project, **config: Any) -> None:
    config = {"materialized": "history", "unique_key": ["id"], **config}
    project.model("people_history", f"select * from {SCHEMA}.changes", **config)


def snapshots(lake: Lake) -> int:
    return len(lake.rows(f"select * from {SCHEMA}.people_history.snapshots"))


def versions(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.rows(f"select * from {SCHEMA}.people_history order by id, version")
    return [(r["id"], r["name"], r["city"], r["version"], r["closed_by"]) for r in rows]


@pytest.mark.slow
def test_a_run_that_changes_no_version_makes_no_commit(project: Project, lake: Lake) -> None:
    before = snapshots(lake)
    project.dbt("run")
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Rome"), run=1)])
    project.dbt("run")
    lake.append("changes", COLUMNS, [change(3, "delete", (9, None, None), run=2)])
    project.dbt("run")
    assert snapshots(lake) == before
    lake.append("changes", COLUMNS, [change(4, "update", (1, "Ada", "Oslo"), run=3)])
    project.dbt("run")
    assert snapshots(lake) == before + 1


@pytest.mark.slow
def test_a_batch_of_deletes_does_not_move_the_watermark_back(project: Project, lake: Lake) -> None:
    lake.append("changes", COLUMNS, [change(2, "delete", (1, None, None), run=5)])
    project.dbt("run")
    lake.append("changes", COLUMNS, [change(3, "insert", (2, "Ben", "Bonn"), run=6)])
    project.dbt("run")
    assert versions(lake) == [(1, "Ada", "Rome", 1, "delete"), (2, "Ben", "Bonn", 1, None)]


@pytest.mark.slow
def test_changes_of_a_staging_run_that_commits_late_are_read(project: Project, lake: Lake) -> None:
    lake.append("changes", COLUMNS, [change(3, "insert", (3, "Cleo", "Cairo"), run=6)])
    project.dbt("run")
    # It began before the run that was taken in, and has committed only now.
    lake.append("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"), run=5)])
    project.dbt("run")
    assert [row[0] for row in versions(lake)] == [1, 2, 3]


@pytest.mark.slow
def test_a_run_of_the_future_hides_no_later_one(project: Project, lake: Lake) -> None:
    """The stream unites two staging models; the clock of one run was far ahead."""
    ahead = 24 * 365 * 100
    lake.append("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"), run=ahead)])
    project.dbt("run")
    today = change(3, "insert", (3, "Cleo", "Cairo")) | {"ingested_at": datetime.now()}
    lake.append("changes", COLUMNS, [today])
    project.dbt("run")
    assert [row[0] for row in versions(lake)] == [1, 2, 3]


@pytest.mark.slow
def test_a_run_with_a_clock_ahead_hides_no_later_one(project: Project, lake: Lake) -> None:
    """The stream unites two staging models, and one of them was idle while the clock was ahead."""
    ahead = timedelta(days=7)
    news = change(2, "insert", (2, "Ben", "Bonn"))
    lake.append("changes", COLUMNS, [news | {"ingested_at": datetime.now() + ahead}])
    with set_ahead(ahead):
        project.dbt("run")
    today = change(3, "insert", (3, "Cleo", "Cairo")) | {"ingested_at": datetime.now()}
    lake.append("changes", COLUMNS, [today])
    for _ in range(2):
        project.dbt("run")
        assert [row[0] for row in versions(lake)] == [1, 2, 3]


@pytest.mark.slow
def test_a_truncation_in_one_of_several_staging_models_is_a_warning(
    unbuilt: Project, lake: Lake
) -> None:
    """Only a history for each would know whose rows it ends."""
    for number, name in enumerate(("stg_eu", "stg_us"), 1):
        unbuilt.model(name, "select 1 as nothing", materialized="change_stream")
        lake.create(name, COLUMNS, [change(number, "insert", (number, "Ada", "Rome"))])
    both = "select * from {{ ref('stg_eu') }} union all select * from {{ ref('stg_us') }}"
    unbuilt.model("both", both, materialized="ephemeral")
    unbuilt.model("people_history", both, materialized="history", unique_key=["id"])
    unbuilt.model(
        "people_audit", "select * from {{ ref('both') }}", materialized="audit", unique_key=["id"]
    )
    unbuilt.history("us_history", "stg_us")
    select = ["--select", "people_history", "people_audit", "us_history"]
    unbuilt.dbt(*STRICT, "run", *select, "--full-refresh")
    lake.append("stg_us", COLUMNS, [change(5, "truncate", None, run=1)])
    with pytest.raises(DbtError) as error:
        unbuilt.dbt(*STRICT, "run", *select)
    for model in ("history people_history", "audit people_audit"):
        assert f"{model}: a truncation ends the rows of all" in str(error.value)
    assert str(error.value).count("that it reads: stg_eu, stg_us.") == 2
    unbuilt.dbt("run", "--select", "people_history")
    assert [row[-1] for row in versions(lake)] == ["truncate", "truncate"]


def staged_columns(fields: str) -> dict[str, str]:
    """Return the columns of a staging table in their order."""
    columns = contract_columns(fields) | {"warnings": "array<string>", "source_rows": "int"}
    for last in ("changed_by", "ingested_at"):
        columns[last] = columns.pop(last)
    return columns


def write_two_streams(
    project: Project, lake: Lake, fields: str, row: tuple[Any, ...], first: str = FIELDS
) -> None:
    """Make two staging tables; the images of the second have these fields."""
    city = ("Rome", "IT") if "struct" in first else "Rome"
    streams = {"stg_eu": (first, (1, "Ada", city)), "stg_us": (fields, row)}
    for number, (name, (own, after)) in enumerate(streams.items(), 1):
        project.model(name, "select 1 as nothing", materialized="change_stream")
        lake.create(name, staged_columns(own), [change(number, "insert", after)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "fields", "row", "got"),
    [
        (
            FIELDS,
            "id: int, city: string, name: string",
            (2, "Oslo", "Ben"),
            "stg_eu with id, name, city; stg_us with id, city, name",
        ),
        (
            FIELDS,
            "id: int, name: string, city: string, email: string",
            (2, "Ben", "Oslo", "b@x.org"),
            "stg_eu with id, name, city; stg_us with id, name, city, email",
        ),
        (
            "id: int, name: string, city: struct<Town: string, land: string>",
            "id: int, name: string, city: struct<land: string, Town: string>",
            (2, "Ben", ("NO", "Oslo")),
            "stg_eu with id, name, city (Town, land); stg_us with id, name, city (land, Town)",
        ),
    ],
)
def test_staging_models_that_are_united_must_have_their_columns_in_one_order(
    first: str, fields: str, row: tuple[Any, ...], got: str, unbuilt: Project, lake: Lake
) -> None:
    """Spark unites images by position: a name would become a city, and a land a town."""
    both = "select * from {{ ref('stg_eu') }} union all select * from {{ ref('stg_us') }}"
    unbuilt.model("both", both, materialized="ephemeral")
    unbuilt.model("people_history", both, materialized="history", unique_key=["id"])
    unbuilt.model(
        "people_audit", "select * from {{ ref('both') }}", materialized="audit", unique_key=["id"]
    )
    select = ["--select", "people_history", "people_audit"]
    # A column of another name in capitals is the same to Spark.
    write_two_streams(unbuilt, lake, "ID: int, Name: string, City: string", (2, "Ben", "Oslo"))
    unbuilt.dbt("run", "--full-refresh", *select)
    expected = [(1, "Ada", "Rome", 1, None), (2, "Ben", "Oslo", 1, None)]
    assert versions(lake) == expected
    write_two_streams(unbuilt, lake, fields, row, first)
    for command in (["run", "--full-refresh"], ["run"]):
        with pytest.raises(DbtError) as error:
            unbuilt.dbt(*command, *select)
        for model in ("history people_history", "audit people_audit"):
            assert f"{model}: the staging models that it unites must have" in str(error.value)
        assert str(error.value).count(f"Got: {got}") == 2
        assert versions(lake) == expected


@pytest.mark.slow
def test_united_models_may_spell_the_columns_that_a_change_lacks_with_other_capitals(
    unbuilt: Project, lake: Lake
) -> None:
    """Images have the names of the first model, `absent_columns` those of each table."""
    fields = "ID: int, NAME: string, CITY: string"
    write_two_streams(unbuilt, lake, fields, (7, "Ann", "Oslo"))
    both = "select * from {{ ref('stg_eu') }} union all select * from {{ ref('stg_us') }}"
    for kind in ("history", "audit"):
        unbuilt.model(f"people_{kind}", both, materialized=kind, unique_key=["id"])
    select = ["--select", "people_history", "people_audit"]
    lacks_name = {"absent_columns": ["NAME"]}
    updated = change(3, "update", (7, None, "Bergen")) | lacks_name
    lake.append("stg_us", staged_columns(fields), [updated])
    unbuilt.dbt("run", "--full-refresh", *select)
    ada, ann = (1, "Ada", "Rome", 1), (7, "Ann", "Oslo", 1, "update")
    assert versions(lake) == [(*ada, None), ann, (7, "Ann", "Bergen", 2, None)]
    moved = change(4, "update", (8, None, "Bergen"), 1) | lacks_name
    lake.append("stg_us", staged_columns(fields), [moved | {"before": (7, None, None)}])
    sparse = change(5, "update", (1, None, "Bari"), 1) | {"absent_columns": ["name"]}
    lake.append("stg_eu", staged_columns(FIELDS), [sparse])
    for command in (["run"], ["run", "--full-refresh"]):
        unbuilt.dbt(*command, *select)
        assert versions(lake) == [
            (*ada, "update"),
            (1, "Ada", "Bari", 2, None),
            ann,
            (7, "Ann", "Bergen", 2, "key_change"),
            (8, "Ann", "Bergen", 1, None),
        ]
        changed = lake.rows(
            f"select change_id, column_name from {SCHEMA}.people_audit"
            " where operation = 'update' order by change_id, column_name"
        )
        assert [tuple(row.values()) for row in changed] == [
            ("c3", "city"),
            ("c4", "id"),
            ("c5", "city"),
        ]


def documented(path: str) -> str:
    """Return the file that the page of histories shows."""
    page = (ROOT / "docs/guides/history.md").read_text()
    [block] = [block for block in page.split("```") if block.startswith(f"sql\n-- {path}\n")]
    return block.removeprefix("sql\n")


@pytest.mark.slow
def test_images_may_be_put_together_by_name_as_documented(unbuilt: Project, lake: Lake) -> None:
    fields = "id: int, city: string, name: string"
    write_two_streams(unbuilt, lake, fields, (2, "Oslo", "Ben"))
    unbuilt.file("models/people_history.sql", documented("models/history/people_history.sql"))
    unbuilt.dbt("run", "--full-refresh", "--select", "people_history")
    expected = [(1, "Ada", "Rome", 1, None), (2, "Ben", "Oslo", 1, None)]
    assert versions(lake) == expected
    # An update without a row before it is of the same key.
    news = [change(3, "update", (2, "Rome", "Ben"), 1), change(4, "delete", (2, "Rome", "Ben"), 1)]
    lake.append("stg_us", staged_columns(fields), news)
    unbuilt.dbt("run", "--select", "people_history")
    assert versions(lake) == [
        expected[0],
        (2, "Ben", "Oslo", 1, "update"),
        (2, "Ben", "Rome", 2, "delete"),
    ]


@pytest.mark.slow
def test_regions_that_share_keys_are_kept_apart_as_documented(unbuilt: Project, lake: Lake) -> None:
    """Both number their rows and their changes from 1 on."""
    columns = staged_columns(FIELDS)
    for region, name in (("eu", "Ada"), ("us", "Ben")):
        unbuilt.model(f"stg_{region}", "select 1 as nothing", materialized="change_stream")
        unbuilt.history(f"people_{region}_history", f"stg_{region}")
        lake.create(f"stg_{region}", columns, [change(1, "insert", (1, name, "Rome"))])
    for path in (
        "tests/regions_share_no_key.sql",
        "models/people.sql",
        "models/history/people_by_region.sql",
    ):
        unbuilt.file(path, documented(path))
    tables = ("people", "people_by_region")
    select = ["--select", "people_eu_history", "people_us_history", *tables]
    unbuilt.dbt("run", *select)
    moved = change(2, "update", (2, None, "Bari"), 1) | {"absent_columns": ["name"]}
    moved["before"] = (1, None, None)
    lake.append("stg_eu", columns, [moved])
    lake.append("stg_us", columns, [moved, change(3, "delete", (2, None, None), 1)])
    for command in (["run"], ["run", "--full-refresh"]):
        unbuilt.dbt(*command, *select)
        for table in tables:
            rows = lake.rows(f"select region, id, name, closed_by from {SCHEMA}.{table}")
            assert sorted(tuple(row.values()) for row in rows) == [
                ("eu", 1, "Ada", "key_change"),
                ("eu", 2, "Ada", None),
                ("us", 1, "Ben", "key_change"),
                ("us", 2, "Ben", "delete"),
            ]
    with pytest.raises(DbtError, match="regions_share_no_key: Got 2 results"):
        unbuilt.dbt("test", "--select", "regions_share_no_key")
    lake.create("stg_us", columns, [change(1, "insert", (9, "Ben", "Rome"))])
    unbuilt.dbt("test", "--select", "regions_share_no_key")
    # The load of this row is missing.
    lake.append("stg_us", columns, [change(2, "delete", (1, None, None), 1)])
    with pytest.raises(DbtError, match="regions_share_no_key: Got 1 result"):
        unbuilt.dbt("test", "--select", "regions_share_no_key")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["history", "audit"])
def test_changes_of_an_unknown_operation_are_a_warning(
    kind: str, unbuilt: Project, lake: Lake
) -> None:
    """No version can come of them. A change that was rejected may have any."""
    unbuilt.model(
        f"people_{kind}", f"select * from {SCHEMA}.changes", materialized=kind, unique_key=["id"]
    )
    select = ["--select", f"people_{kind}"]
    rejected = change(2, "X", (2, "Ben", "Bonn")) | {"reject_reason": "not understood"}
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome")), rejected])
    unbuilt.dbt(*STRICT, "run", *select, "--full-refresh")
    unknown = [change(3, "upsert", (1, "Ada", "Oslo"), 1), change(4, "INSERT", (3, "Eva", ""), 1)]
    lake.append("changes", COLUMNS, unknown)
    for command in (["run"], ["run", "--full-refresh"]):
        with pytest.raises(DbtError) as error:
            unbuilt.dbt(*STRICT, *command, *select)
        assert f"{kind} people_{kind}: 2 changes are left out" in str(error.value)
        assert "Got: INSERT" in str(error.value)
    unbuilt.dbt("run", *select)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "place"), [("bigint", 10), ("timestamp", DAY)])
def test_places_that_are_no_strings_are_refused(
    kind: str, place: Any, unbuilt: Project, lake: Lake
) -> None:
    columns = COLUMNS | {"change_seq": kind}
    lake.create("changes", columns, [change(1, "insert", (1, "A", "B")) | {"change_seq": place}])
    with pytest.raises(DbtError, match=rf"`change_seq` must be a string, .*Got: {kind}"):
        unbuilt.dbt("run", "--full-refresh")


@pytest.mark.slow
def test_a_stream_whose_times_are_not_stored_is_refused(unbuilt: Project, lake: Lake) -> None:
    """Each query of a run would read another `ingested_at`, and find nothing at those before."""
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome"))])
    stored = ", ".join(f"`{name}`" for name in COLUMNS if name != "ingested_at")
    body = f"select {stored}, current_timestamp() as ingested_at from {SCHEMA}.changes"
    for kind in ("history", "audit"):
        unbuilt.model(f"people_{kind}", body, materialized=kind, unique_key=["id"])
    unbuilt.dbt("run", "--full-refresh")
    lake.append("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"))])
    with pytest.raises(DbtError) as error:
        unbuilt.dbt("run")
    for kind in ("history", "audit"):
        assert f"{kind} people_{kind}: `ingested_at` must be stored" in str(error.value)
    unbuilt.dbt("run", "--full-refresh")
    assert [row[0] for row in versions(lake)] == [1, 2]


@pytest.mark.slow
def test_a_change_that_opened_no_version_still_moves_later_times(
    project: Project, lake: Lake
) -> None:
    """The source's clock was set back after it."""
    late = DAY + timedelta(hours=1)
    same = change(2, "update", (1, "Ada", "Rome"), run=1) | {"changed_at": late}
    lake.append("changes", COLUMNS, [same])
    project.dbt("run")
    lake.append("changes", COLUMNS, [change(3, "update", (1, "Ada", "Oslo"), run=2)])
    project.dbt("run")
    found = lake.rows(f"select city, valid_from from {SCHEMA}.people_history where is_current")
    assert found == [{"city": "Oslo", "valid_from": late}]


@pytest.mark.slow
def test_a_change_that_is_taken_back_leaves_no_version(project: Project, lake: Lake) -> None:
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Oslo"), run=1)])
    project.dbt("run")
    taken_back = change(2, "update", (1, "Ada", "Oslo"), run=2) | {"reject_reason": "superseded"}
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome")), taken_back])
    project.dbt("run")
    assert versions(lake) == [(1, "Ada", "Rome", 1, None)]


@pytest.mark.slow
def test_versions_from_before_a_pruned_stream_are_not_lost(unbuilt: Project, lake: Lake) -> None:
    """A staging table that is built again has only the changes that the raw table still holds."""

    def stream(run: int, *cities: tuple[int, str]) -> None:
        rows = [change(number, "update", (1, "Ada", city), run) for number, city in cities]
        lake.create("changes", COLUMNS, rows)

    write_model(unbuilt, grain="transaction")
    rome, oslo, bonn = (1, "Rome"), (2, "Oslo"), (3, "Bonn")
    stream(0, rome, oslo, bonn)
    unbuilt.dbt("run", "--full-refresh")
    # A change that others of its key stand before was taken out on purpose.
    stream(1, rome, bonn)
    unbuilt.dbt("run")
    both = [(1, "Ada", "Rome", 1, "update"), (1, "Ada", "Bonn", 2, None)]
    assert versions(lake) == both
    stream(2, bonn)
    with pytest.raises(
        DbtError, match=r"1 rows of \S+ would be lost, .* --full-refresh --select p"
    ):
        unbuilt.dbt("run")
    assert versions(lake) == both
    assert lake.rows(f"show tables in {SCHEMA} like 'people_history__scratch*'") == []
    unbuilt.dbt("run", "--full-refresh")
    assert versions(lake) == [(1, "Ada", "Bonn", 1, None)]


@pytest.mark.slow
def test_what_a_pruned_stream_lacks_behind_a_load_is_not_lost(unbuilt: Project, lake: Lake) -> None:
    """The raw table keeps the copy of a load, and of the changes only the latest."""

    def stream(run: int, *numbers: int) -> None:
        again = {"ingested_at": DAY + timedelta(hours=run)}
        lake.create("changes", COLUMNS, [rows[number] | again for number in numbers])

    place = {"change_seq": ""}
    rows = {
        1: change(1, "load", (1, "Ada", "Rome")) | place,
        2: change(2, "load", (2, "Ben", "Bonn")) | place,
        3: change(3, "update", (1, "Ada", "Oslo")),
        4: change(4, "update", (1, "Ada", "Bari")),
        5: change(5, "delete", (2, "Ben", "Bonn")),
        6: change(6, "update", (1, "Ada", "Pisa")),
    }
    stream(0, *rows)
    unbuilt.dbt("run", "--full-refresh")
    cities = ("Rome", "update"), ("Oslo", "update"), ("Bari", "update"), ("Pisa", None)
    ada = [(1, "Ada", city, n, end) for n, (city, end) in enumerate(cities, start=1)]
    known = [*ada, (2, "Ben", "Bonn", 1, "delete")]
    assert versions(lake) == known
    # Without its delete Ben would be back.
    for run, (lost, numbers) in enumerate([(2, (1, 2, 5, 6)), (1, (1, 2, 3, 4, 6))], start=1):
        stream(run, *numbers)
        with pytest.raises(
            DbtError, match=rf"{lost} rows of \S+ would be lost, or would not end, .* --select p"
        ):
            unbuilt.dbt("run")
        assert versions(lake) == known
    stream(3, *rows)
    unbuilt.dbt("run")
    assert versions(lake) == known


@pytest.mark.slow
def test_a_rejected_change_leaves_the_versions_from_before_a_pruned_stream(
    unbuilt: Project, lake: Lake
) -> None:
    """A staging table was built again, and has rejected changes of known and of other keys."""

    def rejected(number: int, row: tuple[Any, ...], run: int) -> dict[str, Any]:
        return change(number, "update", None, run) | {"before": row, "reject_reason": "no update"}

    rome, oslo = (change(n, "update", (1, "Ada", city)) for n, city in [(1, "Rome"), (9, "Oslo")])
    lake.create("changes", COLUMNS, [rome, oslo])
    unbuilt.dbt("run", "--full-refresh")
    again = oslo | {"ingested_at": DAY + timedelta(hours=1)}
    others = [rejected(5, (1, "Ada", "Rome"), 1), rejected(6, (None, "Eva", None), 1)]
    for rows in [[again, *others], [again, *others, rejected(7, (1, "Ada", "Rome"), 2)]]:
        lake.create("changes", COLUMNS, rows)
        unbuilt.dbt("run")
        assert versions(lake) == [(1, "Ada", "Rome", 1, "update"), (1, "Ada", "Oslo", 2, None)]


@pytest.mark.minutes
def test_a_row_keeps_its_columns_from_key_to_key_in_a_later_run(
    project: Project, lake: Lake
) -> None:
    """The updates did not capture `city`, so it keeps the value of the old key."""
    lake.append("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"), run=1)])
    project.dbt("run")
    moves = [
        change(3, "update", (3, "Ada", None), run=2) | {"before": (1, "Ada", None)},
        change(4, "update", (4, "Ada", None), run=2) | {"before": (3, "Ada", None)},
        change(5, "update", (5, "Ada", None), run=2) | {"before": (4, "Ada", None)},
        change(6, "update", (6, "Ada", None), run=2) | {"before": (5, "Ada", None)},
        change(7, "update", (2, "Ben", "Bari"), run=2) | {"before": (2, "Ben", "Bonn")},
        change(8, "update", (1, "Ben", None), run=2) | {"before": (2, "Ben", None)},
    ]
    lake.append("changes", COLUMNS, [row | {"absent_columns": ["city"]} for row in moves[:4]])
    lake.append("changes", COLUMNS, [moves[4], moves[5] | {"absent_columns": ["city"]}])
    project.dbt("run")
    grown = versions(lake)
    assert [row for row in grown if row[4] is None] == [
        (1, "Ben", "Bari", 2, None),
        (6, "Ada", "Rome", 1, None),
    ]
    project.dbt("run", "--full-refresh")
    assert versions(lake) == grown


def test_a_new_column_is_added_and_opens_no_version(project: Project, lake: Lake) -> None:
    wider = COLUMNS | dict.fromkeys(("before", "after"), f"struct<{FIELDS}, zip: string>")
    rows = [
        change(1, "insert", (1, "Ada", "Rome", None)),
        change(2, "update", (1, "Ada", "Rome", "00100"), run=1),
        change(3, "insert", (2, "Ben", "Bonn", None), run=1),
    ]
    lake.create("changes", wider, rows)
    project.dbt("run")
    found = lake.rows(f"select * from {SCHEMA}.people_history order by id, version")
    assert list(found[0])[:4] == ["id", "name", "city", "zip"]
    assert [(r["id"], r["zip"], r["version"]) for r in found] == [
        (1, None, 1),
        (1, "00100", 2),
        (2, None, 1),
    ]


@pytest.mark.minutes
def test_a_new_column_may_be_a_struct_of_any_fields(project: Project, lake: Lake) -> None:
    """Spark shows only the first of many fields, here without the map, and no quotes."""
    nested = ", ".join([*(f"f{number}: int" for number in range(30)), "`a-b`: map<string, int>"])
    wider = contract_columns(f"{FIELDS}, nested: struct<{nested}>")
    filled = (*range(30), {"x": 1})
    rows = [
        change(1, "insert", (1, "Ada", "Rome", None)),
        change(2, "update", (1, "Ada", "Rome", filled), run=1),
    ]
    lake.create("changes", wider, rows)
    project.dbt("run")
    lake.append("changes", wider, [change(3, "update", (1, "Ada", "Rome", filled), run=2)])
    project.dbt("run")
    assert [row[3] for row in versions(lake)] == [1, 2]
    [found] = lake.rows(f"select nested.`a-b` as m from {SCHEMA}.people_history where is_current")
    assert found == {"m": {"x": 1}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"ignore_columns": ["city"]}),
        (
            {"meta_column_names": {"valid_from": "until", "valid_to": "since"}},
            {"meta_column_names": {"valid_from": "since", "valid_to": "until"}},
        ),
        ({"unique_key": ["id", "name"]}, {"unique_key": ["name", "id"]}),
    ],
    ids=["ignored", "other names of our columns", "another order of the key"],
)
def test_changed_options_need_a_full_refresh(
    first: dict[str, Any], second: dict[str, Any], project: Project
) -> None:
    if first:
        write_model(project, **first)
        project.dbt("run", "--full-refresh")
    write_model(project, **second)
    with pytest.raises(DbtError, match=r"options have changed.*full-refresh"):
        project.dbt("run")
    project.dbt("run", "--full-refresh")
    project.dbt("run")


@pytest.mark.slow
def test_a_version_keeps_its_history_id(project: Project, lake: Lake) -> None:
    """The id is made of the key as text, which depends on the session's settings."""
    lake.spark.sql(f"update {SCHEMA}.people_history set history_id = 'as it was'")
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Oslo"), run=1)])
    project.dbt("run")
    assert versions(lake) == [(1, "Ada", "Rome", 1, "update"), (1, "Ada", "Oslo", 2, None)]
    lake.append("changes", COLUMNS, [change(3, "delete", (1, None, None), run=2)])
    project.dbt("run")
    assert versions(lake) == [(1, "Ada", "Rome", 1, "update"), (1, "Ada", "Oslo", 2, "delete")]


def test_a_dropped_column_needs_a_full_refresh(project: Project, lake: Lake) -> None:
    """The table is left as it was, so that the old name can come back."""
    for fields, row in (
        ("id: int, name: string", (2, "Ben")),
        ("id: int, name: string, renamed: int", (2, "Ben", 1)),
    ):
        columns = COLUMNS | dict.fromkeys(("before", "after"), f"struct<{fields}>")
        lake.create("changes", columns, [change(2, "insert", row, run=1)])
        with pytest.raises(DbtError, match=r"no longer has the column `city`.*full-refresh"):
            project.dbt("run")
    lake.create("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"), run=1)])
    project.dbt("run")
    assert versions(lake)[1:] == [(2, "Ben", "Bonn", 1, None)]


def test_dbt_may_append_its_comment_to_a_statement(unbuilt: Project, lake: Lake) -> None:
    """As in projects that also run on Snowflake. Spark takes it for a part of a plain SET."""
    settings = unbuilt.folder / "dbt_project.yml"
    given = settings.read_text()
    settings.unlink()
    settings.write_text(given + "query-comment: {append: true}\n")
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome"))])
    named = "unique_key=['id'], columns=['id', 'name', 'city']"
    call = f"scd2({relation('changes')}, {named})"
    unbuilt.model("people_versions", f"{{{{ {call} }}}}", materialized="table")
    unbuilt.dbt("run", "--full-refresh")
    assert versions(lake) == [(1, "Ada", "Rome", 1, None)]
    assert len(lake.rows(f"select * from {SCHEMA}.people_versions")) == 1


@pytest.mark.minutes
def test_an_end_shows_the_last_values_of_columns_that_open_no_version(
    project: Project, lake: Lake
) -> None:
    write_model(project, ignore_columns=["city"], deletes="version")
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Oslo"))])
    project.dbt("run", "--full-refresh")
    lake.append("changes", COLUMNS, [change(3, "delete", (1, None, None), run=1)])
    # As dbt 1.11 advises on Databricks.
    write_model(project, meta={"ignore_columns": ["city"], "deletes": "version"})
    project.dbt("run")
    ends = [(1, "Ada", "Rome", 1, "delete"), (1, "Ada", "Oslo", 2, None)]
    assert versions(lake) == ends
    project.dbt("run", "--full-refresh")
    assert versions(lake) == ends


@pytest.mark.slow
def test_a_truncation_delivered_again_with_another_time_moves_the_ends_of_its_versions(
    project: Project, lake: Lake
) -> None:
    truncation = change(2, "truncate", (None, None, None)) | {"after": None}
    lake.append("changes", COLUMNS, [truncation])
    project.dbt("run", "--full-refresh")
    time = DAY + timedelta(seconds=90)
    lake.spark.sql(
        f"update {SCHEMA}.changes set changed_at = timestamp '{time}',"
        f" ingested_at = timestamp '{DAY + timedelta(hours=1)}' where operation = 'truncate'"
    )
    project.dbt("run")
    assert lake.rows(f"select valid_to from {SCHEMA}.people_history") == [{"valid_to": time}]


@pytest.mark.minutes
def test_names_that_look_like_secrets_do_not_hide_the_bookkeeping(
    unbuilt: Project, lake: Lake
) -> None:
    """Spark shows no table property that has `url` or `token` in it."""
    columns = contract_columns("id: int, hourly_rate: int, photo_url: string")
    write_model(unbuilt, ignore_columns=["hourly_rate"])
    lake.create(
        "changes", columns, [change(1, "insert", (1, 5, None)) | {"absent_columns": ["photo_url"]}]
    )
    unbuilt.dbt("run", "--full-refresh")
    lake.append("changes", columns, [change(2, "update", (1, 6, "x"), run=1)])
    unbuilt.dbt("run")
    before = snapshots(lake)
    unbuilt.dbt("run")
    assert snapshots(lake) == before
    found = lake.rows(f"select photo_url, version from {SCHEMA}.people_history order by version")
    assert [tuple(row.values()) for row in found] == [(None, 1), ("x", 2)]


@pytest.mark.parametrize("count", [3, 60])
def test_any_number_of_uncaptured_columns_is_filled(
    count: int, unbuilt: Project, lake: Lake
) -> None:
    """By the before-image, else by the previous version; many columns need other SQL."""
    names = [f"c{number}" for number in range(count)]
    columns = contract_columns(", ".join(["id: int", *(f"{name}: string" for name in names)]))
    shown, empty, first = (["shown"] * count, [None] * count, ["first"] * count)
    unknown = {"absent_columns": names[1:]}
    rows = [
        change(1, "insert", (1, *first)),
        change(2, "update", (1, "second", *empty[1:])) | unknown | {"before": (1, *empty)},
        change(3, "update", (1, "third", *empty[1:])) | unknown | {"before": (1, *shown)},
        change(4, "update", (1, *empty)),
    ]
    lake.create("changes", columns, rows)
    unbuilt.dbt("run", "--full-refresh")
    found = lake.rows(
        f"select c0, c1, {names[-1]} as last from {SCHEMA}.people_history order by version"
    )
    assert [tuple(row.values()) for row in found] == [
        ("first", "first", "first"),
        ("second", "first", "first"),
        ("third", "shown", "shown"),
        (None, None, None),
    ]


@pytest.mark.minutes
def test_a_change_delivered_again_after_another_of_its_place_moves_what_it_ended(
    project: Project, lake: Lake
) -> None:
    """An update gave row 1 the key 2; then an earlier insert of 2 arrives."""
    moved = change(5, "update", (2, "Ada", "Rome")) | {"before": (1, "Ada", "Rome")}
    lake.append("changes", COLUMNS, [moved | {"ingested_at": DAY + timedelta(hours=1)}])
    project.dbt("run")
    again = moved | {
        "change_seq": moved["change_seq"] + ".002",
        "ingested_at": DAY + timedelta(hours=2),
    }
    first = change(5, "insert", (2, "Bob", "Bonn"), run=2) | {"change_id": "c6"}
    lake.create("changes", COLUMNS, [change(1, "insert", (1, "Ada", "Rome")), again, first])
    project.dbt("run")
    query = f"select * from {SCHEMA}.people_history order by id, version"
    in_batches = lake.rows(query)
    assert in_batches[0]["valid_to_seq"] == again["change_seq"]
    project.dbt("run", "--full-refresh")
    assert lake.rows(query) == in_batches


def test_the_shared_place_has_no_tie_suffix(unbuilt: Project, lake: Lake) -> None:
    own, counted = f"{5:035d}", f"{5:035d}.c{2:019d}"
    shared = {
        own: own,
        f"{own}.002": own,
        f"{own}.999": own,
        f"{own}.999.000001000": own,
        counted: counted,
        f"{counted}.002": counted,
        f"{own}.r{7:019d}": f"{own}.r{7:019d}",
    }
    place = unbuilt.sql("afterimage._shared_place('place')")
    listed = ", ".join(f"'{name}'" for name in shared)
    rows = lake.rows(
        f"select place, {place} as shared from (select explode(array({listed})) as place)"
    )
    assert {row["place"]: row["shared"] for row in rows} == shared


def test_tables_have_the_profiles_dictionaries(project: Project, lake: Lake) -> None:
    """A misspelt setting would show only in the time of a build."""
    properties = lake.rows(f"show tblproperties {SCHEMA}.people_history")
    assert {"key": "write.parquet.dict-size-bytes", "value": "262144"} in properties


@pytest.mark.minutes
def test_a_run_with_empty_inputs_makes_empty_tables(unbuilt: Project, lake: Lake) -> None:
    """dbt's manual runs this before unit tests, when nothing is built yet."""
    lake.create(
        "people__ct",
        {"header__change_seq": "string", "header__change_oper": "string"} | {"id": "int"},
        [{"header__change_seq": f"{1:035d}", "header__change_oper": "I", "id": 1}],
    )
    unbuilt.file(
        "models/sources.yml",
        f"sources: [{{name: raw, schema: {SCHEMA}, tables: [{{name: people__ct}}]}}]",
    )
    models = {
        "stg_empty": "qlik_change_table(source('raw', 'people__ct'), unique_key=['id'])",
        "empty_current": "current_state(ref('empty_history'))",
        "empty_audit": "change_audit(ref('stg_empty'), unique_key=['id'])",
        "empty_accounting": "change_accounting(ref('stg_empty'), unique_key=['id'],"
        " landed=source('raw', 'people__ct'))",
    }
    for name, call in models.items():
        unbuilt.model(name, f"{{{{ {call} }}}}")
    unbuilt.history("empty_history", "stg_empty")
    selected = ("--select", *models, "empty_history")
    unbuilt.dbt("run", "--empty", *selected)
    for name in ("stg_empty", "empty_history", "empty_current", "empty_audit"):
        assert lake.rows(f"select * from {SCHEMA}.{name}") == []
    unbuilt.dbt("run", *selected)
    assert len(lake.rows(f"select * from {SCHEMA}.empty_current")) == 1


def test_a_wrong_config_is_refused(project: Project) -> None:
    """A misspelt column is reported before changed options."""
    project.file(
        "models/people_history.yml",
        "models: [{name: people_history, columns: [{name: id, data_type: int}]}]",
    )
    misspelt = r"names a column that does not exist. Allowed: \['id', 'name', 'city'\]. Got: ctiy"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"track_columns": ["ctiy"]}, f"`track_columns` {misspelt}"),
        ({"ignore_columns": ["ctiy"]}, f"`ignore_columns` {misspelt}"),
        ({"overwrite_columns": ["ctiy"]}, f"`overwrite_columns` {misspelt}"),
        ({"unique_key": None}, r"config\(materialized='history', unique_key=\['id'\]\)"),
        ({"file_format": "hudi"}, r"`file_format` must be one of \['iceberg', 'delta'\].*Got: hud"),
        ({"valid_to_current": "never"}, "`valid_to_current` must be a date or time.*Got: never"),
    ]
    for config, message in wrong:
        write_model(project, **config)
        with pytest.raises(DbtError, match=message) as error:
            project.dbt("run")
        assert "full-refresh" not in str(error.value) or config == {"unique_key": None}


def test_data_columns_may_have_the_names_of_the_tests_columns(unbuilt: Project, lake: Lake) -> None:
    names = ["next_valid_from", "next_valid_from_seq", "expected_version", "previous_closed_by"]
    columns = contract_columns(", ".join(["id: int", *(f"{name}: int" for name in names)]))
    lake.create("changes", columns, [change(1, "insert", (1, *[1] * len(names)))])
    unbuilt.file(
        "models/people_history.yml",
        "models: [{name: people_history, data_tests: ["
        "{versions_chain: {arguments: {unique_key: [id]}}},"
        " {history_has_no_overlaps: {arguments: {unique_key: [id]}}}]}]",
    )
    unbuilt.dbt("build", "--full-refresh")


@pytest.mark.slow
def test_before_images_are_compared_in_the_given_columns(unbuilt: Project, lake: Lake) -> None:
    """dbt then passes a query with a name; maps are compared by content."""
    columns = contract_columns("id: int, marks: map<string, int>")
    marks = {"a": 1, "b": 2}
    update = change(2, "update", (1, {})) | {"before": (1, dict(reversed(marks.items())))}
    lake.create("marked", columns, [change(1, "insert", (1, marks)), update])
    unbuilt.file("models/marked_changes.sql", f"select * from {SCHEMA}.marked")
    unbuilt.file(
        "models/marked_changes.yml",
        "models: [{name: marked_changes, data_tests: [{before_images_agree: {arguments:"
        " {unique_key: [id]}, config: {where: reject_reason is null}}}]}]",
    )
    unbuilt.dbt("build", "--select", "marked_changes")
    lost = change(3, "update", (1, {})) | {"before": (1, {"a": 1})}
    lake.append("marked", columns, [lost])
    with pytest.raises(DbtError, match="before_images_agree"):
        unbuilt.dbt("build", "--select", "marked_changes")


def test_a_column_that_all_before_images_lack_is_named_in_a_hint(
    unbuilt: Project, lake: Lake
) -> None:
    """No before-image has `city`; one has a wrong `name`, which the hint does not count."""
    rows = [
        change(1, "insert", (1, "Ada", "Rome")),
        change(2, "update", (1, "Ann", "Rome")) | {"before": (1, "Ada", None)},
        change(3, "update", (1, "Eve", "Rome")) | {"before": (1, "Zoe", None)},
    ]
    lake.create("lacking", COLUMNS, rows)
    query = unbuilt.sql(f"test_before_images_agree({relation('lacking')}, unique_key=['id'])")
    lack = "no before-image has a value for city: name the columns to compare in `columns`"
    assert [
        (row["change_seq"][-1], row["disagreements"], row["hint"])
        for row in lake.rows(f"select * from ({query}) as failures order by change_seq")
    ] == [("2", ["city"], lack), ("3", ["name", "city"], lack)]
    query = unbuilt.sql(
        f"test_before_images_agree({relation('lacking')}, unique_key=['id'], columns=['name'])"
    )
    assert [(row["disagreements"], row["hint"]) for row in lake.rows(query)] == [(["name"], None)]


@pytest.mark.minutes
def test_a_history_that_was_rolled_back_needs_a_full_refresh(project: Project, lake: Lake) -> None:
    [built] = lake.rows(f"select snapshot_id from {SCHEMA}.people_history.refs")
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Oslo"), run=1)])
    project.dbt("run")
    lake.spark.sql(
        f"call system.rollback_to_snapshot('{SCHEMA}.people_history', {built['snapshot_id']})"
    )
    with pytest.raises(DbtError, match=r"was rolled back, so .* --full-refresh"):
        project.dbt("run")
    project.dbt("run", "--full-refresh")
    project.dbt("run")
    assert [row[2] for row in versions(lake)] == ["Rome", "Oslo"]


def test_a_raw_table_is_not_a_change_stream(project: Project, lake: Lake) -> None:
    lake.create("changes", {"header__change_seq": "string", "id": "int", "after": "int"}, [])
    for arguments in (["run"], ["run", "--full-refresh"]):
        with pytest.raises(DbtError, match=r"not a change stream: missing \['change_id'.*'after'"):
            project.dbt(*arguments)


@pytest.mark.slow
def test_some_keys_can_be_rebuilt_without_the_rest(project: Project, lake: Lake) -> None:
    lake.append("changes", COLUMNS, [change(2, "insert", (2, "Ben", "Bonn"), run=1)])
    project.dbt("run")
    lake.spark.sql(f"update {SCHEMA}.people_history set name = 'spoilt'")
    project.dbt("run", "--vars", "{afterimage_rebuild: 'after.id = 1'}")
    assert [row[1] for row in versions(lake)] == ["Ada", "spoilt"]


@pytest.mark.slow
def test_a_rebuild_of_some_keys_loses_nothing_that_a_pruned_stream_lacks(
    unbuilt: Project, lake: Lake
) -> None:
    """The history goes on over a staging table that was built again, but rebuilds no key."""
    cities = [(1, "Rome"), (2, "Oslo"), (9, "Bonn")]
    changes = [change(number, "update", (1, "Ada", city)) for number, city in cities]
    lake.create("changes", COLUMNS, changes)
    unbuilt.dbt("run", "--full-refresh")
    known: list[tuple[object, ...]] = [
        (1, "Ada", "Rome", 1, "update"),
        (1, "Ada", "Oslo", 2, "update"),
        (1, "Ada", "Bonn", 3, None),
    ]
    again = {"ingested_at": DAY + timedelta(hours=1)}
    lake.create("changes", COLUMNS, [changes[-1] | again])
    unbuilt.dbt("run")
    assert versions(lake) == known
    with pytest.raises(
        DbtError, match=r"2 rows of \S+ would be lost, .* --full-refresh --select p"
    ):
        unbuilt.dbt("run", "--vars", "{afterimage_rebuild: 'after.id = 1'}")
    assert versions(lake) == known


@pytest.mark.slow
def test_a_stored_change_whose_key_was_wrong_is_rejected_and_written_again(
    unbuilt: Project, lake: Lake
) -> None:
    """So the contract says: the row at the wrong key goes, from the history and the audit."""
    unbuilt.model(
        "people_audit", f"select * from {SCHEMA}.changes", materialized="audit", unique_key=["id"]
    )
    wrong = change(5, "insert", (7, "Ada", "Rome"))
    lake.create("changes", COLUMNS, [wrong])
    unbuilt.dbt("run", "--full-refresh")
    rejected = wrong | {"reject_reason": "of id 8", "ingested_at": DAY + timedelta(hours=1)}
    right = change(5, "insert", (8, "Ada", "Rome"), run=1) | {"change_id": "c5-again"}
    lake.create("changes", COLUMNS, [rejected, right])
    unbuilt.dbt("run")
    assert versions(lake) == [(8, "Ada", "Rome", 1, None)]
    audited = lake.rows(f"select id, change_id from {SCHEMA}.people_audit group by all")
    assert audited == [{"id": 8, "change_id": "c5-again"}]


@pytest.mark.minutes
@pytest.mark.needs("iceberg")
def test_a_history_of_inserts_is_compacted_too(project: Project, lake: Lake) -> None:
    """It has no delete files. And Iceberg forgets the files of metadata that nobody needs."""
    write_model(project, compact_after=3)
    for number in range(2, 7):
        row = change(number, "insert", (number, "Ada", "Rome"), run=number)
        lake.append("changes", COLUMNS, [row])
        project.dbt("run")
    operations = lake.rows(f"select operation from {SCHEMA}.people_history.snapshots")
    assert {"operation": "replace"} in operations
    [files] = lake.rows(f"select count(*) as n from {SCHEMA}.people_history.files")
    assert files["n"] <= 3
    assert [row[3] for row in versions(lake)] == [1] * 6
    [kept] = lake.rows(
        f"show tblproperties {SCHEMA}.people_history ('write.metadata.delete-after-commit.enabled')"
    )
    assert kept["value"] == "true"


def grow(lake: Lake, run: int, condition: str) -> None:
    """Add a change of each of the ids that meet a condition."""
    operation = "insert" if run == 0 else "update"
    row = f"named_struct('id', cast(id as int), 'name', sha2(string(id), 512), 'city', '{run}')"
    columns = {
        "change_id": f"concat('{run}-', id)",
        "change_seq": f"lpad({run}, 35, '0')",
        "operation": f"'{operation}'",
        "after": row,
        "changed_at": f"timestamp '2024-01-01' + make_interval(0, 0, 0, {run})",
        "ingested_at": f"timestamp '2024-01-01' + make_interval(0, 0, 0, {run})",
    }
    values = [
        f"cast({columns.get(name, 'null')} as {kind}) as {name}" for name, kind in COLUMNS.items()
    ]
    lake.spark.sql(
        f"insert into {SCHEMA}.changes select {', '.join(values)} from range(65000)"
        f" where {condition}"
    )


@pytest.mark.minutes
@pytest.mark.needs("iceberg")
def test_a_history_of_many_files_is_compacted_only_for_many_deletes(
    unbuilt: Project, lake: Lake
) -> None:
    """Each run deletes rows of more than fifty files, in a delete file for each of them."""

    def totals() -> dict[str, int]:
        [newest] = lake.rows(
            f"select summary from {table}.snapshots order by committed_at desc limit 1"
        )
        return {name: int(n) for name, n in newest["summary"].items() if name.startswith("total")}

    def compactions() -> int:
        [found] = lake.rows(
            f"select count_if(operation = 'replace') as n from {table}.snapshots"
            f" where committed_at > '{built}'"
        )
        return int(found["n"])

    table = f"{SCHEMA}.people_history"
    lake.create("changes", COLUMNS, [])
    grow(lake, 0, "true")
    # Iceberg looks at the size of a file after each thousand rows.
    write_model(unbuilt, tblproperties={"write.target-file-size-bytes": "1"})
    unbuilt.dbt("run", "--full-refresh")
    [files] = lake.rows(
        f"select count(*) as n, int(median(file_size_in_bytes)) as size from {table}.files"
    )
    assert files["n"] > 60
    lake.spark.sql(
        f"alter table {table} set tblproperties ('write.target-file-size-bytes' = {files['size']})"
    )
    built = lake.rows(f"select max(committed_at) as at from {table}.snapshots")[0]["at"]

    for run in (1, 2):
        grow(lake, run, f"id % 200 = {run}")
        unbuilt.dbt("run")
        assert totals()["total-delete-files"] > 50
        assert compactions() == 0

    grow(lake, 3, "id % 5 < 3")
    unbuilt.dbt("run")
    compacted = compactions()
    assert compacted > 0
    assert totals()["total-position-deletes"] < 0.05 * totals()["total-records"]
    grow(lake, 4, "id % 200 in (4, 5)")
    unbuilt.dbt("run")
    assert totals()["total-delete-files"] > 50
    assert compactions() == compacted

    # Compacted for the number of its runs, it keeps large files of which few rows are deleted.
    write_model(unbuilt, compact_after=1)
    grow(lake, 5, "id % 200 in (4, 5)")
    unbuilt.dbt("run")
    assert compactions() > compacted
    assert 0 < totals()["total-position-deletes"] <= 650
    found = lake.rows(
        "select city, count(*) as n, count(distinct id) as ids, count_if(is_current) as open"
        f" from {table} group by city order by city"
    )
    assert [(row["city"], row["n"], row["ids"], row["open"]) for row in found] == [
        ("0", 65000, 65000, 65000 - 39000 - 325),
        ("1", 325, 325, 0),
        ("2", 325, 325, 0),
        ("3", 39000, 39000, 39000 - 325),
        ("4", 650, 650, 0),
        ("5", 650, 650, 650),
    ]


@pytest.mark.long
def test_fifty_small_batches_leave_few_files_and_do_not_slow_down(
    project: Project, lake: Lake
) -> None:
    write_model(project, compact_after=10)
    runs, reads = [], []
    for number in range(2, 52):
        city = f"town {number}"
        lake.append("changes", COLUMNS, [change(number, "update", (1, "Ada", city), run=number)])
        started = time.monotonic()
        project.dbt("run")
        runs.append(time.monotonic() - started)
        started = time.monotonic()
        assert versions(lake)[-1][2:4] == (city, number)
        reads.append(time.monotonic() - started)
    assert [row[3] for row in versions(lake)] == list(range(1, 52))
    newest = lake.rows(
        f"select summary from {SCHEMA}.people_history.snapshots order by committed_at desc limit 1"
    )[0]["summary"]
    assert int(newest["total-delete-files"]) <= 12
    assert int(newest["total-data-files"]) <= 40
    # The first runs of a process are slow; a creeping time would show between the later ones.
    assert statistics.median(runs[40:]) < 1.5 * statistics.median(runs[5:15])
    assert statistics.median(reads[40:]) < 1.5 * statistics.median(reads[5:15])


def test_files_of_a_wide_history_have_metrics_of_our_columns(unbuilt: Project, lake: Lake) -> None:
    names = [f"c{number}" for number in range(120)]
    columns = contract_columns(", ".join(["id: int", *(f"{name}: int" for name in names)]))
    rows = [change(n, "update", (1, *[n] * len(names))) for n in (1, 2)]
    lake.create("changes", columns, rows)
    unbuilt.dbt("run", "--full-refresh")

    metrics = "readable_metrics.{0}.lower_bound as {0}_low, readable_metrics.{0}.upper_bound as {0}"
    asked = ", ".join(metrics.format(name) for name in ("is_current", "valid_to_seq"))
    files = lake.rows(f"select {asked} from {SCHEMA}.people_history.files order by 1")
    assert [(file["is_current_low"], file["is_current"]) for file in files] == [
        (False, False),
        (True, True),
    ]
    assert [file["valid_to_seq"] for file in files] == [f"{2:035d}", None]


@pytest.mark.slow
def test_an_earlier_run_can_be_read_and_restored(project: Project, lake: Lake) -> None:
    # The newest, for a full refresh keeps the snapshots of the table that it replaces.
    first = lake.rows(
        f"select snapshot_id from {SCHEMA}.people_history.snapshots order by committed_at desc"
    )[0]["snapshot_id"]
    lake.append("changes", COLUMNS, [change(2, "update", (1, "Ada", "Oslo"), run=1)])
    project.dbt("run")
    assert len(versions(lake)) == 2
    earlier = lake.rows(f"select * from {SCHEMA}.people_history version as of {first}")
    assert [(row["city"], row["is_current"]) for row in earlier] == [("Rome", True)]
    lake.rows(f"call system.rollback_to_snapshot('{SCHEMA}.people_history', {first})")
    assert versions(lake) == [(1, "Ada", "Rome", 1, None)]
    project.dbt("run", "--full-refresh")
    assert len(versions(lake)) == 2


def run_in_background(project: Project) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("dbt")), "run"],
        cwd=project.folder,
        env={**os.environ, "DBT_PROFILES_DIR": str(project.folder / "profiles")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.minutes
def test_two_runs_at_once_leave_the_table_right(project: Project, lake: Lake) -> None:
    rows = [change(n, "insert", (n, "Ada", "Rome"), run=1) for n in range(2, 200)]
    lake.append("changes", COLUMNS, rows)
    processes = [run_in_background(project) for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert 0 in [process.returncode for process in processes], outputs
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0 or "another run has changed" in output, output
    project.dbt("run")
    assert [row[0] for row in versions(lake)] == list(range(1, 200))
