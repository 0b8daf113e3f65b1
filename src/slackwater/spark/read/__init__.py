"""Reads of a table: a DataFrame from a snapshot."""
