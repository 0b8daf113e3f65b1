"""What reading a log costs, against deltalake and against opening it anew."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Row, best_fresh, fresh
from benchmarks.log_tables import checkpointed_table, json_only_table
from benchmarks.scales import Scale, once


def open_checkpoint(data: Path, scale: Scale) -> list[Row]:
    """Open and list the live files: a large checkpoint with commits after it."""
    path = _checkpointed(data, scale)
    files = f"{scale.checkpoint_files:,} files + {scale.commits} commits of {scale.adds_per_commit}"
    rows = _against_deltalake("open-checkpoint", f"open and list paths: {files}", path, scale, "paths", 0.5, 0.5)
    return rows + _against_deltalake("open-checkpoint", "the same, all columns", path, scale, "all_columns", None, None)


def open_json(data: Path, scale: Scale) -> list[Row]:
    """Open and list the live files: commits only."""
    path = once(data / "json-only", lambda at: json_only_table(at, scale.json_commits))
    work = f"open and list paths: {scale.json_commits:,} JSON commits, no checkpoint"
    return _against_deltalake("open-json", work, path, scale, "paths", 1.0, None)


def learn(data: Path, scale: Scale) -> list[Row]:
    """Learn one new commit on an open snapshot."""
    path = _checkpointed(data, scale)
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


LOG_CASES = {"open-checkpoint": open_checkpoint, "open-json": open_json, "learn": learn}
"""The cases that need no Spark, by name."""


def _checkpointed(data: Path, scale: Scale) -> Path:
    return once(
        data / "checkpointed",
        lambda at: checkpointed_table(at, scale.checkpoint_files, scale.commits, scale.adds_per_commit),
    )


def _without_left_overs(path: Path, newest: int) -> None:
    """Delete the commits after `newest`, which a killed run may have left."""
    for commit in (path / "_delta_log").glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) > newest:
            commit.unlink()


def _against_deltalake(
    case: str, work: str, path: Path, scale: Scale, columns: str, time_mark: float | None, memory_mark: float | None
) -> list[Row]:
    names = [f"{side}_{columns}" for side in ("ours", "deltalake")]
    ours, rival = best_fresh(names, path, scale.log_repetitions).values()
    answers = (ours["answer"], rival["answer"])
    return [
        Row(case, f"{work}: time", "deltalake", ours["seconds"], rival["seconds"], time_mark, answers=answers),
        Row(
            case, f"{work}: peak memory", "deltalake",
            ours["peak_mib"], rival["peak_mib"], memory_mark, "MiB", answers=answers,
        ),
    ]  # fmt: skip
