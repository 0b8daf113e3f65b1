"""What an owner ratifies: valid actions, of tables that stay its own."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed, UnsupportedFeature
from slackwater.owner.commit.commit_validation import require_kept, require_valid
from tests.contract.owners import PROTOCOL, added, metadata
from tests.owner.served.serving import id_of_a_test

OWNER, TABLE = "0" * 36, "1" * 36
NAME, CONF = "delta.managedCommit.commitOwner", "delta.managedCommit.commitOwnerConf"
TIMES = "delta.enableInCommitTimestamps"
INFO = {"commitInfo": {"txnId": "x"}}
REMOVED = {"path": "r", "deletionTimestamp": 1, "dataChange": True}
CDC = {"path": "c", "partitionValues": {"p": None}, "size": 1, "dataChange": False}
VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
SPOILT = metadata(TABLE)


def _unknown(table_id: str) -> None:
    """Nothing is known of what the table has."""


def _domain(name: str, configuration: str = "") -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": False}}


def test_every_kind_of_action_is_ratified_where_it_is_well_formed() -> None:
    require_valid(
        [
            INFO, {"protocol": PROTOCOL}, {"metaData": metadata(TABLE)}, added(), added(deletionVector=VECTOR),
            added(stats=None, tags={"a": "b"}, baseRowId=1, clusteringProvider="x", ofTheFuture=1),
            {"remove": REMOVED}, {"remove": {**REMOVED, "path": "s", "deletionVector": VECTOR}}, {"cdc": CDC},
            {"txn": {"appId": "a", "version": 1}}, {"txn": {"appId": "b", "version": 1}}, _domain("d"), _domain("e"),
            _domain("delta.rowTracking", '{"rowIdHighWaterMark": 4}'),
        ]
    )  # fmt: skip
    # A logical file goes and another one of its data file comes.
    require_valid([INFO, {"remove": REMOVED}, added(path="r", deletionVector=VECTOR)])


@pytest.mark.parametrize(
    "action",
    [
        None, {}, [], {"add": None}, {"add": []}, {"something new": {}}, {**added(), "metaData": metadata(None)},
        {"checkpointMetadata": {"version": 1}}, added(path=None), added(path=""), added(path=1),
        added(partitionValues=[1]), added(partitionValues={"p": 1}), added(size="1"), added(size=2**63),
        added(size=None), added(modificationTime=1.5), added(dataChange="true"), added(stats={}), added(tags=["a"]),
        added(deletionVector=[]), added(deletionVector={}), added(deletionVector={**VECTOR, "sizeInBytes": 2**31}),
        added(baseRowId="1"), {"remove": {}}, {"remove": {**REMOVED, "dataChange": None}},
        {"remove": {**REMOVED, "extendedFileMetadata": 1}}, {"remove": {**REMOVED, "deletionTimestamp": "1"}},
        {"cdc": {**CDC, "dataChange": True}}, {"cdc": {**CDC, "size": True}}, {"txn": {"appId": "a"}},
        {"txn": {"appId": 1, "version": 1}}, {"domainMetadata": {"domain": None}}, _domain("delta.rowTracking", "x"),
        {"metaData": {**SPOILT, "schemaString": "x"}}, {"metaData": {**SPOILT, "configuration": {"a": 1}}},
        {"metaData": {**SPOILT, "partitionColumns": ["nowhere"]}}, {"metaData": {**SPOILT, "format": "parquet"}},
        {"protocol": {}}, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 2}},
        {"protocol": {**PROTOCOL, "writerFeatures": None}},
    ],
    ids=id_of_a_test,
)  # fmt: skip
def test_garbage_is_refused_and_told_where(action: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^action 2 of the commit"):
        require_valid([INFO, action])


def test_a_protocol_that_this_package_does_not_write_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="of the future"):
        require_valid([{"protocol": {**PROTOCOL, "writerFeatures": ["of the future"]}}])


@pytest.mark.parametrize(
    "action",
    [
        INFO, {"protocol": PROTOCOL}, {"metaData": metadata(TABLE)}, added(path="a"), {"remove": REMOVED}, {"cdc": CDC},
        {"txn": {"appId": "a", "version": 1}}, _domain("d"),
    ],
    ids=lambda action: next(iter(action)),
)  # fmt: skip
def test_actions_that_contradict_each_other_are_refused(action: Any) -> None:
    with pytest.raises(InvalidArgument, match="is the second"):
        require_valid([action, added(path="other"), action])


def _configured(**changed: str | None) -> list[dict[str, Any]]:
    node = metadata(TABLE)
    merged = {**node["configuration"], **{key: value for key, value in changed.items() if value is not None}}
    kept = {key: value for key, value in merged.items() if changed.get(key, "") is not None}
    return [INFO, {"metaData": {**node, "configuration": kept}}]


def _owned_by(**conf: str) -> str:
    return orjson.dumps({"tableId": TABLE, "ownerId": OWNER, **conf}).decode()


@pytest.mark.parametrize(
    "changed",
    [
        {NAME: None}, {NAME: "dynamodb"}, {NAME: "slackwater", NAME.upper(): "dynamodb"}, {CONF: None},
        {CONF: _owned_by(ownerId="2" * 36)}, {CONF: _owned_by(tableId="2" * 36)}, {CONF: "{}"},
        {CONF.lower(): _owned_by()}, {TIMES: None}, {TIMES: "false"}, {TIMES.lower(): "false"},
    ],
    ids=str,
)  # fmt: skip
def test_no_commit_disowns_a_table_by_its_properties(changed: Any) -> None:
    with pytest.raises(OperationNotAllowed, match=r"Lake\.release"):
        require_kept(_configured(**changed), OWNER, TABLE, _unknown)


@pytest.mark.parametrize("left", ["inCommitTimestamp", "managedCommit"])
def test_no_commit_disowns_a_table_by_its_protocol(left: str) -> None:
    features = [name for name in PROTOCOL["writerFeatures"] if name != left]  # type: ignore[attr-defined]
    with pytest.raises(OperationNotAllowed, match=left):
        require_kept([INFO, {"protocol": {**PROTOCOL, "writerFeatures": features}}], OWNER, TABLE, _unknown)
    with pytest.raises(OperationNotAllowed):
        require_kept([INFO, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}], OWNER, TABLE, _unknown)


def test_properties_that_are_malformed_are_no_commit() -> None:
    with pytest.raises(InvalidArgument, match="is not JSON"):
        require_kept(_configured(**{CONF: "{"}), OWNER, TABLE, _unknown)


def test_other_properties_and_features_change_by_a_commit() -> None:
    features = ["inCommitTimestamp", "managedCommit", "changeDataFeed"]
    protocol = {**PROTOCOL, "writerFeatures": features}
    changed = _configured(**{"delta.appendOnly": "true", CONF: _owned_by()})
    require_valid([*changed, {"protocol": protocol}])
    require_kept([*changed, {"protocol": protocol}], OWNER, TABLE, _unknown)
