"""`DeltaTable` and its builder, with delta-spark's names."""
