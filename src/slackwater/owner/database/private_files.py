"""Private files of a lake: other users of the machine cannot open them, because an open lock file can be locked.

SQLite creates the files next to a database (`-wal`, `-shm`, `-journal`) with the mode of the database.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument


def create_private(path: Path, group: str | None = None, like: Path | None = None) -> int:
    """Open the file for reading and writing, created if missing: for this user only, or also for `group`.

    The mode is independent of the umask. An existing file of this user becomes inaccessible to other users, and with
    `group` its group is set. A new file gets the mode of `like`, if provided. Raises InvalidArgument if this user
    cannot set the group, CommitOwnerUnavailable if the file cannot be opened.
    """
    try:
        return _opened(path, group, like)
    except OSError as error:
        raise CommitOwnerUnavailable(
            f"{path} cannot be opened: {error}. Only the user that created it, or the group chosen at its "
            "creation, has access"
        ) from error


def create_private_directory(path: Path, group: str | None = None) -> None:
    """Create the directory if missing: for this user only, or also for `group`.

    With `group`, new files in the directory belong to the group. Raises the errors of `create_private`.
    """
    if path.is_dir():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        if group is not None:
            _give_to(path, group)
            path.chmod(0o2770)
    except OSError as error:
        raise CommitOwnerUnavailable(f"{path} for the commit owner's database cannot be created: {error}") from error


def _opened(path: Path, group: str | None, like: Path | None) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        file, is_new = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600), True
    except FileExistsError:
        file, is_new = os.open(path, flags), False
    try:
        _close_to_others(path, file, is_new, group, like)
    except BaseException:
        os.close(file)
        raise
    return file


def _close_to_others(path: Path, file: int, is_new: bool, group: str | None, like: Path | None) -> None:
    found = os.fstat(file)
    if os.name != "posix" or found.st_uid != os.geteuid():
        return
    before = stat.S_IMODE(found.st_mode)
    mode = before & ~stat.S_IRWXO
    if group is not None:
        _give_to(path, group)
        mode = 0o660
    elif is_new:
        mode = 0o600 if like is None else stat.S_IMODE(like.stat().st_mode) & 0o660
    if mode != before:
        os.fchmod(file, mode)


def _give_to(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=int(group) if group.isdigit() else group)
    except (LookupError, PermissionError) as error:
        raise InvalidArgument(f"the group of {path} cannot be set to {group!r}: {error}") from error
