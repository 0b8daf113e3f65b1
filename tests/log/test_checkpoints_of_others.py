"""Logs with several checkpoints of one version, some of them damaged or cut, and with hints that lead nowhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from slackwater.errors import CheckpointFallbackWarning, CorruptCheckpoint, MissingCommit
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.cleanup import clean_up_log
from tests.log.tables import DEFAULT, Action, TableLog, add, checkpoint_metadata, facts, remove, txn

NEVER_MS = 1 << 50
LIVE = [add("f0", "w"), *(add(f"f{version}") for version in range(2, 11))]
GONE = [remove("f0", deletionTimestamp=NEVER_MS), remove("f1", deletionTimestamp=NEVER_MS)]
SMALL = [*DEFAULT, txn("app", 7)]


def thirteen_commits() -> TableLog:
    """Versions 0 to 12; what was removed by 10 is f1, and f0 without the deletion vector that it has."""
    log = TableLog().create(add("f0")).grow(8)
    log.commit(9, add("f0", "w"), GONE[0], txn("app", 7))
    log.commit(10, GONE[1], add("f9"), add("f10"))
    return log.grow(12, first=11)


def split(parts: int) -> list[list[Action]]:
    """The actions of version 10 in so many parts."""
    found = [SMALL, *([] for _ in range(1, parts))]
    for number, action in enumerate([*GONE, *LIVE]):
        found[number % parts] = [*found[number % parts], action]
    return found


KINDS: dict[str, Callable[[TableLog], object]] = {
    "two parts": lambda log: log.multipart(10, *split(2)),
    "three parts": lambda log: log.multipart(10, *split(3)),
    "classic": lambda log: log.classic(10, *SMALL, *GONE, *LIVE),
    "uuid json": lambda log: log.v2(10, "json", checkpoint_metadata(10), *SMALL, *GONE, *LIVE),
    "uuid parquet": lambda log: log.v2(
        10, "parquet", checkpoint_metadata(10), *SMALL, log.sidecar(*GONE), log.sidecar(*LIVE)
    ),
}
SETS = [*itertools.combinations(KINDS, 1), *itertools.combinations(KINDS, 2), tuple(KINDS)]


def no_hint(log: TableLog) -> None:
    log.delete("_last_checkpoint")


HINTS: list[Callable[[TableLog], object]] = [
    no_hint,
    lambda log: log.hint(10, parts=3),
    lambda log: log.hint(10, parts=7),
    lambda log: log.hint(6),
    lambda log: log.hint(11),
]


def checkpoint_files(log: TableLog) -> list[str]:
    paths = [meta.path for meta in log.store.list_from("_delta_log") if ".checkpoint." in meta.path]
    return [PurePosixPath(path).name for path in paths]


@pytest.mark.parametrize("kinds", SETS, ids="+".join)
def test_any_of_several_checkpoints_of_a_version_may_be_used(kinds: tuple[str, ...]) -> None:
    log = thirteen_commits()
    expected = facts(log.load())
    for kind in kinds:
        KINDS[kind](log)
    log.multipart(10, *split(4), only=[1, 2, 4])
    if "two parts" not in kinds:
        log.multipart(10, *split(2), only=[1])
    for write_hint in HINTS if len(kinds) != 1 else HINTS[:1]:
        write_hint(log)
        assert facts(log.load()) == expected
    log.delete_commits(*range(11))
    for write_hint in HINTS:
        write_hint(log)
        assert facts(log.load()) == expected
    write_last_checkpoint(log.store, write_checkpoint(log.load(), 0))
    log.delete_commits(11)
    assert facts(log.load()) == expected


@pytest.mark.parametrize("whole", KINDS)
@pytest.mark.filterwarnings("ignore::slackwater.errors.CheckpointFallbackWarning")
def test_checkpoints_of_no_bytes_are_passed_over_for_one_that_is_whole(whole: str) -> None:
    log = thirteen_commits()
    expected = facts(log.load())
    KINDS[whole](log)
    kept = set(checkpoint_files(log))
    for kind in KINDS.keys() - {whole}:
        KINDS[kind](log)
    for name in set(checkpoint_files(log)) - kept:
        log.put(name, b"")
    log.hint(10, parts=3)
    cleaned = clean_up_log(log.store, log.load(), NEVER_MS)
    assert sorted(cleaned.deleted) == [f"_delta_log/{version:020d}.json" for version in range(10)]
    log.delete_commits(10)
    assert facts(log.load()) == expected


def test_checkpoints_of_no_bytes_are_passed_over_for_the_commits_while_these_are_there() -> None:
    log = thirteen_commits()
    expected = facts(log.load())
    for write in KINDS.values():
        write(log)
    for name in checkpoint_files(log):
        log.put(name, b"")
    log.hint(10, parts=3)
    with pytest.warns(CheckpointFallbackWarning):
        loaded = log.load()
    assert facts(loaded) == expected
    assert clean_up_log(log.store, loaded, NEVER_MS).deleted == ()
    log.delete_commits(*range(5))
    with pytest.raises(CorruptCheckpoint):
        log.load()


def test_a_checkpoint_of_no_bytes_is_replaced_by_the_next_one_of_its_name() -> None:
    log = thirteen_commits()
    expected = facts(log.load())
    log.classic(12, *DEFAULT)
    (name,) = checkpoint_files(log)
    log.put(name, b"")
    with pytest.warns(CheckpointFallbackWarning):
        loaded = log.load()
    write_last_checkpoint(log.store, write_checkpoint(loaded, 0))
    log.delete_commits(*range(12))
    assert checkpoint_files(log) == [name]
    assert facts(log.load()) == expected


@pytest.mark.parametrize("older", [None, 2])
def test_a_hint_that_leads_nowhere_makes_no_smaller_table(older: int | None) -> None:
    log = TableLog().create(add("f0")).grow(8)
    expected = facts(log.load())
    if older is not None:
        log.classic(older, *DEFAULT, add("f0"), add("f1"), add("f2"))
    log.hint(6)
    assert facts(log.load()) == expected
    log.delete_commits(*range(5))
    for version in (None, 8, 6, 5):
        with pytest.raises(MissingCommit):
            log.load(version)


def test_a_checksum_of_no_bytes_is_passed_over() -> None:
    log = TableLog().create(add("f0")).grow(3)
    expected = facts(log.load())
    for version in range(4):
        log.put(f"{version:020d}.crc", b"")
    assert facts(log.load()) == expected
    assert facts(log.load(2).update()) == expected
