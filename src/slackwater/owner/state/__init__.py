"""What an owner keeps in its database: heads, locks, promises, read timestamps, and its clock."""
