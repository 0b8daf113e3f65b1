"""`DeltaTable` and its builder, by delta-spark's names."""
