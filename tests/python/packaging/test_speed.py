"""Whether a full build takes longer, beside what the engine needs, than the commit that was noted.

`make bench BENCH="--changes 200000 --only ways --ways ours limit --note"` notes a commit's ratios.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import environment, run
from conftest import ROOT

BENCH = ROOT / "tests" / "benchmark"
MARGIN = 1.4


# Other tests run beside it, so the ratios vary: only what is slower each time is slower.
@pytest.mark.minutes
def test_a_full_build_is_no_slower_than_noted(tmp_path: Path) -> None:
    noted = json.loads((BENCH / "ratios.json").read_text())["ratios"]
    (size,) = noted
    exceeded: list[dict[str, float]] = []
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        run(
            *(sys.executable, str(BENCH / "bench.py"), "--changes", size, "--repeats", "2"),
            *("--only", "ways", "--ways", "ours", "limit", "--output", str(folder)),
            cwd=tmp_path,
            env=environment(),
            timeout=900,
        )
        ways = json.loads((folder / "bench.json").read_text())["ways"][size]
        found = {step: took / ways["limit"][step] for step, took in ways["ours"].items()}
        if all(found[step] <= most * MARGIN for step, most in noted[size].items()):
            return
        exceeded.append({step: round(ratio, 2) for step, ratio in found.items()})
    pytest.fail(f"times the limit: {exceeded}, noted: {noted[size]}")
