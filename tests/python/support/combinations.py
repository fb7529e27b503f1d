"""Runs the tests of tables on each combination of Spark and table format, all of them or a share.

`make test` and its like run everything on Spark 3.5 with Iceberg; this is for the others. The list
is what docs/reference/configuration.md says is tested (tests/python/docs/test_combinations.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What a table format or a Spark may do otherwise. Other commands, pages and docs are the same.
ROOMS = [
    *("formats", "history", "dialects", "packaging/test_project.py", "commands/test_erase.py"),
    "real/test_real_kafka.py",
]


@dataclass(frozen=True)
class Combination:
    """A Spark and a table format.

    Attributes:
        spark: The version of PySpark in the environment.
        tables: The format and its version.
        environment: The folder of the environment.
        target: dbt's target.
    """

    spark: str
    tables: str
    environment: str
    target: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"Spark {self.spark}, {self.tables}"


FIRST = Combination("3.5.8", "Iceberg 1.10.2", ".venv", "local")
OTHERS = [
    Combination("3.5.8", "Delta 3.3.3", ".venv", "delta"),
    Combination("4.1.4", "Iceberg 1.12.0", ".venv-spark4", "local"),
    Combination("4.1.4", "Delta 4.3.1", ".venv-spark4", "delta"),
]


def run(combination: Combination, arguments: list[str], processes: list[str]) -> bool:
    """Run the tests on a combination and return whether they passed.

    Args:
        combination: The Spark and the table format.
        arguments: Further arguments of pytest.
        processes: Those that say how many processes there are.
    """
    python = ROOT / combination.environment / "bin" / "python"
    tests = [f"tests/python/{room}" for room in ROOMS]
    print(f"== {combination.name}", flush=True)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", *processes, *tests, *arguments],
        cwd=ROOT,
        env={**os.environ, "DBT_TARGET": combination.target},
        check=False,
    )
    return done.returncode == 0


def main() -> int:
    """Run the combinations that the command line chooses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draw", metavar="K/N", help="the K-th of N shares of the tests of one, each in its turn"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="combinations with this in their name"
    )
    chosen, arguments = parser.parse_known_args()
    arguments = ["-m", "not long", *arguments]
    named = [one for one in OTHERS if chosen.only.lower() in one.name.lower()]
    processes = ["-n", "2", "--dist", "loadfile"]
    if chosen.draw and named:
        # Two tests of one of them, in turn: nearly all of the time is the start. (N must not be a
        # multiple of three, or each would have a third of the shares.)
        turn = int(chosen.draw.split("/")[0])
        named, processes = named[turn % len(named) :][:1], []
        arguments += ["--draw", chosen.draw]
    passed = [run(one, arguments, processes) for one in named]
    failed = [one for one, is_green in zip(named, passed, strict=True) if not is_green]
    for one in failed:
        print(f"failed: {one.name}")
    return 1 if failed or not named else 0


if __name__ == "__main__":
    sys.exit(main())
