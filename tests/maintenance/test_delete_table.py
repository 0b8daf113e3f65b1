"""A table is deleted with all that its writers left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import slackwater
from slackwater.data_files.writer import FileFormat, LocalFile
from slackwater.maintenance.delete_table import delete_all
from slackwater.storage import open_store


def test_files_of_killed_writers_are_deleted_too(tmp_path: Path) -> None:
    at = tmp_path / "t"
    slackwater.write(at, pa.table({"id": [1, 2]}))
    store = open_store(at)
    for directory in ("", ".slackwater-1/rows"):
        LocalFile(store, directory, FileFormat(pa.schema({"id": pa.int64()})), ())
    assert len(list(at.rglob(".slackwater-*.tmp"))) == 2
    listed = [meta.path for meta in store.list_from("", recursive=True)]
    assert delete_all(store) == len(listed)
    assert not at.exists()
