"""Which type holds the values of two, where landed files differ in the type of a column."""

from __future__ import annotations

import pytest

from dbt_afterimage.landing.types import can_alter, common, converted, holds, looser


@pytest.mark.parametrize(
    ("one", "other", "wider"),
    [
        ("smallint", "bigint", "bigint"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        # Eight digits before the point, and four behind it.
        ("decimal(10,2)", "decimal(8,4)", "decimal(12,4)"),
        ("decimal(5,2)", "int", "decimal(12,2)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("bigint", "double", None),
        ("int", "string", None),
        ("int", "date", None),
        ("struct<a:int>", "string", None),
        ("struct<a:int>", "struct<A:bigint,`b c`:date>", "struct<a:bigint,`b c`:date>"),
        (
            "struct<`x,>y`:int,p:decimal(5,2)>",
            "struct<p:int>",
            "struct<`x,>y`:int,p:decimal(12,2)>",
        ),
        ("array<struct<a:int>>", "array<struct<b:int>>", "array<struct<a:int,b:int>>"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("map<string,int>", "map<int,int>", None),
        ("struct<a:void>", "struct<a:int>", "struct<a:int>"),
        ("struct<a:int>", "struct<a:date>", None),
    ],
)
def test_the_narrowest_type_that_holds_the_values_of_both(
    one: str, other: str, wider: str | None
) -> None:
    assert common(one, other) == wider
    if wider and "struct" not in one:
        assert common(other, one) == wider
    if wider:
        assert holds(wider, one)
        assert holds(wider, other)
        assert holds(one, other) == (wider.lower() == one.lower())


def test_a_column_of_iceberg_can_get_more_digits_but_no_other_scale() -> None:
    assert can_alter("decimal(10,2)", "decimal(12,2)")
    assert can_alter("int", "bigint")
    assert can_alter("float", "double")
    assert not can_alter("decimal(10,2)", "decimal(12,4)")
    assert not can_alter("int", "decimal(12,2)")
    assert not can_alter("date", "timestamp")


def test_values_that_fit_no_type_of_a_file_become_doubles_or_texts() -> None:
    assert looser("double", "bigint") == "double"
    assert looser("bigint", "double") == "string"
    assert looser("string", "int") == "string"
    assert looser("struct<a:int>", "string") is None


def test_a_struct_is_read_by_the_names_of_its_fields() -> None:
    fields = "cast(null as date) as `a``1`, cast(`x`.`b` as bigint) as `B`"
    assert converted("`x`", "struct<b:int>", "struct<`a``1`:date,B:bigint>") == (
        f"if(`x` is null, null, struct({fields}))"
    )
