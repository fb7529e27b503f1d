"""Headless Chromium, for tests of pages: what a browser shows of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"
)


@dataclass(frozen=True)
class Seen:
    """A page as the browser has it once its scripts have run.

    Attributes:
        console: The lines of its console: errors of scripts, and what the page's policy refused.
    """

    dom: str
    console: list[str]

    def count(self, pattern: str) -> int:
        """Return how often a regular expression fits the DOM."""
        return len(re.findall(pattern, self.dom))


def look(
    page: Path,
    *,
    place: str = "",
    dark: bool = False,
    screenshot: Path | None = None,
    width: int = 1240,
    height: int = 1400,
) -> Seen:
    """Open a page.

    Args:
        page: The file.
        place: What follows `#` in the address.
        dark: Whether the reader prefers a dark page.
        screenshot: Where to put a picture.
        width: Of the window, or of a frame in it.
        height: Of the window.
    """
    assert CHROMIUM is not None
    if width < 500:
        # No window is narrower, but a frame is.
        frame = page.with_suffix(".frame.html")
        frame.write_text(
            f'<body style="margin: 0"><iframe src="{page.name}" style="border: 0; width: {width}px;'
            f' height: {height}px"></iframe></body>'
        )
        page = frame
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"]
    command += [
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={int(not dark)}",
    ]
    command += [f"--user-data-dir={page.parent / 'chromium'}", f"--crash-dumps-dir={page.parent}"]
    command += ["--dump-dom", *([f"--screenshot={screenshot}"] if screenshot else [])]
    result = subprocess.run(
        [*command, page.absolute().as_uri() + (f"#{place}" if place else "")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return Seen(result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line])


def figures(page: Path) -> Any:
    """Return the figures of a page, as its script reads them."""
    found = re.search(
        r'<script id="figures" type="application/json">(.*?)</script>',
        page.read_text(),
        re.DOTALL,
    )
    assert found
    return json.loads(found[1])


def complaints(figure: Any, folder: Path) -> str:
    """Return the parts of a figure that plotly does not know or cannot use.

    Args:
        figure: The figure; its colours are still names.
        folder: Where to write a page.
    """
    painted = re.sub(r'"--[a-z-]+"', '"#123456"', json.dumps(figure)).replace("<", r"\u003c")
    checked = folder / "checked.html"
    checked.write_text(
        f"<script>{get_plotlyjs()}</script><script>var figure = {painted};"
        "document.title = JSON.stringify(Plotly.validate(figure.data, figure.layout) || []);"
        "</script>"
    )
    (title,) = re.findall(r"<title>(\[.*?)</title>", look(checked).dom)
    return str(title)
