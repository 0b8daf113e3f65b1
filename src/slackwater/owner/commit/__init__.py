"""Commits and transactions that an owner ratifies: a timestamp is chosen, rows are flipped, retries are answered."""
