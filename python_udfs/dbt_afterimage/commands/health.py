"""`afterimage health`: how the changes of a source come in, from its staging models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.project import (
    Project,
    Where,
    found_at,
    output_option,
    step,
    where_options,
)
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page
from dbt_afterimage.pages.health import HOUR, Health, Run, counted, document, worst_first
from dbt_afterimage.pages.text import EPOCH

CONTRACT = (
    *("change_id", "change_seq", "operation", "changed_at"),
    *("reject_reason", "ingested_at"),
)


@click.command("health")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A staging model, such as stg_qlik__customers; repeatable.",
)
@click.option(
    "--source", help="A source, `name.table` of one, or a seed: all staging models that read it."
)
@click.option(
    "--all", "is_all", is_flag=True, help="All staging models of the project, a line each."
)
@click.option(
    "--silence",
    # Changes are counted by the hour.
    type=click.FloatRange(min=1, max=1e6),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Report silences that are longer.",
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
) -> None:
    """Write a page on how the changes of staging models come in, with a summary here."""
    if bool(models) + bool(source) + is_all != 1:
        raise click.UsageError("Give --model, --source or --all, one of them.")
    project = Project(where)
    if models:
        nodes = [project.model(name) for name in models]
    else:
        nodes = project.tables() if source is None else project.readers_of(source)
    made = page.now()
    now = int((made - EPOCH).total_seconds()) * 1_000_000
    found = []
    for node in nodes:
        with step(f"reading {node.name}"):
            health = Health(str(node.name), now, round(silence * HOUR))
            if _read(project, node, health, is_named=bool(models), is_all=is_all):
                found.append(health)
    if not found:
        raise AfterimageError(
            "name the staging models with --model: "
            + (f"no model that reads {source} is one" if source else "this project has none")
        )
    if is_all:
        found.sort(key=worst_first)
    title = source or ("all staging models" if is_all else ", ".join(h.model for h in found))
    drawn = document(title, found, made.strftime("%Y-%m-%d %H:%M:%S UTC"), is_overview=is_all)
    name = "all" if is_all else source or found[0].model
    path = output or project.pages_folder() / f"{name}-health.html"
    page.write(path, drawn, shares_script=output is None)
    for health in found:
        print(f"{health.model}: {health.verdict}" if is_all else summary(health))
    place, address = found_at(path)
    print(f"\n{place}: the same as a page\n  {address}")


def _read(project: Any, node: Any, health: Health, is_named: bool, is_all: bool) -> bool:
    """Read a model that may be a staging model; return whether it is one."""
    columns = project.columns_of(str(node.relation_name)) if is_all else project.columns(node)
    if columns is None:
        health.problem = f"it has no table: dbt build --select +{node.name}"
        return bool(node.config.materialized == "change_stream")
    names = {column.name.lower() for column in columns}
    if is_named or names.issuperset(CONTRACT):
        read(project, node, names, health)
        return True
    return False


def read(project: Any, node: Any, columns: set[str], health: Health) -> None:
    """Read what a staging model's table says of its source.

    Args:
        project: The dbt project.
        node: The model's node.
        columns: The columns of its table, in lower case.
        health: Where to put it.

    Raises:
        AfterimageError: It is no staging model.
    """
    missing = [name for name in CONTRACT if name not in columns]
    if missing:
        raise AfterimageError(
            f"name a staging model: {node.name} has no column {', '.join(missing)}, so it is none"
        )
    warnings = "warnings" if "warnings" in columns else "cast(null as array<string>)"
    source_rows = "sum(source_rows)" if "source_rows" in columns else "null"
    # Nothing here grows with the number of changes, nor is one task given all of them: the lists
    # have a line an hour, a run or a reason.
    rows = project.query(f"""
        with changes as (
            select
                change_seq,
                if(reject_reason is null, coalesce(operation, 'rejected'), 'rejected') as kind,
                unix_micros(changed_at) as changed,
                unix_micros(ingested_at) as ingested,
                -- What follows the colon is particular to the row.
                split(reject_reason, ':')[0] as reason,
                {warnings} as warnings

            from {node.relation_name}
        ),

        runs as (
            select
                ingested,
                count(*) as changes,
                max(changed) as newest,
                max(if(kind in ('rejected', 'load'), null, change_seq)) as last_seq

            from changes
            group by ingested
        ),

        known as (
            select
                ingested,
                max(last_seq) over (
                    order by ingested rows between unbounded preceding and 1 preceding
                ) as known_seq

            from runs
        ),

        -- Rows of the first run lay in the source for as long as it had been there.
        delays as (
            select percentile_approx(ingested - changed, array(0.5, 0.95), 1000) as parts
            from changes
            where ingested > (select min(ingested) from runs) and kind not in ('rejected', 'load')
        )

        select to_json(array('hour', cast(floor(changed / {HOUR}) as string), kind,
            cast(count(*) as string), cast(min(changed) as string), cast(max(changed) as string)
        )) as line
        from changes where changed is not null group by floor(changed / {HOUR}), kind
        union all
        select to_json(array('untimed', cast(count(*) as string)))
        from changes where changed is null
        union all
        select to_json(array('rows', cast({source_rows} as string))) from {node.relation_name}
        union all
        select to_json(array('reject', reason, cast(count(*) as string)))
        from changes where reason is not null group by reason
        union all
        select to_json(array('warning', warning, cast(count(*) as string)))
        from changes lateral view explode(transform(warnings, w -> split(w, ':')[0])) as warning
        group by warning
        union all
        select to_json(array('run', cast(runs.ingested as string), cast(runs.changes as string),
            cast(runs.newest as string), cast(coalesce(late.late, 0) as string)))
        from runs
        left outer join (
            select changes.ingested, count(*) as late
            from changes inner join known on changes.ingested <=> known.ingested
            where changes.kind not in ('rejected', 'load') and changes.change_seq < known.known_seq
            group by changes.ingested
        ) as late on runs.ingested <=> late.ingested
        union all
        select to_json(array('delays', cast(parts[0] as string), cast(parts[1] as string)))
        from delays where parts is not null
    """)
    for about, *values in rows:
        _take_in(health, about, values)
    health.runs.sort(key=lambda run: run.at)
    if not health.runs:
        health.problem = "it is empty: no row has come in"


def _take_in(health: Health, about: str, values: Sequence[Any]) -> None:
    if about == "hour":
        hour, kind = int(values[0]), values[1]
        count, first, last = (int(value) for value in values[2:])
        health.hours.setdefault(hour, Counter())[kind] += count
        known = health.spans.get(hour, (first, last))
        health.spans[hour] = (min(known[0], first), max(known[1], last))
    elif about == "untimed":
        health.untimed = int(values[0])
    elif about == "rows":
        health.source_rows = None if values[0] is None else int(values[0])
    elif about == "reject":
        health.rejects[values[0]] += int(values[1])
    elif about == "warning":
        health.warnings[re.sub(r"\d+", "…", values[0])] += int(values[1])
    elif about == "run":
        at, changes, newest, late = (None if v is None else int(v) for v in values)
        health.runs.append(Run(at or 0, changes or 0, newest, late or 0))
    else:
        half, most = (int(float(value)) for value in values)
        health.delays = (half, most)


def summary(health: Health) -> str:
    """Return what a page says of a table, as lines for the terminal."""
    lines = [f"{health.model}: {health.verdict}"]
    told = [("rejected", counted(health.rejects)), ("warnings", counted(health.warnings))]
    told += [(fact.name, f"{fact.value}; {fact.note}".rstrip("; ")) for fact in health.facts]
    lines += [f"  {name:<14} {text}" for name, text in told if text]
    return "\n".join(lines)
