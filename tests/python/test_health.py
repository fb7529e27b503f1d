"""`afterimage health`: figures that were counted by hand, from a real table, and in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from browser import complaints, figures, look, needs_chromium
from conftest import Lake, Project, contract_columns
from dbt_afterimage.cli import main
from dbt_afterimage.commands.health import DAY, HOUR, Health, duration
from dbt_afterimage.pages import page

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
    import contextlib
    import io
    import os

    page = tmp_path_factory.mktemp("health") / "health.html"
    said = io.StringIO()
    before = Path.cwd()
    os.chdir(project.folder)
    try:
        with contextlib.redirect_stdout(said):
            source = ["--source", "landing.people__ct", "--output", str(page)]
            assert main(["health", *source, "--profiles-dir", "profiles"]) == 0
    finally:
        os.chdir(before)
    return said.getvalue(), page


def test_the_terminal_says_the_main_things(seen: tuple[str, Path]) -> None:
    lines = seen[0].splitlines()
    assert lines[0] == (
        "stg_people: 11 changes from 12 landed rows, 2024-01-01 12:00:00 to 2024-01-08 00:00:00"
    )
    told = dict(line.split(maxsplit=1) for line in lines[1:7])
    assert told["rejected"] == "3: unknown operation (2); NULL in the key (id) (1)"
    assert told["warnings"] == "2: bits past the last column (2)"
    assert told["silence"] == "1 longer than 1 d, the longest 4 d from 2024-01-02 12:00:00"
    # By hand: 3, 4 and 10 came 6.5, 1 and 0.5 days after they were made.
    assert told["late"] == (
        "2 behind a later change of an earlier run; half within 1 d, 95 % within 6 d 12 h"
    )
    assert "it was 12 h old at the last run" in told["lag"]
    assert told["no"].split(maxsplit=1)[1] == "1 changes bear no time"


@needs_chromium
def test_the_browser_draws_the_days_and_the_silence(seen: tuple[str, Path], tmp_path: Path) -> None:
    found = look(seen[1])
    assert found.console == []
    assert complaints(figures(seen[1])[0], tmp_path) == "[]"
    # Day 1: load, insert, update; day 2: delete and the update of 0.5; day 6: update, rejected;
    # day 7: update; day 8: insert.
    assert found.count(r'<g class="point"><path') == 9
    assert len(re.findall(r'data-index="\d+" fill-rule', found.dom)) == 1
    assert "<td>unknown operation</td><td>2</td>" in found.dom


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "no_changes"], "name a staging model: no_changes has no column change_id"),
        (["--source", "landing.peple"], "it has: landing, landing.people__ct"),
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


def test_silences_are_told_from_the_longest_on() -> None:
    health = Health("m", spans={0: (0, 10), 30: (30 * HOUR, 31 * HOUR), 90: (90 * HOUR, 90 * HOUR)})
    assert health.silences(DAY) == [(31 * HOUR, 90 * HOUR), (10, 30 * HOUR)]
    assert health.silences(2 * DAY) == [(31 * HOUR, 90 * HOUR)]


def test_a_duration_is_said_in_two_units() -> None:
    assert duration(0) == "0 s"
    assert duration(59_999_999) == "59 s"
    assert duration(3_600_000_000) == "1 h"
    assert duration(DAY + 60_000_000) == "1 d"
    assert duration(2 * DAY + 3 * HOUR + 1) == "2 d 3 h"
    assert duration(-90_000_000) == "-1 min 30 s"


def test_a_text_is_escaped_as_html_and_plotly_both_read_it() -> None:
    """Plotly knows the entity of a quotation mark by its number alone."""
    assert page.escape('<a b="c">&') == "&lt;a b=&#34;c&#34;&gt;&amp;"
