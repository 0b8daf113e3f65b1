"""`python -m benchmarks.scale`: selective reads of tables of more and more files, beside delta-spark.

Each engine reads each table in a process of its own, with a driver of 2 GB. Ratios are printed: of ours to
delta-spark's, and of a size to the size before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.dml_rivals import delta_spark_settings
from benchmarks.scale.tables import many_files
from benchmarks.scales import once
from tests.interop.install_delta_spark import Installation, environment, find

_READER = Path(__file__).with_name("reader.py")
_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
}
_DATA = Path(__file__).resolve().parents[2] / "build" / "scale"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sizes that `arguments` ask for, and print a line for each query."""
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--deleted", type=int, default=0, help="deleted rows of each file, by deletion vectors")
    parser.add_argument("--data", type=Path, default=_DATA, help="where the tables are made, once")
    parser.add_argument("--ours-only", action="store_true", help="without delta-spark")
    asked = parser.parse_args(arguments)
    rival = None if asked.ours_only else find()
    before: Mapping[str, Any] | None = None
    for files in asked.files:
        name = f"{files}-{asked.deleted}"
        table = once(asked.data / name, partial(many_files, files=files, deleted=asked.deleted))
        ours = _measured("slackwater", sys.executable, _SETTINGS, table, files)
        theirs = None if rival is None else _rival(rival, table, files)
        for line in lines(files, ours, theirs, before):
            print(line, flush=True)
        before = ours


def lines(
    files: int, ours: Mapping[str, Any], theirs: Mapping[str, Any] | None, before: Mapping[str, Any] | None
) -> list[str]:
    """Return a line of text for each query and each peak. Raises ValueError if the answers of the engines differ."""
    if theirs is not None and "error" not in theirs and ours["answers"] != theirs["answers"]:
        raise ValueError(f"the answers differ: {ours['answers']} and {theirs['answers']}")
    found = []
    for part, unit in (("seconds", "s"), ("peaks", "MB")):
        for name, value in ours[part].items():
            text = f"{files:>9,} files  {name:<18} {value:9.2f} {unit:<2}"
            if before is not None:
                text += f"  {value / before[part][name]:6.2f} x the size before"
            if theirs is not None:
                text += (
                    f"  {value / theirs[part][name]:6.2f} x delta-spark" if part in theirs else "  delta-spark: error"
                )
            found.append(text)
    return found


def _rival(installation: Installation, table: Path, files: int) -> Mapping[str, Any]:
    settings = _SETTINGS | delta_spark_settings(installation)
    return _measured("delta-spark", installation.python, settings, table, files)


def _measured(engine: str, python: str, settings: Mapping[str, str], table: Path, files: int) -> Mapping[str, Any]:
    command = [python, str(_READER), engine, json.dumps(dict(settings)), str(table), str(files)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        sys.stderr.write(f"{engine}: {done.stderr[-2000:]}\n")
        return {"error": done.stderr[-2000:]}
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
