"""Sends messages to a broker, and changes its topics, through Kafka's client in Spark's process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from broker import PATIENCE, Broker


def java_of(spark: SparkSession) -> Any:
    """Return the Java of a session."""
    return spark.sparkContext._jvm


class Topics:
    """The topics of a broker."""

    def __init__(self, spark: SparkSession, broker: Broker) -> None:
        self.java = java_of(spark)
        self.broker = broker
        self.admin: Any = self.java.org.apache.kafka.clients.admin.AdminClient.create(
            self._properties({})
        )

    def _properties(self, options: Mapping[str, str]) -> Any:
        properties = self.java.java.util.Properties()
        for name, value in {"bootstrap.servers": self.broker.address, **options}.items():
            properties.setProperty(name, value)
        return properties

    def _wait(self, future: Any) -> Any:
        return future.get(PATIENCE, self.java.java.util.concurrent.TimeUnit.SECONDS)

    def _list(self, *items: Any) -> Any:
        made = self.java.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def place(self, topic: str, partition: int) -> Any:
        return self.java.org.apache.kafka.common.TopicPartition(topic, partition)

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Make a topic; in the names of settings `_` stands for a dot."""
        admin = self.java.org.apache.kafka.clients.admin
        configs = self.java.java.util.HashMap()
        for name, value in settings.items():
            configs.put(name.replace("_", "."), value)
        some = self.java.java.util.Optional
        made = admin.NewTopic(topic, some.of(partitions), some.empty()).configs(configs)
        self._wait(self.admin.createTopics(self._list(made)).all())

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._wait(self.admin.deleteTopics(self._list(topic)).all())

    def widen(self, topic: str, partitions: int) -> None:
        """Let a topic have more partitions."""
        more = self.java.java.util.HashMap()
        new = self.java.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)
        more.put(topic, new)
        self._wait(self.admin.createPartitions(more).all())

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Let the broker delete the messages before an offset, as retention does."""
        lang = self.java.java.lang
        # Nothing has loaded this class yet, and Py4J looks for it where the jars of Spark are not.
        name = "org.apache.kafka.clients.admin.RecordsToDelete"
        kind = lang.Class.forName(name, True, lang.Thread.currentThread().getContextClassLoader())
        [make] = [
            one
            for one in kind.getMethods()
            if one.getName() == "beforeOffset" and one.getParameterCount()
        ]
        given = lang.reflect.Array.newInstance(lang.Class.forName("java.lang.Object"), 1)
        given[0] = before
        wanted = self.java.java.util.HashMap()
        wanted.put(self.place(topic, partition), make.invoke(None, given))
        self._wait(self.admin.deleteRecords(wanted).all())

    def send(self, topic: str, messages: Iterable[Mapping[str, Any]], **options: str) -> None:
        """Send messages: `value`, and `key`, `partition` and `headers` where they have them."""
        producer = self.producer(**options)
        try:
            self.send_by(producer, topic, messages)
        finally:
            producer.close()

    def producer(self, **options: str) -> Any:
        """Return a producer; in the names of options `_` stands for a dot."""
        kind = "org.apache.kafka.common.serialization.ByteArraySerializer"
        given = {name.replace("_", "."): value for name, value in options.items()}
        return self.java.org.apache.kafka.clients.producer.KafkaProducer(
            self._properties(
                {"key.serializer": kind, "value.serializer": kind, "linger.ms": "5", **given}
            )
        )

    def send_by(self, producer: Any, topic: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """Send messages by a producer, and wait until they are there."""
        record = self.java.org.apache.kafka.clients.producer.ProducerRecord
        header = self.java.org.apache.kafka.common.header.internals.RecordHeader
        for one in messages:
            headers = [header(n, _bytes(v)) for n, v in (one.get("headers") or {}).items()]
            producer.send(
                record(
                    topic,
                    one.get("partition"),
                    one.get("timestamp"),
                    _bytes(one.get("key")),
                    _bytes(one["value"]),
                    self._list(*headers),
                )
            )
        producer.flush()


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def numbered(numbers: Sequence[int], partition: int | None = None) -> list[dict[str, Any]]:
    """Return messages of which each says its number."""
    return [{"value": str(one), "partition": partition} for one in numbers]
