"""A staged file is written once more with ids on what its arrays and maps hold; all else stays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.protocol.schema.schema import INTEGER, LONG, STRING, ArrayType, MapType, StructField, StructType
from slackwater.storage.open import open_store
from slackwater.storage.parquet_footer import open_parquet
from slackwater.transaction.table.nested_field_ids import with_nested_field_ids

_IDS = "parquet.field.nested.ids"
_SCHEMA = StructType(
    (
        StructField("i", LONG),
        StructField("l", ArrayType(INTEGER, True), metadata={_IDS: {"l.element": 5}}),
        StructField("m", MapType(STRING, LONG, True), metadata={_IDS: {"m.key": 6, "m.value": 7}}),
    )
)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_a_file_keeps_rows_and_codec_and_gets_ids(codec: str, tmp_path: Path) -> None:
    columns = {"i": pa.int64(), "l": pa.list_(pa.int32()), "m": pa.map_(pa.string(), pa.int64())}
    table = pa.Table.from_pylist([{"i": 1, "l": [1, None], "m": [("a", 1)]}, {"i": 2}], pa.schema(columns))
    with pq.ParquetWriter(tmp_path / "f.parquet", table.schema, compression=codec) as writer:
        writer.add_key_value_metadata({"org.apache.spark.version": "4.3.0"})
        writer.write_table(table, row_group_size=1)
    finish = with_nested_field_ids(_SCHEMA, "none")
    assert finish is not None
    finish(open_store(str(tmp_path)), "f.parquet")
    file, groups = open_parquet(pa.OSFile(str(tmp_path / "f.parquet")))
    with file:
        assert file.read().to_pylist() == table.to_pylist()
        found = str(file.metadata.schema)
        assert file.metadata.metadata[b"org.apache.spark.version"] == b"4.3.0"
        kept = [file.metadata.row_group(number).column(0).compression for number in range(len(groups))]
    assert kept == [codec.upper().replace("NONE", "UNCOMPRESSED")] * 2
    assert all(f"field_id={number}" in found for number in (5, 6, 7))
