"""Table services that need no Spark: restore, vacuum, shallow clones, manifests."""
