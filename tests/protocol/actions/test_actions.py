from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptLog
from slackwater.protocol.actions.actions import (
    NO_COLUMNS,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    SetTransaction,
    parse_actions,
)
from slackwater.protocol.actions.files import AddCDCFile, AddFile

_TEXT = st.text(max_size=8)
_TEXTS = st.dictionaries(_TEXT, _TEXT, max_size=3)
_FEATURES = st.none() | st.lists(_TEXT, max_size=3).map(tuple)
_MS = st.none() | st.integers(0, 2**62)
VALUES = st.one_of(
    st.builds(Protocol, st.integers(1, 9), st.integers(1, 9), _FEATURES, _FEATURES),
    st.builds(
        Metadata,
        _TEXT,
        _TEXT,
        st.lists(_TEXT, max_size=3).map(tuple),
        _TEXTS,
        st.none() | _TEXT,
        st.none() | _TEXT,
        st.builds(Format, _TEXT.filter(bool), _TEXTS),
        _MS,
    ),
    st.builds(SetTransaction, _TEXT, st.integers(0, 2**62), _MS),
    st.builds(DomainMetadata, _TEXT, _TEXT, st.booleans()),
)


@given(VALUES)
def test_an_action_comes_back_from_its_json(value: Protocol | Metadata | SetTransaction | DomainMetadata) -> None:
    kind, node = next(iter(json.loads(json.dumps(value.to_json())).items()))
    assert kind in ("protocol", "metaData", "txn", "domainMetadata")
    assert type(value).from_json(node, "here") == value


def test_optional_fields_without_a_value_are_left_out() -> None:
    assert Protocol(1, 2).to_json() == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert SetTransaction("app", 3).to_json() == {"txn": {"appId": "app", "version": 3}}
    assert sorted(Metadata("id", "{}").to_json()["metaData"]) == [
        "configuration",
        "format",
        "id",
        "partitionColumns",
        "schemaString",
    ]


def test_a_feature_list_that_is_empty_is_not_one_that_is_absent() -> None:
    assert Protocol(3, 7, (), ()).to_json()["protocol"]["readerFeatures"] == []
    assert Protocol.from_json({"minReaderVersion": 3, "minWriterVersion": 7}, "here").reader_features is None


def test_an_added_file_keeps_its_null_partition_values() -> None:
    file = AddFile("a", {"p": None, "q": ""}, 7, 9)
    assert file.to_json()["add"] == {
        "path": "a",
        "partitionValues": {"p": None, "q": ""},
        "size": 7,
        "modificationTime": 9,
        "dataChange": True,
    }


def test_metadata_without_optional_fields_has_the_protocols_defaults() -> None:
    found = Metadata.from_json({"id": None, "schemaString": None, "format": None, "configuration": {"a": None}}, "here")
    assert found == Metadata(id="", schema_string=NO_COLUMNS)
    assert found.format == Format("parquet", {})


def test_maps_come_as_objects_or_as_the_pairs_that_arrow_gives() -> None:
    by_json = Metadata.from_json({"schemaString": "{}", "configuration": {"a": "b", "c": None}}, "here")
    by_arrow = Metadata.from_json({"schemaString": "{}", "configuration": [("a", "b"), ("c", None)]}, "here")
    assert by_json.configuration == by_arrow.configuration == {"a": "b"}


@pytest.mark.parametrize(
    ("kind", "node", "message"),
    [
        (Protocol, None, "protocol must have minReaderVersion of type int, found None"),
        (Protocol, {"minReaderVersion": 1.0, "minWriterVersion": 2}, "minReaderVersion of type int, found 1.0"),
        (Protocol, {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": {}}, "readerFeatures of type list"),
        (Metadata, "x", "metaData must be an object"),
        (Metadata, {"schemaString": 1}, "schemaString of type str"),
        (Metadata, {"configuration": {"a": 1}}, "configuration that maps text to text"),
        (Metadata, {"configuration": [("a", 1)]}, "configuration that maps text to text"),
        (Metadata, {"configuration": ["a"]}, "configuration that maps text to text"),
        (Metadata, {"partitionColumns": [None]}, "partitionColumns that is a list of names"),
        (Metadata, {"description": []}, "description of type str"),
        (SetTransaction, {"appId": "a"}, "txn must have version of type int"),
        (SetTransaction, {"appId": "a", "version": True}, "txn must have version of type int"),
        (DomainMetadata, {"domain": "d", "removed": 1}, "domainMetadata must have removed of type bool"),
    ],
)
def test_a_field_that_is_missing_or_malformed_is_named_with_its_place(kind: Any, node: Any, message: str) -> None:
    with pytest.raises(CorruptLog, match=message) as caught:
        kind.from_json(node, "the commit")
    assert str(caught.value).startswith("the commit: ")


@given(st.lists(st.dictionaries(_TEXT, st.integers() | _TEXT, max_size=2), max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_lines_come_back_as_they_were_written(actions: list[dict[str, Any]], end: str) -> None:
    small = [{k: v for k, v in a.items() if isinstance(v, str) or abs(v) < 2**63} for a in actions]
    data = "".join(json.dumps(action) + end for action in small).encode()
    assert parse_actions(data, "here") == small
    assert parse_actions(data.rstrip(b"\r\n"), "here") == small


def test_the_number_of_the_line_counts_empty_lines() -> None:
    with pytest.raises(CorruptLog, match=r"00\.json, line 4: not JSON .*\. The file may be truncated"):
        parse_actions(b"{}\n\n \nx\n", "00.json")


@pytest.mark.parametrize("tags", [None, {}, {"k": "v"}])
def test_a_change_data_file_says_its_tags_where_it_has_some(tags: dict[str, str] | None) -> None:
    node = {"path": "c", "partitionValues": {"p": None}, "size": 3, "dataChange": False}
    assert AddCDCFile("c", {"p": None}, 3, tags).to_json() == {"cdc": node if tags is None else {**node, "tags": tags}}
