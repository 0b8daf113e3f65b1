"""Data files of a write: transports, staging until the commit, and the check of row counts."""
