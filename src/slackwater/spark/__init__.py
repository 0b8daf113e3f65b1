"""Everything that is a Spark plan, and the only place that imports PySpark."""
