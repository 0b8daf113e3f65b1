"""Translation of Spark's Columns and SQL text to predicates and to other Columns."""
