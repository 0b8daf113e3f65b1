"""Transactions over two tables by clients in a process of its own: `python -m benchmarks.transactions_work …`.

`WORK URL PROCESS CLIENTS COUNT` is so many clients of a served lake with the tables of TABLES, a thread each, every
one of COUNT transactions. It says `ready`, waits for a line, and prints as JSON the seconds that each transaction
took, from its first beginning to its answer, and how often one was run again. WORK is one of WORKS.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks.harness import import_pandas, timed
from benchmarks.log_tables import METADATA
from benchmarks.write_work import actions_of
from slackwater import AddFile
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TableWrite, TransactionRequest, TransactionResponse

TABLES = tuple(f"t{number}" for number in range(8))
RETRIES = 50

Actions = Iterator[dict[str, Any]]
Work = Callable[[LogLake, Actions, random.Random], int]
"""Does one transaction, and says how often it was run."""


def make_tables(lake: LogLake, names: tuple[str, ...] = TABLES) -> None:
    """Tables without files."""
    for name in names:
        lake._create_log(name, METADATA["schemaString"], METADATA["partitionColumns"])


def add(transaction: LogTransaction, name: str, action: Mapping[str, Any]) -> None:
    """Add one file to a table."""
    log = transaction.log(name)
    log.add(file_of(action), fresh=True)
    log.commit("WRITE")


def file_of(action: Mapping[str, Any]) -> AddFile:
    """The file of an `add` action."""
    values, size, at_ms = action["partitionValues"], action["size"], action["modificationTime"]
    return AddFile(action["path"], values, size, at_ms, stats=action["stats"])


def appends(lake: LogLake, actions: Actions, rng: random.Random) -> int:
    """A file for each of two tables."""
    return _run(lake, rng.sample(TABLES, 2), actions)


def hot(lake: LogLake, actions: Actions, rng: random.Random) -> int:  # noqa: ARG001 - there is no choice
    """As `appends`; everybody takes the same two tables."""
    return _run(lake, TABLES[:2], actions)


def mixed(lake: LogLake, actions: Actions, rng: random.Random) -> int:
    """As `appends`; every other transaction depends on all of a third table."""
    *written, read = rng.sample(TABLES, 3)
    return _run(lake, written, actions, read if rng.random() < 0.5 else None)


def requests(lake: LogLake, actions: Actions, rng: random.Random) -> int:
    """As `appends`, asked of the owner itself: no log is read, and no result is made of the answer."""
    cut = lake.owner.cut()
    txn_id = lake.clock.new_id()
    info = {"commitInfo": {"txnId": txn_id, "operation": "WRITE"}}
    tables = [table for table in map(cut.named, rng.sample(TABLES, 2)) if table is not None]
    writes = [
        TableWrite(table.table_id, (table.version or 0) + 1, [info, {"add": next(actions)}], True) for table in tables
    ]
    outcome = lake.owner.commit_transaction(
        TransactionRequest(txn_id, TimestampRange(cut.timestamp_ms - 1), writes=writes)
    )
    assert isinstance(outcome, TransactionResponse), outcome
    return 1


WORKS: Mapping[str, Work] = {"appends": appends, "hot": hot, "mixed": mixed, "requests": requests}


def paths_of(process: int, clients: int, count: int) -> list[str]:
    """The files that the clients of a process add."""
    return [action["path"] for client in range(clients) for action in _actions(process, clients, client, count)]


def _run(lake: LogLake, written: Any, actions: Actions, read: str | None = None) -> int:
    files = [(name, next(actions)) for name in written]
    runs = 0

    def work(transaction: LogTransaction) -> None:
        nonlocal runs
        runs += 1
        if read is not None:
            transaction.snapshot(read)
        for name, action in files:
            add(transaction, name, action)

    lake.run(work, RETRIES)
    return runs


def _actions(process: int, clients: int, client: int, count: int) -> list[dict[str, Any]]:
    return actions_of(process * clients + client, 2 * count)


def _clients(work: Work, url: str, process: int, clients: int, count: int) -> dict[str, Any]:
    """The seconds of every transaction, and the number of runs beyond the first."""
    found: list[list[tuple[float, int]]] = [[] for _ in range(clients)]

    def client(number: int, lake: LogLake) -> None:
        rng = random.Random(process * clients + number)  # noqa: S311 - a choice of tables
        actions = iter(_actions(process, clients, number, count))
        found[number] = [timed(partial(work, lake, actions, rng)) for _ in range(count)]

    with ExitStack() as stack:
        lakes = [stack.enter_context(LogLake.connect(url)) for _ in range(clients)]
        # The rate is that of clients at work: they have imported what they need, and have read their tables once.
        import_pandas()
        for lake in lakes:
            for name in TABLES:
                lake.snapshot(name).live_files()
        threads = [threading.Thread(target=client, args=(number, lake)) for number, lake in enumerate(lakes)]
        print("ready", flush=True)
        sys.stdin.readline()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done = [one for of_client in found for one in of_client]
    if len(done) != clients * count:
        raise RuntimeError(f"{clients * count} transactions were to be done, {len(done)} were")
    return {"seconds": [seconds for seconds, _ in done], "again": sum(runs - 1 for _, runs in done)}


def main(arguments: list[str]) -> None:
    """Do the work that `arguments` name, and print what it took."""
    work, url, *numbers = arguments
    print(json.dumps(_clients(WORKS[work], url, *map(int, numbers))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
