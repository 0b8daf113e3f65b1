"""Reader options: names as delta-spark's, in any case.

Source: delta-spark's DeltaOptions; the options of this package stand beside them.
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
# Of readers and writers, streams among them, here and in delta-spark: what looks much like one of them is one mistyped.
_NAMES = (
    "versionAsOf timestampAsOf allowAfterLastCommit strict readChangeFeed readChangeData startingVersion "
    "startingTimestamp endingVersion endingTimestamp rowTracking allowPathsOutsideRoot replay rows mergeSchema "
    "overwriteSchema replaceWhere replaceUsing replaceOn targetAlias partitionOverwriteMode txnAppId txnVersion "
    "userMetadata userName dataChange optimizeWrite maxRecordsPerFile compression path checkpointLocation "
    "queryName maxFilesPerTrigger maxBytesPerTrigger ignoreDeletes ignoreChanges ignoreFileDeletion skipChangeCommits "
    "excludeRegex failOnDataLoss schemaTrackingLocation schemaLocation withEventTimeOrder eventTimeColumn"
).split()
_KNOWN = {name.lower(): name for name in _NAMES}
# What looks more like another.
_OTHERWISE = {"version": "versionasof"}
_ALIKE = 0.8


class Options(Mapping[str, str]):
    """Options as the user gave them; keys are found in any case."""

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
        """Whether one of `keys` is true; raises InvalidArgument for a value that is neither true nor false."""
        return next((choice for key in keys if (choice := self.choice(key)) is not None), False)

    def choice(self, key: str) -> bool | None:
        """Return the value of a flag, None if it is not given. Raises InvalidArgument as `flag`."""
        text = self.get(key)
        if text is None or text.lower() in ("true", "false"):
            return None if text is None else text.lower() == "true"
        raise InvalidArgument(f"option {key} must be true or false, found {text!r}", error_class="DELTA_ILLEGAL_OPTION")

    @property
    def after_last_commit_allowed(self) -> bool:
        """Whether a time after the last commit means the latest version: `allowAfterLastCommit`, or `strict=false`."""
        return after_last_commit_allowed(self.flag("allowAfterLastCommit"), self.choice("strict"))

    def integer(self, key: str) -> int | None:
        """A whole number from 0, None where it is not set; raises InvalidArgument for anything else."""
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
        """Raise InvalidArgument for a name that looks much like one that is known; other unknown names pass."""
        for name in self:
            lowered = name.lower()
            if lowered in _KNOWN or "." in name or lowered.startswith(_STORAGE_PREFIXES):
                continue
            for meant in get_close_matches(_OTHERWISE.get(lowered, lowered), _KNOWN, 1, _ALIKE):
                raise InvalidArgument(
                    f"unknown option {name}: did you mean {_KNOWN[meant]}?", error_class="DELTA_ILLEGAL_OPTION"
                )

    def require_no_travel(self, what: str) -> None:
        """Raise InvalidArgument for options that name another version than that of `what`, which has one already."""
        if clash := [key for key in _TRAVEL if self.get(key) is not None]:
            raise InvalidArgument(f"{what} is of one version already: leave out {', '.join(clash)}")

    def hadoop_settings(self) -> dict[str, str]:
        """The options that are settings of Hadoop's file systems."""
        return {name: self[name] for name in self if name.lower().startswith("fs.")}

    def storage_options(self) -> dict[str, str]:
        """The options that are credentials and settings of an object store."""
        return {name: self[name] for name in self if name.lower().startswith(_STORAGE_PREFIXES)}


@dataclass(frozen=True)
class TimeTravel:
    """The version asked for: `version`, or `timestamp_ms` since the epoch, or neither."""

    version: int | None = None
    timestamp_ms: int | None = None


def time_travel(options: Options, zone: str) -> TimeTravel:
    """`versionAsOf` or `timestampAsOf`, the latter in the session's time zone where it names none.

    Raises InvalidArgument for both, or for values that are no version and no timestamp.
    """
    version, timestamp = options.integer("versionAsOf"), options.get("timestampAsOf")
    if version is not None and timestamp is not None:
        raise InvalidArgument("give versionAsOf or timestampAsOf, not both", error_class="DELTA_ONEOF_IN_TIMETRAVEL")
    return TimeTravel(version, None if timestamp is None else to_ms(timestamp, time_zone(zone)))


def split_path(path: str, zone: str) -> tuple[str, TimeTravel]:
    """The table and the version that `path@v3` or `path@yyyyMMddHHmmssSSS` names; `path` itself where it names none."""
    if match := _AT_VERSION.match(path):
        return match[1], TimeTravel(version=int(match[2]))
    if match := _AT_TIMESTAMP.match(path):
        try:
            moment = dt.datetime.strptime(match[2][:14], "%Y%m%d%H%M%S").replace(
                microsecond=int(match[2][14:]) * 1000, tzinfo=time_zone(zone)
            )
        except ValueError as error:
            raise InvalidArgument(
                f"{path}: {match[2]} is not of the form yyyyMMddHHmmssSSS: {error}",
                error_class="DELTA_INVALID_TIMESTAMP_FORMAT",
            ) from error
        return match[1], TimeTravel(timestamp_ms=to_ms(moment))
    return path, TimeTravel()
