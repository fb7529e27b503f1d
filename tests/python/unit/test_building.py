"""What `afterimage up` tells dbt to build: dbt parses and selects, and Spark is not asked."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
import yaml
from click.testing import CliRunner

from conftest import Project
from dbt_afterimage.cli import main
from dbt_afterimage.commands import health, init, up
from dbt_afterimage.commands.news import _of_up, _unread
from dbt_afterimage.commands.options import parse_csv, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import building, news, record
from dbt_afterimage.fleet.news import Reader
from dbt_afterimage.runtime import files
from dbt_afterimage.runtime.project import Project as Opened
from dbt_afterimage.runtime.project import Where, shown_name
from dbt_afterimage.scaffold.writer import Writer

STAGING = (
    "{{ config(materialized='change_stream') }}"
    " {{ qlik_change_table(source('raw', 'one'), unique_key=['id']) }}"
)
# Folders, whose names mean something in a selector of dbt.
ODD = ("CRM changes", "a,b", "a+b", "what? [1]", "x:y", "Größe")

TOLD = """
unit_tests:
  - name: told
    model: below_0
    given: [{input: ref('stg_0'), rows: [{id: 1}]}]
    expect: {rows: [{id: 1}]}
"""
UNIT_TEST = "unit_test.afterimage.below_0.told"


class Shop:
    """A project whose models stand in folders with odd names."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder)
        self.project.file(
            "models/sources.yml", "sources: [{name: raw, schema: raw, tables: [{name: one}]}]"
        )
        # The name of the one is that of the other's folder.
        self.project.file("models/near.sql", STAGING)
        self.project.file("models/near/far.sql", STAGING)
        for number, name in enumerate(ODD):
            self.project.file(f"models/{name}/stg_{number}.sql", STAGING)
            self.project.file(
                f"models/{name}/below_{number}.sql", f"select * from {{{{ ref('stg_{number}') }}}}"
            )

    def open(self) -> Opened:
        profiles = str(self.project.folder / "profiles")
        return Opened(Where(project_dir=str(self.project.folder), profiles_dir=profiles))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def opened(shop: Shop) -> Iterator[Opened]:
    """The project, of which `up` keeps nothing."""
    opened = shop.open()
    yield opened
    kept = record.of(opened).folder
    for path in kept.glob("*.*"):
        path.unlink()


def ids(*names: str) -> set[str]:
    return {f"model.afterimage.{name}" for name in names}


ALL = ids("near", "far", *(f"{kind}_{n}" for kind in ("stg", "below") for n in range(len(ODD))))


def dbt_builds(
    monkeypatch: pytest.MonkeyPatch,
    *,
    leaves_out: Collection[str] = (),
    fails: Collection[str] = (),
) -> list[set[str]]:
    """Let dbt select what it is told, and build nothing; return what it selects each time."""
    runs: list[set[str]] = []
    run = Opened.run

    def pretended(
        self: Opened,
        *command: str,
        log: str = "none",
        ended: Callable[[str], None] | None = None,
    ) -> Any:
        if ended is None:
            return run(self, *command, log=log)
        selected = self.selected(*command[command.index("--select") + 1 :])
        runs.append({key for key in selected if not key.startswith("source.")})
        for key in runs[-1]:
            ended(key)
        results = [
            SimpleNamespace(
                node=SimpleNamespace(unique_id=key), status="fail" if key in fails else "success"
            )
            for key in runs[-1] - set(leaves_out)
        ]
        return SimpleNamespace(results=results)

    monkeypatch.setattr(Opened, "run", pretended)
    monkeypatch.setattr(building, "_version", lambda project, key: None)
    return runs


def test_models_in_folders_with_odd_names_are_built(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = dbt_builds(monkeypatch)
    kept = record.of(opened)
    # There is no record, so everything is built.
    found = building.work(opened, kept, {}, everything=False)
    assert found.nodes == ALL
    building.build(opened, kept, found)
    assert runs == [ALL]
    assert kept.pending == []
    # And each of them alone.
    for number in range(len(ODD)):
        kept.pending = [f"model.afterimage.stg_{number}"]
        found = building.work(opened, kept, {}, everything=False)
        assert found.nodes == ids(f"stg_{number}", f"below_{number}")
        assert found.left_alone == len(ALL) - 2
        building.build(opened, kept, found)
        assert runs[-1] == found.nodes
        assert kept.pending == []


def test_a_model_that_dbt_has_passed_over_is_an_error(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dbt_builds(monkeypatch, leaves_out=ids("below_1", "stg_0"))
    kept = record.of(opened)
    found = building.work(opened, kept, {}, everything=True)
    with pytest.raises(AfterimageError, match="has not built below_1, stg_0"):
        building.build(opened, kept, found)
    # The next run takes them up.
    assert set(record.of(opened).pending) == ids("below_1", "stg_0")


def test_a_unit_test_that_is_left_out_on_purpose_is_not_pending(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `DBT_EXCLUDE_RESOURCE_TYPES`: else its model would be built in each run."""
    path = shop.project.folder / "models" / "unit_tests.yml"
    path.write_text(TOLD)
    try:
        project = shop.open()
        dbt_builds(monkeypatch, leaves_out={UNIT_TEST})
        kept = record.of(project)
        building.build(project, kept, building.work(project, kept, {}, everything=True))
        assert kept.pending == []
        assert not building.work(project, kept, {}, everything=False).nodes
    finally:
        path.unlink()


def test_what_dbt_selects_besides_and_fails_is_built_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    dbt_builds(monkeypatch)
    kept = record.of(opened)
    building.build(opened, kept, building.work(opened, kept, {}, everything=True))
    kept.pending = [*ids("near")]
    runs = dbt_builds(monkeypatch, fails=ids("far"))
    found = building.work(opened, kept, {}, everything=False)
    assert found.built == ("near",)
    building.build(opened, kept, found)
    assert runs == [ids("near", "far")]
    assert set(record.of(opened).pending) == ids("far")


def test_the_version_of_a_staging_table_is_that_of_its_own_end(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While `up` was still at work another command has built the table, and not what is below."""
    dbt_builds(monkeypatch)
    run, present = Opened.run, ["5"]
    monkeypatch.setattr(building, "_version", lambda project, key: present[0])

    def overtaken(self: Opened, *command: str, **more: Any) -> Any:
        result = run(self, *command, **more)
        if command[0] == "build":
            present[0] = "6"
        return result

    monkeypatch.setattr(Opened, "run", overtaken)
    kept = record.of(opened)
    building.build(opened, kept, building.work(opened, kept, {}, everything=True))
    [key] = ids("stg_0")
    for version, nodes in (("5", set()), ("6", ids("stg_0", "below_0"))):
        readers = {key: Reader(opened.manifest.nodes[key], version=version)}
        assert building.work(opened, kept, readers, everything=False).nodes == nodes


def test_a_table_is_looked_at_again_if_a_model_behind_it_was_edited(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout may have put back what `init` wrote for a target with another table format."""
    dbt_builds(monkeypatch)
    kept = record.of(opened)
    building.build(opened, kept, building.work(opened, kept, {}, everything=True))
    kept.versions = dict.fromkeys(ids("near", "far", *(f"stg_{n}" for n in range(len(ODD)))), "5")

    def left_alone() -> set[str]:
        project = shop.open()
        nodes = project.manifest.nodes
        readers = {key: Reader(nodes[key], version="5") for key in kept.versions}
        return up._settled(project, kept, readers)

    assert left_alone() == {"raw.one"}
    for name in ("stg_0", "below_0"):
        path = shop.project.folder / "models" / ODD[0] / f"{name}.sql"
        text = path.read_text()
        path.write_text(files.sealed(path.name, f"{text} -- for another target"))
        assert left_alone() == set()
        # What a user has edited, `init` leaves alone.
        path.write_text(f"{text} -- edited")
        assert left_alone() == {"raw.one"}
        path.write_text(text)
        assert left_alone() == {"raw.one"}


def commands_of(shop: Shop, monkeypatch: pytest.MonkeyPatch, *quiet: str, of: str) -> list[str]:
    """Let commands know what raw tables say without Spark; return the options of the project.

    Args:
        shop: The project.
        monkeypatch: Puts that in their place.
        *quiet: The names of staging models whose raw tables have nothing new.
        of: The name of the one that has news.
    """

    def look(project: Opened, *_: Any) -> dict[str, Reader]:
        nodes = {key: project.manifest.nodes[key] for key in ids(of, *quiet)}
        readers = {key: Reader(node, version="5") for key, node in nodes.items()}
        [key] = ids(of)
        readers[key].news = {"raw.one": news.NEVER_BUILT}
        return readers

    monkeypatch.setattr(news, "look", look)
    monkeypatch.setattr(up, "_readers", look)
    monkeypatch.setattr(init, "add", lambda *_, **__: ([], 0))
    for command in ("news", "up"):
        name = f"dbt_afterimage.commands.{command}.Project"
        monkeypatch.setattr(name, lambda where, **_: Opened(where))
    folder = shop.project.folder
    return ["--project-dir", str(folder), "--profiles-dir", str(folder / "profiles")]


def test_news_are_those_above_what_is_selected(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history reads no raw table itself. And a selector that is wrong would say `nothing`."""
    dbt_builds(monkeypatch)
    kept = record.of(opened)
    building.build(opened, kept, building.work(opened, kept, {}, everything=True))
    kept.versions = dict.fromkeys(ids("stg_0", "stg_1"), "5")
    kept.keep(opened)
    where = commands_of(shop, monkeypatch, "stg_1", of="stg_0")
    for selector, code in (("below_0", 0), ("stg_0+", 0), ("below_1", 3), ("stg_1", 3)):
        assert main(["news", *where, "--select", selector]) == code
    # One that is right does not hide another one.
    capsys.readouterr()
    assert main(["news", *where, "--select", "below_0", "--select", "belo_1"]) == 1
    said = capsys.readouterr().err
    assert "--select must select nodes of this project" in said
    assert said.endswith("Got: belo_1\n")
    # A source reads nothing, and has no news of its own.
    assert main(["news", *where, "--select", "source:raw.one+"]) == 0
    assert main(["news", *where, "--select", "source:raw.one"]) == 1
    said = capsys.readouterr().err
    assert "--select must select models that are built from raw tables" in said
    assert said.endswith("Got: source:raw.one\n")


def test_without_a_record_nobody_knows_what_failed(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history may lack rows that staging has."""
    where = commands_of(shop, monkeypatch, "stg_1", of="stg_0")
    said = "`afterimage up` has not run here, so nobody knows whether the last build failed\n"
    for selected in ([], ["--select", "stg_1+"]):
        with monkeypatch.context() as patched:
            nodes = opened.manifest.nodes
            quiet = {key: Reader(nodes[key], version="5") for key in ids("stg_1")}
            patched.setattr(news, "look", lambda project, quiet=quiet: quiet)
            assert main(["news", *where, *selected]) == 3
            assert capsys.readouterr().out.endswith(said)
    # What has landed says enough.
    assert main(["news", *where]) == 0
    assert said not in capsys.readouterr().out


def test_what_is_left_out_of_a_run_is_still_to_be_built(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a big table with a schedule of its own."""
    runs = dbt_builds(monkeypatch)
    kept, big, other = record.of(opened), ids("stg_0", "below_0"), ids("stg_1", "below_1")

    def work(*exclude: str, of: Collection[str] = (), everything: bool = False) -> set[str]:
        readers = {key: Reader(opened.manifest.nodes[key], reason="?") for key in of}
        found = building.work(opened, kept, readers, everything=everything, exclude=exclude)
        if found.nodes:
            building.build(opened, kept, found)
            assert runs[-1] == found.nodes
        return set(found.nodes)

    assert work("stg_0+", everything=True) == ALL - big
    assert set(record.of(opened).pending) == big
    assert work() == big
    assert work("stg_0+", of=ids("stg_0", "stg_1")) == other
    assert set(record.of(opened).pending) == big
    assert work("stg_1+") == big
    assert work() == set()
    with pytest.raises(AfterimageError, match=r"--exclude must select .* Got: stg_0\+\+"):
        work("stg_1+", "stg_0++")
    # There is nothing else to build, and this is not forgotten.
    where = commands_of(shop, monkeypatch, of="stg_0")
    assert main(["up", *where, "--exclude", "stg_0+"]) == 0
    said = f"Nothing new in {len(ALL)} models, or they are left out.\n"
    assert capsys.readouterr().out.endswith(said)
    assert set(record.of(opened).pending) == big
    # Nor is the big table read for the page, whose figures are not known while it is pending.
    pages: list[set[str]] = []

    def write(project: Opened, nodes: list[Any], *_: object, **__: object) -> int:
        pages.append({str(node.name) for node in nodes})
        return 0

    monkeypatch.setattr(health, "write", write)
    where = commands_of(shop, monkeypatch, "stg_0", of="stg_1")
    assert main(["up", *where, "--exclude", "stg_0+"]) == 0
    assert pages == [{"near", "far", *(f"stg_{number}" for number in range(1, len(ODD)))}]


def test_a_test_that_is_left_out_with_one_of_its_models_is_still_to_be_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt leaves it out of the build, whatever the project says about indirect selection."""
    monkeypatch.setenv("DBT_INDIRECT_SELECTION", "cautious")
    monkeypatch.chdir(shop.project.folder)
    both = shop.project.folder / "tests/both.sql"
    both.parent.mkdir(exist_ok=True)
    both.write_text("select * from {{ ref('stg_0') }} union all select * from {{ ref('stg_1') }}")
    opened = shop.open()
    kept = record.of(opened)
    try:
        found = building.work(opened, kept, {}, everything=True, exclude=["stg_0", "below_0"])
        assert found.nodes == ALL - ids("stg_0", "below_0")
        assert found.left_out == {*ids("stg_0", "below_0"), "test.afterimage.both"}
    finally:
        both.unlink()


def test_what_is_pending_may_have_been_left_out(opened: Opened) -> None:
    kept = record.of(opened)
    kept.keep(opened)
    kept.pending = sorted(ids("stg_0", "below_0"))
    kept.versions = dict.fromkeys(ids("stg_0"), "5")
    [key] = ids("stg_0")
    readers = {key: Reader(opened.manifest.nodes[key], version="5")}
    building.note_left_over(opened, kept, readers)
    said = "2 models and tests failed last time, were left out, or were not reached"
    assert readers[key].reason == said


def test_an_edit_that_dbt_does_not_count_is_no_error_where_warnings_are(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt warns if it selects nothing, and nothing is modified."""
    dbt_builds(monkeypatch)
    kept = record.of(opened)
    building.build(opened, kept, building.work(opened, kept, {}, everything=True))
    path = shop.project.folder / "models" / "about.yml"
    path.write_text("models: [{name: below_0, description: What it is}]\n")
    warnings = ["NoNodesForSelectionCriteria", "NoNodesSelected"]
    monkeypatch.setenv("DBT_WARN_ERROR_OPTIONS", json.dumps({"error": warnings}))
    try:
        project = shop.open()
        assert kept.texts != record.texts_of(project)
        assert building.edited(project, kept) == set()
        # What dbt does not understand is an error all the same.
        with pytest.raises(AfterimageError, match="dbt ls failed"):
            project.selected("no_method:stg_0")
    finally:
        path.unlink()


def test_a_variable_of_the_environment_in_dbt_project_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt's `state:modified` compares what `dbt_project.yml` says, not what becomes of it."""
    project = Project(tmp_path)
    file = tmp_path / "dbt_project.yml"
    said = yaml.safe_load(file.read_text())
    said.setdefault("models", {})["+meta"] = {"loaded": "{{ env_var('LOADED') }}"}
    file.unlink()
    file.write_text(yaml.safe_dump(said))
    project.file("models/one.sql", "select 1 as id")

    def settings(loaded: str, target: str | None = None) -> str:
        monkeypatch.setenv("LOADED", loaded)
        profiles = str(tmp_path / "profiles")
        where = Where(project_dir=str(tmp_path), profiles_dir=profiles, target=target)
        return record.settings_of(Opened(where))

    before = settings("2020-01-01")
    assert settings("2021-01-01") != before
    assert settings("2020-01-01") == before
    # A scheduler names the target; a person leaves it out, as it is the default.
    assert settings("2020-01-01", os.environ.get("DBT_TARGET", "local")) == before


def test_a_key_on_a_command_line_is_a_line_of_csv() -> None:
    assert list(parse_csv('"Bob, Inc",eu')) == ["Bob, Inc", "eu"]
    with pytest.raises(AfterimageError, match="each of its own quotes twice"):
        parse_csv('"Bob" Inc,eu')


def test_the_project_is_the_one_of_dbt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dbt goes by its variable where no option names a folder."""

    @click.command()
    @where_options
    def command(where: Where) -> None:
        print(where.folder().resolve())

    def found(*arguments: str) -> str:
        return CliRunner().invoke(command, arguments, catch_exceptions=False).output.strip()

    for name in ("shop", "other"):
        (tmp_path / name / "models").mkdir(parents=True)
        (tmp_path / name / "dbt_project.yml").touch()
    monkeypatch.chdir(tmp_path / "other" / "models")
    assert found() == str(tmp_path / "other")
    monkeypatch.setenv("DBT_PROJECT_DIR", "../../shop")
    assert found() == str(tmp_path / "shop")
    assert found("--project-dir", str(tmp_path / "other")) == str(tmp_path / "other")


def test_up_begins_no_project_in_a_wrong_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a scheduler has left it, or below a project."""

    def begin(folder: Path) -> None:
        raise AfterimageError(f"begun in {folder}")

    monkeypatch.setattr(init, "begin", begin)

    def said(folder: str, *paths: str) -> str:
        monkeypatch.chdir(tmp_path / folder)
        assert main(["up", *paths]) == 1
        return capsys.readouterr().err

    for folder in ("new/.venv", "full", "shop/models"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "full" / "up.log").touch()
    (tmp_path / "shop" / "dbt_project.yml").touch()
    assert f"begun in {tmp_path / 'new'}" in said("new")
    assert "full has no dbt_project.yml, and is not empty: run this in your" in said("full")
    assert f"begun in {tmp_path / 'full'}" in said("full", "landing/orders")
    for paths in ([], ["landing/orders"]):
        assert f"and {tmp_path / 'shop'} has: run this there" in said("shop/models", *paths)


def test_each_version_of_a_model_is_named_by_its_table(tmp_path: Path) -> None:
    """All versions have one name. A table may have that name too."""
    project = Project(tmp_path)
    both = [{"v": 1}, {"v": 2}]
    bare = [{"v": 1}, {"v": 2, "config": {"alias": "bare"}}]
    models = [{"name": "people", "versions": both}, {"name": "bare", "versions": bare}]
    project.file("models/models.yml", json.dumps({"models": models}))
    for name in ("people_v1", "people_v2", "bare_v1", "bare_v2"):
        project.file(f"models/{name}.sql", "select 1 as id")
    project.file("models/other.sql", "{{ config(alias='others') }} select 1 as id")
    opened = Opened(Where(project_dir=str(tmp_path), profiles_dir=str(tmp_path / "profiles")))
    for name, found, shown in (
        ("people_v1", "people.v1", "people_v1"),
        ("people_v2", "people.v2", "people_v2"),
        ("bare_v1", "bare.v1", "bare_v1"),
        ("model.afterimage.bare.v2", "bare.v2", "bare"),
        ("other", "other", "other"),
        ("others", "other", "other"),
    ):
        node = opened.model(name)
        assert (node.unique_id, shown_name(node)) == (f"model.afterimage.{found}", shown)
    for name, said in (
        ("people", "several models have the name people; give one of these: people_v1, people_v2"),
        ("bare", "one of these: model.afterimage.bare.v1, model.afterimage.bare.v2"),
        ("people_v3", "has no model people_v3; did you mean people_v"),
    ):
        with pytest.raises(AfterimageError, match=re.escape(said)):
            opened.model(name)


def test_up_without_any_change_table_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that a scheduler finds in a wrong folder that is empty."""
    project = Project(tmp_path)
    # Spark is not wanted here.
    monkeypatch.setattr(up, "Project", lambda where, asks: Opened(where))
    monkeypatch.setattr(up, "_readers", lambda *_: {})
    questions = [0]
    monkeypatch.setattr(init, "add", lambda *_, **__: ([], questions[0]))
    where = ["--project-dir", str(project.folder)]
    where += ["--profiles-dir", str(project.folder / "profiles")]
    assert main(["up", *where]) == 1
    assert f"no change table was found, and no model in {tmp_path} reads" in capsys.readouterr().err
    questions[0] = 1
    assert main(["up", *where]) == 1
    assert "Answer the questions in afterimage.yml" in capsys.readouterr().out


def test_paths_that_cannot_be_landed_keep_up_from_nothing_else(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "_SUCCESS").touch()
    where = ["--project-dir", str(shop.project.folder)]
    where += ["--profiles-dir", str(shop.project.folder / "profiles")]
    taken_in: list[Opened] = []

    def take_in(project: Opened, *_: Any, **__: Any) -> int:
        taken_in.append(project)
        return 0

    monkeypatch.setattr(up, "_take_in", take_in)
    # Spark is not wanted here.
    monkeypatch.setattr(up, "Project", lambda where, asks: Opened(where))
    for paths, said in (
        (("empty", "absent"), ("empty has no files yet", "absent does not exist")),
        # All that a shell has found for `landing/*`.
        (("_SUCCESS",), ("_SUCCESS is hidden",)),
    ):
        taken_in.clear()
        given = [str(tmp_path / path) for path in paths]
        assert main(["up", *given, *where]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(said)
        for line, text in zip(lines, said, strict=True):
            assert line.startswith("not landed: ")
            assert text in line
        assert len(taken_in) == 1
        # Nothing else to do, so it is an error.
        assert main(["land", *given, *where]) == 1
        assert capsys.readouterr().err.count("\nafterimage: ") + 1 >= len(said)


def test_a_model_that_calls_a_source_macro_is_staging_however_it_is_stored(shop: Shop) -> None:
    bodies = {
        "kept": "{{ config(materialized='incremental') }} "
        "{{ qlik_change_table(source('raw', 'one'), unique_key=['id']) }}",
        "copied": "{{ config(materialized='table') }} "
        "{{ dated_copies(source('raw', 'one'), ['id'], copy_column='day') }}",
        "inlined": "{{ config(materialized='ephemeral') }} "
        "{{ qlik_change_table(source('raw', 'one'), unique_key=['id']) }}",
        "after_kept": "select * from {{ ref('kept') }}",
        "after_inlined": "select * from {{ ref('inlined') }}",
        # These are the affair of `dbt run`.
        "lone": "select * from {{ source('raw', 'one') }}",
        "after_lone": "select * from {{ ref('lone') }}",
    }
    for name, body in bodies.items():
        shop.project.file(f"models/{name}.sql", body)
    try:
        opened = shop.open()
        found = building.work(opened, record.of(opened), {}, everything=True)
        more = ids("kept", "copied", "after_kept", "after_inlined")
        assert found.nodes == ALL | more
        # The health page has a line for each that has a table.
        assert more & set(found.staging) == ids("kept", "copied")
        # `news` counts the same.
        assert more <= {*_of_up(opened)}
        assert not {*_of_up(opened)} & ids("lone", "after_lone")
    finally:
        for name in bodies:
            (shop.project.folder / "models" / f"{name}.sql").unlink()


def test_a_unit_test_that_was_edited_is_run_with_its_model(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dbt build` passes over one whose model is not selected."""
    dbt_builds(monkeypatch)
    path = shop.project.folder / "models" / "unit_tests.yml"
    try:
        for text, nodes in (
            (TOLD, ALL | {UNIT_TEST}),
            (TOLD.replace("1", "2"), ids("below_0") | {UNIT_TEST}),
        ):
            path.write_text(text)
            project = shop.open()
            kept = record.of(project)
            found = building.work(project, kept, {}, everything=False)
            assert found.nodes == nodes
            building.build(project, kept, found)
            assert kept.pending == []
    finally:
        path.unlink()


def test_a_project_may_have_seeds(shop: Shop) -> None:
    """To dbt a seed depends on macros alone."""
    seeds = shop.project.folder / "seeds"
    below = shop.project.folder / "models" / "with_codes.sql"
    (seeds / "codes.csv").write_text("id,text\n1,x\n")
    below.write_text("select * from {{ ref('stg_0') }} cross join {{ ref('codes') }}")
    try:
        opened = shop.open()
        found = building.work(opened, record.of(opened), {}, everything=True)
        assert found.nodes == ALL | ids("with_codes") | {"seed.afterimage.codes"}
        assert _unread(opened) == []
        # What `init` asks of a model whose name it would give to another one.
        init = cast("Any", SimpleNamespace(project=opened))
        for above, expected in (("stg_0", True), ("stg_1", False)):
            is_below = Writer._is_below(init, opened.model("with_codes"), opened.model(above))
            assert is_below == expected
    finally:
        (seeds / "codes.csv").unlink()
        below.unlink()


def test_a_large_seed_that_was_edited_is_loaded_again(
    shop: Shop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dbt knows a seed of more than 1 MiB by its path alone."""
    dbt_builds(monkeypatch)
    rows = [f"{number},{'x' * 100}" for number in range(12_000)]
    assert sum(map(len, rows)) > 1 << 20
    seed = shop.project.folder / "seeds" / "codes.csv"
    below = shop.project.folder / "models" / "with_codes.sql"
    below.write_text("select * from {{ ref('stg_0') }} cross join {{ ref('codes') }}")

    def built() -> tuple[str, ...]:
        project = shop.open()
        kept = record.of(project)
        found = building.work(project, kept, {}, everything=False)
        if found.nodes:
            building.build(project, kept, found)
        return found.built

    def edit(number: int) -> None:
        """Another row of the same length, at the same time."""
        rows[number] = rows[number].replace("x", "y")
        seed.write_text("\n".join(["id,text", *rows]))
        os.utime(seed, (1_700_000_000, 1_700_000_000))

    edit(0)
    try:
        assert {"codes", "with_codes"} < set(built())
        assert built() == ()
        for number in (1, -1):
            edit(number)
            assert built() == ("codes", "with_codes")
            assert built() == ()
        # An edit while dbt builds is not lost: it may have come too late.
        edit(2)
        run = Opened.run

        def slow(self: Opened, *command: str, **more: Any) -> Any:
            if command[0] == "build":
                edit(3)
            return run(self, *command, **more)

        with monkeypatch.context() as patched:
            patched.setattr(Opened, "run", slow)
            assert built() == ("codes", "with_codes")
        assert built() == ("codes", "with_codes")
        assert built() == ()
        # A record of the version before knows nothing of seeds: everything counts as changed.
        path = record.of(opened).folder / "record.json"
        said = json.loads(path.read_text())
        path.write_text(json.dumps({**said, "form": 1, "seeds": None}))
        assert len(built()) == len(ALL) + 2
    finally:
        seed.unlink()
        below.unlink()


def test_a_large_seed_is_found_in_a_project_that_was_moved(tmp_path: Path) -> None:
    """Such as one in a container: what dbt keeps of the last parsing has the old place."""
    (tmp_path / "before").mkdir()
    shop = Shop(tmp_path / "before")
    rows = "id\n" + "1234567\n" * 200_000
    shop.project.file("seeds/codes.csv", rows)
    expected = {"seed.afterimage.codes": hashlib.sha256(rows.encode()).hexdigest()}
    assert record.large_seeds_of(shop.open()) == expected
    shop.project.folder = shop.project.folder.rename(tmp_path / "after")
    assert record.large_seeds_of(shop.open()) == expected
