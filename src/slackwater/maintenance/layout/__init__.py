"""Which rows of a table are together in a file: bins of small files, curves, cubes of clustered tables."""
