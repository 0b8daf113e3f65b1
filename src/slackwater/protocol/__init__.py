"""What the documents of the protocol say, as values and rules: nothing here reads or writes a file."""
