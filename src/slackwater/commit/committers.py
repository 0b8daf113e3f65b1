"""Who commits to a table: the file system itself, unless its protocol names a commit owner.

Source: delta-protocol.md "Creation of New Log Entries"; managed-commits.md.
"""

from __future__ import annotations

from slackwater.commit.filesystem import FilesystemCommitter
from slackwater.protocol.actions import Protocol
from slackwater.protocol.features import validate_writable
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committer


def committer_for(store: ObjectStore, protocol: Protocol) -> Committer:
    """The committer of the table in `store`. Raises UnsupportedFeature for a table that cannot be written to."""
    validate_writable(protocol, store.root_url)
    return FilesystemCommitter(store)
