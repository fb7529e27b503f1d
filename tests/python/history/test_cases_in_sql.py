"""The cases worked by hand, and the SQL engine.

One table has all cases, and one history all with the same options, as a statement costs far more
than a few rows. `case_no` is one more column of the key, and each case has a range of places to
itself. A truncation ends the rows of the cases before it as well, so what happens to the rows of a
case outside its own places is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from cases import COLUMNS, KEY, Case, read_cases
from conftest import SCHEMA, Lake, Project, relation
from histories import as_row, jinja, stream_columns, text
from reference import META_COLUMNS, Row
from strategies import Stream

TABLE = Stream(
    ["case_no", *KEY],
    ["case_no", *COLUMNS],
    {"case_no": "int", "id": "int", "a": "string", "b": "string"},
    [],
)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("cases")


def test_every_history_is_as_worked_by_hand(project: Project, lake: Lake) -> None:
    cases = in_one_table(read_cases("histories.yml"))
    write("cases", cases, lake)
    of_options: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        of_options.setdefault(arguments(case), []).append(number)
    for model, (chosen, numbers) in enumerate(of_options.items()):
        places = ", ".join(f"'{prefix(number)}'" for number in numbers)
        project.file(
            f"models/cases_{model}.sql",
            f"{{{{ config(materialized='history', {chosen}) }}}}\n"
            f"select * from {SCHEMA}.cases where substr(change_id, 1, 4) in ({places})",
        )
    project.dbt("run")

    different = []
    for model, numbers in enumerate(of_options.values()):
        rows = lake.rows(f"select * from {SCHEMA}.cases_{model}")
        for number in numbers:
            case = cases[number]
            versions = sorted(own_versions(rows, number), key=by_key_and_version(case))
            actual = case.outcome(versions)
            if actual != case.expected:
                different.append(difference(case, actual))
    assert not different, "\n\n".join(different)


def test_every_audit_is_as_worked_by_hand(project: Project, lake: Lake) -> None:
    cases = in_one_table(read_cases("audits.yml"))
    write("audit_cases", cases, lake)
    sql = project.sql(f"change_audit({relation('audit_cases')}, unique_key={TABLE.unique_key})")
    found = lake.rows(sql)

    different = []
    for number, case in enumerate(cases):
        own = prefix(number)
        expected = [
            row | {name: text(row[name]) for name in ("old_value", "new_value")}
            for row in case.expected
        ]
        actual = [
            {name: row[name] for name in case.expected[0]}
            | {"change_seq": row["change_seq"].removeprefix(own)}
            for row in found
            if row["case_no"] == number
            and row["change_seq"].startswith(own)
            and row["column_name"] != "case_no"
        ]
        if sorted(actual, key=repr) != sorted(expected, key=repr):
            different.append(difference(replace(case, expected=expected), actual))
    assert not different, "\n\n".join(different)


def in_one_table(cases: Iterable[Case]) -> list[Case]:
    """Order cases so that no truncation meets a load row of another case."""

    def rank(case: Case) -> tuple[bool, bool]:
        operations = {change.operation for change in case.changes}
        return ("truncate" in operations, "load" not in operations)

    ordered = sorted(cases, key=rank)
    assert [rank(case) for case in ordered].count((True, False)) <= 1, (
        "a table has room for one case with both load rows and truncations"
    )
    return ordered


def prefix(case_no: int) -> str:
    """Return what every place of a case begins with."""
    return f"{case_no:03d}-"


def write(name: str, cases: list[Case], lake: Lake) -> None:
    """Write the changes of cases as one change stream."""
    rows: dict[str, dict[str, Any]] = {}
    for number, case in enumerate(cases):
        own = prefix(number)
        for change in case.changes:
            before, after = (
                None if image is None else {"case_no": number, **image}
                for image in (change.before, change.after)
            )
            moved = replace(
                change,
                change_id=own + change.change_id,
                change_seq=change.change_seq and own + change.change_seq,
                before=before,
                after=after,
                transaction_id=change.transaction_id and own + change.transaction_id,
            )
            rows[moved.change_id] = as_row(moved, TABLE)  # once, as a staging model keeps it
    lake.create(name, stream_columns(TABLE), list(rows.values()))


def arguments(case: Case) -> str:
    """Write the arguments of the history that a case asks for."""
    key = f"unique_key={['case_no', *case.unique_key]}"
    options: Any = case.options
    return ", ".join([key, *([jinja(options)] if options else [])])


def by_key_and_version(case: Case) -> Callable[[Row], Any]:
    return lambda row: [*(row[name] for name in case.unique_key), row["version"]]


def own_versions(rows: list[Row], case_no: int) -> Iterable[Row]:
    """Return the versions of a case as if it were alone."""
    own = prefix(case_no)
    for found in rows:
        if found["case_no"] != case_no or not (found["valid_from_seq"] or own).startswith(own):
            continue  # of another case, or a truncation of another case has opened it
        row = {name: found[name] for name in (*COLUMNS, *META_COLUMNS)}
        if not (row["valid_to_seq"] or own).startswith(own):
            row |= {"valid_to": None, "valid_to_seq": None, "is_current": True, "closed_by": None}
        for name in ("valid_from_seq", "valid_to_seq", "transaction_id"):
            row[name] = row[name] and row[name].removeprefix(own)
        yield row


def difference(case: Case, actual: list[Row]) -> str:
    """Say what differs."""
    lines = [case.name, *(f"got      {row}" for row in actual)]
    return "\n".join([*lines, *(f"expected {row}" for row in case.expected)])
