"""What the README and the docs tell people to type: the commands are there, the tutorial works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import environment
from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
TUTORIAL = ROOT / "docs" / "tutorial.md"


def commands(text: str) -> list[str]:
    """Return the lines of a page that call a command of ours, dbt or make."""
    lines = [
        line.removeprefix("$ ") for _, block in FENCED.findall(text) for line in block.split("\n")
    ]
    spans = INLINE.findall(FENCED.sub("", text))
    found = []
    for line in lines + spans:
        words = line.split("  #")[0].split(" && ")
        found += [
            word.strip() for word in words if re.match(r"(dbt|afterimage|make) \S", word.strip())
        ]
    return found


def cases() -> list[tuple[str, str]]:
    return [(page.name, line) for page in PAGES for line in commands(page.read_text())]


def test_the_pages_have_commands() -> None:
    assert len(cases()) > 40
    assert ("README.md", "make demo") in cases()


@pytest.mark.parametrize(("page", "line"), cases())
def test_every_command_is_one(page: str, line: str) -> None:
    program, *arguments = shlex.split(line)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [word for word in arguments if "=" not in word]
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), page
    elif program == "afterimage":
        from dbt_afterimage import cli

        code: object = 0
        try:
            # A name alone is spoken of, not called.
            cli._parser().parse_args(arguments if arguments[1:] else [*arguments, "--help"])
        except SystemExit as stop:
            code = stop.code
        assert code == 0, page
    else:
        from dbt.cli.main import cli as dbt

        command: Any = dbt
        context = dbt.make_context("dbt", ["ls"])
        while hasattr(command, "get_command") and arguments:
            command = command.get_command(context, arguments.pop(0))
            assert command is not None, page
        command.make_context("dbt", arguments, parent=context)


@pytest.mark.long
def test_the_tutorial_followed_to_the_letter(tmp_path: Path) -> None:
    text = TUTORIAL.read_text()
    blocks = FENCED.findall(text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = tmp_path
    saved = re.findall(r"`(seeds/[^`]+)`", text)
    said: dict[str, str] = {}
    for kind, block in blocks:
        if kind:
            file = folder / saved.pop(0)
            assert file.suffix == f".{kind.replace('yaml', 'yml')}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(block)
            continue
        for line in block.strip().split("\n"):
            if line.startswith("cd "):
                folder /= line.removeprefix("cd ")
                continue
            done = subprocess.run(
                line,
                shell=True,
                cwd=folder,
                env=environment(PATH=path),
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            said[line] = done.stdout
    shown = next(output for line, output in said.items() if line.startswith("dbt show"))
    table = re.findall(r"^\| (7\d+) \| (\w+) \|.*\| (\d) \| (\w*) *\|$", text, re.MULTILINE)
    assert len(table) == 5
    for shipment, status, version, closed_by in table:
        row = rf"\|\s*{shipment} \|\s*{status}\s*\|.*\|\s*{version} \|\s*{closed_by}\s*\|"
        assert re.search(row, shown), f"{row}\n{shown}"
    assert [file.suffix for file in folder.glob("*.html")] == [".html", ".html"]
