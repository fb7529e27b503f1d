"""The rooms of the tests: no test module imports another, and those in `unit` need no Spark."""

from __future__ import annotations

import ast

from conftest import ROOT

TESTS = ROOT / "tests" / "python"
MODULES = {path.stem: path for path in TESTS.rglob("test_*.py")}
NEED_SPARK = {"spark", "lake", "make_project"}


def used(module: str) -> set[str]:
    """Return the modules that a test module imports, and what its functions ask for."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("usefixtures"):
            found |= {ast.literal_eval(name) for name in node.args}
    return found


def test_no_test_module_imports_another() -> None:
    assert len(MODULES) > 50
    assert {name for name in MODULES if used(name) & MODULES.keys()} == set()


def test_unit_tests_need_no_spark() -> None:
    unit = {name for name, path in MODULES.items() if path.parent.name == "unit"}
    assert {name for name in unit if used(name) & NEED_SPARK} == set()
