"""The package under dbt-databricks: what parses, what compiles, and the statements it sends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from warehouse import DATA, DESCRIBED, LISTED, Warehouse, described

LIST = r"information_schema`\.`tables"
HISTORY = described(
    DATA | {"valid_from": "timestamp", "valid_to": "timestamp", "is_current": "boolean"}
)
AUDIT = described({"id": "int", "change_id": "string", "column_name": "string"})
RAW_TABLE = ["orders__ct", "table", "delta", "me", "managed"]


@pytest.fixture
def shop(tmp_path: Path) -> Warehouse:
    """A Qlik change table through staging, history, audit and current; all settings left out."""
    shop = Warehouse(tmp_path)
    shop.answers = [(LIST, LISTED, [RAW_TABLE])]
    shop.file(
        "models/raw.yml",
        "sources: [{name: raw, database: main, schema: landed, tables: [{name: orders__ct}]}]",
    )
    shop.file(
        "models/stg_orders.sql",
        "{{ config(materialized='change_stream') }}"
        "{{ afterimage.qlik_change_table(source('raw', 'orders__ct'), unique_key=['id']) }}",
    )
    for kind in ("history", "audit"):
        shop.file(
            f"models/orders_{kind}.sql",
            f"{{{{ config(materialized='{kind}', unique_key=['id']) }}}}"
            "select * from {{ ref('stg_orders') }}",
        )
    shop.file("models/orders_now.sql", "{{ afterimage.current_state(ref('orders_history')) }}")
    return shop


def test_models_compile_with_names_in_three_parts(shop: Warehouse) -> None:
    compiled = {
        result.node.name: result.node.compiled_code for result in shop.dbt("compile").results
    }
    assert "from `main`.`landed`.`orders__ct`" in compiled["stg_orders"]
    assert compiled["orders_history"] == "select * from `main`.`cdc`.`stg_orders`"


def test_a_build_makes_delta_tables_in_one_statement_each(shop: Warehouse) -> None:
    """Our materializations are registered for `spark`, and dbt finds them for its child."""
    shop.dbt("run")
    for name in ("stg_orders", "orders_history", "orders_audit", "orders_now"):
        (create,) = shop.sent(rf"^create or replace table `main`\.`cdc`\.`{name}` using delta")
        assert " location " not in create.lower().split(" as ")[0]
    # What a warehouse does not take: settings of a session, and Iceberg's own tables.
    assert shop.sent(r"^set ") == []
    assert shop.sent(r"\.(snapshots|refs|history|entries)\b") == []


def test_settings_of_the_adapter_reach_our_tables(shop: Warehouse) -> None:
    shop.file(
        "models/orders_history.sql",
        "{{ config(materialized='history', unique_key=['id'], liquid_clustered_by=['id'],"
        " location_root='abfss://lake/cdc') }} select * from {{ ref('stg_orders') }}",
    )
    shop.dbt("run", "--select", "orders_history")
    (create,) = shop.sent(r"^create or replace table `main`\.`cdc`\.`orders_history`")
    assert " CLUSTER BY (id)" in create
    # Delta takes one of the two.
    assert "partitioned by" not in create
    assert " location 'abfss://lake/cdc/orders_history'" in create


@pytest.mark.parametrize(
    ("given", "clustered_by", "with_statistics"),
    [
        ("['id']", "id", "id,`valid_from_seq`,`valid_to_seq`"),
        ("'id'", "id", "id,`valid_from_seq`,`valid_to_seq`"),
        (
            "['`valid_from_seq`', 'id']",
            "`valid_from_seq`, id",
            "`valid_from_seq`,id,`valid_to_seq`",
        ),
    ],
    ids=["list", "text", "ours"],
)
def test_columns_to_cluster_by_have_statistics(
    given: str, clustered_by: str, with_statistics: str, shop: Warehouse
) -> None:
    """Else Delta refuses the table, as it does one whose list has a name twice."""
    shop.file(
        "models/orders_history.sql",
        "{{ config(materialized='history', unique_key=['id'],"
        f" liquid_clustered_by={given}) }}}} select * from {{{{ ref('stg_orders') }}}}",
    )
    shop.dbt("run", "--select", "orders_history")
    (create,) = shop.sent(r"^create or replace table `main`\.`cdc`\.`orders_history`")
    assert f" CLUSTER BY ({clustered_by})" in create
    assert f"'delta.dataSkippingStatsColumns' = '{with_statistics}'" in create


def test_seeds_are_loaded_by_the_adapter_itself(shop: Warehouse) -> None:
    """Ours mend the loading of dbt-spark, also where the project's dispatch names us first."""
    shop.file("seeds/cities.csv", "id,city\n1,Rome\n")
    shop.dbt("seed")
    (create,) = shop.sent(r"^create table `main`\.`cdc`\.`cities`")
    assert "using delta" in create
    (insert,) = shop.sent(r"^insert overwrite `main`\.`cdc`\.`cities` values")
    assert insert.count("%s") == 2


def test_masks_need_no_function(shop: Warehouse) -> None:
    """A change table of Qlik works before anybody has made functions in Unity Catalog."""
    (staging,) = shop.dbt("compile", "--select", "stg_orders").results
    assert "change_mask" in staging.node.compiled_code
    assert "decode_" not in staging.node.compiled_code


def test_a_second_run_replaces_no_table(shop: Warehouse) -> None:
    shop.dbt("run", "--exclude", "orders_now")
    stored = {
        name: re.findall(r"'([^']*)' = '([^']*)'", create.split(" as ")[0])
        for name in ("stg_orders", "orders_history", "orders_audit")
        for create in shop.sent(rf"^create or replace table `main`\.`cdc`\.`{name}`")
    }
    built = [[name, *RAW_TABLE[1:]] for name in stored]
    shop.answers = [
        (LIST, LISTED, [RAW_TABLE, *built]),
        *(
            (rf"show tblproperties `main`\.`cdc`\.`{name}`", ["key", "value"], [*map(list, found)])
            for name, found in stored.items()
        ),
        (r"^\s*describe query select \* from `main`\.`cdc`\.`orders_history`", DESCRIBED, HISTORY),
        (r"^\s*describe query select \* from `main`\.`cdc`\.`orders_audit`", DESCRIBED, AUDIT),
    ]
    shop.statements.clear()
    shop.dbt("run", "--select", "orders_history", "orders_audit")
    assert shop.sent(r"^(create or replace|drop) table `main`\.`cdc`\.`[a-z_]+`( |$)") == []
    assert shop.sent(r"^set ") == []
    assert shop.sent(r" purge$") == []


def test_a_table_of_another_format_is_not_built_again(shop: Warehouse) -> None:
    """Unity Catalog lists the format of each table."""
    shop.answers = [(LIST, LISTED, [RAW_TABLE, ["orders_audit", *RAW_TABLE[1:]]])]
    shop.file(
        "models/orders_audit.sql",
        "{{ config(materialized='audit', unique_key=['id'], file_format='parquet') }}"
        "select * from {{ ref('stg_orders') }}",
    )
    with pytest.raises(AssertionError, match=r"`file_format` must be 'delta'.*Got: parquet"):
        shop.dbt("run", "--select", "orders_audit")
    assert shop.sent(r"(drop|create) .*orders_audit") == []
