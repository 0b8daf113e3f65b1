"""Row ids are given out once: whatever happened to the domain, the feature, the log and the files in between."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import CorruptTable
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.cleanup import delete_versions_before
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.row_tracking import DOMAIN, domain_metadata
from slackwater.protocol.features.table_features import supported_features
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore
from slackwater.transaction.definition import TableDefinition, define_table
from slackwater.transaction.rows.file_action_rows import REMOVE_COLUMNS, as_removes
from slackwater.transaction.rows.row_id_high_water import highest_row_id
from slackwater.transaction.table.alteration import set_properties, unset_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.examples import examples
from tests.transaction.tables import (
    START_MS,
    add,
    append,
    begin,
    commit_actions,
    delete,
    live,
    put_commit,
    set_props,
    table,
)

ENABLED = {"delta.enableRowTracking": "true"}
ROWS = 10


def test_ids_go_on_behind_those_of_before_the_feature_was_dropped() -> None:
    before = append(table(properties=ENABLED), add("a")).snapshot
    dropped = drop_feature(before, "rowTracking").snapshot
    without = append(dropped, add("b")).snapshot
    after = append(set_properties(without, ENABLED).commit(begin(without)).snapshot, add("c")).snapshot
    assert _ranges(after) == {"a": (0, 9), "b": (10, 19), "c": (20, 29)}


def test_ids_of_files_that_are_gone_are_not_given_again() -> None:
    before = append(table(properties=ENABLED), add("a"), add("b")).snapshot
    dropped = drop_feature(delete(before, "a", "b").snapshot, "rowTracking").snapshot
    after = append(set_properties(dropped, ENABLED).commit(begin(dropped)).snapshot, add("c")).snapshot
    assert _ranges(after) == {"c": (20, 29)}


def test_ids_that_a_writer_gave_out_without_saying_so_are_not_given_again() -> None:
    before = append(table(properties=ENABLED), add("a")).snapshot
    beyond = add("b", base_row_id=500, default_row_commit_version=2)
    put_commit(before.store, 2, {"commitInfo": {"timestamp": START_MS}}, beyond.to_json())
    after = append(Snapshot.open(before.store), add("c")).snapshot
    assert _ranges(after) == {"a": (0, 9), "b": (500, 509), "c": (510, 519)}
    assert highest_row_id(after) == 519


def test_ids_of_files_that_are_gone_are_not_given_again_where_another_removed_the_domain() -> None:
    before = append(table(properties=ENABLED), add("a")).snapshot
    _foreign_domain_removal(delete(before, "a").snapshot, "")
    after = Snapshot.open(before.store)
    write_last_checkpoint(after.store, write_checkpoint(after, START_MS))
    assert _ranges(append(Snapshot.open(after.store), add("b")).snapshot) == {"b": (10, 19)}


def test_ids_beyond_the_domain_are_found_in_a_checkpoint() -> None:
    before = append(table(properties=ENABLED), add("a")).snapshot
    beyond = add("b", base_row_id=500, default_row_commit_version=2)
    put_commit(before.store, 2, {"commitInfo": {"timestamp": START_MS}}, beyond.to_json())
    _forget_history(Snapshot.open(before.store))
    after = append(Snapshot.open(before.store), add("c")).snapshot
    assert _ranges(after)["c"] == (510, 519)


def test_a_file_that_does_not_say_its_rows_is_asked_itself(tmp_path: Any) -> None:
    before = table(properties=ENABLED, path=tmp_path / "t")
    pq.write_table(pa.table({"id": list(range(7))}), tmp_path / "t" / "a.parquet")
    silent = add("a.parquet", rows=None, base_row_id=100, default_row_commit_version=1)
    put_commit(before.store, 1, {"commitInfo": {"timestamp": START_MS}}, silent.to_json())
    assert _ranges(append(Snapshot.open(before.store), add("b")).snapshot)["b"] == (107, 116)


def test_no_ids_are_given_out_where_nobody_knows_which_are_free() -> None:
    before = table(properties=ENABLED)
    silent = add("a", rows=None, base_row_id=100, default_row_commit_version=1)
    put_commit(before.store, 1, {"commitInfo": {"timestamp": START_MS}}, silent.to_json())
    with pytest.raises(CorruptTable, match="a has row ids from 100, but"):
        append(Snapshot.open(before.store), add("b"))
    assert live(before.store) == ["a"]


Operation = Callable[[Snapshot, str], None]


def _append(snapshot: Snapshot, name: str) -> None:
    append(snapshot, add(f"{name}-1"), add(f"{name}-2"))


def _enable(snapshot: Snapshot, _: str) -> None:
    # Both at once are refused.
    unset_properties(snapshot, ["delta.rowTrackingSuspended"], if_exists=True).commit(begin(snapshot))
    set_properties(Snapshot.open(snapshot.store), ENABLED).commit(begin(Snapshot.open(snapshot.store)))


def _disable(snapshot: Snapshot, _: str) -> None:
    unset_properties(snapshot, ["delta.enableRowTracking"], if_exists=True).commit(begin(snapshot))


def _drop(snapshot: Snapshot, _: str) -> None:
    if _tracks(snapshot):
        drop_feature(snapshot, "rowTracking")


def _suspend(snapshot: Snapshot, _: str) -> None:
    if _tracks(snapshot):
        set_props(snapshot, delta__enableRowTracking="false", delta__rowTrackingSuspended="true")


def _remove_one(snapshot: Snapshot, _: str) -> None:
    if paths := live(snapshot.store):
        delete(snapshot, paths[-1])


def _replace_all(snapshot: Snapshot, name: str) -> None:
    """`overwriteSchema`, and CREATE OR REPLACE: all files go, the settings are new."""
    definition = TableDefinition(snapshot.schema)
    made = define_table(definition, START_MS, lambda: "new", snapshot.configuration, snapshot.domain_metadata)
    transaction = begin(snapshot)
    transaction.set_table(made.configuration)
    transaction.remove(as_removes(snapshot.live_files(REMOVE_COLUMNS), START_MS))
    transaction.add(add(f"{name}-new"))
    transaction.commit("CREATE OR REPLACE TABLE AS SELECT")


def _forget_history(snapshot: Snapshot, _: str = "") -> None:
    write_last_checkpoint(snapshot.store, write_checkpoint(snapshot, START_MS))
    delete_versions_before(snapshot.store, snapshot.version)


def _foreign_append(snapshot: Snapshot, name: str) -> None:
    """Another engine that keeps the rules, under its own key of the domain."""
    if not _tracks(snapshot) or snapshot.properties.flag("delta.rowTrackingSuspended"):
        return
    first = highest_row_id(snapshot) + 1
    file = add(f"{name}-foreign", base_row_id=first, default_row_commit_version=snapshot.version + 1)
    text = f'{{"rowIdHighWaterMark":{first + ROWS - 1}}}'
    domain = replace(domain_metadata(0), configuration=text)
    put_commit(snapshot.store, snapshot.version + 1, {"commitInfo": {}}, domain.to_json(), file.to_json())


def _foreign_careless_append(snapshot: Snapshot, name: str) -> None:
    """Another engine that gives out ids and leaves the domain as it is."""
    file = add(f"{name}-careless", base_row_id=highest_row_id(snapshot) + 5, default_row_commit_version=0)
    put_commit(snapshot.store, snapshot.version + 1, {"commitInfo": {}}, file.to_json())


def _foreign_domain_removal(snapshot: Snapshot, _: str) -> None:
    gone = replace(domain_metadata(0), removed=True)
    put_commit(snapshot.store, snapshot.version + 1, {"commitInfo": {}}, gone.to_json())


def _foreign_drop(snapshot: Snapshot, _: str) -> None:
    """What the reference implementation does: ids are taken from the files, the domain goes, then the feature."""
    protocol = snapshot.protocol
    features = [f for f in protocol.writer_features or () if f != "rowTracking"]
    if protocol.writer_features is None:
        return
    configuration = {k: v for k, v in snapshot.metadata.configuration.items() if "rowTracking" not in k}
    configuration.pop("delta.enableRowTracking", None)
    adds = [add(path, data_change=False).to_json() for path in live(snapshot.store)]
    put_commit(
        snapshot.store,
        snapshot.version + 1,
        {"commitInfo": {}},
        Protocol(protocol.min_reader_version, 7, protocol.reader_features, tuple(features)).to_json(),
        replace(snapshot.metadata, configuration=configuration).to_json(),
        replace(domain_metadata(0), removed=True).to_json(),
        *adds,
    )


OPERATIONS: list[Operation] = [
    _append,
    _enable,
    _disable,
    _drop,
    _suspend,
    _remove_one,
    _replace_all,
    _forget_history,
    _foreign_append,
    _foreign_careless_append,
    _foreign_domain_removal,
    _foreign_drop,
]


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(OPERATIONS), min_size=3, max_size=12))
def test_no_row_id_is_given_out_twice_by_any_sequence_of_operations(operations: list[Operation]) -> None:
    store = table(properties=ENABLED).store
    for number, operation in enumerate([*operations, _enable, _append]):
        before = Snapshot.open(store)
        retained = _retained(before)
        operation(before, f"{number:02}")
        if operation.__name__.startswith("_foreign"):
            continue
        for version in range(before.version + 1, Snapshot.open(store).version + 1):
            fresh = _given(store, version) - retained.ranges
            assert all(base > retained.highest for _, base, _ in fresh), (operations, retained.highest, fresh)
            assert not _overlap(fresh)
    assert not _overlap({(path, *ends) for path, ends in _ranges(Snapshot.open(store)).items()})


def test_ids_of_files_that_only_a_checkpoint_still_tells_of_are_not_given_out_again() -> None:
    """Another engine gave them out without saying so, its file went, and its commits were cleaned up."""
    operations = [_append, _foreign_careless_append, _remove_one, _forget_history]
    store = table(properties=ENABLED).store
    for number, operation in enumerate(operations):
        operation(Snapshot.open(store), f"{number:02}")
    highest = max(row["baseRowId"] for row in Snapshot.open(store).tombstones().to_pylist())
    _append(Snapshot.open(store), "later")
    assert all(base > highest for path, base, _ in _given(store, Snapshot.open(store).version))


class _Retained:
    """What files are there, and have been as far as the log tells, with the ids that they were given."""

    def __init__(self, ranges: set[tuple[str, int, int]], gone: list[int]) -> None:
        self.ranges = ranges
        self.highest = max([-1, *(last for _, _, last in ranges), *gone])


def _retained(snapshot: Snapshot) -> _Retained:
    ranges = {(path, *ends) for path, ends in _ranges(snapshot).items()}
    for meta in snapshot.store.list_from("_delta_log"):
        name = meta.path.rpartition("/")[2]
        if name.endswith(".json"):
            ranges |= _given(snapshot.store, int(name.split(".")[0]))
    return _Retained(ranges, [base for base in snapshot.tombstones()["baseRowId"].to_pylist() if base is not None])


def _given(store: ObjectStore, version: int) -> set[tuple[str, int, int]]:
    nodes = [action["add"] for action in commit_actions(store, version) if "add" in action]
    bases = [(node["path"], node["baseRowId"]) for node in nodes if node.get("baseRowId") is not None]
    return {(path, base, base + ROWS - 1) for path, base in bases}


def _ranges(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """The first and the last row id of each live file that has some."""
    files = snapshot.live_files(["path", "baseRowId"]).to_pylist()
    return {f["path"]: (f["baseRowId"], f["baseRowId"] + ROWS - 1) for f in files if f["baseRowId"] is not None}


def _overlap(ranges: set[tuple[str, int, int]]) -> bool:
    ordered = sorted((first, last) for _, first, last in ranges)
    return any(before[1] >= after[0] for before, after in itertools.pairwise(ordered))


def _tracks(snapshot: Snapshot) -> bool:
    return "rowTracking" in supported_features(snapshot.protocol)


def test_the_domain_alone_answers_while_it_is_kept() -> None:
    after = append(table(properties=ENABLED), add("a")).snapshot
    assert DOMAIN in after.domain_metadata
    assert highest_row_id(after) == 9
