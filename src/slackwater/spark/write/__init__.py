"""From a DataFrame to data files and a commit."""
