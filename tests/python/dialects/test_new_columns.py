"""With `on_schema_change: append_new_columns`, staging takes in new columns of its raw table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, relation
from tables_read_again import NARROW, SOURCES, call

RAW = "people__ct"
COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "smallint",
    "name": "string",
}
NEW = {**COLUMNS, "city": "string", "size of": "struct<Tall: decimal(5,2), `wide-x`: smallint>"}
BUILT = ("stg_people", "people_history", "people_audit")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("new_columns")


@pytest.fixture
def people(project: Project, lake: Lake) -> Callable[[str], None]:
    """A function that builds staging, history and audit with a setting of `on_schema_change`."""

    def build(setting: str) -> None:
        for name in BUILT:
            lake.spark.sql(f"drop table if exists {SCHEMA}.{name}")
        stream, history, audit = BUILT
        call = f"qlik_change_table({relation(RAW)}, ['id'])"
        project.stream(stream, call, on_schema_change=setting)
        project.history(history, stream)
        select = f"select * from {{{{ ref('{stream}') }}}}"
        project.model(audit, select, materialized="audit", unique_key=["id"])
        lake.create(
            RAW,
            COLUMNS,
            [
                row(1, "I", 1, "Ada"),
                row(2, "I", 2, "Bob"),
                row(3, "B", 1, "Ada"),
                row(3, "U", 1, "Eve"),
            ],
        )
        project.dbt("run")

    return build


def row(place: int, letter: str, key: int, name: str, **further: Any) -> dict[str, Any]:
    return {
        "header__change_seq": f"2024010{place}120000{'0' * 21}",
        "header__change_oper": letter,
        "id": key,
        "name": name,
        **further,
    }


def add_columns(lake: Lake) -> None:
    """Add one in the middle and one at the end."""
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} add columns (city string after id)")
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} add columns (`size of` {NEW['size of']})")


SIZE = {"Tall": None, "wide-x": 3}
LATER = [
    row(4, "B", 1, "Eve"),
    row(4, "U", 1, "Eve", city="Rome", **{"size of": SIZE}),
    row(5, "I", 3, "Kim", city="Oslo"),
]


@pytest.mark.slow
def test_a_new_column_is_added_and_what_was_pruned_is_kept(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    people("append_new_columns")
    add_columns(lake)
    lake.append(RAW, NEW, LATER)
    # The raw table no longer holds Ada's first row, and Bob's has gained a value.
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq < '20240102'")
    lake.spark.sql(f"update {SCHEMA}.{RAW} set city = 'Bonn' where name = 'Bob'")
    project.dbt("run")
    versions = lake.rows(
        f"select id, version, name, city, `size of`, is_current from {SCHEMA}.people_history"
        " order by id, version"
    )
    assert [tuple(version.values()) for version in versions] == [
        (1, 1, "Ada", None, None, False),
        (1, 2, "Eve", None, None, False),
        (1, 3, "Eve", "Rome", SIZE, True),
        (2, 1, "Bob", "Bonn", None, True),
        (3, 1, "Kim", "Oslo", None, True),
    ]
    audited = lake.rows(
        f"select id, column_name, old_value, new_value from {SCHEMA}.people_audit"
        " where column_name = 'city' order by id"
    )
    assert [tuple(change.values()) for change in audited] == [
        (1, "city", None, "Rome"),
        (2, "city", None, "Bonn"),
        (3, "city", None, "Oslo"),
    ]
    contents = lake.contents(*BUILT)
    project.dbt("run")
    assert lake.contents(*BUILT) == contents


@pytest.mark.minutes
def test_tables_with_a_new_column_equal_those_of_a_full_refresh(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    people("append_new_columns")
    add_columns(lake)
    project.dbt("run")
    lake.append(RAW, NEW, LATER)
    project.dbt("run")
    in_runs = lake.contents(*BUILT)
    project.dbt("run", "--full-refresh")
    assert lake.contents(*BUILT) == in_runs


@pytest.mark.slow
@pytest.mark.parametrize("declared", ["", ", columns=['id', 'name']"])
def test_a_line_that_is_no_json_is_no_new_column(
    declared: str, project: Project, lake: Lake, tmp_path: Path
) -> None:
    """The first lines of a file that is being written; Spark calls them `_corrupt_record`."""
    folder = tmp_path / "people"
    folder.mkdir()
    project.stream(
        "stg_lines",
        f"qlik_change_table({relation(f'`{folder}`', 'json')}, ['id']{declared})",
        on_schema_change="append_new_columns",
    )
    lines = [json.dumps(row(place, "I", place, name)) for place, name in ((1, "Ada"), (2, "Bob"))]
    (folder / "1.json").write_text(lines[0] + "\n")
    project.dbt("run", "--select", "stg_lines", "--full-refresh")
    before = lake.contents("stg_lines")
    (folder / "2.json").write_text(lines[1][:-9])
    with pytest.raises(DbtError, match=r"is no JSON object, or its file is still being written"):
        project.dbt("run", "--select", "stg_lines")
    assert lake.contents("stg_lines") == before
    (folder / "2.json").write_text(lines[1] + "\n")
    project.dbt("run", "--select", "stg_lines")
    staged = lake.rows(f"select after.* from {SCHEMA}.stg_lines order by id")
    assert staged == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]


@pytest.mark.slow
def test_files_with_a_column_that_hides_when_they_were_written_are_refused(
    project: Project, tmp_path: Path
) -> None:
    """Spark would give the column in place of its own, and later files would be left out."""
    loaded = {**row(1, "I", 1, "Ada"), "_metadata": {"file_name": "1.csv"}}
    (tmp_path / "1.json").write_text(json.dumps(loaded) + "\n")
    [said] = project.refusals([f"qlik_change_table({relation(f'`{tmp_path}`', 'json')}, ['id'])"])
    assert "the column `_metadata` of these files hides" in said
    assert "afterimage land --copy" in said


@pytest.mark.slow
def test_a_folder_without_files_is_said_and_loses_nothing(
    project: Project, lake: Lake, tmp_path: Path
) -> None:
    """The landing has moved away what was taken in."""
    folder = tmp_path / "people"
    folder.mkdir()
    project.stream("stg_moved", f"qlik_change_table({relation(f'`{folder}`', 'json')}, ['id'])")
    for place, name in ((1, "Ada"), (2, "Bob")):
        (folder / f"{place}.json").write_text(json.dumps(row(place, "I", place, name)) + "\n")
        project.dbt("run", "--select", "stg_moved", *["--full-refresh"][: place == 1])
        (folder / f"{place}.json").unlink()
        with pytest.raises(DbtError, match="There is no file now"):
            project.dbt("run", "--select", "stg_moved")
    folder.rmdir()
    with pytest.raises(DbtError, match="There is no file now"):
        project.dbt("run", "--select", "stg_moved")
    staged = lake.rows(f"select after.* from {SCHEMA}.stg_moved order by id")
    assert staged == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]


@pytest.mark.minutes
def test_a_run_that_ended_while_it_added_columns_is_repeated(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    people("append_new_columns")
    add_columns(lake)
    lake.append(RAW, NEW, LATER)
    lake.spark.sql(f"alter table {SCHEMA}.stg_people add columns (before.city string after id)")
    project.dbt("run")
    in_runs = lake.contents(*BUILT)
    project.dbt("run", "--full-refresh")
    assert lake.contents(*BUILT) == in_runs


@pytest.mark.minutes
def test_a_column_listed_later_is_read_from_all_rows(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    staging = project.folder / "models/stg_people.sql"
    people("append_new_columns")
    every_column = staging.read_text()
    staging.write_text(every_column.replace("['id']) }}", "['id'], columns=['id']) }}"))
    project.dbt("run", "--full-refresh")
    staging.write_text(every_column)
    project.dbt("run")
    in_runs = lake.contents(*BUILT)
    assert {row["name"] for row in in_runs["people_history"]} == {"Ada", "Eve", "Bob"}
    project.dbt("run", "--full-refresh")
    assert lake.contents(*BUILT) == in_runs


@pytest.mark.slow
def test_any_other_difference_stops_the_run(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    people("append_new_columns")
    add_columns(lake)
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} rename column name to full_name")
    before = lake.contents("stg_people")
    with pytest.raises(DbtError, match=r"added: city, full_name, size of; dropped: name\)\. Run"):
        project.dbt("run", "--select", "stg_people")
    assert lake.contents("stg_people") == before


@pytest.mark.slow
def test_a_new_column_stops_the_run_where_none_is_appended(
    people: Callable[[str], None], project: Project, lake: Lake
) -> None:
    people("fail")
    add_columns(lake)
    with pytest.raises(DbtError, match=r"(?s)added: city, size of\)\. Run .* Or set `on_sch"):
        project.dbt("run", "--select", "stg_people")
    # What does not write changes nothing.
    project.file(
        "models/stg_people.sql",
        (project.folder / "models/stg_people.sql")
        .read_text()
        .replace("'fail'", "'append_new_columns'"),
    )
    before = lake.contents("stg_people")
    project.dbt("compile", "--select", "stg_people")
    assert lake.contents("stg_people") == before


@pytest.mark.minutes
@pytest.mark.parametrize("rows", ["where id = 3", ""], ids=["one row", "all rows"])
def test_rows_that_have_gained_a_column_are_the_same_changes(
    rows: str, make_project: Callable[[str], Project], lake: Lake
) -> None:
    """Malformed rows that have a value there get another name, and still count once."""
    project = make_project("new_column_in_all_dialects")
    models = [f"stg_grown_{source}" for source in SOURCES]
    for source, model in zip(SOURCES, models, strict=True):
        lake.create(f"grown_{source}", {**SOURCES[source][1], **NARROW}, SOURCES[source][2])
        read = call(source, f"grown_{source}")
        project.stream(model, read, on_schema_change="append_new_columns")
    project.dbt("run", "--full-refresh")
    built = lake.contents(*models)
    for source in SOURCES:
        lake.spark.sql(f"alter table {SCHEMA}.grown_{source} add columns (note string)")
        lake.spark.sql(f"update {SCHEMA}.grown_{source} set note = 'x' {rows}")
    project.dbt("run")
    grown = lake.contents(*models)
    project.dbt("run", "--full-refresh")
    # A copy that shows other rows leaves a note of what it showed.
    grown["stg_grown_copies"] = [
        row
        for row in grown["stg_grown_copies"]
        if not (row["reject_reason"] or "").startswith("superseded: the copies")
    ]
    assert lake.contents(*models) == grown
    for model in models:
        ids = [
            sorted(
                change["change_id"]
                for change in found[model]
                if rows or change["reject_reason"] is None
            )
            for found in (built, grown)
        ]
        assert ids[0] == ids[1], model
