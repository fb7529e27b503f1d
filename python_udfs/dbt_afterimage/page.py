"""Writes the pages of `afterimage timeline` and `afterimage health`: one file, no network."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt_afterimage.cli import CommandError
from dbt_afterimage.project import visible

_HERE = Path(__file__).parent


def write(
    path: Path,
    *,
    eyebrow: str,
    title: str,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[dict[str, Any]],
    body: str,
) -> None:
    """Write a page.

    Args:
        path: The file to write.
        eyebrow: What kind of page it is.
        title: Its title.
        facts: What it shows and of when, as names and values.
        figures: What `page.js` draws, each into the element of the body whose id is its `id`.
            A colour is the name of one of the variables of `page.css`.
        body: The rest of the page, as HTML.

    Raises:
        CommandError: The file cannot be written, or plotly is not installed.
    """
    library = _library()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    # The browser itself then refuses the network and any script but these two.
    policy = (
        "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
        f"script-src {_hash(library)} {_hash(script)}"
    )
    listed = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts
    )
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · {escape(eyebrow)}</title>
<style>{(_HERE / "page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<header>
<p class="eyebrow">Afterimage · {escape(eyebrow)}</p>
<h1>{escape(title)}</h1>
<dl class="facts">{listed}</dl>
</header>
{body}
</main>
<script id="figures" type="application/json">{_json(figures)}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""
    try:
        path.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise CommandError(f"choose another --output: {path}: {error.strerror}") from None


def escape(text: str) -> str:
    """Return a text as it stands in HTML, and in the labels of plotly, which know some tags.

    Of the entities plotly knows the numbered ones, and a few by name.
    """
    return html.escape(visible(text)).replace("&quot;", "&#34;")


def pattern(colour: str, shape: str | None) -> dict[str, Any]:
    """Return what hatches a bar, for readers who do not see its colour; nothing without a shape.

    Args:
        colour: The variable of the bar's colour, without its dashes.
        shape: The hatching, as plotly names it.
    """
    if shape is None:
        return {}
    drawn = {"bgcolor": f"--{colour}", "fgcolor": "--card", "size": 7, "solidity": 0.2}
    return {"pattern": {"shape": shape, **drawn}}


def now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def value(text: str | None, longest: int | None = None) -> str:
    """Return a column's value as HTML; NULL is set apart from the text `NULL`.

    Args:
        text: The value.
        longest: How many characters of it to show.
    """
    if text is None:
        return "<i>NULL</i>"
    if longest is not None and len(text) > longest:
        return escape(text[:longest]) + "…"
    return escape(text) if text else "<i>empty</i>"


def _library() -> str:
    if importlib.util.find_spec("plotly") is None:
        raise CommandError("pip install 'dbt-afterimage[pages]': the package plotly draws the page")
    from plotly.offline import get_plotlyjs

    # The browser hashes what it has parsed, in which each end of a line is one character.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
