"""Spark's types, as texts: which of two holds the values of both, and SQL for a value in it."""

from __future__ import annotations

import re

from dbt_afterimage.runtime.project import quote

NESTED = ("struct<", "array<", "map<")
# As many digits as the values of a type have at most.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
# As many as a decimal of Spark has.
_MOST_DIGITS = 38
# Each type holds all values of those before it.
_WIDER = (
    (*_DIGITS,),
    ("float", "double"),
    ("tinyint", "smallint", "int", "double"),
    ("date", "timestamp"),
    ("date", "timestamp_ntz"),
)


def common(one: str, other: str) -> str | None:
    """Return the narrowest type that holds all values of two; none if there is none.

    Fields of a struct that only one of them has are NULL in the other. The order and the names are
    those of the first.
    """
    if one.lower() == other.lower() or other == "void":
        return one
    if one == "void":
        return other
    for row in _WIDER:
        if one in row and other in row:
            return max(one, other, key=row.index)
    digits, others = _digits(one), _digits(other)
    if digits and others:
        whole, scale = max(digits[0], others[0]), max(digits[1], others[1])
        return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None
    kind = one.partition("<")[0]
    if not one.startswith(NESTED) or not other.startswith(f"{kind}<"):
        return None
    if kind != "struct":
        (*key, item), (*other_key, other_item) = _parts(one), _parts(other)
        inner = common(item, other_item)
        has_one_key = list(map(str.lower, key)) == list(map(str.lower, other_key))
        return f"{kind}<{','.join([*key, inner])}>" if inner and has_one_key else None
    fields, further = _fields(one), _fields(other)
    united = []
    for name, (spelled, own) in fields.items():
        inner = common(own, further.pop(name, (spelled, own))[1])
        if inner is None:
            return None
        united.append(f"{spelled}:{inner}")
    united += [f"{spelled}:{own}" for spelled, own in further.values()]
    return f"struct<{','.join(united)}>"


def holds(kind: str, own: str) -> bool:
    """Whether a type holds all values of another."""
    return (common(kind, own) or "").lower() == kind.lower()


def can_alter(built: str, found: str) -> bool:
    """Whether a column of Iceberg can become one of a type, which holds what it has."""
    old, new = _digits(built), _digits(found)
    has_same_scale = "(" in built and old is not None and new is not None and old[1] == new[1]
    return has_same_scale or (built, found) in (("int", "bigint"), ("float", "double"))


def looser(one: str, other: str) -> str | None:
    """Return the type to try where a value of one does not fit into the other; none without one."""
    if other == "string" or one.startswith(NESTED) or other.startswith(NESTED):
        return None
    are_numbers = all(_digits(kind) or kind in ("float", "double") for kind in (one, other))
    return "double" if are_numbers and other != "double" else "string"


def converted(sql: str, own: str, kind: str) -> str:
    """Return SQL for a value in a type that holds all values of its own."""
    if own.lower() == kind.lower() or not kind.startswith(NESTED):
        return f"cast({sql} as {kind})"
    if kind.startswith("array<"):
        [item], [wanted] = _parts(own), _parts(kind)
        return f"transform({sql}, item -> {converted('item', item, wanted)})"
    if kind.startswith("map<"):
        (_, item), (_, wanted) = _parts(own), _parts(kind)
        return f"transform_values({sql}, (key, item) -> {converted('item', item, wanted)})"
    has, members = _fields(own), []
    for name, (spelled, wanted) in _fields(kind).items():
        value = f"cast(null as {wanted})"
        if name in has:
            value = converted(f"{sql}.{quote(_plain(has[name][0]))}", has[name][1], wanted)
        members.append(f"{value} as {quote(_plain(spelled))}")
    return f"if({sql} is null, null, struct({', '.join(members)}))"


def _digits(kind: str) -> tuple[int, int] | None:
    """Return how many digits the values of an exact number have before the point, and behind it."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _parts(kind: str) -> list[str]:
    """Return what stands between the brackets of a nested type: its fields, or its items."""
    inner, parts, depth, is_quoted = kind.partition("<")[2][:-1], [""], 0, False
    for sign in inner:
        is_quoted ^= sign == "`"
        if not is_quoted:
            depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _fields(kind: str) -> dict[str, tuple[str, str]]:
    """Return the fields of a struct: name in small letters -> name as it stands, and type."""
    found = {}
    for part in _parts(kind):
        field = re.match(r"(`(?:[^`]|``)*`|[^:]*):\s*", part)
        assert field is not None, kind
        found[_plain(field[1]).lower()] = (field[1], part[field.end() :])
    return found


def _plain(name: str) -> str:
    """Return a name without its quotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
