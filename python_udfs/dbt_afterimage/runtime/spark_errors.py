"""Makes what Spark says of a failure fit to read."""

from __future__ import annotations

import re

_STACK_LINE = re.compile(r"\s+at |\t\.\.\. \d+ more|Driver stacktrace:$")
# What Spark appends to an analysis error: the statement's plan, thousands of lines of a wide one.
_PLAN = re.compile(r";\n'?[A-Z].*", re.DOTALL)


def without_plan(text: str) -> str:
    """Return an analysis error without the plan at its end.

    Args:
        text: What Spark says.
    """
    return _PLAN.sub("", text)


def without_stack(text: str) -> str:
    """Return an error without the frames of Java's stack; causes stay.

    Args:
        text: What Spark says.
    """
    lines = [line for line in text.splitlines() if not _STACK_LINE.match(line)]
    return "\n".join(line for line in lines if line.strip())


def is_overtaken_listing(sql: str, text: str) -> bool:
    """Whether a listing of tables failed because another run dropped one of them meanwhile.

    So it does in a Hadoop catalog on a local disk.

    Args:
        sql: The statement.
        text: What Spark says.
    """
    return "Invalid directory or I/O error" in text and "show tables" in sql.lower()
