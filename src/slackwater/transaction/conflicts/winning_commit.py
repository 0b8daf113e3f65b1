"""A winning commit, with the properties needed for conflict detection.

Source: delta-protocol.md "Actions"; docs/concurrent-changes.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.file_actions import file_actions
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.paths import canonical_path
from slackwater.transaction.rows.file_action_rows import as_adds


@dataclass(frozen=True, slots=True)
class VectorChange:
    """A file that a commit retains with another deletion vector: its `remove` and `add` as JSON nodes."""

    removed: Mapping[str, Any]
    added: Mapping[str, Any]

    @property
    def old(self) -> Mapping[str, Any] | None:
        """The descriptor of the vector before the commit."""
        return self.removed.get("deletionVector")

    @property
    def new(self) -> Mapping[str, Any] | None:
        """The descriptor of the vector after the commit."""
        return self.added.get("deletionVector")

    @property
    def data_change(self) -> bool:
        """Return whether the change deletes or restores rows of the table. Rows moved between files are no change."""
        return self.removed.get("dataChange") is not False or self.added.get("dataChange") is not False


@dataclass(frozen=True)
class WinningCommit:
    """A commit by another writer after the snapshot of the transaction."""

    commit: ParsedCommit

    @property
    def version(self) -> int:
        """The version of the commit."""
        return self.commit.version

    @cached_property
    def txn_id(self) -> str | None:
        """The transaction id of the commit, None if its writer recorded none."""
        found = self.commit.info.get("txnId")
        return found if isinstance(found, str) else None

    @property
    def is_blind_append(self) -> bool:
        """Return whether the commit adds files and its writer recorded a blind append.

        Writers also record blind appends for commits without files, such as changes of metadata. Such commits are not
        appends.
        """
        is_recorded = self.commit.info.get("isBlindAppend") is True and bool(self.added_paths)
        return is_recorded and self.metadata is None and self.protocol is None

    @cached_property
    def protocol(self) -> Protocol | None:
        """The protocol set by the commit, None if unchanged."""
        node = self._only("protocol")
        return None if node is None else Protocol.from_json(node, self.commit.where)

    @cached_property
    def metadata(self) -> Metadata | None:
        """The metadata set by the commit, None if unchanged."""
        node = self._only("metaData")
        return None if node is None else Metadata.from_json(node, self.commit.where)

    @cached_property
    def app_ids(self) -> frozenset[str]:
        """The applications whose progress the commit recorded."""
        return frozenset(str(node.get("appId")) for node in self._all("txn"))

    @cached_property
    def domains(self) -> frozenset[str]:
        """The metadata domains set or removed by the commit."""
        return frozenset(DomainMetadata.from_json(n, self.commit.where).domain for n in self._all("domainMetadata"))

    @cached_property
    def added_files(self) -> pa.Table:
        """The `add` actions that add rows, in ACTION_SCHEMA. Files that only rearrange rows are excluded."""
        return self.as_files(node for node in self._all("add") if node.get("dataChange") is not False)

    @cached_property
    def rearranged_files(self) -> pa.Table:
        """The `add` actions of rows that were in other files before, in ACTION_SCHEMA."""
        return self.as_files(node for node in self._all("add") if node.get("dataChange") is False)

    @cached_property
    def vector_changes(self) -> Mapping[str, VectorChange]:
        """The files re-added with another vector, by canonical path."""
        both = self.added_paths & self.removed_paths
        if not both:
            return {}
        added, removed = self._by_path("add", both), self._by_path("remove", both)
        return {path: VectorChange(removed[path], added[path]) for path in added.keys() & removed.keys()}

    def added_again(self, paths: AbstractSet[str]) -> Mapping[str, AddFile]:
        """Return the files added under the canonical `paths`, by path, as actions to add again."""
        nodes = self._by_path("add", self.added_paths & paths)
        return dict(zip(nodes, as_adds(self.as_files(nodes.values()), data_change=True), strict=True))

    def as_files(self, adds: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Return `add` actions of the commit in ACTION_SCHEMA. Raises CorruptLog for an invalid action."""
        return file_actions([(self.version, self.commit.where, [{"add": node} for node in adds])])

    @cached_property
    def added_paths(self) -> frozenset[str]:
        """The canonical paths of all `add` actions."""
        return frozenset(canonical_path(str(node.get("path"))) for node in self._all("add"))

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The canonical paths of all `remove` actions."""
        return frozenset(canonical_path(str(node.get("path"))) for node in self._all("remove"))

    @cached_property
    def removes_rows(self) -> bool:
        """Return whether a `remove` deletes rows. Rows moved to other files are not deleted."""
        return any(node.get("dataChange") is not False for node in self._all("remove"))

    @property
    def description(self) -> str:
        """The version and operation for messages: `version 7 (DELETE)`."""
        operation = self.commit.info.get("operation")
        return f"version {self.version}" + (f" ({operation})" if operation else "")

    def _all(self, kind: str) -> list[Mapping[str, Any]]:
        return [action[kind] for action in self.commit.actions if isinstance(action.get(kind), Mapping)]

    def _by_path(self, kind: str, paths: AbstractSet[str]) -> dict[str, Mapping[str, Any]]:
        """Return the single action of each of `paths`.

        A path with several actions is excluded, because they are ambiguous.
        """
        found: dict[str, list[Mapping[str, Any]]] = {}
        for node in self._all(kind):
            path = canonical_path(str(node.get("path")))
            if path in paths:
                found.setdefault(path, []).append(node)
        return {path: nodes[0] for path, nodes in found.items() if len(nodes) == 1}

    def _only(self, kind: str) -> Mapping[str, Any] | None:
        found = self._all(kind)
        return found[-1] if found else None
