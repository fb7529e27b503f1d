"""One stream of changes in every dialect gives one history, row for row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from all_dialects import (
    FLAVOURS,
    FULLEST,
    MACRO,
    PLACES,
    Told,
    by_case,
    carriers,
    in_dialect,
    name_in,
    told_streams,
)
from conftest import SCHEMA, Lake, Project
from histories import EXAMPLES, fewer_checks, in_order, jinja
from reference import Row, history
from strategies import options

CASES = 24


# Apart from each other, as a truncate would end the rows of another case's full load.
@given(told=st.sampled_from([FLAVOURS, [FULLEST]]).flatmap(lambda those: told_streams(4, those)))
@settings(max_examples=25, deadline=None)
def test_what_is_told_sparsely_and_in_whole_rows_means_the_same(told: Told) -> None:
    for dialect in MACRO:
        sparse, whole = told.of(dialect), told.of(dialect, whole=True)
        assert history(sparse.changes, sparse.unique_key, sparse.columns) == history(
            whole.changes, whole.unique_key, whole.columns
        )


def assert_one_history(
    told: Told, dialects: Sequence[str], data: st.DataObject, project: Project, lake: Lake
) -> None:
    """Land a stream in each dialect in three batches, in any order, and compare what comes out."""
    chosen = data.draw(options(told.stream))
    order = random.Random(data.draw(st.integers(0, 2**32)))
    later: list[list[tuple[str, dict[str, str], list[Row]]]] = [[], []]
    note(f"{chosen} {told.stream.types}")
    config = f"unique_key={told.stream.unique_key}, {jinja(chosen)}"
    for dialect in dialects:
        written = in_dialect(dialect, told)
        for table, (columns, rows) in written.tables.items():
            delivered = [*rows, *order.sample(rows, len(rows) // 8)]  # some rows come twice
            order.shuffle(delivered)
            cuts = sorted(order.choices(range(len(delivered) + 1), k=2))
            lake.create(table, columns, delivered[: cuts[0]])
            later[0].append((table, columns, delivered[cuts[0] : cuts[1]]))
            later[1].append((table, columns, delivered[cuts[1] :]))
        project.stream(f"stg_{dialect}", written.call)
        project.file(
            f"models/{dialect}_history.sql",
            f"{{{{ config(materialized='history', {config}) }}}}\n"
            f"select * from {{{{ ref('stg_{dialect}') }}}}",
        )
    models = [f"+{dialect}_history" for dialect in dialects]
    project.dbt("run", "--full-refresh", "--select", *models)
    for batch in later:
        for table, columns, rows in batch:
            lake.append(table, columns, rows)
        project.dbt("run", "--select", *models)

    seen: dict[int, list[Row]] = {}
    differences: list[str] = []
    for dialect in dialects:
        stream, names = told.of(dialect), name_in(dialect, told)
        for row in lake.rows(
            f"select * from {SCHEMA}.stg_{dialect} where reject_reason is not null"
            # Of an event log: an event that an earlier batch did not have begins the change.
            " and reject_reason not like 'moved: %'"
            # Of messages on Kafka: what follows a delete.
            " and reject_reason not like 'tombstone: %'"
        ):
            differences.append(f"{dialect} rejects {row}")
        found = in_order(lake.rows(f"select * from {SCHEMA}.{dialect}_history"), stream.unique_key)
        reference = in_order(
            history(stream.changes, stream.unique_key, stream.columns, **chosen), stream.unique_key
        )
        got, expected = by_case(found, PLACES), by_case(reference, PLACES)
        for case in sorted({*got, *expected}):
            left, right = got.get(case, []), expected.get(case, [])
            right = [row | {"transaction_id": names(row["transaction_id"])} for row in right]
            if left != right:
                differences.append(f"{dialect}, case {case}:\n{shown(left)}\nbut:\n{shown(right)}")
            without = [row | {"transaction_id": None} for row in left]
            if seen.setdefault(case, without) != without:
                differences.append(f"{dialect}, case {case}: not what another dialect gives")
    assert not differences, "\n".join(differences)[:20_000]
    assert len(seen) > 1


def shown(rows: list[Row]) -> str:
    return "\n".join(str({name: str(value) for name, value in row.items()}) for row in rows)


@pytest.mark.slow
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_one_stream_has_one_history_in_every_dialect(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    told = data.draw(told_streams(CASES, FLAVOURS))
    # The simplest stream of all, with which a search begins, holds nothing.
    assume(all(len(told.of(dialect).changes) > CASES // 2 for dialect in MACRO))
    assert_one_history(told, list(MACRO), data, project, lake)


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 5))
def test_a_truncate_ends_the_same_versions_in_every_dialect_that_has_it(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    told = data.draw(told_streams(CASES, [FULLEST]))
    changes = told.of("openedge").changes
    assume(any(change.operation == "truncate" for change in changes))
    assert carriers(FULLEST) == ["qlik_change_table", "openedge", "debezium_json", "debezium_avro"]
    assert_one_history(told, carriers(FULLEST), data, project, lake)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("all_dialects")
