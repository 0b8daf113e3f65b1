"""Table properties, and the intervals that some of them hold."""
