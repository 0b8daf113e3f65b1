"""The table of engines and table features in docs/engines.md, from the catalogue of the interoperability tests.

`python -m tools.engine_table` writes the page anew. A test compares the page with the catalogue.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.interop.features import TABLE_FEATURES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "engines.md"
PEERS = {
    "datafusion": "deltalake (DataFusion)",
    "deltalake-pyarrow": "deltalake (PyArrow)",
    "duckdb": "DuckDB",
    "polars": "Polars",
}
_TEXT = """# Engines and features

Each row is a table with one feature, made by Slackwater and by delta-spark 4.4. Slackwater and delta-spark read both
tables, and append to both. The other engines read the table made by Slackwater. The rows are those of the catalogue in
`tests/interop/features.py`, and `make interop` tests each cell. `python -m tools.engine_table` writes this page.

| feature | Slackwater | delta-spark 4.4 | {peers} |
|-|-|-|{lines}|
{rows}

{reasons}
"""


def engine_table() -> str:
    """Return the text of the page."""
    reasons: list[str] = []
    rows: list[str] = []
    for feature in TABLE_FEATURES:
        cells = []
        for peer in PEERS:
            reason = feature.unreadable.get(peer)
            if reason is not None and reason not in reasons:
                reasons.append(reason)
            cells.append("read" if reason is None else f"no ({reasons.index(reason) + 1})")
        rows.append(f"| {feature.name} | read, write | read, write | {' | '.join(cells)} |")
    listed = "\n".join(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))
    return _TEXT.format(
        peers=" | ".join(PEERS.values()), lines="-|" * (len(PEERS) - 1) + "-", rows="\n".join(rows), reasons=listed
    )


def main() -> int:
    """Write the page."""
    PAGE.write_text(engine_table(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
