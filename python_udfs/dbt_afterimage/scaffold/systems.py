"""Recognises which source system wrote a table, by the signs that it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import CONTRACT, Column

ENVELOPE = "an envelope"
DEBEZIUM_MESSAGE = "a Debezium message"
OPERATION = "Op"
SEQUENCE = "…change_seq"
BEFORE_IMAGE = "BI_…"

FLATTENED_ROWS = (
    "If its messages are Debezium's flattened rows, nothing in them says what happened: let"
    " add.fields of ExtractNewRecordState name op, source.ts_ms, source.snapshot and source.txId"
    " (MySQL and MariaDB: source.gtid), and set its delete.tombstone.handling.mode to rewrite. If"
    ' they are Flink\'s debezium-json, which has no source: see "Limits" in'
    " docs/systems/debezium_messages.md"
)


@dataclass(frozen=True)
class System:
    """A source system, and the signs of its tables.

    Attributes:
        macro: The source macro.
        folder: The folder and the prefix of its staging models.
        needed: Signs that must be there; one of each tuple.
        signs: Column -> the doc block that describes it. `PKnn` means PK01, PK02, …; `…` means any
            text; an envelope, a message and an `Op` are found in the rows.
    """

    macro: str
    folder: str
    title: str
    needed: tuple[tuple[str, ...], ...]
    signs: Mapping[str, str | None]

    @property
    def is_shown_by_rows(self) -> bool:
        """Whether a sign that must be there is found in the rows, and goes with them."""
        return not {ENVELOPE, DEBEZIUM_MESSAGE, OPERATION}.isdisjoint(
            name for names in self.needed for name in names
        )


def _prefixed(prefix: str, names: str) -> dict[str, str | None]:
    return {prefix + name: name for name in names.split()}


SYSTEMS = (
    System(
        "qlik_change_table",
        "qlik",
        "a Qlik change table",
        (("header__change_seq",), ("header__change_oper", "header__operation")),
        _prefixed(
            "header__",
            "change_seq change_oper change_mask stream_position operation transaction_id timestamp",
        ),
    ),
    System(
        "qlik_messages",
        "qlik",
        "a landing of Qlik or Talend messages on Kafka",
        (("value",), (ENVELOPE,)),
        {
            "value": "value",
            **dict.fromkeys((ENVELOPE, "key", "topic", "partition", "offset", "timestamp")),
        },
    ),
    System(
        "debezium_messages",
        "debezium",
        "a landing of Debezium messages on Kafka",
        (("value",), (DEBEZIUM_MESSAGE,)),
        {
            "value": "value",
            "key": "key",
            "headers": "headers",
            **dict.fromkeys((DEBEZIUM_MESSAGE, "topic", "partition", "offset", "timestamp")),
        },
    ),
    System(
        "netiq_event_log",
        "netiq",
        "an Identity Manager JDBC event log",
        (("record_id",), ("table_key",), ("event_type",)),
        _prefixed(
            "",
            "record_id status event_type event_time perpetrator table_name table_key column_name"
            " old_value new_value",
        ),
    ),
    System(
        "db2_change_data",
        "db2",
        "a Db2 CD or CCD table",
        (("IBMSNAP_COMMITSEQ",), ("IBMSNAP_INTENTSEQ",), ("IBMSNAP_OPERATION",)),
        {
            "IBMSNAP_COMMITSEQ": "commitseq",
            "IBMSNAP_INTENTSEQ": "intentseq",
            "IBMSNAP_OPERATION": "operation",
        },
    ),
    System(
        "db2_text_log",
        "db2",
        "the log table of a Db2 text index",
        (("OPERATION",), ("TIME",), ("PKnn",)),
        {"OPERATION": "operation", "TIME": "time", "PKnn": "pk"},
    ),
    System(
        "openedge_change_table",
        "openedge",
        "an OpenEdge change table",
        (("_Change-Sequence",), ("_Operation",)),
        {
            "_Tran-Id": "tran_id",
            "_Time-Stamp": "time_stamp",
            "_Change-Sequence": "change_sequence",
            "_Continuation-Position": "continuation_position",
            "_ArrayIndex": "arrayindex",
            "_Fragment": "fragment",
            "_Operation": "operation",
        },
    ),
    System(
        "sqlserver_change_table",
        "sqlserver",
        "a SQL Server change table",
        # Net changes lack __$seqval. The plan says what to do.
        (("__$start_lsn",), ("__$operation",)),
        _prefixed("__$", "start_lsn end_lsn seqval operation update_mask command_id"),
    ),
    System(
        "dms_changes",
        "dms",
        "a table of AWS DMS",
        ((OPERATION,),),
        {OPERATION: "op", SEQUENCE: "change_seq", BEFORE_IMAGE: "before_image"},
    ),
)

# Columns that a table of ours has: of staging, of a test that keeps the changes which fail, of an
# audit, of a history and the present rows. The audit's first columns have other names where its key
# has theirs, and `meta_column_names` may rename those of a history.
_OURS = (
    CONTRACT,
    ("change_id", "change_seq", "operation"),
    ("column_name", "old_value", "new_value", "old_value_from"),
    ("valid_from_seq",),
)


@dataclass(frozen=True)
class Found:
    """A table that was recognised.

    Attributes:
        here: The signs that it shows, by the names of its columns.
        missing: The signs that it lacks.
        described: Column -> the doc block that describes it.
    """

    system: System
    here: list[str]
    missing: list[str]
    described: dict[str, str]

    def __str__(self) -> str:
        lacking = f", missing: {', '.join(self.missing)}" if self.missing else ""
        return (
            f"{self.system.title}: it has {len(self.here)} of {len(self.system.signs)} signs"
            f" ({', '.join(self.here)}){lacking}."
        )


def recognise(
    columns: Sequence[Column],
    arguments: Mapping[str, object],
    system: str | None,
    shows: Callable[[str, Column], bool],
) -> Found | None:
    """Return the system of which a table shows most signs; none if it shows too few, or is ours.

    Args:
        columns: The table's columns.
        arguments: Those of the source macro that rename columns: `header_prefix`, `column_names`,
            `value`.
        system: The source macro, if the user has given it.
        shows: Whether the values of a column show a sign: an envelope, a Debezium message, or AWS
            DMS's `Op`.
    """
    if system is not None and system not in (one.macro for one in SYSTEMS):
        allowed = ", ".join(one.macro for one in SYSTEMS)
        raise AfterimageError(f"system must be one of {allowed}. Got: {system}")
    if system is None and is_ours(columns):
        return None
    prefix = header_prefix(columns, arguments)
    shown = {_sign(column.name, prefix): column for column in columns}
    renamed = arguments.get("column_names")
    for standard, here in (renamed if isinstance(renamed, dict) else {}).items():
        if str(here).lower() in shown:
            shown[standard] = shown[str(here).lower()]
    value = shown.get(str(arguments.get("value", "value")).lower())
    names = {sign: column.name for sign, column in shown.items()}
    if value is not None:
        names["value"] = value.name
        for sign in (ENVELOPE, DEBEZIUM_MESSAGE):
            if value.type in ("string", "binary") and shows(sign, value):
                names[_sign(sign)] = f"{sign} in {value.name}"
                break
    operation = shown.get(str(arguments.get("operation", OPERATION)).lower())
    names.pop(OPERATION.lower(), None)
    if operation is not None and operation.type == "string" and shows(OPERATION, operation):
        names[OPERATION.lower()] = operation.name
    names |= {_sign(SEQUENCE): name for name in sequences(columns)}
    names |= {_sign(BEFORE_IMAGE): name for name in _before_images(columns)}

    best: tuple[float, Found] | None = None
    for candidate in SYSTEMS:
        signs = {sign: names.get(_sign(sign)) for sign in candidate.signs}
        found = Found(
            candidate,
            [name for name in signs.values() if name],
            [sign for sign, name in signs.items() if not name],
            {
                name: f"{candidate.macro}__{candidate.signs[sign]}"
                for sign, name in signs.items()
                if name and candidate.signs[sign]
            },
        )
        is_complete = all(any(signs[one] for one in one_of) for one_of in candidate.needed)
        share = len(found.here) / len(signs)
        fits = candidate.macro == system if system else is_complete
        if fits and (best is None or share > best[0]):
            best = (share, found)
    return best[1] if best else None


def is_ours(columns: Sequence[Column]) -> bool:
    """Whether a table has the columns of one that Afterimage builds.

    Args:
        columns: The table's columns.
    """
    here = {column.name.lower() for column in columns}
    return any(here.issuperset(ours) for ours in _OURS)


SEQUENCE_TYPES = ("string", "decimal(35,0)", "decimal(38,0)")


def sequences(columns: Sequence[Column]) -> list[str]:
    """Return the columns in which AWS DMS writes the order of the changes, by their names."""
    names = [column.name for column in columns if column.type in SEQUENCE_TYPES]
    return [n for n in names if re.search("(?i)(^|(?<!header_)_)change_seq$", n)]


def _before_images(columns: Sequence[Column]) -> list[str]:
    """Return the columns that AWS DMS names as before-images, of whatever type."""
    images = {f"BI_{column.name}".lower() for column in columns}
    return [column.name for column in columns if column.name.lower() in images]


def known_by() -> str:
    """Return the systems with their signs, one line each."""
    return "\n".join(
        f"  {system.macro}, {system.title}: {', '.join(system.signs)}" for system in SYSTEMS
    )


def hint(columns: Sequence[Column]) -> str:
    """Return what a table of no known system may be, and what to do then; empty if unknown.

    Args:
        columns: The table's columns.
    """
    here = {column.name.lower() for column in columns}
    of_iceberg = any(one.name.lower() == "_cdc" and "offset:" in one.type for one in columns)
    if (
        {"__op", "__deleted"} & here
        or here.issuperset({"op", "after", "source"})
        or of_iceberg  # Its sink's DebeziumTransform.
    ):
        return (
            "Its columns look like those of Debezium's messages. Make a message of each row, in a"
            ' column `value`: see "Landed as columns" in docs/systems/debezium_messages.md'
        )
    return FLATTENED_ROWS if "value" in here else ""


def header_prefix(columns: Sequence[Column], arguments: Mapping[str, object]) -> str:
    """Return the prefix of Qlik's header columns.

    It is that of the one header column that every table has. The longest prefix counts, because a
    data column may have Qlik's own name.
    """
    given = arguments.get("header_prefix")
    if given is not None:
        return str(given)
    sign = "change_seq"
    prefixes = [c.name[: -len(sign)] for c in columns if c.name.lower().endswith(sign)]
    return max(prefixes, key=len, default="header__")


_QLIK_HEADER = {"partition_name", *(name.removeprefix("header__") for name in SYSTEMS[0].signs)}


def header_name(name: str, prefix: str) -> str | None:
    """Return Qlik's own name of a header column; none for a data column.

    Args:
        name: The column.
        prefix: The prefix of header columns; empty if they have none.
    """
    if not name.lower().startswith(prefix.lower()):
        return None
    rest = name[len(prefix) :].lower()
    return rest if prefix or rest in _QLIK_HEADER else None


def _sign(name: str, prefix: str = "header__") -> str:
    """Return the form in which names are compared.

    In any case, OpenEdge's with or without hyphens, Qlik's prefix by any name.
    """
    of_qlik = header_name(name, prefix)
    if of_qlik is not None:
        return f"header__{of_qlik}"
    lower = name.lower()
    if lower.startswith("_"):
        return "_" + lower.replace("-", "").replace("_", "")
    return re.sub(r"^pk[0-9]+$", "pknn", lower)
