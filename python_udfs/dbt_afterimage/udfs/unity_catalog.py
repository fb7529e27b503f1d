"""The functions as statements for Databricks' Unity Catalog, from the same sources.

A function there is a text: it cannot import this package. So each statement holds the modules that
its function needs, unchanged, and makes them once in each Python process.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from importlib import metadata
from types import ModuleType

from dbt_afterimage.udfs.registry import REGISTRY, Udf

PACKAGE = "dbt_afterimage.udfs"

# The types of the arguments in SQL. A function has one signature there, so it cannot tell a mask of
# text from one of bytes: the encoding has no default. The macros always give it.
PARAMETERS = {
    "decode_change_mask": "mask binary, header_columns int, encoding string",
    "decode_field_map": "field_map binary, encoding string, bit_order string",
    "decode_avro_message": "value binary, data_schema string default null",
    "decode_registry_message": "value binary, schema string",
    "parse_table_key": "table_key string, trim_numbers boolean default false",
    "format_table_key": "parts string",
    "xds_document": "change string",
}

# What else is needed is in Python itself.
NEED_FASTAVRO = {"decode_avro_message", "decode_registry_message"}

_BODY = """\
import sys
import textwrap
import types

SOURCES = {{
{sources}
}}
for name, source in SOURCES.items():
    if name not in sys.modules:
        module = types.ModuleType(name)
        parent, _, child = name.rpartition(".")
        if not parent:
            module.__path__ = []
        sys.modules[name] = module
        try:
            exec(compile(textwrap.dedent(source), name, "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        if parent:
            setattr(sys.modules[parent], child, module)

try:
    result = sys.modules["{module}"].{function}({arguments})
except (ValueError, RecursionError) as refusal:
    result = {refused}
return {returned}
"""


def statements(catalog: str | None = None, schema: str | None = None) -> list[str]:
    """Return a CREATE FUNCTION for each function of the registry.

    Args:
        catalog: Where the functions are made; the session's own if it is left out.
        schema: The same.
    """
    place = "".join(f"`{part.replace('`', '``')}`." for part in (catalog, schema) if part)
    return [_statement(place + udf.sql_name, udf) for udf in REGISTRY]


def body(udf: Udf) -> str:
    """Return the Python of a function, as it stands between the dollar signs.

    Args:
        udf: The function.
    """
    modules = _needed(sys.modules[udf.function.__module__])
    found = {module.__name__: inspect.getsource(module) for module in modules}
    digest = hashlib.sha256("".join(found.values()).encode()).hexdigest()[:8]
    # A process may hold the modules of an older statement too.
    package = f"afterimage_{digest}"
    sources = {package: ""} | {
        name.replace(PACKAGE, package): source.replace(PACKAGE, package)
        for name, source in found.items()
    }
    for source in sources.values():
        if "'''" in source or "$$" in source:
            raise AssertionError("a source that cannot stand in a text")
    fields = f"{{name: result.get(name) for name in {list(udf.fields)!r}}}"
    return _BODY.format(
        # From a line of its own, so that a body which is indented as a whole can be undone.
        sources="\n".join(f"    {name!r}: r'''\n{source}'''," for name, source in sources.items()),
        module=udf.function.__module__.replace(PACKAGE, package),
        function=udf.function.__name__,
        arguments=", ".join(parameter.split()[0] for parameter in _parameters(udf)),
        refused='{**getattr(refusal, "known", {}), "error": str(refusal)}'
        if "error" in udf.fields
        else "None",
        returned=f"None if result is None else {fields}" if udf.fields else "result",
    )


def _statement(name: str, udf: Udf) -> str:
    environment = ""
    if udf.sql_name in NEED_FASTAVRO:
        version = metadata.version("fastavro")
        environment = (
            f"environment (dependencies = '[\"fastavro=={version}\"]',"
            " environment_version = 'None')\n"
        )
    return (
        f"create or replace function {name}({', '.join(_parameters(udf))})\n"
        f"returns {udf.return_type}\n"
        f"language python\ndeterministic\n{environment}as $$\n{body(udf)}$$;\n"
    )


def _parameters(udf: Udf) -> list[str]:
    return PARAMETERS[udf.sql_name].split(", ")


def _needed(module: ModuleType) -> list[ModuleType]:
    """Return a module and those of this package that it imports, each after what it needs."""
    found: list[ModuleType] = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            named = [f"{node.module}.{name.name}" for name in node.names]
            for name in (node.module, *named):
                if name in sys.modules and name != PACKAGE:
                    found += _needed(sys.modules[name])
    return [*dict.fromkeys([*found, module])]
