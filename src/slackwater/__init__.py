"""Slackwater: Delta Lake in pure Python on Spark."""
