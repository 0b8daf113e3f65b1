"""Versions and times: finds the version at a timestamp, and reads the provenance information of commits.

Times are in milliseconds since the epoch. Source: delta-protocol.md "In-Commit Timestamps",
"Commit Provenance Information".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slackwater.errors import CorruptLog, InvalidArgument, ObjectNotFound, TimestampOutOfRange, VersionNotFound
from slackwater.html.number_format import counted, visible
from slackwater.html.redaction import without_secrets
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.segment import CommitFile, LogListing
from slackwater.protocol.actions.actions import parse_actions, parse_commit
from slackwater.protocol.actions.commit_info import info_of
from slackwater.protocol.actions.commit_timestamps import (
    has_in_commit_timestamp,
    monotonic,
    split_by_enablement,
    version_at,
)
from slackwater.protocol.features.in_commit_timestamps import is_enabled
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION
from slackwater.storage.store import ObjectStore

if TYPE_CHECKING:
    from slackwater.html.element import Markup

_BEGINNING_BYTES = 1 << 16
_ADD = b'{"add":'
_SHOWN = 20


class CommitHistory:
    """The commits in the log, with their times.

    `newest` is the configuration of the newest version: its properties name the first version with an in-commit
    timestamp.
    """

    def __init__(self, store: ObjectStore, listing: LogListing, newest: TableConfiguration) -> None:
        self._store = store
        self._listing = listing
        self._commits = listing.commits
        self._enabled = is_enabled(newest)
        self._enablement_version = newest.properties.integer(ICT_ENABLEMENT_VERSION) if self._enabled else None
        self._enablement_ms = newest.properties.integer(ICT_ENABLEMENT_TIMESTAMP) if self._enabled else None
        self._in_commit_ms: dict[int, int] = {}
        ordered = sorted(self._commits)
        self._file_ms = dict(zip(ordered, monotonic([self._commits[v].modified_ms for v in ordered]), strict=True))

    def __repr__(self) -> str:
        versions = self.versions
        held = f"versions {versions[0]} to {versions[-1]}" if versions else "no versions"
        return f"<{type(self).__name__} of {visible(without_secrets(self._store.root_url))}: {held}>"

    def _repr_html_(self) -> str:
        # Imported here, because only notebooks need it.
        from slackwater.html.components import card_or_reason

        return card_or_reason(type(self).__name__, self._store.root_url, self._card)

    def _card(self) -> Markup:
        """Return the HTML card of the newest commits, read from the log."""
        from slackwater.html.components import card
        from slackwater.html.element import element
        from slackwater.log.history_html import commit_table

        newest = [
            (version, format_ms(ms).removesuffix(" UTC"), actions) for version, ms, actions in self.commits(_SHOWN)
        ]
        left = len(self._commits) - len(newest)
        more = element("p", f"and {counted(left, 'commit')} more", class_="sw-note") if left > 0 else None
        return card(type(self).__name__, without_secrets(self._store.root_url), commit_table(newest), more)

    @property
    def versions(self) -> list[int]:
        """The versions with a commit file in the log, ascending."""
        return sorted(self._commits)

    def timestamp_ms(self, version: int) -> int:
        """Return the commit time of `version`: its in-commit timestamp if enabled for it, else its file's time.

        File times are made strictly increasing. Raises VersionNotFound if the commit is not in the log, CorruptLog if a
        required in-commit timestamp is missing.
        """
        if version not in self._commits:
            raise VersionNotFound(f"{self._store.root_url}: the commit of version {version} is not in the log")
        if self._enabled and has_in_commit_timestamp(version, self._enablement_version):
            return self._in_commit_timestamp(version)
        return self._file_ms[version]

    def file_ms(self, version: int) -> int:
        """Return the modification time of the commit file of `version`, made strictly increasing."""
        return self._file_ms[version]

    def version_at(self, timestamp_ms: int, allow_after_last_commit: bool = False) -> int:
        """Return the newest version committed at or before `timestamp_ms` and still readable from the log.

        Raises TimestampOutOfRange for a time before the first version, or after the last commit: a future commit may
        still get a timestamp at or before that time. With `allow_after_last_commit`, a time after the last commit gives
        the latest version.
        Source: "Recommendations for Readers of Tables with In-Commit Timestamps"; delta-spark's time travel.
        """
        versions = self._recreatable()
        if not versions:
            raise TimestampOutOfRange(
                f"{self._store.root_url}: the log holds no commit with a timestamp",
                error_class="DELTA_NO_COMMITS_FOUND",
            )
        first, last = versions.start, versions.stop - 1
        candidates = versions
        if self._enabled:
            candidates = split_by_enablement(timestamp_ms, versions, self._enablement_version, self._enablement_ms)
        found = self._newest_at(timestamp_ms, candidates)
        if found is None:
            raise TimestampOutOfRange(
                f"{self._store.root_url}: no version is as old as {format_ms(timestamp_ms)}. The first version, "
                f"{first}, is of {format_ms(self.timestamp_ms(first))} (DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION)",
                error_class="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
            )
        if found == last and not allow_after_last_commit:
            self.require_not_after_last_commit(timestamp_ms, last)
        return found

    def require_not_after_last_commit(self, timestamp_ms: int, last: int) -> None:
        """Raise TimestampOutOfRange if `timestamp_ms` is after the commit time of `last`, the newest version."""
        last_ms = self.timestamp_ms(last)
        if timestamp_ms > last_ms:
            raise TimestampOutOfRange(
                f"{self._store.root_url}: {format_ms(timestamp_ms)} is after the last commit, version {last} of "
                f"{format_ms(last_ms)}. Use a time up to that, omit it for the newest version, or set the option "
                "allowAfterLastCommit (DELTA_TIMESTAMP_GREATER_THAN_COMMIT)",
                error_class="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
            )

    def version_from(self, timestamp_ms: int, latest: int, allow_after_last_commit: bool = False) -> int:
        """Return the first version in the log committed at `timestamp_ms` or later; `latest` is the newest version.

        Returns `latest` + 1 if no such version exists. Raises TimestampOutOfRange for a time after the last commit,
        unless `allow_after_last_commit`.
        """
        for version in self.versions:
            if self.timestamp_ms(version) >= timestamp_ms:
                return version
        if not allow_after_last_commit:
            self.require_not_after_last_commit(timestamp_ms, latest)
        return latest + 1

    def entries(self, limit: int | None = None) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
        """Yield (version, timestamp in ms, commitInfo) of every commit, newest first, at most `limit`.

        commitInfo may be empty.
        """
        for version, timestamp_ms, actions in self.commits(limit):
            yield version, timestamp_ms, info_of(actions)

    def commits(
        self, limit: int | None = None, before: int | None = None
    ) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
        """Yield (version, timestamp in ms, actions) of every commit, newest first, at most `limit`.

        `before`: only commits before this version. Reads each commit on demand.
        """
        versions = [version for version in self._commits if before is None or version < before]
        for version in sorted(versions, reverse=True)[: limit if limit is not None else None]:
            try:
                actions = self.actions(version)
            except VersionNotFound:
                # Cleaned up after the listing, and all older commits before it.
                return
            in_commit_ms = info_of(actions).get("inCommitTimestamp")
            if isinstance(in_commit_ms, int):
                self._in_commit_ms.setdefault(version, in_commit_ms)
            yield version, self.timestamp_ms(version), actions

    def _recreatable(self) -> range:
        """Return the readable versions: version 0 or the oldest usable complete checkpoint, up to the newest commit."""
        if not self._commits:
            return range(0)
        first = last = max(self._commits)
        while first - 1 in self._commits:
            first -= 1
        if first > 0:
            starts = [c.version for c in self._listing.checkpoints if c.version >= first]
            first = min(starts, default=last + 1)
        return range(first, last + 1)

    def _newest_at(self, timestamp_ms: int, candidates: range) -> int | None:
        if not candidates:
            return None
        if not (self._enabled and has_in_commit_timestamp(candidates.start, self._enablement_version)):
            return version_at(timestamp_ms, candidates, [self._file_ms[v] for v in candidates])
        # In-commit timestamps increase strictly, so a binary search reads only O(log n) commits.
        low, high = candidates.start, candidates.stop
        while low < high:
            middle = (low + high) // 2
            if self._in_commit_timestamp(middle) <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > candidates.start else None

    def _in_commit_timestamp(self, version: int) -> int:
        if version not in self._in_commit_ms:
            value = self._commit_info(version).get("inCommitTimestamp")
            if not isinstance(value, int):
                raise CorruptLog(
                    f"{self._store.root_url}/{self._commits[version].path}: in-commit timestamps are enabled, but "
                    f"its commitInfo has no inCommitTimestamp (found {value!r})",
                    error_class="DELTA_MISSING_COMMIT_TIMESTAMP",
                )
            self._in_commit_ms[version] = value
        return self._in_commit_ms[version]

    def actions(self, version: int) -> list[dict[str, Any]]:
        """Return the actions of the commit `version`. Raises VersionNotFound if not in the log, CorruptLog."""
        if version not in self._commits:
            raise VersionNotFound(f"{self._store.root_url}: the commit of version {version} is not in the log")
        return commit_actions(self._store, self._commits[version])

    def actions_but_adds(self, version: int) -> list[dict[str, Any]]:
        """Return the actions of the commit `version` without adds, to save parsing time. Raises as `actions` does."""
        if version not in self._commits:
            raise VersionNotFound(f"{self._store.root_url}: the commit of version {version} is not in the log")
        return commit_actions(self._store, self._commits[version], adds=False)

    def info(self, version: int) -> Mapping[str, Any]:
        """Return the commitInfo of `version`, empty if absent. Reads only the beginning of a large commit.

        Raises as `actions` does.
        """
        commit = self._commits.get(version)
        if commit is not None and commit.data is None and commit.size_bytes > _BEGINNING_BYTES:
            with suppress(ObjectNotFound):
                line, found, _ = self._store.read_range(commit.path, 0, _BEGINNING_BYTES).partition(b"\n")
                if found and line.startswith(b'{"commitInfo"'):
                    return info_of(parse_commit(line, f"{self._store.root_url}/{commit.path}"))
        return self._commit_info(version)

    def _commit_info(self, version: int) -> Mapping[str, Any]:
        return info_of(self.actions(version))


def commit_actions(store: ObjectStore, commit: CommitFile, adds: bool = True) -> list[dict[str, Any]]:
    """Return the actions of a listed commit, without adds if `adds` is False.

    Raises VersionNotFound if the commit was cleaned up since the listing, CorruptLog.
    """
    where = f"{store.root_url}/{commit.path}"
    try:
        data = read_commits(store, [commit])[0]
    except ObjectNotFound as error:
        raise VersionNotFound(
            f"{store.root_url}: the commit of version {commit.version} was cleaned up while the log was being read"
        ) from error
    if adds or _ADD not in data:
        return parse_commit(data, where)
    others = parse_actions(b"\n".join(line for line in data.split(b"\n") if not line.startswith(_ADD)), where)
    # A line with spaces, or with another field first, may also be an add.
    return [action for action in others if "add" not in action]


def after_last_commit_allowed(allowed: bool, strict: bool | None) -> bool:
    """Return whether a time after the last commit gives the latest version: `allowed`, or the opposite of `strict`.

    Raises InvalidArgument if `allowed` and `strict` contradict each other.
    """
    if allowed and strict:
        raise InvalidArgument(
            "strict rejects a time after the last commit, but the call also allows it. Set only one of the two"
        )
    return allowed or strict is False


def format_ms(timestamp_ms: int) -> str:
    """Return text such as `2026-11-21 10:00:00.000 UTC`, or the bare number if out of the calendar's range."""
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms since the epoch"
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'milliseconds')} UTC"


def to_ms(timestamp: dt.datetime | dt.date | str | int, zone: dt.tzinfo = dt.timezone.utc) -> int:
    """Return a moment in ms since the epoch. A time without a time zone is interpreted in `zone`.

    An int is already in ms since the epoch. Text is ISO 8601, with a space or a `T`. A date alone is its midnight.
    Raises InvalidArgument for anything else.
    """
    if isinstance(timestamp, bool) or not isinstance(timestamp, (int, str, dt.date)):
        raise InvalidArgument(f"expected a timestamp, found {timestamp!r}", error_class="DELTA_TIMESTAMP_INVALID")
    if isinstance(timestamp, int):
        return timestamp
    if isinstance(timestamp, str):
        timestamp = _parse_text(timestamp)
    if not isinstance(timestamp, dt.datetime):
        timestamp = dt.datetime(timestamp.year, timestamp.month, timestamp.day)  # noqa: DTZ001  (zone follows)
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=zone)
    return (timestamp - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(milliseconds=1)


def _parse_text(text: str) -> dt.datetime:
    cleaned = text.strip()
    if cleaned.endswith(("Z", "z")):
        cleaned = cleaned[:-1] + "+00:00"
    try:
        return dt.datetime.fromisoformat(cleaned)
    except ValueError:
        pass
    for form in ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S.%f%z"):
        try:
            return dt.datetime.strptime(cleaned, form)  # noqa: DTZ007  (the caller adds the zone)
        except ValueError:
            continue
    raise InvalidArgument(
        f"The provided timestamp ({text!r}) cannot be converted to a valid timestamp. Write it as "
        "2026-11-21 10:00:00 or 2026-11-21T10:00:00Z.",
        error_class="DELTA_TIMESTAMP_INVALID",
    )
