from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.compaction import compact_log
from slackwater.log.files.file_actions import DELETION_VECTOR, FEW_ROWS, unique_ids
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from tests.examples import examples
from tests.log.tables import (
    DEFAULT,
    Action,
    TableLog,
    add,
    checkpoint_metadata,
    commit_info,
    domain,
    facts,
    keys,
    metadata,
    paths,
    protocol,
    remove,
    txn,
)

# Spellings of one file, of six files.
SPELLINGS = (
    ("a.parquet", "./a.parquet"),
    ("a%20b.parquet", "a b.parquet", "%61%20b.parquet"),
    ("p=x%2520y/f.parquet", "p=x%2520y/%66.parquet"),
    ("p=%C3%BC/g+1.parquet", "p=ü/g+1.parquet", "p=%c3%bc/g%2B1.parquet"),
    ("/abs/h%20i.parquet", "/abs/h i.parquet", "file:/abs/h%20i.parquet", "file:///abs/h%20i.parquet"),
    ("s3://bucket/k%20l.parquet", "s3://bucket/k l.parquet"),
)
Key = tuple[int, str | None]


@pytest.fixture(scope="module", params=[0, FEW_ROWS], autouse=True)
def few_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with the comparisons of many rows, and with those of few."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("files.file_actions", "live_files"):
            patch.setattr(f"slackwater.log.{module}.FEW_ROWS", request.param)
        yield


@dataclass
class Model:
    """The newest action of each kind and key, as the protocol's action reconciliation has it."""

    small: dict[tuple[str, str], Action] = field(default_factory=dict)
    files: dict[Key, Action] = field(default_factory=dict)

    def apply(self, commit: Iterable[tuple[Key | None, Action]]) -> None:
        for key, action in commit:
            kind, node = next(iter(action.items()))
            if key is not None:
                self.files.pop(key, None)
                self.files[key] = action
            elif kind != "commitInfo":
                self.small[kind, node.get("appId") or node.get("domain") or ""] = action

    def actions(self) -> list[Action]:
        """As a compaction file holds them, removed domains and tombstones too."""
        return [*self.small.values(), *self.files.values()]

    def small_for_checkpoint(self) -> list[Action]:
        return [a for a in self.small.values() if not a.get("domainMetadata", {}).get("removed")]

    def facts(self, version: int) -> dict[str, Any]:
        small = self.small_for_checkpoint()
        txns = [SetTransaction.from_json(a["txn"], "") for a in small if "txn" in a]
        domains = [DomainMetadata.from_json(a["domainMetadata"], "") for a in small if "domainMetadata" in a]
        return {
            "version": version,
            "protocol": Protocol.from_json(self.small["protocol", ""]["protocol"], ""),
            "metadata": Metadata.from_json(self.small["metaData", ""]["metaData"], ""),
            "transactions": {t.app_id: t for t in txns},
            "domains": {d.domain: d for d in domains},
            "live": self._rows("add"),
            "tombstones": self._rows("remove"),
        }

    def _rows(self, kind: str) -> list[tuple[str, str | None, int]]:
        nodes = [a[kind] for a in self.files.values() if kind in a]
        return sorted(((n["path"], _vector(n), n["size"]) for n in nodes), key=str)


def _vector(node: dict[str, Any]) -> str | None:
    found = node.get("deletionVector")
    return found["pathOrInlineDv"] if found else None


def _facts(snapshot: LogSnapshot) -> dict[str, Any]:
    rows = {
        name: sorted(
            ((r["path"], _vector(r), r["size"]) for r in table.select(["path", "deletionVector", "size"]).to_pylist()),
            key=str,
        )
        for name, table in (("live", snapshot.live_files()), ("tombstones", snapshot.tombstones()))
    }
    return facts(snapshot) | rows


@st.composite
def file_actions(draw: st.DrawFn) -> tuple[Key, Action]:
    number = draw(st.integers(0, len(SPELLINGS) - 1))
    dv = draw(st.sampled_from([None, "x", "y"]))
    make = draw(st.sampled_from([add, add, remove]))
    return (number, dv), make(draw(st.sampled_from(SPELLINGS[number])), dv, size=draw(st.integers(0, 10**9)))


SMALL_ACTIONS = st.one_of(
    st.builds(txn, st.sampled_from(["app", "böp"]), st.integers(0, 9)),
    st.builds(domain, st.sampled_from(["d1", "delta.d2"]), st.sampled_from(["{}", '{"a":1}']), st.booleans()),
    st.builds(metadata, st.dictionaries(st.sampled_from(["a", "b"]), st.text("xyz", max_size=2))),
    st.builds(protocol, st.sampled_from([1, 2]), st.integers(2, 6)),
    st.just(protocol(3, 7, ["deletionVectors"], ["deletionVectors", "domainMetadata"])),
)


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[Key | None, Action]]:
    files = draw(st.lists(file_actions(), max_size=4, unique_by=lambda pair: pair[0]))
    small = draw(
        st.lists(
            SMALL_ACTIONS,
            max_size=2,
            unique_by=lambda a: str({k: v.get("appId") or v.get("domain") for k, v in a.items()}),
        )
    )
    mixed = draw(st.permutations([*files, *((None, action) for action in small)]))
    return [(None, commit_info()), *mixed]


HISTORIES = st.lists(commits(), min_size=1, max_size=7)


def _write_checkpoint(log: TableLog, version: int, model: Model, kind: str) -> None:
    small, files = model.small_for_checkpoint(), list(model.files.values())
    half = len(files) // 2
    if kind == "classic":
        log.classic(version, *files, *small, row_group_size=2)
    elif kind == "multipart":
        log.multipart(version, [*files[:half], *small[:1]], [*small[1:], *files[half:]])
    elif kind == "json":
        log.v2(version, "json", checkpoint_metadata(version), *small, *files)
    else:
        sidecars = [log.sidecar(*files[:half]), log.sidecar(*files[half:])]
        log.v2(version, kind.removeprefix("sidecars-"), checkpoint_metadata(version), *small, *sidecars)


CHECKPOINT_KINDS = ("classic", "multipart", "json", "sidecars-json", "sidecars-parquet")


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=HISTORIES, data=st.data())
def test_every_version_is_the_reconciliation_of_its_prefix(
    history: list[list[tuple[Key | None, Action]]], data: st.DataObject
) -> None:
    log, models = TableLog(), [Model()]
    history = [[*((None, action) for action in DEFAULT), *history[0]], *history[1:]]
    stepped: LogSnapshot | None = None
    for version, commit in enumerate(history):
        log.commit(version, *(action for _, action in commit))
        models.append(Model(dict(models[-1].small), dict(models[-1].files)))
        models[-1].apply(commit)
        expected = models[-1].facts(version)
        stepped = stepped.update() if stepped else log.load()
        assert _facts(stepped) == expected
        assert _facts(log.load()) == expected
        if kind := data.draw(st.sampled_from((None, None, *CHECKPOINT_KINDS)), label=f"checkpoint of {version}"):
            _write_checkpoint(log, version, models[-1], kind)
            log.hint(version)
        if start := data.draw(st.integers(0, version), label=f"compaction up to {version}"):
            compacted = Model()
            for part in history[start : version + 1]:
                compacted.apply(part)
            log.compaction(start, version, *compacted.actions())
    for version in range(len(history)):
        assert _facts(log.load(version)) == models[version + 1].facts(version)


@settings(max_examples=examples(30), deadline=None)
@given(history=HISTORIES, first=st.integers(0, 6))
def test_an_update_over_many_commits_is_the_same_as_a_fresh_load(
    history: list[list[tuple[Key | None, Action]]], first: int
) -> None:
    log = TableLog()
    history = [[*((None, action) for action in DEFAULT), *history[0]], *history[1:]]
    first = min(first, len(history) - 1)
    for version, commit in enumerate(history[: first + 1]):
        log.commit(version, *(action for _, action in commit))
    old = log.load()
    before = _facts(old)
    for version, commit in enumerate(history[first + 1 :], first + 1):
        log.commit(version, *(action for _, action in commit))
    assert _facts(old.update()) == _facts(log.load())
    assert _facts(old) == before


def test_an_update_with_nothing_new_is_the_same_snapshot() -> None:
    snapshot = TableLog().create(add("a")).load()
    assert snapshot.update() is snapshot


def test_versions_of_one_protocol_and_metadata_share_what_is_parsed_of_them() -> None:
    log = TableLog().create().grow(1)
    first = log.load()
    log.commit(2, add("more"))
    second = first.update()
    assert second.configuration is first.configuration
    assert second.schema is first.schema
    log.commit(3, metadata(configuration={"a": "b"}))
    log.commit(4, protocol(1, 1))
    third = second.update()
    now: tuple[object, Protocol] = ({"a": "b"}, Protocol(1, 1))
    earlier: tuple[object, Protocol] = ({}, first.protocol)
    assert (third.properties, third.protocol) == now
    assert (second.properties, second.protocol) == earlier


def test_an_update_survives_a_cleanup_of_the_log_in_between() -> None:
    log = TableLog().create(add("f0")).grow(2)
    old = log.load()
    log.grow(8, first=3)
    log.classic(6, *DEFAULT, *(add(f"f{v}") for v in range(7)))
    log.delete_commits(*range(6))
    assert paths(old.update()) == [f"f{v}" for v in range(9)]
    log.delete_commits(6, 7, 8)
    log.classic(8, *DEFAULT, *(add(f"f{v}") for v in range(9)))
    assert old.update().version == 8


def test_an_update_keeps_the_columns_that_were_read_and_reads_only_new_commits() -> None:
    log = TableLog().create(add("f0")).grow(5)
    log.classic(5, *DEFAULT, *(add(f"f{v}", stats="{}") for v in range(6)))
    old = log.load()
    assert old.live_files().num_rows == 6
    log.commit(6, remove("f1"))
    log.delete_commits(*range(6))
    log.delete("00000000000000000005.checkpoint.parquet")
    assert paths(old.update()) == ["f0", "f2", "f3", "f4", "f5"]


@pytest.mark.parametrize(
    ("added", "removed"), [pair for s in SPELLINGS for pair in zip(s, [*s[1:], s[0]], strict=True)]
)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_two_spellings_of_a_path_are_one_file(added: str, removed: str, checkpointed: bool) -> None:
    log = TableLog().create(add(added), add("other"))
    if checkpointed:
        log.classic(0, *DEFAULT, add(added), add("other"))
    log.commit(1, remove(removed))
    assert paths(log.load()) == ["other"]
    assert keys(log.load().tombstones()) == [(removed, None)]


def test_paths_that_only_look_alike_are_different_files() -> None:
    log = TableLog().create(add("a%2520b"), add("a%20b"), add("x/file:/a"), add("/a"), add("a"), add("A"))
    log.commit(1, remove("a b"), remove("file:///a"))
    assert paths(log.load()) == ["A", "a", "a%2520b", "x/file:/a"]


def test_another_deletion_vector_makes_another_logical_file() -> None:
    log = TableLog().create(add("a"), add("b"))
    log.commit(1, remove("a"), add("a", "x"))
    log.commit(2, remove("a", "x"), add("a", "y"), remove("b"))
    log.commit(3, remove("a", "y"), add("b", "z"))
    assert [keys(log.load(v).live_files()) for v in range(4)] == [
        [("a", None), ("b", None)],
        [("a", "x"), ("b", None)],
        [("a", "y")],
        [("b", "z")],
    ]
    assert keys(log.load().tombstones()) == [("a", "x"), ("a", "y"), ("a", None), ("b", None)]


@pytest.mark.parametrize("is_added_first", [False, True])
def test_the_order_of_remove_and_add_in_one_commit_does_not_matter(is_added_first: bool) -> None:
    log = TableLog().create(add("a"))
    changes = [[remove("a"), add("a", "x")], [remove("a", "x"), add("a", "y")]]
    for version, actions in enumerate(changes, 1):
        log.commit(version, *(reversed(actions) if is_added_first else actions))
    expected = [[("a", "x")], [("a", "y")]]
    assert [keys(log.load(version).live_files()) for version in (1, 2)] == expected
    compact_log(log.store, 1, 2)
    assert log.load().segment.commits[-1].compacted
    assert keys(log.load().live_files()) == expected[-1]
    for version in (1, 2):
        write_checkpoint(log.load(version), 0)
    log.delete_commits(0, 1)
    assert [keys(log.load(version).live_files()) for version in (1, 2)] == expected


def test_vectors_differ_by_storage_path_and_offset() -> None:
    def placed(storage: str, offset: int | None) -> dict[str, Any]:
        return {"storageType": storage, "pathOrInlineDv": "p", "offset": offset, "sizeInBytes": 1, "cardinality": 1}

    vectors = [placed("u", 1), placed("u", 2), placed("i", None), placed("p", 1)]
    found = unique_ids(pa.chunked_array([pa.array([*vectors, None], DELETION_VECTOR)]))
    assert found.to_pylist() == ["up@1", "up@2", "ip", "pp@1", None]
    log = TableLog().create(*(add("a", deletionVector=v) for v in vectors))
    assert log.load().live_files().num_rows == 4
    log.commit(1, remove("a", deletionVector=vectors[2]))
    assert log.load().live_files().num_rows == 3


def test_a_file_that_comes_back_is_no_tombstone_any_more() -> None:
    log = TableLog().create(add("a", size=1))
    log.commit(1, remove("a"))
    log.commit(2, add("a", size=2))
    assert log.load().live_files(["size"])["size"].to_pylist() == [2]
    assert log.load().tombstones().num_rows == 0


def test_a_file_that_is_stated_again_is_listed_once_with_its_newest_values() -> None:
    log = TableLog().create(add("a", stats='{"numRecords":1}'))
    log.classic(0, *DEFAULT, add("a", stats='{"numRecords":1}'))
    log.commit(1, add("a", dataChange=False, stats='{"numRecords":1,"tightBounds":true}'))
    files = log.load().live_files(["path", "stats"])
    assert files.to_pylist() == [{"path": "a", "stats": '{"numRecords":1,"tightBounds":true}'}]


def test_a_removed_domain_is_not_shown_and_can_be_set_again() -> None:
    log = TableLog().create(domain("d", "1"))
    log.commit(1, domain("d", "1", removed=True))
    log.commit(2, domain("d", "2"))
    assert [sorted(log.load(v).domain_metadata) for v in range(3)] == [["d"], [], ["d"]]
    assert log.load().domain_metadata["d"].configuration == "2"


def test_what_a_newer_writer_adds_is_ignored() -> None:
    log = TableLog().create(add("a", futureField={"x": [1]}))
    log.commit(
        1,
        {"futureAction": {"path": "b"}},
        {"futureScalar": 3},
        {},
        domain("future.domain", "not JSON"),
        {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}},
        metadata({"delta.futureProperty": "7"}, futureField=1),
        protocol(1, 2) | {"futureSibling": None},
        {"checkpointMetadata": {"version": 77}},
        {"sidecar": {"path": "nowhere"}},
    )
    snapshot = log.load()
    assert paths(snapshot) == ["a"]
    assert snapshot.domain_metadata["future.domain"].configuration == "not JSON"
    assert snapshot.properties["delta.futureproperty"] == "7"


def test_actions_that_a_line_spells_as_null_are_absent() -> None:
    log = TableLog().create(add("a"))
    log.commit(1, {"add": None, "remove": None, "txn": txn("app", 4)["txn"], "protocol": None, "metaData": None})
    assert log.load().transactions["app"].version == 4
    assert paths(log.load()) == ["a"]


def test_empty_lines_windows_line_ends_and_a_missing_last_line_end_are_no_fault() -> None:
    log = TableLog().create()
    log.put("00000000000000000001.json", b'\n{"add":{"path":"a"}}\r\n\n  \n{"add":{"path":"b"}}')
    assert paths(log.load()) == ["a", "b"]


def _columns(snapshot: LogSnapshot, columns: Sequence[str]) -> list[dict[str, Any]]:
    return sorted(snapshot.live_files(columns).to_pylist(), key=str)


@pytest.mark.parametrize("columns", [["path"], ["size"], ["stats", "path"], ["size", "size"], ["deletionVector"]])
def test_asking_for_some_columns_gives_those_of_the_same_files(columns: list[str]) -> None:
    log = TableLog().create(add("a", size=1, stats="{}"), add("b", "x", size=2))
    log.classic(0, *DEFAULT, add("a", size=1, stats="{}"), add("b", "x", size=2))
    log.commit(1, remove("a"), add("c", size=3, tags={"k": "v", "n": None}))
    everything = log.load().live_files()
    expected = [{name: row[name] for name in dict.fromkeys(columns)} for row in everything.to_pylist()]
    assert _columns(log.load(), columns) == sorted(expected, key=str)
    assert log.load().live_files(columns).column_names == list(dict.fromkeys(columns))


def test_commits_and_checkpoints_say_the_same_about_a_file() -> None:
    full = add(
        "p=1/a",
        "x",
        partitionValues={"p": "1", "q": None, "r": ""},
        tags={"k": "v"},
        stats='{"numRecords":3}',
        baseRowId=7,
        defaultRowCommitVersion=2,
        clusteringProvider="liquid",
    )
    log = TableLog().create(full, remove("gone", "y", extendedFileMetadata=True, partitionValues={"p": None}, size=9))
    by_commit = log.load()
    log.classic(0, *DEFAULT, full, remove("gone", "y", extendedFileMetadata=True, partitionValues={"p": None}, size=9))
    by_checkpoint = log.load()
    assert by_checkpoint.segment.checkpoint is not None
    assert by_checkpoint.live_files().to_pylist() == by_commit.live_files().to_pylist()
    assert by_checkpoint.tombstones().to_pylist() == by_commit.tombstones().to_pylist()
    assert by_checkpoint.live_files().schema == by_commit.live_files().schema
    assert by_checkpoint.metadata == by_commit.metadata


def test_a_table_without_files_has_all_columns() -> None:
    log = TableLog().create()
    assert log.load().live_files().num_rows == 0
    log.classic(0, *DEFAULT)
    assert log.load().live_files().num_rows == 0
    assert "stats" in log.load().live_files().column_names
