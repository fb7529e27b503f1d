"""What `init` plans and writes, by what a project and a landed table say of themselves."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from dbt_common.clients.jinja import extract_toplevel_blocks

from dbt_afterimage.commands import init
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.delta import Delta
from dbt_afterimage.landing.tables import Table
from dbt_afterimage.runtime.files import Refused, Texts, changes, sealed
from dbt_afterimage.runtime.project import Column
from dbt_afterimage.runtime.project import Project as Opened
from dbt_afterimage.scaffold import drafts, keys, landed
from dbt_afterimage.scaffold.entries import Entry, Listing, read
from dbt_afterimage.scaffold.existing import KINDS, Existing
from dbt_afterimage.scaffold.keys import NoKey
from dbt_afterimage.scaffold.plans.db2 import db2_change_data
from dbt_afterimage.scaffold.plans.debezium import debezium_messages
from dbt_afterimage.scaffold.plans.openedge import openedge_change_table
from dbt_afterimage.scaffold.plans.qlik import qlik_change_table, qlik_messages
from dbt_afterimage.scaffold.plans.question import (
    NothingLanded,
    Plan,
    Question,
    SeveralTables,
    _wider,
    column_list,
)
from dbt_afterimage.scaffold.systems import SYSTEMS, Found, hint
from dbt_afterimage.scaffold.writer import Draft, Writer, _render

OWN = r"models/staging/\w+/_src_\w+\.yml"


def source_node(name: str, table: str, schema: str, identifier: str, path: str) -> Any:
    return SimpleNamespace(
        source_name=name,
        name=table,
        schema=schema,
        identifier=identifier,
        resource_type="source",
        unique_id=f"source.shop.{name}.{table}",
        original_file_path=path,
        quoting=SimpleNamespace(identifier=True),
    )


class Project:
    """A project with some sources, in whose catalog each table exists."""

    catalog = "spark_catalog"
    credentials = SimpleNamespace(schema="shop")

    def __init__(self, *sources: Any) -> None:
        self._sources = sources

    def sources(self) -> list[Any]:
        return [*self._sources]

    relations = sources

    def models(self) -> list[Any]:
        return []

    readers = disabled_models = models

    def source(self, schema: str, name: str) -> Any:
        wanted = (schema, name)
        return next((n for n in self._sources if (n.source_name, n.name) == wanted), None)

    def file_of(self, node: Any) -> str:
        return str(node.original_file_path)

    def relation(self, schema: str, identifier: str, *, quoted: bool) -> str:
        return f"{schema}.`{identifier}`"

    def property_files(self) -> list[str]:
        return []

    def columns_of(self, relation: str) -> list[Column]:
        return [Column("id", "int")]

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        return (task() for task in tasks)

    def ask(self, statements: Sequence[str]) -> list[Any]:
        return [self.rows(one) for one in statements]  # type: ignore[attr-defined]


def found(name: str, *sources: Any) -> landed.Landed:
    project: Any = Project(*sources)
    return landed.find(project, "RELATION", name, OWN)


EU = source_node(
    "parquet",
    "customers__ct",
    "parquet",
    "/landing/eu/customers__ct",
    "models/staging/qlik/_src_parquet.yml",
)


@pytest.mark.parametrize("path", ["/landing/us/customers__ct", "/landing/EU/customers__ct"])
@pytest.mark.parametrize("file", [EU.original_file_path, "models/mine.yml"])
def test_a_folder_is_not_read_for_another_one_of_its_last_name(path: str, file: str) -> None:
    eu = SimpleNamespace(**{**vars(EU), "original_file_path": file})
    with pytest.raises(AfterimageError) as refused:
        found(f"parquet.`{path}`", eu)
    assert path in str(refused.value)
    assert "/landing/eu/customers__ct" in str(refused.value)
    assert "--as SCHEMA.TABLE" in str(refused.value)
    assert f"renamed or moved, set the identifier or the schema of its old source ({file})" in str(
        refused.value
    ).replace(" to it instead, so that its history goes on", "")


@pytest.mark.parametrize(
    ("name", "schema", "identifier"),
    [
        ("raw.orders__ct", "raw", "orders_v2__ct"),
        ("raw.orders_v2__ct", "raw", "orders_v2__ct"),
        ("crm.orders__ct", "crm", "orders__ct"),
    ],
)
def test_a_table_that_was_renamed_or_moved_keeps_its_source(
    name: str, schema: str, identifier: str
) -> None:
    """Somebody has said in the source that we declared what it is called now."""
    file = "models/staging/qlik/_src_raw.yml"
    edited = source_node("raw", "orders__ct", schema, identifier, file)
    one = found(name, edited)
    assert one.reference == "source('raw', 'orders__ct')"
    assert one.nodes == {edited.unique_id}
    assert one.source == landed.Source("raw", schema, "orders__ct", identifier)


@pytest.mark.parametrize(
    ("every", "is_edited", "is_taken"),
    [
        (None, False, False),
        (["parquet.s3a://lake/customers__ct"], False, True),
        (["parquet.s3a://lake/customers__ct"], True, False),
        (["parquet.s3a://lake/customers__ct", "parquet.s3://lake/customers__ct"], False, False),
    ],
)
def test_a_folder_that_moved_keeps_its_source(
    every: list[str] | None, is_edited: bool, is_taken: bool, tmp_path: Path
) -> None:
    """That is: where the list has the new path alone, and nobody has edited the sources."""
    old = SimpleNamespace(**{**vars(EU), "identifier": "s3://lake/customers__ct"})
    text = sealed(EU.original_file_path, "sources: []")
    file = tmp_path / EU.original_file_path
    file.parent.mkdir(parents=True)
    file.write_text(text + "# mine\n" * is_edited)
    project: Any = Project(old)
    project.folder = tmp_path
    asked = (project, "RELATION", "parquet.`s3a://lake/customers__ct`", OWN, every)
    if not is_taken:
        with pytest.raises(AfterimageError, match=r"customers__ct is parquet\.s3://lake/"):
            landed.find(*asked)
        return
    one = landed.find(*asked)
    assert one.source is not None
    assert (one.source.table, one.source.identifier) == (EU.name, "s3a://lake/customers__ct")
    # The models that read the source are those of the table.
    assert one.nodes == {EU.unique_id}


@pytest.mark.parametrize("is_check", [True, False])
def test_from_and_check_know_all_tables_of_the_project(
    is_check: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = []

    def draft(project: Any, entry: Entry, **given: Any) -> Draft:
        known.append(given["every"])
        raise drafts.NoChangeTable("none")

    monkeypatch.setattr(drafts, "draft", draft)
    listing = Listing([Entry("raw.A__ct"), Entry("orc.`/B`", base="spark_catalog.raw.base")])
    project: Any = Project()
    project.folder, project.models_folder, project.rows = tmp_path, "models", lambda sql: []
    project.manifest = SimpleNamespace(nodes={})
    if is_check:
        assert init._check(project, listing) == 1
    else:
        with pytest.raises(AfterimageError):
            init._write_listed(project, listing)
    assert known == [{"raw.a__ct", "orc./B", "raw.base"}] * 2


def test_a_file_of_sources_gets_no_table_of_another_schema() -> None:
    file = "models/staging/qlik/_src_a_b.yml"
    with pytest.raises(AfterimageError, match=r"a_b\.orders__ct is a\.b\.orders__ct"):
        found("a_b.items__ct", source_node("a_b", "orders__ct", "a.b", "orders__ct", file))


@pytest.mark.parametrize("end", ["", "/"])
def test_a_folder_is_found_again(end: str) -> None:
    one = found(f"parquet.`/landing/eu/customers__ct{end}`", EU)
    assert one.reference == "source('parquet', 'customers__ct')"
    assert one.nodes == {EU.unique_id}


def test_a_source_that_was_named_otherwise_keeps_its_name() -> None:
    old = source_node("parquet", "dbo", "parquet", "/l/dbo.items", EU.original_file_path)
    one = found("parquet.`/l/dbo.items`", old)
    assert (one.reference, one.identifier) == ("source('parquet', 'dbo')", "dbo")


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("/l/dbo.customers__ct", "dbo_customers__ct"),
        ("/l/dbo.orders__ct/", "dbo_orders__ct"),
        ("/l/customers__ct.parquet", "customers__ct"),
        ("/l/customers__ct.JSON", "customers__ct"),
        ("/l/dbo.customers__ct.csv.gz", "dbo_customers__ct"),
        ("/l/2024-05.ndjson", "2024_05"),
        ("/l/it's", "it_s"),
        ("/l/straße", "straße"),
        ("/l/.parquet", "_parquet"),
    ],
)
def test_only_known_endings_of_files_are_no_part_of_the_name(path: str, table: str) -> None:
    one = found(f"parquet.`{path}`")
    assert one.reference == f"source('parquet', '{table}')"
    assert one.source is not None
    assert (one.source.table, one.source.identifier, one.identifier) == (table, path, table)


def texts(table: str, identifier: str, description: str = "", schema: str = "parquet") -> Texts:
    block = {"name": "customers__ct", "identifier": identifier, "description": description}
    path = "models/staging/qlik/_src_parquet.yml"
    return Texts(
        table,
        {},
        {path: {"customers__ct": yaml.safe_dump([block])}},
        {path: f"sources:\n  - name: parquet\n    schema: {schema}\n    tables:\n"},
    )


@pytest.mark.parametrize("whole", [True, False])
def test_two_tables_of_one_list_do_not_become_one_source(tmp_path: Path, whole: bool) -> None:
    pair = [texts("eu", "/landing/eu/customers__ct"), texts("us", "/landing/us/customers__ct")]
    with pytest.raises(AfterimageError) as refused:
        changes(tmp_path, pair, whole=whole)
    assert "both /landing/eu/customers__ct and /landing/us/customers__ct" in str(refused.value)
    assert "--as SCHEMA.TABLE" in str(refused.value)


def test_a_table_that_two_systems_read_is_one_source(tmp_path: Path) -> None:
    """dbt parses nothing of a project that declares it twice."""

    def of(system: str, schema: str = "parquet") -> Texts:
        one = texts(system, "/landing/customers", f"Beside {system}.", schema)
        [path] = one.blocks
        own = path.replace("qlik", system)
        return Texts(system, {}, {own: one.blocks[path]}, {own: one.heads[path]})

    [change] = changes(tmp_path, [of("netiq"), of("db2")], whole=True)
    assert change.path == "models/staging/netiq/_src_parquet.yml"
    assert change.new.count("/landing/customers") == 1
    # Under one name they would be two tables.
    with pytest.raises(AfterimageError, match="two schemas"):
        changes(tmp_path, [of("netiq"), of("db2", schema="orc")], whole=True)


def test_folders_of_one_name_are_not_one_table_under_two_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"models/staging/qlik/stg_qlik__customers.sql": "select 1"}
    folders = {"eu": "/landing/eu/customers__ct", "us": "/landing/us/customers__ct"}
    folders["eu again"] = folders["eu"]
    system = SimpleNamespace(macro="qlik_change_table", signs=[])
    is_qlik: Any = SimpleNamespace(system=system, here=[])

    def draft(project: Any, entry: Entry, **_: Any) -> Draft:
        made = texts(entry.relation, folders[entry.relation])
        made.models = model
        return Draft(entry, is_qlik, ["id"], "stg_qlik__customers", made)

    monkeypatch.setattr(drafts, "draft", draft)
    project: Any = Project()
    outcome = init._look(project, [Entry(name) for name in folders])
    assert [entry.relation for entry, _ in outcome.drafts] == ["eu"]
    [(entry, problem)] = outcome.problems
    assert entry.relation == "us"
    assert "another table has the model" in str(problem)


@pytest.mark.parametrize(
    ("said", "given", "keys"),
    [
        ("tables:\n- {relation: landing.crm, key: [ID]}\n", {}, [["NR"], ["CODE"]]),
        ("tables:\n- {relation: landing.crm, key: [ID]}\n", {"key": "NO"}, [["NR"], ["CODE"]]),
        ("tables:\n- landing.crm\n", {}, [["NR"], ["CODE"]]),
        ("tables:\n- landing.crm\n", {"key": "NO"}, [["NO"], ["NO"]]),
        ("tables: []\n", {"key": "NO"}, [["NO"], ["NO"]]),
        ("defaults: {key: [ID]}\ntables:\n- landing.crm\n", {}, [["ID"], ["ID"]]),
    ],
)
def test_a_listed_key_is_not_that_of_each_table_of_the_topic(
    said: str,
    given: dict[str, str],
    keys: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"dbo.ACCOUNTS": ["NR"], "dbo.ORDERS": ["CODE"]}
    is_qlik: Any = SimpleNamespace(system=SimpleNamespace(macro="qlik_messages", signs=[]), here=[])

    def draft(project: Any, entry: Entry, **_: Any) -> Draft:
        if entry.table is None:
            raise SeveralTables("its messages", list(shown))
        key = list(entry.key) or shown[entry.table]
        return Draft(entry, is_qlik, key, "stg", Texts(entry.table))

    monkeypatch.setattr(drafts, "draft", draft)
    file = tmp_path / "afterimage.yml"
    file.write_text(said)
    project: Any = Project()
    project.folder, project.manifest = tmp_path, SimpleNamespace(nodes={})
    project.rows = lambda sql: [("landing", "crm")]
    init.add(project, ["landing.c*"], False, given)
    found = [one for one in yaml.safe_load(file.read_text())["tables"] if "table" in one]
    assert [one["table"] for one in found] == [*shown]
    assert [one["key"] for one in found] == keys


def test_options_of_a_table_stand_beside_the_defaults(tmp_path: Path) -> None:
    head = """
defaults:
  arguments: {time_zone: Europe/Berlin, before_prefix: null}
  history: {deletes: version}
tables:
"""
    expected: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "relation: raw.a": (
            {"time_zone": "Europe/Berlin", "before_prefix": None},
            {"deletes": "version"},
        ),
        "relation: raw.b, arguments: {condensed: true}, history: {ignore_columns: [seen]}": (
            {"time_zone": "Europe/Berlin", "before_prefix": None, "condensed": True},
            {"deletes": "version", "ignore_columns": ["seen"]},
        ),
        "relation: raw.c, arguments: {time_zone: UTC}, history: {deletes: close}": (
            {"time_zone": "UTC", "before_prefix": None},
            {"deletes": "close"},
        ),
        # Without the defaults, one by one or all.
        "relation: raw.d, arguments: {time_zone: null}, history: null": (
            {"before_prefix": None},
            {},
        ),
        # NULL is a value where the defaults say nothing.
        "relation: raw.e, arguments: {uow: null}, history: {}": (
            {"time_zone": "Europe/Berlin", "before_prefix": None, "uow": None},
            {"deletes": "version"},
        ),
    }
    file = tmp_path / "afterimage.yml"
    file.write_text(head + "".join(f"- {{{one}}}\n" for one in expected))
    listing = read(file)
    assert [(one.arguments, one.history) for one in listing.entries] == [*expected.values()]
    # As a command adds them.
    file.write_text(head + "".join(one.text(listing.defaults) for one in listing.entries))
    assert read(file) == listing
    assert "Berlin" not in file.read_text().removeprefix(head)


class Topic(Project):
    """A project and the topic raw.crm; `shown` are its source tables with the keys they show."""

    models_folder = "models"

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.folder, self.manifest = folder, SimpleNamespace(nodes={}, sources={})
        self.staged: list[str] = []
        self.file = folder / "afterimage.yml"
        self.shown: dict[str, list[str]] = {"dbo.ACCOUNTS": ["NR"]}
        self.drawn: list[Entry] = []
        monkeypatch.setattr(drafts, "draft", self._draft)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [("raw",)] if sql == "show schemas" else [("raw", "crm", False)]

    def _draft(
        self, project: Any, entry: Entry, *, listed_tables: Sequence[str] = (), **_: Any
    ) -> Draft:
        table = entry.table
        if table is None:
            if listed_tables or len(self.shown) > 1:
                several = [*self.shown, *listed_tables]
                raise SeveralTables("its messages", several, self.staged)
            [table] = self.shown
        key = list(entry.key) or self.shown[table]
        if not key:
            raise NoKey("raw.crm", "nothing shows it", [])
        self.drawn.append(entry)
        name = entry.name or table.rpartition(".")[2]
        model = {f"models/{name}.sql": f"select '{key}' {entry.history} from {table}"}
        system = SimpleNamespace(macro="qlik_messages", signs=[])
        found: Any = SimpleNamespace(system=system, here=[])
        return Draft(entry, found, key, table, Texts("raw.crm", model))

    def up(self) -> tuple[list[str], int]:
        """Do what `up` does first; return the staging models and the number of questions."""
        self.drawn = []
        project: Any = self
        return init.add(project, [], True, {})

    def listed(self) -> list[tuple[Any, Any]]:
        """Return the table and the key of each entry of the list, which must be readable."""
        read(self.file)
        tables = yaml.safe_load(self.file.read_text())["tables"]
        assert {one["relation"] for one in tables} == {"raw.crm"}
        return [(one.get("table"), one.get("key")) for one in tables]

    def write_listed(self) -> int:
        """Do what `init --from` does."""
        self.drawn = []
        project: Any = self
        return init._write_listed(project, read(self.file))


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(tmp_path, monkeypatch)


def test_an_entry_without_table_stands_for_each_further_table_of_a_topic(topic: Topic) -> None:
    topic.shown["dbo.ORDERS"] = ["CODE"]
    assert topic.up() == (["dbo.ACCOUNTS", "dbo.ORDERS"], 0)
    two = [(None, None), ("dbo.ACCOUNTS", ["NR"]), ("dbo.ORDERS", ["CODE"])]
    assert topic.listed() == two
    # Nothing new.
    topic.up()
    assert topic.listed() == two
    # A table joins the topic, after somebody has edited the entry of another one.
    edited = topic.file.read_text().replace(
        "key: [NR]", "key: [NR]\n    history: {deletes: version}"
    )
    topic.file.write_text(edited)
    topic.shown["dbo.ITEMS"] = ["NO"]
    assert topic.up()[1] == 0
    assert topic.listed() == [*two, ("dbo.ITEMS", ["NO"])]
    assert [(one.table, one.history) for one in topic.drawn] == [
        ("dbo.ACCOUNTS", {"deletes": "version"}),
        ("dbo.ORDERS", {}),
        ("dbo.ITEMS", {}),
    ]
    # Who takes the entry out wants no further tables.
    topic.file.write_text(topic.file.read_text().replace("  - {relation: raw.crm}\n", ""))
    topic.shown["dbo.VANS"] = ["ID"]
    topic.up()
    assert topic.listed() == [*two[1:], ("dbo.ITEMS", ["NO"])]


def test_arguments_of_the_command_stand_beside_the_defaults(topic: Topic) -> None:
    topic.file.write_text("defaults: {arguments: {table: ACCOUNTS}}\ntables: []\n")
    project: Any = topic
    # A second time nothing differs from the list.
    for _ in range(2):
        topic.drawn = []
        init.add(project, ["raw.crm"], False, {"arguments": '{"value": "body"}'})
        [entry] = topic.drawn
        assert entry.arguments == {"table": "ACCOUNTS", "value": "body"}
        [listed] = yaml.safe_load(topic.file.read_text())["tables"]
        assert listed == {"relation": "raw.crm", "key": ["NR"], "arguments": {"value": "body"}}


def test_a_listed_topic_may_get_a_second_table(topic: Topic) -> None:
    topic.file.write_text("tables:\n- {relation: raw.crm, key: [ID]}\n")
    topic.up()
    assert topic.listed() == [(None, ["ID"])]
    assert topic.write_listed() == 0
    topic.shown["dbo.ORDERS"] = ["CODE"]
    assert topic.up()[1] == 0
    listed = [(None, ["ID"]), ("dbo.ACCOUNTS", ["NR"]), ("dbo.ORDERS", ["CODE"])]
    assert topic.listed() == listed
    # The list can be used as it is, and an edited entry counts.
    topic.file.write_text(topic.file.read_text().replace("[CODE]", "[CODE, REGION]"))
    assert topic.write_listed() == 0
    assert [(one.table, one.key) for one in topic.drawn] == [
        ("dbo.ACCOUNTS", ["NR"]),
        ("dbo.ORDERS", ["CODE", "REGION"]),
    ]
    project: Any = topic
    assert init.add(project, ["raw.c*"], False, {})[1] == 0
    assert topic.listed() == [*listed[:2], ("dbo.ORDERS", ["CODE", "REGION"])]
    # Who names the topic itself must choose.
    with pytest.raises(AfterimageError, match=r"choose one with --table: dbo\.ACCOUNTS"):
        init.add(project, ["raw.crm"], False, {})


def test_the_base_of_the_first_table_is_not_that_of_a_further_one(topic: Topic) -> None:
    """Its query-backs would read rows of another table."""
    entry = "- {relation: raw.crm, key: [ID], base: raw.accounts}\n"
    topic.file.write_text(f"tables:\n{entry}")
    topic.staged = ["ACCOUNTS"]
    topic.shown["dbo.ORDERS"] = ["CODE"]
    assert topic.up()[1] == 0
    bases = {"dbo.ACCOUNTS": "raw.accounts", "dbo.ORDERS": None}
    assert {one.table: one.base for one in topic.drawn} == bases
    topic.staged.append("ORDERS")
    topic.shown["dbo.ITEMS"] = ["NO"]
    assert topic.up()[1] == 0
    assert {one.table: one.base for one in topic.drawn} == {**bases, "dbo.ITEMS": None}
    # One for all.
    topic.file.write_text("defaults: {base: raw.all}\ntables:\n- raw.crm\n")
    topic.up()
    assert {one.base for one in topic.drawn} == {"raw.all"}


def test_the_question_of_a_further_table_is_its_own_and_stops_no_other(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.shown |= {"dbo.ORDERS": ["CODE"], "dbo.ITEMS": [], "dbo.VANS": []}
    question = (
        "  # which key? nothing shows it\n  # - relation: raw.crm\n  #   table: {}\n  #   key: []\n"
    )
    questions = "".join(question.format(table) for table in ("dbo.ITEMS", "dbo.VANS"))
    for _ in range(2):
        assert topic.up()[1] == 2
        text = topic.file.read_text()
        assert text.endswith(questions)
        assert text.count("# which key?") == 2
        said = capsys.readouterr().out
        assert "  raw.crm (dbo.ITEMS)  none  nothing shows it\n" in said
        assert "  raw.crm (dbo.VANS)   none  nothing shows it\n" in said
    assert topic.write_listed() == 0
    assert [one.table for one in topic.drawn] == ["dbo.ACCOUNTS", "dbo.ORDERS"]
    # One is answered, one shows its key later.
    answered = "  - relation: raw.crm\n    table: dbo.ITEMS\n    key: [ITEM]\n"
    topic.file.write_text(text.replace(question.format("dbo.ITEMS"), answered))
    topic.shown["dbo.VANS"] = ["ID"]
    assert topic.up()[1] == 0
    assert "#" not in topic.file.read_text().partition("tables:")[2]
    assert {("dbo.ITEMS", ("ITEM",)), ("dbo.VANS", ("ID",))} <= {
        (table, tuple(key or ())) for table, key in topic.listed()
    }
    # A question of a listed table is no further one.
    topic.file.write_text(topic.file.read_text().replace("key: [ITEM]", "models: [history]"))
    with pytest.raises(AfterimageError, match="nothing was written: 1 of"):
        topic.write_listed()


def test_a_question_has_the_options_that_its_answer_needs(topic: Topic) -> None:
    """Once it is answered, the table is listed by itself and takes nothing over any more."""
    options = "file_format: delta, arguments: {placeholder: '__lost, value__'}"
    topic.file.write_text(
        "defaults: {history: {grain: transaction}}\n"
        f"tables:\n- {{relation: raw.crm, {options}, history: {{deletes: version}}}}\n"
        "- {relation: raw.crm, table: dbo.ACCOUNTS, key: [NR]}\n"
    )
    topic.shown["ITEMS, [old]"] = []
    for _ in range(2):
        assert topic.up()[1] == 1
    asked = """# which key? nothing shows it
# - relation: raw.crm
#   table: ITEMS, [old]
#   file_format: delta
#   arguments: {placeholder: '__lost, value__'}
#   history: {deletes: version}
#   key: []
"""
    before, _, after = topic.file.read_text().partition(asked)
    assert ("#" in before, after) == (False, "")
    answer = re.sub("^# ", "", asked.partition("\n")[2], flags=re.MULTILINE)
    topic.file.write_text(before + answer.replace("key: []", "key: [ITEM]"))
    assert topic.write_listed() == 0
    [drawn] = [one for one in topic.drawn if one.key == ["ITEM"]]
    assert drawn.arguments == {"placeholder": "__lost, value__"}
    assert drawn.history == {"grain": "transaction", "deletes": "version"}
    assert drawn.file_format == "delta"


def test_a_further_table_does_not_take_the_name_of_a_listed_one(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """The models of the listed one are not there yet, so the list alone gives it the name."""
    topic.file.write_text(
        "tables:\n- {relation: raw.crm}\n- {relation: raw.crm, table: dbo.ORDERS, key: [CODE]}\n"
    )
    topic.shown = {"crm.ORDERS": ["NO"], "dbo.ORDERS": ["CODE"]}
    assert topic.write_listed() == 0
    assert "from dbo.ORDERS" in (topic.folder / "models/ORDERS.sql").read_text()
    said = "raw.crm (crm.ORDERS): another table has the model models/ORDERS.sql: give this one a"
    assert said in capsys.readouterr().out
    assert topic.up()[1] == 1
    assert topic.listed() == [(None, None), ("dbo.ORDERS", ["CODE"])]


class Shared(Project):
    """A project in a catalog that others use too."""

    models_folder = "models"
    PRIVATE = "Spark failed: [INSUFFICIENT_PERMISSIONS] not yours\nsee there"
    TABLES: ClassVar = {
        "`hr-export`": ["pay__ct"],
        "`raw`": ["orders__ct", "view_of_nothing", "damaged", "topic", "plain"],
    }

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.manifest = folder, SimpleNamespace(nodes={})

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if sql == "show schemas":
            # Spark quotes a name that needs it.
            return [("`hr-export`",), ("private",), ("raw",)]
        if sql.startswith("show tables in "):
            schema = sql.removeprefix("show tables in ")
            return [("", name, False) for name in self.TABLES[schema]]
        raise AfterimageError("Spark failed: [FAILED_READ_FILE] not a file of messages")

    def ask(self, statements: Sequence[str]) -> list[Any]:
        private = AfterimageError(self.PRIVATE)
        return [private if "`private`" in one else self.rows(one) for one in statements]

    def columns_of(self, relation: str) -> Any:
        if "damaged" in relation:
            raise AfterimageError("Spark failed: [CANNOT_READ_FILE_FOOTER] damaged\nat a place")
        if "topic" in relation:
            return [Column("value", "string")]
        if "__ct" in relation:
            names = ("header__change_seq", "header__change_oper", "id")
            return [Column(name, "string") for name in names]
        return None if "nothing" in relation else [Column("id", "int")]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def draft(project: Any, entry: Entry, **_: Any) -> Draft:
        found = drafts.look(project, entry)[1]
        if found is None:
            raise drafts.NoChangeTable("no change table")
        model = f"models/{landed.model_name(entry.relation)}.sql"
        return Draft(entry, found, ["id"], "stg", Texts(entry.relation, {model: "select 1"}))

    monkeypatch.setattr(drafts, "draft", draft)
    return Shared(tmp_path)


def test_what_cannot_be_read_in_the_catalog_stops_nothing_and_asks_nothing(
    shared: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other people's: a schema that may not be listed, a view without its base, lost files."""
    assert init.add(shared, [], True, {}) == (["stg"], 0)
    text = (shared.folder / "afterimage.yml").read_text()
    # The name of a schema that needs quotes is as SQL has it.
    listed = [one["relation"] for one in yaml.safe_load(text)["tables"]]
    assert listed == ["`hr-export`.pay__ct", "raw.orders__ct"]
    assert "# -" not in text
    said = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert said == [
        "private: left out, as it cannot be read. Spark failed: [INSUFFICIENT_PERMISSIONS] not"
        " yours",
        "raw.damaged: left out, as it cannot be read. Spark failed: [CANNOT_READ_FILE_FOOTER]"
        " damaged",
        "raw.topic: left out, as it cannot be read. Spark failed: [FAILED_READ_FILE] not a file"
        " of messages",
        "raw.view_of_nothing: left out, as it cannot be read. RELATION must be an existing table,"
        " as schema.table, or its name alone in the schema shop. Got: raw.view_of_nothing",
    ]


def test_what_cannot_be_read_may_be_ignored_or_listed(
    shared: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shared.folder / "afterimage.yml"
    ignored = "ignore: ['hr-export.*', private.*, raw.damaged, raw.topic, raw.view*]\n"
    file.write_text(f"{ignored}tables: [raw.orders__ct]\n")
    assert init.add(shared, [], True, {}) == (["stg"], 0)
    assert "left out" not in capsys.readouterr().out
    # A table that the list has is wanted.
    file.write_text("tables:\n- relation: raw.damaged\n  key: [id]\n- raw.orders__ct\n")
    assert init.add(shared, ["raw.[do]*"], False, {})[1] == 1
    assert "raw.damaged: Spark failed: [CANNOT_READ_FILE_FOOTER]" in capsys.readouterr().out
    # And so is a schema that somebody has named.
    with pytest.raises(AfterimageError, match="INSUFFICIENT_PERMISSIONS"):
        init.add(shared, ["private.*"], False, {})


def test_a_table_of_the_list_that_is_no_change_table_is_a_question(
    shared: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`raw.plain__ct` was meant. Nobody has asked for the others that are none."""
    file = shared.folder / "afterimage.yml"
    ignored = "ignore: ['hr-export.*', private.*, raw.damaged, raw.topic, raw.view*]\n"
    file.write_text(f"{ignored}tables:\n- {{relation: raw.plain, key: [id]}}\n- raw.orders__ct\n")
    for patterns, is_all in ([], True), (["raw.*"], False):
        assert init.add(shared, patterns, is_all, {}) == (["stg"], 1)
        assert "raw.plain: no change table" in capsys.readouterr().out
    file.write_text(f"{ignored}tables: [raw.orders__ct]\n")
    assert init.add(shared, [], True, {}) == (["stg"], 0)
    assert "plain" not in capsys.readouterr().out


def test_a_table_whose_rows_were_deleted_stays_as_somebody_has_staged_it() -> None:
    """Files of DMS are known by their rows alone."""
    raw = source_node("raw", "boxes", "raw", "boxes", "models/mine.yml")
    staging = model("stg_boxes", "marts", raw.unique_id, macro="dms_changes")
    project: Any = Project(raw)
    project.models_folder = "models"
    project.columns_of = lambda _: [Column("Op", "string"), Column("id", "int")]
    project.rows = lambda _: [(False,)]
    with pytest.raises(drafts.NoChangeTable):
        drafts.draft(project, Entry("raw.boxes", key=("id",)))
    project.models = lambda: [staging]
    with pytest.raises(drafts.Stays) as stays:
        drafts.draft(project, Entry("raw.boxes", key=("id",)))
    assert stays.value.models == [staging]


def test_metadata_are_found_beside_a_table_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(landed, "shows", lambda *_: True)
    monkeypatch.setattr(landed, "holds_metadata", lambda *_: (True, True))
    project: Any = Shared(tmp_path)
    assert drafts.metadata_beside(project, "raw", "value") == ["raw.topic"]


def test_two_schemas_do_not_share_a_file_of_sources(tmp_path: Path) -> None:
    with pytest.raises(AfterimageError, match="two schemas"):
        changes(tmp_path, [texts("a", "a"), texts("b", "a", schema="orc")], whole=True)


def test_a_source_that_models_still_read_stays_without_its_table_in_the_list(
    tmp_path: Path,
) -> None:
    """A table was renamed: without its source dbt could parse none of the models."""
    path, head = "models/staging/qlik/_src_raw.yml", "sources:\n  - name: raw\n    tables:\n"
    blocks = {name: f"      - name: {name}\n" for name in ("customers__ct", "clients__ct")}
    old, new = (Texts(name, {}, {path: {name: blocks[name]}}, {path: head}) for name in blocks)
    [first] = changes(tmp_path, [old], whole=True)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(first.new)
    project: Any = SimpleNamespace(
        folder=tmp_path,
        models_folder="models",
        models=list,
        disabled_models=list,
        source_id=lambda *names: f"source.shop.{'.'.join(names)}",
        readers=lambda: WRITTEN,
        file_of=lambda node: node.original_file_path,
        property_files=list,
        manifest=SimpleNamespace(
            sources={CUSTOMERS: source_node("raw", "customers__ct", "raw", "customers__ct", path)},
        ),
    )

    def sources() -> list[str]:
        drawn: Any = SimpleNamespace(texts=new)
        found = init._changes(project, init._Outcome([(Entry("raw.clients__ct"), drawn)], []))
        [change] = [one for one in found if one.path == path]
        assert change.state == "behind"
        [source] = yaml.safe_load(change.new)["sources"]
        return [table["name"] for table in source["tables"]]

    assert sources() == ["customers__ct", "clients__ct"]
    # Once its model is written again, it reads another one, unless somebody has edited it.
    staging = "models/staging/qlik/stg_qlik__customers.sql"
    new.models[staging] = "select 1"
    for ours, expected in (("", ["clients__ct"]), ("\n-- mine", ["customers__ct", "clients__ct"])):
        (tmp_path / staging).write_text(sealed(staging, "select 1") + ours)
        assert sources() == expected
    # What else reads it: a test, say.
    project.readers = lambda: [model("no_row_is_old", "../tests", CUSTOMERS)]
    assert sources() == ["customers__ct", "clients__ct"]
    project.readers = list
    assert sources() == ["clients__ct"]
    # A model that another target builds: dbt says what it reads by the names alone.
    elsewhere = model("all_customers", "marts", "")
    elsewhere.sources, elsewhere.depends_on_nodes = [["raw", "customers__ct"]], []
    elsewhere.patch_path = None
    project.disabled_models = lambda: [elsewhere]
    assert sources() == ["customers__ct", "clients__ct"]


def test_models_that_stay_as_they_are_keep_their_properties_and_their_places(
    tmp_path: Path,
) -> None:
    """What is landed of b was taken in and deleted."""
    path = "models/history/_history.yml"

    def properties(name: str, column: str = "id") -> Texts:
        block = f"  - name: {name}_history\n    columns: [{{name: {column}}}]\n"
        sql = f"models/history/{name}_history.sql"
        return Texts(
            name, {sql: "select 1"}, {path: {f"{name}_history": block}}, {path: "models:\n"}
        )

    every = [properties(name) for name in "abc"]
    for change in changes(tmp_path, every, whole=True):
        (tmp_path / change.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / change.path).write_text(change.new)
    project: Any = SimpleNamespace(
        folder=tmp_path,
        models_folder="models",
        models=list,
        disabled_models=list,
        readers=list,
        file_of=lambda node: node.original_file_path,
        property_files=list,
        manifest=SimpleNamespace(sources={}),
    )
    stays = model("b_history", "history", STAGING, materialized="history")
    stays.patch_path = f"shop://{path}"

    def outcome(*of: Texts) -> init._Outcome:
        drawn: Any = [(Entry(one.table), SimpleNamespace(texts=one)) for one in of]
        return init._Outcome(drawn, [], [stays])

    left = outcome(every[0], every[2])
    found = init._changes(project, left)
    assert {change.path: change.state for change in found} == {
        path: "same",
        "models/history/a_history.sql": "same",
        "models/history/c_history.sql": "same",
    }
    assert init._left_over(project, found, left) == []
    [new] = [
        yaml.safe_load(change.new)["models"]
        for change in init._changes(project, outcome(properties("a", "code"), properties("d")))
        if change.path == path
    ]
    assert [one["name"] for one in new] == ["a_history", "b_history", "d_history"]
    assert new[0]["columns"] == [{"name": "code"}]

    # So do models whose table has left the list, as long as they are there: their tests go on.
    def described(*of: Texts) -> list[str]:
        drawn: Any = [(Entry(one.table), SimpleNamespace(texts=one)) for one in of]
        found = init._changes(project, init._Outcome(drawn, []))
        [new] = [change.new for change in found if change.path == path]
        return [one["name"] for one in yaml.safe_load(new)["models"]]

    names = ["a_history", "b_history", "c_history"]
    project.models = lambda: [stays]
    assert described(every[0], every[2]) == names
    # Somebody has replaced its text, or moved the model.
    (tmp_path / stays.original_file_path).write_text("select 1")
    assert described(every[0], every[2]) == names
    moved = tmp_path / "models/marts/b_history.sql"
    moved.parent.mkdir()
    (tmp_path / stays.original_file_path).rename(moved)
    assert described(every[0], every[2]) == ["a_history", "c_history"]
    stays.original_file_path = "models/marts/b_history.sql"
    assert described(every[0], every[2]) == names
    # Another target builds it.
    stays.sources = []
    project.models, project.disabled_models = list, project.models
    assert described(every[0], every[2]) == names
    moved.unlink()
    assert described(every[0], every[2]) == ["a_history", "c_history"]


HISTORY, STAGED = "models/history/_history.yml", "models/staging/qlik/_stg_qlik.yml"
DOCS = "models/docs/customers.md"


def described(*columns: str) -> Texts:
    """Return the texts of a table whose columns have doc blocks."""
    docs = {
        f"customers__{one}": f"{{% docs customers__{one} %}}\n{{% enddocs %}}" for one in columns
    }
    lines = [
        f"""      - {{name: {one}, description: "{{{{ doc('customers__{one}') }}}}"}}\n"""
        for one in columns
    ]
    blocks = {
        path: {name: f"  - name: {name}\n    columns:\n{''.join(lines)}"}
        for path, name in ((STAGED, "stg_qlik__customers"), (HISTORY, "customers_history"))
    }
    heads = dict.fromkeys(blocks, "models:\n") | {DOCS: "What the columns mean.\n\n"}
    return Texts("customers", {}, {DOCS: docs, **blocks}, heads)


def keep(folder: Path, *texts: Texts) -> None:
    """Write the files of some tables."""
    for change in changes(folder, texts, whole=True):
        (folder / change.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / change.path).write_text(change.new)


@pytest.mark.parametrize("whole", [True, False])
def test_a_doc_block_stays_while_a_file_that_is_not_rewritten_names_it(
    whole: bool, tmp_path: Path
) -> None:
    """dbt parses no project in which a property file names a doc block that is not there."""
    keep(tmp_path, described("id", "fax", "pager", "telex", "phone"))
    history, mart = tmp_path / HISTORY, "models/marts/mart.yml"
    # The history's file was edited. One column of its four that are gone stays in it.
    mine = re.sub(r".*(pager|telex|phone).*\n", "", history.read_text()) + "    meta: {}\n"
    history.write_text(mine)
    (tmp_path / mart).parent.mkdir()
    (tmp_path / mart).write_text(
        "models:\n  - name: mart\n    columns:\n"
        """      - {name: a, description: "{{ doc('customers__pager') }}"}\n"""
        """      - {name: b, description: '{{ doc("shop", "customers__telex") }}'}\n"""
    )

    def left() -> list[str]:
        found = changes(
            tmp_path, [described("id")], whole=whole, properties=[HISTORY, STAGED, mart]
        )
        for change in found:
            (tmp_path / change.path).write_text(change.new)
        return re.findall(r"docs customers__(\w+)", (tmp_path / DOCS).read_text())

    assert left() == ["id", "fax", "pager", "telex"]
    # A second time nothing changes.
    assert left() == ["id", "fax", "pager", "telex"]
    assert history.read_text() == mine
    (tmp_path / mart).unlink()
    assert left() == ["id", "fax"]


BEHIND = "\nunit_tests:\n  - name: mine\n    model: customers_history\n"


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text + BEHIND,
        lambda text: re.sub("^  ", "", text, flags=re.MULTILINE),
        lambda text: yaml.safe_dump(yaml.safe_load(text)),
    ],
    ids=["behind", "indent", "form"],
)
def test_a_table_is_found_in_a_file_of_any_form(edit: Callable[[str], str], tmp_path: Path) -> None:
    """Somebody has written something behind the list, or has formatted the file."""
    keep(tmp_path, described("id"))
    mine = edit((tmp_path / HISTORY).read_text())
    (tmp_path / HISTORY).write_text(mine)
    found = {one.path: one for one in changes(tmp_path, [described("id", "fax")], whole=False)}
    assert (found[HISTORY].state, found[HISTORY].new) == ("edited", mine)
    assert found[STAGED].state == "behind"


def test_a_table_of_another_source_in_the_file_is_not_ours(tmp_path: Path) -> None:
    path, head = "models/staging/qlik/_src_raw.yml", "sources:\n  - name: raw\n    tables:\n"
    file, block = tmp_path / path, "      - name: orders__ct\n"
    file.parent.mkdir(parents=True)
    wanted = Texts("orders", {}, {path: {"orders__ct": block}}, {path: head})
    other = "  - name: crm\n    tables:\n      - name: orders__ct\n"
    ours = "  - name: raw\n    tables:\n      - name: customers__ct\n"
    file.write_text("sources:\n" + other + ours)
    [change] = changes(tmp_path, [wanted], whole=False)
    assert change.new == f"sources:\n{other}{ours}\n{block}"
    # At the end of the file it would be one of the other source.
    file.write_text("sources:\n" + ours + other)
    with pytest.raises(Refused, match=r"_src_raw\.yml was edited, .* Add orders__ct yourself"):
        changes(tmp_path, [wanted], whole=False)


def test_a_table_that_an_edited_file_does_not_take_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_qlik: Any = SimpleNamespace(system=SimpleNamespace(macro="qlik", signs=[]), here=[])

    def made(table: str, folder: str) -> Texts:
        name, path = f"stg_{table}", f"models/staging/{folder}/_stg_{folder}.yml"
        return Texts(
            table,
            {f"models/staging/{folder}/{name}.sql": "select 1"},
            {path: {name: f"  - name: {name}\n    description: Of {table}.\n"}},
            {path: "models:\n"},
        )

    every = {"raw.a": made("a", "qlik"), "raw.b": made("b", "qlik"), "raw.c": made("c", "db2")}

    def draft(project: Any, entry: Entry, **_: Any) -> Draft:
        return Draft(entry, is_qlik, ["id"], "stg", every[entry.relation])

    monkeypatch.setattr(drafts, "draft", draft)
    keep(tmp_path, every["raw.a"])
    properties = tmp_path / "models/staging/qlik/_stg_qlik.yml"
    properties.write_text(properties.read_text() + BEHIND)
    listed = tmp_path / "afterimage.yml"
    listed.write_text("tables:\n- relation: raw.a\n  key: [id]\n")
    project: Any = Project()
    project.folder, project.manifest = tmp_path, SimpleNamespace(nodes={})
    project.rows = lambda sql: (
        [("raw", "raw", False)][: sql == "show schemas"] or [("raw", name, False) for name in "abc"]
    )
    assert init.add(project, [], True, {}) == (["stg"], 1)
    why = "models/staging/qlik/_stg_qlik.yml was edited, so nothing can be added at its end."
    block = "  - name: stg_b\n    description: Of b.\n"
    assert f"raw.b: {why} Add stg_b yourself:\n{block}" in capsys.readouterr().out
    assert f"# {why} Add stg_b yourself:\n# - relation: raw.b\n" in listed.read_text()
    assert [one["relation"] for one in yaml.safe_load(listed.read_text())["tables"]] == [
        "raw.a",
        "raw.c",
    ]
    assert (tmp_path / "models/staging/db2/stg_c.sql").is_file()
    assert not (tmp_path / "models/staging/qlik/stg_b.sql").exists()
    # Who names the table itself is told.
    with pytest.raises(Refused, match="Add stg_b yourself"):
        init.add(project, ["raw.b"], False, {})
    # Once somebody has added that, it is a table like the others.
    properties.write_text(properties.read_text().replace("models:\n", f"models:\n{block}"))
    assert init.add(project, [], True, {}) == (["stg"], 0)
    assert "# -" not in listed.read_text()
    assert (tmp_path / "models/staging/qlik/stg_b.sql").is_file()


def test_tables_of_one_topic_share_its_source(tmp_path: Path) -> None:
    pair = [texts("a", "/landing/topic", "of a"), texts("b", "/landing/topic", "of b")]
    [change] = changes(tmp_path, pair, whole=True)
    assert "/landing/topic" in change.new


def model(name: str, folder: str, reads: str, *, macro: str = "", materialized: str = "") -> Any:
    return SimpleNamespace(
        name=name,
        unique_id=f"model.shop.{name}",
        original_file_path=f"models/{folder}/{name}.sql",
        raw_code="",
        config=SimpleNamespace(materialized=materialized),
        depends_on=SimpleNamespace(nodes=[reads], macros=[f"macro.afterimage.{macro}"]),
        depends_on_nodes=[reads],
    )


CUSTOMERS = "source.shop.raw.customers__ct"
STAGING = "model.shop.stg_qlik__customers"
# What `init` has written.
WRITTEN = (
    model("stg_qlik__customers", "staging/qlik", CUSTOMERS, macro="qlik_change_table"),
    model("customers_history", "history", STAGING, materialized="history"),
    model("customers_current", "current", "model.shop.customers_history", macro="current_state"),
    model("customers_audit", "audit", STAGING, materialized="audit"),
)


def there(*models: Any, name: str | None = None, folder: Path | None = None) -> Existing:
    """Return what the table has."""
    project: Any = SimpleNamespace(
        folder=folder,
        models_folder="models",
        models=lambda: models,
        file_of=lambda node: node.original_file_path,
    )
    table: Any = SimpleNamespace(nodes=frozenset([CUSTOMERS]))
    of_qlik = Found(next(s for s in SYSTEMS if s.macro == "qlik_change_table"), [], [], {})
    entry = Entry("raw.customers__ct", name=name)
    return Existing(project, table, of_qlik, entry)


def existing(*models: Any, name: str | None = None) -> dict[str, str]:
    """Return the models of the table, by kind."""
    found = there(*models, name=name)
    return {kind: node.name for kind in KINDS if (node := getattr(found, kind))}


@pytest.mark.parametrize("folder", ["history", "marts"])
def test_a_further_history_of_a_table_is_not_taken_for_the_one_of_init(folder: str) -> None:
    further = [
        model("customer_addresses_history", folder, STAGING, materialized="history"),
        model("a_current", "marts", "model.shop.customers_history", macro="current_state"),
        model("addresses_audit", folder, STAGING, macro="change_audit"),
        model("a_stream", "marts", CUSTOMERS, macro="qlik_change_table"),
    ]
    of_init = dict(zip(KINDS, (node.name for node in WRITTEN), strict=True))
    assert existing(*further, *WRITTEN) == of_init
    assert existing(*further, *WRITTEN, name="Customers") == of_init


def test_a_model_that_moved_is_known_by_its_name() -> None:
    moved = model("customers_history", "marts", STAGING, materialized="history")
    further = model("a_history", "history", STAGING, materialized="history")
    assert existing(WRITTEN[0], further, moved)["history"] == "customers_history"


def test_a_model_where_init_writes_comes_before_others() -> None:
    stream = model("customers", "staging/qlik", CUSTOMERS, macro="qlik_change_table")
    reads = "model.shop.customers"
    further = model("a_history", "marts", reads, materialized="history")
    ours = model("clients_history", "history", reads, macro="scd2")
    assert existing(stream, further, ours)["history"] == "clients_history"
    assert existing(stream, further)["history"] == "a_history"
    assert existing(stream) == {"staging": "customers"}


# A full load beside the changes, or the two tables of a topic that was created again.
WITH_LOAD = model("customers_with_load", "marts", CUSTOMERS)
OF_TENANT = model("customers_of_tenant", "marts", WITH_LOAD.unique_id)
READS_THROUGH = model(
    "stg_qlik__customers", "staging/qlik", OF_TENANT.unique_id, macro="qlik_change_table"
)


def test_a_staging_model_may_read_its_table_by_way_of_other_models() -> None:
    of_init = dict(zip(KINDS, (node.name for node in WRITTEN), strict=True))
    assert existing(WITH_LOAD, OF_TENANT, READS_THROUGH, *WRITTEN[1:]) == of_init
    # One that reads the table itself is that of the table.
    own = model("stg_own", "marts", CUSTOMERS, macro="qlik_change_table")
    assert existing(WITH_LOAD, OF_TENANT, READS_THROUGH, own) == {"staging": "stg_own"}
    # What was staged already is not the table, nor is what its metadata say of others.
    for macro in ("qlik_messages", "qlik_message_schemas"):
        other = model("stg_other", "marts", CUSTOMERS, macro=macro)
        export = model("customers_of_tenant", "marts", other.unique_id)
        assert existing(other, export, READS_THROUGH) == {}


@pytest.mark.parametrize(
    ("is_through", "is_listed", "is_edited", "is_of_another"),
    [
        (True, True, True, False),
        # Another table of the same staging model is in the list, or a model between them is.
        (True, False, True, True),
        (True, True, False, True),
        (False, False, False, False),
    ],
)
def test_a_table_that_another_one_stages_too_gets_no_models(
    is_through: bool, is_listed: bool, is_edited: bool, is_of_another: bool, tmp_path: Path
) -> None:
    models = (WITH_LOAD, OF_TENANT, READS_THROUGH) if is_through else WRITTEN[:1]
    path = READS_THROUGH.original_file_path
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(sealed(path, "select 1") + "-- mine\n" * is_edited)
    found = there(*models, folder=tmp_path)
    assert found.is_of_another(is_listed=is_listed) == is_of_another


def writer(
    called: str,
    table: str | None,
    name: str | None = None,
    *,
    code: str = "",
    folder: str = "staging/qlik",
) -> Writer:
    """Return what writes the models of a table ORDERS, or the one named, of the topic crm_topic.

    Args:
        called: What the models of the topic that are there are called.
        table: The source table that is asked for.
        name: The base name that is asked for.
        code: What the staging model that is there says.
        folder: Its folder.
    """
    topic = "source.shop.raw.crm_topic"
    staging = model(f"stg_qlik__{called}", folder, topic, macro="qlik_messages")
    staging.raw_code = code
    reads = f"model.shop.stg_qlik__{called}"
    nodes = [staging, model(f"{called}_history", "history", reads, materialized="history")]
    for node in nodes:
        node.resource_type = "model"
    project: Any = SimpleNamespace(
        models_folder="models",
        models=lambda: nodes,
        relations=lambda: nodes,
        file_of=lambda node: node.original_file_path,
    )
    landed: Any = SimpleNamespace(
        name="raw.crm_topic", identifier="crm_topic", nodes=frozenset([topic])
    )
    of_qlik = Found(next(s for s in SYSTEMS if s.macro == "qlik_messages"), [], [], {})
    entry = Entry("raw.crm_topic", table=table, name=name)
    plan = Plan((table or "ORDERS").rpartition(".")[2], ["ID"], [])
    there = Existing(project, landed, of_qlik, entry)
    return Writer(project, entry, landed, {}, of_qlik, plan, there)


@pytest.mark.parametrize(
    ("schema", "current", "file_format", "has_views"),
    [
        ("crm", "spark_catalog", "delta", True),
        ("lake.crm", "spark_catalog", "iceberg", False),
        ("`my-lake`.crm", "spark_catalog", "iceberg", False),
        ("crm", "my-lake", "iceberg", False),
        ("spark_catalog.crm", "my-lake", "delta", True),
    ],
)
def test_models_are_for_the_catalog_that_the_schema_of_the_target_names(
    schema: str,
    current: str,
    file_format: str,
    has_views: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Landed tables are in the current catalog all the same."""
    iceberg, delta = "org.apache.iceberg.spark.SparkCatalog", "org.example.DeltaCatalog"
    kinds = {"lake": iceberg, "my-lake": iceberg, "spark_catalog": delta}

    def rows(_: Any, sql: str) -> list[Any]:
        if sql == "select current_catalog()":
            return [(current,)]
        # Without quotes Spark takes nothing else for the name of a setting.
        asked = re.fullmatch(r"set (?:`([^`]+)`|([\w.:]+))", sql)
        assert asked, f"[INVALID_SET_SYNTAX] {sql}"
        name = asked[1] or asked[2]
        return [(name, kinds[name.removeprefix("spark.sql.catalog.")])]

    monkeypatch.setattr(Opened, "rows", rows)
    monkeypatch.setattr(Opened, "credentials", SimpleNamespace(schema=schema))
    project = Opened.__new__(Opened)
    project.folder = tmp_path
    assert (project.table_format, project.has_views) == (file_format, has_views)
    landing = Table(project, "raw", "orders")
    assert isinstance(landing._format, Delta) == (current == "spark_catalog")


@pytest.mark.parametrize("table", ["360_reviews", "Ü2fa_tokens", "reviews"])
def test_dbt_reads_the_doc_blocks_of_each_table(table: str) -> None:
    """One that it reads without a name stops it for the whole project."""
    made = writer("orders", table)
    columns = [made._data_column(Column(name, "string")) for name in ("id", "2nd name")]
    text = "".join(_render("column.md", column=one, table=table, key=["id"]) for one in columns)
    blocks: Any = extract_toplevel_blocks(text, allowed_blocks={"docs"}, collect_raw_data=False)
    assert [one.block_name for one in blocks] == [one.doc for one in columns]


def test_only_what_no_landing_or_deletion_can_cause_is_an_error_of_a_staging_model() -> None:
    """dbt builds nothing below a model whose test failed."""

    def severities(landed_rows: str | None) -> dict[str, str]:
        text = _render(
            "staging.yml",
            **{"name": "orders", "title": "a Qlik change table", "contract": ["change_id"]},
            **{"names": {"staging": "stg_qlik__orders"}, "landed_rows": landed_rows, "key": ["id"]},
            **{"has_before_images": True, "expected_rejects": []},
        )
        [staging] = yaml.safe_load(text)
        found = {}
        for one in staging["data_tests"]:
            [(name, said)] = one.items() if isinstance(one, dict) else [(one, {})]
            severity = said.get("config", {}).get("severity", "error")
            found[name.removeprefix("afterimage.")] = severity
            if "relation" in said.get("arguments", {}):
                assert said["arguments"]["relation"] == landed_rows
        return found

    uncounted = {"change_stream_is_complete": "error", "change_stream_is_clear": "warn"}
    assert severities(None) == uncounted
    counted = {**uncounted, "every_row_accounted_for": "warn"}
    assert severities("source('raw', 'orders__ct')") == counted


OF_ORDERS_ALONE = "afterimage.qlik_messages(source('raw', 'crm_topic'), table='dbo.ORDERS')"


@pytest.mark.parametrize(
    ("called", "table", "code"),
    [
        # The topic named the models; by now its messages show the table.
        ("crm", None, ""),
        ("crm", "dbo.ORDERS", ""),
        ("crm_topic", "dbo.ORDERS", ""),
        ("orders", "dbo.ORDERS", ""),
        ("buyers", None, OF_ORDERS_ALONE),
        ("buyers", "ORDERS", OF_ORDERS_ALONE),
    ],
)
def test_models_that_init_has_written_keep_their_name(
    called: str, table: str | None, code: str
) -> None:
    made = writer(called, table, code=code)
    assert made.name == called
    assert made.existing.staging.name == f"stg_qlik__{called}"
    # So init writes them again where they are.
    assert made.names == made.planned


@pytest.mark.parametrize(
    ("called", "table", "name", "code"),
    [
        ("orders", "dbo.ITEMS", None, OF_ORDERS_ALONE),
        # Of the only table that there was: another one than this.
        ("orders", "dbo.ITEMS", None, ""),
        # The second table of a topic, to which the list gives a name of its own.
        ("crm", "dbo.ITEMS", "Items", ""),
    ],
)
def test_a_further_table_of_a_topic_does_not_take_the_models_of_the_first(
    called: str, table: str, name: str | None, code: str
) -> None:
    made = writer(called, table, name, code=code)
    assert made.existing.staging is None
    assert (made.names["staging"], made.names["history"]) == ("stg_qlik__items", "items_history")


def test_a_table_of_one_name_in_another_schema_does_not_take_the_models_of_the_first() -> None:
    made = writer("orders", "audit.ORDERS", "Audit_Orders", code=OF_ORDERS_ALONE)
    assert made.existing.staging is None
    assert made.names["staging"] == "stg_qlik__audit_orders"
    assert made.names["history"] == "audit_orders_history"
    # Without a name, it would be written over the first one's.
    with pytest.raises(AfterimageError, match=r"already has stg_qlik__orders .* --name") as refused:
        writer("orders", "audit.ORDERS", code=OF_ORDERS_ALONE)
    assert "not built from the table audit.ORDERS of raw.crm_topic" in str(refused.value)


def test_models_of_one_name_in_two_schemas_are_of_several_tables() -> None:
    topic: Any = SimpleNamespace(
        name="raw.crm_topic", identifier="crm_topic", nodes=frozenset(["source.shop.raw.crm_topic"])
    )
    of_qlik = Found(next(s for s in SYSTEMS if s.macro == "qlik_messages"), [], [], {})

    def check(asked: str | None, *written: str) -> None:
        nodes = []
        for number, table in enumerate(written):
            name = f"stg_qlik__{number}"
            node = model(name, "staging/qlik", *topic.nodes, macro="qlik_messages")
            node.raw_code = f"afterimage.qlik_messages(source('raw', 'crm_topic'), table='{table}')"
            nodes.append(node)
        project: Any = SimpleNamespace(
            models_folder="models",
            models=lambda: nodes,
            file_of=lambda node: node.original_file_path,
        )
        entry = Entry("raw.crm_topic", table=asked)
        Existing(project, topic, of_qlik, entry).check_tables(topic)

    for asked in (None, "ORDERS"):
        with pytest.raises(SeveralTables) as several:
            check(asked, "dbo.ORDERS", "audit.ORDERS")
        assert several.value.tables == ["audit.ORDERS", "dbo.ORDERS"]
    check("audit.orders", "dbo.ORDERS", "audit.ORDERS")
    # Two streams of one table, of which one leaves out the schema.
    check(None, "ORDERS", "dbo.orders")


def test_a_model_of_somebody_else_is_of_a_table_of_its_topic_only_if_it_says_so() -> None:
    """A second table has joined. It would get current rows of the first one's history."""
    topic: Any = SimpleNamespace(
        name="raw.log", identifier="log", nodes=frozenset(["source.shop.raw.log"])
    )
    of_log = Found(next(s for s in SYSTEMS if s.macro == "netiq_event_log"), [], [], {})

    def staging(name: str, code: str, folder: str = "marts") -> Any:
        node = model(name, folder, *topic.nodes, macro="netiq_event_log")
        node.raw_code = f"afterimage.netiq_event_log(source('raw', 'log'), {code})"
        return node

    def found(table: str | None, *nodes: Any) -> str | None:
        project: Any = SimpleNamespace(
            models_folder="models",
            models=lambda: nodes,
            file_of=lambda node: node.original_file_path,
        )
        existing = Existing(project, topic, of_log, Entry("raw.log", table=table))
        existing.check_named(topic)
        return existing.staging.name if existing.staging else None

    unsure = staging("stg_badges", "['no'], var('watched', 'BADGE'), []")
    named = staging("stg_doors", "['id'], table='DOOR', columns=[]")
    for table in ("BADGE", "DOOR", None):
        with pytest.raises(AfterimageError, match=r"stg_badges, .* name one by `table='…'`"):
            found(table, unsure)
    assert found("DOOR", unsure, named) == "stg_doors"
    assert found("GATE", named) is None
    with pytest.raises(AfterimageError, match="stg_badges"):
        found("GATE", unsure, named)
    # One of `init` has its table in its name.
    ours = staging("stg_netiq__gate", "['id']", "staging/netiq")
    assert found("GATE", ours, unsure) == "stg_netiq__gate"
    assert found("GATE", ours) == "stg_netiq__gate"
    assert found("DOOR", ours) is None
    # The third argument of the macro is the table.
    for code in ("['no'], 'BADGE', []", """["no"],\n    "badge",\n    columns=[]"""):
        third = staging("stg_badges", code)
        assert found("BADGE", third) == "stg_badges"
        assert found("DOOR", third) is None


def test_two_tables_that_would_keep_the_models_of_their_topic_have_one_name() -> None:
    names = [writer("crm", table).planned["staging"] for table in ("dbo.ORDERS", "dbo.ITEMS")]
    assert names == ["stg_qlik__crm", "stg_qlik__crm"]


def test_a_model_of_a_topic_that_is_kept_elsewhere_gives_no_name() -> None:
    made = writer("crm", None, folder="marts")
    assert (made.name, made.names["staging"]) == ("orders", "stg_qlik__crm")


def qlik(operation: str, data: dict[str, Any], mask: str | None = None, **said: Any) -> str:
    """Return a message of Qlik's; `said` is what it says of its table."""
    headers = {"operation": operation, "changeMask": mask}
    body = {"data": data, **said, "headers": {**headers, **said.get("headers", {})}}
    return json.dumps({"magic": "atMSG", "type": "DT", "message": body})


def json_at(text: str, path: str) -> str | None:
    """Return what Spark's get_json_object does, for objects alone."""
    found = json.loads(text)
    for step in path.split(".")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, str) or found is None:
        return found
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def lake_of_json() -> sqlite3.Connection:
    """Return SQLite with those of Spark's functions that queries for JSON need."""
    lake = sqlite3.connect(":memory:")
    for name, count, function in (
        ("get_json_object", 2, json_at),
        ("concat_ws", -1, lambda by, *texts: by.join(t for t in texts if t is not None)),
        ("unhex", 1, bytes.fromhex),
        ("decode", 2, bytes.decode),
        ("contains", 2, lambda text, part: None if text is None else part in text),
        ("startswith", 2, lambda value, begin: value.startswith(begin)),
    ):
        lake.create_function(name, count, function)
    return lake


def plan_of(
    messages: list[str],
    table: str | None = None,
    key: list[str] | None = None,
    described: list[dict[str, Any]] | None = None,
    asked: list[str] | None = None,
    topics: Sequence[str] = (),
    arguments: dict[str, Any] | None = None,
    **written: Any,
) -> Plan:
    """Return the plan for a topic. SQLite runs the queries, with the functions of Spark's.

    Args:
        messages: Its data messages.
        table: The table asked for.
        key: The key, if it is known.
        described: What its metadata messages say, a row for a column.
        asked: Gets the queries.
        topics: Those of the messages, if the table says it.
        arguments: Further arguments of the macro.
        **written: What the model has.
    """
    lake = lake_of_json()
    lake.execute("create table crm_topic (value text, topic text)")
    lake.executemany("insert into crm_topic values (?, ?)", [*zip_longest(messages, topics)])

    def rows(sql: str) -> list[Any]:
        if asked is not None:
            asked.append(sql)
        sql = sql.replace(" as string)", " as text)").replace(" as binary)", " as blob)")
        return lake.execute(sql).fetchall()

    project: Any = SimpleNamespace(
        macro=lambda name, **given: name,
        query=lambda sql: described or [],
        rows=rows,
        columns_of=lambda relation: [Column("value", "string")],
    )
    names = ["value", *(["Topic"] if topics else [])]
    topic: Any = SimpleNamespace(
        name="raw.crm_topic",
        identifier="crm_topic",
        relation="crm_topic",
        reference="landed",
        columns=[Column(name, "string") for name in names],
    )
    return qlik_messages(Question(project, topic, {}, key or [], table, arguments or {}, **written))


ACCOUNT: dict[str, Any] = {"schema": "dbo", "table": "ACCOUNTS"}
ORDER = {"schema": "dbo", "table": "ORDERS"}
OF_ACCOUNTS = [
    qlik("INSERT", {"ID": 1, "NAME": "Ada", "EMAIL": "a@x"}, **ACCOUNT),
    qlik("DELETE", {"ID": 9, "NAME": None, "EMAIL": None}, "01", **ACCOUNT),
]
OF_ORDERS = [
    qlik("INSERT", {"TOTAL": 5, "NO": 1}, headers=ORDER),
    qlik("DELETE", {"TOTAL": None, "NO": 1}, "02", lineage=ORDER, table="LINES"),
]
OF_NONE = [qlik("DELETE", {"ID": 1, "CITY": "Ede"}, "01", schema="dbo")]


@pytest.mark.parametrize("messages", [OF_ACCOUNTS + OF_ORDERS, OF_NONE + OF_ORDERS + OF_ACCOUNTS])
@pytest.mark.parametrize("table", ["dbo.ORDERS", "orders"])
def test_messages_of_one_table_of_a_topic_give_its_columns(messages: list[str], table: str) -> None:
    plan = plan_of(messages, table)
    assert [column.name for column in plan.columns] == ["TOTAL", "NO"]
    assert (plan.key, plan.table, plan.call["table"]) == (["NO"], "ORDERS", f"'{table}'")
    assert plan.landed_rows is None


def test_the_tables_of_a_topic_without_metadata_are_asked_for() -> None:
    with pytest.raises(SeveralTables) as refused:
        plan_of(OF_ACCOUNTS + OF_ORDERS + OF_NONE)
    assert refused.value.tables == ["dbo.ACCOUNTS", "dbo.ORDERS"]
    with pytest.raises(AfterimageError, match=r"no JSON message of the table dbo\.ITEMS with"):
        plan_of(OF_ACCOUNTS + OF_ORDERS, "dbo.ITEMS")


def test_a_table_that_every_message_names_is_the_models() -> None:
    plan = plan_of(OF_ACCOUNTS)
    assert (plan.key, plan.table, plan.call["table"]) == (["ID"], "ACCOUNTS", "'dbo.ACCOUNTS'")
    # A test that counts all rows of the topic would fail once another table's messages come.
    assert plan.landed_rows is None
    # With `table`, the message that names none would be rejected.
    mixed = plan_of([*OF_ACCOUNTS, qlik("INSERT", {"ID": 2, "NAME": "Bo", "EMAIL": None})])
    assert (mixed.table, list(mixed.call)) == ("crm", ["columns"])
    assert mixed.landed_rows == "landed"


def test_all_messages_of_a_topic_are_asked_for_their_tables() -> None:
    many = OF_ACCOUNTS * 600
    with pytest.raises(SeveralTables) as refused:
        plan_of(many + OF_ORDERS)
    assert refused.value.tables == ["dbo.ACCOUNTS", "dbo.ORDERS"]
    plan = plan_of(many + OF_ORDERS, "ORDERS")
    assert ([column.name for column in plan.columns], plan.key) == (["TOTAL", "NO"], ["NO"])
    bare = [json.dumps(json.loads(text)["message"]) for text in OF_ORDERS]
    with pytest.raises(SeveralTables):
        plan_of(many + bare)
    unnamed = plan_of(many + OF_NONE)
    assert (unnamed.table, list(unnamed.call)) == ("crm", ["columns"])


# Qlik's own example of a rule that adds the name, and a second table in that topic.
KIT = qlik("UPDATE", {"ID": "2", "NAME": "test Kafka", "tableName": "kit"}, "02")
KIT_ARCHIVE = qlik("UPDATE", {"ID": "2", "NAME": "old", "tableName": "kit_archive"}, "02")


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([KIT, KIT_ARCHIVE], r"\(tableName is kit, kit_archive\).*'kit' in \(.*data\.tableName'"),
        # A delete may have its row there alone.
        ([KIT, KIT_ARCHIVE], r"'\$\.message\.beforeData\.tableName'\)\)"),
        (
            [qlik("INSERT", {"ID": 1, "CITY": "Ede"}), qlik("REFRESH", {"ID": 1, "SUM": 5})],
            r"\(some inserts have the column SUM, others CITY\).* a topic of its own",
        ),
    ],
)
def test_messages_of_several_tables_that_only_their_data_tell_are_asked_about(
    messages: list[str], said: str
) -> None:
    """A row of each with the same key would be one row."""
    with pytest.raises(AfterimageError, match=said):
        plan_of(messages, key=["ID"])
    # Somebody has staged them as one table, or says that they are.
    assert plan_of(messages, key=["ID"], is_staged=True).key == ["ID"]
    columns = [{"name": "ID", "type": "int"}, {"name": "NAME", "type": "string"}]
    assert plan_of(messages, key=["ID"], arguments={"columns": columns}).key == ["ID"]


@pytest.mark.parametrize(
    "messages",
    [
        [KIT, KIT.replace("test Kafka", "other")],
        # A column came, and an update may leave out columns.
        [qlik("INSERT", {"ID": 1}), qlik("INSERT", {"ID": 1, "SUM": 5}), KIT],
        [qlik("INSERT", {"ID": 1, "TABLE": "T1"}), qlik("INSERT", {"ID": 1, "TABLE": "T2"})],
        [qlik("INSERT", {"ID": 1, "tableName": 1}), qlik("INSERT", {"ID": 1, "tableName": 2})],
    ],
)
def test_messages_that_may_be_of_one_table_are_not_asked_about(messages: list[str]) -> None:
    assert plan_of(messages, key=["ID"]).key == ["ID"]


def test_topics_that_do_not_name_their_table_are_no_table() -> None:
    """A row of each with the same key would be one row."""
    two = ["crm.east", "crm.west"]
    unnamed = OF_NONE * 2
    said = r"messages of 2 topics \(crm\.east, crm\.west\) that do not name their table"
    for messages in (unnamed, OF_ACCOUNTS[:1] + OF_NONE):
        with pytest.raises(AfterimageError, match=said):
            plan_of(messages, key=["ID"], topics=two)
        assert plan_of(messages, key=["ID"], topics=["crm", "crm"]).table == "crm"
    many = [f"t{number}" for number in range(8)]
    with pytest.raises(AfterimageError, match=r"8 topics \(t0, t1, t2, t3, t4, …\)"):
        plan_of(OF_NONE * 8, topics=many)
    # Where all name their table, or one is asked for, the topics do not matter.
    assert plan_of(OF_ACCOUNTS, topics=two).call["table"] == "'dbo.ACCOUNTS'"
    assert plan_of(OF_ACCOUNTS[1:] + OF_NONE, "ACCOUNTS", topics=two).table == "ACCOUNTS"
    # What is no change is not read.
    assert plan_of([*OF_NONE, "{}"], topics=two).table == "crm"
    # A staging model that is there was written for all of them, such as the shards of a table.
    assert plan_of(unnamed, topics=two, is_staged=True).key == ["ID"]


KEY_ALONE = qlik("DELETE", {"ID": "7"}, "02")
SPARSE = qlik("UPDATE", {"ID": "8", "CITY": "Ede"}, "04")
WHOLE = qlik("INSERT", {"NAME": "Ann", "ID": "8", "CITY": "Rome"}, "07")


@pytest.mark.parametrize(
    "messages",
    [
        [KEY_ALONE, WHOLE],
        [WHOLE, KEY_ALONE],
        [SPARSE, KEY_ALONE, WHOLE],
        [KEY_ALONE, SPARSE, WHOLE],
    ],
)
def test_a_message_with_all_columns_gives_their_order(messages: list[str]) -> None:
    """The masks depend on it. A DELETE may have the key alone, an update what it changed."""
    plan = plan_of(messages)
    assert [one.name for one in plan.columns] == ["NAME", "ID", "CITY"]
    assert plan.key == ["ID"]
    assert "is a guess" not in " ".join(plan.notes)


@pytest.mark.parametrize(
    "messages",
    [
        [KEY_ALONE, qlik("UPDATE", {"NAME": "Bo", "ID": "7"}, "01"), SPARSE],
        # A mask tells of a third column.
        [qlik("DELETE", {"ID": "7"}, "02"), qlik("UPDATE", {"ID": "7", "CITY": "Rome"}, "04")],
    ],
)
def test_no_mask_shows_the_key_where_no_message_has_all_columns(messages: list[str]) -> None:
    with pytest.raises(NoKey):
        plan_of(messages)
    notes = " ".join(plan_of(messages, key=["ID"]).notes)
    assert "No message has all of them, so their order is a guess." in notes


def metadata_of(*tables: str) -> list[dict[str, Any]]:
    """Return what the metadata messages of some tables say: ORDERS has the schema `ORDERS-1`."""
    key: dict[str, Any] = {"column_name": "ID", "spark_type": "int", "primary_key_position": 1}
    key["schema_name"] = "dbo"
    return [{**key, "table_name": one, "schema_id": f"{one}-1"} for one in tables]


def by_schema(schema_id: str, count: int = 1) -> list[str]:
    return [qlik("REFRESH", {"ID": 1}, headers={"externalSchemaId": schema_id})] * count


def test_tables_of_metadata_are_found_behind_many_messages_of_another() -> None:
    topic = [*by_schema("ORDERS-1", 1200), *by_schema("ITEMS-1"), *by_schema("VANS-1")]
    metadata = metadata_of("ORDERS", "ITEMS", "VANS", "SHIPS")

    def tables(**said: Any) -> list[str]:
        with pytest.raises(SeveralTables) as several:
            plan_of(topic, described=metadata, **said)
        return several.value.tables

    # At the first look, and once the list has some of them.
    assert tables() == ["dbo.ITEMS", "dbo.ORDERS", "dbo.VANS"]
    for listed in (["dbo.ORDERS"], ["orders", "items"]):
        found = tables(is_staged=True, listed=listed)
        assert {"dbo.VANS"} <= {*found} <= {"dbo.ITEMS", "dbo.ORDERS", "dbo.VANS", *listed}
    # A topic of one table shares its metadata with others, and is not read as a whole each time.
    asked: list[str] = []
    written: dict[str, Any] = {"written_table": "dbo.ORDERS", "written_metadata": True}
    written["is_staged"] = True
    plan = plan_of(topic, described=metadata, asked=asked, **written)
    assert plan.call["table"] == "'dbo.ORDERS'"
    assert [sql for sql in asked if "limit" not in sql] == []
    # Nor is one of which all tables are listed.
    every = ["ORDERS", "dbo.ITEMS", "VANS", "dbo.ships"]
    with pytest.raises(SeveralTables):
        plan_of(topic, described=metadata, asked=asked, is_staged=True, listed=every)
    assert [sql for sql in asked if "limit" not in sql] == []


def test_tables_of_one_name_in_two_schemas_are_asked_for_by_their_full_names() -> None:
    of_a, of_b, of_none = (
        qlik("DELETE", {column: 1, "X": 2}, "01", **said)
        for column, said in {
            "A": {"schema": "a", "table": "ORDERS"},
            "B": {"schema": "b", "table": "ORDERS"},
            "C": {"table": "ORDERS"},
        }.items()
    )
    for messages in ([of_a, of_b], [of_a, of_b, of_none]):
        with pytest.raises(SeveralTables) as refused:
            plan_of(messages, "ORDERS")
        assert {"a.ORDERS", "b.ORDERS"} <= {*refused.value.tables}
        assert plan_of(messages, "b.orders").key == ["B"]
        assert plan_of(messages, "a.ORDERS").key == ["A"]
    # Some messages of the only table leave out its schema.
    columns = plan_of([of_a, of_none], "ORDERS", ["A"]).columns
    assert [column.name for column in columns] == ["A", "X", "C"]


def test_messages_of_listed_tables_say_which_others_there_are() -> None:
    unnamed = [qlik("INSERT", {"ID": 2, "NAME": "Bo", "EMAIL": None})]
    for messages, listed, tables in (
        (OF_ACCOUNTS, ["ACCOUNTS"], ["ACCOUNTS", "dbo.ACCOUNTS"]),
        (OF_ACCOUNTS, ["dbo.ORDERS"], ["dbo.ACCOUNTS", "dbo.ORDERS"]),
        (OF_ACCOUNTS + OF_ORDERS, ["dbo.ORDERS"], ["dbo.ACCOUNTS", "dbo.ORDERS"]),
        (OF_ACCOUNTS + unnamed, ["dbo.ORDERS"], ["dbo.ORDERS"]),
    ):
        with pytest.raises(SeveralTables) as several:
            plan_of(messages, listed=listed)
        assert several.value.tables == tables


@pytest.mark.parametrize(
    "more", [{"EMAIL": None}, {"EMAIL": "a@x", "PLACE": "Ede"}, {"table": "x"}, {'a "b" ä': 1}]
)
def test_a_column_of_json_is_found_behind_many_messages(more: dict[str, Any]) -> None:
    """Staging has warned of it."""
    old = [qlik("INSERT", {"ID": n}, **ORDER) for n in range(1200)]
    # Their values say the name, and so does the message.
    odd = json.dumps(dict.fromkeys(more, 1))
    old += [qlik("INSERT", {"ID": odd}, schema="dbo", table="ORDERS")] * 1200
    written: dict[str, Any] = {
        "written_table": "dbo.ORDERS",
        "written_columns": [Column("ID", "bigint")],
    }
    asked: list[str] = []
    topic = [*old, qlik("UPDATE", {"ID": 1, **more}, **ORDER)]
    plan = plan_of(topic, key=["ID"], asked=asked, **written)
    assert [column.name for column in plan.columns] == ["ID"]
    assert sum("limit 1000" in sql for sql in asked) == 1
    for table in (None, "ORDERS"):
        plan = plan_of(topic, table, key=["ID"], undeclared=[*more], **written)
        assert [column.name for column in plan.columns] == ["ID", *more]


class Counted:
    """Sums of SQLite's as Spark's sets: the different values that are there."""

    def __init__(self) -> None:
        self.values: set[Any] = set()

    def step(self, value: Any) -> None:
        if value is not None:
            self.values.add(value)

    def finalize(self) -> int:
        return len(self.values)


def proposed(
    columns: dict[str, str],
    rows: Sequence[tuple[Any, ...]],
    created: str = "op = 'I'",
    deleted: str = "op = 'D'",
    loaded: str = "false",
) -> tuple[str, ...] | str:
    """Return the key that rows suggest, or why they suggest none. SQLite runs the queries.

    Args:
        columns: The data columns with their types.
        rows: Their operation, and the values of these.
        created: Which rows are inserts or loads.
        deleted: Which are deletes.
        loaded: Which are loads.
    """
    lake = sqlite3.connect(":memory:")
    for function in ("xxhash64", "struct"):
        lake.create_function(function, -1, lambda *values: repr(values))
    lake.create_function("if", 3, lambda yes, one, other: one if yes else other)
    lake.create_function("size", 1, lambda count: count)
    for aggregate in ("approx_count_distinct", "collect_set"):
        lake.create_aggregate(aggregate, 1, Counted)
    places = ", ".join("?" * (len(columns) + 2))
    lake.execute(f"create table cd ({', '.join(['seq', 'op', *columns])})")
    lake.executemany(f"insert into cd values ({places})", [(n, *row) for n, row in enumerate(rows)])
    project: Any = SimpleNamespace(rows=lambda sql: lake.execute(sql).fetchall())
    data = [Column(name, kind) for name, kind in columns.items()]
    landed_columns = [Column("seq", "string"), Column("op", "string"), *data]
    found = keys.propose(project, "cd", data, landed_columns, created, deleted, loaded)
    return found if isinstance(found, str) else found.key


PAID = {"ID": "int", "STATUS": "string", "UPDATED_AT": "timestamp"}
# Each update is a delete and an insert, as Db2 writes them with CHG_UPD_TO_DEL_INS.
UPDATED_IN_TWO = [
    ("I", 1, "new", "10:00"),
    ("I", 2, "new", "10:01"),
    ("D", 1, "new", "10:00"),
    ("I", 1, "paid", "10:05"),
    ("I", 3, "new", "10:06"),
    ("D", 3, "new", "10:06"),
    ("I", 3, "paid", "10:07"),
]
CAME_BACK = "perhaps because deleted or loaded rows came back: then what is unique is no key"


@pytest.mark.parametrize("kind", ["timestamp", "date", "timestamp_ntz", "string", "bigint"])
def test_nothing_is_proposed_where_rows_have_come_back(kind: str) -> None:
    """Whatever the third column is: it is another one in each insert."""
    said = f"ID has 3 values in 5 inserts, {CAME_BACK}"
    assert proposed(PAID | {"UPDATED_AT": kind}, UPDATED_IN_TWO) == said
    # And for one row that was deleted and inserted again.
    once = [("I", n, "new", f"10:0{n}") for n in range(5)]
    once += [("D", 4, "new", "10:04"), ("I", 4, "new", "11:00")]
    said = f"ID has 5 values in 6 inserts, {CAME_BACK}"
    assert proposed(PAID | {"UPDATED_AT": kind}, once) == said


def test_no_longer_key_is_proposed_where_rows_of_a_shorter_one_have_come_back() -> None:
    lines = {"PAGE": "int", "LINE": "int", "TEXT": "string"}
    rows = [("I", page, line, "ink") for page in (1, 2, 3) for line in (1, 2, 3)]
    rows += [("D", 1, 1, "ink"), ("I", 1, 1, "pen")]
    assert proposed(lines, rows) == f"PAGE, LINE has 9 values in 10 inserts, {CAME_BACK}"


def test_deletes_keep_no_key_from_being_proposed_that_is_unique_beside_them() -> None:
    # So many that TEAM might be a key too, of which rows came back.
    rows = [("I", n, n % 4) for n in range(8)] + [("D", n, n % 4) for n in range(6)]
    assert proposed({"ID": "int", "TEAM": "int"}, rows) == ("ID",)
    # No page has so few rows by deletes.
    lines = [("I", n // 4, n % 4) for n in range(12)] + [("D", 0, 0)]
    assert proposed({"PAGE": "int", "LINE": "int"}, lines) == ("PAGE", "LINE")


def test_a_column_that_can_be_no_key_keeps_none_from_being_proposed() -> None:
    """However many rows were deleted, and whatever its name is."""
    columns = {"ORDERNUMMER": "int", "STATUS_CODE": "string"}
    statuses = ["new"] * 20 + ["paid"] * 5 + ["free"] * 5
    rows = [("I", n, status) for n, status in enumerate(statuses)]
    rows += [("D", n, "sent") for n in range(27)]
    assert proposed(columns, rows) == ("ORDERNUMMER",)
    # A key may come back as often as it was deleted, and a change may stand beside its load.
    back = [("I", "10:00", "A"), ("D", "10:00", "A"), ("I", "10:05", "A"), ("I", "10:06", "B")]
    said = f"STATUS_CODE has 2 values in 3 inserts, {CAME_BACK}"
    assert proposed({"SEEN_AT": "string", "STATUS_CODE": "string"}, back) == said
    of_load = {"created": "op in ('', 'I')", "loaded": "op = ''"}
    beside = [("", "10:00", "A"), ("", "10:01", "B"), ("I", "10:02", "B")]
    assert proposed({"SEEN_AT": "string", "STATUS_CODE": "string"}, beside, **of_load) == said


def test_a_time_alone_is_no_key() -> None:
    rows = [("I", name, f"10:0{n}") for n, name in enumerate(["Ada", "Bo", "Ada"])]
    columns = {"NAME": "string", "SEEN": "timestamp"}
    said = "only SEEN is unique among 3 inserts, and a time alone is no key"
    assert proposed(columns, rows) == said
    # In a key it may be.
    rows += [("I", "Bo", "10:00")]
    assert proposed(columns, rows) == ("NAME", "SEEN")
    # And it does not stand in the way of a key behind it.
    later = [("I", f"10:0{n}", name) for n, name in enumerate(["Ada", "Bo", "Cy"])]
    assert proposed({"SEEN": "date", "NAME": "string"}, later) == ("NAME",)


def test_nothing_is_proposed_where_a_load_was_repeated() -> None:
    first = [("", n, "new", f"10:0{n}") for n in range(4)]
    of_load = {"created": "op in ('', 'I')", "loaded": "op = ''"}
    assert proposed(PAID, [*first, ("I", 5, "new", "10:05")], **of_load) == ("ID",)
    again = [("", n, "paid", f"11:0{n}") for n in range(2)]
    said = f"ID has 4 values in 6 inserts, {CAME_BACK}"
    assert proposed(PAID, first + again, **of_load) == said
    # One load of lines, of which each page has several.
    lines = [("", n // 4, n % 4) for n in range(12)]
    assert proposed({"PAGE": "int", "LINE": "int"}, lines, **of_load) == ("PAGE", "LINE")


@pytest.mark.parametrize(("table", "called"), [(None, "crm"), ("dbo.CITIES", "dbo.CITIES")])
def test_messages_that_name_no_table_are_of_the_topic(table: str | None, called: str) -> None:
    plan = plan_of(OF_NONE, table)
    assert (plan.table, plan.key) == (called, ["ID"])
    assert plan.call.get("table") == (table and f"'{table}'")


def debezium(table: str, *, wrapped: bool = False, **row: Any) -> str:
    """Return an insert of Debezium's; `wrapped` is with its schema."""
    schema, _, name = table.rpartition(".")
    source = {"schema": schema, "db": "shop", "table": name, "lsn": 1}
    message = {"op": "c", "before": None, "after": row, "source": source}
    return json.dumps({"schema": {}, "payload": message} if wrapped else message)


def plan_of_debezium(
    messages: Sequence[str],
    table: str | None = None,
    listed: Sequence[str] = (),
    beside: Sequence[str] = (),
    values: Sequence[Sequence[Any]] = (),
    key: Sequence[str] = ("id",),
    **written: Any,
) -> Plan:
    """Return the plan for a topic of Debezium's in JSON. SQLite runs the queries.

    Args:
        messages: The messages.
        table: The source table that is asked for.
        listed: Those that the list has.
        beside: The columns beside the messages.
        values: What these have, for each message.
        key: The key columns of the model.
        **written: What the model has.
    """
    lake = lake_of_json()
    lake.execute(f"create table shop (value text{''.join(f', `{name}`' for name in beside)})")
    for text, more in zip_longest(messages, values, fillvalue=[None] * len(beside)):
        lake.execute(f"insert into shop values (?{', ?' * len(beside)})", [text, *more])
    project: Any = SimpleNamespace(
        rows=lambda sql: lake.execute(sql.replace(" as string)", " as text)")).fetchall()
    )
    columns = [Column(name, "string") for name in beside]
    topic: Any = SimpleNamespace(
        name="raw.shop", identifier="shop", relation="shop", reference="landed", columns=columns
    )
    question = Question(project, topic, {}, key, table, {}, listed=listed, **written)
    return debezium_messages(question)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_table_of_debezium_is_found_behind_many_messages_of_another(wrapped: bool) -> None:
    many = [debezium("public.meters", wrapped=wrapped, id=n) for n in range(1200)]
    later = [*many, debezium("public.vans", wrapped=wrapped, id=1, plate="x")]
    later.append(debezium(".Cars", wrapped=wrapped, id=1, seats=5))
    for table in ("public.vans", "VANS"):
        plan = plan_of_debezium(later, table)
        assert [column.name for column in plan.columns] == ["id", "plate"]
        assert plan.call["table"] == f"'{table}'"
    # Without a schema it is the database's.
    assert [c.name for c in plan_of_debezium(later, "shop.cars").columns] == ["id", "seats"]
    with pytest.raises(NothingLanded):
        plan_of_debezium(later, "public.ships")
    # Of a topic of several, which are listed, all that the list lacks.
    for listed in (["public.meters"], ["METERS"]):
        with pytest.raises(SeveralTables) as several:
            plan_of_debezium(later, listed=listed)
        assert {"public.vans", "shop.Cars"} <= {*several.value.tables}
    with pytest.raises(SeveralTables) as several:
        plan_of_debezium(later, listed=["public.meters", "vans", "shop.cars"])
    assert several.value.tables == ["public.meters", "shop.cars", "vans"]


def flat(table: str, *, wrapped: bool = False, **row: Any) -> str:
    """Return a flattened row; its connector adds the table, and the schema if there is one."""
    schema, _, name = table.rpartition(".")
    said = {"__table": name, "__source_schema": schema} if schema else {"__source_table": name}
    message = {**row, "__op": "c", "__deleted": "false", **said}
    return json.dumps({"schema": {}, "payload": message} if wrapped else message)


@pytest.mark.parametrize("wrapped", [False, True])
def test_flattened_rows_of_several_tables_are_not_of_one(wrapped: bool) -> None:
    van = flat("public.vans", wrapped=wrapped, id=1, plate="x")
    truck = flat("trucks", wrapped=wrapped, id=1, load=5)
    with pytest.raises(SeveralTables) as several:
        plan_of_debezium([van, truck])
    assert several.value.tables == ["public.vans", "trucks"]
    for topic in ([van, truck], [*[van] * 1200, truck]):
        plan = plan_of_debezium(topic, "trucks")
        assert [column.name for column in plan.columns] == ["id", "load"]
        assert plan.call["table"] == "'trucks'"
    with pytest.raises(SeveralTables) as several:
        plan_of_debezium([*[van] * 1200, truck], listed=["vans"])
    assert "trucks" in several.value.tables


def test_flattened_rows_of_one_table_are_the_models() -> None:
    van, truck = flat("public.vans", id=1, plate="x"), flat("public.trucks", id=1, load=5)
    unnamed = json.dumps({"id": 1, "plate": "x", "__op": "c", "__deleted": "false"})
    plan = plan_of_debezium([van])
    assert (plan.table, plan.call["table"]) == ("vans", "'public.vans'")
    # With `table`, rows that name none would be rejected.
    for topic in ([unnamed], [van, unnamed]):
        assert "table" not in plan_of_debezium(topic).call
    # A model that has none takes shards of a table for one. Another `table` would stop its run.
    plan = plan_of_debezium([van, truck], is_staged=True)
    assert (plan.table, plan.call.get("table")) == ("shop", None)
    assert "they are of public.trucks, public.vans, and the model" in " ".join(plan.notes)
    assert "they are of" not in " ".join(plan_of_debezium([van], is_staged=True).notes)
    assert [column.name for column in plan.columns] == ["id", "plate", "load"]
    written: dict[str, Any] = {"is_staged": True, "written_table": "public.vans"}
    for topic in ([van], [unnamed], [van, unnamed]):
        assert plan_of_debezium(topic, **written).call["table"] == "'public.vans'"
    with pytest.raises(SeveralTables):
        plan_of_debezium([van, truck], **written)


TRANSACTION = "flattened rows: they do not name their transaction."
TIME = "flattened rows: they do not have source.ts_ms, so the history has no times"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (TRANSACTION, "__source_txId"),
        (TRANSACTION, "__gtid"),
        (TRANSACTION, "__source_commit_lsn"),
        (TIME, "__source_ts_ms"),
        (TIME, "__source_ts_ns"),
    ],
)
def test_flattened_rows_without_a_transaction_or_a_time_have_a_note(said: str, field: str) -> None:
    """Only the transaction tells which row left a key, where rows take each other's keys."""
    # Of the connector's clock.
    lacking = flat("public.vans", id=1, __ts_ms=1588927306264)
    assert said in " ".join(plan_of_debezium([lacking]).notes)
    # The connector writes NULL for a field that its database does not fill.
    nothing: dict[str, Any] = {field: None}
    told = flat("public.vans", id=1, **nothing)
    assert said not in " ".join(plan_of_debezium([told]).notes)
    assert said not in " ".join(plan_of_debezium([debezium("public.vans", id=1)]).notes)


def test_a_shape_of_postgis_is_known_without_a_schema() -> None:
    shape = {"wkb": "AQEAAAA=", "srid": 4326}
    spot = {"x": 1, "y": 2, **shape}
    rows: list[dict[str, Any]] = [
        {"id": 1, "area": shape, "spot": spot},
        {"id": 2, "area": None, "spot": None},
    ]
    plan = plan_of_debezium([debezium("public.plots", **row) for row in rows])
    assert plan.call["null_is_absent"] == "['area']"


@pytest.mark.parametrize(
    ("source", "expected"), [({"file": "binlog.000001", "pos": 4}, True), ({"lsn": 1}, False)]
)
def test_json_of_mysql_is_written_in_one_form(source: dict[str, Any], expected: bool) -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "doc", "type": "string", "name": "io.debezium.data.Json"},
        {"field": "name", "type": "string"},
    ]
    row = {"id": 1, "doc": '{"a": 2}', "name": "x"}
    message = {"op": "r", "before": None, "after": row, "source": source | {"table": "t"}}
    schema = {"fields": [{"field": "after", "fields": fields}]}
    flattened = {**row, "__op": "r", **{f"__source_{name}": at for name, at in source.items()}}
    messages = [(schema, message), ({"fields": fields}, flattened)]
    for described, payload in messages:
        text = json.dumps({"schema": described, "payload": payload})
        columns = plan_of_debezium([text]).call["columns"]
        assert ("{'name': 'doc', 'type': 'string', 'encoding': 'json'}" in columns) == expected
        assert columns.count("encoding") == expected


def test_numbers_that_may_be_times_have_a_note() -> None:
    """Without a schema nothing says so: MySQL's `datetime` counts milliseconds."""
    at = 1718000000000
    rows: list[dict[str, Any]] = [
        {"id": 1, "ms": at, "us": at * 1000 + 1, "ns": None, "mixed": at, "old": 5},
        {"id": 2, "ms": None, "us": at * 1000, "ns": at * 10**6, "mixed": at * 1000, "old": at},
    ]
    topic = [debezium("t", **row) for row in rows]
    notes = plan_of_debezium(topic).notes
    said = "its numbers are times of 2000 to 2099. If it is a time,"
    assert [note for note in notes if said in note] == [
        f"{name}: read as {unit} since 1970, {said} declare timestamp({p}) or timestamp_ntz({p})."
        for name, unit, p in (
            ("ms", "milliseconds", 3),
            ("us", "microseconds", 6),
            ("ns", "nanoseconds", 9),
        )
    ]
    written = [Column("ms", "timestamp"), Column("US", "bigint"), Column("gone", "bigint")]
    notes = plan_of_debezium(topic[:1], written_columns=written).notes
    assert [note.partition(":")[0] for note in notes if said in note] == ["mixed"]


def test_a_decimal_of_any_scale_is_a_number() -> None:
    """As connectors write a `numeric` of PostgreSQL or a NUMBER of Oracle without a precision."""
    tax, nothing = {"scale": 1, "value": "LQ=="}, {"scale": 0, "value": "AA=="}
    rows: list[dict[str, Any]] = [
        {"id": nothing, "tax": None, "total": tax, "size": tax, "reading": tax},
        {"id": nothing, "tax": tax, "total": None, "size": tax | {"unit": "m"}, "reading": "5"},
    ]
    plan = plan_of_debezium([debezium("public.pos_order", **row) for row in rows])
    said = "decimal(38,10), as its numbers have no scale in common"
    assert [note.partition(":")[0] for note in plan.notes if said in note] == ["id", "tax", "total"]
    number = "decimal(38,10)"
    assert {column.name: column.type for column in plan.columns} == {
        **{"id": number, "tax": number, "total": number},
        **{"size": "string", "reading": "string"},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": 1, "name": "a"}', "flattened rows, nothing in them says what happened: let add."),
        ('\0\0\0\0\5{"before":null,"after":{"id":1},"op":"c","source":{}}', "substring(value, 6)"),
        ("\0\0\0\0{\0\2", "If they are in Avro, give --metadata"),
    ],
)
def test_messages_without_a_row_that_shows_may_be_of_another_kind(text: str, said: str) -> None:
    with pytest.raises(NothingLanded, match=re.escape(said)):
        plan_of_debezium([text])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("id name __op __deleted", "Make a message of each row"),
        ("before after source op ts_ms", "Make a message of each row"),
        ("key value", "flattened rows, nothing in them says what happened"),
        ("op id", ""),
    ],
)
def test_what_may_be_debezium_s_has_a_hint(names: str, said: str) -> None:
    found = hint([Column(name, "string") for name in names.split()])
    assert said in found
    assert bool(said) == bool(found)


def test_a_table_of_iceberg_s_own_sink_has_a_hint() -> None:
    """Read as dms_changes, as the general text proposes, its placeholders would be values."""
    columns = [Column("id", "int"), Column("_cdc", "struct<op:string,ts:timestamp,offset:bigint>")]
    assert "Make a message of each row" in hint(columns)
    # Of its DmsTransform.
    assert hint([Column("id", "int"), Column("_cdc", "struct<op:string,ts:string>")]) == ""


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "no message has a key"),
        ("Struct{id=1001}", "the keys of the messages name no column: Struct{id=1001}"),
        ("1001", "the keys of the messages name no column: 1001"),
    ],
)
def test_a_key_without_names_is_no_missing_key(key: str | None, said: str) -> None:
    with pytest.raises(NoKey, match=re.escape(f"({said})")):
        plan_of_debezium([debezium("vans", id=1)], beside=["key"], values=[[key]], key=())


@pytest.mark.parametrize("form", ["envelope", "flattened"])
def test_a_column_with_a_default_that_may_be_null_has_a_note(form: str) -> None:
    """Unless a message shows that the converter writes NULL as NULL."""
    fields: list[dict[str, Any]] = [
        {"field": "id", "type": "int32", "optional": False, "default": 0},
        {"field": "state", "type": "string", "optional": True, "default": "new"},
        {"field": "size", "type": "int32", "optional": True, "default": 0},
        {"field": "note", "type": "string", "optional": True},
        # Of `source`. Its default is not the database's.
        {"field": "__source_snapshot", "type": "string", "optional": True, "default": "false"},
    ]

    def message(**row: Any) -> str:
        if form == "flattened":
            row |= {"__op": "c", "__deleted": "false", "__source_snapshot": None}
            return json.dumps({"schema": {"fields": fields}, "payload": row})
        after = {"schema": {"fields": [{"field": "after", "fields": fields[:-1]}]}}
        return json.dumps(after | {"payload": json.loads(debezium("public.vans", **row))})

    full = message(id=1, state="new", size=5, note=None)
    said = " ".join(plan_of_debezium([full]).notes)
    assert "columns with a default: state, size. Unless the connector has value.converter" in said
    kept = message(id=2, state="new", size=None, note=None)
    assert "columns with a default" not in " ".join(plan_of_debezium([full, kept]).notes)
    # Nothing shows the default of a column without a schema.
    bare = debezium("public.vans", id=1, state="new")
    assert "Unless the connector has value.converter" in " ".join(plan_of_debezium([bare]).notes)


@pytest.mark.parametrize("form", ["bare", "wrapped", "flattened"])
def test_a_column_of_debezium_is_found_behind_many_messages(form: str) -> None:
    """Staging has warned of it. `lsn` is in each message, but not in each row."""

    def message(table: str, **row: Any) -> str:
        if form == "flattened":
            return json.dumps({"__op": "c", "__deleted": "false", **row})
        return debezium(table, wrapped=form == "wrapped", **row)

    topic = [message("public.meters", id=n) for n in range(1200)]
    topic.append(message("public.meters", id=1, lsn=5, email=None))
    written: dict[str, Any] = {"written_columns": [Column("id", "int")]}
    assert [one.name for one in plan_of_debezium(topic, **written).columns] == ["id"]
    plan = plan_of_debezium(topic, undeclared=["email", "lsn", "gone"], **written)
    assert [one.name for one in plan.columns] == ["id", "lsn", "email"]
    if form != "flattened":
        # Of the table that is asked for.
        many = [message("public.vans", id=n, email="x", wheels=4) for n in range(1200)]
        plan = plan_of_debezium(
            [*many, *topic], "public.meters", undeclared=["email", "wheels"], **written
        )
        assert [one.name for one in plan.columns] == ["id", "lsn", "email"]


def test_what_staging_warns_of_is_looked_for_in_messages(tmp_path: Path) -> None:
    staging = model("stg_debezium__t", "staging/debezium", CUSTOMERS, macro="debezium_messages")
    staging.raw_code = "debezium_messages(source('raw', 't'), null_is_absent=['a', 'it\\'s'])"
    staging.relation_name = "shop.stg_debezium__t"
    said = [("columns that are not declared: email, Tier",), ("columns that are not declared: b",)]
    project: Any = SimpleNamespace(
        folder=tmp_path,
        models_folder="models",
        models=lambda: [staging],
        file_of=lambda node: node.original_file_path,
        rows=lambda sql: said,
    )
    topic: Any = SimpleNamespace(name="t", identifier="t", nodes=frozenset([CUSTOMERS]))
    system = next(one for one in SYSTEMS if one.macro == "debezium_messages")
    there = Existing(project, topic, Found(system, [], [], {}), Entry("raw.t"))
    assert there.written()["written_absent"] == ["a", "it's"]
    path = staging.original_file_path
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(sealed(path, "select 1"))
    assert there.undeclared([Column("id", "int"), Column("TIER", "int")]) == ["b", "email"]
    # Whoever has edited the model may have left some out.
    file.write_text(file.read_text() + "\n")
    assert there.undeclared([]) == []
    # A table that is not built yet.
    file.write_text(sealed(path, "select 1"))

    def fails(sql: str) -> list[Any]:
        raise AfterimageError("Spark failed: [TABLE_OR_VIEW_NOT_FOUND]")

    project.rows = fails
    assert there.undeclared([]) == []


def test_columns_in_which_null_is_absent_stay_in_the_list() -> None:
    """After REPLICA IDENTITY FULL there may be updates from before it that nobody has read."""
    flags = {"field": "flags", "type": "array", "items": {"type": "boolean"}}
    bits = {"field": "bits", "type": "bytes", "name": "io.debezium.data.Bits"}
    columns = [Column("id", "int"), Column("rates", "array<string>"), Column("flags", "string")]

    def listed(*fields: dict[str, Any], before: bool, written: list[str] | None) -> str | None:
        row = {"id": 1, **{one["field"]: None for one in fields}}
        source = {"schema": "public", "table": "t", "lsn": 1}
        message = {"op": "u", "before": row if before else None, "after": row, "source": source}
        schema = {"fields": [{"field": "after", "fields": list(fields)}]}
        text = json.dumps({"schema": schema, "payload": message})
        plan = plan_of_debezium([text], written_columns=columns, written_absent=written)
        return plan.call.get("null_is_absent")

    assert listed(flags, before=True, written=["rates"]) == "['rates', 'flags']"
    assert listed(before=True, written=["rates"]) == "['rates']"
    assert listed(flags, before=True, written=[]) == "['flags']"
    assert listed(bits, flags, before=False, written=["flags"]) == "['flags', 'bits']"
    # What the connector writes as an object has no placeholder either. A point is small.
    data, as_object = "io.debezium.data.", {"type": "struct", "optional": True}
    shapes = [
        {"field": name, "name": f"{data}{kind}", **as_object}
        for name, kind in (
            ("area", "geometry.Geometry"),
            ("line", "geometry.Geography"),
            ("spot", "geometry.Point"),
            ("weights", "vector.SparseDoubleVector"),
        )
    ]
    assert listed(*shapes, before=False, written=None) == "['area', 'line', 'weights']"
    # A model that never had the list needs none.
    assert listed(flags, before=True, written=None) is None


DECIMAL = "org.apache.kafka.connect.data.Decimal"


def connect_decimal(name: str, scale: int, precision: int | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)}
    parameters |= {} if precision is None else {"connect.decimal.precision": str(precision)}
    return {"field": name, "type": "bytes", "name": DECIMAL, "parameters": parameters}


def avro_decimal(name: str, precision: int, **scale: int) -> dict[str, Any]:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, **scale}
    return {"name": name, "type": ["null", {**kind, "connect.name": DECIMAL}]}


WIDE = "as a decimal of Spark has at most 38 digits"


@pytest.mark.parametrize(
    ("field", "declared", "note"),
    [
        (connect_decimal("n", 10, 50), "decimal(38,10)", "than 28 digits before the point"),
        (connect_decimal("n", 30, 65), "decimal(38,30)", "than 8 digits before the point"),
        (connect_decimal("n", 38, 39), "decimal(38,38)", "than 0 digits before the point"),
        (connect_decimal("n", 39, 45), "string", "Base64"),
        (connect_decimal("n", 2, 38), "decimal(38,2)", None),
        (connect_decimal("n", 2, 6), "decimal(6,2)", None),
        # numeric(2,4) of PostgreSQL, NUMBER(2,4) of Oracle.
        (connect_decimal("n", 4, 2), "decimal(4,4)", None),
        (connect_decimal("n", 39, 2), "string", "Base64"),
        (avro_decimal("n", 2, scale=4), "decimal(4,4)", None),
        (connect_decimal("n", 2), "decimal(38,2)", None),
        (avro_decimal("n", 64, scale=2), "decimal(38,2)", "than 36 digits before the point"),
        (avro_decimal("n", 64, scale=40), "string", "Base64"),
        (avro_decimal("n", 10), "decimal(10,0)", None),
        # NUMBER(20,-2) and NUMBER(38,-2) of Oracle.
        (connect_decimal("n", -2, 20), "decimal(22,0)", None),
        (connect_decimal("n", -2, 38), "decimal(38,0)", "than 38 digits before the point"),
    ],
)
def test_a_decimal_is_no_wider_than_those_of_spark(
    field: dict[str, Any], declared: str, note: str | None
) -> None:
    source = {"table": "t", "file": "b.1", "pos": 1}
    change = {"op": "c", "before": None, "after": {"n": "BOI="}, "source": source}
    schema = None
    if "field" in field:
        fields = [{"field": "after", "fields": [field]}]
        value = json.dumps({"schema": {"fields": fields}, "payload": change})
    else:
        value = json.dumps(change)
        row = {"type": "record", "name": "Value", "fields": [field]}
        envelope = {"name": "Envelope", "fields": [{"name": "after", "type": ["null", row]}]}
        schema = json.dumps({"type": "record", **envelope})
    project: Any = SimpleNamespace(rows=lambda sql: [(value, '{"n": "BOI="}', schema)])
    topic: Any = SimpleNamespace(
        name="raw.t", identifier="t", relation="raw.t", reference="landed", columns=[]
    )
    plan = debezium_messages(Question(project, topic, {}, ["n"], None, {}))
    assert [(column.name, column.type) for column in plan.columns] == [("n", declared)]
    assert plan.call["columns"] == column_list([Column("n", declared)])
    said = [text for text in plan.notes if text.startswith(f"n: {declared}, {WIDE}")]
    assert [note in text for text in said if note] == ([True] if note else [])
    assert len(said) == len(plan.notes)


def test_a_model_of_messages_keeps_its_table_and_its_columns() -> None:
    """What it was planned by may have been deleted since."""
    of_orders = [qlik("INSERT", {"ID": 1, "SUM": 1.5, "NOTE": None, "AT": 1}, **ORDER)]
    columns = [Column("ID", "int"), Column("NAME", "string"), Column("NOTE", "bigint")]
    written: dict[str, Any] = {"written_table": "dbo.ORDERS", "written_columns": columns}
    plan = plan_of(of_orders, key=["ID"], **written)
    assert plan.columns == [
        Column("ID", "bigint"),
        *columns[1:],
        Column("SUM", "decimal(38,10)"),
        Column("AT", "bigint"),
    ]
    assert plan.call["table"] == "'dbo.ORDERS'"
    with pytest.raises(SeveralTables) as several:
        plan_of(OF_ACCOUNTS, key=["ID"], **written)
    assert several.value.tables == ["dbo.ACCOUNTS", "dbo.ORDERS"]
    with pytest.raises(NothingLanded):
        plan_of([], key=["ID"], **written)


def test_messages_that_name_no_table_leave_a_model_its_own() -> None:
    """Its staging model rejects them. Before, they took `table` away, and its run stopped."""
    unnamed = [qlik("INSERT", {"TEST": 1}), json.dumps({"data": 1})]
    of_orders = [*unnamed, qlik("INSERT", {"ID": 1}, **ORDER)]
    written: dict[str, Any] = {
        "key": ["ID"],
        "written_table": "dbo.ORDERS",
        "written_columns": [Column("ID", "bigint")],
    }
    plan = plan_of(of_orders, **written)
    assert (plan.table, plan.call["table"], plan.landed_rows) == ("ORDERS", "'dbo.ORDERS'", None)
    assert plan.columns == [Column("ID", "bigint")]
    with pytest.raises(NothingLanded):
        plan_of(unnamed, **written)
    with pytest.raises(SeveralTables) as several:
        plan_of(OF_ACCOUNTS + unnamed, **written)
    assert several.value.tables == ["dbo.ACCOUNTS", "dbo.ORDERS"]


def test_a_model_of_messages_keeps_what_places_and_ids_depend_on() -> None:
    """Its raw table has got further columns since, or shows other messages: its run would stop."""
    landed = ["HEADERS", "partition", "offset"]
    places = ("position", "headers")

    def planned(written: dict[str, Any], *beside: str) -> tuple[dict[str, str], str]:
        plan = plan_of_debezium([debezium("public.vans", id=1)], beside=beside, **written)
        called = {name: text for name, text in plan.call.items() if name in places}
        return called, " ".join(plan.notes)

    new, note = planned({}, *landed)
    assert new == {"position": PLACES, "headers": "'HEADERS'"}
    assert "headers" not in note
    assert planned({})[0] == {}

    def written(code: str) -> dict[str, Any]:
        staging = model("stg_debezium__t", "staging/debezium", CUSTOMERS, macro="debezium_messages")
        staging.raw_code = f"debezium_messages(source('raw', 'shop'), {code})"
        project: Any = SimpleNamespace(
            models_folder="models",
            models=lambda: [staging],
            file_of=lambda node: node.original_file_path,
        )
        topic: Any = SimpleNamespace(name="t", identifier="t", nodes=frozenset([CUSTOMERS]))
        system = next(one for one in SYSTEMS if one.macro == "debezium_messages")
        there = Existing(project, topic, Found(system, [], [], {}), Entry("raw.t"))
        return there.written()

    without = written("unique_key=['id']")
    assert planned(without)[0] == {}
    called, note = planned(without, *landed)
    assert called == {}
    assert "headers: not used, as the model was written before the table had them." in note
    assert "position" not in note
    given = written("position=['partition', 'offset'],\n    headers='HEADERS'")
    for beside in ([], landed):
        called, note = planned(given, *beside)
        assert called == new
        assert "headers" not in note


PLACES = "['partition', 'offset']"


@pytest.mark.parametrize(
    ("message_key", "key", "partitions", "written", "position", "why"),
    [
        (None, ["id"], [1, 1, 0], None, None, "some of them have no key"),
        (None, ["id"], [1, 1, 1], None, PLACES, None),
        ('{"tenant": 1}', ["id"], [1, 1, 0], None, None, "their keys have tenant"),
        ('{"tenant": 1}', ["id", "Tenant"], [1, 1, 0], None, PLACES, None),
        ('{"ID": 1}', ["id"], [1, 1, 0], None, PLACES, None),
        # A transformation has taken the key's only field out.
        ("1", ["id"], [1, 1, 0], None, PLACES, None),
        # The run of a model that is built would stop.
        (None, ["id"], [1, 1, 0], PLACES, PLACES, None),
    ],
)
def test_offsets_order_the_messages_of_a_row_only_in_one_partition(
    message_key: str | None,
    key: list[str],
    partitions: list[int],
    written: str | None,
    position: str | None,
    why: str | None,
) -> None:
    """Kafka spreads the messages of a table without a primary key over all partitions."""
    states = ("new", "paid", "shipped")
    messages = [debezium("shop.log_items", id=1, tenant=1, state=one) for one in states]
    plan = plan_of_debezium(
        messages,
        beside=["key", "partition", "offset"],
        values=[(message_key, *place) for place in zip(partitions, (0, 1, 7), strict=True)],
        key=key,
        written_places={"position": written} if written else {},
    )
    assert plan.call.get("position") == position
    said = [note for note in plan.notes if note.startswith("position: ")]
    assert [why in note for note in said if why] == ([True] if why else [])
    assert len(said) == (1 if why else 0)


@pytest.mark.parametrize(
    ("fields", "place", "position"),
    [
        (["__source_sequence", "__source_sequence"], '["25","30"]', None),
        (["__sequence", "__source_sequence"], '["25","30"]', None),
        # The first rows came before the field was in `add.fields`.
        (["__source_lsn", "__source_sequence"], '["25","30"]', PLACES),
        (["__source_pos", "__source_pos"], '["25","30"]', PLACES),
        # YugabyteDB's, in a form that staging cannot read.
        (["__source_sequence", "__source_sequence"], '[null,"1:5::0:0"]', PLACES),
    ],
)
def test_flattened_rows_of_postgresql_have_the_order_of_its_log(
    fields: list[str], place: str, position: str | None
) -> None:
    """A key change may be in two partitions, and only the log orders its two halves."""
    rows = [
        {"id": 1, "note": None, "__op": "d", "__deleted": "true", fields[0]: place},
        {"id": 20, "note": "a", "__op": "c", "__deleted": "false", fields[1]: place},
    ]
    plan = plan_of_debezium(
        [json.dumps(row) for row in rows],
        beside=["key", "partition", "offset"],
        values=[('{"id": 1}', 0, 3), ('{"id": 20}', 1, 8)],
    )
    assert plan.call.get("position") == position


@pytest.mark.parametrize(
    ("names", "images", "given", "note"),
    [
        # Db2 takes another prefix than X if a column begins with X.
        ("ID XREF BAL YID YXREF YBAL", {}, {}, "YID, YXREF, YBAL look like"),
        ("ID XREF BAL YID YXREF YBAL", {}, {"before_prefix": None}, None),
        # X would fit one column by chance.
        ("ID NAME XNAME YID YNAME YXNAME", {"name": "XNAME"}, {}, "YID, YNAME, YXNAME look like"),
        ("id bal yid ybal", {}, {}, "yid, ybal look like"),
        ("ID BAL XID XBAL", {"id": "XID", "bal": "XBAL"}, {}, None),
        ("ID BAL", {}, {}, None),
        ("ID REF XREF2 YREF", {}, {}, None),
        # A type of its own shows data.
        ("ID BAL YID YBAL:int", {}, {}, None),
    ],
)
def test_before_images_with_another_prefix_have_a_note(
    names: str, images: dict[str, str], given: dict[str, Any], note: str | None
) -> None:
    project: Any = SimpleNamespace(macro=lambda name, **of: images)
    found = [Column(*f"{one}:string".split(":")[:2]) for one in names.split()]
    marker = Column("IBMSNAP_LOGMARKER", "timestamp")
    table: Any = SimpleNamespace(
        name="t", identifier="t", reference="t", relation="t", columns=[marker, *found]
    )
    key = [found[0].name]
    plan = db2_change_data(Question(project, table, {}, key, None, given))
    assert [one[: len(note or "")] for one in plan.notes] == ([note] if note else [])
    assert all(one.endswith("""give --arguments '{"before_prefix": "Y"}'""") for one in plan.notes)
    # Before-images of some columns do not say what the row was.
    assert plan.has_before_images == (images != {"name": "XNAME"})


def test_a_model_of_openedge_keeps_the_number_of_its_table() -> None:
    """The rows of its table may have been deleted from the tracking table, or not landed yet."""
    shown = ["15"]
    roles = {"t": ["sequence"], "tracking": ["sequence", "table_number"]}

    def layout(name: str, relation: str, **given: Any) -> Any:
        header = {role: {"name": f"_{role}_of_{relation}"} for role in roles[relation]}
        return {"data": [{"name": "id", "type": "int"}], "metadata": header}

    project: Any = SimpleNamespace(macro=layout, rows=lambda sql: [(number,) for number in shown])
    table: Any = SimpleNamespace(name="t", identifier="CDC_t", relation="t", reference="t")
    tracking: Any = SimpleNamespace(name="tracking", relation="tracking", reference="tracking")

    def planned(**written: Any) -> Plan:
        others = {"tracking": tracking}
        question = Question(project, table, others, ["id"], None, {}, **written)
        return openedge_change_table(question)

    def number(**written: Any) -> str:
        return planned(**written).call["source_table_number"]

    for shown[:] in (["15"], ["12", "15"], []):
        with pytest.raises(AfterimageError, match=f"those of {', '.join(shown) or 'none'} now"):
            number()
    staging = model("stg_openedge__t", "staging/openedge", CUSTOMERS, macro="openedge_change_table")
    staging.raw_code = "openedge_change_table(source('raw', 'CDC_t'), source_table_number=12)"
    project.models_folder, project.models = "models", lambda: [staging]
    project.file_of = lambda node: node.original_file_path
    table.nodes = frozenset([CUSTOMERS])
    system = next(one for one in SYSTEMS if one.macro == "openedge_change_table")
    there = Existing(project, table, Found(system, [], [], {}), Entry("raw.CDC_t"))
    for shown[:] in (["15"], ["12", "15"], []):
        assert number(**there.written()) == "12"
    # A staging model of the user's own names its number, wherever it lies.
    shown[:] = ["15"]
    assert number(is_staged=True) == "15"
    # A change table that the tracking columns were joined to says its own, if it has rows.
    roles["t"].append("table_number")
    shown[:] = ["15"]
    assert number() == "15"
    assert "where `_table_number_of_tracking` = 15" in str(planned().landed_rows)
    shown[:] = []
    with pytest.raises(AfterimageError, match=r"t may have changes of several .* of none now"):
        number()


@pytest.mark.parametrize(
    ("masks", "encoding"),
    [
        # The masks of the docs' table, as hex(binary) gives them: bit 4 is one of the header.
        (["803F", "0008", "0010", "80"], "'hex_bytes'"),
        (["3F80", "0800", "1000", "80", "", "0x"], None),
        # Read in either order, they flag data columns, or header columns.
        (["80"], None),
        (["8080", "0800"], None),
        (["0110"], None),
        (["0010", "0040"], None),
        (["0010", "no mask"], None),
        (["0010", "100"], None),
        ([], None),
    ],
)
def test_bits_of_header_columns_show_that_masks_are_text_of_bytes(
    masks: list[str], encoding: str | None
) -> None:
    layout: dict[str, Any] = {
        "columns": ["id", *"abcdef"],
        "ordinals": ["id", *"abcdef"],
        "header": {"change_mask": "header__change_mask"},
        "header_columns": 7,
        "has_mask": True,
        "mask_is_binary": False,
    }
    project: Any = SimpleNamespace(
        macro=lambda name, **given: layout, rows=lambda sql: [(mask,) for mask in masks]
    )
    table: Any = SimpleNamespace(
        identifier="customers__ct",
        relation="customers__ct",
        reference="landed",
        columns=[Column(f"header__{number}", "string") for number in range(7)]
        + [Column(name, "string") for name in layout["columns"]],
    )

    def planned(arguments: dict[str, Any] | None = None, **written: Any) -> Plan:
        question = Question(project, table, {}, ["id"], None, arguments or {}, **written)
        return qlik_change_table(question)

    plan = planned()
    assert plan.call.get("mask_encoding") == encoding
    assert [note[:24] for note in plan.notes] == ["mask_encoding: hex_bytes"] * bool(encoding)
    assert "mask_encoding" not in planned({"mask_encoding": "hex"}).call
    # The masks that have shown it may be gone.
    staging = model("stg_qlik__customers", "staging/qlik", CUSTOMERS, macro="qlik_change_table")
    staging.raw_code = (
        "qlik_change_table(source('raw', 'customers__ct'), mask_encoding='hex_bytes')"
    )
    project.models_folder, project.models = "models", lambda: [staging]
    project.file_of = lambda node: node.original_file_path
    table.nodes = frozenset([CUSTOMERS])
    system = next(one for one in SYSTEMS if one.macro == "qlik_change_table")
    there = Existing(project, table, Found(system, [], [], {}), Entry("raw.customers__ct"))
    assert planned(**there.written()).call["mask_encoding"] == "'hex_bytes'"
    # Bytes say themselves what they are.
    layout["mask_is_binary"] = True
    assert "mask_encoding" not in planned().call


def test_a_change_table_has_notes_of_what_its_columns_show() -> None:
    """As Databricks' Auto Loader lands it, by a task that writes no mask."""
    header = ["header__change_seq", "header__change_oper"]
    data = ["_id", "file_no", "name", "_rescued_data", "__src_file", "insert_timestamp"]
    layout = {"columns": data, "header": {}, "has_mask": False, "mask_is_binary": False}
    project: Any = SimpleNamespace(macro=lambda name, **given: layout)
    table: Any = SimpleNamespace(
        identifier="customers__ct",
        relation="customers__ct",
        reference="landed",
        columns=[Column(name, "string") for name in header + data],
    )

    def notes(**arguments: Any) -> list[str]:
        layout["columns"] = arguments.get("columns", data)
        return qlik_change_table(Question(project, table, {}, ["id"], None, arguments)).notes

    of_loader, no_mask = notes()
    assert of_loader.startswith("columns: _rescued_data, __src_file, insert_timestamp may come")
    assert no_mask.startswith("no change_mask: a NULL in an update counts as the value")
    assert notes(columns=data[:3]) == [no_mask]


def test_a_model_of_messages_goes_on_without_the_metadata_it_was_written_by() -> None:
    """Columns that are guessed in their place would have other types, and be refused."""
    names = {"schema_name": "dbo", "table_name": "ORDERS", "schema_id": "v1"}
    described: list[dict[str, Any]] = [
        {**names, "column_name": "ID", "spark_type": "int", "primary_key_position": 1},
        {**names, "column_name": "SUM", "spark_type": "decimal(12,2)"},
    ]
    of_orders = [qlik("INSERT", {"ID": 1, "SUM": 1.5}, "03", **ORDER)]
    by_metadata = plan_of(of_orders, described=described)
    assert by_metadata.call == {"metadata": "landed"}
    with pytest.raises(NothingLanded, match="reads the columns from them: land one again"):
        plan_of(of_orders, written_metadata=True)
    # The other way round: a model that was written before its metadata came.
    by_data = plan_of(of_orders, key=["ID"])
    written: dict[str, Any] = {
        "written_table": "dbo.ORDERS",
        "written_columns": by_data.columns,
    }
    later = plan_of(of_orders, key=["ID"], described=described, **written)
    assert (later.columns, later.call) == (by_data.columns, by_data.call)


@pytest.mark.parametrize(
    ("written", "found", "wider"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(12,2)", "decimal(10,2)", "decimal(12,2)"),
        # No table format follows to another scale.
        ("decimal(10,2)", "decimal(12,3)", "decimal(10,2)"),
        ("bigint", "string", "bigint"),
        ("bigint", "decimal(38,10)", "bigint"),
        ("time(6)", "time(6)", "time(6)"),
    ],
)
def test_a_column_is_as_wide_as_it_was_at_least(written: str, found: str, wider: str) -> None:
    assert _wider(written, found) == wider
