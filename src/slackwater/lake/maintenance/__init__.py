"""Maintenance of all tables of a lake: due tasks, their execution and the report."""
