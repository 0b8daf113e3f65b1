"""A table's log: its files, replayed to the actions that count in a version."""
