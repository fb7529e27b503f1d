"""Random JSON values, written in any way, and texts that are nearly JSON."""

from __future__ import annotations

import json
import random


def value(source: random.Random, depth: int) -> str:
    """Return a random JSON value, written in any way."""
    kind = source.random()
    if depth == 0 or kind < 0.4:
        return number(source)
    if kind < 0.55:
        return string(source)
    if kind < 0.65:
        return source.choice(["true", "false", "null"])
    parts = [value(source, depth - 1) for _ in range(source.randint(0, 4))]
    comma = spaced(source, ",")
    if kind < 0.8:
        return spaced(source, "[") + comma.join(parts) + spaced(source, "]")
    fields = [string(source) + spaced(source, ":") + part for part in parts]
    return spaced(source, "{") + comma.join(fields) + spaced(source, "}")


def number(source: random.Random) -> str:
    text = source.choice(["", "-"]) + source.choice(["0", "7", "12", "9" * source.randint(1, 30)])
    if source.random() < 0.6:
        text += f".{source.randrange(10 ** source.randint(0, 9))}"
    if source.random() < 0.2:
        text += source.choice("eE") + source.choice(["", "+", "-"]) + str(source.randint(0, 400))
    return text


def string(source: random.Random) -> str:
    signs = "ab1.5\"\\,:{}[]e- \n\t\u00e9\U0001f600'"
    text = "".join(source.choice(signs) for _ in range(source.randint(0, 8)))
    return json.dumps(text, ensure_ascii=source.random() < 0.5)


def spaced(source: random.Random, sign: str) -> str:
    return source.choice(["", " ", "\n\t"]) + sign + source.choice(["", "  "])


def damaged(source: random.Random, text: str) -> str:
    """Return the text with some signs put in or replaced, or as it is."""
    for _ in range(source.choice([0, 0, 1, 3])):
        place = source.randint(0, len(text))
        sign = source.choice("\"\\.e-05, '}")
        text = text[:place] + sign + text[place + source.randint(0, 1) :]
    return text
