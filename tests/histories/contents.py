"""What data files of the recorded runs hold: rows of a partition, a key, and the values of its list."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tests.transaction.tables import schema

JSON, PARQUET = "json", "parquet"
"""Files that only these tests read, quickly; and those that Spark writes and reads, too."""
SCHEMAS = {
    JSON: schema({"p": "string", "k": "string"}),
    PARQUET: schema(
        {
            "p": "string",
            "k": "string",
            "vs": {"type": "array", "elementType": "string", "containsNull": True},
            "at_ms": "long",
        }
    ),
}
_COLUMNS = pa.schema({"k": pa.string(), "vs": pa.list_(pa.string()), "at_ms": pa.int64()})


def encoded(form: str, partition: str, key: str, values: Sequence[str], stamp_ms: int | None) -> bytes:
    """A file of one row; `stamp_ms` is what its writer was told as the time."""
    if form == JSON:
        return orjson.dumps({"partition": partition, "key": key, "values": values, "stamp_ms": stamp_ms})
    data = io.BytesIO()
    pq.write_table(pa.table([[key], [values], [stamp_ms]], schema=_COLUMNS), data)
    return data.getvalue()


def decoded(path: str, data: bytes) -> list[dict[str, Any]]:
    """The rows of the file at `path`, which names its partition, in their order."""
    if path.endswith(".json"):
        return [orjson.loads(data)]
    partition = path.partition("p=")[2].partition("/")[0]
    # As one file: the path says nothing to the reader.
    rows = pq.ParquetFile(io.BytesIO(data)).read(["k", "vs", "at_ms"]).to_pylist()
    return [{"partition": partition, "key": row["k"], "values": row["vs"], "stamp_ms": row["at_ms"]} for row in rows]
