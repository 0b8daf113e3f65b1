"""Work on managed tables in a process of its own: `python -m benchmarks.managed_work SIDE …`.

`embedded DIRECTORY WRITER COUNT` and `served URL WRITER COUNT` say `ready`, wait for a line, and print the seconds that
each commit took, as JSON. `server ROOT DATABASE DELAY` serves the owner of a lake, and says at which URL; DELAY, in
seconds, is what every put takes longer: a store far away.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.harness import import_pandas, timed
from benchmarks.log_tables import METADATA
from benchmarks.write_work import actions_of
from slackwater import AddFile, Snapshot, Transaction
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.server import Binding, OwnerServer
from slackwater.owner.state import table_stores as places
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from slackwater.transaction.commit_result import CommitResult

TABLE = "t"


def make_table(root: Path, database: str | None = None) -> Path:
    """A lake at `root` with one table, without files; where the table is."""
    with LogLake.open(root, database) as lake:
        lake._create_log(TABLE, METADATA["schemaString"], METADATA["partitionColumns"])
    return root / TABLE


def append(snapshot: Snapshot, action: dict[str, Any]) -> CommitResult:
    """Commit one `add`."""
    transaction = Transaction(snapshot)
    file = AddFile(
        action["path"], action["partitionValues"], action["size"], action["modificationTime"], stats=action["stats"]
    )
    transaction.add(file, fresh=True)
    result = transaction.commit("WRITE")
    assert not result.upkeep_errors, result.upkeep_errors
    return result


def append_all(lake: LogLake, count: int) -> None:
    """`count` commits one after the other, each on the version that the one before made."""
    known = lake.snapshot(TABLE)
    for action in actions_of(0, count):
        known = append(known, action).snapshot


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
    with patch.object(places, "open_store", lambda *arguments: _Slow(open_store(*arguments), delay_s)):
        yield


class _Slow:
    """A store whose puts take longer."""

    def __init__(self, store: ObjectStore, delay_s: float) -> None:
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


def _appends(side: str, where: str, writer: int, count: int) -> list[float]:
    with LogLake.connect(where) if side == "served" else LogLake.open(where) as lake:
        snapshot = lake.snapshot(TABLE)
        # The times are those of writers at work.
        import_pandas()
        print("ready", flush=True)
        sys.stdin.readline()
        # What others commit meanwhile is none of an appender's business.
        return [timed(partial(append, snapshot, action))[0] for action in actions_of(writer, count)]


def _serve(root: str, database: str, delay_s: float) -> None:
    with slow_puts(delay_s):
        owner = EmbeddedOwner.open(root, database)
        OwnerServer(owner, None, Binding(port=0)).run(lambda url: print(url, flush=True))


def main(arguments: list[str]) -> None:
    """Do the work that `arguments` name, and print what it took."""
    side, where, *rest = arguments
    if side == "server":
        _serve(where, rest[0], float(rest[1]))
    else:
        print(json.dumps(_appends(side, where, *map(int, rest))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
