"""`afterimage init`: creates a dbt project, and writes models for landed change tables."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.options import parse_csv, where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import files
from dbt_afterimage.runtime.files import Change
from dbt_afterimage.runtime.project import Project, Where, step
from dbt_afterimage.runtime.run_dbt import run_dbt
from dbt_afterimage.scaffold import drafts, entries
from dbt_afterimage.scaffold.entries import FILE, Entry
from dbt_afterimage.scaffold.existing import is_unedited
from dbt_afterimage.scaffold.keys import NoKey
from dbt_afterimage.scaffold.landed import NotReadable, full_name, in_sql
from dbt_afterimage.scaffold.plans.question import SeveralTables, is_same_table
from dbt_afterimage.scaffold.writer import Draft

# The dbt package as it was installed: macros, generic tests, doc blocks and the profile.
PACKAGE = Path(__file__).parents[1] / "dbt_package"

# Names that a project cannot have: those of dbt packages, and words that are no text in YAML.
_TAKEN = {"afterimage", "dbt", "dbt_spark"}
_TAKEN |= {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

_NOTHING_FOUND = "nothing was written: no change table was found"

# Options of one table, beside the key.
_TEXTS = {
    "name": "Base name of the models (default: the source table's name).",
    "system": "The source macro, such as qlik_change_table, if the table is not recognised.",
    "table": "The source table, if RELATION holds messages or events of several.",
    "base": "The table with the current rows (event log, log of a Db2 text index).",
    "metadata": "The table with Qlik's metadata messages, or with a registry's schemas.",
    "tracking": "OpenEdge's change tracking table.",
    "uow": "Db2's IBMSNAP_UOW.",
    "lsn_times": "SQL Server's cdc.lsn_time_mapping.",
    "file_format": "Table format of the models that merge (default: the target's).",
}

_GITIGNORE = """\
/.afterimage/
/dbt_packages/
/target/
/logs/
"""

_DBT_PROJECT = """\
name: {name}
config-version: 2
profile: {name}
require-dbt-version: [">=1.11.0", "<1.12.0"]

flags:
  send_anonymous_usage_stats: false

# The local catalog has no views. A target that is not called after its format takes that from
# AFTERIMAGE_FORMAT.
models:
  +materialized: table
  +file_format: {file_format}

# Seeds are loaded exactly: an empty cell is NULL, and wide numbers keep all digits.
dispatch:
  - macro_namespace: dbt
    search_order: [{name}, afterimage, dbt]
"""

_FORMAT_OF_TARGET = (
    "\"{{ target.name if target.name in ['parquet', 'delta']"
    " else env_var('AFTERIMAGE_FORMAT', 'iceberg') }}\""
)

_PACKAGES = """\
packages:
  # Afterimage as pip installed it. If it is in another folder, set that before `dbt deps`:
  # export AFTERIMAGE_PACKAGE="$(afterimage init --package-path)"
  - local: "{{{{ env_var('AFTERIMAGE_PACKAGE', '{package}') }}}}"
"""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, text in reversed(_TEXTS.items()):
        function = click.option("--" + name.replace("_", "-"), help=text)(function)
    return function


accept_keys_option = click.option(
    "--accept-keys",
    is_flag=True,
    help="Where a table does not show its key, take the one that its rows suggest.",
)


@click.command("init")
@click.argument("relations", nargs=-1, metavar="[RELATION]...")
@click.option("--all", "every", is_flag=True, help="All change tables in the catalog.")
@click.option(
    "--from",
    "listed",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the models for all tables in this file (afterimage.yml).",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; print what differs from the list. The exit code is 1 if anything does.",
)
@click.option("--key", help="The key columns as CSV (default: guessed, if the table shows them).")
@accept_keys_option
@_options
@click.option("--arguments", metavar="JSON", help="Further arguments of the source macro, as JSON.")
@click.option("--package-path", is_flag=True, help="Print the folder of Afterimage's dbt package.")
@where_options
def command(
    relations: Sequence[str],
    every: bool,
    listed: Path | None,
    check: bool,
    package_path: bool,
    accept_keys: bool,
    where: Where,
    **options: str | None,
) -> int:
    """Create a project, or write models for landed tables.

    Without RELATION: create a dbt project in this folder. With it: look at the landed tables, write
    the models that turn them into history, and add them to afterimage.yml. RELATION is
    schema.table, table, source.table, a pattern such as 'raw.*__ct', or files such as
    'parquet.`/landing/orders__ct`'. Files that you have edited are left alone.
    """
    if package_path:
        print(PACKAGE)
        return 0
    given = {name: value for name, value in options.items() if value is not None}
    if check or listed:
        if relations or every or given or accept_keys:
            raise click.UsageError(
                "--from and --check work from the list; leave out RELATION and its options."
            )
        path = listed or Path(where.project_dir or ".") / FILE
        listing = entries.read(path)
        return (_check if check else _write_listed)(_open(where), listing)
    if relations or every:
        stagings, open_questions = add(
            _open(where), relations, every, given, accept_keys=accept_keys
        )
        if not (stagings or open_questions):
            raise AfterimageError(_NOTHING_FOUND)
        if open_questions:
            tables = "1 table" if open_questions == 1 else f"{open_questions} tables"
            print(
                f"No models for {tables}: answer the questions in {FILE}, then run"
                f" `afterimage init --from {FILE}`"
            )
        if stagings:
            names = " ".join(f"{name}+" for name in stagings)
            print(f"Next: dbt build --select {names}" if len(stagings) <= 5 else "Next: dbt build")
        return int(open_questions > 0)
    if given or accept_keys or where != Where():
        raise click.UsageError("Options need a RELATION; without it, init makes a project here.")
    begin(Path.cwd())
    return 0


def _open(where: Where) -> Project:
    if where.project_dir is None and not Path("dbt_project.yml").is_file():
        raise AfterimageError("this folder has no dbt_project.yml: run `afterimage init` first")
    return Project(where)


@dataclass
class _Outcome:
    """The drafts and problems of some tables, and the models that stay as they are."""

    drafts: list[tuple[Entry, Draft]]
    problems: list[tuple[Entry, AfterimageError]]
    stay: list[Any] = field(default_factory=list)


@dataclass
class _Drawn:
    """What came of a look at one table.

    Attributes:
        entry: The table.
        made: Its draft, or why there is none.
        seconds: How long that took.
        accepted: Why its key was taken from its rows; none if it was not.
    """

    entry: Entry
    made: Draft | AfterimageError
    seconds: float = 0.0
    accepted: str | None = None


def _draw(
    draft: Callable[[Entry], Draft],
    entry: Entry,
    *,
    splits: Callable[[Entry, SeveralTables], list[Entry] | None],
) -> list[_Drawn]:
    """Look at a table, or at each source table of a topic of several.

    Args:
        draft: How to look at a table.
        entry: The table.
        splits: Returns the entries of the source tables of a topic of several; none if it must not
            be taken apart.
    """
    started = time.monotonic()
    try:
        made: Draft | AfterimageError = draft(entry)
    except SeveralTables as error:
        tables = splits(entry, error)
        if tables is not None:
            return [one for table in tables for one in _draw(draft, table, splits=splits)]
        made = error
    except AfterimageError as error:
        made = error
    return [_Drawn(entry, made, time.monotonic() - started)]


def _look(
    project: Project,
    wanted: Sequence[Entry],
    listing: entries.Listing | None = None,
    *,
    is_pattern: bool = False,
    is_whole: bool = False,
    accept_keys: bool = False,
) -> _Outcome:
    """Look at tables, some of them side by side, and print what was found in their order.

    What stands for the further tables of a topic comes last.

    Args:
        project: The dbt project.
        wanted: The tables.
        listing: The list; none if there is none yet.
        is_pattern: Whether they are all that fit a pattern, and nobody has named them.
        is_whole: Whether they are all tables of the project.
        accept_keys: Whether to take the keys that rows suggest.
    """
    listing = listing or entries.Listing()
    name_of = cache(partial(full_name, project))
    every = {name_of(name) for name in _named(wanted)} if is_whole else None
    known = {name_of(name) for name in _named(listing.entries)}
    own_keys = [entry for entry in listing.entries if entry.key != listing.defaults.key]
    tables_of: dict[str, list[str]] = {}
    for one in listing.entries:
        if one.table:
            tables_of.setdefault(name_of(one.relation), []).append(one.table)

    def is_listed(entry: Entry) -> bool:
        return name_of(entry.relation) in known

    def is_among(table: str, others: Sequence[str]) -> bool:
        return any(is_same_table(table, one) for one in others)

    def beside(entry: Entry) -> list[str]:
        """Return the source tables of its relation that the list has, if it has no table itself."""
        return [] if entry.table else tables_of.get(name_of(entry.relation), [])

    def draft(entry: Entry) -> Draft:
        return drafts.draft(
            project,
            entry,
            is_searched=is_pattern,
            is_listed=is_listed(entry),
            listed_tables=beside(entry),
            every=every,
        )

    def splits(entry: Entry, error: SeveralTables) -> list[Entry] | None:
        listed = beside(entry)
        if entry.table or not (is_pattern or (is_whole and listed)):
            return None
        # The key in the list is that of the one table which the topic had, and so is the base.
        common = replace(entry, key=()) if entry in own_keys else entry
        further = replace(common, base=listing.defaults.base)
        return [
            replace(common if is_among(table, error.staged) else further, table=table)
            for table in error.tables
            if not is_among(table, listed)
        ]

    def look(entry: Entry) -> list[_Drawn]:
        drawn = _draw(draft, entry, splits=splits)
        for one in drawn:
            error = one.made
            if accept_keys and isinstance(error, NoKey) and error.proposal and not one.entry.key:
                [again] = _draw(
                    draft, replace(one.entry, key=error.proposal.key), splits=lambda *_: None
                )
                one.entry, one.made, one.accepted = again.entry, again.made, error.evidence
                one.seconds += again.seconds
        return drawn

    # A further table of a topic takes no name of one that is listed.
    wanted = sorted(wanted, key=lambda entry: bool(beside(entry)))
    outcome = _Outcome([], [])
    for drawn in project.side_by_side([partial(look, entry) for entry in wanted]):
        if isinstance(drawn, AfterimageError):
            raise drawn
        for one in drawn:
            if isinstance(one.made, drafts.Stays) and (is_pattern or is_whole):
                outcome.stay += one.made.models
                if is_whole:
                    print(f"{one.entry.relation}: its models stay as they are", flush=True)
                continue
            if is_pattern and not is_listed(one.entry):
                if isinstance(one.made, NotReadable):
                    _print_left_out(one.entry.relation, one.made)
                    continue
                if isinstance(one.made, drafts.NoChangeTable):
                    continue
            _note(outcome, one, is_single=len(wanted) == 1, is_pattern=is_pattern)
    if len(wanted) > 1 or is_pattern:
        _print_keys(outcome)
    return outcome


def _print_left_out(name: str, error: AfterimageError) -> None:
    """Say that a table, or a schema, is passed over, which nobody has named."""
    print(f"{name}: left out, as it cannot be read. {str(error).splitlines()[0]}", flush=True)


def _note(outcome: _Outcome, drawn: _Drawn, *, is_single: bool, is_pattern: bool) -> None:
    """Add what came of a look to the outcome, and print it."""
    entry, made = drawn.entry, drawn.made
    if drawn.accepted:
        print(f"{_called(entry)}: key accepted, {drawn.accepted}", flush=True)
    if isinstance(made, Draft):
        models, blocks = made.texts.models, made.texts.blocks
        others = [other.texts for _, other in outcome.drafts]
        if models and any((models, blocks) == (one.models, one.blocks) for one in others):
            return  # The same table under another name.
        taken = [path for path in models if any(path in one.models for one in others)]
        if taken:
            made = AfterimageError(
                f"another table has the model {taken[0]}: give this one a `name` in {FILE}"
            )
    if isinstance(made, AfterimageError):
        outcome.problems.append((entry, made))
        # Tables that lack nothing but a key are listed together.
        if (not is_single or is_pattern) and not isinstance(made, NoKey):
            print(f"{_called(entry)}: {made}", flush=True)
        return
    outcome.drafts.append((made.entry, made))
    if is_single:
        print(f"{made.texts.table} is {made.found}")
    else:
        share = f"{len(made.found.here)} of {len(made.found.system.signs)} signs"
        print(
            f"{made.texts.table}: {made.found.system.macro} ({share}),"
            f" key {', '.join(made.key)} [{drawn.seconds:.1f} s]",
            flush=True,
        )
    for note in made.notes:
        print(note if is_single else f"  {note}", flush=True)


def _called(entry: Entry) -> str:
    return f"{entry.relation} ({entry.table})" if entry.table else entry.relation


def _print_keys(outcome: _Outcome) -> None:
    """List the tables that do not show their keys, with what their rows suggest."""
    without = [(entry, error) for entry, error in outcome.problems if isinstance(error, NoKey)]
    if not without:
        return
    tables = "1 table does" if len(without) == 1 else f"{len(without)} tables do"
    print(f"{tables} not show the key. Proposed, by the rows:")
    keys = {
        _called(entry): ", ".join(error.proposal.key) if error.proposal else "none"
        for entry, error in without
    }
    widths = max(map(len, keys)), max(map(len, keys.values()))
    for entry, error in without:
        name = _called(entry)
        print(f"  {name:<{widths[0]}}  {keys[name]:<{widths[1]}}  {error.evidence}")
    if any(error.proposal for _, error in without):
        print(f"--accept-keys takes the proposed keys; or write the right ones into {FILE}.")


def add(
    project: Project,
    relations: Sequence[str],
    every: bool,
    given: dict[str, str],
    leave: Collection[str] = (),
    *,
    accept_keys: bool = False,
) -> tuple[list[str], int]:
    """Write the models of further tables, and add them to the list.

    Args:
        project: The dbt project.
        relations: The tables, or patterns.
        every: Whether to take all change tables in the catalog and in the list.
        given: Options of one table.
        leave: Tables that have their models and need no look, in small letters.
        accept_keys: Whether to take the keys that rows suggest.

    Returns:
        The staging models, and how many tables have open questions.

    Raises:
        AfterimageError: A table that is named is no change table, or has an open question.
    """
    path = project.folder / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else None
    listing = entries.read(path) if text is not None else entries.Listing()
    known = listing.entries
    is_pattern = every or any(map(_is_pattern, relations))
    single = given.keys() - {"file_format", "key"}
    if single and (is_pattern or len(relations) > 1):
        raise click.UsageError(
            f"--{min(single)} works with one RELATION; for several, set it in {FILE}."
        )
    name_of = cache(partial(full_name, project))

    def is_same(one: Entry, other: Entry) -> bool:
        return one.table == other.table and name_of(one.relation) == name_of(other.relation)

    options = _read_options(given)
    if "arguments" in options:
        options["arguments"] = entries.joined(listing.defaults.arguments, options["arguments"])
    wanted = list(known) if every else []
    for relation in _expanded(project, relations, every, listing.ignore):
        entry = replace(listing.defaults, relation=relation, **options)
        if is_pattern and name_of(relation) in map(name_of, _named(known)):
            # Its source tables are listed one by one, or it belongs to another table.
            named = [one for one in known if name_of(one.relation) == name_of(relation)]
            wanted += [one for one in named if one not in wanted]
            if not any(is_same(entry, other) for other in named):
                continue
        for other in known:
            if not is_same(other, entry):
                continue
            keyed = replace(other, key=other.key or entry.key) if given else other
            differs = any(getattr(keyed, name) != value for name, value in options.items())
            # Under a pattern --key is for the tables that have no key yet.
            if differs and not (is_pattern and options.keys() == {"key"}):
                raise AfterimageError(
                    f"{relation} is already in {FILE}: change it there, then run"
                    f" `afterimage init --from {FILE}`"
                )
            entry = keyed
            wanted = [entry if one == other else one for one in wanted]
        if entry not in wanted:
            wanted.append(entry)
    looked_at = [entry for entry in wanted if entry.relation.lower() not in leave]
    if leave and not looked_at:
        return [], 0
    outcome = _look(project, looked_at, listing, is_pattern=is_pattern, accept_keys=accept_keys)
    if every and not (outcome.drafts or outcome.problems):
        return [], 0
    if not (outcome.drafts or outcome.problems) or (outcome.problems and not is_pattern):
        raise _nothing_written(outcome, wanted)
    found = _fitting(project, outcome, is_pattern=is_pattern)

    def is_new(entry: Entry) -> bool:
        return not any(is_same(entry, other) for other in known)

    new = [replace(entry, key=made.key) for entry, made in outcome.drafts if is_new(entry)]
    # A topic that was taken apart is listed too, for its further tables.
    of_several = {entry.relation for entry in new if entry.table}
    new = [
        replace(entry, key=listing.defaults.key)
        for entry in wanted
        if entry.relation in of_several and not entry.table and is_new(entry)
    ] + new
    questions = [_question(entry, why) for entry, why in outcome.problems if is_new(entry)]
    now = entries.added(text, listing.defaults, new, questions) if new or questions else text
    if now is not None and now != text:
        found.append(Change(FILE, text, now, "new" if text is None else "added"))
    _write(project, found)
    stagings = list(dict.fromkeys(made.staging for _, made in outcome.drafts))
    return stagings, len(outcome.problems)


def _fitting(project: Project, outcome: _Outcome, *, is_pattern: bool) -> list[Change]:
    """Return the change of each file.

    Under a pattern a table whose texts do not fit into the files is a problem of its own.
    """
    texts = [made.texts for _, made in outcome.drafts]
    properties = project.property_files()
    try:
        return files.changes(project.folder, texts, whole=False, properties=properties)
    except files.Refused as refused:
        if not is_pattern:
            raise
        drawn = list(enumerate(outcome.drafts))
        outcome.drafts = [one for place, one in drawn if place not in refused.reasons]
        for place, (entry, _) in drawn:
            if place in refused.reasons:
                print(f"{entry.relation}: {refused.reasons[place]}", flush=True)
                outcome.problems.append((entry, AfterimageError(refused.reasons[place])))
    return _fitting(project, outcome, is_pattern=is_pattern)


def _question(entry: Entry, problem: AfterimageError) -> entries.OpenQuestion:
    if not isinstance(problem, NoKey):
        return entries.OpenQuestion(entry, str(problem).splitlines()[0])
    said = f"proposed: {problem.evidence}" if problem.proposal else problem.evidence
    key = problem.proposal.key if problem.proposal else ()
    return entries.OpenQuestion(replace(entry, key=key), f"which key? {said}")


def _nothing_written(outcome: _Outcome, wanted: Sequence[Entry]) -> AfterimageError:
    if len(wanted) == 1 and outcome.problems:
        return outcome.problems[0][1]
    if not outcome.problems:
        return AfterimageError(_NOTHING_FOUND)
    return AfterimageError(
        f"nothing was written: {len(outcome.problems)} of {len(wanted)} tables have the problems"
        " listed above"
    )


def _write_listed(project: Project, listing: entries.Listing) -> int:
    outcome = _look(project, listing.entries, listing, is_whole=True)
    # A further table of a topic stops none of the list.
    if any(entry in listing.entries for entry, _ in outcome.problems):
        raise _nothing_written(outcome, listing.entries)
    found = _changes(project, outcome)
    _write(project, found)
    for path in _left_over(project, found, outcome):
        print(f"left   {path}: its table is not in the list")
    print("Next: dbt build")
    return 0


def _write(project: Project, found: Sequence[Change]) -> None:
    files.write(project.folder, {c.path: c.new for c in found if c.new != c.old})
    said = {
        "new": "wrote  {}",
        "behind": "wrote  {}",
        "added": "wrote  {} (added at the end)",
        "edited": "kept   {} (edited by hand)",
    }
    for change in found:
        if change.state in said:
            print(said[change.state].format(change.path))
    same = sum(change.state == "same" for change in found)
    if same:
        print(f"kept   {same} unchanged file{'s'[: same > 1]}")


def _changes(project: Project, outcome: _Outcome) -> list[Change]:
    """Return the change of each file, by all tables of the list.

    Models that are not written keep their properties, also if somebody has edited or moved them, or
    if only another target builds them. So do the sources that they and the user's own files read.
    """
    texts = [made.texts for _, made in outcome.drafts]
    drawn = {path for one in texts for path in (*one.models, *one.blocks)}
    # A file that somebody has edited is not written again.
    written = {path for path in drawn if is_unedited(project, path)}
    disabled = project.disabled_models()
    reads = [(node, node.depends_on_nodes) for node in project.readers()]
    # dbt does not look up what they read.
    reads += [(node, [project.source_id(*names) for names in node.sources]) for node in disabled]
    still_read: dict[str, set[str]] = {}
    for node, keys in reads:
        if project.file_of(node) in written:
            continue
        for source in map(project.manifest.sources.get, keys):
            if source is not None and (path := project.file_of(source)):
                still_read.setdefault(path, set()).add(source.name)
    left = [
        node
        for node in [*project.models(), *disabled]
        if (file := project.file_of(node))
        and file not in drawn
        and Path(project.folder, file).is_file()
    ]
    for node in [*outcome.stay, *left]:
        path = str(node.patch_path or "").partition("://")[2]
        still_read.setdefault(path, set()).add(node.name)
    properties = project.property_files()
    return files.changes(
        project.folder, texts, whole=True, still_read=still_read, properties=properties
    )


def _check(project: Project, listing: entries.Listing) -> int:
    outcome = _look(project, listing.entries, listing, is_whole=True)
    found = _changes(project, outcome)
    said = [f"{_called(entry)}: {problem}" for entry, problem in outcome.problems]
    said += [
        f"{change.path}: {files.differences(change)}"
        for change in found
        if change.state != "same" and not _any(change.path, listing.ignore)
    ]
    if not outcome.problems:
        left = _left_over(project, found, outcome)
        said += [f"{path}: its table is not in the list" for path in left]
    said += _unlisted(project, listing)
    for line in said:
        print(line)
    if not said:
        print(f"Everything matches {FILE}.")
    return int(bool(said))


def _unlisted(project: Project, listing: entries.Listing) -> list[str]:
    """Return the change tables of the listed tables' schemas that are not in the list."""
    named = _named(listing.entries)
    known = {full_name(project, name) for name in named}
    schemas = sorted({name.rpartition(".")[0] for name in named if "`" not in name} - {""})
    said = []
    for name in [name for one in schemas for name in _landed(project, one, listing.ignore)]:
        if full_name(project, name) in known:
            continue
        try:
            _, found = drafts.look(project, Entry(name))
        except NotReadable as error:
            _print_left_out(name, error)
            continue
        said += [f"{name}: {found.system.title}, and not in the list"] if found else []
    return said


def _named(listed: Sequence[Entry]) -> list[str]:
    return [name for entry in listed for name in (entry.relation, *entry.others().values())]


def _left_over(project: Project, found: Sequence[Change], outcome: _Outcome) -> list[str]:
    wanted = {change.path for change in found} | {project.file_of(node) for node in outcome.stay}
    ours = files.written_by_us(project.folder, project.models_folder)
    return [path for path in ours if path not in wanted]


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(_bare(name), _bare(pattern)) for pattern in patterns)


def _bare(name: str) -> str:
    """Return a name without the quotes that SQL needs."""
    return name.replace("`", "")


def _is_pattern(relation: str) -> bool:
    return "`" not in relation and any(sign in relation for sign in "*?[")


def _expanded(
    project: Project, relations: Sequence[str], every: bool, ignore: Sequence[str]
) -> list[str]:
    """Return the tables that the names and patterns match, each once."""
    found = []
    for relation in [*relations, *(["*.*"] if every else [])]:
        if not _is_pattern(relation):
            found.append(relation)
            continue
        schema, _, pattern = relation.rpartition(".")
        if not schema:
            schema = str(project.credentials.schema)
        names = _landed(project, schema, ignore)
        wanted = f"{schema}.{pattern}".lower()
        fitting = [name for name in names if fnmatch(_bare(name).lower(), wanted)]
        if not fitting and relation in relations:
            raise AfterimageError(f"no table matches {relation}")
        found += fitting
    return list(dict.fromkeys(found))


def _landed(project: Project, schema: str, ignore: Sequence[str]) -> list[str]:
    """Return the landed tables and sources whose schema a name or pattern matches.

    The list's `ignore` leaves some of them out.
    """
    schemas = [schema]
    if "." not in schema or _is_pattern(schema):
        # Spark shows them as SQL has them.
        named = [str(row[0]) for row in project.rows("show schemas")]
        schemas = sorted(one for one in named if fnmatch(_bare(one).lower(), schema.lower()))
    shown = project.ask([f"show tables in {in_sql(one)}" for one in schemas])
    names = []
    for one, answer in zip(schemas, shown, strict=True):
        if not isinstance(answer, AfterimageError):
            names += sorted(f"{one}.{row[1]}" for row in answer)
        elif not _is_pattern(schema):
            raise answer
        elif not _any(f"{one}.*", ignore):
            _print_left_out(one, answer)
    # A source of one of these tables is the same table.
    names += [
        f"{s.source_name}.{s.name}"
        for s in project.sources()
        if fnmatch(s.source_name.lower(), schema.lower())
        and f"{s.schema}.{s.identifier}" not in names
    ]
    # Those of tests too, which may keep the rows that fail.
    own = {
        f"{node.schema}.{node.alias}".lower()
        for node in project.manifest.nodes.values()
        if node.resource_type in ("model", "snapshot", "test")
    }
    return [name for name in names if name.lower() not in own and not _any(name, ignore)]


def _read_options(given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {
        one.name: given[one.name] for one in fields(Entry) if one.name in given
    }
    if "key" in options:
        options["key"] = list(parse_csv(options["key"]))
    if "arguments" in options:
        try:
            options["arguments"] = json.loads(options["arguments"])
        except json.JSONDecodeError as error:
            raise AfterimageError(
                f"give --arguments as JSON, such as '{{\"a\": 1}}': {error}"
            ) from None
        if not isinstance(options["arguments"], dict):
            raise AfterimageError(
                "--arguments must map further arguments of the source macro to their values."
                f" Got: {given['arguments']}"
            )
    return options


def begin(folder: Path) -> None:
    """Create a dbt project in a folder; existing files are left as they are.

    Args:
        folder: The folder.
    """
    name = re.sub("[^a-z0-9]+", "_", folder.name.lower()).strip("_") or "history"
    if name in _TAKEN or name[0].isdigit():
        # dbt needs an identifier that no other project has; YAML has reserved words.
        name = f"project_{name}"
    profiles = (PACKAGE / "profiles" / "profiles.yml").read_text(encoding="utf-8")
    profiles = re.sub(r"^afterimage:", f"{name}:", profiles, flags=re.MULTILINE)
    profiles = profiles.replace("schema: afterimage", f"schema: {name}")
    inside = PACKAGE.is_relative_to(folder)
    package = PACKAGE.relative_to(folder) if inside else PACKAGE
    os.makedirs(folder / "models", exist_ok=True)
    texts = {
        ".gitignore": _GITIGNORE,
        "profiles.yml": profiles,
        "packages.yml": _PACKAGES.format(package=package.as_posix()),
        # Written last, because it makes the folder a project.
        "dbt_project.yml": _DBT_PROJECT.format(name=name, file_format=_FORMAT_OF_TARGET),
    }
    written = {path: text for path, text in texts.items() if not os.path.lexists(folder / path)}
    files.write(folder, written)
    for path in texts:
        print(f"wrote  {path}" if path in written else f"kept   {path} (already there)")
    if "packages.yml" not in written:
        print(f"Add this to packages.yml:\n  - local: {package.as_posix()}")
    ignored = (folder / ".gitignore").read_text(encoding="utf-8").split()
    lacking = [line for line in _GITIGNORE.split() if line not in ignored]
    if lacking:
        print(f"Add these to .gitignore: {' '.join(lacking)}")
    if "packages.yml" in written:
        with step("installing the dbt package"):
            run_dbt("deps", flags=["--project-dir", str(folder)])
    print("Next: afterimage land PATH, or afterimage init SCHEMA.TABLE")
