"""Locks on tables and parts of them: who holds what, who waits, who gives way."""
