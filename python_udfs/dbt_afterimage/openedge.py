"""Texts of Progress OpenEdge: arrays as its SQL engine writes them.

Pure functions without a Spark import; `registry` gives them their SQL names.
"""

from __future__ import annotations

import re

# An escape stands only before a separator or another escape; a lone `~` is a character like any
# other (OpenEdge SQL Reference, "PRO_ARR_ESCAPE function").
_ELEMENTS = re.compile(r"((?:~[;~]|[^;])*)(?:;|$)", re.DOTALL)
_EMPTY = {"", "?"}  # what may stand in the place of an element that a part does not hold


class ArrayError(ValueError):
    """Two texts that are no halves of one array; the message says why."""


def split_array_text(text: str) -> list[str]:
    """Return the elements of an array field that was landed as text, escapes left in.

    Args:
        text: The elements with `;` between them; `~;` and `~~` are escaped characters.

    Returns:
        The elements as they stand, so that joining them with `;` gives the text again.

    Example:
        >>> split_array_text("a;b~;c;")
        ['a', 'b~;c', '']
    """
    elements = []
    start = 0
    while True:
        match = _ELEMENTS.match(text, start)
        assert match is not None  # both parts of the pattern may be empty
        elements.append(match.group(1))
        if not match.group(0).endswith(";") or match.end(1) == match.end():
            return elements
        start = match.end()


def join_array_parts(
    first: str | None, second: str | None, array_index: float, fragment: float = 0
) -> str | None:
    """Put the two parts of an array field together that a split record holds.

    The record broke at element `array_index`: the elements before it are in the first part, those
    from it on in the second (OpenEdge Change Data Capture, "Change Table", `_ArrayIndex`). Where the
    element itself was split (`_Fragment`), its two pieces are put together.

    Args:
        first: The array in the first part, as text; what it does not hold may be missing there.
        second: The array in the second part: all its elements, or only those from the index on.
        array_index: The element that the record broke at, counted from 1.
        fragment: 1 where that element is in both parts, a piece in each.

    Returns:
        The array as text; None where both parts are.

    Raises:
        ArrayError: The index is none, or the first part ends before it.

    Example:
        >>> join_array_parts("a;b;;", ";;c;d", 3)
        'a;b;c;d'
    """
    if first is None or second is None:
        return second if first is None else first
    index = _whole(array_index, "_ArrayIndex")
    if index < 1:
        raise ArrayError(f"_ArrayIndex must be 1 or more, got {array_index!r}")
    head, tail = split_array_text(first), split_array_text(second)
    kept = index if _whole(fragment, "_Fragment") else index - 1
    if len(head) < kept:
        raise ArrayError(f"the first part has {len(head)} elements, _ArrayIndex is {index}")
    if len(tail) == len(head) >= index and set(tail[: index - 1]) <= _EMPTY:
        tail = tail[index - 1 :]
    if not _whole(fragment, "_Fragment"):
        return ";".join(head[:kept] + tail)
    return ";".join([*head[: kept - 1], head[kept - 1] + tail[0], *tail[1:]])


def _whole(number: float, name: str) -> int:
    # SQL integers come as floats, NULL as NaN, where pandas has them in a column with NULLs.
    try:
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        whole = -1
    if whole < 0 or whole != number:
        raise ArrayError(f"{name} must be a whole number, 0 or more, got {number!r}")
    return whole
