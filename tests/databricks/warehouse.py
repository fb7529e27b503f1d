"""What stands in for a Databricks warehouse: it notes each statement and answers by patterns.

dbt and its adapter are the real ones. Only the connection is missing, so that a test sees which
statements our macros make for this adapter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dbt.adapters.contracts.connection import AdapterResponse, ConnectionState
from dbt.adapters.databricks.connections import DatabricksConnectionManager
from dbt.cli.main import dbtRunner
from dbt_common.clients.agate_helper import table_from_data_flat

ROOT = Path(__file__).resolve().parents[2]

PROFILE = """
shop:
  target: dev
  outputs:
    dev:
      type: databricks
      catalog: main
      schema: cdc
      host: warehouse.invalid
      http_path: /sql/1.0/warehouses/none
      token: none
      threads: 1
"""

SETTINGS = """
name: shop
version: "1.0"
config-version: 2
profile: shop
packages-install-path: packages
flags: {send_anonymous_usage_stats: false}
dispatch:
  - macro_namespace: dbt
    search_order: [shop, afterimage, dbt]
models:
  +materialized: table
"""

RAW = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__change_mask": "binary",
    "header__timestamp": "timestamp",
    "header__transaction_id": "string",
    "id": "int",
    "city": "string",
}
DATA = {"id": "int", "city": "string"}
IMAGE = "struct<id:int,city:string>"
STREAM = {
    "change_id": "string",
    "change_seq": "string",
    "operation": "string",
    "before": IMAGE,
    "after": IMAGE,
    "changed_columns": "array<string>",
    "absent_columns": "array<string>",
    "changed_at": "timestamp",
    "transaction_id": "string",
    "reject_reason": "string",
    "warnings": "array<string>",
    "changed_by": "string",
    "source_rows": "array<string>",
    "ingested_at": "timestamp",
}

# What a summary has that is no number.
OTHERS = {"runs": [], "sparse_columns": [], "zone": "UTC"}

Rows = list[list[Any]]
Answer = tuple[str, list[str], Rows | Callable[[str], Rows]]


def described(types: dict[str, str]) -> Rows:
    """Return the rows of DESCRIBE QUERY."""
    return [[name, kind, None] for name, kind in types.items()]


def no_changes(statement: str) -> Rows:
    """Return a summary in which every count is 0, and every list empty."""
    names = re.findall(r"'(\w+)', (?:count|max|min|bool_or|array|collect)", statement)
    return [[json.dumps(dict.fromkeys(names, 0) | OTHERS)]]


DESCRIBED = ["col_name", "data_type", "comment"]
AS_JSON = json.dumps({"columns": [{"name": "id", "type": {"name": "int"}}]})
LISTED = ["table_name", "table_type", "file_format", "table_owner", "databricks_table_type"]

# The first whose pattern is found answers; nothing else has rows.
ANSWERS: list[Answer] = [
    (r"describe table extended .* as json", ["json_metadata"], [[AS_JSON]]),
    (r"describe query select `after`", DESCRIBED, described(DATA)),
    (r"describe query select \* from `main`\.`landed`", DESCRIBED, described(RAW)),
    (r"describe query", DESCRIBED, described(STREAM)),
    (r"describe table extended", DESCRIBED, [*described(RAW), ["Provider", "delta", None]]),
    (r"describe history", ["version", "timestamp", "operation"], [["4", "2024-01-01", "WRITE"]]),
    (r"describe detail", ["id", "location"], [["t1", "abfss://lake/orders__ct"]]),
    (r"to_json\(named_struct", ["summary"], no_changes),
    (r"count\(\*\) as changes", ["changes", "rejected", "zone"], [[3, 0, "UTC"]]),
]


class Warehouse:
    """A dbt project beside what it would send.

    Attributes:
        statements: Every statement sent, in order.
        answers: Asked before `ANSWERS`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.statements: list[str] = []
        self.answers: list[Answer] = []
        (folder / "packages").mkdir()
        (folder / "packages" / "afterimage").symlink_to(ROOT)
        self.file("packages.yml", f"packages: [{{local: {ROOT}}}]")
        self.file("dbt_project.yml", SETTINGS)
        self.file("profiles.yml", PROFILE)

    def file(self, path: str, text: str) -> None:
        """Write a file of the project."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def dbt(self, *arguments: str) -> Any:
        """Run a dbt command; return its result, or fail with what dbt said of each node."""
        places = ("--project-dir", str(self.folder), "--profiles-dir", str(self.folder))
        with self._instead_of_a_connection():
            outcome = dbtRunner().invoke(["--quiet", *arguments, *places])
        said = [
            f"{result.node.name}: {result.message}"
            for result in getattr(outcome.result, "results", [])
            if result.status not in ("success", "pass")
        ]
        assert outcome.success, "\n".join(said) or str(outcome.exception)
        return outcome.result

    def sent(self, pattern: str) -> list[str]:
        """Return the statements in which a pattern is found, their white space as single blanks."""
        as_lines = [" ".join(statement.split()) for statement in self.statements]
        return [line for line in as_lines if re.search(pattern, line, re.IGNORECASE)]

    def _answer(self, statement: str) -> tuple[list[str], Rows]:
        for pattern, columns, rows in self.answers + ANSWERS:
            if re.search(pattern, statement, re.IGNORECASE | re.DOTALL):
                return columns, rows(statement) if callable(rows) else rows
        return ["nothing"], []

    @contextmanager
    def _instead_of_a_connection(self) -> Iterator[None]:
        def execute(_: Any, sql: str, *__: Any, **___: Any) -> Any:
            self.statements.append(sql)
            columns, rows = self._answer(sql)
            records = [dict(zip(columns, row, strict=True)) for row in rows]
            return AdapterResponse("OK"), table_from_data_flat(records, columns)

        def add_query(_: Any, sql: str, *__: Any, **___: Any) -> Any:
            self.statements.append(sql)
            return None, None

        def opened(connection: Any) -> Any:
            connection.state = ConnectionState.OPEN
            connection.handle = object()
            return connection

        with (
            patch.object(DatabricksConnectionManager, "execute", execute),
            patch.object(DatabricksConnectionManager, "add_query", add_query),
            patch.object(DatabricksConnectionManager, "open", opened),
        ):
            yield
