"""The `afterimage` command. Each of its commands is a module that adds its own arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata


class CommandError(Exception):
    """A command cannot do what it was asked to. The text is one line, the remedy in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: What stands after `afterimage`; none for those of this process.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads has seen enough (`| head -1`). What Python flushes at its end goes nowhere then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CommandError as error:
        print(f"afterimage: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("afterimage: stopped", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    from dbt_afterimage.commands import doctor, health, init, serve, timeline

    parser = argparse.ArgumentParser(
        prog="afterimage", description="What Afterimage does beside dbt itself."
    )
    parser.add_argument("--version", action="version", version=metadata.version("dbt-afterimage"))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # One line a command: `add(commands)` of its module sets `run`, which takes the options.
    init.add(commands)
    timeline.add(commands)
    health.add(commands)
    doctor.add(commands)
    serve.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
