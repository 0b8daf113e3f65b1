"""Conflict detection: the winning commits, their rules, and the commit loop."""
