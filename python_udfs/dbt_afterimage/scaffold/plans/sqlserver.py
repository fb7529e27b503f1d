"""The plan for SQL Server change tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column
from dbt_afterimage.scaffold.landed import names_of
from dbt_afterimage.scaffold.plans.question import Plan, Question, add_commit_times, code_of, no_key


def sqlserver_change_table(question: Question) -> Plan:
    """Plan for a SQL Server change table. It does not show which columns are the key."""
    landed = question.landed
    is_header = [column.name.startswith("__$") for column in landed.columns]
    columns = [one for one, is_own in zip(landed.columns, is_header, strict=True) if not is_own]
    if "__$seqval" not in map(str.lower, names_of(landed.columns)):
        raise AfterimageError(
            f"{landed.name} has no column __$seqval: these are net changes, which leave changes"
            " out. Land all changes (the table cdc.<instance>_CT), or read net"
            " changes through a model, as docs/systems/sqlserver_change_table.md shows"
        )
    added = _added_by_a_query(question, columns, is_header.index(True))
    columns = [one for one in columns if one not in added]
    if not question.key:
        code = code_of("__$operation")
        why = "change tables do not tell it"
        raise no_key(question, why, columns, f"{code} = '2'", f"{code} = '1'")
    plan = Plan(
        # A capture instance is named after the schema and the table: dbo_orders_CT.
        re.sub(r"(?i)^dbo_|_+ct$", "", landed.identifier),
        list(question.key),
        columns,
        landed_rows=landed.reference,
    )
    if added:
        plan.call["columns"] = repr(names_of(columns))
        plan.notes.append(
            f"columns: without {', '.join(names_of(added))}, which stand before __$start_lsn as"
            " columns do that a query adds. Check it."
        )
    add_commit_times(plan, question, "lsn_times", "cdc.lsn_time_mapping")
    return plan


def _added_by_a_query(question: Question, columns: Sequence[Column], count: int) -> list[Column]:
    """Return the columns in front of the header, the first `count`. A change table has none there.

    If all are, or the columns are sorted, as Spark does with JSON, their order says nothing.
    """
    names = names_of(question.landed.columns)
    if "columns" in question.arguments or count == len(columns) or names == sorted(names):
        return []
    key = {name.lower() for name in question.key}
    return [one for one in columns[:count] if one.name.lower() not in key]
