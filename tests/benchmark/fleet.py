"""What a project of many small tables costs: `bench.py --only fleet`.

Each table has a staging model and a history. Every figure is that of a `dbt run` in a process of
its own, start and all: on the target `local`, and on a server that stays open.
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
            project.file(
                f"models/stg_{name}.sql",
                "{{ config(materialized='change_stream', file_format='iceberg') }}\n"
                f"{{{{ qlik_change_table(source('raw', 'raw_{name}'), unique_key=['{KEY}']) }}}}",
            )
            project.file(
                f"models/{name}_history.sql",
                "{{ config(materialized='history', file_format='iceberg',"
                f" unique_key=['{KEY}']) }}}}\nselect * from {{{{ ref('stg_{name}') }}}}",
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

    def run(self, target: str, threads: int, *arguments: str) -> dict[str, float]:
        """Run all models; return the seconds of the whole, of a model, and how many failed."""
        started = time.monotonic()
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("dbt")),
                *("--quiet", "run", "--target", target, "--threads", str(threads), *arguments),
                *("--profiles-dir", "profiles"),
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

    def measure(self, target: str, threads: int) -> dict[str, dict[str, float]]:
        """Return what each kind of run costs."""
        self.start_over()
        found = {"full": self.run(target, threads, "--full-refresh")}
        for name, count in LANDINGS.items():
            taken = []
            for _ in range(self.repeats):
                self.land(count)
                taken.append(self.run(target, threads))
            found[name] = {key: statistics.median(run[key] for run in taken) for key in taken[0]}
            found[name]["errors"] = sum(run["errors"] for run in taken)
        self.check(target, threads)
        for name, run in found.items():
            print(
                f"fleet {target:6} {threads} threads {name:16} {run['seconds']:7.1f} s,"
                f" a staging model {run['staging']:5.2f} s, a history {run['history']:5.2f} s,"
                f" {run['errors']:.0f} errors",
                flush=True,
            )
        return found

    def check(self, target: str, threads: int) -> None:
        """End if a history is not what a full refresh makes of the same rows."""
        histories = [f"{SCHEMA}.{name}_history" for name in self.names]
        for history in histories:
            self.spark.sql(
                f"create or replace table {history}_grown using iceberg as select * from {history}"
            )
        self.run(target, threads, "--full-refresh")
        for history in histories:
            self.spark.catalog.refreshTable(history)
            grown, rebuilt = self.spark.table(f"{history}_grown"), self.spark.table(history)
            differences = grown.exceptAll(rebuilt).count() + rebuilt.exceptAll(grown).count()
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
