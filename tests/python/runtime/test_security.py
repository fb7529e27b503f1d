"""What comes from data or config is never taken for SQL, and nothing from outside runs."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, SCHEMA, DbtError, Lake, Project, relation
from dialect_qlik import HEADER
from histories import fewer_checks

# The pieces of which attempts are made: quotes, comment signs, statements, substitutions.
PIECES = [
    "'", '"', "`", "``", "\\", "\\'", "--", "/*", "*/", ";", "#", "\n", ")", "(", ",", " ", "x",
    " or 1=1 ", "drop table sentinel", "${env:HOME}", "${spark.app.name}", "{{ 1 }}", "{% raw %}",
    "%s", "%", "\\u0027", "é", "\u2019", "union select ", "$", "{", "}",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)
# Spark itself refuses names with both a dot and a backquote ("Syntax error in attribute name"), and
# a line break would be indented with the statement.
VALID = HOSTILE.filter(lambda name: not set(name) & {".", "\n"})
NAMES = VALID.filter(lambda name: name.strip() != "")
# The names of the data columns below begin with `#` and a digit.
PREFIXES = VALID.filter(lambda prefix: prefix != "#")


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    lake.create("sentinel", {"id": "int"}, [{"id": 1}])
    return make_project("security")


def jinja(value: Any) -> str:
    """Write a value as a Jinja literal, so that no character has a meaning for Jinja."""
    if isinstance(value, str):
        characters = ", ".join(str(ord(character)) for character in value)
        return f"('%c' * {len(value)}) % ({characters},)"
    if isinstance(value, list):
        return f"[{', '.join(map(jinja, value))}]"
    return repr(value)


@pytest.mark.minutes
@given(texts=st.lists(HOSTILE, min_size=30, max_size=60, unique=True))
@settings(fewer_checks, max_examples=3)
def test_texts_and_names_are_quoted(texts: list[str], project: Project, lake: Lake) -> None:
    names = [f"{number} {text}".replace("\n", "") for number, text in enumerate(texts)]
    columns = [
        f"{{{{ afterimage._literal({jinja(text)}) }}}} as "
        f"{{{{ afterimage._quote({jinja(name)}) }}}}"
        for text, name in zip(texts, names, strict=True)
    ]
    sql = project.compile(f"select {', '.join(columns)}")
    assert lake.rows(sql) == [dict(zip(names, texts, strict=True))]


def test_a_name_with_a_line_break_is_refused(project: Project) -> None:
    names = ("a\nb", "a\u2028b", "a\r")
    for said in project.refusals([f"afterimage._quote({jinja(name)})" for name in names]):
        assert "a name must not have a line break. Rename the column" in said


# Every piece is in one of these values.
WORST = ["".join(PIECES[number::3]) for number in range(3)]


@pytest.mark.minutes
def test_hostile_names_and_values_pass_through_every_macro(project: Project, lake: Lake) -> None:
    values = [*WORST, "'; drop table sentinel; --"]
    pass_through(["'", '"', "`"], values, "'", project, lake)


@pytest.mark.minutes
@given(
    names=st.lists(NAMES, min_size=3, max_size=3, unique_by=lambda name: name.lower()),
    values=st.lists(HOSTILE, min_size=4, max_size=4),
    prefix=PREFIXES,
)
@fewer_checks
def test_random_names_and_values_pass_through_every_macro(
    names: list[str], values: list[str], prefix: str, project: Project, lake: Lake
) -> None:
    pass_through(names, values, prefix, project, lake)


def pass_through(
    names: list[str], values: list[str], prefix: str, project: Project, lake: Lake
) -> None:
    """Send rows with such names and values through a staging model and all that reads it."""
    # dbt's own list of columns ends at a name that begins like this.
    key, first, second = (f"#{number}{name}" for number, name in enumerate(names))
    header = {f"{prefix}{name.removeprefix('header__')}": kind for name, kind in HEADER.items()}

    def row(number: int, letter: str, *data: str) -> dict[str, Any]:
        words = {"I": "INSERT", "U": "UPDATE"}
        return {
            f"{prefix}change_seq": f"{2024010112000000:016d}{number:019d}",
            f"{prefix}change_oper": letter,
            f"{prefix}operation": words[letter],
            f"{prefix}transaction_id": values[3],
            **dict(zip((key, first, second), data, strict=True)),
        }

    lake.spark.sql(f"drop table if exists {SCHEMA}.hostile__ct")
    lake.create(
        "hostile__ct",
        {**header, key: "string", first: "string", second: "string"},
        [row(1, "I", values[0], values[1], "a"), row(2, "U", values[0], values[2], "a")],
    )
    raw = relation("hostile__ct")
    project.stream(
        "stg_hostile",
        f"qlik_change_table({raw}, unique_key={jinja([key])}, header_prefix={jinja(prefix)})",
    )
    options = f"unique_key={jinja([key])}, ignore_columns={jinja([second])}"
    project.file(
        "models/hostile_history.sql",
        f"{{{{ config(materialized='history', load_valid_from='1900-01-01', {options}) }}}}\n"
        "select * from {{ ref('stg_hostile') }}",
    )
    project.file(
        "models/hostile_audit.sql",
        f"{{{{ change_audit(ref('stg_hostile'), unique_key={jinja([key])}) }}}}",
    )
    project.file("models/hostile_current.sql", "{{ current_state(ref('hostile_history')) }}")
    project.dbt("run", "--full-refresh")
    lake.append(
        "hostile__ct",
        {**header, key: "string", first: "string", second: "string"},
        [row(3, "U", values[0], values[3], "b")],
    )
    project.dbt("run")

    found = lake.rows(f"select * from {SCHEMA}.hostile_history order by version")
    states = [values[1]]
    states += [value for value, last in zip(values[2:], values[1:3], strict=True) if value != last]
    assert [row[first] for row in found] == states
    assert {row[key] for row in found} == {values[0]}
    # Blanks around an id are those of its column.
    assert {row["transaction_id"] for row in found} == {values[3].strip(" ") or None}
    [current] = lake.rows(f"select * from {SCHEMA}.hostile_current")
    assert (current[key], current[first]) == (values[0], states[-1])
    audited = lake.rows(f"select column_name, new_value from {SCHEMA}.hostile_audit")
    assert {(key, values[0]), (first, values[1])} <= {
        (row["column_name"], row["new_value"]) for row in audited
    }
    assert lake.rows(f"select * from {SCHEMA}.sentinel") == [{"id": 1}]


# Calls with a text that would stand in the SQL without quotes.
UNQUOTED = [
    "db2_change_data({raw}, unique_key=[{bad}])",
    "openedge_change_table({raw}, unique_key=[{bad}])",
    "sqlserver_change_table({raw}, unique_key=[{bad}])",
    "dms_changes({raw}, unique_key=[{bad}])",
    "dms_changes({raw}, unique_key=['id'], order_by=[{bad}])",
    "dms_changes({raw}, unique_key=['id'], time={bad})",
    "qlik_messages({raw}, unique_key=['id'], columns=[{{'name': 'id', 'type': {bad}}}])",
    "debezium_messages({raw}, unique_key=['id'], columns=[{{'name': 'id', 'type': {bad}}}])",
    "netiq_event_log({raw}, unique_key=['id'], table='t',"
    " columns=[{{'name': 'id', 'type': {bad}}}])",
    "netiq_event_log({raw}, unique_key=['id'], table='t', as_of={bad},"
    " columns=[{{'name': 'id', 'type': 'int'}}])",
    "qlik_change_table({raw}, unique_key=['id'], mask_encoding={bad})",
    "scd2({raw}, unique_key=['id'], grain={bad})",
]


def test_values_that_would_be_unquoted_in_the_sql_are_refused(project: Project, lake: Lake) -> None:
    lake.create("plain__ct", {**HEADER, "id": "int"}, [])
    bad = jinja("int); drop table sentinel --")
    project.refusals([call.format(raw=relation("plain__ct"), bad=bad) for call in UNQUOTED])
    assert lake.rows(f"select * from {SCHEMA}.sentinel") == [{"id": 1}]


def test_a_seed_with_spark_variables_is_loaded_verbatim(project: Project, lake: Lake) -> None:
    texts = ["${env:HOME}", "${spark.app.name}", "'); drop table sentinel --", "\\", "{{ 1 }}"]
    project.file("seeds/hostile.csv", "text\n" + "\n".join(f'"{text}"' for text in texts) + "\n")
    project.dbt("seed")
    assert sorted(row["text"] for row in lake.rows(f"select * from {SCHEMA}.hostile")) == sorted(
        texts
    )
    assert lake.rows(f"select * from {SCHEMA}.sentinel") == [{"id": 1}]


# --- the source itself --------------------------------------------------------------------------

# What runs or rebuilds objects from bytes; XML is only ever written.
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "xml", "lxml"}
# What reads YAML without making objects of it.
SAFE_YAML = {"safe_load", "safe_dump", "YAMLError"}


@pytest.mark.parametrize(
    "file", sorted((ROOT / "python_udfs").rglob("*.py")), ids=lambda file: file.name
)
def test_nothing_runs_or_unpickles_what_comes_from_outside(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.value.id != "yaml" or node.attr in SAFE_YAML, f"line {node.lineno}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] not in FORBIDDEN_MODULES, f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert module != "yaml", f"line {node.lineno}"
            assert module.split(".")[0] not in FORBIDDEN_MODULES, f"line {node.lineno}"


LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?P<rest>.*)$", re.M)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# The Makefile's environments, and the lock file of each.
LOCKS = {".venv-spark4": "requirements-spark4.lock", ".venv-lowest": "requirements-lowest.lock"}


def locked() -> dict[str, set[str]]:
    """Return the versions of each package in the lock, and see that each has its hashes."""
    lock = LOCKS.get(Path(sys.prefix).name, "requirements.lock")
    text = re.sub(r"\\\n\s*", "", (ROOT / lock).read_text())
    packages: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = LOCKED.match(line)
        assert match, f"not a pinned requirement: {line[:80]}"
        assert HASH.search(match["rest"]), f"no hash: {match['name']}"
        packages.setdefault(normal(match["name"]), set()).add(match["version"].strip())
    return packages


def test_every_package_in_the_lock_is_pinned_with_its_hashes() -> None:
    assert len(locked()) > 30


def test_installed_packages_equal_the_lock() -> None:
    packages = locked()
    site = [sysconfig.get_path("purelib")]  # not what some packages carry inside
    found = {normal(each.metadata["Name"]): each.version for each in distributions(path=site)}
    installed = packages.keys() & found.keys()
    assert {"dbt-core", "dbt-spark", "pyspark", "fastavro"} <= installed
    for name in installed:
        assert found[name] in packages[name], name


def test_the_environment_is_installed_by_its_hashes() -> None:
    assert "--require-hashes" in (ROOT / "setup.sh").read_text()


def test_the_profile_holds_no_secret() -> None:
    text = (ROOT / "profiles" / "profiles.yml").read_text()
    for line in text.splitlines():
        if re.search(r"password|token|secret", line, re.I) and not line.lstrip().startswith("#"):
            assert "env_var('DBT_ENV_SECRET_" in line, line


def test_a_secret_cannot_get_into_compiled_sql(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBT_ENV_SECRET_PASSWORD", "hunter2")
    with pytest.raises(DbtError) as refusal:
        project.compile("select '{{ env_var('DBT_ENV_SECRET_PASSWORD') }}'")
    assert "hunter2" not in f"{refusal.value} {capfd.readouterr()}"
    state = project.folder / ".afterimage"
    assert [f for f in state.rglob("*") if f.is_file() and b"hunter2" in f.read_bytes()] == []
