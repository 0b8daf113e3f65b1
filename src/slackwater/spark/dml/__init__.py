"""DELETE and UPDATE as Spark plans: find the matching rows, then rewrite files or write deletion vectors."""
