"""Identity of a lake: detects copies of its root directory and of its database.

A moved directory or file retains its inode, and a copy has a new inode. A copy has its own history from then on, so it
must not continue under the identity of the original. A restored database may be older than the tables. Source:
docs/recovery.md "Copies and moves".
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import OperationNotAllowed
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.staged_files import staged_files
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, tables
from slackwater.owner.state.commit_files import versions_after
from slackwater.owner.state.log_head import RATIFIED
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.file_names import staged_path
from slackwater.storage.location import LOCAL, S3_SCHEMES, parse_location
from slackwater.storage.store import ObjectStore

_STATE = sa.select(owner.c.root_url, owner.c.root_mark, owner.c.database_mark)


def require_same_lake(database: Database, places: TableStores) -> None:
    """Check that the database belongs to this root and is not older than the tables, if detectable.

    Raises OperationNotAllowed with a remedy, StorageError.
    """
    root_url = _plain(places.root_url)
    elsewhere = is_elsewhere(database, root_url)
    if elsewhere:
        raise OperationNotAllowed(
            f"{database.name} belongs to the lake at {elsewhere}, and {root_url} is not that directory. It is a "
            "copy, or was moved to another disk. `slackwater lake recover` makes it a separate lake, whose tables "
            "accept commits only from it"
        )
    now = {"root_url": root_url, "root_mark": _root_mark(root_url), "database_mark": database.mark()}
    before = database.read(lambda c: c.execute(_STATE).one())._asdict()
    if now == before:
        return
    changed = [key for key in ("root_mark", "database_mark") if before[key] and now[key] != before[key]]
    if changed:
        found = _newer_than_known(database, places)
        if found:
            raise OperationNotAllowed(
                f"{database.name} or the tables were restored from a copy, and the database is older than the "
                f"tables: {found}. Run `slackwater lake recover` to include the commits unknown to the database"
            )
    remember(database, root_url)


def remember(database: Database, root_url: str) -> None:
    """Record that the database belongs to the lake at `root_url`."""
    plain = _plain(root_url)
    values = {"root_url": plain, "root_mark": _root_mark(plain), "database_mark": database.mark()}
    database.write(lambda c: c.execute(sa.update(owner).values(**values)))


def is_elsewhere(database: Database, root_url: str) -> str:
    """Return the recorded root if different from `root_url`, '' if equal or unknown."""
    plain = _plain(root_url)
    row = database.read(lambda c: c.execute(_STATE).first())
    if row is None or row.root_url in ("", plain) or row.root_mark == _root_mark(plain) != "":
        return ""
    return str(row.root_url)


def _root_mark(root_url: str) -> str:
    """Return a mark of the directory that survives a move, '' if there is no directory."""
    location = parse_location(root_url)
    if location.scheme == LOCAL:
        with suppress(OSError):
            return str(Path(f"/{location.key}").stat().st_ino)
    return ""


def _plain(root_url: str) -> str:
    """Return the URL with one canonical scheme for the store."""
    location = parse_location(root_url)
    return location.url.replace(f"{location.scheme}:", "s3:", 1) if location.scheme in S3_SCHEMES else location.url


def _newer_than_known(database: Database, places: TableStores) -> str:
    """Return a description of possible commits unknown to the database, '' if there are none."""
    rows = database.read(lambda c: c.execute(sa.select(tables).where(tables.c.state == TableState.ACTIVE.value)).all())
    for row in rows:
        store = places.store(row.location)
        in_log = versions_after(store, row.ratified_version)
        staged = _staged_after(store, row.ratified_version)
        # Read after listing the files, so that concurrent commits are known to the database.
        now, under_way = database.read(lambda c, of=row.table_id: _known(c, of))  # type: ignore[misc]
        if now is None:
            continue
        ratified = now.ratified_version
        if max(in_log, default=ratified) > ratified:
            return f"the log of {store.root_url} continues after version {ratified}"
        for name, version in staged.items():
            if version <= ratified:
                continue
            found = f"{store.root_url}/{staged_path(name)} may be committed"
            if name not in under_way:
                return found
            # The commit was in progress at the time of the copy, and may have been ratified afterwards.
            return f"{found}, unless another process is committing it now. In that case, open the lake again"
    return ""


def _known(connection: Connection, table_id: str) -> tuple[Row[Any] | None, set[str]]:
    """Return the row of an active table, and the files of its unratified commits."""
    active = sa.select(tables).where(tables.c.table_id == table_id, tables.c.state == TableState.ACTIVE.value)
    names = sa.select(commits.c.file_name).where(commits.c.table_id == table_id, commits.c.state != RATIFIED)
    return connection.execute(active).first(), set(connection.execute(names).scalars())


def _staged_after(store: ObjectStore, version: int) -> dict[str, int]:
    """Return the versions of the staged files after `version`, by file name."""
    return {staged.file_name: staged.file.version for staged in staged_files(store, version + 1)}
