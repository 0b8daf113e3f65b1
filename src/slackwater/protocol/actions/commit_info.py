"""The `commitInfo` action: who did what, when, on which version.

Source: delta-protocol.md "Commit Provenance Information", "In-Commit Timestamps"; field names as delta-spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ROW_TRACKING_PRESERVED = "delta.rowTracking.preserved"


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Provenance of one attempt at a commit; times in ms since the epoch.

    `txn_id` is the transaction's own identity, the same at every attempt: by it an outcome that is unknown is settled.
    `user_id` and `user_name` are who made it.
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
        """The `commitInfo` action; fields without a value are left out."""
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
    """The commitInfo among the actions of a commit; empty where there is none."""
    for action in actions:
        if isinstance(action.get("commitInfo"), dict):
            info: Mapping[str, Any] = action["commitInfo"]
            return info
    return {}
