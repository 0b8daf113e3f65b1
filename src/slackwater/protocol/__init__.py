"""Values and rules of the Delta protocol. No module here reads or writes a file."""
