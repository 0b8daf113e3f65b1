"""The log of a table with a commit owner: backfilled commits from a listing, and later ratified commits from the owner.

Source: managed-commits.md "Reading managed-commit tables", "Getting Un-backfilled Commits from Commit Owner";
PROTOCOL.md "Reading Catalog-managed Tables".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.errors import CommitOwnerRequired, CorruptTable, MissingCommit, ObjectNotFound, UnratifiedCommit
from slackwater.log.files.segment import CommitFile, LogListing, list_log
from slackwater.owner.api.owner_registry import OwnedTable, find_owner, registered_location
from slackwater.owner.api.unratified_commits import explained
from slackwater.protocol.actions.file_names import LOG, commit_name, staged_path
from slackwater.protocol.features.managed_commits import OWNER_NAME, ownership
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.location import LOCAL, parse_location
from slackwater.storage.store import ObjectStore

if TYPE_CHECKING:
    from slackwater.owner.api.commits import Commit, GetCommitsResponse

_MOST_LISTINGS = 20


def list_managed_log(
    store: ObjectStore, owned: OwnedTable, start_version: int = 0, listed: LogListing | None = None
) -> LogListing:
    """List the log with the owner's commits not backfilled yet. `listed` is a listing made immediately before, if any.

    The owner is queried after the listing. The listing is repeated if a backfill ran in between.

    Raises:
        UnratifiedCommit: If the log holds a commit not ratified by the owner.
        MissingCommit: If neither the log nor the owner has the commits up to the latest ratified version.
        TableNotFound: If the owner does not have the table.
        CommitOwnerUnavailable: If the owner cannot be reached.
    """
    for _ in range(_MOST_LISTINGS):
        listing = listed or list_log(store, start_version)
        response = owned.recent_commits(start_version)
        merged = _merged(store, listing, response, start_version)
        if merged is not None:
            return merged
        listed = None
    raise MissingCommit(
        f"{store.root_url}: the commit owner ratified version {response.latest_version}, but the log ends earlier and "
        "the owner does not return the commits between. Run `slackwater lake repair`"
    )


def owner_of(store: ObjectStore, configuration: TableConfiguration) -> OwnedTable | None:
    """Return the owner named by a version of the table, if open in this process. The table may have a newer owner."""
    try:
        found = ownership(configuration, store.root_url)
    except CorruptTable:
        # An invalid state only blocks writers, so reads continue without an owner.
        return None
    owned = None if found is None else find_owner(found)
    if owned is None:
        return None
    if store.local_root is not None:
        return None if _is_copy(owned, Path(store.local_root)) else owned
    registered = registered_location(owned)
    return None if registered is not None and not _is_same_place(registered, store.root_url) else owned


def catalog_required(where: str, configuration: TableConfiguration) -> CommitOwnerRequired:
    """Return the error for the table `where`, if its latest version is known only to its catalog.

    Source: PROTOCOL.md "Reading Catalog-managed Tables".
    """
    found = None
    with suppress(CorruptTable):
        found = ownership(configuration, where)
    how = (
        "Open its lake first, with Lake.open or Lake.connect, in this process (in a terminal: slackwater --lake LAKE)"
        if found is not None and found.name == OWNER_NAME
        else "Connect to its catalog first, with Lake.connect('uc:https://…', catalog=…), and look the table up by name"
    )
    owner = "its catalog" if found is None else found.description
    return CommitOwnerRequired(
        f"{where} has the table feature catalogManaged: only {owner} knows its latest version. {how}. "
        "Snapshot.load(path, published_only=True) reads the versions published in its log"
    )


def read_commits(store: ObjectStore, files: Sequence[CommitFile]) -> list[bytes]:
    """Return the contents of commits. Raises ObjectNotFound for a commit found nowhere."""
    wanted = [file for file in files if file.data is None]
    try:
        contents = store.read_many([file.path for file in wanted])
    except ObjectNotFound:
        contents = [_read_either(store, file) for file in wanted]
    read = {file.path: data for file, data in zip(wanted, contents, strict=True)}
    return [read[file.path] if file.data is None else file.data for file in files]


def commit_file(commit: Commit) -> CommitFile:
    """Return the file of a commit named by its owner, or the backfilled file if the owner no longer names one."""
    if not commit.file_name:
        path = f"{LOG}/{commit_name(commit.version)}"
        return CommitFile(commit.version, commit.version, path, commit.timestamp_ms, commit.size_bytes, commit.data)
    path = staged_path(commit.file_name)
    return CommitFile(commit.version, commit.version, path, commit.timestamp_ms, commit.size_bytes, commit.data)


def _read_either(store: ObjectStore, file: CommitFile) -> bytes:
    """Return the content of a commit. A staged file may be backfilled and deleted after the owner named it."""
    try:
        return store.read(file.path)
    except ObjectNotFound:
        if not file.is_staged:
            raise
        return store.read(f"{LOG}/{commit_name(file.version)}")


def _is_copy(owned: OwnedTable, root: Path) -> bool:
    """Return whether the owner's table is another directory of this machine.

    A copied table still names the owner of its original.
    """
    registered = registered_location(owned)
    locations = (
        [table.location for table in owned.owner.tables() if table.table_id == owned.table_id]
        if registered is None
        else [registered]
    )
    for place in map(parse_location, locations):
        if place.scheme == LOCAL:
            # If the directory does not exist here, the owner may be on another machine.
            with suppress(OSError):
                return not root.samefile(f"/{place.key}")
    return False


def _is_same_place(registered: str, root_url: str) -> bool:
    """Return whether two URLs in object stores are one place. The scheme does not matter: s3 and s3a are one."""
    one, other = parse_location(registered), parse_location(root_url)
    return (one.authority, one.key) == (other.authority, other.key)


def _merged(
    store: ObjectStore, listing: LogListing, response: GetCommitsResponse, start_version: int
) -> LogListing | None:
    """Return the listing with the owner's commits, None if a backfill ran between the two. Raises UnratifiedCommit."""
    backfilled = listing.latest_version
    if backfilled is not None and backfilled > response.latest_version:
        raise UnratifiedCommit(
            f"{store.root_url}: the log holds version {backfilled}, but the commit owner has ratified none after "
            f"{response.latest_version}: {explained(store, response.latest_version + 1)}"
        )
    recent = {commit.version: commit_file(commit) for commit in response.commits}
    for version, file in recent.items():
        listed = listing.commits.get(version)
        if listed is not None and listed.size_bytes != file.size_bytes:
            raise UnratifiedCommit(
                f"{store.root_url}/{listed.path} is not the version {version} that the commit owner ratified: "
                f"{explained(store, version)}"
            )
    # The owner's entry wins for a commit in both, because the owner is authoritative.
    merged = replace(listing, commits=dict(sorted({**listing.commits, **recent}.items())))
    latest = merged.latest_version
    reaches = start_version - 1 if latest is None else latest
    listed_to = start_version - 1 if backfilled is None else backfilled
    gap = any(v not in merged.commits for v in range(listed_to + 1, reaches + 1))
    return None if gap or reaches < response.latest_version >= start_version else merged
