"""Values and times as people read them, and texts as literals."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The beginning of the year 1, and the end of 9999.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def moment(micros: int) -> datetime:
    """Return the moment, in UTC, of this many microseconds after 1970; the nearest with a date."""
    return EPOCH + timedelta(microseconds=min(max(micros, _FIRST), _LAST))


def time_text(micros: int | None) -> str:
    """Return a moment as text, in UTC, without zeros at the end."""
    if micros is None:
        return ""
    seconds, _, fraction = moment(micros).replace(tzinfo=None).isoformat(" ").partition(".")
    return f"{seconds}.{fraction.rstrip('0')}" if fraction else seconds


def visible(text: str) -> str:
    """Return a text in which invisible characters, and those that reorder others, are visible.

    Args:
        text: A value from a table.
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    reorders = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x200E, 0x200F)
    if 0x7F <= code <= 0x9F or reorders or 0x2028 <= code <= 0x2029 or 0xD800 <= code <= 0xDFFF:
        return f"⟨U+{code:04X}⟩"
    return character


def duration(micros: int) -> str:
    """Return a duration in its two largest units.

    Args:
        micros: The duration in microseconds.
    """
    if micros < 0:
        return f"-{duration(-micros)}"
    seconds = micros // 1_000_000
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts)) or "0 s"


def text_literal(text: str) -> str:
    """Return a text as a literal, for Spark and for Jinja."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
