"""Who commits to a table: the file system itself, or the commit owner that its metadata names.

Source: delta-protocol.md "Creation of New Log Entries"; managed-commits.md "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from slackwater.errors import CommitOwnerRequired
from slackwater.log.table import Table
from slackwater.owner.api.owner_registry import find_owner
from slackwater.protocol.features.data_format import validate_parquet
from slackwater.protocol.features.managed_commits import OWNER_NAME, ownership
from slackwater.protocol.features.table_features import validate_writable
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.ambient_transaction import is_within, require_not_past
from slackwater.transaction.committer import Committer
from slackwater.transaction.committers.deferred import DeferringCommitter
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.committers.managed import ManagedCommitter


def committer_for(table: Table, configuration: TableConfiguration) -> Committer:
    """The committer of a table that is, or is to be, `configuration`; a branch is committed with its transaction.

    Raises UnsupportedFeature for a table that cannot be written to, CorruptTable for one in an invalid state, and
    CommitOwnerRequired where its owner is one that this process has not opened, or of another kind, and
    OperationNotAllowed for a table of the open transaction's lakes that is reached past the transaction.
    """
    where = table.root_url
    validate_writable(configuration.protocol, where)
    validate_parquet(configuration.metadata, where)
    if table.branch is not None:
        return DeferringCommitter(table.branch)
    found = ownership(configuration, where)
    if found is None:
        return FilesystemCommitter(table.store)
    require_not_past(found, where)
    owned = table.owned or find_owner(found)
    if owned is None:
        how = (
            "open its lake first, with Lake.open or Lake.connect, in this process"
            if found.name == OWNER_NAME
            else "this package does not know such owners: write with the engine that does"
        )
        raise CommitOwnerRequired(f"{where} takes commits only from {found.description}: {how}")
    return ManagedCommitter(table.store, owned)


def require_not_past_transaction(snapshot: Snapshot) -> None:
    """Let pass a snapshot whose rows may be read here.

    Raises OperationNotAllowed for one that was found by path and is of a table of the open transaction's lakes.
    """
    table = snapshot.table
    # Whose a table is does not matter to readers otherwise.
    if is_within() and table.branch is None:
        require_not_past(ownership(snapshot.configuration, table.root_url), table.root_url)
