"""`python -m benchmarks.scale.growth`: how time and memory grow if something else than the number of files grows.

Each case runs at each of its sizes in a process of its own, with a driver of 2 GB. A line has the measured parts of the
case, the peaks of memory, and the ratio to the size before. `--only CASE` and `--sizes N …` choose.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.scale.growth_cases import CASES


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases that `arguments` ask for, and print a line for each size."""
    parser = argparse.ArgumentParser("python -m benchmarks.scale.growth", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--sizes", type=int, nargs="+", help="instead of the sizes of the case")
    asked = parser.parse_args(arguments)
    for name in asked.only:
        before: Mapping[str, float] | None = None
        for size in asked.sizes or CASES[name].sizes:
            found = measured(name, size)
            print(line(name, size, found, before), flush=True)
            before = None if "error" in found else found


def measured(name: str, size: int) -> Mapping[str, Any]:
    """Return the parts of a case at one size, measured in a process of its own: seconds, or MB for a peak."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "benchmarks.scale.growth_cases", name, str(size), place]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else "it was killed"}
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(name: str, size: int, found: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Return one line of text: each part with its ratio to `before`, the size before."""
    head = f"{name:<14} {size:>10,} {CASES[name].unit:<18}" if name in CASES else f"{name} {size}"
    if "error" in found:
        return f"{head} error: {found['error']}"
    parts = []
    for part, value in found.items():
        unit = "MB" if part.startswith("peak") else "s"
        text = f"{part} {value:.3g} {unit}"
        if before and before.get(part):
            text += f" ({value / before[part]:.2f} x)"
        parts.append(text)
    return f"{head} {', '.join(parts)}"


if __name__ == "__main__":
    main()
