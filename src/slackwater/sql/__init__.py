"""Statements of SQL taken apart: which tables they name, as of when, what they ask of each, what they change."""
