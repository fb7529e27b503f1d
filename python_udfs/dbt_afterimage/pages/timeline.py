"""The page of `afterimage timeline`: the versions of some records, as a picture and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dbt_afterimage.pages.page import KINDS, Document, fill, layout, macro, now
from dbt_afterimage.text import moment, time_text, visible

DAY = 24 * 60 * 60 * 1_000_000
# How large a page becomes, beside the script that draws it, if nobody asks for more of it.
_LARGEST = 200_000


class Key(NamedTuple):
    """A record's key as people read it, and in short where its columns are known."""

    text: str
    short: str


@dataclass(frozen=True)
class Version:
    """One version of a record; times in microseconds after 1970, in UTC.

    Attributes:
        values: The data columns as text.
        was: The key that the row had until an update gave it this one.
        becomes: The key that an update gave the row at the end of this version.
        ended_in: Which transaction, and whose, ended the record with this version.
    """

    values: dict[str, str | None]
    valid_from: int
    valid_from_seq: str
    is_deleted: bool
    version: int
    operation: str
    valid_to: int | None = None
    valid_to_seq: str | None = None
    closed_by: str | None = None
    transaction_id: str | None = None
    was: Key | None = None
    becomes: Key | None = None
    ended_in: str | None = None

    @property
    def kind(self) -> str:
        """What it is drawn as."""
        if self.is_deleted:
            return self.operation if self.operation in ("truncate", "key_change") else "delete"
        return self.operation if self.operation in KINDS else "update"

    @property
    def ends(self) -> bool:
        """Whether the row was gone after it."""
        return self.closed_by not in (None, "update")


class State(NamedTuple):
    """What became of a record, and the kind that its colour is of."""

    kind: str
    text: str


@dataclass
class Record:
    """A record, with its versions in order.

    Attributes:
        key_columns: Its key's columns.
        is_asked: Whether it was asked for, or is the other end of a key change.
    """

    key: Key
    versions: list[Version] = field(default_factory=list)
    key_columns: Sequence[str] = ()
    is_asked: bool = True

    def begins(self, place: int) -> bool:
        """Tell whether the record was not there just before a version."""
        version = self.versions[place]
        before = self.versions[place - 1] if place else None
        return before is None or (not version.is_deleted and (before.is_deleted or before.ends))

    def absence(self, place: int) -> tuple[int, int] | None:
        """Return the time without a version, not even one of a deleted row, before this one."""
        stop = self.versions[place - 1].valid_to if place else None
        start = self.versions[place].valid_from
        return (stop, start) if stop is not None and stop < start else None

    def changes(self, place: int) -> list[tuple[str, str | None, str | None]]:
        """Return what a version changed beside the key: column, old value, new value.

        Args:
            place: The version's place in the record.

        Returns:
            For the first version, and one after a gap, each column that holds a value.
        """
        before = {} if self.begins(place) else self.versions[place - 1].values
        return [
            (name, before.get(name), value)
            for name, value in self.versions[place].values.items()
            if value != before.get(name) and name not in self.key_columns
        ]

    @property
    def state(self) -> State:
        """What became of it."""
        last = self.versions[-1]
        if last.is_deleted:
            # The version before says who, and which key came after.
            ended = self.versions[-2] if len(self.versions) > 1 else last
            kind, at = last.kind, last.valid_from
        elif last.ends and last.closed_by:
            ended, kind, at = last, last.closed_by, last.valid_to or 0
        else:
            return State("", f"version {last.version}, open since {time_text(last.valid_from)}")
        said = {"truncate": "deleted by a truncate", "key_change": "has another key"}
        if ended.becomes:
            said["key_change"] = f"now {ended.becomes.short}"
        by = f", {ended.ended_in}" if ended.ended_in else ""
        return State(kind, f"{said.get(kind, 'deleted')} since {time_text(at)}{by}")


def document(
    model: str, table: str, records: Sequence[Record], until: int | None, is_whole: bool
) -> Document:
    """Return the page of some records; of too many versions the newest.

    Args:
        model: The history's name.
        table: Its table.
        records: The records, from top to bottom.
        until: How far open versions are drawn.
        is_whole: Whether to show all versions that were read, however large the page becomes.
    """
    most = max(len(record.versions) for record in records)
    while True:
        shown = [replace(record, versions=record.versions[-most:]) for record in records]
        asked = [record for record in shown if record.is_asked]
        end = _end(shown, until)
        drawn = [("Open versions", f"still hold; drawn up to {time_text(end)}")]
        if all(record.versions[-1].valid_to is not None for record in asked):
            drawn = []
        page = Document(
            template="timeline.html",
            eyebrow="timeline",
            title=f"{model}: {'; '.join(record.key.text for record in asked)}",
            facts=[
                ("Table", table),
                ("Versions", str(sum(len(record.versions) for record in asked))),
                *drawn,
                ("Made at", now().strftime("%Y-%m-%d %H:%M:%S UTC")),
                ("All times", "UTC"),
            ],
            figures=[figure(shown, end)],
            content={"records": asked},
        )
        if is_whole or most == 1 or len(page.html().encode()) <= _LARGEST:
            return page
        most = most * 3 // 4


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
    # Rows of a full load that have no time are valid from 1900 by default.
    return [moment for moment in moments if moment >= 0] or list(moments)


def figure(records: Sequence[Record], end: int) -> dict[str, Any]:
    """Return the picture as plotly wants it.

    Args:
        records: The records, from top to bottom.
        end: Where open versions are drawn to.
    """
    oldest = min(_times(records))
    early = any(v.valid_from < oldest for record in records for v in record.versions)
    margin = max((end - oldest) // 40, 1)
    start = oldest - margin * (4 if early else 1)
    pointed, ended = macro("pointed"), macro("ended")
    absent, title = macro("absent"), macro("lane")

    def at(micros: int) -> str:
        return moment(max(micros, start)).replace(tzinfo=None).isoformat()

    bars: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    signs: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    ends: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    gaps: list[tuple[Any, ...]] = []
    opens: list[tuple[Any, ...]] = []
    for lane, record in enumerate(records):
        at_once: Counter[int] = Counter()
        for place, version in enumerate(record.versions):
            stop = end if version.valid_to is None else version.valid_to
            details = [pointed(record, place), visible(version.transaction_id or "")]
            if stop > version.valid_from:
                length = (stop - max(version.valid_from, start)) / 1000
                bars[version.kind].append(
                    (
                        at(version.valid_from),
                        length,
                        -lane,
                        f"v{version.version}",
                        details,
                        record.is_asked,
                    )
                )
            # What opened a version is above it, and higher for each one at the same moment.
            height = -lane + 0.34 + 0.13 * min(at_once[version.valid_from], 2)
            signs[version.kind].append((at(version.valid_from), height, details))
            at_once[version.valid_from] += 1
            if version.valid_to is None:
                opens.append((at(end), -lane))
            elif version.ends and version.closed_by in KINDS:
                label = [ended(record, version), ""]
                ends[version.closed_by].append((at(version.valid_to), -lane, label))
            absence = record.absence(place)
            if absence:
                middle = sum(absence) // 2
                label = [absent(record, absence), ""]
                gaps += [(at(when), -lane, label) for when in (absence[0], middle, absence[1])]
                gaps.append((None, None, label))

    traces = [
        _trace(
            kind,
            bars[kind],
            ("base", "x", "y", "text", "customdata"),
            type="bar",
            orientation="h",
            width=0.46,
            marker={
                **fill(kind),
                "line": {"color": "--card", "width": 1.5},
                "opacity": [1 if is_asked else 0.45 for *_, is_asked in bars[kind]],
            },
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            insidetextfont={
                "color": ["--on-bar" if is_asked else "--ink" for *_, is_asked in bars[kind]],
                "size": 12,
            },
            showlegend=False,
        )
        for kind in KINDS
    ]
    lines = (
        ("not there", gaps, {"color": "--muted", "dash": "dot"}),
        ("same row", _moves(records, at), {"color": "--key_change", "dash": "dot"}),
        ("one transaction", _joined(records, at), {"color": "--ink", "dash": "dash", "width": 1.5}),
    )
    traces += [
        _trace(name, points, mode="lines", line=line, legendrank=1001)
        for name, points, line in lines
    ]
    for kind in KINDS:
        own = {"name": kind.replace("_", " "), "mode": "markers", "legendgroup": kind}
        marker = {"symbol": KINDS[kind].symbol, "color": f"--{kind}", "size": 10}
        large = {"size": 12, "line": {"color": "--card", "width": 1.5}}
        traces += [
            _trace(points=signs[kind], marker=marker, **own),
            _trace(points=ends[kind], marker=marker | large, showlegend=not signs[kind], **own),
        ]
    arrow = {"symbol": "triangle-right", "color": "--ink", "size": 13}
    traces.append(_trace("still open", opens, mode="markers", marker=arrow, legendrank=1001))

    below = "UTC; what reaches the left edge began long ago" if early else "UTC"
    return {
        "id": "picture",
        "data": [trace for trace in traces if trace["x"]],
        "layout": layout(
            96 * len(records) + 150,
            margin={"l": 10, "r": 24, "t": 14, "b": 60},
            barmode="overlay",
            bargap=0,
            hovermode="closest",
            # A label that does not fit its bar is left out.
            uniformtext={"mode": "hide", "minsize": 11},
            xaxis={
                "type": "date",
                "range": [at(start), moment(end + margin).replace(tzinfo=None).isoformat()],
                "gridcolor": "--grid",
                "linecolor": "--line",
                "title": {"text": below, "font": {"color": "--muted", "size": 12}},
            },
            yaxis={
                "range": [-len(records) + 0.45, 0.85],
                "fixedrange": True,
                "showticklabels": False,
                "showgrid": False,
                "zeroline": False,
            },
            # The names are above their lanes, where they leave all of a phone's width to the bars.
            annotations=[
                {
                    "text": title(record),
                    "x": 0,
                    "xref": "paper",
                    "xanchor": "left",
                    "y": -lane + 0.66,
                    "showarrow": False,
                    "bgcolor": "--card",
                    "font": {"color": "--ink" if record.is_asked else "--muted"},
                }
                for lane, record in enumerate(records)
            ],
        ),
    }


def _trace(
    name: str,
    points: Iterable[tuple[Any, ...]],
    names: Sequence[str] = ("x", "y", "customdata"),
    **drawn: Any,
) -> dict[str, Any]:
    columns = [list(column) for column in zip(*points, strict=True)]
    found = dict(zip(names, columns, strict=False)) or {"x": []}
    hover = {"hoverinfo": "skip"}
    if "customdata" in found:
        hover = {"hovertemplate": "%{customdata[0]}<extra></extra>"}
    return {"type": "scatter", "name": name, **found, **hover, **drawn}


def _moves(records: Sequence[Record], at: Any) -> list[tuple[Any, ...]]:
    """Return the lines from the key that a row had to the one that an update gave it."""
    lanes: dict[Key | None, int] = {record.key: -lane for lane, record in enumerate(records)}
    moves = set()
    for record in records:
        for version in record.versions:
            if version.was in lanes:
                moves.add((version.valid_from, lanes[version.was], lanes[record.key]))
            if version.becomes in lanes and version.valid_to is not None:
                moves.add((version.valid_to, lanes[record.key], lanes[version.becomes]))
    return [
        point
        for when, old, new in sorted(moves)
        for point in ((at(when), old), (at(when), new), (None, None))
    ]


def _joined(records: Sequence[Record], at: Any) -> list[tuple[Any, ...]]:
    """Return the lines between what one transaction did to different records."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for lane, record in enumerate(records):
        for version in record.versions:
            if version.transaction_id is not None:
                found[version.transaction_id][-lane] = at(version.valid_from)
    return [
        point
        for lanes in found.values()
        if len(lanes) > 1
        for point in [*((when, lane) for lane, when in sorted(lanes.items())), (None, None)]
    ]
