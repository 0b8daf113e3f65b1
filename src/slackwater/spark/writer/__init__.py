"""DataFrameWriter commands on Delta tables: create, append, overwrite, replace."""
