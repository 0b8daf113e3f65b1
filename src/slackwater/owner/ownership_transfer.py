"""Ownership transfer: adoption and release of tables. A transfer survives a crash, and is completed or discarded later.

The database records the transfer, and the staged file has the commit. Any process that finds an incomplete transfer can
complete it. Source: managed-commits.md "Converting an existing filesystem based table to managed-commit table",
"Creating a new managed-commit table", "Converting a managed-commit table to filesystem table".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.exc import IntegrityError

from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    CorruptTable,
    InvalidArgument,
    ObjectNotFound,
    OperationNotAllowed,
    SlackwaterError,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.owner.api.actions import Action
from slackwater.owner.api.commits import (
    Commit,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    OwnershipProposal,
    TableState,
)
from slackwater.owner.api.field_types import Id
from slackwater.owner.api.granules import checked
from slackwater.owner.api.transactions import Item
from slackwater.owner.api.unratified_commits import explained
from slackwater.owner.api.wire_model import checked as checked_type
from slackwater.owner.commit.allocation_outcomes import RetryAfterStaging
from slackwater.owner.commit.commit_validation import require_valid
from slackwater.owner.commit.pinned_properties import pinned_properties_json
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, tables
from slackwater.owner.locks.lock_queue import conflicting_lock
from slackwater.owner.publish.backfill import Backfill
from slackwater.owner.publish.transfer_commit import TransferCommit, put_transfer
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.commit_content import ContentFacts, content, facts_of, timestamp_of
from slackwater.owner.state.commit_files import stage, transaction_at
from slackwater.owner.state.expired_allocations import free_abandoned
from slackwater.owner.state.log_head import RATIFIED, TURN_MS, locked_table, rejection_reason
from slackwater.owner.state.shared_clock import SharedTime, begin_allocation, last_ms
from slackwater.owner.state.table_form import form_of_commit, staged_directory
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.actions import Metadata, Protocol, parse_commit
from slackwater.protocol.actions.file_names import commit_path, staged_file_name, staged_path
from slackwater.protocol.features.managed_commits import (
    CATALOG_MANAGED,
    FORMS,
    OWNER_NAME,
    ManagedForm,
    kept_properties,
    ownership,
    validate_kept,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import CATALOG_TABLE_ID
from slackwater.storage.store import ObjectStore

_FUTURE_MS = 300_000
_LONGEST_ID = 36
_WAIT_S = 0.01
_PATIENCE_S = 120.0
# Sentinel commit id for the pending release; real commit ids are UUIDs.
_HAND_BACK = "hand back"


class OwnershipTransfer:
    """Adopts and releases tables. `resume` completes a transfer of another process."""

    def __init__(
        self, database: Database, places: TableStores, backfill: Backfill, clock: OwnerClock, keep: bool = False
    ) -> None:
        """Create the transfers of an owner. With `keep`, the owner never releases tables."""
        self._database = database
        self._places = places
        self._backfill = backfill
        self._clock = clock
        self._keep = keep

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        """Acquire ownership of a table. See `CommitOwner.take`."""
        require_valid(proposal.actions)
        facts = facts_of(proposal.actions, proposal.commit_id)
        form = _form_of_adoption(proposal.actions)
        self._validate_times(proposal)
        earlier = self._earlier_result(proposal.table_id, proposal.version, proposal.commit_id)
        if earlier is not None:
            return earlier
        file_name = staged_file_name(proposal.version, self._clock.new_id(), form.directory)
        written = self._places.written(proposal.location)
        store = self._places.store(written)
        _validate_follows(store, proposal.version)
        # Staged before the proposal is recorded, so that any process that finds the proposal can complete it.
        timestamp_ms = self._staged(store, proposal, file_name)

        def promise() -> None:
            timestamp = timestamp_ms
            while not self._database.write(
                lambda c, t=timestamp: self._promise(c, proposal, facts, written, file_name, t)  # type: ignore[misc]
            ):
                # Delete the file, because its earlier timestamp is not part of any proposal.
                store.delete([staged_path(file_name)])
                timestamp = self._staged(store, proposal, file_name)

        return self._promised(proposal, store, file_name, promise)

    def register(self, name: str, location: str, owner_id: str) -> CommitResponse | CommitConflict:
        """Acquire ownership of a new table whose client wrote version 0, with the properties of this owner.

        Its timestamp is that of its client, as for versions before an adoption.

        Raises:
            InvalidArgument: If version 0 is missing or malformed, or dated in the future.
            OperationNotAllowed: If version 0 does not name this owner.
            TableAlreadyExists: If the name or the location is in use. The errors of `take` are also possible.
        """
        written = self._places.written(location)
        store = self._places.store(written)
        data = _version_0(store)
        actions = _parsed(store, data)
        require_valid(actions)
        info = actions[0].get("commitInfo")
        timestamp_ms = info.get("inCommitTimestamp") if isinstance(info, Mapping) else None
        commit_id = info.get("txnId") if isinstance(info, Mapping) else None
        if not isinstance(timestamp_ms, int) or not isinstance(commit_id, str):
            raise InvalidArgument(
                f"{store.root_url}: version 0 must begin with a commitInfo with inCommitTimestamp and txnId"
            )
        if len(commit_id) > _LONGEST_ID:
            raise InvalidArgument(f"{store.root_url}: commitInfo.txnId has more than {_LONGEST_ID} characters")
        table_id = _named_table(store, actions, owner_id, name)
        proposal = OwnershipProposal(table_id, name, location, commit_id, 0, actions, timestamp_ms - 1)
        facts = facts_of(actions, commit_id)
        earlier = self._earlier_result(table_id, 0, commit_id)
        if earlier is not None:
            return earlier
        self._validate_times(proposal)
        file_name = staged_file_name(0, self._clock.new_id(), CATALOG_MANAGED.directory)
        stage(store, file_name, data)

        def promise() -> None:
            self._database.write(
                lambda c: self._promise(c, proposal, facts, written, file_name, timestamp_ms, is_past=True)
            )

        return self._promised(proposal, store, file_name, promise)

    def _promised(
        self, proposal: OwnershipProposal, store: ObjectStore, file_name: str, promise: Callable[[], None]
    ) -> CommitResponse | CommitConflict:
        """Record the proposal by `promise`, and complete it. Its commit is staged."""
        with _in_doubt(proposal.location):
            try:
                promise()
            except IntegrityError as error:
                with suppress(StorageError):
                    store.delete([staged_path(file_name)])
                # The request may have been sent twice, or another process may have completed this one.
                earlier = self._earlier_result(proposal.table_id, proposal.version, proposal.commit_id)
                if earlier is not None:
                    return earlier
                raise TableAlreadyExists(
                    f"the commit owner already has a table named {proposal.name!r}, or a table at "
                    f"{proposal.location}. Choose another name, or use the existing table"
                ) from error
            return self._finish_take(proposal.table_id, proposal.version)

    def _staged(self, store: ObjectStore, proposal: OwnershipProposal, file_name: str) -> int:
        """Stage the commit of a proposal with the current time, and return the time."""
        timestamp_ms = self._choose_time(proposal.previous_timestamp_ms)
        stage(store, file_name, content(proposal.actions, proposal.version, timestamp_ms))
        return timestamp_ms

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Release a table. See `CommitOwner.release`."""
        if self._keep:
            raise OperationNotAllowed("this commit owner does not release its tables. Contact its administrator")
        require_valid(request.actions)
        facts_of(request.actions, request.commit_id)
        if form_of_commit(request.actions) is not None:
            raise InvalidArgument("the commit that releases a table must unset the properties of its commit owner")
        earlier = self._earlier_result(request.table_id, request.version, request.commit_id)
        if earlier is not None:
            return earlier
        row = self._row(request.table_id)
        store = self._places.store(row.location)
        self._backfill.now(request.table_id)
        file_name = staged_file_name(request.version, self._clock.new_id(), staged_directory(row.kept))
        timestamp_ms = self._choose_time(row.allocated_ms)
        data = content(request.actions, request.version, timestamp_ms)
        stage(store, file_name, data)
        with _in_doubt(store.root_url):
            refused = self._database.write(lambda c: self._stop_commits(c, request, file_name, timestamp_ms))
            waited_s = 0.0
            while isinstance(refused, RetryAfterStaging) and waited_s < _PATIENCE_S:
                self._clock.sleep(_WAIT_S)
                waited_s += _WAIT_S
                refused = self._database.write(lambda c: self._stop_commits(c, request, file_name, timestamp_ms))
            if refused is None:
                return self._finish_release(request.table_id, request.version)
            earlier = self._earlier_result(request.table_id, request.version, request.commit_id)
        with suppress(StorageError):
            store.delete([staged_path(file_name)])
        if earlier is not None:
            return earlier
        if isinstance(refused, RetryAfterStaging):
            raise CommitOwnerBusy(
                f"{store.root_url}: other commits were staging versions before {request.version} for {_PATIENCE_S} "
                "seconds. The table was not released. Retry"
            )
        if isinstance(refused, SlackwaterError):
            raise refused
        return refused

    def resume(self, table_id: str) -> str | None:
        """Complete the transfer of a table, and return a description, None if there is no transfer."""
        row = self._database.read(lambda c: _row_of(c, table_id))
        if row is None or row.transfer_version is None:
            return None
        taking = row.state == TableState.PROPOSED.value
        finish = self._finish_take if taking else self._finish_release
        outcome = finish(table_id, row.transfer_version)
        what = "ownership" if taking else "release"
        if isinstance(outcome, CommitConflict):
            return (
                f"{row.name}: the {what} was abandoned, because version {row.transfer_version} belongs to another "
                "writer"
            )
        return f"{row.name}: the {what} was completed by version {row.transfer_version}"

    def _earlier_result(self, table_id: str, version: int, commit_id: str) -> CommitResponse | CommitConflict | None:
        """Return the result of an earlier transfer with this commit id, None if there is none."""
        row = self._database.read(lambda c: _row_of(c, table_id))
        if row is None:
            return None
        if row.transfer_commit_id == commit_id:
            finish = self._finish_take if row.state == TableState.PROPOSED.value else self._finish_release
            with _in_doubt(self._places.url(row.location)):
                return finish(table_id, version)
        store = self._places.store(row.location)
        return self._response(row, version) if transaction_at(store, version) == commit_id else None

    def _finish_take(self, table_id: str, version: int) -> CommitResponse | CommitConflict:
        """Complete the proposal by put-if-absent into the log, or discard it. The write is the commit point."""
        row = self._database.read(lambda c: _row_of(c, table_id))
        if row is None:
            # Another process discarded the proposal, because another commit took the version.
            return CommitConflict(version)
        if row.transfer_version is None:
            return self._response(row, version)
        store = self._places.store(row.location)
        if not self._put(store, row):
            self._database.write(lambda c: _forget(c, table_id, row.transfer_file))
            with suppress(StorageError):
                store.delete([staged_path(row.transfer_file)])
            return CommitConflict(row.transfer_version)
        self._database.write(lambda c: self._activate(c, table_id))
        return self._response(row, version)

    def _finish_release(self, table_id: str, version: int) -> CommitResponse:
        row = self._row(table_id)
        if row.transfer_version is None:
            return self._response(row, version)
        self._backfill.now(table_id)
        store = self._places.store(row.location)
        if not self._put(store, row):
            raise UnratifiedCommit(
                f"{store.root_url}/{commit_path(row.transfer_version)} is not the commit that releases the table, "
                f"so the release failed: {explained(store, row.transfer_version)}"
            )
        self._database.write(lambda c: self._let_go(c, table_id))
        return self._response(row, row.transfer_version)

    def _put(self, store: ObjectStore, row: Row[Any]) -> bool:
        """Write the transfer commit if possible, and return whether the version is this commit."""

        def is_settled() -> bool:
            now = self._database.read(lambda c: _row_of(c, row.table_id))
            return now is not None and now.transfer_file != row.transfer_file

        commit = TransferCommit(row.transfer_version, row.transfer_file, row.transfer_commit_id)
        return put_transfer(store, commit, self._clock.sleep, is_settled)

    def _choose_time(self, previous_ms: int | None) -> int:
        def choose(connection: Connection) -> int:
            begin_allocation(connection)
            connection.execute(sa.select(owner.c.last_ms).with_for_update())
            time = SharedTime.of(connection, self._clock)
            # After every read of any table, and after every time slice.
            chosen: int = max(
                time.now_ms, time.last_ms + 1, time.served_ms + 1, 0 if previous_ms is None else previous_ms + 1
            )
            connection.execute(sa.update(owner).values(last_ms=chosen))
            return chosen

        return self._database.write(choose)

    def _promise(
        self, connection: Connection, proposal: OwnershipProposal, facts: ContentFacts, written: str, file_name: str,
        timestamp_ms: int, is_past: bool = False,
    ) -> bool:  # fmt: skip
        """Record the proposal. Return False if a newer time slice must include the table already.

        With `is_past`, the version was written before the proposal, like those of an existing table.
        """
        row = _row_of(connection, proposal.table_id)
        if row is not None and row.transfer_file == file_name:
            # An earlier run of this database transaction committed, and its result was lost.
            return True
        begin_allocation(connection)
        if not is_past and SharedTime.of(connection, self._clock).served_ms >= timestamp_ms:
            return False
        before = proposal.version - 1
        mark = proposal.row_id_mark if facts.mark is None else facts.mark
        connection.execute(
            sa.insert(tables).values(
                table_id=proposal.table_id, name=proposal.name, location=written, state=TableState.PROPOSED.value,
                created_ms=self._clock.now_ms(), allocated_version=before, ratified_version=before,
                backfilled_version=before, allocated_ms=timestamp_ms, ratified_ms=timestamp_ms,
                allocated_mark=mark, ratified_mark=mark, allocated_change=proposal.version,
                ratified_change=proposal.version, purged_version=before,
                transfer_version=proposal.version, transfer_file=file_name, transfer_commit_id=proposal.commit_id,
                kept=pinned_properties_json(proposal.actions, proposal.version, timestamp_ms),
            )
        )  # fmt: skip
        return True

    def _activate(self, connection: Connection, table_id: str) -> None:
        row = locked_table(connection, table_id)
        if row is not None and row.state == TableState.PROPOSED.value:
            version = row.transfer_version
            _set(
                connection, table_id, state=TableState.ACTIVE.value, allocated_version=version,
                ratified_version=version, backfilled_version=version, transfer_version=None, transfer_file=None,
                transfer_commit_id=None,
            )  # fmt: skip
            # From this version on, time slices do not need the log.
            connection.execute(
                sa.insert(commits).values(
                    table_id=table_id, version=version, commit_id=row.transfer_commit_id, file_name=row.transfer_file,
                    state=RATIFIED, timestamp_ms=row.allocated_ms, size_bytes=0, mark=row.allocated_mark,
                    is_change=True, holder=self._clock.holder, until_ms=0,
                )
            )  # fmt: skip

    def _stop_commits(
        self, connection: Connection, request: CommitRequest, file_name: str, timestamp_ms: int
    ) -> SlackwaterError | CommitConflict | RetryAfterStaging | None:
        """Stop accepting commits. Return the obstacle to the release, None if there is none."""
        begin_allocation(connection)
        row = locked_table(connection, request.table_id)
        if row is None:
            return TableNotFound(f"the commit owner has no table {request.table_id}")
        if row.transfer_commit_id == request.commit_id:
            return None
        time = SharedTime.of(connection, self._clock, checked(request.table_id, None))
        refusal = rejection_reason(row)
        if refusal is not None:
            return refusal
        now_ms = time.now_ms
        if request.version <= row.ratified_version or row.allocated_version > row.ratified_version:
            # Reserve the next version, so that no other commit gets a version before the release completes or fails.
            _set(connection, request.table_id, turn_of=_HAND_BACK, turn_until_ms=now_ms + TURN_MS)
        if request.version <= row.ratified_version:
            return CommitConflict(row.ratified_version)
        items = [Item(request.table_id)]
        if conflicting_lock(connection, None, [], items, now_ms, is_dead) is not None:
            # An active transaction has locked the table, or voted for a write to it.
            return RetryAfterStaging()
        if row.allocated_version > row.ratified_version:
            # Wait for commits in staging, but not for crashed processes.
            free_abandoned(connection, row, now_ms)
            return RetryAfterStaging()
        if request.version > row.ratified_version + 1:
            return InvalidArgument(f"{row.location}: version {request.version - 1} does not exist")
        if max(row.allocated_ms, time.before_write(request.table_id)) >= timestamp_ms:
            return CommitConflict(row.ratified_version)
        _set(
            connection, request.table_id, state=TableState.RELEASING.value, allocated_ms=timestamp_ms,
            transfer_version=request.version, transfer_file=file_name, transfer_commit_id=request.commit_id,
        )  # fmt: skip
        return None

    def _let_go(self, connection: Connection, table_id: str) -> None:
        row = locked_table(connection, table_id)
        if row is not None and row.state == TableState.RELEASING.value:
            version = row.transfer_version
            _set(
                connection, table_id, state=TableState.RELEASED.value, allocated_version=version,
                ratified_version=version, backfilled_version=version, purged_version=version, transfer_version=None,
                transfer_file=None, transfer_commit_id=None, problem="",
            )  # fmt: skip
            connection.execute(sa.delete(commits).where(commits.c.table_id == table_id))

    def _response(self, row: Row[Any], version: int) -> CommitResponse:
        data = self._places.store(row.location).read(commit_path(version))
        commit = Commit(version, row.transfer_file or "", timestamp_of(data), len(data), data)
        return CommitResponse(commit, version)

    def _row(self, table_id: str) -> Row[Any]:
        row = self._database.read(lambda c: _row_of(c, table_id))
        if row is None:
            raise TableNotFound(f"the commit owner has no table {table_id}")
        return row

    def _validate_times(self, proposal: OwnershipProposal) -> None:
        previous = proposal.previous_timestamp_ms
        # Include LAST, because a timestamp allocated by this owner is never in its future.
        now_ms = max(self._clock.now_ms(), self._database.read(last_ms))
        if previous is not None and previous > now_ms + _FUTURE_MS:
            raise InvalidArgument(
                f"{proposal.location}: its last commit is dated {previous - now_ms} ms in the future, and later "
                "commits must have later times. Correct the clock of its writer, and adopt the table after that "
                "time"
            )


def _form_of_adoption(actions: Sequence[Action]) -> ManagedForm:
    form = form_of_commit(actions)
    if form is None:
        names = " or ".join(form.owner_property for form in FORMS)
        raise InvalidArgument(f"the commit that adopts a table must set {names} to {OWNER_NAME}")
    return form


def _validate_follows(store: ObjectStore, version: int) -> None:
    if version > 0 and store.head(commit_path(version - 1)) is None:
        raise InvalidArgument(
            f"{store.root_url}: version {version} cannot be committed, because version {version - 1} does not exist"
        )


def _version_0(store: ObjectStore) -> bytes:
    try:
        return store.read(commit_path(0))
    except ObjectNotFound as error:
        raise InvalidArgument(
            f"{store.root_url}/{commit_path(0)} does not exist. Write version 0 before the table is created"
        ) from error


def _parsed(store: ObjectStore, data: bytes) -> Sequence[Action]:
    try:
        return parse_commit(data, f"{store.root_url}/{commit_path(0)}")
    except CorruptTable as error:
        raise InvalidArgument(str(error)) from error


def _named_table(store: ObjectStore, actions: Sequence[Action], owner_id: str, name: str) -> str:
    """Return the id of the table in version 0, which must name this owner, with all that an owner needs."""
    nodes = {kind: node for action in actions for kind, node in action.items()}
    if "protocol" not in nodes or "metaData" not in nodes:
        raise InvalidArgument(f"{store.root_url}: version 0 must have a protocol and a metaData")
    where = f"version 0 of {store.root_url}"
    protocol, metadata = Protocol.from_json(nodes["protocol"], where), Metadata.from_json(nodes["metaData"], where)
    table_id = metadata.configuration.get(CATALOG_TABLE_ID, "")
    checked_type(Id, f"table id {CATALOG_TABLE_ID}", table_id)
    validate_kept(protocol, metadata, owner_id, table_id, where, kept_properties(metadata.configuration))
    found = ownership(TableConfiguration(protocol, metadata), where)
    if found is None or found.table_name != name:
        # A recovery takes the name from the log.
        raise InvalidArgument(
            f"{where} was staged for the name {None if found is None else found.table_name!r}, found {name!r}. Create "
            "the table under the name of its staging table"
        )
    return table_id


@contextmanager
def _in_doubt(where: str) -> Iterator[None]:
    """Convert errors to CommitUnknown, because another process may complete the recorded transfer."""
    try:
        yield
    except (CommitOwnerUnavailable, StorageError) as error:
        raise CommitUnknown(
            f"{where}: the ownership of the table is unknown: {error}. `slackwater lake repair`, or the next use "
            "of the table, resolves it"
        ) from error


def _forget(connection: Connection, table_id: str, transfer_file: str) -> None:
    """Delete this proposal, but not a newer one for the same table."""
    connection.execute(
        sa.delete(tables).where(
            tables.c.table_id == table_id,
            tables.c.transfer_file == transfer_file,
            tables.c.state == TableState.PROPOSED.value,
        )
    )


def _row_of(connection: Connection, table_id: str) -> Row[Any] | None:
    return connection.execute(sa.select(tables).where(tables.c.table_id == table_id)).first()


def _set(connection: Connection, table_id: str, **values: Any) -> None:
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(**values))
