"""The plan for the event log of Identity Manager's JDBC driver."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, literal, quote
from dbt_afterimage.scaffold.landed import rows_of
from dbt_afterimage.scaffold.plans.question import (
    NothingLanded,
    Plan,
    Question,
    SeveralTables,
    column_list,
    guess_note,
    is_same_table,
    spelled,
)
from dbt_afterimage.text import text_literal

# The marks of the driver: success, a warning, an error, and a fatal one. The row changed with each.
_PROCESSED = ("S", "W", "E", "F")


def netiq_event_log(question: Question) -> Plan:
    """Plan for an event log. `table_key` names the key's columns."""
    landed, base = question.landed, question.others.get("base")
    renamed = question.arguments.get("column_names", {})
    log = question.project.macro(
        "_netiq_log_columns", macro_name="init", relation=landed.relation, column_names=renamed
    )
    ask = question.project.rows
    name = f"trim({log['table_name']})"
    found = ask(
        f"select {name} as name, count(*) as events from {landed.relation} where {name} <> ''"
        " group by 1 order by events desc, name"
    )
    tables = [row[0] for row in found]
    table = question.table or question.written_table
    if not (tables or table):
        raise NothingLanded(f"{landed.name} has no events, so it does not show a table")
    if question.table is None:
        question.check_written(f"the events in {landed.name}", tables)
        if len({one.lower() for one in tables}) > 1:
            raise SeveralTables(f"the events in {landed.name}", tables)
    is_sure = table or question.is_staged
    if base is not None and not is_sure and not is_same_table(tables[0], base.identifier):
        raise AfterimageError(
            f"the events in {landed.name} are of {tables[0]}, and --base is {base.name}. If that"
            f" has the current rows of {tables[0]}, say so with --table {tables[0]}"
        )
    table = table or tables[0]
    is_alone = all(one.lower() == table.lower() for one in tables)
    events = f"from {landed.relation} where lower({name}) = {literal(table.lower())}"
    plan = Plan(table, list(question.key), [], has_before_images=False)
    if not plan.key:
        keys = ask(
            "select to_json(names), count(*) as events from"
            f" (select map_keys(parse_table_key({log['table_key']}).parts) as names {events})"
            " where size(names) > 0 group by names order by events desc, names limit 1"
        )
        if not keys:
            raise NothingLanded(f"no table_key of {table} in {landed.name} can be read. Give --key")
        plan.key = json.loads(keys[0][0])
        plan.notes.append(guess_note(plan.key, f"table_key of {keys[0][1]} events"))
    plan.call["table"] = text_literal(table)
    # The log does not say whether the table has a primary key: a child table has none.
    kind, field = f"try_cast({log['event_type']} as int)", f"lower(trim({log['column_name']}))"
    several = ask(
        f"select {log['table_key']} {events} and ({kind} = 4 or ({kind} = 1 and {field} <> ''))"
        f" group by 1 having count_if({kind} = 4) = 0"
        f" and count(distinct {log['record_id']}) > count(distinct {field}) order by 1 limit 1"
    )
    if several:
        plan.notes.append(
            f"{several[0][0]} has several inserts of one field and no delete. If {table} has"
            " several rows of one key (a multi-valued attribute), a history has only the last."
        )
    if base is not None:
        plan.columns = base.columns
        plan.key = spelled(plan.key, base.columns, f"the key (of --base {base.name})")
        columns = ", ".join(map(quote, plan.key))
        if ask(f"select 1 from {base.relation} group by {columns} having count(*) > 1 limit 1"):
            plan.notes.append(
                f"{base.name} has several rows of one {' and '.join(plan.key)}, and a history has"
                " only one of them."
            )
    else:
        column = f"trim({log['column_name']})"
        logged = ask(
            f"select min({column}) {events} and {column} <> '' group by lower({column})"
            f" order by min({log['record_id']})"
        )
        in_key = {name.lower() for name in plan.key}
        further = [row[0] for row in logged if row[0].lower() not in in_key]
        named = [Column(one, "string") for one in [*plan.key, *further]]
        plan.columns = question.with_written(named)
        plan.notes.append(
            "columns: those that the log names, all as text. Give --base, the table with the"
            " current rows, to get their types."
        )
        [(query_backs,)] = ask(
            f"select count(*) {events} and cast({log['event_type']} as int) in (5, 6, 7, 8)"
        )
        if query_backs:
            plan.notes.append(
                f"{query_backs} events are query-backs: they say that a row changed, but not"
                " how. Without --base they are rejected."
            )
    _add_statuses(plan, question, log, events)
    if "time_zone" not in question.arguments and not question.is_staged:
        plan.notes.append(
            "event_time counts as UTC. Triggers take it from the database's clock (SYSDATE,"
            " CURRENT_TIMESTAMP). If that shows local time, give time_zone."
        )
    plan.call["columns"] = column_list(plan.columns)
    if base is not None:
        plan.call["base"] = base.reference
    condition = f"lower({name}) = {text_literal(table.lower())} or coalesce({name}, '') = ''"
    plan.landed_rows = landed.reference if is_alone else f"({rows_of(landed, condition)})"
    return plan


def _add_statuses(plan: Plan, question: Question, log: Mapping[str, str], events: str) -> None:
    """Let the events count that the driver has processed, if the log has some.

    The driver marks each event some seconds after it was written.
    """
    if "statuses" in question.arguments:
        return
    if question.is_staged:
        if question.written_statuses is not None:
            plan.call["statuses"] = repr(list(question.written_statuses))
        return
    marks = ", ".join(map(literal, _PROCESSED))
    [(processed,)] = question.project.rows(
        f"select count(*) {events} and trim({log['status']}) in ({marks})"
    )
    if processed:
        plan.call["statuses"] = repr(["N", *_PROCESSED])
        plan.notes.append(
            f"statuses: with those of processed events, as the driver has processed {processed} of"
            " this log."
        )
