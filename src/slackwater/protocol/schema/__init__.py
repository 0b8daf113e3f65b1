"""Schemas: types, fields, paths of columns, types that were widened."""
