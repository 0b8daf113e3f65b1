"""Conditions on rows, and what they say about files: the tree, literals, columns, SQL text."""
