"""A table's definition: created, altered, features removed."""
