"""Keys of an event log: the catalogue's, what is refused and where, and random keys."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dbt_afterimage.udfs.table_keys import (
    MAX_LENGTH,
    SPECIAL,
    TableKeyError,
    format_table_key,
    parse_table_key,
)

names = st.text(min_size=1).filter(lambda name: not set(name) & set(SPECIAL))
keys = st.dictionaries(names, st.text() | st.text(SPECIAL + " a1\n"), min_size=1, max_size=5)


def parsed(table_key: str, trim_numbers: bool = False) -> dict[str, Any]:
    result = parse_table_key(table_key, trim_numbers)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("table_key", "parts"),
    [
        ("idu=1", {"idu": "1"}),
        ("pk_empno=1", {"pk_empno": "1"}),
        ("pkey1=value1+pkey2=value2", {"pkey1": "value1", "pkey2": "value2"}),
        (r'''pkey=", ; ' + \" = \\ < >"''', {"pkey": r""", ; ' + " = \ < >"""}),
        ('a="x+b=1"+b=2', {"a": "x+b=1", "b": "2"}),
        ('a=""+b=2', {"a": "", "b": "2"}),
        (r'a="x\\"+b="\""', {"a": "x\\", "b": '"'}),
        ("idu= 1", {"idu": " 1"}),
        ('a="x"', {"a": "x"}),
        ("a={x}", {"a": "{x}"}),
        ("é 1=ß\n", {"é 1": "ß\n"}),
        ("a=1 + b=2", {"a": "1 ", " b": "2"}),
        ("a=1+A=2", {"a": "1", "A": "2"}),
    ],
)
def test_keys_of_the_grammar(table_key: str, parts: dict[str, str]) -> None:
    assert parsed(table_key)["parts"] == parts


@pytest.mark.parametrize(
    ("table_key", "reason"),
    [
        ("", "position 1: a column is missing"),
        ("idu", "position 4: '=' is missing after 'idu'"),
        ("=1", "position 1: a column is missing before '='"),
        ("a=1+", "position 5: a column is missing after '+'"),
        ("a=1++b=2", "position 5: a column is missing before '+'"),
        ("+a=1", "position 1: a column is missing before '+'"),
        ("a=", 'position 3: a value is missing (an empty one is written "")'),
        ("a=+b=1", 'position 3: a value is missing (an empty one is written "")'),
        ("a+b=1", "position 2: '+' in the name of a column"),
        ('"a"=1', "position 1: a column is missing before '\"'"),
        ("a=1,2", "position 4: ',' in a value without quotes"),
        ("a=1;2", "position 4: ';' in a value without quotes"),
        ("a=it's", 'position 5: "\'" in a value without quotes'),
        ("a=b=c", "position 4: '=' in a value without quotes"),
        ("a=1<2", "position 4: '<' in a value without quotes"),
        ("a=1>2", "position 4: '>' in a value without quotes"),
        (r"a=b\c", r"position 4: '\\' in a value without quotes"),
        ('a=b"c', "position 4: '\"' in a value without quotes"),
        ('a="x', "position 3: a quote that is never closed"),
        ('b=1+a="x+c=2', "position 7: a quote that is never closed"),
        ('a="x""y"', "position 6: '\"' after a closing quote, where '+' must stand"),
        ('a="x"y', "position 6: 'y' after a closing quote, where '+' must stand"),
        ('a="x" +b=1', "position 6: ' ' after a closing quote, where '+' must stand"),
        (r'a="\n"', "position 4: a backslash that escapes neither '\"' nor another backslash"),
        ('a="x\\', "position 5: a backslash that escapes neither '\"' nor another backslash"),
        (r'a="x\"', "position 3: a quote that is never closed"),
        ("a=1+b=2+a=3", "position 9: column 'a' is there twice"),
        ("a=" + "1" * MAX_LENGTH, "100002 characters, but 100000 are the most"),
    ],
)
def test_what_is_malformed_is_refused_where_it_goes_wrong(table_key: str, reason: str) -> None:
    with pytest.raises(TableKeyError) as refusal:
        parse_table_key(table_key)
    assert str(refusal.value) == reason


def test_null_is_not_a_key() -> None:
    assert parse_table_key(None) is None
    assert format_table_key(None) is None


@pytest.mark.parametrize(
    ("left", "right", "canonical"),
    [
        ("b=2+a=1", "a=1+b=2", "a=1+b=2"),
        ('a="1"+b="x y"', 'b=x y+a="1"', "a=1+b=x y"),
        ("B=2+a=1", 'a="1"+B=2', "a=1+B=2"),
        ('a=""+b="+"', 'b="+"+a=""', 'a=""+b="+"'),
    ],
)
def test_canonical_form_ignores_order_and_needless_quotes(
    left: str, right: str, canonical: str
) -> None:
    assert parsed(left)["canonical"] == parsed(right)["canonical"] == canonical


@pytest.mark.parametrize(
    ("table_key", "value", "trimmed", "is_warned"),
    [
        ("idu= 1", " 1", "1", True),
        ("idu=-1.50\t", "-1.50\t", "-1.50", True),
        ("idu=1", "1", "1", False),
        ('idu=" 1"', " 1", " 1", False),  # quoted, so somebody meant it
        ("idu= x", " x", " x", False),
        ("idu= 1 2", " 1 2", " 1 2", False),
    ],
)
def test_blanks_around_a_number_get_a_warning_and_can_be_trimmed(
    table_key: str, value: str, trimmed: str, is_warned: bool
) -> None:
    assert parsed(table_key)["parts"] == {"idu": value}
    assert parsed(table_key, True)["parts"] == {"idu": trimmed}
    warning = "blanks around a number: idu" if is_warned else None
    assert parsed(table_key)["warning"] == parsed(table_key, True)["warning"] == warning


@given(keys, st.booleans())
@example({"pkey": r""", ; ' + " = \ < >"""}, False)
@example({"a": " 1", "b": ""}, True)
def test_what_is_written_is_read_back(key: dict[str, str], trim_numbers: bool) -> None:
    text = format_table_key(key)
    assert text is not None
    assert list(parsed(text, trim_numbers)["parts"].items()) == list(key.items())
    assert format_table_key(json.dumps(key)) == text


@given(keys, st.randoms(use_true_random=False))
def test_canonical_form_is_one_for_all_orders_and_quotings(
    key: dict[str, str], source: random.Random
) -> None:
    parts = list(key.items())
    source.shuffle(parts)
    quoted = "+".join(
        f'{name}="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in parts
    )
    canonical = parsed(quoted)["canonical"]
    assert canonical == parsed(format_table_key(key) or "")["canonical"]
    assert parsed(canonical)["parts"] == key
    assert parsed(canonical)["canonical"] == canonical


@given(st.text() | st.text(SPECIAL + "ab1 \n\0\ud800", max_size=30))
@settings(max_examples=500)
def test_any_text_is_refused_with_a_reason_or_follows_the_grammar(text: str) -> None:
    try:
        result = parsed(text)
    except TableKeyError as refusal:
        position = str(refusal).removeprefix("position ").split(":")[0]
        assert 1 <= int(position) <= len(text) + 1
        with pytest.raises(TableKeyError, match=f"position {position}: ."):
            parsed(text, trim_numbers=True)
        return
    # Whoever reads by the grammar's own words finds the same parts.
    assert result["parts"] == by_the_book(text)
    assert parsed(text, trim_numbers=True)["parts"].keys() == result["parts"].keys()


def by_the_book(text: str) -> dict[str, str]:
    """Read a key that is known to be well-formed, one character at a time."""
    parts: dict[str, str] = {}
    characters = iter(text)
    name, value, in_value, in_quotes = "", "", False, False
    for character in characters:
        if in_quotes and character == "\\":
            value += next(characters)
        elif in_value and character == '"':
            in_quotes = not in_quotes
        elif in_quotes:
            value += character
        elif character == "=":
            in_value = True
        elif character == "+":
            parts[name] = value
            name, value, in_value = "", "", False
        elif in_value:
            value += character
        else:
            name += character
    parts[name] = value
    return parts


@pytest.mark.parametrize(
    "parts",
    [
        *("", "[]", "{}", "1", '"a"', "{", '{"a": null}', '{"a": []}', '{"": 1}', '{"a+": 1}'),
        *('{"a": 1, "a": 2}', "[" * 100_000, '{"a": "' + "x" * 2 * MAX_LENGTH + '"}', {1: "x"}, 5),
    ],
)
def test_a_malformed_key_cannot_be_written(parts: Any) -> None:
    with pytest.raises(TableKeyError):
        format_table_key(parts)


def test_numbers_are_written_verbatim() -> None:
    assert format_table_key('{"a": 1.10, "b": 12345678901234567890, "c": true}') == (
        "a=1.10+b=12345678901234567890+c=true"
    )
    assert format_table_key({"a": 1, "b": False}) == "a=1+b=false"


@pytest.mark.parametrize("value", [b"idu=1", 1, ["idu=1"]])
def test_a_key_is_text(value: Any) -> None:
    with pytest.raises(TableKeyError):
        parse_table_key(value)


@given(keys, keys)
def test_different_keys_have_different_canonical_forms(
    left: dict[str, str], right: dict[str, str]
) -> None:
    assume(left != right)
    canonical = [parsed(format_table_key(key) or "")["canonical"] for key in (left, right)]
    assert canonical[0] != canonical[1]
