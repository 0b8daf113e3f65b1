"""Temporary views over Delta tables that SQL made: a statement that names one reads the current versions of its tables.

Spark keeps the view as it was made, for all that does not go by a name in SQL or by `spark.table`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
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
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.sql.lexer import name_at, quoted, tokens_of
from slackwater.sql.relations import Relation, relations_of
from slackwater.sql.text_edits import TextEdit, apply_edits

_MARK = "__slackwater_view"
_OF_FRAMES = "_pyspark_"
_views: dict[str, dict[str, KeptView]] = {}
# Global ones are of a Spark, of which a process may reach several: which of these it is, the mark says.
_global_views: dict[str, dict[str, KeptView]] = {}
_MOST_GLOBAL = 64
_lock = threading.Lock()
_being_read: ContextVar[frozenset[str]] = ContextVar("views that are being read", default=frozenset())


@dataclass(frozen=True)
class KeptView:
    """A view's query, whose names mean the same in every database, and the names of its columns where it gives some.

    `frames` are those that names in the query stand for; `mark` is in the view that Spark has.
    """

    query: str
    columns: tuple[str, ...]
    frames: Mapping[str, DataFrame]
    mark: str


def keep(
    spark: SparkSession,
    name: str,
    query: str,
    columns: tuple[str, ...],
    frames: Mapping[str, DataFrame],
    frame: DataFrame,
    is_global: bool = False,
) -> DataFrame:
    """Keep the query of the view `name`; `frame`, what it gives now, with the mark by which Spark's view is known.

    Spark's view alone is left of one that reads itself, that has two columns of one name, and of a global one over what
    other sessions have not: temporary views, frames and lakes.
    """
    names = [column.lower() for column in frame.columns]
    relations = relations_of(query, tokens_of(query) or [])
    read = {each.parts for each in relations}
    itself = (GLOBAL_TEMP, name) if is_global else (name,)
    if itself in read or len(set(names)) < len(names):
        return frame
    if is_global and (frames or not all(_is_of_all_sessions(spark, each) for each in relations)):
        return frame
    # What PySpark calls the frames of `{name}` is gone with the statement.
    passing = [parts[0] for parts in read if parts[0].startswith(_OF_FRAMES) and parts[0] not in frames]
    frames = {**frames, **{each: plain_sql(spark, f"TABLE {quoted(each)}") for each in passing}}
    kept = KeptView(_with_whole_names(spark, query), columns, frames, uuid.uuid4().hex)
    with _lock:
        if is_global:
            _take_in(_global_views.setdefault(_key(spark, name), {}), kept)
        else:
            _views.setdefault(session_key(spark), {})[_key(spark, name)] = kept
    first = frame.schema.fields[0]
    marked = F.col(quoted(first.name)).alias(first.name, metadata={**first.metadata, _MARK: kept.mark})
    return frame.select(marked, *(F.col(quoted(column)) for column in frame.columns[1:]))


def kept_view(
    spark: SparkSession, parts: tuple[str, ...], read: Callable[[str, Mapping[str, DataFrame]], DataFrame]
) -> Callable[[], DataFrame] | None:
    """What reads the view of that name; None where there is none, or Spark has another one by now.

    `read` gives the rows of a query over frames. What reads it raises InvalidArgument for a view that reads itself by
    others.
    """
    is_global = len(parts) == 2 and parts[0].lower() == GLOBAL_TEMP
    found = _global_view(spark, parts) if is_global else _view_of_session(spark, parts)
    if found is None:
        return None

    def rows() -> DataFrame:
        with reading(".".join((*parts[:-1], _key(spark, parts[-1])))):
            frame = read(found.query, found.frames)
        return frame.toDF(*found.columns) if found.columns else frame

    return rows


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
        return None  # It was dropped.


def _take_in(known: dict[str, KeptView], view: KeptView) -> None:
    known[view.mark] = view
    while len(known) > _MOST_GLOBAL:
        known.pop(next(iter(known)))


def _is_of_all_sessions(spark: SparkSession, relation: Relation) -> bool:
    """Whether a name means the same in other sessions, once its database is said."""
    if relation.arguments is not None:
        return False
    in_lake = lake_name_of(spark, relation.parts)
    if in_lake is not None and (in_lake.is_certain or in_lake.is_there):
        return False  # Other sessions have other lakes by that name, or none.
    entry = entry_of(spark, relation.parts) if len(relation.parts) == 1 else None
    return entry is None or not entry.is_temporary


def _key(spark: SparkSession, name: str) -> str:
    """Under what Spark keeps the view."""
    return name if is_case_sensitive(spark) else name.lower()


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Read the view `name` within the block. Raises InvalidArgument for a view that is being read already."""
    if name in _being_read.get():
        raise InvalidArgument(f"the view {name} reads itself, by way of other views: create it anew")
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
    """That of a view as Spark has it."""
    fields = plain_sql(spark, f"TABLE {'.'.join(map(quoted, parts))}").schema.fields
    return fields[0].metadata.get(_MARK) if fields else None


def _with_whole_names(spark: SparkSession, query: str) -> str:
    """The query with each of its tables named in full, by the database or the lake that is current now."""
    tokens = tokens_of(query) or []
    starts = {token.start: at for at, token in enumerate(tokens)}
    changes = []
    for relation in relations_of(query, tokens):
        name = name_at(tokens, starts[relation.start]) if relation.arguments is None else None
        if name is None or name.parts != relation.parts or path_in_parts(name.parts) is not None:
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
