"""What a staging build costs per landed row, by source: Qlik's change table, and others beside it.

    python tests/benchmark/source_throughput.py [changes] [source ...]

Writes the changes of generate.py into the warehouse (AFTERIMAGE_WAREHOUSE) as each source would
land them, then builds the staging models by turns, three rounds. Prints the median seconds, those
of a million landed rows, and their ratio to the first source's.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests/python", "python_udfs")]

from conftest import SCHEMA, Project  # noqa: E402
from generate import COLUMNS, KEY, changes  # noqa: E402

VALUES = ", ".join([KEY, *COLUMNS])
_LSN = "unhex(lpad(hex(cast(substr(header__change_seq, 17, 19) as bigint){0}), 20, '0'))"
# A row of the copies; each copy changes another tenth of the rows.
_COPIED = "((id % {1}) * 31 + if(id % {1} % 10 < id div {1}, 7, 0))"
# How each source lands the changes (`raw_qlik`), and the macro that reads them.
SOURCES = {
    "qlik": ("", "qlik_change_table({0}, unique_key=['id'])"),
    # A commit holds five changes; an update is a row 3 and a row 4.
    "sqlserver": (
        f"select {_LSN.format(' div 5')} as `__$start_lsn`, cast(null as binary) as `__$end_lsn`,"
        f" {_LSN.format('')} as `__$seqval`,"
        " array_position(array('D', 'I', 'B', 'U'), header__change_oper) as `__$operation`,"
        f" X'0FFF' as `__$update_mask`, {VALUES}, 1 as `__$command_id` from {{0}}",
        "sqlserver_change_table({0}, unique_key=['id'])",
    ),
    "dms": (
        f"select header__change_oper as Op, {VALUES}, header__change_seq as ar_h_change_seq,"
        " header__timestamp as ar_h_timestamp from {0} where header__change_oper <> 'B'",
        "dms_changes({0}, unique_key=['id'], time='ar_h_timestamp')",
    ),
    # Ten copies of a table.
    "dated_copies": (
        "select date_add(date '2024-01-01', cast(id div {1} as int)) as copied_on,"
        f" id % {{1}} as {KEY},"
        + ", ".join(f"{value.format(n=_COPIED)} as {name}" for name, value in COLUMNS.items())
        + " from range({2})",
        "dated_copies({0}, unique_key=['id'], copy_column='copied_on')",
    ),
}


def main(count: int, names: list[str]) -> None:
    """Land, stage, and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AFTERIMAGE_WAREHOUSE", f"{folder}/warehouse")
        os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
        (Path(folder) / "project").mkdir()
        project = Project(Path(folder) / "project")
        project.file("models/first.sql", "select 1 as one")
        project.dbt("run")
        from dbt_afterimage.runtime.session import open_session

        spark = open_session({})
        qlik = f"{SCHEMA}.raw_qlik"
        changes(spark, count).writeTo(qlik).using("iceberg").createOrReplace()
        landed: dict[str, int] = {}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for name in names:
            query, macro = SOURCES[name]
            if query:
                query = query.format(qlik, count // 10, count)
                spark.sql(f"create or replace table {SCHEMA}.raw_{name} using iceberg as {query}")
            landed[name] = spark.table(f"{SCHEMA}.raw_{name}").count()
            relation = f"api.Relation.create(schema='{SCHEMA}', identifier='raw_{name}')"
            project.file(
                f"models/stg_{name}.sql",
                "{{ config(materialized='table', file_format='iceberg') }}\n"
                f"{{{{ {macro.format(relation)} }}}}",
            )
        for _ in range(3):
            for name in names:
                started = time.monotonic()
                project.dbt("run", "--select", f"stg_{name}")
                seconds[name].append(time.monotonic() - started)
        million = {
            name: statistics.median(seconds[name]) / landed[name] * 1_000_000 for name in names
        }
        for name in names:
            found = spark.sql(
                "select count(*) as changes, sum(source_rows) as rows,"
                f" count(reject_reason) as rejected from {SCHEMA}.stg_{name}"
            ).first()
            assert found
            print(
                f"{name:13} {landed[name]:>9,} rows {statistics.median(seconds[name]):6.1f} s,"
                f" a million {million[name]:6.1f} s, {million[name] / million[names[0]]:.2f} times"
                f" ({found['changes']:,} changes of {found['rows']:,} rows, {found['rejected']:,}"
                " rejected)",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2:] or list(SOURCES))
