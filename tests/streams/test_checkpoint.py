"""What checkpoints of Structured Streaming say: recorded ones, cut off at every point, torn and foreign."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from slackwater.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from slackwater.storage import ObjectStore, open_store
from slackwater.streams.checkpoint import StreamCheckpoint, read_checkpoint
from slackwater.streams.offsets import SourceOffset
from tests.streams.checkpoints import copied, cut

OURS = "23279bbd-caea-4ac2-8286-463a9ccf6c7e"
FIRST, SECOND = "07e53fd6-75c3-44b7-81a8-1f522e9e266e", "9d58687d-3076-4b8b-90de-52299fd250ee"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The recorded query of one table, to be changed."""
    return copied("ours", tmp_path)


def read(folder: Path) -> StreamCheckpoint:
    return read_checkpoint(open_store(folder / "checkpoint"))


def offsets(checkpoint: StreamCheckpoint) -> list[SourceOffset | None]:
    assert checkpoint.planned is not None
    return [source.offset for source in checkpoint.planned.sources]


def made(offset_file: str, path: str = "offsets/0") -> ObjectStore:
    """A checkpoint with one batch planned, in memory."""
    store = open_store(f"memory://{uuid.uuid4()}")
    store.put("metadata", b'{"id":"q"}')
    store.put(path, offset_file.encode())
    return store


def test_a_query_that_has_done_what_it_planned(recorded: Path) -> None:
    found = read(recorded)
    assert found.query_id == "b3930805-b42b-4be3-bf1b-a39becae8289"
    assert found.planned == found.done
    assert found.done is not None
    assert (found.done.number, found.done.timestamp_ms, found.done.watermark_ms) == (3, 1795452214023, 0)
    assert offsets(found) == [SourceOffset(OURS, 4)]
    assert (found.repeats, found.next_batch) == (None, 4)


def test_a_batch_that_was_planned_and_not_done_is_run_again(recorded: Path) -> None:
    cut(recorded, planned=3, done=2)
    found = read(recorded)
    assert found.planned is not None
    assert found.done is not None
    assert (found.planned.number, found.done.number, found.repeats, found.next_batch) == (3, 2, 3, 3)
    assert offsets(found) == [SourceOffset(OURS, 4)]
    assert [source.offset for source in found.done.sources] == [SourceOffset(OURS, 3)]


def test_offsets_amid_a_snapshot(recorded: Path) -> None:
    cut(recorded, planned=0, done=None)
    found = read(recorded)
    assert (found.done, found.repeats) == (None, 0)
    assert offsets(found) == [SourceOffset(OURS, 2, 0, is_initial=True)]


def test_a_query_that_has_planned_nothing_yet(recorded: Path) -> None:
    cut(recorded, planned=-1, done=None)
    found = read(recorded)
    assert (found.planned, found.done, found.repeats, found.next_batch) == (None, None, None, 0)
    shutil.rmtree(recorded / "checkpoint" / "offsets")
    shutil.rmtree(recorded / "checkpoint" / "commits")
    assert read(recorded) == found


def test_several_sources_of_which_one_is_no_table(tmp_path: Path) -> None:
    found = read(copied("several", tmp_path))
    assert offsets(found) == [SourceOffset(FIRST, 3), None, SourceOffset(SECOND, 1)]
    assert found.planned is not None
    foreign = found.planned.sources[1]
    assert (foreign.name, foreign.text, foreign.problem) == ("1", '{"logOffset":0}', None)


@pytest.mark.parametrize("text", ["5", '{"topic":{"0":23}}', "not json", '"reservoirId"'])
def test_offsets_of_other_sources_are_left_as_they_are(text: str) -> None:
    (source,) = read_checkpoint(made(f"v1\n{{}}\n{text}")).planned.sources  # type: ignore[union-attr]
    assert (source.text, source.offset, source.problem) == (text, None, None)


def test_a_source_without_an_offset() -> None:
    planned = read_checkpoint(made("v1\n{}\n-\n5\n")).planned
    assert planned is not None
    assert [(source.name, source.text) for source in planned.sources] == [("0", None), ("1", "5")]


def test_sources_with_names() -> None:
    named = f'first:{{"sourceVersion":1,"reservoirId":"{FIRST}","reservoirVersion":3,"index":-1,'
    planned = read_checkpoint(made(f'v2\n{{}}\n{named}"isStartingVersion":false}}\n10:-\n9:{{"logOffset":0}}')).planned
    assert planned is not None
    assert [(source.name, source.text, source.offset) for source in planned.sources] == [
        ("first", planned.sources[0].text, SourceOffset(FIRST, 3)),
        ("9", '{"logOffset":0}', None),
        ("10", None, None),
    ]


def test_sources_stand_in_their_places_though_the_file_has_them_in_no_order(tmp_path: Path) -> None:
    found = read(copied("with-names", tmp_path))
    assert offsets(found) == [SourceOffset("dc750aec-19cd-4cf5-b42d-0de953b815cc", 1), None]
    assert found.planned is not None
    assert [(source.name, source.problem) for source in found.planned.sources] == [("0", None), ("1", None)]
    assert found.planned.sources[1].text == '{"logOffset":0}'


@pytest.mark.parametrize(
    ("offset", "problem"),
    [
        ('{"sourceVersion":9,"reservoirId":"x"}', "version 9"),
        ('{"sourceVersion":1,"reservoirId":"x"}', "no offset of a Delta table"),
    ],
)
def test_an_offset_of_a_table_that_cannot_be_used_says_why(offset: str, problem: str) -> None:
    (source,) = read_checkpoint(made(f"v1\n{{}}\n{offset}")).planned.sources  # type: ignore[union-attr]
    assert source.offset is None
    assert problem in (source.problem or "")


def test_files_that_are_being_written_are_passed_over(recorded: Path) -> None:
    for name in (".4.0b6f.tmp", ".4.crc", "4.tmp"):
        (recorded / "checkpoint" / "offsets" / name).write_text("")
    assert read(recorded).next_batch == 4


@pytest.mark.parametrize("place", ["", "checkpoint/offsets", "nowhere", "source"])
def test_what_is_no_checkpoint_is_said_to_be_none(recorded: Path, place: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a checkpoint of a streaming query") as raised:
        read_checkpoint(open_store(recorded / place))
    assert str(raised.value).startswith((recorded / place).as_uri())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metadata", b""),
        ("metadata", b'{"id":'),
        ("metadata", b'{"id":7}'),
        ("offsets/3", b""),
        ("offsets/3", b"v"),
        ("offsets/3", b"v1"),
        ("offsets/3", b"v1\n{"),
        ("offsets/3", b"v1\n[]\n5"),
        ("offsets/3", b'v1\n{"batchTimestampMs":"now"}\n5'),
        ("offsets/3", b'v1\n{}\n{"sourceVersion": 1, "reserv'),
        ("offsets/3", b"v2\n{}\nnameless"),
        ("offsets/3", b"\xff\xfe"),
        ("commits/3", b""),
        ("commits/3", b'v1\n{"nextBatch'),
    ],
)
def test_a_torn_file_is_named(recorded: Path, file: str, content: bytes) -> None:
    torn = recorded / "checkpoint" / file
    torn.write_bytes(content)
    with pytest.raises(CorruptTable) as raised:
        read(recorded)
    assert str(raised.value).startswith(f"{torn.as_uri()}: expected ")


@pytest.mark.parametrize("file", ["offsets/3", "commits/3"])
def test_a_file_of_a_newer_spark_is_refused_by_name(recorded: Path, file: str) -> None:
    (recorded / "checkpoint" / file).write_text("v9\n{}\n")
    with pytest.raises(UnsupportedFeature, match=f"{file}: format v9"):
        read(recorded)


def test_offsets_of_a_batch_that_was_done_must_be_there(recorded: Path) -> None:
    (recorded / "checkpoint" / "offsets" / "3").unlink()
    with pytest.raises(CorruptTable, match="commits/3: batch 3 is marked as done"):
        read(recorded)


def test_offsets_of_the_last_batch_done_must_be_there(recorded: Path) -> None:
    cut(recorded, planned=3, done=2)
    (recorded / "checkpoint" / "offsets" / "2").unlink()
    with pytest.raises(CorruptTable, match="offsets/2 is missing"):
        read(recorded)
