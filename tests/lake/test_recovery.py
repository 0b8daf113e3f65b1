"""Lakes whose owner's state is lost, old, or a copy, and what is made of them from their tables."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerRequired,
    CommitUnknown,
    OperationNotAllowed,
    RecoveryUndecided,
    SlackwaterError,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.lake.lake import LogLake
from slackwater.lake.recovery import recovery
from slackwater.lake.recovery.recovery import RecoveryOptions
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import DATABASE_FILE, EmbeddedOwner
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.recovery.fences import Fences, fence_path
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.commit_content import content
from slackwater.owner.state.commit_files import versions_after
from slackwater.protocol.actions.file_names import staged_path, version_prefix
from slackwater.protocol.actions.transaction_groups import GROUP_TAG, TransactionGroup
from slackwater.storage.open import open_store
from tests.contract.owners import SteppedPlaces, Table, actions_in, at_once, info_in, new_id
from tests.contract.postgres import shared_server
from tests.contract.test_staged_by_client import staged
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def held(root: Path, database: str | None = None, **settings: Any) -> LogLake:
    """A lake whose owner backfills on request only."""
    owner = EmbeddedOwner.open(root, database, **{"backfill_delay_s": None, **settings})
    return LogLake(owner, owner.root_url)


@pytest.fixture
def lake(root: Path) -> Iterator[LogLake]:
    """The tables `a` and `b`: of each one commit in the log, and one that is not; and one transaction over both."""
    found = held(root)
    for name in ("a", "b"):
        found._create_log(name, ID)
        append(found, name)
        found.backfill(name)
        append(found, name)
    append_together(found, "a", "b")
    yield found
    found.close()


def append(lake: LogLake, name: str) -> str:
    """Commit a file that is there; its path."""
    path = written(lake, name)
    transaction = slackwater.Transaction(lake.snapshot(name))
    transaction.add(add(path))
    transaction.commit("WRITE")
    return path


def append_together(lake: LogLake, *names: str) -> str:
    """Commit one file in each table at once."""
    path = f"{new_id()}.parquet"
    with lake.transaction() as tx:
        for name in names:
            log = tx.log(name)
            log.add(add(written(lake, name, path)))
            log.commit("WRITE")
    return path


def written(lake: LogLake, name: str, path: str = "") -> str:
    path = path or f"{new_id()}.parquet"
    local = open_store(lake.owner.table(name).location).local_root
    (Path(str(local)) / path).write_bytes(b"rows")
    return path


def files(lake: LogLake, name: str) -> list[str]:
    return sorted(lake.snapshot(name).live_files().column("path").to_pylist())


def contents(lake: LogLake) -> dict[str, list[str]]:
    return {table.name: files(lake, table.name) for table in lake.tables()}


def everything(root: Path) -> dict[str, bytes]:
    """All files below `root` but the databases."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "_slackwater" not in path.parts
    }


def lose(lake: LogLake, root: Path) -> dict[str, list[str]]:
    """Close the lake and delete its database; what was in the tables."""
    found = contents(lake)
    lake.close()
    shutil.rmtree(root / "_slackwater")
    return found


def stage(root: Path, name: str, version: int, at_ms: int, path: str, table_ids: tuple[str, ...] = ()) -> str:
    """A staged commit that somebody left; the name of its file."""
    store = open_store(root / name)
    file = f"{version_prefix(version)}.{new_id()}.json"
    actions = [{"commitInfo": {"txnId": new_id(), "operation": "WRITE"}}, {"add": add(path).to_json()["add"]}]
    store.put_if_absent(staged_path(file), content(actions, version, at_ms, table_ids=table_ids))
    return file


# Lost.


def test_a_lake_whose_database_is_gone_is_not_taken_for_a_new_one(lake: LogLake, root: Path) -> None:
    lose(lake, root)
    with pytest.raises(OperationNotAllowed, match=r"/lake/[ab] belongs to commit owner .*slackwater lake recover"):
        LogLake.open(root)
    # Once more: the first did not make it one that is known.
    with pytest.raises(OperationNotAllowed):
        LogLake.open(root)


def test_all_that_was_acknowledged_is_there_after_the_database_was_lost(lake: LogLake, root: Path) -> None:
    before = lose(lake, root)
    with LogLake.open(root, recover=True) as found:
        assert contents(found) == before
        last = {name: found.snapshot(name).timestamp_ms for name in ("a", "b")}
        both = append_together(found, "a", "b")
        assert contents(found) == {name: sorted([*paths, both]) for name, paths in before.items()}
        assert found.snapshot("a").timestamp_ms == found.snapshot("b").timestamp_ms > max(last.values())
    with LogLake.open(root) as again:
        assert len(contents(again)["a"]) == 4


def test_a_recovery_says_what_it_decided(lake: LogLake, root: Path) -> None:
    lose(lake, root)
    left = stage(root, "a", 9, 10**14, "none.parquet")
    told = LogLake.recover_state(root)
    assert any(line.startswith("a (") and "version 1 is in the log" in line for line in told.lines)
    assert any(left in line and "version 4 before it is missing. The file stays" in line for line in told.lines)
    assert told.owner_id not in told.former_ids
    assert (root / "a" / staged_path(left)).is_file()


def test_a_dry_run_says_the_same_and_does_nothing(lake: LogLake, root: Path) -> None:
    lose(lake, root)
    before = everything(root)
    expected = LogLake.recover_state(root, dry_run=True)
    assert everything(root) == before
    assert not (root / DATABASE_FILE).exists()
    done = LogLake.recover_state(root)
    assert done.lines[: len(expected.lines)] == expected.lines


def test_of_several_staged_for_one_version_the_user_says_which(lake: LogLake, root: Path) -> None:
    paths = [written(lake, "a") for _ in range(2)]
    at_ms = lake.snapshot("a").timestamp_ms
    lose(lake, root)
    several = [stage(root, "a", 4, at_ms + n, paths[n - 1]) for n in (1, 2)]
    before = everything(root)
    with pytest.raises(RecoveryUndecided, match="version 4 may be any of") as caught:
        LogLake.open(root, recover=True)
    assert all(name in str(caught.value) for name in several)
    assert everything(root) == before
    assert not (root / DATABASE_FILE).exists()
    LogLake.recover_state(root, choices=RecoveryOptions(counts=[several[1]]))
    with LogLake.open(root) as found:
        assert paths[1] in files(found, "a")
        assert paths[0] not in files(found, "a")
        # Even long after that nobody deletes the other.
        found.close()
    late = OwnerClock(now_ms=lambda: 10**14 + 2 * GRACE_MS)
    owner = EmbeddedOwner.open(root, backfill_delay_s=None, clock=late)
    owner.repair()
    owner.close()
    assert (root / "a" / staged_path(several[0])).is_file()


def test_a_commit_whose_files_are_gone_is_not_taken(lake: LogLake, root: Path) -> None:
    at_ms = lake.snapshot("a").timestamp_ms
    before = lose(lake, root)
    stage(root, "a", 4, at_ms + 1, "gone.parquet")
    with LogLake.open(root, recover=True) as found:
        assert contents(found) == before


def test_of_a_transaction_that_was_staged_in_one_of_its_tables_nothing_counts(lake: LogLake, root: Path) -> None:
    path, at_ms = written(lake, "a"), lake.snapshot("a").timestamp_ms
    ids = tuple(lake.owner.table(name).table_id for name in ("a", "b"))
    before = lose(lake, root)
    stage(root, "a", 4, at_ms + 1, path, ids)
    with LogLake.open(root, recover=True) as found:
        assert contents(found) == before


def test_a_transaction_that_is_in_the_log_of_one_table_counts_in_all(lake: LogLake, root: Path) -> None:
    together = set(files(lake, "a")) & set(files(lake, "b"))
    lake.backfill("a")
    lose(lake, root)
    # Beside its part somebody left another commit of that version.
    store = open_store(root / "b")
    part = next(m for m in store.list_from("_delta_log/_commits") if f"{3:020}." in m.path)
    at_ms = info_in(store.read(part.path))["inCommitTimestamp"]
    (root / "b" / "x.parquet").write_bytes(b"rows")
    stage(root, "b", 3, at_ms + 1, "x.parquet")
    with LogLake.open(root, recover=True) as found:
        assert together <= set(files(found, "b"))
        assert "x.parquet" not in files(found, "b")


def test_no_timestamp_comes_again_whatever_the_clock_says(lake: LogLake, root: Path) -> None:
    lose(lake, root)
    left = stage(root, "a", 9, 10**14, "none.parquet")
    with LogLake.open(root, recover=True) as found:
        append(found, "b")
        assert found.snapshot("b").timestamp_ms > 10**14
        assert info_in((root / "a" / staged_path(left)).read_bytes())["inCommitTimestamp"] == 10**14


def test_tables_keep_their_names_and_others_are_told_by_the_user(lake: LogLake, root: Path, tmp_path: Path) -> None:
    lake._create_log("elsewhere", ID, location=tmp_path / "outside" / "t")
    lake._create_log("named", ID, location=root / "deep" / "inside" / "t")
    lose(lake, root)
    told = RecoveryOptions(tables=[str(tmp_path / "outside" / "t")])
    LogLake.recover_state(root, choices=told)
    with LogLake.open(root) as found:
        assert [table.name for table in found.tables()] == ["a", "b", "elsewhere", "named"]
        append(found, "elsewhere")
    shutil.rmtree(root / "_slackwater")
    LogLake.recover_state(root, choices=RecoveryOptions(tables=[f"other={tmp_path}/outside/t"]))


def test_a_table_of_another_lake_is_left_alone(lake: LogLake, root: Path, tmp_path: Path) -> None:
    with held(tmp_path / "other") as other:
        other._create_log("theirs", ID, location=root / "theirs")
        owners = {lake.owner.owner_id, other.owner.owner_id}
        own = lake.owner.owner_id
        lose(lake, root)
        with pytest.raises(RecoveryUndecided, match="belong to several commit owners") as caught:
            LogLake.recover_state(root)
        assert all(each in str(caught.value) for each in owners)
        told = LogLake.recover_state(root, choices=RecoveryOptions(owner_ids=[own]))
        assert any("left alone" in line for line in told.lines)
        append(other, "theirs")
    with LogLake.open(root) as found:
        assert [table.name for table in found.tables()] == ["a", "b"]


def test_where_there_is_no_table_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="no table with a commit owner"):
        LogLake.recover_state(tmp_path)
    assert list(tmp_path.iterdir()) == []


class Cut(BaseException):
    """The process ends here."""


STEPS = ("put_fence", "publish", "reset", "remember", "forget_table")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_recovery_that_is_cut_short_at_any_step_is_done_again(
    lake: LogLake, root: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    before = lose(lake, root)
    whole: Callable[..., Any] = getattr(recovery, step)
    calls: list[int] = []

    def cut(*arguments: Any) -> Any:
        calls.append(0)
        if len(calls) < (1 if step in ("reset", "remember") else 2):
            return whole(*arguments)
        if when == "after":
            whole(*arguments)
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(recovery, step, cut)
        with pytest.raises(Cut):
            LogLake.recover_state(root)
    # Of a database that was begun the owners before it are known; else the tables may name two.
    told = LogLake.recover_state(root)
    assert told.owner_id
    with LogLake.open(root) as found:
        assert contents(found) == before
        append_together(found, "a", "b")


def test_a_table_whose_take_over_was_cut_short_is_finished_by_whoever_comes(
    lake: LogLake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lose(lake, root)

    def cut(*_: Any) -> None:
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr("slackwater.owner.ownership_transfer.OwnershipTransfer._put", cut)
        with pytest.raises(Cut):
            LogLake.recover_state(root)
    LogLake.recover_state(root)
    with LogLake.open(root) as found:
        assert contents(found) == before


# Old.


def test_a_database_that_was_restored_and_is_old_is_not_opened(lake: LogLake, root: Path, tmp_path: Path) -> None:
    lake.owner.database.backup(tmp_path / "owner.db")  # type: ignore[attr-defined]
    append(lake, "a")
    lose(lake, root)
    (root / "_slackwater").mkdir()
    shutil.copy(tmp_path / "owner.db", root / DATABASE_FILE)
    with pytest.raises(OperationNotAllowed, match=r"is older than the tables: .*slackwater lake recover"):
        LogLake.open(root)


@pytest.mark.parametrize("backfilled", [True, False])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_all_that_was_acknowledged_is_there_after_an_old_database_was_restored(
    root: Path, tmp_path: Path, kind: str, backfilled: bool
) -> None:
    database, restore = new_database(kind, tmp_path)
    lake = held(root, database)
    lake._create_log("a", ID)
    append(lake, "a")
    backup = restore(lake)
    lake._create_log("b", ID)
    for _ in range(3):
        append(lake, "a")
    append_together(lake, "a", "b")
    if backfilled:
        lake.backfill("a")
    before, last_ms = contents(lake), lake.snapshot("a").timestamp_ms
    lake.close()
    old = backup()
    with pytest.raises(OperationNotAllowed, match="slackwater lake recover"):
        LogLake.open(root, old)
    with LogLake.open(root, old, recover=True) as found:
        assert contents(found) == before
        append(found, "b")
        assert found.snapshot("b").timestamp_ms > last_ms


def new_database(kind: str, tmp_path: Path) -> tuple[str, Callable[[LogLake], Callable[[], str]]]:
    """A database; and what makes a backup of it, which answers with what restores that: the URL then."""
    if kind == "sqlite":
        copy = tmp_path / "backup.db"

        def backup(lake: LogLake) -> Callable[[], str]:
            lake.owner.database.backup(copy)  # type: ignore[attr-defined]
            return lambda: f"sqlite:////{str(copy).strip('/')}"

        return f"sqlite:////{tmp_path}/owner.db", backup
    server = shared_server()
    url = server.new_database()

    def dumped(lake: LogLake) -> Callable[[], str]:
        del lake
        text = postgres("pg_dump", url)

        def restored() -> str:
            new = server.new_database()
            postgres("psql", new, text)
            return new

        return restored

    return url, dumped


def postgres(program: str, url: str, text: bytes = b"") -> bytes:
    """What a program of PostgreSQL says of the database."""
    server = shared_server()
    found = urlsplit(url)
    socket = parse_qs(found.query)["host"][0]
    command = [str(server._binaries / program), "-h", socket, "-U", "owner", "-d", found.path.strip("/")]
    if program == "psql":
        command += ["-q", "-v", "ON_ERROR_STOP=1"]
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        command, input=text, check=True, capture_output=True, **server._as_user()
    )
    return done.stdout


def test_nobody_is_told_to_move_what_an_owner_ratified_out_of_the_log(
    lake: LogLake, root: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "owner.db"
    # By other means than ours, so that it does not say that it is a copy.
    with closing(sqlite3.connect(root / DATABASE_FILE)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    append(lake, "a")
    lake.backfill("a")
    lake.close()
    # In the place of the other, so that the file is the same one.
    for beside in root.glob("_slackwater/owner.db-*"):
        beside.unlink()
    (root / DATABASE_FILE).write_bytes(copy.read_bytes())
    with held(root) as old:
        with pytest.raises(UnratifiedCommit, match="slackwater lake recover") as caught:
            old.snapshot("a")
        assert "out of the log" not in str(caught.value)
        report = [line for line in old.repair() if line.startswith("a:")][-1]
        assert "slackwater lake recover" in report
        assert "out of the log" not in report


def test_tables_that_were_restored_and_are_old_are_not_gone_on_with_in_silence(
    lake: LogLake, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "a", tmp_path / "old")
    last_ms = 0
    for _ in range(2):
        append(lake, "a")
        last_ms = lake.snapshot("a").timestamp_ms
    lake.backfill("a")
    lake.close()
    shutil.rmtree(root / "a")
    shutil.copytree(tmp_path / "old", root / "a")
    with pytest.raises(RecoveryUndecided, match=r"a: the files of the ratified versions 4 to 5 are missing"):
        LogLake.open(root, recover=True)
    told = LogLake.recover_state(root, choices=RecoveryOptions(accept_loss=True))
    assert any(line.startswith("lost: a: the files of the ratified versions 4 to 5") for line in told.lines)
    with LogLake.open(root) as found:
        assert found.snapshot("a").version == 4
        assert found.snapshot("a").timestamp_ms > last_ms


def test_a_backup_that_is_made_while_others_commit_is_enough(lake: LogLake, root: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def write(name: str) -> None:
        while not stop.is_set():
            append(lake, name)
            lake.backfill(name)

    def back_up() -> None:
        try:
            for number in range(3):
                lake.owner.database.backup(tmp_path / f"{number}.db")  # type: ignore[attr-defined]
                (tmp_path / f"{number}").mkdir()
                for name in ("a", "b"):
                    # What is being written this moment goes away under the hands of whoever copies.
                    unfinished = shutil.ignore_patterns("*.tmp")
                    shutil.copytree(root / name, tmp_path / f"{number}" / name, ignore=unfinished)
        finally:
            stop.set()

    assert at_once(lambda: write("a"), lambda: write("b"), back_up) == [None] * 3
    for number in range(3):
        copy = tmp_path / f"{number}"
        (copy / "_slackwater").mkdir()
        shutil.copy(tmp_path / f"{number}.db", copy / DATABASE_FILE)
        in_log = {name: len(versions_after(open_store(copy / name), -1)) for name in ("a", "b")}
        LogLake.recover_state(copy)
        with LogLake.open(copy) as found:
            for name in ("a", "b"):
                assert found.snapshot(name).version >= in_log[name]
                append(found, name)


# Copies.


def test_a_lake_that_was_copied_is_another_one(lake: LogLake, root: Path, tmp_path: Path) -> None:
    lake._create_log("outside", ID, location=tmp_path / "outside")
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    with pytest.raises(
        OperationNotAllowed, match=r"belongs to the lake at .*/lake, .* It is a copy.*slackwater lake recover"
    ):
        LogLake.open(copy)
    told = LogLake.recover_state(copy)
    assert any("stays with the lake at" in line for line in told.lines)
    with LogLake.open(copy) as other:
        assert [table.name for table in other.tables()] == ["a", "b"]
        assert other.owner.owner_id != lake.owner.owner_id
        before = contents(lake)
        theirs = append(other, "a")
        ours = append(lake, "a")
        append(lake, "outside")
        assert files(lake, "a") == sorted([*before["a"], ours])
        assert theirs in files(other, "a")
        assert ours not in files(other, "a")


def test_a_lake_that_was_moved_is_the_same_one(lake: LogLake, root: Path, tmp_path: Path) -> None:
    before, owner_id = contents(lake), lake.owner.owner_id
    lake.close()
    root.rename(tmp_path / "moved")
    with LogLake.open(tmp_path / "moved") as moved:
        assert moved.owner.owner_id == owner_id
        assert contents(moved) == before


def test_a_postgres_database_is_not_used_for_a_copy_of_its_tables(root: Path, tmp_path: Path) -> None:
    database = shared_server().new_database()
    root.mkdir()
    with held(root, database) as lake:
        lake._create_log("a", ID)
    shutil.copytree(root, tmp_path / "copy")
    with pytest.raises(OperationNotAllowed, match="It is a copy"):
        LogLake.open(tmp_path / "copy", database)


# Fences.


def test_an_owner_of_before_does_not_commit_any_more(lake: LogLake, root: Path) -> None:
    old = EmbeddedOwner.open(root, backfill_delay_s=None)
    table = old.table("a")
    shutil.rmtree(root / "_slackwater")
    with LogLake.open(root, recover=True) as found:
        before = contents(found)
        path = written(found, "a")
        latest = old.get_commits(table.table_id, 0).latest_version
        request = commit_of(table.table_id, latest + 1, path)
        with pytest.raises(CommitUnknown, match="was recovered for another commit owner"):
            old.commit(request)
        with pytest.raises(CommitOwnerRequired, match="Nothing was committed"):
            old.commit(commit_of(table.table_id, latest + 1, path))
        assert contents(found) == before
    old.close()


def test_a_commit_that_was_staged_before_the_recovery_counts_once(lake: LogLake, root: Path) -> None:
    recovered: list[LogLake] = []

    def recover(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("after", "put") and not recovered:
            shutil.rmtree(root / "_slackwater")
            recovered.append(LogLake.open(root, recover=True))

    owner = EmbeddedOwner(
        Database(f"sqlite:////{root}/{DATABASE_FILE}"), SteppedPlaces(recover, root, None), backfill_delay_s=None
    )
    table, path = owner.table("a"), written(lake, "a")
    with pytest.raises(CommitUnknown):
        owner.commit(commit_of(table.table_id, table.ratified_version + 1, path))
    owner.close()
    (found,) = recovered
    assert files(found, "a").count(path) == 1
    found.close()


def test_an_owner_that_looked_before_the_fence_ratifies_what_the_recovery_has_seen(
    lake: LogLake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = EmbeddedOwner.open(root, backfill_delay_s=None)
    table, path = owner.table("a"), written(lake, "a")
    recovered: list[LogLake] = []
    looks = Fences.require_none_after_staging

    def look(*arguments: Any) -> None:
        looks(*arguments)
        if not recovered:
            recovered.append(LogLake.open(root, recover=True))

    monkeypatch.setattr("slackwater.owner.recovery.fences.Fences.require_none_after_staging", look)
    shutil.copytree(root / "_slackwater", root.parent / "ghost")
    answer = owner.commit(commit_of(table.table_id, table.ratified_version + 1, path))
    owner.close()
    (found,) = recovered
    assert getattr(answer, "commit", None) is None or files(found, "a").count(path) == 1
    found.close()


def test_of_two_recoveries_at_once_one_gets_each_table(lake: LogLake, root: Path, tmp_path: Path) -> None:
    before = lose(lake, root)
    urls = [f"sqlite:////{tmp_path}/{number}.db" for number in range(2)]
    answers = at_once(*(lambda url=url: LogLake.recover_state(root, url) for url in urls))
    assert any(not isinstance(answer, BaseException) for answer in answers) or all(
        isinstance(answer, SlackwaterError) for answer in answers
    )
    store = open_store(root / "a")
    owners = [
        action["metaData"]["configuration"]["delta.managedCommit.commitOwnerConf"]
        for version in versions_after(store, 3)
        for action in actions_in(store.read(f"_delta_log/{version:020}.json"))
        if "metaData" in action
    ]
    assert len(owners) == len(set(owners))
    told = LogLake.recover_state(root, urls[0], choices=RecoveryOptions(owner_ids=_owner_ids(root)))
    assert told.owner_id
    with LogLake.open(root, urls[0]) as found:
        assert contents(found) == before


def _owner_ids(root: Path) -> list[str]:
    from slackwater.lake.recovery.tables import found_table

    return sorted({found_table(open_store(root / name)).owner_id for name in ("a", "b")})


def test_a_fence_is_no_file_of_the_log(lake: LogLake, root: Path) -> None:
    former = lake.owner.owner_id
    lose(lake, root)
    LogLake.recover_state(root)
    assert (root / "a" / fence_path(former)).is_file()
    assert slackwater.Snapshot.load(root / "a").version == 4


def commit_of(table_id: str, version: int, path: str) -> Any:
    from slackwater.owner.api.commits import CommitRequest

    commit_id = new_id()
    info = {"commitInfo": {"txnId": commit_id, "operation": "WRITE"}}
    return CommitRequest(table_id, commit_id, version, [info, add(path).to_json()])


@pytest.mark.parametrize("parts", [2, 1])
def test_a_group_that_its_client_staged_counts_in_all_tables_or_in_none(root: Path, parts: int) -> None:
    found = held(root)
    for name in ("a", "b"):
        found._create_log(name, ID, managed="catalogManaged")
        found.backfill(name)
    ids = {name: found.owner.table(name).table_id for name in ("a", "b")}
    txn_id, path = new_id(), f"{new_id()}.parquet"
    group = TransactionGroup.of(txn_id, dict.fromkeys(ids.values(), 1), found.owner.owner_id)
    at_ms = OwnerClock().now_ms()
    asked = []
    for name in ("a", "b")[:parts]:
        table = Table(found.owner, ids[name], name, open_store(root / name))
        written(found, name, path)
        told = {"txnId": txn_id, "tags": {GROUP_TAG: txn_id}}
        asked.append(staged(table, 1, at_ms, group.to_json(), {"add": add(path).to_json()["add"]}, **told))
    if parts == 2:
        assert isinstance(found.owner, EmbeddedOwner)
        assert isinstance(found.owner.commit_staged_group(txn_id, asked), TransactionResponse)
        found.backfill("a")
    lose(found, root)
    with LogLake.open(root, recover=True) as recovered:
        assert contents(recovered) == dict.fromkeys(("a", "b"), [path] if parts == 2 else [])
