"""The log of a table: its files, and their replay to the state of a version."""
