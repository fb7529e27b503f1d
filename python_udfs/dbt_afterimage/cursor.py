"""dbt-spark's session cursor, with our session in it.

dbt-spark opens its Spark session inside `Cursor.execute` and offers no hook there, so `install`
puts a subclass in the place of that one class. Everything that depends on dbt-spark's inside is in
this file, and `test_cursor.py` holds it against the installed version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.spark import session as dbt_spark_session
from dbt_common.exceptions import DbtDatabaseError
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Row

from dbt_afterimage.session import open_session
from dbt_afterimage.warehouse import exclusive_writes

_STACK_LINE = re.compile(r"\s+at |\t\.\.\. \d+ more|Driver stacktrace:$")
# What Spark appends to an analysis error: the statement's plan, thousands of lines of a wide one.
_PLAN = re.compile(r";\n'?[A-Z].*", re.DOTALL)
_PY4J_PREFIX = re.compile(r"An error occurred while calling \S+\s*\n: ")


class AfterimageCursor(dbt_spark_session.Cursor):
    """Runs statements in the process's one session, which knows Afterimage's UDFs."""

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
        spark = open_session(self.server_side_parameters)
        with _readable_errors(), exclusive_writes(spark, sql):
            self._df = spark.sql(sql)

    def fetchall(self) -> list[Row] | None:
        """Return all rows; a query runs only now, so it also fails only now."""
        with _readable_errors():
            rows: list[Row] | None = super().fetchall()
        return rows

    def fetchone(self) -> Row | None:
        """Return the first row."""
        with _readable_errors():
            return super().fetchone()


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
    except OSError as error:  # of the warehouse's lock
        raise DbtDatabaseError(str(error)) from None


def readable(error: BaseException) -> str:
    """Return what Spark says went wrong, without plan and Java stack: causes stay, frames go."""
    text = _PY4J_PREFIX.sub("", str(error), count=1)
    if isinstance(error, AnalysisException) and not isinstance(error, ParseException):
        text = _PLAN.sub("", text)
    lines = [line for line in text.splitlines() if not _STACK_LINE.match(line)]
    return "\n".join(line for line in lines if line.strip())


def install() -> None:
    """Make dbt-spark's session connections use `AfterimageCursor`; more than once does no harm."""
    setattr(dbt_spark_session, "Cursor", AfterimageCursor)  # noqa: B010 (a class cannot be assigned to for mypy)
