"""The commit owner: it ratifies the commits of its tables, embedded in a process or served over HTTP."""
