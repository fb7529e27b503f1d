"""With `on_schema_change: append_new_columns`, tables follow a column whose type has widened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyspark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FORMAT, SCHEMA, DbtError, Lake, Project, relation
from histories import EXAMPLES, fewer_checks, in_order
from reference import META_COLUMNS, Change, Row, audit, history

pytestmark = pytest.mark.skipif(
    FORMAT == "delta" and pyspark.__version__ < "4", reason="Delta 3.3 widens no int to bigint"
)

RAW = "parcels__ct"
HEADER = {
    "header__change_seq": "string",
    "header__change_oper": "string",
    "header__timestamp": "timestamp",
}
NARROW = {
    **HEADER,
    "id": "int",
    "weight": "float",
    "price": "decimal(5,2)",
    "size-of": "struct<tall: int, `wide-x`: float>",
    "counts": "array<int>",
    "stops": "array<struct<place: string, minutes: int>>",
    "marks": "map<string, int>",
}
WIDE = {
    **HEADER,
    "id": "bigint",
    "weight": "double",
    "price": "decimal(9,2)",
    "size-of": "struct<tall: bigint, `wide-x`: double>",
    "counts": "array<bigint>",
    "stops": "array<struct<place: string, minutes: bigint>>",
    "marks": "map<string, bigint>",
}
# How a table of Iceberg gets from the one to the other.
ALTERS = {
    "id": "bigint",
    "weight": "double",
    "price": "decimal(9,2)",
    "`size-of`.tall": "bigint",
    "`size-of`.`wide-x`": "double",
    "counts.element": "bigint",
    "stops.element.minutes": "bigint",
    "marks.value": "bigint",
}
BUILT = ("stg_parcels", "parcels_history", "parcels_audit")
SETTING = "append_new_columns"


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("widened_types")


@pytest.fixture
def parcels(project: Project, lake: Lake) -> Callable[..., None]:
    """A function that builds staging, history and audit with a setting of `on_schema_change`."""

    def build(setting: str = SETTING, **of_history: Any) -> None:
        for name in BUILT:
            lake.spark.sql(f"drop table if exists {SCHEMA}.{name}")
        stream, history, audit = BUILT
        call = f"qlik_change_table({relation(RAW)}, ['id'])"
        project.stream(stream, call, on_schema_change=setting)
        project.history(history, stream, **of_history)
        select = f"select * from {{{{ ref('{stream}') }}}}"
        project.model(audit, select, materialized="audit", unique_key=["id"])
        lake.create(RAW, NARROW, FIRST)
        project.dbt("run", "--select", *BUILT)

    return build


def row(place: int, letter: str, key: int, weight: float, price: str, few: int) -> dict[str, Any]:
    """Return a landed row; `few` is what its nested columns hold."""
    return {
        "header__change_seq": f"2024010{place}120000{'0' * 21}",
        "header__change_oper": letter,
        "id": key,
        "weight": weight,
        "price": Decimal(price),
        "size-of": {"tall": few, "wide-x": 0.25},
        "counts": [few],
        "stops": [{"place": "Rome", "minutes": few}],
        "marks": {"x": few},
    }


MANY = 3_000_000_000  # more than an int can hold
FIRST = [
    row(1, "I", 1, 0.1, "1.50", 1),
    row(2, "I", 2, 0.5, "2.00", 2),
    row(3, "B", 1, 0.1, "1.50", 1),
    row(3, "U", 1, 0.1, "1.75", 1),
]
LATER = [
    row(4, "B", 1, 0.1, "1.75", 1),
    row(4, "U", 1, 0.1, "12345.75", MANY),
    row(5, "I", MANY, 0.1, "3.00", 3),
    # It was delivered before.
    row(2, "I", 2, 0.5, "2.00", 2),
]


def widen(lake: Lake, table: str = RAW, prefix: str = "", alters: Any = ALTERS) -> None:
    allow_widening(lake, table)
    for column, kind in alters.items():
        lake.spark.sql(f"alter table {SCHEMA}.{table} alter column {prefix}{column} type {kind}")


def allow_widening(lake: Lake, table: str) -> None:
    if FORMAT == "delta":
        lake.spark.sql(
            f"alter table {SCHEMA}.{table} set tblproperties ('delta.enableTypeWidening' = 'true')"
        )


def types_of(lake: Lake, query: str) -> dict[str, str]:
    described = lake.rows(f"describe query {query}")
    return {column["col_name"]: column["data_type"] for column in described}


WIDE_TYPES = {
    "id": "bigint",
    "weight": "double",
    "price": "decimal(9,2)",
    "size-of": "struct<tall:bigint,wide-x:double>",
    "counts": "array<bigint>",
    "stops": "array<struct<place:string,minutes:bigint>>",
    "marks": "map<string,bigint>",
}


def see_full_refresh_agrees(
    project: Project, lake: Lake, models: tuple[str, ...] = BUILT
) -> dict[str, list[dict[str, Any]]]:
    """See that a full refresh gives the rows and the types that the runs gave, and return them."""
    in_runs = lake.contents(*models)
    types = {model: types_of(lake, f"select * from {SCHEMA}.{model}") for model in models}
    project.dbt("run", "--full-refresh", "--select", *models)
    assert lake.contents(*models) == in_runs
    assert {m: types_of(lake, f"select * from {SCHEMA}.{m}") for m in models} == types
    return in_runs


@pytest.mark.minutes
def test_wider_types_are_taken_in_and_what_was_pruned_is_kept(
    parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels()
    widen(lake)
    lake.append(RAW, WIDE, LATER)
    lake.spark.sql(f"delete from {SCHEMA}.{RAW} where header__change_seq < '20240102'")
    project.dbt("run", "--select", *BUILT)
    for image in ("before", "after"):
        found = types_of(lake, f"select `{image}`.* from {SCHEMA}.stg_parcels")
        assert found == WIDE_TYPES
    versions = lake.rows(
        "select id, version, weight, price, `size-of`.tall, counts[0], stops[0].minutes, marks['x']"
        f" from {SCHEMA}.parcels_history order by id, version"
    )
    tenth = 0.10000000149011612  # what a float holds of 0.1
    assert [tuple(version.values()) for version in versions] == [
        (1, 1, tenth, Decimal("1.50"), 1, 1, 1, 1),
        (1, 2, tenth, Decimal("1.75"), 1, 1, 1, 1),
        (1, 3, 0.1, Decimal("12345.75"), MANY, MANY, MANY, MANY),
        (2, 1, 0.5, Decimal("2.00"), 2, 2, 2, 2),
        (MANY, 1, 0.1, Decimal("3.00"), 3, 3, 3, 3),
    ]
    found = types_of(lake, f"select * from {SCHEMA}.parcels_history")
    assert {name: found[name] for name in WIDE_TYPES} == WIDE_TYPES
    contents = lake.contents(*BUILT)
    project.dbt("run", "--select", *BUILT)
    assert lake.contents(*BUILT) == contents


@pytest.mark.minutes
@pytest.mark.parametrize("lands", [True, False], ids=["with new rows", "with none"])
def test_tables_with_wider_types_equal_those_of_a_full_refresh(
    lands: bool, parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels(overwrite_columns=["weight"], track_columns=["price", "size-of"])
    widen(lake)
    project.dbt("run", "--select", *BUILT)
    if lands:
        lake.append(RAW, WIDE, LATER)
        project.dbt("run", "--select", *BUILT)
    found = see_full_refresh_agrees(project, lake)
    assert len(found["stg_parcels"]) == (5 if lands else 3)


@pytest.mark.minutes
def test_new_and_wider_columns_in_one_run(
    parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels()
    widen(lake)
    lake.spark.sql(f"alter table {SCHEMA}.{RAW} add columns (city string after id)")
    columns = {**HEADER, "id": "bigint", "city": "string", **WIDE}
    lake.append(RAW, columns, [{**landed, "city": "Oslo"} for landed in LATER[:3]])
    project.dbt("run", "--select", *BUILT)
    found = see_full_refresh_agrees(project, lake)
    assert [row["after"]["city"] for row in found["stg_parcels"]].count("Oslo") == 2


# What was altered when the run ended: in staging, and in the history.
FIRST_TWO = {column: ALTERS[column] for column in ("id", "weight")}
ENDS = {
    "in the first image": ({"before.": FIRST_TWO}, {}),
    "between the images": ({"before.": ALTERS}, {}),
    "in the second image": ({"before.": ALTERS, "after.": FIRST_TWO}, {}),
    "before it wrote": ({"before.": ALTERS, "after.": ALTERS}, {}),
    "in the history": ({"before.": ALTERS, "after.": ALTERS}, FIRST_TWO),
    "before the history wrote": ({"before.": ALTERS, "after.": ALTERS}, ALTERS),
}


@pytest.mark.minutes
@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_ended_while_it_widened_columns_is_repeated(
    end: str, parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels()
    widen(lake)
    lake.append(RAW, WIDE, LATER)
    of_images, of_history = ENDS[end]
    for prefix, alters in of_images.items():
        widen(lake, "stg_parcels", prefix, alters)
    widen(lake, "parcels_history", "", of_history)
    project.dbt("run", "--select", *BUILT)
    see_full_refresh_agrees(project, lake)


@pytest.mark.minutes
def test_a_history_follows_after_staging_has_run_alone(
    parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels()
    widen(lake)
    lake.append(RAW, WIDE, LATER[:2])
    project.dbt("run", "--select", "stg_parcels")
    lake.append(RAW, WIDE, LATER[2:])
    project.dbt("run", "--select", "stg_parcels")
    project.dbt("run", "--select", *BUILT[1:])
    see_full_refresh_agrees(project, lake)


@pytest.mark.minutes
def test_tables_that_every_run_rebuilds_have_the_wider_types(
    parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    project.model("parcels_current", "{{ current_state(ref('parcels_history')) }}")
    call = "{{ change_accounting(ref('stg_parcels'), unique_key=['id']) }}"
    project.model("parcels_accounting", call)
    rebuilt = ("parcels_current", "parcels_accounting")
    parcels()
    project.dbt("run", "--select", *rebuilt)
    widen(lake)
    lake.append(RAW, WIDE, LATER)
    project.dbt("run", "--select", *BUILT, *rebuilt)
    found = types_of(lake, f"select * from {SCHEMA}.parcels_current")
    assert {name: found[name] for name in WIDE_TYPES} == WIDE_TYPES
    alive = lake.rows(f"select id from {SCHEMA}.parcels_current order by id")
    assert [row["id"] for row in alive] == [1, 2, MANY]
    see_full_refresh_agrees(project, lake, (*BUILT, *rebuilt))


@pytest.mark.minutes
def test_a_wider_type_stops_the_run_where_no_setting_allows_it(
    parcels: Callable[..., None], project: Project, lake: Lake
) -> None:
    parcels("fail")
    widen(lake)
    before = lake.contents("stg_parcels")
    with pytest.raises(DbtError, match=r"(?s)of another type: id \(int, now bigint\).* Or set `on"):
        project.dbt("run", "--select", "stg_parcels")
    assert lake.contents("stg_parcels") == before


REFUSED = {
    "string -> int": ("string", "int", None),
    "bigint -> int": ("bigint", "int", None),
    "int -> string": ("int", "string", None),
    "int -> double": ("int", "double", None),
    "int -> decimal": ("int", "decimal(12,0)", None),
    "another scale": ("decimal(5,2)", "decimal(9,4)", None),
    "a smaller precision": ("decimal(9,2)", "decimal(5,2)", None),
    # Iceberg can do that only in its third version, and Delta with times without a zone.
    "date -> timestamp": ("date", "timestamp", None),
    "a further field": ("struct<a: int>", "struct<a: bigint, b: int>", None),
    "a narrower field": ("struct<a: int, b: bigint>", "struct<a: bigint, b: int>", None),
    "a wider key of a map": ("map<int, int>", "map<bigint, int>", None),
    # The names of changes are made of a key's text, and that of a double is another.
    "a key of floats": ("float", "double", "value"),
}


@pytest.mark.minutes
def test_what_cannot_widen_is_an_error_with_a_remedy(project: Project, lake: Lake) -> None:
    for number, (kind, _, key) in enumerate(REFUSED.values()):
        lake.create(f"retyped_{number}", {**HEADER, "id": "int", "value": kind}, [])
        call = f"qlik_change_table({relation(f'retyped_{number}')}, ['{key or 'id'}'])"
        project.stream(f"stg_retyped_{number}", call, on_schema_change=SETTING)
    project.dbt("run", "--select", "stg_retyped_*")
    for number, (_, kind, _) in enumerate(REFUSED.values()):
        lake.create(f"retyped_{number}", {**HEADER, "id": "int", "value": kind}, [])
    with pytest.raises(DbtError) as error:
        project.dbt("run", "--select", "stg_retyped_*")
    said = dict(line.split(": ", 1) for line in str(error.value).replace("\n  ", " ").splitlines())
    for number, name in enumerate(REFUSED):
        text = said[f"stg_retyped_{number}"]
        assert "value (" in text, name
        assert f"`dbt run --full-refresh --select stg_retyped_{number}+`" in text, name
        assert "on_schema_change" not in text, name


# --- at random -----------------------------------------------------------------------------------

TENTH = 0.10000000149011612  # the double that a float of 0.1 becomes
# Of each column its narrow and its wide type, values that both can hold, and values that only the
# wide one can.
RANDOM: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "case_no": ("int", "int", [], []),
    "id": ("int", "bigint", [1, 2], [MANY]),
    "size": ("int", "bigint", [None, 1, 2], [MANY]),
    "weight": ("float", "double", [None, TENTH, 0.5], [0.1]),
    "price": ("decimal(5,2)", "decimal(9,2)", [None, Decimal("1.50")], [Decimal("12345.50")]),
}
KEY = ["case_no", "id"]
START = datetime(2024, 1, 1)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[Change], list[list[Row]]]:
    """Draw what happens to the rows of some tables, and how that lands.

    The first batch has only values that fit narrow types.
    """
    changes: list[Change] = []
    batches: list[list[Row]] = [[], [], []]
    for case in range(1, 13):
        alive: dict[int, Row] = {}
        for number in range(1, draw(st.integers(1, 8)) + 1):
            place = case * 100 + number
            # Of the first changes most have values that fit.
            fits = number < 4 or draw(st.booleans())
            new = {
                name: draw(st.sampled_from(narrow if fits else narrow + wide))
                for name, (_, _, narrow, wide) in RANDOM.items()
                if name != "case_no"
            }
            new = {"case_no": case, **new}
            old = alive.pop(new["id"], None)
            is_delete = old is not None and draw(st.integers(0, 3)) == 0
            operation: Any = "delete" if is_delete else "insert" if old is None else "update"
            after = None if is_delete else new
            if after:
                alive[new["id"]] = after
            at = START + timedelta(minutes=place)
            changes.append(
                Change(f"c{place}", f"{place:035d}", operation, old, after, changed_at=at)
            )
            header = {"header__change_seq": f"{place:035d}", "header__timestamp": at}
            rows: list[Row] = []
            if operation == "update" and old is not None:
                rows.append({**header, "header__change_oper": "B", **old})
            image = after or old or {}
            rows.append({**header, "header__change_oper": operation[0].upper(), **image})
            is_wide = any(row[name] in RANDOM[name][3] for row in rows for name in RANDOM)
            batch = draw(st.integers(1 if is_wide else 0, 2))
            for landed in rows:  # a before-image may come in another batch than its update
                batches[batch if draw(st.integers(0, 3)) else max(batch, 1)].append(landed)
                if draw(st.integers(0, 5)) == 0:
                    batches[2].append(landed)
    return changes, [draw(st.permutations(batch)) for batch in batches]


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_any_widening_in_any_batches_equals_the_reference(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    changes, batches = data.draw(deliveries())
    early = data.draw(st.sets(st.sampled_from(["id", "size", "weight", "price"])))
    models = ("stg_any", "any_history", "any_audit")
    call = f"qlik_change_table({relation('any__ct')}, {KEY})"
    project.stream(models[0], call, on_schema_change=SETTING)
    project.history(models[1], models[0], KEY)
    select = f"select * from {{{{ ref('{models[0]}') }}}}"
    project.model(models[2], select, materialized="audit", unique_key=KEY)

    types = {name: narrow for name, (narrow, _, _, _) in RANDOM.items()}
    lake.create("any__ct", {**HEADER, **types}, batches[0])
    allow_widening(lake, "any__ct")
    project.dbt("run", "--full-refresh", "--select", *models)
    for rows in batches[1:]:
        # What is not among the first to widen does so with the rows that need it.
        for name, (narrow, wide, _, beyond) in RANDOM.items():
            is_due = name in early or any(row[name] in beyond for row in rows)
            if types[name] == narrow != wide and is_due:
                lake.spark.sql(f"alter table {SCHEMA}.any__ct alter column {name} type {wide}")
                types[name] = wide
        lake.append("any__ct", {**HEADER, **types}, rows)
        project.dbt("run", "--select", *models)

    found = lake.contents(*models)
    names = [*RANDOM, *META_COLUMNS]
    versions = in_order(found[models[1]], KEY)
    expected = history(changes, KEY, list(RANDOM))
    assert [[row[name] for name in names] for row in versions] == [
        [row[name] for name in names] for row in expected
    ]
    asked = [*KEY, "change_seq", "operation", "column_name", "old_value", "new_value"]
    told = [
        row | {name: text(row[name]) for name in ("old_value", "new_value")}
        for row in audit(changes, KEY, list(RANDOM))
    ]
    if types["weight"] == "double":  # else its texts are those of a float
        assert in_some_order(found[models[2]], asked) == in_some_order(told, asked)
    see_full_refresh_agrees(project, lake, models)


def in_some_order(rows: list[Row], names: list[str]) -> list[list[Any]]:
    return sorted(([row[name] for name in names] for row in rows), key=repr)


def text(value: Any) -> str | None:
    """Write a value as an audit does."""
    return None if value is None else str(value)
