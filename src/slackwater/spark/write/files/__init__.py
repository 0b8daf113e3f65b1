"""Rows into data files: who writes them, where they are until they are committed, whether they are all there."""
