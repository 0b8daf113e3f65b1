"""Planning of a scan as a Spark job, for logs that are too large for the driver."""
