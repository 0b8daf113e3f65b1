"""The picture of docs/guides/notebooks.md: cards of a lake that this script makes, light and dark side by side.

`python tools/cards.py` writes docs/images/cards.png; it needs Chromium and Pillow, and no Spark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from slackwater import AddFile
from slackwater.html.element import Markup, element
from slackwater.html.page import page
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.scan.snapshot_html import snapshot_card

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "cards.png"
_RULES = (
    (".sw-page", "max-width:none;padding:0;"),
    (".both", "display:flex;"),
    (".both > div", "width:50%;padding:18px;background:var(--sw-ground);"),
)


def schema(*columns: tuple[str, str, dict[str, str]]) -> str:
    fields = [{"name": n, "type": kind, "nullable": n != "order_id", "metadata": more} for n, kind, more in columns]
    return json.dumps({"type": "struct", "fields": fields})


def add(tx: LogTransaction, name: str, day: str | None, rows: int) -> None:
    log = tx.log(name)
    values = {} if day is None else {"day": day}
    stats = json.dumps({"numRecords": rows})
    log.add(AddFile(f"{name}-{day}-{rows}.parquet", values, rows * 41, 0, stats=stats), fresh=True, rows_checked=True)
    log.commit("WRITE", {"mode": "Append"}, user_name="ann")


def cards(root: Path) -> list[Markup]:
    lake = LogLake.open(root)
    orders = schema(
        ("order_id", "long", {"comment": "given by the shop"}),
        ("day", "date", {}),
        ("customer", "string", {}),
        ("amount", "decimal(12,2)", {}),
    )
    lake._create_log("orders", orders, ["day"], properties={"delta.constraints.positive": "amount > 0"})
    lake._create_log("stock", schema(("sku", "string", {}), ("qty", "integer", {})))
    for number in range(3):
        with lake.transaction() as tx:
            add(tx, "orders", f"2026-11-2{number}", 1204 * (number + 1))
            add(tx, "stock", None, 10 + number)
    with lake.transaction(control="locking") as tx:
        tx.snapshot("stock")
        add(tx, "orders", "2026-11-24", 77)
        tx.current_date()
        shown = [snapshot_card(lake.snapshot("orders"), "DeltaTable", "orders", commits=3), _made(lake), _made(tx)]
    lake.close()
    return shown


def _made(thing: LogLake | LogTransaction) -> Markup:
    return thing._card()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        shown = cards(Path(scratch) / "lake")
        inside = element("div", shown, class_="slackwater")
        both = [element("div", inside, data_theme=look) for look in ("light", "dark")]
        made = page("Cards", element("div", both, class_="both"), rules=_RULES)
        # The place of the guide's lines, and what a session's transaction is called.
        made = made.replace(scratch, "/data").replace("LogTransaction", "LakeTransaction")
        document = Path(scratch) / "cards.html"
        document.write_text(made, encoding="utf-8")
        browser = shutil.which("chromium") or shutil.which("google-chrome") or "chrome"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1500,1000"]
        subprocess.run([browser, *flags, f"--screenshot={PICTURE}", document.as_uri()], check=True, capture_output=True)
    # 256 colours are enough, and make a small file.
    Image.open(PICTURE).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
