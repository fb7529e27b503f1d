"""The plan for OpenEdge change tables."""

from __future__ import annotations

import re
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, quote
from dbt_afterimage.scaffold.landed import Landed, rows_of
from dbt_afterimage.scaffold.plans.question import Plan, Question, code_of, no_key


def openedge_change_table(question: Question) -> Plan:
    """Plan for an OpenEdge change table. It does not show which columns are the key."""
    landed, tracking = question.landed, question.others.get("tracking")
    field_map = question.arguments.get("field_map")

    listed = question.arguments.get("columns") or []

    def layout(place: Landed) -> Any:
        declared = listed if place is landed else []
        return question.project.macro(
            "_openedge_columns", relation=place.relation, declared=declared, field_map=field_map
        )

    columns = [Column(one["name"], one["type"]) for one in layout(landed)["data"]]
    if not columns:
        raise AfterimageError(
            f"{landed.name} has only header columns. If it is the tracking table, give the change"
            " table, and this one with --tracking"
        )
    if not question.key:
        why, operation = "change tables do not tell it", layout(landed)["metadata"].get("operation")
        if not operation:
            raise no_key(question, why, columns)
        code = code_of(operation["name"])
        raise no_key(question, why, columns, f"{code} = '1'", f"{code} = '2'")
    plan = Plan(re.sub(r"(?i)_+cdc$|^cdc_+", "", landed.identifier), list(question.key), columns)
    if tracking is not None:
        plan.call["tracking"] = tracking.reference

    places = [landed, *([tracking] if tracking else [])]
    if not any("field_map" in layout(place)["metadata"] for place in places):
        plan.notes.append(
            "No field map has landed, and an update has NULL in what it did not change: a NULL"
            " counts as unchanged, unless the row before has a value. Land the map as"
            " _Change-FieldMap."
        )

    # The number of the source table, if a table has it. The rows of a change table belong to one
    # source table, those of the tracking table to all, though it may show only some just now.
    number, numbered = question.arguments.get("source_table_number"), dict[str, str]()
    for place in places:
        metadata = layout(place)["metadata"]
        if "table_number" not in metadata or "sequence" not in metadata:
            continue
        column = numbered[place.name] = quote(metadata["table_number"]["name"])
        if number is None and question.written_number is not None:
            number = plan.call["source_table_number"] = question.written_number
        elif number is None:
            rows = question.project.rows(
                f"select distinct cast({column} as bigint) from {place.relation} order by 1"
            )
            numbers = [str(row[0]) for row in rows if row[0] is not None]
            # The tracking table may show another table's alone. A model of the user's has a number.
            if len(numbers) != 1 or (place is tracking and not question.is_staged):
                raise AfterimageError(
                    f"{place.name} may have changes of several source tables, and has those of"
                    f" {', '.join(numbers) or 'none'} now. Give the number of the table of"
                    f" {landed.name}, its _File-Number in OpenEdge's _File:"
                    " arguments: {source_table_number: N}"
                )
            number = numbers[0]
            plan.call["source_table_number"] = number
            plan.notes.append(f"source_table_number: {number}, the only one in {place.name}.")
    if tracking is not None:
        of_table = f"{numbered[tracking.name]} = {number}" if tracking.name in numbered else None
        plan.landed_rows = f"({rows_of(landed)} union all {rows_of(tracking, of_table)})"
    elif not numbered:
        plan.landed_rows = landed.reference
    return plan
