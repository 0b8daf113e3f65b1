"""Reader of a Structured Streaming checkpoint: the query, planned and completed batches, and offsets of each source.

Source: Spark's HDFSMetadataLog, OffsetSeqLog (v1, and v2 with names of sources) and CommitLog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import CorruptTable, InvalidArgument, ObjectNotFound, UnsupportedFeature
from slackwater.storage.store import ObjectStore
from slackwater.streams.offsets import SourceOffset

_METADATA, _OFFSETS, _COMMITS = "metadata", "offsets", "commits"
_NUMBER = re.compile(r"[0-9]+")
_BY_PLACE, _BY_NAME = "v1", "v2"
_COMMIT_VERSIONS = ("v1", "v2", "v3")
_NOTHING = "-"
_RESERVOIR_ID = "reservoirId"


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The end of a batch in one source. `name` is the position of the source, from 0, or its name.

    `text` is the text in the checkpoint, None if absent. `offset` is the offset of a Delta table. `problem` describes
    why a Delta offset is unusable. Without both, the source is not a Delta table.
    """

    name: str
    text: str | None
    offset: SourceOffset | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A planned batch and its end offset in each source; times in ms since the epoch."""

    number: int
    timestamp_ms: int
    watermark_ms: int
    sources: tuple[SourceProgress, ...]


@dataclass(frozen=True, slots=True)
class StreamCheckpoint:
    """A query with its last planned batch and its last completed batch, which is equal or older."""

    root_url: str
    query_id: str
    planned: PlannedBatch | None = None
    done: PlannedBatch | None = None

    @property
    def repeats(self) -> int | None:
        """The planned but incomplete batch, repeated by the next start; None if the next start plans a batch."""
        return None if self.planned is None or self.planned == self.done else self.planned.number

    @property
    def next_batch(self) -> int:
        """The first batch of the next start."""
        if self.repeats is not None:
            return self.repeats
        return 0 if self.planned is None else self.planned.number + 1


def read_checkpoint(store: ObjectStore) -> StreamCheckpoint:
    """Return the checkpoint at the root of `store`, in its current state. The query may be running.

    Raises:
        InvalidArgument: If the directory is not a checkpoint; names the missing file.
        CorruptTable: If a file is truncated or missing; names the file.
        UnsupportedFeature: If a newer version of Spark wrote a file; names the file.
    """
    query_id = _query_id(store)
    # Commits are listed first, because the offsets of a batch are written before its commit.
    done, planned = _newest(store, _COMMITS), _newest(store, _OFFSETS)
    if done is not None:
        _require_commit(store, done)
        if planned is None or planned < done:
            raise CorruptTable(
                f"{store.root_url}/{_COMMITS}/{done}: batch {done} is marked as done, but {store.root_url}/{_OFFSETS} "
                "does not contain it. Files of the checkpoint were lost. Restore the checkpoint, or begin with a new "
                "one"
            )
    last = None if planned is None else _batch(store, planned)
    return StreamCheckpoint(
        store.root_url,
        query_id,
        last,
        last if done == planned else None if done is None else _batch(store, done),
    )


def _query_id(store: ObjectStore) -> str:
    where = f"{store.root_url}/{_METADATA}"
    try:
        data = store.read(_METADATA)
    except ObjectNotFound as error:
        raise InvalidArgument(
            f"{store.root_url} is not a checkpoint of a streaming query: it has no file {_METADATA}. Name the "
            "directory that the query has as its checkpointLocation"
        ) from error
    query_id = _json_object(_text(data, where).strip(), where, "the query's id").get("id")
    if not isinstance(query_id, str):
        raise _torn(where, "the query's id")
    return query_id


def _newest(store: ObjectStore, folder: str) -> int | None:
    """Return the highest number among the files of a log. Incomplete files have other names."""
    names = (meta.path.rpartition("/")[2] for meta in store.list_from(folder))
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)


def _require_commit(store: ObjectStore, number: int) -> None:
    where, (version, *lines) = _lines(store, f"{_COMMITS}/{number}", _COMMIT_VERSIONS)
    _json_object(lines[0] if lines else "{}", where, f"the lines after {version}")


def _batch(store: ObjectStore, number: int) -> PlannedBatch:
    where, (version, *lines) = _lines(store, f"{_OFFSETS}/{number}", (_BY_PLACE, _BY_NAME))
    if not lines:
        raise _torn(where, "the time of its batch")
    # The first line may be empty in v1, from old Spark versions without metadata.
    told = _json_object(lines[0] or "{}", where, "the time of its batch")
    timestamp_ms, watermark_ms = told.get("batchTimestampMs", 0), told.get("batchWatermarkMs", 0)
    if not (isinstance(timestamp_ms, int) and isinstance(watermark_ms, int)):
        raise _torn(where, "the time of its batch")
    by_name = version == _BY_NAME
    named = _named(lines[1:], where) if by_name else [(str(at), line) for at, line in enumerate(lines[1:])]
    sources = tuple(_progress(name, text, where) for name, text in named)
    return PlannedBatch(number, timestamp_ms, watermark_ms, sources)


def _named(lines: list[str], where: str) -> list[tuple[str, str]]:
    """Return names and offsets of sources, sorted, because the file has no order. A name may be a position."""
    found: list[tuple[str, str]] = []
    for line in lines:
        name, separator, text = line.partition(":")
        if not separator:
            raise _torn(where, "the name of a source")
        found.append((name, text))
    return sorted(found, key=lambda each: (int(each[0]) if _NUMBER.fullmatch(each[0]) else -1, each[0]))


def _progress(name: str, text: str, where: str) -> SourceProgress:
    if text == _NOTHING:
        return SourceProgress(name, None)
    try:
        node = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text.lstrip().startswith("{"):
            raise _torn(where, f"the offset of source {name}") from error
        # Other sources may use any format, so text without a JSON object is not an error.
        return SourceProgress(name, text)
    if not (isinstance(node, dict) and _RESERVOIR_ID in node):
        return SourceProgress(name, text)
    try:
        return SourceProgress(name, text, SourceOffset.from_json(node))
    except (CorruptTable, UnsupportedFeature) as error:
        return SourceProgress(name, text, problem=str(error))


def _lines(store: ObjectStore, path: str, versions: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the location of a log file for messages, and its lines. The first line has the format version.

    Raises CorruptTable, UnsupportedFeature.
    """
    where = f"{store.root_url}/{path}"
    try:
        data = store.read(path)
    except ObjectNotFound as error:
        raise CorruptTable(
            f"{where} is missing, but the checkpoint needs it. Files of the checkpoint were lost. Restore the "
            "checkpoint, or begin with a new one"
        ) from error
    lines = _text(data, where).split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines or not re.fullmatch("v[0-9]+", lines[0]):
        raise _torn(where, "the version of its format")
    if lines[0] not in versions:
        raise UnsupportedFeature(
            f"{where}: format {lines[0]} is unknown. This version of Slackwater reads {', '.join(versions)}. Upgrade "
            "Slackwater"
        )
    return where, lines


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _torn(where, "text") from error


def _json_object(text: str, where: str, what: str) -> Mapping[str, Any]:
    try:
        node = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _torn(where, what) from error
    if not isinstance(node, dict):
        raise _torn(where, what)
    return node


def _torn(where: str, what: str) -> CorruptTable:
    return CorruptTable(
        f"{where}: expected {what}, which is missing. The file is truncated, or is not a file of a checkpoint. "
        "Restore it, or begin with a new checkpoint"
    )
