"""Rows of raw tables that land in batches, a run after each, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

from conftest import Lake, Project
from reference import Row

# Of raw tables their columns and the rows that land.
Batch = dict[str, tuple[dict[str, str], list[Row]]]


def run_in_batches(
    project: Project, lake: Lake, models: Sequence[str], batches: Sequence[Batch]
) -> list[dict[str, list[Row]]]:
    """Return what the models hold after each run; the first run builds them."""
    found = []
    for number, batch in enumerate(batches):
        for table, (columns, rows) in batch.items():
            if number == 0:
                lake.create(table, columns, rows)
            else:
                lake.append(table, columns, rows)
        project.dbt("run", "--select", *models, *([] if number else ["--full-refresh"]))
        found.append(lake.contents(*models))
    return found


def run_in_batches_and_at_once(
    project: Project, lake: Lake, models: Sequence[str], batches: Sequence[Batch]
) -> list[dict[str, list[Row]]]:
    """As `run_in_batches`; and see that one run over all rows, in another order, gives the same."""
    found = run_in_batches(project, lake, models, batches)
    for table, (columns, _) in batches[0].items():
        rows = [row for batch in batches for row in batch.get(table, (columns, []))[1]]
        lake.create(table, columns, sorted(rows, key=repr))
    project.dbt("run", "--select", *models, "--full-refresh")
    assert lake.contents(*models) == found[-1]
    return found


def count_rows(staged: list[Row]) -> int:
    """Count the landed rows that became part of changes."""
    return sum(change["source_rows"] for change in staged)
