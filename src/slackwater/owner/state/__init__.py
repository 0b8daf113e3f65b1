"""What an owner keeps in its database: heads, promises, read timestamps, and its clock."""
