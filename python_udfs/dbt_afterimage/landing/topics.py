"""Loads the messages of a topic into a table of the target's format, each of them once.

A run reads each partition from where the last one stopped to where it ends now. The table remembers
that place in the same way as it remembers files. The rows say it too, by their offsets: if rows
were taken back, or another program has landed some, what the table has decides.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.broker import NO_ID, Broker, Topic, lost
from dbt_afterimage.landing.files import table_of
from dbt_afterimage.landing.memory import Contents, Load, Memory, Target
from dbt_afterimage.landing.tables import Table, names_in
from dbt_afterimage.runtime.project import Column, Project
from dbt_afterimage.text import visible

COLUMNS = (
    Column("key", "binary"),
    Column("value", "binary"),
    Column("headers", "array<struct<key:string,value:binary>>"),
    Column("partition", "int"),
    Column("offset", "bigint"),
    Column("timestamp", "timestamp"),
    Column("timestamp_type", "int"),
)
_PROGRESS_SECONDS = 10.0
# As Spark's reader names them.
_READ = {"timestamp_type": "timestampType"}


def table_name(topic: str) -> str:
    """Return the default name of a topic's table.

    Raises:
        AfterimageError: Nothing is left of the topic's name.
    """
    return table_of(topic, f"topic {visible(topic)}")


def spark_of(project: Project) -> Any:
    """Return the Spark session of a target that has it in this process.

    Raises:
        AfterimageError: The target is a server.
    """
    if project.spark is None:
        raise AfterimageError(
            f"{project.target} cannot land topics, because its Spark is not in this process; choose"
            " a target whose method is session (--target)"
        )
    return project.spark


@dataclass
class Partition:
    """What a table remembers of a partition.

    Attributes:
        next: The offset from which the next run reads.
        topic: The identity of the topic.
        last: The offset of the newest row; none if it is not known.
        gaps: What the broker had deleted before it was landed: first offset, end, number accepted.
    """

    next: int
    topic: str
    last: int | None = None
    gaps: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, known: list[Any]) -> Partition:
        """Return what `Memory` has."""
        start, topic, last, gaps = known
        return cls(start, topic, last, [list(gap) for gap in gaps])

    def known(self) -> list[Any]:
        """Return it as `Memory` has it."""
        return [self.next, self.topic, self.last, self.gaps]


@dataclass(frozen=True)
class Read:
    """What one run read of a topic.

    Attributes:
        messages: How many messages.
        size: The bytes of their keys and values.
        lag: How many offsets the topic has grown by meanwhile.
        notes: What to tell beside.
    """

    messages: int
    size: int
    lag: int
    notes: list[str]


class CreatedAgain(AfterimageError):
    """A topic was created again since it was landed into a table.

    Attributes:
        topic: The topic as it is now.
    """

    def __init__(self, topic: Topic, text: str) -> None:
        self.topic = topic
        super().__init__(text)


def _lacking(number: int, partition: Partition) -> str:
    offsets = ", ".join(f"{first} to {end - 1}" for first, end in partition.gaps)
    count = sum(end - first for first, end in partition.gaps)
    messages = f"{count} message{'s'[: count != 1]}"
    return f"lacks {messages} of partition {number} (offsets {offsets}): an accepted gap"


def lacking(project: Project, relation: str) -> list[str]:
    """Return what a landed topic lacks, because the broker had deleted it before.

    Args:
        project: The dbt project.
        relation: The raw table, as in SQL. It may be one that was not landed by us.
    """
    memory = Target(project, relation, relation).memory()
    return [
        _lacking(int(number), partition)
        for path, known in (memory.files if memory else {}).items()
        if path.startswith("kafka:")
        for number, partition in ((n, Partition.of(one)) for n, one in known.items())
        if partition.gaps
    ]


def behind(tables: Iterable[Contents], topic: Topic) -> int:
    """Return how many offsets of a topic no raw table has taken in.

    Args:
        tables: What each table that holds a topic of this name remembers of it.
        topic: The topic as it is now.
    """
    every = list(tables)
    # The table that was landed before the topic was created again may have the default name.
    own = next((one for one in every if holds(one, topic)), every[0])
    known = {int(number): Partition.of(one) for number, one in own.items()}
    ids = {topic.id, NO_ID}
    # Offsets of another topic say nothing, nor do those that this one does not have.
    begins = {
        number: one.next
        for number, one in known.items()
        if (topic.id == NO_ID or one.topic in ids)
        and one.next <= topic.written.get(number, one.next)
    }
    return sum(
        max(end - begins.get(number, topic.first[number]), 0) for number, end in topic.end.items()
    )


def holds(known: Contents, topic: Topic) -> bool:
    """Whether a table that holds a topic of this name holds it as it is now.

    Args:
        known: What the table remembers of it.
        topic: The topic as it is now.
    """
    return any(Partition.of(one).topic == topic.id for one in known.values())


class TopicTable(Table):
    """A raw table that the messages of one topic are loaded into."""

    def load_topic(self, broker: Broker, name: str, *, accept_gap: bool) -> Read:
        """Load the messages that were not loaded before.

        Args:
            broker: The broker.
            name: The topic.
            accept_gap: Whether to go on where the broker has deleted messages.

        Returns:
            What was read.

        Raises:
            AfterimageError: They cannot be loaded; none of them is.
        """
        with self._alone():
            memory = self._remembered()
            topic = broker.topic(name)
            if memory.files and topic.path not in memory.files:
                raise AfterimageError(
                    f"{self._shown} holds {visible(next(iter(memory.files)))}, and a table holds"
                    f" one topic; land {visible(name)} into another: --as SCHEMA.TABLE"
                )
            self._ready(memory)
            notes: list[str] = []
            before = memory.files.get(topic.path, {})
            known = {int(number): Partition.of(one) for number, one in before.items()}
            # Partitions that were added since the topic was landed first: all of them is new.
            added = {n: Partition(0, topic.id) for n in topic.end if n not in known and known}
            self._check_rows(known, notes)
            self._check_newest(broker, topic, known)
            known |= {n: one for n, one in added.items() if topic.first[n]}
            wanted = self._wanted(topic, known, notes, accept_gap=accept_gap)
            messages = size = 0
            if wanted:
                messages, size = self._read(broker, topic, known, wanted, memory)
            elif {str(number): one.known() for number, one in known.items()} != before:
                memory.add(topic.path, {str(number): one.known() for number, one in known.items()})
                self._target.remember(memory)
            now = broker.topic(name)
        lag = sum(end - topic.end.get(number, end) for number, end in now.end.items())
        return Read(messages, size, max(lag, 0), notes)

    def _ready(self, memory: Memory) -> None:
        """Make the table if it is not there."""
        present = self.columns()
        if present is None or (not memory.files and not self._format.has_rows()):
            self._create(COLUMNS, "topics land in one of these; choose another --target")
            return
        there = {one.name.lower(): one.type.replace(" ", "") for one in present}
        for one in COLUMNS:
            if there.get(one.name) != one.type:
                raise AfterimageError(
                    f"{self._shown} has no column {one.name} of type {one.type}, which the messages"
                    " of a topic need; land them into another table: --as SCHEMA.TABLE"
                )

    def _check_rows(self, known: dict[int, Partition], notes: list[str]) -> None:
        """Compare what is remembered with the rows, which decide.

        Args:
            known: What is remembered, changed in place.
            notes: Takes what to tell.
        """
        if not known:
            return
        # The newest rows alone: the statistics of the files leave the others out.
        newest = " or ".join(
            f"(`partition` = {number} and `offset` >= {one.next if one.last is None else one.last})"
            for number, one in known.items()
        )
        there = self._last_offsets(newest)
        short = [n for n, one in known.items() if one.last is not None and n not in there]
        if short:
            there |= self._last_offsets(f"`partition` in ({', '.join(map(str, short))})")
        for number, one in list(known.items()):
            last = there.get(number)
            if number in short:
                which = "all rows" if last is None else f"the rows behind offset {last}"
                notes.append(
                    f"partition {number}: {which} were removed from {self._shown}, and are landed"
                    " again"
                )
                if last is None:
                    del known[number]
                else:
                    one.next, one.last = last + 1, last
                    # A gap behind the rows that are left is found again, and counts once.
                    one.gaps = [
                        [start, min(end, one.next)] for start, end in one.gaps if start < one.next
                    ]
            elif last is not None and last >= one.next:
                notes.append(
                    f"partition {number}: {self._shown} has rows up to offset {last}, which another"
                    " run has landed"
                )
                one.next, one.last = last + 1, last

    def _last_offsets(self, condition: str) -> dict[int, int]:
        rows = self._project.rows(
            f"select `partition`, max(`offset`) from {self._name} where {condition}"
            " group by `partition`"
        )
        return {int(number): int(offset) for number, offset in rows}

    def _check_newest(self, broker: Broker, topic: Topic, known: Mapping[int, Partition]) -> None:
        """Compare the newest messages with the broker's, where no identity tells which topic it is.

        Args:
            broker: The broker.
            topic: The topic as it is now.
            known: What is remembered.

        Raises:
            AfterimageError: One has another time, so the topic is another one.
        """
        newest = {
            number: (one.last, one.last + 1)
            for number, one in known.items()
            if NO_ID in (topic.id, one.topic)
            and one.last is not None
            and topic.first.get(number, one.next) <= one.last < topic.end.get(number, 0)
        }
        if not newest:
            return
        landed = " or ".join(
            f"(`partition` = {number} and `offset` = {last})"
            for number, (last, _) in newest.items()
        )
        with self._view(broker, topic, newest) as (view, _):
            try:
                [[others]] = self._project.rows(
                    f"select count(*) from {view} as sent inner join (select `partition`, `offset`,"
                    f" `timestamp` as landed_time from {self._name} where {landed}) as landed"
                    " using (`partition`, `offset`) where sent.`timestamp` <> landed_time"
                )
            except AfterimageError as error:
                raise broker.failure(topic.name, str(error)) from None
        if others:
            said = self._begins_again(topic, "was created again")
            raise CreatedAgain(topic, said) if topic.id != NO_ID else AfterimageError(said)

    def _begins_again(self, topic: Topic, what: str) -> str:
        return (
            f"topic {visible(topic.name)} {what} since it was landed into {self._shown}: its"
            " offsets begin again, and would repeat; land it into another table: --as SCHEMA.TABLE"
        )

    def _wanted(
        self, topic: Topic, known: dict[int, Partition], notes: list[str], *, accept_gap: bool
    ) -> dict[int, tuple[int, int]]:
        """Return the offsets to read: first and end of each partition that has new ones.

        Args:
            topic: The topic as it is now.
            known: What is remembered. New partitions and accepted gaps are added to it.
            notes: Takes what to tell.
            accept_gap: Whether to go on where the broker has deleted messages.

        Raises:
            AfterimageError: Messages are gone, or the topic is another one.
        """
        # Kafka knows identities since 2.8, and other brokers later or not at all.
        ids = {topic.id, NO_ID}
        other = topic.id != NO_ID and any(one.topic not in ids for one in known.values())
        # What was read may wait by now: `isolation.level` was another.
        shorter = [n for n, one in known.items() if topic.written.get(n, -1) < one.next]
        if other or shorter:
            what = "was created again" if other else f"has lost its end (partition {shorter[0]})"
            said = self._begins_again(topic, what)
            raise CreatedAgain(topic, said) if other else AfterimageError(said)
        if topic.id != NO_ID:
            for one in known.values():
                one.topic = topic.id
        gone = {
            number: (one.next, topic.first[number])
            for number, one in known.items()
            if one.next < topic.first[number]
        }
        if gone:
            listed = ", ".join(
                f"{end - start} of partition {n} (offsets {start} to {end - 1})"
                for n, (start, end) in gone.items()
            )
            count = sum(end - start for start, end in gone.values())
            said = f"topic {visible(topic.name)} no longer has up to {count} messages: {listed}"
            if not accept_gap:
                raise AfterimageError(
                    f"{said}, which {self._shown} lacks. The broker has deleted them: restore them"
                    " there, take a new snapshot of the source, or go on without: --accept-gap,"
                    " which holds for all topics that a command names, so name this one alone"
                )
            notes.append(f"{said}; noted as a gap")
        wanted = {}
        for number, end in topic.end.items():
            if number not in known and topic.first[number]:
                notes.append(
                    f"partition {number} begins at offset {topic.first[number]}: the broker has"
                    " deleted what was before"
                )
            one = known.setdefault(number, Partition(topic.first[number], topic.id))
            if number in gone:
                one.gaps.append(list(gone[number]))
                one.next = topic.first[number]
            elif one.gaps:
                notes.append(_lacking(number, one))
            if one.next < end:
                wanted[number] = (one.next, end)
        return wanted

    def _read(
        self,
        broker: Broker,
        topic: Topic,
        known: Mapping[int, Partition],
        wanted: Mapping[int, tuple[int, int]],
        memory: Memory,
    ) -> tuple[int, int]:
        """Load messages; return how many they were, and their bytes."""
        messages = 0

        def contents(*, is_in: bool) -> Contents:
            read = {
                number: replace(known[number], next=end, last=known[number].last if is_in else None)
                for number, (_, end) in wanted.items()
            }
            return {str(number): one.known() for number, one in {**known, **read}.items()}

        def seen(relation: str) -> Contents:
            nonlocal messages
            new = " or ".join(
                f"(`partition` = {n} and `offset` >= {start} and `offset` < {end})"
                for n, (start, end) in wanted.items()
            )
            rows = self._project.rows(
                f"select `partition`, max(`offset`), count(*) from {relation} where {new}"
                " group by `partition`"
            )
            for number, last, count in rows:
                known[int(number)].last = int(last)
                messages += int(count)
            return contents(is_in=True)

        def check() -> None:
            # Messages that are gone by now were read before: Spark refuses a range with a gap.
            if broker.topic(topic.name).id != topic.id:
                raise lost(topic.name)

        with self._view(broker, topic, wanted) as (view, size):
            columns = names_in(COLUMNS)
            load = Load(
                topic.path,
                contents(is_in=False),
                columns,
                [f"select {columns} from {view}"],
                check,
                is_copy=False,
                seen=seen,
            )
            try:
                self._format.load(load, memory)
            except AfterimageError as error:
                raise broker.failure(topic.name, str(error)) from None
            return messages, size()

    @contextmanager
    def _view(
        self, broker: Broker, topic: Topic, wanted: Mapping[int, tuple[int, int]]
    ) -> Iterator[tuple[str, Callable[[], int]]]:
        """Yield the name of a view of the messages, and what tells their bytes once it was read."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import expr

        spark = spark_of(self._project)
        numbers = {topic.name: sorted(wanted)}
        starts = {topic.name: {str(n): start for n, (start, _) in wanted.items()}}
        ends = {topic.name: {str(n): end for n, (_, end) in wanted.items()}}
        reader = spark.read.format("kafka").options(
            **broker.reader_options(),
            assign=json.dumps(numbers),
            startingOffsets=json.dumps(starts),
            endingOffsets=json.dumps(ends),
            includeHeaders="true",
            # An offset that is not there any more is an error. One that nobody may see, since it
            # was compacted or its transaction ended otherwise, is none.
            failOnDataLoss="true",
        )
        columns = [f"{_READ.get(one.name, one.name)} as {one.name}" for one in COLUMNS]
        name = f"afterimage_topic_{uuid.uuid4().hex}"
        size = Observation(name)
        bytes_of = expr("sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0))")
        rows = reader.load().selectExpr(*columns).observe(size, bytes_of.alias("size"))
        rows.createOrReplaceTempView(name)
        ahead = sum(end - start for start, end in wanted.values())
        try:
            with _progress(spark, self._shown, ahead):
                yield name, lambda: size.get["size"] or 0
        finally:
            spark.catalog.dropTempView(name)


@contextmanager
def _progress(spark: Any, table: str, ahead: int) -> Iterator[None]:
    """Print now and then how far the reading is.

    Args:
        spark: The Spark session.
        table: The table.
        ahead: How many messages there are, or fewer: offsets are counted.
    """
    from py4j.protocol import Py4JError

    from dbt_afterimage.runtime.cursor import tasks, telling

    def tell() -> None:
        # The statement itself reports that Spark has ended.
        with suppress(Py4JError, OSError):
            said = f"afterimage: {table}: up to {ahead:,} messages to read; {tasks(spark)}"
            print(said, file=sys.stderr, flush=True)

    with telling(_PROGRESS_SECONDS, tell):
        yield
