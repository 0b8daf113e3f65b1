"""The footer as it is read here says what pyarrow's own reader of it says, and damage in it is an error."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import CheckpointFallbackWarning, CorruptCheckpoint
from slackwater.log.files.checkpoint import count_rows
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.stats.footers import stats_leaves, stats_of_footer
from slackwater.storage.parquet_footer import open_parquet, read_footer
from tests.log.tables import CHECKPOINT_SCHEMA, DEFAULT, TableLog, add, parquet, remove
from tests.storage.footers import FLOAT, I64, column, element, footer

_COLUMNS = {
    "list": pa.array([[1], None, []], pa.list_(pa.int8())),
    "nested": pa.array([{"a": {"b": 1.5}}, {"a": None}, None], pa.struct([("a", pa.struct([("b", pa.float64())]))])),
    "text": ["x" * 5000, None, ""],
    "whole": [2**62, -1, None],
}


@pytest.mark.parametrize("statistics", [True, False, ["text"]])
@pytest.mark.parametrize(
    "table",
    [
        pa.table(_COLUMNS),
        pa.table({"a": pa.array([], pa.int32())}),
        pa.table({f"c{number}": range(40) for number in range(20)}),
    ],
)
def test_row_groups_are_what_pyarrow_says(table: pa.Table, statistics: bool | list[str]) -> None:
    buffer = io.BytesIO()
    wanted = statistics if isinstance(statistics, bool) or "text" in table.column_names else True
    pq.write_table(table, buffer, row_group_size=2, write_statistics=wanted)
    metadata = pq.ParquetFile(io.BytesIO(buffer.getvalue())).metadata
    file, found = open_parquet(pa.BufferReader(buffer.getvalue()))
    assert file.read().equals(table)
    assert [group.num_rows for group in found] == [
        metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
    ]
    for number, group in enumerate(found):
        for leaf, chunk in enumerate(group.columns):
            theirs = metadata.row_group(number).column(leaf)
            assert chunk.uncompressed_bytes == theirs.total_uncompressed_size
            known = theirs.statistics is not None and theirs.statistics.has_null_count
            assert chunk.null_count == (theirs.statistics.null_count if known else None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1" * 3,
        b"PAR1" + b"\0" * 60 + b"\xff\xff\xff\x7fPAR1",
        b"PAR1" + b"\x19\xfc\xff\xff\xff\xff\x07" + b"\x07\0\0\0PAR1",
        b"PAR1" + b"\x15" + b"\xff" * 20 + b"\x15\0\0\0PAR1",
    ],
)
def test_a_footer_that_is_none_is_damage(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"Parquet file|footer|too long"):
        open_parquet(pa.BufferReader(data))


@pytest.mark.parametrize("inner", [b"\x1c", b"\x19"])
def test_structs_and_lists_without_end_are_damage(inner: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        read_footer(pa.BufferReader(b"PAR1" + inner * 5000 + b"\x88\x13\0\0PAR1"))


def test_a_column_that_is_described_as_another_type_is_damage_and_does_not_end_the_process() -> None:
    log = TableLog().create(add("f0"))
    whole = parquet([*DEFAULT, add("f0"), remove("f1")], CHECKPOINT_SCHEMA)
    path = log.put("00000000000000000000.checkpoint.parquet", whole)
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    # The place where the first column says of what type it is: field 1 of its metadata, an INT64 or a text.
    described = whole.index(b"\x1c\x15\x0c", start)
    log.put("00000000000000000000.checkpoint.parquet", whole[: described + 2] + b"\x00" + whole[described + 3 :])
    with pytest.raises(CorruptCheckpoint, match=f"{path} .*: a column is of type 0, in the schema of type 6"):
        count_rows(log.store, path)
    with pytest.warns(CheckpointFallbackWarning, match="of type 0"):
        assert LogSnapshot.open(log.store).live_files(["path"]).num_rows == 1


def _stats(source: pa.BufferReader) -> dict[str, Any]:
    """The statistics of the file but for what is the same in all."""
    leaves = stats_leaves(StructType((StructField("c", LONG),)), "none", (), {})
    stats: dict[str, Any] = json.loads(stats_of_footer(read_footer(source), leaves))
    assert (stats.pop("numRecords"), stats.pop("tightBounds")) == (2, True)
    return stats


_ALL = {"minValues": {"c": 3}, "maxValues": {"c": 7}, "nullCount": {"c": 0}}
_COUNT = {"nullCount": {"c": 0}}


# pyarrow ends the process where it is asked for the columns of all but the first and the last.
@pytest.mark.parametrize(
    ("source", "stats"),
    [
        (footer(column()), _ALL),
        (footer(column(histogram=[1, 1, 1])), _ALL),
        (footer(column(text_bytes=9)), _ALL),
        (footer(column(is_encrypted=True)), _ALL),
        (footer(column(low=b"")), _COUNT),
        (footer(column(high=b"1234567")), _COUNT),
        (footer(column(), is_ordered=False), _COUNT),
    ],
)
def test_what_a_footer_says_of_a_column_is_read_without_pyarrow(source: pa.BufferReader, stats: dict[str, Any]) -> None:
    assert _stats(source) == stats


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (footer(column(type=FLOAT)), "of type 4, in the schema of type 2"),
        (footer(column(), column()), "must have 1 columns, found 2"),
        (footer(), "must have 1 columns, found 0"),
        (footer(column(size=-1)), "field 6 must be a count, found -1"),
        (footer(column(), rows=3), "records 3 rows"),
        (footer(column(), rows=-2, group_rows=-2), "field 3 must be a count, found -2"),
        (footer(column(), schema=[element("root", children=2), element("c")]), "not enough elements"),
        (footer(column(), schema=[element("root", children=-1), element("c")]), "field 5 must be a count"),
        (footer(column(), schema=[*[element("g", children=1)] * 100_000, element("c")]), "nested too deep"),
    ],
)
def test_a_footer_that_contradicts_itself_is_damage(source: pa.BufferReader, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_footer(source)


def test_of_an_encrypted_file_the_footer_tells_the_rows_and_no_more() -> None:
    source = footer({2: (I64, 4)}, is_encrypted=True)
    assert read_footer(source).row_groups == ()
    assert _stats(source) == {}
    with pytest.raises(ValueError, match="it is encrypted"):
        open_parquet(source)


def test_a_writer_whose_name_is_no_text_is_one_that_nobody_knows() -> None:
    assert _stats(footer(column(), created_by=b"\xff")) == _ALL
