"""Lakes, transactions and time slices with Spark."""
