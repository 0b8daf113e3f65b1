"""Contract of a commit owner for the log and for transactions. Its values define their own JSON form."""
