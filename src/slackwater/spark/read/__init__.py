"""From a snapshot to a DataFrame."""
