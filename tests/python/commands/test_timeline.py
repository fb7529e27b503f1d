"""`afterimage timeline`: from a real history to a page, and the page in a real browser."""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from browser import complaints, figures, look, needs_chromium
from conftest import Lake, Project, contract_columns, inside
from dbt_afterimage.cli import main
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages import page, timeline
from dbt_afterimage.pages.timeline import Key, Record, Version
from dbt_afterimage.runtime.project import Column, equals, literal, text_of
from dbt_afterimage.text import EPOCH, time_text, visible

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
        "before" if operation == "delete" else "after": (*image, None)[:4],
        "changed_at": datetime(2024, 1, 31, hour, 30),
        "transaction_id": transaction,
        "changed_by": "web" if operation == "delete" else None,
        "ingested_at": datetime(2024, 2, 1),
    }


def moved(seq: int, hour: int, transaction: str, before: Any, after: Any) -> dict[str, Any]:
    return change(seq, "update", hour, transaction, *after) | {"before": before}


# A row that is 11, then 12, 13 and 14, and is deleted.
CHAIN = [
    change(6, "insert", 10, "t5", 11, "eu", "Cy", Decimal(1)),
    moved(7, 11, "t6", (11, "eu", "Cy", Decimal(1)), (12, "eu", "Cy", Decimal(1))),
    moved(8, 12, "t7", (12, "eu", "Cy", Decimal(1)), (12, "eu", "Cy", Decimal(2))),
    moved(9, 13, "t8", (12, "eu", "Cy", Decimal(2)), (13, "eu", "Cy", Decimal(2))),
    moved(10, 14, "t9", (13, "eu", "Cy", Decimal(2)), (14, "eu", "Cy", Decimal(2))),
    change(11, "delete", 15, "t10", 14, "eu", "Cy", Decimal(2)),
]


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
            *CHAIN,
            # 300 versions of a row with much text in it.
            *(
                change(100 + n, "update" if n else "insert", 16, f"w{n}", 99, "eu", f"{n} " * 400)
                for n in range(300)
            ),
        ],
    )
    # The table is there already: the model is what a history refers to.
    project.file("models/people_changes.sql", "select 1 as change_id")
    for name, deletes in (("people_history", "close"), ("people_ends", "version")):
        ends = {"deletes": deletes, "valid_to_current": "9999-12-31"}
        project.history(name, "people_changes", ["id", "region"], **ends)
    project.dbt("run", "--full-refresh", "--exclude", "people_changes")
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
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["2", REGION])
    target = project.folder / "people.html"
    keys = ["--key", "1,eu", "--key", line.getvalue()]
    more = ["--profiles-dir", "profiles", "--output", str(target)]
    with inside(project.folder):
        assert main(["timeline", "--model", "people_history", *keys, *more]) == 0
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


@pytest.fixture
def page_of(command: Callable[..., int], tmp_path: Path) -> Callable[..., tuple[Any, str]]:
    """What is drawn for a record, and what the page says of it, a line a row of its table."""

    def read(model: str, key: str) -> tuple[Any, str]:
        written = tmp_path / "page.html"
        assert command("--model", model, "--key", key, "--output", str(written)) == 0
        text = written.read_text().replace(get_plotlyjs(), "")
        shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text[text.index("</dl>") :]))
        return figures(written)[0], shown

    return read


def lines(drawn: Any, name: str) -> list[tuple[Any, Any]]:
    (trace,) = [trace for trace in drawn["data"] if trace["name"] == name]
    return list(zip(trace["x"], trace["y"], strict=True))


def test_a_key_change_shows_both_keys_and_links_them(page_of: Callable[..., Any]) -> None:
    drawn, said = page_of("people_history", "12,eu")
    # One step to each side: 11 before it, 13 after it, and not 14.
    assert [(round(note["y"], 2), note["text"]) for note in drawn["layout"]["annotations"]] == [
        (0.66, "id 11, region eu"),
        (-0.34, "id 12, region eu, was 11/eu"),
        (-1.34, "id 13, region eu, was 12/eu"),
    ]
    assert lines(drawn, "same row") == [
        ("2024-01-31T11:30:00", 0),
        ("2024-01-31T11:30:00", -1),
        (None, None),
        ("2024-01-31T13:30:00", -1),
        ("2024-01-31T13:30:00", -2),
        (None, None),
    ]
    opacity = [trace["marker"]["opacity"] for trace in drawn["data"] if trace["type"] == "bar"]
    # Insert: of 11. Updates: two versions of 12, one of 13.
    assert opacity == [[0.45], [1, 1, 0.45]]
    assert "id 12, region eu now 13/eu since 2024-01-31 13:30:00, transaction t8 Version" in said
    assert "● update was 11/eu t6 name Cy credit 1.00 ● update" in said
    assert "● update t7 credit 1.00 → 2.00 ◆ key change now 13/eu transaction t8" in said


@pytest.mark.parametrize("model", ["people_history", "people_ends"])
def test_a_deleted_record_says_so_and_who_did_it(page_of: Callable[..., Any], model: str) -> None:
    _, said = page_of(model, "14,eu")
    assert (
        "id 14, region eu deleted since 2024-01-31 15:30:00, transaction t10 by web Version" in said
    )
    assert "● update was 13/eu t9 name Cy credit 2.00" in said
    assert "✕ delete transaction t10 by web" in said


def test_a_row_that_came_again_is_not_held_against_what_it_was(page_of: Callable[..., Any]) -> None:
    drawn, said = page_of("people_ends", "1,eu")
    assert "the row is gone; these were its last values" in said
    # Open, whatever the config gives as its valid_to.
    assert "version 4, open since 2024-01-31 13:30:00" in said
    assert "▲ insert t4 name Ada credit 250.00" in said
    assert not [trace for trace in drawn["data"] if trace["name"] == "not there"]


def test_a_page_has_at_most_200_kb_beside_its_script_unless_it_is_asked_for_more(
    command: Callable[..., int], tmp_path: Path
) -> None:
    written = tmp_path / "wide.html"
    wide = ["--model", "people_history", "--key", "99,eu", "--output", str(written)]
    assert command(*wide) == 0
    text = written.read_text().replace(get_plotlyjs(), "")
    # Of 300 versions at 1 KB and more the newest are left: three quarters, as often as needed.
    shown = int(re.findall(r"<dt>Versions</dt><dd>(\d+)</dd>", text)[0])
    assert shown in (225, 168, 126, 94)
    assert 100_000 < len(text.encode()) <= 200_000
    assert f"The first {300 - shown} versions are left out; --most shows more." in text
    assert command(*wide, "--most", "299") == 0
    assert "<dt>Versions</dt><dd>299</dd>" in written.read_text()


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


# Of each type a value in SQL, and its text: on a page as in an audit.
TEXTS = [
    ("string", "'a ○ '", "a ○ "),
    ("boolean", "true", "true"),
    ("int", "-7", "-7"),
    ("bigint", "9007199254740993", "9007199254740993"),
    ("double", "0.1", "0.1"),
    ("decimal(10,2)", "0", "0.00"),
    ("decimal(20,7)", "0", "0.0000000"),
    ("decimal(20,7)", "-0.0000012", "-0.0000012"),
    ("decimal(20,7)", "1234567.5", "1234567.5000000"),
    ("decimal(38,18)", "1e-18", "0.000000000000000001"),
    ("decimal(38,38)", "0", f"0.{'0' * 38}"),
    ("date", "'2024-02-29'", "2024-02-29"),
    ("timestamp", "'2024-02-29 12:00:00.000001Z'", "2024-02-29 12:00:00.000001"),
    ("timestamp_ntz", "'2024-02-29 12:00:00.000001'", "2024-02-29 12:00:00.000001"),
    ("binary", "X'0aff'", "0AFF"),
    (
        "array<timestamp>",
        "array('2024-02-29 12:00:00.000001Z')",
        '["2024-02-29 12:00:00.000001Z"]',
    ),
    ("struct<a:int,b:string>", "named_struct('a', 1, 'b', 'x')", '{"a":1,"b":"x"}'),
    ("map<string,int>", "map('k', 1)", '{"k":1}'),
]


def test_a_value_has_one_text_on_a_page_and_in_an_audit(project: Project, lake: Lake) -> None:
    of_audit = project.sqls(f"_as_text('value', '{kind}')" for kind, *_ in TEXTS)
    for (kind, value, text), by_macro in zip(TEXTS, of_audit, strict=True):
        by_page = text_of(Column("value", kind), "value")
        (row,) = lake.rows(
            f"select {by_page} as page, {by_macro} as audit"
            f" from (select cast({value} as {kind}) as value) as one"
        )
        assert row == {"page": text, "audit": text}, kind


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
            "no version of people_history has id, region Eve,eu; give a --key that is in it",
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
    record = Record(
        Key("k", "k"), [version(1, 0, hour), version(2, hour, hour), version(3, hour, None)]
    )
    drawn = timeline.figure([record], 2 * hour)
    (bars,) = [trace for trace in drawn["data"] if trace["type"] == "bar"]
    assert bars["text"] == ["v1", "v3"]
    (signs,) = [trace for trace in drawn["data"] if trace["name"] == "update" and "mode" in trace]
    assert len(signs["y"]) == 3
    assert signs["y"][1] < signs["y"][2]


def test_a_load_without_a_time_does_not_squeeze_the_rest() -> None:
    year_1900 = -2_208_988_800_000_000
    newer = 1_700_000_000_000_000
    record = Record(
        Key("k", "k"), [version(1, year_1900, newer), version(2, newer, newer + 10_000_000)]
    )
    drawn = timeline.figure([record], newer + 10_000_000)
    assert drawn["layout"]["xaxis"]["range"][0].startswith("2023-11-14T22:13")
    assert "left edge" in drawn["layout"]["xaxis"]["title"]["text"]


@pytest.mark.parametrize("year", [1, 9999])
def test_versions_at_either_end_of_time_are_drawn(year: int) -> None:
    start = int((datetime(year, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds()) * 1_000_000
    until = 253_402_300_799_000_000
    record = Record(Key("k", "k"), [version(1, start, None)])
    drawn = timeline.document("m", "t", [record], until, is_whole=False).figures[0]
    assert drawn["layout"]["xaxis"]["range"][1].startswith("9999-12-31T23:59:59")


def test_a_deleted_version_is_drawn_as_one() -> None:
    record = Record(
        Key("k", "k"),
        [
            version(1, 0, 1000, closed_by="delete"),
            version(2, 1000, None, operation="delete", is_deleted=True, values={"a": "1"}),
        ],
    )
    kinds = [trace["name"] for trace in timeline.figure([record], 5000)["data"] if "base" in trace]
    assert kinds == ["update", "delete"]
    assert record.changes(1) == []


def test_texts_read_as_people_expect() -> None:
    assert time_text(1_679_434_456_123_400) == "2023-03-21 21:34:16.1234"
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(None) == ""
    assert visible("a\nb\x7f\u2066") == "a␊b⟨U+007F⟩⟨U+2066⟩"
    value = page.macro("value")
    assert value(None, 9) == "<i>NULL</i>"
    assert value("", 9) == "<i>empty</i>"
    assert value("NULL", 9) == "NULL"
    assert value("a<b", 2) == "a&lt;…"
    # Plotly knows the entity of a quotation mark by its number alone.
    assert value('<a b="c">&', 99) == "&lt;a b=&#34;c&#34;&gt;&amp;"


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(AfterimageError, match="choose another --output"):
        page.write(blocked / "x.html", page.Document("page.html", "", "", []))
