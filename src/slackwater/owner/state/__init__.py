"""State of an owner in its database: log heads, read timestamps, and the clock."""
