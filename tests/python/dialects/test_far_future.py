"""A change dated far in the future, or with a placeholder time, does not stop later runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import pytest

from conftest import SCHEMA, Lake, Project
from inserts import DIALECTS, call
from reference import Row

FAR = datetime(2099, 1, 1)
PLACEHOLDER = datetime(1970, 1, 1)
QLIK = ("qlik_change_table", "qlik_messages")
BOUND_BY_TIME = (*QLIK, "db2_change_data", "openedge_change_table")


class Staging:
    """A staging model of each of some dialects, run after run."""

    def __init__(self, macros: Sequence[str], project: Project, lake: Lake) -> None:
        self.macros, self.project, self.lake = macros, project, lake
        for macro in macros:
            project.stream(f"stg_far_{macro}", call(macro, f"far_{macro}"))
            lake.create(f"far_{macro}", DIALECTS[macro].columns, [])

    def take_in(self, *inserts: tuple[object, ...], first: bool = False) -> dict[str, list[Row]]:
        """Land inserts, run, and return what is staged of each dialect then."""
        for macro in self.macros:
            dialect = DIALECTS[macro]
            rows = [dialect.row(*insert) for insert in inserts]
            self.lake.append(f"far_{macro}", dialect.columns, rows)
        self.project.dbt("run", *(["--full-refresh"] if first else []))
        return {
            macro: self.lake.rows(f"select * from {SCHEMA}.stg_far_{macro} order by after.id")
            for macro in self.macros
        }


@pytest.mark.minutes
def test_a_change_dated_in_the_far_future_hides_no_later_change(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    staging = Staging(BOUND_BY_TIME, make_project("far_future"), lake)

    staging.take_in((1, datetime(2024, 1, 1)), (2, datetime(2024, 1, 9)), (7, FAR), first=True)
    # The first of the two comes late.
    staged = staging.take_in((3, datetime(2024, 1, 8)), (4, datetime(2024, 1, 10)))
    for macro, changes in staged.items():
        assert [change["after"]["id"] for change in changes] == [1, 2, 3, 4, 7], macro
    staged = staging.take_in((5, datetime(2024, 1, 11)))
    for macro, changes in staged.items():
        assert [change["after"]["id"] for change in changes] == [1, 2, 3, 4, 5, 7], macro


@pytest.mark.minutes
def test_a_placeholder_time_gives_way_to_the_real_one(
    make_project: Callable[[str], Project], lake: Lake
) -> None:
    staging = Staging(QLIK, make_project("placeholder"), lake)
    at, real = datetime(2024, 1, 1, 8), datetime(2024, 1, 1, 8, 0, 5)
    for macro, staged in staging.take_in((1, at, PLACEHOLDER), first=True).items():
        [change] = staged
        assert (change["changed_at"], len(change["warnings"])) == (at, 1), macro
    for macro, staged in staging.take_in((1, at, real)).items():
        [change] = [change for change in staged if change["reject_reason"] is None]
        assert (change["changed_at"], change["warnings"]) == (real, None), macro
        assert sum(change["source_rows"] for change in staged) == 2, macro
