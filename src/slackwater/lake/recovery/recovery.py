"""Recovery of a lake with lost or outdated owner state, from its tables.

`plan` decides according to the tables, plus the remaining records of the owner's database. The recovery then fences the
former owners, copies the accepted commits to each `_delta_log`, and adopts each table for a new owner with
put-if-absent. A recovery deletes nothing, and writes nothing before all decisions. An interrupted recovery can be
repeated. Source: managed-commits.md "Commit Files", "Converting an existing filesystem based table".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from slackwater.errors import (
    OperationNotAllowed,
    RecoveryUndecided,
    SlackwaterError,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.lake.recovery.plan import Candidate, Plan, TableEvidence, decide
from slackwater.lake.recovery.tables import (
    FoundTable,
    adopted_name,
    backfilled_since,
    candidates,
    found_table,
    table_places,
)
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.owner_registry import attached_owners, detach
from slackwater.owner.recovery.database_state import DatabaseState, RecordedTable, forget_table, known_state, reset
from slackwater.owner.recovery.fences import put_fence
from slackwater.owner.recovery.lake_identity import is_elsewhere, remember
from slackwater.owner.state.commit_files import publish, transaction_at
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.storage.location import parse_location
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock

if TYPE_CHECKING:
    from slackwater.owner.database.database import Database

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """Decisions of the user, if the tables leave the outcome open.

    `tables`: tables outside the root: `location`, or `name=location` to set a table's name. `counts` and `counts_not`:
    names of staged files to accept or reject. `owner_ids`: the former owners of these tables. `accept_loss`: continue
    without commits ratified in the database but missing in the tables.
    """

    tables: Sequence[str] = ()
    counts: Collection[str] = ()
    counts_not: Collection[str] = ()
    owner_ids: Collection[str] = ()
    accept_loss: bool = False


@dataclass
class Recovery:
    """The findings and actions of a recovery. `lines` describes all of them as text."""

    owner_id: str
    former_ids: Sequence[str] = ()
    lines: list[str] = field(default_factory=list)


def recover(
    root: str | os.PathLike[str],
    database: Database,
    storage_options: Mapping[str, str] | None = None,
    choices: RecoveryOptions | None = None,
    take: Callable[[str, ObjectStore, str], None] | None = None,
    clock: Clock | None = None,
) -> Recovery:
    """Rebuild the state of the lake at `root` in `database` from its tables. `take` adopts a table under a name.

    Without `take`, nothing changes, and the result describes the recovery. Raises RecoveryUndecided if the user must
    decide first, and the errors of reading tables.
    """
    recovering = _Recovering(root, database, storage_options, choices or RecoveryOptions(), clock or Clock())
    recovering.look()
    if take is None:
        return recovering.report("")
    recovering.fence()
    # Read again after the fence, to include commits ratified by the former owners before it.
    recovering.look()
    return recovering.carry_out(take)


class _Recovering:
    def __init__(
        self, root: str | os.PathLike[str], database: Database, storage_options: Mapping[str, str] | None,
        choices: RecoveryOptions, clock: Clock,
    ) -> None:  # fmt: skip
        self._database = database
        self._options = storage_options
        self._choices = choices
        self._clock = clock
        self._places = TableStores(root, None, storage_options)
        self._root = open_store(root, storage_options)
        self._known = DatabaseState("", (), 0, {}, ())
        self._former: set[str] = set()
        self._tables: dict[str, FoundTable] = {}
        self._names: dict[str, str] = {}
        self._plan = Plan()
        self._questions: list[str] = []
        self._lost: list[str] = []
        self._elsewhere = ""
        self._notes: list[str] = []

    def look(self) -> None:
        """Find the tables and plan the recovery, without a write. Raises RecoveryUndecided."""
        self._known = self._database.read(known_state)
        self._questions, self._lost, self._notes = [], [], []
        found = self._found()
        self._former = self._former_ids(found.values())
        self._tables = self._own(found)
        if not self._tables and not self._known.owner_id:
            raise TableNotFound(
                f"no table with a commit owner exists below {self._places.root_url}. Name the locations of the tables"
            )
        self._names = {table_id: self._name(table_id, table) for table_id, table in self._tables.items()}
        self._validate_names()
        staged = {table_id: candidates(table) for table_id, table in self._tables.items()}
        self._look_at_known(found, staged)
        times = [c.timestamp_ms for each in staged.values() for c in each]
        facts = [
            TableEvidence(
                table_id, self._names[table_id], table.version, table.timestamp_ms,
                backfilled_since(table, min(times)) if times else {}, staged[table_id],
                self._proven(table_id, staged[table_id]), frozenset(self._choices.counts_not),
            )
            for table_id, table in sorted(self._tables.items())
        ]  # fmt: skip
        self._plan = decide(facts)
        for table_id, known in self._known.tables.items():
            if table_id in self._tables:
                self._look_for_ratified(known, staged[table_id])
        times += [table.timestamp_ms for table in self._tables.values()]
        self._floor_ms = max(self._clock.now_ms(), self._known.latest_ms, *times, 0)
        self._look_for_voted()
        self._require_decided()

    def fence(self) -> None:
        """Fence these tables against their former owners, and detach the former owners in this process."""
        for owner in attached_owners():
            # If this lake is a copy, the owner of the original continues.
            if owner.owner_id in self._former and not self._elsewhere:
                detach(owner)
        for table in self._tables.values():
            for owner_id in sorted(self._former):
                put_fence(table.store, owner_id, self._clock.now_ms())

    def carry_out(self, take: Callable[[str, ObjectStore, str], None]) -> Recovery:
        """Copy the accepted commits to the logs, reset the database and adopt each table."""
        for table_id, chain in self._plan.taken.items():
            store = self._tables[table_id].store
            for commit in chain:
                if not publish(store, commit.version, commit.file_name, commit.txn_id):
                    raise UnratifiedCommit(
                        f"{store.root_url}/{commit_path(commit.version)} was written during the recovery and is "
                        f"not {commit.file_name}, so another owner is running. Stop it, then recover again"
                    )
        new_id = self._clock.new_id()
        former = {*self._former, *self._known.former_ids} - {""}
        self._database.write(lambda c: reset(c, new_id, former, self._floor_ms, self._clock.now_ms(), self._tables))
        remember(self._database, self._places.root_url)
        for table_id, table in self._tables.items():
            self._database.write(lambda c, gone=table_id: forget_table(c, gone))  # type: ignore[misc]
            take(self._names[table_id], table.store, table_id)
        return self.report(new_id)

    def report(self, new_id: str) -> Recovery:
        """Return the findings and actions."""
        lines = [*self._notes]
        for table_id, table in sorted(self._tables.items(), key=lambda item: self._names[item[0]]):
            name, chain = self._names[table_id], self._plan.taken[table_id]
            taken = f", and {', '.join(c.file_name for c in chain)} is committed" if chain else ""
            lines.append(f"{name} ({table.store.root_url}): version {table.version} is in the log{taken}")
        for candidate, reason in self._plan.left:
            name = self._names[candidate.table_id]
            lines.append(f"{name}: {candidate.file_name} is not committed, because {reason}. The file stays")
        lines += [f"lost: {each}" for each in self._lost]
        if new_id:
            lines.append(f"the lake's commit owner is {new_id}; no timestamp is up to {self._floor_ms}")
        return Recovery(new_id, sorted(self._former), lines)

    def _found(self) -> dict[str, FoundTable]:
        """Return the tables by URL: below the root, in the database's records, and from the user."""
        elsewhere = self._elsewhere = is_elsewhere(self._database, self._places.root_url)
        urls = dict.fromkeys(table_places(self._places.root_url, self._root))
        for known in self._known.tables.values():
            if elsewhere and "://" in known.location:
                self._notes.append(
                    f"{known.name}: {known.location} is not below the root. It stays with the lake at {elsewhere}, "
                    "the original of this copy. Name the table to recover it here"
                )
                continue
            urls[self._places.url(known.location)] = None
        urls |= dict.fromkeys(parse_location(_location(each)).url for each in self._choices.tables)
        found = {}
        for url in urls:
            try:
                found[url] = found_table(self._places.store(url))
            except TableNotFound:
                if any(parse_location(_location(each)).url == url for each in self._choices.tables):
                    raise
        return found

    def _former_ids(self, found: Iterable[FoundTable]) -> set[str]:
        named = {table.owner_id for table in found if table.owner_id}
        known = {self._known.owner_id, *self._known.former_ids, *self._choices.owner_ids} - {""}
        if named & known or not named:
            return known
        if known - {self._known.owner_id} or len(named) == 1:
            return known | named if len(named) == 1 else known
        told = ", ".join(sorted(named))
        raise RecoveryUndecided(
            f"the tables below {self._places.root_url} belong to several commit owners. Choose one of the ids {told}"
        )

    def _own(self, found: Mapping[str, FoundTable]) -> dict[str, FoundTable]:
        own: dict[str, FoundTable] = {}
        for table in found.values():
            if table.owner_id not in self._former:
                if table.owner_id:
                    self._notes.append(f"{table.store.root_url} belongs to commit owner {table.owner_id}: left alone")
                continue
            before = own.get(table.table_id)
            if before is not None:
                self._questions.append(
                    f"{before.store.root_url} and {table.store.root_url} have the same table id, so one of them is "
                    "a copy. Move the copy to a location outside the lake's root"
                )
            own[table.table_id] = table
        return own

    def _name(self, table_id: str, table: FoundTable) -> str:
        for each in self._choices.tables:
            name, separator, location = each.partition("=")
            if separator and "/" not in name and parse_location(location).url == table.store.root_url:
                return name
        known = self._known.tables.get(table_id)
        said = table.owned.table_name if table.owned is not None else None
        last = PurePosixPath(parse_location(table.store.root_url).key).name
        return said or (known.name if known else "") or adopted_name(table) or last

    def _validate_names(self) -> None:
        names = list(self._names.values())
        for name in sorted({name for name in names if names.count(name) > 1}):
            places = [self._tables[table_id].store.root_url for table_id, each in self._names.items() if each == name]
            self._questions.append(
                f"{' and '.join(places)} are both named {name!r}. Rename one of them with NAME=LOCATION"
            )

    def _proven(self, table_id: str, staged: Sequence[Candidate]) -> frozenset[str]:
        """Return the staged files ratified by the database or accepted by the user, minus rejected files."""
        known = self._known.tables.get(table_id)
        names = {c.file_name for c in known.commits} if known is not None else set()
        proven, version = set(), self._tables[table_id].version
        for candidate in staged:
            if candidate.file_name not in names:
                continue
            if self._choices.accept_loss and candidate.version > version + 1:
                # A commit after a lost version cannot be committed.
                break
            version = candidate.version
            proven.add(candidate.file_name)
        return frozenset(proven | set(self._choices.counts)) - set(self._choices.counts_not)

    def _look_at_known(self, found: Mapping[str, FoundTable], staged: Mapping[str, object]) -> None:
        """Report tables in the database that are missing or belong to another owner."""
        for table_id, known in self._known.tables.items():
            url = self._places.url(known.location)
            if table_id in staged or any(note.startswith(f"{known.name}: {known.location}") for note in self._notes):
                continue
            if known.state is TableState.PROPOSED:
                self._notes.append(
                    f"{known.name}: the table at {url} was proposed, but never owned. Its record was deleted"
                )
            elif url in found:
                self._notes.append(f"{known.name}: this owner no longer owns {url}. Its record was deleted")
            else:
                self._lost.append(f"{known.name}: no table exists at {url}. Restore it, or name its location")

    def _look_for_ratified(self, known: RecordedTable, staged: Sequence[Candidate]) -> None:
        """Report commits ratified by the database but neither in the log nor in the plan."""
        table, chain = self._tables[known.table_id], self._plan.taken[known.table_id]
        reached = table.version + len(chain)
        if known.ratified_version > reached:
            self._lost.append(
                f"{known.name}: the files of the ratified versions {reached + 1} to {known.ratified_version} are "
                f"missing. Restore {table.store.root_url}/{staged_path('')} from a newer copy"
            )
        files = {c.file_name for c in staged}
        for commit in reversed(known.commits):
            if commit.version > table.version or commit.file_name in files:
                continue
            if transaction_at(table.store, commit.version) == commit.commit_id:
                break
            self._lost.append(
                f"{known.name}: version {commit.version} in the log is not the ratified commit "
                f"{staged_path(commit.file_name)}. Two owners were running"
            )

    def _look_for_voted(self) -> None:
        """Report prepared transactions over several owners without a committed part."""
        for doubt in self._known.in_doubt:
            taken = {c.txn_id for chain in self._plan.taken.values() for c in chain}
            logs = (backfilled_since(table, doubt.low_ms) for table in self._tables.values())
            if doubt.txn_id not in taken and not any(doubt.txn_id in each for each in logs):
                self._lost.append(
                    f"transaction {doubt.txn_id} is prepared, and commit owner {doubt.coordinator_id} decides it. "
                    "After a recovery, its part in this lake cannot be committed. First run `slackwater lake "
                    "repair` while the lake of that owner is open"
                )

    def _require_decided(self) -> None:
        asked = [*self._questions, *self._plan.questions]
        if not self._choices.accept_loss:
            asked += self._lost
        if asked:
            more = f". {len(asked) - _MOST_TOLD} more problems exist" if len(asked) > _MOST_TOLD else ""
            raise RecoveryUndecided(
                "the lake was not recovered, and nothing was changed: " + ". ".join(asked[:_MOST_TOLD]) + more
            )


def require_no_orphaned_tables(root: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> None:
    """Raise OperationNotAllowed if a table directly below a local `root` has an owner: its state is lost or elsewhere.

    For an object store, only the bucket is checked. Raises StorageError if the store is not accessible.
    """
    store = open_store(root, storage_options)
    if store.local_root is None:
        store.list_from("_delta_log")
        return
    for path in Path(store.local_root).glob("*/_delta_log"):
        with suppress(SlackwaterError):
            table = found_table(open_store(path.parent, storage_options))
            if table.owner_id:
                break
    else:
        return
    raise OperationNotAllowed(
        f"{table.store.root_url} belongs to commit owner {table.owner_id}, but the database of the lake at "
        f"{store.root_url} has no owner. Open the lake with its own database. If that database is lost, run "
        "`slackwater lake recover` to recreate it from the tables"
    )


def _location(told: str) -> str:
    """Return the location in `name=location`."""
    name, separator, location = told.partition("=")
    return location if separator and "/" not in name else told
