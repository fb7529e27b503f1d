"""`make demo`: builds one example, from change table to audit, and shows what came out of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.run_dbt import run_dbt
from dbt_afterimage.runtime.session import open_session

SELECTED = "+customers_history +customers_audit"

# Customer 5: an update that left out a long text, then one that set it to NULL.
KEY = 5

SCREENS = (
    (
        f"What landed for customer {KEY}: `notes` is NULL twice, for two different reasons",
        "select right(header__change_seq, 4) as `…change_seq`, header__change_oper as oper,"
        " hex(header__change_mask) as mask, id, name, credit_limit, notes"
        " from qlik_customers__ct"
        f" where id = {KEY} order by header__change_seq",
    ),
    (
        "customers_history: first the text was not captured, then it was removed",
        "select id, name, credit_limit, notes, valid_from, valid_to, is_current, version, closed_by"
        f" from customers_history where id = {KEY} order by version",
    ),
    (
        f"customers_audit: who changed what about customer {KEY}",
        "select changed_at, right(transaction_id, 5) as `…transaction`, operation, column_name,"
        " old_value, new_value, old_value_from"
        f" from customers_audit where id = {KEY} and column_name <> 'scenario'"
        " order by change_seq, column_name",
    ),
    (
        "stg_qlik__customers: rows that nobody could apply are kept, with the reason",
        "select coalesce(`after`.name, `before`.name) as name, operation, reject_reason"
        " from stg_qlik__customers where reject_reason is not null order by change_id",
    ),
)

NEXT = """
Next:
  . .venv/bin/activate{chosen}
  dbt show --select customers_history --limit 20      the whole history
  dbt build                                           all examples, with their tests
  cat models/staging/qlik/stg_qlik__customers.sql     all that was written for it
Then put your own table in its place: see "Your own table" in README.md.
"""


def main() -> int:
    """Build the example, then print the tables.

    Returns:
        The exit code: 0 if the build passed.
    """
    started = time.monotonic()
    target = os.environ.get("DBT_TARGET", "local")
    tables = {"delta": "Delta", "parquet": "Parquet"}.get(target, "Iceberg")
    print(f"dbt build --select {SELECTED} (Spark and {tables}, on this machine) ...", flush=True)
    # Nothing that is not shown: tests take as long as the tables.
    command = ("build", "--select", *SELECTED.split())
    command += ("--exclude-resource-type", "test", "unit_test")
    try:
        nodes = run_dbt(*command).results
    except AfterimageError as error:
        print(f"afterimage: {error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - started
    print(f"{len(nodes)} models and seeds done in {seconds:.0f} s.")

    spark = open_session({})
    spark.sql("use afterimage")
    for title, query in SCREENS:
        frame = spark.sql(query)
        print(f"\n{title}\n")
        print(table(frame.columns, [tuple(row) for row in frame.collect()]))
    chosen = "" if target == "local" else f"\n  export DBT_TARGET={target}"
    print(NEXT.format(chosen=chosen))
    return 0


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lay rows out under their column names.

    Args:
        columns: The names.
        rows: The values; None is shown as NULL.

    Returns:
        The lines, as one text.
    """
    cells = [["NULL" if value is None else str(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]

    def line(values: Sequence[str]) -> str:
        padded = (value.ljust(width) for value, width in zip(values, widths, strict=True))
        return ("  " + "  ".join(padded)).rstrip()

    return "\n".join([line(columns), line(["-" * width for width in widths]), *map(line, cells)])


if __name__ == "__main__":
    sys.exit(main())
