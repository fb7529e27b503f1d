"""How long a topic takes to land, beside Spark's bare read and write of the same topic.

    .venv/bin/python tests/benchmark/topic_throughput.py --messages 1000000

Both take turns, in one session, on a broker of one process. Bare is what a person would type: read
the topic from its first offset to its last, and write all columns into a new table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "python" / "support")]

from dbt_afterimage.landing.broker import Broker  # noqa: E402
from dbt_afterimage.landing.topics import TopicTable, spark_of  # noqa: E402
from dbt_afterimage.runtime import jars  # noqa: E402
from dbt_afterimage.runtime.project import Project, Where  # noqa: E402

TOPIC = "measured"


def fill(spark: Any, address: str, messages: int, partitions: int) -> None:
    """Send messages of some 300 bytes, as a row in JSON has."""
    from pyspark.sql.functions import expr

    value = (
        "to_json(struct(id, id * 7 as total, sha2(string(id), 512) as note, 'open' as state,"
        " timestamp_seconds(1700000000 + id) as changed_at, uuid() as token, 'Ada' as name))"
    )
    rows = spark.range(messages).select(
        expr("cast(id as string) as key"),
        expr(f"{value} as value"),
        expr(f"cast(id % {partitions} as int) as partition"),
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", address).option(
        "topic", TOPIC
    ).save()


def bare(spark: Any, address: str, table: str) -> float:
    """Return the seconds that Spark's own read and write takes."""
    started = time.monotonic()
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", TOPIC)
        .option("includeHeaders", "true")
        .load()
    )
    columns = ("key", "value", "headers", "partition", "offset", "timestamp", "timestampType")
    rows.select(*columns).writeTo(table).using("iceberg").createOrReplace()
    return time.monotonic() - started


def landed(project: Project, broker: Broker, name: str) -> float:
    """Return the seconds that landing takes."""
    started = time.monotonic()
    read = TopicTable(project, "raw", name).load_topic(broker, TOPIC, accept_gap=False)
    print(f"  {read.messages:,} messages, {read.size:,} bytes", flush=True)
    return time.monotonic() - started


def main() -> None:
    """Measure, and print each round and the middle of all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ.setdefault("AFTERIMAGE_JARS", str(ROOT / ".afterimage" / "jars"))
    os.environ["AFTERIMAGE_WAREHOUSE"] = tempfile.mkdtemp(prefix="topics-")
    from broker import running_broker
    from messages import Topics

    jars.want(jars.KAFKA)
    where = Where(project_dir=str(ROOT), profiles_dir=str(ROOT / "profiles"))
    project = Project(where)
    spark = spark_of(project)
    with running_broker() as server:
        Topics(spark, server).create(TOPIC, given.partitions)
        fill(spark, server.address, given.messages, given.partitions)
        broker = Broker(spark, server.address)
        times: dict[str, list[float]] = {"bare": [], "landed": []}
        spark.sql("create namespace if not exists raw")
        for number in range(given.rounds + 1):
            turns = {
                "bare": lambda: bare(spark, server.address, "raw.bare"),
                "landed": lambda n=number: landed(project, broker, f"landed_{n}"),
            }
            for name in list(turns) if number % 2 else list(turns)[::-1]:
                seconds = turns[name]()
                # The first round warms both up.
                if number:
                    times[name].append(seconds)
                print(f"{name}: {seconds:.1f} s", flush=True)
    middle = {name: statistics.median(found) for name, found in times.items()}
    print(
        f"{given.messages:,} messages: bare {middle['bare']:.1f} s,"
        f" landed {middle['landed']:.1f} s, {middle['landed'] / middle['bare']:.2f} times"
    )


if __name__ == "__main__":
    main()
