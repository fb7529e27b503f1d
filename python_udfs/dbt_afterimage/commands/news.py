"""`afterimage news`: which raw tables have rows that no run has read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import click

from dbt_afterimage.commands.options import where_options
from dbt_afterimage.fleet import building, news, record
from dbt_afterimage.fleet.news import Reader
from dbt_afterimage.runtime.project import Project, Where, step

# As `afterimage serve --status` has it: no error, but not that either.
NO_NEWS = 3
_MOST = 12


@click.command("news")
@click.option(
    "--select",
    "selected",
    multiple=True,
    metavar="SELECTOR",
    help="Only the models that dbt selects by this, such as stg_qlik__customers+. Repeat for more.",
)
@where_options
def command(selected: Sequence[str], where: Where) -> int:
    """Say which raw tables have news.

    It asks the metadata of the tables alone: no model is compiled, and no row is read. One line for
    each raw table says what has landed since the last run, that nobody can tell, or that something
    failed last time. The exit code is 0 if there is something to build, and 3 if there is nothing.
    """
    project = Project(where, asks=True)
    with step("asking the tables"):
        readers = news.look(project)
    kept = record.of(project)
    building.note_left_over(project, kept, readers)
    unread = [] if selected else _unread(project)
    if selected:
        wanted = project.selected(*selected)
        readers = {key: reader for key, reader in readers.items() if key in wanted}
    for line in lines(readers.values(), unread):
        print(line)
    if any(reader.has_news for reader in readers.values()):
        return 0
    if not selected and kept.manifest is not None:
        edited = building.work(project, kept, readers, everything=False).built
        if edited:
            print(f"edited since the last run, or new: {_some(edited)}")
            return 0
    return NO_NEWS


def _some(names: Iterable[str]) -> str:
    """List the first of some names."""
    ordered = sorted(names)
    more = f", and {len(ordered) - _MOST} more" if len(ordered) > _MOST else ""
    return f"{', '.join(ordered[:_MOST])}{more}"


def _unread(project: Project) -> list[str]:
    """Return the sources that no model reads."""
    nodes = project.manifest.nodes.values()
    read = {key for node in nodes if node.resource_type != "test" for key in node.depends_on.nodes}
    return [f"{s.source_name}.{s.name}" for s in project.sources() if s.unique_id not in read]


def lines(readers: Collection[Reader], unread: Collection[str]) -> list[str]:
    """Return a line for each raw table, and one for all other models that must be built."""
    shared = Counter(name for reader in readers for name in reader.news)
    # Nothing can be built of these, so they do not count.
    said = dict.fromkeys(unread, "no model reads it")
    for reader in readers:
        for name, one in reader.news.items():
            shown = name if shared[name] == 1 else f"{name} ({reader.node.name})"
            said[shown] = one.text if one.kind == "new" else reader.reason or one.text
    width = max(map(len, said), default=0)
    found = [f"{name:<{width}}  {text}" for name, text in sorted(said.items())]
    others: dict[str, list[str]] = defaultdict(list)
    for reader in readers:
        if not reader.news and reader.reason:
            others[reader.reason].append(reader.node.name)
    for reason, names in sorted(others.items()):
        found.append(f"{reason}: {_some(names)}")
    return found
