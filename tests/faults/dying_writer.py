"""A writer that loads one batch into a table and is killed on the way, at a point of POINTS.

Without a point it lives. Loading is idempotent: a batch that the table has already is left alone.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from typing import Any

import slackwater
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore

APPLICATION = "loader"
SIZE = 1000

# What is called, on what, how many times it succeeds, and whether death comes before or after the call.
POINTS: dict[str, tuple[Any, str, str, int, bool]] = {
    "before the data is put": (LocalObjectStore, "put", "part-", 0, False),
    "after the data, before the commit": (LocalObjectStore, "put_if_absent", ".json", 0, False),
    "commit staged, not yet visible": (os, "link", ".json", 0, False),
    "between the commit and its answer": (LocalObjectStore, "put_if_absent", ".json", 0, True),
    "commit visible, its staged name not yet gone": (os, "link", ".json", 0, True),
    "after the commit, before its checksum": (LocalObjectStore, "put_if_absent", ".crc", 0, False),
    "after the commit, before the checkpoint": (LocalObjectStore, "put_file", ".checkpoint.parquet", 0, False),
    "checkpoint staged, not yet visible": (os, "replace", ".checkpoint.parquet", 0, False),
    "after the checkpoint, before its hint": (LocalObjectStore, "put", "_last_checkpoint", 0, False),
    "hint staged, not yet visible": (os, "replace", "_last_checkpoint", 0, False),
    "before the cleanup": (LocalObjectStore, "delete", f"{0:020d}.json", 0, False),
    "in the middle of the cleanup": (os, "unlink", "_delta_log/0", 3, False),
    "after the cleanup": (LocalObjectStore, "delete", f"{0:020d}.json", 0, True),
}


def main(table: str, batch: int, point: str | None = None) -> None:
    if point is not None:
        die_at(*POINTS[point])
    transaction = slackwater.Transaction(table)
    before = transaction.application_version(APPLICATION)
    if before is not None and before >= batch:
        return
    assert isinstance(transaction.snapshot, Snapshot)
    path = f"part-{batch}-{uuid.uuid4()}.parquet"
    transaction.snapshot.store.put(path, b"x" * SIZE)
    transaction.add(slackwater.AddFile(path, {}, SIZE, 0, stats='{"numRecords":1}'))
    transaction.set_transaction(APPLICATION, batch)
    transaction.commit("WRITE")


def die_at(owner: Any, name: str, part: str, survived: int, afterwards: bool) -> None:
    """Let this process be killed at a call, as POINTS says."""
    original: Callable[..., Any] = getattr(owner, name)
    left = survived

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if part not in " ".join(_texts(arguments)):
            return original(*arguments, **more)
        left -= 1
        if left >= 0:
            return original(*arguments, **more)
        if afterwards:
            original(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, call)


def _texts(arguments: tuple[Any, ...]) -> list[str]:
    """The paths among the arguments, those in lists too."""
    found: list[str] = []
    for argument in arguments:
        if isinstance(argument, (str, os.PathLike)):
            found.append(os.fspath(argument))
        elif isinstance(argument, list):
            found += _texts(tuple(argument))
    return found
