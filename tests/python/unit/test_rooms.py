"""A macro is in the file of its name, and a dialect is named only in its own room."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from conftest import ROOT

MACROS = ROOT / "macros"
SYSTEMS = {"qlik", "netiq", "db2", "openedge", "sqlserver", "debezium", "dms", "dated_copies"}
COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
DEFINED = re.compile(r"^\{%-? (?:macro|materialization) (\w+)", re.MULTILINE)
# One override of dbt-spark in two macros.
TOGETHER = {"spark__create_csv_table": "seed", "spark__load_csv_rows": "seed"}


def files() -> list[Path]:
    found = sorted(MACROS.rglob("*.sql"))
    assert len(found) > 100
    return found


def test_a_macro_that_other_files_use_has_a_file_of_its_name() -> None:
    home = {name: file for file in files() for name in DEFINED.findall(file.read_text())}
    users = defaultdict(set)
    for file in files():
        for name in re.findall(r"afterimage\.(\w+)", COMMENT.sub("", file.read_text())):
            users[name].add(file)
    misplaced = {
        name: str(file.relative_to(MACROS))
        for name, file in home.items()
        if (not name.startswith("_") or users[name] - {file})
        and file.stem != TOGETHER.get(name, name)
    }
    assert misplaced == {}
    unused = {name for name in home if name.startswith("_") and not users[name]}
    called_elsewhere = {
        name
        for file in [*ROOT.glob("tests/**/*"), *ROOT.glob("python_udfs/**/*.py")]
        if file.suffix in {".py", ".sql"}
        for name in unused
        if name in file.read_text()
    }
    assert unused == called_elsewhere


def test_a_dialect_is_named_in_its_room_only() -> None:
    named: set[tuple[str, str]] = set()
    for file in files():
        room = file.relative_to(MACROS).parts[0]
        text = COMMENT.sub("", file.read_text()).lower()
        named |= {(file.name, system) for system in SYSTEMS - {room} if system in text}
    assert named == set()
