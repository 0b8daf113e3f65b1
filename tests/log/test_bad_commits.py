"""What damaged commits do: our own error, naming the file and the line or field."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import (
    CorruptCheckpoint,
    CorruptLog,
    CorruptTable,
    InvalidSchema,
    MissingCommit,
    SlackwaterError,
)
from slackwater.log.compaction import compact_log
from slackwater.log.snapshot import LogSnapshot
from tests.examples import examples
from tests.log.tables import (
    DEFAULT,
    Action,
    SpyStore,
    TableLog,
    add,
    commit_info,
    domain,
    facts,
    json_lines,
    metadata,
    paths,
    protocol,
    remove,
    txn,
)

SECOND = "00000000000000000001.json"


def _metadata(configuration: Any) -> Action:
    return {"metaData": metadata()["metaData"] | {"configuration": configuration}}


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (json_lines([commit_info(), add("a")])[:-20], 2),
        (b'{"add"', 1),
        (b'{"add":{"path":"a"}}\nhello\n', 2),
        (b'{"add":{"path":"a"}}{"add":{"path":"b"}}\n', 1),
        (b'{"add":{"path":"a","size":NaN}}\n', 1),
        (b'{"add":{"path":"\xff"}}\n', 1),
        (b'\n\n{"add":{"path":"\\ud800"}}\n', 3),
        (b"\xef\xbb\xbf{}\n", 1),
        (b"PAR1\x00\x00", 1),
        (b"[" * 5000, 1),
        (b"[1]\n", 1),
        (b'{}\n"add"\n', 2),
        (b"3\n", 1),
        (b"null\n", 1),
        (b"true\n", 1),
    ],
)
def test_a_line_that_is_no_json_object_is_named_with_its_file(data: bytes, line: int) -> None:
    log = TableLog().create(add("a"))
    old = log.load()
    log.put(SECOND, data)
    for load in (log.load, old.update):
        with pytest.raises(CorruptLog, match=re.escape(f"{SECOND}, line {line}: ")) as caught:
            load()
        assert log.path in str(caught.value)
    assert paths(log.load(0)) == ["a"]


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"add": 3}, "path"),
        ({"add": "a"}, "path"),
        ({"add": []}, "path"),
        ({"add": {}}, "path"),
        ({"add": {"path": None}}, "path"),
        ({"add": {"path": 7}}, "path"),
        ({"remove": {"path": ["a"]}}, "path"),
        (add("a", size="100"), "size"),
        (add("a", size=1.5), "size"),
        (add("a", size=2**63), "size"),
        (add("a", size=10**30), "size"),
        (add("a", size=[1]), "size"),
        (add("a", modificationTime={}), "modificationTime"),
        (add("a", dataChange="true"), "dataChange"),
        (add("a", stats={"numRecords": 1}), "stats"),
        (add("a", partitionValues="p=1"), "partitionValues"),
        (add("a", partitionValues=["p"]), "partitionValues"),
        (add("a", partitionValues={"p": 1}), "partitionValues"),
        (add("a", partitionValues={"p": {"q": "r"}}), "partitionValues"),
        (add("a", partitionValues=3), "partitionValues"),
        (add("a", partitionValues=[["p", "1"]]), "partitionValues"),
        (add("a", deletionVector=[]), "deletionVector"),
        (add("a", tags=True), "tags"),
        (add("a", deletionVector="u"), "deletionVector"),
        (add("a", deletionVector=["u"]), "deletionVector"),
        (add("a", deletionVector={"storageType": 1}), "deletionVector"),
        (add("a", deletionVector={"offset": 2**31}), "deletionVector"),
        (add("a", baseRowId="1"), "baseRowId"),
        (remove("a", deletionTimestamp="now"), "deletionTimestamp"),
        (remove("a", extendedFileMetadata=1), "extendedFileMetadata"),
        ({"protocol": 3}, "minReaderVersion"),
        ({"protocol": {}}, "minReaderVersion"),
        ({"protocol": {"minReaderVersion": "1", "minWriterVersion": 2}}, "minReaderVersion"),
        ({"protocol": {"minReaderVersion": 1}}, "minWriterVersion"),
        ({"protocol": {"minReaderVersion": True, "minWriterVersion": 2}}, "minReaderVersion"),
        (protocol(3, 7, [3], []), "readerFeatures"),  # type: ignore[list-item]
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": "x"}}, "writerFeatures"),
        ({"metaData": 3}, "metaData"),
        ({"metaData": []}, "metaData"),
        (metadata(schemaString={}), "schemaString"),
        (metadata(partitionColumns="p"), "partitionColumns"),
        (metadata(partitionColumns=[1]), "partitionColumns"),
        (_metadata(configuration="x"), "configuration"),
        (_metadata(configuration=[["a", "b"]]), "configuration"),
        (_metadata(configuration={"delta.appendOnly": True}), "configuration"),
        (metadata(format="parquet"), "format"),
        (metadata(format={"provider": 1}), "provider"),
        (metadata(format={"options": "x"}), "options"),
        (metadata(createdTime="today"), "createdTime"),
        (metadata(name=7), "name"),
        ({"txn": "app"}, "appId"),
        ({"txn": {"version": 1}}, "appId"),
        ({"txn": {"appId": "app", "version": "1"}}, "version"),
        ({"txn": {"appId": "app", "version": 1, "lastUpdated": "x"}}, "lastUpdated"),
        ({"domainMetadata": []}, "domain"),
        ({"domainMetadata": {"domain": 3}}, "domain"),
        ({"domainMetadata": {"domain": "d", "configuration": {}}}, "configuration"),
        ({"domainMetadata": {"domain": "d", "configuration": "", "removed": "false"}}, "removed"),
    ],
)
def test_a_field_of_a_wrong_type_is_named_with_its_file(action: Action, field: str) -> None:
    log = TableLog().create(add("first"))
    old = log.load()
    log.commit(1, add("before"), action, add("after"))
    log.commit(2, add("last"))
    for load in (log.load, old.update):
        with pytest.raises(CorruptLog, match=rf"{SECOND}.*{field}") as caught:
            load()
        assert log.path in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_GOOD = (
    *DEFAULT,
    add("a", "x", stats="{}", tags={"k": "v"}, baseRowId=1),
    remove("b", partitionValues={"p": None}),
    txn("app", 1) | {},
    domain("d"),
)


@settings(max_examples=examples(100), deadline=None)
@given(action=st.sampled_from(_GOOD), value=_JSON, data=st.data())
def test_any_json_in_any_field_is_read_or_refused_by_our_own_error(
    action: Action, value: Any, data: st.DataObject
) -> None:
    kind, node = next(iter(action.items()))
    broken = data.draw(st.sampled_from([None, *node]))
    log = TableLog().create(*_GOOD)
    log.commit(1, {kind: value} if broken is None else {kind: {**node, broken: value}})
    try:
        snapshot = log.load()
        facts(snapshot)
        _ = snapshot.schema, snapshot.column_mapping_mode, snapshot.timestamp_ms
    except SlackwaterError as error:
        assert log.path in str(error)  # noqa: PT017  (whether it raises is what the example decides)


@pytest.mark.parametrize("actions", [[metadata()], [protocol()], [add("a")]])
def test_a_log_without_protocol_or_metadata_is_corrupt(actions: list[Action]) -> None:
    log = TableLog()
    log.commit(0, *actions)
    lacking = "protocol" if protocol() not in actions else "metaData"
    with pytest.raises(CorruptLog, match=rf"version 0 has no {lacking} action, but the log must hold one") as caught:
        log.load()
    assert log.path in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "[]",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"cat","nullable":true,"metadata":{}}]}',
        '{"type":"array","elementType":"long","containsNull":true}',
    ],
)
def test_a_schema_string_that_is_no_schema_is_named_with_its_table_and_version(schema: str) -> None:
    log = TableLog().create()
    log.commit(1, metadata(schemaString=schema))
    with pytest.raises(InvalidSchema, match="version 1: ") as caught:
        _ = log.load().schema
    assert log.path in str(caught.value)
    assert log.load(0).schema.names == ("id",)


def test_a_commit_that_was_listed_but_is_gone_is_named() -> None:
    log = TableLog().create().grow(3)

    def vanish(path: str) -> None:
        if path.endswith(SECOND):
            log.delete_commits(1)

    with pytest.raises(CorruptLog, match=rf"listed commit does not exist any more.*{SECOND}") as caught:
        LogSnapshot.open(SpyStore(log.store, vanish))
    assert log.path in str(caught.value)


def test_a_missing_commit_is_an_error_of_the_log_and_of_the_table() -> None:
    assert issubclass(MissingCommit, CorruptLog)
    assert issubclass(CorruptCheckpoint, CorruptTable)
    assert not issubclass(CorruptCheckpoint, CorruptLog)


def test_commit_info_may_be_anything() -> None:
    log = TableLog().create(add("a"))
    log.put(SECOND, json.dumps({"commitInfo": [1]}).encode())
    assert log.load().timestamp_ms > 0


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n \t\n"])
@pytest.mark.parametrize("version", [0, 2, 3])
def test_a_commit_without_an_action_is_no_version_without_changes(content: bytes, version: int) -> None:
    log = TableLog().create(add("f0")).grow(3)
    log.put(f"{version:020d}.json", content)
    named = rf"{version:020d}\.json: the commit contains no action, found {len(content)} bytes"
    with pytest.raises(CorruptLog, match=named):
        log.load()
    with pytest.raises(CorruptLog, match=named):
        log.load(version)
    if version:
        with pytest.raises(CorruptLog, match=named):
            list(log.load(version - 1).history().entries())
        older = log.load(version - 1)
        with pytest.raises(CorruptLog, match=named):
            older.update()
        with pytest.raises(CorruptLog, match=named):
            compact_log(log.store, 0, 3)


def test_a_commit_of_unknown_actions_alone_is_a_version_without_changes() -> None:
    log = TableLog().create(add("f0"))
    log.put(f"{1:020d}.json", b'{"somethingNew":{}}\n')
    assert log.load().version == 1
    assert paths(log.load()) == ["f0"]


@pytest.mark.parametrize("content", [b"", b"\n\n"], ids=["no bytes", "no actions"])
def test_a_compaction_without_actions_is_passed_over(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    log = TableLog().create().grow(5)
    expected = paths(log.load())
    name = log.compaction(4, 5)
    log.put(name.rpartition("/")[2], content)
    assert paths(log.load()) == expected
    assert "must hold an action" in caplog.text
