"""Queries over Delta tables. Each table becomes a view in the statement, all other text stays unchanged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.catalog.frames import StatementOnViews, new_view_name, sql_over
from slackwater.spark.catalog.persisted_views import expanded, stored_view
from slackwater.spark.catalog.resolve import path_in_parts
from slackwater.spark.catalog.session_lakes import SessionNames
from slackwater.spark.catalog.view_settings import ViewSettings
from slackwater.spark.conditions.transaction_time import TransactionTime
from slackwater.spark.lake.transaction import TransactionTable
from slackwater.spark.read.metadata_column import METADATA, revealed
from slackwater.spark.read.pushdown_frame import replans_on_select
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import statement_scope
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.spark.sql.table_uses import all_of, changed_table, changes_function, table_use, with_zones
from slackwater.spark.sql.views import KeptView, ViewRows, kept_view, reading
from slackwater.spark.table.named import NamedTable, named_table
from slackwater.sql.column_pruning import needed_columns, renames_columns
from slackwater.sql.lexer import Token, quoted, tokens_of
from slackwater.sql.predicate_pushdown import pushed_conditions
from slackwater.sql.relations import Block, Relation, blocks_of
from slackwater.sql.text_edits import (
    TextEdit,
    apply_edits,
    as_view,
    reads_column,
    without_database,
    without_hidden_column,
)


def rewritten(
    spark: SparkSession,
    text: str,
    tokens: Sequence[Token] | None = None,
    *,
    settings: ViewSettings | None = None,
) -> StatementOnViews | None:
    """Return the statement with views for its Delta tables, None if there are no Delta tables.

    `settings`: of the view with this text, None for the session's settings.
    """
    found = tokens_of(text) if tokens is None else tokens
    if found is None:
        return None
    with statement_scope():
        return _rewritten(spark, text, found, settings)


def _rewritten(
    spark: SparkSession, text: str, found: Sequence[Token], settings: ViewSettings | None
) -> StatementOnViews | None:
    blocks, kept, tables = _relations(spark, text, found, settings)
    if not tables and not kept and SessionNames.of(spark).open_transaction is None:
        return None
    statement = StatementOnViews(text)
    changes: list[TextEdit] = []
    qualified: dict[Relation, list[tuple[str, ...]]] = {}
    with_metadata = set()
    # With other settings, conditions of the text prune no files. Through Connect, the session has the view's settings.
    prunes = settings is None or is_connect(spark) or settings.read_conditions_as(spark)
    reads = [_Reads.of(spark, block, found, tables, kept, prunes, settings) for block in blocks]
    may_name_it = METADATA in text.lower() and any(t.is_name and t.value.lower() == METADATA for t in found)
    is_taken = may_name_it and _has_own_metadata(
        spark, blocks, [frame for each in reads for frame in each.tables.values()], tables, kept
    )
    for each in reads:
        for relation, frame in each.tables.items():
            view = new_view_name()
            is_named = may_name_it and reads_column(found, METADATA, relation, is_taken)
            shown = revealed(frame) if is_named and not renames_columns(text, relation) else None
            if shown is not None:
                with_metadata.add(relation)
            statement.views[view] = _selected(frame, text, found, relation) if shown is None else shown
            changes += as_view(relation, view)
            qualified[relation] = tables[_key(relation)].qualified
        for relation, conditions in each.views.items():
            view = new_view_name()
            statement.views[view] = kept[relation.parts].read(conditions)
            changes += as_view(relation, view)
    changes += without_database(found, qualified)
    changes += without_hidden_column(found, blocks, METADATA, with_metadata)
    # Use one time in the statement, for Delta tables and all other sources.
    statement.text = at_transaction_time(spark, apply_edits(text, changes))
    return statement


def names_delta_tables(
    spark: SparkSession, text: str, tokens: Sequence[Token] | None = None, settings: ViewSettings | None = None
) -> bool:
    """Return whether the queries of the statement name a Delta table. Does not open the table.

    `settings`: of the view with this text, None for the session's settings.
    """
    found = tokens_of(text) if tokens is None else tokens
    if found is None:
        return False
    _, kept, tables = _relations(spark, text, found, settings)
    return bool(kept or tables)


def reads_open_transaction(spark: SparkSession, text: str) -> bool:
    """Return whether the queries of the statement read a table of the open transaction, also through views."""
    if SessionNames.of(spark).open_transaction is None:
        return False
    _, kept, tables = _relations(spark, text, tokens_of(text) or [])
    return any(isinstance(each.table, TransactionTable) for each in tables.values()) or any(
        reads_open_transaction(spark, view.query) for view in kept.values()
    )


def _relations(
    spark: SparkSession, text: str, tokens: Sequence[Token], settings: ViewSettings | None = None
) -> tuple[list[Block], dict[tuple[str, ...], ViewRows], dict[tuple[str, ...], NamedTable]]:
    """Return the blocks of the statement, with the views over Delta tables and the Delta tables among the relations."""
    blocks = _blocks(spark, text, tokens, settings)
    kept = _kept_views(spark, blocks)
    return blocks, kept, _tables(spark, blocks, kept)


def _blocks(spark: SparkSession, text: str, tokens: Sequence[Token], settings: ViewSettings | None) -> list[Block]:
    # Case matters here only for names of common tables, because Spark resolves all other names.
    has_common_tables = any(token.upper == "WITH" for token in tokens)
    case_counts = has_common_tables and (settings.is_case_sensitive if settings else is_case_sensitive(spark))
    return blocks_of(text, tokens, case_counts=case_counts)


def at_transaction_time(spark: SparkSession, text: str) -> str:
    """Return `text` with the current time replaced by the time of the session's open transaction, if any."""
    transaction = SessionNames.of(spark).open_transaction
    return text if transaction is None else TransactionTime(transaction).in_text(text, ())  # type: ignore[arg-type]


def query_frame(spark: SparkSession, text: str, views: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Return the rows of a query over Delta tables and other sources of Spark, with additional `views`."""
    found = rewritten(spark, text) or StatementOnViews(text)
    return sql_over(spark, found.text, {**(views or {}), **found.views})


def view_frame(spark: SparkSession, parts: tuple[str, ...]) -> DataFrame | None:
    """Return the rows of a view over the current versions of Delta tables, None for every other name."""
    with statement_scope():
        found = _view(spark, parts)
        return None if found is None else found.read(())


def _kept_views(spark: SparkSession, blocks: Sequence[Block]) -> dict[tuple[str, ...], ViewRows]:
    """Return the views over Delta tables among the relations."""
    names = {each.parts for block in blocks for each in block.relations if each.arguments is None}
    found = {parts: _view(spark, parts) for parts in names}
    return {parts: view for parts, view in found.items() if view is not None}


def _view(spark: SparkSession, parts: tuple[str, ...]) -> ViewRows | None:
    """Return the view over Delta tables, temporary or of the catalog. None for other names."""
    if path_in_parts(parts) is not None:
        return None
    kept = kept_view(spark, parts, partial(_rows_of_kept, spark))
    stored = stored_view(spark, parts) if kept is None else None
    if stored is None:
        return kept
    shown = stored.entry.text

    def rows(conditions: Sequence[str]) -> DataFrame:
        with reading(shown):
            return expanded(
                spark, stored, _of_view(spark, shown, stored.query, stored.settings, stored.items, conditions)
            )

    with reading(shown):
        if not names_delta_tables(spark, stored.query, settings=stored.settings):
            return None
        return ViewRows(rows, stored.query, lambda: stored.items)


def _rows_of_kept(spark: SparkSession, view: KeptView, shown: str, conditions: Sequence[str]) -> DataFrame:
    statement = _of_view(spark, shown, view.query, view.settings, view.items, conditions)
    statement.views |= view.frames
    frame = view.settings.rows(spark, shown, statement, _aliased(view.items))
    return frame if view.items else frame.toDF(*view.columns)


def _of_view(
    spark: SparkSession,
    shown: str,
    query: str,
    settings: ViewSettings,
    items: Mapping[str, str],
    conditions: Sequence[str],
) -> StatementOnViews:
    """Return the query of the view `shown`. Rows with a false condition on its columns `items` may be missing.

    `items` are SQL text over the query's columns.
    """
    settings.require(spark, shown)
    if conditions:
        # The columns and the conditions are around the query only for the choice of files.
        named = {token.value.lower() for each in conditions for token in tokens_of(each) or () if token.is_name}
        columns = _aliased({name: text for name, text in items.items() if name.lower() in named})
        before = f"SELECT 1 FROM (SELECT {', '.join(columns)} FROM ("  # noqa: S608
        after = f"\n)) WHERE {all_of(conditions)}"
        found = rewritten(spark, before + query + after, settings=settings)
        # The time of a transaction replaces a time function in a condition.
        if found is not None and found.text.startswith(before) and found.text.endswith(after):
            return StatementOnViews(found.text.removeprefix(before).removesuffix(after), found.views)
    return rewritten(spark, query, settings=settings) or StatementOnViews(query)


def _aliased(items: Mapping[str, str]) -> list[str]:
    # With aliases, each read has its own attributes, so that two frames of a view can be joined on their columns.
    return [f"{text} AS {quoted(name)}" for name, text in items.items()]


def _is_kept(relation: Relation, kept: Mapping[tuple[str, ...], object]) -> bool:
    return relation.arguments is None and relation.travel is None and relation.parts in kept


def _tables(
    spark: SparkSession, blocks: Sequence[Block], kept: Collection[tuple[str, ...]] = ()
) -> dict[tuple[str, ...], NamedTable]:
    """Return the Delta tables among the relations, except the views `kept`. Each name is looked up once."""
    tables: dict[tuple[str, ...], NamedTable | None] = {}
    for block in blocks:
        for relation in block.relations:
            if relation.arguments is not None:
                if changes_function(relation) is not None:
                    tables[_key(relation)] = changed_table(spark, relation)
            elif _key(relation) not in tables and relation.parts not in kept:
                tables[_key(relation)] = named_table(spark, relation.parts)
    return {key: table for key, table in tables.items() if table is not None}


def _key(relation: Relation) -> tuple[str, ...]:
    return relation.parts if relation.arguments is None else ("", *relation.parts, *relation.arguments)


@dataclass(frozen=True)
class _Reads:
    """The reads of a block: the frames of its Delta tables, and the conditions for its views over Delta tables."""

    tables: Mapping[Relation, DataFrame]
    views: Mapping[Relation, Sequence[str]]

    @staticmethod
    def of(
        spark: SparkSession,
        block: Block,
        tokens: Sequence[Token],
        tables: Mapping[tuple[str, ...], NamedTable],
        kept: Mapping[tuple[str, ...], ViewRows],
        prunes: bool,
        settings: ViewSettings | None,
    ) -> _Reads:
        """Return the reads of the block. With `prunes`, for the WHERE of this and enclosing blocks."""
        seen = {
            each: table_use(spark, with_zones(spark, each, settings), tables[_key(each)])
            for each in block.relations
            if _key(each) in tables
        }
        views = [each for each in block.relations if _is_kept(each, kept)]
        pushed: Mapping[Relation, list[str]] = {}
        if prunes and (block.where is not None or block.user is not None):
            columns = {relation: names for relation in views if (names := kept[relation.parts].columns())}
            columns |= {relation: each.schema.names for relation, each in seen.items()}
            pushed = pushed_conditions(block, columns, tokens, case_counts=is_case_sensitive(spark))
        return _Reads(
            {relation: each.frame(each.useful(pushed.get(relation, ()))) for relation, each in seen.items()},
            {relation: pushed.get(relation, ()) for relation in views},
        )


def _has_own_metadata(
    spark: SparkSession,
    blocks: Sequence[Block],
    frames: Sequence[DataFrame],
    tables: Collection[tuple[str, ...]],
    kept: Mapping[tuple[str, ...], ViewRows],
) -> bool:
    """Return whether a relation of the statement has a real column METADATA, which is preferred to a hidden one."""
    if any(METADATA in map(str.lower, frame.columns) for frame in frames):
        return True
    named = [each for block in blocks for each in block.relations]
    # The columns of files by path, and of functions, cost a job or more.
    others = {each.parts for each in named if each.arguments is None and path_in_parts(each.parts) is None}
    for parts in others - set(tables):
        with suppress(AnalysisException):
            frame = (
                kept[parts].read(()) if parts in kept else sql_over(spark, f"TABLE {'.'.join(map(quoted, parts))}", {})
            )
            if METADATA in map(str.lower, frame.columns):
                return True
    return False


def _selected(frame: DataFrame, text: str, tokens: Sequence[Token], relation: Relation) -> DataFrame:
    """Return only the columns needed by the statement, if this reduces the read.

    Otherwise return `frame`, and Spark prunes the columns.
    """
    if not replans_on_select(frame) or renames_columns(text, relation):
        return frame
    needed = needed_columns(tokens, frame.columns)
    if needed is None:
        return frame
    kept = [F.col(quoted(name)) for name in frame.columns if name in needed]
    return frame.select(*kept or [F.lit(1).alias("__slackwater_row")])
