"""Committers: to a file system, by a commit owner, on a branch."""
