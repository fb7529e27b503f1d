"""The only list of the functions that Afterimage adds to Spark SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.udfs.masks import decode_change_mask, decode_field_map
from dbt_afterimage.udfs.messages import decode_avro_message
from dbt_afterimage.udfs.registry_messages import decode_registry_message
from dbt_afterimage.udfs.table_keys import format_table_key, parse_table_key
from dbt_afterimage.udfs.xds import xds_document


@dataclass(frozen=True)
class Udf:
    """A pure function and its interface in Spark SQL.

    A `ValueError` of the function is a refusal, which the staging macros turn into a
    `reject_reason`. SQL gets NULL for an argument that is not NULL. From a function that returns a
    struct with an `error`, it gets the refusal's text there and NULL in all other fields, but for
    those in the refusal's `known`.
    """

    sql_name: str
    function: Callable[..., Any]
    return_type: str
    # The field names of the struct, in the order of `return_type`; the function then returns a
    # mapping. Empty for a single value.
    fields: tuple[str, ...] = ()


REGISTRY: tuple[Udf, ...] = (
    Udf("decode_change_mask", decode_change_mask, "array<int>"),
    Udf("decode_field_map", decode_field_map, "array<int>"),
    Udf(
        "decode_avro_message",
        decode_avro_message,
        "struct<type:string,schema_id:string,message:string,error:string>",
        ("type", "schema_id", "message", "error"),
    ),
    Udf(
        "decode_registry_message",
        decode_registry_message,
        "struct<message:string,error:string>",
        ("message", "error"),
    ),
    Udf(
        "parse_table_key",
        parse_table_key,
        "struct<parts:map<string,string>,canonical:string,warning:string,error:string>",
        ("parts", "canonical", "warning", "error"),
    ),
    Udf("format_table_key", format_table_key, "string"),
    Udf(
        "xds_document", xds_document, "struct<document:string,error:string>", ("document", "error")
    ),
)
