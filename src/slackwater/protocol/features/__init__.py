"""Table features: their names, and their requirements for tables and writers."""
