"""Predicates for data skipping: the predicate type, literals, column resolution, and translation of SQL conditions."""
