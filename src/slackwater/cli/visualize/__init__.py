"""Commands that visualize tables and lakes."""
