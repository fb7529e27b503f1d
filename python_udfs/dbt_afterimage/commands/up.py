"""`afterimage up`: from landed files, or the tables in a catalog, to histories and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from dbt_afterimage.commands import health, init, land
from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import building, news, record
from dbt_afterimage.fleet.news import Reader
from dbt_afterimage.fleet.record import Record
from dbt_afterimage.runtime.files import is_sealed
from dbt_afterimage.runtime.project import Project, Where, step
from dbt_afterimage.scaffold.entries import FILE


@click.command("up")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--all", "everything", is_flag=True, help="Look at all tables and build them, news or not."
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="SELECTOR",
    help="Do not build what dbt selects by this, such as stg_qlik__customers+. Repeat for more.",
)
@init.accept_keys_option
@land.topic_options
@where_options
def command(
    paths: Sequence[str],
    everything: bool,
    exclude: Sequence[str],
    accept_keys: bool,
    how: land.How,
    where: Where,
) -> int:
    """Land, init, build and health in one.

    Lands files and topics, writes models for all change tables, builds them, and writes a health
    page. PATH is a file, a folder of one table, or a topic, as for `land`. Without it: the tables
    of the project's sources, of the catalog, and of afterimage.yml. In an empty folder, or with
    PATH, it creates a dbt project if there is none. Everything runs in one Spark session.

    Run it again to take in what has landed since: it builds the models whose raw tables have news,
    those that failed or were edited, and all below them, and leaves the others alone. The exit code
    is 1 if a table has an open question, a test fails, a path cannot be landed, a table cannot be
    asked for the page, or there is no change table at all.
    """
    if where.project_dir is None and not Path("dbt_project.yml").is_file():
        _begin(Path.cwd(), paths)
    left_out = land.land_all(where, paths, None, how, copy=False)[1] if paths else []
    for reason in left_out:
        print(f"not landed: {reason}")
    project = Project(where, asks=True)
    with record.of(project).taken():
        code = _take_in(
            project, where, everything=everything, exclude=exclude, accept_keys=accept_keys
        )
    return code or int(bool(left_out))


def _begin(here: Path, paths: Sequence[str]) -> None:
    """Begin a project, unless the folder seems to be the wrong one, as a scheduler's may be.

    Args:
        here: A folder without a project.
        paths: What the user wants landed.

    Raises:
        AfterimageError: The folder is within a project, or nothing says that one shall begin here.
    """
    lacks = f"{here} has no dbt_project.yml"
    for folder in here.parents:
        if (folder / "dbt_project.yml").is_file():
            raise AfterimageError(f"{lacks}, and {folder} has: run this there")
    # A virtual environment or a repository may be there already.
    if not paths and not all(path.name.startswith(".") for path in here.iterdir()):
        raise AfterimageError(
            f"{lacks}, and is not empty: run this in your project's folder, or begin a project here"
            " with `afterimage init`"
        )
    init.begin(here)


def _take_in(
    project: Project,
    where: Where,
    *,
    everything: bool,
    exclude: Sequence[str],
    accept_keys: bool,
) -> int:
    """Write what models lack, build what has news, and return the exit code."""
    kept = record.of(project)
    readers = _readers(project, kept)
    # A list that was edited, or that has open questions, may say something else of each table.
    is_same_list = kept.listing == record.checksum_of_file(project.folder / FILE)
    leave = _settled(project, kept, readers) if is_same_list and not everything else set()
    before = _files(project)
    _, open_questions = init.add(project, [], True, {}, leave=leave, accept_keys=accept_keys)
    kept.listing = "" if open_questions else record.checksum_of_file(project.folder / FILE)
    if _files(project) != before:
        project = Project(where)
        readers = _readers(project, kept)
    found = building.work(project, kept, readers, everything=everything, exclude=exclude)
    code = 0
    if found.nodes:
        code = _build(project, kept, found)
    else:
        kept.pending = sorted(found.left_out)
        kept.keep(project)
        if not (found.left_alone or open_questions):
            raise AfterimageError(
                f"no change table was found, and no model in {project.folder} reads one: if your"
                " project is in another folder, run this there"
            )
        others = ", or they are left out" * bool(found.left_out)
        print(f"Nothing new in {_models(found.left_alone)}{others}.")
    if open_questions:
        print(f"Answer the questions in {FILE}, then run this again.")
    return code or int(open_questions > 0)


def _build(project: Project, kept: Record, found: building.Work) -> int:
    """Build, write the page, and return the exit code."""
    tests = len(found.nodes) - len(found.built)
    print(
        f"Building {_models(len(found.built))} with {tests} test{'s'[: tests != 1]};"
        f" {found.left_alone} have nothing new{' or are left out' * bool(found.left_out)}."
    )
    failure = None
    try:
        building.build(project, kept, found)
    except AfterimageError as error:
        # The page helps to find the reason.
        failure = error
    # The figures of a table that is left out are not known without reading it.
    staging = [project.manifest.nodes[key] for key in found.staging if key not in found.left_out]
    code = 0
    try:
        if staging:
            code = health.write(project, staging, 24, is_all=True, kept=kept)
    except AfterimageError:
        if failure is None:
            raise
    if failure:
        raise failure
    return code


def _files(project: Project) -> dict[Path, int]:
    """Return the files in which `init` writes, each with the time when it was written."""
    folder = project.folder / project.models_folder
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.*")}


def _readers(project: Project, kept: Record) -> dict[str, Reader]:
    with step("asking the tables for news"):
        readers = news.look(project)
        building.note_upkeep(project, kept, readers)
    return readers


def _settled(project: Project, kept: Record, readers: Mapping[str, Reader]) -> set[str]:
    """Return the raw tables that need no look: all that reads them is as `up` has left it.

    Returns:
        Each by all its names, in small letters.
    """
    if kept.manifest is None:
        return set()
    manifest, graph = project.manifest, building.Graph(project)
    # A checkout may have put back what `init` wrote for another target, which `init` mends. What a
    # user has edited it leaves alone.
    written_elsewhere = {
        key
        for key in building.edited(project, kept)
        if (node := manifest.nodes.get(key)) is not None
        and (file := project.file_of(node)) is not None
        and is_sealed(Path(project.folder, file).read_text(encoding="utf-8"))
    }
    known: dict[str, bool] = {}
    for node in project.models():
        for key in node.depends_on.nodes:
            reader = readers.get(node.unique_id)
            is_quiet = (
                reader is not None
                and not reader.has_news
                # Else another command has taken in rows, which may have had new columns.
                and reader.version == kept.versions.get(node.unique_id)
                and written_elsewhere.isdisjoint(graph.below([node.unique_id]))
            )
            known[key] = known.get(key, True) and is_quiet
    names = set()
    for key, is_quiet in known.items():
        if is_quiet and key in manifest.sources:
            source = manifest.sources[key]
            names.add(f"{source.source_name}.{source.name}".lower())
            names.add(f"{source.schema}.{source.identifier}".lower())
        elif is_quiet and key in manifest.nodes:
            names.add(f"{manifest.nodes[key].schema}.{manifest.nodes[key].alias}".lower())
    return names


def _models(count: int) -> str:
    return f"{count} model{'s'[: count != 1]}"
