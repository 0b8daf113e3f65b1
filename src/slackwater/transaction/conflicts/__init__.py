"""Conflict detection: the read set, the winning commits, and the commit loop."""
