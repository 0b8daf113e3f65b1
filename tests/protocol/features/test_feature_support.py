from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import FIELD_ID, PHYSICAL_NAME
from slackwater.protocol.features.protocol_upgrade import (
    DEFAULT_PROTOCOL,
    protocol_for,
    required_features,
    validate_feature_combination,
    with_features,
    with_required_features,
    with_versions,
    without_feature,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import (
    FEATURES,
    MULTI_TABLE,
    known_feature,
    supported_features,
    validate_writable,
)
from slackwater.protocol.schema.schema import (
    BINARY,
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)

PLAIN = StructType((StructField("a", LONG), StructField("b", STRING)))
# Only a commit owner adds what the last one needs.
WRITABLE = [feature.name for feature in FEATURES if feature.name != MULTI_TABLE]
LEGACY = [Protocol(*versions) for versions in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))]


def _table(
    schema: StructType = PLAIN,
    configuration: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
    protocol: Protocol = DEFAULT_PROTOCOL,
) -> TableConfiguration:
    return TableConfiguration(protocol, Metadata("id", schema_to_json(schema), partitions, configuration or {}))


def _one(data_type: DataType = LONG, nullable: bool = True, metadata: Mapping[str, object] | None = None) -> StructType:
    return StructType((StructField("a", data_type, nullable, metadata or {}),))


# A new table


@pytest.mark.parametrize(
    ("features", "protocol"),
    [
        ([], Protocol(1, 2)),
        (["appendOnly"], Protocol(1, 2)),
        (["invariants", "appendOnly"], Protocol(1, 2)),
        (["checkConstraints"], Protocol(1, 3)),
        (["checkConstraints", "generatedColumns", "changeDataFeed"], Protocol(1, 4)),
        (
            ["checkConstraints", "generatedColumns", "changeDataFeed", "columnMapping"],
            Protocol(2, 5),
        ),
        (
            ["checkConstraints", "generatedColumns", "changeDataFeed", "columnMapping", "identityColumns"],
            Protocol(2, 6),
        ),
        # Versions that imply more than is asked are not used: each feature binds every later writer.
        (["changeDataFeed"], Protocol(1, 7, None, ("appendOnly", "invariants", "changeDataFeed"))),
        (["identityColumns"], Protocol(1, 7, None, ("appendOnly", "invariants", "identityColumns"))),
        (
            ["columnMapping"],
            Protocol(3, 7, ("columnMapping",), ("appendOnly", "invariants", "columnMapping")),
        ),
        (["rowTracking"], Protocol(1, 7, None, ("appendOnly", "invariants", "rowTracking", "domainMetadata"))),
        (
            ["inCommitTimestamps", "deletionVectors"],
            Protocol(3, 7, ("deletionVectors",), ("appendOnly", "invariants", "deletionVectors", "inCommitTimestamp")),
        ),
    ],
)
def test_a_new_table_gets_the_weakest_protocol_for_its_features(features: list[str], protocol: Protocol) -> None:
    assert protocol_for(features) == protocol


@pytest.mark.parametrize(
    ("reader", "writer", "features", "protocol"),
    [
        (1, 1, [], Protocol(1, 1)),
        (None, 1, [], Protocol(1, 1)),
        (1, 4, ["changeDataFeed"], Protocol(1, 4)),
        (2, 5, ["columnMapping"], Protocol(2, 5)),
        (2, 5, [], Protocol(2, 5)),
        (None, 7, [], Protocol(1, 7, None, ())),
        (3, 7, [], Protocol(3, 7, (), ())),
        (1, 7, ["appendOnly"], Protocol(1, 7, None, ("appendOnly",))),
        (2, 7, ["columnMapping"], Protocol(2, 7, None, ("columnMapping",))),
        (1, 7, ["columnMapping"], Protocol(3, 7, ("columnMapping",), ("columnMapping",))),
        (
            2,
            5,
            ["timestampNtz"],
            Protocol(
                3,
                7,
                ("columnMapping", "timestampNtz"),
                (
                    "appendOnly",
                    "invariants",
                    "checkConstraints",
                    "generatedColumns",
                    "changeDataFeed",
                    "columnMapping",
                    "timestampNtz",
                ),
            ),
        ),
    ],
)
def test_a_new_table_has_at_least_the_versions_that_were_asked_for(
    reader: int | None, writer: int | None, features: list[str], protocol: Protocol
) -> None:
    assert protocol_for(features, reader, writer) == protocol


@pytest.mark.parametrize(
    ("reader", "writer", "message"),
    [
        (3, 6, "reader version 3 needs writer version 7, found writer version 6"),
        (3, None, "reader version 3 needs writer version 7, found writer version 2"),
        (4, 7, "a protocol of reader version 4 and writer version 7"),
        (1, 8, "a protocol of reader version 1 and writer version 8"),
        (0, 2, "a protocol of reader version 0"),
        (1, 0, "a protocol of reader version 1 and writer version 0"),
    ],
)
def test_versions_that_cannot_be_are_refused(reader: int | None, writer: int | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        protocol_for([], reader, writer)
    if reader is not None and writer is not None:
        with pytest.raises(InvalidArgument, match=message):
            with_versions(Protocol(1, 2), reader, writer)


def test_a_feature_that_nobody_knows_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidArgument, match=r"unknown table feature 'noSuch'\. Did you mean \w+"):
        protocol_for(["noSuch"])
    with pytest.raises(InvalidArgument, match="unknown table feature 'noSuch'"):
        with_features(Protocol(1, 2), ["noSuch"])


@given(st.sets(st.sampled_from(WRITABLE)), st.sampled_from([None, *LEGACY, Protocol(1, 7), Protocol(3, 7)]))
def test_any_new_protocol_is_writable_and_supports_what_was_asked(names: set[str], least: Protocol | None) -> None:
    versions = (least.min_reader_version, least.min_writer_version) if least else (None, None)
    protocol = protocol_for(names, *versions)
    validate_writable(protocol, "t")
    assert names <= supported_features(protocol)
    assert protocol.min_reader_version >= (versions[0] or 1)
    assert protocol.min_writer_version >= (versions[1] or 2)


def _with_requirements(name: str) -> set[str]:
    feature = known_feature(name)
    return {name}.union(*map(_with_requirements, (*feature.requires, *feature.brings) if feature else ()))


@given(st.sets(st.sampled_from(WRITABLE)))
def test_a_new_protocol_supports_nothing_but_what_is_needed(names: set[str]) -> None:
    needed = {"appendOnly", "invariants"}.union(*map(_with_requirements, names))
    assert supported_features(protocol_for(names)) == needed


# An existing table


@pytest.mark.parametrize(
    ("protocol", "features", "result"),
    [
        (Protocol(1, 2), ["checkConstraints"], Protocol(1, 3)),
        (Protocol(1, 3), ["changeDataFeed", "generatedColumns"], Protocol(1, 4)),
        (Protocol(1, 4), ["columnMapping"], Protocol(2, 5)),
        (Protocol(2, 5), ["identityColumns"], Protocol(2, 6)),
        (Protocol(1, 1), ["appendOnly", "invariants"], Protocol(1, 2)),
        (Protocol(1, 2), ["changeDataFeed"], Protocol(1, 7, None, ("appendOnly", "invariants", "changeDataFeed"))),
        (
            Protocol(1, 4),
            ["rowTracking"],
            Protocol(
                1,
                7,
                None,
                (
                    "appendOnly",
                    "invariants",
                    "checkConstraints",
                    "generatedColumns",
                    "changeDataFeed",
                    "rowTracking",
                    "domainMetadata",
                ),
            ),
        ),
        (
            Protocol(1, 2),
            ["columnMapping"],
            Protocol(3, 7, ("columnMapping",), ("appendOnly", "invariants", "columnMapping")),
        ),
        # Reader version 2 goes on to imply column mapping where nothing else concerns readers.
        (
            Protocol(2, 7, None, ("columnMapping",)),
            ["domainMetadata"],
            Protocol(2, 7, None, ("columnMapping", "domainMetadata")),
        ),
        (Protocol(2, 7, None, ()), ["columnMapping"], Protocol(2, 7, None, ("columnMapping",))),
        (
            Protocol(2, 7, None, ("columnMapping",)),
            ["deletionVectors"],
            Protocol(3, 7, ("columnMapping", "deletionVectors"), ("columnMapping", "deletionVectors")),
        ),
        # Order and spelling of what is listed stay.
        (
            Protocol(1, 7, None, ("rowTracking", "domainMetadata", "inCommitTimestamps")),
            ["appendOnly", "inCommitTimestamp"],
            Protocol(1, 7, None, ("rowTracking", "domainMetadata", "inCommitTimestamps", "appendOnly")),
        ),
        (Protocol(3, 7, (), ()), ["v2Checkpoint"], Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))),
    ],
)
def test_an_existing_table_gains_features_and_loses_none(
    protocol: Protocol, features: list[str], result: Protocol
) -> None:
    assert with_features(protocol, features) == result
    assert supported_features(protocol) <= supported_features(result)


@pytest.mark.parametrize(
    ("protocol", "features"),
    [
        (Protocol(1, 2), []),
        (Protocol(1, 4), ["checkConstraints"]),
        (Protocol(2, 5), ["columnMapping"]),
        (Protocol(1, 7, None, ("inCommitTimestamps",)), ["inCommitTimestamp"]),
        (Protocol(2, 7, None, ("columnMapping",)), ["columnMapping"]),
    ],
)
def test_a_protocol_that_supports_it_all_is_left_as_it_is(protocol: Protocol, features: list[str]) -> None:
    assert with_features(protocol, features) is protocol


@given(st.sampled_from(LEGACY), st.sets(st.sampled_from(WRITABLE)), st.sets(st.sampled_from(WRITABLE)))
def test_features_can_be_added_in_any_order_of_steps(start: Protocol, one: set[str], other: set[str]) -> None:
    stepwise = with_features(with_features(start, one), other)
    at_once = with_features(start, one | other)
    assert supported_features(stepwise) == supported_features(at_once)
    validate_writable(stepwise, "t")
    assert with_features(stepwise, one | other) is stepwise


@pytest.mark.parametrize(
    ("protocol", "versions", "result"),
    [
        (Protocol(1, 2), (1, 4), Protocol(1, 4)),
        (Protocol(1, 2), (2, 5), Protocol(2, 5)),
        (Protocol(1, 4), (2, 1), Protocol(2, 4)),
        (Protocol(1, 2), (1, 7), Protocol(1, 7, None, ("appendOnly", "invariants"))),
        (Protocol(1, 1), (3, 7), Protocol(3, 7, (), ())),
        (Protocol(1, 2), (3, 7), Protocol(3, 7, (), ("appendOnly", "invariants"))),
        (
            Protocol(1, 4),
            (1, 7),
            Protocol(
                1, 7, None, ("appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed")
            ),
        ),
        (
            Protocol(2, 5),
            (3, 7),
            Protocol(
                3,
                7,
                ("columnMapping",),
                (
                    "appendOnly",
                    "invariants",
                    "checkConstraints",
                    "generatedColumns",
                    "changeDataFeed",
                    "columnMapping",
                ),
            ),
        ),
        (Protocol(1, 7, None, ("aFutureOne",)), (3, 7), Protocol(3, 7, (), ("aFutureOne",))),
        (Protocol(2, 7, None, ("columnMapping",)), (3, 7), Protocol(3, 7, ("columnMapping",), ("columnMapping",))),
    ],
)
def test_raised_versions_list_what_the_earlier_ones_implied(
    protocol: Protocol, versions: tuple[int, int], result: Protocol
) -> None:
    assert with_versions(protocol, *versions) == result


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        (Protocol(1, 4), (1, 2)),
        (Protocol(2, 5), (1, 1)),
        (Protocol(3, 7, (), ()), (1, 2)),
        (Protocol(1, 2), (1, 2)),
    ],
)
def test_versions_are_never_lowered(protocol: Protocol, versions: tuple[int, int]) -> None:
    assert with_versions(protocol, *versions) is protocol


@pytest.mark.parametrize(
    ("protocol", "name", "result"),
    [
        (Protocol(1, 3), "checkConstraints", Protocol(1, 2)),
        (
            Protocol(1, 4),
            "checkConstraints",
            Protocol(1, 7, None, ("appendOnly", "invariants", "generatedColumns", "changeDataFeed")),
        ),
        (Protocol(2, 5), "columnMapping", Protocol(1, 4)),
        (
            Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "invariants", "appendOnly")),
            "deletionVectors",
            Protocol(1, 2),
        ),
        (
            Protocol(3, 7, ("deletionVectors", "timestampNtz"), ("timestampNtz", "deletionVectors")),
            "deletionVectors",
            Protocol(3, 7, ("timestampNtz",), ("timestampNtz",)),
        ),
        (
            Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint", "rowTracking", "domainMetadata")),
            "v2Checkpoint",
            Protocol(1, 7, None, ("rowTracking", "domainMetadata")),
        ),
        (
            Protocol(3, 7, (), ("vacuumProtocolCheck", "aFutureOne")),
            "vacuumProtocolCheck",
            Protocol(1, 7, None, ("aFutureOne",)),
        ),
        (
            Protocol(1, 7, None, ("inCommitTimestamps", "clustering", "domainMetadata")),
            "inCommitTimestamp",
            Protocol(1, 7, None, ("clustering", "domainMetadata")),
        ),
        (Protocol(1, 7, None, ("domainMetadata",)), "domainMetadata", Protocol(1, 1)),
    ],
)
def test_a_dropped_feature_leaves_the_weakest_protocol_for_the_rest(
    protocol: Protocol, name: str, result: Protocol
) -> None:
    dropped = without_feature(protocol, name)
    assert dropped == result
    assert supported_features(dropped) == supported_features(protocol) - {name}


@pytest.mark.parametrize(
    ("protocol", "name", "message"),
    [
        (Protocol(1, 2), "checkConstraints", "feature checkConstraints cannot be dropped: .*supports appendOnly, inv"),
        (Protocol(1, 2), "noSuch", "the feature noSuch cannot be dropped: the table does not support it"),
        (
            Protocol(1, 7, None, ("domainMetadata", "rowTracking", "clustering")),
            "domainMetadata",
            "domainMetadata is needed by rowTracking, clustering. Drop these first",
        ),
        (
            Protocol(3, 7, ("columnMapping",), ("columnMapping", "icebergCompatV2")),
            "columnMapping",
            "columnMapping is needed by icebergCompatV2",
        ),
    ],
)
def test_what_is_not_there_or_is_needed_cannot_be_dropped(protocol: Protocol, name: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        without_feature(protocol, name)


# What metadata asks for


@pytest.mark.parametrize(
    ("configuration", "features"),
    [
        ({}, set()),
        ({"delta.appendOnly": "false", "delta.columnMapping.mode": "none", "delta.checkpointPolicy": "classic"}, set()),
        ({"delta.appendOnly": "true"}, {"appendOnly"}),
        ({"DELTA.ENABLECHANGEDATAFEED": "TRUE"}, {"changeDataFeed"}),
        ({"delta.columnMapping.mode": "name"}, {"columnMapping"}),
        ({"delta.columnMapping.mode": "id"}, {"columnMapping"}),
        ({"delta.enableDeletionVectors": "true"}, {"deletionVectors"}),
        ({"delta.enableRowTracking": "true"}, {"rowTracking"}),
        ({"delta.enableInCommitTimestamps": "true"}, {"inCommitTimestamp"}),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
        ({"delta.enableIcebergCompatV1": "true"}, {"icebergCompatV1"}),
        ({"delta.enableIcebergCompatV2": "true"}, {"icebergCompatV2"}),
        ({"delta.constraints.positive": "a > 0"}, {"checkConstraints"}),
        ({"delta.managedCommit.commitOwner": "us"}, {"managedCommit"}),
    ],
)
def test_properties_turn_features_on(configuration: dict[str, str], features: set[str]) -> None:
    assert required_features(_table(configuration=configuration)) == features


@pytest.mark.parametrize(
    ("schema", "features"),
    [
        (PLAIN, set()),
        (_one(nullable=False), {"invariants"}),
        (_one(StructType((StructField("x", LONG, False),))), {"invariants"}),
        (_one(ArrayType(StructType((StructField("x", LONG, False),)))), {"invariants"}),
        (_one(metadata={"delta.invariants": "{}"}), {"invariants"}),
        (_one(metadata={"delta.generationExpression": "b + 1"}), {"generatedColumns"}),
        (_one(metadata={"delta.identity.start": 1}), {"identityColumns"}),
        (_one(TIMESTAMP_NTZ), {"timestampNtz"}),
        (_one(MapType(STRING, ArrayType(TIMESTAMP_NTZ))), {"timestampNtz"}),
        (_one(metadata={"CURRENT_DEFAULT": "1"}), set()),
    ],
)
def test_columns_turn_features_on(schema: StructType, features: set[str]) -> None:
    assert required_features(_table(schema)) == features


def test_a_flag_that_is_none_is_named() -> None:
    with pytest.raises(CorruptTable, match=r"delta\.appendOnly must be true or false"):
        required_features(_table(configuration={"delta.appendOnly": "maybe"}))


# What goes together

_NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}
_MAPPED = StructType((StructField("a", LONG, True, {FIELD_ID: 1, PHYSICAL_NAME: "col-1"}),))


@pytest.mark.parametrize(
    ("features", "schema", "configuration", "partitions", "message"),
    [
        (
            (),
            PLAIN,
            {"delta.enableDeletionVectors": "true"},
            (),
            "use deletionVectors, which its protocol does not sup",
        ),
        ((), _one(TIMESTAMP_NTZ), {}, (), "use timestampNtz, which"),
        (
            (),
            _one(metadata={"CURRENT_DEFAULT": "1"}),
            {},
            (),
            "column a has a default value, .*delta.feature.allowColumnDefau",
        ),
        (("rowTracking",), PLAIN, {}, (), "rowTracking needs domainMetadata"),
        (("clustering", "domainMetadata"), PLAIN, {}, ("a",), r"clustered and partitioned \(by a\)"),
        (("managedCommit", "inCommitTimestamp"), PLAIN, {}, (), "needs delta.enableInCommitTimestamps to be true"),
        (
            ("rowTracking", "domainMetadata"),
            PLAIN,
            {"delta.enableRowTracking": "true"},
            (),
            "lacks delta.rowTracking.mat",
        ),
        (
            ("rowTracking", "domainMetadata"),
            PLAIN,
            {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true", **_NAMES},
            (),
            "are both true",
        ),
        (
            ("icebergCompatV1", "columnMapping"),
            PLAIN,
            {"delta.enableIcebergCompatV1": "true"},
            (),
            "mode to be name or id",
        ),
        (
            ("identityColumns",),
            _one(metadata={"delta.identity.start": 1, "delta.identity.step": 1}),
            {},
            ("a",),
            "identity column a: a table cannot be partitioned by it",
        ),
        (
            ("identityColumns", "generatedColumns"),
            _one(metadata={"delta.identity.start": 1, "delta.identity.step": 1, "delta.generationExpression": "1"}),
            {},
            (),
            "column a cannot have a generation expression and an identity at the same time",
        ),
        (
            ("allowColumnDefaults", "generatedColumns"),
            _one(metadata={"CURRENT_DEFAULT": "1", "delta.generationExpression": "1"}),
            {},
            (),
            "column a cannot have a generation expression and a default value at the same time",
        ),
        ((), _one(metadata={"delta.invariants": "nonsense"}), {}, (), "column a: delta.invariants must be"),
    ],
)
def test_what_does_not_go_together_is_refused(
    features: tuple[str, ...],
    schema: StructType,
    configuration: dict[str, str],
    partitions: tuple[str, ...],
    message: str,
) -> None:
    mapped = ("columnMapping",) if "columnMapping" in features else ()
    protocol = Protocol(3 if mapped else 1, 7, mapped or None, ("invariants", *features))
    with pytest.raises(InvalidArgument, match=message):
        validate_feature_combination(_table(schema, configuration, partitions, protocol))


@pytest.mark.parametrize(
    ("features", "schema", "configuration", "partitions"),
    [
        ((), PLAIN, {}, ("a",)),
        (("allowColumnDefaults",), _one(metadata={"CURRENT_DEFAULT": "1"}), {}, ()),
        (("clustering",), PLAIN, {}, ()),
        (("rowTracking",), PLAIN, {"delta.enableRowTracking": "true", **_NAMES}, ()),
        (("rowTracking",), PLAIN, {"delta.rowTrackingSuspended": "true"}, ()),
        (
            ("icebergCompatV1",),
            _MAPPED,
            {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
            (),
        ),
        (("identityColumns",), _one(metadata={"delta.identity.start": 1, "delta.identity.step": -1}), {}, ()),
        ((), _one(BINARY, False), {"delta.constraints.c": "a is not null"}, ()),
    ],
)
def test_what_goes_together_passes(
    features: tuple[str, ...], schema: StructType, configuration: dict[str, str], partitions: tuple[str, ...]
) -> None:
    table = _table(schema, configuration, partitions)
    table = table.changed(protocol_for([*features, *required_features(table)]))
    validate_feature_combination(table)
    assert required_features(table) <= table.supported_features


def test_a_table_gains_what_its_metadata_asks_for_and_what_is_named() -> None:
    table = _table(_one(TIMESTAMP_NTZ), {"delta.enableRowTracking": "true"}, protocol=Protocol(1, 7, None, ()))
    made = with_required_features(table, ["clustering"])
    assert made.metadata is table.metadata
    assert made.supported_features == {"timestampNtz", "rowTracking", "domainMetadata", "clustering"}
    assert with_required_features(made) is made
