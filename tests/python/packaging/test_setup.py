"""Which Python `setup.sh` takes. The Pythons here are scripts that answer as such a Python does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[3]
TOOLS = ["cat", "dirname", "sh"]


class Machine:
    """A machine whose PATH has only what setup.sh calls and what a test adds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = self.folder("tools")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found
            (self.tools / tool).symlink_to(found)
        self.path: list[Path] = []

    def folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def program(self, name: str, script: str, folder: str = "bin") -> Path:
        """Put a shell script on PATH, in its folder."""
        place = self.folder(folder)
        if place not in self.path and not folder.startswith("home"):
            self.path.append(place)
        program = place / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    def python(self, name: str, folder: str = "bin", *, version: str | None = None) -> Path:
        """Put a Python on PATH: the one that runs this test, posing as another version."""
        if version is None:
            return self.program(name, f'exec "{sys.executable}" "$@"', folder)
        numbers = version.replace(".", ", ")
        pose = f"import sys; sys.version_info = ({numbers})"
        script = f'script=$2; shift 2; exec "{sys.executable}" -c "{pose}\n$script" "$@"'
        return self.program(name, script, folder)

    def which(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `setup.sh --which`."""
        env = {
            "PATH": os.pathsep.join(map(str, [*self.path, self.tools])),
            "HOME": str(self.root / "home"),
            "AFTERIMAGE_VENV": str(self.root / "venv"),
            **variables,
        }
        return subprocess.run(
            [str(self.tools / "sh"), str(PROJECT / "setup.sh"), "--which"],
            env=env,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def chosen(self, **variables: str) -> str:
        result = self.which(**variables)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return result.stdout.strip()

    def refused(self, **variables: str) -> str:
        result = self.which(**variables)
        assert result.returncode == 1
        assert result.stdout == ""
        return result.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


BROKEN = "echo 'pyenv: python3.11: command not found' >&2; exit 127"


def test_311_is_preferred(machine: Machine) -> None:
    for name in ["python", "python3", "python3.10", "python3.12"]:
        machine.python(name)
    wanted = machine.python("python3.11", "last")
    assert machine.chosen() == str(wanted)


@pytest.mark.parametrize("version", ["3.10.0", "3.11.9", "3.12.13", "3.13.0"])
def test_plain_python3_is_chosen_by_its_version(machine: Machine, version: str) -> None:
    wanted = machine.python("python3", version=version)
    assert machine.chosen() == str(wanted)


def test_broken_shim_is_skipped(machine: Machine) -> None:
    machine.program("python3.11", BROKEN)
    wanted = machine.python("python3.12")
    assert machine.chosen() == str(wanted)


def test_broken_shim_does_not_hide_a_python_of_the_same_name(machine: Machine) -> None:
    machine.program("python3.11", BROKEN, "shims")
    wanted = machine.python("python3.11", "usr")
    machine.python("python3.12", "usr")
    assert machine.chosen() == str(wanted)


def test_folder_with_a_space_works(machine: Machine) -> None:
    wanted = machine.python("python3.11", "my tools")
    assert machine.chosen() == str(wanted)


def test_python_that_exits_with_0_but_does_not_run_is_skipped(machine: Machine) -> None:
    machine.program("python3.11", "exit 0")
    assert "python3.11: does not run as Python\n" in machine.refused()


def test_message_has_the_last_line_that_a_python_printed(machine: Machine) -> None:
    machine.program("python3.11", "printf 'Traceback …\\n  in site\\nNo encodings\\n' >&2; exit 1")
    assert "python3.11: does not run as Python: No encodings\n" in machine.refused()


def test_pythons_of_pyenv_are_found_behind_their_shims(machine: Machine) -> None:
    machine.program("python3.11", BROKEN)
    machine.python("python", "home/.pyenv/versions/3.10.13/bin")
    wanted = machine.python("python", "home/.pyenv/versions/3.11.7/bin")
    assert machine.chosen() == str(wanted)


def test_pyenv_root_is_respected(machine: Machine) -> None:
    wanted = machine.python("python", "home/elsewhere/versions/3.12.1/bin")
    assert machine.chosen(PYENV_ROOT=str(machine.root / "home" / "elsewhere")) == str(wanted)


def test_uv_installs_a_python_if_none_fits(machine: Machine) -> None:
    machine.python("python3", version="3.14.0")
    machine.program("uv", "exit 0")
    assert machine.chosen() == "uv"


def test_python_of_spark_35_is_preferred_to_a_newer_one(machine: Machine) -> None:
    machine.python("python3", "first", version="3.13.0")
    machine.python("python3.13", "first", version="3.13.0")
    wanted = machine.python("python3.10", "last", version="3.10.4")
    assert machine.chosen() == str(wanted)


def test_python_313_of_pyenv_alone_is_found(machine: Machine) -> None:
    wanted = machine.python("python", "home/.pyenv/versions/3.13.0/bin", version="3.13.0")
    assert machine.chosen() == str(wanted)


def test_oldest_versions_do_not_take_python_313(machine: Machine) -> None:
    """NumPy 1.26 and others of them have no wheel for it."""
    wrong = machine.python("python3", version="3.13.0")
    message = machine.refused(AFTERIMAGE_LOCK="requirements-lowest.lock")
    assert f"{wrong}: 3.13.0 is too new" in message
    assert "Afterimage needs Python 3.10, 3.11 or 3.12 with venv." in message


def locked(lock: str, python: str) -> dict[str, str]:
    """Return the versions that a lock file has for a Python."""
    requirements = [
        Requirement(line.removesuffix("\\").strip())
        for line in (PROJECT / lock).read_text().splitlines()
        if re.match(r"\w", line)
    ]
    here = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    return {
        one.name: str(one.specifier)
        for one in requirements
        if one.marker is None or one.marker.evaluate(here)
    }


@pytest.mark.parametrize(
    ("lock", "python", "spark"),
    [
        ("requirements.lock", "3.10", "==3.5.8"),
        ("requirements.lock", "3.12", "==3.5.8"),
        ("requirements.lock", "3.13", "==4.1.4"),
        ("requirements-spark4.lock", "3.10", "==4.1.4"),
        ("requirements-spark4.lock", "3.13", "==4.1.4"),
    ],
)
def test_python_gets_a_spark_that_knows_it(lock: str, python: str, spark: str) -> None:
    """Spark 3.5 ends at Python 3.12."""
    packages = locked(lock, python)
    assert packages["pyspark"] == spark
    assert ("snowpark-connect-deps-iceberg" in packages) == (spark == "==3.5.8")


@pytest.mark.parametrize("lock", sorted(PROJECT.glob("*.lock")), ids=lambda lock: lock.name)
def test_lock_file_names_no_host(lock: Path) -> None:
    assert "//" not in lock.read_text()


def test_python_that_fits_is_preferred_to_uv(machine: Machine) -> None:
    machine.program("uv", "exit 0")
    wanted = machine.python("python3")
    assert machine.chosen() == str(wanted)


def test_message_names_every_python_that_was_found(machine: Machine) -> None:
    newer = machine.python("python3", version="3.14.0")
    older = machine.python("python", version="2.7.18")
    shim = machine.program("python3.11", BROKEN)
    message = machine.refused()
    assert "setup: No Python 3.10, 3.11, 3.12 or 3.13 found." in message
    assert f"{newer}: 3.14.0 is too new" in message
    assert f"{older}: 2.7.18 is too old" in message
    assert f"{shim}: does not run as Python: pyenv: python3.11: command not found" in message
    assert "apt install python3 python3-venv" in message
    assert "make PYTHON=" in message


def test_message_without_any_python_names_what_to_install(machine: Machine) -> None:
    message = machine.refused()
    assert "Looked at" not in message
    assert "apt install python3 python3-venv" in message


def test_python_without_ensurepip_is_named_with_the_remedy(machine: Machine) -> None:
    block = "import sys; sys.modules['ensurepip'] = None"
    bare = machine.program("python3", f'exec "{sys.executable}" -c "{block}\n$2" "$3"')
    version = ".".join(map(str, sys.version_info[:3]))
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    message = machine.refused()
    assert (
        f"{bare}: {version} lacks venv or ensurepip (on Debian: apt install {package})" in message
    )


def test_named_python_is_preferred(machine: Machine) -> None:
    machine.python("python3.11")
    wanted = machine.python("mine", "home/other")
    assert machine.chosen(PYTHON=str(wanted)) == str(wanted)


def test_named_python_may_be_a_name_on_path(machine: Machine) -> None:
    machine.python("python3.11")
    wanted = machine.python("python3.12")
    assert machine.chosen(PYTHON="python3.12") == str(wanted)


def test_named_python_that_does_not_fit_is_an_error(machine: Machine) -> None:
    machine.python("python3.11")
    wrong = machine.python("mine", version="3.9.18")
    message = machine.refused(PYTHON=str(wrong))
    assert f"setup: PYTHON={wrong} cannot be used." in message
    assert f"{wrong}: 3.9.18 is too old" in message


def test_named_python_that_does_not_exist_is_reported(machine: Machine) -> None:
    machine.python("python3.11")
    assert "nowhere/python: does not run as Python" in machine.refused(PYTHON="nowhere/python")


def test_unknown_option_is_refused() -> None:
    result = subprocess.run(
        [PROJECT / "setup.sh", "--wich"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "usage:" in result.stderr


def test_python_of_the_environment_that_is_rebuilt_is_skipped(machine: Machine) -> None:
    """An activated one is first on PATH, but would be removed before it is called."""
    machine.python("python3.11")
    said = machine.refused(AFTERIMAGE_VENV=sys.prefix)
    assert "belongs to the environment that is rebuilt" in said
