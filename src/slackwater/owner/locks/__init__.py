"""Locks on tables and granules: holders, waiting requests, deadlock detection."""
