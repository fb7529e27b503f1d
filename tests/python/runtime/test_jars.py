"""The jars of the table formats: where they are found, how they are fetched, what goes wrong."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import jars

DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
ICEBERG = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
# Nothing listens there, so that a test never reaches the network.
NO_NETWORK = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"

MAIN, STORAGE = "delta-spark_2.12-3.3.3.jar", "delta-storage-3.3.3.jar"


class Machine:
    """A Spark whose jars a list names, and a Maven repository that has them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "jars"
        self.list = root / "jars.txt"
        self.repository = root / "repository"
        self.env = {**os.environ, jars.FOLDER: str(self.folder), "JAVA_TOOL_OPTIONS": NO_NETWORK}
        self.spark = jars._spark_version(self.env)
        self.conf = {**DELTA, "spark.jars.repositories": self.repository.as_uri()}

    def publish(self, *names: str) -> None:
        """Put jars into the repository and into the list, with their digests."""
        lines = []
        for name in names:
            group, artifact, version = name.split(":")
            path = self.repository / group.replace(".", "/") / artifact / version
            path.mkdir(parents=True)
            jar = path / f"{artifact}-{version}.jar"
            with zipfile.ZipFile(jar, "w") as file:
                file.writestr("name", name)
            # The POM asks for more, as Delta's does for what Spark has.
            jar.with_suffix(".pom").write_text(
                "<project><modelVersion>4.0.0</modelVersion>"
                f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
                f"<version>{version}</version><dependencies><dependency><groupId>org.none</groupId>"
                "<artifactId>none</artifactId><version>1</version></dependency></dependencies>"
                "</project>"
            )
            digest = hashlib.sha256(jar.read_bytes()).hexdigest()
            lines.append(f"{self.spark} Delta {name} {digest}\n")
        self.list.write_text("".join(lines))

    def add(self) -> dict[str, str]:
        conf = dict(self.conf)
        jars.add(conf, in_one_process=True, env=self.env)
        return conf

    def on_class_path(self) -> list[Path]:
        return [Path(p) for p in self.add()["spark.driver.extraClassPath"].split(os.pathsep)]

    def kept(self) -> list[str]:
        """Return what is in the folder of jars, beside the lock."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")

    def script(self, text: str) -> str:
        """Return a program that asks for the jars as another process does."""
        return f"""
import os, sys, time
from pathlib import Path
from dbt_afterimage.runtime import jars
jars._LIST = Path({str(self.list)!r})
{textwrap.dedent(text)}
jars.add({self.conf!r}, in_one_process=True, env=os.environ)
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    machine.publish("org.example:delta-spark_x:1.0", "org.example:delta-storage:1.0")
    monkeypatch.setattr(jars, "_LIST", machine.list)
    return machine


def spark_home(root: Path, core: str, *others: str) -> Path:
    (root / "jars").mkdir(parents=True)
    for name in (f"spark-core_{core}.jar", *others):
        (root / "jars" / name).touch()
    return root


def test_jars_in_the_folder_are_used_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for name in (MAIN, STORAGE, "other-1.0.jar"):
        (folder / name).touch()
    env = {
        jars.FOLDER: str(folder),
        "SPARK_HOME": str(spark_home(tmp_path / "spark", "2.12-3.5.8")),
    }
    alone, cluster = dict(DELTA), {**DELTA, "spark.jars": "/opt/driver.jar"}
    jars.add(alone, in_one_process=True, env=env)
    jars.add(cluster, in_one_process=False, env=env)
    paths = [str(folder / MAIN), str(folder / STORAGE)]
    assert alone == {**DELTA, "spark.driver.extraClassPath": os.pathsep.join(paths)}
    assert cluster == {**DELTA, "spark.jars": ",".join(["/opt/driver.jar", *paths])}


def test_both_formats_get_the_jars_of_both(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for title in ("Iceberg", "Delta"):
        for jar in jars.listed("4.1_2.13", title):
            (folder / jar.file).touch()
    env = {
        jars.FOLDER: str(folder),
        "SPARK_HOME": str(spark_home(tmp_path / "spark", "2.13-4.1.4")),
    }
    conf = {**DELTA, **ICEBERG}
    jars.add(conf, in_one_process=True, env=env)
    on_path = conf["spark.driver.extraClassPath"].split(os.pathsep)
    assert sorted(on_path) == sorted(str(path) for path in folder.iterdir())


def test_jars_of_kafka_are_for_those_who_want_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_wanted", [])
    folder = tmp_path / "given"
    folder.mkdir()
    for jar in jars.listed("3.5_2.12", "Kafka"):
        (folder / jar.file).touch()
    env = {
        jars.FOLDER: str(folder),
        "SPARK_HOME": str(spark_home(tmp_path / "spark", "2.12-3.5.8")),
    }
    conf: dict[str, str] = {}
    jars.add(conf, in_one_process=True, env=env)
    assert conf == {}
    jars.want(jars.KAFKA)
    jars.add(conf, in_one_process=False, env=env)
    names = [Path(path).name for path in conf["spark.jars"].split(",")]
    assert names[0] == "spark-sql-kafka-0-10_2.12-3.5.7.jar"
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    named = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"}
    conf = dict(named)
    jars.add(conf, in_one_process=True, env=env)
    assert conf == named


def test_list_has_a_digest_and_a_version_for_each_jar() -> None:
    listing = jars._read()
    assert {(jar.spark, jar.title) for jar in listing} == {
        ("3.5_2.12", "Delta"),
        ("3.5_2.12", "Kafka"),
        ("4.1_2.13", "Delta"),
        ("4.1_2.13", "Iceberg"),
        ("4.1_2.13", "Kafka"),
    }
    for jar in listing:
        assert len(bytes.fromhex(jar.digest)) == 32
    assert len({jar.file for jar in listing}) == len(listing)


@pytest.mark.parametrize("defaults", ["spark.jars.packages io.delta:delta-spark_2.12:3.3.1\n", ""])
def test_spark_that_has_the_format_gets_no_other(tmp_path: Path, defaults: str) -> None:
    own = [] if defaults else ["delta-spark_2.12-3.3.1.jar"]
    home = spark_home(tmp_path / "spark", "2.12-3.5.8", *own)
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(defaults)
    conf = dict(DELTA)
    jars.add(
        conf, in_one_process=True, env={"SPARK_HOME": str(home), jars.FOLDER: str(tmp_path / "no")}
    )
    assert conf == DELTA
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("key", ["spark.jars", "spark.jars.packages"])
def test_delta_of_the_profile_is_the_only_one(machine: Machine, key: str) -> None:
    machine.conf = {**DELTA, key: "delta-spark_2.12"}
    assert machine.add() == machine.conf


def test_spark_of_another_version_is_an_error_that_names_those_that_fit(tmp_path: Path) -> None:
    home = spark_home(tmp_path / "spark", "2.13-4.3.0")
    with pytest.raises(AfterimageError) as error:
        jars.add(dict(DELTA), in_one_process=True, env={"SPARK_HOME": str(home)})
    assert str(error.value) == (
        "Afterimage knows no jar of Delta for Spark 4.3 (Scala 2.13), only for 3.5 (Scala 2.12),"
        " 4.1 (Scala 2.13). Name one in the profile (spark.jars.packages)."
    )


def test_first_session_fetches_the_jars_and_the_next_finds_them(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = machine.on_class_path()
    assert [path.name for path in paths] == ["delta-spark_x-1.0.jar", "delta-storage-1.0.jar"]
    assert machine.kept() == ["delta-spark_x-1.0.jar", "delta-storage-1.0.jar"]
    assert capfd.readouterr().err == "afterimage: fetching the jars of Delta 1.0, once\n"
    machine.env["JAVA_HOME"] = "/nowhere"  # so that another fetch would fail
    assert machine.on_class_path() == paths
    assert capfd.readouterr().err == ""


def test_only_what_is_missing_is_fetched(machine: Machine) -> None:
    machine.folder.mkdir()
    (machine.folder / "delta-storage-1.0.jar").write_text("the user's own")
    machine.on_class_path()
    assert (machine.folder / "delta-storage-1.0.jar").read_text() == "the user's own"


def test_maven_folder_that_has_a_pom_without_its_jar_does_no_harm(machine: Machine) -> None:
    """Spark's own settings take such a folder for complete, and fail."""
    pom = "org/example/delta-storage/1.0/delta-storage-1.0.pom"
    own = machine.root / "home" / ".m2" / "repository" / pom
    own.parent.mkdir(parents=True)
    own.write_bytes((machine.repository / pom).read_bytes())
    machine.env["JAVA_TOOL_OPTIONS"] += f" -Duser.home={machine.root / 'home'}"
    assert len(machine.on_class_path()) == 2


def test_settings_of_the_profile_say_where_jars_come_from(machine: Machine) -> None:
    settings = machine.root / "own.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="ours"/><resolvers><ibiblio name="ours"'
        f' m2compatible="true" root="{machine.repository.as_uri()}"/></resolvers></ivysettings>'
    )
    machine.conf = {**DELTA, "spark.jars.ivySettings": str(settings)}
    assert len(machine.on_class_path()) == 2


def test_jar_with_another_digest_is_thrown_away(machine: Machine) -> None:
    machine.list.write_text(machine.list.read_text()[:-9] + "00000000\n")
    with pytest.raises(AfterimageError) as error:
        machine.add()
    said = str(error.value)
    assert "delta-storage-1.0.jar is not the file that was tested" in said
    assert f"put delta-spark_x-1.0.jar, delta-storage-1.0.jar into {machine.folder}" in said
    assert machine.kept() == []


def test_without_a_network_one_line_says_what_to_do(machine: Machine) -> None:
    machine.conf = dict(DELTA)
    with pytest.raises(AfterimageError) as error:
        machine.add()
    assert str(error.value) == (
        "the jars of Delta 1.0 cannot be fetched: ConnectException: Connection refused. Run again"
        " with a network, or put delta-spark_x-1.0.jar, delta-storage-1.0.jar into"
        f" {machine.folder} (AFTERIMAGE_JARS names another folder)."
    )
    assert machine.kept() == []


def test_both_threads_that_ask_hear_of_one_failure(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.conf = dict(DELTA)
    for _ in range(2):
        with pytest.raises(AfterimageError):
            machine.add()
    assert capfd.readouterr().err.count("fetching") == 1


def test_folder_that_cannot_be_made_is_named(machine: Machine) -> None:
    machine.folder.write_text("a file")
    with pytest.raises(AfterimageError, match="cannot be fetched: File exists"):
        machine.add()


def test_of_two_processes_one_fetches_and_the_other_waits(machine: Machine) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", machine.script("")],
            env=machine.env,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(said) == ["", "afterimage: fetching the jars of Delta 1.0, once\n"]


def test_fetch_that_was_killed_leaves_nothing_that_counts(machine: Machine) -> None:
    half = """
        def half(wanted, folder, *_):
            (folder / wanted[0].file).write_text("half")
            print("begun", flush=True)
            time.sleep(600)
        jars._resolve = half
    """
    process = subprocess.Popen(
        [sys.executable, "-c", machine.script(half)],
        env=machine.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all(name.startswith(".fetching-") for name in machine.kept())
    begun = time.monotonic()
    machine.on_class_path()
    assert time.monotonic() - begun < 60
    assert machine.kept() == ["delta-spark_x-1.0.jar", "delta-storage-1.0.jar"]
