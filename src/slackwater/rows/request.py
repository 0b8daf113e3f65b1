"""Parameters of a write of rows, and their validation.

Source: the modes of delta-spark's DataFrameWriter; deltalake's `write_deltalake`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import orjson

from slackwater.data_files.row_filter import require_decidable
from slackwater.errors import InvalidArgument, WrongArgumentType
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.public_snapshot import Snapshot as PublicSnapshot
from slackwater.scan.snapshot import Snapshot

APPEND, OVERWRITE, ERROR, IGNORE = "append", "overwrite", "error", "ignore"
MERGE = "merge"
_MODE_NAMES = {APPEND: "Append", OVERWRITE: "Overwrite", ERROR: "ErrorIfExists", IGNORE: "Ignore"}


@dataclass(frozen=True)
class WriteRequest:
    """The parameters of `slackwater.write`. `partition_by` is None for the partition columns of the table."""

    mode: str
    partition_by: tuple[str, ...] | None = None
    schema_mode: str | None = None
    predicate: str | Predicate | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    user_metadata: str | None = None

    @property
    def merges_schema(self) -> bool:
        """Return whether new columns of the data are added to the table."""
        return self.schema_mode == MERGE

    @property
    def overwrites_schema(self) -> bool:
        """Return whether the columns of the data replace those of the table."""
        return self.schema_mode == OVERWRITE

    def parameters(self) -> dict[str, str]:
        """Return the operation parameters for the table history."""
        said = {"mode": _MODE_NAMES[self.mode], "partitionBy": orjson.dumps(self.partition_by or ()).decode()}
        switches = {"canOverwriteSchema": self.overwrites_schema, "canMergeSchema": self.merges_schema}
        said |= {name: "true" for name, is_on in switches.items() if is_on}
        return said if self.predicate is None else {**said, "predicate": condition_text(self.predicate)}


def write_request(
    mode: str,
    partition_by: str | Sequence[str] | None = None,
    schema_mode: str | None = None,
    predicate: str | Predicate | None = None,
    properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> WriteRequest:
    """Return the validated parameters of a write. Raises InvalidArgument for unknown or contradictory parameters."""
    if mode not in _MODE_NAMES:
        raise InvalidArgument(
            f"unknown write mode {mode!r}. Use one of {', '.join(_MODE_NAMES)}", error_class="DELTA_ILLEGAL_OPTION"
        )
    if schema_mode not in (None, MERGE, OVERWRITE):
        raise InvalidArgument(
            f"schema_mode is 'merge', 'overwrite' or None, found {schema_mode!r}", error_class="DELTA_ILLEGAL_OPTION"
        )
    for name, is_given in (("predicate", predicate is not None), ("schema_mode='overwrite'", schema_mode == OVERWRITE)):
        if is_given and mode != OVERWRITE:
            raise InvalidArgument(f"{name} needs mode overwrite, found mode {mode}", error_class="DELTA_ILLEGAL_USAGE")
    if predicate is not None and schema_mode == OVERWRITE:
        raise InvalidArgument(
            "schema_mode='overwrite' replaces the whole table, so it cannot be combined with a predicate. Use "
            "schema_mode='merge' to add columns",
            error_class="DELTA_ILLEGAL_USAGE",
        )
    columns = (partition_by,) if isinstance(partition_by, str) else partition_by
    return WriteRequest(
        mode,
        None if columns is None else tuple(columns),
        schema_mode,
        predicate,
        dict(properties or {}),
        user_metadata,
    )


def opened_table(
    table: str | os.PathLike[str] | PublicSnapshot, storage_options: Mapping[str, str] | None = None
) -> Table:
    """Return the table at a path or URL, which may not exist, or the table of a snapshot.

    Raises WrongArgumentType for another argument, and the errors of `Table.at`.
    """
    if isinstance(table, PublicSnapshot):
        return cast("Snapshot", table).table
    if not isinstance(table, (str, os.PathLike)):
        raise WrongArgumentType(f"the table must be a path, a URL or a Snapshot, found {type(table).__name__}")
    return Table.at(table, storage_options, follows_outside=True)


def row_predicate(condition: str | Predicate, schema: StructType) -> Predicate:
    """Return the predicate of a condition on rows. Raises InvalidArgument if only Spark evaluates the condition."""
    predicate = parse_predicate(condition, schema) if isinstance(condition, str) else condition
    require_decidable(predicate, "Use such a condition, or change the rows with Spark")
    return predicate


def condition_text(condition: str | Predicate) -> str:
    """Return the text of a condition for the table history."""
    return condition.strip() if isinstance(condition, str) else repr(condition)
