"""Reads and writes data files with pyarrow, in Arrow batches, in any process, without Spark."""
