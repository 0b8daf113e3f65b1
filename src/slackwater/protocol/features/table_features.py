"""Table features, and the checks passed by every reader and writer before any other access.

Source: delta-protocol.md "Table Features", "Reader Version Requirements", "Writer Version Requirements", "Valid Feature
Names in Table Features".
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import CorruptLog, UnsupportedFeature
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.properties.properties import (
    APPEND_ONLY,
    CHECKPOINT_POLICY,
    COLUMN_MAPPING_MODE,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
    ENABLE_ICEBERG_COMPAT_V1,
    ENABLE_ICEBERG_COMPAT_V2,
    ENABLE_ICEBERG_COMPAT_V3,
    ENABLE_ICEBERG_WRITER_COMPAT_V1,
    ENABLE_ICEBERG_WRITER_COMPAT_V3,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_MATERIALIZE_PARTITION_COLUMNS,
    ENABLE_ROW_TRACKING,
    ENABLE_TYPE_WIDENING,
    ENABLE_VARIANT_SHREDDING,
    MANAGED_COMMIT_OWNER,
    TableProperties,
)
from slackwater.protocol.unsupported.reasons import explained

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7
FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7
MULTI_TABLE = "multiTableTransaction"
"""The feature of tables whose multi-table transactions are in their logs."""


@dataclass(frozen=True, slots=True)
class TableFeature:
    """A table feature. `legacy_reader` and `legacy_writer` are the versions below 3 and 7 that imply it, if any.

    `aliases` are other spellings of the name. `read_only_aliases` belong to an earlier form of the feature: this
    package reads it, but does not write it. `readable` is true if this package reads tables with the feature.
    `requires` has the features that a table must also support. `brings` has the features that are added with it, but
    that tables of other writers may lack. `enabled_by` is the table property that enables the feature with one of
    `enabled_values`; empty `enabled_values` mean any value. `written_as` is the name of a feature of a proposal in
    protocols that this package writes, until the proposal is accepted. With `by_owner`, only a commit owner adds the
    feature.
    """

    name: str
    reader: bool = False
    legacy_reader: int | None = None
    legacy_writer: int | None = None
    readable: bool = True
    aliases: tuple[str, ...] = ()
    read_only_aliases: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()
    enabled_by: str | None = None
    enabled_values: tuple[str, ...] = ("true",)
    written_as: str | None = None
    by_owner: bool = False

    def is_enabled_by(self, properties: TableProperties) -> bool:
        """Return whether the table's properties enable the feature. Raises CorruptTable for an invalid flag."""
        if self.enabled_by is None:
            return False
        if self.enabled_values == ("true",):
            return properties.flag(self.enabled_by)
        value = properties.get(self.enabled_by)
        return value is not None and (not self.enabled_values or value.lower() in self.enabled_values)


FEATURES = (
    TableFeature("appendOnly", legacy_writer=2, enabled_by=APPEND_ONLY),
    TableFeature("invariants", legacy_writer=2),
    TableFeature("checkConstraints", legacy_writer=3),
    TableFeature("generatedColumns", legacy_writer=4),
    TableFeature("allowColumnDefaults"),
    TableFeature("changeDataFeed", legacy_writer=4, enabled_by=ENABLE_CHANGE_DATA_FEED),
    TableFeature(
        "columnMapping",
        reader=True,
        legacy_reader=2,
        legacy_writer=5,
        enabled_by=COLUMN_MAPPING_MODE,
        enabled_values=("name", "id"),
    ),
    TableFeature("columnMappingUsageTracking"),
    TableFeature("identityColumns", legacy_writer=6),
    TableFeature("deletionVectors", reader=True, enabled_by=ENABLE_DELETION_VECTORS),
    TableFeature("rowTracking", requires=("domainMetadata",), enabled_by=ENABLE_ROW_TRACKING),
    TableFeature("timestampNtz", reader=True),
    TableFeature("variantType", reader=True, aliases=("variantType-preview",)),
    TableFeature(
        "variantShredding",
        reader=True,
        aliases=("variantShredding-preview",),
        requires=("variantType",),
        enabled_by=ENABLE_VARIANT_SHREDDING,
    ),
    TableFeature("geospatial", reader=True),
    TableFeature("domainMetadata"),
    TableFeature("v2Checkpoint", reader=True, enabled_by=CHECKPOINT_POLICY, enabled_values=("v2",)),
    TableFeature("icebergCompatV1", requires=("columnMapping",), enabled_by=ENABLE_ICEBERG_COMPAT_V1),
    TableFeature("icebergCompatV2", requires=("columnMapping",), enabled_by=ENABLE_ICEBERG_COMPAT_V2),
    TableFeature("icebergCompatV3", requires=("columnMapping", "rowTracking"), enabled_by=ENABLE_ICEBERG_COMPAT_V3),
    TableFeature("icebergWriterCompatV1", requires=("icebergCompatV2",), enabled_by=ENABLE_ICEBERG_WRITER_COMPAT_V1),
    TableFeature("icebergWriterCompatV3", requires=("icebergCompatV3",), enabled_by=ENABLE_ICEBERG_WRITER_COMPAT_V3),
    TableFeature("clustering", requires=("domainMetadata",)),
    # The RFC asks for domainMetadata, but the Delta Kernel adds the feature without it.
    TableFeature("collations", aliases=("collations-preview",), brings=("domainMetadata",)),
    TableFeature("vacuumProtocolCheck", reader=True),
    TableFeature("checkpointProtection"),
    TableFeature("materializePartitionColumns", enabled_by=ENABLE_MATERIALIZE_PARTITION_COLUMNS),
    # The documents use two spellings; other engines know the one without "s". The preview had a property of another
    # name, so a writer that treats the preview as this feature would omit the timestamps.
    TableFeature(
        "inCommitTimestamp",
        aliases=("inCommitTimestamps", "inCommitTimestamp-preview"),
        read_only_aliases=("inCommitTimestamp-preview",),
        enabled_by=ENABLE_IN_COMMIT_TIMESTAMPS,
    ),
    TableFeature(
        "managedCommit",
        aliases=("managedCommits", "managedCommit-preview"),
        read_only_aliases=("managedCommit-preview",),
        requires=("inCommitTimestamp",),
        enabled_by=MANAGED_COMMIT_OWNER,
        enabled_values=(),
        by_owner=True,
    ),
    # The successor of managedCommit. Readers ask the catalog too.
    TableFeature(
        "catalogManaged",
        reader=True,
        aliases=("catalogOwned", "catalogOwned-preview"),
        read_only_aliases=("catalogOwned", "catalogOwned-preview"),
        requires=("inCommitTimestamp",),
        by_owner=True,
    ),
    # A proposal, whose text demands the suffix during the experimental phase.
    TableFeature(
        MULTI_TABLE,
        aliases=(f"{MULTI_TABLE}-dev",),
        requires=("catalogManaged",),
        written_as=f"{MULTI_TABLE}-dev",
    ),
    # Not in the four documents: files of an earlier, narrower type are read as the wider type of the schema. Written
    # files have the schema's types.
    TableFeature("typeWidening", reader=True, aliases=("typeWidening-preview",), enabled_by=ENABLE_TYPE_WIDENING),
)

_BY_NAME = {name: feature for feature in FEATURES for name in (feature.name, *feature.aliases)}


def canonical_feature(name: str) -> str:
    """Return the canonical spelling of a feature's name. Returns an unknown name unchanged."""
    feature = _BY_NAME.get(name)
    return feature.name if feature else name


def known_feature(name: str) -> TableFeature | None:
    """Return the feature with the name or alias `name`, None if unknown to this package."""
    return _BY_NAME.get(name)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Return the features supported by a table with `protocol`: listed, or implied by its legacy versions.

    A reader feature is implied only by the reader version. If readers need not honour it, it is not supported.
    """
    names = {canonical_feature(n) for n in (*(protocol.reader_features or ()), *(protocol.writer_features or ()))}
    return frozenset(names | {feature.name for feature in FEATURES if _is_implied(feature, protocol)})


def validate_readable(protocol: Protocol, where: str) -> None:
    """Validate that this package can read the table, before any other part of the table is trusted.

    Raises UnsupportedFeature, naming the reader version or all missing features, CorruptLog if the protocol contradicts
    itself. `where` is the table, for the message.
    Source: "Reader Version Requirements", "Table Features".
    """
    version = protocol.min_reader_version
    if version > MAX_READER_VERSION:
        raise UnsupportedFeature(
            f"{where}: needs reader version {version}. This version of Slackwater reads up to {MAX_READER_VERSION} "
            f"(reader features: {', '.join(protocol.reader_features or ()) or 'none'}). Upgrade Slackwater",
            error_class="DELTA_INVALID_PROTOCOL_VERSION",
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
            f"this version of Slackwater does not read.{explained(unknown)} Upgrade Slackwater, or drop the feature "
            "with the engine that added it",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_READ",
        )


def validate_writable(protocol: Protocol, where: str) -> None:
    """Validate that this package can write to the table, before any write.

    Raises UnsupportedFeature, naming the version or all missing features, CorruptLog if the protocol contradicts
    itself. `where` is the table, for the message.
    Source: "Writer Version Requirements", "Table Features", "Supported Features".
    """
    validate_readable(protocol, where)
    _validate_writer_version(protocol, where)
    _validate_lists(protocol, where)
    validate_known_to_writers(protocol, where)
    _validate_requirements(protocol, where)


def validate_known_to_writers(protocol: Protocol, where: str) -> None:
    """Validate that this package writes the writer version and every listed feature, also of a malformed protocol.

    Raises UnsupportedFeature, naming the version or all missing features. `where` is the table, for the message.
    """
    _validate_writer_version(protocol, where)
    names = protocol.writer_features or () if protocol.min_writer_version == FEATURES_WRITER_VERSION else ()
    refused = [name for name in names if not _is_writable(name)]
    if refused:
        raise UnsupportedFeature(
            f"{where}: the table needs writer feature{'s' if len(refused) > 1 else ''} {', '.join(refused)}, which "
            f"this version of Slackwater does not write.{explained(refused)} Upgrade Slackwater, or drop the feature "
            "with the engine that added it",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        )


def _validate_writer_version(protocol: Protocol, where: str) -> None:
    version = protocol.min_writer_version
    if version > MAX_WRITER_VERSION:
        raise UnsupportedFeature(
            f"{where}: needs writer version {version}. This version of Slackwater writes up to {MAX_WRITER_VERSION} "
            f"(writer features: {', '.join(protocol.writer_features or ()) or 'none'}). Upgrade Slackwater",
            error_class="DELTA_INVALID_PROTOCOL_VERSION",
        )


def _is_implied(feature: TableFeature, protocol: Protocol) -> bool:
    if feature.legacy_reader is not None:
        return feature.legacy_reader <= protocol.min_reader_version < FEATURES_READER_VERSION
    return feature.legacy_writer is not None and (
        feature.legacy_writer <= protocol.min_writer_version < FEATURES_WRITER_VERSION
    )


def _validate_lists(protocol: Protocol, where: str) -> None:
    """Validate that both feature lists match the versions and agree on reader features.

    A list must be present exactly if its version requires one.
    """
    if protocol.min_writer_version == FEATURES_WRITER_VERSION and protocol.writer_features is None:
        raise CorruptLog(f"{where}: writer version 7 needs a list of writerFeatures in its protocol, found none")
    for key, names, version, needed in (
        ("writerFeatures", protocol.writer_features, protocol.min_writer_version, FEATURES_WRITER_VERSION),
        ("readerFeatures", protocol.reader_features, protocol.min_reader_version, FEATURES_READER_VERSION),
    ):
        if names and version < needed:
            raise CorruptLog(
                f"{where}: {key} is only allowed in a protocol of version {needed}, found version {version}"
            )
    for_writers = {canonical_feature(name) for name in protocol.writer_features or ()}
    for_readers = {canonical_feature(name) for name in protocol.reader_features or ()}
    if lonely := sorted(for_readers - for_writers):
        raise CorruptLog(f"{where}: readerFeatures lists {', '.join(lonely)}, which writerFeatures must list too")
    hidden = sorted(
        name
        for name in for_writers - for_readers
        if (feature := _BY_NAME.get(name)) and feature.reader and not _is_implied(feature, protocol)
    )
    if hidden:
        raise CorruptLog(f"{where}: writerFeatures lists {', '.join(hidden)}, which readerFeatures must list too")


def _is_writable(name: str) -> bool:
    feature = _BY_NAME.get(name)
    return feature is not None and name not in feature.read_only_aliases


def _validate_requirements(protocol: Protocol, where: str) -> None:
    supported = supported_features(protocol)
    for name in sorted(supported):
        missing = [other for other in _BY_NAME[name].requires if other not in supported]
        if missing:
            raise CorruptLog(
                f"{where}: the table feature {name} needs {', '.join(missing)}, which the table lacks",
                error_class="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH",
            )
