"""Row sources: converts tables and frames of other libraries to a stream of Arrow batches.

Source: Arrow's PyCapsule interface (`__arrow_c_stream__`, `__arrow_c_array__`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from slackwater.errors import InvalidArgument, WrongArgumentType

RowData: TypeAlias = Any
"""Rows of a user: Arrow, pandas, Polars, a DuckDB relation, batches, or an object with Arrow's stream interface."""

BATCH_ROWS = 1 << 17
"""The maximum number of rows of a batch."""

_KINDS = (
    "a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame, a Polars LazyFrame, a DuckDB "
    "relation, an iterable of RecordBatches, or an object with __arrow_c_stream__"
)


@dataclass(frozen=True)
class RowSource:
    """Rows with their schema. `open` starts a stream of batches with at most BATCH_ROWS rows.

    A source that is not `replayable` is opened once.
    """

    schema: pa.Schema
    open: Callable[[], Iterator[pa.RecordBatch]]
    replayable: bool


def row_source(data: RowData) -> RowSource:
    """Return the rows of `data` as a source. Large data is not copied as a whole.

    Raises:
        WrongArgumentType: If `data` is none of the supported types.
        InvalidArgument: If `data` is an iterable without a batch, so that its columns are unknown.
    """
    known = _of_arrow(data) or _of_frame(data)
    if known is not None:
        return known
    if hasattr(data, "__arrow_c_stream__"):
        return _of_reader(pa.RecordBatchReader.from_stream(data))
    if hasattr(data, "__arrow_c_array__"):
        return _of_table(pa.Table.from_batches([pa.record_batch(data)]))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        return _of_iterable(data)
    raise WrongArgumentType(f"the rows must be {_KINDS}, found {type(data).__name__}")


def _of_arrow(data: RowData) -> RowSource | None:
    if isinstance(data, pa.Table):
        return _of_table(data)
    if isinstance(data, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([data]))
    return _of_reader(data) if isinstance(data, pa.RecordBatchReader) else None


def _of_frame(data: RowData) -> RowSource | None:
    """Return the source of a frame of pandas, Polars or DuckDB, recognized without importing the library."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if (library, kind) == ("pandas", "DataFrame"):
        return _of_table(pa.Table.from_pandas(data, preserve_index=False))
    if (library, kind) == ("polars", "DataFrame"):
        return _of_table(data.to_arrow())
    if (library, kind) == ("polars", "LazyFrame"):
        return _of_lazy(data)
    if hasattr(data, "to_arrow_reader"):
        return _of_reader(data.to_arrow_reader(BATCH_ROWS))
    return None


def _of_table(table: pa.Table) -> RowSource:
    schema = table.schema.remove_metadata()
    return RowSource(schema, lambda: iter(table.to_batches(max_chunksize=BATCH_ROWS)), replayable=True)


def _of_reader(reader: pa.RecordBatchReader) -> RowSource:
    return RowSource(reader.schema, lambda: _sliced(reader), replayable=False)


def _of_lazy(frame: Any) -> RowSource:
    schema = frame.clear().collect().to_arrow().schema

    def batches() -> Iterator[pa.RecordBatch]:
        # Older releases of Polars have no iterator of batches.
        parts = frame.collect_batches() if hasattr(frame, "collect_batches") else [frame.collect()]
        for part in parts:
            yield from part.to_arrow().to_batches(max_chunksize=BATCH_ROWS)

    return RowSource(schema, batches, replayable=True)


def _of_iterable(data: Iterable[Any]) -> RowSource:
    batches = iter(data)
    first = next(batches, None)
    if first is None:
        raise InvalidArgument(
            "the iterable of batches is empty, so its columns are unknown. Pass a pyarrow.RecordBatchReader, which has "
            "a schema"
        )
    schema = _batch(first).schema

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        for found in batches:
            batch = _batch(found)
            if batch.schema != schema:
                raise InvalidArgument(
                    f"the batches have different columns: {_columns(schema)}, and later {_columns(batch.schema)}. Give "
                    "all batches the schema of the first"
                )
            yield batch

    return RowSource(schema, lambda: _sliced(all_batches()), replayable=False)


def _batch(found: Any) -> pa.RecordBatch:
    if not isinstance(found, pa.RecordBatch):
        raise WrongArgumentType(f"the rows must be {_KINDS}, found an iterable of {type(found).__name__}")
    return found


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "none"


def _sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)
