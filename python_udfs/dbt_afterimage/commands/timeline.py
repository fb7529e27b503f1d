"""`afterimage timeline`: the versions of some records of a history on a time line."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands import project as p
from dbt_afterimage.commands.project import Project, Where, parse_csv, step, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page
from dbt_afterimage.pages.page import escape, value
from dbt_afterimage.pages.text import EPOCH, moment, time_text, visible

META = (
    *("valid_from", "valid_to", "valid_from_seq", "valid_to_seq", "is_current", "is_deleted"),
    *("version", "operation", "closed_by", "transaction_id", "history_id"),
)
DAY = 24 * 60 * 60 * 1_000_000

# A sign beside each colour: as plotly names it, and as a character of the table.
SIGNS = {
    "load": ("square", "■"),
    "insert": ("triangle-up", "▲"),
    "update": ("circle", "●"),
    "delete": ("x", "✕"),
    "truncate": ("x", "✕"),
    "key_change": ("diamond", "◆"),
}
_PATTERNS = {"delete": "/", "truncate": "/"}
_MOST_CHARACTERS = 160


@dataclass(frozen=True)
class Version:
    """One version of a record; times in microseconds after 1970, in UTC.

    Attributes:
        values: The data columns as text.
    """

    values: dict[str, str | None]
    valid_from: int
    valid_to: int | None
    valid_from_seq: str
    valid_to_seq: str | None
    is_deleted: bool
    version: int
    operation: str
    closed_by: str | None
    transaction_id: str | None


@dataclass
class Record:
    """A record that was asked for, with its versions in order."""

    key: str
    versions: list[Version] = field(default_factory=list)


@click.command("timeline")
@click.option("--model", required=True, help="The history, such as customers_history.")
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    help="The record's key; several columns as CSV in the order of unique_key (42,eu)."
    " Give it again for more records.",
)
@click.option(
    "--key-columns",
    help="The key's columns as CSV, where the model has no unique_key in its config.",
)
@click.option(
    "--until",
    help="How far open versions are drawn: `now`, or a date or time in UTC"
    " (default: a little past the newest change that is shown).",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Draw at most so many versions of a record.",
)
@page.output_option
@where_options
def command(
    model: str,
    keys: Sequence[str],
    key_columns: str | None,
    until: str | None,
    most: int,
    output: Path | None,
    where: Where,
) -> None:
    """Write a page with the versions of some records of a history on a time line."""
    drawn_until = _until(until)
    project = Project(where)
    node = project.model(model)
    with step(f"reading {node.name}"):
        records = read(project, node, keys, key_columns, most)
    shown = sum(len(record.versions) for record in records)
    name = _file_name(node.name, [record.key for record in records])
    path = output or page.folder(project.folder) / name
    end = _end(records, drawn_until)
    page.write(
        path,
        shares_script=output is None,
        eyebrow="timeline",
        title=f"{node.name}: {', '.join(record.key for record in records)}",
        facts=[
            ("Table", str(node.relation_name)),
            ("Versions", str(shown)),
            ("Open versions", f"still hold; drawn up to {time_text(end)}"),
            ("Made at", page.now().strftime("%Y-%m-%d %H:%M:%S UTC")),
            ("All times", "UTC"),
        ],
        figures=[figure(records, end)],
        body=_body(records, most),
    )
    plural = "s" if shown != 1 else ""
    place, address = page.found_at(path)
    print(f"{place}: {shown} version{plural} of {len(records)} record{'s'[: len(records) > 1]}")
    print(f"  {address}")


def read(
    project: Any, node: Any, keys: Sequence[str], key_columns: str | None, most: int
) -> list[Record]:
    """Read the versions of some records.

    Args:
        project: The dbt project.
        node: The history's node.
        keys: The keys, as the command line gives them.
        key_columns: The key's columns as CSV, where the model's config does not say them.
        most: How many versions of a record to read; the newest ones.

    Raises:
        AfterimageError: The model is no history, a key does not fit its columns, or has no version.
    """

    named = list(p.parse_csv(key_columns)) if key_columns else node.config.unique_key
    unique_key = [named] if isinstance(named, str) else list(named or [])
    if not unique_key:
        raise AfterimageError(
            f"give --key-columns: the config of {node.name} has no unique_key that says its key"
        )
    columns = project.columns(node)
    by_name = {column.name.lower(): column for column in columns}
    names = {name: name for name in META} | dict(node.config.get("meta_column_names") or {})
    missing = [names[name] for name in META if names[name].lower() not in by_name]
    if missing:
        raise AfterimageError(
            f"name a history: {node.name} has no column {', '.join(missing)}, so it is none"
        )
    unknown = [name for name in unique_key if name.lower() not in by_name]
    if unknown:
        raise AfterimageError(f"{node.name} has no column {', '.join(unknown)} to be its key")
    key = [by_name[name.lower()] for name in unique_key]
    ours = {name.lower() for name in names.values()}
    data = [column for column in columns if column.name.lower() not in ours]

    conditions = []
    for given in keys:
        # A comma in the key of one column is part of it.
        parts = [given] if len(key) == 1 else list(p.parse_csv(given))
        if len(parts) != len(key):
            raise AfterimageError(
                f"--key must give {', '.join(unique_key)} as CSV, {len(key)} values."
                f" Got: {visible(given)}"
            )
        pairs = zip(key, parts, strict=True)
        conditions.append(" and ".join(p.equals(column, part) for column, part in pairs))

    meta = {name: p.quote(names[name]) for name in META}
    picked = [
        f"cast(unix_micros(cast({meta['valid_from']} as timestamp)) as string)",
        f"cast(unix_micros(cast({meta['valid_to']} as timestamp)) as string)",
        *(
            f"cast({meta[name]} as string)"
            for name in ("valid_from_seq", "valid_to_seq", "is_deleted", "version")
        ),
        *(f"cast({meta[name]} as string)" for name in ("operation", "closed_by", "transaction_id")),
        *(p.text_of(column, p.quote(column.name)) for column in data),
    ]
    branches = [
        f"(select {place} as place, to_json(array({', '.join(picked)})) as line"
        f" from {node.relation_name} where {condition}"
        f" order by {meta['version']} desc limit {most})"
        for place, condition in enumerate(conditions)
    ]
    rows = project.query(
        "select concat('[', place, ',', line, ']') as line from ("
        + " union all ".join(branches)
        + ") as versions"
    )
    records = [Record(_key_text(unique_key, given)) for given in keys]
    for place, row in rows:
        start, stop, seq, end_seq, deleted, number, *further = row
        operation, closed_by, transaction, *values = further
        records[place].versions.append(
            Version(
                values=dict(zip([column.name for column in data], values, strict=True)),
                valid_from=int(start),
                valid_to=None if stop is None else int(stop),
                valid_from_seq=seq,
                valid_to_seq=end_seq,
                is_deleted=deleted == "true",
                version=int(number),
                operation=operation,
                closed_by=closed_by,
                transaction_id=transaction,
            )
        )
    for record in records:
        record.versions.sort(key=lambda version: version.version)
        if not record.versions:
            types = ", ".join(f"{column.name} {column.type}" for column in key)
            raise AfterimageError(
                f"give a --key that is in {node.name} (its key: {types});"
                f" no version has {visible(record.key)}"
            )
    return records


def _key_text(unique_key: Sequence[str], given: str) -> str:

    parts = [given] if len(unique_key) == 1 else parse_csv(given)
    return ", ".join(f"{name} {part}" for name, part in zip(unique_key, parts, strict=True))


def changes(record: Record, place: int) -> list[tuple[str, str | None, str | None]]:
    """Return what a version changed: column, old value, new value.

    Args:
        record: The record.
        place: The version's place in the record.

    Returns:
        For the first version, and one after a gap, each column that holds a value.
    """
    version = record.versions[place]
    before = record.versions[place - 1].values if place and not _gap(record, place) else {}
    return [
        (name, before.get(name), value)
        for name, value in version.values.items()
        if value != before.get(name)
    ]


def _gap(record: Record, place: int) -> bool:
    """Tell whether the record was not there just before a version."""
    before = record.versions[place - 1]
    return before.closed_by not in (None, "update") and not record.versions[place].is_deleted


def _drawn_as(version: Version) -> str:
    if version.is_deleted:
        return "truncate" if version.operation == "truncate" else "delete"
    return version.operation if version.operation in SIGNS else "update"


def _end(records: Sequence[Record], until: int | None) -> int:
    """Return how far open versions are drawn."""
    times = _times(records)
    newest, oldest = max(times), min(times)
    margin = max((newest - oldest) // 12, 1_000_000) if newest > oldest else DAY
    return max(newest, until) if until is not None else newest + margin


def _times(records: Sequence[Record]) -> list[int]:
    """Return the moments that the axis spans: all but those that stand for `long ago`."""
    versions = [version for record in records for version in record.versions]
    moments = {version.valid_from for version in versions}
    moments |= {version.valid_to for version in versions if version.valid_to is not None}
    # Rows of a full load that bear no time are valid from 1900 by default.
    return [moment for moment in moments if moment >= 0] or list(moments)


def figure(records: Sequence[Record], end: int) -> dict[str, Any]:
    """Return the picture as plotly wants it.

    Args:
        records: The records, from top to bottom.
        end: Where open versions are drawn to.
    """

    times = _times(records)
    oldest = min(times)
    early = any(v.valid_from < oldest for record in records for v in record.versions)
    margin = max((end - oldest) // 40, 1)
    start = oldest - margin * (4 if early else 1)

    def at(micros: int) -> str:
        return moment(max(micros, start)).replace(tzinfo=None).isoformat()

    bars: dict[str, dict[str, list[Any]]] = {}
    signs: dict[str, dict[str, list[Any]]] = {}
    ends: dict[str, list[Any]] = {"x": [], "y": [], "symbol": [], "color": [], "customdata": []}
    gaps: dict[str, list[Any]] = {"x": [], "y": [], "customdata": []}
    opens: dict[str, list[Any]] = {"x": [], "y": []}
    for lane, record in enumerate(records):
        at_once: Counter[int] = Counter()
        for place, version in enumerate(record.versions):
            kind = _drawn_as(version)
            stop = end if version.valid_to is None else version.valid_to
            details = [_hover(record, place), version.transaction_id]
            if stop > version.valid_from:
                bar = bars.setdefault(kind, {name: [] for name in _BAR})
                bar["base"].append(at(version.valid_from))
                bar["x"].append((stop - max(version.valid_from, start)) / 1000)
                bar["y"].append(-lane)
                bar["text"].append(f"v{version.version}")
                bar["customdata"].append(details)
            # What opened a version stands above it, and higher for each one at the same moment.
            sign = signs.setdefault(kind, {"x": [], "y": [], "customdata": []})
            sign["x"].append(at(version.valid_from))
            sign["y"].append(-lane + 0.34 + 0.13 * min(at_once[version.valid_from], 2))
            sign["customdata"].append(details)
            at_once[version.valid_from] += 1
            if version.valid_to is None:
                opens["x"].append(at(end))
                opens["y"].append(-lane)
            elif version.closed_by in SIGNS and version.closed_by != "update":
                ends["x"].append(at(version.valid_to))
                ends["y"].append(-lane)
                ends["symbol"].append(SIGNS[version.closed_by][0])
                ends["color"].append(
                    "--truncate" if version.closed_by == "truncate" else "--delete"
                )
                ends["customdata"].append(
                    [
                        f"<b>{escape(record.key)}</b> ended: {version.closed_by.replace('_', ' ')}"
                        f"<br>{_time(version.valid_to)}",
                        version.transaction_id,
                    ]
                )
            if place and _gap(record, place):
                stopped = record.versions[place - 1].valid_to
                if stopped is not None and stopped < version.valid_from:
                    told = f"<b>{escape(record.key)}</b> was not there<br>{_time(stopped)} to "
                    told += _time(version.valid_from)
                    middle = (stopped + version.valid_from) // 2
                    gaps["x"] += [at(stopped), at(middle), at(version.valid_from), None]
                    gaps["y"] += [-lane] * 3 + [None]
                    gaps["customdata"] += [[told, None]] * 4

    hover = "%{customdata[0]}<extra></extra>"
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            **bar,
            "width": 0.46,
            "marker": {
                "color": f"--{kind}",
                "line": {"color": "--card", "width": 1.5},
                **page.pattern(kind, _PATTERNS.get(kind)),
            },
            "textposition": "inside",
            "insidetextanchor": "middle",
            "constraintext": "none",
            "textangle": 0,
            "insidetextfont": {"color": "--on-bar", "size": 12},
            "hovertemplate": hover,
            "showlegend": False,
        }
        for kind, bar in bars.items()
    ]
    traces.append(
        _scatter("gone", gaps, hover, mode="lines", line={"color": "--muted", "dash": "dot"})
    )
    traces.append(_links(records, at))
    for kind, sign in signs.items():
        marker = {"symbol": SIGNS[kind][0], "color": f"--{kind}", "size": 10}
        traces.append(_scatter(kind, sign, hover, mode="markers", marker=marker))
    stop_marker = {"symbol": ends.pop("symbol"), "color": ends.pop("color"), "size": 12}
    stop_marker["line"] = {"color": "--card", "width": 1.5}
    traces.append(_scatter("end of a record", ends, hover, mode="markers", marker=stop_marker))
    arrow = {"symbol": "triangle-right", "color": "--ink", "size": 13}
    traces.append(_scatter("still open", opens, None, mode="markers", marker=arrow))

    layout = {
        "height": 150 + 96 * len(records),
        "margin": {"l": 10, "r": 24, "t": 14, "b": 60},
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
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
        "xaxis": {
            "type": "date",
            "range": [at(start), moment(end + margin).replace(tzinfo=None).isoformat()],
            "gridcolor": "--grid",
            "linecolor": "--line",
            "title": {
                "text": "UTC; what reaches the left edge began long ago" if early else "UTC",
                "font": {"color": "--muted", "size": 12},
            },
        },
        "yaxis": {
            "tickvals": [-lane for lane in range(len(records))],
            "ticktext": [_shortened(record.key, 40) for record in records],
            "range": [-len(records) + 0.45, 0.68],
            "fixedrange": True,
            "automargin": True,
            "showgrid": False,
            "zeroline": False,
        },
    }
    traces = [trace for trace in traces if trace["x"]]
    return {"id": "picture", "data": traces, "layout": layout}


_BAR = ("base", "x", "y", "text", "customdata")


def _scatter(
    name: str, points: dict[str, list[Any]], hover: str | None, **drawn: Any
) -> dict[str, Any]:
    told = {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "name": name, **points, **told, **drawn}


def _links(records: Sequence[Record], at: Any) -> dict[str, Any]:
    """Return the lines between what one transaction did to different records."""
    versions = [(-lane, v) for lane, record in enumerate(records) for v in record.versions]
    opened_by = {v.valid_from_seq: v.transaction_id for _, v in versions if v.valid_from_seq}
    places: dict[str, list[tuple[int, str]]] = {}
    for lane, version in versions:
        if version.transaction_id is not None:
            places.setdefault(version.transaction_id, []).append((lane, at(version.valid_from)))
        # An update that gave a row another key ended one version and opened the other.
        ended_by = opened_by.get(version.valid_to_seq or "")
        if ended_by is not None and version.valid_to is not None:
            places.setdefault(ended_by, []).append((lane, at(version.valid_to)))
    line: dict[str, list[Any]] = {"x": [], "y": []}
    for found in places.values():
        lanes = sorted(dict(found).items())
        if len(lanes) > 1:
            line["x"] += [when for _, when in lanes] + [None]
            line["y"] += [lane for lane, _ in lanes] + [None]
    drawn = {"color": "--ink", "width": 1.5, "dash": "dash"}
    return _scatter("one transaction", line, None, mode="lines", line=drawn)


def _hover(record: Record, place: int) -> str:

    version = record.versions[place]
    lines = [
        f"<b>{_shortened(record.key, 60)}</b>, version {version.version}: "
        f"{escape(version.operation)}",
        f"{_time(version.valid_from)} to {_time(version.valid_to) or 'now'}",
    ]
    changed = changes(record, place)
    for name, old, new in changed[:12]:
        told = value(new, 60)
        if place and not _gap(record, place):
            told = f"{value(old, 60)} → {told}"
        lines.append(f"{_shortened(name, 40)}: {told}")
    if len(changed) > 12:
        lines.append(f"… and {len(changed) - 12} more columns")
    if version.transaction_id is not None:
        lines.append(f"<i>transaction {_shortened(version.transaction_id, 60)}</i>")
    return "<br>".join(lines)


def _shortened(text: str, longest: int) -> str:

    return value(text, longest)


def _time(micros: int | None) -> str:

    return time_text(micros)


def _body(records: Sequence[Record], most: int) -> str:

    parts = [
        '<section class="card"><div id="picture" class="chart" role="img" '
        'aria-label="The versions on a time line; the tables below hold the same."></div>'
        '<p class="note">Point at a version for what it changed; its transaction lights up in the '
        "tables. Drag to zoom, double-click to see all.</p></section>"
    ]
    for record in records:
        rows = []
        for place, version in enumerate(record.versions):
            if place and _gap(record, place):
                before = record.versions[place - 1]
                rows.append(
                    '<tr class="gap"><td></td><td colspan="6">not there from '
                    f"{_time(before.valid_to)} to {_time(version.valid_from)}</td></tr>"
                )
            rows.append(_row(record, place))
        cut = record.versions[0].version - 1
        note = f'<p class="note">The first {cut} versions are left out (--most {most}).</p>'
        parts.append(
            f'<section class="card"><h2>{escape(record.key)}</h2><div class="scroll"><table>'
            "<thead><tr><th>Version</th><th>Valid from</th><th>Valid to</th><th>Opened by</th>"
            "<th>What changed</th><th>Ended by</th><th>Transaction</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div>{note if cut else ''}</section>"
        )
    return "\n".join(parts)


def _row(record: Record, place: int) -> str:

    version = record.versions[place]
    kind = _drawn_as(version)
    anew = place == 0 or _gap(record, place)
    told = []
    for name, old, new in changes(record, place):
        shown = f"<ins>{value(new, _MOST_CHARACTERS)}</ins>"
        if not anew:
            shown = f"<del>{value(old, _MOST_CHARACTERS)}</del> → {shown}"
        told.append(f'<div><span class="name">{escape(name)}</span> {shown}</div>')
    if version.is_deleted and not told:
        told.append('<span class="name">the row is gone; these were its last values</span>')
    closed = version.closed_by
    ended = "" if closed is None else _sign(closed) + escape(closed.replace("_", " "))
    transaction = version.transaction_id
    # As it is, and not as it is shown: the page's script compares it.
    named = "" if transaction is None else f' data-transaction="{html.escape(transaction)}"'
    return (
        f'<tr{named}><td class="when">{version.version}</td>'
        f'<td class="when">{_time(version.valid_from)}</td>'
        f'<td class="when">{_time(version.valid_to) or "<i>open</i>"}</td>'
        f'<td class="{kind}">{_sign(kind)}{escape(version.operation)}</td>'
        f'<td class="values">{"".join(told)}</td><td class="{escape(closed or "")}">{ended}</td>'
        f'<td class="code">{"" if transaction is None else escape(transaction)}</td></tr>'
    )


def _sign(kind: str) -> str:
    return f'<span class="sign" aria-hidden="true">{SIGNS.get(kind, ("", ""))[1]}</span>'


def _until(given: str | None) -> int | None:
    if given is None:
        return None

    try:
        when = datetime.now(timezone.utc) if given == "now" else datetime.fromisoformat(given)
    except ValueError:
        raise AfterimageError(
            f"--until must be `now`, or a date or time in UTC such as 2024-01-31. Got: {given}"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    delta = when - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _file_name(model: str, keys: Sequence[str]) -> str:
    words = re.sub(r"[^\w-]+", "-", "_".join(keys)).strip("-")[:60]
    return f"{model}-{words}.html"
