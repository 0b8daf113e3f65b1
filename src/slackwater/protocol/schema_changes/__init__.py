"""Schema changes: add, rename, drop, widen, merge and replace columns."""
