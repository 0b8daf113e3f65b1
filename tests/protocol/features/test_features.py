from __future__ import annotations

import pytest

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.table_features import (
    FEATURES,
    TableFeature,
    canonical_feature,
    known_feature,
    supported_features,
    validate_readable,
    validate_writable,
)


@pytest.mark.parametrize(
    ("reader", "writer", "features"),
    [
        (1, 1, set()),
        (1, 2, {"appendOnly", "invariants"}),
        (1, 3, {"appendOnly", "invariants", "checkConstraints"}),
        (1, 4, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (2, 5, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}),
        (
            2,
            6,
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
                "identityColumns",
            },
        ),
    ],
)
def test_legacy_versions_imply_their_features(reader: int, writer: int, features: set[str]) -> None:
    assert supported_features(Protocol(reader, writer)) == features


def test_with_writer_version_7_only_what_is_listed_is_supported() -> None:
    assert supported_features(Protocol(1, 7, None, ())) == frozenset()
    assert supported_features(Protocol(1, 7, None, ("appendOnly", "future"))) == {"appendOnly", "future"}
    assert supported_features(Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))) == {"deletionVectors"}


@pytest.mark.parametrize(("reader", "writer"), [(2, 2), (2, 4), (2, 5), (2, 7)])
def test_reader_version_2_implies_column_mapping_whatever_the_writer_version(reader: int, writer: int) -> None:
    assert "columnMapping" in supported_features(Protocol(reader, writer, None, () if writer == 7 else None))


@pytest.mark.parametrize("writer", [5, 6])
def test_column_mapping_is_not_there_where_readers_need_not_honour_it(writer: int) -> None:
    assert "columnMapping" not in supported_features(Protocol(1, writer))


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("inCommitTimestamp", "inCommitTimestamp"),
        ("inCommitTimestamps", "inCommitTimestamp"),
        ("inCommitTimestamp-preview", "inCommitTimestamp"),
        ("managedCommits", "managedCommit"),
        ("managedCommit-preview", "managedCommit"),
        ("typeWidening-preview", "typeWidening"),
        ("aFutureFeature", "aFutureFeature"),
    ],
)
def test_spellings_of_one_feature_have_one_name(spelling: str, name: str) -> None:
    assert canonical_feature(spelling) == name
    assert supported_features(Protocol(1, 7, None, (spelling,))) == {name}


def _stopped(protocol: Protocol) -> str | None:
    """What the gate for readers says; None where it lets the protocol pass."""
    try:
        validate_readable(protocol, "memory://t")
    except UnsupportedFeature as error:
        return str(error)
    return None


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.readable], ids=lambda f: f.name)
def test_every_readable_feature_passes_the_gate_by_each_of_its_names(feature: TableFeature) -> None:
    names = (feature.name, *feature.aliases)
    assert {name: _stopped(Protocol(3, 7, (name,), (name,))) for name in names} == dict.fromkeys(names)


@pytest.mark.parametrize(
    "protocol", [Protocol(1, 7, None, ("aFutureFeature",)), Protocol(3, 7, (), ("aFutureFeature",))]
)
def test_writer_features_do_not_concern_a_reader(protocol: Protocol) -> None:
    assert _stopped(protocol) is None


@pytest.mark.parametrize(
    ("protocol", "error", "message"),
    [
        (Protocol(4, 7, ("x",), ()), UnsupportedFeature, r"reader version 4.*\(reader features: x\)"),
        (Protocol(99, 99), UnsupportedFeature, r"reader version 99.*\(reader features: none\)"),
        (Protocol(3, 7, ("b", "a", "deletionVectors"), ()), UnsupportedFeature, "reader features a, b, which"),
        (Protocol(3, 7, ("a",), ()), UnsupportedFeature, "reader feature a, which"),
        (Protocol(3, 6, (), ()), CorruptLog, "needs writer version 7, found writer version 6"),
        (Protocol(3, 7, None, ()), CorruptLog, "needs a list of readerFeatures"),
    ],
)
def test_the_gate_says_what_it_stopped(protocol: Protocol, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        validate_readable(protocol, "memory://t")
    assert str(caught.value).startswith("memory://t: ")


def test_names_and_aliases_are_all_different() -> None:
    names = [name for feature in FEATURES for name in (feature.name, *feature.aliases)]
    assert len(names) == len(set(names))


def test_what_a_feature_requires_is_known_and_requires_nothing_unknown() -> None:
    assert {name for feature in FEATURES for name in feature.requires} <= {feature.name for feature in FEATURES}


def _listing(name: str) -> Protocol:
    """A protocol that supports the feature called `name` and what it requires, listed where it must be."""
    names = [name]
    for each in names:
        feature = known_feature(each)
        assert feature is not None
        names += [other for other in feature.requires if other not in names]
    readers = tuple(n for n in names if (known := known_feature(n)) and known.reader)
    return Protocol(3 if readers else 1, 7, readers or None, tuple(names))


def _refused(protocol: Protocol) -> str | None:
    try:
        validate_writable(protocol, "memory://t")
    except (UnsupportedFeature, CorruptLog) as error:
        return str(error)
    return None


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_every_writable_feature_passes_the_writers_gate_by_each_of_its_names(feature: TableFeature) -> None:
    names = {feature.name, *feature.aliases} - set(feature.read_only_aliases)
    assert {name: _refused(_listing(name)) for name in names} == dict.fromkeys(names)


@pytest.mark.parametrize(
    "protocol",
    [*(Protocol(1, writer) for writer in range(1, 7)), *(Protocol(2, writer) for writer in range(2, 7))],
    ids=str,
)
def test_every_legacy_version_is_writable(protocol: Protocol) -> None:
    assert _refused(protocol) is None


def test_a_reader_version_2_table_may_list_column_mapping_for_writers_alone() -> None:
    assert _refused(Protocol(2, 7, None, ("columnMapping", "icebergCompatV2"))) is None


@pytest.mark.parametrize(
    ("protocol", "error", "message"),
    [
        (Protocol(1, 8), UnsupportedFeature, r"needs writer version 8.*up to 7 \(writer features: none\)"),
        (Protocol(4, 8, ("x",), ("x",)), UnsupportedFeature, "needs reader version 4"),
        (Protocol(1, 7, None, ("b", "appendOnly", "a")), UnsupportedFeature, "writer features b, a, which"),
        (Protocol(3, 7, ("a",), ("a",)), UnsupportedFeature, "reader feature a, which"),
        (
            Protocol(1, 7, None, ("managedCommit-preview", "inCommitTimestamp")),
            UnsupportedFeature,
            "writer feature managedCommit-preview, which",
        ),
        (
            Protocol(1, 7, None, ("inCommitTimestamp-preview",)),
            UnsupportedFeature,
            "writer feature inCommitTimestamp-preview, which",
        ),
        (Protocol(1, 7), CorruptLog, "needs a list of writerFeatures"),
        (Protocol(3, 6, (), ()), CorruptLog, "needs writer version 7, found writer version 6"),
        (
            Protocol(1, 4, None, ("appendOnly",)),
            CorruptLog,
            "writerFeatures is only allowed .* version 7, found version 4",
        ),
        (
            Protocol(2, 7, ("columnMapping",), ("columnMapping",)),
            CorruptLog,
            "readerFeatures is only allowed .* found version 2",
        ),
        (Protocol(3, 7, ("deletionVectors",), ()), CorruptLog, "readerFeatures lists deletionVectors, which writerF"),
        (Protocol(1, 7, None, ("deletionVectors",)), CorruptLog, "writerFeatures lists deletionVectors, which readerF"),
        (Protocol(3, 7, (), ("columnMapping",)), CorruptLog, "writerFeatures lists columnMapping, which readerF"),
        (Protocol(1, 7, None, ("rowTracking",)), CorruptLog, "feature rowTracking needs domainMetadata"),
        (Protocol(1, 7, None, ("clustering",)), CorruptLog, "feature clustering needs domainMetadata"),
        (Protocol(1, 7, None, ("icebergCompatV1",)), CorruptLog, "feature icebergCompatV1 needs columnMapping"),
    ],
)
def test_the_writers_gate_says_what_it_stopped(protocol: Protocol, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        validate_writable(protocol, "memory://t")
    assert str(caught.value).startswith("memory://t: ")
