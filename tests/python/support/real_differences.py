"""Compares tables with the database's own record, and prints what differs."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from conftest import Lake
from real_answers import columns_of, history, in_json, reloads, selected, shown, stored
from real_connector import Mode
from real_run import Told

Row = dict[str, Any]


def wrong_history(lake: Lake, relation: str, told: Told, mode: Mode, table: str) -> str | None:
    """Compare a history with the record of a table; return how much differs, if anything does."""
    settings = (mode.time, mode.decimal)
    initial = [stored(row, *settings) for row in told.initial[table]]
    changes = [
        (at, old and stored(old, *settings), new and stored(new, *settings))
        for at, old, new in told.record[table].changes
    ]
    records = told.records[mode.name, table]
    if mode.form == "Avro":
        records = in_json(records, told.schemas)
    versions = lake.rows(
        f"select {selected(columns_of(*settings))}, cast(valid_from as string) as valid_from,"
        " cast(valid_to as string) as valid_to, closed_by"
        f" from {relation} as versions order by versions.id, version"
    )
    # The versions of a key stay in their order.
    return differences(
        [row | shown(row, settings[1]) for row in versions],
        history(initial, changes, reloads(records)),
    )


def differences(got: list[Row], expected: list[Row]) -> str | None:
    """Compare the rows of each key, in their order, and print what differs."""
    keys = sorted({row["id"] for row in [*got, *expected]}, key=int)
    different = 0
    for key in keys:
        ours = [row for row in got if row["id"] == key]
        theirs = [row for row in expected if row["id"] == key]
        if ours == theirs:
            continue
        different += 1
        print("key", key, "has", len(ours), "rows and should have", len(theirs))
        nothing: Row = {}
        for one, other in zip_longest(ours, theirs, fillvalue=nothing):
            for name in one.keys() | other.keys():
                if one.get(name) != other.get(name):
                    at = one.get("valid_from", one.get("at"))
                    print("   ", at, name, "is", one.get(name), "and not", other.get(name))
    if different == 0:
        return None
    return f"{different} of {len(keys)} keys, {len(got)} and {len(expected)} rows"
