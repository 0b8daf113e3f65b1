"""Rows of a table read in Python, without Spark."""
