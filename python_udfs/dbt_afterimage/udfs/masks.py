"""Change masks and field maps: which columns a source says a change touched.

Pure functions without a Spark import; `registry` gives them their SQL names.
"""

from __future__ import annotations

import re

Mask = bytes | bytearray | memoryview | str

MASK_ENCODINGS = ("bytes", "hex", "hex_bytes")
FIELD_MAP_ENCODINGS = ("bits", "bytes", "hex")
BIT_ORDERS = ("high_first", "low_first")

_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]*)")


# Bytes or characters. The widest known table needs a tenth of that.
MAX_LENGTH = 16 * 1024


class MaskError(ValueError):
    """A mask that cannot be read; the message says why."""


def decode_change_mask(
    mask: Mask | None, header_columns: int = 0, encoding: str | None = None
) -> list[int] | None:
    """Return the ordinals of the data columns that a change mask flags.

    Bit k of the mask is the k-th column of the change table, including header columns (Qlik,
    "Change tables", `change_mask`). The header columns' own bits are left out, so ordinal 1 is the
    first data column. Zero bytes at the end may have been trimmed; any width is read.

    Args:
        mask: The mask as landed: bytes, or text.
        header_columns: The number of columns before the data in the change table.
        encoding: `bytes` (byte 0 holds bits 7..0; the default for binary masks), `hex` (a hex
            numeral, most significant digit first; the default for text masks) or `hex_bytes`
            (text of bytes, byte 0 first, as `hex(binary)` gives it).

    Returns:
        Ascending ordinals, 1-based. `None` for a NULL mask: unknown is not "nothing changed".
        The caller must report ordinals past the last column of the table.

    Raises:
        MaskError: The mask does not fit its encoding, or an argument is not allowed.

    Example:
        >>> decode_change_mask("0B")
        [1, 2, 4]
        >>> decode_change_mask(bytes.fromhex("000B01"), header_columns=7)
        [2, 3, 5, 10]
    """
    if mask is None:
        return None
    bits = _mask_bits(mask, encoding) >> _count(header_columns)
    # The numeral's digits, read backward, are the bits from the lowest up.
    return [k for k, bit in enumerate(reversed(f"{bits:b}"), start=1) if bit == "1"]


def _count(header_columns: float) -> int:
    # In a column with NULLs, pandas turns SQL integers into floats and NULL into NaN.
    try:
        count = int(header_columns)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0 or count != header_columns:
        raise MaskError(f"header_columns must be a whole number, 0 or more, got {header_columns!r}")
    return count


def _mask_bits(mask: Mask, encoding: str | None) -> int:
    if not isinstance(mask, Mask):
        raise MaskError(f"a mask is bytes or text, got {type(mask).__name__}")
    _check_length(mask)
    is_text = isinstance(mask, str)
    if encoding is None:
        encoding = "hex" if is_text else "bytes"
    if encoding not in MASK_ENCODINGS:
        raise MaskError(f"mask_encoding must be one of {list(MASK_ENCODINGS)}, got {encoding!r}")
    if encoding == "bytes":
        if is_text:
            raise MaskError("the mask is text, but mask_encoding is 'bytes'")
        return int.from_bytes(bytes(mask), "little")  # type: ignore[arg-type]
    digits = _hex_digits(mask if is_text else bytes(mask).decode("ascii", "replace"))  # type: ignore[arg-type]
    if encoding == "hex":
        return int(digits or "0", 16)
    if len(digits) % 2:
        raise MaskError(f"{digits!r} has an odd number of hex digits, so it is no text of bytes")
    return int.from_bytes(bytes.fromhex(digits), "little")


def _check_length(mask: Mask) -> None:
    if len(mask) > MAX_LENGTH:
        raise MaskError(f"{len(mask)} bytes or characters are more than {MAX_LENGTH}")


def _hex_digits(text: str) -> str:
    match = _HEX.fullmatch(text.strip())
    if match is None:
        raise MaskError(f"{text!r} is not hex")
    return match.group(1)


def decode_field_map(
    field_map: Mask | None, encoding: str | None = None, bit_order: str = "high_first"
) -> list[int] | None:
    """Return the positions of the fields that an OpenEdge `_Change-FieldMap` flags.

    Fields are read from left to right (Progress, "CDC_get_changed_columns": with fields F1 to F5
    the map 11001 means F1, F2 and F5), the opposite of a Qlik mask. Raw bytes are read the same
    way, most significant bit first; Progress does not document them, hence `bit_order`.

    Args:
        field_map: Text of bits (`11001`), raw bytes, or raw bytes as hex.
        encoding: `bits` (the default for text), `bytes` (the default for binary maps) or `hex`.
        bit_order: Which bit of a byte is its first field: `high_first` or `low_first`. It does not
            apply to a text of bits.

    Returns:
        Ascending positions, 1-based; `None` for NULL.

    Raises:
        MaskError: The map does not fit its encoding, or an argument is not allowed.

    Example:
        >>> decode_field_map("11001")
        [1, 2, 5]
        >>> decode_field_map("C8", "hex")
        [1, 2, 5]
    """
    if field_map is None:
        return None
    bits = _field_map_bits(field_map, encoding, bit_order)
    return [position for position, bit in enumerate(bits, start=1) if bit == "1"]


def _field_map_bits(field_map: Mask, encoding: str | None, bit_order: str) -> str:
    if not isinstance(field_map, Mask):
        raise MaskError(f"a field map is bytes or text, got {type(field_map).__name__}")
    _check_length(field_map)
    is_text = isinstance(field_map, str)
    if encoding is None:
        encoding = "bits" if is_text else "bytes"
    if encoding not in FIELD_MAP_ENCODINGS:
        raise MaskError(
            f"field_map_encoding must be one of {list(FIELD_MAP_ENCODINGS)}, got {encoding!r}"
        )
    if bit_order not in BIT_ORDERS:
        raise MaskError(f"bit_order must be one of {list(BIT_ORDERS)}, got {bit_order!r}")
    if encoding == "bytes":
        if is_text:
            raise MaskError("the field map is text, but field_map_encoding is 'bytes'")
        return _bits_of(bytes(field_map), bit_order)  # type: ignore[arg-type]
    text = field_map if is_text else bytes(field_map).decode("ascii", "replace")  # type: ignore[arg-type]
    assert isinstance(text, str)
    if encoding == "hex":
        digits = _hex_digits(text)
        if len(digits) % 2:
            raise MaskError(
                f"{digits!r} has an odd number of hex digits, so it is no text of bytes"
            )
        return _bits_of(bytes.fromhex(digits), bit_order)
    if set(text.strip()) - {"0", "1"}:
        raise MaskError(f"{text!r} is not a text of bits")
    return text.strip()


def _bits_of(raw: bytes, bit_order: str) -> str:
    step = 1 if bit_order == "high_first" else -1
    return "".join(f"{byte:08b}"[::step] for byte in raw)
