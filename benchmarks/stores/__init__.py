"""Tables in an object store, beside the same work of others."""
