"""The dbt plugin: dbt loads it by the module's name, and from then on its sessions are ours."""

from __future__ import annotations

import decimal

from dbt.plugins.manager import dbtPlugin


class AfterimagePlugin(dbtPlugin):
    """Makes dbt's Spark sessions know Afterimage's UDFs, and its seeds keep all their digits."""

    def initialize(self) -> None:
        """Take the place of dbt-spark's connections; starts no JVM and loads no PySpark."""
        # dbt reads a seed's numbers in a thread, by arithmetic that rounds to the 28 digits which
        # threads start with. A change_seq has 35, and a number too wide for Spark must show as one.
        decimal.DefaultContext.prec = max(decimal.DefaultContext.prec, 100)
        from dbt_afterimage.runtime import connections

        connections.install()
