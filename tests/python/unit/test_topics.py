"""How topics are named, and what a table remembers of them."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbt_afterimage.commands import land
from dbt_afterimage.commands.news import held_topics
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing import broker, registry
from dbt_afterimage.landing.memory import MISSING, Memory, Target
from dbt_afterimage.landing.topics import (
    CreatedAgain,
    Partition,
    TopicTable,
    behind,
    table_name,
)
from dbt_afterimage.runtime.project import quote


@pytest.mark.parametrize(
    ("path", "servers", "topics"),
    [
        ("kafka://host/t", "host:9092", ("t",)),
        ("Kafka://one:1,two/a.b", "one:1,two:9092", ("a.b",)),
        ("kafka://[::1]:9/a,b*", "[::1]:9", ("a", "b*")),
    ],
)
def test_addresses(path: str, servers: str, topics: tuple[str, ...]) -> None:
    assert broker.is_address(path)
    assert broker.address(path) == broker.Address(servers, topics)


@pytest.mark.parametrize(
    "path",
    ["kafka://host", "kafka://host/", "kafka:///t", "kafka:t", "kafka://h/a/b", "kafka://,/t"],
)
def test_what_is_no_address(path: str) -> None:
    with pytest.raises(AfterimageError, match="kafka://HOST:PORT/TOPIC"):
        broker.address(path)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(AfterimageError) as error:
        broker.address("kafka://me:secret@host/t")
    assert "secret" not in str(error.value)
    with pytest.raises(AfterimageError) as error:
        registry.check_url("https://me:secret@host")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", ["host:8081", "ftp://host", "https://", "https://h/?a=b"])
def test_what_is_no_registry(url: str) -> None:
    with pytest.raises(AfterimageError, match="--registry must be"):
        registry.check_url(url)


def test_names_of_tables() -> None:
    assert table_name("CRM.public.Orders-2") == "crm_public_orders_2"
    assert table_name("_schemas") == "schemas"
    assert table_name("1") == "t_1"
    with pytest.raises(AfterimageError, match="gives no table name"):
        table_name("...")


class Kept(Target):
    """A table that has nothing but its properties."""

    def __init__(self, text: str, missing: str | None = None) -> None:
        self.text, self.missing = text, missing

    def properties(self) -> dict[str, str]:
        told = {} if self.missing is None else {MISSING: self.missing}
        return {"afterimage.landed": self.text, **told}


def test_the_latest_are_forgotten_and_what_was_before_is_not() -> None:
    memory = Memory()
    memory.add_latest("kafka://c/t", {"0": [5, "id", 4, []]}, "1", "a")
    memory.add_latest("kafka://c/t", {"0": [9, "id", 8, []], "1": [2, "id", 1, []]}, "2", "b")
    found = Kept(memory.text()).memory()
    assert found == memory
    found.forget_latest()
    assert found.files == {"kafka://c/t": {"0": [5, "id", 4, []]}}
    assert (found.snapshot, found.branch) == ("", "")


def test_memory_as_it_was_written_before_there_were_topics() -> None:
    said = {
        "files": {"/landing": {"1.csv": [1, 2, "a"], "2.csv": [3, 4, "b"]}},
        "latest": ["/landing", ["2.csv"]],
        "snapshot": "7",
    }
    found = Kept(zlib.compress(json.dumps(said).encode()).hex()).memory()
    assert found is not None
    found.forget_latest()
    assert found.files == {"/landing": {"1.csv": [1, 2, "a"]}}


def test_a_topic_whose_broker_learns_identities_is_known_by_its_own_from_then_on() -> None:
    """As Redpanda's, which knew none up to 25.2. The broker's answers are made up."""
    table = object.__new__(TopicTable)
    table._shown = "raw.orders"
    known = {0: Partition(1000, broker.NO_ID)}

    def wanted(identity: str, end: int) -> dict[int, tuple[int, int]]:
        topic = broker.Topic("cluster", "orders", identity, {0: 0}, {0: end}, {0: end})
        return table._wanted(topic, known, [], accept_gap=False)

    assert wanted(broker.NO_ID, 1200) == {0: (1000, 1200)}
    assert wanted("one", 1300) == {0: (1000, 1300)}
    with pytest.raises(CreatedAgain, match="orders was created again") as refused:
        wanted("another", 1500)
    assert refused.value.topic.id == "another"


def test_a_topic_whose_open_transaction_was_read_has_not_lost_its_end() -> None:
    """Until `isolation.level` was taken out of the options, messages counted that now wait."""
    table = object.__new__(TopicTable)
    table._shown = "raw.orders"
    known = {0: Partition(1000, "one")}

    def wanted(end: int, written: int) -> dict[int, tuple[int, int]]:
        topic = broker.Topic("cluster", "orders", "one", {0: 0}, {0: end}, {0: written})
        return table._wanted(topic, known, [], accept_gap=False)

    assert wanted(900, 1000) == {}
    assert wanted(1200, 1300) == {0: (1000, 1200)}
    with pytest.raises(AfterimageError, match="orders has lost its end") as refused:
        wanted(900, 999)
    assert not isinstance(refused.value, CreatedAgain)


class Sources:
    """A project of a server, with tables of topics under names of their own."""

    spark = None

    def __init__(self, properties: dict[str, dict[str, str] | AfterimageError]) -> None:
        self.properties = properties
        self.asked: list[str] = []

    def sources(self) -> list[Any]:
        found = []
        for one in self.properties:
            schema, _, identifier = one.partition(".")
            found.append(SimpleNamespace(relation_name=one, schema=schema, identifier=identifier))
        return found

    def ask(self, statements: list[str]) -> list[Any]:
        self.asked += statements
        absent = AfterimageError("Spark failed: [TABLE_OR_VIEW_NOT_FOUND] …")
        known = [self.properties.get(one.split()[-1], absent) for one in statements]
        return [one if isinstance(one, AfterimageError) else list(one.items()) for one in known]


def test_each_table_is_asked_once_for_any_number_of_topics() -> None:
    memory = Memory()
    memory.add("kafka://c/t7", {"0": [5, "id", 4, []], "1": [3, "id", 2, []]})
    properties: dict[str, dict[str, str] | AfterimageError] = {
        f"own.s{number}": {} for number in range(40)
    }
    properties |= {
        "own.mine": {"afterimage.landed": memory.text()},
        "own.broken": AfterimageError("Spark failed: no such file"),
    }
    project = Sources(properties)
    held, unknown = held_topics(project, [f"t{n}" for n in range(30)])  # type: ignore[arg-type]
    assert len(project.asked) == 30 + 42
    assert unknown == ["own.broken"]
    [path] = held
    assert path == "kafka://c/t7"
    # Of partition 2 nothing is known: all that it has.
    now = broker.Topic("c", "t7", "id", {0: 0, 1: 0, 2: 0}, {0: 7, 1: 3, 2: 1}, {})
    assert now.path == path
    assert behind(held[path], now) == 2 + 0 + 1


def test_a_topic_that_was_created_again_waits_in_whole_until_it_is_landed_anew() -> None:
    """And its new table counts, though the one from before has the default name."""
    path = "kafka://c/t"
    before, anew, unnamed = (
        {path: {"0": [end, identity, end - 1, []]}}
        for end, identity in ((1000, "before"), (40, "anew"), (1000, broker.NO_ID))
    )
    texts = [Memory(files).text() for files in (before, anew)]
    project = Sources(
        {
            f"{quote('raw')}.{quote('t')}": {"afterimage.landed": texts[0]},
            "raw.t_2": {"afterimage.landed": texts[1]},
        }
    )
    held, _ = held_topics(project, ["t"])  # type: ignore[arg-type]
    now = broker.Topic("c", "t", "anew", {0: 0}, {0: 50}, {0: 50})
    assert behind([before[path]], now) == 50
    assert behind(held[path], now) == 10
    # A broker without identities shows it by its end alone.
    assert behind([unnamed[path]], replace(now, id=broker.NO_ID)) == 50
    assert behind([unnamed[path], anew[path]], now) == 10


@pytest.mark.parametrize("name", [None, "raw.t_3"])
@pytest.mark.parametrize("holder", ["raw.t_2", None])
def test_a_topic_that_was_created_again_goes_on_where_it_was_landed_anew(
    name: str | None, holder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`afterimage up` lands it by a pattern, without the name that `land --as` has got."""
    now = broker.Topic("c", "t", "anew", {0: 0}, {0: 50}, {0: 50})

    def memory(identity: str) -> dict[str, str] | AfterimageError:
        return {"afterimage.landed": Memory({now.path: {"0": [40, identity, 39, []]}}).text()}

    project = Sources(
        {
            "raw.t": memory("before"),
            "raw.plain": {},
            "raw.broken": AfterimageError("Spark failed: no such file"),
            "parquet./landing/t": {},
            **({holder: memory("anew")} if holder else {}),
        }
    )
    landed: list[str] = []
    left_out: list[str] = []

    def land_topic(_: Any, asked: Any, topic: str, table: str, how: land.How) -> None:
        if table != holder:
            raise CreatedAgain(now, f"topic {topic} was created again")
        landed.append(table)

    answers = SimpleNamespace(topics=lambda names: ["t"], close=lambda: None)
    monkeypatch.setattr(land, "_land_topic", land_topic)
    monkeypatch.setattr(land, "spark_of", lambda project: None)
    monkeypatch.setattr(land, "Broker", lambda *_: answers)
    where = broker.Address("c:9092", ("t",))
    found = land._land_topics(project, where, name, land.How(), left_out)  # type: ignore[arg-type]
    goes_on = holder is not None and name is None
    assert found == landed == ([holder] if goes_on else [])
    assert left_out == ([] if goes_on else ["topic t was created again"])
    # Files that are read in place are no table.
    assert not any("landing" in one for one in project.asked)


def test_a_gap_counts_once_though_the_rows_behind_it_were_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offsets 3 and 4, and 6 to 8, were accepted as gaps; the rows from 5 on were rolled back."""
    table = object.__new__(TopicTable)
    table._shown = "raw.orders"
    # The newest rows are asked for by their offsets, and are not there.
    monkeypatch.setattr(
        table, "_last_offsets", lambda condition: {} if "offset" in condition else {0: 2}
    )
    gaps = [[1, 2], [3, 5], [6, 9]]
    known = {0: Partition(12, "one", 11, [list(gap) for gap in gaps])}
    table._check_rows(known, [])
    assert known == {0: Partition(3, "one", 2, [[1, 2]])}
    topic = broker.Topic("c", "orders", "one", {0: 9}, {0: 12}, {0: 12})
    assert table._wanted(topic, known, [], accept_gap=True) == {0: (9, 12)}
    # What the broker no longer has is more by now: offset 5 too.
    assert known[0].gaps == [[1, 2], [3, 9]]


def test_a_table_that_said_what_it_lacks_says_0_too(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, str]] = []
    for missing, gaps, expected in (
        (None, [], None),
        (None, [[1, 3]], "2"),
        ("2", [], "0"),
        ("0", [], "0"),
    ):
        memory = Memory({"kafka://c/t": {"0": [9, "id", 8, gaps]}})
        table = Kept(memory.text(), missing)
        monkeypatch.setattr(table, "set_properties", written.append)
        found = table.memory()
        assert found is not None
        table.remember(found)
        assert written[-1].get(MISSING) == expected
