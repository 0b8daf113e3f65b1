"""What rows may be: Arrow in all its forms, frames of other libraries, streams."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import InvalidArgument, WrongArgumentType
from slackwater.rows.sources import BATCH_ROWS, row_source

ROWS = pa.table({"id": pa.array([1, 2, None], pa.int64()), "name": ["a", None, "c"]})


class Capsule:
    """An object with nothing but Arrow's stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class ArrayCapsule:
    """An object with nothing but Arrow's array interface."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._batch.__arrow_c_array__(requested_schema)


def _pandas(table: pa.Table) -> Any:
    pytest.importorskip("pandas")
    return table.to_pandas(integer_object_nulls=True)


def _polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def _duckdb(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(table)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(),
    "list": lambda table: table.to_batches(),
    "generator": lambda table: iter(table.to_batches()),
    "capsule": Capsule,
    "array": lambda table: ArrayCapsule(table.combine_chunks().to_batches()[0]),
    "pandas": _pandas,
    "polars": _polars,
    "lazy": lambda table: _polars(table).lazy(),
    "duckdb": _duckdb,
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_kind_are_written(kind: str) -> None:
    at = f"memory://{uuid.uuid4()}"
    slackwater.write(at, KINDS[kind](ROWS))
    snapshot = slackwater.Snapshot.load(at)
    assert [str(column.type) for column in snapshot.schema] == ["long", "string"]
    assert snapshot.to_arrow().to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("kind", ["table", "pandas", "polars", "lazy"])
def test_frames_can_be_read_again(kind: str) -> None:
    source = row_source(KINDS[kind](ROWS))
    assert source.replayable
    assert [sum(batch.num_rows for batch in source.open()) for _ in range(2)] == [3, 3]


@pytest.mark.parametrize("kind", ["table", "reader", "list", "capsule", "polars", "lazy", "duckdb"])
def test_batches_are_bounded(kind: str) -> None:
    many = pa.table({"id": range(2 * BATCH_ROWS + 1)})
    counts = [batch.num_rows for batch in row_source(KINDS[kind](many)).open()]
    assert sum(counts) == many.num_rows
    assert max(counts) <= BATCH_ROWS


@pytest.mark.parametrize("data", [5, "text", {"id": [1]}, None])
def test_other_values_are_refused(data: Any) -> None:
    with pytest.raises(WrongArgumentType, match="the rows must be a pyarrow Table"):
        slackwater.write(f"memory://{uuid.uuid4()}", data)


def test_an_iterable_of_something_else_is_refused() -> None:
    with pytest.raises(WrongArgumentType, match="found an iterable of dict"):
        row_source([{"id": 1}])


def test_an_empty_iterable_has_no_columns() -> None:
    with pytest.raises(InvalidArgument, match="is empty, so its columns are unknown"):
        row_source([])


def test_batches_of_other_columns_are_refused_and_nothing_is_written() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        yield pa.record_batch({"id": ["x"]})

    at = f"memory://{uuid.uuid4()}"
    with pytest.raises(InvalidArgument, match="the batches have different columns: id int64, and later id string"):
        slackwater.write(at, batches())
    with pytest.raises(slackwater.errors.TableNotFound):
        slackwater.Snapshot.load(at)


def test_the_index_of_pandas_is_left_out_and_its_nans_are_null() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, float("nan")]}, index=["a", "b"])
    at = f"memory://{uuid.uuid4()}"
    slackwater.write(at, frame)
    assert slackwater.Snapshot.load(at).to_arrow().to_pylist() == [{"x": 1.0}, {"x": None}]
