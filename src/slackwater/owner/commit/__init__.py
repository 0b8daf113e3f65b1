"""Commit pipeline of an owner: allocates versions and timestamps, stages, ratifies, and answers retries."""
