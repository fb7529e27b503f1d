"""Proposes a key by the rows of a table that does not show it, and says why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime.project import Column, Project, quote
from dbt_afterimage.scaffold.landed import names_of

# A key is seldom further behind, and each column is counted.
_MOST_COLUMNS = 24
_LONGEST_KEY = 4
# Spark's approximate counts of distinct values are off by a few per cent.
_NEARLY = 0.7
_MOST_HOPEFUL = 6
# Sets of so many values fit into memory, and Spark plans them faster than distinct counts.
_FEW_ROWS = 10_000
# Of these nobody makes a key, or Spark cannot count them.
_NO_KEY_TYPES = re.compile(r"(array|map|struct|float|double|boolean|binary|variant)\b")
# Two rows may have one; and where each change is a new row, it is unique whatever the key is.
_TIMES = re.compile(r"(date|timestamp|timestamp_ntz)\b")
_KEY_NAMES = re.compile(r"(?i)^(id|pk|key)$|(_|-)(id|pk|key|no|nr|num|number|code)$|Id$|(?<=.)ID$")


@dataclass(frozen=True)
class Proposal:
    """A key that the rows of a table suggest.

    Attributes:
        key: Its columns.
        evidence: Why it is proposed.
    """

    key: tuple[str, ...]
    evidence: str


class NoKey(AfterimageError):
    """A table does not show its key.

    Attributes:
        proposal: What its rows suggest; none if they suggest nothing.
        evidence: Why this is proposed, or why nothing is.
    """

    def __init__(
        self, table: str, why: str, columns: Sequence[Column], found: Proposal | str | None = None
    ) -> None:
        """Say what is missing, and what may be taken for it."""
        self.proposal = found if isinstance(found, Proposal) else None
        self.evidence = found.evidence if isinstance(found, Proposal) else found or why
        proposed = (
            f" Proposed: --key {','.join(self.proposal.key)} ({self.evidence})."
            if self.proposal
            else ""
        )
        super().__init__(
            f"the key cannot be guessed ({why}).{proposed} Give --key with columns of {table}:"
            f" {', '.join(names_of(columns))}"
        )


def propose(
    project: Project,
    relation: str,
    columns: Sequence[Column],
    landed: Sequence[Column],
    created: str,
    deleted: str,
    loaded: str,
) -> Proposal | str:
    """Return the key that the rows suggest, or why they suggest none.

    A key is unique among the rows that inserts and full loads have created, and is NULL in no row.
    But a row that was deleted may be inserted again, and a full load may be repeated. So nothing is
    proposed if that explains why a likelier key is not unique, value by value.

    Args:
        project: The dbt project.
        relation: The landed table, as in SQL.
        columns: Its data columns, in the order of the source.
        landed: All its columns.
        created: SQL: whether a row is one of an insert or of a full load.
        deleted: SQL: whether a row is one of a delete.
        loaded: SQL: whether a row is one of a full load.
    """
    able = [c.name for c in columns if not _NO_KEY_TYPES.match(c.type)][:_MOST_COLUMNS]
    if not able:
        return "no column has a type that keys have"
    # Rows without any value, such as those of a truncate, are of no key.
    some_value = " or ".join(f"{quote(name)} is not null" for name in able)
    changes = f"(select * from {relation} where {some_value}) as changes"
    # A row that landed twice was created once.
    whole_row = f"xxhash64({', '.join(quote(c.name) for c in landed if 'map<' not in c.type)})"
    # Counts that are nearly right cost one scan, whatever the number of columns.
    counts = "".join(
        f", count({quote(name)}), approx_count_distinct({_if(created, quote(name))})"
        for name in able
    )
    kinds = [_if(condition, whole_row) for condition in (created, deleted, loaded)]
    abouts = ", ".join(f"approx_count_distinct({kind})" for kind in kinds)
    [row] = project.rows(f"select count(*), {abouts}{counts} from {changes}")
    rows, created_about, deleted_about, loaded_about, *found = map(int, row)
    distinct = dict(zip(able, found[1::2], strict=True))
    whole = [name for name, count in zip(able, found[::2], strict=True) if count == rows]
    times = {(column.name,) for column in columns if _TIMES.match(column.type)}

    def rank(key: tuple[str, ...]) -> tuple[Any, ...]:
        # A longer key is unique where a part of it is: the shortest counts.
        return len(key), key in times, not _KEY_NAMES.search(key[0]), able.index(key[0])

    def may_be(key: tuple[str, ...]) -> bool:
        """Whether no value was created again without a delete, but for one beside a load."""
        made, gone = (f"count(distinct {_if(kind, whole_row)})" for kind in (created, deleted))
        again = project.rows(
            f"select 1 from {changes} group by {', '.join(map(quote, key))}"
            f" having {made} > 1 + {gone} + max(if({loaded}, 1, 0)) limit 1"
        )
        return not again

    fewest = (created_about - deleted_about - loaded_about / 2) * _NEARLY
    likely = sorted(((name,) for name in whole if distinct[name] > fewest), key=rank)
    hopeful: list[tuple[str, ...]] = [*likely[:_MOST_HOPEFUL]]
    hopeful += [(*whole[:n],) for n in range(2, min(len(whole), _LONGEST_KEY) + 1)]
    keys = [_if(created, f"struct({', '.join(map(quote, key))})") for key in hopeful]
    exact = ", ".join(
        f"size(collect_set({value}))" if rows <= _FEW_ROWS else f"count(distinct {value})"
        for value in [*kinds, *keys]
    )
    [row] = project.rows(f"select {exact} from {changes}")
    creations, deletions, loads, *counted = map(int, row)
    if creations < 2:
        return f"it has {creations or 'no'} row{'s'[: creations != 1]} of an insert or a full load"
    # A load that is repeated has each row twice at most.
    fewest = creations - deletions - loads / 2
    for best, n in zip(hopeful, counted, strict=True):
        if n == creations:
            break
        if n >= fewest and best not in times and may_be(best):
            return (
                f"{', '.join(best)} has {n} values in {creations} inserts, perhaps because deleted"
                " or loaded rows came back: then what is unique is no key"
            )
    else:
        return (
            f"no column, nor the first few together, is unique among {creations} inserts and never"
            " NULL"
        )
    if best in times:
        return f"only {best[0]} is unique among {creations} inserts, and a time alone is no key"
    fitting = [key for key, n in zip(hopeful, counted, strict=True) if n == creations]
    said = [f"unique among {creations} inserts", f"NULL in none of {rows} rows"]
    others = [", ".join(key) for key in fitting if len(key) == len(best) and key != best]
    if best[0] == columns[0].name:
        said.append("first of the columns")
    if others:
        said.append(f"so {'is' if len(others) == 1 else 'are'} {'; '.join(others[:3])}")
    return Proposal(best, ", ".join(said))


def _if(condition: str, value: str) -> str:
    return f"if({condition}, {value}, null)"
