"""Columns that go and come again under a stream: their name is the same, and that in the files is not."""

from __future__ import annotations

import pytest

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import STRING, ArrayType, DataType, MapType, StructField, StructType
from slackwater.protocol.schema_changes.alter_columns import NewColumn, add_columns, drop_columns
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import set_properties
from tests.streams.test_source import NO_LIMITS, Log, batches
from tests.transaction.tables import change_metadata

MAPPED = {"delta.columnMapping.mode": "name"}
_PART = StructType((StructField("x", STRING), StructField("b", STRING)))
# Where the column `b` is: in the table, in a struct, in elements and in values.
PLACES = {
    (): None,
    ("s",): _PART,
    ("l", "element"): ArrayType(_PART, True),
    ("m", "value"): MapType(STRING, _PART, True),
}


def _with(properties: dict[str, str], path: tuple[str, ...]) -> Log:
    log = Log(properties)
    _change(log, _added(log, path[:1] or ("b",), PLACES[path] or STRING))
    return log


def _added(log: Log, path: tuple[str, ...], kind: DataType = STRING) -> TableConfiguration:
    return add_columns(log.snapshot.configuration, [NewColumn(StructField(path[-1], kind), path[:-1])])


def _change(log: Log, changed: TableConfiguration) -> None:
    log.time.now_ms += 1000
    log.snapshot = change_metadata(log.snapshot, changed.metadata).snapshot


def _drop(log: Log, path: tuple[str, ...]) -> None:
    _change(log, drop_columns(log.snapshot.configuration, [(*path, "b")]))


def _add(log: Log, path: tuple[str, ...]) -> None:
    _change(log, _added(log, (*path, "b")))


def _map(log: Log) -> None:
    log.time.now_ms += 1000
    log.snapshot = set_properties(log.snapshot, MAPPED).commit(begin(log.snapshot)).snapshot


def _refused(log: Log, read: Snapshot | None, version: int) -> None:
    """That a stream which reads with the schema of `read`, the newest by default, ends before it reads wrongly."""
    source = log.source(read, starting_version=version)
    with pytest.raises(UnsupportedFeature, match="renamed or dropped") as caught:
        source.latest(source.first(), *NO_LIMITS)
    assert caught.value.error_class == "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"


@pytest.mark.parametrize("path", PLACES, ids=".".join)
@pytest.mark.parametrize("is_mapped_later", [False, True])
def test_a_running_stream_ends_where_a_column_is_dropped(path: tuple[str, ...], is_mapped_later: bool) -> None:
    log = _with({} if is_mapped_later else MAPPED, path)
    read = log.snapshot
    log.commit(["a"])
    if is_mapped_later:
        _map(log)
        log.commit(["b"])
        assert [files for _, files in batches(log.source(read))] == [["a", "b"]]
    _drop(log, path)
    _add(log, path)
    log.commit(["c"])
    _refused(log, read, read.version)


@pytest.mark.parametrize("path", PLACES, ids=".".join)
@pytest.mark.parametrize("is_mapped_later", [False, True])
def test_a_stream_does_not_go_on_before_a_column_was_dropped_and_added_again(
    path: tuple[str, ...], is_mapped_later: bool
) -> None:
    log = _with({} if is_mapped_later else MAPPED, path)
    log.commit(["a"])
    start = log.snapshot.version
    if is_mapped_later:
        _map(log)
    _drop(log, path)
    _add(log, path)
    log.commit(["b"])
    _refused(log, None, start)
    after = log.source(starting_version=log.snapshot.version)
    assert [files for _, files in batches(after)] == [["b"]]


def test_a_frame_from_before_such_a_change_does_not_go_on_behind_it() -> None:
    log = _with(MAPPED, ())
    read = log.snapshot
    _drop(log, ())
    _add(log, ())
    log.commit(["a"])
    _refused(log, read, log.snapshot.version)


def test_a_stream_does_not_go_on_before_an_overwrite_took_a_column() -> None:
    log = Log()
    log.alter({"id": "long", "more": "string"})
    log.commit(["a"])
    start = log.snapshot.version
    log.alter({"id": "long"})
    with pytest.raises(UnsupportedFeature, match=f"version {start} .* another schema"):
        log.source(starting_version=start).latest(log.source(starting_version=start).first(), *NO_LIMITS)
