"""`afterimage serve`, and dbt, JDBC and plain Thrift clients on it."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import socketserver
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark import connections
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError
from pyhive import hive
from TCLIService import ttypes

from command_line import BIN, attempt, environment, run
from conftest import ROOT, DbtError, Lake, Project, contract_columns, relation
from dbt_afterimage import cli
from dbt_afterimage.commands import serve
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.connections import (
    AfterimageConnection,
    AfterimageConnectionManager,
    install,
    readable,
)
from dbt_afterimage.runtime.warehouse import exclusive_writes
from standalone import HOME, free_port

pytestmark = pytest.mark.slow

SEED = """\
id,name,seq,amount,mask,moment,flag
1,it's,20260102030405000000000000000000001,1.50,0B,2024-01-01 00:00:00.123456,true
2,,20260102030405000000000000000000002,,,,
3,a\\b %s 100% ${x} "q",99999999999999999999999999999999999999,-0.25,80FF,1582-10-04 12:00:00,false
"""
SEED_YML = """\
version: 2
seeds:
  - name: cells
    config:
      column_types:
        {id: int, name: string, seq: "decimal(38,0)", amount: "decimal(9,2)", mask: binary,
         moment: timestamp, flag: boolean}
models:
  - name: doubled
unit_tests:
  - name: a_mask_is_decoded
    model: doubled
    given:
      - input: ref('cells')
        format: sql
        rows: |
          select 7 as id, 'x' as name, cast(1 as decimal(38, 0)) as seq,
              cast(2 as decimal(9, 2)) as amount,
              unhex('0B') as mask, timestamp '2024-01-01' as moment, true as flag
    expect:
      format: sql
      rows: |
        select 7 as id, cast(4 as decimal(10, 2)) as amount, array(1, 2, 4) as ordinals
  - name: rows_may_be_given_as_values
    model: named
    given:
      - input: ref('cells')
        rows:
          - {id: 1, name: "it's", amount: 1.5}
          - {id: 2, name: 'a\\b', amount: null}
    expect:
      rows:
        - {id: 1, name: "it's", amount: 1.5}
        - {id: 2, name: 'a\\b', amount: null}
"""


class Served:
    """A project's folder, and the commands that are given in it."""

    def __init__(self, project: Project, warehouse: Path, port: int) -> None:
        self.project = project
        self.folder = project.folder
        self.warehouse = warehouse
        self.port = port
        self.more: dict[str, str] = {}
        link = project.folder / "profiles.yml"
        if not link.exists():
            link.symlink_to("profiles/profiles.yml")

    def environment(self, **variables: str) -> dict[str, str]:
        return environment(
            AFTERIMAGE_WAREHOUSE=str(self.warehouse),
            AFTERIMAGE_SERVER_PORT=str(self.port),
            AFTERIMAGE_SHUFFLE_PARTITIONS="2",
            DBT_SEND_ANONYMOUS_USAGE_STATS="false",
            **self.more,
            **variables,
        )

    def serve(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = self.environment(PYTHONPATH=str(ROOT / "python_udfs"))
        command = ("-m", "dbt_afterimage", "serve", *arguments)
        return attempt(BIN / "python", *command, cwd=self.folder, env=env)

    def refusal(self, *arguments: str) -> str:
        """Return the one line that a refused command says."""
        result = self.serve(*arguments)
        assert result.returncode == 1, result.stdout + result.stderr
        (line,) = result.stderr.splitlines()
        return line

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        connection = hive.connect(host="127.0.0.1", port=self.port)
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            return [] if statement.startswith("insert") else list(cursor.fetchall())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def served(make_project: Callable[[str], Project], spark: object, port: int) -> Iterator[Served]:
    """A server on the warehouse of the tests' own session."""
    assert spark
    served = Served(make_project("served"), Path(os.environ["AFTERIMAGE_WAREHOUSE"]), port)
    started = served.serve("--daemon", "--memory", "1g")
    assert started.returncode == 0, started.stderr
    assert re.fullmatch(
        rf"afterimage: ready on 127\.0\.0\.1:{port} \(pid \d+, tables in .+\); stop with .+\n",
        started.stdout,
    )
    try:
        yield served
    finally:
        served.serve("--stop")


@pytest.fixture
def project(served: Served, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("AFTERIMAGE_SERVER_PORT", str(served.port))
    return served.project


def test_status_describes_the_server_and_a_second_one_is_refused(
    served: Served, make_project: Callable[[str], Project], tmp_path: Path
) -> None:
    status = served.serve("--status")
    assert (status.returncode, status.stderr) == (0, "")
    assert f"127.0.0.1:{served.port}" in status.stdout
    assert "a server is already running on 127.0.0.1" in served.refusal("--port", str(free_port()))

    elsewhere = Served(make_project("elsewhere"), served.warehouse, free_port())
    assert elsewhere.serve("--status").returncode == 3
    # Another folder, another port, but the same tables.
    refusal = elsewhere.refusal("--daemon")
    assert f"a server is already running on 127.0.0.1:{served.port}" in refusal
    # Another warehouse, but the same port.
    refusal = elsewhere.refusal("--warehouse", str(tmp_path), "--port", str(served.port))
    assert f"cannot listen on 127.0.0.1:{served.port} (Address already in use)" in refusal


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--bind", "0.0.0.0"], "--bind 0.0.0.0 would let anyone on the network in: set spark.ha"),
        (["--bind", "::"], "--bind :: would let anyone on the network in: set spark.hadoop.hive"),
        (["--bind", "example.org"], "--bind example.org would let anyone on the network in"),
        (["--target", "server"], "target 'server' has no Spark settings"),
        (
            ["--target", "nowhere"],
            "does not have a target named 'nowhere'",
        ),
    ],
)
def test_wrong_server_options_are_refused_with_one_line(
    make_project: Callable[[str], Project],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    refusal: str,
) -> None:
    project = make_project("refused")
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(project.folder / "profiles"))
    assert cli.main(["serve", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert refusal in line


@pytest.mark.minutes
def test_files_are_landed_through_the_server(
    served: Served, project: Project, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    landing = project.folder / "landing"
    landing.mkdir()
    (landing / "served.csv").write_text("id,code\n1,007\n")
    (landing / "lines.json").write_text('{"id": 1}\n')
    where = ("--project-dir", str(project.folder), "--target", "server")
    paths = [str(landing / name) for name in ("served.csv", "lines.json")]
    profiles = ("--profiles-dir", str(project.folder / "profiles"))
    for said in ("served: CSV, 1 file, 1 file loaded", "served: CSV, 1 file, nothing new"):
        assert cli.main(["land", *paths, *where, *profiles]) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        assert said in out
        assert "raw.lines: JSON, 1 file, read in place\n  id bigint\n" in out
    assert served.sql("select * from raw.served") == [(1, "007")]
    lake.spark.sql("drop table raw.served")


@pytest.mark.parametrize("name", ["HIVE_SERVER2_THRIFT_BIND_HOST", "HIVE_SERVER2_TRANSPORT_MODE"])
def test_settings_that_would_override_the_address_are_refused(name: str) -> None:
    """Hive takes these before any setting, so a server that is to be local would be open to all."""
    clean: dict[str, str] = {}
    serve._check_environment(clean.get)
    with pytest.raises(AfterimageError, match=f"{name} is set, .* and would override --bind"):
        serve._check_environment({name: "0.0.0.0"}.get)


def server_here(**changed: Any) -> serve._Server:
    given = {"pid": os.getpid(), "host": "127.0.0.1", "port": 1, "warehouse": "w", "machine": "m"}
    return serve._Server(**{**given, **changed})


def test_a_claim_holds_only_while_its_file_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends takes the file away while the next one already has it open."""
    first, second = (serve._Claim(tmp_path / "server.json") for _ in range(2))
    assert first.take(server_here()) is None
    flock = fcntl.flock

    def ends_meanwhile(*arguments: Any) -> None:
        first.give_back()
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", ends_meanwhile)
    assert second.take(server_here(port=2)) is None
    holder = serve._Claim(tmp_path / "server.json").holder()
    assert holder is not None
    assert holder.port == 2
    second.give_back()


def test_a_server_of_another_machine_is_not_stopped_by_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder may be shared, and the number is another process here: in this test, this one."""
    monkeypatch.chdir(tmp_path)
    claim = serve._Claim(tmp_path / ".afterimage" / "server.json")
    assert claim.take(server_here(machine="elsewhere")) is None
    assert cli.main(["serve", "--stop"]) == 1
    assert "another container (elsewhere): stop it there" in capsys.readouterr().err
    claim.give_back()


def test_seeds_and_unit_tests_work_over_thrift(project: Project, lake: Lake) -> None:
    project.file("seeds/cells.csv", SEED)
    project.file("models/doubled.yml", SEED_YML)
    project.file(
        "models/doubled.sql",
        "select id, amount * 2 as amount, decode_change_mask(mask, 0) as ordinals"
        " from {{ ref('cells') }}",
    )
    project.file("models/named.sql", "select id, name, amount from {{ ref('cells') }}")
    project.dbt("build", "--target", "server", "--select", "+doubled", "+named")
    rows = lake.rows(
        "select id, name, cast(seq as string) as seq, cast(amount as string) as amount,"
        " hex(mask) as mask, cast(moment as string) as moment, flag"
        " from afterimage.cells order by id"
    )
    assert [tuple(row.values()) for row in rows] == [
        (
            *(1, "it's", "20260102030405000000000000000000001", "1.50", "0B"),
            *("2024-01-01 00:00:00.123456", True),
        ),
        (2, None, "20260102030405000000000000000000002", None, None, None, None),
        (
            *(3, 'a\\b %s 100% ${x} "q"', "9" * 38, "-0.25", "80FF"),
            *("1582-10-04 12:00:00", False),
        ),
    ]
    rows = lake.rows("select ordinals from afterimage.doubled order by id")
    assert [row["ordinals"] for row in rows] == [
        [1, 2, 4],
        None,
        [8, 9, 10, 11, 12, 13, 14, 15, 16],
    ]


CHANGES = contract_columns("id: int, name: string")
HISTORIES = [f"people_{number}_history" for number in range(4)]


START = datetime(2024, 1, 1)


def change(number: int, operation: str, key: int, name: str, run: int) -> dict[str, Any]:
    return {
        "change_id": f"c{number}",
        "change_seq": f"{number:035d}",
        "operation": operation,
        "after": (key, name),
        "changed_at": START + timedelta(minutes=number),
        "ingested_at": START + timedelta(hours=run),
    }


def test_a_client_that_leaves_does_not_disturb_another(served: Served) -> None:
    failures: list[BaseException] = []
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            try:
                served.sql("select decode_change_mask('0B', 0)")
            except Exception as failure:
                failures.append(failure)

    visitors = [threading.Thread(target=come_and_go) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    connection = hive.connect(host="127.0.0.1", port=served.port)
    cursor = connection.cursor()
    for number in range(40):
        cursor.execute(f"create temporary view passing_{number} as select {number} as n")
        cursor.execute(f"drop view passing_{number}")
    done.set()
    for visitor in visitors:
        visitor.join()
    cursor.execute("create temporary view mine as select 1 as n")
    cursor.execute("set spark.sql.shuffle.partitions = 77")
    seen_by_another = served.sql("show views in spark_catalog.default")
    partitions = served.sql("set spark.sql.shuffle.partitions")
    connection.close()
    assert failures == []
    assert seen_by_another == []
    assert partitions == [("spark.sql.shuffle.partitions", "2")]


def test_the_server_keeps_no_statement_that_is_done(served: Served) -> None:
    """Each one kept its plan, megabytes of it, until the connection of the thread was closed."""
    connection = AfterimageConnection(hive.connect(host="127.0.0.1", port=served.port), 0)
    try:
        connection.cursor().execute("select 1 as one")
        assert connection._cursor
        done = connection._cursor._operationHandle
        assert connection.fetchall() == [(1,)]
        connection.cursor().execute("select 2 as two")
        request = ttypes.TGetOperationStatusReq(operationHandle=done)
        status = connection.handle.client.GetOperationStatus(request).status
        assert connection.fetchall() == [(2,)]
    finally:
        connection.close()
    assert "Invalid OperationHandle" in str(status.errorMessage)


def test_a_lost_connection_fails_one_model_of_its_thread(served: Served) -> None:
    """The next one gets another connection, and dbt can close this one."""
    lost = AfterimageConnection(hive.connect(host="127.0.0.1", port=served.port), 0)
    manager: Any = AfterimageConnectionManager.__new__(AfterimageConnectionManager)
    manager._method = connections.SparkConnectionMethod.THRIFT
    manager.lock = threading.RLock()
    held: Any = SimpleNamespace(name="m", state="open", handle=lost, transaction_open=False)
    manager.thread_connections = {manager.get_thread_identifier(): held}
    manager.release()
    assert held.state == "open"
    lost.handle._transport.close()
    with pytest.raises(DbtRuntimeError, match="Connection lost"):
        lost.cursor().execute("select 1")
    manager.release()
    assert held.state == "closed"


@pytest.mark.minutes
def test_four_histories_at_once_are_updated(project: Project, lake: Lake) -> None:
    for name in HISTORIES:
        project.history(name, f"afterimage.{name.removesuffix('_history')}")
        lake.create(
            name.removesuffix("_history"), CHANGES, [change(1, "insert", 1, f"{name} Ada", 1)]
        )
    project.dbt("run", "--target", "server", "--select", *HISTORIES)
    for name in HISTORIES:
        rows = [change(2, "update", 1, f"{name} Ben", 2), change(3, "insert", 2, "Cleo", 2)]
        lake.append(name.removesuffix("_history"), CHANGES, rows)
    project.dbt("run", "--target", "server", "--select", *HISTORIES)
    for name in HISTORIES:
        rows = lake.rows(
            f"select id, name, version, closed_by from afterimage.{name} order by id, version"
        )
        assert [tuple(row.values()) for row in rows] == [
            (1, f"{name} Ada", 1, "update"),
            (1, f"{name} Ben", 2, None),
            (2, "Cleo", 1, None),
        ]


@pytest.mark.minutes
def test_two_runs_at_once_add_no_row_twice(served: Served, project: Project, lake: Lake) -> None:
    tables = ("stg_twice", "twice_audit")
    project.stream(tables[0], f"qlik_change_table({relation('twice__ct')}, ['id'])")
    project.model(
        tables[1],
        f"select * from {{{{ ref('{tables[0]}') }}}}",
        materialized="audit",
        unique_key=["id"],
    )
    columns = {
        "header__change_seq": "string",
        "header__change_oper": "string",
        "header__timestamp": "timestamp",
        "id": "int",
    }

    def inserts(number: int) -> list[dict[str, Any]]:
        keys = range(100 * number, 100 * number + 100)
        return [
            {
                "header__change_seq": f"20240101120000{key:021}",
                "header__change_oper": "I",
                "header__timestamp": START,
                "id": key,
            }
            for key in keys
        ]

    lake.create("twice__ct", columns, inserts(0))
    command = ("run", "--target", "server", "--select", *tables)
    project.dbt(*command)
    for number in (1, 2):
        lake.append("twice__ct", columns, inserts(number))
        processes = [
            subprocess.Popen(
                [
                    BIN / "dbt",
                    *command,
                    "--target-path",
                    f"target_{n}",
                    "--profiles-dir",
                    "profiles",
                ],
                cwd=served.folder,
                env=served.environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(2)
        ]
        outputs = [process.communicate()[0] for process in processes]
        for process, output in zip(processes, outputs, strict=True):
            assert process.returncode == 0 or "nother run has changed" in output, output
        project.dbt(*command)
    in_runs = lake.contents(*tables)
    assert [len(rows) for rows in in_runs.values()] == [300, 300]
    project.dbt(*command, "--full-refresh")
    assert lake.contents(*tables) == in_runs


def test_error_is_as_short_as_in_a_session(project: Project) -> None:
    project.file("models/whole.sql", "select 1 as id")
    project.file("models/broken.sql", "select nothing from {{ ref('whole') }} where id = 1")
    with pytest.raises(DbtError) as failure:
        project.dbt("run", "--target", "server", "--select", "+broken")
    (project.folder / "models/broken.sql").unlink()
    text = str(failure.value)
    # Spark 4 says: "A column, variable, or function …".
    assert re.search(r"\[UNRESOLVED_COLUMN.WITH_SUGGESTION\] A column.* parameter with name", text)
    for noise in ("\tat ", "Relation", "HiveSQLException"):
        assert noise not in text
    assert len(text.splitlines()) <= 8


@pytest.mark.minutes
def test_no_commit_is_lost_between_the_server_and_a_session(served: Served, lake: Lake) -> None:
    lake.spark.sql("create table afterimage.both (who string, n int) using iceberg")
    lake.spark.sql(
        "alter table afterimage.both set tblproperties ('commit.retry.num-retries' = '50')"
    )
    failures: list[BaseException] = []

    def here() -> None:
        for number in range(12):
            sql = f"insert into afterimage.both values ('here', {number})"
            with exclusive_writes(lake.spark, sql):
                lake.spark.sql(sql)

    def there() -> None:
        for number in range(12):
            served.sql(f"insert into afterimage.both values ('there', {number})")

    def watched(write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=watched, args=(write,)) for write in (here, there, there)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = lake.rows("select who, n, count(*) as c from afterimage.both group by 1, 2")
    assert {(row["who"], row["n"]): row["c"] for row in rows} == {
        **{("here", number): 1 for number in range(12)},
        **{("there", number): 2 for number in range(12)},
    }


def test_beeline_sees_the_tables_and_the_udfs(served: Served, tmp_path: Path) -> None:
    query = "select decode_change_mask('0B', 0) as ordinals"
    result = run(
        *(HOME / "bin" / "beeline", "--silent=true", "-n", "me"),
        *("-u", f"jdbc:hive2://127.0.0.1:{served.port}/afterimage", "-e", query),
        cwd=tmp_path,
    )
    assert "[1,2,4]" in result.stdout


def test_a_command_on_the_server_loads_no_pyspark(served: Served) -> None:
    program = (
        "import sys; from dbt.cli.main import dbtRunner;"
        " shown = dbtRunner().invoke(['show', '--inline', 'select 1', '--target', 'server']);"
        " assert shown.success, shown.exception;"
        " assert 'dbt_afterimage.runtime.connections' in sys.modules;"
        " print([name for name in ('pyspark', 'numpy') if name in sys.modules])"
    )
    shown = run(sys.executable, "-c", program, cwd=served.folder, env=served.environment())
    assert shown.stdout.splitlines()[-1] == "[]"


def edit_loop(served: Served, number: int, target: str) -> float:
    served.project.file(
        "models/edited.sql", f"select id, {number} as edit from {{{{ ref('named') }}}}"
    )
    begun = time.monotonic()
    run(
        *(BIN / "dbt", "--quiet", "run", "-s", "edited", "--target", target),
        cwd=served.folder,
        env=served.environment(),
    )
    return time.monotonic() - begun


@pytest.mark.minutes
def test_an_edited_model_takes_half_the_time_of_a_session_at_most(
    served: Served, project: Project
) -> None:
    project.file("models/named.sql", "select 1 as id, 'a' as name, 1.5 as amount")
    project.dbt("run", "--target", "server", "--select", "named")
    times = {}
    for target in ("local", "server"):
        # dbt parses the whole project again when the target changes.
        edit_loop(served, 0, target)
        times[target] = [edit_loop(served, number, target) for number in range(1, 4)]
    print("edit loop:", times)
    assert statistics.median(times["server"]) <= statistics.median(times["local"]) / 2
    assert served.sql("select max(edit) from afterimage.edited") == [(3,)]


def test_stop_ends_the_server_and_frees_the_port(served: Served) -> None:
    stopped = served.serve("--stop")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert f"stopped the server on 127.0.0.1:{served.port}" in stopped.stdout
    assert served.serve("--status").returncode == 3
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", served.port))
    log = (served.folder / ".afterimage" / "server.log").read_text().splitlines()
    assert log[-1] == "afterimage: the server has stopped"
    assert [line for line in log if "ERROR" in line] == []
    assert not (served.warehouse / ".afterimage-server").exists()


@pytest.mark.minutes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_server_in_the_foreground_ends_on_a_signal_and_another_can_start(
    make_project: Callable[[str], Project], tmp_path: Path, number: signal.Signals
) -> None:
    served = Served(make_project("foreground"), tmp_path, free_port())
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "dbt_afterimage", "serve"],
            cwd=served.folder,
            env=served.environment(PYTHONPATH=str(ROOT / "python_udfs")),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stdout.readline().startswith("afterimage: ready on 127.0.0.1")
        assert served.sql("select decode_change_mask('0B', 0)") == [("[1,2,4]",)]
        process.send_signal(number)
        rest = process.communicate(timeout=60)[0]
        assert process.returncode == (-number if number == signal.SIGKILL else 0)
        if number != signal.SIGKILL:
            assert rest == "afterimage: the server has stopped\n"
        assert served.serve("--status").returncode == 3


class Directory(socketserver.BaseRequestHandler):
    """A minimal LDAP server for a simple bind: one user with one password."""

    NAME = b"uid=ann,ou=people,dc=example,dc=org"
    PASSWORD = b"right horse"

    def handle(self) -> None:
        request = self.request.recv(4096)
        _, message = value(request)
        number, rest = message[:3], message[3:]
        _, bind = value(rest)
        _, name = value(bind[3:])
        _, password = value(bind[3 + 2 + len(name) :])
        right = (name, password) == (self.NAME, self.PASSWORD)
        # BindResponse: success, or invalidCredentials (RFC 4511, 4.1.9 and 4.2.2).
        result = bytes([0x0A, 1, 0 if right else 49, 4, 0, 4, 0])
        response = number + bytes([0x61, len(result)]) + result
        self.request.sendall(bytes([0x30, len(response)]) + response)


def value(encoded: bytes) -> tuple[int, bytes]:
    """Return tag and content of the first BER value; its length fits into one byte."""
    return encoded[0], encoded[2 : 2 + encoded[1]]


@pytest.mark.minutes
def test_server_with_a_directory_accepts_its_users(
    make_project: Callable[[str], Project],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(make_project("guarded"), tmp_path / "warehouse", free_port())
    profile = (ROOT / "profiles" / "profiles.yml").read_text()
    (served.folder / "profiles.yml").unlink()
    served.project.file(
        "profiles.yml",
        profile.replace(
            "spark.app.name: afterimage",
            "spark.hadoop.hive.server2.authentication: LDAP\n        spark.app.name: afterimage",
        ),
    )
    directory = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Directory)
    threading.Thread(target=directory.serve_forever, daemon=True).start()
    served.project.file(
        "conf/hive-site.xml",
        "<configuration><property><name>hive.server2.authentication.ldap.url</name>"
        f"<value>ldap://127.0.0.1:{directory.server_address[1]}</value></property>"
        "<property><name>hive.server2.authentication.ldap.baseDN</name>"
        "<value>ou=people,dc=example,dc=org</value></property></configuration>",
    )
    served.more = {"SPARK_CONF_DIR": str(served.folder / "conf")}
    started = served.serve("--daemon", "--bind", "0.0.0.0")
    assert started.returncode == 0, started.stderr
    served.project.file("models/one.sql", "select 1 as one")
    try:
        for password, lets_in in (("right horse", True), ("wrong horse", False)):
            env = served.environment(
                AFTERIMAGE_SERVER_AUTH="LDAP",
                AFTERIMAGE_SERVER_USER="ann",
                DBT_ENV_SECRET_AFTERIMAGE_SERVER_PASSWORD=password,
            )
            command = (BIN / "dbt", "--debug", "run", "--target", "server")
            result = attempt(*command, cwd=served.folder, env=env)
            assert (result.returncode == 0) is lets_in, result.stdout
            written = [path for path in served.folder.rglob("*") if path.is_file()]
            assert password not in result.stdout + result.stderr
            assert [path for path in written if password.encode() in path.read_bytes()] == []
    finally:
        served.serve("--stop")
        directory.shutdown()


def test_the_replaced_classes_are_dbt_sparks_own() -> None:
    install()
    for ours, theirs, holder, name in (
        (AfterimageConnection, "PyhiveConnectionWrapper", connections, "PyhiveConnectionWrapper"),
        (AfterimageConnectionManager, "SparkConnectionManager", SparkAdapter, "ConnectionManager"),
    ):
        own = ours.__mro__[1]
        assert own.__module__ == "dbt.adapters.spark.connections"
        assert own.__name__ == theirs
        assert getattr(holder, name) is ours


def test_error_of_a_task_keeps_its_cause() -> None:
    text = (
        "org.apache.hive.service.cli.HiveSQLException: Error running query: "
        "org.apache.spark.SparkException: Job aborted\n"
        "\tat org.apache.spark.Some.frame(Some.scala:1)\n"
        "Caused by: java.lang.RuntimeException: in a task\n"
        "\t... 14 more\n"
    )
    assert readable(text) == (
        "org.apache.spark.SparkException: Job aborted\n"
        "Caused by: java.lang.RuntimeException: in a task"
    )


def test_warehouse_of_a_metastore_is_not_moved_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    options = serve.Options(10000, "127.0.0.1", None, "elsewhere", "delta")
    with pytest.raises(AfterimageError, match="set AFTERIMAGE_WAREHOUSE, which moves both"):
        serve._settings(options)
