"""What `cursor.py` replaces in dbt-spark still exists, and errors are readable."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator

import pyspark
import pytest
from dbt.adapters.spark import session as dbt_spark_session
from dbt_common.exceptions import DbtDatabaseError
from pyspark.sql import SparkSession

from dbt_afterimage.runtime import cursor
from dbt_afterimage.runtime.cursor import AfterimageCursor
from dbt_afterimage.runtime.spark_errors import is_overtaken_listing, without_stack


@pytest.fixture
def original() -> Iterator[type]:
    """dbt-spark's own cursor, restored for the time of a test."""
    own = AfterimageCursor.__mro__[1]
    installed = dbt_spark_session.Cursor
    setattr(dbt_spark_session, "Cursor", own)  # noqa: B010 (a class cannot be assigned to for mypy)
    yield own
    setattr(dbt_spark_session, "Cursor", installed)  # noqa: B010


def test_the_replaced_class_is_dbt_sparks_own(original: type) -> None:
    assert original.__module__ == "dbt.adapters.spark.session"
    assert original.__name__ == "Cursor"
    assert original is not AfterimageCursor


@pytest.mark.parametrize("method", ["execute", "fetchall", "fetchone"])
def test_replaced_methods_have_the_signatures_of_dbt_sparks(original: type, method: str) -> None:
    theirs = inspect.signature(getattr(original, method))
    ours = inspect.signature(getattr(AfterimageCursor, method))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [p.kind for p in ours.parameters.values()] == [
        p.kind for p in theirs.parameters.values()
    ]


def test_execute_takes_a_statement_and_its_values(original: type) -> None:
    parameters = inspect.signature(original.execute).parameters.values()  # type: ignore[attr-defined]
    assert [(p.name, p.kind.name) for p in parameters] == [
        ("self", "POSITIONAL_OR_KEYWORD"),
        ("sql", "POSITIONAL_OR_KEYWORD"),
        ("parameters", "VAR_POSITIONAL"),
    ]


def test_cursor_holds_the_settings_and_the_result_where_ours_puts_them(original: type) -> None:
    theirs = original(server_side_parameters={"spark.master": "local[1]"})
    assert theirs.server_side_parameters == {"spark.master": "local[1]"}
    assert theirs._df is None
    assert theirs.fetchall() is None
    assert theirs.description == []


@pytest.mark.usefixtures("original")
def test_connections_use_the_cursor_of_the_module() -> None:
    cursor.install()
    connection = dbt_spark_session.Connection(server_side_parameters={"a": "b"})
    opened = connection.cursor()
    assert type(opened) is AfterimageCursor
    assert opened.server_side_parameters == {"a": "b"}


@pytest.mark.usefixtures("original")
def test_second_install_changes_nothing() -> None:
    cursor.install()
    first = dbt_spark_session.Cursor
    cursor.install()
    assert dbt_spark_session.Cursor is first is AfterimageCursor


Rows = list[tuple[object, ...]]


@pytest.fixture
def execute(spark: SparkSession) -> Callable[..., Rows]:
    """A function that runs a statement as dbt does."""
    assert spark

    def execute(sql: str, *parameters: object) -> Rows:
        opened = AfterimageCursor(server_side_parameters={})
        opened.execute(sql, *parameters)
        return [tuple(row) for row in opened.fetchall() or []]

    return execute


def test_values_are_bound_and_a_statement_without_values_keeps_its_percents(
    execute: Callable[..., Rows],
) -> None:
    assert execute("select %s, %s", "'a'", 1) == [("a", 1)]
    assert execute("select '100%', '%s'") == [("100%", "%s")]


def test_fetchone_gives_the_first_row_and_a_result_has_a_description(spark: SparkSession) -> None:
    opened = AfterimageCursor(server_side_parameters={})
    opened.execute("select 1 as one, 'a' as word from range(2)")
    assert [column[:2] for column in opened.description] == [("one", "int"), ("word", "string")]
    assert tuple(opened.fetchone() or ()) == (1, "a")


SPARK_4 = not pyspark.__version__.startswith("3.")
FAILURES = {
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere`": "select * from nowhere",
    "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'": "selec 1",
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column"
    f"{', variable,' if SPARK_4 else ''} or function parameter with name `b`": (
        "select 1 as a from (select 2 as c) where b = 1"
    ),
    "[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] Cannot resolve": (
        "create temporary view broken as\nwith a as (\n    select 1 as b\n)\n"
        "select * from a where array(b) <=> map(b, b)"
    ),
    "[USER_RAISED_EXCEPTION] while" if SPARK_4 else "java.lang.RuntimeException: while": (
        "select raise_error(c1) from values ('while optimizing') as cells (c1)"
    ),
    "[USER_RAISED_EXCEPTION] in a" if SPARK_4 else "org.apache.spark.SparkException: Job": (
        "select raise_error('in a task') from range(1)"
    ),
}


@pytest.mark.parametrize(("beginning", "sql"), FAILURES.items())
def test_error_begins_with_the_problem_and_shows_no_java_frames_and_no_plan(
    execute: Callable[..., Rows], beginning: str, sql: str
) -> None:
    with pytest.raises(DbtDatabaseError) as failure:
        execute(sql)
    text = str(failure.value.msg)
    assert text.startswith(beginning)
    assert "\tat " not in text
    assert "Relation" not in text
    assert "ViewCommand" not in text
    assert len(text.splitlines()) <= 5


def test_error_of_a_task_names_its_cause(execute: Callable[..., Rows]) -> None:
    # Spark 4 says no more than the cause.
    cause = r"\[USER_RAISED_EXCEPTION\]" if SPARK_4 else "Caused by: .*RuntimeException:"
    with pytest.raises(DbtDatabaseError, match=rf"{cause} in a task"):
        execute("select raise_error('in a task') from range(1)")


def test_error_names_the_place_in_the_statement(execute: Callable[..., Rows]) -> None:
    with pytest.raises(DbtDatabaseError, match="line 3 pos 6"):
        execute("select 1 as a\nfrom (select 2 as c)\nwhere b = 1")


def test_a_long_statement_logs_its_model_and_progress(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(cursor, "PROGRESS_SECONDS", 0.2)
    monkeypatch.setattr(cursor._logger, "info", said.append)

    def slow(number: int) -> int:
        time.sleep(1)
        return number

    spark.udf.register("slow", slow, "bigint")
    statement = AfterimageCursor(server_side_parameters={})
    statement.execute(
        '/* {"app": "dbt", "node_id": "model.shop.orders"} */ '
        "create or replace temporary view nothing as select 1"
    )
    quick = len(said)
    statement.execute(
        '/* {"app": "dbt", "node_id": "model.shop.orders"} */ '
        "cache table slow_one as select slow(id) from range(0, 2, 1, 1)"
    )
    spark.sql("drop view slow_one")
    assert len(said) > quick + 3
    assert all(line.startswith("shop.orders: still running, ") for line in said)
    # Any line: the first and the last may catch Spark before its task or after it.
    assert any("0 of 1 tasks of the present stages done" in line for line in said)


def test_only_a_listing_that_races_another_run_is_repeated() -> None:
    gone = "java.io.IOException: Invalid directory or I/O error occurred for dir: /w/t/metadata"
    assert is_overtaken_listing("/* dbt */ show tables in afterimage", gone)
    assert not is_overtaken_listing("select * from afterimage.t", gone)
    assert not is_overtaken_listing("show tables in afterimage", "SCHEMA_NOT_FOUND")


def test_files_that_a_load_has_put_down_are_not_said_to_be_gone() -> None:
    """They are in the project's folder, which the machines of a cluster may not see."""
    place = "/srv/my shop/.afterimage/landing/raw.prices/5f/0"
    for text in (
        f"[PATH_NOT_FOUND] Path does not exist: hdfs://name-node{place}.",
        f"java.io.FileNotFoundException: File file:{place}/part-0.parquet does not exist",
    ):
        said = without_stack(text)
        assert "does not see the project's folder" in said
        assert "There is no file now" not in said
    away = without_stack("[PATH_NOT_FOUND] Path does not exist: file:/srv/landing/prices.")
    assert "There is no file now" in away


def test_a_compaction_while_a_run_writes_is_named() -> None:
    said = without_stack(
        "org.apache.iceberg.exceptions.ValidationException: Cannot commit, missing data files:"
        " [s3://lake/crm/customers_history/data/closed_by=null/00000-1.parquet]"
    )
    assert "A compaction or another run has changed the table meanwhile." in said


def test_a_metastore_that_refuses_a_new_column_needs_a_setting() -> None:
    """https://github.com/apache/iceberg/issues/3747"""
    said = without_stack(
        "java.lang.RuntimeException: InvalidOperationException(message:The following columns have"
        " types incompatible with the existing columns in their respective positions :\nidd1)\n"
        "\tat org.apache.iceberg.hive.HiveTableOperations.doCommit(HiveTableOperations.java:191)"
    )
    assert "\tat " not in said
    assert "hive.metastore.disallow.incompatible.col.type.changes to false" in said
