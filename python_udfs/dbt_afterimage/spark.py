"""Puts the registry's functions into a Spark session, vectorised and fit for any cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from dbt_afterimage.registry import REGISTRY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register every function of `registry.REGISTRY` in a session, under its SQL name.

    The functions travel to the executors by value, so the machines of a cluster need pandas and
    pyarrow but not this package.

    Args:
        spark: The session that is to know the functions.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions

    # PySpark's types of these two are too narrow for a function of any number of columns.
    pickle_by_value: Any = cloudpickle.register_pickle_by_value
    pandas_udf: Any = functions.pandas_udf

    pickle_by_value(sys.modules["dbt_afterimage"])
    for udf in REGISTRY:
        batch_function = vectorised(udf.function, udf.fields)
        spark.udf.register(udf.sql_name, pandas_udf(batch_function, returnType=udf.return_type))


def vectorised(function: Callable[..., Any], fields: Sequence[str] = ()) -> Callable[..., Any]:
    """Turn a function of single values into one of a batch that calls it once per distinct input.

    Real change tables hold few distinct masks, so nearly every row is a look-up.

    Args:
        function: A pure function. A `ValueError` of it becomes NULL, or where `fields` has an
            `error`, that field's text.
        fields: The fields of the struct that the function gives as a mapping; empty where it gives
            a single value.

    Returns:
        A function of pandas Series as `pandas_udf` wants it.
    """

    def batch(*columns: pd.Series) -> Any:
        known: dict[tuple[Any, ...], Any] = {}
        results = []
        for arguments in zip(*columns, strict=True):
            key = tuple(bytes(a) if isinstance(a, bytearray) else a for a in arguments)
            if key not in known:
                try:
                    known[key] = function(*key)
                except ValueError as refusal:
                    known[key] = {"error": str(refusal)} if "error" in fields else None
            results.append(known[key])
        if not fields:
            return pd.Series(results, dtype=object)
        return pd.DataFrame(
            {
                name: pd.Series([result and result.get(name) for result in results], dtype=object)
                for name in fields
            }
        )

    # Spark reads the kind of pandas UDF off the signature; ours must not be text.
    returned = pd.DataFrame if fields else pd.Series
    batch.__annotations__ = {"columns": pd.Series, "return": returned}
    return batch
