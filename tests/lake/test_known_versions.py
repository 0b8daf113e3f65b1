"""Versions of a lake's tables that later transactions extend instead of reading them again."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import (
    CommitFailed,
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    StorageError,
    TableNotFound,
)
from slackwater.lake.lake import LogLake
from slackwater.lake.read_view import LakeReadView
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.scan import recent_snapshots, unread_snapshot
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore
from slackwater.transaction import post_commit
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.post_commit import PostCommitHook
from tests.transaction.tables import add, schema

NAMES = ("orders", "stock")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as found:
        for name in NAMES:
            found._create_log(name, schema({"id": "long"}))
        yield found


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests of stores that read a log, by method. The owner's look for a fence is none."""
    counted: Counter[str] = Counter()
    for name in ("read", "read_many", "open_file", "list_from"):
        original = getattr(LocalObjectStore, name)

        def counting(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
            counted[_name] += len(args[1]) if _name == "read_many" else 1
            return _original(*args, **kwargs)

        monkeypatch.setattr(LocalObjectStore, name, counting)
    return counted


@pytest.fixture
def unspaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints may follow one another without a pause."""
    monkeypatch.setattr(post_commit, "_CHECKPOINT_SPACING_MS", 0)


def live(snapshot: Snapshot) -> list[str]:
    """The paths of the live files, sorted."""
    return sorted(snapshot.live_files(["path"])["path"].to_pylist())


def append(lake: LogLake, name: str, path: str) -> None:
    with lake.transaction() as tx:
        log = tx.log(name)
        log.add(add(path), fresh=True)
        log.commit("WRITE")


def test_a_transaction_after_another_one_reads_no_log(lake: LogLake, requests: Counter[str]) -> None:
    append(lake, "stock", "a.parquet")
    assert requests
    requests.clear()
    append(lake, "stock", "b.parquet")
    assert +requests == {}
    assert live(lake.snapshot("stock")) == ["a.parquet", "b.parquet"]


def test_a_version_of_another_process_is_reached_by_its_commits_alone(lake: LogLake, tmp_path: Path) -> None:
    append(lake, "stock", "a.parquet")
    with LogLake.open(tmp_path / "lake") as other:
        append(other, "stock", "b.parquet")
    before = lake.snapshot("stock")
    assert (before.version, live(before)) == (2, ["a.parquet", "b.parquet"])
    with LogLake.open(tmp_path / "lake") as other:
        append(other, "stock", "c.parquet")
    with lake.transaction() as tx:
        assert live(tx.snapshot("stock")) == ["a.parquet", "b.parquet", "c.parquet"]


def test_an_earlier_transaction_keeps_its_view_after_a_later_commit(lake: LogLake, requests: Counter[str]) -> None:
    early = lake.transaction(isolation="snapshot")
    append(lake, "stock", "a.parquet")
    with early:
        assert live(early.snapshot("stock")) == []
        assert early.snapshot("stock").version == 0
    requests.clear()
    with lake.transaction() as late:
        assert late.snapshot("stock").version == 1
    assert +requests == {}


def test_a_rolled_back_transaction_leaves_the_known_version_as_it_was(lake: LogLake) -> None:
    append(lake, "stock", "a.parquet")
    tx = lake.transaction()
    log = tx.log("stock")
    log.add(add("b.parquet"), fresh=True)
    log.commit("WRITE")
    tx.rollback()
    with lake.transaction() as tx:
        assert live(tx.snapshot("stock")) == ["a.parquet"]


@pytest.mark.usefixtures("unspaced")
def test_commits_since_the_checkpoint_in_memory_are_bounded(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_COMMITS", 12)
    for number in range(30):
        append(lake, "stock", f"{number}.parquet")
        lake.backfill("stock")
    known = lake.snapshot("stock")
    assert known.version == 30
    assert known.segment.checkpoint is not None
    assert known.segment.checkpoint.version >= 30 - 12
    assert len(live(known)) == 30


def test_files_of_a_table_with_a_large_checkpoint_are_not_kept(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_CHECKPOINT_BYTES", 0)
    for number in range(10):
        append(lake, "stock", f"{number}.parquet")
    lake.backfill("stock")
    Snapshot.load(lake.snapshot("stock").store.root_url)
    with lake.transaction() as tx:
        tx.log("stock").commit("WRITE")
    first = lake.snapshot("stock")
    assert len(live(first)) == 10


def test_a_version_with_very_many_recent_files_is_not_kept(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_FILE_ACTIONS", 1)
    append(lake, "stock", "a.parquet")
    append(lake, "stock", "b.parquet")
    assert [known.state.newest.num_rows for known in lake._recent._known.values()] == [1]
    assert live(lake.snapshot("stock")) == ["a.parquet", "b.parquet"]


def test_tables_in_memory_are_bounded(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_TABLES", 1)
    for name in NAMES:
        append(lake, name, "a.parquet")
    assert len(lake._recent._known) == 1
    assert [lake.snapshot(name).version for name in NAMES] == [1, 1]


def test_a_table_made_anew_at_the_place_of_another_one_is_read_anew(lake: LogLake, tmp_path: Path) -> None:
    append(lake, "stock", "a.parquet")
    lake.release("stock")
    with pytest.raises(TableNotFound):
        lake.snapshot("stock")
    lake.adopt("stock", str(tmp_path / "lake" / "stock"))
    append(lake, "stock", "b.parquet")
    assert live(lake.snapshot("stock")) == ["a.parquet", "b.parquet"]


def test_a_closed_lake_gives_no_known_version(tmp_path: Path) -> None:
    lake = LogLake.open(tmp_path / "other")
    with lake:
        lake._create_log("stock", schema({"id": "long"}))
        append(lake, "stock", "a.parquet")
    with pytest.raises(InvalidArgument, match="closed"):
        lake.snapshot("stock")


def test_keys_that_fail_after_the_commit_undo_nothing(
    lake: LogLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake" / "stock" / "a.parquet").write_bytes(b"rows")
    tx = lake.transaction()
    log = tx.log("stock")
    log.add(add("a.parquet"), fresh=True)
    log.commit("WRITE")
    original = EmbeddedOwner.commit_transaction

    def fails(*args: Any) -> Any:
        raise StorageError("the keys of the store cannot be had")

    def commit(*args: Any, **kwargs: Any) -> Any:
        outcome = original(*args, **kwargs)
        monkeypatch.setattr(LogLake, "_options_at", fails)
        return outcome

    monkeypatch.setattr(EmbeddedOwner, "commit_transaction", commit)
    tx.commit()
    assert tx.versions == {"stock": 1}
    assert (tmp_path / "lake" / "stock" / "a.parquet").read_bytes() == b"rows"


@pytest.fixture
def other(lake: LogLake, tmp_path: Path) -> Iterator[LogLake]:
    """Another process of the lake, in place of one: it shares the database with `lake`, and nothing else."""
    append(lake, "stock", "a.parquet")
    with LogLake.open(tmp_path / "lake") as found:
        yield found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first versions of the commits that an owner was asked for."""
    found: list[int] = []
    original = EmbeddedOwner.get_commits

    def counting(owner: EmbeddedOwner, table_id: str, start_version: int, *rest: Any, **more: Any) -> Any:
        found.append(start_version)
        return original(owner, table_id, start_version, *rest, **more)

    monkeypatch.setattr(EmbeddedOwner, "get_commits", counting)
    return found


def test_an_append_does_not_read_what_others_appended(
    lake: LogLake, other: LogLake, requests: Counter[str], asked: list[int]
) -> None:
    for number in range(3):
        append(other, "stock", f"b{number}.parquet")
    requests.clear()
    asked.clear()
    append(lake, "stock", "c.parquet")
    assert (+requests, asked) == ({}, [])
    with lake.transaction() as tx:
        found = tx.snapshot("stock")
        assert (found.version, live(found)) == (
            5, ["a.parquet", "b0.parquet", "b1.parquet", "b2.parquet", "c.parquet"],
        )  # fmt: skip
    assert asked == [2]


def test_an_unread_version_states_what_it_knows_and_reads_the_rest_once(
    lake: LogLake, other: LogLake, asked: list[int]
) -> None:
    append(other, "stock", "b.parquet")
    append(other, "stock", "c.parquet")
    newest = other.snapshot("stock")
    asked.clear()
    found = LakeReadView([lake]).of("stock").snapshot(3)
    copies = [copy.copy(found), found.with_table(found.table)]
    assert (found.version, found.timestamp_ms) == (3, newest.timestamp_ms)
    assert (found.protocol, found.metadata, found.schema) == (newest.protocol, newest.metadata, newest.schema)
    assert asked == []
    assert live(found) == live(newest)
    assert found.segment.commits[-1].version == 3
    assert [live(each) for each in (*copies, found.without_files())] == [live(newest)] * 3
    assert asked == [2]
    append(other, "stock", "d.parquet")
    later = found.update()
    assert (later.version, live(later)) == (4, [*live(newest), "d.parquet"])
    assert (found.version, live(found)) == (3, live(newest))


def test_the_transaction_ids_and_domains_of_an_unread_version_are_those_of_the_version(
    lake: LogLake, other: LogLake
) -> None:
    with other.transaction() as tx:
        log = tx.log("stock")
        log.set_transaction("loader", 7)
        log.commit("WRITE")
    append(other, "stock", "b.parquet")
    with lake.transaction() as tx:
        assert tx.log("stock").application_version("loader") == 7


def test_a_changed_schema_is_read_before_an_append(lake: LogLake, other: LogLake, asked: list[int]) -> None:
    append(lake, "stock", "b.parquet")
    before = other.snapshot("stock")
    properties = {**before.metadata.configuration, "delta.appendOnly": "true"}
    change = begin(before)
    change.set_metadata(replace(before.metadata, configuration=properties))
    change.commit("SET TBLPROPERTIES")
    append(other, "stock", "c.parquet")
    asked.clear()
    with lake.transaction() as tx:
        assert tx.reading("stock").snapshot.properties["delta.appendOnly"] == "true"
    assert asked


@pytest.mark.usefixtures("unspaced")
def test_a_version_after_very_many_unread_commits_is_read_from_its_checkpoint(
    lake: LogLake, other: LogLake, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_COMMITS", 12)
    monkeypatch.setattr(unread_snapshot, "MOST_NEW_COMMITS", 12)
    for number in range(30):
        append(other, "stock", f"{number}.parquet")
        other.backfill("stock")
    append(lake, "stock", "z.parquet")
    with lake.transaction() as tx:
        found = tx.snapshot("stock")
        assert len(live(found)) == 32
        assert found.segment.checkpoint is not None
        assert found.segment.checkpoint.version >= 32 - 12


def test_a_due_checkpoint_is_written_by_one_who_has_not_read_the_log(lake: LogLake, other: LogLake) -> None:
    for number in range(9):
        append(other, "stock", f"{number}.parquet")
    other.backfill("stock")
    append(lake, "stock", "z.parquet")
    found = Snapshot.load(lake.snapshot("stock").store.root_url)
    assert found.segment.checkpoint is not None
    assert found.segment.checkpoint.version == 10
    assert len(live(Snapshot.load(lake.snapshot("stock").store.root_url, 10))) == 10


@pytest.mark.parametrize("outcome", [CommitUnknown, CommitFailed])
@pytest.mark.parametrize("is_unread", [False, True], ids=["read", "unread"])
def test_the_outcome_of_a_commit_is_told_by_one_whose_owner_is_gone(
    lake: LogLake, other: LogLake, monkeypatch: pytest.MonkeyPatch, outcome: type[Exception], is_unread: bool
) -> None:
    """Also if the log of the version before was not read. A file that is known not to be committed is deleted."""
    append(lake, "stock", "b.parquet")
    if is_unread:
        append(other, "stock", "c.parquet")
    store = lake.snapshot("orders").store
    file = Path(store.local_root or "").parent / "stock" / "d.parquet"
    file.write_bytes(b"rows")

    def lost(*_: object) -> None:
        raise CommitOwnerUnavailable("nobody listens")

    def committed(*_: object) -> None:
        monkeypatch.setattr(EmbeddedOwner, "get_commits", lost)
        raise outcome("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "commit_transaction", committed)
        with pytest.raises(outcome, match=r"the connection was lost") as caught:
            append(lake, "stock", "d.parquet")
    assert type(caught.value) is outcome
    assert file.exists() is (outcome is CommitUnknown)
    assert ("d.parquet" in str(caught.value)) is (outcome is CommitUnknown)


@pytest.mark.usefixtures("unspaced")
def test_a_checkpoint_is_written_though_another_writer_has_each_version_after_one_that_is_due(
    lake: LogLake, monkeypatch: pytest.MonkeyPatch, other: LogLake
) -> None:
    run, run_behind = PostCommitHook.run, PostCommitHook.run_behind
    for number in range(20):
        append(lake, "stock", f"{number}.parquet")
        lake.backfill("stock")
        with monkeypatch.context() as patch:
            # An engine that writes no checkpoints has the odd versions.
            patch.setattr(PostCommitHook, "run", lambda *_: ([], []))
            patch.setattr(PostCommitHook, "run_behind", lambda *_: ([], []))
            append(other, "stock", f"o{number}.parquet")
        lake.backfill("stock")
    assert (PostCommitHook.run, PostCommitHook.run_behind) == (run, run_behind)
    checkpoint = Snapshot.load(lake.snapshot("stock").store.root_url).segment.checkpoint
    assert checkpoint is not None
    assert checkpoint.version >= 20


def test_an_unread_version_goes_to_other_processes_as_one_that_was_read(lake: LogLake, other: LogLake) -> None:
    append(other, "orders", "b.parquet")
    lake.snapshot("orders")
    append(other, "orders", "c.parquet")
    found = LakeReadView([lake]).of("orders").snapshot(2)
    assert isinstance(found, unread_snapshot.UnreadSnapshot)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own bytes
    assert type(again) is Snapshot
    assert live(again) == live(found) == ["b.parquet", "c.parquet"]


@pytest.mark.usefixtures("unspaced")
def test_a_long_known_version_goes_on_from_the_newest_checkpoint_without_a_listing(
    lake: LogLake, monkeypatch: pytest.MonkeyPatch, requests: Counter[str]
) -> None:
    monkeypatch.setattr(recent_snapshots, "_MOST_COMMITS", 12)
    for number in range(30):
        append(lake, "stock", f"{number}.parquet")
        lake.backfill("stock")
    assert requests["list_from"] <= 3
    requests.clear()
    (known,) = (each for each in lake._recent._known.values() if each.version)
    assert known.version == 30
    assert known.segment.checkpoint is not None
    assert known.segment.checkpoint.version == 20
    assert len(live(known)) == 30
    append(lake, "stock", "31.parquet")
    assert requests["list_from"] == 0
    assert len(live(lake.snapshot("stock"))) == 31
