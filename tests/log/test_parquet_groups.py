"""The footer as it is read here says what pyarrow's own reader of it says, and damage in it is an error."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import CorruptCheckpoint
from slackwater.log.checkpoint import count_rows
from slackwater.log.parquet_groups import open_parquet
from slackwater.log.snapshot import LogSnapshot
from tests.log.tables import CHECKPOINT_SCHEMA, DEFAULT, TableLog, add, parquet, remove

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
        for leaf, column in enumerate(group.columns):
            theirs = metadata.row_group(number).column(leaf)
            assert column.uncompressed_bytes == theirs.total_uncompressed_size
            known = theirs.statistics is not None and theirs.statistics.has_null_count
            assert column.null_count == (theirs.statistics.null_count if known else None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1" * 3,
        b"PAR1" + b"\0" * 60 + b"\xff\xff\xff\x7fPAR1",
        b"PAR1" + b"\x19\xfc\xff\xff\xff\xff\x07" + b"\x07\0\0\0PAR1",
        b"PAR1" + b"\x1c" * 90 + b"\x5a\0\0\0PAR1",
        b"PAR1" + b"\x15" + b"\xff" * 20 + b"\x15\0\0\0PAR1",
    ],
)
def test_a_footer_that_is_none_is_damage(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"Parquet file|footer|nested|too long"):
        open_parquet(pa.BufferReader(data))


def test_a_column_that_is_described_as_another_type_is_damage_and_does_not_end_the_process() -> None:
    log = TableLog().create(add("f0"))
    whole = parquet([*DEFAULT, add("f0"), remove("f1")], CHECKPOINT_SCHEMA)
    path = log.put("00000000000000000000.checkpoint.parquet", whole)
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    # The place where the first column says of what type it is: field 1 of its metadata, an INT64 or a text.
    described = whole.index(b"\x1c\x15\x0c", start)
    log.put("00000000000000000000.checkpoint.parquet", whole[: described + 2] + b"\x00" + whole[described + 3 :])
    assert count_rows(log.store, path) == 4
    try:
        assert LogSnapshot.open(log.store).live_files(["path"]).num_rows == 1
    except CorruptCheckpoint as error:
        assert path in str(error)  # noqa: PT017  (whether pyarrow minds the column is its own affair)
