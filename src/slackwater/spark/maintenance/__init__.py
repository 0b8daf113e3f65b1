"""Table services as Spark plans, with delta-spark's options and results."""
