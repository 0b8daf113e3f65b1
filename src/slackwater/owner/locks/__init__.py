"""Locks and timestamp reservations: lock queue, lock modes, deadlock detection."""
