"""The generic tests that hold several rules: rows in, findings out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import Lake, Project, contract_columns, relation
from histories import change

VERSIONS = {
    "id": "int",
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "valid_from_seq": "string",
    "valid_to_seq": "string",
    "is_current": "boolean",
    "closed_by": "string",
    "version": "int",
    "history_id": "string",
}


def version(
    key: int | None,
    number: int,
    start: int,
    end: int | None,
    closed_by: str | None = "update",
    **but: Any,
) -> dict[str, Any]:
    """A sound version of a key, from a day to a day, but for what is given by name."""
    return {
        "id": key,
        "valid_from": datetime(2024, 1, start),
        "valid_to": end and datetime(2024, 1, end),
        "valid_from_seq": f"{start:03d}",
        "valid_to_seq": f"{end:03d}" if end else None,
        "is_current": end is None,
        "closed_by": closed_by if end else None,
        "version": number,
        "history_id": f"{key}-{number}",
        **but,
    }


SOUND = [
    *(version(1, 1, 1, 4), version(1, 2, 4, 6, "delete"), version(1, 3, 8, None)),
    *(version(2, 1, 1, 2, "key_change"), version(3, 1, 2, None), version(None, 1, 2, None)),
]
OVERLAPS, CURRENT = "history_has_no_overlaps", "one_current_version_per_key"
CHAIN, UNIQUE = "versions_chain", "history_id_is_unique"
# What is wrong with the versions of a key, and which rules each of them breaks.
UNSOUND: dict[str, list[tuple[dict[str, Any], set[str]]]] = {
    "two versions at one time": [
        (version(11, 1, 1, 5), {OVERLAPS}),
        (version(11, 2, 4, None), {CHAIN}),
    ],
    "an end before the begin": [(version(12, 1, 5, 2), {OVERLAPS})],
    "two current versions": [
        (version(13, 1, 1, 4, is_current=True), {CURRENT}),
        (version(13, 2, 4, None), {CURRENT}),
    ],
    "a current version that is closed": [(version(14, 1, 1, 4, is_current=True), {CURRENT})],
    "a gap after an update": [(version(15, 1, 1, 2), set()), (version(15, 2, 4, None), {CHAIN})],
    "a number left out": [(version(16, 1, 1, 2), set()), (version(16, 3, 2, None), {CHAIN})],
    "closed by nothing known": [(version(17, 1, 1, 2, "magic"), {CHAIN})],
    "no id": [(version(18, 1, 1, None, history_id=None), {UNIQUE})],
    "one id of two keys": [
        (version(19, 1, 1, None), {UNIQUE}),
        (version(20, 1, 1, None, history_id="19-1"), {UNIQUE}),
    ],
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("generic_tests")


def test_versions_name_the_rules_that_they_break(project: Project, lake: Lake) -> None:
    history, key = relation("made_history"), "unique_key=['id']"
    tests = ("history_is_sound", OVERLAPS, CURRENT, CHAIN)
    together, *alone = project.sqls(f"test_{name}({history}, {key})" for name in tests)
    lake.create("made_history", VERSIONS, SOUND)
    assert lake.rows(together) == []
    broken = {
        (one["id"], one["version"]): rules
        for versions in UNSOUND.values()
        for one, rules in versions
        if rules
    }
    unsound = [one for versions in UNSOUND.values() for one, _ in versions]
    lake.create("made_history", VERSIONS, [*SOUND, *unsound])
    found = {
        (row["id"], row["version"]): set(row["afterimage_broken_rules"])
        for row in lake.rows(together)
    }
    assert found == broken
    for rule, query in zip(tests[1:], alone, strict=True):
        keys = {row["id"] for row in lake.rows(query)}
        assert keys == {key for (key, _), rules in broken.items() if rule in rules}, rule


def test_a_stream_is_complete(project: Project, lake: Lake) -> None:
    columns = contract_columns("id: int") | {"source_rows": "int"}
    landed = [{"n": number} for number in range(4)]
    lake.create("made_landed", {"n": "int"}, landed)
    changes = [change(1, "insert", (1,)) | {"source_rows": 1}]
    changes.append(change(2, "update", (1,)) | {"source_rows": 3})
    stream = relation("made_changes")
    counted, uncounted, alone = project.sqls(
        [
            f"test_change_stream_is_complete({stream}, relation={relation('made_landed')})",
            f"test_change_stream_is_complete({stream})",
            f"test_every_row_accounted_for({stream}, relation={relation('made_landed')})",
        ]
    )

    def found(query: str) -> list[str]:
        return [row["finding"] for row in lake.rows(query)]

    lake.create("made_changes", columns, changes)
    assert found(counted) == found(uncounted) == []
    assert lake.rows(alone) == []
    lake.create("made_changes", columns, [])
    assert found(uncounted) == []
    assert found(counted) == ["4 rows landed, 0 are accounted for"]
    assert lake.rows(alone) == [{"landed_rows": 4, "accounted_rows": 0}]
    lake.create("made_changes", columns, [*changes, changes[0]])
    shared = "1 values of change_id are there more than once, one is c1"
    assert found(uncounted) == [shared]
    assert found(counted) == [shared, "4 rows landed, 5 are accounted for"]
    assert lake.rows(alone) == [{"landed_rows": 4, "accounted_rows": 5}]
    nameless = [one | {"change_id": None} for one in changes]
    lake.create("made_changes", columns, nameless)
    assert found(counted) == ["2 changes have no change_id"]


def test_a_stream_is_clear(project: Project, lake: Lake) -> None:
    lost = change(3, "update", (1, "Ann")) | {"before": (1, "Eve")}
    rejected = change(4, "insert", None) | {"reject_reason": "the sequence is missing"}
    tombstone = change(5, "insert", None) | {"reject_reason": "tombstone: the value is NULL"}
    sound = [change(1, "insert", (1, "Ada")), change(2, "insert", (2, "Bob"))]
    columns = contract_columns("id: int, name: string")
    stream = relation("made_changes_2")
    lake.create("made_changes_2", columns, [*sound, lost, rejected, tombstone])
    plain, keyed, of_a_text, narrow = project.sqls(
        [
            f"test_change_stream_is_clear({stream})",
            f"test_change_stream_is_clear({stream}, ['id'], expected_rejects=['tombstone:%'])",
            f"test_change_stream_is_clear({stream}, ['id'], expected_rejects='tombstone:%')",
            f"test_change_stream_is_clear({stream}, ['id'], columns=['id'])",
        ]
    )
    reasons = ["rejected: the sequence is missing", "rejected: tombstone: the value is NULL"]
    assert sorted(row["finding"] for row in lake.rows(plain)) == reasons
    assert sorted(row["finding"] for row in lake.rows(narrow)) == reasons
    assert of_a_text == keyed
    found = {row.pop("finding"): row for row in lake.rows(keyed)}
    assert found == {
        reasons[0]: {
            **{"change_id": "c4", "change_seq": f"{4:035d}", "operation": "insert"},
            "source_key": None,
        },
        "the row was another one before: name": {
            **{"change_id": None, "change_seq": f"{3:035d}", "operation": "update"},
            "source_key": '{"id":1}',
        },
    }


def test_the_first_value_of_a_column_that_came_later_is_no_lost_change(
    project: Project, lake: Lake
) -> None:
    """It was added with a default, so a before-image shows a value that no change brought."""
    rows = [
        change(1, "insert", (1, "Ada", None)) | {"absent_columns": ["grade"]},
        change(2, "update", (1, "Ann", "A")) | {"before": (1, "Ada", "A")},
        change(3, "update", (1, "Ann", "C")) | {"before": (1, "Ann", "B")},
    ]
    lake.create("graded", contract_columns("id: int, name: string, grade: string"), rows)
    query = project.sql(f"test_before_images_agree({relation('graded')}, unique_key=['id'])")
    found = [(row["change_seq"][-1], row["disagreements"]) for row in lake.rows(query)]
    assert found == [("3", ["grade"])]


def test_a_lost_change_is_found_where_another_column_was_never_captured(
    project: Project, lake: Lake
) -> None:
    """`name` of key 1 is unknown and `grade` of key 2; that `grade` of key 1 was NULL is known.

    Before-images of key 3 are the key alone: no sign of a loss until another one holds more.
    """
    unknown = {"absent_columns": ["name"]}
    rows = [
        change(1, "update", (1, None, None)) | unknown,
        change(2, "update", (2, "Bob", None)) | {"absent_columns": ["grade"]},
        change(3, "insert", (3, "Cid", "C")),
        change(4, "update", (3, "Dan", "C")) | {"before": (3, None, None)},
        change(5, "delete", (3, None, None)),
        change(6, "update", (3, "Eve", "C")) | {"before": (3, None, None)},
        change(7, "update", (1, None, "C")) | unknown | {"before": (1, None, "B")},
        change(8, "update", (3, "Fay", "C")) | {"before": (3, None, None)},
    ]
    lake.create("unnamed", contract_columns("id: int, name: string, grade: string"), rows)
    query = project.sql(f"test_before_images_agree({relation('unnamed')}, unique_key=['id'])")
    found = [(row["change_seq"][-1], row["disagreements"]) for row in lake.rows(query)]
    assert sorted(found) == [
        ("6", ["there was no row"]),
        ("7", ["grade"]),
        ("8", ["name", "grade"]),
    ]


def test_a_key_may_have_the_name_of_a_column_of_the_findings(project: Project, lake: Lake) -> None:
    rows = [
        change(1, "insert", (7, "Ada")),
        change(2, "update", (7, "Ann")) | {"before": (7, "Eve")},
    ]
    lake.create("operations", contract_columns("operation: int, name: string"), rows)
    plain, keyed = project.sqls(
        [
            f"test_before_images_agree({relation('operations')}, unique_key=['operation'])",
            f"test_change_stream_is_clear({relation('operations')}, ['operation'])",
        ]
    )
    assert [(row["key_operation"], row["operation"]) for row in lake.rows(plain)] == [(7, "update")]
    assert [row["source_key"] for row in lake.rows(keyed)] == ['{"operation":7}']


def test_a_key_has_one_row(project: Project, lake: Lake) -> None:
    rows: list[dict[str, Any]] = [
        {"a": 1, "b": 1},
        {"a": 1, "b": 2},
        {"a": 1, "b": 2},
        {"a": None, "b": 2},
    ]
    lake.create("made_rows", {"a": "int", "b": "int"}, rows)
    found = lake.rows(project.sql(f"test_one_row_per_key({relation('made_rows')}, ['a', 'b'])"))
    assert sorted(found, key=repr) == [
        {"a": 1, "b": 2, "rows_of_the_key": 2},
        {"a": None, "b": 2, "rows_of_the_key": 1},
    ]
