"""What a session knows by name besides Spark's catalog: lakes, which one is current, the transaction that is open."""

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
    """What names and statements need of a transaction of a lake."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        ...

    def table(self, name: str) -> Any:
        """The table `name`, as the transaction sees it."""
        ...

    def commit(self) -> None:
        """Commit it."""
        ...

    def rollback(self) -> None:
        """End it without a trace."""
        ...


class AttachedLake(Protocol):
    """What names and statements need of a lake."""

    def table(self, name: str) -> Any:
        """The table `name`."""
        ...

    def tables(self) -> Sequence[Any]:
        """Its tables, each with its `name`."""
        ...

    def location(self, name: str) -> str:
        """Where the table `name` is."""
        ...

    def transaction(self, *args: Any, **kwargs: Any) -> Any:
        """A transaction of its tables, not begun."""
        ...

    def as_of(self, timestamp: str) -> Any:
        """All tables as they were at a time."""
        ...


@dataclass
class SessionNames:
    """The names of one session: sessions that share a Spark application do not share them."""

    lakes: dict[str, AttachedLake] = field(default_factory=dict)
    current: str | None = None
    namespace: str = ""
    """Within the current lake: what names of its tables begin with that are given without it."""
    transaction: AttachedTransaction | None = None
    transaction_lake: AttachedLake | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """What SET TRANSACTION said of the next one: arguments of `Lake.transaction`."""

    @staticmethod
    def of(spark: SparkSession) -> SessionNames:
        """Those of `spark`; empty ones where nothing was attached to it."""
        return _known.get(session_key(spark), _NOTHING) if _known else _NOTHING

    def drop(self, lake: AttachedLake) -> None:
        """Forget all names of `lake`."""
        gone = [name for name, known in self.lakes.items() if known is lake]
        for name in gone:
            del self.lakes[name]
        if self.current in gone:
            self.choose(None)

    def choose(self, lake: str | None, namespace: str = "") -> None:
        """From now on tables of the lake that is attached so, and of its namespace, are named without them."""
        self.current, self.namespace = lake, namespace

    def lake(self, name: str) -> AttachedLake | None:
        """The lake that is attached as `name`, in any case."""
        return self.lakes.get(name.lower())

    @property
    def current_lake(self) -> AttachedLake | None:
        """The lake whose tables are named without it, as `USE` said."""
        return None if self.current is None else self.lakes.get(self.current)

    @property
    def open_transaction(self) -> AttachedTransaction | None:
        """The transaction between BEGIN and COMMIT; None outside, and where it ended by itself."""
        return self.transaction if self.transaction is not None and self.transaction.is_open else None


_NOTHING = SessionNames()


def session_key(spark: SparkSession) -> str:
    """What is the same for all objects that stand for one session."""
    if is_connect(spark):
        return str(spark.client._session_id)
    return str(spark._jsparkSession.sessionUUID())


def attach(spark: SparkSession, lake: AttachedLake, name: str) -> None:
    """Let `name` stand for `lake` in SQL and names of the session. Raises InvalidArgument for a name that is taken."""
    if not isinstance(name, str) or not name or "." in name or "`" in name:
        raise InvalidArgument(f"a lake is attached by a name without dots and quotes, found {name!r}")
    if name.lower() == SPARK_CATALOG:
        raise InvalidArgument(f"{SPARK_CATALOG} is the name of Spark's own catalog: attach the lake by another one")
    with _lock:
        names = _known.setdefault(session_key(spark), SessionNames())
        there = names.lake(name)
        if there is not None and there is not lake:
            raise InvalidArgument(f"another lake is attached as {name}: detach that first, or choose another name")
        names.lakes[name.lower()] = lake


def detach(spark: SparkSession, lake: AttachedLake) -> None:
    """Forget all names of `lake` in the session. Raises OperationNotAllowed while its transaction is open there."""
    with _lock:
        names = _known.get(session_key(spark))
        if names is None:
            return
        if names.open_transaction is not None and names.transaction_lake is lake:
            raise OperationNotAllowed("a transaction of the lake is open in this session: COMMIT or ROLLBACK first")
        names.drop(lake)
        if not names.lakes:
            del _known[session_key(spark)]


def forget(lake: AttachedLake) -> None:
    """Forget all names of `lake` in all sessions when it closes; its transactions that SQL began are rolled back."""
    with _lock:
        for key, names in list(_known.items()):
            if names.transaction_lake is lake:
                if names.open_transaction is not None:
                    names.open_transaction.rollback()
                names.transaction = names.transaction_lake = None
            names.drop(lake)
            if not names.lakes:
                del _known[key]
