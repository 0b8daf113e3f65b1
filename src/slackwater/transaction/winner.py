"""A commit that won the race, by what a conflict is judged by.

Source: delta-protocol.md "Actions"; design §4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from slackwater.log.commits import ParsedCommit
from slackwater.log.file_actions import file_actions
from slackwater.protocol.actions import DomainMetadata, Metadata, Protocol
from slackwater.protocol.paths import canonical_path


@dataclass(frozen=True)
class Winner:
    """One commit that others made since the transaction read its snapshot."""

    commit: ParsedCommit

    @property
    def version(self) -> int:
        """The version that it made."""
        return self.commit.version

    @cached_property
    def txn_id(self) -> str | None:
        """The identity of the transaction that made it, where its writer gave one."""
        found = self.commit.info.get("txnId")
        return found if isinstance(found, str) else None

    @property
    def is_blind_append(self) -> bool:
        """Whether its writer says that it read nothing and only added files; an absent word means no."""
        return self.commit.info.get("isBlindAppend") is True

    @cached_property
    def protocol(self) -> Protocol | None:
        """The protocol that it set, if any."""
        node = self._only("protocol")
        return None if node is None else Protocol.from_json(node, self.commit.where)

    @cached_property
    def metadata(self) -> Metadata | None:
        """The metadata that it set, if any."""
        node = self._only("metaData")
        return None if node is None else Metadata.from_json(node, self.commit.where)

    @cached_property
    def app_ids(self) -> frozenset[str]:
        """The applications whose progress it recorded."""
        return frozenset(str(node.get("appId")) for node in self._all("txn"))

    @cached_property
    def domains(self) -> frozenset[str]:
        """The metadata domains that it set or removed."""
        return frozenset(DomainMetadata.from_json(n, self.commit.where).domain for n in self._all("domainMetadata"))

    @cached_property
    def added_files(self) -> pa.Table:
        """The `add` actions that add rows, as ACTION_SCHEMA; files that only rearrange rows are left out."""
        adds = [{"add": node} for node in self._all("add") if node.get("dataChange") is not False]
        return file_actions([(self.version, self.commit.where, adds)])

    @cached_property
    def added_paths(self) -> frozenset[str]:
        """The canonical paths of all its `add` actions."""
        return frozenset(canonical_path(str(node.get("path"))) for node in self._all("add"))

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The canonical paths of all its `remove` actions."""
        return frozenset(canonical_path(str(node.get("path"))) for node in self._all("remove"))

    @cached_property
    def removes_rows(self) -> bool:
        """Whether a `remove` of it removes rows, rather than files whose rows stay in others."""
        return any(node.get("dataChange") is not False for node in self._all("remove"))

    @property
    def description(self) -> str:
        """`version 7 (DELETE)`, for messages."""
        operation = self.commit.info.get("operation")
        return f"version {self.version}" + (f" ({operation})" if operation else "")

    def _all(self, kind: str) -> list[Mapping[str, Any]]:
        return [action[kind] for action in self.commit.actions if isinstance(action.get(kind), Mapping)]

    def _only(self, kind: str) -> Mapping[str, Any] | None:
        found = self._all(kind)
        return found[-1] if found else None
