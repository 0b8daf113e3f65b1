"""Ratified commits on their way into the log: backfill, and the files that are not needed any more."""
