"""`afterimage health`: figures that were counted by hand, from a real table, and in a browser."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from browser import complaints, figures, look, needs_chromium
from conftest import SCHEMA, Lake, Project, contract_columns, inside
from dbt_afterimage.cli import main
from dbt_afterimage.commands.health import take
from dbt_afterimage.pages.health import DAY, HOUR, Health, Run, worst_first
from dbt_afterimage.text import duration

CONTRACT = contract_columns("id: int, region: string, name: string, credit: decimal(10, 2)") | {
    "warnings": "array<string>",
    "source_rows": "int",
}
START = datetime(2024, 1, 1, 12)
FIRST, SECOND = START + timedelta(days=6), START + timedelta(days=7)


def change(
    seq: int, operation: str | None, day: float | None, run: datetime, **more: Any
) -> dict[str, Any]:
    return {
        "change_id": f"c{seq}",
        "change_seq": f"{seq:03d}",
        "operation": operation,
        "changed_at": None if day is None else START + timedelta(days=day),
        "ingested_at": run,
        "source_rows": 1,
        **more,
    }


CHANGES = [
    change(0, "load", 0, FIRST),
    change(1, "insert", 0, FIRST),
    change(2, "update", 0.01, FIRST, source_rows=2, warnings=["bits past the last column: 5, 9"]),
    change(5, "delete", 1, FIRST),
    # Nothing for four days, but for a row that nobody understood.
    change(6, "update", 5, FIRST),
    change(7, None, 5, FIRST, reject_reason='unknown operation: "X"'),
    change(8, None, 5, FIRST, reject_reason='unknown operation: "<Y>"'),
    change(9, "update", None, FIRST, reject_reason="NULL in the key (id)"),
    # The second run: one change in order, two that come in behind number 6.
    change(10, "insert", 6.5, SECOND),
    change(3, "update", 0.5, SECOND, warnings=["bits past the last column: 7"]),
    change(4, "update", 6, SECOND),
]


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    """A project whose staging table holds the changes above."""
    project = make_project("health")
    lake.create("stg_people", CONTRACT, CHANGES)
    lake.create("no_changes", {"id": "int"}, [{"id": 1}])
    project.file("models/stg_people.sql", "select * from {{ source('landing', 'people__ct') }}")
    project.file("models/no_changes.sql", "select 1 as id")
    project.file("models/sources.yml", "sources: [{name: landing, tables: [{name: people__ct}]}]")
    return project


@pytest.fixture
def command(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in the project's folder."""
    monkeypatch.chdir(project.folder)

    def run(*arguments: str) -> int:
        return main(["health", *arguments, "--profiles-dir", "profiles"])

    return run


@pytest.fixture(scope="module")
def seen(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the terminal says of the source, and the page."""
    page = tmp_path_factory.mktemp("health") / "health.html"
    said = io.StringIO()
    with inside(project.folder), redirect_stdout(said):
        source = ["--source", "landing.people__ct", "--output", str(page)]
        assert main(["health", *source, "--profiles-dir", "profiles"]) == 0
    return said.getvalue(), page


def test_the_terminal_says_the_main_things(seen: tuple[str, Path]) -> None:
    lines = seen[0].splitlines()
    assert re.fullmatch(
        "stg_people: look here, because 3 rows are rejected; no run has taken anything in for"
        r" \d+ d( \d+ h)?; 2 rows have a warning",
        lines[0],
    )
    told = {line[:16].strip(): line[17:] for line in lines[1:10]}
    assert told["rejected"] == "unknown operation (2); NULL in the key (id) (1)"
    assert told["warnings"] == "bits past the last column (2)"
    assert told["landed rows"] == "12; 1 more than changes: before-images, repeats"
    assert told["changes"] == "11; 2024-01-01 12:00:00 to 2024-01-08 00:00:00"
    assert told["silences"] == "1; longer than 1 d; the longest 4 d from 2024-01-02 12:00:00"
    # By hand: 3, 4 and 10 came 6.5, 1 and 0.5 days after they were made.
    assert told["late"] == "2; behind a later change of an earlier run"
    assert told["arrival"] == "within 1 d; half of them; 95 % within 6 d 12 h"
    # Pauses of 12 h, 12 h, 4 d, 1 d and 12 h: 4 of these 5 are a day at most.
    assert told["newest change"].endswith("; 12 h at the last run; usually a change each 1 d")
    assert told["without a time"] == "1; not in the picture"


def test_the_page_says_nothing_twice(seen: tuple[str, Path]) -> None:
    text = re.sub(r"<(script|style)\b.*?</\1>", "", seen[1].read_text(), flags=re.DOTALL)
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index("</dl>") :]))
    assert shown.strip().startswith("stg_people Look here , because 3 rows are rejected ;")
    for once in ("12", "4 d from", "95 %", "unknown operation", "2024-01-01 12:00:00"):
        assert len(re.findall(rf"(?<![-:\d]){once}(?![-:\d])(?! h)", shown)) == 1, once
    assert 'class="grade-2"><span>newest change' in text


def test_all_staging_models_have_a_line_the_worst_first(
    command: Callable[..., int],
    project: Project,
    lake: Lake,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lake.create("stg_empty", CONTRACT, [])
    today = datetime.now(timezone.utc).replace(tzinfo=None)
    fresh = [
        change(n, "insert", None, today) | {"changed_at": today - timedelta(hours=n)}
        for n in range(1, 5)
    ]
    lake.create("stg_fresh", CONTRACT, fresh)
    for name in ("empty", "fresh", "unbuilt"):
        project.model(f"stg_{name}", "select 1 as change_id", materialized="change_stream")
    written = tmp_path / "all.html"
    assert command("--all", "--output", str(written)) == 0
    lines = capfd.readouterr()[0].splitlines()[:4]
    # `no_changes` is a table of another kind.
    assert lines[0].startswith("stg_people: look here, because 3 rows are rejected; ")
    assert lines[1:] == [
        "stg_empty: look here, because it is empty: no row has arrived yet",
        "stg_unbuilt: look here, because it has not been built: dbt build --select +stg_unbuilt",
        "stg_fresh: well",
    ]
    text = written.read_text()
    # In that order, and without a picture there is no script at all.
    names = re.findall(r"<td class=\"event\"><b>(\w+)</b>", text)
    assert names == ["stg_people", "stg_empty", "stg_unbuilt", "stg_fresh"]
    assert "<dt>To look at</dt><dd>3 of 4</dd>" in text
    assert "<script" not in text
    assert len(text) < 20_000


def test_a_table_that_cannot_be_asked_leaves_the_page_to_the_others(
    make_project: Callable[[str], Project],
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    project = make_project("health_broken")
    monkeypatch.chdir(project.folder)
    for name in ("a_broken", "b_whole"):
        lake.create(name, CONTRACT, [change(0, "insert", 0, FIRST)])
        project.model(name, "select 1 as change_id", materialized="change_stream")
    for row in lake.rows(f"select distinct input_file_name() as file from {SCHEMA}.a_broken"):
        Path(row["file"].removeprefix("file:")).unlink()
    for chosen, name in (
        (["--all"], "all"),
        (["--model", "a_broken", "--model", "b_whole"], "a_broken"),
    ):
        assert main(["health", *chosen, "--profiles-dir", "profiles"]) == 1
        out, err = capfd.readouterr()
        lines = [line for line in out.splitlines() if re.match("[ab]_", line)]
        assert re.match(r"a_broken: look here, because Spark failed: .*does not exist", lines[0])
        assert lines[1:] == ["b_whole: well"]
        assert err.splitlines()[-1] == "afterimage: cannot be asked: a_broken"
        text = (project.folder / ".afterimage" / "pages" / f"{name}-health.html").read_text()
        assert text.index("Look here</b>, because <span class") < text.index("Well</b>")
    # Nothing is left to show.
    assert main(["health", "--model", "a_broken", "--profiles-dir", "profiles"]) == 1
    assert capfd.readouterr().err.splitlines()[-1].startswith("afterimage: Spark failed: ")


def test_messages_of_several_partitions_are_late_within_their_own(
    command: Callable[..., int], project: Project, lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    """With `position` the place is the partition and the offset, each of 19 digits."""
    places = [(FIRST, 1, 7), (SECOND, 0, 3), (SECOND, 1, 6), (SECOND, 1, 8)]
    rows = [
        change(n, "insert", n, run) | {"change_seq": f"{partition:019d}{offset:019d}"}
        for n, (run, partition, offset) in enumerate(places)
    ]
    lake.create("stg_messages", CONTRACT, rows)
    body = "select 1 as id -- position=['partition', 'offset']"
    project.model("stg_messages", body, materialized="change_stream")
    assert command("--model", "stg_messages") == 0
    # Offset 6 of partition 1 alone is behind one that had been taken in.
    assert "late           1; behind a later change" in capfd.readouterr().out


@pytest.mark.slow
@needs_chromium
def test_the_browser_draws_the_days_and_the_silence(seen: tuple[str, Path], tmp_path: Path) -> None:
    found = look(seen[1])
    assert found.console == []
    assert complaints(figures(seen[1])[0], tmp_path) == "[]"
    # Day 1: load, insert, update; day 2: delete and the update of 0.5; day 6: update, rejected;
    # day 7: update; day 8: insert.
    assert found.count(r'<g class="point"><path') == 9
    assert len(re.findall(r'data-index="\d+" fill-rule', found.dom)) == 1
    assert '<td>unknown operation</td><td class="number">2</td>' in found.dom


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--model", "no_changes"],
            "no_changes is not a staging model, as it has no column change_id",
        ),
        (["--source", "landing.peple"], "Allowed: landing, landing.people__ct"),
    ],
)
def test_an_error_is_one_line_with_the_remedy(
    command: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    assert command(*arguments) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("afterimage: ")
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


def health(last: int, now: int, **more: Any) -> Health:
    """A change each two hours until the last one, which a run takes in an hour later."""
    spans = {hour: (hour * HOUR, hour * HOUR) for hour in range(0, last + 1, 2)}
    run = Run(at=(last + 1) * HOUR, changes=len(spans), newest=last * HOUR, late=0)
    return Health("m", now * HOUR, spans=spans, runs=[run], **more)


def test_the_lag_is_held_against_the_usual_rhythm() -> None:
    assert health(20, 24).line.verdict == "well"
    # Over two times two hours it is odd, over five times it is wrong.
    assert [health(20, 20 + hours).line.lag_grade for hours in (4, 5, 10, 11)] == [0, 1, 1, 2]
    assert health(20, 26).line.reasons == [
        (1, "no run has taken anything in for 5 h"),
    ]
    # The runs go on, the source has nothing.
    quiet = health(20, 50)
    quiet.runs.append(Run(at=49 * HOUR, changes=1, newest=None, late=0))
    assert quiet.line.reasons == [(2, "no change has come for longer than usual")]
    # From one change alone there is no rhythm.
    assert health(0, 10_000).line.verdict == "well"


def test_a_change_from_the_future_does_not_make_a_quiet_source_well() -> None:
    assert health(20, 10).line.verdict == "well"  # The source writes its local time.
    ahead = health(20, 50)
    ahead.spans[900] = (900 * HOUR, 900 * HOUR)
    assert ahead.line.reasons == [(1, "the newest change is dated in the future")]


def test_what_is_wrong_comes_before_what_is_odd() -> None:
    odd = health(20, 22, warnings=Counter(bits=9))
    wrong = health(20, 22, rejects=Counter(a=1))
    worse = health(20, 22, rejects=Counter(a=1), warnings=Counter(bits=1))
    well = health(20, 22)
    ordered = sorted([well, odd, wrong, worse], key=lambda one: worst_first(one.line))
    assert ordered == [worse, wrong, odd, well]
    assert worse.line.verdict == "look here, because 1 row is rejected; 1 row has a warning"


def test_rows_that_are_no_change_are_no_reason_to_look() -> None:
    rejects = Counter(tombstone=9, unchanged=3, erased=5)
    assert health(20, 22, rejects=rejects).line.verdict == "well"
    rejects["unknown operation"] += 1
    assert health(20, 22, rejects=rejects).line.verdict == "look here, because 1 row is rejected"


def test_changes_of_another_table_on_the_topic_are_no_news_of_this_one() -> None:
    groups: list[dict[str, Any]] = [
        {"run": 100 * HOUR, "hour": hour, "kind": "rejected", "reason": "of another table"}
        if hour > 10
        else {"run": 11 * HOUR, "hour": hour, "kind": "insert"}
        for hour in range(100)
    ]
    found = Health("m", 100 * HOUR)
    for group in groups:
        group |= {"changes": 1, "late": 0, "first": group["hour"] * HOUR}
        group["last"] = group["first"]
    take(groups, found)
    assert found.line.verdict == "look here, because no change has come for longer than usual"
    assert (found.newest, found.changes) == (10 * HOUR, 100)


def test_silences_are_told_from_the_longest_on() -> None:
    spans = {0: (0, 10), 30: (30 * HOUR, 31 * HOUR), 90: (90 * HOUR, 90 * HOUR)}
    assert Health("m", spans=spans).silences == [(31 * HOUR, 90 * HOUR), (10, 30 * HOUR)]
    longer = Health("m", spans=spans, longest_usual=2 * DAY)
    assert longer.silences == [(31 * HOUR, 90 * HOUR)]


def test_a_duration_is_said_in_two_units() -> None:
    assert duration(0) == "0 s"
    assert duration(59_999_999) == "59 s"
    assert duration(3_600_000_000) == "1 h"
    assert duration(DAY + 60_000_000) == "1 d"
    assert duration(2 * DAY + 3 * HOUR + 1) == "2 d 3 h"
    assert duration(-90_000_000) == "-1 min 30 s"
