"""What it costs to erase many keys at once, beside one compaction of the same tables.

    python tests/benchmark/erasure.py [changes] [keys]

Builds staging and history of the changes of generate.py, rewrites all files of both tables, and
then erases so many keys. Prints the seconds of both, and their ratio.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests/python", "python_udfs")]

from conftest import SCHEMA, Project, relation  # noqa: E402
from generate import KEY, changes  # noqa: E402

TABLES = ("stg", "history")


def main(count: int, keys: int) -> None:
    """Build, compact, erase, and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AFTERIMAGE_WAREHOUSE", f"{folder}/warehouse")
        os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
        os.environ["AFTERIMAGE_CLASS_ARCHIVE"] = ""  # Its folder would be gone before it is made.
        (Path(folder) / "project").mkdir()
        project = Project(Path(folder) / "project")
        project.stream("stg", f"qlik_change_table({relation('raw')}, unique_key=['{KEY}'])")
        project.history("history", "stg", [KEY])
        project.file("models/first.sql", "select 1 as one")
        project.dbt("run", "--select", "first")
        from dbt_afterimage.runtime.session import open_session

        spark = open_session({})
        changes(spark, count).writeTo(f"{SCHEMA}.raw").using("iceberg").createOrReplace()
        project.dbt("run", "--select", *TABLES)

        started = time.monotonic()
        for table in TABLES:
            spark.sql(
                f"call system.rewrite_data_files(table => '{SCHEMA}.{table}',"
                " options => map('rewrite-all', 'true'))"
            )
        compaction = time.monotonic() - started
        chosen = spark.sql(
            f"select {KEY} from {SCHEMA}.history group by 1 order by xxhash64({KEY}) limit {keys}"
        )
        given = [{KEY: row[0]} for row in chosen.collect()]
        before = spark.table(f"{SCHEMA}.history").count()
        started = time.monotonic()
        project.dbt(
            "run-operation", "erase", "--args", json.dumps({"staging": "stg", "keys": given})
        )
        erasure = time.monotonic() - started
        after = spark.table(f"{SCHEMA}.history").count()
        print(f"{before - after} of {before} versions, {keys} keys")
        print(f"compaction {compaction:6.1f} s")
        print(f"erasure    {erasure:6.1f} s ({erasure / compaction:.2f})")


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*given, *[1_000_000, 1000][len(given) :])
