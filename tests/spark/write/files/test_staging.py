"""Where Spark's files are while they are written, on a disk and in an object store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from slackwater.spark.write.files.staging import staging_for
from slackwater.storage import ObjectStore, open_store
from slackwater.storage.store import HIDDEN
from tests.contract.owners import eventually


@pytest.fixture(params=["disk", "store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return open_store(tmp_path / "t" if request.param == "disk" else f"memory://{uuid.uuid4()}")


def written(store: ObjectStore) -> list[str]:
    return [meta.path for meta in store.list_from("", recursive=True)]


@pytest.mark.parametrize("directory", ["", "_change_data"])
def test_what_is_kept_stays_and_nothing_else(store: ObjectStore, directory: str) -> None:
    with staging_for(store, directory) as staging:
        for name in ("p=1/a.parquet", "p=1/empty.parquet", "_SUCCESS"):
            store.put(f"{staging.rows}/{name}", b"x")
        path = f"{staging.rows}/p=1/a.parquet"
        final = staging.final_path(path, "p=1/a.parquet")
        staging.keep(path, final)
    assert written(store) == [final]
    assert final.startswith(directory)
    assert not final.startswith(HIDDEN)
    # A reader that leaves out hidden files would lose the rows.
    assert not any(part.startswith((".", "_")) for part in final.removeprefix(f"{directory}/").split("/"))


def test_nothing_is_left_of_what_failed(store: ObjectStore) -> None:
    def fail() -> None:
        with staging_for(store) as staging:
            store.put(f"{staging.rows}/a.parquet", b"x")
            raise KeyError("a task failed")

    with pytest.raises(KeyError):
        fail()
    assert written(store) == []


def test_nothing_is_left_of_a_task_that_went_on_after_its_job_failed(store: ObjectStore) -> None:
    rows = ""

    def fail() -> None:
        nonlocal rows
        with staging_for(store) as staging:
            rows = staging.rows
            raise KeyError("a task failed")

    with pytest.raises(KeyError):
        fail()
    for name in ("a.parquet", "b.parquet"):
        store.put(f"{rows}/{name}", b"x")
        eventually(lambda: written(store) == [])
    if store.local_root is not None:
        # Nor is the table's directory, which is none of a table yet.
        eventually(lambda: not Path(str(store.local_root)).exists())


def test_two_writes_have_places_of_their_own(store: ObjectStore) -> None:
    with staging_for(store) as one, staging_for(store) as other:
        assert one.rows != other.rows
