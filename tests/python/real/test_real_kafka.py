"""Topics of a real broker become raw tables: each message once, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import broker as kafka
from broker import Broker, running_broker
from conftest import Lake, Project
from dbt_afterimage.cli import main
from messages import Topics, numbered

pytestmark = pytest.mark.minutes

PASSWORD = "marker-of-a-secret-7351"


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
        said = [line for line in err.splitlines() if not line.endswith("...")]
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
