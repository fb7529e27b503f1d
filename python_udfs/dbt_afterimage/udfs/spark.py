"""Registers the functions in a Spark session, vectorised and ready for any cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dbt_afterimage.udfs.registry import REGISTRY

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register every function of `registry.REGISTRY` in a session, under its SQL name.

    The functions travel to the executors by value. So the machines of a cluster need pyarrow, and
    before Spark 4.1 pandas, but not this package.

    Args:
        spark: The session to register them in.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions

    # PySpark's types for these are too narrow for a function of any number of columns.
    pickle_by_value: Any = cloudpickle.register_pickle_by_value
    pandas_udf: Any = functions.pandas_udf
    arrow_udf: Any = getattr(functions, "arrow_udf", None)  # Spark 4.1 and later

    pickle_by_value(sys.modules["dbt_afterimage"])
    for udf in REGISTRY:
        if arrow_udf is None:
            batch = pandas_udf(vectorised(udf.function, udf.fields), returnType=udf.return_type)
        else:
            on_arrow = vectorised_on_arrow(udf.function, udf.fields, arrow_type(udf.return_type))
            batch = arrow_udf(on_arrow, returnType=udf.return_type)
        spark.udf.register(udf.sql_name, batch)


def register_for_new_sessions(spark: SparkSession) -> None:
    """Register the functions in every session that this process opens from now on.

    Args:
        spark: A session in which they are registered.
    """
    jvm: Any = spark._jvm
    known: Any = getattr(spark, "_jsparkSession").sessionState().functionRegistry()  # noqa: B009
    # A new session starts with only Spark's built-in functions.
    built_in = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    for udf in REGISTRY:
        name = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(udf.sql_name)
        info, builder = known.lookupFunction(name).get(), known.lookupFunctionBuilder(name).get()
        built_in.registerFunction(name, info, builder)


def vectorised(function: Callable[..., Any], fields: Sequence[str] = ()) -> Callable[..., Any]:
    """Turn a function of single values into one of a batch that calls it once per distinct input.

    Real change tables hold few distinct masks, so nearly every row is a look-up.

    Args:
        function: A pure function. Its `ValueError` becomes NULL, or the text of the field `error`
            if `fields` has it.
        fields: The fields of the struct that the function returns as a mapping; empty if it returns
            a single value.

    Returns:
        A function of pandas Series, as `pandas_udf` takes it.
    """

    # The import takes half a second, which a client of a Thrift server need not spend.
    import pandas as pd

    def batch(*columns: pd.Series) -> Any:
        results = _each_distinct_once(function, fields, [_values(column) for column in columns])
        if not fields:
            return pd.Series(results, dtype=object)
        return pd.DataFrame(
            {
                name: pd.Series([result and result.get(name) for result in results], dtype=object)
                for name in fields
            }
        )

    # Spark takes the kind of pandas UDF from the signature; string annotations would not work.
    returned = pd.DataFrame if fields else pd.Series
    batch.__annotations__ = {"columns": pd.Series, "return": returned}
    return batch


def vectorised_on_arrow(
    function: Callable[..., Any], fields: Sequence[str], returned: Any
) -> Callable[..., Any]:
    """Turn a function of single values into one of Arrow arrays, as `vectorised` does for pandas.

    Args:
        function: As for `vectorised`.
        fields: As for `vectorised`.
        returned: The Arrow type of the result.

    Returns:
        A function of Arrow arrays, as `arrow_udf` takes it.
    """
    import pyarrow

    def batch(*columns: Any) -> Any:
        values = [column.to_pylist() for column in columns]
        return pyarrow.array(_each_distinct_once(function, fields, values), returned)

    batch.__annotations__ = {"columns": pyarrow.Array, "return": pyarrow.Array}
    return batch


def arrow_type(ddl: str) -> Any:
    """Return the Arrow type of a Spark SQL type (Spark 4).

    Args:
        ddl: The type in SQL.
    """
    from pyspark.sql import types
    from pyspark.sql.pandas.types import to_arrow_type

    from_ddl: Any = getattr(types.DataType, "fromDDL")  # noqa: B009 (Spark 3.5 has none)
    return to_arrow_type(from_ddl(ddl))


def _refused(refusal: Exception) -> dict[str, Any]:
    # What the function knows nevertheless stays.
    return {**getattr(refusal, "known", {}), "error": str(refusal)}


def _values(column: Any) -> Any:
    # pandas 3, and pandas 2 in a numeric column, does not use None for NULL.
    if column.dtype == object:
        return column
    return [None if gone else value for value, gone in zip(column, column.isna(), strict=True)]


def _each_distinct_once(
    function: Callable[..., Any], fields: Sequence[str], columns: Sequence[Any]
) -> list[Any]:
    known: dict[tuple[Any, ...], Any] = {}
    results = []
    for arguments in zip(*columns, strict=True):
        key = tuple(bytes(a) if isinstance(a, bytearray) else a for a in arguments)
        if key not in known:
            try:
                known[key] = function(*key)
            except (ValueError, RecursionError) as refusal:
                known[key] = _refused(refusal) if "error" in fields else None
        results.append(known[key])
    return results
