"""Tables of the macros' arguments, made from the macros' own files.

`python docs/arguments.py` writes them into the pages below docs/ that ask for one with the comment
`<!-- arguments: name_of_the_macro -->`; a table stands after an empty line and ends with the next.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs"
_ASKED = re.compile(r"(<!-- arguments: (\w+) -->\n\n).*?(?=\n\n|\n?\Z)", re.DOTALL)
_HEAD = re.compile(r"\{%-?\s*macro\s+(\w+)\s*\((.*?)\)\s*-?%\}", re.DOTALL)


def described() -> dict[str, dict[str, Any]]:
    """Return the public macros by name, as their YAML describes them."""
    return {
        macro["name"]: macro
        for path in sorted((ROOT / "macros").rglob("*.yml"))
        for macro in yaml.safe_load(path.read_text(encoding="utf-8")).get("macros", [])
        if not macro["name"].startswith("_")
    }


def defaults() -> dict[str, dict[str, str | None]]:
    """Return each macro's arguments with their defaults as its head has them; None if required."""
    found: dict[str, dict[str, str | None]] = {}
    for path in (ROOT / "macros").rglob("*.sql"):
        for name, head in _HEAD.findall(path.read_text(encoding="utf-8")):
            # A comma inside a list or dictionary does not end an argument.
            parts = re.split(r",\s*(?![^\[{]*[\]}])", " ".join(head.split()))
            pairs = [part.partition("=") for part in parts if part]
            found[name] = {
                key.strip(): value.strip() if sign else None for key, sign, value in pairs
            }
    return found


def table(macro: dict[str, Any], given: dict[str, str | None]) -> str:
    """Return the table of a macro's arguments: name, default and meaning."""
    lines = ["| argument | default | meaning |", "|---|---|---|"]
    for one in macro["arguments"]:
        default = given.get(one["name"])
        shown = "required" if default is None else "" if default == "none" else f"`{default}`"
        text = " ".join(one["description"].split()).replace("|", "\\|")
        lines.append(f"| `{one['name']}` | {shown} | {text} |")
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return a page with the tables that it asks for."""
    macros, heads = described(), defaults()
    return _ASKED.sub(lambda asked: asked[1] + table(macros[asked[2]], heads[asked[2]]), text)


def main() -> None:
    """Write the tables into the pages."""
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            page.write_text(filled(text), encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
