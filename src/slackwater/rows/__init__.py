"""Writes and deletes of rows without Spark: Arrow, pandas, Polars and DuckDB to a table."""
