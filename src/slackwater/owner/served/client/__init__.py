"""Client of a served commit owner."""
