"""How large the measured tables are, and how often each thing is measured."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scale:
    """Sizes of the tables in files, commits and rows, and the repetitions of log work and of Spark work.

    `single_commits` are made one after another, `appends` by each of `writers`, or of
    `managed_writers` through an owner, at the same time. Rows are changed in
    tables of `target_rows` in `target_files`; tables of `service_files` are looked after.
    A stream is of `micro_batches`, each of `micro_batch_rows`. `vector_files` have deletion
    vectors that are loaded later than the frame.
    """

    name: str
    checkpoint_files: int
    commits: int
    adds_per_commit: int
    json_commits: int
    rows: int
    files: int
    partitions: int
    small_files: int
    log_repetitions: int
    spark_repetitions: int
    spark_warmups: int
    single_commits: int
    writers: int
    appends: int
    managed_writers: int
    large_write_repetitions: int
    large_write_warmups: int
    target_rows: int
    target_files: int
    change_repetitions: int
    change_warmups: int
    service_files: int
    service_repetitions: int
    micro_batches: int
    micro_batch_rows: int
    vector_files: int


FULL = Scale(
    "full", 1_000_000, 50, 100, 5_000, 10_000_000, 8, 50, 10_000, 5, 15, 4, 200, 8, 50, 16, 7, 2, 10_000_000, 100, 3, 1,
    100_000, 5, 100, 10_000, 300,
)  # fmt: skip
SMALL = Scale(
    "small", 2_000, 5, 10, 50, 100_000, 4, 5, 200, 1, 3, 1, 12, 3, 4, 4, 1, 0, 200_000, 20, 1, 0, 200, 1, 3, 100, 257
)
SCALES = {scale.name: scale for scale in (FULL, SMALL)}


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """`place`, made by `make` at the first call; what a killed run left half done is made anew."""
    if not place.exists():
        draft = place.with_name(place.name + ".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.parent.mkdir(parents=True, exist_ok=True)
        make(draft)
        draft.rename(place)
    return place
