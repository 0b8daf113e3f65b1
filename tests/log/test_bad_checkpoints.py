"""What damaged checkpoints do: a way around the damage with a warning, else our own error, naming the file."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import (
    CheckpointFallbackWarning,
    CorruptCheckpoint,
    CorruptLog,
    SlackwaterError,
)
from slackwater.log.files.checkpoint import Checkpoint
from slackwater.log.snapshot import LogSnapshot
from tests.examples import examples
from tests.log.tables import (
    CHECKPOINT_SCHEMA,
    DEFAULT,
    Action,
    SpyStore,
    TableLog,
    add,
    checkpoint_metadata,
    domain,
    metadata,
    parquet,
    paths,
    protocol,
    remove,
    txn,
)

CHECKPOINT = "00000000000000000004.checkpoint.parquet"
FILES = [f"f{v}" for v in range(8)]


@pytest.mark.parametrize(
    "action",
    [
        {"add": 3},
        add("a", size="100"),
        {"metaData": {"schemaString": 1}},
        {"txn": {"appId": 1}},
        {"sidecar": 3},
        {"sidecar": {"path": 3}},
        {"sidecar": {"path": "x/.."}},
        {"sidecar": {"path": "x/"}},
        {"sidecar": {}},
        {"checkpointMetadata": "4"},
        {"checkpointMetadata": {"version": 3}},
    ],
)
def test_a_wrong_field_in_a_json_checkpoint_is_a_corrupt_checkpoint(action: Action) -> None:
    log = TableLog()
    name = log.v2(4, "json", checkpoint_metadata(4), *DEFAULT, action)
    with pytest.raises(CorruptCheckpoint, match=re.escape(name)):
        log.load()


@pytest.mark.parametrize(("action", "lacking"), [(metadata(), "protocol"), (protocol(), "metaData")])
def test_a_checkpoint_without_protocol_or_metadata_is_corrupt(action: Action, lacking: str) -> None:
    log = TableLog()
    log.classic(4, action, add("a"))
    with pytest.raises(CorruptLog, match=rf"no {lacking} action, but the checkpoint of version 4 must hold one"):
        log.load()


def test_a_checkpoint_without_metadata_is_not_passed_over_though_the_commits_are_there() -> None:
    log = _eight_commits()
    log.classic(4, protocol(), *map(add, FILES[:5]))
    with pytest.raises(CorruptLog, match="no metaData action"):
        log.load()


def _eight_commits() -> TableLog:
    return TableLog().create(add("f0")).grow(7)


def _with_checkpoint() -> TableLog:
    log = _eight_commits()
    log.classic(4, *DEFAULT, txn("app", 3), *map(add, FILES[:5]))
    log.hint(4)
    return log


def _rewritten(data: bytearray, old: bytes, new: bytes) -> bytes:
    return bytes(data).replace(old, new)


def _damage(log: TableLog, change: Callable[[bytearray], object], name: str = CHECKPOINT) -> None:
    data = bytearray(log.store.read(f"_delta_log/{name}"))
    replaced = change(data)
    log.put(name, replaced if isinstance(replaced, bytes) else bytes(data))


def _no_footer(data: bytearray) -> None:
    data[-8:] = b"\0" * 8


def _truncated(data: bytearray) -> bytes:
    return bytes(data[: len(data) // 2])


def _empty(data: bytearray) -> bytes:
    return b""


def _wrong_footer(data: bytearray) -> None:
    data[-200:-8] = b"\xff" * 192


def _pages(kind: str) -> Callable[[bytearray], None]:
    """Overwrite the pages of every column of the action kind; the footer stays whole."""

    def change(data: bytearray) -> None:
        group = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(0)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema.startswith(kind + "."):
                start = min(o for o in (column.data_page_offset, column.dictionary_page_offset) if o is not None)
                data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size

    return change


def _no_parquet(data: bytearray) -> bytes:
    return b"not a Parquet file, though long enough to look like one"


BROKEN_AT_ONCE = [
    _no_footer,
    _truncated,
    _empty,
    _wrong_footer,
    _no_parquet,
    _pages("protocol"),
    _pages("metaData"),
    _pages("txn"),
]


@pytest.mark.parametrize("change", BROKEN_AT_ONCE)
def test_a_broken_checkpoint_beside_its_commits_is_passed_over_with_a_warning(
    change: Callable[[bytearray], object],
) -> None:
    log = _with_checkpoint()
    _damage(log, change)
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(CHECKPOINT)) as caught:
        snapshot = log.load()
    assert paths(snapshot) == FILES
    assert snapshot.version == 7
    assert len(caught) == 1


@pytest.mark.parametrize("change", BROKEN_AT_ONCE)
def test_a_broken_checkpoint_without_its_commits_is_corrupt(change: Callable[[bytearray], object]) -> None:
    log = _with_checkpoint()
    _damage(log, change)
    log.delete_commits(0, 1, 2, 3)
    with pytest.raises(CorruptCheckpoint, match=rf"{CHECKPOINT}.*does not reach back far enough") as caught:
        log.load()
    assert log.path in str(caught.value)


def test_broken_pages_of_files_are_passed_over_when_the_files_are_asked_for() -> None:
    log = _with_checkpoint()
    _damage(log, _pages("add"))
    snapshot = log.load()
    assert snapshot.segment.checkpoint is not None
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(CHECKPOINT)):
        assert paths(snapshot) == FILES
    assert paths(snapshot) == FILES
    log.commit(8, remove("f0"))
    assert paths(snapshot.update()) == FILES[1:]


def test_broken_pages_of_files_are_passed_over_by_a_snapshot_that_was_updated() -> None:
    log = _with_checkpoint()
    _damage(log, _pages("add"))
    old = log.load()
    log.commit(8, remove("f0"))
    snapshot = old.update()
    with pytest.warns(CheckpointFallbackWarning):
        assert paths(snapshot) == FILES[1:]
    with pytest.warns(CheckpointFallbackWarning):
        assert paths(old) == FILES


def test_broken_pages_of_files_without_the_commits_are_corrupt() -> None:
    log = _with_checkpoint()
    _damage(log, _pages("add"))
    log.delete_commits(0)
    snapshot = log.load()
    with pytest.raises(CorruptCheckpoint, match=rf"{CHECKPOINT}.*does not reach back far enough") as caught:
        snapshot.live_files()
    assert log.path in str(caught.value)


def test_broken_pages_of_tombstones_are_passed_over_too() -> None:
    log = _eight_commits()
    log.commit(2, remove("f1"))
    log.classic(4, *DEFAULT, remove("f1"), *map(add, ["f0", "f3", "f4"]))
    _damage(log, _pages("remove"))
    snapshot = log.load()
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(CHECKPOINT)):
        assert snapshot.tombstones()["path"].to_pylist() == ["f1"]
    log.delete_commits(0)
    with pytest.raises(CorruptCheckpoint, match=CHECKPOINT):
        log.load().tombstones()


def test_a_broken_column_that_nobody_asks_for_is_no_fault() -> None:
    log = _with_checkpoint()
    _damage(log, _pages("add.size"))
    _damage(log, _pages("add.stats"))
    assert sorted(log.load().live_files(["path", "deletionVector"])["path"].to_pylist()) == FILES


def test_an_older_checkpoint_is_used_in_place_of_a_broken_one() -> None:
    log = _with_checkpoint()
    log.classic(2, *DEFAULT, *map(add, FILES[:3]))
    log.delete_commits(0, 1)
    _damage(log, _no_footer)
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(CHECKPOINT)):
        snapshot = log.load()
    assert paths(snapshot) == FILES
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 2


def test_another_checkpoint_of_the_same_version_is_used_in_place_of_a_broken_one() -> None:
    log = _with_checkpoint()
    log.multipart(4, [*DEFAULT], [*map(add, FILES[:5])])
    log.delete_commits(*range(5))
    _damage(log, _no_footer)
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(CHECKPOINT)):
        assert paths(log.load()) == FILES


def test_one_broken_part_breaks_a_multi_part_checkpoint() -> None:
    log = _eight_commits()
    log.multipart(4, [*DEFAULT], [*map(add, FILES[:5])])
    second = "00000000000000000004.checkpoint.0000000002.0000000002.parquet"
    _damage(log, _no_footer, second)
    with pytest.warns(CheckpointFallbackWarning, match=re.escape(second)):
        assert paths(log.load()) == FILES


def test_two_broken_checkpoints_are_both_passed_over() -> None:
    log = _with_checkpoint()
    log.put("00000000000000000006.checkpoint.parquet", b"nothing")
    _damage(log, _no_footer)
    with pytest.warns(CheckpointFallbackWarning) as caught:
        snapshot = log.load()
    assert paths(snapshot) == FILES
    assert {re.findall(r"0(\d)\.checkpoint", str(w.message))[0] for w in caught} == {"4", "6"}


def _broken_pages_in_two() -> TableLog:
    log = _eight_commits()
    for version in (4, 6):
        log.classic(version, *DEFAULT, *map(add, FILES[: version + 1]))
        _damage(log, _pages("add"), f"{version:020d}.checkpoint.parquet")
    return log


def _shared_broken_sidecar() -> TableLog:
    log = _eight_commits()
    sidecar = log.sidecar(*map(add, FILES[:5]))
    for version in (4, 6):
        log.v2(version, "json", checkpoint_metadata(version), *DEFAULT, sidecar, *map(add, FILES[5 : version + 1]))
    log.put(f"_sidecars/{sidecar['sidecar']['path']}", b"PAR1 cut")
    return log


@pytest.mark.parametrize("make", [_broken_pages_in_two, _shared_broken_sidecar])
@pytest.mark.filterwarnings("ignore::slackwater.errors.CheckpointFallbackWarning")
def test_two_checkpoints_whose_files_cannot_be_read_are_both_passed_over(make: Callable[[], TableLog]) -> None:
    log = make()
    snapshot = log.load()
    spy = SpyStore(log.store)
    assert paths(LogSnapshot.open(spy)) == FILES
    assert len(spy.reads) < 60
    assert paths(snapshot) == FILES
    assert snapshot.tombstones().num_rows == 0
    log.commit(8, remove("f0"))
    assert paths(log.load(7).update()) == FILES[1:]
    assert paths(snapshot.update()) == FILES[1:]


@pytest.mark.parametrize("make", [_broken_pages_in_two, _shared_broken_sidecar])
@pytest.mark.filterwarnings("ignore::slackwater.errors.CheckpointFallbackWarning")
def test_two_damaged_checkpoints_without_the_commits_come_to_an_end(make: Callable[[], TableLog]) -> None:
    log = make()
    log.delete_commits(0, 1)
    snapshot = log.load()
    for read in (snapshot.live_files, log.load(6).live_files, snapshot.live_files):
        with pytest.raises(CorruptCheckpoint, match="does not reach back far enough"):
            read()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1"])
def test_many_damaged_checkpoints_are_tried_once_each(content: bytes) -> None:
    log = TableLog().create(add("f0")).grow(40)
    for version in range(1, 41):
        log.put(f"{version:020d}.checkpoint.parquet", content)
    spy = SpyStore(log.store)
    with pytest.warns(CheckpointFallbackWarning) as caught:
        assert LogSnapshot.open(spy).live_files().num_rows == 41
    assert len(caught) == 40
    opened = [path for path in spy.reads if path.endswith(".parquet")]
    assert len(opened) == len(set(opened)) == 40


@pytest.mark.parametrize(
    ("twice", "differing"),
    [
        (protocol(), protocol(1, 3)),
        (metadata(), metadata({"a": "b"})),
        (txn("app", 3), txn("app", 4)),
        (domain("d", "1"), domain("d", "2")),
    ],
)
def test_a_checkpoint_that_says_two_things_of_one_is_passed_over(twice: Action, differing: Action) -> None:
    log = _eight_commits()
    others = [action for action in DEFAULT if action != twice]
    log.classic(4, *others, twice, twice, *map(add, FILES[:5]))
    assert paths(log.load()) == FILES
    log.classic(4, *others, twice, differing, *map(add, FILES[:5]))
    with pytest.warns(CheckpointFallbackWarning, match="contradict each other"):
        assert paths(log.load()) == FILES


def test_a_checkpoint_that_names_a_live_file_twice_is_passed_over() -> None:
    log = _eight_commits()
    log.classic(4, *DEFAULT, *map(add, FILES[:5]), add("f3", size=7))
    with pytest.warns(CheckpointFallbackWarning, match="names 'f3' twice as a live file"):
        assert paths(log.load()) == FILES
    log.delete_commits(0)
    with pytest.raises(CorruptCheckpoint, match="names 'f3' twice"):
        log.load().live_files()


@pytest.mark.parametrize("extension", ["json", "parquet"])
def test_a_missing_sidecar_is_named(extension: str) -> None:
    log = _eight_commits()
    sidecars = [log.sidecar(*map(add, FILES[:2])), log.sidecar(*map(add, FILES[2:5]))]
    log.v2(4, extension, checkpoint_metadata(4), *DEFAULT, *sidecars)
    gone = sidecars[1]["sidecar"]["path"]
    log.delete(f"_sidecars/{gone}")
    with pytest.warns(CheckpointFallbackWarning, match=f"{gone}, which is missing"):
        assert paths(log.load()) == FILES
    log.delete_commits(0)
    with pytest.raises(CorruptCheckpoint, match=f"{gone}, which is missing"):
        log.load()


def test_a_broken_sidecar_is_named() -> None:
    log = _eight_commits()
    sidecar = log.sidecar(*map(add, FILES[:5]))
    log.v2(4, "json", checkpoint_metadata(4), *DEFAULT, sidecar)
    name = f"_sidecars/{sidecar['sidecar']['path']}"
    _damage(log, _no_footer, name)
    snapshot = log.load()
    with pytest.warns(CheckpointFallbackWarning, match=name):
        assert paths(snapshot) == FILES


def test_a_checkpoint_that_vanishes_after_the_listing_is_passed_over() -> None:
    log = _with_checkpoint()

    def vanish(path: str) -> None:
        if path.endswith(CHECKPOINT):
            log.delete(CHECKPOINT)

    with pytest.warns(CheckpointFallbackWarning, match=f"{CHECKPOINT} is missing"):
        assert paths(LogSnapshot.open(SpyStore(log.store, vanish))) == FILES


@pytest.mark.parametrize("data", [b"", b"{", b"[1]\n", b'{"add":{"path":3}}\n', b"\x00\xff"])
def test_a_json_checkpoint_that_is_no_json_is_passed_over(data: bytes) -> None:
    log = _eight_commits()
    name = "00000000000000000004.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
    log.put(name, data)
    with pytest.warns(CheckpointFallbackWarning, match=r"00000000000000000004\.checkpoint|checkpoint of version 4"):
        assert paths(log.load()) == FILES


def _replaced(field: str, data_type: pa.DataType) -> pa.Schema:
    position = CHECKPOINT_SCHEMA.get_field_index(field)
    return CHECKPOINT_SCHEMA.set(position, pa.field(field, data_type))


def _within(action: str, name: str, data_type: pa.DataType | None) -> pa.Schema:
    """The checkpoint's schema with another type for one field of an action, or without the field."""
    struct = CHECKPOINT_SCHEMA.field(action).type
    fields = [f if f.name != name else f.with_type(data_type or f.type) for f in struct]
    return _replaced(action, pa.struct([f for f in fields if data_type is not None or f.name != name]))


@pytest.mark.parametrize(
    "schema",
    [
        _replaced("add", pa.string()),
        _replaced("protocol", pa.string()),
        _replaced("txn", pa.int64()),
        _within("add", "path", None),
        _within("add", "path", pa.list_(pa.string())),
        _within("add", "path", pa.binary()),
        _within("add", "size", pa.string()),
        _within("add", "partitionValues", pa.string()),
        _within("add", "deletionVector", pa.string()),
        _within("protocol", "minReaderVersion", pa.string()),
        _within("protocol", "readerFeatures", pa.string()),
        _within("metaData", "schemaString", pa.int64()),
        _within("metaData", "configuration", pa.string()),
        _within("txn", "appId", pa.int64()),
    ],
)
def test_a_checkpoint_column_of_a_wrong_type_is_passed_over(schema: pa.Schema) -> None:
    log = _eight_commits()
    samples = {pa.string(): "x", pa.int64(): 3, pa.binary(): b"\xff", pa.list_(pa.string()): ["x"]}

    def sample(data_type: pa.DataType) -> Any:
        if pa.types.is_struct(data_type):
            return {f.name: sample(f.type) for f in data_type}
        return samples.get(data_type, 1 if pa.types.is_integer(data_type) else None)

    rows = [{f.name: sample(f.type) if f.name == name else None for f in schema} for name in schema.names]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([r for r in rows if not r["sidecar"]], schema), buffer)
    log.put(CHECKPOINT, buffer.getvalue())
    with pytest.warns(CheckpointFallbackWarning, match=r"00000000000000000004\.checkpoint"):
        assert paths(log.load()) == FILES or log.load().live_files().num_rows == 8


def test_narrower_and_missing_columns_of_a_checkpoint_are_no_fault() -> None:
    keep = [f for f in CHECKPOINT_SCHEMA.field("add").type if f.name in ("path", "size", "modificationTime")]
    fields = [f.with_type(pa.int32()) if f.name == "size" else f for f in keep]
    schema = pa.schema([CHECKPOINT_SCHEMA.field("protocol"), CHECKPOINT_SCHEMA.field("metaData")])
    log = TableLog()
    log.put(CHECKPOINT, parquet([*DEFAULT, add("a", size=7)], schema.append(pa.field("add", pa.struct(fields)))))
    log.commit(5, add("b", size=8, stats="{}"))
    rows = log.load().live_files(["path", "size", "stats", "partitionValues"]).to_pylist()
    assert rows == [
        {"path": "a", "size": 7, "stats": None, "partitionValues": None},
        {"path": "b", "size": 8, "stats": "{}", "partitionValues": []},
    ]
    assert log.load().tombstones().num_rows == 0


def test_text_in_a_checkpoint_that_is_not_utf_8_is_damage() -> None:
    log = _eight_commits()
    for word in (b"EVILPATH", b"EVILNAME"):
        log.classic(4, *DEFAULT, *map(add, FILES[:4]), add("EVILPATH"), txn("EVILNAME", 1), compression="none")
        _damage(log, partial(_rewritten, old=word, new=b"\xff\xfe" + word[2:]))
        with pytest.warns(CheckpointFallbackWarning, match=CHECKPOINT):
            assert paths(log.load()) == FILES


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(data=st.data())
def test_any_bytes_flipped_in_a_checkpoint_never_raise_an_error_of_a_library(data: st.DataObject) -> None:
    log = _with_checkpoint()
    size = len(log.store.read(f"_delta_log/{CHECKPOINT}"))
    position = data.draw(st.integers(0, size - 1))
    flip = data.draw(st.binary(min_size=1, max_size=8))

    def change(content: bytearray) -> None:
        for offset, mask in enumerate(flip[: size - position]):
            content[position + offset] ^= mask

    _damage(log, change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointFallbackWarning)
        try:
            snapshot = log.load()
            snapshot.live_files()
            snapshot.tombstones()
        except SlackwaterError as error:
            assert log.path in str(error)  # noqa: PT017  (whether it raises is what the example decides)


def test_corrupt_commits_after_a_broken_checkpoint_are_reported_as_such() -> None:
    log = _with_checkpoint()
    _damage(log, _no_footer)
    log.put("00000000000000000002.json", b"garbage")
    with pytest.raises(CorruptLog, match=r"00000000000000000002\.json, line 1"):
        log.load()


def test_a_checkpoint_reader_that_found_nothing_gives_empty_columns() -> None:
    empty = Checkpoint(3, (), ())
    assert empty.read(TableLog().store, "add", ["path", "size"]).column_names == ["path", "size"]
