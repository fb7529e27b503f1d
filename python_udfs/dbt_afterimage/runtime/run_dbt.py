"""Runs dbt in this process. No other module does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dbt_afterimage.errors import AfterimageError


class DbtFailed(AfterimageError):
    """A dbt command failed.

    Attributes:
        result: What the command returned all the same, such as the results of the nodes that it
            ran; none if it did not come so far.
    """

    def __init__(self, text: str, result: Any) -> None:
        """Keep the result."""
        super().__init__(text)
        self.result = result


def run_dbt(
    *command: str,
    flags: Sequence[str] = (),
    manifest: Any = None,
    log: str = "none",
    ended: Callable[[str], None] | None = None,
) -> Any:
    """Run a dbt command and return its result.

    Args:
        *command: The command with its arguments.
        flags: Further options, which every command takes.
        manifest: A project that is already parsed; otherwise dbt parses the one in this folder.
        log: The lowest level of dbt's own lines that are shown.
        ended: Gets the id of each node at its end, before dbt begins what is below it; in dbt's
            threads. An error in it fails the node.

    Raises:
        DbtFailed: dbt failed. The text is dbt's message.
    """
    # Importing dbt takes a second, so commands that do not run dbt skip it.
    from dbt.cli.main import dbtRunner

    errors: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level == "error":
            errors.append(event.info.msg)
        if ended is not None and event.info.name == "NodeFinished":
            ended(str(event.data.node_info.unique_id))

    runner = dbtRunner(manifest=manifest, callbacks=[listen])
    outcome = runner.invoke(["--log-level", log, *command, *flags])
    if outcome.success:
        return outcome.result
    messages = [str(outcome.exception)] if outcome.exception else []
    messages += [
        result.message for result in getattr(outcome.result, "results", []) if result.message
    ]
    text = readable(" ".join(messages or errors) or "no reason given")
    if "profile" in text.lower() or text.endswith(".dbt' does not exist."):
        text += " (dbt looks for profiles.yml in --profiles-dir, here, and in ~/.dbt)"
    raise DbtFailed(f"dbt {command[0]} failed: {text}", outcome.result)


def readable(text: str) -> str:
    """Return a dbt error as one line, without its kind and the macros it came through.

    Args:
        text: The error; each layer of dbt puts its own kind in front.
    """
    text = re.split(r"^\s*> (?:in|called by) macro ", text, maxsplit=1, flags=re.MULTILINE)[0]
    line = " ".join(text.split())
    kind = r"(?:Runtime|Database|Compilation) Error (?:in \S+ \S+ \(\S+\) )?"
    return re.sub(f"^(?:{kind})+", "", line)
