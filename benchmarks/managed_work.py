"""Commits to a managed table in a process of its own: `python -m benchmarks.managed_work SIDE LAKE WRITER COUNT DELAY`.

SIDE is `embedded`, where LAKE is a directory, or `served`, where it is a URL. Says `ready`, waits for a line, and prints
the seconds that each commit took, as JSON. DELAY is in seconds, of every put to the object store: a store far away.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.log_tables import METADATA
from benchmarks.write_work import actions_of
from slackwater import AddFile, Snapshot, Transaction
from slackwater.lake.lake import LogLake
from slackwater.owner import places
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.storage.local_store import LocalObjectStore

TABLE = "t"


def make_table(root: Path) -> Path:
    """A lake at `root` with one table, without files; where the table is."""
    with LogLake.open(root) as lake:
        lake.create_log(TABLE, METADATA["schemaString"], METADATA["partitionColumns"])
    return root / TABLE


def append(snapshot: Snapshot, action: dict[str, Any]) -> int:
    """Commit one `add`; the version that it became."""
    transaction = Transaction(snapshot)
    file = AddFile(
        action["path"], action["partitionValues"], action["size"], action["modificationTime"], stats=action["stats"]
    )
    transaction.add(file, fresh=True)
    result = transaction.commit("WRITE")
    assert not result.upkeep_errors, result.upkeep_errors
    return result.version


def append_all(lake: LogLake, count: int) -> None:
    """`count` commits one after the other, each on the version that the one before made."""
    known = lake.snapshot(TABLE)
    for action in actions_of(0, count):
        append(known, action)
        known = known.update()


def unbackfilled(root: Path) -> LogLake:
    """The lake at `root`, which backfills on request only."""
    owner = EmbeddedOwner.open(root, backfill_delay_s=None)
    return LogLake(owner, owner.root_url)


@contextmanager
def slow_puts(delay_s: float) -> Iterator[None]:
    """Every put of an embedded owner takes `delay_s` longer, as it would far from the store."""
    if not delay_s:
        yield
        return
    fast = places.open_store
    places.open_store = lambda *arguments: _Slow(fast(*arguments), delay_s)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        places.open_store = fast  # type: ignore[attr-defined]


class _Slow:
    """A store whose puts take longer."""

    def __init__(self, store: LocalObjectStore, delay_s: float) -> None:
        self._store = store
        self._delay_s = delay_s

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("put_if_absent", "copy_if_absent", "put"):
            return found

        def late(*arguments: Any, **more: Any) -> Any:
            time.sleep(self._delay_s)
            return found(*arguments, **more)

        return late


def _open(side: str, where: str) -> LogLake:
    return LogLake.connect(where) if side == "served" else LogLake.open(where)


def main(arguments: list[str]) -> None:
    """Do the work that `arguments` name, and print what it took."""
    side, where, writer, count, delay_s = arguments
    with slow_puts(float(delay_s)), _open(side, where) as lake:
        snapshot = lake.snapshot(TABLE)
        print("ready", flush=True)
        sys.stdin.readline()
        seconds = []
        for action in actions_of(int(writer), int(count)):
            start = time.perf_counter()
            append(snapshot, action)
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
