"""Runs the tests of tables on each combination of Spark and table format, all of them or a share.

`make test` and its like run everything on Spark 3.5 with Iceberg; this is for the others. The list
is what docs/reference/configuration.md says is tested (tests/python/docs/test_combinations.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def run(combination: Combination, arguments: list[str], is_alone: bool) -> bool:
    """Run the tests on a combination and return whether they passed.

    Args:
        combination: The Spark and the table format.
        arguments: Further arguments of pytest.
        is_alone: Whether no other one runs meanwhile; else what pytest says comes in one piece.
    """
    python = ROOT / combination.environment / "bin" / "python"
    tests = [f"tests/python/{room}" for room in ROOMS]
    heading = f"== {combination.name}"
    # An archive of classes is for later sessions; of one test there are none.
    further = {} if is_alone else {"AFTERIMAGE_CLASS_ARCHIVE": ""}
    if is_alone:
        print(heading, flush=True)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", *tests, *arguments],
        cwd=ROOT,
        env=os.environ | {"DBT_TARGET": combination.target} | further,
        stdout=None if is_alone else subprocess.PIPE,
        stderr=None if is_alone else subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not is_alone:
        print(f"{heading}\n{done.stdout}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Run the combinations that the command line chooses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draw", metavar="K/N", help="the K-th of N shares of the quick tests of each"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="combinations with this in their name"
    )
    chosen, arguments = parser.parse_known_args()
    named = [one for one in OTHERS if chosen.only.lower() in one.name.lower()]
    at_once = 1
    if chosen.draw:
        # A quick test of each: nearly all of the time is the start, so two of them start at once.
        at_once = 2
        arguments += ["--share-quick", chosen.draw, "-m", "not slow and not minutes and not long"]
    else:
        arguments += ["-m", "not long", "-n", "2", "--dist", "loadfile"]
    with ThreadPoolExecutor(at_once) as pool:
        passed = list(pool.map(lambda one: run(one, arguments, at_once == 1), named))
    failed = [one for one, is_green in zip(named, passed, strict=True) if not is_green]
    for one in failed:
        print(f"failed: {one.name}")
    return 1 if failed or not named else 0


if __name__ == "__main__":
    sys.exit(main())
