"""Reads of one version: file pruning, deletion vectors, row scans, and file lifetimes."""
