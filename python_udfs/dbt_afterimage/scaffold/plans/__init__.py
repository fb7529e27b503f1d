"""Plans models from what a table shows: the key, the columns, and the source macro's arguments.

Only the source macros know a dialect, so the plans ask their private macros. Each system has a
module of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dbt_afterimage.scaffold.plans.db2 import db2_change_data, db2_text_log
from dbt_afterimage.scaffold.plans.debezium import debezium_messages
from dbt_afterimage.scaffold.plans.dms import dms_changes
from dbt_afterimage.scaffold.plans.netiq import netiq_event_log
from dbt_afterimage.scaffold.plans.openedge import openedge_change_table
from dbt_afterimage.scaffold.plans.qlik import qlik_change_table, qlik_messages
from dbt_afterimage.scaffold.plans.question import Plan, Question, spelled
from dbt_afterimage.scaffold.plans.sqlserver import sqlserver_change_table

_PLANS: Mapping[str, Callable[[Question], Plan]] = {
    plan.__name__: plan
    for plan in (
        qlik_change_table,
        qlik_messages,
        debezium_messages,
        netiq_event_log,
        db2_change_data,
        db2_text_log,
        openedge_change_table,
        sqlserver_change_table,
        dms_changes,
    )
}


def make(macro: str, question: Question) -> Plan:
    """Return the plan for a table.

    Args:
        macro: The system's source macro.
        question: The input of the plan.

    Raises:
        AfterimageError: The user must say more, or the key is not among the columns.
    """
    plan = _PLANS[macro](question)
    plan.key = spelled(plan.key, plan.columns, "the key")
    return plan
