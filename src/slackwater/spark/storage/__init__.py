"""Stores of a session: which URLs Spark and this process reach, and who reads and writes rows."""
