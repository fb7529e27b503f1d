"""The plan for SQL Server change tables."""

from __future__ import annotations

import re

from dbt_afterimage.scaffold.plans.question import Plan, Question, add_commit_times, code_of, no_key


def sqlserver_change_table(question: Question) -> Plan:
    """Plan for a SQL Server change table. It does not show which columns are the key."""
    landed = question.landed
    columns = [column for column in landed.columns if not column.name.startswith("__$")]
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
    add_commit_times(plan, question, "lsn_times", "cdc.lsn_time_mapping")
    return plan
