"""`afterimage up`: what the README promises for files of one's own, typed as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from command_line import BIN, environment
from conftest import Lake
from dbt_afterimage.runtime.files import sealed
from pages import page, typed

pytestmark = pytest.mark.minutes

AT = datetime(2024, 5, 1, 8, 0)
SEQ = pyarrow.string()
QLIK = {
    "header__change_seq": SEQ,
    "header__change_oper": SEQ,
    "header__change_mask": pyarrow.binary(),
    "header__timestamp": pyarrow.timestamp("us", tz="UTC"),
}


def qlik(number: int, oper: str, *columns: int, **data: Any) -> dict[str, Any]:
    """Return a row of a Qlik change table; `columns` are those that its mask flags, from 1."""
    bits = sum(1 << (len(QLIK) + column - 1) for column in columns)
    return {
        "header__change_seq": f"2024050108000000{number:019d}",
        "header__change_oper": oper,
        "header__change_mask": bits.to_bytes(2, "little"),
        "header__timestamp": AT.replace(minute=number),
        **data,
    }


def message(number: int, operation: str, mask: str, **data: Any) -> dict[str, Any]:
    headers = {
        "operation": operation,
        "changeSequence": f"2024050108000000{number:019d}",
        "timestamp": f"2024-05-01T08:{number:02d}:00.000",
        "changeMask": mask,
    }
    body = {"data": data, "beforeData": None, "headers": headers}
    return {"value": json.dumps({"magic": "atMSG", "type": "DT", "message": body}), "topic": "t"}


def event(record: int, kind: int, key: str, column: str | None, *values: str) -> dict[str, Any]:
    old, new = values or (None, None)
    return {
        "record_id": record,
        "status": "N",
        "event_type": kind,
        "event_time": AT.replace(minute=record),
        "perpetrator": "APP",
        "table_name": "badge",
        "table_key": key,
        "column_name": column,
        "old_value": old,
        "new_value": new,
    }


TEXT = pyarrow.string()
LANDINGS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "vans__ct": (
        {**QLIK, "id": pyarrow.int32(), "plate": TEXT},
        [
            qlik(1, "I", 1, 2, id=1, plate="AB"),
            qlik(2, "U", 2, id=1, plate="CD"),
            qlik(3, "I", 1, 2, id=2, plate="EF"),
            qlik(4, "D", 1, id=2, plate="EF"),
        ],
    ),
    "trips__ct": (
        {**QLIK, "van": pyarrow.int32(), "day": TEXT, "km": pyarrow.int64()},
        [
            qlik(1, "I", 1, 2, 3, van=1, day="mon", km=10),
            qlik(2, "D", 1, 2, van=1, day="mon", km=10),
            qlik(3, "I", 1, 2, 3, van=1, day="mon", km=11),
        ],
    ),
    "stops__ct": (
        {**QLIK, "stop": TEXT, "name": TEXT},
        [
            qlik(1, "I", 1, 2, stop="a", name="Old Street"),
            # Not captured, as the mask says: the name stays.
            qlik(2, "U", stop="a", name=None),
            qlik(3, "D", 1, stop="a", name=None),
        ],
    ),
    "meters_messages": (
        {"value": TEXT, "topic": TEXT},
        [
            message(1, "INSERT", "03", ID=8, READING=1),
            message(2, "UPDATE", "02", ID=8, READING=2),
            message(3, "INSERT", "03", ID=9, READING=5),
            message(4, "DELETE", "01", ID=9, READING=5),
        ],
    ),
    "badge_events": (
        {
            "record_id": pyarrow.int64(),
            "status": TEXT,
            "event_type": pyarrow.int32(),
            "event_time": pyarrow.timestamp("us", tz="UTC"),
            **dict.fromkeys(
                ("perpetrator", "table_name", "table_key", "column_name", "old_value", "new_value"),
                TEXT,
            ),
        },
        [
            event(1, 1, "no=12", "color", "", "red"),
            event(2, 2, "no=12", "color", "red", "blue"),
        ],
    ),
}
# Key, value and number of each version, worked out from the rows above.
HISTORIES = {
    "select id, plate, version from {}.vans_history": [(1, "AB", 1), (1, "CD", 2), (2, "EF", 1)],
    "select km, closed_by, version from {}.trips_history": [(10, "delete", 1), (11, None, 2)],
    "select stop, name, closed_by from {}.stops_history": [("a", "Old Street", "delete")],
    "select ID, READING, version from {}.meters_history": [(8, 1, 1), (8, 2, 2), (9, 5, 1)],
    "select no, color, version from {}.badge_history": [("12", "blue", 2), ("12", "red", 1)],
    "select id, plate, 1 from {}.vans_current": [(1, "CD", 1)],
}


def land(folder: Path, name: str, number: int, rows: list[dict[str, Any]]) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    schema = pyarrow.schema(list(LANDINGS[name][0].items()))
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    parquet.write_table(table, folder / name / f"part-{number}.parquet")


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in lake.rows(query)), key=repr)


def test_five_landings_of_three_systems_become_histories_by_the_commands_of_the_readme(
    tmp_path: Path, lake: Lake
) -> None:
    folder, landing = tmp_path / "depot", tmp_path / "landing"
    folder.mkdir()
    for name, (_, landed) in LANDINGS.items():
        land(landing, name, 1, landed)
    # `afterimage up` looks at all tables, so it gets a warehouse without those of other tests.
    warehouse = str(tmp_path / "warehouse")
    for option, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }.items():
        lake.spark.conf.set(f"spark.sql.catalog.own{option}", value)
    [commands] = [block for block in typed(page("README.md")) if "afterimage up" in block]
    assert [line.split()[1] for line in commands] == ["init", "land", "up"]

    def shell(line: str) -> str:
        env = environment(AFTERIMAGE_WAREHOUSE=warehouse)
        env["PATH"] = f"{BIN}:{env['PATH']}"
        line = re.sub(r"(?<=\s)/landing/", f"{landing}/", line)
        done = subprocess.run(
            line, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    for line in commands:
        said = shell(line)
    assert (folder / ".afterimage" / "pages" / "all-health.html").exists()
    for name in ("vans", "trips", "stops", "meters"):
        assert f"stg_qlik__{name}: " in said
    for query, expected in HISTORIES.items():
        assert rows(lake, query.format("own.depot")) == expected, query

    # Five tables have four models each.
    assert shell("afterimage up").splitlines()[-1] == "Nothing new in 20 models."

    # A checkout puts back what was written for a target with other tables: nobody has edited that.
    written = {path: path.read_text() for path in (folder / "models").rglob("*vans*.sql")}
    for path, text in written.items():
        body = text.partition("\n")[2].replace("='iceberg'", "='delta'")
        path.write_text(sealed(path.name, body))
    assert sum("='delta'" in path.read_text() for path in written) == 3
    assert shell("afterimage up").splitlines()[-1] == "Nothing new in 20 models."
    assert {path: path.read_text() for path in written} == written

    # What lands later is taken in by the same command, or by plain dbt.
    land(landing, "vans__ct", 2, [qlik(5, "U", 2, id=1, plate="GH")])
    said = shell("afterimage up")
    assert re.search(r"^Building 4 models with \d+ tests; 16 have nothing new\.$", said, re.M)
    assert rows(lake, "select id, plate, 1 from own.depot.vans_current") == [(1, "GH", 1)]
    # The page is of all tables all the same.
    for name in ("vans", "trips", "stops", "meters"):
        assert f"stg_qlik__{name}: " in said

    land(landing, "stops__ct", 2, [qlik(5, "I", 1, 2, stop="b", name="New Street")])
    for block in typed(page("docs/operations/every_hour.md")):
        for line in block:
            shell(line)
    assert rows(lake, "select stop, name, 1 from own.depot.stops_current") == [
        ("b", "New Street", 1)
    ]
    land(landing, "trips__ct", 2, [qlik(4, "I", 1, 2, 3, van=9, day="tue", km=1)])
    fresher = typed(page("docs/operations/every_hour.md"))[-1]
    for line in fresher:
        said = shell(line)
    assert rows(lake, "select van, day, km from own.depot.trips_current where van = 9") == [
        (9, "tue", 1)
    ]
