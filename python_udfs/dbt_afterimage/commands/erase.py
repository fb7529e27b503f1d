"""`afterimage erase`: take all rows of some keys out of tables and files, for good."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import click

from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Project, Where, step
from dbt_afterimage.text import visible


@click.command("erase")
@click.argument("staging", metavar="MODEL")
@click.argument("key", nargs=-1, metavar="[COLUMN=VALUE]...")
@click.option(
    "--keys",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A CSV file with the keys: the names of the key's columns, then a line a key.",
)
@click.option("--listed", is_flag=True, help="Erase the keys that the list of erasures has.")
@click.option("--reference", help="What the list of erasures notes beside the keys.")
@click.option("--keep-intervals", is_flag=True, help="Keep the versions, with a token for the key.")
@click.option(
    "--keep", "kept", multiple=True, metavar="COLUMN", help="A column whose values stay with them."
)
@click.option(
    "--raw",
    is_flag=True,
    help="Erase the rows from the raw tables too. Nothing may write to them meanwhile.",
)
@click.option("--dry-run", is_flag=True, help="Only say which rows would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@where_options
def command(
    staging: str,
    key: Sequence[str],
    file: Path | None,
    listed: bool,
    reference: str | None,
    keep_intervals: bool,
    kept: Sequence[str],
    raw: bool,
    dry_run: bool,
    yes: bool,
    where: Where,
) -> None:
    """Erase the rows of a key from a staging model and all tables below it.

    MODEL is the staging model, such as stg_crm__customers, and each COLUMN=VALUE a column of its
    key. Rows of keys that a key change links with this one are erased too. The files and the
    versions of the tables that held the rows go with them: nobody can read or restore them. What
    lands of the key later, or once more, is left out. At the end it checks the files that are
    left.
    """
    keys = [*_given(key), *_in_file(file)]
    if bool(keys) == listed:
        raise click.UsageError("name a key (COLUMN=VALUE), a file of them (--keys), or --listed")
    project = Project(where, asks=True)
    with step("looking for the rows"):
        plan = project.macro(
            "_erasure_plan",
            staging=staging,
            keys=keys or None,
            listed=listed,
            keep_intervals=list(kept) if keep_intervals or kept else None,
            raw=raw,
        )
        lines = project.macro("_erasure_lines", plan=plan)
    for line in lines:
        print(line)
    if dry_run:
        return
    # The files that its writers have not committed yet could be lost, or taken for left ones.
    raw_tables = [table["name"] for table in plan["raw_tables"] if table["kind"] == "source"]
    stopped = ""
    if raw_tables:
        stopped = f"Everything that writes to {' and '.join(raw_tables)} must have been stopped. "
    if not yes and not click.confirm(f"{stopped}Erase these rows? Nobody can restore them"):
        raise click.Abort
    with step("erasing"):
        project.macro("_carry_out", plan=plan, reference=reference)
    count = len(plan["erased"])
    print(f"{staging}: erased {count} key{'s'[: count != 1]}")
    with step("checking the files that are left"):
        proof = project.macro("_proof_lines", plan=plan)
    for line in proof:
        print(line)
    outdated = plan["rebuilt"] if plan["kept"] is None else [f"{plan['staging']}+"]
    if outdated:
        print(f"Next: dbt run --select {' '.join(outdated)}")


def _given(parts: Sequence[str]) -> list[dict[str, str]]:
    """Return the key of the command line, if there is one."""
    key = {}
    for part in parts:
        name, sign, value = part.partition("=")
        if not sign or not name:
            raise AfterimageError(f"a key is written COLUMN=VALUE, not {visible(part)}")
        if name in key:
            raise AfterimageError(f"{visible(name)} is given twice; --keys names a file with keys")
        key[name] = value
    return [key] if key else []


def _in_file(file: Path | None) -> list[dict[str, str]]:
    """Return the keys in a file."""
    if file is None:
        return []
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.DictReader(opened, strict=True))
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise AfterimageError(f"{visible(str(file))} cannot be read as CSV: {error}") from None
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise AfterimageError(
                f"line {number} of {visible(str(file))} does not have as many cells as the first"
            )
    return rows
