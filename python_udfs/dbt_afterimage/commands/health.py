"""`afterimage health`: how the changes of a source arrive, from its staging models."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.options import found_at, output_option, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import building
from dbt_afterimage.fleet.record import Record
from dbt_afterimage.landing.topics import lacking
from dbt_afterimage.pages import page
from dbt_afterimage.pages.health import (
    HOUR,
    OF_ANOTHER_TABLE,
    Health,
    Line,
    Run,
    counted,
    document,
    overview,
    worst_first,
)
from dbt_afterimage.runtime.project import CONTRACT, Project, Where, shown_name, step
from dbt_afterimage.text import EPOCH


@click.command("health")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A staging model, such as stg_qlik__customers. Repeat for more.",
)
@click.option(
    "--source",
    help="All staging models that read this source, table of one (`name.table`), or seed.",
)
@click.option(
    "--all", "is_all", is_flag=True, help="All staging models of the project, one line each."
)
@click.option(
    "--silence",
    # Changes are counted by the hour.
    type=click.FloatRange(min=1, max=1e6),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Report silences longer than this.",
)
@output_option
@where_options
def command(
    models: Sequence[str],
    source: str | None,
    is_all: bool,
    silence: float,
    output: Path | None,
    where: Where,
) -> int:
    """Write a page on how changes arrive.

    It shows the changes of staging models; the terminal shows a summary. The exit code is 1 if a
    table cannot be asked; the page says so, and shows the others.
    """
    if bool(models) + bool(source) + is_all != 1:
        raise click.UsageError("Give exactly one of --model, --source and --all.")
    project = Project(where)
    if models:
        nodes = [project.model(name) for name in models]
    else:
        nodes = project.tables() if source is None else project.readers_of(source)
    return write(project, nodes, silence, bool(models), source, output, is_all=is_all)


def write(
    project: Project,
    nodes: Sequence[Any],
    silence: float,
    is_named: bool = False,
    source: str | None = None,
    output: Path | None = None,
    *,
    is_all: bool,
    kept: Record | None = None,
) -> int:
    """Write a page, and print a summary.

    Args:
        project: The dbt project.
        nodes: The models that may be staging models.
        silence: How many hours without a change need not be reported.
        is_named: Whether the user named the models.
        source: What the user named in their place.
        output: The file to write; by default it is in the folder of the project's pages.
        is_all: Whether to write one line for each.
        kept: Has the lines of tables that are as they were before, and takes those that are read
            now. For `is_all` alone.

    Returns:
        The exit code: 1 if a table could not be asked.

    Raises:
        AfterimageError: No model is a staging model, or none could be asked.
    """
    made = page.now()
    now = int((made - EPOCH).total_seconds()) * 1_000_000
    pages: list[Health] = []
    lines: list[Line] = []
    failures: dict[str, AfterimageError] = {}
    for node in nodes:
        health = Health(shown_name(node), now, round(silence * HOUR))
        known = None if kept is None else kept.line(node.unique_id)
        try:
            if known is not None:
                # What a topic lacks is a property of the raw table, which is not in what was kept.
                _read_missing(project, node, health)
                lines.append(Line(**{**known, "now": now, "missing": health.missing}))
                continue
            with step(f"reading {health.model}"):
                if not _read(project, node, health, is_named=is_named, is_all=is_all):
                    continue
        except AfterimageError as error:
            failures[health.model] = error
            health.problem = str(error).splitlines()[0]
        if not is_all:
            pages.append(health)
            continue
        # All that was read of hundreds of tables would not fit into memory.
        lines.append(health.line)
        if kept is not None and not health.problem:
            kept.keep_line(node.unique_id, asdict(health.line))
    found = len(pages) + len(lines)
    if failures and len(failures) == found:
        raise next(iter(failures.values()))
    if not found:
        raise AfterimageError(
            (
                f"no model that reads {source} is a staging model"
                if source
                else "no staging model found"
            )
            + "; name them with --model"
        )
    at = made.strftime("%Y-%m-%d %H:%M:%S UTC")
    lines.sort(key=worst_first)
    name = "all" if is_all else source or pages[0].model
    path = output or project.pages_folder() / f"{name}-health.html"
    title = source or ("all staging models" if is_all else ", ".join(h.model for h in pages))
    drawn = overview(title, lines, at) if is_all else document(title, pages, at)
    page.write(path, drawn, shares_script=output is None)
    for line in lines:
        print(f"{line.model}: {line.verdict}")
    for health in pages:
        print(summary(health))
    place, address = found_at(path)
    print(f"\nThe same as a page: {place}\n  {address}")
    if failures:
        print(f"afterimage: cannot be asked: {', '.join(failures)}", file=sys.stderr)
    return int(bool(failures))


def _read(project: Project, node: Any, health: Health, *, is_named: bool, is_all: bool) -> bool:
    """Read a model if it is a staging model; return whether it is one."""
    columns = project.columns_of(str(node.relation_name)) if is_all else project.columns(node)
    if columns is None:
        health.problem = f"it has not been built: dbt build --select +{node.name}"
        return building.is_staging(node)
    names = {column.name.lower() for column in columns}
    if is_named or names.issuperset(CONTRACT):
        read(project, node, names, health)
        return True
    return False


def _read_missing(project: Project, node: Any, health: Health) -> None:
    for source in _topics(project, node):
        health.missing += [f"{source} {text}" for text in lacking(project, source)]


def read(project: Project, node: Any, columns: set[str], health: Health) -> None:
    """Read what a staging model's table says about its source.

    Args:
        project: The dbt project.
        node: The model's node.
        columns: The columns of its table, in lower case.
        health: Takes the result.

    Raises:
        AfterimageError: It is not a staging model.
    """
    missing = [name for name in CONTRACT if name not in columns]
    if missing:
        raise AfterimageError(
            f"{node.name} is not a staging model, as it has no column {', '.join(missing)};"
            " name one with --model"
        )
    _read_missing(project, node, health)
    warnings = "warnings" if "warnings" in columns else "cast(null as array<string>)"
    source_rows = "source_rows" if "source_rows" in columns else "cast(null as int)"
    # Messages of Kafka have an order within their partition alone: the digits before the offset.
    has_position = re.search(r"\bposition\s*=", node.raw_code)
    partition = "regexp_extract(change_seq, '^([0-9]*)[0-9]{19}', 1)" if has_position else "''"
    # One line per hour, kind and run, so that no task reads all changes.
    groups = project.query(f"""
        with changes as (
            select
                if(reject_reason is null, coalesce(operation, 'rejected'), 'rejected') as kind,
                unix_micros(changed_at) as changed,
                floor(unix_micros(changed_at) / {HOUR}) as hour,
                coalesce(unix_micros(ingested_at), 0) as run,
                -- The text after the colon is specific to the row.
                split(reject_reason, ':')[0] as reason,
                transform({warnings}, warning -> split(warning, ':')[0]) as warnings,
                {source_rows} as source_rows,
                coalesce({partition}, '') as partition,
                if(reject_reason is null and operation != 'load', change_seq, null) as place

            from {node.relation_name}
        ),

        known as (
            select
                run,
                partition,
                max(max(place)) over (
                    partition by partition
                    order by run rows between unbounded preceding and 1 preceding
                ) as known_place

            from changes
            group by run, partition
        )

        select to_json(struct(
            run, hour, kind, reason, warnings, count(*) as changes, min(changed) as first,
            max(changed) as last, sum(source_rows) as source_rows,
            count_if(place < known_place) as late
        )) as line
        from changes inner join known using (run, partition)
        group by run, hour, kind, reason, warnings
    """)
    take(groups, health)


def take(groups: Sequence[dict[str, Any]], health: Health) -> None:
    runs: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for group in groups:
        runs[group["run"]].append(group)
        count = group["changes"]
        if _has_time(group):
            hour = health.hours.setdefault(group["hour"], Counter())
            hour[group["kind"]] += count
            first, last = health.spans.get(group["hour"], (group["first"], group["last"]))
            health.spans[group["hour"]] = min(first, group["first"]), max(last, group["last"])
        elif "hour" not in group:
            health.untimed += count
        if "reason" in group:
            health.rejects[group["reason"]] += count
        for warning in group.get("warnings", ()):
            health.warnings[re.sub(r"\d+", "…", warning)] += count
        if "source_rows" in group:
            health.source_rows = (health.source_rows or 0) + group["source_rows"]
    for at, taken in sorted(runs.items()):
        # The first run also takes in rows that landed long before.
        if health.runs:
            for group in taken:
                if "hour" in group and group["kind"] not in ("rejected", "load"):
                    health.delays[at - group["first"]] += group["changes"]
        changes, late = (sum(group[name] for group in taken) for name in ("changes", "late"))
        newest = max((group["last"] for group in taken if _has_time(group)), default=None)
        health.runs.append(Run(at, changes, newest, late))
    if not health.runs:
        health.problem = "it is empty: no row has arrived yet"


def _has_time(group: dict[str, Any]) -> bool:
    """Whether changes have a time, and one of this table: others on its topic say nothing of it."""
    return "hour" in group and group.get("reason") != OF_ANOTHER_TABLE


def _topics(project: Any, node: Any) -> list[str]:
    """Return the tables of topics that a model reads, as in SQL."""
    if not any(name.endswith("_messages") for name in node.depends_on.macros):
        return []
    return [
        str(source.relation_name)
        for source in project.sources()
        if source.unique_id in node.depends_on.nodes and "/" not in source.identifier
    ]


def summary(health: Health) -> str:
    """Return what a page says about a table, as lines for the terminal."""
    lines = [f"{health.model}: {health.line.verdict}"]
    facts = [("rejected", counted(health.rejects)), ("warnings", counted(health.warnings))]
    facts += [(fact.name, f"{fact.value}; {fact.note}".rstrip("; ")) for fact in health.facts]
    lines += [f"  {name:<14} {text}" for name, text in facts if text]
    return "\n".join(lines)
