"""Source offsets: a table version, and an index within the version.

The JSON equals the JSON of delta-spark's source, so that both engines can read a checkpoint.
Source: delta-spark's DeltaSourceOffset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.errors import CorruptTable, UnsupportedFeature

BASE_INDEX = -1
"""The index before the first file of a version."""
SCHEMA_CHANGE, BEHIND_SCHEMA_CHANGE = -20, -19
"""The indexes before the files of a version with a schema change: before and after the change is applied."""
SCHEMA_CHANGES = (SCHEMA_CHANGE, BEHIND_SCHEMA_CHANGE)
_BASE_INDEX_3 = -100
_WITHOUT_SCHEMA_CHANGES, _WITH_SCHEMA_CHANGES = 1, 3
_STARTED = "startingVersion"
# Offset version for event time order. delta-spark does not know this order, and rejects newer offset versions.
_IN_EVENT_ORDER = 1000
_ORDERED_BY = "eventTimeColumn"


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A read position: all files of versions before `version`, and its files up to `index`, have been read.

    `is_initial`: `version` is the initial snapshot of the stream, with files ordered by time. `started`: the first
    version of a stream with startingVersion latest. It is recorded in the end offset of the first micro-batch, because
    it cannot be determined later. `ordered_by`: the event time column that orders the files of the snapshot, None for
    the order of modification times.
    """

    table_id: str
    version: int
    index: int = BASE_INDEX
    is_initial: bool = False
    started: int | None = None
    ordered_by: str | None = None

    @property
    def is_amid_schema_change(self) -> bool:
        """True if the offset is before the files of a version with a schema change."""
        return self.index in SCHEMA_CHANGES

    def to_json(self) -> dict[str, Any]:
        """Return the offset in the form of a checkpoint."""
        node: dict[str, Any] = {
            "sourceVersion": _WITH_SCHEMA_CHANGES if self.is_amid_schema_change else _WITHOUT_SCHEMA_CHANGES,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": self.index,
            "isStartingVersion": self.is_initial,
        }
        if self.is_initial and self.ordered_by is not None:
            node |= {"sourceVersion": _IN_EVENT_ORDER, _ORDERED_BY: self.ordered_by}
        return node if self.started is None else {**node, _STARTED: self.started}

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> SourceOffset:
        """Return the offset from a checkpoint of this package or of delta-spark.

        Raises CorruptTable if it is not an offset, UnsupportedFeature if a newer engine wrote it.
        """
        kind = node.get("sourceVersion")
        if not isinstance(kind, int):
            raise _malformed(node)
        ordered_by = node.get(_ORDERED_BY) if kind == _IN_EVENT_ORDER else None
        if kind > _WITH_SCHEMA_CHANGES and not isinstance(ordered_by, str):
            raise UnsupportedFeature(
                f"the checkpoint's source offset has version {kind}, but this package knows only versions up to "
                f"{_WITH_SCHEMA_CHANGES}: {dict(node)}",
                error_class="DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
            )
        table_id, version, index = node.get("reservoirId"), node.get("reservoirVersion"), node.get("index")
        initial, started = node.get("isStartingVersion"), node.get(_STARTED)
        if not (isinstance(table_id, str) and _is_whole(version) and _is_whole(index) and isinstance(initial, bool)):
            raise _malformed(node)
        index = BASE_INDEX if index == _BASE_INDEX_3 else index
        started = started if _is_whole(started) else None
        return cls(table_id, version, index, initial, started, ordered_by)  # type: ignore[arg-type]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _malformed(node: Mapping[str, Any]) -> CorruptTable:
    return CorruptTable(
        f"the checkpoint holds no offset of a Delta table: {str(dict(node))[:200]}",
        error_class="DELTA_INVALID_SOURCE_OFFSET_FORMAT",
    )
