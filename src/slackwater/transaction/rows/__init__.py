"""Row and file actions: deletion vectors, row ids, and files added or removed in bulk."""
