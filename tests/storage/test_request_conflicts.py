"""A conditional put that S3 answers with 409 ConditionalRequestConflict: put again, which tells what happened."""

from __future__ import annotations

import pytest

from slackwater.errors import ObjectExists, StorageError
from slackwater.storage import obstore_store, open_store
from tests.contract.s3_server import BUCKET, conflicting

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore_store, "_CONFLICT_PAUSE_S", 0)


@pytest.mark.parametrize("conflicts", [1, 3])
def test_a_put_lands_although_the_first_ones_stored_nothing(conflicts: int) -> None:
    with conflicting(lambda _: None, conflicts) as (options, objects):
        open_store(f"s3://{BUCKET}/t", options).put_if_absent("_delta_log/1.json", b"mine")
        assert list(objects.values()) == [b"mine"]


@pytest.mark.parametrize("stored", [b"mine", b"of another writer"])
def test_an_object_that_is_there_is_left(stored: bytes) -> None:
    """Its bytes tell the committer whether it is its own."""
    with conflicting(lambda _: stored) as (options, objects):
        store = open_store(f"s3://{BUCKET}/t", options)
        with pytest.raises(ObjectExists):
            store.put_if_absent("_delta_log/1.json", b"mine")
        assert store.read("_delta_log/1.json") == stored
        assert list(objects.values()) == [stored]


def test_a_conflict_without_end_is_no_proof_of_an_object() -> None:
    with conflicting(lambda _: None, 100) as (options, objects):
        with pytest.raises(StorageError, match="another request for this name is active"):
            open_store(f"s3://{BUCKET}/t", options).put_if_absent("_delta_log/1.json", b"mine")
        assert objects == {}
