"""What the profile leaves open is filled in, and what it says is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbt_afterimage.runtime.session import ICEBERG_CATALOG, complete

CATALOG = "spark.sql.catalog.lake"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DERBY = {
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName=db;create=true",
    JAVA_OPTIONS: "-Duser.timezone=UTC",
}
MASTERS_OUTSIDE = ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[1,1,1024]"]


def profile(warehouse: str = "warehouse", **settings: str) -> dict[str, str]:
    """Return the settings of a profile with one Iceberg catalog on disk."""
    return {
        CATALOG: ICEBERG_CATALOG,
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": warehouse,
        **{key.replace("__", "."): value for key, value in settings.items()},
    }


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")  # so that it is put back, whatever the test does
        monkeypatch.delenv(name)


def test_master_is_this_machine_where_the_profile_names_none() -> None:
    conf: dict[str, str] = {}
    complete(conf)
    assert conf["spark.master"] == "local[*]"


@pytest.mark.parametrize("folder", ["warehouse", "./warehouse/", "deep/down/warehouse"])
def test_warehouse_folder_is_made_and_absolute(tmp_path: Path, folder: str) -> None:
    conf = profile(folder)
    complete(conf)
    assert conf[f"{CATALOG}.warehouse"] == str(tmp_path / folder)
    assert (tmp_path / folder).is_dir()


@pytest.mark.parametrize("slashes", ["/", "///"])
def test_file_uri_is_kept_and_its_folder_made(tmp_path: Path, slashes: str) -> None:
    location = f"file:{slashes}{str(tmp_path).lstrip('/')}/warehouse"
    conf = profile(location)
    complete(conf)
    assert conf[f"{CATALOG}.warehouse"] == location
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse"]


@pytest.mark.parametrize("location", ["s3://bucket/w", "hdfs://host:8020/w", "abfss://c@a/w", ""])
def test_storage_of_another_kind_is_left_unchanged(tmp_path: Path, location: str) -> None:
    conf = profile(location)
    complete(conf)
    assert conf[f"{CATALOG}.warehouse"] == location
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["my shop", "{root}/my shop", "{root}/link"])
def test_relative_locations_are_those_of_the_project(tmp_path: Path, given: str) -> None:
    """Wherever dbt was started: with `--project-dir`, or in a folder below the project."""
    shop = tmp_path / "my shop"
    shop.mkdir()
    (tmp_path / "link").symlink_to(shop)
    conf = profile("tables", spark__sql__warehouse__dir="./hive") | DERBY
    complete(conf, Path(given.format(root=tmp_path)))
    assert conf[f"{CATALOG}.warehouse"] == str(shop / "tables")
    assert conf["spark.sql.warehouse.dir"] == str(shop / "hive")
    assert f'-Duser.timezone=UTC "-Dderby.system.home={shop}" ' in conf[JAVA_OPTIONS]
    assert {path.name for path in shop.iterdir()} >= {"tables", "hive"}
    assert {path.name for path in tmp_path.iterdir()} == {"my shop", "link"}


def test_the_place_that_a_profile_gives_to_derby_is_kept(tmp_path: Path) -> None:
    conf = DERBY | {JAVA_OPTIONS: "-Dderby.system.home=/data"}
    complete(conf, tmp_path / "shop")
    assert conf[JAVA_OPTIONS].startswith("-Dderby.system.home=/data -Dlog4j2.")


@pytest.mark.parametrize("master", MASTERS_OUTSIDE[:3])
def test_a_cluster_has_its_warehouse_where_its_file_system_says(
    tmp_path: Path, master: str
) -> None:
    conf = {"spark.master": master, "spark.sql.warehouse.dir": "warehouse"}
    complete(conf, tmp_path / "shop")
    assert conf["spark.sql.warehouse.dir"] == "warehouse"
    assert "derby" not in conf[JAVA_OPTIONS]


def test_tables_that_another_process_may_write_are_not_cached() -> None:
    conf = profile()
    complete(conf)
    assert conf[f"{CATALOG}.cache-enabled"] == "false"
    own = profile() | {f"{CATALOG}.cache-enabled": "true"}
    complete(own)
    assert own[f"{CATALOG}.cache-enabled"] == "true"


def test_catalog_of_another_type_keeps_its_warehouse(tmp_path: Path) -> None:
    conf = profile("name_of_a_warehouse") | {f"{CATALOG}.type": "rest"}
    complete(conf)
    assert conf[f"{CATALOG}.warehouse"] == "name_of_a_warehouse"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local[2,3]"])
def test_iceberg_is_on_the_class_path_of_the_one_process(master: str) -> None:
    conf = profile(spark__master=master)
    complete(conf)
    jar = Path(conf["spark.driver.extraClassPath"])
    assert jar.is_file()
    assert "iceberg-spark-runtime" in jar.name
    assert "spark.jars" not in conf


@pytest.mark.parametrize("master", ["local", *MASTERS_OUTSIDE])
def test_iceberg_is_sent_to_separate_executors(master: str) -> None:
    conf = profile(spark__master=master)
    complete(conf)
    assert Path(conf["spark.jars"]).is_file()
    assert "spark.driver.extraClassPath" not in conf


@pytest.mark.parametrize(
    ("master", "key", "separator"),
    [("local[*]", "spark.driver.extraClassPath", os.pathsep), ("yarn", "spark.jars", ",")],
)
def test_jars_of_the_profile_stay(master: str, key: str, separator: str) -> None:
    conf = profile() | {"spark.master": master, key: "/opt/driver.jar"}
    complete(conf)
    own, iceberg = conf[key].split(separator)
    assert own == "/opt/driver.jar"
    assert "iceberg-spark-runtime" in iceberg


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.0"),
        ("spark.jars", "/opt/iceberg-spark-runtime-3.5_2.12-1.9.0.jar"),
        ("spark.driver.extraClassPath", "/opt/iceberg-spark-runtime-3.5_2.12-1.9.0.jar"),
    ],
)
@pytest.mark.parametrize("master", ["local[*]", "yarn"])
def test_iceberg_of_the_profile_is_the_only_one(master: str, key: str, value: str) -> None:
    conf = profile() | {"spark.master": master, key: value}
    complete(conf)
    assert conf[key] == value
    assert sum("iceberg-spark-runtime" in setting for setting in conf.values()) == 1


def test_other_packages_of_the_profile_do_not_replace_iceberg() -> None:
    conf = profile() | {"spark.jars.packages": "org.postgresql:postgresql:42.7.0"}
    complete(conf)
    assert "iceberg-spark-runtime" in conf["spark.driver.extraClassPath"]


def test_profile_without_a_catalog_of_either_format_gets_no_jar() -> None:
    conf = {"spark.master": "yarn", CATALOG: "org.example.Catalog"}
    complete(conf)
    assert "spark.jars" not in conf


def test_java_options_of_the_profile_stay_beside_ours() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC"}
    complete(conf)
    assert conf["spark.driver.extraJavaOptions"].startswith("-Duser.timezone=UTC -Dlog4j2.")


def test_logging_of_the_profile_is_kept() -> None:
    options = "-Dlog4j2.configurationFile=file:/etc/spark/log4j2.properties"
    conf = {"spark.driver.extraJavaOptions": options}
    complete(conf)
    assert conf["spark.driver.extraJavaOptions"] == options


def test_this_machines_workers_run_the_python_that_runs_dbt() -> None:
    complete({"spark.master": "local[*]"})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_python_and_address_that_the_user_set_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    complete({"spark.master": "local[*]"})
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert os.environ["SPARK_LOCAL_IP"] == "10.0.0.1"


@pytest.mark.parametrize("master", MASTERS_OUTSIDE[:3])
def test_workers_of_a_cluster_do_not_get_the_python_of_this_machine(master: str) -> None:
    complete({"spark.master": master})
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


def test_completing_twice_changes_nothing() -> None:
    conf = profile()
    complete(conf)
    once = dict(conf)
    complete(conf)
    assert conf == once


@pytest.mark.slow
def test_secret_settings_are_not_on_the_jvms_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import uuid
from contextlib import suppress
from pathlib import Path
from dbt_afterimage.runtime.session import open_session

known = uuid.uuid4().hex
secrets = {
    name: uuid.uuid4().hex
    for name in (
        "spark.sql.catalog.x.jdbc.password",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
    )
}
harmless = {"spark.ui.enabled": "false", "spark.sql.catalog.x.jdbc.user": known}
spark = open_session({**harmless, **secrets})
for name, secret in secrets.items():
    assert spark.conf.get(name) == secret
seen = b""
for command_line in Path("/proc").glob("[0-9]*/cmdline"):
    with suppress(OSError):
        seen += command_line.read_bytes()
assert known.encode() in seen
for name, secret in secrets.items():
    assert secret.encode() not in seen, name
"""
    )
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_a_failed_query_is_told_once(tmp_path: Path) -> None:
    """PySpark 4 would print it too, with Java's whole stack in a line of JSON."""
    script = tmp_path / "script.py"
    script.write_text(
        """
from contextlib import suppress
from pyspark.errors import AnalysisException
from dbt_afterimage.runtime.session import open_session

with suppress(AnalysisException):
    open_session({"spark.ui.enabled": "false"}).sql("select * from nobody")
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "TABLE_OR_VIEW_NOT_FOUND" not in done.stdout + done.stderr
