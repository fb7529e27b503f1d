"""Masks of Qlik's messages, which SQL reads, say what the Python function says of them."""

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
    return make_project("message_masks")


@pytest.mark.parametrize("width", [1, 3, 4, 7, 60, 61, 125])
def test_a_mask_is_read_as_by_the_function(masked: Project, lake: Lake, width: int) -> None:
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
        " from (select *, {{ afterimage._qlik_mask_digits('mask') }} as changed_digits,"
        " {{ afterimage._qlik_mask_bits('changed_digits', columns) }} as changed_bits from masks)"
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
