"""Commits read in batches: the same state and errors for every size of a batch, and few objects retained."""

from __future__ import annotations

import pytest

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.log import commit_reader
from slackwater.log.commit_reader import CommitReader
from slackwater.log.files.segment import load_segment
from slackwater.log.snapshot import LogSnapshot
from tests.log.tables import TableLog, add, commit_info, domain, facts, protocol, remove, txn


def _log() -> TableLog:
    log = TableLog().create(add("a"), add("b", dv="one"))
    log.commit(1, commit_info(operation="first"), remove("b", dv="one"), add("b", dv="two"), txn("app", 1))
    log.commit(2, commit_info(operation="second"), domain("d"), add("c"), remove("a"))
    log.commit(3, commit_info(operation="third"), add("a"), txn("app", 2))
    return log


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_state_is_the_same_for_every_size_of_a_batch(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    log = _log()
    log.compaction(1, 2, add("b", dv="two"), remove("b", dv="one"), add("c"), remove("a"), txn("app", 1), domain("d"))
    expected = [(log.load(version).state.newest, facts(log.load(version))) for version in range(4)]
    monkeypatch.setattr(commit_reader, "_IN_ONE_BATCH", batch)
    for version, (newest, found) in enumerate(expected):
        assert facts(log.load(version)) == found
        assert log.load(version).state.newest == newest
        assert log.load(version).state.newest["path"].num_chunks == newest["path"].num_chunks
    moved = log.load(0).update()
    assert facts(moved) == expected[3][1]


def test_a_reader_retains_small_actions_and_the_last_commit_info_only() -> None:
    log = _log()
    read = CommitReader(log.store, load_segment(log.store).commits)
    retained = [(version, *action) for version, _, actions in read.small for action in actions]
    assert retained == [
        (0, "protocol"),
        (0, "metaData"),
        (1, "txn"),
        (2, "domainMetadata"),
        (3, "commitInfo"),
        (3, "txn"),
    ]
    assert log.load().state.last_commit_info == {"operation": "third"}


def test_a_commit_of_file_actions_alone_has_no_commit_info() -> None:
    log = _log()
    log.commit(4, add("e"))
    assert log.load().state.last_commit_info is None


@pytest.mark.parametrize("batch", [1, 500])
def test_a_malformed_file_action_is_reported_after_protocol_and_unreadable_commits(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(commit_reader, "_IN_ONE_BATCH", batch)
    log = _log()
    log.commit(4, {"add": {"size": 1}})
    log.commit(5, add("e"))
    with pytest.raises(CorruptLog, match=r"00000000000000000004\.json: a file action must have a path"):
        log.load()
    log.put("00000000000000000006.json", b"garbage")
    with pytest.raises(CorruptLog, match=r"00000000000000000006\.json, line 1: not JSON"):
        log.load()
    log.commit(7, protocol(99, 7))
    with pytest.raises(UnsupportedFeature, match="reader version 99"):
        log.load()
    assert LogSnapshot.open(log.store, 3).version == 3
