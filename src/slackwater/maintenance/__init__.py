"""Table services that need no Spark: restore, vacuum, conversion, shallow clones, manifests."""
