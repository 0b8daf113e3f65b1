"""Row group skipping by the statistics in a Parquet footer.

A row group is treated like a file: the footer provides the same statistics, and the same proofs apply.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from slackwater.predicate.predicate import Predicate, columns_of
from slackwater.protocol.features.column_mapping import ID
from slackwater.protocol.schema.schema import (
    VOID,
    ColumnPath,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from slackwater.stats.file_stats import StatsColumns
from slackwater.stats.footers import stats_of_row_groups
from slackwater.stats.skipping import may_match
from slackwater.stats.stats_columns import StatsLeaf, StatsLeaves, leaf_columns
from slackwater.storage.parquet_footer import ParquetFooter


@dataclass(frozen=True, slots=True)
class RowGroupTest:
    """A filter on the rows of a table, with the physical names of its columns. Spark sends it to the tasks.

    `leaves` are the columns by display path and in their physical form, columns of one struct together. `by_id` is that
    of `StatsLeaves`. Filters on other columns exclude no row group.
    """

    predicate: Predicate
    leaves: tuple[tuple[ColumnPath, StatsLeaf], ...]
    by_id: bool = False

    @staticmethod
    def of(
        predicate: Predicate, schema: StructType, mode: str, partition_columns: Collection[str]
    ) -> RowGroupTest | None:
        """Return the test for `predicate` on a table with `schema` and the column mapping `mode`.

        None if the predicate references no column with plain values in files.
        """
        wanted = columns_of(predicate)
        top = {path[0] for path in wanted}.difference(partition_columns)
        held = leaf_columns(StructType(tuple(column for column in schema if column.name in top)), mode)
        leaves = tuple((path, leaf) for path, leaf in held if path in wanted and _is_plain(leaf.type))
        return RowGroupTest(predicate, leaves, mode == ID) if leaves else None

    def may_match(self, footer: ParquetFooter) -> list[bool]:
        """Return for each row group whether a row may make the predicate true. False is a proof."""
        columns = StatsLeaves(tuple(leaf for _, leaf in self.leaves), by_id=self.by_id)
        texts = pa.array(stats_of_row_groups(footer, columns), pa.string())
        names = {path: leaf.path for path, leaf in self.leaves}
        schema = _struct_of([(path, leaf.type) for path, leaf in self.leaves])
        stats = StatsColumns(pa.table({"stats": texts}), schema, physical_names=names)
        found: list[bool] = may_match(self.predicate, stats).to_pylist()
        return found


def _is_plain(data_type: DataType) -> bool:
    return isinstance(data_type, (PrimitiveType, DecimalType)) and data_type != VOID


def _struct_of(leaves: Sequence[tuple[ColumnPath, DataType]]) -> StructType:
    """Return the schema with exactly these leaf columns, without field metadata."""
    fields = []
    for name, found in groupby(leaves, key=lambda leaf: leaf[0][0]):
        inside = [(path[1:], data_type) for path, data_type in found]
        fields.append(StructField(name, _struct_of(inside) if inside[0][0] else inside[0][1]))
    return StructType(tuple(fields))
