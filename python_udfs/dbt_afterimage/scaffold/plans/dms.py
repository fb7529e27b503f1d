"""The plan for the files of AWS DMS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import quote
from dbt_afterimage.scaffold.landed import names_of
from dbt_afterimage.scaffold.plans.question import (
    Plan,
    Question,
    before_images,
    code_of,
    column_named,
    guess_note,
    no_key,
    unlike_images,
    why_unlike,
)
from dbt_afterimage.scaffold.systems import SEQUENCE_TYPES, sequences
from dbt_afterimage.text import text_literal


def dms_changes(question: Question) -> Plan:
    """Plan for the files of AWS DMS. By default its before-images have only the key."""
    landed, arguments = question.landed, question.arguments
    operation = str(arguments.get("operation", "Op")).lower()
    by_name = sequences(landed.columns)
    has_operation = operation in map(str.lower, names_of(landed.columns))
    by_digits: list[str] = []
    if not by_name:
        named = operation if has_operation else None
        by_digits = list(question.written_order or _by_digits(question, named))
    order = arguments.get("order_by") or by_name or by_digits
    if has_operation and (not order or (len(order) > 1 and "order_by" not in arguments)):
        which = f"{len(order)} columns …change_seq"
        if not order:
            which = "no column with the 35 digits of $AR_H_CHANGE_SEQ in each change"
        raise AfterimageError(
            f"{landed.name} has {which}, so nothing gives the order of its changes. Name the"
            " columns that do with --arguments '{\"order_by\": [...]}': times, and the file and the"
            " row in it, if the landing kept them. Better, let the task add a column with the"
            " expression $AR_H_CHANGE_SEQ"
        )
    prefix = arguments.get("before_prefix", "BI_") or ""
    images = before_images(question, landed.columns, prefix)
    others = [*order, *images.values(), str(arguments.get("time") or "")]
    header = {operation, *map(str.lower, others)}
    plan = Plan(landed.identifier, list(question.key), [], landed_rows=landed.reference)
    if by_digits and "order_by" not in arguments:
        plan.call["order_by"] = repr(order)
        if not question.written_order:
            plan.notes.append(f"order_by: {order[0]}, the 35 digits of $AR_H_CHANGE_SEQ. Check it.")
    if "time" not in arguments:
        header |= _add_dms_time(plan, question, operation, header, by_name or by_digits)
    plan.columns = [column for column in landed.columns if column.name.lower() not in header]
    imaged = [column.name for column in plan.columns if column.name.lower() in images]
    unlike = unlike_images(plan.columns, prefix)
    plan.has_before_images = len(imaged) == len(plan.columns)
    if not plan.key:
        why = "files of DMS do not show it"
        if imaged and not plan.has_before_images and not unlike and has_operation:
            why = _why_no_key(question, imaged, images)
            plan.key = [] if why else imaged
        if not plan.key:
            if not has_operation:
                raise no_key(question, why, plan.columns, "true", loaded="true")
            code = f"coalesce({code_of(column_named(operation, landed))}, '')"
            placed = ", ".join(f"nullif({code_of(column_named(one, landed))}, '')" for one in order)
            loaded = f"{code} = '' or ({code} = 'I' and coalesce({placed}) is null)"
            kinds = f"{code} in ('', 'I')", f"{code} = 'D'", loaded
            raise no_key(question, why, plan.columns, *kinds)
    for one, image in unlike:
        if one.name.lower() in map(str.lower, plan.key):
            raise AfterimageError(
                f"{image.name} is no before-image of the key, so key changes would be lost:"
                f" {why_unlike(one, image)} To do without,"
                " --arguments '{\"before_prefix\": null}'"
            )
        plan.notes.append(f"{image.name} counts as data, because {why_unlike(one, image)}")
    if images:
        plan.call["before_prefix"] = text_literal(prefix)
    if not question.key:
        plan.notes.append(
            guess_note(imaged, "the before-images, which have only the key by default")
        )
    _add_null_texts(plan, question)
    if not has_operation:
        counted = "all its rows count as rows of the full load."
        if by_name or by_digits:
            counted = (
                "rows with a value of $AR_H_CHANGE_SEQ count as updates, and all others as rows of"
                " the full load. The task writes no deletes, so deleted rows stay current."
            )
        plan.notes.append(
            f"{landed.name} has no column {arguments.get('operation', 'Op')}: {counted}"
        )
    else:
        code = f"upper(trim({quote(str(arguments.get('operation', 'Op')))}))"
        [(inserts, updates, deletes, loads)] = question.project.rows(
            f"select count_if({code} = 'I'), count_if({code} = 'U'), count_if({code} = 'D'),"
            f" count_if(coalesce({code}, '') = '') from {landed.relation}"
        )
        if updates and not deletes:
            plan.notes.append(
                f"{landed.name} has updates, but no delete. A task with CdcInsertsOnly or"
                " CdcInsertsAndUpdates writes none, so deleted rows stay current."
            )
        by_sequence = {*by_name, *by_digits} & {column_named(name, landed) for name in order}
        if inserts and not loads and not by_sequence:
            plan.notes.append(
                f"{landed.name} has inserts, but no row without an operation, and its order is not"
                " $AR_H_CHANGE_SEQ. If the task has IncludeOpForFullLoad, rows of the full load"
                " count as inserts at the time of their transfer, and undo changes that were"
                " committed before it while the load ran. Switch it off, let the task write"
                " $AR_H_CHANGE_SEQ, or, if the order is TimestampColumnName, switch"
                " UseTaskStartTimeForFullLoadTimestamp on."
            )
    return plan


def _by_digits(question: Question, operation: str | None) -> list[str]:
    """Return the one column that has the digits of a sequence in each change, whatever its name.

    Amazon's manual calls it `transact_id`, and also a stream position, which has no such digits.
    """
    landed = question.landed
    code = column_named(operation, landed) if operation else None
    names = [c.name for c in landed.columns if c.type in SEQUENCE_TYPES and c.name != code]
    if not names:
        return []
    texts = [f"coalesce(cast({quote(name)} as string), '')" for name in names]
    rows, is_load = landed.relation, "<text> rlike '^0*$'"
    if code:
        # A row of a full load may be an I without a sequence.
        is_load = f"{code_of(code)} = 'I' and {is_load}"
        coded = f"{code_of(code)} in ('I', 'U', 'D')"
        rows = f"(select * from {rows} where {coded} limit 1000) as first_changes"
    fits = f"every(<text> rlike '^(19|20)[0-9]{{33}}$' or {is_load}) and max(<text>) > '19'"
    [found] = question.project.rows(
        f"select {', '.join(fits.replace('<text>', text) for text in texts)} from {rows}"
    )
    fitting = [name for name, fit in zip(names, found, strict=True) if fit]
    return fitting if len(fitting) == 1 else []


def _add_null_texts(plan: Plan, question: Question) -> None:
    """Name the columns with the text NULL, which DMS writes into CSV files by default."""
    names = [column.name for column in question.landed.columns if column.type == "string"]
    if not names:
        return
    counts = ", ".join(f"count_if({quote(name)} = 'NULL')" for name in names)
    [row] = question.project.rows(f"select {counts} from {question.landed.relation}")
    found = [name for name, count in zip(names, row, strict=True) if int(count)]
    if found:
        plan.notes.append(
            f"{', '.join(found)} {'has' if len(found) == 1 else 'have'} the text NULL. By default"
            " DMS writes it into CSV files in place of NULL, and it would be a value. Set"
            " CsvNullValue to the empty text. Read files that are written already through a model"
            " that makes NULL of it."
        )


def _why_no_key(question: Question, imaged: Sequence[str], images: Mapping[str, str]) -> str:
    """Return why the columns with before-images may not be the key; empty if they are.

    A task may write them for all columns but large objects. Most updates leave the key as it is,
    but each changes one of those.
    """
    code = code_of(column_named(str(question.arguments.get("operation", "Op")), question.landed))
    pairs = [(quote(name), quote(images[name.lower()])) for name in imaged]
    has_image = " or ".join(f"{image} is not null" for _, image in pairs)
    is_same = " and ".join(f"{name} <=> {image}" for name, image in pairs)
    nulls = " or ".join(f"{name} is null" for name, _ in pairs)
    [(updates, same, lacking)] = question.project.rows(
        f"select count_if({code} = 'U' and ({has_image})),"
        f" count_if({code} = 'U' and ({has_image}) and {is_same}), count_if({nulls})"
        f" from {question.landed.relation}"
    )
    said = f"the columns with before-images are {', '.join(imaged)}"
    if int(lacking):
        rows = "1 row has" if int(lacking) == 1 else f"{lacking} rows have"
        return f"{said}, but {rows} NULL in one of them"
    if int(same) * 2 >= int(updates) > 0:
        return ""
    return f"{said}, and {same} of {updates} updates leave all of them as they are"


def _add_dms_time(
    plan: Plan, question: Question, operation: str, header: set[str], ordered_by: Sequence[str]
) -> set[str]:
    """Add the column with DMS's timestamps to the call, and return its name in lower case.

    The run of a model that is built would stop if it lost its time, or got one.
    """
    columns = question.landed.columns
    written = question.written_places.get("time")
    if written is not None:
        plan.call["time"] = written
        return {written[1:-1].lower()}
    times = _dms_times(question, header)
    # DMS writes it behind its operation. A loader of CSV makes timestamps of the texts.
    behind = [
        one.name
        for before, one in pairwise(columns)
        if before.name.lower() == operation
        and one.name.lower() not in header
        and (one.type in ("timestamp", "timestamp_ntz") or one.name in times)
    ]
    if behind and behind[0] not in times and not _is_commit_time(question, behind[0], ordered_by):
        times, behind = [*behind, *times], []
    if behind and question.written_places:
        plan.notes.append(
            f"time: {behind[0]} is not used, as the model was written without it. To use it, give"
            " `time` in `arguments`, and run the model and all below it once with --full-refresh."
        )
        return set()
    if not behind:
        # A text elsewhere may be the table's own, and would be lost as data.
        which = f"Where {' or '.join(times)} is it" if times else "If there is one"
        plan.notes.append(
            "time: no column behind the operation looks like DMS's timestamps, so rows of the full"
            f" load have no time. {which} (TimestampColumnName), name it with --arguments"
            " '{\"time\": …}'."
        )
        return set()
    what = "texts like DMS's timestamps" if behind[0] in times else "the timestamp"
    plan.call["time"] = text_literal(behind[0])
    plan.notes.append(
        f"time: {behind[0]}, {what} behind {column_named(operation, question.landed)}. Check it."
    )
    return {behind[0].lower()}


def _is_commit_time(question: Question, name: str, ordered_by: Sequence[str]) -> bool:
    """Whether a timestamp may be DMS's: it is in each row, and near the time in its sequence.

    DMS may write 1970-01-01 for a transaction that is not committed yet.
    """
    fits, day = f"{quote(name)} is not null", f"cast({quote(name)} as date)"
    for sequence in ordered_by:
        text = f"cast({quote(sequence)} as string)"
        other = f"try_cast(regexp_replace({text}, '^(....)(..)(..).*', '$1-$2-$3') as date)"
        near = f"abs(datediff({day}, {other})) <= 1 or {day} = date'1970-01-01'"
        fits += f" and coalesce({near}, true)"
    rows = f"(select * from {question.landed.relation} limit 1000) as first_rows"
    [(is_time,)] = question.project.rows(f"select every({fits}) from {rows}")
    return is_time is not False


def _dms_times(question: Question, header: set[str]) -> list[str]:
    """Return the text columns outside the header in which all values are DMS timestamps."""
    texts = [
        column.name
        for column in question.landed.columns
        if column.type == "string" and column.name.lower() not in header
    ]
    if not texts:
        return []
    form = "'^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}[.][0-9]{6}$'"
    found = question.project.rows(
        f"select {', '.join(f'every({quote(name)} rlike {form})' for name in texts)}"
        f" from (select * from {question.landed.relation} limit 1000) as first_rows"
    )
    return [name for name, is_time in zip(texts, found[0], strict=True) if is_time]
