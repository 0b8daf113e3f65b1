"""Table services without Spark: restore, vacuum, conversion, shallow clones, manifests."""
