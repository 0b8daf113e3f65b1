"""Commands that show rows of tables."""
