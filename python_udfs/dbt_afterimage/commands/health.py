"""`afterimage health`: how the changes of a source come in, from its staging models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.project import Project, Where, step, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page
from dbt_afterimage.pages.page import escape
from dbt_afterimage.pages.text import EPOCH, moment, time_text, visible

CONTRACT = (
    *("change_id", "change_seq", "operation", "changed_at"),
    *("reject_reason", "ingested_at"),
)
HOUR = 60 * 60 * 1_000_000
DAY = 24 * HOUR
_KINDS = ("load", "insert", "update", "delete", "truncate", "rejected")
_PATTERNS = {"load": ".", "delete": "/", "rejected": "x"}
# How many lines of a list a page shows.
_MOST = 20


@dataclass(frozen=True)
class Run:
    """What one run took in; times in microseconds after 1970.

    Attributes:
        late: Changes whose place in the order is before one that an earlier run had taken in.
    """

    at: int
    changes: int
    newest: int | None
    late: int


@dataclass
class Health:
    """What a change stream tells of itself; times in microseconds after 1970, in UTC.

    Attributes:
        hours: Changes by hour (hours after 1970) and kind: an operation, or `rejected`.
        spans: The first and the last change of each hour.
        untimed: Changes that bear no time.
        rejects: Rejected rows by reason, without what is particular to a row.
        delays: Between change and arrival, after the first run: half, 95 % and all of them.
    """

    model: str
    hours: dict[int, Counter[str]] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    untimed: int = 0
    source_rows: int | None = None
    rejects: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    runs: list[Run] = field(default_factory=list)
    delays: tuple[int, int, int] | None = None

    @property
    def changes(self) -> int:
        """The number of changes, rejected ones too."""
        return sum(run.changes for run in self.runs)

    @property
    def newest(self) -> int | None:
        """The newest change's time."""
        return max((last for _, last in self.spans.values()), default=None)

    @property
    def oldest(self) -> int | None:
        """The oldest change's time."""
        return min((first for first, _ in self.spans.values()), default=None)

    @property
    def late(self) -> int:
        """How many changes came in behind a later one, by the order of the source."""
        return sum(run.late for run in self.runs)

    def days(self) -> dict[int, Counter[str]]:
        """Return the changes by day (days after 1970) and kind."""
        found: dict[int, Counter[str]] = {}
        for hour, counts in self.hours.items():
            found.setdefault(hour // 24, Counter()).update(counts)
        return dict(sorted(found.items()))

    def silences(self, longest_usual: int) -> list[tuple[int, int]]:
        """Return the times without any change, the longest first.

        Args:
            longest_usual: How long none may come before it is told.
        """
        spans = [self.spans[hour] for hour in sorted(self.spans)]
        pairs = pairwise(spans)
        found = [(last, first) for (_, last), (first, _) in pairs if first - last > longest_usual]
        return sorted(found, key=lambda gap: gap[0] - gap[1])


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
    "--silence",
    # Changes are counted by the hour.
    type=click.FloatRange(min=1, max=1e6),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Report silences that are longer.",
)
@page.output_option
@where_options
def command(
    models: Sequence[str], source: str | None, silence: float, output: Path | None, where: Where
) -> None:
    """Write a page on how the changes of staging models come in, with a summary here."""
    if bool(models) == bool(source):
        raise click.UsageError("Give --model or --source, one of them.")
    project = Project(where)
    if source is not None:
        nodes = project.readers_of(source)
    else:
        nodes = [project.model(name) for name in models]
    found = []
    for node in nodes:
        with step(f"reading {node.name}"):
            columns = {column.name.lower() for column in project.columns(node)}
            if source is not None and not columns.issuperset(CONTRACT):
                continue
            found.append(read(project, node, columns))
    if not found:
        raise AfterimageError(f"no model that reads {source} is a staging model")
    made = page.now()
    delta = made - EPOCH
    now = (delta.days * 86_400 + delta.seconds) * 1_000_000
    longest_usual = round(silence * HOUR)
    names = ", ".join(health.model for health in found)
    name = f"{source or found[0].model}-health.html"
    path = output or page.folder(project.folder) / name
    page.write(
        path,
        shares_script=output is None,
        eyebrow="health",
        title=source or names,
        facts=[
            ("Staging models" if len(found) > 1 else "Staging model", names),
            ("Made at", made.strftime("%Y-%m-%d %H:%M:%S UTC")),
            ("All times", "UTC, as the source says them"),
        ],
        figures=[
            drawn
            for place, health in enumerate(found)
            for drawn in (figure(health, place, longest_usual),)
            if drawn is not None
        ],
        body="\n".join(
            _section(health, place, now, longest_usual) for place, health in enumerate(found)
        ),
    )
    print("\n".join(summary(health, now, longest_usual) for health in found))
    place, address = page.found_at(path)
    print(f"\n{place}: the same as a page\n  {address}")


def read(project: Any, node: Any, columns: set[str]) -> Health:
    """Read what a staging model's table tells of its source.

    Args:
        project: The dbt project.
        node: The model's node.
        columns: The columns of its table, in lower case.

    Raises:
        AfterimageError: It is no staging model, or it is empty.
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
            select percentile_approx(ingested - changed, array(0.5, 0.95, 1.0), 1000) as parts
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
        select to_json(array('delays', cast(parts[0] as string), cast(parts[1] as string),
            cast(parts[2] as string)))
        from delays where parts is not null
    """)
    health = Health(str(node.name))
    for about, *values in rows:
        _take_in(health, about, values)
    if not health.runs:
        raise AfterimageError(f"build {node.name} from a table that has rows: it is empty")
    health.runs.sort(key=lambda run: run.at)
    return health


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
        half, most, longest = (int(float(value)) for value in values)
        health.delays = (half, most, longest)


def summary(health: Health, now: int, longest_usual: int) -> str:
    """Return the main things as lines for the terminal.

    Args:
        health: What was read.
        now: The present time.
        longest_usual: How long a silence need not be told.
    """
    lines = [f"{health.model}: {_told_changes(health)}"]
    for title, told in _findings(health, now, longest_usual):
        lines.append(f"  {title:<9} {told}")
    return "\n".join(lines)


def _told_changes(health: Health) -> str:

    told = f"{health.changes} changes"
    if health.source_rows is not None:
        told += f" from {health.source_rows} landed rows"
    if health.oldest is not None:
        told += f", {time_text(health.oldest)} to {time_text(health.newest)}"
    return told


def _findings(health: Health, now: int, longest_usual: int) -> list[tuple[str, str]]:

    def counted(found: Counter[str]) -> str:
        listed = "; ".join(f"{visible(text)} ({n})" for text, n in found.most_common(3))
        more = f"; {len(found) - 3} more" if len(found) > 3 else ""
        return f"{sum(found.values())}: {listed}{more}" if found else "none"

    silences = health.silences(longest_usual)
    silence = f"none longer than {duration(longest_usual)}"
    if silences:
        start, end = silences[0]
        silence = (
            f"{len(silences)} longer than {duration(longest_usual)}, the longest"
            f" {duration(end - start)} from {time_text(start)}"
        )
    taken_in = health.runs[-1].at
    lag = "no change bears a time"
    if health.newest is not None:
        lag = f"the newest change is {duration(now - health.newest)} old; "
        lag += f"it was {duration(taken_in - health.newest)} old at the last run"
    first = "; the first run has nothing to be late for" if len(health.runs) == 1 else ""
    late = f"{health.late} behind a later change of an earlier run{first}"
    if health.delays is not None:
        late += (
            f"; half within {duration(health.delays[0])}, 95 % within {duration(health.delays[1])}"
        )
    found = [
        ("rejected", counted(health.rejects)),
        ("warnings", counted(health.warnings)),
        ("silence", silence),
        ("late", late),
        ("lag", lag),
    ]
    if health.untimed:
        found.append(("no time", f"{health.untimed} changes bear no time"))
    return found


def duration(micros: int) -> str:
    """Return a span of time as people say it, in its two largest units.

    Args:
        micros: The span in microseconds.
    """
    if micros < 0:
        return f"-{duration(-micros)}"
    seconds = micros // 1_000_000
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts)) or "0 s"


def figure(health: Health, place: int, longest_usual: int) -> dict[str, Any] | None:
    """Return the picture of the changes a day; none where no change bears a time.

    Args:
        health: What was read.
        place: Which picture of the page it is.
        longest_usual: How long a silence need not be told.
    """

    # By the hour where all of it is but a few days.
    days, step = health.days(), DAY
    if len(days) <= 3:
        days, step = dict(sorted(health.hours.items())), HOUR
    if not days:
        return None

    def at(micros: int) -> str:
        return moment(micros).replace(tzinfo=None).isoformat()

    traces = []
    for kind in _KINDS:
        points = [(day, counts[kind]) for day, counts in days.items() if counts[kind]]
        if points:
            traces.append(
                {
                    "type": "bar",
                    "name": kind,
                    "x": [at(day * step) for day, _ in points],
                    "y": [count for _, count in points],
                    "width": [step / 1000 * 0.82] * len(points),
                    "offset": 0,
                    "marker": {
                        "color": f"--{kind}",
                        **page.pattern(kind, _PATTERNS.get(kind)),
                    },
                    "hovertemplate": "%{y} " + kind + "<extra></extra>",
                }
            )
    bands = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": at(start),
            "x1": at(end),
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": "--silence",
            "layer": "below",
        }
        for start, end in health.silences(longest_usual)[:_MOST]
    ]
    layout = {
        "height": 320,
        "margin": {"l": 10, "r": 10, "t": 10, "b": 40},
        "barmode": "stack",
        "hovermode": "x unified",
        "paper_bgcolor": "--card",
        "plot_bgcolor": "--card",
        "font": {"color": "--ink", "family": "system-ui, DejaVu Sans, sans-serif", "size": 13},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "--card",
            "bordercolor": "--muted",
            "font": {"color": "--ink"},
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": True,
        "shapes": bands,
        "xaxis": {"type": "date", "gridcolor": "--grid", "linecolor": "--line"},
        "yaxis": {
            "title": {
                "text": "changes a day" if step == DAY else "changes an hour",
                "font": {"color": "--muted", "size": 12},
            },
            "automargin": True,
            "gridcolor": "--grid",
            "zerolinecolor": "--line",
            "fixedrange": True,
            "tickformat": ",d",
        },
    }
    return {"id": f"picture-{place}", "data": traces, "layout": layout}


def _section(health: Health, place: int, now: int, longest_usual: int) -> str:

    silences = health.silences(longest_usual)
    newest = health.newest
    tiles = [
        (f"{health.changes:,}", "changes"),
        (f"{sum(health.rejects.values()):,}", "rejected"),
        (f"{sum(health.warnings.values()):,}", "warnings"),
        (f"{health.late:,}", "out of order"),
        (str(len(silences)), f"silences over {duration(longest_usual)}"),
        (duration(now - newest) if newest is not None else "unknown", "since the newest change"),
    ]
    drawn = "".join(f"<div><b>{escape(b)}</b><span>{escape(t)}</span></div>" for b, t in tiles)
    findings = "".join(
        f"<tr><th scope='row'>{escape(title)}</th><td>{escape(told)}</td></tr>"
        for title, told in _findings(health, now, longest_usual)
    )
    picture = (
        f'<div id="picture-{place}" class="chart" role="img" aria-label="Changes by time and'
        ' operation; silences are shaded."></div>'
        if health.spans
        else '<p class="note">No change bears a time, so there is no picture.</p>'
    )
    runs = [
        [time_text(run.at), f"{run.changes:,}", time_text(run.newest), _age(run), f"{run.late:,}"]
        for run in health.runs[-_MOST:][::-1]
    ]
    ran = ("Run", "Changes", "Newest change", "Its age then", "Out of order")
    parts = [
        f'<section class="card"><h2>{escape(health.model)}</h2><div class="tiles">{drawn}</div>',
        picture,
        f"<h3>In short</h3><table><tbody>{findings}</tbody></table>",
        _table("Rejected rows", ("Reason", "Rows"), _counts(health.rejects)),
        _table("Warnings", ("Warning", "Rows"), _counts(health.warnings)),
        _table(
            "Silences",
            ("From", "To", "Length"),
            [[time_text(a), time_text(b), duration(b - a)] for a, b in silences[:_MOST]],
        ),
        _table("What the last runs took in", ran, runs),
        "</section>",
    ]
    return "".join(parts)


def _age(run: Run) -> str:
    return "" if run.newest is None else duration(run.at - run.newest)


def _counts(found: Counter[str]) -> list[list[str]]:
    return [[text, f"{count:,}"] for text, count in found.most_common(_MOST)]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:

    if not rows:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return (
        f'<h3>{escape(title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
