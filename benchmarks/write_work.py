"""Writing of logs that is measured in a process of its own: `python -m benchmarks.write_work WORK …`.

Checkpoints: `WORK PATH WARM_UP` prints one line of JSON, as `benchmarks.log_work` does. The tables at the paths stay as
they are. Appends: `SIDE_appends PATH WRITER COUNT` says `ready`, waits for a line, and says how many commits it made.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import import_pandas, timed
from benchmarks.log_tables import METADATA, PROTOCOL, add_action, write_commit
from benchmarks.log_work import peak_mib

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

    from slackwater import Transaction
    from slackwater.transaction.commit_result import CommitResult

Work = Callable[[], object]
Append = Callable[[dict[str, Any]], object]


def ours_checkpoint(path: str) -> Work:
    """Open the newest version; the work is its checkpoint, and that `_last_checkpoint` names it."""
    from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
    from slackwater.scan.snapshot import Snapshot

    snapshot = Snapshot.load(path)
    now_ms = time.time_ns() // 1_000_000
    return lambda: write_last_checkpoint(snapshot.store, write_checkpoint(snapshot, now_ms))


def deltalake_checkpoint(path: str) -> Work:
    """As `ours_checkpoint`, by deltalake."""
    from deltalake import DeltaTable

    return DeltaTable(path).create_checkpoint


def ours_appends(path: str) -> Append:
    """What commits one `add` action after the other, each on the version that the one before made."""
    from slackwater import Snapshot, Transaction

    known = Snapshot.load(path)

    def append(action: dict[str, Any]) -> None:
        nonlocal known
        known = _ours_commit(Transaction(known), action).snapshot

    return append


def ours_reopened_appends(path: str) -> Append:
    """As `ours_appends`, but each commit opens the table anew."""
    from slackwater import Transaction

    return lambda action: _ours_commit(Transaction(path), action)


def deltalake_appends(path: str) -> Append:
    """As `ours_appends`, by deltalake; a commit that lost too many races is tried again until it lands."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    table = DeltaTable(path)
    schema = table.schema()

    def append(action: dict[str, Any]) -> None:
        while True:
            try:
                table.create_write_transaction([_deltalake_add(action)], "append", schema, ["month"])
            except CommitFailedError:
                table.update_incremental()
            else:
                return

    return append


def deltalake_reopened_appends(path: str) -> Append:
    """As `ours_reopened_appends`, by deltalake."""
    from deltalake import DeltaTable

    def append(action: dict[str, Any]) -> None:
        table = DeltaTable(path)
        table.create_write_transaction([_deltalake_add(action)], "append", table.schema(), ["month"])

    return append


CHECKPOINTS = {work.__name__: work for work in (ours_checkpoint, deltalake_checkpoint)}
APPENDS = {
    side.__name__: side
    for side in (ours_appends, ours_reopened_appends, deltalake_appends, deltalake_reopened_appends)
}  # fmt: skip


def empty_table(root: Path, configuration: dict[str, str] | None = None) -> Path:
    """A table of one commit, without files, at `root`, in the place of what was there."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "_delta_log").mkdir(parents=True)
    metadata = METADATA | {"configuration": configuration or {}}
    write_commit(root / "_delta_log", 0, [{"protocol": PROTOCOL}, {"metaData": metadata}])
    return root


def actions_of(writer: int, count: int) -> list[dict[str, Any]]:
    """The `count` adds of a writer: no two writers add one path."""
    rng = random.Random(writer)  # noqa: S311
    return [add_action(writer * 1_000_000 + n, rng) for n in range(count)]


def committed_paths(root: Path) -> list[str]:
    """The paths that the commits of the table add, one by one, read without any engine."""
    lines = (line for file in sorted((root / "_delta_log").glob("*.json")) for line in file.read_text().splitlines())
    return [action["add"]["path"] for action in map(json.loads, lines) if "add" in action]


def _ours_commit(transaction: Transaction, action: dict[str, Any]) -> CommitResult:
    from slackwater import AddFile

    transaction.add(
        AddFile(
            action["path"], action["partitionValues"], action["size"], action["modificationTime"],
            stats=action["stats"],
        )
    )  # fmt: skip
    result = transaction.commit("WRITE")
    assert not result.upkeep_errors, result.upkeep_errors
    return result


def _deltalake_add(action: dict[str, Any]) -> AddAction:
    from deltalake.transaction import AddAction

    return AddAction(
        action["path"], action["size"], action["partitionValues"], action["modificationTime"], True, action["stats"]
    )


@contextmanager
def _linked(path: str) -> Iterator[Path]:
    """The table's log again, of hard links: what is written there is gone in the end."""
    source = Path(path)
    with tempfile.TemporaryDirectory(prefix=f"{source.name}-", dir=source.parent) as directory:
        log = Path(directory) / "_delta_log"
        log.mkdir()
        for file in (source / "_delta_log").iterdir():
            os.link(file, log / file.name)
        yield Path(directory)


def _checkpointed_adds(root: Path) -> tuple[int, int]:
    """Version and number of adds of the checkpoint that `_last_checkpoint` names, read without any engine."""
    log = root / "_delta_log"
    version = json.loads((log / "_last_checkpoint").read_text())["version"]
    with pq.ParquetFile(log / f"{version:020d}.checkpoint.parquet") as file:
        adds = [pc.count(pc.struct_field(b["add"], "path")).as_py() for b in file.iter_batches(columns=["add.path"])]
    return version, sum(adds)


def _open_and_work(name: str, root: Path) -> None:
    """The work, and the import that it needs."""
    CHECKPOINTS[name](str(root))()


def _checkpoint(name: str, path: str, warm_up: str) -> dict[str, Any]:
    with _linked(warm_up) as small:
        start_seconds, _ = timed(partial(_open_and_work, name, small))
    with _linked(path) as root:
        opening, work = timed(partial(CHECKPOINTS[name], str(root)))
        writing, _ = timed(work)
        # Before the outcome is looked at, which takes memory too.
        peak = peak_mib()
        answer = _checkpointed_adds(root)
    return {
        "seconds": writing, "with_opening_seconds": opening + writing, "start_seconds": start_seconds,
        "peak_mib": peak, "answer": answer,
    }  # fmt: skip


def _appends(name: str, path: str, writer: int, count: int) -> int:
    append, actions = APPENDS[name](path), actions_of(writer, count)
    # The times are those of writers at work.
    import_pandas()
    print("ready", flush=True)
    sys.stdin.readline()
    for action in actions:
        append(action)
    return len(actions)


def main(arguments: list[str]) -> None:
    """Do the work that `arguments` name, and print what it took."""
    name, path, *rest = arguments
    if name in APPENDS:
        print(json.dumps(_appends(name, path, *map(int, rest))), flush=True)
    else:
        print(json.dumps(_checkpoint(name, path, *rest)))


if __name__ == "__main__":
    main(sys.argv[1:])
