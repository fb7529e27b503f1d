"""What the same runs cost on each Spark and table format, in the same hour.

    python tests/benchmark/formats.py [--changes 1000000] [--rounds 3] [--only TEXT]

For each combination of support/combinations.py it makes a Qlik change table with `generate.py`,
and runs dbt in an open session: a full refresh of staging and of the history, runs of 10,000 new
changes, and runs with nothing new. The first of each warms up and does not count. Prints the
medians, and how many times those of the first combination they are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / name) for name in ("tests/python", "tests/benchmark", "python_udfs")]
sys.path[:0] = [*FOLDERS, str(ROOT / "tests/python/support")]

from combinations import FIRST, OTHERS, Combination  # noqa: E402

BATCH = 10_000


def measure(count: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of each kind of run, on the Spark and target of this process."""
    from bench import Bench, timed
    from conftest import SCHEMA, Project
    from dbt_afterimage.runtime.session import open_session
    from generate import KEY

    project = Project(Path(tempfile.mkdtemp()))
    project.file("models/first.sql", "select 1 as one")
    project.dbt("run")
    spark = open_session({})
    bench = Bench(spark, project, Path(os.environ["AFTERIMAGE_WAREHOUSE"]), count)
    raw, place = f"{SCHEMA}.{bench.raw}", "cast(substr(header__change_seq, 17, 19) as bigint)"
    last = count - BATCH * (rounds + 1)
    bench.create("arriving", f"select * from {raw} where {place} <= {last}")
    bench.stage("arrived", "arriving", "materialized='change_stream'")
    project.history("kept", "arrived", unique_key=[KEY])
    seconds: dict[str, list[float]] = {}

    def run(name: str, *arguments: str) -> None:
        for model, step in (("arrived", "staging"), ("kept", "history")):
            took = timed(lambda model=model: project.dbt("run", "--select", model, *arguments))
            seconds.setdefault(f"{step}, {name}", []).append(took)
            print(f"    {step}, {name}: {took:.2f} s", file=sys.stderr, flush=True)

    for _ in range(rounds + 1):
        run("all", "--full-refresh")
    for _ in range(rounds + 1):
        spark.sql(
            f"insert into {SCHEMA}.arriving select * from {raw}"
            f" where {place} > {last} and {place} <= {last + BATCH}"
        )
        last += BATCH
        run("10,000 new")
        run("nothing new")
    project.file("models/kept_anew.sql", (project.folder / "models/kept.sql").read_text())
    project.dbt("run", "--select", "kept_anew")
    bench.hold_against(
        f"select * from {SCHEMA}.kept", f"select * from {SCHEMA}.kept_anew", "the history"
    )
    spark.stop()
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def measured(combination: Combination, count: int, rounds: int) -> dict[str, float]:
    """Return what a process of a combination measures."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(ROOT / combination.environment / "bin" / "python", __file__, "--here"),
                *("--changes", str(count), "--rounds", str(rounds)),
            ],
            env={
                **os.environ,
                "DBT_TARGET": combination.target,
                "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
                "PYTHONPATH": os.pathsep.join(FOLDERS),
                "AFTERIMAGE_WAREHOUSE": folder,
                "AFTERIMAGE_JARS": str(ROOT / ".afterimage" / "jars"),
                "AFTERIMAGE_CLASS_ARCHIVE": str(ROOT / ".afterimage" / "cache"),
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure the combinations that the command line chooses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="combinations with this in their name")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.changes, options.rounds)))
        return
    first: dict[str, float] = {}
    for one in (FIRST, *OTHERS):
        if options.only.lower() in one.name.lower():
            print(one.name, flush=True)
            found = measured(one, options.changes, options.rounds)
            first = first or found
            for name, took in found.items():
                print(f"  {name:24}{took:8.2f} s{took / first[name]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
