"""Finds the jars of the table formats: in the folder of jars, or in a wheel beside PySpark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.state import STATE

FOLDER = "AFTERIMAGE_JARS"
_DEFAULT_FOLDER = STATE / "jars"

# For each format, the classes whose name in a setting means that Spark needs its jars.
CATALOGS = {
    "iceberg": (
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg.spark.SparkSessionCatalog",
    ),
    "delta": ("org.apache.spark.sql.delta.catalog.DeltaCatalog",),
}
_ARTIFACT = {"iceberg": "iceberg-spark-runtime", "delta": "delta-spark"}

# Names, versions and digests: what was tested, and what a fetched file must be.
_LIST = Path(__file__).with_name("jars.txt")

_SETTINGS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


@dataclass(frozen=True)
class Jar:
    """A jar in the list.

    Attributes:
        group: Its Maven group.
        artifact: Its name without version.
        version: Its version.
        digest: The SHA-256 digest of the file.
    """

    group: str
    artifact: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"


def needed(conf: Mapping[str, str], env: Mapping[str, str]) -> list[Path]:
    """Return the jars that the settings need and that neither they nor Spark have.

    Args:
        conf: Spark settings.
        env: Environment variables.

    Raises:
        AfterimageError: A jar is missing.
    """
    found: list[Path] = []
    for name, classes in CATALOGS.items():
        artifact = _ARTIFACT[name]
        if any(value in classes for value in conf.values()) and not any(
            artifact in conf.get(key, "") for key in _SETTINGS
        ):
            found += _of_format(name, env)
    return found


def _of_format(name: str, env: Mapping[str, str]) -> Sequence[Path]:
    spark = ".".join(metadata.version("pyspark").split(".")[:2])
    jars = listed(spark, name)
    folder = Path(env.get(FOLDER) or _DEFAULT_FOLDER).absolute()
    paths = [folder / jar.file for jar in jars]
    if jars and all(path.is_file() for path in paths):
        return paths
    wheel = _wheel() if (spark, name) == ("3.5", "iceberg") else None
    if wheel:
        return [wheel]
    missing = ", ".join(path.name for path in paths if not path.is_file())
    raise AfterimageError(f"Spark {spark} needs jars that are not in {folder}: {missing}")


def _wheel() -> Path | None:
    spec = util.find_spec("snowpark_connect_deps_iceberg")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "jars" / "iceberg-spark-runtime-3.5_2.12-1.10.2.jar"


def listed(spark: str, name: str) -> list[Jar]:
    """Return the jars of a format for a version of Spark; the first is the one to ask for.

    Args:
        spark: The version of Spark, such as `3.5`.
        name: The format.
    """
    found = []
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            for_spark, for_format, coordinates, digest = line.split()
            if (for_spark, for_format) == (spark, name):
                group, artifact, version = coordinates.split(":")
                found.append(Jar(group, artifact, version, digest))
    return found


def add(conf: dict[str, str], *, in_one_process: bool, env: Mapping[str, str] = os.environ) -> None:
    """Put the jars that the settings need where Spark finds them.

    Args:
        conf: Spark settings, changed in place.
        in_one_process: Whether driver and executors are one process.
        env: Environment variables.

    Raises:
        AfterimageError: A jar is missing.
    """
    # A jar on the class path is used in place. `spark.jars` would copy it at each start, but
    # executors in processes of their own need it.
    key = "spark.driver.extraClassPath" if in_one_process else "spark.jars"
    separator = os.pathsep if in_one_process else ","
    jars = map(str, needed(conf, env))
    together = separator.join(filter(None, [conf.get(key), *jars]))
    if together:
        conf[key] = together
