"""Reads of one version: deletion vectors, row scans, and file lifetimes."""
