"""How fast Afterimage is, next to what the engine can do and to what people write by hand.

    python tests/benchmark/bench.py [--changes 1000000 4000000] [--repeats 3] [--output FOLDER]
        [--only ways increments ...]

Makes a Qlik change table with `generate.py` and turns it into staging and history in these ways,
all on the same cores, one after the other within each round:

* limit: the same columns scanned, shuffled by the key, sorted where a history needs it, written;
* ours: the models that `qlik_change_table` and the `history` materialization make, all they do
  in an open Spark session;
* textbook: the SQL that people write by hand (textbook.py), its mask decoded by built-in SQL;
* textbook_udf: the same with a plain row-at-a-time Python UDF for the mask;
* duckdb: the same again in DuckDB, from the same Parquet files into Parquet files.

Before it measures it holds the histories against each other, row by row. Then:

* mask: our staging with the UDF for the mask, and with built-in SQL in its place;
* current: the present rows, from our history and by DuckDB from its own;
* process: `dbt run` of both models in a process of its own, whose heap is 2 GiB;
* increments: onto the history of each size batches of 10,000 changes and of 1 %, one that reaches
  back to the beginning of time, and none; and `dbt snapshot`'s MERGE for the same 10,000;
* arrivals: into the staging table of each size batches of 10,000 changes, in order and a year late,
  and none; none too from a Parquet landing; and how much of that is Spark's time;
* skew: the same count of changes spread evenly, and with a quarter of them on one key;
* fleet (only where it is asked for): many small tables, see fleet.py.

Prints tables of seconds and ratios, and writes them as bench.json, bench.png and increments.png.
With --note it writes how many times the limit ours took, and at which commit, into ratios.json
beside this file; test_speed.py holds later commits against that.
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

import fleet  # noqa: E402
import textbook  # noqa: E402
from conftest import FORMAT, SCHEMA, Project  # noqa: E402
from generate import COLUMNS, KEY, changes  # noqa: E402

WAYS = ["ours", "limit", "textbook", "textbook_udf", "duckdb"]
PARTS = ["ways", "current", "process", "increments", "arrivals", "skew"]
FLEET = "fleet"
RATIOS = Path(__file__).with_name("ratios.json")
BATCH = 10_000
HISTORY_COLUMNS = [KEY, *COLUMNS, "valid_from", "valid_to", "valid_from_seq", "valid_to_seq"]
# The engines print a double each in its own way.
COMPARED = [f"round({name}, 6)" if name == "ratio" else name for name in HISTORY_COLUMNS]
CONTRACT = (
    "change_id, change_seq, operation, `before`, `after`, changed_columns, absent_columns,"
    " changed_at, transaction_id, reject_reason, warnings, source_rows, changed_by"
)

Seconds = dict[str, dict[str, float]]


class Bench:
    """One size: its tables, and the ways to build them."""

    def __init__(
        self, spark: Any, project: Project, warehouse: Path, count: int, **data: Any
    ) -> None:
        self.spark = spark
        self.project = project
        self.count = count
        self.raw = "_".join(["raw", str(count), *(f"{k}_{int(v)}" for k, v in data.items())])
        place = (f"{SCHEMA}.db", self.raw) if FORMAT == "delta" else (SCHEMA, self.raw, "data")
        self.files = warehouse.joinpath(*place) / "*.parquet"
        self.duck_folder = warehouse / "duckdb"
        self.duck_folder.mkdir(exist_ok=True)
        if not spark.catalog.tableExists(f"{SCHEMA}.{self.raw}"):
            changes(spark, count, **data).writeTo(f"{SCHEMA}.{self.raw}").using(FORMAT).create()
        self.stage("staged", self.raw, "materialized='table'")
        project.file("models/history.sql", history_of("{{ ref('staged') }}"))

    def stage(self, name: str, raw: str, config: str) -> None:
        """Write the model that stages a raw table."""
        self.project.file(
            f"models/{name}.sql",
            f"{{{{ config({config}, file_format='{FORMAT}') }}}}\n"
            f"{{{{ qlik_change_table(source('raw', '{raw}'), unique_key=['{KEY}']) }}}}",
        )
        tables = ", ".join(f"{{name: {name}}}" for name in (self.raw, "arriving"))
        self.project.file(
            "models/sources.yml", f"sources: [{{name: raw, schema: {SCHEMA}, tables: [{tables}]}}]"
        )

    def model(self, name: str) -> None:
        """Rebuild one model with dbt, in this process and its session."""
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
            env={**os.environ, "AFTERIMAGE_DRIVER_MEMORY": "2g"},
            check=True,
        )

    def create(self, table: str, query: str) -> None:
        """Replace a table with the rows of a query."""
        self.spark.sql(f"create or replace table {SCHEMA}.{table} using {FORMAT} as {query}")

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
                    "textbook_udf_history", textbook.history(f"{SCHEMA}.textbook_udf_staged")
                ),
            },
            "duckdb": {
                "staging": lambda: self.duck("staged", textbook.duck_staging(duck_raw)),
                "history": lambda: self.duck("history", textbook.duck_history(duck_staged)),
            },
        }

    def current_ways(self) -> dict[str, Callable[[], None]]:
        """Return our current state, and DuckDB's, each from its own history."""
        self.project.file("models/current.sql", "{{ current_state(ref('history')) }}")
        duck_history = f"read_parquet('{self.duck_folder}/history.parquet')"
        names = ", ".join([KEY, *COLUMNS])
        return {
            "ours": lambda: self.model("current"),
            "duckdb": lambda: self.duck(
                "current", f"select {names} from {duck_history} where is_current"
            ),
        }

    def check(self, chosen: list[str]) -> None:
        """Hold our history against those of other ways: none may have a version of its own."""
        ours = f"select {', '.join(COMPARED)} from {SCHEMA}.history"
        duck = f"parquet.`{self.duck_folder}/history.parquet`"
        for way in ("textbook", "textbook_udf", "duckdb"):
            if way not in chosen:
                continue
            table = duck if way == "duckdb" else f"{SCHEMA}.{way}_history"
            theirs = f"select {', '.join(COMPARED)} from {table}"
            self.hold_against(ours, theirs, f"the history of {way}")
            print(f"{self.count:>9} {way} gives the same history, row by row", flush=True)

    def hold_against(self, ours: str, theirs: str, what: str) -> None:
        """End the benchmark if two queries do not give the same rows."""
        differences = self.spark.sql(
            f"({ours} except all {theirs}) union all ({theirs} except all {ours})"
        ).count()
        if differences:
            raise SystemExit(f"{what}: {differences} rows differ")

    def increments(self, repeats: int) -> dict[str, float]:
        """Return the seconds of history runs of a batch, of an early change, and of nothing new."""
        spark, stream = self.spark, f"{SCHEMA}.stream"
        # The first of each warms up.
        batches = {"10,000 changes": BATCH, "1 %": self.count // 100, "one change": 1}
        sizes = [size for size in batches.values() for _ in range(repeats + 1)]
        place = "cast(substr(change_seq, 17, 19) as bigint)"
        last = self.count - sum(sizes)
        start = "timestamp '2026-01-01 00:00:00'"
        self.create(
            "stream",
            f"select {CONTRACT}, {start} as ingested_at from {SCHEMA}.staged"
            f" where {place} <= {last}",
        )
        self.project.file("models/grown.sql", history_of(stream))
        self.model("grown")
        present = f"select {KEY}, {', '.join(COLUMNS)} from {SCHEMA}.grown where is_current"
        self.create("snapshot", textbook.new_snapshot(present))
        times, merges = [], []
        for number, size in enumerate(sizes):
            spark.sql(
                f"insert into {stream} select {CONTRACT}, {start} + interval {number + 1} hours"
                f" from {SCHEMA}.staged where {place} > {last} and {place} <= {last + size}"
            )
            last += size
            times.append(timed(lambda: self.project.dbt("run", "--select", "grown")))
            self.create("present", present)
            merge = textbook.snapshot_merge(f"{SCHEMA}.snapshot", f"{SCHEMA}.present")
            merges.append(timed(lambda merge=merge: spark.sql(merge)))
        seconds = {
            name: statistics.median(
                times[number * (repeats + 1) + 1 : (number + 1) * (repeats + 1)]
            )
            for number, name in enumerate(batches)
        }
        seconds["dbt snapshot of 10,000"] = statistics.median(merges[1 : repeats + 1])
        seconds["nothing new"] = timed(lambda: self.project.dbt("run", "--select", "grown"))
        # A batch with one key's insert of long before all others.
        spark.sql(
            f"insert into {stream} select 'early', repeat('0', 34) || '1', 'insert', null, `after`,"
            " changed_columns, absent_columns, timestamp '2023-01-01', transaction_id,"
            f" reject_reason, warnings, source_rows, changed_by, {start} + interval 2 days"
            f" from {stream} where operation = 'insert' limit 1"
        )
        seconds["from the start"] = timed(lambda: self.project.dbt("run", "--select", "grown"))
        grown = f"select * from {SCHEMA}.grown"
        self.create("grown_by_batches", grown)
        full = statistics.median(timed(lambda: self.model("grown")) for _ in range(repeats))
        seconds = {"full": full, **seconds}
        batches = f"select * from {SCHEMA}.grown_by_batches"
        self.hold_against(grown, batches, "the history grown by batches")
        return seconds

    def arrivals(self, repeats: int) -> dict[str, float]:
        """Return the seconds of staging runs of a batch and of nothing, and Spark's part."""
        raw, arriving = f"{SCHEMA}.{self.raw}", f"{SCHEMA}.arriving"
        place = "cast(substr(header__change_seq, 17, 19) as bigint)"
        year_before = (
            "concat(cast(left(header__change_seq, 4) as int) - 1, substr(header__change_seq, 5))"
        )
        # The first of each warms up.
        kinds = {"10,000 changes in order": None, "10,000 changes, a year late": year_before}
        last = self.count - BATCH * len(kinds) * (repeats + 1)
        self.create("arriving", f"select * from {raw} where {place} <= {last}")
        self.stage("arrived", "arriving", "materialized='change_stream'")
        seconds = {"full": timed(lambda: self.model("arrived"))}
        seconds |= self.staged_again("nothing new", "arrived", repeats, lambda: None)

        def land(late: str | None) -> None:
            nonlocal last
            columns = [
                late if late and name == "header__change_seq" else f"`{name}`"
                for name in self.spark.table(raw).columns
            ]
            self.spark.sql(
                f"insert into {arriving} select {', '.join(columns)} from {raw}"
                f" where {place} > {last} and {place} <= {last + BATCH}"
            )
            last += BATCH

        for name, kind in kinds.items():
            seconds |= self.staged_again(name, "arrived", repeats, lambda kind=kind: land(kind))
        self.stage("arrived_anew", "arriving", "materialized='table'")
        self.model("arrived_anew")
        self.hold_against(
            f"select {CONTRACT} from {SCHEMA}.arrived_anew",
            f"select {CONTRACT} from {SCHEMA}.arrived",
            "the staging table filled by batches",
        )

        files = "spark_catalog.default.files"
        self.spark.sql(f"drop table if exists {files}")
        self.spark.sql(f"create table {files} using parquet as select * from {raw}")
        self.project.file(
            "models/from_files.sql",
            "{{ config(materialized='change_stream') }}\n"
            "{{ qlik_change_table(api.Relation.create(schema='spark_catalog.default',"
            f" identifier='files'), unique_key=['{KEY}']) }}}}",
        )
        self.model("from_files")
        seconds |= self.staged_again("nothing new in files", "from_files", repeats, lambda: None)
        self.spark.sql(f"drop table {files}")
        return seconds

    def staged_again(
        self, name: str, model: str, repeats: int, land: Callable[[], None]
    ) -> dict[str, float]:
        """Return the median seconds of staging runs, all of it and Spark's part."""
        whole, of_spark = [], []
        for _ in range(repeats + 1):
            land()
            SPARK.seconds = 0.0
            whole.append(timed(lambda: self.project.dbt("run", "--select", model)))
            of_spark.append(SPARK.seconds)
        return {
            name: statistics.median(whole[1:]),
            f"{name}: Spark": statistics.median(of_spark[1:]),
        }


class SparkClock:
    """How long dbt has waited for Spark."""

    seconds = 0.0

    def watch(self) -> None:
        """Count what the cursors of dbt take from now on."""
        from dbt_afterimage.runtime.cursor import AfterimageCursor

        for name in ("execute", "fetchall", "fetchone"):
            method = getattr(AfterimageCursor, name)

            def timed_method(*arguments: Any, method: Any = method) -> Any:
                started = time.monotonic()
                try:
                    return method(*arguments)
                finally:
                    self.seconds += time.monotonic() - started

            setattr(AfterimageCursor, name, timed_method)


SPARK = SparkClock()


def history_of(stream: str) -> str:
    """Return the text of a history model."""
    config = f"materialized='history', unique_key=['{KEY}'], file_format='{FORMAT}'"
    return f"{{{{ config({config}) }}}}\nselect * from {stream}"


def timed(run: Callable[[], Any]) -> float:
    """Return how many seconds something takes."""
    started = time.monotonic()
    run()
    return time.monotonic() - started


def measure(
    ways: dict[str, Callable[[], None]],
    repeats: int,
    label: str,
    warmed_up: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Return the median seconds of each way, in alternation.

    Args:
        ways: What to measure, by name.
        repeats: How often, after a round to warm up.
        label: What to say before each figure.
        warmed_up: Called after the first round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(repeats + 1):
        for name, run in ways.items():
            took = timed(run)
            print(f"{label} round {round_number} {name:20} {took:7.2f} s", flush=True)
            if round_number:
                seconds[name].append(took)
        if round_number == 0:
            warmed_up()
    return {name: statistics.median(times) for name, times in seconds.items()}


def compare(bench: Bench, repeats: int, chosen: list[str]) -> Seconds:
    """Return the seconds of each step of the chosen ways, once their histories are the same."""
    ways = {name: steps for name, steps in bench.ways().items() if name in chosen}
    steps = {f"{way} {step}": run for way, steps in ways.items() for step, run in steps.items()}
    seconds = measure(steps, repeats, f"{bench.count:>9}", lambda: bench.check(chosen))
    return {way: {step: seconds[f"{way} {step}"] for step in steps} for way, steps in ways.items()}


def skew(spark: Any, project: Project, warehouse: Path, count: int, repeats: int) -> Seconds:
    """Return the seconds of both models, evenly spread and with a quarter on one key."""
    found = {}
    for name, data in {"even": {"even": True}, "one key": {"hot": count // 4}}.items():
        bench = Bench(spark, project, warehouse, count, **data)
        ways = {"staging": lambda b=bench: b.model("staged")}
        ways["history"] = lambda b=bench: b.model("history")
        found[name] = measure(ways, repeats, f"{count:>9} {name}")
    return found


def ratios(ways: Seconds) -> dict[str, float]:
    """Return how many times the limit each of our steps took."""
    return {step: round(took / ways["limit"][step], 2) for step, took in ways["ours"].items()}


def note(found: dict[str, Seconds]) -> None:
    """Write the ratios of each size into the repository, with the commit that they are of."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    known = {count: ratios(ways) for count, ways in found.items()}
    RATIOS.write_text(json.dumps({"commit": commit, "ratios": known}, indent=2) + "\n")


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


def draw(results: dict[str, Seconds], increments: Seconds, to: Path) -> None:
    """Draw the bars of each size, and what a run costs by the size of its history."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if results:
        figure, axes = pyplot.subplots(
            1, len(results), figsize=(5 * len(results), 3), squeeze=False, layout="constrained"
        )
        for axis, (count, ways) in zip(axes[0], results.items(), strict=True):
            names = list(ways)[::-1]
            staging = [ways[name]["staging"] for name in names]
            axis.barh(names, staging, label="raw to staging", color="#4477aa")
            history = [ways[name]["history"] for name in names]
            axis.barh(names, history, left=staging, label="staging to history", color="#ccbb44")
            axis.set_title(f"{int(count):,} changes")
            axis.set_xlabel("seconds")
            axis.spines[["top", "right"]].set_visible(False)
        axes[0][0].legend(frameon=False, fontsize="small")
        figure.savefig(to / "bench.png", dpi=120)
    if len(increments) > 1:
        figure, axis = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
        sizes = [int(count) / 1_000_000 for count in increments]
        colors = ["#4477aa", "#228833", "#66ccee", "#aa3377", "#bbbbbb", "#ccbb44", "#ee6677"]
        for name, color in zip(next(iter(increments.values())), colors, strict=True):
            taken = [one[name] for one in increments.values()]
            axis.plot(sizes, taken, marker="o", label=name, color=color)
        axis.set_yscale("log")
        axis.set_xlabel("million changes in the history")
        axis.set_ylabel("seconds")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(to / "increments.png", dpi=120)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--changes", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / ".afterimage" / "benchmark")
    parser.add_argument("--only", nargs="+", default=PARTS, choices=[*PARTS, FLEET])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--tables", type=int, default=30, help="of the fleet")
    parser.add_argument("--note", action="store_true", help="write ratios.json")
    options = parser.parse_args()
    if not {"ours", "limit"} <= set(options.ways):
        parser.error("--ways: ours and the limit, which the others are held against, are needed")

    options.output.mkdir(parents=True, exist_ok=True)
    warehouse = options.output / "warehouse"
    os.environ["AFTERIMAGE_WAREHOUSE"] = str(warehouse.absolute())
    os.environ["AFTERIMAGE_CLASS_ARCHIVE"] = str(ROOT / ".afterimage" / "cache")
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    folder = Path(tempfile.mkdtemp())
    project = Project(folder)
    project.file("models/first.sql", "select 1 as one")
    project.dbt("run")
    from dbt_afterimage.runtime.session import open_session

    spark = open_session({})
    SPARK.watch()
    textbook.register(spark)
    # What an earlier call has measured of other sizes stays.
    file = options.output / "bench.json"
    written: dict[str, dict[str, Any]] = {part: {} for part in [*PARTS, FLEET]}
    if file.exists():
        written |= json.loads(file.read_text())
    if FLEET in options.only:
        written[FLEET][str(options.tables)] = fleet.measure(
            spark, Project(Path(tempfile.mkdtemp())), options.tables, options.repeats
        )
        file.write_text(json.dumps(written, indent=2) + "\n")
    for count in options.changes if set(options.only) - {FLEET} else []:
        if "skew" in options.only:
            found = skew(spark, project, warehouse, count, options.repeats)
            written["skew"][str(count)] = found
        bench = Bench(spark, project, warehouse, count)
        if "ways" in options.only:
            written["ways"][str(count)] = compare(bench, options.repeats, options.ways)
        else:
            bench.model("staged")
        if "current" in options.only:
            bench.ways()["duckdb"]["staging"]()
            bench.ways()["duckdb"]["history"]()
            ways = bench.current_ways()
            bench.model("history")
            written["current"][str(count)] = measure(ways, options.repeats, f"{count:>9} current")
        if "process" in options.only:
            written["process"][str(count)] = {"dbt run": timed(bench.process)}
        if "increments" in options.only:
            written["increments"][str(count)] = bench.increments(options.repeats)
        if "arrivals" in options.only:
            written["arrivals"][str(count)] = bench.arrivals(options.repeats)
        file.write_text(json.dumps(written, indent=2) + "\n")
    if options.note:
        note({str(count): written["ways"][str(count)] for count in options.changes})
    for count, ways in written["ways"].items():
        print(f"\n{int(count):,} changes: seconds (times the limit)\n{table(ways)}")
    for part in PARTS[1:]:
        for count, taken in written[part].items():
            print(f"{part}, {int(count):,} changes: {json.dumps(taken)}")
    draw(written["ways"], written["increments"], options.output)
    spark.stop()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
