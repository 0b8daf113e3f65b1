"""Rows in a bucket: `storage_options` reach the log and the data files."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slackwater
from tests.stores.servers import lenient_s3

ROWS = pa.table({"id": range(4), "part": ["a", "b / ü", "a", None]})


def test_rows_are_written_and_deleted_in_a_bucket() -> None:
    pytest.importorskip("moto")
    with lenient_s3() as place:
        at, options = f"{place.url}/a b/rows", place.options
        slackwater.write(at, ROWS, partition_by="part", storage_options=options)
        slackwater.write(at, ROWS, "append", storage_options=options)
        slackwater.delete(at, "id = 2", storage_options=options)
        slackwater.write(at, ROWS.slice(1, 1), "overwrite", predicate="part = 'b / ü'", storage_options=options)
        found = slackwater.Snapshot.load(at, storage_options=options).to_arrow()
    assert sorted(found.to_pylist(), key=repr) == sorted(
        [row for row in ROWS.to_pylist() * 2 if row["id"] in (0, 3)] + [ROWS.to_pylist()[1]], key=repr
    )
