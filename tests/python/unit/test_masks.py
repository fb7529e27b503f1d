"""Which columns a mask flags: the catalogue's fixtures M1 to M20, and random masks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbt_afterimage.udfs.masks import (
    MASK_ENCODINGS,
    MAX_LENGTH,
    Mask,
    MaskError,
    decode_change_mask,
    decode_field_map,
)

WIDE = 1200


def binary(hex_digits: str) -> bytes:
    return bytes.fromhex(hex_digits)


def encode(ordinals: Iterable[int], header_columns: int) -> bytes:
    """Write a mask as the vendor describes it: byte 0 holds bits 7..0, byte 1 bits 15..8, ..."""
    mask = bytearray()
    for ordinal in ordinals:
        byte, bit = divmod(header_columns + ordinal - 1, 8)
        mask.extend(bytes(max(0, byte + 1 - len(mask))))
        mask[byte] |= 1 << bit
    return bytes(mask)


M8_COLUMNS = [*range(1, 71), 93, 94, *range(99, 103), 109, *range(112, 118)]


@pytest.mark.parametrize(
    ("mask", "header_columns", "ordinals"),
    [
        pytest.param("0B", 0, [1, 2, 4], id="M1 the vendor's own example"),
        pytest.param("02", 0, [2], id="M2 one column of three"),
        pytest.param("07", 0, [1, 2, 3], id="M3 all of three columns"),
        pytest.param("008080", 0, [8, 16], id="M4 leading zero byte"),
        pytest.param("00FFFF", 0, list(range(1, 17)), id="M5 all of 16 columns"),
        pytest.param("05", 0, [1, 3], id="M6 column in the middle absent"),
        pytest.param("00", 0, [], id="M7 update that changed nothing"),
        pytest.param("1F903C3000003FFFFFFFFFFFFFFFFF", 0, M8_COLUMNS, id="M8 over 64 columns"),
        pytest.param("3a00", 7, [3, 5, 6, 7], id="M9 seven header columns in text"),
        pytest.param(binary("000B01"), 7, [2, 3, 5, 10], id="M10 update"),
        pytest.param(binary("008C"), 7, [4, 5, 9], id="M11 trimmed zero byte"),
        pytest.param(binary("008C00"), 7, [4, 5, 9], id="M11 zero byte left in place"),
        pytest.param(binary("80"), 7, [1], id="M12 delete, trimmed"),
        pytest.param(binary("800000"), 7, [1], id="M12 delete, zero bytes left in place"),
        pytest.param(binary("80FF01"), 7, list(range(1, 11)), id="M13 insert"),
        pytest.param(binary("001602"), 8, [2, 3, 5, 10], id="M14 partition_name makes it eight"),
        pytest.param(binary("C042"), 5, [2, 3, 5, 10], id="M15 five header columns"),
        pytest.param("B", 0, [1, 2, 4], id="M19 odd number of digits"),
        pytest.param("0xB", 0, [1, 2, 4], id="M19 prefix"),
        pytest.param("0b", 0, [1, 2, 4], id="M19 small letter, not a prefix of binary"),
        pytest.param("000B", 0, [1, 2, 4], id="M19 leading zeros"),
    ],
)
def test_mask_of_the_catalogue(mask: Mask, header_columns: int, ordinals: list[int]) -> None:
    assert decode_change_mask(mask, header_columns) == ordinals


def test_m8_counts_83_columns() -> None:
    assert len(decode_change_mask("1F903C3000003FFFFFFFFFFFFFFFFF") or []) == 83


@pytest.mark.parametrize("header_columns", [0, 3, 7, 8])
@pytest.mark.parametrize("mask", ["0x", "", "00", "0000", b"", b"\0", b"\0\0"])
def test_m16_mask_without_a_bit_flags_nothing(mask: Mask, header_columns: int) -> None:
    assert decode_change_mask(mask, header_columns) == []


@pytest.mark.parametrize("encoding", [None, *MASK_ENCODINGS])
def test_m16_null_mask_is_unknown(encoding: str | None) -> None:
    assert decode_change_mask(None, 7, encoding) is None


def test_m17_ordinals_count_from_one_and_from_the_right() -> None:
    # "If update mask is 11000 and column ordinal is 3, the column did not change."
    assert decode_change_mask(f"{0b11000:x}") == [4, 5]


def test_m20_bit_past_the_last_column_is_the_callers_to_report() -> None:
    three_columns_and_one_bit_more = binary("800A")
    assert decode_change_mask(three_columns_and_one_bit_more, 7) == [1, 3, 5]


def test_bits_of_the_header_columns_are_left_out() -> None:
    assert decode_change_mask(binary("FF"), 7) == [1]
    assert decode_change_mask(binary("7F"), 7) == []
    assert decode_change_mask("7F", 8) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_read(kind: type) -> None:
    assert decode_change_mask(kind(binary("000B01")), 7) == [2, 3, 5, 10]
    assert decode_field_map(kind(binary("C8"))) == [1, 2, 5]


def test_text_and_bytes_of_one_mask_read_in_opposite_directions() -> None:
    assert decode_change_mask("10B00", 7) == decode_change_mask(binary("000B01"), 7)
    assert decode_change_mask("000B01", 7, "hex_bytes") == [2, 3, 5, 10]
    assert decode_change_mask("000B01", 7, "hex") == [2, 3, 5]


def test_text_that_landed_as_bytes_is_read_as_text_where_the_encoding_says_so() -> None:
    assert decode_change_mask(b"3a00", 7, "hex") == [3, 5, 6, 7]
    assert decode_change_mask(bytearray(b"0x000B01"), 7, "hex_bytes") == [2, 3, 5, 10]


def test_space_around_a_text_is_no_part_of_it() -> None:
    assert decode_change_mask(" 0B\n") == [1, 2, 4]
    assert decode_field_map(" 11001 ") == [1, 2, 5]


def test_wide_mask_is_read_to_its_last_column() -> None:
    every_third = list(range(3, WIDE + 1, 3))
    mask = encode(every_third, 3)
    assert len(mask) == 151  # more than the 128 bytes that Qlik's column declares
    assert decode_change_mask(mask, 3) == every_third
    assert decode_change_mask(mask.hex(), 3, "hex_bytes") == every_third
    assert decode_change_mask(mask[::-1].hex(), 3) == every_third
    assert decode_change_mask(encode([WIDE], 3), 3) == [WIDE]


@pytest.mark.parametrize(
    ("mask", "encoding", "message"),
    [
        ("0G", None, "'0G' is not hex"),
        ("0x0x0B", None, "'0x0x0B' is not hex"),
        ("-1", None, "'-1' is not hex"),
        ("0_1", None, "'0_1' is not hex"),
        ("0B 0C", None, "'0B 0C' is not hex"),
        ("\u0661", None, "'\u0661' is not hex"),  # a digit, but an Arabic one
        (b"\xff\xfe", "hex", "is not hex"),
        ("0B1", "hex_bytes", "'0B1' has an odd number of hex digits"),
        ("0B", "bytes", "the mask is text, but mask_encoding is 'bytes'"),
        ("0B", "HEX", r"must be one of \['bytes', 'hex', 'hex_bytes'\], got 'HEX'"),
        ("0B", "", "mask_encoding must be one of .*, got ''"),
        (11, None, "a mask is bytes or text, got int"),
        (1.0, None, "a mask is bytes or text, got float"),
    ],
)
def test_mask_that_cannot_be_read_says_why(mask: Mask, encoding: str | None, message: str) -> None:
    with pytest.raises(MaskError, match=message):
        decode_change_mask(mask, 0, encoding)


@pytest.mark.parametrize("header_columns", [-1, None, float("nan"), float("inf"), "seven"])
def test_header_columns_that_are_not_a_count_are_refused(header_columns: object) -> None:
    with pytest.raises(MaskError, match="header_columns must be a whole number, 0 or more"):
        decode_change_mask("0B", header_columns)  # type: ignore[arg-type]


@pytest.mark.parametrize("header_columns", [7, 7.0])
def test_header_columns_may_be_the_floats_that_pandas_makes_of_nulls(
    header_columns: int,
) -> None:
    assert decode_change_mask("3a00", header_columns) == [3, 5, 6, 7]


@pytest.mark.parametrize(
    ("field_map", "positions"),
    [
        (None, None),
        ("", []),
        ("00000", []),
        ("1", [1]),
        ("0" * 99 + "1", [100]),
        (b"", []),
        (b"\x80\x01", [1, 16]),
    ],
)
def test_field_map(field_map: Mask | None, positions: list[int] | None) -> None:
    assert decode_field_map(field_map) == positions


@pytest.mark.parametrize("field_map", ["11002", "F1;F2", "1 1", "\u0661"])
def test_field_map_that_is_not_a_text_of_bits_is_refused(field_map: str) -> None:
    with pytest.raises(MaskError, match="is not a text of bits"):
        decode_field_map(field_map)


def test_field_map_of_another_type_is_refused() -> None:
    with pytest.raises(MaskError, match="a field map is bytes or text, got int"):
        decode_field_map(11001)  # type: ignore[arg-type]


ordinal_sets = st.sets(st.integers(1, WIDE), max_size=60)
header_counts = st.integers(0, 40)


def trimmed(mask: bytes, padding: int | None) -> bytes:
    """Trim a mask's last zero bytes, or add some."""
    return mask.rstrip(b"\0") if padding is None else mask + bytes(padding)


@given(
    ordinal_sets,
    header_counts,
    st.none() | st.integers(0, 9),
    st.sampled_from(["", "0x", "0X"]),
    st.booleans(),
)
def test_a_mask_in_any_encoding_gives_back_what_was_encoded(
    ordinals: set[int], header_columns: int, padding: int | None, prefix: str, capitals: bool
) -> None:
    mask = encode(ordinals, header_columns)
    # So the number of the numeral's digits is odd as often as even.
    numeral = "0" * (padding or 0) + mask[::-1].hex().lstrip("0")
    written: list[tuple[Mask, tuple[str | None, ...]]] = [
        (trimmed(mask, padding), (None, "bytes")),
        (trimmed(mask, padding).hex(), ("hex_bytes",)),
        (numeral, (None, "hex")),
    ]
    for text, encodings in written:
        if isinstance(text, str):
            text = prefix + (text.upper() if capitals else text)
        for encoding in encodings:
            assert decode_change_mask(text, header_columns, encoding) == sorted(ordinals)


@given(st.sets(st.integers(1, WIDE), max_size=60), st.integers(0, 20))
def test_field_map_gives_back_what_was_encoded(positions: set[int], padding: int) -> None:
    width = max(positions, default=0) + padding
    bits = "".join("1" if place in positions else "0" for place in range(1, width + 1))
    assert decode_field_map(bits) == sorted(positions)
    padded = bits + "0" * (-len(bits) % 8)
    as_bytes = bytes(int(padded[i : i + 8], 2) for i in range(0, len(padded), 8))
    assert decode_field_map(as_bytes) == sorted(positions)


@given(
    st.binary() | st.text() | st.text("0123456789abcdefABCDEFxX \n\0\ud800"),
    st.integers(-2, 70),
    st.none() | st.sampled_from(MASK_ENCODINGS) | st.text(max_size=9),
)
@example("\ud800", 0, None)
@example("0x", 0, "hex_bytes")
@settings(max_examples=500)
def test_any_mask_is_read_or_refused(mask: Mask, header_columns: int, encoding: str | None) -> None:
    with suppress(MaskError):
        ordinals = decode_change_mask(mask, header_columns, encoding)
        assert ordinals is not None
        assert all(ordinal >= 1 for ordinal in ordinals)
        assert ordinals == sorted(set(ordinals))


@given(st.binary() | st.text() | st.text("01 \n"))
def test_any_field_map_is_read_or_refused(field_map: Mask) -> None:
    with suppress(MaskError):
        positions = decode_field_map(field_map)
        assert positions == sorted(set(positions or []))


@pytest.mark.parametrize("decode", [decode_change_mask, decode_field_map])
def test_mask_longer_than_any_table_is_wide_is_refused(decode: Any) -> None:
    longest = b"\xff" * MAX_LENGTH
    assert len(decode(longest)) == 8 * MAX_LENGTH
    with pytest.raises(MaskError, match="16385 bytes or characters are more than 16384"):
        decode(longest + b"\0")
