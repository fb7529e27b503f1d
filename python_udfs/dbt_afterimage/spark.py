"""Puts the registry's functions into a Spark session, vectorised and fit for any cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
        batch_function = vectorised(udf.function)
        spark.udf.register(udf.sql_name, pandas_udf(batch_function, returnType=udf.return_type))


def vectorised(function: Callable[..., Any]) -> Callable[..., pd.Series]:
    """Turn a function of single values into one of a batch that calls it once per distinct input.

    Real change tables hold few distinct masks, so nearly every row is a look-up.

    Args:
        function: A pure function; a `ValueError` of it becomes NULL.

    Returns:
        A function of pandas Series as `pandas_udf` wants it.
    """

    def batch(*columns: pd.Series) -> pd.Series:
        known: dict[tuple[Any, ...], Any] = {}
        results = []
        for arguments in zip(*columns, strict=True):
            key = tuple(bytes(a) if isinstance(a, bytearray) else a for a in arguments)
            if key not in known:
                try:
                    known[key] = function(*key)
                except ValueError:
                    known[key] = None
            results.append(known[key])
        return pd.Series(results, dtype=object)

    # Spark reads the kind of pandas UDF off the signature; ours must not be text.
    batch.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    return batch
