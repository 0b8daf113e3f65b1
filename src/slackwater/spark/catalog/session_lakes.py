"""Names of a session in addition to Spark's catalog: attached lakes, the current lake, the open transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG
from slackwater.spark.session.classic_connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_known: dict[str, SessionNames] = {}
_lock = threading.Lock()


class AttachedTransaction(Protocol):
    """Interface of a lake's transaction for names and statements."""

    @property
    def is_open(self) -> bool:
        """True until the transaction ends."""
        ...

    def table(self, name: str) -> Any:
        """Return the table `name` in the transaction's read view."""
        ...

    def commit(self) -> None:
        """Commit the transaction."""
        ...

    def rollback(self) -> None:
        """Roll the transaction back."""
        ...


class AttachedLake(Protocol):
    """Interface of a lake for names and statements."""

    def table(self, name: str) -> Any:
        """Return the table `name`."""
        ...

    def in_session(self, spark: SparkSession) -> AttachedLake:
        """Return the lake for the session `spark`."""
        ...

    def table_names(self) -> Sequence[str]:
        """Return the names of the lake's tables."""
        ...

    def __contains__(self, name: object) -> bool:
        """Return whether the lake has a table called `name`."""
        ...

    def location(self, name: str) -> str:
        """Return the location of the table `name`."""
        ...

    def transaction(self, *args: Any, **kwargs: Any) -> Any:
        """Return a transaction of the lake's tables, not begun yet."""
        ...

    def as_of(self, timestamp: str) -> Any:
        """Return a time slice: all tables at a timestamp."""
        ...


@dataclass
class SessionNames:
    """The names of one session. Other sessions of the same Spark application have their own names."""

    lakes: dict[str, AttachedLake] = field(default_factory=dict)
    current: str | None = None
    namespace: str = ""
    """The current namespace of the current lake: the prefix of table names without one."""
    transaction: AttachedTransaction | None = None
    transaction_lake: AttachedLake | None = None
    transaction_thread: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings by SET TRANSACTION for the next transaction: arguments of `Lake.transaction`."""

    @staticmethod
    def of(spark: SparkSession) -> SessionNames:
        """Return the names of `spark`, empty if no lake is attached."""
        return _known.get(session_key(spark), _NOTHING) if _known else _NOTHING

    def drop(self, lake: AttachedLake) -> None:
        """Remove all names of `lake`."""
        gone = [name for name, known in self.lakes.items() if known is lake]
        for name in gone:
            del self.lakes[name]
        if self.current in gone:
            self.choose(None)

    def choose(self, lake: str | None, namespace: str = "") -> None:
        """Make a lake and a namespace current, so that names of their tables need no prefix. None means no lake."""
        self.current, self.namespace = lake, namespace

    def lake(self, name: str) -> AttachedLake | None:
        """Return the lake attached as `name`, case-insensitive."""
        return self.lakes.get(name.lower())

    @property
    def current_lake(self) -> AttachedLake | None:
        """The lake chosen by `USE`. Its tables need no prefix."""
        return None if self.current is None else self.lakes.get(self.current)

    @property
    def open_transaction(self) -> AttachedTransaction | None:
        """The transaction between BEGIN and COMMIT. None outside, and after its end."""
        return self.transaction if self.transaction is not None and self.transaction.is_open else None


_NOTHING = SessionNames()


def session_key(spark: SparkSession) -> str:
    """Return a key of the session, equal for all its Python objects."""
    if is_connect(spark):
        return str(spark.client._session_id)
    return str(spark._jsparkSession.sessionUUID())


def attach(spark: SparkSession, lake: AttachedLake, name: str) -> None:
    """Add `name` for `lake` to the session's names. Raises InvalidArgument for an invalid name or one in use."""
    if not isinstance(name, str) or not name or "." in name or "`" in name:
        raise InvalidArgument(f"the name of a lake must be a text without dots and quotes, found {name!r}")
    if name.lower() == SPARK_CATALOG:
        raise InvalidArgument(f"{SPARK_CATALOG} is the name of Spark's own catalog. Attach the lake by another name")
    with _lock:
        names = _known.setdefault(session_key(spark), SessionNames())
        there = names.lake(name)
        if there is not None and there is not lake:
            raise InvalidArgument(f"another lake is attached as {name}. Detach it first, or choose another name")
        names.lakes[name.lower()] = lake


def detach(spark: SparkSession, lake: AttachedLake) -> None:
    """Remove all names of `lake` from the session. Raises OperationNotAllowed while its transaction is open there."""
    with _lock:
        names = _known.get(session_key(spark))
        if names is None:
            return
        if names.open_transaction is not None and names.transaction_lake is lake:
            raise OperationNotAllowed("a transaction of the lake is open in this session. COMMIT or ROLLBACK first")
        names.drop(lake)
        if not names.lakes:
            del _known[session_key(spark)]


def forget(lake: AttachedLake) -> None:
    """Remove all names of a closing `lake` from all sessions, and roll back its transactions begun by SQL."""
    with _lock:
        for key, names in list(_known.items()):
            if names.transaction_lake is lake:
                if names.open_transaction is not None:
                    names.open_transaction.rollback()
                names.transaction = names.transaction_lake = None
            names.drop(lake)
            if not names.lakes:
                del _known[key]
