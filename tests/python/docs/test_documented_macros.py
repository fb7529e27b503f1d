"""A macro that the docs name exists."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import ROOT

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("models/**/*.md"),
    *ROOT.glob("tests/*/*.md"),
    *ROOT.glob(".github/**/*.md"),
]
DEFINED = re.compile(r"^\{%-? (?:macro|test|materialization) (\w+)", re.MULTILINE)
# A macro is named with a call, with a system's prefix or, if it is private, with an underscore.
CALLED = re.compile(r"\bafterimage\.(\w+)\(")
OF_A_SYSTEM = re.compile(r"\b((?:qlik|netiq|db2|openedge|sqlserver|debezium|dms|dated)_\w+)")
PRIVATE = re.compile(r"(?<![\w.'])(_[a-z]\w+)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w./*{}-]*\.(?:sql|py|md|yml)\b")
# Other names that look like ours: a topic of the registry; columns of other tools or of a recipe.
OTHERS = {
    "docs/guides/intake.md": {"_metadata"},
    "docs/operations/troubleshooting.md": {"_deleted", "_file", "_partition", "_pos", "_spec_id"},
    "docs/systems/debezium_messages.md": {"_schemas", "_id", "_cdc"},
    "docs/systems/dms_changes.md": {
        *("_ab_cdc_", "_ab_cdc_cursor", "_ab_cdc_deleted_at", "_ab_cdc_lsn", "_ab_cdc_updated_at"),
        "_commit_version",
        *("dms_file", "dms_row", "dms_time"),
    },
    "docs/systems/qlik_change_table.md": {"_rescued_data"},
    "docs/start/from_kafka.md": {"_schemas"},
}


def test_every_macro_that_the_docs_name_exists() -> None:
    macros = {
        name
        for folder in (ROOT / "macros", ROOT / "tests" / "generic")
        for file in folder.rglob("*.sql")
        for name in DEFINED.findall(file.read_text())
    }
    unknown = {
        (page, name)
        for page, names in {str(p.relative_to(ROOT)): named(p) for p in PAGES}.items()
        for name in names - macros - OTHERS.get(page, set())
    }
    assert unknown == set()


def named(page: Path) -> set[str]:
    """Return the macros that a page names."""
    text = page.read_text()
    names = set(CALLED.findall(text))
    for code in CODE.findall(text):
        without_paths = PATH.sub("", code)
        names |= {*PRIVATE.findall(without_paths), *OF_A_SYSTEM.findall(without_paths)}
    return names


def test_the_names_are_found() -> None:
    """The test above would pass on pages in which it finds none."""
    assert {"_intake", "_finish", "qlik_change_table"} <= {n for p in PAGES for n in named(p)}
