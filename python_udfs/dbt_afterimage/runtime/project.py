"""The dbt project of the working directory, for commands that read its tables.

Everything goes through dbt itself, so a command sees what `dbt show` would see, whatever the
target is: a session in this process, a cluster, or a Thrift server.
"""

from __future__ import annotations

import difflib
import gc
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.run_dbt import DbtFailed, readable, run_dbt
from dbt_afterimage.runtime.state import state_folder
from dbt_afterimage.text import visible

# Columns that identify a change stream.
CONTRACT = (
    *("change_id", "change_seq", "operation", "changed_at"),
    *("reject_reason", "ingested_at"),
)

# A field of a struct whose name needs quotes, as Spark shows its type.
_ODD_FIELD = re.compile(r"([<,])(?![A-Za-z_][A-Za-z0-9_]*:)([^<>,:`]+):")

# What dbt warns of if it selects nothing; with its flag `warn_error` that is an error.
_NOTHING_SELECTED = ("does not match any enabled nodes", "No nodes selected")

# The table of a registry's schemas, beside the raw tables of the topics.
REGISTRY_SCHEMAS = "registry_schemas"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its Spark type in lower case.
        spelled: The same with the fields of structs as they are; empty if nobody knows.
    """

    name: str
    type: str
    spelled: str = field(default="", compare=False)


@dataclass(frozen=True)
class Where:
    """Which project and target a command works on: dbt's own options."""

    project_dir: str | None = None
    profiles_dir: str | None = None
    profile: str | None = None
    target: str | None = None

    def flags(self) -> list[str]:
        """Return the options for dbt's command line."""
        found = []
        for name, value in asdict(self).items():
            if value is not None:
                found += [f"--{name.replace('_', '-')}", value]
        return found

    def folder(self) -> Path:
        """Return the folder of the project.

        Raises:
            AfterimageError: There is no project.
        """
        here = Path(self.project_dir or ".").absolute()
        # As dbt itself does.
        above = [] if self.project_dir else here.parents
        for folder in (here, *above):
            if (folder / "dbt_project.yml").is_file():
                return folder
        raise AfterimageError(
            f"{here} has no dbt_project.yml: run this in a dbt project, or give --project-dir"
        )


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Let Python's garbage collector rest, and leave out later what was made meanwhile.

    A project of 1,200 models is 600,000 objects, nearly all of which stay. To look through them
    again and again takes as long as to make them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Project:
    """A dbt project, parsed once.

    Attributes:
        folder: Where its `dbt_project.yml` is.
    """

    def __init__(self, where: Where, *, asks: bool = False) -> None:
        """Parse the project.

        Args:
            where: The project and the target.
            asks: Whether the command asks Spark at once, so that it starts meanwhile.

        Raises:
            AfterimageError: There is no project, no profile, or dbt cannot read them.
        """
        self.folder = where.folder()
        self._flags = where.flags()
        self._settings: Mapping[str, str] = {}
        if asks:
            # Loads dbt, which takes a second.
            from dbt_afterimage.runtime.connections import start_with_the_next

            start_with_the_next()
        with step("reading the dbt project"), _without_collecting():
            # To write manifest.json takes longer than the rest, and nobody here reads it.
            self._manifest = run_dbt("parse", "--no-write-json", flags=self._flags)

    @property
    def manifest(self) -> Any:
        """What dbt knows of the project: its manifest."""
        return self._manifest

    def run(
        self, *command: str, log: str = "none", ended: Callable[[str], None] | None = None
    ) -> Any:
        """Run a dbt command on the parsed project, and return its result.

        Args:
            *command: The command with its arguments.
            log: The lowest level of dbt's own lines that are shown.
            ended: Gets the id of each node at its end, see `run_dbt`.

        Raises:
            AfterimageError: dbt failed. The text is dbt's message.
        """
        return run_dbt(*command, flags=self._flags, manifest=self._manifest, log=log, ended=ended)

    def selected(self, *selectors: str, state: Path | None = None) -> set[str]:
        """Return the ids of the nodes that dbt selects, with each test of one of them.

        Args:
            *selectors: What `--select` takes.
            state: The folder of a manifest, for selectors of the method `state`.

        Raises:
            AfterimageError: dbt does not understand a selector.
        """
        compared = ["--state", str(state)] if state else []
        try:
            # dbt prints the list itself.
            with redirect_stdout(io.StringIO()):
                listed = self.run(
                    *("ls", "--output", "json", "--output-keys", "unique_id"),
                    *("--indirect-selection", "eager"),
                    *("--select", *selectors, *compared),
                )
        except DbtFailed as error:
            if any(text in str(error) for text in _NOTHING_SELECTED):
                return set()
            raise
        return {str(json.loads(line)["unique_id"]) for line in listed or ()}

    def chosen(self, option: str, selectors: Sequence[str]) -> set[str]:
        """Return the ids of the nodes that a user selects.

        Args:
            option: The option that takes the selectors.
            selectors: The selectors; each must select something.

        Raises:
            AfterimageError: One selects nothing, or dbt does not understand it.
        """
        found: set[str] = set()
        for one in selectors:
            named = self.selected(one)
            if not named:
                raise AfterimageError(
                    f"{option} must select nodes of this project, as `dbt ls --select` shows them."
                    f" Got: {visible(one)}"
                )
            found |= named
        return found

    def pages_folder(self) -> Path:
        """Return the folder for the pages of the project, `.afterimage/pages`, which git ignores.

        Raises:
            AfterimageError: It cannot be made.
        """
        try:
            pages = state_folder(self.folder) / "pages"
            pages.mkdir(exist_ok=True)
        except OSError as error:
            raise AfterimageError(
                f"cannot create {error.filename} ({error.strerror}): give --output"
            ) from None
        return pages

    def parents(self, node: Any) -> list[Any]:
        """Return the models (and seeds) that a model selects from."""
        known = self._manifest.nodes
        return [known[key] for key in node.depends_on.nodes if key in known]

    def tables(self) -> list[Any]:
        """Return the models whose tables may be change streams: all but histories and the like."""
        return [
            node
            for node in sorted(self.models(), key=lambda node: str(node.name))
            if node.config.materialized not in ("ephemeral", "view", "history", "audit")
        ]

    def model(self, name: str) -> Any:
        """Return the manifest's node of a model (or seed).

        Args:
            name: The model's name, as in `ref`; its table; or dbt's id. All versions of a model
                have one name.

        Raises:
            AfterimageError: There is none, or several. The text names similar ones, or all.
        """
        nodes = [
            node
            for node in self._manifest.nodes.values()
            if node.resource_type in ("model", "seed", "snapshot")
        ]
        for what in ("unique_id", "name", "alias"):
            named = [node for node in nodes if getattr(node, what) == name]
            if len(named) == 1:
                return named[0]
            if named:
                tables = {str(node.alias) for node in named}
                is_clear = name not in tables and len(tables) == len(named)
                listed = tables if is_clear else {str(node.unique_id) for node in named}
                raise AfterimageError(
                    f"several models have the name {visible(name)}; give one of these:"
                    f" {', '.join(sorted(listed))}"
                )
        names = {str(text) for node in nodes for text in (node.name, node.alias)}
        near = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`dbt ls` lists the models."
        raise AfterimageError(f"this project has no model {visible(name)}; {hint}")

    def readers_of(self, source: str) -> list[Any]:
        """Return the models that select directly from a source, a table of one, or a seed.

        Args:
            source: `name`, `name.table`, or the name of a seed.

        Raises:
            AfterimageError: There is no such source, or no model reads it.
        """
        known = {
            key: {node.source_name, f"{node.source_name}.{node.name}"}
            for key, node in self._manifest.sources.items()
        }
        for key, node in self._manifest.nodes.items():
            if node.resource_type == "seed":
                known[key] = {node.name}
        found = {key for key, names in known.items() if source in names}
        if not found:
            listed = ", ".join(sorted(set().union(*known.values()))[:12]) or "none"
            raise AfterimageError(
                f"this project has no source or seed {visible(source)}. Allowed: {listed}"
            )
        readers = [node for node in self.tables() if found & set(node.depends_on.nodes)]
        if not readers:
            raise AfterimageError(f"no model of this project selects from {visible(source)}")
        return readers

    def source(self, schema: str, name: str) -> Any:
        """Return the manifest's node of a source's table; none if the project has none."""
        return next(
            (
                node
                for node in self._manifest.sources.values()
                if (node.source_name, node.name) == (schema, name)
            ),
            None,
        )

    @property
    def credentials(self) -> Any:
        """How the target connects; none if the target is not for Spark."""
        adapter = self._adapter()
        return adapter.config.credentials if adapter else None

    @property
    def target(self) -> str:
        """The profile, the target and how it connects."""
        config = self._adapter().config
        method = config.credentials.method
        return f"profile {config.profile_name}, target {config.target_name} ({method})"

    @property
    def target_names(self) -> tuple[str, str]:
        """The names of the profile and of the target."""
        config = self._adapter().config
        return str(config.profile_name), str(config.target_name)

    @cached_property
    def catalog(self) -> str:
        """Spark's current catalog."""
        return str(self.rows("select current_catalog()")[0][0])

    @property
    def _target_catalog(self) -> str:
        """The catalog of the target's tables, which the target's schema may name."""
        first, dot, _ = str(self.credentials.schema).partition(".")
        return first.replace("`", "") if dot else self.catalog

    @cached_property
    def table_format(self) -> str:
        """The format of the target's tables: `delta` in a catalog of Delta, else `iceberg`."""
        return self.format_in(self._target_catalog)

    def format_in(self, catalog: str) -> str:
        """Return the format of a catalog's tables: `delta` in one of Delta, else `iceberg`.

        Args:
            catalog: The catalog.
        """
        # The session knows it, whoever has started it. A name with a hyphen needs the quotes.
        [[_, kind]] = self.rows(f"set {quote(f'spark.sql.catalog.{catalog}')}")
        return "delta" if str(kind).endswith("DeltaCatalog") else "iceberg"

    @cached_property
    def spark(self) -> Any:
        """The Spark session of a target that has it in this process; none for a server."""
        if self.credentials.method != "session":
            return None
        from dbt_afterimage.runtime.session import open_session

        self.rows("select 1")  # opens it, or says why it cannot be opened
        return open_session(self.credentials.server_side_parameters or {})

    @property
    def has_views(self) -> bool:
        """Whether the target's catalog keeps views: Spark's own does, be it of Hive or Delta."""
        return self._target_catalog == "spark_catalog"

    @property
    def models_folder(self) -> str:
        """The first folder in which dbt looks for models, in the project's."""
        return Path(self._adapter().config.model_paths[0]).as_posix()

    def models(self) -> list[Any]:
        """Return the manifest's nodes of the project's models."""
        return [n for n in self._manifest.nodes.values() if n.resource_type == "model"]

    def disabled_models(self) -> list[Any]:
        """Return the nodes of models that are disabled, perhaps for this target alone."""
        disabled = [node for nodes in self._manifest.disabled.values() for node in nodes]
        return [node for node in disabled if node.resource_type == "model"]

    def source_id(self, name: str, table: str) -> str:
        """Return the id that a table of a source has, if it is one of this project."""
        return f"source.{self._manifest.metadata.project_name}.{name}.{table}"

    def readers(self) -> list[Any]:
        """Return the manifest's nodes of all that may read a table: models, tests, exposures."""
        return [*self._manifest.nodes.values(), *self._manifest.exposures.values()]

    def relations(self) -> list[Any]:
        """Return the manifest's nodes of all tables, built or not."""
        nodes = self._manifest.nodes.values()
        tables = [n for n in nodes if n.resource_type in ("model", "seed", "snapshot")]
        return [*tables, *self._manifest.sources.values()]

    def sources(self) -> list[Any]:
        """Return the manifest's nodes of the project's sources."""
        return list(self._manifest.sources.values())

    def file_of(self, node: Any) -> str | None:
        """Return the file in this project that a node is from; none for one of a package."""
        own = self._manifest.metadata.project_name
        return str(node.original_file_path) if node.package_name == own else None

    def property_files(self) -> list[str]:
        """Return the project's own files of properties."""
        own = self._manifest.metadata.project_name
        return [
            Path(file.original_file_path).as_posix()
            for file in self._manifest.files.values()
            if file.project_name == own and file.parse_file_type == "schema"
        ]

    def doc_blocks(self) -> dict[str, str]:
        """Return the project's own doc blocks, each with its file."""
        own = self._manifest.metadata.project_name
        return {
            doc.name: Path(doc.original_file_path).as_posix()
            for doc in self._manifest.docs.values()
            if doc.package_name == own
        }

    def relation(self, schema: str, identifier: str, *, quoted: bool) -> Any:
        """Return a relation for dbt's macros.

        Args:
            schema: The schema, after its catalog if that is not the current one.
            identifier: The table.
            quoted: Whether to write the identifier in backticks.
        """
        return self._adapter().Relation.create(
            schema=schema,
            identifier=identifier,
            quote_policy={"database": False, "schema": False, "identifier": quoted},
        )

    def macro(self, name: str, **arguments: Any) -> Any:
        """Return what a macro of the package returns.

        Args:
            name: The macro.
            **arguments: Its arguments.

        Raises:
            AfterimageError: The macro raised an error, or Spark failed.
        """
        if f"macro.afterimage.{name}" not in self._manifest.macros:
            raise AfterimageError(
                "Afterimage is not installed in this project: run `dbt deps` first"
            )
        with self._connection() as adapter:
            return adapter.execute_macro(
                name, macro_resolver=self._manifest, project="afterimage", kwargs=arguments
            )

    def columns(self, node: Any) -> list[Column]:
        """Return the columns of a model's table.

        Raises:
            AfterimageError: The table does not exist.
        """
        columns = self.columns_of(str(node.relation_name))
        if columns is None:
            raise AfterimageError(
                f"{node.relation_name} does not exist: build it first"
                f" (dbt build --select +{node.name})"
            )
        return columns

    def columns_of(self, relation: str) -> list[Column] | None:
        """Return the columns of a table; none if it does not exist.

        Args:
            relation: The table, as in SQL.
        """
        try:
            described = self.rows(f"describe query select * from {relation}")
        except AfterimageError as error:
            if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
                return None
            raise
        found = []
        for name, kind, *_ in described:
            # Hudi's own columns are not data.
            if name.startswith("_hoodie_"):
                continue
            if " more fields>" in kind:
                # Spark shows only the first 25 fields of a struct.
                rows = f"(select {quote(name)} from {relation} limit 0)"
                [[kind]] = self.rows(
                    f"select typeof({quote(name)}) from (select 1) left join {rows} on true"
                )
            # Text of limited length counts as plain text.
            kind = re.sub(r"(?i)\b(var)?char\(\d+\)", "string", kind)
            kind = _ODD_FIELD.sub(r"\1`\2`:", kind)
            found.append(Column(name, kind.lower(), kind))
        return found

    def query(self, sql: str) -> list[Any]:
        """Run a query that returns one column of JSON, and return the values.

        Args:
            sql: The query.

        Raises:
            AfterimageError: It failed. The text is Spark's message.
        """
        return [json.loads(row[0]) for row in self.rows(sql)]

    def ask(self, statements: Sequence[str]) -> list[list[Sequence[Any]] | AfterimageError]:
        """Run statements side by side; return the rows of each, or why it failed.

        Args:
            statements: The statements, which must not depend on each other.
        """
        return list(self.side_by_side([partial(self.rows, one) for one in statements]))

    def macros(self, name: str, calls: Sequence[Mapping[str, Any]]) -> list[Any | AfterimageError]:
        """Call a macro of the package side by side; return what each call returned, or its error.

        Args:
            name: The macro.
            calls: The arguments of each call.
        """
        return list(self.side_by_side([partial(self.macro, name, **one) for one in calls]))

    def side_by_side(self, tasks: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        """Do tasks side by side; yield what each returned, or its error, in their order.

        Args:
            tasks: What to do, which must not depend on each other.
        """

        def attempt(task: Callable[[], Any]) -> Any:
            try:
                return task()
            except AfterimageError as error:
                return error

        if len(tasks) == 1:
            yield attempt(tasks[0])
            return
        # Most of the time of a short statement is waiting. dbt gives each thread a connection, and
        # knows by the context which command it runs.
        count = max(4, int(self._adapter().config.threads))
        pool = ThreadPoolExecutor(count, thread_name_prefix="afterimage")
        try:
            waiting = [pool.submit(copy_context().run, attempt, task) for task in tasks]
            for one in waiting:
                yield one.result()
        finally:
            # Whoever stops early does not wait for what has not begun.
            pool.shutdown(cancel_futures=True)

    def rows(self, sql: str, settings: Mapping[str, str] | None = None) -> list[Sequence[Any]]:
        """Run a statement on dbt's connection, and return the rows.

        Args:
            sql: The statement.
            settings: Settings of Spark for this statement alone.

        Raises:
            AfterimageError: It failed. The text is Spark's message.
        """
        settings = {**self._settings, **(settings or {})}
        with self._connection() as adapter:

            def run(statement: str) -> list[Sequence[Any]]:
                _, cursor = adapter.connections.add_query(statement, auto_begin=False)
                return list(cursor.fetchall() or [])

            # On the same connection: another one may have a session of its own.
            for name, value in settings.items():
                run(f"set {name}={value}")
            try:
                return run(sql)
            finally:
                for name in settings:
                    run(f"reset {name}")

    @contextmanager
    def using(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Run the statements of a block with settings of Spark.

        Args:
            settings: The settings.
        """
        self._settings = settings
        try:
            yield
        finally:
            self._settings = {}

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        from dbt_common.exceptions import DbtBaseException

        adapter = self._adapter()
        try:
            with adapter.connection_named("afterimage"):
                yield adapter
        except DbtBaseException as error:
            raise AfterimageError(f"Spark failed: {readable(str(error))}") from None

    def _adapter(self) -> Any:
        from dbt.adapters.factory import FACTORY

        return FACTORY.adapters.get("spark")


class step:
    """Prints to stderr what is being done, and how long it took if that was long."""

    def __init__(self, what: str) -> None:
        """Name the step."""
        self._what = what

    def __enter__(self) -> None:
        """Print that it begins."""
        self._started = time.monotonic()
        print(f"afterimage: {self._what} ...", file=sys.stderr, flush=True)

    def __exit__(self, kind: object, *_: object) -> None:
        """Print how long it took."""
        seconds = time.monotonic() - self._started
        if kind is None and seconds >= 5:
            print(f"afterimage: {self._what}: {seconds:.0f} s", file=sys.stderr, flush=True)


def shown_name(node: Any) -> str:
    """Return a model's name, or that of its table if it is one of dbt's versions of a model."""
    return str(node.alias if getattr(node, "version", None) else node.name)


def quote(name: str) -> str:
    """Return a column's name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def text_of(column: Column, expression: str) -> str:
    """Return SQL that gives a column's value as text: the same as the macro `_as_text`."""
    if column.type == "binary":
        return f"hex({expression})"
    if "<" in column.type:
        micros = "yyyy-MM-dd HH:mm:ss.SSSSSS"
        formats = f"map('timestampFormat', '{micros}XXX', 'timestampNTZFormat', '{micros}')"
        return f"to_json({expression}, {formats})"
    # A cast writes small decimals of more than six places with an exponent.
    scale = re.fullmatch(r"decimal\(\d+, ?(\d+)\)", column.type)
    if scale and int(scale[1]) > 6:
        return f"format_number({expression}, '0.{'0' * int(scale[1])}')"
    return f"cast({expression} as string)"


def literal(text: str) -> str:
    """Return SQL for a text of any characters; the statement holds only its hex digits."""
    return f"decode(unhex('{text.encode().hex()}'), 'utf-8')"


def equals(column: Column, value: str) -> str:
    """Return the condition that a column has a value, given as text.

    Args:
        column: The column, of a simple type.
        value: A text that Spark can cast to the type; bytes as hex digits.
    """
    if column.type == "binary":
        return f"{quote(column.name)} = unhex({literal(value)})"
    return f"{quote(column.name)} = try_cast({literal(value)} as {column.type})"
