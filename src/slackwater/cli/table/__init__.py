"""Commands on one table: what its log says, what keeps it healthy."""
