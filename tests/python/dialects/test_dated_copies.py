"""Dated full copies in, changes and history out, whichever copy lands when.

The expected changes come from a walk over the copies in plain Python, and the expected history from
`reference.py`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.functions import col

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from histories import EXAMPLES, fewer_checks, in_order
from reference import META_COLUMNS, Change, Row, as_of, history

# Of each copy the values of its keys: several for a key that is there several times.
Copy = dict[int, list[str | None]]
Copies = dict[datetime, Copy]

START = datetime(2024, 2, 26)
COLUMNS = {"copied_on": "date", "id": "int", "value": "string"}
NAMES = ["id", "value", *META_COLUMNS]


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    project = make_project("dated_copies")
    write_models(project, "parts", "'copied_on'")
    return project


def write_models(project: Project, name: str, copy_column: str) -> None:
    project.stream(
        f"stg_{name}",
        f"dated_copies({relation(f'{name}_copies')}, unique_key=['id'], copy_column={copy_column})",
    )
    project.history(f"{name}_history", f"stg_{name}")


def rows_of(date: datetime, copy: Copy) -> list[Row]:
    return [
        {"copied_on": date.date(), "id": key, "value": value}
        for key, values in copy.items()
        for value in values
    ]


def changes_of(copies: Copies) -> list[Change]:
    """Compare each copy with the one before it."""
    changes: list[Change] = []
    dates = sorted(copies)

    def add(date: datetime, operation: Any, **images: Any) -> None:
        place = "" if operation == "load" else f"{date:%Y-%m-%d %H:%M:%S.%f}"
        images = {name: {"id": key, "value": value} for name, (key, value) in images.items()}
        changes.append(Change(f"c{len(changes)}", place, operation, changed_at=date, **images))

    for key, values in copies[dates[0]].items() if dates else []:
        if len(set(values)) == 1:
            add(dates[0], "load", after=(key, values[0]))
    for first, second in pairwise(dates):
        before, after = copies[first], copies[second]
        for key in before.keys() - after.keys():
            add(second, "delete", before=(key, before[key][0]))
        for key, values in after.items():
            if len(set(values)) > 1:
                continue  # nobody knows which is right
            if key not in before:
                add(second, "insert", after=(key, values[0]))
            elif set(before[key]) != set(values):
                add(second, "update", after=(key, values[0]))
    return changes


def expected(copies: Copies) -> list[Row]:
    return history(changes_of(copies), ["id"], ["id", "value"])


def found(lake: Lake, name: str) -> list[Row]:
    rows = in_order(lake.rows(f"select * from {SCHEMA}.{name}_history"), ["id"])
    return [{name: row[name] for name in NAMES} for row in rows]


def land(lake: Lake, table: str, copies: Copies, columns: dict[str, str] = COLUMNS) -> None:
    """Land copies; one that is there already is replaced."""
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    dates = ", ".join(f"date'{date:%Y-%m-%d}'" for date in copies)
    lake.spark.sql(f"delete from {SCHEMA}.{table} where copied_on in ({dates})")
    lake.append(table, columns, rows)


def deliveries(drawn: random.Random) -> list[Copies]:
    """Draw batches of copies in any order; some are landed again with other rows."""

    def copy() -> Copy:
        kinds: list[list[str | None]] = [[], ["a"], ["a"], ["b"], [None], ["a", "a"], ["a", "b"]]
        rows = {key: drawn.choice(kinds) for key in range(20)}
        return {key: values for key, values in rows.items() if values}

    dates = [START + timedelta(days=number) for number in range(6)]
    drawn.shuffle(dates)
    batches: list[Copies] = [{dates[0]: copy(), dates[1]: copy()}]
    for date in dates[2:]:
        batches.append({date: copy()})
        if drawn.random() < 0.4:
            batches[-1][drawn.choice(dates)] = copy()
    return batches


@pytest.mark.minutes
@given(seed=st.integers(0, 2**32))
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_copies_in_any_order_give_the_history_of_all_of_them(
    seed: int, project: Project, lake: Lake
) -> None:
    batches = deliveries(random.Random(seed))
    lake.create("parts_copies", COLUMNS, [])
    landed: Copies = {}
    for number, batch in enumerate(batches):
        land(lake, "parts_copies", batch)
        landed.update(batch)
        project.dbt(
            "run", *(["--full-refresh"] if number == 0 else []), "--select", "+parts_history"
        )
        assert found(lake, "parts") == expected(landed), landed
        [counted] = lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_parts")
        assert counted["n"] == sum(len(rows_of(date, copy)) for date, copy in landed.items())
    versions = expected(landed)
    for date, copy in landed.items():
        seen = {row["id"]: row["value"] for row in as_of(versions, date)}
        assert seen.keys() == copy.keys() - {k for k in copy if k not in seen and len(copy[k]) > 1}
        assert all(len(set(copy[key])) > 1 or copy[key][0] == seen[key] for key in seen)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


@pytest.mark.minutes
def test_a_table_that_each_copy_replaces_is_compared_with_what_is_known(
    project: Project, lake: Lake
) -> None:
    copies: Copies = {
        day(0): {1: ["a"], 2: ["a"], 3: [None]},
        day(1): {1: ["a"], 2: ["b"], 4: ["a"]},
        day(2): {1: ["b"], 4: ["a"], 3: ["c"]},
        day(3): {1: ["b"], 4: ["a"], 3: ["c"]},
        day(4): {4: ["c"], 3: ["c"]},
    }
    for number, (date, copy) in enumerate(copies.items()):
        lake.create("parts_copies", COLUMNS, rows_of(date, copy))
        project.dbt(
            "run", *(["--full-refresh"] if number == 0 else []), "--select", "+parts_history"
        )
    assert found(lake, "parts") == expected(copies)


TWICE: Copies = {
    day(0): {1: ["a"], 3: ["a"]},
    day(2): {1: ["b", "c"], 2: ["b", "c"], 3: ["a"]},
    day(1): {1: ["d"], 2: ["d"], 3: ["a"]},
    day(3): {1: ["a"], 2: ["d"], 3: ["a"]},
}
# The second copy is as the first one, until one lands between them.
UNCHANGED: Copies = {day(0): {1: ["a"]}, day(2): {1: ["a"]}, day(1): {1: ["d"]}}


@pytest.mark.minutes
@pytest.mark.parametrize("copies", [TWICE, UNCHANGED], ids=["twice", "unchanged"])
def test_a_copy_that_is_gone_still_counts_when_one_lands_late_before_it(
    copies: Copies, project: Project, lake: Lake
) -> None:
    landed: Copies = {}
    # The late one comes twice: it replaces the table, so the copy behind it was not taken out.
    twice = [*copies.items()]
    twice.insert(3, twice[2])
    for number, (date, copy) in enumerate(twice):
        lake.create("parts_copies", COLUMNS, rows_of(date, copy))
        landed[date] = copy
        project.dbt(
            "run", *(["--full-refresh"] if number == 0 else []), "--select", "+parts_history"
        )
        assert found(lake, "parts") == expected(landed), number
        [counted] = lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_parts")
        assert counted["n"] == sum(len(rows_of(date, copy)) for date, copy in landed.items())


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, []], ids=["as a whole", "with its intervals"])
def test_a_copy_that_lands_late_takes_back_what_an_erased_key_showed(
    kept: list[str] | None, project: Project, lake: Lake
) -> None:
    """Its change in the copy behind is none any longer, and its rows count there once."""
    write_models(project, "erased", "'copied_on'")
    model = ("run", "--select", "stg_erased")
    copies: Copies = {day(0): {1: ["a"], 2: ["a"]}, day(2): {1: ["a"], 2: ["b"]}}
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    lake.create("erased_copies", COLUMNS, rows)
    lake.spark.sql(f"drop table if exists {SCHEMA}.afterimage_erasures")
    project.dbt(*model, "--full-refresh")
    asked = {"staging": "stg_erased", "keys": [{"id": 2}], "keep_intervals": kept}
    project.dbt("run-operation", "erase", "--args", json.dumps(asked))
    lake.append("erased_copies", COLUMNS, rows_of(day(1), {1: ["a"], 2: ["b"]}))
    judged = (
        "select date(changed_at) as day, operation, reject_reason, source_rows"
        f" from {SCHEMA}.stg_erased where startswith(change_id, 'erased-')"
        " and coalesce(reject_reason, '') not like 'superseded:%' order by 1"
    )
    for refresh in ([], ["--full-refresh"]):
        project.dbt(*model, *refresh)
        reason = "erased" if kept is None else None
        assert [tuple(one.values()) for one in lake.rows(judged)] == [
            (day(0).date(), "load", reason, 1),
            (day(1).date(), "update", reason, 1),
        ], refresh
        [counted] = lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_erased")
        assert counted["n"] == 6
    lake.spark.sql(f"drop table {SCHEMA}.afterimage_erasures")
    (project.folder / "models/stg_erased.sql").unlink()
    (project.folder / "models/erased_history.sql").unlink()


@pytest.mark.minutes
def test_a_copy_that_is_overwritten_with_fewer_rows(project: Project, lake: Lake) -> None:
    """No row has landed then: those that the partition has again are no news to Iceberg."""
    copies: Copies = {
        day(0): {1: ["a"], 2: ["a"], 3: ["a"]},
        day(1): {1: ["a"], 2: ["b"], 3: ["a"]},
        day(2): {1: ["a"], 2: ["b"], 3: ["a"]},
    }
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    lake.frame(COLUMNS, rows).writeTo(f"{SCHEMA}.parts_copies").using(FORMAT).partitionedBy(
        col("copied_on")
    ).createOrReplace()
    project.dbt("run", "--full-refresh", "--select", "+parts_history")
    copies[day(1)] = {1: ["a"], 2: ["b"]}
    lake.frame(COLUMNS, rows_of(day(1), copies[day(1)])).writeTo(
        f"{SCHEMA}.parts_copies"
    ).overwrite(col("copied_on") == day(1).date())
    project.dbt("run", "--select", "+parts_history")
    assert found(lake, "parts") == expected(copies)
    # Copies that nobody keeps any longer are no news.
    lake.spark.sql(f"delete from {SCHEMA}.parts_copies where copied_on < date'{day(2):%Y-%m-%d}'")
    project.dbt("run", "--select", "+parts_history")
    assert found(lake, "parts") == expected(copies)


@pytest.mark.minutes
@pytest.mark.parametrize(
    "wrong",
    [
        # Delta without a change data feed does not say that rows were deleted.
        pytest.param(day(2), id="broken", marks=pytest.mark.needs("iceberg")),
        pytest.param(day(66_000), id="with a wrong date"),
    ],
)
def test_a_last_copy_that_is_taken_out_was_none(
    wrong: datetime, project: Project, lake: Lake
) -> None:
    """It was not pruned, since only older ones are there."""
    run = ("run", "--select", "+parts_history")
    copies: Copies = {day(0): {1: ["a"], 2: ["a"]}, day(1): {1: ["a"], 2: ["b"], 3: ["a"]}}
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    lake.create("parts_copies", COLUMNS, rows)
    project.dbt(*run, "--full-refresh")
    land(lake, "parts_copies", {wrong: {1: ["z"], 2: ["y", "z"], 9: ["z"]}})
    project.dbt(*run)
    lake.spark.sql(f"delete from {SCHEMA}.parts_copies where copied_on = date'{wrong:%Y-%m-%d}'")
    if wrong == day(2):
        with pytest.raises(DbtError, match="no longer has the copies of 20"):
            project.dbt(*run, "--vars", "{afterimage_on_gap: error}")
        project.dbt(*run)
        assert found(lake, "parts") == expected(copies)
    for number in (3, 4):
        copies[day(number)] = {1: ["a"], 2: [f"c{number}"], number: ["a"]}
        land(lake, "parts_copies", {day(number): copies[day(number)]})
        project.dbt(*run)
        assert found(lake, "parts") == expected(copies), number
        [counted] = lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_parts")
        assert counted["n"] == sum(len(rows_of(date, copy)) for date, copy in copies.items())
    # It may land again, as another one.
    copies[wrong] = {1: ["a"], 2: ["x"]}
    land(lake, "parts_copies", {wrong: copies[wrong]})
    project.dbt(*run)
    assert found(lake, "parts") == expected(copies)


@pytest.mark.minutes
def test_copies_between_others_may_be_pruned(project: Project, lake: Lake) -> None:
    """As all but the ends of months: what they showed stays."""
    run = ("run", "--select", "+parts_history")
    copies: Copies = {day(number): {1: [f"v{number}"], number: ["a"]} for number in range(2, 6)}
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    lake.create("parts_copies", COLUMNS, rows)
    project.dbt(*run, "--full-refresh")
    lake.spark.sql(
        f"delete from {SCHEMA}.parts_copies where copied_on > date'{day(2):%Y-%m-%d}'"
        f" and copied_on < date'{day(5):%Y-%m-%d}'"
    )
    # One query asks what all of them held.
    [compiled] = project.dbt("compile", "--select", "stg_parts").results
    assert compiled.node.compiled_code.count("as last_change") == 1
    for late in (day(6), day(1), day(3)):
        project.dbt(*run)
        assert found(lake, "parts") == expected(copies)
        copies[late] = {1: ["new"], 2: ["new"]}
        land(lake, "parts_copies", {late: copies[late]})
    project.dbt(*run)
    assert found(lake, "parts") == expected(copies)


@pytest.mark.minutes
def test_a_pruned_copy_takes_no_value_of_a_new_column_back(project: Project, lake: Lake) -> None:
    """Nobody knows what it had there, so what a kept copy before it shows stays."""

    def write(columns: list[str]) -> None:
        call = f"dated_copies({relation('colored_copies')}, ['id'], 'copied_on', columns={columns})"
        project.stream("stg_colored", call, on_schema_change="append_new_columns")

    def changes() -> list[tuple[Any, ...]]:
        return [
            (row["id"], row["day"], row["value"], row["color"], row["tells_before"])
            for row in lake.rows(
                "select after.id, date(changed_at) as day, after.value, after.color,"
                " `before` is not null as tells_before"
                f" from {SCHEMA}.stg_colored where reject_reason is null order by id, day"
            )
        ]

    def versions() -> list[tuple[Any, ...]]:
        rows = in_order(lake.rows(f"select * from {SCHEMA}.colored_history"), ["id"])
        return [(row["id"], row["valid_from"], row["value"], row["color"]) for row in rows]

    run = ("run", "--select", "stg_colored", "colored_history")
    project.history("colored_history", "stg_colored")
    rows = []
    for number in range(9):
        later = number >= 4
        rows += [
            {"copied_on": day(number).date(), "id": key, "value": value, "color": color}
            for key, value, color in [
                (1, "a", "red"),
                (2, "b" if later else "a", "red"),
                (3, "a", "blue" if later else "red"),
            ]
        ]
    lake.create("colored_copies", {**COLUMNS, "color": "string"}, rows)
    write(["id", "value"])
    project.dbt(*run, "--full-refresh")
    kept = ", ".join(f"date'{day(number):%Y-%m-%d}'" for number in (2, 5, 7, 8))
    lake.spark.sql(f"delete from {SCHEMA}.colored_copies where copied_on not in ({kept})")
    write(["id", "value", "color"])
    project.dbt(*run)
    # What the copies of the days 1, 4 and 6 held is known but for the color.
    dates = [day(number).date() for number in range(9)]
    assert changes() == [
        (1, dates[0], "a", None, False),
        (1, dates[2], "a", "red", False),
        (1, dates[5], "a", "red", False),
        (1, dates[7], "a", "red", False),
        (2, dates[0], "a", None, False),
        (2, dates[2], "a", "red", False),
        (2, dates[4], "b", None, True),
        (2, dates[5], "b", "red", False),
        (2, dates[7], "b", "red", False),
        (3, dates[0], "a", None, False),
        (3, dates[2], "a", "red", False),
        (3, dates[5], "a", "blue", False),
        (3, dates[7], "a", "blue", False),
    ]
    history_of_kept = [
        (1, day(0), "a", None),
        (1, day(2), "a", "red"),
        (2, day(0), "a", None),
        (2, day(2), "a", "red"),
        (2, day(4), "b", None),
        (2, day(5), "b", "red"),
        (3, day(0), "a", None),
        (3, day(2), "a", "red"),
        (3, day(5), "a", "blue"),
    ]
    assert versions() == history_of_kept
    # Nor does a run take one back that reads everything once more.
    lake.spark.sql(f"alter table {SCHEMA}.stg_colored set tblproperties ('afterimage.read' = '')")
    project.dbt(*run)
    assert versions() == history_of_kept
    [counted] = lake.rows(f"select sum(source_rows) as n from {SCHEMA}.stg_colored")
    assert counted["n"] == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1], ids=["all copies", "the last copy"])
def test_a_row_that_is_taken_out_of_a_copy_is_not_in_the_next_one(
    first: int, project: Project, lake: Lake
) -> None:
    """Neither Delta nor delete files say so when it goes."""
    copies: Copies = {day(number): {1: ["a"], 2: ["a"], 3: ["a"]} for number in range(2)}
    lake.create("parts_copies", COLUMNS, rows_of(day(0), copies[day(0)]))
    if FORMAT == "iceberg":
        lake.spark.sql(
            f"alter table {SCHEMA}.parts_copies set tblproperties"
            " ('write.delete.mode' = 'merge-on-read')"
        )
    lake.append("parts_copies", COLUMNS, rows_of(day(1), copies[day(1)]))
    project.dbt("run", "--full-refresh", "--select", "+parts_history")
    lake.spark.sql(
        f"delete from {SCHEMA}.parts_copies"
        f" where copied_on >= date'{day(first):%Y-%m-%d}' and id = 2"
    )
    copies |= {day(number): {1: ["a"], 3: ["a"]} for number in range(first, 3)}
    lake.append("parts_copies", COLUMNS, rows_of(day(2), copies[day(2)]))
    project.dbt("run", "--select", "+parts_history")
    assert found(lake, "parts") == expected(copies)


BROKEN: Copies = {day(0): {1: ["a"], 2: ["a"], 3: ["a"]}, day(1): {2: ["a"]}}


@pytest.mark.minutes
def test_a_run_stops_at_a_broken_copy_if_the_project_says_so(project: Project, lake: Lake) -> None:
    whole: Copies = {day(1): {1: ["b"], 2: ["a"], 3: ["a"]}}
    lake.create("parts_copies", COLUMNS, rows_of(day(0), BROKEN[day(0)]))
    project.dbt("run", "--full-refresh", "--select", "+parts_history")
    land(lake, "parts_copies", {day(1): BROKEN[day(1)]})
    strict = ("--vars", "{afterimage_on_gap: error}")
    with pytest.raises(DbtError, match=r"has 1 rows, and the one before it 3\."):
        project.dbt("run", "--select", "+parts_history", *strict)
    land(lake, "parts_copies", whole)
    project.dbt("run", "--select", "+parts_history", *strict)
    assert found(lake, "parts") == expected(BROKEN | whole)


@pytest.mark.slow
def test_a_model_has_copies_of_one_table(project: Project, lake: Lake) -> None:
    """Else what each of two tables had on a day would count as gone from the other."""
    for name in ("east", "west"):
        lake.create(f"{name}_copies", COLUMNS, rows_of(day(0), {1: ["a"]}))
    copies = [
        f"select * from ({{{{ dated_copies({relation(f'{n}_copies')}, ['id'], 'copied_on') }}}})"
        for n in ("east", "west")
    ]
    project.model("stg_both", " union all ".join(copies), materialized="change_stream")
    with pytest.raises(DbtError, match=r"only one in a model\. Land all copies in one"):
        project.dbt("run", "--select", "stg_both")


@pytest.mark.slow
def test_a_sample_has_whole_copies_or_stops_the_run(project: Project, lake: Lake) -> None:
    """A part of a copy looks as if the other rows of it had been deleted."""
    columns = {"copied_on": "date", "id": "int", "seen_at": "timestamp"}
    today = datetime.now(timezone.utc).replace(tzinfo=None)
    for name, event_time in (("sampled", "copied_on"), ("cut", "seen_at")):
        rows = [
            {"copied_on": at.date(), "id": key, "seen_at": today if key == 2 else START}
            for at in (START, START + timedelta(days=1), today)
            for key in (1, 2)
        ]
        lake.create(f"{name}_copies", columns, rows)
        project.file(
            f"models/{name}.yml",
            f"sources: [{{name: {name}, schema: {SCHEMA}, tables: [{{name: {name}_copies,"
            f" config: {{event_time: {event_time}}}}}]}}]",
        )
        project.stream(
            f"stg_{name}",
            f"dated_copies(source('{name}', '{name}_copies'), ['id'], 'COPIED_ON')",
        )
    project.dbt("run", "--select", "stg_sampled", "--sample", "1 day")
    project.dbt("run", "--select", "stg_sampled", "stg_cut")
    staged = lake.contents("stg_sampled")
    # The last copy is not in the sample, and still counts.
    days = f"{{'start': '{START:%Y-%m-%d}', 'end': '{START + timedelta(days=2):%Y-%m-%d}'}}"
    project.dbt("run", "--select", "stg_sampled", "--sample", days)
    assert lake.contents("stg_sampled") == staged
    with pytest.raises(DbtError, match=r"Set the `event_time` of .* to `copy_column`, copied_on\."):
        project.dbt("run", "--select", "stg_cut", "--sample", "1 day")


@pytest.mark.slow
def test_a_small_copy_that_is_known_stops_no_run(project: Project, lake: Lake) -> None:
    """A recreated table is read as a whole, and `dbt compile` reads any table as a whole."""
    strict = ("--vars", "{afterimage_on_gap: error}")
    rows = [row for date, copy in BROKEN.items() for row in rows_of(date, copy)]
    for options in (["--full-refresh"], strict):
        lake.create("parts_copies", COLUMNS, rows)
        project.dbt("run", "--select", "+parts_history", *options)
    project.dbt("compile", "--select", "stg_parts", *strict)
    rows += rows_of(day(2), {7: ["a"], 8: ["a"], 9: ["a"]})
    lake.append("parts_copies", COLUMNS, rows[-3:])
    project.dbt("run", "--select", "+parts_history", *strict)
    lake.create("parts_copies", COLUMNS, [*rows, *rows_of(day(3), {7: ["a"]})])
    with pytest.raises(DbtError, match=r"has 1 rows, and the one before it 3\."):
        project.dbt("run", "--select", "+parts_history", *strict)


@pytest.mark.slow
def test_a_known_copy_that_comes_again_broken_stops_the_run(project: Project, lake: Lake) -> None:
    """Also where each landing replaces the table, so that every run reads all of it."""
    strict = ("--vars", "{afterimage_on_gap: error}")
    for number, copy in enumerate(([1, 2, 3], [1, 2, 3])):
        lake.create("parts_copies", COLUMNS, rows_of(day(number), {n: ["a"] for n in copy}))
        refresh = [] if number else ["--full-refresh"]
        project.dbt("run", "--select", "+parts_history", *refresh, *strict)
    lake.create("parts_copies", COLUMNS, rows_of(day(1), {2: ["a"]}))
    with pytest.raises(DbtError, match=r"has 1 rows, and the one before it 3\."):
        project.dbt("run", "--select", "+parts_history", *strict)
    lake.create("parts_copies", COLUMNS, rows_of(day(1), {1: ["b"], 2: ["a"]}))
    project.dbt("run", "--select", "+parts_history", *strict)


@pytest.mark.slow
def test_a_broken_copy_is_reported_and_its_deletes_are_marked(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the raw table no longer has the copy before."""
    for date, copy in BROKEN.items():
        lake.create("parts_copies", COLUMNS, rows_of(date, copy))
        refresh = ["--full-refresh"] if date == day(0) else []
        project.dbt("--no-quiet", "run", *refresh, "--select", "+parts_history")
    assert "has 1 rows, and the one before it 3." in capfd.readouterr().out
    marked = lake.rows(
        f"select before.id, warnings from {SCHEMA}.stg_parts where operation = 'delete'"
    )
    warning = "the copy has less than half of the rows of the one before"
    assert sorted(row["id"] for row in marked) == [1, 3]
    assert {tuple(row["warnings"]) for row in marked} == {(warning,)}


@pytest.mark.slow
def test_a_build_reports_all_broken_copies_at_once(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also a full refresh. What every run builds reports the newest copy alone."""
    copies = BROKEN | {day(2): BROKEN[day(0)], day(3): {1: ["a"]}}
    rows = [row for date, copy in copies.items() for row in rows_of(date, copy)]
    both = (
        f"the copy of {day(1)}.000000 has 1 rows, and the one before it 3;"
        f" the copy of {day(3)}.000000 has 1 rows, and the one before it 3. Rows"
    )
    strict = ("--vars", "{afterimage_on_gap: error}")
    run = ("--no-quiet", "run", "--full-refresh", "--select", "+parts_history")
    lake.create("parts_copies", COLUMNS, rows_of(day(0), copies[day(0)]))
    project.dbt(*run)
    before = lake.contents("stg_parts", "parts_history")
    lake.create("parts_copies", COLUMNS, rows)
    with pytest.raises(DbtError, match=re.escape(both)):
        project.dbt(*run, *strict)
    assert lake.contents("stg_parts", "parts_history") == before
    capfd.readouterr()
    project.dbt(*run, "--vars", "{afterimage_on_gap: ignore}")
    assert "the copy of" not in capfd.readouterr().out
    project.dbt(*run)
    assert both in " ".join(capfd.readouterr().out.split())
    assert found(lake, "parts") == expected(copies)

    project.model(
        "parts_each_time",
        f"{{{{ dated_copies({relation('parts_copies')}, ['id'], 'copied_on') }}}}",
        materialized="table",
        file_format=FORMAT,
    )
    build = ("run", "--select", "parts_each_time")
    with pytest.raises(DbtError, match="has 1 rows") as raised:
        project.dbt(*build, *strict)
    assert re.findall(r"the copy of (\S+)", str(raised.value)) == [f"{day(3)}".split()[0]]
    project.dbt(*build)
    lake.append("parts_copies", COLUMNS, rows_of(day(4), copies[day(0)]))
    project.dbt(*build, *strict)
    (project.folder / "models/parts_each_time.sql").unlink()


@pytest.mark.slow
def test_times_may_be_text_and_values_lists(project: Project, lake: Lake) -> None:
    columns = {"id": "int", "marks": "array<int>", "Taken At": "string"}
    write_models(project, "marks", "'taken at'")
    copies = [
        ("2024-05-01 06:00:00", [1, 2]),
        ("2024-05-01 18:00:00.5", [1, 2]),
        ("2024-05-02T06:00:00", [1, 3]),
        ("last week", [1]),
    ]
    rows = [{"id": 1, "marks": marks, "Taken At": taken} for taken, marks in copies]
    lake.create("marks_copies", columns, rows[:1])
    project.dbt("run", "--full-refresh", "--select", "+marks_history")
    lake.append("marks_copies", columns, rows[1:])
    project.dbt("run", "--select", "+marks_history")
    versions = lake.rows(f"select marks, valid_from from {SCHEMA}.marks_history order by version")
    assert versions == [
        {"marks": [1, 2], "valid_from": datetime(2024, 5, 1, 6)},
        {"marks": [1, 3], "valid_from": datetime(2024, 5, 2, 6)},
    ]
    reasons = lake.rows(f"select reject_reason as r from {SCHEMA}.stg_marks order by r desc")
    assert [row["r"] for row in reasons][:2] == [
        "unchanged: these rows are as in the copy before",
        "the copy has no date: last week",
    ]


def test_a_null_that_moves_within_a_value_is_a_change(project: Project, lake: Lake) -> None:
    columns = {
        "copied_on": "date",
        "id": "int",
        "marks": "array<int>",
        "place": "struct<city: string, country: string>",
        "tags": "map<string, string>",
    }
    values: dict[str, list[Any]] = {
        "marks": [[1], [1, None], [None, 1], [], [None]],
        "place": [("Rome", None), (None, "Rome"), (None, None), None],
        "tags": [{"a": "b", "x": None}, {"a": None, "b": "x"}],
    }
    for column, copies in values.items():
        rows = [
            {"copied_on": day(number).date(), "id": 1, column: value}
            for number, value in enumerate(copies)
        ]
        lake.create("nulls_copies", columns, rows)
        sql = project.sql(
            f"dated_copies({relation('nulls_copies')}, unique_key=['id'], copy_column='copied_on')"
        )
        found = lake.rows(f"select operation from ({sql}) order by change_seq")
        assert [row["operation"] for row in found] == ["load"] + ["update"] * (len(copies) - 1)


@pytest.mark.minutes
def test_a_copy_without_keys_is_broken(
    project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its rows have landed, but a column of another name has left their keys NULL."""
    lake.create("parts_copies", COLUMNS, rows_of(day(0), BROKEN[day(0)]))
    project.dbt("run", "--full-refresh", "--select", "stg_parts")
    nameless = [{"copied_on": day(1).date(), "value": "a"} for _ in range(3)]
    lake.append("parts_copies", COLUMNS, nameless)
    project.dbt("--no-quiet", "run", "--select", "stg_parts")
    assert "has 0 rows, and the one before it 3." in capfd.readouterr().out
    marked = lake.rows(f"select warnings from {SCHEMA}.stg_parts where operation = 'delete'")
    warning = "the copy has less than half of the rows of the one before"
    assert [row["warnings"] for row in marked] == [[warning]] * 3


def test_a_month_is_no_year_and_a_year_no_second(project: Project, lake: Lake) -> None:
    periods: list[tuple[str, list[Any], list[datetime]]] = [
        ("string", ["202401", "202402"], []),
        ("int", [202401, 202402], []),
        ("int", [2023, 2024], [datetime(2023, 1, 1), datetime(2024, 1, 1)]),
        ("int", [20231003, 20240229], [datetime(2023, 10, 3), datetime(2024, 2, 29)]),
        ("string", ["20231003", "2024/02/29"], [datetime(2023, 10, 3), datetime(2024, 2, 29)]),
        # As Db2 and Oracle keep such numbers.
        ("decimal(8,0)", [Decimal(20231003)], [datetime(2023, 10, 3)]),
        ("string", ["20230229", "20240230"], []),
    ]
    tables = [f"periods_{number}" for number in range(len(periods))]
    for table, (kind, texts, _) in zip(tables, periods, strict=True):
        rows = [{"copied_on": text, "id": number} for number, text in enumerate(texts)]
        lake.create(table, {"copied_on": kind, "id": "int"}, rows)
    sqls = project.sqls(
        f"dated_copies({relation(table)}, unique_key=['id'], copy_column='copied_on')"
        for table in tables
    )
    for sql, (_, texts, times) in zip(sqls, periods, strict=True):
        found = lake.rows(f"select changed_at, reject_reason from ({sql})")
        assert {row["changed_at"] for row in found if row["reject_reason"] is None} == set(times)
        reasons = {row["reject_reason"] for row in found} - {None}
        assert reasons == (set() if times else {f"the copy has no date: {text}" for text in texts})


@pytest.mark.minutes
def test_the_order_of_a_map_is_no_change(project: Project, lake: Lake) -> None:
    columns = {"copied_on": "date", "id": "int", "marks": "map<string, int>"}
    copies = [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1}]
    write_models(project, "mapped", "'copied_on'")
    lake.create("mapped_copies", columns, [])
    for number, marks in enumerate(copies):
        landed = {"copied_on": day(number).date(), "id": 1, "marks": marks}
        lake.append("mapped_copies", columns, [landed])
        project.dbt("run", "--select", "+mapped_history")
    rows = lake.rows(f"select marks from {SCHEMA}.mapped_history order by version")
    assert [row["marks"] for row in rows] == [{"x": 1, "y": 2}, {"x": 1}]


def copies_of(table: str) -> str:
    return f"dated_copies({relation(table)}, unique_key=['id'], copy_column='copied_on')"


@pytest.mark.slow
def test_a_year_has_four_digits(project: Project, lake: Lake) -> None:
    kinds = ["string", "date", "timestamp"]
    for kind in kinds:
        lake.spark.sql(
            f"create or replace table {SCHEMA}.years_{kind} using {FORMAT} as"
            f" select cast(copied_on as {kind}) as copied_on, 1 as id"
            " from values ('2024-05-01'), ('20240-05-02'), ('2024-05-03') as landed(copied_on)"
        )
    query = "select operation, reject_reason, changed_at from ({}) order by changed_at nulls last"
    for sql in project.sqls(copies_of(f"years_{kind}") for kind in kinds):
        assert_years(lake.rows(query.format(sql)))
    # Also in a run that compares with what is known.
    project.stream("stg_years", copies_of("years"))
    for number in range(2):
        lake.spark.sql(
            f"{'insert into' if number else 'create or replace table'} {SCHEMA}.years"
            f" {'' if number else f'using {FORMAT} as'} select * from {SCHEMA}.years_string"
            f" where copied_on {'<>' if number else '='} '2024-05-01'"
        )
        project.dbt("run", "--select", "stg_years", *([] if number else ["--full-refresh"]))
    assert_years(lake.rows(query.format(f"select * from {SCHEMA}.stg_years")))


def assert_years(found: list[Row]) -> None:
    assert [(row["operation"], row["changed_at"]) for row in found] == [
        ("load", datetime(2024, 5, 1)),
        (None, datetime(2024, 5, 3)),
        (None, None),
    ]
    assert found[1]["reject_reason"].startswith("unchanged")
    assert re.match("the copy has no date: [+]?20240-05-02", found[2]["reject_reason"])


@pytest.mark.slow
def test_rows_of_two_copies_without_a_date_are_two(project: Project, lake: Lake) -> None:
    columns = COLUMNS | {"copied_on": "string"}
    project.stream("stg_dateless", copies_of("dateless"))
    dates = [f"05/0{number}/2024" for number in (1, 2)]
    for number, text in enumerate(dates):
        rows: list[Row] = [{"copied_on": text, "id": 1, "value": "a"}]
        if number:
            lake.append("dateless", columns, rows)
        else:
            lake.create("dateless", columns, rows)
        project.dbt("run", "--select", "stg_dateless", *([] if number else ["--full-refresh"]))
    rejected = lake.rows(f"select reject_reason, source_rows from {SCHEMA}.stg_dateless order by 1")
    assert [tuple(row.values()) for row in rejected] == [
        (f"the copy has no date: {text}", 1) for text in dates
    ]


@pytest.mark.slow
def test_rejected_rows_that_are_no_utf8_have_ids_of_their_own(project: Project, lake: Lake) -> None:
    """Latin-1 that a landing wrote as text. The rows are rejected again when the copy is mended."""
    raw = f"{SCHEMA}.latin_copies"
    lake.spark.sql(
        f"create or replace table {raw} using {FORMAT} as"
        " select '2024-05-01' as copied_on, id, cast(name as string) as value"
        " from values (1, X'C4'), (1, X'D6'), (null, X'C4'), (null, X'D6') as landed(id, name)"
        " union all select cast(name as string), 2, 'a' from values (X'C4'), (X'D6') as dates(name)"
    )
    project.stream("stg_latin", copies_of("latin_copies"))
    project.dbt("run", "--select", "stg_latin", "--full-refresh")
    reasons = "select split(reject_reason, ':')[0] as why, count(*) as n,"
    reasons += f" count(distinct change_id) as ids from {SCHEMA}.stg_latin group by 1 order by 1"
    assert [tuple(row.values()) for row in lake.rows(reasons)] == [
        ("NULL in the key (id)", 2, 2),
        ("the copy has no date", 2, 2),
        ("twice in one copy", 2, 2),
    ]
    lake.spark.sql(f"delete from {raw} where id = 1 or id is null")
    lake.spark.sql(f"insert into {raw} values ('2024-05-01', 1, 'A')")
    project.dbt("run", "--select", "stg_latin")
    assert [tuple(row.values()) for row in lake.rows(reasons)] == [
        (None, 1, 1),
        ("superseded", 4, 4),
        ("the copy has no date", 2, 2),
    ]
