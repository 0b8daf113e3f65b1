"""Transactions of one table: staged actions, validation, conflict detection and commits."""
