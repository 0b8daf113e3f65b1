"""What clients write down while they run, one file each, so that nothing is lost with a client that is killed.

`recorded_history` makes a History of it: what became of transactions that nobody told of is looked up in the logs.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from slackwater.protocol.actions.file_names import commit_name
from slackwater.scan.snapshot import Snapshot
from tests.histories.contents import decoded
from tests.histories.history import (
    Append,
    AsOf,
    Batch,
    History,
    Item,
    Operation,
    Outcome,
    PartitionRead,
    Read,
    Stream,
    TableRead,
    Transaction,
    Values,
)

BLIND = "log"
"""Keys that begin so have a file for each value, and no order but that of the log; others have one file of them all."""


def now() -> float:
    """An instant of the axis that all processes of this machine share."""
    return time.monotonic_ns() / 1e9


class Recorder:
    """Adds events to a file, each before the call returns; used by many threads."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def tell(self, what: str, **event: Any) -> None:
        """Add an event of `what`."""
        os.write(self._file, orjson.dumps({"what": what, **event}) + b"\n")

    def close(self) -> None:
        """Nothing is added any more."""
        os.close(self._file)


def events_in(directory: Path) -> Iterator[dict[str, Any]]:
    """All events, those of one client in their order; half a line is of one who was killed while writing it."""
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield orjson.loads(line)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit as its log has it: paths are as `add` and `remove` have them. `group`: versions by table id."""

    timestamp_ms: int
    txn_id: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    group: Mapping[str, int] | None = None


@dataclass(frozen=True)
class LoggedTable:
    """A table, all of it backfilled, as the file system alone shows it."""

    root: Path
    commits: tuple[LoggedCommit, ...]
    table_id: str | None = None
    has_groups: bool = False

    @staticmethod
    def load(root: Path) -> LoggedTable:
        """Read every commit; versions are there without a gap."""
        names = sorted(path.name for path in (root / "_delta_log").glob("*.json"))
        assert names == [commit_name(version) for version in range(len(names))]
        commits = tuple(_logged(root / "_delta_log" / name) for name in names)
        return LoggedTable(root, commits, *_identity(root / "_delta_log" / names[0]))

    @property
    def stamps(self) -> dict[int, int]:
        """The commit timestamp of each version, in ms."""
        return {version: commit.timestamp_ms for version, commit in enumerate(self.commits)}

    def live(self, version: int) -> list[str]:
        """The paths of the files of a version, in the order in which they were added."""
        files: dict[str, None] = {}
        for commit in self.commits[: version + 1]:
            for path in commit.removed:
                files.pop(path, None)
            files |= dict.fromkeys(commit.added)
        return list(files)

    def lists(self) -> dict[Item, Values]:
        """Every list as the newest version has it, by a replay that shares no code with the package."""
        found: dict[Item, Values] = {}
        for path in self.live(len(self.commits) - 1):
            for content in decoded(path, (self.root / path).read_bytes()):
                item = Item(self.root.name, content["partition"], content["key"])
                found[item] = (*found.get(item, ()), *content["values"])
        return found


@dataclass
class Run:
    """What a run left: its history, the logs, and what cannot be said in a history."""

    history: History
    tables: Mapping[str, LoggedTable]
    cuts: Sequence[Mapping[str, int]] = ()
    sights: Sequence[tuple[str, int, tuple[str, ...]]] = ()
    not_landed: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    locking: frozenset[str] = frozenset()

    @property
    def counts(self) -> dict[str, int]:
        """How many transactions ended how."""
        found = dict.fromkeys((outcome.value for outcome in Outcome), 0)
        for transaction in self.history.transactions:
            found[transaction.outcome.value] += 1
        return found

    def torn_cuts(self) -> list[str]:
        """States of all tables that were answered, with a part of a transaction in them."""
        joint = [t for t in self.history.transactions if len(t.versions) > 1]
        found = []
        for cut in self.cuts:
            for transaction in joint:
                seen = {table: cut[table] >= version for table, version in transaction.versions.items()}
                if len(set(seen.values())) > 1:
                    found.append(f"{transaction.id} at {dict(transaction.versions)}, seen as {seen} of {dict(cut)}")
        return found

    def wrong_sights(self) -> list[str]:
        """What readers of the file system alone saw of a table that was no state of it."""
        return [
            f"version {version} of {table} was seen with {sorted(paths)}"
            for table, version, paths in self.sights
            if sorted(paths) != sorted(self.tables[table].live(version))
        ]

    def wrong_files(self) -> list[str]:
        """Files of commits that are gone, and files of transactions that certainly did not land and are still there."""
        found = [
            f"{path} of {name}, which {commit.txn_id} added, is gone"
            for name, logged in self.tables.items()
            for commit in logged.commits
            for path in commit.added
            if not (logged.root / path).exists()
        ]
        return found + [
            f"{path} of {name}, which {identity} wrote that did not land, is still there"
            for identity, files in self.not_landed.items()
            for name, path in files
            if (self.tables[name].root / path).exists()
        ]

    def wrong_ids(self) -> list[str]:
        """Commits whose `txnId` is not of the transaction that says it made them; ids that are there twice."""
        found = []
        for transaction in self.history.transactions:
            for table, version in transaction.versions.items():
                commits = self.tables[table].commits
                if version < len(commits) and commits[version].txn_id != transaction.id:
                    found.append(f"version {version} of {table} is {commits[version].txn_id}'s, not {transaction.id}'s")
        for name, logged in self.tables.items():
            ids = [commit.txn_id for commit in logged.commits]
            found += [f"{identity} is in {name} more than once" for identity in set(ids) if ids.count(identity) > 1]
        return found

    def wrong_states(self) -> list[str]:
        """Tables that a snapshot, made without their owner, shows otherwise than a plain replay."""
        found = []
        for name, logged in self.tables.items():
            files = Snapshot.load(logged.root, published_only=True).live_files(["path"])["path"].to_pylist()
            if sorted(files) != sorted(logged.live(len(logged.commits) - 1)):
                found.append(f"{name} is {sorted(files)} to a reader of the file system")
        return found


def recorded_history(directory: Path, root: Path, names: Sequence[str]) -> Run:
    """The run whose events are in `directory`, of the tables `names` below `root`, all of them backfilled.

    Raises AssertionError where a client failed in a way that no client may.
    """
    tables = {name: LoggedTable.load(root / name) for name in names}
    final = {item: values for logged in tables.values() for item, values in logged.lists().items()}
    settling = _Settling(tables, final)
    tried: dict[str, dict[str, Any]] = {}
    ended: dict[str, dict[str, Any]] = {}
    others: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events_in(directory):
        if event["what"] == "tries":
            tried[event["id"]] = event
        elif event["what"] == "ends":
            ended[event["id"]] = event
        else:
            others[event["what"]].append(event)
    assert not others["fails"], others["fails"][0]["trace"]
    last = max((event["end"] for event in ended.values()), default=0.0)
    transactions = [settling.transaction(event, ended.get(identity), last) for identity, event in tried.items()]
    errors: dict[str, int] = defaultdict(int)
    for event in ended.values():
        if event["error"]:
            errors[event["error"].partition(":")[0]] += 1
    return Run(
        History(
            tuple(transactions),
            final,
            tuple(settling.slice(event) for event in others["slices"]),
            {name: logged.stamps for name, logged in tables.items()},
            tuple(
                Stream(event["query"], frozenset(event["tables"]), frozenset(event["done"]))
                for event in others["stream"]
            ),
            _groups(tables),
        ),
        tables,
        [event["versions"] for event in others["cut"]],
        [(event["table"], event["version"], tuple(event["paths"])) for event in others["sees"]],
        {
            identity: [(name, path) for name, path in tried[identity]["files"]]
            for identity, event in ended.items()
            if event["outcome"] == Outcome.ABORTED.value and tried[identity]["is_joint"]
        },
        errors,
        frozenset(identity for identity, event in tried.items() if event["has_locks"]),
    )


@dataclass
class _Settling:
    tables: Mapping[str, LoggedTable]
    final: Mapping[Item, Values]

    def __post_init__(self) -> None:
        self._places = {item: {value: at for at, value in enumerate(values)} for item, values in self.final.items()}
        self._versions: dict[str, dict[str, int]] = defaultdict(dict)
        for name, logged in self.tables.items():
            for version, commit in enumerate(logged.commits):
                self._versions[commit.txn_id].setdefault(name, version)

    def transaction(self, tried: Mapping[str, Any], ended: Mapping[str, Any] | None, last: float) -> Transaction:
        """A transaction; who was killed was told nothing."""
        outcome = Outcome.UNKNOWN if ended is None else Outcome(ended["outcome"])
        told = {} if ended is None else ended["versions"]
        return Transaction(
            tried["id"],
            tried["client"],
            tried["order"],
            tried["begin"],
            max(last, tried["begin"]) if ended is None else ended["end"],
            outcome,
            tuple(self._operation(told) for told in tried["operations"]),
            None if ended is None else ended["timestamp_ms"],
            tuple(sorted(set(tried["stamps"]))),
            tuple((first, end) for first, end in tried["asked"]),
            self._versions.get(tried["id"], {}) if outcome is Outcome.UNKNOWN else told,
            tried["owner_time_ms"],
            Batch(*tried["batch"]) if tried.get("batch") else None,
        )

    def slice(self, event: Mapping[str, Any]) -> AsOf:
        """A time slice."""
        lists = {item: values for name in event["tables"] for item, values in self._lists(name, event["lists"][name])}
        return AsOf(event["id"], event["at_ms"], event["begin"], event["end"], lists, frozenset(event["tables"]))

    def _operation(self, told: Sequence[Any]) -> Operation:
        kind, table, *rest = told
        if kind == "append":
            partition, key, value = rest
            return Append(Item(table, partition, key), value)
        if kind == "row":
            partition, key, values = rest
            item = Item(table, partition, key)
            return Read(item, self._ordered(item, values))
        if kind == "partition":
            partition, lists = rest
            return PartitionRead(table, partition, dict(self._lists(table, lists)))
        return TableRead(table, dict(self._lists(table, rest[0])))

    def _lists(self, table: str, lists: Sequence[Any]) -> Iterator[tuple[Item, Values]]:
        for partition, key, values in lists:
            item = Item(table, partition, key)
            yield item, self._ordered(item, values)

    def _ordered(self, item: Item, values: Sequence[str]) -> Values:
        """Values as they were read; those of many files in the order that the log gives them."""
        if not str(item.key).startswith(BLIND):
            return tuple(values)
        places = self._places.get(item, {})
        return tuple(sorted(values, key=lambda value: (places.get(value, len(places)), value)))


def _logged(path: Path) -> LoggedCommit:
    actions = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    info = actions[0]["commitInfo"]
    added = [action["add"]["path"] for action in actions if "add" in action]
    removed = [action["remove"]["path"] for action in actions if "remove" in action]
    assert all(path == quote(path, safe="/=") for path in added)
    group = next((action["transactionGroup"] for action in actions if "transactionGroup" in action), None)
    if group is not None:
        assert group["transactionId"] == info["txnId"] == info["tags"]["delta.multiTableTransaction.transactionId"]
        group = {part["tableId"]: part["proposedVersion"] for part in group["participants"]}
    return LoggedCommit(info["inCommitTimestamp"], info["txnId"], tuple(added), tuple(removed), group)


def _identity(path: Path) -> tuple[str | None, bool]:
    """The id of the table at its owner, by its first commit, and whether it has the feature of groups."""
    table_id, has_groups = None, False
    for action in map(orjson.loads, path.read_bytes().splitlines()):
        if "metaData" in action:
            table_id = action["metaData"]["configuration"].get("io.unitycatalog.tableId")
        if "protocol" in action:
            has_groups = "multiTableTransaction-dev" in action["protocol"].get("writerFeatures", ())
    return table_id, has_groups


def _groups(tables: Mapping[str, LoggedTable]) -> dict[str, dict[int, dict[str, int]]]:
    """The groups in the logs of the tables with the feature, by the names of the tables."""
    names = {logged.table_id: name for name, logged in tables.items()}
    return {
        name: {
            version: {names[table_id]: found for table_id, found in commit.group.items()}
            for version, commit in enumerate(logged.commits)
            if commit.group is not None
        }
        for name, logged in tables.items()
        if logged.has_groups
    }
