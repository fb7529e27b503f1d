"""What the README and the docs tell people to type: the commands are there, the tutorial works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from command_line import BIN, environment
from conftest import ROOT, Lake, Project
from pages import FENCED, PAGES, page, relative, spoken_of, typed
from standalone import free_port

# Placeholders for the reader's own names, and the names in the examples.
NAMES = dict.fromkeys(("stg_…", "<model>", "stg_crm__customers"), "stg_qlik__customers")
NAMES["<history>"] = "customers_history"
# What the examples are not asked to do, and why.
NOT_RUN = {
    r"make .*": "run by developers of the project, and by CI",
    r"dbt \S+|dbt run-operation \S+": "a name that is spoken of",
    r"afterimage (erase|init|land|maintain|serve|timeline)": "a name that is spoken of",
    r"dbt build --target cluster": "needs a cluster: test_cluster.py",
    r".*shipments.*": "the tutorial's: see the test of it",
    r"afterimage (land /landing/.*|up( --all)?|news)": "the README's own tables: test_up.py",
    r"afterimage news --(select|target) .*": "ends with 3 where nothing is new: test_news.py",
    r"afterimage up --exclude .*": "all other examples would be built: test_building.py",
    r"dbt build --select source_status:.*": "needs an answer of before: test_up.py",
    r"afterimage init ('raw.*|--from.*|--check)": "the page of init: see the test of it",
    r"afterimage erase .*": "rows of the examples would go: test_erase.py",
    r"afterimage news 'kafka:.*": "needs a broker: test_real_kafka.py",
    r"afterimage init raw.hub .*": "a table that a service makes",
    r"afterimage up --target …": "a target of the reader's own",
}
# Pages whose blocks another test runs, word for word but for the names of machines and sizes.
ELSEWHERE = {
    "README.md": "packaging/test_from_a_clone.py",
    "docs/start/as_a_package.md": "packaging/test_wheel.py",
    "docs/operations/benchmark.md": "packaging/test_from_a_clone.py",
    "docs/operations/cluster.md": "runtime/test_cluster.py",
    "docs/start/land.md": "commands/test_land.py",
    "docs/start/from_kafka.md": "real/test_real_up.py",
    "docs/operations/every_hour.md": "commands/test_up.py",
}


def commands(text: str) -> list[str]:
    """Return the lines of a page that call a command of ours, dbt, make or beeline."""
    lines = [line for block in typed(text) for line in block]
    known = re.compile(r"(dbt|afterimage|make|beeline) \S")
    return [line for line in lines if known.match(line)] + spoken_of(text)


def cases() -> list[tuple[str, str]]:
    return [(relative(path), line) for path in PAGES for line in commands(path.read_text())]


def test_the_pages_have_commands() -> None:
    assert len(cases()) > 40
    assert ("README.md", "make demo") in cases()


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_every_block_of_commands_is_run_by_a_test(path: Path) -> None:
    blocks = typed(path.read_text())
    name = relative(path)
    if name in ELSEWHERE:
        assert blocks
        assert f'page("{name}")' in (ROOT / "tests" / "python" / ELSEWHERE[name]).read_text()
    elif name != "CONTRIBUTING.md":  # For those who work on the project: CI and they run it.
        lines = [line for block in blocks for line in block]
        here = re.compile(r"(mkdir|cd|dbt|afterimage|beeline) \S|afterimage init$")
        assert [line for line in lines if not here.match(line)] == []


def test_no_block_is_without_its_kind() -> None:
    """Otherwise its commands would be taken for the output of a program."""
    kinds = {kind for path in PAGES for kind, _ in FENCED.findall(path.read_text())}
    assert "" not in kinds


@pytest.mark.parametrize(("name", "line"), cases())
def test_every_command_is_one(name: str, line: str) -> None:
    program, *arguments = shlex.split(line)
    if program == "beeline":
        assert (BIN / program).exists()
    elif program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [word for word in arguments if "=" not in word]
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), name
    elif program == "afterimage":
        from dbt_afterimage import cli

        code: object = 0
        try:
            # A name alone is spoken of, not called.
            command_name, *rest = arguments
            cli.afterimage.commands[command_name].make_context(command_name, rest or ["--help"])
        except click.exceptions.Exit as stop:
            code = stop.exit_code
        assert code == 0, name
    else:
        from dbt.cli.main import cli as dbt

        command: Any = dbt
        context = dbt.make_context("dbt", ["ls"])
        while hasattr(command, "get_command") and arguments:
            command = command.get_command(context, arguments.pop(0))
            assert command is not None, name
        command.make_context("dbt", arguments, parent=context)


def in_a_shell(line: str, folder: Path, **variables: str) -> str:
    """Return the output of a command as typed, with our environment activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=environment(PATH=path, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def examples(make_project: Callable[[str], Project], lake: Lake) -> Iterator[Callable[..., str]]:
    """A shell in a project with the Qlik example, built, and a table `raw.customers__ct`."""
    project = make_project("documented")
    (project.folder / "profiles.yml").symlink_to("profiles/profiles.yml")
    # As in a clone.
    (project.folder / "dbt_project.yml").unlink()
    for name in ("models", "seeds"):
        (project.folder / name).rmdir()
    for name in ("dbt_project.yml", "examples", "models", "seeds"):
        (project.folder / name).symlink_to(ROOT / name)
    port = str(free_port())
    warehouse = os.environ["AFTERIMAGE_WAREHOUSE"]

    def shell(line: str, folder: Path = project.folder) -> str:
        line = line.replace("localhost:10000", f"localhost:{port}")
        return in_a_shell(line, folder, AFTERIMAGE_WAREHOUSE=warehouse, AFTERIMAGE_SERVER_PORT=port)

    shell("dbt seed")
    shell("dbt build --select stg_qlik__customers+")
    lake.spark.sql("create namespace if not exists raw")
    landed = lake.spark.table("afterimage.qlik_customers__ct").withColumnRenamed(
        "id", "customer_id"
    )
    landed.writeTo("raw.customers__ct").create()
    yield shell
    subprocess.run(
        [sys.executable, "-m", "dbt_afterimage", "serve", "--stop"],
        cwd=project.folder,
        capture_output=True,
        check=False,
    )


def new_project(shell: Callable[..., str], folder: Path) -> Path:
    """Make a project as the page of `init` describes."""
    if not (folder / "dbt_project.yml").exists():
        shell("afterimage init", folder)
    return folder


@pytest.mark.long
def test_every_command_of_the_pages_works(examples: Callable[..., str], tmp_path: Path) -> None:
    own = (
        "docs/start/land.md",
        "docs/start/init.md",
        "docs/start/from_kafka.md",
    )  # Run in projects of their own.
    lines = list(dict.fromkeys(line for name, line in cases() if name not in own))
    lines = [line for line in lines if not any(re.fullmatch(known, line) for known in NOT_RUN)]
    assert len(lines) > 15
    failures = []
    for line in lines:
        for stands_for, name in NAMES.items():
            line = line.replace(stands_for, name)
        try:
            # The table that `afterimage init` looks at is of a system that has its models here.
            examples(line, *([new_project(examples, tmp_path)] if "init raw" in line else []))
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n\n".join(failures)


@pytest.mark.long
def test_every_command_of_init_in_a_project_of_its_own(
    examples: Callable[..., str], tmp_path: Path
) -> None:
    folder = new_project(examples, tmp_path)
    # A topic of several tables is made by unit/test_scaffold.py.
    lines = [line for line in commands(page("docs/start/init.md")) if "raw.shop" not in line]
    for line in lines:
        examples(line, folder)
    assert (folder / "models" / "history" / "customers_history.sql").exists()


@pytest.mark.long
def test_the_tutorial_followed_to_the_letter(tmp_path: Path) -> None:
    text = page("docs/start/tutorial.md")
    folder = tmp_path
    saved = re.findall(r"`(seeds/[^`]+)`", text)
    said: dict[str, str] = {}
    for kind, block in FENCED.findall(text):
        if kind != "sh":
            file = folder / saved.pop(0)
            assert file.suffix == f".{kind.replace('yaml', 'yml')}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(block)
            continue
        for line in block.strip().split("\n"):
            if line.startswith("cd "):
                folder /= line.removeprefix("cd ")
                continue
            said[line] = in_a_shell(line, folder)
    shown = next(output for line, output in said.items() if line.startswith("dbt show"))
    table = re.findall(r"^\| (7\d+) \| (\w+) \|.*\| (\d) \| (\w*) *\|$", text, re.MULTILINE)
    assert len(table) == 5
    for shipment, status, version, closed_by in table:
        row = rf"\|\s*{shipment} \|\s*{status}\s*\|.*\|\s*{version} \|\s*{closed_by}\s*\|"
        assert re.search(row, shown), f"{row}\n{shown}"
    assert len(list(folder.glob(".afterimage/pages/*.html"))) == 2
    assert len(list(folder.glob(".afterimage/pages/*.js"))) == 1
