"""Transactions of one table: what is staged, what must be checked, how it is committed."""
