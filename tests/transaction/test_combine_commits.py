"""Several changes of one table as one commit, against what they leave when they are made one after the other."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap64

from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.combine_commits import combine_actions, combine_reads
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.rows.file_action_rows import REMOVE_COLUMNS, as_removes
from slackwater.transaction.staged import ReadSet, StagedActions
from tests.transaction.tables import VECTORS, begin, table


def _add(transaction: TableTransaction, path: str) -> None:
    transaction.add(AddFile(path, {}, 1, 1, stats='{"numRecords":10}'), fresh=True)


def _state(snapshot: Snapshot) -> dict[str, int]:
    """The rows that are deleted of each live file, by its path."""
    found = snapshot.live_files(["path", "deletionVector"]).to_pylist()
    return {row["path"]: (row["deletionVector"] or {}).get("cardinality", 0) for row in found}


def _random_change(transaction: TableTransaction, snapshot: Snapshot, chance: random.Random, names: list[str]) -> None:
    files = snapshot.live_files()
    for file in files.to_pylist():
        one = files.filter([path == file["path"] for path in files["path"].to_pylist()])
        kind = chance.choice(["keep", "keep", "remove", "delete rows"])
        if kind == "remove":
            transaction.remove(as_removes(one.select(REMOVE_COLUMNS), 1))
        elif kind == "delete rows":
            gone = (file["deletionVector"] or {}).get("cardinality", 0)
            if gone < 10:
                transaction.delete_rows(one, {file["path"]: BitMap64([gone])})
    for _ in range(chance.randrange(3)):
        names.append(f"{len(names)}.parquet")
        _add(transaction, names[-1])


@pytest.mark.parametrize("seed", range(30))
def test_one_commit_leaves_what_the_changes_left_one_after_the_other(seed: int) -> None:
    chance, names = random.Random(seed), ["0.parquet", "1.parquet"]  # noqa: S311  (a seed, no secret)
    base = table(properties=VECTORS)
    first = begin(base)
    for name in names:
        _add(first, name)
    base = first.commit("WRITE").snapshot
    apart, parts = base, []
    for _ in range(chance.randrange(1, 5)):
        change = begin(apart)
        _random_change(change, apart, chance, names)
        parts.append(change.staged)
        if change.staged.has_file_actions:
            apart = change.commit("WRITE").snapshot
    together = begin(base)
    together.staged = combine_actions([part for part in parts if part.has_file_actions] or [StagedActions()])
    if not together.staged.has_file_actions:
        assert _state(apart) == _state(base)
        return
    # What is to follow the base, as if the others had not been.
    before = table(properties=VECTORS)
    again = begin(before)
    for name in ("0.parquet", "1.parquet"):
        _add(again, name)
    fresh = again.commit("WRITE").snapshot
    joined = TableTransaction(fresh.table, begin(fresh).committer, fresh)
    joined.staged = together.staged
    assert _state(joined.commit("TRANSACTION").snapshot) == _state(apart)


def test_a_file_that_came_and_went_is_not_spoken_of() -> None:
    base = table()
    one, two = begin(base), begin(base)
    _add(one, "a")
    two.remove(as_removes(one.commit("WRITE").snapshot.live_files(REMOVE_COLUMNS), 1))
    joined = combine_actions([one.staged, two.staged])
    assert (joined.adds, joined.removes) == ([], [])


def test_what_only_one_of_the_changes_says_of_the_table_holds() -> None:
    base = table()
    known = StagedActions(protocol=base.protocol, metadata=base.metadata)
    for parts in ([known, StagedActions()], [StagedActions(), known]):
        joined = combine_actions(parts)
        assert (joined.protocol, joined.metadata) == (base.protocol, base.metadata)


def test_one_change_is_taken_as_it_is() -> None:
    staged = begin(table()).staged
    assert combine_actions([staged]) is staged


def test_what_each_read_was_read() -> None:
    one, two = ReadSet(app_ids={"a"}), ReadSet(app_ids={"b"})
    one.read_all()
    both = combine_reads([one, two])
    assert (len(both.readings), both.app_ids) == (1, {"a", "b"})
