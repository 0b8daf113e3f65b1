"""Granules read by conditions: partitions, if the conditions pin a partition column to values.

Source: paper §4.1; docs/transactions.md "Control".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from slackwater.owner.api.granules import MOST_GRANULES, granule
from slackwater.owner.api.transactions import WHOLE
from slackwater.predicate.predicate import And, Comparison, Constant, In, IsNull, Or, Predicate, Value
from slackwater.protocol.schema.schema import PrimitiveType
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.staged import ReadSet

# Types whose values have few text forms, treated as equal by `granule`.
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "date": dt.date,
    "boolean": bool,
}


def granules_read(snapshot: Snapshot, reads: ReadSet) -> Sequence[str]:
    """Return the granules of all rows in the read set; only WHOLE if the conditions do not pin partitions."""
    if reads.app_ids:
        return (WHOLE,)
    columns = _partition_columns(snapshot)
    found: set[str] = set()
    for reading in reads.readings:
        pinned = _pinned(reading.predicate, columns)
        if pinned is None:
            return (WHOLE,)
        found |= pinned
    return sorted(found) if len(found) <= MOST_GRANULES else (WHOLE,)


def granules_where(snapshot: Snapshot, predicate: Predicate) -> Sequence[str]:
    """Return the granules of the rows that satisfy one condition. See `granules_read`."""
    pinned = _pinned(predicate, _partition_columns(snapshot))
    return (WHOLE,) if pinned is None or len(pinned) > MOST_GRANULES else sorted(pinned)


def _partition_columns(snapshot: Snapshot) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return the physical name and type of each partition column of a supported type, by path."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for name in snapshot.metadata.partition_columns:
        field = snapshot.schema.get(name)
        if field is not None and isinstance(field.type, PrimitiveType) and str(field.type) in _KINDS:
            found[(field.name,)] = (snapshot.physical_paths.get((field.name,), (field.name,))[0], str(field.type))
    return found


def _pinned(predicate: Predicate, columns: Mapping[tuple[str, ...], tuple[str, str]]) -> set[str] | None:
    """Return the granules of all rows that satisfy `predicate`; None if the rows may be in any granule."""
    if isinstance(predicate, Constant):
        return None if predicate.value else set()
    if isinstance(predicate, And):
        confined = [found for child in predicate.children if (found := _pinned(child, columns)) is not None]
        return min(confined, key=len, default=None)
    if isinstance(predicate, Or):
        either = [_pinned(child, columns) for child in predicate.children]
        return None if None in either else set().union(*(each for each in either if each))
    if isinstance(predicate, Comparison) and predicate.operator in ("=", "<=>"):
        return _granules(predicate.column, (predicate.value,), columns)
    if isinstance(predicate, In):
        return _granules(predicate.column, predicate.values, columns)
    if isinstance(predicate, IsNull) and predicate.column in columns:
        return {granule(columns[predicate.column][0], None)}
    return None


def _granules(
    column: tuple[str, ...], values: Sequence[Value], columns: Mapping[tuple[str, ...], tuple[str, str]]
) -> set[str] | None:
    if column not in columns:
        return None
    name, kind = columns[column]
    texts = [_text(value, kind) for value in values]
    # An empty text is stored as null and matches no value. Other engines may read it as empty.
    return None if None in texts or "" in texts else {granule(name, text) for text in texts}


def _text(value: Value, kind: str) -> str | None:
    """Return the value in the form of `partitionValues`; None for a value of another type."""
    is_kind = isinstance(value, _KINDS[kind]) and isinstance(value, bool) == (kind == "boolean")
    if not is_kind or isinstance(value, dt.datetime):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, dt.date) else str(value)
