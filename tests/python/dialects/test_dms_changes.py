"""Rows of the files of AWS DMS in, changes and history out, whatever arrives when."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from deliveries import count_rows, run_in_batches_and_at_once
from reference import Row

COLUMNS = {
    "Op": "string",
    "id": "string",
    "value": "int",
    "BI_id": "string",
    "change_seq": "string",
    "dms_time": "string",
}
TABLES = ("stg_parts", "parts_history")
START = datetime(2024, 8, 1, 6)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("dms_changes")


def at(minutes: int) -> str:
    """Give a time as DMS writes it."""
    return f"{START + timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S.%f}"


def seq(minutes: int) -> str:
    return f"{START + timedelta(minutes=minutes):%Y%m%d%H%M%S}00{minutes:019d}"


def row(operation: str, minutes: int, key: str | None, value: int | None, old: Any = None) -> Row:
    return {
        "Op": operation,
        "id": key,
        "value": value,
        "BI_id": old,
        "change_seq": seq(minutes),
        "dms_time": at(minutes),
    }


def load(minutes: int, key: str, value: int) -> Row:
    return {"id": key, "value": value, "dms_time": at(minutes)}


def models(project: Project, table: str, arguments: str) -> None:
    project.stream("stg_parts", f"dms_changes({table}, unique_key=['id'], {arguments})")
    project.history("parts_history", "stg_parts")


BATCHES: list[list[Row]] = [
    [
        load(0, "a", 0),
        load(0, "b", 0),
        load(0, "c", 0),
        load(1, "late", 1),
        row("U", 20, "a", 2, "a"),
        row("U", 30, "b2", 0, "b"),
        {**row("U", 31, "lost", 0), "change_seq": None},
        {**row("U", 32, "no time", 0), "dms_time": None},
    ],
    [
        row("U", 10, "a", 1, "a"),  # older than what was read
        row("U", 20, "a", 2, "a"),  # sent again
        load(0, "d", 0),  # a row of the full load that comes behind changes
        load(5, "late", 2),  # the table was loaded again, and this row differs
        load(5, "c", 0),  # this one does not
        row("D", 40, "c", None),
        row("I", 20, "a", 9),  # another change in a place that was read
    ],
    [
        {**row("U", 31, "lost", 0), "change_seq": None},
        row("I", 41, "c", 7),
        row("X", 42, "c", 7),
        row("U", 43, None, 7),
        load(3, "late", 1),
    ],
]


@pytest.mark.minutes
@pytest.mark.parametrize(
    "order",
    [
        "time='dms_time'",
        "order_by=['dms_time', 'change_seq']",
        "time='dms_time', order_by=['dms_time', 'change_seq']",
    ],
)
def test_three_batches_give_what_a_full_refresh_gives(
    order: str, project: Project, lake: Lake
) -> None:
    models(project, relation("parts"), f"before_prefix='BI_', {order}")
    found = run_in_batches_and_at_once(
        project, lake, TABLES, [{"parts": (COLUMNS, rows)} for rows in BATCHES]
    )[-1]
    staged = found["stg_parts"]
    assert count_rows(staged) == sum(map(len, BATCHES))
    reasons = sorted(change["reject_reason"] for change in staged if change["reject_reason"])
    if "order_by" not in order:
        places = ["no place in the order (change_seq): NULL"]
    else:
        missing = (f"{at(31)}, NULL", f"NULL, {seq(32)}")
        places = [f"no place in the order (dms_time, change_seq): {values}" for values in missing]
    assert reasons == [
        "NULL in the key (id)",
        *places,
        "superseded: a later load of this key came",
        "unknown operation: X",
    ]
    versions = [
        (change["id"], change["value"], change["operation"], change["closed_by"])
        for change in sorted(
            found["parts_history"], key=lambda change: (change["id"], change["version"])
        )
        if change["id"] in ("a", "b", "b2", "c", "d")
    ]
    assert versions == [
        ("a", 0, "load", "update"),
        ("a", 1, "update", "update"),
        ("a", 9, "insert", "update"),  # insert before update, where nothing else tells the order
        ("a", 2, "update", None),
        ("b", 0, "load", "key_change"),
        ("b2", 0, "update", None),
        ("c", 0, "load", "delete"),
        ("c", 7, "insert", None),
        ("d", 0, "load", None),
    ]


VALUES: dict[str, list[Any]] = {
    "string": ["", " ", "a", "a b", "ab", "A", "a-", "a'\\", "é", "~", "\U0001f600", "10", "9"],
    "binary": [b"\x00", b"\x00\x01", b"\xff", b"A", b"Ab"],
    "tinyint": [-128, -1, 0, 1, 127],
    "bigint": [-(2**63), 2**63 - 1, -10, -9, -1, 0, 1, 9, 10, 99],
    "decimal(38,0)": [Decimal(10**37), Decimal(-(10**37)), Decimal(-1), Decimal(0), Decimal(12)],
    "decimal(20,0)": [Decimal(-12), Decimal(-2), Decimal(5), Decimal(40)],
    "decimal(38,10)": [
        *map(Decimal, ["-1.5", "-1.4999999999", "-0.0000000001", "0", "0.0000000001", "0.5", "1"]),
        *map(Decimal, ["9.75", "10.25", "1e27", "-1e27"]),
    ],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 8, 1)],
    "timestamp": [
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1970, 1, 1),
        START,
        START + timedelta(microseconds=1),
        START + timedelta(seconds=1),
        datetime(9999, 12, 31),
    ],
}


def sort_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def test_the_text_of_a_value_sorts_like_the_value(project: Project, lake: Lake) -> None:
    names = {kind: f"v{number}" for number, kind in enumerate(VALUES)}
    shuffled = {
        names[kind]: random.Random(1).sample(values, len(values)) for kind, values in VALUES.items()
    }
    rows = [dict(zip(shuffled, values, strict=True)) for values in zip_longest(*shuffled.values())]
    lake.create("values_to_sort", {name: kind for kind, name in names.items()}, rows)
    texts = project.sqls(
        f"afterimage._sortable_text('{name}', '{kind}')" for kind, name in names.items()
    )
    for (kind, name), text in zip(names.items(), texts, strict=True):
        found = lake.rows(
            f"select {name} as value, {text} as text from {SCHEMA}.values_to_sort"
            f" where {name} is not null order by text"
        )
        values = [bytes_of(row["value"]) for row in found]
        assert values == sorted(map(bytes_of, VALUES[kind]), key=sort_key), kind
        assert all(set(row["text"]) <= set("0123456789ABCDEF-") for row in found), kind


def bytes_of(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("kinds", [("string", "bigint"), ("decimal(38,10)", "string", "binary")])
def test_a_place_of_several_columns_sorts_like_the_columns(
    kinds: tuple[str, ...], project: Project, lake: Lake
) -> None:
    names = [f"o{number}" for number in range(len(kinds))]
    order = random.Random(2)
    rows = [
        {"Op": "U", "id": number}
        | {
            name: order.choice([value for value in VALUES[kind] if value != ""])
            for name, kind in zip(names, kinds, strict=True)
        }
        for number in range(200)
    ]
    columns = {"Op": "string", "id": "int", **dict(zip(names, kinds, strict=True))}
    lake.create("to_order", columns, rows)
    call = f"dms_changes({relation('to_order')}, unique_key=['id'], order_by={names})"
    changes = lake.rows(project.sql(call))
    keys = {row["id"]: [sort_key(row[name]) for name in names] for row in rows}
    ordered = [
        keys[change["after"]["id"]]
        for change in sorted(changes, key=lambda change: change["change_seq"])
    ]
    assert ordered == sorted(keys.values())
    places = {change["change_seq"] for change in changes}
    assert len(places) == len({tuple(key) for key in keys.values()})


def test_a_sequence_is_its_35_digits_whatever_it_is_landed_as(project: Project, lake: Lake) -> None:
    number = f"{7:035d}"
    kinds = {"decimal(35,0)": Decimal, "decimal(38,0)": Decimal, "string": str}
    for place, (kind, landed) in enumerate(kinds.items()):
        rows = [
            {"op": "I", "id": 1, "AR_H_CHANGE_SEQ": landed(number)},
            {"op": "I", "id": 2, "AR_H_CHANGE_SEQ": None},
            {"op": "I", "id": 3, "AR_H_CHANGE_SEQ": landed("0")},
        ]
        columns = {"op": "string", "id": "int", "AR_H_CHANGE_SEQ": kind}
        lake.create(f"typed_sequence_{place}", columns, rows)
    calls = [
        f"dms_changes({relation(f'typed_sequence_{place}')}, unique_key=['id'])"
        for place in range(len(kinds))
    ]
    for kind, sql in zip(kinds, project.sqls(calls), strict=True):
        found = lake.rows(f"select after.id, operation, change_seq from ({sql}) order by id")
        assert [tuple(row.values()) for row in found] == [
            (1, "insert", number),
            (2, "load", ""),
            (3, "load", ""),
        ], kind


def test_a_sequence_of_another_name_is_listed_in_order_by(project: Project, lake: Lake) -> None:
    """As in Amazon's manual. An insert with zeros or nothing is a row of the full load."""
    columns = {"Op": "string", "transact_id": "string", "id": "int"}
    texts = ["20210611164343000000000000000000124", "20210611164343000000000000000000123"]
    texts += ["0" * 35, ""]
    lake.create(
        "named_sequence",
        columns,
        [{"Op": "I", "transact_id": text, "id": id} for id, text in enumerate(texts, 1)],
    )
    call = f"dms_changes({relation('named_sequence')}, ['id'], order_by=['transact_id'])"
    found = lake.rows(
        f"select after.id, operation, changed_at from ({project.sql(call)}) order by change_seq, id"
    )
    moment = datetime(2021, 6, 11, 16, 43, 43)
    assert [tuple(row.values()) for row in found] == [
        (3, "load", None),
        (4, "load", None),
        (2, "insert", moment),
        (1, "insert", moment),
    ]


def test_of_changes_of_one_place_the_later_one_comes_last(project: Project, lake: Lake) -> None:
    columns = {
        "Op": "string",
        "id": "string",
        "value": "int",
        "dms_time": "string",
        "file": "string",
    }
    changes: list[list[tuple[int, str | None]]] = [
        [(0, at(1)), (1, at(2)), (2, at(3))],
        [(0, at(3)), (1, at(2)), (2, at(1))],
        [(0, at(1)), (1, None), (2, at(2))],
        # A value comes back; a copy, which has the same time, counts once.
        [(0, at(1)), (1, at(2)), (0, at(3)), (0, at(3))],
    ]
    rows = [
        {"Op": "U", "id": f"key {key}", "value": value, "dms_time": time, "file": "F"}
        for key, of_key in enumerate(changes)
        for value, time in of_key
    ]
    lake.create("tied", columns, rows)
    call = f"dms_changes({relation('tied')}, unique_key=['id'], order_by=['file'], time='dms_time'"
    found = lake.rows(f"{project.sql(call + ')')} order by after.id, change_seq")
    values = [change["after"]["value"] for change in found]
    assert values == [0, 1, 2, 2, 1, 0, 1, 0, 2, 0, 1, 0]
    assert [change["source_rows"] for change in found[-3:]] == [1, 1, 2]
    assert [change["change_seq"] for change in found[:3]] == ["46", "46.002", "46.003"]


def test_a_placeholder_of_a_time_is_no_place(project: Project, lake: Lake) -> None:
    """It would sort before all changes."""
    rows = [row("I", 1, "a", 1), {**row("U", 2, "a", 2), "dms_time": "1970-01-01 00:00:00.000000"}]
    lake.create("unplaced", COLUMNS, rows)
    call = f"dms_changes({relation('unplaced')}, ['id'], order_by=['dms_time'], time='dms_time')"
    found = lake.rows(f"{project.sql(call)} order by after.value")
    assert [change["reject_reason"] for change in found] == [
        None,
        "no place in the order (dms_time): 1970-01-01 00:00:00.000000",
    ]


def test_a_data_column_called_like_a_sequence_is_data(project: Project, lake: Lake) -> None:
    columns = {"Op": "string", "id": "int", "exchange_seq": "string", "bank_change_seq": "int"}
    row = {"Op": "U", "id": 1, "exchange_seq": "7", "bank_change_seq": 8}
    header = {"ar_h_change_seq": f"{9:035d}"}
    lake.create("rates", {**columns, "ar_h_change_seq": "string"}, [{**row, **header}])
    call = f"dms_changes({relation('rates')}, unique_key=['id'])"
    [found] = lake.rows(project.sql(call))
    assert found["change_seq"] == header["ar_h_change_seq"]
    assert found["after"] == {"id": 1, "exchange_seq": "7", "bank_change_seq": 8}


@pytest.mark.parametrize(
    ("code", "name", "order", "kind"),
    [
        ({}, "ar_h_change_seq", "", "string"),
        ({"Op": None}, "ar_h_change_seq", "", "string"),
        # The row in the file has a value in rows of the full load, too.
        ({"Op": None}, "ar_h_change_seq", ", order_by=['ar_h_change_seq', 'dms_row']", "string"),
        ({"Op": None}, "transact_id", ", order_by=['transact_id']", "string"),
        ({"Op": None}, "transact_id", ", order_by=['transact_id']", "decimal(38,0)"),
    ],
)
def test_a_row_with_a_sequence_is_a_change_though_it_has_no_code(
    code: dict[str, None], name: str, order: str, kind: str, project: Project, lake: Lake
) -> None:
    """As CdcInsertsAndUpdates writes changes without IncludeOpForFullLoad."""
    columns = {**dict.fromkeys(code, "string"), "id": "int", "state": "string"}
    places: list[Any] = ["", f"{20240801070000:014}{101:021}", f"{20240801080000:014}{102:021}"]
    if kind != "string":
        places = [Decimal(place or 0) for place in places]
    rows = [
        {**code, "id": 1, "state": state, name: place, "dms_row": 7}
        for state, place in zip(("new", "paid", "sent"), places, strict=True)
    ]
    lake.create("uncoded", {**columns, name: kind, "dms_row": "int"}, rows)
    call = f"dms_changes({relation('uncoded')}, ['id'], columns=['id', 'state']{order})"
    found = lake.rows(f"{project.sql(call)} order by change_seq")
    assert [(one["operation"], one["after"]["state"]) for one in found] == [
        ("load", "new"),
        ("update", "paid"),
        ("update", "sent"),
    ]
    assert [one["change_seq"] == "" for one in found] == [True, False, False]
    assert {one["reject_reason"] for one in found} == {None}


@pytest.mark.parametrize("order", ["", ", order_by=['landed_at']"])
def test_a_table_without_the_column_is_all_rows_of_the_full_load(
    order: str, project: Project, lake: Lake
) -> None:
    columns = {"id": "int", "value": "int", "landed_at": "timestamp"}
    lake.create("loaded", columns, [{"id": n, "value": n, "landed_at": START} for n in (1, 2)])
    call = f"dms_changes({relation('loaded')}, unique_key=['id'], columns=['id', 'value']{order})"
    changes = lake.rows(project.sql(call))
    assert sorted((c["operation"], c["change_seq"], c["after"]["id"]) for c in changes) == [
        ("load", "", 1),
        ("load", "", 2),
    ]
    assert {change["warnings"] for change in changes} == {None}


@pytest.mark.slow
def test_a_row_changed_in_place_is_the_same_change(project: Project, lake: Lake) -> None:
    models(project, relation("parts"), "before_prefix='BI_'")
    lake.create("parts", COLUMNS, [row("I", 1, "a", 1), row("U", 2, "a", 2), row("U", 2, "a", 3)])
    project.dbt("run", "--select", "stg_parts", "--full-refresh")
    lake.spark.sql(f"update {SCHEMA}.parts set value = value + 10, BI_id = 'a' where Op = 'U'")
    project.dbt("run", "--select", "stg_parts")
    found = lake.contents("stg_parts")["stg_parts"]
    assert sorted(change["after"]["value"] for change in found) == [1, 12, 13]


def test_of_a_key_of_several_columns_those_that_changed_show_the_old_key(
    project: Project, lake: Lake
) -> None:
    """Oracle has before-images of the columns that changed, and no others."""
    columns = {**COLUMNS, "part": "int", "BI_part": "int", "BI_value": "int"}
    rows = [
        {**load(0, "a", 0), "part": 1},
        {**load(0, "b", 0), "part": 1},
        {**row("U", 1, "a", 0), "part": 2, "BI_part": 1},
        {**row("U", 2, "b", 5), "part": 1, "BI_value": 0},
    ]
    lake.create("parts", columns, rows)
    call = f"dms_changes({relation('parts')}, unique_key=['id', 'part'], before_prefix='BI_')"
    project.stream("stg_parts", call)
    project.history("parts_history", "stg_parts", unique_key=["id", "part"])
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    query = f"select id, part, value, is_current from {SCHEMA}.parts_history"
    assert sorted(tuple(version.values()) for version in lake.rows(query)) == [
        ("a", 1, 0, False),
        ("a", 2, 0, True),
        ("b", 1, 0, False),
        ("b", 1, 5, True),
    ]


@pytest.mark.minutes
def test_a_second_load_that_was_read_can_become_changes_at_its_time(
    project: Project, lake: Lake
) -> None:
    """As the docs say. Without that, `a` is what its last change before the load says."""
    models(project, relation("loaded_again"), "before_prefix='BI_', time='dms_time'")
    rows = [load(0, "a", 0), load(0, "same", 0), row("U", 10, "a", 1, "a")]
    lake.create("loaded_again", COLUMNS, rows)
    project.dbt("run", "--select", *TABLES, "--full-refresh")
    version = {
        "iceberg": f"select snapshot_id as v from {SCHEMA}.stg_parts.refs",
        "delta": f"select max(version) as v from (describe history {SCHEMA}.stg_parts)",
    }
    [known] = lake.rows(version[FORMAT])
    # The files of the first load are gone.
    lake.spark.sql(f"delete from {SCHEMA}.loaded_again where Op is null")
    again = [load(51, "a", 3), load(52, "same", 0), {**load(53, "new", 3), "Op": "I"}]
    lake.append("loaded_again", COLUMNS, [*again, row("U", 60, "new", 4, "new")])
    project.dbt("run", "--select", *TABLES)
    of_a = f"select value from {SCHEMA}.parts_history where id = 'a' and is_current"
    assert lake.rows(of_a) == [{"value": 1}]
    back = {
        "iceberg": f"call system.set_current_snapshot('{SCHEMA}.stg_parts', {known['v']})",
        "delta": f"restore table {SCHEMA}.stg_parts to version as of {known['v']}",
    }
    lake.spark.sql(back[FORMAT])
    place = f"'{seq(50)[:16]}' || repeat('0', 19)"
    lake.spark.sql(
        f"update {SCHEMA}.loaded_again set Op = 'U', change_seq = {place}"
        " where coalesce(Op, '') in ('', 'I') and coalesce(change_seq, '') rlike '^0*$'"
        f" and dms_time >= '{at(50)}'"
    )
    project.dbt("run", "--select", "stg_parts")
    project.dbt("run", "--full-refresh", "--select", "parts_history")
    versions = lake.rows(
        f"select id, value, operation, valid_from from {SCHEMA}.parts_history order by id, version"
    )
    assert [tuple(row.values()) for row in versions] == [
        ("a", 0, "load", START),
        ("a", 1, "update", START + timedelta(minutes=10)),
        ("a", 3, "update", START + timedelta(minutes=51)),
        ("new", 3, "update", START + timedelta(minutes=53)),
        ("new", 4, "update", START + timedelta(minutes=60)),
        ("same", 0, "load", START),
    ]


@pytest.fixture
def files(lake: Lake, tmp_path: Path) -> Callable[[str, list[Row]], Path]:
    """Give what writes a file of a table as DMS does, in a folder."""

    def write(name: str, rows: list[Row]) -> Path:
        lake.frame(COLUMNS, rows).coalesce(1).write.parquet(str(tmp_path / "made"))
        [made] = (tmp_path / "made").glob("part-*.parquet")
        (tmp_path / "parts").mkdir(exist_ok=True)
        file = made.rename(tmp_path / "parts" / f"{name}.parquet")
        for left in (tmp_path / "made").iterdir():
            left.unlink()
        for left in (tmp_path / "parts").glob(".*"):
            left.unlink()
        (tmp_path / "made").rmdir()
        return file

    return write


@pytest.mark.minutes
def test_a_truncate_takes_the_files_away_and_raises_the_alarm(
    project: Project,
    lake: Lake,
    files: Callable[[str, list[Row]], Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    loaded = files("LOAD00000001", [load(0, "a", 0), load(0, "b", 0)])
    project.file(
        "models/_src_landing.yml",
        "sources: [{name: landing, schema: parquet, quoting: {identifier: true}, tables: "
        f"[{{name: parts, identifier: {loaded.parent}}}]}}]",
    )
    models(project, "source('landing', 'parts')", "before_prefix='BI_'")
    run = ("run", "--select", *TABLES)
    project.dbt(*run, "--full-refresh")
    first = files("20240801-061000000", [row("U", 10, "a", 1, "a")])
    project.dbt("--no-quiet", *run)
    assert "begins at" not in capfd.readouterr().out

    loaded.unlink()
    first.unlink()
    files("20240801-063000000", [row("I", 30, "a", 5)])
    with pytest.raises(DbtError, match=f"begins at {seq(30)}, but .* only read up to {seq(10)}"):
        project.dbt(*run, "--vars", "{afterimage_on_gap: error}")
    project.dbt(*run)
    history = lake.contents(*TABLES)["parts_history"]
    # What the truncate ended nobody says, so `b` lives on.
    assert sorted((v["id"], v["value"]) for v in history if v["is_current"]) == [("a", 5), ("b", 0)]
