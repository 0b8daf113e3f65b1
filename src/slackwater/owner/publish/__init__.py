"""Ratified commits on their way into the log: backfill, and the files that nobody needs any more."""
