"""Timestamp requests of transactions, and time slices of all tables."""
