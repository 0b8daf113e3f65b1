"""Rows that change in files that stay: deletion vectors, row ids, files committed again, held or streamed."""
