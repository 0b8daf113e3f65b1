"""Table definitions: creation, alteration and removal of features."""
