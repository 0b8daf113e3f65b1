"""Temporary views over Delta tables created by SQL. Statements read the current versions of the view's tables.

Spark's own view still reads the versions at its creation, for access other than by name in SQL or `spark.table`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.spark.catalog.resolve import lake_name_of, path_in_parts
from slackwater.spark.catalog.session_catalog import GLOBAL_TEMP, entry_of, plain_sql
from slackwater.spark.catalog.session_lakes import session_key
from slackwater.spark.catalog.view_settings import ViewSettings
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.sql.lexer import quoted, tokens_of
from slackwater.sql.relations import Relation, relations_of, table_names_of
from slackwater.sql.text_edits import TextEdit, apply_edits

_MARK = "__slackwater_view"
_OF_FRAMES = "_pyspark_"
_views: dict[str, dict[str, KeptView]] = {}
# Global views belong to one Spark application. A process can use several, so the mark identifies the view.
_global_views: dict[str, dict[str, KeptView]] = {}
_MOST_GLOBAL = 64
_lock = threading.Lock()
_being_read: ContextVar[frozenset[str]] = ContextVar("views that are being read", default=frozenset())


@dataclass(frozen=True)
class KeptView:
    """A view's query, with names valid in every database, the query's columns, and new names if the view sets them.

    `frames` are the frames of names in the query. `mark` is also in Spark's view. `settings`: of the creation.
    """

    query: str
    query_columns: tuple[str, ...]
    columns: tuple[str, ...]
    frames: Mapping[str, DataFrame]
    mark: str
    settings: ViewSettings

    @property
    def items(self) -> dict[str, str]:
        """The view's columns by name, as SQL text over the query's columns. Empty if these have duplicate names.

        A table of `SELECT *` may have other columns by now.
        """
        if len({column.lower() for column in self.query_columns}) < len(self.query_columns):
            return {}
        return dict(zip(self.columns or self.query_columns, map(quoted, self.query_columns), strict=True))


@dataclass(frozen=True)
class ViewRows:
    """The rows of a view over Delta tables. `read` may leave out rows for which a condition on `columns` is false.

    `query`: the text of the view, with names valid in every database.
    """

    read: Callable[[Sequence[str]], DataFrame]
    query: str
    columns: Callable[[], Collection[str]]


def keep(
    spark: SparkSession,
    name: str,
    query: str,
    columns: tuple[str, ...],
    frames: Mapping[str, DataFrame],
    frame: DataFrame,
    is_global: bool = False,
) -> DataFrame:
    """Store the query of the view `name`. Return `frame`, the query's present rows, with a mark for Spark's view.

    The result has the names `columns`, if there are any.

    Some views are not stored, and only Spark's view remains: a view of itself, a view with duplicate column names, and
    a global view over objects of one session. Such objects are temporary views, frames and lakes.
    """
    query_columns = tuple(frame.columns)
    frame = frame.toDF(*columns) if columns else frame
    names = [column.lower() for column in frame.columns]
    relations = relations_of(query, tokens_of(query) or [], case_counts=is_case_sensitive(spark))
    read = {each.parts for each in relations}
    itself = (GLOBAL_TEMP, name) if is_global else (name,)
    if itself in read or len(set(names)) < len(names):
        return frame
    if is_global and (frames or not all(_is_of_all_sessions(spark, each) for each in relations)):
        return frame
    # Read the frames of `{name}` now, because PySpark drops their views at the end of the statement.
    passing = [parts[0] for parts in read if parts[0].startswith(_OF_FRAMES) and parts[0] not in frames]
    frames = {**frames, **{each: plain_sql(spark, f"TABLE {quoted(each)}") for each in passing}}
    whole, settings = _with_whole_names(spark, query), ViewSettings.of_session(spark)
    kept = KeptView(whole, query_columns, columns, frames, uuid.uuid4().hex, settings)
    with _lock:
        if is_global:
            _take_in(_global_views.setdefault(_key(spark, name), {}), kept)
        else:
            _views.setdefault(session_key(spark), {})[_key(spark, name)] = kept
    first = frame.schema.fields[0]
    marked = F.col(quoted(first.name)).alias(first.name, metadata={**first.metadata, _MARK: kept.mark})
    return frame.select(marked, *(F.col(quoted(column)) for column in frame.columns[1:]))


def kept_view(
    spark: SparkSession, parts: tuple[str, ...], read: Callable[[KeptView, str, Sequence[str]], DataFrame]
) -> ViewRows | None:
    """Return the rows of the view of that name, None if there is none, or if another view replaced it in Spark.

    `read` returns the rows of the view. It gets the view's name for messages, and conditions. Reading raises
    InvalidArgument for a view that reads itself through other views.
    """
    found = _found(spark, parts)
    if found is None:
        return None

    def rows(conditions: Sequence[str]) -> DataFrame:
        with reading(".".join((*parts[:-1], _key(spark, parts[-1])))):
            return read(found, ".".join(parts), conditions)

    return ViewRows(rows, found.query, lambda: found.items)


def is_temporary_view(spark: SparkSession, parts: tuple[str, ...]) -> bool:
    """Return whether the name is one of a temporary view, of the session or global."""
    entry = entry_of(spark, parts) if len(parts) == 1 else None
    return _is_global(parts) or (entry is not None and entry.is_temporary)


def rename_kept(spark: SparkSession, parts: tuple[str, ...], new: str, rename: Callable[[], object]) -> None:
    """Rename a temporary view to `new`. `rename` does so in Spark."""
    found = _found(spark, parts)
    rename()
    if found is None:
        return
    with _lock:
        if _is_global(parts):
            _global_views.get(_key(spark, parts[-1]), {}).pop(found.mark, None)
            _take_in(_global_views.setdefault(_key(spark, new), {}), found)
        else:
            known = _views.setdefault(session_key(spark), {})
            known.pop(_key(spark, parts[-1]), None)
            known[_key(spark, new)] = found


def _found(spark: SparkSession, parts: tuple[str, ...]) -> KeptView | None:
    return _global_view(spark, parts) if _is_global(parts) else _view_of_session(spark, parts)


def _is_global(parts: tuple[str, ...]) -> bool:
    return len(parts) == 2 and parts[0].lower() == GLOBAL_TEMP


def _view_of_session(spark: SparkSession, parts: tuple[str, ...]) -> KeptView | None:
    known = _views.get(session_key(spark)) if _views and len(parts) == 1 else None
    name = parts[-1]
    if not known or not any(name.lower() == key.lower() for key in list(known)):
        return None
    key = _key(spark, name)
    found = known.get(key)
    if found is not None and not _is_there(spark, name, found):
        known.pop(key, None)
        return None
    return found


def _global_view(spark: SparkSession, parts: tuple[str, ...]) -> KeptView | None:
    known = _global_views.get(_key(spark, parts[-1])) if _global_views else None
    if not known:
        return None
    try:
        return known.get(_mark(spark, parts) or "")
    except AnalysisException:
        return None  # The view was dropped.


def _take_in(known: dict[str, KeptView], view: KeptView) -> None:
    known[view.mark] = view
    while len(known) > _MOST_GLOBAL:
        known.pop(next(iter(known)))


def _is_of_all_sessions(spark: SparkSession, relation: Relation) -> bool:
    """Return whether a name, with its database added, has the same meaning in other sessions."""
    if relation.arguments is not None:
        return False
    in_lake = lake_name_of(spark, relation.parts)
    if in_lake is not None and (in_lake.is_certain or in_lake.is_there):
        return False  # The name belongs to this session's lakes.
    entry = entry_of(spark, relation.parts) if len(relation.parts) == 1 else None
    return entry is None or not entry.is_temporary


def _key(spark: SparkSession, name: str) -> str:
    """Return Spark's key of the view."""
    return name if is_case_sensitive(spark) else name.lower()


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Mark the view `name` as being read within the block. Raises InvalidArgument if the view is already being read."""
    if name in _being_read.get():
        raise InvalidArgument(f"the view {name} reads itself through other views. Recreate it")
    token = _being_read.set(_being_read.get() | {name})
    try:
        yield
    finally:
        _being_read.reset(token)


def _is_there(spark: SparkSession, name: str, view: KeptView) -> bool:
    entry = entry_of(spark, (name,))
    if entry is None or not entry.is_temporary:
        return False
    return _mark(spark, (name,)) == view.mark


def _mark(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    """Return the mark in Spark's view."""
    fields = plain_sql(spark, f"TABLE {'.'.join(map(quoted, parts))}").schema.fields
    return fields[0].metadata.get(_MARK) if fields else None


def _with_whole_names(spark: SparkSession, query: str) -> str:
    """Return the query with full names of its tables, with the current database or lake."""
    changes = []
    for name in table_names_of(query, case_counts=is_case_sensitive(spark)):
        if path_in_parts(name.parts) is not None:
            continue
        in_lake = lake_name_of(spark, name.parts)
        if in_lake is not None and (in_lake.is_certain or in_lake.is_there):
            whole = f"{quoted(in_lake.attached)}.{'.'.join(map(quoted, in_lake.name.split('.')))}"
        else:
            entry = entry_of(spark, name.parts)
            if entry is None or entry.is_temporary:
                continue
            whole = entry.text
        changes.append(TextEdit(name.start, name.end, whole))
    return apply_edits(query, changes)
