"""How fast an event log is staged: rows a second of netiq_event_log, full and incremental.

    python tests/benchmark/event_log_throughput.py --rows 1000000

The log is made in Spark: updates of three fields each, a tenth of the events by query-back, one in
a hundred malformed or not eligible. All tables are in a temporary warehouse, which is removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from dbt.cli.main import dbtRunner

from dbt_afterimage.runtime.session import open_session

ROOT = Path(__file__).resolve().parents[2]

MODEL = """\
{{ config(materialized='change_stream', file_format='iceberg') }}
{{ netiq_event_log(
    api.Relation.create(schema='afterimage', identifier='bench_log'),
    unique_key=['idu'],
    table='usr',
    columns=[
        {'name': 'idu', 'type': 'bigint'},
        {'name': 'fname', 'type': 'string'},
        {'name': 'lname', 'type': 'string'},
        {'name': 'salary', 'type': 'decimal(10,2)'},
    ],
    base=api.Relation.create(schema='afterimage', identifier='bench_usr'),
    driver_user='IDMDRIVER'
) }}
"""

# Three events a change of a user, ten changes a user, a change every ten seconds; the last number
# of a row is its field.
LOG = """\
select
    id + 1 as record_id,
    if(id % 100 = 7, 'S', 'N') as status,
    case when (id div 3) % 10 = 9 then 8 when (id div 3) % 10 = 0 then 1 else 2 end as event_type,
    timestamp '2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, 10 * (id div 3)) as event_time,
    if(id % 1000 = 8, 'IDMDRIVER', 'APP') as perpetrator,
    'usr' as table_name,
    concat(if(id % 1000 = 9, 'idu ', 'idu='), pmod(xxhash64(id div 3), {users})) as table_key,
    element_at(array('fname', 'lname', 'salary'), cast(id % 3 as int) + 1) as column_name,
    cast(null as string) as old_value,
    cast((id div 3) % 1000 as string) as new_value
from range({begin}, {end})
"""

BASE = """\
select
    id as idu,
    concat('f', id) as fname,
    concat('l', id) as lname,
    cast(id % 1000 as decimal(10, 2)) as salary
from range({users})
"""


def timed(*arguments: str) -> float:
    """Run dbt and return the seconds that the model took, without dbt's own start."""
    outcome = dbtRunner().invoke(["--quiet", *arguments])
    assert outcome.success, outcome.exception
    nodes = outcome.result.results  # type: ignore[union-attr]
    return sum(node.execution_time for node in nodes)


def main() -> None:
    """Time a full build, then a run that takes in one more percent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    users = max(1, rows // 30)
    folder = Path(tempfile.mkdtemp(prefix="event_log_throughput_"))
    os.environ["AFTERIMAGE_WAREHOUSE"] = str(folder / "warehouse")
    try:
        for name in ("macros", "profiles", "tests/python/support/dbt_project.yml"):
            (folder / Path(name).name).symlink_to(ROOT / name)
        (folder / "models").mkdir()
        (folder / "models" / "first.sql").write_text("select 1 as one")
        os.chdir(folder)
        os.environ["DBT_PROFILES_DIR"] = str(folder / "profiles")
        timed("run")
        (folder / "models" / "stg_bench.sql").write_text(MODEL)
        spark = open_session({})

        def write(table: str, query: str, mode: str) -> None:
            frame = spark.sql(query).writeTo(f"afterimage.{table}")
            if mode == "append":
                frame.append()
            else:
                frame.using("iceberg").createOrReplace()

        write("bench_usr", BASE.format(users=users), "create")
        write("bench_log", LOG.format(users=users, begin=0, end=rows), "create")
        report("full build", rows, timed("run", "--select", "stg_bench"))
        more = rows // 100
        for begin in (rows, rows + more):
            write("bench_log", LOG.format(users=users, begin=begin, end=begin + more), "append")
            report(f"{more} more rows", more, timed("run", "--select", "stg_bench"))
        counts = spark.sql(
            "select sum(source_rows) as rows, count(*) as changes,"
            " count_if(reject_reason is null) as good from afterimage.stg_bench"
        ).first()
        assert counts is not None
        assert counts["rows"] == rows + 2 * more, counts
        print(
            f"{counts['changes']} changes, {counts['good']} of them good; every row accounted for"
        )
    finally:
        os.chdir(ROOT)
        shutil.rmtree(folder, ignore_errors=True)


def report(label: str, rows: int, seconds: float) -> None:
    """Print one line of the result."""
    print(f"{label}: {seconds:.1f} s, {rows / seconds:,.0f} rows/s", flush=True)


if __name__ == "__main__":
    main()
