"""Afterimage: the Python half. UDFs for change tables, and the dbt plugin that registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dbt_afterimage.runtime.plugin import AfterimagePlugin

    plugins: list[type[AfterimagePlugin]]

__all__ = ["plugins", "register"]


def register(spark: SparkSession) -> None:
    """Register Afterimage's UDFs in a Spark session (see `dbt_afterimage.udfs.spark.register`)."""
    from dbt_afterimage.udfs import spark as spark_module

    spark_module.register(spark)


def __getattr__(name: str) -> object:
    # dbt looks for `plugins`; plain PySpark users should not pay for an import of dbt.
    if name == "plugins":
        from dbt_afterimage.runtime.plugin import AfterimagePlugin

        return [AfterimagePlugin]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
