"""Lists the staged commits of a table: those of managedCommit, then those of catalogManaged.

A table that changed between the two features has files of both. Source: managed-commits.md "Commit Files"; PROTOCOL.md
"Terminology: Commits".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.protocol.actions.file_names import (
    COMMITS_DIRECTORY,
    LOG,
    STAGED_DIRECTORIES,
    LogFile,
    LogFileKind,
    parse_log_file,
    version_prefix,
)
from slackwater.storage.store import ObjectMeta, ObjectStore


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged commit: its `meta` in the store, its parsed name, and its name as an owner records it."""

    meta: ObjectMeta
    file: LogFile
    file_name: str


def staged_files(store: ObjectStore, from_version: int = 0) -> Iterator[StagedFile]:
    """Yield the staged commits from `from_version` on, by directory and name. Other files are left out.

    Raises StorageError.
    """
    for directory in STAGED_DIRECTORIES:
        path = f"{LOG}/{directory}"
        for meta in store.list_from(path, f"{path}/{version_prefix(from_version)}"):
            file = parse_log_file(meta.path.removeprefix(f"{LOG}/"))
            if file is not None and file.kind is LogFileKind.STAGED_COMMIT:
                yield StagedFile(meta, file, file.name.removeprefix(f"{COMMITS_DIRECTORY}/"))
