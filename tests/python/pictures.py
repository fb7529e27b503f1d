"""Remake the README's pictures of the terminal and of dbt's docs.

    python tests/python/pictures.py

Runs the demo and `dbt docs generate` in this checkout, and looks at what they give with Chromium.
The pictures of pages and of the benchmark come from `afterimage timeline`, `afterimage health` and
`make bench`.
"""

from __future__ import annotations

import html
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from browser import look
from command_line import BIN, environment, run

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
SHOWN = "+customers_current +customers_audit +customers_accounting"
TERMINAL = """<!doctype html>
<meta charset="utf-8">
<style>
  body {{ margin: 0; background: #10161d; }}
  pre {{ margin: 24px; color: #d8dee6; font: 14px/1.45 "DejaVu Sans Mono", monospace; }}
</style>
<pre>{}</pre>
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = environment(AFTERIMAGE_WAREHOUSE=f"{folder}/warehouse")
        said = run(
            sys.executable, "-m", "dbt_afterimage.commands.demo", cwd=ROOT, env=own, timeout=600
        ).stdout
        lines = ["$ make demo", *said.splitlines()]
        page = Path(folder) / "terminal.html"
        page.write_text(TERMINAL.format(html.escape("\n".join(lines))))
        look(page, screenshot=IMAGES / "terminal.png", height=int(48 + len(lines) * 20.3))

        run(BIN / "dbt", "docs", "generate", "--static", cwd=ROOT, env=own)
    built = ROOT / ".afterimage" / "target" / "static_index.html"
    place = f"!/model/model.afterimage.customers_history?g_v=1&g_i={quote(SHOWN)}"
    look(built, place=place, screenshot=IMAGES / "docs.png", height=480)


if __name__ == "__main__":
    main()
