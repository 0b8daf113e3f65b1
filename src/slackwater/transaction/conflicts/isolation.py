"""Isolation levels of a transaction.

Source: docs/concurrent-changes.md; names as delta-spark's `delta.isolationLevel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.properties import ISOLATION_LEVEL


class IsolationLevel(str, Enum):
    """Isolation levels. `Serializable` is strictest: the order of the log is a serial order.

    `WriteSerializable` lets a blind append precede a transaction that did not read its rows. `SnapshotIsolation`
    extends this to any added rows. Every level detects removed rows that were read, and concurrent changes of the same
    files.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


def isolation_level(properties: Mapping[str, str]) -> IsolationLevel:
    """Return the level in the table's properties, WriteSerializable by default. Raises InvalidArgument."""
    text = properties.get(ISOLATION_LEVEL) or IsolationLevel.WRITE_SERIALIZABLE.value
    for level in IsolationLevel:
        if level.value.lower() == text.lower():
            return level
    raise InvalidArgument(
        f"{ISOLATION_LEVEL} must be one of {', '.join(level.value for level in IsolationLevel)}, found {text!r}",
        error_class="DELTA_INVALID_ISOLATION_LEVEL",
    )
