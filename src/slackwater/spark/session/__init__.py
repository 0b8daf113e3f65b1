"""Differences between sessions: classic and Connect, settings, names, types, shared storage."""
