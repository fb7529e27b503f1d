"""OpenEdge's field maps and array texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_afterimage.masks import BIT_ORDERS, FIELD_MAP_ENCODINGS, MaskError, decode_field_map
from dbt_afterimage.openedge import ArrayError, join_array_parts, split_array_text

# No `~` and no `;`: what they mean together is told by hand below.
plain = st.text("ab 0?é", max_size=4)


def escaped(element: str) -> str:
    """Write an element as PRO_ARR_ESCAPE does: `~` before `;`, `~` and the end of `~`."""
    text = ""
    for place, character in enumerate(element):
        follower = element[place + 1 : place + 2]
        needs_it = character == ";" or (character == "~" and follower in ("~", ";", ""))
        text += ("~" if needs_it else "") + character
    return text


def test_m18_field_map_is_read_from_left_to_right() -> None:
    fields = ["F1", "F2", "F3", "F4", "F5"]
    for field_map, encoding in [("11001", None), (b"\xc8", None), ("C8", "hex"), ("0xc8", "hex")]:
        positions = decode_field_map(field_map, encoding)
        assert positions is not None
        assert ";".join(fields[position - 1] for position in positions) == "F1;F2;F5"


def test_bytes_may_be_declared_to_begin_with_their_lowest_bit() -> None:
    assert decode_field_map(b"\x13\x01", None, "low_first") == [1, 2, 5, 9]
    assert decode_field_map("1301", "hex", "low_first") == [1, 2, 5, 9]
    assert decode_field_map("11001", None, "low_first") == [1, 2, 5]


@given(st.sets(st.integers(1, 2048), max_size=40), st.sampled_from(BIT_ORDERS))
def test_field_map_of_256_bytes_gives_back_what_was_encoded(
    positions: set[int], bit_order: str
) -> None:
    raw = bytearray(256)
    for position in positions:
        byte, bit = divmod(position - 1, 8)
        raw[byte] |= (128 >> bit) if bit_order == "high_first" else (1 << bit)
    assert decode_field_map(bytes(raw), None, bit_order) == sorted(positions)
    assert decode_field_map(raw.hex(), "hex", bit_order) == sorted(positions)


@pytest.mark.parametrize(
    ("field_map", "encoding", "bit_order", "message"),
    [
        ("C8", "names", "high_first", "field_map_encoding must be one of .*, got 'names'"),
        ("C8", "hex", "left", "bit_order must be one of .*, got 'left'"),
        ("C", "hex", "high_first", "odd number of hex digits"),
        ("G8", "hex", "high_first", "is not hex"),
        ("C8", "bytes", "high_first", "the field map is text"),
        (b"\xc8", "bits", "high_first", "is not a text of bits"),
    ],
)
def test_field_map_that_cannot_be_read_says_why(
    field_map: bytes | str, encoding: str, bit_order: str, message: str
) -> None:
    assert FIELD_MAP_ENCODINGS == ("bits", "bytes", "hex")
    with pytest.raises(MaskError, match=message):
        decode_field_map(field_map, encoding, bit_order)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("", [""]),
        ("a", ["a"]),
        (";", ["", ""]),
        ("a;b~;c;", ["a", "b~;c", ""]),
        ("~~;a", ["~~", "a"]),
        ("a~b;c", ["a~b", "c"]),
        ("a~;", ["a~;"]),
        ("~~~;;", ["~~~;", ""]),
    ],
)
def test_separator_is_escaped_by_a_tilde(text: str, elements: list[str]) -> None:
    assert split_array_text(text) == elements


@given(st.lists(st.text("a;~\n", max_size=5), min_size=1, max_size=6))
def test_elements_are_those_that_were_joined(elements: list[str]) -> None:
    written = [escaped(element) for element in elements]
    assert split_array_text(";".join(written)) == written


@given(st.text())
def test_joining_the_elements_of_any_text_gives_the_text(text: str) -> None:
    assert ";".join(split_array_text(text)) == text


@given(st.lists(plain, min_size=1, max_size=6), st.data())
def test_array_split_anywhere_is_put_together(elements: list[str], data: st.DataObject) -> None:
    index = data.draw(st.integers(1, len(elements)))
    head = elements[: index - 1]
    gap = [data.draw(st.sampled_from(["", "?"]))] * (len(elements) - index + 1)
    absolute = [gap[0]] * (index - 1) + elements[index - 1 :]
    whole = ";".join(elements)
    assert join_array_parts(";".join(head + gap), ";".join(absolute), index) == whole


@given(st.lists(st.text("ab~; ", min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_part_may_hold_its_own_elements_alone(elements: list[str], data: st.DataObject) -> None:
    written = [escaped(element) for element in elements]
    index = data.draw(st.integers(2, len(written) + 1))
    if index > len(written):
        return
    first, second = ";".join(written[: index - 1]), ";".join(written[index - 1 :])
    assert join_array_parts(first, second, index) == ";".join(written)


@pytest.mark.parametrize(
    ("first", "second", "index", "fragment", "whole"),
    [
        ("a;he;", ";llo;c", 2, 1, "a;hello;c"),
        ("a;he", "llo;c", 2, 1, "a;hello;c"),
        ("a;he", "llo;c;d", 2.0, 1.0, "a;hello;c;d"),
        ("a;b;c", None, 2, 0, "a;b;c"),
        (None, "a;b;c", 2, 0, "a;b;c"),
        (None, None, 2, 0, None),
    ],
)
def test_split_element_and_missing_part(
    first: str | None, second: str | None, index: float, fragment: float, whole: str | None
) -> None:
    assert join_array_parts(first, second, index, fragment) == whole


@pytest.mark.parametrize(
    ("index", "fragment", "message"),
    [
        (0, 0, "_ArrayIndex must be 1 or more, got 0"),
        (4, 0, "the first part has 2 elements, _ArrayIndex is 4"),
        (float("nan"), 0, "_ArrayIndex must be a whole number"),
        (1, -1, "_Fragment must be a whole number"),
    ],
)
def test_parts_that_do_not_fit_say_why(index: float, fragment: float, message: str) -> None:
    with pytest.raises(ArrayError, match=message):
        join_array_parts("a;b", "c;d", index, fragment)
