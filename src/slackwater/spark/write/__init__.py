"""Writes of a DataFrame: data files and a commit."""
