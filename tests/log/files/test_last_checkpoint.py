"""The hint `_last_checkpoint`, as this package writes it; how it is read stands in `test_segment`."""

from __future__ import annotations

import json

import pytest

from slackwater.log.checkpoints.write_checkpoint import write_last_checkpoint
from slackwater.log.files.last_checkpoint import (
    LAST_CHECKPOINT,
    CheckpointInfo,
    LastCheckpoint,
    read_last_checkpoint,
)
from slackwater.protocol.actions.json_checksum import checksum
from tests.log.tables import DEFAULT, TableLog


def _info(version: int) -> CheckpointInfo:
    return CheckpointInfo(version, f"_delta_log/{version:020d}.checkpoint.parquet", 12, 3456, 10)


def test_the_hint_says_where_and_how_large_and_carries_its_checksum() -> None:
    log = TableLog().create()
    assert write_last_checkpoint(log.store, _info(7))
    data = log.store.read(LAST_CHECKPOINT)
    node = json.loads(data)
    assert node.pop("checksum") == checksum(data)
    assert node == {"version": 7, "size": 12, "sizeInBytes": 3456, "numOfAddFiles": 10}
    assert read_last_checkpoint(log.store) == LastCheckpoint(7)


def test_the_hint_never_moves_backwards() -> None:
    log = TableLog().create().grow(9)
    log.classic(9, *DEFAULT)
    log.hint(9)
    before = log.store.read(LAST_CHECKPOINT)
    assert not write_last_checkpoint(log.store, _info(7))
    assert log.store.read(LAST_CHECKPOINT) == before
    assert write_last_checkpoint(log.store, _info(9))
    assert read_last_checkpoint(log.store) == LastCheckpoint(9)


def test_all_parts_of_a_checkpoint_keep_the_hint() -> None:
    log = TableLog().create()
    for part in (1, 2):
        log.put(f"00000000000000000009.checkpoint.{part:010d}.0000000002.parquet", b"")
    log.hint(9)
    assert not write_last_checkpoint(log.store, _info(7))
    assert read_last_checkpoint(log.store) == LastCheckpoint(9)


@pytest.mark.parametrize(
    "stray",
    [
        ["00000000000000000009.json"],
        ["00000000000000000011.checkpoint.parquet"],
        ["00000000000000000009.checkpoint.0000000001.0000000002.parquet"],
        [f"00000000000000000009.checkpoint.{part:010d}.000000000{part + 1}.parquet" for part in (1, 2)],
    ],
)
def test_a_hint_at_a_newer_version_without_a_checkpoint_is_replaced(stray: list[str]) -> None:
    log = TableLog().create()
    for name in stray:
        log.put(name, b"")
    log.hint(9)
    assert write_last_checkpoint(log.store, _info(7))
    assert read_last_checkpoint(log.store) == LastCheckpoint(7)


@pytest.mark.parametrize("damaged", [b"{", b'{"version":99,"size":1,"checksum":"0"}', b""])
def test_a_hint_that_cannot_be_read_is_replaced(damaged: bytes) -> None:
    log = TableLog().create()
    log.put("_last_checkpoint", damaged)
    assert write_last_checkpoint(log.store, _info(7))
    assert read_last_checkpoint(log.store) == LastCheckpoint(7)


def test_a_hint_that_contradicts_its_checksum_is_not_used() -> None:
    log = TableLog().create().grow(9)
    log.classic(5, *DEFAULT)
    log.hint(5)
    assert read_last_checkpoint(log.store) == LastCheckpoint(5)
    log.hint(5, right_checksum=False)
    assert read_last_checkpoint(log.store) is None
    log.hint(5)
    changed = log.store.read(LAST_CHECKPOINT).replace(b'"version": 5', b'"version": 6')
    log.put("_last_checkpoint", changed)
    assert read_last_checkpoint(log.store) is None


def test_a_checksum_that_hadoop_left_beside_the_hint_goes_with_it() -> None:
    log = TableLog().create()
    log.hint(1)
    log.put("._last_checkpoint.crc", b"crc of the hint before")
    write_last_checkpoint(log.store, _info(7))
    assert log.store.head("_delta_log/._last_checkpoint.crc") is None
