"""A commit owner in each way that there is one, on SQLite and PostgreSQL, embedded and over HTTP; and tables for it.

The tables are managed in one of the two forms: managedCommit or catalogManaged.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse, OwnershipProposal
from slackwater.owner.api.staged_files import staged_files
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.client.deadline import ClientClock
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.table_form import form_of_commit
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, FORMS, MANAGED_COMMIT, ManagedForm
from slackwater.storage.open import open_store
from slackwater.storage.store import ChunkedBytes, ObjectStore
from tests.contract.postgres import shared_server
from tests.owner.served.serving import served

DATABASES = ("sqlite", "postgres")
COMBINATIONS = tuple(
    f"{database}-{access}-{form.feature}" for database in DATABASES for access in ("embedded", "http") for form in FORMS
)
# Each database, each access and each form once: which of them is below tells nothing to the others.
SHORT_COMBINATIONS = ("sqlite-http-managedCommit", "postgres-embedded-catalogManaged")
START_MS = 1_700_000_000_000
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
PATIENCE_S = 30.0
"""For how long a test waits for what is sure to come."""

Step = Callable[[str, str, str], None]
"""Called with `before` or `after`, the operation of a store, and a path; what it raises comes out of the operation."""
Action = Mapping[str, Any]
_names = itertools.count()


class Killed(BaseException):
    """The process ends here: nobody catches it, nothing is tidied up."""


class SteppedStore:
    """A store that tells `step` before and after each change."""

    def __init__(self, store: ObjectStore, step: Step) -> None:
        self._store = store
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        self._step("before", "put", path)
        self._store.put_if_absent(path, data, durable)
        self._step("after", "put", path)

    def copy_if_absent(self, src: str, dst: str) -> None:
        self._step("before", "copy", dst)
        self._store.copy_if_absent(src, dst)
        self._step("after", "copy", dst)

    def delete(self, paths: Sequence[str]) -> None:
        self._step("before", "delete", paths[0])
        self._store.delete(paths)


class SteppedPlaces(TableStores):
    """Places whose stores tell `step` what they do."""

    def __init__(self, step: Step, *rest: Any) -> None:
        super().__init__(*rest)
        self._step = step

    def store(self, written: str) -> Any:
        return SteppedStore(super().store(written), self._step)


@dataclass
class FakeClock:
    """Time that stands still until it is moved, in ms since the epoch."""

    now_ms: int = START_MS

    def owner_clock(self, **more: Any) -> OwnerClock:
        return OwnerClock(now_ms=lambda: self.now_ms, **more)


@dataclass
class OwnedLake:
    """A lake with an empty database; every owner that it opens is the same one, until `close`."""

    root: Path
    database: str
    combination: str
    form: ManagedForm = MANAGED_COMMIT
    _stack: ExitStack = field(default_factory=ExitStack)

    def embedded(
        self,
        step: Step | None = None,
        clock: OwnerClock | None = None,
        roots: Sequence[Path] | None = None,
        **settings: Any,
    ) -> EmbeddedOwner:
        """The owner in this process; it backfills on request only, unless the settings say otherwise."""
        places = TableStores(self.root, roots) if step is None else SteppedPlaces(step, self.root, roots)
        owner = EmbeddedOwner(Database(self.database), places, clock, **{"backfill_delay_s": None, **settings})
        self._stack.callback(owner.close)
        return owner

    def owner(self, **settings: Any) -> CommitOwner:
        """The owner as its clients have it, with the settings of `embedded`."""
        owner = self.embedded(**settings)
        if "-http" not in self.combination:
            return owner
        url = self._stack.enter_context(served(owner))
        client = HttpOwner(url, clock=hasty_clock())
        self._stack.callback(client.close)
        return client

    def another(self, root: Path) -> OwnedLake:
        """A lake of the same combination, with another owner."""
        return new_lake(root, self.combination)

    def close(self) -> None:
        """Close all owners, the last that was opened first."""
        self._stack.close()


def new_lake(root: Path, combination: str) -> OwnedLake:
    """A lake of one of COMBINATIONS, or DATABASES, in an empty directory."""
    is_postgres = combination.startswith("postgres")
    database = shared_server().new_database() if is_postgres else f"sqlite:////{root.as_posix().strip('/')}/owner.db"
    (root / "lake").mkdir()
    form = CATALOG_MANAGED if combination.endswith(CATALOG_MANAGED.feature) else MANAGED_COMMIT
    return OwnedLake(root / "lake", database, combination, form)


@dataclass
class Table:
    """A table of `owner`, and requests for it."""

    owner: CommitOwner
    table_id: str
    name: str
    store: ObjectStore
    form: ManagedForm = MANAGED_COMMIT

    @property
    def protocol(self) -> dict[str, Any]:
        """The node of the table's `protocol` action."""
        return protocol(self.form)

    def metadata(self, **properties: str) -> dict[str, Any]:
        """The node of a `metaData` action of the table."""
        return metadata(self.table_id, self.form, **properties)

    def request(self, version: int, *actions: Action, **fields: Any) -> CommitRequest:
        """A commit of `actions`, by default one that may not move."""
        commit_id = fields.pop("commit_id", None) or new_id()
        told = actions or ({"txn": {"appId": commit_id, "version": 1}},)
        info = {"commitInfo": {"txnId": commit_id, "operation": "WRITE"}}
        return CommitRequest(self.table_id, commit_id, version, [info, *told], **fields)

    def append(self, version: int, *actions: Action, **fields: Any) -> CommitRequest:
        """A blind append of `actions`, by default of one file."""
        return self.request(version, *(actions or (added(),)), may_move=True, **fields)

    def commit(self, version: int, *actions: Action, **fields: Any) -> CommitResponse:
        """Have a commit of `actions` ratified."""
        return landed(self.owner.commit(self.request(version, *actions, **fields)))

    def commits(self, number: int) -> list[CommitResponse]:
        """Have the next `number` versions committed."""
        first = self.latest + 1
        return [self.commit(first + n) for n in range(number)]

    @property
    def latest(self) -> int:
        """The latest ratified version."""
        return self.owner.get_commits(self.table_id, 0).latest_version

    def backfilled(self, version: int) -> bytes | None:
        """The commit of `version` as everybody sees it, None where there is none."""
        path = commit_path(version)
        return None if self.store.head(path) is None else self.store.read(path)

    def staged(self) -> list[str]:
        """The names of the staged files."""
        return [staged.file_name for staged in staged_files(self.store)]

    def content(self, response: CommitResponse) -> bytes:
        """The staged file of a commit."""
        return self.store.read(staged_path(response.commit.file_name))

    def everything(self) -> dict[int, list[dict[str, Any]]]:
        """The actions of every version, after all of them were backfilled."""
        latest = self.owner.backfill_to_version(self.table_id)
        return {version: actions_in(self.store.read(commit_path(version))) for version in range(latest + 1)}

    def ids(self) -> list[str]:
        """The `txnId` of each version, after all of them were backfilled."""
        return [actions[0]["commitInfo"]["txnId"] for _, actions in sorted(self.everything().items())]


def proposal(
    lake: OwnedLake,
    name: str | None = None,
    version: int = 0,
    location: str | None = None,
    table_id: str | None = None,
    previous_timestamp_ms: int = START_MS,
) -> OwnershipProposal:
    """The commit that makes a table of the lake its owner's."""
    name, table_id, commit_id = name or new_name(), table_id or new_id(), new_id()
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"txnId": commit_id, "operation": "CREATE TABLE" if version == 0 else "ADOPT TABLE"}},
        {"protocol": protocol(lake.form)},
        {"metaData": metadata(table_id, lake.form)},
    ]
    place = location or (lake.root / name).as_uri()
    previous_ms = None if version == 0 else previous_timestamp_ms
    return OwnershipProposal(table_id, name, place, commit_id, version, actions, previous_ms)


def created(lake: OwnedLake, owner: CommitOwner, name: str | None = None) -> Table:
    """A new table of the lake."""
    return taken(owner, proposal(lake, name))


def taken(owner: CommitOwner, asked: OwnershipProposal) -> Table:
    """The table that `asked` makes the owner's."""
    landed(owner.take(asked))
    return table_of(owner, asked)


def table_of(owner: CommitOwner, asked: OwnershipProposal) -> Table:
    """The table that `asked` is about, whether it is the owner's or not."""
    form = form_of_commit(asked.actions) or MANAGED_COMMIT
    return Table(owner, asked.table_id, asked.name, open_store(asked.location), form)


def filesystem_table(lake: OwnedLake, versions: int = 3) -> ObjectStore:
    """A table of the file system, below the lake's root."""
    store = open_store(lake.root / new_name())
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}
    write_version(store, 0, {"commitInfo": {"txnId": "0"}}, {"protocol": plain}, {"metaData": metadata(None)})
    for version in range(1, versions):
        write_version(store, version, {"commitInfo": {"txnId": str(version)}}, added())
    return store


def write_version(store: ObjectStore, version: int, *actions: Action) -> None:
    """What a writer of the file system does."""
    store.put_if_absent(commit_path(version), b"".join(orjson.dumps(action) + b"\n" for action in actions))


def metadata(table_id: str | None, form: ManagedForm = MANAGED_COMMIT, **properties: str) -> dict[str, Any]:
    """The node of a `metaData` action, with an owner of this package where there is a `table_id`."""
    own = {
        "delta.enableInCommitTimestamps": "true",
        form.owner_property: "slackwater",
        form.conf_property: orjson.dumps(
            {"tableId": table_id, "endpoint": "https://lake.example.com", "name": "of the owner"}
        ).decode(),
    }
    if form.id_property is not None:
        own[form.id_property] = str(table_id)
    return {
        "id": table_id or new_id(),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {**(own if table_id else {}), **properties},
        "createdTime": START_MS,
    }


PROTOCOL = {
    "minReaderVersion": 1,
    "minWriterVersion": 7,
    "writerFeatures": ["inCommitTimestamp", "managedCommit", "rowTracking", "domainMetadata"],
}


def protocol(form: ManagedForm) -> dict[str, Any]:
    """The node of the `protocol` action of a table of this form."""
    if not form.is_reader_feature:
        return PROTOCOL
    features = [form.feature if name == MANAGED_COMMIT.feature else name for name in PROTOCOL["writerFeatures"]]  # type: ignore[attr-defined]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [form.feature], "writerFeatures": features}


def added(**more: Any) -> dict[str, Any]:
    """An `add` of a file with a name that is new."""
    node = {"path": f"{new_id()}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {**node, **more}}


def with_row_ids(version: int, mark: int, *rows: int) -> list[dict[str, Any]]:
    """Files of so many rows each, and the mark after them, in a table whose mark is `mark`."""
    actions: list[dict[str, Any]] = []
    for number in rows:
        stats = orjson.dumps({"numRecords": number}).decode()
        actions.append(added(baseRowId=mark + 1, defaultRowCommitVersion=version, stats=stats))
        mark += number
    configuration = orjson.dumps({"rowIdHighWaterMark": mark}).decode()
    domain = {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}
    return [{"domainMetadata": domain}, *actions]


def releasing(table: Table, version: int, **fields: Any) -> CommitRequest:
    """The commit that hands the table back."""
    features = [name for name in PROTOCOL["writerFeatures"] if name != "managedCommit"]  # type: ignore[attr-defined]
    released = {"protocol": {**PROTOCOL, "writerFeatures": features}}
    return table.request(version, released, {"metaData": metadata(None)}, **fields)


def landed(outcome: CommitResponse | CommitConflict) -> CommitResponse:
    """The outcome, which is no conflict."""
    assert isinstance(outcome, CommitResponse), outcome
    return outcome


def actions_in(data: bytes) -> list[dict[str, Any]]:
    """The actions of a commit's file."""
    return [orjson.loads(line) for line in data.splitlines()]


def info_in(data: bytes | None) -> dict[str, Any]:
    """The `commitInfo` of a commit's file, which is its first line."""
    assert data is not None
    info: dict[str, Any] = actions_in(data)[0]["commitInfo"]
    return info


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each of `calls` answers or raises, all of them begun together."""
    barrier = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        barrier.wait()
        try:
            answers[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001 - judged by the test's own thread
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def eventually(is_so: Callable[[], bool]) -> None:
    """Return as soon as it is so, which it is sure to become."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.002)


def hasty_clock() -> ClientClock:
    """Time that passes at once where it is waited for."""
    skipped_s = [0.0]

    def skip(seconds: float) -> None:
        time.sleep(0.001)
        skipped_s[0] += seconds

    return ClientClock(lambda: time.monotonic() + skipped_s[0], skip)


def dead_holder() -> str:
    """The name of a process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    return f"{socket.gethostname()}:{process.pid}:1"


def foreign_holder() -> str:
    """The name of a process of which nobody here can say whether it lives."""
    return f"elsewhere:{os.getpid()}:1"


def new_id() -> str:
    return str(uuid.uuid4())


def new_name() -> str:
    return f"t{next(_names)}"
