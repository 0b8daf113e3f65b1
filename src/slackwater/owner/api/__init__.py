"""The contract of a commit owner: all that the log and transactions see of it, in values that are their own JSON."""
