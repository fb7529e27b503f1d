"""Writes the pages of `afterimage timeline` and `afterimage health`, which need no network."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.text import duration, time_text, visible

_HERE = Path(__file__).parent


class Kind(NamedTuple):
    """How an operation is drawn, also for readers who do not see colours.

    Attributes:
        symbol: Its symbol in plotly.
        sign: The same as a character.
        pattern: The hatching of its bars in plotly.
    """

    symbol: str
    sign: str
    pattern: str = ""


# In the order of the legends. Each colour is the variable of this name in page.css.
KINDS = {
    "load": Kind("square", "■", "."),
    "insert": Kind("triangle-up", "▲"),
    "update": Kind("circle", "●"),
    "key_change": Kind("diamond", "◆"),
    "delete": Kind("x", "✕", "/"),
    "truncate": Kind("x", "✕", "/"),
    "rejected": Kind("circle", "●", "x"),
}


@dataclass(frozen=True)
class Document:
    """A page that can be written.

    Attributes:
        template: The file of `templates` that draws it.
        eyebrow: What kind of page it is.
        title: Its title.
        facts: What it shows and of when, as names and values.
        figures: What `page.js` draws, each into the element whose id is its `id`. A colour is the
            name of one of the variables of `page.css`.
        content: What else the template shows.
    """

    template: str
    eyebrow: str
    title: str
    facts: Sequence[tuple[str, str]]
    figures: Sequence[dict[str, Any]] = ()
    content: dict[str, Any] = field(default_factory=dict)

    def html(self, library: str = "", library_file: str = "") -> str:
        """Return the page.

        Args:
            library: The drawing library, for the page to hold it.
            library_file: The file of it beside the page.
        """
        script = (_HERE / "page.js").read_text(encoding="utf-8")
        # The browser itself then refuses the network and any script but these two. Of a local file
        # it checks no hash, so a page with a shared script allows local ones.
        allowed = "'self' file:" if library_file else _hash(library)
        text: str = _template(self.template).render(
            page=self,
            figures=_json(self.figures),
            style=(_HERE / "page.css").read_text(encoding="utf-8"),
            script=script,
            library=library,
            library_file=library_file,
            policy="default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
            f"script-src {allowed if self.figures else ''} {_hash(script)}",
            **self.content,
        )
        return text


def write(path: Path, document: Document, *, shares_script: bool = False) -> None:
    """Write a page.

    Args:
        path: The file to write.
        document: The page.
        shares_script: Whether the drawing library is a file beside the page, the same for all
            pages in the folder; else the page holds it.

    Raises:
        AfterimageError: The file cannot be written, or plotly is not installed.
    """
    library = _library() if document.figures else ""
    beside = path.parent / f"plotly-{hashlib.sha256(library.encode()).hexdigest()[:12]}.js"
    text = document.html(library_file=beside.name) if shares_script else document.html(library)
    try:
        if shares_script and library and not beside.exists():
            _write_whole(beside, library)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise AfterimageError(
            f"cannot write {path} ({error.strerror}): choose another --output"
        ) from None


def _write_whole(path: Path, text: str) -> None:
    """Write a file that others may read or write at the same moment."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as place:
        draft = Path(place) / path.name
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.replace(draft, path)


@cache
def _template(name: str) -> Any:
    # dbt imports Jinja, but `afterimage --help` does not import dbt.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Texts from tables: invisible characters are made visible, then all is escaped.
        finalize=lambda shown: visible(shown) if type(shown) is str else shown,
    )
    environment.filters.update(time=time_text, duration=duration)
    environment.globals["KINDS"] = KINDS
    return environment.get_template(name)


def macro(name: str) -> Callable[..., str]:
    """Return a macro of `templates/macros.html`; what it returns is HTML.

    The labels of plotly know some tags, so they need the same escapes. Of the entities plotly knows
    the numbered ones, and a few by name; the templates' escapes are of these.

    Args:
        name: The macro's name.
    """
    found = getattr(_template("macros.html").module, name)
    return lambda *arguments: str(found(*arguments))


def layout(height: int, **more: Any) -> dict[str, Any]:
    """Return what the layouts of all figures share.

    Args:
        height: The figure's height in pixels.
        **more: What this figure has beside that.
    """
    return {
        "height": height,
        "paper_bgcolor": "--card",
        "plot_bgcolor": "--card",
        "font": {"color": "--ink", "family": "system-ui, DejaVu Sans, sans-serif", "size": 13},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "--card",
            "bordercolor": "--muted",
            "font": {"color": "--ink"},
        },
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
        },
        "showlegend": True,
        **more,
    }


def fill(kind: str) -> dict[str, Any]:
    """Return the colour and the hatching of a kind's bars."""
    shape = KINDS[kind].pattern
    hatched = {"bgcolor": f"--{kind}", "fgcolor": "--card", "size": 7, "solidity": 0.2}
    return {"color": f"--{kind}"} | ({"pattern": {"shape": shape, **hatched}} if shape else {})


def now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def _library() -> str:
    if importlib.util.find_spec("plotly") is None:
        raise AfterimageError(
            "the page needs the package plotly: pip install 'dbt-afterimage[pages]'"
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
