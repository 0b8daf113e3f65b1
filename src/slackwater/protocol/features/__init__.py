"""Table features: which there are, what each asks of a table and of who writes it."""
