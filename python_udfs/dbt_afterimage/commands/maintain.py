"""`afterimage maintain`: compact tables, and expire what only their old versions need."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Project, Where, step

_KEPT = ("model", "snapshot")
_NO_TABLE = ("view", "ephemeral")


@click.command("maintain")
@click.option(
    "--select",
    "selected",
    multiple=True,
    metavar="SELECTOR",
    help="Only the tables that dbt selects by this, such as history, or source:raw for raw tables."
    " Repeat for more.",
)
@click.option(
    "--retain-days",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="How many days of snapshots to keep for time travel and rollback.",
)
@where_options
def command(selected: Sequence[str], retain_days: int, where: Where) -> None:
    """Compact tables and expire their old snapshots.

    It does what `dbt run-operation maintain_history` does, for all models and dbt snapshots of the
    project that are tables, some at a time; those that are not built yet are left out. Sources are
    maintained only if they are selected. A table that fails does not keep the others from it; the
    exit code is then 1, and also if no table is built.
    """
    project = Project(where, asks=True)
    nodes = _nodes(project, selected)
    if not nodes:
        raise AfterimageError("no table is selected")
    with step(f"maintaining {len(nodes)} tables"):
        answers = project.macros(
            "_maintain_node", [{"id": key, "retain_days": retain_days} for key in nodes]
        )
    failed, unbuilt = [], 0
    for key, answer in zip(nodes, answers, strict=True):
        name = key.split(".", 2)[2]
        # What dbt has not built yet needs no upkeep; a source that is gone is a failure.
        is_ours = not key.startswith("source.")
        if is_ours and "TABLE_OR_VIEW_NOT_FOUND" in str(answer):
            print(f"{name}: not built")
            unbuilt += 1
        elif isinstance(answer, AfterimageError):
            failed.append(f"{name}: {answer}")
        else:
            print(f"{name}: {answer}")
    if failed:
        raise AfterimageError(f"{len(failed)} of {len(nodes)} failed\n" + "\n".join(failed))
    if unbuilt == len(nodes) and not selected:
        raise AfterimageError(
            "no table is built: run `dbt build` first, or check --target and AFTERIMAGE_WAREHOUSE"
        )


def _nodes(project: Project, selected: Sequence[str]) -> list[str]:
    """Return the ids of the tables to maintain."""
    nodes = [
        key
        for key, node in project.manifest.nodes.items()
        if node.resource_type in _KEPT and node.config.materialized not in _NO_TABLE
    ]
    if selected:
        chosen = project.selected(*selected)
        nodes = [key for key in [*nodes, *project.manifest.sources] if key in chosen]
    return sorted(nodes)
