"""The rooms of the Python side: which may import which, and that the command starts at once."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "python_udfs" / "dbt_afterimage"
# A room, and the rooms that it may import; the modules beside them (errors, text) are for all.
MAY_IMPORT: dict[str, set[str]] = {
    "udfs": set(),
    "runtime": {"udfs"},
    "landing": {"runtime"},
    "scaffold": {"runtime", "udfs"},
    "fleet": {"runtime", "scaffold"},
    "pages": {"runtime"},
    "commands": {"runtime", "landing", "scaffold", "fleet", "pages", "udfs"},
}


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if "dbt_package" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports, at its head or in a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dbt_afterimage"):
            base = (node.module or "").removeprefix("dbt_afterimage").lstrip(".")
            for name in node.names:
                whole = f"{base}.{name.name}".lstrip(".")
                found.add(whole if whole in known else base)
    return found


def test_a_room_imports_only_the_rooms_below_it() -> None:
    known = modules()
    assert {name.split(".")[0] for name in known} >= MAY_IMPORT.keys()
    wrong = {
        (name, imported)
        for name, path in known.items()
        for imported in imports(path, known)
        if (room := name.split(".")[0]) in MAY_IMPORT
        and (other := imported.split(".")[0]) in MAY_IMPORT
        and other not in {room, *MAY_IMPORT[room]}
    }
    assert wrong == set()


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    graph = {name: imports(path, known) for name, path in known.items()}

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        ahead = list(graph[name])
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead += graph.get(one, ())
        return seen

    assert [name for name in graph if name and name in reached(name)] == []


def test_help_comes_at_once_and_without_dbt_or_spark() -> None:
    script = (
        "import sys; from dbt_afterimage.cli import main; code = main(['--help']);"
        " heavy = {'dbt', 'pyspark', 'pandas', 'plotly', 'jinja2'} & set(sys.modules);"
        " assert not heavy, heavy"
    )
    seconds = []
    for _ in range(5):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.monotonic() - started)
    bare = []
    for _ in range(5):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", "import click, yaml"], check=True)
        bare.append(time.monotonic() - started)
    # A ratio, since the machine may be busy.
    assert min(seconds) < 4 * min(bare) + 0.1
