"""The checkpoints of tests/data/checkpoints, as copies that a test may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "data" / "checkpoints"


def copied(name: str, to: Path) -> Path:
    """A copy of a recorded folder: `checkpoint`, and the logs of the query's tables."""
    return Path(shutil.copytree(RECORDED / name, to / name))


def cut(recorded: Path, planned: int, done: int | None) -> None:
    """Leave of the checkpoint what was there when `planned` was planned last, and `done` done last."""
    for folder, last in (("offsets", planned), ("commits", -1 if done is None else done)):
        for file in (recorded / "checkpoint" / folder).iterdir():
            if int(file.name.strip(".").removesuffix(".crc")) > last:
                file.unlink()


def set_back(table: Path, version: int) -> None:
    """Leave of the table's log what was there when `version` was its newest version."""
    for file in (table / "_delta_log").glob("*.json"):
        if int(file.stem) > version:
            file.unlink()
