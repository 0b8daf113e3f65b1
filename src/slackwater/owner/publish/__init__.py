"""Publishing of ratified commits: backfill into the log, and deletion of unneeded files."""
