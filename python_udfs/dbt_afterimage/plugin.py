"""The dbt plugin: dbt loads it by the module's name, and from then on its sessions are ours."""

from __future__ import annotations

import importlib.util

from dbt.plugins.manager import dbtPlugin


class AfterimagePlugin(dbtPlugin):
    """Makes every Spark session that dbt opens know Afterimage's UDFs."""

    def initialize(self) -> None:
        """Take the place of dbt-spark's session cursor; starts no JVM.

        A project on a Thrift server needs no PySpark, and then there is nothing to do here: the
        server registers the UDFs itself.
        """
        if importlib.util.find_spec("pyspark") is None:
            return
        from dbt_afterimage import cursor

        cursor.install()
