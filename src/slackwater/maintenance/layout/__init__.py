"""Data layout: bin packing of small files, space-filling curves, Z-cubes of clustered tables."""
