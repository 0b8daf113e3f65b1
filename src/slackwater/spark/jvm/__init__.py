"""Python objects that the JVM of a classic session calls: a file index, local rows, and their errors."""
