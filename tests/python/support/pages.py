"""What the README and the docs tell people to type."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")


def typed(text: str) -> list[list[str]]:
    """Return the lines of each block of commands, without comments and what the programs answer."""
    found = []
    for kind, block in FENCED.findall(text):
        lines = block.splitlines()
        if kind == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        if kind in ("sh", "console"):
            found.append([re.split(r"\s#", line)[0].strip() for line in lines])
    return found


def spoken_of(text: str) -> list[str]:
    """Return the commands in the running text."""
    return [
        span
        for span in INLINE.findall(FENCED.sub("", text))
        if re.match(r"(dbt|afterimage|make) \S", span)
    ]


def page(name: str) -> str:
    """Return the text of a page: `README.md`, `docs/operations/cluster.md`."""
    return (ROOT / name).read_text()


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tables(markdown: str) -> list[list[dict[str, str]]]:
    """Return the tables of a page, each as its rows."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", markdown, re.M):
        cells = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        found.append([dict(zip(cells[0], row, strict=True)) for row in cells[2:]])
    return found
