"""Protocol upgrades: the protocol required for the features in use, and adding and dropping features.

Source: delta-protocol.md "Table Features for New and Existing Tables", "Supported Features", "Protocol Evolution".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import SequenceMatcher

from slackwater.errors import InvalidArgument, InvalidSchema, UnsupportedFeature
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.iceberg_compat import validate_iceberg_compat
from slackwater.protocol.features.identity_columns import is_identity, validate_identity_columns
from slackwater.protocol.features.row_tracking import validate_row_tracking
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import (
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    TableFeature,
    canonical_feature,
    known_feature,
    supported_features,
)
from slackwater.protocol.features.write_expressions import checks, row_rules
from slackwater.protocol.properties.properties import ENABLE_IN_COMMIT_TIMESTAMPS, FEATURE_PREFIX
from slackwater.protocol.schema.column_paths import format_column_path, resolve_path
from slackwater.protocol.schema.nested_columns import parts
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    GeospatialType,
    StructField,
    VariantType,
    collation_of,
    walk_fields,
)
from slackwater.protocol.unsupported.reasons import explained

DEFAULT_PROTOCOL = Protocol(1, 2)
"""The protocol of a new table without requests: `appendOnly` and `invariants`."""

_LEGACY = tuple(Protocol(*versions) for versions in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)))


def protocol_for(features: Iterable[str], min_reader: int | None = None, min_writer: int | None = None) -> Protocol:
    """Return the weakest protocol of a new table with `features`, their requirements and the default features.

    `min_reader` and `min_writer` are minimum versions. The default is (1, 2), hence `appendOnly` and `invariants`. A
    legacy protocol is used if it implies exactly these features. Otherwise writer version 7 lists them, and reader
    version 3 lists those relevant for readers. Raises InvalidArgument for unknown features and invalid versions,
    UnsupportedFeature for features refused by name.
    """
    least = Protocol(
        DEFAULT_PROTOCOL.min_reader_version if min_reader is None else min_reader,
        DEFAULT_PROTOCOL.min_writer_version if min_writer is None else min_writer,
    )
    _validate_versions(least.min_reader_version, least.min_writer_version)
    return _covering(least, supported_features(least) | _with_requirements(features))


def with_features(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """Return `protocol` of an existing table, extended by `features` and their requirements.

    Returns `protocol` itself if it supports them already. A legacy protocol stays legacy if another one implies exactly
    the features of both. Otherwise it becomes writer version 7 and lists every feature implied by its versions, because
    any of them may be in use. Lists retain their order and spelling; new names are appended. Reader version 3 is set
    with the first reader feature not implied by the reader version. Raises InvalidArgument for unknown features,
    UnsupportedFeature for features refused by name.
    """
    wanted = _with_requirements(features, supported_features(protocol))
    if wanted <= _stated(protocol):
        return protocol
    return _covering(protocol, supported_features(protocol) | wanted)


def with_versions(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """Return `protocol` raised to at least these versions, or `protocol` itself if no version increases.

    Versions are never lowered. At writer version 7 and reader version 3, the features implied by the earlier versions
    are listed. Raises InvalidArgument for invalid versions, and for reader version 3 with a writer version below 7.
    """
    _validate_versions(reader, writer)
    versions = max(reader, protocol.min_reader_version), max(writer, protocol.min_writer_version)
    if versions == (protocol.min_reader_version, protocol.min_writer_version):
        return protocol
    if versions[1] < FEATURES_WRITER_VERSION:
        return Protocol(*versions)
    return _listing(protocol, supported_features(protocol), versions[0])


def without_feature(protocol: Protocol, name: str) -> Protocol:
    """Return the weakest protocol with the features of `protocol`, except the feature `name`.

    The caller must remove all traces of the feature from the table. Raises InvalidArgument if the table does not
    support the feature, or if other supported features require it (naming them).
    """
    dropped = canonical_feature(name)
    supported = supported_features(protocol)
    if dropped not in supported:
        raise InvalidArgument(
            f"the feature {name} cannot be dropped: the table does not support it. It supports "
            f"{', '.join(sorted(supported)) or 'none'}",
            error_class="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        )
    dependents = [f.name for f in FEATURES if f.name in supported and dropped in (*f.requires, *f.brings)]
    if dependents:
        raise InvalidArgument(
            f"the feature {name} is needed by {', '.join(dependents)}. Drop these first",
            error_class="DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
        )
    rest = supported - {dropped}
    kept = Protocol(
        1,
        FEATURES_WRITER_VERSION,
        tuple(n for n in protocol.reader_features or () if canonical_feature(n) != dropped) or None,
        tuple(n for n in protocol.writer_features or () if canonical_feature(n) != dropped),
    )
    legacy = next((candidate for candidate in _LEGACY if supported_features(candidate) == rest), None)
    return legacy or _listing(kept, rest, FEATURES_READER_VERSION if kept.reader_features else 1)


def required_features(table: TableConfiguration) -> frozenset[str]:
    """Return the features enabled by the table's properties and schema, independent of its protocol.

    Default values are excluded, like in the reference implementation: see `validate_feature_combination`. Raises
    CorruptTable for a flag other than true and false.
    """
    found = {feature.name for feature in FEATURES if feature.is_enabled_by(table.properties)}
    if checks(table.metadata.configuration):
        found.add("checkConstraints")
    found |= {feature for _, data_type in parts(table.schema) if (feature := _feature_of_type(data_type))}
    for _, column in walk_fields(table.schema):
        if not column.nullable or INVARIANTS in column.metadata:
            found.add("invariants")
        if GENERATION_EXPRESSION in column.metadata:
            found.add("generatedColumns")
        if is_identity(column):
            found.add("identityColumns")
    return frozenset(found)


def with_required_features(table: TableConfiguration, features: Iterable[str] = ()) -> TableConfiguration:
    """Return `table` with support for the features enabled by its metadata, and for `features`.

    Raises InvalidArgument for unknown features, CorruptTable for a flag other than true and false.
    """
    return table.changed(with_features(table.protocol, [*features, *required_features(table)]))


def validate_feature_combination(table: TableConfiguration) -> None:
    """Validate the combination of protocol and metadata of a table before a commit.

    Raises InvalidArgument for a used but unsupported feature, or a feature without its requirements. Raises
    InvalidArgument for a clustered table with partition columns, or managed commits without in-commit timestamps.
    Raises InvalidArgument for row tracking without column names or while suspended, or a broken rule of Iceberg
    compatibility. Raises InvalidArgument for contradictory or malformed column rules, UnsupportedFeature for rules of
    nested columns.
    """
    supported, partition_columns = table.supported_features, table.metadata.partition_columns
    if missing := sorted(required_features(table) - supported):
        raise InvalidArgument(
            f"the table's properties or columns use {', '.join(missing)}, which its protocol does not support. Add the "
            "feature with addFeatureSupport"
        )
    for feature in FEATURES:
        lacking = [name for name in feature.requires if name not in supported]
        if feature.name in supported and lacking:
            raise InvalidArgument(f"the feature {feature.name} needs {', '.join(lacking)}. Add it as well")
    if "clustering" in supported and partition_columns:
        raise InvalidArgument(
            f"a table cannot be clustered and partitioned (by {', '.join(partition_columns)}) at the same time",
            error_class="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    for feature in FEATURES:
        is_timed = feature.name in supported and "inCommitTimestamp" in feature.requires
        if is_timed and not table.is_active("inCommitTimestamp"):
            raise InvalidArgument(f"the feature {feature.name} needs {ENABLE_IN_COMMIT_TIMESTAMPS} to be true")
    _validate_columns(table)
    validate_row_tracking(table)
    validate_iceberg_compat(table)


def _feature_of_type(data_type: DataType) -> str | None:
    """Return the feature that a table with a column of `data_type` needs."""
    if isinstance(data_type, VariantType):
        return "variantType"
    if isinstance(data_type, GeospatialType):
        return "geospatial"
    if collation_of(data_type) is not None:
        return "collations"
    return "timestampNtz" if data_type == TIMESTAMP_NTZ else None


def _closest(name: str) -> str:
    names = [f.name for f in FEATURES]
    return max(names, key=lambda known: SequenceMatcher(None, known.lower(), name.lower()).ratio())


def _known(name: str) -> TableFeature:
    folded = {spelling.lower(): spelling for f in FEATURES for spelling in (f.name, *f.aliases)}
    feature = known_feature(folded.get(name.lower(), name))
    if feature is None and (reason := explained([name])):
        raise UnsupportedFeature(
            f"the feature {name} is not supported.{reason} Omit it", error_class="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
        )
    if feature is None:
        raise InvalidArgument(
            f"unknown table feature {name!r}. Did you mean {_closest(name)}? docs/protocol-coverage.md lists all "
            "features (DELTA_UNSUPPORTED_FEATURES_IN_CONFIG)",
            error_class="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
        )
    return feature


def _with_requirements(names: Iterable[str], supported: Collection[str] = ()) -> frozenset[str]:
    """Return `names` with their requirements, for a table with the features `supported`.

    Raises InvalidArgument for an unknown feature, and for a feature whose requirement only a commit owner adds.
    """
    found: set[str] = set()
    waiting = list(names)
    present = {*supported, *map(canonical_feature, waiting)}
    while waiting:
        feature = _known(waiting.pop())
        if feature.name not in found:
            found.add(feature.name)
            needed = (*feature.requires, *feature.brings)
            by_owner = [name for name in needed if _known(name).by_owner and name not in present]
            if by_owner:
                raise InvalidArgument(
                    f"the feature {feature.name} needs {', '.join(by_owner)}, which only a lake adds. Create the table "
                    "in a lake with managed='catalogManaged', or change it with `slackwater lake migrate`"
                )
            waiting += needed
    return frozenset(found)


def _validate_versions(reader: int, writer: int) -> None:
    if not 1 <= reader <= MAX_READER_VERSION or not 1 <= writer <= MAX_WRITER_VERSION:
        raise InvalidArgument(
            f"a protocol of reader version {reader} and writer version {writer} does not exist. Use reader version 1 "
            f"to {MAX_READER_VERSION} and writer version 1 to {MAX_WRITER_VERSION}",
            error_class="DELTA_INVALID_PROTOCOL_VERSION",
        )
    if reader == FEATURES_READER_VERSION and writer != FEATURES_WRITER_VERSION:
        raise InvalidArgument(
            f"reader version 3 needs writer version 7, found writer version {writer}",
            error_class="DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE",
        )


def _stated(protocol: Protocol) -> frozenset[str]:
    """Return the features supported explicitly: at writer version 7, the list `writerFeatures`."""
    if protocol.min_writer_version < FEATURES_WRITER_VERSION:
        return supported_features(protocol)
    return frozenset(canonical_feature(name) for name in protocol.writer_features or ())


def _covering(protocol: Protocol, features: frozenset[str]) -> Protocol:
    """Return the weakest protocol that supports exactly `features`, starting at `protocol`."""
    if protocol.min_writer_version < FEATURES_WRITER_VERSION:
        for candidate in (protocol, *_LEGACY):
            strong_enough = (
                candidate.min_reader_version >= protocol.min_reader_version
                and candidate.min_writer_version >= protocol.min_writer_version
            )
            if strong_enough and supported_features(candidate) == features:
                return candidate
    return _listing(protocol, features, protocol.min_reader_version)


def _listing(protocol: Protocol, features: Collection[str], reader: int) -> Protocol:
    """Return writer version 7 with `features` appended to the lists of `protocol`, and the required reader version."""
    by_reader = supported_features(Protocol(reader, FEATURES_WRITER_VERSION))
    for_readers = [f.name for f in FEATURES if f.reader and f.name in features]
    if not set(for_readers) <= by_reader:
        reader = FEATURES_READER_VERSION
    for_writers = (f.written_as or f.name for f in FEATURES if f.name in features)
    writer_features = _extended(protocol.writer_features, for_writers)
    reader_features = _extended(protocol.reader_features, for_readers)
    return Protocol(
        reader,
        FEATURES_WRITER_VERSION,
        reader_features if reader == FEATURES_READER_VERSION else None,
        writer_features,
    )


def _extended(names: tuple[str, ...] | None, more: Iterable[str]) -> tuple[str, ...]:
    present = {canonical_feature(name) for name in names or ()}
    return (*(names or ()), *(name for name in more if canonical_feature(name) not in present))


def _validate_columns(table: TableConfiguration) -> None:
    for path, column in walk_fields(table.schema):
        if CURRENT_DEFAULT in column.metadata and not table.supports("allowColumnDefaults"):
            raise InvalidArgument(
                f"column {'.'.join(path)} has a default value, which needs the feature allowColumnDefaults. Set "
                f"{FEATURE_PREFIX}allowColumnDefaults to supported",
                error_class="WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
            )
        if GENERATION_EXPRESSION in column.metadata and isinstance(column.type, VariantType | GeospatialType):
            raise InvalidArgument(
                f"column {'.'.join(path)}: values of type {column.type} are not comparable, so the column cannot be "
                "generated. Generate a column of another type from it",
                error_class="DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN",
            )
        if GENERATION_EXPRESSION in column.metadata:
            _validate_without_collations(path, column, table)
        makers = [name for name, is_so in _makers(column.metadata, is_identity(column)) if is_so]
        if len(makers) > 1:
            raise InvalidArgument(
                f"column {'.'.join(path)} cannot have {' and '.join(makers)} at the same time",
                error_class="DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
            )
    try:
        row_rules(table)
    except InvalidSchema as error:
        raise InvalidArgument(str(error), error_class=error.error_class) from error
    validate_identity_columns(table.schema, table.metadata.partition_columns)


def _validate_without_collations(path: ColumnPath, column: StructField, table: TableConfiguration) -> None:
    """Raise InvalidArgument if the generated column `column` has a collation, or reads a column with one.

    Spark has the same rule.
    """
    read = read_columns(str(column.metadata[GENERATION_EXPRESSION]), table.schema)
    kinds = {path: column.type} | {each: resolve_path(table.schema, each)[1] for each in sorted(read)}
    collated = [
        format_column_path(each)
        for each, kind in kinds.items()
        if any(collation_of(part) is not None for _, part in parts(kind))
    ]
    if collated:
        raise InvalidArgument(
            f"column {format_column_path(path)} is generated, and {collated[0]} has a collation, on which the "
            "generated values would depend. Use a column without a collation",
            error_class="DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN",
        )


def _makers(metadata: Mapping[str, object], has_identity: bool) -> Iterator[tuple[str, bool]]:
    """Yield the sources of missing values of a column. A column may have only one of them."""
    yield "a generation expression", GENERATION_EXPRESSION in metadata
    yield "an identity", has_identity
    yield "a default value", CURRENT_DEFAULT in metadata
