"""The list of mutations fits the macros and the tests that it names."""

from __future__ import annotations

import pytest

from conftest import ROOT
from examples import UNIT_TESTS
from mutate import DOES_NOT_COMPILE, FOR_MACHINES, Mutation, mutations

ALL = mutations()
THEIRS = mutations(FOR_MACHINES)


def test_there_are_enough_and_each_has_its_own_name() -> None:
    assert len(ALL) >= 30
    assert len(THEIRS) >= 20
    assert len({mutation.name for mutation in ALL + THEIRS}) == len(ALL + THEIRS)


@pytest.mark.parametrize("mutation", ALL + THEIRS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_its_macro(mutation: Mutation) -> None:
    assert mutation.text(ROOT) != (ROOT / "macros" / mutation.file).read_text()


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_the_tests_of_a_mutation_exist(mutation: Mutation) -> None:
    assert mutation.tests
    for test in mutation.tests:
        file, _, function = test.partition("::")
        name, _, case = function.rstrip("]").partition("[")
        assert f"def {name}(" in (ROOT / file).read_text()
        if file.endswith("unit_test_alone.py"):
            assert case in UNIT_TESTS


@pytest.mark.parametrize(
    ("said", "is_broken"),
    [
        ("Compilation Error in model a (models/a.sql)\n  'known' is undefined", True),
        ("E   Compilation Error in model a (models/a.sql)\nE     macro 'x' takes no 'y'", True),
        ("E   Compilation Error in model a (models/a.sql)\nE     history a: 1 rows", False),
        ("Compilation Error in model a (models/a.sql)\n  dms_changes: the columns", False),
        ("FAILED b - DbtError: a: Compilation Error in model a\n!!!!!! stopping", False),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column", True),
    ],
)
def test_sql_that_does_not_compile_is_told_from_errors_of_the_macros(
    said: str, is_broken: bool
) -> None:
    assert (DOES_NOT_COMPILE.search(said) is not None) == is_broken
