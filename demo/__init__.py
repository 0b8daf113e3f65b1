"""Slackwater on real data."""
