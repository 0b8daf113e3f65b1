"""Lakes: tables of one commit owner, transactions over many of them, time slices, without Spark."""
