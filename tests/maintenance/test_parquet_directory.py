"""Which files are plain Parquet, and would be hidden by a table that is made beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument
from slackwater.maintenance.parquet_directory import require_no_plain_files
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore

OURS = "part-00000-1b4e28ba-2fa1-11d2-883f-0016d3cca427-c000.snappy.parquet"
JOB = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
PLAIN = [
    [OURS, "_SUCCESS"],
    [f"p=1/{OURS}", f"p=2/{OURS}", "_SUCCESS"],
    [OURS, "_spark_metadata/0"],
    [OURS, "_committed_4711"],
    ["flights.parquet"],
    ["p=1/part-0.parquet"],
    [f"month=3/{OURS}", "month=4/export 'ä'.parquet", "_delta_log/_staged_commits/x"],
]
OTHER = [
    [],
    # A table of which only the log is gone, and a first write that was killed, or goes on.
    [OURS],
    [f"p=1/{OURS}", "_change_data/part-1.parquet"],
    [f"{JOB}/{OURS}", f"{JOB}/_SUCCESS"],
    ["_hidden.parquet", ".hidden/part-0.parquet"],
    ["readme.md", "rows.csv", "_SUCCESS"],
]


def _place(root: Path, files: list[str]) -> ObjectStore:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return open_store(str(root))


@pytest.mark.parametrize("files", PLAIN, ids=lambda files: files[0])
def test_plain_parquet_files_are_told_by_name_with_what_to_do(tmp_path: Path, files: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="convertToDelta") as caught:
        require_no_plain_files(_place(tmp_path, files))
    assert str(tmp_path) in str(caught.value)
    assert any(f"({name})" in str(caught.value) for name in files if name.endswith(".parquet"))
    assert caught.value.error_class == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"


@pytest.mark.parametrize("files", OTHER, ids=str)
def test_what_writers_of_tables_leave_is_in_nobodys_way(tmp_path: Path, files: list[str]) -> None:
    require_no_plain_files(_place(tmp_path, files))
