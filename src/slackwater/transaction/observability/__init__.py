"""Observability of commits: the line in the log, counters of the process, and spans of OpenTelemetry."""
