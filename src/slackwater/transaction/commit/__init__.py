"""Transactions on one table: begin, stage, commit."""
