"""The database that holds the owner's state: SQLite or PostgreSQL, short transactions, migrations.

Source: design §5.
"""

from __future__ import annotations

import contextlib
import logging
import os
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

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting has to do.
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

HEAD = "0002"
"""The newest revision in `migrations/`."""
PATIENCE_S = 10.0
"""For how long a database that does not answer is asked again."""

_SCHEMA = "slackwater"
_FIRST_WAIT_S = 0.02
_LONGEST_WAIT_S = 0.5
_BUSY_MS = 10_000
# PostgreSQL: serialization failure, deadlock.
_TRY_AGAIN = frozenset({"40001", "40P01"})
_log = logging.getLogger(__name__)


class Database:
    """Runs transactions; every one must be such that running it again, where nobody knows whether it counted, is right.

    Reads see one state. Writes exclude each other as far as they touch the same rows: wholly on SQLite, where a queue
    of the operating system keeps the order fair.
    """

    def __init__(self, url: str, patience_s: float = PATIENCE_S, sleep: Callable[[float], None] = time.sleep) -> None:
        """`url` is SQLAlchemy's: `sqlite:////data/lake/owner.db`, `postgresql://user@host/database`.

        Raises InvalidArgument for another database, UnsupportedFeature where a newer version has migrated it,
        CommitOwnerUnavailable.
        """
        self._patience_s = patience_s
        self._sleep = sleep
        self._engine = _engine(url)
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        self._turns = _Turns(Path(f"{self._engine.url.database}.lock") if self.is_sqlite else None)
        try:
            if self.is_sqlite:
                self._create_file()
            self._migrate()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The database for messages, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` answers in a transaction that changes nothing. Raises CommitOwnerUnavailable."""
        return self._patiently(lambda: self._run(work, "BEGIN", durable=False))

    def write(self, work: Callable[[Connection], T], durable: bool = True) -> T:
        """What `work` answers in a transaction that then counts, all or nothing; an error of it undoes everything.

        Without `durable` a power cut may undo it, a killed process does not. It is run again where its outcome is not
        known. Raises CommitOwnerUnavailable: then that stays open.
        """

        def once() -> T:
            with self._turns:
                return self._run(work, "BEGIN IMMEDIATE", durable)

        return self._patiently(once)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()
        self._turns.close()

    def _run(self, work: Callable[[Connection], T], begin: str, durable: bool) -> T:
        with self._engine.connect() as connection:
            connection.execution_options(slackwater_begin=begin, slackwater_durable=durable)
            if begin == "BEGIN" and not self.is_sqlite:
                # Statements of one transaction would each see what others have committed since.
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                return work(connection)

    def _patiently(self, once: Callable[[], T]) -> T:
        waited, wait = 0.0, _FIRST_WAIT_S
        while True:
            try:
                return once()
            except SQLAlchemyError as error:
                if not _may_pass(error):
                    raise
                if waited >= self._patience_s:
                    raise CommitOwnerUnavailable(
                        f"the commit owner's database {self.name} does not answer: {_cause(error)}; check that it "
                        "runs and can be reached"
                    ) from error
                _log.debug("asking %s again: %s", self.name, _cause(error))
            self._sleep(wait)
            waited, wait = waited + wait, min(2 * wait, _LONGEST_WAIT_S)

    def _create_file(self) -> None:
        path = Path(self._engine.url.database or "")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommitOwnerUnavailable(f"{path.parent} for the commit owner's database: {error}") from error

    def _migrate(self) -> None:
        found = self.read(_revision)
        if found == HEAD:
            return
        if found is not None and found > HEAD:
            raise UnsupportedFeature(
                f"the commit owner's database {self.name} is of a newer version of Slackwater (revision {found}, this "
                f"one knows {HEAD}): upgrade Slackwater"
            )
        self.write(self._upgrade)

    def _upgrade(self, connection: Connection) -> None:
        # Only whoever migrates pays for loading it.
        from alembic import command
        from alembic.config import Config

        if not self.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7303014)"))
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"))
        if _revision(connection) == HEAD:
            return
        config = Config()
        config.set_main_option("script_location", str(resources.files("slackwater.owner") / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


class _Turns:
    """One writer at a time, of this process and of others on this machine, in the order of their coming."""

    def __init__(self, path: Path | None) -> None:
        self._path = path if fcntl is not None else None
        self._lock: Any = threading.Lock() if path is not None else contextlib.nullcontext()
        self._file: int | None = None
        self._pid = os.getpid()

    def __enter__(self) -> None:
        self._lock.__enter__()
        try:
            if self._path is not None:
                self._lock_file(self._path)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: object) -> None:
        try:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._lock.__exit__(None, None, None)

    def _lock_file(self, path: Path) -> None:
        if self._file is None or self._pid != os.getpid():
            # A lock belongs to the open file: one that a parent process opened would be shared with it.
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._pid = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), os.getpid()
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        if self._file is not None and self._pid == os.getpid():
            os.close(self._file)
        self._file = None


def _engine(url: str) -> Engine:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        # The text may hold a password.
        raise InvalidArgument(
            "the database's URL cannot be read: expected sqlite:////path or postgresql://host/database"
        ) from error
    name = parsed.get_backend_name()
    if name == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise InvalidArgument("an owner's SQLite database is a file that other processes can open, not memory")
        engine = sa.create_engine(parsed, connect_args={"timeout": _BUSY_MS / 1000, "check_same_thread": False})
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if name != "postgresql":
        raise InvalidArgument(f"a commit owner's database is SQLite or PostgreSQL, found {name!r}")
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    arguments = {"options": f"-c search_path={_SCHEMA}", "connect_timeout": 10}
    try:
        return sa.create_engine(parsed, connect_args=arguments, pool_size=10, max_overflow=20)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidArgument(
            f"PostgreSQL needs the driver psycopg, which is not installed: pip install 'slackwater[postgres]' ({error})"
        ) from error


def _configure_sqlite(connection: Any, record: Any) -> None:
    del record
    # Transactions are begun by hand: the driver would only begin them at the first write, as readers.
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
    """Whether the same may go well a moment later: no connection, a lock, a deadlock."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, sa.exc.TimeoutError)
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _TRY_AGAIN:
        return True
    return isinstance(error, (OperationalError, InterfaceError))


def _cause(error: SQLAlchemyError) -> str:
    """The driver's words, without the statement and its values."""
    return str(getattr(error, "orig", None) or type(error).__name__).strip().partition("\n")[0]
