"""Staged files of commits: builds their content, writes and deletes them.

Source: managed-commits.md "Commit Files"; docs/commit-owner.md "What happens in a commit".
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from slackwater.errors import InvalidArgument, StorageError
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.allocation_outcomes import Attempt, VersionsAllocated
from slackwater.owner.commit.log_lookup import StoreOf
from slackwater.owner.commit.ratification import StagedCommits, StagedFile
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.state.commit_content import content
from slackwater.owner.state.commit_files import stage
from slackwater.protocol.actions.file_names import staged_path
from slackwater.protocol.actions.transaction_groups import TransactionGroup

_MOST_PUTS = 16
_MOST_AGE_MS = GRACE_MS // 2


@dataclass(frozen=True, slots=True)
class StagedContent:
    """Commits to stage, with the content of their files by table."""

    staged: StagedCommits
    data: Mapping[str, bytes]

    def answer(self, response: TransactionResponse) -> TransactionResponse:
        """Return the response with the content of the files."""
        commits = {
            table_id: replace(answer, commit=replace(answer.commit, data=self.data[table_id]))
            for table_id, answer in response.commits.items()
        }
        return replace(response, commits=commits)


def content_of(attempt: Attempt, given: VersionsAllocated) -> StagedContent:
    """Return the files of an attempt with allocated versions."""
    request = attempt.request
    table_ids = sorted(write.table_id for write in request.writes)
    # All commits of a transaction have an equal group, or none has one.
    proposed = TransactionGroup.among(request.writes[0].actions, request.txn_id)
    group = proposed.at({table_id: part.version for table_id, part in given.parts.items()}) if proposed else None
    data, files = {}, []
    for write in sorted(request.writes, key=lambda write: write.table_id):
        part = given.parts[write.table_id]
        moved_to = None if part.shift is None else part.version
        if attempt.staged:
            found = attempt.staged[write.table_id].data
        else:
            found = content(write.actions, part.version, part.timestamp_ms, part.shift, moved_to, table_ids, group)
        data[write.table_id] = found
        files.append(StagedFile(write.table_id, part.version, part.file_name, part.timestamp_ms, len(found)))
    txn_id = None if attempt.is_alone else request.txn_id
    return StagedContent(StagedCommits(request.txn_id, files, txn_id, bool(attempt.staged)), data)


def put(store_of: StoreOf, fences: Fences | None, files: StagedContent) -> None:
    """Write the files. Raises StorageError. After an error, no record will refer to the written files."""
    parts = files.staged.files
    stores = [store_of(part.table_id) for part in parts]

    def put_one(index: int) -> None:
        stage(stores[index], parts[index].file_name, files.data[parts[index].table_id])

    if len(parts) == 1 or all(store.local_root is not None for store in stores):
        for index in range(len(parts)):
            put_one(index)
    else:
        with ThreadPoolExecutor(min(len(parts), _MOST_PUTS)) as pool:
            list(pool.map(put_one, range(len(parts))))
    if fences is not None:
        for store, part in zip(stores, parts, strict=True):
            fences.require_none_after_staging(store, part.file_name)


def require_recent(store_of: StoreOf, staged: StagedCommits, now_ms: int) -> None:
    """Raise InvalidArgument for a file staged by its client that a repair may delete before its ratification.

    A repair deletes files of the age GRACE_MS without a record. Half of it remains for the ratification.
    """
    for part in staged.files if staged.by_client else ():
        store = store_of(part.table_id)
        found = store.head(staged_path(part.file_name))
        if found is None or found.modified_ms < now_ms - _MOST_AGE_MS:
            raise InvalidArgument(
                f"{store.root_url}/{staged_path(part.file_name)} was staged more than {_MOST_AGE_MS // 60_000} minutes "
                "ago. Nothing was committed. Stage the commit again in a new file"
            )


def delete(store_of: StoreOf, staged: StagedCommits) -> None:
    """Delete the files, best effort: storage errors are ignored. Files staged by a client stay."""
    for part in () if staged.by_client else staged.files:
        with suppress(StorageError):
            store_of(part.table_id).delete([staged_path(part.file_name)])
