"""Every error of the macros is one line that says where, what is wrong, and what to do."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT

CALL = re.compile(r"raise_compiler_error\(")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'")
# Messages that two places raise, or that Spark raises, are set to one of these variables.
NAMED = re.compile(r"\{%- set (?:message|overtaken) =(.*?)-?%\}", re.DOTALL)
VERBS = "build|check|correct|give|land|map|rename|restore|run|select|set|stage|use|write"
REMEDY = re.compile(rf"(?:^|[.:;,] )(?:or,? )?(?:{VERBS})\b", re.IGNORECASE)


def macro_messages() -> dict[str, str]:
    """Return what the macros may raise, with `…` for what varies, and the file of each."""
    found = {}
    for path in sorted((ROOT / "macros").rglob("*.sql")):
        text = re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)
        said = [argument(text, call.end()) for call in CALL.finditer(text)]
        said += [named[1] for named in NAMED.finditer(text)]
        for expression in said:
            message = template(expression)
            if message != "…":
                found[message] = path.name
    return found


def argument(text: str, start: int) -> str:
    """Return the text between the parentheses of a call."""
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
    """Return the line that a Jinja concatenation gives, with `…` for all but its literals."""
    expression = expression.strip()
    if expression.startswith("(") and expression.endswith(")"):
        expression = expression[1:-1]
    line, place = "", 0
    depth = 0
    while place < len(expression):
        quoted = TEXT.match(expression, place)
        if quoted and depth == 0:
            line += quoted[1] or quoted[2] or ""
        elif not quoted:
            character = expression[place]
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
            if not character.isspace() and character not in "~":
                line += "…"
        else:
            line += "…"
        place = quoted.end() if quoted else place + 1
    return re.sub(r"…(?:[\s…]*…)?", "…", re.sub(r"\s+", " ", line)).strip()


MESSAGES = macro_messages()


def test_the_macros_have_messages() -> None:
    assert len(MESSAGES) >= 50


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_line_that_names_its_macro(message: str) -> None:
    assert "\\n" not in message
    assert re.match(r"(…|[a-z_0-9]+|[a-z_]+ …): ", message)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_shows_the_wrong_value_or_says_what_to_do(message: str) -> None:
    """An argument's message says what it must be and shows what it is; others give a remedy."""
    _, _, rest = message.partition(": ")
    shows = re.search(r"\b(must|names) .*(?:Got|Missing): […\w]+", rest)
    assert shows or REMEDY.search(rest), MESSAGES[message]


def test_a_message_is_read_as_jinja_would_say_it() -> None:
    assert (
        template("""macro_name ~ ": `" ~ argument ~ "` must be (one). Got: " ~ (value | first)""")
        == "…: `…` must be (one). Got: …"
    )
    assert argument("raise_error('a)' ~ f(b)) ~ c", 12) == "'a)' ~ f(b)"


if __name__ == "__main__":
    print("\n".join(sorted(MESSAGES)))
