"""Schemas: data types, fields, column paths, type widening."""
