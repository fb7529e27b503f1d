"""By which signs a landed table is recognised, and which tables are none."""

from __future__ import annotations

import pytest

from dbt_afterimage.runtime.project import Column
from dbt_afterimage.scaffold.systems import recognise

# As docs/reference/change_contract.md, change_audit and the history list them.
STAGING = (
    "change_id change_seq operation before after changed_columns absent_columns changed_at"
    " transaction_id reject_reason warnings source_rows changed_by ingested_at"
)
AUDIT = (
    "id change_id change_seq operation changed_at transaction_id changed_by column_name old_value"
    " new_value old_value_from"
)
HISTORY = (
    "id value valid_from valid_to valid_from_seq valid_to_seq is_current is_deleted version"
    " operation closed_by transaction_id history_id"
)


@pytest.mark.parametrize(
    "names",
    [
        STAGING,
        AUDIT,
        # The columns whose names a key has are renamed.
        AUDIT.replace("id change_id", "change_id audit_change_id"),
        HISTORY,
        HISTORY.replace("id value", "change_seq Op"),
        "id value Op valid_from valid_from_seq version transaction_id",
    ],
    ids=["staging", "audit", "audit of a change_id", "history", "odd history", "current"],
)
def test_a_table_of_ours_is_no_change_table(names: str) -> None:
    """The project may be another one, so that no model tells whose table it is."""
    columns = [Column(name, "string") for name in names.split()]
    assert recognise(columns, {}, None, lambda sign, column: True) is None
