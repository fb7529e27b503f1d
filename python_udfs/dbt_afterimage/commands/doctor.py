"""`afterimage doctor`: checks the machine and the project, and says how to repair them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from dbt_afterimage.commands.options import where_options
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import java
from dbt_afterimage.runtime.locks import check_system
from dbt_afterimage.runtime.project import Project, Where
from dbt_afterimage.runtime.warehouse import local_folder

GIB = 1024**3
# A full disk stops a run in the middle, and Spark's shuffles need space too.
LEAST_DISK, LITTLE_DISK = 1 * GIB, 10 * GIB

# Folders without property files and doc blocks of the project.
_NOT_OURS = {"dbt_packages", "target", "logs", "venv", "node_modules"}
_PROPERTIES = {".md", ".yml", ".yaml"}

# What a session's time zone may be called that is UTC.
_UTC = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024 * GIB}


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        level: `ok`, `warning` or `problem`.
        remedy: What to do; none if all is well.
    """

    level: str
    what: str
    found: str
    remedy: str | None = None


@click.command("doctor")
@click.option(
    "--connect", is_flag=True, help="Also start Spark, or connect to the server, and run a query."
)
@where_options
def command(connect: bool, where: Where) -> int:
    """Check the machine and the project.

    Looks at Java, Python, memory, disk, packages, profile and warehouse. Prints what is wrong
    and what to do. The exit code is 1 if there is a problem; a warning is not one.
    """
    worst = 0
    for finding in findings(where, connect=connect):
        print(f"{finding.level:<8} {finding.what}: {finding.found}", flush=True)
        if finding.remedy:
            print(f"{'':<8} -> {finding.remedy}", flush=True)
        worst = max(worst, finding.level == "problem")
    return int(worst)


def findings(where: Where, *, connect: bool) -> Iterator[Finding]:
    """Run all checks.

    Args:
        where: The project and the target.
        connect: Whether to start Spark, or connect to the server.

    Yields:
        What each check found.
    """
    system = check_operating_system()
    yield system
    if system.level == "problem":  # Most checks would fail for this reason alone.
        return
    requirements = metadata.requires("dbt-afterimage") or []
    yield check_python(platform.python_version())
    yield from check_packages(requirements, _installed_version)
    project, finding = _project(where)
    credentials: Any = project.credentials if project else None
    # A client of a server needs none.
    if credentials is None or credentials.method == "session":
        yield check_java(os.environ)
    yield finding
    yield check_plugin()
    if project is None or credentials is None:
        return
    if credentials.method == "session":
        settings = {
            key: str(value) for key, value in (credentials.server_side_parameters or {}).items()
        }
        yield check_memory(settings.get("spark.driver.memory", "1g"), memory())
        yield from check_warehouses(settings, project.folder)
    else:
        yield check_server(str(credentials.host), int(credentials.port))
    if connect:
        yield _check_answer(project)


def check_operating_system() -> Finding:
    """Check that Afterimage works on this operating system."""
    what, found = "system", platform.system()
    try:
        check_system()
    except AfterimageError as error:
        reason, _, remedy = str(error).partition("; ")
        return Finding("problem", what, f"{found}: {reason}", f"{remedy[:1].upper()}{remedy[1:]}.")
    return Finding("ok", what, found)


def check_python(version: str) -> Finding:
    """Check a Python version against the package's requirement.

    Args:
        version: The version, such as `3.11.4`.
    """
    from packaging.specifiers import SpecifierSet

    wanted = metadata.metadata("dbt-afterimage")["Requires-Python"]
    if SpecifierSet(wanted).contains(version, prereleases=True):
        return Finding("ok", "Python", f"{version} ({sys.executable})")
    return Finding(
        "problem", "Python", f"{version}, not {wanted}", "Create the environment with Python 3.11."
    )


def check_packages(
    requirements: list[str], installed: Callable[[str], str | None]
) -> Iterator[Finding]:
    """Check the installed packages against the package's requirements.

    Args:
        requirements: The requirements of the package, as its metadata lists them.
        installed: Returns the version of a package, none if it is not installed.

    Yields:
        A finding for each group (the package itself and each extra), or one for each bad package.
    """
    from packaging.requirements import Requirement

    for extra, needed_for in (
        ("", ""),
        ("local", "Spark in the same process"),
        ("server", "the target `server`"),
        ("pages", "`afterimage timeline` and `afterimage health`"),
    ):
        group = f"packages for {needed_for}" if needed_for else "packages"
        name = f"'dbt-afterimage[{extra}]'" if extra else "dbt-afterimage"
        good, bad = [], False
        for text in requirements:
            requirement = Requirement(text)
            marker = requirement.marker
            of_extra = marker is not None and "extra" in str(marker)
            applies = marker is None or marker.evaluate({"extra": extra})
            if not applies or of_extra != bool(extra):
                continue
            version = installed(requirement.name)
            missing = [text for text in _brought_along(requirement) if installed(text) is None]
            if version is None or missing:
                bad = True
                level = "warning" if extra else "problem"
                found = f"{missing[0] if version else requirement.name} is not installed"
                yield Finding(level, group, found, f"pip install {name}")
            elif not requirement.specifier.contains(version, prereleases=True):
                bad = True
                wanted = f"{requirement.name}{requirement.specifier}"
                found = f"{requirement.name} is {version}, not {requirement.specifier}"
                yield Finding("problem", group, found, f"pip install '{wanted}'")
            else:
                good.append(f"{requirement.name} {version}")
        if not bad:
            yield Finding("ok", group, ", ".join(good))


def _brought_along(requirement: Any) -> list[str]:
    """Return the packages that the extras of a requirement need, such as `dbt-spark[PyHive]`."""
    from packaging.requirements import Requirement

    try:
        asked = [Requirement(text) for text in metadata.requires(requirement.name) or []]
    except metadata.PackageNotFoundError:
        return []
    return [
        one.name
        for one in asked
        for extra in requirement.extras
        if one.marker and "extra" in str(one.marker) and one.marker.evaluate({"extra": extra})
    ]


def check_java(env: Mapping[str, str]) -> Finding:
    """Check the Java that Spark would run on.

    Args:
        env: Environment variables.
    """

    try:
        choice = java.choose_java(env)
    except AfterimageError as error:
        found, _, remedy = str(error).partition(" Install ")
        return Finding("problem", "Java", found, f"Install {remedy}")
    found = f"{choice.version} ({choice.home})"
    if choice.message is None:
        return Finding("ok", "Java", found)
    return Finding(
        "warning", "Java", choice.message, "To use your own, set JAVA_HOME to a Java 11 or 17."
    )


def check_plugin() -> Finding:
    """Check that dbt's Spark sessions have the UDFs."""
    try:
        from dbt_afterimage import plugins

        plugin = plugins[0](project_name="afterimage")
        plugin.initialize()
    except Exception as error:  # An import from another version may raise anything.
        found = f"{type(error).__name__}: {error}"
        return Finding(
            "problem", "dbt plugin", found, "pip install --force-reinstall dbt-afterimage"
        )
    return Finding("ok", "dbt plugin", "loads; dbt's sessions have the UDFs")


def check_memory(driver: str, machine: tuple[int, int]) -> Finding:
    """Check the driver's heap against the machine's memory.

    Args:
        driver: The setting `spark.driver.memory`, such as `4g`.
        machine: All memory, and what is available of it, in bytes.
    """
    match = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", driver.strip().lower())
    remedy = "Set AFTERIMAGE_DRIVER_MEMORY (the profile's spark.driver.memory) to "
    if match is None:
        return Finding(
            "problem", "memory", f"`{driver}` is not a size", remedy + "a size such as 4g."
        )
    # Spark takes a plain number for MiB here.
    heap = int(match[1]) * (_UNITS[match[2]] if match[2] else _UNITS["m"])
    total, available = machine
    found = f"{driver} for Spark, {_size(available)} available of {_size(total)}"
    fit = f"{max(total * 6 // 10 // 1024**2, 512)}m or less."
    if heap > total:
        return Finding("problem", "memory", found, remedy + fit)
    if heap > available:
        return Finding("warning", "memory", found, remedy + "less, or close other programs.")
    return Finding("ok", "memory", found)


def memory() -> tuple[int, int]:
    """Return the memory of this machine or container, and what is available of it, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page
    try:
        available = os.sysconf("SC_AVPHYS_PAGES") * page
    except (ValueError, OSError):  # macOS does not have it.
        available = total
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
        available = int(match[1]) * 1024 if match else available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and limit.read_text().strip().isdigit():
        allowed = int(limit.read_text())
        total = min(total, allowed)
        available = min(available, max(allowed - int(used.read_text()), 0))
    return total, available


def check_warehouses(settings: Mapping[str, str], project: Path) -> Iterator[Finding]:
    """Check the folders that the profile's Iceberg catalogs keep their tables in.

    Args:
        settings: The profile's Spark settings.
        project: The folder that relative paths start from.

    Yields:
        Findings for each folder; one finding if none of them is local.
    """

    folders = [
        folder
        for key, value in settings.items()
        if re.fullmatch(r"spark\.sql\.catalog\.\w+\.warehouse", key)
        and settings.get(key.replace(".warehouse", ".type")) == "hadoop"
        and (folder := local_folder(value)) is not None
    ]
    if not folders:
        yield Finding("ok", "warehouse", "not a local folder")
    for folder in folders:
        yield from check_warehouse(project / folder)


def check_warehouse(folder: Path) -> Iterator[Finding]:
    """Check that tables can be read and written in a folder, and that there is space.

    Args:
        folder: The folder; it need not be there yet.
    """
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    remedy = "Set AFTERIMAGE_WAREHOUSE to a folder that you may write to."
    try:
        # What a commit of Iceberg does: a new file that is then renamed.
        with tempfile.TemporaryDirectory(prefix=".afterimage-doctor-", dir=there) as place:
            draft = Path(place) / "draft"
            draft.write_bytes(b"afterimage")
            if draft.rename(Path(place) / "final").read_bytes() != b"afterimage":
                raise OSError("a file read back differs from the one written")
        unread = [str(path) for path in _tables(folder) if not os.access(path, os.R_OK | os.X_OK)]
    except OSError as error:
        yield Finding("problem", "warehouse", f"{folder}: {error.strerror or error}", remedy)
        return
    if unread:
        yield Finding("problem", "warehouse", f"cannot read {unread[0]}", remedy)
    else:
        new = "" if folder.exists() else ", which the first run creates"
        yield Finding("ok", "warehouse", f"{folder}{new}")
    free = shutil.disk_usage(there).free
    remedy = "Free some space, or set AFTERIMAGE_WAREHOUSE to a folder on another disk."
    level = "problem" if free < LEAST_DISK else "warning" if free < LITTLE_DISK else "ok"
    found = f"{_size(free)} free at {there}"
    yield Finding(level, "disk", found, None if level == "ok" else remedy)


def _tables(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for schema in folder.iterdir():
            if schema.is_dir() and not schema.name.startswith("."):
                yield schema
                yield from (table for table in schema.iterdir() if table.is_dir())


def check_server(host: str, port: int) -> Finding:
    """Check that a Thrift server listens.

    Args:
        host: Where it should be.
        port: Its port.
    """
    try:
        with socket.create_connection((host, port), timeout=5):
            return Finding("ok", "server", f"{host}:{port} answers")
    except OSError as error:
        remedy = "Start the server, or set AFTERIMAGE_SERVER_HOST and AFTERIMAGE_SERVER_PORT."
        return Finding("problem", "server", f"{host}:{port}: {error}", remedy)


def _project(where: Where) -> tuple[Project | None, Finding]:
    what = "project and profile"
    try:
        project = Project(where)
    except AfterimageError as error:
        missing = missing_doc_blocks(Path(where.project_dir or "."), str(error))
        if missing:
            return None, Finding("problem", what, *missing)
        remedy = "Run this in the folder of a dbt project, or give --project-dir or --profiles-dir."
        return None, Finding("problem", what, str(error), remedy)
    if project.credentials is None:
        remedy = "Choose a --target of type spark."
        return None, Finding("problem", what, "the target is not for Spark", remedy)
    return project, Finding("ok", what, project.target)


def missing_doc_blocks(project: Path, error: str) -> tuple[str, str] | None:
    """Return which files refer to doc blocks that do not exist, and what to do about it.

    Args:
        project: The project's folder.
        error: dbt's error message, which names only the first block.

    Returns:
        What is wrong and the remedy; none for any other error.
    """
    match = re.search(r"depends on doc '(\w+)'\s+which was not found", error)
    if match is None:
        return None
    # `afterimage init` calls a table's blocks `table__column`.
    table = match[1].partition("__")[0] if "__" in match[1] else ""
    there: set[str] = set()
    wanted: dict[str, list[str]] = {}
    for folder, folders, names in os.walk(project):
        folders[:] = [name for name in folders if name not in _NOT_OURS and name[0] != "."]
        for path in (Path(folder, name) for name in sorted(names)):
            text = path.read_text("utf-8", "replace") if path.suffix in _PROPERTIES else ""
            if path.suffix == ".md":
                there.update(re.findall(r"\{%-?\s*docs\s+(\w+)", text))
            for name in re.findall(r"""\bdoc\(\s*['"](\w+)['"]\s*\)""", text):
                if name == match[1] or (table and name.startswith(f"{table}__")):
                    wanted.setdefault(name, []).append(path.relative_to(project).as_posix())
    blocks = sorted(wanted.keys() - there)
    files = sorted({path for name in blocks for path in wanted[name]})
    if not blocks:
        return None
    blank = "".join(f"{{% docs {name} %}}{{% enddocs %}}" for name in blocks)
    return (
        f"{', '.join(files)} refer to doc blocks that no .md file has: {', '.join(blocks)}",
        f"Restore the .md file, or write models/docs/{table or blocks[0]}.md (an interrupted"
        f" `afterimage init` did not write it), with your descriptions inserted: {blank}",
    )


def _check_answer(project: Project) -> Finding:
    try:
        [[numbers, zone]] = project.query(
            "select to_json(array(to_json(decode_change_mask('0B', 0)), current_timezone()))"
        )
    except AfterimageError as error:
        return Finding("problem", "Spark", str(error), "See docs/operations/troubleshooting.md.")
    if numbers != "[1,2,4]":
        found = f"decode_change_mask('0B', 0) is {numbers}, not [1,2,4]"
        remedy = "Register the UDFs of this version on the server, and restart it."
        return Finding("problem", "Spark", found, remedy)
    if zone not in _UTC:
        remedy = "Set `spark.sql.session.timeZone: UTC`: times without a zone are read in this one."
        return Finding("warning", "Spark", f"the session's time zone is {zone}", remedy)
    return Finding("ok", "Spark", "answers, and has the UDFs")


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
