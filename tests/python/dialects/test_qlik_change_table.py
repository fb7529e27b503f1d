"""Raw rows in, history out, with any order, batches and repeats of delivery."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SCHEMA, Lake, Project, relation
from deliveries import count_rows, run_in_batches_and_at_once
from dialect_qlik import HEADER, as_staged, landed_rows
from histories import EXAMPLES, assert_same_history, fewer_checks
from reference import history
from strategies import merged_streams, splits

RAW = "random_orders__ct"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("qlik_change_table")


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 2))
def test_any_order_any_batches_and_repeats_give_what_one_batch_gives(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(8, max_changes=12, honest=True, trades=True))
    batches = data.draw(splits(landed_rows(stream)))
    columns = {**HEADER, **{name: stream.types[name] for name in stream.columns}}
    key = stream.unique_key
    project.stream("stg_random", f"qlik_change_table({relation(RAW)}, unique_key={key})")
    project.history("random_history", "stg_random", key)

    found = run_in_batches_and_at_once(
        *(project, lake, ("stg_random", "random_history")),
        [{RAW: (columns, batch)} for batch in batches],
    )[-1]
    expected = history([as_staged(c) for c in stream.changes], key, stream.columns)
    assert_same_history(found["random_history"], expected, stream)
    assert count_rows(found["stg_random"]) == sum(map(len, batches))


ARRIVALS_RAW = "arrivals__ct"
ARRIVALS_COLUMNS = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "int",
    "name": "string",
}


def arrived(seq: str | None, letter: str, name: str, id: int = 1) -> dict[str, Any]:
    return {"header__change_seq": seq, "header__change_oper": letter, "id": id, "name": name}


def at(minute: int, number: int = 1) -> str:
    return f"2024010112{minute:02}{'0' * 4}{number:019}"


FIRST_ARRIVALS = [
    arrived(None, "I", "loaded", 7),
    arrived(at(1), "I", "a"),
    arrived(at(2), "U", "b"),
    arrived(at(3), "U", "c"),
]
# What arrives, what the run must take in, and whether all rows of before are gone by then.
ARRIVALS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]], bool]] = {
    "nothing": ([], [], False),
    "newer changes": (
        [arrived(at(4), "U", "d"), arrived(at(5), "D", "d")],
        [("update", "d"), ("delete", "d")],
        False,
    ),
    "a late one": ([arrived(at(2, 2), "U", "late")], [("update", "late")], False),
    "a before-image": ([arrived(at(3), "B", "b")], [("update", "c")], False),
    "a copy, which is counted": ([arrived(at(2), "U", "b")], [], False),
    "a load row, its place all zeros": (
        [arrived("0" * 35, "I", "loaded too", 8)],
        [("load", "loaded too")],
        False,
    ),
    "one that cannot be read and looks newer": (
        [arrived(f"{at(5)[:-1]}X", "U", "newer?")],
        [("update", "newer?")],
        False,
    ),
    "one that cannot be read, and a newer one": (
        [arrived("17", "U", "?"), arrived(at(9), "U", "e")],
        [("update", "?"), ("update", "e")],
        False,
    ),
    "one with blanks around it": (
        [arrived(f"  {at(8)} ", "U", "blanks")],
        [("update", "blanks")],
        False,
    ),
    "a copy of that without blanks": ([arrived(at(8), "U", "blanks")], [], False),
    "a rejected one of a far future": (
        [arrived(at(1).replace("2024", "2999"), "U", "nobody's") | {"id": None}],
        [("update", "nobody's")],
        False,
    ),
    "a newer one before that": ([arrived(at(10), "U", "f")], [("update", "f")], False),
    "nothing, in a table that is emptied when it has been read": ([], [], True),
    "as many load rows there as were known": (
        [arrived(None, "I", f"anew {id}", id) for id in (7, 8, 9)],
        [("load", "anew 7"), ("load", "anew 8"), ("load", "anew 9")],
        True,
    ),
}


@pytest.mark.minutes
def test_a_run_reads_what_has_landed(project: Project, lake: Lake) -> None:
    raw = relation(ARRIVALS_RAW)
    project.stream("stg_arrivals", f"qlik_change_table({raw}, unique_key=['id'])")
    run = ("run", "--select", "stg_arrivals", "--vars", "afterimage_on_gap: ignore")
    lake.create(ARRIVALS_RAW, ARRIVALS_COLUMNS, FIRST_ARRIVALS)
    project.dbt(*run, "--full-refresh")
    newest = f"select max(ingested_at) as ingested_at from {SCHEMA}.stg_arrivals"

    for name, (rows, staged, is_emptied) in ARRIVALS.items():
        before = lake.rows(newest)[0]["ingested_at"]
        if is_emptied:
            lake.create(ARRIVALS_RAW, ARRIVALS_COLUMNS, rows)
        else:
            lake.append(ARRIVALS_RAW, ARRIVALS_COLUMNS, rows)
        project.dbt(*run)
        taken_in = lake.rows(
            "select operation, coalesce(`after`, `before`).name as name"
            f" from {SCHEMA}.stg_arrivals where ingested_at > '{before}'"
            " order by change_seq, name"
        )
        assert [(row["operation"], row["name"]) for row in taken_in] == staged, name


@pytest.mark.minutes
@pytest.mark.parametrize("times", [(None, None, None), (1, 2, 3)])
def test_a_load_into_an_emptied_table_replaces_earlier_ones(
    times: tuple[int | None, ...], project: Project, lake: Lake
) -> None:
    raw = relation("reloaded__ct")
    project.stream("stg_reloaded", f"qlik_change_table({raw}, unique_key=['id'])")
    project.history("reloaded_history", "stg_reloaded")
    run = ("run", "--select", "stg_reloaded", "reloaded_history")
    loads = [
        arrived(None, "I", name) | {"header__timestamp": day and datetime(2024, 1, day)}
        for name, day in zip(["first", "second", "third"], times, strict=True)
    ]
    lake.create("reloaded__ct", ARRIVALS_COLUMNS, loads[:2])
    project.dbt(*run, "--full-refresh")
    lake.create("reloaded__ct", ARRIVALS_COLUMNS, loads[2:])
    project.dbt(*run)
    good = lake.rows(f"select after.name from {SCHEMA}.stg_reloaded where reject_reason is null")
    assert good == [{"name": "third"}]
    assert lake.rows(f"select name from {SCHEMA}.reloaded_history") == good


DATA = [f"c{number:02}" for number in range(1, 11)]


def compiled(project: Project, table: str, arguments: str = "") -> str:
    raw = relation(table)
    return project.sql(f"qlik_change_table({raw}, unique_key=['c01']{arguments})")


def test_a_load_row_keeps_its_id_with_any_order_and_case_of_the_key(
    project: Project, lake: Lake
) -> None:
    loaded = {"header__change_oper": "I", "c01": "1", "c02": "a"}
    lake.create("loads__ct", HEADER | dict.fromkeys(DATA, "string"), [loaded])
    raw = relation("loads__ct")
    ids = {
        row["change_id"]
        for key in (["c01", "c02"], ["C02", "C01"])
        for row in lake.rows(project.sql(f"qlik_change_table({raw}, unique_key={key})"))
    }
    assert len(ids) == 1


def test_the_place_of_a_second_is_in_utc_in_any_session(project: Project, lake: Lake) -> None:
    place = "20240301043000000000000000000000001"
    start = f"_qlik_seq_at(_sequence_time(\"'{place}'\"))"
    query = project.compile("select {{ " + start + " }} as place")
    zone = "spark.sql.session.timeZone"
    shipped = lake.spark.conf.get(zone)
    lake.spark.conf.set(zone, "Asia/Tokyo")
    try:
        assert lake.rows(query) == [{"place": f"20240301043000{'0' * 21}"}]
    finally:
        lake.spark.conf.set(zone, shipped or "UTC")


def test_m14_header_column_that_the_table_is_partitioned_by_counts(
    project: Project, lake: Lake
) -> None:
    """A landed table may have it after the data, and a column of the landing besides."""
    moved = dict.fromkeys(["header__landed_by", "header__partition_name"], "string")
    types = HEADER | dict.fromkeys(DATA, "string") | moved
    update = {
        "header__change_seq": f"2024010112010000{1:019}",
        "header__change_oper": "U",
        "header__change_mask": bytes.fromhex("001602"),
        "header__transaction_id": " ",
        "c01": "1",
        "c03": "new",
    }
    lake.create("partitioned__ct", types, [update])
    rows = lake.rows(compiled(project, "partitioned__ct"))
    assert [(row["changed_columns"], row["warnings"]) for row in rows] == [
        (["c02", "c03", "c05", "c10"], ["changed_at is taken from change_seq"])
    ]
    assert rows[0]["transaction_id"] is None  # a blank one would be one for all


def test_table_that_does_not_begin_with_its_header_is_read_in_the_order_given(
    project: Project, lake: Lake
) -> None:
    """The first column is one of the landing, and no bit of the mask belongs to it."""
    update = {
        "_landed_by": "nobody",
        "header__change_seq": f"2024010112010000{1:019}",
        "header__change_oper": "U",
        "header__change_mask": bytes.fromhex("001602"),
        "header__transaction_id": "t",
        "c01": "1",
        "c03": "new",
    }
    types = {"_landed_by": "string"} | HEADER | dict.fromkeys(DATA, "string")
    lake.create("led__ct", types, [update])
    rows = lake.rows(compiled(project, "led__ct", f", header_columns=8, columns={DATA}"))
    assert [row["changed_columns"] for row in rows] == [["c02", "c03", "c05", "c10"]]


def update_with_before(
    number: int, bits: bytes, before: dict[str, str | None], after: dict[str, str | None]
) -> list[dict[str, Any]]:
    """Return an update and its before-image as Qlik lands them."""
    common = {
        "header__change_seq": f"2024010112010000{number:019}",
        "header__timestamp": datetime(2024, 1, 1, 12, 1),
    }
    return [
        {**common, "header__change_oper": "B", "header__change_mask": b"", **before},
        {**common, "header__change_oper": "U", "header__change_mask": bits, **after},
    ]


def flags(columns: list[str], header_columns: int = len(HEADER)) -> bytes:
    bits = sum(1 << (header_columns + DATA.index(name)) for name in columns)
    return bits.to_bytes(3, "little")


@pytest.mark.parametrize("deliveries", [1, 2], ids=["plain", "delivered twice"])
def test_a_mask_that_leaves_out_a_change_gets_a_warning(
    deliveries: int, project: Project, lake: Lake
) -> None:
    """NULL on either side contradicts nothing: Qlik writes it for what it did not capture."""
    contradicted = update_with_before(
        1,
        flags(["c05"]),
        {"c01": "1", "c02": "a", "c03": "x", "c04": None, "c05": "p", "c06": "q"},
        {"c01": "1", "c02": "b", "c03": None, "c04": "new", "c05": "r", "c06": "q"},
    )
    agreeing = update_with_before(
        2, flags(["c02", "c03"]), {"c01": "1", "c02": "b"}, {"c01": "1", "c02": "c"}
    )
    lake.create(
        "contradicted__ct",
        HEADER | dict.fromkeys(DATA, "string"),
        (contradicted + agreeing) * deliveries,
    )
    staged = lake.rows(f"{compiled(project, 'contradicted__ct')} order by change_seq")
    assert [row["warnings"] for row in staged] == [
        ["change_mask does not flag what changed: c02"],
        None,
    ]
    assert staged[0]["absent_columns"] == ["c03", "c07", "c08", "c09", "c10"]
    assert [row["source_rows"] for row in staged] == [2 * deliveries] * 2


WIDE = [f"c{number:02}" for number in range(1, 1201)]
FLAGGED = [2, 64, 65, 513, 1018, 1200]  # beside what 64 bits and 128 bytes can hold


@pytest.mark.minutes
def test_a_mask_of_1200_columns_is_decoded_right(project: Project, lake: Lake) -> None:
    old = dict.fromkeys(WIDE, "old")
    new = old | {WIDE[number - 1]: "new" for number in FLAGGED}
    rows = []
    for minute, letter, flagged, values in [(1, "I", range(1, 1201), old), (2, "U", FLAGGED, new)]:
        bits = sum(1 << (len(HEADER) + number - 1) for number in flagged)
        header: dict[str, Any] = {"header__change_seq": at(minute), "header__change_oper": letter}
        header["header__timestamp"] = datetime(2024, 1, 1, 12, minute)
        header["header__change_mask"] = bits.to_bytes(151, "little")
        rows.append(header | values)
    lake.create("wide__ct", HEADER | dict.fromkeys(WIDE, "string"), rows)
    insert, update = lake.rows(f"{compiled(project, 'wide__ct')} order by change_seq")
    assert insert["changed_columns"] == WIDE
    assert update["changed_columns"] == [WIDE[number - 1] for number in FLAGGED]
    assert (insert["after"], update["after"]) == (old, new)
    assert [row["warnings"] for row in (insert, update)] == [None, None]
    assert [row["reject_reason"] for row in (insert, update)] == [None, None]


SHIFTED = "stg_shifted"


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        (["header__stream_position"], "`header_columns`=7 (now 6), {0} of {0} fit"),
        ([], None),
    ],
)
def test_masks_that_contradict_most_updates_get_a_warning_with_a_remedy(
    lost: list[str],
    expected: str | None,
    project: Project,
    lake: Lake,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The task wrote seven header columns; the landing may have lost one."""
    columns = {
        name: kind
        for name, kind in (HEADER | dict.fromkeys(DATA, "string")).items()
        if name not in lost
    }
    same: dict[str, str | None] = dict.fromkeys(DATA, "same")
    rows = [
        row
        for number, name in enumerate(["c02", "c05", "c09", "c03"], start=1)
        for row in update_with_before(number, flags([name]), same, same | {name: "other"})
    ]
    raw = relation("shifted__ct")
    project.stream(SHIFTED, f"qlik_change_table({raw}, unique_key=['c01'])")

    def said(*arguments: str) -> str:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", SHIFTED, *arguments)
        return capfd.readouterr().out

    def holds(output: str, updates: int) -> bool:
        if expected is None:
            return "contradict" not in output
        return f"{updates} of {updates} updates" in output and expected.format(updates) in output

    lake.create("shifted__ct", columns, rows)
    assert holds(said("--full-refresh"), 4)
    assert "contradict" not in said()  # nothing new to look at
    # Few rows tell little: only the changes themselves are warned of.
    lake.append("shifted__ct", columns, repeated(rows, 1))
    assert "contradict" not in said()
    turns = range(2, 127)
    lake.append("shifted__ct", columns, [row for turn in turns for row in repeated(rows, turn)])
    assert holds(said(), 4 * len(turns))
    warned = lake.rows(f"select count_if(warnings is not null) as n from {SCHEMA}.{SHIFTED}")
    assert warned == [{"n": 4 * (len(turns) + 2) if expected else 0}]


def repeated(rows: list[dict[str, Any]], turn: int) -> list[dict[str, Any]]:
    """Return the same rows as changes that come later."""
    return [
        {**row, "header__change_seq": str(int(row["header__change_seq"]) + 100 * turn)}
        for row in rows
    ]


def test_more_than_a_thousand_changes_of_a_key_may_share_a_change_seq(
    project: Project, lake: Lake
) -> None:
    """They are ordered by time, because the vendor's number has too few digits."""
    start = datetime(2024, 1, 1, 12, 1)
    inserts = [
        arrived(at(1), "I", f"name {number}")
        | {"header__timestamp": start + timedelta(seconds=number)}
        for number in range(1100)
    ]
    lake.create("tied__ct", ARRIVALS_COLUMNS, inserts)
    raw = relation("tied__ct")
    query = project.sql(f"qlik_change_table({raw}, unique_key=['id'])")
    staged = lake.rows(f"{query} order by change_seq")
    assert [row["after"]["name"] for row in staged] == [row["name"] for row in inserts]
    places = [row["change_seq"] for row in staged]
    assert (places[1], places[999]) == (f"{at(1)}.002", f"{at(1)}.999.000001000")
    assert len(set(places)) == len({row["change_id"] for row in staged}) == 1100


def test_an_empty_header_prefix_means_qliks_own_names(project: Project, lake: Lake) -> None:
    header = {
        name.removeprefix("header__"): kind
        for name, kind in (HEADER | {"header__partition_name": "string"}).items()
    }
    update = {
        "change_seq": f"2024010112010000{1:019}",
        "change_oper": "U",
        "change_mask": flags(["c02", "c10"], header_columns=8),
        "stream_position": "0000012f:00000001",
        "timestamp": datetime(2024, 1, 1, 12, 1, 7),
        "transaction_id": "t1",
        "c01": "1",
        "c02": "new",
    }
    lake.create("bare__ct", header | dict.fromkeys(DATA, "string"), [update])
    [row] = lake.rows(compiled(project, "bare__ct", ", header_prefix=''"))
    assert row["changed_columns"] == ["c02", "c10"]
    assert list(row["after"]) == DATA
    assert (row["changed_at"], row["transaction_id"]) == (update["timestamp"], "t1")
    assert row["warnings"] is None


def landed(number: int, letter: str, bits: bytes | None, **values: str | None) -> dict[str, Any]:
    return {
        "header__change_seq": f"2024010112010000{number:019}",
        "header__change_oper": letter,
        "header__change_mask": bits,
        "header__timestamp": datetime(2024, 1, 1, 12, 1),
        **values,
    }


def test_a_null_that_an_insert_does_not_flag_is_a_null(project: Project, lake: Lake) -> None:
    """Qlik: an insert flags all inserted columns. The new row has no value in any other."""
    insert = landed(1, "I", flags(["c01", "c03"]), c01="1")
    lake.create("inserted__ct", HEADER | dict.fromkeys(DATA, "string"), [insert])
    [row] = lake.rows(compiled(project, "inserted__ct"))
    assert row["after"] == dict.fromkeys(DATA) | {"c01": "1"}
    assert (row["changed_columns"], row["absent_columns"]) == (["c01", "c03"], None)
    assert row["warnings"] is None


@pytest.mark.slow
def test_a_table_that_gets_its_mask_later_keeps_what_is_not_captured_from_then_on(
    project: Project, lake: Lake
) -> None:
    """Before that NULL counts as the value, as the docs say; a before-image does not show it."""
    project.stream(
        "stg_unmasked", f"qlik_change_table({relation('unmasked__ct')}, unique_key=['c01'])"
    )
    project.history("unmasked_history", "stg_unmasked", ["c01"])
    mask = "header__change_mask"
    types = HEADER | dict.fromkeys(DATA, "string")
    unmasked = {name: kind for name, kind in types.items() if name != mask}

    def told(place: int, letter: str, name: str, text: str | None, *flagged: str) -> dict[str, Any]:
        bits = flags(list(flagged)) if flagged else None
        return landed(place, letter, bits, c01="1", c02=name, c03=text)

    def texts(*arguments: str) -> list[tuple[str, str | None]]:
        project.dbt("run", "--select", "stg_unmasked", "unmasked_history", *arguments)
        rows = lake.rows(f"select * from {SCHEMA}.unmasked_history order by version")
        return [(row["c02"], row["c03"]) for row in rows]

    rows = [
        told(1, "I", "a", "long"),
        told(2, "B", "a", None),
        told(2, "U", "b", None),
        told(3, "U", "b", "longer"),
    ]
    lake.create("unmasked__ct", unmasked, rows)
    lost = [("a", "long"), ("b", None), ("b", "longer")]
    assert texts("--full-refresh") == lost
    lake.spark.sql(f"alter table {SCHEMA}.unmasked__ct add columns ({mask} binary)")
    lake.append("unmasked__ct", types, [told(4, "U", "c", None, "c02")])
    for arguments in [], ["--full-refresh"]:
        assert texts(*arguments) == [*lost, ("c", "longer")]


DELETE_MASKS: list[tuple[bytes | None, str | None]] = [
    (flags(["c01", "c02"]), None),
    (None, None),
    (b"", None),
    (flags([]), None),
    (flags(["c01"]), "c01"),
    (flags(["c01", "c02", "c03"]), "c01, c02, c03"),
    (flags(["c04"]), "c04"),
]


def test_a_delete_whose_mask_flags_another_key_gets_a_warning(project: Project, lake: Lake) -> None:
    """Qlik: a delete flags only the columns of the primary key or unique index."""
    rows = [
        landed(number, "D", bits, c01="1", c02=str(number))
        for number, (bits, _) in enumerate(DELETE_MASKS)
    ]
    lake.create("ended__ct", HEADER | dict.fromkeys(DATA, "string"), rows)
    raw = relation("ended__ct")
    query = project.sql(f"qlik_change_table({raw}, unique_key=['C02', 'c01'])")
    assert [row["warnings"] for row in lake.rows(f"{query} order by change_seq")] == [
        flagged and [f"change_mask of a delete flags {flagged}, and unique_key is c01, c02"]
        for _, flagged in DELETE_MASKS
    ]


@pytest.mark.parametrize("deliveries", [1, 2], ids=["plain", "delivered twice"])
def test_before_images_are_those_of_the_vendors_self_join(
    deliveries: int, project: Project, lake: Lake
) -> None:
    rows = [
        landed(1, "I", None, c01="1", c02="a"),
        *update_with_before(2, flags(["c02"]), {"c01": "1", "c02": "a"}, {"c01": "1", "c02": "b"}),
        *update_with_before(3, flags(["c01"]), {"c01": "1", "c02": "b"}, {"c01": "2", "c02": "b"}),
        landed(4, "U", flags(["c02"]), c01="2", c02="c"),
        landed(5, "D", flags(["c01"]), c01="2", c02="c"),
    ]
    table = f"joined__ct_{deliveries}"
    lake.create(table, HEADER | dict.fromkeys(DATA, "string"), rows * deliveries)
    by_join = lake.rows(
        "select distinct changes.header__change_seq as change_seq, changes.c01, changes.c02,"
        " befores.c01 as old_c01, befores.c02 as old_c02"
        f" from {SCHEMA}.{table} as changes left outer join {SCHEMA}.{table} as befores"
        " on changes.header__change_seq = befores.header__change_seq"
        " and befores.header__change_oper = 'B'"
        " where changes.header__change_oper <> 'B' order by change_seq"
    )
    staged = lake.rows(
        "select change_seq, coalesce(after, before).c01 as c01, coalesce(after, before).c02 as c02,"
        " if(operation = 'update', before, null).c01 as old_c01,"
        " if(operation = 'update', before, null).c02 as old_c02"
        f" from ({compiled(project, table)}) as staged order by change_seq"
    )
    assert len(by_join) == 5
    assert staged == by_join


def test_rows_without_their_key_part_no_key_change(project: Project, lake: Lake) -> None:
    """A landing had lost the key, and its rows lie beside those of another."""
    rows = [
        arrived(at(1), "I", "a", 1),
        arrived(at(2), "B", "a", 1),
        arrived(at(2), "U", "a", 2),
        arrived(at(2), "B", "a") | {"id": None},
        arrived(at(2), "U", "a") | {"id": None},
        arrived(at(3), "B", "a", 2),
        arrived(at(3), "U", "b") | {"id": None},
    ]
    lake.create("keyless__ct", ARRIVALS_COLUMNS, rows)
    sql = project.sql(f"qlik_change_table({relation('keyless__ct')}, unique_key=['id'])")
    found = lake.rows(
        "select operation, before.id as old, after.id as new, split(reject_reason, ':')[0] as why,"
        f" source_rows from ({sql}) order by change_seq, why, operation"
    )
    assert [tuple(change.values()) for change in found if not change["why"]] == [
        ("insert", None, 1, None, 1),
        ("update", 1, 2, None, 2),
    ]
    assert [change["why"] for change in found if change["why"]] == [
        *["NULL in the key (id)"] * 3,
        "before-image without its update",
    ]
    assert count_rows(found) == len(rows)


def moved(number: int, old: int, new: int, name: str, second: str = "01") -> list[dict[str, Any]]:
    """Return an update of the key with its before-image; `second` is part of its commit's time."""
    seq = f"202401011201{second}00{number:019}"
    return [arrived(seq, "B", name, old), arrived(seq, "U", name, new)]


STARTED = [arrived(at(0, number), "I", name, number) for number, name in ((1, "a"), (2, "b"))]
KEY_TRADES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    # `id = id + 1`: the row that comes to 2 is not the one that leaves it.
    "a chain": ([*moved(1, 1, 2, "a"), *moved(2, 2, 3, "b")], True),
    "a swap": ([*moved(1, 1, 2, "a"), *moved(2, 2, 1, "b")], True),
    "a chain from its end": ([*moved(1, 2, 3, "b"), *moved(2, 1, 2, "a")], False),
    "one row twice": ([*moved(1, 2, 3, "b"), *moved(2, 3, 4, "b")], False),
    "of two commits": ([*moved(1, 2, 3, "b"), *moved(2, 3, 4, "c", second="02")], False),
}


@pytest.mark.minutes
@pytest.mark.parametrize("name", KEY_TRADES)
def test_rows_that_take_each_others_keys_without_a_transaction_are_reported(
    name: str, project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    moves, is_reported = KEY_TRADES[name]
    project.stream("stg_traded", f"qlik_change_table({relation('traded__ct')}, unique_key=['id'])")

    def said(*arguments: str) -> str:
        capfd.readouterr()
        project.dbt("--no-quiet", "run", "--select", "stg_traded", *arguments)
        return " ".join(capfd.readouterr().out.split())

    warning = f"1 updates (the first with change_seq {moves[2]['header__change_seq']}) take a row"
    lake.create("traded__ct", ARRIVALS_COLUMNS, [*STARTED, *moves])
    assert (warning in said("--full-refresh")) == is_reported
    # A later run looks at what has landed.
    lake.create("traded__ct", ARRIVALS_COLUMNS, STARTED)
    assert "each other" not in said("--full-refresh")
    lake.append("traded__ct", ARRIVALS_COLUMNS, moves)
    assert (warning in said()) == is_reported
    assert "each other" not in said()

    staged = relation("stg_traded")
    disagreeing = lake.rows(project.sql(f"test_before_images_agree({staged}, unique_key=['id'])"))
    assert [row["change_seq"] for row in disagreeing] == (
        [moves[2]["header__change_seq"]] if is_reported or name == "of two commits" else []
    )

    # With a transaction there is nothing to report, and no row is lost.
    columns = ARRIVALS_COLUMNS | {"header__transaction_id": "string"}
    columns = dict(sorted(columns.items(), key=lambda column: not column[0].startswith("header")))
    rows = [
        row | {"header__transaction_id": row["header__change_seq"][:16]}
        for row in [*STARTED, *moves]
    ]
    lake.create("traded__ct", columns, rows)
    assert "each other" not in said("--full-refresh")
    history_of = f"scd2({staged}, unique_key=['id'])"
    current = lake.rows(f"select name from ({project.sql(history_of)}) as h where is_current")
    assert len(current) == 2
