"""Makes Spark's error messages readable."""

from __future__ import annotations

import re

_STACK_LINE = re.compile(r"\s+at |\t\.\.\. \d+ more|Driver stacktrace:$")
# Iceberg and Delta refuse a commit that rests on rows to which another commit has added some.
_CONFLICT = re.compile(
    r"[Ff]ound (new )?(conflicting|delete|position delete)"
    r"|(Concurrent\w*|MetadataChanged|ProtocolChanged)Exception"
)
# Iceberg refuses a MERGE if files are gone that it deletes rows from.
_COMPACTED = re.compile("Cannot commit, missing data files|Missing required files to delete")
# A folder that is read by its path has no file; in an object store there is no folder without one.
_NO_FILE = re.compile(r"UNABLE_TO_INFER_SCHEMA|PATH_NOT_FOUND")
# By default a Hive metastore compares a table's columns with the former ones by position.
_BY_POSITION = "types incompatible with the existing columns"
# Spark appends the statement's plan to an analysis error: thousands of lines for a wide one.
_PLAN = re.compile(r";\n'?[A-Z].*", re.DOTALL)


def without_plan(text: str) -> str:
    """Return an analysis error without the plan at its end.

    Args:
        text: Spark's message.
    """
    return _PLAN.sub("", text)


def without_stack(text: str) -> str:
    """Return an error without the frames of Java's stack, and with some remedies.

    Args:
        text: Spark's message.
    """
    lines = [line for line in text.splitlines() if not _STACK_LINE.match(line)]
    if _CONFLICT.search(text):
        lines.append("Another run has changed the table. Run again, one run at a time.")
    elif _COMPACTED.search(text):
        lines.append("A compaction or another run has changed the table meanwhile. Run again.")
    if _BY_POSITION in text:
        lines.append(
            "The Hive metastore compares columns by position, and refuses this. Do not drop the"
            " table. Set hive.metastore.disallow.incompatible.col.type.changes to false in the"
            " metastore's hive-site.xml, restart it, and run again. See docs/operations/cluster.md."
        )
    if "/.afterimage/landing/" in text and "does not exist" in text:
        lines.append(
            "Spark does not see the project's folder, where `afterimage land` has put files for it."
            " See docs/start/land.md."
        )
    elif _NO_FILE.search(text):
        lines.append(
            "There is no file now. If files are moved away once they are read, run again when one"
            " has landed; else check the path."
        )
    return "\n".join(line for line in lines if line.strip())


def is_overtaken_listing(sql: str, text: str) -> bool:
    """Whether a listing of tables failed because another run dropped one of them meanwhile.

    This happens in a Hadoop catalog on a local disk.

    Args:
        sql: The statement.
        text: Spark's message.
    """
    return "Invalid directory or I/O error" in text and "show tables" in sql.lower()
