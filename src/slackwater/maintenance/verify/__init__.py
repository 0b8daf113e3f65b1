"""A table's log held against itself, against its checksums and against the files that it names."""
