"""File statistics: JSON and struct columns, Parquet footers, bounds, and data skipping."""
