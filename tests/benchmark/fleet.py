"""What a project of many small tables costs: `bench.py --only fleet`.

Each table has a staging model and a history, once ours and once as people write them by hand
(dbt's `incremental`, textbook.py). Every figure is that of a `dbt run` in a process of its own,
start and all, the two in turn: on the target `local`, and on a server that stays open.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import textbook
from conftest import SCHEMA, Project
from generate import COLUMNS, KEY, changes

SIZE = 2000
LANDINGS = {"50 new in each": 50, "one new in each": 1, "none new": 0}
WAYS = ("ours", "by_hand")


class Fleet:
    """Many tables of one landing, and the models of each."""

    def __init__(self, spark: Any, project: Project, tables: int, repeats: int) -> None:
        self.spark = spark
        self.project = project
        self.repeats = repeats
        self.names = [f"t{number}" for number in range(1, tables + 1)]
        # Every run finds changes that have not landed yet.
        count = SIZE + repeats * sum(LANDINGS.values())
        changes(spark, count).writeTo(f"{SCHEMA}.fleet").using("iceberg").createOrReplace()
        self.landed = SIZE
        listed = ", ".join(f"{{name: raw_{name}}}" for name in self.names)
        project.file(
            "models/sources.yml", f"sources: [{{name: raw, schema: {SCHEMA}, tables: [{listed}]}}]"
        )
        for name in self.names:
            config = f"file_format='iceberg', unique_key=['{KEY}']"
            staged, raw = f"ref('stg_{name}')", f"source('raw', 'raw_{name}')"
            project.file(
                f"models/ours/stg_{name}.sql",
                "{{ config(materialized='change_stream', file_format='iceberg') }}\n"
                f"{{{{ qlik_change_table({raw}, unique_key=['{KEY}']) }}}}",
            )
            project.file(
                f"models/ours/{name}_history.sql",
                f"{{{{ config(materialized='history', {config}) }}}}\n"
                f"select * from {{{{ {staged} }}}}",
            )
            project.file(
                f"models/by_hand/hand_stg_{name}.sql",
                by_hand_staging(raw),
            )
            project.file(
                f"models/by_hand/hand_{name}_history.sql",
                by_hand_history(f"ref('hand_stg_{name}')"),
            )

    def start_over(self) -> None:
        """Make the raw tables as they are before the first run."""
        self.landed = SIZE
        for name in self.names:
            self.spark.sql(
                f"create or replace table {SCHEMA}.raw_{name} using iceberg as"
                f" select * from {SCHEMA}.fleet where {_PLACE} <= {SIZE}"
            )

    def land(self, count: int) -> None:
        """Add the next changes to every raw table."""
        if count:
            for name in self.names:
                self.spark.sql(
                    f"insert into {SCHEMA}.raw_{name} select * from {SCHEMA}.fleet"
                    f" where {_PLACE} > {self.landed} and {_PLACE} <= {self.landed + count}"
                )
        self.landed += count

    def run(self, way: str, target: str, threads: int, *arguments: str) -> dict[str, float]:
        """Run a way's models; return the seconds of all and of each, and how many failed."""
        started = time.monotonic()
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("dbt")),
                *("--quiet", "run", "--target", target, "--threads", str(threads), *arguments),
                *("--vars", "{afterimage_small_table: 16}"),
                *("--profiles-dir", "profiles", "--select", f"path:models/{way}"),
            ],
            cwd=self.project.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        file = self.project.folder / ".afterimage" / "target" / "run_results.json"
        results = json.loads(file.read_text())["results"]
        errors = sum(result["status"] != "success" for result in results)
        if errors:
            print(done.stdout[-3000:], flush=True)
        models: dict[str, list[float]] = {"staging": [], "history": []}
        for result in results:
            kind = "history" if result["unique_id"].endswith("_history") else "staging"
            models[kind].append(result["execution_time"])
        return {
            "seconds": seconds,
            "staging": statistics.median(models["staging"]),
            "history": statistics.median(models["history"]),
            "errors": errors,
        }

    def measure(self, target: str, threads: int) -> dict[str, dict[str, dict[str, float]]]:
        """Return what each kind of run costs, by the way."""
        self.start_over()
        found: dict[str, dict[str, dict[str, float]]] = {
            way: {"full": self.run(way, target, threads, "--full-refresh")} for way in WAYS
        }
        for name, count in LANDINGS.items():
            taken: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(self.repeats):
                self.land(count)
                for way in WAYS:
                    taken[way].append(self.run(way, target, threads))
            for way, runs in taken.items():
                found[way][name] = {
                    key: statistics.median(run[key] for run in runs) for key in runs[0]
                }
                found[way][name]["errors"] = sum(run["errors"] for run in runs)
        self.check(target, threads)
        for name in found["ours"]:
            for way in WAYS:
                run = found[way][name]
                print(
                    f"fleet {target:6} {threads} threads {name:16} {way:7} {run['seconds']:7.1f} s"
                    f" ({run['seconds'] / found['by_hand'][name]['seconds']:.2f}),"
                    f" a staging model {run['staging']:5.2f} s, a history {run['history']:5.2f} s,"
                    f" {run['errors']:.0f} errors",
                    flush=True,
                )
        return found

    def check(self, target: str, threads: int) -> None:
        """End if a history is not what a full refresh makes of the same rows, or those by hand."""
        names = [KEY, *COLUMNS, "valid_from", "valid_to", "valid_from_seq", "valid_to_seq"]
        histories = [f"{SCHEMA}.{name}_history" for name in self.names]
        for history in histories:
            self.spark.sql(
                f"create or replace table {history}_grown using iceberg as select * from {history}"
            )
        self.run("ours", target, threads, "--full-refresh")
        for history in histories:
            self.spark.catalog.refreshTable(history)
            grown, rebuilt = self.spark.table(f"{history}_grown"), self.spark.table(history)
            by_hand = self.spark.table(f"{SCHEMA}.hand_{history.split('.')[1]}").select(*names)
            for one, other in ((grown, rebuilt), (rebuilt.select(*names), by_hand)):
                differences = one.exceptAll(other).count() + other.exceptAll(one).count()
                if differences:
                    raise SystemExit(f"{history}: {differences} rows differ")
            self.spark.sql(f"drop table {history}_grown")

    def snapshots(self) -> dict[str, float]:
        """Return the seconds of the MERGE of `dbt snapshot` for 50 changes in each table."""
        columns = ", ".join([KEY, *COLUMNS])
        present = [
            f"select {columns} from {SCHEMA}.{name}_history where is_current" for name in self.names
        ]
        for name, query in zip(self.names, present, strict=True):
            snapshot = textbook.new_snapshot(f"{query} and {KEY} % 2 = 0")
            self.spark.sql(
                f"create or replace table {SCHEMA}.{name}_snapshot using iceberg as {snapshot}"
            )
        started = time.monotonic()
        for name, query in zip(self.names, present, strict=True):
            merge = textbook.snapshot_merge(f"{SCHEMA}.{name}_snapshot", f"({query})")
            self.spark.sql(merge)
        return {"one after the other": time.monotonic() - started}


def by_hand_staging(raw: str) -> str:
    """Return the usual incremental model: what is newer than the newest, appended."""
    new = (
        f"(select * from {{{{ {raw} }}}} {{% if is_incremental() %}} where header__change_seq >"
        " (select max(change_seq) from {{ this }}) {% endif %})"
    )
    config = "materialized='incremental', incremental_strategy='append', file_format='iceberg'"
    return f"{{{{ config({config}) }}}}\n{textbook.staging(new, textbook.MASK_SQL)}"


def by_hand_history(staged: str) -> str:
    """Return the usual incremental model: the versions of all keys with something new, merged."""
    newer = "change_seq > (select max(greatest(valid_from_seq, valid_to_seq)) from {{ this }})"
    # A change of the key touches two of them.
    touched = (
        f"(select explode(array(`before`.{KEY}, `after`.{KEY})) from {{{{ {staged} }}}}"
        f" where {newer})"
    )
    of_touched = (
        f"(select * from {{{{ {staged} }}}} {{% if is_incremental() %}} where `after`.{KEY} in"
        f" {touched} or `before`.{KEY} in {touched} {{% endif %}})"
    )
    config = (
        "materialized='incremental', incremental_strategy='merge', unique_key='history_id',"
        " file_format='iceberg'"
    )
    return f"{{{{ config({config}) }}}}\n{textbook.history(of_touched)}"


_PLACE = "cast(substr(header__change_seq, 17, 19) as bigint)"


@contextmanager
def server(project: Project) -> Iterator[None]:
    """Keep a server open on the warehouse."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ["AFTERIMAGE_SERVER_PORT"] = str(port)
    command = [sys.executable, "-m", "dbt_afterimage", "serve"]
    os.environ["DBT_PROFILES_DIR"] = str(project.folder / "profiles")
    subprocess.run([*command, "--daemon"], cwd=project.folder, check=True)
    try:
        yield
    finally:
        subprocess.run([*command, "--stop"], cwd=project.folder, check=True)


def measure(spark: Any, project: Project, tables: int, repeats: int) -> dict[str, Any]:
    """Return the seconds of a fleet of tables, on `local` and on a server, by threads.

    Args:
        spark: The session that makes the tables.
        project: A project to put the models in.
        tables: How many there are.
        repeats: How many landings of each kind.
    """
    fleet = Fleet(spark, project, tables, repeats)
    found: dict[str, Any] = {}
    for threads in (4, 1):
        found[f"local, {threads} threads"] = fleet.measure("local", threads)
    for threads in (4, 1):
        with server(project):
            found[f"server, {threads} threads"] = fleet.measure("server", threads)
    found["dbt snapshot, by its MERGE"] = fleet.snapshots()
    return found
