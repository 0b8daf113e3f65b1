"""Tables as the sources of streams, without Spark: positions in a log, and the files between two of them."""
