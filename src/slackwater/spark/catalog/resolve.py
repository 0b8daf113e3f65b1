"""Resolver of table names for SQL, `spark.table`, `saveAsTable` and `DeltaTable.forName`.

A name is resolved in this order:

1. ``delta.`/path` ``. 2. A table of an attached lake, `lake.table`, or of the lake chosen by `USE`. 3. A table of the
session's catalog with the provider `delta`.

A temporary view precedes tables with a name of one part, like in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, TableNotFound, UnsupportedFeature
from slackwater.spark.catalog.provider import register_provider
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG, CatalogEntry, entry_of
from slackwater.spark.catalog.session_lakes import AttachedLake, AttachedTransaction, SessionNames
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.sql.lexer import TokenCursor, tokens_of

_PATH_NAME = re.compile(r"(?is)delta\.`(.+)`\Z")


@dataclass(frozen=True)
class LakeName:
    """The name of a table in the lake attached under `attached`. `is_there` is True if the lake has the table.

    `lake` works in the session of the name. Another session may have opened the lake.
    `transaction` is the open transaction of this lake in the session. If `is_certain` is True, the name cannot mean a
    table of Spark's catalog.
    """

    lake: AttachedLake
    attached: str
    name: str
    is_there: bool
    transaction: AttachedTransaction | None
    is_certain: bool = True

    def require_no_transaction(self) -> None:
        """Raise UnsupportedFeature if a transaction of the lake is open in the session."""
        if self.transaction is not None:
            raise UnsupportedFeature(
                f"{self.attached}.{self.name}: a transaction cannot create, replace or drop tables of a lake. COMMIT "
                "or ROLLBACK first"
            )

    def table(self) -> Any:
        """Return the DeltaTable, in an open transaction that of the transaction. Raises TableNotFound."""
        return self.lake.table(self.name) if self.transaction is None else self.transaction.table(self.name)


@dataclass(frozen=True)
class ResolvedTable:
    """A resolved name: a Delta table at `location`, with its `entry` in the session's catalog or its name `in_lake`."""

    parts: tuple[str, ...]
    location: str
    entry: CatalogEntry | None = None
    in_lake: LakeName | None = None

    @property
    def shown(self) -> str:
        """The name, for messages."""
        return ".".join(self.parts)


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name in SQL syntax. Raises InvalidArgument for any other text."""
    tokens = tokens_of(name) if isinstance(name, str) else None
    if not tokens:
        raise InvalidArgument(f"{name!r} is not the name of a table")
    cursor = TokenCursor(name, tokens)
    found = cursor.name()
    cursor.done()
    return found.parts


def known_parts(name: str) -> tuple[str, ...]:
    """Return `parts_of`, or an empty tuple for an invalid name, so that Spark can handle the name."""
    try:
        return parts_of(name)
    except InvalidArgument:
        return ()


def path_in_text(name: str) -> str | None:
    """Return the path in a table name, as text, of the form ``delta.`/path` ``, None for any other name."""
    match = _PATH_NAME.match(name.strip())
    return match[1].replace("``", "`") if match else None


def path_in_parts(parts: Sequence[str]) -> str | None:
    """Return the path in the name ``delta.`/path` ``, None for other names."""
    is_path = len(parts) == 2 and parts[0].lower() == "delta" and ("/" in parts[1] or ":" in parts[1])
    return parts[1] if is_path else None


def lake_name_of(spark: SparkSession, parts: Sequence[str], is_new: bool = False) -> LakeName | None:
    """Return the name as one of an attached lake, even if the lake has no such table. None for other names.

    A temporary view takes precedence, except for the name of a table to create (`is_new`).
    """
    names = SessionNames.of(spark)
    if not names.lakes or path_in_parts(parts) is not None:
        return None
    current = names.current_lake
    is_certain = True
    if len(parts) > 1 and (lake := names.lake(parts[0])) is not None:
        attached, name = parts[0].lower(), ".".join(parts[1:])
    elif current is None or names.current is None or parts[0].lower() == SPARK_CATALOG:
        return None
    else:
        entry = None if is_new or len(parts) > 1 else entry_of(spark, parts)
        if entry is not None and entry.is_temporary:
            return None
        within = [names.namespace] if names.namespace and len(parts) == 1 else []
        lake, attached, name = current, names.current, ".".join([*within, *parts])
        is_certain = len(parts) == 1
    transaction = names.open_transaction if names.transaction_lake is lake else None
    spelled = _spelled(spark, lake, name)
    own = lake.in_session(spark)
    return LakeName(own, attached, spelled or name, spelled is not None, transaction, is_certain)


def _spelled(spark: SparkSession, lake: AttachedLake, name: str) -> str | None:
    """Return the lake's spelling of the name, None if the lake has no such table.

    In a case-insensitive session, a single name with other case matches.
    """
    if name in lake:
        return name
    alike = [each for each in lake.table_names() if each.lower() == name.lower()]
    if len(alike) != 1 or is_case_sensitive(spark):
        return None
    return str(alike[0])


def resolve(spark: SparkSession, parts: Sequence[str]) -> ResolvedTable | None:
    """Return the Delta table of the name, None for other names.

    The path itself is not checked. Raises TableNotFound for a name of a lake without such a table.
    """
    path = path_in_parts(parts)
    if path is not None:
        return ResolvedTable(tuple(parts), path)
    in_lake = lake_name_of(spark, parts)
    if in_lake is not None:
        if in_lake.is_there:
            return ResolvedTable(tuple(parts), in_lake.lake.location(in_lake.name), in_lake=in_lake)
        if in_lake.is_certain:
            raise TableNotFound(
                f"the lake {in_lake.attached} has no table {in_lake.name}. Run SHOW TABLES IN {in_lake.attached}"
            )
    entry = entry_of(spark, parts)
    if entry is None or not entry.is_delta or entry.location is None:
        return None
    # Statements run by Spark need the provider in this session.
    register_provider(spark)
    return ResolvedTable(tuple(parts), entry.location, entry)


def require(spark: SparkSession, parts: Sequence[str]) -> ResolvedTable:
    """Return the result of `resolve`. Raises TableNotFound also for a name of any other object."""
    found = resolve(spark, parts)
    if found is None:
        raise TableNotFound(
            f"{'.'.join(parts)} is not a Delta table: the session's catalog has no table of that name and format. "
            "Other names of tables are delta.`/path`, and lake.table after the lake is attached"
        )
    return found
