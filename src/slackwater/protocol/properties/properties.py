"""Table properties: typed access to the `configuration` of the metadata, and validation of user settings.

Source: delta-protocol.md, the sections that name each `delta.…` key; delta-spark's table properties.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slackwater.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from slackwater.html.redaction import setting_without_secrets
from slackwater.protocol.properties.intervals import parse_interval_ms
from slackwater.protocol.properties.parquet_version import page_version_of_format
from slackwater.protocol.properties.registry import (
    APPEND_ONLY,
    AUTO_COMPACT,
    CATALOG_OWNER,
    CATALOG_OWNER_CONF,
    CATALOG_TABLE_ID,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    CHECKPOINT_RETENTION,
    CHECKPOINT_WRITE_STATS_AS_JSON,
    CHECKPOINT_WRITE_STATS_AS_STRUCT,
    COLUMN_MAPPING_MODE,
    COMPRESSION_CODEC,
    CONSTRAINT_PREFIX,
    DATA_SKIPPING_NUM_INDEXED_COLS,
    DATA_SKIPPING_STATS_COLUMNS,
    DATA_SKIPPING_STRING_PREFIX_LENGTH,
    DELETED_FILE_RETENTION,
    DROP_FEATURE_RETENTION,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
    ENABLE_EXPIRED_LOG_CLEANUP,
    ENABLE_FULL_RETENTION_ROLLBACK,
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
    FEATURE_PREFIX,
    HAS_DROPPED_OR_RENAMED,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    IGNORE_PROTOCOL_DEFAULTS,
    ISOLATION_LEVEL,
    LOG_RETENTION,
    MANAGED_COMMIT_OWNER,
    MANAGED_COMMIT_OWNER_CONF,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    MAX_COLUMN_ID,
    MIN_READER_VERSION,
    MIN_WRITER_VERSION,
    OPTIMIZE_WRITE,
    PROPERTIES,
    REQUIRE_CHECKPOINT_PROTECTION,
    ROW_TRACKING_SUSPENDED,
    SET_TRANSACTION_RETENTION,
    TARGET_FILE_SIZE,
    WRITE_PARTITION_COLUMNS,
    TableProperty,
    find_property,
)

__all__ = [
    "APPEND_ONLY",
    "AUTO_COMPACT",
    "CATALOG_OWNER",
    "CATALOG_OWNER_CONF",
    "CATALOG_TABLE_ID",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_POLICY",
    "CHECKPOINT_RETENTION",
    "CHECKPOINT_WRITE_STATS_AS_JSON",
    "CHECKPOINT_WRITE_STATS_AS_STRUCT",
    "COLUMN_MAPPING_MODE",
    "COMPRESSION_CODEC",
    "CONSTRAINT_PREFIX",
    "DATA_SKIPPING_NUM_INDEXED_COLS",
    "DATA_SKIPPING_STATS_COLUMNS",
    "DATA_SKIPPING_STRING_PREFIX_LENGTH",
    "DELETED_FILE_RETENTION",
    "DROP_FEATURE_RETENTION",
    "ENABLE_CHANGE_DATA_FEED",
    "ENABLE_DELETION_VECTORS",
    "ENABLE_EXPIRED_LOG_CLEANUP",
    "ENABLE_FULL_RETENTION_ROLLBACK",
    "ENABLE_ICEBERG_COMPAT_V1",
    "ENABLE_ICEBERG_COMPAT_V2",
    "ENABLE_ICEBERG_COMPAT_V3",
    "ENABLE_ICEBERG_WRITER_COMPAT_V1",
    "ENABLE_ICEBERG_WRITER_COMPAT_V3",
    "ENABLE_IN_COMMIT_TIMESTAMPS",
    "ENABLE_MATERIALIZE_PARTITION_COLUMNS",
    "ENABLE_ROW_TRACKING",
    "ENABLE_TYPE_WIDENING",
    "ENABLE_VARIANT_SHREDDING",
    "FEATURE_PREFIX",
    "HAS_DROPPED_OR_RENAMED",
    "ICT_ENABLEMENT_TIMESTAMP",
    "ICT_ENABLEMENT_VERSION",
    "IGNORE_PROTOCOL_DEFAULTS",
    "ISOLATION_LEVEL",
    "LOG_RETENTION",
    "MANAGED_COMMIT_OWNER",
    "MANAGED_COMMIT_OWNER_CONF",
    "MATERIALIZED_ROW_COMMIT_VERSION",
    "MATERIALIZED_ROW_ID",
    "MAX_COLUMN_ID",
    "MIN_READER_VERSION",
    "MIN_WRITER_VERSION",
    "OPTIMIZE_WRITE",
    "PROPERTIES",
    "REQUIRE_CHECKPOINT_PROTECTION",
    "ROW_TRACKING_SUSPENDED",
    "SET_TRANSACTION_RETENTION",
    "TARGET_FILE_SIZE",
    "WRITE_PARTITION_COLUMNS",
    "ClassifiedProperties",
    "TableProperties",
    "TableProperty",
    "find_property",
    "split_properties",
    "validate_properties",
]

_DELTA = "delta."
_UNIFORM_SETTINGS = "delta.universalformat.config."
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}\Z", re.ASCII)


class TableProperties(Mapping[str, str]):
    """The properties of a table. Lookup of keys ignores case, like in the reference implementation.

    The mapping contains only the properties set by the table. `flag`, `integer`, `duration_ms` and `choice` also know
    the defaults.
    """

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = dict(configuration)
        self._folded = {key.lower(): key for key in self._configuration}

    def __getitem__(self, key: str) -> str:
        if key in self._configuration:
            return self._configuration[key]
        folded = key.lower()
        if folded not in self._folded and (known := find_property(key)) is not None:
            folded = next((k.lower() for k in (known.name, *known.aliases) if k.lower() in self._folded), folded)
        return self._configuration[self._folded[folded]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._configuration)

    def __len__(self) -> int:
        return len(self._configuration)

    def __repr__(self) -> str:
        shown = {key: setting_without_secrets(key, value) for key, value in self._configuration.items()}
        return f"TableProperties({shown!r})"

    def _repr_html_(self) -> str:
        # Imported here, because only notebooks need it.
        from slackwater.html.components import card, settings
        from slackwater.html.number_format import counted

        return str(card("TableProperties", counted(len(self), "entry", "entries"), settings(self._configuration)))

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean property. If it is unset, return `default`, else the property's own default, else False.

        Raises CorruptTable for a value other than true and false.
        """
        text = self.get(key)
        if text is None:
            return _default(key) == "true" if default is None else default
        if text.lower() not in ("true", "false"):
            raise CorruptTable(f"table property {key} must be true or false, found {text!r}")
        return text.lower() == "true"

    def integer(self, key: str) -> int | None:
        """Return an integer property or its default, None if it has neither. Raises CorruptTable for a non-integer."""
        text = self._text(key)
        try:
            return None if text is None else int(text)
        except ValueError as error:
            raise CorruptTable(f"table property {key} must be a whole number, found {text!r}") from error

    def duration_ms(self, key: str) -> int | None:
        """Return an interval or its default in ms, None if it has neither. Raises CorruptTable if malformed."""
        text = self._text(key)
        try:
            return None if text is None else parse_interval_ms(text)
        except InvalidArgument as error:
            raise CorruptTable(f"table property {key}: {error}") from error

    def choice(self, key: str) -> str | None:
        """Return the choice property `key` in its canonical spelling, or its default; None if it has neither.

        Returns the text of an unknown property unchanged. Raises CorruptTable for a value that is not a choice.
        """
        text, known = self._text(key), find_property(key)
        if text is None or known is None:
            return text
        found = _choice_of(known, text)
        if found is None:
            raise CorruptTable(f"table property {key} must be one of {', '.join(known.choices)}, found {text!r}")
        return found

    def _text(self, key: str) -> str | None:
        text = self.get(key)
        return _default(key) if text is None else text


class ClassifiedProperties(NamedTuple):
    """User-provided properties, grouped by their use.

    `plain` properties are stored after `validate_properties`. `constraints` are stored unchanged, by their full keys.
    `features` are names of table features. The versions are None if not provided.
    """

    plain: dict[str, str]
    features: tuple[str, ...]
    min_reader_version: int | None
    min_writer_version: int | None
    constraints: dict[str, str]


def split_properties(properties: Mapping[str, str]) -> ClassifiedProperties:
    """Separate `properties` into protocol requests, constraints and plain properties.

    Raises InvalidArgument for a feature with another value than `supported` or `enabled`, or an invalid version. Raises
    InvalidArgument for a constraint without a name or an expression. Raises InvalidArgument for keys with no difference
    but case, and for a key or value other than a text.
    """
    _validate_texts(properties)
    split = ClassifiedProperties({}, (), None, None, {})
    for key, value in properties.items():
        folded = key.lower()
        if folded.startswith(FEATURE_PREFIX):
            split = split._replace(features=(*split.features, _feature(key, value)))
        elif folded.startswith(CONSTRAINT_PREFIX):
            split.constraints[CONSTRAINT_PREFIX + _constraint(key, value)] = value
        elif folded == MIN_READER_VERSION.lower():
            split = split._replace(min_reader_version=_version(key, value))
        elif folded == MIN_WRITER_VERSION.lower():
            split = split._replace(min_writer_version=_version(key, value))
        else:
            split.plain[key] = value
    return split


def validate_properties(properties: Mapping[str, str], current: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `properties` for storage, with known keys and values in their canonical spelling.

    Keys without the prefix `delta.` are not checked, except keys set only by Slackwater itself. `current` has the
    properties already set by the table, for the rules between properties. Raises InvalidArgument for unknown `delta.`
    keys, with the closest known key. Raises InvalidArgument for values outside the property's kind or range, properties
    set only by Slackwater itself, and conflicting properties. Raises UnsupportedFeature for a setting without an
    implementation.
    """
    _validate_texts(properties)
    result: dict[str, str] = {}
    for key, value in properties.items():
        if not key.lower().startswith(_DELTA) and find_property(key) is None:
            result[key] = value
            continue
        known = _settable(key)
        if known.name in result:
            raise InvalidArgument(f"table property {known.name} is set twice: as {key} and by another name")
        result[known.name] = _canonical_value(known, value)
    _validate_together(result, TableProperties({**(current or {}), **result}))
    return result


def _default(key: str) -> str | None:
    known = find_property(key)
    return None if known is None else known.default


def _choice_of(known: TableProperty, text: str) -> str | None:
    folded = text.strip().lower()
    return next((choice for choice in known.choices if choice.lower() == folded), None)


def _validate_texts(properties: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(f"table properties are strings, found {key!r}: {value!r}. Put the value in quotes")
        folded = key.lower() if key.lower().startswith(_DELTA) else key
        if folded in seen:
            raise InvalidArgument(f"table property {key} is set twice, also as {seen[folded]}")
        seen[folded] = key


def _feature(key: str, value: str) -> str:
    name = key[len(FEATURE_PREFIX) :]
    if not name:
        raise InvalidArgument(f"{key!r} does not name a table feature. Write {FEATURE_PREFIX}<name>")
    if value.strip().lower() not in ("supported", "enabled"):
        raise InvalidArgument(
            f"{key} must be 'supported', found {value!r}", error_class="DELTA_UNSUPPORTED_FEATURE_STATUS"
        )
    return name


def _constraint(key: str, value: str) -> str:
    name = key[len(CONSTRAINT_PREFIX) :]
    if not name or not value.strip():
        raise InvalidArgument(f"{key!r}: a constraint needs a name and an expression, found {value!r}")
    return name


def _version(key: str, value: str) -> int:
    text = value.strip()
    if not _WHOLE_NUMBER.match(text) or int(text) < 1:
        raise InvalidArgument(
            f"{key} must be a protocol version, found {value!r}", error_class="DELTA_PROTOCOL_PROPERTY_NOT_INT"
        )
    return int(text)


def _settable(key: str) -> TableProperty:
    known = find_property(key)
    if known is None:
        if key.lower().startswith(_UNIFORM_SETTINGS):
            raise UnsupportedFeature(f"table property {key}: metadata of other table formats is not written")
        folded = {name.lower(): name for name in PROPERTIES}
        closest = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.0)
        raise InvalidArgument(
            f"unknown table property {key}. Did you mean {folded[closest[0]]}? Your own keys must not begin with "
            "'delta.'",
            error_class="DELTA_UNKNOWN_CONFIGURATION",
        )
    if not known.settable:
        raise InvalidArgument(
            f"table property {known.name} is maintained by Slackwater itself. Omit it",
            error_class="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        )
    return known


def _canonical_value(known: TableProperty, value: str) -> str:
    canonical = _parsed(known, value)
    if known.unsupported and canonical != (known.default or ("false" if known.kind == "boolean" else "")):
        raise UnsupportedFeature(f"table property {known.name} = {value!r} is not supported: {known.unsupported}")
    return canonical


def _parsed(known: TableProperty, value: str) -> str:
    text = value.strip()
    if known.kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise InvalidArgument(f"table property {known.name} must be true or false, found {value!r}")
        return text.lower()
    if known.kind == "integer":
        if not _WHOLE_NUMBER.match(text) or not known.least <= int(text) <= known.most:
            raise InvalidArgument(
                f"table property {known.name} must be a whole number from {known.least} to {known.most}, found "
                f"{value!r}"
            )
        return str(int(text))
    if known.kind == "interval":
        try:
            parse_interval_ms(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"table property {known.name}: {error}", error_class=error.error_class) from error
        return value
    if known.kind == "choice":
        found = _choice_of(known, value)
        if found is None:
            raise InvalidArgument(
                f"table property {known.name} must be one of {', '.join(known.choices)}, found {value!r}",
                error_class="DELTA_INVALID_ISOLATION_LEVEL" if known.name == ISOLATION_LEVEL else None,
            )
        return found
    if known.kind == "parquet version":
        page_version_of_format(value)
    return value


def _validate_together(given: Mapping[str, str], merged: TableProperties) -> None:
    if LOG_RETENTION in given or DELETED_FILE_RETENTION in given:
        log_ms, files_ms = merged.duration_ms(LOG_RETENTION), merged.duration_ms(DELETED_FILE_RETENTION)
        if log_ms is not None and files_ms is not None and log_ms < files_ms:
            raise InvalidArgument(
                f"{LOG_RETENTION} ({log_ms} ms) must not be shorter than {DELETED_FILE_RETENTION} ({files_ms} ms). Set "
                "both"
            )
    row_ids = (ENABLE_ROW_TRACKING, ROW_TRACKING_SUSPENDED)
    if any(key in given for key in row_ids) and all(merged.flag(key) for key in row_ids):
        raise InvalidArgument(
            f"{ENABLE_ROW_TRACKING} and {ROW_TRACKING_SUSPENDED} cannot both be true",
            error_class="DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
        )
