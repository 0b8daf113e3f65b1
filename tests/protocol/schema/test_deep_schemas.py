"""Schemas that are nested deeply, and files that have them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import InvalidSchema
from slackwater.protocol.schema.schema import INTEGER, DataType, StructField, StructType, parse_schema, schema_to_json
from slackwater.storage.parquet_footer import open_parquet


def nested(levels: int) -> StructType:
    kind: DataType = INTEGER
    for _ in range(levels):
        kind = StructType((StructField("a", kind),))
    assert isinstance(kind, StructType)
    return kind


@pytest.mark.parametrize("levels", [84, 85, 100, 150])
def test_a_schema_of_many_levels_is_written_and_parsed(levels: int) -> None:
    text = schema_to_json(nested(levels))
    assert text.count('"struct"') == levels
    assert schema_to_json(parse_schema(text)) == text


def test_a_schema_of_too_many_levels_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        schema_to_json(nested(5_000))


@pytest.mark.parametrize("levels", [98, 99, 200])
def test_a_file_of_many_levels_is_read(levels: int) -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(levels):
        kind = pa.struct([("a", kind)])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": pa.nulls(3, kind)}), sink, store_schema=False)
    file, groups = open_parquet(pa.BufferReader(sink.getvalue()))
    assert [group.num_rows for group in groups] == [3]
    assert file.read().column("c").to_pylist() == [None] * 3
