"""Options of a streaming source.

Source: delta-spark's DeltaOptions, with its names and defaults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slackwater.errors import InvalidArgument

MAX_FILES = 1000
"""Default maximum number of files in a micro-batch."""
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a streaming source.

    `starting_version`: a version, or `latest` for commits from now on; `starting_ms`: a time in ms since the epoch.
    Without both, the stream reads the newest version completely, then later commits. `max_files`, `max_bytes`: limits
    of one micro-batch; its last file may exceed `max_bytes`. See `require_appended` for `ignore_*` and
    `skip_change_commits`. `event_time`: the time column that orders the files of the initial snapshot; None for
    modification time.
    """

    starting_version: int | str | None = None
    starting_ms: int | None = None
    max_files: int | None = MAX_FILES
    max_bytes: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    change_feed: bool = False
    exclude: str | None = None
    fail_on_data_loss: bool = True
    event_time: str | None = None

    def __post_init__(self) -> None:
        """Raise InvalidArgument for invalid or contradicting options."""
        if self.starting_version is not None and self.starting_ms is not None:
            raise InvalidArgument(
                "set startingVersion or startingTimestamp, not both",
                error_class="DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
            )
        if self.change_feed and (self.ignore_deletes or self.allows_changes):
            raise InvalidArgument(
                "a change feed (readChangeFeed) contains every change, but ignoreDeletes, ignoreChanges and "
                "skipChangeCommits are for streams of appended rows only. Remove these options",
                error_class="DELTA_ILLEGAL_OPTION",
            )
        if isinstance(self.starting_version, str) and self.starting_version != LATEST:
            raise InvalidArgument(
                f"startingVersion must be a version from 0, or latest, found {self.starting_version!r}",
                error_class="DELTA_ILLEGAL_OPTION",
            )
        for name, value in (("maxFilesPerTrigger", self.max_files), ("maxBytesPerTrigger", self.max_bytes)):
            if value is not None and value <= 0:
                raise InvalidArgument(
                    f"option {name} must be greater than 0, found {value}", error_class="DELTA_ILLEGAL_OPTION"
                )
        if self.exclude is not None:
            try:
                re.compile(self.exclude)
            except re.error as error:
                raise InvalidArgument(
                    f"option excludeRegex is not a regular expression: {self.exclude!r}: {error}",
                    error_class="DELTA_REGEX_OPT_SYNTAX_ERROR",
                ) from error

    @property
    def allows_changes(self) -> bool:
        """True if commits with changed rows are accepted."""
        return self.ignore_changes or self.skip_change_commits
