"""DELETE, UPDATE, MERGE, INSERT and TRUNCATE of Delta tables with the methods of `DeltaTable`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, SqlSyntaxError, UnsupportedFeature
from slackwater.predicate.sql_split import has_subquery
from slackwater.protocol.features.identity_columns import is_identity
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.frames import session_views
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.sql.query import rewritten
from slackwater.spark.sql.statement import Statement, affected, nothing
from slackwater.spark.table.named import NamedTable, named_table
from slackwater.spark.write.alignment import named_by_position
from slackwater.sql import changes as parsed
from slackwater.sql.ctes import with_tables_inside
from slackwater.sql.lexer import TokenCursor, closing, name_at, quoted, tokens_of
from slackwater.sql.relations import Relation, relations_of
from slackwater.sql.text_edits import TextEdit, apply_edits, without_database

_WHOLE = "SELECT * FROM "


def delete(statement: Statement) -> DataFrame | None:
    """Run `DELETE FROM t [WHERE …]`, with sub-queries if present; one row, `num_affected_rows`."""
    target = named_target(statement, "DELETE", "FROM")
    if target is None:
        return None
    statement = statement.on_delta()
    change = parsed.delete_of(statement.cursor())
    if change.alias is None:
        change = parsed.delete_of(_shortened(statement, target.qualified).cursor())
    named = _aliased(target, change.alias)
    with _over_tables(statement, [change.condition]) as (condition,):
        return affected(statement.spark, named.table._delete(condition))


def update(statement: Statement) -> DataFrame | None:
    """Run `UPDATE t SET … [WHERE …]`, with sub-queries if present; one row, `num_affected_rows`."""
    target = named_target(statement, "UPDATE")
    if target is None:
        return None
    statement = statement.on_delta()
    change = parsed.update_of(statement.cursor())
    if change.alias is None:
        change = parsed.update_of(_shortened(statement, target.qualified).cursor())
    named = _aliased(target, change.alias)
    with _over_tables(statement, [change.condition, *change.values.values()]) as (condition, *given):
        values = {name: text or "" for name, text in zip(change.values, given, strict=True)}
        return affected(statement.spark, named.table._update(condition, values))


def merge(statement: Statement) -> DataFrame | None:
    """Run `MERGE INTO t USING … ON … WHEN …`; one row, MERGE_RESULT."""
    start = ("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO")
    target = named_target(statement, *start) or named_target(statement, "MERGE", "INTO")
    if target is None:
        return None
    statement = statement.on_delta()
    change = parsed.merge_of(statement.cursor())
    names = [] if change.alias else target.qualified
    change = parsed.merge_of(_shortened(statement, names + _source_names(statement, change.source)).cursor())
    named = _aliased(target, change.alias)
    source = statement.query(_WHOLE + change.source)
    alias = _source_alias(change.source)
    builder = named.table.merge(source.alias(alias) if alias else source, change.condition)
    written = [value for clause in change.clauses for value in (clause.values or {}).values()]
    with _over_tables(statement, written) as found:
        values = iter(found)
        for clause in change.clauses:
            given = None if clause.values is None else {name: next(values) or "" for name in clause.values}
            builder = _with_clause(builder, replace(clause, values=given))
        return (builder.withSchemaEvolution() if change.evolves else builder).execute()


def truncate(statement: Statement) -> DataFrame | None:
    """Run `TRUNCATE TABLE t`: delete all rows."""
    named = named_target(statement, "TRUNCATE", "TABLE")
    if named is None:
        return None
    cursor = statement.cursor()
    cursor.expect("TRUNCATE", "TABLE")
    cursor.name()
    if cursor.peek("PARTITION"):
        raise UnsupportedFeature(
            "TRUNCATE TABLE … PARTITION is not supported. Use DELETE FROM … WHERE",
            error_class="DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED",
        )
    cursor.done()
    named.table._delete(None)
    return nothing(statement.spark)


def insert(statement: Statement) -> DataFrame | None:
    """Run `INSERT INTO | OVERWRITE t …` in all its forms; no rows."""
    cursor = statement.cursor()
    if cursor.peek("WITH"):
        cursor.until("INSERT")
    if not cursor.accept("INSERT"):
        return None
    cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    if cursor.accept_any("INTO", "OVERWRITE") is None:
        return None
    _require_no_directory(cursor)
    cursor.accept("TABLE")
    name = name_at(cursor.tokens, cursor.at)
    named = None if name is None else named_table(statement.spark, name.parts)
    if named is None:
        return None
    statement = statement.on_delta()
    _Insert(statement, named, parsed.insert_of(statement.cursor())).run()
    return nothing(statement.spark)


def _require_no_directory(cursor: TokenCursor) -> None:
    """Raise UnsupportedFeature for `[LOCAL] DIRECTORY '/path' USING delta`: files without a log."""
    words = [cursor.ahead(at) for at in range(5) if cursor.ahead(at) != "LOCAL"]
    if words[0] == "DIRECTORY" and "USING" in words and words[words.index("USING") + 1 :][:1] == ["DELTA"]:
        raise UnsupportedFeature(
            "INSERT OVERWRITE DIRECTORY … USING delta is not supported. Use INSERT OVERWRITE delta.`/path`, or "
            "CREATE TABLE delta.`/path` AS SELECT",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )


_CHANGING = (
    ("DELETE", "FROM"), ("UPDATE",), ("MERGE", "INTO"), ("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"),
    ("INSERT", "INTO", "TABLE"), ("INSERT", "INTO"), ("INSERT", "OVERWRITE", "TABLE"), ("INSERT", "OVERWRITE"),
    ("INSERT", "WITH", "SCHEMA", "EVOLUTION", "INTO"), ("TRUNCATE", "TABLE"), ("OPTIMIZE",),
)  # fmt: skip


def explain(statement: Statement) -> None:
    """Reject `EXPLAIN` of a change of a Delta table, because a change has several plans. Leave others to Spark."""
    cursor = statement.cursor()
    cursor.expect("EXPLAIN")
    cursor.accept_any("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL", "ANALYZE")
    for words in _CHANGING if cursor.ahead() in {words[0] for words in _CHANGING} else ():
        if not cursor.peek(*words):
            continue
        name = name_at(cursor.tokens, cursor.at + len(words))
        if name is not None and named_table(statement.spark, name.parts) is not None:
            raise UnsupportedFeature(
                f"{name.text}: EXPLAIN {words[0]} is not supported, because a change of rows has several plans. Use "
                "EXPLAIN on a query of the rows"
            )
        return


def insert_several(statement: Statement) -> None:
    """Reject `FROM q INSERT INTO a … INSERT INTO b …` if a target is a Delta table. Else leave it to Spark."""
    cursor = statement.cursor()
    for at in range(cursor.end):
        cursor.at = at
        if not cursor.accept("INSERT") or cursor.accept_any("INTO", "OVERWRITE") is None:
            continue
        cursor.accept("TABLE")
        name = name_at(cursor.tokens, cursor.at)
        if name is not None and named_table(statement.spark, name.parts) is not None:
            raise UnsupportedFeature(
                f"{name.text}: FROM … INSERT INTO of a Delta table is not supported. Use INSERT INTO … SELECT for "
                "each table, or a transaction of a lake for all of them"
            )


def with_common_tables(statement: Statement) -> DataFrame | None:
    """Run `WITH c AS (…)` before DELETE, UPDATE or MERGE of a Delta table."""
    words = {token.upper for token in statement.tokens}
    if not words & {"DELETE", "UPDATE", "MERGE"}:
        return None
    try:
        text = with_tables_inside(statement.cursor())
    except SqlSyntaxError:
        # Leave the error to Spark's parser.
        return None
    if text is None:
        return None
    inside = Statement(statement.spark, text, tokens_of(text) or [], statement.args, statement.views)
    return {"DELETE": delete, "UPDATE": update, "MERGE": merge}[inside.first](inside)


def named_target(statement: Statement, *words: str) -> NamedTable | None:
    """Return the Delta table after these first words of the statement, None for another statement or table."""
    cursor = statement.cursor()
    if not cursor.accept(*words):
        return None
    name = name_at(cursor.tokens, cursor.at)
    return None if name is None else named_table(statement.spark, name.parts)


def _aliased(named: NamedTable, alias: str | None) -> NamedTable:
    """Return the table with the alias that qualifies its columns in the statement."""
    return replace(named, table=named.table.alias(alias or named.alias))


def _shortened(statement: Statement, names: Sequence[tuple[str, ...]]) -> Statement:
    """Return the statement with `t.c` for a column `db.t.c` of a table with one of these names."""
    relation = Relation((), -1, -1, None, -1)
    return statement.edited(without_database(statement.tokens, {relation: names}))


def _source_names(statement: Statement, source: str) -> list[tuple[str, ...]]:
    """Return the names of several parts for a MERGE's source without an alias."""
    tokens = tokens_of(_WHOLE + source) or []
    found = relations_of(_WHOLE + source, tokens)
    if len(found) != 1 or found[0].alias is not None or tokens[3].upper == "(":
        return []
    parts = found[0].parts
    named = named_table(statement.spark, parts)
    if named is not None:
        return named.qualified
    return [parts, (SPARK_CATALOG, *parts)] if len(parts) == 2 else [parts]


@contextmanager
def _over_tables(statement: Statement, texts: Sequence[str | None]) -> Iterator[list[str | None]]:
    """Yield conditions and values with temporary views for the Delta tables of their sub-queries, within the block."""
    views, found = dict(statement.views or {}), list(texts)
    for at, text in enumerate(texts):
        changed = rewritten(statement.spark, text) if text is not None and has_subquery(text) else None
        if changed is not None:
            views.update(changed.views)
            found[at] = changed.text
    if not any(text is not None and has_subquery(text) for text in texts):
        yield found
        return
    with session_views(statement.spark, views):
        yield found


def _source_alias(source: str) -> str | None:
    """Return the name that qualifies the columns of a MERGE's source."""
    tokens = tokens_of(source) or []
    relations = relations_of(_WHOLE + source, tokens_of(_WHOLE + source) or [])
    if tokens and tokens[0].upper == "(":
        behind = closing(tokens).get(0, len(tokens) - 1) + 1
        behind += behind < len(tokens) and tokens[behind].upper == "AS"
        return tokens[behind].value if behind < len(tokens) and tokens[behind].is_name else None
    return relations[0].shown if relations else None


def _with_clause(builder: Any, clause: parsed.Clause) -> Any:
    by = {
        parsed.MATCHED: "Matched",
        parsed.NOT_MATCHED: "NotMatched",
        parsed.NOT_MATCHED_BY_SOURCE: "NotMatchedBySource",
    }
    method = f"when{by[clause.kind]}{clause.action.capitalize()}"
    if clause.action == parsed.DELETE:
        return getattr(builder, method)(condition=clause.condition)
    if clause.values is None:
        if clause.kind == parsed.NOT_MATCHED_BY_SOURCE:
            raise InvalidArgument(
                "WHEN NOT MATCHED BY SOURCE has no source row for UPDATE SET *. Name the columns after SET"
            )
        return getattr(builder, f"{method}All")(condition=clause.condition)
    named = {"set" if clause.action == parsed.UPDATE else "values": clause.values}
    return getattr(builder, method)(condition=clause.condition, **named)


class _Insert:
    """An INSERT: maps its rows to columns and writes them to the table."""

    def __init__(self, statement: Statement, named: NamedTable, given: parsed.Insert) -> None:
        self._statement = statement
        self._given = given
        self._named = named
        snapshot = named.table._snapshot()
        self._schema: StructType = snapshot.schema
        self._rules = row_rules(snapshot.configuration)
        self._partitioned_by = snapshot.metadata.partition_columns
        self._partitions = partition_values(given.partition, self._partitioned_by)

    def run(self) -> None:
        given = self._given
        if given.replace_using is not None or given.replace_on is not None:
            raise UnsupportedFeature(
                "INSERT … REPLACE USING and REPLACE ON are not supported. Use MERGE, or REPLACE WHERE"
            )
        options: dict[str, Any] = {"mergeSchema": "true"} if given.evolves else {}
        frame = self._rows()
        if given.replace_where is not None:
            options["replaceWhere"] = given.replace_where
        elif given.overwrites and self._static and not self._keeps_other_partitions():
            options["replaceWhere"] = " AND ".join(
                f"{quoted(name)} <=> {value}" for name, value in self._static.items()
            )
        overwrites = given.overwrites or given.replace_where is not None
        self._named.table._write(frame, "overwrite" if overwrites else "append", options)

    @property
    def _static(self) -> dict[str, str]:
        """The partition columns with one value for all rows, set by the statement."""
        return {name: value for name, value in self._partitions.items() if value is not None}

    def _keeps_other_partitions(self) -> bool:
        """Return whether only partitions of the written rows are overwritten. Source: Spark's ResolveInsertInto."""
        mode = SessionSettings.of(self._statement.spark).partition_overwrite_mode.lower()
        return mode == "dynamic" and len(self._static) < len(self._partitioned_by)

    def _rows(self) -> DataFrame:
        """Return the rows with the names of their target columns."""
        given, static = self._given, self._static
        columns = self._columns(static)
        frame = self._statement.query(_with_defaults(given.query, columns, self._defaults()))
        if not given.by_name:
            frame = self._placed(frame, columns)
        for name, value in static.items():
            frame = frame.withColumn(name, F.expr(value))
        return frame

    def _columns(self, static: Mapping[str, str]) -> list[str]:
        """Return the names of the target columns, in the order of the values."""
        if self._given.columns is not None:
            return [_unquoted(name) for name in self._given.columns]
        taken = {name.lower() for name in static}
        return [name for name in self._schema.names if name.lower() not in taken]

    def _placed(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        names = frame.columns
        if len(names) != len(columns) and self._given.columns is None:
            made = {generated.name for generated in self._rules.generated} | set(self._identities())
            columns = [name for name in columns if name not in made]
        if self._given.evolves and self._given.columns is None and len(names) > len(columns):
            columns = [*columns, *names[len(columns) :]]
        if len(names) != len(columns):
            raise InvalidArgument(
                f"{self._named.place.shown}: the rows have {len(names)} columns ({', '.join(names)}), but the INSERT "
                f"writes {len(columns)}: {', '.join(columns)}",
                error_class="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
            )
        return named_by_position(frame, columns, self._schema)

    def _identities(self) -> list[str]:
        return [column.name for column in self._schema if is_identity(column)]

    def _defaults(self) -> dict[str, str]:
        return {default.name.lower(): default.sql for default in self._rules.defaults}


def partition_values(text: str | None, partition_columns: Sequence[str]) -> dict[str, str | None]:
    """Return the partitions in `PARTITION (a = 1, b)`: a value, or None if the rows have the value."""
    if text is None:
        return {}
    cursor = TokenCursor(text, tokens_of(text) or [])
    known = {name.lower(): name for name in partition_columns}
    found: dict[str, str | None] = {}
    while not cursor.is_done:
        name = cursor.name("a partition column").parts[-1]
        if name.lower() not in known:
            raise InvalidArgument(
                f"{name} is not a partition column of the table. The partition columns are "
                f"{', '.join(partition_columns)}",
                error_class="DELTA_NON_PARTITION_COLUMN_SPECIFIED",
            )
        found[known[name.lower()]] = cursor.until(",") if cursor.accept("=") else None
        if not cursor.accept(","):
            cursor.done()
    return found


def _with_defaults(query: str, columns: Sequence[str], defaults: Mapping[str, str]) -> str:
    """Return `VALUES (1, DEFAULT)` with the columns' defaults inserted. Other queries stay unchanged."""
    tokens = tokens_of(query) or []
    if not tokens or tokens[0].upper != "VALUES" or not any(token.upper == "DEFAULT" for token in tokens):
        return query
    changes = []
    position = depth = 0
    for at, token in enumerate(tokens):
        depth += (token.upper in ("(", "[")) - (token.upper in (")", "]"))
        if token.upper == "(" and depth == 1:
            position = 0
        elif token.upper == "," and depth == 1:
            position += 1
        elif token.upper == "DEFAULT" and depth <= 1 and tokens[at - 1].upper in ("(", ",", "VALUES"):
            name = columns[position if depth else 0].lower() if position < len(columns) else ""
            changes.append(TextEdit(token.start, token.end, f"({defaults.get(name, 'NULL')})"))
    return apply_edits(query, changes)


def _unquoted(name: str) -> str:
    parts = TokenCursor(name, tokens_of(name) or []).name("a column").parts
    if len(parts) != 1:
        raise InvalidArgument(f"INSERT expected the name of a top-level column, found {name}")
    return parts[0]
