"""How each engine that runs in this process reads a whole table; delta-spark has a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable

import pyarrow as pa

from .rows import rows_of

PeerRead = Callable[[str], pa.Table]


def with_datafusion(path: str) -> pa.Table:
    """deltalake, by its SQL engine."""
    import deltalake

    query = deltalake.QueryBuilder().register("interop", deltalake.DeltaTable(path))
    return pa.table(query.execute("SELECT * FROM interop"))


def with_deltalake_pyarrow(path: str) -> pa.Table:
    """deltalake, by its pyarrow dataset."""
    import deltalake

    return deltalake.DeltaTable(path).to_pyarrow_table()


def with_polars(path: str) -> pa.Table:
    """Polars, by its own Parquet reader over deltalake's log."""
    import polars

    return polars.read_delta(path).to_arrow()


def with_duckdb(path: str) -> pa.Table:
    """DuckDB with the delta extension of the package duckdb-extension-delta: loaded from its file, no download."""
    import duckdb

    # A connection for each read: after an internal error a database is unusable.
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{duckdb_extension()}'")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute("SELECT * FROM delta_scan(?)", [path]).to_arrow_table()


PEERS: dict[str, PeerRead] = {
    "datafusion": with_datafusion,
    "deltalake-pyarrow": with_deltalake_pyarrow,
    "duckdb": with_duckdb,
    "polars": with_polars,
}

_MODULES = {"datafusion": "deltalake", "deltalake-pyarrow": "deltalake", "duckdb": "duckdb", "polars": "polars"}


def why_absent(peer: str) -> str | None:
    """Why an engine cannot be asked on this machine; None where it can."""
    module = _MODULES[peer]
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed: pip install --group peers"
    if peer == "duckdb" and duckdb_extension() is None:
        return "duckdb-extension-delta is not installed in DuckDB's version: pip install --group peers"
    return None


def require_same_rows(read: Callable[[], pa.Table], expected: pa.Table, unreadable: str | None) -> None:
    """`read` finds the rows expected; where `unreadable` says why it cannot, it finds others or fails."""
    wanted = rows_of(expected)
    if unreadable is None:
        assert rows_of(read()) == wanted
        return
    try:
        agrees = rows_of(read()) == wanted
    except Exception:  # noqa: BLE001  (each engine fails with its own kinds)
        agrees = False
    assert not agrees, f"it is read now, although: {unreadable}"


def duckdb_extension(name: str = "delta") -> str | None:
    import duckdb

    try:
        package = importlib.metadata.distribution(f"duckdb-extension-{name.replace('_', '-')}")
    except importlib.metadata.PackageNotFoundError:
        return None
    pattern = f"*/v{duckdb.__version__}/{name}.duckdb_extension"
    found = next((file for file in package.files or () if file.match(pattern)), None)
    return None if found is None else str(package.locate_file(found))
