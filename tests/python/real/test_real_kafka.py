"""Topics of a real broker become raw tables: each message once, whatever goes wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import broker as kafka
from broker import Broker, options_file, running_broker
from command_line import BIN, environment
from conftest import FORMAT, Lake, Project
from dbt_afterimage.cli import main
from dbt_afterimage.landing.broker import NO_ID, OPTIONS, TIMEOUT
from dbt_afterimage.landing.broker import Broker as Answering
from dbt_afterimage.runtime.project import Project as Asked
from messages import Topics, numbered
from registry import running_registry

pytestmark = pytest.mark.minutes

PASSWORD = "marker-of-a-secret-7351"
SOURCE = "sources: [{{name: raw, schema: raw, tables: [{{name: {name}}}]}}]"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of one process."""
    why = kafka.lacking()
    if why:
        pytest.skip(why)
    with running_broker(PASSWORD) as found:
        yield found


@pytest.fixture(scope="module")
def topics(broker: Broker, lake: Lake) -> Topics:
    return Topics(lake.spark, broker)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("real_kafka")


class Landings:
    """A project, and what `afterimage land` says there of topics."""

    def __init__(
        self, project: Project, lake: Lake, broker: Broker, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.project, self.lake, self.broker, self._capfd = project, lake, broker, capfd

    def land(self, topic: str, *arguments: str) -> str:
        """Land a topic, which must succeed, and return what the command says."""
        code, out, err = self.run(topic, *arguments)
        assert code == 0, err
        return out

    def refused(self, topic: str, *arguments: str) -> str:
        """Land a topic, which must fail, and return the error: one line."""
        code, _, err = self.run(topic, *arguments)
        assert code == 1, err
        lines = [line for line in err.splitlines() if " messages to read; " not in line]
        said = [line for line in lines if not line.endswith("...")]
        [line] = [line for line in said if line.startswith("afterimage: ")]
        assert len(said) == 1, err
        return line.removeprefix("afterimage: ")

    def run(self, topic: str, *arguments: str) -> tuple[int, str, str]:
        self._capfd.readouterr()
        where = ("--project-dir", str(self.project.folder))
        profiles = ("--profiles-dir", str(self.project.folder / "profiles"))
        path = topic if ":" in topic else f"kafka://{self.broker.address}/{topic}"
        code = main(["land", path, *arguments, *where, *profiles])
        return code, *self._capfd.readouterr()

    def values(self, table: str) -> list[str]:
        """Return the values of a table, by partition and offset."""
        rows = self.lake.rows(
            f"select cast(value as string) as value from {table} order by partition, offset"
        )
        return [row["value"] for row in rows]


@pytest.fixture
def landings(
    project: Project, lake: Lake, broker: Broker, capfd: pytest.CaptureFixture[str]
) -> Iterator[Landings]:
    lake.spark.sql("create namespace if not exists raw")
    yield Landings(project, lake, broker, capfd)
    for row in lake.rows("show tables in raw"):
        lake.spark.sql(f"drop table raw.`{row['tableName']}`")


def texts(*numbers: int) -> list[str]:
    return [str(one) for one in numbers]


def test_each_run_adds_what_is_new(landings: Landings, topics: Topics) -> None:
    topics.create("crm.orders", partitions=2)
    sent = {"value": "{}", "key": "k", "headers": {"h": "1"}, "timestamp": 1_700_000_000_123}
    topics.send("crm.orders", [*numbered([1, 2], 0), {**sent, "partition": 1}])
    said = landings.land("crm.orders")
    assert "raw.crm_orders: Kafka, topic crm.orders, 3 messages loaded (5 bytes), lag 0" in said
    row = landings.lake.rows("select * from raw.crm_orders where partition = 1")[0]
    assert list(row) == [
        *("key", "value", "headers", "partition", "offset", "timestamp", "timestamp_type"),
    ]
    assert (bytes(row["key"]), bytes(row["value"]), row["offset"]) == (b"k", b"{}", 0)
    assert [(one["key"], bytes(one["value"])) for one in row["headers"]] == [("h", b"1")]
    assert row["timestamp"].isoformat() == "2023-11-14T22:13:20.123000"
    assert "nothing new, lag 0" in landings.land("crm.orders")
    topics.send("crm.orders", numbered([3], 0))
    assert "1 message loaded (1 bytes), lag 0" in landings.land("crm.orders")
    topics.widen("crm.orders", 3)
    topics.send("crm.orders", numbered([4], 2))
    landings.land("crm.orders")
    assert landings.values("raw.crm_orders") == [*texts(1, 2, 3), "{}", "4"]


def test_news_know_what_waits_at_the_broker(
    landings: Landings, topics: Topics, capfd: pytest.CaptureFixture[str]
) -> None:
    def news() -> tuple[int, str]:
        where = ("--project-dir", str(landings.project.folder))
        profiles = ("--profiles-dir", str(landings.project.folder / "profiles"))
        capfd.readouterr()
        code = main(["news", f"kafka://{landings.broker.address}/lag*", *where, *profiles])
        return code, capfd.readouterr().out

    topics.create("lagging", partitions=2)
    topics.send("lagging", numbered([1, 2, 3], 0))
    assert news() == (0, "topic lagging  not landed yet\n")
    landings.land("lagging")
    assert news() == (3, "topic lagging  nothing new\n")
    topics.send("lagging", numbered([4, 5], 0))
    topics.send("lagging", numbered([6], 1))
    assert news() == (0, "topic lagging  3 messages to land\n")
    topics.delete("lagging")
    time.sleep(1)
    topics.create("lagging")
    topics.send("lagging", numbered([7, 8]))
    assert news() == (0, "topic lagging  2 messages to land\n")


def test_patterns_and_names(landings: Landings, topics: Topics) -> None:
    for name in ("shop.a", "shop.b", "shop-b"):
        topics.create(name)
        topics.send(name, [{"value": name}])
    said = landings.land("shop.*")
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "raw.shop_a",
        "raw.shop_b",
        "Next",
    ]
    assert landings.values("raw.shop_b") == ["shop.b"]
    assert "topics shop-b and shop.b would both become raw.shop_b" in landings.refused("shop?b")
    assert "a table holds one topic" in landings.refused("shop-b")
    landings.land("shop-b", "--as", "raw.other")
    assert landings.values("raw.other") == ["shop-b"]
    assert "would both become raw.x" in landings.refused("shop.*", "--as", "raw.x")
    refused = {
        "nothing.*": "has no topic nothing.*. Topics: ",
        "kafka://h/": "a topic must be named as kafka://HOST:PORT/TOPIC",
        "kafka://u:p@h/t": "a path has no user and no password",
    }
    for path, said in refused.items():
        assert said in landings.refused(path)
    landings.lake.spark.sql(f"create table raw.mine (id int) using {FORMAT}")
    assert "raw.mine already exists" in landings.refused("shop.a", "--as", "raw.mine")


class Killed(BaseException):
    """Ends a command in the middle, as `kill -9` would: no handler for errors is for it."""


@contextmanager
def before(
    monkeypatch: pytest.MonkeyPatch, word: str, happens: Callable[[], object], *, late: bool = False
) -> Iterator[None]:
    """Let something happen before the first statement with a word, or right after it."""
    run = Asked.rows
    done: list[str] = []

    def watched(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        is_due = word in sql and not done
        done.extend([sql] if is_due else [])
        if is_due and not late:
            happens()
        rows = run(self, sql, *settings)
        if is_due and late:
            happens()
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", watched)
        yield
    assert done, word


@contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, place: int, *, late: bool) -> Iterator[None]:
    """End a command before, or after, the statement at a place among those that change a table."""
    run = Asked.rows
    left = [place]

    def watched(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        is_write = sql.startswith(("create", "alter", "insert", "call"))
        left[0] -= is_write
        if is_write and left[0] == -1 and not late:
            raise Killed
        rows = run(self, sql, *settings)
        if is_write and left[0] == -1:
            raise Killed
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", watched)
        yield


def test_killed_at_any_statement_each_message_is_there_once(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of the run that mends what the one before left."""
    seed = int(os.environ.get("AFTERIMAGE_SEED", "51"))
    source = random.Random(seed)
    topics.create("killed", partitions=2)
    sent = 0
    kills = int(os.environ.get("AFTERIMAGE_KILLS", "6"))
    for number in range(kills):
        for partition in (0, 1):
            count = source.randrange(4)
            topics.send("killed", numbered(range(sent, sent + count), partition))
            sent += count
        # Create schema and table, then a load; later only a load.
        place, late = source.randrange(8 if number == 0 else 6), source.random() < 0.5
        with killed(monkeypatch, place, late=late):
            try:
                landings.land("killed")
            except Killed:
                continue
    landings.land("killed")
    values = landings.values("raw.killed")
    assert sorted(map(int, values)) == list(range(sent)), (seed, kills)
    if FORMAT == "iceberg":
        assert landings.lake.rows("select name from raw.killed.refs") == [{"name": "main"}]


def typed(path: str) -> list[str]:
    """Return the command that lands a path, in the folder of a project."""
    return [str(BIN / "afterimage"), "land", path, "--profiles-dir", "profiles"]


def same() -> dict[str, str]:
    """Return the variables of a process that works on the same tables."""
    return environment(
        AFTERIMAGE_WAREHOUSE=os.environ["AFTERIMAGE_WAREHOUSE"],
        DBT_TARGET=os.environ.get("DBT_TARGET", "local"),
        PYTHONPATH=os.environ.get("PYTHONPATH", ""),
    )


def test_killed_processes_leave_nothing_out(
    landings: Landings, topics: Topics, project: Project
) -> None:
    """A real `kill -9` of the command, at any moment of its load."""
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "51")))
    topics.create("shot", partitions=2)
    path = f"kafka://{landings.broker.address}/shot"
    sent = 0
    for _ in range(int(os.environ.get("AFTERIMAGE_SHOTS", "2"))):
        topics.send("shot", numbered(range(sent, sent + 50)))
        sent += 50
        process = subprocess.Popen(
            typed(path),
            cwd=project.folder,
            env=same(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "loading" in line:
                break
        time.sleep(source.random() * 5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    landings.land("shot")
    assert sorted(map(int, landings.values("raw.shot"))) == list(range(sent))


# The metastore of the target `delta` serves one process at a time.
@pytest.mark.needs("iceberg")
def test_a_second_project_at_the_same_time_is_told(
    landings: Landings,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    make_project: Callable[[str], Project],
) -> None:
    topics.create("shared")
    topics.send("shared", numbered([1, 2]))
    other = make_project("other_kafka")
    path = f"kafka://{landings.broker.address}/shared"

    def land_there() -> None:
        done = subprocess.run(typed(path), cwd=other.folder, env=same(), capture_output=True)
        assert done.returncode == 0, done.stderr

    landings.land("shared")
    topics.send("shared", numbered([3]))
    with before(monkeypatch, "insert into", land_there):
        assert "another program has written to raw.shared" in landings.refused("shared")
    assert landings.values("raw.shared") == texts(1, 2, 3)
    topics.send("shared", numbered([4]))
    landings.land("shared")
    assert landings.values("raw.shared") == texts(1, 2, 3, 4)


def test_messages_that_are_gone_are_told(landings: Landings, topics: Topics) -> None:
    topics.create("gone", partitions=2)
    topics.send("gone", numbered(range(6), 0))
    topics.forget("gone", 0, 1)
    said = landings.land("gone")
    assert "partition 0 begins at offset 1: the broker has deleted what was before" in said
    topics.send("gone", numbered(range(6, 12), 0))
    topics.forget("gone", 0, 9)
    said = landings.refused("gone")
    assert (
        "topic gone no longer has up to 3 messages: 3 of partition 0 (offsets 6 to 8), which"
        " raw.gone lacks."
    ) in said
    assert "--accept-gap" in said
    assert landings.values("raw.gone") == texts(1, 2, 3, 4, 5)
    assert "noted as a gap" in landings.land("gone", "--accept-gap")
    assert landings.values("raw.gone") == texts(1, 2, 3, 4, 5, 9, 10, 11)
    # change_accounting reads this.
    [missing] = landings.lake.rows("show tblproperties raw.gone ('afterimage.missing')")
    assert missing["value"] == "3"
    # Those of a partition that was added since are gone, too.
    topics.widen("gone", 3)
    topics.send("gone", numbered([20, 21], 2))
    topics.forget("gone", 2, 1)
    said = landings.refused("gone")
    assert "topic gone no longer has up to 1 messages: 1 of partition 2 (offsets 0 to 0)" in said
    landings.land("gone", "--accept-gap")
    assert landings.values("raw.gone") == texts(1, 2, 3, 4, 5, 9, 10, 11, 21)
    said = landings.land("gone")
    assert "nothing new" in said
    assert "lacks 3 messages of partition 0 (offsets 6 to 8)" in said


def test_messages_that_go_before_they_are_read(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create("going")
    topics.send("going", numbered([1, 2, 3]))
    landings.land("going")
    topics.send("going", numbered([4, 5, 6]))
    with before(monkeypatch, "insert into", lambda: topics.forget("going", 0, 5)):
        said = landings.refused("going")
    assert "topic going has lost messages while they were read; nothing was landed" in said
    assert landings.values("raw.going") == texts(1, 2, 3)
    landings.land("going", "--accept-gap")
    assert landings.values("raw.going") == texts(1, 2, 3, 6)


def test_messages_that_go_once_they_are_read(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is whole, also the first time, which begins where retention deletes next."""
    topics.create("gone_late", partitions=2)
    producer = topics.producer(transactional_id="late")
    producer.initTransactions()
    for numbers, ends in (([1, 2], "commit"), ([3], "abort"), ([4], "commit"), ([5], "abort")):
        producer.beginTransaction()
        topics.send_by(producer, "gone_late", numbered(numbers, 0))
        getattr(producer, f"{ends}Transaction")()
    producer.close()
    topics.send("gone_late", numbered([6, 7], 1))
    # Offsets 0 to 8: each transaction has one for its end.
    with before(monkeypatch, "insert into", lambda: topics.forget("gone_late", 0, 4), late=True):
        assert "5 messages loaded" in landings.land("gone_late")
    assert landings.values("raw.gone_late") == texts(1, 2, 4, 6, 7)
    topics.send("gone_late", [*numbered([8, 9], 0), *numbered([10], 1)])
    with before(monkeypatch, "insert into", lambda: topics.forget("gone_late", 0, 11), late=True):
        assert "3 messages loaded" in landings.land("gone_late")
    assert landings.values("raw.gone_late") == texts(1, 2, 4, 8, 9, 6, 7, 10)
    said = landings.land("gone_late")
    assert "nothing new" in said
    assert "lacks" not in said


@pytest.mark.parametrize("late", [False, True])
def test_a_topic_made_anew(
    late: bool, landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"anew_{late}".lower()
    topics.create(name)
    topics.send(name, numbered([1, 2]))
    landings.land(name)
    topics.send(name, numbered([3]))

    def make_anew() -> None:
        topics.delete(name)
        time.sleep(1)
        topics.create(name)
        topics.send(name, numbered([7, 8, 9, 10]))

    with before(monkeypatch, "insert into", make_anew, late=late):
        landings.refused(name)
    assert landings.values(f"raw.{name}") == texts(1, 2)
    said = landings.refused(name)
    assert f"topic {name} was created again since it was landed into raw.{name}" in said
    landings.land(name, "--as", f"raw.{name}_2")
    assert landings.values(f"raw.{name}_2") == texts(7, 8, 9, 10)
    topics.send(name, numbered([11]))
    landings.refused(name)
    # Once staging reads that table, it goes on without its name.
    landings.project.file("models/again.yml", SOURCE.format(name=f"{name}_2"))
    try:
        assert f"raw.{name}_2: Kafka, topic {name}, 1 message loaded" in landings.land(name)
    finally:
        (landings.project.folder / "models/again.yml").unlink()
    assert landings.values(f"raw.{name}_2") == texts(7, 8, 9, 10, 11)


def test_a_topic_made_anew_at_a_broker_without_identities(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Redpanda up to 25.2. The topic is as long as it was by the next run, so no end is lost."""
    told = Answering.topic
    monkeypatch.setattr(Answering, "topic", lambda *asked: replace(told(*asked), id=NO_ID))
    topics.create("unnamed", partitions=2)
    topics.send("unnamed", [*numbered([1, 2], 0), *numbered([3], 1)])
    landings.land("unnamed")
    topics.send("unnamed", numbered([4], 0))
    assert "1 message loaded" in landings.land("unnamed")
    assert "nothing new" in landings.land("unnamed")
    topics.delete("unnamed")
    time.sleep(1)
    topics.create("unnamed", partitions=2)
    topics.send("unnamed", [*numbered([5, 6, 7, 8], 0), *numbered([9], 1)])
    said = landings.refused("unnamed")
    assert "topic unnamed was created again since it was landed into raw.unnamed" in said
    assert landings.values("raw.unnamed") == texts(1, 2, 4, 3)
    landings.land("unnamed", "--as", "raw.unnamed_2")
    topics.send("unnamed", numbered([10], 1))
    assert "1 message loaded" in landings.land("unnamed", "--as", "raw.unnamed_2")
    # A message that the broker no longer has tells nothing.
    topics.forget("unnamed", 0, 4)
    assert "nothing new" in landings.land("unnamed", "--as", "raw.unnamed_2")
    assert landings.values("raw.unnamed_2") == texts(5, 6, 7, 8, 9, 10)


def test_transactions_that_ended_well(landings: Landings, topics: Topics) -> None:
    topics.create("paid")
    producer = topics.producer(transactional_id="one")
    producer.initTransactions()
    for numbers, ends in (([1, 2], "commit"), ([3], "abort"), ([4], "commit"), ([5], "abort")):
        producer.beginTransaction()
        topics.send_by(producer, "paid", numbered(numbers))
        getattr(producer, f"{ends}Transaction")()
    assert "3 messages loaded" in landings.land("paid")
    assert landings.values("raw.paid") == texts(1, 2, 4)
    assert "nothing new" in landings.land("paid")
    producer.beginTransaction()
    topics.send_by(producer, "paid", numbered([6]))
    topics.send("paid", numbered([7]))
    # What comes after an open transaction waits too.
    assert "nothing new" in landings.land("paid")
    producer.commitTransaction()
    producer.close()
    landings.land("paid")
    assert landings.values("raw.paid") == texts(1, 2, 4, 6, 7)


def test_a_compacted_topic_has_gaps(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(
        "compacted",
        cleanup_policy="compact,delete",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="100",
    )
    for number in range(60):
        topics.send("compacted", [{"key": str(number % 3), "value": str(number)}])
        if number % 20 == 0:
            time.sleep(0.2)
    landings.land("compacted")
    for _ in range(100):
        topics.send("compacted", [{"key": "3", "value": "x"}])
        landings.lake.spark.sql("drop table raw.compacted")
        landings.land("compacted")
        if len(landings.values("raw.compacted")) < 30:
            break
        time.sleep(0.5)
    values = landings.values("raw.compacted")
    assert len(values) < 30
    assert {"57", "58", "59"} <= set(values)
    topics.send("compacted", [{"key": "0", "value": "60"}])
    landings.land("compacted")
    assert landings.values("raw.compacted") == [*values, "60"]
    # It may be compacted further meanwhile; what its keys have last is there.
    landings.lake.spark.sql("drop table raw.compacted")
    with before(monkeypatch, "insert into", lambda: topics.forget("compacted", 0, -1), late=True):
        landings.land("compacted")
    assert {"58", "59", "x", "60"} <= set(landings.values("raw.compacted"))
    assert "nothing new" in landings.land("compacted")


def test_messages_of_megabytes(landings: Landings, topics: Topics) -> None:
    topics.create("large", max_message_bytes="15000000")
    values = ["a" * 5_000_000, "b" * 12_000_000, "c"]
    topics.send(
        "large",
        [{"value": value} for value in values],
        max_request_size="15000000",
        buffer_memory="60000000",
    )
    assert "3 messages loaded (17.0 MB)" in landings.land("large")
    assert landings.values("raw.large") == values


def test_a_broker_that_is_away(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "2")
    started = time.monotonic()
    said = landings.refused("kafka://127.0.0.1:9/away")
    assert "127.0.0.1:9 does not answer within 2 s" in said
    assert time.monotonic() - started < 30
    assert "no host of none.invalid:9092 is known" in landings.refused("kafka://none.invalid/t")
    monkeypatch.setenv(TIMEOUT, "soon")
    assert f"{TIMEOUT} must be a number of seconds. Got: soon" in landings.refused("away")
    monkeypatch.setenv(TIMEOUT, "5")
    with running_broker() as other:
        there = Topics(landings.lake.spark, other)
        there.create("away")
        there.send("away", numbered([1, 2]))
        path = f"kafka://{other.address}/away"
        with before(monkeypatch, "insert into", other.kill):
            assert f"{other.address} does not answer within 5 s" in landings.refused(path)
        assert landings.values("raw.away") == []
        other.start()
        landings.land(path)
        assert landings.values("raw.away") == texts(1, 2)


JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="reader" password="{}";'
)


def test_secrets_are_nowhere(
    landings: Landings,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    topics.create("secret")
    topics.send("secret", numbered([1]))
    path = f"kafka://127.0.0.1:{landings.broker.sasl}/secret"
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS.format(PASSWORD),
    }
    monkeypatch.setenv(OPTIONS, options_file(tmp_path / "right", options))
    plans: list[str] = []
    run = Asked.rows

    def explained(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        if sql.startswith("insert"):
            plans.extend(str(row) for row in run(self, f"explain extended {sql}"))
        return run(self, sql, *settings)

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", explained)
        code, out, err = landings.run(path)
    assert code == 0, err
    assert landings.values("raw.secret") == ["1"]
    assert plans
    said = [out, err, *plans, *map(str, landings.lake.rows("show tblproperties raw.secret"))]
    # Each of these is refused at another place.
    wrong = {
        "sasl.jaas.config": JAAS.format(PASSWORD + "-wrong"),
        "sasl.mechanism": PASSWORD,
        "security.protocol": PASSWORD,
        "ssl.truststore.location": f"/{PASSWORD}",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(TIMEOUT, "5")
        protocol = {"security.protocol": "SSL"} if name.startswith("ssl") else {}
        given = {**options, **protocol, name: value}
        monkeypatch.setenv(OPTIONS, options_file(tmp_path / "wrong", given))
        said.append(landings.refused(path))
    given = {**options, "sasl.jaas.config": f'nothing "{PASSWORD}" password={PASSWORD}'}
    monkeypatch.setenv(OPTIONS, options_file(tmp_path / "wrong", given))
    said.append(landings.refused(path))
    assert f"refuses the options of the file that {OPTIONS} names" in said[-5]
    assert [one for one in said if PASSWORD in one] == []
    folders = (landings.project.folder, Path(os.environ["AFTERIMAGE_WAREHOUSE"]))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    marker = PASSWORD.encode()
    assert len(files) > 5
    assert [str(path) for path in files if marker in path.read_bytes()] == []
    monkeypatch.setenv(OPTIONS, str(tmp_path / "none"))
    assert "cannot be read: No such file" in landings.refused(path)
    monkeypatch.setenv(OPTIONS, options_file(tmp_path / "own", {"group.id": "x"}))
    assert "group.id cannot be set" in landings.refused(path)


def test_rows_that_were_taken_back_are_landed_again(landings: Landings, topics: Topics) -> None:
    topics.create("taken", partitions=2)
    topics.send("taken", [*numbered([1, 2], 0), *numbered([10], 1)])
    landings.land("taken")
    if FORMAT == "iceberg":
        [first] = landings.lake.rows(
            "select snapshot_id from raw.taken.snapshots order by committed_at desc limit 1"
        )
        back = f"call system.rollback_to_snapshot('raw.taken', {first['snapshot_id']})"
    else:
        [newest] = landings.lake.rows("describe history raw.taken limit 1")
        back = f"restore table raw.taken to version as of {newest['version']}"
    topics.send("taken", [*numbered([3], 0), *numbered([11], 1)])
    landings.land("taken")
    landings.lake.spark.sql(back)
    said = landings.land("taken")
    assert landings.values("raw.taken") == texts(1, 2, 3, 10, 11)
    if FORMAT == "iceberg":
        # Delta's RESTORE takes the property back with the rows.
        assert "partition 0: the rows behind offset 1 were removed from raw.taken" in said
    # Old rows that somebody has deleted stay so.
    landings.lake.spark.sql("delete from raw.taken where offset = 0")
    assert "nothing new" in landings.land("taken")
    landings.lake.spark.sql("delete from raw.taken where partition = 1")
    assert "partition 1: all rows were removed" in landings.land("taken")
    assert landings.values("raw.taken") == texts(2, 3, 10, 11)
    # Delta knows no TRUNCATE.
    landings.lake.spark.sql("delete from raw.taken")
    landings.land("taken")
    assert landings.values("raw.taken") == texts(1, 2, 3, 10, 11)


def avro(number: int) -> bytes:
    """Return a message with the id of a schema."""
    return b"\0" + number.to_bytes(4, "big") + b"x"


def test_schemas_of_a_registry(
    landings: Landings, topics: Topics, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topics.create("framed")
    messages = [(1, avro(7)), (2, avro(300)), (3, avro(7)), (4, b"{}"), (5, b"\0\0")]
    topics.send("framed", [{"key": avro(9), "value": value} for _, value in messages])
    # Messages of runs without --registry are looked through by the first that has it.
    landings.land("framed")
    schemas = "select id, schema from raw.registry_schemas order by id"
    text = '{"type": "string"}'
    with running_registry({7: text, 9: '"int"'}, "me:right") as registry:
        monkeypatch.setenv(OPTIONS, options_file(tmp_path / "o", {"registry.basic.auth": "me:no"}))
        said = landings.refused("framed", "--registry", registry.url)
        assert f"{registry.url} answers 401" in said
        assert "check registry.basic.auth in the file" in said
        right = {"registry.basic.auth": "me:right"}
        monkeypatch.setenv(OPTIONS, options_file(tmp_path / "o", right))
        said = landings.land("framed", "--registry", registry.url)
        assert "raw.registry_schemas: 2 schemas added" in said
        assert f"{registry.url} has no schema with the id 300: its messages wait" in said
        expected = [{"id": 7, "schema": text}, {"id": 9, "schema": '"int"'}]
        assert landings.lake.rows(schemas) == expected
        assert registry.asked == [7, 9]
        registry.answers[301] = {"schema": "message A {}", "schemaType": "PROTOBUF"}
        topics.send("framed", [{"value": avro(301)}])
        said = landings.land("framed", "--registry", f"{registry.url}/")
        assert "the schema with the id 301 is PROTOBUF, which is not read" in said
        assert "no schema with the id 300" in said
        # What was missing is asked for again.
        registry.answers[300] = {"schema": '"long"'}
        landings.land("framed", "--registry", registry.url)
        expected.append({"id": 300, "schema": '"long"'})
        assert landings.lake.rows(schemas) == expected
        landings.lake.spark.sql("drop table raw.registry_schemas")
        landings.land("framed", "--registry", registry.url)
        assert landings.lake.rows(schemas) == expected
    with running_registry({}) as other:
        said = landings.refused("framed", "--registry", other.url)
        assert "raw.registry_schemas has the schemas of http" in said
    said = landings.refused("framed", "--registry", "http://127.0.0.1:9")
    assert "ids of two registries are not the same" in said


def test_the_topic_of_a_registry(landings: Landings, topics: Topics) -> None:
    """As Confluent's registry writes it: a message for each version of a subject."""

    def record(number: int, schema: str, **more: Any) -> dict[str, Any]:
        key = {"keytype": "SCHEMA", "subject": "s", "version": number, "magic": 1}
        value = {"subject": "s", "version": number, "id": number, "schema": schema, **more}
        return {"key": json.dumps(key), "value": json.dumps(value)}

    topics.create("_schemas")
    noop = {"key": '{"keytype":"NOOP","magic":0}', "value": None}
    topics.send("_schemas", [noop, record(1, '"int"'), record(2, "m", schemaType="PROTOBUF")])
    said = landings.land("_schemas")
    assert "looks like the topic of a schema registry" in said
    assert "raw.registry_schemas: 1 schema added" in said
    topics.send("_schemas", [record(1, '"int"', deleted=True), record(3, '"long"')])
    landings.land("_schemas")
    assert landings.lake.rows("select * from raw.registry_schemas order by id") == [
        {"id": 1, "schema": '"int"'},
        {"id": 3, "schema": '"long"'},
    ]
