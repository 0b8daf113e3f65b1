"""Commits staged by their client: the client chooses version, file and timestamp, and the owner ratifies them.

Clients of Unity Catalog commit in this way. The owner ratifies the commit only at its own timestamp, so that the
guarantees about timestamps hold for these commits too. Source: PROTOCOL.md "Commit Protocol", option 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.errors import CorruptTable, InvalidArgument, ObjectNotFound, OperationNotAllowed, TableNotFound
from slackwater.owner.api.commits import CommitRequest, StagedCommit
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TableWrite, TransactionRequest
from slackwater.owner.commit.allocation_outcomes import ClientFile
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.commit_info import info_of
from slackwater.protocol.actions.file_names import LOG, LogFileKind, parse_log_file, staged_path
from slackwater.protocol.actions.transaction_groups import ACTION, GROUP_TAG
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, form_in
from slackwater.storage.store import ObjectStore

_LONGEST_ID = 36


@dataclass(frozen=True, slots=True)
class ClientCommit:
    """A commit read from its staged `file`. `file_name` is the name that an owner records."""

    request: CommitRequest
    file: ClientFile
    file_name: str


def staged_by_client(store: ObjectStore, pinned: Mapping[str, str] | None, asked: StagedCommit) -> ClientCommit:
    """Read and check the staged file of a commit. `pinned` are the table's pinned properties, None for no such table.

    Raises:
        TableNotFound: If the owner does not have the table.
        OperationNotAllowed: If the table is not catalog-managed.
        InvalidArgument: If the file is missing, or differs from the request.
    """
    if pinned is None:
        raise TableNotFound(f"the commit owner has no table {asked.table_id}")
    if form_in(pinned) is not CATALOG_MANAGED:
        raise OperationNotAllowed(
            f"{store.root_url} has the feature managedCommit, not catalogManaged. Migrate it with `slackwater lake "
            "migrate`"
        )
    file_name = f"{CATALOG_MANAGED.directory}/{asked.file_name}"
    path = staged_path(file_name)
    where = f"{store.root_url}/{path}"
    file = parse_log_file(path.removeprefix(f"{LOG}/"))
    if file is None or file.kind is not LogFileKind.STAGED_COMMIT or file.version != asked.version:
        raise InvalidArgument(
            f"a staged commit of version {asked.version} is called <version>.<uuid>.json, found {asked.file_name!r}"
        )
    try:
        data = store.read(path)
        actions = parse_commit(data, where)
    except ObjectNotFound as error:
        raise InvalidArgument(f"{where} does not exist. Stage the commit before its ratification") from error
    except CorruptTable as error:
        raise InvalidArgument(str(error)) from error
    if len(data) != asked.size_bytes:
        raise InvalidArgument(f"{where} has {len(data)} bytes, found {asked.size_bytes} in the request")
    info: Any = actions[0].get("commitInfo")
    if not isinstance(info, Mapping) or info.get("inCommitTimestamp") != asked.timestamp_ms:
        raise InvalidArgument(
            f"{where} must begin with a commitInfo with the inCommitTimestamp {asked.timestamp_ms} of the request"
        )
    txn_id = info.get("txnId")
    if not isinstance(txn_id, str) or not txn_id or len(txn_id) > _LONGEST_ID:
        raise InvalidArgument(f"{where}: commitInfo.txnId must be a text of 1 to {_LONGEST_ID} characters")
    # A repeated request finds its result by the transaction id.
    request = CommitRequest(asked.table_id, txn_id, asked.version, actions, is_replay=True)
    return ClientCommit(request, ClientFile(str(file.uuid), data), file_name)


def staged_group(txn_id: str, asked: Sequence[StagedCommit], found: Mapping[str, ClientCommit]) -> TransactionRequest:
    """Return the transaction of staged commits `asked`, read as `found` by table: a group at its own timestamp.

    Raises InvalidArgument for two commits to one table, a commit without the group or its tag, or different timestamps,
    because a transaction has one timestamp.
    """
    if len(found) < len(asked):
        raise InvalidArgument(f"transaction {txn_id} has two commits to one table. Stage one commit for each table")
    stamps = {each.timestamp_ms for each in asked}
    if len(stamps) != 1:
        raise InvalidArgument(
            f"transaction {txn_id}: the commits have the timestamps {sorted(stamps)}. Stage all commits of a "
            "transaction with the same inCommitTimestamp"
        )
    for table_id, commit in found.items():
        tags = info_of(commit.request.actions).get("tags")
        if not isinstance(tags, Mapping) or tags.get(GROUP_TAG) != txn_id:
            raise InvalidArgument(
                f"transaction {txn_id}: the commit to table {table_id} lacks the tag {GROUP_TAG}. Add it"
            )
        if not any(ACTION in action for action in commit.request.actions):
            raise InvalidArgument(f"transaction {txn_id}: the commit to table {table_id} has no {ACTION}. Add it")
    (timestamp_ms,) = stamps
    writes = [TableWrite(each.request.table_id, each.request.version, each.request.actions) for each in found.values()]
    # A repeated request finds its result by the transaction id.
    return TransactionRequest(txn_id, TimestampRange(timestamp_ms - 1, timestamp_ms), writes=writes, is_replay=True)
