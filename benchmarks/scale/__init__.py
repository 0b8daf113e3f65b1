"""Growth of costs with the size of a table: time, and memory of Python and the JVM, beside delta-spark."""
