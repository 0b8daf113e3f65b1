"""File pruning: files that may match, and the files and statistics kept for the next query."""
