"""The log of a text index: run after run, its base changing, and its arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SCHEMA, DbtError, Lake, Project, emptied, relation
from histories import fewer_checks

LOG = {"OPERATION": "int", "TIME": "timestamp", "PK01": "int", "PK02": "string"}
BASE = {"no": "int", "lang": "string", "text": "string"}


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("db2_text_log")


def logged(operation: int | None, minute: int, no: int, lang: str = "de") -> dict[str, Any]:
    at = datetime(2024, 1, 1, 12, minute)
    return {"OPERATION": operation, "TIME": at, "PK01": no, "PK02": lang}


@pytest.mark.minutes
def test_each_run_looks_the_rows_up_again(project: Project, lake: Lake) -> None:
    key = "unique_key=['no', 'lang']"
    project.stream(
        "stg_log",
        f"db2_text_log({relation('text_log')}, {key}, base={relation('text_base')})",
    )
    project.history("log_history", "stg_log", ["no", "lang"])
    tables = ("stg_log", "log_history")
    run = ("run", "--select", *tables)
    lake.create(
        "text_base", BASE, [{"no": n, "lang": "de", "text": f"old {n}"} for n in (1, 2, 3, 4)]
    )
    lake.create("text_log", LOG, [logged(0, n, n) for n in (1, 2, 3)] + [logged(7, 5, 5)])
    project.dbt(*run, "--full-refresh")
    # 1 is changed and logged, 2 changed and not yet logged, 3 is gone, 4 logged for the first time.
    lake.create(
        "text_base",
        BASE,
        [
            {"no": 1, "lang": "de", "text": "new"},
            {"no": 2, "lang": "de", "text": "newer"},
            {"no": 4, "lang": "de", "text": "old 4"},
        ],
    )
    lake.append("text_log", LOG, [logged(1, 11, 1), logged(2, 13, 3), logged(1, 14, 4)])
    project.dbt(*run)
    after_second = lake.contents(*tables)
    project.dbt(*run, "--full-refresh")

    assert lake.contents(*tables) == after_second
    assert sorted(
        (row["no"], row["text"], row["valid_from"].minute) for row in after_second["log_history"]
    ) == [(1, "new", 11), (2, "newer", 2), (4, "old 4", 14)]
    assert sum(row["source_rows"] for row in after_second["stg_log"]) == 7

    lake.spark.sql(f"alter table {SCHEMA}.text_base add column author string")
    with pytest.raises(DbtError, match=r"text_base have changed since .*added: author\).*full-ref"):
        project.dbt(*run)
    staging = project.folder / "models" / "stg_log.sql"
    staging.write_text(
        staging.read_text().replace("config(", "config(on_schema_change='append_new_columns', ")
    )
    lake.spark.sql(f"update {SCHEMA}.text_base set author = 'Eve' where no = 2")
    project.dbt(*run)
    with_authors = lake.contents(*tables)
    project.dbt(*run, "--full-refresh")
    assert lake.contents(*tables) == with_authors
    authors = {(row["no"], row["author"]) for row in with_authors["log_history"]}
    assert authors == {(1, None), (2, "Eve"), (4, None)}


@pytest.mark.slow
def test_an_earlier_row_that_comes_again_does_not_end_a_later_one(
    project: Project, lake: Lake
) -> None:
    """The later one has left the log. Key 2 is deleted after all."""
    project.stream(
        "stg_again",
        f"db2_text_log({relation('again_log')}, ['no', 'lang'], base={relation('again_base')})",
    )
    lake.create("again_base", BASE, [{"no": n, "lang": "de", "text": "x"} for n in (1, 2)])
    lake.create("again_log", LOG, [logged(0, 9, 1), logged(0, 9, 2)])
    project.dbt("run", "--select", "stg_again", "--full-refresh")
    lake.create("again_log", LOG, [logged(2, 8, 1), logged(2, 10, 2)])
    project.dbt("run", "--select", "stg_again")
    found = lake.contents("stg_again")["stg_again"]
    assert sorted((change["operation"], change["changed_at"].minute) for change in found) == [
        ("delete", 10),
        ("load", 9),
    ]


@pytest.mark.slow
def test_what_is_logged_counts_though_what_was_read_has_a_later_time(
    project: Project, lake: Lake
) -> None:
    """Its time is of another zone, and it has left the log. Noon in Tokyo is 3 o'clock in UTC."""

    def run(base: dict[int, str], log: list[dict[str, Any]], zone: str, *arguments: str) -> None:
        project.stream(
            "stg_zones",
            f"db2_text_log({relation('zones_log')}, ['no', 'lang'], base={relation('zones_base')},"
            f" time_zone='{zone}')",
        )
        rows = [{"no": no, "lang": "de", "text": text} for no, text in base.items()]
        lake.create("zones_base", BASE, rows)
        lake.create("zones_log", LOG, log)
        project.dbt("run", "--select", "stg_zones", *arguments)

    base = dict.fromkeys((1, 2, 3, 4), "old")
    run(base, [logged(0, 9, no) for no in base], "UTC", "--full-refresh")
    del base[1]
    run(base, [logged(2, 10, 1)], "Asia/Tokyo")
    del base[2]
    base[3] = "new"
    run(base, [logged(2, 11, 2), logged(1, 12, 3)], "Asia/Tokyo")
    rows = lake.rows(
        "select coalesce(after, before).no as no, operation, after.text, changed_at"
        f" from {SCHEMA}.stg_zones order by no"
    )
    assert [tuple(row.values()) for row in rows] == [
        (1, "delete", None, datetime(2024, 1, 1, 3, 10)),
        (2, "delete", None, datetime(2024, 1, 1, 3, 11)),
        (3, "load", "new", datetime(2024, 1, 1, 3, 12)),
        (4, "load", "old", datetime(2024, 1, 1, 12, 9)),
    ]


ENTRIES = st.builds(
    logged,
    st.sampled_from([0, 1, 2, 2, 0, 1, 3, None]),
    st.integers(0, 3),
    st.integers(0, 60),
    st.sampled_from(["de", "en"]),
)


@given(
    log=st.lists(ENTRIES, min_size=60, max_size=120),
    present=st.sets(st.tuples(st.integers(0, 60), st.sampled_from(["de", "en"])), min_size=20),
)
@settings(fewer_checks, max_examples=1)
def test_the_index_gets_the_result_of_the_log(
    log: list[dict[str, Any]], present: set[tuple[int, str]], project: Project, lake: Lake
) -> None:
    lake.create("net_log", LOG, log)
    lake.create("net_base", BASE, [{"no": no, "lang": lang} for no, lang in present])
    compiled = project.sql(
        f"index_sync({relation('net_log')}, unique_key=['no', 'lang'],"
        f" base={relation('net_base')}, time_zone='America/New_York')"
    )

    actions, covered, rejected = {}, {}, 0
    for row in lake.rows(compiled):
        if row["reject_reason"] is None:
            key = (row["no"], row["lang"])
            assert key not in actions
            actions[key] = row["action"]
            covered[key] = [(c["TIME"], c["OPERATION"]) for c in row["covered_rows"]]
        else:
            assert row["action"] is None
            rejected += row["source_rows"]

    good = [entry for entry in log if entry["OPERATION"] in (0, 1, 2)]
    expected, rows = {}, {}
    ordered = sorted(good, key=lambda e: (e["PK01"], e["PK02"], e["TIME"], e["OPERATION"]))
    for key, entries in groupby(ordered, key=lambda e: (e["PK01"], e["PK02"])):
        found = [(entry["TIME"], entry["OPERATION"]) for entry in entries]
        last = {operation for at, operation in found if at == found[-1][0]}
        expected[key] = "delete" if last == {2} or key not in present else "upsert"
        rows[key] = found
    assert actions == expected
    assert covered == rows
    assert rejected == len(log) - len(good)


@pytest.mark.minutes
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_deleted_after_a_synchronisation(
    seed: int, project: Project, lake: Lake
) -> None:
    """The index command deletes the rows that it has read. Some are logged before it does so."""
    source = random.Random(seed)
    key = "unique_key=['no', 'lang']"
    arguments = f"({relation('purged_log')}, {key}, base={relation('purged_base')})"
    project.stream("stg_purged", f"db2_text_log{arguments}")
    project.history("purged_history", "stg_purged", ["no", "lang"])
    lake.create("purged_log", LOG, [])
    lake.create("purged_base", BASE, [])
    synchronise = project.sql(f"index_sync{arguments}")
    base: dict[tuple[int, str], str] = {}
    index: dict[tuple[int, str], str] = {}
    log: list[dict[str, Any]] = []
    minutes = iter(range(60))

    def work(changes: int) -> None:
        """Change rows, of which triggers write the log."""
        for _ in range(changes):
            minute = next(minutes)
            row = source.randrange(4), source.choice(["de", "en"])
            operation = 1 if row in base else 0
            if row in base and source.random() < 0.4:
                operation = 2
                del base[row]
            else:
                base[row] = f"text {minute}"
            log.append(logged(operation, minute, *row))

    def land() -> None:
        rows = [{"no": no, "lang": lang, "text": text} for (no, lang), text in base.items()]
        lake.create("purged_base", BASE, rows)
        landed = lake.rows(f"select * from {SCHEMA}.purged_log")
        lake.append("purged_log", LOG, [row for row in log if row not in landed])
        for row in landed:
            if row not in log:
                lake.spark.sql(
                    f"delete from {SCHEMA}.purged_log where TIME = timestamp '{row['TIME']}'"
                )

    for number in range(5):
        work(source.choice([0, 4, 8]) if number else 6)
        land()
        project.dbt(
            *("run", "--select", "stg_purged", "purged_history"),
            *([] if number else ["--full-refresh"]),
        )
        found = lake.rows(synchronise)
        current = lake.rows(f"select no, lang, text from {SCHEMA}.purged_history where is_current")
        assert {(row["no"], row["lang"]): row["text"] for row in current} == base
        assert {(row["no"], row["lang"]) for row in found} == {
            (row["PK01"], row["PK02"]) for row in log
        }
        assert sum(row["source_rows"] for row in found) == len(log)
        read_at = dict(base)
        work(source.choice([0, 2]) if number < 4 else 0)
        for row in found:
            at = row["no"], row["lang"]
            index.pop(at, None)
            if row["action"] == "upsert":
                index[at] = read_at[at]
            for done in row["covered_rows"]:
                log.remove(logged(done["OPERATION"], done["TIME"].minute, *at))
        assert index == read_at
    assert (log, index) == ([], base)


PADDED = {"neither": ("de", "de"), "the log": ("de   ", "de"), "the base": ("de", "de   ")}


@pytest.mark.minutes
@pytest.mark.parametrize("padded", list(PADDED))
def test_trailing_blanks_of_a_key_are_ignored(padded: str, project: Project, lake: Lake) -> None:
    """CHAR is padded to its length, and Db2 compares texts as if all were.

    A run with `--empty` or `--sample` looks rows up in the whole base.
    """
    in_log, in_base = PADDED[padded]
    lake.create(
        "padded_log",
        LOG,
        [
            logged(0, 1, 1, in_log),
            logged(1, 2, 1, "de "),
            logged(0, 3, 2, in_log),
            logged(2, 4, 2, in_log),
        ],
    )
    lake.create("padded_base", BASE, [{"no": 1, "lang": in_base, "text": "Brot "}])
    arguments = (
        f"({relation('padded_log')}, unique_key=['no', 'lang'], base={emptied('padded_base')})"
    )

    staged = lake.rows(project.sql(f"db2_text_log{arguments}"))
    found = [(row["operation"], row["before"], row["after"], row["source_rows"]) for row in staged]
    assert sorted(found, key=repr) == [
        ("delete", {"no": 2, "lang": "de", "text": None}, None, 2),
        ("load", None, {"no": 1, "lang": "de", "text": "Brot "}, 2),
    ]
    assert {row["change_id"] for row in staged} == set(padded_ids(project, lake))

    synced = lake.rows(project.sql(f"index_sync{arguments}"))
    done = [(row["no"], row["lang"], row["action"], row["source_rows"]) for row in synced]
    assert sorted(done) == [
        (1, "de", "upsert", 2),
        (2, "de", "delete", 2),
    ]


def padded_ids(project: Project, lake: Lake) -> list[str]:
    """Return the ids that the changes of 1 and 2 have where nothing is padded."""
    lake.create("plain_log", LOG, [logged(0, 1, 1), logged(2, 4, 2)])
    lake.create("plain_base", BASE, [{"no": 1, "lang": "de", "text": "Brot"}])
    staged = lake.rows(
        project.sql(
            f"db2_text_log({relation('plain_log')}, unique_key=['no', 'lang'],"
            f" base={relation('plain_base')})"
        )
    )
    return [row["change_id"] for row in staged]


def test_load_rows_are_in_the_index(project: Project, lake: Lake) -> None:
    columns = {
        "IBMSNAP_COMMITSEQ": "binary",
        "IBMSNAP_INTENTSEQ": "binary",
        "IBMSNAP_OPERATION": "string",
        "IBMSNAP_LOGMARKER": "timestamp",
        "no": "int",
    }

    def row(commit: int, operation: str, no: int) -> dict[str, Any]:
        place = commit.to_bytes(10, "big")
        return dict(zip(columns, [place, place, operation, datetime(2024, 1, 1), no], strict=True))

    rows = [row(0, "I", 1), row(0, "I", 2), row(5, "D", 1), row(6, "I", 3)]
    lake.create("loaded_ccd", columns, rows)
    call = f"index_sync({relation('loaded_ccd')}, unique_key=['no']"
    for arguments, expected in {
        "": {1: "delete", 2: "upsert", 3: "upsert"},
        f", synchpoint='{5:020x}'": {3: "upsert"},
    }.items():
        found = lake.rows(project.sql(f"{call}{arguments})"))
        assert {row["no"]: row["action"] for row in found} == expected
