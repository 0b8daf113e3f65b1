"""Calls of a served owner, with their query parameters, envelopes and errors."""
