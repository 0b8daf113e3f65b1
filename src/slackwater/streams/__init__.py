"""Tables as the sources of streams, without Spark: positions in a log, the files between two, what checkpoints say."""
