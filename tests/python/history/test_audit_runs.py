"""Which changes a run of an audit reads, and which rows it leaves unchanged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, contract_columns
from histories import DAY, change

COLUMNS = contract_columns("id: int, name: string")


def write_model(project: Project, **config: Any) -> None:
    config = {"materialized": "audit", "unique_key": ["id"], **config}
    project.model("people_audit", f"select * from {SCHEMA}.audited_people", **config)


@pytest.fixture
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    """An audit of Ada, who was renamed, and of Ben."""
    project = make_project("audit_runs")
    write_model(project)
    rows = [
        change(10, "insert", (1, "Ada"), 0),
        change(20, "insert", (2, "Ben"), 0),
        change(30, "update", (1, "Eva"), 0),
    ]
    lake.create("audited_people", COLUMNS, rows)
    project.dbt("run", "--full-refresh")
    return project


def names(lake: Lake) -> list[tuple[Any, ...]]:
    """Return the audit's rows about names."""
    rows = lake.rows(
        f"select * from {SCHEMA}.people_audit where column_name = 'name' order by change_seq, id"
    )
    return [(r["id"], r["operation"], r["old_value"], r["new_value"]) for r in rows]


def snapshots(lake: Lake) -> int:
    return len(lake.rows(f"select * from {SCHEMA}.people_audit.snapshots"))


@pytest.mark.slow
def test_a_late_change_moves_what_the_next_one_changed(project: Project, lake: Lake) -> None:
    lake.append("audited_people", COLUMNS, [change(25, "update", (1, "Ann"), 1)])
    project.dbt("run")
    assert names(lake) == [
        (1, "insert", None, "Ada"),
        (2, "insert", None, "Ben"),
        (1, "update", "Ada", "Ann"),
        (1, "update", "Ann", "Eva"),
    ]


@pytest.mark.minutes
def test_a_change_without_effect_after_a_late_one_is_removed(project: Project, lake: Lake) -> None:
    lake.append("audited_people", COLUMNS, [change(25, "update", (1, "Eva"), 1)])
    project.dbt("run")
    assert names(lake) == [
        (1, "insert", None, "Ada"),
        (2, "insert", None, "Ben"),
        (1, "update", "Ada", "Eva"),
    ]


@pytest.mark.slow
def test_a_row_with_another_key_is_compared_with_the_row_that_left(
    project: Project, lake: Lake
) -> None:
    """Its before-image has the key alone. A late change of the old key says what the row was."""
    at_new_key = (
        f"select * from {SCHEMA}.people_audit where id = 3 order by change_seq, column_name"
    )

    def shown() -> list[tuple[Any, ...]]:
        names = ("column_name", "old_value", "new_value", "old_value_from")
        return [tuple(row[name] for name in names) for row in lake.rows(at_new_key)]

    moved = change(50, "update", (3, "Eva"), 1) | {"before": (1, None)}
    lake.append("audited_people", COLUMNS, [moved])
    project.dbt("run")
    assert shown() == [("id", "1", "3", "before_image")]
    lake.append("audited_people", COLUMNS, [change(40, "update", (1, "Ida"), 2)])
    project.dbt("run")
    assert shown() == [
        ("id", "1", "3", "before_image"),
        ("name", "Ida", "Eva", "version_before"),
    ]
    # A run over the new key alone looks at the old one too.
    lake.append("audited_people", COLUMNS, [change(55, "update", (3, "Eli"), 3)])
    project.dbt("run")
    later = ("name", "Eva", "Eli", "version_before")
    assert shown() == [
        ("id", "1", "3", "before_image"),
        ("name", "Ida", "Eva", "version_before"),
        later,
    ]
    # A reload may move behind, as Qlik's do; the run sees its new place alone.
    lake.spark.sql(
        f"update {SCHEMA}.audited_people set change_seq = '{60:035d}.r1',"
        f" ingested_at = timestamp '{DAY + timedelta(hours=4)}' where change_id = 'c40'"
    )
    project.dbt("run")
    assert shown() == [("id", "1", "3", "before_image"), later]


@pytest.mark.slow
def test_rows_from_before_a_pruned_stream_are_not_lost(project: Project, lake: Lake) -> None:
    """A staging table that is built again has only the changes that the raw table still holds."""
    ada, ben, eva = (
        change(10, "insert", (1, "Ada"), 1),
        change(20, "insert", (2, "Ben"), 1),
        change(40, "update", (1, "Eva"), 2),
    )
    # Loads have no place, and share it with those of other keys.
    kim, lea = (change(5, "load", (3, "Kim"), 1), change(6, "load", (4, "Lea"), 2))
    kim["change_seq"] = lea["change_seq"] = ""
    # A change that another of its key stands before was taken out on purpose.
    lake.create("audited_people", COLUMNS, [ada, ben, kim])
    project.dbt("run")
    first = [(3, "load", None, "Kim"), (1, "insert", None, "Ada"), (2, "insert", None, "Ben")]
    assert names(lake) == first
    lake.create("audited_people", COLUMNS, [eva, lea, change(50, "update", (3, "Kai"), 2)])
    with pytest.raises(
        DbtError, match=r"4 rows of \S+ would be lost, .* --full-refresh --select p"
    ):
        project.dbt("run")
    assert names(lake) == first
    assert lake.rows(f"show tables in {SCHEMA} like 'people_audit__scratch*'") == []


@pytest.mark.slow
def test_rows_that_a_pruned_stream_lacks_behind_a_load_are_not_lost(
    project: Project, lake: Lake
) -> None:
    """The raw table keeps the copy of a load, and of the changes only the latest."""
    ada, eva, ida, kim = (
        change(5, "load", (1, "Ada"), 1) | {"change_seq": ""},
        change(10, "update", (1, "Eva"), 1),
        change(90, "update", (1, "Ida"), 1),
        change(99, "update", (1, "Kim"), 3),
    )
    lake.create("audited_people", COLUMNS, [ada, eva, ida])
    project.dbt("run", "--full-refresh")
    known = names(lake)
    assert known == [
        (1, "load", None, "Ada"),
        (1, "update", "Ada", "Eva"),
        (1, "update", "Eva", "Ida"),
    ]
    lake.create("audited_people", COLUMNS, [ada, ida, kim])
    with pytest.raises(
        DbtError, match=r"1 rows of \S+ would be lost, .* --full-refresh --select p"
    ):
        project.dbt("run")
    assert names(lake) == known


@pytest.mark.slow
def test_a_column_that_the_stream_no_longer_has_is_an_error(project: Project, lake: Lake) -> None:
    """Its rows would be deleted. A column that is added is no error."""
    wider = contract_columns("id: int, name: string, city: string")
    ada = [(10, "insert", (1, "Ada", "Rome"), 1), (30, "update", (1, "Eva", "Rome"), 1)]
    lake.create("audited_people", wider, [change(*one) for one in ada])
    project.dbt("run")
    ada += [(40, "update", (1, "Ida", "Rome"), 2)]
    narrower = [change(number, kind, row[:2], run) for number, kind, row, run in ada]
    lake.create("audited_people", COLUMNS, narrower)
    with pytest.raises(DbtError, match=r"no longer has the column `city`.* --full-refresh"):
        project.dbt("run")
    project.dbt("run", "--full-refresh")
    assert [new for _, _, _, new in names(lake)] == ["Ada", "Eva", "Ida"]


def test_a_delete_shows_what_the_row_was(project: Project, lake: Lake) -> None:
    lake.append("audited_people", COLUMNS, [change(40, "delete", (1, None), 1)])
    project.dbt("run")
    assert names(lake)[3:] == [(1, "delete", "Eva", None)]


@pytest.mark.minutes
def test_a_truncation_ends_the_rows_of_all_keys(project: Project, lake: Lake) -> None:
    lake.append("audited_people", COLUMNS, [change(40, "truncate", None, 1)])
    project.dbt("run")
    assert names(lake)[3:] == [(1, "truncate", "Eva", None), (2, "truncate", "Ben", None)]


@pytest.mark.slow
def test_a_run_without_effect_makes_no_commit(project: Project, lake: Lake) -> None:
    before = snapshots(lake)
    project.dbt("run")
    lake.append("audited_people", COLUMNS, [change(40, "update", (1, "Eva"), 1)])
    project.dbt("run")
    assert snapshots(lake) == before
    lake.append("audited_people", COLUMNS, [change(50, "update", (1, "Ida"), 2)])
    project.dbt("run")
    assert snapshots(lake) == before + 1


@pytest.mark.minutes
def test_an_audit_that_was_rolled_back_needs_a_full_refresh(project: Project, lake: Lake) -> None:
    first = lake.rows(f"select snapshot_id from {SCHEMA}.people_audit.snapshots")[-1]
    lake.append("audited_people", COLUMNS, [change(50, "update", (1, "Ida"), 2)])
    project.dbt("run")
    lake.spark.sql(
        f"call system.rollback_to_snapshot('{SCHEMA}.people_audit', {first['snapshot_id']})"
    )
    with pytest.raises(DbtError, match="was rolled back"):
        project.dbt("run")


def test_an_audit_without_a_key_is_an_error(project: Project) -> None:
    write_model(project, unique_key=None)
    with pytest.raises(DbtError, match="`unique_key` is missing in the model's config"):
        project.dbt("run")


@pytest.mark.minutes
def test_a_table_of_another_materialization_is_not_replaced(project: Project, lake: Lake) -> None:
    """It may be a landed one of this name, of which nobody has another copy."""
    lake.spark.sql(f"drop table {SCHEMA}.people_audit")
    lake.spark.sql(f"create table {SCHEMA}.people_audit using {FORMAT} as select 1 as id")
    with pytest.raises(DbtError, match="was not built by this materialization") as refused:
        project.dbt("run")
    said = " ".join(str(refused.value).split())
    assert "such as a landed one, give the model another `alias`" in said
    assert "--full-refresh" not in said


def test_other_names_of_our_columns_need_a_full_refresh(project: Project, lake: Lake) -> None:
    write_model(project, meta_column_names={"operation": "_operation"})
    lake.append("audited_people", COLUMNS, [change(50, "update", (1, "Ida"), 1)])
    with pytest.raises(DbtError, match=r"options have changed.*full-refresh"):
        project.dbt("run")
    project.dbt("run", "--full-refresh")
    write_model(project, meta={"meta_column_names": {"operation": "_operation"}})
    project.dbt("run")


@pytest.mark.slow
def test_a_var_of_histories_does_not_stop_an_audit(project: Project, lake: Lake) -> None:
    """No row of an audit depends on `load_valid_from`. A full refresh could lose rows."""
    variables = ("--vars", "{afterimage_load_valid_from: '1970-01-01'}")
    lake.append("audited_people", COLUMNS, [change(50, "update", (1, "Ida"), 1)])
    project.dbt("run", *variables)
    assert names(lake)[-1] == (1, "update", "Eva", "Ida")
    project.dbt("run", "--full-refresh", *variables)
    lake.append("audited_people", COLUMNS, [change(60, "update", (1, "Ann"), 2)])
    project.dbt("run")
    assert names(lake)[-1] == (1, "update", "Ida", "Ann")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "value"), [("double", 2.5), ("string", "x")])
def test_a_key_of_another_type_needs_a_full_refresh(
    kind: str, value: Any, project: Project, lake: Lake
) -> None:
    """The staging model alone was built again."""
    before = names(lake)
    columns = contract_columns(f"id: {kind}, name: string")
    lake.create("audited_people", columns, [change(40, "insert", (value, "Cy"), 1)])
    with pytest.raises(DbtError, match=f"`id` is int in .* but {kind} in the stream.*full-refresh"):
        project.dbt("run")
    assert names(lake) == before
    project.dbt("run", "--full-refresh")
    assert names(lake) == [(value, "insert", None, "Cy")]


@pytest.mark.slow
def test_a_run_leaves_no_scratch_table(project: Project, lake: Lake) -> None:
    lake.append("audited_people", COLUMNS, [change(50, "update", (1, "Ida"), 1)])
    project.dbt("run")
    assert lake.rows(f"show tables in {SCHEMA} like 'people_audit__scratch_*'") == []


@pytest.mark.minutes
def test_a_run_compacts_the_files_of_runs_when_there_are_many(project: Project, lake: Lake) -> None:
    write_model(project, compact_after=3)
    for number in range(1, 5):
        changed = change(50 + number, "update", (1, f"name {number}"), number)
        lake.append("audited_people", COLUMNS, [changed])
        project.dbt("run")
    newest = lake.rows(
        f"select operation from {SCHEMA}.people_audit.snapshots order by committed_at desc limit 1"
    )
    assert newest == [{"operation": "replace"}]
    assert names(lake)[-1] == (1, "update", "name 3", "name 4")
    lake.append("audited_people", COLUMNS, [change(60, "delete", (1, None), 5)])
    project.dbt("run")
    assert names(lake)[-1] == (1, "delete", "name 4", None)


def test_a_raw_table_is_not_a_change_stream(project: Project, lake: Lake) -> None:
    lake.create("audited_people", {"header__change_seq": "string", "id": "int"}, [])
    with pytest.raises(DbtError, match=r"audit people_audit: this is not a change stream: missing"):
        project.dbt("run", "--full-refresh")
