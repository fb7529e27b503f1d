"""Finds the jars of table formats and of Kafka for the installed Spark, and fetches them once.

Spark brings none of them. Their jars are kept in a folder and used in place: a session
starts as fast as with jars of its own, without a network. What is fetched is checked against
`jars.txt`, which holds what was tested.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import java
from dbt_afterimage.runtime.locks import lock
from dbt_afterimage.runtime.state import state_folder

FOLDER = "AFTERIMAGE_JARS"  # the folder of the jars; what it lacks is fetched into it

_LIST = Path(__file__).with_name("jars.txt")
_LOCK_FILE = ".lock"
_UNFINISHED = ".fetching-"

# A Java that comes by pip knows the usual authorities alone. The system's Java also knows those of
# a company, from these files.
_TRUSTED = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


@dataclass(frozen=True)
class Format:
    """A table format, or another source of rows.

    Attributes:
        title: Its name.
        artifact: What the names of its main jar begin with.
        catalogs: The catalogs that need it, as settings name them.
    """

    title: str
    artifact: str
    catalogs: tuple[str, ...] = ()


FORMATS = (
    Format(
        "Iceberg",
        "iceberg-spark-runtime",
        (
            "org.apache.iceberg.spark.SparkCatalog",
            "org.apache.iceberg.spark.SparkSessionCatalog",
        ),
    ),
    Format("Delta", "delta-spark", ("org.apache.spark.sql.delta.catalog.DeltaCatalog",)),
)

# No setting tells that a command reads topics, and nobody else needs these jars.
KAFKA = Format("Kafka", "spark-sql-kafka")
_wanted: list[Format] = []


def want(one: Format) -> None:
    """Have a format's jars in the session that this process starts, whatever its settings.

    Args:
        one: The format.
    """
    if one not in _wanted:
        _wanted.append(one)


@dataclass(frozen=True)
class Jar:
    """A jar in the list.

    Attributes:
        spark: The Spark it is for, with Scala's version, such as `3.5_2.12`.
        title: The format it belongs to.
        group: Its Maven group.
        artifact: Its name without its version.
        version: Its version.
        digest: The SHA-256 digest of the file.
    """

    spark: str
    title: str
    group: str
    artifact: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"


def add(
    conf: dict[str, str],
    *,
    in_one_process: bool,
    env: Mapping[str, str],
    project: Path = Path(),
) -> None:
    """Put the jars that the settings need where Spark finds them.

    Args:
        conf: Spark settings, changed in place. Jars that they name themselves are kept.
        in_one_process: Whether driver and executors are one process.
        env: Environment variables.
        project: The project's folder, which keeps the jars unless `env` names another one.

    Raises:
        AfterimageError: A jar is missing and cannot be fetched.
    """
    found = [
        str(path)
        for one in (*FORMATS, *_wanted)
        if one in _wanted or any(value in one.catalogs for value in conf.values())
        if not _is_named(one, conf, env)
        for path in _paths(one, conf, env, project)
    ]
    if found:
        # A jar on the class path is used in place. `spark.jars` would copy it at each start, but
        # executors in processes of their own need it.
        key = "spark.driver.extraClassPath" if in_one_process else "spark.jars"
        separator = os.pathsep if in_one_process else ","
        conf[key] = separator.join(filter(None, [conf.get(key), *found]))


def _is_named(wanted: Format, conf: Mapping[str, str], env: Mapping[str, str]) -> bool:
    """Whether the settings or Spark itself have the format already."""
    settings = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    if any(wanted.artifact in conf.get(key, "") for key in settings):
        return True
    home = _spark_home(env)
    defaults = Path(env.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    return any((home / "jars").glob(f"{wanted.artifact}*.jar")) or (
        defaults.is_file()
        and wanted.artifact in defaults.read_text(encoding="utf-8", errors="replace")
    )


def _spark_home(env: Mapping[str, str]) -> Path:
    if env.get("SPARK_HOME"):
        return Path(env["SPARK_HOME"])
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise AfterimageError(
            "PySpark is not installed: install Afterimage with one (pip install '.[local]')"
        )
    return Path(spec.origin).parent


def _spark_version(env: Mapping[str, str]) -> str:
    """Return the version of Spark and of its Scala, such as `3.5_2.12`."""
    home = _spark_home(env)
    for jar in (home / "jars").glob("spark-core_*.jar"):
        found = re.match(r"spark-core_(\d+\.\d+)-(\d+\.\d+)", jar.name)
        if found:
            return f"{found[2]}_{found[1]}"
    raise AfterimageError(f"there is no Spark in {home}: unset SPARK_HOME, or install PySpark anew")


def listed(spark: str, title: str) -> list[Jar]:
    """Return the jars of a format; the first is the format's own, and the others those it needs.

    Args:
        spark: The version of Spark and of its Scala.
        title: The format.
    """
    return [jar for jar in _read() if (jar.spark, jar.title) == (spark, title)]


def fetched(listing: Path, folder: Path, env: Mapping[str, str]) -> list[Path]:
    """Return the jars of a list of its own, which are fetched into a folder once.

    Args:
        listing: The list, written as `jars.txt` is.
        folder: The folder.
        env: Environment variables.

    Raises:
        AfterimageError: A jar is missing and cannot be fetched.
    """
    jars = _read(listing)
    if _missing(jars, folder):
        _fetch_once(jars, folder, {}, env)
    return [folder / jar.file for jar in jars]


def _read(listing: Path | None = None) -> list[Jar]:
    lines = (listing or _LIST).read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return [Jar(row[0], row[1], *_three(row[2]), row[3]) for row in rows]


def _three(name: str) -> tuple[str, str, str]:
    group, artifact, version = name.split(":")
    return group, artifact, version


def _paths(
    wanted: Format, conf: Mapping[str, str], env: Mapping[str, str], project: Path
) -> Sequence[Path]:
    spark = _spark_version(env)
    jars = listed(spark, wanted.title)
    folder = _folder(env, project)
    if jars and not _missing(jars, folder):
        return [folder / jar.file for jar in jars]
    if (spark, wanted.title) == ("3.5_2.12", "Iceberg") and (wheel := _wheel()):
        return [wheel]
    if not jars:
        tested = sorted({jar.spark for jar in _read() if jar.title == wanted.title})
        raise AfterimageError(
            f"Afterimage knows no jar of {wanted.title} for Spark {_both(spark)}, only for"
            f" {', '.join(map(_both, tested))}. Name one in the profile (spark.jars.packages)."
        )
    _fetch_once(jars, folder, conf, env)
    return [folder / jar.file for jar in jars]


def _both(spark: str) -> str:
    version, _, scala = spark.partition("_")
    return f"{version} (Scala {scala})"


def _folder(env: Mapping[str, str], project: Path) -> Path:
    if env.get(FOLDER):
        return Path(env[FOLDER]).absolute()
    return state_folder(project.absolute()) / "jars"


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file).is_file()]


def _wheel() -> Path | None:
    """Return the jar of Iceberg for Spark 3.5 that comes by pip."""
    spec = util.find_spec("snowpark_connect_deps_iceberg")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "jars" / "iceberg-spark-runtime-3.5_2.12-1.10.2.jar"


# Two threads may ask for the same jars, and both must hear why there are none.
_failures: dict[tuple[Path, str], str] = {}
_guard = threading.Lock()


def _fetch_once(
    jars: Sequence[Jar], folder: Path, conf: Mapping[str, str], env: Mapping[str, str]
) -> None:
    with _guard:
        known = (folder, jars[0].file)
        if known in _failures:
            raise AfterimageError(_failures[known])
        try:
            _fetch(jars, folder, conf, env)
        except AfterimageError as error:
            _failures[known] = str(error)
            raise


def _fetch(
    jars: Sequence[Jar], folder: Path, conf: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """Fetch what the folder lacks; another process that does so already is waited for."""
    title = f"{jars[0].title} {jars[0].version}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _LOCK_FILE).open("w") as file:
            lock(file)
            missing = _missing(jars, folder)
            if not missing:
                return
            print(f"afterimage: fetching the jars of {title}, once", file=sys.stderr, flush=True)
            for left in folder.glob(f"{_UNFINISHED}*"):  # of a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(
                dir=folder, prefix=_UNFINISHED, ignore_cleanup_errors=True
            ) as unfinished:
                _resolve(missing, Path(unfinished), conf, env)
                for jar in missing:
                    _check(jar, Path(unfinished) / jar.file)
                for jar in missing:
                    (Path(unfinished) / jar.file).replace(folder / jar.file)
    except OSError as error:
        raise _failure(title, error.strerror or str(error), jars, folder) from None
    except _FetchError as error:
        raise _failure(title, str(error), jars, folder) from None


class _FetchError(Exception):
    """Says why jars cannot be fetched."""


def _failure(title: str, reason: str, jars: Sequence[Jar], folder: Path) -> AfterimageError:
    names = ", ".join(jar.file for jar in _missing(jars, folder))
    return AfterimageError(
        f"the jars of {title} cannot be fetched: {reason}. Run again with a network, or put {names}"
        f" into {folder} ({FOLDER} names another folder)."
    )


def _check(jar: Jar, path: Path) -> None:
    if not path.is_file():
        raise _FetchError(f"{jar.file} was not found")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != jar.digest:
        raise _FetchError(
            f"{jar.file} is not the file that was tested (SHA-256 {digest[:12]}…, not"
            f" {jar.digest[:12]}…), so it was thrown away"
        )


def _resolve(
    jars: Sequence[Jar], folder: Path, conf: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """Let Ivy, which Spark has for `spark.jars.packages`, put jars into a folder.

    Only the jars in the list: Delta names dozens that Spark has already.
    """
    ivy = next((_spark_home(env) / "jars").glob("ivy-*.jar"), None)
    if ivy is None:
        raise _FetchError("this Spark has no Ivy, which fetches them")
    settings = conf.get("spark.jars.ivySettings")
    if not settings:
        settings = str(folder / "settings.xml")
        Path(settings).write_text(_ivy_settings(conf), encoding="utf-8")
    wanted = folder / "jars.xml"
    wanted.write_text(_ivy_module(jars), encoding="utf-8")
    trusted = [f"-Djavax.net.ssl.trustStore={path}" for path in _TRUSTED if path.is_file()]
    command = [
        str(java.choose_java(env).home / "bin" / "java"),
        *trusted[:1],
        *["-cp", str(ivy), "org.apache.ivy.Main"],
        *["-settings", settings, "-cache", str(folder / "cache"), "-ivy", str(wanted)],
        *["-retrieve", f"{folder}/[artifact]-[revision].[ext]"],
    ]
    done = subprocess.run(
        command,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
    )
    lacking = [jar.file for jar in jars if not (folder / jar.file).is_file()]
    if lacking:
        raise _FetchError(_reason(done.stdout) or f"{lacking[0]} was not found")


def _reason(said: str) -> str | None:
    """Return the first error of the network in what Ivy says, without Java's packages."""
    found = re.search(r"\(((?:[a-z]\w*\.)+[A-Z]\w*(?:: [^\n]*)?)\)\s*$", said, re.MULTILINE)
    return re.sub(r"\b(?:[a-z]\w*\.)+(?=[A-Z])", "", found[1]) if found else None


def _ivy_settings(conf: Mapping[str, str]) -> str:
    """Return settings of our own: Spark's would also look into the user's Maven folder.

    Ivy takes that for complete where it has a module's description without the jar.
    """
    roots = filter(None, map(str.strip, conf.get("spark.jars.repositories", "").split(",")))
    own = "".join(
        f'<ibiblio name="own-{number}" m2compatible="true" root="{html.escape(root)}"'
        ' timeoutConstraint="patience"/>'
        for number, root in enumerate(roots)
    )
    return f"""\
<ivysettings>
  <settings defaultResolver="all"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <chain name="all">
      {own}<ibiblio name="central" m2compatible="true" timeoutConstraint="patience"/>
    </chain>
  </resolvers>
</ivysettings>
"""


def _ivy_module(jars: Sequence[Jar]) -> str:
    names = "\n".join(
        f'    <dependency org="{jar.group}" name="{jar.artifact}"'
        f' rev="{jar.version}" transitive="false"/>'
        for jar in jars
    )
    return f"""\
<ivy-module version="2.0">
  <info organisation="afterimage" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">
{names}
  </dependencies>
</ivy-module>
"""
