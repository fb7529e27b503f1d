"""`afterimage land`: landed files of all formats become raw tables, and late ones are taken in."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timezone
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from conftest import FORMAT, Lake, Project
from dbt_afterimage.cli import main
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.landing import stage
from dbt_afterimage.landing.registry import Schemas
from dbt_afterimage.runtime import files
from dbt_afterimage.runtime.files import Texts
from dbt_afterimage.runtime.project import Project as Asked
from dbt_afterimage.runtime.project import Where
from pages import page, typed

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ada", "credit": 1.5},
    {"id": 2, "name": None, "credit": None},
    {"id": 3, "name": 'a "b", c\nd', "credit": -0.25},
]


class Killed(BaseException):
    """Ends a command in the middle, as `kill -9` would: no handler for errors is for it."""


class Landings:
    """A project, its landing folder, and what `afterimage land` says there."""

    def __init__(self, project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
        self.project, self.lake, self._capfd = project, lake, capfd
        self.folder = project.folder / "landing"

    def land(self, *arguments: str | Path) -> str:
        """Run the command, which must succeed, and return what it says."""
        code, out, err = self._run(arguments)
        assert code == 0, err
        return out

    def refused(self, *arguments: str | Path) -> str:
        """Run the command, which must fail, and return its error: one line."""
        code, _, err = self._run(arguments)
        assert code == 1, err
        # Without what is being done, and how long it took.
        said = [line for line in err.splitlines() if not re.search(r"(\.\.\.|: \d+ s)$", line)]
        [line] = [line for line in said if line.startswith("afterimage: ")]
        return line.removeprefix("afterimage: ")

    def _run(self, arguments: Sequence[str | Path]) -> tuple[int, str, str]:
        self._capfd.readouterr()
        where = ("--project-dir", str(self.project.folder))
        profiles = ("--profiles-dir", str(self.project.folder / "profiles"))
        code = main(["land", *map(str, arguments), *where, *profiles])
        return code, *self._capfd.readouterr()

    def source(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of `source('raw', table)` as a model would read them."""
        relation = self.project.compile(f"{{{{ source('raw', '{table}') }}}}")
        return self.lake.rows(f"select * from {relation} order by id")

    def rows(self, table: str) -> list[dict[str, Any]]:
        return self.lake.rows(f"select * from {table} order by id")

    def types(self, relation: str) -> dict[str, str]:
        return {row["col_name"]: row["data_type"] for row in self.lake.rows(f"describe {relation}")}

    def writes(self, table: str) -> list[dict[str, Any]]:
        """Return the commits of a Delta table that wrote rows, the newest first."""
        commits = self.lake.rows(f"describe history {table}")
        return [one for one in commits if one["operation"] == "WRITE"]

    def csv(self, path: str, text: str) -> Path:
        return self.file(path, text.encode())

    def file(self, path: str, content: bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def parquet(self, path: str, rows: Sequence[dict[str, Any]]) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(list(rows)), file)
        return file


@pytest.fixture
def landings(
    make_project: Callable[[str], Project],
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> Any:
    found = Landings(make_project("land"), lake, capfd)
    found.folder.mkdir()
    lake.spark.sql("create namespace if not exists raw")
    yield found
    for row in lake.rows("show tables in raw"):
        lake.spark.sql(f"drop table raw.`{row['tableName']}`")


def write(format_name: str, folder: Path) -> Path:
    """Write the rows as a writer of that format does."""
    folder.mkdir(parents=True)
    file = folder / f"part-0.{format_name}"
    table = pa.Table.from_pylist(ROWS)
    if format_name == "parquet":
        parquet.write_table(table, file)
    elif format_name == "orc":
        orc.write_table(table, file)
    elif format_name == "json":
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif format_name == "avro":
        fields = [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "credit", "type": ["null", "double"]},
        ]
        with file.open("wb") as opened:
            schema = {"type": "record", "name": "Row", "fields": fields}
            # As Spark and Hive write it.
            fastavro.writer(opened, schema, ROWS, codec="snappy")
    else:
        file.write_text('id,name,credit\n1,Ada,1.5\n2,,\n3,"a ""b"", c\nd",-0.25\n')
        # As Qlik describes it.
        file.with_suffix(".dfm").write_text('{"formatInfo": {"format": "delimited"}}')
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").write_bytes(b"x")
    return folder


@pytest.mark.parametrize("format_name", ["parquet", "orc", "json", "avro", "csv"])
def test_rows_in_rows_out(format_name: str, landings: Landings) -> None:
    write(format_name, landings.folder / "people")
    copied = format_name in ("avro", "csv")
    said = landings.land(landings.folder / "people")
    assert f"1 file, {'1 file loaded' if copied else 'read in place'}" in said
    assert "id bigint" in said
    assert "credit double" in said
    found = landings.rows("raw.people") if copied else landings.source("people")
    assert found == ROWS
    if copied:
        assert "nothing new" in landings.land(landings.folder / "people")
    else:
        landings.land(landings.folder / "people", "--copy", "--as", "raw.copied")
        assert landings.rows("raw.copied") == ROWS


@pytest.mark.slow
def test_paths_that_would_end_the_statement(landings: Landings) -> None:
    hostile = [
        "sp ace",
        "q'u\"ote`; drop table x",
        "[a]{{ b }}*?\\,",
        "{% raw %}",
        "date=2024-01-01",
    ]
    for number, name in enumerate(hostile):
        folder = landings.folder / name
        landings.parquet(f"{name}/a.parquet", [{"id": number}])
        table = f"raw.hostile_{number}"
        landings.land(folder, "--as", table)
        landings.land(folder, "--as", f"{table}_copy", "--copy")
        assert landings.source(f"hostile_{number}") == [{"id": number}]
        assert landings.rows(f"{table}_copy") == [{"id": number}]


def test_several_paths_and_the_names_that_they_give(landings: Landings) -> None:
    landings.parquet("Customers-CT/a.parquet", ROWS)
    landings.csv("2024 orders.csv", "id,n\n1,2\n")
    landings.file("items.json.gz", gzip.compress(b'{"id": 1, "n": [{"a": 1}]}\n'))
    (landings.folder / "_SUCCESS").touch()
    said = landings.land(*sorted(landings.folder.iterdir()))
    assert "raw.customers_ct: Parquet" in said
    assert "raw.t_2024_orders: CSV" in said
    assert "raw.items: JSON" in said
    assert "n array<struct<a:bigint>>" in said
    # Both of one name, in two files: a second parse knows them all the same.
    assert landings.source("customers_ct") == ROWS
    assert landings.source("items") == [{"id": 1, "n": [{"a": 1}]}]
    assert landings.rows("raw.t_2024_orders") == [{"id": 1, "n": 2}]
    texts = {
        path.name: re.findall(r"- name: (\w+)", path.read_text())
        for path in (landings.project.folder / "models/sources").iterdir()
    }
    assert texts == {
        "_src_raw_parquet.yml": ["raw", "customers_ct"],
        "_src_raw_json.yml": ["raw", "items"],
    }


def test_the_same_path_again_changes_nothing(landings: Landings) -> None:
    landings.parquet("one/a.parquet", [{"id": 1}])
    landings.parquet("two/a.parquet", [{"id": 1}])
    landings.land(landings.folder / "two")
    file = landings.project.folder / "models/sources/_src_raw_parquet.yml"
    # What people write stays, to the byte.
    file.write_text(
        file.read_text()
        .replace("      - name: two\n", "      # ours\n      - name: two\n        meta: {a: [1]}\n")
        .replace("sources:\n", "version: 2\nsources:\n  - name: other\n    tables: [{name: a}]\n")
    )
    before = file.read_text()
    assert "wrote" not in landings.land(landings.folder / "two")
    assert file.read_text() == before
    landings.land(landings.folder / "one")
    assert file.read_text().startswith(before)
    added = file.read_text().removeprefix(before).split("\n")
    assert [line.strip() for line in added if line] == [
        "- name: one",
        f'identifier: "{landings.folder / "one"}"',
    ]
    assert landings.source("one") == landings.source("two") == [{"id": 1}]


def test_a_file_that_nothing_can_be_added_to_safely(tmp_path: Path) -> None:
    path = "models/_src_raw_parquet.yml"
    file = tmp_path / path
    file.parent.mkdir()
    wanted = Texts("raw.b", {}, {path: {"b": "      - name: b\n"}}, {path: "sources:\n"})
    flow = "sources: [{name: raw, schema: parquet, tables: [{name: a, identifier: /a}]}]\n"
    for text in (flow, "models: []\n", "sources: {\n", "", "- a\n"):
        file.write_text(text)
        with pytest.raises(AfterimageError, match=r"Add b yourself:\n      - name: b"):
            files.changes(tmp_path, [wanted], whole=False)
        assert file.read_text() == text


HEADER = "header__change_seq"


def changes(*rows: tuple[int, str, int, str]) -> list[dict[str, Any]]:
    return [
        {HEADER: f"202401011200000000{seq:019}", "header__change_oper": letter, "id": id, "name": n}
        for seq, letter, id, n in rows
    ]


@pytest.mark.minutes
def test_late_files_are_taken_in_by_the_next_run(landings: Landings) -> None:
    project = landings.project
    landings.parquet("people__ct/day=1/a.parquet", changes((1, "I", 1, "a"), (2, "I", 2, "b")))
    landings.land(landings.folder / "people__ct")
    project.stream(
        "stg_late_people",
        "qlik_change_table(source('raw', 'people__ct'), unique_key=['id'])",
        # A loaded day is a bigint, and an int where Spark reads the files in place.
        on_schema_change="append_new_columns",
    )

    def names() -> list[str]:
        project.dbt("run", "--select", "stg_late_people")
        staged = "select after.name as name from afterimage.stg_late_people order by name"
        return [row["name"] for row in landings.lake.rows(staged)]

    assert names() == ["a", "b"]
    landings.parquet("people__ct/day=2/b.parquet", changes((3, "U", 1, "c")))
    assert names() == ["a", "b", "c"]
    # The same rows again, copied, for the same model.
    source = project.folder / "models/sources/_src_raw_parquet.yml"
    source.write_text("sources: [{name: raw, tables: [{name: people__ct}]}]\n")
    landings.land(landings.folder / "people__ct", "--copy")
    assert names() == ["a", "b", "c"]
    landings.parquet("people__ct/day=3/c.parquet", changes((4, "U", 1, "d")))
    landings.land(landings.folder / "people__ct", "--copy")
    assert names() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("way", [[], ["--copy"]])
def test_days_before_1582_are_read_from_files_that_spark_did_not_write(
    way: list[str], landings: Landings
) -> None:
    """Spark 3 would not know in which calendar they count."""
    utc = timezone.utc
    row = {"id": 1, "born": date(1, 1, 1), "seen": datetime(1753, 1, 1, tzinfo=utc)}
    landings.parquet("people/a.parquet", [row])
    landings.land(landings.folder / "people", *way)
    table = "raw.people" if way else f"parquet.`{landings.folder}/people`"
    [found] = landings.lake.rows(f"select born, cast(seen as string) as seen from {table}")
    assert found == {"born": date(1, 1, 1), "seen": "1753-01-01 00:00:00"}


def test_parquet_with_nanoseconds_and_times_of_day_is_loaded(landings: Landings) -> None:
    """As pandas 2 writes it. Spark has microseconds, and reads no times of day."""
    file = landings.folder / "visits" / "1.parquet"
    file.parent.mkdir()

    def write_times(nanoseconds: int) -> None:
        at = datetime(2026, 1, 1, 10, tzinfo=timezone.utc)
        count = int(at.timestamp()) * 10**9 + nanoseconds
        table = pa.table(
            {
                "id": [1],
                "at": pa.array([count], pa.timestamp("ns")),
                "zoned": pa.array([count], pa.timestamp("ns", "Europe/Berlin")),
                "deep": pa.array([{"at": count}], pa.struct([("at", pa.timestamp("ns"))])),
                "opens": pa.array([clock(8, 30)], pa.time64("us")),
                "closes": pa.array([None], pa.time32("ms")),
                "breaks": pa.array([[clock(12), None]], pa.list_(pa.time32("ms"))),
            }
        )
        parquet.write_table(table, file)

    write_times(1)
    said = landings.refused(file.parent)
    assert "1.parquet has times of day, or times with nanoseconds" in said
    assert "with --copy" in said
    said = landings.refused(file.parent, "--copy")
    assert "1.parquet has a time with more than six digits of a second" in said
    assert "allow_truncated_timestamps=True" in said
    write_times(123_456_000)
    landings.land(file.parent, "--copy")
    local = datetime(2026, 1, 1, 10, 0, 0, 123_456)
    [found] = landings.lake.spark.sql(
        "select id, at, cast(zoned as string) as zoned, deep, opens, closes, breaks from raw.visits"
    ).collect()
    assert found.asDict(recursive=True) == {
        "id": 1,
        "at": local,
        "zoned": "2026-01-01 10:00:00.123456",
        "deep": {"at": local},
        "opens": "08:30:00.000000",
        "closes": None,
        "breaks": ["12:00:00.000", None],
    }
    assert landings.types("raw.visits")["zoned"] == "timestamp"


def test_what_spark_reads_of_parquet_is_not_written_anew(landings: Landings) -> None:
    """Times of Hive and of Spark 2, which count from a zone and may be later than 2262."""
    late = datetime(9999, 12, 31, tzinfo=timezone.utc)
    table = pa.table({"id": [1], "until": pa.array([late], pa.timestamp("us", "UTC"))})
    file = landings.folder / "terms" / "1.parquet"
    file.parent.mkdir()
    parquet.write_table(table, file, use_deprecated_int96_timestamps=True)
    landings.land(file.parent, "--copy")
    [found] = landings.lake.rows("select cast(until as string) as until from raw.terms")
    assert found == {"until": "9999-12-31 00:00:00"}
    assert landings.types("raw.terms")["until"] == "timestamp"


def test_csv_columns_take_a_type_that_loses_nothing(landings: Landings) -> None:
    cells = {
        "whole": ["1", "-20", "9223372036854775807"],
        "zeros": ["007", "1", "2"],
        "wide": ["20240101120000000000000000000000001", "1", "2"],
        "too_wide": ["9223372036854775808", "1", "2"],
        "fraction": ["1.50", "-0.25", "3"],
        "long_fraction": ["0.1234567890123456789", "1", "2"],
        "exponent": ["1e5", "1", "2"],
        "plus": ["+1", "1", "2"],
        "day": ["2024-01-31", "0001-01-01", "9999-12-31"],
        "no_day": ["2024-02-30", "2024-01-01", "2024-01-01"],
        "month": ["2024-01", "2024-02", "2024-03"],
        "moment": [
            "2024-01-31 10:00:00.123456",
            "2024-01-31T10:00:00Z",
            "2024-01-31T12:00:00+02:00",
        ],
        "nanos": ["2024-01-31 10:00:00.123456789", "2024-01-31 10:00:00", "2024-01-31 10:00:00"],
        "hour": ["10:30", "11:30", "12:30"],
        "flag": ["true", "FALSE", "true"],
        "mixed": ["true", "1", "x"],
        "empty": ["", "", ""],
        "quoted": ['""', "", "x"],
        "quoted_number": ['"1"', '""', "3"],
    }
    lines = [",".join(cells), *(",".join(row) for row in zip(*cells.values(), strict=True))]
    landings.csv("types.csv", "\n".join(lines))
    landings.land(landings.folder / "types.csv")
    types = landings.types("raw.types")
    assert {name: kind for name, kind in types.items() if kind != "string"} == {
        "whole": "bigint",
        "fraction": "double",
        "day": "date",
        "moment": "timestamp",
        "flag": "boolean",
        "quoted_number": "bigint",
    }
    first, second, third = landings.lake.rows("select * from raw.types order by whole desc")
    assert first["whole"] == 9223372036854775807
    assert (first["day"], first["moment"]) == (date(9999, 12, 31), datetime(2024, 1, 31, 10))
    assert (second["zeros"], second["wide"]) == ("007", "20240101120000000000000000000000001")
    assert (second["fraction"], second["quoted"], second["quoted_number"]) == (1.5, "", 1)
    assert (third["quoted"], third["quoted_number"], third["empty"]) == (None, None, None)


def test_numbers_in_csv_that_differ_by_zeros_alone_are_text(landings: Landings) -> None:
    """As sections have them. Amounts have as many digits each, or no zeros at the end."""
    cells = {
        "id": ["1", "2", "3"],
        "section": ["1.1", "1.2", "1.10"],
        "amount": ["1.50", "-0.25", "10"],
        "shortest": ["1.5", "0.25", "-10"],
        "of_python": ["1.0", "0.25", "10.0"],
        "zeros": ["1.00", "2.00", "3.00"],
        "release": ["2.0", "2.00", "2.1"],
        "signed": ["-1.1", "-1.10", ""],
    }
    lines = [",".join(cells), *(",".join(row) for row in zip(*cells.values(), strict=True))]
    landings.csv("codes.csv", "\n".join(lines))
    landings.land(landings.folder / "codes.csv")
    types = landings.types("raw.codes")
    assert {name for name, kind in types.items() if kind == "string"} == {
        *("section", "release", "signed"),
    }
    assert {types[name] for name in ("amount", "shortest", "of_python", "zeros")} == {"double"}
    assert [row["section"] for row in landings.rows("raw.codes")] == ["1.1", "1.2", "1.10"]
    # Also if files of different columns have them, or the names of folders.
    landings.csv("parts/version=1.1/a.csv", "id,code\n1,2.1\n2,2.3\n")
    landings.csv("parts/version=1.10/a.csv", "code,id,more\n2.10,3,x\n2.30,4,y\n")
    landings.land(landings.folder / "parts")
    found = [(row["code"], row["version"]) for row in landings.rows("raw.parts")]
    assert found == [("2.1", "1.1"), ("2.3", "1.1"), ("2.10", "1.10"), ("2.30", "1.10")]


def test_masks_in_csv_are_text_even_if_they_have_no_letter_yet(landings: Landings) -> None:
    head = "header__change_seq,header__change_oper,header__change_mask,id,name,city\n"
    landings.csv("gates__ct/1.csv", f"{head}{'1' * 35},U,10,1,a,b\n{'2' * 35},U,20,1,a,c\n")
    landings.land(landings.folder / "gates__ct")
    assert landings.types("raw.gates__ct")["header__change_mask"] == "string"
    landings.csv("gates__ct/2.csv", f"{head}{'3' * 35},I,3F,2,d,e\n")
    landings.land(landings.folder / "gates__ct")
    assert [row["header__change_mask"] for row in landings.rows("raw.gates__ct")] == [
        *("10", "20", "3F"),
    ]


def test_values_of_an_event_log_are_text_even_if_the_first_are_numbers(landings: Landings) -> None:
    head = "record_id,event_type,table_key,column_name,old_value,new_value\n"
    landings.csv("events/1.csv", f"{head}1,2,7,size,3,1.50\n")
    landings.land(landings.folder / "events")
    landings.csv("events/2.csv", f"{head}2,2,no=7,name,Ada,007\n")
    landings.land(landings.folder / "events")
    found = landings.lake.rows("select * from raw.events order by record_id")
    assert [(row["table_key"], row["old_value"], row["new_value"]) for row in found] == [
        ("7", "3", "1.50"),
        ("no=7", "Ada", "007"),
    ]
    assert found[0]["record_id"] == 1


def test_csv_as_people_write_it(landings: Landings) -> None:
    landings.file("a/1.csv", "\ufeffid;näme\n1;é\n".encode())
    landings.file("a/2.csv.gz", gzip.compress("näme;id;new\nb;2;x\n".encode()))
    landings.file("a/3.csv.bz2", bz2.compress(b"ID,\n3,y\n"))
    landings.file("a/4.csv", b"")
    landings.land(landings.folder / "a")
    assert landings.rows("raw.a") == [
        {"id": 1, "näme": "é", "new": None, "_c1": None},
        {"id": 2, "näme": "b", "new": "x", "_c1": None},
        {"id": 3, "näme": None, "new": None, "_c1": "y"},
    ]
    # What was empty has come to be written.
    landings.csv("a/4.csv", "id\n4\n")
    assert "1 file loaded" in landings.land(landings.folder / "a")
    assert [row["id"] for row in landings.rows("raw.a")] == [1, 2, 3, 4]


def test_an_empty_file_waits_in_a_format_with_types_too(landings: Landings) -> None:
    """A writer has opened it, and written nothing yet. Spark could not read it in place."""
    landings.parquet("opened/1.parquet", [{"id": 1}])
    landings.file("opened/2.parquet", b"")
    said = landings.refused(landings.folder / "opened")
    assert "2.parquet is empty; if it is still being written, land it again" in said
    assert "1 file loaded" in landings.land(landings.folder / "opened", "--copy")
    assert landings.rows("raw.opened") == [{"id": 1}]
    landings.parquet("opened/2.parquet", [{"id": 2}])
    assert "1 file loaded" in landings.land(landings.folder / "opened", "--copy")
    assert landings.rows("raw.opened") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id,name\n1\n", "Expected 2 columns, got 1"),
        (b"id,name\n1,2,3\n", "Expected 2 columns, got 3"),
        ("id\né\n".encode("latin1"), "not a complete csv file"),
        (b"id,ID\n1,2\n", "two columns named ID"),
        # Of these PyArrow makes cells, without an error.
        (b'id,name\n1,"oops\n2,b\n3,c\n4,"d"\n5,e\n', "a quote in or before line 5"),
        (b'id,name\n1,a\n2,"cut he', "unexpected end of data"),
        (b'id,name\n1,"say \\"hi\\" now"\n', "A quote in a cell must be written twice"),
        (b'id,name\n1,"a"b\n', "text behind one that is"),
    ],
)
def test_csv_that_would_lose_something_is_refused(
    content: bytes, said: str, landings: Landings
) -> None:
    landings.file("bad.csv", content)
    assert said in landings.refused(landings.folder / "bad.csv")
    assert landings.lake.rows("show tables in raw") == []


def test_partitions_of_csv_are_columns(landings: Landings) -> None:
    for folder, cell in (("code=007/day=2024-01-31", 1), ("code=a%2Fb/day=2024-02-01", 2)):
        landings.csv(f"parts/{folder}/a.csv", f"id\n{cell}\n")
    landings.csv("parts/code=__HIVE_DEFAULT_PARTITION__/day=2024-02-02/a.csv", "id\n3\n")
    landings.land(landings.folder / "parts")
    assert landings.rows("raw.parts") == [
        {"id": 1, "code": "007", "day": date(2024, 1, 31)},
        {"id": 2, "code": "a/b", "day": date(2024, 2, 1)},
        {"id": 3, "code": None, "day": date(2024, 2, 2)},
    ]
    # Of AWS DMS or Data Factory: of one table, with files of one name.
    for number, folder in enumerate(("dated/2024/01/31", "dated/2024/02/01", "dated"), 1):
        landings.csv(f"{folder}/part-0.csv", f"id\n{number}\n")
        landings.file(f"json_{folder}/part-0.json", f'{{"id": {number}}}\n'.encode())
    landings.land(landings.folder / "dated")
    landings.land(landings.folder / "json_dated", "--copy")
    for table in ("raw.dated", "raw.json_dated"):
        assert landings.rows(table) == [{"id": 1}, {"id": 2}, {"id": 3}]
    landings.csv("clash/id=1/a.csv", "id\n1\n")
    assert "two columns named id" in landings.refused(landings.folder / "clash")


def test_a_wide_struct_with_odd_names_is_loaded_as_it_is(landings: Landings) -> None:
    """Spark shows 25 fields of a struct at most, and no quotes around their names."""
    place = {"Order No": 7, "City": "Oslo"} | {f"f{number}": number for number in range(30)}
    landings.file("places/1.json", json.dumps({"id": 1, "place": place}).encode() + b"\n")
    landings.land(landings.folder / "places", "--copy")
    [row] = landings.rows("raw.places")
    assert row["place"] == place
    landings.file("places/2.json", json.dumps({"id": 2, "place": place}).encode() + b"\n")
    landings.land(landings.folder / "places", "--copy")
    assert [row["place"]["City"] for row in landings.rows("raw.places")] == ["Oslo", "Oslo"]


@pytest.mark.slow
def test_columns_of_copied_json_keep_their_order(landings: Landings) -> None:
    """Spark sorts them by name, and change masks count them in the source's order."""
    # Only the last line shows which of title and status comes first.
    lines = (
        '{"id": 0, "title": "b"}\n{"id": 1, "status": "open"}\n'
        '{"id": 2, "title": "a", "status": null, "Zone": 3}\n'
    )
    landings.file("tasks/day=1/1.json.gz", gzip.compress(lines.encode()))
    landings.land(landings.folder / "tasks", "--copy")
    [_, first, second] = landings.rows("raw.tasks")
    assert list(first) == ["id", "title", "status", "Zone", "day"]
    assert first == {"id": 1, "title": None, "status": "open", "Zone": None, "day": 1}
    assert second == {"id": 2, "title": "a", "status": None, "Zone": 3, "day": 1}
    # New ones go behind those that are there, in their own order.
    landings.file("tasks/day=2/2.json", b'{"id": 3, "size": 5, "owner": "Ada"}\n')
    landings.land(landings.folder / "tasks", "--copy")
    third = landings.rows("raw.tasks")[3]
    assert list(third) == ["id", "title", "status", "Zone", "day", "size", "owner"]
    assert (third["size"], third["owner"], third["day"]) == (5, "Ada", 2)


def test_numbers_in_json_that_are_strings_keep_their_digits(landings: Landings) -> None:
    """As numbers they would not: Spark makes a double of them."""
    amount, rate = "123456789012345.6789", "0.3333333333333333333333333333"
    lines = [
        f'{{"id": 1, "amount": "{amount}", "number": {amount}, "mixed": 9007199254740993}}',
        f'{{"id": 2, "amount": "{rate}", "number": {rate}, "mixed": 1.5}}',
    ]
    landings.file("rates/1.json", "\n".join(lines).encode())
    landings.land(landings.folder / "rates")
    landings.land(landings.folder / "rates", "--copy", "--as", "raw.copied")
    for rows in (landings.source("rates"), landings.rows("raw.copied")):
        assert [row["amount"] for row in rows] == [amount, rate]
        assert [row["number"] for row in rows] == [123456789012345.67, 0.3333333333333333]
        assert [row["mixed"] for row in rows] == [9007199254740992.0, 1.5]


def test_a_parquet_file_without_a_value_says_nothing_about_the_type(landings: Landings) -> None:
    """PyArrow writes such a column without a type, and Spark 3.5 takes it for whole numbers."""
    folder = landings.folder / "clients"
    nothing = {"is_vip": None, "code": None, "left_on": None, "credit": None}
    landings.parquet("clients/1.parquet", [{"id": 1, **nothing}])
    second = {"id": 2, "is_vip": True, "code": "12", "left_on": date(2026, 1, 31), "credit": None}
    landings.parquet("clients/2.parquet", [second])
    landings.land(folder, "--copy")
    types = {"id": "bigint", "is_vip": "boolean", "code": "string", "left_on": "date"}
    assert landings.types("raw.clients") == {**types, "credit": "string"}
    assert landings.rows("raw.clients") == [{"id": 1, **nothing}, second]
    # Later files, with a number in a column of texts, and without a value again.
    third = {**second, "id": 3, "code": None, "is_vip": None}
    landings.parquet("clients/3.parquet", [third])
    landings.parquet("clients/4.parquet", [{"id": 4, "code": 7}])
    landings.land(folder, "--copy")
    fourth = {"id": 4, **nothing, "code": "7"}
    assert landings.rows("raw.clients") == [{"id": 1, **nothing}, second, third, fourth]
    # Nothing has shown yet that the credit is a text.
    landings.parquet("clients/5.parquet", [{"id": 5, "credit": 2.5}])
    said = landings.refused(folder, "--copy")
    assert "1 value of credit (double) would change in raw.clients, where the column is" in said
    assert "string, as it has no value yet; land these files as another table, or drop" in said
    landings.lake.spark.sql("drop table raw.clients")
    landings.land(folder, "--copy")
    assert landings.types("raw.clients") == {**types, "credit": "double"}
    fifth = {"id": 5, **nothing, "credit": 2.5}
    assert landings.rows("raw.clients") == [{"id": 1, **nothing}, second, third, fourth, fifth]


def test_a_json_file_without_a_value_says_nothing_about_the_type(landings: Landings) -> None:
    """Spark takes it for text, and as texts its numbers would be others: 1.23456785E7."""
    folder = landings.folder / "bills"
    landings.file("bills/1.json", b'{"id": 1, "amount": null}\n')
    landings.land(folder, "--copy")
    landings.file("bills/2.json", b'{"id": 2, "amount": 12345678.5}\n')
    said = landings.refused(folder, "--copy")
    assert "1 value of amount (double) would change" in said
    assert landings.rows("raw.bills") == [{"id": 1, "amount": None}]
    landings.lake.spark.sql("drop table raw.bills")
    landings.land(folder, "--copy")
    assert [row["amount"] for row in landings.rows("raw.bills")] == [None, 12345678.5]
    # Later files without an object or a list, and with a text instead.
    files = [
        (3, {"city": "Bern", "it's": 3}, [1]),
        (4, None, None),
        # A field without a value, and a list without an item.
        (5, {"city": "Ulm", "it's": None}, []),
    ]
    for number, payer, lines in files:
        row = {"id": number, "payer": payer, "lines": lines}
        landings.file(f"bills/{number}.json", json.dumps(row).encode())
        landings.land(folder, "--copy")
    found = landings.rows("raw.bills")[2:]
    assert [(row["id"], row["payer"], row["lines"]) for row in found] == files
    for text, why in (
        ('{"id": 6, "payer": "Ada"}\n{"id": 7, "payer": null}\n', "1 value of payer (string)"),
        ('{"id": 6, "payer": {"city": "Ulm", "zip": 7}}\n', "1 value of payer (struct<"),
        ('{"id": 6, "lines": ["a"]}\n', "1 value of lines (array<string>)"),
    ):
        landings.file("bills/6.json", text.encode())
        said = landings.refused(folder, "--copy")
        assert why in said
        assert "would change in raw.bills, where" in said


def test_a_file_that_says_that_a_column_is_text_settles_it(landings: Landings) -> None:
    """Files that land together give what they give one after the other."""
    for name, number in (("alone", 1), ("together", 2)):
        landings.parquet(f"{name}/1.parquet", [{"id": 1, "code": None}])
        landings.land(landings.folder / name, "--copy")
        for place, code in ((2, "x"), (3, 7)):
            landings.parquet(f"{name}/{place}.parquet", [{"id": place, "code": code}])
            if number == 1 or place == 3:
                landings.land(landings.folder / name, "--copy")
        codes = sorted((row["id"], row["code"]) for row in landings.rows(f"raw.{name}"))
        assert codes == [(1, None), (2, "x"), (3, "7")]


@pytest.mark.slow
def test_partitions_of_copied_files_keep_their_texts(landings: Landings) -> None:
    """Spark by itself takes 007 for 7, and 12e3 for a number."""
    folders = {"code=007/year=2024": 1, "code=12e3/year=2025": 2}
    for kind in ("parquet", "orc", "json"):
        for folder, number in folders.items():
            file = landings.file(f"{kind}_parts/{folder}/a.{kind}", b"")
            rows = pa.table({"id": pa.array([number], pa.int32())})
            if kind == "parquet":
                parquet.write_table(rows, file)
            elif kind == "orc":
                orc.write_table(rows, file)
            else:
                file.write_text(f'{{"id": {number}}}\n')
        landings.land(landings.folder / f"{kind}_parts", "--copy")
        assert landings.rows(f"raw.{kind}_parts") == [
            {"id": 1, "code": "007", "year": 2024},
            {"id": 2, "code": "12e3", "year": 2025},
        ]


def test_avro_with_its_logical_types(landings: Landings) -> None:
    moment = datetime(2024, 1, 31, 10, 0, 0, 123000, timezone.utc)
    guid = {"type": "fixed", "name": "Guid", "size": 16, "logicalType": "uuid"}
    logical = {
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "day": ["null", {"type": "int", "logicalType": "date"}],
        "money": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
        "again": ["null", "Kind"],
        "tags": {"type": "map", "values": "int"},
        "list": {"type": "array", "items": ["null", "string"]},
        "inner": {
            "type": "record",
            "name": "Inner",
            "fields": [{"name": "a", "type": ["null", "int", "long"]}],
        },
        "bytes": "bytes",
        "guid": ["null", guid],
        "guid_text": {"type": "string", "logicalType": "uuid"},
        # It has not the size of one.
        "no_guid": {**guid, "name": "NoGuid", "size": 2},
    }
    fields = [{"name": "id", "type": "int"}] + [
        {"name": name, "type": kind} for name, kind in logical.items()
    ]
    row = {
        "id": 1,
        "at": moment,
        "day": date(1, 1, 1),
        "money": Decimal("12.50"),
        "clock": moment.time(),
        "kind": "A",
        "again": None,
        "tags": {"x": 1},
        "list": ["y", None],
        "inner": {"a": 5_000_000_000},
        "bytes": b"\x00\xff",
        "guid": bytes.fromhex("f81d4fae7dec11d0a76500a0c91e6bf6"),
        "guid_text": UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        "no_guid": b"\xf8\x1d",
    }
    file = landings.file("events/dt=1/a.avro", b"")
    with file.open("wb") as opened:
        fastavro.writer(opened, {"type": "record", "name": "Row", "fields": fields}, [row])
    landings.land(landings.folder / "events", "--as", "raw.events")
    [found] = landings.lake.rows("select * from raw.events")
    assert found.pop("dt") == 1
    assert found == {
        **row,
        "at": moment.replace(tzinfo=None),
        "clock": "10:00:00.123000",
        "bytes": bytearray(b"\x00\xff"),
        "guid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "guid_text": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "no_guid": bytearray(b"\xf8\x1d"),
    }


def test_csv_whose_ending_is_in_upper_case_is_unpacked(landings: Landings) -> None:
    path = landings.file("LOTS.CSV.GZ", gzip.compress(b"id,name\n1,Ada\n"))
    landings.land(path)
    assert landings.rows("raw.lots") == [{"id": 1, "name": "Ada"}]


def test_csv_whose_header_begins_like_orc(landings: Landings) -> None:
    landings.land(landings.csv("people.csv", "ORCID,id\n7,1\n"))
    assert landings.rows("raw.people") == [{"ORCID": 7, "id": 1}]


@pytest.mark.parametrize(("first", "what"), [("", "an empty line"), ("sep=,", "`sep=`")])
def test_csv_that_does_not_begin_with_its_header_is_refused(
    first: str, what: str, landings: Landings
) -> None:
    landings.csv("lines/a.csv", "id,name\n1,Ada\n")
    second = landings.csv("lines/b.csv", f"{first}\nid,name\n2,Bob\n")
    error = landings.refused(landings.folder / "lines")
    assert error == f"{second} begins with {what}; its first row must be the header"


def test_a_file_that_was_landed_alone_is_not_loaded_again_with_its_folder(
    landings: Landings,
) -> None:
    first = landings.csv("days/1.csv", "id\n1\n")
    second = landings.csv("days/2.csv", "id\n2\n")
    for path in (first, first.parent, second):
        landings.land(path, "--as", "raw.days")
    assert landings.rows("raw.days") == [{"id": 1}, {"id": 2}]


def test_a_folder_that_has_another_path_is_not_loaded_again(landings: Landings) -> None:
    """By hand on the host, then in a container that mounts the folder elsewhere."""
    first = landings.csv("host/prices/1.csv", "id\n1\n").parent
    landings.csv("host/prices/2.csv", "id\n2\n")
    written = (first / "1.csv").stat().st_mtime_ns
    landings.land(first, "--as", "raw.prices")
    mounted = landings.folder / "mounted"
    mounted.symlink_to(first)
    came_from = f"that came from {first} (the same name, size, time and content)"
    said = landings.land(mounted, "--as", "raw.prices")
    assert "raw.prices: CSV, 2 files, nothing new" in said
    assert f"  not loaded again: 2 files {came_from}" in said
    assert landings.rows("raw.prices") == [{"id": 1}, {"id": 2}]
    # The table knows them by this path too, where they may be touched, but not changed.
    os.utime(first / "1.csv", (1, 1))
    said = landings.land(mounted, "--as", "raw.prices")
    assert "nothing new" in said
    assert "not loaded again" not in said
    landings.csv("host/prices/1.csv", "id\n5\n")
    error = landings.refused(mounted, "--as", "raw.prices")
    assert f"{mounted / '1.csv'} has changed since it was loaded into raw.prices" in error
    # Elsewhere again, with a new file, one that has only the name of a known one, and one that has
    # its rows too, but another time.
    copied = landings.csv("later/1.csv", "id\n1\n")
    os.utime(copied, ns=(written, written))
    landings.csv("later/2.csv", "id\n2\n")
    later = landings.csv("later/3.csv", "id\n3\n").parent
    said = landings.land(later, "--as", "raw.prices")
    assert "raw.prices: CSV, 3 files, 2 files loaded" in said
    assert "  not loaded again: 1 file that came from " in said
    assert landings.rows("raw.prices") == [{"id": 1}, {"id": 2}, {"id": 2}, {"id": 3}]
    assert "nothing new" in landings.land(later, "--as", "raw.prices")


def test_a_name_that_yaml_takes_for_no_text(landings: Landings) -> None:
    landings.file("no.json", b'{"id": 1}\n')
    landings.land(landings.folder / "no.json")
    assert landings.source("no") == [{"id": 1}]


@pytest.mark.slow
def test_a_second_landing_loads_the_new_files_alone(landings: Landings) -> None:
    folder = landings.folder / "people"
    landings.csv("people/1.csv", "id,name\n1,a\n")
    landings.land(folder)
    before = landings.rows("raw.people")
    # The same file, written once more.
    os.utime(folder / "1.csv", (1, 1))
    assert "nothing new" in landings.land(folder)
    landings.csv("people/2.csv", "id,name,more\n2,b,0.5\n")
    assert "2 files, 1 file loaded" in landings.land(folder)
    assert landings.rows("raw.people") == [
        {**before[0], "more": None},
        {"id": 2, "name": "b", "more": 0.5},
    ]
    # Rows are appended: what an intake of the table has read, it does not read again.
    if FORMAT == "iceberg":
        operations = landings.lake.rows("select distinct operation from raw.people.snapshots")
        assert operations == [{"operation": "append"}]
        assert landings.lake.rows("select name from raw.people.refs") == [{"name": "main"}]
    else:
        writes = landings.writes("raw.people")
        assert [one["isBlindAppend"] for one in writes] == [True, True]
    landings.csv("people/1.csv", "id,name\n1,changed\n")
    assert "1.csv has changed since it was loaded into raw.people" in landings.refused(folder)
    # A file of another path, by the name that was given.
    other = landings.csv("other/people.csv", "id\n3\n")
    assert "raw.people holds the files of" in landings.refused(other)
    landings.land(other, "--as", "raw.people")
    assert [row["id"] for row in landings.rows("raw.people")] == [1, 2, 3]


@pytest.mark.slow
def test_a_value_that_the_column_cannot_hold_is_refused(landings: Landings) -> None:
    landings.csv("a/1.csv", "id,n\n1,2\n")
    landings.land(landings.folder / "a")
    landings.csv("a/2.csv", "id,n\n2,NULL\n")
    said = landings.refused(landings.folder / "a")
    assert said.endswith(". Got: NULL, which is a text: only an empty cell is NULL")
    landings.csv("a/2.csv", "id,n\n2,007\n")
    landings.csv("a/3.csv", "id,n\n3,4\n")
    said = landings.refused(landings.folder / "a")
    assert "1 value of n (string) would change in raw.a, where the column is bigint; " in said
    assert said.endswith(". Got: 007")
    assert landings.rows("raw.a") == [{"id": 1, "n": 2}]
    landings.lake.spark.sql("drop table raw.a")
    landings.land(landings.folder / "a")
    assert [row["n"] for row in landings.rows("raw.a")] == ["2", "007", "4"]


def test_a_number_is_no_time(landings: Landings) -> None:
    """Spark takes it for seconds, and it may count milliseconds."""
    times = [{"id": 1, "at": datetime(2024, 1, 31, 10), "n": 1}]
    landings.parquet("times/1.parquet", times)
    landings.land(landings.folder / "times", "--copy")
    for name, value in (("at", 1706695200123), ("n", datetime(2024, 1, 31, 10))):
        landings.parquet("times/2.parquet", [{"id": 2, name: value}])
        said = landings.refused(landings.folder / "times", "--copy")
        assert f"1 value of {name} " in said
        assert "would change in raw.times" in said
    nothing = pa.table({"id": [2], "at": pa.array([None], pa.float64())})
    parquet.write_table(nothing, landings.folder / "times" / "2.parquet")
    landings.land(landings.folder / "times", "--copy")
    assert landings.rows("raw.times") == [*times, {"id": 2, "at": None, "n": None}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_csv_is_read_alike_wherever_a_block_of_it_ends(
    end: str, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("days/0.csv", "id,note")
    notes = ["x" * count + f"{end}y" for count in range(40)]
    lines = ["id,note", *(f'{number},"{note}"' for number, note in enumerate(notes))]
    landings.csv("days/1.csv", end.join(lines))
    monkeypatch.setattr(stage, "_BLOCK_BYTES", 64)
    limit = csv.field_size_limit()
    landings.land(landings.folder / "days")
    assert [row["note"] for row in landings.rows("raw.days")] == notes
    # By which dbt reads seeds in this process.
    assert csv.field_size_limit() == limit


def test_parquet_of_several_kinds(landings: Landings) -> None:
    folder = landings.folder / "mixed"
    landings.parquet("mixed/1.parquet", [{"id": 1, "n": 1, "deep": {"a": 1}}])
    parquet.write_table(
        pa.table({"ID": pa.array([2], pa.int32()), "new": ["x"]}), folder / "2.parquet"
    )
    assert "2.parquet and 1.parquet have different columns" in landings.refused(folder)
    landings.land(folder, "--copy")
    assert landings.rows("raw.mixed") == [
        {"id": 1, "n": 1, "deep": {"a": 1}, "new": None},
        {"id": 2, "n": None, "deep": None, "new": "x"},
    ]
    landings.parquet("mixed/3.parquet", [{"id": 3.0, "n": 2.0}])
    landings.land(folder, "--copy")
    landings.parquet("mixed/4.parquet", [{"id": 4, "n": 2.5}])
    assert "1 value of n (double) would change" in landings.refused(folder, "--copy")
    landings.parquet("mixed/4.parquet", [{"id": 4, "n": 2.5, "deep": {"a": 1, "B": 2}}])
    assert "values of deep (struct<a:bigint,b:bigint>) would" in landings.refused(folder, "--copy")
    assert landings.rows("raw.mixed")[2] == {"id": 3, "n": 2, "deep": None, "new": None}
    # The way out that the error names.
    landings.lake.spark.sql("drop table raw.mixed")
    landings.land(folder, "--copy")
    assert landings.types("raw.mixed")["id"] == "bigint"
    assert landings.rows("raw.mixed") == [
        {"id": 1, "n": 1.0, "deep": {"a": 1, "B": None}, "new": None},
        {"id": 2, "n": None, "deep": None, "new": "x"},
        {"id": 3, "n": 2.0, "deep": None, "new": None},
        {"id": 4, "n": 2.5, "deep": {"a": 1, "B": 2}, "new": None},
    ]


@pytest.fixture(params=["false", "true"], ids=["lenient", "ansi"])
def _ansi(request: pytest.FixtureRequest, lake: Lake) -> Iterator[None]:
    """Both modes of Spark: in ANSI mode, a cast of a value that does not fit is an error."""
    lake.spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")


@pytest.mark.usefixtures("_ansi")
def test_a_type_that_is_wider_in_a_later_file(landings: Landings) -> None:
    def file(number: int, **values: pa.Array) -> None:
        path = landings.folder / "bills" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table({"id": pa.array([number]), **values}), path)

    def land() -> str:
        return landings.land(landings.folder / "bills", "--copy")

    money, wide = pa.decimal128(10, 2), pa.decimal128(12, 2)
    small = {"sum": pa.array([Decimal("1.50")], money), "n": pa.array([7], pa.int32())}
    file(1, **small, rate=pa.array([1], pa.int32()), code=pa.array([5], pa.int32()))
    land()
    file(2, sum=pa.array([Decimal("9876543210.25")], wide), n=pa.array([1 << 40]))
    if FORMAT == "iceberg":
        land()
        types = landings.types("raw.bills")
        assert (types["sum"], types["n"]) == ("decimal(12,2)", "bigint")
        assert [row["n"] for row in landings.rows("raw.bills")] == [7, 1 << 40]
    else:
        assert "drop this one and land all files again" in landings.refused(
            landings.folder / "bills", "--copy"
        )
    # A number with a fraction, and a text: no table of whole numbers can hold these.
    file(3, rate=pa.array([Decimal("0.125")], pa.decimal128(4, 3)), code=pa.array(["x"]))
    said = landings.refused(landings.folder / "bills", "--copy")
    assert "drop this one and land all files again" in said
    landings.lake.spark.sql("drop table raw.bills")
    land()
    types = landings.types("raw.bills")
    assert (types["sum"], types["n"]) == ("decimal(12,2)", "bigint")
    assert (types["rate"], types["code"]) == ("decimal(13,3)", "string")
    assert landings.rows("raw.bills") == [
        {"id": 1, "sum": Decimal("1.50"), "n": 7, "rate": Decimal("1.000"), "code": "5"},
        {"id": 2, "sum": Decimal("9876543210.25"), "n": 1 << 40, "rate": None, "code": None},
        {"id": 3, "sum": None, "n": None, "rate": Decimal("0.125"), "code": "x"},
    ]


def test_structs_within_lists_and_maps_get_the_fields_of_all_files(landings: Landings) -> None:
    (landings.folder / "nested").mkdir()
    for number, struct, lines, entry in (
        (1, pa.struct([("no", pa.int32())]), [{"no": 1}], {"no": 3}),
        (
            2,
            pa.struct([("of it", pa.string()), ("No", pa.int64())]),
            [{"of it": "a", "No": 1 << 40}, None],
            {"of it": "b", "No": 4},
        ),
    ):
        columns = {
            "id": pa.array([number]),
            "lines": pa.array([lines], pa.list_(struct)),
            "by": pa.array([[("k", entry)]], pa.map_(pa.string(), struct)),
        }
        parquet.write_table(pa.table(columns), landings.folder / "nested" / f"{number}.parquet")
    landings.land(landings.folder / "nested", "--copy")
    select = "select to_json(lines) as lines, to_json(by) as by from raw.nested order by id"
    assert landings.lake.rows(select) == [
        {"lines": '[{"no":1}]', "by": '{"k":{"no":3}}'},
        {
            "lines": '[{"no":1099511627776,"of it":"a"},null]',
            "by": '{"k":{"no":4,"of it":"b"}}',
        },
    ]


STATEMENTS = ("create table", "create branch", "insert into", "set tblproperties", "fast_forward")


@pytest.mark.long
@pytest.mark.needs("iceberg")
@pytest.mark.parametrize("after", [*STATEMENTS, "drop branch"])
def test_killed_after_any_statement_nothing_is_loaded_twice_or_lost(
    after: str, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("killed/1.csv", "id,n\n1,x\n")
    had_some = after != "create table"
    if had_some:
        landings.land(landings.folder / "killed")
    landings.csv("killed/2.csv", "id,n\n2,y\n")
    landings.csv("killed/3.csv", "n,id\nz,3\n")
    run = Asked.rows

    def dies(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        rows = run(self, sql, *settings)
        if after in sql:
            raise Killed
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", dies)
        with pytest.raises(Killed):
            landings.land(landings.folder / "killed")
    # None of the rows can be seen before all can.
    assert len(landings.rows("raw.killed")) in (int(had_some), 3)
    landings.csv("killed/4.csv", "id,n\n4,w\n")
    landings.land(landings.folder / "killed")
    assert landings.rows("raw.killed") == [
        {"id": id, "n": n} for id, n in ((1, "x"), (2, "y"), (3, "z"), (4, "w"))
    ]
    assert landings.lake.rows("select name from raw.killed.refs") == [{"name": "main"}]
    assert [one.name for one in landings.project.folder.glob(".afterimage/landing/*/*")] == ["lock"]


@pytest.mark.slow
@pytest.mark.needs("iceberg")
def test_a_branch_that_was_left_without_rows_takes_no_earlier_load_back(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the snapshot of the load before, which has gone from the table's log meanwhile."""
    landings.csv("left/1.csv", "id\n1\n")
    landings.land(landings.folder / "left")
    landings.csv("left/2.csv", "id\n2\n")
    with ended(monkeypatch, 1) as written, pytest.raises(Killed):
        landings.land(landings.folder / "left")
    assert "create branch" in written[0]
    for number in (8, 9):
        landings.lake.spark.sql(f"insert into raw.left values ({number})")
    landings.lake.spark.sql(
        "call system.expire_snapshots(table => 'raw.left', older_than => timestamp '2100-01-01')"
    )
    landings.land(landings.folder / "left")
    assert [row["id"] for row in landings.rows("raw.left")] == [1, 2, 8, 9]
    assert landings.lake.rows("select name from raw.left.refs") == [{"name": "main"}]


@pytest.mark.minutes
@pytest.mark.needs("iceberg")
@pytest.mark.parametrize(
    "statement",
    ["insert into raw.shared values (9)", "alter table raw.shared drop branch {branch}"],
)
@pytest.mark.parametrize("before", ["set tblproperties", "fast_forward"])
def test_another_writer_in_between(
    statement: str, before: str, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("shared/1.csv", "id\n1\n")
    landings.land(landings.folder / "shared")
    landings.csv("shared/2.csv", "id\n2\n")
    run = Asked.rows
    done: list[Any] = []

    def writes(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        if before in sql and not done:
            [[branch]] = run(self, "select name from raw.shared.refs where name != 'main'")
            done.append(run(self, statement.format(branch=branch)))
        return run(self, sql, *settings)

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", writes)
        assert "has written to raw.shared in the meantime" in landings.refused(
            landings.folder / "shared"
        )
    others = [9] if "insert" in statement else []
    assert [row["id"] for row in landings.rows("raw.shared")] == [1, *others]
    landings.land(landings.folder / "shared")
    assert [row["id"] for row in landings.rows("raw.shared")] == [1, 2, *others]


@contextmanager
def ended(
    monkeypatch: pytest.MonkeyPatch, place: int, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[list[str]]:
    """End commands before the statement at a place among those that write, or do so in between."""
    run = Asked.rows
    written: list[str] = []

    def watched(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        if sql.startswith(("create", "alter", "insert")):
            if len(written) == place:
                meanwhile()
                raise Killed
            written.append(sql)
        return run(self, sql, *settings)

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", watched)
        yield written


def begun(*statements: str) -> list[str]:
    """Return the first two words of statements."""
    return [" ".join(one.split()[:2]) for one in statements]


LOAD = ["alter table", "insert into", "alter table"]
FIRST_LOAD = ["create schema", "create table", *LOAD]


@pytest.mark.minutes
@pytest.mark.needs("delta")
@pytest.mark.parametrize("had_some", [False, True])
def test_killed_at_any_statement_of_delta_nothing_is_loaded_twice_or_lost(
    had_some: bool, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = LOAD if had_some else FIRST_LOAD
    # At the last place nothing is killed.
    for place in range(len(statements) + 1):
        name = f"killed_{place}"
        folder, expected = landings.folder / name, []
        if had_some:
            landings.csv(f"{name}/1.csv", "id,n\n1,x\n")
            landings.land(folder)
            expected = [{"id": 1, "n": "x"}]
        landings.csv(f"{name}/2.csv", "id,n\n2,y\n")
        landings.csv(f"{name}/3.csv", "n,id\nz,3\n")
        with ended(monkeypatch, place) as written:
            if place < len(statements):
                with pytest.raises(Killed):
                    landings.land(folder)
            else:
                landings.land(folder)
            assert begun(*written) == statements[:place]
        there = landings.lake.spark.catalog.tableExists(f"raw.{name}")
        if there:
            # None of the rows can be seen before all can.
            assert len(landings.rows(f"raw.{name}")) in (len(expected), len(expected) + 2)
        landings.csv(f"{name}/4.csv", "id,n\n4,w\n")
        landings.land(folder)
        assert "nothing new" in landings.land(folder)
        expected += [{"id": id, "n": n} for id, n in ((2, "y"), (3, "z"), (4, "w"))]
        assert landings.rows(f"raw.{name}") == expected, place
    left = landings.project.folder.glob(".afterimage/landing/*/*")
    assert {one.name for one in left} == {"lock"}
    # The mark is of these commits alone.
    landings.lake.spark.sql("insert into raw.killed_0 values (5, 'v')")
    assert [one["userMetadata"] is None for one in landings.writes("raw.killed_0")][:2] == [
        True,
        False,
    ]


@pytest.mark.minutes
@pytest.mark.needs("delta")
@pytest.mark.parametrize("is_in", [False, True])
def test_killed_again_while_it_asks_what_became_of_a_killed_load(
    is_in: bool, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("again/1.csv", "id\n1\n")
    landings.land(landings.folder / "again")
    landings.csv("again/2.csv", "id\n2\n")
    # The load itself, then the two statements of those that ask about it.
    for place in (1 + is_in, 0, 1):
        with ended(monkeypatch, place), pytest.raises(Killed):
            landings.land(landings.folder / "again")
    landings.csv("again/3.csv", "id\n3\n")
    landings.land(landings.folder / "again")
    assert [row["id"] for row in landings.rows("raw.again")] == [1, 2, 3]


@pytest.mark.minutes
@pytest.mark.needs("delta")
@pytest.mark.parametrize("place", [1, 2])
def test_another_writer_of_delta_in_between(
    place: int, landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It adds as many rows as the load, before the load's own and after them."""
    landings.csv("shared/1.csv", "id\n1\n")
    landings.land(landings.folder / "shared")
    landings.csv("shared/2.csv", "id\n2\n")

    def writes() -> None:
        landings.lake.spark.sql("insert into raw.shared values (9)")

    with ended(monkeypatch, place, writes), pytest.raises(Killed):
        landings.land(landings.folder / "shared")
    landings.land(landings.folder / "shared")
    assert [row["id"] for row in landings.rows("raw.shared")] == [1, 2, 9]


@pytest.mark.minutes
@pytest.mark.needs("delta")
def test_a_killed_load_whose_rows_were_taken_back(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("back/1.csv", "id\n1\n")
    landings.land(landings.folder / "back")
    landings.csv("back/2.csv", "id\n2\n")
    with ended(monkeypatch, 2), pytest.raises(Killed):
        landings.land(landings.folder / "back")
    [added, *_] = landings.writes("raw.back")
    assert [row["id"] for row in landings.rows("raw.back")] == [1, 2]
    landings.lake.spark.sql(f"restore table raw.back to version as of {added['version'] - 1}")
    landings.land(landings.folder / "back")
    assert [row["id"] for row in landings.rows("raw.back")] == [1, 2]
    # The property goes back with the rows, so what is landed again is loaded again.
    landings.lake.spark.sql("restore table raw.back to version as of 3")
    assert [row["id"] for row in landings.rows("raw.back")] == [1]
    landings.land(landings.folder / "back")
    assert [row["id"] for row in landings.rows("raw.back")] == [1, 2]


@pytest.mark.minutes
@pytest.mark.needs("delta")
def test_a_statement_of_a_killed_load_that_still_runs_is_refused(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a server, which ends a statement that was sent whatever became of the client."""
    landings.csv("running/1.csv", "id\n1\n")
    landings.land(landings.folder / "running")
    landings.csv("running/2.csv", "id\n2\n")
    is_read, may_go_on = landings.folder / "is_read", landings.folder / "may_go_on"

    def wait(path: str, other: str) -> bool:
        Path(path).touch()
        while not Path(other).exists():
            time.sleep(0.05)
        return True

    landings.lake.spark.udf.register("wait_for", wait, "boolean")
    run = Asked.rows
    said: list[str] = []

    def go(sql: str) -> None:
        try:
            landings.lake.spark.sql(sql)
        except Exception as error:
            said.append(str(error))

    def dies(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        if not sql.startswith("insert"):
            return run(self, sql, *settings)
        sent.append(Thread(target=go, args=(f"{sql} where wait_for('{is_read}', '{may_go_on}')",)))
        sent.append(Thread(target=go, args=(sql,)))
        sent[0].start()
        while not is_read.exists():
            time.sleep(0.05)
        raise Killed

    sent: list[Thread] = []
    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", dies)
        with pytest.raises(Killed):
            landings.land(landings.folder / "running")
    landings.land(landings.folder / "running")
    # One that has read the rows, and one that has not begun yet.
    may_go_on.touch()
    sent[0].join()
    sent[1].start()
    sent[1].join()
    assert [row["id"] for row in landings.rows("raw.running")] == [1, 2]
    assert "METADATA_CHANGED" in said[0]
    assert "PATH_NOT_FOUND" in said[1]


@pytest.mark.needs("delta")
def test_names_that_delta_must_map(landings: Landings) -> None:
    landings.csv("odd/1.csv", "id,first name\n1,a\n")
    landings.csv("plain/1.csv", "id\n1\n")
    for name in ("odd", "plain"):
        landings.land(landings.folder / name)
    landings.csv("plain/2.csv", "id,(last) name\n2,b\n")
    landings.land(landings.folder / "plain")
    assert landings.rows("raw.odd") == [{"id": 1, "first name": "a"}]
    assert landings.rows("raw.plain") == [
        {"id": 1, "(last) name": None},
        {"id": 2, "(last) name": "b"},
    ]


@pytest.mark.slow
@pytest.mark.needs("delta")
def test_a_new_column_of_delta_may_be_a_time_without_a_zone(landings: Landings) -> None:
    landings.parquet("seen/1.parquet", [{"id": 1}])
    landings.land(landings.folder / "seen", "--copy")
    moment = datetime(2024, 1, 1, 10)
    landings.parquet("seen/2.parquet", [{"id": 2, "seen": moment, "first name": moment}])
    landings.land(landings.folder / "seen", "--copy")
    assert landings.rows("raw.seen") == [
        {"id": 1, "seen": None, "first name": None},
        {"id": 2, "seen": moment, "first name": moment},
    ]


def test_rows_of_another_writer_stay_where_the_first_landing_failed(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.csv("first/a.csv", "id,n{}\n1,x\n")
    run = Asked.rows

    def writes(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
        if "set tblproperties" in sql:
            run(self, "insert into raw.first values (9, 'theirs')")
            raise Killed
        return run(self, sql, *settings)

    with monkeypatch.context() as patched:
        patched.setattr(Asked, "rows", writes)
        with pytest.raises(Killed):
            landings.land(landings.folder / "first")
    landings.csv("first/b.csv", "id,more{}\n2,y\n")
    landings.land(landings.folder / "first")
    assert landings.rows("raw.first") == [
        {"id": 1, "n{}": "x", "more{}": None},
        {"id": 2, "n{}": None, "more{}": "y"},
        {"id": 9, "n{}": "theirs", "more{}": None},
    ]


def test_a_file_that_is_written_while_it_is_loaded(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Asked.rows

    def refused_while(statement: str, file: Path, whole: str) -> None:
        def writes(self: Asked, sql: str, *settings: Any) -> list[Sequence[Any]]:
            if statement in sql:
                file.write_text(whole)
            return run(self, sql, *settings)

        with monkeypatch.context() as patched:
            patched.setattr(Asked, "rows", writes)
            assert "is still being written" in landings.refused(file.parent)

    file = landings.csv("grows/1.csv", "id\n1\n")
    # Into a Delta table go the rows of a copy that was made before.
    last = "insert into" if FORMAT == "iceberg" else "create table"
    refused_while(last, file, "id\n1\n2\n")
    assert landings.rows("raw.grows") == []
    landings.land(file.parent)
    assert landings.rows("raw.grows") == [{"id": 1}, {"id": 2}]
    # A new column must not keep the type that its first values had.
    file = landings.csv("grows/2.csv", "id,note\n8,1\n")
    refused_while("count_if(", file, "id,note\n8,1\n9,n/a\n")
    assert landings.rows("raw.grows") == [{"id": 1}, {"id": 2}]
    landings.land(file.parent)
    assert landings.rows("raw.grows")[2:] == [{"id": 8, "note": "1"}, {"id": 9, "note": "n/a"}]


def test_what_cannot_be_landed(landings: Landings) -> None:
    folder = landings.folder
    landings.csv("a.csv", "id\n1\n")
    landings.parquet("b.parquet", ROWS)
    landings.csv("text/notes.txt", "x")
    landings.csv("false/a.parquet", "x")
    landings.csv("mixed/a.csv", "x")
    landings.csv("mixed/b.json", "{}")
    landings.parquet("described/a.parquet", ROWS)
    landings.csv("described/a.dfm", "{}")
    landings.csv("dated/2024/a.json", "{}")
    landings.csv("nested/orders/a.csv", "x")
    landings.csv("uneven/a.csv", "x")
    landings.csv("uneven/d=1/a.csv", "x")
    landings.csv("delta/_delta_log/0.json", "{}")
    landings.csv("A.csv", "id\n1\n")
    (folder / "empty").mkdir()
    (folder / "empty" / "_SUCCESS").touch()
    for paths, said in (
        (["none"], ".*/none does not exist; give an existing file or folder"),
        (["empty"], "empty has no files yet"),
        (["mixed"], r"files of several formats: csv \(a.csv\), json \(b.json\)"),
        (["described"], "has .dfm files, .* with --copy"),
        (["dated"], "in place Spark does not read what is in there; load them with --copy"),
        (["described/a.dfm"], "a.dfm has a format that cannot be landed"),
        (["text"], r"notes.txt has a format .* Allowed: .parquet, .pq, .orc, .avro, .csv, "),
        (["false"], "a.parquet is not valid parquet"),
        (["nested"], r"the folder orders, which is neither .* land them as .*nested/\*"),
        (["uneven"], "files with different partition columns: none and d"),
        (["delta"], "is a delta table"),
        (["a.csv", "A.csv"], "would both become raw.a"),
        (["empty/_SUCCESS"], "is hidden"),
    ):
        assert re.search(said, landings.refused(*(folder / path for path in paths)))
    assert "not a local path" in landings.refused("s3://bucket/landing")
    both = (folder / "a.csv", folder / "b.parquet")
    assert "--as names one table" in landings.refused(*both, "--as", "raw.x")
    for name in ("x", "a.b.c", "raw.`x`", "raw.x; drop", "1.x"):
        assert "--as must be SCHEMA.TABLE" in landings.refused(folder / "a.csv", "--as", name)
    landings.file("list.json", b'[\n{"id": 1}\n]\n')
    for copy in ([], ["--copy"]):
        assert "lines that are not JSON objects" in landings.refused(folder / "list.json", *copy)
    landings.file("twice.json", b'{"id": 1, "ID": 2}\n')
    landings.parquet("twice.parquet", [{"id": 1, "ID": 2}])
    for name in ("twice.json", "twice.parquet"):
        for copy in ([], ["--copy"]):
            assert "two names differ only in case" in landings.refused(folder / name, *copy)
    assert not (landings.project.folder / "models" / "sources").exists()


def test_what_cannot_be_landed_keeps_nothing_else_from_it(landings: Landings) -> None:
    """A folder of a new table is still empty, and a file of another one is being written."""
    folder = landings.folder
    (folder / "new").mkdir()
    landings.file("half/a.parquet", b"")
    landings.csv("whole.csv", "id\n1\n")
    code, _, said = landings._run((folder / "new", folder / "half", folder / "whole.csv"))
    assert code == 1
    assert re.search("(?m)^afterimage: .*new has no files yet", said)
    assert re.search("(?m)^afterimage: .*a.parquet is not valid parquet", said)
    assert [row["id"] for row in landings.rows("raw.whole")] == [1]


def test_a_file_of_sources_that_takes_no_more_keeps_no_other_path_from_it(
    landings: Landings,
) -> None:
    landings.land(landings.parquet("one/a.parquet", [{"id": 1}]).parent)
    file = landings.project.folder / "models/sources/_src_raw_parquet.yml"
    mine = file.read_text() + "\nexposures: []\n"
    file.write_text(mine)
    two = landings.parquet("two/a.parquet", [{"id": 2}]).parent
    landings.csv("whole.csv", "id\n1\n")
    code, said, errors = landings._run((two, landings.folder / "whole.csv"))
    assert code == 1
    assert "_src_raw_parquet.yml was edited, so nothing can be added at its end." in errors
    assert "Add two yourself:\n      - name: two\n" in errors
    assert file.read_text() == mine
    assert [row["id"] for row in landings.rows("raw.whole")] == [1]
    assert "raw.two" not in said


def test_a_name_that_is_taken(landings: Landings) -> None:
    first = landings.parquet("a/one.parquet", ROWS)
    second = landings.parquet("b/one.parquet", ROWS)
    landings.land(first)
    assert "already has a source raw.one, for parquet." in landings.refused(second)
    assert "already has a source raw.one, for parquet." in landings.refused(first, "--copy")
    landings.land(second, "--copy", "--as", "raw.two")
    assert "the table raw.two already exists" in landings.refused(first, "--as", "raw.two")
    landings.lake.spark.sql(f"create table raw.three (id int) using {FORMAT}")
    refused = landings.refused(first, "--copy", "--as", "raw.three")
    assert "raw.three already exists and was not made from landed files" in refused
    landings.project.file("models/src.yml", "sources: [{name: raw, tables: [{name: four}]}]\n")
    assert "already has a source raw.four" in landings.refused(first, "--as", "raw.four")


def test_a_raw_table_that_was_renamed_is_loaded_further(landings: Landings) -> None:
    """Its source has the former name, as models do. Another table would be read by nobody."""
    folder = landings.csv("moved/1.csv", "id,code\n1,a\n").parent
    landings.land(folder, "--as", "raw.kept")
    landings.project.file(
        "models/moved.yml", "sources: [{name: raw, tables: [{name: moved, identifier: kept}]}]\n"
    )
    landings.csv("moved/2.csv", "id,code\n2,b\n")
    assert "raw.kept: CSV, 2 files, 1 file loaded" in landings.land(folder)
    assert [row["id"] for row in landings.rows("raw.kept")] == [1, 2]
    assert landings.lake.rows("show tables in raw like 'moved'") == []


def test_the_letters_of_a_text_are_no_bytes(landings: Landings) -> None:
    """A mask in hex digits would become the mask of other columns."""
    masks = landings.parquet("masks/1.parquet", [{"id": 1, "mask": bytes.fromhex("1000")}])
    landings.land(masks, "--copy", "--as", "raw.masks")
    digits = landings.csv("masks.csv", "id,mask\n2,0010\n")
    refused = landings.refused(digits, "--as", "raw.masks")
    assert "mask" in refused
    assert "Got: 0010" in refused
    empty = landings.csv("no_masks.csv", "id,mask\n3,\n")
    landings.land(empty, "--as", "raw.masks")
    assert [row["mask"] for row in landings.rows("raw.masks")] == [b"\x10\x00", None]


@pytest.mark.minutes
def test_the_page_followed_to_the_letter(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    landings.parquet("customers__ct/1.parquet", changes((1, "I", 1, "a")))
    landings.parquet("customers__ct/2.parquet", changes((2, "U", 1, "b")))
    landings.file("orders__ct.json", b'{"id": 1, "total": 9.5}\n')
    landings.csv("prices.csv", "id,code,price\n1,007,9.50\n")
    monkeypatch.chdir(landings.project.folder)
    text = page("docs/start/land.md")
    (first,), *later = typed(text)
    said = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert landings.land(*first.split()[2:]) == said[0]
    for line in [line for block in later for line in block]:
        landings.land(*line.split()[2:])
    copied = landings.lake.rows("select name from raw.customers_copy order by name")
    assert copied == [{"name": "a"}, {"name": "b"}]
    assert landings.rows("raw.prices") == [{"id": 1, "code": "007", "price": 9.5}]


def test_two_runs_may_make_the_table_of_schemas_at_once(
    landings: Landings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They land two topics with a registry, and each sees that the table is not there."""
    profiles = str(landings.project.folder / "profiles")
    project = Asked(Where(project_dir=str(landings.project.folder), profiles_dir=profiles))
    monkeypatch.setattr(project, "columns_of", lambda relation: None)
    made = [Schemas(project, "raw")._ready("http://registry") for _ in range(2)]
    assert made[0] == made[1]
