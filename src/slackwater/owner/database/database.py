"""Database with the owner's state: SQLite or PostgreSQL, short transactions, migrations.

Source: docs/commit-owner.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument, UnsupportedFeature
from slackwater.html.redaction import without_secrets
from slackwater.owner.database.private_files import create_private, create_private_directory
from slackwater.owner.database.writer_queue import WriterQueue

T = TypeVar("T")

HEAD = "0007"
"""Newest revision in `migrations/`."""
PATIENCE_S = 10.0
"""Maximum duration of retries if the database does not respond."""

TURN_S = 20.0
"""Maximum wait for other writers before a write to a SQLite database."""

_SCHEMA = "slackwater"
_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.5
_BUSY_MS = 10_000
# PostgreSQL: serialization failure, deadlock, lock timeout, statement timeout, read-only server.
_TRY_AGAIN = frozenset({"40001", "40P01", "55P03", "57014", "25006"})
_TOO_LONG = frozenset({"55P03", "57014"})
# PostgreSQL ends the transaction of a suspended process, and the wait for such a transaction.
_SERVER_LIMITS = {
    "lock_timeout": 8_000,
    "statement_timeout": 60_000,
    "idle_in_transaction_session_timeout": 5_000,
}
# Cluster, database and timeline. A restored dump is another database, a restored base backup another timeline. The
# timeline comes from the WAL position, because the control file has it only after a checkpoint.
_POSTGRES_MARK = sa.text(
    "SELECT (SELECT system_identifier FROM pg_control_system()) || ':' || oid || ':' || "
    "left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_database WHERE datname = current_database()"
)
_IN_TRANSACTIONS = sa.text(
    "SELECT application_name || ', server process ' || pid AS who, coalesce(host(client_addr), 'local') AS place, "
    "xact_start AS since FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND xact_start < now() - interval '1 second' ORDER BY xact_start LIMIT 5"
)
# Alembic has global state, so two threads must not migrate at the same time.
_MIGRATING = threading.Lock()
_log = logging.getLogger(__name__)


class Database:
    """Runs database transactions. Each must be safe to repeat after an unknown outcome.

    Reads see one state. Writes of the same rows exclude each other. On SQLite all writes exclude each other, and a
    queue of the operating system ensures a fair order.
    """

    def __init__(
        self,
        url: str,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        group: str | None = None,
        turn_s: float = TURN_S,
    ) -> None:
        """Open the database `url`, such as `sqlite:////data/lake/owner.db`, `postgresql://user@host/database`.

        `url` has the form of SQLAlchemy. Only this user can open the file of a SQLite database, or also `group`. A
        write to SQLite waits at most `turn_s` seconds for other writes.

        Raises:
            InvalidArgument: If `url` is of another database.
            UnsupportedFeature: If a newer version has migrated the database.
            CommitOwnerUnavailable: If the database does not respond.
        """
        self._patience_s = patience_s
        self._sleep = sleep
        self._engine = _engine(url)
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        self._turns: WriterQueue | None = None
        try:
            if self.is_sqlite:
                file = Path(self._engine.url.database or "")
                create_private_directory(file.parent, group)
                os.close(create_private(file, group))
                self._turns = WriterQueue(file, turn_s)
            self._migrate()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """Name of the database for messages, without user, password and query values."""
        return without_secrets(self._engine.url.render_as_string(hide_password=True))

    @property
    def url(self) -> str:
        """URL with everything needed to open the database. For other processes of this user, never for messages."""
        return self._engine.url.render_as_string(hide_password=False)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` in a read-only transaction. Raises CommitOwnerUnavailable."""
        return self._patiently(lambda: self._run(work, "BEGIN", durable=False))

    def write(self, work: Callable[[Connection], T], durable: bool = True) -> T:
        """Return the result of `work` in a transaction that commits all changes. An error of `work` undoes all.

        Without `durable` a power failure may undo the commit, but a process crash does not. `work` runs again after an
        unknown outcome. Raises CommitOwnerUnavailable with an unknown outcome, unless the error has `changed_nothing`.
        """

        def once() -> T:
            with self._turns or contextlib.nullcontext():
                return self._run(work, "BEGIN IMMEDIATE", durable)

        return self._patiently(once)

    def mark(self) -> str:
        """Return a mark that differs between this database and every copy. Raises CommitOwnerUnavailable."""
        if self.is_sqlite:
            return str(Path(self._engine.url.database or "").stat().st_ino)
        return self.read(lambda c: str(c.execute(_POSTGRES_MARK).scalar_one()))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of a SQLite database to the new file `path`: one consistent state during writes.

        Raises InvalidArgument for PostgreSQL, which has its own tools, and for an existing file.
        """
        if not self.is_sqlite:
            raise InvalidArgument(
                f"{self.name} is a PostgreSQL database. Back it up with PostgreSQL's own tools: pg_dump, or its archive"
            )
        target = Path(path)
        if target.exists():
            raise InvalidArgument(f"{target} already exists. Write the backup to a new file")
        part = target.with_name(f"{target.name}.part")
        os.close(create_private(part))
        with self._engine.connect() as connection, contextlib.closing(sqlite3.connect(part)) as copy:
            source: Any = connection.connection.driver_connection
            source.backup(copy)
            # With this mark, a process that opens the copy as the lake's database checks for newer tables.
            copy.execute("UPDATE owner SET database_mark = 'copy'")
            copy.commit()
        part.rename(target)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()
        if self._turns is not None:
            self._turns.close()

    def _run(self, work: Callable[[Connection], T], begin: str, durable: bool) -> T:
        with self._engine.connect() as connection:
            connection.execution_options(slackwater_begin=begin, slackwater_durable=durable)
            if begin == "BEGIN" and not self.is_sqlite:
                # Otherwise each statement of the transaction would see newer commits.
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                return work(connection)

    def _patiently(self, once: Callable[[], T]) -> T:
        started, failed, waited, wait = time.monotonic(), 0.0, 0.0, _FIRST_WAIT_S
        is_certain = True
        while True:
            try:
                return once()
            except SQLAlchemyError as error:
                if not _may_pass(error):
                    raise
                is_certain = is_certain and _is_lock(error)
                failed = failed or time.monotonic()
                # Waiting for a lock in the server or in SQLite uses up the time. The run time of an interrupted
                # transaction does not.
                since = started if _is_lock(error) else failed
                if max(waited, time.monotonic() - since) >= self._patience_s:
                    raise self._unavailable(error, is_certain) from error
                _log.debug("asking %s again: %s", self.name, _cause(error))
            self._sleep(wait)
            waited, wait = waited + wait, min(2 * wait, _LONGEST_WAIT_S)

    def _unavailable(self, error: SQLAlchemyError, is_certain: bool) -> CommitOwnerUnavailable:
        if not is_certain:
            return CommitOwnerUnavailable(
                f"the commit owner's database {self.name} does not respond: {_cause(error)}. Check that it runs, "
                "is reachable and accepts writes, unlike a standby or a database during a restore"
            )
        found = CommitOwnerUnavailable(
            f"other processes locked the commit owner's database {self.name} for too long: {_cause(error)}. "
            f"{self._lock_holders()}. Nothing was changed. Retry when those processes have continued or ended"
        )
        found.changed_nothing = True
        return found

    def _lock_holders(self) -> str:
        """Return a description of processes with open transactions, if known to the database."""
        unknown = "Look for suspended processes that have it open"
        if self.is_sqlite:
            return unknown
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(_IN_TRANSACTIONS).all()
        except SQLAlchemyError:
            return unknown
        return "; ".join(f"{row.who} ({row.place}) is in a transaction since {row.since}" for row in rows) or unknown

    def _migrate(self) -> None:
        found = self.read(_revision)
        if found == HEAD:
            return
        if found is not None and found > HEAD:
            raise UnsupportedFeature(
                f"the commit owner's database {self.name} is of a newer version of Slackwater (its revision: "
                f"{found}, supported: {HEAD}). Upgrade Slackwater"
            )
        self.write(self._upgrade)

    def _upgrade(self, connection: Connection) -> None:
        # Imported here, because only a migration needs it.
        from alembic import command
        from alembic.config import Config

        if not self.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7303014)"))
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"))
        if _revision(connection) == HEAD:
            return
        config = Config()
        config.set_main_option("script_location", str(resources.files("slackwater.owner.database") / "migrations"))
        config.attributes["connection"] = connection
        with _MIGRATING:
            command.upgrade(config, "head")


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database, None for another database. Raises InvalidArgument."""
    engine = _engine(url)
    return Path(engine.url.database or "") if engine.dialect.name == "sqlite" else None


def _engine(url: str) -> Engine:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        # The message omits the URL, because it may contain a password.
        raise InvalidArgument(
            "the database's URL cannot be read: expected sqlite:////path or postgresql://host/database"
        ) from error
    name = parsed.get_backend_name()
    if name == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise InvalidArgument("an owner's SQLite database must be a file that other processes can open, not memory")
        engine = sa.create_engine(parsed, connect_args={"timeout": _BUSY_MS / 1000, "check_same_thread": False})
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if name != "postgresql":
        raise InvalidArgument(f"a commit owner's database is SQLite or PostgreSQL, found {name!r}")
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    limits = "".join(f" -c {name}={ms}" for name, ms in _SERVER_LIMITS.items())
    arguments = {
        "options": f"-c search_path={_SCHEMA}{limits}",
        "connect_timeout": 10,
        "application_name": f"slackwater {socket.gethostname()[:40]}:{os.getpid()}",
    }
    try:
        return sa.create_engine(parsed, connect_args=arguments, pool_size=10, max_overflow=20)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidArgument(
            f"PostgreSQL needs the driver psycopg, which is not installed ({error}). Run pip install "
            "'slackwater[postgres]'"
        ) from error


def _configure_sqlite(connection: Any, record: Any) -> None:
    del record
    # Transactions are started explicitly, because the driver would start them at the first write only, in read mode.
    connection.isolation_level = None
    for statement in ("PRAGMA journal_mode = WAL", f"PRAGMA busy_timeout = {_BUSY_MS}", "PRAGMA foreign_keys = ON"):
        connection.execute(statement).close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    wanted = "FULL" if options.get("slackwater_durable", True) else "NORMAL"
    if connection.info.get("synchronous") != wanted:
        connection.exec_driver_sql(f"PRAGMA synchronous = {wanted}")
        connection.info["synchronous"] = wanted
    connection.exec_driver_sql(options.get("slackwater_begin", "BEGIN"))


def _revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _may_pass(error: SQLAlchemyError) -> bool:
    """Return whether a retry may succeed: no connection, a lock, a deadlock."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, sa.exc.TimeoutError)
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _TRY_AGAIN:
        return True
    return isinstance(error, (OperationalError, InterfaceError))


def _is_lock(error: SQLAlchemyError) -> bool:
    """Return whether the transaction timed out waiting for a lock. In this case it changed nothing."""
    original = getattr(error, "orig", None)
    if isinstance(original, sqlite3.Error):
        # Compare the text, because Python 3.10 does not have the error code.
        return "is locked" in str(original)
    return getattr(original, "sqlstate", None) in _TOO_LONG


def _cause(error: SQLAlchemyError) -> str:
    """Return the driver's message without the statement, its values and secrets."""
    return without_secrets(str(getattr(error, "orig", None) or type(error).__name__).strip().partition("\n")[0])
