"""The registry of all known `delta.` properties of a table: key, kind, default and description.

Source: delta-protocol.md, the sections that name each key; managed-commits.md; delta-spark's table properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal as OneOf

APPEND_ONLY = "delta.appendOnly"
AUTO_COMPACT = "delta.autoOptimize.autoCompact"
AUTO_OPTIMIZE = "delta.autoOptimize"
CAST_ICEBERG_TIME_TYPE = "delta.castIcebergTimeType"
CATALOG_OWNER = "slackwater.commitOwner"
CATALOG_OWNER_CONF = "slackwater.commitOwnerConf"
CATALOG_TABLE_ID = "io.unitycatalog.tableId"
CHECKPOINT_INTERVAL = "delta.checkpointInterval"
CHECKPOINT_POLICY = "delta.checkpointPolicy"
CHECKPOINT_RETENTION = "delta.checkpointRetentionDuration"
CHECKPOINT_WRITE_STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
CHECKPOINT_WRITE_STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"
COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
COMPRESSION_CODEC = "delta.parquet.compression.codec"
COORDINATED_COMMITS_COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"
COORDINATED_COMMITS_COORDINATOR_CONF = "delta.coordinatedCommits.commitCoordinatorConf-preview"
COORDINATED_COMMITS_TABLE_CONF = "delta.coordinatedCommits.tableConf-preview"
DATA_SKIPPING_NUM_INDEXED_COLS = "delta.dataSkippingNumIndexedCols"
DATA_SKIPPING_STATS_COLUMNS = "delta.dataSkippingStatsColumns"
DATA_SKIPPING_STRING_PREFIX_LENGTH = "delta.dataSkippingStringPrefixLength"
DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
DROP_FEATURE_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"
ENABLE_CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
ENABLE_DELETION_VECTORS = "delta.enableDeletionVectors"
ENABLE_EXPIRED_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
ENABLE_FULL_RETENTION_ROLLBACK = "delta.enableFullRetentionRollback"
ENABLE_ICEBERG_COMPAT_V1 = "delta.enableIcebergCompatV1"
ENABLE_ICEBERG_COMPAT_V2 = "delta.enableIcebergCompatV2"
ENABLE_ICEBERG_COMPAT_V3 = "delta.enableIcebergCompatV3"
ENABLE_ICEBERG_WRITER_COMPAT_V1 = "delta.enableIcebergWriterCompatV1"
ENABLE_ICEBERG_WRITER_COMPAT_V3 = "delta.enableIcebergWriterCompatV3"
ENABLE_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
ENABLE_MATERIALIZE_PARTITION_COLUMNS = "delta.enableMaterializePartitionColumnsFeature"
ENABLE_ROW_TRACKING = "delta.enableRowTracking"
ENABLE_TYPE_WIDENING = "delta.enableTypeWidening"
ENABLE_VARIANT_SHREDDING = "delta.enableVariantShredding"
HAS_DROPPED_OR_RENAMED = "delta.columnMapping.hasDroppedOrRenamed"
ICEBERG_ATOMIC_CONVERSION = "delta.universalFormat.iceberg.atomicConversion.supported"
ICT_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
ICT_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
IGNORE_ICEBERG_BUCKET_PARTITION = "delta.ignoreIcebergBucketPartition"
IGNORE_PROTOCOL_DEFAULTS = "delta.ignoreProtocolDefaults"
ISOLATION_LEVEL = "delta.isolationLevel"
LAST_COMMIT_TIMESTAMP = "delta.lastCommitTimestamp"
LAST_UPDATE_VERSION = "delta.lastUpdateVersion"
LOG_RETENTION = "delta.logRetentionDuration"
MANAGED_COMMIT_OWNER = "delta.managedCommit.commitOwner"
MANAGED_COMMIT_OWNER_CONF = "delta.managedCommit.commitOwnerConf"
MATERIALIZED_ROW_COMMIT_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
MATERIALIZED_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
PARQUET_FORMAT_VERSION = "delta.parquet.format.version"
RANDOMIZE_FILE_PREFIXES = "delta.randomizeFilePrefixes"
RANDOM_PREFIX_LENGTH = "delta.randomPrefixLength"
REDIRECT_READER_WRITER = "delta.redirectReaderWriter-preview"
REDIRECT_WRITER_ONLY = "delta.redirectWriterOnly-preview"
REQUIRE_CHECKPOINT_PROTECTION = "delta.requireCheckpointProtectionBeforeVersion"
ROW_TRACKING_SUSPENDED = "delta.rowTrackingSuspended"
SAMPLE_RETENTION = "delta.sampleRetentionDuration"
SET_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
SYMLINK_MANIFEST = "delta.compatibility.symlinkFormatManifest.enabled"
UNIVERSAL_FORMATS = "delta.universalFormat.enabledFormats"
TARGET_FILE_SIZE = "delta.targetFileSize"
WRITE_PARTITION_COLUMNS = "delta.writePartitionColumnsToParquet"

FEATURE_PREFIX = "delta.feature."
"""`delta.feature.<name>` requests a table feature; it is not stored with the table."""
CONSTRAINT_PREFIX = "delta.constraints."
"""`delta.constraints.<name>` is a CHECK constraint; its value is the expression."""
MIN_READER_VERSION = "delta.minReaderVersion"
MIN_WRITER_VERSION = "delta.minWriterVersion"

Kind = OneOf["boolean", "integer", "interval", "choice", "text", "parquet version"]

_MOST_INT = 2**31 - 1
_MOST_LONG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TableProperty:
    """A table property. `default` is its text if not set, None if it then has no value.

    `choices` are the canonical spellings of a choice; `least` and `most` are the bounds of an integer. `settable` is
    false if only this package may set the property. `unsupported` is the reason if values other than the default are
    not supported. `aliases` are other keys of the same property.
    """

    name: str
    kind: Kind
    default: str | None
    doc: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = _MOST_INT
    settable: bool = True
    unsupported: str = ""
    aliases: tuple[str, ...] = ()


def find_property(key: str) -> TableProperty | None:
    """Return the property with the key or alias `key`, ignoring case; None if unknown."""
    return _BY_FOLDED_KEY.get(key.lower())


def _flag(
    name: str, doc: str, default: str | None = "false", unsupported: str = "", aliases: tuple[str, ...] = ()
) -> TableProperty:
    return TableProperty(name, "boolean", default, doc, unsupported=unsupported, aliases=aliases)


def _number(
    name: str,
    doc: str,
    default: str | None = None,
    least: int = 0,
    most: int = _MOST_INT,
    settable: bool = True,
) -> TableProperty:
    return TableProperty(name, "integer", default, doc, least=least, most=most, settable=settable)


def _interval(name: str, doc: str, default: str | None) -> TableProperty:
    return TableProperty(name, "interval", default, doc)


def _choice(name: str, doc: str, default: str | None, *choices: str) -> TableProperty:
    return TableProperty(name, "choice", default, doc, choices)


def _text(
    name: str, doc: str, settable: bool = True, unsupported: str = "", default: str | None = None
) -> TableProperty:
    return TableProperty(name, "text", default, doc, settable=settable, unsupported=unsupported)


_NO_UNIFORM = "metadata of other table formats is not written"
_NO_COORDINATOR = "coordinated commits are superseded by managed commits"
_NO_REDIRECT = "tables are not redirected"
_CODECS = ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd")

_ALL: Iterable[TableProperty] = (
    _flag(APPEND_ONLY, "Rows are only added: commits that remove or change some are refused."),
    _choice(
        AUTO_COMPACT,
        "Small files become one after commits that leave many.",
        None,
        *("true", "false", "auto", "legacy"),
    ),
    _flag(AUTO_OPTIMIZE, "The older name of the two wishes; kept, and without effect.", None),
    _flag(CAST_ICEBERG_TIME_TYPE, "Concerns conversions from Iceberg; kept, and without effect."),
    _number(CHECKPOINT_INTERVAL, "Commits from one checkpoint to the next.", "10", least=1),
    _choice(CHECKPOINT_POLICY, "The form of checkpoints.", "classic", "classic", "v2"),
    _interval(CHECKPOINT_RETENTION, "How long checkpoints are kept.", "interval 2 days"),
    _flag(CHECKPOINT_WRITE_STATS_AS_JSON, "Checkpoints hold statistics as JSON.", "true"),
    _flag(CHECKPOINT_WRITE_STATS_AS_STRUCT, "Checkpoints hold statistics, and partition values, as typed columns."),
    _choice(COLUMN_MAPPING_MODE, "How columns are found in files.", "none", "none", "name", "id"),
    _choice(COMPRESSION_CODEC, "The compression of data files.", None, *_CODECS),
    _text(COORDINATED_COMMITS_COORDINATOR, "The commit coordinator of a table.", unsupported=_NO_COORDINATOR),
    _text(COORDINATED_COMMITS_COORDINATOR_CONF, "Settings of the coordinator.", unsupported=_NO_COORDINATOR),
    _text(COORDINATED_COMMITS_TABLE_CONF, "The coordinator's settings of a table.", unsupported=_NO_COORDINATOR),
    _number(DATA_SKIPPING_NUM_INDEXED_COLS, "Leaf columns with statistics; -1 for all.", "32", least=-1),
    _text(DATA_SKIPPING_STATS_COLUMNS, "The columns with statistics, separated by commas; goes before their number."),
    _number(DATA_SKIPPING_STRING_PREFIX_LENGTH, "Characters of text kept in statistics; 32 where not set."),
    _interval(DELETED_FILE_RETENTION, "How long files that were removed are kept.", "interval 1 week"),
    _interval(DROP_FEATURE_RETENTION, "How long history is kept before a feature is dropped.", "interval 24 hours"),
    _flag(ENABLE_CHANGE_DATA_FEED, "Commits record the rows they change.", aliases=("delta.enableChangeDataCapture",)),
    _flag(ENABLE_DELETION_VECTORS, "Rows may be deleted by deletion vectors."),
    _flag(ENABLE_EXPIRED_LOG_CLEANUP, "Checkpoints are followed by a cleanup of the log.", "true"),
    _flag(ENABLE_FULL_RETENTION_ROLLBACK, "Every version within the log's retention can be restored.", "true"),
    _flag(ENABLE_ICEBERG_COMPAT_V1, "Files can be converted to Iceberg, version 1 of the rules.", None),
    _flag(ENABLE_ICEBERG_COMPAT_V2, "Files can be converted to Iceberg, version 2 of the rules.", None),
    _flag(ENABLE_ICEBERG_COMPAT_V3, "Files can be converted to Iceberg, version 3 of the rules.", None),
    _flag(ENABLE_ICEBERG_WRITER_COMPAT_V1, "Iceberg's writers can write the table; needs Iceberg compatibility 2."),
    _flag(ENABLE_ICEBERG_WRITER_COMPAT_V3, "As above; needs Iceberg compatibility 3."),
    _flag(ENABLE_IN_COMMIT_TIMESTAMPS, "Commits carry their own timestamps."),
    _flag(ENABLE_MATERIALIZE_PARTITION_COLUMNS, "Every new data file must hold the partition columns.", None),
    _flag(ENABLE_ROW_TRACKING, "Rows have stable ids."),
    _flag(ENABLE_TYPE_WIDENING, "Columns may be given wider types."),
    _flag(ENABLE_VARIANT_SHREDDING, "Variants are shredded: stored in columns where their paths have one type."),
    TableProperty(
        HAS_DROPPED_OR_RENAMED, "boolean", None, "Whether a column was ever dropped or renamed.", settable=False
    ),
    _flag(ICEBERG_ATOMIC_CONVERSION, "Iceberg metadata comes with the commit.", unsupported=_NO_UNIFORM),
    _number(ICT_ENABLEMENT_TIMESTAMP, "When in-commit timestamps began, ms.", most=_MOST_LONG, settable=False),
    _number(ICT_ENABLEMENT_VERSION, "The version with which they began.", most=_MOST_LONG, settable=False),
    _flag(IGNORE_ICEBERG_BUCKET_PARTITION, "Concerns conversions from Iceberg; kept, and without effect."),
    _flag(IGNORE_PROTOCOL_DEFAULTS, "A new table takes no protocol from the session's defaults."),
    _choice(
        ISOLATION_LEVEL,
        "How far transactions are protected from concurrent ones.",
        "WriteSerializable",
        "Serializable",
        "WriteSerializable",
        "SnapshotIsolation",
    ),
    _number(LAST_COMMIT_TIMESTAMP, "Kept by catalogs.", most=_MOST_LONG, settable=False),
    _number(LAST_UPDATE_VERSION, "Kept by catalogs.", most=_MOST_LONG, settable=False),
    _interval(LOG_RETENTION, "How long the history is kept.", "interval 30 days"),
    _text(CATALOG_TABLE_ID, "The id of the table in its catalog, for clients of Unity Catalog.", settable=False),
    _text(CATALOG_OWNER, "The name of the commit owner of a table with catalogManaged.", settable=False),
    _text(CATALOG_OWNER_CONF, "The settings of this commit owner, a JSON object of texts.", settable=False),
    _text(MANAGED_COMMIT_OWNER, "The name of the table's commit owner.", settable=False),
    _text(MANAGED_COMMIT_OWNER_CONF, "The commit owner's settings, a JSON object of texts.", settable=False),
    _text(MATERIALIZED_ROW_COMMIT_VERSION, "The column in files with the rows' commit versions.", settable=False),
    _text(MATERIALIZED_ROW_ID, "The column in files with the rows' ids.", settable=False),
    _number(MAX_COLUMN_ID, "The highest id given to a column.", "0", most=_MOST_LONG, settable=False),
    _flag(OPTIMIZE_WRITE, "Rows of a write are dealt anew, so that files are fewer and larger.", None),
    TableProperty(
        PARQUET_FORMAT_VERSION, "parquet version", None, "The version of Parquet for new data files: their data pages."
    ),
    _flag(RANDOMIZE_FILE_PREFIXES, "A wish for random directories; kept, and without effect."),
    _number(RANDOM_PREFIX_LENGTH, "The length of their names; kept, and without effect.", "2", least=1),
    _text(REDIRECT_READER_WRITER, "Where the table has moved to.", unsupported=_NO_REDIRECT),
    _text(REDIRECT_WRITER_ONLY, "Where writers find the table.", unsupported=_NO_REDIRECT),
    _number(
        REQUIRE_CHECKPOINT_PROTECTION,
        "Checkpoints before this version need protection.",
        "0",
        most=_MOST_LONG,
        settable=False,
    ),
    _flag(ROW_TRACKING_SUSPENDED, "No row ids are given out."),
    _interval(SAMPLE_RETENTION, "Of an older time; kept, and without effect.", "interval 7 days"),
    _interval(SET_TRANSACTION_RETENTION, "How long applications' transaction identifiers are kept.", None),
    _flag(SYMLINK_MANIFEST, "Manifests for other engines.", unsupported="symlink manifests are not written"),
    _text(UNIVERSAL_FORMATS, "Other table formats to be written as well.", unsupported=_NO_UNIFORM, default=""),
    _text(TARGET_FILE_SIZE, "How large OPTIMIZE makes files, such as 128mb."),
    _flag(WRITE_PARTITION_COLUMNS, "Data files hold the partition columns too."),
)

PROPERTIES: Mapping[str, TableProperty] = MappingProxyType({p.name: p for p in _ALL})
"""All known properties by canonical key, without `delta.feature.…`, `delta.constraints.…` and protocol versions."""

_BY_FOLDED_KEY = {key.lower(): p for p in PROPERTIES.values() for key in (p.name, *p.aliases)}
