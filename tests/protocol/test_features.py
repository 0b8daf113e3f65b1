from __future__ import annotations

import pytest

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.protocol.actions import Protocol
from slackwater.protocol.features import FEATURES, canonical_feature, supported_features, validate_readable


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


def test_reader_version_2_still_implies_column_mapping_under_writer_version_7() -> None:
    assert "columnMapping" in supported_features(Protocol(2, 7, None, ("columnMapping",)))


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("inCommitTimestamp", "inCommitTimestamp"),
        ("inCommitTimestamps", "inCommitTimestamp"),
        ("inCommitTimestamp-preview", "inCommitTimestamp"),
        ("managedCommits", "managedCommit"),
        ("typeWidening-preview", "typeWidening"),
        ("aFutureFeature", "aFutureFeature"),
    ],
)
def test_spellings_of_one_feature_have_one_name(spelling: str, name: str) -> None:
    assert canonical_feature(spelling) == name
    assert supported_features(Protocol(1, 7, None, (spelling,))) == {name}


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.readable], ids=lambda f: f.name)
def test_every_readable_feature_passes_the_gate_by_each_of_its_names(feature: object) -> None:
    for name in (feature.name, *feature.aliases):  # type: ignore[attr-defined]
        validate_readable(Protocol(3, 7, (name,), (name,)), "memory://t")


def test_writer_features_do_not_concern_a_reader() -> None:
    validate_readable(Protocol(1, 7, None, ("aFutureFeature",)), "memory://t")
    validate_readable(Protocol(3, 7, (), ("aFutureFeature",)), "memory://t")


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
