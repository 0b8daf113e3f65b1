"""Transaction-time relations: every version of every row of a table."""
