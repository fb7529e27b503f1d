"""Changes of which a part has left the raw table: what was taken in stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from conftest import SCHEMA, Lake, Project, relation
from dialect_db2 import DB2_HEADER
from dialect_openedge import CHANGE_COLUMNS, TRACKING_COLUMNS
from dialect_sqlserver import HEADER
from reference import Row

pytestmark = pytest.mark.slow

SEQ = "2024022923595999000000000000000010"
QLIK = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
    "id": "string",
    "note": "string",
}
SERVER = {**HEADER, "id": "string", "note": "string"}
DB2 = {
    **DB2_HEADER,
    "IBMSNAP_LOGMARKER": "timestamp",
    "id": "string",
    "note": "string",
}
OPENEDGE = {**CHANGE_COLUMNS, "id": "string", "note": "string"}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project]) -> Project:
    return make_project("half_is_gone")


def of_qlik(place: int | None, letter: str, key: str, note: str, day: int = 1) -> Row:
    return {
        "header__change_seq": None if place is None else f"{SEQ}{place}",
        "header__change_oper": letter,
        "header__timestamp": datetime(2024, 3, day),
        "id": key,
        "note": note,
    }


def of_server(commit: int, operation: int, key: str, note: str) -> Row:
    return {
        "__$start_lsn": commit.to_bytes(10, "big"),
        "__$seqval": b"\x00" * 9 + b"\x01",
        "__$operation": operation,
        "__$update_mask": b"\x03",
        "id": key,
        "note": note,
    }


def of_db2(commit: int, intent: int, letter: str, key: str, note: str, day: int = 1) -> Row:
    return {
        "IBMSNAP_COMMITSEQ": commit.to_bytes(16, "big"),
        "IBMSNAP_INTENTSEQ": intent.to_bytes(16, "big"),
        "IBMSNAP_OPERATION": letter,
        "IBMSNAP_LOGMARKER": datetime(2024, 3, day),
        "id": key,
        "note": note,
    }


def of_openedge(sequence: int, operation: int, key: str | None, note: str, **more: Any) -> Row:
    header = {"_Tran-Id": 9, "_Change-Sequence": sequence, "_Operation": operation}
    return {**header, "_Time-Stamp": datetime(2024, 3, 1), "id": key, "note": note, **more}


def models(project: Project, tables: dict[str, str]) -> tuple[str, ...]:
    """Write a staging model for each raw table, whose macro and arguments are given."""
    for table, call in tables.items():
        macro, arguments = call.split("(", 1)
        project.stream(
            f"stg_{table}",
            f"{macro}({relation(table)}, unique_key=['id']{arguments}",
            on_schema_change="append_new_columns",
        )
    return tuple(f"stg_{table}" for table in tables)


# What each source writes for two updates: one changes the key, the other does not.
PAIRS: dict[str, tuple[dict[str, str], list[Row], list[Row]]] = {
    "qlik_halves": (
        QLIK,
        [of_qlik(1, "B", "a", "x"), of_qlik(2, "B", "c", "x")],
        [of_qlik(1, "U", "b", "x"), of_qlik(2, "U", "c", "y")],
    ),
    "server_halves": (
        SERVER,
        [of_server(4, 1, "a", "x"), of_server(5, 3, "c", "x"), of_server(6, 1, "d", "x")],
        [of_server(4, 2, "b", "x"), of_server(5, 4, "c", "y"), of_server(6, 2, "d", "y")],
    ),
    "db2_halves": (
        DB2,
        [of_db2(1, 1, "D", "a", "x"), of_db2(2, 1, "D", "c", "x")],
        [of_db2(1, 2, "I", "a", "y"), of_db2(2, 2, "I", "c", "y")],
    ),
    "openedge_halves": (
        OPENEDGE,
        [of_openedge(5, 3, "a", "x"), of_openedge(6, 3, "c", "x")],
        [of_openedge(5, 4, "b", "x"), of_openedge(6, 4, "c", "y")],
    ),
}
CALLS = {
    "qlik_halves": "qlik_change_table()",
    "server_halves": "sqlserver_change_table()",
    "db2_halves": "db2_change_data(, before_prefix=none)",
    "openedge_halves": "openedge_change_table()",
}


@pytest.mark.parametrize("half", [0, 1], ids=["the row before", "the row after"])
def test_a_change_stays_whole_when_half_of_it_comes_again(
    half: int, project: Project, lake: Lake
) -> None:
    names = models(project, CALLS)
    for table, (columns, before, after) in PAIRS.items():
        lake.create(table, columns, before + after)
    project.dbt("run", "--select", *names, "--full-refresh")
    whole = lake.contents(*names)
    assert all(
        change["operation"] == "update" and change["before"] is not None
        for changes in whole.values()
        for change in changes
    )
    for table, (columns, *halves) in PAIRS.items():
        # Twice, so that no count of rows tells what is gone.
        lake.create(table, columns, halves[half] * 2)
    project.dbt("run", "--select", *names)
    assert lake.contents(*names) == whole


def test_a_split_record_stays_whole_when_a_part_of_it_comes_again(
    project: Project, lake: Lake
) -> None:
    """Whichever part is there, and whichever comes first. The tracking rows are still there.

    The update 8 takes in the new column though its row before is gone: what that had there is not
    known. The insert 9 was never split, and landed again without a value that was wrong.
    """
    tables = {"halves_zero_first": "zero_first", "halves_zero_last": "zero_last"}
    columns = {**OPENEDGE, "price": "int", "shelf": "string"}
    tracking: list[Row] = [
        {"_Change-Sequence": place, "_Operation": operation, "_Source-Table-Number": 12}
        for place, operation in [(7, 1), (8, 4), (9, 1)]
    ]
    tracking[1]["_Change-FieldMap"] = "id"
    odd = ["the field map leaves out what changed: price"]

    def parts(order: str) -> tuple[Row, Row]:
        positions = (0, 2) if order == "zero_first" else (2, 0)
        first, second = [
            {"_Continuation-Position": position, "_Fragment": min(position, 1)}
            for position in positions
        ]
        return (
            of_openedge(7, 1, "d", "A tent; for", **first),
            of_openedge(7, 1, None, " two", price=9, shelf="D4", **second),
        )

    before = of_openedge(8, 3, "e", "x", price=1, shelf="C3")
    after = of_openedge(8, 4, "f", "x", price=2, shelf="C3")
    unsplit = of_openedge(9, 1, "g", "NULL", price=5, shelf="E5")

    def declare(names: list[str]) -> tuple[str, ...]:
        more = f", columns={names}, tracking={relation('halves_tracking')}, source_table_number=12"
        return models(
            project,
            {
                table: f"openedge_change_table({more}, split_order='{order}')"
                for table, order in tables.items()
            },
        )

    def staged() -> list[tuple[Any, ...]]:
        return [
            (
                int(row["change_seq"]),
                *((image := row[side]) and tuple(image.values()) for side in ("before", "after")),
                row["reject_reason"],
                row["warnings"],
                row["source_rows"],
            )
            for table in tables
            for row in lake.rows(f"select * from {SCHEMA}.stg_{table} order by change_id")
        ]

    lake.create("halves_tracking", TRACKING_COLUMNS, tracking)
    for table, order in tables.items():
        lake.create(table, columns, [*parts(order), before, after, unsplit])
    names = declare(["id", "note", "price"])
    project.dbt("run", "--select", *names, "--full-refresh")
    good: list[tuple[Any, ...]] = [
        (7, None, ("d", "A tent; for two", 9), None, None, 3),
        (8, ("e", "x", 1), ("f", "x", 2), None, odd, 3),
        (9, None, ("g", "NULL", 5), None, None, 2),
    ]
    assert staged() == good * 2
    names = declare(["id", "note", "price", "shelf"])
    good = [
        (7, None, ("d", "A tent; for two", 9, None), None, None, 3),
        (8, ("e", "x", 1, "C3"), ("f", "x", 2, "C3"), None, odd, 3),
        (9, None, ("g", None, 5, "E5"), None, None, 2),
    ]
    for part in (0, 1):
        for table, order in tables.items():
            rows = [*[parts(order)[part]] * 2, after, {**unsplit, "note": None}]
            lake.create(table, columns, rows)
        project.dbt("run", "--select", *names)
        assert staged() == good * 2


def test_what_is_still_there_of_an_update_may_have_new_values(project: Project, lake: Lake) -> None:
    names = models(project, {"qlik_halves": "qlik_change_table(, columns=['id'])"})
    columns, before, after = PAIRS["qlik_halves"]
    lake.create("qlik_halves", columns, before + after)
    project.dbt("run", "--select", *names, "--full-refresh")
    lake.create("qlik_halves", columns, after)
    names = models(project, {"qlik_halves": CALLS["qlik_halves"]})
    project.dbt("run", "--select", *names)
    assert told(lake, "stg_qlik_halves") == [("a", None, "b", "x"), ("c", None, "c", "y")]


def told(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """Give the images of the good changes, in order."""
    found = lake.rows(
        "select `before`.id as old, `before`.note as was, `after`.id as new, `after`.note as is_now"
        f" from {SCHEMA}.{table} where reject_reason is null order by change_seq"
    )
    return [tuple(row.values()) for row in found]


def test_a_change_keeps_the_columns_that_the_later_instance_of_sql_server_brought(
    project: Project, lake: Lake
) -> None:
    names = models(
        project, {"server_later": f"sqlserver_change_table(, earlier={relation('server_earlier')})"}
    )
    rows = [of_server(5, 3, "c", "x"), of_server(5, 4, "c", "y"), of_server(6, 1, "e", "z")]
    earlier = {name: kind for name, kind in SERVER.items() if name != "note"}
    lake.create(
        "server_earlier", earlier, [{name: row.get(name) for name in earlier} for row in rows]
    )
    lake.create("server_later", SERVER, rows)
    project.dbt("run", "--select", *names, "--full-refresh")
    whole = lake.contents(*names)
    assert told(lake, *names) == [("c", "x", "c", "y"), ("e", "z", None, None)]
    lake.create("server_later", SERVER, [of_server(7, 2, "d", "z")])
    project.dbt("run", "--select", *names)
    found = lake.contents(*names)["stg_server_later"]
    assert found[:2] == whole["stg_server_later"]
    assert len(found) == 3


def test_a_load_that_was_sent_before_does_not_replace_a_later_one(
    project: Project, lake: Lake
) -> None:
    names = models(
        project,
        {
            "qlik_loads": "qlik_change_table()",
            "db2_loads": "db2_change_data(, before_prefix=none)",
            "dms_loads": "dms_changes(, time='loaded_at')",
            "db2_states": "db2_change_data(, before_prefix=none, condensed=true)",
            "db2_loaded_states": "db2_change_data(, before_prefix=none, condensed=true)",
        },
    )
    dms = {"loaded_at": "timestamp", "id": "string", "note": "string"}
    found = []
    # The last has the values of the first, and a later time.
    for run, (note, day) in enumerate([("old", 1), ("new", 2), ("old", 1), ("old", 3)]):
        loaded_at = datetime(2024, 3, day)
        lake.create("qlik_loads", QLIK, [of_qlik(None, "I", "a", note, day)])
        lake.create("db2_loads", DB2, [of_db2(0, 0, "I", "a", note, day)])
        lake.create("dms_loads", dms, [{"loaded_at": loaded_at, "id": "a", "note": note}])
        lake.create("db2_states", DB2, [of_db2(day, 1, "U", "a", note, day)])
        # The first of its rows is a load, which bears no commit.
        commit, letter = (0, "I") if day == 1 else (day, "U")
        lake.create("db2_loaded_states", DB2, [of_db2(commit, 1, letter, "a", note, day)])
        project.dbt("run", "--select", *names, *([] if run else ["--full-refresh"]))
        found.append({name: told(lake, name)[-1][-1] for name in names})
    assert found == [dict.fromkeys(names, note) for note in ("old", "new", "new", "old")]


def test_a_load_that_came_twice_keeps_its_first_time(project: Project, lake: Lake) -> None:
    """The first copy has left the raw table when a new column makes a run read the other."""
    calls = {
        "qlik_copies": "qlik_change_table(",
        "db2_copies": "db2_change_data(, before_prefix=none",
        "dms_copies": "dms_changes(, time='loaded_at'",
    }
    names = models(project, {table: call + ", columns=['id'])" for table, call in calls.items()})

    def land(*days: int) -> None:
        lake.create("qlik_copies", QLIK, [of_qlik(None, "I", "a", "x", day) for day in days])
        lake.create("db2_copies", DB2, [of_db2(0, 0, "I", "a", "x", day) for day in days])
        dms = {"loaded_at": "timestamp", "id": "string", "note": "string"}
        loads = [{"loaded_at": datetime(2024, 3, day), "id": "a", "note": "x"} for day in days]
        lake.create("dms_copies", dms, loads)

    land(1, 3)
    project.dbt("run", "--select", *names, "--full-refresh")
    land(3)
    models(project, {table: call + ")" for table, call in calls.items()})
    project.dbt("run", "--select", *names)
    for name in names:
        [load] = lake.contents(name)[name]
        assert (load["changed_at"], load["after"]["note"]) == (datetime(2024, 3, 1), "x"), name


def test_a_before_image_may_be_wider_than_its_column(project: Project, lake: Lake) -> None:
    columns = {**DB2_HEADER, "id": "bigint", "XID": "int", "n": "int", "Xn": "bigint"}
    row = {name: of_db2(1, 1, "U", "a", "x")[name] for name in DB2_HEADER}
    names = models(project, {"db2_wider": "db2_change_data()"})
    lake.create("db2_wider", columns, [row | {"id": 20, "XID": 2, "n": 5, "Xn": 4}])
    project.dbt("run", "--select", *names, "--full-refresh")
    [change] = lake.contents(*names)["stg_db2_wider"]
    assert (change["before"], change["after"]) == ({"id": 2, "n": 4}, {"id": 20, "n": 5})
