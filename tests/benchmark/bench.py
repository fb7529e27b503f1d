"""How fast Afterimage is, next to what the engine can do and to what people write by hand.

    python tests/benchmark/bench.py [--changes 1000000 4000000] [--repeats 3] [--output FOLDER]

Makes a Qlik change table with `generate.py` and turns it into staging and history in these ways,
all on the same cores, one after the other within each round:

* limit: the same columns scanned, shuffled by the key, sorted where a history needs it, written;
* ours: the models that `qlik_change_table` and the `history` materialization make, all they do
  in an open Spark session;
* textbook: the SQL that people write by hand (textbook.py), its mask decoded by built-in SQL;
* textbook_udf: the same with a plain row-at-a-time Python UDF for the mask;
* duckdb: the same again in DuckDB, from the same Parquet files into Parquet files.

Before it measures it holds the histories against each other, row by row. Then, onto the history of
each size: a batch of 10,000 changes, one that reaches back to the beginning of time, and none.
Prints tables of seconds and ratios, and writes them as bench.json and bench.png.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
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

BATCH = 10_000
HISTORY_COLUMNS = [KEY, *COLUMNS, "valid_from", "valid_to", "valid_from_seq", "valid_to_seq"]
# The engines print a double each in its own way.
COMPARED = [f"round({name}, 6)" if name == "ratio" else name for name in HISTORY_COLUMNS]
CONTRACT = (
    "change_id, change_seq, operation, `before`, `after`, changed_columns, absent_columns,"
    " changed_at, transaction_id, reject_reason, warnings, source_rows"
)

Seconds = dict[str, dict[str, float]]


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
        # As full builds; what an incremental run costs is measured on the history alone.
        project.file(
            "models/staged.sql",
            "{{ config(materialized='table', file_format='iceberg') }}\n"
            f"{{{{ qlik_change_table(source('raw', '{self.raw}'), unique_key=['{KEY}']) }}}}",
        )
        project.file(
            "models/sources.yml",
            f"sources: [{{name: raw, schema: {SCHEMA}, tables: [{{name: {self.raw}}}]}}]",
        )
        project.file("models/history.sql", history_of("{{ ref('staged') }}"))

    def model(self, name: str) -> None:
        """Build one model anew with dbt, in this process and its session."""
        self.project.dbt("run", "--full-refresh", "--select", name)

    def process(self) -> None:
        """Build both models with a `dbt` of its own, JVM start and all."""
        subprocess.run(
            [
                str(Path(sys.executable).with_name("dbt")),
                "--quiet",
                "run",
                "--full-refresh",
                "--select",
                "staged",
                "history",
                "--profiles-dir",
                "profiles",
            ],
            cwd=self.project.folder,
            check=True,
        )

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
            "ours": {
                "staging": lambda: self.model("staged"),
                "history": lambda: self.model("history"),
            },
            "limit": {
                "staging": lambda: self.create("limit_staged", textbook.limit_staging(raw)),
                "history": lambda: self.create("limit_history", textbook.limit_history(staged)),
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
                "history": lambda: self.create(
                    "textbook_history", textbook.history(f"{SCHEMA}.textbook_udf_staged")
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

    def increments(self, repeats: int) -> dict[str, float]:
        """Return the seconds of history runs of a batch, of an early change, and of nothing new."""
        spark, stream = self.spark, f"{SCHEMA}.stream"
        place = f"cast(substr(change_seq, 17, 19) as bigint) > {self.count - repeats * BATCH}"
        run = f"floor((cast(substr(change_seq, 17, 19) as bigint) - {self.count} - 1) / {BATCH})"
        start = "timestamp '2026-01-01 00:00:00'"
        self.create(
            "stream",
            f"select {CONTRACT}, {start} as ingested_at from {SCHEMA}.staged where not {place}",
        )
        self.project.file("models/grown.sql", history_of(stream))
        seconds = {"full": timed(lambda: self.model("grown"))}
        times = []
        for number in range(repeats):
            spark.sql(
                f"insert into {stream} select {CONTRACT}, {start} + interval {number + 1} hours"
                f" from {SCHEMA}.staged where {place} and {run} = {number - repeats}"
            )
            times.append(timed(lambda: self.project.dbt("run", "--select", "grown")))
        seconds["batch"] = statistics.median(times)
        seconds["nothing"] = timed(lambda: self.project.dbt("run", "--select", "grown"))
        # A batch with one key's insert of long before all others.
        spark.sql(
            f"insert into {stream} select 'early', repeat('0', 34) || '1', 'insert', null, `after`,"
            " changed_columns, absent_columns, timestamp '2023-01-01', transaction_id,"
            f" reject_reason, warnings, source_rows, {start} + interval 2 days"
            f" from {stream} where operation = 'insert' limit 1"
        )
        seconds["from the start"] = timed(lambda: self.project.dbt("run", "--select", "grown"))
        grown = f"select * from {SCHEMA}.grown"
        self.create("grown_by_batches", grown)
        self.model("grown")
        batches = f"select * from {SCHEMA}.grown_by_batches"
        differences = spark.sql(
            f"({grown} except all {batches}) union all ({batches} except all {grown})"
        ).count()
        if differences:
            raise SystemExit(f"Grown by batches the history differs in {differences} versions.")
        return seconds


def history_of(stream: str) -> str:
    """Return the text of a history model."""
    config = f"materialized='history', unique_key=['{KEY}'], file_format='iceberg'"
    return f"{{{{ config({config}) }}}}\nselect * from {stream}"


def timed(run: Callable[[], Any]) -> float:
    """Return how many seconds something takes."""
    started = time.monotonic()
    run()
    return time.monotonic() - started


def measure(bench: Bench, repeats: int) -> Seconds:
    """Return the median seconds of each step of each way, after a round to warm up."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for round_number in range(repeats + 1):
        for way, steps in bench.ways().items():
            for step, run in steps.items():
                took = timed(run)
                print(
                    f"{bench.count:>9} round {round_number} {way:12} {step} {took:7.2f} s",
                    flush=True,
                )
                if round_number:
                    seconds.setdefault(way, {}).setdefault(step, []).append(took)
        if round_number == 0:
            differences = bench.differences()
            if any(differences.values()):
                raise SystemExit(f"The histories are not the same: {differences}")
            print(f"{bench.count:>9} the histories are the same, row by row", flush=True)
    return {
        way: {step: statistics.median(times) for step, times in steps.items()}
        for way, steps in seconds.items()
    }


def table(ways: Seconds) -> str:
    """Lay the seconds out, each beside how many times the limit it is."""
    lines = [f"{'':14}{'staging':>16}{'history':>16}{'both':>16}"]
    for way, steps in ways.items():
        cells = []
        for names in (["staging"], ["history"], ["staging", "history"]):
            took = sum(steps[name] for name in names)
            limit = sum(ways["limit"][name] for name in names)
            cells.append(f"{took:8.1f} ({took / limit:.2f})")
        lines.append(f"{way:14}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def draw(results: dict[int, Seconds], file: Path) -> None:
    """Draw the bars of each size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(5 * len(results), 3), squeeze=False, layout="constrained"
    )
    for axis, (count, ways) in zip(axes[0], results.items(), strict=True):
        names = list(ways)[::-1]
        staging = [ways[name]["staging"] for name in names]
        axis.barh(names, staging, label="raw to staging", color="#4477aa")
        history = [ways[name]["history"] for name in names]
        axis.barh(names, history, left=staging, label="staging to history", color="#ccbb44")
        axis.set_title(f"{count:,} changes")
        axis.set_xlabel("seconds")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize="small")
    figure.savefig(file, dpi=120)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--changes", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / ".afterimage" / "benchmark")
    parser.add_argument("--skip", nargs="+", default=[], choices=["ways", "increments", "process"])
    options = parser.parse_args()

    options.output.mkdir(parents=True, exist_ok=True)
    warehouse = options.output / "warehouse"
    os.environ["AFTERIMAGE_WAREHOUSE"] = str(warehouse.absolute())
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    folder = Path(tempfile.mkdtemp())
    project = Project(folder)
    project.file("models/first.sql", "select 1 as one")
    project.dbt("run")
    from dbt_afterimage.session import open_session

    spark = open_session({})
    textbook.register(spark)
    results: dict[int, Seconds] = {}
    increments: Seconds = {}
    processes = {}
    for count in options.changes:
        bench = Bench(spark, project, warehouse, count)
        if "ways" not in options.skip:
            results[count] = measure(bench, options.repeats)
        else:
            bench.model("staged")
        if "process" not in options.skip:
            processes[count] = timed(bench.process)
        if "increments" not in options.skip:
            increments[str(count)] = bench.increments(options.repeats)
    written = {"ways": results, "increments": increments, "dbt run, its own process": processes}
    (options.output / "bench.json").write_text(json.dumps(written, indent=2) + "\n")
    for count, ways in results.items():
        print(f"\n{count:,} changes: seconds (times the limit)\n{table(ways)}")
        if count in processes:
            print(f"`dbt run` of both in a process of its own: {processes[count]:.1f} s")
    for size, taken in increments.items():
        parts = ", ".join(f"{name} {took:.1f} s" for name, took in taken.items())
        print(f"onto {int(size):,}: {parts}")
    if results:
        draw(results, options.output / "bench.png")
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
