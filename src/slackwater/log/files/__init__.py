"""Files of the log: commits, checkpoints, checksums, and the segment that builds a version."""
