"""Writes the pages of `afterimage timeline` and `afterimage health`, which need no network."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import json
import os
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.pages.text import visible
from dbt_afterimage.runtime.state import state_folder

_HERE = Path(__file__).parent

output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this file, complete in itself (default: below .afterimage/pages of the project,"
    " where all pages share one script).",
)


def folder(project: Path) -> Path:
    """Return the folder for the pages of a project, `.afterimage/pages`, which git ignores.

    Args:
        project: The project's folder.

    Raises:
        AfterimageError: It cannot be made.
    """
    try:
        pages = state_folder(project) / "pages"
        pages.mkdir(exist_ok=True)
    except OSError as error:
        raise AfterimageError(f"give --output: {error.filename}: {error.strerror}") from None
    return pages


def found_at(path: Path) -> tuple[str, str]:
    """Return where a page is: as a path from the working directory, and as an address to click.

    Args:
        path: The page.
    """
    path = path.absolute()
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path), path.as_uri()


def write(
    path: Path,
    *,
    shares_script: bool = False,
    eyebrow: str,
    title: str,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[dict[str, Any]],
    body: str,
) -> None:
    """Write a page.

    Args:
        path: The file to write.
        shares_script: Whether the drawing library is a file beside the page, the same for all
            pages in the folder; else the page holds it.
        eyebrow: What kind of page it is.
        title: Its title.
        facts: What it shows and of when, as names and values.
        figures: What `page.js` draws, each into the element of the body whose id is its `id`.
            A colour is the name of one of the variables of `page.css`.
        body: The rest of the page, as HTML.

    Raises:
        AfterimageError: The file cannot be written, or plotly is not installed.
    """
    library = _library()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    library_file = f"plotly-{hashlib.sha256(library.encode()).hexdigest()[:12]}.js"
    # The browser itself then refuses the network and any script but these two. Of a local file it
    # checks no hash, so a page with a shared script allows local ones.
    allowed = "'self' file:" if shares_script else _hash(library)
    policy = (
        "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
        f"script-src {allowed} {_hash(script)}"
    )
    drawing = (
        f'<script src="{library_file}"></script>'
        if shares_script
        else f"<script>{library}</script>"
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
{drawing}
<script>{script}</script>
</body>
</html>
"""
    try:
        if shares_script and not (path.parent / library_file).exists():
            _write_whole(path.parent / library_file, library)
        path.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise AfterimageError(f"choose another --output: {path}: {error.strerror}") from None


def _write_whole(path: Path, text: str) -> None:
    """Write a file that others may read or write at the same moment."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as place:
        draft = Path(place) / path.name
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, path)


def escape(text: str) -> str:
    """Return a text escaped for HTML, and for the labels of plotly, which know some tags.

    Plotly knows numbered entities, and a few by name.
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
        raise AfterimageError(
            "pip install 'dbt-afterimage[pages]': the package plotly draws the page"
        )
    from plotly.offline import get_plotlyjs

    # The browser hashes what it has parsed, in which each end of a line is one character.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
