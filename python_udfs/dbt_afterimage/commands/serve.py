"""`afterimage serve`: one long-lived Spark session behind Spark's own Thrift server."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import warehouse
from dbt_afterimage.runtime.locks import lock
from dbt_afterimage.runtime.session import complete, open_session
from dbt_afterimage.runtime.state import STATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE_FILE = STATE / "server.json"
_LOG_FILE = STATE / "server.log"
# Only one server per warehouse, whichever folder it was started in.
_WAREHOUSE_FILE = ".afterimage-server"

_AUTHENTICATION = "spark.hadoop.hive.server2.authentication"
_CHECKED_AUTHENTICATIONS = ("LDAP", "KERBEROS", "CUSTOM", "PAM")

# In Hive these override the settings.
_OVERRULING = (
    "HIVE_SERVER2_THRIFT_BIND_HOST",
    "HIVE_SERVER2_THRIFT_PORT",
    "HIVE_SERVER2_TRANSPORT_MODE",
)

_READY_SECONDS = 180
_STOP_SECONDS = 60


@dataclass(frozen=True)
class Options:
    """How to start a server."""

    port: int
    bind: str
    memory: str | None
    warehouse: str | None
    target: str | None


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=10000,
    envvar="AFTERIMAGE_SERVER_PORT",
    show_default=True,
    show_envvar=True,
    help="Port to listen on.",
)
@click.option(
    "--bind",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on (default: only this machine).",
)
@click.option("--memory", metavar="SIZE", help="Heap size of the server, such as 8g.")
@click.option(
    "--warehouse", metavar="LOCATION", help="Folder or URI of the tables, instead of the profile's."
)
@click.option("--target", help="Target of the profile whose Spark settings are used.")
@click.option("--daemon", "what", flag_value="daemon", help="Return once the server is ready.")
@click.option("--status", "what", flag_value="status", help="Print whether a server is running.")
@click.option("--stop", "what", flag_value="stop", help="Stop the server of this folder.")
def command(what: str | None, **options: Any) -> int:
    """Keep a Spark session open behind a Thrift server.

    The session has the UDFs and the tables; it serves `dbt --target server`, and JDBC and ODBC
    tools. It uses the Spark settings of the dbt profile of the project in this folder. The exit
    code of --status is 3 if no server is ready.
    """
    if what == "status":
        return _status()
    if what == "stop":
        return _stop()
    return (_start_daemon if what == "daemon" else _serve)(Options(**options))


@dataclass
class _Server:
    """What the state file says about a running server."""

    pid: int
    host: str
    port: int
    warehouse: str
    machine: str
    ready: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (pid {self.pid}, tables in {self.warehouse})"


class _Claim:
    """A file that describes a server and stays locked until it ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self, server: _Server) -> _Server | None:
        """Claim the file, or return the server that has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A process that only asks also holds the lock for a moment.
        for _ in range(10):
            self._file = self.path.open("a+")
            try:
                lock(self._file, wait=False)
            except BlockingIOError:
                self._file.close()
                time.sleep(0.05)
                continue
            if self._is_there():
                self.write(server)
                return None
            self._file.close()
        self._file = None
        return self.holder() or server

    def _is_there(self) -> bool:
        """Whether the open file still has its name; a server that ends deletes the file."""
        assert self._file
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    def write(self, server: _Server) -> None:
        """Replace the file's content."""
        assert self._file
        self._file.seek(0)
        self._file.truncate()
        json.dump(asdict(server), self._file)
        self._file.flush()

    def give_back(self) -> None:
        """Let another server claim the file."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def holder(self) -> _Server | None:
        """Return the running server; none if it has ended, even without deleting the file."""
        try:
            with self.path.open() as file:
                try:
                    lock(file, shared=True, wait=False)
                except BlockingIOError:
                    text = file.read()
                    return _Server(**json.loads(text)) if text else None
        except FileNotFoundError:
            pass
        return None


def _serve(options: Options) -> int:
    settings, tables = _settings(options)
    server = _Server(os.getpid(), options.bind, options.port, tables, _machine())
    claims = [_Claim(_STATE_FILE)]
    if Path(tables).is_dir():
        claims.append(_Claim(Path(tables) / _WAREHOUSE_FILE))
    stopped = threading.Event()

    def listen() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())

    listen()
    taken: list[_Claim] = []
    try:
        for claim in claims:
            other = claim.take(server)
            if other is not None:
                raise _already_runs(other)
            taken.append(claim)
        _check_port(options.bind, options.port)
        spark = _open(settings)
        listen()  # Again: PySpark has set its own handler for SIGINT.
        stop = _start_thrift_server(spark)
        _wait_until_it_answers(server, stopped)
        server.ready = True
        for claim in taken:
            claim.write(server)
        if not stopped.is_set():
            print(_ready_line(server), flush=True)
        _wait_for_the_end(spark, stopped)
        stop()
        spark.stop()
    finally:
        for claim in reversed(taken):
            claim.give_back()
    print("afterimage: the server has stopped", flush=True)
    return 0


def _machine() -> str:
    """Return an identifier of this machine or container: several may share the folder."""
    return f"{socket.gethostname()} {_pids()}".strip()


def _pids() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # Not Linux, so no container.
        return ""


def _already_runs(server: _Server) -> AfterimageError:
    return AfterimageError(
        f"a server is already running on {server}; use it, or stop it with"
        f" `afterimage serve --stop` in its folder (kill {server.pid})"
    )


def _settings(options: Options) -> tuple[dict[str, str], str]:
    """Return all settings of the session, and the location of its tables."""
    conf = _profile_settings(options.target)
    catalog = f"spark.sql.catalog.{conf.get('spark.sql.defaultCatalog') or 'spark_catalog'}"
    if options.memory:
        conf["spark.driver.memory"] = options.memory
    if options.warehouse:
        if catalog == "spark.sql.catalog.spark_catalog":
            raise AfterimageError(
                "--warehouse is for a catalog of Iceberg. The tables of this target are where its"
                " metastore says: set AFTERIMAGE_WAREHOUSE, which moves both"
            )
        conf[f"{catalog}.warehouse"] = options.warehouse
    conf.setdefault(_AUTHENTICATION, "NONE")
    _check_bind(options.bind, conf[_AUTHENTICATION])
    # Clients that share a session break each other: when one leaves, the server looks up all
    # temporary views of the session, and fails at one that another has just dropped.
    conf.setdefault("spark.sql.hive.thriftServer.singleSession", "false")
    conf.update(
        {
            "spark.hadoop.hive.server2.thrift.bind.host": options.bind,
            "spark.hadoop.hive.server2.thrift.port": str(options.port),
            # All statements run as the user who started the server.
            "spark.hadoop.hive.server2.enable.doAs": "false",
        }
    )
    derby = "-Dderby.stream.error.file=/dev/null"
    java_options = conf.get("spark.driver.extraJavaOptions", "")
    conf["spark.driver.extraJavaOptions"] = f"{java_options} {derby}".strip()
    complete(conf)
    if conf.get("spark.jars"):
        # The threads of the Thrift server see only the class path.
        jars = [*conf["spark.jars"].split(","), conf.get("spark.driver.extraClassPath", "")]
        conf["spark.driver.extraClassPath"] = os.pathsep.join(filter(None, jars))
    location = conf.get(f"{catalog}.warehouse") or conf.get("spark.sql.warehouse.dir", "")
    folder = warehouse.local_folder(location)
    return conf, str(folder.absolute()) if folder else location


def _profile_settings(target: str | None) -> dict[str, str]:
    from dbt.cli.resolvers import default_profiles_dir
    from dbt.config.runtime import load_profile
    from dbt.flags import set_from_args
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    set_invocation_context(os.environ)
    try:
        folder = os.environ.get("DBT_PROFILES_DIR") or default_profiles_dir()
        set_from_args(Namespace(PROFILES_DIR=str(folder)), {})
        profile = load_profile(str(Path.cwd()), {}, target_override=target)
    except DbtBaseException as error:
        text = " ".join(str(error).split())
        raise AfterimageError(f"no Spark settings, as the dbt profile fails: {text}") from None
    credentials: Any = profile.credentials
    if getattr(credentials, "method", None) != "session":
        raise AfterimageError(
            f"target {profile.target_name!r} has no Spark settings: choose one of `method: session`"
            " with --target"
        )
    return dict(credentials.server_side_parameters)


def _check_bind(address: str, authentication: str) -> None:
    try:
        loopback = address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback and authentication.upper() not in _CHECKED_AUTHENTICATIONS:
        raise AfterimageError(
            f"--bind {address} would let anyone on the network in: set {_AUTHENTICATION} to one of"
            f" {', '.join(_CHECKED_AUTHENTICATIONS)} in the profile first (it is {authentication}),"
            " or leave --bind out"
        )


def _check_environment(getenv: Callable[[str], str | None]) -> None:
    for name in _OVERRULING:
        if getenv(name) is not None:
            raise AfterimageError(
                f"{name} is set, here or in Spark's spark-env.sh, and would override --bind and"
                " --port: unset it"
            )


def _check_port(address: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise AfterimageError(
                f"cannot listen on {address}:{port} ({error.strerror}): choose another --port, or"
                " stop the program that uses it"
            ) from None


def _open(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    try:
        return open_session(settings)
    except (AfterimageError, PySparkException) as error:
        raise AfterimageError(f"Spark did not start: {error}") from None


def _start_thrift_server(spark: SparkSession) -> Callable[[], None]:
    """Start Spark's Thrift server on a session and return what stops it."""
    from py4j.protocol import Py4JJavaError

    from dbt_afterimage.runtime.cursor import readable
    from dbt_afterimage.udfs.spark import register_for_new_sessions

    warehouse.lock_commits(spark)
    register_for_new_sessions(spark)
    # Hive's clients use this one when they connect.
    spark.sql("create namespace if not exists default")
    jvm: Any = spark._jvm
    # Read from the JVM, because Spark's own scripts may have set them.
    _check_environment(jvm.java.lang.System.getenv)
    thrift = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    context = getattr(spark, "_jsparkSession").sqlContext()  # noqa: B009
    try:
        started = thrift.startWithContext(context)
    except Py4JJavaError as error:
        raise AfterimageError(f"the Thrift server did not start: {readable(error)}") from None

    def stop() -> None:
        started.stop()

    return stop


def _wait_until_it_answers(server: _Server, stopped: threading.Event) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not stopped.is_set():
        try:
            with socket.create_connection((server.host, server.port), timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise AfterimageError(
                    f"the Thrift server does not answer on {server.host}:{server.port} after"
                    f" {_READY_SECONDS} s: see Spark's messages above"
                ) from None
            time.sleep(0.1)


def _wait_for_the_end(spark: SparkSession, stopped: threading.Event) -> None:
    gateway: Any = spark.sparkContext._gateway
    while not stopped.wait(0.5):
        code = gateway.proc.poll()
        if code is not None:
            raise AfterimageError(
                f"Spark's Java process has ended (exit {code}): start the server again, with more"
                " --memory if it ran out"
            )


def _ready_line(server: _Server) -> str:
    return f"afterimage: ready on {server}; stop with Ctrl-C or `afterimage serve --stop`"


def _start_daemon(options: Options) -> int:
    running = _Claim(_STATE_FILE).holder()
    if running is not None:
        raise _already_runs(running)
    STATE.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dbt_afterimage", "serve"]
    command += ["--port", str(options.port), "--bind", options.bind]
    for name in ("memory", "warehouse", "target"):
        if getattr(options, name):
            command += [f"--{name}", getattr(options, name)]
    with _LOG_FILE.open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None:
        server = _Claim(_STATE_FILE).holder()
        if server is not None and server.pid == process.pid and server.ready:
            print(_ready_line(server))
            return 0
        if time.monotonic() > deadline:
            process.terminate()
            raise AfterimageError(
                f"the server was not ready after {_READY_SECONDS} s and was stopped: see"
                f" {_LOG_FILE}"
            )
        time.sleep(0.1)
    said = _LOG_FILE.read_text().strip().splitlines()
    reason = said[-1].removeprefix("afterimage: ") if said else f"exit {process.returncode}"
    raise AfterimageError(f"{reason} (see {_LOG_FILE})")


def _status() -> int:
    server = _Claim(_STATE_FILE).holder()
    if server is None:
        print("afterimage: no server is running here; start one with `afterimage serve`")
        return 3
    if not server.ready:
        print(f"afterimage: starting on {server}")
        return 3
    try:
        socket.create_connection((server.host, server.port), timeout=5).close()
    except OSError as error:
        raise AfterimageError(
            f"the server on {server} does not answer ({error}): stop it with"
            " `afterimage serve --stop`"
        ) from None
    print(_ready_line(server))
    return 0


def _stop() -> int:
    claim = _Claim(_STATE_FILE)
    server = claim.holder()
    if server is None:
        print("afterimage: no server is running here")
        return 0
    if server.machine != _machine():
        raise AfterimageError(
            f"the server on {server} runs on another machine or in another container"
            f" ({server.machine}): stop it there"
        )
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while claim.holder() is not None:
        if time.monotonic() > deadline:
            raise AfterimageError(
                f"the server on {server} has not stopped after {_STOP_SECONDS} s:"
                f" end it with `kill -9 {server.pid}`"
            )
        time.sleep(0.1)
    print(f"afterimage: stopped the server on {server}")
    return 0
