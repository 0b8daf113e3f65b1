"""What reading a log costs, against deltalake and against opening it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Row, best_fresh, fresh
from benchmarks.log_tables import checkpointed_table, json_only_table
from benchmarks.scales import Scale, once

Side = dict[str, Any]


def open_checkpoint(data: Path, scale: Scale) -> list[Row]:
    """Open and list the live files: a large checkpoint with commits after it."""
    path = checkpointed(data, scale)
    files = f"{scale.checkpoint_files:,} files + {scale.commits} commits of {scale.adds_per_commit}"
    listed = _measured("paths", path, scale)
    rows = _lines("open-checkpoint", f"open and list paths: {files}", *listed, 0.5, 0.5)
    rows += _lines("open-checkpoint", "the same, all columns", *_measured("all_columns", path, scale))
    ours, rival = (side["start_seconds"] for side in listed)
    return [*rows, Row("open-checkpoint", "import, and open a tiny table", "deltalake", ours, rival, 5.0)]


def open_json(data: Path, scale: Scale) -> list[Row]:
    """Open and list the live files: commits only."""
    path = once(data / "json-only", lambda at: json_only_table(at, scale.json_commits))
    work = f"open and list paths: {scale.json_commits:,} JSON commits, no checkpoint"
    return _lines("open-json", work, *_measured("paths", path, scale), 1.0)


def learn(data: Path, scale: Scale) -> list[Row]:
    """Learn one new commit on an open snapshot."""
    path = checkpointed(data, scale)
    _without_left_overs(path, 10 + scale.commits)
    found = fresh("learn", path, 3 * scale.log_repetitions)
    seconds, answers = found["seconds"], (found["answer"],)
    work = f"learn one new commit: {scale.checkpoint_files:,} files"
    return [
        Row("learn", work, "full reload", seconds["update"], seconds["reload"], 0.02, answers=answers),
        Row(
            "learn", "the same, and list paths", "reload and list",
            seconds["update_and_list"], seconds["reload_and_list"], answers=answers,
        ),
        Row(
            "learn", "update alone", "reload and list",
            seconds["update"], seconds["reload_and_list"], answers=answers,
        ),
    ]  # fmt: skip


def checkpointed(data: Path, scale: Scale) -> Path:
    """The large table: a checkpoint, and commits after it."""
    return once(
        data / "checkpointed",
        lambda at: checkpointed_table(at, scale.checkpoint_files, scale.commits, scale.adds_per_commit),
    )


def tiny(data: Path) -> Path:
    """A table to warm up with."""
    return once(data / "tiny", lambda at: checkpointed_table(at, 100, 2, 2))


LOG_CASES = {"open-checkpoint": open_checkpoint, "open-json": open_json, "learn": learn}
"""The cases that need no Spark, by name."""


def _without_left_overs(path: Path, newest: int) -> None:
    """Delete the commits after `newest`, which a killed run may have left."""
    for commit in (path / "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) > newest:
            commit.unlink()


def _measured(columns: str, path: Path, scale: Scale) -> tuple[Side, Side]:
    works = [f"{side}_{columns}" for side in ("ours", "deltalake")]
    ours, rival = best_fresh(works, path, tiny(path.parent), scale.log_repetitions).values()
    return ours, rival


def _lines(
    case: str, work: str, ours: Side, rival: Side, time_mark: float | None = None, memory_mark: float | None = None
) -> list[Row]:
    answers = (ours["answer"], rival["answer"])
    amounts = {name: (ours[name], rival[name]) for name in ("seconds", "peak_mib")}
    return [
        Row(case, f"{work}: time", "deltalake", *amounts["seconds"], time_mark, answers=answers),
        Row(case, f"{work}: peak memory", "deltalake", *amounts["peak_mib"], memory_mark, "MiB", answers=answers),
    ]
