"""Verification of a table: log consistency, checksums and referenced files."""
