"""`slackwater query`: SQL over tables, by an engine that is installed: DuckDB, else Polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Annotated, Any

import pyarrow as pa
import sqlglot
import typer
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from slackwater.cli.arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.cli.key_values import key_values
from slackwater.cli.render import print_note
from slackwater.cli.rows.values import show_rows
from slackwater.errors import InvalidArgument
from slackwater.markup.figures import counted
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.snapshot import Snapshot

_ENGINES = {"duckdb": "DuckDB", "polars": "Polars"}


def query_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help='A query, e.g. "SELECT count(*) FROM t".')],
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="NAME=PATH", help="A table by the name that the query has; repeatable."),
    ],
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """The rows that a query over one or several tables gives, by DuckDB or Polars where one is installed.

    Stderr says which one. Of each table only the columns that the query names are read, into memory.
    """
    form = form_of(as_json, as_csv)
    engine = _engine()
    options = storage_options(storage_option)
    snapshots = {
        name: Snapshot.load(path, storage_options=options) for name, path in key_values(table, "--table").items()
    }
    columns = _columns_read(sql, {name: snapshot.schema for name, snapshot in snapshots.items()})
    print_note(f"asked {_ENGINES[engine]} {version_of(engine)}; {'; '.join(_told(snapshots, columns))}")
    tables = {name: snapshot.to_arrow(columns[name]) for name, snapshot in snapshots.items()}
    show_rows(_by_duckdb(sql, tables) if engine == "duckdb" else _by_polars(sql, tables), form)


def _engine() -> str:
    found = next((name for name in _ENGINES if find_spec(name) is not None), None)
    if found is None:
        raise InvalidArgument("a query needs DuckDB or Polars, and neither is installed: pip install duckdb")
    return found


def _told(snapshots: Mapping[str, Snapshot], columns: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{name}: version {snapshot.version}, {len(columns[name])} of {counted(len(snapshot.schema), 'column')}"
        for name, snapshot in snapshots.items()
    ]


def _by_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        # A name that is no table must not be a variable of this program.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        try:
            found = connection.sql(sql)
            if found is None:
                raise InvalidArgument("a query gives rows: SELECT …")
            return found.to_arrow_table()
        except duckdb.Error as error:
            raise InvalidArgument(f"DuckDB: {_sentence(error)}") from error


def _by_polars(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    import polars as pl

    frames: dict[str, Any] = {name: pl.from_arrow(rows) for name, rows in tables.items()}
    try:
        return pl.SQLContext(frames, eager=True).execute(sql).to_arrow()
    except pl.exceptions.PolarsError as error:
        raise InvalidArgument(f"Polars: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    # Below stand the query and a mark where it goes wrong.
    return str(error).split("\n\n")[0]


def _columns_read(sql: str, schemas: Mapping[str, StructType]) -> dict[str, list[str]]:
    """The columns of each table that `sql` may read; all where that cannot be told."""
    everything = {name: list(schema.names) for name, schema in schemas.items()}
    try:
        named = _columns_named(sql, schemas)
    except (SqlglotError, RecursionError, KeyError, ValueError):
        return everything
    # A table without a column would be one without rows.
    return {name: _in_order(schema, named.get(name.lower(), set())) for name, schema in schemas.items()}


def _columns_named(sql: str, schemas: Mapping[str, StructType]) -> dict[str, set[str]]:
    known: dict[str, Any] = {
        name.lower(): {column.lower(): "UNKNOWN" for column in schema.names} for name, schema in schemas.items()
    }
    tree = qualify(sqlglot.parse_one(sql, dialect="duckdb"), dialect="duckdb", schema=known)
    if not isinstance(tree, exp.Query):
        raise ValueError(sql)  # noqa: TRY004  (the text is at fault)
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(tree):
        for column in scope.columns:
            source = _source(scope, column.table)
            if isinstance(source, exp.Table):
                found.setdefault(source.name.lower(), set()).add(column.name.lower())
    return found


def _source(scope: Scope, name: str) -> Any:
    """What a column is of, in a sub-query perhaps a table of the query around it. Raises ValueError."""
    around: Scope | None = scope
    while around is not None:
        if name in around.sources:
            return around.sources[name]
        around = around.parent
    raise ValueError(name)


def _in_order(schema: StructType, names: Sequence[str] | set[str]) -> list[str]:
    return [name for name in schema.names if name.lower() in names] or list(schema.names[:1])
