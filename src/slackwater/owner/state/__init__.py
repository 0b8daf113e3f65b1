"""State of an owner in its database: log heads, timestamp reservations, read timestamps, and the clock."""
