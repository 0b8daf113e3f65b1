"""The client of a served commit owner."""
