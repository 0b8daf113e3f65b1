from __future__ import annotations

import datetime as dt
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import CorruptLog, CorruptTable, InvalidArgument, TimestampOutOfRange, VersionNotFound
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.files.segment import list_log
from slackwater.log.history import CommitHistory, format_ms, to_ms
from slackwater.log.snapshot import LogSnapshot
from slackwater.log.table_detail import describe_history
from slackwater.protocol.actions.actions import NO_COLUMNS, Metadata, Protocol
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.store import ObjectMeta, ObjectStore
from tests.examples import examples
from tests.html.well_formed import words
from tests.log.tables import DEFAULT, SpyStore, TableLog, add, commit_info, metadata, protocol

T = 1_700_000_000_000
ENABLED = {"delta.enableInCommitTimestamps": "true"}
STAMPED = protocol(1, 7, writers=["inCommitTimestamp"])


def _by_file_time(directory: Path, times_ms: Sequence[int]) -> TableLog:
    log = TableLog(str(directory)).create(add("f0"))
    log.grow(len(times_ms) - 1)
    for version, time_ms in enumerate(times_ms):
        _touch(directory, version, time_ms)
    return log


def _touch(directory: Path, version: int, time_ms: int) -> None:
    os.utime(directory / "_delta_log" / f"{version:020d}.json", ns=(time_ms * 10**6, time_ms * 10**6))


def _provenance(version: int, time_ms: int) -> dict[str, str]:
    return ENABLED | {
        "delta.inCommitTimestampEnablementVersion": str(version),
        "delta.inCommitTimestampEnablementTimestamp": str(time_ms),
    }


def _with_stamps(times_ms: Sequence[int]) -> TableLog:
    """A table with in-commit timestamps from its start, in memory: file times are those of the test run."""
    log = TableLog()
    log.commit(0, commit_info(inCommitTimestamp=times_ms[0]), STAMPED, metadata(ENABLED), add("f0"))
    for version, time_ms in enumerate(times_ms[1:], 1):
        log.commit(version, commit_info(inCommitTimestamp=time_ms), add(f"f{version}"))
    return log


def _enabled_late(directory: Path) -> TableLog:
    """Versions 0 to 2 by file time (T, T+10, T+20), 3 to 5 by stamp (T+100, T+200, T+300), files touched much later."""
    log = _by_file_time(directory, [T, T + 10, T + 20])
    log.commit(3, commit_info(inCommitTimestamp=T + 100), STAMPED, metadata(_provenance(3, T + 100)))
    log.commit(4, commit_info(inCommitTimestamp=T + 200))
    log.commit(5, commit_info(inCommitTimestamp=T + 300))
    for version in (3, 4, 5):
        _touch(directory, version, T + 10_000 + version)
    return log


def test_a_commit_without_a_stamp_is_as_old_as_its_file(tmp_path: Path) -> None:
    log = _by_file_time(tmp_path, [T, T + 10, T + 25])
    assert [log.load(v).timestamp_ms for v in range(3)] == [T, T + 10, T + 25]
    assert [(v, ms) for v, ms, _ in log.load().history().entries()] == [(2, T + 25), (1, T + 10), (0, T)]


def test_file_times_that_stand_still_or_step_back_are_made_to_rise(tmp_path: Path) -> None:
    log = _by_file_time(tmp_path, [T, T, T - 500, T + 1, T + 50])
    assert [ms for _, ms, _ in log.load().history().entries()] == [T + 50, T + 3, T + 2, T + 1, T]
    assert [log.load(timestamp=T + offset).version for offset in (0, 1, 2, 3, 49, 50)] == [0, 1, 2, 3, 3, 4]


@pytest.mark.parametrize(("offset", "version"), [(0, 0), (9, 0), (10, 1), (24, 1), (25, 2)])
def test_a_time_gives_the_newest_version_at_or_before_it(tmp_path: Path, offset: int, version: int) -> None:
    log = _by_file_time(tmp_path, [T, T + 10, T + 25])
    assert log.load(timestamp=T + offset).version == version


def test_a_time_before_the_first_version_is_out_of_range(tmp_path: Path) -> None:
    log = _by_file_time(tmp_path, [T, T + 10])
    with pytest.raises(TimestampOutOfRange, match=r"first version, 0, is of 2023-11-14 22:13:20\.000 UTC") as caught:
        log.load(timestamp=T - 1)
    assert "2023-11-14 22:13:19.999 UTC" in str(caught.value)
    assert tmp_path.name in str(caught.value)


@pytest.mark.parametrize("timestamp", [-(10**18), dt.date(1, 1, 1), dt.datetime(1, 1, 1, 0, 0, 0, 1)])
def test_a_time_before_every_calendar_is_only_out_of_range(tmp_path: Path, timestamp: int | dt.date) -> None:
    log = _by_file_time(tmp_path, [T])
    with pytest.raises(TimestampOutOfRange):
        log.load(timestamp=timestamp)


@pytest.mark.parametrize("late", [T + 11, 10**18])
def test_a_time_after_the_last_commit_is_out_of_range_unless_it_is_allowed(tmp_path: Path, late: int) -> None:
    log = _by_file_time(tmp_path, [T, T + 10])
    for unsure in ({}, {"strict": True}, {"strict": None, "allow_after_last_commit": False}):
        with pytest.raises(TimestampOutOfRange, match="after the last commit, version 1") as caught:
            log.load(timestamp=late, **unsure)
        assert "DELTA_TIMESTAMP_GREATER_THAN_COMMIT" in str(caught.value)
        assert log.load(timestamp=T + 10, **unsure).version == 1
        assert log.load(timestamp=T, **unsure).version == 0
    for sure in ({"strict": False}, {"allow_after_last_commit": True}):
        assert log.load(timestamp=late, **sure).version == 1
    with pytest.raises(InvalidArgument, match="strict"):
        log.load(timestamp=late, strict=True, allow_after_last_commit=True)


def test_a_time_of_versions_that_were_cleaned_up_is_out_of_range(tmp_path: Path) -> None:
    log = _by_file_time(tmp_path, [T, T + 10, T + 20, T + 30, T + 40])
    log.classic(3, *DEFAULT, add("f0"))
    log.delete_commits(0, 1)
    assert log.load(timestamp=T + 30).version == 3
    with pytest.raises(TimestampOutOfRange, match="first version, 3"):
        log.load(timestamp=T + 25)
    with pytest.raises(VersionNotFound, match="version 0 is not in the log"):
        log.load().history().timestamp_ms(0)


def test_a_time_is_text_a_date_a_moment_or_milliseconds(tmp_path: Path) -> None:
    midnight = 1_700_006_400_000
    log = _by_file_time(tmp_path, [T, T + 10, midnight])  # 2023-11-14 22:13:20 UTC
    zone = dt.timezone(dt.timedelta(hours=2))
    for moment in (
        T,
        "2023-11-14 22:13:20",
        "2023-11-14T22:13:20.000Z",
        "2023-11-15 00:13:20.001+02:00",
        dt.datetime(2023, 11, 14, 22, 13, 20),
        dt.datetime(2023, 11, 15, 0, 13, 20, 9000, tzinfo=zone),
    ):
        assert log.load(timestamp=moment).version == 0
    assert log.load(timestamp="2023-11-15").version == 2
    assert log.load(timestamp=dt.date(2023, 11, 15)).version == 2


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01", "2023-11-14 25:00:00", "1700000000000"])
def test_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be converted to a valid timestamp"):
        TableLog().create().load(timestamp=text)


@pytest.mark.parametrize("value", [True, 1.5, b"2023-11-14"])
def test_a_value_that_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="expected a timestamp"):
        TableLog().create().load(timestamp=value)


@given(ms=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_time_in_text_comes_back_to_the_millisecond(ms: int) -> None:
    assert to_ms(format_ms(ms).replace(" UTC", "+00:00")) == ms


def test_stamps_count_from_the_start_where_no_provenance_is_given() -> None:
    log = _with_stamps([T, T + 10, T + 1000])
    assert [log.load(v).timestamp_ms for v in range(3)] == [T, T + 10, T + 1000]
    history = log.load().history()
    assert [history.version_at(T + offset) for offset in (0, 9, 10, 999, 1000)] == [0, 0, 1, 1, 2]
    with pytest.raises(TimestampOutOfRange, match="first version, 0"):
        history.version_at(T - 1)
    with pytest.raises(TimestampOutOfRange, match="after the last commit"):
        history.version_at(T + 1001)


@pytest.mark.parametrize(
    ("offset", "version"),
    [(0, 0), (10, 1), (20, 2), (99, 2), (100, 3), (199, 3), (200, 4), (300, 5)],
)
def test_stamps_count_since_their_enablement_and_file_times_before(tmp_path: Path, offset: int, version: int) -> None:
    assert _enabled_late(tmp_path).load(timestamp=T + offset).version == version


def test_every_version_has_the_time_of_its_side_of_the_enablement(tmp_path: Path) -> None:
    log = _enabled_late(tmp_path)
    expected = [T, T + 10, T + 20, T + 100, T + 200, T + 300]
    assert [log.load(v).timestamp_ms for v in range(6)] == expected
    assert [ms for _, ms, _ in log.load().history().entries()] == expected[::-1]
    assert log.load().update().timestamp_ms == T + 300


def test_file_times_and_stamps_are_never_compared(tmp_path: Path) -> None:
    log = _enabled_late(tmp_path)
    for version in (0, 1, 2):
        _touch(tmp_path, version, T + 150 + version)
    assert log.load(timestamp=T + 120).version == 3
    with pytest.raises(TimestampOutOfRange):
        log.load(timestamp=T + 50)


def test_provenance_by_halves_is_corrupt() -> None:
    log = TableLog()
    half = ENABLED | {"delta.inCommitTimestampEnablementVersion": "0"}
    log.commit(0, commit_info(inCommitTimestamp=T), STAMPED, metadata(half))
    with pytest.raises(CorruptLog, match="must be set together"):
        log.load(timestamp=T)


@pytest.mark.parametrize("value", ["yes", "", "1"])
def test_an_enablement_that_is_no_flag_is_corrupt(value: str) -> None:
    log = TableLog()
    log.commit(0, STAMPED, metadata({"delta.enableInCommitTimestamps": value}))
    with pytest.raises(CorruptTable, match=r"delta\.enableInCommitTimestamps must be true or false"):
        _ = log.load().timestamp_ms


@pytest.mark.parametrize("stamp", [None, "1700000000000", 1.5, [1]])
def test_a_missing_stamp_is_named_with_its_commit(stamp: object) -> None:
    log = _with_stamps([T, T + 10, T + 20])
    log.commit(1, commit_info(inCommitTimestamp=stamp))
    with pytest.raises(
        CorruptLog, match=r"00000000000000000001\.json: in-commit timestamps are enabled, but"
    ) as caught:
        log.load(timestamp=T + 15)
    assert log.path in str(caught.value)
    log.commit(2)
    with pytest.raises(CorruptLog, match=r"00000000000000000002\.json"):
        _ = log.load().timestamp_ms


def test_a_stamp_in_a_compaction_file_is_not_mistaken_for_that_of_its_last_version() -> None:
    log = _with_stamps([T, T + 10, T + 20])
    log.compaction(1, 2, commit_info(inCommitTimestamp=T + 10), add("f1"), add("f2"))
    assert log.load().timestamp_ms == T + 20


def test_the_time_of_a_checkpointed_version_is_that_of_its_commit() -> None:
    log = _with_stamps([T, T + 10])
    log.classic(1, STAMPED, metadata(ENABLED), add("f0"))
    assert log.load().timestamp_ms == T + 10


def _spied_history(count: int) -> tuple[SpyStore, CommitHistory]:
    store = SpyStore(_with_stamps([T + 10 * v for v in range(count)]).store)
    newest = TableConfiguration(
        Protocol.from_json(STAMPED["protocol"], "here"), Metadata("id", NO_COLUMNS, configuration=ENABLED)
    )
    return store, CommitHistory(store, list_log(store), newest)


@pytest.mark.parametrize("offset", [0, 5, 1234, 2345, 2550, 10**6])
def test_only_a_few_commits_are_opened_to_find_a_time_among_many(offset: int) -> None:
    store, history = _spied_history(256)
    assert history.version_at(T + offset, allow_after_last_commit=True) == min(offset // 10, 255)
    assert len(store.reads) <= 9


@pytest.mark.parametrize("hint", [False, True])
def test_time_travel_lists_the_log_once_and_reads_later_commits_once(hint: bool) -> None:
    log = _with_stamps([T + 10 * v for v in range(20)])
    if hint:
        write_checkpoint(log.load(10), T)
        log.hint(10)
    listed: list[str] = []

    class ListingStore(SpyStore):
        def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
            listed.append(start_after)
            return self._store.list_from(prefix, start_after, recursive)

    store = ListingStore(log.store)
    assert LogSnapshot.open(store, timestamp=T + 55).version == 5
    # With a hint, the log before the checkpoint is listed for the search.
    assert listed == ([f"_delta_log/{10:020d}", ""] if hint else [""])
    counted = Counter(store.reads)
    assert all(counted[commit_path(version)] <= 3 for version in range(6))
    searched = sum(counted[commit_path(version)] for version in range(6, 20))
    assert searched <= 14 + 5


class _ListedStore(SpyStore):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.listed: list[str] = []

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        self.listed.append(start_after.removeprefix("_delta_log/"))
        return self._store.list_from(prefix, start_after, recursive)


@pytest.mark.parametrize(
    ("made", "version", "newest", "start"),
    [
        ("stamps", 5, 2, f"{4:020d}"),
        ("stamps", 3, 2, f"{2:020d}"),
        ("stamps", 5, 6, ""),
        ("stamps", 5, None, ""),
        ("enabled late", 5, 3, f"{3:020d}"),
        # A file time is made later than those before it, so that all are needed.
        ("enabled late", 5, 4, ""),
        ("file times", 5, 2, ""),
    ],
)
def test_the_newest_commits_are_listed_alone_if_they_have_stamps(
    tmp_path: Path, made: str, version: int, newest: int | None, start: str
) -> None:
    times = [T + 10 * v for v in range(6)]
    log = {"stamps": lambda: _with_stamps(times), "file times": lambda: _by_file_time(tmp_path, times)}.get(
        made, lambda: _enabled_late(tmp_path)
    )()
    store = _ListedStore(log.store)
    snapshot = LogSnapshot.open(store, version)
    expected = list(snapshot.history().entries())[-version - 1 :][:newest]
    store.listed.clear()
    history = snapshot.history_up_to(newest)
    assert store.listed == [start]
    assert list(history.entries(newest)) == expected
    assert list(history.commits(before=version)) == list(history.commits())[1:]


def test_an_enablement_that_is_no_version_does_not_matter_without_stamps(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path))
    log.commit(0, commit_info(), protocol(1, 2), metadata({"delta.inCommitTimestampEnablementVersion": "abc"}))
    assert [entry["version"] for entry in describe_history(log.load(), 5)] == [0]


def test_each_commit_is_read_once_for_its_entry() -> None:
    store, history = _spied_history(8)
    entries = list(history.entries())
    assert [version for version, _, _ in entries] == list(range(7, -1, -1))
    assert all(info["operation"] == "WRITE" for _, _, info in entries)
    assert len(store.reads) == 8
    assert [version for version, _, _ in history.entries(limit=3)] == [7, 6, 5]


@settings(max_examples=examples(50), deadline=None)
@given(steps=st.lists(st.integers(1, 50), min_size=1, max_size=12), asked=st.integers(-10, 700))
def test_the_answer_by_stamps_is_that_of_a_plain_search(steps: list[int], asked: int) -> None:
    times = [T + sum(steps[:count]) for count in range(len(steps))]
    history = _with_stamps(times).load().history()
    expected = [version for version, time_ms in enumerate(times) if time_ms <= T + asked]
    if expected:
        assert history.version_at(T + asked, allow_after_last_commit=True) == expected[-1]
        assert history.version_at(times[expected[-1]]) == expected[-1]
    else:
        with pytest.raises(TimestampOutOfRange):
            history.version_at(T + asked)


def test_a_commit_without_commit_info_has_an_empty_entry() -> None:
    log = TableLog().create()
    log.commit(1, {"commitInfo": "text"})
    assert [(version, dict(info)) for version, _, info in log.load().history().entries()] == [(1, {}), (0, {})]
    assert log.load().history().versions == [0, 1]


def test_a_property_without_its_feature_does_not_turn_in_commit_timestamps_on(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path))
    log.commit(0, commit_info(), protocol(1, 2), metadata(ENABLED), add("f0"))
    log.commit(1, commit_info(inCommitTimestamp=T + 70_000), add("f1"))
    for version in (0, 1):
        _touch(tmp_path, version, T + 10 * version)
    assert log.load(timestamp=T + 5).version == 0
    assert log.load(timestamp=T + 10).version == 1
    assert log.load().timestamp_ms == T + 10
    assert [entry[:2] for entry in log.load().history().entries()] == [(1, T + 10), (0, T)]


def test_a_log_without_any_commit_has_no_version_for_a_time() -> None:
    log = TableLog()
    log.classic(1, *DEFAULT, add("f0"))
    with pytest.raises(TimestampOutOfRange, match="no commit with a timestamp"):
        log.load(timestamp=T)
    assert list(log.load().history().entries()) == []
    with pytest.raises(VersionNotFound, match="the commit of version 1 is not in the log"):
        _ = log.load().timestamp_ms


def test_of_a_large_commit_only_the_beginning_is_read_for_what_it_says_of_itself() -> None:
    log = TableLog().create(add("f0"))
    log.commit(1, commit_info(operation="LARGE"), *(add(f"{number}-{'x' * 200}") for number in range(400)))
    log.commit(2, *(add(f"{number}-{'y' * 200}") for number in range(400)), commit_info(operation="LAST"))
    log.commit(3, commit_info(operation="LONG", userMetadata="x" * 70_000))
    log.commit(4, add("f4"))
    spy = SpyStore(log.store)
    history = CommitHistory(spy, list_log(spy), TableConfiguration(Protocol(1, 2), Metadata("id", "")))
    spy.reads.clear()
    assert history.info(1)["operation"] == "LARGE"
    assert spy.reads == []
    assert [history.info(version).get("operation") for version in (2, 3, 4)] == ["LAST", "LONG", None]
    with pytest.raises(VersionNotFound):
        history.info(5)


def test_the_actions_that_add_no_file_are_those_of_all_others() -> None:
    log = TableLog().create(add("f0"))
    spaced = json.dumps({"add": add("f2")["add"]}).encode()
    assert spaced.startswith(b'{"add": ')
    removed = {"remove": {"path": "f0", "dataChange": True}}
    log.commit(1, add("f1"), commit_info(operation="MERGE"), removed, add("f3"))
    log.commit(2, add("f4"))
    log.store.put("_delta_log/00000000000000000003.json", spaced + b"\n" + json.dumps(removed).encode())
    history = log.load().history()
    for version in history.versions:
        others = [action for action in history.actions(version) if "add" not in action]
        assert history.actions_but_adds(version) == others
    assert [len(history.actions_but_adds(version)) for version in (1, 2, 3)] == [2, 0, 1]
    with pytest.raises(VersionNotFound):
        history.actions_but_adds(4)
    log.store.put("_delta_log/00000000000000000004.json", b"")
    with pytest.raises(CorruptLog):
        CommitHistory(log.store, list_log(log.store), log.load(3).configuration).actions_but_adds(4)


def test_a_history_says_which_versions_it_holds_and_shows_its_newest_commits(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0"))
    log.grow(22)
    history = LogSnapshot.load(str(tmp_path)).history()
    assert repr(history) == f"<CommitHistory of file://{tmp_path}: versions 0 to 22>"
    shown = words(history._repr_html_())
    assert "CommitHistory" in shown
    assert "22" in shown
    assert "and 3 commits more" in shown
    assert "+1" in shown


def test_a_history_whose_log_is_gone_says_so_in_its_card(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0"))
    log.grow(1)
    history = LogSnapshot.load(str(tmp_path)).history()
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text("{")
    assert "CorruptLog" in words(history._repr_html_())
