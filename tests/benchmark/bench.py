"""How fast Afterimage is, next to what the engine can do and to what people write by hand.

    python tests/benchmark/bench.py [--changes 1000000 4000000] [--repeats 3] [--output FOLDER]

Makes a Qlik change table with `generate.py` and turns it into staging and history in these ways,
all on the same cores, one after the other within each round:

* ours: `qlik_change_table` and `scd2`, the SQL alone, in one Spark session;
* limit: the same columns scanned, shuffled by the key, sorted where a history needs it, written;
* textbook: the SQL that people write by hand (textbook.py), its mask decoded by built-in SQL;
* textbook_udf: the same with a plain row-at-a-time Python UDF for the mask;
* duckdb: the same again in DuckDB, from the same Parquet files into Parquet files.

Before it measures it holds the histories against each other, row by row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / name) for name in ("tests/python", "tests/benchmark", "python_udfs")]
sys.path[:0] = FOLDERS
# Spark's workers, which run the plain UDF, look there too.
os.environ["PYTHONPATH"] = os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])

import textbook  # noqa: E402
from conftest import SCHEMA, Project  # noqa: E402
from generate import COLUMNS, KEY, changes  # noqa: E402

HISTORY_COLUMNS = [KEY, *COLUMNS, "valid_from", "valid_to", "valid_from_seq", "valid_to_seq"]
# A double is printed by DuckDB and by Spark each in its own way.
COMPARED = [f"round({name}, 6)" if name == "ratio" else name for name in HISTORY_COLUMNS]


class Bench:
    """One size: its tables, and the ways to build them."""

    def __init__(self, spark: Any, project: Project, warehouse: Path, count: int) -> None:
        self.spark = spark
        self.project = project
        self.count = count
        self.raw = f"raw_{count}"
        self.files = warehouse / SCHEMA / self.raw / "data" / "*.parquet"
        self.duck_folder = warehouse / "duckdb"
        self.duck_folder.mkdir(exist_ok=True)
        if not spark.catalog.tableExists(f"{SCHEMA}.{self.raw}"):
            changes(spark, count).writeTo(f"{SCHEMA}.{self.raw}").using("iceberg").create()
        relation = f"api.Relation.create(schema='{SCHEMA}', identifier='{self.raw}')"
        self.staging_sql = project.compile(
            f"{{{{ qlik_change_table({relation}, unique_key=['{KEY}']) }}}}"
        )
        self.create("staged", self.staging_sql)
        staged = f"api.Relation.create(schema='{SCHEMA}', identifier='staged')"
        self.history_sql = project.compile(f"{{{{ scd2({staged}, unique_key=['{KEY}']) }}}}")

    def create(self, table: str, query: str) -> None:
        """Write a query's rows into a table that is made anew."""
        self.spark.sql(f"create or replace table {SCHEMA}.{table} using iceberg as {query}")

    def duck(self, table: str, query: str) -> None:
        """Write a query's rows into a Parquet file with DuckDB."""
        import duckdb

        with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
            connection.sql("set timezone = 'UTC'")
            connection.sql(
                f"copy ({query}) to '{self.duck_folder / table}.parquet' (compression zstd)"
            )

    def ways(self) -> dict[str, dict[str, Callable[[], None]]]:
        """Return the steps of each way, in the order that they need."""
        raw, staged = f"{SCHEMA}.{self.raw}", f"{SCHEMA}.staged"
        duck_raw = f"read_parquet('{self.files}')"
        duck_staged = f"read_parquet('{self.duck_folder}/staged.parquet')"
        return {
            "limit": {
                "staging": lambda: self.create("limit_staged", textbook.limit_staging(raw)),
                "history": lambda: self.create("limit_history", textbook.limit_history(staged)),
            },
            "ours": {
                "staging": lambda: self.create("staged", self.staging_sql),
                "history": lambda: self.create("history", self.history_sql),
            },
            "textbook": {
                "staging": lambda: self.create(
                    "textbook_staged", textbook.staging(raw, textbook.MASK_SQL)
                ),
                "history": lambda: self.create(
                    "textbook_history", textbook.history(f"{SCHEMA}.textbook_staged")
                ),
            },
            "textbook_udf": {
                "staging": lambda: self.create(
                    "textbook_udf_staged", textbook.staging(raw, textbook.MASK_UDF)
                ),
            },
            "duckdb": {
                "staging": lambda: self.duck("staged", textbook.duck_staging(duck_raw)),
                "history": lambda: self.duck("history", textbook.duck_history(duck_staged)),
            },
        }

    def differences(self) -> dict[str, int]:
        """Return how many versions of each other way ours does not have, or has too many."""
        ours = f"select {', '.join(COMPARED)} from {SCHEMA}.history"
        duck = self.spark.read.parquet(str(self.duck_folder / "history.parquet"))
        duck.createOrReplaceTempView("duck_history")
        found = {}
        for name, table in {
            "textbook": f"{SCHEMA}.textbook_history",
            "duckdb": "duck_history",
        }.items():
            theirs = f"select {', '.join(COMPARED)} from {table}"
            found[name] = self.spark.sql(
                f"({ours} except all {theirs}) union all ({theirs} except all {ours})"
            ).count()
        return found


def measure(bench: Bench, repeats: int, only: list[str] | None) -> dict[str, dict[str, float]]:
    """Return the median seconds of each step of each way, after a round to warm up."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for round_number in range(repeats + 1):
        for way, steps in bench.ways().items():
            if only and way not in only:
                continue
            for step, run in steps.items():
                started = time.monotonic()
                run()
                took = time.monotonic() - started
                print(
                    f"  {bench.count:>9} {round_number} {way:12} {step:8} {took:7.2f} s", flush=True
                )
                if round_number:
                    seconds.setdefault(way, {}).setdefault(step, []).append(took)
        if round_number == 0 and not only:
            differences = bench.differences()
            if any(differences.values()):
                raise SystemExit(f"The histories are not the same: {differences}")
            print(f"  {bench.count:>9} the histories are the same, row by row", flush=True)
    return {
        way: {step: statistics.median(times) for step, times in steps.items()}
        for way, steps in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--changes", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="these ways alone, without comparing the rows")
    parser.add_argument("--output", type=Path, default=ROOT / ".afterimage" / "benchmark")
    options = parser.parse_args()

    options.output.mkdir(parents=True, exist_ok=True)
    warehouse = options.output / "warehouse"
    os.environ["AFTERIMAGE_WAREHOUSE"] = str(warehouse)
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    folder = Path(tempfile.mkdtemp())
    project = Project(folder)
    project.file("models/first.sql", "select 1 as one")
    project.dbt("run")
    from dbt_afterimage.session import open_session

    spark = open_session({})
    textbook.register(spark)
    results = {}
    for count in options.changes:
        bench = Bench(spark, project, warehouse, count)
        results[count] = measure(bench, options.repeats, options.only)
    (options.output / "bench.json").write_text(json.dumps(results, indent=2) + "\n")
    for count, ways in results.items():
        print(f"\n{count} changes (seconds; in brackets: times the limit)")
        for way, steps in ways.items():
            parts = [
                f"{step} {took:.1f} ({took / ways['limit'][step]:.2f})"
                if "limit" in ways
                else f"{step} {took:.1f}"
                for step, took in steps.items()
            ]
            print(f"  {way:12} {', '.join(parts)}")
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
