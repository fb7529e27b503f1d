"""Writes a change stream as AWS DMS would: rows of the files of a full load and of changes.

It shares no code with the macro. Rows of the full load have neither an operation nor a sequence. A
delete has the whole row, or every third the key alone. An update has the before-image of the key;
every fourth has, as from Oracle, only that of the key columns that it changed.
Every fifth change has 1970-01-01 for its time, as some sources do, so that the time is that of the
sequence.

What the format cannot carry, and a stream for it has to leave out: transactions, since no column
names them, and truncates, which take files away and write no row. Its changes have whole rows.
"""

from __future__ import annotations

from datetime import datetime

from reference import Change, Row
from strategies import Stream

TIME = "%Y-%m-%d %H:%M:%S.%f"


def columns_of(stream: Stream) -> dict[str, str]:
    """Give the columns of a landed table and their Spark types."""
    images = {f"BI_{name}": stream.types[name] for name in stream.unique_key}
    data = {name: stream.types[name] for name in stream.columns}
    return {"Op": "string", **data, **images, "dms_change_seq": "string", "dms_time": "string"}


def landed_rows(stream: Stream) -> list[Row]:
    """Write the rows of the files of a table."""
    rows = []
    latest = datetime.min
    for change in sorted(stream.changes, key=lambda change: change.change_seq):
        if change.operation == "load":
            assert change.after is not None
            rows.append(dict(change.after))
        else:
            assert change.changed_at is not None
            latest = max(latest, change.changed_at)
            rows.append(_change_row(change, latest, stream))
    return rows


def _change_row(change: Change, latest: datetime, stream: Stream) -> Row:
    """Write a change. Its sequence begins with the latest time so far: it never falls back."""
    number, changed_at = int(change.change_seq), change.changed_at
    is_pending = number % 5 == 0 and changed_at == latest and latest.microsecond == 0
    header = {
        "dms_change_seq": f"{latest:%Y%m%d%H%M%S}00{number % 10**19:019d}",
        "dms_time": f"{datetime(1970, 1, 1) if is_pending else changed_at:{TIME}}",
    }
    if change.after is None:
        assert change.before is not None
        kept = stream.unique_key if number % 3 == 0 else stream.columns
        return {"Op": "D", **header, **{name: change.before[name] for name in kept}}
    if change.before is None:
        return {"Op": "I", **header, **change.after}
    imaged = [
        name
        for name in stream.unique_key
        if number % 4 or change.before[name] != change.after[name]
    ]
    images = {f"BI_{name}": change.before[name] for name in imaged}
    return {"Op": "U", **header, **change.after, **images}
