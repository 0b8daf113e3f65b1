"""Streaming sources without Spark: offsets, files between two offsets, and query checkpoints."""
