"""Log compaction files that this package writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.errors import CorruptLog, InvalidArgument, MissingCommit, UnsupportedFeature
from slackwater.log.compaction import compact_log
from slackwater.log.snapshot import LogSnapshot
from tests.examples import examples
from tests.log.tables import (
    DEFAULT,
    SpyStore,
    TableLog,
    add,
    commit_info,
    domain,
    facts,
    metadata,
    paths,
    protocol,
    remove,
    txn,
)
from tests.log.test_replay import HISTORIES


def _content(log: TableLog, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.store.read(path).splitlines()]


def test_the_example_of_the_protocol_is_compacted_as_it_shows() -> None:
    log = TableLog().create(add("f1")).grow(3)
    app = "3ae45b72-24e1-865a-a211-34987ae02f2a"
    log.commit(4, commit_info(), add("f2"), remove("f1"))
    log.commit(5, commit_info(), add("f3"), add("f4"), txn(app, 4389))
    log.commit(6, commit_info(), remove("f3"), txn(app, 4390))
    path = compact_log(log.store, 4, 6)
    assert path == "_delta_log/00000000000000000004.00000000000000000006.compacted.json"
    found = sorted(_content(log, path), key=str)
    assert found == sorted([add("f2"), add("f4"), remove("f1"), remove("f3"), txn(app, 4390)], key=str)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=HISTORIES, data=st.data())
def test_a_table_reads_the_same_through_its_compactions(history: list[Any], data: st.DataObject) -> None:
    log = TableLog()
    for version, commit in enumerate([[*((None, action) for action in DEFAULT)], *history]):
        log.commit(version, *(action for _, action in commit))
    before = [facts(log.load(version)) for version in range(len(history) + 1)]
    rows = sorted(map(str, log.load().live_files().to_pylist()))
    start = data.draw(st.integers(0, len(history) - 1))
    end = data.draw(st.integers(start + 1, len(history)))
    is_written = log.store.head(compact_log(log.store, start, end)) is not None
    assert any(commit.compacted for commit in log.load(end).segment.commits) is is_written
    # A compaction has no commitInfo, so that commits with nothing else need none.
    kept = [action for commit in history[start - 1 : end] for _, action in commit if "commitInfo" not in action]
    assert is_written or (start and not kept)
    assert [facts(log.load(version)) for version in range(len(history) + 1)] == before
    assert sorted(map(str, log.load().live_files().to_pylist())) == rows


def test_a_removed_domain_stays_so_that_it_overrides_what_came_before() -> None:
    log = TableLog().create(domain("d", "old"))
    log.commit(1, domain("d", "old", removed=True), domain("e", "first"))
    log.commit(2, domain("e", "second"))
    found = _content(log, compact_log(log.store, 1, 2))
    assert found == [domain("d", "old", removed=True), domain("e", "second")]
    assert sorted(log.load().domain_metadata) == ["e"]


def test_the_newest_protocol_and_metadata_stand_first() -> None:
    log = TableLog().create()
    log.commit(1, add("a"), metadata({"k": "1"}), protocol(1, 3))
    log.commit(2, metadata({"k": "2"}), add("b"))
    found = _content(log, compact_log(log.store, 0, 2))
    assert [next(iter(action)) for action in found] == ["protocol", "metaData", "add", "add"]
    assert found[:2] == [protocol(1, 3), metadata({"k": "2"})]


def test_one_that_exists_already_is_left_as_it_is() -> None:
    log = TableLog().create().grow(2)
    log.compaction(1, 2, add("f1"), add("f2"), add("f1", "x"))
    before = log.store.read("_delta_log/00000000000000000001.00000000000000000002.compacted.json")
    assert log.store.read(compact_log(log.store, 1, 2)) == before


@pytest.mark.parametrize(("start", "end"), [(1, 1), (2, 1), (1, 3), (-1, 2)])
def test_a_range_of_less_than_two_commits_or_with_a_gap_is_refused(start: int, end: int) -> None:
    log = TableLog().create().grow(2)
    with pytest.raises(InvalidArgument):
        compact_log(log.store, start, end)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"futureAction": {"path": "x"}}, UnsupportedFeature),
        ({"add": {"path": "x"}, "txn": {"appId": "a", "version": 1}}, CorruptLog),
        ({"remove": {}}, CorruptLog),
        ({"txn": {"version": 1}}, CorruptLog),
        ({"add": {"path": "x", "deletionVector": {"storageType": "u"}}}, CorruptLog),
    ],
)
def test_what_cannot_be_reconciled_is_not_compacted(line: dict[str, Any], error: type[Exception]) -> None:
    log = TableLog().create()
    log.commit(1, line)
    with pytest.raises(error, match=r"00000000000000000001\.json"):
        compact_log(log.store, 0, 1)
    assert not [m for m in log.store.list_from("_delta_log") if "compacted" in m.path]


def test_change_data_and_provenance_are_left_out() -> None:
    log = TableLog().create(add("a"))
    change = {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}}
    log.commit(1, commit_info(inCommitTimestamp=7), change, {"add": None})
    assert _content(log, compact_log(log.store, 0, 1)) == [*DEFAULT, add("a")]
    assert paths(log.load()) == ["a"]


@pytest.mark.parametrize(
    "contradiction",
    [
        [remove("f1"), add("f1")],
        [add("f1"), remove("f1")],
        [remove("f%31"), add("f1")],
        [remove("f1", "v"), add("f1", "v")],
        [add("f1", size=1), add("f1", size=2)],
        [txn("app", 1), txn("app", 2)],
        [metadata(), metadata({"a": "b"})],
    ],
)
def test_a_compaction_that_contradicts_itself_is_passed_over_for_the_commits(contradiction: list[Any]) -> None:
    log = TableLog().create().grow(2)
    log.commit(3, commit_info(), remove("f1"))
    before = facts(log.load())
    log.compaction(1, 3, *contradiction, add("f2"))
    snapshot = log.load()
    assert facts(snapshot) == before
    assert not any(commit.compacted for commit in snapshot.segment.commits)
    log.delete_commits(2)
    with pytest.raises(MissingCommit, match="version 2 is missing"):
        log.load()


@pytest.mark.parametrize("content", [b"{", b'{"add":{"path":1}}\n', b'{"add":3}\n', b'{"txn":{}}\n'])
def test_a_compaction_that_is_damaged_is_passed_over_for_the_commits(content: bytes) -> None:
    log = TableLog().create().grow(3)
    log.put("00000000000000000001.00000000000000000003.compacted.json", content)
    assert paths(log.load()) == ["f1", "f2", "f3"]


def test_two_vectors_of_one_file_are_no_contradiction_where_one_is_removed() -> None:
    log = TableLog().create(add("f0"))
    log.commit(1, commit_info(), remove("f0"), add("f0", "v"))
    log.commit(2, commit_info(), remove("f0", "v"), add("f0", "w"))
    compact_log(log.store, 1, 2)
    snapshot = log.load()
    assert snapshot.segment.commits[-1].compacted
    assert facts(snapshot)["live"] == [("f0", "w")]


def test_a_compaction_that_went_since_it_was_listed_is_not_needed() -> None:
    log = TableLog().create().grow(3)
    path = compact_log(log.store, 1, 3)
    spy = SpyStore(log.store, lambda read: log.store.delete([path]) if read == path else None)
    assert paths(LogSnapshot.open(spy)) == ["f1", "f2", "f3"]
