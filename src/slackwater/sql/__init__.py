"""Parsers of SQL statements: tables, time travel, filters, required columns, and changes of rows and tables."""
