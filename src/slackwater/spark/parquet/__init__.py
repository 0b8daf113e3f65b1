"""Rules of Spark's Parquet reader and writer: calendars, types and field ids."""
