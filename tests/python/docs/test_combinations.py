"""The combinations that CI runs are those that the documentation calls tested."""

from __future__ import annotations

import re

import combinations
from conftest import ROOT


def test_the_page_names_what_is_tested() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| [^|]+ \| ([^|]+) \| [^|]* \| ([^|]+) \|$", page, re.M)
    tested = {(spark, tables) for spark, tables, how in rows if "make test-" in how}
    run = {(one.spark, one.tables) for one in [combinations.FIRST, *combinations.OTHERS]}
    assert tested == run


def test_ci_draws_from_them() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [recipe] = re.findall(r"^test-share:.*\n((?:\t.*\n)+)", makefile, re.M)
    assert "support/combinations.py --draw=" in recipe
