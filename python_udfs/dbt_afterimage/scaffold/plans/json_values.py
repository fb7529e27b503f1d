"""Values in JSON, and the types that hold them exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from dbt_afterimage.runtime.project import literal

# Of a decimal in Spark.
MOST_DIGITS = 38


def read_json(text: str) -> Any:
    """Read JSON with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


_KINDS = ("boolean", "bigint", "decimal(38,10)", "string")


def common_kinds(cell: Any, others: Sequence[str] | None) -> Sequence[str]:
    """Return the types that hold a value, and others, exactly; the best one comes first."""
    fits = {"string"}
    if cell is None:
        fits = set(_KINDS)
    elif isinstance(cell, bool):
        fits.add("boolean")
    elif isinstance(cell, int | Decimal):
        number = Decimal(cell)
        if isinstance(cell, int) and -(2**63) <= cell < 2**63:
            fits.add("bigint")
        is_small = -(10**28) < number < 10**28
        if is_small and number == number.quantize(
            Decimal("1e-10"), context=Context(prec=MOST_DIGITS)
        ):
            fits.add("decimal(38,10)")
    return [kind for kind in others or _KINDS if kind in fits]


def best_kind(kinds: Sequence[str]) -> str:
    # Of a column that was NULL in each message nothing is known.
    return "string" if len(kinds) == len(_KINDS) else kinds[0]


def has_field(row: str, names: Sequence[str]) -> str:
    """Return SQL: whether an object in JSON, as Spark writes it, has one of some fields."""
    fields = [literal(f"{json.dumps(name, ensure_ascii=False)}:") for name in names]
    return f"({' or '.join(f'contains({row}, {one})' for one in fields)})"
