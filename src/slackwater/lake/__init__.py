"""Lakes: tables of one commit owner, multi-table transactions and time slices, without Spark."""
