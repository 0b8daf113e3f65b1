"""Table features, and the gate that every reader passes before it trusts anything else.

Source: delta-protocol.md "Table Features", "Reader Version Requirements", "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.protocol.actions import Protocol

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7
FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7


@dataclass(frozen=True, slots=True)
class TableFeature:
    """A named capability. `legacy_reader`/`legacy_writer`: the versions below 3/7 that imply it, where there are any.

    `readable`: this package reads tables that list it. `aliases`: other spellings that mean the same.
    """

    name: str
    reader: bool = False
    legacy_reader: int | None = None
    legacy_writer: int | None = None
    readable: bool = True
    aliases: tuple[str, ...] = ()


FEATURES = (
    TableFeature("appendOnly", legacy_writer=2),
    TableFeature("invariants", legacy_writer=2),
    TableFeature("checkConstraints", legacy_writer=3),
    TableFeature("generatedColumns", legacy_writer=4),
    TableFeature("allowColumnDefaults"),
    TableFeature("changeDataFeed", legacy_writer=4),
    TableFeature("columnMapping", reader=True, legacy_reader=2, legacy_writer=5),
    TableFeature("identityColumns", legacy_writer=6),
    TableFeature("deletionVectors", reader=True),
    TableFeature("rowTracking"),
    TableFeature("timestampNtz", reader=True),
    TableFeature("domainMetadata"),
    TableFeature("v2Checkpoint", reader=True),
    TableFeature("icebergCompatV1"),
    TableFeature("icebergCompatV2"),
    TableFeature("clustering"),
    TableFeature("vacuumProtocolCheck", reader=True),
    # The documents spell it in two ways; other engines know the one without "s".
    TableFeature("inCommitTimestamp", aliases=("inCommitTimestamps", "inCommitTimestamp-preview")),
    TableFeature("managedCommit", aliases=("managedCommits", "managedCommit-preview")),
    # Outside the four documents: files of an earlier, narrower type are read as the wider type of the schema.
    TableFeature("typeWidening", reader=True, aliases=("typeWidening-preview",)),
)

_BY_NAME = {name: feature for feature in FEATURES for name in (feature.name, *feature.aliases)}


def canonical_feature(name: str) -> str:
    """The one spelling of a feature's name; a name that is not known is its own."""
    feature = _BY_NAME.get(name)
    return feature.name if feature else name


def supported_features(protocol: Protocol) -> frozenset[str]:
    """The features that a table with `protocol` supports: listed ones, and those its legacy versions imply."""
    names = {canonical_feature(n) for n in (*(protocol.reader_features or ()), *(protocol.writer_features or ()))}
    for feature in FEATURES:
        by_writer = feature.legacy_writer is not None and (
            feature.legacy_writer <= protocol.min_writer_version < FEATURES_WRITER_VERSION
        )
        by_reader = feature.legacy_reader is not None and (
            feature.legacy_reader <= protocol.min_reader_version < FEATURES_READER_VERSION
        )
        if by_reader or by_writer:
            names.add(feature.name)
    return frozenset(names)


def validate_readable(protocol: Protocol, where: str) -> None:
    """Let pass a table that this package can read; else raise, before anything else of the table is trusted.

    Raises UnsupportedFeature naming the reader version or every feature that is missing here, and CorruptLog where
    the protocol contradicts itself. `where` is the table, for the message.
    Source: "Reader Version Requirements", "Table Features".
    """
    version = protocol.min_reader_version
    if version > MAX_READER_VERSION:
        raise UnsupportedFeature(
            f"{where}: needs reader version {version}, this version of Slackwater reads up to {MAX_READER_VERSION} "
            f"(reader features: {', '.join(protocol.reader_features or ()) or 'none'}); upgrade Slackwater"
        )
    if version < FEATURES_READER_VERSION:
        return
    if protocol.min_writer_version < FEATURES_WRITER_VERSION:
        raise CorruptLog(
            f"{where}: reader version 3 needs writer version 7, found writer version {protocol.min_writer_version}"
        )
    if protocol.reader_features is None:
        raise CorruptLog(f"{where}: reader version 3 needs a list of readerFeatures in its protocol, found none")
    unknown = sorted(name for name in protocol.reader_features if not (_BY_NAME.get(name) and _BY_NAME[name].readable))
    if unknown:
        raise UnsupportedFeature(
            f"{where}: the table needs reader feature{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}, which "
            "this version of Slackwater does not read; upgrade Slackwater, or drop the feature with the engine that "
            "added it"
        )
