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

With --machine it is the rules of machine.yml, and only the state machines look, both at once: for
ten minutes, and up to two more times with another seed. They look without any mutation first, as
long. Each search uses the JVM of that first one, as a new one does half as much in ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from tempfile import TemporaryDirectory

import pytest
import yaml
from pyspark import SparkContext

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutations.yml")
FOR_MACHINES = Path(__file__).with_name("machine.yml")
MACHINES = tuple(
    f"tests/python/machine/{name}.py" for name in ("test_machine", "test_machine_of_dialects")
)
SEEDS = (1, 2, 3)
# What fails need not become the smallest case.
SEARCH = {"AFTERIMAGE_SECONDS": "600", "AFTERIMAGE_SHRINKS": "no"}

# For each state machine the variables by which a test uses a JVM that runs.
Jvms = dict[str, dict[str, str]]

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


def pytest_on(tests: list[str]) -> list[str]:
    """Return the command that runs tests until one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--tb=short", "--color=no"]
    return [*command, "-o", "cache_dir=.pytest_cache", "-m", "long or not long", *tests]


def failure_in(returncode: int, stdout: str, stderr: str, machine: bool = False) -> str | None:
    """Return the test that failed, with its reason."""
    if returncode == 0:
        return None
    failed = re.search(r"^FAILED (.*)$", stdout, re.MULTILINE)
    # The machines print the errors of runs that must be refused.
    compiles = machine or not DOES_NOT_COMPILE.search(stdout)
    if returncode != 1 or failed is None or not compiles:
        raise RuntimeError(f"pytest ended with {returncode}:\n{stdout}\n{stderr}")
    return failed[1]


def first_failure(copy: Path, tests: list[str]) -> str | None:
    """Run tests in the copy, and return the first that fails with its reason."""
    # The same few random cases in every run.
    environment = {n: v for n, v in os.environ.items() if n != "AFTERIMAGE_EXAMPLES"}
    done = subprocess.run(
        pytest_on(tests),
        cwd=copy,
        env=environment | {"COLUMNS": "250"},
        capture_output=True,
        text=True,
        check=False,
    )
    return failure_in(done.returncode, done.stdout, done.stderr)


def warm_up(copy: Path, test: str, ends: Connection) -> None:
    """Let a state machine look at the unbroken rules, and keep its JVM as long as it is told to."""
    os.chdir(copy)
    code = pytest.main(["-q", "-m", "long", test])
    gateway = SparkContext._gateway
    assert gateway is not None
    known = gateway.gateway_parameters
    variables = {"PORT": str(known.port), "SECRET": known.auth_token}
    ends.send((int(code), {f"PYSPARK_GATEWAY_{name}": one for name, one in variables.items()}))
    with suppress(EOFError):
        ends.recv()


@contextmanager
def warm_jvms(copy: Path) -> Iterator[Jvms]:
    """Give the machines a JVM each that is warm."""
    os.environ.update(SEARCH)
    # Who is started in the background ignores this signal, and so does what it starts.
    signal(SIGINT, default_int_handler)
    context, pipes = get_context("spawn"), {}
    for test in MACHINES:
        pipes[test], ends = context.Pipe()
        context.Process(target=warm_up, args=(copy, test, ends), daemon=True).start()
        ends.close()
    jvms = {}
    for test, pipe in pipes.items():
        code, jvms[test] = pipe.recv()
        if code:
            sys.exit(f"{test} does not pass without any mutation: pytest ended with {code}")
    yield jvms
    for pipe in pipes.values():
        pipe.close()


def found_by_machines(copy: Path, jvms: Jvms) -> str | None:
    """Let the state machines look for a fault, both at once, for ten minutes, with a few seeds."""
    for seed in SEEDS:
        searches = [
            subprocess.Popen(
                pytest_on([test, f"--hypothesis-seed={seed}"]),
                cwd=copy,
                env=os.environ | jvm | {"COLUMNS": "250"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for test, jvm in jvms.items()
        ]
        with ThreadPoolExecutor() as pool:
            outputs = {pool.submit(one.communicate): one for one in searches}
            for ended in as_completed(outputs):
                search = outputs[ended]
                failed = failure_in(search.returncode, *ended.result(), machine=True)
                if failed is not None:
                    for other in searches:
                        # It ends as if it was stopped by hand, and leaves its JVM as it was.
                        if other.poll() is None:
                            other.send_signal(SIGINT)
                    return f"seed {seed}: {failed}"
    return None


def failure_of(mutation: Mutation, copy: Path, jvms: Jvms) -> str | None:
    """Run a mutation's tests, or the machines, on the broken rule, then restore the macro."""
    macro = copy / "macros" / mutation.file
    whole = macro.read_text()
    macro.write_text(mutation.text(copy))
    try:
        return (
            first_failure(copy, mutation.tests) if mutation.tests else found_by_machines(copy, jvms)
        )
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
    with ExitStack() as stack:
        copy = Path(stack.enter_context(TemporaryDirectory(prefix="mutations-"))) / "afterimage"
        copy_repository(copy)
        tests = {test: None for mutation in chosen for test in mutation.tests}
        jvms = stack.enter_context(warm_jvms(copy)) if arguments.machine else {}
        failed = first_failure(copy, list(tests)) if tests else None
        if failed is not None:
            sys.exit(f"This test fails without any mutation: {failed}")
        print(f"{len(tests)} tests pass; now {len(chosen)} mutations:", flush=True)
        for mutation in chosen:
            started = time.monotonic()
            failed = failure_of(mutation, copy, jvms)
            survivors += failed is None
            outcome = "SURVIVED" if failed is None else "seen"
            print(f"{outcome:8}  {time.monotonic() - started:4.0f} s  {mutation.name}", flush=True)
            if failed is not None:
                print(f"                  {failed[:200]}", flush=True)
    print(f"{len(chosen) - survivors} seen, {survivors} survived")
    sys.exit(min(survivors, 1))


if __name__ == "__main__":
    main()
