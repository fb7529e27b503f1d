"""What `dbt docs` shows of the project: a description for each macro and each argument of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import arguments
from command_line import BIN, environment, run
from conftest import ROOT

HEAD = re.compile(
    r"\{%-?\s*(?P<kind>macro|test)\s+(?P<name>\w+)\s*\((?P<arguments>.*?)\)\s*-?%\}", re.DOTALL
)


@pytest.fixture(scope="module")
def macros(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The project's macros that others may call, by name, as dbt knows them."""
    target = tmp_path_factory.mktemp("target")
    run(
        *(BIN / "dbt", "--quiet", "parse", "--target-path", target, "--log-path", target),
        cwd=ROOT,
        env=environment(),
    )
    manifest = json.loads((target / "manifest.json").read_text())
    return {
        macro["name"]: macro
        for macro in manifest["macros"].values()
        if macro["package_name"] == "afterimage" and not macro["name"].startswith("_")
    }


def names_of_arguments(macro: dict[str, Any]) -> list[str]:
    """Return the arguments that a macro's head lists, without their defaults."""
    name = macro["name"]
    for head in HEAD.finditer(macro["macro_sql"]):
        if {"macro": "", "test": "test_"}[head["kind"]] + head["name"] == name:
            without_lists = re.sub(r"\[.*?\]", "", head["arguments"])
            return [one.split("=")[0].strip() for one in without_lists.split(",") if one.strip()]
    return []


def test_every_macro_and_each_of_its_arguments_is_described(
    macros: dict[str, dict[str, Any]],
) -> None:
    assert {"scd2", "test_same_rows", "materialization_history_spark"} <= set(macros)
    for name, macro in macros.items():
        assert macro["description"], name
        described = {one["name"]: one["description"] for one in macro["arguments"]}
        assert list(described) == names_of_arguments(macro), name
        assert all(described.values()), name


def test_a_generic_test_is_in_the_file_of_its_name(
    macros: dict[str, dict[str, Any]],
) -> None:
    """For macros see test_rooms.py."""
    tests = {name for name in macros if name.startswith("test_")}
    assert tests
    for name in tests:
        assert name.removeprefix("test_") == Path(macros[name]["original_file_path"]).stem


def test_the_tables_of_arguments_are_those_of_the_macros() -> None:
    """`python docs/arguments.py` writes them."""
    asked = set()
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text()
        assert arguments.filled(text) == text, page.name
        asked |= set(re.findall(r"<!-- arguments: (\w+) -->", text))
    sources = {path.stem for path in (ROOT / "docs" / "systems").glob("*.md")} - {"dialects"}
    assert sources <= asked
