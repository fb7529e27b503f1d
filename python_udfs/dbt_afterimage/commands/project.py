"""The dbt project of the working directory, for commands that look into its tables.

Everything goes through dbt itself, so a command sees what `dbt show` would see, whatever the
target is: a session in this process, a cluster, or a Thrift server.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from dbt_afterimage.cli import CommandError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Column:
    """A column of a table, with its Spark type in lower case."""

    name: str
    type: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which project and target a command works on: dbt's own options.

    Args:
        parser: The parser of the command.
    """
    group = parser.add_argument_group("where to look, as in dbt")
    for name, text in (
        ("project-dir", "folder of the dbt project (default: this one)"),
        ("profiles-dir", "folder of profiles.yml"),
        ("profile", "profile to use"),
        ("target", "target of the profile"),
    ):
        group.add_argument(f"--{name}", help=text)


def flags(options: argparse.Namespace) -> list[str]:
    """Return the options of `add_arguments` as dbt takes them."""
    found = []
    for name in ("project_dir", "profiles_dir", "profile", "target"):
        value = getattr(options, name)
        if value is not None:
            found += [f"--{name.replace('_', '-')}", value]
    return found


def state_folder(project: Path) -> Path:
    """Return the folder of a project for what commands make, `.afterimage`; git ignores all of it.

    Args:
        project: The project's folder.
    """
    folder = project / ".afterimage"
    folder.mkdir(exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    return folder


class Project:
    """A dbt project that was parsed once and can be asked many times.

    Attributes:
        folder: Where its `dbt_project.yml` is.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        """Parse the project.

        Args:
            options: The command's options, with those of `add_arguments`.

        Raises:
            CommandError: There is no project, no profile, or dbt cannot read them.
        """
        here = Path(options.project_dir or ".").absolute()
        # As dbt looks for it.
        above = [] if options.project_dir else here.parents
        projects = [folder for folder in (here, *above) if (folder / "dbt_project.yml").is_file()]
        if not projects:
            raise CommandError(
                f"run this in a dbt project, or give --project-dir: {here} has no dbt_project.yml"
            )
        self.folder = projects[0]
        self._flags = flags(options)
        self._manifest: Any = None
        with step("reading the dbt project"):
            self._manifest = self._dbt("parse")

    def model(self, name: str) -> Any:
        """Return the manifest's node of a model (or seed).

        Args:
            name: The model's name, as in `ref`.

        Raises:
            CommandError: There is none. The text names similar ones.
        """
        nodes = {
            node.name: node
            for node in self._manifest.nodes.values()
            if node.resource_type in ("model", "seed", "snapshot")
        }
        if name not in nodes:
            import difflib

            near = difflib.get_close_matches(name, nodes, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "`dbt ls` lists the models."
            raise CommandError(f"this project has no model {visible(name)}; {hint}")
        return nodes[name]

    def readers_of(self, source: str) -> list[Any]:
        """Return the models that select directly from a source, a table of one, or a seed.

        Args:
            source: `name`, `name.table`, or the name of a seed.

        Raises:
            CommandError: There is no such source, or no model reads it.
        """
        known = {
            key: {node.source_name, f"{node.source_name}.{node.name}"}
            for key, node in self._manifest.sources.items()
        }
        for key, node in self._manifest.nodes.items():
            if node.resource_type == "seed":
                known[key] = {node.name}
        found = {key for key, names in known.items() if source in names}
        if not found:
            listed = ", ".join(sorted(set().union(*known.values()))[:12]) or "none"
            raise CommandError(
                f"this project has no source or seed {visible(source)}; it has: {listed}"
            )
        readers = [
            node
            for node in self._manifest.nodes.values()
            if node.resource_type == "model"
            and node.config.materialized not in ("ephemeral", "view")
            and found & set(node.depends_on.nodes)
        ]
        if not readers:
            raise CommandError(f"no model of this project selects from {visible(source)}")
        return sorted(readers, key=lambda node: str(node.name))

    def columns(self, node: Any) -> list[Column]:
        """Return the columns of a model's table.

        Raises:
            CommandError: The table is not there.
        """
        listed = self._show(
            # dbt wants to see what is referred to before it looks into conditions.
            "{%- set model = ref('" + node.package_name + "', '" + node.name + "') -%}"
            "{%- set columns = afterimage._relation_columns(model) -%}"
            # Any text is a fit literal as hex digits.
            "select '{{ tojson(columns).encode().hex() }}' as line"
        )
        columns = [
            Column(column["name"], column["type"])
            for column in json.loads(bytes.fromhex(listed[0]))
        ]
        if not columns:
            raise CommandError(
                f"build the table first (dbt build --select +{node.name}): "
                f"{node.relation_name} is not there"
            )
        return columns

    def query(self, sql: str) -> list[Any]:
        """Run a query and return its rows.

        Args:
            sql: A query of one column `line` that holds JSON. It is no Jinja.

        Raises:
            CommandError: It failed. The text is what Spark says.
        """
        # Each construct of Jinja begins with a brace.
        return [json.loads(line) for line in self._show(sql.replace("{", "{{ '{' }}"))]

    def _show(self, inline: str) -> list[str]:
        # dbt adds the inline query to the manifest it is given; one that failed would stay there.
        result = self._dbt("show", "--limit", "-1", "--inline", inline)
        return [str(row[0]) for row in result.results[0].agate_table.rows]

    def _dbt(self, *command: str) -> Any:
        from dbt.cli.main import dbtRunner

        said: list[str] = []

        def listen(event: Any) -> None:
            if event.info.level == "error":
                said.append(event.info.msg)

        runner = dbtRunner(manifest=self._manifest, callbacks=[listen])
        outcome = runner.invoke(["--log-level", "none", *command, *self._flags])
        if outcome.success:
            return outcome.result
        messages = [str(outcome.exception)] if outcome.exception else []
        messages += [
            result.message for result in getattr(outcome.result, "results", []) if result.message
        ]
        text = without_kinds(one_line(" ".join(messages or said) or "no reason given"))
        if "profile" in text.lower() or text.endswith(".dbt' does not exist."):
            text += " (dbt looks for profiles.yml in --profiles-dir, here, and in ~/.dbt)"
        raise CommandError(f"dbt {command[0]} failed: {text}")


class step:
    """Says on stderr what is being done, and how long it took where that was long."""

    def __init__(self, what: str) -> None:
        """Name the step."""
        self._what = what

    def __enter__(self) -> None:
        """Say that it begins."""
        self._started = time.monotonic()
        print(f"afterimage: {self._what} ...", file=sys.stderr, flush=True)

    def __exit__(self, kind: object, *_: object) -> None:
        """Say that it is done."""
        seconds = time.monotonic() - self._started
        if kind is None and seconds >= 5:
            print(f"afterimage: {self._what}: {seconds:.0f} s", file=sys.stderr, flush=True)


def quote(name: str) -> str:
    """Return a column's name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def text_of(column: Column, expression: str) -> str:
    """Return SQL that gives a column's value as text, bytes as hex."""
    if column.type == "binary":
        return f"hex({expression})"
    if column.type.startswith(("struct<", "array<", "map<")):
        return f"to_json({expression})"
    return f"cast({expression} as string)"


def literal(text: str) -> str:
    """Return SQL for a text of any characters; only hex digits of it get into the statement."""
    return f"decode(unhex('{text.encode().hex()}'), 'utf-8')"


def equals(column: Column, value: str) -> str:
    """Return the condition that a column holds a value that was given as text.

    Args:
        column: The column, of a simple type.
        value: The value as Spark casts it; bytes as hex digits.
    """
    if column.type == "binary":
        return f"{quote(column.name)} = unhex({literal(value)})"
    return f"{quote(column.name)} = try_cast({literal(value)} as {column.type})"


def moment(micros: int) -> datetime:
    """Return the moment, in UTC, that lies so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=micros)


def time_text(micros: int | None) -> str:
    """Return a moment as people write it, in UTC, without zeros at its end."""
    if micros is None:
        return ""
    seconds, _, fraction = moment(micros).replace(tzinfo=None).isoformat(" ").partition(".")
    return f"{seconds}.{fraction.rstrip('0')}" if fraction else seconds


def without_kinds(text: str) -> str:
    """Return an error of dbt without the kinds of error that it begins with, once for each layer.

    Args:
        text: The error as one line.
    """
    return re.sub(r"^(?:(?:Runtime|Database|Compilation) Error )+", "", text)


def one_line(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())


def visible(text: str) -> str:
    """Return a text with the characters that cannot be seen, or that reorder others, made visible.

    Args:
        text: A value of somebody's table.
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    reorders = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x200E, 0x200F)
    if 0x7F <= code <= 0x9F or reorders or 0x2028 <= code <= 0x2029 or 0xD800 <= code <= 0xDFFF:
        return f"⟨U+{code:04X}⟩"
    return character


def parse_csv(text: str) -> Sequence[str]:
    """Return the fields of one line of CSV."""
    import csv

    return next(csv.reader([text], strict=True), [""])
