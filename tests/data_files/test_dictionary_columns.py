"""Which columns have a dictionary: those of few distinct values, and all that are no plain numbers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.data_files.dictionary_columns import dictionary_columns
from slackwater.data_files.writer import FileFormat, write_rows
from slackwater.storage import open_store

_ROWS = 1 << 17
_NESTED = [{"a": n, "b": [n], "c": [(str(n), n)]} for n in range(8)]


def _rows(count: int = _ROWS) -> pa.Table:
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64())), ("c", pa.map_(pa.string(), pa.int64()))])
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "small": pa.array([n % 100 for n in range(count)], pa.int32()),
            "x": pa.array([n / 7 for n in range(count)], pa.float32()),
            "name": pa.array([str(n % 1000) for n in range(count)]),
            "at": pa.array(range(count), pa.int64()).cast(pa.timestamp("us")),
            "nested": pa.array([_NESTED[n % 8] for n in range(count)], kind),
        }
    )


def test_numbers_that_are_nearly_all_distinct_have_no_dictionary() -> None:
    assert dictionary_columns(_rows()) == [
        "small",
        "name",
        "nested.a",
        "nested.b.list.element",
        "nested.c.key_value.key",
        "nested.c.key_value.value",
    ]


@pytest.mark.parametrize(
    "rows", [_rows(1000), _rows().select(["small", "name"]), _rows().rename_columns([*"abcde", "x.y"])]
)
def test_all_columns_have_one_where_that_is_not_known_to_be_wrong(rows: pa.Table) -> None:
    assert dictionary_columns(rows) is True


def test_files_are_written_with_these_dictionaries(tmp_path: Path) -> None:
    rows = _rows()
    (file,) = write_rows(rows.to_batches(), open_store(tmp_path), "new", FileFormat(rows.schema))
    found = pq.ParquetFile(tmp_path / file.path)
    group = found.metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    plain = {column.path_in_schema for column in columns if "RLE_DICTIONARY" not in column.encodings}
    assert plain == {"id", "x", "at"}
    assert found.read().equals(rows)
