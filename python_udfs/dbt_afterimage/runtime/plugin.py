"""The dbt plugin. dbt loads it by the module's name, and from then on uses our sessions."""

from __future__ import annotations

import decimal

from dbt.plugins.manager import dbtPlugin


class AfterimagePlugin(dbtPlugin):
    """Gives dbt's Spark sessions Afterimage's UDFs, and keeps all digits of its seeds."""

    def initialize(self) -> None:
        """Replace dbt-spark's connections; starts no JVM and loads no PySpark."""
        # dbt reads a seed's numbers in a thread, with arithmetic that rounds to 28 digits, the
        # default of new threads. A change_seq has 35, and a number too wide for Spark must be
        # recognisable as one.
        decimal.DefaultContext.prec = max(decimal.DefaultContext.prec, 100)
        from dbt_afterimage.runtime import connections

        connections.install()
