"""Lets several dbt processes share one folder of Iceberg tables.

An Iceberg catalog of type `hadoop` commits by renaming a file. Object stores and HDFS refuse a
rename onto a file that is there; a local disk does not, so two processes that commit to one table
at the same moment could lose one of the commits. Writing statements therefore take turns between
processes. Threads of one process need not: Iceberg has a lock for them.
"""

from __future__ import annotations

import fcntl
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITES = re.compile(
    r"""
    (?: \s | --[^\n]*\n | /\*(?:[^*]|\*(?!/))*\*/ )*  # dbt's own comment stands before all else
    (?:
        (?: create \s+ (?:or\s+replace\s+)? (?:external\s+)? table
          | merge | insert | update | delete | drop | alter | truncate | replace | call ) \b
        | (?: with | from ) \b .* \b
          (?: insert\s+(?:into|overwrite) | merge\s+into | delete\s+from | update\s.*\sset ) \b
    )
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


class _FolderLock:
    """A lock between processes that any number of this process's threads may hold together."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".afterimage-lock"
        self._holders = 0
        self._guard = threading.Lock()
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        with self._guard:
            if self._holders == 0:
                self._file = self._path.open("w")
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._holders += 1

    def release(self) -> None:
        with self._guard:
            self._holders -= 1
            if self._holders == 0 and self._file is not None:
                self._file.close()
                self._file = None


_locks: dict[Path, _FolderLock] = {}
_locks_guard = threading.Lock()


@contextmanager
def exclusive_writes(spark: SparkSession, sql: str) -> Iterator[None]:
    """Hold the warehouse folder's lock while a writing statement runs on a local Iceberg catalog.

    Args:
        spark: The session that runs the statement.
        sql: The statement.
    """
    folder = _local_warehouse(spark) if _WRITES.match(sql) else None
    if folder is None:
        yield
        return
    with _locks_guard:
        lock = _locks.setdefault(folder, _FolderLock(folder))
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _local_warehouse(spark: SparkSession) -> Path | None:
    catalog = spark.conf.get("spark.sql.defaultCatalog", "spark_catalog")
    prefix = f"spark.sql.catalog.{catalog}"
    if spark.conf.get(f"{prefix}.type", None) != "hadoop":
        return None
    folder = local_folder(str(spark.conf.get(f"{prefix}.warehouse", "")))
    return folder if folder and folder.is_dir() else None


def local_folder(location: str) -> Path | None:
    """Return the folder that a catalog's location names; none where it is no folder of a machine.

    Args:
        location: A path or a URI, such as `s3://bucket/warehouse`.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location) if location else None
    return Path("/" + rest.lstrip("/")) if scheme.lower() == "file" else None
