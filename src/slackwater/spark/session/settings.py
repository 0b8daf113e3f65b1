"""Settings of a session: writes of Delta tables, metadata of commits, the time zone.

Every operation reads the settings once, at its start. docs/settings.md lists the settings.

Source: delta-spark's DeltaSQLConf and "Idempotent table writes".
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, SettingIgnoredWarning
from slackwater.html.switch import SETTING
from slackwater.lake.time_slice import Instant, instant_ms
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.classic_connect import all_settings
from slackwater.spark.session.enabled_sessions import setting_in_statement

DELTA = "spark.databricks.delta."
_PROPERTY_DEFAULTS = f"{DELTA}properties.defaults."
_APP_ID, _APP_VERSION = f"{DELTA}write.txnAppId", f"{DELTA}write.txnVersion"
_RESETS_APP_VERSION = f"{DELTA}write.txnVersion.autoReset.enabled"
_USER_METADATA = f"{DELTA}commitInfo.userMetadata"
_USER_NAME = "spark.slackwater.userName"
_MERGE_SCHEMA = f"{DELTA}schema.autoMerge.enabled"
_CHECK_REPLACE_WHERE = f"{DELTA}replaceWhere.constraintCheck.enabled"
_REPLACE_WHERE_DATA_COLUMNS = f"{DELTA}replaceWhere.dataColumns.enabled"
_FEED_MAY_LEAVE_HISTORY = f"{DELTA}changeDataFeed.timestampOutOfRange.enabled"
_CHECKS_RETENTION = f"{DELTA}retentionDurationCheck.enabled"
_OWN_CHECKS_RETENTION = "spark.slackwater.retentionDurationCheck.enabled"
_VACUUMS_LITE = f"{DELTA}vacuum.lite.enabled"
_LOGS_VACUUM = f"{DELTA}vacuum.logging.enabled"
CASE_SENSITIVE = "spark.sql.caseSensitive"
"""The setting of a session's names."""
SESSION_ZONE = "spark.sql.session.timeZone"
"""The setting of a session's time zone."""
STANDARD_SQL = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""The settings for the meaning of quotes, backslashes and timestamps in SQL text, with Spark's defaults."""
_PARTITION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_OPTIMIZE_MIN, _OPTIMIZE_MAX = f"{DELTA}optimize.minFileSize", f"{DELTA}optimize.maxFileSize"
_AUTO_COMPACT = f"{DELTA}autoCompact.enabled"
_AUTO_MIN, _AUTO_MAX = f"{DELTA}autoCompact.minFileSize", f"{DELTA}autoCompact.maxFileSize"
_AUTO_FILES = f"{DELTA}autoCompact.minNumFiles"
_OPTIMIZE_WRITE, _OPTIMIZE_WRITE_BIN = f"{DELTA}optimizeWrite.enabled", f"{DELTA}optimizeWrite.binSize"
_CUBE_MIN = f"{DELTA}optimize.clustering.mergeStrategy.minCubeSize.threshold"
_CUBE_TARGET = f"{DELTA}optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize"
_OPTIMIZE_DELETED = f"{DELTA}optimize.maxDeletedRowsRatio"
_STREAMING = f"{DELTA}streaming."
MAY_RENAME, MAY_DROP = f"{_STREAMING}allowSourceColumnRename", f"{_STREAMING}allowSourceColumnDrop"
MAY_RENAME_AND_DROP = f"{_STREAMING}allowSourceColumnRenameAndDrop"
MAY_RETYPE = f"{_STREAMING}allowSourceColumnTypeChange"
"""Schema changes accepted by streams with schema tracking: `always`, or the version of the change."""
_OBEYED = frozenset(
    {
        MAY_RENAME,
        MAY_DROP,
        MAY_RENAME_AND_DROP,
        MAY_RETYPE,
        _OPTIMIZE_MIN,
        _OPTIMIZE_MAX,
        _OPTIMIZE_DELETED,
        _CUBE_MIN,
        _CUBE_TARGET,
        _AUTO_COMPACT,
        _AUTO_MIN,
        _AUTO_MAX,
        _AUTO_FILES,
        _OPTIMIZE_WRITE,
        _OPTIMIZE_WRITE_BIN,
        _APP_ID,
        _APP_VERSION,
        _RESETS_APP_VERSION,
        _USER_METADATA,
        _MERGE_SCHEMA,
        _CHECK_REPLACE_WHERE,
        _REPLACE_WHERE_DATA_COLUMNS,
        _FEED_MAY_LEAVE_HISTORY,
        _CHECKS_RETENTION,
        _VACUUMS_LITE,
        _LOGS_VACUUM,
    }
)
WITHOUT_MEANING = frozenset(
    DELTA + name
    for name in (
        "commit.idempotencyCheck.enabled",
        "geo.preview.enabled",
        "lastCommitVersionInSession",
        "vacuum.retentionWindowIgnore.enabled",
    )
)
"""Settings of delta-spark that have no effect here, without a warning. docs/settings.md gives the reasons."""


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The progress of an application at one write. A write with a version already reached is skipped."""

    app_id: str
    version: int

    @classmethod
    def of(cls, app_id: str | None, version: str | None, named: tuple[str, str]) -> ApplicationVersion | None:
        """Return the version in two texts, None if both are None. `named` are the users' names of the texts.

        Raises InvalidArgument for one text without the other, and for a version that is not a number.
        """
        if app_id is None and version is None:
            return None
        if app_id is None or version is None:
            raise InvalidArgument(
                f"only {named[0]} and {named[1]} together make a write idempotent. Set both or neither",
                error_class="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            )
        try:
            return cls(app_id, int(version))
        except ValueError as error:
            raise InvalidArgument(
                f"{named[1]} must be a whole number, found {version!r}",
                error_class="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
            ) from error

    def is_reached(self, snapshot: Snapshot) -> bool:
        """Return whether the log records this version of the application, or a later one."""
        found = snapshot.transactions.get(self.app_id)
        return found is not None and found.version >= self.version


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of a session for operations on Delta tables, read at the start of one operation.

    `table_properties`: for created tables, by full key.

    `user_metadata` and `user_name`: for each commit. A `user_name` of None means the user of this process.

    `progress`: the raw setting for the progress display of long operations, '' if not set.

    `optimize_min_bytes` and `optimize_max_bytes`: file sizes in bytes, None if not set.
    """

    table_properties: Mapping[str, str]
    merges_schema: bool
    checks_replace_where: bool
    replaces_where_data_columns: bool
    partition_overwrite_mode: str
    user_metadata: str | None
    user_name: str | None
    feed_may_leave_history: bool
    checks_retention: bool
    vacuums_lite: bool
    logs_vacuum: bool
    resets_app_version: bool
    optimize_min_bytes: int | None
    optimize_max_bytes: int | None
    optimize_max_deleted_ratio: float
    cube_min_bytes: int | None
    cube_target_bytes: int | None
    auto_compact: str | None
    auto_compact_min_bytes: int | None
    auto_compact_max_bytes: int
    auto_compact_min_files: int
    optimizes_write: bool | None
    optimize_write_bin_bytes: int
    progress: str
    _app_id: str | None
    _app_version: str | None

    @classmethod
    def of(cls, spark: SparkSession) -> SessionSettings:
        """Return the present settings of `spark`.

        Warns of settings of delta-spark that Slackwater ignores, except those in `WITHOUT_MEANING`. Raises
        InvalidArgument for an invalid value.
        """
        found = all_settings(spark)
        _warn_of_ignored(found)
        return cls(
            {f"delta.{k.removeprefix(_PROPERTY_DEFAULTS)}": v for k, v in found.items() if _is_property_default(k)},
            _flag(found, _MERGE_SCHEMA, default=False),
            _flag(found, _CHECK_REPLACE_WHERE, default=True),
            _flag(found, _REPLACE_WHERE_DATA_COLUMNS, default=True),
            found.get(_PARTITION_OVERWRITE_MODE, "static"),
            found.get(_USER_METADATA),
            found.get(_USER_NAME) or None,
            _flag(found, _FEED_MAY_LEAVE_HISTORY, default=False),
            _flag(found, _OWN_CHECKS_RETENTION, default=_flag(found, _CHECKS_RETENTION, default=True)),
            _flag(found, _VACUUMS_LITE, default=False),
            _flag(found, _LOGS_VACUUM, default=True),
            _flag(found, _RESETS_APP_VERSION, default=False),
            _positive(found, _OPTIMIZE_MIN),
            _positive(found, _OPTIMIZE_MAX),
            _ratio(found, _OPTIMIZE_DELETED, default=0.05),
            _positive(found, _CUBE_MIN),
            _positive(found, _CUBE_TARGET),
            _word(found, _AUTO_COMPACT, "true", "false", "auto", "legacy"),
            _positive(found, _AUTO_MIN),
            _positive(found, _AUTO_MAX) or 128 << 20,
            _positive(found, _AUTO_FILES) or 50,
            None if _OPTIMIZE_WRITE not in found else _flag(found, _OPTIMIZE_WRITE, default=False),
            (_positive(found, _OPTIMIZE_WRITE_BIN) or 512) << 20,
            found.get(SETTING, ""),
            found.get(_APP_ID),
            found.get(_APP_VERSION),
        )

    @property
    def application(self) -> ApplicationVersion | None:
        """The version of the session's application. Raises InvalidArgument if only one of its two settings is set."""
        return ApplicationVersion.of(self._app_id, self._app_version, (_APP_ID, _APP_VERSION))

    def of_write(
        self, application: ApplicationVersion | None, user_metadata: str | None, user_name: str | None
    ) -> SessionSettings:
        """Return the settings with the options of one write. Automatic reset of the application version is off."""
        app_id, version = (application.app_id, str(application.version)) if application else (None, None)
        return replace(
            self,
            user_metadata=user_metadata,
            user_name=user_name,
            resets_app_version=False,
            _app_id=app_id,
            _app_version=version,
        )

    def application_was_used(self, spark: SparkSession) -> None:
        """Unset the application version after an operation with `application`, if the session has automatic reset."""
        if self.resets_app_version and self._app_version is not None:
            spark.conf.unset(_APP_VERSION)

    def properties_beside(self, given: Collection[str]) -> dict[str, str]:
        """Return the properties for a created table, without the user's own `given` ones. Keys are case-insensitive."""
        folded = {key.lower() for key in given}
        return {key: value for key, value in self.table_properties.items() if key.lower() not in folded}


def session_zone(spark: SparkSession) -> str:
    """Return the session's time zone, for times, partition values and literals without a zone."""
    return setting_in_statement(spark, SESSION_ZONE) or "UTC"


def zone_of_plan(spark: SparkSession, client: Any) -> str:
    """Return the time zone of the Connect session to which `client` sends a plan, `spark` or another one."""
    if client is spark.client:
        return session_zone(spark)
    return client.get_configs(SESSION_ZONE)[0] or "UTC"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names in the session are case-sensitive."""
    return (setting_in_statement(spark, CASE_SENSITIVE) or "false").lower() == "true"


def session_instant_ms(spark: SparkSession, timestamp: Instant) -> int:
    """Return a moment in milliseconds since the epoch, by the conventions of PySpark.

    Text and dates without a zone are in the session's zone, like the output of `show`. A datetime without a zone is in
    this machine's zone, because PySpark creates and reads such datetimes for timestamps. pandas' own timestamps are in
    the session's zone, like those of `toPandas`. Raises as `slackwater.lake.time_slice.instant_ms`.
    """
    zone = session_zone(spark)
    return instant_ms(with_machine_zone(timestamp), time_zone(zone), f"the session's zone, {zone}")


def with_machine_zone(timestamp: Instant) -> Instant:
    """Return a datetime without a zone with this machine's zone, like in PySpark, and other values unchanged."""
    if type(timestamp) is dt.datetime and timestamp.tzinfo is None:
        # A datetime out of the range of this machine's clock is rejected by the caller.
        with suppress(OverflowError, ValueError, OSError):
            return timestamp.astimezone()
    return timestamp


def _is_property_default(key: str) -> bool:
    return key.startswith(_PROPERTY_DEFAULTS)


def _flag(settings: Mapping[str, str], key: str, default: bool) -> bool:
    text = settings.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"the setting {key} must be true or false, found {settings[key]!r}")
    return text == "true"


def _word(settings: Mapping[str, str], key: str, *words: str) -> str | None:
    text = settings.get(key)
    if text is not None and text.strip().lower() not in words:
        raise InvalidArgument(f"the setting {key} must be one of {', '.join(words)}, found {text!r}")
    return None if text is None else text.strip().lower()


def _positive(settings: Mapping[str, str], key: str) -> int | None:
    text = settings.get(key)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise InvalidArgument(f"the setting {key} must be a whole number above 0, found {text!r}")
    return int(text)


def _ratio(settings: Mapping[str, str], key: str, default: float) -> float:
    text = settings.get(key, str(default))
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise InvalidArgument(f"the setting {key} must be a number from 0 to 1, found {text!r}")
    return found


def _warn_of_ignored(settings: Mapping[str, str]) -> None:
    for key in sorted(settings):
        if key.startswith(DELTA) and not (key in _OBEYED or key in WITHOUT_MEANING or _is_property_default(key)):
            warnings.warn(
                f"the setting {key} has no effect on tables that Slackwater reads and writes. Unset it to stop this "
                "warning. docs/settings.md lists the settings with an effect",
                SettingIgnoredWarning,
                stacklevel=2,
            )
