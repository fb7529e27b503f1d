"""Seeds arrive as they are written: what dbt-spark's own loading breaks is exact here."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from command_line import BIN, environment, run
from conftest import SCHEMA, DbtError, Lake, Project

SEQUENCE = "20230321213416580000000000000000017"

TYPES = {
    "id": "int",
    "words": "string",
    "sequence": "string",
    "wide": "decimal(38,0)",
    "amount": "decimal(18,6)",
    "mask": "binary",
    "moment": "timestamp",
    "day": "date",
    "flag": "boolean",
    "ratio": "double",
}

# Cells of the file, and the expected values of the table.
ROWS: list[tuple[list[str], dict[str, Any]]] = [
    (
        [SEQUENCE[:0]] * 10,
        dict.fromkeys(TYPES),
    ),
    (
        [
            "1",
            "plain",
            SEQUENCE,
            SEQUENCE,
            "0.000001",
            "000B01",
            "2023-03-21 21:34:16.123456",
            "2023-03-21",
            "true",
            "0.1",
        ],
        {
            "id": 1,
            "words": "plain",
            "sequence": SEQUENCE,
            "wide": Decimal(SEQUENCE),
            "amount": Decimal("0.000001"),
            "mask": bytearray(b"\x00\x0b\x01"),
            "moment": datetime(2023, 3, 21, 21, 34, 16, 123456),
            "day": date(2023, 3, 21),
            "flag": True,
            "ratio": 0.1,
        },
    ),
    (
        [
            "-2147483648",
            "negative",
            "00000000000000000000000000000000001",
            "-" + "9" * 38,
            "-123456789012.654321",
            "ff",
            "1582-10-15 00:00:00",
            "9999-12-31",
            "false",
            "-1e300",
        ],
        {
            "id": -(2**31),
            "words": "negative",
            "sequence": "00000000000000000000000000000000001",
            "wide": Decimal("-" + "9" * 38),
            "amount": Decimal("-123456789012.654321"),
            "mask": bytearray(b"\xff"),
            "moment": datetime(1582, 10, 15),
            "day": date(9999, 12, 31),
            "flag": False,
            "ratio": -1e300,
        },
    ),
]

WORDS = [
    "it's",
    "''",
    'says "quotes"',
    '"',
    "back\\slash",
    "\\",
    "ends in \\",
    "c:\\new\\table\\u0041",
    "100%",
    "%s %d %(name)s %%",
    "two\nlines",
    "tab\there",
    "Zoë, 東京, 🦒, e\u0301",
    "None",
    "none",
    "NaN",
    "true",
    "007",
    "1e3",
    "2023-03-21",
    " spaces around ",
    "a;b;",
    "-- no comment",
    "/* no comment */",
    "{{ no_jinja }} {% no jinja %}",
    "${env:HOME} ${spark.app.name} $1",
    "`ticks`",
    "comma, and; 'quote'",
]


def as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def properties(name: str, types: dict[str, str]) -> str:
    lines = ["seeds:", f"  - name: {name}", "    config:", "      column_types:"]
    return "\n".join(lines + [f"        {column}: {kind}" for column, kind in types.items()])


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("seeds")


@pytest.fixture(scope="module")
def load(project: Project, lake: Lake) -> Callable[..., list[dict[str, Any]]]:
    """A function that loads one seed and returns its rows in no order."""

    def load(
        name: str, header: list[str], rows: list[list[str]], types: dict[str, str] | None = None
    ) -> list[dict[str, Any]]:
        project.file(f"seeds/{name}.csv", as_csv([header, *rows]))
        if types:
            project.file(f"seeds/{name}.yml", properties(name, types))
        project.dbt("seed", "--select", name)
        return lake.rows(f"select * from {SCHEMA}.{name}")

    return load


Load = Callable[..., list[dict[str, Any]]]


def test_every_declared_type_is_loaded_exactly_and_an_empty_cell_is_null(load: Load) -> None:
    rows = load("typed", list(TYPES), [cells for cells, _ in ROWS], TYPES)
    expected = [row for _, row in ROWS]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_text_is_loaded_verbatim(load: Load) -> None:
    cells = [[str(place), words] for place, words in enumerate(WORDS)]
    rows = load("texts", ["place", "words"], cells, {"place": "int", "words": "string"})
    assert {row["place"]: row["words"] for row in rows} == dict(enumerate(WORDS))


def test_text_of_a_declared_length_is_loaded_verbatim(load: Load) -> None:
    types = {"place": "int", "code": "varchar(10)", "mark": "char(3)"}
    rows = load("lengths", list(types), [["1", "it's NULL", "a b"], ["2", "", "xyz"]], types)
    assert sorted(tuple(row[name] for name in types) for row in rows) == [
        (1, "it's NULL", "a b"),
        (2, None, "xyz"),
    ]


def test_cell_that_says_null_is_null_as_in_every_dbt_seed(load: Load) -> None:
    # dbt reads the file and hands it over so; see "agate_helper.from_csv" of dbt-common.
    rows = load("nulls", ["words"], [["null"], ["NULL"], ["nullable"]], {"words": "string"})
    assert sorted(str(row["words"]) for row in rows) == ["None", "None", "nullable"]


def test_undeclared_types_are_detected_and_nothing_is_rounded(load: Load, lake: Lake) -> None:
    header = ["id", "sequence", "small", "words", "moment", "day", "flag", "place", "rate"]
    rows = load(
        "undeclared",
        header,
        [
            [
                *("1", SEQUENCE, "", "it's", "2023-03-21T21:34:16.123456", "2023-03-21", "true"),
                *("20240101120000.123456", "0.25"),
            ],
            ["", str(2**63), str(2**63 - 1), "", "", "", "", "", "1"],
            ["2", f"-{'9' * 38}", str(-(2**63) + 1), "None", "", "", "false", "1.5", ""],
        ],
    )
    types = {
        row["col_name"]: row["data_type"] for row in lake.rows(f"describe {SCHEMA}.undeclared")
    }
    assert [types[name] for name in header] == [
        "bigint",
        "decimal(38,0)",
        "bigint",
        "string",
        "timestamp",
        "date",
        "boolean",
        "decimal(38,6)",
        "double",
    ]
    assert sorted((tuple(row.values()) for row in rows), key=repr) == [
        (
            1,
            Decimal(SEQUENCE),
            None,
            "it's",
            datetime(2023, 3, 21, 21, 34, 16, 123456),
            date(2023, 3, 21),
            True,
            Decimal("20240101120000.123456"),
            0.25,
        ),
        (2, Decimal("-" + "9" * 38), -(2**63) + 1, "None", None, None, False, Decimal("1.5"), None),
        (None, Decimal(2**63), 2**63 - 1, None, None, None, None, None, 1.0),
    ]


def test_a_number_of_16_digits_is_rounded_nowhere(load: Load, lake: Lake) -> None:
    # The next double to 2 ** 53 + 1 is 2 ** 53; those of `ratio` are written as Python writes them.
    odd = str(2**53 + 1)
    rows = [[odd, "0.30000000000000004"], ["0.5", "1234567890.123456"]]
    found = load("sixteen", ["n", "ratio"], rows)
    types = {row["col_name"]: row["data_type"] for row in lake.rows(f"describe {SCHEMA}.sixteen")}
    assert types == {"n": "decimal(38,1)", "ratio": "double"}
    assert {row["n"]: row["ratio"] for row in found} == {
        Decimal(odd): 0.30000000000000004,
        Decimal("0.5"): 1234567890.123456,
    }


@pytest.mark.slow
def test_a_column_to_partition_by_may_stand_anywhere(project: Project, tmp_path: Path) -> None:
    """Spark's own catalog moves it behind the others."""
    project.file(
        "seeds/by_day.csv", as_csv([["id", "no", "day"], ["1", "10", "2"], ["2", "20", ""]])
    )
    project.file("seeds/by_day.yml", "seeds: [{name: by_day, config: {partition_by: [id]}}]")
    project.file(
        "tests/wrong_cells.sql",
        "select * from {{ ref('by_day') }}"
        " where not (id = 1 and no = 10 and day <=> 2 or id = 2 and no = 20 and day is null)",
    )
    profiles = str(project.folder / "profiles")
    env = environment(AFTERIMAGE_WAREHOUSE=str(tmp_path / "spark"), DBT_PROFILES_DIR=profiles)
    build = ("dbt", "build", "--target", "parquet", "--select", "by_day")
    assert "PASS=2 " in run(BIN / build[0], *build[1:], cwd=project.folder, env=env).stdout


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("int", "twelve"),
        ("int", "3000000000"),
        ("int", "12.7"),
        ("decimal(4,2)", "9.994"),
        ("date", "2024-01-01 10:00:00"),
        ("decimal(4,2)", "1000.00"),
        ("timestamp", "21.3.2023"),
        ("timestamp", "2024-03-01 10:00:00.1234567"),
        ("timestamp", "09:30:00"),
        ("timestamp_ntz", "2024-03-01 10:00:00+02:00"),
        ("date", "202401"),
        ("binary", "0x0B"),
        ("binary", "ABC"),
        ("boolean", "maybe"),
    ],
)
def test_cell_that_does_not_fit_its_type_fails_the_seed(load: Load, kind: str, cell: str) -> None:
    with pytest.raises(DbtError) as failure:
        load("misfit", ["id", "amount"], [["1", ""], ["2", cell]], {"id": "int", "amount": kind})
    message = f"seed misfit: column amount, {cell!r} is not a value of type {kind}."
    assert message in str(failure.value)


def test_number_too_wide_for_any_type_is_not_rounded(load: Load) -> None:
    with pytest.raises(DbtError, match=r"seed too_wide: column wide, '.*' is not .* decimal\(38"):
        load("too_wide", ["wide"], [["1" * 39]])


def test_seed_without_rows_makes_an_empty_table(load: Load) -> None:
    assert load("empty", ["id", "words"], [], {"id": "int", "words": "string"}) == []


def test_second_load_replaces_the_first(load: Load) -> None:
    assert load("again", ["id"], [["1"], ["2"]], {"id": "int"}) == [{"id": 1}, {"id": 2}]
    assert load("again", ["id"], [["3"]], {"id": "int"}) == [{"id": 3}]


def test_2000_rows_of_10_columns_take_four_times_one_statement_of_casts_at_most(
    project: Project, lake: Lake
) -> None:
    cells = ROWS[1][0]
    numbered = [[str(i), f"row {i}", *cells[2:]] for i in range(2000)]
    project.file("seeds/many.csv", as_csv([list(TYPES), *numbered]))
    project.file("seeds/many.yml", properties("many", TYPES))
    seconds = project.dbt("seed", "--select", "many").results[0].execution_time
    assert lake.rows(
        f"select count(*) as n, count(distinct words) as words from {SCHEMA}.many"
    ) == [{"n": 2000, "words": 2000}]
    # What one statement takes that casts each cell, as dbt-spark's does, and looks at none of them.
    # A seed makes its table too.
    casts = [f"cast('{{}}' as {type})" for type in TYPES.values()]
    rows = [f"({', '.join(casts).format(*row)})" for row in numbered]
    lake.spark.sql(f"create table {SCHEMA}.cast as select * from {SCHEMA}.many where false")
    began = time.monotonic()
    lake.spark.sql(f"insert into {SCHEMA}.cast values {', '.join(rows)}")
    peer = time.monotonic() - began
    print(f"2000 rows x 10 columns: {seconds:.1f} s; one statement of casts: {peer:.1f} s")
    assert seconds < 4 * peer
