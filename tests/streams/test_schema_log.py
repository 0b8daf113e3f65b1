"""The schemas that a stream reads a table with: kept beside its checkpoint, followed in order, judged by its user."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from slackwater.errors import CorruptLog, CorruptTable, OperationNotAllowed
from slackwater.protocol.features.column_mapping import PHYSICAL_NAME
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema_changes.alter_columns import rename_column
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.streams.offsets import BEHIND_SCHEMA_CHANGE, SCHEMA_CHANGE, SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.schema_changes import AllowedSchemaChanges, require_unblocked
from slackwater.streams.schema_log import SchemaLog, source_place
from slackwater.streams.source import TableSource
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import set_properties
from tests.streams.test_source import Log, paths
from tests.transaction.tables import change_metadata

NO_LIMITS = (None, None)
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture
def log(tmp_path: Path) -> SchemaLog:
    return SchemaLog.of(open_store(tmp_path / "schemas"), "")


def of(log: SchemaLog, snapshot: Snapshot) -> SchemaLog:
    return replace(log, directory=f"_schema_log_{snapshot.metadata.id}", table_id=snapshot.metadata.id)


def source(log: SchemaLog, snapshot: Snapshot, **options: object) -> TableSource:
    """A stream as it is started: with what it was reading with, else with the newest schema."""
    log = of(log, snapshot)
    tracked = log.newest()
    read = snapshot.configuration if tracked is None else tracked.configuration
    version = snapshot.version if tracked is None else tracked.version
    asked = StreamOptions(**options)  # type: ignore[arg-type]
    return TableSource(snapshot.table, read, version, asked, schema_log=log)


def batches(stream: TableSource, start: SourceOffset | None = None) -> Iterator[tuple[SourceOffset, list[str]]]:
    """The micro-batches as Spark asks for them: a batch is done with once the next one is planned."""
    at = start or stream.first()
    before = None
    while (end := SourceOffset.from_json(stream.latest(at, *NO_LIMITS).to_json())) != at:
        if before is not None:
            stream.committed(before)
        yield end, paths(stream, at, end)
        at = before = end


def renamed(table: Log, name: str, new: str) -> None:
    changed = rename_column(table.snapshot.configuration, (name,), new)
    table.time.now_ms += 1000
    table.snapshot = change_metadata(table.snapshot, changed.metadata).snapshot


def test_a_stream_goes_over_a_change_of_schema_by_being_started_again(log: SchemaLog) -> None:
    table = Log(MAPPED)
    table.commit(["a"])
    stream = source(log, table.snapshot)
    assert [found for _, found in batches(stream)] == [["a"]]
    at = SourceOffset(table.snapshot.metadata.id, 2)
    table.commit(["b"])
    renamed(table, "id", "key")
    table.commit(["c"])
    running = batches(source(log, table.snapshot), at)
    at, found = next(running)
    assert (at.version, at.index, found) == (3, SCHEMA_CHANGE, ["b"])
    with pytest.raises(OperationNotAllowed, match="Start the query again") as refused:
        next(running)
    assert refused.value.error_class == "DELTA_STREAMING_METADATA_EVOLUTION"
    # Planned, and not carried out: there Spark ends.
    behind = replace(at, index=BEHIND_SCHEMA_CHANGE)
    again = source(log, table.snapshot)
    assert paths(again, at, behind) == []
    assert [found for _, found in batches(again, behind)] == [["c"]]
    entries = [of(log, table.snapshot)._entry(number) for number in (0, 1)]
    assert [(entry.version, entry.configuration.schema.names) for entry in entries] == [(1, ("id",)), (3, ("key",))]


def test_a_stream_waits_before_a_change_that_it_was_not_started_again_for(log: SchemaLog) -> None:
    table = Log(MAPPED)
    table.commit(["a"])
    stream = source(log, table.snapshot)
    stream.first()
    table.commit(["b"])
    renamed(table, "id", "key")
    table.commit(["c"])
    at = stream.latest(SourceOffset(table.snapshot.metadata.id, 2), *NO_LIMITS)
    behind = stream.latest(at, *NO_LIMITS)
    assert (at.index, behind.index) == (SCHEMA_CHANGE, BEHIND_SCHEMA_CHANGE)
    assert stream.latest(behind, *NO_LIMITS) == behind


def test_what_a_stream_begins_with_is_written_down_or_stops_it(log: SchemaLog) -> None:
    table = Log(MAPPED)
    table.commit(["a"])
    renamed(table, "id", "key")
    stream = source(log, table.snapshot, starting_version=0)
    with pytest.raises(OperationNotAllowed, match="Start the query again"):
        stream.first()
    again = source(log, table.snapshot, starting_version=0)
    assert next(batches(again)) == (SourceOffset(table.snapshot.metadata.id, 2, SCHEMA_CHANGE), ["a"])


@pytest.mark.parametrize(("properties", "follows"), [({"delta.appendOnly": "true"}, True), ({"mine": "1"}, False)])
def test_properties_of_delta_are_followed_and_others_are_not(
    log: SchemaLog, properties: dict[str, str], follows: bool
) -> None:
    table = Log()
    stream = source(log, table.snapshot)
    stream.first()
    table.snapshot = set_properties(table.snapshot, properties).commit(begin(table.snapshot)).snapshot
    end = stream.latest(SourceOffset(table.snapshot.metadata.id, 1), *NO_LIMITS)
    assert end.is_amid_schema_change == follows


def test_a_checkpoint_from_before_schemas_were_tracked_is_gone_on_with(log: SchemaLog) -> None:
    table = Log(MAPPED)
    table.commit(["a"])
    table.commit(["b"])
    at = SourceOffset(table.snapshot.metadata.id, 2)
    assert [found for _, found in batches(source(log, table.snapshot), at)] == [["b"]]
    newest = of(log, table.snapshot).newest()
    assert newest is not None
    assert newest.version == 2


def test_an_offset_amid_a_change_is_read_without_a_log_where_the_schema_fits(log: SchemaLog) -> None:
    table = Log()
    table.commit(["a"])
    stream = table.source()
    for index in (SCHEMA_CHANGE, BEHIND_SCHEMA_CHANGE):
        at = SourceOffset(table.snapshot.metadata.id, 1, index)
        assert SourceOffset.from_json(at.to_json()) == at
        assert at.to_json()["sourceVersion"] == 3
        assert [found for _, found in batches(stream, at) if found] == [["a"]]


def test_two_streams_do_not_track_at_one_place(log: SchemaLog) -> None:
    table = Log()
    mine = of(log, table.snapshot)
    mine.append(0, table.snapshot.configuration)

    class Late(SchemaLog):
        def _numbers(self) -> list[int]:
            return []

    with pytest.raises(OperationNotAllowed, match="streamingSourceTrackingId"):
        Late(mine.store, mine.directory, mine.table_id).append(0, table.snapshot.configuration)
    apart = SchemaLog.of(mine.store, mine.table_id, "second")
    assert apart.newest() is None


@pytest.mark.parametrize("text", [b"", b"v1\n", b"v2\n{}", b"v1\n{}", b"v1\n[1]", b'v1\n{"tableId": 1'])
def test_an_entry_that_is_none_is_told_by_its_place(log: SchemaLog, text: bytes) -> None:
    log.store.put(f"{log.directory}/0", text)
    with pytest.raises(CorruptLog, match=r"_schema_log_/0 is not a schema"):
        log.newest()


def test_a_log_of_another_table_is_refused(log: SchemaLog) -> None:
    table = Log()
    replace(log, table_id=table.snapshot.metadata.id).append(0, table.snapshot.configuration)
    with pytest.raises(CorruptTable, match=table.snapshot.metadata.id):
        log.newest()


def test_an_entry_of_delta_spark_is_read_and_carried_on(log: SchemaLog) -> None:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("p", "string"), ("v", "long"))
    ]
    schema = {"type": "struct", "fields": fields}
    partitions = {"type": "struct", "fields": fields[:1]}
    node = {
        "tableId": "t", "deltaCommitVersion": 4, "dataSchemaJson": orjson.dumps(schema).decode(),
        "partitionSchemaJson": orjson.dumps(partitions).decode(), "sourceMetadataPath": "file:/c/sources/0",
        "tableConfigurations": {"delta.appendOnly": "true"}, "previousMetadataSeqNum": 1,
        "protocolJson": '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    }  # fmt: skip
    log = SchemaLog.of(log.store, "t", "id")
    log.store.put(f"{log.directory}/3", b"v1\n" + orjson.dumps(node))
    log.store.put(f"{log.directory}/.3.crc", b"")
    found = log.newest()
    assert found is not None
    assert (found.number, found.version, found.before, found.source) == (3, 4, 1, "file:/c/sources/0")
    assert found.configuration.metadata.partition_columns == ("p",)
    written = log.append(5, found.configuration)
    assert (written.number, written.source) == (4, "file:/c/sources/0")
    kept = orjson.loads(log.store.read(f"{log.directory}/4").partition(b"\n")[2])
    assert {key: orjson.loads(kept[key]) for key in ("dataSchemaJson", "partitionSchemaJson")} == {
        "dataSchemaJson": schema,
        "partitionSchemaJson": partitions,
    }
    assert log.before(written) == found


def _tables(
    before: dict[str, str], after: dict[str, str], physical: dict[str, str]
) -> tuple[TableConfiguration, TableConfiguration]:
    """Tables of these columns; `physical` are the names in files where they are not the columns' own."""
    found = []
    for columns in (before, after):
        table = Log(MAPPED)
        fields = [
            {"name": name, "type": kind, "nullable": True,
             "metadata": {"delta.columnMapping.id": at, PHYSICAL_NAME: physical.get(name, name)}}
            for at, (name, kind) in enumerate(columns.items(), 1)
        ]  # fmt: skip
        text = orjson.dumps({"type": "struct", "fields": fields}).decode()
        metadata = replace(table.snapshot.metadata, schema_string=text)
        found.append(table.snapshot.configuration.changed(metadata=metadata))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("after", "physical", "says", "allowed"),
    [
        ({"a": "long", "b": "string", "c": "long"}, {}, None, AllowedSchemaChanges()),
        (
            {"a": "long", "x": "string"},
            {"x": "b"},
            r"renamed: b to x.*allowSourceColumnRename = 7",
            AllowedSchemaChanges("7"),
        ),
        ({"a": "long"}, {}, r"dropped: b.*allowSourceColumnDrop = 7", AllowedSchemaChanges(dropped="always")),
        (
            {"a": "double", "b": "string"},
            {},
            r"changed in type: a.*TypeChange = 7",
            AllowedSchemaChanges(retyped="ALWAYS"),
        ),
        ({"x": "long"}, {"x": "a"}, r"Rename = 7, allowSourceColumnDrop = 7", AllowedSchemaChanges("7", "7")),
    ],
)
def test_changes_that_only_the_user_can_judge_are_let_pass_by_options(
    after: dict[str, str], physical: dict[str, str], says: str | None, allowed: AllowedSchemaChanges
) -> None:
    older, newer = _tables({"a": "long", "b": "string"}, after, physical)
    if says is not None:
        for given in (AllowedSchemaChanges(), AllowedSchemaChanges("6", "6", "6")):
            with pytest.raises(OperationNotAllowed, match=says):
                require_unblocked(older, newer, 7, given, "t")
    require_unblocked(older, newer, 7, allowed, "t")


def test_a_log_in_a_checkpoint_names_the_place_of_its_source_as_spark_does(tmp_path: Path) -> None:
    table = Log().snapshot
    checkpoint = tmp_path / "of flights"
    (checkpoint / "schemas" / "a").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"5d5d7a16-56bc-4ae3-a2a3-0f5f1d2f39a2"}', encoding="utf-8")
    for place in (checkpoint / "schemas", checkpoint / "schemas" / "a"):
        entry = SchemaLog.of(open_store(place), table.metadata.id).append(0, table.configuration)
        assert entry.source == f"file:{checkpoint}/sources/0"
    (checkpoint / "metadata").write_text("[]", encoding="utf-8")
    assert (
        SchemaLog.of(open_store(checkpoint / "others"), table.metadata.id).append(0, table.configuration).source == ""
    )


def test_the_place_of_a_source_in_a_bucket_has_the_scheme_that_the_user_gave() -> None:
    root = f"memory://{uuid.uuid4()}"
    open_store(root).put("check/metadata", b'{"id":"5d5d7a16-56bc-4ae3-a2a3-0f5f1d2f39a2"}')
    store = open_store(f"{root}/check/schemas")
    assert source_place(store, "s3a://bucket/check/schemas/") == "s3a://bucket/check/sources/0"
    assert source_place(open_store(f"{root}/elsewhere/schemas"), "s3a://bucket/elsewhere/schemas") == ""
