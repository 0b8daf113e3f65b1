"""Conversion of Arrow tables to data frames of other libraries, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import InvalidArgument

if TYPE_CHECKING:
    import duckdb
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl


def polars_frame(rows: pa.Table) -> pl.DataFrame:
    """Return the rows in a Polars DataFrame. Raises InvalidArgument if Polars is not installed."""
    return _imported("polars").from_arrow(rows)  # type: ignore[no-any-return]


def pandas_frame(rows: pa.Table) -> pd.DataFrame:
    """Return the rows in a pandas DataFrame. Raises InvalidArgument if pandas is not installed."""
    _imported("pandas")
    return rows.to_pandas()


def duckdb_relation(rows: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return the rows in a relation of `connection`, or of DuckDB's default connection if None.

    Raises InvalidArgument if DuckDB is not installed.
    """
    maker = _imported("duckdb") if connection is None else connection
    return maker.from_arrow(rows)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InvalidArgument(f"{name} is not installed: pip install {name}") from error
