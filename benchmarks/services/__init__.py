"""What table services cost, against the same work of others."""
