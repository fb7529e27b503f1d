"""The pages of `afterimage health`: how the changes of a source come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from dbt_afterimage.pages.page import KINDS, Document, fill, layout
from dbt_afterimage.text import duration, moment, time_text, visible

HOUR = 60 * 60 * 1_000_000
DAY = 24 * HOUR
# How many lines of a list a page shows.
_MOST = 20


class Reason(NamedTuple):
    """Why to look at a table: its grade is 2 where something is wrong, 1 where something is odd."""

    grade: int
    text: str


class Fact(NamedTuple):
    """A figure of a table, with what to know about it, and a grade as a reason has one."""

    name: str
    value: str
    note: str = ""
    grade: int = 0


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


# Why rows are rejected that are no change and no fault: the message behind a delete of Debezium;
# rows of a copy that are as in the copy before; changes that were erased; messages of other tables
# on the same topic.
OF_ANOTHER_TABLE = "of another table"
NO_CHANGE = {"tombstone", "unchanged", "erased", OF_ANOTHER_TABLE}


@dataclass
class Line:
    """A change stream in few figures: a line among all; times in microseconds after 1970, in UTC.

    Attributes:
        now: The present time.
        changes: How many there are, rejected ones too.
        late: How many came in behind a later one, by the order of the source.
        newest: The newest change's time.
        usual: How long a pause usually is at most.
        last_run: When a run last took something in.
        rejects: Rejected rows by reason, without what is particular to a row.
        missing: What its topic had lost before it was landed.
        problem: Why nothing could be read.
    """

    model: str
    now: int
    changes: int = 0
    late: int = 0
    source_rows: int | None = None
    newest: int | None = None
    usual: int | None = None
    last_run: int | None = None
    rejects: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    missing: Sequence[str] = ()
    problem: str = ""

    @property
    def age(self) -> int | None:
        """How old the newest change is."""
        return None if self.newest is None else self.now - self.newest

    @property
    def lag_grade(self) -> int:
        """Whether the newest change is older than it usually is: twice (1), or five times (2)."""
        if self.age is None or self.usual is None:
            return 0
        return (self.age > 2 * self.usual) + (self.age > 5 * self.usual)

    @property
    def reasons(self) -> list[Reason]:
        """Why to look at this table, the worst first; none where it is well."""
        if self.problem:
            return [Reason(2, self.problem)]
        found = [Reason(2, text) for text in self.missing]
        not_understood = {
            text: count for text, count in self.rejects.items() if text not in NO_CHANGE
        }
        if not_understood:
            found.append(Reason(2, _rows(not_understood, "is rejected", "are rejected")))
        if self.lag_grade and self.last_run is not None:
            was_quiet = self.last_run - (self.newest or 0) > 2 * (self.usual or 0)
            quiet = "no change has come for longer than usual"
            missed = f"no run has taken anything in for {duration(self.now - self.last_run)}"
            found.append(Reason(self.lag_grade, quiet if was_quiet else missed))
        # A source may write its local time, which is up to a day ahead.
        if self.age is not None and self.age < -DAY:
            found.append(Reason(1, "the newest change is dated in the future"))
        if self.warnings:
            found.append(Reason(1, _rows(self.warnings, "has a warning", "have a warning")))
        return sorted(found, key=lambda reason: -reason.grade)

    @property
    def grade(self) -> int:
        """The grade of its worst reason."""
        return max((reason.grade for reason in self.reasons), default=0)

    @property
    def verdict(self) -> str:
        """Whether all is well, in a line."""
        listed = "; ".join(reason.text for reason in self.reasons)
        return f"look here, because {listed}" if listed else "well"


@dataclass
class Health:
    """What a change stream says of itself; times in microseconds after 1970, in UTC.

    Attributes:
        now: The present time.
        longest_usual: How long a silence need not be reported.
        hours: Changes by hour (hours after 1970) and kind: an operation, or `rejected`.
        spans: The first and the last change of each hour.
        untimed: Changes that have no time.
        rejects: Rejected rows by reason, without what is particular to a row.
        delays: Between change and arrival, after the first run: how many changes took how long.
        missing: What its topic had lost before it was landed.
        problem: Why nothing could be read.
    """

    model: str
    now: int = 0
    longest_usual: int = DAY
    hours: dict[int, Counter[str]] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    untimed: int = 0
    source_rows: int | None = None
    rejects: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    runs: list[Run] = field(default_factory=list)
    delays: Counter[int] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def changes(self) -> int:
        """The number of changes, rejected ones too."""
        return sum(run.changes for run in self.runs)

    @property
    def late(self) -> int:
        """How many changes came in behind a later one, by the order of the source."""
        return sum(run.late for run in self.runs)

    @property
    def newest(self) -> int | None:
        """The newest change's time."""
        return max((last for _, last in self.spans.values()), default=None)

    @property
    def line(self) -> Line:
        """The same in few figures, which take little memory."""
        return Line(
            self.model,
            self.now,
            changes=self.changes,
            late=self.late,
            source_rows=self.source_rows,
            newest=self.newest,
            usual=self.usual,
            last_run=self.runs[-1].at if self.runs else None,
            rejects=dict(self.rejects),
            warnings=dict(self.warnings),
            missing=self.missing,
            problem=self.problem,
        )

    @cached_property
    def _pauses(self) -> list[tuple[int, int]]:
        """The times without a change, at least between the hours that had one."""
        spans = [self.spans[hour] for hour in sorted(self.spans)]
        return [(last, first) for (_, last), (first, _) in pairwise(spans)]

    @property
    def usual(self) -> int | None:
        """How long a pause usually is at most: 19 of 20 are no longer. Less than an hour is one."""
        lengths = sorted(end - start for start, end in self._pauses)
        return max(HOUR, lengths[(len(lengths) - 1) * 19 // 20]) if lengths else None

    @property
    def silences(self) -> list[tuple[int, int]]:
        """The times without any change that are to be reported, the longest first."""
        found = [gap for gap in self._pauses if gap[1] - gap[0] > self.longest_usual]
        return sorted(found, key=lambda gap: gap[0] - gap[1])

    @property
    def facts(self) -> list[Fact]:
        """What the reasons do not say."""
        changed = ""
        if self.newest is not None:
            oldest = min(first for first, _ in self.spans.values())
            changed = f"{time_text(oldest)} to {time_text(self.newest)}"
        found = [Fact("changes", f"{self.changes:,}", changed)]
        if self.source_rows is not None:
            more = f"{self.source_rows - self.changes:,} more than changes"
            found.insert(
                0, Fact("landed rows", f"{self.source_rows:,}", f"{more}: before-images, repeats")
            )
        known = "the first run has nothing to be late for"
        if len(self.runs) > 1:
            known = "behind a later change of an earlier run"
        found.append(Fact("late", f"{self.late:,}", known))
        if self.delays:
            half, most = (duration(_within(self.delays, share)) for share in (0.5, 0.95))
            found.append(Fact("arrival", f"within {half}", f"half of them; 95 % within {most}"))
        if self.silences:
            start, end = self.silences[0]
            longest = f"the longest {duration(end - start)} from {time_text(start)}"
            usual = f"longer than {duration(self.longest_usual)}"
            found.append(Fact("silences", f"{len(self.silences)}", f"{usual}; {longest}"))
        if self.newest is not None:
            then = f"{duration(self.runs[-1].at - self.newest)} at the last run"
            if self.usual is not None:
                then += f"; usually a change each {duration(self.usual)}"
            age = f"{duration(self.now - self.newest)} old"
            found.append(Fact("newest change", age, then, self.line.lag_grade))
        if self.untimed:
            found.append(Fact("without a time", f"{self.untimed:,}", "not in the picture"))
        return found

    @property
    def last_runs(self) -> list[Run]:
        """The runs that a page lists, the newest first."""
        return self.runs[-_MOST:][::-1]


def _rows(found: Mapping[str, int], one: str, many: str) -> str:
    count = sum(found.values())
    return f"{count:,} rows {many}" if count != 1 else f"1 row {one}"


def _within(delays: Counter[int], share: float) -> int:
    """Return how long a share of changes took at most."""
    ordered = sorted(delays.items())
    seen = accumulate(count for _, count in ordered)
    return next(
        delay for (delay, _), n in zip(ordered, seen, strict=True) if n >= share * delays.total()
    )


def counted(found: Counter[str]) -> str:
    """Return the commonest of some reasons, with how often each is."""
    listed = "; ".join(f"{visible(text)} ({n})" for text, n in found.most_common(3))
    return listed + (f"; {len(found) - 3} more" if len(found) > 3 else "")


def worst_first(line: Line) -> tuple[Any, ...]:
    """Return the place of a table among others."""
    wrong = sum(reason.grade for reason in line.reasons)
    return (-line.grade, -wrong, -sum(line.rejects.values()), -(line.age or 0), line.model)


def _facts(made: str) -> list[tuple[str, str]]:
    return [("Made at", made), ("All times", "UTC, as the source says them")]


def document(title: str, found: Sequence[Health], made: str) -> Document:
    """Return the page of some tables.

    Args:
        title: What they are of.
        found: What was read.
        made: When.
    """
    drawn = [figure(health, f"picture-{place}") for place, health in enumerate(found)]
    return Document(
        template="health.html",
        eyebrow="health",
        title=title,
        facts=_facts(made),
        figures=[one for one in drawn if one is not None],
        content={"tables": found, "most": _MOST},
    )


def overview(title: str, lines: Sequence[Line], made: str) -> Document:
    """Return the page that has one line for each table.

    Args:
        title: What they are of.
        lines: The lines in their order.
        made: When.
    """
    odd = sum(1 for line in lines if line.reasons)
    return Document(
        template="overview.html",
        eyebrow="health",
        title=title,
        facts=[("To look at", f"{odd} of {len(lines)}"), *_facts(made)],
        content={"lines": lines},
    )


def figure(health: Health, name: str) -> dict[str, Any] | None:
    """Return the picture of the changes a day; none where no change has a time.

    Args:
        health: What was read.
        name: The id of its place in the page.
    """
    # By the hour where all of it is but a few days.
    steps: dict[int, Counter[str]] = {}
    for hour, counts in sorted(health.hours.items()):
        steps.setdefault(hour // 24, Counter()).update(counts)
    step = DAY if len(steps) > 3 else HOUR
    if step == HOUR:
        steps = health.hours
    if not steps:
        return None

    def at(micros: int) -> str:
        return moment(micros).replace(tzinfo=None).isoformat()

    traces = []
    for kind in KINDS:
        points = [(day, counts[kind]) for day, counts in sorted(steps.items()) if counts[kind]]
        if points:
            traces.append(
                {
                    "type": "bar",
                    "name": kind,
                    "x": [at(day * step) for day, _ in points],
                    "y": [count for _, count in points],
                    "width": [step / 1000 * 0.82] * len(points),
                    "offset": 0,
                    "marker": fill(kind),
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
        for start, end in health.silences[:_MOST]
    ]
    title = "changes a day" if step == DAY else "changes an hour"
    return {
        "id": name,
        "data": traces,
        "layout": layout(
            320,
            margin={"l": 10, "r": 10, "t": 10, "b": 40},
            barmode="stack",
            hovermode="x unified",
            shapes=bands,
            xaxis={"type": "date", "gridcolor": "--grid", "linecolor": "--line"},
            yaxis={
                "title": {"text": title, "font": {"color": "--muted", "size": 12}},
                "automargin": True,
                "gridcolor": "--grid",
                "zerolinecolor": "--line",
                "fixedrange": True,
                "tickformat": ",d",
            },
        ),
    }
