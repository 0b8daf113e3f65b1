"""Verifies statistics in the log against Parquet footers.

Bounds of whole numbers and dates must include the bounds of the file. Bounds of text, decimals and doubles may be less
exact: only contradictory bounds are a fault. Bounds of times and 32-bit floats are not checked.
Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pyarrow as pa

from slackwater.errors import SlackwaterError
from slackwater.log.table import Table
from slackwater.maintenance.verify.findings import FaultKind, Findings
from slackwater.protocol.features.column_mapping import ID
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.stats.footers import parquet_footer, stats_of_footer
from slackwater.stats.stats_columns import StatsLeaf, StatsLeaves, leaf_columns
from slackwater.storage.path_guard import open_resolved

_THREADS = 16
_EXACT = ("byte", "short", "integer", "long", "date")
_LOOSE = ("string", "double", "decimal")
# Bounds of a former 32-bit float column have fewer digits.
_TOLERANCE = 1e-6
_WHOLE_TEXTS = 1_000_000


def verify_statistics(
    table: Table, configuration: TableConfiguration, files: pa.Table, places: Sequence[str | None], findings: Findings
) -> None:
    """Verify the `stats` of `files` against the footers at `places`. None in `places` skips a file."""
    mode = configuration.column_mapping_mode
    partitions = frozenset(configuration.metadata.partition_columns)
    columns = [leaf for path, leaf in leaf_columns(configuration.schema, mode) if path[0] not in partitions]
    leaves = StatsLeaves(tuple(columns), _WHOLE_TEXTS, mode == ID)
    rows = [
        (path, place, stats, vector)
        for path, place, stats, vector in zip(
            files["path"].to_pylist(),
            places,
            files["stats"].to_pylist(),
            files["deletionVector"].is_valid().to_pylist(),
            strict=True,
        )
        if place is not None
    ]
    findings.looked("footers", len(rows))
    with ThreadPoolExecutor(_THREADS) as pool:
        for (path, _, said, has_vector), found in zip(
            rows, pool.map(lambda row: _proven(table, str(row[1]), leaves), rows), strict=True
        ):
            for says in [found] if isinstance(found, str) else _contradictions(said, found, leaves, has_vector):
                findings.fault(FaultKind.STATISTICS, path, says)


def _proven(table: Table, place: str, leaves: StatsLeaves) -> Mapping[str, Any] | str:
    """Return the statistics in the footer, or an error text if the footer cannot be read."""
    store, name = open_resolved(table.store, place)
    try:
        footer, _ = parquet_footer(store, name)
    except SlackwaterError as error:
        return str(error)
    proven: Mapping[str, Any] = orjson.loads(stats_of_footer(footer, leaves))
    return proven


def _contradictions(
    said: str | None, proven: Mapping[str, Any], leaves: StatsLeaves, has_vector: bool
) -> Iterator[str]:
    if said is None:
        return
    try:
        stats = orjson.loads(said)
    except ValueError:
        yield "its statistics are not JSON"
        return
    if not isinstance(stats, Mapping):
        yield "its statistics are not a JSON object"
        return
    rows = stats.get("numRecords")
    if rows is not None and rows != proven["numRecords"]:
        yield f"its statistics count {rows} rows, but the file has {proven['numRecords']}"
    # With deleted rows, statistics in the log may cover only the remaining rows.
    is_exact = not has_vector and stats.get("tightBounds", True) is not False
    for leaf in leaves.leaves:
        name = ".".join(leaf.path)
        nulls, found = _at(stats, "nullCount", leaf.path), _at(proven, "nullCount", leaf.path)
        if is_exact and None not in (nulls, found) and nulls != found:
            yield f"its statistics count {nulls} nulls in {name}, but the file has {found}"
        yield from _bounds_contradict(stats, proven, leaf, name, has_vector)


def _bounds_contradict(
    stats: Mapping[str, Any], proven: Mapping[str, Any], leaf: StatsLeaf, name: str, has_vector: bool
) -> Iterator[str]:
    kind = str(leaf.type).partition("(")[0]
    if not leaf.comparable or kind not in (*_EXACT, *_LOOSE):
        return
    low, high = _at(stats, "minValues", leaf.path), _at(stats, "maxValues", leaf.path)
    least, most = _at(proven, "minValues", leaf.path), _at(proven, "maxValues", leaf.path)
    if has_vector or kind in _LOOSE:
        least, most = most, least
    if _greater(low, least):
        yield f"its statistics record the minimum {low!r} for {name}, but the file has {least!r}"
    elif _greater(most, high):
        yield f"its statistics record the maximum {high!r} for {name}, but the file has {most!r}"


def _greater(one: Any, other: Any) -> bool:
    """Return whether `one` is certainly greater. False if a value is unknown or the types differ."""
    if one is None or other is None or isinstance(one, bool) or isinstance(other, bool):
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() > other.encode()
    if isinstance(one, int) and isinstance(other, int):
        return one > other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one > other and not math.isclose(one, other, rel_tol=_TOLERANCE)
    return False


def _at(stats: Mapping[str, Any], group: str, path: Sequence[str]) -> Any:
    node = stats.get(group)
    for name in path:
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    return None if isinstance(node, Mapping) else node
