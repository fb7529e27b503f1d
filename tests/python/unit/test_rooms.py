"""Where a macro may be, what it may call, and that a dialect is named only in its own room."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dbt_common.clients.jinja import get_environment
from jinja2 import nodes

from conftest import ROOT

MACROS = ROOT / "macros"
SYSTEMS = {"qlik", "netiq", "db2", "openedge", "sqlserver", "debezium", "dms", "dated_copies"}
FORMATS = ("iceberg", "delta", "files")
COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
DEFINED = re.compile(r"^\{%-? (?:macro|materialization) (\w+)", re.MULTILINE)
# What the macros of a room may call, besides those of the room itself.
BELOW = {
    "lib": set(),
    "formats": {"lib"},
    "contract": {"lib", "formats"},
    "history": {"lib", "formats"},
    "history/events": {"lib", "formats", "history"},
    "history/materialization": {"lib", "formats", "history", "history/events"},
    "spark": {"lib"},
    "erasure": {"lib", "formats", "contract", "history"},
    **{system: {"lib", "contract"} for system in SYSTEMS},
}
# Readers of a history stand beside what they all use; these make their SQL from events.
READERS = {"scd2", "change_audit", "change_accounting", "known_at"}
# One override of dbt-spark in two macros, and where dbt-databricks keeps its own.
TOGETHER = {
    f"{adapter}__{macro}": "seed"
    for adapter in ("spark", "databricks")
    for macro in ("create_csv_table", "load_csv_rows")
}

# What dbt and Jinja give to every macro, as far as ours use it, and macros of dbt's own.
GIVEN = set(
    re.findall(
        r"\w+",
        """
    adapter afterimage api apply_grants builtins clustered_cols comment_clause compiled_code
    config dbt env_var exceptions execute file_format_clause flags fromjson
    get_assert_columns_equivalent get_batch_size get_select_subquery graph
    invocation_args_dict invocation_id is_incremental kwargs liquid_clustered_cols
    load_relation local_md5 location_clause log loop model modules noop_statement
    options_clause partition_cols persist_constraints persist_docs post_hooks pre_hooks
    project_name return run_hooks run_query run_started_at selected_resources
    should_full_refresh should_revoke source statement target this tojson var zip
        """,
    )
)


def files() -> list[Path]:
    found = sorted(MACROS.rglob("*.sql"))
    assert len(found) > 50
    return found


def home() -> dict[str, Path]:
    return {name: file for file in files() for name in DEFINED.findall(file.read_text())}


def calls(file: Path) -> set[str]:
    """Return the macros that a file calls; a question to a format calls each format's answer."""
    text = COMMENT.sub("", file.read_text())
    questions = re.findall(r"_of_(?:model_)?format\((?:[^()]*, )?'(\w+)'\)", text)
    answers = {f"_{format}_{question}" for format in FORMATS for question in questions}
    return set(re.findall(r"afterimage\.(\w+)", text)) | answers


def room(file: Path) -> str:
    """Return the room of a file; a system is one room, whatever its folders."""
    parts = file.relative_to(MACROS).parts[:-1]
    return "/".join(parts[:1] if parts[0] in SYSTEMS else parts)


def test_a_name_is_given_once() -> None:
    names = Counter(name for file in files() for name in DEFINED.findall(file.read_text()))
    assert [name for name, times in names.items() if times > 1] == []


def test_a_public_macro_is_in_the_file_of_its_name() -> None:
    misplaced = {
        name: str(file.relative_to(MACROS))
        for name, file in home().items()
        if not name.startswith("_") and file.stem != TOGETHER.get(name, name)
    }
    assert misplaced == {}


def test_a_name_that_a_macro_reads_is_set() -> None:
    """Jinja takes a name that nothing sets for false, without a word."""
    environment = get_environment(None, capture_macros=False)
    unset = []
    for file in files():
        for macro in environment.parse(file.read_text()).find_all(nodes.Macro):
            names = list(macro.find_all(nodes.Name))
            own = {name.name for name in names if name.ctx in ("store", "param")}
            read = {name.name: name.lineno for name in names if name.ctx == "load"}
            unset += [
                f"{file.relative_to(MACROS)}:{line}: {name}"
                for name, line in read.items()
                if name not in own | GIVEN | environment.globals.keys()
            ]
    assert unset == []


def test_every_macro_is_used() -> None:
    private = {name for name in home() if name.startswith("_")}
    unused = private - {name for file in files() for name in calls(file)}
    called_elsewhere = {
        name
        for file in [*ROOT.glob("tests/**/*"), *ROOT.glob("python_udfs/**/*.py")]
        if file.suffix in {".py", ".sql"}
        for name in unused
        if name in file.read_text()
    }
    assert unused == called_elsewhere


def test_a_file_is_a_chapter() -> None:
    """Neither a line nor a book: few files are short, none is long."""
    lengths = {str(f.relative_to(MACROS)): len(f.read_text().splitlines()) for f in files()}
    assert [file for file, length in lengths.items() if length > 260] == []
    assert len([file for file, length in lengths.items() if length < 20]) < 10
    assert len(lengths) <= 130


def test_rooms_call_only_those_below_them() -> None:
    homes = home()
    upward = {
        f"{file.relative_to(MACROS)} calls {name} of {room(homes[name])}"
        for file in files()
        for name in calls(file)
        if name in homes
        and room(homes[name]) not in {room(file), *BELOW[room(file)]}
        and not (file.stem in READERS and room(homes[name]) == "history/events")
    }
    assert upward == set()


def test_each_format_answers_all_questions() -> None:
    text = (MACROS / "formats" / "formats.sql").read_text()
    questions = set(re.findall(r"^    \| `(\w+)(?:\(.*?\))?` \| ", text, re.MULTILINE))
    asked = {name[7:] for file in files() for name in calls(file) if name.startswith("_delta_")}
    answered = {format: set[str]() for format in FORMATS}
    for name, file in home().items():
        format = name.split("_")[1] if name.startswith("_") else ""
        if format in FORMATS and file.parent.name == "formats":
            answered[format].add(name.removeprefix(f"_{format}_"))
    assert len(questions) > 8
    assert all(questions <= answers for answers in answered.values())
    assert questions <= asked


def test_a_format_is_named_in_its_room_only() -> None:
    named = {
        file.name
        for file in files()
        if file.parent.name != "formats"
        and re.search(r"file_format|iceberg|'delta'", COMMENT.sub("", file.read_text()))
    }
    # A seed's statement, a relation that is a path, a catalog of Iceberg tables, a refusal of Hudi.
    allowed = {"seed.sql", "catalog.sql", "spark__list_relations_without_caching.sql"}
    assert named == allowed | {"history.sql"}


def test_a_dialect_is_named_in_its_room_only() -> None:
    named: set[tuple[str, str]] = set()
    for file in files():
        here = file.relative_to(MACROS).parts[0]
        text = COMMENT.sub("", file.read_text()).lower()
        named |= {(file.name, system) for system in SYSTEMS - {here} if system in text}
    assert named == set()


def test_a_check_changes_nothing() -> None:
    """A statement that changes a table stands under a name that says so."""
    statement = r"(?:alter|drop|create(?: or replace)?) (?:table|view)|merge into"
    changing = re.compile(rf"\b(?:{statement})\b")
    macro = re.compile(r"^\{%-? macro (_check\w*)\(.*?\{%-? endmacro", re.MULTILINE | re.DOTALL)
    changes = {
        found[1]
        for file in files()
        for found in macro.finditer(COMMENT.sub("", file.read_text()))
        if changing.search(found[0])
        or re.search(r"afterimage\._(?:add|append|drop|create|merge|compact)", found[0])
    }
    assert changes == set()
