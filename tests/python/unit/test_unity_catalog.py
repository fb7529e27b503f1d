"""The functions as Unity Catalog would run them: the printed Python, in a process without us."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from typing import Any

import pytest

from dbt_afterimage.cli import main
from dbt_afterimage.udfs.registry import REGISTRY
from dbt_afterimage.udfs.unity_catalog import PARAMETERS, statements
from registry_messages import framed, record

STATEMENT = re.compile(
    r"create or replace function (?P<name>\S+)\((?P<parameters>.*)\)\n"
    r"returns (?P<returns>\S+)\nlanguage python\ndeterministic\n"
    r"(?P<environment>environment \(.*\)\n)?as \$\$\n(?P<body>.*)\$\$;\n\Z",
    re.DOTALL,
)
ONE_TEXT = json.dumps(record("R", {"a": "string"}))
TWO_TEXTS = json.dumps(record("R", {"a": "string", "b": "bytes"}))
ENVELOPE = b"atMSG" + bytes.fromhex("04 4454 00 02 04 7631 00 06 04 6f6b")

# The examples of the functions' own documentation, the vendors' among them, and a refusal each.
EXAMPLES: list[tuple[str, list[Any], Any]] = [
    ("decode_change_mask", [b"0B", 0, "hex"], [1, 2, 4]),
    ("decode_change_mask", [bytes.fromhex("000B01"), 7, "bytes"], [2, 3, 5, 10]),
    ("decode_change_mask", [None, 0, "hex"], None),
    ("decode_change_mask", [b"no mask", 0, "hex"], None),
    ("decode_field_map", [b"11001", "bits", "high_first"], [1, 2, 5]),
    ("decode_field_map", [b"C8", "hex", "high_first"], [1, 2, 5]),
    (
        "decode_avro_message",
        [ENVELOPE, ONE_TEXT],
        {"type": "DT", "schema_id": "v1", "message": '{"a": "ok"}', "error": None},
    ),
    (
        "decode_avro_message",
        [ENVELOPE, TWO_TEXTS],
        {
            "type": "DT",
            "schema_id": "v1",
            "message": None,
            "error": "the message: ends in the middle of a value",
        },
    ),
    (
        "decode_registry_message",
        [framed(7, record("R", {"a": "string", "b": "bytes"}), {"a": "x", "b": b"hi"}), TWO_TEXTS],
        {"message": '{"a": "x", "b": "aGk="}', "error": None},
    ),
    (
        "decode_registry_message",
        [b"x", ONE_TEXT],
        {"message": None, "error": "does not begin with a zero byte and the id of a schema"},
    ),
    (
        "parse_table_key",
        ["pkey2=value2+pkey1=value1", False],
        {
            "parts": {"pkey2": "value2", "pkey1": "value1"},
            "canonical": "pkey1=value1+pkey2=value2",
            "warning": None,
            "error": None,
        },
    ),
    ("format_table_key", ['{"a": "x+y", "b": "2"}'], 'a="x+y"+b=2'),
    (
        "xds_document",
        ['{"event": "delete", "class_name": "usr", "association": "idu=1"}'],
        {
            "document": '<delete class-name="usr"><association>idu=1</association></delete>',
            "error": None,
        },
    ),
    ("format_table_key", ['{"a": "1", "b": "x,y"}'], 'a=1+b="x,y"'),
]


def printed() -> dict[str, re.Match[str]]:
    """Return each statement by its function's name, in its parts."""
    found = {}
    for udf, statement in zip(REGISTRY, statements("main", "cdc"), strict=True):
        match = STATEMENT.match(statement)
        assert match is not None, statement[:300]
        assert match["name"] == f"`main`.`cdc`.{udf.sql_name}"
        found[udf.sql_name] = match
    return found


SCRIPT = """
import ast, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ImportError(name)

names, body, arguments, absent = ast.literal_eval(sys.stdin.read())
sys.meta_path.insert(0, Absent())
head = f"def f({', '.join(names)}):\\n"
as_it_is = ast.parse(head + "    pass")
as_it_is.body[0].body = ast.parse(body).body
indented = head + "".join("    " + line for line in body.splitlines(keepends=True))
answers = []
for code in (as_it_is, indented):
    space = {}
    exec(compile(code, "body", "exec"), space)
    answers += [space["f"](*arguments), space["f"](*arguments)]
print(answers)
"""


def called(name: str, arguments: list[Any]) -> Any:
    """Call a function as Unity Catalog does, which puts its text into a function."""
    match = printed()[name]
    names = [parameter.split()[0] for parameter in match["parameters"].split(", ")]
    absent = ["dbt_afterimage", "dbt", "pyspark", "pandas"]
    if not match["environment"]:
        absent.append("fastavro")
    given = repr((names, match["body"], arguments, absent))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, *others = ast.literal_eval(done.stdout)
    # Called again, and with the text indented: nobody says how it is put there.
    assert others == [first] * 3
    return first


@pytest.mark.parametrize(("name", "arguments", "answer"), EXAMPLES)
def test_the_printed_text_gives_the_documented_answer(
    name: str, arguments: list[Any], answer: Any
) -> None:
    assert called(name, arguments) == answer


def test_every_function_is_printed_with_the_arguments_that_it_has() -> None:
    for udf in REGISTRY:
        written = [parameter.split() for parameter in PARAMETERS[udf.sql_name].split(", ")]
        arguments = inspect.signature(udf.function).parameters
        assert len(written) == len(arguments)
        for (_, _, *default), argument in zip(written, arguments.values(), strict=True):
            defaults = {"null": None, "false": False}
            if default:
                assert argument.default is defaults[default[1]]
        assert printed()[udf.sql_name]["returns"] == udf.return_type


def test_a_call_without_the_encoding_of_a_mask_is_refused() -> None:
    """`0B` as text is another mask than as bytes, and the function there cannot tell them apart."""
    assert "default" not in PARAMETERS["decode_change_mask"] + PARAMETERS["decode_field_map"]


def test_only_what_reads_avro_asks_for_fastavro() -> None:
    asking = {name for name, match in printed().items() if match["environment"]}
    assert asking == {"decode_avro_message", "decode_registry_message"}
    pinned = (
        r"""environment \(dependencies = '\["fastavro==[\d.]+"\]', environment_version = 'None'\)"""
    )
    assert re.fullmatch(pinned, printed()["decode_avro_message"]["environment"].strip())


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["functions"]) == 0
    assert capsys.readouterr().out == "\n".join(statements())
    assert main(["functions", "--schema", "odd`name"]) == 0
    out = capsys.readouterr().out
    assert out.count("create or replace function `odd``name`.") == len(REGISTRY)
    assert main(["functions", "--catalog", "main"]) != 0
    assert "--catalog needs --schema" in capsys.readouterr().err
