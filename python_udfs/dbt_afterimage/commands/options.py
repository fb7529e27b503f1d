"""What commands share: options that choose a project and a page, and how CSV is read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Where
from dbt_afterimage.text import visible


def where_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `Where` to a command; it gets them as one argument, `where`."""

    @wraps(function)
    def with_where(**options: Any) -> Any:
        given = {one.name: options.pop(one.name) for one in fields(Where)}
        return function(**options, where=Where(**given))

    for name, text in reversed(
        (
            ("project-dir", "Folder of the dbt project (default: this one)."),
            ("profiles-dir", "Folder of profiles.yml."),
            ("profile", "Profile to use."),
            ("target", "Target of the profile."),
        )
    ):
        # dbt, which the commands run, goes by this variable.
        variable = "DBT_PROJECT_DIR" if name == "project-dir" else None
        with_where = click.option(f"--{name}", envvar=variable, help=text)(with_where)
    return with_where


output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write this file, which needs no other (default: below .afterimage/pages of the project,"
    " where all pages share one script).",
)


def found_at(path: Path) -> tuple[str, str]:
    """Return where a page is: its path from the working directory, and its address to click.

    Args:
        path: The page.
    """
    path = path.absolute()
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path), path.as_uri()


def parse_csv(text: str) -> Sequence[str]:
    """Return the fields of one line of CSV.

    Raises:
        AfterimageError: The text is no line of CSV.
    """
    try:
        return next(csv.reader([text], strict=True), [""])
    except csv.Error as error:
        raise AfterimageError(
            "a value with quotes must be quoted as in CSV, with each of its own quotes twice, as in"
            f' "Bob ""B"" Inc",eu ({error}). Got: {visible(text)}'
        ) from None
