"""Work on logs that is measured in a process of its own: `python -m benchmarks.log_work WORK PATH WARM_UP|REPETITIONS`.

Prints one line of JSON. The same work on the small table WARM_UP goes before: imports, also those that a library puts
off until its first call, are no part of the time, but reported beside it. The peak memory is that of the whole process.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The harness and its tables are imported late, so that the start of a side includes all its imports.
if TYPE_CHECKING:
    from slackwater.scan.snapshot import Snapshot

Work = Callable[[], int]


def ours_paths(path: str) -> Work:
    """Open the newest version and list the paths of its files."""
    from slackwater.scan.snapshot import Snapshot

    return lambda: Snapshot.load(path).files(columns=["path"]).num_rows


def ours_all_columns(path: str) -> Work:
    """Open the newest version and list its files with all that the log says of them."""
    from slackwater.scan.snapshot import Snapshot

    return lambda: Snapshot.load(path).files().num_rows


def deltalake_paths(path: str) -> Work:
    """As `ours_paths`, by deltalake."""
    from deltalake import DeltaTable

    return lambda: len(DeltaTable(path).file_uris())


def deltalake_all_columns(path: str) -> Work:
    """As `ours_all_columns`, by deltalake."""
    from deltalake import DeltaTable

    return lambda: DeltaTable(path).get_add_actions().num_rows


def learn(path: str, repetitions: int) -> dict[str, Any]:
    """Seconds to learn one new commit, by `update` and by opening the table anew, one new commit per repetition.

    The commits that it writes are deleted in the end.
    """
    from benchmarks.harness import agree, timed
    from slackwater.scan.snapshot import Snapshot

    log = Path(path) / "_delta_log"
    rng = random.Random(11)  # noqa: S311
    snapshot = Snapshot.load(path)
    base, live = snapshot.version, snapshot.files(columns=["path"])
    seconds: dict[str, list[float]] = {"update": [], "reload": [], "update_and_list": [], "reload_and_list": []}
    counts = []
    try:
        for n in range(repetitions):
            _one_more_commit(log, base + 1 + n, live["path"][n].as_py(), rng)
            updating, updated = timed(snapshot.update)
            listing, mine = timed(partial(_paths, updated))
            reloading, reloaded = timed(lambda: Snapshot.load(path))
            relisting, theirs = timed(partial(_paths, reloaded))
            for name, amount in (("update", updating), ("reload", reloading)):
                seconds[name].append(amount)
            seconds["update_and_list"].append(updating + listing)
            seconds["reload_and_list"].append(reloading + relisting)
            counts.append(agree(mine, theirs))
            snapshot = updated
    finally:
        for n in range(repetitions):
            (log / f"{base + 1 + n:020d}.json").unlink(missing_ok=True)
    return {"seconds": {name: min(found) for name, found in seconds.items()}, "answer": counts[-1]}


def _from_the_start(name: str, path: str) -> int:
    """The work, and the import that it needs."""
    return WORKS[name](path)()


def _paths(snapshot: Snapshot) -> int:
    return int(snapshot.files(columns=["path"]).num_rows)


def _one_more_commit(log: Path, version: int, gone: str, rng: random.Random) -> None:
    """A commit that adds two files and removes one, as an update of a few rows does."""
    from benchmarks.log_tables import FIRST_MS, add_action, write_commit

    remove = {"path": gone, "deletionTimestamp": FIRST_MS + version, "dataChange": True}
    adds: list[dict[str, object]] = [{"add": add_action(10_000_000 + 2 * version + i, rng)} for i in range(2)]
    write_commit(log, version, [*adds, {"remove": remove}])


def peak_mib() -> float:
    """The most memory that this process has had resident, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux `ru_maxrss` begins with the size of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


WORKS = {work.__name__: work for work in (ours_paths, ours_all_columns, deltalake_paths, deltalake_all_columns)}


def main(arguments: list[str]) -> None:
    """Do the work that `arguments` name, and print what it took."""
    name, path, *rest = arguments
    if name == "learn":
        print(json.dumps(learn(path, int(rest[0]))))
        return
    start = time.perf_counter()
    _from_the_start(name, rest[0])
    start_seconds = time.perf_counter() - start
    from benchmarks.harness import import_pandas, timed

    # The small table does not need it.
    import_pandas()
    seconds, answer = timed(WORKS[name](path))
    report = {"seconds": seconds, "start_seconds": start_seconds, "peak_mib": peak_mib(), "answer": answer}
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1:])
