"""Reads the JSON statistics of many files at once, only the columns that are asked for.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.protocol.schema.schema import DataType, DecimalType, to_arrow_type
from slackwater.stats.json_structs import plant, read_json_structs, struct_of

BOUND_GROUPS = ("minValues", "maxValues")


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """A leaf column whose statistics are wanted: its physical path and its type."""

    path: tuple[str, ...]
    type: DataType


def wire_type(data_type: DataType) -> pa.DataType | None:
    """The Arrow type in which a bound of `data_type` stands in JSON; None where bounds have no agreed form there."""
    arrow = to_arrow_type(data_type)
    if pa.types.is_integer(arrow):
        return pa.int64()
    if pa.types.is_temporal(arrow) or pa.types.is_string(arrow):
        return pa.string()
    return arrow if isinstance(data_type, DecimalType) or str(data_type) in ("float", "double", "boolean") else None


def read_stats(texts: pa.Array, leaves: Sequence[StatsColumn]) -> pa.Array:
    """One struct per element of `texts`, null where the text is null: the `stats` struct of the spec with only
    numRecords, tightBounds and the `leaves`, bounds in their `wire_type`.

    What cannot be read is null: one malformed text costs the statistics of its own file, one odd value its own field.
    """
    return read_json_structs(texts, _stats_type(leaves))


def _stats_type(leaves: Sequence[StatsColumn]) -> pa.DataType:
    tree: dict[str, Any] = {"numRecords": pa.int64(), "tightBounds": pa.bool_()}
    for leaf in leaves:
        bound = wire_type(leaf.type)
        for group in BOUND_GROUPS if bound is not None else ():
            plant(tree, (group, *leaf.path), bound)
        plant(tree, ("nullCount", *leaf.path), pa.int64())
    return struct_of(tree)
