"""The UDFs as SQL sees them: in dbt's session, in plain PySpark and on a cluster's executors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from command_line import BIN, environment, run
from conftest import Lake, Project
from dbt_afterimage.udfs.masks import decode_change_mask
from dbt_afterimage.udfs.registry import REGISTRY
from dbt_afterimage.udfs.spark import vectorised
from pages import FENCED, page
from standalone import StandaloneCluster


def decoded(lake: Lake, *calls: str) -> list[object]:
    """Return the results of SQL calls as one row."""
    row = lake.rows(f"select {', '.join(f'{call} as c{i}' for i, call in enumerate(calls))}")[0]
    return list(row.values())


def test_binary_and_text_masks_are_read_by_their_type(lake: Lake) -> None:
    assert decoded(
        lake,
        "decode_change_mask(X'000B01', 7)",
        "decode_change_mask('3a00', 7)",
        "decode_change_mask('0B')",
        "decode_change_mask('000B01', 7, 'hex_bytes')",
        "decode_change_mask(cast('3a00' as binary), 7, 'hex')",
        "decode_field_map('11001')",
        "decode_field_map(X'C8')",
    ) == [[2, 3, 5, 10], [3, 5, 6, 7], [1, 2, 4], [2, 3, 5, 10], [3, 5, 6, 7], [1, 2, 5], [1, 2, 5]]


def test_null_is_unknown_and_empty_is_nothing(lake: Lake) -> None:
    assert decoded(
        lake,
        "decode_change_mask(cast(null as binary), 7)",
        "decode_change_mask(cast(null as string), 0)",
        "decode_field_map(cast(null as string))",
        "decode_change_mask(X'', 7)",
        "decode_change_mask('', 7)",
        "decode_change_mask('0x', 7)",
        "decode_field_map('')",
    ) == [None, None, None, [], [], [], []]


def test_a_mask_that_cannot_be_decoded_is_null_and_the_query_continues(lake: Lake) -> None:
    assert decoded(
        lake,
        "decode_change_mask('0G', 0)",
        "decode_change_mask('0B', 0, 'bytes')",
        "decode_change_mask('0B1', 0, 'hex_bytes')",
        "decode_change_mask('0B', 0, 'no such encoding')",
        "decode_change_mask('0B', -1)",
        "decode_change_mask('0B', cast(null as int))",
        "decode_change_mask(11, 0)",
        "decode_field_map('F1;F2')",
        "decode_change_mask('0B', 0)",
    ) == [None] * 8 + [[1, 2, 4]]


def test_good_bad_and_null_masks_may_be_in_one_batch(lake: Lake) -> None:
    rows = lake.rows(
        """
        select place, decode_change_mask(mask, header_columns) as ordinals
        from values
            (1, X'000B01', 7), (2, null, 7), (3, X'', 7), (4, X'000B01', 7), (5, X'C042', 5),
            (6, X'000B01', null)
            as masks (place, mask, header_columns)
        order by place
        """
    )
    assert [row["ordinals"] for row in rows] == [
        [2, 3, 5, 10],
        None,
        [],
        [2, 3, 5, 10],
        [2, 3, 5, 10],
        None,
    ]


def test_table_without_rows_decodes_to_none(lake: Lake) -> None:
    assert lake.rows("select decode_change_mask(hex(id), 0) as ordinals from range(0)") == []


def test_ordinals_are_an_array_of_int_for_sql(lake: Lake) -> None:
    query = lake.spark.sql("select decode_change_mask('0B', 0) as ordinals")
    assert query.schema.simpleString() == "struct<ordinals:array<int>>"


def test_every_function_of_the_registry_has_its_sql_name(lake: Lake) -> None:
    known = {row["function"] for row in lake.rows("show user functions")}
    assert {udf.sql_name for udf in REGISTRY} <= {name.split(".")[-1] for name in known}


def test_each_distinct_mask_of_a_batch_is_decoded_once() -> None:
    calls = []

    def counted(mask: bytes | None, header_columns: int) -> list[int] | None:
        calls.append(mask)
        return decode_change_mask(mask, header_columns)

    # Spark 3.5 hands binaries over as bytearray, which no dictionary takes for a key.
    masks = [bytearray(b"\x80"), bytearray(b"\0\x01"), None, bytearray(b"\x80\0")]
    batch = vectorised(counted)(pd.Series(masks * 1000), pd.Series([7] * 4000))
    assert list(batch) == [[1], [2], None, [1]] * 1000
    assert len(calls) == 4


def test_refusal_is_cached_too() -> None:
    calls = []

    def refusing(mask: str) -> list[int]:
        calls.append(mask)
        raise ValueError("no mask")

    assert list(vectorised(refusing)(pd.Series(["0G"] * 100))) == [None] * 100
    assert calls == ["0G"]


def test_null_is_none_for_every_null_of_pandas() -> None:
    masks = pd.Series(["0B", None, "0B"], dtype="string")
    places = pd.Series([1.0, None, None])
    seen = vectorised(lambda mask, place: [mask, place])(masks, places)
    assert list(seen) == [["0B", 1.0], [None, None], ["0B", None]]


def test_bug_in_a_function_is_not_a_refusal() -> None:
    def mistaken(mask: str) -> list[int]:
        raise KeyError(mask)

    with pytest.raises(KeyError):
        vectorised(mistaken)(pd.Series(["0B"]))


@pytest.mark.slow
def test_plain_pyspark_needs_one_line(tmp_path: Path) -> None:
    (script,) = [
        block for kind, block in FENCED.findall(page("docs/reference/udfs.md")) if kind == "python"
    ]
    assert len(script.split()) < 20
    env = environment()
    env["PATH"] = os.pathsep.join([str(BIN), env["PATH"]])  # as in an activated environment
    result = run(sys.executable, "-c", script, cwd=tmp_path, env=env)
    assert re.search(r"^\|\s*\[1, 2, 4\]\|$", result.stdout, re.MULTILINE)


BLOCKER = "raise ImportError('blocked on this machine')\n"

# `dbt build` as the command does it, and then a look at the executors of its very session.
ON_A_CLUSTER = """\
from dbt.cli.main import dbtRunner
from dbt_afterimage.runtime.session import open_session

outcome = dbtRunner().invoke(
    ["--quiet", "build", "--target", "cluster", "--profiles-dir", "profiles"]
)
assert outcome.success, outcome


def try_to_import(_):
    try:
        import dbt_afterimage
    except ImportError as error:
        return str(error)
    return dbt_afterimage.__file__


spark = open_session({})
print(spark.sparkContext.master)
print(spark.sparkContext.parallelize([1], 1).map(try_to_import).first())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and a worker on whose executors nothing of Afterimage can be imported."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "blocker" / "dbt_afterimage").mkdir(parents=True)
    (folder / "blocker" / "dbt_afterimage" / "__init__.py").write_text(BLOCKER)
    cluster = StandaloneCluster(folder)
    try:
        cluster.add_worker(cores=2, PYTHONPATH=str(folder / "blocker"))
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.minutes
def test_executors_that_cannot_import_the_package_run_the_udfs(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    project = Project(tmp_path)
    project.file(
        "models/masks.sql",
        "select decode_change_mask(hex(id), 0) as ordinals from range(0, 1000, 1, 4)",
    )
    project.file(
        "tests/eleven_is_1_2_4.sql",
        "select * from (select count(*) as n from {{ ref('masks') }}"
        " where ordinals = array(1, 2, 4)) where n <> 1",
    )
    warehouse = tmp_path / "warehouse"
    env = cluster.application_environment(AFTERIMAGE_WAREHOUSE=str(warehouse))
    result = run(sys.executable, "-c", ON_A_CLUSTER, cwd=tmp_path, env=env)
    assert result.stdout.splitlines() == [cluster.url, "blocked on this machine"]
    # Written by tasks, which is to say by the executors.
    assert len(list(warehouse.glob("afterimage/masks/data/*.parquet"))) >= 2
