"""The JVM of a classic session: calls from the JVM into Python."""
