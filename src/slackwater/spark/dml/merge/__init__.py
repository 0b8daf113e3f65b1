"""MERGE as a Spark plan: its clauses, the matching rows, the source."""
