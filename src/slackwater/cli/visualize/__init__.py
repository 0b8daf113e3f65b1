"""Commands that draw tables and lakes."""
