"""Asks a Kafka broker for its topics and how far they go, through the client in Spark's process.

What the client needs to be let in (passwords, certificates) is in a file that an environment
variable names. None of it is in an error, a log or a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.text import visible

OPTIONS = "AFTERIMAGE_KAFKA_OPTIONS"  # a file with Kafka's client options, as Kafka's tools take it
TIMEOUT = "AFTERIMAGE_KAFKA_TIMEOUT"  # the seconds after which a broker counts as away
_DEFAULT_SECONDS = 30

# Options of a registry are in the same file, but not for Kafka.
REGISTRY = "registry."
_ISOLATION = "isolation.level"
# What Afterimage and Spark decide themselves.
_FIXED = (
    "bootstrap.servers",
    "group.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "key.deserializer",
    "value.deserializer",
    "interceptor.classes",
)
# Values that are no secrets, and words of messages.
_PLAIN = re.compile(
    r"(security\.protocol|sasl\.mechanism|ssl\.\w+\.type|isolation\.level|.*\.(ms|bytes))"
)
_SEVERAL = "*?["
# What a broker that knows no identities of topics says.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True)
class Address:
    """Where topics are.

    Attributes:
        servers: Host and port of one or more brokers, as Kafka's clients take them.
        topics: Their names, or patterns of names.
    """

    servers: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Topic:
    """A topic, as it is now.

    Attributes:
        cluster: The identity of the brokers, whatever their addresses.
        name: Its name.
        id: Its identity. A topic that was created again has another.
        first: The offset of the first message that each partition still has.
        end: The offset behind the last message of each partition that may be read.
        written: The offset behind the last message, also of transactions that are not finished.
    """

    cluster: str
    name: str
    id: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    written: Mapping[int, int]

    @property
    def path(self) -> str:
        """What a table remembers it by."""
        return f"kafka://{self.cluster}/{self.name}"


def is_address(path: str) -> bool:
    """Whether a path names topics."""
    return path.lower().startswith("kafka:")


def address(path: str) -> Address:
    """Return what a path such as `kafka://host:9092/crm.*` names.

    Args:
        path: The path.

    Raises:
        AfterimageError: It names no broker or no topic, or has a password.
    """
    if "@" in path:
        raise AfterimageError(
            "a path has no user and no password: put Kafka's options into a file and name it in"
            f" {OPTIONS}"
        )
    found = re.fullmatch(r"(?i)kafka://([^/\s]+)/([^/\s]+)", path)
    servers = [one for one in found[1].split(",") if one] if found else []
    topics = [one for one in found[2].split(",") if one] if found else []
    if not servers or not topics:
        raise AfterimageError(
            "a topic must be named as kafka://HOST:PORT/TOPIC; TOPIC may be a pattern, such as"
            f" 'crm.*'. Got: {visible(path)}"
        )
    with_port = [one if re.search(r":\d+$", one) else f"{one}:9092" for one in servers]
    return Address(",".join(with_port), tuple(topics))


def is_pattern(topic: str) -> bool:
    """Whether a name may stand for several topics."""
    return any(sign in topic for sign in _SEVERAL)


def seconds() -> int:
    """Return the seconds after which a broker counts as away.

    Raises:
        AfterimageError: The environment variable is no number.
    """
    text = os.environ.get(TIMEOUT) or str(_DEFAULT_SECONDS)
    if not re.fullmatch("[1-9][0-9]{0,4}", text):
        raise AfterimageError(f"{TIMEOUT} must be a number of seconds. Got: {visible(text)}")
    return int(text)


def lost(topic: str) -> AfterimageError:
    """Return the error that a broker has deleted messages under the reader's hands."""
    return AfterimageError(
        f"topic {visible(topic)} has lost messages while they were read; nothing was landed. Run"
        " again"
    )


class Broker:
    """A Kafka broker, or several of one cluster."""

    def __init__(self, spark: Any, servers: str) -> None:
        """Name the broker; nothing is asked yet.

        Args:
            spark: The Spark session.
            servers: Host and port.

        Raises:
            AfterimageError: The session has no jars of Kafka, or the options cannot be read.
        """
        self._jvm = spark.sparkContext._jvm
        self.servers = servers
        self._seconds = seconds()
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for name in ("sql.kafka010.KafkaSourceProvider", "kafka010.KafkaConfigUpdater"):
            if loader.getResource(f"org/apache/spark/{name.replace('.', '/')}.class") is None:
                raise AfterimageError(
                    "this Spark session was started without the jars of Kafka (spark-sql-kafka):"
                    " land topics in a process of its own, or name the jars in the profile"
                    " (spark.jars.packages)"
                )
        self.options = self._read_options()

    def _read_options(self) -> dict[str, str]:
        name = os.environ.get(OPTIONS)
        if not name:
            return {}
        # Java reads such files: lines may go on in the next one.
        found = self._jvm.java.util.Properties()
        try:
            found.load(self._jvm.java.io.StringReader(Path(name).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise AfterimageError(
                f"the file {visible(name)}, which {OPTIONS} names, cannot be read: {why}"
            ) from None
        options = {str(key): str(found.getProperty(key)) for key in found.stringPropertyNames()}
        for key in options:
            if key in _FIXED:
                raise AfterimageError(
                    f"{key} cannot be set in the file that {OPTIONS} names; remove it there"
                )
        return options

    @property
    def isolation(self) -> str:
        """Which messages count: by default those of finished transactions alone."""
        return self.options.get(_ISOLATION, "read_committed")

    def client_options(self) -> dict[str, str]:
        """Return the options of a client of the broker."""
        waits = str(self._seconds * 1000)
        return {
            "request.timeout.ms": waits,
            "default.api.timeout.ms": waits,
            **{name: one for name, one in self.options.items() if not name.startswith(REGISTRY)},
            "bootstrap.servers": self.servers,
            _ISOLATION: self.isolation,
        }

    def reader_options(self) -> dict[str, str]:
        """Return the options of Spark's reader of topics."""
        options = {f"kafka.{name}": value for name, value in self.client_options().items()}
        # Otherwise a task waits two minutes for a broker that is away.
        return {**options, "kafkaConsumer.pollTimeoutMs": str(self._seconds * 1000)}

    def hidden(self, text: str) -> str:
        """Return a text without the secrets of the options."""
        secrets: set[str] = set()
        for name, value in self.options.items():
            if not _PLAIN.fullmatch(name):
                secrets |= {value, *re.findall(r"[\"']([^\"']*)[\"']", value)}
        for secret in sorted(secrets - {""}, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text

    def topics(self, names: Collection[str]) -> list[str]:
        """Return the topics that names and patterns match, each once.

        Raises:
            AfterimageError: The broker is away, or a name or a pattern matches none.
        """
        with self._readable():
            known = sorted(map(str, self._get(self._client.listTopics().names())))
        found: list[str] = []
        for name in names:
            # A dot is a part of names, and a pattern says what a shell's would.
            pattern = re.compile(_expression(name))
            fitting = [
                one
                for one in known
                if one == name
                or (is_pattern(name) and pattern.fullmatch(one) and not one.startswith("__"))
            ]
            if not fitting:
                shown = ", ".join(one for one in known if not one.startswith("__")) or "none"
                raise AfterimageError(
                    f"{self.servers} has no topic {visible(name)}. Topics: {shown}"
                )
            found += fitting
        return list(dict.fromkeys(found))

    def topic(self, name: str) -> Topic:
        """Return a topic as it is now.

        Raises:
            AfterimageError: The broker is away, or there is no such topic any more.
        """
        java = self._jvm
        admin = java.org.apache.kafka.clients.admin
        with self._readable():
            cluster = str(self._get(self._client.describeCluster().clusterId()))
            asked = java.java.util.ArrayList()
            asked.add(name)
            described = self._get(self._client.describeTopics(asked).allTopicNames())[name]
            numbers = sorted(int(one.partition()) for one in described.partitions())
            place = java.org.apache.kafka.common.TopicPartition
            levels = java.org.apache.kafka.common.IsolationLevel
            level = levels.valueOf(self.isolation.upper())
            first, latest = admin.OffsetSpec.earliest(), admin.OffsetSpec.latest()
            offsets = []
            for spec, counted in (
                (first, level),
                (latest, level),
                (latest, levels.READ_UNCOMMITTED),
            ):
                wanted = java.java.util.HashMap()
                for number in numbers:
                    wanted.put(place(name, number), spec)
                options = admin.ListOffsetsOptions(counted)
                told = self._get(self._client.listOffsets(wanted, options).all())
                offsets.append({n: int(told[place(name, n)].offset()) for n in numbers})
        return Topic(cluster, name, str(described.topicId()), *offsets)

    def failure(self, topic: str, text: str) -> AfterimageError:
        """Return what failed while a topic was read, in few words.

        Args:
            topic: The topic.
            text: Spark's message.
        """
        if "TimeoutException" in text:
            return self._away()
        if "out of range" in text or "data may have been lost" in text:
            return lost(topic)
        return AfterimageError(self.hidden(text))

    def _away(self) -> AfterimageError:
        return AfterimageError(
            f"{self.servers} does not answer within {self._seconds} s; check the address and the"
            f" options ({OPTIONS}), or wait longer ({TIMEOUT}, in seconds)"
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if "_client" in self.__dict__:
            self._client.close(self._jvm.java.time.Duration.ZERO)
            del self.__dict__["_client"]

    @cached_property
    def _client(self) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in self.client_options().items():
            if name != _ISOLATION:  # not an option of this client
                properties.setProperty(name, value)
        return self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)

    def _get(self, future: Any) -> Any:
        return future.get(self._seconds + 5, self._jvm.java.util.concurrent.TimeUnit.SECONDS)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise self._said(error.java_exception) from None

    def _said(self, problem: Any) -> AfterimageError:
        """Return Java's exception as an error: the innermost cause says what is wrong."""
        causes = [problem]
        while causes[-1].getCause() is not None:
            causes.append(causes[-1].getCause())
        names = [str(one.getClass().getSimpleName()) for one in causes]
        text = self.hidden(" ".join(str(causes[-1].getMessage() or "").split()))
        if "AuthenticationException" in " ".join(names):
            return AfterimageError(
                f"{self.servers} refuses the options of the file that {OPTIONS} names: {text}"
            )
        if "No resolvable bootstrap urls" in text:
            return AfterimageError(f"no host of {self.servers} is known; check the address")
        if any(name == "TimeoutException" for name in names):
            return self._away()
        return AfterimageError(f"{self.servers}: {names[-1]}: {text}")


def _expression(pattern: str) -> str:
    from fnmatch import translate

    return translate(pattern)
