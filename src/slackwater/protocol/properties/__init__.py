"""Table properties, and the intervals and sizes used by their values."""
