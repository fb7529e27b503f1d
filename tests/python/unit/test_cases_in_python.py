"""The cases worked by hand, and the plain-Python reference."""

from __future__ import annotations

import pytest

from cases import COLUMNS, Case, read_cases
from reference import audit, history


@pytest.mark.parametrize("case", read_cases("histories.yml"), ids=lambda case: case.name)
def test_a_history_is_as_worked_by_hand(case: Case) -> None:
    versions = history(case.changes, case.unique_key, COLUMNS, **case.options)
    assert case.outcome(versions) == case.expected


@pytest.mark.parametrize("case", read_cases("audits.yml"), ids=lambda case: case.name)
def test_an_audit_is_as_worked_by_hand(case: Case) -> None:
    assert audit(case.changes, case.unique_key, COLUMNS) == case.expected
