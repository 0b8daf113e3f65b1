"""Command `slackwater query`: SQL over tables, by the first installed engine of DuckDB, Polars and sqlglot."""

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

from slackwater.cli.common.key_value_options import key_values
from slackwater.cli.common.progress import working
from slackwater.cli.common.render import print_note
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, Outside, StorageOption, form_of, storage_options
from slackwater.cli.rows.cell_format import show_rows
from slackwater.errors import InvalidArgument
from slackwater.html.number_format import counted
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.snapshot import Snapshot

_ENGINES = {"duckdb": "DuckDB", "polars": "Polars"}
# Always installed, because this package depends on it.
_ALWAYS, _ALWAYS_TOLD = "sqlglot", "sqlglot over Arrow"


def query_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help='A query, e.g. "SELECT count(*) FROM t".')],
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="NAME=PATH", help="A table by the name that the query has; repeatable."),
    ],
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
    allow_paths_outside_root: Outside = True,
) -> None:
    """Print the rows of a query over one or several tables, by DuckDB or Polars if one of them is installed.

    Otherwise sqlglot runs the query over Arrow, for small tables and plain queries. Stderr names the engine. Only the
    columns named by the query are read, into memory.
    """
    # Load the parser for this command only.
    from slackwater.cli.rows.query import columns_read
    from slackwater.cli.rows.sqlglot_engine import answered

    form = form_of(as_json, as_csv)
    engine = _engine()
    options = storage_options(storage_option)
    snapshots = {
        name: Snapshot.load(path, storage_options=options, allow_paths_outside_root=allow_paths_outside_root)
        for name, path in key_values(table, "--table").items()
    }
    columns = columns_read(sql, {name: snapshot.schema for name, snapshot in snapshots.items()})
    told = _ENGINES.get(engine, _ALWAYS_TOLD)
    print_note(f"asked {told} {version_of(engine)}; {'; '.join(_told(snapshots, columns))}")
    tables: dict[str, pa.Table] = {}
    with working("reading rows") as progress:
        for name, snapshot in snapshots.items():
            progress.at(f"reading {name}", len(tables), len(snapshots))
            tables[name] = snapshot.to_arrow(columns[name])
        progress.at(f"asking {told}", len(tables), len(snapshots))
        if engine == _ALWAYS:
            found = answered(sql, tables, {name: snapshot.schema for name, snapshot in snapshots.items()})
        else:
            found = _by_duckdb(sql, tables) if engine == "duckdb" else _by_polars(sql, tables)
    show_rows(found, form)


def _engine() -> str:
    return next((name for name in _ENGINES if find_spec(name) is not None), _ALWAYS)


def _told(snapshots: Mapping[str, Snapshot], columns: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{name}: version {snapshot.version}, {len(columns[name])} of {counted(len(snapshot.schema), 'column')}"
        for name, snapshot in snapshots.items()
    ]


def _by_duckdb(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        # An unknown table name must not resolve to a variable of this program.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        try:
            found = connection.sql(sql)
            if found is None:
                raise InvalidArgument("the statement is not a query. Use SELECT …")
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
    # The query and a marker of the error follow after an empty line.
    return str(error).split("\n\n")[0]


def columns_read(sql: str, schemas: Mapping[str, StructType]) -> dict[str, list[str]]:
    """Return the columns of each table that `sql` may read, or all columns if this is unknown."""
    everything = {name: list(schema.names) for name, schema in schemas.items()}
    try:
        named = _columns_named(sql, schemas)
    except (SqlglotError, RecursionError, KeyError, ValueError):
        return everything
    # Keep one column, because a table without columns would have no rows.
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
    """Return the source of a column, possibly a table of an enclosing query. Raises ValueError."""
    around: Scope | None = scope
    while around is not None:
        if name in around.sources:
            return around.sources[name]
        around = around.parent
    raise ValueError(name)


def _in_order(schema: StructType, names: Sequence[str] | set[str]) -> list[str]:
    return [name for name in schema.names if name.lower() in names] or list(schema.names[:1])
