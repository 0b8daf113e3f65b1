"""Staged changes of one table: validation, reads, maintenance after a commit."""
