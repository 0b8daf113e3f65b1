"""Writers of multi-table transactions in the open form, killed at each step: all participants have it, or none."""

from __future__ import annotations

import pytest

from slackwater.lake.lake import LogLake
from slackwater.log.files.commits import commits_after
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from tests.faults.checked_log import check_log
from tests.faults.dying_owner import GROUP, SCHEMA, append
from tests.faults.shared_lake import MOST_WAITS, Place

FEATURE = {"delta.feature.multiTableTransaction-dev": "supported"}
LANDED = {"ratified, not yet answered", "answered, its backfill not asked for", "one of two published"}
STAGED = {
    "one of two commits staged": 1,
    "the commit staged": 2,
    "ratified, its database transaction open": 2,
}


def _groups(lake: LogLake, names: list[str]) -> list[list[TransactionGroup]]:
    """The groups in the published log of each table."""
    found = []
    for name in names:
        lake.backfill(name)
        logged = commits_after(lake.snapshot(name).store, -1)
        groups = [TransactionGroup.among(commit.actions, name) for commit in logged]
        found.append([group for group in groups if group is not None])
    return found


def _staged(place: Place, name: str) -> list[str]:
    directory = place.path(name) / "_delta_log/_staged_commits"
    return sorted(path.name for path in directory.iterdir() if path.name[0] == "0")


@pytest.mark.parametrize("point", GROUP)
def test_a_killed_group_is_in_the_logs_of_all_its_tables_or_of_none(
    place: Place, waits: list[float], point: str
) -> None:
    names = [place.new_name(), place.new_name()]
    with place.opened() as lake:
        for name in names:
            lake._create_log(name, SCHEMA, properties=FEATURE)
            append(lake.snapshot(name), "before")
    place.kill_while("group", point, " ".join(names))
    landed = point in LANDED
    files = sorted(["before", *["in-doubt"] * landed])
    with place.opened() as lake:
        assert [sorted(lake.snapshot(name).files()["path"].to_pylist()) for name in names] == [files] * 2
        one, other = _groups(lake, names)
        assert one == other
        assert len(one) == landed
        ids = {lake.owner.table(name).table_id: 2 for name in names}
        assert [group.versions for group in one] == [ids] * landed
        # Nobody waits for the killed writer.
        with lake.transaction() as transaction:
            for name in names:
                append(transaction.reading(name).snapshot, "later")
        assert set(transaction.versions.values()) == {2 + landed}
        assert len(waits) <= MOST_WAITS
    with place.after_grace() as lake:
        before = [_staged(place, name) for name in names]
        said = lake.repair()
        deleted = [text for text in said if "because no commit needs them" in text]
        # The later transaction published the version, whose files are left to the cleanup of the log.
        assert deleted == []
        assert [_staged(place, name) for name in names] == before
        one, other = _groups(lake, names)
        assert one == other
        assert len(one) == landed + 1
    for name in names:
        check_log(place.path(name), ["before", *["in-doubt"] * landed, "later"])


@pytest.mark.parametrize("point", GROUP)
def test_a_repair_removes_what_a_killed_group_left(place: Place, point: str) -> None:
    names = [place.new_name(), place.new_name()]
    with place.opened() as lake:
        for name in names:
            lake._create_log(name, SCHEMA, properties=FEATURE)
    place.kill_while("group", point, " ".join(names))
    with place.after_grace() as lake:
        number = STAGED.get(point, 0)
        # Each of two tables cleans the other, but of one staged commit only its table knows.
        texts = [text for name in names[: 1 if number == 2 else 2] for text in lake.repair(name)]
        said = [text for text in texts if "staged files" in text]
        assert len(said) == (number > 0)
        if said:
            assert f": {number} staged files of transaction " in said[0]
            assert all(f"{name} version 1" in said[0] for name in names)
        lake.repair()
        assert lake.repair() == []
        assert [len(_staged(place, name)) for name in names] == [1 + (point in LANDED)] * 2
