"""Makes Spark's error messages readable."""

from __future__ import annotations

import re

_STACK_LINE = re.compile(r"\s+at |\t\.\.\. \d+ more|Driver stacktrace:$")
# Iceberg and Delta refuse a commit that rests on rows to which another commit has added some.
_CONFLICT = re.compile(
    r"[Ff]ound (new )?(conflicting|delete|position delete)"
    r"|(Concurrent\w*|MetadataChanged|ProtocolChanged)Exception"
)
# Spark appends the statement's plan to an analysis error: thousands of lines for a wide one.
_PLAN = re.compile(r";\n'?[A-Z].*", re.DOTALL)


def without_plan(text: str) -> str:
    """Return an analysis error without the plan at its end.

    Args:
        text: Spark's message.
    """
    return _PLAN.sub("", text)


def without_stack(text: str) -> str:
    """Return an error without the frames of Java's stack, and with the remedy of a conflict.

    Args:
        text: Spark's message.
    """
    lines = [line for line in text.splitlines() if not _STACK_LINE.match(line)]
    if _CONFLICT.search(text):
        lines.append("Another run has changed the table. Run again, one run at a time.")
    return "\n".join(line for line in lines if line.strip())


def is_overtaken_listing(sql: str, text: str) -> bool:
    """Whether a listing of tables failed because another run dropped one of them meanwhile.

    This happens in a Hadoop catalog on a local disk.

    Args:
        sql: The statement.
        text: Spark's message.
    """
    return "Invalid directory or I/O error" in text and "show tables" in sql.lower()
