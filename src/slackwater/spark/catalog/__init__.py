"""Names of tables: those of the session's catalog, paths, and lakes that are attached to a session."""
