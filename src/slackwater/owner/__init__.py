"""The commit owner. Ratifies the commits of its tables, embedded in a process or served over HTTP."""
