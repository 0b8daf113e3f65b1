"""`python -m benchmarks`: measure, print ratios, and say which marks are missed."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness import Row, show
from benchmarks.managed import MANAGED_CASES
from benchmarks.reading import LOG_CASES
from benchmarks.rows.cases import ROW_CASES
from benchmarks.rows.writing import ROW_WRITING_CASES
from benchmarks.scales import SCALES, Scale
from benchmarks.services.without_spark import SERVICE_CASES
from benchmarks.stores.logs import STORE_LOG_CASES
from benchmarks.timestamp_curves import TIMESTAMP_CASES
from benchmarks.transactions import TRANSACTION_CASES
from benchmarks.writing import WRITING_CASES

WITHOUT_SPARK = {
    **LOG_CASES,
    **WRITING_CASES,
    **MANAGED_CASES,
    **TRANSACTION_CASES,
    **SERVICE_CASES,
    **TIMESTAMP_CASES,
    **STORE_LOG_CASES,
    **ROW_CASES,
    **ROW_WRITING_CASES,
}
SPARK_CASES = (
    "scan", "scan-partitioned", "deletion-vectors", "deletion-vector-bound", "many-files",
    "append", "append-partitioned", "append-small",
    "delete", "merge-upsert", "merge-insert", "merge-narrow", "merge-clustered", "update-feed",
    "sql-nothing", "sql-plan", "sql-merge", "sql-select",
    "compact", "z-order",
    "store-scan", "store-append",
    "stream-sink", "stream-empty", "stream-drain", "stream-drain-narrow", "stream-first", "stream-tables",
)  # fmt: skip
DATA = Path(__file__).resolve().parent.parent / "build" / "bench"


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks that `arguments` ask for. A missed mark is printed, and is no failure."""
    asked = _parser().parse_args(arguments)
    scale = SCALES[asked.scale]
    rows = measure(
        asked.only or [*WITHOUT_SPARK, *SPARK_CASES], asked.data.resolve() / scale.name, scale, asked.connect
    )
    show(rows, _heading(scale, asked.connect))
    if asked.json is not None:
        report = {"scale": scale.name, "connect": asked.connect, "rows": [row.to_json() for row in rows]}
        asked.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(cases: list[str], data: Path, scale: Scale, connect: bool = False) -> list[Row]:
    """The rows of `cases`, those without Spark first: no idle JVM shares the machine with them."""
    rows = [row for name, case in WITHOUT_SPARK.items() if name in cases for row in case(data, scale)]
    wanted = [name for name in SPARK_CASES if name in cases]
    if wanted:
        from benchmarks.spark_cases import measure_spark

        rows += measure_spark(wanted, data, scale, connect)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Speed and memory, side by side with rivals.")
    names = [*WITHOUT_SPARK, *SPARK_CASES]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--scale", choices=SCALES, default="full", help="small: a quick run whose ratios mean nothing")
    parser.add_argument("--connect", action="store_true", help="the Spark rows in a Connect session")
    parser.add_argument(
        "--data", type=Path, default=DATA, help="where the tables are made, once (default: build/bench)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    return parser


def _heading(scale: Scale, connect: bool) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("deltalake", "pyspark", "pyarrow"))
    mode = "Connect" if connect else "classic"
    return f"{packages}; Python {platform.python_version()}; {scale.name} scale; Spark {mode}"


if __name__ == "__main__":
    main()
