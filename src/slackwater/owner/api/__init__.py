"""The contract of a commit owner: all that the log and transactions see of it."""
