"""Files of a lake that no other user of the machine may open."""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import DATABASE_FILE, EmbeddedOwner

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")

_TRY = """
import fcntl, os, sys
os.setgroups([int(group) for group in sys.argv[3].split(",") if group])
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[1]))
for path in sys.argv[4:]:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        print("opened")
    except PermissionError:
        print("refused")
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that every user of the machine can enter."""
    found = Path(tempfile.mkdtemp())
    found.chmod(0o755)
    yield found / "lake"
    shutil.rmtree(found)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(root: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in sorted((root / "_slackwater").iterdir())}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
def test_all_files_of_a_lake_are_for_their_user_alone_whatever_the_umask(root: Path, mask: int) -> None:
    root.mkdir()
    with umask(mask):
        owner = EmbeddedOwner.open(root)
        assert modes(root) == dict.fromkeys(("owner.db", "owner.db-shm", "owner.db-wal", "owner.db.lock"), "0o600")
        owner.database.backup(root / "copy.db")
        owner.close()
    assert stat.S_IMODE((root / "copy.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "_slackwater").stat().st_mode) & 0o077 == 0


def test_files_of_before_are_closed_to_others(root: Path) -> None:
    EmbeddedOwner.open(root).close()
    for name in ("owner.db", "owner.db.lock"):
        (root / "_slackwater" / name).chmod(0o646)
    EmbeddedOwner.open(root).close()
    assert modes(root) == {"owner.db": "0o640", "owner.db.lock": "0o640"}


def test_a_shared_lake_is_for_its_group(root: Path) -> None:
    group = _other_group()
    owner = EmbeddedOwner.open(root, group=group)
    assert set(modes(root).values()) == {"0o660"}
    names = {path.group() for path in (root / "_slackwater").iterdir()}
    assert names == {group}
    # Who opens it later says nothing of the group.
    (root / "_slackwater" / "owner.db.lock").unlink()
    again = EmbeddedOwner.open(root)
    assert set(modes(root).values()) == {"0o660"}
    again.close()
    owner.close()


def test_a_group_that_there_is_not_is_refused(root: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be set to 'no-such-group'"):
        EmbeddedOwner.open(root, group="no-such-group")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
def test_another_user_neither_reads_nor_holds_the_files_of_a_lake(root: Path) -> None:
    owner = EmbeddedOwner.open(root)
    # Also where the directory lets everybody in.
    (root / "_slackwater").chmod(0o777)
    files = [str(path) for path in sorted((root / "_slackwater").iterdir())]
    assert _as_nobody(files) == ["refused"] * 4
    owner.close()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
def test_a_member_of_the_group_of_a_shared_lake_is_let_in(root: Path) -> None:
    group = _other_group()
    owner = EmbeddedOwner.open(root, group=group)
    files = [str(path) for path in sorted((root / "_slackwater").iterdir())]
    assert _as_nobody(files) == ["refused"] * 4
    assert _as_nobody(files, grp.getgrnam(group).gr_gid) == ["opened"] * 4
    owner.close()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
def test_who_may_not_open_a_lake_is_told_so(root: Path) -> None:
    EmbeddedOwner.open(root).close()
    code = (
        f"import os; os.setgid({pwd.getpwnam('nobody').pw_gid}); os.setuid({pwd.getpwnam('nobody').pw_uid})\n"
        "from slackwater.owner.database.private_files import create_private\nfrom pathlib import Path\n"
        f"create_private(Path({str(root / DATABASE_FILE)!r}))"
    )
    # Imported before the user is another one: the package may lie where that one cannot read.
    before = "import slackwater.owner.database.private_files, slackwater.errors\n"
    done = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, check=False)
    assert CommitOwnerUnavailable.__name__ in done.stderr
    assert "cannot be opened" in done.stderr


def test_a_lock_file_that_another_process_made_is_not_made_again(root: Path) -> None:
    database = Database(f"sqlite:////{str(root).strip('/')}/owner.db")
    inode = (root / "owner.db.lock").stat().st_ino
    database.close()
    again = Database(f"sqlite:////{str(root).strip('/')}/owner.db")
    assert (root / "owner.db.lock").stat().st_ino == inode
    again.close()
    with (root / "owner.db.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _as_nobody(files: list[str], group: int | None = None) -> list[str]:
    nobody = pwd.getpwnam("nobody")
    groups = "" if group is None else str(group)
    done = subprocess.run(
        [sys.executable, "-I", "-c", _TRY, str(nobody.pw_uid), str(nobody.pw_gid), groups, *files],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def _other_group() -> str:
    """A group that this process may give files to, and that `nobody` is not in by itself."""
    own = set(os.getgroups()) | {os.getegid()}
    nobody = pwd.getpwnam("nobody").pw_gid
    found = [g.gr_name for g in grp.getgrall() if g.gr_gid != nobody and (os.geteuid() == 0 or g.gr_gid in own)]
    found = [name for name in found if grp.getgrnam(name).gr_gid != os.getegid()] or found
    if not found:
        pytest.skip("there is no group to give files to")
    return found[0]
