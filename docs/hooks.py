"""What MkDocs cannot do by itself: pages made from the macros' YAML and the commands' help."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

from dbt_afterimage.cli import afterimage

# MkDocs runs this file as it is, from no package.
sys.path.insert(0, str(Path(__file__).parent))
import arguments

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]*)\]\((\.\.[^)\s]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code.

    Args:
        files: The pages.
        config: MkDocs' own.
    """
    for path, text in (("reference/macros.md", _macros()), ("reference/commands.md", _commands())):
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write links to files of the repository as their paths; the site does not have them.

    Args:
        markdown: The page's text.
        page: The page.
    """
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2].partition("#")[0]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {link[2]}, which is not there")
        path = target.relative_to(ROOT).as_posix()
        return f"`{path}`" if link[1] in path else f"{link[1]} (`{path}`)"

    return _LINK.sub(shown, markdown)


def _macros() -> str:
    lines = ["# Macros", "", "Every public macro with its arguments, from the macros' own files."]
    heads = arguments.defaults()
    for name, macro in arguments.described().items():
        lines += ["", f"## {name}", "", _one_line(macro["description"]), ""]
        if macro.get("arguments"):
            lines.append(arguments.table(macro, heads.get(name, {})))
    return "\n".join(lines) + "\n"


def _commands() -> str:
    lines = ["# Commands", "", "What each command says of itself with `--help`."]
    for name, command in afterimage.commands.items():
        context = click.Context(
            command, info_name=f"afterimage {name}", terminal_width=100, max_content_width=100
        )
        lines += ["", f"## {name}", "", "```text", command.get_help(context), "```"]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
