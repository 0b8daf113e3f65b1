"""Databases and rows of statements, as the tests of SQL have them."""

from __future__ import annotations

from tests.spark.sql.conftest import db, rows

__all__ = ["db", "rows"]
