"""DELETE and UPDATE as Spark plans: rows that match, files that are rewritten or get a deletion vector."""
