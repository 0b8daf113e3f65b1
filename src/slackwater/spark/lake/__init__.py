"""Lakes, their transactions and time slices, with Spark."""
