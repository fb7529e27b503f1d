"""`afterimage.yml`: the tables that a project keeps history of, with their options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from dbt_afterimage.errors import AfterimageError

FILE = "afterimage.yml"
_HEAD = """\
# The tables that this project keeps history of. `afterimage init` adds to this list,
# `afterimage init --from afterimage.yml` writes the models, `--check` prints what differs.
tables:
"""
_OTHERS = ("base", "metadata", "tracking", "uow", "lsn_times")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("arguments", "history", "defaults"), dict),
    **dict.fromkeys(("key", "models", "tables", "ignore"), list),
}
# Of these an entry says what differs from the defaults, option by option.
_JOINED = ("arguments", "history")
_ALL = ("history", "current", "audit")


@dataclass(frozen=True)
class Entry:
    """A landed table.

    Attributes:
        relation: The table.
        key: The key columns; empty if they are to be guessed.
        name: Base name of the models; by default the source table's.
        table: The source table, if the relation holds messages or events of several.
        system: The source macro, if the table is not recognised.
        file_format: The format of the models that merge; by default the target's.
        arguments: Further arguments of the source macro.
        history: Further options of the history, such as `grain` or `deletes`.
        models: Which models to write behind the staging model.
    """

    relation: str
    key: Sequence[str] = ()
    name: str | None = None
    table: str | None = None
    system: str | None = None
    base: str | None = None
    metadata: str | None = None
    tracking: str | None = None
    uow: str | None = None
    lsn_times: str | None = None
    file_format: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, Any] = field(default_factory=dict)
    models: Sequence[str] = _ALL

    def others(self) -> dict[str, str]:
        """Return the tables beside the relation, by the options that name them."""
        return {name: value for name in _OTHERS if (value := getattr(self, name))}

    def is_same_table(self, other: Entry) -> bool:
        """Whether two entries are of one source table."""
        return (self.relation, self.table) == (other.relation, other.table)

    def text(self, defaults: Entry, *, is_asked: bool = False) -> str:
        """Return the entry as `afterimage.yml` has it: its key, and what differs from defaults.

        Args:
            defaults: The file's defaults.
            is_asked: Whether it is a comment, in which somebody is to answer. The key is its end.
        """
        own, common = asdict(self), asdict(defaults)
        for name in _JOINED:
            own[name], common[name] = _beside(common[name], own[name]), {}
        said = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in own.items()
            if value and (name == "key" or value != common[name])
        }
        if is_asked:
            said["key"] = said.pop("key", [])
        width = 1 << 20 if is_asked else 100
        dumped = yaml.safe_dump(
            [said], sort_keys=False, default_flow_style=None, allow_unicode=True, width=width
        )
        begin = "  # " if is_asked else "  "
        return "".join(f"{begin}{line}" for line in dumped.splitlines(keepends=True))


@dataclass(frozen=True)
class OpenQuestion:
    """A table that cannot be added before somebody says more about it.

    Attributes:
        entry: The table, with the key that its rows suggest, if they suggest one.
        text: What is asked, in one line.
    """

    entry: Entry
    text: str


@dataclass(frozen=True)
class Listing:
    """The content of `afterimage.yml`.

    Attributes:
        defaults: What holds for each table that does not say otherwise.
        ignore: Patterns of tables that nobody looks for, and of files that `--check` ignores.
    """

    entries: Sequence[Entry] = ()
    defaults: Entry = Entry("defaults")
    ignore: Sequence[str] = ()


def read(path: Path) -> Listing:
    """Read a list of tables.

    Args:
        path: The file.

    Raises:
        AfterimageError: It does not exist, or has something that is not understood.
    """
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise AfterimageError(
            f"{path} does not exist: `afterimage init RELATION` creates it"
        ) from None
    except yaml.YAMLError as error:
        raise AfterimageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(said, dict):
        raise AfterimageError(f"{path} must map `tables` to a list, and `defaults` to options")
    _check_known(path, said, ("tables", "defaults", "ignore"), "the file")
    for name, value in said.items():
        _check_kind(path, name, name, value)
    defaults = said.get("defaults") or {}
    base = _entry(path, {**defaults, "relation": "defaults"})
    entries: list[Entry] = []
    for given in said.get("tables") or []:
        options = {"relation": given} if isinstance(given, str) else given
        if not isinstance(options, dict) or not isinstance(options.get("relation"), str):
            raise AfterimageError(f"{path}: each of `tables` needs a relation. Got: {given}")
        whole: dict[str, Any] = {**defaults, **options}
        for name in _JOINED:
            if isinstance(own := options.get(name), dict):
                whole[name] = joined(defaults.get(name) or {}, own)
        entry = _entry(path, whole)
        if any(entry.is_same_table(other) for other in entries):
            raise AfterimageError(f"{path} lists {entry.relation} twice: remove one")
        entries.append(entry)
    return Listing(entries, base, said.get("ignore") or ())


def joined(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that hold for a table: its own, and the defaults beside them.

    Args:
        common: The options of the defaults.
        own: Those of the table; none as a value takes away what the defaults say.
    """
    both = {**common, **own}
    return {
        name: value for name, value in both.items() if value is not None or common.get(name) is None
    }


def _beside(common: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the own options of a table, by those that hold for it."""
    own = {
        name: value for name, value in whole.items() if name not in common or value != common[name]
    }
    return own | {name: None for name in common if name not in whole}


def _entry(path: Path, options: dict[str, Any]) -> Entry:
    relation = options["relation"]
    _check_known(path, options, [one.name for one in fields(Entry)], relation)
    for one in fields(Entry):
        if one.name == "key" and isinstance(options.get("key"), str):
            options["key"] = [options["key"]]
        _check_kind(path, one.name, f"{one.name} of {relation}", options.get(one.name))
    unknown = [kind for kind in options.get("models") or [] if kind not in _ALL]
    if unknown:
        raise AfterimageError(
            f"{path}: models of {relation} must be among {', '.join(_ALL)}."
            f" Got: {', '.join(unknown)}"
        )
    return Entry(**{name: _plain(value) for name, value in options.items() if value is not None})


def _plain(value: Any) -> Any:
    """Return a value with its dates as texts: YAML reads 2000-01-01 as a date, Jinja has none."""
    if isinstance(value, date):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _check_kind(path: Path, name: str, what: str, value: Any) -> None:
    wanted: type = _KINDS.get(name, str)
    fits = value is None or isinstance(value, wanted)
    if fits and wanted is list and name != "tables":
        # YAML reads `no` as false.
        fits = all(isinstance(one, str) for one in value or ())
    if not fits:
        kind = {"dict": "a mapping", "list": "a list of texts", "str": "a text"}[wanted.__name__]
        kind = "a list" if name == "tables" else kind
        raise AfterimageError(f"{path}: {what} must be {kind}. Got: {value}")


def _check_known(path: Path, said: Mapping[str, Any], known: Sequence[str], of: str) -> None:
    unknown = [str(name) for name in said if name not in known]
    if unknown:
        raise AfterimageError(
            f"{path}: {of} has unknown options. Allowed: {', '.join(known)}."
            f" Got: {', '.join(unknown)}"
        )


def added(
    text: str | None, defaults: Entry, entries: Sequence[Entry], questions: Sequence[OpenQuestion]
) -> str:
    """Return the text of a list with further entries at the end of its tables.

    Args:
        text: The file's text; none if it does not exist yet.
        defaults: The file's defaults.
        entries: The further ones. The comment that asked about one of them goes.
        questions: Tables that could not be added; they become comments.

    Raises:
        AfterimageError: They are written in a form to which nothing can be added.
    """
    before = (text if text is not None else _HEAD).rstrip("\n") + "\n"
    before = re.sub(r"^tables: *\[ *\] *$", "tables:", before, flags=re.MULTILINE)
    if not re.search("^tables:", before, re.MULTILINE):
        before += "tables:\n"
    for entry in entries:
        before = re.sub(_comment(entry), "", before)
    further = "".join(entry.text(defaults) for entry in entries)
    # What the rows suggest may be another key now.
    for one in questions:
        before = re.sub(_comment(one.entry), "", before)
    comments = "".join(
        f"  # {one.text}\n{one.entry.text(defaults, is_asked=True)}"
        for one in questions
        if one.entry.table or f"- relation: {_plain_text(one.entry.relation)}\n" not in before
    )
    head, listed, tail = _around_tables(before)
    indent = re.search("^( *)- ", listed, re.MULTILINE)
    new = re.sub("^  ", indent[1] if indent else "  ", further + comments, flags=re.MULTILINE)
    after = head + listed + new + tail
    try:
        old, new = yaml.safe_load(before), yaml.safe_load(after)
        expected = [*(old["tables"] or []), *(yaml.safe_load(further) or [])]
        fits = new == {**old, "tables": expected or None}
    except (yaml.YAMLError, KeyError, TypeError):
        fits = False
    if not fits:
        raise AfterimageError(
            f"the `tables` of {FILE} are no list of lines: add this yourself:\n{further}"
        )
    return after


def _around_tables(text: str) -> tuple[str, str, str]:
    """Return what is before the list of tables, the list, and what is behind it."""
    lines = text.splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines, 1) if line.startswith("tables:"))
    end = start
    for number, line in enumerate(lines[start:], start + 1):
        if line[0] not in " -#\n":
            break
        # A comment that is not indented belongs to what follows.
        if line.strip() and line[0] in " -":
            end = number
    return "".join(lines[:start]), "".join(lines[start:end]), "".join(lines[end:])


def _plain_text(text: str) -> str:
    dumped: str = yaml.safe_dump({"is": text}, allow_unicode=True, width=1 << 20)
    return dumped.removeprefix("is: ").strip()


def _comment(one: Entry) -> str:
    """Return a pattern for the comment that asks about a table."""
    further = r"(?: *#   (?!table: ).*\n)*"
    table = rf"{further} *#   table: {re.escape(_plain_text(one.table))}\n" if one.table else ""
    relation = re.escape(_plain_text(one.relation))
    return rf" *# .*\n *# - relation: {relation}\n{table}{further}? *#   key: \[.*\]\n"
