"""Commands that print rows of tables."""
