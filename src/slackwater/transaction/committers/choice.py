"""Who commits to a table: the file system itself, or the commit owner that its metadata names.

Source: delta-protocol.md "Creation of New Log Entries"; managed-commits.md "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from slackwater.errors import CommitOwnerRequired
from slackwater.log.branches import branch_of
from slackwater.owner.api.registry import find_owner
from slackwater.protocol.configuration import TableConfiguration
from slackwater.protocol.features.data_format import validate_parquet
from slackwater.protocol.features.managed_commits import OWNER_NAME, ownership
from slackwater.protocol.features.table_features import validate_writable
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committer
from slackwater.transaction.committers.branch import BranchCommitter
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.committers.managed import ManagedCommitter
from slackwater.transaction.open_transactions import is_within, require_not_past


def committer_for(store: ObjectStore, table: TableConfiguration) -> Committer:
    """The committer of the table in `store`; what is in a transaction over many tables is committed with it.

    Raises UnsupportedFeature for a table that cannot be written to, CorruptTable for one in an invalid state, and
    CommitOwnerRequired where its owner is one that this process has not opened, or of another kind, and
    OperationNotAllowed for a table of the open transaction's lakes that is reached past the transaction.
    """
    validate_writable(table.protocol, store.root_url)
    validate_parquet(table.metadata, store.root_url)
    branch = branch_of(store)
    if branch is not None:
        return BranchCommitter(store, branch)
    found = ownership(table, store.root_url)
    if found is None:
        return FilesystemCommitter(store)
    require_not_past(found, store.root_url)
    owned = find_owner(found)
    if owned is None:
        how = (
            "open its lake first, with Lake.open or Lake.connect, in this process"
            if found.name == OWNER_NAME
            else "this package does not know such owners: write with the engine that does"
        )
        raise CommitOwnerRequired(f"{store.root_url} takes commits only from {found.description}: {how}")
    return ManagedCommitter(store, owned)


def require_not_past_transaction(snapshot: Snapshot) -> None:
    """Let pass a snapshot whose rows may be read here.

    Raises OperationNotAllowed for one that was found by path and is of a table of the open transaction's lakes.
    """
    store = snapshot.store
    # Whose a table is does not matter to readers otherwise.
    if is_within() and branch_of(store) is None:
        require_not_past(ownership(snapshot.configuration, store.root_url), store.root_url)
