"""VACUUM and RESTORE against deltalake's, a shallow clone against the checkpoint of the same table."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import deltalake

from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.log_tables import METADATA, PROTOCOL, checkpointed_table, file_stats, write_commit
from benchmarks.scales import Scale, once
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.scan.snapshot import Snapshot

_NOW_MS = 1_780_000_000_000
_NOTHING_KEPT = VacuumRequest(0, untracked_hours=0, checks_retention=False)
_WARMUPS = 1


def vacuum_rows(data: Path, scale: Scale) -> list[Row]:
    """Half of the files of a table were removed, and go."""
    files = scale.service_files
    place = once(data / "vacuum", partial(_half_removed, files=files))
    sides = {
        "ours": partial(_on_a_copy, place, _vacuumed),
        "deltalake": partial(_on_a_copy, place, _vacuumed_by_deltalake),
    }
    work = f"vacuum, {files:,} files listed, {files // 2:,} to go"
    return [_row("vacuum", work, "deltalake's vacuum", sides, scale, 1.0)]


def vacuum_lite_rows(data: Path, scale: Scale) -> list[Row]:
    """The same table, by its log alone."""
    files = scale.service_files
    place = once(data / "vacuum", partial(_half_removed, files=files))
    sides = {
        "ours": partial(_on_a_copy, place, _vacuumed_by_the_log),
        "deltalake": partial(_on_a_copy, place, _vacuumed_by_deltalakes_log),
    }
    work = f"vacuum LITE, {files // 2:,} of {files:,} files to go"
    return [_row("vacuum-lite", work, "deltalake's vacuum by the log", sides, scale, 1.0)]


def restore_rows(data: Path, scale: Scale) -> list[Row]:
    """Half of the files of a table come back, and as many others go."""
    files = scale.service_files
    place = once(data / "restore", partial(_replaced, files=files))
    sides = {
        "ours": partial(_on_a_copy, place, _restored),
        "deltalake": partial(_on_a_copy, place, _restored_by_deltalake),
    }
    return [_row("restore", f"restore {files:,} files", "deltalake's restore", sides, scale, 0.5)]


def clone_rows(data: Path, scale: Scale) -> list[Row]:
    """A shallow clone of a table whose data files are not there, and a checkpoint of it."""
    place = once(data / "clone", lambda at: checkpointed_table(at, scale.checkpoint_files, 0, 0))
    sides = {"ours": partial(_cloned, place), "checkpoint": partial(_checkpointed, place)}
    work = f"shallow clone of {scale.checkpoint_files:,} files"
    return [_row("clone", work, "one checkpoint of the same table", sides, scale, 1.5)]


SERVICE_CASES = {"vacuum": vacuum_rows, "vacuum-lite": vacuum_lite_rows, "restore": restore_rows, "clone": clone_rows}
"""The cases without Spark, by name."""


def _row(
    case: str, work: str, against: str, sides: Mapping[str, Callable[[], tuple[float, int]]], scale: Scale, mark: float
) -> Row:
    found = interleaved(sides, scale.service_repetitions, _WARMUPS if scale.service_repetitions > 1 else 0)
    answers = tuple(agree(*(answer for _, answer in runs)) for runs in found.values())
    agree(*answers)
    ours, rival = (middle([seconds for seconds, _ in runs]) for runs in found.values())
    return Row(case, work, against, ours, rival, mark, answers=answers)


def _on_a_copy(place: Path, work: Callable[[Path], int]) -> tuple[float, int]:
    """Seconds of `work` on a copy of the table, and what it answers; data files are the same ones by other names."""
    copy = place.with_name(f"{place.name}-{uuid.uuid4()}")
    shutil.copytree(place, copy, copy_function=os.link)
    try:
        return timed(partial(work, copy))
    finally:
        shutil.rmtree(copy)


def _vacuumed(root: Path) -> int:
    return len(vacuum(Table.at(root), _NOTHING_KEPT).paths)


def _vacuumed_by_deltalake(root: Path) -> int:
    """With the listing of all files that ours does too; without it, it goes by the log."""
    return len(deltalake.DeltaTable(root).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True))


def _vacuumed_by_the_log(root: Path) -> int:
    return len(vacuum(Table.at(root), replace(_NOTHING_KEPT, lite=True)).paths)


def _vacuumed_by_deltalakes_log(root: Path) -> int:
    """What it does by default."""
    return len(deltalake.DeltaTable(root).vacuum(0, dry_run=False, enforce_retention_duration=False))


def _restored(root: Path) -> int:
    result = restore(Table.at(root), 1)
    return result.num_restored_files + result.num_removed_files


def _restored_by_deltalake(root: Path) -> int:
    metrics = deltalake.DeltaTable(root).restore(1)
    return int(metrics["numRestoredFile"]) + int(metrics["numRemovedFile"])


def _cloned(place: Path) -> tuple[float, int]:
    clone = place.with_name(f"{place.name}-{uuid.uuid4()}")
    try:
        seconds, result = timed(lambda: shallow_clone(Snapshot.load(place), Table.at(clone)))
    finally:
        shutil.rmtree(clone, ignore_errors=True)
    return seconds, result.source_num_of_files


def _checkpointed(place: Path) -> tuple[float, int]:
    """A checkpoint that the table has already is written again, in the table's copy."""
    copy = place.with_name(f"{place.name}-{uuid.uuid4()}")
    shutil.copytree(place, copy)
    try:
        seconds, info = timed(lambda: write_checkpoint(Snapshot.load(copy), _NOW_MS))
    finally:
        shutil.rmtree(copy)
    return seconds, info.num_add_files or 0


def _half_removed(root: Path, files: int) -> None:
    names = [f"part-{number:06d}.parquet" for number in range(files)]
    _table(root, names)
    write_commit(root / "_delta_log", 1, [_add(name, number) for number, name in enumerate(names)])
    write_commit(root / "_delta_log", 2, [_remove(name) for name in names[::2]])
    _checkpoints(root, 2)


def _replaced(root: Path, files: int) -> None:
    names = [f"part-{number:06d}.parquet" for number in range(files)]
    _table(root, names)
    write_commit(root / "_delta_log", 1, [_add(name, number) for number, name in enumerate(names[::2])])
    replaced = [_add(name, number) for number, name in enumerate(names[1::2])]
    write_commit(root / "_delta_log", 2, [*(_remove(name) for name in names[::2]), *replaced])
    _checkpoints(root, 1, 2)


def _checkpoints(root: Path, *versions: int) -> None:
    """As a table of that size has them."""
    for version in versions:
        snapshot = Snapshot.load(root, version)
        write_last_checkpoint(snapshot.store, write_checkpoint(snapshot, _NOW_MS))


def _table(root: Path, names: Sequence[str]) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True)
    write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    for name in names:
        (root / name).write_bytes(b"x")


def _add(name: str, number: int) -> dict[str, object]:
    return {
        "add": {
            "path": name,
            "partitionValues": {"month": "1"},
            "size": 1,
            "modificationTime": _NOW_MS,
            "dataChange": True,
            "stats": file_stats(number),
        }
    }


def _remove(name: str) -> dict[str, object]:
    return {"remove": {"path": name, "deletionTimestamp": _NOW_MS, "dataChange": True}}
