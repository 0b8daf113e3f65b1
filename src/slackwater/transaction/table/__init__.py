"""Changes of a table: the public transaction, alteration, removal of features."""
