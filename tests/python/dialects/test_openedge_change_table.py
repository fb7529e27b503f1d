"""OpenEdge rows in, history out, with any order, batches and repeats of delivery."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from conftest import SCHEMA, DbtError, Lake, Project, relation
from deliveries import Batch, count_rows, run_in_batches_and_at_once
from dialect_openedge import (
    CHANGE_COLUMNS,
    CLOCK,
    TABLE_NUMBER,
    TRACKING_COLUMNS,
    FieldMaps,
    SplitOrder,
    carried,
    change_rows,
    in_two_parts,
    possible_splits,
    tracking_row,
    types_of,
)
from histories import EXAMPLES, assert_same_history, fewer_checks
from reference import Change, Row, history
from strategies import Stream, merged_streams, splits

CHANGES = "random_items__cdc"
TRACKING = "random_cdc_tracking"
STAGED = (
    "change_seq",
    "operation",
    "before",
    "after",
    "changed_columns",
    "absent_columns",
    "changed_at",
    "transaction_id",
    "reject_reason",
)


@pytest.fixture(scope="module")
def project(make_project: Callable[[str], Project], lake: Lake) -> Project:
    return make_project("openedge_change_table")


def draw_rows(
    data: st.DataObject,
    changes: list[Change],
    columns: list[str],
    maps: FieldMaps,
    order: SplitOrder,
) -> list[tuple[str, Row]]:
    """Write the changes as rows of both tables; some records break in two."""
    rows: list[tuple[str, Row]] = []
    for change in changes:
        for row in change_rows(change):
            parts = [row]
            places = possible_splits(row, columns)
            if places and data.draw(st.integers(0, 3)) == 3:
                parts = in_two_parts(row, columns, data.draw(st.sampled_from(places)), order)
            rows += [(CHANGES, part) for part in parts]
        rows.append((TRACKING, tracking_row(change, columns, maps)))
    return rows


@pytest.mark.minutes
@given(data=st.data())
@settings(fewer_checks, max_examples=max(1, EXAMPLES // 4))
def test_any_order_any_batches_and_repeats_give_what_one_batch_gives(
    data: st.DataObject, project: Project, lake: Lake
) -> None:
    stream = data.draw(merged_streams(8, max_changes=12, honest=True, trades=True))
    maps: FieldMaps = data.draw(st.sampled_from(["bits", "names", "bytes", "hex"]))
    order: SplitOrder = data.draw(st.sampled_from(["zero_first", "zero_last"]))
    changes = carried(stream, maps, whole=data.draw(st.booleans()))
    rows = draw_rows(data, changes, stream.columns, maps, order)
    batches = data.draw(splits(rows, max_batches=2))
    note(f"{maps} {order} {stream.types}")
    types = dict(zip((CHANGES, TRACKING), types_of(stream, maps), strict=True))
    key = stream.unique_key
    encoding = "'hex'" if maps == "hex" else "none"
    project.stream(
        "stg_random",
        f"openedge_change_table({relation(CHANGES)}, unique_key={key},"
        f" tracking={relation(TRACKING)}, source_table_number={TABLE_NUMBER},"
        f" partition_resets='truncate', field_map_encoding={encoding}, split_order='{order}')",
    )
    project.history("random_history", "stg_random", key)
    # Another table's changes, with the same sequences.
    others = [tracking_row(change, stream.columns, maps, table_number=15) for change in changes]
    landed: list[Batch] = [
        {
            table: (types[table], [row for name, row in batch if name == table])
            for table in (CHANGES, TRACKING)
        }
        for batch in batches
    ]
    landed[0][TRACKING][1].extend(others)

    found = run_in_batches_and_at_once(project, lake, ("stg_random", "random_history"), landed)[-1]
    assert_same_changes(found["stg_random"], changes, stream)
    assert_same_history(found["random_history"], history(changes, key, stream.columns), stream)
    assert count_rows(found["stg_random"]) == sum(map(len, batches))


def assert_same_changes(rows: list[Row], changes: list[Change], stream: Stream) -> None:
    """Compare the staging model with the stream, change by change."""
    staged = {row["change_id"]: row for row in rows}
    expected = {change.change_seq: change for change in changes}
    assert sorted(staged) == sorted(expected)
    for change_id, change in expected.items():
        row = staged[change_id]
        carried_change = {name: getattr(change, name) for name in STAGED}
        if carried_change["changed_columns"] is not None:
            carried_change["changed_columns"] = [
                c for c in stream.columns if c in carried_change["changed_columns"]
            ]
        assert {name: row[name] for name in STAGED} == carried_change
        assert row["tracking"]["user_name"] == row["changed_by"] == "somebody"


@pytest.mark.slow
def test_two_tables_need_a_model_each(project: Project, lake: Lake) -> None:
    """Each counts its own changes: the first insert of the west would replace that of the east."""
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}
    contract = (
        "change_seq, operation, `before`, `after`, changed_columns, absent_columns, changed_at,"
        " transaction_id, reject_reason, warnings, source_rows, changed_by, ingested_at"
    )
    calls, streams = [], []
    for key, region in ((1, "east"), (1001, "west")):
        inserted = {"_Change-Sequence": 1, "_Operation": 1, "_Time-Stamp": CLOCK}
        lake.create(f"{region}__cdc", columns, [{**inserted, "id": key, "name": region}])
        call = f"openedge_change_table({relation(f'{region}__cdc')}, unique_key=['id'])"
        project.stream(f"stg_{region}", call)
        calls.append(f"select * from ({{{{ {call} }}}})")
        streams.append(
            f"select concat('{region}-', change_id) as change_id, {contract}"
            f" from {{{{ ref('stg_{region}') }}}}"
        )
    project.model("stg_regions", " union all ".join(calls), materialized="change_stream")
    config = {"materialized": "history", "unique_key": ["id"]}
    project.model("regions_history", " union all ".join(streams), **config)
    said = r"stg_regions calls it twice.*a new model for each.*Got: \S+east__cdc and \S+west__cdc"
    with pytest.raises(DbtError, match=f"(?s){said}"):
        project.dbt("run", "--select", "stg_regions", "--full-refresh")
    models = ("stg_east", "stg_west", "regions_history")
    project.dbt("run", "--select", *models, "--full-refresh")
    updated = {"_Change-Sequence": 2, "_Operation": 4, "_Time-Stamp": CLOCK}
    lake.append("west__cdc", columns, [{**updated, "id": 1001, "name": "far west"}])
    project.dbt("run", "--select", *models)
    found = lake.rows(f"select id, name from {SCHEMA}.regions_history order by id, version")
    assert [tuple(row.values()) for row in found] == [
        (1, "east"),
        (1001, "west"),
        (1001, "far west"),
    ]


@pytest.mark.slow
def test_o7_a_late_change_with_a_low_sequence_is_read(project: Project, lake: Lake) -> None:
    """Watermark 20 was processed; then row 18 and the after-image of 17 arrive.

    The rows of a sequence are read together, whenever they landed.
    """
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}

    def row(sequence: int, operation: int, minute: int, name: str) -> Row:
        return {
            "_Change-Sequence": sequence,
            "_Operation": operation,
            "_Time-Stamp": datetime(2024, 3, 1, 12, minute),
            "id": 1,
            "name": name,
        }

    project.stream(
        "late/stg_late",
        f"openedge_change_table({relation('late__cdc')}, unique_key=['id'])",
    )
    run = ("run", "--select", "stg_late")
    lake.create("late__cdc", columns, [row(17, 3, 1, "a"), row(19, 4, 3, "c"), row(20, 4, 4, "d")])
    project.dbt(*run, "--full-refresh")
    lake.append("late__cdc", columns, [row(17, 4, 5, "b"), row(18, 4, 6, "c"), row(18, 4, 6, "c")])
    project.dbt(*run)

    staged = lake.rows(
        "select cast(change_seq as int) as seq, before.name as old, after.name as new,"
        f" reject_reason, source_rows from {SCHEMA}.stg_late order by change_id"
    )
    assert [tuple(row.values()) for row in staged] == [
        (17, "a", "b", None, 2),
        (18, None, "c", None, 2),
        (19, None, "c", None, 1),
        (20, None, "d", None, 1),
    ]

    # As if the table had been built before the contract had that column.
    lake.spark.sql(f"alter table {SCHEMA}.stg_late drop column changed_by")
    with pytest.raises(DbtError, match=r"stg_late lacks .*changed_by.* --full-refresh"):
        project.dbt(*run)


@pytest.mark.minutes
def test_landed_files_are_bounded_as_numbers(project: Project, lake: Lake) -> None:
    """A table with delete files has no changelog, so its files are read; 9 is less than 100."""
    columns = {**CHANGE_COLUMNS, "id": "int"}

    def rows(*sequences: int) -> list[Row]:
        return [
            {
                "_Change-Sequence": sequence,
                "_Operation": 1,
                "_Time-Stamp": datetime(2024, 3, 1),
                "id": sequence,
            }
            for sequence in sequences
        ]

    project.stream(
        "bounded/stg_bounded",
        f"openedge_change_table({relation('bounded__cdc')}, unique_key=['id'])",
    )
    lake.create("bounded__cdc", columns, rows(*range(1, 7)))
    raw = f"{SCHEMA}.bounded__cdc"
    lake.spark.sql(
        f"alter table {raw} set tblproperties"
        " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    lake.spark.sql(f"delete from {raw} where id = 1")
    project.dbt("run", "--select", "stg_bounded", "--full-refresh")
    lake.append("bounded__cdc", columns, rows(9))
    lake.append("bounded__cdc", columns, rows(100, 101))
    project.dbt("run", "--select", "stg_bounded")
    staged = lake.rows(f"select after.id from {SCHEMA}.stg_bounded order by change_seq")
    assert [row["id"] for row in staged] == [2, 3, 4, 5, 6, 9, 100, 101]


@pytest.mark.minutes
@pytest.mark.parametrize("pruned", ["pruned__cdc", "pruned_tracking"])
def test_a_change_keeps_values_that_one_of_its_two_tables_no_longer_has(
    pruned: str, project: Project, lake: Lake
) -> None:
    """Rows of one table land again after a consumer has deleted their rows from the other.

    The field map of 11 is in Base64, so the row before tells that it set the name to NULL.
    """
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}
    at = datetime(2024, 3, 1)

    def change(sequence: int, operation: int, name: str | None) -> Row:
        row = {"_Change-Sequence": sequence, "_Operation": operation, "_Time-Stamp": at}
        return {**row, "id": 1, "name": name}

    def tracked(sequence: int, field_map: str = "name") -> Row:
        row = {"_Change-Sequence": sequence, "_Operation": 4, "_Source-Table-Number": 12}
        return {**row, "_Time-Stamp": at, "_Change-FieldMap": field_map, "_User-Name": "ann"}

    project.stream(
        "stg_pruned",
        f"openedge_change_table({relation('pruned__cdc')}, unique_key=['id'],"
        f" tracking={relation('pruned_tracking')}, source_table_number=12)",
    )
    run = ("run", "--select", "stg_pruned")
    first = [change(11, 3, "a"), change(11, 4, None), change(12, 3, "a"), change(12, 4, "b")]
    maps = [tracked(11, "yAAAA=="), tracked(12)]
    lake.create("pruned__cdc", columns, first)
    lake.create("pruned_tracking", TRACKING_COLUMNS, maps)
    project.dbt(*run, "--full-refresh")
    before = lake.rows(f"select * from {SCHEMA}.stg_pruned order by change_seq")
    assert [row["absent_columns"] for row in before] == [None, None]
    lake.spark.sql(f"delete from {SCHEMA}.{pruned}")
    changes = [change(13, 3, "b"), change(13, 4, "c")]
    kept = first if pruned == "pruned_tracking" else []
    lake.append("pruned__cdc", columns, changes + kept)
    tracking = [tracked(13), *(maps if pruned == "pruned__cdc" else [])]
    lake.append("pruned_tracking", TRACKING_COLUMNS, tracking)
    project.dbt(*run)

    [*known, new] = lake.rows(f"select * from {SCHEMA}.stg_pruned order by change_seq")
    # Of their two change rows two more copies have landed.
    landed = {"ingested_at": known[0]["ingested_at"], "source_rows": 4} if kept else {}
    assert known == [{**row, **landed} for row in before]
    assert [(row["reject_reason"], row["tracking"]["user_name"]) for row in known] == [
        (None, "ann"),
        (None, "ann"),
    ]
    assert new["after"] == {"id": 1, "name": "c"}


@pytest.mark.minutes
def test_the_second_part_of_a_record_counts_though_the_tracking_row_is_gone(
    project: Project, lake: Lake
) -> None:
    columns = {**CHANGE_COLUMNS, "id": "int", "note": "string", "price": "int"}
    header = {"_Change-Sequence": 7, "_Operation": 1, "_Time-Stamp": datetime(2024, 3, 1)}
    first = {**header, "_Continuation-Position": 0, "id": 3, "note": "A tent; for"}
    second = {**header, "_Continuation-Position": 2, "_Fragment": 1, "note": " two", "price": 9}
    project.stream(
        "stg_later",
        f"openedge_change_table({relation('later__cdc')}, unique_key=['id'],"
        f" tracking={relation('later_tracking')}, source_table_number=12)",
    )
    run = ("run", "--select", "stg_later")
    lake.create("later__cdc", columns, [first])
    tracked = {**header, "_Source-Table-Number": 12, "_User-Name": "ann"}
    lake.create("later_tracking", TRACKING_COLUMNS, [tracked])
    project.dbt(*run, "--full-refresh")
    # In other words, it is another change until the second part is there.
    lake.append("later__cdc", columns, [{**first, "note": "A tent; for "}])
    project.dbt(*run)
    lake.spark.sql(f"delete from {SCHEMA}.later_tracking")
    lake.append("later__cdc", columns, [second])
    project.dbt(*run)
    [found, form] = lake.rows(
        "select after.id, trim(replace(after.note, '  ', ' ')) as note, after.price, changed_by,"
        f" reject_reason from {SCHEMA}.stg_later order by change_id"
    )
    assert found == {
        **{"id": 3, "note": "A tent; for two", "price": 9},
        **{"changed_by": "ann", "reject_reason": None},
    }
    assert form["reject_reason"] == "superseded: another form of this part counts"


@pytest.mark.minutes
def test_a_tracking_row_that_came_before_its_change_and_is_gone_counts(
    project: Project, lake: Lake
) -> None:
    columns = {**CHANGE_COLUMNS, "id": "int", "price": "int"}
    created = {"_Change-Sequence": 3, "_Operation": 1, "_Time-Stamp": datetime(2024, 3, 1)}
    updated = {"_Change-Sequence": 5, "_Operation": 4, "_Time-Stamp": datetime(2024, 3, 2)}
    tracked = {"_Source-Table-Number": 12, "_Change-FieldMap": "price", "_User-Name": "ben"}
    project.stream(
        "stg_first",
        f"openedge_change_table({relation('first__cdc')}, unique_key=['id'],"
        f" tracking={relation('first_tracking')}, source_table_number=12)",
    )
    run = ("run", "--select", "stg_first")
    lake.create("first__cdc", columns, [{**created, "id": 1, "price": 24}])
    tracking = [{**created, **tracked}, {**updated, **tracked}]
    lake.create("first_tracking", TRACKING_COLUMNS, tracking)
    project.dbt(*run, "--full-refresh")
    staged = f"select * from {SCHEMA}.stg_first where change_seq like '%5'"
    [touched] = lake.rows(staged)
    assert touched["reject_reason"].startswith("row touched: ")
    lake.spark.sql(f"delete from {SCHEMA}.first_tracking where `_Change-Sequence` = 5")
    timeless = {**updated, "_Time-Stamp": None, "id": 1}
    # The before-image alone is no change yet.
    for row in ({**timeless, "_Operation": 3, "price": 24}, {**timeless, "price": 25}):
        lake.append("first__cdc", columns, [row])
        project.dbt(*run)
    [found] = lake.rows(staged)
    assert (found["before"]["price"], found["after"]["price"]) == (24, 25)
    assert (found["changed_by"], found["tracking"]["user_name"]) == ("ben", "ben")
    assert (found["changed_columns"], found["changed_at"]) == (["price"], datetime(2024, 3, 2))
    assert (found["reject_reason"], found["warnings"], found["source_rows"]) == (None, None, 3)


@pytest.mark.minutes
def test_a_copy_of_a_row_without_what_was_joined_to_it_takes_nothing_away(
    project: Project, lake: Lake
) -> None:
    """An extract outer-joins the two tables, and the tracking row was gone when it ran again."""
    columns = {**CHANGE_COLUMNS, "_User-Name": "string", "_Change-FieldMap": "string"}
    columns |= {"_Source-Table-Number": "int", "id": "int", "price": "int"}
    bare = [
        {"_Change-Sequence": place, "_Operation": 4, "_Source-Table-Number": 12, "id": place}
        for place in range(5, 10)
    ]
    joined = [{**row, "_User-Name": "ann", "_Change-FieldMap": "price"} for row in bare]
    project.stream(
        "stg_bare",
        f"openedge_change_table({relation('bare__cdc')}, unique_key=['id'],"
        " source_table_number=12)",
    )
    run = ("run", "--select", "stg_bare")
    lake.create("bare__cdc", columns, bare + joined)
    project.dbt(*run, "--full-refresh")
    staged = f"select * from {SCHEMA}.stg_bare order by change_seq"
    before = lake.rows(staged)
    said = ("ann", ["price"], 2)
    assert [(r["changed_by"], r["changed_columns"], r["source_rows"]) for r in before] == [said] * 5
    lake.spark.sql(f"delete from {SCHEMA}.bare__cdc where `_User-Name` is not null")
    lake.append("bare__cdc", columns, bare)
    project.dbt(*run)
    assert lake.rows(staged) == before


@pytest.mark.minutes
def test_a_column_listed_later_has_its_values_though_the_tracking_rows_are_gone(
    project: Project, lake: Lake
) -> None:
    """What the tracking row said stays, and so does a change that the change table has lost.

    Of 13 and 14 the row before is gone: what it had in the new column is not known. That 14 set the
    name to NULL only the row before told.
    """
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string", "shelf": "string"}
    header = {"_Operation": 4, "_Time-Stamp": datetime(2024, 3, 1)}
    changes = [
        {**header, "_Change-Sequence": place, "id": place, "name": "a", "shelf": "C3"}
        for place in (11, 12, 13)
    ]
    changes.append({**changes[0], "_Change-Sequence": 14, "id": 14, "name": None})
    befores = [
        {**changes[2], "_Operation": 3, "id": 99},
        {**changes[3], "_Operation": 3, "name": "a"},
    ]
    tracking = [
        {
            **header,
            "_Change-Sequence": place,
            "_Source-Table-Number": 12,
            "_Change-FieldMap": None if place == 14 else "name",
            "_User-Name": "ann",
        }
        for place in (11, 12, 13, 14)
    ]

    def listed(names: list[str]) -> None:
        project.stream(
            "stg_listed",
            f"openedge_change_table({relation('listed__cdc')}, unique_key=['id'], columns={names},"
            f" tracking={relation('listed_tracking')}, source_table_number=12)",
            on_schema_change="append_new_columns",
        )

    run = ("run", "--select", "stg_listed")
    lake.create("listed__cdc", columns, [*changes, *befores])
    lake.create("listed_tracking", TRACKING_COLUMNS, tracking)
    listed(["id", "name"])
    project.dbt(*run, "--full-refresh")
    before = lake.rows(f"select * from {SCHEMA}.stg_listed order by change_seq")
    lake.spark.sql(f"delete from {SCHEMA}.listed_tracking")
    lake.spark.sql(f"delete from {SCHEMA}.listed__cdc where id = 11 or `_Operation` = 3")
    listed(["id", "name", "shelf"])
    project.dbt(*run)
    found = lake.rows(f"select * from {SCHEMA}.stg_listed order by change_seq")
    expected = [
        {**row, "after": {**row["after"], "shelf": shelf}}
        for row, shelf in zip(before, (None, "C3", "C3", "C3"), strict=True)
    ]
    expected[2]["before"] = {"id": 99, "name": "a", "shelf": "C3"}
    expected[3]["before"] = {"id": 14, "name": "a", "shelf": "C3"}
    assert expected[3]["absent_columns"] is None
    assert [{**row, "ingested_at": None} for row in found] == [
        {**row, "ingested_at": None} for row in expected
    ]
    assert (found[1]["changed_by"], found[1]["changed_columns"]) == ("ann", ["name"])


@pytest.mark.minutes
@pytest.mark.parametrize("first", ["changes", "tracking"])
def test_the_two_tables_may_land_days_apart(first: str, project: Project, lake: Lake) -> None:
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}
    at = datetime(2024, 3, 1)
    change = {"_Operation": 4, "_Time-Stamp": at, "id": 1, "name": "b"}
    tracked = {"_Operation": 4, "_Source-Table-Number": 12, "_Time-Stamp": at, "_User-Name": "ann"}
    project.stream(
        "stg_apart",
        f"openedge_change_table({relation('apart__cdc')}, unique_key=['id'],"
        f" tracking={relation('apart_tracking')}, source_table_number=12)",
    )
    rows = {
        "changes": ("apart__cdc", columns, change),
        "tracking": ("apart_tracking", TRACKING_COLUMNS, tracked),
    }
    for table, types, row in rows.values():
        lake.create(table, types, [{**row, "_Change-Sequence": 3}])
    run = ("run", "--select", "stg_apart")
    project.dbt(*run, "--full-refresh")

    second = "tracking" if first == "changes" else "changes"
    for name in (first, second):
        table, types, row = rows[name]
        lake.append(table, types, [{**row, "_Change-Sequence": 12}])
        if name == first:  # other changes land and are read before its partner does
            for other, others, more in rows.values():
                lake.append(other, others, [{**more, "_Change-Sequence": 40}])
        project.dbt(*run)
    staged = lake.rows(
        "select cast(change_seq as int) as seq, after.name, changed_by, source_rows, reject_reason"
        f" from {SCHEMA}.stg_apart order by change_seq"
    )
    assert [tuple(row.values()) for row in staged] == [
        (number, "b", "ann", 2, None) for number in (3, 12, 40)
    ]


@pytest.mark.slow
def test_a_tracking_table_that_is_given_later_asks_for_a_full_refresh(
    project: Project, lake: Lake
) -> None:
    """It adds the column `tracking` to the staging table."""
    columns = {**CHANGE_COLUMNS, "id": "int"}
    at = datetime(2024, 3, 1)

    def change(sequence: int) -> Row:
        return {"_Change-Sequence": sequence, "_Operation": 1, "_Time-Stamp": at, "id": sequence}

    def model(arguments: str) -> None:
        project.file(
            "models/stg_added.sql",
            "{{ config(materialized='change_stream') }}\n"
            f"{{{{ openedge_change_table({relation('added__cdc')}, unique_key=['id'], "
            f"{arguments}) }}}}",
        )

    tracked = {"_Change-Sequence": 1, "_Operation": 1, "_Source-Table-Number": 12}
    run = ("run", "--select", "stg_added")
    lake.create("added__cdc", columns, [change(1)])
    lake.create("added_tracking", TRACKING_COLUMNS, [{**tracked, "_User-Name": "ann"}])
    model("tracking=none")
    project.dbt(*run, "--full-refresh")
    lake.append("added__cdc", columns, [change(2)])
    model(f"tracking={relation('added_tracking')}, source_table_number=12")
    with pytest.raises(DbtError, match=r"stg_added lacks \['tracking'\].* --full-refresh"):
        project.dbt(*run)

    project.dbt(*run, "--full-refresh")
    staged = lake.rows(f"select changed_by from {SCHEMA}.stg_added order by change_seq")
    assert [row["changed_by"] for row in staged] == ["ann", None]


@pytest.mark.slow
def test_a_reset_that_is_rejected_after_all_ends_no_row(project: Project, lake: Lake) -> None:
    """Whether it stands in the change table or in the tracking table alone."""
    columns = {**CHANGE_COLUMNS, "id": "int"}
    at = datetime(2024, 3, 1)
    created = [
        {"_Change-Sequence": number, "_Operation": 1, "_Time-Stamp": at, "id": number}
        for number in (1, 2)
    ]
    reset = {"_Change-Sequence": 3, "_Operation": 7, "_Time-Stamp": at}
    lake.create("reset__cdc", columns, [*created, reset])
    lake.create("reset_tracked__cdc", columns, created)
    lake.create("reset_tracking", TRACKING_COLUMNS, [{**reset, "_Source-Table-Number": 12}])
    calls = {
        "landed": f"{relation('reset__cdc')}, unique_key=['id']",
        "tracked": f"{relation('reset_tracked__cdc')}, unique_key=['id'],"
        f" tracking={relation('reset_tracking')}, source_table_number=12",
    }
    behind = []
    for name in calls:
        project.history(f"reset_{name}_history", f"stg_reset_{name}")
        select = f"select * from {{{{ ref('stg_reset_{name}') }}}}"
        project.model(f"reset_{name}_audit", select, materialized="audit", unique_key=["id"])
        behind += [f"reset_{name}_history", f"reset_{name}_audit"]

    def run(resets: str, *arguments: str) -> None:
        for name, call in calls.items():
            rule = f"partition_resets='{resets}'"
            project.stream(f"stg_reset_{name}", f"openedge_change_table({call}, {rule})")
        project.dbt("run", "--select", "stg_reset_landed+", "stg_reset_tracked+", *arguments)

    def versions(name: str) -> list[tuple[Any, ...]]:
        query = f"select id, is_current, closed_by from {SCHEMA}.reset_{name}_history order by id"
        return [tuple(row.values()) for row in lake.rows(query)]

    run("truncate", "--full-refresh")
    for name in calls:
        assert versions(name) == [(1, False, "truncate"), (2, False, "truncate")]
    run("reject")
    for name in calls:
        assert versions(name) == [(1, True, None), (2, True, None)]
        query = f"select distinct operation from {SCHEMA}.reset_{name}_audit"
        assert lake.rows(query) == [{"operation": "insert"}]
    found = lake.contents(*behind)
    project.dbt("run", "--select", *behind, "--full-refresh")
    assert lake.contents(*behind) == found
    run("truncate")
    for name in calls:
        assert versions(name) == [(1, False, "truncate"), (2, False, "truncate")]


def test_text_of_a_limited_length_is_text(project: Project, lake: Lake) -> None:
    """Tables of other formats have it: a time, and a field that two rows share."""
    table = "spark_catalog.default.short_text__cdc"
    lake.spark.sql(f"drop table if exists {table}")
    lake.spark.sql(
        f"create table {table} (`_Change-Sequence` bigint, `_Operation` int,"
        " `_Continuation-Position` int, `_Fragment` int, `_Time-Stamp` varchar(40), id int,"
        " note varchar(9)) using parquet"
    )
    at = "2024-03-01 10:00:00:123 + 01:00"
    # A second part may have its key. What begins like the first one need not be the whole.
    rows = [
        (1, 1, 0, 0, at, 7, "fragm"),
        (1, 1, 2, 1, at, 7, "ent"),
        (2, 1, 0, 0, at, 8, "--"),
        (2, 1, 2, 1, at, None, "--- x"),
    ]
    for row in rows:
        values = str(row).replace("None", "null")
        lake.spark.sql(f"insert into {table} values {values}")
    project.model(
        "stg_short_text",
        f"{{{{ openedge_change_table({relation('short_text__cdc', 'spark_catalog.default')},"
        " unique_key=['id']) }}",
    )
    project.dbt("run", "--select", "stg_short_text")
    [change, other] = lake.rows(f"select * from {SCHEMA}.stg_short_text order by change_seq")
    assert (change["reject_reason"], other["reject_reason"]) == (None, None)
    assert change["after"] == {"id": 7, "note": "fragment"}
    assert other["after"] == {"id": 8, "note": "----- x"}
    assert change["changed_at"] == datetime(2024, 3, 1, 9, 0, 0, 123000)
    lake.spark.sql(f"drop table {table}")


HALF = "half of a split record: its other part is not there"


@pytest.mark.parametrize("selected", [None, ["Item-Num", "Price"]])
def test_a_row_that_sql_has_joined_is_whole_whatever_comes_before_its_position(
    selected: list[str] | None, project: Project, lake: Lake
) -> None:
    """The record of 1 broke after the first field, that of 2 after the second.

    3 and 4 have only the second part, with its key, of records that broke after the second and the
    first field, and 5 that of one that broke within the first.
    """
    columns = {**CHANGE_COLUMNS, "Notes": "string", "Item-Num": "int", "Price": "int"}

    def row(sequence: int, position: int, notes: str | None, fragment: int = 0) -> Row:
        place = {"_Change-Sequence": sequence, "_Operation": 1, "_Continuation-Position": position}
        data = {"Notes": notes, "Item-Num": 3, "Price": 9}
        return {**place, "_ArrayIndex": 0, "_Fragment": fragment, **data}

    rows = [row(1, 1, "n"), row(2, 2, "n"), row(3, 2, None), row(4, 1, None), row(5, 1, "n", 1)]
    lake.create("joined__cdc", columns, rows)
    sql = project.sql(
        f"openedge_change_table({relation('joined__cdc')}, unique_key=['Item-Num'],"
        f" columns={selected or 'none'})"
    )
    found = lake.rows(f"select after.Price, reject_reason from ({sql}) order by change_seq")
    assert [tuple(row.values()) for row in found] == [(9, None)] * 2 + [(9, HALF)] * 3


def test_a_second_part_that_has_its_key_is_half_until_the_first_lands(
    project: Project, lake: Lake
) -> None:
    """No key fills a record, so 7 lacks a name. 8 broke within its name, and may be whole."""
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string", "price": "int"}

    def row(key: int, position: int, fragment: int, **values: Any) -> Row:
        place = {"_Change-Sequence": key, "_Operation": 1, "_Continuation-Position": position}
        return {**place, "_ArrayIndex": 0, "_Fragment": fragment, "id": key, **values}

    lake.create("keyed__cdc", columns, [row(7, 2, 0, price=9), row(8, 2, 1, name="Tent", price=9)])
    sql = project.sql(f"openedge_change_table({relation('keyed__cdc')}, unique_key=['id'])")
    found = f"select after.name, after.price, reject_reason from ({sql}) order by change_seq"
    whole = ("Tent", 9, None)
    assert [tuple(row.values()) for row in lake.rows(found)] == [(None, 9, HALF), whole]
    lake.append("keyed__cdc", columns, [row(7, 0, 0, name="Tent")])
    assert [tuple(row.values()) for row in lake.rows(found)] == [whole, whole]


def test_a_second_part_with_other_values_than_the_first_is_not_the_whole(
    project: Project, lake: Lake
) -> None:
    """ABL may fill the fields of the first part: a text is empty then, and a number 0."""
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string", "n": "int", "note": "string"}

    def row(sequence: int, position: int, *values: int | str | None) -> Row:
        place = {"_Change-Sequence": sequence, "_Operation": 1, "_Continuation-Position": position}
        data = dict(zip(["id", "name", "n", "note"], values, strict=True))
        return {**place, "_ArrayIndex": 0, "_Fragment": int(position > 0), **data}

    rows = [
        row(7, 0, 7, "Tent", 5, "A tent; for"),
        row(7, 4, 7, "", 0, " two people"),
        # What SQL has joined has the values of the first part, which may have blanks behind.
        row(8, 0, 8, "Tent ", 5, "A tent; for"),
        row(8, 4, 8, "Tent", 5, "A tent; for two people"),
        # The first part has what the second one is filled with, or nothing.
        *(row(9, 0, 9, "", 0, "A tent; for"), row(9, 4, 9, "", 0, " two people")),
        *(row(10, 0, 10, None, None, "A tent; for"), row(10, 4, 10, "", 0, " two people")),
    ]
    lake.create("filled__cdc", columns, rows)
    sql = project.sql(f"openedge_change_table({relation('filled__cdc')}, unique_key=['id'])")
    filled, joined, *alike = lake.rows(f"select * from ({sql}) order by change_seq")
    assert [(row["reject_reason"], row["after"]) for row in alike] == [
        (None, {"id": key, "name": "", "n": 0, "note": "A tent; for two people"}) for key in (9, 10)
    ]
    assert filled["reject_reason"] == "split record: both parts have a value for name, n"
    assert joined["reject_reason"] is None
    assert joined["after"] == {"id": 8, "name": "Tent", "n": 5, "note": "A tent; for two people"}


def test_a_row_that_sql_has_joined_beside_parts_of_a_broken_text(
    project: Project, lake: Lake
) -> None:
    """It may be known by that text alone, stand beside one of the parts, or have position 0."""
    text, begun, rest = "A tent; for two people", "A tent; for", " two people"
    columns = {**CHANGE_COLUMNS, "id": "int", "note": "string", "price": "int"}

    def row(place: int, position: int, **values: int | str) -> Row:
        fragment = {"_Continuation-Position": position, "_Fragment": min(position, 1)}
        return {"_Change-Sequence": place, "_Operation": 1, **fragment, **values}

    def first(place: int) -> Row:
        return row(place, 0, id=place, note=begun)

    def second(place: int) -> Row:
        return row(place, 2, note=rest, price=9)

    def whole(place: int, position: int) -> Row:
        return row(place, position, id=place, note=text, price=9)

    rows = [
        *(first(1), second(1), whole(1, 2)),
        *(second(2), whole(2, 2)),
        *(second(3), whole(3, 0)),
        *(first(4), second(4), whole(4, 0)),
        # A second part with its key, and one that the first part ends like.
        *(first(5), {**second(5), "id": 5}),
        *(row(6, 0, id=6, note="ha"), row(6, 2, note="ha", price=9)),
    ]
    lake.create("broken__cdc", columns, rows)
    # The key lies behind the text, in the second part.
    parts = [row(1, 0, note=begun), *(row(1, 1, note=n, id=9, price=9) for n in (rest, text))]
    behind = {**CHANGE_COLUMNS, "note": "string", "id": "int", "price": "int"}
    lake.create("behind__cdc", behind, parts)
    # The text is the last value, so that a row that SQL has joined looks like a first part.
    last = [
        part
        for place in range(1, 6)
        for part in (
            *(row(place, 2, id=place, note=note) for note in (begun, text)),
            row(place, 0, note=rest),
        )
    ]
    lake.create("broken_last__cdc", columns, last)
    queries = project.sqls(
        f"openedge_change_table({relation(table)}, unique_key=['id'], split_order='{order}')"
        for table, order in [
            ("broken__cdc", "zero_first"),
            ("behind__cdc", "zero_first"),
            ("broken_last__cdc", "zero_last"),
        ]
    )
    found, [key_behind], text_last = [
        [
            tuple(row.values())
            for row in lake.rows(
                "select int(left(change_id, 19)) as place, after.id, after.note, after.price,"
                f" source_rows, reject_reason from ({sql}) order by change_id"
            )
        ]
        for sql in queries
    ]
    superseded = found.pop(4)
    assert (superseded[0], *superseded[4:]) == (
        *(4, 0),
        "superseded: another form of this part counts",
    )
    rows_of = {1: 3, 2: 2, 3: 2, 4: 3, 5: 2}
    assert found == [
        *((place, place, text, 9, rows_of[place], None) for place in range(1, 6)),
        (6, 6, "haha", 9, 2, None),
    ]
    assert key_behind == (1, 9, text, 9, 3, None)
    assert text_last == [(place, place, text, None, 3, None) for place in range(1, 6)]


def test_old_and_new_names_of_a_tracking_column_are_read_together(
    project: Project, lake: Lake
) -> None:
    """A landing that went on while OpenEdge was updated has both; each row has one of them."""
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}
    header = {"_Operation": 4, "_Source-Table-Number": 12}
    old = {**header, "_Change-Sequence": 1, "_Source-FieldMap": "name", "_Source-Rowid": "7"}
    new = {**header, "_Change-Sequence": 2, "_Change-FieldMap": "id", "_Recid": 8}
    changes = [{"_Change-Sequence": n, "_Operation": 4, "id": n, "name": "a"} for n in (1, 2)]
    tracking = {"_Source-FieldMap": "string", "_Source-Rowid": "string", **TRACKING_COLUMNS}
    lake.create("renamed__cdc", columns, changes)
    lake.create("renamed_tracking", tracking, [old, new])
    lake.create("unlike_tracking", {**tracking, "_Source-FieldMap": "binary"}, [])

    def call(table: str) -> str:
        return (
            f"openedge_change_table({relation('renamed__cdc')}, unique_key=['id'],"
            f" tracking={relation(table)}, source_table_number=12)"
        )

    found = lake.rows(
        f"select * from ({project.sql(call('renamed_tracking'))}) order by change_seq"
    )
    assert [(row["changed_columns"], row["tracking"]["record_id"]) for row in found] == [
        (["name"], 7),
        (["id"], 8),
    ]
    [refusal] = project.refusals([call("unlike_tracking")])
    assert "give the column with the field map as `field_map`" in refusal
    assert "Got: _Source-FieldMap (binary) and _Change-FieldMap (string)" in refusal


@pytest.mark.parametrize(("encoding", "field_map"), [("hex", "4G"), ("bits", "012")])
def test_a_field_map_that_cannot_be_decoded_does_not_say_what_changed(
    encoding: str, field_map: str, project: Project, lake: Lake
) -> None:
    columns = {**CHANGE_COLUMNS, "id": "int", "name": "string"}
    place = {"_Change-Sequence": 1, "_Source-Table-Number": 12}
    images = [{**place, "_Operation": 3, "name": "a"}, {**place, "_Operation": 4, "name": "b"}]
    lake.create(
        "mapped__cdc", columns, [{**image, "_Time-Stamp": CLOCK, "id": 1} for image in images]
    )
    lake.create("mapped_tracking", TRACKING_COLUMNS, [{**images[1], "_Change-FieldMap": field_map}])
    sql = project.sql(
        f"openedge_change_table({relation('mapped__cdc')}, unique_key=['id'],"
        f" tracking={relation('mapped_tracking')}, source_table_number=12,"
        f" field_map_encoding='{encoding}')"
    )
    [row] = lake.rows(sql)
    assert row["changed_columns"] is None
    assert row["warnings"] == [f"the field map cannot be decoded: {field_map}"]


def test_a_recid_in_place_of_a_key_is_no_field_of_the_map(project: Project, lake: Lake) -> None:
    columns = {"_Recid": "bigint", **CHANGE_COLUMNS, "_Change-FieldMap": "string"}
    columns |= {"item": "int", "price": "int"}
    header = {"_Recid": 47, "_Operation": 4, "_Time-Stamp": CLOCK}
    # The third field has not landed.
    maps = ["01", "011", "001"]
    rows = [header | {"_Change-Sequence": n, "_Change-FieldMap": m} for n, m in enumerate(maps, 1)]
    lake.create("recid__cdc", columns, rows)
    names = ["_Recid", "item", "price"]
    call = (
        f"openedge_change_table({relation('recid__cdc')}, unique_key=['_Recid'], columns={names})"
    )
    found = lake.rows(f"select * from ({project.sql(call)}) order by change_seq")
    assert [(row["changed_columns"], row["absent_columns"]) for row in found] == [
        (["price"], ["item"]),
        (["price"], ["item"]),
        (None, ["item", "price"]),
    ]
    unknown = ["the field map has what is no field: 3"]
    assert [row["warnings"] for row in found[:2]] == [None, unknown]
    assert unknown[0] in found[2]["warnings"]


LANDED = {
    **CHANGE_COLUMNS,
    "_Source-Table-Number": "int",
    "_Version": "string",
    "_User_Name": "string",
    "changed_fields": "string",
    "Cust-Num": "int",
    "_hidden": "string",
}


def test_tracking_columns_may_be_in_the_change_table(project: Project, lake: Lake) -> None:
    """A change table and its tracking table were landed as one, as a join of the two.

    Then tracking rows are not counted, and columns of the source may look like metadata.
    """
    common: Row = {"_Time-Stamp": datetime(2024, 3, 1), "_User_Name": "ann"}
    rows: list[Row] = [
        {"_Change-Sequence": 5, "_Operation": 3, "_Source-Table-Number": 12, "_hidden": "a"},
        {"_Change-Sequence": 5, "_Operation": 4, "_Source-Table-Number": 12, "_hidden": "b"},
        {"_Change-Sequence": 5, "_Operation": 2, "_Source-Table-Number": 15, "_hidden": "z"},
        {"_Change-Sequence": 6, "_Operation": 2, "_Source-Table-Number": None, "_hidden": "b"},
        {"_Change-Sequence": None, "_Operation": 2, "_Source-Table-Number": 12, "_hidden": "b"},
    ]
    fields: Row = {"Cust-Num": 1, "changed_fields": "_HIDDEN", "_Version": "v"}
    lake.create("landed__cdc", LANDED, [{**common, **fields, **row} for row in rows])
    sql = project.sql(
        f"openedge_change_table({relation('landed__cdc')}, unique_key=['cust-num'],"
        " source_table_number=12, field_map='Changed_Fields', columns=['_version',"
        " 'Cust-Num', '_hidden'])"
    )
    rows = sorted(lake.rows(sql), key=lambda row: str(row["change_id"]))
    assert [
        (row["change_seq"], row["operation"], row["changed_columns"], row["source_rows"])
        for row in rows
    ] == [
        (f"{5:019d}", "update", ["_hidden"], 2),
        (f"{6:019d}", "delete", None, 1),
        ("", "delete", None, 1),
    ]
    assert rows[0]["before"] == {"_Version": "v", "Cust-Num": 1, "_hidden": "a"}
    assert rows[0]["after"] == {"_Version": "v", "Cust-Num": 1, "_hidden": "b"}
    assert rows[0]["tracking"]["user_name"] == "ann"
    assert rows[0]["warnings"] is None
