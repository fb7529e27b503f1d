"""OpenEdge's field maps: the catalogue's M18, both bit orders, hex."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt_afterimage.udfs.masks import (
    BIT_ORDERS,
    FIELD_MAP_ENCODINGS,
    Mask,
    MaskError,
    decode_field_map,
)


def test_m18_field_map_is_read_from_left_to_right() -> None:
    fields = ["F1", "F2", "F3", "F4", "F5"]
    maps: list[tuple[Mask, str | None]] = [
        ("11001", None),
        (b"\xc8", None),
        ("C8", "hex"),
        ("0xc8", "hex"),
    ]
    for field_map, encoding in maps:
        positions = decode_field_map(field_map, encoding)
        assert positions is not None
        assert ";".join(fields[position - 1] for position in positions) == "F1;F2;F5"


def test_bytes_can_be_declared_lowest_bit_first() -> None:
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
