"""The `afterimage` command. Each of its commands is a module of `commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from dbt_afterimage.commands import (
    doctor,
    erase,
    functions,
    health,
    init,
    land,
    maintain,
    news,
    serve,
    timeline,
    up,
)
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.locks import check_system


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dbt-afterimage", message="%(version)s")
@click.pass_context
def afterimage(context: click.Context) -> None:
    """Commands of Afterimage that work beside dbt."""
    if context.invoked_subcommand != "doctor":  # It reports this itself.
        check_system()


for command in (up, news, land, init, timeline, health, doctor, maintain, erase, serve, functions):
    afterimage.add_command(command.command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `afterimage`; none for those of this process.

    Returns:
        The exit code.
    """
    try:
        code = afterimage.main(arguments, prog_name="afterimage", standalone_mode=False)
        sys.stdout.flush()
    except AfterimageError as error:
        print(f"afterimage: {error}", file=sys.stderr)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        print("afterimage: stopped", file=sys.stderr)
        return 130
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
