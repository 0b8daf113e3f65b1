"""Streams that read and write tables."""
