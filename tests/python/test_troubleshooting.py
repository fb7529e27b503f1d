"""The troubleshooting page has every error line of the macros, and no other."""

from __future__ import annotations

import re

from conftest import ROOT

PAGE = ROOT / "docs" / "operations" / "troubleshooting.md"
CALL = re.compile(r"raise_(?:compiler_)?error\(")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'")


def macro_messages() -> set[str]:
    """Return what the macros may raise, with `…` for what varies."""
    found = set()
    for path in sorted((ROOT / "macros").rglob("*.sql")):
        text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
        for call in CALL.finditer(text):
            message = template(argument(text, call.end()))
            if message != "…":
                found.add(message)
        # A message that two places raise has a name of its own.
        for named in re.finditer(r"\{%- set overtaken =(.*?)-?%\}", text, re.DOTALL):
            found.add(template(named[1]))
    return found


def argument(text: str, start: int) -> str:
    """Return what stands between the parentheses of a call."""
    depth, place = 1, start
    while depth:
        quoted = TEXT.match(text, place)
        if quoted:
            place = quoted.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        place += 1
    return text[start : place - 1]


def template(expression: str) -> str:
    """Return a Jinja concatenation as the line that it gives, with `…` for what is no literal."""
    line, place = "", 0
    depth = 0
    while place < len(expression):
        quoted = TEXT.match(expression, place)
        if quoted and depth == 0:
            line += (quoted[1] or quoted[2] or "").replace("\\n", " ")
        elif not quoted:
            character = expression[place]
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
            if not character.isspace() and character not in "~":
                line += "…"
        else:
            line += "…"
        place = quoted.end() if quoted else place + 1
    return normal(line)


def normal(line: str) -> str:
    return re.sub(r"…(?:[\s…]*…)?", "…", re.sub(r"\s+", " ", line)).strip()


def page_rows() -> list[list[str]]:
    """Return the cells of the page's tables of errors of the macros."""
    section = PAGE.read_text().partition("## Errors of the macros")[2].partition("\n## ")[0]
    rows = []
    for line in section.splitlines():
        if line.startswith("| `` "):
            rows.append([cell.strip() for cell in line.strip().strip("|").split(" | ")])
    return rows


def test_the_page_has_every_error_line_and_no_other() -> None:
    listed = {normal(row[0].removeprefix("``").removesuffix("``").strip()) for row in page_rows()}
    said = macro_messages()
    assert said - listed == set(), "add these lines to docs/operations/troubleshooting.md"
    assert listed - said == set(), "no macro says these any more"


def test_each_line_has_a_cause_and_a_remedy() -> None:
    rows = page_rows()
    assert len(rows) >= 30
    for row in rows:
        assert len(row) == 3, row
        assert all(len(cell) > 10 for cell in row), row


def test_a_message_is_read_as_jinja_would_say_it() -> None:
    assert (
        template("""macro_name ~ ": `" ~ argument ~ "` must be (one). Got: " ~ (value | first)""")
        == "…: `…` must be (one). Got: …"
    )
    assert argument("raise_error('a)' ~ f(b)) ~ c", 12) == "'a)' ~ f(b)"


if __name__ == "__main__":
    print("\n".join(sorted(macro_messages())))
