"""Reader options, with the names of delta-spark, case-insensitive.

Source: delta-spark's DeltaOptions. The options of this package are added to them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.log.history import after_last_commit_allowed, to_ms
from slackwater.protocol.actions.time_zones import time_zone

_AT_VERSION = re.compile(r"(?s)(.+)@v(\d+)\Z")
_AT_TIMESTAMP = re.compile(r"(?s)(.+)@(\d{17})\Z")
_TRAVEL = ("versionAsOf", "timestampAsOf", "readChangeFeed", "readChangeData")
_STORAGE_PREFIXES = ("aws_", "azure_", "google_", "allow_")
# Options of readers, writers and streams, here and in delta-spark. A very similar name is a typing error.
_NAMES = (
    "versionAsOf timestampAsOf allowAfterLastCommit strict readChangeFeed readChangeData startingVersion "
    "startingTimestamp endingVersion endingTimestamp rowTracking allowPathsOutsideRoot replay rows mergeSchema "
    "overwriteSchema replaceWhere replaceUsing replaceOn targetAlias partitionOverwriteMode txnAppId txnVersion "
    "userMetadata userName dataChange optimizeWrite maxRecordsPerFile compression path checkpointLocation "
    "queryName maxFilesPerTrigger maxBytesPerTrigger ignoreDeletes ignoreChanges ignoreFileDeletion skipChangeCommits "
    "excludeRegex failOnDataLoss schemaTrackingLocation schemaLocation withEventTimeOrder eventTimeColumn"
).split()
_KNOWN = {name.lower(): name for name in _NAMES}
# Names more similar to a wrong option.
_OTHERWISE = {"version": "versionasof"}
_ALIKE = 0.8


class Options(Mapping[str, str]):
    """The user's options, with case-insensitive keys."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {str(k).lower(): (str(k), v) for k, v in options.items() if v is not None}

    def __getitem__(self, key: str) -> str:
        value = self._options[key.lower()][1]
        return str(value).lower() if isinstance(value, bool) else str(value)

    def __iter__(self) -> Any:
        return iter(name for name, _ in self._options.values())

    def __len__(self) -> int:
        return len(self._options)

    def flag(self, *keys: str) -> bool:
        """Return whether one of `keys` is true. Raises InvalidArgument for a value other than true or false."""
        return next((choice for key in keys if (choice := self.choice(key)) is not None), False)

    def choice(self, key: str) -> bool | None:
        """Return the value of a flag, None if the flag is not set. Raises InvalidArgument as `flag`."""
        text = self.get(key)
        if text is None or text.lower() in ("true", "false"):
            return None if text is None else text.lower() == "true"
        raise InvalidArgument(f"option {key} must be true or false, found {text!r}", error_class="DELTA_ILLEGAL_OPTION")

    @property
    def after_last_commit_allowed(self) -> bool:
        """True if a time after the last commit means the latest version: `allowAfterLastCommit`, or `strict=false`."""
        return after_last_commit_allowed(self.flag("allowAfterLastCommit"), self.choice("strict"))

    def integer(self, key: str) -> int | None:
        """Return a whole number from 0, None if not set. Raises InvalidArgument for any other value."""
        text = self.get(key)
        if text is None:
            return None
        if not text.strip().isdigit():
            raise InvalidArgument(
                f"option {key} must be a whole number from 0, found {text!r}",
                error_class="DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE" if key == "versionAsOf" else "DELTA_ILLEGAL_OPTION",
            )
        return int(text)

    def require_meant(self) -> None:
        """Raise InvalidArgument for an unknown name very similar to a known one. Other unknown names are accepted."""
        for name in self:
            lowered = name.lower()
            if lowered in _KNOWN or "." in name or lowered.startswith(_STORAGE_PREFIXES):
                continue
            for meant in get_close_matches(_OTHERWISE.get(lowered, lowered), _KNOWN, 1, _ALIKE):
                raise InvalidArgument(
                    f"unknown option {name}: did you mean {_KNOWN[meant]}?", error_class="DELTA_ILLEGAL_OPTION"
                )

    def require_no_travel(self, what: str) -> None:
        """Raise InvalidArgument for time travel options, because `what` already has a version."""
        if clash := [key for key in _TRAVEL if self.get(key) is not None]:
            raise InvalidArgument(f"{what} already has a version. Leave out {', '.join(clash)}")

    def hadoop_settings(self) -> dict[str, str]:
        """Return the options with settings of Hadoop's file systems."""
        return {name: self[name] for name in self if name.lower().startswith("fs.")}

    def storage_options(self) -> dict[str, str]:
        """Return the options with credentials and settings of an object store."""
        return {name: self[name] for name in self if name.lower().startswith(_STORAGE_PREFIXES)}


@dataclass(frozen=True)
class TimeTravel:
    """The requested version: `version`, or `timestamp_ms` since the epoch, or neither."""

    version: int | None = None
    timestamp_ms: int | None = None


def time_travel(options: Options, zone: str) -> TimeTravel:
    """Return `versionAsOf` or `timestampAsOf`. A timestamp without a time zone is in the session's zone.

    Raises InvalidArgument if both are set, or if a value is not a version or timestamp.
    """
    version, timestamp = options.integer("versionAsOf"), options.get("timestampAsOf")
    if version is not None and timestamp is not None:
        raise InvalidArgument(
            "time travel needs versionAsOf or timestampAsOf, not both", error_class="DELTA_ONEOF_IN_TIMETRAVEL"
        )
    return TimeTravel(version, None if timestamp is None else to_ms(timestamp, time_zone(zone)))


def split_path(path: str, zone: str) -> tuple[str, TimeTravel]:
    """Return the table and the version in `path@v3` or `path@yyyyMMddHHmmssSSS`, or `path` itself without a version."""
    if match := _AT_VERSION.match(path):
        return match[1], TimeTravel(version=int(match[2]))
    if match := _AT_TIMESTAMP.match(path):
        try:
            moment = dt.datetime.strptime(match[2][:14], "%Y%m%d%H%M%S").replace(
                microsecond=int(match[2][14:]) * 1000, tzinfo=time_zone(zone)
            )
        except ValueError as error:
            raise InvalidArgument(
                f"{path}: {match[2]} does not have the form yyyyMMddHHmmssSSS: {error}",
                error_class="DELTA_INVALID_TIMESTAMP_FORMAT",
            ) from error
        return match[1], TimeTravel(timestamp_ms=to_ms(moment))
    return path, TimeTravel()
