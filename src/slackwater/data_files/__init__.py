"""Data files as Arrow batches: read and written by pyarrow in whatever process has them to do, without Spark."""
