"""Each of dbt's unit tests by itself, with no more built than its inputs.

pytest does not collect this file, because `test_project.py` runs all unit tests at once. The
mutations in `tests/mutations` name single ones: `test_it_passes[row_3_alone_is_rejected]`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import UNIT_TESTS, failures, run_dbt


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", UNIT_TESTS)
def test_it_passes(name: str, tmp_path: Path) -> None:
    inputs = f"+{UNIT_TESTS[name]}"
    built = run_dbt(
        tmp_path, "build", "--select", inputs, "--exclude-resource-type", "unit_test", "test"
    )
    assert failures(built) == []
    [result] = run_dbt(tmp_path, "test", "--select", name)
    assert result.status == "pass", result.message
