"""Random streams as rows of the change contract, and their histories beside the reference's."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, note, settings

from conftest import contract_columns
from reference import META_COLUMNS, Change, sort_key
from strategies import Options, Stream

# When the changes of `change` happen, a minute each, and when runs take them in, an hour each.
DAY = datetime(2024, 1, 1)

# How many examples there are of runs that keep histories; `make test-long` asks for 50.
EXAMPLES = int(os.environ.get("AFTERIMAGE_EXAMPLES", "5"))

fewer_checks = settings(
    max_examples=EXAMPLES,
    deadline=None,
    # Shrinking would run Spark for minutes, and `assert_same_history` names the case anyway.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)


def stream_columns(stream: Stream) -> dict[str, str]:
    """Return the columns of the change contract for a stream's table."""
    fields = ", ".join(f"`{name}`: {stream.types[name]}" for name in stream.columns)
    return contract_columns(fields)


def as_row(change: Change, stream: Stream) -> dict[str, Any]:
    """Return a change as a row of the stream's table, its images in the order of columns."""
    row = asdict(change)
    for image in ("before", "after"):
        if row[image] is not None:
            row[image] = tuple(row[image][name] for name in stream.columns)
    return row


def change(
    number: int, operation: str, row: tuple[Any, ...] | None, run: int = 0
) -> dict[str, Any]:
    """Return the change with a number, of a run with a number."""
    return {
        "change_id": f"c{number}",
        "change_seq": f"{number:035d}",
        "operation": operation,
        "before" if operation == "delete" else "after": row,
        "changed_at": DAY + timedelta(minutes=number),
        "ingested_at": DAY + timedelta(hours=run),
    }


def jinja(chosen: Options) -> str:
    """Write the options as arguments of `scd2`."""
    arguments = []
    for name, value in chosen.items():
        if isinstance(value, datetime):
            value = str(value)
        arguments.append(f"{name}={'none' if value is None else repr(value)}")
    return ", ".join(arguments)


def as_fixture(changes: list[Change], stream: Stream) -> str:
    """Write changes as a seed, and the model that makes a change stream of it."""
    images = [(image, name) for image in ("before", "after") for name in stream.columns]
    names = ["change_id", "change_seq", "operation", "changed_at", "transaction_id"]
    names += ["reject_reason", "changed_columns", "absent_columns", "has_before", "has_after"]
    out = io.StringIO()
    seed = csv.writer(out)
    seed.writerow([*names, *(f"{image}__{name}" for image, name in images)])
    for change in changes:
        cells = asdict(change) | {
            "has_before": change.before is not None,
            "has_after": change.after is not None,
        }
        for name in ("changed_columns", "absent_columns"):
            cells[name] = None if cells[name] is None else ";".join(cells[name])
        row = [cells[name] for name in names]
        row += [(cells[image] or {}).get(name) for image, name in images]
        seed.writerow([text(cell) for cell in row])
    structs = [
        f"    if(has_{image}, named_struct("
        + ", ".join(
            f"'{name}', cast(`{image}__{name}` as {stream.types[name]})" for name in stream.columns
        )
        + f"), null) as `{image}`,"
        for image in ("before", "after")
    ]
    lists = [f"    split({n}, ';') as {n}," for n in ("changed_columns", "absent_columns")]
    return "\n".join(
        [
            "a seed of the case (an empty cell is NULL), and the stream made of it:",
            out.getvalue(),
            "select",
            "    change_id, change_seq, operation,",
            *structs,
            *lists,
            "    cast(changed_at as timestamp) as changed_at, transaction_id, reject_reason,",
            "    current_timestamp() as ingested_at",
            "from {{ ref('the_seed') }}",
        ]
    )


def in_order(rows: list[dict[str, Any]], unique_key: list[str]) -> list[dict[str, Any]]:
    """Order rows as the reference does."""
    return sorted(
        rows, key=lambda row: (sort_key(tuple(row[k] for k in unique_key)), row["version"])
    )


def assert_same_history(
    actual: list[dict[str, Any]], expected: list[dict[str, Any]], stream: Stream
) -> None:
    """Compare row for row, and show the first case that differs as a fixture ready to paste."""
    names = [*stream.columns, *META_COLUMNS]
    got = [{name: row[name] for name in names} for row in in_order(actual, stream.unique_key)]
    if got == expected:
        return
    for case in sorted({row["case_no"] for row in [*got, *expected]}):
        left = [row for row in got if row["case_no"] == case]
        right = [row for row in expected if row["case_no"] == case]
        if left != right:
            note(
                as_fixture(
                    [
                        change
                        for change in stream.changes
                        if change.operation == "truncate"
                        or (change.after or change.before or {}).get("case_no") == case
                    ],
                    stream,
                )
            )
            for row in left:
                note(f"got      {row}")
            for row in right:
                note(f"expected {row}")
            assert left == right


def text(value: Any) -> str | None:
    """Write a value as Spark casts it to a string."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        micros = f"{value:.%f}".rstrip("0").rstrip(".") if value.microsecond else ""
        return f"{value:%Y-%m-%d %H:%M:%S}{micros}"
    return str(value)
