"""Lets several dbt processes share one folder of Iceberg tables.

An Iceberg catalog of type `hadoop` commits by renaming a file. HDFS refuses a rename onto an
existing file. A local disk does not, so two processes that commit to one table at the same moment
could lose one of the commits. Writing statements of different processes therefore take turns.
A session may have several such catalogs, and each statement waits for the folders of all. Threads
of one process need not wait: Iceberg has a lock for them. An object store does not refuse the
rename either; docs/operations/cluster.md says which catalog to use there.

A Thrift server's statements never pass through Python, so there Iceberg's own lock is replaced:
each commit waits for its turn.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.locks import lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# dbt's own comment comes first.
_COMMENTS = r"(?: \s | --[^\n]*\n | /\*(?:[^*]|\*(?!/))*\*/ )*"
_WRITES = re.compile(
    _COMMENTS
    + r"""
    (?:
        (?: create \s+ (?:or\s+replace\s+)? (?:external\s+)? table
          | merge | insert | update | delete | drop | alter | truncate | replace | call ) \b
        | (?: with | from ) \b .* \b
          (?: insert\s+(?:into|overwrite) | merge\s+into | delete\s+from | update\s.*\sset ) \b
    )
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


# Iceberg makes a folder for it, which is safe by itself.
_MAKES_SCHEMA = re.compile(
    _COMMENTS + r"create \s+ (?:schema|namespace|database) \b", re.IGNORECASE | re.VERBOSE
)

_LOCK_FILE = ".afterimage-lock"
_TYPE_OF_CATALOG = re.compile(r"spark\.sql\.catalog\.([^.]+)\.type")


def _no_folder(folder: Path, error: OSError) -> AfterimageError:
    is_file = isinstance(error, (FileExistsError, NotADirectoryError))
    reason = "it is not a folder" if is_file else error.strerror
    return AfterimageError(
        f"the warehouse {folder} cannot be written to ({reason}). Set AFTERIMAGE_WAREHOUSE"
        " to a folder that you may write to, on a disk that is mounted."
    )


def make_folder(folder: Path, *, written: bool = False) -> None:
    """Make a warehouse's folder if it does not exist.

    Args:
        folder: The folder.
        written: Whether everything that uses the folder must be able to write to it.

    Raises:
        AfterimageError: It cannot be made, or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if written:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _no_folder(folder, error) from None


def _open_lock(path: Path) -> IO[str]:
    try:
        return path.open("w")
    except OSError as error:
        raise _no_folder(path.parent, error) from None


class _FolderLock:
    """A lock between processes that any number of this process's threads may hold together."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LOCK_FILE
        self._holders = 0
        self._guard = threading.Lock()
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        with self._guard:
            if self._holders == 0:
                self._file = _open_lock(self._path)
                lock(self._file)
            self._holders += 1

    def release(self) -> None:
        with self._guard:
            self._holders -= 1
            if self._holders == 0 and self._file is not None:
                self._file.close()
                self._file = None


class _CommitLock:
    """Iceberg's `LockManager`, called from Java: a commit has the folders to itself."""

    class Java:
        """The Java interface, for py4j."""

        implements: ClassVar = ["org.apache.iceberg.LockManager"]

    def __init__(self, folders: Sequence[Path]) -> None:
        self._paths = [folder / _LOCK_FILE for folder in folders]
        self._held: dict[tuple[str, str], ExitStack] = {}

    def acquire(self, entity: str, owner: str) -> bool:
        with ExitStack() as held:
            for path in self._paths:
                # Opened for each commit, so that it also keeps out this process's other commits.
                lock(held.enter_context(_open_lock(path)))
            self._held[entity, owner] = held.pop_all()
        return True

    def release(self, entity: str, owner: str) -> bool:
        held = self._held.pop((entity, owner), None)
        if held is not None:
            held.close()
        return held is not None

    def initialize(self, properties: object) -> None:
        pass

    def close(self) -> None:
        pass


def lock_commits(spark: SparkSession) -> None:
    """Make this process's commits to local Iceberg catalogs take turns with those of others.

    `exclusive_writes` is for statements that Python sends; this is for those of a Thrift server. A
    process must not use both: its statement would wait for itself.

    Args:
        spark: A session that has not used the catalogs yet.
    """
    folders = _local_warehouses(spark)
    if not folders:
        return
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm: Any = spark._jvm
    classes = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    # Every session has its own catalog. A catalog makes its lock from the name of a Java class. If
    # none is named, it takes this one, a constant that Java's reflection cannot write.
    managers = jvm.java.lang.Class.forName("org.apache.iceberg.util.LockManagers", True, classes)
    constant = managers.getDeclaredField("LOCK_MANAGER_DEFAULT")
    field = jvm.java.lang.Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe")
    field.setAccessible(True)
    memory = field.get(None)
    memory.putObject(
        memory.staticFieldBase(constant), memory.staticFieldOffset(constant), _CommitLock(folders)
    )


_locks: dict[Path, _FolderLock] = {}
_locks_guard = threading.Lock()


@contextmanager
def exclusive_writes(spark: SparkSession, sql: str) -> Iterator[None]:
    """Hold the locks of the local Iceberg catalogs' folders while a writing statement runs.

    Args:
        spark: The session that runs the statement.
        sql: The statement.

    Raises:
        AfterimageError: The statement writes, and the folder cannot be written to.
    """
    writes = _WRITES.match(sql)
    folders = _local_warehouses(spark) if writes or _MAKES_SCHEMA.match(sql) else []
    with ExitStack() as held:
        for folder in folders:
            if not writes:
                _open_lock(folder / _LOCK_FILE).close()
                continue
            with _locks_guard:
                own = _locks.setdefault(folder, _FolderLock(folder))
            own.acquire()
            held.callback(own.release)
        yield


def _local_warehouses(spark: SparkSession) -> list[Path]:
    """Return the folders of a session's catalogs, in the same order in every process.

    One folder may have two paths.
    """
    default = str(spark.conf.get("spark.sql.defaultCatalog", "spark_catalog"))
    found: dict[tuple[int, int], Path] = {}
    for catalog in (default, *_typed_catalogs(spark)):
        prefix = f"spark.sql.catalog.{catalog}"
        if spark.conf.get(f"{prefix}.type", None) != "hadoop":
            continue
        folder = local_folder(str(spark.conf.get(f"{prefix}.warehouse", "")))
        # Raw tables may be in a catalog that this process can only read.
        if folder and folder.is_dir() and (catalog == default or _can_lock(folder)):
            place = folder.stat()
            found.setdefault((place.st_dev, place.st_ino), folder.resolve())
    return [folder for _, folder in sorted(found.items())]


# To ask takes a call of Java for each setting.
@lru_cache(maxsize=1)
def _typed_catalogs(spark: SparkSession) -> list[str]:
    settings = spark.sparkContext.getConf().getAll()
    return [named[1] for key, _ in settings if (named := _TYPE_OF_CATALOG.fullmatch(key))]


def _can_lock(folder: Path) -> bool:
    try:
        _open_lock(folder / _LOCK_FILE).close()
    except AfterimageError:
        return False
    return True


def local_folder(location: str) -> Path | None:
    """Return the folder that a catalog's location names; none if it is not a local folder.

    Args:
        location: A path or a URI, such as `s3://bucket/warehouse`.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location) if location else None
    return Path("/" + rest.lstrip("/")) if scheme.lower() == "file" else None
