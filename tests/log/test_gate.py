from __future__ import annotations

from collections.abc import Callable

import pytest

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.log.snapshot import LogSnapshot
from tests.log.tables import (
    DEFAULT,
    TableLog,
    add,
    checkpoint_metadata,
    commit_info,
    json_lines,
    metadata,
    paths,
    protocol,
)


def _with(action: dict[str, object]) -> TableLog:
    log = TableLog()
    log.commit(0, action, metadata(), add("a"))
    return log


@pytest.mark.parametrize(
    "action",
    [
        protocol(1, 1),
        protocol(1, 2),
        protocol(1, 99),
        protocol(2, 5),
        protocol(1, 7, writers=["someFutureWriterFeature"]),
        protocol(2, 7, writers=["columnMapping"]),
        protocol(3, 7, [], []),
        protocol(3, 7, ["columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"], []),
        protocol(3, 7, ["typeWidening-preview"], ["someFutureWriterFeature"]),
        protocol(3, 8, ["deletionVectors"], ["deletionVectors"]),
    ],
)
def test_a_protocol_that_is_honoured_lets_the_table_be_read(action: dict[str, object]) -> None:
    assert paths(_with(action).load()) == ["a"]


@pytest.mark.parametrize("spelling", ["inCommitTimestamp", "inCommitTimestamps", "inCommitTimestamp-preview"])
def test_every_spelling_of_in_commit_timestamps_is_understood(spelling: str) -> None:
    log = TableLog()
    enabled = metadata({"delta.enableInCommitTimestamps": "true"})
    log.commit(0, commit_info(inCommitTimestamp=1234), protocol(1, 7, writers=[spelling]), enabled)
    assert log.load().timestamp_ms == 1234


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (protocol(4, 7), "needs reader version 4.* reads up to 3"),
        (protocol(4, 8, ["superFeature"], []), r"reader version 4.*superFeature"),
        (protocol(3, 7, ["superFeature"], []), "needs reader feature superFeature,"),
        (protocol(3, 7, ["zeta", "deletionVectors", "alpha"], []), "reader features alpha, zeta,"),
        (protocol(3, 7, ["DeletionVectors"], []), "reader feature DeletionVectors"),
    ],
)
def test_what_is_not_honoured_is_named(action: dict[str, object], message: str) -> None:
    log = _with(action)
    loads: list[Callable[[], object]] = [log.load, lambda: log.load(0), lambda: log.load(timestamp=1)]
    for load in loads:
        with pytest.raises(UnsupportedFeature, match=message) as caught:
            load()
        assert log.path in str(caught.value)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (protocol(3, 5, [], []), "reader version 3 needs writer version 7, found writer version 5"),
        (protocol(3, 2), "reader version 3 needs writer version 7"),
        (protocol(3, 7), "needs a list of readerFeatures"),
    ],
)
def test_a_protocol_that_contradicts_itself_is_corrupt(action: dict[str, object], message: str) -> None:
    log = _with(action)
    with pytest.raises(CorruptLog, match=message) as caught:
        log.load()
    assert log.path in str(caught.value)


GARBAGE = [
    b'{"add":{"pathV9":"a"}}\n',
    b'{"add":7}\n',
    b'{"metaData":[1,2]}\n',
    b'{"txn":{"appId":7}}\n',
    b'{"domainMetadata":"x"}\n',
    b"[[1]]\n",
    b"not JSON at all\n",
    b"\x00\x01\x02\xff",
    b'{"add":{"path":"a","size":"many"}}\n{"protocolV9":{"x":1}}\n',
]
FUTURE = protocol(3, 7, ["futureFormat"], ["futureFormat"])


@pytest.mark.parametrize("garbage", GARBAGE)
def test_the_gate_comes_before_what_a_future_format_writes_into_commits(garbage: bytes) -> None:
    log = TableLog().create(add("a"))
    log.put("00000000000000000001.json", json_lines([FUTURE]) + garbage)
    log.put("00000000000000000002.json", garbage)
    with pytest.raises(UnsupportedFeature, match="futureFormat"):
        log.load()
    assert paths(log.load(0)) == ["a"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_the_gate_comes_before_a_future_format_in_an_update_too(garbage: bytes) -> None:
    log = TableLog().create(add("a"))
    old = log.load()
    log.put("00000000000000000001.json", garbage + b"\n" + json_lines([FUTURE]))
    with pytest.raises(UnsupportedFeature, match="futureFormat"):
        old.update()


@pytest.mark.parametrize("garbage", GARBAGE)
def test_the_protocol_of_a_checkpoint_comes_before_garbage_in_later_commits(garbage: bytes) -> None:
    log = TableLog()
    log.classic(4, FUTURE, metadata())
    log.put("00000000000000000005.json", garbage)
    with pytest.raises(UnsupportedFeature, match="futureFormat"):
        log.load()


@pytest.mark.parametrize("extension", ["json", "parquet"])
def test_the_protocol_of_a_checkpoint_comes_before_its_own_strange_content(extension: str) -> None:
    log = TableLog()
    log.v2(4, extension, checkpoint_metadata(9), FUTURE, {"sidecar": {"path": "elsewhere.v9", "sizeInBytes": 1}})
    with pytest.raises(UnsupportedFeature, match="futureFormat"):
        log.load()


def test_garbage_without_a_new_protocol_is_corrupt() -> None:
    log = TableLog().create(add("a"))
    log.put("00000000000000000001.json", b"not JSON at all\n")
    with pytest.raises(CorruptLog, match=r"00000000000000000001\.json, line 1"):
        log.load()


def test_a_newer_protocol_that_is_honoured_overrides_an_older_one_that_is_not() -> None:
    log = TableLog()
    log.commit(0, FUTURE, metadata(), add("a"))
    log.commit(1, protocol(1, 2))
    assert paths(log.load(1)) == ["a"]
    log.classic(0, FUTURE, metadata(), add("a"))
    assert paths(log.load(1)) == ["a"]
    with pytest.raises(UnsupportedFeature):
        log.load(0)


def test_versions_before_the_upgrade_can_still_be_read() -> None:
    log = TableLog().create(add("a"))
    log.commit(1, FUTURE)
    log.classic(1, FUTURE, metadata(), add("a"))
    assert paths(log.load(0)) == ["a"]
    with pytest.raises(UnsupportedFeature):
        log.load()


def test_an_update_stops_at_the_upgrade_and_the_old_snapshot_stays() -> None:
    log = TableLog().create(add("a"))
    old: LogSnapshot = log.load()
    log.commit(1, FUTURE)
    with pytest.raises(UnsupportedFeature):
        old.update()
    assert paths(old) == ["a"]
    assert old.protocol.min_reader_version == DEFAULT[0]["protocol"]["minReaderVersion"]
