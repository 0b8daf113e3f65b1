"""How transactions of a lake end: whatever happens, the block is over, and files are deleted, or named."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerUnavailable,
    InvalidArgument,
    LockTimeout,
    OperationNotAllowed,
    StorageError,
    TransactionEnded,
)
from slackwater.lake import transaction_resources, transaction_table
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.log.table import UncommittedVersions
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore
from tests.contract.owners import PATIENCE_S
from tests.lake.test_transaction import SCHEMA, Kit, add

LONGER_THAN_A_LEASE_MS = 60_000


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path / "lake")
    yield found
    found.lake.close()


def put(kit: Kit, tx: LogTransaction) -> Path:
    """Write a file for a transaction, and add it."""
    store = kit.lake.snapshot("a").store
    store.put("data.parquet", b"rows")
    add(tx, "a", "data.parquet")
    assert store.local_root is not None
    return Path(store.local_root) / "data.parquet"


def require_another(kit: Kit) -> None:
    """Let another transaction begin in this thread, and write what the first has written."""
    with kit.lake.transaction(control="locking", lock_timeout_s=0) as tx:
        add(tx, "a", "another")
    assert kit.files("a") == ["another"]


def lose_the_lease(kit: Kit, tx: LogTransaction, heart: threading.Lock) -> None:
    """Let another have the locks of a transaction that was silent for too long, and the transaction learn of it."""
    with heart:
        kit.later(LONGER_THAN_A_LEASE_MS)
        other = kit.lake.transaction(control="locking", lock_timeout_s=0)
        other.lock("a", exclusive=True)
        other.rollback()
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        try:
            tx.snapshot("a")
        except LockTimeout:
            return
        time.sleep(0.001)
    raise AssertionError("the transaction did not learn that its lease has ended")


@pytest.fixture
def heart(monkeypatch: pytest.MonkeyPatch) -> threading.Lock:
    """Let transactions give a sign of life every millisecond; none is under way while what comes back is held."""
    keep_alive, held = EmbeddedOwner.keep_alive, threading.Lock()

    def one_at_a_time(owner: EmbeddedOwner, txn_id: str) -> None:
        with held:
            keep_alive(owner, txn_id)

    monkeypatch.setattr(transaction_resources, "_KEEP_ALIVE_S", 0.001)
    monkeypatch.setattr(EmbeddedOwner, "keep_alive", one_at_a_time)
    return held


def test_a_block_whose_lease_has_ended_is_over_and_leaves_nothing(kit: Kit, heart: threading.Lock) -> None:
    def block() -> None:
        with tx:
            written.append(put(kit, tx))
            lose_the_lease(kit, tx, heart)

    written: list[Path] = []
    tx = kit.lake.transaction(control="locking")
    with pytest.raises(LockTimeout):
        block()
    assert not written[0].exists()
    with pytest.raises(TransactionEnded):
        tx.rollback()
    require_another(kit)


def test_a_transaction_whose_lease_has_ended_can_be_rolled_back(kit: Kit, heart: threading.Lock) -> None:
    tx = kit.lake.transaction(control="locking")
    written = put(kit, tx)
    lose_the_lease(kit, tx, heart)
    tx.rollback()
    assert not written.exists()
    require_another(kit)


def _raising(kind: type[BaseException]) -> Callable[..., Any]:
    def raised(*_: Any, **__: Any) -> Any:
        raise kind("as the test wants it")

    return raised


def _notes(error: BaseException) -> str:
    return " ".join(getattr(error, "__notes__", []))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_what_interrupts_the_block_rolls_back(kit: Kit, kind: type[BaseException]) -> None:
    def block() -> None:
        with kit.lake.transaction(control="locking") as tx:
            written.append(put(kit, tx))
            raise kind

    written: list[Path] = []
    with pytest.raises(kind):
        block()
    assert not written[0].exists()
    require_another(kit)


@pytest.mark.parametrize(
    ("place", "name", "kind", "stays"),
    [
        (transaction_table.TransactionTableState, "prepare", KeyboardInterrupt, False),
        (transaction_table.TransactionTableState, "prepare", CommitOwnerUnavailable, False),
        (EmbeddedOwner, "commit_transaction", KeyboardInterrupt, True),
        (EmbeddedOwner, "commit_transaction", RuntimeError, True),
        (EmbeddedOwner, "commit_transaction", CommitOwnerUnavailable, False),
    ],
    ids=["interrupted-before", "refused-before", "interrupted-there", "unknown-there", "refused-there"],
)
def test_a_commit_that_is_cut_short_ends_the_block(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, place: type, name: str, kind: type[BaseException], stays: bool
) -> None:
    def block() -> None:
        with kit.lake.transaction() as tx, monkeypatch.context() as patch:
            written.append(put(kit, tx))
            patch.setattr(place, name, _raising(kind))
            tx.commit()

    written: list[Path] = []
    with pytest.raises(kind) as raised:
        block()
    assert written[0].exists() is stays
    if sys.version_info >= (3, 11):
        assert (str(written[0]) in _notes(raised.value)) is stays
    require_another(kit)


@pytest.mark.parametrize("kind", [StorageError, KeyboardInterrupt])
def test_files_that_cannot_be_deleted_are_named_and_the_block_is_over(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def block() -> None:
        with kit.lake.transaction() as tx:
            written.append(put(kit, tx))
            monkeypatch.setattr(LocalObjectStore, "delete", _raising(kind))
            raise ZeroDivisionError

    written: list[Path] = []
    with pytest.raises((ZeroDivisionError, KeyboardInterrupt)) as raised:
        block()
    assert str(written[0]) in caplog.text
    if sys.version_info >= (3, 11):
        assert str(written[0]) in _notes(raised.value)
    monkeypatch.undo()
    require_another(kit)


def test_an_owner_that_is_gone_when_a_block_ends_does_not_keep_it_open(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block() -> None:
        with kit.lake.transaction() as tx, monkeypatch.context() as patch:
            written.append(put(kit, tx))
            tx.current_timestamp()
            patch.setattr(EmbeddedOwner, "end", _raising(CommitOwnerUnavailable))
            tx.rollback()
            raise ZeroDivisionError

    written: list[Path] = []
    with pytest.raises(ZeroDivisionError):
        block()
    assert not written[0].exists()
    kit.later()
    require_another(kit)


def test_a_block_that_is_refused_has_ended(kit: Kit) -> None:
    inner = kit.lake.transaction(control="locking")
    inner.lock("a", exclusive=True)
    with kit.lake.transaction(), pytest.raises(InvalidArgument, match="do not nest"), inner:
        pass
    assert not inner.is_open
    require_another(kit)


def test_what_has_ended_is_forgotten(kit: Kit) -> None:
    def branches() -> int:
        gc.collect()
        # Not isinstance: it asks what stands in for other things, of which there are millions, for their class.
        return sum(type(found) is UncommittedVersions for found in gc.get_objects())

    before = branches()
    with kit.lake.transaction() as tx:
        add(tx, "a")
        add(tx, "b")
        assert branches() == before + 2
    del tx
    assert branches() == before


# Nobody ends it.


def _abandoned(kit: Kit) -> Path:
    tx = kit.lake.transaction(control="locking")
    return put(kit, tx)


def test_a_transaction_that_nobody_ends_is_warned_of_and_lets_go(kit: Kit) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        written = _abandoned(kit)
        gc.collect()
    (warning,) = (str(w.message) for w in told if w.category is ResourceWarning)
    assert "was abandoned without commit or rollback" in warning
    for thread in threading.enumerate():
        if thread.name == "slackwater-abandoned":
            thread.join()
    assert not written.exists()
    require_another(kit)


def test_a_script_that_ends_without_a_commit_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import os, sys
from pathlib import Path
from slackwater import AddFile
from slackwater.lake.lake import LogLake
lake = LogLake.open({str(tmp_path / "lake")!r})
lake._create_log("a", {SCHEMA!r})
tx = lake.transaction()
log = tx.log("a")
Path({str(tmp_path / "lake")!r}, "a", "1.parquet").write_bytes(b"rows")
log.add(AddFile("1.parquet", {{}}, 4, 1, stats='{{"numRecords":1}}'), fresh=True)
log.commit("WRITE")
if os.fork() == 0:
    sys.exit()
os.wait()
print(Path({str(tmp_path / "lake")!r}, "a", "1.parquet").exists())
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n", "a child that was forked ended the transaction of its parent"
    assert done.stderr.count("ResourceWarning: transaction ") == 1
    assert not (tmp_path / "lake" / "a" / "1.parquet").exists()


# By path, within the block.


def _spellings(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    root = Path(kit.lake.snapshot("a").store.local_root or "")
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root.parent)
    relative = f"../{root.parent.name}/a"
    return [str(root), f"{root}/", f"file:{root}", root.as_uri(), root.name, relative, str(tmp_path / "link")]


def test_a_table_is_not_changed_past_its_transaction(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spelling in _spellings(kit, tmp_path, monkeypatch):
        with kit.lake.transaction(), pytest.raises(OperationNotAllowed, match=r"tx\.table\(name\)"):
            slackwater.Transaction(spelling)
        # What the log says may be looked at, and outside of the block nothing has changed.
        with kit.lake.transaction():
            assert Snapshot.load(spelling).version == 0
        slackwater.Transaction(spelling)


def test_tables_of_others_are_left_alone(kit: Kit, tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "other") as other:
        other._create_log("theirs", SCHEMA)
        slackwater.Transaction.create(tmp_path / "plain", SCHEMA).commit("CREATE TABLE")
        with kit.lake.transaction():
            for path in (tmp_path / "other" / "theirs", tmp_path / "plain"):
                slackwater.Transaction(path)
        with (
            kit.lake.transaction(others=[other]),
            pytest.raises(OperationNotAllowed, match="bypass the transaction"),
        ):
            slackwater.Transaction(tmp_path / "other" / "theirs")


def test_the_block_is_where_it_runs(kit: Kit) -> None:
    path = kit.lake.snapshot("a").store.root_url
    elsewhere: Any = None

    async def within() -> None:
        with kit.lake.transaction():
            with pytest.raises(OperationNotAllowed):
                await asyncio.to_thread(slackwater.Transaction, path)
            # Another task is somebody else.
            await elsewhere

    async def run() -> None:
        nonlocal elsewhere
        elsewhere = asyncio.create_task(asyncio.to_thread(slackwater.Transaction, path))
        await within()

    asyncio.run(run())
    with kit.lake.transaction():
        thread = threading.Thread(target=lambda: found.append(slackwater.Transaction(path)))
        found: list[Any] = []
        thread.start()
        thread.join()
    assert len(found) == 1
