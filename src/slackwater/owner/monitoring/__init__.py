"""Monitoring of an owner for people: active transactions, locks and waits, recent commits."""
