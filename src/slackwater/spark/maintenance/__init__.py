"""Table services in Spark plans, with delta-spark's options and results."""
