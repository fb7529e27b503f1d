"""dbt-spark's connections, with readable errors on a Thrift server and our cursor in a session.

Only this file and `cursor.py` depend on dbt-spark's internals; `test_serve.py` and `test_cursor.py`
check them against the installed version.
"""

from __future__ import annotations

import re
from contextlib import suppress
from multiprocessing.context import SpawnContext
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.spark import connections
from dbt.adapters.spark.impl import SparkAdapter
from dbt.flags import get_flags
from dbt_common.exceptions import DbtDatabaseError

from dbt_afterimage.runtime.spark_errors import is_overtaken_listing, without_plan, without_stack

# The server lists the classes of the Java exceptions that it wraps, then repeats each text.
_WRAPPING = re.compile(r"[\w.]+HiveSQLException: Error running query: (?:\[[\w.]+\] )?")
_CLASS = re.compile(r"^(?:[\w$]+\.)+\w+:\s*")
# If the text begins with Spark's own name for the error, the class adds nothing.
_NAMED = re.compile(_CLASS.pattern + r"(?=\[)")


class AfterimageConnection(connections.PyhiveConnectionWrapper):
    """Runs statements on a Thrift server.

    Attributes:
        is_lost: Whether something else than the server's answer has ended a statement.
    """

    is_lost = False

    def cursor(self) -> AfterimageConnection:
        """Close the statement before, and be the cursor of the next one.

        dbt-spark leaves it open. The server would keep its plan, some megabytes, as long as the
        connection is open, and `release` below keeps that for all models of a thread.
        """
        if self._cursor:
            # The server may have forgotten it. Were the connection lost, the next one would say so.
            with suppress(Exception):
                self._cursor.close()
        super().cursor()
        return self

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        """Run one statement to its end.

        Args:
            sql: The statement.
            bindings: Values for its `%s` places.

        Raises:
            DbtDatabaseError: Spark refused or failed the statement.
        """
        for may_try_again in (True, False):
            try:
                super().execute(sql, bindings)
                return
            except DbtDatabaseError as error:
                text = str(error.msg)
                if not (may_try_again and is_overtaken_listing(sql, text)):
                    raise DbtDatabaseError(readable(text)) from None
            except Exception:
                self.is_lost = True
                raise

    def close(self) -> None:
        """Close the connection. One that is gone must not take dbt's results with it."""
        with suppress(Exception):
            super().close()

    def fetchall(self) -> list[Any]:
        """Return all rows; none for a statement that has no result."""
        try:
            return list(super().fetchall())
        except TypeError:
            # Such a statement has a column `Result` without values, not even an empty list.
            if [name for name, *_ in self.description] != ["Result"]:
                raise
            return []


def readable(text: str) -> str:
    """Return the server's error message without plan, Java stack and wrapping.

    Args:
        text: The error message of an operation.
    """
    first, *causes = without_stack(_WRAPPING.sub("", text, count=1)).split("\nCaused by: ")
    first = without_plan(_NAMED.sub("", first))
    said = [first]
    for cause in causes:
        own = without_plan(_CLASS.sub("", cause))
        if own not in first:
            said.append(cause)
    return "\nCaused by: ".join(said)


# `compile` and `generate` (of docs) query the columns of tables.
_ASK_SPARK = ("build", "run", "test", "show", "seed", "run-operation", "compile", "generate")


_is_expected = False


def start_with_the_next() -> None:
    """Start Spark with the next command, though dbt itself will not need it: its caller will."""
    global _is_expected
    _is_expected = True


def _command() -> str | None:
    return getattr(get_flags(), "WHICH", None)  # type: ignore[no-untyped-call]


class AfterimageConnectionManager(connections.SparkConnectionManager):
    """Opens dbt-spark's connections."""

    def __init__(self, profile: Any, mp_context: SpawnContext) -> None:
        """Start Spark while dbt still parses the project, if the command needs it.

        Args:
            profile: dbt's parsed profile.
            mp_context: dbt's own.
        """
        super().__init__(profile, mp_context)
        self._method = profile.credentials.method
        is_session = self._method == connections.SparkConnectionMethod.SESSION
        if is_session and (_is_expected or _command() in _ASK_SPARK):
            from dbt_afterimage.runtime.session import start_early

            start_early(profile.credentials.server_side_parameters)

    def release(self) -> None:
        """Keep a Thrift connection for the next model of the thread, unless it is lost.

        Each connection is a session on the server, with its own client of the catalog.
        """
        connection = self.get_if_exists()
        is_open = connection is not None and connection.state == ConnectionState.OPEN
        is_thrift = self._method == connections.SparkConnectionMethod.THRIFT
        if not is_thrift or (connection and is_open and connection.handle.is_lost):
            super().release()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection; the first one to a session loads PySpark.

        A command on a Thrift server does not load it, which saves a tenth of its time.

        Args:
            connection: The connection; its credentials say what to open.
        """
        if connection.credentials.method == connections.SparkConnectionMethod.SESSION:
            from dbt_afterimage.runtime import cursor

            cursor.install()
        return super().open(connection)


def install() -> None:
    """Make dbt-spark use the two classes; repeated calls do no harm."""
    setattr(connections, "PyhiveConnectionWrapper", AfterimageConnection)  # noqa: B010 (a class cannot be assigned to for mypy)
    setattr(SparkAdapter, "ConnectionManager", AfterimageConnectionManager)  # noqa: B010
    # So that macros can read what dbt knows of a schema, without a statement.
    SparkAdapter._available_ |= {"list_relations"}
