"""What the tests share: one Spark session, and throw-away dbt projects on real Iceberg tables."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from hypothesis import settings
from hypothesis.internal.conjecture import engine
from pyspark.sql import SparkSession

from dbt_afterimage.runtime import jars
from dbt_afterimage.runtime.session import open_session

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "afterimage"
# What tables the tests make: those of dbt's target.
FORMAT = "delta" if os.environ.get("DBT_TARGET") == "delta" else "iceberg"
# The repository's own settings are those of a package, which has no models.
SETTINGS = ROOT / "tests" / "python" / "support" / "dbt_project.yml"

# Many cases at once make an example larger than Hypothesis lets it be: it would drop nearly all but
# the empty one.
engine.BUFFER_SIZE = 1 << 20

# Without a seed each run has the same cases, so that a failure comes from the change at hand.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("random", derandomize=False, print_blob=True)


def contract_columns(fields: str) -> dict[str, str]:
    """Return the columns of a change stream whose images have these fields, with their types."""
    return {
        "change_id": "string",
        "change_seq": "string",
        "operation": "string",
        "before": f"struct<{fields}>",
        "after": f"struct<{fields}>",
        "changed_columns": "array<string>",
        "absent_columns": "array<string>",
        "changed_at": "timestamp",
        "transaction_id": "string",
        "reject_reason": "string",
        "changed_by": "string",
        "ingested_at": "timestamp",
    }


def relation(table: str, schema: str = SCHEMA) -> str:
    """Return a table as Jinja names it."""
    return f"api.Relation.create(schema='{schema}', identifier='{table}')"


def emptied(table: str) -> str:
    """Return a table as a run with `--empty` gives it to a model."""
    return relation(table).replace("(", "(limit=0, ")


def column_list(**types: str) -> list[dict[str, str]]:
    """Return columns as the macros take them that are told the types."""
    return [{"name": name, "type": kind} for name, kind in types.items()]


def compile_statements(spark: SparkSession, yes: bool) -> None:
    """Let Spark compile its statements to Java, as it does for users, or interpret them."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(yes).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if yes else "NO_CODEGEN")


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Be in a folder, as a person is that types commands."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class DbtError(AssertionError):
    """A dbt command failed; the message holds what dbt said of each node."""


class Project:
    """A dbt project in a folder of its own with Afterimage's macros and tests, but its own models.

    dbt runs in this process, so that all tests share one JVM.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("macros", "profiles"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "dbt_project.yml").symlink_to(SETTINGS)
        (folder / "tests").mkdir()
        (folder / "tests" / "generic").symlink_to(ROOT / "tests" / "generic")
        for name in ("models", "seeds"):
            (folder / name).mkdir()

    def file(self, path: str, text: str) -> None:
        """Write a file of the project, such as `models/staging/stg_orders.sql`."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def model(self, name: str, body: str, **config: Any) -> None:
        """Write a model: what it selects, and its config; without one it is a table of Iceberg."""
        given = [f"{option}={value!r}" for option, value in config.items() if value is not None]
        head = f"{{{{ config({', '.join(given)}) }}}}\n" if given else ""
        self.file(f"models/{name}.sql", head + body)

    def stream(self, name: str, call: str, **config: Any) -> None:
        """Write a staging model, which calls the macro of a source."""
        self.model(name, f"{{{{ {call} }}}}", materialized="change_stream", **config)

    def history(
        self, name: str, stream: str, unique_key: Sequence[str] = ("id",), **config: Any
    ) -> None:
        """Write the history of a staging model, or of a table that is named with its schema."""
        source = stream if "." in stream else f"{{{{ ref('{stream}') }}}}"
        config = {"materialized": "history", "unique_key": list(unique_key), **config}
        self.model(name, f"select * from {source}", **config)

    def dbt(self, *arguments: str) -> Any:
        """Run a dbt command and return its result, or raise what it said."""
        profiles = ("--profiles-dir", str(self.folder / "profiles"))
        with inside(self.folder):
            outcome = dbtRunner().invoke(["--quiet", "--no-write-json", *arguments, *profiles])
        if outcome.exception is not None:
            raise DbtError(str(outcome.exception)) from outcome.exception
        if not outcome.success:
            failures = [
                # That of an operation has no node, and its message is printed alone.
                f"{getattr(result, 'node', None) and result.node.name}: {result.message}"
                for result in getattr(outcome.result, "results", [])
                if result.status not in ("success", "pass")
            ]
            raise DbtError("\n".join(failures))
        return outcome.result

    def compile(self, inline: str) -> str:
        """Return the SQL that a piece of Jinja renders to."""
        compiled: str = self.dbt("compile", "--inline", inline).results[0].node.compiled_code
        return compiled

    def sql(self, call: str) -> str:
        """Return the SQL that a call of a macro renders to."""
        return self.compile(f"{{{{ {call} }}}}")

    def sqls(self, calls: Iterable[str]) -> list[str]:
        """Return the SQL of several calls, in the time of one."""
        parts = [f"{{{{ {call} }}}}" for call in calls]
        return self.compile("\n;;\n".join(parts)).split("\n;;\n")

    def refusals(self, calls: list[str]) -> list[str]:
        """Return what dbt says of each call of a macro, in one line; all must be refused."""
        for number, call in enumerate(calls):
            # What a macro refuses while dbt parses would end the parsing of all.
            self.file(
                f"models/refused_{number}.sql", f"{{% if execute %}}{{{{ {call} }}}}{{% endif %}}"
            )
        with pytest.raises(DbtError) as error:
            self.dbt("run", "--select", "refused_*")
        said = re.findall(r"^refused_(\d+): (.*?)(?=^refused_|\Z)", str(error.value), re.M | re.S)
        for number in range(len(calls)):
            (self.folder / f"models/refused_{number}.sql").unlink()
        assert sorted(int(number) for number, _ in said) == list(range(len(calls)))
        return [" ".join(text.split()) for _, text in sorted(said, key=lambda one: int(one[0]))]


class Lake:
    """The tables of the test warehouse, as rows in and rows out."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def create(self, table: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        """Replace a table; `columns` maps names to Spark types, a missing value is NULL."""
        self.frame(columns, rows).writeTo(f"{SCHEMA}.{table}").using(FORMAT).createOrReplace()

    def append(self, table: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> None:
        """Add rows to a table."""
        self.frame(columns, rows).writeTo(f"{SCHEMA}.{table}").append()

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query, with structs as dictionaries."""
        return [row.asDict(recursive=True) for row in self.spark.sql(query).collect()]

    def contents(self, *tables: str) -> dict[str, list[dict[str, Any]]]:
        """Return tables in a fixed order, without the time of the run."""
        found = {}
        for table in tables:
            rows = self.rows(f"select * from {SCHEMA}.{table}")
            for row in rows:
                row.pop("ingested_at", None)
            found[table] = sorted(rows, key=repr)
        return found

    def frame(self, columns: dict[str, str], rows: list[dict[str, Any]]) -> Any:
        """Return rows as Spark has them."""
        schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())
        data = [tuple(row.get(name) for name in columns) for row in rows]
        return self.spark.createDataFrame(data, schema)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        metavar="K/N",
        help="of the tests marked minutes, run the K-th of N shares, besides all others",
    )
    parser.addoption("--share-slow", metavar="K/N", help="the same of those marked slow")
    parser.addoption("--share-quick", metavar="K/N", help="the same of the quick tests with Spark")


def pytest_configure(config: pytest.Config) -> None:
    """Draw random cases where a seed is given, or more cases than usual are asked for."""
    is_random = config.getoption("--hypothesis-seed") or "AFTERIMAGE_EXAMPLES" in os.environ
    settings.load_profile("random" if is_random else "fixed")


def leave_out(some: set[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect some of the tests."""
    config.hook.pytest_deselected(items=list(some))
    items[:] = [item for item in items if item not in some]


def length_of(item: pytest.Item) -> str:
    """Return the mark that says how long a test takes, `unit` without Spark, nothing if quick."""
    lengths = ("long", "minutes", "slow")
    marked = [one for one in lengths if item.get_closest_marker(one)]
    return next(iter(marked), "unit" if item.path.parent.name == "unit" else "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the shares of the tests; begin with the file that takes longest."""
    of_others = {
        item for item in items for needed in item.iter_markers("needs") if FORMAT not in needed.args
    }
    leave_out(of_others, config, items)
    for option, length in (("--share", "minutes"), ("--share-slow", "slow"), ("--share-quick", "")):
        if share := config.getoption(option):
            place, count = map(int, share.split("/"))
            drawn = [item for item in items if length_of(item) == length]
            leave_out({i for n, i in enumerate(drawn) if n % count != place % count}, config, items)
    # So that no process is left alone with them.
    first = ["test_project", "test_netiq_event_log", "test_change_stream", "test_init"]
    items.sort(key=lambda i: first.index(i.path.stem) if i.path.stem in first else len(first))


def pytest_runtest_teardown() -> None:
    """Forget that a test has landed topics: the jars of Kafka are for those who do."""
    jars._wanted.clear()


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Set before anything starts a session: the profile reads it.
    os.environ["AFTERIMAGE_WAREHOUSE"] = str(tmp_path_factory.mktemp("warehouse"))
    os.environ.setdefault("AFTERIMAGE_CLASS_ARCHIVE", str(ROOT / ".afterimage" / "cache"))
    os.environ.setdefault("AFTERIMAGE_JARS", str(ROOT / ".afterimage" / "jars"))
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    os.environ["AFTERIMAGE_SHUFFLE_PARTITIONS"] = "2"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print when each slow test had its turn last, and what came of it."""
    if not config.getoption("--share"):
        return
    path = ROOT / ".afterimage" / "turns.json"
    turns = json.loads(path.read_text()) if path.exists() else {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            if "minutes" in report.keywords:
                turns[report.nodeid] = f"{date.today()} {outcome}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(turns, indent=1, sort_keys=True))
    terminalreporter.section("slow tests: their last turn")
    for test, turn in sorted(turns.items()):
        terminalreporter.write_line(f"{turn} {test}")


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """A function that makes an empty project, in which dbt finds the macros already parsed."""
    parsed = Project(tmp_path_factory.mktemp("parsed"))
    parsed.dbt("parse")

    def make(name: str) -> Project:
        project = Project(tmp_path_factory.mktemp(name))
        shutil.copytree(parsed.folder / ".afterimage", project.folder / ".afterimage")
        return project

    return make


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, make_project: Callable[[str], Project]
) -> Iterator[SparkSession]:
    """The session that dbt itself has opened, with the settings of the shipped profile."""
    project = make_project("session")
    project.file("models/first.sql", "select 1 as one")
    # The jars of Kafka are for tests with a broker; other tests look at which jars a session gets.
    has_broker = any(
        "broker" in getattr(item, "fixturenames", ()) for item in request.session.items
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "_wanted", [jars.KAFKA] if has_broker else [])
        project.dbt("run")
    session = open_session({})
    if "AFTERIMAGE_EXAMPLES" not in os.environ:
        # Of a few rows each: to compile Java for a statement takes longer than to go without.
        # `make test-long`, the engine's own test and those that run dbt in a process do compile.
        compile_statements(session, False)
    yield session
    session.stop()
    shutil.rmtree(os.environ["AFTERIMAGE_WAREHOUSE"], ignore_errors=True)


@pytest.fixture(scope="session")
def lake(spark: SparkSession) -> Lake:
    """The test warehouse."""
    return Lake(spark)
