"""The names of the files in `_delta_log`: parsing and formatting.

Source: delta-protocol.md "Delta Log Entries", "Checkpoint Naming Scheme", "Log Compaction Files"; managed-commits.md;
PROTOCOL.md "Catalog-managed tables".
"""

from __future__ import annotations

import re
import uuid as uuids
from dataclasses import dataclass
from enum import Enum

from slackwater.errors import InvalidArgument

LOG = "_delta_log"
COMMITS_DIRECTORY = "_commits"
"""Directory of the staged commits of a table with the feature managedCommit."""
STAGED_COMMITS_DIRECTORY = "_staged_commits"
"""Directory of the staged commits of a table with the feature catalogManaged."""
STAGED_DIRECTORIES = (COMMITS_DIRECTORY, STAGED_COMMITS_DIRECTORY)

_MAX_VERSION = 2**63 - 1
_VERSION = r"([0-9]{20})"
_UUID = r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
_VERSIONED = re.compile(rf"{_VERSION}\.(.*)", re.DOTALL)
_COMPACTED = re.compile(rf"{_VERSION}\.compacted\.json")
_MULTIPART = re.compile(r"checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_UUID_CHECKPOINT = re.compile(rf"checkpoint\.{_UUID}\.(?:parquet|json)")
_STAGED_COMMIT = re.compile(rf"(?:{'|'.join(STAGED_DIRECTORIES)})/{_VERSION}\.{_UUID}\.json")
# Names of a known form with an invalid number or UUID. No writer creates such files, not even a newer one.
_MALFORMED = re.compile(r"checkpoint\.[^.]*\.(?:json|parquet)|checkpoint\.[^.]*\.[^.]*\.parquet|[^.]*\.compacted\.json")


class LogFileKind(str, Enum):
    """The kind of a log file; `OTHER` is a versioned file of an unknown kind. Readers must skip it."""

    COMMIT = "commit"
    COMPACTED = "compacted"
    CHECKPOINT_CLASSIC = "checkpoint_classic"
    CHECKPOINT_MULTIPART = "checkpoint_multipart"
    CHECKPOINT_UUID = "checkpoint_uuid"
    CRC = "crc"
    STAGED_COMMIT = "staged_commit"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file, described by its name.

    `name` is relative to `_delta_log`. `end_version` belongs to compacted files, `part` (from 1) and `num_parts` to
    multi-part checkpoints, `uuid` to UUID-named checkpoints and staged commits.
    """

    kind: LogFileKind
    version: int
    name: str
    end_version: int | None = None
    part: int | None = None
    num_parts: int | None = None
    uuid: str | None = None


_KIND_BY_SUFFIX = {
    "json": LogFileKind.COMMIT,
    "crc": LogFileKind.CRC,
    "checkpoint.parquet": LogFileKind.CHECKPOINT_CLASSIC,
}


def parse_log_file(name: str) -> LogFile | None:
    """Return the log file called `name` (relative to `_delta_log`), or None if it is not a log file.

    Never raises, because a listing may contain any name.
    """
    if match := _VERSIONED.fullmatch(name):
        version, suffix = int(match[1]), match[2]
        if kind := _KIND_BY_SUFFIX.get(suffix):
            return LogFile(kind, version, name)
        return _parse_suffix(name, version, suffix)
    if match := _STAGED_COMMIT.fullmatch(name):
        return LogFile(LogFileKind.STAGED_COMMIT, int(match[1]), name, uuid=match[2])
    return None


def version_prefix(version: int) -> str:
    """Return the 20 digits at the start of the name of every file of `version`. They sort like versions.

    Raises InvalidArgument for a version that is negative or exceeds 63 bits.
    """
    if not 0 <= version <= _MAX_VERSION:
        raise InvalidArgument(f"a version must lie between 0 and {_MAX_VERSION}, found {version}")
    return f"{version:020d}"


def commit_name(version: int) -> str:
    """Return the name of the commit `version`. Raises InvalidArgument for an invalid version."""
    return f"{version_prefix(version)}.json"


def crc_name(version: int) -> str:
    """Return the name of the version checksum of `version`. Raises InvalidArgument for an invalid version."""
    return f"{version_prefix(version)}.crc"


def checkpoint_name(version: int) -> str:
    """Return the name of the classic checkpoint of `version`. Raises InvalidArgument for an invalid version."""
    return f"{version_prefix(version)}.checkpoint.parquet"


def uuid_checkpoint_name(version: int, uuid: uuids.UUID | str, extension: str) -> str:
    """Return the name of a UUID-named V2 checkpoint.

    `extension` is `json` or `parquet`. Raises InvalidArgument for another extension, an invalid version or an invalid
    UUID.
    """
    if extension not in ("json", "parquet"):
        raise InvalidArgument(f"a checkpoint is 'json' or 'parquet', found {extension!r}")
    return f"{version_prefix(version)}.checkpoint.{_canonical(uuid)}.{extension}"


def compacted_name(start_version: int, end_version: int) -> str:
    """Return the name of the log compaction file for the commits `[start, end]`.

    Raises InvalidArgument for an empty range or an invalid version.
    """
    if start_version > end_version:
        raise InvalidArgument(f"a compaction must not end before it starts, found {start_version} to {end_version}")
    return f"{version_prefix(start_version)}.{version_prefix(end_version)}.compacted.json"


def staged_file_name(version: int, uuid: uuids.UUID | str, directory: str = COMMITS_DIRECTORY) -> str:
    """Return the file name of a staged commit, as recorded by an owner: relative to COMMITS_DIRECTORY.

    In another `directory`, the name begins with the directory and is relative to `_delta_log`. Raises InvalidArgument
    for an invalid version or an invalid UUID.
    """
    name = f"{version_prefix(version)}.{_canonical(uuid)}.json"
    return name if directory == COMMITS_DIRECTORY else f"{directory}/{name}"


def staged_commit_name(version: int, uuid: uuids.UUID | str) -> str:
    """Return the name of a staged commit that is not backfilled yet, relative to `_delta_log`.

    Raises InvalidArgument for an invalid version or an invalid UUID. Source: managed-commits.md.
    """
    return f"{COMMITS_DIRECTORY}/{staged_file_name(version, uuid)}"


def staged_path(file_name: str) -> str:
    """Return the path of the staged commit called `file_name`, relative to the table's root. See `staged_file_name`."""
    return f"{LOG}/{file_name}" if "/" in file_name else f"{LOG}/{COMMITS_DIRECTORY}/{file_name}"


def commit_path(version: int) -> str:
    """Return the path of the written or backfilled commit of `version`, relative to the table's root."""
    return f"{LOG}/{commit_name(version)}"


def _parse_suffix(name: str, version: int, suffix: str) -> LogFile | None:
    if match := _UUID_CHECKPOINT.fullmatch(suffix):
        return LogFile(LogFileKind.CHECKPOINT_UUID, version, name, uuid=match[1])
    if match := _MULTIPART.fullmatch(suffix):
        part, num_parts = int(match[1]), int(match[2])
        if not 1 <= part <= num_parts:
            return None
        return LogFile(LogFileKind.CHECKPOINT_MULTIPART, version, name, part=part, num_parts=num_parts)
    if match := _COMPACTED.fullmatch(suffix):
        end_version = int(match[1])
        return LogFile(LogFileKind.COMPACTED, version, name, end_version) if version <= end_version else None
    return None if _MALFORMED.fullmatch(suffix) else LogFile(LogFileKind.OTHER, version, name)


def _canonical(uuid: uuids.UUID | str) -> str:
    try:
        return str(uuid if isinstance(uuid, uuids.UUID) else uuids.UUID(uuid))
    except ValueError as error:
        raise InvalidArgument(f"expected a UUID, found {uuid!r}") from error
