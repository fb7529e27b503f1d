"""The docs site needs no network: neither its pages nor its search."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from browser import look, needs_chromium
from command_line import BIN
from conftest import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([BIN / "mkdocs", "build", "--quiet", "--site-dir", folder], cwd=ROOT, check=True)
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^>]*>')
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert {page.name: loads.findall(page.read_text()) for page in pages} == {
        page.name: [] for page in pages
    }


@needs_chromium
def test_the_search_works_in_pages_that_are_opened_as_files(site: Path) -> None:
    asking = site / "asking.html"
    asking.write_text('<script>location.replace("index.html?q=retention")</script>')
    seen = look(asking)
    assert seen.count("Faults and recovery</h1>") == 1
    assert seen.console == []
