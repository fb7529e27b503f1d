"""Plans for Db2: CD and CCD tables, and the log of a text index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, quote
from dbt_afterimage.scaffold.keys import NoKey
from dbt_afterimage.scaffold.landed import names_of
from dbt_afterimage.scaffold.plans.question import (
    Plan,
    Question,
    add_commit_times,
    before_images,
    code_of,
    column_named,
    guess_note,
    no_key,
    unlike_images,
    why_unlike,
)


def db2_change_data(question: Question) -> Plan:
    """Plan for a CD or CCD table. It does not show which columns are the key."""
    landed = question.landed
    found = [c for c in landed.columns if not c.name.upper().startswith("IBMSNAP_")]
    prefix = question.arguments.get("before_prefix", "X") or ""
    images = before_images(question, found, prefix)
    columns = [column for column in found if column.name not in images.values()]
    if not question.key:
        code = code_of(column_named("IBMSNAP_OPERATION", landed))
        why = "replication tables do not show it"
        raise no_key(question, why, columns, f"{code} = 'I'", f"{code} = 'D'")
    plan = Plan(
        re.sub(r"(?i)_+(cd|ccd)$|^(cdc?|ccd)_+", "", landed.identifier),
        list(question.key),
        columns,
        landed_rows=landed.reference,
        # What an update held in a column without one is not known.
        has_before_images=not images
        or {column.name.lower() for column in columns}
        <= {*images, *(name.lower() for name in question.key)},
    )
    plan.notes += [
        f"{image.name} counts as data, because {why_unlike(one, image)}"
        for one, image in unlike_images(columns, prefix)
    ]
    likely, named = _likely_images(found)
    is_default = "before_prefix" not in question.arguments
    if is_default and likely != prefix and len(named) > max(len(images), 1):
        plan.notes.append(
            f"{', '.join(named)} look like before-images with the prefix {likely}, but the prefix"
            f" is {prefix} by default. If they are, give"
            f' --arguments \'{{"before_prefix": "{likely}"}}\''
        )
    # A CCD table has the times itself.
    if "uow" in question.others or "IBMSNAP_LOGMARKER" not in map(
        str.upper, names_of(landed.columns)
    ):
        add_commit_times(plan, question, "uow", "IBMSNAP_UOW")
    return plan


def _likely_images(columns: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the prefix under which most columns are there again, and these columns."""
    types = {column.name.lower(): column.type for column in columns}
    found: dict[str, list[str]] = defaultdict(list)
    for name, size in ((column.name, size) for column in columns for size in range(1, 5)):
        if types.get(name[size:].lower()) == types[name.lower()]:
            found[name[:size].upper()].append(name)
    return max(found.items(), key=lambda one: len(one[1]), default=("", []))


def db2_text_log(question: Question) -> Plan:
    """Plan for the log of a text index. The key's columns have the types of PKnn."""
    landed, base = question.landed, question.others.get("base")
    if base is None:
        raise AfterimageError(
            "give --base, the table with the current rows: the log of a text index has only keys"
        )
    plan = Plan(
        base.identifier,
        list(question.key),
        base.columns,
        {"base": base.reference},
        landed.reference,
        has_before_images=False,
    )
    if not plan.key:
        parts = sorted(
            (c for c in landed.columns if re.fullmatch(r"(?i)pk[0-9]+", c.name)),
            key=lambda column: int(column.name[2:]),
        )
        is_choice = False
        for part in parts:
            fitting = [c for c in base.columns if c.type == part.type and c.name not in plan.key]
            if not fitting:
                raise NoKey(base.name, "for some PKnn no column has its type", base.columns)
            is_choice = is_choice or len(fitting) > 1
            plan.key.append(fitting[0].name)
        quoted = [quote(name) for name in plan.key]
        # Some landings pad CHAR to its length, others do not.
        pairs = " and ".join(
            f"rtrim(log.{quote(part.name)}) = rtrim(base.{name})"
            if part.type == "string"
            else f"log.{quote(part.name)} = base.{name}"
            for part, name in zip(parts, quoted, strict=True)
        )
        [(rows, keys, matches, misses)] = question.project.rows(
            f"select (select count(*) from {base.relation}),"
            f" (select count(distinct {', '.join(quoted)}) from {base.relation}),"
            f" (select count(*) from {landed.relation} as log"
            f" left semi join {base.relation} as base on {pairs}),"
            f" (select count(*) from {landed.relation} as log"
            f" left anti join {base.relation} as base on {pairs}"
            f" where {code_of('OPERATION')} in ('0', '1'))"
        )
        # The right columns in another order match a row by chance.
        if rows != keys or not matches or (is_choice and misses > matches):
            why = f"{', '.join(plan.key)} would fit by type, but not by the rows"
            raise NoKey(base.name, why, base.columns)
        plan.notes.append(
            guess_note(
                plan.key,
                f"the types of PKnn: these columns of {base.name} have the same types and are"
                f" unique, and {matches} rows of the log match a row by them",
            )
        )
    return plan
