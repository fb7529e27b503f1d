"""Parquet with types that Spark lacks, written anew."""

from __future__ import annotations

from datetime import datetime, time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing.files import File
from dbt_afterimage.landing.stage import check_in_place, columns_without_a_type, stage

CLOCK = pa.time64("us")


def landed(folder: Path, columns: dict[str, Any], **options: Any) -> File:
    """Return a file with these columns."""
    path = folder / "1.parquet"
    parquet.write_table(pa.table(columns), path, **options)
    return File(path, path.name, path.stat().st_size, path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("kind", "value", "copied"),
    [
        (CLOCK, time(8, 30), "08:30:00.000000"),
        # As many digits as the unit has: texts that were landed before must not change.
        (pa.time32("ms"), time(8, 30), "08:30:00.000"),
        (pa.time64("ns"), time(8, 30), "08:30:00.000000000"),
        (
            pa.struct([("id", pa.int32()), ("at", CLOCK)]),
            {"id": 1, "at": time(8, 30)},
            {"id": 1, "at": "08:30:00.000000"},
        ),
        (pa.list_(CLOCK), [time(8, 30), None], ["08:30:00.000000", None]),
        (pa.list_(CLOCK, 1), [time(8, 30)], ["08:30:00.000000"]),
        (pa.large_list(pa.list_(CLOCK)), [[time(8, 30)]], [["08:30:00.000000"]]),
        (pa.map_(CLOCK, CLOCK), [(time(8), None)], [("08:00:00.000000", None)]),
    ],
)
def test_times_of_day_become_texts_wherever_they_are(
    kind: pa.DataType, value: Any, copied: Any, tmp_path: Path
) -> None:
    file = landed(tmp_path, {"id": [1, 2], "deep": pa.array([value, None], kind)})
    with pytest.raises(AfterimageError, match=r"has times of day, .* load it with --copy"):
        check_in_place("parquet", [file])
    (tmp_path / "copy").mkdir()
    [group] = stage("parquet", [file], tmp_path / "copy")
    found = parquet.read_table(group.folder / "1.parquet").to_pylist()
    assert found == [{"id": 1, "deep": copied}, {"id": 2, "deep": None}]


def test_times_of_day_beside_int96_cannot_be_copied(tmp_path: Path) -> None:
    columns = {"at": [datetime(2026, 1, 1)], "opens": pa.array([time(8)], CLOCK)}
    file = landed(tmp_path, columns, use_deprecated_int96_timestamps=True)
    for read in (check_in_place, partial(stage, folder=tmp_path)):
        with pytest.raises(AfterimageError, match=r"type INT96, .* texts for times of day") as said:
            read("parquet", [file])
        assert "1.parquet has times of day" in str(said.value)
        assert "load it with --copy" not in str(said.value)


def test_columns_without_a_type(tmp_path: Path) -> None:
    columns = {"id": [1], "vip": pa.nulls(1), "name": pa.array([None], pa.string())}
    file = landed(tmp_path, columns)
    (tmp_path / "copy").mkdir()
    [group] = stage("parquet", [file], tmp_path / "copy")
    assert columns_without_a_type(group) == {"vip"}
