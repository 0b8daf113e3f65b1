"""The table of tested versions in docs/guides/versions.md, from the recorded runs of `make wheel-smoke`.

`python -m tools.version_table` writes the table into the page. A test compares the page with the record. The record
has one run for each Python, minor release of PySpark and mode: the newest one.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "packaging" / "versions.json"
PAGE = ROOT / "docs" / "guides" / "versions.md"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PYSPARKS = ("4.0", "4.1", "4.2", "4.3")
PASSED, FAILED, NOT_AVAILABLE = "passed", "failed", "not available"
_TABLE = re.compile(r"^\| Python \| PySpark .*\n(?:\|.*\n)+", re.MULTILINE)


def minor(version: str) -> str:
    """Return the first two numbers of a version."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True)
class Run:
    """The result of one environment.

    `python` and `pyspark` are the exact versions. `pyspark` is None without Spark, and the requested minor release if
    pip found no release for this Python. `date` is in UTC.
    """

    python: str
    pyspark: str | None
    mode: str
    date: str
    result: str

    @property
    def key(self) -> tuple[tuple[int, ...], str, str]:
        """The combination, in the order of the record."""
        numbers = tuple(int(part) for part in minor(self.python).split("."))
        return numbers, minor(self.pyspark or ""), self.mode


def recorded(record: Path = RECORD) -> list[Run]:
    """Return the runs of the record, sorted by combination."""
    return [Run(**each) for each in json.loads(record.read_text(encoding="utf-8"))]


def record_run(run: Run, record: Path = RECORD) -> None:
    """Write `run` into the record, instead of the last run of the same combination."""
    runs = {each.key: each for each in recorded(record)} | {run.key: run}
    lines = ",\n".join("  " + json.dumps(asdict(runs[key])) for key in sorted(runs))
    record.write_text("[\n%s\n]\n" % lines, encoding="utf-8")


def version_table(runs: list[Run]) -> str:
    """Return the table: a row for each Python, a column for each minor release of PySpark, and one without Spark."""
    by_key = {run.key: run for run in runs}

    def cell(python: str, pyspark: str | None, *modes: str) -> str:
        texts = [_text(by_key.get(Run(python, pyspark, mode, "", "").key)) for mode in modes]
        if len(set(texts)) == 1:
            return texts[0]
        names = {"classic": "classic", "connect": "Connect"}
        return "; ".join("%s: %s" % (names[mode], text) for mode, text in zip(modes, texts))  # noqa: B905 (old Python)

    columns = [*("PySpark " + version for version in PYSPARKS), "without Spark"]
    lines = ["| Python | %s |" % " | ".join(columns), "|-|%s" % ("-|" * len(columns))]
    for python in PYTHONS:
        cells = [cell(python, version, "classic", "connect") for version in PYSPARKS]
        lines.append("| %s | %s |" % (python, " | ".join([*cells, cell(python, None, "plain")])))
    return "\n".join(lines) + "\n"


def _text(run: Run | None) -> str:
    if run is None:
        return "not run"
    if run.result == NOT_AVAILABLE:
        return NOT_AVAILABLE
    what = [run.pyspark] if run.pyspark else []
    return ", ".join([*what, *([FAILED] if run.result == FAILED else []), run.date])


def page_with_table(page: str, runs: list[Run]) -> str:
    """Return the text of the page with the table of `runs` instead of its table."""
    text, count = _TABLE.subn(version_table(runs), page)
    if count != 1:
        raise SystemExit("docs/guides/versions.md: expected one table of versions, found %d." % count)
    return text


def write_page() -> None:
    """Write the table of the record into the page."""
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), recorded()), encoding="utf-8")


def main() -> int:
    """Write the page."""
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
