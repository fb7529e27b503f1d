"""`afterimage news`: which raw tables have rows that no run has read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import click

from dbt_afterimage.commands.land import SCHEMA
from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.fleet import building, news, record, states
from dbt_afterimage.fleet.news import Reader
from dbt_afterimage.landing import broker as kafka
from dbt_afterimage.landing.memory import Contents, memory_in
from dbt_afterimage.landing.topics import behind, spark_of, table_name
from dbt_afterimage.runtime import jars
from dbt_afterimage.runtime.project import Project, Where, quote, step
from dbt_afterimage.scaffold.entries import FILE
from dbt_afterimage.text import visible

# As `afterimage serve --status` has it: no error, but not that either.
NO_NEWS = 3
_MOST = 12


@click.command("news")
@click.argument("paths", nargs=-1, metavar="[kafka://HOST:PORT/TOPIC]...")
@click.option(
    "--select",
    "selected",
    multiple=True,
    metavar="SELECTOR",
    help="Only the models that dbt selects by this, and those above, such as stg_qlik__customers+."
    " Repeat for more.",
)
@where_options
def command(paths: Sequence[str], selected: Sequence[str], where: Where) -> int:
    """Say which raw tables have news.

    It asks the metadata of the tables alone: no model is compiled, and no row is read. One line for
    each raw table says what has landed since the last run, that nobody can tell, or that something
    failed last time. Of topics, named as for `afterimage land`, it says how many messages wait at
    the broker. The exit code is 0 if there is something to build or to land, and 3 if there is
    nothing. What failed is known from `afterimage up` alone; where it has not run, a line says so.
    """
    for path in paths:
        if not kafka.is_address(path):
            raise click.UsageError(f"only topics can be named here (kafka://…). Got: {path}")
    addresses = [kafka.address(path) for path in paths]
    if addresses:
        jars.want(jars.KAFKA)
    project = Project(where, asks=True)
    with step("asking the tables"):
        readers = news.look(project)
    kept = record.of(project)
    building.note_upkeep(project, kept, readers)
    building.note_left_over(project, kept, readers)
    unread = [] if selected else _unread(project)
    wanted = _selected(project, selected) if selected else _of_up(project)
    others = [] if selected else [readers[key] for key in readers.keys() - wanted]
    readers = {key: reader for key, reader in readers.items() if key in wanted}
    if selected and not readers:
        raise AfterimageError(
            "--select must select models that are built from raw tables; for a source write"
            f" source:raw.customers+. Got: {visible(' '.join(selected))}"
        )
    for line in lines(readers.values(), unread):
        print(line)
    if others:
        named = _some(reader.node.name for reader in others)
        print(f"`dbt run` builds these and `afterimage up` does not: {named}")
    waiting = [_waiting(project, one) for one in addresses]
    if any(waiting) or any(reader.has_news for reader in readers.values()):
        return 0
    if readers and kept.manifest is None:
        print("`afterimage up` has not run here, so nobody knows whether the last build failed")
    if not selected and kept.manifest is not None:
        edited = building.work(project, kept, readers, everything=False).built
        if edited:
            print(f"edited since the last run, or new: {_some(edited)}")
            return 0
        if kept.listing != record.checksum_of_file(project.folder / FILE):
            print(f"{FILE} was edited since the last run, or has open questions")
            return 0
    return NO_NEWS


def _of_up(project: Project) -> Collection[str]:
    """Return the models that `afterimage up` is about: those that stage a table, and all below."""
    return building.Graph(project).nodes.keys()


def _selected(project: Project, selectors: Sequence[str]) -> Collection[str]:
    """Return the nodes that dbt selects, and those above, which have the news of raw tables."""
    found = project.chosen("--select", selectors)
    # With a model dbt selects its tests, which may read other models too.
    tables = [key for key in found if not key.startswith(("test.", "unit_test."))]
    return found | building.Graph(project).above(tables)


def _waiting(project: Project, where: kafka.Address) -> bool:
    """Say of topics how many messages wait to be landed, and return whether there are any."""
    with step(f"asking {where.servers} for its topics"):
        broker = kafka.Broker(spark_of(project), where.servers)
        try:
            topics = [broker.topic(name) for name in broker.topics(where.topics)]
        finally:
            broker.close()
    held, unknown = held_topics(project, [one.name for one in topics])
    found = {one.name: behind(held[one.path], one) if one.path in held else None for one in topics}
    absent = "not landed yet"
    if unknown:
        absent += f", or into a table that cannot be asked: {_some(unknown)}"
    width = max(map(len, found))
    for name, lag in found.items():
        waits = absent if lag is None else f"{lag:,} messages to land" if lag else "nothing new"
        print(f"topic {name:<{width}}  {waits}")
    return any(lag != 0 for lag in found.values())


def held_topics(
    project: Project, names: Iterable[str]
) -> tuple[dict[str, list[Contents]], list[str]]:
    """Return what the raw tables remember of topics, and the tables that cannot be asked.

    Args:
        project: The dbt project.
        names: Topics; their tables may have their own names, or be sources of any name.

    Returns:
        The path of each topic that tables hold -> what each of them knows of its partitions.
    """
    own = [f"{quote(SCHEMA)}.{quote(table_name(name))}" for name in names]
    # Files that are read in place are no table, and remember nothing.
    sources = [str(one.relation_name) for one in project.sources() if "/" not in one.identifier]
    held: dict[str, list[Contents]] = {}
    unknown = []
    for name, known in states.properties_of(project, [*own, *sources]).items():
        if isinstance(known, AfterimageError):
            if not states.is_absent(known):
                unknown.append(name)
        elif (memory := memory_in(known)) is not None:
            for path, contents in memory.files.items():
                held.setdefault(path, []).append(contents)
    return held, unknown


def _some(names: Iterable[str]) -> str:
    """List the first of some names."""
    ordered = sorted(names)
    more = f", and {len(ordered) - _MOST} more" if len(ordered) > _MOST else ""
    return f"{', '.join(ordered[:_MOST])}{more}"


def _unread(project: Project) -> list[str]:
    """Return the sources that no model reads."""
    nodes = project.manifest.nodes.values()
    read = {key for node in nodes if node.resource_type != "test" for key in node.depends_on_nodes}
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
