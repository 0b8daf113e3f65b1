"""How far a transaction must be protected from what others do at the same time.

Source: docs/concurrent-changes.md; names as delta-spark's `delta.isolationLevel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.properties import ISOLATION_LEVEL


class IsolationLevel(str, Enum):
    """`Serializable` is strictest: the order of the log is an order in which everything could have run.

    `WriteSerializable` lets a blind append come before a transaction that did not see it; `SnapshotIsolation` lets any
    added rows do so. None overlooks that rows which were read are gone, or that two change the same files.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


def isolation_level(properties: Mapping[str, str]) -> IsolationLevel:
    """The level that the table's properties ask for, WriteSerializable by default. Raises InvalidArgument."""
    text = properties.get(ISOLATION_LEVEL) or IsolationLevel.WRITE_SERIALIZABLE.value
    for level in IsolationLevel:
        if level.value.lower() == text.lower():
            return level
    raise InvalidArgument(
        f"{ISOLATION_LEVEL} must be one of {', '.join(level.value for level in IsolationLevel)}, found {text!r}",
        error_class="DELTA_INVALID_ISOLATION_LEVEL",
    )
