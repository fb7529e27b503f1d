"""The dbt sources of files that Spark reads where they are, in a file that people edit too."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dbt_afterimage.errors import AfterimageError

_HEAD = "# Landed files that Spark reads where they are, as `afterimage land` found them.\n"


@dataclass(frozen=True)
class Entry:
    """A table of a source.

    Attributes:
        format: What stands in the place of a schema, such as `parquet`.
        table: Its name.
        identifier: The path, as it is in SQL between backticks.
    """

    format: str
    table: str
    identifier: str


def write(path: Path, source: str, entries: Sequence[Entry]) -> None:
    """Add tables to the file of a source; all else in it stays as it is, to the byte.

    Args:
        path: The file, which need not be there yet.
        source: The source's name.
        entries: Tables that the file does not have.

    Raises:
        AfterimageError: The file cannot be written, or is written so that nothing can be added
            safely. The text says what to add.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else _HEAD + "sources:\n"
        for entry in sorted(entries, key=lambda one: (one.format, one.table)):
            text = _with(path, text, source, entry)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever reads the file meanwhile, or is killed, finds it whole.
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".land-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        os.chmod(draft, mode)
        os.replace(draft, path)
    except OSError as error:
        raise AfterimageError(f"cannot write {path}: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _with(path: Path, text: str, source: str, entry: Entry) -> str:
    """Return the text with one more table, as lines in between those that are there."""
    table = {"name": entry.table, "identifier": _template(entry.identifier)}
    block = {
        "name": source,
        "schema": entry.format,
        "quoting": {"identifier": True},
        "tables": [table],
    }
    refusal = AfterimageError(
        f"{path} is written so that nothing can be added to it safely;"
        f" add to its sources: {json.dumps(block, ensure_ascii=False)}"
    )
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        before = yaml.safe_load(text)
    except yaml.YAMLError:
        raise refusal from None
    if not isinstance(before, dict) or not isinstance(before.get("sources") or [], list):
        raise refusal
    sources = before.get("sources") or []
    lines = [
        f"      - name: {entry.table}",
        f"        identifier: {json.dumps(table['identifier'], ensure_ascii=False)}",
    ]
    number = next((n for n, one in enumerate(sources) if _fits(one, block)), None)
    expected: Any
    if number is None:
        node = _value(tree, "sources")
        place = _place(text, node, len(sources)) if sources else _after_key(text, tree, "sources")
        head = (f"  - name: {source}", f"    schema: {entry.format}", "    quoting:")
        lines = [*head, "      identifier: true", "    tables:", *lines]
        column = node.value[0].start_mark.column - 2 if sources else 2
        expected = [*sources, block]
    else:
        node = _value(_value(tree, "sources").value[number], "tables")
        tables = sources[number]["tables"]
        index = sum(str(one.get("name")) < entry.table for one in tables)
        place = _place(text, node, index)
        column = node.value[0].start_mark.column - 2
        after = [*tables[:index], table, *tables[index:]]
        expected = [
            {**one, "tables": after} if n == number else one for n, one in enumerate(sources)
        ]
    if place is None:
        raise refusal
    # Indented as the items that are there.
    own = len(lines[0]) - len(lines[0].lstrip())
    shifted = [" " * max(column, 0) + line[own:] for line in lines]
    there = text.splitlines(keepends=True)
    if there and not there[-1].endswith("\n"):
        there[-1] += "\n"
    there[place:place] = [line + "\n" for line in shifted]
    added = "".join(there)
    try:
        after_all = yaml.safe_load(added)
    except yaml.YAMLError:
        raise refusal from None
    if after_all != {**before, "sources": expected}:
        raise refusal
    return added


def _template(text: str) -> str:
    """Return the Jinja that gives a text; dbt reads each identifier as Jinja."""
    is_plain = not any(sign in text for sign in ("{{", "{%", "{#"))
    return text if is_plain else f"{{{{ {json.dumps(text)} }}}}"


def _fits(block: Any, wanted: dict[str, Any]) -> bool:
    return (
        isinstance(block, dict)
        and all(block.get(key) == wanted[key] for key in ("name", "schema", "quoting"))
        and isinstance(block.get("tables"), list)
        and all(isinstance(one, dict) for one in block["tables"])
        and bool(block["tables"])
    )


def _value(node: Any, key: str) -> Any:
    return next((value for name, value in node.value if name.value == key), None)


def _place(text: str, node: Any, index: int) -> int | None:
    """Return before which line an item of a list comes; none where the list is in brackets."""
    if node.flow_style:
        return None
    if index == 0:
        line: int = node.value[0].start_mark.line
        return line
    # An item ends where the next begins; comments in between are that one's.
    line = _last_line(node.value[index - 1])
    return line + 1


def _last_line(node: Any) -> int:
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        line: int = node.end_mark.line
        # A block of text ends at the beginning of the line after it.
        return line - 1 if node.end_mark.column == 0 else line
    last = node.value[-1]
    return _last_line(last[1] if isinstance(last, tuple) else last)


def _after_key(text: str, tree: Any, key: str) -> int | None:
    found = next((name for name, _ in tree.value if name.value == key), None)
    if found is None:
        return None
    line: int = found.start_mark.line
    return line + 1
