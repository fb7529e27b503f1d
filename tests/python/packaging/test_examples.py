"""The examples as people take them: a clone of the repository, and models copied out of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner

from conftest import ROOT, Lake, inside
from examples import failures, run_dbt

PROJECT = ROOT / "tests" / "package_project"
SEEDS = {path.stem for path in (ROOT / "seeds").rglob("*.csv")}
FOLDERS = ("staging", "history", "current", "audit")
EXAMPLES = {
    path.stem: path for folder in FOLDERS for path in (ROOT / "models" / folder).rglob("*.sql")
}


def dbt(folder: Path, *arguments: str) -> Any:
    """Run dbt in a folder, in this process, and return its result."""
    with inside(folder):
        outcome = dbtRunner().invoke(["--quiet", *arguments, "--profiles-dir", str(folder)])
    results = getattr(outcome.result, "results", [])
    assert outcome.success, outcome.exception or failures(results)
    return outcome.result


def parsed(folder: Path) -> dict[str, Any]:
    """Parse a project, and return the manifest."""
    dbt(folder, "parse")
    manifest: dict[str, Any] = json.loads((folder / ".afterimage/target/manifest.json").read_text())
    return manifest


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that git tracks."""
    folder = tmp_path / "clone"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, tracked.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without models that has the package installed."""
    folder = tmp_path / "elsewhere"
    (folder / "models").mkdir(parents=True)
    for name in ("dbt_project.yml", "packages.yml", "profiles.yml"):
        shutil.copy2(PROJECT / name, folder / name)
    monkeypatch.setenv("AFTERIMAGE_REPOSITORY", str(ROOT))
    dbt(folder, "deps")
    return folder


def rename_profile(folder: Path, old: str, new: str) -> None:
    for name in ("dbt_project.yml", "profiles.yml"):
        text = (folder / name).read_text()
        renamed = re.sub(rf"^(profile: )?{old}(:?)$", rf"\g<1>{new}\2", text, flags=re.MULTILINE)
        assert renamed != text
        # A file of its own where it was a link.
        (folder / name).unlink()
        (folder / name).write_text(renamed)


@pytest.mark.slow
def test_a_clone_has_its_examples_whatever_its_profile_is_called(clone: Path) -> None:
    rename_profile(clone, "afterimage", "warehouse")
    # A habit of many; there is nothing to install, and nothing may be lost by it.
    dbt(clone, "deps")
    manifest = parsed(clone)
    names = {node["name"] for node in manifest["nodes"].values()}
    assert names >= EXAMPLES.keys() | SEEDS
    assert manifest["unit_tests"]


@pytest.mark.slow
def test_an_example_that_reads_a_source_waits_for_the_seed_that_lands_it(clone: Path) -> None:
    [(name, node)] = [
        (name, node)
        for name, node in parsed(clone)["nodes"].items()
        if node["resource_type"] == "model" and node["sources"]
    ]
    assert name == "model.afterimage_examples.stg_qlik__customers"
    assert "seed.afterimage_examples.qlik_customers__ct" in node["depends_on"]["nodes"]
    # It reads the source alone, as a copy of it does.
    assert "ref(" not in EXAMPLES["stg_qlik__customers"].read_text()


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["shop", "afterimage"])
def test_nothing_of_the_examples_gets_into_a_project_with_the_package(
    elsewhere: Path, profile: str
) -> None:
    if profile != "shop":
        rename_profile(elsewhere, "shop", profile)
    (elsewhere / "models" / "customers_history.sql").write_text("select 1 as id")
    (elsewhere / "seeds").mkdir()
    (elsewhere / "seeds" / "qlik_customers__ct.csv").write_text("id\n1\n")
    manifest = parsed(elsewhere)
    # Names that the examples have too, without their descriptions, columns and tests.
    assert {
        name: (node["description"], node["columns"], node["patch_path"])
        for name, node in manifest["nodes"].items()
    } == {
        "model.shop.customers_history": ("", {}, None),
        "seed.shop.qlik_customers__ct": ("", {}, None),
    }
    assert manifest["sources"] == manifest["disabled"] == manifest["unit_tests"] == {}
    # Which is what the package is for.
    assert "macro.afterimage.qlik_change_table" in manifest["macros"]
    assert "doc.afterimage.change_contract__change_id" in manifest["docs"]


def test_each_example_says_how_it_is_built() -> None:
    assert len(EXAMPLES) > 40
    silent = [name for name, path in EXAMPLES.items() if "materialized=" not in path.read_text()]
    assert silent == []


@pytest.mark.minutes
def test_copied_examples_build_in_another_project(
    elsewhere: Path, lake: Lake, tmp_path: Path
) -> None:
    # What a replication task would land, and what must come out of some of it.
    chain = ("stg_qlik__customers", "customers_history", "customers_current", "customers_audit")
    seeds = [name for name in SEEDS if not name.startswith("expected_")]
    expected = [f"expected_{name}" for name in chain]
    assert failures(run_dbt(tmp_path, "seed", "--select", *seeds, *expected)) == []

    def renamed(text: str) -> str:
        text = text.replace("source('raw', 'customers__ct')", "ref('qlik_customers__ct')")
        return re.sub(
            r"ref\('(\w+)'\)",
            lambda found: f"source('landed', '{found[1]}')" if found[1] in SEEDS else found[0],
            text,
        )

    for folder in FOLDERS:
        for path in (ROOT / "models" / folder).rglob("*.*"):
            if path.suffix == ".sql" or (path.suffix == ".yml" and "_src_" not in path.name):
                copy = elsewhere / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(renamed(path.read_text()))
    tables = [{"name": name} for name in sorted(SEEDS)]
    sources = {"sources": [{"name": "landed", "schema": "afterimage", "tables": tables}]}
    (elsewhere / "models" / "sources.yml").write_text(yaml.safe_dump(sources))

    results = dbt(elsewhere, "run").results
    assert {result.node.name for result in results} == EXAMPLES.keys()
    assert {str(result.node.schema) for result in results} == {"shop"}
    tests = dbt(elsewhere, "test", "--select", *chain).results
    # Among them that the rows are those of the expected seeds.
    assert {test.node.test_metadata.name for test in tests} >= {
        *("same_rows", "every_row_accounted_for", "versions_chain", "accepted_values")
    }
    assert lake.rows("select count(*) as n from shop.customers_history where id = 5") == [{"n": 3}]
