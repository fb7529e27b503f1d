"""dbt-spark's session cursor, with our session in it.

dbt-spark opens its Spark session inside `Cursor.execute` and offers no hook there, so `install`
replaces that one class with a subclass. Everything that depends on the internals of dbt-spark's
cursor is in this file, and `test_cursor.py` checks it against the installed version.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark import session as dbt_spark_session
from dbt_common.exceptions import DbtDatabaseError
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Row, SparkSession

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.session import open_session
from dbt_afterimage.runtime.spark_errors import is_overtaken_listing, without_plan, without_stack
from dbt_afterimage.runtime.warehouse import exclusive_writes

# dbt puts a comment into each statement that names its model.
_NODE = re.compile(r'"node_id": "[a-z_]+\.([^"]+)"')
# Shorter statements need no progress line; dbt itself reports when a model begins and ends.
PROGRESS_SECONDS = 30.0
_PY4J_PREFIX = re.compile(r"An error occurred while calling \S+\s*\n: ")


_logger = AdapterLogger("Afterimage")


class AfterimageCursor(dbt_spark_session.Cursor):
    """Runs statements in the process's only session, which has Afterimage's UDFs."""

    def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement.

        Args:
            sql: The statement.
            *parameters: Values for its `%s` places, already rendered by dbt-spark.

        Raises:
            DbtDatabaseError: Spark refused or failed the statement.
        """
        if parameters:
            sql = sql % parameters
        with _readable_errors():
            spark = open_session(self.server_side_parameters)
        with _readable_errors(), exclusive_writes(spark, sql), _progress(spark, sql):
            try:
                self._df = spark.sql(sql)
            except Py4JJavaError as error:
                if not is_overtaken_listing(sql, str(error)):
                    raise
                self._df = spark.sql(sql)

    def fetchall(self) -> list[Row] | None:
        """Return all rows. The query runs only now, so it also fails only now."""
        with _readable_errors():
            rows: list[Row] | None = super().fetchall()
        return rows

    def fetchone(self) -> Row | None:
        """Return the first row."""
        with _readable_errors():
            return super().fetchone()


@contextmanager
def _progress(spark: SparkSession, sql: str) -> Iterator[None]:
    """Report every 30 seconds that a statement still runs, its model, and Spark's progress."""
    node = _NODE.search(sql)
    started = time.monotonic()

    def tell() -> None:
        seconds = time.monotonic() - started
        name = node[1] if node else "a statement"
        _logger.info(f"{name}: still running, {seconds:.0f} s; {tasks(spark)}")

    with telling(PROGRESS_SECONDS, tell):
        yield


@contextmanager
def telling(every: float, tell: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again, in a thread of its own, until the block ends.

    Args:
        every: The seconds between two calls.
        tell: The function. An error ends the calls.
    """
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(every):
            tell()

    teller = threading.Thread(target=repeat, name="afterimage-progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def tasks(spark: SparkSession) -> str:
    """Return how many of the tasks in Spark's active stages are done, including other models'."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    if not known:
        return "Spark is planning"
    done = sum(stage.numCompletedTasks for stage in known)
    return f"{done} of {sum(stage.numTasks for stage in known)} tasks of the present stages done"


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise DbtDatabaseError(readable(error)) from None
    except (Py4JNetworkError, ConnectionError) as error:
        raise DbtDatabaseError(
            f"the Java process that runs Spark has ended; run dbt again. ({error})"
        ) from None
    except AfterimageError as error:
        raise DbtDatabaseError(str(error)) from None


def readable(error: BaseException) -> str:
    """Return Spark's error message without plan and Java stack; causes stay."""
    text = _PY4J_PREFIX.sub("", str(error), count=1)
    if isinstance(error, AnalysisException) and not isinstance(error, ParseException):
        text = without_plan(text)
    return without_stack(text)


def install() -> None:
    """Make dbt-spark's session connections use `AfterimageCursor`; repeated calls do no harm."""
    setattr(dbt_spark_session, "Cursor", AfterimageCursor)  # noqa: B010 (a class cannot be assigned to for mypy)
