"""Readers of histories and change streams, against rows worked out by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, contract_columns, relation

COLUMNS = {
    "id": "int",
    "value": "string",
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "is_current": "boolean",
    "is_deleted": "boolean",
    "history_id": "string",
}


OPEN_END = datetime(9999, 12, 31)


def day(number: int) -> datetime:
    return datetime(2024, 1, number)


def version(
    key: int, value: str, start: int, end: int | None, deleted: bool = False
) -> dict[str, Any]:
    return {
        "id": key,
        "value": value,
        "valid_from": day(start),
        # As with `valid_to_current`.
        "valid_to": OPEN_END if end is None and key == 2 else end and day(end),
        "is_current": end is None,
        "is_deleted": deleted,
        "history_id": f"{key}-{value}-{start}",
    }


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    lake.create(
        "towns",
        COLUMNS,
        [
            version(1, "Rome", 1, 5),
            version(1, "Oslo", 5, 5),
            version(1, "Bonn", 5, 9),
            version(1, "Bonn", 9, None, deleted=True),
            version(2, "Kiel", 3, None),
        ],
    )
    lake.create(
        "grades",
        COLUMNS,
        [
            version(1, "A", 3, 7),
            version(1, "B", 12, None),
            version(2, "D", 8, 8),
            version(3, "C", 2, 4),
        ],
    )
    return make_project("history_readers")


AS_OF = {
    "2023-12-31": [],
    "2024-01-01": ["Rome"],
    "2024-01-04 23:59:59.999999": ["Kiel", "Rome"],
    "2024-01-05": ["Bonn", "Kiel"],
    "date_add(date'2024-01-08', 1)": ["Kiel"],
    "9999-12-31": ["Kiel"],
}


def test_as_of_returns_the_versions_of_a_moment(project: Project, lake: Lake) -> None:
    sqls = project.sqls(f'as_of({relation("towns")}, "{moment}")' for moment in AS_OF)
    found = {
        moment: sorted(row["value"] for row in lake.rows(sql))
        for moment, sql in zip(AS_OF, sqls, strict=True)
    }
    assert found == AS_OF


def test_history_join_cuts_at_every_change_and_leaves_gaps(project: Project, lake: Lake) -> None:
    sql = project.compile(
        "{{ history_join({'town_': %s, 'grade_': %s}, unique_key=['id']) }}"
        % (relation("towns"), relation("grades"))
    )
    rows = [
        (r["id"], r["town_value"], r["grade_value"], r["valid_from"], r["valid_to"])
        for r in lake.rows(sql)
    ]
    assert sorted(rows, key=lambda row: (row[0], row[3])) == [
        (1, "Rome", None, day(1), day(3)),
        (1, "Rome", "A", day(3), day(5)),
        (1, "Bonn", "A", day(5), day(7)),
        (1, "Bonn", None, day(7), day(9)),
        (1, None, "B", day(12), None),
        (2, "Kiel", None, day(3), None),
        (3, None, "C", day(2), day(4)),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("project")  # It makes the table of towns.
def test_readers_use_the_renamed_columns_of_a_history(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """For a table with our column names, such as prices with their own validity."""
    fields = "moment: int, valid_from: date, `#valid_to`: date, `#next`: int"
    began, ended = date(2020, 1, 1), date(2020, 2, 1)
    rows = [(1, began, ended, number) for number in (1, 2)]
    lake.create(
        "price_changes",
        contract_columns(fields),
        [
            {
                "change_id": str(number),
                "change_seq": str(number),
                "operation": operation,
                "after": row,
                "changed_at": day(number),
                "ingested_at": day(number),
            }
            for number, (operation, row) in enumerate(
                zip(["insert", "update"], rows, strict=True), 1
            )
        ],
    )
    project = make_project("renamed_history")
    names = {"valid_from": "_from", "valid_to": "_to", "history_id": "_id", "is_deleted": "_gone"}
    project.history("price_history", f"{SCHEMA}.price_changes", ["moment"], meta_column_names=names)
    project.file(
        "models/price_history.yml",
        "models: [{name: price_history, data_tests: ["
        + ", ".join(
            f"{{{test}: {{arguments: {{unique_key: [moment]}}, config: {{where: {where}}}}}}}"
            for test, where in {
                "versions_chain": "version > 0",
                "history_has_no_overlaps": "null",
                "one_current_version_per_key": "null",
            }.items()
        )
        + "]}]",
    )
    project.file("models/prices.sql", "{{ current_state(ref('price_history')) }}")
    project.file("models/prices_then.sql", "{{ as_of(ref('price_history'), '2024-01-01') }}")
    plain = "{'price_': ref('price_history'), 'town_': ref('towns_of')}"
    project.file("models/joined.sql", f"{{{{ history_join({plain}, unique_key=['moment']) }}}}")
    project.file(
        "models/towns_of.sql",
        "select id as moment, value, valid_from, valid_to, is_current, is_deleted, history_id"
        f" from {SCHEMA}.towns",
    )
    project.dbt("build", "--full-refresh")
    # Once more, the history being there: none of its columns is new. On Databricks, dbt 1.11
    # wants our options in `meta`.
    project.history(
        "price_history", f"{SCHEMA}.price_changes", ["moment"], meta={"meta_column_names": names}
    )
    project.dbt("build")

    [price] = lake.rows(f"select * from {SCHEMA}.prices")
    assert (price["valid_from"], price["#valid_to"], price["#next"]) == (began, ended, 2)
    assert price["_from"] == day(2)
    [then] = lake.rows(f"select * from {SCHEMA}.prices_then")
    assert (then["#next"], then["_from"]) == (1, day(1))
    joined = lake.rows(f"select * from {SCHEMA}.joined where moment = 1 order by valid_from")
    assert [
        (row["price_#next"], row["price_valid_from"], row["town_value"], row["valid_from"])
        for row in joined
    ] == [
        (1, began, "Rome", day(1)),
        (2, began, "Rome", day(2)),
        (2, began, "Bonn", day(5)),
        (2, began, None, day(9)),
    ]
    assert {row["town_history_id"] for row in joined} == {"1-Rome-1", "1-Bonn-5", None}


@pytest.mark.parametrize(
    "reader",
    [
        "current_state(ref('then'))",
        "history_join({'a_': ref('then')}, unique_key=['id'])",
        "scd2(ref('then'), unique_key=['id'])",
        "change_accounting(ref('then'), unique_key=['id'])",
    ],
)
def test_an_ephemeral_model_has_no_columns_to_read(
    reader: str, make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Nor those of a table that it left behind."""
    lake.create("then", {"gone": "int"}, [])
    project = make_project("ephemeral")
    project.model("then", "select 1 as id", materialized="ephemeral")
    project.model("now", f"{{{{ {reader} }}}}")
    with pytest.raises(DbtError, match=r"columns of __dbt__cte__then cannot be read.*ephemeral"):
        project.dbt("run")
    project.dbt("compile")


@pytest.mark.slow
def test_a_unit_test_may_give_the_changes_of_known_at(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """A map among the columns, which are those of the stored table."""
    columns = contract_columns("id: int, marks: map<string, int>")
    lake.create("known_stream", columns, [])
    given = {name: f"cast(null as {kind}) as `{name}`" for name, kind in columns.items()} | {
        "change_id": "'c1' as change_id",
        "change_seq": "'1' as change_seq",
        "operation": "'insert' as operation",
        "after": "named_struct('id', 1, 'marks', map('x', 1)) as `after`",
        "ingested_at": "timestamp '2024-01-02' as ingested_at",
    }
    project = make_project("known_in_a_unit_test")
    project.file("models/known_stream.sql", "select 1 as built_already")
    project.file(
        "models/known.sql",
        "{{ known_at(ref('known_stream'), '2024-01-02', unique_key=['id']) }}",
    )
    project.file(
        "models/known.yml",
        "unit_tests:\n"
        "  - name: known_by_then\n"
        "    model: known\n"
        "    given:\n"
        "      - input: ref('known_stream')\n"
        "        format: sql\n"
        f"        rows: >-\n          select {', '.join(given.values())}\n"
        "    expect: {rows: [{id: 1, version: 1, is_current: true}]}\n",
    )
    project.dbt("test", "--select", "known_by_then")


@pytest.mark.minutes
@pytest.mark.parametrize("is_deferred", [False, True])
def test_a_unit_test_may_give_a_history_of_any_schema_and_name(
    is_deferred: bool, make_project: Callable[[str], Project], lake: Lake
) -> None:
    """With `--defer` its table need not be built here."""
    lake.create("given_stream", contract_columns("id: int, name: string"), [])
    project = make_project("history_in_a_unit_test")
    project.file(
        "models/given_history.sql",
        "{{ config(materialized='history', unique_key=['id'],"
        " schema=var('where'), alias='given_past') }}\n"
        f"select * from {SCHEMA}.given_stream",
    )
    project.file("models/given_now.sql", "{{ current_state(ref('given_history')) }}")
    project.file(
        "models/given.yml",
        "unit_tests:\n"
        "  - name: lives_now\n"
        "    model: given_now\n"
        "    given:\n"
        "      - input: ref('given_history')\n"
        "        rows: [{id: 1, name: Ada, is_current: true, is_deleted: false}]\n"
        "    expect: {rows: [{id: 1, name: Ada}]}\n",
    )
    built = ["--vars", "{where: built}"]
    project.dbt("run", "--select", "given_history", *built)
    if is_deferred:
        (project.folder / "state").mkdir()
        project.dbt("--write-json", "parse", *built)
        shutil.copy(project.folder / ".afterimage/target/manifest.json", project.folder / "state")
        built = ["--vars", "{where: not_built}", "--defer", "--state", "state"]
    project.dbt("test", "--select", "lives_now", *built)


def stream(lake: Lake, table: str, fields: str, *changes: tuple[Any, ...]) -> str:
    """Make a change stream of (operation, before, after), a row a place, and return its name."""
    rows = [
        {
            "change_id": f"c{number}",
            "change_seq": str(number),
            "operation": operation,
            "before": before,
            "after": after,
            "changed_at": day(number),
        }
        for number, (operation, before, after) in enumerate(changes, 1)
    ]
    lake.create(table, contract_columns(fields), rows)
    return relation(table)


def test_an_audit_distinguishes_values_that_look_alike(project: Project, lake: Lake) -> None:
    changes = stream(
        lake,
        "nested_changes",
        "id: int, tags: array<string>, marks: map<string, int>",
        ("insert", None, (1, ["a, b"], {"x": 1, "y": 2})),
        ("update", None, (1, ["a", "b"], {"x": 1, "y": 2})),
        ("update", None, (1, [None], {"x": 1, "y": 2})),
        ("update", None, (1, ["null"], {"x": 1, "y": 3})),
    )
    other_order = "map_from_entries(reverse(map_entries(after.marks)))"
    lake.spark.sql(
        f"update {SCHEMA}.nested_changes set after.marks = {other_order} where change_seq = '2'"
    )
    sql = project.sql(f"change_audit({changes}, unique_key=['id'])")
    audited = [
        (row["change_id"], row["column_name"], row["old_value"], row["new_value"])
        for row in lake.rows(f"select * from ({sql}) where operation = 'update'")
    ]
    assert sorted(audited) == [
        ("c2", "tags", '["a, b"]', '["a","b"]'),
        ("c3", "tags", '["a","b"]', "[null]"),
        ("c4", "marks", '{"x":1,"y":2}', '{"x":1,"y":3}'),
        ("c4", "tags", "[null]", '["null"]'),
    ]


def test_maps_within_other_types_are_compared_in_any_order(project: Project, lake: Lake) -> None:
    one, other = {"a": 1, "b": 2}, {"a": 1, "b": 3}
    changes = stream(
        lake,
        "map_changes",
        "id: int, part: struct<`a b`: decimal(9,2), m: map<string, int>>,"
        " list: array<map<string, int>>, deep: map<string, struct<m: map<string, int>>>",
        ("insert", None, (1, (None, one), [one, None], {"x": (one,), "y": None})),
        ("update", None, (1, (None, one), [one, None], {"x": (one,), "y": None})),
        ("update", None, (1, (None, other), [one, None], {"x": (other,), "y": None})),
        ("update", None, (1, None, [None, one], {"x": (other,), "y": (None,)})),
        ("update", None, (1, (None, None), None, None)),
    )
    again = "map('b', 2, 'a', 1)"
    lake.spark.sql(
        f"update {SCHEMA}.map_changes set"
        f" after.part = named_struct('a b', cast(null as decimal(9,2)), 'm', {again}),"
        f" after.list = array({again}, null),"
        f" after.deep = map('y', null, 'x', named_struct('m', {again})) where change_seq = '2'"
    )
    audit, history = project.sqls(
        [f"{macro}({changes}, unique_key=['id'])" for macro in ("change_audit", "scd2")]
    )
    audited = lake.rows(f"select change_seq, column_name from ({audit}) where operation = 'update'")
    assert sorted((row["change_seq"], row["column_name"]) for row in audited) == [
        ("3", "deep"),
        ("3", "part"),
        ("4", "deep"),
        ("4", "list"),
        ("4", "part"),
        ("5", "deep"),
        ("5", "list"),
        ("5", "part"),
    ]
    opened = lake.rows(f"select valid_from_seq from ({history})")
    assert sorted(row["valid_from_seq"] for row in opened) == ["1", "3", "4", "5"]


def test_an_audit_writes_decimals_in_full(project: Project, lake: Lake) -> None:
    values = [Decimal("0.00000000"), Decimal("-0.00000012"), Decimal("1234567.50000000")]
    changes = stream(
        lake,
        "small_changes",
        "id: int, rate: decimal(18,8)",
        *[("update", None, (1, value)) for value in values],
    )
    sql = project.sql(f"change_audit({changes}, unique_key=['id'])")
    audited = lake.rows(f"select new_value from ({sql}) where column_name = 'rate' order by 1 desc")
    assert [row["new_value"] for row in audited] == [
        "1234567.50000000",
        "0.00000000",
        "-0.00000012",
    ]


def test_an_audit_has_the_user_if_the_stream_has_it(project: Project, lake: Lake) -> None:
    changes = stream(
        lake,
        "signed_changes",
        "id: int, name: string",
        ("insert", None, (1, "a")),
        ("update", None, (1, "b")),
        ("truncate", None, None),
    )
    users = "case change_seq when '1' then 'ann' when '3' then 'ben' end"
    lake.spark.sql(f"update {SCHEMA}.signed_changes set changed_by = {users}")
    audit = f"{{{{ change_audit({changes}, unique_key=['id']) }}}}"
    select = "select change_seq, changed_by, column_name from ({}) order by 1, 3"
    audited = [tuple(row.values()) for row in lake.rows(select.format(project.compile(audit)))]
    assert audited == [
        ("1", "ann", "id"),
        ("1", "ann", "name"),
        ("2", None, "name"),
        ("3", "ben", "id"),
        ("3", "ben", "name"),
    ]

    # A stream of one's own need not have the column.
    lake.spark.sql(f"alter table {SCHEMA}.signed_changes drop column changed_by")
    unsigned = [tuple(row.values()) for row in lake.rows(select.format(project.compile(audit)))]
    assert unsigned == [(place, None, name) for place, _, name in audited]


@pytest.mark.slow
def test_changes_that_changed_nothing_are_counted_as_without_effect(
    project: Project, lake: Lake
) -> None:
    changes = stream(
        lake,
        "idle_changes",
        "id: int, marks: map<string, int>",
        ("truncate", None, None),
        ("insert", None, (1, {"x": 1, "y": 2})),
        ("insert", None, (1, {"x": 1, "y": 2})),
        ("insert", None, (1, {"x": 1, "y": 3})),
        ("INSERT", None, (2, {})),
        ("truncate", None, None),
        ("truncate", None, None),
    )
    sql = project.sql(f"change_accounting({changes}, unique_key=['id'])")
    found = {
        (row["bucket"], row["operation"], row["reason"]): row["changes"] for row in lake.rows(sql)
    }
    assert found == {
        ("applied", "insert", None): 1,
        ("applied", "insert", "insert of a row that was there"): 1,
        ("applied", "truncate", None): 1,
        ("without effect", "insert", "nothing changed"): 1,
        ("without effect", "INSERT", "unknown operation"): 1,
        ("without effect", "truncate", "truncate of a table without rows"): 2,
        ("total", None, None): 7,
    }
    # As a topic's table says that the broker had deleted messages before they were landed.
    lake.create("idle_topic", {"value": "string"}, [])
    landed = f"landed={relation('idle_topic')}"
    with_landed = f"change_accounting({changes}, unique_key=['id'], {landed})"
    assert len(lake.rows(project.sql(with_landed))) == len(found)
    lake.spark.sql(f"alter table {SCHEMA}.idle_topic set tblproperties ('afterimage.missing' = 3)")
    [missing] = [row for row in lake.rows(project.sql(with_landed)) if row["bucket"] == "missing"]
    assert (missing["changes"], missing["source_rows"]) == (3, 0)
    # As dbt gives a relation in a run with `--empty`, and in a unit test.
    inputs = (
        f"{landed}.replace(limit=0)",
        "landed=api.Relation.create(identifier='__dbt__cte__t')",
    )
    for sql in project.sqls(
        f"change_accounting({changes}, unique_key=['id'], {given})" for given in inputs
    ):
        assert len(lake.rows(sql)) == len(found)
    # They are there again.
    lake.spark.sql(f"alter table {SCHEMA}.idle_topic set tblproperties ('afterimage.missing' = 0)")
    assert len(lake.rows(project.sql(with_landed))) == len(found)


def test_landed_rows_are_counted_in_a_part_of_a_stream(project: Project, lake: Lake) -> None:
    """Two changes, each of three landed rows; the column's name is in capitals."""
    changes = stream(lake, "sent_again", "id: int", ("insert", None, (1,)), ("delete", (1,), None))
    lake.spark.sql(f"alter table {SCHEMA}.sent_again add column SOURCE_ROWS int")
    lake.spark.sql(f"update {SCHEMA}.sent_again set source_rows = 3")
    part = f"'(select * from {SCHEMA}.sent_again)'"
    for sql in project.sqls(
        f"change_accounting({given}, unique_key=['id'])" for given in (changes, part)
    ):
        [total] = [row for row in lake.rows(sql) if row["bucket"] == "total"]
        assert (total["changes"], total["source_rows"]) == (2, 6)


def test_a_key_change_has_an_effect_where_it_finds_a_row_that_looks_alike(
    project: Project, lake: Lake
) -> None:
    """`update lines set line = line + 1`: a row comes to line 2 before the one there leaves."""
    rows = [(1, "A"), (2, "A"), (3, "B")]
    moves = [("update", (line, text), (line + 1, text)) for line, text in rows]
    changes = stream(
        lake, "moved_lines", "line: int, text: string", *[("insert", None, r) for r in rows], *moves
    )
    sql = project.sql(f"change_accounting({changes}, unique_key=['line'])")
    found = {
        (row["bucket"], row["operation"], row["reason"]): row["changes"] for row in lake.rows(sql)
    }
    assert found == {
        ("applied", "insert", None): 3,
        ("applied", "update", None): 3,
        ("total", None, None): 6,
    }


@pytest.mark.minutes
def test_before_images_are_compared_with_the_previous_state(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    """The first change of a key has nothing to agree with, because the table may be older."""
    changes = [
        ("update", (1, "old", "text"), (1, "new", None)),
        ("update", (1, "new", None), (1, "newer", "text")),
        # The source leaves a LOB out of its before-images.
        ("update", (1, "newer", None), (1, "newest", "text")),
        ("delete", (2, "older", None), None),
    ]
    stream(lake, "held_changes", "id: int, name: string, lob: string", *changes)
    project = make_project("held")
    project.file("models/held.sql", f"select * from {SCHEMA}.held_changes")

    def with_test(arguments: str) -> None:
        project.file(
            "models/held.yml",
            "models: [{name: held, data_tests: [{before_images_agree: {arguments:"
            f" {{{arguments}}}}}}}]}}]",
        )

    with_test("unique_key: [id], columns: [id, name]")
    project.dbt("build")
    with_test("unique_key: [id]")
    with pytest.raises(DbtError, match="Got 1 result"):
        project.dbt("build")
    for arguments, message in {
        "unique_key: id": "`unique_key` must be a list of column names, with at least one. Got: id",
        "unique_key: [nr]": "`unique_key` names a column that does not exist",
        "unique_key: [id], columns: [nr]": "`columns` names a column that does not exist",
    }.items():
        with_test(arguments)
        with pytest.raises(DbtError, match=message):
            project.dbt("build")


@pytest.mark.minutes
def test_same_rows_needs_an_existing_relation(make_project: Callable[[str], Project]) -> None:
    project = make_project("same")
    project.file("models/same.sql", "select 1 as id")

    def with_test(expected: str) -> None:
        project.file(
            "models/same.yml",
            "models: [{name: same, data_tests: [{same_rows: {arguments:"
            f" {{expected: {expected}}}}}}}]}}]",
        )

    with_test("ref('same')")
    project.dbt("build")
    # A seed that nobody has loaded, and a text, which is no relation.
    project.file("seeds/expected_same.csv", "id\n1\n")
    for expected in ("ref('expected_same')", "expected_same"):
        with_test(expected)
        with pytest.raises(
            DbtError, match=r"same_rows: the columns of .*expected_same.* cannot be read"
        ):
            project.dbt("build", "--select", "same")
