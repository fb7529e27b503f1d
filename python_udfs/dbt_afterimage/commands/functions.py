"""`afterimage functions`: the statements that make the UDFs functions of Unity Catalog."""

from __future__ import annotations

import click


@click.command("functions")
@click.option("--catalog", help="The catalog to make them in (default: the session's).")
@click.option(
    "--schema",
    help="The schema to make them in (default: the session's). The macros call the functions by"
    " their names alone, so it is the one in dbt's profile.",
)
def command(catalog: str | None, schema: str | None) -> None:
    """Print the statements that make the Python UDFs functions of Databricks' Unity Catalog.

    Run them there once, and again after an upgrade of this package.
    """
    # Imported here, so that `--help` comes at once.
    from dbt_afterimage.udfs.unity_catalog import statements

    if catalog and not schema:
        raise click.UsageError("--catalog needs --schema")
    click.echo("\n".join(statements(catalog, schema)), nl=False)
