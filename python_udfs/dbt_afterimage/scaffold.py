"""`afterimage init`: begins a dbt project, and writes what `scaffold` says for a landed table."""

from __future__ import annotations

import argparse
import json
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt_afterimage.cli import CommandError

if TYPE_CHECKING:
    from dbt_common.events.base_types import EventMsg

# The dbt package as it was installed: macros, generic tests, doc blocks and the profile.
PACKAGE = Path(__file__).with_name("dbt_package")

# What a project cannot be called: packages that dbt has, and words that are no text in YAML.
_TAKEN = {"afterimage", "dbt", "dbt_spark"}
_TAKEN |= {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

# Arguments of the macro that are options here by the same name, beside the key.
_TEXTS = {
    "name": "what the models are named after (default: the source table's name)",
    "system": "the source macro, such as qlik_change_table, where the table is not recognised",
    "table": "the source table, where messages or events of several are in RELATION",
    "base": "the table with the present rows (event log, log of a Db2 text index)",
    "metadata": "the table with Qlik's metadata messages",
    "tracking": "OpenEdge's change tracking table",
    "uow": "Db2's IBMSNAP_UOW",
    "file_format": "table format of the models that merge (default: iceberg)",
}

_GITIGNORE = """\
/.afterimage/
/dbt_packages/
/target/
/logs/
"""

_DBT_PROJECT = """\
name: {name}
config-version: 2
profile: {name}
require-dbt-version: [">=1.11.0", "<1.12.0"]

flags:
  send_anonymous_usage_stats: false

# The local catalog has no views.
models:
  +materialized: table
  +file_format: iceberg

# Seeds are loaded exactly: an empty cell is NULL, and a wide number keeps its digits.
dispatch:
  - macro_namespace: dbt
    search_order: [{name}, afterimage, dbt]
"""

_PACKAGES = """\
packages:
  # Afterimage as pip installed it. Where that is another folder, say so before `dbt deps`:
  # export AFTERIMAGE_PACKAGE="$(afterimage init --package-path)"
  - local: "{{{{ env_var('AFTERIMAGE_PACKAGE', '{package}') }}}}"
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init` to the command line.

    Args:
        commands: The commands of the `afterimage` parser.
    """
    parser = commands.add_parser(
        "init",
        help="begin a project, or write the models for a landed change table",
        description="Without RELATION: begin a dbt project in this folder. With it: look at the "
        "landed change table and write the models that turn it into history. No file that is "
        "there already is changed.",
    )
    parser.add_argument("relation", nargs="?", metavar="RELATION", help="schema.table, or table")
    parser.add_argument(
        "--key", nargs="+", metavar="COLUMN", help="the key's columns (default: guessed if it can)"
    )
    for name, text in _TEXTS.items():
        parser.add_argument("--" + name.replace("_", "-"), metavar=name.upper(), help=text)
    parser.add_argument(
        "--arguments", metavar="JSON", help="further arguments of the source macro, as JSON"
    )
    parser.add_argument(
        "--package-path", action="store_true", help="print where Afterimage's dbt package is"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what `afterimage init` was asked to.

    Args:
        options: The parsed command line.

    Returns:
        The exit code.
    """
    folder = Path.cwd()
    if options.package_path:
        print(PACKAGE)
        return 0
    if options.relation is None:
        _begin(folder)
        return 0
    if not (folder / "dbt_project.yml").is_file():
        raise CommandError(
            "run `afterimage init` first: there is no dbt_project.yml in this folder"
        )

    print(f"Looking at {options.relation} ...", flush=True)
    findings, files = scaffold(_arguments(options))
    for finding in findings:
        print(finding)
    write(folder, files)
    staging = next(path for path in files if re.match(r"stg_.*\.sql$", Path(path).name))
    if (folder / staging).read_text(encoding="utf-8").strip("\n") != files[staging].strip("\n"):
        print(
            f"Note: {staging} is not what it would be for {options.relation}."
            " Is it the model of another table, give a name: --name NAME"
        )
    print(f"Next: dbt build --select {Path(staging).stem}+")
    return 0


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write files, never over one that is there, and say what became of each.

    Args:
        folder: What the paths start from.
        files: Path to text.

    Returns:
        The paths that were written.
    """
    written = []
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(text.strip("\n") + "\n")
        except FileExistsError:
            print(f"kept   {path} (it was there already)")
        else:
            written.append(path)
            print(f"wrote  {path}")
    return written


def scaffold(arguments: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Run the macro `scaffold` in this folder's project.

    Args:
        arguments: Those of the macro.

    Returns:
        What it found out, and its files: path to text.

    Raises:
        CommandError: The macro refused, or dbt failed.
    """
    told: list[dict[str, Any]] = []
    refusals: list[str] = []

    def listen(event: EventMsg) -> None:
        # Every message passes here, whatever is shown; the event's own fields differ by kind.
        data: Any = event.data
        if event.info.name == "JinjaLogDebug" and '"afterimage_scaffold"' in data.msg:
            told.append(json.loads(data.msg)["afterimage_scaffold"])
        elif event.info.name == "RunningOperationCaughtError":
            refusals.append(data.exc)

    _dbt(
        listen,
        refusals,
        ["run-operation", "scaffold", "--args", json.dumps({**arguments, "as_data": True})],
    )
    return told[0]["findings"], told[0]["files"]


def _dbt(listen: Any, refusals: Sequence[str], command: list[str]) -> None:
    from dbt.cli.main import dbtRunner

    outcome = dbtRunner(callbacks=[listen]).invoke(["--log-level", "none", *command])
    if outcome.success:
        return
    text = refusals[0] if refusals else str(outcome.exception)
    if "could not find a macro with the name 'scaffold'" in text:
        raise CommandError("run `dbt deps` first: this project has not installed Afterimage")
    raise CommandError(refusal(text))


def refusal(text: str) -> str:
    """Return what the macro said, without dbt's lines about where it said it.

    Args:
        text: An error of dbt.
    """
    found = re.search(r"^( *scaffold: .*?)(?:\n\s*(?:\n|> )|\Z)", text, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found[1]).removeprefix("scaffold: ") if found else text


def _arguments(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in _TEXTS}
    arguments: dict[str, Any] = {name: text for name, text in given.items() if text is not None}
    arguments["relation"] = options.relation
    if options.key:
        arguments["unique_key"] = options.key
    if options.arguments:
        try:
            arguments["arguments"] = json.loads(options.arguments)
        except json.JSONDecodeError as error:
            raise CommandError(
                f"give --arguments as JSON, such as '{{\"a\": 1}}': {error}"
            ) from None
    return arguments


def _begin(folder: Path) -> None:
    name = re.sub(r"\W+", "_", folder.name.lower()).strip("_") or "history"
    if name in _TAKEN or name[0].isdigit():
        # dbt wants an identifier, and no two projects of one name; YAML has names of its own.
        name = f"project_{name}"
    profiles = (PACKAGE / "profiles" / "profiles.yml").read_text(encoding="utf-8")
    profiles = re.sub(r"^afterimage:", f"{name}:", profiles, flags=re.MULTILINE)
    profiles = profiles.replace("schema: afterimage", f"schema: {name}")
    inside = PACKAGE.is_relative_to(folder)
    package = PACKAGE.relative_to(folder) if inside else PACKAGE
    written = write(
        folder,
        {
            "dbt_project.yml": _DBT_PROJECT.format(name=name),
            "packages.yml": _PACKAGES.format(package=package.as_posix()),
            "profiles.yml": profiles,
            ".gitignore": _GITIGNORE,
        },
    )
    if "packages.yml" not in written:
        print(f"Add to packages.yml what is missing there:\n  - local: {package.as_posix()}")
    os.makedirs(folder / "models", exist_ok=True)
    print("Next: dbt deps, then: afterimage init SCHEMA.TABLE")
