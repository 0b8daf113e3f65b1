"""Spark integration: all Spark plans, and the only package with PySpark imports."""
