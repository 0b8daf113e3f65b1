"""One table's transaction: staged actions, validation, commit and retry.

Source: delta-protocol.md "Commit Provenance Information", "Append-only Tables", "Requirements for Writers".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.errors import CommitConflict, UnsupportedFeature
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions import AddFile, Metadata, Protocol
from slackwater.protocol.features import supported_features
from slackwater.protocol.schema import StructType
from slackwater.transaction.committer import Committed, Committer

ENGINE_INFO = "Slackwater/0.1.0"
_MAX_ATTEMPTS = 100
# Writer features that ask nothing of an append as long as no column or property uses them.
_DORMANT = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "changeDataFeed",
        "identityColumns",
        "timestampNtz",
        "vacuumProtocolCheck",
    }
)
_COLUMN_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.", "CURRENT_DEFAULT")


@dataclass
class Transaction:
    """Actions for the next version of one table.

    `read`: the snapshot that the work is based on, None where the table is being created. The clock gives ms since
    the epoch.
    """

    committer: Committer
    read: LogSnapshot | None
    operation: str
    operation_parameters: Mapping[str, str] = field(default_factory=dict)
    operation_metrics: Mapping[str, str] = field(default_factory=dict)
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    txn_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def create(self, protocol: Protocol, metadata: Metadata, adds: Sequence[AddFile]) -> int:
        """Make version 0 of a new table; the version. Raises CommitConflict where somebody else made one first."""
        head = [self._commit_info(None, blind=True), protocol.to_json(), metadata.to_json()]
        if isinstance(self.committer.commit(0, [*head, *(add.to_json() for add in adds)]), Committed):
            return 0
        raise CommitConflict("another writer created the table first: append to it, or write elsewhere")

    def append(self, adds: Sequence[AddFile]) -> int:
        """Add files that hold only new rows; the version that it became.

        A blind append does not depend on what other writers add or remove, so it moves behind them; where one of
        them changed the table's metadata or protocol, CommitConflict is raised.
        Also raises CommitUnknown and UnsupportedFeature.
        """
        if self.read is None:
            raise ValueError("an append needs the snapshot of a table")
        snapshot = self.read
        validate_appendable(snapshot)
        for _ in range(_MAX_ATTEMPTS):
            actions = [self._commit_info(snapshot.version, blind=True), *(add.to_json() for add in adds)]
            outcome = self.committer.commit(snapshot.version + 1, actions)
            if isinstance(outcome, Committed):
                return outcome.version
            newer = snapshot.update()
            if (newer.metadata, newer.protocol) != (self.read.metadata, self.read.protocol):
                raise CommitConflict(
                    f"{snapshot.store.root_url}: version {outcome.version} changed the table's metadata or protocol "
                    "while data was being written: write again"
                )
            snapshot = newer
        raise CommitConflict(f"{snapshot.store.root_url}: {_MAX_ATTEMPTS} other commits were faster: write again")

    def _commit_info(self, read_version: int | None, blind: bool) -> dict[str, Any]:
        info: dict[str, Any] = {
            "timestamp": self.clock_ms(),
            "operation": self.operation,
            "operationParameters": dict(self.operation_parameters),
            "isolationLevel": "WriteSerializable",
            "isBlindAppend": blind,
            "operationMetrics": dict(self.operation_metrics),
            "engineInfo": ENGINE_INFO,
            "txnId": self.txn_id,
        }
        if read_version is not None:
            info["readVersion"] = read_version
        return {"commitInfo": info}


def validate_appendable(snapshot: LogSnapshot) -> None:
    """Let pass a table whose rules for writers this package honours on append.

    Raises UnsupportedFeature naming the writer version, feature, property or column that is in the way, before
    anything is written.
    """
    where, protocol = snapshot.store.root_url, snapshot.protocol
    in_use = sorted(supported_features(protocol) - _DORMANT - _legacy(protocol))
    if protocol.min_writer_version > 7 or in_use:
        named = ", ".join(in_use) or f"writer version {protocol.min_writer_version}"
        raise UnsupportedFeature(f"{where}: appending to a table with {named} is not supported by this version")
    rules = [k for k in snapshot.properties if k.lower().startswith("delta.constraints.")]
    rules += [f"{c.name}: {k}" for c in snapshot.schema for k in c.metadata if k.startswith(_COLUMN_RULES)]
    rules += [c.name for c in snapshot.schema if not c.nullable]
    rules += _nested_rules(snapshot.schema)
    if rules:
        raise UnsupportedFeature(
            f"{where}: appending to a table with constraints, NOT NULL, generated or default columns is not supported "
            f"by this version: {', '.join(rules)}"
        )


def _legacy(protocol: Protocol) -> frozenset[str]:
    """Column mapping that the legacy versions allow but no property turns on asks nothing of a writer."""
    return frozenset({"columnMapping"}) if protocol.min_writer_version < 7 else frozenset()


def _nested_rules(schema: StructType) -> list[str]:
    return [
        f"{column.name}.{inner.name}"
        for column in schema
        if isinstance(column.type, StructType)
        for inner in column.type
        if not inner.nullable or any(key.startswith(_COLUMN_RULES) for key in inner.metadata)
    ]
