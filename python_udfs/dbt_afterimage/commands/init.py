"""`afterimage init`: begins a dbt project, and writes what `scaffold` says for a landed table."""

from __future__ import annotations

import json
import os
import re
import signal
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbt_afterimage.commands.doctor import missing_doc_blocks
from dbt_afterimage.commands.project import parse_csv
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.run_dbt import readable
from dbt_afterimage.runtime.state import state_folder

if TYPE_CHECKING:
    from dbt_common.events.base_types import EventMsg

# The dbt package as it was installed: macros, generic tests, doc blocks and the profile.
PACKAGE = Path(__file__).parents[1] / "dbt_package"

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

_DOC_BLOCK = re.compile(r"\{% docs (\w+) %\}.*?\{% enddocs %\}\n*", re.DOTALL)

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


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for name, text in reversed(_TEXTS.items()):
        option = click.option("--" + name.replace("_", "-"), help=text)
        function = option(function)
    return function


@click.command("init")
@click.argument("relation", required=False)
@click.option("--key", help="The key's columns as CSV (default: guessed if it can).")
@_options
@click.option("--arguments", metavar="JSON", help="Further arguments of the source macro, as JSON.")
@click.option("--package-path", is_flag=True, help="Print where Afterimage's dbt package is.")
def command(relation: str | None, package_path: bool, **options: Any) -> None:
    """Begin a project, or write the models for a landed change table.

    Without RELATION: begin a dbt project in this folder. With it (schema.table, or table): look at
    the landed change table and write the models that turn it into history. No file that is there
    already is changed.
    """
    folder = Path.cwd()
    if package_path:
        print(PACKAGE)
        return
    if relation is None:
        _begin(folder)
        return
    if not (folder / "dbt_project.yml").is_file():
        raise AfterimageError(
            "run `afterimage init` first: there is no dbt_project.yml in this folder"
        )

    print(f"Looking at {relation} ...", flush=True)
    drafts = scaffold(_arguments(relation, options))
    files = _with_new_doc_blocks(folder, drafts.files, drafts.doc_blocks)
    written = write(folder, files)
    for finding in drafts.findings:
        print(finding)
    _say(files, written)
    for path, text in files.items():
        is_staging = Path(path).name == f"{drafts.staging}.sql"
        if is_staging and (folder / path).read_text(encoding="utf-8").strip() != text.strip():
            print(
                f"Note: {path} is not what it would be for {relation}."
                " If it is the model of another table, give a name: --name NAME"
            )
    print(f"Next: dbt build --select {drafts.staging}+")


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Write files, never over one that is there: all of them or, where one cannot be written, none.

    Whoever is killed meanwhile leaves the first few of them, each of them whole.

    Args:
        folder: What the paths start from.
        files: Path to text, in the order in which to write them.

    Returns:
        The paths that were written.

    Raises:
        AfterimageError: A file cannot be written.
    """
    new = [path for path in files if not os.path.lexists(folder / path)]
    made: list[Path] = []
    with _signals_wait():
        try:
            # Only on one disk is a file moved in one step.
            state = state_folder(folder)
            place = state if state.stat().st_dev == folder.stat().st_dev else folder
            with tempfile.TemporaryDirectory(prefix=".init-", dir=place) as drafts:
                for number, path in enumerate(new):
                    text = files[path].strip("\n") + "\n"
                    Path(drafts, str(number)).write_text(text, encoding="utf-8")
                for number, path in enumerate(new):
                    for parent in reversed((folder / path).parents):
                        if not parent.is_dir():
                            parent.mkdir()
                            made.append(parent)
                    Path(drafts, str(number)).rename(folder / path)
                    made.append(folder / path)
        except BaseException as error:
            for one in reversed(made):
                one.rmdir() if one.is_dir() else one.unlink()
            if isinstance(error, OSError):
                where = error.filename2 or error.filename
                raise AfterimageError(f"nothing was written: {where}: {error.strerror}") from None
            raise
    return new


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let the signals that end a process wait until the block is done."""
    came: list[int] = []
    ending = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    before = {one: signal.signal(one, lambda number, _: came.append(number)) for one in ending}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)
        for number in came:
            signal.raise_signal(number)


def _say(files: Iterable[str], written: Sequence[str]) -> None:
    for path in files:
        print(f"wrote  {path}" if path in written else f"kept   {path} (it was there already)")


def _with_new_doc_blocks(
    folder: Path, files: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the files with those doc blocks alone that the project lacks; dbt wants each once.

    Args:
        folder: The project's folder.
        files: Path to text.
        known: The project's doc blocks, each with the file that it is in.
    """
    found: dict[str, str] = {}
    for path, text in files.items():
        if not path.endswith(".md"):
            found[path] = text
            continue
        blocks = _DOC_BLOCK.findall(text)
        lacks_some = any(name not in known for name in blocks)
        if not lacks_some and path not in known.values():
            continue
        place, number = path, 1
        while lacks_some and os.path.lexists(folder / place):
            number += 1
            place = f"{path.removesuffix('.md')}_{number}.md"
        found[place] = _DOC_BLOCK.sub(lambda m: "" if m[1] in known else m[0], text)
    return found


@dataclass(frozen=True)
class Drafts:
    """What the macro `scaffold` says of a landed table.

    Attributes:
        findings: What it found out.
        files: Path to text, in an order in which every beginning of it is a project that parses.
        staging: The name of the staging model, which may be there already.
        doc_blocks: The project's doc blocks, each with the file that it is in.
    """

    findings: list[str]
    files: dict[str, str]
    staging: str
    doc_blocks: dict[str, str]


def scaffold(arguments: Mapping[str, Any]) -> Drafts:
    """Run the macro `scaffold` in this folder's project.

    Args:
        arguments: Those of the macro.

    Raises:
        AfterimageError: The macro refused, or dbt failed.
    """
    said: list[dict[str, Any]] = []
    refusals: list[str] = []

    def listen(event: EventMsg) -> None:
        # Every message passes here, whatever is shown; the event's own fields differ by kind.
        data: Any = event.data
        if event.info.name == "JinjaLogDebug" and '"afterimage_scaffold"' in data.msg:
            said.append(json.loads(data.msg)["afterimage_scaffold"])
        elif event.info.name == "RunningOperationCaughtError":
            refusals.append(data.exc)

    manifest = _dbt(None, listen, refusals, ["parse"])
    arguments = {**arguments, "as_data": True}
    _dbt(manifest, listen, refusals, ["run-operation", "scaffold", "--args", json.dumps(arguments)])
    own = manifest.metadata.project_name
    doc_blocks = {
        doc.name: Path(doc.original_file_path).as_posix()
        for doc in manifest.docs.values()
        if doc.package_name == own
    }
    return Drafts(said[0]["findings"], said[0]["files"], said[0]["staging"], doc_blocks)


def _dbt(manifest: Any, listen: Any, refusals: Sequence[str], command: list[str]) -> Any:
    from dbt.cli.main import dbtRunner

    outcome = dbtRunner(manifest, callbacks=[listen]).invoke(["--log-level", "none", *command])
    if outcome.success:
        return outcome.result
    text = refusals[0] if refusals else str(outcome.exception)
    if "could not find a macro with the name 'scaffold'" in text:
        raise AfterimageError("run `dbt deps` first: this project has not installed Afterimage")
    missing = missing_doc_blocks(Path.cwd(), text)
    if missing:
        raise AfterimageError(". ".join(missing))
    raise AfterimageError(refusal(text))


def refusal(text: str) -> str:
    """Return what the macro said, without dbt's lines about where it said it.

    Args:
        text: An error of dbt.
    """
    found = re.search(r"^( *scaffold: .*?)(?:\n\s*(?:\n|> )|\Z)", text, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found[1]).removeprefix("scaffold: ") if found else readable(text)


def _arguments(relation: str, options: Mapping[str, str | None]) -> dict[str, Any]:
    arguments: dict[str, Any] = {name: options[name] for name in _TEXTS if options[name]}
    arguments["relation"] = relation
    if options["key"]:
        arguments["unique_key"] = list(parse_csv(options["key"]))
    if options["arguments"]:
        try:
            arguments["arguments"] = json.loads(options["arguments"])
        except json.JSONDecodeError as error:
            raise AfterimageError(
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
    os.makedirs(folder / "models", exist_ok=True)
    files = {
        ".gitignore": _GITIGNORE,
        "profiles.yml": profiles,
        "packages.yml": _PACKAGES.format(package=package.as_posix()),
        # The last one: it makes the folder a project.
        "dbt_project.yml": _DBT_PROJECT.format(name=name),
    }
    written = write(folder, files)
    _say(files, written)
    if "packages.yml" not in written:
        print(f"Add to packages.yml what is missing there:\n  - local: {package.as_posix()}")
    ignored = (folder / ".gitignore").read_text(encoding="utf-8").split()
    lacking = [line for line in _GITIGNORE.split() if line not in ignored]
    if lacking:
        print(f"Add to .gitignore what is missing there: {' '.join(lacking)}")
    print("Next: dbt deps, then: afterimage init SCHEMA.TABLE")
