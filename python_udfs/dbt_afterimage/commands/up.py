"""`afterimage up`: from landed files, or the tables in a catalog, to histories and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from dbt_afterimage.commands import health, init, land
from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Project, Where
from dbt_afterimage.runtime.run_dbt import run_dbt
from dbt_afterimage.scaffold.entries import FILE


@click.command("up")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@land.topic_options
@where_options
@click.pass_context
def command(context: click.Context, paths: Sequence[str], how: land.How, where: Where) -> int:
    """Land, init, build and health in one.

    Lands files and topics, writes models for all change tables, builds them, and writes a health
    page. PATH is a file, a folder of one table, or a topic, as for `land`. Without it: the tables
    of the project's sources, of the catalog, and of afterimage.yml. In an empty folder it creates a
    dbt project. Everything runs in one Spark session; run it again to take in what has landed
    since. The exit code is 1 if a table has an open question, or a test fails.
    """
    if where.project_dir is None and not Path("dbt_project.yml").is_file():
        init.begin(Path.cwd())
    if paths:
        land.land_all(where, paths, None, how, copy=False)
    stagings, open_questions = init.add(Project(where), [], True, {})
    if stagings:
        failure = None
        try:
            selected = [f"+{name}+" for name in stagings]
            run_dbt("build", "--select", *selected, flags=where.flags(), log="info")
        except AfterimageError as error:
            # The page helps to find the reason.
            failure = error
        context.invoke(health.command, is_all=True, silence=24, **asdict(where))
        if failure:
            raise failure
    if open_questions:
        print(f"Answer the questions in {FILE}, then run this again.")
    return int(open_questions > 0)
