"""The cases of `tests/cases`: changes of one small table in, its history or its audit out.

`histories.yml` says how a case is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import yaml

from conftest import ROOT
from reference import LOAD_VALID_FROM, Change, Row, current

KEY = ["id"]
COLUMNS = ["id", "a", "b"]


def at(minute: int) -> datetime:
    """Give the time a number of minutes into the day of all cases."""
    return datetime(2024, 1, 1) + timedelta(minutes=minute)


def seq(place: int | str) -> str:
    """Write a change_seq; 0 is that of load rows, a text is taken as it is."""
    if isinstance(place, str):
        return place
    return f"{place:035d}" if place else ""


@dataclass(frozen=True)
class Case:
    """Changes, and what must come of them."""

    name: str
    unique_key: list[str]
    options: dict[str, Any]
    changes: list[Change]
    expected: list[Row]
    is_of_rows: bool

    def outcome(self, versions: list[Row]) -> list[Row]:
        """Return of a history what the case speaks of: its versions, or the rows at the end."""
        if not self.is_of_rows:
            return versions
        return [{name: row[name] for name in COLUMNS} for row in current(versions)]


def read_changes(text: str) -> list[Change]:
    """Read changes that are written as in the cases."""
    return [_change(entry) for entry in yaml.safe_load(text)]


def read_cases(file: str) -> list[Case]:
    """Read the cases of a file."""
    cases = [
        _case(entry) for entry in yaml.safe_load((ROOT / "tests" / "cases" / file).read_text())
    ]
    names = Counter(case.name for case in cases)
    assert set(names.values()) == {1}, names.most_common(1)
    return cases


def _case(entry: dict[str, Any]) -> Case:
    options = entry.pop("options", {})
    unique_key = options.pop("unique_key", KEY)
    name, changes = entry.pop("name"), entry.pop("changes")
    [(kind, rows)] = entry.items()
    if kind == "rows":
        expected = [_row(row) for row in rows]
    elif kind == "versions":
        expected = _versions(
            rows,
            unique_key,
            options.get("load_valid_from", LOAD_VALID_FROM),
            options.get("valid_to_current"),
        )
    else:
        assert kind == "audit", f"{name}: what is {kind!r}?"
        expected = [_audit_row(row) for row in rows]
    changes = [_change(change) for change in changes]
    return Case(name, unique_key, options, changes, expected, kind == "rows")


def _row(cells: dict[str, Any]) -> Row:
    assert set(cells) <= set(COLUMNS), cells
    return {name: cells.get(name) for name in COLUMNS}


def _minute(entry: dict[str, Any], name: str, place: int | str) -> int | None:
    """Take the minute of something at a place: ten times the place where it is left out."""
    minute: int | None = entry.pop(name, 10 * place if isinstance(place, int) and place else None)
    return minute


def _change(entry: dict[str, Any]) -> Change:
    entry = dict(entry)
    operation, place = entry.pop("op"), entry.pop("seq", 0)
    before, after = (
        None if image is None else _row(image)
        for image in (entry.pop("before", None), entry.pop("after", None))
    )
    minute = _minute(entry, "at", place)
    made = Change(
        # Where its id does not matter, a change is named after its operation and place.
        change_id=entry.pop("cid", f"{operation}-{place}-{(after or before or {}).get('id')}"),
        change_seq=seq(place),
        operation=operation,
        before=before,
        after=after,
        absent_columns=entry.pop("absent", None),
        changed_at=None if minute is None else at(minute),
        transaction_id=entry.pop("tx", None),
        reject_reason=entry.pop("reject", None),
        changed_by=entry.pop("by", None),
    )
    assert not entry, f"what is {entry} of a change?"
    return made


def _versions(
    entries: list[dict[str, Any]],
    unique_key: Sequence[str],
    load_valid_from: datetime,
    open_end: datetime | None,
) -> list[Row]:
    numbers: Counter[tuple[Any, ...]] = Counter()
    versions = []
    for given in entries:
        entry = dict(given)
        row = _row({name: entry.pop(name) for name in COLUMNS if name in entry})
        key = tuple(row[name] for name in unique_key)
        numbers[key] += 1
        ends: dict[str, Any] = {"valid_to": open_end, "valid_to_seq": None}
        for end in ("from", "to"):
            if end in entry:
                place = entry.pop(end)
                minute = _minute(entry, f"{end}_at", place)
                ends[f"valid_{end}"] = load_valid_from if minute is None else at(minute)
                ends[f"valid_{end}_seq"] = seq(place)
        version = {
            **row,
            **ends,
            "is_current": ends["valid_to_seq"] is None,
            "is_deleted": entry.pop("deleted", False),
            "version": numbers[key],
            "operation": entry.pop("op"),
            "closed_by": entry.pop("closed_by", None),
            "transaction_id": entry.pop("tx", None),
        }
        assert not entry, f"what is {entry} of a version?"
        versions.append(version)
    return versions


def _audit_row(given: dict[str, Any]) -> Row:
    entry = dict(given)
    place = entry.pop("seq")
    minute = _minute(entry, "at", place)
    row = {
        "id": entry.pop("id"),
        "change_seq": seq(place),
        "operation": entry.pop("op"),
        "changed_at": None if minute is None else at(minute),
        "changed_by": entry.pop("by", None),
        "column_name": entry.pop("column"),
        "old_value": entry.pop("old", None),
        "new_value": entry.pop("new", None),
    }
    assert not entry, f"what is {entry} of a row of the audit?"
    return row
