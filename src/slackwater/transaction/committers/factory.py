"""Chooses the committer of a table: the file system, or the commit owner in its metadata.

Source: delta-protocol.md "Creation of New Log Entries"; managed-commits.md "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from slackwater.errors import CommitOwnerRequired
from slackwater.log.files.managed_log import owner_of
from slackwater.log.table import Table
from slackwater.protocol.features.managed_commits import OWNER_NAME, UNNAMED, ownership
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.committer import Committer
from slackwater.transaction.committers.ambient_transaction import is_within, require_not_past
from slackwater.transaction.committers.deferred import DeferringCommitter
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.committers.managed import ManagedCommitter


def committer_for(table: Table, configuration: TableConfiguration) -> Committer:
    """Return the committer of a table with `configuration`, the present or the future one.

    A branch is committed with its transaction.

    Raises:
        UnsupportedFeature: If this package cannot write the table.
        CorruptTable: If the ownership properties are invalid.
        CommitOwnerRequired: If this process has not opened the commit owner, or the owner is of another kind.
        OperationNotAllowed: If the table belongs to a lake of the open transaction and access bypasses the transaction.
    """
    where = table.root_url
    configuration.require_writable(where)
    if table.branch is not None:
        return DeferringCommitter(table.branch)
    found = ownership(configuration, where)
    if found is None:
        return FilesystemCommitter(table.store)
    require_not_past(found, where)
    # Not the owner of a copied table, because its files are elsewhere.
    owned = table.owned or owner_of(table.store, configuration)
    if owned is None:
        how = (
            "Open its lake first, with Lake.open or Lake.connect, in this process (in a terminal: slackwater --lake "
            "LAKE)"
            if found.name == OWNER_NAME
            else "Connect to its catalog first, with Lake.connect('uc:https://…', catalog=…)"
            if found.name == UNNAMED
            else "This package does not support such owners. Write with the engine that does"
        )
        raise CommitOwnerRequired(f"{where} takes commits only from {found.description}. {how}")
    return ManagedCommitter(table.store, owned)


def require_not_past_transaction(snapshot: Snapshot) -> None:
    """Raise OperationNotAllowed if reading `snapshot` bypasses the open transaction.

    This is the case for a snapshot opened by path if its table belongs to a lake of the transaction.
    """
    table = snapshot.table
    # Without a transaction the owner of a table is irrelevant to readers.
    if is_within() and table.branch is None:
        require_not_past(ownership(snapshot.configuration, table.root_url), table.root_url)
