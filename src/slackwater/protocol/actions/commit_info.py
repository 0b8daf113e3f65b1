"""The `commitInfo` action: user, operation, time and read version of a commit.

Source: delta-protocol.md "Commit Provenance Information", "In-Commit Timestamps"; field names of delta-spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ROW_TRACKING_PRESERVED = "delta.rowTracking.preserved"


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Provenance of one commit attempt; times in ms since the epoch.

    `txn_id` identifies the transaction and is the same for all attempts. It is used to find the outcome of an unknown
    commit. `user_id` and `user_name` identify the author.
    """

    timestamp: int
    operation: str
    txn_id: str
    engine_info: str
    operation_parameters: Mapping[str, str] = field(default_factory=dict)
    operation_metrics: Mapping[str, str] = field(default_factory=dict)
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool = False
    in_commit_timestamp: int | None = None
    user_metadata: str | None = None
    tags: Mapping[str, str] | None = None
    user_id: str | None = None
    user_name: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the `commitInfo` action; fields without a value are omitted."""
        node: dict[str, Any] = {}
        if self.in_commit_timestamp is not None:
            node["inCommitTimestamp"] = self.in_commit_timestamp
        node |= {
            "timestamp": self.timestamp,
            **{
                key: value
                for key, value in (("userId", self.user_id), ("userName", self.user_name))
                if value is not None
            },
            "operation": self.operation,
            "operationParameters": dict(self.operation_parameters),
        }
        optional = {
            "readVersion": self.read_version,
            "isolationLevel": self.isolation_level,
            "isBlindAppend": self.is_blind_append,
            "operationMetrics": dict(self.operation_metrics) if self.operation_metrics else None,
            "userMetadata": self.user_metadata,
            "tags": dict(self.tags) if self.tags else None,
            "engineInfo": self.engine_info,
            "txnId": self.txn_id,
        }
        return {"commitInfo": node | {key: value for key, value in optional.items() if value is not None}}


def info_of(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the commitInfo among the actions of a commit, or an empty mapping."""
    for action in actions:
        if isinstance(action.get("commitInfo"), dict):
            info: Mapping[str, Any] = action["commitInfo"]
            return info
    return {}
