"""Committers: to the file system, through a commit owner, and to a branch of a larger transaction."""
