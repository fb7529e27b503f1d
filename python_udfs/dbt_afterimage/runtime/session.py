"""Opens the Spark session that dbt runs on, and fills in what a static profile cannot say."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt_afterimage.runtime import class_archive, jars, java
from dbt_afterimage.runtime.locks import check_system
from dbt_afterimage.runtime.warehouse import local_folder, make_folder
from dbt_afterimage.udfs.spark import register

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"

_LOG4J = Path(__file__).with_name("log4j2.properties")

# As Spark has it, and the keys of the stores of Amazon, Azure and Google.
_SECRETS = (
    "(?i)password|secret|token|credential|access[.-]?key|account[.]key|private[.]key|[.]sas[.]"
)
_SECRET = re.compile(_SECRETS)

_lock = threading.Lock()
_ready: SparkSession | None = None


def open_session(parameters: Mapping[str, Any]) -> SparkSession:
    """Return the process's Spark session with the UDFs registered; start it if there is none yet.

    An existing session (a notebook's, a test's) is used as it is.

    Args:
        parameters: The profile's `server_side_parameters`.

    Returns:
        The session.
    """
    global _ready
    with _lock:
        if _ready is None or _ready.sparkContext._jsc is None:
            _ready = _start(parameters)
            register(_ready)
        return _ready


def _start(parameters: Mapping[str, Any]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    check_system()
    _use_utc()
    chosen = java.apply(os.environ)
    # An unset environment variable leaves its setting empty, which means Spark's default.
    conf = {key: str(value) for key, value in parameters.items() if str(value)}
    # dbt-spark turns ANSI mode off in every profile, even if the profile sets it.
    conf["spark.sql.ansi.enabled"] = os.environ.get("AFTERIMAGE_ANSI", "false")
    project = _project()
    complete(conf, project)
    if _in_one_process(conf):
        options = [
            conf.get("spark.driver.extraJavaOptions", ""),
            class_archive.java_options(chosen, conf, os.environ, project),
        ]
        conf["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    # PySpark starts the JVM with all settings on its command line, which every user can read. The
    # secret ones are passed once it runs.
    open_to_all = [(key, value) for key, value in conf.items() if not _SECRET.search(key)]
    with java.without_vector_module(chosen, os.environ, project):
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(open_to_all))
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _say_no_stack_of_a_lost_jvm(session.sparkContext)
    _say_no_stack_of_a_query()
    return session


def start_early(parameters: Mapping[str, Any]) -> None:
    """Start the session in the background, for a command that will need it.

    Args:
        parameters: The profile's `server_side_parameters`.
    """

    def start() -> None:
        # The caller of open_session meets the same error and reports it.
        with contextlib.suppress(Exception):
            open_session(parameters)

    def load() -> None:
        # The imports for registering the functions; Java is not ready yet.
        with contextlib.suppress(ImportError):
            importlib.import_module("pyspark.sql.pandas.functions")
            importlib.import_module("pandas")
            importlib.import_module("pyarrow")

    for task in (start, load):
        threading.Thread(target=task, name="afterimage-start", daemon=True).start()


def _project() -> Path:
    """Return the folder of the project that dbt works on, wherever dbt was started."""
    from dbt.flags import get_flags

    return Path(getattr(get_flags(), "PROJECT_DIR", None) or ".")  # type: ignore[no-untyped-call]


def _in_one_process(conf: Mapping[str, str]) -> bool:
    return conf["spark.master"].startswith("local[")


def _say_no_stack_of_a_lost_jvm(context: SparkContext) -> None:
    """Hide the Python stacks that py4j and PySpark print when the JVM dies.

    dbt reports that in one line. Other errors in PySpark's thread are still printed.
    """
    # py4j also raises what it logs.
    logging.getLogger().addFilter(lambda record: "/py4j/" not in Path(record.pathname).as_posix())
    server: Any = context._accumulatorServer
    print_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            print_error(request, address)

    server.handle_error = handle_error


def _say_no_stack_of_a_query() -> None:
    """Hide the line of JSON with Java's whole stack that PySpark 4 prints for each failed query.

    Who asked hears of it by an exception, and some of our questions may fail.
    """
    with contextlib.suppress(ImportError):
        logger = importlib.import_module("pyspark.logger").PySparkLogger
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger.getLogger(name).disabled = True


def complete(conf: dict[str, str], project: Path = Path()) -> None:
    """Add the settings that depend on the machine: jar, folders, interpreter, logs.

    Args:
        conf: Spark settings, changed in place. The profile's own settings are kept.
        project: The project's folder, in which relative locations start.

    Raises:
        AfterimageError: The folder for the tables cannot be made.
    """
    # Iceberg and Delta write paths into their tables: the same ones if a link leads to the project.
    project = project.resolve()
    local = conf.setdefault("spark.master", "local[*]").startswith("local")
    # Otherwise Spark would replace `${…}` in names and values with settings and the environment.
    conf.setdefault("spark.sql.variable.substitute", "false")
    # Spark's pages hide these values. A catalog's credential is not among Spark's defaults.
    conf.setdefault("spark.redaction.regex", _SECRETS)
    jars.add(conf, in_one_process=_in_one_process(conf), env=os.environ, project=project)
    for key in [k for k, value in conf.items() if value == ICEBERG_CATALOG]:
        is_hadoop = conf.get(f"{key}.type") == "hadoop"
        folder = _located(conf, f"{key}.warehouse", project) if is_hadoop else None
        if folder:
            # The catalog needs it to exist.
            make_folder(folder)
            # Another process may have written. A cached table would be outdated, and Iceberg
            # refuses a merge that was planned on it.
            conf.setdefault(f"{key}.cache-enabled", "false")
    options = conf.get("spark.driver.extraJavaOptions", "")
    metastore = conf.get("spark.hadoop.javax.jdo.option.ConnectionURL", "")
    tables = _located(conf, "spark.sql.warehouse.dir", project) if local else None
    if local and metastore.startswith("jdbc:derby:"):
        # Derby keeps its files there, and its error for a read-only folder is 300 lines long.
        if tables:
            make_folder(tables, written=True)
        # The folder in which the path of its database starts.
        if "derby.system.home" not in options:
            options = f'{options} "-Dderby.system.home={project}"'.strip()
    if local:
        # A `python3` on PATH may differ in version from the one that runs dbt.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "log4j2.configurationFile" not in options:
        options = f"{options} -Dlog4j2.configurationFile={_LOG4J.as_uri()}".strip()
    conf["spark.driver.extraJavaOptions"] = options


def _located(conf: dict[str, str], key: str, project: Path) -> Path | None:
    """Let a setting name its folder from the root; return the folder, none if it is elsewhere.

    Executors have another working directory, and dbt may have been started in another one, too.
    """
    location = conf.get(key, "")
    folder = local_folder(location)
    if folder is None:
        return None
    if not location.lower().startswith("file:"):
        conf[key] = str(project / folder)
    return project / folder


def _use_utc() -> None:
    # PySpark converts timestamps to this process's own zone when it collects them.
    os.environ["TZ"] = "UTC"
    time.tzset()
