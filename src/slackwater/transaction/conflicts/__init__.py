"""The race for a version: what was read, what the winners did, whether both may count."""
