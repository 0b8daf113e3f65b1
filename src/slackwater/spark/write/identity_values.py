"""Values for identity columns, generated in the write plan: unique, on the grid, beyond the high-water mark.

Row i of partition p of n gets the value `start + (i * n + p) * step`. This needs no shuffle and no coordination. Values
have gaps if partitions differ in size. Source: delta-protocol.md "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.features.identity_columns import IdentityColumn, next_start
from slackwater.spark.write.row_checks import marked

_WIDE = "decimal(38,0)"
_LONGEST = 2**63 - 1
_ROW_BITS = 33


def with_bounded_partitions(spark: SparkSession, frame: DataFrame) -> tuple[DataFrame, int]:
    """Return `frame` with a bounded number of partitions, and the bound.

    Generated values are interleaved by the bound.
    """
    most = max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
    # The filter keeps Spark from replacing a smaller bound set by the user.
    return frame.filter(F.spark_partition_id() >= 0).coalesce(most), most


def identity_values(identity: IdentityColumn, partitions: int, token: str) -> Column:
    """Return the next values of the column, for a frame with at most `partitions` partitions.

    A value out of the range of long fails the job. `token` marks the error. Raises InvariantViolationException if the
    first value is out of range.
    """
    first = next_start(identity)
    row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << _ROW_BITS) - 1)).cast("decimal(20,0)")
    index = row * F.lit(partitions).cast("decimal(8,0)") + F.spark_partition_id().cast("decimal(8,0)")
    value = (index.cast("decimal(28,0)") * F.lit(identity.step).cast("decimal(20,0)")).cast(_WIDE)
    value = value + F.lit(first).cast("decimal(20,0)")
    overflow = F.raise_error(
        F.lit(
            f"{marked(token)}identity column {identity.name}: its values are used up (start {identity.start}, step "
            f"{identity.step}, high-water mark {identity.high_water_mark}). The next value does not fit into a long"
        )
    ).cast("long")
    low, high = F.lit(-_LONGEST - 1).cast(_WIDE), F.lit(_LONGEST).cast(_WIDE)
    return F.when(value.between(low, high), value.cast("long")).otherwise(overflow).alias(identity.name)


def generated_extremes(adds: Sequence[AddFile], columns: Sequence[tuple[IdentityColumn, str]]) -> dict[str, int]:
    """Return the last generated value of each column, in the direction of its step, by display name.

    `columns` are identity columns with their physical names. The bounds in the file statistics are exact.
    """
    extremes: dict[str, int] = {}
    stats = [orjson.loads(add.stats or "{}") for add in adds]
    for identity, physical in columns:
        group = "maxValues" if identity.step > 0 else "minValues"
        found = [bound for node in stats if (bound := node.get(group, {}).get(physical)) is not None]
        if found:
            extremes[identity.name] = max(found) if identity.step > 0 else min(found)
    return extremes
