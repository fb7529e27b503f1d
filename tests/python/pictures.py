"""Make the pictures of the README and the docs again, but for those of the benchmark.

    python tests/python/pictures.py [terminal | docs | pages] ...

Runs the demo and `dbt docs generate` in this checkout, builds a few orders with much that a
page can show, and looks at all of that with Chromium. `make bench` makes the benchmark's pictures.
"""

from __future__ import annotations

import html
import os
import sys
import tempfile
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from conftest import ROOT, Lake, Project, contract_columns
from dbt_afterimage.cli import main as afterimage
from dbt_afterimage.runtime.session import open_session

sys.path.insert(0, str(ROOT / "tests" / "python" / "support"))

from browser import look
from command_line import BIN, environment, run

IMAGES = ROOT / "docs" / "images"
LOOKED_AT = ROOT / ".afterimage" / "pictures"
SHOWN = "+customers_current +customers_audit +customers_accounting"
TERMINAL = """<!doctype html>
<meta charset="utf-8">
<style>
  body {{ margin: 0; background: #10161d; }}
  pre {{ margin: 24px; color: #d8dee6; font: 14px/1.45 "DejaVu Sans Mono", monospace; }}
</style>
<pre>{}</pre>
"""
# The pictures of pages that the docs show, and how much of each page.
KEPT = (
    *("timeline.png", "timeline_dark.png", "timeline_long.png", "timeline_deleted.png"),
    *("health.png", "health_all.png"),
)
HEIGHTS = {
    "timeline": 1150,
    "timeline_long": 720,
    "timeline_deleted": 860,
    "health": 900,
    "health_all": 480,
}
ORDERS = contract_columns("order_no: int, line: int, status: string, amount: decimal(8, 2)") | {
    "warnings": "array<string>",
    "source_rows": "int",
}


def terminal(folder: Path) -> None:
    own = environment(AFTERIMAGE_WAREHOUSE=f"{folder}/warehouse")
    said = run(
        sys.executable, "-m", "dbt_afterimage.commands.demo", cwd=ROOT, env=own, timeout=600
    ).stdout
    lines = ["$ make demo", *said.splitlines()]
    page = folder / "terminal.html"
    page.write_text(TERMINAL.format(html.escape("\n".join(lines))))
    look(page, screenshot=IMAGES / "terminal.png", height=int(48 + len(lines) * 20.3))


def docs(folder: Path) -> None:
    own = environment(AFTERIMAGE_WAREHOUSE=f"{folder}/warehouse")
    run(BIN / "dbt", "docs", "generate", "--static", cwd=ROOT, env=own)
    built = ROOT / ".afterimage" / "target" / "static_index.html"
    place = f"!/model/model.afterimage_examples.customers_history?g_v=1&g_i={quote(SHOWN)}"
    look(built, place=place, screenshot=IMAGES / "docs.png", height=480)


def orders() -> list[dict[str, Any]]:
    """Return the changes of three orders: a line that changes its key twice, then is deleted; one
    that is deleted and comes again; one that is updated 39 times."""
    start = datetime.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=8)
    rows: list[dict[str, Any]] = []

    def add(hours: float, operation: str, transaction: str, before: Any, after: Any) -> None:
        at = start + timedelta(hours=hours)
        rows.append(
            {
                "change_id": f"c{len(rows)}",
                "operation": operation,
                "before": before,
                "after": after,
                "changed_at": at,
                "transaction_id": transaction,
                "changed_by": {"update": None, "delete": "mjones"}.get(operation, "web"),
                "source_rows": 2 if operation == "update" else 1,
                "ingested_at": (at + timedelta(hours=6)).replace(hour=(at.hour // 6 * 6 + 6) % 24),
            }
        )

    def row(line: int, status: str, amount: float) -> tuple[Any, ...]:
        return (100129 + (line > 20), line, status, Decimal(str(amount)))

    add(0, "insert", "tx-7001", None, row(5, "open", 120))
    add(2, "insert", "tx-7001", None, row(9, "open", 35.5))
    add(20, "update", "tx-7040", row(5, "open", 120), row(5, "packed", 120))
    add(44, "update", "tx-7093", row(5, "packed", 120), row(6, "packed", 120))
    add(44, "update", "tx-7093", row(9, "open", 35.5), row(9, "packed", 35.5))
    add(60, "delete", "tx-7110", row(9, "packed", 35.5), None)
    add(70, "update", "tx-7131", row(6, "packed", 120), row(6, "shipped", 118.4))
    add(98, "update", "tx-7180", row(6, "shipped", 118.4), row(7, "shipped", 118.4))
    add(110, "insert", "tx-7201", None, row(9, "open", 35.5))
    add(150, "update", "tx-7260", row(7, "shipped", 118.4), row(7, "returned", 0))
    add(165, "delete", "tx-7300", row(7, "returned", 0), None)
    old = None
    for number in range(40):
        status = ("open", "packed", "weighed", "held")[number % 4]
        new = row(21, status, 20 + number)
        add(number * 4, "update" if old else "insert", f"tx-{8000 + number}", old, new)
        old = new
    rows.append({"change_id": "r", "reject_reason": "unknown operation: Z", "source_rows": 1})
    rows[-1] |= {key: rows[30][key] for key in ("changed_at", "ingested_at")}
    rows.sort(key=lambda one: str(one["changed_at"]))
    for place, one in enumerate(rows):
        one["change_seq"] = f"{place:03d}"
    return rows


def pages(folder: Path) -> None:
    os.environ["AFTERIMAGE_WAREHOUSE"] = f"{folder}/warehouse"
    (folder / "orders").mkdir()
    project = Project(folder / "orders")
    project.file("models/stg_orders.sql", "select 1 as change_id")
    project.history("orders_history", "stg_orders", ["order_no", "line"])
    for name in ("customers", "payments", "returns"):
        project.model(f"stg_{name}", "select 1 as change_id", materialized="change_stream")
    project.dbt("run", "--select", "stg_orders")
    lake = Lake(open_session({}))
    lake.create("stg_orders", ORDERS, orders())
    late = timedelta(hours=(datetime.now() - orders()[-1]["changed_at"]) // timedelta(hours=1) - 1)
    fresh = [
        row | {"changed_at": row["changed_at"] + late, "ingested_at": row["ingested_at"] + late}
        for row in orders()
        if "reject_reason" not in row
    ]
    lake.create("stg_customers", ORDERS, fresh)
    fresh[3]["warnings"] = ["update of a key that was not there"]
    lake.create("stg_payments", ORDERS, fresh[:-2])
    project.dbt("run", "--select", "orders_history", "--full-refresh")
    os.chdir(project.folder)
    LOOKED_AT.mkdir(exist_ok=True)
    for name, command in {
        "timeline": "timeline --model orders_history --key 100129,6 --key 100129,9",
        "timeline_long": "timeline --model orders_history --key 100130,21",
        "timeline_deleted": "timeline --model orders_history --key 100129,7",
        "health": "health --model stg_orders",
        "health_all": "health --all",
    }.items():
        page = LOOKED_AT / f"{name}.html"
        assert (
            afterimage([*command.split(), "--profiles-dir", "profiles", "--output", str(page)]) == 0
        )
        for width, dark in ((1240, False), (1240, True), (390, False), (390, True)):
            shown = f"{name}{'_dark' if dark else ''}{'_narrow' if width < 600 else ''}.png"
            kept = IMAGES if shown in KEPT else LOOKED_AT
            look(
                page,
                dark=dark,
                width=width,
                screenshot=kept / shown,
                height=HEIGHTS.get(name, 1000),
            )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for part in sys.argv[1:] or ("terminal", "docs", "pages"):
            {"terminal": terminal, "docs": docs, "pages": pages}[part](Path(made))
