"""Command `slackwater query`: SQL over tables, by the first installed engine of DuckDB, Polars and sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Annotated, Any

import pyarrow as pa
import typer

from slackwater.cli.common.key_value_options import key_values
from slackwater.cli.common.progress import working
from slackwater.cli.common.render import print_note
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, Outside, StorageOption, form_of, storage_options
from slackwater.cli.rows.cell_format import show_rows
from slackwater.errors import InvalidArgument
from slackwater.html.number_format import counted
from slackwater.scan.snapshot import Snapshot

_ENGINES = {"duckdb": "DuckDB", "polars": "Polars"}
# Always installed, because this package depends on it.
_ALWAYS, _ALWAYS_TOLD = "sqlglot", "sqlglot over Arrow"


def query_command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help='Query, for example "SELECT count(*) FROM t".')],
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="NAME=PATH", help="Table with its name in the query. Repeatable."),
    ],
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
    allow_paths_outside_root: Outside = True,
) -> None:
    """Print the rows of a query over one or several tables.

    DuckDB or Polars runs the query, if installed. Otherwise sqlglot runs the query over Arrow, for small tables and
    plain queries. Stderr names the engine. Only the columns named by the query are read, into memory.

    Examples:
        slackwater query "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier" --table flights=/data/flights
    """
    # Load the parser for this command only.
    from slackwater.cli.rows.column_pruning import columns_read
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
            tables[name] = snapshot.to_arrow(columns[name], variant_format="json")
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
