"""Break one rule of the SQL at a time, and report which test sees it.

Usage, from the repository's root:

    .venv/bin/python tests/mutations/mutate.py               every mutation (an hour)
    .venv/bin/python tests/mutations/mutate.py --only netiq  those with this in their name or file
    .venv/bin/python tests/mutations/mutate.py --list        their names, without running anything
    .venv/bin/python tests/mutations/mutate.py --machine     those that machines must see (hours)

mutations.yml lists the mutations. Each one replaces a text in one macro and names the tests that
must fail then. They run in a copy of the repository, so the repository itself is left alone.

The tests run once without any mutation, and must pass. A mutation is seen if one of its tests
fails, and survives if all pass: then a rule has no test. The exit code is 1 if any survives. SQL
that does not compile proves nothing, so it stops the script with an error, like any other trouble.

With --machine it is the rules of machine.yml, and only the state machines look: for ten minutes,
and up to two more times with another seed. They look without any mutation first, for ten minutes
too. All use the JVM of that first search, as a new one does half as much in its first minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from pyspark import SparkContext

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.yml")
FOR_MACHINES = Path(__file__).with_name("machine.yml")
SEEDS = (1, 2, 3)
# Of each of the two searches. What fails need not become the smallest case.
SEARCH = {"AFTERIMAGE_SECONDS": "300", "AFTERIMAGE_SHRINKS": "no"}

# The macros' own errors, which tests provoke, begin with who raises them: `history people: …`.
DOES_NOT_COMPILE = re.compile(
    "PARSE_SYNTAX_ERROR|UNRESOLVED_|DATATYPE_MISMATCH"
    r"|Compilation Error.*\n(?:E )? *(?=\S)(?!E |[!=]{3}|\S+(?: \S+)?: )"
)


@dataclass(frozen=True)
class Mutation:
    """A rule, the text of a macro that states it, what breaks it, and the tests that see that."""

    name: str
    file: str
    before: str
    after: str
    tests: list[str] = field(default_factory=list)

    def text(self, root: Path) -> str:
        """Return the macro's text with the rule broken."""
        text = (root / "macros" / self.file).read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.file} must hold this exactly once: {self.before}")
        return text.replace(self.before, self.after)


def mutations(listed: Path = LIST) -> list[Mutation]:
    """Read a list."""
    return [Mutation(**entry) for entry in yaml.safe_load(listed.read_text())]


def copy_repository(copy: Path) -> None:
    """Copy what the tests need; the cache of Java's classes is shared."""
    state = shutil.ignore_patterns(".git", ".venv*", ".afterimage", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=state)
    cache = ROOT / ".afterimage" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (copy / ".afterimage").mkdir()
    (copy / ".afterimage" / "cache").symlink_to(cache)


def first_failure(copy: Path, tests: list[str], machine: bool = False) -> str | None:
    """Run tests in the copy, and return the first that fails with its reason."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--tb=short", "--color=no"]
    command += ["-o", "cache_dir=.pytest_cache", "-m", "long or not long", *tests]
    # The same few random cases in every run.
    environment = {n: v for n, v in os.environ.items() if n != "AFTERIMAGE_EXAMPLES"}
    environment |= {"COLUMNS": "250"}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    failed = re.search(r"^FAILED (.*)$", done.stdout, re.MULTILINE)
    # The machines print the errors of runs that must be refused.
    compiles = machine or not DOES_NOT_COMPILE.search(done.stdout)
    if done.returncode != 1 or failed is None or not compiles:
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return failed[1]


def warm_up(copy: Path) -> None:
    """Let the state machines look at the unbroken rules in this process, and keep its JVM."""
    os.environ.update(SEARCH)
    os.chdir(copy)
    code = pytest.main(["-q", "-m", "long", "tests/python/machine"])
    if code:
        sys.exit(f"The machines do not pass without any mutation (pytest ended with {code})")
    gateway = SparkContext._gateway
    assert gateway is not None
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.gateway_parameters.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.gateway_parameters.auth_token


def found_by_machines(copy: Path) -> str | None:
    """Let the state machines look for a fault for ten minutes, with a few seeds."""
    for seed in SEEDS:
        tests = ["tests/python/machine", f"--hypothesis-seed={seed}"]
        failed = first_failure(copy, tests, machine=True)
        if failed is not None:
            return f"seed {seed}: {failed}"
    return None


def failure_of(mutation: Mutation, copy: Path) -> str | None:
    """Run a mutation's tests, or the machines, on the broken rule, then restore the macro."""
    macro = copy / "macros" / mutation.file
    whole = macro.read_text()
    macro.write_text(mutation.text(copy))
    try:
        return first_failure(copy, mutation.tests) if mutation.tests else found_by_machines(copy)
    finally:
        macro.write_text(whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="part of a name or file")
    parser.add_argument("--list", action="store_true", help="print the mutations and end")
    parser.add_argument("--machine", action="store_true", help="those for the state machines")
    arguments = parser.parse_args()
    chosen = [
        mutation
        for mutation in mutations(FOR_MACHINES if arguments.machine else LIST)
        if arguments.only.lower() in f"{mutation.name} {mutation.file}".lower()
    ]
    if not chosen:
        sys.exit(f"No mutation has this in its name or file: {arguments.only}")
    if arguments.list:
        for mutation in chosen:
            print(f"{mutation.name} ({mutation.file})")
        return

    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder) / "afterimage"
        copy_repository(copy)
        tests = {test: None for mutation in chosen for test in mutation.tests}
        if arguments.machine:
            warm_up(copy)
        failed = first_failure(copy, list(tests)) if tests else None
        if failed is not None:
            sys.exit(f"This test fails without any mutation: {failed}")
        print(f"{len(tests)} tests pass; now {len(chosen)} mutations:", flush=True)
        for mutation in chosen:
            started = time.monotonic()
            failed = failure_of(mutation, copy)
            survivors += failed is None
            outcome = "SURVIVED" if failed is None else "seen"
            print(f"{outcome:8}  {time.monotonic() - started:4.0f} s  {mutation.name}", flush=True)
            if failed is not None:
                print(f"                  {failed[:200]}", flush=True)
    print(f"{len(chosen) - survivors} seen, {survivors} survived")
    sys.exit(min(survivors, 1))


if __name__ == "__main__":
    main()
