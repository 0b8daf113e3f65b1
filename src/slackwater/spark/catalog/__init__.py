"""Names of tables: names of the session's catalog, paths, and lakes attached to a session."""
