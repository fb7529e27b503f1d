"""`afterimage timeline`: from a real history to a page, and the page in a real browser."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from browser import complaints, figures, look, needs_chromium
from conftest import SCHEMA, Lake, Project, contract_columns
from dbt_afterimage.cli import main
from dbt_afterimage.commands import timeline
from dbt_afterimage.commands.project import Column, equals, literal
from dbt_afterimage.commands.timeline import Record, Version
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page
from dbt_afterimage.pages.text import time_text, visible

HOSTILE = "</script><script>document.title=\"pwned\"</script><b onclick='x'>&amp;{{ 1 }}\u202e\x07"
# A key that would end the literal and the statement, were it put into SQL as it is.
REGION = """e"u' or 1=1 -- {% raw %}"""

# Moves the pointer onto the last bar, which is that of the only update.
POINT = """
setTimeout(function () {
  var bars = document.querySelectorAll(".bars .point path");
  var bar = bars[bars.length - 1].getBoundingClientRect();
  var at = {clientX: bar.x + bar.width / 2, clientY: bar.y + bar.height / 2, bubbles: true};
  ["mouseover", "mousemove"].forEach(function (kind) {
    document.querySelector(".nsewdrag").dispatchEvent(new MouseEvent(kind, at));
  });
}, 500);
"""

STREAM = contract_columns("id: int, region: string, name: string, credit: decimal(10, 2)")


def change(seq: int, operation: str, hour: int, transaction: str, *image: Any) -> dict[str, Any]:
    return {
        "change_id": f"c{seq}",
        "change_seq": f"{seq:03d}",
        "operation": operation,
        "before" if operation == "delete" else "after": image,
        "changed_at": datetime(2024, 1, 31, hour, 30),
        "transaction_id": transaction,
        "ingested_at": datetime(2024, 2, 1),
    }


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    """A project with a history of two people, cut by the materialization itself."""
    project = make_project("timeline")
    lake.create(
        "people_changes",
        STREAM,
        [
            change(1, "insert", 10, "t1", 1, "eu", "Ada", Decimal(100)),
            change(2, "update", 11, "t2", 1, "eu", HOSTILE, Decimal(100)),
            change(3, "insert", 11, "t2", 2, REGION, "Bob", None),
            change(4, "delete", 12, "t3", 1, "eu", HOSTILE, Decimal(100)),
            change(5, "insert", 13, "t4", 1, "eu", "Ada", Decimal(250)),
        ],
    )
    project.file(
        "models/people_history.sql",
        "{{ config(materialized='history', unique_key=['id', 'region']) }}\n"
        f"select * from {SCHEMA}.people_changes",
    )
    project.dbt("run", "--full-refresh")
    return project


@pytest.fixture
def command(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in the project's folder."""
    monkeypatch.chdir(project.folder)

    def run(*arguments: str) -> int:
        return main(["timeline", *arguments, "--profiles-dir", "profiles"])

    return run


@pytest.fixture(scope="module")
def written(project: Project) -> Path:
    """The page of both people."""
    import csv
    import io
    import os

    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["2", REGION])
    target = project.folder / "people.html"
    before = Path.cwd()
    os.chdir(project.folder)
    try:
        keys = ["--key", "1,eu", "--key", line.getvalue()]
        more = ["--profiles-dir", "profiles", "--output", str(target)]
        assert main(["timeline", "--model", "people_history", *keys, *more]) == 0
    finally:
        os.chdir(before)
    return target


def test_the_page_holds_each_version_as_it_is(written: Path) -> None:
    (drawn,) = figures(written)
    bars = sorted(
        (y, base, x / 3_600_000, trace["name"])
        for trace in drawn["data"]
        if trace["type"] == "bar"
        for base, x, y in zip(trace["base"], trace["x"], trace["y"], strict=True)
    )
    # Open versions reach a twelfth of the three hours past the newest change.
    assert bars == [
        (-1, "2024-01-31T11:30:00", 2.25, "insert"),
        (0, "2024-01-31T10:30:00", 1.0, "insert"),
        (0, "2024-01-31T11:30:00", 1.0, "update"),
        (0, "2024-01-31T13:30:00", 0.25, "insert"),
    ]
    text = written.read_text()
    assert "not there from 2024-01-31 12:30:00 to 2024-01-31 13:30:00" in text
    assert "<ins>250.00</ins>" in text
    assert text.count('data-transaction="t2"') == 2
    (link,) = [trace for trace in drawn["data"] if trace["name"] == "one transaction"]
    assert link["x"] == ["2024-01-31T11:30:00"] * 2 + [None]


def test_the_page_is_one_file_and_holds_values_as_text(written: Path) -> None:
    text = written.read_text()
    own = text.replace(get_plotlyjs(), "")
    assert re.findall(r"<script[^>]*>", own) == [
        '<script id="figures" type="application/json">',
        *["<script>"] * 2,
    ]
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|https?://""", own)
    assert "&lt;/script&gt;" in own
    assert "⟨U+202E⟩␇" in own
    assert "\u202e" not in text


@needs_chromium
def test_the_browser_draws_every_bar_and_has_nothing_to_complain_of(
    written: Path, tmp_path: Path
) -> None:
    pictures = [tmp_path / "light.png", tmp_path / "dark.png"]
    for picture, ground in zip(pictures, ("rgb(255, 255, 255)", "rgb(28, 32, 39)"), strict=True):
        seen = look(written, dark=picture.stem == "dark", screenshot=picture)
        assert seen.console == []
        assert seen.count(r'<g class="point"><path') == 4
        assert f"background: {ground}" in seen.dom
        assert "<title>people_history" in seen.dom
        assert picture.stat().st_size > 20_000
    assert pictures[0].read_bytes() != pictures[1].read_bytes()


@needs_chromium
def test_what_is_under_the_pointer_is_shown_as_text_in_the_colour_of_text(
    written: Path, tmp_path: Path
) -> None:
    # The page's policy allows no script of a test, so the copy goes without.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", written.read_text())
    pointed = tmp_path / "pointed.html"
    pointed.write_text(
        text.replace(
            "</body>",
            f"<script>{POINT}</script></body>",
        )
    )
    seen = look(pointed)
    assert seen.console == []
    assert "<title>people_history" in seen.dom
    (label,) = re.findall(r'<g class="hovertext".*?</g>', seen.dom, re.DOTALL)
    assert "Ada → &lt;/script&gt;&lt;script&gt;document.title" in label
    assert "<script" not in label
    assert "fill: rgb(29, 36, 48)" in label
    # The other version that the same transaction opened, and this one.
    assert len(re.findall(r'<tr data-transaction="t2" class="same">', seen.dom)) == 2


PERSON = ["--model", "people_history", "--key", "1,eu"]


def test_pages_are_below_the_state_folder_share_a_script_and_never_reach_git(
    command: Callable[..., int],
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = set(project.folder.iterdir())
    assert command(*PERSON) == 0
    out, _ = capfd.readouterr()
    folder = project.folder / ".afterimage" / "pages"
    first = folder / "people_history-id-1-region-eu.html"
    assert out.splitlines() == [
        ".afterimage/pages/people_history-id-1-region-eu.html: 3 versions of 1 record",
        f"  {first.as_uri()}",
    ]
    # From elsewhere too it is the project that has the pages, and what is printed leads there.
    monkeypatch.chdir(tmp_path)
    where = ["--project-dir", str(project.folder), "--profiles-dir", f"{project.folder}/profiles"]
    assert main(["timeline", *PERSON, "--key", "1,eu", *where]) == 0
    second = folder / "people_history-id-1-region-eu_id-1-region-eu.html"
    assert f"{second}: 6 versions of 2 records" in capfd.readouterr()[0]

    (script,) = folder.glob("*.js")
    assert script.read_text() == get_plotlyjs()
    for written in (first, second):
        text = written.read_text()
        assert len(text) < 100_000
        assert f'<script src="{script.name}"></script>' in text
        assert "https:" not in re.findall(r'Content-Security-Policy" content="(.*?)"', text)[0]
    assert set(project.folder.iterdir()) == before
    git = ["git", "-C", str(project.folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    listed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "dbt_project.yml" in listed.stdout
    assert ".afterimage" not in listed.stdout


def test_a_page_that_is_given_a_place_is_one_file(
    command: Callable[..., int], tmp_path: Path
) -> None:
    assert command(*PERSON, "--output", str(tmp_path / "ticket.html")) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ticket.html"]
    text = (tmp_path / "ticket.html").read_text()
    assert get_plotlyjs() in text
    assert "<script src=" not in text


@needs_chromium
def test_the_browser_draws_a_page_with_the_shared_script(
    command: Callable[..., int], project: Project, tmp_path: Path
) -> None:
    assert command(*PERSON) == 0
    written = project.folder / ".afterimage" / "pages" / "people_history-id-1-region-eu.html"
    seen = look(written)
    assert seen.console == []
    assert seen.count(r'<g class="point"><path') == 3
    alone = tmp_path / "alone.html"
    alone.write_text(written.read_text())
    assert "is not beside this page" in look(alone).dom


@needs_chromium
def test_the_browser_would_complain(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>throw new Error('as it should')</script>")
    assert "as it should" in "".join(look(bad).console)


@needs_chromium
def test_plotly_knows_all_that_the_figure_says(written: Path, tmp_path: Path) -> None:
    assert complaints(figures(written)[0], tmp_path) == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "people_histori", "--key", "1,eu"], "did you mean people_history"),
        (
            ["--model", "people_history", "--key", "1"],
            "--key must give id, region as CSV, 2 values",
        ),
        (
            ["--model", "people_history", "--key", "Eve,eu"],
            "give a --key that is in people_history",
        ),
        (["--model", "people_history", "--key", "1,eu", "--until", "soon"], "--until must be"),
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
    last = err.splitlines()[-1]
    assert last.startswith("afterimage: ")
    assert said in last
    assert "Traceback" not in err


def test_a_key_is_never_part_of_the_statement() -> None:
    for text in ("x' or '1'='1", "{{ evil }}", "`", "\\'", "naïve — ☃"):
        expression = literal(text)
        assert re.fullmatch(r"decode\(unhex\('[0-9a-f]*'\), 'utf-8'\)", expression)
    assert equals(Column("a`b", "int"), "1").startswith("`a``b` = try_cast(decode(unhex('31')")


def version(number: int, start: int, stop: int | None, **more: Any) -> Version:
    known: dict[str, Any] = {
        "values": {"a": str(number)},
        "valid_from_seq": str(number),
        "valid_to_seq": None,
        "is_deleted": False,
        "operation": "update",
        "closed_by": None if stop is None else "update",
        "transaction_id": None,
    }
    return Version(valid_from=start, valid_to=stop, version=number, **known | more)


def test_versions_of_no_length_are_signs_above_each_other_and_no_bars() -> None:
    hour = 3_600_000_000
    record = Record("k", [version(1, 0, hour), version(2, hour, hour), version(3, hour, None)])
    drawn = timeline.figure([record], 2 * hour)
    (bars,) = [trace for trace in drawn["data"] if trace["type"] == "bar"]
    assert bars["text"] == ["v1", "v3"]
    (signs,) = [trace for trace in drawn["data"] if trace["name"] == "update" and "mode" in trace]
    assert len(signs["y"]) == 3
    assert signs["y"][1] < signs["y"][2]


def test_a_load_without_a_time_does_not_squeeze_the_rest() -> None:
    year_1900 = -2_208_988_800_000_000
    newer = 1_700_000_000_000_000
    record = Record("k", [version(1, year_1900, newer), version(2, newer, newer + 10_000_000)])
    drawn = timeline.figure([record], newer + 10_000_000)
    assert drawn["layout"]["xaxis"]["range"][0].startswith("2023-11-14T22:13")
    assert "left edge" in drawn["layout"]["xaxis"]["title"]["text"]


def test_a_deleted_version_is_drawn_as_one() -> None:
    record = Record(
        "k",
        [
            version(1, 0, 1000, closed_by="delete"),
            version(2, 1000, None, operation="delete", is_deleted=True, values={"a": "1"}),
        ],
    )
    kinds = [trace["name"] for trace in timeline.figure([record], 5000)["data"] if "base" in trace]
    assert kinds == ["update", "delete"]
    assert timeline.changes(record, 1) == []


def test_texts_read_as_people_expect() -> None:
    assert time_text(1_679_434_456_123_400) == "2023-03-21 21:34:16.1234"
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(None) == ""
    assert visible("a\nb\x7f\u2066") == "a␊b⟨U+007F⟩⟨U+2066⟩"
    assert page.value(None) == "<i>NULL</i>"
    assert page.value("NULL") == "NULL"
    assert page.value("a<b", 2) == "a&lt;…"


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(AfterimageError, match="choose another --output"):
        page.write(blocked / "x.html", eyebrow="", title="", facts=[], figures=[], body="")
