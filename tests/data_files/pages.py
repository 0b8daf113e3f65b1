"""The versions of the data pages of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

_VERSIONS = {b"\x15\x00": 1, b"\x15\x06": 2}
"""The first field of a page's header in Thrift, the type of the page: DATA_PAGE and DATA_PAGE_V2."""


def page_versions(*files: Path | str) -> set[int]:
    """The versions of the first data page of each column."""
    found: set[int] = set()
    for file in files:
        metadata = pq.read_metadata(file)
        data = Path(file).read_bytes()
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                at = metadata.row_group(group).column(column).data_page_offset
                found.add(_VERSIONS[data[at : at + 2]])
    return found
