"""Change masks, which SQL reads, say what the Python function says of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Lake, Project
from dbt_afterimage.udfs.masks import MaskError, decode_change_mask


def a_mask(source: random.Random, width: int) -> str | None:
    """Return the text of a mask of some columns; one of eight is none, or has bits too many."""
    if source.randrange(16) == 0:
        return None
    digits = f"{source.getrandbits(width):X}".zfill(source.randrange(width // 4 + 3))
    if source.randrange(8) == 0:
        digits = source.choice(["", "0x", "0X" + digits, "G" + digits, digits + " 1", "F" + digits])
    if source.randrange(8) == 0:
        digits = f" {digits}\t"
    return digits.lower() if source.randrange(2) else digits


@pytest.fixture(scope="module")
def masked(make_project: Callable[[str], Project]) -> Project:
    return make_project("masks_in_sql")


@pytest.mark.parametrize("width", [1, 3, 4, 7, 60, 61, 125])
def test_a_mask_of_a_message_is_read_as_by_the_function(
    masked: Project, lake: Lake, width: int
) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")) + width)
    names = [f"c{number}" for number in range(1, width + 1)]
    columns = [{"name": name} for name in names]
    layout = f"{{%- set columns = {columns} -%}}\n"
    bits = ", ".join(
        f"{{{{ afterimage._qlik_has_bit('changed', columns, columns[{place}]) }}}}"
        for place in range(width)
    )
    sql = masked.compile(
        f"{layout}select number, changed_digits is not null as is_mask, array({bits}) as bits,"
        " {{ afterimage._qlik_unknown_bits('changed_digits', columns) }} as unknown"
        f" from (select *, {{{{ afterimage._mask_digits('mask', {width}) }}}} as changed_digits,"
        f" {{{{ afterimage._mask_bits('changed_digits', {width}) }}}} as changed_bits from masks)"
        " order by number"
    )
    rows: list[dict[str, Any]] = []
    for number in range(500):
        # The message's own schema may have them in another order, or a column more or less.
        ordinals = list(range(1, width + 2))
        is_as_declared = number % 2 == 0
        if not is_as_declared:
            source.shuffle(ordinals)
        own = dict(zip(names, ordinals, strict=False))
        if not is_as_declared and source.randrange(2):
            own.popitem()
        rows.append(
            {
                "number": number,
                "mask": a_mask(source, width),
                "is_as_declared": is_as_declared,
                "ordinals": own,
                "all_ordinals": list(own.values()),
            }
        )
    lake.frame(
        {
            "number": "int",
            "mask": "string",
            "is_as_declared": "boolean",
            "ordinals": "map<string, int>",
            "all_ordinals": "array<int>",
        },
        rows,
    ).createOrReplaceTempView("masks")
    expected = []
    for row in rows:
        try:
            flagged = decode_change_mask(row["mask"], 0, "hex")
        except MaskError:
            flagged = None
        known = row["ordinals"]
        expected.append(
            {
                "number": row["number"],
                "is_mask": flagged is not None,
                "bits": [None if flagged is None else known.get(name) in flagged for name in names],
                "unknown": None
                if flagged is None
                else [ordinal for ordinal in flagged if ordinal not in known.values()],
            }
        )
    assert any(row["unknown"] for row in expected)
    assert lake.rows(sql) == expected


@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 61])
def test_bytes_are_high_first_where_no_other_order_fits(
    masked: Project, lake: Lake, width: int
) -> None:
    source = random.Random(int(os.environ.get("AFTERIMAGE_SEED", "54")) + width)
    full = ((1 << width) - 1).to_bytes(width // 8 + 1, "big")
    masks = [b"", b"\0\0\0", full, full[::-1], full[::-1].rstrip(b"\0")]
    for _ in range(300):
        size = source.randrange(width // 8 + 3)
        bits = source.getrandbits(8 * size) & source.getrandbits(8 * size)
        masks.append(bits.to_bytes(size, source.choice(["big", "little"])))
    rows: list[dict[str, Any]] = [
        {"digits": one.hex().upper(), "last": width}
        | {key: source.randrange(1, width + 1) for key in ("key_1", "key_2")}
        for one in masks
    ]
    kinds = {"digits": "string", "last": "int", "key_1": "int", "key_2": "int"}
    lake.frame(kinds, rows).coalesce(1).createOrReplaceTempView("masks_of_bytes")
    is_high_first = masked.sql(
        "afterimage._mask_is_high_first('digits', 'last', ['key_1', 'key_2'])"
    )
    found = lake.rows(f"select {is_high_first} as found from masks_of_bytes")

    expected = []
    for row in rows:
        high, low = (
            set(decode_change_mask(row["digits"], 0, encoding) or [])
            for encoding in ("hex", "hex_bytes")
        )
        fits_low = max(low, default=0) <= width and not {row["key_1"], row["key_2"]} & (high - low)
        expected.append(max(high, default=0) <= width and not fits_low)
    assert [row["found"] for row in found] == expected


@pytest.mark.parametrize("header_columns", [0, 1, 7, 61])
@pytest.mark.parametrize("width", [1, 2, 12, 65])
@pytest.mark.parametrize("encoding", ["bytes", "hex", "hex_bytes", "hex of binary"])
def test_a_mask_of_a_change_table_is_read_as_by_the_function(
    masked: Project, lake: Lake, encoding: str, width: int, header_columns: int
) -> None:
    source = random.Random(f"{os.environ.get('AFTERIMAGE_SEED', '54')} {width} {header_columns}")
    is_text = encoding in ("hex", "hex_bytes")
    encoding = encoding.split()[0]
    names = [f"c{number}" for number in range(1, width + 1)]
    # Not all columns of the table are declared.
    declared = [name for name in names if name == "c1" or source.randrange(4)]
    sql = masked.compile(
        "select flagged_columns, flags_header, unknown_ordinals"
        f" from ({{{{ afterimage._decoded_masks('masks', {names}, {declared},"
        f" '{encoding}', {header_columns}, {is_text}) }}}})"
    )
    rows: list[dict[str, Any]] = []
    for number in range(300):
        text = a_mask(source, header_columns + width)
        mask: Any = text
        if encoding == "bytes":
            size = source.randrange((header_columns + width) // 8 + 3)
            mask = None if text is None else source.randbytes(size)
            if number == 1:
                mask = bytes([255]) * 16385
        elif not is_text:
            mask = None if text is None else text.encode()
        rows.append({"change_mask": mask})
    kind = "string" if is_text else "binary"
    lake.frame({"change_mask": kind}, rows).coalesce(1).createOrReplaceTempView("masks")
    expected = []
    for row in rows:
        try:
            flagged = decode_change_mask(row["change_mask"], header_columns, encoding)
            all_bits = decode_change_mask(row["change_mask"], 0, encoding)
        except MaskError:
            flagged = all_bits = None
        expected.append(
            {
                "flagged_columns": None
                if flagged is None
                else [
                    name
                    for place, name in enumerate(names, 1)
                    if place in flagged and name in declared
                ],
                "flags_header": any(place <= header_columns for place in all_bits or []),
                "unknown_ordinals": None
                if flagged is None
                else [ordinal for ordinal in flagged if ordinal > width],
            }
        )
    assert any(row["unknown_ordinals"] for row in expected)
    assert any(row["flagged_columns"] for row in expected)
    assert lake.rows(sql) == expected
