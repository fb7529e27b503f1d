"""Numbers of JSON messages keep their digits, and what is no JSON does not become any."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Lake, Project
from random_json import damaged, number, value

CASES = {
    '{"a": 12345678901234567.890}': '{"a": "12345678901234567.890"}',
    '{"a":[1, 1.10,-0.0 ,1e400, 1E-5]}': '{"a":[1, "1.10","-0.0" ,"1e400", "1E-5"]}',
    '{"a": 123456789012345678901234567890}': '{"a": 123456789012345678901234567890}',
    '{"a": "1.5, 2.5]", "1.5": "\\"1.5"}': '{"a": "1.5, 2.5]", "1.5": "\\"1.5"}',
    '{"a": "\u00e9\\n", "b": {"c": [ 1 ,2.00]}}': '{"a": "\u00e9\\n", "b": {"c": [ 1 ,"2.00"]}}',
    # Spark writes these as they are, unless there is another number beside them.
    '{"a": 2.0, "b": -1234567.12345678, "c": 0.0}': '{"a": 2.0, "b": -1234567.12345678, "c": 0.0}',
    '{"before" : {"b": 2.5}, "after": { }}': '{"before" : {"b": 2.5}, "after": { }}',
    '{"after": {"a": 2.0}, "source": {"b": []}}': '{"after": {"a": "2.0"}, "source": {"b": []}}',
    '{"after": {"a": 2.0, "b": {"c": 2.5}}}': '{"after": {"a": "2.0", "b": {"c": "2.5"}}}',
    '{"a": 2.0, "b": 12345678.5}': '{"a": "2.0", "b": "12345678.5"}',
    '{"a": 2.0, "b": 0.0001}': '{"a": "2.0", "b": "0.0001"}',
    '{"a": 2.0, "b": 1E5}': '{"a": "2.0", "b": "1E5"}',
    '{"at": "10:11:12.130, and", "b": 2.5}': '{"at": "10:11:12.130, and", "b": "2.5"}',
    # Spark takes single quotes too, and 1.5 is part of a text here.
    "{'a': '1.5, 2.5]'}": "{'a': '1.5, 2.5]'}",
    '{"a": 01.5}': '{"a": 01.5}',
    '{"a": 1.5.5}': '{"a": 1.5.5}',
    '{"a": "1.5, "b": 2.5}': '{"a": "1.5, "b": 2.5}',
    "": "",
    # Parts of the pattern that would go back, or one into the other, would not come to an end.
    "[" * 100_000: "[" * 100_000,
    '"' * 100_001: '"' * 100_001,
    "1." * 100_000: "1." * 100_000,
    '["' + "\\n" * 100_000 + '", 1.50]': '["' + "\\n" * 100_000 + '", "1.50"]',
    "[" + "1," * 100_000 + "1.50]": "[" + "1," * 100_000 + '"1.50"]',
}


@pytest.fixture(scope="module")
def exact(make_project: Callable[[str], Project], lake: Lake) -> Callable[[list[str]], list[str]]:
    sql = make_project("exact_numbers").sql("afterimage._exact_numbers('text')")

    def convert(texts: list[str]) -> list[str]:
        rows = [{"number": number, "text": text} for number, text in enumerate(texts)]
        lake.frame({"number": "int", "text": "string"}, rows).createOrReplaceTempView("texts")
        return [
            row["text"] for row in lake.rows(f"select number, {sql} as text from texts order by 1")
        ]

    return convert


def test_numbers_with_a_fraction_become_texts(exact: Callable[[list[str]], list[str]]) -> None:
    assert dict(zip(CASES, exact(list(CASES)), strict=True)) == CASES


def test_a_number_that_is_left_alone_is_read_as_it_is_written(
    exact: Callable[[list[str]], list[str]], lake: Lake
) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")))
    numbers = [number(source) for _ in range(20_000)]
    texts = [f'{{"a": {text}}}' for text in numbers]
    found = exact(texts)
    assert sum(one == text for one, text in zip(found, texts, strict=True)) > 5000
    rows = [{"number": number, "text": text} for number, text in enumerate(found)]
    lake.frame({"number": "int", "text": "string"}, rows).createOrReplaceTempView("converted")
    query = "select from_json(text, 'map<string, string>')['a'] as a from converted order by number"
    read_again = [row["a"] for row in lake.rows(query)]
    # A whole number is read as one: it has no sign if it is zero.
    assert read_again == ["0" if text == "-0" else text for text in numbers]


def test_any_text_keeps_what_it_says(exact: Callable[[list[str]], list[str]]) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")))
    texts = [damaged(source, f'{{"a": {value(source, 3)}}}') for _ in range(5000)]
    told = {True: 0, False: 0}
    for text, converted in zip(texts, exact(texts), strict=True):
        meant = read(text, str)
        told[meant is not None] += 1
        assert read(converted, kept) == meant, text
    assert min(told.values()) > 500


def read(text: str, parse_float: Callable[[str], Any]) -> Any:
    """Return the JSON object that a text is; None if it is none."""
    try:
        found = json.loads(text, parse_float=parse_float, parse_constant=refuse, strict=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def kept(text: str) -> str:
    """Return a number that a double writes as it is, as Java does, too, in this range."""
    value = float(text)
    if repr(value) != text or (value and not 0.001 <= abs(value) < 10**7):
        raise ValueError(text)
    return text


def refuse(text: str) -> None:
    raise ValueError(text)
