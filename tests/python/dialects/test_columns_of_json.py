"""Spark sorts the columns of JSON files by name, and masks count them in the source's order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SCHEMA, DbtError, Lake, Project, relation
from dialect_qlik import HEADER

# In the source title comes before status. The mask of each update flags the second column, title.
COLUMNS = ["id", "title", "status"]
QLIK: dict[str, Any] = {
    **dict.fromkeys(HEADER, "x"),
    "header__change_seq": f"2024010112010000{1:019}",
    "header__change_oper": "U",
    "header__change_mask": "0100",  # bit 8, behind seven header columns and id
    "header__operation": "UPDATE",
    "header__timestamp": "2024-01-01 12:01:00",
}
SQLSERVER: dict[str, Any] = {
    "__$start_lsn": "00000000000000000001",
    "__$end_lsn": None,
    "__$seqval": "00000000000000000001",
    "__$operation": 4,
    "__$update_mask": "02",
    "__$command_id": 1,
}
OPENEDGE: dict[str, Any] = {
    "_Change-Sequence": 1,
    "_Continuation-Position": 0,
    "_Operation": 4,
    "_Change-FieldMap": "010",
}
ROWS: dict[str, dict[str, Any]] = {
    "qlik_change_table": {**QLIK, "id": 7, "title": None, "status": None},
    "sqlserver_change_table": {**SQLSERVER, "id": 7, "title": "new", "status": "open"},
    "openedge_change_table": {**OPENEDGE, "id": 7, "title": "new", "status": "open"},
}
BEFORE: dict[str, dict[str, Any]] = {
    "qlik_change_table": {"header__change_oper": "I", "header__operation": "INSERT"},
    "sqlserver_change_table": {"__$operation": 2},
    "openedge_change_table": {"_Operation": 1, "_Change-FieldMap": None},
}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("columns_of_json")


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A folder of JSON files for each macro: its change, and an insert with all values."""
    folders = {}
    for macro, change in ROWS.items():
        folder = tmp_path_factory.mktemp(macro)
        insert: dict[str, Any] = {**change, **BEFORE[macro], "id": 6, "title": "a", "status": "b"}
        for name in ("header__change_seq", "__$start_lsn"):
            if name in insert:
                insert[name] = insert[name][:-1] + "2"
        if "_Change-Sequence" in insert:
            insert["_Change-Sequence"] = 2
        lines = [json.dumps(row) + "\n" for row in (change, insert)]
        (folder / "1.json").write_text("".join(lines))
        folders[macro] = relation(f"`{folder}`", "json")
    return folders


def test_spark_sorts_them(lake: Lake, tmp_path: Path) -> None:
    """Else the errors below would have no reason."""
    (tmp_path / "1.json").write_text('{"id": 1, "title": "a", "status": "b", "Zone": 1}\n')
    [row] = lake.rows(f"select * from json.`{tmp_path}`")
    assert list(row) == ["Zone", "id", "status", "title"]


def test_a_mask_is_not_read_by_the_order_of_names(project: Project, landed: dict[str, str]) -> None:
    qlik, sqlserver, openedge = landed.values()
    key = "unique_key=['id']"
    some = "columns=['id', 'title']"
    calls = {
        f"qlik_change_table({qlik}, {key})": "`header_columns`",
        f"qlik_change_table({qlik}, {key}, columns={COLUMNS})": "`header_columns`",
        f"qlik_change_table({qlik}, {key}, {some}, header_columns=7)": "`columns`",
        f"sqlserver_change_table({sqlserver}, {key})": "`columns`",
        f"sqlserver_change_table({sqlserver}, {key}, {some})": "`columns`",
        f"sqlserver_change_table({sqlserver}, {key}, columns={COLUMNS}, earlier={sqlserver})": (
            "Land the files with `afterimage land --copy`. Got: `earlier`"
        ),
        f"openedge_change_table({openedge}, {key})": "`columns`",
        f"openedge_change_table({openedge}, {key}, {some})": "`columns`",
    }
    for said, remedy in zip(project.refusals(list(calls)), calls.values(), strict=True):
        assert "Spark sorts" in said
        assert remedy in said
        assert "afterimage land --copy" in said


@pytest.fixture(scope="module")
def staged(project: Project, landed: dict[str, str]) -> None:
    for macro, place in landed.items():
        further = ", header_columns=7" if macro == "qlik_change_table" else ""
        call = f"{macro}({place}, unique_key=['id'], columns={COLUMNS}{further})"
        project.stream(f"stg_{macro}", call)
    project.dbt("run")


@pytest.mark.usefixtures("staged")
@pytest.mark.parametrize("macro", ROWS)
def test_a_mask_is_read_by_the_order_given(macro: str, lake: Lake) -> None:
    [change] = lake.rows(f"select * from {SCHEMA}.stg_{macro} where operation = 'update'")
    assert change["changed_columns"] == ["title"]
    assert change["after"] == {name: ROWS[macro][name] for name in COLUMNS}
    if macro == "qlik_change_table":
        # Title was set to NULL; status was not captured.
        assert change["absent_columns"] == ["status"]


def test_a_file_with_all_fields_lets_runs_go_on_where_others_were_moved_away(
    project: Project, lake: Lake, tmp_path: Path
) -> None:
    """Spark knows the columns by the files that are there."""
    folder, archive = tmp_path / "prices", tmp_path / "archive"
    folder.mkdir()
    archive.mkdir()
    place = relation(f"`{folder}`", "json")
    project.stream("stg_prices", f"dated_copies({place}, ['id'], copy_column='day')")

    def land(day: int, age: int, **values: Any) -> Path:
        path = folder / f"{day}.json"
        path.write_text(json.dumps({"day": f"2026-01-0{day}", "id": 1, **values}) + "\n")
        os.utime(path, (path.stat().st_mtime - age,) * 2)
        return path

    def amounts() -> list[float]:
        query = f"select after.amount from {SCHEMA}.stg_prices order by change_seq"
        return [one["amount"] for one in lake.rows(query)]

    first = land(1, 7200, amount=9.5, manager_id=7, email="a@x")
    project.dbt("run", "--select", "stg_prices")
    land(2, 0, amount=10, manager_id=None)
    project.dbt("run", "--select", "stg_prices")
    assert amounts() == [9.5, 10.0]
    first = first.rename(archive / first.name)
    for _ in range(2):
        with pytest.raises(DbtError) as stopped:
            project.dbt("run", "--select", "stg_prices")
        assert "dropped: email; of another type: amount (double, now bigint), manager_id" in str(
            stopped.value
        )
    # It keeps its time, so it is not read again.
    first.rename(folder / first.name)
    staged = f"select change_id, ingested_at from {SCHEMA}.stg_prices order by change_id"
    before = lake.rows(staged)
    project.dbt("run", "--select", "stg_prices")
    assert lake.rows(staged) == before
    land(3, 0, amount=11, manager_id=8, email="b@x")
    project.dbt("run", "--select", "stg_prices")
    assert amounts() == [9.5, 10.0, 11.0]
