"""A process that writes two tables of a small lake in one transaction, and is killed on the way.

`python -m tools.pictures.killed_writer ROOT STEP NUMBER`: by SIGKILL, at the step of that number (from 1) of its kind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tools.pictures.small_lake import NAMES, SmallLake


def kill_at(root: Path, step: str, number: int) -> None:
    """Let another process write, and be killed. Raises RuntimeError where it was not."""
    command = [sys.executable, "-m", "tools.pictures.killed_writer", str(root), step, str(number)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False, capture_output=True, text=True)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the writer ended with {done.returncode}: {done.stderr}")


def main(root: str, kind: str, number: str) -> None:
    """Write, until it comes to the step."""
    left = int(number)

    def step(found: str) -> None:
        nonlocal left
        left -= found == kind
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    with SmallLake.at(Path(root), step) as lake:
        lake.write(*NAMES)
        for name in NAMES:
            lake.backfill(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
