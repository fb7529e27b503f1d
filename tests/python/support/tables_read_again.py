"""Of each source of typed rows a table whose rows are read again after its columns have changed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from conftest import relation
from dialect_db2 import DB2_HEADER
from dialect_openedge import CHANGE_COLUMNS
from dialect_sqlserver import HEADER as SQLSERVER_HEADER
from reference import Row

NARROW = {"id": "int", "size": "int", "weight": "float", "price": "decimal(5,2)"}
KEYS = range(1, 9)


def data(key: int | None, size: int) -> Row:
    return {"id": key, "size": size, "weight": 0.1, "price": Decimal("1.50")}


# Of each source two rows of each key that share all but their data, so that their order, or what
# sets them apart, comes from the data; and a row that nobody can understand.


def qlik_rows() -> list[Row]:
    rows = [
        {"header__change_seq": f"{key:035d}", "header__change_oper": "U", **data(key, size)}
        for key in KEYS
        for size in (key, key + 1)
    ]
    malformed = {"header__change_seq": "no place", "header__change_oper": "U", **data(1, 1)}
    return [*rows, malformed]


def db2_rows() -> list[Row]:
    def row(code: str, place: int, key: int | None, size: int) -> Row:
        header = {
            "IBMSNAP_COMMITSEQ": (1000 + place).to_bytes(16, "big"),
            "IBMSNAP_INTENTSEQ": (2000 + place).to_bytes(16, "big"),
            "IBMSNAP_OPERATION": code,
        }
        return {**header, **data(key, size)}

    rows = [row("U", key, key, size) for key in KEYS for size in (key, key + 1)]
    return [*rows, row("X", 90, 1, 1), row("I", 91, None, 1)]


def dms_rows() -> list[Row]:
    def row(code: str, place: int, key: int, size: int) -> Row:
        return {"Op": code, "dms_change_seq": f"{place:035d}", **data(key, size)}

    rows = [row("U", key, key, size) for key in KEYS for size in (key, key + 1)]
    loads = [{"Op": None, "dms_change_seq": None, **data(key + 100, key)} for key in KEYS]
    return [*rows, *loads, row("X", 90, 1, 1)]


def copies_rows() -> list[Row]:
    first, second = date(2024, 2, 28), date(2024, 2, 29)
    rows = [{"copied_on": first, **data(key, key)} for key in KEYS]
    changed = [{"copied_on": second, **data(key, key + key % 2)} for key in KEYS]
    twice = [{"copied_on": second, **data(20, size)} for size in (1, 2)]
    return [*rows, *changed, *twice, {"copied_on": None, **data(1, 1)}]


def sqlserver_rows() -> list[Row]:
    def row(code: int, place: int, key: int, size: int) -> Row:
        lsn = (1000 + place).to_bytes(10, "big")
        return {
            "__$start_lsn": lsn,
            "__$seqval": lsn,
            "__$operation": code,
            "__$update_mask": b"\x0f",
            **data(key, size),
        }

    rows = [row(2, key, key, size) for key in KEYS for size in (key, key + 1)]
    return [*rows, row(7, 90, 1, 1)]


def openedge_rows() -> list[Row]:
    def row(code: int, place: int | None, key: int, size: int) -> Row:
        return {"_Change-Sequence": place, "_Operation": code, **data(key, size)}

    rows = [row(4, key, key, size) for key in KEYS for size in (key, key + 1)]
    return [*rows, row(4, None, 1, 1)]


QLIK_HEADER = {"header__change_seq": "string", "header__change_oper": "string"}
DMS_HEADER = {"Op": "string", "dms_change_seq": "string"}
SOURCES: dict[str, tuple[str, dict[str, str], list[Row]]] = {
    "qlik": ("qlik_change_table({})", QLIK_HEADER, qlik_rows()),
    "db2": ("db2_change_data({}, before_prefix=none)", DB2_HEADER, db2_rows()),
    "dms": ("dms_changes({})", DMS_HEADER, dms_rows()),
    "copies": ("dated_copies({}, copy_column='copied_on')", {"copied_on": "date"}, copies_rows()),
    "sqlserver": ("sqlserver_change_table({})", SQLSERVER_HEADER, sqlserver_rows()),
    "openedge": ("openedge_change_table({})", CHANGE_COLUMNS, openedge_rows()),
}


def call(source: str, table: str) -> str:
    """Write the call that reads a table of a source."""
    macro, rest = SOURCES[source][0].split("{}")
    return f"{macro}{relation(table)}, unique_key=['id']{rest}"
