"""Other log files: JSON and Parquet action writers, compactions, version checksums, and log cleanup."""
