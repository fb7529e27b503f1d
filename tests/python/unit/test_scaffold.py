"""What `init` plans and writes, by what a project and a landed table say of themselves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.files import Texts, changes
from dbt_afterimage.runtime.project import Column
from dbt_afterimage.scaffold import landed

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

    def source(self, schema: str, name: str) -> Any:
        wanted = (schema, name)
        return next((n for n in self._sources if (n.source_name, n.name) == wanted), None)

    def file_of(self, node: Any) -> str:
        return str(node.original_file_path)

    def relation(self, schema: str, identifier: str, *, quoted: bool) -> str:
        return f"{schema}.`{identifier}`"

    def columns_of(self, relation: str) -> list[Column]:
        return [Column("id", "int")]


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


def test_two_schemas_do_not_share_a_file_of_sources(tmp_path: Path) -> None:
    with pytest.raises(AfterimageError, match="two schemas"):
        changes(tmp_path, [texts("a", "a"), texts("b", "a", schema="orc")], whole=True)


def test_tables_of_one_topic_share_its_source(tmp_path: Path) -> None:
    pair = [texts("a", "/landing/topic", "of a"), texts("b", "/landing/topic", "of b")]
    [change] = changes(tmp_path, pair, whole=True)
    assert "/landing/topic" in change.new
