"""The release: what a user gets from `pip install`."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from command_line import environment, run
from conftest import ROOT
from pages import page, typed

# What a wheel is built from.
SOURCES = (
    *("pyproject.toml", "LICENSE", "README.md", "dbt_project.yml"),
    *("macros", "models/docs", "profiles", "python_udfs", "tests/generic"),
)


def copied(folder: Path) -> Path:
    """Copy the sources, since a build leaves files beside them."""
    for name in SOURCES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, target)
    return folder


def built(source: Path, into: Path) -> Path:
    """Build a wheel with the setuptools that is installed; there is no network."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", into)
    run(*pip, "wheel", source, *options, cwd=source)
    return next(into.glob("*.whl"))


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(source, tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_the_python_package_typed_and_the_whole_dbt_package(wheel: Path) -> None:
    held = contents(wheel)
    assert "dbt_afterimage/py.typed" in held
    assert "dbt_afterimage/runtime/log4j2.properties" in held
    assert "dbt_afterimage/dbt_package/dbt_project.yml" in held
    assert "dbt_afterimage/dbt_package/profiles/profiles.yml" in held
    for folder, pattern in (
        ("macros", "**/*.*"),
        ("tests/generic", "*.sql"),
        ("models/docs", "*.md"),
    ):
        files = sorted((ROOT / folder).glob(pattern))
        assert files
        for file in files:
            assert f"dbt_afterimage/dbt_package/{file.relative_to(ROOT).as_posix()}" in held
    # Examples and fixtures are no part of it.
    assert not [name for name in held if "seeds" in name or "/staging/" in name]
    package = ROOT / "python_udfs" / "dbt_afterimage"
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert {f"dbt_afterimage/{name}" for name in modules} <= held
    pages = {path.relative_to(package).as_posix() for path in package.glob("pages/**/*.*")}
    assert len([name for name in pages if name.endswith(".html")]) >= 4
    assert {f"dbt_afterimage/{name}" for name in pages if not name.endswith(".pyc")} <= held


def test_wheel_has_one_version_with_its_dbt_package(wheel: Path) -> None:
    version = re.search(r"^version: (.+)$", (ROOT / "dbt_project.yml").read_text(), re.MULTILINE)
    assert version
    assert wheel.name == f"dbt_afterimage-{version[1]}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"dbt_afterimage-{version[1]}.dist-info/METADATA").decode()
        packaged = archive.read("dbt_afterimage/dbt_package/dbt_project.yml").decode()
    assert f"\nVersion: {version[1]}\n" in metadata
    assert f"\nversion: {version[1]}\n" in packaged
    assert re.fullmatch(r"\d+\.\d+\.\d+", version[1])


def test_source_archive_gives_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    backend = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", backend, cwd=source)
    archive = next(tmp_path.glob("*.tar.gz"))
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    unpacked = next((tmp_path / "unpacked").iterdir())
    assert contents(built(unpacked, tmp_path / "wheel")) == contents(wheel)


def test_the_build_warns_of_nothing(source: Path, tmp_path: Path) -> None:
    """A new pip shows the warnings of setuptools, 35 lines for each folder that is no package."""
    backend = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    said = run(sys.executable, "-c", backend, cwd=source)
    assert "Warning" not in said.stdout + said.stderr


@pytest.mark.minutes
def test_installed_by_the_documented_commands_it_begins_a_project_that_dbt_accepts(
    wheel: Path, tmp_path: Path
) -> None:
    ((line,),) = typed(page("docs/start/as_a_package.md"))
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    env = environment(
        PATH=f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        PIP_FIND_LINKS=str(wheel.parent),
        AFTERIMAGE_WAREHOUSE=str(tmp_path / "warehouse"),
    )
    folder = tmp_path / "crm"
    folder.mkdir()
    run("bash", "-c", line, cwd=folder, env=env, timeout=900)

    begun = run("bash", "-c", "afterimage init", cwd=folder, env=env)
    assert "wrote  packages.yml" in begun.stdout
    assert str(tmp_path / "venv") in (folder / "packages.yml").read_text()
    run("bash", "-c", "dbt deps", cwd=folder, env=env)
    assert (folder / "dbt_packages" / "afterimage" / "macros").is_dir()
    (folder / "models" / "masks.sql").write_text("select decode_change_mask('0B', 0) as ordinals")
    shown = run("bash", "-c", "dbt build", cwd=folder, env=env)
    assert "PASS=1" in shown.stdout
