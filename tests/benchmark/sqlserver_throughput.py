"""How long staging takes of a SQL Server change table, and of a Qlik one of the same changes.

    python tests/benchmark/sqlserver_throughput.py [changes] [rounds]

Lands the changes of `generate.py` in both forms in the warehouse (AFTERIMAGE_WAREHOUSE), builds
both staging tables in turn with dbt's own session, and prints seconds and the ratio of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / name) for name in ("tests/python", "tests/benchmark", "python_udfs")]
sys.path[:0] = FOLDERS

from conftest import SCHEMA, Project  # noqa: E402
from generate import COLUMNS, HEADER_COLUMNS, KEY, changes  # noqa: E402

OPERATIONS = {"D": 1, "I": 2, "B": 3, "U": 4}


def land(spark: Any, count: int) -> None:
    """Land the changes in both forms, and the times of commits."""
    changes(spark, count).writeTo(f"{SCHEMA}.bench__ct").using("iceberg").createOrReplace()
    place = "cast(substr(header__stream_position, 5) as bigint)"
    commit = "unhex(substr(header__transaction_id, 13))"
    numeral = ", ".join(f"substr(hex(header__change_mask), {at}, 2)" for at in (5, 3, 1))
    bits = f"shiftright(cast(conv(concat({numeral}), 16, 10) as bigint), {HEADER_COLUMNS})"
    operation = " ".join(f"when '{letter}' then {n}" for letter, n in OPERATIONS.items())
    spark.sql(
        f"""
        select
            {commit} as `__$start_lsn`,
            unhex(lpad(hex({place}), 20, '0')) as `__$seqval`,
            case header__change_oper {operation} end as `__$operation`,
            -- Both rows of an update have its mask.
            max(unhex(lpad(hex({bits}), 4, '0'))) over (
                partition by header__change_seq
            ) as `__$update_mask`,
            {", ".join([KEY, *COLUMNS])},
            cast({place} % 5 + 1 as int) as `__$command_id`
        from {SCHEMA}.bench__ct
        """
    ).writeTo(f"{SCHEMA}.bench_ct").using("iceberg").createOrReplace()
    spark.sql(
        f"select {commit} as start_lsn, max(header__timestamp) as tran_end_time"
        f" from {SCHEMA}.bench__ct group by 1"
    ).writeTo(f"{SCHEMA}.bench_times").using("iceberg").createOrReplace()


def main(count: int, rounds: int) -> None:
    """Land, stage in turn, and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AFTERIMAGE_WAREHOUSE", f"{folder}/warehouse")
        os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
        (Path(folder) / "project").mkdir()
        project = Project(Path(folder) / "project")
        relation = f"api.Relation.create(schema='{SCHEMA}', identifier='%s')"
        calls = {
            "qlik": f"qlik_change_table({relation % 'bench__ct'}, unique_key=['{KEY}'])",
            "sqlserver": f"sqlserver_change_table({relation % 'bench_ct'}, unique_key=['{KEY}'],"
            f" lsn_times={relation % 'bench_times'})",
        }
        for name, call in calls.items():
            project.file(
                f"models/staged_{name}.sql",
                "{{ config(materialized='change_stream', file_format='iceberg') }}\n"
                f"{{{{ {call} }}}}",
            )
        project.file("models/first.sql", "select 1 as one")
        project.dbt("run", "--select", "first")
        from dbt_afterimage.runtime.session import open_session

        spark = open_session({})
        land(spark, count)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds + 1):
            for name, taken in seconds.items():
                started = time.monotonic()
                project.dbt("run", "--full-refresh", "--select", f"staged_{name}")
                taken.append(round(time.monotonic() - started, 1))
        found = {
            name: tuple(
                spark.sql(
                    "select count(*), count(reject_reason), count(changed_at), count(`before`)"
                    f" from {SCHEMA}.staged_{name}"
                ).first()
                or ()
            )
            for name in calls
        }
        assert found["qlik"] == found["sqlserver"], found
        medians = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
        ratio = round(medians["sqlserver"] / medians["qlik"], 2)
        print(json.dumps({"changes": count, "seconds": seconds, "ratio": ratio}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*(int(given) for given in [*sys.argv[1:], *["1000000", "3"][len(sys.argv) - 1 :]]))
